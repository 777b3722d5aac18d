//! The facts that the checkers use: writes, grants and leaderships. Each fact has its process and
//! its time.

use std::collections::BTreeMap;
use std::time::Duration;

use tenure::Moment;

use super::Seen;
use crate::sim::bucket::{Body, key_of};
use crate::sim::world::Who;

pub type WriteId = usize;
pub type LeadId = usize;

/// A request of a process to create or overwrite an epoch object.
#[derive(Debug, Clone)]
pub struct Write {
    pub who: Who,
    pub epoch: u64,
    pub body: Body,
    pub create: bool,
    /// Exact readings of the sender's clocks just before the request.
    pub sent: Moment,
    /// True if the sender also ends its lease by its wall clock.
    pub by_wall: bool,
    /// Step at which the store first applied the write. `None` if the write has had no effect.
    pub applied: Option<u64>,
}

/// An epoch that a campaign has won, according to the library.
#[derive(Debug, Clone)]
pub struct Grant {
    pub who: Who,
    pub epoch: u64,
    pub nonce: String,
    /// First page of the confirming LIST. `None` if the winner never received this page.
    pub confirm: Option<Seen>,
}

/// A leadership, from the end of the campaign until the application drops it or learns of its loss.
#[derive(Debug, Clone)]
pub struct Lead {
    pub id: LeadId,
    pub who: Who,
    pub epoch: u64,
    pub nonce: String,
    /// True if the epoch object was sealed before the LIST that confirmed the grant.
    pub born_sealed: bool,
    pub began: Duration,
    pub over: Option<Duration>,
    /// The reason that the application received for the end of the leadership, in one word.
    pub outcome: &'static str,
}

/// The process that sealed an epoch, and the step at which the store applied the seal.
#[derive(Debug, Clone, Copy)]
pub struct Seal {
    pub by: Who,
    pub step: u64,
}

#[derive(Debug, Default)]
pub struct Book {
    pub writes: Vec<Write>,
    by_sender: BTreeMap<(Who, u64), Vec<WriteId>>,
    /// For each process and each epoch, the first page of the LIST that may confirm the grant of
    /// this epoch. If the process sent several of these LISTs before its first renewal, the value
    /// is the last page without a greater epoch. If each page has a greater epoch, the value is the
    /// first page.
    confirms: BTreeMap<(Who, u64), Seen>,
    pub grants: BTreeMap<u64, Grant>,
    /// The first seal for each epoch and each nonce that the epoch's object had.
    seals: BTreeMap<(u64, Option<String>), Seal>,
    pub leads: Vec<Lead>,
    pub step: u64,
}

impl Write {
    /// Returns the time since the write was sent, by the clock that shows the longest time. A time
    /// daemon slews the boot clock and the wall clock equally. So the wall clock gains on the boot
    /// clock only when it is stepped, or while the host pauses the machine. This function adds the
    /// gain to the time by the raw clock, which no daemon slews.
    fn passed(&self, now: Moment) -> Duration {
        let nanos =
            |now: Duration, then: Duration| now.as_nanos() as i128 - then.as_nanos() as i128;
        let boot = nanos(now.boot, self.sent.boot);
        let raw = nanos(now.raw, self.sent.raw);
        let wall = nanos(now.wall, self.sent.wall);
        let by_wall = if self.by_wall { wall.max(raw + wall - boot) } else { 0 };
        let passed = boot.max(raw).max(by_wall).max(0);
        Duration::from_nanos(u64::try_from(passed).expect("a simulation takes less than 500 years"))
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
        // If the process has sent a renewal, the process already leads, and the page confirms
        // nothing. A seal does not count as a renewal, because another call of the process may have
        // sent the seal.
        if self.sent_by(who, epoch).any(|write| !write.create && !write.body.sealed) {
            return;
        }
        // An observer in the same process may later send the same LIST. If the observer's page
        // shows a greater epoch, it must not replace the page that confirmed the grant.
        let greater = page.newest > Some(epoch);
        if !greater || !self.confirms.contains_key(&(who, epoch)) {
            self.confirms.insert((who, epoch), page);
        }
    }

    /// Returns the process and the epoch of the create that this page may confirm. A page may
    /// confirm a create if its LIST started after the key of the created epoch.
    fn last_create(&self, page: &Seen) -> Option<(Who, u64)> {
        let mut creates = self.by_sender.range((page.who, 0)..=(page.who, u64::MAX)).rev();
        let (&(who, epoch), _) = creates.find(|((_, epoch), _)| key_of(*epoch) == page.after)?;
        Some((who, epoch))
    }

    pub fn confirm(&self, who: Who, epoch: u64) -> Option<&Seen> {
        self.confirms.get(&(who, epoch))
    }

    /// Returns a substitute for the confirming page. With the layout `SingleObject`, no LIST
    /// confirms a grant. So the step of this page is the step of the write that won the epoch.
    pub fn won(&self, who: Who, epoch: u64) -> Option<Seen> {
        let mut writes = self.sent_by(who, epoch).filter(|write| write.create);
        let step = writes.find_map(|write| write.applied)?;
        Some(Seen { who, after: String::new(), step, newest: Some(epoch) })
    }

    /// Returns the writes of a process for an epoch, in reverse order.
    pub fn sent_by(&self, who: Who, epoch: u64) -> impl Iterator<Item = &Write> {
        let ids = self.by_sender.get(&(who, epoch)).map(Vec::as_slice).unwrap_or_default();
        ids.iter().rev().map(|id| &self.writes[*id])
    }

    /// Returns the nonce with which a process created an epoch, if the create took effect.
    pub fn nonce(&self, who: Who, epoch: u64) -> Option<String> {
        let mut creates = self.sent_by(who, epoch).filter(|w| w.create && w.applied.is_some());
        creates.next()?.body.nonce.clone()
    }

    /// Returns the remaining lease at a moment of the holder's clocks. The lease starts when the
    /// holder sends the last write that takes effect, even if the holder does not know the outcome
    /// of this write.
    pub fn left(&self, lead: &Lead, clock: Moment) -> Duration {
        self.left_of(lead, clock, |_| true)
    }

    /// Returns the remaining lease at a moment of the holder's clocks, as if the lease had never
    /// been renewed.
    pub fn left_of_creation(&self, lead: &Lead, clock: Moment) -> Duration {
        self.left_of(lead, clock, |write| write.create)
    }

    /// Returns the time since the end of a lease, by the clock on which the lease ended first.
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

    /// Returns the writes that took effect and started or extended this lease.
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

    /// Returns the leaderships that have not ended as far as the application knows.
    pub fn leading(&self) -> impl Iterator<Item = &Lead> {
        self.leads.iter().filter(|lead| lead.over.is_none())
    }
}
