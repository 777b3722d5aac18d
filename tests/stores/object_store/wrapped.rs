//! Tests `AnyObjectStore` on stores with unusual behaviour: the result for each answer, and the
//! stores that `AnyObjectStore` refuses.

use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use futures::StreamExt as _;
use futures::stream::BoxStream;
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{
    Attribute, CopyOptions, Error, GetOptions, GetResult, GetResultPayload, ListResult,
    MultipartUpload, ObjectMeta, ObjectStore, PutMode, PutMultipartOptions, PutOptions, PutPayload,
    PutResult, Result,
};
use tenure::store::{
    AnyObjectStore, Determinacy, ETag, GetOutcome, PutOutcome, Store, StoreError, StoreErrorKind,
};
use tenure::{CampaignOutcome, Election, ErrorKind};

use super::taken;

/// The behaviour of the wrapped store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Way {
    /// Behaves like the store in memory.
    Plain,
    /// Supports no conditions.
    Unconditional,
    /// Treats any version as the current version.
    AnyVersion,
    /// Lists keys in reverse order.
    Backwards,
    /// Sends each write twice, except the constructor's probe, and returns the refusal of the
    /// second attempt.
    RepeatsItself,
    /// Returns more bytes in a read than the announced size.
    Longer,
    /// Deletes no key that contains `kept`.
    Keeps,
    /// Fails every write with this client message.
    Fails(&'static str),
}

#[derive(Debug)]
struct Wrapped {
    inner: InMemory,
    way: Way,
    puts: AtomicUsize,
    /// `If-None-Match` condition of the last read.
    if_none_match: Mutex<Option<String>>,
}

impl Wrapped {
    fn new(way: Way) -> Wrapped {
        let (puts, if_none_match) = (AtomicUsize::new(0), Mutex::default());
        Wrapped { inner: InMemory::new(), way, puts, if_none_match }
    }
}

impl fmt::Display for Wrapped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Wrapped({:?})", self.way)
    }
}

#[async_trait]
impl ObjectStore for Wrapped {
    async fn put_opts(
        &self,
        location: &Path,
        payload: PutPayload,
        mut opts: PutOptions,
    ) -> Result<PutResult> {
        let conditional = opts.mode != PutMode::Overwrite;
        match self.way {
            Way::Unconditional if conditional => Err(Error::NotImplemented {
                operation: "conditional puts".to_owned(),
                implementer: self.to_string(),
            }),
            Way::AnyVersion => {
                opts.mode = PutMode::Overwrite;
                self.inner.put_opts(location, payload, opts).await
            }
            Way::RepeatsItself if self.puts.fetch_add(1, Ordering::SeqCst) > 0 => {
                self.inner.put_opts(location, payload.clone(), opts.clone()).await?;
                self.inner.put_opts(location, payload, opts).await
            }
            Way::Fails(words) if !matches!(&opts.mode, PutMode::Update(v) if v.e_tag.is_none()) => {
                let (path, source) = (location.to_string(), words.into());
                Err(match (words.contains("404"), words.contains("412")) {
                    (true, _) => Error::NotFound { path, source },
                    (_, true) => Error::Precondition { path, source },
                    _ if words.contains("409") => Error::AlreadyExists { path, source },
                    _ => Error::Generic { store: "Wrapped", source },
                })
            }
            _ => self.inner.put_opts(location, payload, opts).await,
        }
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        opts: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.inner.put_multipart_opts(location, opts).await
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        self.if_none_match.lock().unwrap().clone_from(&options.if_none_match);
        let mut result = self.inner.get_opts(location, options).await?;
        if self.way == Way::Longer {
            let whole = result.bytes().await?;
            let chunks = [Ok(whole), Ok("more".into())];
            result = self.inner.get_opts(location, GetOptions::default()).await?;
            result.payload = GetResultPayload::Stream(futures::stream::iter(chunks).boxed());
        }
        Ok(result)
    }

