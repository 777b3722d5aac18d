//! The request metrics of each role.

use super::key_cache::KeyCache;

/// The requests of a role, and their possible outcomes.
#[derive(Debug, Clone, Copy)]
pub(super) enum Role {
    Candidate,
    Observer,
    Compactor,
}

const LIST: (&str, &[&str]) = ("list", &["done", "unknown", "failed"]);
const GET: (&str, &[&str]) = ("get", &["done", "not_modified", "missing", "unknown", "failed"]);
const CREATE: (&str, &[&str]) = ("create", &["done", "refused", "unknown", "failed"]);
const REPLACE: (&str, &[&str]) = ("replace", &["done", "refused", "missing", "unknown", "failed"]);
const DELETE: (&str, &[&str]) = ("delete", &["done", "unknown", "failed"]);

impl Role {
    /// Creates each counter with the value 0. If a counter were created with its first event, this
    /// event would not appear as an increase.
    pub(super) fn register(self, keys: &KeyCache) {
        let kinds: &[(&'static str, &[&'static str])] = match self {
            Role::Candidate => &[LIST, GET, CREATE, REPLACE],
            Role::Observer => &[LIST, GET],
            Role::Compactor => &[LIST, GET, DELETE],
        };
        for (kind, outcomes) in kinds {
            for outcome in *outcomes {
                let labels = [("kind", *kind), ("outcome", *outcome)];
                keys.counter("tenure_requests_total", &labels).increment(0);
            }
        }
    }
}
