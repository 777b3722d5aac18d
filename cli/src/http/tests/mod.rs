//! Tests over real connections on loopback.
#![allow(clippy::disallowed_methods, reason = "bounds and measures waits")]

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;

use futures::StreamExt as _;

use super::*;
use crate::process::timer::pause;

mod crowd;
mod streams;

const ANY_PORT: &str = "127.0.0.1:0";

fn any_port() -> SocketAddr {
    ANY_PORT.parse().expect("an address")
}

fn hello(path: &str) -> Option<Reply> {
    match path {
        "/hello" => Some(Reply::text(200, "hello")),
        "/json" => Some(Reply::json(503, &serde_json::json!({ "epoch": 3 }))),
        _ => None,
    }
}

fn started() -> Serving {
    start(any_port(), Arc::new(hello)).expect("a free port")
}

async fn open(serving: &Serving) -> TcpStream {
    TcpStream::connect(serving.address).await.expect("the server listens")
}

/// Returns all text that the server sends before it closes the connection.
async fn rest(mut stream: TcpStream) -> String {
    let mut text = Vec::new();
    // A reset of the connection also ends the text, so the error is ignored.
    let _ = stream.read_to_end(&mut text).await;
    String::from_utf8(text).expect("text")
}

async fn ask(serving: &Serving, request: &str) -> String {
    let mut stream = open(serving).await;
    stream.write_all(request.as_bytes()).await.expect("the server reads a short request");
    rest(stream).await
}

