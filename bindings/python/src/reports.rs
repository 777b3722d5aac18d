//! Reports on a store: the history of its leaders, and the check of its guarantees.

use std::sync::Arc;

use pyo3::prelude::*;
use serde_json::{Map, Value, json};
use tenure::store::Store;
use tenure_conformance::Capabilities;
use tenure_history::{LeadershipSpan, Reader};

use crate::errors::Failure;
use crate::stores::Stores;
use crate::task::Task;

/// Reads the history of an election, as JSON.
#[pyfunction]
pub fn history(stores: &Stores, limit: Option<usize>) -> Result<Task, Failure> {
    let mut reader = Reader::new(stores.one()?.clone(), &stores.prefix)?;
    if let Some(limit) = limit {
        reader = reader.limit(limit);
    }
    Task::start(async move |_| {
        let history = reader.read().await?;
        let spans: Vec<Value> = history.spans.iter().map(span).collect();
        Ok(Value::Array(spans).to_string())
    })
}

fn span(span: &LeadershipSpan) -> Value {
    let micros = |at: Option<chrono::DateTime<chrono::Utc>>| at.map(|at| at.timestamp_micros());
    json!({
        "epoch": span.epoch.get(),
        "candidate": span.candidate,
        "start": micros(span.from.at),
        "stop": micros(span.until.at),
        "end": span.end.map(|end| end.to_string()),
        "lapsed": span.lapsed,
        "sealed_by": span.sealed_by,
        "forced_by": span.forced_by,
        "reason": span.reason,
        "unreadable": span.unreadable,
    })
}

/// Checks the guarantees of a store. The result is JSON: the name of each check, and its failure.
#[pyfunction]
pub fn probe(stores: &Stores, race_rounds: usize) -> Result<Task, Failure> {
    let (store, prefix) = (stores.one()?.clone(), stores.prefix.trim_end_matches('/'));
    let slash = if prefix.is_empty() { "" } else { "/" };
    let started = tenure::Process::system().now().wall.as_nanos();
    let folder = format!("{prefix}{slash}.tenure-probe-{started}-{}/", std::process::id());
    Task::start(async move |_| {
        let defaults = Capabilities::default();
        let can = Capabilities { exact_sizes: false, lenient: true, race_rounds, ..defaults };
        let results = tenure_conformance::report(store.clone(), &folder, &can).await;
        delete_all(&store, &folder).await?;
        let results: Map<String, Value> = results
            .into_iter()
            .map(|(name, result)| (name.to_owned(), json!(result.err())))
            .collect();
        Ok(Value::Object(results).to_string())
    })
}

async fn delete_all(store: &Arc<dyn Store>, folder: &str) -> Result<(), Failure> {
    loop {
        let page = store.list(folder, "", 1000).await?;
        let keys: Vec<String> = page.entries.into_iter().map(|entry| entry.key).collect();
        if keys.is_empty() || !store.delete(keys).await?.is_empty() {
            return Ok(());
        }
    }
}
