//! Opens the store that a URL names.

use std::path::Path;
use std::sync::Arc;

use clap::ValueEnum as _;
use tenure::store::Store;

use super::find::{FoundKind, has};
use super::url::{Kind, Place, StoreUrl};
use crate::args::common::LayoutArg;
use crate::exit::{self, Failure};
use crate::output::print::plain;

/// The treatment of a missing directory of a store. A missing bucket or table is never created.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IfMissing {
    /// Create the directory, because a candidate may be the first process of an election.
    Create,
    /// Fail, because the path of a missing election is most likely mistyped.
    Refuse,
    /// Fail, because only a member creates a group.
    RefuseGroup,
}

impl IfMissing {
    /// Returns the noun for the expected contents of the store, for an error message.
    fn what(self) -> &'static str {
        match self {
            IfMissing::Create | IfMissing::Refuse => "an election",
            IfMissing::RefuseGroup => "a group",
        }
    }
}

/// An opened store, and the prefix of the election or group in it.
pub struct Opened {
    pub store: Arc<dyn Store>,
    pub prefix: String,
}

/// Opens the store. Sends no request to a bucket or a table.
pub async fn open(url: &StoreUrl, if_missing: IfMissing) -> Result<Opened, Failure> {
    match url.place() {
        Place::Dir { path, .. } => {
            refuse_missing(path, url, if_missing)?;
            Ok(Opened { store: url.open().await?, prefix: String::new() })
        }
        // In a DynamoDB table, the prefix up to its first slash is the partition key of the
        // election, so it must not be empty.
        Place::In { service, name, prefix, .. }
            if service.kind == Kind::DynamoDb && matches!(&**prefix, "" | "/") =>
        {
            let (contents, place) = (if_missing.what(), service.what);
            let why = format!("{contents} in a {place} needs a prefix: dynamodb://{name}/PREFIX");
            Err(Failure::new(exit::USAGE, why))
        }
        Place::In { prefix, .. } => Ok(Opened { store: url.open().await?, prefix: prefix.clone() }),
    }
}

/// Fails if the prefix has an election in the other layout, because the caller would find no leader
/// in its own layout. Sends one LIST.
pub async fn refuse_other_layout(
    store: &Arc<dyn Store>,
    prefix: &str,
    layout: LayoutArg,
) -> Result<(), Failure> {
    let other = match layout {
        LayoutArg::EpochFiles => LayoutArg::SingleObject,
        LayoutArg::SingleObject => LayoutArg::EpochFiles,
    };
    if has(store, prefix, election_in(other)).await != Some(true) {
        return Ok(());
    }
    let option = layout_option(other);
    let why = format!("this election has the other layout: use {option}");
    Err(Failure::new(exit::USAGE, why))
}

/// Fails if the prefix has an election in the other layout. Also fails if the prefix has a
/// partition group and no election: the error message for such a group recommends `command`.
pub async fn refuse_all_else(
    store: &Arc<dyn Store>,
    prefix: &str,
    layout: LayoutArg,
    command: &str,
) -> Result<(), Failure> {
    refuse_other_layout(store, prefix, layout).await?;
    refuse_group(store, prefix, layout, command).await
}

/// Fails if the prefix has a partition group and no election. An election and a group may share a
/// prefix. But if the first process of an election finds a group, the prefix is most likely wrong.
/// Sends one LIST, and another one if there is a group. If a LIST fails, accepts the prefix.
pub async fn refuse_group(
    store: &Arc<dyn Store>,
    prefix: &str,
    layout: LayoutArg,
    command: &str,
) -> Result<(), Failure> {
    if has(store, prefix, FoundKind::Group).await != Some(true)
        || has(store, prefix, election_in(layout)).await != Some(false)
    {
        return Ok(());
    }
    let why = format!("there is a partition group here, and no election: use `{command}`");
    Err(Failure::new(exit::USAGE, why))
}

