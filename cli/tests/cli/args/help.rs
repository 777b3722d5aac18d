//! The summaries of `-h`, and the whole texts of `--help`.

use crate::bench::{Said, command, said, tenure};

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

/// Returns the text with one space in place of line breaks.
fn in_a_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn the_summary_of_run_is_one_screen() {
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
                // Clap does not wrap the usage.
                let lines = text.lines().filter(|line| !line.starts_with("Usage: "));
                let long: Vec<_> = lines.filter(|line| line.chars().count() > columns).collect();
                assert!(long.is_empty(), "{verb:?} {flag} at {columns} columns: {long:?}");
            }
        }
    }
}

#[test]
fn the_whole_help_has_headings_and_the_summary_omits_rare_options() {
    let all = help(80, &["run", "--help"]);
    let position = |heading: &str| all.find(&format!("\n{heading}:\n"));
    let headings = ["Election", "Command", "Health", "Timing", "Advanced"].map(position);
    assert!(headings.iter().all(Option::is_some) && headings.is_sorted(), "{headings:?}");
    let summary = help(80, &["run", "-h"]);
    for rare in ["--no-check", "--clock-drift-max", "--hook-timeout"] {
        assert!(all.contains(rare) && !summary.contains(rare), "{rare}");
    }
    for shown in ["[default: 30s]", "[default: a sixth of the validity]"] {
        assert!(in_a_line(&all).contains(shown) && in_a_line(&summary).contains(shown), "{shown}");
    }
}

/// The test `each_variable_has_the_name_of_its_flag` checks the names of the variables.
#[test]
fn each_option_with_a_variable_shows_it() {
    for verb in [&["run"][..], &["group", "run"], &["serve"], &["compact"], &["status"]] {
        let all = help(80, &[verb, &["--help"]].concat());
        let summary = help(80, &[verb, &["-h"]].concat());
        let variables: Vec<_> = all.lines().filter(|line| line.contains("[env: TENURE_")).collect();
        assert!(variables.len() > 2, "{verb:?}: {variables:?}");
        for line in variables.into_iter().map(str::trim).filter(|line| line.ends_with(']')) {
            let flag = line["[env: TENURE_".len()..line.len() - 1].to_lowercase().replace('_', "-");
            let is_listed = |text: &str| {
                text.lines().any(|line| line.trim_start().starts_with(&format!("--{flag}")))
            };
            assert!(is_listed(&all), "{verb:?}: {line} without --{flag}");
            let shown = in_a_line(&summary).contains(line);
            assert_eq!(shown, is_listed(&summary), "{verb:?}: {line} in the summary");
        }
    }
    for (verb, name) in [("run", "TENURE_FOREVER"), ("compact", "TENURE_KEEP")] {
        let shown = format!("[env: {name}]");
        assert!(in_a_line(&help(80, &[verb, "-h"])).contains(&shown), "{verb} {shown}");
    }
    // `--group` of `compact` selects the operation, so it has no variable.
    assert!(!help(80, &["compact", "--help"]).contains("TENURE_GROUP"));
}

#[test]
fn help_is_also_a_verb() {
    for verb in VERBS {
        let by_verb = help(80, &[&["help"], verb].concat());
        assert_eq!(by_verb, help(80, &[verb, &["--help"]].concat()), "{verb:?}");
    }
    assert_eq!(tenure(&["help", "lead"]).code, 64);
}
