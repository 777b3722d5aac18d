//! Models one candidate: the library's real state machine, and the behaviour of its driver that
//! changes the explored states.

use tenure::protocol::message::{Answer, Request, Step, Wait};
use tenure::protocol::message::{Event, Input, Rules};
use tenure::protocol::single::SingleCandidate;

use super::checks::Won;
use super::store::{SingleBody, nonce_of, small};

const RULES: Rules = Rules { observer: false, verify_renewals: false, takeover_delay: false };

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct SingleProcess {
    pub machine: SingleCandidate,
    /// The granted token and its nonce, until the process learns of a loss.
    pub leads: Option<Won>,
    /// Nonces of the attempts to overwrite one state of the object, in the order in which the
    /// process sent these attempts.
    pub sent: Vec<u8>,
    /// The store's answer in transit, and the number of writes to the object before this answer.
    pub mail: Option<(Answer, u8)>,
    /// The content that the process expects in the store, and the number of writes to the object
    /// before the process first read this content.
    pub seen: Option<(SingleBody, u8)>,
    /// True if the process has crashed and restarted.
    pub reborn: bool,
}

impl SingleProcess {
    pub fn new() -> SingleProcess {
        let machine = SingleCandidate::new(RULES, None);
        SingleProcess {
            machine,
            leads: None,
            sent: Vec::new(),
            mail: None,
            seen: None,
            reborn: false,
        }
    }

    /// Restarts the campaign. The process keeps only the greatest epoch that it has seen.
    pub fn forget_attempts(&mut self) {
        self.machine = SingleCandidate::new(RULES, self.machine.greatest());
    }

    pub fn greatest(&self) -> u8 {
        self.machine.greatest().map_or(0, |epoch| small(epoch.get()))
    }

    pub fn draw(&mut self, nonce: u8) {
        self.machine.handle(Input::Nonce(nonce_of(nonce)));
        if let Step::Request(Request::Take { write, .. } | Request::Create { write, .. }) =
            self.machine.step()
            && write.heartbeat == 1
        {
            self.sent.clear();
        }
        self.sent.push(nonce);
    }

    /// Passes an input to the state machine. Skips waits that have no effect in this model.
    pub fn handle(&mut self, input: Input, writes: u8) -> Option<Event> {
        match &input {
            Input::Answer(Answer::Found { sighting, .. }) => {
                self.sees(SingleBody::of(sighting), writes)
            }
            Input::Answer(Answer::Done { etag }) => self.sees(SingleBody::from_etag(etag), writes),
            _ => {}
        }
        let abandons = input == Input::Abandon;
        let event = self.machine.handle(input);
        match event {
            Some(Event::Granted { epoch, heartbeat }) => {
                let token = small(epoch.get());
                let attempt =
                    usize::try_from(heartbeat).expect("the number of attempts is small") - 1;
                let nonce = self.sent[attempt];
                self.leads = Some((token, nonce));
                self.sent.clear();
            }
            Some(Event::Lost(_)) => self.leads = None,
            None if abandons => self.leads = None,
            _ => {}
        }
        loop {
            match self.machine.step() {
                Step::Wait(Wait::Retry) if self.leads.is_none() => {
                    self.machine.handle(Input::Resume);
                }
                Step::Wait(Wait::Over) => self.machine.restart(),
                _ => return event,
            }
        }
    }

    fn sees(&mut self, body: SingleBody, writes: u8) {
        if self.seen.is_none_or(|(before, _)| before != body) {
            self.seen = Some((body, writes));
        }
    }
}