/// Fails if the prefix of this URL has an election and no partition group. The message recommends
/// `command` for the election.
pub async fn refuse_election(url: &StoreUrl, command: &str) -> Result<(), Failure> {
    let Opened { store, prefix } = open(url, IfMissing::RefuseGroup).await?;
    refuse_election_at(&store, &prefix, command).await
}

/// Fails if the prefix has an election and no partition group. Sends one LIST, and up to two more
/// if there is no group. If the LIST for the group fails, accepts the prefix. If the LIST for a
/// layout fails, assumes that the prefix has no election in this layout.
pub async fn refuse_election_at(
    store: &Arc<dyn Store>,
    prefix: &str,
    command: &str,
) -> Result<(), Failure> {
    if has(store, prefix, FoundKind::Group).await != Some(false) {
        return Ok(());
    }
    for layout in [LayoutArg::EpochFiles, LayoutArg::SingleObject] {
        if has(store, prefix, election_in(layout)).await == Some(true) {
            let option = match layout {
                LayoutArg::EpochFiles => String::new(),
                LayoutArg::SingleObject => format!(" {}", layout_option(layout)),
            };
            let why = format!(
                "there is an election here, and no partition group: use `{command}{option}`"
            );
            return Err(Failure::new(exit::USAGE, why));
        }
    }
    Ok(())
}

fn election_in(layout: LayoutArg) -> FoundKind {
    match layout {
        LayoutArg::EpochFiles => FoundKind::EpochFiles,
        LayoutArg::SingleObject => FoundKind::SingleObject,
    }
}

fn layout_option(layout: LayoutArg) -> String {
    let name = layout.to_possible_value().expect("no layout is hidden");
    format!("--layout {}", name.get_name())
}

/// Returns the prefix of the election or group in the URL, for checks before the store is opened.
pub fn prefix(url: &StoreUrl) -> &str {
    url.prefix()
}

fn refuse_missing(path: &Path, url: &StoreUrl, if_missing: IfMissing) -> Result<(), Failure> {
    // Only a missing directory is refused here. The store reports all other errors of the path.
    let is_missing = |path: &Path| matches!(path.try_exists(), Ok(false));
    if let Some(link) = path.ancestors().find(|part| part.is_symlink() && is_missing(part)) {
        let why =
            format!("{url}: the link {} leads to no directory", plain(&link.to_string_lossy()));
        return Err(Failure::new(exit::UNAVAILABLE, why));
    }
    if if_missing == IfMissing::Create || !is_missing(path) {
        return Ok(());
    }
    let maker = match if_missing {
        IfMissing::RefuseGroup => "the first member of a group",
        _ => "`tenure run`",
    };
    let why = format!("{url}: the directory does not exist; {maker} creates it");
    Err(Failure::new(exit::UNAVAILABLE, why))
}

#[cfg(test)]
mod tests {
    use tenure::store::MemoryStore;
    use tenure_testkit::fault_store::{Call, Fault, FaultStore};

    use super::*;

    /// Before the fix, a failed LIST counted as an empty one. If a prefix had an election and a
    /// group, and the LIST of the election's objects failed, `tenure run` saw only the group and
    /// exited with 64. A failed LIST of the group's objects had the same effect on `tenure group
    /// run`.
    #[tokio::test]
    async fn regression_a_prefix_is_not_refused_after_a_failed_list() {
        let faults = FaultStore::new(Arc::new(MemoryStore::new()));
        let store: Arc<dyn Store> = Arc::new(faults.clone());
        let refused = async || {
            [
                refuse_group(&store, "a", LayoutArg::EpochFiles, "x").await.is_err(),
                refuse_election_at(&store, "a", "x").await.is_err(),
            ]
        };
        store.create("a/assignment-0000000001.json", "{}".into()).await.expect("a new key");
        assert_eq!(refused().await, [true, false], "a group");
        store.create("a/lock-0000000001.json", "{}".into()).await.expect("a new key");
        assert_eq!(refused().await, [false, false], "both");
        for list in [0, 1, 2] {
            faults.on(Call::List).skip(list).times(1).fault(Fault::Denied);
            assert_eq!(refused().await, [false, false], "the LIST {list} fails");
        }
    }
}
