//! A cluster of one worker, in memory: the core driven directly, without time that passes by itself, and what Kafka would hold.
//!
//! It knows nothing of how an order is kept: it carries out transactions whole or not at all, gives back of the state topic
//! the last value of each key, and writes down what was done with every record. What of that is right says the test.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use redrive::core::class::Class;
use redrive::core::event::{
    AbortCause, Action, Delivery, Event, LaneStart, Report, Restored, Target, Transaction, TransactionResult,
    Write,
};
use redrive::core::guard::KeyHasher;
use redrive::core::headers::name;
use redrive::core::outcome::Outcome;
use redrive::core::policy::Policy;
use redrive::core::position::{CommitMark, Epoch, Founding, Lane, Offset, Partition, TierIndex, WriterId};
use redrive::core::processor::Processor;
use redrive::core::record::{Header, HeaderName, Record};
use redrive::core::state::{Keys, StateEntry};
use redrive::core::time::{Monotonic, Now, Timestamp};

/// The header with the version.
pub(crate) const VERSION: &str = "rev";
/// Some day in 2023.
const CALENDAR: i64 = 1_700_000_000_000;
/// No run needs as many turns until nothing is left to do.
const MOST_TURNS: usize = 20_000;

/// One record of a lane, by what is its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Told {
    /// The event id: the same on a record, its copies, its output and its replays.
    pub(crate) event: String,
    pub(crate) key: Vec<u8>,
    pub(crate) version: i64,
    pub(crate) value: Vec<u8>,
}

/// What became of the records, in the order of commits.
#[derive(Clone, Debug, Default)]
pub(crate) struct History {
    /// Source records and replays.
    pub(crate) arrived: Vec<Told>,
    pub(crate) outputs: Vec<Told>,
    /// With the reasons.
    pub(crate) dead: Vec<(Told, String)>,
    /// Put aside as stale.
    pub(crate) aside: Vec<Told>,
    /// Consumed, and nothing was written for them; with how many outputs were there at the end of their transaction.
    pub(crate) silent: Vec<(Told, usize)>,
}

/// How the handler answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    Done,
    Transient,
    Permanent,
}

/// How a transaction ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ending {
    Committed,
    Aborted,
    /// No verdict comes, and it was committed.
    Unheard,
    /// No verdict comes, and it was not.
    Unsent,
}

/// Everything there is.
pub(crate) struct Cluster {
    policy: Arc<Policy>,
    partitions: i32,
    processor: Processor,
    lives: u64,
    now: Duration,
    logs: BTreeMap<(Partition, Lane), Vec<Record>>,
    committed: BTreeMap<(Partition, Lane), Offset>,
    marks: BTreeMap<Partition, CommitMark>,
    /// The last value and headers of each key of the state topic.
    state: BTreeMap<(Partition, Bytes), (Bytes, Vec<Header>)>,
    /// The records that stand there.
    held: BTreeMap<(Partition, Bytes), Told>,
    /// Where each lane is read, and how many records are asked for.
    readers: BTreeMap<(Partition, Lane), (Epoch, Offset, Option<usize>)>,
    running: Vec<Delivery>,
    open: Option<Box<Transaction>>,
    history: History,
}

impl Cluster {
    pub(crate) fn new(policy: Policy, partitions: i32) -> Self {
        let policy = Arc::new(policy);
        let mut cluster = Self {
            processor: Processor::new(Arc::clone(&policy), WriterId(1), 1),
            policy,
            partitions,
            lives: 1,
            now: Duration::ZERO,
            logs: BTreeMap::new(),
            committed: BTreeMap::new(),
            marks: BTreeMap::new(),
            state: BTreeMap::new(),
            held: BTreeMap::new(),
            readers: BTreeMap::new(),
            running: Vec::new(),
            open: None,
            history: History::default(),
        };
        cluster.begin();
        cluster
    }

    /// A source record arrives.
    pub(crate) fn arrive(&mut self, key: u8, version: i64, value: u8) {
        let partition = Partition(i32::from(key) % self.partitions);
        let rev =
            Header { name: HeaderName::from_static(VERSION), value: Some(Bytes::from(version.to_string())) };
        let (key, value) = (Bytes::from(format!("key-{key}")), Bytes::from(format!("{version}-{value}")));
        self.append(partition, Lane::Source, Some(key), Some(value), vec![rev]);
        let place = self.logs[&(partition, Lane::Source)].len() - 1;
        let told = self.told((partition, Lane::Source), place);
        self.history.arrived.push(told);
        self.pump();
    }

