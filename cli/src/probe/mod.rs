//! `tenure probe`: checks whether the store keeps the promises that elections require.

mod advice;
#[cfg(feature = "s3")]
mod bucket;
mod clock_skew;
mod metered_store;
mod missed_faults;
mod quantile;
mod report;

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use nix::sys::signal::Signal;
use tenure::store::{Store, StoreError, StoreErrorKind};
use tenure::{Election, ErrorKind};
use tenure_conformance::race::{Bounds, LONGEST, Races, Tally};
use tenure_conformance::{Capabilities, Check, CheckFailure, essential};
use tokio_util::sync::CancellationToken;

use self::advice::{Advice, Setting};
use self::metered_store::{Meter, failure};
use self::report::{Asked, Finding, ProbeReport, PromiseStatus};
use super::exit::{self, Failure};
use crate::across;
use crate::args::common::{LayoutArg, StoreArg, YEAR, positive_up_to};
use crate::cost::prices;
use crate::output::logs::{complain, complain_of};
use crate::output::print::{print, print_json};
use crate::output::progress::Progress;
use crate::process::signals::{self, ENDING, Signals};
use crate::process::timer::pause;
use crate::store::open::{IfMissing, Opened, open, prefix};
use crate::store::url::{Place, StoreUrl};

/// Maximum number of attempts to check one promise if the answers are unclear.
const ATTEMPTS: u32 = 5;
/// Pause after the first attempt with an unclear answer. The pause after attempt `n` is `n` times
/// this duration.
const RETRY_AFTER: Duration = Duration::from_millis(200);

#[derive(Debug, clap::Args)]
pub struct ProbeArgs {
    #[command(flatten)]
    pub store: StoreArg,
    /// Number of rounds of each kind of race; every second round has two races.
    ///
    /// More rounds find rarer faults. With 0 the races end after --for, or at SIGINT, SIGTERM or
    /// SIGHUP, and the report follows.
    #[arg(long, value_name = "COUNT", default_value = "30")]
    #[arg(value_parser = clap::value_parser!(u32).range(0..=10_000))]
    pub rounds: u32,
    /// Time after which no further round starts: at most 365d.
    ///
    /// The time begins with the first round. The first two rounds of each kind always run.
    #[arg(long = "for", value_name = "DURATION", value_parser = positive_up_to(YEAR))]
    pub span: Option<Duration>,
    /// Print one JSON object instead of tables
    #[arg(long)]
    pub json: bool,
}

pub const AFTER_PROBE: &str = "\
Checks: one writer tries creates, replaces, reads, listings and deletions in sequence. Then 32 \
writers race, --rounds times to create and --rounds times to replace. In every other round all of \
them write short bodies to one key. In the other rounds, for each of two keys, one writer sends 5 \
MiB, and 15 writers send short bodies during that write. Exactly one writer may win. Only these \
races expose a store that checks a condition and writes in two steps. An unclear answer (a \
timeout, 409, 5xx) counts for no writer, and the stored object shows the winner. On S3 the probe \
also reads the versioning and the lifecycle rules of the bucket.

Of several stores, the probe checks one after the other, and then shows the set, as `tenure across \
status` does.

The report states the probability that a fault was missed: no number of races proves the absence \
of faults. The races end with the batch of 20 rounds in which a fault occurs.

Cost: about 70 requests per round and 280 more, so about 2,400 for 30 rounds. Most are writes: \
$0.011 on S3. 30 rounds send 305 MiB. If a write of 5 MiB takes longer than a second or is \
refused, long bodies are halved, down to 160 KiB.

Cleanup: the probe writes keys PREFIX/probe-…, which elections ignore. It deletes them at its end, \
also after a failure and after SIGINT, SIGTERM and SIGHUP. A killed probe leaves its keys. The \
probe needs the rights of a candidate and of a compactor, and for the settings of the bucket also \
s3:GetBucketVersioning and s3:GetLifecycleConfiguration.

Logs go to stderr; RUST_LOG sets their level, such as RUST_LOG=tenure=debug.

Exit codes:
   0  no fault seen; see the warnings, if any
  64  wrong usage or settings
  69  store unreachable or missing, too few clear answers, a store that does not
      delete, or something could not be deleted
  70  UNSAFE: a promise is broken
  77  access denied by the store
 128+N  signal N stopped it; with --rounds 0 the first signal ends the races
      only";

pub async fn probe(args: ProbeArgs) -> Result<u8, Failure> {
    let urls = args.store.urls()?;
    if !urls.are_several() {
        return probe_store(&args, &urls.urls()[0]).await;
    }
    let worse = |one: u8, other: u8| match [one, other].contains(&exit::UNSAFE) {
        true => exit::UNSAFE,
        false => one.max(other),
    };
    let told = |failure: Failure| {
        complain_of(&failure);
        failure.code
    };
    let mut code = 0;
    for url in urls.urls() {
        let of_store = probe_store(&args, url).await.unwrap_or_else(told);
        if of_store > 128 {
            return Ok(of_store);
        }
        code = worse(code, of_store);
    }
    let election = urls.open(IfMissing::Refuse).await?.builder().build()?;
    let set = across::show(&election, args.json).await?;
    let errors = set.stores.into_iter().filter_map(|store| store.error);
    // A missing marker is no failure, because operators often probe the stores before they create
    // the markers.
    let errors = errors.filter(|error| error.kind() != ErrorKind::InvalidInput);
    Ok(errors.map(|error| Failure::from(error).code).fold(code, worse))
}

