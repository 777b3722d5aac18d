//! Tests of `tenure group` on a directory. A member in the process of the test uses the same
//! directory.

mod depose;
mod elsewhere;
mod gone;
mod history;
mod restore;
mod scripts;

use std::io::{BufRead as _, BufReader};
use std::sync::Arc;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};
use tenure::store::DirStore;
use tenure_groups::{Group, Membership, MembershipEvent};
use tokio::runtime::{self, Runtime};

use crate::bench::{Bench, Said, command, spawn, tenure};
use tenure_testkit::command::{ended, eventually, with_deadline};

/// A bench for the command, and a member in this process that uses the same store.
struct Scene {
    bench: Bench,
    runtime: Runtime,
    membership: Option<Membership>,
}

impl Scene {
    /// Creates a group with this number of partitions and one member. Waits until the member owns
    /// all partitions.
    fn new(name: &str, partitions: u32) -> Scene {
        Scene::with_validity(name, partitions, Duration::from_secs(30))
    }

    fn with_validity(name: &str, partitions: u32, validity: Duration) -> Scene {
        let bench = Bench::new();
        let runtime = runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let runtime = runtime.expect("a runtime");
        let mut scene = Scene { bench, runtime, membership: None };
        scene.join(name, partitions, validity);
        eventually("the member owns all partitions", || {
            let all = scene.status();
            let all = all["partitions"].as_array().expect("a list");
            !all.is_empty() && all.iter().all(|it| it["owner"] == name)
        });
        scene
    }

    fn join(&mut self, name: &str, partitions: u32, validity: Duration) {
        let store = DirStore::open(self.bench.path("store")).expect("a directory");
        let group = Group::builder(Arc::new(store), "")
            .name(name)
            .partitions(0..partitions)
            .data(json!({"at": "10.0.0.7"}))
            // With a long validity, the member's session survives the pauses of a busy machine.
            .validity(validity)
            .poll_interval(Duration::from_millis(50))
            .rebalance_delay(Duration::ZERO)
            .build()
            .expect("the settings are valid");
        self.membership = Some(self.runtime.block_on(group.join()).expect("the member joins"));
    }

    /// Makes the member leave, and reserves its partitions for an hour. Then another member joins,
    /// and writes the next assignment.
    fn leave_for_an_hour(&mut self) {
        let mut left = self.membership.take().expect("a member");
        left.leave_for(Duration::from_secs(3_600));
        self.runtime.block_on(async {
            while let Some(event) = left.next().await {
                if let MembershipEvent::Granted(partition) = event {
                    partition.release();
                }
            }
        });
        self.join("w2", 0, Duration::from_secs(30));
    }

    fn run(&self, verb: &str, options: &[&str]) -> Said {
        let url = self.bench.url();
        tenure(&[&["group", verb, "--store", &url], options].concat())
    }

    fn json(&self, verb: &str, options: &[&str]) -> Value {
        let said = self.run(verb, &[options, &["--json"]].concat());
        assert_eq!((said.code, said.err.as_str()), (0, ""), "{said:?}");
        serde_json::from_str(&said.out).expect("the output is one JSON object")
    }

    fn status(&self) -> Value {
        self.json("status", &[])
    }

    /// Runs a verb of `tenure group`, and asserts that it prints this line.
    #[track_caller]
    fn prints(&self, verb: &str, options: &[&str], line: &str) {
        let said = self.run(verb, options);
        assert_eq!((said.code, said.out), (0, format!("{line}\n")), "{}", said.err);
    }

    /// Drops the member. The assignment still names this member as the owner of its partitions,
    /// because no other member exists that could write a new assignment.
    fn lose_the_member(&mut self) {
        let _inside = self.runtime.enter();
        drop(self.membership.take());
    }
}

const NOTHING: &str = "nothing was changed: the group has this state already";

