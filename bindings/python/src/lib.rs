//! The native part of the Python package `tenure`. The package in `python/tenure` wraps these
//! classes: it has the context managers, the exceptions and the documentation.
#![deny(unsafe_code)]

mod campaign;
mod claims;
mod election;
mod errors;
mod events;
mod groups;
mod guards;
mod jobs;
mod leadership;
mod outcomes;
mod reports;
mod runtime;
mod settings;
mod stores;
mod stream;
mod task;

use pyo3::pymodule;

/// The module `tenure._tenure`. A free-threaded CPython turns on the GIL at the import of this
/// module, because no test runs without the GIL.
#[pymodule(gil_used = true)]
mod _tenure {
    use pyo3::prelude::*;

    #[pymodule_export]
    use crate::election::Election;
    #[pymodule_export]
    use crate::groups::{Group, Partition};
    #[pymodule_export]
    use crate::guards::{DurableGate, FencedLog, FencedObject, Gate, Permit, compact};
    #[pymodule_export]
    use crate::jobs::{Attempt, Job, last_period};
    #[pymodule_export]
    use crate::leadership::{Block, Leadership};
    #[pymodule_export]
    use crate::reports::{history, probe};
    #[pymodule_export]
    use crate::runtime::{idle, shutdown};
    #[pymodule_export]
    use crate::stores::{Clock, Stores};
    #[pymodule_export]
    use crate::stream::Stream;
    #[pymodule_export]
    use crate::task::Task;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        crate::runtime::refuse_sub_interpreters(module.py())?;
        crate::events::forward();
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}
