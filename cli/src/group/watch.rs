//! `tenure group watch`: prints one line for every change of a partition's owner.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::time::Duration;

use futures::StreamExt as _;
use serde::Serialize;
use tenure::Process;
use tenure_groups::{Group, GroupBuilder, GroupSnapshot, PartitionNumber, SessionState};

use super::status::{restored_above, unfinished};
use super::view::{name_or_dash, owner, state_word};
use super::{GroupWatchArgs, builder};
use crate::args::common::after_help;
use crate::election::LeaseState;
use crate::exit::Failure;
use crate::output::logs::complain;
use crate::output::print::{FAINT, json_line, plain, styled};
use crate::output::watcher::{Change, PATIENCE, REQUEST_TIMEOUT, WatchEnd, Watcher, validity};
use crate::process::exec::ExecChange;
use crate::process::timer::pause;
use crate::store::open::refuse_election;

pub const AFTER_GROUP_WATCH: &str = after_help!(
    "\
With --exec, CMD gets TENURE_STATE (held or vacant), TENURE_PARTITION, TENURE_EPOCH (the token) \
and TENURE_OWNER as variables. Their values are escaped as in all output, and empty if they do not \
apply. On stdin it gets the line of JSON that --json prints.

At most one CMD runs at a time. If several changes occur during a run, CMD runs again only for the \
newest of each partition. CMD has no time limit: write `timeout 1m COMMAND` to set one. `group \
watch` logs failures of CMD and continues. At its end, it starts no CMD, and sends SIGTERM to the \
process group of a running CMD, and SIGKILL after 10s. A kill of `group watch` does not end CMD.

CMD runs on each host that watches, some time after the change, whether or not this host owns the \
partition. Use `tenure group run` for work of the owner.",
    "
   0  ended by SIGINT, SIGTERM or SIGHUP, or because the reader of its output
      has left
  64  wrong usage or settings
  70  store unsafe, or a record of a later version
  71  the operating system refused something"
);

/// Without `--poll`, the watch reads the sessions of the members at most once in this time.
pub const OFTEN: Duration = Duration::from_secs(1);
/// Maximum poll interval. It is equal to the maximum validity in a group.
pub const LONGEST_POLL: Duration = Duration::from_secs(3600);

pub async fn watch(args: GroupWatchArgs) -> Result<u8, Failure> {
    let output = (args.at.json, args.exec.clone());
    Watcher::run(args.metrics, output, async |watcher| start(&args, watcher).await).await
}

async fn start(args: &GroupWatchArgs, watcher: &mut Watcher) -> Result<Infallible, WatchEnd> {
    let group = watcher.patiently(|| builder(&args.at)).await?;
    let group = observer(group, args.poll).build().map_err(Failure::from)?;
    // If the snapshot fails, this function does not check whether the prefix contains an election,
    // and `follow` waits until the store answers.
    if watcher.unless_ended(group.snapshot()).await?.is_ok_and(|group| group.epoch.is_none()) {
        let refused = refuse_election(&args.at.store, "tenure watch");
        match watcher.unless_ended(refused).await? {
            Err(failure) if !failure.may_pass() => return Err(failure.into()),
            _ => {}
        }
    }
    follow(&group, args.poll, watcher).await
}

/// Sets the poll interval of `tenure group watch`, and the settings of the group that depend on it.
pub fn observer(group: GroupBuilder, poll: Option<Duration>) -> GroupBuilder {
    let group = group
        .validity(validity(poll, LONGEST_POLL))
        .request_timeout(REQUEST_TIMEOUT)
        .retry_denied(None);
    match poll {
        Some(poll) => group.poll_interval(poll),
        None => group,
    }
}

/// An assignment may contain dead owners until the coordinator writes the next assignment. So the
/// observer also reads the sessions of the members. The interval between these reads is the
/// shortest validity of a member or the poll interval, whichever is longer.
async fn follow(
    group: &Group,
    poll: Option<Duration>,
    watcher: &mut Watcher,
) -> Result<Infallible, WatchEnd> {
    let mut snapshots = group.observe();
    let mut seen: Option<GroupSnapshot> = None;
    let (mut sessions, mut owned, mut restored) = (Sessions::new(), BTreeMap::new(), None);
    loop {
        let look_at_sessions = async {
            let Some(group) = &seen else { return std::future::pending().await };
            let shortest = group.members.iter().map(|it| it.validity).min();
            pause(shortest.unwrap_or(PATIENCE).max(poll.unwrap_or(OFTEN))).await;
        };
        let observed = watcher.unless_ended(async {
            tokio::select! {
                biased;
                observed = snapshots.next() => Some(observed),
                () = look_at_sessions => None,
            }
        });
        let read_all = match observed.await? {
            None => true,
            Some(observed) => {
                let Some(snapshot) = watcher.settle(observed).await? else {
                    snapshots = group.observe();
                    continue;
                };
                let before = std::mem::replace(&mut restored, restored_above(&snapshot));
                if let Some(epoch) = restored.filter(|_| restored != before) {
                    complain(&format!("a restore is {}", unfinished(epoch)));
                }
                seen = Some(snapshot);
                owned.is_empty()
            }
        };
        let Some(snapshot) = &seen else { continue };
        if read_all {
            match watcher.unless_ended(group.session_states(snapshot)).await? {
                Ok(states) => {
                    let ids = snapshot.members.iter().map(|it| it.session.clone());
                    sessions = ids.zip(states).collect();
                }
                Err(error) => complain(&format!("{error}; the states of the members are unknown")),
            }
        }
        let next = owned_in(snapshot, &sessions);
        for change in changes(&owned, &next, snapshot, &sessions) {
            watcher.emit(&change)?;
        }
        owned = next;
    }
}

