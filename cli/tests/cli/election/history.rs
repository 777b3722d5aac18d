//! Tests of `tenure history`.

use std::fs::{self, File};

use chrono::{DateTime, SecondsFormat, TimeDelta, Utc};
use roxmltree::Document;
use serde_json::{Value, json};
use tenure::Process;

use crate::bench::{Bench, difficult_names};

const NOON: &str = "2026-11-20T12:00:00Z";

fn noon() -> DateTime<Utc> {
    NOON.parse().expect("a time")
}

/// Formats the time at this number of seconds after noon.
fn time(seconds: i64) -> String {
    written(noon(), seconds).to_rfc3339_opts(SecondsFormat::Millis, true)
}

fn written(start: DateTime<Utc>, seconds: i64) -> DateTime<Utc> {
    start + TimeDelta::seconds(seconds)
}

/// Writes an epoch object with this modification time.
fn write(bench: &Bench, epoch: u64, written: DateTime<Utc>, body: &str) {
    bench.epoch(epoch, body);
    let path = bench.path("store").join(format!("lock-{epoch:010}.json"));
    let file = File::options().write(true).open(path).expect("the object exists");
    file.set_modified(written.into()).expect("the file system stores dates");
}

/// Writes a sealed epoch. `at` has the times of the election, of the last renewal and of the seal,
/// in seconds after `start`.
fn seal(
    (bench, start): (&Bench, DateTime<Utc>),
    epoch: u64,
    name: &str,
    at: [i64; 3],
    (ended, by): (&str, &str),
) {
    let [elected_at, renewed_at, sealed_at] = at.map(|seconds| written(start, seconds));
    let body = json!({
        "expired": true, "validity_ms": 30_000, "format": 1, "candidate": name,
        "nonce": "0123456789abcdef0123456789abcdef", "heartbeat": 9, "elected_at": elected_at,
        "renewed_at": renewed_at, "sealed_at": sealed_at, "sealed_by": by, "ended": ended,
    });
    write(bench, epoch, sealed_at, &body.to_string());
}

/// Writes a history: anna resigns, ben dies, cleo is deposed, one object is nonsense, and dora
/// resigns. The epochs 1 to 90 were compacted.
fn story(start: DateTime<Utc>) -> Bench {
    let bench = Bench::new();
    let here = (&bench, start);
    seal(here, 91, "anna", [0, 55, 60], ("resigned", "anna"));
    seal(here, 92, "ben", [65, 120, 152], ("lapsed", "cleo"));
    seal(here, 93, "cleo", [155, 295, 300], ("deposed", "operator"));
    write(&bench, 94, written(start, 310), "{}");
    seal(here, 95, "dora", [320, 395, 400], ("resigned", "dora"));
    bench
}

#[test]
fn the_table_shows_leaders_and_gaps() {
    let said = story(noon()).run("history", &[]);
    assert_eq!((said.code, said.err.as_str()), (0, ""));
    let lines: Vec<&str> = said.out.lines().collect();
    let squeezed = |line: &&str| line.split_whitespace().collect::<Vec<_>>().join(" ");
    assert_eq!(
        lines[..8].iter().map(squeezed).collect::<Vec<_>>(),
        [
            "epoch leader from (UTC) for end",
            "91 anna ~2026-11-20 12:00:00 1m resigned",
            "(vacant) ~2026-11-20 12:01:00 ~5s at most 38s",
            "92 ben ~2026-11-20 12:01:05 ~1m 25s lapsed; sealed by cleo",
            "(vacant) ~2026-11-20 12:02:30 ~5s at most 41s",
            "93 cleo ~2026-11-20 12:02:35 2m 25s deposed by operator",
            "94 - - - unreadable: its body is not a r…",
            "95 dora ~2026-11-20 12:05:20 1m 20s resigned",
        ]
    );
    // The last gap lasts until now, so its length is not fixed.
    assert!(lines[8].contains("(vacant)") && lines[8].ends_with("  until now"), "{}", lines[8]);
    let rest = lines[9..].join("\n");
    assert!(rest.starts_with("~  an estimate; --json prints its bounds\n…  shortened;"), "{rest}");
    for told in [
        "\nvacant     ~",
        "\nlongest    ",
        ", after epoch 95\n",
        "\nunknown    ~20s (at most 21s): epochs are missing or unreadable\n",
        "\nmissing    epochs 1 to 90: compacted, or skipped by a restore\n",
        "\nrequests   7",
    ] {
        assert!(rest.contains(told), "{told:?} is not in {rest}");
    }
}