    fn delete_stream(
        &self,
        locations: BoxStream<'static, Result<Path>>,
    ) -> BoxStream<'static, Result<Path>> {
        if self.way != Way::Keeps {
            return self.inner.delete_stream(locations);
        }
        let kept = |path: Path| match path.as_ref().contains("kept") {
            true => Err(Error::Generic { store: "Wrapped", source: "not now".into() }),
            false => Ok(path),
        };
        locations.map(move |path| path.and_then(kept)).boxed()
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        let list = self.inner.list(prefix);
        if self.way != Way::Backwards {
            return list;
        }
        let reversed = list.collect::<Vec<_>>();
        let reversed = async { futures::stream::iter(reversed.await.into_iter().rev()) };
        futures::stream::once(reversed).flatten().boxed()
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.inner.list_with_delimiter(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.inner.copy_opts(from, to, options).await
    }
}

async fn refused(store: impl ObjectStore) -> StoreError {
    AnyObjectStore::new(Arc::new(store)).await.expect_err("refused at build")
}

#[tokio::test]
async fn a_store_without_conditions_is_refused_at_build() {
    let error = refused(Wrapped::new(Way::Unconditional)).await;
    assert_eq!(
        (error.kind(), error.determinacy()),
        (StoreErrorKind::Unsupported, Determinacy::Determinate)
    );
    let words = error.to_string();
    for word in ["Wrapped(Unconditional)", "cannot replace an object conditionally"] {
        assert!(words.contains(word), "{words}");
    }
}

#[tokio::test]
async fn a_store_that_accepts_any_version_is_refused_and_left_clean() {
    let store = Arc::new(Wrapped::new(Way::AnyVersion));
    let error = AnyObjectStore::new(store.clone()).await.expect_err("refused");
    assert!(error.to_string().contains("without comparing its version"), "{error}");
    assert_eq!(store.list(None).count().await, 0, "the probe is deleted");
}

/// The constructor of `AnyObjectStore` checks the store by a write. Before the fix, the constructor
/// wrote to a fixed key, and then deleted the object there, even if the object belonged to the
/// user.
#[tokio::test]
async fn regression_the_build_does_not_overwrite_an_object_of_the_user() {
    let store = Arc::new(Wrapped::new(Way::AnyVersion));
    let (theirs, options) = (Path::from("tenure-probe"), PutOptions::default());
    store.put_opts(&theirs, "theirs".into(), options).await.unwrap();
    AnyObjectStore::new(store.clone()).await.expect_err("refused");
    let found = store.get_opts(&theirs, GetOptions::default()).await.expect("the object exists");
    assert_eq!(found.bytes().await.unwrap(), "theirs");
    assert_eq!(store.list(None).count().await, 1, "the probe is deleted");
}

#[tokio::test]
async fn a_listing_out_of_order_makes_the_store_unsafe() {
    let store = Wrapped::new(Way::Backwards);
    for key in ["app/a", "app/b"] {
        store.inner.put_opts(&key.into(), "x".into(), PutOptions::default()).await.unwrap();
    }
    let store = Arc::new(taken(store).await);
    let error = store.list("app/", "", 9).await.expect_err("out of order");
    assert_eq!(error.kind(), StoreErrorKind::Unsupported, "{error}");
    let election = Election::builder(store, "app").build().unwrap();
    let error = election.try_campaign().await.expect_err("refused");
    assert_eq!(error.kind(), ErrorKind::UnsafeStore, "{error}");
}

#[tokio::test]
async fn an_answer_longer_than_announced_is_an_error() {
    let store = taken(Wrapped::new(Way::Longer)).await;
    store.create("a", "one".into()).await.unwrap();
    let error = store.get("a", None, 1_000).await.expect_err("the body is too long");
    assert_eq!(error.kind(), StoreErrorKind::Transient, "{error}");
    assert!(error.to_string().contains("the length of the response differs"), "{error}");
}

