//! Writers that are not candidates of this library: an operator, and nodes that follow Morling's
//! post or the If-Match post (docs/how-to/upgrade.md).

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use serde_json::{Value, json};
use tenure::store::{GetOutcome, PutOutcome};
use tenure::{Deposed, Epoch, Layout, Restored, Store as _};
use tenure_model::time::{now, sleep};

use super::bucket::{LOCK, PREFIX, epoch_of, key_of};
use tenure_testkit::if_match::IfMatchNode;

use super::process::{join, machine, operators, spawn};
use super::store::SimStore;
use super::world::{Who, World};

/// Adds an operator, which acts only when a fault requires it. The operator's round trips are
/// short. So a deposition can take effect between the create of an epoch and its confirmation.
pub fn join_operator(world: &Arc<World>) -> Who {
    let who = join(world, "operator", machine(world, 1_000_000));
    world.state().members[who.0].near = true;
    who
}

/// Lets the operator call the library to depose the holder of the newest epoch. If the holder is
/// dead, the seal has the reason `lapsed`.
pub fn depose(world: &Arc<World>, operator: Who) {
    let store = SimStore::new(world, operator);
    let its_world = Arc::clone(world);
    spawn(world, operator, 0, async move {
        let Some(epoch) = its_world.state().bucket.newest() else { return };
        let single = its_world.plan.layout == Layout::SingleObject;
        let key = if single { LOCK.to_owned() } else { key_of(epoch) };
        let Ok(GetOutcome::Found(object)) = store.get(&key, None, 1 << 16).await else { return };
        let record: Value =
            serde_json::from_slice(&object.body).expect("every peer writes valid records");
        // A deposition counts as a fault, so the operator does not depose a leader after the faults
        // have ended.
        let sealed = record["expired"] == true || record["expires_at"].as_f64() == Some(0.0);
        if sealed || record["nonce"].is_null() || !its_world.state().faults {
            return;
        }
        // With the layout `SingleObject`, a candidate may have acquired the next epoch before the
        // operator read the record, so the record determines the epoch.
        let epoch = record["token"].as_u64().unwrap_or(epoch);
        let dead = its_world.is_dead(epoch, record["nonce"].as_str());
        let Some(only) = Epoch::new(epoch) else { return };
        let operator = operators(store);
        let deposed = match dead {
            true => operator.depose_dead(Some(only)).await,
            false => operator.depose(Some(only)).await,
        };
        // The operator ignores an error.
        if let Ok(Deposed::Sealed { .. }) = deposed {
            its_world.count(if dead { "dead leaders deposed" } else { "depositions" });
        }
    });
}

/// Lets the operator restore the election to a number above its newest epoch, or finish an
/// unfinished restore. Sometimes the operator is killed during the restore. Sometimes two restores
/// to different epochs run at the same time.
pub fn restore_for_a_while(world: &Arc<World>, operator: Who) {
    let operators = if world.chance(0.5) { 2 } else { 1 };
    for _ in 0..operators {
        let patience = {
            let (rtt, mut state) = (world.plan.rtt, world.state());
            if state.rng.bool() { state.part(rtt * 12) } else { world.plan.longest_validity() }
        };
        // A restore counts as a fault, so it must end before the faults end.
        if now() + patience >= world.plan.length {
            continue;
        }
        if operators == 2 {
            world.count("restores of two operators");
        }
        let its_world = Arc::clone(world);
        spawn(world, operator, 0, async move {
            tokio::select! {
                biased;
                () = restore(&its_world, operator, operators == 2) => {}
                () = sleep(patience) => its_world.count("restores given up"),
            }
        });
    }
}

/// Repeats the restore until no unfinished restore is left. During an unfinished restore, no
/// process can lead.
pub async fn finish_restoring(world: &Arc<World>, operator: Who) {
    while world.held().is_some() {
        restore(world, operator, false).await;
        sleep(world.plan.rtt).await;
    }
}

/// Restores the election, or finishes an unfinished restore. If `above` is true, sometimes restores
/// to a greater epoch instead of finishing the restore.
async fn restore(world: &Arc<World>, operator: Who, above: bool) {
    let (epoch, wait) = {
        let held = world.held();
        let mut state = world.state();
        let beyond = state.rng.u64(1..=5);
        let newest = state.bucket.newest().unwrap_or_default();
        let held = held.filter(|_| !above || state.rng.bool());
        let longest = if above && state.rng.bool() { world.plan.rtt } else { Duration::ZERO };
        (held.unwrap_or(newest + beyond), state.part(longest * 20))
    };
    let epoch = Epoch::new(epoch).expect("runs are short");
    let election = operators(SimStore::new(world, operator));
    match election.restore(epoch, wait).await {
        Ok(Restored::Sealed { .. } | Restored::Already(_)) => world.count("restores"),
        // Another operator was faster, or the outcome is unknown.
        Ok(_) | Err(_) => world.count("restores failed"),
    }
}

