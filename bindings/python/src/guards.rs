//! Guards that refuse the tokens of former leaders.

use std::sync::Arc;

use futures::StreamExt as _;
use pyo3::prelude::*;
use tenure::Compactor as Inner;
use tenure_fencing as fencing;
use tenure_fencing::{
    Contents, FencingError, GatePermit, LogEntry, LogWriter, ObjectWriter, Token,
};
use tokio::sync::Mutex;

use crate::errors::{Failure, invalid};
use crate::groups::Partition;
use crate::leadership::Leadership;
use crate::runtime::{locked, process};
use crate::settings::{epoch, seconds};
use crate::stores::{Body, Stores};
use crate::stream::Stream;
use crate::task::Task;

/// Returns the token of a leadership or a partition, or of a number.
fn token(holder: &Bound<'_, PyAny>) -> Result<Token, Failure> {
    if let Ok(leadership) = holder.cast::<Leadership>() {
        return Ok(leadership.get().token());
    }
    if let Ok(partition) = holder.cast::<Partition>() {
        return Ok(partition.get().fencing_token());
    }
    let number = holder.extract::<u64>();
    Ok(epoch(number.map_err(|_| invalid("a token is a leadership, a partition or a number"))?)?
        .into())
}

fn no_token() -> Failure {
    invalid("writing needs a token: give the leadership or its token at the creation")
}

fn contents(found: Contents) -> (u64, Option<Body>) {
    (found.epoch.get(), found.body.map(|body| Body(body.to_vec())))
}

fn entry(read: LogEntry) -> (u64, u64, Body) {
    (read.number, read.epoch.get(), Body(read.body.to_vec()))
}

/// A fenced object, and its writer after the first write.
#[pyclass(frozen)]
pub struct FencedObject {
    inner: fencing::FencedObject,
    token: Option<Token>,
    writer: Arc<Mutex<Option<ObjectWriter>>>,
}

#[pymethods]
impl FencedObject {
    #[new]
    fn new(stores: &Stores, holder: Option<&Bound<'_, PyAny>>) -> Result<FencedObject, Failure> {
        let inner = fencing::FencedObject::new(stores.one()?.clone(), &*stores.prefix);
        let token = holder.map(token).transpose()?;
        Ok(FencedObject { inner: inner.process(process()), token, writer: Arc::default() })
    }

    fn read(&self) -> Result<Task, Failure> {
        let inner = self.inner.clone();
        Task::start(async move |_| Ok(inner.read().await?.map(contents)))
    }

    /// Claims the object, and returns its body.
    fn open(&self) -> Result<Task, Failure> {
        let (inner, writer) = (self.inner.clone(), self.writer.clone());
        let token = self.token.clone().ok_or_else(no_token)?;
        Task::start(async move |_| {
            let mut writer = writer.lock().await;
            let opened = inner.open(token).await?;
            let body = opened.body().map(|body| Body(body.to_vec()));
            *writer = Some(opened);
            Ok(body)
        })
    }

    fn write(&self, body: &[u8]) -> Result<Task, Failure> {
        let (inner, writer, body) = (self.inner.clone(), self.writer.clone(), body.to_vec());
        let token = self.token.clone().ok_or_else(no_token)?;
        Task::start(async move |_| {
            let mut slot = writer.lock().await;
            let writer = match &mut *slot {
                Some(writer) => writer,
                None => slot.insert(inner.open(token).await?),
            };
            Ok(writer.write(body).await?)
        })
    }
}

/// A fenced log, and its writer after the first append.
#[pyclass(frozen)]
pub struct FencedLog {
    inner: fencing::FencedLog,
    token: Option<Token>,
    writer: Arc<Mutex<Option<LogWriter>>>,
}

/// Returns the writer of a log. The first call claims the log.
async fn opened<'a>(
    slot: &'a mut Option<LogWriter>,
    log: &fencing::FencedLog,
    token: Token,
) -> Result<&'a mut LogWriter, FencingError> {
    Ok(match slot {
        Some(writer) => writer,
        None => slot.insert(log.open(token).await?),
    })
}

#[pymethods]
impl FencedLog {
    #[new]
    fn new(stores: &Stores, holder: Option<&Bound<'_, PyAny>>) -> Result<FencedLog, Failure> {
        let inner = fencing::FencedLog::new(stores.one()?.clone(), &stores.prefix)?;
        let token = holder.map(token).transpose()?;
        Ok(FencedLog { inner: inner.process(process()), token, writer: Arc::default() })
    }

