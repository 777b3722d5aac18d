//! The parts that `watch`, `wait` and `group watch` share: they handle signals and errors, print
//! changes, and run CMD of `--exec`.

use std::convert::Infallible;
use std::pin::Pin;
use std::time::Duration;

use serde::Serialize;
use tenure::Error;
use tracing::warn;

use crate::exit::Failure;
use crate::http::Sites;
use crate::http::metrics::MetricsArg;
use crate::output::logs::Throttle;
use crate::output::print::{StdoutReader, plain, print_json, print_styled, reader_left};
use crate::process::exec::{Exec, ExecChange};
use crate::process::signals::{ENDING, Signals};
use crate::process::timer::pause;
use crate::store::patience::{AFTER_A_FAILURE, patiently};

/// Minimum validity of an observer. An observer has no lease. If the store has not answered for the
/// time of the validity, the observer reports `unknown`.
pub const PATIENCE: Duration = Duration::from_secs(30);
pub const REQUEST_TIMEOUT: Duration = Duration::from_secs(6);

/// Returns the validity of an observer with this poll interval. The validity must not be shorter
/// than the interval or have fractions of a millisecond, so the interval is rounded up to whole
/// seconds.
pub fn validity(poll: Option<Duration>, longest: Duration) -> Duration {
    let poll = poll.map_or(0, |poll| poll.as_secs() + 1);
    PATIENCE.max(Duration::from_secs(poll).min(longest))
}

/// The failure that ended a watch. `None` if the watch ended because a signal arrived or the reader
/// of stdout has left.
pub type WatchEnd = Option<Failure>;

/// A change that a watch has observed. `--json` prints this value.
pub trait Change: Serialize {
    /// Returns the change for the CMD of `--exec`, with variables escaped for a terminal.
    fn for_exec(&self) -> ExecChange;

    /// Returns a line about the change for people.
    fn for_people(&self) -> String;
}

/// A running `watch`, `wait` or `group watch`.
pub struct Watcher {
    json: bool,
    exec: Option<Exec>,
    /// Completes when the watch must end.
    asked_to_end: Pin<Box<dyn Future<Output = ()>>>,
    has_worked: bool,
    /// The failure of the last read. `None` after the store has answered again.
    failure: Option<Failure>,
    throttle: Throttle,
}

impl Watcher {
    /// Runs a watch until it fails, a signal arrives, or the reader of stdout has left. Then ends
    /// the CMD of `--exec`.
    pub async fn run(
        metrics: MetricsArg,
        (json, exec): (bool, Option<String>),
        watch: impl AsyncFnOnce(&mut Watcher) -> Result<Infallible, WatchEnd>,
    ) -> Result<u8, Failure> {
        let mut sites = Sites::default();
        metrics.add_to(&mut sites)?;
        let _serving = sites.start()?;
        let mut signals = Signals::listen(&ENDING)?;
        let asked_to_end = async move {
            tokio::select! {
                _ = signals.next() => {}
                () = reader_left() => {}
            }
        };
        let mut watcher = Watcher { exec: Exec::start(exec), ..Watcher::until(json, asked_to_end) };
        let Err(end) = watch(&mut watcher).await;
        if let Some(exec) = watcher.exec {
            exec.end().await;
        }
        end.map_or(Ok(0), Err)
    }

    /// Returns a watcher without the CMD of `--exec`. The watch ends after a failure, or when
    /// `asked_to_end` completes.
    pub fn until(json: bool, asked_to_end: impl Future<Output = ()> + 'static) -> Watcher {
        Watcher {
            json,
            exec: None,
            asked_to_end: Box::pin(asked_to_end),
            has_worked: false,
            failure: None,
            throttle: Throttle::default(),
        }
    }

    /// Returns the failure of the last read, unless the store has answered since.
    pub fn failure(&self) -> Option<Failure> {
        self.failure.clone()
    }

    /// Repeats `attempt` after each temporary failure, as often as necessary.
    /// [`failure`](Watcher::failure) returns the last failure.
    pub async fn patiently<T>(
        &mut self,
        mut attempt: impl AsyncFnMut() -> Result<T, Failure>,
    ) -> Result<T, WatchEnd> {
        let Watcher { asked_to_end, failure, .. } = self;
        let attempts = patiently(None, async || {
            let tried = attempt().await;
            *failure = tried.as_ref().err().cloned();
            tried
        });
        tokio::select! {
            biased;
            () = asked_to_end => Err(None),
            done = attempts => Ok(done?),
        }
    }

    /// Returns the result of the work. Fails if a signal arrives or the reader of stdout leaves
    /// before the work has ended.
    pub async fn unless_ended<T>(&mut self, work: impl Future<Output = T>) -> Result<T, WatchEnd> {
        tokio::select! {
            biased;
            () = &mut self.asked_to_end => Err(None),
            done = work => Ok(done),
        }
    }

    /// Returns the observation. After a temporary error, pauses and returns `None`. The caller must
    /// then observe again. `Throttle` limits how often the errors are logged.
    pub async fn settle<T>(
        &mut self,
        observed: Option<Result<T, Error>>,
    ) -> Result<Option<T>, WatchEnd> {
        match observed {
            None => Err(None),
            Some(Ok(observation)) => {
                self.has_worked = true;
                self.failure = None;
                Ok(Some(observation))
            }
            Some(Err(error)) if error.kind().ends_a_service(self.has_worked) => {
                Err(Some(error.into()))
            }
            Some(Err(error)) => {
                if self.throttle.is_due(&error) {
                    let why = plain(&error.to_string());
                    warn!(outcome = "failed", "the watch failed, and is retried: {why}");
                }
                self.failure = Some(error.into());
                self.unless_ended(pause(AFTER_A_FAILURE)).await?;
                Ok(None)
            }
        }
    }

    /// Passes a change to the CMD of `--exec`, and prints the change.
    pub fn emit(&self, change: &impl Change) -> Result<(), WatchEnd> {
        if let Some(exec) = &self.exec {
            exec.handle(change.for_exec());
        }
        let reader = match self.json {
            true => print_json(change)?,
            false => print_styled(&change.for_people())?,
        };
        if reader == StdoutReader::HasLeft { Err(None) } else { Ok(()) }
    }
}