/// The reader sends the version that it knows as a condition of its read. So the store sends the
/// body only if the version has changed.
#[tokio::test]
async fn a_read_sends_the_known_version() {
    let wrapped = Arc::new(Wrapped::new(Way::Plain));
    let store = AnyObjectStore::new(wrapped.clone()).await.unwrap();
    store.create("a", "one".into()).await.unwrap();
    let sent = || wrapped.if_none_match.lock().unwrap().clone();
    let quoted = ETag::new("\"another\"");
    assert!(matches!(store.get("a", Some(quoted), 9).await, Ok(GetOutcome::Found(_))));
    assert_eq!(sent().as_deref(), Some("\"another\""));
}

/// Without another request, the client cannot know whether a key follows the thousandth key. So a
/// page with a thousand keys reports that it is truncated.
#[tokio::test]
async fn a_page_of_a_thousand_keys_is_truncated() {
    let store = Wrapped::new(Way::Plain);
    for key in 0..1_000 {
        let key = format!("app/{key:04}");
        store.inner.put_opts(&key.into(), "x".into(), PutOptions::default()).await.unwrap();
    }
    let page = taken(store).await.list("app/", "", 1_000).await.unwrap();
    assert_eq!((page.entries.len(), page.truncated), (1_000, true));
}

#[tokio::test]
async fn a_deletion_returns_the_undeleted_keys_and_fails_if_no_key_was_deleted() {
    let store = taken(Wrapped::new(Way::Keeps)).await;
    let failed = store.delete(vec!["a".to_owned(), "kept".to_owned()]).await.unwrap();
    let [(key, why)] = failed.as_slice() else { panic!("{failed:?}") };
    assert!(key == "kept" && why.to_string().contains("not now"), "{key}: {why}");
    let error = store.delete(vec!["kept".to_owned()]).await.expect_err("nothing was deleted");
    assert_eq!(error.determinacy(), Determinacy::Indeterminate, "{error}");
}

/// The caller's client may repeat a write that has taken effect. The store refuses this second
/// write. Then the candidate reads the object back, and recognises its own nonce.
#[tokio::test]
async fn a_client_that_repeats_writes_costs_only_a_read() {
    let store = Arc::new(taken(Wrapped::new(Way::RepeatsItself)).await);
    assert_eq!(store.create("x", "x".into()).await.unwrap(), PutOutcome::PreconditionFailed);
    let election = Election::builder(store, "app").check_store(false).build().unwrap();
    for epoch in 1..=2 {
        let CampaignOutcome::Elected(leadership) = election.try_campaign().await.unwrap() else {
            panic!("the candidate treated its own create as another candidate's create")
        };
        assert_eq!(leadership.epoch().get(), epoch);
        leadership.proclaim("here").await.expect("its own renewal is recognised");
        leadership.check().expect("the candidate leads");
        leadership.resign().await.expect("resigned");
    }
}

#[tokio::test]
async fn objects_forbid_caching() {
    let wrapped = Arc::new(Wrapped::new(Way::Plain));
    let store = AnyObjectStore::new(wrapped.clone()).await.unwrap();
    store.create("a.json", "{}".into()).await.unwrap();
    let stored = wrapped.get_opts(&"a.json".into(), GetOptions::default()).await.unwrap();
    let value = |attribute| stored.attributes.get(&attribute).map(|value| value.to_string());
    assert_eq!(value(Attribute::CacheControl).as_deref(), Some("no-store"));
    assert_eq!(value(Attribute::ContentType).as_deref(), Some("application/json"));
}

/// Expands to the message that clients of object_store create for an answer with this status and
/// code.
macro_rules! answer {
    ($status:literal, $code:literal) => {
        concat!(
            "Server returned non-2xx status code: ",
            $status,
            ": <?xml version=\"1.0\"?><Error><Code>",
            $code,
            "</Code><Message>why</Message></Error>"
        )
    };
}

/// Returns the results of a create and of a replacement. The client fails both writes with the
/// message `words`.
async fn answers(words: &'static str) -> [std::result::Result<PutOutcome, StoreError>; 2] {
    let store = taken(Wrapped::new(Way::Fails(words))).await;
    let create = store.create("a", "x".into()).await;
    [create, store.replace("a", "x".into(), ETag::new("\"1\"")).await]
}

