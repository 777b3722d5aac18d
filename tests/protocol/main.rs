//! The protocol beside other implementations of it, its scenarios, and the records that it writes.

mod corpus;
mod fixtures;
mod if_match;
mod morling;
mod records;
mod scenarios;
mod upgrading;
