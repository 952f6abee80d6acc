//! The three nodes of the tests: whichever is killed, the others go on, nothing is lost, and no transaction hangs.

use std::time::Duration;

use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, TopicReplication};
use rdkafka::client::DefaultClientContext;
use rdkafka::error::KafkaError;
use rdkafka::producer::{BaseProducer, BaseRecord, DefaultProducerContext, Producer, ThreadedProducer};

use crate::cluster::Cluster;
use crate::found::{self, Isolation};
use crate::support::PATIENCE;

const TOPIC: &str = "numbers";
const PARTITIONS: i32 = 3;
/// Records of a transaction.
const BATCH: usize = 10;
/// Transactions before, during and after the absence of a node.
const TRANSACTIONS: usize = 10;

#[test]
fn each_of_three_nodes_is_killed_and_nothing_is_lost_and_no_transaction_hangs() {
    let folder = tempfile::tempdir().unwrap();
    let cluster = Cluster::start(folder.path().join("kafka")).unwrap();
    make_topic(&cluster);
    let mut numbers = Numbers::of(&cluster);
    for node in Cluster::NODES {
        numbers.write(TRANSACTIONS);
        let left = leave_open(&cluster, node.0);
        cluster.kill(node).unwrap();
        drop(left);
        numbers.write(TRANSACTIONS);
        cluster.restart(node).unwrap();
        numbers.write(TRANSACTIONS);
        cluster.wait_until_whole().unwrap();
    }

    cluster.wait_until_stable().unwrap();
    let found = found::records(cluster.bootstrap(), TOPIC, Isolation::Committed).unwrap();
    let number =
        |value: Option<Vec<u8>>| String::from_utf8(value.unwrap()).unwrap().parse::<usize>().unwrap();
    let mut found: Vec<usize> = found.into_iter().map(|found| number(found.value)).collect();
    found.sort_unstable();
    assert!(found.into_iter().eq(0..numbers.next), "every number once");
}

fn make_topic(cluster: &Cluster) {
    let admin: AdminClient<DefaultClientContext> = found::client(cluster.bootstrap()).create().unwrap();
    let topic = NewTopic::new(TOPIC, PARTITIONS, TopicReplication::Fixed(-1));
    let options = AdminOptions::new().operation_timeout(Some(PATIENCE));
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    let made = runtime.block_on(admin.create_topics([&topic], &options)).unwrap();
    assert!(made.iter().all(Result::is_ok), "{made:?}");
    cluster.wait_until_whole().unwrap();
}

/// Transactions of processes that are gone. Kafka ends each after a timeout of its own: some while no node leads.
fn leave_open(cluster: &Cluster, round: usize) -> Vec<BaseProducer> {
    let producer = |number: u32| {
        let producer: BaseProducer = found::client(cluster.bootstrap())
            .set("transactional.id", format!("left-{round}-{number}"))
            .set("transaction.timeout.ms", (1_000 + number * 500).to_string())
            .set("message.timeout.ms", "1000")
            .create()
            .unwrap();
        producer.init_transactions(PATIENCE).unwrap();
        producer.begin_transaction().unwrap();
        for partition in 0..PARTITIONS {
            let record = BaseRecord::<str, str>::to(TOPIC).partition(partition).payload("left");
            producer.send(record).map_err(|(error, _)| error).unwrap();
        }
        producer.flush(PATIENCE).unwrap();
        producer
    };
    (0..16).map(producer).collect()
}

/// Writes one number after another, each transaction until it is committed.
struct Numbers {
    producer: ThreadedProducer<DefaultProducerContext>,
    next: usize,
}

impl Numbers {
    fn of(cluster: &Cluster) -> Self {
        let producer: ThreadedProducer<_> = found::client(cluster.bootstrap())
            .set("transactional.id", "numbers")
            .set("transaction.timeout.ms", "60000")
            .create()
            .unwrap();
        producer.init_transactions(PATIENCE).unwrap();
        Self { producer, next: 0 }
    }

    fn write(&mut self, transactions: usize) {
        for _ in 0..transactions {
            while !self.committed() {
                self.producer.abort_transaction(PATIENCE).unwrap();
            }
            self.next += BATCH;
        }
    }

    fn committed(&self) -> bool {
        self.producer.begin_transaction().unwrap();
        for number in self.next..self.next + BATCH {
            let (key, value) = (number.to_string(), number.to_string());
            let record = BaseRecord::to(TOPIC).key(&key).payload(&value);
            self.producer.send(record).map_err(|(error, _)| error).unwrap();
        }
        loop {
            match self.producer.commit_transaction(Duration::from_secs(30)) {
                Ok(()) => return true,
                Err(KafkaError::Transaction(error)) if error.is_retriable() => {}
                Err(KafkaError::Transaction(error)) if error.txn_requires_abort() => return false,
                Err(error) => panic!("commit: {error}"),
            }
        }
    }
}
