//! Paths: validated names of pseudo-folders.

use std::cmp::Ordering;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::str::FromStr;
use std::sync::Arc;

use tenure::{Error, ErrorKind};

/// The path of a pseudo-folder, such as `/`, `/a` or `/a/b`.
///
/// A path starts with a slash and does not end with one, except the root `/`. No component is
/// empty, `.` or `..`, so each folder has exactly one path. The key of a path has at most
/// [`MAX_KEY_BYTES`](Path::MAX_KEY_BYTES) bytes. Components have no other restrictions. Objects at
/// `/a/b` and at `/a/b/c` may exist at the same time, so every path is also a folder. A path
/// represents the object at [`key`](Path::key) and all objects below this key.
///
/// Paths are ordered by component, with ancestors first: `/a`, `/a/b`, `/a!`.
/// [`parent`](Path::parent) and `clone` do not allocate.
///
/// # Examples
///
/// ```
/// # use tenure_paths::Path;
/// let folder = Path::new("/photos/2024")?;
/// assert_eq!(folder.key(), "photos/2024");
/// assert_eq!(folder.join("may")?.parent(), Some(folder));
/// assert!(Path::new("photos").is_err() && Path::new("/photos/").is_err());
/// # Ok::<(), tenure::Error>(())
/// ```
#[derive(Clone)]
pub struct Path {
    /// The text of this path, or of a descendant: the first `len` bytes are this path. A path and
    /// its ancestors share one text.
    text: Arc<str>,
    len: usize,
}

impl Path {
    /// Maximum length of a [`key`](Path::key) in bytes, as on S3. A lock costs time and memory for
    /// each component of its path, so this maximum bounds the cost of a lock.
    pub const MAX_KEY_BYTES: usize = 1_024;

    /// Parses a path. Each folder has exactly one valid spelling, because two spellings would get
    /// two separate locks. This function refuses any other spelling, and does not correct it.
    ///
    /// # Errors
    /// Returns [`ErrorKind::InvalidInput`] with a description of the error in the text.
    pub fn new(text: &str) -> Result<Path, Error> {
        let Some(key) = text.strip_prefix('/') else {
            return invalid(format!("a path must start with a slash, got {text:?}"));
        };
        check_length(key)?;
        if !key.is_empty() {
            for component in key.split('/') {
                check(component, text)?;
            }
        }
        Ok(Path::of(text))
    }

    fn of(text: &str) -> Path {
        Path { text: text.into(), len: text.len() }
    }

    /// Returns `/`, the folder of all objects.
    #[must_use]
    pub fn root() -> Path {
        Path::of("/")
    }

    /// Returns the path as text, with the leading slash.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text[..self.len]
    }

    /// Returns the path without the leading slash: the key of the object at this path. The keys of
    /// the objects below this path start with this key and a slash. The key of the root is empty.
    #[must_use]
    pub fn key(&self) -> &str {
        &self.as_str()[1..]
    }

    /// Returns the parent folder, or `None` for the root.
    #[must_use]
    pub fn parent(&self) -> Option<Path> {
        let slash = self.key().rfind('/').map_or(0, |slash| slash + 1);
        // The root consists only of the slash.
        (self.len > 1).then(|| Path { text: Arc::clone(&self.text), len: slash.max(1) })
    }

    /// Returns the path of this component in this folder.
    ///
    /// # Errors
    /// Returns [`ErrorKind::InvalidInput`] if the component is empty, `.` or `..`, or contains a
    /// slash.
    pub fn join(&self, component: &str) -> Result<Path, Error> {
        if component.contains('/') {
            let why = "contains a slash, so it is more than one component of a path";
            return invalid(format!("{component:?} {why}"));
        }
        let slash = if self.len > 1 { "/" } else { "" };
        let text = format!("{self}{slash}{component}");
        check_length(&text[1..])?;
        check(component, &text)?;
        Ok(Path::of(&text))
    }

    /// Returns the folders above this path, the nearest first.
    pub(super) fn ancestors(&self) -> impl Iterator<Item = Path> {
        std::iter::successors(self.parent(), Path::parent)
    }
}

fn invalid<T>(why: String) -> Result<T, Error> {
    Err(Error::new(ErrorKind::InvalidInput, why))
}

fn check_length(key: &str) -> Result<(), Error> {
    let (most, length) = (Path::MAX_KEY_BYTES, key.len());
    if length > most {
        return invalid(format!("a key must have at most {most} bytes, as on S3, got {length}"));
    }
    Ok(())
}

fn check(component: &str, text: &str) -> Result<(), Error> {
    match component {
        "" => invalid(format!(
            "{text:?} has an empty component: remove slashes at the end and double slashes"
        )),
        "." | ".." => invalid(format!("{text:?} has a component that is `.` or `..`")),
        _ => Ok(()),
    }
}

impl Ord for Path {
    fn cmp(&self, other: &Path) -> Ordering {
        // A slash ranks below all other bytes, so paths are compared by component.
        let (mine, others) = (self.as_str().as_bytes(), other.as_str().as_bytes());
        let rank = |byte: &u8| if *byte == b'/' { 0 } else { u16::from(*byte) + 1 };
        match mine.iter().map(rank).zip(others.iter().map(rank)).find(|(a, b)| a != b) {
            Some((a, b)) => a.cmp(&b),
            None => self.len.cmp(&other.len),
        }
    }
}

impl PartialOrd for Path {
    fn partial_cmp(&self, other: &Path) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Path {
    fn eq(&self, other: &Path) -> bool {
        self.as_str() == other.as_str()
    }
}

impl Eq for Path {}

impl Hash for Path {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.as_str().hash(state);
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl fmt::Debug for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Path({:?})", self.as_str())
    }
}

