//! Tests of `tenure watch --exec`.

use std::fs;

use super::*;
use crate::bench::tenure;
use tenure_testkit::command::{eventually, number_in, runs};

/// Returns the lines of a file in the folder of the bench.
fn lines(bench: &Bench, name: &str) -> Vec<String> {
    let text = fs::read_to_string(bench.path(name)).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

/// Starts `tenure watch --exec` with this command. The variable `DIR` is the folder of the bench.
fn watch(bench: &Bench, command: &str) -> Watching {
    let dir = bench.path("").display().to_string();
    // `tenure watch` must replace this inherited variable.
    let env = [("DIR", dir), ("TENURE_CANDIDATE", "inherited".to_owned())];
    Watching::with(&env, &bench.url(), &["--exec", command])
}

const TELL: &str = "printf '%s|%s|%s|%s|' \"$TENURE_STATE\" \"$TENURE_EPOCH\" \
    \"$TENURE_CANDIDATE\" \"$TENURE_DATA\" >>\"$DIR/aside-log\"; cat >>\"$DIR/aside-log\";\
    cp \"$DIR/aside-log\" \"$DIR/aside-copy\"; mv \"$DIR/aside-copy\" \"$DIR/log\"";

#[test]
fn cmd_gets_each_change_in_its_environment_and_as_json() {
    let bench = Bench::new();
    let mut watching = watch(&bench, TELL);
    watching.tells("vacant");
    eventually("CMD has run", || lines(&bench, "log").len() == 1);
    // The values are escaped, because a variable cannot contain a NUL, and a terminal would execute
    // an escape sequence.
    bench.epoch(3, &HELD.replace(r#""a""#, r#""a\u001b[2J\u0000$(x)""#));
    assert!(watching.line().ends_with("a\\u{1b}[2J\\u{0}$(x) leads epoch 3"));
    eventually("CMD has run", || lines(&bench, "log").len() == 2);
    let [vacant, held] = &lines(&bench, "log")[..] else { panic!("two lines") };
    let json = vacant.strip_prefix("vacant||||").unwrap_or_else(|| panic!("{vacant}"));
    let json: Value = serde_json::from_str(json).expect("CMD reads one JSON object");
    assert_eq!((&json["state"], &json["epoch"]), (&json!("vacant"), &Value::Null));
    let start = r#"held|3|a\u{1b}[2J\u{0}$(x)|{"address":"10.0.0.7"}|"#;
    let json = held.strip_prefix(start).unwrap_or_else(|| panic!("{held}"));
    let json: Value = serde_json::from_str(json).expect("CMD reads one JSON object");
    assert_eq!(json["candidate"], "a\u{1b}[2J\0$(x)");
    assert_eq!(json["data"], json!({"address": "10.0.0.7"}));
    watching.ends(Signal::SIGTERM);
}

/// Linux limits the length of a variable, and refuses to start a process with a longer variable. So
/// CMD gets long data only in the JSON on its input.
#[test]
fn data_that_exceeds_the_environment_is_only_in_the_json() {
    let bench = Bench::new();
    bench.epoch(3, &HELD.replace("10.0.0.7", &"\u{202e}".repeat(20_000)));
    let command = "echo \"$TENURE_EPOCH:${#TENURE_DATA}:$(wc -c)\" >>\"$DIR/log\"";
    let mut watching = watch(&bench, command);
    watching.tells("a leads epoch 3");
    eventually("CMD has run", || lines(&bench, "log").len() == 1);
    let line = lines(&bench, "log").remove(0);
    let bytes = line.strip_prefix("3:0:").and_then(|bytes| bytes.trim().parse::<u64>().ok());
    assert!(bytes.is_some_and(|bytes| bytes > 120_000), "{line}");
    watching.ends(Signal::SIGTERM);
}

#[test]
fn only_one_cmd_runs_at_a_time_and_then_one_for_the_newest_change() {
    let bench = Bench::new();
    let command = "echo \"begins $TENURE_STATE $TENURE_EPOCH\" >>\"$DIR/log\"
        until test -e \"$DIR/go\"; do sleep 0.05; done
        echo ends >>\"$DIR/log\"";
    let mut watching = watch(&bench, command);
    watching.tells("vacant");
    eventually("CMD runs", || lines(&bench, "log") == ["begins vacant "]);
    bench.epoch(3, HELD);
    watching.tells("a leads epoch 3");
    bench.epoch(3, SEALED);
    watching.tells("vacant");
    bench.epoch(4, &HELD.replace(r#""a""#, r#""b""#));
    watching.tells("b leads epoch 4");
    assert_eq!(lines(&bench, "log"), ["begins vacant "]);
    fs::write(bench.path("go"), "").expect("a file");
    let both = ["begins vacant ", "ends", "begins held 4", "ends"];
    eventually("CMD has run for the newest change", || lines(&bench, "log") == both);
    // A change after the end of CMD starts CMD again.
    bench.epoch(4, SEALED);
    watching.tells("vacant");
    let all = [&both[..], &["begins vacant ", "ends"]].concat();
    eventually("CMD has run again", || lines(&bench, "log") == all);
    watching.ends(Signal::SIGTERM);
}

#[test]
fn a_failure_of_cmd_is_logged_and_does_not_end_the_watch() {
    let bench = Bench::new();
    // CMD does not read this long object from its standard input. Even so, the watch must continue.
    bench.epoch(3, &HELD.replace("10.0.0.7", &"\u{202e}".repeat(15_000)));
    let command = "echo \"$TENURE_STATE\" >>\"$DIR/log\"; \
        test \"$TENURE_STATE\" = held && exit 3; kill -KILL $$";
    let mut watching = watch(&bench, command);
    watching.tells("a leads epoch 3");
    eventually("CMD has run", || lines(&bench, "log") == ["held"]);
    bench.epoch(3, SEALED);
    watching.tells("vacant");
    eventually("CMD has run again", || lines(&bench, "log") == ["held", "vacant"]);
    bench.epoch(4, HELD);
    watching.tells("a leads epoch 4");
    eventually("CMD has run again", || lines(&bench, "log").len() == 3);
    let stderr = watching.0.stderr.take().expect("the output is a pipe");
    let mut complaints = BufReader::new(stderr).lines().map(|line| line.expect("text"));
    let pid = watching.0.id();
    for why in ["(epoch 3): exit status: 3", "(vacant): signal: 9 (SIGKILL)", "(epoch 4): exit"] {
        let line = with_deadline(pid, || complaints.next()).expect("a line");
        assert!(line.contains(&format!("tenure: WARN CMD of --exec failed {why}")), "{line}");
    }
    watching.ends(Signal::SIGINT);
}

/// CMD and its children get SIGTERM, and SIGKILL if they ignore SIGTERM.
#[test]
fn the_end_of_the_watch_ends_the_process_group_of_cmd() {
    for (trap, tells) in
        [("trap 'echo >\"$DIR/term\"; exit' TERM;", true), ("trap '' TERM;", false)]
    {
        let bench = Bench::new();
        bench.epoch(3, HELD);
        let command = format!("{trap} sleep 1000 & echo $! >\"$DIR/pid\"; wait; sleep 1000");
        let mut watching = watch(&bench, &command);
        watching.tells("a leads epoch 3");
        let sleep = number_in(&bench.path("pid"));
        // The watch would start CMD for this change only after the earlier CMD has ended. The
        // signal arrives first, so the watch must not start CMD again.
        bench.epoch(3, SEALED);
        watching.tells("vacant");
        fs::remove_file(bench.path("pid")).expect("the file exists");
        watching.ends(Signal::SIGTERM);
        eventually("the process has exited", || !runs(sleep));
        assert!(!bench.path("pid").exists(), "CMD has run again");
        assert_eq!(bench.path("term").exists(), tells);
    }
}

/// Before the fix, the watch ended as soon as CMD had exited after SIGTERM, and the children of CMD
/// survived.
#[test]
fn regression_children_of_cmd_do_not_outlive_the_watch() {
    let bench = Bench::new();
    bench.epoch(3, HELD);
    let command = "(trap '' TERM; echo >\"$DIR/deaf\"; exec sleep 1000) >&- 2>&- & \
        until test -e \"$DIR/deaf\"; do sleep 0.05; done; echo $! >\"$DIR/pid\"; wait";
    let mut watching = watch(&bench, command);
    watching.tells("a leads epoch 3");
    let sleep = Killed(number_in(&bench.path("pid")));
    watching.ends(Signal::SIGTERM);
    // The process `sleep` exits some time after it gets the signal, so the test polls.
    eventually("the process has exited", || !runs(sleep.0));
}

/// The ID of a process. The drop of this value kills the process, even if the test fails.
struct Killed(u32);

impl Drop for Killed {
    fn drop(&mut self) {
        if runs(self.0) {
            let process = nix::unistd::Pid::from_raw(self.0.cast_signed());
            let _ = nix::sys::signal::kill(process, Signal::SIGKILL);
        }
    }
}

#[test]
fn a_record_of_a_later_version_ends_cmd_and_the_watch() {
    let bench = Bench::new();
    bench.epoch(3, HELD);
    let mut watching = watch(&bench, "echo $$ >\"$DIR/pid\"; sleep 1000");
    watching.tells("a leads epoch 3");
    let cmd = number_in(&bench.path("pid"));
    bench.epoch(3, r#"{"expired":false,"format":3}"#);
    assert_eq!(ended(&mut watching.0).code(), Some(70));
    eventually("the process has exited", || !runs(cmd));
}

#[test]
fn an_empty_command_is_refused() {
    let said = tenure(&["watch", "--store", "file:///tmp/none", "--exec", " "]);
    assert_eq!((said.code, said.out.as_str()), (64, ""), "{said:?}");
    assert!(said.err.contains("--exec"), "{said:?}");
}