async fn probe_store(args: &ProbeArgs, url: &StoreUrl) -> Result<u8, Failure> {
    // The prefix is not checked here, because `build` below refuses a prefix that no election can
    // have.
    let normalised = normalised(prefix(url));
    let Opened { store, prefix } = open(url, IfMissing::Refuse).await?;
    Election::builder(Arc::clone(&store), prefix).build()?;
    let mut signals = Signals::listen(&ENDING)?;
    let stop = CancellationToken::new();
    let meter = Arc::new(Meter::new(store, &normalised, stop.clone()));
    let bounds = Bounds {
        rounds: (args.rounds > 0).then_some(args.rounds),
        span: args.span,
        enough: Arc::default(),
        longest: LONGEST,
    };
    let mut probing = pin!(ask_all(&meter, &bounds, args.store.layout));
    let mut signal = None;
    let progress = Progress::of("probing");
    let outcome = loop {
        tokio::select! {
            biased;
            outcome = &mut probing => break outcome,
            by = signals.next() => {
                if args.rounds == 0 && !bounds.enough.load(Ordering::Relaxed) {
                    bounds.enough.store(true, Ordering::Relaxed);
                    complain("starting no more rounds; a report follows after the current rounds");
                    continue;
                }
                signal = Some(by);
                stop.cancel();
                complain("stopping: the keys of the probe are deleted after the last request");
                // Requests in flight must end before the cleanup. Otherwise a request could write
                // an object after the cleanup.
                break probing.await;
            }
            () = pause(PROGRESS_EVERY) => {
                let sent: u64 = meter.account().requests.values().sum();
                match args.rounds {
                    0 => progress.say(&format!("{sent} requests")),
                    rounds => progress.at(sent, about(rounds).max(sent)),
                }
            }
        }
    };
    let left_behind = clean_up(&meter, &mut signals, &mut signal).await;
    if let Some(signal) = signal {
        return Ok(stopped(signal, &left_behind));
    }
    let asked = match outcome {
        Ok(asked) => asked,
        Err(CheckFailure::Request(error)) => return Err(failed(&meter, error, &left_behind)),
        Err(CheckFailure::Broken(violation)) => return Err(Failure::new(exit::UNSAFE, violation)),
    };
    let settings = settings(url.place(), &normalised, &meter).await;
    let report = ProbeReport::new(&meter, asked, settings, left_behind, prices::of(url.place()));
    let _ = if args.json { print_json(&report)? } else { print(&report.for_people())? };
    Ok(report.exit_code())
}

/// Deletes the keys of this probe. Returns the remaining keys. The cleanup continues after the
/// first signal, and ends at the second signal.
async fn clean_up(
    meter: &Meter,
    signals: &mut Signals,
    signal: &mut Option<Signal>,
) -> Vec<String> {
    let mut cleaning = pin!(meter.clean_up());
    loop {
        tokio::select! {
            biased;
            left = &mut cleaning => return left,
            by = signals.next() => if signal.replace(by).is_some() {
                return vec![format!("{}…", meter.start())];
            },
        }
    }
}

/// Interval between two lines about the progress of a probe.
const PROGRESS_EVERY: Duration = Duration::from_secs(1);

/// Returns approximately how many requests a probe with this number of rounds sends. The help text
/// contains numbers from the same formula.
fn about(rounds: u32) -> u64 {
    280 + 70 * u64::from(rounds)
}

/// Returns the prefix in the form that an election uses: empty, or with a slash at the end.
fn normalised(prefix: &str) -> String {
    match prefix.strip_suffix('/').unwrap_or(prefix) {
        "" => String::new(),
        prefix => format!("{prefix}/"),
    }
}

fn stopped(signal: Signal, left: &[String]) -> u8 {
    match left.first() {
        None => complain("stopped; all keys of the probe are deleted"),
        Some(first) => complain(&format!("stopped; delete the remaining keys, such as {first}")),
    }
    signals::exit_code(signal)
}

fn failed(meter: &Meter, error: StoreError, left: &[String]) -> Failure {
    let mut failure = failure(meter, error);
    if let Some(first) = left.first() {
        failure.why.push_str(&format!("; delete the remaining keys, such as {first}"));
    }
    failure
}