impl FromStr for Path {
    type Err = Error;

    fn from_str(text: &str) -> Result<Path, Error> {
        Path::new(text)
    }
}

impl TryFrom<&str> for Path {
    type Error = Error;

    fn try_from(text: &str) -> Result<Path, Error> {
        Path::new(text)
    }
}

impl From<&Path> for Path {
    fn from(path: &Path) -> Path {
        path.clone()
    }
}

#[cfg(test)]
mod tests {
    use std::hash::BuildHasher as _;

    use proptest::prelude::*;

    use super::*;
    use tenure::internals::plain;
    use tenure_testkit::properties::cases;

    #[test]
    fn invalid_paths_are_refused_with_the_reason() {
        for text in ["/", "/a", "/a/b", "/a b/ä", "/...", "/.a", "/a\0", "/~"] {
            assert_eq!(Path::new(text).unwrap().as_str(), text);
        }
        let why = |text| {
            let error = Path::new(text).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidInput);
            error.to_string()
        };
        for text in ["", "a", "a/b", " /a", "s3://b/a"] {
            assert_eq!(why(text), format!("a path must start with a slash, got {text:?}"));
        }
        for text in ["//", "/a/", "//a", "/a//b"] {
            let empty = "has an empty component: remove slashes at the end and double slashes";
            assert_eq!(why(text), format!("{text:?} {empty}"));
        }
        for text in ["/.", "/..", "/a/../b", "/a/./b", "/a/..", "/./"] {
            assert_eq!(why(text), format!("{text:?} has a component that is `.` or `..`"));
        }
        let joined = Path::root().join("a/b").unwrap_err().to_string();
        assert_eq!(joined, "\"a/b\" contains a slash, so it is more than one component of a path");
    }

    /// Before the fix, a path had no maximum length, so one long path delayed all other calls. A
    /// lock on a path of 40 KB took 1.4 s, and a lock on a path of 100 KB took 9 s.
    #[test]
    fn regression_paths_have_a_maximum_length() {
        let longest = Path::new(&"/a".repeat(Path::MAX_KEY_BYTES / 2)).unwrap();
        assert_eq!(longest.key().len(), 1_023);
        assert_eq!(longest.ancestors().count(), 512);
        let is_longer = |path: Result<Path, Error>, bytes| {
            let why = format!("a key must have at most 1024 bytes, as on S3, got {bytes}");
            assert_eq!(path.unwrap_err().to_string(), why);
        };
        is_longer(longest.join("b"), 1_025);
        is_longer(Path::new(&"/a".repeat(20_000)), 39_999);
        let key = "k".repeat(1_024);
        assert_eq!(Path::root().join(&key).unwrap().key(), key);
        is_longer(Path::root().join(&(key + "k")), 1_025);
    }

    #[test]
    fn parents_and_joined_paths_agree() {
        let path = Path::new("/a/b/c").unwrap();
        let above: Vec<_> = path.ancestors().map(|path| path.to_string()).collect();
        assert_eq!(above, ["/a/b", "/a", "/"]);
        assert_eq!((Path::root().parent(), Path::root().key()), (None, ""));
        assert_eq!(Path::root().join("a").unwrap().join("b").unwrap().join("c").unwrap(), path);
        assert_eq!(path.key(), "a/b/c");
        for component in ["", ".", "..", "a/b", "/"] {
            assert!(path.join(component).is_err(), "{component:?}");
        }
    }

    #[test]
    fn paths_are_ordered_by_component() {
        let mut paths = ["/b", "/a!", "/a/b", "/", "/a", "/a/b/c", "/a!/a", "/ab", "/a/\0"]
            .map(|text| Path::new(text).unwrap());
        paths.sort();
        let sorted = paths.map(|path| path.to_string());
        assert_eq!(sorted, ["/", "/a", "/a/\0", "/a/b", "/a/b/c", "/a!", "/a!/a", "/ab", "/b"]);
    }

    fn path() -> impl Strategy<Value = Path> {
        proptest::collection::vec("[ab!\0é]{1,2}", 0..4)
            .prop_map(|components| Path::new(&format!("/{}", components.join("/"))).unwrap())
    }

    proptest! {
        #![proptest_config(cases(1_000))]

        #[test]
        fn paths_compare_as_their_lists_of_components(a in path(), b in path()) {
            let components = |path: &Path| -> Vec<String> {
                path.key().split('/').filter(|part| !part.is_empty()).map(str::to_owned).collect()
            };
            prop_assert_eq!(a.cmp(&b), components(&a).cmp(&components(&b)));
            prop_assert_eq!(a == b, a.cmp(&b).is_eq());
        }

        #[test]
        fn an_ancestor_equals_the_same_path_when_parsed(a in path()) {
            let hasher = std::hash::RandomState::new();
            for above in a.ancestors() {
                let anew = Path::new(above.as_str()).unwrap();
                prop_assert_eq!(&anew, &above);
                prop_assert_eq!(hasher.hash_one(&anew), hasher.hash_one(&above));
                prop_assert!(above < a);
            }
        }

        #[test]
        fn any_text_is_a_path_or_an_error_that_quotes_it(text in "/?[a./ä]{0,8}|\\PC*") {
            match Path::new(&text) {
                Ok(path) => prop_assert_eq!(path.as_str(), text),
                Err(why) => {
                    let quoted = plain(&format!("{text:?}"));
                    prop_assert!(why.to_string().contains(&quoted));
                }
            }
        }
    }
}
