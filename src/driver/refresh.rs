//! Notifies all campaigns and observers of an election to poll the store now.

use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::Notify;

/// A counter with waiters. A process may follow thousands of elections, each with a counter, so
/// this type is much smaller than a `watch` channel.
#[derive(Debug, Default)]
pub(crate) struct Refresh {
    count: AtomicU64,
    waiting: Notify,
}

impl Refresh {
    pub(crate) fn notify(&self) {
        self.count.fetch_add(1, Ordering::SeqCst);
        self.waiting.notify_waiters();
    }

    /// Returns the number of notifications.
    pub(crate) fn count(&self) -> u64 {
        self.count.load(Ordering::SeqCst)
    }

    /// Waits until the number of notifications differs from `heard`, and updates `heard`.
    pub(crate) async fn after(&self, heard: &mut u64) {
        loop {
            let mut notified = pin!(self.waiting.notified());
            // The waiter registers before it reads the count, so the waiter misses no notification.
            notified.as_mut().enable();
            let count = self.count();
            if count != *heard {
                *heard = count;
                return;
            }
            notified.await;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use futures::FutureExt as _;

    use super::*;

    #[test]
    fn each_caller_receives_a_notification_once() {
        let refresh = Refresh::default();
        refresh.notify();
        let (mut one, mut other) = (refresh.count(), refresh.count());
        assert!(
            refresh.after(&mut one).now_or_never().is_none(),
            "an earlier notification counts as processed"
        );
        // If no caller waits, two notifications count as one.
        refresh.notify();
        refresh.notify();
        assert!(refresh.after(&mut one).now_or_never().is_some());
        assert!(refresh.after(&mut one).now_or_never().is_none());
        assert!(refresh.after(&mut other).now_or_never().is_some());
    }

    #[tokio::test]
    async fn a_notification_wakes_a_waiter_even_after_a_cancelled_wait() {
        let refresh = Arc::new(Refresh::default());
        let mut heard = 0;
        assert!(refresh.after(&mut heard).now_or_never().is_none());
        let waiting = tokio::spawn({
            let refresh = refresh.clone();
            async move { refresh.after(&mut 0).await }
        });
        tokio::task::yield_now().await;
        assert!(!waiting.is_finished());
        refresh.notify();
        tokio::task::yield_now().await;
        assert!(waiting.is_finished(), "the waiter was woken");
        assert!(refresh.after(&mut heard).now_or_never().is_some());
    }
}
