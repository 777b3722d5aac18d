//! An HTTP service that only the leader may write to. A layer checks the token of each request.
//!
//! ```text
//! cargo run --example fenced_api
//! curl -X PUT -H 'Fencing-Token: 2' -d 'from the leader' http://127.0.0.1:3000/board
//! curl -X PUT -H 'Fencing-Token: 1' -d 'too late' http://127.0.0.1:3000/board    # 412
//! ```
//!
//! The service needs no election and no lease. Its clients send the epoch of their leadership.
//! Clients that use tower can send the epoch with [`TokenLayer`](tenure_fencing::http::TokenLayer).
//! Authenticate clients before this layer: after one request with a great token, the layer refuses
//! all lower tokens.

use std::sync::{Arc, Mutex};

use axum::extract::State;
use axum::routing::{get, put};
use axum::{Extension, Router};
use tenure::Epoch;
use tenure_fencing::Gate;
use tenure_fencing::http::FenceLayer;

type Board = Arc<Mutex<String>>;

#[tokio::main]
async fn main() -> std::io::Result<()> {
    let address = std::env::args().nth(1).unwrap_or("127.0.0.1:3000".to_owned());
    let write = put(write_board).layer(FenceLayer::new(Gate::new()));
    let routes = Router::new().route("/board", get(read_board).merge(write));
    let listener = tokio::net::TcpListener::bind(address).await?;
    println!("serving on {}", listener.local_addr()?);
    axum::serve(listener, routes.with_state(Board::default())).await
}

async fn write_board(State(board): State<Board>, Extension(token): Extension<Epoch>, text: String) {
    *board.lock().expect("no holder of this lock panics") = format!("epoch {token}: {text}");
}

async fn read_board(State(board): State<Board>) -> String {
    board.lock().expect("no holder of this lock panics").clone()
}
