//! `tenure __resign`: resigns the epoch of a `tenure run` that has died. The guard starts this
//! process when no process of CMD is left.

use std::io::{self, Read as _};
use std::time::Duration;

use clap::ValueEnum as _;
use nix::sys::signal::SigSet;
use tenure::{Moment, Process, ResignKey, Resigned};

use super::timer::pause;
use crate::args::common::LayoutArg;
use crate::exit::{self, Failure};
use crate::guard::{ResignTask, Resignation};
use crate::output::logs;
use crate::output::print::plain;
use crate::store::open::IfMissing;
use crate::store::urls::store_urls;

/// Maximum length of the JSON task on the standard input of this process, in bytes.
const MOST_BYTES: u64 = 64 * 1024;
/// The longest sleep between two readings of the clocks. A long sleep could last past the end of
/// the lease if the machine is suspended.
const LOOK_AT_LEAST_EVERY: Duration = Duration::from_secs(1);

/// Unblocks all signals, so that they can end this process. Without this call all signals are
/// blocked, because this process inherits the signal mask of the guard. Must be called before the
/// start of other threads.
pub fn unblock_signals() -> Result<(), Failure> {
    let failed = |error| Failure::new(exit::OS, format!("cannot unblock signals: {error}"));
    SigSet::all().thread_unblock().map_err(failed)
}

/// Reads a task from stdin, resigns the epoch, and logs the outcome. Stops the resignation at the
/// end of the lease.
pub async fn resign() -> Result<u8, Failure> {
    let mut text = String::new();
    let task = io::stdin().take(MOST_BYTES).read_to_string(&mut text).ok();
    let task = task.and_then(|_| serde_json::from_str::<ResignTask>(&text).ok());
    let task =
        task.ok_or_else(|| Failure::new(exit::USAGE, "stdin must contain a task in JSON"))?;
    let outcome = tokio::select! {
        biased;
        outcome = resign_dead(&task.resignation) => outcome,
        () = until(task.ends_at()) => {
            Err("the store did not answer before the lease ended".to_owned())
        }
    };
    let epoch = plain(task.resignation.epoch());
    match outcome {
        Ok(Resigned::Sealed) => {
            logs::say(
                None,
                "resigned",
                &format!("resigned epoch {epoch}: no process of CMD is left"),
            );
        }
        Ok(Resigned::Already(ended)) => {
            logs::say(None, "not_resigned", &format!("epoch {epoch} had ended before ({ended})"));
        }
        Ok(Resigned::NotCurrent) => {
            logs::say(None, "not_resigned", &format!("epoch {epoch} no longer exists"));
        }
        other => {
            let why = match other {
                Err(why) => plain(&why),
                _ => "its holder still renews the lease".to_owned(),
            };
            let line = format!(
                "epoch {epoch} is not resigned ({why}): other candidates wait for its lapse"
            );
            logs::say(None, "not_resigned", &line);
        }
    }
    Ok(0)
}

async fn resign_dead(resignation: &Resignation) -> Result<Resigned, String> {
    let Resignation { store, layout, candidate, key, successor, .. } = resignation;
    let urls = store_urls(store)?;
    let layout = LayoutArg::from_str(layout, false)?;
    let key: ResignKey = key.parse().map_err(|error: tenure::Error| error.to_string())?;
    let opened = urls.open(IfMissing::Refuse).await.map_err(|failure| failure.why)?;
    let election = opened
        .builder()
        .layout(layout.into())
        .name(candidate)
        .validity(Duration::from_millis(resignation.validity_ms))
        .request_timeout(Duration::from_millis(resignation.request_timeout_ms))
        .build();
    let election = election.map_err(|error| error.to_string())?;
    election.resign_dead(key, successor.as_deref()).await.map_err(|error| error.to_string())
}

async fn until(end: Moment) {
    loop {
        match Process::system().now().until(end) {
            Duration::ZERO => return,
            left => pause(left.min(LOOK_AT_LEAST_EVERY)).await,
        }
    }
}
