//! Tests of `tenure serve` with the requests of an application.

mod access;
mod app_health;
pub mod client;
mod ending;
mod events;
mod groups;
mod openapi;
mod shapes;
mod usage;

use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::TENURE;
use client::{Sidecar, sidecar};
use tenure_testkit::command::eventually;
use tenure_testkit::command::scene::{Candidate, Scene};

/// Returns two sidecars: the leader, then the follower.
fn leader_and_follower(scene: &Scene, options: &[&str]) -> (Sidecar, Sidecar) {
    let a = sidecar(scene, "a", options);
    a.leads();
    let b = sidecar(scene, "b", options);
    eventually("b follows", || b.view()["role"] == "following");
    (a, b)
}

#[test]
fn only_the_leader_has_a_token_and_both_sidecars_name_the_leader() {
    let scene = Scene::new(TENURE);
    let (a, b) = leader_and_follower(&scene, &[]);
    let (led, seen) = (a.view(), b.view());
    assert_eq!((&led["role"], &led["leader"]), (&"leading".into(), &"a".into()), "{led}");
    for (view, leads) in [(&led, true), (&seen, false)] {
        assert_eq!(view["state"], "held", "{view}");
        assert_eq!((&view["leader"], &view["epoch"]), (&"a".into(), &1.into()), "{view}");
        assert_eq!(view["this_candidate_leads"], leads, "{view}");
        assert!(view["store_answered_ms_ago"].is_u64(), "{view}");
        assert_eq!(view["lease_remaining_ms"].is_u64(), leads, "{view}");
        assert_eq!(view["lapses_in_ms"].is_u64(), !leads, "{view}");
    }
    let (status, token) = a.get("/v1/elections/orders/token");
    assert_eq!((status, &token["token"]), (200, &1.into()), "{token}");
    // The remaining lease in the reply is at most the validity of 10 s minus the margin of 0.5 s.
    assert!(token["lease_remaining_ms"].as_u64().is_some_and(|left| left <= 9_500), "{token}");
    let (status, refused) = b.get("/v1/elections/orders/token");
    assert_eq!((status, &refused["code"]), (503, &"not_leading".into()), "{refused}");
    let (status, list) = a.get("/v1/elections");
    assert_eq!((status, &list["elections"][0]["election"]), (200, &"orders".into()), "{list}");
    assert_eq!(a.ask("HEAD", "/v1/elections/orders/token", "").0, 200);
    assert_eq!(b.ask("HEAD", "/v1/elections/orders/token", "").0, 503);
}

#[test]
fn followers_read_the_data_of_the_leader() {
    let scene = Scene::new(TENURE);
    let (a, b) = leader_and_follower(&scene, &["--poll", "100ms"]);
    let data = json!({ "address": "10.0.0.1:80", "größe": [1, null] });
    let put = |at: &Sidecar, path: &str, body: &str| {
        let (status, said) = at.json("PUT", path, body);
        (status, said["code"].as_str().unwrap_or_default().to_owned())
    };
    let path = "/v1/elections/orders/data";
    assert_eq!(a.json("PUT", path, &data.to_string()), (200, json!({ "epoch": 1 })));
    assert_eq!(a.view()["data"], data);
    eventually("b reads the data", || b.view()["data"] == data);
    // The sidecar refuses each of these requests, and the data does not change.
    assert_eq!(put(&b, path, "1"), (409, "not_leading".to_owned()));
    assert_eq!(put(&a, "/v1/elections/orders/data?epoch=7", "1"), (409, "other_epoch".to_owned()));
    assert_eq!(put(&a, "/v1/elections/orders/data?epoch=x", "1"), (400, "bad_query".to_owned()));
    assert_eq!(put(&a, path, "not JSON"), (400, "bad_body".to_owned()));
    assert_eq!(put(&a, path, ""), (400, "bad_body".to_owned()));
    let long = |bytes: usize| format!("\"{}\"", "x".repeat(bytes));
    assert_eq!(put(&a, path, &long(50_000)), (413, "data_too_long".to_owned()));
    assert_eq!(put(&a, path, &long(70_000)), (413, "body_too_long".to_owned()));
    assert_eq!(a.view()["data"], data);
    assert_eq!(put(&a, "/v1/elections/orders/data?epoch=1", "2"), (200, String::new()));
}

