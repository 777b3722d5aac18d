//! Tests that transient failures do not end a service, and that invalid settings end it.

use std::process::Command;

use nix::sys::signal::Signal;
use tenure_testkit::command::eventually;
use tenure_testkit::command::scene::{Candidate, Scene};
use tenure_testkit::s3_server::{Op, S3Server, ServerFault};

use crate::TENURE;
use crate::serve::client::{address_after, ask_at};
use crate::store::s3::{STORE, with};

/// Errors that a store may return temporarily: during a change of a policy, a rotation of keys or a
/// correction of a clock, or before the bucket exists.
const PASSING: [ServerFault; 4] = [
    ServerFault::AccessDenied,
    ServerFault::Answer(403, "InvalidAccessKeyId"),
    ServerFault::Answer(403, "RequestTimeTooSkewed"),
    ServerFault::Answer(404, "NoSuchBucket"),
];

fn start(scene: &Scene, server: &S3Server, name: &str, line: &[&str]) -> Candidate {
    let mut command = Command::new(TENURE);
    command.args(line).envs(server.env());
    scene.surround(&mut command);
    scene.start(name, command)
}

fn service(scene: &Scene, server: &S3Server, name: &str, options: &[&str]) -> Candidate {
    let line = ["run", STORE[0], STORE[1], "--name", name, "--validity", "3s", "--forever"];
    let line =
        [&line[..], options, &["--", "sh", "-c", "echo CMD $((40 + 2)); exec sleep 600"]].concat();
    start(scene, server, name, &line)
}

#[test]
fn regression_a_service_survives_transient_failures() {
    std::thread::scope(|all| {
        for fault in PASSING {
            all.spawn(move || survives(fault));
        }
    });
}

fn survives(fault: ServerFault) {
    let (scene, server) = (Scene::new(TENURE), S3Server::start_blocking());
    server.fault(fault);
    let mut early = service(&scene, &server, "a", &["--health-addr", "127.0.0.1:0"]);
    let address = address_after(&early, "serving health at http://");
    let get = |path: &str| ask_at(&address, "GET", path, "");
    early.says("trying again");
    eventually("the service is not ready, and gives the reason", || {
        let (status, ready) = get("/readyz");
        assert_eq!(get("/livez").0, 200);
        status == 503 && ready.contains("tenure-test")
    });
    eventually("the service has tried several times", || server.requests().len() >= 4);
    let lines = early.said().lines().filter(|line| line.contains("trying again")).count();
    assert_eq!(lines, 1, "all failed attempts share one line: {}", early.said());
    server.clear_faults();
    early.says("CMD 42");
    eventually("the service is ready", || get("/readyz").0 == 200);
    let mut standby = service(&scene, &server, "b", &[]);
    standby.says("waiting: a leads");
    // The fault lasts longer than the lease, so the leader loses the lease and stops CMD.
    server.fault(fault);
    standby.says("trying again");
    eventually("the service campaigns again", || {
        early.said().matches("campaigning as a").count() == 2
    });
    assert!(early.lives() && standby.lives(), "{} {}", early.said(), standby.said());
    server.clear_faults();
    eventually("one candidate leads again", || {
        [&early, &standby].iter().any(|it| it.said().contains("elected: epoch 2"))
    });
    let lines = standby.said().lines().filter(|line| line.contains("trying again")).count();
    assert!(lines <= 2, "all failed attempts share one line: {}", standby.said());
    for one in [&mut early, &mut standby] {
        one.signal(Signal::SIGTERM);
        one.code();
    }
}

