//! Tests the values of each metric after a known sequence of events (a story). Also compares the
//! recorded metrics with the metrics that the documents, the dashboard and the alerts name.

mod documents;
mod recorder;
mod stories;

use recorder::{Recorder, tell};

tell! {
    stories:
    a_good_leader,
    a_deposition,
    a_leader_across_stores,
    a_store_that_hangs,
    an_abandoned_grant,
    campaigns_that_fail,
    an_observer,
    regression_an_epoch_that_was_read_is_known,
    a_compaction,
    regression_a_restore_that_stops_a_compaction_is_counted,
    a_skewed_clock,
    a_durable_gate,
}

#[tokio::test(start_paused = true)]
async fn the_documented_metrics_and_labels_are_recorded() {
    documents::compare(&all().await, |name| !name.starts_with("tenure_group_"));
}
