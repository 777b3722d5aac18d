//! A sidecar as a child process, and a client on plain TCP.

use std::io::{self, Read, Write as _};
use std::net::{Shutdown, TcpStream};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use serde_json::Value;

use crate::TENURE;
use tenure_testkit::command::eventually;
use tenure_testkit::command::scene::{Candidate, Scene};

pub struct Sidecar {
    pub process: Candidate,
    /// Address of the sidecar's API.
    pub address: String,
}

static STARTED: AtomicUsize = AtomicUsize::new(0);
const SAYS: &str = "serving elections at http://";

/// Starts a sidecar of the election `orders`.
pub fn sidecar(scene: &Scene, name: &str, options: &[&str]) -> Sidecar {
    start(scene, name, serve(scene, name, options))
}

/// Starts a sidecar of the group `orders`, by default with six partitions.
pub fn member(scene: &Scene, name: &str, options: &[&str]) -> Sidecar {
    start(scene, name, serve_group(scene, name, options))
}

fn start(scene: &Scene, name: &str, command: Command) -> Sidecar {
    // The number is a part of the log's name, so a restarted sidecar gets a new log.
    let number = STARTED.fetch_add(1, Ordering::Relaxed);
    let process = scene.start(&format!("{name}-{number}"), command);
    let mut sidecar = Sidecar { process, address: String::new() };
    sidecar.address = sidecar.address_after(SAYS);
    // The sidecar answers 503 until its stores are open.
    eventually("its stores are open", || sidecar.get("/v1/elections").0 != 503);
    sidecar
}

/// Returns `tenure serve` of the election. The default validity is 10 s.
pub fn serve(scene: &Scene, name: &str, options: &[&str]) -> Command {
    let defaults = [("--validity", "10s"), ("--listen", "127.0.0.1:0")];
    served(scene, "--election", name, options, &defaults)
}

/// Returns `tenure serve` of the group, with a short poll interval and immediate plans.
pub fn serve_group(scene: &Scene, name: &str, options: &[&str]) -> Command {
    let defaults = [
        ("--validity", "10s"),
        ("--listen", "127.0.0.1:0"),
        ("--partitions", "0..6"),
        ("--poll", "100ms"),
        ("--rebalance-delay", "0s"),
    ];
    served(scene, "--group", name, options, &defaults)
}

fn served(
    scene: &Scene,
    kind: &str,
    name: &str,
    options: &[&str],
    defaults: &[(&str, &str)],
) -> Command {
    let mut command = Command::new(TENURE);
    command.args(["serve", kind, &format!("orders={}", scene.url()), "--name", name]);
    command.args(options);
    for (option, value) in defaults {
        if !options.contains(option) {
            command.args([option, value]);
        }
    }
    scene.surround(&mut command);
    command
}

/// Returns the last address that the process has logged after these words.
pub fn address_after(process: &Candidate, words: &str) -> String {
    process.says(words);
    let said = process.said();
    let (_, rest) = said.rsplit_once(words).expect("the log has the address");
    rest.split_whitespace().next().expect("an address").to_owned()
}

impl Sidecar {
    pub fn address_after(&self, words: &str) -> String {
        address_after(&self.process, words)
    }

    pub fn ask(&self, method: &str, path: &str, body: &str) -> (u16, String) {
        ask_at(&self.address, method, path, body)
    }

    pub fn json(&self, method: &str, path: &str, body: &str) -> (u16, Value) {
        let (status, body) = self.ask(method, path, body);
        (
            status,
            serde_json::from_str(&body)
                .unwrap_or_else(|_| panic!("the body is not JSON: {body:?}")),
        )
    }

    pub fn get(&self, path: &str) -> (u16, Value) {
        self.json("GET", path, "")
    }

    pub fn view(&self) -> Value {
        let (status, view) = self.get("/v1/elections/orders");
        assert_eq!(status, 200, "{view}");
        view
    }

    pub fn leads(&self) {
        eventually("the candidate leads", || self.get("/v1/elections/orders/token").0 == 200);
    }

    /// Sends a request to the sidecar, and returns the connection without waiting for the reply.
    pub fn begin(&self, method: &str, path: &str, body: &str) -> TcpStream {
        self.send(&request(method, path, "", body))
    }

