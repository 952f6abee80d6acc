//! What stands outside the records of a pipeline's topics: where the partitions end, and what the group has committed.

use std::fmt;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};

use crate::found::{Isolation, client, partitions, reader};
use crate::ledger::{Commit, Ends, Role};

/// One answer of a broker comes within this.
const PATIENCE: Duration = Duration::from_secs(60);

/// Asks, and never fetches a record.
pub(crate) struct Asker {
    topics: Vec<(Role, String)>,
    stable: BaseConsumer,
    all: BaseConsumer,
    group: BaseConsumer,
}

impl fmt::Debug for Asker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Asker").field("topics", &self.topics).finish_non_exhaustive()
    }
}

impl Asker {
    pub(crate) fn new(bootstrap: &str, group: &str, topics: &[(Role, String)]) -> Result<Self> {
        let mut group = client(bootstrap).set("group.id", group).clone();
        // With the other isolation the answer would wait for transactions that are open: here it is what is committed.
        group.set("isolation.level", Isolation::Uncommitted.as_str()).set("enable.auto.commit", "false");
        Ok(Self {
            topics: topics.to_vec(),
            stable: reader(bootstrap, &[], Isolation::Committed)?,
            all: reader(bootstrap, &[], Isolation::Uncommitted)?,
            group: group.create().context("creating a consumer")?,
        })
    }

    /// The ends of every partition as they are now.
    pub(crate) fn ends(&self) -> Result<Vec<Ends>> {
        let mut found = Vec::new();
        for (role, topic) in &self.topics {
            for partition in partitions(&self.all, topic)? {
                let watermarks = |client: &BaseConsumer| watermarks(client, topic, partition);
                // The stable one is asked for first, so it is never ahead of the end.
                let (_, stable) = watermarks(&self.stable)?;
                let (start, end) = watermarks(&self.all)?;
                found.push(Ends { role: *role, partition, start, stable, end });
            }
        }
        Ok(found)
    }

    /// What the group has committed in its lanes.
    pub(crate) fn commits(&self) -> Result<Vec<Commit>> {
        let lanes = || self.topics.iter().filter(|(role, _)| role.is_lane());
        let mut list = TopicPartitionList::new();
        for (_, topic) in lanes() {
            for partition in partitions(&self.group, topic)? {
                list.add_partition(topic, partition);
            }
        }
        let committed = self.group.committed_offsets(list, PATIENCE).context("fetching a group's offsets")?;
        let mut found = Vec::new();
        for element in committed.elements() {
            // Else no answer would look like no offset.
            element.error().with_context(|| format!("fetching the offset in `{}`", element.topic()))?;
            let role = lanes().find(|(_, topic)| topic == element.topic()).map(|(role, _)| *role);
            if let (Some(role), Offset::Offset(offset)) = (role, element.offset()) {
                found.push(Commit { role, partition: element.partition(), offset });
            }
        }
        Ok(found)
    }
}

/// Where a partition begins and ends. Its leader may move meanwhile: then it is asked again.
fn watermarks(client: &BaseConsumer, topic: &str, partition: i32) -> Result<(i64, i64)> {
    let until = now() + PATIENCE;
    loop {
        match client.fetch_watermarks(topic, partition, PATIENCE) {
            Ok(watermarks) => return Ok(watermarks),
            Err(_) if now() < until => std::thread::sleep(Duration::from_millis(100)),
            Err(error) => {
                return Err(error).with_context(|| format!("asking where `{topic}/{partition}` ends"));
            }
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "the bound of a wait")]
fn now() -> Instant {
    Instant::now()
}
