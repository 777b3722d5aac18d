//! `tenure serve`: campaigns for an application that is in another container or language, and
//! answers it over HTTP.

mod access;
mod api;
mod app_health;
mod body;
mod campaign;
mod candidacy;
mod events;
mod lease_args;
mod refusal;
mod shapes;
mod stream;
mod view;

use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use nix::sys::signal::Signal;
use tenure::store::{MemoryStore, Store};
use tenure::{Clock, Election, Process};
use tokio::sync::watch;
use tokio::task::JoinSet;
use tracing::{Instrument as _, error_span, info};

use super::common_args::LayoutArg;
use super::exit::{self, Failure};
use super::health::{Pulse, answered_lately, recent};
use super::http::{self, Reply, Routes, Server, Sites};
use super::metrics::MetricsArg;
use super::open::{Missing, Opened, open, prefix};
use super::signals::{self, Signals};
use super::store_url::{Place, StoreUrl};
use super::timer::pause;
use access::{Access, Listen, ListenArgs};
use api::{Api, MOST_BODY};
use app_health::{AppHealth, AppHealthArgs};
use campaign::Campaigner;
use candidacy::{Candidacy, Role};
use lease_args::LeaseArgs;

#[derive(Debug, clap::Args)]
pub struct ServeArgs {
    /// An election to campaign in, and its name in the API: letters, digits, `.`, `_` and `-`.
    /// Once for each election. The URL is that of `run --store`
    #[arg(long = "election", value_name = "NAME=URL", required = true, value_parser = named)]
    elections: Vec<Named>,
    /// How the elections are stored. All processes of an election must use the same layout
    #[arg(long, value_name = "LAYOUT", value_enum, default_value_t = LayoutArg::EpochFiles)]
    layout: LayoutArg,
    #[command(flatten)]
    lease: LeaseArgs,
    #[command(flatten)]
    listen: ListenArgs,
    #[command(flatten)]
    app: AppHealthArgs,
    /// Answer /livez and /readyz at http://ADDR, for the probes of another machine. For port 0 the
    /// log has the port
    #[arg(long, value_name = "ADDR", value_parser = http::address)]
    health_addr: Option<SocketAddr>,
    #[command(flatten)]
    metrics: MetricsArg,
}

pub const AFTER_SERVE: &str = "\
GET /v1/elections/NAME says who leads, and how old that is; GET /v1/elections/NAME/token is 200 only
while this candidate leads; GET /v1/elections/NAME/events sends `elected`, `at_risk`, `lost` and
`leader_changed` as server-sent events. POST /v1/elections/NAME/resign and
PUT /v1/elections/NAME/data change things. GET /openapi.json describes it all.

A reply is true when it is sent. What the application does after it still needs the token: hand it
to the resource that is written, and let that refuse lower ones. A leadership is given up before its
lease ends: by max(200ms, VALIDITY/20). An application that does not hear from this process has to
stop by itself, once the lease_remaining_ms of the last reply have passed since it asked.

At SIGINT and SIGTERM the application gets `lost`, and after the grace, or once it has resigned, the
leaderships are resigned. A second signal ends `tenure` at once, and others wait for the lapse.

Durations are a number and a unit: 500ms, 30s, 10m, 1h.
Logs go to stderr; RUST_LOG sets their level, such as RUST_LOG=tenure=debug, and --log-format json
makes each line a JSON object.

Exit codes:
   0  ended by SIGINT or SIGTERM
  64  wrong usage or settings; nothing was sent
  69  a directory cannot be reached; a store that cannot be reached later is waited for
  71  the operating system refused something, such as an address
 130  ended by a second SIGINT, 143 by a second SIGTERM, before the leaderships were resigned";

/// An election, as `--election` has it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Named {
    name: String,
    url: StoreUrl,
}