    /// Something that arrived before is put into the pipeline again, as a replay of its dead letter is: identity, origin and
    /// version stay, attempts begin anew.
    pub(crate) fn replay(&mut self, which: usize) {
        let sources: Vec<(Partition, usize)> = (0..self.partitions)
            .map(Partition)
            .flat_map(|partition| {
                let log = self.logs.get(&(partition, Lane::Source)).map_or(0, Vec::len);
                (0..log).map(move |place| (partition, place))
            })
            .collect();
        if sources.is_empty() {
            return;
        }
        let (partition, place) = sources[which % sources.len()];
        let original = self.logs[&(partition, Lane::Source)][place].clone();
        let told = self.told((partition, Lane::Source), place);
        let mut headers = original.headers;
        let own = [
            (name::EVENT_ID, told.event.clone()),
            (name::OPERATION_ID, told.event.clone()),
            (name::ORIGIN_TOPIC, self.policy.source.as_str().to_owned()),
            (name::ORIGIN_PARTITION, partition.0.to_string()),
            (name::ORIGIN_OFFSET, place.to_string()),
            (name::ORIGIN_TIMESTAMP, original.timestamp.as_millis().to_string()),
            (name::VERSION, told.version.to_string()),
            (name::ATTEMPT, "0".to_owned()),
            (name::EXECUTIONS, "0".to_owned()),
            (name::DUE, original.timestamp.as_millis().to_string()),
        ];
        headers.extend(own.map(|(name, value)| Header { name, value: Some(Bytes::from(value)) }));
        self.append(partition, Lane::Tier(TierIndex(0)), original.key, original.value, headers);
        self.history.arrived.push(told);
        self.pump();
    }

    /// A handler that runs answers; nothing where none does.
    pub(crate) fn answer(&mut self, which: usize, answer: Answer) {
        if self.running.is_empty() {
            return;
        }
        let Delivery { id, envelope, .. } = self.running.remove(which % self.running.len());
        let outcome = match answer {
            Answer::Done => Outcome::output(&envelope, envelope.value.clone()),
            Answer::Transient => Outcome::failed(Class::Transient, "not-now".parse().unwrap(), ""),
            Answer::Permanent => Outcome::failed(Class::Permanent, "never".parse().unwrap(), ""),
        };
        self.handle(Event::Handled { delivery: id, outcome });
    }

    /// The open transaction ends; nothing where none is open.
    pub(crate) fn end(&mut self, ending: Ending) {
        let Some(open) = self.open.take() else { return };
        if matches!(ending, Ending::Committed | Ending::Unheard) {
            self.commit(&open);
        }
        let result = match ending {
            Ending::Committed => TransactionResult::Committed,
            Ending::Aborted => TransactionResult::Aborted(AbortCause::Passing { detail: String::new() }),
            Ending::Unheard | Ending::Unsent => TransactionResult::Unknown,
        };
        self.handle(Event::Transacted { transaction: open.id, result });
    }

    /// The process dies, and another one begins with what was committed.
    pub(crate) fn restart(&mut self) {
        self.lives += 1;
        self.processor = Processor::new(Arc::clone(&self.policy), WriterId(self.lives), self.lives);
        self.readers.clear();
        self.running.clear();
        self.open = None;
        self.begin();
    }

    /// The group takes a task away without asking and gives it again.
    pub(crate) fn lose(&mut self, partition: i32) {
        let partition = Partition(partition % self.partitions);
        self.readers.retain(|(of, _), _| *of != partition);
        self.running.retain(|delivery| delivery.id.partition != partition);
        self.handle(Event::Lost(vec![partition]));
        // Its transaction is fenced by the group.
        if self.open.as_ref().is_some_and(|open| open.tasks.iter().any(|task| task.partition == partition)) {
            self.end(Ending::Aborted);
        }
        self.handle(Event::Assigned(vec![partition]));
    }

    pub(crate) fn wait(&mut self, wait: Duration) {
        self.now += wait;
        self.handle(Event::Tick);
    }

    /// Everything goes well from now on, until nothing is left to do; what became of all records.
    pub(crate) fn finish(mut self) -> History {
        for _ in 0..MOST_TURNS {
            if !self.running.is_empty() {
                self.answer(0, Answer::Done);
            } else if self.open.is_some() {
                self.end(Ending::Committed);
            } else if self.is_done() {
                return self.history;
            } else {
                let wait = self.processor.poll_timeout(self.time()).expect("something is left to do");
                self.wait(wait.max(Duration::from_millis(1)));
            }
        }
        panic!("it never ends: {:?}", self.committed);
    }