/// The systemd unit does not restart a service that exits with 64. So the service must not exit
/// with the exit code of CMD.
#[test]
fn regression_a_service_does_not_exit_with_the_exit_code_of_cmd() {
    let server = S3Server::start_blocking();
    let run = |options: &[&str], script: &str| {
        let end = ["--", "sh", "-c", script];
        with(&server.env(), &[&["run"][..], &STORE, options, &end].concat())
    };
    for code in ["64", "70", "77", "1", "126", "255"] {
        let said = run(&["--forever"], &format!("exit {code}"));
        assert_eq!(said.code, 1, "{said:?}");
        assert!(said.err.contains(&format!("CMD ended with exit code {code}")), "{said:?}");
        assert_eq!(run(&[], &format!("exit {code}")).code, code.parse::<i32>().expect("a code"));
    }
    assert_eq!(run(&["--forever"], "exit 0").code, 0);
    let said = run(&["--forever"], "kill -9 $$");
    assert_eq!(said.code, 1, "{said:?}");
    let wrong = run(&["--forever", "--validity", "1ms"], "true");
    assert_eq!(wrong.code, 64, "{wrong:?}");
}

#[test]
fn a_service_exits_with_0_after_sigterm() {
    let (scene, server) = (Scene::new(TENURE), S3Server::start_blocking());
    let mut service = service(&scene, &server, "a", &[]);
    service.says("CMD 42");
    service.signal(Signal::SIGTERM);
    assert_eq!(service.code(), 0, "{}", service.said());
}

#[test]
fn regression_observers_survive_transient_failures() {
    let (scene, server) = (Scene::new(TENURE), S3Server::start_blocking());
    let leader = service(&scene, &server, "a", &[]);
    leader.says("CMD 42");
    server.fault(ServerFault::AccessDenied).on(Op::List);
    let line = ["watch", STORE[0], STORE[1], "--poll", "100ms"];
    let mut watch = start(&scene, &server, "watch", &line);
    watch.says("trying again");
    watch.says("s3:ListBucket");
    server.clear_faults();
    watch.says("a leads epoch 1");
    assert!(watch.lives());
}

#[test]
fn regression_a_member_of_a_group_survives_transient_failures() {
    let (scene, server) = (Scene::new(TENURE), S3Server::start_blocking());
    server.fault(ServerFault::AccessDenied);
    let url = "s3://tenure-test/group";
    let line = ["group", "run", "--store", url, "--partitions", "0..2", "--validity", "3s"];
    let line = [&line[..], &["--", "sh", "-c", "echo CMD $((40 + 2)); exec sleep 600"]].concat();
    let mut member = start(&scene, &server, "member", &line);
    let mut watch = start(&scene, &server, "watch", &["group", "watch", "--store", url]);
    member.says("trying again");
    watch.says("trying again");
    server.clear_faults();
    member.says("CMD 42");
    watch.says("->");
    assert!(member.lives() && watch.lives());
    member.signal(Signal::SIGTERM);
    member.code();
}

/// Before the fix, one unreadable object ended `watch` and `group watch`. Observers must continue
/// while an operator repairs or removes the object.
#[test]
fn regression_observers_survive_an_unreadable_object() {
    let (scene, server) = (Scene::new(TENURE), S3Server::start_blocking());
    let url = "s3://tenure-test/group";
    for (name, line, key) in [
        ("watch", &["watch", STORE[0], STORE[1]][..], "app/lock-0000000007.json"),
        ("group", &["group", "watch", "--store", url], "group/assignment-0000000007.json"),
    ] {
        server.put_raw(key, "{");
        let mut watch = start(&scene, &server, name, line);
        watch.says("the watch failed, and is retried");
        watch.says(key);
        assert!(watch.lives(), "{}", watch.said());
        watch.signal(Signal::SIGTERM);
        assert_eq!(watch.code(), 0, "{}", watch.said());
    }
}

/// The leader reports the first denied renewal, so an operator can correct its permissions before
/// the lease is at risk.
#[test]
fn regression_a_leader_reports_the_first_denial_before_the_lease_is_at_risk() {
    let (scene, server) = (Scene::new(TENURE), S3Server::start_blocking());
    let leader = service(&scene, &server, "a", &[]);
    leader.says("CMD 42");
    server.fault(ServerFault::AccessDenied).on(Op::Put);
    leader.says("the lease is at risk");
    let said = leader.said();
    let first = said.find("the lease is not renewed; trying again: renewing epoch 1");
    assert!(first.is_some_and(|first| Some(first) < said.find("the lease is at risk")), "{said}");
    assert_eq!(said.matches("the lease is not renewed").count(), 1, "once: {said}");
}

