//! What a plain `cargo test` cannot tell of the filters that pages give to test programs: those for
//! programs of `tenure-model`, which it does not build, and which tests a command without the features
//! that it turns on would not have. cli/tests/docs takes no other filter for such programs and tests.
//! Tests behind another feature need a row here: without one a filter for them is taken in any build.

use std::process::Command;

/// The test program of `tenure-model`, and the filter. Each holds its own to its list of tests.
pub const FILTERS: &[(&str, &str)] = &[
    ("group_model", "broken"),
    ("group_simulation", "broken"),
    ("model", "a_compactor_among_late_requests"),
    ("model", "walk"),
    ("model", "walk_among_lawful_peers"),
    ("simulation", "broken_held"),
    ("simulation", "drawn"),
    ("simulation", "on_a_single_object"),
    ("simulation", "the_invariants"),
    ("simulation", "the_invariants_hold_under_faults"),
];

/// The test program, or the package of unit tests; a feature that is off in a build of one package, or without
/// default features; and how the names begin of the tests behind it.
pub const BEHIND: &[(&str, &str, &str)] = &[
    ("cli", "azure", "clouds::azure::"),
    ("cli", "dynamodb", "dynamodb::built::"),
    ("cli", "dynamodb", "permissions::dynamodb::"),
    ("cli", "gcs", "clouds::gcs::"),
    ("cli", "s3", "absent::"),
    ("cli", "s3", "credentials::"),
    ("cli", "s3", "interrupt::"),
    ("cli", "s3", "permissions::"),
    ("cli", "s3", "probe::on_s3::"),
    ("cli", "s3", "s3::"),
    ("election", "s3", "examples::s3::"),
    ("fencing", "s3", "fencing::on_s3"),
    ("stores", "azure", "azure::"),
    ("stores", "azure", "groups::on_azure"),
    ("stores", "dynamodb", "dynamodb_"),
    ("stores", "dynamodb", "groups::on_dynamodb"),
    ("stores", "dynamodb", "stores::dynamodb_over_http"),
    ("stores", "gcs", "gcs"),
    ("stores", "gcs", "groups::on_cloud_storage"),
    ("stores", "object-store", "object_store::"),
    ("stores", "object-store-tests", "object_store::clients::"),
    ("stores", "s3", "closed_port::"),
    ("stores", "s3", "empty_pages::"),
    ("stores", "s3", "groups::on_s3"),
    ("stores", "s3", "groups::on_the_s3_server"),
    ("stores", "s3", "morling_on_s3::"),
    ("stores", "s3", "s3_store::"),
    ("stores", "s3", "servers::"),
    ("stores", "s3", "stores::s3_"),
    ("tenure", "dynamodb", "store::dynamodb::"),
    ("tenure", "object-store", "store::any::"),
    ("tenure", "s3", "store::s3::"),
    ("tenure-cli", "s3", "probe::bucket::"),
];

/// Panics if a filter for this program names none of its tests.
pub fn name_tests_of(program: &str) {
    let this = std::env::current_exe().expect("a path");
    let output = Command::new(this).args(["--list", "--format", "terse"]).output();
    let said = String::from_utf8(output.expect("it lists its tests").stdout).expect("UTF-8");
    for (_, filter) in FILTERS.iter().filter(|(name, _)| *name == program) {
        let mut named = said.lines().filter_map(|line| line.strip_suffix(": test"));
        assert!(named.any(|test| test.contains(filter)), "no test is named by {filter:?}");
    }
}
