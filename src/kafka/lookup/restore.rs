//! Where the lanes of a task go on: the group's offsets first, then the state topic, then `start`.

use std::collections::BTreeMap;

use rdkafka::consumer::Consumer;
use rdkafka::error::KafkaError;
use rdkafka::{Offset as ClientOffset, TopicPartitionList};

use crate::core::event::{LaneStart, Restored};
use crate::core::position::{CommitMark, Epoch, Going, Lane, LaneMark, Offset, Partition, TopicId};
use crate::core::state::{LanePosition, Standing};
use crate::fail_point::fail_point;
use crate::kafka::error::ClientError;
use crate::kafka::lookup::noted::{NotRead, State};
use crate::kafka::lookup::{Asker, Found, Loss, TRY, Tried, not_yet};
use crate::kafka::raw::Topic;
use crate::kafka::reader::LaneId;
use crate::kafka::start::LogRange;

/// Where a lane stood, as far as anybody knows.
struct Stood {
    offset: Offset,
    known: Known,
    /// The id of the topic that the offset is of.
    id: Option<TopicId>,
}

/// Who knows it.
enum Known {
    /// The group has the offset.
    Committed,
    /// The state topic.
    Noted(Standing),
}

impl Asker {
    pub(super) fn task(&self, partition: Partition, epoch: Epoch) -> Result<Tried, ClientError> {
        match self.restored(partition, epoch) {
            Ok(tried) => Ok(tried),
            Err(NotRead::Yet(detail)) => {
                tracing::debug!(%partition, detail, "not known yet, asking again");
                Ok(Tried::NotYet(detail))
            }
            Err(NotRead::Never(ClientError::Call { source, .. })) => Ok(not_yet(&source)),
            Err(NotRead::Never(error)) => Err(error),
        }
    }

    fn restored(&self, partition: Partition, epoch: Epoch) -> Result<Tried, NotRead> {
        let state_topic = self.pipeline.state.name.as_str();
        if let Some(detail) = self.states.borrow().goes_on(state_topic, (partition, epoch)) {
            return Err(NotRead::Yet(detail));
        }
        fail_point!(BeforeCommitted);
        let mut committed = self.committed(partition)?;
        fail_point!(AfterCommitted);
        let mark = committed.mark;
        if mark.is_some_and(|mark| mark.going == Going::Stale) {
            // What was committed while the task waited for a person says only how far its requests are obeyed.
            committed.stood.retain(|lane, _| *lane == Lane::Control);
        }
        let lanes: Vec<Lane> = self.pipeline.policy.lanes().collect();
        let (topics, short) = self.topics_for(partition, &lanes)?;
        if let Some(detail) = short {
            return Ok(Tried::Stuck(Found::TooFewPartitions { partition, detail }));
        }
        let State { positions: notes, keys } = if self.pipeline.policy.order.keeps_state()
            || !lanes.iter().all(|lane| committed.stood.contains_key(lane))
        {
            let clients = (&self.kafka, &self.pipeline);
            self.states.borrow_mut().ask(clients, self.hasher, (partition, epoch))?
        } else {
            State::default()
        };
        let founding = match (mark, notes.values().next()) {
            (Some(mark), _) => mark.founding,
            (None, Some(note)) => note.founding,
            (None, None) => self.founding().map_err(NotRead::Never)?,
        };
        let policy = &self.pipeline.policy;
        if let Some((lane, _)) =
            topics.iter().find(|(lane, topic)| **topic == Topic::Missing && policy.needs(**lane))
        {
            let topic = self.pipeline.lane_topic(*lane);
            return Err(NotRead::Yet(format!("there is no topic `{topic}`")));
        }
        let ids: Vec<Option<TopicId>> = topics.values().map(|topic| topic.id()).collect();
        let mut task = Restored { mark, founding, lanes: Vec::new(), topics: ids.clone(), keys };
        let (mut losses, mut remade) = (Vec::new(), Vec::new());
        for (lane, id) in lanes.into_iter().zip(ids) {
            if topics.get(&lane) == Some(&Topic::Missing) {
                task.lanes.push(LaneStart::Absent);
                continue;
            }
            let topic = self.pipeline.lane_topic(lane);
            let log = self.log(topic, partition)?;
            let at = LaneId { partition, lane };
            let note = notes.get(&self.pipeline.policy.word(lane)).filter(|note| note.topic == *topic);
            let Some(stood) = committed.stood.remove(&lane).or_else(|| note.map(stood_by)) else {
                let start = match lane {
                    Lane::Source => {
                        self.resolver(founding).resolve(partition, log).map_err(NotRead::Never)?
                    }
                    Lane::Control | Lane::Held | Lane::Tier(_) => log.start,
                };
                losses.extend(loss(at, start, log));
                task.lanes.push(LaneStart::Fresh(start.max(log.start)));
                continue;
            };
            if id.is_some() && stood.id.is_some() && id != stood.id {
                remade.push((at, stood.offset));
                task.lanes.push(LaneStart::Fresh(log.start));
                continue;
            }
            if stood.offset > log.end {
                return Ok(Tried::Stuck(Found::BehindEnd { id: at, next: stood.offset, end: log.end }));
            }
            let lost = loss(at, stood.offset, log);
            let from = stood.offset.max(log.start);
            task.lanes.push(match stood.known {
                Known::Committed if lost.is_none() => LaneStart::Committed(from),
                // Committed at once, or the next owner would count the same loss again.
                Known::Committed => LaneStart::Fresh(from),
                Known::Noted(Standing::Exact) => LaneStart::Fresh(from),
                Known::Noted(Standing::AtLeast) => LaneStart::Stale { from, to: log.end },
            });
            losses.extend(lost);
        }
        self.watched.borrow_mut().begin(topics);
        Ok(Tried::Answered(Found::Task { partition, epoch, found: task, losses, remade }))
    }

