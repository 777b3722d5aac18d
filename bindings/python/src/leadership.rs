//! A leadership: the token, the lease, and its end.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use futures::stream::{self, StreamExt as _};
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use tenure::internals::check_name;
use tenure::{Error, ErrorKind, Leadership as Inner, LeadershipEvent, Lease, Process};
use tenure_fencing::Token;
use tokio::sync::RwLock;

use crate::errors::Failure;
use crate::outcomes::{leadership_event, parsed};
use crate::runtime::{Local, background, pause, remember};
use crate::stream::Stream;
use crate::task::Task;

/// A leadership of this process.
#[pyclass(frozen)]
pub struct Leadership(Local<Arc<Lead>>);

/// The rule for a hung program.
#[derive(Debug, Clone, Copy)]
pub struct Liveness {
    /// Maximum time without a sign of life.
    pub limit: Duration,
    /// True if `check` and `leading` are signs of life. Otherwise a callable of the program states
    /// whether the program is alive.
    pub by_calls: bool,
}

/// The state of a leadership. When the last reference is dropped, the leadership resigns in the
/// background.
pub struct Lead {
    lease: Lease,
    /// `None` once the leadership resigned.
    inner: RwLock<Option<Inner>>,
    liveness: Option<Liveness>,
    /// Time of the last sign of life, in milliseconds of the boot clock.
    alive_at: AtomicU64,
    /// Why the program counts as hung, once that made the leadership resign.
    hung: OnceLock<String>,
    /// True once the program has started a resignation, also by the end of a `with` block.
    has_resigned: AtomicBool,
}

impl Leadership {
    pub fn token(&self) -> Result<Token, Failure> {
        Ok(Token::from(&self.0.get()?.lease))
    }

    pub fn number(&self) -> Result<u64, Failure> {
        Ok(self.0.get()?.lease.epoch().get())
    }

    pub fn new(inner: Inner, liveness: Option<Liveness>) -> Leadership {
        let lead = Arc::new(Lead {
            lease: inner.lease(),
            inner: RwLock::new(Some(inner)),
            liveness,
            alive_at: AtomicU64::new(now()),
            hung: OnceLock::new(),
            has_resigned: AtomicBool::new(false),
        });
        remember(&lead);
        if let Some(Liveness { limit, .. }) = liveness {
            background(watch(Arc::downgrade(&lead), limit));
        }
        Leadership(Local::new(lead))
    }
}

fn now() -> u64 {
    u64::try_from(Process::system().now().boot.as_millis()).unwrap_or(u64::MAX)
}

/// Resigns once the program has shown no sign of life for `limit`.
async fn watch(lead: Weak<Lead>, limit: Duration) {
    loop {
        let Some(lead) = lead.upgrade().filter(|it| it.lease.check().is_ok()) else { return };
        let silent =
            Duration::from_millis(now().saturating_sub(lead.alive_at.load(Ordering::Relaxed)));
        let Some(left) = limit.checked_sub(silent).filter(|left| !left.is_zero()) else {
            let limit = limit.as_secs_f64();
            let why = format!("the program gave no sign of life for {limit} s, so it resigned");
            return lead.resign_hung(why).await;
        };
        drop(lead);
        // The pauses are short, so that this task ends soon after the leadership.
        pause(left.min(Duration::from_millis(200))).await;
    }
}

impl Lead {
    fn check(&self) -> Result<u64, Failure> {
        match self.lease.check() {
            Ok(epoch) => Ok(epoch.get()),
            Err(loss) => Err(match self.hung.get() {
                Some(why) => {
                    let why = why.clone();
                    Failure::Lost { reason: "hung", why, may_have_happened: false }
                }
                None => loss.into(),
            }),
        }
    }

    /// If a call failed because the leadership was lost, returns an error with the reason of the
    /// loss.
    fn explained(&self, error: Error) -> Failure {
        match self.check() {
            Err(Failure::Lost { reason, why, .. }) if error.kind() == ErrorKind::LeadershipLost => {
                Failure::Lost { reason, why, may_have_happened: error.may_have_happened() }
            }
            _ => error.into(),
        }
    }

    fn alive(&self) {
        self.alive_at.store(now(), Ordering::Relaxed);
    }

    /// Counts a call of the program as a sign of life.
    fn called(&self) {
        if self.liveness.is_some_and(|liveness| liveness.by_calls) {
            self.alive();
        }
    }

    /// Resigns, unless the leadership has ended.
    pub async fn resign(&self, successor: Option<String>) -> Result<(), Failure> {
        self.check()?;
        let Some(inner) = self.inner.write().await.take() else {
            return self.check().map(drop);
        };
        let resigned = match successor {
            Some(successor) => inner.resign_to(successor).await,
            None => inner.resign().await,
        };
        resigned.map_err(|error| self.explained(error))
    }

    async fn resign_hung(&self, why: String) {
        tracing::error!(epoch = self.lease.epoch().get(), outcome = "hung", "{why}");
        let _ = self.hung.set(why);
        if let Err(Failure::Error(error)) = self.resign(None).await {
            tracing::warn!(%error, "could not resign; the lease lapses");
        }
    }
}

