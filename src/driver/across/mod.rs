//! Drives an election across stores (Q1 to Q10 in `protocol/across/rules.md`).
//!
//! The driver has at most one request under way at each store. The requests of several stores run
//! at the same time, and a slow store delays none of the others.

mod campaign;
mod faults;
mod lead;
mod observe;
pub(crate) mod operator;
mod part;
mod status;
mod waits;

use std::future::poll_fn;
use std::sync::{Arc, OnceLock};
use std::task::Poll;
use std::time::Duration;

pub(crate) use observe::AcrossObserver;
pub use status::{HoldState, StoreHold};

use crate::driver::Context;
use crate::driver::leader::LastSeen;
use crate::env::moment::Moment;
use crate::epoch::Epoch;
use crate::error::Error;
use crate::protocol::across::Across;
use crate::protocol::across::message::{
    AcrossEvent, AcrossInput, AcrossRequest, AcrossStep, AcrossWait, Marker,
};
use crate::record::keys::SetId;
use crate::record::listing::PageOfSet;
use part::{Heard, Reply, StorePart};

/// The state shared by all campaigns and observers of one election across stores.
#[derive(Debug)]
pub(crate) struct AcrossContext {
    /// One context for each store, in the order of the markers. The first context also carries the
    /// events of the election, and the `refresh` calls.
    pub(crate) stores: Box<[Arc<Context>]>,
    /// The set that a majority of the stores has shown.
    pub(crate) set: OnceLock<SetId>,
}

impl AcrossContext {
    pub(crate) fn new(stores: Vec<Arc<Context>>) -> AcrossContext {
        AcrossContext { stores: stores.into(), set: OnceLock::new() }
    }

    /// Returns the smallest number of stores that is a majority.
    pub(crate) fn majority(&self) -> usize {
        self.stores.len() / 2 + 1
    }

    /// Returns the least duration within which a majority of the stores has last answered, or
    /// `None` if fewer stores have ever answered.
    pub(crate) fn since_last_answer(&self) -> Option<Duration> {
        let since = self.stores.iter().filter_map(|cx| cx.since_last_answer());
        let mut since: Vec<Duration> = since.collect();
        since.sort_unstable();
        since.get(self.majority() - 1).copied()
    }

    /// Returns the last reading of the newest known epoch. If several stores show this epoch,
    /// returns the reading with the latest end of the lease.
    pub(crate) fn last_seen(&self) -> Option<LastSeen> {
        let newest = self.stores[0].greatest();
        let seen = self.stores.iter().filter_map(|cx| cx.last_seen());
        let seen = seen.filter(|it| Some(it.leader.epoch) == newest);
        seen.max_by_key(|it| (!it.sealed, it.lapses_in))
    }

    /// Returns the failure of the last requests, if no majority of the stores answers.
    pub(crate) fn last_failure(&self) -> Option<Error> {
        let failures: Vec<_> = self.stores.iter().map(|cx| (cx, cx.last_failure())).collect();
        let answering = failures.iter().filter(|(_, failure)| failure.is_none()).count();
        if answering >= self.majority() {
            return None;
        }
        let failures = failures.iter().filter_map(|(cx, it)| it.as_ref().map(|it| (&***cx, it)));
        faults::no_majority(self, failures)
    }
}

/// Drives one state machine: a campaign and its leadership, or an observer.
#[derive(Debug)]
pub(crate) struct AcrossDriver {
    cx: Arc<AcrossContext>,
    machine: Across,
    parts: Vec<StorePart>,

    // Times on the boot clock.
    /// Time at which the candidate creates the epoch at the other stores, even if the first create
    /// has no answer.
    spreads_at: Duration,
    /// End of the pause after a failed attempt.
    resumes_at: Option<Duration>,
    /// Time at which the lease of the attempt would end.
    attempt_ends: Duration,

    /// Number of consecutive failed attempts.
    failed_attempts: u32,
    /// Epoch of the last reported leader.
    reported: Option<Epoch>,
    /// Number of `refresh` calls of the application that the driver has processed.
    notified: u64,
    led: Option<lead::Led>,
}

impl AcrossDriver {
    pub(crate) fn candidate(cx: &Arc<AcrossContext>) -> AcrossDriver {
        let main = &cx.stores[0];
        main.meter.candidate(&main.config.name, main.config.validity);
        AcrossDriver::new(cx, false)
    }

    pub(crate) fn observer(cx: &Arc<AcrossContext>) -> AcrossDriver {
        AcrossDriver::new(cx, true)
    }

    fn new(cx: &Arc<AcrossContext>, observes: bool) -> AcrossDriver {
        AcrossDriver {
            machine: Across::new(cx.stores.len(), observes),
            parts: cx.stores.iter().map(|store| StorePart::new(store, observes)).collect(),
            spreads_at: Duration::ZERO,
            resumes_at: None,
            attempt_ends: Duration::ZERO,
            failed_attempts: 0,
            reported: None,
            notified: cx.stores[0].refresh.count(),
            led: None,
            cx: Arc::clone(cx),
        }
    }

    fn main(&self) -> &Arc<Context> {
        &self.cx.stores[0]
    }

    fn now(&self) -> Moment {
        self.main().process.now()
    }

