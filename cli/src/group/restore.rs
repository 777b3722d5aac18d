//! `tenure group restore`: continues above a given epoch after assignments were deleted.

use serde::Serialize;
use tenure::Epoch;
use tenure_groups::{Group, GroupRestored};

use super::GroupRestoreArgs;
use crate::args::common::default_name;
use crate::election::operator::unknown;
use crate::exit::{self, Failure};
use crate::output::print::{print, print_json};
use crate::store::open::{IfMissing, Opened, open};

/// The object that `--json` prints.
#[derive(Debug, Serialize)]
struct GroupRestoreReport {
    /// Always `restored`.
    outcome: &'static str,
    /// All later tokens are greater than this epoch.
    epoch: Epoch,
    partitions: usize,
}

pub async fn restore(args: GroupRestoreArgs) -> Result<u8, Failure> {
    // Creates a missing directory, because the operator states that a group existed in it.
    let Opened { store, prefix } = open(&args.at.store, IfMissing::Create).await?;
    let group = Group::builder(store, prefix).name(args.name.unwrap_or_else(default_name));
    let group = match args.partitions {
        Some(names) => group.partitions(names.0),
        None => group,
    };
    let epoch = args.epoch;
    let restored = group.build()?.restore(epoch, args.wait).await.map_err(unknown)?;
    let refuse = |why| Err(Failure::new(exit::REFUSED, why));
    let now = match restored {
        GroupRestored::Restored(now) => now,
        GroupRestored::Exists(now) => {
            let newest = now.epoch.map_or(0, Epoch::get);
            return refuse(format!(
                "assignment {newest} exists, so the group already continues above {epoch}: \
                 nothing was changed"
            ));
        }
        GroupRestored::Unfinished(other) => {
            return refuse(format!(
                "the restore above epoch {other} is unfinished, and no partition is assigned \
                 until it is finished. Run `tenure group restore --epoch {other}` again"
            ));
        }
        other => return refuse(format!("nothing was changed: {other:?}")),
    };
    let partitions = now.partitions.len();
    let report = GroupRestoreReport { outcome: "restored", epoch, partitions };
    let words = if partitions == 1 { "partition" } else { "partitions" };
    let line = format!(
        "restored the group above epoch {epoch}: {partitions} {words}. Members get them with \
         greater tokens. {epoch} must be at least the greatest token that any guarded resource \
         has seen"
    );
    let _ = if args.at.json { print_json(&report)? } else { print(&line)? };
    Ok(0)
}
