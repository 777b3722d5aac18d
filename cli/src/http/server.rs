//! Accepting connections, and which of them goes when there are too many.

use std::io;
use std::net::{SocketAddr, TcpListener as StdListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::net::{TcpListener, UnixListener};
use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinHandle, JoinSet};

use super::connection::{Stage, Wire, serve};
use super::{Handler, MOST_CONNECTIONS, Routes, handler_of};
use crate::timer::pause;

/// After an accept that failed, as when no file is left to open.
const AFTER_A_FAILURE: Duration = Duration::from_millis(100);

/// What answers, and how long a request's body may be.
#[derive(Clone)]
pub struct Server {
    pub handler: Handler,
    pub most_body: usize,
}

/// A server that runs. Dropping it ends the server, and cuts what is open.
#[derive(Debug)]
#[must_use = "dropping it ends the server"]
pub struct Serving {
    /// Where it listens: with the port that was chosen if port 0 was asked for.
    pub address: SocketAddr,
    _accepting: Accepting,
}

/// Ends with this.
#[derive(Debug)]
pub(super) struct Accepting(JoinHandle<()>);

impl Drop for Accepting {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Listens on `address` and answers there by these routes. Must be called within the runtime.
pub fn start(address: SocketAddr, routes: Routes) -> io::Result<Serving> {
    Server { handler: handler_of(routes), most_body: 0 }.start(address)
}

impl Server {
    /// Listens on `address` and answers there. Must be called within the runtime.
    pub fn start(self, address: SocketAddr) -> io::Result<Serving> {
        let listener = StdListener::bind(address)?;
        listener.set_nonblocking(true)?;
        let listener = TcpListener::from_std(listener)?;
        let address = listener.local_addr()?;
        Ok(Serving { address, _accepting: self.accept(Listener::Tcp(listener)) })
    }

    pub(super) fn accept(self, listener: Listener) -> Accepting {
        Accepting(tokio::spawn(accept(listener, self)))
    }
}

pub(super) enum Listener {
    Tcp(TcpListener),
    Unix(UnixListener),
}

impl Listener {
    async fn accept(&self) -> io::Result<Box<dyn Wire>> {
        Ok(match self {
            Listener::Tcp(listener) => {
                let (stream, _) = listener.accept().await?;
                // An event is one short write, and must not wait for an acknowledgement.
                stream.set_nodelay(true)?;
                Box::new(stream)
            }
            Listener::Unix(listener) => Box::new(listener.accept().await?.0),
        })
    }
}

async fn accept(listener: Listener, server: Server) {
    // Ends its tasks with itself.
    let mut tasks = JoinSet::new();
    // The oldest first.
    let mut open: Vec<Connection> = Vec::with_capacity(MOST_CONNECTIONS);
    let streams = Arc::new(AtomicUsize::new(0));
    loop {
        let Ok(wire) = listener.accept().await else {
            pause(AFTER_A_FAILURE).await;
            continue;
        };
        while tasks.try_join_next().is_some() {}
        // A stream has its own limit.
        open.retain(|one| !one.task.is_finished() && *one.stage.borrow() != Stage::Streaming);
        if open.len() >= MOST_CONNECTIONS {
            let idle = open.iter().position(|one| *one.stage.borrow() == Stage::Reading);
            open.remove(idle.unwrap_or(0)).task.abort();
        }
        let (stage, seen) = watch::channel(Stage::Reading);
        let (server, streams) = (server.clone(), Arc::clone(&streams));
        let task = tasks.spawn(async move { serve(wire, &server, stage, &streams).await });
        open.push(Connection { task, stage: seen });
    }
}

struct Connection {
    task: AbortHandle,
    stage: watch::Receiver<Stage>,
}

/// One of a limited number; gives its place back when it is dropped.
#[derive(Debug)]
pub(super) struct Place(Arc<AtomicUsize>);

impl Place {
    pub(super) fn take(of: &Arc<AtomicUsize>, most: usize) -> Option<Place> {
        let next = |taken| (taken < most).then_some(taken + 1);
        of.fetch_update(Ordering::AcqRel, Ordering::Acquire, next).ok()?;
        Some(Place(Arc::clone(of)))
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}
