//! The wrong records that a process of a broken variant reads and writes. A broken variant of the
//! model omits one rule.

use std::sync::Arc;

use tenure::protocol::message::Nonce;
use tenure_groups::protocol::message::SessionAnswer;
use tenure_groups::protocol::participant::Participant;
use tenure_groups::protocol::session::SessionRecord;
use tenure_groups::protocol::{Assignment, Release, Session, SessionId};

use super::setting::{Broken, Group};
use super::store::Object;
use super::world::World;

impl Group {
    /// Returns the record that the process reads from a session's object. In a broken variant, this
    /// record can be wrong.
    pub fn read(&self, world: &World, who: usize, id: SessionId, object: &Object) -> SessionRecord {
        let mut record = object.record();
        let knows = |it: &Participant| it.known().is_some();
        if self.broken == Broken::IgnoresGreater
            && world.processes[who].participant.as_ref().is_some_and(|it| knows(it))
            && let Some(data) = &mut record.data
        {
            data.seen = None;
        }
        let newest = world.store.newest();
        if let (Broken::ReleasesFirst, Some(data)) = (self.broken, &mut record.data) {
            // The broken member releases a revoked partition before the work on the partition has
            // stopped.
            let owned = newest.into_iter().flat_map(|it| {
                let owned = it.owned_by(Session { id, nonce: object.nonce });
                owned.filter(|(partition, _)| it.is_revoked(*partition))
            });
            let released = owned.map(|(partition, token)| Release { partition, token });
            data.releases.extend(released.map(|it| (it, Default::default())));
        }
        if self.broken == Broken::IdsAlone {
            record.nonce = Nonce::from_bits(0);
        }
        record
    }

    /// Returns the answer that the state machine of process `who` gets if the read of this session
    /// fails.
    pub fn unread(&self, world: &World, who: usize, id: SessionId) -> SessionAnswer {
        let known = world.processes[who].participant.as_ref().and_then(|it| it.known());
        if known.and_then(|known| known.session(id)).is_some() {
            return SessionAnswer::Unknown;
        }
        match self.broken {
            Broken::UnreadIsMissing => SessionAnswer::Missing(id),
            _ => SessionAnswer::Unreadable(id),
        }
    }

    /// Returns the assignment that a writer of a broken variant creates instead of `assignment`.
    pub fn distorted(&self, world: &World, assignment: Arc<Assignment>) -> Arc<Assignment> {
        let Some(newest) = world.store.newest() else { return assignment };
        let mut other = Assignment::clone(&assignment);
        match (self.broken, newest.epoch.next()) {
            (Broken::SkipsNumber, Some(epoch)) if epoch > other.epoch => {
                let granted =
                    other.partitions.iter_mut().filter(|it| it.token == Some(other.epoch));
                granted.for_each(|it| it.token = Some(epoch));
                other.epoch = epoch;
            }
            (Broken::KeepsToken, _) => {
                for (then, now) in other.partitions.iter_mut().zip(&newest.partitions) {
                    then.token = now.token.or(then.token);
                }
            }
            _ => return assignment,
        }
        Arc::new(other)
    }
}
