//! A port that refuses connections, and that nobody else is given meanwhile. Where a listener is
//! merely dropped, another test's may be the next on its port.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};

use tokio::net::{TcpListener, TcpSocket};

/// Refuses connections for as long as this is: it is bound, and does not listen.
pub struct ClosedPort {
    socket: TcpSocket,
    address: SocketAddr,
}

impl ClosedPort {
    /// A free one of the loopback interface.
    pub fn start() -> ClosedPort {
        Self::bind((Ipv4Addr::LOCALHOST, 0).into()).expect("a free port")
    }

    /// The one of a listener that was just dropped. A process that another thread starts holds the
    /// listener, too, until its program runs.
    pub fn after_listener(address: SocketAddr) -> ClosedPort {
        let mut attempts = 0..100_000;
        loop {
            match Self::bind(address) {
                Ok(port) => return port,
                Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
                    assert!(attempts.next().is_some(), "{address} still has a listener");
                    std::thread::yield_now();
                }
                Err(error) => panic!("{address} cannot be held: {error}"),
            }
        }
    }

    fn bind(address: SocketAddr) -> io::Result<ClosedPort> {
        let socket = TcpSocket::new_v4()?;
        // Of connections that the port had, the system keeps it busy for a while.
        #[cfg(unix)]
        socket.set_reuseaddr(true)?;
        socket.bind(address)?;
        let address = socket.local_addr()?;
        Ok(ClosedPort { socket, address })
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// `http://127.0.0.1:PORT`.
    pub fn endpoint(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Opens it. On a runtime of Tokio.
    pub fn listen(self) -> TcpListener {
        self.socket.listen(1024).expect("nobody else listens on this port")
    }
}
