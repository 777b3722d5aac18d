//! The participants of a scenario, and the effect of each line.

use std::collections::BTreeMap;

use tenure::protocol::candidate::Candidate;
use tenure::protocol::message::{Answer, Nonce, Request, Sighting, Step};
use tenure::protocol::message::{Event, Input, Rules};
use tenure::{Epoch, EpochEnd};

use super::store::{Body, Reply, Store};
use super::words::{self, Names};

type Done = Result<(), String>;

#[derive(Debug)]
struct Participant {
    /// Name of the participant in its records. Two participants may share a name.
    name: String,
    unique: bool,
    machine: Candidate,
    nonces: Vec<Nonce>,
    /// The request in progress. The second value is the answer of the store, or `None` if the
    /// request has not reached the store.
    asked: Option<(Request, Option<Reply>)>,
    last: Option<Event>,
    /// The epoch and the number of touches in the last read of a foreign record. If the next read
    /// shows a greater number, the peer has touched the record in the meantime.
    touches: Option<(Epoch, u32)>,
}

#[derive(Debug, Default)]
pub struct World {
    store: Store,
    names: Names,
    participants: BTreeMap<String, Participant>,
    /// All requests so far. Each request may reach the store late, or a second time.
    sent: Vec<(String, String, Request)>,
    granted: BTreeMap<Epoch, String>,
}

fn not_understood() -> String {
    "not understood".to_owned()
}

fn epoch(word: &str) -> Result<Epoch, String> {
    word.parse().map_err(|_| not_understood())
}

/// Returns the epoch object that a line names.
fn object<'s>(store: &'s mut Store, word: &str) -> Result<&'s mut super::store::Object, String> {
    let epoch = epoch(word)?;
    store.objects.get_mut(&epoch).ok_or_else(|| format!("epoch object {epoch} does not exist"))
}

impl World {
    /// Applies one line.
    pub fn take(&mut self, line: &str) -> Done {
        if let Some(what) = line.strip_prefix("expect ") {
            return self.expect(what);
        }
        if let Some(what) = line.strip_prefix("store: ") {
            return self.store_does(what);
        }
        for (mark, take) in [
            ("> ", World::asks as fn(&mut World, &str, &str) -> Done),
            ("< ", World::hears),
            ("<! ", World::is_told),
            (": ", World::does),
        ] {
            if let Some((label, what)) = line.split_once(mark)
                && label.chars().all(char::is_alphanumeric)
            {
                return take(self, label, what);
            }
        }
        Err(not_understood())
    }

    fn get(&mut self, label: &str) -> Result<&mut Participant, String> {
        self.participants
            .get_mut(label)
            .ok_or_else(|| format!("no participant is called `{label}`"))
    }

    /// Runs a line such as `a> LIST after 0`: the participant `a` sends its next request. The store
    /// applies the request immediately unless the line ends with `, not yet`.
    fn asks(&mut self, label: &str, what: &str) -> Done {
        let (what, reaches) = match what.strip_suffix(", not yet") {
            Some(what) => (what, false),
            None => (what, true),
        };
        let count = self.get(label)?.nonces.len();
        if self.get(label)?.machine.step() == Step::Nonce {
            let nonce = self.names.fresh(label, count + 1);
            let participant = self.get(label)?;
            participant.nonces.push(nonce);
            participant.machine.handle(Input::Nonce(nonce));
        }
        let now = self.describe(label)?;
        let participant = self.get(label)?;
        if participant.asked.is_some() {
            return Err(format!("{label} waits for an answer"));
        }
        let request = match participant.machine.step() {
            Step::Request(request) if now == format!("asks for: {what}") => request,
            _ => return Err(format!("{label} {now}")),
        };
        let name = participant.name.clone();
        let reply = reaches.then(|| self.store.carry_out(&name, &request));
        self.sent.push((label.to_owned(), what.to_owned(), request.clone()));
        self.get(label)?.asked = Some((request, reply));
        Ok(())
    }

    /// Runs a line such as `a< empty`: the answer of the store arrives at the participant `a`. With
    /// `unknown` the answer is lost.
    fn hears(&mut self, label: &str, what: &str) -> Done {
        let participant = self.get(label)?;
        let (request, reply) = participant.asked.take().ok_or("no request is in progress")?;
        if what == "unknown" {
            return self.answer(label, Answer::Unknown);
        }
        let mut reply = reply.ok_or("the request has not reached the store")?;
        if let (Answer::Found { sighting: Sighting { seen, .. }, touched }, Some(object)) =
            (&mut reply.answer, &reply.object)
        {
            let own = seen.nonce.is_some_and(|nonce| participant.nonces.contains(&nonce));
            let same_name = object.body.name == participant.name;
            seen.reclaimable = participant.unique
                && same_name
                && !own
                && seen.nonce.is_some()
                && seen.ended.is_none();
            let at = epoch_of(&request).filter(|_| seen.nonce.is_none());
            let now = at.map(|epoch| (epoch, object.touches));
            *touched = now
                .zip(participant.touches)
                .is_some_and(|(now, before)| now.0 == before.0 && now.1 != before.1);
            participant.touches = now;
        }
        let answered = self.names.answer(&reply.answer);
        if answered != what {
            return Err(format!("the store answered: {answered}"));
        }
        self.answer(label, reply.answer)
    }

