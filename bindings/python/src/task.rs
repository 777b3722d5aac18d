//! A call that runs on the Tokio runtime. Python code waits for its end in a thread or in an event
//! loop.

use std::future::Future;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use pyo3::BoundObject as _;
use pyo3::prelude::*;
use tokio_util::sync::CancellationToken;

use crate::errors::Failure;
use crate::runtime::{Local, WAKER, call_token, is_closed, locked, may_start, runtime};

type Convert = Box<dyn FnOnce(Python<'_>) -> PyResult<Py<PyAny>> + Send>;

/// A value that is converted to a Python object later, by the thread that holds the GIL.
pub struct Value(Convert);

impl Value {
    pub fn new<T: for<'py> IntoPyObject<'py> + Send + 'static>(value: T) -> Value {
        Value(Box::new(move |py| {
            let value = value.into_pyobject(py).map_err(Into::into)?;
            Ok(value.into_any().unbind())
        }))
    }
}

impl<'py> IntoPyObject<'py> for Value {
    type Target = PyAny;
    type Output = Bound<'py, PyAny>;
    type Error = PyErr;

    fn into_pyobject(self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        Ok((self.0)(py)?.into_bound(py))
    }
}

/// A running call. If a cancelled call still returns a leadership, the leadership resigns.
#[pyclass(frozen)]
pub struct Task(Local<Waiting>);

struct Waiting {
    shared: Arc<Shared>,
    cancel: CancellationToken,
}

struct Shared {
    state: Mutex<State>,
    ended: Condvar,
}

enum State {
    Running {
        callback: Option<Py<PyAny>>,
    },
    Ended(Result<Value, Failure>),
    /// The result was taken, or the call was cancelled.
    Over,
}

impl Task {
    /// Starts a call. The call receives a cancellation token, which is cancelled if the caller
    /// stops waiting. A call that ignores this token runs to its end.
    pub fn start<T, W>(work: impl FnOnce(CancellationToken) -> W) -> Result<Task, Failure>
    where
        T: for<'py> IntoPyObject<'py> + Send + 'static,
        W: Future<Output = Result<T, Failure>> + Send + 'static,
    {
        let cancel = call_token();
        let state = Mutex::new(State::Running { callback: None });
        let shared = Arc::new(Shared { state, ended: Condvar::new() });
        let runtime = runtime()?;
        let waiting = Waiting { shared: shared.clone(), cancel: cancel.clone() };
        if !may_start()? {
            return Ok(Task(Local::new(waiting)));
        }
        let work = runtime.spawn(work(cancel));
        runtime.spawn(async move {
            let result = work.await.unwrap_or_else(|error| {
                Err(Failure::Panicked(format!("a task of tenure panicked: {error}")))
            });
            // While the interpreter ends, a daemon thread must not see that its call was cancelled,
            // so the call never ends for it.
            if is_closed() && matches!(result, Err(Failure::Cancelled)) {
                return;
            }
            shared.end(result.map(Value::new));
        });
        Ok(Task(Local::new(waiting)))
    }
}

impl Shared {
    fn end(&self, outcome: Result<Value, Failure>) {
        let mut state = locked(&self.state);
        let unused = match std::mem::replace(&mut *state, State::Over) {
            State::Running { callback } => {
                *state = State::Ended(outcome);
                if let Some(callback) = callback {
                    WAKER.call(move |py| _ = callback.call0(py));
                }
                None
            }
            State::Ended(_) | State::Over => Some(outcome),
        };
        drop(state);
        self.ended.notify_all();
        drop(unused);
    }
}

#[pymethods]
impl Task {
    /// Waits for at most `seconds`. Returns whether the call has ended.
    fn wait(&self, py: Python<'_>, seconds: f64) -> PyResult<bool> {
        let shared = &self.0.get()?.shared;
        let limit = Duration::try_from_secs_f64(seconds).unwrap_or_default();
        py.detach(|| {
            let state = locked(&shared.state);
            let running = |state: &mut State| matches!(state, State::Running { .. });
            let waited = shared.ended.wait_timeout_while(state, limit, running);
            let (state, _) = waited.unwrap_or_else(std::sync::PoisonError::into_inner);
            Ok(!matches!(*state, State::Running { .. }))
        })
    }

    /// Calls `callback` without arguments once the call has ended: on another thread, or
    /// immediately if it has ended already.
    fn on_end(&self, py: Python<'_>, callback: Py<PyAny>) -> PyResult<()> {
        let mut state = locked(&self.0.get()?.shared.state);
        if let State::Running { callback: slot } = &mut *state {
            *slot = Some(callback);
            return Ok(());
        }
        drop(state);
        callback.call0(py).map(drop)
    }

    /// Returns the result of the ended call, or raises its exception.
    fn result(&self, py: Python<'_>) -> PyResult<Py<PyAny>> {
        let state = std::mem::replace(&mut *locked(&self.0.get()?.shared.state), State::Over);
        match state {
            State::Ended(outcome) => (outcome?.0)(py),
            State::Running { .. } | State::Over => Err(Failure::Cancelled.into()),
        }
    }

    /// Cancels the call, and drops its result.
    fn cancel(&self) -> PyResult<()> {
        let Waiting { shared, cancel } = self.0.get()?;
        let state = std::mem::replace(&mut *locked(&shared.state), State::Over);
        cancel.cancel();
        shared.ended.notify_all();
        drop(state);
        Ok(())
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.cancel.cancel();
    }
}
