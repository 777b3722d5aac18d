//! Streams of server-sent events.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use futures::stream::{self, BoxStream};
use tokio::sync::watch;

use super::machine::Machine;
use crate::process::timer::pause;

/// The interval at which a stream reads the state. A stream must poll, because no task reports
/// changes that another process or the passage of time causes.
const LOOK: Duration = Duration::from_millis(50);
/// The number of polls without an event after which a stream sends a comment. The comments show a
/// client that the connection is alive.
const LOOKS_BEFORE_A_COMMENT: u32 = 100;

/// Returns a stream that calls `next` after each change and every 50 ms, and sends the text that
/// `next` returns.
pub fn follow<S: Machine>(
    source: &Arc<S>,
    mut next: impl FnMut(&S) -> String + Send + 'static,
) -> BoxStream<'static, String> {
    let (source, changes) = (Arc::clone(source), source.common().changes.subscribe());
    let state = (source, changes, 0);
    let step = move |(source, mut changes, mut looks): (Arc<S>, watch::Receiver<u64>, u32)| {
        // The connection polls the stream only when its buffer has room, so the text describes the
        // latest state.
        let text = next(&source);
        async move {
            if !text.is_empty() {
                return Some((text, (source, changes, 0)));
            }
            tokio::select! {
                _ = changes.changed() => {}
                () = pause(LOOK) => looks += 1,
            }
            let text = match looks {
                LOOKS_BEFORE_A_COMMENT => {
                    looks = 0;
                    ": still here\n\n".to_owned()
                }
                _ => String::new(),
            };
            Some((text, (source, changes, looks)))
        }
    };
    // Empty texts are not sent, because an empty chunk would end the body.
    stream::unfold(state, step).filter(|text| std::future::ready(!text.is_empty())).boxed()
}

/// Returns a `retry` field, followed by the stream of [`follow`]. The field tells a client to
/// reconnect one second after it loses the connection.
pub fn events<S: Machine>(
    source: &Arc<S>,
    next: impl FnMut(&S) -> String + Send + 'static,
) -> BoxStream<'static, String> {
    let first = stream::once(std::future::ready("retry: 1000\n\n".to_owned()));
    first.chain(follow(source, next)).boxed()
}

#[cfg(test)]
pub mod testing {
    //! Records the events of streams and their times in paused Tokio time.

    use std::sync::Mutex;

    use tenure::Clock as _;
    use tenure_testkit::time::{TestClock, millis, wait};

    use super::*;
    use crate::process::lock::lock;

    /// The maximum delay of an event, as docs/reference/http-api.md promises.
    pub const SOON: Duration = Duration::from_millis(100);

    /// The events of several streams, each with its time.
    pub struct EventLogs(Vec<Arc<Texts>>);

    type Texts = Mutex<Vec<(Duration, String)>>;

    /// Opens several streams that poll at different times, and records their events.
    pub async fn follow_events(
        clock: &TestClock,
        open: impl Fn() -> BoxStream<'static, String>,
    ) -> EventLogs {
        let mut all = Vec::new();
        for _ in 0..12 {
            let (log, clock, mut stream) = (Arc::new(Texts::default()), clock.clone(), open());
            all.push(Arc::clone(&log));
            tokio::spawn(async move {
                while let Some(text) = stream.next().await {
                    lock(&log).push((clock.now().boot, text));
                }
            });
            wait(millis(13)).await;
        }
        EventLogs(all)
    }

    impl EventLogs {
        /// Returns for each stream the delay from `after` to its next event with the name `event`.
        pub fn delays(&self, event: &str, after: Duration) -> Vec<Option<Duration>> {
            let event = format!("event: {event}\n");
            let first = |log: &Arc<Texts>| {
                let log = lock(log);
                let said = log.iter().find(|(at, text)| *at >= after && text.contains(&event));
                said.map(|(at, _)| *at - after)
            };
            self.0.iter().map(first).collect()
        }

        /// Asserts that each stream has sent this event between `after` and `after + within`.
        #[track_caller]
        pub fn said(&self, event: &str, after: Duration, within: Duration) {
            let delays = self.delays(event, after);
            let in_time = |delay: &Option<Duration>| delay.is_some_and(|delay| delay <= within);
            assert!(delays.iter().all(in_time), "{event}: {delays:?}");
        }

        #[track_caller]
        pub fn has_not_said(&self, event: &str) {
            assert_eq!(self.delays(event, Duration::ZERO), vec![None; self.0.len()], "{event}");
        }
    }
}
