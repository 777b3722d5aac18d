//! One page of the keys in a directory.

use std::collections::BTreeMap;
use std::path::Path;

use super::folder::{Folder, Hint, Named, Way};
use super::key;
use super::lock::Locked;
use crate::clock;
use crate::store::{Entry, Page, StoreError};

const MAX_PAGE: usize = 1_000;

/// The smallest keys with this prefix that are greater than `after`.
///
/// The whole folder is walked, but only one page of it is held in memory.
pub(super) fn list(
    root: &Path,
    prefix: &str,
    after: &str,
    limit: usize,
) -> Result<Page, StoreError> {
    let base = key::folder_of_prefix(prefix)?;
    // A rename while the folder is walked could hide the file that it replaces.
    let _locked = Locked::shared(&Folder::root(root)?)?;
    let mut page =
        Keys { prefix, after, room: limit.clamp(1, MAX_PAGE) + 1, kept: BTreeMap::new() };
    let mut folders = vec![base.to_owned()];
    while let Some(path) = folders.pop() {
        if let Some(way) = Way::find(Folder::root(root)?, &path)? {
            page.walk(&path, way.folder(), &mut folders)?;
        }
    }
    let truncated = page.kept.len() == page.room;
    if truncated {
        page.kept.pop_last();
    }
    let entries = page.kept.into_values().collect();
    Ok(Page { entries, truncated, served_at: Some(clock::wall_clock()) })
}

struct Keys<'a> {
    prefix: &'a str,
    after: &'a str,
    /// One more than the page holds, to know whether it is the last.
    room: usize,
    kept: BTreeMap<String, Entry>,
}

impl Keys<'_> {
    fn walk(
        &mut self,
        path: &str,
        folder: &Folder,
        folders: &mut Vec<String>,
    ) -> Result<(), StoreError> {
        for found in folder.names()? {
            let (name, hint) = found?;
            let Some(key) = key::join(path, &name) else { continue };
            // `a.b` sorts before `a/b`, so a folder has to be judged by its name with the slash.
            let may_hold = self.may_hold(&format!("{key}/"));
            let wants = self.wants(&key);
            if !(may_hold && hint != Hint::Object || wants && hint != Hint::Folder) {
                continue;
            }
            match folder.look_up(&name)? {
                Some(Named::Object { size, last_modified }) if wants => {
                    self.kept.insert(key.clone(), Entry { key, size, last_modified });
                    if self.kept.len() > self.room {
                        self.kept.pop_last();
                    }
                }
                Some(Named::Folder) if may_hold => folders.push(key),
                _ => {}
            }
        }
        Ok(())
    }

    fn wants(&self, key: &str) -> bool {
        key.starts_with(self.prefix) && key > self.after && !self.is_beyond_the_page(key)
    }

    /// Whether keys that start with this folder's name belong on the page.
    fn may_hold(&self, folder: &str) -> bool {
        let is_over = folder < self.after && !self.after.starts_with(folder);
        folder.starts_with(self.prefix) && !is_over && !self.is_beyond_the_page(folder)
    }

    fn is_beyond_the_page(&self, key: &str) -> bool {
        self.kept.len() == self.room
            && self.kept.last_key_value().is_some_and(|(greatest, _)| key > greatest.as_str())
    }
}
