use std::convert::Infallible;
use std::sync::Mutex;
use std::task::{Context, Poll};

use futures::FutureExt as _;
use futures::channel::oneshot;
use futures::future::BoxFuture;
use http::header::{CONTENT_TYPE, RETRY_AFTER};
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode};
use tower::{ServiceExt as _, service_fn};
use tower_service::Service;

use tenure::store::Store as _;

use super::service::token;
use super::*;
use crate::error::Stale;

mod durable;

fn e(number: u64) -> Epoch {
    Epoch::new(number).unwrap()
}

/// The tokens of the writes to the resource, in order.
#[derive(Clone, Default)]
struct Resource(Arc<Mutex<Vec<u64>>>);

impl Resource {
    fn write(&self, token: Epoch) {
        self.0.lock().unwrap().push(token.get());
    }

    fn written(&self) -> Vec<u64> {
        self.0.lock().unwrap().clone()
    }

    /// Returns a service that immediately writes the token of each request to the resource.
    fn service(
        &self,
    ) -> impl Service<Request<()>, Response = Response<String>, Error = Infallible, Future: Send>
    + Clone
    + Send
    + 'static {
        let resource = self.clone();
        service_fn(move |request: Request<()>| {
            let resource = resource.clone();
            async move {
                resource.write(*request.extensions().get().expect("the fence inserts the epoch"));
                Ok(Response::new("done".to_owned()))
            }
        })
    }
}

fn with(tokens: &[&str]) -> Request<()> {
    let mut request = Request::builder().method(Method::PUT);
    for token in tokens {
        request = request.header(TokenLayer::HEADER, *token);
    }
    request.body(()).unwrap()
}

async fn put(layer: &FenceLayer, resource: &Resource, tokens: &[&str]) -> Response<String> {
    layer.layer(resource.service()).oneshot(with(tokens)).await.unwrap()
}

#[tokio::test]
async fn a_stale_token_is_answered_with_412_and_both_tokens() {
    let (layer, resource) = (FenceLayer::new(Gate::new()), Resource::default());
    for token in ["3", "3", "5"] {
        assert_eq!(put(&layer, &resource, &[token]).await.status(), StatusCode::OK);
    }
    let refused = put(&layer, &resource, &["4"]).await;
    assert_eq!(refused.status(), StatusCode::PRECONDITION_FAILED);
    assert_eq!(refused.headers()[CONTENT_TYPE], "application/problem+json");
    assert_eq!(
        Stale::from_problem(refused.body().as_bytes()),
        Some(Stale { offered: e(4), newest: e(5) })
    );
    let body: serde_json::Value = serde_json::from_str(refused.body()).unwrap();
    let expected = serde_json::json!({
        "type": "urn:tenure:stale-fencing-token",
        "title": "Stale fencing token",
        "status": 412,
        "detail": "the token 4 is refused: epoch 5 has been seen",
        "offered": 4,
        "newest": 5,
    });
    assert_eq!(body, expected);
    assert_eq!(resource.written(), [3, 3, 5]);
}

#[tokio::test]
async fn an_invalid_token_never_reaches_the_service() {
    let (layer, resource) = (FenceLayer::new(Gate::new()), Resource::default());
    let missing = put(&layer, &resource, &[]).await;
    assert_eq!(missing.status(), StatusCode::PRECONDITION_REQUIRED);
    let many = ["", "0", "+7", "-7", "7,8", "seven", "10000000000", "99999999999999999999"];
    for bad in many {
        let answer = put(&layer, &resource, &[bad]).await;
        assert_eq!(answer.status(), StatusCode::BAD_REQUEST, "{bad:?}");
        assert_eq!(Stale::from_problem(answer.body().as_bytes()), None);
    }
    let twice = put(&layer, &resource, &["8", "8"]).await;
    assert_eq!(twice.status(), StatusCode::BAD_REQUEST);
    assert!(resource.written().is_empty());
}

