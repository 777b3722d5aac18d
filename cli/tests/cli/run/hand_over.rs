//! Tests of `tenure run --successor` and `--priority-delay`.

use std::fs;

use crate::bench::Bench;

/// Returns whether the object of the epoch contains these words.
fn says(bench: &Bench, epoch: u64, words: &str) -> bool {
    let path = bench.path("store").join(format!("lock-{epoch:010}.json"));
    fs::read_to_string(path).expect("the epoch object exists").contains(words)
}

#[test]
fn the_successor_in_the_seal_leads_next() {
    let bench = Bench::new();
    let run = |options: &[&str]| {
        let mut line = vec!["--validity", "3s"];
        line.extend(options);
        line.extend(["--", "true"]);
        let said = bench.run("run", &line);
        assert_eq!(said.code, 0, "{said:?}");
    };
    run(&["--name", "a", "--successor", "b"]);
    assert!(says(&bench, 1, r#""successor": "b""#));
    run(&["--name", "b", "--priority-delay", "1s"]);
    assert!(says(&bench, 2, r#""candidate": "b""#) && !says(&bench, 2, "successor"));
    // Other candidates wait for the named successor only for a limited time.
    run(&["--name", "c", "--priority-delay", "1s"]);
    assert!(says(&bench, 3, r#""candidate": "c""#));
}

#[test]
fn an_invalid_successor_is_refused_before_the_first_write() {
    let bench = Bench::new();
    let long = "x".repeat(257);
    for name in ["a\tb", long.as_str()] {
        bench.run("run", &["--successor", name, "--", "true"]).fails(64, &["256"]);
    }
    assert_eq!(bench.objects(), Vec::<String>::new());
}
