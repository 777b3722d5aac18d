//! Models one candidate: the library's real state machine, and the behaviour of its driver that
//! changes the explored states.

use tenure::Epoch;
use tenure::protocol::candidate::Candidate;
use tenure::protocol::find::After;
use tenure::protocol::message::{Answer, Request, Step, Wait};
use tenure::protocol::message::{Event, Input, Rules};

use super::setting::Role;
use super::store::{NonceNumber, Number, epoch_of, nonce_of, small};

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct Process {
    pub role: Role,
    pub machine: Candidate,
    /// The granted epoch and its nonce, until the process learns of a loss.
    pub leads: Option<(Number, NonceNumber)>,
    pub phase: Phase,
    /// Nonces of the create requests for one epoch, in the order in which the process sent them.
    pub creating: Vec<NonceNumber>,
    /// Nonces of abandoned creates. The process records these nonces only if `Setting::remembers`
    /// is set.
    pub sent: Vec<NonceNumber>,
    /// The store's answer that is in transit to the process.
    pub mail: Option<Answer>,
    /// The epochs on the first page of a listing without order. Only a broken process keeps them.
    pub first_page: Option<Vec<Number>>,
    /// True if a broken process listed the epochs before its create and found no greater epoch.
    pub confirmed: bool,
    /// True if the process has crashed and restarted.
    pub reborn: bool,
    /// The next three fields belong to a process with a unique name. `drawn` holds the nonces that
    /// the process drew since its last start. `inherited` holds all earlier nonces. `reclaims` is
    /// true during the first campaign after a restart.
    pub drawn: Vec<NonceNumber>,
    pub inherited: Vec<NonceNumber>,
    pub reclaims: bool,
    /// True if the LIST that verified the last renewal showed no greater epoch on its first page.
    /// Only random walks set this field.
    pub verified: bool,
}

/// The phase of a campaign, derived from the requests of the state machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Phase {
    Elsewhere,
    /// The candidate sends a create, or reads the epoch object after a refused create.
    Creating,
    Confirming {
        nonce: NonceNumber,
    },
}

impl Process {
    pub fn new(role: Role, rules: Rules, greatest: Option<Epoch>) -> Process {
        Process {
            role,
            machine: Candidate::new(rules, greatest),
            leads: None,
            phase: Phase::Elsewhere,
            creating: Vec::new(),
            sent: Vec::new(),
            mail: None,
            first_page: None,
            confirmed: false,
            reborn: false,
            drawn: Vec::new(),
            inherited: Vec::new(),
            reclaims: false,
            verified: false,
        }
    }

    /// Returns the process after a crash and a restart. The restarted process has seen no epoch.
    pub fn born_again(self, rules: Rules) -> Process {
        let Process { role, drawn, mut inherited, .. } = self;
        inherited.extend(drawn);
        let again = Process::new(role, rules, None);
        Process { reborn: true, reclaims: role == Role::Unique, inherited, ..again }
    }

    /// Returns the greatest epoch that the process has seen, or 0.
    pub fn greatest(&self) -> Number {
        self.machine.greatest().map_or(0, |epoch| small(epoch.get()))
    }

    pub fn is_creating(&self) -> bool {
        self.machine.step() == Step::Nonce
    }

    pub fn draw(&mut self, nonce: NonceNumber) {
        self.creating.push(nonce);
        if self.role == Role::Unique {
            self.drawn.push(nonce);
        }
        self.machine.handle(Input::Nonce(nonce_of(nonce)));
    }

    /// Passes an input to the state machine. Skips the waits before a retry and before the next
    /// campaign, because such a wait is equivalent to a late request.
    pub fn handle(&mut self, input: Input) -> Option<Event> {
        let told = match &input {
            Input::Answer(answer) => Some(answer.clone()),
            _ => None,
        };
        let abandons = input == Input::Abandon;
        let event = self.machine.handle(input);
        match event {
            Some(Event::Granted { epoch, heartbeat }) => {
                let attempt =
                    usize::try_from(heartbeat).expect("the number of attempts is small") - 1;
                self.leads = Some((small(epoch.get()), self.creating[attempt]));
                self.reclaims = false;
            }
            Some(Event::Lost(_)) => self.leads = None,
            Some(Event::Extended { .. }) => {}
            None if abandons => self.leads = None,
            None => {}
        }
        self.go_on();
        self.enter_phase(told);
        event
    }

    /// Keeps the nonces of abandoned creates until the process sees a greater epoch.
    pub fn remember(&mut self, creating: Vec<NonceNumber>) {
        let given_up = creating.into_iter().filter(|nonce| !self.creating.contains(nonce));
        self.sent.extend(given_up);
        let created = self.sent.last().map(|nonce| epoch_of(*nonce));
        if self.leads.is_some() || created.is_some_and(|epoch| epoch < self.greatest()) {
            self.sent.clear();
        }
    }

    /// Returns the nonce of an abandoned create if the process wrongly takes the created epoch
    /// object for another candidate's object.
    pub fn followed_nonce(&self) -> Option<NonceNumber> {
        let nonce = self.machine.followed()?.seen.nonce?;
        self.sent.iter().copied().find(|sent| nonce_of(*sent) == nonce)
    }

    fn go_on(&mut self) {
        loop {
            match self.machine.step() {
                Step::Wait(Wait::Retry) if self.leads.is_none() => {
                    self.machine.handle(Input::Resume);
                }
                Step::Wait(Wait::Over) => self.machine.restart(),
                _ => break,
            }
        }
    }

    fn enter_phase(&mut self, told: Option<Answer>) {
        let step = self.machine.step();
        let creates = self.greatest();
        self.phase = match (self.phase, step) {
            (_, Step::Nonce) => Phase::Creating,
            (Phase::Creating, Step::Request(Request::Get { .. })) => Phase::Creating,
            // This LIST starts after the created epoch, so it confirms a create. The first LIST of
            // a search for the newest epoch starts one number lower.
            (Phase::Creating, Step::Request(Request::List(After::Number(after))))
                if after == u64::from(creates) && !self.creating.is_empty() =>
            {
                let found = told.and_then(|answer| self.own_nonce(&answer));
                let sent = self.creating.last().copied();
                Phase::Confirming { nonce: found.or(sent).expect("a create was sent") }
            }
            (confirming @ Phase::Confirming { .. }, Step::Request(Request::List(_)))
                if self.leads.is_none() =>
            {
                confirming
            }
            _ => Phase::Elsewhere,
        };
        if self.phase == Phase::Elsewhere {
            self.creating.clear();
            self.confirmed = false;
        }
    }

    /// Returns the nonce in the answer if this process created an epoch object with the nonce. If
    /// not, returns `None`.
    pub fn own_nonce(&self, answer: &Answer) -> Option<NonceNumber> {
        let Answer::Found { sighting, .. } = answer else { return None };
        self.creating.iter().copied().find(|nonce| Some(nonce_of(*nonce)) == sighting.seen.nonce)
    }
}
