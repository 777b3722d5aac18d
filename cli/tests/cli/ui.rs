//! Tests of `tenure ui`: the cards that its page shows, and the events that update them.

use std::collections::BTreeMap;
use std::fs;
use std::process::Command;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use nix::sys::signal::Signal;
use serde_json::Value;
use tenure::Process;

use crate::TENURE;
use crate::bench::tenure;
use crate::serve::client::{Sidecar, member, parse, rest, sidecar};
use tenure_testkit::command::eventually;
use tenure_testkit::command::scene::Scene;

/// Starts `tenure ui` for all elections and groups below the directory of the scene.
fn ui(scene: &Scene, options: &[&str]) -> Sidecar {
    ui_of(scene, &scene.url(), options)
}

fn ui_of(scene: &Scene, store: &str, options: &[&str]) -> Sidecar {
    let mut command = Command::new(TENURE);
    command.args(["ui", "--store", store, "--listen", "127.0.0.1:0"]).args(options);
    if !options.contains(&"--poll") {
        command.args(["--poll", "200ms"]);
    }
    scene.surround(&mut command);
    let process = scene.start("ui", command);
    let mut ui = Sidecar { process, address: String::new() };
    ui.address = ui.address_after("serving the page at http://");
    ui
}

/// Opens a new stream of events, and returns a map of the cards in these events. The keys of the
/// map are the kinds of the cards.
fn cards(ui: &Sidecar) -> BTreeMap<String, Value> {
    let events = ui.events("/events");
    // A stream sends all cards before its second event `tick`, so the test waits for this event.
    let (first, _) = events.wait_for("tick", 0);
    events.wait_for("tick", first + 1);
    let cards = events.all().into_iter().filter(|(name, _)| name == "card");
    let kind = |card: &Value| card["kind"].as_str().expect("a kind").to_owned();
    cards.map(|(_, event)| (kind(&event["card"]), event["card"].clone())).collect()
}

/// Waits until `holds` returns true for the card of this kind, and returns the card.
fn shows(ui: &Sidecar, kind: &str, condition: &str, holds: impl Fn(&Value) -> bool) -> Value {
    let mut shown = Value::Null;
    eventually(condition, || {
        shown = cards(ui).remove(kind).unwrap_or_default();
        holds(&shown)
    });
    shown
}

#[test]
fn an_election_across_stores_has_a_line_for_each_store() {
    let scene = Scene::new(TENURE);
    let urls = ["a", "b", "c"].map(|store| format!("{}/{store}", scene.url()));
    let set = urls.join(" ");
    assert_eq!(tenure(&["across", "init", "--store", &set]).code, 0);
    assert_eq!(tenure(&["run", "--store", &set, "--name", "one", "--", "true"]).code, 0);
    let ui = ui_of(&scene, &set, &[]);
    let card = shows(&ui, "election", "the stores are shown", |card| {
        card["stores"].as_array().is_some_and(|lines| lines.len() == 3)
    });
    assert_eq!((&card["state"], &card["name"]), (&"vacant".into(), &Value::from(&*set)));
    let second = card["stores"][1].as_str().expect("a line");
    assert!(second.contains("store 2 of 3, generation 1; epoch 1"), "{card}");
    assert_eq!(card["epochs"][0]["leader"], "one", "{card}");
}

#[test]
fn a_killed_leader_and_its_successor_are_shown() {
    let scene = Scene::new(TENURE);
    let options = ["--validity", "3s", "--poll", "100ms"];
    let mut a = sidecar(&scene, "a", &options);
    a.leads();
    let ui = ui(&scene, &[]);
    let held = shows(&ui, "election", "a leads", |card| card["leader"] == "a");
    assert_eq!((&held["state"], &held["epoch"]), (&"held".into(), &1.into()), "{held}");
    assert!(held["lapses_at"].is_u64() && held["answered_at"].is_u64(), "{held}");
    a.process.signal(Signal::SIGKILL);
    a.process.code();
    shows(&ui, "election", "the lapse", |card| {
        card["state"] == "vacant" && card["epochs"][0]["end"] == "lapsed"
    });
    let b = sidecar(&scene, "b", &options);
    b.leads();
    let held = shows(&ui, "election", "b leads", |card| card["leader"] == "b");
    let epochs = held["epochs"].as_array().expect("a list");
    let ends: Vec<_> = epochs.iter().map(|epoch| (&epoch["leader"], &epoch["end"])).collect();
    assert_eq!(ends[0], (&"a".into(), &"lapsed".into()), "{held}");
    assert_eq!(ends[1], (&"b".into(), &"held".into()), "{held}");
}

