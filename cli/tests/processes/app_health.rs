//! Tests of `--app-health` with `tenure run` and `tenure group run`.

use std::fs;
use std::net::TcpListener;

use nix::sys::signal::{Signal, kill};

use crate::TENURE;
use tenure_testkit::command::scene::{Scene, pid};
use tenure_testkit::command::{eventually, pause, runs, state};

/// A validity that is longer than any wait of these tests, so that the lease does not lapse.
const VALIDITY: [&str; 4] = ["--validity", "300s", "--poll", "500ms"];

/// A command that ignores SIGTERM, and that no check ever finds healthy.
const DEAF: &str = "trap '' TERM; echo $$ >> runs; echo $$ > cmd; while :; do sleep 0.05; done";

/// CMD is an HTTP server. While CMD is suspended (SIGSTOP), the kernel accepts connections for the
/// server, but no process answers.
#[test]
fn a_candidate_with_a_suspended_server_gives_up_its_leadership() {
    let scene = Scene::new(TENURE);
    let port = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = port.local_addr().expect("the listener has an address").to_string();
    drop(port);
    let check = format!("http://{address}/");
    let health = ["--app-health", &check, "--app-health-deadline", "4s", "--grace", "2s"];
    let server = format!("exec '{TENURE}' ui --store {} --listen {address}", scene.url());
    let script = format!("echo $$ > cmd; {server}");
    let mut a = scene.script("a", &[&VALIDITY[..], &health].concat(), &script);
    let cmd = scene.number("cmd");
    let _b = scene.script("b", &VALIDITY, "echo b > b; exec sleep 1000");
    pause(6_000);
    assert!(
        runs(cmd) && !scene.exists("b"),
        "a healthy command leads for longer than the deadline"
    );
    kill(pid(cmd), Signal::SIGSTOP).expect("the command runs");
    eventually("the process is stopped", || state(cmd) == Some('T'));
    scene.wait_for_file("b");
    assert!(!runs(cmd), "the command has ended before the next leadership");
    assert_eq!(a.code(), 75);
    let why = "the application showed no sign of health for 4s, so CMD was stopped";
    assert!(a.said().contains(why), "{}", a.said());
    a.says("resigned epoch 1");
}

#[test]
fn a_command_that_ignores_sigterm_is_killed_after_the_grace() {
    let scene = Scene::new(TENURE);
    let check = format!("file:{}", scene.path("alive").display());
    let health = ["--app-health", &check, "--app-health-deadline", "1s", "--grace", "1s"];
    let mut a = scene.script("a", &[&VALIDITY[..], &health].concat(), DEAF);
    let cmd = scene.number("cmd");
    assert_eq!(a.code(), 75);
    assert!(!runs(cmd));
    a.says("resigned epoch 1");
}

/// The guard and `tenure` both send SIGKILL to CMD at the deadline. Before the fix, the log
/// reported the kill twice.
#[test]
fn regression_a_kill_is_logged_once() {
    let scene = Scene::new(TENURE);
    let check = format!("file:{}", scene.path("alive").display());
    let health = ["--app-health", &check, "--app-health-deadline", "500ms", "--grace", "500ms"];
    let mut a = scene.script("a", &[&VALIDITY[..], &health].concat(), DEAF);
    assert_eq!(a.code(), 75, "{}", a.said());
    assert_eq!(a.said().matches("was killed (SIGKILL)").count(), 1, "{}", a.said());
}

#[test]
fn a_service_campaigns_again_after_an_unhealthy_command() {
    let scene = Scene::new(TENURE);
    let check = format!("file:{}", scene.path("alive").display());
    let health = ["--app-health", &check, "--app-health-deadline", "1s", "--grace", "0s"];
    let a = scene.script("a", &[&VALIDITY[..], &health, &["--forever"]].concat(), DEAF);
    eventually("the command runs three times", || {
        fs::read_to_string(scene.path("runs")).is_ok_and(|text| text.lines().count() == 3)
    });
    a.says("gave up epoch 2: the application showed no sign of health for 1s");
}

/// After SIGTERM, CMD may close its server long before it ends, so its health is not checked any
/// more.
#[test]
fn the_health_of_a_command_is_not_checked_after_sigterm() {
    let scene = Scene::new(TENURE);
    let check = format!("file:{}", scene.path("alive").display());
    let health = ["--app-health", &check, "--app-health-deadline", "3s", "--grace", "0s"];
    let script = "trap 'sleep 5; echo end > end; exit 7' TERM; echo $$ > cmd; \
                  while :; do sleep 0.05; done";
    let mut a = scene.script("a", &[&VALIDITY[..], &health].concat(), script);
    scene.wait_for_file("cmd");
    a.signal(Signal::SIGTERM);
    assert_eq!(a.code(), 7, "{}", a.said());
    assert!(scene.exists("end"));
}

/// Each partition has a separate check. The command of partition b never shows that it is healthy,
/// so it is stopped and started again. The command of partition a continues.
#[test]
fn each_partition_has_its_own_check() {
    let scene = Scene::new(TENURE);
    let check = format!("file:{}/alive.{{partition}}", scene.path("").display());
    let health = ["--app-health", &check, "--app-health-deadline", "2s", "--grace", "0s"];
    let options = [&["--partitions", "a,b", "--poll", "500ms"][..], &health].concat();
    let mut command = scene.group_run("m", &options);
    let script = "echo $$ >> runs.$TENURE_PARTITION; \
                  while :; do sleep 0.05; [ $TENURE_PARTITION = b ] || echo > alive.a; done";
    command.args(["--", "sh", "-c", script]);
    let member = scene.start("m", command);
    let runs = |name: &str| {
        let text = fs::read_to_string(scene.path(name)).unwrap_or_default();
        text.lines().count()
    };
    eventually("b starts again", || runs("runs.b") >= 3);
    assert_eq!(runs("runs.a"), 1, "{}", member.said());
    member.says("the application showed no sign of health for 2s, so CMD was stopped");
}

#[test]
fn heartbeats_without_serve_and_short_deadlines_are_refused() {
    let scene = Scene::new(TENURE);
    for (options, words) in [
        (["--app-health", "heartbeat", "--app-health-deadline", "3s"], "needs `serve`"),
        (["--app-health", "file:/x", "--app-health-deadline", "99ms"], "at least 100ms"),
    ] {
        let mut group = scene.group_run("m", &[&["--partitions", "a"][..], &options].concat());
        group.args(["--", "true"]);
        for mut refused in [scene.script("a", &options, "true"), scene.start("m", group)] {
            assert_eq!(refused.code(), 64);
            refused.says(words);
        }
    }
    assert!(!scene.exists("store"), "no store is created");
}
