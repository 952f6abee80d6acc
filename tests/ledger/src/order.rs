//! Records of a key come out in the order in which they went in, where that is asked.

use std::collections::BTreeMap;

use super::life::Lives;
use super::{Kind, Order, Report, Rules};

pub(super) fn check(rules: &Rules, lives: &Lives<'_>, report: &mut Report) {
    let asked = |copies: usize| match rules.order {
        Order::Unchecked => false,
        Order::FirstTries => copies == 0,
        Order::All => true,
    };
    // Per source partition and key: the place in the output of the record before.
    let mut last = BTreeMap::new();
    for ((partition, offset), life) in lives.iter().filter(|(_, life)| asked(life.copies.len())) {
        let (Some(key), Some(output)) = (&life.source.key, life.outputs.first()) else { continue };
        let place = (output.partition, output.offset);
        if let Some((before, earlier)) = last.insert((*partition, key), (place, *offset))
            && (before.0 != place.0 || before.1 > place.1)
        {
            let what =
                format!("offset `{offset}` came out before offset `{earlier}` of the same key, or elsewhere");
            report.find(Kind::OutOfOrder, rules.place(output), what);
        }
    }
}
