//! What the epoch objects say while it goes on: when each was first seen and last renewed, and
//! whether a child is alive after its lease.

use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::Value;

use crate::child::now_ns;
use crate::history::{Call, Op, Ret};
use crate::place::Place;
use crate::troop::{Troop, runs};

/// How many of the newest epochs are looked at.
const WATCHED: u64 = 4;

#[derive(Default)]
pub struct Watch {
    epochs: BTreeMap<u64, Epoch>,
    newest: u64,
    pub renewals: Vec<Call>,
    /// Children that were seen alive after their lease.
    pub outlived: Vec<String>,
}

struct Epoch {
    /// A moment before it was made.
    before_ns: u64,
    /// Before which look at it, the last one, it was as it is now.
    looked_ns: u64,
    /// By when its last renewal, or its creation, had taken effect.
    renewed_ns: u64,
    record: Value,
}

impl Watch {
    /// One look. Whoever is alive is noted before the leases are read, so that a renewal in between
    /// cannot make it look late.
    pub fn look(&mut self, place: &Place, troop: &Troop, validity: Duration) {
        let alive_ns = now_ns();
        let mut alive = troop.children();
        alive.retain(|child| child.epoch + WATCHED > self.newest && runs(child.pid));
        if self.read(place).is_err() {
            return;
        }
        let validity_ns = u64::try_from(validity.as_nanos()).expect("a short lease");
        for child in alive.iter().filter(|child| !troop.paused.contains(&child.epoch)) {
            let Some(epoch) = self.epochs.get(&child.epoch) else { continue };
            let late_ns = alive_ns.saturating_sub(epoch.renewed_ns + validity_ns);
            if late_ns > 0 {
                let late = Duration::from_nanos(late_ns);
                self.outlived.push(format!("{child:?} lives {late:?} after its lease"));
            }
        }
    }

    fn read(&mut self, place: &Place) -> Result<(), ()> {
        let mut epoch = self.newest.saturating_sub(WATCHED).max(1);
        loop {
            let before_ns = now_ns();
            let Some(body) = place.epoch_object(epoch)? else {
                if epoch > self.newest {
                    return Ok(());
                }
                epoch += 1;
                continue;
            };
            let record: Value = serde_json::from_slice(&body).expect("records are JSON");
            self.note(epoch, record, before_ns);
            self.newest = self.newest.max(epoch);
            epoch += 1;
        }
    }

    fn note(&mut self, number: u64, record: Value, looked_ns: u64) {
        let seen_ns = now_ns();
        let Some(epoch) = self.epochs.get_mut(&number) else {
            // Made since the look that did not find it; the first one has none.
            let before_ns = self.epochs.values().map(|epoch| epoch.looked_ns).min().unwrap_or(0);
            let epoch = Epoch { before_ns, looked_ns, renewed_ns: seen_ns, record };
            self.epochs.insert(number, epoch);
            return;
        };
        if epoch.record != record {
            let renewed = record["expired"] == false && record["nonce"] == epoch.record["nonce"];
            if renewed {
                epoch.renewed_ns = seen_ns;
                self.renewals.push(Call {
                    thread: format!("renewals of {number}"),
                    op: Op::Renew(number),
                    ret: Ret::Renewed,
                    from_ns: epoch.looked_ns,
                    until_ns: seen_ns,
                });
            }
            assert!(
                record["expired"] == true || epoch.record["expired"] == false,
                "epoch {number} was unsealed: {:?}, then {record:?}",
                epoch.record
            );
            epoch.record = record;
        }
        epoch.looked_ns = looked_ns;
    }

    /// A moment before the epoch was made.
    pub fn before(&self, epoch: u64) -> u64 {
        self.epochs.get(&epoch).map_or(0, |epoch| epoch.before_ns)
    }
}
