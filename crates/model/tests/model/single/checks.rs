//! Checks the invariants of the layout `SingleObject` (docs/design/protocol.md). The checks examine
//! the actions of the store, and use no clocks.

use stateright::Property;
use tenure::protocol::message::{EpochEnd, Lost};

use super::store::{SingleBody, SingleStore, SingleWire, small};
use super::world::{SingleGame, SingleWorld};

/// A token, and the nonce of the write that acquired the token. Nonce 0 means a peer that follows
/// the If-Match post (docs/how-to/upgrade.md).
pub type Won = (u8, u8);

/// The past events on which the invariants depend.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct SingleHistory {
    /// Acquisitions of the lock, in the order in which the store accepted them.
    pub acquired: Vec<Won>,
    pub granted: Vec<Won>,
    broken: Vec<&'static str>,
    /// The token of the last leader that crashed, or 0.
    pub crashed: u8,
    /// True if a candidate was elected after a release.
    pub succeeded: bool,
}

impl SingleHistory {
    pub fn require(&mut self, name: &'static str, holds: bool) {
        if !holds && !self.broken.contains(&name) {
            self.broken.push(name);
            self.broken.sort_unstable();
        }
    }

    /// Checks a write that the store is about to accept. `unseen` is true if another write took
    /// effect after the writer first read the content that its write replaces.
    pub fn before(&mut self, store: &SingleStore, wire: SingleWire, unseen: bool) {
        self.require("no ABA", !unseen);
        let (Some(body), before) = (wire.body(), store.object) else {
            return self.require("I3", false);
        };
        let token = before.map_or(0, |before| before.token);
        self.require("I3", body.token >= token);
        let won = (body.token, body.nonce);
        if let Some(before) = before
            && before.token == body.token
        {
            return self.written_again(before, body);
        }
        // An acquisition raises the token by one, and no earlier acquisition had the new token.
        self.require("token", body.token == token + 1 && body.ended().is_none());
        self.require("I2", self.acquired.iter().all(|(before, _)| *before < body.token));
        if before.and_then(SingleBody::ended) == Some(EpochEnd::Resigned) {
            self.succeeded = true;
        }
        self.acquired.push(won);
    }

    /// Checks a renewal or a release.
    fn written_again(&mut self, before: SingleBody, body: SingleBody) {
        if body.ended().is_none() {
            self.require("I4", before.ended().is_none());
            self.require("I5", before.nonce == body.nonce);
        }
    }

    pub fn grant(&mut self, token: u8, nonce: u8) {
        self.require("I1", self.granted.iter().all(|(before, _)| *before != token));
        self.require("I2", self.acquired.contains(&(token, nonce)));
        self.granted.push((token, nonce));
        // Tokens increase with each acquisition, so this sort puts the grants in the order of the
        // writes that won them.
        self.granted.sort_unstable();
    }

    /// Checks that the reason of a loss matches the object in the store when the store answers.
    pub fn lost(&mut self, store: &SingleStore, (token, nonce): Won, lost: Lost) {
        let body = store.object;
        let is_own = body.is_some_and(|body| (body.token, body.nonce) == (token, nonce));
        let ended = body.and_then(SingleBody::ended);
        let honest = match lost {
            Lost::LeaseEnded => true,
            Lost::Resigned => is_own && ended == Some(EpochEnd::Resigned),
            Lost::Sealed(word) => is_own && ended == Some(word),
            Lost::Superseded(by) => body.is_some_and(|it| it.token == small(by.get())),
            Lost::Vanished => body.is_none(),
            Lost::Tampered => body.is_some() && !is_own,
        };
        self.require("honest", honest);
    }
}

fn holds(world: &SingleWorld, name: &str) -> bool {
    !world.history.broken.contains(&name)
}

/// S1: another candidate is elected after a crash.
fn s1(world: &SingleWorld) -> bool {
    let crashed = world.history.crashed;
    let elected = |leads: Option<Won>| leads.is_some_and(|(token, _)| token > crashed);
    crashed > 0 && world.processes.iter().any(|it| !it.reborn && elected(it.leads))
}

fn three_grants(world: &SingleWorld) -> bool {
    world.history.granted.windows(3).any(|three| three[2].0 == three[0].0 + 2)
}

pub const LAWFUL: &[&str] = &["I1", "I2", "I3", "I4", "I5", "token", "honest", "own", "no failure"];

/// Returns the required properties.
pub fn properties(
    always: &[&'static str],
    sometimes: &[&'static str],
) -> Vec<Property<SingleGame>> {
    let all: Vec<Property<SingleGame>> = vec![
        Property::<SingleGame>::always("I1", |_, world| holds(world, "I1")),
        Property::<SingleGame>::always("I2", |_, world| holds(world, "I2")),
        // The object is never deleted, and its token never decreases.
        Property::<SingleGame>::always("I3", |_, world| holds(world, "I3")),
        Property::<SingleGame>::always("I4", |_, world| holds(world, "I4")),
        Property::<SingleGame>::always("I5", |_, world| holds(world, "I5")),
        // An acquisition raises the token by one. No other write changes the token.
        Property::<SingleGame>::always("token", |_, world| holds(world, "token")),
        // Between a writer's first read of a content and its overwrite of this content, no other
        // write takes effect.
        Property::<SingleGame>::always("no ABA", |_, world| holds(world, "no ABA")),
        Property::<SingleGame>::always("honest", |_, world| holds(world, "honest")),
        Property::<SingleGame>::always("own", |_, world| holds(world, "own")),
        Property::<SingleGame>::always("no failure", |_, world| holds(world, "no failure")),
        Property::<SingleGame>::sometimes("S1", |_, world| s1(world)),
        Property::<SingleGame>::sometimes("S2", |_, world| world.history.succeeded),
        Property::<SingleGame>::sometimes("three grants in a row", |_, world| three_grants(world)),
    ];
    let wanted = |name| always.contains(&name) || sometimes.contains(&name);
    all.into_iter().filter(|property| wanted(property.name)).collect()
}
