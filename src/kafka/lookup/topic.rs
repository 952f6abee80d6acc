//! The topics of the lanes, looked at regularly: one that was deleted or made anew under its lane says nothing by itself.
//!
//! 1. a topic is deleted and made again, and its lane stands at an offset of the old one,
//! 2. the new log grows beyond that offset, and the client reads on there,
//! 3. what lies before it is never read, and nobody is told.
//!
//! So the ids of topics travel with the offsets, and are compared here every few seconds.

use std::collections::BTreeMap;
use std::time::Duration;

use rdkafka::error::KafkaError;

use crate::core::position::{Lane, Partition, TopicName};
use crate::kafka::lookup::{Asker, Found, TRY};
use crate::kafka::raw::{self, Topic};
use crate::kafka::stopwatch::Stopwatch;

/// Between two looks: a topic that is made anew within is longer than the old one was read only if it is written fast.
pub(super) const WATCH_EVERY: Duration = Duration::from_secs(3);

/// What is known of the lanes' topics.
pub(super) struct Watched {
    seen: BTreeMap<Lane, Seen>,
    looked: Stopwatch,
}

#[derive(Clone, Copy)]
struct Seen {
    /// As it was when it was last there.
    topic: Topic,
    presence: Presence,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Presence {
    There,
    Vanished,
}

impl Watched {
    pub(super) fn new() -> Self {
        Self { seen: BTreeMap::new(), looked: Stopwatch::start() }
    }

    /// How long until the next look.
    pub(super) fn left(&self) -> Duration {
        self.looked.left_of(WATCH_EVERY).unwrap_or_default()
    }

    /// A task begins with these: whatever differs from them later, it must be told.
    pub(super) fn begin(&mut self, topics: BTreeMap<Lane, Topic>) {
        for (lane, topic) in topics {
            let seen = self.seen.entry(lane).or_insert(Seen { topic, presence: Presence::There });
            if topic == Topic::Missing && seen.presence == Presence::There {
                // Not told yet; a task that begins without it must begin anew when it is there, be it the same as before.
                seen.topic = topic;
            }
        }
    }

    /// What differs from the last look.
    fn changes(&mut self, topics: BTreeMap<Lane, Topic>) -> Vec<Found> {
        let mut changes = Vec::new();
        for (lane, topic) in topics {
            let known = self.seen.get(&lane).copied();
            let (seen, change) = match (known, topic) {
                (None, Topic::Missing) => {
                    (Seen { topic, presence: Presence::Vanished }, Some(Found::Vanished { lane }))
                }
                (None, Topic::There { .. }) => (Seen { topic, presence: Presence::There }, None),
                (Some(Seen { topic: old, presence: Presence::There }), Topic::Missing) => {
                    let seen = Seen { topic: old, presence: Presence::Vanished };
                    (seen, Some(Found::Vanished { lane }))
                }
                (Some(seen), Topic::Missing) => (seen, None),
                (Some(Seen { topic: old, presence }), Topic::There { .. }) => {
                    if presence == Presence::Vanished {
                        changes.push(Found::Back { lane });
                    }
                    let begun_without = old == Topic::Missing && presence == Presence::There;
                    let remade = old != Topic::Missing && old.id() != topic.id() || begun_without;
                    let change = remade.then_some(Found::Remade { lane });
                    (Seen { topic, presence: Presence::There }, change)
                }
            };
            self.seen.insert(lane, seen);
            changes.extend(change);
        }
        changes
    }
}

impl Asker {
    /// Looks at the topics of all lanes where that is due.
    pub(super) fn watch(&self, answer: &impl Fn(Found)) {
        if !self.watched.borrow().left().is_zero() {
            return;
        }
        self.watched.borrow_mut().looked = Stopwatch::start();
        let lanes: Vec<Lane> = self.pipeline.policy.lanes().collect();
        match self.topics_of(&lanes) {
            Ok(topics) => self.watched.borrow_mut().changes(topics).into_iter().for_each(answer),
            Err(error) => tracing::debug!(%error, "the topics are not known, looking again"),
        }
    }

