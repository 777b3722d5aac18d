//! Defines the list of all faults of a write. The tests of elections, groups, fencing and
//! operators, and both simulations, use the whole list.

use std::time::Duration;

use tenure::store::{Determinacy, PutOutcome, StoreError, StoreErrorKind};

use crate::fault_store::Fault;
use crate::time::{millis, secs};

/// Each fault of one write on a store that keeps its guarantees. The write takes effect now, later,
/// or never. The response is lost, late, an error, a refusal, or a success without an ETag.
pub const WRITE_FAULTS: [Fault; 11] = [
    Fault::FailBefore,
    Fault::FailAfter,
    Fault::Conflict,
    Fault::Hang,
    Fault::HangAfter,
    // This delay is longer than the request timeout of each test.
    Fault::Slow(secs(10)),
    Fault::Late(millis(100)),
    Fault::Late(secs(1)),
    Fault::NoEtag,
    Fault::Swallow,
    Fault::Refuse,
];

/// The effect and the response of a write with a fault from [`WRITE_FAULTS`]. Simulated stores use
/// this description.
#[derive(Debug, Clone)]
pub struct WriteCourse {
    /// Delay between the arrival of the write and its effect. `None` means that the write has no
    /// effect.
    pub applied: Option<Duration>,
    pub answer: WriteAnswer,
}

#[derive(Debug, Clone)]
pub enum WriteAnswer {
    /// The true outcome, which the store returns after the write takes effect.
    True,
    /// The true outcome, without an ETag.
    WithoutEtag,
    /// This outcome. The store returns it when the write arrives, before the write takes effect.
    AtOnce(Result<PutOutcome, StoreError>),
    Never,
}

impl WriteCourse {
    /// Returns the effect and the response of a write with this fault.
    ///
    /// # Panics
    ///
    /// Panics if the fault is not in the list.
    pub fn of(fault: Fault) -> WriteCourse {
        let (now, maybe) = (Some(Duration::ZERO), Determinacy::Indeterminate);
        let failed = |determinacy, why: &str| {
            WriteAnswer::AtOnce(Err(StoreError::new(StoreErrorKind::Transient, determinacy, why)))
        };
        let (applied, answer) = match fault {
            Fault::FailBefore => (None, failed(Determinacy::Determinate, "503 SlowDown")),
            Fault::FailAfter => (now, failed(maybe, "500 InternalError")),
            Fault::Conflict => (None, failed(maybe, "409 ConditionalRequestConflict")),
            Fault::Hang => (None, WriteAnswer::Never),
            Fault::HangAfter => (now, WriteAnswer::Never),
            Fault::Slow(delay) => (Some(delay), WriteAnswer::True),
            Fault::Late(delay) => (Some(delay), failed(maybe, "the connection broke")),
            Fault::NoEtag => (now, WriteAnswer::WithoutEtag),
            Fault::Swallow => (None, WriteAnswer::AtOnce(Ok(PutOutcome::Done { etag: None }))),
            Fault::Refuse => (None, WriteAnswer::AtOnce(Ok(PutOutcome::PreconditionFailed))),
            other => panic!("{other:?} is not in the list"),
        };
        WriteCourse { applied, answer }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tenure::store::{MemoryStore, Store as _};

    use super::*;
    use crate::fault_store::{Call, FaultStore};
    use crate::time::{wait, within};

    /// For each fault in the list, a simulated store and [`FaultStore`] return the same outcome,
    /// and afterwards both stores or neither store has the object.
    #[tokio::test(start_paused = true)]
    async fn simulated_and_real_faults_of_a_write_agree() {
        for fault in WRITE_FAULTS {
            let course = WriteCourse::of(fault);
            let store = FaultStore::new(Arc::new(MemoryStore::new()));
            store.on(Call::Create).fault(fault);
            let answer = within(secs(60), store.create("key", "body".into())).await;
            wait(secs(60)).await;
            let kept = store.inner().list("", "", 10).await.unwrap().entries.len();
            assert_eq!(kept, usize::from(course.applied.is_some()), "{fault:?}");
            let tagged = |it: &PutOutcome| matches!(it, PutOutcome::Done { etag: Some(_) });
            let same = match (course.answer, answer) {
                (WriteAnswer::Never, None) => true,
                (WriteAnswer::True, Some(Ok(it))) => tagged(&it),
                (WriteAnswer::WithoutEtag, Some(Ok(it))) => it == PutOutcome::Done { etag: None },
                (WriteAnswer::AtOnce(Ok(one)), Some(Ok(other))) => one == other,
                (WriteAnswer::AtOnce(Err(one)), Some(Err(other))) => {
                    (one.kind(), one.determinacy()) == (other.kind(), other.determinacy())
                }
                _ => false,
            };
            assert!(same, "{fault:?}");
        }
    }
}
