//! The record of a session, and its lease.

#[cfg(feature = "internals")]
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use serde_json::Value;
use tokio::sync::oneshot;
use tokio_util::sync::CancellationToken;

#[cfg(feature = "internals")]
use super::Context;
use super::Record;
use crate::api::leadership::{Cancellation, Leadership, Lease};
use crate::driver::config::{MAX_DATA_LEVELS, nests_beyond};
use crate::driver::lead::Command;
#[cfg(feature = "internals")]
use crate::driver::lead::Lead;
use crate::env::moment::Moment;
use crate::epoch::Epoch;
use crate::error::Error;
use crate::protocol::layout::Layout;
use crate::protocol::message::EpochEnd;
use crate::record::{BadRecord, Formats, MAX_READ_BYTES, MAX_WRITTEN_BYTES};
use crate::store::Object;

/// Methods for the record in a session's object.
#[doc(hidden)]
impl Record {
    /// Greatest length of a readable body, in bytes.
    pub const MAX_READ_BYTES: usize = MAX_READ_BYTES;
    /// Greatest length of a written body, in bytes.
    pub const MAX_WRITTEN_BYTES: usize = MAX_WRITTEN_BYTES;

    /// Reads the record and the epoch from the body of a session's object. Returns `None` if the
    /// body is not a record.
    ///
    /// # Errors
    /// Returns a message if the record has a later format.
    pub fn of_single_object(object: &Object) -> Result<Option<(Epoch, Record)>, String> {
        match Record::decode(Formats::OneStore, None, &object.body) {
            Ok(read) => Ok(Some(read)),
            Err(later @ (BadRecord::TooNew(_) | BadRecord::OfSeveralStores)) => {
                Err(later.to_string())
            }
            Err(_) => Ok(None),
        }
    }

    /// Returns the end of the epoch as the protocol sees it. Unlike [`end`](Record::end), this
    /// method does not show whether an operator asserted the death of the holder.
    pub fn ended_as(&self) -> Option<EpochEnd> {
        self.seen().ended
    }

    /// Returns the body that seals a session's object and contains this data.
    pub fn seal(
        &self,
        (ended, heartbeat): (EpochEnd, u64),
        by: &str,
        at: Moment,
        (successor, data): (Option<&str>, Value),
    ) -> Bytes {
        let mut record = self.sealed(ended, heartbeat, by, at.time_of_day());
        record.successor = successor.map(str::to_owned);
        record.data = data;
        record.encode(Layout::SingleObject, Epoch::FIRST, Duration::ZERO).into()
    }

    /// Returns whether the data has too many levels for a record.
    pub fn nests_too_deep(data: &Value) -> bool {
        nests_beyond(data, MAX_DATA_LEVELS)
    }
}

/// Methods that change the data of the record, and a resignation that reserves partitions.
#[doc(hidden)]
impl Leadership {
    /// Requests a write of the data, and does not wait for the write.
    pub fn write_data(&self, data: Value) {
        let (reply, _) = oneshot::channel();
        self.command(Command::Proclaim { data, reply });
    }

    /// Writes data with the next renewal, so the write costs no extra request.
    pub fn renew_with(&self, data: Value) {
        self.command(Command::RenewWith { data });
    }

    /// Resigns as [`resign`](Leadership::resign) does, and reserves the partitions of this process
    /// for the name of this process.
    pub async fn resign_reserving(self, reserve: Option<Duration>) -> Result<(), Error> {
        self.give_up(None, reserve).await
    }
}

#[doc(hidden)]
impl Lease {
    /// Returns a token that is cancelled once the lease is at risk or lost.
    pub fn begin_work(&self) -> CancellationToken {
        self.lead.begin_work()
    }

    /// Returns the error of the last request, or `None` if it succeeded.
    pub fn last_error(&self) -> Option<Error> {
        self.lead.last_error()
    }

    /// Returns a lease for tests, which no driver renews.
    #[cfg(feature = "internals")]
    pub fn without_driver(cx: &Context, lasts: Duration) -> Lease {
        let (process, validity) = (cx.process.clone(), cx.config.validity);
        let (name, end) = (cx.config.name.clone(), process.now().plus(lasts));
        let leading = cx.meter.elected();
        let lead = Lead::new(Epoch::FIRST, name, validity, process, end, leading);
        Lease { lead: Arc::new(lead) }
    }

    /// Waits until another call has recorded the end of the lease. This method does not read the
    /// clocks.
    #[cfg(feature = "internals")]
    pub async fn until_ended(&self) {
        let mut status = self.lead.status.subscribe();
        while self.lead.loss().is_none() {
            // The sender lives in the lease, so the channel is open.
            let _ = status.changed().await;
        }
    }

    /// Ends the lease for this reason, unless it has ended before.
    #[cfg(feature = "internals")]
    pub fn end_with(&self, loss: crate::Loss) {
        self.lead.lose(loss);
    }
}

#[doc(hidden)]
impl Cancellation {
    /// Returns a cancellation signal for work under this lease. If the caller cancels `token`, the
    /// work must also stop.
    pub fn under(lease: &Lease, token: CancellationToken) -> Cancellation {
        Cancellation::of(lease, token)
    }
}
