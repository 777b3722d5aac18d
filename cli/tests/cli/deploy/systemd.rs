//! Tests of the systemd units and of the messages to systemd. A socket of the test receives the
//! messages instead of systemd.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use nix::sys::signal::Signal;

use crate::TENURE;
use crate::serve::client::{self, Sidecar};
use tenure_testkit::command::PATIENCE;
use tenure_testkit::command::scene::Scene;

/// A pattern for grep. It matches the variables that systemd sets for a unit with `WatchdogSec=`.
const VARIABLES: &str = "NOTIFY_SOCKET|WATCHDOG_PID|WATCHDOG_USEC";

/// Receives the messages that services send to systemd.
struct Manager {
    socket: UnixDatagram,
    path: PathBuf,
    received: Vec<String>,
}

impl Manager {
    fn new(scene: &Scene) -> Manager {
        let path = scene.path("notify");
        let socket = UnixDatagram::bind(&path).expect("a socket");
        Manager { socket, path, received: Vec::new() }
    }

    /// Sets the variables that systemd sets for a service, so `command` sends its messages here.
    fn of(&self, mut command: Command, watchdog: Option<Duration>) -> Command {
        command.env("NOTIFY_SOCKET", &self.path);
        if let Some(watchdog) = watchdog {
            command.env("WATCHDOG_USEC", watchdog.as_micros().to_string());
        }
        command
    }

    /// Returns the lines of the next message, or `None` if none arrives within this time.
    fn next(&mut self, within: Duration) -> Option<String> {
        self.socket.set_read_timeout(Some(within)).expect("a timeout");
        let mut bytes = [0; 4096];
        let length = self.socket.recv(&mut bytes).ok()?;
        let message = String::from_utf8(bytes[..length].to_vec()).expect("text");
        self.received.push(message.clone());
        Some(message)
    }

    /// Receives messages up to the first line that begins with these words. Returns this line.
    fn until(&mut self, start: &str) -> String {
        loop {
            let message = self.next(PATIENCE);
            let message = message.unwrap_or_else(|| panic!("{start}: {:?}", self.received));
            if let Some(line) = message.lines().find(|line| line.starts_with(start)) {
                return line.to_owned();
            }
        }
    }

    /// Returns the number of received messages with this line.
    fn count(&self, line: &str) -> usize {
        self.received.iter().filter(|message| message.lines().any(|one| one == line)).count()
    }

    fn drain(&self) {
        self.socket.set_nonblocking(true).expect("a socket");
        while self.socket.recv(&mut [0; 4096]).is_ok() {}
        self.socket.set_nonblocking(false).expect("a socket");
    }
}

fn running(scene: &Scene, name: &str, options: &[&str], script: &str) -> Command {
    let mut command = scene.run(name, options);
    command.args(["--", "sh", "-c", script]);
    command
}

#[test]
fn run_is_ready_after_its_election_and_shows_its_state() {
    let scene = Scene::new(TENURE);
    let mut systemd = Manager::new(&scene);
    let mut leader = scene.script("a", &[], "exec sleep 600");
    leader.says("elected: epoch 1");
    let command = running(&scene, "b", &[], "echo CMD $((40 + 2)); exec sleep 600");
    let mut standby = scene.start("b", systemd.of(command, None));
    assert_eq!(systemd.until("STATUS="), "STATUS=unknown: starting");
    let text = systemd.until("STATUS=held: a leads epoch 1, ");
    assert!(text.ends_with("s left"), "{text}");
    // The text contains the remaining time of the lease, so it changes after each renewal.
    assert_ne!(systemd.until("STATUS=held: a leads epoch 1, "), text);
    assert_eq!(systemd.count("READY=1"), 0, "{:?}", systemd.received);
    leader.signal(Signal::SIGTERM);
    leader.code();
    systemd.until("READY=1");
    standby.says("elected: epoch 2");
    let text = systemd.until("STATUS=held: leading epoch 2, ");
    assert!(text.ends_with("s left"), "{text}");
    standby.says("CMD 42");
    standby.signal(Signal::SIGTERM);
    systemd.until("STOPPING=1");
    assert_eq!(standby.code(), 143, "{}", standby.said());
    assert_eq!(systemd.count("READY=1"), 1, "{:?}", systemd.received);
    assert_eq!(systemd.count("WATCHDOG=1"), 0, "without WATCHDOG_USEC");
}

