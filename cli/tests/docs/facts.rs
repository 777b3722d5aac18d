//! Checks that lists in the pages of the documentation are complete: all kinds of errors, and all
//! exit codes.

use std::fs;

use tenure::ErrorKind;
use tenure_cli::exit::{CODES, code_of};

use super::page::root;

const PAGE: &str = "docs/reference/errors.md";

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).expect("the page exists")
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

/// Each test vector on the page must equal a fixture that a test reads.
#[test]
fn the_test_vectors_of_fenced_objects_are_fixtures() {
    let page = read("docs/reference/formats.md");
    let vectors = page.lines().filter(|line| line.starts_with("{\"tenure_"));
    let vectors: Vec<_> = vectors.map(|line| line.replace("\\n", "\n")).collect();
    assert_eq!(vectors.len(), 8);
    let mut kept = Vec::new();
    for scene in ["log", "log-of-two-writers", "object", "object-of-two-writers"] {
        let files = fs::read_dir(root().join("tests/protocol/fixtures").join(scene));
        for file in files.expect("a folder") {
            kept.push(fs::read_to_string(file.expect("an entry").path()).expect("UTF-8"));
        }
    }
    for vector in vectors {
        assert!(kept.contains(&vector), "{vector:?} is not a fixture");
    }
}
