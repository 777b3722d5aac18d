//! Tests of `tenure group depose` on a directory. Members in the process of the test use the same
//! directory.

use std::fs::File;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use serde_json::{Value, json};
use tenure::store::DirStore;
use tenure_groups::{Group, Membership, MembershipEvent};
use tokio::runtime::{self, Runtime};

use crate::bench::{Bench, Said, tenure};
use tenure_testkit::command::{eventually, pause};

/// A validity much longer than any pause of a busy machine.
const VALIDITY: Duration = Duration::from_secs(20);

struct Scene {
    bench: Bench,
    runtime: Runtime,
}

impl Scene {
    fn new() -> Scene {
        let runtime = runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
        Scene { bench: Bench::new(), runtime: runtime.expect("a runtime") }
    }

    /// Starts a member that never releases its partitions.
    fn join(&self, name: &str) -> Membership {
        let store = DirStore::open(self.bench.path("store")).expect("a directory");
        let group = Group::builder(Arc::new(store), "")
            .name(name)
            .partitions(0..3)
            .validity(VALIDITY)
            .poll_interval(Duration::from_millis(50))
            .rebalance_delay(Duration::ZERO)
            .build();
        let group = group.expect("the settings are valid");
        self.runtime.block_on(group.join()).expect("the member joins")
    }

    fn group(&self, verb: &str, options: &[&str]) -> Said {
        let url = self.bench.url();
        tenure(&[&["group", verb, "--store", &url], options].concat())
    }

    fn status(&self) -> Value {
        let said = self.group("status", &["--json"]);
        serde_json::from_str(&said.out).expect("the output is one JSON object")
    }

    fn members(&self, name: &str) -> Vec<Value> {
        let status = self.status();
        let all = status["members"].as_array().expect("a list").iter();
        all.filter(|it| it["name"] == name).cloned().collect()
    }

    fn session(&self, name: &str) -> String {
        self.members(name)[0]["session"].as_str().expect("text").to_owned()
    }
}

#[test]
fn the_partitions_of_a_deposed_member_move_after_its_lease() {
    let scene = Scene::new();
    let _w1 = scene.join("w1");
    eventually("w1 owns all", || scene.members("w1").iter().any(|it| it["partitions"] == 3));
    let mut w2 = scene.join("w2");
    eventually("w2 is a member", || scene.members("w2").len() == 1);
    let session = scene.session("w2");
    let said = scene.group("depose", &["w2", "--name", "operator"]);
    let line = format!("deposed w2 (session {}), which owns no partition\n", &session[..8]);
    assert_eq!((said.code, said.out), (0, line), "{}", said.err);
    let again = scene.group("depose", &["w2"]);
    let line =
        format!("the session of w2 (session {}) has ended already: deposed\n", &session[..8]);
    assert_eq!((again.code, again.out), (0, line), "{}", again.err);
    let lost = scene.runtime.block_on(async {
        loop {
            match w2.next().await {
                Some(MembershipEvent::Lost(loss)) => return format!("{loss:?}"),
                Some(_) => {}
                None => panic!("the member reports its loss"),
            }
        }
    });
    assert!(lost.contains("Sealed"), "{lost}");
    let body = scene.bench.path("store").join(format!("members/{session}/lock.json"));
    let body = std::fs::read_to_string(body).expect("a file");
    for field in [r#""ended": "deposed""#, r#""sealed_by": "operator""#] {
        assert!(body.contains(field), "{field} is not in {body}");
    }
    eventually("the coordinator removes the session after its lapse", || {
        // The coordinator waits for the whole validity of 20 s, and each poll starts a process. So
        // pause between the polls, to start fewer processes.
        pause(200);
        scene.members("w2").is_empty()
    });
}

