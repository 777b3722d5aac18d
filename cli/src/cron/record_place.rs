//! The key of the period record in the store, and the function that reads the record.

use std::fmt;
use std::sync::Arc;

use tenure::store::Store;
use tenure_fencing::FencedObject;

use super::period::record::{BadRecord, PeriodRecord};
use crate::exit::{self, Failure};
use crate::output::print::plain;
use crate::store::find::{FoundKind, has};

/// The key of the period record, under the prefix of the election.
const KEY: &str = "once-per.json";

/// The store and the key of the period record of one election.
#[derive(Debug, Clone)]
pub struct RecordPlace {
    pub store: Arc<dyn Store>,
    pub key: String,
}

impl RecordPlace {
    pub fn new(store: Arc<dyn Store>, prefix: &str) -> RecordPlace {
        let prefix = prefix.strip_suffix('/').unwrap_or(prefix);
        let key = if prefix.is_empty() { KEY.to_owned() } else { format!("{prefix}/{KEY}") };
        RecordPlace { store, key }
    }

    /// Reads the period record. Returns `None` if no period was begun. Sends 1 GET.
    pub async fn read(&self) -> Result<Option<PeriodRecord>, Failure> {
        let contents = self.object().read().await?;
        self.parse(contents.and_then(|contents| contents.body).as_deref())
    }

    /// Reads the record for an observer. The observer's access policy may permit reads of epochs
    /// only, so after a denied read, a LIST shows whether a record exists. Returns `None` if no
    /// record exists.
    pub async fn observe(&self) -> Result<Option<PeriodRecord>, Failure> {
        match self.read().await {
            Err(failure) if failure.code == exit::ACCESS_DENIED && !self.exists().await => Ok(None),
            read => read,
        }
    }

    /// Returns whether a period record exists. Returns false if the store does not answer. Sends 1
    /// LIST.
    pub async fn exists(&self) -> bool {
        has(&self.store, self.prefix(), FoundKind::Job).await == Some(true)
    }

    fn prefix(&self) -> &str {
        self.key.strip_suffix(KEY).unwrap_or_default().trim_end_matches('/')
    }

    pub fn parse(&self, body: Option<&[u8]>) -> Result<Option<PeriodRecord>, Failure> {
        body.map(PeriodRecord::parse).transpose().map_err(|bad| {
            let why = match bad {
                BadRecord::Corrupt => format!(
                    "{self} is not a record of --once-per, so CMD does not run. Restore the \
                     object; or stop all hosts and delete it: CMD may then run again in this period"
                ),
                BadRecord::TooNew(format) => format!(
                    "{self} has format {format}: use the version of tenure that wrote it, or a \
                     later one"
                ),
            };
            Failure::new(exit::UNSAFE, why)
        })
    }

    /// Returns the location of the election. In metrics, this is the value of the label `election`.
    pub fn election(&self) -> String {
        let store = self.store.describe();
        let store = store.split_once(" at ").map_or(store.as_str(), |(store, _)| store);
        let prefix = self.prefix();
        let separator = if prefix.is_empty() { "" } else { "/" };
        format!("{store}{separator}{prefix}")
    }

    pub fn object(&self) -> FencedObject {
        FencedObject::new(Arc::clone(&self.store), self.key.as_str())
    }
}

impl fmt::Display for RecordPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&plain(&format!("{} in {}", self.key, self.store.describe())))
    }
}
