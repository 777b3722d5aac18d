//! The stores of an election, and the clock of a test.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use pyo3::prelude::*;
use tenure::store::{CloudKind, GetOutcome, MemoryStore, Store, StorePlace, StoreUrl, printable};
use tenure::{Moment, Process};

use crate::claims::CountedStore;
use crate::errors::{Failure, invalid};
use crate::runtime::{Local, locked, process};
use crate::settings::seconds;
use crate::task::Task;

/// One store, or the 3 or 5 stores of an election across stores.
#[pyclass(frozen)]
pub struct Stores {
    stores: Local<Vec<Arc<dyn Store>>>,
    pub prefix: String,
}

impl Stores {
    fn new(stores: Vec<Arc<dyn Store>>, prefix: String) -> Stores {
        Stores { stores: Local::new(stores), prefix }
    }

    pub fn all(&self) -> Result<&Vec<Arc<dyn Store>>, Failure> {
        self.stores.get()
    }

    /// Returns the only store, for a call that works on one store.
    pub fn one(&self) -> Result<&Arc<dyn Store>, Failure> {
        match &self.all()?[..] {
            [store] => Ok(store),
            several => Err(invalid(format!(
                "store must be one URL, got {}: only an Election works across stores",
                several.len()
            ))),
        }
    }
}

#[pymethods]
impl Stores {
    /// Opens the stores of these URLs. Sends no request.
    #[staticmethod]
    fn open(urls: Vec<String>) -> Result<Task, Failure> {
        Task::start(async move |_| {
            let (mut stores, mut shared) = (Vec::<Arc<dyn Store>>::new(), String::new());
            for (index, text) in urls.iter().enumerate() {
                let hint = if text.contains("://") { "" } else { ", or a path from / or ./" };
                let url: StoreUrl = text
                    .parse()
                    .map_err(|why| invalid(format!("{}: {why}{hint}", printable(text))))?;
                let prefix = url.prefix().trim_end_matches('/');
                if index > 0 && prefix != shared {
                    let why = format!("the stores of one election have one prefix: {text} differs");
                    return Err(invalid(why));
                }
                if let StorePlace::In { service, .. } = url.place()
                    && service.kind == CloudKind::DynamoDb
                    && prefix.is_empty()
                {
                    let table = text.trim_end_matches('/');
                    return Err(invalid(format!("{text}: a table needs a prefix: {table}/PREFIX")));
                }
                shared = prefix.to_owned();
                stores.push(Arc::new(CountedStore(url.open().await?, Duration::ZERO)));
            }
            Ok(Stores::new(stores, shared))
        })
    }

    /// Creates an empty store in memory. A write takes effect at the end of `delay`, and a read
    /// returns the state at the start of `delay`.
    #[staticmethod]
    fn memory(clock: Option<&Clock>, delay: f64) -> Result<Stores, Failure> {
        let delay = seconds("delay", delay)?;
        let store = match clock {
            Some(clock) => MemoryStore::with_clock(Arc::new(clock.clone())),
            None => MemoryStore::new(),
        };
        Ok(Stores::new(vec![Arc::new(CountedStore(Arc::new(store), delay))], String::new()))
    }

    /// Returns the same stores with this prefix.
    fn at(&self, prefix: String) -> Result<Stores, Failure> {
        Ok(Stores::new(self.all()?.clone(), prefix))
    }

    #[getter]
    fn prefix(&self) -> &str {
        &self.prefix
    }

    /// Lists the keys of the first store.
    fn keys(&self) -> Result<Task, Failure> {
        let store = self.all()?[0].clone();
        Task::start(async move |_| {
            let mut keys: Vec<String> = Vec::new();
            loop {
                let after = keys.last().cloned().unwrap_or_default();
                let page = store.list("", &after, 1000).await?;
                keys.extend(page.entries.into_iter().map(|entry| entry.key));
                if !page.truncated {
                    return Ok(keys);
                }
            }
        })
    }

    /// Reads an object of the first store.
    fn read(&self, key: String) -> Result<Task, Failure> {
        let store = self.all()?[0].clone();
        Task::start(async move |_| match store.get(&key, None, usize::MAX).await? {
            GetOutcome::Found(object) => Ok(Some(Body(object.body.to_vec()))),
            _ => Ok(None),
        })
    }

    fn __repr__(&self) -> Result<String, Failure> {
        let slash = if self.prefix.is_empty() { "" } else { "/" };
        let place = |store: &Arc<dyn Store>| format!("{}{slash}{}", store.describe(), self.prefix);
        Ok(self.all()?.iter().map(place).collect::<Vec<_>>().join(" "))
    }
}

/// An object of type `bytes` in Python. A `Vec<u8>` would become a list.
pub struct Body(pub Vec<u8>);

impl<'py> IntoPyObject<'py> for Body {
    type Target = pyo3::types::PyBytes;
    type Output = Bound<'py, Self::Target>;
    type Error = std::convert::Infallible;

    fn into_pyobject(self, py: Python<'py>) -> Result<Self::Output, Self::Error> {
        Ok(pyo3::types::PyBytes::new(py, &self.0))
    }
}

/// The longest advance of a clock, 100 years. Python cannot read dates after the year 9999.
const FARTHEST: Duration = tenure_history::period::LONGEST;

/// The clocks of this machine, plus a duration that a test adds. Code that waits for a time notices
/// an advance within a second.
#[pyclass(frozen)]
#[derive(Debug, Clone, Default)]
pub struct Clock(Arc<Mutex<Duration>>);

impl Clock {
    /// Returns a `Process` with this clock, or with the clocks of the machine.
    pub fn process(clock: Option<&Clock>) -> Process {
        match clock {
            Some(clock) => process().with_clock(Arc::new(clock.clone())),
            None => process(),
        }
    }
}

impl tenure::Clock for Clock {
    fn now(&self) -> Moment {
        Process::system().now().plus(*locked(&self.0))
    }
}

#[pymethods]
impl Clock {
    #[new]
    fn new() -> Clock {
        Clock::default()
    }

    /// Adds the duration to each clock of this machine.
    fn advance(&self, seconds: f64) -> PyResult<()> {
        let by = Duration::try_from_secs_f64(seconds).ok();
        let mut ahead = locked(&self.0);
        let after = by.and_then(|by| ahead.checked_add(by)).filter(|after| *after <= FARTHEST);
        *ahead = after.ok_or_else(|| {
            let most = FARTHEST.as_secs();
            invalid(format!("duration must be 0 to {most} seconds in all, got {seconds}"))
        })?;
        Ok(())
    }
}
