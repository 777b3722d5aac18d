//! What refuses the tokens of past leaders, and path locks.

mod fencing;
mod paths;
mod paths_memory;
