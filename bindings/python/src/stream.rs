//! Streams of observations, events, log entries and partitions.

use std::pin::Pin;
use std::sync::Arc;

use futures::stream::{Stream as Values, StreamExt as _};
use pyo3::prelude::*;
use tokio::sync::{Mutex, OwnedMutexGuard};

use crate::errors::Failure;
use crate::runtime::Local;
use crate::task::{Task, Value};

type Boxed = Pin<Box<dyn Values<Item = Result<Value, Failure>> + Send>>;

/// A stream of values.
#[pyclass(frozen)]
pub struct Stream(Local<Arc<Mutex<Items>>>);

struct Items {
    rest: Boxed,
    /// An item that a call received, but did not deliver because it was cancelled. The next call
    /// returns it.
    returned: Option<Value>,
}

impl Stream {
    pub fn new<T>(items: impl Values<Item = Result<T, Failure>> + Send + 'static) -> Stream
    where
        T: for<'py> IntoPyObject<'py> + Send + 'static,
    {
        let rest = Box::pin(items.map(|item| item.map(Value::new)).fuse());
        Stream(Local::new(Arc::new(Mutex::new(Items { rest, returned: None }))))
    }
}

/// An item that goes back to its stream if it is dropped before Python takes it. It keeps the
/// stream locked.
struct Item {
    items: OwnedMutexGuard<Items>,
    value: Option<Value>,
}

impl<'py> IntoPyObject<'py> for Item {
    type Target = PyAny;
    type Output = Bound<'py, PyAny>;
    type Error = PyErr;

    fn into_pyobject(mut self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        self.value.take().into_pyobject(py)
    }
}

impl Drop for Item {
    fn drop(&mut self) {
        self.items.returned = self.value.take();
    }
}

#[pymethods]
impl Stream {
    /// Waits for the next value. The result is `None` after the last value.
    fn next(&self) -> Result<Task, Failure> {
        let items = self.0.get()?.clone();
        Task::start(async move |cancel| {
            let next = async {
                let mut items = items.lock_owned().await;
                let value = match items.returned.take() {
                    Some(returned) => Some(returned),
                    None => items.rest.next().await.transpose()?,
                };
                Ok(value.map(|value| Item { items, value: Some(value) }))
            };
            tokio::select! {
                biased;
                next = next => next,
                () = cancel.cancelled() => Err(Failure::Cancelled),
            }
        })
    }
}
