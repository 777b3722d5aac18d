//! Tests that repeated cycles of locking and unlocking new paths free all memory that they
//! allocate.

use futures::executor::block_on;
use tenure_paths::{Access, Path, PathLocks};

/// Runs lock/unlock cycles, each on a new path. In each eighth cycle another call waits for the
/// path and gives up.
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
fn many_cycles_on_new_paths_free_all_memory() {
    let locks = PathLocks::new();
    cycles(&locks, 0..10_000);
    let counted = allocation_counter::measure(|| cycles(&locks, 10_000..110_000));
    assert_eq!(locks.locked_paths(), 0);
    println!("{counted:?}");
    assert!(counted.count_total > 100_000, "the cycles allocate");
    assert_eq!((counted.count_current, counted.bytes_current), (0, 0), "all memory is freed");
}
