//! Streams of observations and events.

use std::pin::Pin;
use std::sync::Arc;

use futures::stream::{Stream as Items, StreamExt as _};
use pyo3::prelude::*;
use serde_json::Value;
use tokio::sync::Mutex;

use crate::errors::Failure;
use crate::task::Task;

type Boxed = Pin<Box<dyn Items<Item = Result<Value, Failure>> + Send>>;

/// A stream of values. Each value is JSON.
#[pyclass(frozen)]
pub struct Stream(Arc<Mutex<Boxed>>);

impl Stream {
    pub fn new(items: impl Items<Item = Result<Value, Failure>> + Send + 'static) -> Stream {
        Stream(Arc::new(Mutex::new(Box::pin(items))))
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
                next = next => Ok(next.transpose()?.map(|value| value.to_string())),
                () = cancel.cancelled() => Err(Failure::Cancelled),
            }
        })
    }
}
