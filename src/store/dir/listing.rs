//! Lists one page of the keys in a directory.

use std::collections::BTreeMap;
use std::path::Path;

use chrono::{DateTime, TimeDelta, Utc};

use super::folder::{Folder, Hint, Named, Root};
use super::folder_chain::FolderChain;
use super::lock::{Locked, sleep};
use super::time::last_modified;
use super::{key, unsynced};
use crate::env::clock;
use crate::store::{Determinacy, Entry, Page, StoreError, StoreErrorKind};

const MAX_PAGE: usize = 1_000;

/// Returns the smallest keys with this prefix that are greater than `after`.
///
/// This function reads the whole folder, but keeps only one page in memory. It acquires the lock
/// only if a folder changes meanwhile or changed just before. If every listing held the lock,
/// writers would wait for each large listing.
pub(super) fn list(
    root: &Root,
    prefix: &str,
    after: &str,
    limit: usize,
) -> Result<Page, StoreError> {
    let base = key::folder_of_prefix(prefix)?;
    let top = Folder::root(root)?;
    let room = limit.clamp(1, MAX_PAGE) + 1;
    let read =
        |walks| PageKeys { prefix, after, room, kept: BTreeMap::new() }.read(&top, base, walks);
    let mut page = match read(Walks::UntilQuiet(1))? {
        Some(page) => page,
        None => {
            let locked = Locked::shared(&top)?;
            let walks = locked.as_ref().map_or(Walks::UntilQuiet(MOST_WALKS), |_| Walks::Locked);
            read(walks)?.ok_or_else(|| never_quiet(&top.path_of(base)))?
        }
    };
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
    Ok(Page::new(entries, truncated).with_served_at(clock::wall_clock()))
}

fn never_quiet(path: &Path) -> StoreError {
    let why = format!(
        "{} changes too fast for a listing without the lock; try again, or list as the user of the \
         writers",
        path.display()
    );
    StoreError::new(StoreErrorKind::Transient, Determinacy::Determinate, why)
}

/// States how often a listing reads (walks) each folder. A walk may miss a file that is replaced
/// during the walk.
#[derive(Debug, Clone, Copy)]
enum Walks {
    /// One walk, because this process holds the lock.
    Locked,
    /// Repeated walks until the folder does not change during a walk, but at most this number.
    UntilQuiet(usize),
}

/// Maximum number of times that a process without the lock walks (reads) a folder that keeps
/// changing.
const MOST_WALKS: usize = 8;

/// Longest interval in which a file system may give two changes the same modification time.
const TICK: TimeDelta = TimeDelta::milliseconds(20);
/// Longest interval in which a file system that stores only whole seconds may give two changes the
/// same modification time.
const COARSE_TICK: TimeDelta = TimeDelta::seconds(2);

/// Repeats the walk until the folder does not change during a walk. Returns false if the folder
/// still changes after `most` attempts. An attempt also fails if the folder changed just before it,
/// because the next change may get the same modification time. The time of the last change may be
/// in the future, because the clock may have been set back.
fn until_quiet(
    most: usize,
    now: impl Fn() -> DateTime<Utc>,
    modified: impl Fn() -> Option<DateTime<Utc>>,
    mut walk: impl FnMut() -> Result<(), StoreError>,
) -> Result<bool, StoreError> {
    for number in 0..most {
        if number > 0 {
            sleep(TICK.to_std().unwrap_or_default());
        }
        let Some(before) = modified() else { continue };
        let tick = if before.timestamp_subsec_nanos() == 0 { COARSE_TICK } else { TICK };
        if (now() - before).abs() > tick {
            walk()?;
            if modified() == Some(before) {
                return Ok(true);
            }
        }
    }
    Ok(false)
}

struct PageKeys<'a> {
    prefix: &'a str,
    after: &'a str,
    /// Maximum number of keys in `kept`: one more than the page returns. The additional key shows
    /// that the page is not the last page.
    room: usize,
    kept: BTreeMap<String, Entry>,
}

