//! The known word that a mistyped one is nearest to.

/// The nearest of `known`, if it is near enough to be meant.
pub(crate) fn nearest<'a>(word: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    // A third of the letters may differ: `tier` finds `tiers`, `rate` does not find `base`.
    let near = (word.chars().count() / 3).clamp(1, 4);
    let scored = known.into_iter().map(|candidate| (distance(word, candidate), candidate));
    scored.filter(|(steps, _)| *steps <= near).min().map(|(_, candidate)| candidate)
}

/// How many letters must be put in, left out, changed or swapped with their neighbour to come from one word to the
/// other, `-` and `_` being one (optimal string alignment).
fn distance(from: &str, to: &str) -> usize {
    let letters =
        |word: &str| -> Vec<char> { word.chars().map(|c| if c == '_' { '-' } else { c }).collect() };
    let (from, to) = (letters(from), letters(to));
    let at = |row: &[usize], index: usize| row.get(index).copied().unwrap_or(usize::MAX);
    let mut above: Vec<usize> = Vec::new();
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (line, letter) in from.iter().enumerate() {
        let mut next = vec![line.saturating_add(1)];
        for (column, other) in to.iter().enumerate() {
            let changed = at(&row, column).saturating_add(usize::from(letter != other));
            let left_out = at(&row, column.saturating_add(1)).saturating_add(1);
            let put_in = at(&next, column).saturating_add(1);
            let swapped = match (line.checked_sub(1), column.checked_sub(1)) {
                (Some(upper), Some(left))
                    if from.get(upper) == Some(other) && to.get(left) == Some(letter) =>
                {
                    at(&above, left).saturating_add(1)
                }
                (Some(_) | None, Some(_) | None) => usize::MAX,
            };
            next.push(changed.min(left_out).min(put_in).min(swapped));
        }
        above = std::mem::replace(&mut row, next);
    }
    row.last().copied().unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mistyped_word_finds_the_one_that_was_meant() {
        let known = ["tiers", "in-place", "deadline", "base"];
        let found = ["tier", "in_place", "dedline", "rate", "x", ""].map(|word| nearest(word, known));
        assert_eq!(found, [Some("tiers"), Some("in-place"), Some("deadline"), None, None, None]);
    }

    #[test]
    fn the_distance_counts_letters() {
        assert_eq!(distance("", ""), 0);
        assert_eq!(distance("abc", ""), 3);
        assert_eq!(distance("", "abc"), 3);
        assert_eq!(distance("kitten", "sitting"), 3);
        assert_eq!(distance("dql", "dlq"), 1);
        assert_eq!(distance("last_teir", "last-tier"), 1);
    }
}
