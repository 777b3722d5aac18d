//! Server-sent events: text for each change of what a stream follows.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use futures::stream::{self, BoxStream};
use tokio::sync::watch;

use super::machine::Machine;
use crate::process::timer::pause;

/// How often a stream looks for what no task tells of: time that passes, and other processes.
const LOOK: Duration = Duration::from_millis(50);
/// A comment is sent after so many looks without an event, so that a client sees a dead line.
const LOOKS_BEFORE_A_COMMENT: u32 = 100;

/// Text that is sent whenever `next` has some; it is asked after each change, and every 50 ms.
pub fn follow<S: Machine>(
    source: &Arc<S>,
    mut next: impl FnMut(&S) -> String + Send + 'static,
) -> BoxStream<'static, String> {
    let (source, changes) = (Arc::clone(source), source.common().changes.subscribe());
    let state = (source, changes, 0);
    let step = move |(source, mut changes, mut looks): (Arc<S>, watch::Receiver<u64>, u32)| {
        // Made when the connection has room for it.
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
    // An empty text would end a chunked body.
    stream::unfold(state, step).filter(|text| std::future::ready(!text.is_empty())).boxed()
}

/// The same, which a client that loses it opens again after a second.
pub fn events<S: Machine>(
    source: &Arc<S>,
    next: impl FnMut(&S) -> String + Send + 'static,
) -> BoxStream<'static, String> {
    let first = stream::once(std::future::ready("retry: 1000\n\n".to_owned()));
    first.chain(follow(source, next)).boxed()
}

#[cfg(test)]
pub mod testing {
    //! When a stream says what, in Tokio's paused time.

    use std::sync::Mutex;

    use tenure::Clock as _;
    use tenure_testkit::time::{TestClock, millis, wait};

    use super::*;
    use crate::process::lock::lock;

    /// What docs/reference/http-api.md promises.
    pub const SOON: Duration = Duration::from_millis(100);

    /// What each of several streams has said, and when.
    pub struct EventLogs(Vec<Arc<Texts>>);

    type Texts = Mutex<Vec<(Duration, String)>>;

    /// Follows several streams, which look at different times.
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
        /// How long after this moment each stream has said this for the first time.
        pub fn delays(&self, event: &str, after: Duration) -> Vec<Option<Duration>> {
            let event = format!("event: {event}\n");
            let first = |log: &Arc<Texts>| {
                let log = lock(log);
                let said = log.iter().find(|(at, text)| *at >= after && text.contains(&event));
                said.map(|(at, _)| *at - after)
            };
            self.0.iter().map(first).collect()
        }

        /// Each stream has said it, no later than this.
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
