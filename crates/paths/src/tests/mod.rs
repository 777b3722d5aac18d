//! Tests the locks against the rule for conflicts. The rule uses no modes, no queues and no locks
//! of ancestors.

use std::collections::BTreeSet;

use super::access::{Access, Modes};
use super::lock_modes::Mode;
use super::path::Path;
use super::table::{Table, Ticket};

mod interleavings;
mod order;
mod rules;

/// The paths that an operation reads and writes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct Operation {
    reads: BTreeSet<Path>,
    writes: BTreeSet<Path>,
}

impl Operation {
    fn of(reads: &[&str], writes: &[&str]) -> Operation {
        let paths = |texts: &[&str]| texts.iter().map(|text| path(text)).collect();
        Operation { reads: paths(reads), writes: paths(writes) }
    }

    /// Applies the rule: two operations conflict if one of them writes in the lineage of a path
    /// that the other reads or writes.
    fn conflicts_with(&self, other: &Operation) -> bool {
        let writes_into = |one: &Operation, other: &Operation| {
            let touched: Vec<_> = other.reads.iter().chain(&other.writes).collect();
            one.writes.iter().any(|path| touched.iter().any(|other| lineage(path, other)))
        };
        writes_into(self, other) || writes_into(other, self)
    }

    fn access(&self) -> Access {
        Access::new().read(&self.reads).write(&self.writes)
    }

    fn modes(&self) -> Modes {
        self.access().into_modes()
    }
}

fn path(text: &str) -> Path {
    Path::new(text).unwrap()
}

/// Returns whether the paths are equal, or one of them is an ancestor of the other.
fn lineage(one: &Path, other: &Path) -> bool {
    let above = |folder: &Path, path: &Path| {
        let rest = path.key().strip_prefix(folder.key());
        rest.is_some_and(|rest| folder.key().is_empty() || rest.is_empty() || rest.starts_with('/'))
    };
    above(one, other) || above(other, one)
}

/// The root, a child, two grandchildren that are siblings, a path below one of the grandchildren,
/// and unrelated paths.
const TREE: [&str; 7] = ["/", "/a", "/a/b", "/a/b/c", "/a/c", "/a!", "/d"];

/// Returns the modes of Charemza's post. These modes do not lock a path for reading if the
/// operation also writes below this path.
fn modes_of_the_post(operation: &Operation) -> Modes {
    let ancestors = |paths: &BTreeSet<Path>| -> BTreeSet<Path> {
        paths.iter().flat_map(Path::ancestors).collect()
    };
    let above_writes = ancestors(&operation.writes);
    let named = operation.reads.union(&operation.writes).cloned();
    let all: BTreeSet<Path> =
        named.chain(ancestors(&operation.reads)).chain(above_writes.clone()).collect();
    all.into_iter()
        .map(|path| {
            let mode = if operation.writes.contains(&path) {
                Mode::Write
            } else if above_writes.contains(&path) {
                Mode::WriteAncestor
            } else if operation.reads.contains(&path) {
                Mode::Read
            } else {
                Mode::ReadAncestor
            };
            (path, mode)
        })
        .collect()
}
