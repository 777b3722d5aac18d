//! The same checks on inputs that are drawn with more knowledge of what may go wrong.

use proptest::prelude::*;

/// As many cases as a test asks for, or as `PROPTEST_CASES` says where that is more.
pub(crate) fn cases(least: u32) -> ProptestConfig {
    let config = ProptestConfig::default();
    ProptestConfig { cases: config.cases.max(least), ..config }
}
