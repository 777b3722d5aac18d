//! Tests that the modes exclude an operation if and only if it conflicts by the rule
//! (`Operation::conflicts_with`). Also tests that an error in the modes is detected.

use std::cell::OnceCell;

use super::*;

type Compatible = fn(Mode, Mode) -> bool;

/// Returns all operations with up to two paths of the tree for reading and for writing.
fn operations() -> Vec<Operation> {
    let mut sets: Vec<Vec<&str>> = vec![vec![]];
    for (at, first) in TREE.iter().enumerate() {
        sets.push(vec![first]);
        sets.extend(TREE[at + 1..].iter().map(|second| vec![*first, *second]));
    }
    let pairs = sets.iter().flat_map(|reads| sets.iter().map(move |writes| (reads, writes)));
    pairs.map(|(reads, writes)| Operation::of(reads, writes)).collect()
}

/// Two operations for which the modes contradict the rule for conflicts. The modes admit both
/// operations at the same time although they conflict, or the reverse.
#[derive(Debug)]
struct Wrong {
    rule: bool,
    #[expect(dead_code, reason = "for messages")]
    operations: [Operation; 2],
}

/// Compares the modes with the rule for conflicts, for every two operations.
fn judge(
    modes: impl Fn(&Operation) -> Modes,
    is_compatible: impl Fn(Mode, Mode) -> bool,
) -> Result<usize, Box<Wrong>> {
    // The conflicts between the operations are computed once for all variants of the modes.
    thread_local! { static ALL: OnceCell<Vec<(Operation, Vec<bool>)>> = const { OnceCell::new() } }
    ALL.with(|all| {
        let all = all.get_or_init(|| {
            let all = operations();
            let row = |one: &Operation| all.iter().map(|other| one.conflicts_with(other)).collect();
            all.iter().map(|one| (one.clone(), row(one))).collect()
        });
        let locks: Vec<Modes> = all.iter().map(|(operation, _)| modes(operation)).collect();
        for (at, (one, conflicts)) in all.iter().enumerate() {
            for (other_at, (other, _)) in all.iter().enumerate() {
                let rule = conflicts[other_at];
                if meet(&locks[at], &locks[other_at], &is_compatible) != rule {
                    let operations = [one.clone(), other.clone()];
                    return Err(Box::new(Wrong { rule, operations }));
                }
            }
        }
        Ok(all.len() * all.len())
    })
}

/// Returns whether two calls exclude each other at some path. Both lists of modes are sorted by
/// path.
fn meet(one: &Modes, other: &Modes, is_compatible: impl Fn(Mode, Mode) -> bool) -> bool {
    one.iter().any(|(path, mode)| {
        let found = other.binary_search_by(|(other, _)| other.cmp(path));
        found.is_ok_and(|at| !is_compatible(*mode, other[at].1))
    })
}

#[test]
fn operations_conflict_if_one_writes_in_the_others_lineage() {
    let pairs = judge(Operation::modes, Mode::is_compatible).unwrap();
    assert_eq!(pairs, 841 * 841);
}

/// The operation reads /a and writes /a/b. Charemza's post locks /a only as an ancestor of a write,
/// and this lock admits another write into /a during the read.
#[test]
fn broken_modes_that_admit_a_writer_below_a_read_are_caught() {
    let wrong = judge(modes_of_the_post, Mode::is_compatible).unwrap_err();
    assert!(wrong.rule, "the modes admit too much: {wrong:?}");
    let (copy, write) = (Operation::of(&["/a"], &["/a/b"]), Operation::of(&[], &["/a/c"]));
    assert!(copy.conflicts_with(&write));
    let post = [&copy, &write].map(modes_of_the_post);
    assert!(!meet(&post[0], &post[1], Mode::is_compatible), "both calls would run");
    assert!(meet(&copy.modes(), &write.modes(), Mode::is_compatible));
}

/// If an operation reads no path above a path that it writes, its modes equal the modes of
/// Charemza's post.
#[test]
fn modes_equal_the_post_unless_a_read_is_above_a_write() {
    let mut differ = 0;
    for operation in operations() {
        let above: BTreeSet<Path> = operation.writes.iter().flat_map(Path::ancestors).collect();
        let overlap = operation
            .reads
            .iter()
            .any(|path| above.contains(path) && !operation.writes.contains(path));
        assert_eq!(operation.modes() != modes_of_the_post(&operation), overlap, "{operation:?}");
        differ += usize::from(overlap);
    }
    assert!(differ > 0);
}

