//! The items that the other packages of tenure use beyond the API. These items are not part of the
//! API: the packages depend on exactly this version (`=`), because each version may change these
//! items.
//!
//! | module | package |
//! | --- | --- |
//! | [`groups`] | `tenure-groups` |
//! | [`fencing`] | `tenure-fencing` |
//! | the items of this module | the command, the test kit |

pub mod fencing;
pub mod groups;

pub use crate::driver::epoch_objects::{EpochObject, EpochObjects};
pub use crate::env::clock::wall_clock;
pub use crate::record::Record;
pub use crate::store::escape::plain;
