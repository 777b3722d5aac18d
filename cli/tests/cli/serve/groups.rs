//! Tests of sidecars as members of groups. The applications of the sidecars own partitions over
//! HTTP.

use std::collections::BTreeMap;

use nix::sys::signal::Signal;
use serde_json::{Value, json};

use super::client::{self, Sidecar, member};
use crate::TENURE;
use tenure_testkit::command::eventually;
use tenure_testkit::command::scene::Scene;

const GROUP: &str = "/v1/groups/orders";

impl Sidecar {
    fn group(&self) -> Value {
        let (status, view) = self.get(GROUP);
        assert_eq!(status, 200, "{view}");
        view
    }

    /// Returns the valid token of each owned partition.
    fn tokens(&self) -> BTreeMap<String, u64> {
        let names = (0..6).map(|number| number.to_string());
        let token = |name: String| {
            let (status, reply) = self.get(&format!("{GROUP}/partitions/{name}/token"));
            (status == 200).then(|| (name, reply["token"].as_u64().expect("a number")))
        };
        names.filter_map(token).collect()
    }

    /// Returns the names of the owned partitions whose field `revoked` has this value.
    fn names(&self, revoked: bool) -> Vec<String> {
        let view = self.group();
        let all = view["partitions"].as_array().expect("a list").iter();
        let names = all.filter(|it| it["revoked"] == revoked);
        names.map(|it| it["partition"].as_str().expect("a name").to_owned()).collect()
    }

    fn release(&self, partition: &str, query: &str, body: &str) -> (u16, Value) {
        self.json("POST", &format!("{GROUP}/partitions/{partition}/release{query}"), body)
    }

    /// Releases revoked partitions, like an application that stops its work immediately.
    fn release_revoked(&self) {
        for name in self.names(true) {
            assert_eq!(self.release(&name, "", "").0, 200);
        }
    }
}

/// Asserts that no two members have a valid token for one partition at the same time. The test asks
/// the members one after another, and a partition may move between two answers. So if two members
/// report a token for one partition, the test asks the first of them again.
fn one_owner(all: &[&Sidecar]) {
    let owned: Vec<_> = all.iter().map(|sidecar| sidecar.tokens()).collect();
    for (at, one) in owned.iter().enumerate() {
        for (name, token) in one {
            for other in owned[at + 1..].iter().filter_map(|other| other.get(name)) {
                let still = all[at].tokens().get(name) == Some(token);
                assert!(!still, "{name} is owned with {token} and with {other}");
            }
        }
    }
}

/// Waits until each member has as many tokens as its element of `counts`. Meanwhile the
/// applications release revoked partitions.
fn settles(all: &[&Sidecar], counts: &[usize]) {
    eventually(&format!("they own {counts:?}"), || {
        one_owner(all);
        all.iter().for_each(|sidecar| sidecar.release_revoked());
        all.iter().map(|sidecar| sidecar.tokens().len()).eq(counts.iter().copied())
    });
}