/// Before the fix, if more than three epochs began between two polls, the page showed only some of
/// these epochs.
#[test]
fn regression_all_epochs_between_two_polls_are_shown() {
    let scene = Scene::new(TENURE);
    let url = scene.url();
    let lead = || tenure(&["run", "--store", &url, "--validity", "5s", "--", "true"]);
    lead();
    let ui = ui(&scene, &["--poll", "3s"]);
    shows(&ui, "election", "the first epoch", |card| card["epochs"][0].is_object());
    for _ in 0..6 {
        lead();
    }
    let all = (1..=7).map(Value::from).collect::<Vec<_>>();
    shows(&ui, "election", "seven epochs", |card| {
        let epochs = card["epochs"].as_array().into_iter().flatten();
        epochs.map(|epoch| epoch["epoch"].clone()).collect::<Vec<_>>() == all
    });
}

#[test]
fn all_dead_members_are_shown() {
    let scene = Scene::new(TENURE);
    let options = ["--validity", "3s"];
    let mut members = ["a", "b"].map(|name| member(&scene, name, &options));
    let ui = ui(&scene, &[]);
    let alive = |card: &Value| {
        let members = card["members"].as_array().into_iter().flatten();
        members.filter(|member| member["alive"] == true).count()
    };
    let owned = |card: &Value| {
        let owners = card["owners"].as_array().into_iter().flatten();
        owners.filter(|owner| owner.as_i64() >= Some(0)).count()
    };
    let group = shows(&ui, "group", "two members", |card| alive(card) == 2 && owned(card) == 6);
    assert_eq!(group["tokens"], Value::Null, "{group}");
    let roles: Vec<_> = (0..2).map(|index| group["members"][index]["role"].clone()).collect();
    assert!(roles.contains(&"coordinator".into()) && roles.contains(&"deputy".into()), "{group}");
    for member in &mut members {
        member.process.signal(Signal::SIGKILL);
        member.process.code();
    }
    let dead = shows(&ui, "group", "no live member", |card| alive(card) == 0);
    // No member has written a new assignment, so the newest one still names the dead members as
    // owners.
    assert_eq!(owned(&dead), 6, "{dead}");
    assert_eq!(dead["members"][0]["state"], "lapsed", "{dead}");
}

/// Before the fix, with `--poll 1h` each card of a group showed an error.
#[test]
fn regression_a_group_is_shown_with_the_longest_poll_interval() {
    let scene = Scene::new(TENURE);
    let member = member(&scene, "a", &[]);
    // With this poll interval, the page would show a later assignment only after an hour.
    let token = "/v1/groups/orders/partitions/0/token";
    eventually("the member owns a partition", || member.get(token).0 == 200);
    let ui = ui(&scene, &["--poll", "1h"]);
    shows(&ui, "group", "a member", |card| card["members"][0]["name"] == "a");
}

/// Before the fix, `tenure ui` accepted `--poll 1ms`, and then each card showed an error.
#[test]
fn regression_a_short_poll_interval_is_refused() {
    let scene = Scene::new(TENURE);
    let line = ["ui", "--store", &scene.url(), "--poll", "1ms"];
    tenure(&line).fails(64, &["--poll must be 10ms", "got 1ms"]);
}

#[test]
fn tokens_are_shown_on_request() {
    let scene = Scene::new(TENURE);
    let _member = member(&scene, "a", &[]);
    let ui = ui(&scene, &["--show-tokens"]);
    shows(&ui, "group", "tokens", |card| card["tokens"][0].as_u64() > Some(0));
}

#[test]
fn the_periods_of_a_job_are_shown() {
    let scene = Scene::new(TENURE);
    let (url, file) = (scene.url(), scene.path("tried").display().to_string());
    let script = format!("test -e {file} || {{ touch {file}; exit 3; }}");
    let line = ["run", "--store", &url, "--once-per", "1d", "--name", "host-1", "--retries", "1"];
    tenure(&[&line[..], &["--", "sh", "-c", &script]].concat());
    let ui = ui(&scene, &[]);
    let job = shows(&ui, "job", "a period", |card| card["periods"][0].is_object());
    let period = &job["periods"][0];
    assert_eq!((&period["host"], &period["attempts"]), (&"host-1".into(), &2.into()), "{job}");
    assert_eq!(period["exit_code"], 0, "{job}");
    let held = cards(&ui).remove("election").expect("the election of the job");
    assert_eq!(held["state"], "vacant", "{held}");
}

#[test]
fn names_are_escaped() {
    let scene = Scene::new(TENURE);
    let name = "<img src=x onerror=alert(1)>\u{202e}evil";
    let a = sidecar(&scene, name, &[]);
    a.leads();
    let ui = ui(&scene, &[]);
    let held = shows(&ui, "election", "a leader", |card| card["state"] == "held");
    assert_eq!(held["leader"], "<img src=x onerror=alert(1)>\\u{202e}evil");
}

