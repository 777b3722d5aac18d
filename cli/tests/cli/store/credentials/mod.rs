//! Tests that `tenure run` renews its session tokens. The command uses S3 over real HTTP, with
//! credentials from a `credential_process`.
#![cfg(all(feature = "s3", unix))]

use std::collections::BTreeSet;
use std::fs;
use std::io::Read as _;
use std::process::{Child, Command, Stdio};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::bench::without_checks;
use tempfile::TempDir;
use tenure::Process;
use tenure_testkit::s3_server::*;

mod roles;

/// A running leader that gets the credentials of its store from a script.
struct Leader {
    server: S3Server,
    dir: TempDir,
    run: Child,
    said: Option<JoinHandle<String>>,
}

const URL: &str = "s3://tenure-test/app";

/// The script that provides credentials.
struct Provider {
    /// Actual lifetime of each session token, in seconds.
    life: u64,
    /// Lifetime of each session token that the script reports, in seconds.
    claimed: u64,
    /// Shell code that the script executes before it prints the credentials.
    first: &'static str,
}

impl Provider {
    fn script(&self) -> String {
        let Provider { life, claimed, first } = self;
        format!(
            r#"#!/bin/sh
cd "$(dirname "$0")" || exit 1
echo >> calls
{first}
now=$(date +%s)
end=$((now + {claimed}))
end=$(date -u -d "@$end" +%Y-%m-%dT%H:%M:%SZ || date -u -r "$end" +%Y-%m-%dT%H:%M:%SZ)
printf '{{"Version":1,"AccessKeyId":"{ACCESS_KEY}","SecretAccessKey":"{SECRET_KEY}",'
printf '"SessionToken":"until-%s-%s","Expiration":"%s"}}' "$((now + {life}))" "$$" "$end"
"#
        )
    }
}

impl Leader {
    fn start(validity: &str, provider: &Provider) -> Leader {
        let dir = tempfile::tempdir().expect("a directory");
        let path = |name: &str| dir.path().join(name);
        fs::write(path("provider"), provider.script()).expect("a file");
        let process = format!("sh '{}'", path("provider").display());
        fs::write(path("config"), format!("[default]\ncredential_process = {process}\n"))
            .expect("a file");
        Leader::run(URL, dir, "AWS_CONFIG_FILE", "config", validity)
    }

