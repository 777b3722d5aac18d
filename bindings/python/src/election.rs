//! An election.

use std::time::Duration;

use futures::StreamExt as _;
use pyo3::prelude::*;
use serde::Deserialize;
use serde_json::Value;
use tenure::{CampaignOutcome, Election as Inner, ElectionBuilder, Epoch, Layout};

use crate::campaign::campaign;
use crate::errors::{Failure, invalid};
use crate::leadership::{Leadership, Liveness};
use crate::outcomes;
use crate::runtime::{Counted, Local};
use crate::settings::{epoch, given, seconds, set};
use crate::stores::{Clock, Stores};
use crate::stream::Stream;
use crate::task::Task;

/// An election, and the settings of this candidate.
#[pyclass(frozen)]
pub struct Election {
    inner: Local<Inner>,
    is_across: bool,
    validity: Duration,
    liveness: Option<Liveness>,
}

/// The settings of a candidate. Durations are in seconds. A missing setting has its default.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Settings {
    name: Option<String>,
    reason: Option<String>,
    data: Option<Value>,
    layout: Option<String>,
    validity: Option<f64>,
    renew_interval: Option<f64>,
    /// `None` if the setting is missing, and `Some(None)` for `poll_interval(None)`.
    #[serde(deserialize_with = "given")]
    poll_interval: Option<Option<f64>>,
    poll_backoff: Option<f64>,
    request_timeout: Option<f64>,
    clock_drift_max: Option<f64>,
    store_clock_margin: Option<f64>,
    takeover_delay: Option<f64>,
    priority_delay: Option<f64>,
    #[serde(deserialize_with = "given")]
    retry_denied: Option<Option<f64>>,
    verify_renewals: Option<bool>,
    check_store: Option<bool>,
    name_is_unique: Option<bool>,
    machine_is_never_paused: Option<bool>,
    liveness: Option<f64>,
    /// True if tenure asks a callable of the program whether it is alive.
    asks: bool,
}

impl Settings {
    fn apply(self, mut builder: ElectionBuilder) -> Result<ElectionBuilder, Failure> {
        set!(builder, self, name, reason, data, clock_drift_max, verify_renewals, check_store);
        set!(builder, self, name_is_unique, machine_is_never_paused);
        set!(seconds builder, self, validity, renew_interval, poll_backoff, request_timeout);
        set!(seconds builder, self, store_clock_margin, takeover_delay, priority_delay);
        let optional = |name, value: Option<f64>| value.map(|it| seconds(name, it)).transpose();
        if let Some(interval) = self.poll_interval {
            builder = builder.poll_interval(optional("poll_interval", interval)?);
        }
        if let Some(during) = self.retry_denied {
            builder = builder.retry_denied(optional("retry_denied", during)?);
        }
        Ok(match self.layout.as_deref() {
            None | Some("epoch-files") => builder,
            Some("single-object") => builder.layout(Layout::SingleObject),
            Some(other) => {
                let why = format!("layout must be epoch-files or single-object, got {other}");
                return Err(invalid(why));
            }
        })
    }
}

#[pymethods]
impl Election {
    #[new]
    fn new(stores: &Stores, settings: &str, clock: Option<&Clock>) -> Result<Election, Failure> {
        let settings: Settings =
            serde_json::from_str(settings).map_err(|error| invalid(error.to_string()))?;
        let (validity, by_calls) = (settings.validity.unwrap_or(30.0), !settings.asks);
        let limit = settings.liveness.map(|it| seconds("liveness", it)).transpose()?;
        if limit.is_some_and(|limit| limit.is_zero()) {
            return Err(invalid("liveness must be above 0".to_owned()));
        }
        let liveness = limit.map(|limit| Liveness { limit, by_calls });
        let builder = match &stores.all()?[..] {
            [store] => Inner::builder(store.clone(), &*stores.prefix),
            several => Inner::across(several.iter().cloned(), &*stores.prefix),
        };
        let builder = builder.process(Clock::process(clock)).resign_on_drop(true);
        let inner = settings.apply(builder)?.build()?;
        Ok(Election {
            inner: Local::new(inner),
            is_across: stores.all()?.len() > 1,
            validity: seconds("validity", validity)?,
            liveness,
        })
    }

