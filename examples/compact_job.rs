//! Deletes what an election leaves behind: a backlog of 2,000 epochs goes, but for the newest ten.
//!
//! ```text
//! cargo run --example compact_job                          # on a temporary directory
//! cargo run --example compact_job -- s3://bucket/prefix    # on S3, settings as for the AWS CLI
//! ```
//!
//! Look for what the dry run says, that the real run does just that, that a second run finds
//! nothing to do, and that the leader does not notice. The newest epoch object is never deleted:
//! the next epoch counts on from it.
//!
//! A job keeps the default `min_age` of 1 h. This one cannot wait for that.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::stream::{self, StreamExt as _, TryStreamExt as _};
use serde_json::json;
use tenure::store::{PutOutcome, Store};
use tenure::{Compactor, Election, Report};

use support::{Place, Result, Timeline, fail};

mod support;

const BACKLOG: u64 = 2_000;
const KEEP: usize = 10;

#[tokio::main]
async fn main() -> Result<()> {
    let place = Place::from_args("compact_job").await?;
    println!("A compaction of {BACKLOG} epochs, on {place}.");
    let timeline = Timeline::start();

    make_backlog(&*place.store, &place.prefix).await?;
    timeline.say("history", format_args!("{BACKLOG} epochs have come and gone"));

    let election = Election::builder(Arc::clone(&place.store), &place.prefix)
        .name("anna")
        // The compaction takes the disk for a while, and the leader has to get in between.
        .validity(place.validity.max(Duration::from_secs(10)))
        .build()?;
    let leadership = election.campaign().await?;
    timeline.say("anna", format_args!("leads epoch {}", leadership.epoch()));

    let job = || {
        Compactor::builder(Arc::clone(&place.store), &place.prefix)
            .keep_epochs(KEEP)
            .min_age(Duration::ZERO)
    };
    let planned = job().dry_run(true).build()?.run_once().await?;
    timeline.say("dry run", &planned);
    let done = job().build()?.run_once().await?;
    timeline.say("run", &done);
    let again = job().build()?.run_once().await?;
    timeline.say("again", &again);

    match leadership.check() {
        Ok(epoch) => timeline.say("anna", format_args!("still leads epoch {epoch}, and resigns")),
        Err(loss) => return fail(format!("the leader lost its epoch: {loss}")),
    }
    leadership.resign().await?;
    let next = election.campaign().await?;
    timeline.say("anna", format_args!("leads epoch {}", next.epoch()));
    let last = next.epoch().get();
    next.resign().await?;

    let kept = KEEP as u64;
    let expected = [(planned, BACKLOG + 1), (done, BACKLOG + 1), (again, kept)];
    let as_expected = expected.iter().all(|(report, listed)| adds_up(report, *listed, kept));
    if !as_expected || last != BACKLOG + 2 {
        return fail("the reports do not add up");
    }
    println!("\nThe {KEEP} newest epochs stayed, and the election counted on.");
    Ok(())
}

fn adds_up(report: &Report, listed: u64, kept: u64) -> bool {
    report.listed == listed && report.deleted == listed - kept && report.kept == kept
}

/// What 2,000 leaderships would have left, each object as its leader sealed it.
async fn make_backlog(store: &dyn Store, prefix: &str) -> Result<()> {
    stream::iter(1..=BACKLOG)
        .map(Ok)
        .try_for_each_concurrent(32, |epoch| async move {
            let key = format!("{prefix}/lock-{epoch:010}.json");
            let record = json!({
                "expired": true, "validity_ms": 30_000, "format": 1, "candidate": "anna",
                "nonce": format!("{epoch:032x}"), "heartbeat": 2, "ended": "resigned",
            });
            match store.create(&key, Bytes::from(record.to_string())).await? {
                PutOutcome::Done { .. } => Ok(()),
                other => fail(format!("{key} was there already: {other:?}")),
            }
        })
        .await
}
