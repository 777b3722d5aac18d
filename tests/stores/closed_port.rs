//! Tests of a port without a listener, which other tests use as an unreachable store.
#![cfg(feature = "s3")]

use std::net::{Ipv4Addr, TcpListener, TcpStream};

use tenure_testkit::closed_port::ClosedPort;

#[test]
fn regression_a_closed_port_is_not_given_to_another_listener() {
    let closed = ClosedPort::start();
    for _ in 0..50_000 {
        let other = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        assert_ne!(other.local_addr().unwrap(), closed.address());
    }
    assert!(TcpStream::connect(closed.address()).is_err());
}

#[tokio::test]
async fn an_open_port_is_closed_and_opened_again() {
    let closed = ClosedPort::start();
    let address = closed.address();
    let open = closed.listen();
    // The connection keeps the port in use after its listener is closed.
    let client = TcpStream::connect(address).unwrap();
    let _served = open.accept().await.unwrap();
    drop(open);
    let closed = ClosedPort::after_listener(address);
    assert!(TcpStream::connect(address).is_err());
    let _open = closed.listen();
    assert!(TcpStream::connect(address).is_ok());
    drop(client);
}
