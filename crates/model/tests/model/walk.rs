//! Random walks through the model that the exhaustive runs explore. A walk has greater bounds:
//! dozens of epochs, more processes, and unlimited faults. Each seed is one walk. `SEED=7` runs
//! only the walk of seed 7.

use std::panic::{self, AssertUnwindSafe};

use stateright::{Checker, Chooser, Model};
use tenure::protocol::message::Input;
use tenure::protocol::message::{Answer, Step, Wait};
use tenure_model::hashed_arc::HashedArc;

use super::bound;
use super::setting::{AMONG_ALL, Broken, Budget, LAWFUL, Morling, Role, SOMETIMES, Setting};
use super::store::{Number, SLOTS};
use super::world::{Action, Game, Serving, World};

const STEPS: u16 = 800;
/// Number of steps between two checks of the property "no dead end".
const OFTEN: u16 = 100;

/// Budget of the faults. It is too large for a walk to exhaust.
const FAULTS: Budget = Budget {
    gives_up: u8::MAX,
    twice: u8::MAX,
    late: u8::MAX,
    touches: 0,
    short_pages: u8::MAX,
    crashes: u8::MAX,
    depositions: u8::MAX,
    renewals: u8::MAX,
    abandons: u8::MAX,
    compactions: u8::MAX,
    foreign_creates: 0,
    untrue_refusals: 0,
};

fn walk(name: &'static str) -> Setting {
    Setting {
        others: &[Role::Unique, Role::Observer],
        steps: STEPS,
        compactors: 2,
        // The last slot remains free for a successor of the walk's last epoch.
        last_epoch: SLOTS as Number - 2,
        unreduced: true,
        always: [LAWFUL, &["observer", "no dead end"]].concat(),
        ..Setting::new(name, FAULTS)
    }
}

