//! Watches the epoch objects and the children during the run. Records creations and renewals of
//! epoch objects, and checks that the newest epoch object exists.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::backend::Backend;
use crate::child::now_ns;
use crate::fleet::{ChildOf, runs};

/// The test polls only the newest epochs, and at most this number of them.
const WATCHED: u64 = 4;

/// The observed epoch objects. For each effect of a write, the watch records an interval that
/// contains the time of the effect. It begins before the last poll that missed the effect, and ends
/// after the first poll that showed it.
#[derive(Default)]
pub struct Watch {
    pub epochs: BTreeMap<u64, Epoch>,
    newest: u64,
    /// A time shortly before the start of the last poll that found no epoch above `newest`.
    nothing_above_ns: u64,
    /// For each epoch, the times at which its child was alive.
    pub alive: BTreeMap<u64, Vec<u64>>,
    /// Number of epochs that were created again after their compaction.
    pub made_again: usize,
    /// Descriptions of the observations that break a rule of the protocol.
    pub wrong: Vec<String>,
}

pub struct Epoch {
    pub made: Seen,
    pub renewed: Vec<Seen>,
    /// Time of the first poll that showed that the epoch was resigned.
    pub resigned_ns: Option<u64>,
    /// A time shortly before the poll that read `record`.
    looked_ns: u64,
    record: Value,
}

/// An interval that contains the time at which a write took effect.
#[derive(Clone, Copy, Debug)]
pub struct Seen {
    pub from_ns: u64,
    pub until_ns: u64,
}

impl Watch {
    /// Polls once, and returns whether the store answered. After a failure, the next poll observes
    /// the missed changes.
    pub fn look(&mut self, backend: &Backend, children: &[ChildOf]) -> bool {
        for child in children.iter().filter(|child| child.epoch + WATCHED > self.newest) {
            let at_ns = now_ns();
            if runs(child.pid) {
                self.alive.entry(child.epoch).or_default().push(at_ns);
            }
        }
        self.read(backend).is_ok()
    }

    /// Returns the number of observed renewals.
    pub fn renewals(&self) -> usize {
        self.epochs.values().map(|epoch| epoch.renewed.len()).sum()
    }

    fn read(&mut self, backend: &Backend) -> Result<(), ()> {
        let before = self.newest;
        for epoch in before.saturating_sub(WATCHED).max(1)..=before {
            let looked_ns = now_ns();
            match backend.epoch_object(epoch)? {
                Some(body) => self.note(epoch, &body, looked_ns, now_ns()),
                None if epoch == before => {
                    // The object is missing. If a greater epoch exists, the compactor has deleted
                    // this object. If none exists, the store has lost the object.
                    match backend.epochs_after(epoch)?.first() {
                        Some(next) => self.newest = next - 1,
                        None => self.wrong.push(format!("epoch {epoch}, the newest, is missing")),
                    }
                }
                None => {}
            }
        }
        loop {
            let looked_ns = now_ns();
            let Some(body) = backend.epoch_object(self.newest + 1)? else {
                self.nothing_above_ns = looked_ns;
                return Ok(());
            };
            self.newest += 1;
            self.note(self.newest, &body, looked_ns, now_ns());
        }
    }

    fn note(&mut self, number: u64, body: &[u8], looked_ns: u64, seen_ns: u64) {
        let record: Value = serde_json::from_slice(body).expect("records are JSON");
        let Some(epoch) = self.epochs.get_mut(&number) else {
            let made = Seen { from_ns: self.nothing_above_ns, until_ns: seen_ns };
            let resigned_ns = is_resigned(&record).then_some(seen_ns);
            let epoch = Epoch { made, renewed: Vec::new(), resigned_ns, looked_ns, record };
            self.epochs.insert(number, epoch);
            return;
        };
        let expired = |record: &Value| record["expired"] == true;
        if epoch.record["nonce"] != record["nonce"] {
            // A candidate was suspended (SIGSTOP) before it created this epoch. Meanwhile another
            // candidate held the epoch, and the compactor deleted the epoch. Then the suspended
            // candidate continued and created the epoch again. The create is allowed if the
            // candidate does not lead afterwards. If it leads, the checkers find a second child of
            // the epoch, or a renewal of the epoch after the grant of a greater epoch.
            self.made_again += 1;
            (epoch.record, epoch.looked_ns) = (record, looked_ns);
            return;
        }
        if expired(&epoch.record) && !expired(&record) {
            self.wrong.push(format!(
                "the seal of epoch {number} was reverted: {:?}, {record:?}",
                epoch.record
            ));
        }
        let beats = |record: &Value| record["heartbeat"].as_u64().unwrap_or_default();
        let writes = beats(&record).saturating_sub(beats(&epoch.record));
        // A seal also raises the heartbeat by one. So if the epoch was sealed since the last poll,
        // and the heartbeat rose by only one, there was no renewal.
        if writes > u64::from(expired(&record) && !expired(&epoch.record)) {
            epoch.renewed.push(Seen { from_ns: epoch.looked_ns, until_ns: seen_ns });
        }
        if is_resigned(&record) {
            epoch.resigned_ns.get_or_insert(seen_ns);
        }
        epoch.record = record;
        epoch.looked_ns = looked_ns;
    }
}