    /// The topics of all lanes as a task finds them; and in words, which of redrive's own do not have its partition yet.
    pub(super) fn topics_for(
        &self,
        partition: Partition,
        lanes: &[Lane],
    ) -> Result<(BTreeMap<Lane, Topic>, Option<String>), KafkaError> {
        let pipeline = &self.pipeline;
        let written = [&pipeline.dead_letter, &pipeline.state, &pipeline.cases].map(|topic| &topic.name);
        let names: Vec<&TopicName> =
            lanes.iter().map(|lane| pipeline.lane_topic(*lane)).chain(written).collect();
        let topics = raw::topics(&self.consumer, &names, TRY)?;
        let own = names.iter().zip(&topics).filter(|(name, _)| **name != &pipeline.source);
        let short: Vec<String> = own
            .filter_map(|(name, topic)| Some(format!("`{name}` has {}", topic.too_few_for(partition)?)))
            .collect();
        let topics = lanes.iter().copied().zip(topics).collect();
        Ok((topics, (!short.is_empty()).then(|| short.join(", "))))
    }

    /// The topics of lanes as they are now.
    pub(super) fn topics_of(&self, lanes: &[Lane]) -> Result<BTreeMap<Lane, Topic>, KafkaError> {
        let names: Vec<&TopicName> = lanes.iter().map(|lane| self.pipeline.lane_topic(*lane)).collect();
        let topics = raw::topics(&self.consumer, &names, TRY)?;
        Ok(lanes.iter().copied().zip(topics).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::core::position::TopicId;

    fn look(watched: &mut Watched, topic: Topic) -> Vec<&'static str> {
        let changes = watched.changes(BTreeMap::from([(Lane::Source, topic)]));
        let word = |found: &Found| {
            let known = [
                (matches!(found, Found::Vanished { lane: Lane::Source }), "vanished"),
                (matches!(found, Found::Back { lane: Lane::Source }), "back"),
                (matches!(found, Found::Remade { lane: Lane::Source }), "remade"),
            ];
            known.iter().find(|(is, _)| *is).map_or("other", |(_, word)| *word)
        };
        changes.iter().map(word).collect()
    }

    const OLD: Topic = Topic::There { id: Some(TopicId([1; 16])), partitions: 1 };
    const NEW: Topic = Topic::There { id: Some(TopicId([2; 16])), partitions: 1 };

    #[test]
    fn a_topic_that_vanishes_comes_back_or_is_made_anew_is_told_once() {
        let mut watched = Watched::new();
        assert_eq!(look(&mut watched, OLD), [""; 0]);
        assert_eq!(look(&mut watched, Topic::Missing), ["vanished"]);
        assert_eq!(look(&mut watched, Topic::Missing), [""; 0]);
        assert_eq!(look(&mut watched, OLD), ["back"]);
        assert_eq!(look(&mut watched, NEW), ["remade"]);
        assert_eq!(look(&mut watched, NEW), [""; 0]);
        assert_eq!(look(&mut watched, Topic::Missing), ["vanished"]);
        assert_eq!(look(&mut watched, OLD), ["back", "remade"]);
    }

    #[test]
    fn a_topic_that_is_there_again_before_it_was_missed_is_new_for_the_task_that_began_without_it() {
        let mut watched = Watched::new();
        assert_eq!(look(&mut watched, OLD), [""; 0]);
        watched.begin(BTreeMap::from([(Lane::Source, Topic::Missing)]));
        assert_eq!(look(&mut watched, OLD), ["remade"]);
        watched.begin(BTreeMap::from([(Lane::Source, Topic::Missing)]));
        assert_eq!(look(&mut watched, Topic::Missing), ["vanished"]);
        watched.begin(BTreeMap::from([(Lane::Source, Topic::Missing)]));
        assert_eq!(look(&mut watched, OLD), ["back"]);
    }

    #[test]
    fn a_topic_that_was_never_there_comes_without_having_been_made_anew() {
        let mut watched = Watched::new();
        assert_eq!(look(&mut watched, Topic::Missing), ["vanished"]);
        assert_eq!(look(&mut watched, NEW), ["back"]);
        assert_eq!(look(&mut watched, NEW), [""; 0]);
    }
}