/// Checks the promises of the store in sequence. The races are the last check, because they send
/// the most requests.
async fn ask_all(
    meter: &Arc<Meter>,
    bounds: &Bounds,
    layout: LayoutArg,
) -> Result<Asked, CheckFailure> {
    match may_delete(meter).await {
        Err(CheckFailure::Request(error)) if error.kind() == StoreErrorKind::Unsupported => {
            return Ok(Asked { not_tried: Some(error.to_string()), ..Asked::default() });
        }
        outcome => outcome?,
    }
    let listings = layout == LayoutArg::EpochFiles;
    let mut findings = Vec::new();
    for check in essential() {
        findings.push(tried(meter, check, listings, bounds.rounds).await?);
    }
    let store: Arc<dyn Store> = Arc::clone(meter) as _;
    let start = meter.start().to_owned();
    let mut races = Races::prepare(&store, start, listings, bounds.longest).await?;
    let ends = races.run(bounds).await;
    let long_bytes = races.long;
    findings.extend(raced(races, ends)?);
    Ok(Asked { promises: findings, long_bytes, not_tried: None })
}

/// Checks the permission to delete before the first write. Without this permission the probe could
/// not clean up.
async fn may_delete(meter: &Meter) -> Result<(), CheckFailure> {
    let mut attempts = 0;
    loop {
        attempts += 1;
        let nothing = format!("{}nothing", meter.start());
        let error = match meter.delete(vec![nothing]).await {
            Ok(mut failed) => match failed.pop() {
                None => return Ok(()),
                Some((_, error)) => error,
            },
            Err(error) => error,
        };
        if error.kind() != StoreErrorKind::Transient || attempts == ATTEMPTS {
            return Err(CheckFailure::Request(error));
        }
        pause(RETRY_AFTER * attempts).await;
    }
}

/// Checks one promise. After unclear answers, repeats the check on new keys, with at most five
/// attempts.
async fn tried(
    meter: &Arc<Meter>,
    check: &Check,
    listings: bool,
    rounds: Option<u32>,
) -> Result<Finding, CheckFailure> {
    let store: Arc<dyn Store> = Arc::clone(meter) as _;
    let can = Capabilities {
        exact_sizes: false,
        lenient: true,
        rounds: rounds.map_or(20, |rounds| rounds.min(20)) as usize,
        ..Capabilities::default()
    };
    let mut unclear = 0;
    let (kept, seen) = loop {
        let start = format!("{}{}-{unclear}-", meter.start(), check.name);
        match check.run_at(&store, start, &can).await {
            Ok(()) => break (PromiseStatus::Yes, None),
            Err(CheckFailure::Broken(violation)) => break (PromiseStatus::No, Some(violation)),
            Err(failure) if failure.is_unclear() => {
                unclear += 1;
                if unclear == ATTEMPTS {
                    break (PromiseStatus::Unknown, Some(failure.to_string()));
                }
                pause(RETRY_AFTER * unclear).await;
            }
            Err(failure) => return Err(failure),
        }
    };
    let Check { name, promise, of_listings, .. } = *check;
    let needed = listings || !of_listings;
    Ok(Finding { name, promise, kept, seen, needed, unclear, race: None })
}

fn raced(races: Races, ends: Result<(), CheckFailure>) -> Result<[Finding; 2], CheckFailure> {
    // Each round has races of creates and races of replaces, and an error ends all races. So the
    // finding about each kind shows the error, unless its own races have found a fault.
    let seen = match ends {
        Ok(()) => None,
        Err(CheckFailure::Broken(violation)) => Some((PromiseStatus::No, violation)),
        Err(failure) if failure.is_unclear() => Some((PromiseStatus::Unknown, failure.to_string())),
        Err(failure) => return Err(failure),
    };
    Ok([
        race("create-race", "one of 32 racing creators wins", races.creates, seen.clone()),
        race("replace-race", "one of 32 racing replacers wins", races.replaces, seen),
    ])
}

fn race(
    name: &'static str,
    promise: &'static str,
    tally: Tally,
    ends: Option<(PromiseStatus, String)>,
) -> Finding {
    let (kept, seen) = match ends {
        _ if tally.broken > 0 => {
            let first = tally.first.as_deref().unwrap_or_default();
            let seen =
                format!("breaks its promise in {} of {} races: {first}", tally.broken, tally.races);
            (PromiseStatus::No, Some(seen))
        }
        Some((kept, seen)) => (kept, Some(seen)),
        None if tally.is_clear() => (PromiseStatus::Yes, None),
        None if tally.races == 0 => {
            (PromiseStatus::Unknown, Some("no race was started".to_owned()))
        }
        None => (PromiseStatus::Unknown, Some("too few writers had a clear answer".to_owned())),
    };
    Finding { name, promise, kept, seen, needed: true, unclear: 0, race: Some(tally) }
}

#[cfg(feature = "s3")]
async fn settings(place: &Place, prefix: &str, meter: &Meter) -> (Vec<Setting>, Vec<Advice>) {
    use crate::store::url::Kind;
    match place {
        Place::In { service, name, options, .. } if service.kind == Kind::S3 => {
            *meter.account().requests.entry(metered_store::RequestKind::Settings).or_default() += 2;
            let store = options.bucket(name).await;
            bucket::look(&store, prefix).await
        }
        _ => Default::default(),
    }
}

#[cfg(not(feature = "s3"))]
async fn settings(_: &Place, _: &str, _: &Meter) -> (Vec<Setting>, Vec<Advice>) {
    Default::default()
}

#[cfg(test)]
mod tests;
