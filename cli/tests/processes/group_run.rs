//! Tests of `tenure group run` as processes. The tests kill, suspend and terminate these processes.

use std::collections::BTreeMap;
use std::fs;
use std::process::Command;

use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::TENURE;
use tenure_testkit::command::scene::{Candidate, Scene, guard_of, kill_at_once};
use tenure_testkit::command::{eventually, runs};

const PARTITIONS: &str = "0..6";

/// The command of a partition. If the previous command of the same partition still runs, this
/// command writes to the file `beside`. Then it runs until SIGTERM.
const WORK: &str = r#"
    before=$(cat "pid.$TENURE_PARTITION" 2> /dev/null)
    [ -n "$before" ] && kill -0 "$before" 2> /dev/null && echo "$TENURE_PARTITION" >> beside
    echo $$ > "pid.$TENURE_PARTITION"
    trap 'exit 0' TERM
    echo "$TENURE_PARTITION $TENURE_EPOCH $TENURE_NAME" >> granted
    while :; do sleep 0.02; done"#;

struct Members(Scene);

/// The partition, epoch and member that a started command has written to a file.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Grant {
    partition: String,
    epoch: u64,
    member: String,
}

impl Members {
    fn start(&self, name: &str, options: &[&str], script: &str) -> Candidate {
        let more = ["--partitions", PARTITIONS, "--rebalance-delay", "0s"];
        let mut command = self.0.group_run(name, &[&more, options].concat());
        command.args(["--", "sh", "-c", script]);
        self.0.start(name, command)
    }

    fn member(&self, name: &str) -> Candidate {
        self.start(name, &["--validity", "3s"], WORK)
    }

    fn grants(&self) -> Vec<Grant> {
        let text = fs::read_to_string(self.0.path("granted")).unwrap_or_default();
        let whole = text.rfind('\n').map_or("", |end| &text[..end]);
        let grant = |line: &str| {
            let words: Vec<&str> = line.split(' ').collect();
            let [partition, epoch, member] = words[..] else { panic!("a torn line: {line:?}") };
            let epoch = epoch.parse().expect("a number");
            Grant { partition: partition.to_owned(), epoch, member: member.to_owned() }
        };
        whole.lines().map(grant).collect()
    }

    /// Returns the partitions whose last command belongs to this member and still runs.
    fn owned_by(&self, member: &str) -> Vec<String> {
        let mut last = BTreeMap::new();
        for grant in self.grants() {
            last.insert(grant.partition, grant.member);
        }
        let mut own: Vec<_> = last.into_iter().filter(|(_, of)| of == member).collect();
        own.retain(|(partition, _)| runs(self.0.number(&format!("pid.{partition}"))));
        own.into_iter().map(|(partition, _)| partition).collect()
    }

    #[track_caller]
    fn own(&self, shares: &[(&str, usize)]) {
        eventually(&format!("the members own {shares:?}"), || {
            shares.iter().all(|(member, many)| self.owned_by(member).len() == *many)
        });
    }

    /// Asserts that no two commands ran at the same time for one partition, and that tokens only
    /// increased.
    fn check(&self) {
        assert!(!self.0.exists("beside"), "two commands ran for one partition");
        let mut last = BTreeMap::new();
        for Grant { partition, epoch, .. } in self.grants() {
            let before = last.insert(partition, epoch);
            assert!(before < Some(epoch), "{:?}", self.grants());
        }
    }
}

#[test]
fn at_most_one_of_three_members_runs_a_partition_despite_kills_and_stops() {
    let members = Members(Scene::new(TENURE));
    let [mut a, b, mut c] = ["a", "b", "c"].map(|name| members.member(name));
    members.own(&[("a", 2), ("b", 2), ("c", 2)]);
    a.signal(Signal::SIGKILL);
    assert_eq!(a.code(), 137);
    members.own(&[("a", 0), ("b", 3), ("c", 3)]);
    b.stop();
    members.own(&[("b", 0), ("c", 6)]);
    // When b continues, it learns that its session has ended and that it owns no partition. Then b
    // joins again.
    b.signal(Signal::SIGCONT);
    members.own(&[("b", 3), ("c", 3)]);
    assert!(b.said().contains("CMD is killed"), "{}", b.said());
    c.signal(Signal::SIGTERM);
    assert_eq!(c.code(), 0, "{}", c.said());
    assert!(c.said().contains("left the group"), "{}", c.said());
    members.own(&[("b", 6), ("c", 0)]);
    members.check();
}

