//! An axum service on several hosts. The host that leads also runs a background task.
//!
//! ```text
//! cargo run --example leader_task -- s3://my-bucket/reports
//! ```
//!
//! On SIGTERM or SIGINT the service finishes open requests, ends the task and resigns.
#![allow(clippy::disallowed_methods, reason = "a sleep represents the work")]

use std::error::Error;
use std::sync::Arc;
use std::time::Duration;

use axum::{Router, extract::State, http::StatusCode, routing::get};
use tenure::{Cancellation, Election, Epoch};
use tokio::signal::{ctrl_c, unix};
use tokio_util::sync::CancellationToken;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error + Send + Sync>> {
    let url = std::env::args().nth(1).unwrap_or("file:///tmp/reports".to_owned());
    let (store, prefix) = tenure::store::open(&url).await?;
    let election = Arc::new(Election::builder(store, prefix).build()?);
    let stop = CancellationToken::new();
    let task = tokio::spawn(lead(election.clone(), stop.clone()));
    let routes = Router::new().route("/leader", get(leader)).with_state(election);
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    println!("serving on {}", listener.local_addr()?);
    let mut terminate = unix::signal(unix::SignalKind::terminate())?;
    let shutdown = async move { tokio::select!(_ = terminate.recv() => (), _ = ctrl_c() => ()) };
    axum::serve(listener, routes).with_graceful_shutdown(shutdown).await?;
    stop.cancel();
    Ok(task.await??)
}

/// Campaigns until `stop` is cancelled, and runs the task while this host leads.
async fn lead(election: Arc<Election>, stop: CancellationToken) -> Result<(), tenure::Error> {
    while let Some(leadership) = stop.run_until_cancelled(election.campaign()).await.transpose()? {
        let work = async |token, cancelled: Cancellation| {
            while !cancelled.is_cancelled() && !stop.is_cancelled() {
                write_report(token).await;
            }
        };
        println!("the task has ended: {:?}", leadership.run(work).await);
    }
    Ok(())
}

/// The leader's task. A real task sends the token with each write. The database refuses any token
/// that is lower than the greatest token seen before.
async fn write_report(token: Epoch) {
    println!("report with token {token}");
    tokio::time::sleep(Duration::from_secs(1)).await;
}

/// Returns the name of the leader.
async fn leader(State(election): State<Arc<Election>>) -> Result<String, StatusCode> {
    let leader = election.leader().await.map_err(|_| StatusCode::SERVICE_UNAVAILABLE)?;
    leader.and_then(|leader| leader.candidate).ok_or(StatusCode::NOT_FOUND)
}
