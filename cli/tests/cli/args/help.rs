//! The summaries of `-h`, and the whole texts of `--help`.

use crate::bench::{Said, command, said};

const VERBS: [&[&str]; 17] = [
    &[],
    &["run"],
    &["serve"],
    &["ui"],
    &["status"],
    &["watch"],
    &["history"],
    &["depose"],
    &["restore"],
    &["compact"],
    &["group"],
    &["group", "run"],
    &["group", "status"],
    &["group", "watch"],
    &["table", "create"],
    &["probe"],
    &["cost"],
];

fn help(columns: usize, line: &[&str]) -> String {
    let mut command = command(line);
    command.env("COLUMNS", columns.to_string());
    let Said { code, out, err } = said(command.output().expect("the command runs"));
    assert_eq!((code, err.as_str()), (0, ""), "{line:?}");
    out
}

#[test]
fn the_summary_of_run_fits_on_one_screen() {
    for verb in [&["run"][..], &["group", "run"], &["serve"]] {
        let lines = help(80, &[verb, &["-h"]].concat()).lines().count();
        assert!(lines <= 45, "the summary of {verb:?} has {lines} lines");
    }
}

#[test]
fn each_line_fits_the_terminal() {
    for verb in VERBS {
        for flag in ["-h", "--help"] {
            for columns in [60, 80, 100] {
                let text = help(columns, &[verb, &[flag]].concat());
                // Clap does not wrap the line that begins with `Usage:`.
                let lines = text.lines().filter(|line| !line.starts_with("Usage: "));
                let long: Vec<_> = lines.filter(|line| line.chars().count() > columns).collect();
                assert!(long.is_empty(), "{verb:?} {flag} at {columns} columns: {long:?}");
            }
        }
    }
}

#[test]
fn the_help_of_a_verb_lists_only_its_own_exit_codes() {
    for verb in ["history", "depose", "restore", "compact", "group pin", "table create"] {
        let line = [&verb.split(' ').collect::<Vec<_>>()[..], &["--help"]].concat();
        let text = help(100, &line);
        assert!(text.contains("  64  wrong usage") && !text.contains("lost the lease"), "{verb}");
    }
}
