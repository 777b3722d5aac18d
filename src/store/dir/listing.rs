//! Lists one page of the keys in a directory.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};

use super::folder::{Folder, Hint, Named, Root};
use super::folder_chain::FolderChain;
use super::lock::read_locked;
use super::time::last_modified;
use super::{key, unsynced};
use crate::env::clock;
use crate::store::{Entry, Page, StoreError};

const MAX_PAGE: usize = 1_000;

/// Returns the smallest keys with this prefix that are greater than `after`.
///
/// This function reads the whole folder, but keeps only one page in memory.
pub(super) fn list(
    root: &Root,
    prefix: &str,
    after: &str,
    limit: usize,
) -> Result<Page, StoreError> {
    let base = key::folder_of_prefix(prefix)?;
    let top = Folder::root(root)?;
    // Writers are excluded during the walk, because the walk could miss a file that a rename
    // replaces.
    let mut page = read_locked(&top, |is_locked| {
        let room = limit.clamp(1, MAX_PAGE) + 1;
        let mut page = PageKeys { prefix, after, room, kept: BTreeMap::new(), is_locked };
        let mut folders = vec![base.to_owned()];
        while let Some(path) = folders.pop() {
            if let Some(chain) = FolderChain::find(&top, &path)? {
                page.look_into(&path, chain.folder(), &mut folders)?;
            }
        }
        Ok(page)
    })?;
    let truncated = page.kept.len() == page.room;
    if truncated {
        page.kept.pop_last();
    }
    let entries: Vec<Entry> = page.kept.into_values().collect();
    if let Some(marked) = unsynced::marked(&top)?
        && entries.iter().any(|entry| entry.key == marked)
    {
        unsynced::ensure(&top, &marked)?;
    }
    Ok(Page { entries, truncated, served_at: Some(clock::wall_clock()) })
}

struct PageKeys<'a> {
    prefix: &'a str,
    after: &'a str,
    /// Maximum number of keys in `kept`: one more than the page returns. The additional key shows
    /// that the page is not the last page.
    room: usize,
    kept: BTreeMap<String, Entry>,
    /// False if this process could not open the lock. In this case writers may run during the walk.
    is_locked: bool,
}

/// Maximum number of walks of a folder that keeps changing.
const MOST_WALKS: usize = 8;

/// Longest interval in which a file system may give two changes the same modification time.
const TICK: chrono::TimeDelta = chrono::TimeDelta::milliseconds(20);

/// Repeats the walk until the last modification of the folder is more than `TICK` older than the
/// start of the walk. Walks at most `most` times.
fn until_quiet(
    most: usize,
    now: impl Fn() -> DateTime<Utc>,
    modified: impl Fn() -> Option<DateTime<Utc>>,
    mut walk: impl FnMut() -> Result<(), StoreError>,
) -> Result<(), StoreError> {
    for _ in 0..most {
        let (start, before) = (now(), modified());
        walk()?;
        if before.is_some_and(|before| start.signed_duration_since(before) > TICK)
            && modified() == before
        {
            break;
        }
    }
    Ok(())
}