    /// Claims the log, and returns its newest entry.
    fn open(&self) -> Result<Task, Failure> {
        let (inner, slot) = (self.inner.clone(), self.writer.clone());
        let token = self.token.clone().ok_or_else(no_token)?;
        Task::start(async move |_| {
            let mut slot = slot.lock().await;
            Ok(opened(&mut slot, &inner, token).await?.latest().await?.map(entry))
        })
    }

    fn append(&self, body: &[u8]) -> Result<Task, Failure> {
        let (inner, slot, body) = (self.inner.clone(), self.writer.clone(), body.to_vec());
        let token = self.token.clone().ok_or_else(no_token)?;
        Task::start(async move |_| {
            let mut slot = slot.lock().await;
            Ok(opened(&mut slot, &inner, token).await?.append(body).await?)
        })
    }

    fn settle(&self) -> Result<Task, Failure> {
        let (inner, slot) = (self.inner.clone(), self.writer.clone());
        let token = self.token.clone().ok_or_else(no_token)?;
        Task::start(async move |_| {
            let mut slot = slot.lock().await;
            Ok(opened(&mut slot, &inner, token).await?.settle().await?)
        })
    }

    fn latest(&self) -> Result<Task, Failure> {
        let inner = self.inner.clone();
        Task::start(async move |_| Ok(inner.latest().await?.map(entry)))
    }

    fn read_from(&self, number: u64) -> Stream {
        Stream::new(self.inner.read_from(number).map(|read| Ok(entry(read?))))
    }

    fn oldest(&self) -> Result<Task, Failure> {
        let inner = self.inner.clone();
        Task::start(async move |_| Ok(inner.oldest().await?))
    }

    fn trim(&self, before: u64) -> Result<Task, Failure> {
        let inner = self.inner.clone();
        Task::start(async move |_| Ok(inner.trim(before).await?))
    }
}

/// A gate in the memory of a service.
#[pyclass(frozen)]
#[derive(Default)]
pub struct Gate(fencing::Gate);

#[pymethods]
impl Gate {
    #[new]
    fn new() -> Gate {
        Gate::default()
    }

    fn admit(&self, token: u64) -> Result<(), Failure> {
        Ok(self.0.admit(epoch(token)?)?)
    }

    /// Waits until all work under lower tokens has left.
    fn enter(&self, token: u64) -> Result<Task, Failure> {
        let (gate, token) = (self.0.clone(), epoch(token)?);
        Task::start(async move |_| {
            Ok(Permit(std::sync::Mutex::new(Some(gate.enter(token).await?))))
        })
    }

    #[getter]
    fn newest(&self) -> Option<u64> {
        self.0.newest().map(tenure::Epoch::get)
    }
}

/// A permit of a gate.
#[pyclass(frozen)]
pub struct Permit(std::sync::Mutex<Option<GatePermit>>);

#[pymethods]
impl Permit {
    fn leave(&self) {
        locked(&self.0).take();
    }
}

/// A gate that keeps its newest token in an object on a store.
#[pyclass(frozen)]
pub struct DurableGate(fencing::DurableGate);

#[pymethods]
impl DurableGate {
    #[new]
    fn new(stores: &Stores) -> Result<DurableGate, Failure> {
        let gate = fencing::DurableGate::new(stores.one()?.clone(), &*stores.prefix);
        Ok(DurableGate(gate.process(process())))
    }

    fn admit(&self, token: u64) -> Result<Task, Failure> {
        let (gate, token) = (self.0.clone(), epoch(token)?);
        Task::start(async move |_| Ok(gate.admit(token).await?))
    }

    fn newest(&self) -> Result<Task, Failure> {
        let gate = self.0.clone();
        Task::start(async move |_| Ok(gate.newest().await?.map(tenure::Epoch::get)))
    }
}

/// Deletes the superseded epochs of an election once. The result is the report as JSON.
#[pyfunction]
pub fn compact(
    stores: &Stores,
    keep_epochs: Option<usize>,
    min_age: Option<f64>,
    dry_run: bool,
) -> Result<Task, Failure> {
    let mut builder = Inner::builder(stores.one()?.clone(), &*stores.prefix).dry_run(dry_run);
    if let Some(kept) = keep_epochs {
        builder = builder.keep_epochs(kept);
    }
    if let Some(age) = min_age {
        builder = builder.min_age(seconds("min_age", age)?);
    }
    let compactor = builder.build()?;
    Task::start(async move |_| {
        let report = compactor.run_once().await?;
        serde_json::to_string(&report).map_err(|error| Failure::Panicked(error.to_string()))
    })
}
