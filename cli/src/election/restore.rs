//! `tenure restore`: after an accident the epochs continue above a given one.

use std::sync::Arc;
use std::time::Duration;

use humantime::format_duration;
use serde::Serialize;
use tenure::{Election, Epoch, Restored};

use super::operator::{holder, needs_force, then, unknown};
use crate::args::common::{StoreArg, default_name, duration, name};
use crate::exit::{self, Failure};
use crate::output::print::{millis, print, print_json};
use crate::store::open::{IfMissing, Opened, open, refuse_other_layout};

#[derive(Debug, clap::Args)]
pub struct RestoreArgs {
    #[command(flatten)]
    pub store: StoreArg,
    /// The epoch to continue above: at least the greatest token that any guarded resource has seen,
    /// and the greatest that any process remembers. With a lower one the tokens of the next leaders
    /// are refused, or repeat
    #[arg(long, value_name = "EPOCH")]
    pub epoch: Epoch,
    /// How long successors wait for a leader from before the accident that may still run: its
    /// validity, at most 24h. Required above 0s where lock.json cannot be read
    #[arg(long, value_name = "DURATION", default_value = "0s", value_parser = duration)]
    pub wait: Duration,
    /// The name of the operator, for people [default: HOSTNAME-PID]
    #[arg(long, value_name = "NAME", value_parser = name)]
    pub name: Option<String>,
    /// One JSON object instead of a line for people
    #[arg(long)]
    pub json: bool,
}

/// The object that `--json` prints.
#[derive(Debug, Serialize)]
struct RestoreReport {
    /// `restored`, or `already` if it was restored before and no process was elected since.
    outcome: &'static str,
    epoch: Epoch,
    /// Maximum wait of a successor; null if no object was written.
    wait_ms: Option<u64>,
}

pub async fn restore(args: RestoreArgs) -> Result<u8, Failure> {
    // Recreates a lost directory: the operator states that its election existed.
    let Opened { store, prefix } = open(&args.store.store, IfMissing::Create).await?;
    refuse_other_layout(&store, &prefix, args.store.layout).await?;
    let election = Election::builder(Arc::clone(&store), prefix.as_str())
        .layout(args.store.layout.into())
        .name(args.name.unwrap_or_else(default_name))
        .build()?;
    let epoch = args.epoch;
    let next = epoch.next().map_or_else(String::new, |next| format!("the next leader has {next}"));
    let caution =
        format!("{epoch} must be at least the greatest token that any guarded resource has seen");
    let (line, report) = match election.restore(epoch, args.wait).await.map_err(unknown)? {
        Restored::Sealed { wait, .. } => {
            let line = format!("restored epoch {epoch}: {next}; {}. {caution}", then(wait));
            (line, RestoreReport { outcome: "restored", epoch, wait_ms: Some(millis(wait)) })
        }
        Restored::Already(_) => {
            let line = format!("epoch {epoch} was restored already: {next}. {caution}");
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
            "epoch {epoch} was restored already, and {}, less than was asked for; that cannot be \
             changed any more. Restore a greater epoch than {epoch} with that wait. {caution}",
            then(*wait)
        ),
        Restored::Exists(leader) => {
            let waited = match asked {
                Duration::ZERO => String::new(),
                _ => format!(", which may not have waited {compact}"),
            };
            format!(
                "there is epoch {}, of {}{waited}, so counting goes on above {epoch} already: \
                 nothing is left to do. {caution}",
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
                "a restoring to epoch {held} was not finished, and nobody is elected until it is. \
                 Run `tenure restore --epoch {held}{wait}` again"
            )
        }
        Restored::NeedsForce(leader) => format!("{}, then restore again", needs_force(leader)),
        Restored::NeedsWait => format!(
            "lock.json cannot be read, so nobody knows for how long its holder may believe that it \
             leads: nothing was changed. Restore with `--wait` of its validity; once it is known to \
             be dead, `--wait 1ms` is enough. {caution}"
        ),
        other => format!("nothing was changed: {other:?}"),
    }
}
