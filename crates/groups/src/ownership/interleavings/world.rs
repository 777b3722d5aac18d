//! The tasks of one interleaving, and the invariants between their critical sections.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::future::poll_fn;
use std::sync::atomic::{AtomicBool, AtomicUsize};

use super::application::Application;
use super::broken::Broken;
use super::*;
use crate::protocol::message::{AssignmentAnswer, ParticipantStep};
use tenure::Election;
use tenure::internals::groups::Listing;
use tenure::store::MemoryStore;
use tenure_testkit::interleavings::spawn;

pub(super) struct World {
    ownership: Arc<Ownership>,
    participant: Mutex<Participant>,
    notices: Mutex<mpsc::UnboundedReceiver<Notice>>,
    broken: Broken,
    pub(super) begun: AtomicBool,
    /// Whether the next critical section is the first one since shuttle resumed the current task.
    /// No other task needs to run before this section, because shuttle has just chosen this task.
    pub(super) comes_first: AtomicBool,
    application: Mutex<Application>,
    news: Notify,
    /// Number of tasks that have not ended.
    left: AtomicUsize,
}

impl World {
    pub(super) fn new(broken: Broken, tasks: usize) -> World {
        let settings = Election::builder(Arc::new(MemoryStore::new()), "group").name("a");
        let cx = settings.numbered(crate::ASSIGNMENT, &crate::telemetry::SESSION).unwrap();
        let lease = Lease::without_driver(&cx, Duration::from_secs(24 * 60 * 60));
        let said = Said { weight: 1, data: Value::Null };
        let (sender, notices) = mpsc::unbounded_channel();
        World {
            ownership: Arc::new(Ownership::new(&Arc::new(cx), OWN, lease, said, sender)),
            participant: Mutex::new(Participant::new(OWN, None)),
            notices: Mutex::new(notices),
            broken,
            begun: AtomicBool::new(false),
            comes_first: AtomicBool::new(false),
            application: Mutex::default(),
            news: Notify::new(),
            left: AtomicUsize::new(tasks),
        }
    }

    pub(super) fn listen(&self) {
        let mut application = self.application.lock().unwrap();
        let mut notices = self.notices.lock().unwrap();
        while let Ok(notice) = notices.try_recv() {
            application.takes(MembershipEvent::new(notice, &self.ownership));
        }
        drop((application, notices));
        self.news.notify_waiters();
    }

    /// Checks the invariants. The caller must ensure that no task is in a critical section.
    pub(super) fn look(&self) {
        let state = self.ownership.state.try_lock().expect("no task is in a critical section");
        let application = self.application.lock().unwrap();
        let (holdings, lives) = (&state.holdings, self.ownership.lease.check().is_ok());
        for partition in &application.partitions {
            let owns = holdings.token(partition.number()) == Some(partition.token());
            assert_eq!(
                partition.check().is_ok(),
                owns && lives,
                "the check of {partition:?} differs from the holdings"
            );
            let released = (partition.number(), partition.token());
            if application.released.contains(&released) {
                assert!(!owns, "a released partition is still owned: {partition:?}");
            }
        }
        let mut releasing = BTreeSet::new();
        for (release, _) in holdings.releasing() {
            assert!(releasing.insert(release.partition), "released twice: {release:?}");
        }
        let kept: Vec<_> = state.grants.values().map(|grant| grant.release).collect();
        let owned: Vec<_> = holdings.owned().filter(|_| !application.lost).collect();
        assert_eq!(kept, owned, "the grants differ from the holdings");
    }

    /// Ends a task. The last task makes the final checks. No task waits for the end of another
    /// task, because such waits would only add interleavings.
    fn end(&self) {
        if self.left.fetch_sub(1, Ordering::SeqCst) == 1 {
            self.look();
            assert!(self.application.lock().unwrap().lost, "the application received no loss");
        }
    }

    /// Starts the tasks. The member knows the first assignment before the tasks begin.
    pub(super) fn start(
        self: &Arc<Self>,
        assignments: &[Assignment],
        releases: usize,
        tasks: &[Does],
    ) {
        let (first, rest) = assignments.split_first().unwrap();
        self.follows(first.clone());
        self.begun.store(true, Ordering::SeqCst);
        for does in tasks.iter().copied() {
            let world = Arc::clone(self);
            self.spawn(async move { world.run(does).await });
        }
        let (world, rest) = (Arc::clone(self), rest.to_vec());
        self.spawn(async move { world.member(rest, releases).await });
    }

    fn spawn(self: &Arc<Self>, task: impl Future<Output = ()> + Send + 'static) {
        let (world, mut task) = (Arc::clone(self), Box::pin(task));
        spawn(poll_fn(move |context| {
            world.comes_first.store(true, Ordering::SeqCst);
            let polled = task.as_mut().poll(context);
            world.comes_first.store(false, Ordering::SeqCst);
            if polled.is_ready() {
                world.end();
            }
            polled
        }));
    }

