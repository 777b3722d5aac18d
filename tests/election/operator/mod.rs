//! Tests the calls of operators and supervisors (`depose`, `resign_dead` and `restore`), in both
//! layouts, on several stores, with faults and races.

mod depose;
mod resign_dead;
mod restore;
mod rival;
pub mod scene;
mod takeover_delay;
mod two_restores;
