//! The checkers of a run: the invariants I1 to I8 of docs/design/protocol.md, and further rules.
//!
//! The checkers see the effects on the store, the requests and answers of processes, and the
//! beliefs of applications. They do not read the state of the library.

mod applications;
mod book;
mod foreign;
mod invariants;
mod kept;
mod takeover;

use std::time::Duration;

use chrono::{DateTime, Utc};
use tenure::Moment;
use tenure::store::ETag;

pub use book::{Book, Grant, Lead, LeadId, Write, WriteId};

use super::bucket::{Body, Bucket};
use super::plan::{Knobs, Plan};
use super::world::Who;

/// A page of a listing that a process received.
#[derive(Debug, Clone)]
pub struct Seen {
    pub who: Who,
    pub after: String,
    /// The step at which the store evaluated the page, and the newest epoch at that step.
    pub step: u64,
    pub newest: Option<u64>,
}

/// An event on which an invariant depends.
#[derive(Debug)]
pub enum Event<'a> {
    /// A create took effect.
    Created { write: &'a Write },
    /// An overwrite took effect. The object had the body `before`.
    Replaced { write: &'a Write, before: &'a Body },
    /// An object is about to be deleted.
    Deleting { epoch: u64 },
    /// A campaign was won.
    Granted { grant: &'a Grant },
    /// `check()` returned the token, and the library reported `told` as the remaining lease.
    Token { lead: &'a Lead, clock: Moment, told: Duration },
    /// The application learned that its resignation is complete.
    Resigned { lead: &'a Lead },
    /// The method `check` of a `Lease` handle returned Ok.
    LeaseOk { lead: &'a Lead },
    /// A process asked for the leader, and the library returned the holder of this epoch.
    Observed { who: Who, by: &'static str, epoch: u64 },
    /// A process is about to send a write.
    Sending { write: &'a Write },
    /// The task of a leader sends a request.
    LeaderSends { who: Who },
    /// The application of a leader requests a write.
    Proclaims { who: Who },
    /// A process has read an unsealed record of a peer that follows Morling's post.
    ReadForeign { who: Who, epoch: u64, etag: ETag, modified: Option<DateTime<Utc>> },
    /// A leadership has ended, for the reason that its application received.
    Lost { lead: &'a Lead, outcome: &'static str },
    /// The fenced resource accepted a write.
    Fenced { epoch: u64 },
}

/// The part of the simulation that a checker may read.
pub struct View<'a> {
    pub plan: &'a Plan,
    pub book: &'a Book,
    pub bucket: &'a Bucket,
    /// Returns exact readings of the clocks of a process.
    pub clock: &'a dyn Fn(Who) -> Moment,
    /// Returns the settings of a candidate, or `None` for any other process.
    pub knobs: &'a dyn Fn(Who) -> Option<&'a Knobs>,
}

/// Checks one invariant.
pub trait Checker: Send + std::fmt::Debug {
    fn name(&self) -> &'static str;

    /// Checks an event. An error describes the violation.
    fn see(&mut self, event: &Event<'_>, view: &View<'_>) -> Result<(), String>;
}

/// Returns the checkers of the invariants that this plan guarantees.
pub fn checkers(plan: &Plan) -> Vec<Box<dyn Checker>> {
    let mut checkers: Vec<Box<dyn Checker>> = vec![
        Box::<invariants::GrantedOnce>::default(),
        Box::<invariants::GrantedAsNewest>::default(),
        Box::<invariants::NewestStays>::default(),
        Box::<invariants::NoTokenAfterTheEnd>::default(),
        Box::<applications::NotOkAfterTheEnd>::default(),
        Box::<applications::FencedInOrder>::default(),
        Box::<applications::ObservedInOrder>::default(),
    ];
    // `SealedOnlyWhenDead` requires that a candidate saw the peer's object unchanged until the
    // lapse, by its own clock, before it seals the peer's epoch. With `store_clock_margin`, a
    // candidate may also judge the peer by the dates of the store, and seal earlier.
    let by_dates = plan.candidates.iter().any(|knobs| knobs.store_clock_margin.is_some());
    if plan.foreign && !by_dates {
        checkers.push(Box::<foreign::SealedOnlyWhenDead>::default());
    }
    if !plan.restores {
        checkers.push(Box::<applications::ExpectedLoss>::default());
    }
    if plan.steady {
        checkers.push(Box::<kept::Leadership>::default());
    }
    let delayed = plan.candidates.iter().any(|knobs| !knobs.takeover_delay.is_zero());
    if delayed && plan.timed() && !plan.restores {
        checkers.push(Box::<takeover::Waited>::default());
    }
    if plan.ordered() && !plan.restores {
        checkers.push(Box::<invariants::SealIsFinal>::default());
        checkers.push(Box::<invariants::RenewedAsNewest>::default());
        checkers.push(Box::<invariants::UnsealedIsNewest>::default());
    }
    // If clocks exceed the drift, leases may overlap. In such runs, `OneLeaseAtATime` only counts
    // the overlaps.
    if plan.timed() || plan.beyond_drift {
        checkers.push(Box::<invariants::OneLeaseAtATime>::default());
    }
    checkers
}