#[test]
fn status_shows_members_and_partitions() {
    let scene = Scene::new("w\u{202e}1", 3);
    let mut status = scene.status();
    let epoch = status["epoch"].as_u64().expect("a number");
    assert_eq!(status["unattended"], 0);
    let age = status["members"][0]["age_ms"].take();
    assert!(age.as_u64().is_some_and(|age| age < 30_000), "{age}");
    let member = &status["members"][0];
    let session = member["session"].as_str().expect("text");
    assert_eq!(
        *member,
        json!({
            "name": "w\u{202e}1", "session": session, "weight": 1, "validity_ms": 30000,
            "partitions": 3, "coordinates": true, "data": {"at": "10.0.0.7"},
            "session_state": "live", "age_ms": null,
        })
    );
    let token = status["partitions"][1]["token"].as_u64().expect("a number");
    assert_eq!(
        status["partitions"][1],
        json!({
            "number": 1, "name": "1", "owner": "w\u{202e}1", "owner_session": session,
            "token": token, "target": null, "target_session": null, "pinned": null,
            "barred": null, "paused": false, "retiring": false, "reserved_for": null,
        })
    );
    let said = scene.run("status", &["--partitions"]);
    let first = &session[..8];
    let age = said.out.split("  live   ").nth(1).and_then(|text| text.split("  ").next());
    let age = age.expect("the status shows the age of the session");
    let expected = format!(
        "epoch      {epoch}\n\
         partitions 3; all are owned\n\
         \n\
         member      session   state  age  weight  owns  coordinator  data\n\
         w\\u{{202e}}1  {first}  live   {age:<3}  1       3     yes          {{\"at\":\"10.0.0.7\"}}\n\
         \n\
         partition  owner       token  target  marks\n\
         0          w\\u{{202e}}1  {token:<5}  -\n\
         1          w\\u{{202e}}1  {token:<5}  -\n\
         2          w\\u{{202e}}1  {token:<5}  -\n"
    );
    assert_eq!((said.code, said.out), (0, expected.clone()));
    assert!(!scene.run("status", &[]).out.contains("marks"));
    let url = scene.bench.url();
    let line = ["group", "status", "--partitions", "--store", &url];
    let coloured = command(&line).env("CLICOLOR_FORCE", "1").output().expect("the command runs");
    let coloured = crate::bench::said(coloured).out;
    assert!(coloured.contains("\u{1b}[1mw\\u{202e}1\u{1b}[0m"), "{coloured:?}");
    assert_eq!(anstream::adapter::strip_str(&coloured).to_string(), expected);
}

#[test]
fn operators_mark_partitions_and_see_the_changes() {
    let mut scene = Scene::new("w1", 3);
    scene.lose_the_member();
    scene.prints("pause", &["0..2"], "2 partitions paused: 0, 1");
    scene.prints("pause", &["1,0"], NOTHING);
    scene.prints("resume", &["0..3"], "2 partitions resumed: 0, 1");
    scene.prints("pin", &["2", "--to", "w1"], "1 partition pinned to w1: 2");
    scene.prints("pin", &["2", "--to", "w1"], NOTHING);
    scene.prints("bar", &["0,2", "--from", "w\n2"], "2 partitions barred from w\\n2: 0, 2");
    let marks = scene.run("status", &["--partitions"]);
    assert!(marks.out.contains("pinned to w1, barred from w\\n2\n"), "{marks:?}");
    scene.prints("pin", &["0..3", "--any"], "1 partition unpinned: 2");
    scene.prints("bar", &["0..3", "--any"], "2 partitions no longer barred: 0, 2");
    let report = scene.json("pause", &["1"]);
    let epoch = scene.status()["epoch"].clone();
    assert_eq!((&report["outcome"], &report["epoch"]), (&json!("changed"), &epoch));
    assert_eq!(report["partitions"], json!([scene.status()["partitions"][1]]));
    let again = json!({"outcome": "already", "epoch": epoch, "partitions": []});
    assert_eq!(scene.json("pause", &["1"]), again);
    scene.prints(
        "resize",
        &["--partitions", "1..5"],
        "2 partitions added: 3, 4\n1 partition retired: 0",
    );
    let again = scene.run("resize", &["--partitions", "0..5"]);
    again.fails(73, &["partition 0 is retiring", "nothing was changed"]);
    scene.prints("retire", &["4"], "1 partition retired: 4");
    scene.prints("retire", &["0,4"], NOTHING);
}

