//! The form in which a server compares ETags.

use std::sync::atomic::{AtomicU8, Ordering};

use super::{ETag, GetOutcome, PutOutcome, Store, StoreError};

/// Records whether a server compares ETags with their quotes, or only without them (Ceph up to 16).
///
/// A server that compares tags without quotes refuses a quoted tag even if the object has that tag.
/// Until a write with a quoted tag has succeeded, [`replace`](ETagForm::replace) reads the object
/// after a refusal. If the object still has the tag, `replace` sends the write again without the
/// quotes. The refusal of the first write proves that it had no effect.
#[derive(Debug, Default)]
pub(super) struct ETagForm(AtomicU8);

const UNKNOWN: u8 = 0;
const QUOTED: u8 = 1;
const UNQUOTED: u8 = 2;

impl ETagForm {
    /// Makes the store send all further ETags without quotes.
    pub(super) fn set_unquoted(&self) {
        self.0.store(UNQUOTED, Ordering::SeqCst);
    }

    /// Returns the tag in the form that the server compares.
    pub(super) fn of<'t>(&self, tag: &'t str) -> &'t str {
        if self.0.load(Ordering::SeqCst) == UNQUOTED { unquoted(tag) } else { tag }
    }

    /// Replaces the object at `key` if it still has `etag`. `tag` is the part of `etag` that the
    /// server knows. `put` sends one write, on the condition that the object has the tag that `put`
    /// gets as its argument.
    pub(super) async fn replace<F: Future<Output = Result<PutOutcome, StoreError>>>(
        &self,
        store: &impl Store,
        key: &str,
        etag: &ETag,
        tag: &str,
        put: impl Fn(String) -> F,
    ) -> Result<PutOutcome, StoreError> {
        let sent = self.of(tag);
        let quoted = sent != unquoted(tag);
        let outcome = put(sent.to_owned()).await;
        let state = self.0.load(Ordering::SeqCst);
        match outcome {
            Ok(PutOutcome::Done { .. }) if quoted && state == UNKNOWN => {
                self.0.store(QUOTED, Ordering::SeqCst);
            }
            Ok(PutOutcome::PreconditionFailed)
                if quoted && state != QUOTED && still_has(store, key, etag).await =>
            {
                let again = put(unquoted(tag).to_owned()).await;
                if let Ok(PutOutcome::Done { .. }) = again {
                    self.set_unquoted();
                }
                return again;
            }
            _ => {}
        }
        outcome
    }
}

fn unquoted(tag: &str) -> &str {
    tag.trim_matches('"')
}

/// Reads the object. Returns true if the object has this tag.
async fn still_has(store: &impl Store, key: &str, etag: &ETag) -> bool {
    match store.get(key, None, 0).await {
        Ok(GetOutcome::Found(object)) => object.etag == *etag,
        Ok(GetOutcome::TooLarge { etag: now, .. }) => now == *etag,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;
    use crate::store::{MemoryStore, MockStore};

    /// Simulates a server that compares tags without their quotes, and records the tags that it
    /// gets.
    async fn put(sent: &Mutex<Vec<String>>, now: &str, tag: String) -> PutOutcome {
        sent.lock().unwrap().push(tag.clone());
        match tag == unquoted(now) {
            true => PutOutcome::Done { etag: Some(ETag::new("\"new\"")) },
            false => PutOutcome::PreconditionFailed,
        }
    }

    /// Returns a store that returns this tag in each read.
    fn shows(tag: &'static str) -> MockStore {
        let mut store = MockStore::new();
        let outcome =
            move |_: &str, _, _| Ok(GetOutcome::TooLarge { etag: ETag::new(tag), len: 1 });
        store.expect_get().returning(outcome);
        store
    }

    async fn replace(form: &ETagForm, now: &'static str, tag: &str) -> (PutOutcome, Vec<String>) {
        let sent = Mutex::new(Vec::new());
        let put = |tag| async { Ok(put(&sent, now, tag).await) };
        let outcome = form.replace(&shows(now), "k", &ETag::new(tag), tag, put).await.unwrap();
        (outcome, sent.into_inner().unwrap())
    }

    /// A call reads the object after a refusal, in order to detect whether the server compares
    /// ETags without quotes. If another process writes the object before this read, the read shows
    /// nothing about the server. A later call must still detect such a server.
    #[tokio::test]
    async fn regression_unquoted_etags_are_detected_after_a_check_that_shows_nothing() {
        let form = ETagForm::default();
        let (outcome, sent) = replace(&form, "\"other\"", "\"one\"").await;
        assert_eq!((outcome, sent.len()), (PutOutcome::PreconditionFailed, 1));
        let (outcome, sent) = replace(&form, "\"other\"", "\"other\"").await;
        assert!(matches!(outcome, PutOutcome::Done { .. }));
        assert_eq!(sent, ["\"other\"", "other"]);
        let (outcome, sent) = replace(&form, "\"third\"", "\"other\"").await;
        assert_eq!((outcome, sent), (PutOutcome::PreconditionFailed, vec!["other".to_owned()]));
    }

    #[tokio::test]
    async fn no_check_follows_after_a_server_has_accepted_a_quoted_etag() {
        let (form, store) = (ETagForm::default(), MemoryStore::new());
        let put = |outcome: PutOutcome| move |_| std::future::ready(Ok(outcome.clone()));
        let (etag, done) = (ETag::new("\"1\""), PutOutcome::Done { etag: None });
        form.replace(&store, "k", &etag, "\"1\"", put(done)).await.unwrap();
        // A read from this store would panic.
        let (store, refused) = (MockStore::new(), put(PutOutcome::PreconditionFailed));
        let outcome = form.replace(&store, "k", &etag, "\"1\"", refused).await.unwrap();
        assert_eq!(outcome, PutOutcome::PreconditionFailed);
    }

    /// If the server refuses both forms of an ETag, the refusals do not show that the server
    /// compares ETags without quotes.
    #[tokio::test]
    async fn etags_keep_their_quotes_after_a_refusal_of_both_forms() {
        let form = ETagForm::default();
        let refuse = |_| std::future::ready(Ok(PutOutcome::PreconditionFailed));
        let etag = ETag::new("\"1\"");
        form.replace(&shows("\"1\""), "k", &etag, "\"1\"", refuse).await.unwrap();
        assert_eq!(form.of("\"1\""), "\"1\"");
    }
}
