//! Tests of `tenure group history` on prepared assignments.

use std::fs::File;

use chrono::{DateTime, TimeDelta, Utc};
use roxmltree::Document;
use serde_json::{Value, json};

use crate::bench::{Bench, Said, difficult_names, tenure};
use tenure_testkit::svg;

const ONE: &str = "11111111000000000000000000000000";
const TWO: &str = "22222222000000000000000000000000";

fn noon() -> DateTime<Utc> {
    "2026-11-20T12:00:00Z".parse().expect("a time")
}

/// Writes the object of assignment `epoch`. Its date is this number of seconds after noon.
fn write(bench: &Bench, epoch: u64, second: i64, body: &str) {
    let name = format!("assignment-{epoch:010}.json");
    bench.object(&name, body);
    let file = File::options().write(true).open(bench.path("store").join(name));
    let modified = noon() + TimeDelta::seconds(second);
    file.expect("the object was written").set_modified(modified.into()).expect("dates");
}

fn owned(name: &str, owner: usize, token: u64) -> Value {
    json!({ "name": name, "owner": owner, "token": token })
}

fn assign(
    bench: &Bench,
    (epoch, second): (u64, i64),
    coordinator: usize,
    members: &[(&str, &str)],
    partitions: Value,
) {
    let member = |(name, id): &(&str, &str)| json!({ "id": id, "nonce": id, "name": name, "validity_ms": 30_000 });
    let body = json!({
        "format": 1, "epoch": epoch, "nonce": "0123456789abcdef0123456789abcdef",
        "assignor": "sticky", "coordinator": coordinator, "next_number": 9,
        "members": members.iter().map(member).collect::<Vec<_>>(), "partitions": partitions,
    });
    write(bench, epoch, second, &body.to_string());
}

/// Writes the session of a member. If `fields` has no `expires_at`, the session is sealed.
fn session(bench: &Bench, (name, id): (&str, &str), fields: Value) {
    let mut record = json!({
        "expires_at": 0.0, "token": 1, "epoch": 1, "validity_ms": 30_000, "format": 1,
        "candidate": name, "nonce": id, "heartbeat": 4,
    });
    record.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
    bench.object(&format!("members/{id}/lock.json"), &record.to_string());
}

/// Writes the assignments of a history. Member w1 creates the group, and w2 joins. An operator
/// pauses, pins and adds partitions. Then w1 dies, and one assignment is unreadable.
fn story(w1: &str) -> Bench {
    let bench = Bench::new();
    let (one, both) = (&[(w1, ONE)][..], &[(w1, ONE), ("w2", TWO)][..]);
    let new = json!([{ "name": "a" }, { "name": "b" }, { "name": "c" }]);
    assign(&bench, (1, 0), 0, one, new);
    let all = json!([owned("a", 0, 2), owned("b", 0, 2), owned("c", 0, 2)]);
    assign(&bench, (2, 5), 0, one, all);
    let revoked = json!({ "name": "c", "owner": 0, "token": 2, "target": 1 });
    assign(&bench, (3, 60), 0, both, json!([owned("a", 0, 2), owned("b", 0, 2), revoked]));
    let moved = json!([owned("a", 0, 2), owned("b", 0, 2), owned("c", 1, 4)]);
    assign(&bench, (4, 70), 0, both, moved);
    let paused = json!({ "name": "a", "owner": 0, "token": 2, "paused": true });
    let pinned = json!({ "name": "b", "owner": 0, "token": 2, "pinned": w1 });
    let marked = json!([paused, pinned, owned("c", 1, 4), { "name": "d" }]);
    assign(&bench, (5, 100), 0, both, marked);
    let paused = json!({ "name": "a", "token": 2, "paused": true });
    let pinned = json!({ "name": "b", "owner": 0, "token": 2, "pinned": w1 });
    let released = json!([paused, pinned, owned("c", 1, 4), owned("d", 1, 6)]);
    assign(&bench, (6, 110), 0, both, released);
    let two = &[("w2", TWO)][..];
    let gone = json!([owned("b", 0, 7), owned("c", 0, 4), owned("d", 0, 6)]);
    let mut gone = gone.as_array().expect("a list").clone();
    gone[0]["number"] = json!(1);
    assign(&bench, (8, 200), 0, two, json!(gone));
    write(&bench, 9, 210, "{}");
    assign(&bench, (10, 300), 0, two, json!(gone));
    bench
}