#[test]
fn regression_a_failing_server_is_reported_without_text_of_the_sdk() {
    let (scene, server) = (Scene::new(TENURE), S3Server::start_blocking());
    server.fault(ServerFault::ErrorBefore);
    let service = service(&scene, &server, "a", &[]);
    service.says("500 InternalError");
    server.clear_faults();
    service.says("CMD 42");
    assert!(!service.said().contains("aws_smithy"), "{}", service.said());
}

/// A proxy may send an answer that no store gives. If the store has worked before, this answer must
/// not end candidates and observers with the error for an unsafe store.
#[test]
fn regression_one_wrong_answer_does_not_make_a_working_store_unsafe() {
    let (scene, server) = (Scene::new(TENURE), S3Server::start_blocking());
    let leader = service(&scene, &server, "a", &[]);
    leader.says("CMD 42");
    let mut standby = service(&scene, &server, "b", &[]);
    standby.says("waiting: a leads");
    let mut watch = start(&scene, &server, "watch", &["watch", STORE[0], STORE[1]]);
    watch.says("a leads epoch 1");
    server.fault(ServerFault::Answer(501, "NotImplemented"));
    for one in [&mut standby, &mut watch] {
        one.says("trying again");
        one.says("501 NotImplemented");
    }
    eventually("the leader campaigns again", || {
        leader.said().matches("campaigning as a").count() == 2
    });
    server.clear_faults();
    eventually("one candidate leads again", || {
        [&leader, &standby].iter().any(|it| it.said().contains("elected: epoch 2"))
    });
    assert!(standby.lives() && watch.lives(), "{} {}", standby.said(), watch.said());
}

/// Tokio panics if the system refuses a new thread. Before the fix, the process waited forever for
/// its other threads after this panic.
#[test]
fn regression_a_refused_thread_ends_the_command_with_71_and_one_line() {
    // No system can create a thread with a stack of 128 TiB.
    let env = [("RUST_MIN_STACK", (1_u64 << 47).to_string())];
    for verb in ["run", "status"] {
        let line = [&[verb][..], &STORE, &["--", "true"][..if verb == "run" { 2 } else { 0 }]];
        let said = with(&env, &line.concat());
        said.fails(71, &["cannot start threads"]);
        assert_eq!(said.err.lines().count(), 1, "{said:?}");
    }
}

#[test]
fn regression_invalid_settings_exit_with_64_and_name_the_variable() {
    let server = S3Server::start_blocking();
    for (name, value) in [
        ("AWS_RETRY_MODE", "bogus"),
        ("AWS_MAX_ATTEMPTS", "0"),
        ("AWS_REGION", "eu-west-3\n"),
        ("AWS_ACCESS_KEY_ID", "AKIA-not-shown\n"),
        ("AWS_SECRET_ACCESS_KEY", "not-shown\n"),
        ("AWS_SESSION_TOKEN", "not-shown\u{e9}"),
    ] {
        let mut env = server.env();
        env.retain(|(other, _)| *other != name);
        env.push((name, value.to_owned()));
        let run = [&["run"][..], &STORE, &["--forever", "--", "true"]].concat();
        for line in [&[&["status"][..], &STORE].concat(), &run] {
            let said = with(&env, line);
            said.fails(64, &[name]);
            assert!(!said.err.contains("not-shown") && !said.err.contains("panicked"), "{said:?}");
        }
    }
}

#[test]
fn regression_invalid_settings_of_a_profile_exit_with_64() {
    let (dir, server) = (tempfile::tempdir().expect("a directory"), S3Server::start_blocking());
    let file = dir.path().join("config");
    let mut env = server.env();
    env.push(("AWS_CONFIG_FILE", file.display().to_string()));
    for (name, value) in [("retry_mode", "bogus"), ("max_attempts", "0")] {
        std::fs::write(&file, format!("[default]\n{name} = {value}\n")).expect("a file");
        let said = with(&env, &[&["status"][..], &STORE].concat());
        said.fails(64, &[name, "in the profile", value]);
        assert!(!said.err.contains("panicked"), "{said:?}");
    }
}
