//! `tenure compact`: deletes superseded epoch objects, once or periodically.

use std::fmt;
use std::pin::pin;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use nix::sys::signal::Signal;
use serde::Serialize;
use tenure::store::Store;
use tenure::{Compactor, Error, ErrorKind, Report};
use tenure_groups::{GroupCompactor, GroupReport};
use tokio_util::sync::CancellationToken;

use crate::args::common::{
    CENTURY, LayoutArg, StoreArg, YEAR, count, duration_up_to, positive_up_to,
};
use crate::exit::{self, Failure};
use crate::http::Sites;
use crate::http::metrics::MetricsArg;
use crate::output::logs::{complain, complain_of};
use crate::output::print::{StdoutReader, in_ms, plain, print, print_json};
use crate::output::progress::Progress;
use crate::process::lock::lock;
use crate::process::signals::{ENDING, Signals, exit_code};
use crate::process::timer::pause;
use crate::store::open::{IfMissing, Opened, open, refuse_all_else, refuse_election_at};
use crate::store::patience::patiently;

#[derive(Debug, clap::Args)]
pub struct CompactArgs {
    #[command(flatten)]
    pub store: StoreArg,
    /// Number of epoch objects to keep, including the newest: at least 1
    #[arg(long, value_name = "COUNT", default_value = "10")]
    #[arg(value_parser = count(1..=u64::MAX), env = "TENURE_KEEP")]
    pub keep: u64,
    /// Delete only objects of at least this age by the store's clock: at most 36525d.
    ///
    /// An age above 0s counts as at least the validity plus 1s. With less than 1h, a delayed
    /// request may create a deleted epoch again.
    #[arg(long, value_name = "DURATION", default_value = "1h", env = "TENURE_MIN_AGE")]
    #[arg(value_parser = duration_up_to(CENTURY))]
    pub min_age: Duration,
    /// Compact the partition group at the prefix instead of an election.
    ///
    /// Delete superseded assignments, and sessions that have ended.
    #[arg(long)]
    pub group: bool,
    /// Report the result of the compaction without deleting anything
    #[arg(long)]
    pub dry_run: bool,
    /// Repeat the compaction until a signal, with this pause after each run: at most 365d
    #[arg(long, value_name = "DURATION", value_parser = positive_up_to(YEAR), env = "TENURE_EVERY")]
    pub every: Option<Duration>,
    /// Print one JSON object for each run instead of text
    #[arg(long)]
    pub json: bool,
    #[command(flatten)]
    pub metrics: MetricsArg,
}

pub async fn compact(args: CompactArgs) -> Result<u8, Failure> {
    if args.store.layout == LayoutArg::SingleObject {
        let why = "a single object has nothing to compact: every epoch overwrites the one before, \
                   and deleting lock.json would restart the tokens at 1";
        return Err(Failure::new(exit::USAGE, why));
    }
    args.metrics.refuse_without(args.every)?;
    let mut sites = Sites::default();
    args.metrics.add_to(&mut sites)?;
    let _serving = sites.start()?;
    let mut signals = Signals::listen(&ENDING)?;
    let patience = args.every.is_none().then_some(Duration::ZERO);
    let mut compactions = Vec::new();
    for url in args.store.urls()?.urls() {
        let Opened { store, prefix } = tokio::select! {
            biased;
            signal = signals.next() => return Ok(exit_code(signal)),
            opened = patiently(patience, || open(url, IfMissing::Refuse)) => opened?,
        };
        let settings = Compactor::builder(Arc::clone(&store), prefix.as_str())
            .keep_epochs(usize::try_from(args.keep).unwrap_or(usize::MAX))
            .min_age(args.min_age)
            .dry_run(args.dry_run);
        let compactor = match args.group {
            true => AnyCompactor::Group(GroupCompactor::new(settings)?),
            false => AnyCompactor::Election(settings.build()?),
        };
        compactions.push(Compaction { place: url.to_string(), store, prefix, compactor });
    }
    match args.every {
        Some(interval) => {
            for compaction in &compactions {
                tokio::select! {
                    biased;
                    _ = signals.next() => return Ok(0),
                    looked = compaction.refuse_the_other_kind(&args) => looked?,
                }
            }
            again_and_again(&compactions, &mut signals, interval, &args).await
        }
        None => {
            let mut failure = None;
            for compaction in &compactions {
                match compact_once(compaction, &mut signals, &args).await {
                    Ok(0) => {}
                    Ok(code) => return Ok(code),
                    // This function still compacts the other stores of the election.
                    Err(failed) if compactions.len() > 1 => {
                        complain_of(&failed);
                        failure = Some(failed);
                    }
                    Err(failed) => return Err(failed),
                }
            }
            failure.map_or(Ok(0), |failed| Ok(failed.code))
        }
    }
}

