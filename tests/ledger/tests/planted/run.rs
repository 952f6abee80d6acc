//! A small history to plant faults in: five source records, one for each way that a record can go.

use redrive_ledger::{Commit, Cut, History, Offsets, Order, OutputValue, Role, Rules, Seen, Start};

pub(super) const FIRST_TRY: &str = "orders/0/0";
pub(super) const FAILS_ONCE: &str = "orders/0/1";
pub(super) const FOR_EVER: &str = "orders/0/2";
pub(super) const BROKEN: &str = "orders/1/0";
pub(super) const HOPS: &str = "orders/1/1";

/// Two tiers of 5 s and 10 s; the third attempt is the last.
pub(super) fn rules() -> Rules {
    Rules {
        source: "orders".to_owned(),
        delays: vec![5_000, 10_000],
        most_attempts: 3,
        event_id: None,
        output: OutputValue::AsSource,
        order: Order::FirstTries,
        cut: Cut::Drained,
        offsets: Offsets::Stay,
        longest_open: 10_000,
    }
}

pub(super) struct Run {
    pub(super) rules: Rules,
    pub(super) history: History,
}

impl Run {
    pub(super) fn empty(rules: Rules) -> Self {
        Self { rules, history: History { starts: Some(vec![]), ..History::default() } }
    }

    pub(super) fn good() -> Self {
        let mut run = Self::empty(rules());
        for (partition, offset, key, value) in [
            (0, 0, "k0", "first try"),
            (0, 1, "k0", "fails once"),
            (0, 2, "k1", "for ever"),
            (1, 0, "k2", "broken"),
            (1, 1, "k3", "hops"),
        ] {
            run.source(partition, offset, key, value);
        }
        run.start(FIRST_TRY, 1, None, 50);
        run.output(0, 0, (0, 0), 60);

        run.start(FAILS_ONCE, 1, None, 90);
        run.copy(0, 0, 0, (0, 1), 1, 100);
        run.start(FAILS_ONCE, 2, Some(5_100), 5_103);
        run.output(0, 1, (0, 1), 5_110);

        run.start(FOR_EVER, 1, None, 90);
        run.copy(0, 0, 1, (0, 2), 1, 100);
        run.start(FOR_EVER, 2, Some(5_100), 5_103);
        run.copy(1, 0, 0, (0, 2), 2, 5_200);
        run.start(FOR_EVER, 3, Some(15_200), 15_203);
        run.dead(0, 0, (0, 2), "exhausted", 3, 15_300);

        run.start(BROKEN, 1, None, 90);
        run.dead(1, 0, (1, 0), "http-422", 1, 100);

        // Asked to wait for 8 s: a wait in the first tier, a hop, and the rest in the first tier again.
        run.start(HOPS, 1, None, 90);
        run.copy(0, 1, 0, (1, 1), 1, 100);
        run.copy(0, 1, 1, (1, 1), 1, 5_100);
        for copy in run.history.records.iter_mut().rev().take(2) {
            put(&mut copy.headers, "redrive-due", "8100");
        }
        run.start(HOPS, 2, Some(10_100), 10_108);
        run.output(1, 0, (1, 1), 10_200);

        // One past the last record and past the marker behind it.
        for (role, partition, next) in [
            (Role::Source, 0, 4),
            (Role::Source, 1, 3),
            (Role::Tier(0), 0, 3),
            (Role::Tier(0), 1, 3),
            (Role::Tier(1), 0, 2),
        ] {
            run.commit(role, partition, next);
        }
        run
    }

    pub(super) fn source(&mut self, partition: i32, offset: i64, key: &str, value: &str) {
        let headers = vec![header("trace", ""), header("trace", "x")];
        let (key, value) = (Some(key.into()), Some(value.into()));
        self.history.records.push(Seen {
            role: Role::Source,
            partition,
            offset,
            timestamp: 40,
            key,
            value,
            headers,
        });
    }

