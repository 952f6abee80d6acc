//! Tiers that the ladder does not have and whose topics exist: read until they are empty, never written.

use std::collections::{BTreeMap, BTreeSet};

use crate::core::position::TopicName;
use crate::core::time::in_words;
use crate::topology::model::{Cleanup, OwnTopic, Pipeline, Tier, Topology};

/// The tiers to be drained, by pipeline.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Drained {
    tiers: BTreeMap<String, Vec<Tier>>,
    /// Topics that bear the name of a tier which has another topic, with that one: nobody reads them.
    shadowed: Vec<(TopicName, TopicName)>,
}

impl Drained {
    /// What of these topics is a tier of a pipeline that its ladder does not have.
    pub(super) fn among(topology: &Topology, topics: &BTreeSet<String>) -> Self {
        let mut found = Self::default();
        for pipeline in &topology.pipelines {
            let tiers = found.of_pipeline(pipeline, topics);
            if !tiers.is_empty() {
                found.tiers.insert(pipeline.name.clone(), tiers);
            }
        }
        found
    }

    /// Those of a pipeline, by their delay.
    pub(crate) fn of(&self, pipeline: &str) -> &[Tier] {
        self.tiers.get(pipeline).map_or(&[], Vec::as_slice)
    }

    pub(super) fn shadowed(&self) -> &[(TopicName, TopicName)] {
        &self.shadowed
    }

    fn of_pipeline(&mut self, pipeline: &Pipeline, topics: &BTreeSet<String>) -> Vec<Tier> {
        let named = pipeline.retired.iter().filter(|tier| topics.contains(tier.topic.name.as_str()));
        let mut tiers: Vec<Tier> = named.cloned().collect();
        for topic in topics {
            let Some(delay) = pipeline.delay_of_tier_topic(topic) else { continue };
            let name = TopicName::new(topic);
            match pipeline.tiers.iter().chain(&pipeline.retired).find(|tier| tier.delay == delay) {
                Some(tier) if tier.topic.name == name => {}
                Some(tier) => self.shadowed.push((name, tier.topic.name.clone())),
                None => {
                    let topic = OwnTopic { name, cleanup: Cleanup::Delete(delay) };
                    tiers.push(Tier { label: format!("retry.{}", in_words(delay)), delay, topic });
                }
            }
        }
        tiers.sort_by_key(|tier| tier.delay);
        tiers
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kafka::fixture;

    fn drained(topics: &[&str]) -> Drained {
        let topology = fixture::topology("unused", fixture::pipeline("p"));
        Drained::among(&topology, &topics.iter().map(|topic| (*topic).to_owned()).collect())
    }

    #[test]
    fn a_topic_that_bears_the_name_of_a_tier_is_drained_where_the_ladder_lacks_it() {
        let found = drained(&["t.p.retry.5s", "t.p.retry.2h", "t.p.retry.10m", "p.in", "t.p.dlq"]);
        let labels: Vec<&str> = found.of("p").iter().map(|tier| tier.label.as_str()).collect();
        assert_eq!(labels, ["retry.10m", "retry.2h"]);
    }

    #[test]
    fn a_topic_with_another_spelling_or_of_another_pipeline_is_not() {
        assert_eq!(
            drained(&["t.p.retry.60s", "t.p.retry.0s", "t.p.retry.x", "t.q.retry.10m"]),
            Drained::default()
        );
    }

    #[test]
    fn a_tier_that_has_another_topic_shadows_the_one_with_its_name() {
        let mut topology = fixture::topology("unused", fixture::pipeline("p"));
        topology.pipelines[0].tiers[0].topic.name = TopicName::new("governed");
        let found = Drained::among(&topology, &BTreeSet::from(["t.p.retry.5s".to_owned()]));
        assert!(found.of("p").is_empty());
        assert_eq!(found.shadowed(), [(TopicName::new("t.p.retry.5s"), TopicName::new("governed"))]);
    }
}
