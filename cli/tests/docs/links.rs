//! Links within the repository: the file is there, and so is the heading.

use std::path::{Component, Path, PathBuf};

use super::page::{Page, root};

pub fn problems(page: &Page, pages: &[Page]) -> Vec<String> {
    let links = page.links.iter();
    let wrong = links.filter_map(|link| {
        let why = leads_nowhere(page, pages, &link.it)?;
        Some(format!("{}: {} {why}", page.at(link.line), link.it))
    });
    wrong.collect()
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
