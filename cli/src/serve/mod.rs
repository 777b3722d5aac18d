//! `tenure serve`: campaigns and joins groups for an application in another container or language.
//! The application uses an HTTP API.

mod api;
mod body;
mod campaign;
mod candidacy;
mod event_stream;
mod events;
mod groups;
mod lease;
mod machine;
mod named;
mod probes;
mod refusals;
mod shapes;
mod view;

use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use futures::future::{try_join, try_join_all};
use tenure::store::{MemoryStore, Store};
use tenure::{Clock, Election, Process};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tracing::{Instrument as _, error_span, info};

use super::exit::{self, Failure};
use super::http::{self, Handler, Listen, Server, Sites};
use crate::args::common::{LayoutArg, after_help};
use crate::http::access::{Access, AccessArgs};
use crate::http::health::{Pulse, recent};
use crate::http::metrics::MetricsArg;
use crate::output::logs::SERVED_SPAN;
use crate::output::print::plain;
use crate::process::app_health::{AppHealth, AppHealthArgs};
use crate::process::signals::{self, ENDING, Signals};
use crate::process::timer::pause;
use crate::store::open::{refuse_election_at, refuse_group};
use crate::store::patience::{AFTER_A_FAILURE, caught, patiently};
use crate::store::urls::OpenedStores;
use api::{Api, MOST_BODY, Served};
use candidacy::Candidacy;
use groups::GroupsArgs;
use lease::ServeLeaseArgs;
use machine::{ServedTask, Shared, Times};
use named::{Named, named, open_all, refuse_twice};
use probes::{probes, service_state};

#[derive(Debug, clap::Args)]
#[command(next_help_heading = "Elections and groups")]
pub struct ServeArgs {
    /// An election to campaign in; repeat the flag for several elections.
    ///
    /// NAME is the name of the election in the API. It has letters, digits, `.`, `_` and `-`. The
    /// URL has the form of `run --store`. An election across stores has 3 or 5 URLs, with spaces
    /// between them.
    #[arg(long = "election", value_name = "NAME=URL", value_parser = named)]
    #[arg(env = "TENURE_ELECTION")]
    elections: Vec<Named>,
    #[command(flatten)]
    groups: GroupsArgs,
    #[arg(long = "store", hide = true, value_parser = no_store)]
    _store: Option<()>,
    /// Layout of the elections in the store. All processes of an election must use the same layout
    #[arg(long, value_name = "LAYOUT", value_enum, default_value_t = LayoutArg::EpochFiles)]
    #[arg(env = "TENURE_LAYOUT", hide_short_help = true)]
    layout: LayoutArg,
    /// Address of the API: ADDRESS:PORT or unix:PATH.
    ///
    /// The address is one of this machine. Only the user of this process may connect to the socket
    /// unix:PATH. An address that other machines can reach needs --access-key-file. With port 0 the
    /// system chooses the port, and the log shows it.
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:4040", help_heading = "API")]
    listen: Listen,
    #[command(flatten, next_help_heading = "API")]
    access: AccessArgs,
    #[command(flatten)]
    app: AppHealthArgs,
    /// Answer /livez and /readyz at http://ADDR, for the probes of another machine.
    ///
    /// With port 0 the system chooses the port, and the log shows it.
    #[arg(long, value_name = "ADDR", value_parser = http::address)]
    #[arg(env = "TENURE_HEALTH_ADDR", help_heading = "Health")]
    health_addr: Option<SocketAddr>,
    #[command(flatten)]
    metrics: MetricsArg,
    #[command(flatten, next_help_heading = "Elections and groups")]
    lease: ServeLeaseArgs,
}

/// Refuses `--store`, the flag with which other verbs name the store.
fn no_store(url: &str) -> Result<(), String> {
    Err(format!("use --election NAME={url} or --group NAME={url}", url = plain(url)))
}

