//! The port on which nobody listens, for tests of stores that cannot be reached.
#![cfg(feature = "s3")]

use std::net::{Ipv4Addr, TcpListener, TcpStream};

use tenure_testkit::closed_port::ClosedPort;

#[test]
fn regression_a_closed_port_is_given_to_nobody_else() {
    let closed = ClosedPort::start();
    for _ in 0..50_000 {
        let other = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        assert_ne!(other.local_addr().unwrap(), closed.address());
    }
    assert!(TcpStream::connect(closed.address()).is_err());
}

#[tokio::test]
async fn one_that_was_open_is_closed_and_opens_again() {
    let closed = ClosedPort::start();
    let address = closed.address();
    let open = closed.listen();
    // The connection keeps the port busy after its listener.
    let client = TcpStream::connect(address).unwrap();
    let _served = open.accept().await.unwrap();
    drop(open);
    let closed = ClosedPort::after_listener(address);
    assert!(TcpStream::connect(address).is_err());
    let _open = closed.listen();
    assert!(TcpStream::connect(address).is_ok());
    drop(client);
}
