//! The rules, as pure values: no IO, no clock, no randomness, no async. Time is an argument.

pub(crate) mod compaction;
