//! The order of a listing, checked before anything rests on it (docs/design/protocol.md, section
//! 6).

use super::{Determinacy, Page, StoreError, StoreErrorKind};

/// Checks a page that was asked for this prefix, after `start`: the last key on it, or `start`.
pub fn check_order<'a>(
    prefix: &str,
    start: &'a str,
    page: &'a Page,
) -> Result<&'a str, StoreError> {
    if page.truncated && page.entries.is_empty() {
        // The same request may get the same answer each time. The answer is not wrong, so it does
        // not make the store unsafe.
        let why = format!("the listing after {start:?} says that more follows, but shows none");
        return Err(StoreError::new(StoreErrorKind::Transient, Determinacy::Determinate, why));
    }
    check_ascending(prefix, start, page)
}

/// Returns whether the keys ascend, all of them under the prefix and after `start`.
pub(crate) fn check_ascending<'a>(
    prefix: &str,
    start: &'a str,
    page: &'a Page,
) -> Result<&'a str, StoreError> {
    let mut previous = start;
    for entry in &page.entries {
        let key = entry.key.as_str();
        if !key.starts_with(prefix) {
            return Err(unsafe_store(format!(
                "the listing shows {key:?}, which does not start with {prefix:?}"
            )));
        }
        if key <= previous {
            return Err(out_of_order(previous, key));
        }
        previous = key;
    }
    Ok(previous)
}

pub(crate) fn out_of_order(before: &str, then: &str) -> StoreError {
    unsafe_store(format!(
        "the listing shows {then:?} after {before:?}: this store does not list in order, or \
         ignores where a listing starts"
    ))
}

fn unsafe_store(why: String) -> StoreError {
    StoreError::new(StoreErrorKind::Unsupported, Determinacy::Determinate, why)
}
