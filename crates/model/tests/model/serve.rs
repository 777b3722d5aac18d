//! The store's answers to requests, and the changes that a broken process makes to these answers.

use tenure::Epoch;
use tenure::protocol::find::{After, Listing};
use tenure::protocol::message::Input;
use tenure::protocol::message::{Answer, EpochEnd, Request, Sighting};

use super::others::WHOLE;
use super::process::{Phase, Process};
use super::setting::{Broken, Role};
use super::store::{Body, Number, Wire, nonce_of, small};
use super::world::{Game, Message, Serving, World};

impl Game {
    pub fn serve(&self, world: &mut World, who: usize, serving: Serving) -> Option<()> {
        let request = self.ask(world, who)?;
        if let Some(answer) = self.made_up(world, who, &request) {
            self.tell(world, who, Input::Answer(answer), true);
            return Some(());
        }
        if let Request::List(After::Number(after)) = request
            && self.setting.unordered
            && serving == Serving::ShortPage
        {
            return self.first_page(world, who, after);
        }
        let reads = matches!(request, Request::List(_) | Request::Get { .. });
        world.history.require("observer", reads || world.processes[who].role != Role::Observer);
        let answer = match Wire::of(&request) {
            Some(wire) => self.write(world, wire, serving)?,
            None => self.read(world, who, &request, serving)?,
        };
        let answer = self.meddle(world, who, answer);
        if serving == Serving::Late {
            world.left.late -= 1;
            world.processes[who].mail = Some(answer);
        } else {
            self.tell(world, who, Input::Answer(answer), true);
        }
        Some(())
    }

    /// Reads the first page of a listing without order. The store's client refuses a listing of two
    /// pages, but a broken process reads the second page later, and uses both pages.
    fn first_page(&self, world: &mut World, who: usize, after: u64) -> Option<()> {
        world.left.short_pages -= 1;
        if self.setting.broken != Broken::TornListing {
            self.tell(world, who, Input::Answer(Answer::Unknown), true);
            return Some(());
        }
        self.date(world, who, &After::Number(after));
        let page = world.store.unordered_page(small(after), true);
        world.processes[who].first_page.is_none().then_some(())?;
        world.processes[who].first_page = Some(page);
        Some(())
    }

    fn write(&self, world: &mut World, wire: Wire, serving: Serving) -> Option<Answer> {
        let resigns = wire.body().and_then(Body::ended) == Some(EpochEnd::Resigned);
        let wire = match (self.setting.broken, wire) {
            (Broken::ResignsByDeleting, Wire::Replace { epoch, .. }) if resigns => {
                Wire::Delete { epoch }
            }
            (_, wire) => wire,
        };
        let accepted = world.store.accepts(wire);
        let mut message = Message::new(wire);
        let answer = self.carry_out(world, message);
        message.sealed_since = false;
        match serving {
            Serving::Twice => {
                world.left.twice -= 1;
                self.copy_stays(world, message);
            }
            Serving::UntrueRefusal if !accepted => return None,
            Serving::UntrueRefusal => {
                world.left.untrue_refusals -= 1;
                return Some(Answer::Refused);
            }
            _ => {}
        }
        Some(answer)
    }

    fn read(
        &self,
        world: &mut World,
        who: usize,
        request: &Request,
        serving: Serving,
    ) -> Option<Answer> {
        match request {
            Request::Get { epoch: Some(epoch), unless } => {
                let mut answer = world.store.read(*epoch, unless.as_ref());
                if serving == Serving::Touched {
                    let Answer::Found { sighting, touched } = &mut answer else { return None };
                    *touched = sighting.is_foreign();
                    touched.then_some(())?;
                    world.left.touches -= 1;
                }
                Some(answer)
            }
            Request::List(After::Number(after)) if world.processes[who].first_page.is_some() => {
                let mut listed = world.store.unordered_page(small(*after), false);
                listed.extend(world.processes[who].first_page.take()?);
                let epoch = |number: &Number| Epoch::new(u64::from(*number));
                let ends = listed.first().and_then(epoch).zip(listed.last().and_then(epoch));
                Some(Answer::Listed(Listing { epochs: ends, rest: None }))
            }
            Request::List(after) => {
                self.date(world, who, after);
                let most = if serving == Serving::ShortPage { 1 } else { WHOLE };
                let mut listing = world.store.list(after, self.setting.foreign_keys, most);
                if serving == Serving::ShortPage {
                    listing.rest.as_ref()?;
                    world.left.short_pages -= 1;
                }
                if self.setting.broken == Broken::OnePage {
                    listing.rest = None;
                }
                Some(Answer::Listed(listing))
            }
            _ => unreachable!("all other requests are writes"),
        }
    }

    /// Records the date of a grant if the requested page is the first page of the confirming LIST.
    fn date(&self, world: &mut World, who: usize, after: &After) {
        let epoch = world.processes[who].greatest();
        if let Some(nonce) = world.confirming(who)
            && *after == After::Number(u64::from(epoch))
        {
            world.history.date(&world.store, epoch, nonce);
        }
        let process = &mut world.processes[who];
        if self.walks() && process.leads.is_some() && *after == After::Number(u64::from(epoch)) {
            process.verified = world.store.newest() <= epoch;
        }
    }

    /// Returns the answer that a broken process invents instead of sending the request.
    pub fn made_up(&self, world: &mut World, who: usize, request: &Request) -> Option<Answer> {
        match (self.setting.broken, request) {
            (Broken::NoConfirm | Broken::ConfirmsFirst, Request::List(after)) => {
                world.confirming(who)?;
                self.date(world, who, after);
                Some(Answer::Listed(Listing { epochs: None, rest: None }))
            }
            (Broken::NoSeal, Request::Seal { ended: EpochEnd::Lapsed, etag, .. }) => {
                Some(Answer::Done { etag: etag.clone() })
            }
            _ => None,
        }
    }

    /// Returns the answer as a broken process changes it.
    fn meddle(&self, world: &World, who: usize, mut answer: Answer) -> Answer {
        let Process { phase, creating, leads, reclaims, inherited, .. } = &*world.processes[who];
        if let Answer::Found { sighting: Sighting { seen, .. }, .. } = &mut answer {
            let inherited = inherited.iter().any(|nonce| Some(nonce_of(*nonce)) == seen.nonce);
            seen.reclaimable = *reclaims && inherited;
            let own_read = *phase == Phase::Creating || leads.is_some();
            match self.setting.broken {
                Broken::ForgetsItself if own_read => seen.nonce = None,
                Broken::TrustsName if *phase == Phase::Creating => {
                    seen.nonce = creating.last().copied().map(nonce_of);
                }
                _ => {}
            }
        }
        answer
    }
}
