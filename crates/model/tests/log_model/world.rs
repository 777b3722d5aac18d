//! The states that the model checker explores: the writers, the trims and a reader of one log. This
//! module also defines the possible faults and the invariants.

use std::collections::BTreeMap;
use std::num::NonZeroU64;

use stateright::{Model, Property};
use tenure::Epoch;
use tenure::protocol::message::Nonce;
use tenure_fencing::protocol::{Ended, Floor, Header, Kind, Sweep, Writer};
use tenure_model::hashed_arc::HashedArc;

/// The number of events of each kind that may occur on a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Budget {
    /// Creates that get no answer. Such a create takes effect immediately, later, or never.
    pub unknown: u8,
    /// Creates that later take effect a second time.
    pub twice: u8,
    pub trims: u8,
    pub reads: u8,
    /// Listings of two pages without order.
    pub torn: u8,
    /// Maximum number of appends of each writer.
    pub appends: u8,
}

/// The rule of the log that a broken variant of the model omits. The model changes the inputs and
/// outputs of the real state machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Broken {
    Nothing,
    TrimsClaims,
    TrimsNewest,
    TrimsFences,
    FillsNothing,
    NoConfirm,
    ForgetsUnknown,
    ReadsWithoutFloor,
    ReadsFloorFirst,
    RaisesFloorLast,
    NoFloorAtRefusal,
    TornListing,
}

