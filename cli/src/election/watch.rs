//! `tenure watch`: prints one line for every change of the leader.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use serde::Serialize;
use serde_json::Value;
use tenure::{Election, ElectionBuilder, EpochEnd, LastSeen, Leader, Observation, Process};

use crate::args::common::{DAY, StoreArg, after_help, positive_up_to};
use crate::cron::{RecordPlace, follow_metric};
use crate::election::LeaseState;
use crate::exit::Failure;
use crate::http::metrics::MetricsArg;
use crate::output::print::{FAINT, NAME};
use crate::output::print::{is_for_a_terminal, json_line, millis, plain, styled};
use crate::output::watcher::{Change, REQUEST_TIMEOUT, WatchEnd, Watcher, validity};
use crate::process::exec::{ExecArg, ExecChange};
use crate::store::open::IfMissing;

#[derive(Debug, clap::Args)]
pub struct WatchArgs {
    #[command(flatten)]
    pub store: StoreArg,
    /// Interval between polls, at most 24h [default: a sixth of the leader's validity]
    ///
    /// Each poll is one GET. The default is from 1s to 1m, and 5s before the first leader.
    #[arg(long, value_name = "DURATION", value_parser = positive_up_to(DAY))]
    #[arg(env = "TENURE_POLL")]
    pub poll: Option<Duration>,
    /// Print one JSON object per change instead of a line for people
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub exec: ExecArg,
    #[command(flatten)]
    pub metrics: MetricsArg,
}

pub const AFTER_WATCH: &str = after_help!(
    "\
With --exec, CMD gets TENURE_STATE (held, vacant or unknown), TENURE_EPOCH, TENURE_CANDIDATE, \
TENURE_DATA (JSON) and TENURE_REASON (why the election is vacant, such as \"anna resigned epoch \
1\") as variables. Their values are escaped as in all output, and empty if they do not apply. On \
stdin it gets the line of JSON that --json prints. CMD inherits stdout and stderr of `watch`.

At most one CMD runs at a time. If several changes occur during a run, CMD runs again for the \
newest of them only. CMD has no time limit: write `timeout 1m COMMAND` to set one. `watch` logs \
failures of CMD and continues. At its end, `watch` starts no CMD, and sends SIGTERM to the process \
group of a running CMD, and SIGKILL after 10s. A kill of `watch` does not end CMD.

CMD runs on each host that watches, some time after the change, whether or not this host leads. \
Use `tenure run` for work of the leader.",
    "
   0  ended by SIGINT, SIGTERM or SIGHUP, or because the reader of its output
      has left
  64  wrong usage or settings
  70  store unsafe, or a record of a later version
  71  the operating system refused something"
);

pub async fn watch(args: WatchArgs) -> Result<u8, Failure> {
    let output = (args.json, args.exec.exec.clone());
    Watcher::run(args.metrics, output, async |watcher| {
        let (election, periods) = opened(&args.store, args.poll, watcher).await?;
        if args.metrics.metrics_addr.is_some() {
            tokio::spawn(follow_metric(periods));
        }
        follow(&election, watcher, Watcher::emit).await
    })
    .await
}

/// Opens the store. Returns the election to observe, and the location of its period record.
pub async fn opened(
    store: &StoreArg,
    poll: Option<Duration>,
    watcher: &mut Watcher,
) -> Result<(Election, RecordPlace), WatchEnd> {
    let (urls, layout) = (store.urls()?, store.layout);
    let opened = watcher.patiently(|| urls.open(IfMissing::Refuse)).await?;
    let refused = opened.refuse_all_else(layout, "tenure group watch");
    watcher.unless_ended(refused).await??;
    let periods = RecordPlace::new(Arc::clone(opened.first()), &opened.prefix);
    let election = observer(opened.builder(), poll).layout(layout.into());
    Ok((election.build().map_err(Failure::from)?, periods))
}

/// Passes each change of the leader to `handle`, until `handle` or the watcher ends the watch.
pub async fn follow(
    election: &Election,
    watcher: &mut Watcher,
    mut handle: impl FnMut(&Watcher, &LeaderChange) -> Result<(), WatchEnd>,
) -> Result<Infallible, WatchEnd> {
    let mut changes = election.observe();
    loop {
        let observed = watcher.unless_ended(changes.next()).await?;
        match watcher.settle(observed).await? {
            Some(change) => handle(watcher, &LeaderChange::of(&change, election.last_seen()))?,
            None => changes = election.observe(),
        }
    }
}

/// Sets the poll interval of `tenure watch`, and the settings of the election that depend on it.
pub fn observer(election: ElectionBuilder, poll: Option<Duration>) -> ElectionBuilder {
    let election =
        election.validity(validity(poll, DAY)).request_timeout(REQUEST_TIMEOUT).retry_denied(None);
    match poll {
        Some(poll) => election.poll_interval(poll),
        None => election,
    }
}

/// The object that `--json` prints. Fields that do not apply are null.
#[derive(Debug, Serialize)]
pub struct LeaderChange {
    /// Time at which this process observed the change, by this machine's clock.
    at: String,
    pub state: LeaseState,
    epoch: Option<u64>,
    candidate: Option<String>,
    validity_ms: Option<u64>,
    data: Value,
    /// The epoch that ended last; null unless the state is `vacant`.
    last: Option<LastEpoch>,
}

