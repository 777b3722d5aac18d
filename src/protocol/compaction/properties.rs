//! Property tests of two compactors that run during elections and restores. The store may carry out
//! deletions late or twice.

use std::collections::BTreeSet;

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use tenure_testkit::properties::cases;

/// One event in a random sequence of events.
#[derive(Debug, Clone)]
enum Deed {
    /// A candidate creates epoch N + `beyond`. N is the newest epoch that no restore holds.
    Create { beyond: u64 },
    /// A candidate resumes after a pause. Its late create takes effect, although a compactor has
    /// already deleted this epoch.
    CreateAgain { which: prop::sample::Index },
    /// A compactor lists its next page, which has at most `page` epochs.
    List { compactor: usize, page: usize },
    /// The store carries out a deletion that a compactor sent. With `again`, the store may carry
    /// out the same deletion again later.
    Delete { compactor: usize, which: prop::sample::Index, again: bool },
    /// If a restore holds an epoch, the restore seals this epoch. If no restore holds an epoch, a
    /// restore creates and holds epoch N + `beyond`. N is the newest epoch.
    Restore { beyond: u64 },
    /// A compactor is killed and starts again. The store may still carry out its earlier deletions.
    Restart { compactor: usize },
}

fn deed() -> impl Strategy<Value = Deed> {
    let compactor = || 0..2_usize;
    prop_oneof![
        3 => prop_oneof![4 => Just(1_u64), 1 => 1..50_u64]
            .prop_map(|beyond| Deed::Create { beyond }),
        1 => any::<prop::sample::Index>().prop_map(|which| Deed::CreateAgain { which }),
        4 => (compactor(), 1..6_usize).prop_map(|(compactor, page)| Deed::List { compactor, page }),
        4 => (compactor(), any::<prop::sample::Index>(), any::<bool>())
            .prop_map(|(compactor, which, again)| Deed::Delete { compactor, which, again }),
        1 => (2..9_u64).prop_map(|beyond| Deed::Restore { beyond }),
        1 => compactor().prop_map(|compactor| Deed::Restart { compactor }),
    ]
}

/// The value of a compactor's position after its listing has ended.
const ENDED: u64 = u64::MAX;

struct World {
    epochs: BTreeSet<Epoch>,
    ever: BTreeSet<Epoch>,
    /// The epoch that an unfinished restore holds. No candidate creates an epoch above this epoch,
    /// but late creates of lower epochs may take effect.
    held: Option<Epoch>,
    keep: [NonZeroUsize; 2],
    compactors: [(Compaction, u64); 2],
    on_their_way: [Vec<Epoch>; 2],
    deleted: usize,
}

impl World {
    fn new(keep: [usize; 2]) -> World {
        let keep = keep.map(|keep| NonZeroUsize::new(keep).expect("at least 1"));
        World {
            epochs: BTreeSet::new(),
            ever: BTreeSet::new(),
            held: None,
            keep,
            compactors: keep.map(|keep| (Compaction::new(keep, Duration::ZERO), 0)),
            on_their_way: [Vec::new(), Vec::new()],
            deleted: 0,
        }
    }

    fn create(&mut self, epoch: Option<Epoch>) {
        self.epochs.extend(epoch);
        self.ever.extend(epoch);
    }

    fn act(&mut self, deed: &Deed) {
        match deed {
            Deed::Create { beyond } => {
                let newest = self.leading().map_or(0, Epoch::get);
                let epoch = Epoch::new(newest + beyond);
                self.create(epoch.filter(|epoch| self.held.is_none_or(|held| *epoch < held)));
            }
            Deed::Restore { beyond } => match self.held.take() {
                Some(_) => {}
                None => {
                    let newest = self.epochs.last().map_or(0, |epoch| epoch.get());
                    self.held = Epoch::new(newest + beyond);
                    self.create(self.held);
                }
            },
            Deed::CreateAgain { which } => {
                let gone: Vec<Epoch> = self.ever.difference(&self.epochs).copied().collect();
                if !gone.is_empty() {
                    self.create(Some(gone[which.index(gone.len())]));
                }
            }
            Deed::List { compactor, page } => self.list(*compactor, *page),
            Deed::Delete { compactor, which, again } => {
                let on_their_way = &mut self.on_their_way[*compactor];
                if on_their_way.is_empty() {
                    return;
                }
                let which = which.index(on_their_way.len());
                let epoch =
                    if *again { on_their_way[which] } else { on_their_way.swap_remove(which) };
                assert_ne!(self.epochs.last(), Some(&epoch), "I3: the newest is never deleted");
                assert_ne!(
                    self.leading(),
                    Some(epoch),
                    "the epoch below a held epoch is kept, as it may have a leader"
                );
                self.deleted += usize::from(self.epochs.remove(&epoch));
            }
            Deed::Restart { compactor } => {
                let plan = Compaction::new(self.keep[*compactor], Duration::ZERO);
                self.compactors[*compactor] = (plan, 0);
            }
        }
    }

    /// The newest epoch that may have a leader.
    fn leading(&self) -> Option<Epoch> {
        self.epochs.iter().rev().find(|epoch| Some(**epoch) != self.held).copied()
    }

    /// Lists a page for a compactor. At the end of the listing, the compactor also reads the newest
    /// epoch.
    fn list(&mut self, compactor: usize, page: usize) {
        let (plan, after) = &mut self.compactors[compactor];
        let later = self.epochs.iter().filter(|epoch| epoch.get() > *after).take(page);
        for epoch in later.copied().collect::<Vec<_>>() {
            let listed = Listed { epoch, size: 1, age: None };
            let deletable = plan.handle_listed(listed).expect("a listing in order");
            self.on_their_way[compactor].extend(deletable.map(|listed| listed.epoch));
            *after = epoch.get();
        }
        let Some(newest) = plan.newest() else { return };
        if self.epochs.last().is_some_and(|epoch| epoch.get() <= *after) && *after != ENDED {
            let body = match (self.epochs.contains(&newest), self.held == Some(newest)) {
                (false, _) => NewestBody::Gone,
                (_, true) => NewestBody::Held,
                (_, false) => NewestBody::Validity(None),
            };
            plan.handle_read(newest, body);
            let last = plan.handle_end();
            self.on_their_way[compactor].extend(last.map(|listed| listed.epoch));
            *after = ENDED;
        }
    }
}

proptest! {
    #![proptest_config(cases(256))]

    #[test]
    fn interleaved_compactors_never_delete_the_newest(
        keep in (1..4_usize, 1..4_usize), deeds in vec(deed(), 0..150),
    ) {
        let mut world = World::new([keep.0, keep.1]);
        for deed in &deeds {
            world.act(deed);
            let least = keep.0.min(keep.1);
            let newest: Vec<&Epoch> = world.ever.iter().rev().take(least).collect();
            let kept: Vec<&Epoch> = world.epochs.iter().rev().take(least).collect();
            prop_assert_eq!(newest, kept, "the newest {} are kept", least);
        }
    }
}

/// The property above is useful only if the compactors delete many epochs in random sequences of
/// events.
#[test]
fn compactors_delete_many_epochs_in_the_random_sequences() {
    use proptest::strategy::ValueTree as _;
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let mut deleted = 0;
    for _ in 0..100 {
        let mut world = World::new([1, 2]);
        let deeds = vec(deed(), 150).new_tree(&mut runner).unwrap().current();
        deeds.iter().for_each(|deed| world.act(deed));
        deleted += world.deleted;
    }
    assert!(deleted > 1_000, "{deleted} deletions");
}