#[derive(Debug, Clone)]
pub struct Log {
    /// The epoch of each writer, in any order.
    pub epochs: Vec<u64>,
    pub budget: Budget,
    /// Maximum length of the log.
    pub longest: usize,
    pub broken: Broken,
    pub always: Vec<&'static str>,
    pub sometimes: Vec<&'static str>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct World {
    pub objects: HashedArc<BTreeMap<u64, Header>>,
    /// The first object at each number. These objects are the true log.
    pub first: HashedArc<BTreeMap<u64, Header>>,
    pub marker: Floor,
    pub writers: Vec<HashedArc<OneWriter>>,
    /// Creates that were sent and may still take effect.
    pub limbo: Vec<(u64, Header)>,
    pub trims: Vec<Trim>,
    pub reader: Reader,
    pub left: Budget,
    /// Names of the properties that this path has broken.
    pub violated: Vec<&'static str>,
    /// Nonces of appends that a writer has reported as refused.
    pub refused: Vec<Nonce>,
    /// True if a create took effect at a number after a trim had deleted another object at this
    /// number.
    pub ghost: bool,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct OneWriter {
    pub machine: Writer,
    /// The nonce of the append in progress.
    pub append: Option<Nonce>,
    pub opened: bool,
    pub appends_left: u8,
    /// Number of nonces that the writer has drawn.
    pub drawn: u8,
    /// The first page of a listing without order.
    pub first_page: Option<FirstPage>,
    /// True if the writer has sent a second object, because of [`Broken::ForgetsUnknown`].
    pub other: bool,
}

/// The first page of a listing without order, which covers the numbers above `last`. The page is
/// empty, because no object had such a number. The second page, read later, has the objects up to
/// `last`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct FirstPage {
    /// The floor before the listing. A writer uses the listing only if the floor is the same
    /// afterwards.
    pub floor: u64,
    pub last: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Trim {
    Marked { marker: Floor },
    HalfListed { marker: Floor, page: FirstPage },
    Listed { marker: Floor, end: u64 },
    Chained { sweep: Sweep, end: u64 },
    Deleting { sweep: Sweep, end: u64 },
    Done,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Reader {
    Idle,
    /// The reader has read this floor, the number below which no entry is valid. Next it reads an
    /// entry. Only used with [`Broken::ReadsFloorFirst`].
    FloorRead(u64),
    HasRead(u64, Header),
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Action {
    /// The store applies and answers the writer's request.
    Step(usize),
    /// The store applies the create, and the answer is lost.
    AnswerLost(usize),
    RequestLost(usize),
    Late(usize),
    /// The store applies the create and answers it. The create may take effect a second time later.
    Twice(usize),
    Lands(usize),
    Append(usize),
    /// The writer reads the first of two pages without order.
    FirstPage(usize),
    TrimReadsFirstPage(usize),
    TrimBegins,
    TrimGoesOn(usize),
    Deletes(usize, u64),
    Reads(u64),
    ReadsFloor,
}

impl World {
    pub fn require(&mut self, name: &'static str, holds: bool) {
        if !holds && !self.violated.contains(&name) {
            self.violated.push(name);
            self.violated.sort_unstable();
        }
    }

    pub fn first_page(&mut self) -> FirstPage {
        self.left.torn -= 1;
        FirstPage { floor: self.marker.floor, last: self.end() }
    }

    pub fn end(&self) -> u64 {
        self.objects.last_key_value().map_or(0, |(number, _)| *number)
    }

    /// Applies a create.
    pub fn create(&mut self, number: u64, header: Header) -> bool {
        if self.objects.contains_key(&number) {
            return false;
        }
        self.objects.insert(number, header);
        if self.first.contains_key(&number) {
            self.ghost = true;
            return true;
        }
        if header.is_fence() {
            self.first.insert(number, header);
            return true;
        }
        // The rules for entries and claims: the log grows only at its end and without gaps, epochs
        // never decrease, and only the newest writer appends.
        let before = self.newest();
        let below = before.map_or(0, |(last, _)| last);
        let dense = below < number && (1..number).all(|number| self.first.contains_key(&number));
        let epochs = before.is_none_or(|(_, last)| last.epoch <= header.epoch);
        let claim = before.map_or(0, |(last, header)| header.last_claim(last));
        let own = match header.kind {
            Kind::Claim { last, fences } => {
                header.claim == claim
                    && last == before.map_or(0, |(last, header)| header.last_entry(last))
                    && fences == number - 1 - below
            }
            Kind::Entry => header.claim == claim && claim > 0,
            Kind::Fence { .. } => false,
        };
        self.require("serial", dense && epochs && own);
        let opened = self.writers.iter().filter(|writer| writer.opened);
        let newest = opened.map(|writer| writer.machine.epoch()).max();
        self.require("fenced", newest.is_none_or(|newest| newest <= header.epoch));
        self.require("refused", !self.refused.contains(&header.nonce));
        self.first.insert(number, header);
        true
    }

    /// Returns the newest entry or claim, even if a trim has deleted it.
    pub fn newest(&self) -> Option<(u64, Header)> {
        let mut downwards = self.first.iter().rev();
        downwards.find(|(_, it)| !it.is_fence()).map(|(number, it)| (*number, *it))
    }

    /// Applies a deletion.
    pub fn delete(&mut self, number: u64) {
        let mut above = self.first.range(number + 1..).map(|(_, header)| header);
        // A trim may delete a fence only after a writer has appended an entry above the fence. Then
        // the first object above the fence, apart from further fences, is an entry.
        let passed = above.find(|it| !it.is_fence()).is_some_and(|it| it.kind == Kind::Entry);
        let guards = self.first.get(&number).is_some_and(|first| {
            let guards = match first.kind {
                Kind::Entry => false,
                Kind::Claim { .. } => true,
                Kind::Fence { .. } => !passed,
            };
            guards && self.objects.get(&number) == Some(first)
        });
        let last = self.newest().map(|(number, header)| header.last_entry(number));
        self.require("kept", !guards && number != self.end() && Some(number) != last);
        self.objects.remove(&number);
    }

    /// Checks the state of a writer after the writer has handled an answer.
    pub fn judge(&mut self, writer: usize) {
        let it = &self.writers[writer];
        let OneWriter { append, opened, other, .. } = **it;
        let (standing, ended, epoch) =
            (it.machine.standing(), it.machine.ended(), it.machine.epoch());
        if let Some(standing) = standing {
            if let Some(nonce) = append {
                let sent = if other { another(nonce) } else { nonce };
                let holds = self.first.get(&standing.last).is_some_and(|it| it.nonce == sent);
                self.require("believed", holds);
            }
            if !opened {
                let claim = self.first.get(&standing.claim);
                let holds = claim.is_some() && claim == self.objects.get(&standing.claim);
                self.require("opened", holds && claim.is_some_and(|it| it.epoch == epoch));
                self.writers[writer].opened = true;
            }
            self.writers[writer].append = None;
            self.writers[writer].other = false;
        }
        match ended {
            Some(Ended::Stale { maybe: false, .. } | Ended::Replaced { maybe: false }) => {
                if let Some(nonce) = append {
                    let there = self.first.values().any(|it| it.nonce == nonce);
                    self.require("refused", !there);
                    self.refused.push(nonce);
                }
            }
            Some(Ended::Gone(_) | Ended::WentBack { .. } | Ended::Full) => {
                self.require("serial", false);
            }
            _ => {}
        }
        if ended.is_some() {
            self.writers[writer].append = None;
        }
    }
}

/// Returns the nonce of the other object that [`Broken::ForgetsUnknown`] sends.
pub fn another(nonce: Nonce) -> Nonce {
    let bits =
        u128::from_str_radix(&nonce.to_string(), 16).expect("a nonce is displayed in hexadecimal");
    Nonce::from_bits(bits + 100)
}

pub fn epoch(number: u64) -> Epoch {
    Epoch::new(number).expect("the settings have epochs above 0")
}

pub fn numbers(number: u64) -> NonZeroU64 {
    NonZeroU64::new(number).expect("numbers of objects start at 1")
}

impl Model for Log {
    type State = HashedArc<World>;
    type Action = Action;

    fn init_states(&self) -> Vec<HashedArc<World>> {
        let writer = |number: &u64| OneWriter {
            machine: Writer::new(epoch(*number), None),
            append: None,
            opened: false,
            appends_left: self.budget.appends,
            drawn: 0,
            first_page: None,
            other: false,
        };
        vec![HashedArc::new(World {
            objects: HashedArc::new(BTreeMap::new()),
            first: HashedArc::new(BTreeMap::new()),
            marker: Floor::default(),
            writers: self.epochs.iter().map(writer).map(HashedArc::new).collect(),
            limbo: Vec::new(),
            trims: Vec::new(),
            reader: Reader::Idle,
            left: self.budget,
            violated: Vec::new(),
            refused: Vec::new(),
            ghost: false,
        })]
    }

    fn actions(&self, world: &HashedArc<World>, actions: &mut Vec<Action>) {
        self.list_actions(world, actions);
    }

    fn next_state(&self, world: &HashedArc<World>, action: Action) -> Option<HashedArc<World>> {
        let mut next = self.step(world, action)?;
        next.objects.settle();
        next.first.settle();
        next.writers.iter_mut().for_each(HashedArc::settle);
        Some(HashedArc::new(next))
    }

    fn within_boundary(&self, world: &HashedArc<World>) -> bool {
        // If two writers of one epoch open the log concurrently, they may create fences ahead of
        // each other without end. So the model limits the length of the log.
        world.first.len() <= self.longest
    }

    fn properties(&self) -> Vec<Property<Log>> {
        macro_rules! always {
            ($($name:literal),+) => {
                vec![$(Property::<Log>::always($name, |_, it| !it.violated.contains(&$name))),+]
            };
        }
        let always = always!["serial", "fenced", "believed", "opened", "refused", "kept", "read"];
        let sometimes = vec![
            Property::<Log>::sometimes("superseded", |_, world| {
                world.writers.iter().any(|writer| {
                    writer.opened && matches!(writer.machine.ended(), Some(Ended::Stale { .. }))
                })
            }),
            Property::<Log>::sometimes("replaced", |_, world| {
                let ended = |writer: &HashedArc<OneWriter>| writer.machine.ended();
                world.writers.iter().any(|it| matches!(ended(it), Some(Ended::Replaced { .. })))
            }),
            Property::<Log>::sometimes("fenced off", |_, world| {
                let claims = world.first.values().map(|header| header.kind);
                claims.into_iter().any(|it| matches!(it, Kind::Claim { fences: 1.., .. }))
            }),
            Property::<Log>::sometimes("passed a fence", |_, world| {
                let fences = world.first.iter().filter(|(_, header)| header.is_fence());
                let mut above = fences.filter_map(|(number, _)| world.first.get(&(number + 1)));
                above.any(|header| header.kind == Kind::Entry)
            }),
            Property::<Log>::sometimes("trimmed", |_, world| world.marker.swept > 1),
            Property::<Log>::sometimes("ghost", |_, world| world.ghost),
        ];
        let mut all = always;
        all.retain(|property| self.always.contains(&property.name));
        all.extend(sometimes.into_iter().filter(|it| self.sometimes.contains(&it.name)));
        all
    }
}
