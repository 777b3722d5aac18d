//! The protocol beside other implementations of it, its scenarios, and the records that it writes.

mod fixtures;
mod fuzzing;
mod if_match;
mod morling;
mod records;
mod scenarios;
mod upgrading;