    pub fn send(&self, request: &str) -> TcpStream {
        begin_at(&self.address, request).expect("the server listens")
    }

    /// Opens the stream of server-sent events at this path.
    pub fn events(&self, path: &str) -> Events {
        Events::of(self.begin("GET", path, ""))
    }
}

pub fn request(method: &str, path: &str, headers: &str, body: &str) -> String {
    let length = body.len();
    format!(
        "{method} {path} HTTP/1.1\r\nHost: localhost\r\n{headers}Content-Length: {length}\r\n\r\n{body}"
    )
}

pub fn begin_at(address: &str, request: &str) -> io::Result<TcpStream> {
    let mut stream = TcpStream::connect(address)?;
    // The write fails if the server refuses a long body before it has read the whole body.
    let _ = stream.write_all(request.as_bytes());
    Ok(stream)
}

/// Sends a request to this address. Returns the status and the body of the reply, or the status 0
/// if no server listens.
pub fn ask_at(address: &str, method: &str, path: &str, body: &str) -> (u16, String) {
    let stream = begin_at(address, &request(method, path, "", body));
    stream.map_or((0, String::new()), |stream| parse(&rest(stream)))
}

/// Reads until the server closes the connection, and returns the text.
pub fn rest(mut stream: impl Read) -> String {
    let mut text = Vec::new();
    // A reset of the connection also ends the reply.
    let _ = stream.read_to_end(&mut text);
    String::from_utf8(text).expect("text")
}

/// Returns the status and the body of an HTTP reply.
pub fn parse(reply: &str) -> (u16, String) {
    let status = reply.split(' ').nth(1).and_then(|code| code.parse().ok()).unwrap_or(0);
    let body = reply.split_once("\r\n\r\n").map_or("", |(_, body)| body);
    (status, body.trim_end().to_owned())
}

/// A stream of events. Each event has a name and data.
pub struct Events {
    seen: Arc<Mutex<Vec<u8>>>,
    stream: TcpStream,
}

impl Events {
    fn of(stream: TcpStream) -> Events {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let mut reads = stream.try_clone().expect("a second handle");
        let all = Arc::clone(&seen);
        std::thread::spawn(move || {
            let mut part = [0; 4096];
            while let Ok(read @ 1..) = reads.read(&mut part) {
                all.lock().expect("no thread has panicked").extend_from_slice(&part[..read]);
            }
            all.lock().expect("no thread has panicked").extend_from_slice(b"\r\nEND");
        });
        Events { seen, stream }
    }

    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.seen.lock().expect("no thread has panicked")).into_owned()
    }

    pub fn has_ended(&self) -> bool {
        self.text().ends_with("\r\nEND")
    }

    /// Returns all complete events that have arrived so far.
    pub fn all(&self) -> Vec<(String, Value)> {
        let text = self.text();
        let mut events = Vec::new();
        let mut name = String::new();
        let lines = text.split_inclusive('\n').filter(|line| line.ends_with('\n'));
        for line in lines {
            if let Some(event) = line.strip_prefix("event: ") {
                name = event.trim_end().to_owned();
            } else if let Some(data) = line.strip_prefix("data: ") {
                let data = serde_json::from_str(data).expect("JSON");
                events.push((std::mem::take(&mut name), data));
            }
        }
        events
    }

    pub fn names(&self) -> Vec<String> {
        self.all().into_iter().map(|(name, _)| name).collect()
    }

    /// Waits for the first event of this name with an index of at least `after`. Returns its index
    /// and its data.
    pub fn wait_for(&self, name: &str, after: usize) -> (usize, Value) {
        let mut found = None;
        eventually(&format!("there is an event {name:?}"), || {
            let all = self.all();
            found =
                (after..all.len()).find(|at| all[*at].0 == name).map(|at| (at, all[at].1.clone()));
            found.is_some()
        });
        found.expect("the poll ends when an event is found")
    }
}

impl Drop for Events {
    fn drop(&mut self) {
        // This call shuts the connection down, so the thread that reads the stream ends.
        let _ = self.stream.shutdown(Shutdown::Both);
    }
}