fn is_resigned(record: &Value) -> bool {
    record["ended"] == "resigned"
}

impl Epoch {
    /// Returns an upper bound on the end of the lease that the leader has at the time `at_ns`. In
    /// the leader, the validity begins when it sends its last successful write. In this bound, the
    /// validity begins at the end of the interval in which this write took effect.
    pub fn lease_end(&self, at_ns: u64, validity_ns: u64) -> u64 {
        let mut effective = self.renewed.iter().filter(|seen| seen.from_ns <= at_ns);
        let last = effective.next_back().unwrap_or(&self.made);
        last.until_ns + validity_ns
    }
}

mod tests {
    use super::*;

    fn noted(records: &[&str]) -> Watch {
        let mut watch = Watch::default();
        for (at, record) in records.iter().enumerate() {
            let at_ns = 100 * at as u64;
            watch.note(1, record.as_bytes(), at_ns, at_ns + 10);
        }
        watch
    }

    const MADE: &str = r#"{"expired":false,"nonce":"a","heartbeat":1}"#;
    const RENEWED: &str = r#"{"expired":false,"nonce":"a","heartbeat":2}"#;

    #[test]
    fn a_renewal_between_two_polls_extends_the_lease() {
        let watch = noted(&[MADE, MADE, RENEWED, RENEWED]);
        assert!(watch.wrong.is_empty(), "{:?}", watch.wrong);
        // The poll at time 100 did not show the renewal, so the renewal took effect after this
        // time.
        assert_eq!(watch.epochs[&1].lease_end(99, 1_000), 1_010);
        assert_eq!(watch.epochs[&1].lease_end(100, 1_000), 1_210);
    }

    #[test]
    fn a_renewal_between_a_poll_and_a_seal_is_counted() {
        let sealed = |beats| format!(r#"{{"expired":true,"nonce":"a","heartbeat":{beats}}}"#);
        assert_eq!(noted(&[MADE, &sealed(2)]).epochs[&1].renewed.len(), 0);
        assert_eq!(noted(&[MADE, &sealed(3)]).epochs[&1].renewed.len(), 1);
    }

    #[test]
    fn a_resignation_is_seen_once() {
        let resigned = r#"{"expired":true,"nonce":"a","heartbeat":2,"ended":"resigned"}"#;
        assert_eq!(noted(&[MADE]).epochs[&1].resigned_ns, None);
        assert_eq!(noted(&[MADE, resigned, resigned]).epochs[&1].resigned_ns, Some(110));
        assert_eq!(noted(&[resigned]).epochs[&1].resigned_ns, Some(10));
    }

    #[test]
    fn broken_seal_that_is_reverted_is_caught() {
        let sealed = r#"{"expired":true,"nonce":"a","heartbeat":2}"#;
        assert_eq!(noted(&[MADE, sealed, RENEWED]).wrong.len(), 1);
    }

    #[test]
    fn an_epoch_that_is_created_again_must_not_be_renewed() {
        let by_b = |record: &str| record.replace("\"a\"", "\"b\"");
        let watch = noted(&[MADE, RENEWED, &by_b(RENEWED)]);
        assert_eq!((watch.made_again, watch.epochs[&1].renewed.len()), (1, 1));
        assert!(watch.wrong.is_empty(), "{:?}", watch.wrong);
        // The checker in `checker.rs` rejects this third write, because it renews an epoch below a
        // greater granted epoch.
        let third = r#"{"expired":false,"nonce":"b","heartbeat":3}"#;
        let watch = noted(&[MADE, RENEWED, &by_b(RENEWED), third]);
        assert_eq!(watch.epochs[&1].renewed.len(), 2);
    }

    #[test]
    fn broken_compactor_that_deletes_the_newest_epoch_is_caught() {
        let dir = tempfile::tempdir().expect("a temporary directory");
        let backend = Backend::dir(dir.path());
        let mut watch = Watch::default();
        watch.look(&backend, &[]);
        backend.make_epoch_object(1, MADE);
        watch.look(&backend, &[]);
        assert!(watch.wrong.is_empty() && watch.epochs.len() == 1, "{:?}", watch.wrong);
        backend.delete_epoch_object(1);
        watch.look(&backend, &[]);
        assert_eq!(watch.wrong, ["epoch 1, the newest, is missing"]);
    }
}