/// The compaction of one store.
struct Compaction {
    /// URL of the store.
    place: String,
    store: Arc<dyn Store>,
    prefix: String,
    compactor: AnyCompactor,
}

/// Compacts one store. Returns an exit code other than 0 after a signal.
async fn compact_once(
    compaction: &Compaction,
    signals: &mut Signals,
    args: &CompactArgs,
) -> Result<u8, Failure> {
    let (outcome, signal) = run_once(&compaction.compactor, signals).await;
    let report = outcome?;
    if report.epochs().newest.is_none() && signal.is_none() {
        compaction.refuse_the_other_kind(args).await?;
    }
    let _ = print_report(&compaction.place, &report, args)?;
    match signal.filter(|_| report.epochs().interrupted) {
        Some(signal) => Ok(exit_code(signal)),
        None => not_deleted(&report).map_or(Ok(0), Err),
    }
}

enum AnyCompactor {
    Election(Compactor),
    Group(GroupCompactor),
}

/// The report about one compaction of an election or of a group.
#[derive(Debug, Clone, Serialize)]
#[serde(untagged)]
enum RunReport {
    Election(Report),
    Group(GroupReport),
}

impl RunReport {
    /// Returns the report about the epochs of an election or about the assignments of a group.
    fn epochs(&self) -> &Report {
        match self {
            RunReport::Election(report) => report,
            RunReport::Group(report) => &report.assignments,
        }
    }

    /// Records in the report that a signal has interrupted the compaction.
    fn interrupted(mut self) -> RunReport {
        match &mut self {
            RunReport::Election(report) => report.interrupted = true,
            RunReport::Group(report) => report.assignments.interrupted = true,
        }
        self
    }
}

impl AnyCompactor {
    async fn run_until(
        &self,
        stop: impl Future<Output = ()>,
        progress: impl Fn(&RunReport) + Send + Sync,
    ) -> Result<RunReport, Error> {
        match self {
            AnyCompactor::Election(compactor) => {
                let told = |report: &Report| progress(&RunReport::Election(report.clone()));
                compactor.run_until(stop, told).await.map(RunReport::Election)
            }
            AnyCompactor::Group(compactor) => {
                let told = |report: &GroupReport| progress(&RunReport::Group(report.clone()));
                compactor.run_until(stop, told).await.map(RunReport::Group)
            }
        }
    }
}

impl Compaction {
    /// Fails if `--group` is given for an election, or is not given for a group.
    async fn refuse_the_other_kind(&self, args: &CompactArgs) -> Result<(), Failure> {
        let (store, prefix) = (&self.store, &*self.prefix);
        if args.group {
            return refuse_election_at(store, prefix, "tenure compact").await;
        }
        if args.store.urls()?.are_several() {
            return Ok(());
        }
        refuse_all_else(store, prefix, args.store.layout, "tenure compact --group").await
    }
}

/// Runs one compaction. The first signal stops it after the deletions in flight. The second signal
/// stops it immediately.
async fn run_once(
    compactor: &AnyCompactor,
    signals: &mut Signals,
) -> (Result<RunReport, Error>, Option<Signal>) {
    let progress = Progress::of("compacting");
    let so_far = Mutex::new(RunReport::Election(Report::default()));
    let stop = CancellationToken::new();
    let note = |report: &RunReport| {
        let Report { deleted, listed, .. } = report.epochs();
        progress.say(&format!("deleted {deleted} of {listed} epochs"));
        lock(&so_far).clone_from(report);
    };
    let mut run = pin!(compactor.run_until(stop.cancelled(), note));
    let mut ended_by = None;
    loop {
        tokio::select! {
            biased;
            outcome = &mut run => return (outcome, ended_by),
            signal = signals.next() => match ended_by {
                None => {
                    progress.note("stopping; a second signal stops immediately");
                    ended_by = Some(signal);
                    stop.cancel();
                }
                Some(_) => {
                    let report = lock(&so_far).clone().interrupted();
                    return (Ok(report), ended_by);
                }
            },
        }
    }
}

