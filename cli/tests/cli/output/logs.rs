//! Tests of `--log-format json`, with which each line on stderr is JSON.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;

use serde_json::Value;

use crate::bench::{Bench, Said, command, said, tenure};

/// Parses the lines on stderr. Asserts that each line has the fields that log collectors need.
#[track_caller]
fn lines(said: &Said) -> Vec<Value> {
    let parse = |line: &str| {
        let line: Value = serde_json::from_str(line).unwrap_or_else(|why| {
            panic!("a line is not JSON ({why}): {line:?}\nin {said:?}");
        });
        for (name, part) in [("timestamp", "T"), ("level", ""), ("target", "tenure")] {
            let text = line[name].as_str().unwrap_or_else(|| panic!("no {name} in {line}"));
            assert!(text.contains(part), "{name} in {line}");
        }
        assert!(line["fields"]["message"].is_string(), "{line}");
        line
    };
    // All lines have their keys in the same order.
    for line in said.err.lines() {
        let places =
            ["timestamp", "level", "fields", "target"].map(|key| line.find(&format!("\"{key}\":")));
        assert!(places.is_sorted() && places[0] == Some(1), "{line}");
    }
    said.err.lines().map(parse).collect()
}

#[track_caller]
fn outcomes(said: &Said) -> Vec<String> {
    let word = |line: Value| line["fields"]["outcome"].as_str().unwrap_or("-").to_owned();
    lines(said).into_iter().map(word).collect()
}

fn of_span(line: &Value, field: &str) -> Value {
    let spans = line["spans"].as_array().expect("spans");
    spans.iter().map(|span| span[field].clone()).find(|value| !value.is_null()).unwrap_or_default()
}

#[test]
fn a_successful_run_logs_its_events() {
    let bench = Bench::new();
    let name = "größe \"7\"";
    let said = bench.run("run", &["--log-format", "json", "--name", name, "--", "true"]);
    assert_eq!((said.code, said.out.as_str()), (0, ""));
    assert_eq!(outcomes(&said), ["campaigning", "elected", "resigned"]);
    for line in lines(&said) {
        assert_eq!(of_span(&line, "candidate"), name);
        assert_eq!(of_span(&line, "store"), *bench.url());
    }
    assert_eq!(of_span(&lines(&said)[1], "epoch"), 1);
}

#[test]
fn a_lost_lease_is_logged() {
    let deaf = "trap '' TERM; while :; do sleep 1; done";
    for (then, expected) in [("exec sleep 60", "terminated"), (deaf, "killed")] {
        let bench = Bench::new();
        let gone = format!("rm -r '{}'; {then}", bench.path("store").display());
        let options = ["--log-format=json", "--validity", "6s", "--", "sh", "-c", &gone];
        let said = bench.run("run", &options);
        assert_eq!(said.code, 75, "{said:?}");
        let outcomes = outcomes(&said);
        assert_eq!(outcomes[..2], ["campaigning", "elected"], "{said:?}");
        assert_eq!(outcomes.last().map(String::as_str), Some("failed"), "{said:?}");
        assert!(outcomes.iter().any(|word| word == expected), "{said:?}");
        let all = lines(&said);
        assert_eq!(all.last().expect("a line")["fields"]["exit_code"], 75);
        // Events of the library have the epoch as a field. Other lines have the epoch in a span.
        let epoch = |line: &Value| match line["target"] == "tenure::lease" {
            true => line["fields"]["epoch"].clone(),
            false => of_span(line, "epoch"),
        };
        assert!(all[2..all.len() - 1].iter().all(|line| epoch(line) == 1), "{said:?}");
    }
}

/// The log lines of the guard, the events of the library and all tracing spans must also be JSON.
#[test]
fn a_run_with_a_missing_interpreter_logs_only_json() {
    let bench = Bench::new();
    let url = bench.url();
    let script = bench.path("script");
    fs::write(&script, "#!/tenure-test-none\n").expect("a file");
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755))
        .expect("the script belongs to this user");
    let script = script.to_str().expect("UTF-8");
    let line = ["run", "--log-format", "json", "--store", &url, "--", script];
    let mut command = command(&line);
    let said = said(command.env("RUST_LOG", "trace").output().expect("the command runs"));
    assert_eq!(said.code, 127);
    let failed: Vec<_> = lines(&said)
        .into_iter()
        .filter(|line| line["fields"]["exit_code"] == 127)
        .map(|line| line["fields"]["message"].to_string())
        .collect();
    assert!(failed.len() == 1 && failed[0].contains(script), "{failed:?}");
    let elected = lines(&said).into_iter().find(|line| {
        line["target"].as_str().is_some_and(|target| target.starts_with("tenure::api"))
    });
    assert_eq!(elected.expect("the library has logged the event")["fields"]["epoch"], 1);
}