    fn is_done(&self) -> bool {
        let read = self.logs.iter().all(|(lane, log)| self.next(*lane).0 == log.len() as i64);
        read && self.held.is_empty()
    }

    /// The committed offset of a lane.
    fn next(&self, lane: (Partition, Lane)) -> Offset {
        self.committed.get(&lane).copied().unwrap_or(Offset(0))
    }

    fn begin(&mut self) {
        self.handle(Event::Assigned((0..self.partitions).map(Partition).collect()));
    }

    fn time(&self) -> Now {
        let wall = Timestamp::from_millis(CALENDAR).plus(self.now);
        Now { wall, mono: Monotonic::from_start(self.now) }
    }

    fn append(
        &mut self,
        partition: Partition,
        lane: Lane,
        key: Option<Bytes>,
        value: Option<Bytes>,
        headers: Vec<Header>,
    ) {
        let timestamp = self.time().wall;
        let log = self.logs.entry((partition, lane)).or_default();
        let offset = Offset(log.len() as i64);
        log.push(Record { offset, timestamp, key, value, headers, unnamed_headers: 0, decoded: None });
    }

    fn handle(&mut self, event: Event) {
        self.processor.handle(event, self.time());
        while let Some(action) = self.processor.poll_action() {
            self.act(action);
        }
        self.pump();
    }

    fn act(&mut self, action: Action) {
        match action {
            Action::Restore { partition, epoch } => {
                let found = self.restored(partition);
                self.processor.handle(Event::Restored { partition, epoch, found }, self.time());
            }
            Action::Open { partition, epoch, lanes } => {
                for (lane, next) in lanes {
                    self.readers.insert((partition, lane), (epoch, next, None));
                }
            }
            Action::Fetch { partition, epoch, lane, most } => {
                if let Some(reader) = self.readers.get_mut(&(partition, lane)) {
                    assert_eq!(reader.0, epoch);
                    reader.2 = Some(most);
                }
            }
            Action::FindEnd { partition, epoch } => {
                let end = Offset(self.logs.get(&(partition, Lane::Source)).map_or(0, Vec::len) as i64);
                self.processor.handle(Event::End { partition, epoch, end }, self.time());
            }
            Action::Handle(delivery) => self.running.push(*delivery),
            Action::Transact(transaction) => {
                assert!(self.open.is_none(), "two transactions at a time");
                self.open = Some(transaction);
            }
            Action::ReadBack { transaction, partitions } => {
                let marks =
                    partitions.into_iter().map(|partition| (partition, self.marks.get(&partition).copied()));
                let marks = marks.collect();
                self.processor.handle(Event::ReadBack { transaction, marks }, self.time());
            }
            Action::Report(Report::Broken(breach)) => panic!("{breach}"),
            Action::Report(_) => {}
            Action::GiveBack { .. } | Action::Stop(_) => panic!("nobody asked for {action:?}"),
        }
    }

    /// Hands over what is asked for and there.
    fn pump(&mut self) {
        while let Some((lane, epoch, records)) = self.ready() {
            let reader = self.readers.get_mut(&lane).unwrap();
            (reader.1, reader.2) = (records.last().unwrap().offset.next(), None);
            let (partition, lane) = lane;
            let event = Event::Fetched { partition, epoch, lane, records };
            self.processor.handle(event, self.time());
            while let Some(action) = self.processor.poll_action() {
                self.act(action);
            }
        }
    }

    fn ready(&self) -> Option<((Partition, Lane), Epoch, Vec<Record>)> {
        self.readers.iter().find_map(|(lane, (epoch, next, asked))| {
            let log = self.logs.get(lane)?.get(next.0 as usize..)?;
            let records: Vec<Record> = log.iter().take((*asked)?).cloned().collect();
            (!records.is_empty()).then_some((*lane, *epoch, records))
        })
    }