    /// Runs a line such as `a<! refused`: the participant `a` gets an answer that does not match
    /// the state of the store.
    fn is_told(&mut self, label: &str, what: &str) -> Done {
        let answer = words::made_up(what).ok_or_else(not_understood)?;
        // A story may send an answer to a participant that waits for no answer. The state machine
        // must ignore this answer.
        self.get(label)?.asked = None;
        self.answer(label, answer)
    }

    fn answer(&mut self, label: &str, answer: Answer) -> Done {
        let participant = self.get(label)?;
        let event = participant.machine.handle(Input::Answer(answer));
        if let Some(Event::Granted { epoch, .. }) = event {
            let before = self.granted.insert(epoch, label.to_owned());
            if let Some(before) = before {
                return Err(format!("I1: {epoch} was already granted to {before}"));
            }
            if self.granted.keys().next_back() != Some(&epoch) {
                return Err(format!("I2: a greater epoch than {epoch} was granted before"));
            }
        }
        let participant = self.get(label)?;
        participant.last = event.or(participant.last);
        Ok(())
    }

    /// Runs a line such as `a: candidate`, or an event of the clock or the application such as `a:
    /// lapsed`.
    fn does(&mut self, label: &str, what: &str) -> Done {
        let mut words = what.split(", ");
        if let Some(kind @ ("candidate" | "observer")) = words.next() {
            let mut rules = Rules {
                observer: kind == "observer",
                verify_renewals: false,
                takeover_delay: false,
            };
            let (mut name, mut unique, mut greatest) = (label.to_owned(), false, None);
            for option in words {
                match option.split_once(' ') {
                    Some(("named", other)) => name = other.to_owned(),
                    Some(("knows", number)) => greatest = Some(epoch(number)?),
                    _ if option == "whose name is unique" => unique = true,
                    _ if option == "verifies renewals" => rules.verify_renewals = true,
                    _ if option == "delays takeovers" => rules.takeover_delay = true,
                    _ => return Err(not_understood()),
                }
            }
            let machine = Candidate::new(rules, greatest);
            let (nonces, asked, last, touches) = (Vec::new(), None, None, None);
            let participant = Participant { name, unique, machine, nonces, asked, last, touches };
            self.participants.insert(label.to_owned(), participant);
            return Ok(());
        }
        let input = match what {
            "lapsed" => Input::Lapsed,
            "poll due" => Input::PollDue,
            "takeover over" => Input::TakeoverOver,
            "resume" => Input::Resume,
            "renew due" => Input::RenewDue,
            "look due" => Input::LookDue,
            "resign" => Input::Resign,
            "abandon" => Input::Abandon,
            "lease ended" => Input::LeaseEnded,
            "campaign again" => {
                self.get(label)?.machine.restart();
                return Ok(());
            }
            _ => return Err(not_understood()),
        };
        let participant = self.get(label)?;
        let before = participant.machine.clone();
        let event = participant.machine.handle(input);
        participant.last = event.or(participant.last);
        if participant.machine == before {
            return Err("the event changes nothing".to_owned());
        }
        if participant.machine.step() != before.step() {
            // The event changed the next step of the machine, so the participant has abandoned its
            // request.
            participant.asked = None;
        }
        Ok(())
    }

