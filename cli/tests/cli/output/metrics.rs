//! Tests of `--metrics-addr`. The tests scrape over TCP as Prometheus does.

use std::io::{BufRead as _, BufReader};
use std::net::TcpListener;
use std::process::Child;
use std::thread;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::bench::{Bench, spawn};
use crate::serve::client::{begin_at, request, rest};
use tenure_testkit::command::{ended, eventually, with_deadline};
use tenure_testkit::prometheus::Scrape;

const ANY_PORT: &str = "127.0.0.1:0";

/// A running command with `--metrics-addr`. It is killed on drop.
struct Served {
    child: Child,
    address: String,
    place: String,
    /// Name of the label that contains the location of the election or the group.
    of: &'static str,
}

impl Served {
    fn start(bench: &Bench, verb: &str, options: &[&str]) -> Served {
        let url = bench.url();
        let of = if verb.starts_with("group ") { "group" } else { "election" };
        let mut line: Vec<_> = verb.split(' ').collect();
        line.extend(["--store", &url, "--metrics-addr", ANY_PORT]);
        line.extend(options);
        let mut child = spawn(&[], &line);
        let mut log = BufReader::new(child.stderr.take().expect("the output is a pipe"));
        let address = loop {
            let mut line = String::new();
            let read = with_deadline(child.id(), || log.read_line(&mut line));
            assert_ne!(read.expect("text"), 0, "the log has no address");
            if let Some((_, address)) = line.split_once("serving metrics at http://") {
                break address.trim().to_owned();
            }
        };
        // The thread reads stderr to its end, because the command would block on a full pipe.
        thread::spawn(move || std::io::copy(&mut log, &mut std::io::sink()));
        Served { child, address, place: url, of }
    }

    /// Sends a GET for this path. Returns the head and the body of the answer.
    fn get(&self, path: &str) -> (String, String) {
        let stream = begin_at(&self.address, &request("GET", path, "", ""));
        let answer = rest(stream.expect("the server listens"));
        let (head, body) = answer.split_once("\r\n\r\n").expect("the answer has a head and a body");
        (head.to_owned(), body.to_owned())
    }

    fn scrape(&self) -> Scrape {
        let (head, body) = self.get("/metrics");
        assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{head}");
        assert!(head.contains("content-type: text/plain; version=0.0.4"), "{head}");
        Scrape::parse(&body)
    }

    /// Scrapes the metrics until this metric with these labels has this value.
    fn until(&self, metric: &str, labels: &[(&str, &str)], value: f64) -> Scrape {
        let mut labels = labels.to_vec();
        labels.push((self.of, &self.place));
        let mut last = None;
        eventually(&format!("{metric} is {value}"), || {
            let scrape = self.scrape();
            let there = scrape.get(metric, &labels) == Some(value);
            last = Some(scrape);
            there
        });
        last.expect("the metrics were scraped")
    }

