//! Links within the repository, and paths in backticks: the file is there, and so is the heading.

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

/// The folders in which the paths in backticks begin.
const FOLDERS: [&str; 10] =
    ["benches", "cli", "crates", "deploy", "docs", "examples", "fuzz", "scripts", "src", "tests"];

/// The paths of the repository that the text names, and that are not there. A folder's files may be
/// named without their ending; a path with a placeholder in it is left alone.
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
        (!there).then(|| format!("{}: {path} is not there", page.at(span.line)))
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
        return Some("is not there");
    }
    if anchor.is_empty() {
        return None;
    }
    let target = if file.is_empty() { Some(page) } else { pages.iter().find(|p| p.path == path) };
    match target {
        Some(target) if target.has(anchor) => None,
        Some(_) => Some("has no such heading"),
        None => Some("is no page with headings"),
    }
}

/// Without `..`.
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