fn named(text: &str) -> Result<Named, String> {
    let (name, url) =
        text.split_once('=').ok_or("write NAME=URL, such as orders=s3://BUCKET/orders")?;
    let plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    // A client may take these for folders.
    if name.is_empty() || name.len() > 64 || !name.chars().all(plain) || [".", ".."].contains(&name)
    {
        return Err("a name has 1 to 64 letters, digits, `.`, `_` or `-`".to_owned());
    }
    Ok(Named { name: name.to_owned(), url: url.parse()? })
}

/// How long replies on their way have at the end.
const LAST_REPLIES: Duration = Duration::from_millis(200);

pub async fn serve(args: ServeArgs) -> Result<u8, Failure> {
    let usage = |why| Failure::new(exit::USAGE, why);
    let candidate = args.lease.settings.name();
    refuse_twice(&args.elections).map_err(usage)?;
    let margin = args.lease.margin().map_err(usage)?;
    for named in &args.elections {
        // A directory is made when it is opened, so the settings are checked beforehand.
        build(&args, &candidate, Arc::new(MemoryStore::new()), prefix(&named.url))?;
    }
    let app = Arc::new(AppHealth::new(&args.app).map_err(usage)?);
    let access = Access::new(&args.listen)?;
    let api = Arc::new(Api { access, app: Arc::clone(&app), elections: OnceLock::new() });
    let clock: Arc<dyn Clock> = Arc::new(Process::system());
    let pulse = Arc::new(Pulse::new(&clock));
    let mut sites = Sites::default();
    if let Some(address) = args.health_addr {
        let settings = &args.lease.settings;
        let recent = recent(settings.longest_pause(), settings.request_timeout());
        sites.add(address, "health", probes(&api, &pulse, recent));
    }
    args.metrics.add_to(&mut sites)?;
    let _sites = sites.start()?;
    let _serving = listen(&args.listen.listen, &api)?;
    let mut signals = Signals::listen(&[Signal::SIGINT, Signal::SIGTERM])?;
    let opened = tokio::select! {
        biased;
        _ = signals.next() => return Ok(0),
        opened = open_all(&args.elections) => opened?,
    };
    let ending = watch::Sender::new(false);
    let mut tasks = JoinSet::new();
    let mut candidacies = Vec::new();
    for (named, Opened { store, prefix }) in args.elections.iter().zip(opened) {
        let election = build(&args, &candidate, store, &prefix)?;
        let (candidacy, orders) = Candidacy::new(
            &named.name,
            election,
            args.lease.settings.validity,
            margin,
            Process::system(),
        );
        let campaigner = Campaigner {
            candidacy: Arc::clone(&candidacy),
            orders,
            healthy: app.healthy(),
            ending: ending.subscribe(),
            grace: args.lease.grace(),
            stand_back: args.lease.stand_back(),
        };
        let span = error_span!("election", name = named.name, candidate);
        tasks.spawn(campaigner.run().instrument(span));
        candidacies.push(candidacy);
    }
    api.elections.get_or_init(|| candidacies);
    let watching = tokio::spawn(async move { app.run().await });
    let first = pulse.of(signals.next()).await;
    info!(outcome = "ending", "{first}: ending");
    ending.send_replace(true);
    let ended = tokio::select! {
        biased;
        () = pulse.of(async { while tasks.join_next().await.is_some() {} }) => Ok(0),
        signal = signals.next() => Ok(signals::exit_code(signal)),
    };
    watching.abort();
    pause(LAST_REPLIES).await;
    ended
}

/// A name stands for one election, and an election has one candidate of this process.
fn refuse_twice(elections: &[Named]) -> Result<(), String> {
    for (at, one) in elections.iter().enumerate() {
        for other in &elections[..at] {
            if one.name == other.name {
                return Err(format!("two elections are called {}", one.name));
            }
            if is_same(one.url.place(), other.url.place()) {
                let (other, one) = (&other.name, &one.name);
                return Err(format!("{other} and {one} are the same election"));
            }
        }
    }
    Ok(())
}

