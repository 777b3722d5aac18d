//! The stores of an election, and the clock of a test.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use pyo3::prelude::*;
use tenure::store::{CloudKind, GetOutcome, MemoryStore, Store, StorePlace, StoreUrl};
use tenure::{Moment, Process};

use crate::claims::CountedStore;
use crate::errors::{Failure, invalid};
use crate::runtime::{locked, process};
use crate::task::Task;

/// One store, or the 3 or 5 stores of an election across stores.
#[pyclass(frozen)]
#[derive(Clone)]
pub struct Stores {
    pub stores: Vec<Arc<dyn Store>>,
    pub prefix: String,
}

impl Stores {
    /// Returns the only store, for a call that works on one store.
    pub fn one(&self) -> Result<&Arc<dyn Store>, Failure> {
        match &self.stores[..] {
            [store] => Ok(store),
            _ => Err(invalid("this call works on one store: give one URL")),
        }
    }
}

#[pymethods]
impl Stores {
    /// Opens the stores of these URLs. Sends no request.
    #[staticmethod]
    fn open(urls: Vec<String>) -> Result<Task, Failure> {
        Task::start(async move |_| {
            let mut opened = Stores { stores: Vec::new(), prefix: String::new() };
            for (index, text) in urls.iter().enumerate() {
                let url: StoreUrl =
                    text.parse().map_err(|why| invalid(format!("{text}: {why}")))?;
                let prefix = url.prefix().trim_end_matches('/');
                if index > 0 && prefix != opened.prefix {
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
                opened.prefix = prefix.to_owned();
                opened.stores.push(Arc::new(CountedStore(url.open().await?)));
            }
            Ok(opened)
        })
    }

    /// Creates an empty store in memory.
    #[staticmethod]
    fn memory(clock: Option<&Clock>) -> Stores {
        let store = match clock {
            Some(clock) => MemoryStore::with_clock(Arc::new(clock.clone())),
            None => MemoryStore::new(),
        };
        Stores { stores: vec![Arc::new(CountedStore(Arc::new(store)))], prefix: String::new() }
    }

    /// Returns the same stores with another prefix.
    fn at(&self, prefix: String) -> Stores {
        Stores { stores: self.stores.clone(), prefix }
    }

    #[getter]
    fn prefix(&self) -> &str {
        &self.prefix
    }

    /// Lists the keys of the first store.
    fn keys(&self) -> Result<Task, Failure> {
        let store = self.stores[0].clone();
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
        let store = self.stores[0].clone();
        Task::start(async move |_| match store.get(&key, None, usize::MAX).await? {
            GetOutcome::Found(object) => Ok(Some(Body(object.body.to_vec()))),
            _ => Ok(None),
        })
    }

    fn __repr__(&self) -> String {
        let names: Vec<String> = self.stores.iter().map(|store| store.describe()).collect();
        format!("{} {}", names.join(" "), self.prefix)
    }
}

/// Bytes for Python. A plain vector would become a list.
pub struct Body(pub Vec<u8>);

impl<'py> IntoPyObject<'py> for Body {
    type Target = pyo3::types::PyBytes;
    type Output = Bound<'py, Self::Target>;
    type Error = std::convert::Infallible;

    fn into_pyobject(self, py: Python<'py>) -> Result<Self::Output, Self::Error> {
        Ok(pyo3::types::PyBytes::new(py, &self.0))
    }
}

/// The clocks of this machine, plus a duration that a test adds. Waits notice an advance within a
/// second.
#[pyclass(frozen)]
#[derive(Debug, Clone, Default)]
pub struct Clock(Arc<Mutex<Duration>>);

impl Clock {
    /// Returns the process of a machine with this clock.
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

    /// Moves all clocks forward.
    fn advance(&self, seconds: f64) -> PyResult<()> {
        let by = Duration::try_from_secs_f64(seconds)
            .map_err(|_| invalid(format!("a clock moves forward, not by {seconds} s")))?;
        *locked(&self.0) += by;
        Ok(())
    }
}
