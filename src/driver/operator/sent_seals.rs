//! The seals that one action of an operator has sent, and that have unknown outcomes.
//!
//! After a write with an unknown outcome, the action reads the object. The action reports success
//! only if the object has exactly the body that the action sent. Each write is conditional on the
//! ETag of the last reading, so a delayed write cannot overwrite a record that the action has not
//! read (O3).

use bytes::Bytes;

use super::{Operator, Standing, Wrote};
use crate::error::Error;
use crate::record::Record;
use crate::store::ETag;

/// The seals with an unknown outcome, each with a value that the caller has attached.
#[derive(Debug)]
pub(super) struct SentSeals<T> {
    seals: Vec<(Bytes, T)>,
    /// The last write with an unknown outcome. The write may still take effect while the object has
    /// this ETag, or while the object is missing (`None`).
    open: Option<(Option<ETag>, Error)>,
    /// The reason why the store rejected the last write.
    turned_away: Option<Error>,
}

impl<T> Default for SentSeals<T> {
    fn default() -> SentSeals<T> {
        SentSeals { seals: Vec::new(), open: None, turned_away: None }
    }
}

impl<T: Clone> SentSeals<T> {
    /// Compares the sent seals with the body in `now`, the last reading. If a seal is equal to the
    /// body, returns the value that the caller attached to this seal.
    pub(super) fn find(&mut self, now: &Standing) -> Option<T> {
        self.open.take_if(|(over, _)| over.as_ref() != Some(&now.etag));
        let seal = self.seals.iter().find(|(body, _)| now.body.as_ref() == Some(body));
        seal.map(|(_, value)| value.clone())
    }

    /// Notes the outcome of a write that was conditional on this ETag. Returns true if the write
    /// took effect.
    pub(super) fn note(
        &mut self,
        over: Option<ETag>,
        wrote: Wrote,
        seal: Option<(Bytes, T)>,
    ) -> bool {
        match wrote {
            Wrote::Done => {
                (self.open, self.turned_away) = (None, None);
                return true;
            }
            // An earlier attempt may have changed the object. The next reading shows the record of
            // that attempt.
            Wrote::Refused => self.turned_away = None,
            Wrote::TurnedAway(error) => self.turned_away = Some(error),
            Wrote::Unknown(error) => {
                self.seals.extend(seal);
                self.open = Some((over, error));
            }
        }
        false
    }

    /// Returns the error of the write with an unknown outcome, or `error` if no outcome is unknown.
    pub(super) fn instead(&self, error: Error) -> Error {
        self.open.as_ref().map_or(error, |(_, unknown)| unknown.clone())
    }

    /// Returns the error of the write with an unknown outcome.
    pub(super) fn unknown(self) -> Option<Error> {
        self.open.map(|(_, error)| error)
    }

    /// Returns the error of the last attempt, or `None` if the store refused this attempt because
    /// of a concurrent write.
    pub(super) fn failure(self) -> Option<Error> {
        self.open.map(|(_, error)| error).or(self.turned_away)
    }
}

impl Operator {
    /// Writes this seal over the object that was read last. Returns true if the write took effect.
    pub(super) async fn write_seal<T: Clone>(
        &mut self,
        sent: &mut SentSeals<T>,
        now: Standing,
        seal: &Record,
        value: T,
    ) -> Result<bool, Error> {
        let body = self.encode(now.epoch, seal);
        let wrote = self.replace("sealing", now.epoch, body.clone(), now.etag.clone()).await;
        let wrote = wrote.map_err(|error| sent.instead(error))?;
        Ok(sent.note(Some(now.etag), wrote, Some((body, value))))
    }
}