fn squeezed(text: &str) -> Vec<String> {
    text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect()
}

fn run(bench: &Bench, options: &[&str]) -> Said {
    let url = bench.url();
    tenure(&[&["group", "history", "--store", &url], options].concat())
}

#[test]
fn the_table_shows_the_changes_of_each_assignment() {
    let said = run(&story("w1"), &[]);
    assert_eq!((said.code, said.err.as_str()), (0, ""));
    let expected = "\
epoch  created (UTC)        by
1      2026-11-20 12:00:00  w1
    w1 joined
    w1 coordinates
    3 partitions added: a, b, c
2      2026-11-20 12:00:05  w1
    3 partitions granted to w1: a, b, c
3      2026-11-20 12:01:00  w1
    w2 joined
    1 partition to move from w1 to w2: c
4      2026-11-20 12:01:10  w1
    1 partition moved from w1 to w2: c
5      2026-11-20 12:01:40  (operator)
    1 partition added: d
    1 partition paused: a
    1 partition pinned to w1: b
6      2026-11-20 12:01:50  w1
    1 partition granted to w2: d
    1 partition no longer owned by w1: a
8      2026-11-20 12:03:20  -
    w1 left
    w2 coordinates
    1 partition moved from w1 to w2: b
    1 partition unpinned: b
    1 partition removed: a
9      2026-11-20 12:03:30  -
    unreadable: its body is not an assignment: at line 1 column 2
10     2026-11-20 12:05:00  -
    no change of an owner, a member, a mark or a reservation

members    1
partitions 3; none has a live owner
missing    assignment 7: compacted, deleted, or skipped by a restore
requests   12
";
    assert_eq!(said.out, expected);
}

/// Before the fix, `group history` reported that a killed member had left its group.
#[test]
fn regression_the_record_of_the_session_shows_how_a_member_left() {
    let bench = story("w1");
    for (seal, end, word) in [
        (json!({ "ended": "lapsed", "sealed_by": "w2" }), "lapsed", "lapsed"),
        (json!({ "ended": "resigned", "sealed_by": "w1" }), "resigned", "resigned"),
        (json!({ "ended": "lapsed", "forced_by": "admin" }), "deposed_dead", "deposed as dead"),
    ] {
        session(&bench, ("w1", ONE), seal);
        let out = run(&bench, &[]).out;
        assert!(out.contains(&format!("  w1 {word}\n")), "{end}: {out}");
        let told = run(&bench, &["--json"]).json_lines();
        assert_eq!(told[6]["left"][0]["ended"], end);
        // Assignment 7 is missing, so another member may have owned the partition in the meantime.
        assert_eq!(told[6]["partitions"][1]["gap"], Value::Null);
    }
}

/// Before the fix, `group history` showed that a dead member owned its partitions until they moved.
#[test]
fn regression_the_time_after_a_death_has_no_live_owner() {
    let bench = Bench::new();
    let both = &[("w1", ONE), ("w2", TWO)][..];
    assign(&bench, (1, 0), 1, both, json!([owned("a", 0, 1), owned("b", 1, 1)]));
    assign(&bench, (2, 66), 0, &both[1..], json!([owned("a", 0, 2), owned("b", 0, 1)]));
    let renewed = noon() + TimeDelta::seconds(30);
    let seal = json!({ "ended": "lapsed", "elected_at": noon(), "renewed_at": renewed });
    session(&bench, ("w1", ONE), seal);
    let gap = run(&bench, &["--json"]).json_lines()[1]["partitions"][0]["gap"].clone();
    let bounds = ["about_ms", "at_least_ms", "at_most_ms"].map(|bound| gap[bound].as_u64());
    assert_eq!(bounds, [Some(6_000), Some(6_000), Some(37_000)]);
    let out = squeezed(&run(&bench, &["--partition", "a"]).out).join("\n");
    let expected = "w1 lapsed\n\
        1 partition moved from w1 to w2 after ~6s (at most 37s) without a live\nowner: a\n\n\
        owner token from (UTC) for\nw1 1 2026-11-20 12:00:00 ~1m\n\
        (no live owner) - ~2026-11-20 12:01:00 ~6s (at most 37s)";
    assert!(out.contains(expected), "{out}");
    assert!(!run(&bench, &["--partition", "b"]).out.contains("lapsed"));
}

