//! Tests the listings of a directory, with and without concurrent changes.

use super::*;

#[tokio::test]
async fn a_listing_reads_only_the_folders_of_the_page() {
    let (_dir, store) = store();
    let all = ["a", "b-1", "b.1", "b/1", "b/2/x", "b0", "c/1", "d"];
    for key in all {
        done(store.create(key, key.into()).await);
    }
    assert_eq!(keys_of(&store, "").await, all);
    assert_eq!(keys_of(&store, "b/").await, ["b/1", "b/2/x"]);
    // With one key per page, the pages together have every key once and in order, even if the keys
    // are in different folders.
    let (mut after, mut found) = (String::new(), Vec::new());
    loop {
        let page = store.list("", &after, 1).await.expect("listed");
        let [entry] = &page.entries[..] else { panic!("one entry: {page:?}") };
        after.clone_from(&entry.key);
        found.push(after.clone());
        if !page.truncated {
            break;
        }
    }
    assert_eq!(found, all);
}

/// Before the fix, each listing acquired the lock. Eight processes that listed 20,000 objects made
/// the renewals of a leader fail.
#[tokio::test]
async fn regression_a_listing_of_a_folder_without_changes_needs_no_lock() {
    let (dir, store) = store();
    done(store.create("a", "x".into()).await);
    let lock = fs::File::open(dir.path().join(".tenure/lock")).expect("there");
    lock.lock().expect("free");
    for away in [-3_600.5, -0.5, 3_600.5] {
        let root = fs::File::open(dir.path()).expect("there");
        let now = now();
        let changed = if away < 0.0 {
            now - Duration::from_secs_f64(-away)
        } else {
            now + Duration::from_secs_f64(away)
        };
        root.set_modified(changed).expect("set");
        assert_eq!(keys_of(&store, "").await, ["a"], "changed {away} s away");
    }
}

/// A reader that does not hold the lock reads (walks) a changing folder up to eight times. On btrfs
/// each walk may miss a file that is replaced during the walk. Before the fix, the listing returned
/// the result of the eighth walk, although the folder had changed again.
#[tokio::test]
async fn regression_a_listing_without_the_lock_fails_during_changes() {
    let (dir, store) = store();
    // No process has written, so no lock file exists. The folder gets a date in whole seconds. For
    // two seconds after this date, a later change may get the same date, so a listing fails. If a
    // walk starts after these two seconds, the listing succeeds, and the loop sets a new date.
    for _ in 0..100 {
        let now = now().duration_since(SystemTime::UNIX_EPOCH).expect("after 1970");
        let second = SystemTime::UNIX_EPOCH + Duration::from_secs(now.as_secs() + 1);
        fs::File::open(dir.path()).and_then(|root| root.set_modified(second)).expect("set");
        let listed = store.list("", "", 10).await;
        if listed.is_err() {
            return refuses(listed, StoreErrorKind::Transient, "changes too fast");
        }
    }
    panic!("no listing fails");
}