pub const AFTER_SERVE: &str = after_help!(
    "\
GET /v1/elections/NAME returns the leader and the age of this information. The reply to GET \
/v1/elections/NAME/token is 200 only while this candidate leads. GET /v1/elections/NAME/events \
sends `elected`, `at_risk`, `lost` and `leader_changed` as server-sent events. POST \
/v1/elections/NAME/resign resigns, and PUT /v1/elections/NAME/data proclaims data. GET \
/openapi.json describes the API.

With --group this process is a member of a partition group. The reply to GET \
/v1/groups/NAME/partitions/P/token is 200 only while this member owns P. GET \
/v1/groups/NAME/events sends `granted`, `revoked`, `lost`, `at_risk`, `safe` and `role_changed`. \
A revoked partition stays owned until the application sends POST \
/v1/groups/NAME/partitions/P/release, or the session ends. POST /v1/groups/NAME/leave ends the \
session.

A reply is true when it is sent. Later writes of the application still need the token: pass it to \
the written resource, which must refuse lower tokens. A leadership is given up max(200ms, \
VALIDITY/20) before its lease ends. An application that gets no replies must stop once the \
`lease_remaining_ms` of the last reply have passed, counted from the request for that reply.

At SIGINT, SIGTERM and SIGHUP the application gets `lost`, and `revoked` for each partition. The \
leaderships and sessions are resigned after the grace, or once the application has resigned and \
released everything. A second signal ends `tenure` immediately, and other processes wait for the \
lapse.",
    "
   0  ended by SIGINT, SIGTERM or SIGHUP
  64  wrong usage or settings; nothing was written
  69  a directory cannot be reached at the start; later `tenure` waits for the
      store
  71  the operating system refused an operation, such as the use of an address
 130  ended by a second SIGINT, 143 by SIGTERM, 129 by SIGHUP, before everything
      was resigned"
);

/// Time between the end of all tasks and the exit, in which clients can read the last state.
const LAST_REPLIES: Duration = Duration::from_millis(200);

pub async fn serve(args: ServeArgs) -> Result<u8, Failure> {
    let name = args.lease.election.lease.name();
    let margin = check(&args, &name)?;
    let app = Arc::new(AppHealth::new(&args.app));
    let access = Access::new(&args.listen, &args.access)?;
    let api = Arc::new(Api { access, app, served: OnceLock::new() });
    let clock: Arc<dyn Clock> = Arc::new(Process::system());
    let pulse = Arc::new(Pulse::new(&clock));
    let election = &args.lease.election;
    let times = Times {
        validity: election.lease.validity,
        margin,
        recent: recent(election.longest_pause(), election.lease.request_timeout()),
    };
    let mut sites = Sites::default();
    if let Some(address) = args.health_addr {
        sites.add(address, "health", probes(&api, &pulse));
    }
    args.metrics.add_to(&mut sites)?;
    let _sites = sites.start()?;
    let server = Server { handler: handler(&api), most_body: MOST_BODY };
    let _serving = server.listen(&args.listen, "elections").await?;
    let span = error_span!("serve", candidate = name);
    let task = campaign_and_join(&args, &name, times, &api, &pulse).instrument(span);
    pulse.of(|| service_state(api.served.get()), task).await
}

/// Opens the stores. Then campaigns and joins groups until a signal.
async fn campaign_and_join(
    args: &ServeArgs,
    name: &str,
    times: Times,
    api: &Api,
    pulse: &Pulse,
) -> Result<u8, Failure> {
    let mut signals = Signals::listen(&ENDING)?;
    let app = Arc::clone(&api.app);
    let all: Vec<_> = args.elections.iter().chain(&args.groups.groups).collect();
    let opened = tokio::select! {
        biased;
        _ = signals.next() => return Ok(0),
        opened = patiently(None, || open_all(&all)) => opened?,
    };
    tokio::select! {
        biased;
        _ = signals.next() => return Ok(0),
        refused = refuse_other_kinds(args, &opened) => refused?,
    };
    let ending = watch::Sender::new(false);
    let shared = Shared {
        lease: &args.lease,
        times,
        name,
        healthy: app.healthy(),
        ending: ending.subscribe(),
    };
    let mut tasks = JoinSet::new();
    let served = start(args, opened, &shared, &mut tasks)?;
    api.served.get_or_init(|| served);
    pulse.change();
    let watching = tokio::spawn(async move {
        while !caught(app.run()).await {
            pause(AFTER_A_FAILURE).await;
        }
    });
    let first = signals.next().await;
    info!(outcome = "ending", "{first}: ending");
    ending.send_replace(true);
    let ended = tokio::select! {
        biased;
        () = async { while tasks.join_next().await.is_some() {} } => Ok(0),
        signal = signals.next() => Ok(signals::exit_code(signal)),
    };
    watching.abort();
    pause(LAST_REPLIES).await;
    ended
}