    async fn run(&self, does: Does) {
        match does {
            Does::Obeys => loop {
                let (partitions, lost) = {
                    let mut application = self.application.lock().unwrap();
                    (std::mem::take(&mut application.to_release), application.lost)
                };
                match partitions.is_empty() {
                    true if lost => return,
                    true => self.news.notified().await,
                    // More revocations may arrive during these releases. So the loop then takes
                    // `to_release` again, even if the session is lost.
                    false => partitions.into_iter().for_each(|it| self.release(it)),
                }
            },
            Does::Fails(number) => {
                let partition = loop {
                    let handle = {
                        let application = self.application.lock().unwrap();
                        let found = application.handle(PartitionNumber(number));
                        (found.map(Partition::another), application.lost)
                    };
                    match handle {
                        (Some(partition), _) => break partition,
                        (None, true) => return,
                        (None, false) => self.news.notified().await,
                    }
                };
                self.release(partition);
            }
            Does::Leaves => self.leave(None),
            Does::LeavesFor => self.leave(Some(Duration::from_secs(1))),
            Does::LosesTheSession => self.ownership.lease.end_with(Loss::Vanished),
        }
    }

    fn release(&self, partition: Partition) {
        let released = (partition.number(), partition.token());
        self.application.lock().unwrap().begun.insert(released);
        let grant = Arc::clone(&partition.grant);
        match self.broken {
            Broken::ReleasesBeforeItGivesUp => self.ownership.release_before_it_gives_up(&grant),
            Broken::ReleasesSilently => self.ownership.release_silently(&grant),
            _ => partition.release(),
        }
        let late = grant.loss().is_none() && self.ownership.lease.check().is_ok();
        assert!(!late, "a released partition is still owned: {released:?}");
        self.application.lock().unwrap().released.insert(released);
    }

    fn leave(&self, park: Option<Duration>) {
        if self.broken == Broken::RevokesTwice {
            let state = self.ownership.state();
            state.grants.values().for_each(|it| it.revoked.store(false, Ordering::SeqCst));
            drop(state);
        }
        self.ownership.leave(park);
    }

    /// Runs as `MemberTask::run` does, but without a store. If the scenario has no leave and no
    /// loss, the member ends after it has written this number of `releases`.
    async fn member(&self, assignments: Vec<Assignment>, releases: usize) {
        let lost = async {
            self.ownership.lease.until_ended().await;
        };
        tokio::select! {
            biased;
            () = lost => {}
            () = self.write(releases) => {}
            () = self.ownership.left() => {}
            never = self.follow(assignments) => match never {},
        }
        if self.ownership.lease.check().is_ok() && self.quietly(|state| state.leaving) {
            for partition in &self.application.lock().unwrap().partitions {
                assert!(partition.check().is_err(), "still owned after the leave: {partition:?}");
            }
        }
        self.ownership.lease.end_with(Loss::Resigned);
        let notices = self.quietly(|state| state.notices.clone());
        self.ownership.lost(Loss::Resigned);
        if self.broken == Broken::SpeaksAfterTheLoss {
            self.quietly(|state| state.notices = notices);
            self.ownership.tell(Notice::AtRisk(Duration::ZERO));
        }
    }

    async fn write(&self, releases: usize) {
        loop {
            self.ownership.write.notified().await;
            let _ = self.ownership.data();
            let (fitted, leaving) = self.quietly(|state| (state.fitted, state.leaving));
            let does_not_wait = self.broken == Broken::DoesNotWait && leaving;
            if does_not_wait || (fitted == releases && releases > 0) {
                return;
            }
        }
    }

    async fn follow(&self, assignments: Vec<Assignment>) -> Infallible {
        for assignment in assignments {
            self.follows(assignment);
            // Let each branch of the member's task run.
            tokio::task::yield_now().await;
        }
        std::future::pending().await
    }

    fn follows(&self, assignment: Assignment) {
        let epoch = assignment.epoch;
        let first = epoch == Epoch::FIRST;
        let mut answers = vec![AssignmentAnswer::Found(Arc::new(assignment))];
        if first {
            let listing = Listing { epochs: Some((epoch, epoch)), rest: None };
            answers.insert(0, AssignmentAnswer::Listed(listing));
        }
        if !first {
            self.participant.lock().unwrap().poll();
        }
        for answer in answers {
            self.answered(answer);
        }
        if self.participant.lock().unwrap().step() != ParticipantStep::Idle {
            self.answered(AssignmentAnswer::Listed(Listing { epochs: None, rest: None }));
        }
    }

    /// Accesses the shared state without a point at which other tasks may run.
    fn quietly<T>(&self, act: impl FnOnce(&mut OwnershipState) -> T) -> T {
        act(&mut self.ownership.state.try_lock().expect("no task is in a critical section"))
    }

    fn answered(&self, answer: AssignmentAnswer) {
        let mut participant = self.participant.lock().unwrap();
        if !matches!(self.broken, Broken::TellsBeforeItKeeps | Broken::TellsBeforeItTakes) {
            self.ownership.answer(&mut participant, answer);
            return;
        }
        let mut state = self.ownership.state();
        let (_, changes) = participant.assignment(answer, &mut state.holdings);
        state.known = participant.known().cloned();
        if self.broken == Broken::TellsBeforeItTakes {
            return self.ownership.tell_before_it_takes(&mut state, changes);
        }
        drop(state);
        self.ownership.tell_before_it_keeps(changes);
    }
}
