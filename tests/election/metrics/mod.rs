//! Tests the values of each metric after a story, and the metrics that the documents, the dashboard
//! and the alerts name.

mod documents;
mod recorder;
mod stories;

use stories::Recorder;

macro_rules! tell {
    ($($story:ident),* $(,)?) => {
        $(
            #[tokio::test(start_paused = true)]
            async fn $story() {
                let recorder = Recorder::new();
                let _listening = recorder.listen();
                stories::$story(&recorder).await;
            }
        )*

        /// Runs each story with a separate recorder.
        async fn all() -> Vec<tenure_testkit::prometheus::Scrape> {
            let mut scrapes = Vec::new();
            $({
                let recorder = Recorder::new();
                let _listening = recorder.listen();
                stories::$story(&recorder).await;
                scrapes.push(recorder.scrape());
            })*
            scrapes
        }
    };
}

tell! {
    a_good_leader,
    a_deposition,
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