/// Refuses invalid settings before a store is opened. Returns the margin: the time between the
/// reported end of a leadership and the end of its lease.
fn check(args: &ServeArgs, name: &str) -> Result<Duration, Failure> {
    let usage = |why| Failure::new(exit::USAGE, why);
    if args.elections.is_empty() && args.groups.groups.is_empty() {
        let why = "serve needs at least one --election NAME=URL or --group NAME=URL";
        return Err(usage(why.to_owned()));
    }
    refuse_twice("election", &args.elections).map_err(usage)?;
    refuse_twice("group", &args.groups.groups).map_err(usage)?;
    let margin = args.lease.margin().map_err(usage)?;
    for named in &args.elections {
        // Check the settings with a store in memory, because opening the real store may create a
        // directory. Wrong settings must not create it.
        let unused = |_| Arc::new(MemoryStore::new()) as Arc<dyn Store>;
        let stores = named.urls.urls().iter().map(unused).collect();
        build(args, name, stores, named.urls.prefix())?;
    }
    args.groups.check(&args.lease.election.lease, name)?;
    Ok(margin)
}

/// Fails if the URL of an `--election` has a group, or the URL of a `--group` has an election.
async fn refuse_other_kinds(args: &ServeArgs, opened: &[OpenedStores]) -> Result<(), Failure> {
    let (elections, groups) = opened.split_at(args.elections.len());
    let elections = elections.iter().map(async |opened| match &*opened.stores {
        [store] => refuse_group(store, &opened.prefix, args.layout, "tenure serve --group").await,
        // The marker of a set already shows that the prefix has an election.
        _ => Ok(()),
    });
    let groups = groups.iter().map(async |opened| {
        refuse_election_at(opened.first(), &opened.prefix, "tenure serve --election").await
    });
    try_join(try_join_all(elections), try_join_all(groups)).await.map(|_| ())
}

/// Starts a task for each election and each group, in the order of `opened`.
fn start(
    args: &ServeArgs,
    opened: Vec<OpenedStores>,
    shared: &Shared<'_>,
    tasks: &mut JoinSet<()>,
) -> Result<Served, Failure> {
    let (mut elections, mut members) = (Vec::new(), Vec::new());
    let mut opened = opened.into_iter();
    for (named, opened) in args.elections.iter().zip(&mut opened) {
        let election = build(args, shared.name, opened.stores, &opened.prefix)?;
        let (candidacy, orders) =
            Candidacy::new(&named.name, election, shared.times, Process::system());
        let task = ServedTask::new(&candidacy, orders, shared);
        let span = error_span!(SERVED_SPAN, election = %named.name);
        tasks.spawn(task.run().instrument(span));
        elections.push(candidacy);
    }
    for (named, opened) in args.groups.groups.iter().zip(opened) {
        let (member, task) = args.groups.start(named, opened, shared)?;
        tasks.spawn(task);
        members.push(member);
    }
    Ok(Served { elections, members })
}

fn build(
    args: &ServeArgs,
    name: &str,
    stores: Vec<Arc<dyn Store>>,
    prefix: &str,
) -> Result<Election, Failure> {
    Ok(args.lease.election.builder(args.layout, name, stores, prefix).build()?)
}

fn handler(api: &Arc<Api>) -> Handler {
    let api = Arc::clone(api);
    Arc::new(move |asked| {
        let api = Arc::clone(&api);
        Box::pin(async move { api.answer(asked).await })
    })
}