    /// Runs a line such as `store: delete 2`: an action of another process, or a late request.
    fn store_does(&mut self, what: &str) -> Done {
        let words: Vec<&str> = what.split(' ').collect();
        match words[..] {
            ["delete", number] => {
                object(&mut self.store, number)?;
                let epoch = epoch(number)?;
                if self.store.newest() == Some(epoch) {
                    return Err("I3: the newest epoch object is never deleted".to_owned());
                }
                self.store.objects.remove(&epoch);
            }
            ["wipe"] => self.store.objects.clear(),
            ["morling", "creates", number] => {
                let body = Body::new("morling", None, 0);
                if self.store.create(epoch(number)?, body) == Answer::Refused {
                    return Err(format!("epoch object {number} already exists"));
                }
            }
            ["morling", "touches", number] => object(&mut self.store, number)?.touches += 1,
            ["morling", "expires", number] => {
                object(&mut self.store, number)?.body.ended = Some(EpochEnd::Unknown);
            }
            ["operator", "deposes", number] | ["operator", "forces", number] => {
                let body = &mut object(&mut self.store, number)?.body;
                body.heartbeat += 1;
                body.ended =
                    Some(if words[1] == "forces" { EpochEnd::Lapsed } else { EpochEnd::Deposed });
            }
            ["operator", "gives", number, "the", "heartbeat", heartbeat] => {
                let heartbeat = heartbeat.parse().map_err(|_| not_understood())?;
                object(&mut self.store, number)?.body.heartbeat = heartbeat;
            }
            ["operator", "edits", number] => object(&mut self.store, number)?.body.edits += 1,
            ["operator", "garbles", number] => {
                let body = &mut object(&mut self.store, number)?.body;
                body.edits += 1;
                body.readable = false;
            }
            ["foreign", "key", "at", number] => {
                self.store.foreign_keys.insert(epoch(number)?.get());
            }
            ["pages", "of", number] => {
                self.store.page = number.parse().map_err(|_| not_understood())?;
            }
            ["carries", "out", label, ..] => {
                let asked = words[3..].join(" ");
                let is_it = |(by, text, _): &&(String, String, _)| by == label && *text == asked;
                let (_, _, request) =
                    self.sent.iter().rfind(is_it).ok_or("the request was never sent")?.clone();
                let name = self.get(label)?.name.clone();
                let reply = self.store.carry_out(&name, &request);
                let waits = |p: &&mut Participant| p.asked.as_ref().is_some_and(|a| a.0 == request);
                if let Some(participant) = self.participants.get_mut(label).filter(waits) {
                    participant.asked = Some((request, Some(reply)));
                }
            }
            _ => return Err(not_understood()),
        }
        Ok(())
    }

    fn expect(&mut self, what: &str) -> Done {
        let newest = self.store.newest().map_or("none".to_owned(), |epoch| epoch.to_string());
        let words: Vec<&str> = what.split(' ').collect();
        let (holds, really) = match words[..] {
            ["newest", "none"] => (newest == "none", format!("the newest is {newest}")),
            ["newest", number] => {
                let expected = epoch(number)?.to_string();
                (newest == expected, format!("the newest is {newest}"))
            }
            [label, "leads" | "follows" | "waits" | "pauses" | "fails" | "asks", ..] => {
                let now = self.describe(label)?;
                (format!("{label} {now}") == what, format!("{label} {now}"))
            }
            [label, "lost", ..] => {
                let lost = match &self.get(label)?.last {
                    Some(Event::Lost(lost)) => format!("{label} lost {}", words::lost(lost)),
                    other => format!("{label}: {other:?}"),
                };
                (lost == what, lost)
            }
            [label, "extends", "with", "heartbeat", number] => {
                let last = self.get(label)?.last;
                let heartbeat: u64 = number.parse().map_err(|_| not_understood())?;
                let extended = match last {
                    Some(Event::Granted { heartbeat, .. } | Event::Extended { heartbeat }) => {
                        Some(heartbeat)
                    }
                    _ => None,
                };
                (extended == Some(heartbeat), format!("{label}: {last:?}"))
            }
            [label, "has", "seen", number] => {
                let greatest = self.get(label)?.machine.greatest();
                (greatest == Some(epoch(number)?), format!("{label} has seen {greatest:?}"))
            }
            _ => return Err(not_understood()),
        };
        if holds { Ok(()) } else { Err(really) }
    }

    /// Describes the state of a participant in the words of a scenario.
    fn describe(&mut self, label: &str) -> Result<String, String> {
        let participant = self
            .participants
            .get(label)
            .ok_or_else(|| format!("no participant is called `{label}`"))?;
        let machine = &participant.machine;
        Ok(match machine.step() {
            Step::Request(request) => format!("asks for: {}", self.names.request(&request)),
            // The participant will draw a nonce when it sends the create. The description shows the
            // name of this nonce.
            Step::Nonce => {
                let next = machine.greatest().map_or(1, |epoch| epoch.get() + 1);
                format!("asks for: CREATE {next} as {label}{}", participant.nonces.len() + 1)
            }
            Step::Failed(failure) => {
                format!("fails {failure:?}").replace("Epoch(", "").replace("))", ")")
            }
            Step::Wait(tenure::protocol::message::Wait::Retry) => "pauses".to_owned(),
            Step::Wait(tenure::protocol::message::Wait::Lead) => {
                format!("leads {}", machine.greatest().map_or(0, Epoch::get))
            }
            Step::Wait(wait) => match machine.followed() {
                Some(followed) => format!("follows {}", followed.epoch),
                None => format!("waits {}", words::wait(&wait)),
            },
        })
    }
}

fn epoch_of(request: &Request) -> Option<Epoch> {
    match request {
        Request::Get { epoch, .. } => *epoch,
        _ => None,
    }
}
