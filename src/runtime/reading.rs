//! The lanes of a worker's tasks, over both consumers, which of them the core wants records of, and what their values hold.

use std::collections::BTreeMap;

use crate::codec::Codec;
use crate::core::position::{Epoch, Lane, Offset, Partition, TopicName};
use crate::core::record::Record;
use crate::fail_point::fail_point;
use crate::kafka::error::ClientError;
use crate::kafka::reader::{Begin, Fetch, LaneId, Reader};
use crate::kafka::source::Source;
use crate::topology::model::Pipeline;

/// Both consumers and the demands of the core.
#[derive(Debug)]
pub(super) struct Reading {
    pub(super) source: Source,
    pub(super) tiers: Reader,
    codec: Codec,
    demands: BTreeMap<LaneId, Demand>,
}

/// Up to this many records of a lane are wanted.
#[derive(Clone, Copy, Debug)]
struct Demand {
    epoch: Epoch,
    most: usize,
}

/// What a demand met.
#[derive(Debug)]
pub(super) enum Met {
    /// Records for the core; the demand is met.
    Records { epoch: Epoch, records: Vec<Record> },
    /// Nothing yet, or no demand.
    Nothing,
    /// The record at `next` is not there; the demand stands.
    OutOfRange { epoch: Epoch, topic: TopicName, next: Offset },
}

impl Reading {
    pub(super) const fn new(source: Source, tiers: Reader, codec: Codec) -> Self {
        Self { source, tiers, codec, demands: BTreeMap::new() }
    }

    /// Begins to read all lanes of a task.
    pub(super) fn open(
        &mut self,
        pipeline: &Pipeline,
        partition: Partition,
        lanes: &[(Lane, Offset)],
    ) -> Result<(), ClientError> {
        let begins = lanes.iter().map(|(lane, offset)| {
            let lane = *lane;
            Begin {
                id: LaneId { partition, lane },
                topic: pipeline.lane_topic(lane).clone(),
                offset: *offset,
            }
        });
        let (source, tiers): (Vec<_>, Vec<_>) = begins.partition(|begin| begin.id.lane == Lane::Source);
        for begin in source {
            self.source.begin(partition, begin.offset)?;
        }
        fail_point!(BetweenLanes);
        self.tiers.begin(tiers)
    }

    /// Takes a demand and tries to meet it at once.
    pub(super) fn demand(&mut self, id: LaneId, epoch: Epoch, most: usize) -> Met {
        self.demands.insert(id, Demand { epoch, most });
        self.try_meet(id)
    }

    /// The lanes that records are wanted of.
    pub(super) fn demanded(&self) -> Vec<LaneId> {
        self.demands.keys().copied().collect()
    }

    /// Tries to meet the demand for a lane, if there is one.
    pub(super) fn try_meet(&mut self, id: LaneId) -> Met {
        let Some(Demand { epoch, most }) = self.demands.get(&id).copied() else { return Met::Nothing };
        let fetch = match id.lane {
            Lane::Source => self.source.fetch(id.partition, most),
            Lane::Control | Lane::Held | Lane::Tier(_) => self.tiers.fetch(id, most),
        };
        match fetch {
            Fetch::Records(mut records) => {
                self.demands.remove(&id);
                self.codec.decode(id.lane, &mut records);
                Met::Records { epoch, records }
            }
            Fetch::Empty => Met::Nothing,
            Fetch::OutOfRange { next } => match self.position(id) {
                Some((topic, _)) => Met::OutOfRange { epoch, topic: topic.clone(), next },
                None => Met::Nothing,
            },
        }
    }

    /// How far lanes have come that just gave nothing to their demand.
    pub(super) fn passed(&mut self, idle: &[LaneId]) -> Result<Vec<(LaneId, Epoch, Offset)>, ClientError> {
        let (source, tiers): (Vec<LaneId>, Vec<LaneId>) = idle.iter().partition(|id| id.lane == Lane::Source);
        let mut passed = self.source.passed(&source)?;
        passed.extend(self.tiers.passed(&tiers)?);
        let demands = &self.demands;
        let told = |(id, next)| demands.get(&id).map(|demand| (id, demand.epoch, next));
        Ok(passed.into_iter().filter_map(told).collect())
    }

    /// The topic of an open lane and the offset of the next record that it gives.
    pub(super) fn position(&self, id: LaneId) -> Option<(&TopicName, Offset)> {
        match id.lane {
            Lane::Source => self.source.position(id.partition),
            Lane::Control | Lane::Held | Lane::Tier(_) => self.tiers.position(id),
        }
    }

    /// Begins an open lane anew at another offset.
    pub(super) fn begin_anew(&mut self, id: LaneId, offset: Offset) -> Result<(), ClientError> {
        match id.lane {
            Lane::Source => self.source.begin_anew(id.partition, offset),
            Lane::Control | Lane::Held | Lane::Tier(_) => self.tiers.begin_anew(id, offset),
        }
    }

    /// Reads no further record of a task. Its tiers are ended; its source partition is still ours for the group.
    pub(super) fn give_up(&mut self, partition: Partition) -> Result<(), ClientError> {
        self.demands.retain(|id, _| id.partition != partition);
        self.source.give_up(partition);
        self.tiers.end(|id| id.partition == partition)
    }
}