/// Pauses the first request between its admission and its write. Then sends a request with a
/// greater token, and resumes the first one. Returns the writes of the resource, in order.
async fn zombie<S>(fence: impl Fn(Held) -> S) -> Vec<u64>
where
    S: Service<Request<()>, Response = Response<String>, Error = Infallible, Future: Send>,
{
    let resource = Resource::default();
    let (go, held) = oneshot::channel();
    let held = Held { resource: resource.clone(), until: Arc::new(Mutex::new(Some(held))) };
    let mut old = Box::pin(fence(held.clone()).oneshot(with(&["1"])));
    assert!((&mut old).now_or_never().is_none(), "the old request is paused before its write");
    let mut new = Box::pin(fence(held).oneshot(with(&["2"])));
    let early = (&mut new).now_or_never();
    go.send(()).unwrap();
    old.await.unwrap();
    if early.is_none() {
        new.await.unwrap();
    }
    resource.written()
}

/// A service that delays the write of its first request.
#[derive(Clone)]
struct Held {
    resource: Resource,
    until: Arc<Mutex<Option<oneshot::Receiver<()>>>>,
}

impl Service<Request<()>> for Held {
    type Response = Response<String>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Response<String>, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<()>) -> Self::Future {
        let Held { resource, until } = self.clone();
        async move {
            let until = until.lock().unwrap().take();
            if let Some(until) = until {
                until.await.unwrap();
            }
            resource.write(*request.extensions().get().unwrap());
            Ok(Response::new(String::new()))
        }
        .boxed()
    }
}

#[tokio::test]
async fn a_paused_admitted_request_writes_before_the_newer_one() {
    let layer = FenceLayer::new(Gate::new());
    assert_eq!(zombie(|held| layer.layer(held)).await, [1, 2]);
}

/// A wrong guard, which drops the permit before the service writes.
#[derive(Clone)]
struct Careless {
    gate: Gate,
    inner: Held,
}

impl Service<Request<()>> for Careless {
    type Response = Response<String>;
    type Error = Infallible;
    type Future = BoxFuture<'static, Result<Response<String>, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, mut request: Request<()>) -> Self::Future {
        let token = token(request.headers(), &TokenLayer::HEADER).unwrap();
        self.gate.admit(token).unwrap();
        request.extensions_mut().insert(token);
        self.inner.call(request)
    }
}

#[tokio::test]
async fn broken_fence_that_drops_the_permit_before_the_write_is_caught() {
    let gate = Gate::new();
    let written = zombie(|inner| Careless { gate: gate.clone(), inner }).await;
    assert_eq!(written, [2, 1], "the old request must write last under a broken fence");
}

/// A client that disconnects drops the caller's future, but the admitted request continues.
#[tokio::test]
async fn an_admitted_request_of_a_dropped_caller_ends_before_the_newer_one() {
    let (layer, resource) = (FenceLayer::new(Gate::new()), Resource::default());
    let (go, held) = oneshot::channel();
    let held = Held { resource: resource.clone(), until: Arc::new(Mutex::new(Some(held))) };
    let mut old = Box::pin(layer.layer(held.clone()).oneshot(with(&["1"])));
    assert!((&mut old).now_or_never().is_none());
    drop(old);
    let new = tokio::spawn(layer.layer(held).oneshot(with(&["2"])));
    settle().await;
    assert!(resource.written().is_empty(), "the newer request waits");
    go.send(()).unwrap();
    new.await.unwrap().unwrap();
    assert_eq!(resource.written(), [1, 2]);
}

/// Yields until all other tasks wait. 100 yields are enough, because the test has one thread, and
/// each task needs only a few polls.
async fn settle() {
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
}

/// If the caller is dropped while its request waits for the gate, the request is never admitted.
#[tokio::test]
async fn a_caller_dropped_before_its_admission_has_no_effect() {
    let gate = Gate::new();
    let (layer, resource) = (FenceLayer::new(gate.clone()), Resource::default());
    let before = gate.enter(e(1)).await.unwrap();
    let mut waiting = Box::pin(layer.layer(resource.service()).oneshot(with(&["2"])));
    assert!((&mut waiting).now_or_never().is_none());
    drop(waiting);
    drop(before);
    settle().await;
    assert!(resource.written().is_empty());
    put(&layer, &resource, &["2"]).await;
    assert_eq!(resource.written(), [2]);
}

