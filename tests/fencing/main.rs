//! The guards refuse the tokens of past leaders.

mod fencing;
