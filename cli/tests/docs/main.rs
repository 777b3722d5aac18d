//! The guide, taken at its word: its blocks run, its links lead somewhere, its commands exist.
//!
//! The rules, by the tag of a fenced block; a block without a tag, or with another, is an error:
//!
//! | tag | what is done |
//! | --- | --- |
//! | `rust` | a doctest of src/lib.rs, which names the page; `no_run` is compiled |
//! | `sh` | run by bash; must end well. A `text` block right after it is its output |
//! | `console` | `$ ` before commands, the rest is what they print |
//! | `json`, `yaml` | parsed; a command line of `tenure` in YAML is one that `tenure` takes |
//! | `toml` | a manifest of the reader's |
//! | `promql` | names metrics that the library makes |
//! | `sql` | carried out, page by page, by SQLite |
//! | `text` | a picture |
//!
//! The blocks of a page run in order, in one fresh directory, against one S3 server of the tests.
//! `…` in an output stands for anything, on a line of its own for any lines. `<!-- not run: reason
//! -->` before a block spares it. A block has two minutes. `cargo` and `scripts/` do not run. The
//! packages, targets and tests that `cargo` commands name must exist.
#![cfg(unix)]

mod cargo;
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

/// All pages are judged before the first complaint.
#[track_caller]
fn none(problems: Vec<String>) {
    assert!(problems.is_empty(), "{} problems:\n{}", problems.len(), problems.join("\n"));
}

#[test]
fn every_block_has_a_rule_and_keeps_to_it() {
    let pages = pages();
    none(pages.iter().flat_map(rules::problems).collect());
}

#[test]
fn every_link_leads_somewhere() {
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
fn every_cargo_command_names_what_exists() {
    none(pages().iter().flat_map(cargo::problems).collect());
}

#[cfg(feature = "s3")]
#[test]
fn every_command_does_what_the_page_says() {
    // A page waits more than it works, so they run together.
    let pages = pages();
    let problems = std::thread::scope(|scope| {
        let run = |page| scope.spawn(move || session::problems(page));
        let running: Vec<_> = pages.iter().map(run).collect();
        running.into_iter().flat_map(|page| page.join().expect("no check panics")).collect()
    });
    none(problems);
}
