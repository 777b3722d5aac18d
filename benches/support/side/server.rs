//! The S3 server of the tests in a process of its own, so that what it costs is not taken for the
//! client's: this program again, told what to do line by line.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use aws_sdk_s3::Client;

use super::counts::Counts;
use super::latency::Latency;
use tenure_testkit::outcomes::SECRET_KEY;
use tenure_testkit::s3_server::{ACCESS_KEY, BUCKET, Op, S3Server, config};

/// The argument that makes this program the server.
pub const SERVE: &str = "--serve";

/// A record that nobody renews and that does not lapse while it is looked at.
pub const LONG_LED: &str = r#"{"expired":false,"validity_ms":86400000,"format":1,"candidate":"worker-7","nonce":"5f0c5f0c5f0c5f0c5f0c5f0c5f0c5f0c","heartbeat":1,"elected_at":"2026-11-20T23:12:00Z","renewed_at":"2026-11-20T23:12:00Z","sealed_at":null,"sealed_by":null,"ended":null,"data":null}"#;

/// The other process. It ends when this is dropped.
pub struct Server {
    child: Child,
    orders: ChildStdin,
    answers: BufReader<ChildStdout>,
    endpoint: String,
}

impl Server {
    pub fn start() -> Server {
        let program = std::env::current_exe().expect("this program has a path");
        let mut child = Command::new(program)
            .arg(SERVE)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("this program can be started again");
        let orders = child.stdin.take().expect("it is a pipe");
        let answers = BufReader::new(child.stdout.take().expect("it is a pipe"));
        let mut server = Server { child, orders, answers, endpoint: String::new() };
        server.endpoint = server.answer();
        server
    }

    pub fn endpoint(&self) -> &str {
        &self.endpoint
    }

    pub fn client(&self) -> Client {
        client(&self.endpoint)
    }

    pub fn latency(&mut self, latency: Latency) {
        self.order(&format!("latency {latency}"));
    }

    /// The requests since the last call.
    pub fn counts(&mut self) -> Counts {
        let answer = self.order("counts");
        let mut numbers = answer.split(' ').map(|n| n.parse().expect("a count"));
        let mut next = || numbers.next().expect("four counts");
        Counts { list: next(), get: next(), put: next(), delete: next() }
    }

    /// How many connections have been opened so far.
    pub fn connections(&mut self) -> usize {
        self.order("connections").parse().expect("a count")
    }

    /// Makes epochs 1 to `count` under a prefix.
    pub fn make_epochs(&mut self, prefix: &str, count: u64) {
        self.order(&format!("epochs {prefix} {count}"));
    }

    /// Makes so many elections, each led in epoch 1.
    pub fn make_elections(&mut self, count: u64) {
        self.order(&format!("elections {count}"));
    }

    fn order(&mut self, order: &str) -> String {
        writeln!(self.orders, "{order}").expect("the server reads");
        self.answer()
    }

    fn answer(&mut self) -> String {
        let mut line = String::new();
        self.answers.read_line(&mut line).expect("the server writes");
        line.trim_end().to_owned()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub fn client(endpoint: &str) -> Client {
    Client::from_conf(config(endpoint, ACCESS_KEY, SECRET_KEY).build())
}

/// The prefix of the election of this number.
pub fn election(number: u64) -> String {
    format!("election-{number:06}")
}

/// What the other process does, until its input ends.
pub fn serve() {
    let server = S3Server::start_blocking();
    println!("{}", server.endpoint());
    for (number, line) in std::io::stdin().lines().enumerate() {
        let line = line.expect("the orders are text");
        let words: Vec<_> = line.split(' ').collect();
        let answer = match words[..] {
            ["latency", word] => {
                let latency: Latency = word.parse().expect("a latency");
                server.latency(latency.source(number as u64));
                String::new()
            }
            ["counts"] => {
                let count = |op| server.count(op);
                let get = count(Op::Get) + count(Op::Head);
                let (list, put, delete) = (count(Op::List), count(Op::Put), count(Op::Delete));
                server.forget_requests();
                format!("{list} {get} {put} {delete}")
            }
            ["connections"] => server.connections().to_string(),
            ["epochs", prefix, count] => {
                let body = r#"{"expired": false, "validity_ms": 30000}"#;
                for epoch in 1..=count.parse::<u64>().expect("a number") {
                    server.put_raw(&format!("{prefix}/lock-{epoch:010}.json"), body);
                }
                String::new()
            }
            ["elections", count] => {
                for number in 0..count.parse().expect("a number") {
                    let prefix = election(number);
                    server.put_raw(&format!("{prefix}/lock-0000000001.json"), LONG_LED);
                }
                String::new()
            }
            _ => unreachable!("no such order: {line:?}"),
        };
        println!("{answer}");
    }
}

/// The bucket that every server has.
pub const THE_BUCKET: &str = BUCKET;
