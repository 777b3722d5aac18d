//! Opens the store that a URL names.

use std::path::Path;
use std::sync::Arc;

use clap::ValueEnum as _;
use tenure::Election;
use tenure::store::Store;
use tenure_groups::Group;

use super::url::{Kind, Place, StoreUrl};
use crate::args::common::LayoutArg;
use crate::exit::{self, Failure};

/// The treatment of a missing directory. A missing bucket or table is never created.
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
    /// Returns the noun for the expected contents of the store in an error message.
    fn what(self) -> &'static str {
        match self {
            IfMissing::Create | IfMissing::Refuse => "an election",
            IfMissing::RefuseGroup => "a group",
        }
    }
}

/// A store, and the prefix of the election in it.
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
        Place::In { service, prefix, .. }
            if service.kind == Kind::DynamoDb && matches!(&**prefix, "" | "/") =>
        {
            let table = url.to_string();
            let table = table.trim_end_matches('/');
            let contents = if_missing.what();
            let why = format!("{contents} in a {} needs a prefix: {table}/PREFIX", service.what);
            Err(Failure::new(exit::USAGE, why))
        }
        Place::In { prefix, .. } => Ok(Opened { store: url.open().await?, prefix: prefix.clone() }),
    }
}

/// Fails if the prefix has an election in the other layout, because the caller would find no leader
/// in its own layout. Ignores errors of the reads in the other layout.
pub async fn refuse_other_layout(
    store: &Arc<dyn Store>,
    prefix: &str,
    layout: LayoutArg,
) -> Result<(), Failure> {
    let other = match layout {
        LayoutArg::EpochFiles => LayoutArg::SingleObject,
        LayoutArg::SingleObject => LayoutArg::EpochFiles,
    };
    let election = Election::builder(Arc::clone(store), prefix).layout(other.into()).build()?;
    match election.snapshot().await {
        Ok(snapshot) if snapshot.leader.is_some() => {
            let option = layout_option(other);
            let why = format!("this election has the other layout: use {option}");
            Err(Failure::new(exit::USAGE, why))
        }
        _ => Ok(()),
    }
}

/// Fails if the prefix has an election in the other layout, or a partition group and no election.
/// For a group, the error message recommends `command`. Ignores errors of the reads.
pub async fn refuse_all_else(
    store: &Arc<dyn Store>,
    prefix: &str,
    layout: LayoutArg,
    command: &str,
) -> Result<(), Failure> {
    refuse_other_layout(store, prefix, layout).await?;
    let group = Group::builder(Arc::clone(store), prefix).build()?;
    if !group.snapshot().await.is_ok_and(|snapshot| snapshot.epoch.is_some()) {
        return Ok(());
    }
    // An election and a group may share a prefix, so the message for a group is correct only if the
    // prefix has no election.
    let election = Election::builder(Arc::clone(store), prefix).layout(layout.into()).build()?;
    match election.snapshot().await {
        Ok(snapshot) if snapshot.leader.is_none() => {
            let why = format!("there is a partition group here, and no election: use `{command}`");
            Err(Failure::new(exit::USAGE, why))
        }
        _ => Ok(()),
    }
}

/// Fails if the prefix has an election. The caller has found no group at the prefix. The message
/// recommends `command` for the election. Ignores errors of the reads.
pub async fn refuse_election(url: &StoreUrl, command: &str) -> Result<(), Failure> {
    let Opened { store, prefix } = open(url, IfMissing::RefuseGroup).await?;
    for layout in [LayoutArg::EpochFiles, LayoutArg::SingleObject] {
        let election = Election::builder(Arc::clone(&store), prefix.as_str());
        let election = election.layout(layout.into()).build()?;
        if election.snapshot().await.is_ok_and(|snapshot| snapshot.leader.is_some()) {
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

fn layout_option(layout: LayoutArg) -> String {
    let name = layout.to_possible_value().expect("no layout is hidden");
    format!("--layout {}", name.get_name())
}

/// Returns the prefix of the election in its store, for checks before the store is opened.
pub fn prefix(url: &StoreUrl) -> &str {
    url.prefix()
}

fn refuse_missing(path: &Path, url: &StoreUrl, if_missing: IfMissing) -> Result<(), Failure> {
    // Only a missing directory is refused here, because the store reports all other errors of the
    // path.
    if if_missing == IfMissing::Create || !matches!(path.try_exists(), Ok(false)) {
        return Ok(());
    }
    let maker = match if_missing {
        IfMissing::RefuseGroup => "the first member of a group",
        _ => "`tenure run`",
    };
    let why = format!("{url}: the directory does not exist; {maker} creates it");
    Err(Failure::new(exit::UNAVAILABLE, why))
}
