//! Writers that start at the same moment.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use tenure::Process;
use tenure::store::{ETag, PutOutcome, Store, StoreError};
use tokio::sync::Barrier;
use tokio::task::JoinSet;

use super::super::check_scope::{CheckFailure, Checked, is_unclear};
use super::pause;

/// The response of the store to a writer.
pub(super) type WriteAnswer = Result<PutOutcome, StoreError>;

/// One write of a race.
#[derive(Debug, Clone)]
pub(super) struct Writer {
    pub(super) key: String,
    pub(super) body: Bytes,
    /// ETag of the object to replace. `None` creates an object.
    pub(super) etag: Option<ETag>,
    /// Delay between the common start of all writers and the request.
    pub(super) delay: Duration,
    pub(super) long: bool,
}

/// Time for which the writers wait after all of them have reached the barrier. All tasks wake up
/// during this time, so the writers can start at the same moment.
const AHEAD: Duration = Duration::from_millis(1);

/// Starts all writers at the same moment. Each writer sends its request after its delay. Returns
/// the response and the latency of each writer, in the order of `writers`.
pub(super) async fn write_all(
    store: &Arc<dyn Store>,
    writers: &[Writer],
) -> Checked<Vec<(WriteAnswer, Duration)>> {
    let barrier = Arc::new(Barrier::new(writers.len()));
    let release = Arc::new(OnceLock::new());
    let mut tasks = JoinSet::new();
    for (number, writer) in writers.iter().cloned().enumerate() {
        let (barrier, release) = (Arc::clone(&barrier), Arc::clone(&release));
        let store = Arc::clone(store);
        tasks.spawn(async move {
            barrier.wait().await;
            let release = *release.get_or_init(|| Process::system().now().boot + AHEAD);
            wait_until(release + writer.delay).await;
            let sent = Process::system().now().boot;
            let told = writer.write(&*store).await;
            (number, told, Process::system().now().boot.saturating_sub(sent))
        });
    }
    let mut all = tasks.join_all().await;
    all.sort_by_key(|(number, ..)| *number);
    let answered = all.into_iter().map(|(_, told, took)| match told {
        Err(error) if !is_unclear(&error) => Err(CheckFailure::Request(error)),
        told => Ok((told, took)),
    });
    answered.collect()
}

/// Waits with a precision of microseconds. With a timer alone, each task would start up to a
/// millisecond late, so the tasks would not start at the same moment.
async fn wait_until(at: Duration) {
    let left = || at.saturating_sub(Process::system().now().boot);
    if let Some(nap) = nap(left()) {
        pause(nap).await;
    }
    while !left().is_zero() {
        tokio::task::yield_now().await;
    }
}

/// Returns the time to sleep before the task polls the clock. Returns `None` if the remaining time
/// is too short for a timer.
fn nap(left: Duration) -> Option<Duration> {
    left.checked_sub(2 * AHEAD).filter(|nap| !nap.is_zero())
}

impl Writer {
    async fn write(self, store: &dyn Store) -> WriteAnswer {
        match self.etag {
            Some(etag) => store.replace(&self.key, self.body, etag).await,
            None => store.create(&self.key, self.body).await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Before the fix, a race could panic while a writer waited for its start. `nap` computed the
    /// remaining time twice: for the comparison and for the subtraction. The subtraction
    /// underflowed if time passed between the two computations.
    #[test]
    fn regression_a_late_writer_does_not_sleep() {
        let us = Duration::from_micros;
        for (left, sleeps) in [(0, None), (999, None), (2_000, None), (2_001, Some(1))] {
            assert_eq!(nap(us(left)), sleeps.map(us), "{left}");
        }
    }
}
