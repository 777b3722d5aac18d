//! Notifies all campaigns and observers of an election to look at the store now.

use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::Notify;

/// A fraction of the size of a `watch` channel, of which a process that follows thousands of
/// elections would have one each.
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

    /// How often it has notified.
    pub(crate) fn count(&self) -> u64 {
        self.count.load(Ordering::SeqCst)
    }

    /// Returns once it has notified since `heard`, at once if it already has.
    pub(crate) async fn after(&self, heard: &mut u64) {
        loop {
            let mut notified = pin!(self.waiting.notified());
            // Listens before it looks, so that no notification falls between the two.
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
    fn a_notification_is_heard_once_by_each_whenever_it_came() {
        let refresh = Refresh::default();
        refresh.notify();
        let (mut one, mut other) = (refresh.count(), refresh.count());
        assert!(refresh.after(&mut one).now_or_never().is_none(), "what was before is heard");
        // While nobody waits, and twice.
        refresh.notify();
        refresh.notify();
        assert!(refresh.after(&mut one).now_or_never().is_some());
        assert!(refresh.after(&mut one).now_or_never().is_none());
        assert!(refresh.after(&mut other).now_or_never().is_some());
    }

    #[tokio::test]
    async fn who_waits_is_woken_and_who_was_cancelled_has_heard_nothing() {
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
        assert!(waiting.is_finished(), "it was woken");
        assert!(refresh.after(&mut heard).now_or_never().is_some());
    }
}
