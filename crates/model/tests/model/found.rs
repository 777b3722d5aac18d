//! Explores a setting, and compares its number of states with the number in `states.md`.

use std::fmt::Debug;
use std::hash::Hash;

use stateright::{Checker, Model};
use tenure::Process;

const PAGE: &str = include_str!("states.md");

/// Explores all states and checks the properties. The number of states must equal the number in
/// `states.md`, so that each change of the explored states appears in the page.
pub fn explore<M>(name: &str, model: M)
where
    M: Model + Send + Sync + 'static,
    M::State: Clone + Debug + Hash + PartialEq + Send + Sync + 'static,
    M::Action: Clone + Debug + PartialEq,
{
    let clock = Process::system();
    let start = clock.now().boot;
    let checker = model.checker().threads(2).spawn_dfs().join();
    let took = (clock.now().boot - start).as_secs_f32();
    let states = checker.unique_state_count();
    println!(
        "{name}: unique states: {states}, generated: {}, depth: {}, time: {took:.1} s",
        checker.state_count(),
        checker.max_depth(),
    );
    checker.assert_properties();
    assert_eq!(on_page(name)[super::bound(0, 1)], states, "{name}, in states.md");
}

/// Returns the numbers that `states.md` lists for this name.
pub fn on_page(name: &str) -> Vec<usize> {
    let row = PAGE.lines().find_map(|line| line.strip_prefix(&format!("| {name} | ")));
    let row = row.unwrap_or_else(|| panic!("states.md has no row for {name}"));
    let number = |cell: &str| cell.replace([',', ' '], "").parse().ok();
    row.split('|').filter_map(number).collect()
}