/// Before the fix, `group history` reported that all partitions of a dead member were owned.
#[test]
fn regression_the_history_and_the_status_agree_on_live_owners() {
    let bench = story("w1");
    let summary = |verb: &str| {
        squeezed(&bench.run(verb, &[]).out).into_iter().find(|it| it.starts_with("partitions"))
    };
    for (fields, text) in [
        (json!({ "expires_at": 0.0, "ended": "resigned" }), "none has a live owner"),
        (json!({ "expires_at": 4e9 }), "all are owned"),
    ] {
        session(&bench, ("w2", TWO), fields);
        let expected = Some(format!("partitions 3; {text}"));
        assert_eq!(summary("group status"), expected);
        assert_eq!(summary("group history"), expected);
    }
}

#[test]
fn the_oldest_existing_assignment_is_shown_in_full() {
    let said = run(&story("w1"), &["--limit", "5"]);
    let expected = "\
5      2026-11-20 12:01:40  -
    (its changes are unknown; this is its state)
    1 partition owned by w2: c
    2 partitions owned by w1: a, b
    1 partition without an owner: d
";
    let told = said.out.split_inclusive('\n').skip(1).take(5).collect::<String>();
    let [mut told, mut expected] = [squeezed(&told), squeezed(expected)];
    told.sort();
    expected.sort();
    assert_eq!(told, expected, "{}", said.out);
    assert!(said.out.contains("left out   4 older; see --limit\n"), "{}", said.out);
}

#[test]
fn the_history_of_one_partition_is_shown() {
    let bench = story("w1");
    let out = run(&bench, &["--partition", "c"]).out;
    let epochs = out.lines().filter_map(|line| line.split(' ').next());
    let epochs: Vec<_> = epochs.filter(|word| !word.is_empty()).take(6).collect();
    assert_eq!(epochs, ["epoch", "1", "2", "3", "4", "9"], "{out}");
    run(&bench, &["--partition", "x"]).fails(73, &["no assignment", "a partition x"]);
}

/// Before the fix, the summary of `group history --partition` was `partitions 1; all are owned`,
/// although the group has several partitions.
#[test]
fn regression_the_summary_of_one_partition_names_its_owner() {
    let bench = story("w1");
    let summary = |partition: &str| {
        let lines = squeezed(&run(&bench, &["--partition", partition]).out);
        lines.into_iter().find(|it| it.starts_with("partition "))
    };
    let expected = |text: &str| Some(format!("partition {text}"));
    assert_eq!(summary("c"), expected("c of 3: owned by w2, whose session has ended"));
    assert!(run(&bench, &["--partition", "c"]).out.contains("w2 (session ended)"));
    assert_eq!(summary("a"), expected("a: removed; 3 partitions are left"));
    session(&bench, ("w2", TWO), json!({ "expires_at": 4e9 }));
    assert_eq!(summary("c"), expected("c of 3: owned by w2"));
    let vacant = json!([{ "name": "c" }, { "name": "d" }]);
    assign(&bench, (11, 400), 0, &[("w2", TWO)], vacant);
    assert_eq!(summary("c"), expected("c of 2: without an owner"));
}

