//! What the checkers know: who wrote what and when, who was granted what, who leads.

use std::collections::BTreeMap;
use std::time::Duration;

use tenure::Moment;

use super::Seen;
use crate::sim::bucket::{Body, key_of};
use crate::sim::world::Who;

pub type WriteId = usize;
pub type LeadId = usize;

/// A create or an overwrite of an epoch object, as it left its sender.
#[derive(Debug, Clone)]
pub struct Write {
    pub who: Who,
    pub epoch: u64,
    pub body: Body,
    pub create: bool,
    /// The sender's true clocks just before.
    pub sent: Moment,
    /// True if the sender's wall clock may end its lease.
    pub by_wall: bool,
    /// The store's step that applied it first, if any.
    pub applied: Option<u64>,
}

/// An epoch that a campaign was told it has won.
#[derive(Debug, Clone)]
pub struct Grant {
    pub who: Who,
    pub epoch: u64,
    pub nonce: String,
    /// The first page of the confirming LIST; `None` if the winner never got one.
    pub confirm: Option<Seen>,
}

/// A leadership, from the end of the campaign to the end of the belief.
#[derive(Debug, Clone)]
pub struct Lead {
    pub id: LeadId,
    pub who: Who,
    pub epoch: u64,
    pub nonce: String,
    /// The epoch object had been sealed before the LIST that confirmed the grant.
    pub born_sealed: bool,
    pub began: Duration,
    pub over: Option<Duration>,
    /// What its application was told then, in one word.
    pub outcome: &'static str,
}

/// Who ended an epoch, and at which of the store's steps.
#[derive(Debug, Clone, Copy)]
pub struct Seal {
    pub by: Who,
    pub step: u64,
}

#[derive(Debug, Default)]
pub struct Book {
    pub writes: Vec<Write>,
    by_sender: BTreeMap<(Who, u64), Vec<WriteId>>,
    /// The last first page of a LIST beyond an epoch that reached its sender before it renewed.
    confirms: BTreeMap<(Who, u64), Seen>,
    pub grants: BTreeMap<u64, Grant>,
    /// The first seal of each epoch and nonce.
    seals: BTreeMap<(u64, Option<String>), Seal>,
    pub leads: Vec<Lead>,
    pub step: u64,
}

impl Write {
    /// How long ago it was sent, by the clock that shows the most. Boot and wall are slewed alike,
    /// so what the wall clock has gained on the boot clock has passed beside what the raw clock
    /// shows.
    fn passed(&self, now: Moment) -> Duration {
        let nanos =
            |now: Duration, then: Duration| now.as_nanos() as i128 - then.as_nanos() as i128;
        let boot = nanos(now.boot, self.sent.boot);
        let raw = nanos(now.raw, self.sent.raw);
        let wall = nanos(now.wall, self.sent.wall);
        let by_wall = if self.by_wall { wall.max(raw + wall - boot) } else { 0 };
        let passed = boot.max(raw).max(by_wall).max(0);
        Duration::from_nanos(u64::try_from(passed).expect("a simulation lasts hours"))
    }
}

impl Book {
    pub fn sent(&mut self, write: Write) -> WriteId {
        let id = self.writes.len();
        self.by_sender.entry((write.who, write.epoch)).or_default().push(id);
        self.writes.push(write);
        id
    }

    pub fn applied(&mut self, id: WriteId) {
        let write = &mut self.writes[id];
        write.applied.get_or_insert(self.step);
        if write.body.sealed {
            let seal = Seal { by: write.who, step: self.step };
            self.seals.entry((write.epoch, write.body.nonce.clone())).or_insert(seal);
        }
    }

    pub fn seal(&self, epoch: u64, nonce: Option<String>) -> Option<Seal> {
        self.seals.get(&(epoch, nonce)).copied()
    }