impl World {
    /// Returns the newest epoch if it belongs to an unfinished restore.
    fn held(&self) -> Option<u64> {
        let state = self.state();
        let newest = state.bucket.newest()?;
        let body = state.bucket.epoch(newest)?.body.as_ref()?;
        (!body.sealed && body.ended.as_deref() == Some("restored")).then_some(newest)
    }

    /// Returns whether the process that created the epoch with this nonce was killed.
    fn is_dead(&self, epoch: u64, nonce: Option<&str>) -> bool {
        let state = self.state();
        let mut writes = state.book.writes.iter();
        let write =
            writes.find(|w| w.epoch == epoch && w.create && w.body.nonce.as_deref() == nonce);
        write.is_some_and(|write| !state.members[write.who.0].alive)
    }
}

/// Starts a node that follows the If-Match post, with an arbitrary wall clock.
pub fn start_if_match(world: &Arc<World>, expires_in: Duration) -> Who {
    let clock = machine(world, 1_000_000);
    let who = join(world, "if-match", Arc::clone(&clock));
    let node = IfMatchNode { store: SimStore::new(world, who), key: LOCK, expires_in, clock };
    let its_world = Arc::clone(world);
    spawn(world, who, 0, async move {
        loop {
            sleep(expires_in / 4).await;
            let Some(mut held) = node.acquire().await else { continue };
            its_world.count("foreign leaderships");
            let renewals = its_world.state().rng.u32(0..12);
            for _ in 0..renewals {
                sleep(expires_in / 3).await;
                match node.renew(held.clone()).await {
                    Some(renewed) => held = renewed,
                    None => break,
                }
            }
            if its_world.chance(0.5) {
                node.release(held).await;
            }
        }
    });
    who
}

/// Starts a node that follows Morling's post. The node creates the next epoch when the newest epoch
/// is expired or old. The node never seals an epoch and never confirms its create. The node
/// rewrites its lock file unconditionally.
pub fn start_foreign(world: &Arc<World>, validity: Duration) -> Who {
    let who = join(world, "morling", machine(world, 1_000_000));
    let store = SimStore::new(world, who);
    let its_world = Arc::clone(world);
    spawn(world, who, 0, async move {
        let body = json!({ "validity_ms": validity.as_millis() as u64, "expired": false });
        let body = Bytes::from(body.to_string());
        loop {
            sleep(validity / 4).await;
            let Ok(page) = store.list(PREFIX, PREFIX, 1_000).await else { continue };
            // The simulated store may return short pages, so the node reads the listing to its end.
            let mut newest = page.entries.iter().filter_map(|e| epoch_of(&e.key)).max();
            let mut page = page;
            while page.truncated {
                let after = page.entries.last().map(|e| e.key.clone()).unwrap_or_default();
                let Ok(next) = store.list(PREFIX, &after, 1_000).await else { break };
                newest = newest.max(next.entries.iter().filter_map(|e| epoch_of(&e.key)).max());
                page = next;
            }
            if page.truncated || !its_world.looks_free(newest, validity) {
                continue;
            }
            let epoch = newest.unwrap_or_default() + 1;
            let created = store.create(&key_of(epoch), body.clone()).await;
            if !matches!(created, Ok(PutOutcome::Done { .. })) {
                continue;
            }
            its_world.count("foreign leaderships");
            let touches = its_world.state().rng.u32(0..12);
            for _ in 0..touches {
                sleep(validity / 3).await;
                its_world.touch(who, epoch, body.clone());
            }
        }
    });
    who
}

impl World {
    fn looks_free(&self, newest: Option<u64>, validity: Duration) -> bool {
        let state = self.state();
        let Some(stored) = newest.and_then(|epoch| state.bucket.epoch(epoch)) else {
            return newest.is_none();
        };
        let sealed = stored.body.as_ref().is_some_and(|body| body.sealed);
        sealed || now() - stored.modified > validity
    }

    fn touch(&self, who: Who, epoch: u64, body: Bytes) {
        let mut state = self.state();
        // If the object was deleted, the write of a real node creates the object again. The
        // simulation excludes this case.
        if state.bucket.epoch(epoch).is_some() {
            state.bucket.put(&key_of(epoch), body, now());
            state.note(who, &format!("touches epoch {epoch}"));
        }
    }
}