    pub(super) fn copy(
        &mut self,
        tier: usize,
        partition: i32,
        offset: i64,
        origin: (i32, i64),
        attempt: u32,
        at: i64,
    ) {
        let due = at + self.rules.delays[tier];
        let own = [
            ("redrive-attempt", attempt.to_string()),
            ("redrive-due", due.to_string()),
            ("redrive-reason", "http-503".to_owned()),
        ];
        self.write(Role::Tier(tier), partition, offset, origin, at, &own);
    }

    pub(super) fn dead(
        &mut self,
        partition: i32,
        offset: i64,
        origin: (i32, i64),
        reason: &str,
        attempt: u32,
        at: i64,
    ) {
        let own = [("redrive-attempt", attempt.to_string()), ("redrive-reason", reason.to_owned())];
        self.write(Role::DeadLetter, partition, offset, origin, at, &own);
    }

    pub(super) fn output(&mut self, partition: i32, offset: i64, origin: (i32, i64), at: i64) {
        self.write(Role::Output, partition, offset, origin, at, &[]);
    }

    fn write(
        &mut self,
        role: Role,
        partition: i32,
        offset: i64,
        origin: (i32, i64),
        timestamp: i64,
        own: &[(&str, String)],
    ) {
        let is_origin = |seen: &&Seen| seen.role == Role::Source && (seen.partition, seen.offset) == origin;
        let source = self.history.records.iter().find(is_origin).cloned();
        let source = source.unwrap_or(Seen {
            role,
            partition,
            offset,
            timestamp,
            key: None,
            value: None,
            headers: vec![],
        });
        let mut headers = source.headers;
        headers.push(header("redrive-event-id", &format!("orders/{}/{}", origin.0, origin.1)));
        if role != Role::Output {
            headers.push(header("redrive-origin-topic", "orders"));
            headers.push(header("redrive-origin-partition", &origin.0.to_string()));
            headers.push(header("redrive-origin-offset", &origin.1.to_string()));
        }
        headers.extend(own.iter().map(|(name, value)| header(name, value)));
        self.history.records.push(Seen {
            role,
            partition,
            offset,
            timestamp,
            key: source.key,
            value: source.value,
            headers,
        });
    }

    pub(super) fn start(&mut self, event_id: &str, attempt: u32, due: Option<i64>, at: i64) {
        let start = Start { event_id: event_id.to_owned(), attempt, execution: 1, due, at };
        self.history.starts.as_mut().unwrap().push(start);
    }

    /// The next offset to read of a lane, in place of the one before.
    pub(super) fn commit(&mut self, role: Role, partition: i32, offset: i64) {
        self.history.commits.retain(|commit| (commit.role, commit.partition) != (role, partition));
        self.history.commits.push(Commit { role, partition, offset });
    }

    /// The first record of a role with this value.
    pub(super) fn record(&mut self, role: Role, value: &str) -> &mut Seen {
        self.history.records.iter_mut().find(|seen| is(seen, role, value)).unwrap()
    }

    pub(super) fn call(&mut self, event_id: &str, attempt: u32) -> &mut Start {
        let mut starts = self.history.starts.as_mut().unwrap().iter_mut();
        starts.find(|start| start.event_id == event_id && start.attempt == attempt).unwrap()
    }

    pub(super) fn set(&mut self, role: Role, value: &str, name: &str, to: &str) {
        put(&mut self.record(role, value).headers, name, to);
    }

    pub(super) fn remove(&mut self, role: Role, value: &str) {
        self.history.records.retain(|seen| !is(seen, role, value));
    }

    pub(super) fn repeat(&mut self, role: Role, value: &str) {
        let mut again = self.record(role, value).clone();
        again.offset += 70;
        self.history.records.push(again);
    }
}

fn is(seen: &Seen, role: Role, value: &str) -> bool {
    seen.role == role && seen.value.as_deref() == Some(value.as_bytes())
}

fn header(name: &str, value: &str) -> (String, Option<Vec<u8>>) {
    (name.to_owned(), Some(value.into()))
}

fn put(headers: &mut [(String, Option<Vec<u8>>)], name: &str, to: &str) {
    headers.iter_mut().find(|(found, _)| found == name).unwrap().1 = Some(to.into());
}
