//! Tests of `tenure status --exit-code` and `tenure status --field`.

use super::*;
use crate::bench::Said;

fn field(bench: &Bench, name: &str) -> String {
    let said = bench.run("status", &["--field", name]);
    assert_eq!((said.code, said.err.as_str()), (0, ""), "{said:?}");
    assert_eq!(said.out.matches('\n').count(), 1, "{said:?}");
    said.out.trim_end_matches('\n').to_owned()
}

#[test]
fn the_exit_code_shows_whether_the_election_is_held() {
    let bench = Bench::new();
    let code = || {
        let codes = [&["--exit-code"][..], &["--exit-code", "--json"]].map(|options| {
            let Said { code, out, err } = bench.run("status", options);
            assert!(!out.is_empty() && err.is_empty(), "{out:?} {err:?}");
            code
        });
        assert_eq!(codes[0], codes[1]);
        assert_eq!(bench.run("status", &[]).code, 0);
        codes[0]
    };
    assert_eq!(code(), 1, "vacant");
    bench.epoch(3, HELD);
    assert_eq!(code(), 0, "held");
    bench.epoch(3, SEALED);
    assert_eq!(code(), 1, "sealed");
    bench.epoch(4, FOREIGN);
    assert_eq!(code(), 0, "held by a foreign peer");
    bench.epoch(5, &HELD.replace("30000", "1"));
    tenure_testkit::command::eventually("the lease has lapsed", || {
        field(&bench, "lapsed") == "true"
    });
    assert_eq!((code(), field(&bench, "state")), (1, "vacant".into()), "lapsed");
    let said = bench.run("status", &[]).out;
    assert!(said.starts_with("state      vacant: lapsed; not sealed\n"), "{said}");
    bench.epoch(6, "<html>");
    bench.run("status", &["--exit-code"]).fails(70, &["lock-0000000006.json"]);
    std::fs::remove_dir_all(bench.path("store")).expect("the field exists");
    bench.run("status", &["--exit-code"]).fails(69, &["the directory does not exist"]);
}

#[test]
fn field_prints_only_the_value() {
    let bench = Bench::new();
    assert_eq!((field(&bench, "state"), field(&bench, "epoch")), ("vacant".into(), "".into()));
    bench.epoch(3, HELD);
    for (name, value) in [
        ("state", "held"),
        ("epoch", "3"),
        ("candidate", "a"),
        ("leader", "a"),
        ("validity_ms", "30000"),
        ("expires_at", ""),
        ("heartbeat", "4"),
        ("ended", ""),
        ("lapsed", "false"),
        ("data", r#"{"address":"10.0.0.7"}"#),
    ] {
        assert_eq!(field(&bench, name), value, "{name}");
    }
    assert!(field(&bench, "age_ms").parse::<u64>().is_ok_and(|age| age < 30_000));
    bench.epoch(3, SEALED);
    assert_eq!((field(&bench, "ended"), field(&bench, "data")), ("lapsed".into(), "".into()));
    assert_eq!(field(&bench, "leader"), "", "a sealed epoch has no leader");
    // `--field` and `--exit-code` work together.
    let said = bench.run("status", &["--field", "candidate", "--exit-code"]);
    assert_eq!((said.code, said.out.as_str()), (1, "a\n"));
}

#[test]
fn control_characters_of_a_field_are_escaped() {
    let bench = Bench::new();
    let body = HELD.replace(r#""a""#, r#""a\u001b[2J\nb""#);
    bench.epoch(1, &body.replace("10.0.0.7", "\u{202e}x\\n"));
    assert_eq!(field(&bench, "candidate"), "a\\u{1b}[2J\\nb");
    assert_eq!(field(&bench, "data"), r#"{"address":"\u202ex\n"}"#);
    bench.epoch(1, &body.replace(r#"{"address":"10.0.0.7"}"#, r#""http://10.0.0.7""#));
    assert_eq!(field(&bench, "data"), "http://10.0.0.7", "a string has no quotes");
}

#[test]
fn an_unknown_field_is_refused_with_the_known_fields() {
    let bench = Bench::new();
    for options in [&["--field", "who"][..], &["--field", ""], &["--field", "epoch", "--json"]] {
        let said = bench.run("status", options);
        assert_eq!((said.code, said.out.as_str()), (64, ""), "{said:?}");
        let word = if options.len() == 2 { "candidate, validity_ms, expires_at" } else { "--json" };
        assert!(said.err.contains(word), "{said:?}");
    }
}
