//! Tests how the store reads the settings of a bucket.

use tenure::store::{Determinacy, LifecycleRule, StoreErrorKind, Versioning};

use tenure_testkit::s3_server::*;

const SECRET: &str = "another secret";

async fn rules(xml: &str) -> Vec<LifecycleRule> {
    let server = S3Server::start().await;
    let xml = format!("<LifecycleConfiguration>{xml}</LifecycleConfiguration>");
    server.quirks(|quirks| drop(quirks.settings.insert("lifecycle", xml)));
    server.store(BUCKET).bucket_settings().await.lifecycle.expect("the settings are readable")
}

#[tokio::test]
async fn a_new_bucket_has_no_versions_and_no_rules() {
    let server = S3Server::start().await;
    let settings = server.store(BUCKET).bucket_settings().await;
    assert_eq!(settings.versioning.expect("the settings are readable"), Versioning::Off);
    assert_eq!(settings.lifecycle.expect("the settings are readable"), []);
    assert_eq!(server.requests().len(), 2, "the settings cost the two documented requests");
}

#[tokio::test]
async fn versioning_is_on_or_suspended() {
    let server = S3Server::start().await;
    for (status, versioning) in [("Enabled", Versioning::On), ("Suspended", Versioning::Suspended)]
    {
        let xml = format!(
            "<VersioningConfiguration xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">\
             <Status>{status}</Status></VersioningConfiguration>"
        );
        server.quirks(|quirks| drop(quirks.settings.insert("versioning", xml)));
        let seen = server.store(BUCKET).bucket_settings().await.versioning;
        assert_eq!(seen.expect("the settings are readable"), versioning);
    }
}

/// If the store requests a setting of a bucket, a third-party server may send a document that
/// describes no setting. A retry would not help, so the error is not transient.
#[tokio::test]
async fn an_answer_of_another_kind_is_unsupported() {
    let server = S3Server::start().await;
    let xml = "<?xml version=\"1.0\"?><Versions><Status>Enabled</Status></Versions>".to_owned();
    server.quirks(|quirks| drop(quirks.settings.insert("versioning", xml)));
    let error = server.store(BUCKET).bucket_settings().await.versioning.expect_err("not S3's form");
    assert_eq!(
        (error.kind(), error.determinacy()),
        (StoreErrorKind::Unsupported, Determinacy::Determinate)
    );
}

#[tokio::test]
async fn every_form_of_a_lifecycle_filter_is_read() {
    let rules = rules(
        "<Rule><ID>all</ID><Filter/><Status>Enabled</Status>\
           <Expiration><Days>30</Days></Expiration></Rule>\
         <Rule><ID>off</ID><Filter/><Status>Disabled</Status>\
           <Expiration><Days>1</Days></Expiration></Rule>\
         <Rule><Prefix>old/</Prefix><Status>Enabled</Status>\
           <Expiration><Date>2027-01-01T00:00:00Z</Date></Expiration></Rule>\
         <Rule><Filter><Prefix>app/</Prefix></Filter><Status>Enabled</Status>\
           <NoncurrentVersionExpiration><NoncurrentDays>1</NoncurrentDays>\
           </NoncurrentVersionExpiration>\
           <Expiration><ExpiredObjectDeleteMarker>true</ExpiredObjectDeleteMarker></Expiration>\
           </Rule>\
         <Rule><Filter><And><Prefix>x/</Prefix><Tag><Key>a</Key><Value>b</Value></Tag>\
           <ObjectSizeGreaterThan>500</ObjectSizeGreaterThan></And></Filter>\
           <Status>Enabled</Status><Transition><Days>30</Days>\
           <StorageClass>GLACIER</StorageClass></Transition></Rule>\
         <Rule><Filter><ObjectSizeLessThan>9</ObjectSizeLessThan></Filter>\
           <Status>Enabled</Status><Transition><Days>30</Days>\
           <StorageClass>STANDARD_IA</StorageClass></Transition></Rule>",
    )
    .await;
    let rule = |prefix: &str| LifecycleRule { prefix: prefix.to_owned(), ..Default::default() };
    let expected = [
        LifecycleRule { id: "all".to_owned(), expires_current: true, ..rule("") },
        LifecycleRule { expires_current: true, ..rule("old/") },
        LifecycleRule { expires_noncurrent: true, ..rule("app/") },
        LifecycleRule { tagged: true, larger_than: Some(500), archives: true, ..rule("x/") },
        LifecycleRule { smaller_than: Some(9), ..rule("") },
    ];
    assert_eq!(rules, expected);
}

#[tokio::test]
async fn the_error_names_a_missing_permission_to_read_the_settings() {
    let server = S3Server::start().await;
    server.add_user("AKIACANDIDATE", SECRET, &[Op::Bucket]);
    let client = server.client_as("AKIACANDIDATE", SECRET);
    let store = tenure::store::S3Store::new(client, BUCKET);
    let settings = store.bucket_settings().await;
    for error in [
        settings.versioning.expect_err("access is denied"),
        settings.lifecycle.expect_err("access is denied"),
    ] {
        assert_eq!(error.kind(), StoreErrorKind::AccessDenied);
        assert!(error.to_string().contains("s3:GetBucketVersioning"), "{error}");
    }
}

#[tokio::test]
async fn a_store_without_such_settings_is_unsupported() {
    let server = S3Server::start().await;
    server.fault(ServerFault::Answer(501, "NotImplemented")).on(Op::Bucket);
    let settings = server.store(BUCKET).bucket_settings().await;
    let error = settings.lifecycle.expect_err("the request is not implemented");
    assert_eq!(error.kind(), StoreErrorKind::Unsupported);
    server.clear_faults();
    // moto 5.2.5 gives this answer for a bucket that never had versions.
    let other = "<?xml version=\"1.0\"?>\n<GetBucketVersioningResponse/>".to_owned();
    server.quirks(|quirks| drop(quirks.settings.insert("versioning", other)));
    let error = server.store(BUCKET).bucket_settings().await.versioning.expect_err("malformed");
    assert!(error.to_string().contains("the response is invalid"), "{error}");
}
