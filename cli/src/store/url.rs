//! `--store`: which store, and which election in it. The library parses it.

pub use tenure::store::{
    CloudKind as Kind, CloudService as Service, StorePlace as Place, StoreUrl,
};
