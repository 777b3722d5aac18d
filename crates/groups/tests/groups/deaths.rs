//! Several members die at the same time.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tenure_groups::{GroupBuilder, Partition};
use tenure_testkit::fault_store::{Call, Fault, FaultStore};
use tenure_testkit::time::{millis, secs, wait};

use super::{Fleet, Node, POLL, VALIDITY, balanced, owners};

/// Maximum time from the deaths until all partitions are owned, according to rule GN5. It is the
/// sum of five times. The lease lasts for validity × (1 + drift). The coordinator is silent after
/// two fifths of the validity. A poll sees the last renewal within one poll interval. The new
/// owners poll within another. The last part is for the requests.
const TOGETHER: Duration = Duration::from_millis(30_300 + 12_000 + 5_000 + 5_000 + 700);
/// Maximum time if all deputies also die. The other members see the coordinator's last renewal one
/// poll later than deputies do.
const WITH_ALL_DEPUTIES: Duration = Duration::from_millis(30_300 + 12_000 + 10_000 + 5_000 + 700);

/// Kills the members `dead` of a group of ten. Member 0 coordinates, and members 1 to 3 are the
/// deputies. Returns the time until live members own all partitions.
async fn killed(dead: &[usize], after: Duration, within: Duration) -> Duration {
    let fleet = Fleet::new(40);
    let mut nodes = Vec::new();
    for name in ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j"] {
        nodes.push(fleet.member(name).await);
        wait(secs(7)).await;
    }
    balanced(&nodes.iter().collect::<Vec<_>>(), 40, VALIDITY * 4).await;
    wait(VALIDITY + after).await;
    for place in dead.iter().rev() {
        nodes.remove(*place).kill();
    }
    balanced(&nodes.iter().collect::<Vec<_>>(), 40, within).await
}

/// Before the fix, if the coordinator and all three deputies died, the takeover took 142 to 157 s.
/// The successor read the other sessions only after the coordinator had been silent for half of its
/// validity. If the successor was no deputy, it waited for one more validity.
#[tokio::test(start_paused = true)]
async fn regression_partitions_move_in_time_if_the_coordinator_dies_too() {
    let sets: [(&[usize], Duration); 4] = [
        (&[0], TOGETHER),
        (&[0, 1, 5], TOGETHER),
        (&[0, 1, 2, 3], WITH_ALL_DEPUTIES),
        (&[0, 1, 2, 3, 4, 5, 6, 7, 8], WITH_ALL_DEPUTIES),
    ];
    for (dead, bound) in sets {
        let mut took = Vec::new();
        for after in [0, 3_000, 8_000] {
            took.push(killed(dead, Duration::from_millis(after), secs(170)).await);
        }
        println!("{dead:?}: {:?} to {:?}", took.iter().min(), took.iter().max());
        assert!(took.iter().all(|it| *it <= bound), "{dead:?}: {took:?}");
    }
}

/// The coordinator's session lapses while another member lists the sessions. Before the fix, this
/// member noticed the lapse only at its next poll.
#[tokio::test(start_paused = true)]
async fn regression_a_lapse_during_a_listing_is_seen_without_a_further_poll() {
    let mut took = Vec::new();
    for delay in [Duration::ZERO, millis(400)] {
        let fleet = Fleet::new(12);
        let [a, b, c] = [fleet.member("a").await, fleet.member("b").await, fleet.member("c").await];
        balanced(&[&a, &b, &c], 12, POLL * 8).await;
        wait(VALIDITY).await;
        let assignments = async || {
            let page = fleet.store.inner().list("app/assignment-", "", 1_000).await;
            page.unwrap().entries.len()
        };
        let before = assignments().await;
        fleet.store.on(Call::List).always().fault(Fault::Slow(delay));
        a.kill();
        let mut waited = Duration::ZERO;
        while assignments().await == before {
            wait(millis(100)).await;
            waited += millis(100);
            assert!(waited < VALIDITY * 2);
        }
        drop((b, c));
        took.push(waited);
    }
    println!("{took:?}");
    // The successor lists the sessions before it takes over and again in its first round, so slow
    // listings delay the takeover twice.
    assert!(took[1] <= took[0] + millis(400) * 2 + millis(200), "{took:?}");
}

/// Before the fix, no member replaced a dead coordinator while the reads of the coordinator's
/// session failed.
#[tokio::test(start_paused = true)]
async fn regression_a_coordinator_with_an_unreadable_session_is_replaced() {
    let fleet = Fleet::new(12);
    let membership = fleet.group("a").join().await.unwrap();
    let key = Box::leak(membership.session().into_boxed_str());
    let a = Node::of(membership);
    let [b, c] = [fleet.member("b").await, fleet.member("c").await];
    balanced(&[&a, &b, &c], 12, POLL * 8).await;
    fleet.store.on(Call::Get).key(key).always().fault(Fault::FailBefore);
    wait(POLL).await;
    a.kill();
    wait(VALIDITY * 2).await;
    let d = fleet.member("d").await;
    // The dead coordinator still owns its four partitions, because no read has shown the end of its
    // session.
    wait(POLL * 4).await;
    assert!(!d.owned().is_empty());
    assert_eq!(b.owned().len() + c.owned().len() + d.owned().len(), 8);
    fleet.store.heal();
    balanced(&[&b, &c, &d], 12, VALIDITY).await;
}

