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
use crate::runtime::{Local, locked, process};
use crate::settings::{epoch, seconds};
use crate::stores::{Body, Stores};
use crate::stream::Stream;
use crate::task::Task;

/// Returns the token of `holder`: a leadership, a partition, or the number of a token.
fn token(holder: &Bound<'_, PyAny>) -> Result<Token, Failure> {
    if let Ok(leadership) = holder.cast::<Leadership>() {
        return leadership.get().token();
    }
    if let Ok(partition) = holder.cast::<Partition>() {
        return partition.get().fencing_token();
    }
    let number = holder.extract::<u64>();
    Ok(epoch(number.map_err(|_| invalid("holder must be a Leadership, a Partition or a token"))?)?
        .into())
}

fn contents(found: Contents) -> (u64, Option<Body>) {
    (found.epoch.get(), found.body.map(|body| Body(body.to_vec())))
}

fn entry(read: LogEntry) -> (u64, u64, Body) {
    (read.number, read.epoch.get(), Body(read.body.to_vec()))
}

/// A guarded resource, the token of its holder, and the writer, which exists after the first write.
struct Guarded<R, W> {
    inner: R,
    token: Option<Token>,
    writer: Arc<Mutex<Option<W>>>,
}

impl<R, W> Guarded<R, W> {
    fn new(inner: R, token: Option<Token>) -> Local<Guarded<R, W>> {
        Local::new(Guarded { inner, token, writer: Arc::default() })
    }

    fn token(&self) -> Result<Token, Failure> {
        self.token.clone().ok_or_else(|| {
            invalid("a write needs `holder`: give a Leadership, a Partition or a token")
        })
    }
}

/// A fenced object, and its writer, which exists after the first write.
#[pyclass(frozen)]
pub struct FencedObject(Local<Guarded<fencing::FencedObject, ObjectWriter>>);

#[pymethods]
impl FencedObject {
    #[new]
    fn new(stores: &Stores, holder: Option<&Bound<'_, PyAny>>) -> Result<FencedObject, Failure> {
        let inner = fencing::FencedObject::new(stores.one()?.clone(), &*stores.prefix);
        let token = holder.map(token).transpose()?;
        Ok(FencedObject(Guarded::new(inner.process(process()), token)))
    }

    fn read(&self) -> Result<Task, Failure> {
        let inner = self.0.get()?.inner.clone();
        Task::start(async move |_| Ok(inner.read().await?.map(contents)))
    }

    /// Claims the object, and returns its body.
    fn open(&self) -> Result<Task, Failure> {
        let this = self.0.get()?;
        let (inner, writer) = (this.inner.clone(), this.writer.clone());
        let token = this.token()?;
        Task::start(async move |_| {
            let mut writer = writer.lock().await;
            let opened = inner.open(token).await?;
            let body = opened.body().map(|body| Body(body.to_vec()));
            *writer = Some(opened);
            Ok(body)
        })
    }

    fn write(&self, body: &[u8]) -> Result<Task, Failure> {
        let this = self.0.get()?;
        let (inner, writer, body) = (this.inner.clone(), this.writer.clone(), body.to_vec());
        let token = this.token()?;
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

/// A fenced log, and its writer, which exists after the first append.
#[pyclass(frozen)]
pub struct FencedLog(Local<Guarded<fencing::FencedLog, LogWriter>>);

/// Returns the writer of a log. If no writer exists, claims the log.
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
        Ok(FencedLog(Guarded::new(inner.process(process()), token)))
    }

    /// Claims the log, and returns its newest entry.
    fn open(&self) -> Result<Task, Failure> {
        let this = self.0.get()?;
        let (inner, slot) = (this.inner.clone(), this.writer.clone());
        let token = this.token()?;
        Task::start(async move |_| {
            let mut slot = slot.lock().await;
            Ok(opened(&mut slot, &inner, token).await?.latest().await?.map(entry))
        })
    }

    fn append(&self, body: &[u8]) -> Result<Task, Failure> {
        let this = self.0.get()?;
        let (inner, slot, body) = (this.inner.clone(), this.writer.clone(), body.to_vec());
        let token = this.token()?;
        Task::start(async move |_| {
            let mut slot = slot.lock().await;
            Ok(opened(&mut slot, &inner, token).await?.append(body).await?)
        })
    }

    fn settle(&self) -> Result<Task, Failure> {
        let this = self.0.get()?;
        let (inner, slot) = (this.inner.clone(), this.writer.clone());
        let token = this.token()?;
        Task::start(async move |_| {
            let mut slot = slot.lock().await;
            Ok(opened(&mut slot, &inner, token).await?.settle().await?)
        })
    }

    fn latest(&self) -> Result<Task, Failure> {
        let inner = self.0.get()?.inner.clone();
        Task::start(async move |_| Ok(inner.latest().await?.map(entry)))
    }

    fn read_from(&self, number: u64) -> Result<Stream, Failure> {
        let entries = self.0.get()?.inner.read_from(number);
        Ok(Stream::new(entries.map(|read| Ok(entry(read?)))))
    }

    fn oldest(&self) -> Result<Task, Failure> {
        let inner = self.0.get()?.inner.clone();
        Task::start(async move |_| Ok(inner.oldest().await?))
    }

    fn trim(&self, before: u64) -> Result<Task, Failure> {
        let inner = self.0.get()?.inner.clone();
        Task::start(async move |_| Ok(inner.trim(before).await?))
    }
}

/// A gate in the memory of a service.
#[pyclass(frozen)]
pub struct Gate(Local<fencing::Gate>);

#[pymethods]
impl Gate {
    #[new]
    fn new() -> Gate {
        Gate(Local::new(fencing::Gate::default()))
    }

    fn admit(&self, token: u64) -> Result<(), Failure> {
        Ok(self.0.get()?.admit(epoch(token)?)?)
    }

    /// Waits until all work under lower tokens has ended.
    fn enter(&self, token: u64) -> Result<Task, Failure> {
        let (gate, token) = (self.0.get()?.clone(), epoch(token)?);
        Task::start(async move |_| {
            let permit = gate.enter(token).await?;
            Ok(Permit(Local::new(std::sync::Mutex::new(Some(permit)))))
        })
    }

    #[getter]
    fn newest(&self) -> Result<Option<u64>, Failure> {
        Ok(self.0.get()?.newest().map(tenure::Epoch::get))
    }
}

/// The permit of one piece of work, from `Gate::enter`.
#[pyclass(frozen)]
pub struct Permit(Local<std::sync::Mutex<Option<GatePermit>>>);

#[pymethods]
impl Permit {
    fn leave(&self) -> Result<(), Failure> {
        locked(self.0.get()?).take();
        Ok(())
    }
}

/// A gate that keeps its greatest token in an object on a store.
#[pyclass(frozen)]
pub struct DurableGate(Local<fencing::DurableGate>);

#[pymethods]
impl DurableGate {
    #[new]
    fn new(stores: &Stores) -> Result<DurableGate, Failure> {
        let gate = fencing::DurableGate::new(stores.one()?.clone(), &*stores.prefix);
        Ok(DurableGate(Local::new(gate.process(process()))))
    }

    fn admit(&self, token: u64) -> Result<Task, Failure> {
        let (gate, token) = (self.0.get()?.clone(), epoch(token)?);
        Task::start(async move |_| Ok(gate.admit(token).await?))
    }

    fn newest(&self) -> Result<Task, Failure> {
        let gate = self.0.get()?.clone();
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
