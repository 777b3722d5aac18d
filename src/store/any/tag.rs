//! Both names that object_store has for a version of an object, its ETag and its version (on Cloud
//! Storage the generation), in one [`ETag`].
//!
//! An ETag alone is itself; a version follows after a bar: `"etag"|1700000000000001`. Bars and
//! backslashes within either get a backslash in front, so that no two pairs look alike.

use object_store::UpdateVersion;

use crate::store::ETag;

/// `None` if the store named neither. An empty name counts as absent.
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

/// The pair that [`encode`] was given.
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
    fn an_etag_alone_is_itself_and_a_generation_follows_a_bar() {
        assert_eq!(encode(Some("\"abc\""), None).unwrap().as_str(), "\"abc\"");
        assert_eq!(encode(Some("\"abc\""), Some("17")).unwrap().as_str(), "\"abc\"|17");
        assert_eq!(encode(None, Some("17")).unwrap().as_str(), "|17");
        assert_eq!(encode(None, None), None);
        assert_eq!(encode(Some(""), Some("")), None);
        // The tag of an older version, or of another writer.
        let decoded = decode(&ETag::new("a|b|c"));
        assert_eq!(
            (decoded.e_tag.as_deref(), decoded.version.as_deref()),
            (Some("a"), Some("b|c"))
        );
    }

    proptest! {
        #[test]
        fn what_was_encoded_is_decoded(
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
