//! `tenure group watch`: one line for every partition that changes its owner.

use std::collections::BTreeMap;
use std::pin::pin;
use std::time::Duration;

use futures::StreamExt as _;
use humantime::format_duration;
use nix::sys::signal::Signal;
use serde::Serialize;
use tenure::Process;
use tenure::group::{GroupSnapshot, PartitionNumber};

use super::view::{name_or_dash, owner};
use super::{WatchArgs, builder};
use crate::exit::{self, Failure};
use crate::http::Sites;
use crate::print::styled;
use crate::print::{FAINT, Reader, plain, print_json, print_styled, reader_left};
use crate::signals::Signals;

/// An observer has no session: this only gives room for the interval of its polls.
const SHORTEST_VALIDITY: Duration = Duration::from_secs(30);
const REQUEST_TIMEOUT: Duration = Duration::from_secs(6);
/// As long as a validity in a group can be.
const LONGEST_POLL: Duration = Duration::from_secs(3600);

pub async fn watch(args: WatchArgs) -> Result<u8, Failure> {
    if args.poll > LONGEST_POLL {
        let why = format!("--poll is at most {}", format_duration(LONGEST_POLL));
        return Err(Failure::new(exit::USAGE, why));
    }
    let mut sites = Sites::default();
    args.metrics.add_to(&mut sites)?;
    let _serving = sites.start()?;
    let mut signals = Signals::listen(&[Signal::SIGINT, Signal::SIGTERM])?;
    // Whole seconds, as a validity has no fractions of a millisecond.
    let validity = Duration::from_secs(args.poll.as_secs() + 1).min(LONGEST_POLL);
    let group = builder(&args.at)
        .await?
        .validity(SHORTEST_VALIDITY.max(validity))
        .request_timeout(REQUEST_TIMEOUT)
        .poll_interval(args.poll)
        .build()?;
    let mut snapshots = group.observe();
    let mut owned = BTreeMap::new();
    let mut left = pin!(reader_left());
    loop {
        let snapshot = tokio::select! {
            biased;
            _ = signals.next() => return Ok(0),
            () = &mut left => return Ok(0),
            snapshot = snapshots.next() => snapshot,
        };
        let Some(snapshot) = snapshot else { return Ok(0) };
        let next = owned_in(&snapshot?);
        for change in changes(&owned, &next) {
            let reader = match args.at.json {
                true => print_json(&change)?,
                false => print_styled(&change.for_people())?,
            };
            if reader == Reader::HasLeft {
                return Ok(0);
            }
        }
        owned = next;
    }
}

/// An owned partition. The token tells one ownership from another by the same member.
#[derive(Debug, PartialEq, Eq)]
struct Owned {
    partition: String,
    owner: String,
    session: String,
    token: Option<u64>,
}

fn owned_in(group: &GroupSnapshot) -> BTreeMap<PartitionNumber, Owned> {
    let owned = group.partitions.iter().filter_map(|it| {
        let owner = group.members.get(it.owner?)?;
        let owned = Owned {
            partition: it.name.clone(),
            owner: owner.name.clone(),
            session: owner.session.clone(),
            token: it.token.map(|token| token.get()),
        };
        Some((it.number, owned))
    });
    owned.collect()
}

/// The object that `--json` prints. What does not apply is null.
#[derive(Debug, Serialize)]
struct Change<'a> {
    /// When it was seen, by the clock of this machine.
    at: String,
    partition: &'a str,
    number: u32,
    from: Option<&'a str>,
    from_session: Option<&'a str>,
    to: Option<&'a str>,
    to_session: Option<&'a str>,
    /// The one that was granted last.
    token: Option<u64>,
}

/// In the order of the partitions' numbers.
fn changes<'a>(
    before: &'a BTreeMap<PartitionNumber, Owned>,
    now: &'a BTreeMap<PartitionNumber, Owned>,
) -> Vec<Change<'a>> {
    let at = Process::system().now().time_of_day().format("%FT%TZ").to_string();
    let mut numbers: Vec<_> = before.keys().chain(now.keys()).collect();
    numbers.sort_unstable();
    numbers.dedup();
    let change = |number: &PartitionNumber| {
        let (from, to) = (before.get(number), now.get(number));
        let newest = to.or(from).filter(|_| from != to)?;
        Some(Change {
            at: at.clone(),
            partition: &newest.partition,
            number: number.0,
            from: from.map(|it| &*it.owner),
            from_session: from.map(|it| &*it.session),
            to: to.map(|it| &*it.owner),
            to_session: to.map(|it| &*it.session),
            token: newest.token,
        })
    };
    numbers.into_iter().filter_map(change).collect()
}

impl Change<'_> {
    fn for_people(&self) -> String {
        let (from, to) = (name_or_dash(self.from), owner(self.to));
        let token = self.token.map_or("-".to_owned(), |token| token.to_string());
        let at = styled(FAINT, &self.at);
        format!("{at}  {}  {from} -> {to}  token {token}", plain(self.partition))
    }
}
