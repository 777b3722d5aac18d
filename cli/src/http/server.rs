//! Accepting connections, and which of them goes when there are too many.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tenure::Process;
use tokio::net::{TcpListener, TcpSocket, UnixListener};
use tokio::sync::watch;
use tokio::task::{AbortHandle, JoinHandle, JoinSet};

use super::connection::{Stage, serve};
use super::streams::Streams;
use super::wire::{Look, Shared, Wire};
use super::{Handler, IDLE_AFTER, LONGEST_WAIT, MOST_CONNECTIONS, Routes, handler_of};
use crate::process::timer::pause;

/// After an accept that failed, as when no file is left to open.
const AFTER_A_FAILURE: Duration = Duration::from_millis(100);
/// How many connections may wait to be accepted, unless the system allows fewer.
pub(super) const MOST_QUEUED: u32 = 1024;
/// How often a connection that waits looks whether another has become idle, or a stream.
const LOOK: Duration = Duration::from_millis(20);

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
        let socket = match address {
            SocketAddr::V4(_) => TcpSocket::new_v4()?,
            SocketAddr::V6(_) => TcpSocket::new_v6()?,
        };
        // As of the standard library's listeners: what a former process left behind blocks nothing.
        socket.set_reuseaddr(true)?;
        socket.bind(address)?;
        let listener = socket.listen(MOST_QUEUED)?;
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
    let mut open = Connections::default();
    let streams = Arc::new(Streams::default());
    loop {
        let Ok(wire) = listener.accept().await else {
            pause(AFTER_A_FAILURE).await;
            continue;
        };
        open.make_room().await;
        open.add(Shared::new(wire), server.clone(), Arc::clone(&streams));
    }
}

/// The connections that are open, without those that have become streams, which have their own
/// limit.
#[derive(Default)]
struct Connections {
    /// Ends its tasks with itself.
    tasks: JoinSet<()>,
    /// The oldest first.
    open: Vec<Connection>,
}

struct Connection {
    task: AbortHandle,
    stage: watch::Receiver<Stage>,
    look: Look,
    /// By the clock that counts suspends.
    opened: Duration,
}

impl Connections {
    fn add(&mut self, wire: Shared, server: Server, streams: Arc<Streams>) {
        let (stage, seen) = watch::channel(Stage::Reading);
        let look = wire.look();
        let task = self.tasks.spawn(async move { serve(wire, &server, stage, &streams).await });
        self.open.push(Connection { task, stage: seen, look, opened: now() });
    }

    /// Returns once there may be one more.
    async fn make_room(&mut self) {
        let began = now();
        while self.is_full() && !self.close_one(now().saturating_sub(began) >= LONGEST_WAIT) {
            tokio::select! {
                _ = self.tasks.join_next() => {}
                () = pause(LOOK) => {}
            }
        }
    }

    fn is_full(&mut self) -> bool {
        while self.tasks.try_join_next().is_some() {}
        self.open.retain(|one| !one.task.is_finished() && one.stage() != Stage::Streaming);
        self.open.len() >= MOST_CONNECTIONS
    }

    /// Closes the oldest that is idle; `also_slow`: or, if none is, the oldest whose peer has not
    /// read its reply. Returns whether there was one.
    fn close_one(&mut self, also_slow: bool) -> bool {
        let now = now();
        let slow = |one: &Connection| also_slow && one.stage() == Stage::Writing;
        let found = self.open.iter().position(|one| one.is_idle(now));
        let Some(at) = found.or_else(|| self.open.iter().position(slow)) else { return false };
        self.open.remove(at).task.abort();
        true
    }
}

impl Connection {
    fn stage(&self) -> Stage {
        *self.stage.borrow()
    }

    /// What has come and was not read yet may be the request.
    fn is_idle(&self, now: Duration) -> bool {
        let is_young = now.saturating_sub(self.opened) < IDLE_AFTER;
        !is_young && self.stage() == Stage::Reading && self.look.is_quiet()
    }
}

fn now() -> Duration {
    Process::system().now().boot
}
