//! One process: the shipped state machine, and the little that the driver adds to it.

use std::collections::BTreeSet;

use super::Broken;
use super::checks::Evaluated;
use super::store::{Name, Reply};
use crate::epoch::Epoch;
use crate::etag::ETag;
use crate::protocol::candidate::{Candidate, Event, Input, Rules, State};
use crate::protocol::find::Listing;
use crate::protocol::message::{Answer, Ended, Nonce, Request, Sighting, Write};

#[derive(Debug, Clone)]
pub(super) struct Process {
    pub(super) name: Name,
    pub(super) machine: Candidate,
    /// The message whose answer it waits for, and what it asked.
    pub(super) asked: Option<(usize, Request)>,
    /// The epoch granted and not lost, with its nonce.
    pub(super) leads: Option<(Epoch, Nonce)>,
    /// What the last listing by number showed when it was evaluated.
    pub(super) evaluated: Option<Evaluated>,
    pub(super) asleep_until: usize,
    /// The nonces sent in this life, and those of the creates of one epoch, in order.
    nonces: BTreeSet<Nonce>,
    creating: (Option<Epoch>, Vec<Nonce>),
    /// What was last seen of a foreign record.
    looked: Option<(Epoch, ETag, u8)>,
    /// Its name is unique and this is its first campaign: it may seal its predecessor's epoch.
    reclaims: bool,
}

impl Process {
    pub(super) fn new(name: Name, rules: Rules, reclaims: bool) -> Process {
        Process {
            name,
            machine: Candidate::new(rules, None),
            asked: None,
            leads: None,
            evaluated: None,
            asleep_until: 0,
            nonces: BTreeSet::new(),
            creating: (None, Vec::new()),
            looked: None,
            reclaims,
        }
    }

    /// A nonce for the next create; a broken process takes the one before again.
    pub(super) fn nonce(&self, fresh: Nonce, broken: Broken) -> Nonce {
        match (&self.machine.state, &self.creating) {
            (State::NeedNonce { epoch, .. }, (Some(creating), nonces))
                if broken == Broken::ReusedBody && epoch == creating =>
            {
                *nonces.last().unwrap_or(&fresh)
            }
            _ => fresh,
        }
    }

    /// What goes out instead of what the machine asks for.
    pub(super) fn outgoing(&mut self, request: Request, broken: Broken) -> Request {
        let Request::Create { epoch, write } = request else { return request };
        if self.creating.0 != Some(epoch) || write.heartbeat == 1 {
            self.creating = (Some(epoch), Vec::new());
        }
        self.creating.1.push(write.nonce);
        self.nonces.insert(write.nonce);
        let heartbeat = if broken == Broken::ReusedBody { 1 } else { write.heartbeat };
        Request::Create { epoch, write: Write { heartbeat, ..write } }
    }

    /// The answer that a broken process makes up without asking the store.
    pub(super) fn made_up(&self, request: &Request, broken: Broken) -> Option<Answer> {
        match (broken, request) {
            (Broken::NoConfirm, Request::List(_)) => {
                let confirming = matches!(self.machine.state, State::Confirm { .. });
                confirming.then_some(Answer::Listed(Listing { epochs: None, rest: None }))
            }
            (Broken::NoSeal, Request::Seal { ended: Ended::Lapsed, .. }) => {
                Some(Answer::Done { etag: ETag::new("made up") })
            }
            _ => None,
        }
    }

    /// What the driver makes of a reply.
    pub(super) fn incoming(&mut self, reply: Reply, broken: Broken) -> Answer {
        let Reply { mut answer, name, touches } = reply;
        let Some((_, Request::Get { epoch: Some(epoch), .. })) = &self.asked else { return answer };
        if let Answer::Found { sighting: Sighting { etag, seen, .. }, touched } = &mut answer {
            let looked = Some((*epoch, etag.clone(), touches));
            let same_body = self
                .looked
                .as_ref()
                .is_some_and(|(looked, before, _)| looked == epoch && before == etag);
            *touched = seen.nonce.is_none() && same_body && self.looked != looked;
            self.looked = looked;
            seen.reclaimable = self.reclaims
                && name == Some(self.name)
                && seen.nonce.is_some_and(|nonce| !self.nonces.contains(&nonce));
            let own_read = matches!(self.machine.state, State::ReadOwn { .. });
            if broken == Broken::TrustsName && own_read && name == Some(self.name) {
                seen.nonce = self.creating.1.last().copied();
            }
        }
        answer
    }

    /// Hands an input to the machine; a grant makes it a leader.
    pub(super) fn handle(&mut self, input: Input) -> Option<Event> {
        let event = self.machine.handle(input);
        if let Some(Event::Granted { epoch, heartbeat }) = event {
            let attempt = usize::try_from(heartbeat).expect("attempts are few") - 1;
            self.leads = Some((epoch, self.creating.1[attempt]));
            self.reclaims = false;
        }
        event
    }
}
