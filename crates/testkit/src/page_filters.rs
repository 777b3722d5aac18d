//! The filters that pages give to test programs which a plain `cargo test` does not build: those of
//! `tenure-model`, and tests behind a feature that is off by default. Each program holds its own
//! filters to its list of tests; cli/tests/docs takes no other filter for such a program.

use std::process::Command;

/// The test program, the feature that the tests are behind, and the filter.
pub const FILTERS: &[(&str, &str, &str)] = &[
    ("group_model", "", "broken"),
    ("group_simulation", "", "broken"),
    ("model", "", "a_compactor_among_late_requests"),
    ("model", "", "walk"),
    ("model", "", "walk_among_lawful_peers"),
    ("simulation", "", "broken_held"),
    ("simulation", "", "drawn"),
    ("simulation", "", "on_a_single_object"),
    ("simulation", "", "the_invariants"),
    ("simulation", "", "the_invariants_hold_under_faults"),
    ("stores", "azure", "azure"),
    ("stores", "dynamodb", "dynamodb"),
    ("stores", "dynamodb", "dynamodb_servers"),
    ("stores", "dynamodb", "regression_a_missing_region"),
    ("stores", "dynamodb", "regression_the_date_of_an_answer"),
    ("stores", "gcs", "emulator"),
    ("stores", "gcs", "gcs"),
    ("stores", "gcs", "gcs_promises"),
    ("stores", "gcs", "real"),
    ("stores", "gcs", "regression_a_bucket_that_fails_does_not_pass"),
    ("stores", "gcs", "regression_a_bucket_without_etags"),
    ("stores", "gcs", "regression_the_server_in_the_key"),
    ("stores", "object-store", "object_store"),
    ("stores", "object-store-tests", "regression_an_object_of_the_users"),
];

/// Panics if a filter for this program, built with these features, names none of its tests.
pub fn name_tests_of(program: &str, features: &[&str]) {
    let this = std::env::current_exe().expect("a path");
    let output = Command::new(this).args(["--list", "--format", "terse"]).output();
    let said = String::from_utf8(output.expect("it lists its tests").stdout).expect("UTF-8");
    let own = FILTERS.iter().filter(|(name, feature, _)| {
        *name == program && (feature.is_empty() || features.contains(feature))
    });
    for (_, _, filter) in own {
        let named = said.lines().filter_map(|line| line.strip_suffix(": test"));
        assert!(named.clone().any(|test| test.contains(filter)), "no test is named by {filter:?}");
    }
}
