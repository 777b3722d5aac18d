//! Random walks with greater bounds than an exhaustive run: a dozen epochs, five stores, many
//! faults, and delayed reads. Each seed is one walk. The first seed is random. `SEED=7` runs only
//! the walk of seed 7, and `SEEDS=7..9` runs two walks.

use tenure_model::seeds::{chosen, run_all};

use super::bound;
use super::setting::{ALL, Broken, Budget, Setting, TIMELESS};
use super::store::{Number, SLOTS};
use super::world::{Action, Due, Game, Serving, World};

const STEPS: usize = 400;

/// Budget of the faults. Most faults have a budget that no walk exhausts.
const FAULTS: Budget = Budget {
    gives_up: u8::MAX,
    late: u8::MAX,
    twice: u8::MAX,
    short_pages: u8::MAX,
    crashes: u8::MAX,
    renewals: 100,
    resignations: u8::MAX,
    depositions: u8::MAX,
    compactions: u8::MAX,
    replacements: 3,
    moves: 1,
};

fn walk(name: &'static str) -> Setting {
    Setting {
        candidates: 3,
        last_epoch: SLOTS as Number - 1,
        walks: true,
        ..Setting::new(name, FAULTS)
    }
}

fn weight(action: &Action) -> u32 {
    match action {
        Action::Serve(_, _, _, Serving::Twice | Serving::ShortPage) => 2,
        Action::Serve(_, _, None, Serving::Late) => 16,
        Action::Serve(_, _, None, _) => 48,
        Action::Serve(_, _, Some(Due::Renew), _) => 12,
        Action::Serve(_, _, Some(Due::Poll), Serving::Late) => 2,
        Action::Serve(_, _, Some(Due::Poll), _) => 6,
        Action::Deliver(..) | Action::Resumes(..) | Action::Continues(_) => 24,
        Action::GivesUp(..) => 4,
        Action::Lapsed(..) => 3,
        Action::WaitOver(..) => 6,
        Action::Begin(_) => 24,
        Action::Spread(_) | Action::Arrives(_) | Action::Compact(_) => 3,
        Action::LeaseEnded(_) | Action::Crash(_) | Action::Depose(_) => 1,
        Action::Wipe(_) | Action::Move(..) => 1,
        Action::Resign(_) => 2,
        Action::Replace => 8,
    }
}

fn who(action: &Action) -> Option<usize> {
    match action {
        Action::Serve(who, ..) | Action::GivesUp(who, ..) | Action::Lapsed(who, _) => Some(*who),
        Action::WaitOver(who, _) | Action::Begin(who) | Action::Spread(who) => Some(*who),
        Action::Deliver(who, _) | Action::Resumes(who, _) | Action::Continues(who) => Some(*who),
        _ => None,
    }
}

/// The end of a walk.
struct Walked {
    grants: usize,
    /// The violated invariant, and the last actions.
    violated: Option<String>,
}

/// Walks the path of a seed. Sometimes a process pauses, and its pending requests continue.
fn go(seed: u64, setting: &Setting) -> Walked {
    let mut rng = fastrand::Rng::with_seed(seed);
    let setting = Setting { led: rng.bool(), ..setting.clone() };
    let game = Game { setting };
    let mut world = game.start();
    let mut path = Vec::new();
    let mut asleep_until = [0; 8];
    for step in 0..STEPS {
        let mut actions = Vec::new();
        game.possible(&world, &mut actions);
        if rng.u8(0..32) == 0 {
            asleep_until[rng.usize(..asleep_until.len())] = step + rng.usize(10..100);
        }
        let weights = actions.iter().map(|action| match who(action) {
            Some(who) if step < asleep_until[who] => 0,
            _ => weight(action),
        });
        let weights: Vec<u32> = weights.collect();
        let sum: u32 = weights.iter().sum();
        if sum == 0 {
            continue;
        }
        let mut left = rng.u32(..sum);
        let chosen = weights.iter().position(|weight| {
            let here = left < *weight;
            left = left.saturating_sub(*weight);
            here
        });
        let action = &actions[chosen.expect("the sum of the weights exceeds the drawn number")];
        if let Some(next) = game.changed(&world, action) {
            world = next;
            path.push(action.clone());
        }
        if game.is_broken(&world) {
            return Walked {
                grants: world.grants.len(),
                violated: Some(tell(seed, &world, &path)),
            };
        }
    }
    if game.setting.always.contains(&"live") && !game.is_live(&world) {
        world.violate("live");
        return Walked { grants: world.grants.len(), violated: Some(tell(seed, &world, &path)) };
    }
    Walked { grants: world.grants.len(), violated: None }
}

fn tell(seed: u64, world: &World, path: &[Action]) -> String {
    let names = world.violated.join(", ");
    let last = &path[path.len().saturating_sub(60)..];
    let last: Vec<String> = last.iter().map(|action| format!("    {action:?}")).collect();
    format!("{names} is violated by seed {seed} in {} steps:\n{}", path.len(), last.join("\n"))
}

/// Asserts that all invariants hold on all walks.
fn holds(setting: &Setting, many: u64) {
    let first = u64::from(fastrand::u32(..));
    let seeds = chosen(first..first + many);
    println!("{}: SEEDS={}..{}", setting.name, seeds.start, seeds.end);
    let walked = run_all(seeds, |seed| go(seed, setting), |walked| walked.violated.is_some());
    let grants: usize = walked.iter().map(|walked| walked.grants).sum();
    println!("{}: {} walks of {STEPS} steps, {grants} grants", setting.name, walked.len());
    if let Some(told) = walked.iter().find_map(|walked| walked.violated.as_ref()) {
        panic!("{}: {told}", setting.name);
    }
    assert!(walked.len() < 100 || grants > 0, "no candidate was elected");
}

/// Asserts that at least one of the first `within` walks violates the invariant.
pub fn caught_by_a_walk(broken: Broken, setting: Setting, invariant: &'static str, within: u64) {
    let setting = Setting { broken, always: vec![invariant], ..setting };
    let walked = run_all(0..within, |seed| go(seed, &setting), |walked| walked.violated.is_some());
    let told = walked.into_iter().find_map(|walked| walked.violated);
    let told = told.unwrap_or_else(|| panic!("{broken:?} does not break {invariant}"));
    println!("{broken:?}: {told}");
}

pub fn among_faults() -> Setting {
    walk("broken walks")
}

#[test]
fn walk_with_honest_clocks() {
    let always = [ALL, &["live"]].concat();
    holds(&Setting { always, ..walk("walks") }, bound(2_000, 100_000));
}

#[test]
fn walk_with_any_clocks() {
    let setting = Setting { honest: false, always: TIMELESS.to_vec(), ..walk("walks, any clocks") };
    holds(&setting, bound(2_000, 100_000));
}

#[test]
fn walk_across_five_stores() {
    let setting = Setting { stores: 5, ..walk("walks, five stores") };
    holds(&setting, bound(2_000, 100_000));
}
