//! The events that must occur in the first seeds. Checks that depend on an event are ineffective if
//! the event never occurs.

use tenure::Layout;

const HAPPENED: [&str; 47] = [
    "409",
    "503",
    "503 after taking effect",
    "answers lost",
    "at-risk recoveries",
    "blackouts",
    "calls",
    "calls given up",
    "leadership calls given up",
    "clocks slewed",
    "connections cut",
    "crashes",
    "created epochs deposed immediately",
    "depositions",
    "epochs compacted",
    "fenced zombies",
    "foreign leaderships",
    "granted though sealed",
    "lost: lease ended",
    "lost: sealed",
    "lost: suspended",
    "lost: wall clock ahead",
    "lost after the grant of a sealed epoch",
    "leases that had ended at a check",
    "machine pauses",
    "outages",
    "overlaps beyond the drift",
    "pauses",
    "requests applied late",
    "requests applied twice",
    "requests lost",
    "restores",
    "restores given up",
    "restores of two operators",
    "resigned in time",
    "slow answers",
    "runs given up",
    "runs with a min_age of 0",
    "runs with two processes of one name",
    "slow requests",
    "stops anywhere",
    "stops at a request",
    "succeeded without waiting",
    "suspends",
    "takeovers",
    "zombie writes to the unfenced resource",
    "writes spoiled",
];

/// Events that occur only with [`Layout::EpochFiles`], because they require a confirming LIST or a
/// compactor.
const OF_EPOCH_FILES: [&str; 7] = [
    "epochs compacted",
    "granted though sealed",
    "lost after the grant of a sealed epoch",
    "restores",
    "restores given up",
    "restores of two operators",
    "runs with a min_age of 0",
];

/// Returns the events that can occur with this layout.
pub fn events(layout: Layout) -> Vec<&'static str> {
    let single = layout == Layout::SingleObject;
    let can = |event: &&'static str| !single || !OF_EPOCH_FILES.contains(event);
    HAPPENED.into_iter().filter(can).collect()
}