impl PageKeys<'_> {
    /// Reads the folder `base` and its subfolders. Returns `None` if a folder does not stop
    /// changing.
    fn read(mut self, top: &Folder, base: &str, walks: Walks) -> Result<Option<Self>, StoreError> {
        let mut folders = vec![base.to_owned()];
        while let Some(path) = folders.pop() {
            let Some(chain) = FolderChain::find(top, &path)? else { continue };
            let (folder, known) = (chain.folder(), folders.len());
            let mut walk = || {
                folders.truncate(known);
                self.walk(&path, folder, &mut folders)
            };
            let is_read = match walks {
                Walks::Locked => walk().map(|()| true),
                Walks::UntilQuiet(most) => {
                    until_quiet(most, clock::wall_clock, || last_modified(folder.file()), walk)
                }
            }?;
            if !is_read {
                return Ok(None);
            }
        }
        Ok(Some(self))
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
            // `a.b` sorts before `a/b`, although `a` sorts before `a.b`. So append the slash to the
            // name of a folder before the comparison.
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

    use chrono::Timelike as _;

    use super::*;

    fn page<'a>(prefix: &'a str, after: &'a str, kept: &[&str]) -> PageKeys<'a> {
        let entry = |key: &&str| ((*key).to_owned(), Entry::new(*key, 0));
        PageKeys { prefix, after, room: 2, kept: kept.iter().map(entry).collect() }
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
    fn a_full_page_ignores_keys_greater_than_its_last_key() {
        let full = page("", "a", &["b", "d"]);
        for (key, wants) in [("a", false), ("aa", true), ("c", true), ("d", true), ("da", false)] {
            assert_eq!(full.wants(key), wants, "{key}");
        }
        assert!(page("", "a", &["b"]).wants("z"), "the page is not full");
    }

    /// Returns the number of walks, and the result of `until_quiet`. The last change of the folder
    /// occurred `age` before the start. Each of the first `changes` walks changes the folder, and
    /// each check of the clock takes 15 ms.
    fn walks(most: usize, changes: usize, age: TimeDelta) -> (usize, bool) {
        let start = clock::wall_clock().with_nanosecond(7).expect("a time");
        let (now, walks, modified) = (Cell::new(start), Cell::new(0), Cell::new(start - age));
        let tick = || now.replace(now.get() + TimeDelta::milliseconds(15));
        let quiet = until_quiet(
            most,
            tick,
            || Some(modified.get()),
            || {
                walks.set(walks.get() + 1);
                if walks.get() <= changes {
                    modified.set(now.get());
                }
                Ok(())
            },
        );
        (walks.get(), quiet.expect("no walk fails"))
    }

    #[test]
    fn a_walk_is_repeated_until_the_folder_does_not_change() {
        let nanosecond = TimeDelta::nanoseconds(1);
        for (age, walked) in [(TICK + nanosecond, 1), (TICK, 0), (-TICK, 0)] {
            assert_eq!(walks(1, 0, age), (walked, walked == 1), "{age}");
        }
        assert_eq!(
            walks(9, 0, TimeDelta::zero()),
            (1, true),
            "the clock passes the change of the folder"
        );
        assert_eq!(walks(1, 0, TimeDelta::hours(-1)), (1, true), "the clock was set back");
        assert_eq!(walks(9, 1, TICK * 9), (2, true));
        assert_eq!(walks(1, 1, TICK * 9), (1, false));
        let never = until_quiet(2, clock::wall_clock, || None, || panic!("no date"));
        assert!(!never.expect("no walk"));
    }

    /// A file system that stores only whole seconds gives the same date to all changes within a
    /// second.
    #[test]
    fn whole_seconds_count_as_coarse() {
        let second = DateTime::<Utc>::from_timestamp(1_000, 0).expect("a time");
        let quiet = |age| until_quiet(1, || second + age, || Some(second), || Ok(()));
        assert!(!quiet(COARSE_TICK).expect("no walk fails"));
        assert!(quiet(COARSE_TICK + TICK).expect("no walk fails"));
    }
}
