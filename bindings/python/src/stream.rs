//! Streams of observations, events, log entries and partitions.

use std::pin::Pin;
use std::sync::Arc;

use futures::stream::{Stream as Items, StreamExt as _};
use pyo3::prelude::*;
use tokio::sync::Mutex;

use crate::errors::Failure;
use crate::task::{Task, Value};

type Boxed = Pin<Box<dyn Items<Item = Result<Value, Failure>> + Send>>;

/// A stream of values.
#[pyclass(frozen)]
pub struct Stream(Arc<Mutex<Boxed>>);

impl Stream {
    pub fn new<T>(items: impl Items<Item = Result<T, Failure>> + Send + 'static) -> Stream
    where
        T: for<'py> IntoPyObject<'py> + Send + 'static,
    {
        Stream(Arc::new(Mutex::new(Box::pin(items.map(|item| item.map(Value::new))))))
    }
}

#[pymethods]
impl Stream {
    /// Waits for the next value. The result is `None` after the last value.
    fn next(&self) -> Result<Task, Failure> {
        let items = self.0.clone();
        Task::start(async move |cancel| {
            let next = async { items.lock().await.next().await };
            tokio::select! {
                biased;
                next = next => next.transpose(),
                () = cancel.cancelled() => Err(Failure::Cancelled),
            }
        })
    }
}