/// The store dates writes in whole seconds. Before the fix, the table nevertheless showed the
/// lengths `8.436s` and `300ms`, and the start `12:00:00` instead of `12:00:01`.
#[test]
fn regression_the_table_has_whole_seconds() {
    let bench = Bench::new();
    for (epoch, name, elected, sealed) in [(1, "anna", 1_050, 9_486), (2, "ben", 9_800, 10_100)] {
        let at = |ms: i64| noon() + TimeDelta::milliseconds(ms);
        let body = json!({
            "expired": true, "validity_ms": 30_000, "format": 1, "candidate": name,
            "nonce": "0123456789abcdef0123456789abcdef", "heartbeat": 9, "ended": "resigned",
            "elected_at": at(elected), "renewed_at": at(elected), "sealed_at": at(sealed),
            "sealed_by": name,
        });
        write(&bench, epoch, written(noon(), sealed / 1_000), &body.to_string());
    }
    let out = bench.run("history", &[]).out;
    let squeezed = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
    assert_eq!(
        out.lines().skip(1).take(3).map(squeezed).collect::<Vec<_>>(),
        [
            "1 anna ~2026-11-20 12:00:01 8s resigned",
            "(vacant) ~2026-11-20 12:00:09 ~1s at most 2s",
            "2 ben ~2026-11-20 12:00:09 0s resigned",
        ]
    );
    assert!(out.contains("\nled        ~9s (at least 6s, at most 11s)\n"), "{out}");
    assert!(!out.contains("ms"), "{out}");
    let told = bench.run("history", &["--json"]).json_lines();
    assert_eq!((&told[0]["led_ms"], &told[1]["led_ms"]), (&json!(8_436), &json!(300)));
}

/// Before the fix, the summary had `longest ~5s`, although the longest time without a leader may
/// have been 36 s. The summary also showed the total of such times without bounds.
#[test]
fn regression_the_summary_bounds_the_time_without_a_leader() {
    let bench = Bench::new();
    let start = Process::system().now().time_of_day().timestamp() - 200;
    let start = DateTime::from_timestamp(start, 0).expect("a time");
    seal((&bench, start), 1, "ben", [0, 55, 87], ("lapsed", "cleo"));
    let body = json!({
        "expired": false, "validity_ms": 3_600_000, "format": 1, "candidate": "cleo",
        "nonce": "0123456789abcdef0123456789abcdef", "heartbeat": 9,
        "elected_at": written(start, 90), "renewed_at": written(start, 100),
    });
    write(&bench, 2, written(start, 100), &body.to_string());
    let out = bench.run("history", &[]).out;
    assert!(out.contains("\nlongest    ~5s (at most 36s), after epoch 1\n"), "{out}");
    let (_, share) = out.split_once("\nvacant     ~5s (at most 36s), ").expect("the bounds");
    let share: Vec<_> = share.split(' ').take(5).collect();
    let bounds = [share[0], share[2]].map(|bound| bound.parse::<f64>().expect("a percentage"));
    assert!(bounds[0] <= 1.0 && bounds[0] < bounds[1] && bounds[1] <= 18.0, "{out}");
    assert_eq!((share[1], share[3], share[4]), ("to", "%", "of"));
}

#[test]
fn json_separates_recorded_and_derived_values() {
    let told = story(noon()).run("history", &["--json"]).json_lines();
    assert_eq!(told.len(), 6);
    let expected = json!({
        "kind": "epoch", "epoch": 92, "candidate": "ben", "end": "lapsed", "lapsed": false,
        "sealed_by": "cleo",
        "from": { "at": time(65), "exact": false, "earliest": time(60), "latest": time(98) },
        "until": { "at": time(150), "exact": false, "earliest": time(120), "latest": time(150) },
        "led_ms": 85_000, "led_at_least_ms": 22_000, "led_at_most_ms": 90_000,
        "validity_ms": 30_000, "heartbeat": 9,
        "recorded": {
            "elected_at": time(65), "renewed_at": time(120), "sealed_at": time(152),
            "written_at": time(152),
        },
        "unreadable": null,
    });
    assert_eq!(told[1], expected);
    assert_eq!((&told[3]["end"], &told[3]["led_ms"]), (&"unreadable".into(), &Value::Null));
    let summary = &told[5];
    assert_eq!((&summary["kind"], &summary["epochs"]), (&"summary".into(), &5.into()));
    assert_eq!(summary["missing"], json!([[1, 90]]));
    assert_eq!(
        (&summary["unknown"]["about_ms"], &summary["requests"]),
        (&20_000.into(), &7.into())
    );
    // The dates have whole seconds, so anna and dora may each have led for up to one second longer
    // than shown.
    assert_eq!(summary["led"]["about_ms"], 60_000 + 85_000 + 145_000 + 80_000);
    let (least, most) = (&summary["led"]["at_least_ms"], &summary["led"]["at_most_ms"]);
    assert!(least.as_u64() < Some(370_000) && most.as_u64() > Some(372_000), "{summary}");
    assert_eq!(summary["longest_gap"]["after"], 95);
    assert_eq!(summary["longest_gap"]["before"], Value::Null);
}