async fn again_and_again(
    compactions: &[Compaction],
    signals: &mut Signals,
    interval: Duration,
    args: &CompactArgs,
) -> Result<u8, Failure> {
    let mut have_run = vec![false; compactions.len()];
    loop {
        for (compaction, has_run) in compactions.iter().zip(&mut have_run) {
            let (outcome, signal) = run_once(&compaction.compactor, signals).await;
            *has_run |= outcome.is_ok();
            let reader = report_run(&compaction.place, outcome, *has_run, args)?;
            if reader == StdoutReader::HasLeft || signal.is_some() {
                return Ok(0);
            }
        }
        tokio::select! {
            biased;
            _ = signals.next() => return Ok(0),
            () = pause(interval) => {}
        }
    }
}

fn report_run(
    place: &str,
    outcome: Result<RunReport, Error>,
    has_worked: bool,
    args: &CompactArgs,
) -> Result<StdoutReader, Failure> {
    let report = match outcome {
        Ok(report) => report,
        Err(error) if !error.kind().ends_a_service(has_worked) => {
            complain(&format!("{error}; the next run tries again"));
            return Ok(StdoutReader::Listens);
        }
        Err(error) => return Err(error.into()),
    };
    let reader = print_report(place, &report, args)?;
    if let Some(failure) = not_deleted(&report) {
        complain_of(&failure);
    }
    Ok(reader)
}

/// Prints the report. The text begins with the URL, because `TENURE_STORE` may be the store of
/// another election: `tenure run` sets it for CMD.
fn print_report(
    place: &str,
    report: &RunReport,
    args: &CompactArgs,
) -> Result<StdoutReader, Failure> {
    if args.json {
        return print_json(report);
    }
    let used = Duration::from_millis(report.epochs().min_age_ms);
    let raised = match used > args.min_age {
        true => format!("; --min-age is raised to {}, the validity plus 1s", in_ms(used)),
        false => String::new(),
    };
    print(&plain(&format!("{place}: {report}{raised}")))
}

impl fmt::Display for RunReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RunReport::Election(report) => report.fmt(f),
            RunReport::Group(report) => report.fmt(f),
        }
    }
}

/// Returns a failure if the compaction could not delete all superseded objects.
fn not_deleted(report: &RunReport) -> Option<Failure> {
    let sessions = match report {
        RunReport::Election(_) => 0,
        RunReport::Group(report) => report.sessions.failed,
    };
    let report = report.epochs();
    let failed = match (report.failed, sessions) {
        (0, 0) => return None,
        (epochs, 0) => format!("{epochs} epochs"),
        (0, sessions) => format!("{sessions} sessions"),
        (epochs, sessions) => format!("{epochs} epochs and {sessions} sessions"),
    };
    let first = report.first_failure.as_deref().unwrap_or("the store gives no reason");
    let code = match report.first_failure_kind {
        Some(ErrorKind::AccessDenied) => exit::ACCESS_DENIED,
        _ => exit::UNAVAILABLE,
    };
    let why = format!("{failed} could not be deleted; the first failure: {first}");
    Some(Failure::new(code, why))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failed_deletion_fails_the_command() {
        let code = |failed, kind| {
            let mut epochs = Report::default();
            (epochs.failed, epochs.first_failure_kind) = (failed, kind);
            not_deleted(&RunReport::Election(epochs)).map(|failure| failure.code)
        };
        assert_eq!(code(0, None), None);
        assert_eq!(code(1, None), Some(69));
        assert_eq!(code(2, Some(ErrorKind::Unavailable)), Some(69));
        assert_eq!(code(2, Some(ErrorKind::AccessDenied)), Some(77));
    }
}