    /// The stable committed offsets of all lanes of a task. Fails while a transaction holds one.
    fn committed(&self, partition: Partition) -> Result<Committed, KafkaError> {
        let lanes: Vec<Lane> = self.pipeline.policy.lanes().collect();
        let mut list = TopicPartitionList::with_capacity(lanes.len());
        for lane in &lanes {
            list.add_partition(self.pipeline.lane_topic(*lane).as_str(), partition.0);
        }
        let list = self.consumer.committed_offsets(list, TRY)?;
        let mut committed = Committed { mark: None, stood: BTreeMap::new() };
        for lane in lanes {
            let found = list.find_partition(self.pipeline.lane_topic(lane).as_str(), partition.0);
            let Some(found) = found else { return Err(KafkaError::NoMessageReceived) };
            found.error()?;
            let ClientOffset::Offset(offset) = found.offset() else { continue };
            // A mark that is not ours, such as that of a tool that moved the offset, is none.
            let id = match lane {
                Lane::Source => {
                    committed.mark = found.metadata().parse().ok();
                    committed.mark.and_then(|mark| mark.topic)
                }
                Lane::Control | Lane::Held | Lane::Tier(_) => {
                    found.metadata().parse().ok().map(|LaneMark(id)| id)
                }
            };
            committed.stood.insert(lane, Stood { offset: Offset(offset), known: Known::Committed, id });
        }
        Ok(committed)
    }
}

struct Committed {
    mark: Option<CommitMark>,
    stood: BTreeMap<Lane, Stood>,
}

fn stood_by(note: &LanePosition) -> Stood {
    Stood { offset: note.offset, known: Known::Noted(note.standing), id: note.id }
}

/// What is missing between where a lane stood and the beginning of its log.
fn loss(id: LaneId, from: Offset, log: LogRange) -> Option<Loss> {
    (from < log.start).then_some(Loss { id, from, to: log.start })
}
