//! `tenure restore`: continues above a given epoch after records were deleted.

use std::sync::Arc;
use std::time::Duration;

use humantime::format_duration;
use serde::Serialize;
use tenure::{Election, Epoch, Restored};

use super::operator::{holder, needs_force, then, unknown};
use crate::args::common::{StoreArg, default_name, duration, name};
use crate::exit::{self, Failure};
use crate::output::print::{millis, print, print_json};
use crate::store::find::has_marker;
use crate::store::open::{IfMissing, Opened, open, refuse_other_layout};

#[derive(Debug, clap::Args)]
pub struct RestoreArgs {
    #[command(flatten)]
    pub store: StoreArg,
    /// Epoch to continue above: at least the greatest token that any guarded resource has seen or
    /// any process remembers.
    ///
    /// With a lower epoch, resources refuse the tokens of the next leaders, or tokens repeat.
    #[arg(long, value_name = "EPOCH")]
    pub epoch: Epoch,
    /// Time that the next leader waits, because a leader from before the deletion may still run.
    ///
    /// Pass the validity of that leader, at most 24h. Must be above 0s if lock.json cannot be read.
    #[arg(long, value_name = "DURATION", default_value = "0s", value_parser = duration)]
    pub wait: Duration,
    /// Name of the operator, for people [default: HOSTNAME-PID]
    #[arg(long, value_name = "NAME", value_parser = name, env = "TENURE_NAME")]
    pub name: Option<String>,
    /// Print one JSON object instead of text
    #[arg(long)]
    pub json: bool,
}

/// The object that `--json` prints.
#[derive(Debug, Serialize)]
struct RestoreReport {
    /// `restored`, or `already` if the epoch was restored before and no process was elected since.
    outcome: &'static str,
    epoch: Epoch,
    /// Maximum time for which a successor waits before it leads; null if no object was written.
    wait_ms: Option<u64>,
}

pub async fn restore(args: RestoreArgs) -> Result<u8, Failure> {
    // Creates a missing directory, because the operator states that an election existed in it.
    let url = args.store.one("restore")?;
    let Opened { store, prefix } = open(&url, IfMissing::Create).await?;
    refuse_other_layout(&store, &prefix, args.store.layout).await?;
    if has_marker(&store, &prefix).await == Some(true) {
        let why = "this is a store of an election across stores, which cannot be restored: see \
                   `tenure across replace`";
        return Err(Failure::new(exit::USAGE, why));
    }
    let election = Election::builder(Arc::clone(&store), prefix.as_str())
        .layout(args.store.layout.into())
        .name(args.name.unwrap_or_else(default_name))
        .build()?;
    let epoch = args.epoch;
    let next =
        epoch.next().map_or_else(String::new, |next| format!("the next leader gets epoch {next}"));
    let caution =
        format!("{epoch} must be at least the greatest token that any guarded resource has seen");
    let (line, report) = match election.restore(epoch, args.wait).await.map_err(unknown)? {
        Restored::Sealed { wait, .. } => {
            let line = format!("restored epoch {epoch}: {next}; {}. {caution}", then(wait));
            (line, RestoreReport { outcome: "restored", epoch, wait_ms: Some(millis(wait)) })
        }
        Restored::Already(_) => {
            let line = format!("epoch {epoch} was already restored: {next}. {caution}");
            (line, RestoreReport { outcome: "already", epoch, wait_ms: None })
        }
        refused => {
            let why = why_not(&refused, epoch, args.wait, &caution);
            return Err(Failure::new(exit::REFUSED, why));
        }
    };
    let _ = if args.json { print_json(&report)? } else { print(&line)? };
    Ok(0)
}

fn why_not(refused: &Restored, epoch: Epoch, asked: Duration, caution: &str) -> String {
    let compact = format_duration(asked).to_string().replace(' ', "");
    match refused {
        Restored::WaitsLess { epoch, wait } => format!(
            "epoch {epoch} was already restored with a shorter wait, which cannot be changed: {}. \
             Restore an epoch above {epoch} with `--wait {compact}`. {caution}",
            then(*wait)
        ),
        Restored::Exists(leader) => {
            let waited = match asked {
                Duration::ZERO => String::new(),
                _ => format!(" (which may have waited less than {compact})"),
            };
            format!(
                "epoch {} exists, granted to {}{waited}, so epochs already continue above \
                 {epoch}: nothing was changed. {caution}",
                leader.epoch,
                holder(leader)
            )
        }
        Restored::Held(held) => {
            let wait = match asked {
                Duration::ZERO => String::new(),
                _ => format!(" --wait {compact}"),
            };
            format!(
                "the restore of epoch {held} is unfinished, and no process is elected until it is \
                 finished. Run `tenure restore --epoch {held}{wait}` again"
            )
        }
        Restored::NeedsForce(leader) => format!("{}, then restore again", needs_force(leader)),
        Restored::NeedsWait => format!(
            "lock.json cannot be read, so the validity of its lease is unknown: nothing was \
             changed. Use `--wait` with the validity of the last leader; if that leader is \
             certainly dead, `--wait 1ms` is enough. {caution}"
        ),
        other => format!("nothing was changed: {other:?}"),
    }
}