async fn get(serving: &Serving, path: &str) -> String {
    ask(serving, &format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n")).await
}

#[tokio::test]
async fn a_path_is_answered_once_and_the_connection_ends() {
    let serving = started();
    let said = get(&serving, "/hello?verbose=1").await;
    assert!(said.starts_with("HTTP/1.1 200 OK\r\n"), "{said}");
    for part in ["content-type: text/plain", "cache-control: no-store", "content-length: 6"] {
        assert!(said.contains(part), "{part} is not in {said}");
    }
    assert!(said.contains("connection: close") && said.ends_with("\r\n\r\nhello\n"), "{said}");
    let said = get(&serving, "/json").await;
    assert!(said.starts_with("HTTP/1.1 503 ") && said.ends_with("{\"epoch\":3}\n"), "{said}");
}

#[tokio::test]
async fn head_is_get_without_the_body() {
    let serving = started();
    let said = ask(&serving, "HEAD /hello HTTP/1.1\r\nHost: x\r\n\r\n").await;
    assert!(said.starts_with("HTTP/1.1 200 OK\r\n") && said.ends_with("\r\n\r\n"), "{said}");
    assert!(said.contains("content-length: 6"), "{said}");
}

#[tokio::test]
async fn other_paths_are_not_found_and_other_methods_are_refused() {
    let serving = started();
    assert!(get(&serving, "/").await.starts_with("HTTP/1.1 404 "));
    assert!(get(&serving, "/hello/").await.starts_with("HTTP/1.1 404 "));
    for method in ["POST", "PUT", "DELETE", "OPTIONS"] {
        let request = format!("{method} /hello HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n");
        let said = ask(&serving, &request).await;
        assert!(said.starts_with("HTTP/1.1 405 ") && said.contains("allow: GET, HEAD"), "{said}");
    }
    let said = ask(&serving, "no request\r\n\r\n").await;
    assert!(said.starts_with("HTTP/1.1 400 "), "{said}");
}

#[tokio::test]
async fn long_headers_are_refused() {
    let serving = started();
    let long = "x".repeat(2 * MOST_BYTES);
    let request = format!("GET /hello HTTP/1.1\r\nHost: x\r\nLong: {long}\r\n\r\n");
    let said = ask(&serving, &request).await;
    // The server did not read the rest of the request, so the system may reset the connection, and
    // the client may lose the refusal.
    assert!(said.is_empty() || said.starts_with("HTTP/1.1 431 "), "{said}");
}

#[tokio::test(start_paused = true)]
async fn a_connection_with_an_unfinished_request_is_closed() {
    let serving = started();
    let before = tokio::time::Instant::now();
    assert_eq!(ask(&serving, "GET /hello HT").await, "");
    assert_eq!(ask(&serving, "").await, "");
    let took = before.elapsed();
    assert!(took <= 2 * (CONNECTION_LIMIT + Duration::from_secs(1)), "{took:?}");
}

#[tokio::test]
async fn regression_idle_connections_block_no_request() {
    let serving = started();
    let mut idle = Vec::new();
    for _ in 0..3 * MOST_CONNECTIONS {
        idle.push(open(&serving).await);
        let said = timeout(CONNECTION_LIMIT / 2, get(&serving, "/hello")).await;
        assert!(said.expect("a reply in time").ends_with("hello\n"));
    }
    // The server has not closed the newest idle connection, so a request on this connection gets a
    // reply.
    let mut newest = idle.pop().expect("idle connections");
    newest.write_all(b"GET /hello HTTP/1.1\r\nHost: x\r\n\r\n").await.expect("a write");
    assert!(rest(newest).await.ends_with("hello\n"));
    assert_eq!(rest(idle.swap_remove(0)).await, "", "the oldest connection is closed");
}

#[tokio::test]
async fn dropping_serving_closes_all_connections() {
    // The test makes five attempts, because another test may get the port as soon as it is free.
    for _ in 0..5 {
        let serving = started();
        let address = serving.address;
        let open = open(&serving).await;
        assert!(
            get(&serving, "/hello").await.ends_with("hello\n"),
            "the server accepted the other connection first"
        );
        drop(serving);
        assert_eq!(rest(open).await, "");
        let refused = TcpStream::connect(address).await.is_err();
        if refused && start(address, Arc::new(hello)).is_ok() {
            return;
        }
    }
    panic!("the port stays in use");
}

#[tokio::test]
async fn an_address_in_use_is_an_error_with_the_address() {
    let serving = started();
    let mut sites = Sites::default();
    sites.add(serving.address, "health", Arc::new(hello));
    let failure = sites.start().map(|_| ()).expect_err("the address is in use");
    assert_eq!(failure.code, exit::OS);
    let address = serving.address.to_string();
    for part in ["cannot serve health at", &address, "in use"] {
        assert!(failure.why.contains(part), "{part} is not in {}", failure.why);
    }
}

#[tokio::test]
async fn routes_with_one_address_share_a_server() {
    let mut sites = Sites::default();
    let other = |path: &str| (path == "/other").then(|| Reply::text(200, "other"));
    sites.add(any_port(), "health", Arc::new(hello));
    sites.add(any_port(), "metrics", Arc::new(other));
    let serving = sites.start().expect("a free port");
    let [both] = &serving[..] else { panic!("one server for both: {serving:?}") };
    assert!(get(both, "/hello").await.ends_with("hello\n"));
    assert!(get(both, "/other").await.ends_with("other\n"));
}

#[test]
fn an_address_needs_an_ip_and_a_port() {
    assert_eq!(address("[::1]:80").map(|address| address.port()), Ok(80));
    for wrong in ["8080", ":8080", "localhost:8080", "127.0.0.1", "127.0.0.1:65536"] {
        assert!(address(wrong).expect_err(wrong).contains("127.0.0.1:8080"));
    }
}

/// Returns a server that answers with the length of the request body, or with an endless stream of
/// events.
fn server(most_body: usize) -> Server {
    let handler: Handler = Arc::new(|asked: HttpRequest| {
        let answer = match (&*asked.path, &asked.body) {
            ("/events", _) => {
                let event = "data: ".to_owned() + &"x".repeat(1 << 10) + "\n\n";
                Answer::Events(futures::stream::repeat(event).boxed(), None)
            }
            (_, Ok(body)) => Answer::Whole(Reply::text(200, &body.len().to_string())),
            (_, Err(why)) => Answer::Whole(Reply::text(413, &format!("{why:?}"))),
        };
        Box::pin(std::future::ready(answer))
    });
    Server { handler, most_body }
}

#[tokio::test]
async fn a_body_is_read_up_to_its_limit() {
    let serving = server(10).start(any_port()).expect("a free port");
    let put = async |body: &str| {
        let head = format!("PUT /x HTTP/1.1\r\nHost: x\r\nContent-Length: {}\r\n\r\n", body.len());
        ask(&serving, &(head + body)).await
    };
    assert!(put("0123456789").await.ends_with("\r\n\r\n10\n"));
    assert!(put("").await.ends_with("\r\n\r\n0\n"));
    assert!(put("0123456789a").await.contains("TooLong { most: 10 }"));
    let chunked = async |body: &str| {
        let head = "PUT /x HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n";
        ask(&serving, &(head.to_owned() + body)).await
    };
    assert!(chunked("5\r\n01234\r\n5\r\n56789\r\n0\r\n\r\n").await.ends_with("\r\n\r\n10\n"));
    let said = chunked("5\r\n01234\r\n6\r\n56789a\r\n0\r\n\r\n").await;
    assert!(said.contains("TooLong"), "{said}");
}

#[tokio::test(start_paused = true)]
async fn a_connection_with_an_incomplete_body_is_closed() {
    let serving = server(10).start(any_port()).expect("a free port");
    let said = ask(&serving, "PUT /x HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\nabc").await;
    assert_eq!(said, "");
}

#[tokio::test]
async fn a_stream_stays_open_while_its_peer_reads() {
    let serving = server(0).start(any_port()).expect("a free port");
    let mut stream = open(&serving).await;
    stream.write_all(b"GET /events HTTP/1.1\r\nHost: x\r\n\r\n").await.expect("a write");
    let mut part = vec![0; 1 << 16];
    for _ in 0..100 {
        stream.read_exact(&mut part).await.expect("the stream continues");
    }
    // A stream does not count as a connection, so the server still answers other connections.
    for _ in 0..2 * MOST_CONNECTIONS {
        assert!(get(&serving, "/x").await.ends_with("\r\n\r\n0\n"));
    }
    stream.read_exact(&mut part).await.expect("the stream continues");
}

#[tokio::test(start_paused = true)]
async fn an_unread_stream_is_closed() {
    let serving = server(0).start(any_port()).expect("a free port");
    let mut stream = open(&serving).await;
    stream.write_all(b"GET /events HTTP/1.1\r\nHost: x\r\n\r\n").await.expect("a write");
    pause(2 * CONNECTION_LIMIT).await;
    // `rest` reads the events that are still buffered. It returns only if the server has closed the
    // stream.
    rest(stream).await;
}

/// Before the fix, two processes could find the same dead socket and both listen at its path.
/// Clients then reached only one of the two processes.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn regression_one_process_of_many_replaces_a_dead_socket() {
    let dir = tempfile::tempdir().expect("a directory");
    for round in 0..200 {
        let path = dir.path().join(format!("api-{round}"));
        let together = Arc::new(std::sync::Barrier::new(4));
        drop(std::os::unix::net::UnixListener::bind(&path).expect("a new socket"));
        // A child process of another test may have inherited the socket. The child keeps the socket
        // alive until the child calls exec.
        let alive = async || {
            while std::os::unix::net::UnixStream::connect(&path).is_ok() {
                tokio::task::yield_now().await;
            }
        };
        timeout(Duration::from_secs(60), alive()).await.expect("the socket is dead");
        let start = |_| {
            let (path, together) = (path.clone(), Arc::clone(&together));
            tokio::spawn(async move {
                together.wait();
                start_unix(&path, server(0)).await
            })
        };
        let tasks: Vec<_> = (0..4).map(start).collect();
        let mut listening = Vec::new();
        for task in tasks {
            match task.await.expect("no panic") {
                Ok(socket) => listening.push(socket),
                Err(error) => assert_eq!(error.kind(), std::io::ErrorKind::AddrInUse, "{error}"),
            }
        }
        assert_eq!(listening.len(), 1, "round {round}");
        tokio::net::UnixStream::connect(&path).await.expect("the socket answers");
    }
}

/// Before the fix, a file got the restricted mode of a socket if another thread created the file
/// while the socket was created.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn regression_a_socket_changes_no_mode_of_other_files() {
    use std::os::unix::fs::PermissionsExt as _;
    let dir = tempfile::tempdir().expect("a directory");
    let folder = dir.path().to_owned();
    let (stop, stopped) = std::sync::mpsc::channel::<()>();
    let mode = |path: &std::path::Path| {
        std::fs::metadata(path).expect("the file exists").permissions().mode() & 0o777
    };
    let first = folder.join("first");
    std::fs::write(&first, "").expect("a file");
    let usual = mode(&first);
    let files = std::thread::spawn(move || {
        let path = folder.join("file");
        while let Err(std::sync::mpsc::TryRecvError::Empty) = stopped.try_recv() {
            std::fs::write(&path, "").expect("a file");
            assert_eq!(mode(&path), usual);
            std::fs::remove_file(&path).expect("the file exists");
        }
    });
    for round in 0..300 {
        let path = dir.path().join(format!("api-{round}"));
        let socket = start_unix(&path, server(0)).await.expect("a new socket");
        assert_eq!(mode(&path), 0o600);
        drop(socket);
    }
    drop(stop);
    files.join().expect("all files have the usual mode");
}
