//! One candidate: the real state machine, and the lease that its driver computes.

use tenure::EpochEnd;
use tenure::protocol::across::Across;
use tenure::protocol::across::message::{
    AcrossEvent, AcrossInput, AcrossRequest, AcrossStep, AcrossWait, MAX_STORES, Marker,
};
use tenure::protocol::find::Listing;
use tenure::protocol::message::Wait;

use super::store::{Body, NonceNumber, Number, number_of, small};

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Process {
    pub machine: Across,
    pub leads: bool,
    /// The writes of the current nonce, each with its store, its heartbeat, and the greatest epoch
    /// that was granted before the process sent the write.
    pub sent: Vec<(usize, u8, Number)>,
    /// For each store, the greatest heartbeat of an ended lease. Used with honest clocks.
    pub ended: [u8; MAX_STORES],
    /// The greatest epoch that was granted before the first confirming LIST of this attempt.
    pub first_list: Option<Number>,
    /// For each store, the request with an answer in transit, and this answer.
    pub mail: [Option<(AcrossRequest, AcrossInput)>; MAX_STORES],
    /// The leases that must have ended after the wait for a deposed epoch (E9), by nonce and
    /// heartbeat.
    pub waited: [Vec<(NonceNumber, u8)>; MAX_STORES],
    /// True if the process reaches the old contents of a moved store.
    pub stale: bool,
    /// For each store, the epoch that was sealed or lapsed there when this process last saw it.
    /// Only random walks set this field and the next one.
    pub closable: [Option<Number>; MAX_STORES],
    /// The last epoch that this process has seen as resigned or given up.
    pub resigned: Option<Number>,
    /// For each store, the listing and the object (next field) that a broken process has kept.
    pub early: [Option<(Listing, Option<Marker>)>; MAX_STORES],
    pub kept: [Option<(Number, Body)>; MAX_STORES],
}

impl Process {
    pub fn new(stores: usize) -> Process {
        Process {
            machine: Across::new(stores, false),
            leads: false,
            sent: Vec::new(),
            ended: [0; MAX_STORES],
            first_list: None,
            mail: Default::default(),
            waited: Default::default(),
            stale: false,
            closable: Default::default(),
            resigned: None,
            early: Default::default(),
            kept: Default::default(),
        }
    }

    pub fn own(&self) -> Option<(Number, NonceNumber)> {
        self.machine.own().map(|(epoch, nonce)| (small(epoch.get()), number_of(nonce)))
    }

    /// Passes an input to the machine. As the driver does, drops the answers in transit to requests
    /// that the machine has replaced. If `skips` is set, skips all pauses, because they are
    /// equivalent to late requests.
    pub fn handle(
        &mut self,
        stores: usize,
        skips: bool,
        input: AcrossInput,
    ) -> Option<AcrossEvent> {
        let before = self.own();
        let event = self.machine.handle(input);
        match event {
            Some(AcrossEvent::Granted { .. }) => self.leads = true,
            Some(AcrossEvent::Lost(_)) => self.leads = false,
            _ => {}
        }
        while skips {
            match self.machine.wait() {
                AcrossWait::Pause => {
                    self.machine.handle(AcrossInput::Resume);
                }
                AcrossWait::Over => self.machine.restart(),
                _ => {}
            }
            let retries =
                |store: &usize| self.machine.step(*store) == AcrossStep::Wait(Wait::Retry);
            match (0..stores).find(retries) {
                Some(store) => self.machine.handle(AcrossInput::StoreResume { store }),
                None if matches!(self.machine.wait(), AcrossWait::Pause | AcrossWait::Over) => {
                    continue;
                }
                None => break,
            };
        }
        if self.own() != before {
            self.sent.clear();
            self.ended = [0; MAX_STORES];
            self.first_list = None;
            self.early = Default::default();
            self.leads &= self.own().is_some();
        }
        for store in 0..stores {
            let Some((request, answer)) = &self.mail[store] else { continue };
            match self.machine.step(store) {
                AcrossStep::Request(next) if next == *request => continue,
                AcrossStep::Request(_) => {}
                // While the machine waits, an answer changes nothing.
                AcrossStep::Wait(_) => {
                    let mut machine = self.machine.clone();
                    assert_eq!(machine.handle(answer.clone()), None);
                    assert!(machine == self.machine, "{answer:?} changes {machine:?}");
                }
            }
            self.mail[store] = None;
        }
        event
    }

    /// Records that an input shows the newest epoch as closed at this store, or permits this
    /// process to close it there (Q4).
    pub fn closes(&mut self, store: usize, ended: Option<EpochEnd>) {
        let newest = self.machine.newest().map(|epoch| small(epoch.get()));
        self.closable[store] = newest;
        if matches!(ended, Some(EpochEnd::Resigned | EpochEnd::GivenUp)) {
            self.resigned = newest;
        }
    }

    /// Returns whether this process may seal this epoch as lapsed (Q4).
    pub fn may_close(&self, epoch: Number, majority: usize) -> bool {
        let closable = self.closable.iter().filter(|it| **it == Some(epoch)).count();
        closable >= majority || self.resigned == Some(epoch)
    }

    /// Returns the greatest epoch that was granted before the process sent the writes with which
    /// its leases at a majority began.
    pub fn granted_before(&self, stores: usize, majority: usize) -> Number {
        let mut before: Vec<Number> = (0..stores).filter_map(|it| self.sent_after(it)).collect();
        before.sort_unstable();
        before.get(majority - 1).copied().unwrap_or(0)
    }

    /// Returns the greatest epoch that was granted before the process sent the write with which its
    /// lease at this store began.
    fn sent_after(&self, store: usize) -> Option<Number> {
        let heartbeat = self.machine.counted(store)?;
        let is_it = |(at, number, _): &&(usize, u8, Number)| {
            *at == store && u64::from(*number) == heartbeat
        };
        self.sent.iter().find(is_it).map(|(_, _, granted)| *granted)
    }

    /// Returns the number of stores with a lease that has not ended.
    pub fn leases(&self, stores: usize) -> usize {
        let holds = |store: &usize| {
            self.machine
                .counted(*store)
                .is_some_and(|heartbeat| heartbeat > self.ended[*store].into())
        };
        (0..stores).filter(holds).count()
    }

    /// Returns the number of stores at which the lease began with a write that was sent after a
    /// greater epoch was granted.
    pub fn late_leases(&self, stores: usize, epoch: Number) -> usize {
        (0..stores).filter(|it| self.sent_after(*it).is_some_and(|it| it > epoch)).count()
    }
}