#[test]
fn the_page_waits_for_a_store_that_does_not_exist_yet() {
    let scene = Scene::new(TENURE);
    let ui = ui(&scene, &[]);
    let store = shows(&ui, "store", "an error", |card| card["error"].is_string());
    assert_eq!(store["followed"], 0, "{store}");
    let a = sidecar(&scene, "a", &[]);
    a.leads();
    shows(&ui, "election", "the election", |card| card["leader"] == "a");
}

/// An election begins just after the page has searched an empty store. Before the fix, the page
/// showed this election only after a minute.
#[test]
fn regression_an_empty_store_is_searched_again_soon() {
    let scene = Scene::new(TENURE);
    fs::create_dir(scene.path("store")).expect("a directory");
    let ui = ui(&scene, &[]);
    shows(&ui, "store", "a search", |card| card["error"].is_null() && card["followed"] == 0);
    let a = sidecar(&scene, "a", &[]);
    a.leads();
    shows(&ui, "election", "the election", |card| card["leader"] == "a");
}

/// Before the fix, if the directory of a store vanished, the page showed this error too late. The
/// card of the store showed it after a minute, and the card of the election after half a minute.
#[test]
fn regression_a_vanished_directory_is_shown_soon() {
    let scene = Scene::new(TENURE);
    let mut a = sidecar(&scene, "a", &[]);
    a.leads();
    a.process.signal(Signal::SIGKILL);
    a.process.code();
    let ui = ui(&scene, &["--store", &format!("{}/", scene.url())]);
    shows(&ui, "election", "the election", |card| card["epoch"] == 1 && card["error"].is_null());
    let now = || Process::system().now().boot;
    let started = now();
    fs::rename(scene.path("store"), scene.path("elsewhere")).expect("moved");
    for kind in ["store", "election"] {
        let card = shows(&ui, kind, "an error", |card| card["error"].is_string());
        let error = card["error"].as_str().expect("a text");
        assert!(error.contains("no directory exists at"), "{card}");
    }
    assert!((now() - started).as_secs() < 20, "{:?}", now() - started);
    fs::rename(scene.path("elsewhere"), scene.path("store")).expect("moved");
    for kind in ["store", "election"] {
        shows(&ui, kind, "no error", |card| card["error"].is_null());
    }
    let events = ui.events("/events");
    let (first, _) = events.wait_for("tick", 0);
    events.wait_for("tick", first + 1);
    let stores = events.all().into_iter().filter(|(_, event)| event["card"]["kind"] == "store");
    assert_eq!(stores.count(), 1, "a store that is given twice has one card");
}

#[test]
fn the_page_changes_nothing_and_admits_no_other_host() {
    let scene = Scene::new(TENURE);
    fs::create_dir(scene.path("store")).expect("a directory");
    let ui = ui(&scene, &[]);
    let raw = rest(ui.begin("GET", "/", ""));
    assert!(raw.contains("content-security-policy: default-src 'none'"), "{raw}");
    assert!(raw.contains("<title>tenure</title>"), "{raw}");
    for (method, path, status) in [
        ("POST", "/", 405),
        ("DELETE", "/events", 405),
        ("GET", "/v1/elections", 404),
        ("GET", "/../etc/passwd", 404),
        ("HEAD", "/", 200),
    ] {
        assert_eq!(ui.ask(method, path, "").0, status, "{method} {path}");
    }
    let foreign = "GET / HTTP/1.1\r\nHost: evil.example\r\n\r\n";
    assert_eq!(parse(&rest(ui.send(foreign))).0, 421);
    shows(&ui, "store", "a search", |card| card["error"].is_null());
    let names = fs::read_dir(scene.path("store")).expect("a directory").collect::<Vec<_>>();
    assert!(names.is_empty(), "{names:?}");
}

#[test]
fn other_machines_need_a_key() {
    let scene = Scene::new(TENURE);
    let line = ["ui", "--store", &scene.url(), "--listen", "0.0.0.0:0"];
    tenure(&line).fails(64, &["other machines", "--access-key-file"]);
    fs::write(scene.path("key"), "0123456789abcdef").expect("a file");
    let key = scene.path("key").display().to_string();
    let ui = ui(&scene, &["--access-key-file", &key]);
    let ask = |headers: &str| {
        rest(ui.send(&format!("GET / HTTP/1.1\r\nHost: localhost\r\n{headers}\r\n")))
    };
    let refused = ask("");
    assert_eq!(parse(&refused).0, 401);
    assert!(refused.contains("www-authenticate: Basic realm=\"tenure\""), "{refused}");
    let pair = STANDARD.encode("anna:0123456789abcdef");
    assert_eq!(parse(&ask(&format!("Authorization: Basic {pair}\r\n"))).0, 200);
    assert_eq!(parse(&ask("Authorization: Bearer 0123456789abcdef\r\n")).0, 200);
    assert_eq!(parse(&ask("Authorization: Bearer 0123456789abcdeg\r\n")).0, 401);
}
