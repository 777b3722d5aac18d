//! Suspends a leader with SIGSTOP until another process leads, and then resumes the former leader.
//! The test needs an S3 server: `AWS_ENDPOINT_URL`, credentials, and a bucket in
//! `TENURE_TEST_S3_BUCKET`.

use std::collections::BTreeSet;
use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, mpsc};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use object_store::aws::{AmazonS3Builder, S3ConditionalPut};
use slatedb::DbReader;

/// Time limit of each step. Each step takes less time, even on a busy machine.
const PATIENCE: Duration = Duration::from_secs(120);

fn bucket() -> String {
    std::env::var("TENURE_TEST_S3_BUCKET").expect("TENURE_TEST_S3_BUCKET is set")
}

/// A process of the example. Dropping the value kills the process.
struct Writer {
    process: Child,
    lines: mpsc::Receiver<String>,
    acked: Arc<Mutex<Vec<String>>>,
}

impl Writer {
    fn start() -> Writer {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tenure-slatedb"));
        let mut process = command.arg(bucket()).stdout(Stdio::piped()).spawn().unwrap();
        let stdout = BufReader::new(process.stdout.take().unwrap());
        let (sender, lines) = mpsc::channel();
        let acked = Arc::new(Mutex::new(Vec::new()));
        let keys = acked.clone();
        std::thread::spawn(move || {
            for line in stdout.lines().map_while(Result::ok) {
                if let Some(key) = line.strip_prefix("acked ") {
                    keys.lock().unwrap().push(key.to_owned());
                }
                // A failure to send is ignored, because the test drops the receiver only at its
                // end.
                let _ = sender.send(line);
            }
        });
        Writer { process, lines, acked }
    }

    fn until(&self, start: &str) {
        while !self.lines.recv_timeout(PATIENCE).expect(start).starts_with(start) {}
    }

    fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.process.id().cast_signed()), signal).unwrap();
    }

    fn end(&mut self) -> Vec<String> {
        self.signal(Signal::SIGTERM);
        assert!(self.process.wait().unwrap().success());
        // Wait until the thread has read the whole output. The channel then closes.
        while self.lines.recv_timeout(PATIENCE).is_ok() {}
        self.acked.lock().unwrap().clone()
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        let _ = self.process.kill();
    }
}

#[tokio::test]
#[ignore = "needs an S3 server, see `just nightly`"]
async fn a_paused_leader_is_fenced_and_no_acknowledged_key_is_lost() {
    let mut first = Writer::start();
    first.until("leads 1");
    first.until("acked");
    let mut second = Writer::start();
    first.signal(Signal::SIGSTOP);
    second.until("leads 2");
    second.until("acked");
    first.signal(Signal::SIGCONT);
    first.until("stopped:");
    second.until("acked");
    let acked = [first.end(), second.end()].concat();

    let _ = rustls::crypto::ring::default_provider().install_default();
    let s3 = AmazonS3Builder::from_env()
        .with_bucket_name(bucket())
        .with_allow_http(true)
        .with_conditional_put(S3ConditionalPut::ETagMatch);
    let reader = DbReader::builder("db", Arc::new(s3.build().unwrap())).build().await.unwrap();
    let mut rows = reader.scan::<std::ops::RangeFull>(..).await.unwrap();
    let mut found = BTreeSet::new();
    while let Some(row) = rows.next().await.unwrap() {
        found.insert(String::from_utf8(row.key.to_vec()).unwrap());
    }
    let lost: Vec<_> = acked.iter().filter(|key| !found.contains(*key)).collect();
    assert!(acked.len() > 2 && lost.is_empty(), "lost {lost:?} of {}", acked.len());
}
