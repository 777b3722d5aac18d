//! A million lock/unlock cycles on fresh paths, alone in a process so that its memory can be looked
//! at.

use futures::executor::block_on;
use tenure::paths::{Access, Path, PathLocks};

/// Each cycle locks a path that was never locked before, while a waiter for it comes and goes.
fn cycles(locks: &PathLocks, numbers: std::ops::Range<u32>) {
    for number in numbers {
        let folder = Path::new(&format!("/a/folder-{number}/with a name of some length")).unwrap();
        let guard = block_on(locks.lock(Access::to_write(&folder))).unwrap();
        if number % 8 == 0 {
            let waiter = Box::pin(locks.lock(Access::to_read(&folder)));
            assert!(futures::FutureExt::now_or_never(waiter).is_none());
        }
        drop(guard);
    }
}

#[test]
fn a_million_cycles_on_fresh_paths_end_with_the_memory_they_began_with() {
    let locks = PathLocks::new();
    cycles(&locks, 0..10_000);
    let before = resident_kib();
    cycles(&locks, 10_000..1_010_000);
    let grown = resident_kib().saturating_sub(before);
    assert_eq!(locks.locked_paths(), 0);
    println!("resident memory has grown by {grown} KiB, to {} KiB", resident_kib());
    // A lock left behind at every cycle would be 300,000 KiB or so.
    assert!(grown < 1_024, "grown by {grown} KiB");
}

#[cfg(target_os = "linux")]
fn resident_kib() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages: u64 = statm.split(' ').nth(1).unwrap().parse().unwrap();
    pages * 4
}

#[cfg(not(target_os = "linux"))]
fn resident_kib() -> u64 {
    0
}
