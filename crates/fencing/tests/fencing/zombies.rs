//! Writers that pause between their check and their write. The `broken_` tests show the harm that a
//! paused writer causes without the guard.

use async_trait::async_trait;
use bytes::Bytes;
use tenure::store::{ETag, PutOutcome, StoreError};

use super::*;
use tenure_testkit::fault_store::{Call, Fault, FaultStore};
use tenure_testkit::layer::{Layer, Layered};
use tenure_testkit::time::wait;

fn faulty() -> (FaultStore, Arc<dyn Store>, Arc<dyn Store>) {
    let store = FaultStore::new(Arc::new(MemoryStore::new()));
    // Other processes use the inner store, which has no faults.
    (store.clone(), Arc::new(store.clone()), Arc::clone(store.inner()))
}

/// The zombie receives no response, and gives up its write. The write arrives at the store after
/// the write of the successor.
#[tokio::test(start_paused = true)]
async fn a_write_that_arrives_after_its_writer_gave_up_is_refused() {
    let (faults, slow, fast) = faulty();
    let mut old = object_of(&slow).open(e(1)).await.unwrap();
    faults.on(Call::Replace).always().fault(Fault::Late(secs(60)));
    let error = old.write("zombie").await.unwrap_err();
    assert!(error.may_have_happened(), "{error}");
    let object = object_of(&fast);
    object.open(e(2)).await.unwrap().write("two").await.unwrap();
    wait(secs(100)).await;
    assert_eq!(object.read().await.unwrap().unwrap().body.unwrap(), "two");
    assert!(old.write("zombie").await.unwrap_err().stale().is_some());
}

/// A store that keeps the first line of a body in metadata. As on S3, the ETag covers only the rest
/// of the body.
#[derive(Debug)]
struct LineIsMetadata(MemoryStore, std::sync::Mutex<std::collections::HashMap<String, Bytes>>);

impl LineIsMetadata {
    fn rest(&self, key: &str, body: &Bytes) -> Bytes {
        let end = body.iter().position(|byte| *byte == b'\n').unwrap();
        self.1.lock().unwrap().insert(key.to_owned(), body.slice(..=end));
        body.slice(end + 1..)
    }
}

#[async_trait]
impl Layer for LineIsMetadata {
    fn inner(&self) -> &dyn Store {
        &self.0
    }

    async fn get(
        &self,
        key: &str,
        unless: Option<ETag>,
        max_len: usize,
    ) -> Result<GetOutcome, StoreError> {
        let mut outcome = self.0.get(key, unless, max_len).await?;
        if let GetOutcome::Found(object) = &mut outcome {
            let line = self.1.lock().unwrap()[key].clone();
            object.body = [line, object.body.clone()].concat().into();
        }
        Ok(outcome)
    }

    async fn create(&self, key: &str, body: Bytes) -> Result<PutOutcome, StoreError> {
        let body = self.rest(key, &body);
        self.0.create(key, body).await
    }

    async fn replace(&self, key: &str, body: Bytes, etag: ETag) -> Result<PutOutcome, StoreError> {
        let body = self.rest(key, &body);
        self.0.replace(key, body, etag).await
    }
}

/// If the epoch were in the object's metadata, a claim would not change the ETag, and the
/// `If-Match` of the zombie would succeed.
#[tokio::test]
async fn broken_object_that_keeps_its_epoch_in_metadata_is_caught() {
    let store = LineIsMetadata(MemoryStore::new(), Default::default());
    let store: Arc<dyn Store> = Arc::new(Layered(store));
    let object = object_of(&store);
    let mut old = object.open(e(1)).await.unwrap();
    old.write("one").await.unwrap();
    object.open(e(2)).await.unwrap();
    old.write("zombie").await.expect("the store does not refuse the write");
    assert_eq!(object.read().await.unwrap().unwrap().body.unwrap(), "zombie");
}

/// If a trim deleted the claim after the last entry of a paused writer, the next number of that
/// writer would be free again. So a trim never deletes this claim.
#[tokio::test]
async fn a_writer_paused_before_an_append_is_refused_after_any_trim() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let log = log_of(&store);
    let mut old = log.open(e(1)).await.unwrap();
    old.append("a").await.unwrap();
    let mut new = log.open(e(2)).await.unwrap();
    for round in 0..20 {
        new.append(format!("{round}")).await.unwrap();
    }
    let mut newer = log.open(e(3)).await.unwrap();
    newer.append("b").await.unwrap();
    log.trim(u64::MAX).await.unwrap();
    // The floor of the trim is above the number of the append, so the writer cannot know whether an
    // earlier attempt succeeded.
    let stale = |error: FencingError| error.stale().map(|stale| (stale.offered, stale.newest));
    assert_eq!(stale(old.append("zombie").await.unwrap_err()), Some((e(1), e(2))));
    assert_eq!(stale(new.append("zombie").await.unwrap_err()), Some((e(2), e(3))));
    assert_eq!(log.latest().await.unwrap().unwrap().body, "b");
}

/// A trim that also deletes claims makes the next number of a paused writer free again.
#[tokio::test]
async fn broken_trim_that_deletes_claims_is_caught() {
    let store = Arc::new(MemoryStore::new());
    let log = log_of(&(Arc::clone(&store) as Arc<dyn Store>));
    let mut old = log.open(e(1)).await.unwrap();
    let mut new = log.open(e(2)).await.unwrap();
    new.append("a").await.unwrap();
    new.append("b").await.unwrap();
    log.trim(4).await.unwrap();
    store.delete(vec!["log/00000000000000000002".to_owned()]).await.unwrap();
    assert_eq!(
        old.append("zombie").await.unwrap(),
        2,
        "the store accepts an append that no reader sees"
    );
    assert_eq!(all(&log, 4).await, [(4, 2, "b".to_owned())]);
    assert!(log.read_from(2).try_collect::<Vec<_>>().await.is_err());
}

