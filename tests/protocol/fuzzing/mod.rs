//! Runs the checks of the fuzz targets without a fuzzer: on generated inputs, and on the corpus.

mod listings;
mod records;

use std::path::{Path, PathBuf};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/corpus")
}

/// Returns the inputs of a target. The corpus is a file with one JSON string per line. Each
/// character of the string is a byte. The published package does not contain the corpus, so it has
/// no inputs.
fn corpus(target: &str) -> Vec<Vec<u8>> {
    let file = folder().join(target).with_extension("jsonl");
    let text = std::fs::read_to_string(file).unwrap_or_default();
    let byte = |c| u8::try_from(c).expect("each character is a byte");
    let input = |line| serde_json::from_str::<String>(line).expect("a line is a JSON string");
    text.lines().map(|line| input(line).chars().map(byte).collect()).collect()
}

fn replay(target: &str, check: fn(&[u8])) {
    let inputs = corpus(target);
    for (line, input) in (1..).zip(&inputs) {
        println!("{target}.jsonl:{line}");
        check(input);
    }
    assert!(inputs.len() >= 10 || !folder().exists(), "the corpus is too small");
}

/// Writes each input to its own file, as cargo-fuzz needs it.
#[test]
#[ignore = "writes files: cargo test --test protocol unpack_the_corpus -- --ignored"]
fn unpack_the_corpus() {
    for target in ["record", "listing", "assignment"] {
        let folder = folder().join(target);
        std::fs::create_dir_all(&folder).unwrap();
        for (line, input) in (1..).zip(corpus(target)) {
            std::fs::write(folder.join(line.to_string()), input).unwrap();
        }
    }
}

#[test]
fn the_corpus_of_records_passes() {
    replay("record", tenure_model::fuzzing::record);
}

#[test]
fn the_corpus_of_listings_passes() {
    replay("listing", tenure_model::fuzzing::listing);
}

#[test]
fn the_corpus_of_assignments_passes() {
    replay("assignment", tenure_groups::fuzzing::assignment);
}
