//! Every store: the conformance suite, its failures, and servers that are not ours.

mod azure;
mod dir_store;
mod disk;
mod dynamodb_promises;
mod dynamodb_servers;
mod dynamodb_store;
mod gcs;
mod gcs_promises;
mod groups;
mod morling_on_s3;
mod object_store;
mod s3_store;
mod servers;
mod stores;

#[test]
fn filters_of_the_pages_name_tests() {
    let features = [
        ("azure", cfg!(feature = "azure")),
        ("dynamodb", cfg!(feature = "dynamodb")),
        ("gcs", cfg!(feature = "gcs")),
        ("object-store", cfg!(feature = "object-store")),
        ("object-store-tests", cfg!(feature = "object-store-tests")),
    ];
    let on = features.into_iter().filter(|(_, on)| *on).map(|(name, _)| name);
    tenure_testkit::page_filters::name_tests_of("stores", &on.collect::<Vec<_>>());
}
