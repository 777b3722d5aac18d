//! Partition groups.

use std::error::Error as StdError;
use std::sync::Mutex;

use futures::stream;
use pyo3::prelude::*;
use serde::Deserialize;
use serde_json::{Value, json};
use tenure::Term;
use tenure_fencing::Token;
use tenure_groups as groups;
use tenure_groups::GroupSnapshot;
use tokio::sync::{mpsc, oneshot};

use crate::errors::{Failure, invalid};
use crate::runtime::{Local, locked};
use crate::settings::{given, seconds, set};
use crate::stores::{Clock, Stores};
use crate::stream::Stream;
use crate::task::Task;

/// A partition group, and the settings of this member.
#[pyclass(frozen)]
pub struct Group(Local<groups::Group>);

/// The settings of a member. Durations are in seconds. A missing setting has its default.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Settings {
    name: Option<String>,
    partitions: Option<Vec<String>>,
    data: Option<Value>,
    weight: Option<u32>,
    validity: Option<f64>,
    renew_interval: Option<f64>,
    poll_interval: Option<f64>,
    request_timeout: Option<f64>,
    rebalance_delay: Option<f64>,
    revocation_deadline: Option<f64>,
    #[serde(deserialize_with = "given")]
    retry_denied: Option<Option<f64>>,
    clock_drift_max: Option<f64>,
    check_store: Option<bool>,
    name_is_unique: Option<bool>,
    machine_is_never_paused: Option<bool>,
    leave_when_overdue: Option<bool>,
}

#[pymethods]
impl Group {
    #[new]
    fn new(stores: &Stores, settings: &str, clock: Option<&Clock>) -> Result<Group, Failure> {
        let given: Settings =
            serde_json::from_str(settings).map_err(|error| invalid(error.to_string()))?;
        let mut builder = groups::Group::builder(stores.one()?.clone(), &*stores.prefix);
        set!(builder, given, name, partitions, data, weight, clock_drift_max, check_store);
        set!(builder, given, name_is_unique, machine_is_never_paused, leave_when_overdue);
        set!(seconds builder, given, validity, renew_interval, poll_interval, request_timeout);
        set!(seconds builder, given, rebalance_delay, revocation_deadline);
        if let Some(during) = given.retry_denied {
            let during = during.map(|it| seconds("retry_denied", it)).transpose()?;
            builder = builder.retry_denied(during);
        }
        Ok(Group(Local::new(builder.process(Clock::process(clock)).build()?)))
    }

    #[getter]
    fn name(&self) -> Result<&str, Failure> {
        Ok(self.0.get()?.name())
    }

    /// Joins the group. Returns the stream of the granted partitions, and a task that ends after
    /// `leave`.
    fn run(&self) -> Result<(Stream, Task), Failure> {
        let (grants, granted) = mpsc::unbounded_channel();
        let group = self.0.get()?.clone();
        let task = Task::start(async move |cancel| {
            let work = async move |partition| -> Result<(), Box<dyn StdError + Send + Sync>> {
                let (done, ended) = oneshot::channel();
                let done = Mutex::new(Some(done));
                let partition = Partition(Local::new(Granted { inner: partition, done }));
                grants.send(partition).map_err(|_| "the call that starts the work has ended")?;
                match ended.await {
                    Ok(None) => Ok(()),
                    Ok(Some(why)) => Err(why.into()),
                    Err(_) => Err("the partition was dropped before the end of its work".into()),
                }
            };
            tokio::select! {
                biased;
                ended = group.run(work) => Ok(ended?),
                () = cancel.cancelled() => Err(Failure::Cancelled),
            }
        })?;
        let granted = stream::unfold(granted, async |mut granted| {
            let partition = granted.recv().await?;
            Some((Ok(partition), granted))
        });
        Ok((Stream::new(granted), task))
    }

    fn leave(&self, seconds_reserved: Option<f64>) -> Result<(), Failure> {
        match seconds_reserved {
            Some(reserved) => self.0.get()?.leave_for(seconds("delay", reserved)?),
            None => self.0.get()?.leave(),
        }
        Ok(())
    }

    #[getter]
    fn is_member(&self) -> Result<bool, Failure> {
        Ok(self.0.get()?.is_member())
    }

    fn snapshot(&self) -> Result<Task, Failure> {
        let group = self.0.get()?.clone();
        Task::start(async move |_| Ok(snapshot(&group.snapshot().await?).to_string()))
    }
}

fn snapshot(of: &GroupSnapshot) -> Value {
    let members = of.members.iter().map(|member| {
        json!({
            "session": member.session,
            "name": member.name,
            "weight": member.weight,
            "validity": member.validity.as_secs_f64(),
            "data": member.data,
            "coordinates": member.coordinates,
        })
    });
    let name = |member: Option<usize>| member.and_then(|at| of.members.get(at)).map(|it| &it.name);
    let partitions = of.partitions.iter().map(|partition| {
        json!({
            "name": partition.name,
            "owner": name(partition.owner),
            "token": partition.token.map(tenure::Epoch::get),
            "target": name(partition.target),
            "reserved_for": partition.reserved_for,
        })
    });
    json!({
        "epoch": of.epoch.map(tenure::Epoch::get),
        "members": members.collect::<Vec<_>>(),
        "partitions": partitions.collect::<Vec<_>>(),
        "restoring": of.restoring,
    })
}

/// A partition that this member owns until the end of its work.
#[pyclass(frozen)]
pub struct Partition(Local<Granted>);

struct Granted {
    inner: groups::Partition,
    done: Mutex<Option<oneshot::Sender<Option<String>>>>,
}

impl Partition {
    fn inner(&self) -> Result<&groups::Partition, Failure> {
        Ok(&self.0.get()?.inner)
    }

    pub fn fencing_token(&self) -> Result<Token, Failure> {
        Ok(Token::from(self.inner()?))
    }
}

#[pymethods]
impl Partition {
    #[getter]
    fn name(&self) -> Result<&str, Failure> {
        Ok(self.inner()?.name())
    }

    #[getter]
    fn token(&self) -> Result<u64, Failure> {
        Ok(self.inner()?.token().get())
    }

    fn check(&self) -> Result<u64, Failure> {
        Ok(Term::check(self.inner()?)?.get())
    }

    #[getter]
    fn remaining(&self) -> Result<f64, Failure> {
        Ok(self.inner()?.remaining().as_secs_f64())
    }

    #[getter]
    fn revoked(&self) -> Result<bool, Failure> {
        Ok(self.inner()?.revoked().is_cancelled())
    }

    /// Waits for the signal to stop the work.
    fn wait_revoked(&self) -> Result<Task, Failure> {
        let revoked = self.inner()?.revoked();
        Task::start(async move |cancel| {
            tokio::select! {
                biased;
                () = revoked.cancelled() => Ok(()),
                () = cancel.cancelled() => Err(Failure::Cancelled),
            }
        })
    }

    /// Ends the work, so that the member releases the partition.
    fn done(&self, error: Option<String>) -> Result<(), Failure> {
        if let Some(done) = locked(&self.0.get()?.done).take() {
            // The send fails if the call of `run` was dropped.
            let _ = done.send(error);
        }
        Ok(())
    }
}
