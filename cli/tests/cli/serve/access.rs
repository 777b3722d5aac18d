//! Tests of access to the API of the sidecar: keys, addresses and Unix sockets.

use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;

use super::client::{parse, request, rest, serve, sidecar};
use crate::TENURE;
use crate::bench::Bench;
use tenure_testkit::command::eventually;
use tenure_testkit::command::scene::{Candidate, Scene};

const KEY: &str = "correct-horse-battery-staple";

#[test]
fn an_address_beyond_loopback_requires_a_key() {
    let scene = Scene::new(TENURE);
    let mut command = serve(&scene, "a", &["--listen", "0.0.0.0:0"]);
    let output = command.output().expect("the command runs");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(64), "{said}");
    assert!(said.contains("0.0.0.0:0") && said.contains("--access-key-file"), "{said}");
    assert!(!scene.exists("store"), "no object was created");
    std::fs::write(scene.path("key"), format!("{KEY}\n")).expect("a file");
    let key = scene.path("key").display().to_string();
    let mut a = sidecar_with_key(&scene, &key);
    let port = a.address.rsplit_once(':').expect("a port").1.to_owned();
    a.address = format!("127.0.0.1:{port}");
    let ask = |header: &str| {
        let text = request("GET", "/v1/elections/orders", header, "");
        rest(a.send(&text))
    };
    eventually("the server accepts the key", || {
        parse(&ask(&format!("Authorization: Bearer {KEY}\r\n"))).0 == 200
    });
    for wrong in
        ["", "Authorization: Bearer wrong-horse-battery-staple\r\n", "Authorization: x\r\n"]
    {
        let said = ask(wrong);
        assert_eq!(parse(&said).0, 401, "{said}");
        assert!(said.contains("www-authenticate: Bearer") && said.contains("unauthorized"));
    }
    for path in ["/", "/openapi.json", "/nothing", "/v1/elections/orders/token"] {
        assert_eq!(a.ask("GET", path, "").0, 401, "{path}");
    }
    assert!(!a.process.said().contains(KEY), "{}", a.process.said());
}

fn sidecar_with_key(scene: &Scene, key: &str) -> super::Sidecar {
    let options = ["--listen", "0.0.0.0:0", "--access-key-file", key];
    let process = scene.start("a", serve(scene, "a", &options));
    let mut sidecar = super::Sidecar { process, address: String::new() };
    sidecar.address = sidecar.address_after("serving elections at http://");
    sidecar
}

#[test]
fn an_invalid_key_is_refused_with_the_reason() {
    let bench = Bench::new();
    let path = bench.path("key");
    for (key, word) in [("short", "5 characters"), ("with a space in its middle", "visible ASCII")]
    {
        std::fs::write(&path, key).expect("a file");
        refused(&bench, &["--access-key-file", &path.display().to_string()], &[word]);
    }
    refused(&bench, &["--access-key-file", "/nowhere/key"], &["/nowhere/key"]);
}

fn refused(bench: &Bench, options: &[&str], words: &[&str]) {
    let election = format!("orders={}", bench.url());
    let line = [&["serve", "--election", &election, "--listen", "127.0.0.1:0"], options].concat();
    crate::bench::tenure(&line).fails(64, words);
}

/// A web page in a browser can send requests to loopback addresses, although it cannot read the
/// replies. So the sidecar refuses requests with an `Origin`.
#[test]
fn requests_of_web_pages_are_refused() {
    let scene = Scene::new(TENURE);
    let a = sidecar(&scene, "a", &[]);
    a.leads();
    let text = request("POST", "/v1/elections/orders/resign", "Origin: https://x\r\n", "");
    let (status, said) = parse(&rest(a.send(&text)));
    assert!(status == 403 && said.contains("origin_refused"), "{said}");
    assert_eq!(a.get("/v1/elections/orders/token").0, 200);
}

fn on_socket(scene: &Scene, name: &str, path: &Path) -> Candidate {
    let listen = format!("unix:{}", path.display());
    scene.start(name, serve(scene, name, &["--listen", &listen, "--grace", "0s"]))
}

fn ask_socket(path: &Path) -> u16 {
    let Ok(mut stream) = UnixStream::connect(path) else { return 0 };
    let text = request("GET", "/v1/elections/orders/token", "", "");
    let _ = stream.write_all(text.as_bytes());
    parse(&rest(stream)).0
}

#[test]
fn only_the_user_of_the_sidecar_may_use_the_socket() {
    let scene = Scene::new(TENURE);
    let path = scene.path("api");
    // A sidecar replaces the socket file that a dead process has left.
    drop(UnixListener::bind(&path).expect("a new socket"));
    let mut a = on_socket(&scene, "a", &path);
    eventually("the candidate leads", || ask_socket(&path) == 200);
    let mode = std::fs::metadata(&path).expect("the socket exists").permissions().mode();
    assert_eq!(mode & 0o777, 0o600, "{mode:o}");
    // A second sidecar refuses to use a socket on which another process listens.
    let mut b = on_socket(&scene, "b", &path);
    assert_eq!(b.code(), 71, "{}", b.said());
    assert!(b.said().contains("listens there"), "{}", b.said());
    assert_eq!(ask_socket(&path), 200);
    a.signal(nix::sys::signal::Signal::SIGTERM);
    assert_eq!(a.code(), 0);
    assert!(!path.exists(), "the sidecar removes its socket");
    std::fs::write(&path, "precious").expect("a file");
    let mut c = on_socket(&scene, "c", &path);
    assert_eq!(c.code(), 71, "{}", c.said());
    assert_eq!(std::fs::read_to_string(&path).expect("the socket exists"), "precious");
}
