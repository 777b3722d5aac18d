//! An HTTP service that only the leader may write to. It knows nothing of leases: the token in each
//! request is enough to refuse a former leader.
//!
//! ```text
//! cargo run --features tower --example fenced_api                          # the election in a directory
//! cargo run --features tower --example fenced_api -- s3://bucket/prefix    # the election on S3
//! ```
//!
//! The service is axum with a [`FenceLayer`] around the route that writes; the clients are hyper
//! with a [`TokenLayer`]. Both layers are plain tower, so any tower service can use them.
//!
//! Look for anna's late request: it comes after ben's first one, and is answered with 412.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use axum::extract::State;
use axum::routing::{get, put};
use axum::{Extension, Router};
use bytes::Bytes;
use http::{Method, Request, StatusCode};
use http_body_util::{BodyExt as _, Full};
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use tenure::{Election, Epoch, Leadership};
use tenure_fencing::http::{FenceLayer, TokenLayer};
use tenure_fencing::{Gate, Stale};
use tower::{Layer as _, ServiceExt as _};

use support::{Place, Result, Timeline, fail};

mod support;

/// What the service keeps: a line of text, and who wrote it.
type Board = Arc<Mutex<(Option<Epoch>, String)>>;

#[tokio::main]
async fn main() -> Result<()> {
    let place = Place::from_args("fenced_api").await?;
    let service = serve().await?;
    println!("Two processes and one service on http://{service}; the election on {place}.");
    let timeline = Timeline::start();

    let anna = elect(&place, "anna").await?;
    timeline.say("anna", format_args!("leads epoch {}", anna.epoch()));
    write(service, anna.epoch(), "anna's first").await?.expect("nobody is newer");
    timeline.say("anna", "PUT /board: 200");

    // A check and the request after it are never one step: here anna's process is paused between
    // them, and her lease lapses.
    let token = anna.check()?;
    drop(anna);
    timeline.say("anna", "checks her lease, and is PAUSED before her next request");

    let ben = elect(&place, "ben").await?;
    timeline.say("ben", format_args!("leads epoch {}", ben.epoch()));
    write(service, ben.epoch(), "ben's first").await?.expect("ben is the newest");
    timeline.say("ben", "PUT /board: 200");

    let refused = write(service, token, "anna's late one").await?;
    let stale = refused.expect_err("a zombie's request must not count");
    timeline.say("anna", format_args!("PUT /board: 412, {stale}"));
    ben.resign().await?;

    let board = read(service).await?;
    println!("\nOn the board: {board}");
    assert_eq!(board, "epoch 2: ben's first");
    Ok(())
}

/// The service: reading is free, writing takes a token.
async fn serve() -> Result<SocketAddr> {
    let write = put(write_board).layer(FenceLayer::new(Gate::new()));
    let routes = Router::new().route("/board", get(read_board).merge(write));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    tokio::spawn(async move { axum::serve(listener, routes.with_state(Board::default())).await });
    Ok(address)
}

async fn write_board(State(board): State<Board>, Extension(token): Extension<Epoch>, text: String) {
    *board.lock().expect("nobody panics while writing") = (Some(token), text);
}

async fn read_board(State(board): State<Board>) -> String {
    let (token, text) = board.lock().expect("nobody panics while writing").clone();
    token.map_or_else(|| "nothing".to_owned(), |token| format!("epoch {token}: {text}"))
}

/// A client: one per leadership, as the layer has its token.
async fn write(
    service: SocketAddr,
    token: Epoch,
    text: &'static str,
) -> Result<std::result::Result<(), Stale>> {
    let client = Client::builder(TokioExecutor::new()).build_http::<Full<Bytes>>();
    let client = TokenLayer::new(token).layer(client);
    let request = Request::builder().method(Method::PUT).uri(format!("http://{service}/board"));
    let response = client.oneshot(request.body(Full::from(text))?).await?;
    let status = response.status();
    let body = response.into_body().collect().await?.to_bytes();
    match (status, Stale::from_problem(&body)) {
        (StatusCode::OK, _) => Ok(Ok(())),
        (StatusCode::PRECONDITION_FAILED, Some(stale)) => Ok(Err(stale)),
        _ => fail(format!("the service answers {status}: {}", String::from_utf8_lossy(&body))),
    }
}

async fn read(service: SocketAddr) -> Result<String> {
    let client = Client::builder(TokioExecutor::new()).build_http::<Full<Bytes>>();
    let answer = client.get(format!("http://{service}/board").parse()?).await?;
    Ok(String::from_utf8_lossy(&answer.into_body().collect().await?.to_bytes()).into_owned())
}

async fn elect(place: &Place, name: &str) -> Result<Leadership> {
    let election = Election::builder(Arc::clone(&place.store), format!("{}/leader", place.prefix))
        .name(name)
        .validity(place.validity)
        .build()?;
    Ok(election.campaign().await?)
}
