//! The open event streams of a server. A new stream over the limit either closes the oldest stream,
//! or is refused.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll};
use std::time::Duration;

use tenure::Process;
use tokio::sync::oneshot;
use tracing::warn;

use super::MOST_STREAMS;
use crate::process::lock::lock;

/// The open event streams of a server.
#[derive(Debug, Default)]
pub(super) struct Streams(Mutex<Open>);

#[derive(Debug, Default)]
struct Open {
    opened: u64,
    /// The open streams, oldest first. Dropping the sender of a stream closes this stream.
    places: VecDeque<(u64, oneshot::Sender<()>)>,
    /// The time on the boot clock of the last warning that a stream was closed for a new one.
    warned: Option<Duration>,
}

/// Minimum time between two warnings that a stream was closed for a new one.
const WARN_AGAIN_AFTER: Duration = Duration::from_secs(60);

/// One of the [`MOST_STREAMS`] places for open streams. Dropping this value frees the place.
#[derive(Debug)]
pub(super) struct StreamPlace {
    number: u64,
    closed: oneshot::Receiver<()>,
    streams: Arc<Streams>,
}

impl StreamPlace {
    /// Takes a place. If no place is free and `closes_oldest` is true, closes the oldest stream. A
    /// client that never closes its streams therefore cannot block others. If no place is free and
    /// `closes_oldest` is false, returns `None`.
    pub(super) fn take(streams: &Arc<Streams>, closes_oldest: bool) -> Option<StreamPlace> {
        let (open, closed) = oneshot::channel();
        let mut all = lock(&streams.0);
        if all.places.len() >= MOST_STREAMS {
            if !closes_oldest {
                return None;
            }
            all.places.pop_front();
            let now = Process::system().now().boot;
            if all.warned.is_none_or(|at| now.saturating_sub(at) >= WARN_AGAIN_AFTER) {
                all.warned = Some(now);
                warn!(
                    outcome = "stream_closed",
                    "{MOST_STREAMS} streams are open already, so the oldest is closed for a new one"
                );
            }
        }
        all.opened += 1;
        let number = all.opened;
        all.places.push_back((number, open));
        Some(StreamPlace { number, closed, streams: Arc::clone(streams) })
    }

    /// Returns whether the stream must end. If the result is `false`, the task of `cx` is woken
    /// when the stream must end.
    pub(super) fn is_closed(&mut self, cx: &mut Context<'_>) -> bool {
        matches!(Future::poll(Pin::new(&mut self.closed), cx), Poll::Ready(_))
    }
}

impl Drop for StreamPlace {
    fn drop(&mut self) {
        lock(&self.streams.0).places.retain(|(number, _)| *number != self.number);
    }
}