/// Before the fix, a partition pinned to a mistyped name lost its owner without a warning.
#[test]
fn regression_a_pin_to_an_absent_member_is_reported() {
    let mut scene = Scene::new("w1", 2);
    let said = scene.run("pin", &["1", "--to", "w\n1"]);
    let warning = "tenure: no member is named w\\n1: the partitions have no owner until such a \
                   member joins\n";
    assert_eq!((said.code, said.err.as_str()), (0, warning));
    let said = scene.run("pin", &["1", "--to", "w1"]);
    assert_eq!((said.code, said.err.as_str()), (0, ""));
    // The owner w1 does not release the partition.
    let first = scene.membership.take();
    scene.join("w2", 0, Duration::from_secs(30));
    let members = || scene.status()["members"].as_array().map(Vec::len);
    eventually("the assignment names w2", || members() == Some(2));
    let line = "1 partition pinned to w2: 0; a move takes about two polls after the owner's work \
                has stopped";
    scene.prints("pin", &["0", "--to", "w2"], line);
    let _inside = scene.runtime.enter();
    drop(first);
}

/// Reserved partitions may have no owner until the reservation ends. Before the fix, no command
/// could end a reservation earlier.
#[test]
fn regression_an_operator_ends_reservations() {
    let mut scene = Scene::new("w1", 3);
    scene.prints("unreserve", &["0..3"], NOTHING);
    scene.leave_for_an_hour();
    eventually("the partitions are reserved", || {
        scene.status()["partitions"][0]["reserved_for"] == "w1"
    });
    let status = scene.run("status", &["--partitions"]);
    assert!(status.out.contains("reserved for w1\n"), "{status:?}");
    let line = "2 partitions no longer reserved: 0, 2";
    scene.prints("unreserve", &["0,2"], line);
    assert_eq!(scene.status()["partitions"][0]["reserved_for"], Value::Null);
    eventually("another member owns the partitions", || {
        scene.status()["partitions"][2]["owner"] == "w2"
    });
    scene.prints("unreserve", &["0,2"], NOTHING);
    scene.run("unreserve", &["7"]).fails(73, &["no partition 7", "nothing was changed"]);
}

/// Before the fix, if an argument such as `1,1` repeated a partition, the output of `group pin` and
/// similar verbs counted and listed this partition twice.
#[test]
fn regression_a_repeated_partition_is_counted_once() {
    let scene = Scene::new("worker-7", 2);
    scene.prints("pause", &["1,1"], "1 partition paused: 1");
    let resumed = scene.json("resume", &["1,0,1"]);
    assert_eq!(resumed["partitions"].as_array().map(Vec::len), Some(1), "{resumed}");
}

#[test]
fn a_live_group_follows_its_operators() {
    let scene = Scene::new("w1", 2);
    assert_eq!(scene.run("resize", &["--partitions", "0..12"]).code, 0);
    eventually("the member owns the added partitions", || {
        let status = scene.status();
        status["members"][0]["partitions"] == 12
    });
    let long = scene.run("bar", &["0..12", "--from", "w2"]);
    let line = "12 partitions barred from w2: 0, 1, 2, 3, 4, 5, 6, 7, 8, 9 and 2 more\n";
    assert_eq!((long.code, long.out.as_str()), (0, line));
}