    /// Starts the leader and waits until it leads. The environment variable `variable` is the path
    /// of `file` in the directory.
    fn run(url: &str, dir: TempDir, variable: &str, file: &str, validity: &str) -> Leader {
        let server = S3Server::start_blocking();
        let path = |name: &str| dir.path().join(name);
        let mut command = Command::new(crate::TENURE);
        for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("AWS_")) {
            command.env_remove(name);
        }
        let env = server.env().into_iter().filter(|(name, _)| !name.contains("_ACCESS_KEY"));
        command.envs(env).env(variable, path(file)).env("AWS_EC2_METADATA_DISABLED", "true");
        let end = path("end");
        let work = format!("until test -e '{}'; do sleep 0.1; done", end.display());
        command.args(["run", "--store", url, "--validity", validity, "--"]);
        command.args(["sh", "-c", &work]).stdin(Stdio::null()).stdout(Stdio::null());
        let mut run = command.stderr(Stdio::piped()).spawn().expect("the process starts");
        let mut stderr = run.stderr.take().expect("the output is a pipe");
        let said = std::thread::spawn(move || {
            let mut said = String::new();
            let _ = stderr.read_to_string(&mut said);
            said
        });
        let mut leader = Leader { server, dir, run, said: Some(said) };
        leader.until("the candidate leads", Leader::leads);
        leader
    }

    /// Returns how many of the session tokens that the server has received are now expired.
    fn ended(&self) -> usize {
        let now = Process::system().now().wall.as_secs();
        let requests = self.server.requests();
        let tokens: BTreeSet<_> =
            requests.iter().filter_map(|seen| seen.headers.get("x-amz-security-token")).collect();
        let until = |token: &&http::HeaderValue| {
            let until = token.to_str().ok()?.strip_prefix("until-")?.split('-').next()?;
            until.parse::<u64>().ok()
        };
        tokens.iter().filter_map(until).filter(|until| *until < now).count()
    }

    fn leads(&self) -> bool {
        self.server.object("app/lock-0000000001.json").is_some()
    }

    /// Returns how many times the command has started the script.
    fn calls(&self) -> usize {
        fs::read(self.dir.path().join("calls")).map_or(0, |calls| calls.len())
    }

    /// Waits up to a minute for the condition, while the command runs.
    #[allow(clippy::disallowed_methods, reason = "polling with a deadline")]
    fn until(&mut self, condition: &str, holds: impl Fn(&Leader) -> bool) {
        for _ in 0..1_200 {
            if holds(self) {
                return;
            }
            if let Some(status) = self.run.try_wait().expect("the child can be waited for") {
                panic!("before {condition}: {status}: {}", self.told());
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        panic!("the condition was not met within a minute: {condition}");
    }

    fn told(&mut self) -> String {
        self.said.take().expect("once").join().expect("it reads")
    }

    /// Waits until the command exits. Returns its exit code and its log.
    #[allow(clippy::disallowed_methods, reason = "polling with a deadline")]
    fn ends(mut self) -> (Option<i32>, String) {
        for _ in 0..1_200 {
            if let Some(status) = self.run.try_wait().expect("the child can be waited for") {
                return (status.code(), self.told());
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        panic!("the command did not exit within a minute");
    }

    /// Asserts that the leader has kept its lease, and that it resigns when its CMD ends.
    fn resigns(self) {
        self.touch("end");
        let keys = |leader: &Leader| leader.server.keys();
        let before = keys(&self);
        let dir = self.dir.path().to_owned();
        let (code, said) = self.ends();
        assert_eq!(code, Some(0), "{said} ({})", dir.display());
        assert!(said.contains("resigned epoch 1"), "{said}");
        assert_eq!(without_checks(before), ["app/lock-0000000001.json"]);
    }

    fn touch(&self, name: &str) {
        fs::write(self.dir.path().join(name), "").expect("a file");
    }
}

impl Drop for Leader {
    fn drop(&mut self) {
        let _ = self.run.kill();
        let _ = self.run.wait();
    }
}

#[test]
fn a_leader_survives_expired_session_tokens() {
    let mut leader = Leader::start("4s", &Provider { life: 3, claimed: 3, first: "" });
    leader.until("three tokens have expired", |leader| leader.ended() >= 3);
    leader.resigns();
}

/// A request times out long before the script with the credentials ends. The command must let the
/// script run after this timeout, so that later requests can use its output.
#[test]
fn regression_requests_wait_for_a_slow_provider() {
    let slow = Provider { life: 3, claimed: 3, first: "sleep 1.2" };
    let mut leader = Leader::start("4s", &slow);
    leader.until("two tokens have expired", |leader| leader.ended() >= 2);
    leader.resigns();
}

/// A token may expire before the time that the script reported, for example because the clock of
/// this machine is slow. The leader must then get a new token and keep its lease.
#[test]
fn regression_a_token_that_expires_early_is_replaced() {
    let early = Provider { life: 3, claimed: 3_600, first: "" };
    let mut leader = Leader::start("4s", &early);
    leader.until("two tokens have expired", |leader| leader.ended() >= 2);
    assert!(leader.calls() < 10, "the provider was called too often: {}", leader.calls());
    leader.resigns();
}

/// Before the fix, the command continued to send a revoked key until the expiry of the key,
/// possibly for hours.
#[test]
fn regression_rejected_credentials_are_replaced_before_their_expiry() {
    let mut leader = Leader::start("4s", &Provider { life: 3_600, claimed: 3_600, first: "" });
    for code in ["InvalidAccessKeyId", "InvalidToken", "SignatureDoesNotMatch"] {
        let calls = leader.calls();
        leader.server.fault(ServerFault::Answer(403, code)).times(1);
        leader.until(code, |leader| leader.calls() == calls + 1);
        let answered = leader.server.requests().len();
        leader.until("the other keys are used", |leader| leader.server.requests().len() > answered);
    }
    leader.resigns();
}

/// The SDK reads the key file only once per process. Before the fix, a service continued to send
/// the old key after a rotation, until the service was restarted.
#[test]
fn regression_a_key_file_is_read_again_after_a_rejection() {
    for (profile, option) in [("default", ""), ("team", "?profile=team")] {
        let dir = tempfile::tempdir().expect("a directory");
        let file = dir.path().join("credentials");
        let write = |token: &str| {
            let keys =
                format!("aws_access_key_id={ACCESS_KEY}\naws_secret_access_key={SECRET_KEY}");
            fs::write(&file, format!("[{profile}]\n{keys}\naws_session_token={token}\n"))
                .expect("a file");
        };
        write("old");
        let url = format!("{URL}{option}");
        let mut leader = Leader::run(&url, dir, "AWS_SHARED_CREDENTIALS_FILE", "credentials", "4s");
        write("new");
        leader.server.fault(ServerFault::Answer(403, "InvalidAccessKeyId")).times(1);
        leader.until("the new keys are used", |leader| {
            let requests = leader.server.requests();
            let last = requests.last().and_then(|it| it.headers.get("x-amz-security-token"));
            last.is_some_and(|token| token == "new")
        });
        leader.resigns();
    }
}

#[test]
fn a_failing_provider_ends_the_lease_and_is_reported() {
    let first = "test -e fail && { echo 'the vault is sealed' >&2; exit 1; }";
    let leader = Leader::start("3s", &Provider { life: 2, claimed: 2, first });
    leader.touch("fail");
    let (code, said) = leader.ends();
    assert_eq!(code, Some(75), "{said}");
    let at_risk = said.lines().find(|line| line.contains("the lease is at risk"));
    let at_risk = at_risk.unwrap_or_default();
    for words in ["renewing epoch 1", "credentials could not be fetched", "the vault is sealed"] {
        assert!(at_risk.contains(words), "{words:?} is not in {said}");
    }
    assert!(said.ends_with("tenure: epoch 1 was at risk, so CMD was stopped\n"), "{said}");
}

#[test]
fn a_hanging_provider_ends_the_lease_and_is_reported() {
    let first = "test -e hang && exec sleep 60";
    let leader = Leader::start("3s", &Provider { life: 2, claimed: 2, first });
    leader.touch("hang");
    let (code, said) = leader.ends();
    assert_eq!(code, Some(75), "{said}");
    assert!(said.contains("the credentials have not arrived after 1s"), "{said}");
    assert!(said.ends_with("tenure: epoch 1 was at risk, so CMD was stopped\n"), "{said}");
}
