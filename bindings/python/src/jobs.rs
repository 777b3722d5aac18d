//! Jobs that run once per period, as `tenure run --once-per` runs them.

use std::sync::Arc;
use std::time::Duration;

use pyo3::prelude::*;
use serde::Deserialize;
use tenure::store::{GetOutcome, Store};
use tenure::{ErrorKind, Process};
use tenure_fencing::{FencedObject, ObjectWriter};
use tenure_history::period::record::{BadRecord, MOST_LEN, PeriodRecord};
use tenure_history::period::{Decision, LONGEST, Period, PeriodRules, SHORTEST, SkipReason};
use tenure_history::period::{date, shown};
use tokio::sync::Mutex;

use crate::errors::{Failure, invalid};
use crate::leadership::Leadership;
use crate::runtime::{Local, pause};
use crate::settings::seconds;
use crate::stores::{Clock, Stores};
use crate::task::Task;

/// The key of the period record, under the prefix of the election.
const KEY: &str = "once-per.json";
/// Maximum time for the check of the store's clock.
const CLOCK_WITHIN: Duration = Duration::from_secs(10);

/// The rules of a job, and the period in which it was started.
#[pyclass(frozen)]
pub struct Job {
    rules: PeriodRules,
    period: Period,
    place: Local<Place>,
    candidate: String,
}

/// The store and the key of the period record, and the clock that decides the period.
#[derive(Clone)]
struct Place {
    store: Arc<dyn Store>,
    key: String,
    process: Process,
    is_test: bool,
}

/// The rules of a job as Python gives them, with durations in seconds.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Rules {
    period: f64,
    offset: f64,
    tolerance: Option<f64>,
    retries: u32,
    clock_ahead_max: f64,
}

impl Place {
    fn new(stores: &Stores, clock: Option<&Clock>) -> Result<Place, Failure> {
        let prefix = stores.prefix.trim_end_matches('/');
        let key = if prefix.is_empty() { KEY.to_owned() } else { format!("{prefix}/{KEY}") };
        let (process, is_test) = (Clock::process(clock), clock.is_some());
        Ok(Place { store: stores.one()?.clone(), key, process, is_test })
    }

    fn object(&self) -> FencedObject {
        FencedObject::new(self.store.clone(), &*self.key).process(self.process.clone())
    }

    fn wall(&self) -> Duration {
        self.process.now().wall
    }

    async fn read(&self) -> Result<Option<PeriodRecord>, Failure> {
        let contents = self.object().read().await?;
        self.parse(contents.and_then(|contents| contents.body).as_deref())
    }

    fn parse(&self, body: Option<&[u8]>) -> Result<Option<PeriodRecord>, Failure> {
        body.map(PeriodRecord::parse).transpose().map_err(|bad| {
            let (kind, why) = match bad {
                BadRecord::Corrupt => (ErrorKind::CorruptRecord, "is not the record of a job"),
                BadRecord::TooNew(_) => (ErrorKind::RecordTooNew, "has a later format"),
            };
            tenure::Error::new(kind, format!("{} {why}", self.key)).into()
        })
    }
}

/// Returns the word for the reason in the attribute `skipped`.
fn word(why: SkipReason) -> &'static str {
    match why {
        SkipReason::Completed => "completed",
        SkipReason::Past => "past",
        SkipReason::Failed => "failed",
        SkipReason::TooLate => "too_late",
        SkipReason::InTheFuture => "in_the_future",
        SkipReason::NotBegun => "not_begun",
    }
}

#[pymethods]
impl Job {
    #[new]
    fn new(
        stores: &Stores,
        rules: &str,
        candidate: String,
        clock: Option<&Clock>,
    ) -> Result<Job, Failure> {
        let given: Rules =
            serde_json::from_str(rules).map_err(|error| invalid(error.to_string()))?;
        let in_ms = |name, value| {
            let exact = seconds(name, value)?;
            Ok::<_, Failure>(Duration::from_millis(
                u64::try_from(exact.as_millis()).unwrap_or(u64::MAX),
            ))
        };
        let rules = PeriodRules {
            period: in_ms("period", given.period)?,
            offset: in_ms("offset", given.offset)?,
            tolerance: given.tolerance.map(|it| in_ms("tolerance", it)).transpose()?,
            retries: given.retries,
            clock_ahead_max: in_ms("clock_ahead_max", given.clock_ahead_max)?,
        };
        let (least, most) = (SHORTEST.as_secs_f64(), LONGEST.as_secs_f64());
        let (length, offset) = (rules.period.as_secs_f64(), rules.offset.as_secs_f64());
        if !(least..=most).contains(&length) {
            let why = format!("period must be {least} to {most} seconds, got {length}");
            return Err(invalid(why));
        }
        if offset >= length {
            let why = format!("offset must be 0 or more, and below the period of {length} seconds");
            return Err(invalid(format!("{why}, got {offset}")));
        }
        let place = Place::new(stores, clock)?;
        let period = rules.period_at(place.wall());
        Ok(Job { rules, period, place: Local::new(place), candidate })
    }

