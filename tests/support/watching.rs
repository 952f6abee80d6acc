//! The ledger's [watch](crate::ledger::Watch) of a real Kafka: a thread that samples every second while workers run and die.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, anyhow, ensure};
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::KafkaError;
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};

use crate::ends::Asker;
use crate::found::{self, Isolation, partitions};
use crate::ledger::{Finding, Next, Report, Role, Rules, Start, Watch};
use crate::readback::seen;

/// Between two cuts.
const PAUSE: Duration = Duration::from_secs(1);
/// Between two looks at a transaction that has to end first.
const SHORT_PAUSE: Duration = Duration::from_millis(100);
/// Brokers that are away come back within this.
const PATIENCE: Duration = Duration::from_secs(120);

/// What a watch has found so far.
#[derive(Clone, Debug, Default)]
pub(crate) struct Found {
    /// Cuts that are proved.
    pub(crate) cuts: u32,
    pub(crate) findings: Vec<Finding>,
}

/// A watch that goes on until it is told to finish.
#[derive(Debug)]
pub(crate) struct Watching {
    told: Arc<AtomicBool>,
    found: Arc<Mutex<Found>>,
    thread: JoinHandle<Result<Watch>>,
}

impl Watching {
    /// Begins; the topics are there.
    pub(crate) fn start(
        bootstrap: &str,
        group: &str,
        topics: &[(Role, String)],
        rules: Rules,
    ) -> Result<Self> {
        let told = Arc::new(AtomicBool::new(false));
        let read = topics.iter().filter(|(role, _)| *role != Role::State);
        let mut watcher = Watcher {
            asker: Asker::new(bootstrap, group, topics)?,
            readers: read.map(|(role, topic)| Reader::new(bootstrap, *role, topic)).collect::<Result<_>>()?,
            watch: Watch::new(rules),
            began: now(),
        };
        let found = Arc::default();
        let (stop, tell) = (Arc::clone(&told), Arc::clone(&found));
        let thread = thread::spawn(move || watcher.run(&stop, &tell).map(|()| watcher.watch));
        Ok(Self { told, found, thread })
    }

    /// While it goes on.
    pub(crate) fn found(&self) -> Found {
        self.found.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// After the last process has ended: takes a last cut, and judges the whole run.
    pub(crate) fn finish(self, starts: Option<&[Start]>) -> Result<Report> {
        self.told.store(true, Ordering::SeqCst);
        self.thread.thread().unpark();
        let watch = self.thread.join().map_err(|_| anyhow!("the watch has panicked"))??;
        Ok(watch.finish(starts))
    }
}

struct Watcher {
    asker: Asker,
    readers: Vec<Reader>,
    watch: Watch,
    began: Instant,
}

impl Watcher {
    fn run(&mut self, told: &AtomicBool, tell: &Mutex<Found>) -> Result<()> {
        let mut heard = now();
        let mut cuts = 0;
        // After the word to finish one cut may be proved that began before it, and then one that began after it.
        let mut last = None;
        loop {
            if told.load(Ordering::SeqCst) && last.is_none() {
                last = Some(cuts + 2);
                heard = now();
            }
            let looked = self.look();
            let proved = match &looked {
                Ok(proved) => *proved,
                Err(_) => None,
            };
            if let Some(proved) = proved {
                (heard, cuts) = (now(), proved);
            }
            let findings = self.watch.findings().cloned().collect();
            *tell.lock().unwrap_or_else(PoisonError::into_inner) = Found { cuts, findings };
            if last.is_some_and(|last| cuts >= last) {
                return Ok(());
            }
            let silent = heard.elapsed();
            if silent > PATIENCE {
                looked?;
                ensure!(silent <= PATIENCE, "no cut was proved for {silent:?}: a transaction is open");
            }
            let pause = if proved.is_some() && last.is_none() { PAUSE } else { SHORT_PAUSE };
            thread::park_timeout(pause);
        }
    }

    /// One sample; where it completes a cut, how many are proved.
    fn look(&mut self) -> Result<Option<u32>> {
        let commits = self.asker.commits()?;
        let ends = self.asker.ends()?;
        match self.watch.sample(self.millis(), &commits, &ends) {
            Next::Sample => Ok(None),
            Next::Read => {
                for reader in &self.readers {
                    reader.read_on(&mut self.watch)?;
                }
                Ok(Some(self.watch.prove(self.millis())))
            }
        }
    }

    fn millis(&self) -> i64 {
        i64::try_from(self.began.elapsed().as_millis()).unwrap_or(i64::MAX)
    }
}

/// Reads one topic on.
struct Reader {
    role: Role,
    topic: String,
    consumer: BaseConsumer,
}

impl Reader {
    fn new(bootstrap: &str, role: Role, topic: &str) -> Result<Self> {
        let consumer = found::client(bootstrap)
            // librdkafka wants a group's name; nothing is ever committed in it.
            .set("group.id", "redrive-test-watch")
            .set("enable.auto.commit", "false")
            // What retention deleted is the ledger's to judge.
            .set("auto.offset.reset", "earliest")
            .set("isolation.level", Isolation::Committed.as_str())
            .set("enable.partition.eof", "true")
            .set("fetch.queue.backoff.ms", "5")
            .set("fetch.wait.max.ms", "50")
            .set("queued.max.messages.kbytes", "4096")
            .create()
            .context("creating a consumer")?;
        Ok(Self { role, topic: topic.to_owned(), consumer })
    }

    /// To the stable end of each partition. An assignment anew is told that end even where nothing came since.
    fn read_on(&self, watch: &mut Watch) -> Result<()> {
        let mut list = TopicPartitionList::new();
        let mut open = BTreeSet::new();
        for partition in partitions(&self.consumer, &self.topic)? {
            let next = watch.next((self.role, partition));
            list.add_partition_offset(
                &self.topic,
                partition,
                next.map_or(Offset::Beginning, Offset::Offset),
            )?;
            open.insert(partition);
        }
        self.consumer.assign(&list).context("assigning partitions")?;
        let mut heard = now();
        while !open.is_empty() {
            match self.consumer.poll(Duration::from_millis(100)) {
                Some(Ok(message)) => watch.record(&seen(found::found(&message), self.role)),
                Some(Err(KafkaError::PartitionEOF(partition))) => {
                    open.remove(&partition);
                }
                // A broker that is away: it is asked again.
                Some(Err(_)) | None => {
                    let silent = heard.elapsed();
                    ensure!(silent < PATIENCE / 4, "`{}` gave nothing for {silent:?}", self.topic);
                    continue;
                }
            }
            heard = now();
        }
        self.consumer.assign(&TopicPartitionList::new()).context("assigning nothing")
    }
}

#[expect(clippy::disallowed_methods, reason = "the clock of a test")]
fn now() -> Instant {
    Instant::now()
}