/// The base class of Python's `Leadership`. These methods are native, because a method in Python
/// can raise `KeyboardInterrupt` before its first statement.
#[pyclass(frozen, subclass)]
pub struct Block;

#[pymethods]
impl Block {
    #[new]
    #[pyo3(signature = (*_arguments))]
    fn new(_arguments: &Bound<'_, PyTuple>) -> Block {
        Block
    }

    fn __enter__<'py>(this: &Bound<'py, Block>) -> Bound<'py, Block> {
        this.clone()
    }

    /// Starts the resignation, and waits for its end.
    fn __exit__<'py>(
        this: &Bound<'py, Block>,
        _kind: &Bound<'py, PyAny>,
        error: &Bound<'py, PyAny>,
        _trace: &Bound<'py, PyAny>,
    ) -> PyResult<()> {
        let inner = this.getattr("_inner")?;
        let inner = inner.cast::<Leadership>()?.get();
        if inner.has_resigned() {
            return Ok(());
        }
        let task = match inner.resign(None) {
            // An exception of the body has precedence over the error that the process was forked.
            Err(Failure::Forked) if !error.is_none() => return Ok(()),
            task => task?,
        };
        this.call_method1("_wait_resigned", (task, error)).map(drop)
    }
}

#[pymethods]
impl Leadership {
    #[getter]
    fn epoch(&self) -> Result<u64, Failure> {
        self.number()
    }

    #[getter]
    fn name(&self) -> Result<&str, Failure> {
        Ok(self.0.get()?.lease.candidate())
    }

    /// Returns the token, or raises `LeadershipLost`. The call is a sign of life.
    fn check(&self) -> Result<u64, Failure> {
        let lead = self.0.get()?;
        lead.called();
        lead.check()
    }

    /// Returns whether this process leads. The call is a sign of life.
    #[getter]
    fn leading(&self) -> Result<bool, Failure> {
        let lead = self.0.get()?;
        lead.called();
        Ok(lead.lease.check().is_ok())
    }

    #[getter]
    fn remaining(&self) -> Result<f64, Failure> {
        Ok(self.0.get()?.lease.remaining().as_secs_f64())
    }

    /// Shows that the program is alive.
    fn alive(&self) -> Result<(), Failure> {
        self.0.get()?.alive();
        Ok(())
    }

    /// Resigns because the program hangs.
    fn hung(&self, why: String) -> Result<Task, Failure> {
        let lead = self.0.get()?.clone();
        Task::start(async move |_| {
            lead.resign_hung(why).await;
            Ok(())
        })
    }

    /// Waits for the end of the leadership. The result is the reason and its description.
    fn lost(&self) -> Result<Task, Failure> {
        // A strong reference in this task would prevent the resignation of an unreferenced
        // leadership.
        let (lease, lead) = (self.0.get()?.lease.clone(), Arc::downgrade(self.0.get()?));
        Task::start(async move |cancel| {
            use tenure::Term as _;
            let loss = tokio::select! {
                biased;
                loss = lease.lost() => loss,
                () = cancel.cancelled() => return Err(Failure::Cancelled),
            };
            let hung = lead.upgrade().and_then(|lead| lead.hung.get().cloned());
            Ok(match hung {
                Some(why) => ("hung".to_owned(), why),
                None => (loss.outcome().to_owned(), loss.to_string()),
            })
        })
    }

    fn events(&self) -> Result<Stream, Failure> {
        let lead = self.0.get()?;
        let inner = lead.inner.try_read();
        let events = inner.ok().and_then(|inner| inner.as_ref().map(Inner::events));
        let lost = match (&events, lead.lease.check()) {
            (None, Err(loss)) => Some(LeadershipEvent::Lost(loss)),
            _ => None,
        };
        let events = stream::iter(events).flatten().chain(stream::iter(lost));
        Ok(Stream::new(events.map(|event| Ok(leadership_event(&event).to_string()))))
    }

    fn proclaim(&self, data: &str) -> Result<Task, Failure> {
        let (lead, data) = (self.0.get()?.clone(), parsed(data)?);
        Task::start(async move |_| match &*lead.inner.read().await {
            Some(inner) => inner.proclaim(data).await.map_err(|error| lead.explained(error)),
            None => lead.check().map(drop),
        })
    }

    /// Starts the resignation. If `KeyboardInterrupt` prevents this call, the `with` block resigns.
    fn resign(&self, successor: Option<String>) -> Result<Task, Failure> {
        let lead = self.0.get()?.clone();
        successor.as_deref().map_or(Ok(()), check_name)?;
        let resigned = lead.clone();
        let task = Task::start(async move |_| lead.resign(successor).await)?;
        resigned.has_resigned.store(true, Ordering::Relaxed);
        Ok(task)
    }

    #[getter]
    fn has_resigned(&self) -> bool {
        self.0.get().is_ok_and(|lead| lead.has_resigned.load(Ordering::Relaxed))
    }
}
