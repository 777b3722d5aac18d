//! Checks the pages: their blocks run, and the targets of their links and commands exist.
//!
//! The tag of a fenced block selects its rule. A missing or unknown tag is an error:
//!
//! | tag | rule |
//! | --- | --- |
//! | `rust` | is a doctest, because a `lib.rs` includes the page; with `no_run` it only compiles |
//! | `sh` | is run by bash and must succeed. A `text` block right after it is its output |
//! | `console` | has `$ ` before commands; the other lines are their output |
//! | `json`, `yaml` | is parsed; `tenure` accepts each of its command lines in YAML |
//! | `toml` | is a part of the reader's own Cargo.toml, and is not checked |
//! | `promql` | names metrics of the library |
//! | `python` | is parsed by python3, and is not run |
//! | `sql` | is executed, page by page, by SQLite |
//! | `text` | after an `sh` block: is its output; elsewhere: is a drawing, and is not checked |
//!
//! The blocks of a page run in order, in a new directory, with one S3 server of the tests. `…` in
//! an output matches any text; on a separate line it matches any lines. The comment `<!-- not run:
//! reason -->` before a block excludes the block. The time limit of a block is five minutes. The
//! tests do not run `cargo` and `scripts/`.
#![cfg(unix)]

mod facts;
mod flags;
mod links;
mod page;
mod rules;
#[cfg(feature = "s3")]
mod session;
#[cfg(feature = "s3")]
mod shims;

use page::{pages, root};

/// Fails if there is any problem, and prints the problems of all pages together.
#[track_caller]
fn none(problems: Vec<String>) {
    assert!(problems.is_empty(), "{} problems:\n{}", problems.len(), problems.join("\n"));
}

#[test]
fn every_block_satisfies_the_rule_of_its_tag() {
    let pages = pages();
    none(pages.iter().flat_map(rules::problems).collect());
}

#[test]
fn every_link_has_a_target() {
    let pages = pages();
    none(pages.iter().flat_map(|page| links::problems(page, &pages)).collect());
}

#[test]
fn regression_every_picture_has_its_colours_without_styles() {
    let mut seen = 0;
    let mut problems = Vec::new();
    let entries = std::fs::read_dir(root().join("docs")).expect("a folder");
    for path in entries.map(|entry| entry.expect("an entry").path()) {
        if path.extension().is_none_or(|extension| extension != "svg") {
            continue;
        }
        seen += 1;
        let svg = std::fs::read_to_string(&path).expect("UTF-8");
        let wrong = tenure_testkit::svg::without_styles(&svg).into_iter();
        problems.extend(wrong.map(|what| format!("{}: {what}", path.display())));
    }
    none(problems);
    assert!(seen >= 1, "no picture");
}

#[test]
fn every_flag_exists() {
    none(pages().iter().flat_map(flags::problems).collect());
}

#[test]
fn the_page_of_the_command_equals_its_help() {
    let mut check = std::process::Command::new(root().join("scripts/docs/command-page.py"));
    let checked = check.args(["--check", env!("CARGO_BIN_EXE_tenure")]).output();
    let checked = checked.expect("python3 runs");
    assert!(checked.status.success(), "{checked:?}");
}

#[cfg(feature = "s3")]
#[test]
fn every_command_prints_the_output_on_the_page() {
    // The test runs the pages concurrently, because their commands wait more than they compute.
    let pages = pages();
    let problems = std::thread::scope(|scope| {
        let run = |page| scope.spawn(move || session::problems(page));
        let running: Vec<_> = pages.iter().map(run).collect();
        running.into_iter().flat_map(|page| page.join().expect("no check panics")).collect()
    });
    none(problems);
}
