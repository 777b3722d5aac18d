use std::error::Error as _;

use super::*;

#[test]
fn an_error_keeps_its_source() {
    let cause = std::io::Error::other("the disk is gone");
    let error = StoreError::new(StoreErrorKind::Transient, Determinacy::Determinate, "503")
        .with_source(cause);
    assert_eq!(error.source().expect("the cause").to_string(), "the disk is gone");
    assert!(StoreError::timed_out("late").source().is_none());
}

#[test]
fn a_store_in_memory_has_no_limits() {
    let store = MemoryStore::new();
    assert_eq!(store.describe(), "memory");
    assert_eq!(store.capabilities(), Capabilities::default());
}