    fn end(mut self) -> Option<i32> {
        let pid = Pid::from_raw(i32::try_from(self.child.id()).expect("a small number"));
        kill(pid, Signal::SIGTERM).expect("the process is alive");
        ended(&mut self.child).code()
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn run_serves_metrics_while_it_leads_and_while_it_follows() {
    let bench = Bench::new();
    let leader = Served::start(&bench, "run", &["--name", "a", "--", "sleep", "60"]);
    let now = leader.until("tenure_leader", &[], 1.0);
    assert_eq!(now.value("tenure_epoch", &[]), 1.0);
    assert_eq!(now.value("tenure_validity_seconds", &[]), 30.0);
    assert_eq!(now.value("tenure_candidate_info", &[("candidate", "a")]), 1.0);
    assert_eq!(now.types["tenure_request_seconds"], "histogram");
    assert!(now.value("tenure_request_seconds_bucket", &[("kind", "create"), ("le", "30")]) >= 1.0);
    assert_eq!(leader.get("/").0.lines().next(), Some("HTTP/1.1 404 Not Found"));
    let options = ["--name", "b", "--poll", "50ms", "--", "sleep", "60"];
    let follower = Served::start(&bench, "run", &options);
    let now = follower.until("tenure_epoch", &[], 1.0);
    assert_eq!(now.value("tenure_leader", &[]), 0.0);
    assert_eq!(leader.end(), Some(128 + 15), "CMD got SIGTERM");
    let now = follower.until("tenure_leader", &[], 1.0);
    assert!(
        now.value("tenure_polls_total", &[]) >= 1.0,
        "the counter keeps its value after the election"
    );
    assert_eq!(now.value("tenure_epoch", &[]), 2.0);
    follower.end();
}

#[test]
fn watch_serves_the_observed_state() {
    let bench = Bench::new();
    let watch = Served::start(&bench, "watch", &["--poll", "50ms"]);
    watch.until("tenure_observed", &[("state", "vacant")], 1.0);
    bench.epoch(7, r#"{"expired":false,"validity_ms":60000}"#);
    let now = watch.until("tenure_observed", &[("state", "held")], 1.0);
    assert_eq!(now.value("tenure_epoch", &[]), 7.0);
    assert_eq!(watch.end(), Some(0));
}

#[test]
fn a_group_has_separate_metrics() {
    let bench = Bench::new();
    let options = ["--partitions", "0..3", "--name", "a", "--poll", "50ms", "--", "sleep", "60"];
    let member = Served::start(&bench, "group run", &options);
    let now = member.until("tenure_group_owned", &[], 3.0);
    assert_eq!(now.value("tenure_group_member_info", &[("member", "a")]), 1.0);
    assert_eq!(now.value("tenure_group_coordinator", &[]), 1.0);
    assert_eq!(now.types["tenure_group_renewal_seconds"], "histogram");
    assert_eq!(now.get("tenure_leader", &[]), None, "no process leads");
    let requests = [("election", member.place.as_str()), ("kind", "create"), ("outcome", "done")];
    assert!(now.value("tenure_requests_total", &requests) >= 3.0);
    let watch = Served::start(&bench, "group watch", &["--poll", "50ms"]);
    let now = watch.until("tenure_group_partitions", &[], 3.0);
    assert_eq!(now.value("tenure_group_ownerless", &[]), 0.0);
    assert_eq!(now.get("tenure_group_coordinator", &[]), None, "the process is not a member");
    assert_eq!(bench.run("group pause", &["0..2"]).code, 0);
    member.until("tenure_group_owned", &[], 1.0);
    let now = member.until("tenure_group_losses_total", &[("reason", "released")], 2.0);
    assert_eq!(now.value("tenure_group_revocations_total", &[]), 2.0);
    assert_eq!(watch.end(), Some(0));
    assert_eq!(member.end(), Some(0));
}

#[test]
fn compact_serves_metrics_between_its_runs() {
    let bench = Bench::new();
    for epoch in 1..=5 {
        bench.epoch(epoch, r#"{"expired":true,"validity_ms":30000}"#);
    }
    let options = ["--keep", "1", "--min-age", "0s", "--every", "1h"];
    let compact = Served::start(&bench, "compact", &options);
    let now = compact.until("tenure_compactions_total", &[("outcome", "compacted")], 1.0);
    assert_eq!(now.value("tenure_epochs_compacted_total", &[]), 4.0);
    assert_eq!(now.value("tenure_epochs_backlog", &[]), 0.0);
    assert_eq!(compact.end(), Some(0));
}

#[test]
fn a_single_compaction_refuses_a_metrics_address() {
    let said = Bench::new().run("compact", &["--metrics-addr", ANY_PORT]);
    said.fails(64, &["--metrics-addr needs --every", "ends before"]);
}

#[test]
fn an_address_in_use_ends_the_command() {
    let taken = TcpListener::bind(ANY_PORT).expect("a free port");
    let address = taken.local_addr().expect("the listener has an address").to_string();
    let bench = Bench::new();
    for (verb, options) in [
        ("run", &["--", "true"] as &[&str]),
        ("watch", &[]),
        ("group watch", &[]),
        ("compact", &["--every", "1h"]),
    ] {
        let mut line = vec!["--metrics-addr", &address];
        line.extend(options);
        bench.run(verb, &line).fails(71, &["cannot serve metrics at", &address]);
    }
    assert_eq!(bench.objects(), [""; 0], "no candidate was elected");
    let said = bench.run("watch", &["--metrics-addr", "here"]);
    assert_eq!(said.code, 64);
}

#[test]
fn watch_shows_the_last_completed_period() {
    const LAST: &str = "tenure_period_last_completed_timestamp_seconds";
    let bench = Bench::new();
    let period = ["--once-per", "1h", "--", "sh", "-c", "echo $TENURE_PERIOD_START"];
    let run = bench.run("run", &period);
    assert_eq!(run.code, 0, "{run:?}");
    let start = bench.run("status", &["--field", "period"]).out;
    let start: serde_json::Value = serde_json::from_str(&start).expect("JSON");
    assert_eq!(start["last_completed"], run.out.trim());
    let start: chrono::DateTime<chrono::Utc> = run.out.trim().parse().expect("a date");
    let watch = Served::start(&bench, "watch", &[]);
    watch.until(LAST, &[], start.timestamp() as f64);
    assert_eq!(watch.end(), Some(0));
}
