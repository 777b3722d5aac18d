//! A service over HTTP with clients that disconnect.

use std::sync::{Arc, Mutex};

use axum::routing::put;
use axum::{Extension, Router};
use futures::channel::oneshot;
use http::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use hyper_util::service::TowerToHyperService;
use tenure::store::MemoryStore;
use tenure::{Election, Epoch, Layout};
use tenure_fencing::Gate;
use tenure_fencing::http::{FenceLayer, TokenLayer};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream};
use tower::{Layer as _, ServiceExt as _, service_fn};

use tenure_testkit::fault_store::{Call, Fault, FaultStore};
use tenure_testkit::time::{secs, wait};

/// The backend that handlers call. Each call of the backend runs in a separate task, so the backend
/// also applies a call that the handler has abandoned.
#[derive(Clone, Default)]
struct Backend {
    applied: Arc<Mutex<Vec<u64>>>,
    /// Signal for which the backend waits in the call under token 1.
    held: Arc<Mutex<Option<oneshot::Receiver<()>>>>,
}

impl Backend {
    async fn apply(self, token: Epoch) {
        let call = async move {
            let held = self.held.lock().unwrap().take().filter(|_| token == Epoch::FIRST);
            if let Some(held) = held {
                held.await.expect("the test sends the signal");
            }
            self.applied.lock().unwrap().push(token.get());
        };
        tokio::spawn(call).await.expect("the backend does not panic");
    }

    fn applied(&self) -> Vec<u64> {
        self.applied.lock().unwrap().clone()
    }
}

/// Returns a new connection to the service.
fn connect(service: &Router) -> DuplexStream {
    let (client, server) = tokio::io::duplex(4_096);
    let service = TowerToHyperService::new(service.clone());
    tokio::spawn(async move {
        let http = hyper::server::conn::http1::Builder::new();
        let _ = http.serve_connection(TokioIo::new(server), service).await;
    });
    client
}

async fn send(connection: &mut DuplexStream, token: u64) {
    let request =
        format!("PUT / HTTP/1.1\r\nHost: a\r\nConnection: close\r\nFencing-Token: {token}\r\n\r\n");
    connection.write_all(request.as_bytes()).await.unwrap();
}

/// Lets all other tasks run until each of them waits. Paused time advances only when no task can
/// run.
async fn settle() {
    wait(secs(1)).await;
}

/// hyper drops the handler of a client that has disconnected. Before the fix, the permit was
/// dropped together with the handler while the handler called the backend. So a newer write was
/// admitted, and the backend applied the older write after the newer write.
#[tokio::test(start_paused = true)]
async fn regression_a_write_of_a_disconnected_client_is_applied_before_a_newer_one() {
    let (go, held) = oneshot::channel();
    let backend = Backend { held: Arc::new(Mutex::new(Some(held))), ..Backend::default() };
    let calls = backend.clone();
    let handler = move |Extension(token): Extension<Epoch>| calls.clone().apply(token);
    let service = Router::new().route("/", put(handler)).layer(FenceLayer::new(Gate::new()));

    let mut old = connect(&service);
    send(&mut old, 1).await;
    settle().await;
    assert!(backend.held.lock().unwrap().is_none(), "the call of the backend has begun");
    drop(old);
    settle().await;

    let mut new = connect(&service);
    send(&mut new, 2).await;
    settle().await;
    go.send(()).unwrap();
    let mut answer = String::new();
    new.read_to_string(&mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    assert_eq!(backend.applied(), [1, 2]);
}

async fn status(layer: &FenceLayer, token: u64) -> StatusCode {
    let inner = service_fn(|_: Request<()>| async {
        Ok::<_, std::convert::Infallible>(Response::new(String::new()))
    });
    let request = Request::put("/").header(TokenLayer::HEADER, token).body(()).unwrap();
    layer.layer(inner).oneshot(request).await.unwrap().status()
}

/// Before the fix, one request with a token that was never granted made the gate refuse every real
/// leader.
#[tokio::test(start_paused = true)]
async fn regression_a_token_that_was_never_granted_is_not_admitted() {
    for (layout, call) in [(Layout::EpochFiles, Call::List), (Layout::SingleObject, Call::Get)] {
        let store = FaultStore::new(Arc::new(MemoryStore::new()));
        let election = Election::builder(Arc::new(store.clone()), "app").layout(layout);
        let election = election.process(super::process()).build().unwrap();
        let layer = FenceLayer::new(Gate::new()).verify(election.clone());
        assert_eq!(status(&layer, 1).await, StatusCode::FORBIDDEN, "no epoch was granted");
        let leadership = election.campaign().await.unwrap();
        assert_eq!(leadership.epoch(), Epoch::FIRST);
        store.take_calls();
        for _ in 0..3 {
            assert_eq!(status(&layer, 1).await, StatusCode::OK);
        }
        assert_eq!(store.take_calls(), [call], "one request for each greater token");
        assert_eq!(status(&layer, 9_999_999_999).await, StatusCode::FORBIDDEN);
        assert_eq!(store.take_calls(), [call]);
        store.on(call).always().fault(Fault::FailBefore);
        assert_eq!(status(&layer, 2).await, StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(status(&layer, 1).await, StatusCode::OK);
    }
}

#[tokio::test]
async fn a_token_above_the_ceiling_is_refused() {
    let layer = FenceLayer::new(Gate::new()).ceiling(Epoch::new(1_000).unwrap());
    assert_eq!(status(&layer, 1_001).await, StatusCode::FORBIDDEN);
    assert_eq!(status(&layer, 7).await, StatusCode::OK);
    assert_eq!(status(&layer, 1_000).await, StatusCode::OK);
    assert_eq!(status(&layer, 7).await, StatusCode::PRECONDITION_FAILED);
}
