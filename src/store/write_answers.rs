//! The interpretation of the responses to conditional writes.

use std::sync::atomic::{AtomicU32, Ordering};

use super::{Determinacy, ETag, PutOutcome, StoreError, StoreErrorKind};

/// The meaning of the response to a conditional write. Outside the stores, only
/// `WriteAnswers::read` matches on a [`PutOutcome`].
#[derive(Debug)]
pub enum Written {
    /// The object was written and has this ETag.
    Done(ETag),
    /// The condition does not hold. Nothing was written.
    Refused,
    /// The object to replace does not exist. Nothing was written.
    Missing,
    /// The write may have taken effect, or may still take effect.
    Unknown(StoreError),
    /// Nothing was written.
    Failed(StoreError),
}

/// Interprets the responses to writes, and counts consecutive responses without an ETag.
#[derive(Debug)]
pub(crate) struct WriteAnswers {
    without_etag: AtomicU32,
    limit: u32,
}

impl WriteAnswers {
    /// Creates a counter. After `limit` consecutive writes that succeed without an ETag, the store
    /// counts as unfit for elections.
    pub(crate) fn new(limit: u32) -> WriteAnswers {
        WriteAnswers { without_etag: AtomicU32::new(0), limit }
    }

    pub(crate) fn read(&self, outcome: Result<PutOutcome, StoreError>) -> Written {
        match outcome {
            Ok(PutOutcome::Done { etag: Some(etag) }) => {
                self.without_etag.store(0, Ordering::Relaxed);
                Written::Done(etag)
            }
            Ok(PutOutcome::Done { etag: None }) => {
                let before = self.without_etag.fetch_add(1, Ordering::Relaxed);
                let kind = match before.saturating_add(1) < self.limit {
                    true => StoreErrorKind::Transient,
                    // After `limit` writes, the error must not be transient, because a campaign
                    // retries transient errors forever.
                    false => StoreErrorKind::Unsupported,
                };
                let why = "the response reports success without an ETag; check whether a proxy \
                           sent it";
                Written::Unknown(StoreError::new(kind, Determinacy::Indeterminate, why))
            }
            Ok(PutOutcome::PreconditionFailed) => Written::Refused,
            Ok(PutOutcome::NotFound) => Written::Missing,
            Err(error) => match error.determinacy() {
                Determinacy::Indeterminate => Written::Unknown(error),
                Determinacy::Determinate => Written::Failed(error),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::{Path, PathBuf};

    use super::*;

    /// Before the fix, five modules interpreted responses, and the module of groups counted a write
    /// without an ETag as done.
    #[test]
    fn only_stores_and_the_request_counter_match_on_a_put_outcome() {
        fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
            for entry in fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    sources(&path, found);
                } else if path.extension().is_some_and(|it| it == "rs") {
                    found.push(path);
                }
            }
        }
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
        let (mut found, mut others) = (Vec::new(), Vec::new());
        sources(&root, &mut found);
        for path in found {
            let name = path.strip_prefix(&root).unwrap().to_str().unwrap();
            let reads = ["store.rs", "store/", "telemetry/requests.rs"];
            let test = name.contains("tests");
            let allowed = test || reads.iter().any(|it| name.starts_with(it));
            if !allowed && fs::read_to_string(&path).unwrap().contains("PutOutcome::") {
                others.push(name.to_owned());
            }
        }
        assert!(others.is_empty(), "use WriteAnswers::read in {others:?}");
    }

    #[test]
    fn repeated_writes_without_an_etag_make_a_store_unfit() {
        let answers = WriteAnswers::new(5);
        let kind = || match answers.read(Ok(PutOutcome::Done { etag: None })) {
            Written::Unknown(error) => error.kind(),
            other => panic!("{other:?}"),
        };
        for _ in 0..2 {
            let kinds: Vec<_> = (0..6).map(|_| kind()).collect();
            assert_eq!(kinds[..4], [StoreErrorKind::Transient; 4]);
            assert_eq!(kinds[4..], [StoreErrorKind::Unsupported; 2]);
            let done = PutOutcome::Done { etag: Some(ETag::new("\"1\"")) };
            assert!(matches!(answers.read(Ok(done)), Written::Done(_)));
        }
    }
}
