//! Who listens to events.

use std::sync::OnceLock;

use tokio::sync::broadcast;

/// Events kept for a slow reader.
const KEPT: usize = 64;

/// The channel is made for the first who listens: its buffer takes some 10 KiB, and most
/// elections have nobody who does.
#[derive(Debug)]
pub(crate) struct Listeners<T>(OnceLock<broadcast::Sender<T>>);

impl<T> Default for Listeners<T> {
    fn default() -> Listeners<T> {
        Listeners(OnceLock::new())
    }
}

impl<T: Clone> Listeners<T> {
    pub(crate) fn tell(&self, event: T) {
        if let Some(sender) = self.0.get() {
            // Who listened may have gone.
            let _ = sender.send(event);
        }
    }

    /// What is told from now on.
    pub(crate) fn subscribe(&self) -> broadcast::Receiver<T> {
        self.0.get_or_init(|| broadcast::Sender::new(KEPT)).subscribe()
    }
}
