//! `tenure group run` as processes that are killed, stopped and terminated.

use std::collections::BTreeMap;
use std::fs;

use nix::sys::signal::Signal;

use crate::TENURE;
use tenure_testkit::command::scene::{Candidate, Scene, guard_of, kill_at_once};
use tenure_testkit::command::{eventually, runs};

const PARTITIONS: &str = "0..6";

/// Reports a previous command of this partition that still runs; then runs until SIGTERM.
const WORK: &str = r#"
    before=$(cat "pid.$TENURE_PARTITION" 2> /dev/null)
    [ -n "$before" ] && kill -0 "$before" 2> /dev/null && echo "$TENURE_PARTITION" >> beside
    echo $$ > "pid.$TENURE_PARTITION"
    trap 'exit 0' TERM
    echo "$TENURE_PARTITION $TENURE_EPOCH $TENURE_NAME" >> granted
    while :; do sleep 0.02; done"#;

struct Members(Scene);

/// A grant, as written by the command of the partition.
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

    /// Returns the partitions of this member: its command was started last, and runs.
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
        eventually(&format!("they own {shares:?}"), || {
            shares.iter().all(|(member, many)| self.owned_by(member).len() == *many)
        });
    }

    /// Asserts that no two commands ran together for one partition, and that tokens only grew.
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
fn one_of_three_members_runs_each_partition_through_kills_and_stops() {
    let members = Members(Scene::new(TENURE));
    let [mut a, b, mut c] = ["a", "b", "c"].map(|name| members.member(name));
    members.own(&[("a", 2), ("b", 2), ("c", 2)]);
    a.signal(Signal::SIGKILL);
    assert_eq!(a.code(), 137);
    members.own(&[("a", 0), ("b", 3), ("c", 3)]);
    b.stop();
    members.own(&[("b", 0), ("c", 6)]);
    // After its session has ended, it finds that it owns no partition, and joins again.
    b.signal(Signal::SIGCONT);
    members.own(&[("b", 3), ("c", 3)]);
    assert!(b.said().contains("CMD is killed"), "{}", b.said());
    c.signal(Signal::SIGTERM);
    assert_eq!(c.code(), 0, "{}", c.said());
    assert!(c.said().contains("left the group"), "{}", c.said());
    members.own(&[("b", 6), ("c", 0)]);
    members.check();
}

/// Its session is long, but the restart does not wait: its partitions were kept for it.
#[test]
fn a_restart_under_one_name_moves_no_partition() {
    let members = Members(Scene::new(TENURE));
    let options = ["--leave-for", "50s", "--unique-name"];
    let [mut a, _b] = ["a", "b"].map(|name| members.start(name, &options, WORK));
    members.own(&[("a", 3), ("b", 3)]);
    let before = (members.owned_by("a"), members.owned_by("b"));
    a.signal(Signal::SIGTERM);
    assert_eq!(a.code(), 0, "{}", a.said());
    members.own(&[("a", 0), ("b", 3)]);
    let grants = members.grants().len();
    let mut a = members.start("a", &options, WORK);
    members.own(&[("a", 3), ("b", 3)]);
    assert_eq!((members.owned_by("a"), members.owned_by("b")), before);
    assert_eq!(members.grants().len(), grants + 3);
    // A killed member leaves a valid session. Its successor ends that session.
    a.signal(Signal::SIGKILL);
    assert_eq!(a.code(), 137);
    members.own(&[("a", 0), ("b", 3)]);
    let _a = members.start("a", &options, WORK);
    members.own(&[("a", 3), ("b", 3)]);
    assert_eq!((members.owned_by("a"), members.owned_by("b")), before);
    members.check();
}

/// The killed member leaves commands within their grace, and its successor waits for no session.
#[test]
fn regression_commands_of_a_killed_predecessor_end_before_new_ones_start() {
    let members = Members(Scene::new(TENURE));
    let options = ["--unique-name", "--validity", "30s", "--grace", "3s", "--poll", "100ms"];
    let stubborn = WORK.replace("trap 'exit 0' TERM", "trap '' TERM");
    let mut a = members.start("a", &options, &stubborn);
    members.own(&[("a", 6)]);
    a.signal(Signal::SIGKILL);
    assert_eq!(a.code(), 137);
    let a = members.start("a", &options, &stubborn);
    eventually("it owns its partitions again", || members.grants().len() == 12);
    assert!(a.said().contains("a predecessor with this name"), "{}", a.said());
    members.check();
}

#[test]
fn a_failing_command_is_restarted_and_disturbs_no_other() {
    let members = Members(Scene::new(TENURE));
    let script = format!(r#"[ "$TENURE_PARTITION" = 1 ] && echo x >> tries && exit 3; {WORK}"#);
    let mut a = members.start("a", &["--validity", "3s"], &script);
    members.own(&[("a", 5)]);
    eventually("it is started again", || {
        fs::read_to_string(members.0.path("tries")).is_ok_and(|tries| tries.lines().count() >= 3)
    });
    a.says("CMD ended with exit code 3");
    assert_eq!(members.grants().len(), 5, "the others were granted once");
    a.signal(Signal::SIGTERM);
    assert_eq!(a.code(), 0);
    members.check();
}

#[test]
fn sighup_is_passed_on_and_a_second_sigterm_kills() {
    let members = Members(Scene::new(TENURE));
    let script = r#"
        trap 'echo "$TENURE_PARTITION" >> hup' HUP
        trap 'echo "$TENURE_PARTITION" >> term' TERM
        echo "$TENURE_PARTITION" >> ready
        while :; do sleep 0.02; done"#;
    let lines = |file: &str| {
        fs::read_to_string(members.0.path(file)).map_or(0, |text| text.lines().count())
    };
    // The grace of these sessions alone would take 10 s.
    let mut a = members.start("a", &["--validity", "60s", "--poll", "100ms"], script);
    eventually("all are ready", || lines("ready") == 6);
    a.signal(Signal::SIGHUP);
    eventually("all have received it", || lines("hup") == 6);
    a.signal(Signal::SIGTERM);
    eventually("all have received it", || lines("term") == 6);
    a.signal(Signal::SIGTERM);
    assert_eq!(a.code(), 0, "{}", a.said());
    assert!(a.said().contains("SIGTERM again"), "{}", a.said());
    assert_eq!((lines("hup"), lines("term")), (6, 6));
}

/// Processes of a killed guard and standby may still run, so the partition is not released.
#[test]
fn nothing_is_released_after_a_guard_and_its_standby_are_killed() {
    let members = Members(Scene::new(TENURE));
    let mut a = members.start("a", &[], WORK);
    members.own(&[("a", 6)]);
    let standby = a.standby();
    kill_at_once([guard_of(standby).expect("it has a guard"), standby]);
    assert_eq!(a.code(), 71, "{}", a.said());
    assert!(a.said().contains("may still run"), "{}", a.said());
    eventually("all others are dead", || members.owned_by("a").is_empty());
    let url = members.0.url();
    let session = fs::read_dir(members.0.path("store/members")).expect("a folder").flatten();
    let bodies = session.map(|entry| fs::read_to_string(entry.path().join("lock.json")));
    let bodies: Vec<_> = bodies.map(|body| body.expect("a session")).collect();
    assert!(!bodies.iter().any(|body| body.contains("resigned")), "{url}: {bodies:?}");
}
