//! Errors of the library as exceptions of Python.

use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use tenure::store::Determinacy;
use tenure::{Error, ErrorKind, Loss};
use tenure_fencing::{FencingError, Stale};

/// The failure of a call.
#[derive(Debug)]
pub enum Failure {
    /// The library returned an error.
    Error(Error),
    /// The leadership has ended.
    Lost { reason: &'static str, why: String, may_have_happened: bool },
    /// A guard refused the call.
    Fencing(FencingError),
    /// The process was forked after the first call.
    Forked,
    /// The interpreter is ending, so no call can start.
    Closed,
    /// The caller cancelled the call.
    Cancelled,
    /// A task of the library panicked.
    Panicked(String),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        Failure::Error(error)
    }
}

impl From<Loss> for Failure {
    fn from(loss: Loss) -> Failure {
        let (reason, why) = (loss.outcome(), loss.to_string());
        Failure::Lost { reason, why, may_have_happened: false }
    }
}

impl From<tenure::store::StoreError> for Failure {
    fn from(error: tenure::store::StoreError) -> Failure {
        Failure::Error(Error::from_store("opening the store", "", error))
    }
}

impl From<FencingError> for Failure {
    fn from(error: FencingError) -> Failure {
        let may_have_happened = error.may_have_happened();
        match error {
            FencingError::Failed(error) => error.into(),
            FencingError::LeaseEnding { ref loss, .. } => {
                let (reason, why) = match loss {
                    Some(loss) => (loss.outcome(), loss.to_string()),
                    None => ("at_risk", "less than a quarter of the lease is left".to_owned()),
                };
                Failure::Lost { reason, why, may_have_happened }
            }
            error => Failure::Fencing(error),
        }
    }
}

impl From<Stale> for Failure {
    fn from(stale: Stale) -> Failure {
        Failure::Fencing(FencingError::Stale { stale, determinacy: Determinacy::Determinate })
    }
}

/// Returns the error for a wrong argument.
pub fn invalid(why: impl Into<String>) -> Failure {
    Failure::Error(Error::new(ErrorKind::InvalidInput, why))
}

impl From<Failure> for PyErr {
    fn from(failure: Failure) -> PyErr {
        Python::attach(|py| exception(py, failure).unwrap_or_else(|error| error))
    }
}

fn exception(py: Python<'_>, failure: Failure) -> PyResult<PyErr> {
    let errors = py.import("tenure._errors")?;
    let exception = match failure {
        Failure::Error(error) => {
            let may = error.may_have_happened();
            errors.call_method1("of_kind", (kind(error.kind()), error.to_string(), may))?
        }
        Failure::Lost { reason, why, may_have_happened } => {
            errors.call_method1("lost", (reason, why, may_have_happened))?
        }
        Failure::Fencing(error) => {
            let kind = match &error {
                FencingError::Stale { .. } => "Stale",
                FencingError::Replaced { .. } => "Replaced",
                _ => "Trimmed",
            };
            let text = error.to_string();
            let why = text.trim_end_matches(" (the write may have taken effect)");
            errors.call_method1("of_kind", (kind, why, error.may_have_happened()))?
        }
        Failure::Forked => errors.call_method0("forked")?,
        Failure::Cancelled => return Ok(PyRuntimeError::new_err("the call was cancelled")),
        Failure::Closed => {
            return Ok(PyRuntimeError::new_err(
                "tenure has ended with the interpreter: register this exit handler after the \
                 import of tenure, so that it runs before tenure ends",
            ));
        }
        Failure::Panicked(why) => return Ok(PyRuntimeError::new_err(why)),
    };
    Ok(PyErr::from_value(exception))
}

/// Returns the name of the exception without `Error`.
fn kind(kind: ErrorKind) -> String {
    format!("{kind:?}")
}