#[test]
fn verbs_on_a_missing_group_are_refused() {
    let bench = Bench::new();
    let url = bench.url();
    let group =
        |line: &[&str]| tenure(&[&["group", line[0], "--store", &url], &line[1..]].concat());
    let status = group(&["status"]);
    let line = "state      no group yet: its first member creates it\n";
    assert_eq!((status.code, status.out.as_str()), (0, line));
    let status = group(&["status", "--json"]);
    assert_eq!(status.out, "{\"epoch\":null,\"members\":[],\"partitions\":[],\"unattended\":0}\n");
    group(&["pause", "0"]).fails(73, &["no group at", &url]);
    group(&["resize", "--partitions", "0..4"]).fails(73, &["no group at", &url]);
    assert_eq!(bench.objects(), [""; 0]);
    for wrong in [
        &["pin", "0"][..],
        &["bar", "0"],
        &["pin", "0", "--to", "a", "--any"],
        &["pause", ""],
        &["pause"],
        &["resize", "--partitions", "4..4"],
    ] {
        let said = group(wrong);
        assert_eq!((said.code, said.out.as_str()), (64, ""), "{said:?}");
    }
    assert!(group(&["pin", "0"]).err.contains("<--to <MEMBER>|--any>"));
    let scene = Scene::new("w1", 1);
    scene.run("retire", &["0,7"]).fails(73, &["no partition 7", "nothing was changed"]);
    scene.run("resize", &["--partitions", "a,a"]).fails(64, &["two partitions", "\"a\""]);
    let store = format!("{url}/none");
    tenure(&["group", "status", "--store", &store])
        .fails(69, &["the directory does not exist; the first member"]);
}

#[test]
fn regression_watch_ends_when_its_reader_closes_the_pipe() {
    let scene = Scene::new("w1", 1);
    let mut child = spawn(&[], &["group", "watch", "--store", &scene.bench.url()]);
    let mut out = BufReader::new(child.stdout.take().expect("the output is a pipe"));
    let mut line = String::new();
    with_deadline(child.id(), || out.read_line(&mut line)).expect("text");
    assert!(line.contains("Z  0  - -> w1  token "), "{line:?}");
    // The group does not change, so the watch prints no more lines. Even so, the watch must notice
    // the closed pipe.
    drop(out);
    assert_eq!(ended(&mut child).code(), Some(0));
}

#[test]
fn watch_prints_the_owners_and_then_each_change() {
    let scene = Scene::new("w1", 2);
    let url = scene.bench.url();
    for json in [true, false] {
        let line = ["group", "watch", "--store", &url, "--poll", "50ms"];
        let mut child = spawn(&[], &[&line[..], if json { &["--json"] } else { &[] }].concat());
        let id = child.id();
        let mut out = BufReader::new(child.stdout.take().expect("the output is a pipe"));
        let mut next = || {
            let mut text = String::new();
            with_deadline(id, || out.read_line(&mut text)).expect("text");
            text
        };
        let first = [next(), next()];
        if json {
            let first = first.map(|line| serde_json::from_str::<Value>(&line).expect("JSON"));
            let of = |line: &Value| {
                [line["partition"].clone(), line["from"].clone(), line["to"].clone()]
            };
            assert_eq!(of(&first[0]), [json!("0"), json!(null), json!("w1")]);
            assert_eq!(of(&first[1]), [json!("1"), json!(null), json!("w1")]);
            assert!(first[0]["token"].is_u64() && first[0]["to_session"].is_string());
        } else {
            assert!(first[0].contains("Z  0  - -> w1  token "), "{first:?}");
            assert!(first[1].contains("Z  1  - -> w1  token "), "{first:?}");
            assert_eq!(scene.run("resize", &["--partitions", "0..3"]).code, 0);
            let granted = next();
            assert!(granted.contains("Z  2  - -> w1  token "), "{granted:?}");
        }
        kill(Pid::from_raw(id.cast_signed()), Signal::SIGTERM).expect("the command runs");
        assert_eq!(ended(&mut child).code(), Some(0));
    }
}