/// A writer finds the end of the log and pauses before its claim at the next number. Meanwhile,
/// another writer appends an entry at this number, and a trim deletes the entry.
#[tokio::test(start_paused = true)]
async fn a_claim_at_a_trimmed_number_is_invalid() {
    for (token, expected) in [(2, Some((2, 3))), (4, None)] {
        let (faults, slow, fast) = faulty();
        let log = log_of(&fast);
        let mut first = log.open(e(1)).await.unwrap();
        first.append("a").await.unwrap();
        faults.on(Call::Create).fault(Fault::Slow(secs(20)));
        let slow = log_of(&slow);
        let zombie = tokio::spawn(async move { slow.open(e(token)).await });
        wait(secs(10)).await;
        first.append("b").await.unwrap();
        let mut third = log.open(e(3)).await.unwrap();
        assert_eq!(third.append("c").await.unwrap(), 5);
        assert_eq!(third.append("d").await.unwrap(), 6);
        log.trim(6).await.unwrap();
        // The delayed claim arrives at number 3, whose entry was trimmed.
        let opened = zombie.await.unwrap();
        match expected {
            Some((offered, newest)) => refused(opened, offered, newest),
            None => assert_eq!(opened.unwrap().append("e").await.unwrap(), 8, "a claim at 7"),
        }
        let there = faults.inner().get("log/00000000000000000003", None, 999).await.unwrap();
        assert!(matches!(there, GetOutcome::Found(_)), "the ghost exists");
        let latest = log.latest().await.unwrap().unwrap();
        assert_eq!(latest.number, if token == 4 { 8 } else { 6 });
        let error = log.read_from(3).try_collect::<Vec<_>>().await.unwrap_err();
        assert!(matches!(error, FencingError::Trimmed { oldest: 6 }), "{error}");
    }
}

/// The reader finds the newest number before a trim. It reads the object at this number after the
/// trim. By then the trim has deleted the entry, and a delayed request has created a ghost there.
/// The ghost is the claim of a writer that searched for the end when the log had only the claim at
/// 1.
#[tokio::test(start_paused = true)]
async fn a_reader_paused_before_its_read_does_not_see_a_ghost() {
    let (faults, slow, fast) = faulty();
    let log = log_of(&fast);
    let mut writer = log.open(e(1)).await.unwrap();
    faults.on(Call::Create).fault(Fault::Slow(secs(20)));
    let opener = log_of(&slow);
    let opener = tokio::spawn(async move { opener.open(e(2)).await });
    wait(secs(1)).await;
    assert_eq!(writer.append("a").await.unwrap(), 2);
    faults.on(Call::Get).key("0002").fault(Fault::Slow(secs(40)));
    let reader = log_of(&slow);
    let reader = tokio::spawn(async move { reader.latest().await });
    wait(secs(1)).await;
    let mut third = log.open(e(3)).await.unwrap();
    third.append("b").await.unwrap();
    log.trim(4).await.unwrap();
    refused(opener.await.unwrap(), 2, 3);
    let ghost = faults.inner().get("log/00000000000000000002", None, 999).await.unwrap();
    assert!(matches!(ghost, GetOutcome::Found(_)), "{ghost:?}");
    let latest = reader.await.unwrap().unwrap().unwrap();
    assert_eq!((latest.number, latest.epoch), (4, e(3)), "the ghost is ignored");
}

/// The trim deletes entries between the reader's listing and its reads.
#[tokio::test(start_paused = true)]
async fn a_trim_during_a_read_of_the_entries_is_reported() {
    let (faults, slow, fast) = faulty();
    let log = log_of(&fast);
    let mut writer = log.open(e(1)).await.unwrap();
    for body in ["a", "b", "c"] {
        writer.append(body).await.unwrap();
    }
    faults.on(Call::Get).key("0002").fault(Fault::Slow(secs(20)));
    let reader = log_of(&slow);
    let reader = tokio::spawn(async move { reader.read_from(2).try_collect::<Vec<_>>().await });
    wait(secs(10)).await;
    log.trim(4).await.unwrap();
    let error = reader.await.unwrap().unwrap_err();
    assert!(matches!(error, FencingError::Trimmed { oldest: 4 }), "{error}");
}

/// The instance pauses after it has read the object of the gate, and before it writes the greater
/// token.
#[tokio::test(start_paused = true)]
async fn a_delayed_write_does_not_lower_the_gate() {
    let (faults, slow, fast) = faulty();
    let (gate, other) = (gate_of(&slow), gate_of(&fast));
    gate.admit(e(1)).await.unwrap();
    faults.on(Call::Replace).fault(Fault::Slow(secs(20)));
    let late = gate.clone();
    let late = tokio::spawn(async move { late.admit(e(2)).await });
    wait(secs(10)).await;
    other.admit(e(3)).await.unwrap();
    refused(late.await.unwrap(), 2, 3);
    assert_eq!(gate.newest().await.unwrap(), Some(e(3)));
}

/// One of two instances uses `sole_instance`, so it does not see the tokens of the other instance.
#[tokio::test]
async fn broken_sole_instance_with_a_second_instance_is_caught() {
    let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
    let sole = DurableGate::new(Arc::clone(&store), "g").sole_instance();
    let strict = DurableGate::new(Arc::clone(&store), "g");
    sole.admit(e(1)).await.unwrap();
    strict.admit(e(1)).await.unwrap();
    gate_of(&store).admit(e(2)).await.unwrap();
    sole.admit(e(1)).await.expect("a sole instance does not read the object");
    refused(strict.admit(e(1)).await, 1, 2);
}
