//! Tests `AnyObjectStore` with clients of object_store: the client for S3 is accepted, and the
//! client for the local file system is refused.

use std::sync::Arc;

use object_store::local::LocalFileSystem;
use tenure::store::{AnyObjectStore, StoreErrorKind};

#[tokio::test]
async fn the_local_file_system_is_refused_at_build_with_the_reason() {
    let dir = tempfile::tempdir().unwrap();
    let local = LocalFileSystem::new_with_prefix(dir.path()).unwrap();
    let error = AnyObjectStore::new(Arc::new(local)).await.expect_err("refused");
    assert_eq!(error.kind(), StoreErrorKind::Unsupported);
    let words = error.to_string();
    for word in ["LocalFileSystem", "cannot replace an object conditionally", "PutMode::Update"] {
        assert!(words.contains(word), "{word:?} is missing in: {words}");
    }
    assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 0, "no file is left");
}

#[cfg(feature = "s3")]
mod s3 {
    use object_store::aws::{AmazonS3, AmazonS3Builder, S3ConditionalPut};
    use tenure::store::{Determinacy, PutOutcome, Store};
    use tenure::{CampaignOutcome, Election, Epoch};
    use tenure_fencing::FencedObject;

    use super::*;
    use tenure_testkit::conformance;
    use tenure_testkit::s3_server::*;

    /// Returns a client with the default retry configuration.
    fn client(server: &S3Server) -> AmazonS3 {
        builder(server).build().expect("a client")
    }

    fn builder(server: &S3Server) -> AmazonS3Builder {
        // Without a TLS provider, the client cannot be built. All tests share the provider.
        let _ = rustls::crypto::ring::default_provider().install_default();
        AmazonS3Builder::new()
            .with_bucket_name(BUCKET)
            .with_region(REGION)
            .with_endpoint(server.endpoint())
            .with_allow_http(true)
            .with_access_key_id(ACCESS_KEY)
            .with_secret_access_key(SECRET_KEY)
    }

    async fn store(server: &S3Server) -> Arc<AnyObjectStore> {
        Arc::new(
            AnyObjectStore::new(Arc::new(client(server))).await.expect("the store is accepted"),
        )
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 4)]
    async fn the_store_passes_the_suite_over_http() {
        let server = S3Server::start().await;
        conformance::run(store(&server).await, "app/").await;
    }

    #[tokio::test]
    async fn the_build_sends_no_request() {
        let server = S3Server::start().await;
        store(&server).await;
        assert!(server.requests().is_empty());
    }

    #[tokio::test]
    async fn a_client_without_conditional_puts_is_refused_at_build() {
        let server = S3Server::start().await;
        let client = builder(&server).with_conditional_put(S3ConditionalPut::Disabled);
        let client = Arc::new(client.build().unwrap());
        let error = AnyObjectStore::new(client).await.expect_err("refused");
        assert_eq!(error.kind(), StoreErrorKind::Unsupported, "{error}");
        assert!(error.to_string().contains("puts are disabled"), "{error}");
    }

    #[tokio::test]
    async fn a_directory_bucket_is_refused_at_build() {
        let server = S3Server::start().await;
        let client = builder(&server).with_bucket_name("b--use1-az4--x-s3").build().unwrap();
        let error = AnyObjectStore::new(Arc::new(client)).await.expect_err("refused");
        assert!(error.to_string().contains("no order"), "{error}");
    }

    #[tokio::test]
    async fn a_foreign_key_that_object_store_cannot_name_is_not_transient() {
        let server = S3Server::start().await;
        let store = store(&server).await;
        server.put_raw("app//a", "x");
        let error = store.list("app/", "", 9).await.expect_err("the key is not valid");
        assert_eq!(
            (error.kind(), error.determinacy()),
            (StoreErrorKind::Invalid, Determinacy::Determinate)
        );
    }

    /// A write takes effect and is answered with 500. The client sends the write again, and the
    /// server answers the second attempt with 403. So the store must report that the effect of the
    /// write is unknown.
    #[tokio::test]
    async fn regression_a_denial_after_the_clients_own_retry_has_an_unknown_effect() {
        let server = S3Server::start().await;
        let store = store(&server).await;
        server.fault(ServerFault::ErrorAfter).on(Op::Put).key_contains("landed").times(1);
        server.fault(ServerFault::AccessDenied).on(Op::Put).key_contains("landed").times(1);
        let error = store.create("landed", "x".into()).await.expect_err("the retry is denied");
        assert_eq!(error.kind(), StoreErrorKind::AccessDenied, "{error}");
        assert_eq!(error.determinacy(), Determinacy::Indeterminate, "{error}");
        assert!(error.to_string().ends_with("(it may have taken effect)"), "{error}");
        assert!(server.object("landed").is_some(), "it has");

        // The first create takes effect and is answered with 500. The retry is denied.
        server.fault(ServerFault::ErrorAfter).on(Op::Put).key_contains("lock-").times(1);
        server.fault(ServerFault::AccessDenied).on(Op::Put).key_contains("lock-").times(1);
        let election = Election::builder(store, "app").build().unwrap();
        let CampaignOutcome::Elected(leadership) = election.try_campaign().await.unwrap() else {
            panic!("the candidate treated its own create as another candidate's create")
        };
        assert_eq!(leadership.epoch().get(), 1);
    }

    /// The first attempt of a write may have taken effect although the server refuses the retry of
    /// the client. If the writer then reads an object of a greater epoch, it cannot know whether
    /// its own write took effect before the write of this object.
    #[tokio::test]
    async fn regression_a_refusal_after_the_clients_own_retry_has_an_unknown_effect() {
        let server = S3Server::start().await;
        let store = store(&server).await;
        assert!(store.capabilities().may_send_twice);
        let object = FencedObject::new(store, "object");
        let mut old = object.open(Epoch::FIRST).await.unwrap();
        let mut new = object.open(Epoch::new(2).unwrap()).await.unwrap();
        new.write("new").await.unwrap();
        let error = old.write("old").await.expect_err("stale");
        assert!(error.stale().is_some() && error.may_have_happened(), "{error}");
    }

    /// A write takes effect and is answered with 500. The client sends the write again, and the
    /// server refuses the second attempt.
    #[tokio::test]
    async fn the_clients_own_retries_are_harmless() {
        let server = S3Server::start().await;
        let store = store(&server).await;
        server.fault(ServerFault::ErrorAfter).on(Op::Put).key_contains("alone").times(1);
        assert_eq!(
            store.create("alone", "x".into()).await.unwrap(),
            PutOutcome::PreconditionFailed
        );

        server.fault(ServerFault::ErrorAfter).on(Op::Put).key_contains("lock-").times(1);
        let election = Election::builder(store, "app").build().unwrap();
        let CampaignOutcome::Elected(leadership) = election.try_campaign().await.unwrap() else {
            panic!("the candidate treated its own create as another candidate's create")
        };
        assert_eq!(leadership.epoch().get(), 1);
        server.fault(ServerFault::ErrorAfter).on(Op::Put).key_contains("lock-").times(1);
        leadership.proclaim("here").await.expect("its own renewal is recognised");
        leadership.resign().await.expect("resigned");
    }
}
