//! The changes that a broken process makes to its inputs.

use tenure::protocol::across::message::{
    AcrossInput, AcrossRequest, AcrossWait, MAX_STORES, Marker,
};
use tenure::protocol::find::{After, Listing};
use tenure::protocol::message::{Answer, Request};
use tenure::{Epoch, EpochEnd};

use super::setting::Broken;
use super::store::{Write, small};
use super::world::{Game, World};

impl Game {
    /// Returns the answer to a LIST, with the changes of a broken process.
    pub fn listed(
        &self,
        world: &mut World,
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
        let (page, marker) = self.list_again(world, who, store, confirms, (page, marker));
        let first = Marker { generation: 1, notes: [0; MAX_STORES] };
        let marker = match self.setting.broken {
            Broken::NoMarker => Some(marker.unwrap_or(first)),
            Broken::SameGeneration => marker.map(|_| first),
            Broken::IgnoresNotes => marker.map(|it| Marker { notes: first.notes, ..it }),
            _ => marker,
        };
        AcrossInput::Listed { store, page, marker }
    }

    /// Returns the listing, or an earlier one that a broken process has kept.
    fn list_again(
        &self,
        world: &mut World,
        who: usize,
        store: usize,
        confirms: bool,
        listing: (Listing, Option<Marker>),
    ) -> (Listing, Option<Marker>) {
        let process = &mut world.processes[who];
        let newest = process.machine.newest().map(|epoch| small(epoch.get()));
        let marks = newest.is_some() && process.closable[store] == newest;
        let kept = process.early[store].clone();
        let keeps = match self.setting.broken {
            Broken::ListsEarly => return kept.filter(|_| confirms).unwrap_or(listing),
            Broken::KeepsLists => confirms,
            Broken::AnyListMarks if !confirms && marks => return kept.unwrap_or(listing),
            Broken::AnyListMarks => !confirms,
            Broken::MayFall if !confirms && listing.0.epochs.is_none() => {
                return kept.unwrap_or(listing);
            }
            Broken::MayFall => !confirms,
            _ => false,
        };
        if self.setting.broken == Broken::KeepsLists && keeps && kept.is_some() {
            return kept.unwrap_or(listing);
        }
        if keeps {
            process.early[store] = Some(listing.clone());
        }
        listing
    }

    /// Returns the answer to a GET, with the changes of a broken process.
    pub fn meddle(
        &self,
        world: &mut World,
        who: usize,
        store: usize,
        epoch: Epoch,
        answer: Answer,
    ) -> Answer {
        if self.setting.broken == Broken::KeepsKnown
            && let Some((kept, body)) = world.processes[who].kept[store]
            && epoch.get() == u64::from(kept)
        {
            return body.found(epoch);
        }
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

    /// Some broken processes keep the body of an epoch that they have sealed. Others keep a LIST,
    /// and forget it once their create is done.
    pub fn keeps(&self, world: &mut World, who: usize, store: usize, write: Write, to: &Answer) {
        if !matches!(to, Answer::Done { .. }) {
            return;
        }
        let (broken, process) = (self.setting.broken, &mut world.processes[who]);
        match write {
            Write::Create { body, .. } if broken == Broken::KeepsLists && body.nonce > 0 => {
                process.early[store] = None;
            }
            Write::Replace { epoch, body, .. } if broken == Broken::KeepsKnown => {
                process.kept[store] = body.ended().map(|_| (epoch, body));
            }
            _ => {}
        }
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
            let listing = world.sites[store].list(&After::Number(epoch.get()), true);
            world.processes[who].early[store] = Some(listing);
        }
    }
}
