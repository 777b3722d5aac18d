//! Accepts connections. A semaphore limits their number. Streams do not count.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::{TcpListener, TcpSocket, UnixListener};
use tokio::sync::Semaphore;
use tokio::task::{JoinHandle, JoinSet};

use super::connection::{Wire, serve};
use super::streams::Streams;
use super::{MOST_CONNECTIONS, Routes, Server, handler_of};
use crate::process::timer::pause;

/// The pause after a failed attempt to accept a connection. An attempt fails, for example, if no
/// file descriptor is free.
const AFTER_A_FAILURE: Duration = Duration::from_millis(100);
/// The greatest number of connections that wait to be accepted, unless the system allows fewer.
pub(super) const MOST_QUEUED: u32 = 1024;

/// A running server. Dropping this value ends the server and closes all connections.
#[derive(Debug)]
#[must_use = "dropping it ends the server"]
pub struct Serving {
    /// The address of the server. For port 0 it has the port that the system chose.
    pub address: SocketAddr,
    _accepting: Accepting,
}

/// The task that accepts connections, and the tasks of these connections. All these tasks end when
/// this value is dropped.
#[derive(Debug)]
pub(super) struct Accepting(JoinHandle<()>);

impl Drop for Accepting {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// Starts a server that listens on `address` and answers with these routes. Must be called within
/// the runtime.
pub fn start(address: SocketAddr, routes: Routes) -> io::Result<Serving> {
    Server { handler: handler_of(routes), most_body: 0 }.start(address)
}

impl Server {
    /// Listens on `address`, and answers requests with this handler. Must be called within the
    /// runtime.
    pub fn start(self, address: SocketAddr) -> io::Result<Serving> {
        let socket = match address {
            SocketAddr::V4(_) => TcpSocket::new_v4()?,
            SocketAddr::V6(_) => TcpSocket::new_v6()?,
        };
        // With this option, the closed connections of an earlier process do not block the address.
        // The standard library also sets this option.
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
                // Without Nagle's algorithm, the short write of an event does not wait until the
                // peer acknowledges the previous write.
                stream.set_nodelay(true)?;
                Box::new(stream)
            }
            Listener::Unix(listener) => Box::new(listener.accept().await?.0),
        })
    }
}

/// Accepts connections until the task ends. A connection over the limit waits in the queue of the
/// system.
async fn accept(listener: Listener, server: Server) {
    let permits = Arc::new(Semaphore::new(MOST_CONNECTIONS));
    let streams = Arc::new(Streams::default());
    // When the task of this function is aborted, this set is dropped, and the tasks of all
    // connections end.
    let mut tasks = JoinSet::new();
    loop {
        let permit = Arc::clone(&permits).acquire_owned().await;
        let permit = permit.expect("the semaphore is never closed");
        let Ok(wire) = listener.accept().await else {
            pause(AFTER_A_FAILURE).await;
            continue;
        };
        while tasks.try_join_next().is_some() {}
        let (server, streams) = (server.clone(), Arc::clone(&streams));
        tasks.spawn(async move { serve(wire, &server, permit, &streams).await });
    }
}
