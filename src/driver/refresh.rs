//! A bell that tells all who follow to look now.

use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::Notify;

/// A fraction of the size of a `watch` channel, of which a process that follows thousands of
/// elections would have one each.
#[derive(Debug, Default)]
pub(super) struct Refresh {
    rung: AtomicU64,
    bell: Notify,
}

impl Refresh {
    pub(super) fn ring(&self) {
        self.rung.fetch_add(1, Ordering::SeqCst);
        self.bell.notify_waiters();
    }

    /// How often it has rung.
    pub(super) fn rung(&self) -> u64 {
        self.rung.load(Ordering::SeqCst)
    }

    /// Returns once it has rung since `heard`, at once if it already has.
    pub(super) async fn after(&self, heard: &mut u64) {
        loop {
            let mut bell = pin!(self.bell.notified());
            // Listens before it looks, so that no ring falls between the two.
            bell.as_mut().enable();
            let rung = self.rung();
            if rung != *heard {
                *heard = rung;
                return;
            }
            bell.await;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use futures::FutureExt as _;

    use super::*;

    #[test]
    fn a_ring_is_heard_once_by_each_whenever_it_came() {
        let refresh = Refresh::default();
        refresh.ring();
        let (mut one, mut other) = (refresh.rung(), refresh.rung());
        assert!(refresh.after(&mut one).now_or_never().is_none(), "what was before is heard");
        // While nobody waits, and twice.
        refresh.ring();
        refresh.ring();
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
        refresh.ring();
        tokio::task::yield_now().await;
        assert!(waiting.is_finished(), "it was woken");
        assert!(refresh.after(&mut heard).now_or_never().is_some());
    }
}
