//! The effect of an operator's order on an epoch (O1 to O7 in docs/design/protocol.md).
//!
//! A decision depends on one read of the epoch object, and the write is conditional on the ETag of
//! this read. If the leader renews between the read and the write, the store refuses the write. The
//! caller then reads the object and decides again.

use std::time::Duration;

use super::message::{EpochEnd, Nonce, Seen};
use crate::epoch::Epoch;

/// An operator's order to depose the leader.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct DeposeOrder {
    /// The epoch to depose, or `None` for the newest epoch. Other epochs stay unchanged.
    pub only: Option<Epoch>,
    /// The operator asserts that the holder is dead, so no successor waits for its lease.
    pub force: bool,
}

/// The decision on a [`DeposeOrder`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Verdict {
    /// Overwrite the epoch object with its sealed record, if the object still has the ETag that was
    /// read.
    Seal { heartbeat: u64, ended: EpochEnd },
    /// The epoch is already sealed, so the order needs no write.
    Sealed(EpochEnd),
    /// The order is for another epoch, or the epoch does not have the nonce of the dead process
    /// (L8).
    NotCurrent,
    /// The record does not show when its holder stops leading (O4). After a seal without `force`, a
    /// successor would wait forever, or would not wait at all.
    NeedsForce,
}

impl DeposeOrder {
    /// Decides on this order from one read of an epoch object. `seen` is `None` if the body is not
    /// a record.
    pub fn decide(self, epoch: Epoch, seen: Option<&Seen>, validity: Option<Duration>) -> Verdict {
        if self.only.is_some_and(|only| only != epoch) {
            return Verdict::NotCurrent;
        }
        let ended = if self.force { EpochEnd::Lapsed } else { EpochEnd::Deposed };
        let Some(seen) = seen else {
            let seal = Verdict::Seal { heartbeat: 1, ended };
            return if self.force { seal } else { Verdict::NeedsForce };
        };
        // The seal raises the heartbeat by exactly one (O1). From this difference, an observer that
        // has seen the last renewal knows that no later renewal happened (E9).
        let seal = Verdict::Seal { heartbeat: seen.heartbeat.saturating_add(1), ended };
        match seen.ended {
            Some(_) if self.force && seen.is_waited_for() => seal,
            Some(ended) => Verdict::Sealed(ended),
            None if self.force => seal,
            None if seen.nonce.is_none() || validity.is_none() => Verdict::NeedsForce,
            None => seal,
        }
    }
}

/// Decides whether an order may seal the epoch of a dead process as resigned (L8). `holder` is the
/// epoch and nonce of the dead process. The caller must know that no living process acts for this
/// epoch.
pub fn resign_dead(holder: (Epoch, Nonce), epoch: Epoch, seen: &Seen) -> Verdict {
    if (epoch, seen.nonce) != (holder.0, Some(holder.1)) {
        return Verdict::NotCurrent;
    }
    match seen.ended {
        Some(ended) => Verdict::Sealed(ended),
        None => {
            let heartbeat = seen.heartbeat.saturating_add(1);
            Verdict::Seal { heartbeat, ended: EpochEnd::Resigned }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::message::Nonce;

    const VALIDITY: Option<Duration> = Some(Duration::from_secs(30));
    const PLAIN: DeposeOrder = DeposeOrder { only: None, force: false };
    const FORCE: DeposeOrder = DeposeOrder { only: None, force: true };

    fn epoch(number: u64) -> Epoch {
        Epoch::new(number).unwrap()
    }

    fn seen(nonce: u128, ended: Option<EpochEnd>) -> Seen {
        let nonce = (nonce != 0).then(|| Nonce::from_bits(nonce));
        Seen { nonce, heartbeat: 4, ended, reclaimable: false }
    }

    fn decide(order: DeposeOrder, seen: Seen, validity: Option<Duration>) -> Verdict {
        order.decide(epoch(3), Some(&seen), validity)
    }

    #[test]
    fn a_seal_raises_the_heartbeat_by_one() {
        let seal = |ended| Verdict::Seal { heartbeat: 5, ended };
        assert_eq!(decide(PLAIN, seen(7, None), VALIDITY), seal(EpochEnd::Deposed));
        assert_eq!(decide(FORCE, seen(7, None), VALIDITY), seal(EpochEnd::Lapsed));
        let mut last = seen(7, None);
        last.heartbeat = u64::MAX;
        let seal = Verdict::Seal { heartbeat: u64::MAX, ended: EpochEnd::Deposed };
        assert_eq!(decide(PLAIN, last, VALIDITY), seal);
    }

    #[test]
    fn an_order_for_one_epoch_leaves_other_epochs_unchanged() {
        for (only, other) in [(3, false), (2, true), (4, true)] {
            for force in [false, true] {
                let order = DeposeOrder { only: Some(epoch(only)), force };
                let verdict = decide(order, seen(7, None), VALIDITY);
                assert_eq!(verdict == Verdict::NotCurrent, other, "{order:?}: {verdict:?}");
            }
        }
    }

    #[test]
    fn a_record_without_nonce_or_validity_needs_force() {
        let seal = |heartbeat| Verdict::Seal { heartbeat, ended: EpochEnd::Lapsed };
        for (nonce, validity) in [(7, None), (0, VALIDITY), (0, None)] {
            assert_eq!(decide(PLAIN, seen(nonce, None), validity), Verdict::NeedsForce);
            assert_eq!(decide(FORCE, seen(nonce, None), validity), seal(5));
        }
        assert_eq!(PLAIN.decide(epoch(3), None, None), Verdict::NeedsForce);
        assert_eq!(FORCE.decide(epoch(3), None, None), seal(1));
    }

    #[test]
    fn resign_dead_seals_only_the_unsealed_epoch_of_the_dead_holder() {
        let decide =
            |number, seen| resign_dead((epoch(3), Nonce::from_bits(7)), epoch(number), &seen);
        let seal = Verdict::Seal { heartbeat: 5, ended: EpochEnd::Resigned };
        assert_eq!(decide(3, seen(7, None)), seal);
        for (number, nonce) in [(2, 7), (4, 7), (3, 8), (3, 0)] {
            assert_eq!(decide(number, seen(nonce, None)), Verdict::NotCurrent);
        }
        for ended in [EpochEnd::Resigned, EpochEnd::Lapsed, EpochEnd::Deposed, EpochEnd::Unknown] {
            assert_eq!(decide(3, seen(7, Some(ended))), Verdict::Sealed(ended));
        }
    }

    /// An order with `force` also ends the wait of successors after a seal (O5). Other orders leave
    /// a sealed epoch unchanged.
    #[test]
    fn a_sealed_epoch_is_sealed_again_only_to_end_a_wait() {
        let words = [EpochEnd::Resigned, EpochEnd::Lapsed, EpochEnd::Deposed, EpochEnd::Unknown];
        for ended in words {
            for nonce in [0, 7] {
                let seen = seen(nonce, Some(ended));
                assert_eq!(decide(PLAIN, seen, VALIDITY), Verdict::Sealed(ended));
                let expected = match ended {
                    EpochEnd::Deposed | EpochEnd::Unknown if nonce != 0 => {
                        Verdict::Seal { heartbeat: 5, ended: EpochEnd::Lapsed }
                    }
                    _ => Verdict::Sealed(ended),
                };
                assert_eq!(decide(FORCE, seen, VALIDITY), expected);
            }
        }
    }
}
