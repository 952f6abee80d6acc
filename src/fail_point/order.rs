//! What is ordered at which point, and doing it.

use std::path::PathBuf;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use std::{fs, thread};

use signal_hook::low_level::raise;

use crate::fail_point::FailPoint;

/// The environment variable that holds the orders.
pub const VARIABLE: &str = "REDRIVE_FAIL_POINT";

/// Not among those that a program may handle; the same on every Linux.
const SIGKILL: i32 = 9;
/// As above.
const SIGSTOP: i32 = 19;
/// How often a parked thread looks whether it may go on.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// What is ordered makes no sense: nothing would ever happen, and a test that waits for it would wait in vain.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadOrder {
    /// Not `POINT[:N]=ACTION`.
    #[error("`{VARIABLE}`: `{order}` is no order\nhint: POINT[:N]=ACTION, such as after-begin:3=kill")]
    Form {
        /// The order.
        order: String,
    },
    /// There is no such point.
    #[error("`{VARIABLE}`: there is no fail point `{name}`\nhint: one of {}", names())]
    Point {
        /// What was named.
        name: String,
    },
    /// There is no such action.
    #[error("`{VARIABLE}`: `{action}` is no action\nhint: kill, stop, panic or park(FILE)")]
    Action {
        /// What was named.
        action: String,
    },
}

/// Every name, for people.
fn names() -> String {
    FailPoint::ALL.iter().map(|point| point.name()).collect::<Vec<_>>().join(", ")
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Action {
    Kill,
    Stop,
    Panic,
    Park(PathBuf),
}

#[derive(Debug)]
struct Order {
    point: FailPoint,
    /// At which passing, from 1.
    at: u32,
    action: Action,
    passed: AtomicU32,
}

static ORDERS: OnceLock<Vec<Order>> = OnceLock::new();

/// Takes the orders of this process's environment; to be called before anything works.
pub(crate) fn arm() -> Result<(), BadOrder> {
    #[expect(
        clippy::disallowed_methods,
        reason = "not for users: it is part of no topology and no command line"
    )]
    let text = std::env::var(VARIABLE).unwrap_or_default();
    let orders = parsed(&text)?;
    ORDERS.get_or_init(|| orders);
    Ok(())
}

/// Passes a point: does what is ordered there, if this is the passing.
pub(crate) fn pass(point: FailPoint) {
    for order in ORDERS.get().into_iter().flatten().filter(|order| order.point == point) {
        if order.passed.fetch_add(1, Ordering::SeqCst).saturating_add(1) == order.at {
            order.action.carry_out(point);
        }
    }
}

impl Action {
    fn carry_out(&self, point: FailPoint) {
        match self {
            Self::Kill => signal(SIGKILL),
            Self::Stop => signal(SIGSTOP),
            #[expect(clippy::panic, reason = "it was ordered")]
            Self::Panic => panic!("ordered at the fail point `{point}`"),
            Self::Park(file) => {
                if let Err(error) = fs::write(file, point.name()) {
                    tracing::error!(%error, "the file of a parked thread cannot be made");
                }
                while file.exists() {
                    thread::sleep(LOOK_EVERY);
                }
            }
        }
    }
}

fn signal(number: i32) {
    if let Err(error) = raise(number) {
        tracing::error!(%error, number, "the signal of a fail point cannot be sent");
    }
}

fn parsed(text: &str) -> Result<Vec<Order>, BadOrder> {
    text.split(',').map(str::trim).filter(|order| !order.is_empty()).map(order).collect()
}

fn order(text: &str) -> Result<Order, BadOrder> {
    let bad = || BadOrder::Form { order: text.to_owned() };
    let (place, action) = text.split_once('=').ok_or_else(bad)?;
    let (name, at) = match place.split_once(':') {
        Some((name, at)) => (name, at.parse().ok().filter(|at| *at > 0).ok_or_else(bad)?),
        None => (place, 1),
    };
    let point = FailPoint::ALL.iter().copied().find(|point| point.name() == name);
    let point = point.ok_or_else(|| BadOrder::Point { name: name.to_owned() })?;
    Ok(Order { point, at, action: action_of(action)?, passed: AtomicU32::new(0) })
}

fn action_of(text: &str) -> Result<Action, BadOrder> {
    let file = text.strip_prefix("park(").and_then(|rest| rest.strip_suffix(')'));
    match (text, file) {
        ("kill", _) => Ok(Action::Kill),
        ("stop", _) => Ok(Action::Stop),
        ("panic", _) => Ok(Action::Panic),
        (_, Some(file)) if !file.is_empty() => Ok(Action::Park(PathBuf::from(file))),
        (_, Some(_) | None) => Err(BadOrder::Action { action: text.to_owned() }),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn orders_name_a_point_a_passing_and_an_action() {
        let orders = parsed("after-begin:3=kill, lost=stop,formed=panic,drained:1=park(a b)").unwrap();
        let read: Vec<_> = orders.iter().map(|order| (order.point, order.at, order.action.clone())).collect();
        assert_eq!(
            read,
            [
                (FailPoint::AfterBegin, 3, Action::Kill),
                (FailPoint::Lost, 1, Action::Stop),
                (FailPoint::Formed, 1, Action::Panic),
                (FailPoint::Drained, 1, Action::Park(PathBuf::from("a b"))),
            ]
        );
        assert!(parsed("").unwrap().is_empty());
    }

    #[test]
    fn an_order_that_would_never_be_carried_out_is_refused() {
        let form = |order: &str| BadOrder::Form { order: order.to_owned() };
        let action = |action: &str| BadOrder::Action { action: action.to_owned() };
        for (text, error) in [
            ("after-begin", form("after-begin")),
            ("after-begin:0=kill", form("after-begin:0=kill")),
            ("after-begin:x=kill", form("after-begin:x=kill")),
            ("after-beginn=kill", BadOrder::Point { name: "after-beginn".to_owned() }),
            ("lost=stop,=kill", BadOrder::Point { name: String::new() }),
            ("after-begin=die", action("die")),
            ("after-begin=park()", action("park()")),
        ] {
            assert_eq!(parsed(text).unwrap_err(), error, "{text}");
        }
    }

    #[test]
    fn every_point_has_a_name_of_its_own() {
        let names: BTreeSet<&str> = FailPoint::ALL.iter().map(|point| point.name()).collect();
        assert_eq!(names.len(), FailPoint::ALL.len());
    }
}