#[test]
fn json_has_a_line_for_each_assignment_and_a_summary() {
    let told = run(&story("w1"), &["--json"]).json_lines();
    assert_eq!(told.len(), 10);
    assert_eq!(
        told[3],
        json!({
            "kind": "assignment", "epoch": 4, "created_at": "2026-11-20T12:01:10.000Z",
            "by": "w1", "by_operator": false, "coordinator": "w1", "first_known": false,
            "joined": [], "left": [], "unreadable": null,
            "partitions": [{
                "partition": "c", "number": 2, "events": ["moved"], "from": "w1",
                "from_session": ONE, "to": "w2", "to_session": TWO, "token": 4, "target": null,
                "target_session": null, "pinned": null, "barred": null, "paused": false,
                "retiring": false, "reserved_for": null,
            }],
        })
    );
    let by = |line: &Value| (line["by"].clone(), line["by_operator"].clone());
    assert_eq!(by(&told[4]), (Value::Null, json!(true)));
    assert_eq!(told[2]["joined"], json!([{ "name": "w2", "session": TWO }]));
    assert_eq!(told[6]["left"], json!([{ "name": "w1", "session": ONE, "ended": null }]));
    assert_eq!(told[6]["partitions"][1]["events"], json!(["marked", "moved"]));
    let mut all = told[9].clone();
    all["now"].take();
    assert_eq!(
        all,
        json!({
            "kind": "summary", "assignments": 9, "left_out": 0, "missing": [[7, 7]], "now": null,
            "members": 1, "partitions": 3, "without_owner": 0, "unattended": 3, "requests": 12,
        })
    );
}

#[test]
fn the_picture_has_a_row_for_each_partition_and_a_colour_for_each_owner() {
    let name = "<w\u{202e}1>";
    let bench = story(name);
    let said = run(&bench, &["--svg", "-"]);
    assert_eq!((said.code, said.err.as_str()), (0, ""), "{said:?}");
    assert_eq!(svg::without_styles(&said.out), [""; 0]);
    assert!(!said.out.contains('\u{202e}'), "{}", said.out);
    let document = Document::parse(&said.out).expect("the output is only XML");
    let titles: Vec<_> = document
        .descendants()
        .filter(|node| node.has_tag_name(("http://www.w3.org/2000/svg", "title")))
        .filter_map(|node| node.text())
        .collect();
    let of = |partition: &str| {
        let start = format!("partition {partition}: ");
        titles.iter().filter(|it| it.starts_with(&start)).copied().collect::<Vec<_>>()
    };
    let by = "<w\\u{202e}1> by token 2, from 2026-11-20 12:00:05Z, for about";
    assert_eq!(of("a"), [format!("partition a: {by} 1m 45s")]);
    assert_eq!(of("b")[0], format!("partition b: {by} 3m 15s"));
    assert_eq!(of("c")[0], format!("partition c: {by} 1m 5s"));
    assert!(of("c")[1].starts_with("partition c: w2 by token 4, from 2026-11-20 12:01:10Z, for"));
    assert!(of("c")[1].ends_with(", still") && of("d").len() == 1, "{titles:?}");
    assert!(said.out.contains(".tenure .c0{fill:"), "dark pages have separate colours");
    let file = bench.path("h.svg");
    let table = run(&bench, &["--svg", file.to_str().expect("UTF-8"), "--partition", "c"]);
    assert_eq!((table.code, table.out.contains("created (UTC)")), (0, true), "{table:?}");
    let drawn = std::fs::read_to_string(file).expect("the drawing was written");
    assert!(drawn.contains("partition c: ") && !drawn.contains("partition b: "));
    run(&bench, &["--svg", "-", "--json"]).fails(64, &["--svg -", "--json"]);
    run(&bench, &["--svg", "/none/x.svg"]).fails(71, &["/none/x.svg"]);
}

#[test]
fn a_partition_has_rows_for_its_owners_and_for_the_time_without_one() {
    let out = squeezed(&run(&story("w1"), &["--partition", "a"]).out).join("\n");
    let expected = "owner token from (UTC) for\n- - 2026-11-20 12:00:00 5s\n\
                    w1 2 2026-11-20 12:00:05 1m 45s\n- - 2026-11-20 12:01:50 1m 30s";
    assert!(out.contains(expected), "{out}");
}

