//! A port that refuses connections and stays reserved during a test. If the test only dropped its
//! listener, another test could bind the same port.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};

use tokio::net::{TcpListener, TcpSocket};

/// A reserved port. The socket is bound to the port but does not listen, so the port refuses
/// connections.
pub struct ClosedPort {
    socket: TcpSocket,
    address: SocketAddr,
}

impl ClosedPort {
    /// Reserves a free port of the loopback interface.
    pub fn start() -> ClosedPort {
        Self::bind((Ipv4Addr::LOCALHOST, 0).into()).expect("a free port")
    }

    /// Reserves the port of a listener that was just dropped. Retries while the port is in use. If
    /// another thread is starting a process, the child inherits the listener, and keeps it open
    /// until the child executes its program.
    pub fn after_listener(address: SocketAddr) -> ClosedPort {
        let mut attempts = 0..100_000;
        loop {
            match Self::bind(address) {
                Ok(port) => return port,
                Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
                    assert!(attempts.next().is_some(), "{address} is still in use");
                    std::thread::yield_now();
                }
                Err(error) => panic!("{address} cannot be bound: {error}"),
            }
        }
    }

    fn bind(address: SocketAddr) -> io::Result<ClosedPort> {
        let socket = TcpSocket::new_v4()?;
        // Without this option, the bind could fail, because the system reserves a port for some
        // time after its connections have closed.
        #[cfg(unix)]
        socket.set_reuseaddr(true)?;
        socket.bind(address)?;
        let address = socket.local_addr()?;
        Ok(ClosedPort { socket, address })
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns `http://127.0.0.1:PORT`.
    pub fn endpoint(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Starts to listen on the port. The caller must be on a Tokio runtime.
    pub fn listen(self) -> TcpListener {
        self.socket.listen(1024).expect("no other process listens on this port")
    }
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};

    use super::{ClosedPort, Ipv4Addr};

    #[test]
    fn regression_a_closed_port_is_not_given_to_another_listener() {
        let closed = ClosedPort::start();
        for _ in 0..50_000 {
            let other = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
            assert_ne!(other.local_addr().unwrap(), closed.address());
        }
        assert!(TcpStream::connect(closed.address()).is_err());
    }
}
