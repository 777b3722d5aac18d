//! Prints a counterexample: the path to a state that breaks a property.

use tenure::protocol::find::After;
use tenure::protocol::message::Input;
use tenure::protocol::message::{Request, Step, Wait};

use super::store::Wire;
use super::world::{Action, Due, Game, Serving, World};

impl Game {
    /// Describes an action in this state in one line.
    pub fn describe_action(&self, world: &World, action: &Action) -> String {
        let name = |who: &usize| {
            char::from(b'A' + u8::try_from(*who).expect("the number of candidates is small"))
        };
        match action {
            Action::Serve(who, due, serving) => {
                let asks = self.asks(world, *who, due);
                let how = match serving {
                    Serving::Once => "",
                    Serving::Twice => ", and a copy stays in transit",
                    Serving::Late => ", and the answer stays in transit",
                    Serving::ShortPage => ", and gets one key although more follow",
                    Serving::Touched => ", which was written again",
                    Serving::UntrueRefusal => ", which takes effect and is answered with 412",
                };
                format!("{} {asks}{how}", name(who))
            }
            Action::GivesUp(who, due) => {
                format!("{} gives up on: {}", name(who), self.asks(world, *who, due))
            }
            Action::Deliver(who) => format!("{} gets its answer", name(who)),
            Action::Tell(who, Input::LeaseEnded) => format!("the lease of {} ends", name(who)),
            Action::Tell(who, input) => format!("{}: {input:?}", name(who)),
            Action::Crash(who) => format!("{} crashes and starts again", name(who)),
            Action::ConfirmsFirst(who) => format!("{} lists before it creates", name(who)),
            Action::Arrives(which) => format!("late: {}", tell(world.wires[*which].wire)),
            Action::ArrivesTwice(which) => {
                format!("late, with a copy in transit: {}", tell(world.wires[*which].wire))
            }
            Action::Compacts(which, page) => format!("compactor {which} lists: {page:?} page"),
            Action::Depose(epoch, false) => format!("the operator deposes {epoch}"),
            Action::Depose(epoch, true) => format!("the operator deposes {epoch} by force"),
            Action::PeerDecides => "Morling's peer finds the newest epoch expired".to_owned(),
            Action::PeerCreates => "Morling's peer creates".to_owned(),
            Action::PeerTouches(epoch) => format!("Morling's peer rewrites {epoch}"),
        }
    }

    fn asks(&self, world: &World, who: usize, due: &Due) -> String {
        let mut process = world.processes[who].clone();
        if let Some(input) = due {
            process.handle(input.clone());
        }
        match process.machine.step() {
            Step::Nonce => format!("creates {} with a new nonce", process.greatest() + 1),
            Step::Request(Request::List(After::Number(after))) => format!("lists after {after}"),
            Step::Request(Request::List(After::Key(_))) => {
                "continues the listing after a foreign key".to_owned()
            }
            Step::Request(Request::Get { epoch: Some(epoch), .. }) => format!("reads {epoch}"),
            Step::Request(request) => Wire::of(&request).map_or_else(String::new, tell),
            Step::Wait(Wait::Follow) => "follows".to_owned(),
            step => format!("{step:?}"),
        }
    }
}

fn tell(wire: Wire) -> String {
    match wire {
        Wire::Create { epoch, body } => format!("creates {epoch} (nonce {})", body.nonce),
        Wire::Replace { epoch, body, .. } => match body.ended() {
            Some(ended) => format!("seals {epoch} as {ended}"),
            None => format!("renews {epoch} (heartbeat {})", body.heartbeat),
        },
        Wire::Delete { epoch } => format!("deletes {epoch}"),
    }
}
