//! The states that the model checker explores, and the actions that are possible in each state.

use std::collections::{BTreeMap, BTreeSet};

use stateright::{Model, Property};
use tenure::Epoch;
use tenure::protocol::message::{Nonce, Request};
use tenure_groups::protocol::message::{AssignmentRequest, ParticipantStep, SessionRequest};
use tenure_groups::protocol::{
    Assignment, PartitionNumber, Release, Session, SessionId, operation,
};
use tenure_model::hashed_arc::HashedArc;

use super::process::Process;
use super::restore::Restoring;
use super::setting::{Broken, Budget, Group};
use super::store::{End, Object, Store, Wire};

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct World {
    pub store: Store,
    pub processes: Vec<HashedArc<Process>>,
    /// Pending writes. Their senders no longer wait for the answers.
    pub wires: Vec<Wire>,
    pub left: Budget,
    /// The newest assignment that an operator has read.
    pub operator: Option<HashedArc<Assignment>>,
    pub restoring: Option<Restoring>,
    pub ghost: HashedArc<Ghost>,
}

/// Facts about the path to this state, for the checks of invariants. No process knows these facts.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Ghost {
    /// For each partition and each token, the session that was granted the partition under this
    /// token. Recorded at the first LIST that confirmed the grant.
    pub granted: BTreeMap<(PartitionNumber, Epoch), Session>,
    /// For each partition and each token, the first session that believed that it owned the
    /// partition under this token. Used only in the broken variant in which a member takes another
    /// session for its own.
    pub believed: BTreeMap<Release, Nonce>,
    /// Releases of partitions, recorded after the work of the owner has stopped.
    pub stopped: BTreeSet<(Session, Release)>,
    /// For each ended session, the newest assignment at the time of its end. Recorded only if
    /// sessions are compacted.
    pub ended: BTreeMap<Session, Option<Epoch>>,
    /// The greatest assignment that was ever created.
    pub greatest: Option<Epoch>,
    pub broken: BTreeSet<&'static str>,
    pub seen: BTreeSet<&'static str>,
}

/// A possible action. Each `usize` is an index into `processes` or, for `Arrives`, into `wires`.
#[derive(Debug, Clone, PartialEq)]
pub enum Action {
    /// The store applies and answers the request that a process sends for its lease. If the process
    /// has no such request, it first starts a renewal.
    Lease(usize, Serving),
    Resign(usize, Serving),
    /// The store applies and answers the request that a process sends for its membership.
    Ask(usize, Serving),
    Poll(usize),
    List(usize),
    Round(usize),
    GoAhead(usize),
    Stopped(usize, Release),
    Lapsed(usize, Session),
    Waited(usize, Session),
    LeaseEnds(usize),
    Leave(usize),
    Crash(usize),
    Depose(SessionId),
    Vanish(SessionId),
    Compact(Epoch),
    Sweep(SessionId),
    Arrives(usize),
    OperatorReads,
    OperatorWrites(operation::Mark, Serving),
    OperatorAdds,
    /// Other programs delete the newest assignment (`Delete`), all assignments (`Wipe`), or all
    /// objects (`Lose`).
    Delete,
    Wipe,
    Lose,
    /// The three steps of a restore: it creates the held assignment, deposes a session, and creates
    /// the assignment that ends the restore.
    Hold(Serving),
    Swept(SessionId),
    Release(Serving),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Serving {
    Once,
    /// The answer is lost. The write may arrive later.
    Lost,
    /// The request is answered, and a copy of the write may arrive later.
    Twice,
}

impl Group {
    fn process(&self, id: u8) -> Process {
        let ids_alone = self.broken == Broken::IdsAlone;
        let mut process = Process::new(id, 0);
        process.ids_alone = ids_alone;
        process
    }

    pub fn serve(
        &self,
        world: &World,
        writes: bool,
        action: impl Fn(Serving) -> Action,
    ) -> Vec<Action> {
        let mut all = vec![action(Serving::Once)];
        if writes && world.left.lost > 0 {
            all.push(action(Serving::Lost));
        }
        if writes && world.left.twice > 0 {
            all.push(action(Serving::Twice));
        }
        all
    }

    fn lease_actions(&self, world: &World, who: usize, actions: &mut Vec<Action>) {
        let process = &world.processes[who];
        match process.request() {
            Some(request) => {
                let writes = !matches!(request, Request::Get { .. });
                actions.extend(self.serve(world, writes, |it| Action::Lease(who, it)));
            }
            None if process.may_renew()
                && (process.has_news() || self.budget.deletes() && !process.has_said()) =>
            {
                actions.extend(self.serve(world, true, |it| Action::Lease(who, it)));
            }
            None if process.may_renew() && process.leaving => {
                let holdings = process.participant.as_ref().map(|it| it.holdings());
                if holdings.is_some_and(|it| it.owned().next().is_none()) {
                    actions.extend(self.serve(world, true, |it| Action::Resign(who, it)));
                }
            }
            None => {}
        }
        let runs = process.runs.is_some();
        // A restore waits until the leases of deposed members have ended. So these leases may end
        // even if no other lease may end any more.
        let waited = world.restoring.is_some() && world.is_over(process);
        if runs && (world.left.ends > 0 || waited) {
            actions.push(Action::LeaseEnds(who));
        }
        if runs && world.left.leaves > 0 && !process.leaving {
            actions.push(Action::Leave(who));
        }
        let free = !self.reuses_ids || !world.store.sessions.contains_key(&process.id);
        if world.left.crashes > 0 && free && process.participant.is_some() {
            actions.push(Action::Crash(who));
        }
    }