#[test]
fn group_run_is_ready_after_it_has_joined() {
    let scene = Scene::new(TENURE);
    let mut systemd = Manager::new(&scene);
    let mut command = scene.group_run("a", &["--partitions", "0..2"]);
    command.args(["--", "sh", "-c", "exec sleep 600"]);
    let mut member = scene.start("a", systemd.of(command, None));
    systemd.until("READY=1");
    assert_eq!(systemd.received[0], "STATUS=starting");
    systemd.until("STATUS=member: 2 partitions, ");
    member.signal(Signal::SIGTERM);
    systemd.until("STATUS=leaving");
    systemd.until("STOPPING=1");
    assert_eq!(member.code(), 0, "{}", member.said());
}

#[test]
fn serve_is_ready_once_its_stores_are_open() {
    let scene = Scene::new(TENURE);
    let mut systemd = Manager::new(&scene);
    let mut command = client::serve(&scene, "a", &[]);
    command.args(["--group", &format!("jobs={}/jobs", scene.url()), "--partitions", "0..2"]);
    let process = scene.start("a", systemd.of(command, None));
    systemd.until("READY=1");
    let mut sidecar = Sidecar { process, address: String::new() };
    sidecar.address = sidecar.address_after("serving elections at http://");
    assert_eq!(sidecar.get("/v1/elections").0, 200);
    let text = systemd.until("STATUS=orders held: leading epoch 1, ");
    assert!(text.contains("s left; jobs "), "{text}");
    sidecar.process.signal(Signal::SIGTERM);
    systemd.until("STOPPING=1");
    assert_eq!(sidecar.process.code(), 0, "{}", sidecar.process.said());
}

#[test]
fn a_stopped_process_sends_no_sign_of_life() {
    let scene = Scene::new(TENURE);
    let mut systemd = Manager::new(&scene);
    let watchdog = Duration::from_secs(1);
    let command = running(&scene, "a", &["--validity", "60s"], "exec sleep 600");
    let leader = scene.start("a", systemd.of(command, Some(watchdog)));
    systemd.until("READY=1");
    for _ in 0..3 {
        systemd.until("WATCHDOG=1");
    }
    leader.stop();
    systemd.drain();
    assert_eq!(systemd.next(3 * watchdog), None);
    leader.signal(Signal::SIGCONT);
    systemd.until("WATCHDOG=1");
}

/// systemd sets WATCHDOG_PID to the process that it expects messages from. Here this is another
/// process, for example the parent shell.
#[test]
fn the_watchdog_of_another_process_gets_no_message() {
    let scene = Scene::new(TENURE);
    let mut systemd = Manager::new(&scene);
    let mut command = running(&scene, "a", &[], "exec sleep 600");
    command.env("WATCHDOG_PID", "1");
    let _leader = scene.start("a", systemd.of(command, Some(Duration::from_secs(1))));
    systemd.until("READY=1");
    systemd.until("STATUS=held: leading epoch 1, ");
    assert_eq!(systemd.count("WATCHDOG=1"), 0, "{:?}", systemd.received);
}

#[test]
fn cmd_and_hooks_do_not_inherit_the_socket() {
    let scene = Scene::new(TENURE);
    let mut systemd = Manager::new(&scene);
    let show = |name: &str| format!("env | grep -cE '^({VARIABLES})=' >{name}; exit 0");
    let (elected, lost) = (show("elected"), show("lost"));
    let options = ["--on-elected", &elected, "--on-lost", &lost];
    let mut command = running(&scene, "a", &options, &show("cmd"));
    command.env("WATCHDOG_PID", "1");
    let mut leader = scene.start("a", systemd.of(command, Some(Duration::from_secs(1))));
    assert_eq!(leader.code(), 0, "{}", leader.said());
    for name in ["elected", "lost", "cmd"] {
        assert_eq!(scene.number(name), 0, "{name}");
    }
    systemd.until("STOPPING=1");
}