/// The epoch that ended last before the observation.
#[derive(Debug, Serialize)]
struct LastEpoch {
    epoch: u64,
    candidate: Option<String>,
    ended: EpochEnd,
    /// Name of the process that sealed the epoch; null if the epoch lapsed and no process has
    /// sealed it.
    sealed_by: Option<String>,
}

impl LastEpoch {
    fn of(seen: LastSeen) -> Option<LastEpoch> {
        let ended = match (seen.end, seen.is_held()) {
            (Some(end), _) => end,
            (None, false) => EpochEnd::Lapsed,
            (None, true) => return None,
        };
        let LastSeen { leader, sealed_by, .. } = seen;
        Some(LastEpoch { epoch: leader.epoch.get(), candidate: leader.candidate, ended, sealed_by })
    }

    /// Returns a text for people that says how this epoch has ended, and so why the election is
    /// vacant.
    fn reason(&self) -> String {
        let LastEpoch { epoch, candidate, ended, sealed_by } = self;
        let name = candidate.as_deref().map_or("somebody without a name".to_owned(), plain);
        let by = sealed_by.as_deref().map_or("an operator".to_owned(), plain);
        match ended {
            EpochEnd::Resigned => format!("{name} resigned epoch {epoch}"),
            EpochEnd::Lapsed => format!("epoch {epoch} of {name} lapsed"),
            EpochEnd::Deposed | EpochEnd::DeposedDead => {
                format!("{by} deposed {name} from epoch {epoch}")
            }
            EpochEnd::Restored => format!("{by} restored epoch {epoch}"),
            _ => format!("epoch {epoch} of {name} has ended"),
        }
    }
}

impl LeaderChange {
    fn of(observation: &Observation, seen: Option<LastSeen>) -> LeaderChange {
        let state = LeaseState::of(observation);
        let leader = match observation {
            Observation::Leader(leader) => Some(leader),
            _ => None,
        };
        LeaderChange {
            at: Process::system().now().time_of_day().format("%FT%TZ").to_string(),
            state,
            epoch: leader.map(|leader| leader.epoch.get()),
            candidate: leader.and_then(|leader| leader.candidate.clone()),
            validity_ms: leader.and_then(|leader| leader.validity).map(millis),
            data: leader.map(|leader: &Leader| leader.data.clone()).unwrap_or_default(),
            last: seen.filter(|_| state == LeaseState::Vacant).and_then(LastEpoch::of),
        }
    }
}

impl Change for LeaderChange {
    fn for_exec(&self) -> ExecChange {
        let epoch = self.epoch.map(|epoch| epoch.to_string()).unwrap_or_default();
        let data = if self.data.is_null() { String::new() } else { json_line(&self.data) };
        ExecChange {
            of: 0,
            what: self.epoch.map_or(self.state.to_string(), |epoch| format!("epoch {epoch}")),
            environment: vec![
                ("TENURE_STATE", self.state.to_string()),
                ("TENURE_EPOCH", epoch),
                ("TENURE_CANDIDATE", self.candidate.as_deref().map(plain).unwrap_or_default()),
                ("TENURE_DATA", data),
                ("TENURE_REASON", self.last.as_ref().map(LastEpoch::reason).unwrap_or_default()),
            ],
            json: json_line(self),
        }
    }

    /// Formats the change for people: in columns if stdout is a terminal, otherwise as a sentence.
    fn for_people(&self) -> String {
        let eye = is_for_a_terminal();
        let at = styled(FAINT, &self.at);
        let name = self.candidate.as_deref().map_or("-".to_owned(), plain);
        let state = styled(self.state.style(), format_args!("{:<7}", self.state));
        let why = match self.state {
            LeaseState::Vacant => self.last.as_ref().map(LastEpoch::reason),
            _ => Some("the store does not answer".to_owned()),
        };
        match (self.epoch, why) {
            (Some(epoch), _) if eye => {
                format!("{at}  {state}  epoch {epoch:>10}  {}", styled(NAME, name))
            }
            (Some(epoch), _) => format!("{at}  {name} leads epoch {epoch}"),
            (None, Some(why)) if eye => format!("{at}  {state}  {why}"),
            (None, Some(why)) => format!("{at}  {}: {why}", self.state),
            (None, None) => format!("{at}  {}", styled(self.state.style(), self.state)),
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;
    use tenure_testkit::time::{secs, within};
    use tenure_testkit::world::{World, elect};

    use super::*;

    #[derive(Debug, clap::Parser)]
    struct WatchLine {
        #[command(flatten)]
        watch: WatchArgs,
    }

    #[tokio::test(start_paused = true)]
    async fn the_default_poll_follows_the_validity_of_the_leader() {
        for (options, polls) in [(&[][..], 30), (&["--poll", "5s"], 120)] {
            let line = [&["watch", "--store", "file:///tmp/x"], options].concat();
            let args = WatchLine::try_parse_from(line).expect("a line").watch;
            let world = World::new();
            let leader = world.node("a").validity(secs(120)).build().expect("fits");
            let _leader = elect(&leader).await;
            let store = world.another_way();
            let node = world.node_behind(&store, &world.clock, "o");
            let election = observer(node, args.poll).build().expect("fits");
            let mut seen = election.observe();
            assert!(matches!(seen.next().await, Some(Ok(Observation::Leader(_)))));
            store.take_log();
            assert!(within(secs(600), seen.next()).await.is_none(), "the leader lives");
            let counted = store.take_calls().len();
            assert!(counted.abs_diff(polls) <= 1, "{options:?}: {counted} of {polls}");
        }
    }
}
