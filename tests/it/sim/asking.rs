//! What operators ask of the simulated tasks, and who else writes to the control lane.

use std::time::Duration;

use bytes::Bytes;
use redrive::core::control::{Command, Request};
use redrive::core::event::Target;
use redrive::core::position::{Lane, Offset, OffsetRange, Partition, TierIndex, TopicName};
use redrive::core::record::Record;
use redrive::core::time::Timestamp;

use super::cluster::Place;
use super::plan::Fault;
use super::random::Random;
use super::slot::Slot;
use super::source;
use super::world::{Step, World};

/// Long enough for whatever a task has in hand to meet what cannot be written.
const UNTIL_BLOCKED: Duration = Duration::from_secs(60);
/// Longer than any run.
const FOR_EVER: Duration = Duration::from_secs(1 << 30);

/// The requests of a seed, with their times and tasks. Drawn apart from everything else that the seed decides.
pub(crate) fn requests(seed: u64, partitions: i32, until: Duration) -> Vec<(Duration, i32, Record)> {
    let mut random = Random::new(seed ^ 0xa5c);
    let count = random.between(2, 16);
    (0..count)
        .map(|number| {
            let at = random.time(Duration::ZERO, until);
            let partition = random.index(partitions as usize) as i32;
            (at, partition, request(&mut random, number, Slot::new(0).wall(at)))
        })
        .collect()
}

/// Times in which nothing can be answered.
pub(crate) fn faults(seed: u64, until: Duration) -> Vec<(Duration, Fault)> {
    let mut random = Random::new(seed ^ 0xa5d);
    let targets = [Target::Cases, Target::Audit];
    let fault = |random: &mut Random| {
        let (target, lasts) = (*random.pick(&targets), random.millis(50, 10_000));
        match random.chance(80) {
            true => Fault::Unwritable { target, lasts },
            false => Fault::Refuse { target, lasts },
        }
    };
    (0..random.below(4)).map(|_| (random.time(Duration::ZERO, until), fault(&mut random))).collect()
}

fn request(random: &mut Random, number: u64, at: Timestamp) -> Record {
    let id = format!("{number}-{:x}", random.next());
    let range = OffsetRange {
        topic: TopicName::new("orders"),
        partition: Partition(0),
        from: Offset(0),
        to: Offset(1 + random.below(9) as i64),
    };
    let command = Command::AcceptRepeats(vec![range]);
    let request = Request { id: id.parse().unwrap(), by: "ada".to_owned(), at, ticket: None, command };
    let (key, value) = match random.below(10) {
        0 => (None, None),
        1 => (Some(Bytes::from_static(b"\xff\xfe")), Some(request.value())),
        2 => (Some(request.key()), None),
        3 => (
            Some(request.key()),
            Some(Bytes::from_static(b"{\"version\":1,\"by\":\"x\",\"command\":\"fly\"}")),
        ),
        4 => (Some(request.key()), Some(Bytes::from_static(b"{\"version\":7}"))),
        5 => (Some(request.key()), Some(Bytes::from(vec![b'['; 300]))),
        _ => (Some(request.key()), Some(request.value())),
    };
    let unnamed_headers = usize::from(random.chance(5));
    Record {
        offset: Offset(0),
        timestamp: at,
        key,
        value,
        headers: Vec::new(),
        unnamed_headers,
        decoded: None,
    }
}

impl World {
    /// Nothing but answers and audits can be written, each task gets a record that it cannot get rid of, and after a while is
    /// asked something.
    pub(crate) fn besiege(&mut self) {
        self.say(format_args!("siege"));
        let until = self.now + FOR_EVER;
        let tiers = (0..self.plan.policy.ladder.delays.len()).map(|tier| Target::Tier(TierIndex::at(tier)));
        for target in tiers.chain([Target::Output, Target::DeadLetter]) {
            self.unwritable.insert(target, until);
        }
        for partition in 0..self.plan.partitions {
            let timestamp = Slot::new(0).wall(self.now);
            let record = source::record(&self.plan, &mut self.random, timestamp);
            let place = Place::lane(Lane::Source, partition);
            self.after(Duration::ZERO, Step::SourceRecord(place, Box::new(record)));
            let asked = request(&mut self.random, 1_000 + partition as u64, timestamp);
            let place = Place::lane(Lane::Control, partition);
            self.after(UNTIL_BLOCKED, Step::Request(place, Box::new(asked)));
        }
        self.besieged = Some(self.now + UNTIL_BLOCKED);
    }

    /// Whether every task has answered though nothing else of it goes on.
    pub(crate) fn is_answered(&self) -> bool {
        self.besieged.is_some_and(|asked| asked < self.now) && self.checker.has_answered()
    }

    /// Everything can be written again.
    pub(crate) fn relieve(&mut self) {
        self.say(format_args!("the siege is over"));
        self.unwritable.clear();
    }

    pub(crate) fn write_request(&mut self, place: Place, record: Record) {
        let key = record.key.clone();
        let offset = self.cluster.append_plain(place, record);
        self.checker.request_written(place, offset, key);
        self.counts.records += 1;
    }
}
