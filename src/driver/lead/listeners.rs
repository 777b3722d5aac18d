//! The subscribers to the events of one leadership, or of the campaigns of one `Election`.

use std::sync::OnceLock;

use tokio::sync::broadcast;

/// Number of events that the channel keeps for a slow subscriber.
const KEPT: usize = 64;

/// The sender of events. The first subscriber creates the channel, because its buffer takes about
/// 10 KiB and most elections have no subscriber.
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
            // An error means that no subscriber remains.
            let _ = sender.send(event);
        }
    }

    /// Subscribes to all later events.
    pub(crate) fn subscribe(&self) -> broadcast::Receiver<T> {
        self.0.get_or_init(|| broadcast::Sender::new(KEPT)).subscribe()
    }
}
