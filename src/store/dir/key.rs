//! The keys that a directory can hold: exactly the names of files below it.

use crate::store::{Determinacy, StoreError, StoreErrorKind};

/// The folder in the root where the store works; it holds no objects.
pub(super) const WORK_FOLDER: &str = ".tenure";

/// As S3 has it. Also bounds how deep a listing descends.
const MAX_KEY_BYTES: usize = 1_024;

/// Refuses keys that would leave the directory, hide in its work folder, or be the same file as
/// another key.
pub(super) fn check(key: &str) -> Result<(), StoreError> {
    if key.len() > MAX_KEY_BYTES {
        let length = key.len();
        return Err(invalid(format!("the key has {length} bytes; at most {MAX_KEY_BYTES} work")));
    }
    match key.split('/').find(|segment| !is_segment(segment)) {
        None => Ok(()),
        Some(segment) => Err(unusable(key, segment)),
    }
}

/// Splits the prefix of a listing into the folder that holds every such key (empty for the root)
/// and checks both parts.
pub(super) fn folder_of_prefix(prefix: &str) -> Result<&str, StoreError> {
    let (folder, start) = prefix.rsplit_once('/').unwrap_or(("", prefix));
    if !start.bytes().all(is_allowed) {
        return Err(unusable(prefix, start));
    }
    // Of "/" and "/lock-" the folder is empty too, but they ask for a key with an empty part.
    if prefix.contains('/') {
        check(folder)?;
    }
    Ok(folder)
}

/// The folder that holds this key, empty for the root, and the name of its file.
pub(super) fn split(key: &str) -> (&str, &str) {
    key.rsplit_once('/').unwrap_or(("", key))
}

/// The key of this name in that folder; `None` if no key has such a name, or it would be too long.
pub(super) fn join(folder: &str, name: &str) -> Option<String> {
    if !is_segment(name) || folder.len() + 1 + name.len() > MAX_KEY_BYTES {
        return None;
    }
    Some(if folder.is_empty() { name.to_owned() } else { format!("{folder}/{name}") })
}

fn is_segment(segment: &str) -> bool {
    // Case is ignored for the work folder because some file systems ignore it.
    !matches!(segment, "" | "." | "..")
        && !segment.eq_ignore_ascii_case(WORK_FOLDER)
        && segment.bytes().all(is_allowed)
}

fn is_allowed(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'_' | b'-')
}

fn unusable(key: &str, segment: &str) -> StoreError {
    invalid(format!(
        "a directory cannot hold the key {key:?}: the part {segment:?} is not of A-Z, a-z, 0-9, \
         `.`, `_` and `-`, or is empty, `.`, `..` or `{WORK_FOLDER}`"
    ))
}

fn invalid(message: String) -> StoreError {
    StoreError::new(StoreErrorKind::Invalid, Determinacy::Determinate, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_that_name_a_file_below_the_root_are_taken() {
        for key in ["a", "lock-0000000001.json", "app/.tenure-check", "A/b_c/d.e-f", "...", ".a"] {
            check(key).expect(key);
        }
    }

    #[test]
    fn keys_that_would_leave_the_directory_are_refused() {
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
    fn foreign_names_make_no_key() {
        assert_eq!(join("", "a"), Some("a".to_owned()));
        assert_eq!(join("a/b", "c"), Some("a/b/c".to_owned()));
        for name in [".tenure", "a b", "ä", ".."] {
            assert_eq!(join("a", name), None);
        }
        assert_eq!(join(&"a".repeat(1_000), &"b".repeat(24)), None);
    }
}
