//! The changes that a broken process makes to its inputs.

use tenure::EpochEnd;
use tenure::protocol::across::message::{AcrossInput, AcrossRequest, AcrossWait, Marker};
use tenure::protocol::find::{After, Listing};
use tenure::protocol::message::{Answer, Request};

use super::setting::Broken;
use super::store::small;
use super::world::{Game, World};

impl Game {
    /// Returns the answer to a LIST, as a broken process takes it.
    pub fn listed(
        &self,
        world: &World,
        who: usize,
        store: usize,
        confirms: bool,
        page: Listing,
        marker: Option<Marker>,
    ) -> AcrossInput {
        let nothing = Listing { epochs: None, rest: None };
        let leads = world.processes[who].machine.wait() == AcrossWait::Lead;
        let page = match self.setting.broken {
            Broken::NoConfirm if confirms => nothing,
            Broken::JoinsUnconfirmed if confirms && leads => nothing,
            _ => page,
        };
        let early = world.processes[who].early[store].clone().filter(|_| confirms);
        let (page, marker) = early.unwrap_or((page, marker));
        let marker = match self.setting.broken {
            Broken::NoMarker => Some(marker.unwrap_or(Marker { generation: 1, notes: [0; 5] })),
            Broken::SameGeneration => marker.map(|_| Marker { generation: 1, notes: [0; 5] }),
            _ => marker,
        };
        AcrossInput::Listed { store, page, marker }
    }

    /// Returns the answer to a GET, as a broken process takes it.
    pub fn meddle(&self, world: &World, answer: Answer) -> Answer {
        let Answer::Found { mut sighting, touched } = answer else { return answer };
        let ended = &mut sighting.seen.ended;
        match self.setting.broken {
            Broken::NoWait if *ended == Some(EpochEnd::Deposed) => {
                *ended = Some(EpochEnd::Lapsed);
            }
            Broken::ClosedByOne => {
                let epoch = small(sighting.epoch.get());
                let bodies = world.sites.iter().filter_map(|site| site.get(epoch));
                if bodies.into_iter().any(|body| body.ended().is_some()) {
                    *ended = Some(EpochEnd::Lapsed);
                }
            }
            Broken::NoClose if ended.is_none() => *ended = Some(EpochEnd::Lapsed),
            _ => {}
        }
        Answer::Found { sighting, touched }
    }

    /// A broken process sends the confirming LIST right after its create at the same store.
    pub fn lists_early(
        &self,
        world: &mut World,
        who: usize,
        store: usize,
        request: &AcrossRequest,
    ) {
        let AcrossRequest::Plain(Request::Create { epoch, .. }) = request else { return };
        if self.setting.broken == Broken::ListsEarly {
            let listing = world.sites[store].list(&After::Number(epoch.get()));
            world.processes[who].early[store] = Some(listing);
        }
    }
}