#[test]
fn the_history_may_be_limited_to_the_newest_epochs() {
    let bench = story(noon());
    let told = bench.run("history", &["--json", "--limit", "2"]).json_lines();
    assert_eq!((&told[0]["epoch"], told.len()), (&94.into(), 3));
    assert_eq!((&told[2]["left_out"], &told[2]["requests"]), (&3.into(), &4.into()));
    // The newest epoch ended before the time of `--since`, but the history always shows the newest
    // epoch.
    let told = bench.run("history", &["--json", "--since", "1s"]).json_lines();
    assert_eq!((&told[0]["epoch"], told.len()), (&95.into(), 2));
    for wrong in [&["--limit", "0"][..], &["--limit", "100001"], &["--since", "0s"]] {
        assert_eq!(bench.run("history", wrong).code, 64, "{wrong:?}");
    }
}

#[test]
fn the_picture_is_xml_and_shows_the_leaders() {
    // The drawing ends at the present time, and old epochs would be too narrow in it. So the
    // history of this test begins shortly before the present time.
    let start = Process::system().now().time_of_day() - TimeDelta::seconds(510);
    let bench = story(start);
    seal((&bench, start), 96, "<script>&\u{202e}", [410, 490, 500], ("resigned", "x"));
    let file = bench.path("history.svg");
    let options = ["--svg", file.to_str().expect("UTF-8")];
    assert_eq!(bench.run("history", &options).code, 0);
    let svg = fs::read_to_string(&file).expect("the command has written the drawing");
    let document = Document::parse(&svg).expect("XML");
    let titles: Vec<&str> = document.descendants().filter_map(|node| node.text()).collect();
    for told in [
        "vacant for 5s (at least 0s, at most 38s)",
        "<script>&\\u{202e}",
        "unknown: epochs of this time are missing or cannot be read",
    ] {
        assert!(titles.contains(&told), "{told:?} is not in {titles:#?}");
    }
    let ben = titles.iter().find(|title| title.starts_with("epoch 92: ben, from "));
    assert!(ben.is_some_and(|tip| tip.ends_with(", for about 1m 25s, lapsed by cleo")), "{ben:?}");
    let nowhere = bench.path("no/such/folder.svg");
    let options = ["--svg", nowhere.to_str().expect("UTF-8")];
    bench.run("history", &options).fails(71, &["cannot write", "folder.svg"]);
}

#[test]
fn a_dash_draws_to_stdout_without_other_output() {
    let bench = story(noon());
    let said = bench.run("history", &["--svg", "-"]);
    assert_eq!((said.code, said.err.as_str()), (0, ""), "{said:?}");
    let document = Document::parse(&said.out).expect("the output is only XML");
    assert!(document.root_element().has_tag_name(("http://www.w3.org/2000/svg", "svg")));
    bench.run("history", &["--svg", "-", "--json"]).fails(64, &["--svg -", "--json"]);
    assert!(!std::path::Path::new("-").exists());
}

/// Before the fix, the table took the number of characters as the width of a name, but some
/// characters fill two columns.
#[test]
fn regression_wide_names_keep_columns_aligned() {
    let bench = Bench::new();
    let here = (&bench, noon());
    let names = ["漢字漢字の名前", "anna", &"選".repeat(60)];
    for (epoch, name) in (1..).zip(names) {
        let from = 100 * epoch as i64;
        seal(here, epoch, name, [from, from + 55, from + 60], ("resigned", name));
    }
    let said = bench.run("history", &[]);
    let columns = |line: &str| {
        let (before, _) = line.split_once("~2026").expect("a begin");
        before.chars().map(|c| if c > '\u{2e80}' { 2 } else { 1 }).sum::<usize>()
    };
    let rows: Vec<_> = said.out.lines().filter(|line| line.contains("resigned")).collect();
    let places: Vec<usize> = rows.iter().map(|line| columns(line)).collect();
    assert_eq!(places, [places[0]; 3], "{}", said.out);
    said.fits_into_80_columns();
    assert!(said.out.contains("選…"), "a long name is shortened: {}", said.out);
}

