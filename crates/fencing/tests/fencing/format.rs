//! The bytes of the objects on the store, which programs of other versions read.

use super::*;

/// Returns the object's content, with `N` in place of its nonce.
async fn without_nonce(memory: &MemoryStore, key: &str) -> String {
    let body = object_at(memory, key).await;
    let (before, rest) = body.split_once("\"nonce\":\"").unwrap();
    let (nonce, after) = rest.split_once('"').unwrap();
    assert!(nonce.len() == 32 && nonce.bytes().all(|it| it.is_ascii_hexdigit()), "{nonce}");
    format!("{before}\"nonce\":N{after}")
}

#[tokio::test(start_paused = true)]
async fn unused_fields_are_not_written() {
    let memory = Arc::new(MemoryStore::new());
    let store = Arc::clone(&memory) as Arc<dyn Store>;
    let mut writer = log_of(&store).open(e(2)).await.unwrap();
    writer.append("x").await.unwrap();
    let [claim, entry] = [1, 2].map(|number| format!("log/{number:020}"));
    assert_eq!(
        without_nonce(&memory, &claim).await,
        "{\"tenure_log\":1,\"epoch\":2,\"nonce\":N,\"claim\":0,\"claims_after\":0}\n"
    );
    assert_eq!(
        without_nonce(&memory, &entry).await,
        "{\"tenure_log\":1,\"epoch\":2,\"nonce\":N,\"claim\":1}\nx"
    );
    // An older version refuses a gate with the field `resets`. So the line of a gate that was never
    // reset omits this field.
    gate_of(&store).admit(e(2)).await.unwrap();
    assert_eq!(object_at(&memory, "g").await, "{\"tenure_gate\":1,\"newest\":2}\n");
}

/// A delayed claim creates an object at the number of a trimmed entry.
#[tokio::test(start_paused = true)]
async fn a_claim_in_place_of_the_newest_entry_is_not_an_entry() {
    let memory = Arc::new(MemoryStore::new());
    let log = log_of(&(Arc::clone(&memory) as Arc<dyn Store>));
    let mut older = log.open(e(1)).await.unwrap();
    let number = older.append("old").await.unwrap();
    let claim = object_at(&memory, &format!("log/{:020}", 1)).await;
    let newest = log.open(e(2)).await.unwrap().append("new").await.unwrap();
    log.trim(newest).await.unwrap();
    // The delayed claim arrives at the number of the trimmed entry.
    memory.create(&format!("log/{number:020}"), claim.into()).await.unwrap();
    let latest = older.latest().await.unwrap().unwrap();
    assert_eq!((latest.number, latest.epoch), (newest, e(2)));
}