fn is_same(one: &Place, other: &Place) -> bool {
    match (one, other) {
        (Place::Dir { path: one, .. }, Place::Dir { path: other, .. }) => one == other,
        (Place::In { prefix: one_prefix, .. }, Place::In { prefix: other_prefix, .. }) => {
            let trimmed = |prefix: &str| prefix.trim_end_matches('/').to_owned();
            in_one_store(one, other) && trimmed(one_prefix) == trimmed(other_prefix)
        }
        _ => false,
    }
}

fn in_one_store(one: &Place, other: &Place) -> bool {
    match (one, other) {
        (
            Place::In { service, name, options, .. },
            Place::In { service: others, name: other, options: other_options, .. },
        ) => service.kind == others.kind && name == other && options == other_options,
        _ => false,
    }
}

/// Opens each store once: a client of a service has its own connections and credentials.
async fn open_all(elections: &[Named]) -> Result<Vec<Opened>, Failure> {
    let mut all: Vec<Opened> = Vec::new();
    for (at, named) in elections.iter().enumerate() {
        let same = |other: &Named| in_one_store(named.url.place(), other.url.place());
        let known = elections[..at].iter().position(same);
        // Opening has checked this prefix, too, when there was no store to share.
        let opened = match known {
            Some(known) if !prefix(&named.url).trim_matches('/').is_empty() => Opened {
                store: Arc::clone(&all[known].store),
                prefix: prefix(&named.url).to_owned(),
            },
            _ => open(&named.url, Missing::Make).await?,
        };
        all.push(opened);
    }
    Ok(all)
}

fn build(
    args: &ServeArgs,
    name: &str,
    store: Arc<dyn Store>,
    prefix: &str,
) -> Result<Election, Failure> {
    Ok(args.lease.settings.election(args.layout, name, store, prefix).build()?)
}

/// Kept as long as the API is served.
enum Kept {
    Tcp { _serving: http::Serving },
    Unix { _serving: http::SocketFile },
}

fn listen(at: &Listen, api: &Arc<Api>) -> Result<Kept, Failure> {
    let api = Arc::clone(api);
    let server = Server {
        handler: Arc::new(move |asked| {
            let api = Arc::clone(&api);
            Box::pin(async move { api.answer(asked).await })
        }),
        most_body: MOST_BODY,
    };
    let (kept, shown) = match at {
        Listen::Tcp(address) => server.start(*address).map(|serving| {
            let shown = format!("http://{}", serving.address);
            (Kept::Tcp { _serving: serving }, shown)
        }),
        Listen::Unix(path) => http::start_unix(path, server)
            .map(|serving| (Kept::Unix { _serving: serving }, at.to_string())),
    }
    .map_err(|error| Failure::new(exit::OS, format!("cannot serve elections at {at}: {error}")))?;
    info!("serving elections at {shown}");
    Ok(kept)
}

/// `/livez` and `/readyz`.
fn probes(api: &Arc<Api>, pulse: &Arc<Pulse>, recent: Duration) -> Routes {
    let (api, pulse) = (Arc::clone(api), Arc::clone(pulse));
    Arc::new(move |path| match path {
        "/livez" => Some(pulse.livez()),
        "/readyz" => Some(readyz(api.elections.get().map_or(&[], Vec::as_slice), recent)),
        _ => None,
    })
}

/// Whether each election is campaigned in, and its store has answered lately.
fn readyz(elections: &[Arc<Candidacy>], recent: Duration) -> Reply {
    if elections.is_empty() {
        return Reply::text(503, "starting");
    }
    for candidacy in elections {
        let now = candidacy.now();
        let name = &candidacy.name;
        let refused = match now.role {
            Role::Starting => Some(Reply::text(503, &format!("{name}: starting"))),
            Role::Ending => Some(Reply::text(503, &format!("{name}: ending"))),
            Role::Failed(why) => Some(Reply::text(503, &format!("{name}: {why}"))),
            _ => answered_lately(now.answered_ago, recent),
        };
        if let Some(refused) = refused {
            return refused;
        }
    }
    Reply::text(200, "ok")
}