#[test]
fn the_output_fits_into_80_columns() {
    for name in difficult_names() {
        let bench = story(noon());
        seal((&bench, noon()), 9_999_999_990, &name, [410, 490, 500], ("lapsed", &name));
        seal((&bench, noon()), 9_999_999_991, &name, [510, 590, 600], ("deposed", "x"));
        bench.run("status", &[]).fits_into_80_columns();
        bench.run("history", &[]).fits_into_80_columns();
        let reason = ["why"; 200].join(" ");
        let options = ["--reason", &reason, "--force", "--name", "y"];
        assert_eq!(bench.run("depose", &options).code, 0);
        let (status, history) = (bench.run("status", &[]), bench.run("history", &[]));
        status.fits_into_80_columns();
        history.fits_into_80_columns();
        let cut = ["state      vacant: deposed as dead by y (why why", "\n…  shortened"];
        assert!(cut.iter().all(|text| status.out.contains(text)), "{}", status.out);
        let data = "d".repeat(300);
        let options = ["--name", "a", "--data", &format!("\"{data}\""), "--", "true"];
        assert_eq!(bench.run("run", &options).code, 0);
        bench.run("status", &[]).fits_into_80_columns();
    }
}

/// With `--once-per`, no process leads from the end of a run until the next period. `tenure
/// history` does not show this time as a gap.
#[test]
fn the_gaps_of_a_job_are_not_shown() {
    let bench = story(noon());
    let gaps = |bench: &Bench| {
        let (table, svg) = (bench.run("history", &[]).out, bench.run("history", &["--svg", "-"]));
        (table.contains("vacant"), table.contains("longest"), svg.out.contains("vacant for"))
    };
    assert_eq!(gaps(&bench), (true, true, true));
    let options = ["--once-per", "1d", "--name", "eve", "--", "true"];
    assert_eq!(bench.run("run", &options).code, 0);
    assert_eq!(gaps(&bench), (false, false, false));
    assert_eq!(bench.run("history", &["--json"]).json_lines()[7]["longest_gap"]["after"], 95);
}

#[test]
fn a_vacant_election_has_no_history() {
    let bench = Bench::new();
    assert_eq!(bench.run("history", &[]).out, "no process has led\n");
    let told = bench.run("history", &["--json"]).json_lines();
    assert_eq!(
        (told.len(), &told[0]["epochs"], &told[0]["longest_gap"]),
        (1, &0.into(), &Value::Null)
    );
    assert_eq!(bench.objects(), [""; 0]);
}

#[test]
fn an_unreadable_history_is_refused() {
    let bench = Bench::new();
    bench.epoch(6, "{}");
    bench.epoch(7, "");
    bench.run("history", &[]).fails(70, &["lock-0000000007.json", "empty"]);
    bench.run("history", &["--json"]).fails(70, &["lock-0000000007.json", "empty"]);
}

#[test]
fn a_single_object_reports_that_it_keeps_no_history() {
    let bench = Bench::new();
    let single = ["--layout", "single-object"];
    assert_eq!(bench.run("history", &single).out, "no process has led\n");
    for _ in 0..3 {
        assert_eq!(
            bench.run("run", &[&single[..], &["--name", "a", "--", "true"]].concat()).code,
            0
        );
    }
    let said = bench.run("history", &single);
    assert_eq!((said.code, said.err.as_str()), (0, ""), "{said:?}");
    assert!(said.out.contains("\n3      a "), "{said:?}");
    assert!(said.out.contains("\nnote       a single object keeps no history: "), "{said:?}");
    let told = bench.run("history", &[&single[..], &["--json"]].concat()).json_lines();
    assert_eq!((&told[0]["epoch"], &told[1]["missing"]), (&3.into(), &json!([[1, 2]])));
    bench.run("history", &[]).fails(64, &["--layout single-object"]);
    fs::write(bench.path("store").join("lock.json"), "{}").expect("a file");
    bench.run("history", &single).fails(70, &["lock.json"]);
}

#[test]
fn the_history_shows_elections_that_took_place() {
    let bench = Bench::new();
    for name in ["anna", "ben", "anna"] {
        assert_eq!(bench.run("run", &["--name", name, "--", "true"]).code, 0);
    }
    let told = bench.run("history", &["--json"]).json_lines();
    let told: Vec<_> = told.iter().map(|line| (&line["candidate"], &line["end"])).collect();
    let resigned = Value::from("resigned");
    let expected = ["anna".into(), "ben".into(), "anna".into()];
    let expected: Vec<(&Value, &Value)> = expected.iter().map(|name| (name, &resigned)).collect();
    assert_eq!(told[..3], expected);
}