#[test]
fn modes_are_compatible_as_in_the_table() {
    let table = [
        ("ReadAncestor", "yes yes yes yes no  "),
        ("Read", "yes yes no  no  no  "),
        ("WriteAncestor", "yes no  yes no  no  "),
        ("ReadAndWriteAncestor", "yes no  no  no  no  "),
        ("Write", "no  no  no  no  no  "),
    ];
    for (mode, (name, row)) in Mode::ALL.into_iter().zip(table) {
        let shown = Mode::ALL.map(|other| if mode.is_compatible(other) { "yes " } else { "no  " });
        assert_eq!(
            (format!("{mode:?}").as_str(), shown.concat().as_str()),
            (name, row),
            "{mode:?}"
        );
    }
}

/// The combination of two modes excludes a third mode if and only if at least one of the two modes
/// excludes the third.
#[test]
fn a_combined_mode_excludes_the_modes_that_either_mode_excludes() {
    for (one, other) in pairs_of_modes() {
        for third in Mode::ALL {
            let both = one.is_compatible(third) && other.is_compatible(third);
            assert_eq!(one.and(other).is_compatible(third), both, "{one:?} {other:?} {third:?}");
        }
        assert_eq!(one.and(other), other.and(one));
    }
}

fn pairs_of_modes() -> impl Iterator<Item = (Mode, Mode)> {
    Mode::ALL.into_iter().flat_map(|one| Mode::ALL.map(|other| (one, other)))
}

#[test]
fn broken_entries_of_the_table_are_caught() {
    let mut broken = 0;
    for (one, other) in pairs_of_modes().filter(|(one, other)| one <= other) {
        let flipped = |a: Mode, b: Mode| {
            let here = (a.min(b), a.max(b)) == (one, other);
            a.is_compatible(b) != here
        };
        let wrong = judge(Operation::modes, flipped).unwrap_err();
        // The flipped entry of the compatibility table admits an operation that the rule forbids,
        // or refuses an operation that the rule permits.
        assert_eq!(wrong.rule, !one.is_compatible(other), "{one:?} {other:?}: {wrong:?}");
        broken += 1;
    }
    assert_eq!(broken, 15);
}

#[test]
fn broken_modes_are_caught() {
    type Change = fn(&(Path, Mode)) -> Option<Mode>;
    let changes: [(&str, Change); 6] = [
        ("no read-ancestors", |(_, mode)| (*mode != Mode::ReadAncestor).then_some(*mode)),
        ("no write-ancestors", |(_, mode)| (*mode != Mode::WriteAncestor).then_some(*mode)),
        ("the root is omitted", |(path, mode)| (path.key() != "").then_some(*mode)),
        ("read-ancestor for write-ancestor", |(_, mode)| match mode {
            Mode::WriteAncestor => Some(Mode::ReadAncestor),
            mode => Some(*mode),
        }),
        ("read for read-ancestor", |(_, mode)| match mode {
            Mode::ReadAncestor => Some(Mode::Read),
            mode => Some(*mode),
        }),
        ("write for both", |(_, mode)| match mode {
            Mode::ReadAndWriteAncestor => Some(Mode::Write),
            mode => Some(*mode),
        }),
    ];
    for (name, change) in changes {
        let modes = |operation: &Operation| -> Modes {
            let modes = operation.modes();
            let changed = modes.iter().filter_map(|lock| Some((lock.0.clone(), change(lock)?)));
            changed.collect()
        };
        assert!(judge(modes, Mode::is_compatible).is_err(), "{name}");
    }
    // The simpler schemes of Charemza's post are safe, but admit fewer operations.
    let ancestors_read_targets_write: Compatible = |a, b| a < Mode::Write && b < Mode::Write;
    let all_write = |operation: &Operation| -> Modes {
        let modes = operation.modes();
        let targets =
            |path: &Path| operation.reads.contains(path) || operation.writes.contains(path);
        let lock = |(path, _): &(Path, Mode)| match targets(path) {
            true => (path.clone(), Mode::Write),
            false => (path.clone(), Mode::Read),
        };
        modes.iter().map(lock).collect()
    };
    assert!(!judge(all_write, ancestors_read_targets_write).unwrap_err().rule);
}

/// A call makes one lock operation for each named path and for each ancestor, in the documented
/// order.
#[test]
fn each_path_is_locked_once_and_ancestors_come_first() {
    for operation in operations() {
        let modes = operation.modes();
        let named = operation.reads.iter().chain(&operation.writes).cloned();
        let mut all: BTreeSet<Path> = named.collect();
        all.extend(all.clone().iter().flat_map(Path::ancestors));
        assert!(modes.iter().map(|(path, _)| path).eq(&all), "{modes:?}");
    }
    let shown: Vec<_> = Operation::of(&["/a/b/c", "/d"], &["/a!", "/a/c", "/"])
        .modes()
        .into_iter()
        .map(|(path, mode)| format!("{path} {mode:?}"))
        .collect();
    assert_eq!(
        shown,
        [
            "/ Write",
            "/a WriteAncestor",
            "/a/b ReadAncestor",
            "/a/b/c Read",
            "/a/c Write",
            "/a! Write",
            "/d Read",
        ]
    );
}