#[tokio::test]
async fn a_panic_of_the_service_reaches_the_caller_and_drops_its_permit() {
    let layer = FenceLayer::new(Gate::new());
    let panics = service_fn(|_: Request<()>| async {
        if true {
            panic!("the handler's");
        }
        Ok::<_, Infallible>(Response::new(String::new()))
    });
    let call = layer.layer(panics).oneshot(with(&["1"]));
    let panic = std::panic::AssertUnwindSafe(call).catch_unwind().await.unwrap_err();
    assert_eq!(panic.downcast_ref::<&str>(), Some(&"the handler's"));
    let resource = Resource::default();
    put(&layer, &resource, &["2"]).await;
    assert_eq!(resource.written(), [2]);
}

/// The request runs in a task, which is aborted when its runtime ends. The caller can run on
/// another runtime, so it still needs a response.
#[test]
fn a_runtime_shutdown_returns_an_unknown_effect() {
    let layer = FenceLayer::new(Gate::new());
    let (_go, held) = oneshot::channel();
    let held = Held { resource: Resource::default(), until: Arc::new(Mutex::new(Some(held))) };
    let mut call = Box::pin(layer.layer(held).oneshot(with(&["1"])));
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async { assert!((&mut call).now_or_never().is_none()) });
    drop(runtime);
    let answer = call.now_or_never().expect("the call returns after the abort").unwrap();
    assert_eq!(answer.status(), StatusCode::INTERNAL_SERVER_ERROR);
    assert!(!answer.headers().contains_key(RETRY_AFTER));
}

/// Returns the headers that the service receives from a client.
async fn sent(layer: TokenLayer, request: Request<()>) -> HeaderMap {
    let show =
        service_fn(
            |request: Request<()>| async move { Ok::<_, Infallible>(request.headers().clone()) },
        );
    layer.layer(show).oneshot(request).await.unwrap()
}

#[tokio::test]
async fn the_client_sends_its_token_once() {
    let headers = sent(TokenLayer::new(e(7)), with(&["3"])).await;
    assert_eq!(headers.get_all(TokenLayer::HEADER).iter().collect::<Vec<_>>(), ["7"]);

    let mut request = with(&[]);
    request.extensions_mut().insert(e(9));
    assert_eq!(sent(TokenLayer::new(e(7)), request).await[TokenLayer::HEADER], "9");
}

#[tokio::test]
async fn the_header_has_the_chosen_name() {
    let name = HeaderName::from_static("x-epoch");
    let headers = sent(TokenLayer::new(e(7)).header(name.clone()), with(&[])).await;
    assert_eq!(headers["x-epoch"], "7");
    assert!(!headers.contains_key(TokenLayer::HEADER));

    let layer = FenceLayer::new(Gate::new()).header(name);
    let mut request = with(&["1"]);
    request.headers_mut().insert("x-epoch", HeaderValue::from(7));
    let resource = Resource::default();
    layer.layer(resource.service()).oneshot(request).await.unwrap();
    assert_eq!(resource.written(), [7]);
}

#[test]
fn a_foreign_body_is_not_a_stale_token() {
    for body in [
        "",
        "{}",
        "Precondition Failed",
        r#"{"type":"about:blank","title":"","status":412,"detail":"","offered":1,"newest":2}"#,
        r#"{"type":"urn:tenure:stale-fencing-token","title":"","status":412,"detail":"","offered":2,"newest":2}"#,
    ] {
        assert_eq!(Stale::from_problem(body.as_bytes()), None, "{body}");
    }
}

/// Callers of tower wait until a service is ready, so a layer must not report a busy service as
/// ready.
#[test]
fn a_layer_is_ready_only_if_its_service_is() {
    #[derive(Clone)]
    struct Busy;

    impl Service<Request<()>> for Busy {
        type Response = Response<String>;
        type Error = Infallible;
        type Future = std::future::Ready<Result<Response<String>, Infallible>>;

        fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
            Poll::Pending
        }

        fn call(&mut self, _: Request<()>) -> Self::Future {
            unreachable!("the service is never ready")
        }
    }

    let mut context = Context::from_waker(std::task::Waker::noop());
    assert!(TokenLayer::new(e(1)).layer(Busy).poll_ready(&mut context).is_pending());
    assert!(FenceLayer::new(Gate::new()).layer(Busy).poll_ready(&mut context).is_pending());
}