/// A coordinator cannot read sessions, or cannot create assignments. Before the fix, its rounds
/// counted as completed, so no member replaced the coordinator. The partitions of members that died
/// or left had no owner until the fault ended.
#[tokio::test(start_paused = true)]
async fn regression_a_coordinator_without_reads_or_creates_is_replaced() {
    let faults = [
        (Call::Get, "members/", Fault::FailBefore),
        (Call::Get, "members/", Fault::Hang),
        (Call::Create, "assignment-", Fault::FailBefore),
        (Call::Create, "assignment-", Fault::Conflict),
        (Call::Create, "assignment-", Fault::Refuse),
    ];
    for (call, key, fault) in faults {
        let fleet = Fleet::new(12);
        let way = FaultStore::new(Arc::new(fleet.store.clone()));
        let a = Node::of(fleet.node_behind(&way, "a").build().unwrap().join().await.unwrap());
        let mut nodes = vec![a];
        for name in ["b", "c", "d"] {
            nodes.push(fleet.member(name).await);
        }
        balanced(&nodes.iter().collect::<Vec<_>>(), 12, POLL * 8).await;
        way.on(call).key(key).always().fault(fault);
        nodes.remove(3).kill();
        let took = balanced(&nodes.iter().collect::<Vec<_>>(), 12, secs(130)).await;
        println!("{call:?} {key} {fault:?}: {took:?}");
    }
}

/// Before the fix, no partition had an owner for 48 s after an outage, because the members did not
/// resign the sessions that they had lost in the outage.
#[tokio::test(start_paused = true)]
async fn regression_after_an_outage_members_resign_their_former_sessions() {
    for fault in [Fault::FailBefore, Fault::Hang] {
        let fleet = Fleet::new(12);
        let working = Arc::new(AtomicUsize::new(0));
        for name in ["a", "b", "c", "d", "e"] {
            let (group, working) = (fleet.group(name), Arc::clone(&working));
            tokio::spawn(async move {
                let work = async |partition: Partition| {
                    working.fetch_add(1, Ordering::SeqCst);
                    partition.revoked().cancelled().await;
                    working.fetch_sub(1, Ordering::SeqCst);
                    Ok(())
                };
                group.run(work).await
            });
        }
        let count = || working.load(Ordering::SeqCst);
        wait(VALIDITY * 2).await;
        assert_eq!(count(), 12);
        fleet.store.always(fault);
        wait(VALIDITY * 2).await;
        assert_eq!(count(), 0);
        fleet.store.heal();
        let mut took = Duration::ZERO;
        while count() < 12 {
            wait(millis(100)).await;
            took += millis(100);
            assert!(took < VALIDITY * 3, "{} of 12", count());
        }
        println!("{fault:?}: {took:?}");
        assert!(took <= secs(20), "{fault:?}: {took:?}");
    }
}

/// Before the fix, a process that crashed every 10 s became a member again after each start. So the
/// other members owned only 31 of 60 partitions on average, and one partition had no living owner
/// for 594 s.
#[tokio::test(start_paused = true)]
async fn regression_a_process_in_a_crash_loop_joins_later_each_time() {
    a_process_crashes(|fleet, _| fleet.node("x")).await;
}

/// The crashing process has another name at each start, because a default name contains the process
/// id. The coordinator must also delay the joins of such new names.
#[tokio::test(start_paused = true)]
async fn regression_a_crash_loop_under_new_names_joins_later_each_time() {
    a_process_crashes(|fleet, start| fleet.node(&format!("x-{start}"))).await;
}

/// Before the fix, a process with a unique name that crashed in a loop got its former partitions
/// back after each start.
#[tokio::test(start_paused = true)]
async fn regression_a_crash_loop_under_a_unique_name_loses_its_reservations() {
    a_process_crashes(|fleet, _| fleet.node("x").name_is_unique(true)).await;
}

async fn a_process_crashes(node: impl Fn(&Fleet, u32) -> GroupBuilder) {
    let join = async |fleet: &Fleet, start| {
        Node::of(node(fleet, start).build().unwrap().join().await.unwrap())
    };
    let fleet = Fleet::new(60);
    let [a, b, c] = [fleet.member("a").await, fleet.member("b").await, fleet.member("c").await];
    let stable = join(&fleet, 1_000).await;
    balanced(&[&a, &b, &c, &stable], 60, VALIDITY).await;
    wait(VALIDITY * 4).await;
    stable.kill();
    let (mut owned, mut longest, mut without) = (0, 0, BTreeMap::new());
    let seconds = 600;
    for start in 0..seconds / 10 {
        let crashing = join(&fleet, start).await;
        for _ in 0..10 {
            wait(secs(1)).await;
            let now = owners(&[&a, &b, &c, &crashing]);
            for number in 0..60 {
                let name = number.to_string();
                let missed: &mut u32 = without.entry(number).or_default();
                *missed = if now.contains_key(&name) { 0 } else { *missed + 1 };
                longest = longest.max(*missed);
            }
            owned += owners(&[&a, &b, &c]).len();
        }
        crashing.kill();
    }
    let average = owned as f64 / f64::from(seconds);
    println!("{average} of 60 on average, {longest} s without a living owner");
    assert!(average > 54.0, "{average}");
    assert!(longest < 90, "{longest} s");
    // Once the process stays alive, it joins the group and gets partitions.
    let stable = join(&fleet, seconds).await;
    balanced(&[&a, &b, &c, &stable], 60, VALIDITY * 9).await;
}
