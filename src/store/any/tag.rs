//! Encodes the two identifiers of an object's version in one [`ETag`]. object_store calls them
//! `e_tag` and `version`. On Cloud Storage, `version` is the generation.
//!
//! An `e_tag` without a `version` is encoded unchanged. With a `version`, a bar separates the two
//! identifiers: `"etag"|1700000000000001`. A backslash escapes bars and backslashes in both, so
//! different pairs have different encodings.

use object_store::UpdateVersion;

use crate::store::ETag;

/// Encodes both identifiers of a version. Returns `None` if both are absent. An empty identifier
/// counts as absent.
pub(super) fn encode(e_tag: Option<&str>, version: Option<&str>) -> Option<ETag> {
    let given = |name: Option<&str>| name.filter(|name| !name.is_empty()).map(escaped);
    match (given(e_tag), given(version)) {
        (None, None) => None,
        (Some(e_tag), None) => Some(ETag::new(e_tag)),
        (e_tag, Some(version)) => {
            Some(ETag::new(format!("{}|{version}", e_tag.unwrap_or_default())))
        }
    }
}

/// Returns both identifiers that [`encode`] has encoded in this tag.
pub(super) fn decode(tag: &ETag) -> UpdateVersion {
    let mut names = [String::new(), String::new()];
    let mut part = 0;
    let mut chars = tag.as_str().chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => names[part].extend(chars.next()),
            '|' if part == 0 => part = 1,
            c => names[part].push(c),
        }
    }
    let [e_tag, version] = names.map(|name| Some(name).filter(|name| !name.is_empty()));
    UpdateVersion { e_tag, version }
}

fn escaped(name: &str) -> String {
    name.replace('\\', "\\\\").replace('|', "\\|")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_bar_separates_the_etag_from_the_generation() {
        assert_eq!(encode(Some("\"abc\""), None).unwrap().as_str(), "\"abc\"");
        assert_eq!(encode(Some("\"abc\""), Some("17")).unwrap().as_str(), "\"abc\"|17");
        assert_eq!(encode(None, Some("17")).unwrap().as_str(), "|17");
        assert_eq!(encode(None, None), None);
        assert_eq!(encode(Some(""), Some("")), None);
        // A tag that another program wrote may contain several bars.
        let decoded = decode(&ETag::new("a|b|c"));
        assert_eq!(
            (decoded.e_tag.as_deref(), decoded.version.as_deref()),
            (Some("a"), Some("b|c"))
        );
    }

    proptest! {
        #[test]
        fn decode_inverts_encode(
            e_tag in proptest::option::of("[a|\\\\\"é]{1,6}"),
            version in proptest::option::of("[0|\\\\\"é]{1,6}"),
        ) {
            let tag = encode(e_tag.as_deref(), version.as_deref());
            prop_assert_eq!(tag.is_none(), e_tag.is_none() && version.is_none());
            if let Some(tag) = tag {
                prop_assert_eq!(decode(&tag), UpdateVersion { e_tag, version });
            }
        }
    }
}
