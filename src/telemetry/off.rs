//! Nothing is counted: the same names as in `on`, and no code.

use std::sync::Arc;
use std::time::Duration;

use crate::env::process::Process;
use crate::epoch::Epoch;
use crate::protocol::group::Assignment;
use crate::protocol::message::Answer;
use crate::record::keys::Keys;
use crate::store::Store;

pub(crate) type Counted = dyn Store;

#[derive(Debug, Clone)]
pub(crate) struct Meter;

#[derive(Debug, Clone)]
pub(crate) struct GateMeter;

impl GateMeter {
    pub(crate) fn new(_: &dyn Store, _: &str) -> GateMeter {
        GateMeter
    }
    pub(crate) fn checked(&self, _: &'static str) {}
}

#[derive(Debug)]
pub(crate) struct Leading;

#[derive(Debug)]
pub(crate) struct Sight;

#[derive(Debug)]
pub(crate) struct Owner;

#[derive(Debug)]
pub(crate) struct GroupSight;

impl Meter {
    pub(crate) fn new(_: &dyn Store, _: &Keys) -> Meter {
        Meter
    }
    pub(crate) fn group(_: &dyn Store, _: &Keys) -> Meter {
        Meter
    }
    pub(crate) fn owner(&self) -> Owner {
        Owner
    }
    pub(crate) fn overdue(&self) -> Overdue {
        Overdue
    }
    pub(crate) fn follower(&self, _: bool) -> GroupSight {
        GroupSight
    }
    pub(crate) fn created(&self, _: &'static str) {}
    pub(crate) fn counted(&self, store: &Arc<dyn Store>, _: &Process) -> Arc<Counted> {
        Arc::clone(store)
    }
    pub(crate) fn candidate(&self, _: &str, _: Duration) {}
    pub(crate) fn compactor(&self) {}
    pub(crate) fn observer(&self) -> Sight {
        Sight
    }
    pub(crate) fn elected(&self) -> Leading {
        Leading
    }
    pub(crate) fn campaigned(&self, _: &'static str) {}
    pub(crate) fn knows(&self, _: Option<Epoch>) {}
    pub(crate) fn polled(&self) {}
    pub(crate) fn renewal(&self, _: &Answer) {}
    pub(crate) fn renewed(&self, _: Duration, _: Duration, _: Duration) {}
    pub(crate) fn deleted(&self, _: usize) {}
    pub(crate) fn compacted(&self, _: &'static str, _: Option<u64>) {}
}

impl Leading {
    pub(crate) fn remains(&self, _: Duration) {}
    pub(crate) fn at_risk(&self) {}
    pub(crate) fn lost(&self, _: &'static str) {}
}

impl Sight {
    pub(crate) fn sees(&mut self, _: &'static str) {}
}

#[derive(Debug)]
pub(crate) struct Overdue;

impl Overdue {
    pub(crate) fn began(&mut self) {}
    pub(crate) fn ended(&mut self) {}
}

impl Owner {
    pub(crate) fn granted(&mut self) {}
    pub(crate) fn revoked(&self) {}
    pub(crate) fn lost(&mut self, _: &'static str) {}
    pub(crate) fn coordinates(&mut self, _: bool) {}
}

impl GroupSight {
    pub(crate) fn polled(&self, _: bool) {}
    pub(crate) fn sees(&self, _: &Assignment) {}
}