    /// Returns the reason if no campaign is necessary because the period is skipped, or `None`.
    fn skips(&self) -> Result<Task, Failure> {
        let (rules, period, place) = (self.rules, self.period, self.place.get()?.clone());
        Task::start(async move |_| {
            let record = place.read().await?;
            Ok(match rules.decide(record.as_ref(), period, place.wall()) {
                // Another host may still run the attempt. Only a leader can decide whether that
                // host is dead.
                Decision::Skip(_) if record.is_some_and(|record| record.exit_code.is_none()) => {
                    None
                }
                Decision::Skip(why) => Some(word(why)),
                Decision::Run { .. } => None,
            })
        })
    }

    /// Records an attempt with the token of the leadership, and returns it. If the period is
    /// skipped, returns the reason instead.
    fn take(&self, leadership: &Leadership) -> Result<Task, Failure> {
        let (rules, period, place) = (self.rules, self.period, self.place.get()?.clone());
        let (token, epoch) = (leadership.token()?, leadership.number()?);
        let candidate = self.candidate.clone();
        Task::start(async move |_| {
            let mut writer = place.object().open(token).await?;
            let before = place.parse(writer.body().map(AsRef::as_ref))?;
            let attempt = match rules.decide(before.as_ref(), period, place.wall()) {
                Decision::Run { attempt } => attempt,
                Decision::Skip(why) => return Ok((None, Some(word(why)))),
            };
            if !place.is_test {
                check_clock(&place, &rules, period).await?;
            }
            let who = (&*candidate, epoch);
            let record = PeriodRecord::begin(before.as_ref(), period, attempt, who, place.wall());
            writer.write(record.to_json()).await?;
            let attempt = Local::new(Arc::new(Mutex::new((writer, record))));
            Ok((Some(Attempt(attempt, place.process)), None))
        })
    }
}

/// Refuses to run a job if this host's clock is too far ahead of the store's clock.
async fn check_clock(place: &Place, rules: &PeriodRules, period: Period) -> Result<(), Failure> {
    let before = place.wall();
    let read = place.store.get(&place.key, None, MOST_LEN + 1_024);
    let served_at = tokio::select! {
        biased;
        got = read => match got {
            Ok(GetOutcome::Found(object)) => object.served_at,
            _ => None,
        },
        () = pause(CLOCK_WITHIN) => None,
    };
    match served_at {
        Some(at) if rules.is_ahead(before.max(period.start), at) => Err(invalid(format!(
            "this host's clock is ahead of the store's clock, which shows {}, so it may be too \
             early for the period of {}: set the clock",
            shown(at),
            shown(date(period.start))
        ))),
        _ => Ok(()),
    }
}

/// A recorded attempt, and the process whose clock dates its end.
#[pyclass(frozen)]
pub struct Attempt(Local<Arc<Mutex<(ObjectWriter, PeriodRecord)>>>, Process);

#[pymethods]
impl Attempt {
    /// Records the end of the attempt.
    fn end(&self, exit_code: u8) -> Result<Task, Failure> {
        let (attempt, process) = (self.0.get()?.clone(), self.1.clone());
        Task::start(async move |_| {
            let (writer, record) = &mut *attempt.lock().await;
            *record = record.clone().ended(exit_code, process.now().wall);
            Ok(writer.write(record.to_json()).await?)
        })
    }
}

/// Reads the record of the newest period of a job, as JSON.
#[pyfunction]
pub fn last_period(stores: &Stores) -> Result<Task, Failure> {
    let place = Place::new(stores, None)?;
    Task::start(async move |_| {
        let record = place.read().await?;
        Ok(record.map(|record| String::from_utf8_lossy(&record.to_json()).into_owned()))
    })
}