/// Before the fix, after the death of `tenure group run`, the log lines of its guards did not name
/// their partitions.
#[test]
fn regression_the_lines_of_the_guards_name_their_partitions() {
    for format in ["text", "json"] {
        let scene = Scene::new(TENURE);
        let options = ["--partitions", "0..2", "--log-format", format];
        let mut command = scene.group_run("a", &options);
        command.args(["--", "sh", "-c", "echo >> begun; sleep 1000"]);
        let mut a = scene.start("a", command);
        let begun = || fs::read_to_string(scene.path("begun")).unwrap_or_default();
        eventually("both commands run", || begun().len() == 2);
        a.signal(Signal::SIGKILL);
        assert_eq!(a.code(), 137);
        for (partition, words) in [
            ("0", "tenure has died"),
            ("0", "all processes of CMD have ended"),
            ("1", "tenure has died"),
            ("1", "all processes of CMD have ended"),
        ] {
            if format == "text" {
                a.says(&format!(" tenure: partition={partition} epoch=2: {words}"));
                continue;
            }
            let spans = json!([{ "partition": partition, "epoch": 2, "name": "partition" }]);
            eventually("the guard writes the line", || {
                let said = a.said();
                let mut lines = said.lines().filter_map(|line| line.parse::<Value>().ok());
                lines.any(|line| line["spans"] == spans && line.to_string().contains(words))
            });
        }
    }
}

/// The group reserves the partitions of the leaving member for the next member of the same name.
/// So the restarted member gets its partitions back without a wait.
#[test]
fn a_restart_under_one_name_moves_no_partition() {
    let members = Members(Scene::new(TENURE));
    let options = ["--leave-for", "50s", "--unique-name"];
    let [mut a, _b] = ["a", "b"].map(|name| members.start(name, &options, WORK));
    members.own(&[("a", 3), ("b", 3)]);
    let before = (members.owned_by("a"), members.owned_by("b"));
    a.signal(Signal::SIGTERM);
    assert_eq!(a.code(), 0, "{}", a.said());
    let said = a.said();
    let mut signals = said.lines().filter(|line| line.contains("sent SIGTERM to CMD")).peekable();
    assert!(signals.peek().is_some(), "{said}");
    assert!(signals.all(|line| !line.contains("WARN")), "an ordinary leave warns: {said}");
    members.own(&[("a", 0), ("b", 3)]);
    let grants = members.grants().len();
    let mut a = members.start("a", &options, WORK);
    members.own(&[("a", 3), ("b", 3)]);
    assert_eq!((members.owned_by("a"), members.owned_by("b")), before);
    assert_eq!(members.grants().len(), grants + 3);
    // A killed member leaves a valid session. The restarted member seals the session of the killed
    // member.
    a.signal(Signal::SIGKILL);
    assert_eq!(a.code(), 137);
    members.own(&[("a", 0), ("b", 3)]);
    let _a = members.start("a", &options, WORK);
    members.own(&[("a", 3), ("b", 3)]);
    assert_eq!((members.owned_by("a"), members.owned_by("b")), before);
    members.check();
}

/// After the member is killed, its commands get SIGTERM and use their grace. The restarted member
/// does not wait for the lapse of the old session, but it must not start new commands before the
/// old commands have ended.
#[test]
fn regression_commands_of_a_killed_predecessor_end_before_new_commands_start() {
    let members = Members(Scene::new(TENURE));
    let options = ["--unique-name", "--validity", "30s", "--grace", "3s", "--poll", "100ms"];
    let stubborn = WORK.replace("trap 'exit 0' TERM", "trap '' TERM");
    let mut a = members.start("a", &options, &stubborn);
    members.own(&[("a", 6)]);
    a.signal(Signal::SIGKILL);
    assert_eq!(a.code(), 137);
    let a = members.start("a", &options, &stubborn);
    eventually("the member owns its partitions again", || members.grants().len() == 12);
    assert!(a.said().contains("a predecessor with this name"), "{}", a.said());
    members.check();
}

