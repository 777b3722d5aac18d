//! Checks each page of a listing before a caller uses it (docs/design/protocol.md, N1, N2, N8).

use super::{Determinacy, Page, StoreError, StoreErrorKind};

/// Checks that the keys of a page ascend, have this prefix, and are greater than `start`, and that
/// the store read them at one moment. Returns the last key on the page, or `start` if the page is
/// empty.
pub fn check_order<'a>(
    prefix: &str,
    start: &'a str,
    page: &'a Page,
) -> Result<&'a str, StoreError> {
    if page.torn {
        let why = format!(
            "the folder of {prefix:?} has too many keys for one page, and this store lists keys in \
             no order; this listing is ignored; delete old keys \
             (`tenure compact`)"
        );
        return Err(StoreError::new(StoreErrorKind::Transient, Determinacy::Determinate, why));
    }
    check_any_page(prefix, start, page)
}

/// Checks a page like [`check_order`], but also accepts keys that the store read at different
/// moments.
pub(crate) fn check_any_page<'a>(
    prefix: &str,
    start: &'a str,
    page: &'a Page,
) -> Result<&'a str, StoreError> {
    if page.truncated && page.entries.is_empty() {
        // If a store sent an empty, truncated page for each request, the listing would never end.
        // So such a page is an error. No key is out of order, so the error is transient.
        let why = format!("the listing after {start:?} shows no key, although more pages follow");
        return Err(StoreError::new(StoreErrorKind::Transient, Determinacy::Determinate, why));
    }
    check_ascending(prefix, start, page)
}

/// Checks that the keys ascend, start with the prefix and are greater than `start`.
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
        "the listing shows {then:?} after {before:?}: this store does not list keys in order, or \
         ignores the start of a listing"
    ))
}

fn unsafe_store(why: String) -> StoreError {
    StoreError::new(StoreErrorKind::Unsupported, Determinacy::Determinate, why)
}
