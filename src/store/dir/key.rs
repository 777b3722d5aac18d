//! Checks keys. A key is the path of a file below the store's root.

use crate::store::{Determinacy, StoreError, StoreErrorKind};

/// Name of the store's work folder in the root. The work folder contains no objects.
pub(super) const WORK_FOLDER: &str = ".tenure";

/// Maximum length of a key, as on S3. This maximum also bounds the depth of a listing.
const MAX_KEY_BYTES: usize = 1_024;

/// Refuses a key if its file would be outside the root or in the work folder, or if another key has
/// the same file.
pub(super) fn check(key: &str) -> Result<(), StoreError> {
    if key.len() > MAX_KEY_BYTES {
        let length = key.len();
        return Err(invalid(format!(
            "a key must have at most {MAX_KEY_BYTES} bytes, got {length}"
        )));
    }
    match key.split('/').find(|segment| !is_segment(segment)) {
        None => Ok(()),
        Some(segment) => Err(unusable(key, segment)),
    }
}

/// Returns the folder that contains all keys with this prefix (empty for the root). Checks the
/// folder and the rest of the prefix.
pub(super) fn folder_of_prefix(prefix: &str) -> Result<&str, StoreError> {
    let (folder, start) = prefix.rsplit_once('/').unwrap_or(("", prefix));
    if !start.bytes().all(is_allowed) {
        return Err(unusable(prefix, start));
    }
    // A prefix without a slash has no folder to check. The prefixes "/" and "/lock-" contain an
    // empty part before their slash, so `check` refuses them.
    if prefix.contains('/') {
        check(folder)?;
    }
    Ok(folder)
}

/// Returns the folder of this key (empty for the root), and the name of its file.
pub(super) fn split(key: &str) -> (&str, &str) {
    key.rsplit_once('/').unwrap_or(("", key))
}

/// Returns the key of this file in this folder, or `None` if the name is not allowed or the key is
/// too long.
pub(super) fn join(folder: &str, name: &str) -> Option<String> {
    if !is_segment(name) || folder.len() + 1 + name.len() > MAX_KEY_BYTES {
        return None;
    }
    Some(if folder.is_empty() { name.to_owned() } else { format!("{folder}/{name}") })
}

fn is_segment(segment: &str) -> bool {
    // Some file systems ignore case, so names that differ from the name of the work folder only in
    // case are refused too.
    !matches!(segment, "" | "." | "..")
        && !segment.eq_ignore_ascii_case(WORK_FOLDER)
        && segment.bytes().all(is_allowed)
}

fn is_allowed(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-')
}

fn unusable(key: &str, segment: &str) -> StoreError {
    invalid(format!(
        "a directory cannot hold the key {key:?}: the part {segment:?} must consist of A-Z, a-z, \
         0-9, `.`, `_` and `-`, and must not be empty, `.`, `..` or `{WORK_FOLDER}`"
    ))
}

fn invalid(message: String) -> StoreError {
    StoreError::new(StoreErrorKind::Invalid, Determinacy::Determinate, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_of_files_below_the_root_are_accepted() {
        for key in ["a", "lock-0000000001.json", "app/.tenure-check", "A/b_c/d.e-f", "...", ".a"] {
            check(key).expect(key);
        }
    }

    #[test]
    fn keys_outside_the_directory_are_refused() {
        let long = "a".repeat(MAX_KEY_BYTES + 1);
        for key in [
            "",
            "/",
            "/a",
            "a/",
            "a//b",
            ".",
            "..",
            "../a",
            "a/../b",
            "a/..",
            "./a",
            "a\\b",
            "a b",
            "a\0b",
            "a\nb",
            "ä",
            "~/a%2f",
            ".tenure",
            ".tenure/lock",
            "a/.TENURE/x",
            &long,
        ] {
            let error = check(key).expect_err(key);
            assert_eq!(error.kind(), StoreErrorKind::Invalid, "{key:?}");
            assert_eq!(error.determinacy(), Determinacy::Determinate, "{key:?}");
        }
    }

    #[test]
    fn a_prefix_names_the_folder_to_list() {
        for (prefix, folder) in [("", ""), ("lock-", ""), ("a/", "a"), ("a/b/lock-", "a/b")] {
            assert_eq!(folder_of_prefix(prefix).expect(prefix), folder);
        }
        for prefix in ["/", "/lock-", "../", "a/../lock-", "a//", "lo ck", ".tenure/"] {
            folder_of_prefix(prefix).expect_err(prefix);
        }
    }

    #[test]
    fn foreign_file_names_are_not_keys() {
        assert_eq!(join("", "a"), Some("a".to_owned()));
        assert_eq!(join("a/b", "c"), Some("a/b/c".to_owned()));
        for name in [".tenure", "a b", "ä", ".."] {
            assert_eq!(join("a", name), None);
        }
        assert_eq!(join(&"a".repeat(1_000), &"b".repeat(24)), None);
    }
}
