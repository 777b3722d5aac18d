//! Lists of the pages that must be whole: every kind of error, every exit code, every feature.

use std::fs;

use tenure::ErrorKind;
use tenure_cli::exit::{CODES, code_of};

use super::page::root;

const PAGE: &str = "docs/what-can-go-wrong.md";

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).expect("it is there")
}

#[test]
fn every_kind_of_error_has_its_row_and_its_exit_code() {
    let page = read(PAGE);
    for kind in ErrorKind::ALL {
        let row = format!("| `{kind:?}` | {} |", code_of(kind));
        assert!(page.lines().any(|line| line.starts_with(&row)), "{row}");
    }
}

#[test]
fn every_exit_code_has_its_row() {
    let page = read(PAGE);
    for code in CODES {
        assert!(page.lines().any(|line| line.starts_with(&format!("| {code} |"))), "{code}");
    }
}

/// The features that the front page of the library's documentation leaves out: they are no part of
/// the API.
const HIDDEN: [&str; 4] = ["default", "cloud", "internals", "object-store-tests"];

#[test]
fn the_front_page_has_every_feature() {
    let manifest = read("Cargo.toml");
    let (_, features) = manifest.split_once("[features]\n").expect("there are some");
    let (features, _) = features.split_once("\n[").expect("they end");
    let names = features.lines().filter_map(|line| line.split_once(" = [")).map(|(name, _)| name);
    let front = read("src/lib.rs");
    let (_, table) = front.split_once("//! # Features\n").expect("it has the section");
    for name in names.filter(|name| !HIDDEN.contains(name)) {
        assert!(table.contains(&format!("`{name}`")), "{name} is missing");
    }
}