impl PageKeys<'_> {
    /// Walks the folder. Without the lock it repeats the walk if the folder has changed, because a
    /// walk may miss a file that is replaced during the walk.
    fn look_into(
        &mut self,
        path: &str,
        folder: &Folder,
        folders: &mut Vec<String>,
    ) -> Result<(), StoreError> {
        let (known, walks) = (folders.len(), if self.is_locked { 1 } else { MOST_WALKS });
        until_quiet(
            walks,
            clock::wall_clock,
            || last_modified(folder.file()),
            || {
                folders.truncate(known);
                self.walk(path, folder, folders)
            },
        )
    }

    fn walk(
        &mut self,
        path: &str,
        folder: &Folder,
        folders: &mut Vec<String>,
    ) -> Result<(), StoreError> {
        for found in folder.names()? {
            let (name, hint) = found?;
            let Some(key) = key::join(path, &name) else { continue };
            // `a.b` sorts before `a/b`, so the name of a folder is compared with its slash.
            let may_hold = self.may_hold(&format!("{key}/"));
            let wants = self.wants(&key);
            if !(may_hold && hint != Hint::Object || wants && hint != Hint::Folder) {
                continue;
            }
            match folder.look_up(&name)? {
                Some(Named::Object { size, last_modified }) if wants => {
                    let entry = Entry::new(key.clone(), size).with_last_modified(last_modified);
                    self.kept.insert(key, entry);
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

    /// Returns true if the page may contain keys in this folder.
    fn may_hold(&self, folder: &str) -> bool {
        let is_over = folder < self.after && !self.after.starts_with(folder);
        folder.starts_with(self.prefix) && !is_over && !self.is_beyond_the_page(folder)
    }

    fn is_beyond_the_page(&self, key: &str) -> bool {
        self.kept.len() == self.room
            && self.kept.last_key_value().is_some_and(|(greatest, _)| key > greatest.as_str())
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    fn page<'a>(prefix: &'a str, after: &'a str, kept: &[&str]) -> PageKeys<'a> {
        let entry = |key: &&str| ((*key).to_owned(), Entry::new(*key, 0));
        PageKeys { prefix, after, room: 2, kept: kept.iter().map(entry).collect(), is_locked: true }
    }

    #[test]
    fn a_folder_is_read_only_if_it_may_contain_a_key_of_the_page() {
        let started = page("app/", "app/c/5", &[]);
        for (folder, may_hold) in
            [("app/b/", false), ("app/c/", true), ("app/d/", true), ("apps/", false)]
        {
            assert_eq!(started.may_hold(folder), may_hold, "{folder}");
        }
        let full = page("", "", &["b", "d"]);
        for (folder, may_hold) in [("a/", true), ("c/", true), ("d/", false), ("e/", false)] {
            assert_eq!(full.may_hold(folder), may_hold, "{folder}");
        }
    }

    #[test]
    fn a_full_page_ignores_keys_greater_than_its_last() {
        let full = page("", "a", &["b", "d"]);
        for (key, wants) in [("a", false), ("aa", true), ("c", true), ("d", true), ("da", false)] {
            assert_eq!(full.wants(key), wants, "{key}");
        }
        assert!(page("", "a", &["b"]).wants("z"), "the page is not full");
    }

    /// Returns the number of walks that `until_quiet` makes. At the start the last modification of
    /// the folder has the age `age`. Each of the first `modified_before` walks modifies the folder.
    fn walks(modified_before: usize, age: chrono::TimeDelta) -> usize {
        let (start, walks) = (clock::wall_clock(), Cell::new(0));
        let modified = || {
            let times = i32::try_from(walks.get().min(modified_before)).expect("a small number");
            Some(start - age + TICK * times)
        };
        // The clock advances by one tick in each walk.
        let now = || start + TICK * i32::try_from(walks.get()).expect("a small number");
        until_quiet(MOST_WALKS, now, modified, || {
            walks.set(walks.get() + 1);
            Ok(())
        })
        .expect("no walk fails");
        walks.get()
    }

    #[test]
    fn a_walk_is_repeated_until_the_folder_has_an_old_date() {
        let nanosecond = chrono::TimeDelta::nanoseconds(1);
        assert_eq!(walks(0, TICK + nanosecond), 1, "quiet");
        assert_eq!(walks(0, TICK), 2, "no change since the first walk");
        assert_eq!(walks(1, TICK * 9), 2, "modified during the first walk");
        assert_eq!(walks(3, TICK * 9), 4);
        assert_eq!(walks(99, TICK * 9), MOST_WALKS);
        let unknown = Cell::new(0);
        let walk = || {
            unknown.set(unknown.get() + 1);
            Ok(())
        };
        until_quiet(MOST_WALKS, clock::wall_clock, || None, walk).expect("no walk fails");
        assert_eq!(unknown.get(), MOST_WALKS, "walks of a folder without a date");
    }
}