    pub fn received(&mut self, page: Seen) {
        let Some((who, epoch)) = self.last_create(&page) else { return };
        // It leads already. A seal is that of an operator's call of the same process.
        if self.sent_by(who, epoch).any(|write| !write.create && !write.body.sealed) {
            return;
        }
        // An observer of the same process may look there, too, and later.
        let greater = page.newest > Some(epoch);
        if !greater || !self.confirms.contains_key(&(who, epoch)) {
            self.confirms.insert((who, epoch), page);
        }
    }

    /// The create that a page may confirm: one beyond its own epoch.
    fn last_create(&self, page: &Seen) -> Option<(Who, u64)> {
        let mut creates = self.by_sender.range((page.who, 0)..=(page.who, u64::MAX)).rev();
        let (&(who, epoch), _) = creates.find(|((_, epoch), _)| key_of(*epoch) == page.after)?;
        Some((who, epoch))
    }

    pub fn confirm(&self, who: Who, epoch: u64) -> Option<&Seen> {
        self.confirms.get(&(who, epoch))
    }

    /// Where the write that wins an epoch is its grant: that write, as if it were a page.
    pub fn won(&self, who: Who, epoch: u64) -> Option<Seen> {
        let mut writes = self.sent_by(who, epoch).filter(|write| write.create);
        let step = writes.find_map(|write| write.applied)?;
        Some(Seen { who, after: String::new(), step, newest: Some(epoch) })
    }

    /// What a process sent for an epoch, last first.
    pub fn sent_by(&self, who: Who, epoch: u64) -> impl Iterator<Item = &Write> {
        let ids = self.by_sender.get(&(who, epoch)).map(Vec::as_slice).unwrap_or_default();
        ids.iter().rev().map(|id| &self.writes[*id])
    }

    /// The nonce with which a process created an epoch, if that took effect.
    pub fn nonce(&self, who: Who, epoch: u64) -> Option<String> {
        let mut creates = self.sent_by(who, epoch).filter(|w| w.create && w.applied.is_some());
        creates.next()?.body.nonce.clone()
    }

    /// What is left of a lease at a moment of its holder's clocks. It counts from the sending of
    /// the last write that took effect, whether or not the holder knows.
    pub fn left(&self, lead: &Lead, clock: Moment) -> Duration {
        self.left_of(lead, clock, |_| true)
    }

    /// The same, if only its creation counts.
    pub fn left_of_creation(&self, lead: &Lead, clock: Moment) -> Duration {
        self.left_of(lead, clock, |write| write.create)
    }

    /// For how long a lease has been over: by the clock that ended it first.
    pub fn over_for(&self, lead: &Lead, clock: Moment) -> Duration {
        let over_for = |write: &Write| write.passed(clock).saturating_sub(write.body.validity);
        let writes = self.extending(lead).map(over_for);
        writes.min().unwrap_or(Duration::MAX)
    }

    fn left_of(&self, lead: &Lead, clock: Moment, counts: fn(&Write) -> bool) -> Duration {
        let left = |write: &Write| write.body.validity.saturating_sub(write.passed(clock));
        let writes = self.extending(lead).filter(|write| counts(write));
        writes.map(left).max().unwrap_or_default()
    }

    /// The writes that took effect from which a lease may count.
    fn extending<'a>(&'a self, lead: &'a Lead) -> impl Iterator<Item = &'a Write> {
        self.sent_by(lead.who, lead.epoch).filter(|write| {
            write.applied.is_some()
                && !write.body.sealed
                && write.body.nonce.as_ref() == Some(&lead.nonce)
        })
    }

    pub fn granted(&self, epoch: u64, nonce: Option<&String>) -> bool {
        self.grants.get(&epoch).is_some_and(|grant| Some(&grant.nonce) == nonce)
    }

    /// Those who may still believe that they lead.
    pub fn leading(&self) -> impl Iterator<Item = &Lead> {
        self.leads.iter().filter(|lead| lead.over.is_none())
    }
}