#[test]
fn regression_tenure_depose_keeps_the_field_seen_of_a_session() {
    let scene = Scene::new();
    let _w1 = scene.join("w1");
    eventually("w1 is a member", || scene.members("w1").len() == 1);
    let session = format!("members/{}", scene.session("w1"));
    let body = || {
        let path = scene.bench.path("store").join(&session).join("lock.json");
        std::fs::read_to_string(path).expect("a file")
    };
    eventually("the session shows an assignment", || body().contains(r#""seen": "#));
    let url = format!("{}/{session}", scene.bench.url());
    let said = tenure(&["depose", "--layout", "single-object", "--store", &url]);
    assert_eq!(said.code, 0, "{}", said.err);
    let sealed = body();
    assert!(sealed.contains(r#""ended": "deposed""#) && sealed.contains(r#""seen": "#), "{sealed}");
}

#[test]
fn a_dead_member_is_deposed_without_a_wait() {
    let scene = Scene::new();
    let w1 = scene.join("w1");
    eventually("w1 owns all", || scene.members("w1").iter().any(|it| it["partitions"] == 3));
    let _w2 = scene.join("w2");
    eventually("w2 is a member", || scene.members("w2").len() == 1);
    let w1_session = scene.session("w1");
    let inside = scene.runtime.enter();
    drop(w1);
    drop(inside);
    let said = scene.group("depose", &[&w1_session[..8], "--json"]);
    let report: Value = serde_json::from_str(&said.out).expect("the output is one JSON object");
    assert_eq!(
        report,
        json!({
            "outcome": "deposed", "member": "w1", "session": w1_session, "ended": "deposed",
            "partitions": 3, "wait_ms": 20_200,
        })
    );
    let said = scene.group("depose", &["w1", "--force"]);
    let line = format!(
        "deposed w1 (session {}); its 3 partitions move once the coordinator sees the seal\n",
        &w1_session[..8]
    );
    assert_eq!((said.code, said.out), (0, line), "{}", said.err);
    let before = tenure_testkit::command::now().boot;
    eventually("w2 owns all", || scene.members("w2").iter().any(|it| it["partitions"] == 3));
    let took = tenure_testkit::command::now().boot.saturating_sub(before);
    assert!(took < VALIDITY, "{took:?}");
}

/// Before the fix, the command deposed the live member, although the operator may have meant the
/// dead member of the same name.
#[test]
fn regression_the_name_of_a_dead_and_a_live_member_is_ambiguous() {
    let scene = Scene::new();
    let [dead, _living] = [scene.join("w1"), scene.join("w1")];
    eventually("the two are members", || scene.members("w1").len() == 2);
    let file = scene.bench.path("store").join(format!("members/{}/lock.json", dead.session()));
    let inside = scene.runtime.enter();
    drop(dead);
    drop(inside);
    eventually("its session has lapsed", || {
        let file = File::options().write(true).open(&file).expect("the session object exists");
        file.set_modified(SystemTime::UNIX_EPOCH).expect("the file belongs to this user");
        scene.members("w1").iter().any(|it| it["session_state"] == "lapsed")
    });
    scene.group("depose", &["w1"]).fails(73, &["w1 is ambiguous", "nothing was changed"]);
}

#[test]
fn an_ambiguous_or_unknown_member_is_not_deposed() {
    let scene = Scene::new();
    let url = scene.bench.url();
    scene.group("depose", &["w1"]).fails(73, &["no group at", &url]);
    let _members = [scene.join("w1"), scene.join("w1"), scene.join("w\u{202e}2")];
    eventually("all are members", || {
        scene.status()["members"].as_array().is_some_and(|members| members.len() == 3)
    });
    let sessions: Vec<_> = scene
        .members("w1")
        .iter()
        .map(|it| it["session"].as_str().expect("text").to_owned())
        .collect();
    let both = sessions.iter().map(|it| format!("w1 (session {})", &it[..8]));
    let both: Vec<_> = both.collect();
    let said = scene.group("depose", &["w1"]);
    said.fails(73, &["w1 is ambiguous", &both[0], &both[1], "nothing was changed"]);
    scene.group("depose", &["w3"]).fails(73, &["no member w3", &both[0], "w\\u{202e}2 (session "]);
    // A prefix of a session id must have at least eight characters.
    scene.group("depose", &[&sessions[0][..7]]).fails(73, &["no member"]);
    let said = scene.group("depose", &[&sessions[0]]);
    assert_eq!(said.code, 0, "{said:?}");
    // The session of the first member has ended, so only one live member has the name `w1`.
    let said = scene.group("depose", &["w1", "--json"]);
    let report: Value = serde_json::from_str(&said.out).expect("the output is one JSON object");
    assert_eq!(report["session"], *sessions[1], "{}", said.err);
    assert_eq!(scene.group("depose", &[]).code, 64);
    assert_eq!(scene.group("depose", &[""]).code, 64);
    let key = format!("members/{}/lock.json", sessions[0]);
    std::fs::remove_file(scene.bench.path("store").join(key)).expect("the session object existed");
    let said = scene.group("depose", &[&sessions[0]]);
    if scene.members("w1").iter().any(|it| it["session"] == *sessions[0]) {
        said.fails(73, &[&both[0], "is gone"]);
    }
}
