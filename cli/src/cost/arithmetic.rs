//! How many requests an election makes. `tests.rs` compares it with the requests of the driver.

use std::time::Duration;

use serde::Serialize;
use tenure::Layout;

use super::prices::Prices;
use crate::args::common::DAY;

/// A month has 30 days.
pub const DAYS: f64 = 30.0;

/// Keys on a page of a listing, and in a deletion.
const PAGE_KEYS: f64 = 1_000.0;
/// What `tenure compact` keeps by default: so many of the newest, and all of the last hour.
const KEPT: f64 = 10.0;
const HOURS_A_DAY: f64 = 24.0;

/// Pages that show so many objects; without any it is one, too.
pub fn pages(objects: f64) -> f64 {
    (objects / PAGE_KEYS).ceil().max(1.0)
}

/// The most objects that are there at a time, if so many come in a day.
pub fn most_objects(a_day: f64, compactions_per_day: f64) -> f64 {
    // Without a compactor, those of a month.
    let between =
        if compactions_per_day > 0.0 { a_day / compactions_per_day } else { a_day * DAYS };
    between + KEPT.max(a_day / HOURS_A_DAY)
}

/// What an election is like.
#[derive(Debug, Clone, Copy)]
pub struct Shape {
    /// That are alike. The other numbers are those of one.
    pub elections: u32,
    pub layout: Layout,
    /// The leader and its followers.
    pub candidates: u32,
    /// Those that only watch.
    pub observers: u32,
    pub validity: Duration,
    pub poll: Duration,
    /// Takeovers, whatever ended the leader before.
    pub elections_per_day: f64,
    pub compactions_per_day: f64,
}

/// Requests, or parts of them, over some time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize)]
pub struct Requests {
    pub writes: f64,
    pub lists: f64,
    pub reads: f64,
    pub deletes: f64,
    /// Keys in the deletions.
    pub deleted_keys: f64,
}

/// What each role sends in a time, or what that costs.
#[derive(Debug, Clone, Copy, Serialize)]
pub struct Roles<T> {
    pub leader: T,
    /// One of the followers.
    pub follower: T,
    /// One of the observers.
    pub observer: T,
    /// All that the candidates of all elections send for takeovers, beyond their roles.
    pub elections: T,
    /// Of all elections.
    pub compactor: T,
    /// Everybody together.
    pub all: T,
}

impl<T> Roles<T> {
    pub fn map<U>(self, to: impl Fn(T) -> U) -> Roles<U> {
        Roles {
            leader: to(self.leader),
            follower: to(self.follower),
            observer: to(self.observer),
            elections: to(self.elections),
            compactor: to(self.compactor),
            all: to(self.all),
        }
    }
}

impl Shape {
    /// What is sent in so much time. A `poll` or a `validity` of nothing is the caller's error.
    pub fn requests(&self, time: Duration) -> Roles<Requests> {
        let none = Requests::default();
        let of_one = self.requests_of_one(time);
        let of_all = |requests| none.plus(f64::from(self.elections), requests);
        Roles {
            elections: of_all(of_one.elections),
            compactor: of_all(of_one.compactor),
            all: of_all(of_one.all),
            ..of_one
        }
    }

    fn requests_of_one(&self, time: Duration) -> Roles<Requests> {
        let seconds = time.as_secs_f64();
        let epoch_files = self.layout == Layout::EpochFiles;
        let per = |interval: Duration| seconds / interval.as_secs_f64();
        let leader = Requests {
            // A renewal every third of the validity, and a look at the next epoch once in it.
            writes: per(self.validity) * 3.0,
            reads: if epoch_files { per(self.validity) } else { 0.0 },
            ..Requests::default()
        };
        let follower = Requests { reads: per(self.poll), ..Requests::default() };
        let observer = follower;
        let elections = self.elections_per_day * seconds / DAY.as_secs_f64();
        let elections = Requests::default().plus(elections, self.election());
        let compactor = self.compactions(seconds);
        let followers = f64::from(self.candidates.saturating_sub(1));
        let lead = if self.candidates == 0 { 0.0 } else { 1.0 };
        let all = Requests::default()
            .plus(lead, leader)
            .plus(followers, follower)
            .plus(f64::from(self.observers), observer)
            .plus(1.0, elections)
            .plus(1.0, compactor);
        Roles { leader, follower, observer, elections, compactor, all }
    }

    /// One takeover from a leader that died: the most expensive way, and few enough not to matter.
    pub fn election(&self) -> Requests {
        let others = f64::from(self.candidates.saturating_sub(1));
        match self.layout {
            // The new leader seals, creates and confirms. Each other candidate may try to seal and
            // to create, and then looks for the new epoch; the old leader starts anew and looks,
            // too. All look once more when the timer has run out.
            Layout::EpochFiles => Requests {
                writes: 2.0 + others * 2.0,
                lists: 1.0 + others * 2.0 + self.search(),
                reads: 1.0 + others * 3.0,
                ..Requests::default()
            },
            // One write, over what was there; the others may try, and read the winner.
            _ => {
                Requests { writes: 1.0 + others, reads: 1.0 + others * 3.0, ..Requests::default() }
            }
        }
    }

    /// The listings beyond the first, at most, with which a candidate that starts anew finds the
    /// newest of more epochs than a page has: it leaps further and further ahead, and bisects.
    pub fn search(&self) -> f64 {
        let epochs = most_objects(self.elections_per_day, self.compactions_per_day);
        match pages(epochs) {
            // The second leap begins at the end of the second page.
            few @ ..=2.0 => few - 1.0,
            many => 1.0 + many.log2().ceil() + epochs.log2().ceil(),
        }
    }

    fn compactions(&self, seconds: f64) -> Requests {
        if self.layout != Layout::EpochFiles {
            return Requests::default();
        }
        let days = seconds / DAY.as_secs_f64();
        let (runs, epochs) = (self.compactions_per_day * days, self.elections_per_day * days);
        // A run that finds nothing deletes nothing.
        let busy = runs.min(epochs);
        let listed = most_objects(self.elections_per_day, self.compactions_per_day);
        let batches = busy * pages(if runs > 0.0 { epochs / runs } else { 0.0 });
        Requests {
            // A look for the last epoch there can be, and a listing.
            lists: runs * (1.0 + pages(listed)),
            // Of the newest epoch that was listed, before each deletion.
            reads: batches,
            deletes: batches,
            deleted_keys: if runs > 0.0 { epochs } else { 0.0 },
            ..Requests::default()
        }
    }
}

impl Requests {
    /// What they cost, in the currency of the prices.
    pub fn cost(&self, prices: &Prices) -> f64 {
        let deletes = if prices.delete_by_key { self.deleted_keys } else { self.deletes };
        (self.writes * prices.write
            + self.lists * prices.list
            + self.reads * prices.read
            + deletes * prices.delete)
            / 1e6
    }

    /// These, and so many times the others.
    pub fn plus(self, times: f64, others: Requests) -> Requests {
        Requests {
            writes: self.writes + times * others.writes,
            lists: self.lists + times * others.lists,
            reads: self.reads + times * others.reads,
            deletes: self.deletes + times * others.deletes,
            deleted_keys: self.deleted_keys + times * others.deleted_keys,
        }
    }
}