/// A send to a full socket must not block, because the same task also passes each new deadline to
/// the guard.
#[test]
fn a_hanging_systemd_does_not_delay_the_leader() {
    let scene = Scene::new(TENURE);
    let mut systemd = Manager::new(&scene);
    // Fills the receive queue of the socket, as the messages of other services do.
    let sent = || {
        let sender = UnixDatagram::unbound().expect("a socket");
        sender.set_nonblocking(true).expect("a socket");
        sender.send_to(b"X=1", &systemd.path).is_ok()
    };
    while sent() {}
    let command = running(&scene, "a", &["--validity", "3s"], "exec sleep 600");
    let mut leader = scene.start("a", systemd.of(command, Some(Duration::from_secs(1))));
    leader.says("systemd cannot be notified");
    leader.says("elected: epoch 1");
    systemd.drain();
    systemd.until("READY=1");
    leader.signal(Signal::SIGTERM);
    assert_eq!(leader.code(), 143, "{}", leader.said());
    assert!(leader.said().contains("resigned epoch 1"), "{}", leader.said());
}

fn units() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy/systemd")
}

#[test]
fn each_unit_is_hardened() {
    let analyze = |unit: &Path| {
        let mut command = Command::new("systemd-analyze");
        // The threshold is in tenths, so 30 means an exposure level of 3.0.
        command.args(["security", "--offline=true", "--threshold=30", "--no-pager"]);
        command.arg(unit).output()
    };
    let mut services: Vec<_> = fs::read_dir(units()).expect("a folder").flatten().collect();
    services.retain(|entry| entry.path().extension().is_some_and(|it| it == "service"));
    assert_eq!(services.len(), 5, "{services:?}");
    for service in services {
        let Ok(output) = analyze(&service.path()) else {
            eprintln!("skipped: there is no systemd-analyze");
            return;
        };
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
    }
}

/// Returns the command line of a systemd unit. A script in the folder of the test replaces
/// `/etc/tenure/NAME.run`.
fn command_of(unit: &str, scene: &Scene, options: &[&str]) -> Command {
    let program = scene.path("name.run");
    fs::write(&program, "#!/bin/sh\necho CMD $((40 + 2)) >>ran\n$WAIT\n").expect("a file");
    fs::set_permissions(&program, Permissions::from_mode(0o755)).expect("it is ours");
    let text = fs::read_to_string(units().join(unit)).expect("a unit");
    let exec = text.lines().find_map(|line| line.strip_prefix("ExecStart=")).expect("a command");
    let mut command = Command::new(TENURE);
    for word in exec.split_whitespace().skip(1) {
        match word {
            "%H" => command.arg("host-7"),
            "$TENURE_OPTIONS" => command.args(options),
            "/etc/tenure/%i.run" => command.arg(&program),
            word => command.arg(word),
        };
    }
    scene.surround(&mut command);
    command.env("TENURE_STORE", scene.url()).env("WAIT", "exec sleep 600");
    command
}

#[test]
fn each_unit_with_notifications_becomes_active() {
    for (unit, variable) in [
        ("tenure-run@.service", ("TENURE_VALIDITY", "60s")),
        ("tenure-group@.service", ("TENURE_PARTITIONS", "0..2")),
        ("tenure-serve@.service", ("TENURE_ELECTION", "orders=file:///{}")),
    ] {
        let scene = Scene::new(TENURE);
        let mut systemd = Manager::new(&scene);
        let mut command = command_of(unit, &scene, &["--listen", "127.0.0.1:0"]);
        let path = scene.path("store");
        command.env(variable.0, variable.1.replace("/{}", &path.display().to_string()));
        let text = fs::read_to_string(units().join(unit)).expect("a unit");
        assert!(text.contains("\nType=notify\nTimeoutStartSec=infinity\nWatchdogSec="), "{unit}");
        // If the unit were not ordered after multi-user.target, this target would wait until the
        // unit reports READY=1.
        assert!(text.contains("\nAfter=network-online.target multi-user.target\n"), "{unit}");
        let mut service = scene.start("service", systemd.of(command, Some(PATIENCE)));
        systemd.until("READY=1");
        systemd.until("WATCHDOG=1");
        service.signal(Signal::SIGTERM);
        systemd.until("STOPPING=1");
        service.code();
    }
}

#[test]
fn the_unit_of_a_job_runs_it_once_in_a_period() {
    let scene = Scene::new(TENURE);
    let code = |name: &str| {
        let mut command = command_of("tenure-job@.service", &scene, &["--once-per", "36500d"]);
        command.env_remove("WAIT");
        scene.start(name, command).code()
    };
    assert_eq!((code("first"), code("second")), (0, 0));
    assert_eq!(scene.wait_for_file("ran"), "CMD 42\n");
}
