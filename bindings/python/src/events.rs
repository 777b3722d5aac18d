//! The events of the library as records of Python's `logging`.

use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};

use pyo3::prelude::*;
use serde_json::{Map, Value};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Metadata, Subscriber};

use crate::runtime::LOGGER;

/// Maximum number of records that Python has not handled yet. Further records are dropped.
const WAITING: usize = 1000;
static PENDING: AtomicUsize = AtomicUsize::new(0);

/// Passes the events of the library to Python from now on.
pub fn forward() {
    // An error means that a subscriber is set. It is this one, because a process loads the module
    // once.
    let _ = tracing::subscriber::set_global_default(Logger);
}

struct Logger;

impl Subscriber for Logger {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        let target = metadata.target();
        metadata.is_event()
            && *metadata.level() <= Level::DEBUG
            && (target.starts_with("tenure") || target.starts_with("_tenure"))
    }

    fn new_span(&self, _: &Attributes<'_>) -> Id {
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, _: &Record<'_>) {}

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        if PENDING.load(Ordering::Relaxed) >= WAITING {
            return;
        }
        let mut fields = Fields::default();
        event.record(&mut fields);
        let level = match *event.metadata().level() {
            Level::ERROR => 40,
            Level::WARN => 30,
            Level::INFO => 20,
            _ => 10,
        };
        let Fields { message, others } = fields;
        PENDING.fetch_add(1, Ordering::Relaxed);
        LOGGER.call(move |py| {
            PENDING.fetch_sub(1, Ordering::Relaxed);
            // An exception in a handler of the application must not stop the other records.
            let _ = log(py, level, &message, others);
        });
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}

fn log(py: Python<'_>, level: u8, message: &str, fields: Map<String, Value>) -> PyResult<()> {
    let fields = Value::Object(fields).to_string();
    py.import("tenure._logging")?.call_method1("log", (level, message, fields)).map(drop)
}

/// The message and the other fields of an event.
#[derive(Default)]
struct Fields {
    message: String,
    others: Map<String, Value>,
}

impl Fields {
    fn put(&mut self, field: &Field, value: impl Into<Value>) {
        self.others.insert(field.name().to_owned(), value.into());
    }
}

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        match field.name() {
            "message" => self.message = format!("{value:?}"),
            _ => self.put(field, format!("{value:?}")),
        }
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        match field.name() {
            "message" => value.clone_into(&mut self.message),
            _ => self.put(field, value),
        }
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.put(field, value);
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.put(field, value);
    }

    fn record_f64(&mut self, field: &Field, value: f64) {
        self.put(field, value);
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.put(field, value);
    }
}
