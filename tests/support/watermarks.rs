//! Where the partitions of a topic end for either kind of reader.

use rdkafka::consumer::{BaseConsumer, Consumer};

use crate::found::{Isolation, partitions, reader};
use crate::support::{Kafka, PATIENCE};

/// Looks at the end of one topic.
pub(crate) struct Watermarks {
    topic: String,
    partitions: Vec<i32>,
    committed: BaseConsumer,
    uncommitted: BaseConsumer,
}

impl Watermarks {
    pub(crate) fn of(kafka: &Kafka, topic: &str) -> Self {
        // Without topics: they only ask, and never fetch.
        let client = |isolation| reader(kafka.bootstrap(), &[], isolation).expect("make a client");
        let (committed, uncommitted) = (client(Isolation::Committed), client(Isolation::Uncommitted));
        let partitions = partitions(&committed, topic).expect("the partitions");
        Self { topic: topic.to_owned(), partitions, committed, uncommitted }
    }

    /// Whether something lies behind a last stable offset, that is, in an open transaction.
    pub(crate) fn is_open(&self) -> bool {
        // The stable one is asked for last: what lies behind it lay there all the while.
        self.partitions.iter().any(|partition| {
            let end = self.end(&self.uncommitted, *partition);
            end > self.end(&self.committed, *partition)
        })
    }

    fn end(&self, client: &BaseConsumer, partition: i32) -> i64 {
        client.fetch_watermarks(&self.topic, partition, PATIENCE).expect("the ends of a partition").1
    }
}
