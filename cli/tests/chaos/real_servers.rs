//! An election across three real servers of different kinds: S3, Azure and DynamoDB.

use std::fs;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use serde_json::Value;
use tenure_testkit::command::eventually;
use tenure_testkit::command::scene::pid;

use crate::VALIDITY;
use crate::child::{nap, now_ns};
use crate::process::{Process, TENURE};
use crate::rampage::SECOND_NS;

/// Time for which a server is down. It is longer than the leader's validity.
const PAUSE: Duration = Duration::from_millis(3_500);

/// A server that scripts/lib.sh has started. It keeps its contents in memory.
struct Server {
    pid: u32,
    /// File with the command line that starts the server.
    command: String,
    revived: Option<Child>,
}

impl Server {
    fn signal(&self, signal: Signal) {
        kill(pid(self.pid), signal).expect("the server runs");
    }

    /// Starts the killed server again, without its contents.
    fn revive(&mut self) {
        let line = fs::read_to_string(&self.command).expect("a command line");
        let mut command = Command::new("bash");
        command.args(["-c", &format!("exec {line}")]).stdout(Stdio::null()).stderr(Stdio::null());
        let child = command.spawn().expect("bash starts");
        self.pid = child.id();
        self.revived = Some(child);
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = kill(pid(self.pid), Signal::SIGCONT);
        if let Some(mut revived) = self.revived.take() {
            let _ = revived.kill().and_then(|()| revived.wait());
        }
    }
}

/// Returns the time of the wall clock, as CMD writes it.
fn wall_ns() -> u64 {
    u64::try_from(tenure::Process::system().now().wall.as_nanos()).expect("fits into 64 bits")
}

/// Two candidates on three stores. Their CMD appends the epoch and the time to one file.
struct Set {
    folder: PathBuf,
    stores: [String; 3],
    servers: [Server; 3],
    candidates: Vec<Process>,
}

impl Set {
    fn start() -> Set {
        let servers = std::env::var("TENURE_TEST_SERVERS").expect("scripts/lib.sh sets it");
        let server = |name: &str| {
            let mut all = servers.split_whitespace().map(|it| it.split(',').collect::<Vec<_>>());
            let fields = all.find(|it| it[0] == name).unwrap_or_else(|| panic!("no {name}"));
            let pid = fields[2].parse().expect("a process ID");
            let (endpoint, command) = (fields[1].to_owned(), fields[3].to_owned());
            (endpoint, Server { pid, command, revived: None })
        };
        let [(s3, ministack), (_, azurite), (dynamodb, moto)] =
            ["ministack", "azurite", "moto"].map(server);
        let stores = [
            format!("s3://tenure-test/app?endpoint={s3}"),
            "az://tenure-test/app".to_owned(),
            format!("dynamodb://tenure-test/app?endpoint={dynamodb}"),
        ];
        let folder = tempfile::tempdir().expect("a temporary directory").keep();
        println!("logs in {}", folder.display());
        let candidates = ["a", "b"].map(|name| Process::new(name.to_owned())).into();
        let mut set = Set { folder, stores, servers: [ministack, azurite, moto], candidates };
        set.create_table();
        set.verb(&["across", "init"]);
        (0..2).for_each(|candidate| set.run(candidate));
        set
    }

    fn verb(&self, verb: &[&str]) -> String {
        let mut command = Command::new(TENURE);
        let output = command.args(verb).env("TENURE_STORE", self.stores.join(" ")).output();
        let output = output.expect("the command runs");
        assert!(output.status.success(), "{verb:?}: {output:?}");
        String::from_utf8(output.stdout).expect("UTF-8")
    }

    fn create_table(&self) {
        eventually("the DynamoDB server answers", || {
            let mut command = Command::new(TENURE);
            let output = command.args(["table", "create", "--store", &self.stores[2]]).output();
            output.expect("the command runs").status.success()
        });
    }

    fn run(&mut self, candidate: usize) {
        let script = "while :; do echo $TENURE_EPOCH $(date +%s%N) >>\"$LOG\"; sleep 0.05; done";
        let mut command = Command::new(TENURE);
        let (validity, name) = (format!("{}s", VALIDITY.as_secs()), ["a", "b"][candidate]);
        command.args(["run", "--forever", "--name", name, "--validity", &validity]);
        command.args(["--poll", "300ms", "--", "sh", "-c", script]);
        command.env("TENURE_STORE", self.stores.join(" ")).env("LOG", self.folder.join("log"));
        self.candidates[candidate].start(command, &self.folder);
    }

