//! Seeds that once failed, each with what it found.

/// They always run. Whoever changes what a plan draws changes what a seed does: such seeds have to be found anew.
pub(super) const SEEDS: &[u64] = &[
    // A blocked task whose probe failed for another reason was never tried again.
    352, 1394, 1403, 4499,
    // A task that came back was blocked by the transaction of its last assignment.
    2934, 3149,
    // A transaction had room for a part of what belongs together only, and took nothing, over and over.
    5103,
];