/// Returns the setting with foreign keys and a number of candidates that the seed determines.
fn drawn(seed: u64, setting: &Setting) -> Setting {
    let mut rng = fastrand::Rng::with_seed(seed);
    let foreign_keys: [&'static [Number]; 4] = [&[], &[0, 2], &[1, 3, 4, 7], &[5]];
    let candidates = rng.usize(1..=3);
    Setting { candidates, foreign_keys: foreign_keys[rng.usize(..4)], ..setting.clone() }
}

/// Chooses actions with weights that resemble a real network and clock. Sometimes a process pauses
/// at an arbitrary point, and its pending requests continue.
#[derive(Debug, Clone)]
struct Weighted;

struct Choices {
    rng: fastrand::Rng,
    made: usize,
    /// For each process: the number of chosen actions (`made`) at which the pause of the process
    /// ends.
    asleep_until: [usize; 8],
}

impl Chooser<Game> for Weighted {
    type State = Choices;

    fn new_state(&self, seed: u64) -> Choices {
        Choices { rng: fastrand::Rng::with_seed(seed), made: 0, asleep_until: [0; 8] }
    }

    fn choose_initial_state(&self, _: &mut Choices, _: &[HashedArc<World>]) -> usize {
        0
    }

    fn choose_action(
        &self,
        choices: &mut Choices,
        _: &HashedArc<World>,
        actions: &[Action],
    ) -> usize {
        let Choices { rng, made, asleep_until } = choices;
        *made += 1;
        if rng.u8(0..64) == 0 {
            asleep_until[rng.usize(..asleep_until.len())] = *made + rng.usize(20..200);
        }
        let weight = |action: &Action| match who(action) {
            Some(who) if *made < asleep_until[who] => 0,
            _ => weight(action),
        };
        let sum: u32 = actions.iter().map(weight).sum();
        if sum == 0 {
            return rng.usize(..actions.len());
        }
        let mut left = rng.u32(..sum);
        let chosen = actions.iter().position(|action| {
            let here = left < weight(action);
            left = left.saturating_sub(weight(action));
            here
        });
        chosen.expect("the sum of the weights exceeds the drawn number")
    }
}

fn who(action: &Action) -> Option<usize> {
    match action {
        Action::Serve(who, ..)
        | Action::GivesUp(who, _)
        | Action::Deliver(who)
        | Action::Tell(who, _)
        | Action::ConfirmsFirst(who) => Some(*who),
        _ => None,
    }
}

fn weight(action: &Action) -> u32 {
    match action {
        Action::Serve(_, _, Serving::Once) => 48,
        Action::Serve(_, _, Serving::ShortPage | Serving::Touched) => 12,
        Action::Serve(..) | Action::GivesUp(..) => 8,
        Action::Deliver(_) => 12,
        Action::Tell(_, Input::LeaseEnded | Input::Abandon) => 2,
        Action::Tell(_, Input::RenewDue) => 36,
        Action::Tell(..) => 12,
        Action::Crash(_) => 1,
        Action::ConfirmsFirst(_) => 48,
        Action::Arrives(_) | Action::ArrivesTwice(_) => 3,
        Action::Compacts(..) => 4,
        Action::Depose(..) => 1,
        Action::PeerDecides | Action::PeerTouches(_) => 4,
        Action::PeerCreates => 12,
    }
}

impl Game {
    /// Returns whether a candidate is elected soon after this state if no further fault occurs and
    /// every leader stops. No state of the machine may be a dead end.
    pub fn goes_on(&self, world: &World) -> bool {
        if world.steps == 0 || !world.steps.is_multiple_of(OFTEN) {
            return true;
        }
        let last_epoch = SLOTS as Number - 1;
        let game = Game { setting: Setting { last_epoch, ..self.setting.clone() } };
        let mut world = world.clone();
        world.left = Budget { crashes: u8::MAX, ..world.left };
        for message in std::mem::take(&mut world.wires) {
            game.carry_out(&mut world, message);
        }
        for who in 0..world.processes.len() {
            if world.processes[who].leads.is_some() {
                game.crash(&mut world, who);
            } else if world.processes[who].mail.take().is_some() {
                game.tell(&mut world, who, Input::Answer(Answer::Unknown), true);
            }
        }
        let granted = world.history.granted().count();
        for _ in 0..100 {
            for who in 0..world.processes.len() {
                game.acts_fairly(&mut world, who);
                if world.history.granted().count() > granted {
                    return true;
                }
            }
        }
        false
    }

    fn acts_fairly(&self, world: &mut World, who: usize) {
        let due = match world.processes[who].machine.step() {
            Step::Wait(Wait::Follow) if self.setting.never_lapses => Some(Input::PollDue),
            Step::Wait(Wait::Follow | Wait::Deposed) => Some(Input::Lapsed),
            Step::Wait(Wait::Takeover) => Some(Input::TakeoverOver),
            Step::Wait(Wait::NoLeader) => Some(Input::PollDue),
            _ => None,
        };
        self.due(world, who, due);
        let _ = self.serve(world, who, Serving::Once);
    }
}

/// Walks the path of a seed. Returns the names of the discovered properties. If the walk breaks a
/// property of `always`, also returns a description of the path to the violation.
fn go(seed: u64, setting: &Setting) -> (Vec<&'static str>, Option<String>) {
    let game = Game { setting: drawn(seed, setting) };
    // If the target is one state, the checker makes exactly one walk.
    let checker = game.clone().checker().target_state_count(1);
    let checker = checker.spawn_simulation(seed, Weighted);
    let joined = panic::catch_unwind(AssertUnwindSafe(|| checker.join()));
    let checker = joined.unwrap_or_else(|_| panic!("the model panicked with seed {seed}"));
    let discoveries = checker.discoveries();
    let broken = setting.always.iter().find_map(|name| discoveries.get_key_value(name));
    let broken = broken.map(|(name, path)| {
        let path = path.clone().into_vec();
        let told = path.iter().filter_map(|(world, action)| {
            Some(format!("    {}", game.describe_action(world, action.as_ref()?)))
        });
        let told: Vec<String> = told.collect();
        let last = told[told.len().saturating_sub(60)..].join("\n");
        format!("{name} is broken by seed {seed} in {} steps:\n{last}", told.len())
    });
    (discoveries.into_keys().collect(), broken)
}

fn seeds(many: u64) -> std::ops::Range<u64> {
    match std::env::var("SEED") {
        Ok(seed) => {
            let seed = seed.parse().expect("SEED must be a number");
            seed..seed + 1
        }
        Err(_) => 0..many,
    }
}

/// Asserts that all properties hold on all walks, and that each property of `sometimes` is true on
/// at least one of `many` walks.
fn holds(mut setting: Setting, many: u64) {
    let name = setting.name;
    let seeds = seeds(many);
    let walks = seeds.end - seeds.start;
    for seed in seeds {
        let (discovered, broken) = go(seed, &setting);
        if let Some(told) = broken {
            panic!("{name}: {told}");
        }
        setting.sometimes.retain(|property| !discovered.contains(property));
    }
    println!("{name}: {walks} walks of {STEPS} steps");
    assert!(setting.sometimes.is_empty() || walks < many, "never seen: {:?}", setting.sometimes);
}

/// Asserts for each property that at least one of the first `within` walks breaks it.
fn caught(setting: &Setting, properties: &[&'static str], within: u64) {
    for property in properties {
        let setting = Setting { always: vec![property], ..setting.clone() };
        let broken = (0..within).find_map(|seed| go(seed, &setting).1);
        let told = broken.unwrap_or_else(|| panic!("{}: {property} holds", setting.name));
        println!("{}: {}", setting.name, told.lines().next().unwrap_or_default());
    }
}

fn broken(name: &'static str, broken: Broken) -> Setting {
    Setting { broken, ..walk(name) }
}

#[test]
fn walk_without_foreign_peers() {
    let others = [
        "a deposition succeeded",
        "a loss",
        "an earlier write adopted",
        "a campaign not confirmed",
        "a predecessor's epoch reclaimed",
    ];
    let sometimes = [SOMETIMES, &others].concat();
    holds(Setting { sometimes, ..walk("walks") }, bound(1_000, 50_000));
}

#[test]
fn walk_with_verified_renewals() {
    let setting = walk("walks, verified renewals");
    let always = [&setting.always[..], &["verified"]].concat();
    let setting = Setting { verify_renewals: true, always, ..setting };
    holds(setting, bound(300, 20_000));
}

#[test]
fn walk_with_an_sdk_that_resends() {
    let faults = Budget { untrue_refusals: u8::MAX, ..FAULTS };
    holds(Setting { faults, ..walk("walks, an SDK that resends") }, bound(300, 20_000));
}

#[test]
fn walk_with_a_peer_that_never_seals_or_confirms() {
    let faults = Budget { foreign_creates: u8::MAX, touches: u8::MAX, ..FAULTS };
    let always = [AMONG_ALL, &["observer"]].concat();
    let setting = Setting { faults, morling: Morling::TakesPart, always, ..walk("walks, a peer") };
    holds(Setting { sometimes: vec!["three grants in a row"], ..setting }, bound(500, 20_000));
}

/// The invariants I1 to I3 (docs/design/protocol.md) hold even if a create takes effect after its
/// epoch was compacted. With `verify_renewals`, no renewal extends a lease while a greater epoch
/// exists.
#[test]
fn walk_where_creates_outlive_compaction() {
    let always = [AMONG_ALL, &["observer", "verified"]].concat();
    let setting = Setting { creates_outlive_compaction: true, ..walk("walks, late creates") };
    caught(&setting, &["I4", "I5", "I6"], 300);
    for verify_renewals in [false, true] {
        holds(
            Setting { verify_renewals, always: always.clone(), ..setting.clone() },
            bound(300, 20_000),
        );
    }
}

#[test]
fn broken_variants_are_caught_by_walks() {
    caught(&broken("walks, no confirm", Broken::NoConfirm), &["I2", "I1"], 200);
    caught(&broken("walks, confirm before create", Broken::ConfirmsFirst), &["I1"], 500);
    caught(&broken("walks, no seal", Broken::NoSeal), &["I5", "I6"], 20);
    caught(&broken("walks, body reused", Broken::ReusesBody), &["I4", "I5", "I6"], 300);
    caught(&broken("walks, compactor", Broken::CompactsNewest), &["I3"], 20);
    caught(&broken("walks, resigning by deleting", Broken::ResignsByDeleting), &["I3"], 20);
    caught(&broken("walks, trusting the name", Broken::TrustsName), &["I1"], 20);
    caught(&broken("walks, a page", Broken::OnePage), &["I1", "I2"], 500);
}

/// If no lease lapses, no candidate can take over from a dead leader. The property "no dead end"
/// must detect this state.
#[test]
fn broken_lease_that_never_lapses_is_caught() {
    let setting = Setting { never_lapses: true, ..walk("walks, no lease lapses") };
    caught(&setting, &["no dead end"], 20);
}
