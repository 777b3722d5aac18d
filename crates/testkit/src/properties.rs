//! The number of cases, and the epoch numbers, of the property tests of several packages.

use proptest::prelude::*;

/// Returns the configuration with this number of cases, or with the number in the variable
/// `PROPTEST_CASES` if that number is greater.
pub fn cases(least: u32) -> ProptestConfig {
    let config = ProptestConfig::default();
    ProptestConfig { cases: config.cases.max(least), ..config }
}

/// Generates epoch numbers of any size. Small numbers and both ends of the range are frequent.
pub fn any_epoch_number() -> impl Strategy<Value = u64> {
    let last = tenure::Epoch::MAX.get();
    prop_oneof![
        4 => 1..60_u64,
        2 => 1..5_000_u64,
        1 => last - 3..=last,
        2 => 1..=last,
    ]
}