    pub fn group_actions(&self, world: &World, who: usize, actions: &mut Vec<Action>) {
        let process = &world.processes[who];
        let Some(participant) = &process.participant else { return };
        // A member acts only after the second write of its session, with which it joins. It does
        // not act after it has sent the seal of its session, because the session may have ended.
        let over = process.resigning && self.broken != Broken::FollowsItsSeal;
        if process.written.is_none() || over {
            return;
        }
        for release in participant.holdings().owned() {
            let revoked = participant.known().is_some_and(|it| it.is_revoked(release.partition));
            if revoked || process.leaving || world.left.gives > 0 {
                actions.push(Action::Stopped(who, release));
            }
        }
        match participant.step() {
            ParticipantStep::Assignment(AssignmentRequest::Create(it))
                if it.epoch.get() > self.last => {}
            ParticipantStep::Assignment(AssignmentRequest::Create(it))
                if self.broken == Broken::StopsAtDeleted
                    && world.lacks_its_predecessor(it.epoch) => {}
            ParticipantStep::Assignment(request) => {
                let writes = matches!(request, AssignmentRequest::Create(_));
                actions.extend(self.serve(world, writes, |it| Action::Ask(who, it)));
            }
            ParticipantStep::Sessions(request) => {
                actions.push(Action::Ask(who, Serving::Once));
                if world.left.unread > 0 && matches!(request, SessionRequest::Get(_)) {
                    actions.push(Action::Ask(who, Serving::Lost));
                }
            }
            ParticipantStep::Idle => self.idle_actions(world, who, actions),
            _ => {}
        }
    }

    fn idle_actions(&self, world: &World, who: usize, actions: &mut Vec<Action>) {
        let process = &world.processes[who];
        let Some(participant) = &process.participant else { return };
        let known = participant.known().map(|it| it.epoch);
        let next = known.map_or(Some(Epoch::FIRST), Epoch::next);
        let newest = world.store.newest().map(|it| it.epoch);
        if next.is_some_and(|it| world.store.assignments.contains_key(&it)) {
            actions.push(Action::Poll(who));
        }
        if newest > known {
            actions.push(if known.is_some() { Action::List(who) } else { Action::Poll(who) });
        }
        if !participant.coordinates() {
            if known.is_none() || world.left.ahead > 0 {
                actions.push(Action::GoAhead(who));
            }
            return;
        }
        // In a broken variant, a process may draw new conclusions from sessions that it has already
        // read.
        if self.broken.looks_anew() || process.has_to_look(&world.store.sessions) {
            actions.push(Action::Round(who));
        }
        for member in participant.known().map_or(&[][..], |it| &it.members) {
            actions.extend(self.time_actions(world, who, member.session));
        }
    }

    /// Returns the action for `session` that becomes possible because time passes. The model
    /// assumes that the rates of the clocks stay within the drift bound.
    fn time_actions(&self, world: &World, who: usize, session: Session) -> Option<Action> {
        let participant = world.processes[who].participant.as_ref()?;
        if participant.sessions().has_ended(session) {
            return None;
        }
        let runs = world.runs(session);
        let record = participant.sessions().record(session.id);
        match record.filter(|it| it.nonce == session.nonce) {
            Some(record) if record.ended.is_none() => {
                let silent = runs.is_none_or(|from| from > record.heartbeat);
                silent.then_some(Action::Lapsed(who, session))
            }
            Some(record) => {
                let known = Some(record.ended) != Some(Some(End::Deposed.word()));
                let may = known || runs.is_none() || self.broken == Broken::NoWaitForDeposed;
                may.then_some(Action::Waited(who, session))
            }
            None => {
                let object = world.store.sessions.get(&session.id);
                let gone = object.is_none_or(|it| it.nonce != session.nonce);
                let may = runs.is_none() || self.broken == Broken::NoWaitForGone;
                (gone && may).then_some(Action::Waited(who, session))
            }
        }
    }

    fn operator_actions(&self, world: &World, actions: &mut Vec<Action>) {
        match (&world.operator, world.store.newest()) {
            (None, Some(newest)) if world.left.operations > 0 => {
                let mut sessions = world.store.sessions.values();
                if sessions.all(|it| it.seen() <= Some(newest.epoch))
                    || self.broken == Broken::OperatesBlindly
                {
                    actions.push(Action::OperatorReads);
                }
            }
            (Some(read), _) if read.epoch.get() < self.last => {
                let paused = read.partitions.first().is_some_and(|it| it.marks.paused);
                for mark in [operation::Mark::Paused(!paused), operation::Mark::Retiring] {
                    let writes = |it| Action::OperatorWrites(mark.clone(), it);
                    actions.extend(self.serve(world, true, writes));
                }
                actions.push(Action::OperatorAdds);
            }
            _ => {}
        }
    }

