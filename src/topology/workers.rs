//! Reads `[pipeline.NAME.workers]`: threads, what is in flight, and the timeouts that belong together.

use std::ops::RangeInclusive;
use std::time::Duration;

use crate::core::policy::{Flow, Twins};
use crate::core::time::in_words;
use crate::topology::code::Code;
use crate::topology::keys;
use crate::topology::model::{Membership, Protocol, Workers};
use crate::topology::reading::Reading;
use crate::topology::section::Section;
use crate::topology::value::or;

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3_600);
/// Offsets expire after the broker's `offsets.retention.minutes`, seven days where it is not set.
const RECOMMIT: Duration = HOUR;

/// `group.consumer.session.timeout.ms` of a broker that is not told otherwise.
const BROKERS_OWN_SESSION: Duration = Duration::from_secs(45);

/// Reads the table, for a group that agrees by `protocol`.
pub(crate) fn read(
    reading: &Reading<'_>,
    pipeline: &Section<'_>,
    protocol: Option<Protocol>,
) -> (Workers, Flow) {
    let section = pipeline.section(reading, "workers", keys::WORKERS);
    let time = |name: &str, start: Duration, bounds: &RangeInclusive<Duration>| {
        or(section.field(name), start, |field| field.duration(reading, bounds))
    };
    let session_timeout = match (protocol, section.field("session-timeout")) {
        (Some(Protocol::Consumer), None) => BROKERS_OWN_SESSION,
        (Some(Protocol::Consumer), Some(field)) => {
            let message = format!("`{}` is the brokers' own with `protocol = \"consumer\"`", field.path);
            let hint = "leave it out, and set `consumer.session.timeout.ms` of the group at the brokers";
            reading.report_with_hint(Code::SessionOfBrokers, &field.key_at, message, hint);
            BROKERS_OWN_SESSION
        }
        // The broker refuses more than its `group.max.session.timeout.ms`, 30 minutes where it is not set.
        (Some(Protocol::Classic) | None, _) => time("session-timeout", SECOND * 15, &(SECOND..=MINUTE * 30)),
    };
    // The broker refuses more than its `transaction.max.timeout.ms`, 15 minutes where it is not set.
    let start = (SECOND * 10).min(session_timeout * 2 / 3);
    let transaction_timeout = time("transaction-timeout", start, &(SECOND..=MINUTE * 15));
    // The brokers' session is not known here.
    if protocol != Some(Protocol::Consumer)
        && transaction_timeout >= session_timeout
        && let Some(field) = section.field("transaction-timeout")
    {
        let [transaction, session] = [transaction_timeout, session_timeout].map(in_words);
        let message = format!(
            "`transaction-timeout` `{transaction}` is not shorter than `session-timeout` `{session}`"
        );
        let hint = "a member that was given up must not hold a transaction open over its partitions";
        reading.report_with_hint(Code::TransactionTimeout, &field.at, message, hint);
    }
    let workers = Workers {
        threads: or(section.field("threads"), 1, |field| field.number(reading, &(1..=256))),
        session_timeout,
        membership: or(section.field("static-membership"), Membership::Dynamic, |field| {
            field.switch(reading, Membership::Dynamic, Membership::Static)
        }),
    };
    let flow = Flow {
        window: or(section.field("window"), 256, |field| field.number(reading, &(1..=100_000))),
        commit_interval: time(
            "commit-interval",
            Duration::from_millis(50),
            &(Duration::from_millis(1)..=SECOND),
        ),
        drain: time("drain", SECOND * 20, &(Duration::ZERO..=HOUR)),
        revoke: session_timeout / 3,
        transaction_timeout,
        recommit: RECOMMIT,
        twins: match (workers.membership, protocol) {
            (Membership::Dynamic, _) => Twins::Fences,
            (Membership::Static, Some(Protocol::Classic) | None) => Twins::GroupWithin(session_timeout),
            (Membership::Static, Some(Protocol::Consumer)) => Twins::Group,
        },
    };
    (workers, flow)
}
