//! One candidate: the real state machine, and the lease that its driver computes.

use tenure::protocol::across::Across;
use tenure::protocol::across::message::{AcrossEvent, AcrossInput, AcrossStep, AcrossWait};
use tenure::protocol::across::message::{MAX_STORES, Marker};
use tenure::protocol::find::Listing;
use tenure::protocol::message::Wait;

use super::store::{NonceNumber, Number, number_of, small};

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Process {
    pub machine: Across,
    pub leads: bool,
    /// The writes of the current nonce: the store, the heartbeat, and the greatest epoch that was
    /// granted before the sending.
    pub sent: Vec<(usize, u8, Number)>,
    /// For each store, the greatest heartbeat of an ended lease. Used with honest clocks.
    pub ended: [u8; MAX_STORES],
    /// The greatest epoch that was granted before the first confirming LIST of this attempt.
    pub first_list: Option<Number>,
    /// The confirming listings that a broken process has already read.
    pub early: [Option<(Listing, Option<Marker>)>; MAX_STORES],
}

impl Process {
    pub fn new(stores: usize) -> Process {
        Process {
            machine: Across::new(stores, false),
            leads: false,
            sent: Vec::new(),
            ended: [0; MAX_STORES],
            first_list: None,
            early: Default::default(),
        }
    }

    pub fn own(&self) -> Option<(Number, NonceNumber)> {
        self.machine.own().map(|(epoch, nonce)| (small(epoch.get()), number_of(nonce)))
    }

    /// Passes an input to the machine. Skips all pauses, because they are equivalent to late
    /// requests.
    pub fn handle(&mut self, stores: usize, input: AcrossInput) -> Option<AcrossEvent> {
        let before = self.own();
        let event = self.machine.handle(input);
        match event {
            Some(AcrossEvent::Granted { .. }) => self.leads = true,
            Some(AcrossEvent::Lost(_)) => self.leads = false,
            _ => {}
        }
        loop {
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
        event
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

    /// Returns the number of stores whose lease counts from a write that was sent after a greater
    /// epoch was granted.
    pub fn late_leases(&self, stores: usize, epoch: Number) -> usize {
        let is_late = |store: &usize| {
            self.machine.counted(*store).is_some_and(|heartbeat| {
                let sent = self
                    .sent
                    .iter()
                    .find(|(at, number, _)| at == store && u64::from(*number) == heartbeat);
                sent.is_some_and(|(_, _, granted)| *granted > epoch)
            })
        };
        (0..stores).filter(is_late).count()
    }
}