    fn other_actions(&self, world: &World, actions: &mut Vec<Action>) {
        let wires = (0..world.wires.len()).filter(|it| world.store.accepts(&world.wires[*it]));
        actions.extend(wires.map(Action::Arrives));
        let newest = world.store.newest();
        for (id, object) in &world.store.sessions {
            if world.left.depositions > 0 && object.ended.is_none() {
                actions.push(Action::Depose(*id));
            }
            if world.left.vanish > 0 && object.ended.is_none() {
                actions.push(Action::Vanish(*id));
            }
            let named = newest.is_some_and(|it| it.session(*id).is_some());
            let evidence = newest.is_none_or(|it| Some(it.epoch) < object.seen());
            let stays = named || evidence && self.broken != Broken::CompactsEvidence;
            if world.left.swept > 0 && object.ended.is_some() && !stays {
                actions.push(Action::Sweep(*id));
            }
        }
        if world.left.compactions > 0 {
            let all = world.store.assignments.keys().copied();
            let may = |it: &Epoch| {
                Some(*it) < newest.map(|it| it.epoch) || self.broken == Broken::CompactsNewest
            };
            actions.extend(all.filter(may).map(Action::Compact));
        }
    }
}

impl World {
    fn lacks_its_predecessor(&self, epoch: Epoch) -> bool {
        epoch > Epoch::FIRST && self.store.newest().and_then(|it| it.epoch.next()) < Some(epoch)
    }

    /// Returns whether the session of this process is sealed or missing in the store.
    fn is_over(&self, process: &Process) -> bool {
        let object = self.store.sessions.get(&process.id);
        object.is_none_or(|it| Some(it.nonce) != process.nonce || it.ended.is_some())
    }

    /// Returns the heartbeat of the last write that extended the lease of this session. Returns
    /// `None` if the lease does not run.
    pub fn runs(&self, session: Session) -> Option<u64> {
        let own = |it: &&HashedArc<Process>| {
            it.participant.as_ref().is_some_and(|it| it.own_session() == session)
        };
        self.processes.iter().find(own)?.runs
    }

    /// Checks that under each token only one session believes that it owns the partition (G1). Used
    /// only in the broken variant that confuses sessions.
    pub fn note_beliefs(&mut self) {
        for process in &self.processes {
            let (Some(participant), Some(nonce)) = (&process.participant, process.nonce) else {
                continue;
            };
            for release in participant.holdings().owned().filter(|it| process.believes(*it)) {
                if *self.ghost.believed.entry(release).or_insert(nonce) != nonce {
                    self.ghost.broken.insert("G1");
                }
            }
        }
    }

    /// Records each newly ended session with the newest assignment. By rule R3 of
    /// docs/design/groups.md, no later assignment may add that session.
    pub fn note_ends(&mut self) {
        let ends = |it: &Object| matches!(it.ended, Some(End::Resigned | End::Lapsed));
        let ended = self.store.sessions.iter().filter(|(_, it)| ends(it));
        let ended = ended.map(|(id, object)| Session { id: *id, nonce: object.nonce });
        let fresh: Vec<_> = ended.filter(|it| !self.ghost.ended.contains_key(it)).collect();
        if !fresh.is_empty() {
            let newest = self.ghost.greatest;
            self.ghost.ended.extend(fresh.into_iter().map(|session| (session, newest)));
        }
    }
}

impl Model for Group {
    type State = HashedArc<World>;
    type Action = Action;

    fn init_states(&self) -> Vec<HashedArc<World>> {
        let mut world = World {
            store: Store::default(),
            processes: (1..=self.members).map(|id| HashedArc::new(self.process(id))).collect(),
            wires: Vec::new(),
            left: self.budget,
            operator: None,
            restoring: None,
            ghost: HashedArc::new(Ghost::default()),
        };
        if self.assigned {
            self.assign(&mut world);
        }
        world.processes.iter_mut().for_each(HashedArc::settle);
        vec![HashedArc::new(world)]
    }

    fn actions(&self, world: &HashedArc<World>, actions: &mut Vec<Action>) {
        for who in 0..world.processes.len() {
            self.lease_actions(world, who, actions);
            self.group_actions(world, who, actions);
        }
        self.operator_actions(world, actions);
        self.deletion_actions(world, actions);
        self.other_actions(world, actions);
    }

    fn next_state(&self, world: &HashedArc<World>, action: Action) -> Option<HashedArc<World>> {
        let mut next = World::clone(world);
        self.act(&mut next, action);
        next.processes.iter_mut().for_each(HashedArc::settle);
        next.ghost.settle();
        (next != **world).then(|| HashedArc::new(next))
    }

    fn properties(&self) -> Vec<Property<Group>> {
        self.checks()
    }
}