/// States of the sessions at their last read, by session id. Sessions of members that joined after
/// the read are absent.
type Sessions = BTreeMap<String, SessionState>;

/// A partition with a live owner. If this owner gets the partition again later, the token is
/// different.
#[derive(Debug, PartialEq, Eq)]
struct WatchedPartition {
    partition: String,
    owner: String,
    session: String,
    token: Option<u64>,
}

/// Returns the partitions that have a live owner. An owner counts as live unless the last read has
/// shown that its session has ended, has lapsed or is missing.
fn owned_in(
    group: &GroupSnapshot,
    sessions: &Sessions,
) -> BTreeMap<PartitionNumber, WatchedPartition> {
    let owned = group.partitions.iter().filter_map(|it| {
        let owner = group.members.get(it.owner?)?;
        if sessions.get(&owner.session).is_some_and(|state| !state.may_work()) {
            return None;
        }
        let owned = WatchedPartition {
            partition: it.name.clone(),
            owner: owner.name.clone(),
            session: owner.session.clone(),
            token: it.token.map(|token| token.get()),
        };
        Some((it.number, owned))
    });
    owned.collect()
}

/// The object that `--json` prints. Fields that do not apply are null.
#[derive(Debug, Serialize)]
struct OwnerChange<'a> {
    /// Time at which this process observed the change, by this machine's clock.
    at: String,
    partition: &'a str,
    number: u32,
    from: Option<&'a str>,
    from_session: Option<&'a str>,
    to: Option<&'a str>,
    to_session: Option<&'a str>,
    /// The token that was granted last.
    token: Option<u64>,
    /// How the owner's session ended, such as `lapsed` or `resigned`. The assignment may still
    /// contain this owner.
    ended: Option<String>,
}

/// Returns the changes of owners between two polls, in the order of the partitions' numbers.
fn changes<'a>(
    before: &'a BTreeMap<PartitionNumber, WatchedPartition>,
    now: &'a BTreeMap<PartitionNumber, WatchedPartition>,
    group: &GroupSnapshot,
    sessions: &Sessions,
) -> Vec<OwnerChange<'a>> {
    let named = |number: PartitionNumber| {
        let place = group.partitions.binary_search_by_key(&number, |it| it.number).ok()?;
        let owner = group.members.get(group.partitions[place].owner?)?;
        sessions.get(&owner.session).map(|state| state_word(*state))
    };
    let at = Process::system().now().time_of_day().format("%FT%TZ").to_string();
    let mut numbers: Vec<_> = before.keys().chain(now.keys()).collect();
    numbers.sort_unstable();
    numbers.dedup();
    let change = |number: &PartitionNumber| {
        let (from, to) = (before.get(number), now.get(number));
        let newest = to.or(from).filter(|_| from != to)?;
        Some(OwnerChange {
            at: at.clone(),
            partition: &newest.partition,
            number: number.0,
            from: from.map(|it| &*it.owner),
            from_session: from.map(|it| &*it.session),
            to: to.map(|it| &*it.owner),
            to_session: to.map(|it| &*it.session),
            token: newest.token,
            ended: named(*number).filter(|_| to.is_none()),
        })
    };
    numbers.into_iter().filter_map(change).collect()
}

impl Change for OwnerChange<'_> {
    fn for_exec(&self) -> ExecChange {
        let state = LeaseState::held_if(self.to.is_some());
        let partition = plain(self.partition);
        ExecChange {
            of: self.number,
            what: format!("partition {partition}"),
            environment: vec![
                ("TENURE_STATE", state.to_string()),
                ("TENURE_PARTITION", partition),
                ("TENURE_EPOCH", self.token.map(|token| token.to_string()).unwrap_or_default()),
                ("TENURE_OWNER", self.to.map(plain).unwrap_or_default()),
            ],
            json: json_line(self),
        }
    }

    fn for_people(&self) -> String {
        let (from, to) = (name_or_dash(self.from), owner(self.to));
        let token = self.token.map_or("-".to_owned(), |token| token.to_string());
        let at = styled(FAINT, &self.at);
        let ended = self.ended.as_deref().map_or(String::new(), |end| format!("  {end}"));
        format!("{at}  {}  {from} -> {to}  token {token}{ended}", plain(self.partition))
    }
}

#[cfg(test)]
mod tests {
    use std::future::pending;
    use std::pin::pin;
    use std::sync::Arc;

    use tenure::store::MemoryStore;
    use tenure_testkit::fault_store::{Call, Fault, FaultStore};
    use tenure_testkit::time::{secs, timed, wait};

    use super::*;

    /// Before the fix, a signal ended `tenure group watch` only after the store had answered a read
    /// of the sessions.
    #[tokio::test(start_paused = true)]
    async fn regression_a_signal_ends_the_watch_while_it_reads_the_sessions() {
        let store = FaultStore::new(Arc::new(MemoryStore::new()));
        let builder = || Group::builder(Arc::new(store.clone()), "app");
        let member = builder().partitions(0..1).check_store(false).build().expect("settings");
        let group = observer(builder(), None).build().expect("settings");
        let mut running = pin!(member.run(|_| pending()));
        while group.snapshot().await.expect("an answer").members.is_empty() {
            tokio::select! {
                _ = &mut running => panic!("the member left"),
                () = wait(secs(1)) => {}
            }
        }
        store.on(Call::Get).key("members/").always().fault(Fault::Hang);
        let mut watcher = Watcher::until(true, wait(secs(1)));
        let (took, ended) = timed(follow(&group, None, &mut watcher)).await;
        assert!(matches!(ended, Err(None)));
        assert_eq!(took, secs(1));
    }
}