#[tokio::test]
async fn a_409_is_a_refusal_only_on_azure_and_only_of_a_create() {
    use StoreErrorKind::Transient;
    let unknown = |result: std::result::Result<PutOutcome, StoreError>| {
        let error = result.expect_err("nobody knows");
        assert_eq!(
            (error.kind(), error.determinacy()),
            (Transient, Determinacy::Indeterminate),
            "{error}"
        );
    };
    let [create, replace] = answers(answer!("409 Conflict", "ConditionalRequestConflict")).await;
    unknown(create);
    unknown(replace);
    let [create, replace] = answers(answer!("409 Conflict", "BlobAlreadyExists")).await;
    assert_eq!(create.unwrap(), PutOutcome::PreconditionFailed);
    unknown(replace);
}

#[tokio::test]
async fn each_answer_of_the_server_becomes_the_right_result() {
    use StoreErrorKind::{AccessDenied, Invalid, NoSuchStore, Transient, Unsupported};
    let [create, replace] = answers(answer!("412 Precondition Failed", "x")).await;
    assert_eq!(
        (create.unwrap(), replace.unwrap()),
        (PutOutcome::PreconditionFailed, PutOutcome::PreconditionFailed)
    );
    let [create, replace] = answers(answer!("404 Not Found", "NoSuchKey")).await;
    assert_eq!(create.unwrap_err().kind(), NoSuchStore);
    assert_eq!(replace.unwrap(), PutOutcome::NotFound);
    for (words, kind) in [
        (answer!("404 Not Found", "ContainerNotFound"), NoSuchStore),
        (answer!("409 Conflict", "ContainerBeingDeleted"), NoSuchStore),
        (answer!("400 Bad Request", "InvalidBucketName"), NoSuchStore),
        (answer!("401 Unauthorized", "x"), AccessDenied),
        (answer!("403 Forbidden", "AccessDenied"), AccessDenied),
        (answer!("400 Bad Request", "InvalidArgument"), Invalid),
        (answer!("429 Too Many Requests", "rateLimitExceeded"), Transient),
        (answer!("500 Internal Server Error", "InternalError"), Transient),
        (answer!("503 Service Unavailable", "SlowDown"), Transient),
        (answer!("501 Not Implemented", "NotImplemented"), Unsupported),
        (answer!("501 Not Implemented", ""), NoSuchStore),
        (answer!("400 Bad Request", ""), NoSuchStore),
        (answer!("407 Proxy Authentication Required", "x"), NoSuchStore),
        ("the connection was reset at https://me:secret@host/?sig=secret", Transient),
    ] {
        for result in answers(words).await {
            let error = result.expect_err(words);
            // The client may have made several attempts. The answer belongs to the last attempt,
            // and an earlier attempt may have taken effect.
            let determinacy = Determinacy::Indeterminate;
            assert_eq!(
                (error.kind(), error.determinacy()),
                (kind, determinacy),
                "{words}: {error}"
            );
            assert!(!error.to_string().contains("secret"), "{error}");
            assert!(error.to_string().contains("in Wrapped("), "{error}");
        }
    }
}

#[tokio::test]
async fn an_error_has_the_message_of_the_answer_without_markup() {
    for (words, said) in [
        (
            answer!("500 Internal Server Error", "InternalError"),
            "Fails\"): 500 InternalError: why (",
        ),
        (
            "Server returned non-2xx status code: 500 Oops: <Error><Code>A</Code></Error>",
            ": 500 A (",
        ),
        ("Server returned non-2xx status code: 500 Oops: not now", ": 500: not now ("),
        ("Server returned non-2xx status code: 500 Oops: ", ": 500 ("),
    ] {
        let [create, _] = answers(words).await;
        let error = create.expect_err("it fails").to_string();
        assert!(error.contains(said.trim_start_matches("Fails\")")), "{said:?} in {error}");
    }
}
