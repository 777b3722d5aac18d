//! Runs the fuzz targets' checks on generated inputs, and on the corpus without a fuzzer.

mod listings;
mod records;

use std::path::Path;

fn replay(target: &str, check: fn(&[u8])) {
    let fuzz = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz");
    if !fuzz.exists() {
        // The published package does not contain the corpus, so this test has no inputs.
        return;
    }
    let mut inputs = 0;
    for entry in fuzz.join("corpus").join(target).read_dir().unwrap() {
        let path = entry.unwrap().path();
        let bytes = std::fs::read(&path).unwrap();
        println!("{}", path.display());
        check(&bytes);
        inputs += 1;
    }
    assert!(inputs >= 10, "the corpus has only {inputs} inputs");
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