    /// Returns the epochs and the times of the lines that CMDs have written. The epochs never
    /// decrease.
    fn lines(&self) -> Vec<(u64, u64)> {
        let text = fs::read_to_string(self.folder.join("log")).unwrap_or_default();
        let number = |text: &str| text.parse().expect("a number");
        let whole = text.lines().filter_map(|line| line.split_once(' '));
        let lines: Vec<_> = whole.map(|(epoch, at)| (number(epoch), number(at))).collect();
        assert!(lines.is_sorted_by_key(|(epoch, _)| *epoch), "two CMDs ran at the same time");
        lines
    }

    fn last(&self) -> (u64, u64) {
        self.lines().last().copied().unwrap_or_default()
    }

    /// Waits until a CMD of a greater epoch writes, and returns this epoch.
    fn next_after(&self, epoch: u64) -> u64 {
        eventually("another epoch writes", || self.last().0 > epoch);
        self.last().0
    }

    /// Returns the index of the leader.
    fn leader(&self) -> usize {
        let name = self.verb(&["status", "--field", "leader"]);
        ["a", "b"].iter().position(|it| *it == name.trim()).expect("a leader")
    }

    /// Asserts that the leader of this epoch still works.
    fn leads_on(&self, epoch: u64, event: &str) {
        let from = wall_ns();
        eventually(&format!("the leader works: {event}"), || self.last().1 > from);
        assert_eq!(self.last().0, epoch, "the leader has changed: {event}");
    }

    fn is_whole(&self, epoch: u64) -> bool {
        let status = self.verb(&["across", "status", "--json"]);
        let status: Value = serde_json::from_str(&status).expect("JSON");
        let stores = status["stores"].as_array().expect("a list");
        stores.iter().all(|store| store["epoch"] == epoch && store["ended"].is_null())
    }

    /// Lets the leader resign, and returns the next epoch.
    fn hand_over(&mut self, epoch: u64) -> u64 {
        let leader = self.leader();
        self.candidates[leader].signal(Signal::SIGTERM).expect("the leader runs");
        let next = self.next_after(epoch);
        eventually("the old leader exits", || self.candidates[leader].reap().is_some());
        self.run(leader);
        eventually("each store has the epoch of the next leader", || self.is_whole(next));
        next
    }
}

impl Drop for Set {
    fn drop(&mut self) {
        for candidate in &mut self.candidates {
            let _ = candidate.signal(Signal::SIGTERM);
            eventually("a candidate exits", || !candidate.lives() || candidate.reap().is_some());
        }
    }
}

#[test]
#[ignore = "needs servers: scripts/servers/moto.sh -- scripts/servers/ministack.sh -- \
            scripts/servers/azurite.sh -- cargo test --test chaos real_servers -- --ignored"]
fn an_election_across_real_servers_survives_each_of_them() {
    let seconds = std::env::var("CHAOS_SECONDS").map_or(10, |it| it.parse().expect("a number"));
    let mut set = Set::start();
    let mut epoch = set.next_after(0);
    // If a leader is killed, its guard resigns, and the other candidate leads.
    let killed = set.leader();
    set.candidates[killed].signal(Signal::SIGKILL).expect("the leader runs");
    epoch = set.next_after(epoch);
    eventually("the leader is dead", || set.candidates[killed].reap().is_some());
    set.run(killed);
    epoch = set.hand_over(epoch);

    let end_ns = now_ns() + seconds * SECOND_NS;
    while {
        for server in 0..3 {
            set.servers[server].signal(Signal::SIGSTOP);
            nap(PAUSE);
            set.leads_on(epoch, "a server is stopped");
            set.servers[server].signal(Signal::SIGCONT);
            eventually("each store has the epoch of the leader", || set.is_whole(epoch));
        }
        // The killed server loses its table, so the test must replace the store.
        set.servers[2].signal(Signal::SIGKILL);
        nap(PAUSE);
        set.leads_on(epoch, "a server is killed");
        set.servers[2].revive();
        set.create_table();
        nap(PAUSE);
        set.leads_on(epoch, "a store is wiped");
        set.verb(&[
            "across",
            "replace",
            "--number",
            "3",
            "--validity",
            "3s",
            "--old-is-unreachable",
        ]);
        set.leads_on(epoch, "a store is replaced");
        epoch = set.hand_over(epoch);
        now_ns() < end_ns
    } {}

    let stopped_ns = wall_ns();
    set.servers[..2].iter().for_each(|server| server.signal(Signal::SIGSTOP));
    nap(VALIDITY + PAUSE);
    let worked = Duration::from_nanos(set.last().1.saturating_sub(stopped_ns));
    assert!(worked < VALIDITY, "CMD worked for {worked:?} without a majority");
    set.servers[..2].iter().for_each(|server| server.signal(Signal::SIGCONT));
    set.next_after(epoch);
}
