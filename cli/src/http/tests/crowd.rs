//! Tests with more connections than the limit.

use std::io::Write as _;
use std::net::TcpStream as StdStream;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::net::TcpSocket;
use tokio::sync::Semaphore;

use super::*;

const REQUEST: &[u8] = b"GET /hello HTTP/1.1\r\nHost: x\r\n\r\n";
/// The time limit for a reply that the server must send without a long wait.
const SOON: Duration = Duration::from_millis(2_500);

async fn asked(serving: &Serving) -> TcpStream {
    let mut stream = open(serving).await;
    stream.write_all(REQUEST).await.expect("a write");
    stream
}

/// In this test all clients connect and send their requests before the server accepts a connection.
/// Before the fix, the server closed some of these connections, because it treated a connection
/// with an unread request as idle.
#[tokio::test]
async fn regression_a_connection_with_an_unread_request_is_not_idle() {
    let serving = started();
    let mut clients = Vec::new();
    for _ in 0..200 {
        // This loop blocks the only thread of the runtime, so the server cannot accept connections.
        let mut stream = StdStream::connect(serving.address).expect("the server listens");
        stream.write_all(REQUEST).expect("a write");
        clients.push(stream);
    }
    for (at, stream) in clients.into_iter().enumerate() {
        stream.set_nonblocking(true).expect("the socket is open");
        let stream = TcpStream::from_std(stream).expect("a runtime");
        assert!(rest(stream).await.ends_with("hello\n"), "client {at} of 200 gets a reply");
    }
}

#[tokio::test]
async fn a_connection_with_part_of_a_request_is_closed_soon() {
    let serving = started();
    let mut slow = Vec::new();
    for _ in 0..2 * MOST_CONNECTIONS {
        let mut stream = open(&serving).await;
        stream.write_all(&REQUEST[..9]).await.expect("a write");
        slow.push(stream);
    }
    let said = timeout(SOON, get(&serving, "/hello")).await;
    assert!(said.expect("a reply soon").ends_with("hello\n"));
    assert_eq!(rest(slow.swap_remove(0)).await, "", "the oldest connection is closed");
}

#[tokio::test]
async fn connections_over_the_limit_wait_and_stay_open() {
    let (let_go, begun) = (Arc::new(Semaphore::new(0)), Arc::new(AtomicUsize::new(0)));
    let handler: Handler = {
        let (let_go, begun) = (Arc::clone(&let_go), Arc::clone(&begun));
        Arc::new(move |_| {
            begun.fetch_add(1, Ordering::SeqCst);
            let let_go = Arc::clone(&let_go);
            Box::pin(async move {
                let _ = let_go.acquire().await.expect("the semaphore is never closed");
                Answer::Whole(Reply::text(200, "hello"))
            })
        })
    };
    let serving = Server { handler, most_body: 0 }.start(any_port()).expect("a free port");
    let mut busy = Vec::new();
    for _ in 0..MOST_CONNECTIONS {
        busy.push(asked(&serving).await);
    }
    let mut newest = asked(&serving).await;
    let early = timeout(2 * REQUEST_LIMIT, newest.read_u8()).await;
    assert!(early.is_err(), "a connection over the limit got a reply or was closed: {early:?}");
    assert_eq!(begun.load(Ordering::SeqCst), MOST_CONNECTIONS);
    let_go.add_permits(1);
    for stream in busy.into_iter().chain([newest]) {
        assert!(rest(stream).await.ends_with("hello\n"), "a connection was closed");
    }
}

#[tokio::test]
async fn connections_with_unread_replies_are_closed() {
    // The reply is larger than the buffers of a connection with a small receive buffer, so the
    // server cannot send the whole reply.
    let big = |path: &str| match path {
        "/big" => Some(Reply::text(200, &"x".repeat(5 << 20))),
        path => hello(path),
    };
    let serving = start(any_port(), Arc::new(big)).expect("a free port");
    let mut slow = Vec::new();
    for _ in 0..MOST_CONNECTIONS {
        let socket = TcpSocket::new_v4().expect("a socket");
        socket.set_recv_buffer_size(1 << 12).expect("a small buffer");
        let mut stream = socket.connect(serving.address).await.expect("the server listens");
        stream.write_all(b"GET /big HTTP/1.1\r\nHost: x\r\n\r\n").await.expect("a write");
        stream.read_u8().await.expect("the reply begins");
        slow.push(stream);
    }
    let said = timeout(2 * CONNECTION_LIMIT, get(&serving, "/hello")).await;
    assert!(said.expect("a reply in time").ends_with("hello\n"));
}