#[test]
fn a_resigned_candidate_pauses_while_another_leads() {
    let scene = Scene::new(TENURE);
    let (a, b) = leader_and_follower(&scene, &["--poll", "100ms"]);
    let resign = |at: &Sidecar, query: &str, body: &str| {
        at.json("POST", &format!("/v1/elections/orders/resign{query}"), body)
    };
    assert_eq!(resign(&b, "", "").1["code"], "not_leading");
    assert_eq!(resign(&a, "?epoch=2", "").1["code"], "other_epoch");
    for wrong in [
        "{",
        "[]",
        r#"{"sucessor":"b"}"#,
        r#"{"pause_ms":-1}"#,
        r#"{"pause_ms":1.5}"#,
        r#"{"successor":""}"#,
    ] {
        let (status, said) = resign(&a, "", wrong);
        assert_eq!((status, &said["code"]), (400, &"bad_body".into()), "{wrong}: {said}");
    }
    let (status, said) = resign(&a, "", r#"{"pause_ms":90000000}"#);
    assert!(status == 400 && said["message"].as_str().is_some_and(|it| it.contains("86400000")));
    a.leads();
    let body = r#"{"successor":"b","pause_ms":600000}"#;
    assert_eq!(resign(&a, "?epoch=1", body), (200, json!({ "epoch": 1, "sealed": true })));
    // The sidecar knows that it has resigned, so it sends no request to the store before it
    // replies.
    assert_eq!(a.get("/v1/elections/orders/token").0, 503);
    let seen = a.view();
    assert_eq!((&seen["lost"]["epoch"], &seen["lost"]["reason"]), (&1.into(), &"resigned".into()));
    b.leads();
    eventually("a reports the state", || {
        let seen = a.view();
        assert_eq!((&seen["role"], &seen["reason"]), (&"standby".into(), &"resigned".into()));
        (&seen["leader"], &seen["epoch"]) == (&"b".into(), &2.into())
    });
}

/// Before the fix, the sidecar detected the invalid name of a successor too late: when it sealed
/// the epoch, after the end of the leadership.
#[test]
fn regression_an_invalid_successor_changes_nothing() {
    let scene = Scene::new(TENURE);
    let a = sidecar(&scene, "a", &[]);
    a.leads();
    for wrong in ["\\u0000", "b\\n", "\\u009b", &"ü".repeat(129)] {
        let body = format!(r#"{{"successor":"{wrong}"}}"#);
        let (status, said) = a.json("POST", "/v1/elections/orders/resign", &body);
        assert_eq!((status, &said["code"]), (400, &"bad_body".into()), "{wrong}: {said}");
        assert_eq!((&a.view()["epoch"], &a.view()["role"]), (&1.into(), &"leading".into()));
    }
    let body = format!(r#"{{"successor":"{}"}}"#, "ü".repeat(128));
    let (status, said) = a.json("POST", "/v1/elections/orders/resign", &body);
    assert_eq!((status, &said["sealed"]), (200, &true.into()), "{said}");
}

/// Before the fix, a resignation with the body `["b",1]` was accepted as
/// `{"successor":"b","pause_ms":1}`.
#[test]
fn regression_a_list_as_a_body_changes_nothing() {
    let scene = Scene::new(TENURE);
    let a = sidecar(&scene, "a", &[]);
    a.leads();
    for wrong in ["[null,null]", r#" ["b",1]"#, "\n[]"] {
        let (status, said) = a.json("POST", "/v1/elections/orders/resign", wrong);
        assert_eq!((status, &said["code"]), (400, &"bad_body".into()), "{wrong}: {said}");
        assert_eq!((&a.view()["epoch"], &a.view()["role"]), (&1.into(), &"leading".into()));
    }
    let (status, said) = a.json("POST", "/v1/elections/orders/resign", "7");
    let why = said["message"].as_str().expect("a text");
    assert!(status == 400 && why.contains("expected an object"), "{said}");
}

/// Requests arrive while the sidecar is suspended (SIGSTOP) and another candidate leads. After the
/// sidecar continues, it must read the clock and detect the end of its lease before it replies.
#[test]
fn a_stopped_sidecar_does_not_lead_after_it_continues() {
    let scene = Scene::new(TENURE);
    let options = ["--validity", "3s", "--poll", "100ms"];
    let (a, b) = leader_and_follower(&scene, &options);
    let before = a.get("/v1/elections/orders/token").1["token"].clone();
    a.process.signal(Signal::SIGSTOP);
    b.leads();
    // While the sidecar is suspended, the kernel accepts these connections, and the requests wait.
    let waiting: Vec<_> =
        (0..8).map(|_| a.begin("GET", "/v1/elections/orders/token", "")).collect();
    a.process.signal(Signal::SIGCONT);
    for asked in waiting {
        let (status, said) = client::parse(&client::rest(asked));
        let said: Value = serde_json::from_str(&said).expect("JSON");
        // On a slow machine, the sidecar may lead again before it replies. The epoch is then
        // greater.
        assert!(status == 503 || said["token"].as_u64() > before.as_u64(), "{status} {said}");
    }
}

#[test]
fn a_failing_store_ends_the_leadership_but_not_the_process() {
    let scene = Scene::new(TENURE);
    let a = sidecar(&scene, "a", &["--validity", "3s", "--health-addr", "127.0.0.1:0"]);
    a.leads();
    let probes = a.address_after("serving health at http://");
    let probe = |path: &str| client::ask_at(&probes, "GET", path, "").0;
    assert_eq!((probe("/livez"), probe("/readyz"), probe("/v1/elections")), (200, 200, 404));
    std::fs::rename(scene.path("store"), scene.path("aside")).expect("the path exists");
    std::fs::write(scene.path("store"), "").expect("a file replaces the directory");
    eventually("the leadership has ended", || a.get("/v1/elections/orders/token").0 == 503);
    let lost = a.view()["lost"].clone();
    assert!(lost["epoch"].is_u64() && lost["reason"].is_string(), "{lost}");
    eventually("the sidecar is not ready", || probe("/readyz") == 503);
    assert_eq!(probe("/livez"), 200);
    // The store does not answer, so the view of the election names no leader.
    let seen = a.view();
    assert_eq!((&seen["leader"], &seen["epoch"]), (&Value::Null, &Value::Null), "{seen}");
    std::fs::remove_file(scene.path("store")).expect("the path exists");
    std::fs::rename(scene.path("aside"), scene.path("store")).expect("the path exists");
    a.leads();
    assert_eq!(probe("/readyz"), 200);
}

#[test]
fn several_elections_are_independent() {
    let scene = Scene::new(TENURE);
    let other = format!("other=file://{}", scene.path("other").display());
    let a = sidecar(&scene, "a", &["--election", &other]);
    a.leads();
    eventually("the other election has a token", || a.get("/v1/elections/other/token").0 == 200);
    let (_, list) = a.get("/v1/elections");
    let names: Vec<_> = list["elections"].as_array().into_iter().flatten().collect();
    assert_eq!(names.len(), 2, "{list}");
    assert_eq!(a.json("POST", "/v1/elections/other/resign", "").0, 200);
    assert_eq!(a.get("/v1/elections/orders/token").0, 200);
    assert_eq!(a.get("/v1/elections/third").1["code"], "no_such_election");
    // Older clients ask for the leader at `/`. A sidecar with several elections refuses this
    // request.
    assert_eq!(a.get("/").1["code"], "several_elections");
    for line in ["tenure: election=orders: elected: epoch 1", "tenure: election=other: resigned"] {
        a.process.says(line);
    }
}

#[test]
fn other_paths_and_methods_are_refused_with_a_reason() {
    let scene = Scene::new(TENURE);
    let a = sidecar(&scene, "a", &[]);
    for path in ["/v1", "/v1/elections/", "/v1/elections/orders/", "/v1/elections/orders/x", "/x"] {
        let (status, said) = a.get(path);
        let known = ["not_found", "no_such_election"].iter().any(|code| said["code"] == *code);
        assert!(status == 404 && known, "{path}: {status} {said}");
    }
    for (method, path, allow) in [
        ("POST", "/v1/elections", "GET, HEAD"),
        ("DELETE", "/v1/elections/orders", "GET, HEAD"),
        ("GET", "/v1/elections/orders/resign", "POST"),
        ("POST", "/v1/elections/orders/data", "PUT"),
        ("GET", "/v1/heartbeat", "POST"),
    ] {
        let (status, said) = a.json(method, path, "");
        assert_eq!((status, &said["code"]), (405, &"method_not_allowed".into()), "{method} {path}");
        let raw = client::rest(a.begin(method, path, ""));
        assert!(raw.contains(&format!("allow: {allow}\r\n")), "{raw}");
    }
    assert_eq!(a.json("POST", "/v1/heartbeat", "").1["code"], "no_heartbeats");
}

fn kill(process: &mut Candidate) {
    process.signal(Signal::SIGKILL);
    process.code();
}

#[test]
fn regression_readyz_gives_the_reason_of_a_failed_election() {
    let scene = Scene::new(TENURE);
    let store = scene.path("store");
    std::fs::create_dir(&store).expect("a directory");
    std::fs::write(store.join("lock-0000000007.json"), "{").expect("a file");
    let a = sidecar(&scene, "a", &["--health-addr", "127.0.0.1:0"]);
    let health = a.address_after("serving health at http://");
    eventually("the sidecar is not ready, and gives the reason", || {
        let (status, text) = client::ask_at(&health, "GET", "/readyz", "");
        status == 503 && text.contains("orders: corrupt_record: lock-0000000007.json in file://")
    });
}