/// Before the fix, the table of `group history` showed no change for an assignment that only ended
/// the reservation of a partition.
#[test]
fn regression_the_table_shows_reservations() {
    let bench = Bench::new();
    let assign = |epoch: u64, partition: Value| {
        let body = json!({
            "format": 1, "epoch": epoch, "nonce": "0123456789abcdef0123456789abcdef",
            "assignor": "sticky", "coordinator": 0, "next_number": 9,
            "kept": [{ "name": "w2\n", "ms": 60_000 }],
            "members": [{ "id": ONE, "nonce": ONE, "name": "w1", "validity_ms": 30_000 }],
            "partitions": [partition],
        });
        write(&bench, epoch, 0, &body.to_string());
    };
    let reserved = json!({ "name": "a", "token": 2, "kept": 0 });
    assign(2, json!({ "name": "a", "owner": 0, "token": 2 }));
    assign(3, reserved.clone());
    assign(4, json!({ "name": "a", "token": 2 }));
    assign(5, reserved);
    assign(6, json!({ "name": "a", "owner": 0, "token": 6 }));
    let told = run(&bench, &["--json"]).json_lines();
    let events = |line: usize| told[line]["partitions"][0]["events"].clone();
    assert_eq!(events(1), json!(["released", "reserved"]));
    assert_eq!(told[1]["partitions"][0]["reserved_for"], "w2\n");
    assert_eq!(events(2), json!(["unreserved"]));
    assert_eq!((&told[2]["by"], &told[2]["by_operator"]), (&Value::Null, &json!(false)));
    assert_eq!(events(4), json!(["granted"]));
    let out = run(&bench, &[]).out;
    assert!(out.contains("1 partition reserved for w2\\n: a\n"), "{out}");
    assert!(out.contains("  -\n    1 partition no longer reserved: a\n"), "{out}");
}

/// Only the assignments 4, 7 and 8 exist, because a compactor has deleted all others.
#[test]
fn compacted_assignments_show_only_their_outcome() {
    let bench = Bench::new();
    let (one, again) = ("33333333000000000000000000000000", &[("w1", ONE)][..]);
    assign(&bench, (4, 0), 0, again, json!([owned("a", 0, 2)]));
    assign(&bench, (7, 10), 0, again, json!([owned("a", 0, 6)]));
    assign(&bench, (8, 20), 0, &[("w1", one)], json!([owned("a", 0, 8)]));
    let out = run(&bench, &[]).out;
    assert!(out.contains("  -\n    1 partition granted to w1 again: a\n"), "{out}");
    assert!(out.contains(" 1 partition moved from w1 to w1 (session 33333333): a\n"), "{out}");
    assert!(out.contains("missing    assignments 1 to 3, assignments 5 to 6: compacted"), "{out}");
}

#[test]
fn the_output_fits_into_80_columns() {
    for name in difficult_names() {
        let bench = story(&name);
        run(&bench, &[]).fits_into_80_columns();
        bench.run("group status", &["--partitions"]).fits_into_80_columns();
        let new = json!([
            { "name": name, "owner": 0, "token": 11, "target": 1, "pinned": name, "barred": name },
            { "name": "b" },
        ]);
        assign(&bench, (11, 400), 0, &[(&name, ONE), (&name, TWO)], new);
        run(&bench, &[]).fits_into_80_columns();
        let said = bench.run("group status", &["--partitions"]);
        said.fits_into_80_columns();
        assert!(said.out.ends_with("\n…  shortened; --json prints the whole text\n"), "{said:?}");
    }
}

#[test]
fn an_unreadable_history_is_refused() {
    let bench = Bench::new();
    let said = run(&bench, &[]);
    assert_eq!((said.code, &*said.out), (0, "no group yet: its first member creates it\n"));
    let summary = &run(&bench, &["--json"]).json_lines()[0];
    assert_eq!((&summary["assignments"], &summary["requests"]), (&json!(0), &json!(1)));
    assert!(run(&bench, &["--svg", "-"]).out.contains("nothing has been owned yet"));
    write(&bench, 3, 0, "{}");
    run(&bench, &[]).fails(70, &["assignment-0000000003.json", "not an assignment"]);
    run(&bench, &["--json"]).fails(70, &["assignment-0000000003.json"]);
}
