//! `tenure wait`: waits until the election is held or vacant.

use std::future::pending;
use std::time::Duration;

use crate::args::common::{DAY, StoreArg, YEAR, after_help, positive_up_to};
use crate::election::LeaseState;
use crate::election::watch::{follow, opened};
use crate::exit::{self, Failure};
use crate::output::print::in_ms;
use crate::output::watcher::Watcher;
use crate::process::signals::{self, ENDING, Signals};
use crate::process::timer::pause;

#[derive(Debug, clap::Args)]
pub struct WaitArgs {
    #[command(flatten)]
    pub store: StoreArg,
    /// State to wait for
    #[arg(long = "for", value_name = "STATE", value_enum)]
    pub target: LeaseState,
    /// Maximum wait, at most 365d [default: without a limit]
    #[arg(long, value_name = "DURATION", value_parser = positive_up_to(YEAR))]
    pub timeout: Option<Duration>,
    /// Interval between polls, at most 24h [default: a sixth of the leader's validity]
    ///
    /// Each poll is one GET. The default is from 1s to 1m, and 5s before the first leader.
    #[arg(long, value_name = "DURATION", value_parser = positive_up_to(DAY))]
    #[arg(env = "TENURE_POLL")]
    pub poll: Option<Duration>,
    /// Print one JSON object instead of a line for people
    #[arg(long)]
    pub json: bool,
}

pub const AFTER_WAIT: &str = after_help!(
    "\
`wait` only reads. It prints the state once it is reached, as `watch` does. The answer holds for \
that moment only: to act as the leader use `tenure run`. While the store does not answer, the \
state is unknown, and `wait` continues. A leader that has died counts as the leader until its \
validity has passed.",
    "
   0  the state is reached
   1  the state was not reached before the timeout
  64  wrong usage or settings
  69  the state is unknown at the timeout: the store does not answer, or does
      not exist
  70  store unsafe, or a record corrupt, too new or deleted
  71  the operating system refused something
  77  access denied by the store until the timeout
 130  interrupted by SIGINT, 143 by SIGTERM"
);

pub async fn wait(args: WaitArgs) -> Result<u8, Failure> {
    let WaitArgs { store, target: wanted, timeout, poll, json } = args;
    let mut seen = LeaseState::Unknown;
    let mut watcher = Watcher::until(json, pending());
    // Without handlers, the kernel would ignore these signals if the command is process 1 of a
    // container.
    let mut signals = Signals::listen(&ENDING)?;
    let mut election = None;
    let reached = async {
        let election = &election.insert(opened(&store, poll, &mut watcher).await?).0;
        follow(election, &mut watcher, |watcher, change| {
            seen = change.state;
            if seen != wanted {
                return Ok(());
            }
            watcher.emit(change)?;
            Err(None)
        })
        .await
    };
    let end = tokio::select! {
        biased;
        Err(end) = reached => end,
        signal = signals.next() => return Ok(signals::exit_code(signal)),
        () = pause(timeout.unwrap_or(Duration::MAX)) => None,
    };
    match end {
        Some(failure) => Err(failure),
        None if seen == wanted => Ok(0),
        None => {
            let unknown = election.filter(|_| seen == LeaseState::Unknown);
            let last_failure = || Some(unknown?.0.last_failure()?.into());
            let failure = watcher.failure().or_else(last_failure);
            Err(not_reached(wanted, seen, failure, timeout.unwrap_or_default()))
        }
    }
}

/// Returns the failure of a wait that has timed out. `seen` is the state at that time, and
/// `failure` is the failure of the last request, if it has failed.
fn not_reached(
    wanted: LeaseState,
    seen: LeaseState,
    failure: Option<Failure>,
    timeout: Duration,
) -> Failure {
    let timeout = in_ms(timeout);
    if let Some(failure) = failure {
        let why = format!("not {wanted} within {timeout}: {}", failure.why);
        return Failure { why, ..failure };
    }
    match seen {
        LeaseState::Unknown => {
            let why = format!(
                "not {wanted} within {timeout}: the store does not answer; check the connection"
            );
            Failure::new(exit::UNAVAILABLE, why)
        }
        seen => Failure::new(exit::NOT_REACHED, format!("not {wanted} within {timeout}: {seen}")),
    }
}