#[test]
fn a_refusal_is_one_line_of_json() {
    let bench = Bench::new();
    let url = bench.url();
    let store = ["--store", &url];
    for (code, line) in [
        (64, &["--log-format", "json"][..]),
        (64, &["--log-format", "json", "lead"]),
        (64, &["status", "--log-format=json", "--store", "ftp://b/p"]),
        (64, &[&["run", "--log-format", "json"][..], &store, &["--validity", "30"]].concat()),
        (
            64,
            &[&["run", "--log-format", "json", "--validity", "1s"][..], &store, &["--", "true"]]
                .concat(),
        ),
        (69, &["status", "--log-format", "json", "--store", "file:///nowhere/at/all"]),
    ] {
        let said = tenure(line);
        let all = lines(&said);
        assert_eq!((said.code, said.out.as_str(), all.len()), (code, "", 1), "{line:?}: {said:?}");
        assert_eq!(all[0]["fields"]["exit_code"], code, "{line:?}");
        assert_eq!(all[0]["level"], "ERROR");
    }
    // The option `--log-format` of CMD does not select the format of `tenure run`.
    let said = tenure(&["run", "--store", "ftp://b/p", "--", "x", "--log-format", "json"]);
    assert!(said.code == 64 && said.err.starts_with("error: "), "{said:?}");
}

/// Before the fix, if `TENURE_LOG_FORMAT` was `json`, the message about refused arguments was
/// nevertheless text.
#[test]
fn regression_the_variable_selects_the_format_of_refusals() {
    let lines_64 = [
        &["lead"][..],
        &["status", "--store", "ftp://b/p"],
        &["run", "--store", "file:///tmp/x", "--bogus", "--", "true"],
        &["run", "--store", "file:///tmp/x", "--validity", "1s", "--", "true"],
    ];
    for line in lines_64 {
        let said = said(
            command(line).env("TENURE_LOG_FORMAT", "json").output().expect("the command runs"),
        );
        let all = lines(&said);
        let code = all.last().map(|line| line["fields"]["exit_code"].clone());
        assert_eq!((said.code, code), (64, Some(64.into())), "{line:?}: {said:?}");
    }
    let wrong =
        command(&["status"]).env("TENURE_LOG_FORMAT", "xml").output().expect("the command runs");
    said(wrong).fails(64, &["TENURE_LOG_FORMAT"]);
    // The flag `--log-format` overrides the variable `TENURE_LOG_FORMAT`.
    let mut text = command(&["status", "--log-format", "text", "--store", "ftp://b/p"]);
    let said = said(text.env("TENURE_LOG_FORMAT", "json").output().expect("the command runs"));
    assert!(said.code == 64 && said.err.starts_with("error: "), "{said:?}");
}

#[test]
fn an_invalid_filter_is_reported_in_json() {
    let bench = Bench::new();
    let mut command = command(&["status", "--log-format", "json", "--store", &bench.url()]);
    let said = said(command.env("RUST_LOG", "tenure=loud").output().expect("the command runs"));
    let all = lines(&said);
    assert_eq!((said.code, all.len()), (0, 1));
    assert!(all[0]["fields"]["message"].as_str().is_some_and(|text| text.contains("tenure=loud")));
}

#[test]
fn text_is_the_default_format() {
    let bench = Bench::new();
    for options in [&["--", "true"][..], &["--log-format", "text", "--", "true"]] {
        let said = bench.run("run", options);
        assert_eq!(said.code, 0);
        assert!(said.err.contains("Z tenure: elected: epoch "), "{said:?}");
        assert!(!said.err.contains("outcome") && !said.err.contains('{'), "{said:?}");
    }
}

#[test]
fn rust_log_overrides_the_levels_of_quiet_and_verbose() {
    let bench = Bench::new();
    let logs = |rust_log: &str, line: &[&str]| {
        let url = bench.url();
        let run = ["run", "--store", &url, "--lease-duration", "21s"];
        let mut command = command(&[&run, line].concat());
        let said = said(command.env("RUST_LOG", rust_log).output().expect("the command runs"));
        assert_eq!((said.code, said.out.as_str()), (0, "-v\n"), "{line:?}: {said:?}");
        said.err
    };
    let echo = ["echo", "-v"];
    let [quiet, usual, more, most] =
        [&["-q"][..], &[], &["-v"], &["-vv"]].map(|flags| logs("", &[flags, &echo].concat()));
    assert_eq!(quiet, "");
    assert!(usual.contains("elected: epoch") && !usual.contains("tenure::"), "{usual}");
    assert!(more.contains("tenure::") && !more.contains(" DEBUG "), "{more}");
    assert!(most.contains(" DEBUG ") && most.len() > more.len(), "{most}");
    assert_eq!(logs("off", &[&["-vv"][..], &echo].concat()), "");
    assert!(logs("info", &[&["-q"][..], &echo].concat()).contains("elected: epoch"));
    // With `-q`, the command still prints errors, but not the warning about a misspelt variable.
    let mut refused = command(&["status", "-q", "--store", "file:///no/such"]);
    let refused = said(refused.env("TENURE_VALIDTY", "1").output().expect("the command runs"));
    assert!(refused.code == 69 && refused.err.lines().count() == 1, "{refused:?}");
    assert_eq!(tenure(&["status", "-q", "-v"]).code, 64);
}
