//! Leading: renewals, joins and the end (Q7 to Q9).

use super::message::AcrossEvent;
use super::part::{Doing, Own};
use super::{Across, Phase};
use crate::epoch::Epoch;
use crate::protocol::layout::Layout;
use crate::protocol::leader::LeaderNext;
use crate::protocol::message::{Input, Lost, Nonce, Rules, Step, Wait};

/// The rules of the leader's machine at one store. The machine needs no `verify_renewals`, because
/// each create that counts was confirmed by a LIST.
const RULES: Rules = Rules { observer: false, verify_renewals: false, takeover_delay: false };

impl Across {
    /// Passes an input to the leader's machine of this store. Ignores the input if the store has no
    /// such machine.
    pub(super) fn lead(&mut self, store: usize, input: Input) -> Option<AcrossEvent> {
        let part = &mut self.parts[store];
        let leading = match std::mem::replace(&mut part.own, Own::Free) {
            Own::Leading(leading) => leading,
            own => {
                part.own = own;
                return None;
            }
        };
        match leading.handle(Layout::EpochFiles, RULES, input) {
            LeaderNext::Leads(leading, _) => {
                part.own = Own::Leading(leading);
                None
            }
            LeaderNext::Abandoned(_) => unreachable!("no input abandons a grant across stores"),
            LeaderNext::Lost(lost) => {
                if let Lost::Superseded(by) = lost {
                    self.saw(by);
                }
                self.lose(store, lost)
            }
        }
    }

    /// Notes that this process has lost its epoch at this store. If it can no longer hold a
    /// majority, the leadership has ended.
    pub(super) fn lose(&mut self, store: usize, lost: Lost) -> Option<AcrossEvent> {
        let ended = matches!(lost, Lost::Resigned | Lost::Sealed(_));
        self.parts[store].own = Own::Lost { ended };
        let Phase::Lead { resigning, .. } = self.phase else { return None };
        let is_lost = |own: &Own| matches!(own, Own::Lost { .. });
        let is_ended = |own: &Own| matches!(own, Own::Lost { ended: true });
        let count = |of: &dyn Fn(&Own) -> bool| self.parts.iter().filter(|it| of(&it.own)).count();
        let (all, ended) = (count(&is_lost), count(&is_ended));
        if resigning && ended >= self.majority() {
            return self.end(Lost::Resigned);
        }
        if !resigning && all + self.majority() > self.parts.len() {
            return self.end(lost);
        }
        Some(AcrossEvent::StoreLost { store, lost })
    }

    fn end(&mut self, lost: Lost) -> Option<AcrossEvent> {
        self.phase = Phase::Over;
        for part in &mut self.parts {
            if matches!(part.own, Own::Leading(_)) {
                part.doing = Doing::Idle;
            }
            part.own = Own::Free;
        }
        Some(AcrossEvent::Lost(lost))
    }

    pub(super) fn lease_ended(&mut self) -> Option<AcrossEvent> {
        match self.phase {
            Phase::Attempt { .. } => {
                self.phase = Phase::Pause;
                None
            }
            Phase::Lead { .. } => self.end(Lost::LeaseEnded),
            _ => None,
        }
    }

    pub(super) fn resign(&mut self) {
        if let Phase::Lead { resigning, .. } = &mut self.phase {
            *resigning = true;
        }
    }

    /// Starts the joins, or the seals of a resignation, at each idle store.
    pub(super) fn schedule_lead(
        &mut self,
        epoch: Epoch,
        nonce: Nonce,
        resigning: bool,
    ) -> Option<AcrossEvent> {
        if let Some(by) = self.newest.filter(|newest| *newest > epoch) {
            return self.end(Lost::Superseded(by));
        }
        for store in self.stores() {
            if resigning {
                if matches!(self.parts[store].doing, Doing::Idle | Doing::Pause(_)) {
                    self.parts[store].doing = Doing::Idle;
                    self.count_create(store);
                }
                if let Own::Leading(leading) = &self.parts[store].own
                    && matches!(
                        leading.step(Layout::EpochFiles),
                        Step::Wait(Wait::Lead | Wait::Retry)
                    )
                    && !leading.resigns()
                {
                    self.lead(store, Input::Resign);
                }
                continue;
            }
            if let Own::Created { after: Some(_), .. } = &self.parts[store].own {
                self.count_create(store);
            }
            self.schedule_own(store, epoch, nonce, 1);
        }
        None
    }
}