    #[getter]
    fn name(&self) -> Result<&str, Failure> {
        Ok(self.inner.get()?.name())
    }

    fn campaign(&self) -> Result<Task, Failure> {
        let (inner, validity, liveness) = (self.inner.get()?.clone(), self.validity, self.liveness);
        Task::start(async move |cancel| {
            let leadership = campaign(inner, validity, cancel).await?;
            Ok(Leadership::new(leadership, liveness))
        })
    }

    fn try_campaign(&self) -> Result<Task, Failure> {
        let (inner, liveness) = (self.inner.get()?.clone(), self.liveness);
        Task::start(async move |_| {
            let _counted = Counted::start();
            Ok(match inner.try_campaign().await? {
                CampaignOutcome::Elected(leadership) => Some(Leadership::new(leadership, liveness)),
                _ => None,
            })
        })
    }

    fn snapshot(&self) -> Result<Task, Failure> {
        let inner = self.inner.get()?.clone();
        Task::start(async move |_| Ok(outcomes::snapshot(&inner.snapshot().await?).to_string()))
    }

    fn newest_epoch(&self) -> Result<Task, Failure> {
        let inner = self.inner.get()?.clone();
        Task::start(async move |_| Ok(inner.newest_epoch().await?.map(Epoch::get)))
    }

    fn depose(&self, only: Option<u64>, dead: bool) -> Result<Task, Failure> {
        let (inner, only) = (self.inner.get()?.clone(), only.map(epoch).transpose()?);
        Task::start(async move |_| {
            let outcome =
                if dead { inner.depose_dead(only).await? } else { inner.depose(only).await? };
            Ok(outcomes::deposed(&outcome).to_string())
        })
    }

    fn restore(&self, floor: u64, wait: f64) -> Result<Task, Failure> {
        let (inner, floor, wait) =
            (self.inner.get()?.clone(), epoch(floor)?, seconds("wait", wait)?);
        Task::start(async move |_| {
            Ok(outcomes::restored(&inner.restore(floor, wait).await?).to_string())
        })
    }

    /// Creates the markers of an election across stores.
    fn init_stores(&self, above: Option<u64>, wait: f64) -> Result<Task, Failure> {
        let (inner, above) = (self.inner.get()?.clone(), above.map(epoch).transpose()?);
        let wait = seconds("wait_for", wait)?;
        if !self.is_across {
            return Err(invalid("init_stores is for a store of 3 or 5 URLs, got one URL"));
        }
        Task::start(async move |_| match above {
            Some(above) => Ok(inner.init_stores_above(above, wait).await?),
            None => Ok(inner.init_stores().await?),
        })
    }

    fn observe(&self) -> Result<Stream, Failure> {
        let observed = self.inner.get()?.observe();
        Ok(Stream::new(observed.map(|seen| Ok(outcomes::observation(&seen?).to_string()))))
    }

    fn events(&self) -> Result<Stream, Failure> {
        let events = self.inner.get()?.events();
        Ok(Stream::new(events.map(|event| Ok(outcomes::campaign_event(&event).to_string()))))
    }

    fn refresh(&self) -> Result<(), Failure> {
        self.inner.get()?.refresh();
        Ok(())
    }

    /// Returns the leader that this election last read, if its lease has not lapsed.
    fn last_seen(&self) -> Result<Option<String>, Failure> {
        let seen = self.inner.get()?.last_seen().filter(tenure::LastSeen::is_held);
        Ok(seen.map(|seen| outcomes::leader(&seen.leader).to_string()))
    }

    fn since_last_answer(&self) -> Result<Option<f64>, Failure> {
        Ok(self.inner.get()?.since_last_answer().map(|it| it.as_secs_f64()))
    }
}
