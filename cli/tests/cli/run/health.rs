//! Tests of `tenure run --health-addr`, with the requests of probes and load balancers.

use std::net::TcpListener;

use nix::sys::signal::Signal;
use serde_json::Value;

use crate::TENURE;
use crate::bench::Bench;
use crate::serve::client::{address_after, ask_at};
use tenure_testkit::command::eventually;
use tenure_testkit::command::scene::{Candidate, Scene};

const OPTIONS: [&str; 4] = ["--health-addr", "127.0.0.1:0", "--validity", "3s"];

/// Returns the health address that the candidate has logged.
fn address(candidate: &Candidate) -> String {
    address_after(candidate, "serving health at http://")
}

fn ask(method: &str, address: &str, path: &str) -> (u16, String) {
    ask_at(address, method, path, "")
}

fn status(address: &str, path: &str) -> u16 {
    ask("GET", address, path).0
}

fn view(address: &str) -> Value {
    serde_json::from_str(&ask("GET", address, "/leader").1).expect("JSON")
}

#[test]
fn a_load_balancer_finds_the_leader_and_its_successor() {
    let scene = Scene::new(TENURE);
    let mut a = scene.script("a", &OPTIONS, "exec sleep 600");
    let at_a = &address(&a);
    eventually("a leads", || status(at_a, "/leader") == 200);
    let b = scene.script("b", &OPTIONS, "exec sleep 600");
    let at_b = &address(&b);
    eventually("b follows", || view(at_b)["role"] == "following");
    assert_eq!((status(at_a, "/leader"), status(at_b, "/leader")), (200, 503));
    let (seen_by_a, seen_by_b) = (view(at_a), view(at_b));
    for (seen, leads) in [(&seen_by_a, true), (&seen_by_b, false)] {
        assert_eq!(seen["this_candidate_leads"], leads);
        assert_eq!((&seen["leader"], &seen["epoch"]), (&"a".into(), &1.into()), "{seen}");
    }
    assert!(seen_by_a["lease_remaining_ms"].as_u64().is_some_and(|left| left <= 3_000));
    for (address, role) in [(at_a, "leading"), (at_b, "following")] {
        assert_eq!(ask("GET", address, "/livez"), (200, "ok".to_owned()));
        assert_eq!(ask("GET", address, "/readyz"), (200, role.to_owned()));
        assert_eq!(ask("HEAD", address, "/readyz"), (200, String::new()));
        assert_eq!(status(address, "/metrics"), 404);
    }
    assert_eq!(ask("HEAD", at_b, "/leader"), (503, String::new()));
    a.signal(Signal::SIGKILL);
    a.code();
    eventually("b leads", || status(at_b, "/leader") == 200);
    assert_eq!((&view(at_b)["leader"], &view(at_b)["epoch"]), (&"b".into(), &2.into()));
}

#[test]
fn an_address_in_use_is_refused_before_the_first_request() {
    let bench = Bench::new();
    let taken = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = taken.local_addr().expect("the listener has an address").to_string();
    let said = bench.run("run", &["--health-addr", &address, "--", "true"]);
    said.fails(71, &["cannot serve health at", &address, "in use"]);
    assert!(bench.objects().is_empty(), "{:?}", bench.objects());
    let said = bench.run("run", &["--health-addr", ":8080", "--", "true"]);
    assert!(said.code == 64 && said.err.contains("127.0.0.1:8080"), "{said:?}");
}

#[test]
fn the_health_of_a_member_lists_its_partitions() {
    let scene = Scene::new(TENURE);
    let mut member = scene.group_run("a", &[&OPTIONS[..], &["--partitions", "0..2"]].concat());
    // CMD ignores SIGTERM, so the leaving member lives long enough for a request to its health
    // address.
    member.args(["--", "sh", "-c", "trap '' TERM; while :; do sleep 0.02; done"]);
    let mut a = scene.start("a", member);
    let at = &address(&a);
    let view =
        || -> Value { serde_json::from_str(&ask("GET", at, "/partitions").1).expect("JSON") };
    eventually("the member owns both partitions", || {
        view()["partitions"].as_array().is_some_and(|all| all.len() == 2)
    });
    let seen = view();
    assert_eq!((&seen["role"], &seen["member"]), (&"member".into(), &"a".into()), "{seen}");
    for (number, owned) in seen["partitions"].as_array().expect("a list").iter().enumerate() {
        assert_eq!(
            (&owned["partition"], &owned["number"]),
            (&number.to_string().into(), &number.into())
        );
        assert_eq!((&owned["token"], &owned["owned"]), (&2.into(), &true.into()), "{seen}");
        assert!(owned["lease_remaining_ms"].as_u64().is_some_and(|left| left <= 3_000), "{seen}");
    }
    assert_eq!(ask("GET", at, "/livez"), (200, "ok".to_owned()));
    assert_eq!(ask("GET", at, "/readyz"), (200, "member".to_owned()));
    assert_eq!((status(at, "/leader"), status(at, "/metrics")), (404, 404));
    a.signal(Signal::SIGTERM);
    eventually("the member leaves, or has left", || ![200, 404].contains(&status(at, "/readyz")));
    assert_eq!(a.code(), 0, "{}", a.said());
}
