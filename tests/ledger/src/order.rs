//! Records of a key come out in the order in which they went in, where that is asked.

use std::collections::HashMap;

use super::kind::{Findings, Kind};
use super::lives::Lives;
use super::{Order, Rules, print};

pub(crate) fn check(rules: &Rules, lives: &Lives, findings: &mut Findings) {
    let asked = |copies: usize| match rules.order {
        Order::Unchecked => false,
        Order::FirstTries => copies == 0,
        Order::All => true,
    };
    let without_key = print::of(None::<Vec<u8>>);
    // Per source partition and key: the place in the output of the record before.
    let mut last = HashMap::new();
    for (partition, life) in lives.iter().filter(|(_, life)| asked(life.copies.len())) {
        let output = life.ends.iter().find(|end| end.reason.is_none());
        let Some(output) = output.filter(|_| life.print.key != without_key) else { continue };
        let place = (output.at.partition, output.at.offset);
        if let Some((before, earlier)) = last.insert((partition, life.print.key), (place, life.offset))
            && (before.0 != place.0 || before.1 > place.1)
        {
            let offset = life.offset;
            let what =
                format!("offset `{offset}` came out before offset `{earlier}` of the same key, or elsewhere");
            findings.find(Kind::OutOfOrder, rules.place(output.at.role, place.0, place.1), what);
        }
    }
}
