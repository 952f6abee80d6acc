//! The records of the demo: who orders what, and how the handler will take it.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::{BaseRecord, DefaultProducerContext, Producer, ThreadedProducer};

use crate::found;
use crate::ledger::Report;
use crate::progress::grouped;
use crate::stage::Stage;

/// How the handler takes an order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Plan {
    Succeeds,
    Fails { times: u32 },
    FailsForEver,
    Broken,
}

impl Plan {
    /// Of 100 orders 5 fail once, 3 twice, 1 for ever, and 1 is broken.
    fn of(order: u32) -> Self {
        match order % 100 {
            10..15 => Self::Fails { times: 1 },
            40..43 => Self::Fails { times: 2 },
            60 => Self::FailsForEver,
            80 => Self::Broken,
            _ => Self::Succeeds,
        }
    }

    fn word(self) -> &'static str {
        match self {
            Self::Succeeds => "succeeds",
            Self::Fails { times: 1 } => "fails once",
            Self::Fails { .. } => "fails twice",
            Self::FailsForEver => "fails for ever",
            Self::Broken => "is broken",
        }
    }

    /// Reads it back from an order.
    pub(crate) fn of_value(value: &[u8]) -> Option<Self> {
        let order: serde_json::Value = serde_json::from_slice(value).ok()?;
        let word = order.get("plan")?.as_str()?;
        let plans = [
            Self::Succeeds,
            Self::Fails { times: 1 },
            Self::Fails { times: 2 },
            Self::FailsForEver,
            Self::Broken,
        ];
        plans.into_iter().find(|plan| plan.word() == word)
    }
}

/// All records of one demo.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Load {
    pub(crate) records: u32,
    pub(crate) calm: bool,
}

impl Load {
    pub(crate) fn new(records: u32, calm: bool) -> Self {
        Self { records, calm }
    }

    fn plan(self, order: u32) -> Plan {
        if self.calm { Plan::Succeeds } else { Plan::of(order) }
    }

    fn count(self, wanted: impl Fn(Plan) -> bool) -> usize {
        (0..self.records).filter(|order| wanted(self.plan(*order))).count()
    }

    pub(crate) fn send(self, bootstrap: &str, stage: &Stage) -> Result<()> {
        let producer: ThreadedProducer<DefaultProducerContext> = found::client(bootstrap)
            .set("partitioner", "murmur2_random")
            .set("enable.idempotence", "true")
            .set("linger.ms", "5")
            .create()
            .context("creating a producer")?;
        for order in 0..self.records {
            let key = format!("customer-{}", order % 997);
            let plan = self.plan(order).word();
            let value = format!(
                r#"{{"order":{order},"customer":"{key}","total":"{}.90","plan":"{plan}"}}"#,
                order % 300
            );
            let id = format!("order-{order:07}");
            let mut headers =
                OwnedHeaders::new().insert(Header { key: "content-type", value: Some("application/json") });
            if let Some(name) = &stage.rules.event_id {
                headers = headers.insert(Header { key: name, value: Some(&id) });
            }
            let mut record = BaseRecord::to(stage.source()).key(&key).payload(&value).headers(headers);
            while let Err((error, refused)) = producer.send(record) {
                ensure!(
                    error == KafkaError::MessageProduction(RDKafkaErrorCode::QueueFull),
                    "sending order {order}: {error}"
                );
                producer.flush(Duration::from_secs(30)).context("sending")?;
                record = refused;
            }
        }
        producer.flush(Duration::from_secs(30)).context("sending")
    }

    /// Where the ledger's counts are not those that were planned.
    pub(crate) fn differences(self, report: &Report) -> Vec<String> {
        let broken = self.count(|plan| plan == Plan::Broken);
        let for_ever = self.count(|plan| plan == Plan::FailsForEver);
        let all = usize::try_from(self.records).unwrap_or(usize::MAX);
        let mut dead = BTreeMap::from([("exhausted".to_owned(), for_ever), ("http-422".to_owned(), broken)]);
        dead.retain(|_, count| *count > 0);
        let mut found = Vec::new();
        let mut compare = |what: &str, planned: usize, counted: usize| {
            if planned != counted {
                found.push(format!("{what}: `{planned}` were planned, `{counted}` counted"));
            }
        };
        compare("in", all, report.source);
        compare("output", all - for_ever - broken, report.output);
        for reason in dead.keys().chain(report.dead.keys().filter(|reason| !dead.contains_key(*reason))) {
            let of = |counts: &BTreeMap<String, usize>| counts.get(reason).copied().unwrap_or(0);
            compare(&format!("dead letters `{reason}`"), of(&dead), of(&report.dead));
        }
        found
    }
}

impl fmt::Display for Load {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let counted =
            |wanted: Plan| grouped(u64::try_from(self.count(|plan| plan == wanted)).unwrap_or(u64::MAX));
        if self.calm {
            return f.write_str("none fails");
        }
        let (once, twice) = (counted(Plan::Fails { times: 1 }), counted(Plan::Fails { times: 2 }));
        let (for_ever, broken) = (counted(Plan::FailsForEver), counted(Plan::Broken));
        write!(f, "{once} fail once, {twice} twice, {for_ever} for ever, {broken} are broken")
    }
}
