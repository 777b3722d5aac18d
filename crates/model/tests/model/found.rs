//! What there is to find in a setting, held against states.md.

use std::fmt::Debug;
use std::hash::Hash;

use stateright::{Checker, Model};
use tenure::Process;

const PAGE: &str = include_str!("states.md");

/// Explores all of it and requires what its properties ask for, and as many states as the page says. So a
/// change of what is explored shows on the page, and one that should change nothing does not.
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

/// The numbers that the page has for this name.
pub fn on_page(name: &str) -> Vec<usize> {
    let row = PAGE.lines().find_map(|line| line.strip_prefix(&format!("| {name} | ")));
    let row = row.unwrap_or_else(|| panic!("states.md has no row for {name}"));
    let number = |cell: &str| cell.replace([',', ' '], "").parse().ok();
    row.split('|').filter_map(number).collect()
}
