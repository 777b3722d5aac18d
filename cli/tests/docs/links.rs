//! Checks that the targets of links within the repository, and the paths in backticks, exist.

use std::path::{Component, Path, PathBuf};

use super::page::{Page, root};

pub fn problems(page: &Page, pages: &[Page]) -> Vec<String> {
    let links = page.links.iter();
    let wrong = links.filter_map(|link| {
        let why = leads_nowhere(page, pages, &link.it)?;
        Some(format!("{}: {} {why}", page.at(link.line), link.it))
    });
    wrong.chain(paths(page)).collect()
}

/// Folders in the root of the repository. A path in backticks that begins with one of them must
/// exist.
const FOLDERS: [&str; 10] =
    ["benches", "cli", "crates", "deploy", "docs", "examples", "fuzz", "scripts", "src", "tests"];

/// Returns the paths in the text that do not exist in the repository. A path may omit the file's
/// extension. Paths with placeholders are not checked.
fn paths(page: &Page) -> impl Iterator<Item = String> {
    page.spans.iter().filter_map(|span| {
        let path = span.it.as_str();
        let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "/._-".contains(c);
        let (first, below) = path.split_once('/')?;
        if !FOLDERS.contains(&first) || below.is_empty() || !path.chars().all(plain) {
            return None;
        }
        let is = |path: &str| root().join(path).exists();
        let there = is(path) || is(&format!("{path}.rs"));
        (!there).then(|| format!("{}: {path} does not exist", page.at(span.line)))
    })
}

fn leads_nowhere(page: &Page, pages: &[Page], link: &str) -> Option<&'static str> {
    if link.contains("://") {
        return None;
    }
    let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
    let path = match file {
        "" => page.path.clone(),
        file => plain(&page.path.with_file_name("").join(file)),
    };
    if !root().join(&path).exists() && !file.is_empty() {
        return Some("does not exist");
    }
    if page.path.starts_with("docs") && !path.starts_with("docs") && !is_in_the_book(&path) {
        return Some("is not a file that scripts/docs/book-files.sh copies");
    }
    if anchor.is_empty() {
        return None;
    }
    let target = if file.is_empty() { Some(page) } else { pages.iter().find(|p| p.path == path) };
    match target {
        Some(target) if target.has(anchor) => None,
        Some(_) => Some("has no such heading"),
        None => Some("is not a page with headings"),
    }
}

/// Returns whether a build of the book copies this file, so that links from pages to it work.
fn is_in_the_book(path: &Path) -> bool {
    let script = include_str!("../../../scripts/docs/book-files.sh");
    let mut words = script.split([' ', '\n', ';']).filter(|word| !word.is_empty());
    root().join(path).is_file() && words.any(|copied| path.starts_with(copied))
}

/// Resolves the `..` in this path.
fn plain(path: &Path) -> PathBuf {
    let mut plain = PathBuf::new();
    for part in path.components() {
        match part {
            Component::ParentDir => {
                plain.pop();
            }
            part => plain.push(part),
        }
    }
    plain
}
