//! What property tests of several modules draw, and the scheduler of those that interleave tasks.

pub(crate) mod interleavings;
mod logged;

use proptest::prelude::*;

use crate::epoch::Epoch;

pub(crate) use logged::logged;

/// As many cases as a test asks for, or as `PROPTEST_CASES` says where that is more.
pub(crate) fn cases(least: u32) -> ProptestConfig {
    let config = ProptestConfig::default();
    ProptestConfig { cases: config.cases.max(least), ..config }
}

/// Epochs of any size; the small ones and the ends are drawn often.
pub(crate) fn any_epoch() -> impl Strategy<Value = Epoch> {
    let last = Epoch::MAX.get();
    prop_oneof![
        4 => 1..60_u64,
        2 => 1..5_000_u64,
        1 => last - 3..=last,
        2 => 1..=last,
    ]
    .prop_map(|number| Epoch::new(number).expect("it is in range"))
}