    /// What Kafka knows of a task.
    fn restored(&self, partition: Partition) -> Restored {
        let lane = |lane| match self.committed.get(&(partition, lane)) {
            Some(next) => LaneStart::Committed(*next),
            None => LaneStart::Fresh(Offset(0)),
        };
        let mut keys = Keys::new(KeyHasher::new(self.lives), &self.policy.order);
        for ((_, key), (value, headers)) in self.state.iter().filter(|((of, _), _)| *of == partition) {
            keys.take(Some(key), Some(value), || headers.clone()).unwrap();
        }
        assert_eq!(keys.unreadable(), None);
        Restored {
            mark: self.marks.get(&partition).copied(),
            founding: Founding(1),
            lanes: self.policy.lanes().map(lane).collect(),
            topics: Vec::new(),
            keys: self.policy.order.keeps_state().then(|| Box::new(keys)),
        }
    }

    fn commit(&mut self, transaction: &Transaction) {
        let mut consumed: Vec<Told> = Vec::new();
        for task in &transaction.tasks {
            for (lane, to) in &task.offsets {
                let lane = (task.partition, *lane);
                let from = self.next(lane);
                assert!(from <= *to, "{lane:?} goes back from {from} to {to}");
                consumed.extend((from.0..to.0).map(|place| self.told(lane, place as usize)));
                self.committed.insert(lane, *to);
            }
            self.marks.insert(task.partition, task.mark);
        }
        let state = || transaction.writes.iter().filter(|write| write.target == Target::State);
        // What leaves the state topic is consumed by that.
        for write in state().filter(|write| write.value.is_none()) {
            consumed.extend(self.held.remove(&(write.partition, write.key.clone().unwrap())));
        }
        let mut silent = consumed;
        for write in &transaction.writes {
            if write.target == Target::State {
                let key = (write.partition, write.key.clone().unwrap());
                if let Some(told) = held_by(write) {
                    let own = silent.iter().position(|record| *record == told);
                    silent.remove(own.unwrap_or_else(|| panic!("{write:?} holds nothing that it consumes")));
                    assert_eq!(self.held.insert(key.clone(), told), None, "{write:?} takes a place");
                }
                match write.value.clone() {
                    Some(value) => drop(self.state.insert(key, (value, write.headers.clone()))),
                    None => drop(self.state.remove(&key)),
                }
                continue;
            }
            let told = told_of(write.key.as_ref(), write.value.as_ref(), &write.headers, None);
            let own = silent.iter().position(|record| *record == told);
            silent.remove(own.unwrap_or_else(|| panic!("{write:?} is of no record that it consumes")));
            match write.target {
                Target::Output => self.history.outputs.push(told),
                Target::DeadLetter => {
                    self.history.dead.push((told, text(&write.headers, "redrive-reason").unwrap()));
                }
                Target::StaleOutput => self.history.aside.push(told),
                Target::Tier(tier) => {
                    let Write { partition, key, value, headers, .. } = write.clone();
                    self.append(partition, Lane::Tier(tier), key, value, headers);
                }
                Target::Named(_) | Target::State | Target::Cases | Target::Audit => panic!("{write:?}"),
            }
        }
        let outputs = self.history.outputs.len();
        self.history.silent.extend(silent.into_iter().map(|record| (record, outputs)));
    }

    /// What a record of a lane says.
    fn told(&self, (partition, lane): (Partition, Lane), place: usize) -> Told {
        let Record { key, value, headers, .. } = &self.logs[&(partition, lane)][place];
        let event = match lane {
            Lane::Source => Some(format!("{}/{partition}/{place}", self.policy.source.as_str())),
            Lane::Control | Lane::Held | Lane::Tier(_) => None,
        };
        told_of(key.as_ref(), value.as_ref(), headers, event)
    }
}

/// The record that a write to the state topic holds, if it does.
fn held_by(write: &Write) -> Option<Told> {
    let read = StateEntry::read(write.key.as_deref(), write.value.as_deref()).unwrap();
    let StateEntry::Held { held: Some(held), .. } = read else { return None };
    let envelope = held.envelope(write.headers.clone()).unwrap();
    Some(told_of(envelope.key.as_ref(), envelope.value.as_ref(), &write.headers, None))
}

fn told_of(key: Option<&Bytes>, value: Option<&Bytes>, headers: &[Header], event: Option<String>) -> Told {
    Told {
        event: event.or_else(|| text(headers, "redrive-event-id")).unwrap(),
        key: key.unwrap().to_vec(),
        version: text(headers, VERSION).unwrap().parse().unwrap(),
        value: value.unwrap().to_vec(),
    }
}

fn text(headers: &[Header], name: &str) -> Option<String> {
    let header = headers.iter().find(|header| header.name.as_str() == name)?;
    String::from_utf8(header.value.clone()?.to_vec()).ok()
}
