//! Tests that clients of two older sidecars work with this sidecar. The clients follow the
//! documentation of the older sidecars: the Kubernetes blog of January 2016 ("Simple leader
//! election with Kubernetes and Docker") and docs.nais.io ("Leader election").

use super::client::{Sidecar, sidecar};
use super::{kill, leader_and_follower};
use crate::TENURE;
use tenure_testkit::command::eventually;
use tenure_testkit::command::scene::Scene;

/// Reads the leader as the Node.js application of the blog does. This application expects that the
/// body of `GET /` is one JSON object with the field `name`.
fn node_js_is_master(sidecar: &Sidecar, hostname: &str) -> bool {
    let (status, body) = sidecar.ask("GET", "/", "");
    assert_eq!(status, 200, "{body}");
    let data: serde_json::Value = serde_json::from_str(&body).expect("JSON");
    data["name"].as_str().expect("a name is a string") == hostname
}

/// Asks the sidecar for the leader as the Java class on docs.nais.io does at `ELECTOR_GET_URL`.
fn nais_is_leader(sidecar: &Sidecar, hostname: &str) -> bool {
    let (_, leader) = sidecar.get("/");
    let updated = leader["last_update"].as_str().expect("a time of day");
    let is_rfc_3339 = updated.len() == 20 && updated.ends_with('Z') && &updated[10..11] == "T";
    assert!(is_rfc_3339, "{updated}");
    leader["name"].as_str().expect("a name is a string") == hostname
}

#[test]
fn clients_of_older_sidecars_find_one_leader() {
    let scene = Scene::new(TENURE);
    let (a, b) = leader_and_follower(&scene, &["--poll", "100ms"]);
    for is_leader in [node_js_is_master, nais_is_leader] {
        assert!(is_leader(&a, "a") && !is_leader(&b, "b"));
        assert!(is_leader(&b, "a"), "b names a");
    }
    // On the platform nais, the variable `ELECTOR_SSE_URL` contains this path.
    let events = b.events("/sse");
    eventually("the first event shows the state", || !events.all().is_empty());
    assert_eq!(a.json("POST", "/v1/elections/orders/resign", r#"{"pause_ms":600000}"#).0, 200);
    eventually("b leads according to its sidecar", || node_js_is_master(&b, "b"));
    eventually("a change is an event", || {
        events.all().last().is_some_and(|(_, leader)| leader["name"] == "b")
    });
    let all = events.all();
    assert!(all.iter().all(|(name, _)| name.is_empty()), "events without names: {all:?}");
    assert_eq!(all[0].1["name"], "a");
    assert!(all[0].1["last_update"].is_string(), "{all:?}");
    assert!(!nais_is_leader(&a, "a"));
}

/// A client of an older sidecar compares only the leader's name with its own name. The restarted
/// sidecar has the name of its dead predecessor. If the sidecar reported the predecessor as the
/// leader, the client would act as the leader.
#[test]
fn a_restarted_sidecar_is_not_the_leader_of_its_old_epoch() {
    let scene = Scene::new(TENURE);
    let mut a = sidecar(&scene, "a", &[]);
    a.leads();
    kill(&mut a.process);
    let again = sidecar(&scene, "a", &["--poll", "100ms"]);
    eventually("the sidecar follows its former process", || {
        let view = again.view();
        view["this_candidate_leads"] == true || view["leader"] == "a"
    });
    let view = again.view();
    if view["this_candidate_leads"] == false {
        assert!(!node_js_is_master(&again, "a") || again.view()["this_candidate_leads"] == true);
    }
    again.leads();
    assert!(node_js_is_master(&again, "a"));
}
