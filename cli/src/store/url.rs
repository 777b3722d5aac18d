//! The value of `--store`: a store, and the prefix of an election in it. The library parses URLs.

use std::env;
use std::path::{Component, Path};

pub use tenure::store::{
    CloudKind as Kind, CloudService as Service, StorePlace as Place, StoreUrl,
};

use crate::output::print::plain;

/// Parses a URL, or the path of a directory: `./dir`, `../dir`, `dir/` or `/abs/dir`. A relative
/// path begins at the working directory.
///
/// A bare `dir` is refused, because it could also name a bucket.
pub fn store_url(text: &str) -> Result<StoreUrl, String> {
    let has_scheme = text.contains(':');
    let first = text.split('/').next();
    let url: StoreUrl = match first {
        Some(home) if home.starts_with('~') => {
            let why =
                "the shell replaces ~ only at the start of a word without quotes: write $HOME";
            return Err(why.to_owned());
        }
        _ if text.is_empty() => text.parse(),
        Some("" | "." | "..") => url_of(text)?.parse(),
        _ if text.ends_with('/') && !has_scheme => url_of(text)?.parse(),
        _ if has_scheme => text.parse(),
        _ => {
            let text = plain(text);
            let prefix = if text.contains('/') { "" } else { "/PREFIX" };
            Err(format!("write ./{text} for a directory, or a URL such as s3://{text}{prefix}"))
        }
    }?;
    match url.place() {
        Place::Dir { path, .. } if path.parent().is_none() => {
            Err("the root directory cannot be a store: choose a directory in it".to_owned())
        }
        _ => Ok(url),
    }
}

/// Returns the `file` URL of the directory at this path.
fn url_of(path: &str) -> Result<String, String> {
    let mut whole = env::current_dir().map_err(|error| format!("no working directory: {error}"))?;
    let mut has_name = false;
    for part in Path::new(path).components() {
        match part {
            // If the name before the `..` is a symbolic link, the path can mean different
            // directories to different programs.
            Component::ParentDir if has_name => {
                return Err("the path must not contain `..` after a name".to_owned());
            }
            // The path of the working directory contains no symbolic link, so `..` removes its last
            // part.
            Component::ParentDir => _ = whole.pop(),
            Component::CurDir => {}
            part => {
                has_name |= matches!(part, Component::Normal(_));
                whole.push(part);
            }
        }
    }
    let whole = whole.to_str().ok_or("the path of the working directory is not UTF-8")?;
    let whole = whole.replace('%', "%25").replace('?', "%3F").replace('#', "%23");
    Ok(format!("file://{whole}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_a_directory() {
        let here = env::current_dir().expect("a working directory");
        let above = here.parent().expect("the working directory has a parent");
        for (text, path) in [
            ("./dir", here.join("dir")),
            ("dir/", here.join("dir")),
            ("a/b/", here.join("a/b")),
            ("././a//b", here.join("a/b")),
            (".", here.clone()),
            ("..", above.to_owned()),
            ("../dir", above.join("dir")),
            ("/abs/dir", "/abs/dir".into()),
            ("./100%25?#x", here.join("100%25?#x")),
        ] {
            let url = store_url(text).expect(text);
            assert_eq!(*url.place(), Place::Dir { path, group: false }, "{text}");
            assert_eq!(url.to_string().parse(), Ok(url), "CMD gets the same directory for {text}");
        }
    }

    /// Before the fix, the URL in the hint of an error had a second prefix:
    /// `s3://bucket/orders/PREFIX`.
    #[test]
    fn regression_the_hint_keeps_the_prefix() {
        let why = store_url("bucket/orders").expect_err("no scheme");
        assert!(why.ends_with("such as s3://bucket/orders"), "{why}");
    }

    #[test]
    fn an_ambiguous_value_is_refused_with_a_remedy() {
        for (text, remedy) in [
            ("dir", "write ./dir for a directory"),
            ("dir", "s3://dir/PREFIX"),
            ("a/b", "write ./a/b for a directory"),
            ("./a/../b", "`..` after a name"),
            ("./ dir", "white space"),
            ("dir:x/", "dir"),
            ("", "no scheme"),
        ] {
            let why = store_url(text).expect_err(text);
            assert!(why.contains(remedy), "{text:?}: {why}");
        }
    }

    /// Before the fix, if the store was the root directory, a candidate created `/.tenure` before
    /// it failed.
    #[test]
    fn regression_the_root_directory_is_refused() {
        for text in ["/", "//", "/.", "file:///"] {
            let why = store_url(text).expect_err(text);
            assert!(why.contains("root directory"), "{text:?}: {why}");
        }
    }

    /// Before the fix, if no shell had replaced the `~` in the URL, a candidate created a directory
    /// named `~`.
    #[test]
    fn regression_a_tilde_that_no_shell_replaced_is_refused() {
        for text in ["~/x/", "~/x", "~", "~anna/x/"] {
            let why = store_url(text).expect_err(text);
            assert!(why.contains("$HOME"), "{text:?}: {why}");
        }
        assert!(store_url("./~/x").is_ok());
    }
}
