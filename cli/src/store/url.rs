//! The value of `--store`: a store, and the prefix of an election in it. The library parses the
//! value.

pub use tenure::store::{
    CloudKind as Kind, CloudService as Service, StorePlace as Place, StoreUrl,
};