    /// Sends the requests that the machine asks for, and drops the pending requests that it no
    /// longer asks for.
    fn send(&mut self) {
        for (store, part) in self.parts.iter_mut().enumerate() {
            match self.machine.step(store) {
                AcrossStep::Request(request) => part.ask(Some(request)),
                AcrossStep::Wait(_) => part.ask(None),
            }
        }
    }

    /// Waits for the next reply of any store. Waits forever if no request is under way.
    /// Cancel-safe.
    async fn reply(parts: &mut [StorePart]) -> (usize, AcrossRequest, Reply) {
        poll_fn(|task| {
            for (store, part) in parts.iter_mut().enumerate() {
                if let Poll::Ready((request, reply)) = part.poll(task) {
                    return Poll::Ready((store, request, reply));
                }
            }
            Poll::Pending
        })
        .await
    }

    /// Processes a reply of a store.
    fn took(&mut self, store: usize, request: &AcrossRequest, reply: Reply) -> Option<AcrossEvent> {
        match self.parts[store].take(request, reply) {
            Heard::Answer(answer) => {
                let event = self.handle(AcrossInput::Answer { store, answer });
                // After a failure, a majority of the stores may be unable to show the same set. So
                // check again whether the waiting pages must still wait.
                event.or_else(|| self.deliver())
            }
            Heard::Page(page) => {
                self.parts[store].page = Some(page);
                self.deliver()
            }
        }
    }

    /// Passes the waiting pages to the machine. They wait until a majority of the stores has shown
    /// the same set, or can no longer show it.
    fn deliver(&mut self) -> Option<AcrossEvent> {
        let (stores, majority) = (self.parts.len(), self.cx.majority());
        let shown = |store: usize| faults::set_of(self.parts[store].page.as_ref()?, store, stores);
        let sets: Vec<Option<SetId>> = (0..stores).map(shown).collect();
        let shown = sets.iter().flatten().count();
        if self.cx.set.get().is_none() {
            let is_common =
                |set: &&SetId| sets.iter().flatten().filter(|it| it == set).count() >= majority;
            if let Some(set) = sets.iter().flatten().find(is_common) {
                // Another call may have set the same value.
                let _ = self.cx.set.set(*set);
            }
        }
        let set = self.cx.set.get().copied();
        // Only a page that shows the marker of its store must wait for the common set.
        let may_agree = shown < majority || self.parts.iter().any(StorePart::asks);
        let waits = |store: usize| set.is_none() && sets[store].is_some() && may_agree;
        let mut event = None;
        for store in 0..stores {
            let Some(page) = self.parts[store].page.take() else { continue };
            if waits(store) && page.listing.rest.is_none() {
                self.parts[store].page = Some(page);
                continue;
            }
            let marker = set.and_then(|set| faults::marker(&page, set, store, stores));
            event = self.listed(store, page, marker).or(event);
        }
        event
    }

    fn listed(
        &mut self,
        store: usize,
        page: PageOfSet,
        marker: Option<Marker>,
    ) -> Option<AcrossEvent> {
        let input = AcrossInput::Listed { store, page: page.listing.clone(), marker };
        let event = self.handle(input);
        if let Some(fault) = self.machine.fault(store) {
            let error = faults::explain(&self.cx, store, fault, &page);
            self.parts[store].distrusted(error);
        }
        event
    }

    /// Passes an input to the machine, and notes its effects.
    fn handle(&mut self, input: AcrossInput) -> Option<AcrossEvent> {
        let event = self.machine.handle(input);
        for (store, part) in self.parts.iter_mut().enumerate() {
            let counted = self.machine.counted(store);
            if counted == part.counted {
                continue;
            }
            (part.counted, part.unrenewed) = (counted, None);
            match counted {
                Some(heartbeat) if self.led.is_some() => part.link.own.renewed(heartbeat),
                Some(heartbeat) => part.link.own.lease.extended(heartbeat),
                None => part.link.own.lease.reset(),
            }
        }
        self.main().learn(self.machine.newest());
        if self.machine.wait() != AcrossWait::Pause {
            self.resumes_at = None;
        } else if self.resumes_at.is_none() {
            self.failed_attempts = self.failed_attempts.saturating_add(1);
            let cx = self.main();
            let pause = cx.retry_delay(self.failed_attempts + 2, cx.config.validity / 4);
            self.resumes_at = Some(self.now().boot.saturating_add(pause));
        }
        event
    }

    /// Returns the end of the election's lease. On each clock, the leases of f + 1 stores end at
    /// this time or later (Q7).
    fn lease_end(&self) -> Option<Moment> {
        let now = self.now();
        let counts = self.parts.iter().filter(|part| part.counted.is_some());
        let mut ends: Vec<Moment> = counts.filter_map(|it| it.link.own.lease.end()).collect();
        ends.sort_unstable_by_key(|end| std::cmp::Reverse(now.until(*end)));
        let least = |one: Moment, other: &Moment| Moment {
            boot: one.boot.min(other.boot),
            raw: one.raw.min(other.raw),
            wall: one.wall.min(other.wall),
        };
        let counted = ends.get(..self.cx.majority())?;
        Some(counted[1..].iter().fold(counted[0], least))
    }

    fn remaining(&self) -> Duration {
        self.lease_end().map_or(Duration::ZERO, |end| self.now().until(end))
    }
}