#[test]
fn a_failing_command_is_restarted_without_effect_on_others() {
    let members = Members(Scene::new(TENURE));
    let script = format!(r#"[ "$TENURE_PARTITION" = 1 ] && echo x >> tries && exit 3; {WORK}"#);
    let mut a = members.start("a", &["--validity", "3s"], &script);
    members.own(&[("a", 5)]);
    eventually("the command is started again", || {
        fs::read_to_string(members.0.path("tries")).is_ok_and(|tries| tries.lines().count() >= 3)
    });
    a.says("CMD ended with exit code 3");
    assert_eq!(members.grants().len(), 5, "the other partitions were granted once");
    a.signal(Signal::SIGTERM);
    assert_eq!(a.code(), 0);
    members.check();
}

#[test]
fn sighup_is_forwarded_and_a_second_sigterm_kills() {
    let members = Members(Scene::new(TENURE));
    let script = r#"
        trap 'echo "$TENURE_PARTITION" >> hup' HUP
        trap 'echo "$TENURE_PARTITION" >> term' TERM
        echo "$TENURE_PARTITION" >> ready
        while :; do sleep 0.02; done"#;
    let lines = |file: &str| {
        fs::read_to_string(members.0.path(file)).map_or(0, |text| text.lines().count())
    };
    // The commands do not end at the first SIGTERM, and their grace is 10 s. The second SIGTERM
    // ends the grace.
    let mut a = members.start("a", &["--validity", "60s", "--poll", "100ms"], script);
    eventually("all commands are ready", || lines("ready") == 6);
    a.signal(Signal::SIGHUP);
    eventually("all commands have received the signal", || lines("hup") == 6);
    a.signal(Signal::SIGTERM);
    eventually("all commands have received the signal", || lines("term") == 6);
    a.signal(Signal::SIGTERM);
    assert_eq!(a.code(), 0, "{}", a.said());
    assert!(a.said().contains("SIGTERM again"), "{}", a.said());
    assert_eq!((lines("hup"), lines("term")), (6, 6));
}

impl Members {
    /// Starts a member with a long lease, and deposes it once all its commands run. On SIGTERM the
    /// commands write to the file `term`.
    fn deposed(&self, options: &[&str]) -> Candidate {
        let script =
            "trap 'echo >> term; exit 0' TERM; echo >> ready; while :; do sleep 0.02; done";
        let a =
            self.start("a", &["--validity", "5m", "--renew", "500ms", "--poll", "500ms"], script);
        eventually("all commands are ready", || self.lines("ready") == 6);
        let mut command = Command::new(TENURE);
        command.args(["group", "depose", "--store", &self.0.url(), "a"]).args(options);
        assert!(command.status().expect("tenure runs").success());
        a
    }

    fn lines(&self, file: &str) -> usize {
        fs::read_to_string(self.0.path(file)).map_or(0, |text| text.lines().count())
    }
}

/// Before the fix, the commands were killed, although their partitions move only after the lease.
/// After a first fix, they got SIGTERM only shortly before the end of the lease.
#[test]
fn regression_a_deposed_member_terminates_its_commands_immediately() {
    let members = Members(Scene::new(TENURE));
    let mut a = members.deposed(&[]);
    eventually("all commands get SIGTERM", || members.lines("term") == 6);
    a.signal(Signal::SIGTERM);
    assert_eq!(a.code(), 0, "{}", a.said());
    assert!(!a.said().contains("CMD is killed"), "{}", a.said());
}

#[test]
fn a_member_deposed_as_dead_kills_its_commands_immediately() {
    let members = Members(Scene::new(TENURE));
    let mut a = members.deposed(&["--force"]);
    a.says("CMD is killed");
    assert_eq!(members.lines("term"), 0, "{}", a.said());
    a.signal(Signal::SIGTERM);
    assert_eq!(a.code(), 0, "{}", a.said());
}

/// After the guard and the standby of a command were killed, processes of the command may still
/// run. So the member must not release the partition.
#[test]
fn no_partition_is_released_after_its_guard_and_standby_are_killed() {
    let members = Members(Scene::new(TENURE));
    let mut a = members.start("a", &[], WORK);
    members.own(&[("a", 6)]);
    let standby = a.standby();
    kill_at_once([guard_of(standby).expect("the command has a guard"), standby]);
    assert_eq!(a.code(), 71, "{}", a.said());
    assert!(a.said().contains("may still run"), "{}", a.said());
    eventually("all other commands are dead", || members.owned_by("a").is_empty());
    let url = members.0.url();
    let session = fs::read_dir(members.0.path("store/members")).expect("a folder").flatten();
    let bodies = session.map(|entry| fs::read_to_string(entry.path().join("lock.json")));
    let bodies: Vec<_> = bodies.map(|body| body.expect("a session")).collect();
    assert!(!bodies.iter().any(|body| body.contains("resigned")), "{url}: {bodies:?}");
}