#[test]
fn partitions_are_shared_by_applications_that_release_them() {
    let scene = Scene::new(TENURE);
    let a = member(&scene, "a", &["--data", r#"{"address":"10.0.0.1"}"#]);
    settles(&[&a], &[6]);
    let before = a.tokens();
    let at_a = a.events(&format!("{GROUP}/events"));
    let b = member(&scene, "b", &[]);
    let at_b = b.events(&format!("{GROUP}/events"));
    settles(&[&a, &b], &[3, 3]);
    let after = b.tokens();
    assert!(after.iter().all(|(name, token)| token > &before[name]), "{before:?} {after:?}");
    // Member a got a revocation and a loss for each partition that moved, and member b got a grant.
    for name in after.keys() {
        let of = |events: &client::Events| -> Vec<(String, Value)> {
            let all = events.all().into_iter();
            all.filter(|(_, it)| it["partition"]["partition"] == **name).collect()
        };
        let said = of(&at_a);
        let names: Vec<_> = said.iter().map(|(event, _)| &**event).collect();
        assert_eq!(names, ["granted", "revoked", "lost"], "{name}");
        let lost = &said[2].1["partition"];
        assert_eq!(lost["reason"], "released");
        assert_eq!(lost["token"], before[name]);
        let granted = of(&at_b);
        assert_eq!((granted.len(), &*granted[0].0), (1, "granted"), "{name}");
        assert_eq!(granted[0].1["partition"]["token"], after[name]);
    }
    let c = member(&scene, "c", &[]);
    settles(&[&a, &b, &c], &[2, 2, 2]);
    // A client reads all owners of partitions from the cache of a member. The sidecar sends no
    // request to the store.
    let (status, seen) = c.get(&format!("{GROUP}/assignment"));
    assert_eq!(status, 200, "{seen}");
    let of_a = seen["members"].as_array().expect("a list").iter().find(|it| it["name"] == "a");
    assert_eq!(of_a.expect("a member")["data"]["address"], "10.0.0.1");
    assert!(seen["store_answered_ms_ago"].is_u64(), "{seen}");
    let owned = seen["partitions"].as_array().expect("a list").iter();
    assert_eq!(owned.filter(|it| it["owner"] == "c").count(), 2, "{seen}");
}

#[test]
fn the_state_of_a_member_lists_its_partitions() {
    let scene = Scene::new(TENURE);
    let a = member(&scene, "a", &["--partitions", "orders=a/b,17"]);
    eventually("the member owns both partitions", || a.names(false).len() == 2);
    let view = a.group();
    let session = view["session"].as_str().expect("a session");
    assert_eq!(
        (&view["role"], &view["member"], &view["group"], session.len()),
        (&"member".into(), &"a".into(), &"orders".into(), 32)
    );
    assert!(view["lease_remaining_ms"].as_u64().is_some_and(|left| left <= 9_500), "{view}");
    assert!(view["store_answered_ms_ago"].is_u64() && view["lost"].is_null(), "{view}");
    let first = &view["partitions"][0];
    assert_eq!((&first["partition"], &first["number"]), (&"a/b".into(), &0.into()));
    let (status, list) = a.get("/v1/groups");
    assert_eq!((status, &list["groups"][0]["group"]), (200, &"orders".into()), "{list}");
    assert_eq!(a.get("/v1/elections"), (200, json!({ "elections": [] })));
    assert_eq!(a.get("/").1["code"], "no_such_election");
    // The URL has the name of the partition `a/b` in escaped form.
    let (status, token) = a.get(&format!("{GROUP}/partitions/a%2Fb/token"));
    assert_eq!((status, &token["token"]), (200, &first["token"]), "{token}");
    assert_eq!(token["revoked"], false);
    let (status, none) = a.get(&format!("{GROUP}/partitions/18/token"));
    assert_eq!((status, &none["code"]), (503, &"not_owned".into()), "{none}");
    assert_eq!(a.ask("HEAD", &format!("{GROUP}/partitions/17/token"), "").0, 200);
    assert_eq!(a.get("/v1/groups/others").1["code"], "no_such_group");
    for path in ["/v1/groups/", "/v1/groups/orders/partitions/a/b/token", "/v1/groupsorders"] {
        assert_eq!(a.get(path).0, 404, "{path}");
    }
    assert_eq!(a.json("POST", GROUP, "").1["code"], "method_not_allowed");
    assert_eq!(a.json("GET", &format!("{GROUP}/leave"), "").0, 405);
    // The first event of a stream is the current state of the member.
    let events = a.events(&format!("{GROUP}/events"));
    events.wait_for("role_changed", 0);
    assert_eq!(events.names(), ["granted", "granted", "role_changed"]);
    assert_eq!(events.all()[2].1["session"], session);
}

/// Requests arrive while the sidecar is suspended (SIGSTOP) and another member owns its partitions.
/// After the sidecar continues, it must read the clock and detect the end of its lease before it
/// replies.
#[test]
fn a_stopped_sidecar_has_no_tokens_of_moved_partitions() {
    let scene = Scene::new(TENURE);
    let options = ["--validity", "3s"];
    let (a, b) = (member(&scene, "a", &options), member(&scene, "b", &options));
    settles(&[&a, &b], &[3, 3]);
    let before = a.tokens();
    a.process.stop();
    settles(&[&b], &[6]);
    // While the sidecar is suspended, the kernel accepts these connections, and the requests wait.
    let ask = |name: &String| a.begin("GET", &format!("{GROUP}/partitions/{name}/token"), "");
    let waiting: Vec<_> = before.keys().map(|name| (name, ask(name))).collect();
    a.process.signal(Signal::SIGCONT);
    for (name, asked) in waiting {
        let (status, said) = client::parse(&client::rest(asked));
        let said: Value = serde_json::from_str(&said).expect("JSON");
        // On a slow machine, the sidecar may own the partition again before it replies. The token
        // is then greater.
        assert!(status == 503 || said["token"].as_u64() > Some(before[name]), "{status} {said}");
    }
    eventually("the reply has the reason", || {
        let lost = a.group()["lost"]["reason"].clone();
        ["lease_ended", "not_renewed", "suspended", "sealed"].iter().any(|known| lost == *known)
    });
}

#[test]
fn one_process_serves_elections_and_groups() {
    let scene = Scene::new(TENURE);
    let url = format!("orders=file://{}", scene.path("election").display());
    let options = ["--election", &url, "--health-addr", "127.0.0.1:0"];
    let a = member(&scene, "a", &options);
    a.leads();
    settles(&[&a], &[6]);
    let probes = a.address_after("serving health at http://");
    let probe = |path: &str| client::ask_at(&probes, "GET", path, "").0;
    assert_eq!((probe("/livez"), probe("/readyz")), (200, 200));
    assert_eq!(a.json("POST", "/v1/elections/orders/resign", "").0, 200);
    assert_eq!(a.tokens().len(), 6);
}
