//! What a broken variant reads and writes in place of the truth.

use std::sync::Arc;

use tenure::protocol::group::session::SessionRecord;
use tenure::protocol::group::{Assignment, Release, Session, SessionId};
use tenure::protocol::message::Nonce;

use super::setting::{Broken, Group};
use super::store::Object;
use super::world::World;

impl Group {
    /// What is read of a session's object.
    pub fn read(&self, world: &World, id: SessionId, object: &Object) -> SessionRecord {
        let mut record = object.record();
        let newest = world.store.newest();
        if let (Broken::ReleasesFirst, Some(data)) = (self.broken, &mut record.data) {
            // A member that is to stop says at once that it has.
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

    /// What a broken writer creates.
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
