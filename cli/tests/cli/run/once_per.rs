//! Tests of `tenure run --once-per`, and of the settings that conflict with `--once-per` and
//! `--try`.

use std::fs::{self, File};
use std::time::{Duration, SystemTime};

use serde_json::{Value, json};

use crate::bench::{Bench, Said, tenure};

/// A period that lasts from 1970 to 2069, so that all runs of a test are in the same period.
const LONG: &str = "36500d";

fn once(bench: &Bench, options: &[&str], script: &str) -> Said {
    let runs = bench.path("runs").display().to_string();
    let script = format!("echo \"$TENURE_ATTEMPT\" >>{runs}; {script}");
    let mut line = vec!["--once-per", LONG, "--validity", "3s", "--poll", "100ms", "--name", "a"];
    line.extend(options);
    line.extend(["--", "sh", "-c", &script]);
    bench.run("run", &line)
}

/// Returns the attempt number that each started CMD has written.
fn runs(bench: &Bench) -> Vec<String> {
    let text = fs::read_to_string(bench.path("runs")).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

fn record(bench: &Bench) -> Value {
    let text = fs::read_to_string(bench.path("store/once-per.json")).expect("a record");
    serde_json::from_str(text.lines().last().expect("a body")).expect("JSON")
}

/// Writes `once-per.json`, the record of the last period of a job.
fn write_record(bench: &Bench, epoch: u64, body: &str) {
    let nonce = "0".repeat(32);
    let line = json!({"tenure_object": 1, "epoch": epoch, "nonce": nonce, "written": true});
    // The field `tenure_object` must be the first one in the JSON, because readers of the record
    // require this order.
    let line = line.to_string();
    let fields = line.trim_matches(['{', '}']).replace("\"tenure_object\":1", "");
    let fields = fields.trim_matches(',').replace(",,", ",");
    bench.object("once-per.json", &format!("{{\"tenure_object\":1,{fields}}}\n{body}"));
}

fn earlier(start: &str, exit_code: Option<u8>) -> String {
    let last_completed = exit_code.filter(|code| *code == 0).map(|_| start);
    let record = json!({
        "tenure_once_per": 1, "period_start": start, "period_ms": 3_600_000, "attempts": 1,
        "candidate": "b\u{1b}", "epoch": 1, "started_at": start, "ended_at": null,
        "exit_code": exit_code, "last_completed": last_completed,
    });
    record.to_string()
}

#[test]
fn a_command_runs_once_in_a_period() {
    for layout in ["epoch-files", "single-object"] {
        let bench = Bench::new();
        let first = once(&bench, &["--layout", layout], "echo ran");
        assert_eq!((first.code, first.out.as_str()), (0, "ran\n"), "{first:?}");
        assert!(first.err.contains("1970-01-01T00:00:00Z is completed"), "{first:?}");
        let record = record(&bench);
        assert_eq!((&record["exit_code"], &record["candidate"]), (&json!(0), &json!("a")));
        assert_eq!(record["last_completed"], "1970-01-01T00:00:00Z");

        // The second run only reads the record, so it creates no epoch.
        let before = bench.objects();
        let second = once(&bench, &["--layout", layout], "echo ran");
        assert_eq!((second.code, second.out.as_str()), (0, ""), "{second:?}");
        assert!(second.err.contains("was completed by a in epoch 1"), "{second:?}");
        assert_eq!((runs(&bench), bench.objects()), (vec!["1".to_owned()], before));
    }
}

#[test]
fn the_command_has_the_period_in_its_environment() {
    let bench = Bench::new();
    let script = "echo $TENURE_PERIOD_START/$TENURE_ATTEMPT/$TENURE_LAST_COMPLETED/$TENURE_EPOCH";
    write_record(&bench, 1, &earlier("2026-01-01T00:00:00Z", Some(0)));
    let said = bench.run("run", &["--once-per", "1d", "--", "sh", "-c", script]);
    assert_eq!(said.code, 0, "{said:?}");
    let words: Vec<_> = said.out.trim().split('/').collect();
    let [start, "1", "2026-01-01T00:00:00Z", "1"] = words[..] else { panic!("{said:?}") };
    assert!(start > "2026-01-01" && start.ends_with("T00:00:00Z"), "{start}");
}

/// Before the fix, the help of `--once-per` promised exit code 0 also to the host of a failed
/// attempt.
#[test]
fn regression_the_help_of_once_per_names_the_exit_codes() {
    let bench = Bench::new();
    let (first, second) = (once(&bench, &[], "exit 3"), once(&bench, &[], "exit 3"));
    assert_eq!([first.code, second.code], [3, 0]);
    let end = "exit code 3; no attempt is left, and CMD runs again in the next period\n";
    assert!(first.err.contains(end), "{first:?}");
    let help = tenure(&["run", "--help"]).out;
    let help = help.split_whitespace().collect::<Vec<_>>().join(" ");
    let codes = "Exit with 0 if the period is completed or this host made no attempt, else with \
                 the exit code of CMD.";
    assert!(help.contains(codes), "{help}");
}

/// If CMD has succeeded but the record is missing, other hosts do not learn of the success. So the
/// exit code must not be 0.
#[test]
fn a_success_without_a_record_is_a_failure() {
    for (exit, code) in [(0, 75), (3, 3)] {
        let bench = Bench::new();
        let record = bench.path("store/once-per.json").display().to_string();
        let said = once(&bench, &[], &format!("rm {record}; exit {exit}"));
        assert_eq!(said.code, code, "{said:?}");
        assert!(said.err.contains("its end is not recorded"), "{said:?}");
    }
}

#[test]
fn unusable_records_are_refused_before_the_command_starts() {
    let bench = Bench::new();
    let refused = |code, words: &[&str]| {
        once(&bench, &[], "true").fails(code, words);
        assert_eq!(runs(&bench).len(), 0);
    };
    write_record(&bench, 1, "{}");
    refused(70, &["once-per.json", "not a record"]);
    write_record(&bench, 1, r#"{"tenure_once_per":2}"#);
    refused(70, &["once-per.json", "format 2"]);
    bench.object("once-per.json", "by hand");
    refused(70, &["once-per.json"]);
    // The record has a period in the future, because the clock of an earlier host was far ahead.
    write_record(&bench, 1, &earlier("2999-01-01T00:00:00Z", None));
    refused(73, &["once-per.json", "b\\u{1b} in epoch 1", "2999-01-01", "clock"]);
    // An operator has deleted the epoch objects of the election, but not `once-per.json`, the
    // record of its periods.
    write_record(&bench, 41, &earlier("1969-12-31T23:00:00Z", None));
    let mut line = vec!["--once-per", "1d"];
    line.extend(["--", "true"]);
    bench.run("run", &line).fails(75, &["epoch 41", "once-per.json", "tenure restore"]);
}

#[test]
fn invalid_settings_of_periods_are_refused_with_their_values() {
    let bench = Bench::new();
    fs::remove_dir(bench.path("store")).expect("the directory is empty");
    let run = |options: &[&str]| bench.run("run", &[options, &["--", "true"]].concat());
    run(&["--once-per", "999ms"]).fails(64, &["got 999ms", "at least 1s"]);
    run(&["--once-per", "1s 1us"]).fails(64, &["--once-per", "whole milliseconds"]);
    run(&["--once-per", "1h", "--period-offset", "1h"]).fails(64, &["period of 1h", "got 1h"]);
    let skip = ["--once-per", "1h", "--missed", "skip", "--tolerance", "61m"];
    run(&skip).fails(64, &["period of 1h", "got 1h 1m"]);
    let late = ["--once-per", "1h", "--missed", "run", "--tolerance", "5m"];
    run(&late).fails(64, &["--tolerance 5m", "--missed skip"]);
    for clash in [
        &["--try", "--forever"][..],
        &["--no-wait", "--forever"],
        &["--once-per", "1h", "--forever"],
        &["--busy-exit-code", "0"],
        &["--try", "--busy-exit-code", "256"],
        &["--retries", "1"],
        &["--missed", "skip"],
        &["--period-offset", "5m"],
        &["--clock-ahead-max", "5m"],
        &["--once-per", "1h", "--tolerance", "5m"],
        &["--once-per", "0s"],
        &["--once-per", "1h", "--retries", "-1"],
    ] {
        let said = run(clash);
        assert_eq!((said.code, said.out.as_str()), (64, ""), "{clash:?}: {said:?}");
    }
    assert!(!bench.path("store").exists(), "a refused command creates no file");
}

#[test]
fn the_log_reports_the_outcomes_of_periods() {
    let bench = Bench::new();
    let outcomes = |script: &str, options: &[&str]| -> Vec<String> {
        let options = [options, &["--log-format", "json"]].concat();
        let said = once(&bench, &options, script);
        let lines = said.err.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
        lines.filter_map(|line| Some(line["fields"]["outcome"].as_str()?.to_owned())).collect()
    };
    let failed = ["campaigning", "period_started", "elected", "period_failed", "resigned"];
    assert_eq!(outcomes("exit 1", &[]), failed);
    assert_eq!(outcomes("true", &[]), ["period_failed"]);
    let done = ["campaigning", "period_started", "elected", "period_completed", "resigned"];
    assert_eq!(outcomes("true", &["--retries", "1"]), done);
    assert_eq!(outcomes("true", &[]), ["period_completed"]);
}

/// Before the fix, `tenure status` did not show that the last attempt of a job had failed. Only the
/// log of the job's host showed the failure.
#[test]
fn regression_status_shows_the_period_its_host_and_its_exit_code() {
    let bench = Bench::new();
    let period = || -> Value {
        serde_json::from_str(&bench.run("status", &["--field", "period"]).out).expect("JSON")
    };
    assert_eq!(bench.json("status", &["--json"])["period"], Value::Null);
    once(&bench, &["--retries", "1"], "exit 7");
    let failed = period();
    assert_eq!(
        [&failed["state"], &failed["attempts"], &failed["candidate"], &failed["exit_code"]],
        [&json!("failed"), &json!(2), &json!("a"), &json!(7)],
        "{failed}"
    );
    let people = bench.run("status", &[]).out.replace("\n           ", " ");
    for words in ["1970-01-01T00:00:00Z", "failed with exit code 7, attempt 2 by a in epoch 2"] {
        assert!(people.contains(words), "{words:?} is not in {people}");
    }
    once(&bench, &["--retries", "2"], "true");
    let completed = period();
    assert_eq!((&completed["state"], &completed["attempts"]), (&json!("completed"), &json!(3)));
    assert_eq!(completed["last_completed"], "1970-01-01T00:00:00Z");
    // A candidate of another host wrote the record `once-per.json`, so the command escapes the text
    // of this record for the terminal.
    write_record(&bench, 9, &earlier("2026-01-01T00:00:00Z", None));
    assert_eq!(period()["state"], "unfinished");
    assert!(bench.run("status", &[]).out.contains("by b\\u{1b} in epoch 1"));
    // The status shows the state of the election even if `once-per.json` is unreadable.
    bench.object("once-per.json", "by hand");
    let status = bench.run("status", &["--json"]);
    assert!(status.code == 0 && status.err.contains("once-per.json"), "{status:?}");
    bench.run("status", &["--last-period-within", "1h"]).fails(70, &["once-per.json"]);
}

#[test]
fn history_lists_the_periods_of_a_job() {
    let bench = Bench::new();
    let mut record: Value =
        serde_json::from_str(&earlier("2026-01-01T05:00:00Z", Some(3))).expect("JSON");
    record["attempts"] = json!(4);
    let attempt =
        |name, at, code: Value| json!({"candidate": name, "started_at": at, "exit_code": code});
    record["earlier_attempts"] = json!([
        attempt("c\u{1b}", "2026-01-01T05:00:00Z", json!(7)),
        attempt("a", "2026-01-01T05:00:20Z", Value::Null),
    ]);
    record["earlier"] = json!([{
        "start": "2026-01-01T01:00:00Z", "attempts": 1, "candidate": "c", "exit_code": 0,
        "started_at": "2026-01-01T01:00:02Z", "ended_at": "2026-01-01T01:01:32Z",
    }]);
    write_record(&bench, 1, &record.to_string());
    let said = bench.run("history", &[]);
    let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
    let lines: Vec<_> = said.out.lines().map(words).collect();
    assert_eq!(
        lines[..6],
        [
            "period (UTC) host started for attempt end",
            "2026-01-01 01:00:00 c 01:00:02 1m 30s 1 completed",
            "(3 missed)",
            "2026-01-01 05:00:00 c\\u{1b} 05:00:00 - 2 exit code 7",
            "a 05:00:20 - 3 unfinished",
            "b\\u{1b} 05:00:00 - 4 exit code 3",
        ]
    );
    assert!(lines[6].ends_with("missed) until now"), "{}", lines[6]);
    assert_eq!((lines[7].as_str(), lines[8].as_str()), ("", "no process has led"));
    let said = bench.run("history", &["--json"]);
    let [first, second, summary] = said.out.lines().collect::<Vec<_>>()[..] else {
        panic!("{said:?}");
    };
    let [first, second]: [Value; 2] =
        [first, second].map(|line| serde_json::from_str(line).expect("JSON"));
    assert_eq!((&first["kind"], &first["state"]), (&json!("period"), &json!("completed")));
    assert_eq!((&second["missed_before"], &second["exit_code"]), (&json!(3), &json!(3)));
    assert_eq!(first["earlier_attempts"], Value::Null);
    assert_eq!(second["earlier_attempts"], record["earlier_attempts"]);
    assert!(summary.contains("\"summary\""), "{summary}");
}

/// Before the fix, the table did not mark the epochs in which a host only waited.
#[test]
fn regression_the_epochs_without_an_attempt_are_marked() {
    let bench = Bench::new();
    for (epoch, name) in (1..).zip(["a", "c", "d", "a", "b", "c"]) {
        let [from, until] = [0, 59].map(|second| format!("2026-01-01T01:0{epoch}:{second:02}Z"));
        let body = json!({
            "expired": true, "validity_ms": 30_000, "format": 1, "candidate": name,
            "nonce": "0".repeat(32), "heartbeat": 9, "elected_at": from, "renewed_at": until,
            "sealed_at": until, "sealed_by": name, "ended": "resigned",
        });
        bench.epoch(epoch, &body.to_string());
    }
    let mut record: Value =
        serde_json::from_str(&earlier("2026-01-01T02:00:00Z", Some(0))).expect("JSON");
    record["epoch"] = json!(5);
    record["earlier"] = json!([{
        "start": "2026-01-01T01:00:00Z", "attempts": 1, "candidate": "c", "exit_code": 0,
        "started_at": "2026-01-01T01:02:02Z", "ended_at": "2026-01-01T01:02:32Z",
    }]);
    let first = json!([{
        "candidate": "d", "started_at": "2026-01-01T01:03:02Z", "exit_code": 1,
    }]);
    // If the record omits the first of two attempts, epoch 3 or 4 may have made this attempt.
    for (attempts, earlier, marked) in
        [(1, json!([]), &[3, 4, 6][..]), (2, json!([]), &[6]), (2, first, &[4, 6])]
    {
        (record["attempts"], record["earlier_attempts"]) = (json!(attempts), earlier);
        write_record(&bench, 5, &record.to_string());
        let out = bench.run("history", &[]).out;
        let shown = out.lines().filter(|line| line.ends_with(" resigned; no attempt"));
        let shown: Vec<u64> = shown.map(|line| line[..1].parse().expect("an epoch")).collect();
        assert_eq!(shown, marked, "{out}");
        let told = bench.run("history", &["--json"]).json_lines();
        let told = told.iter().filter(|line| line["attempted"] == false);
        assert!(told.map(|line| line["epoch"].as_u64()).eq(marked.iter().map(|it| Some(*it))));
    }
}

/// If the host of an attempt dies, its lease lapses. Before the fix, the status nevertheless showed
/// the attempt as running until another host sealed the epoch of the dead host.
#[test]
fn regression_an_attempt_is_unfinished_once_its_lease_has_lapsed() {
    let bench = Bench::new();
    let body = json!({
        "expired": false, "validity_ms": 3_600_000, "format": 1, "candidate": "b",
        "nonce": "0".repeat(32), "heartbeat": 4,
    });
    bench.epoch(1, &body.to_string());
    write_record(&bench, 1, &earlier("2026-01-01T00:00:00Z", None));
    let state = || bench.json("status", &["--json"])["period"]["state"].clone();
    assert_eq!(state(), "running");
    let file = File::options().write(true).open(bench.path("store/lock-0000000001.json"));
    let written = SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000);
    file.expect("the epoch object").set_modified(written).expect("dates");
    assert_eq!(state(), "unfinished");
}

#[test]
fn the_exit_code_shows_whether_a_recent_period_was_completed() {
    let bench = Bench::new();
    let code = |within: &str| {
        let alone = bench.run("status", &["--last-period-within", within]);
        let both = bench.run("status", &["--exit-code", "--last-period-within", within]);
        assert_eq!(alone.code, both.code, "{alone:?}");
        alone.code
    };
    assert_eq!(code("36500d"), 1, "no period was begun");
    let run = bench.run("run", &["--once-per", "1d", "--", "false"]);
    assert_eq!((run.code, code("26h")), (1, 1), "{run:?}");
    let run = bench.run("run", &["--once-per", "1d", "--retries", "1", "--", "true"]);
    // With `--last-period-within`, the exit code depends only on the last period, and not on the
    // sealed epoch.
    assert_eq!((run.code, code("26h"), code("1ms")), (0, 0, 1), "{run:?}");
    assert_eq!(bench.run("status", &["--exit-code"]).code, 1);
    let late = bench.run("status", &["--last-period-within", "1ms"]);
    assert_eq!(late.err, "tenure: no completed period began within 1ms\n");
}

#[test]
fn regression_the_next_run_reports_missed_periods() {
    let bench = Bench::new();
    write_record(&bench, 1, &earlier("2026-01-01T00:00:00Z", Some(0)));
    let run = bench.run("run", &["--once-per", "1d", "--log-format", "json", "--", "true"]);
    assert_eq!(run.code, 0, "{run:?}");
    let line = run.err.lines().find(|line| line.contains("periods_missed")).expect("a warning");
    let line: Value = serde_json::from_str(line).expect("JSON");
    assert_eq!(line["level"], "WARN");
    let message = line["fields"]["message"].as_str().expect("text");
    assert!(
        message.contains("were missed") && message.contains("2026-01-01T00:00:00Z"),
        "{message}"
    );
    let next = bench.run("run", &["--once-per", "1d", "--period-offset", "1ms", "--", "true"]);
    assert!(next.code == 0 && !next.err.contains("missed"), "{next:?}");
}

#[test]
fn regression_the_period_is_reported_before_the_wait_for_a_predecessor() {
    let bench = Bench::new();
    let nonce = "a530ea12f742f371bcbcb23b4f9a616c";
    bench.epoch(
        1,
        &format!(r#"{{"expired":false,"validity_ms":7200000,"candidate":"a","nonce":"{nonce}"}}"#),
    );
    let options = [
        "--once-per",
        "1s",
        "--unique-name",
        "--name",
        "a",
        "--validity",
        "60s",
        "--grace",
        "3s",
        "--",
        "sh",
        "-c",
        "echo $TENURE_PERIOD_START",
    ];
    let run = bench.run("run", &options);
    assert_eq!(run.code, 0, "{run:?}");
    let waits = run.err.lines().find(|line| line.contains("a predecessor with this name"));
    let waits = waits.and_then(|line| line.split(' ').next()).expect("the run waits");
    assert!(run.out.trim() <= waits, "period {} began after the wait of {waits}", run.out);
}
