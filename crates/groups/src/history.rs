//! Lists and reads the assignments of a group, for `tenure group history`.

use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};
use tenure::internals::EpochObjects;
use tenure::store::GetOutcome;
use tenure::{Epoch, Error, Store};

use super::assignment_record::{AssignmentRecord, BadAssignment, MAX_BYTES};
use super::{ASSIGNMENT, GroupSnapshot};

/// The assignments of the group at one prefix.
#[derive(Debug, Clone)]
pub struct Assignments(EpochObjects);

/// An assignment object and its contents.
#[derive(Debug)]
pub struct AssignmentObject {
    /// Time of the assignment's creation, by the store's clock. An assignment is never overwritten.
    pub created: Option<DateTime<Utc>>,
    /// Time of the read, by the store's clock.
    pub served_at: Option<DateTime<Utc>>,
    /// Content of the assignment, or the reason why it cannot be read.
    pub group: Result<GroupSnapshot, String>,
}

impl Assignments {
    /// Returns the assignments of the group at this prefix. `app` and `app/` are the same prefix.
    pub fn new(store: Arc<dyn Store>, prefix: &str) -> Result<Assignments, Error> {
        EpochObjects::numbered(store, prefix, ASSIGNMENT).map(Assignments)
    }

    /// Lists all assignments in ascending order, each with its age. Also returns the time by the
    /// store's clock and the number of requests.
    pub async fn list(
        &self,
        each: impl FnMut(Epoch, Option<Duration>),
    ) -> Result<(Option<DateTime<Utc>>, u64), Error> {
        self.0.list(each).await
    }

    /// Reads an assignment. Returns `None` if the assignment does not exist.
    pub async fn read(&self, epoch: Epoch) -> Result<Option<AssignmentObject>, Error> {
        let (decoded, created, served_at) = match self.0.object(epoch, MAX_BYTES).await? {
            GetOutcome::Found(object) => {
                let decoded = AssignmentRecord::decode(epoch, &object.body);
                (decoded, object.last_modified, object.served_at)
            }
            GetOutcome::TooLarge { len, .. } => {
                let length = usize::try_from(len).unwrap_or(usize::MAX);
                (Err(BadAssignment::TooLarge(length)), None, None)
            }
            _ => return Ok(None),
        };
        let group = decoded
            .map(|record| GroupSnapshot::of(Some(&Arc::new(record.assignment))))
            .map_err(|why| why.to_string());
        Ok(Some(AssignmentObject { created, served_at, group }))
    }
}
