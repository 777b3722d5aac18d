//! A value for one part of a model's state. Successive states share the parts that do not change.

use std::hash::{Hash, Hasher};
use std::ops::{Deref, DerefMut};
use std::sync::Arc;

/// A value with its hash. Clones share the value until one of the clones changes it.
///
/// A step of the model changes only a few parts of a state. The next state shares the unchanged
/// parts and their hashes.
#[derive(Debug, Clone)]
pub struct HashedArc<T> {
    value: Arc<T>,
    /// `None` if the value may have changed since the last computation of the hash.
    hash: Option<u64>,
}

impl<T: Hash> HashedArc<T> {
    pub fn new(value: T) -> HashedArc<T> {
        HashedArc::from(Arc::new(value))
    }

    pub fn shared(&self) -> Arc<T> {
        Arc::clone(&self.value)
    }

    /// Computes the hash, and keeps it until the next change of the value.
    pub fn settle(&mut self) {
        self.hash = Some(self.digest());
    }

    pub fn digest(&self) -> u64 {
        self.hash.unwrap_or_else(|| hash(&self.value))
    }
}

impl<T: Hash> From<Arc<T>> for HashedArc<T> {
    fn from(value: Arc<T>) -> HashedArc<T> {
        let hash = Some(hash(&value));
        HashedArc { value, hash }
    }
}

impl<T> Deref for HashedArc<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

impl<T: Clone> DerefMut for HashedArc<T> {
    fn deref_mut(&mut self) -> &mut T {
        self.hash = None;
        Arc::make_mut(&mut self.value)
    }
}

impl<T: Hash> Hash for HashedArc<T> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.digest());
    }
}

impl<T: Hash + PartialEq> PartialEq for HashedArc<T> {
    fn eq(&self, other: &HashedArc<T>) -> bool {
        let same = || self.digest() == other.digest() && *self.value == *other.value;
        Arc::ptr_eq(&self.value, &other.value) || same()
    }
}

impl<T: Hash + Eq> Eq for HashedArc<T> {}

fn hash(value: &impl Hash) -> u64 {
    let mut hasher = Folding(SEED);
    value.hash(&mut hasher);
    hasher.finish()
}

/// A hasher that multiplies and folds, as the fastest hashers do. The hashes affect the path of a
/// random walk through the states. The seed of the hasher is constant, so a walk can be repeated.
struct Folding(u64);

// Digits of pi.
const SEED: u64 = 0x243f_6a88_85a3_08d3;
const FACTOR: u64 = 0x1319_8a2e_0370_7345;

// The models are other crates, so these methods need `inline`. Without it, the models would take
// one seventh longer.
impl Hasher for Folding {
    #[inline]
    fn finish(&self) -> u64 {
        let mut last = Folding(self.0);
        last.write_u64(FACTOR);
        last.0
    }

    #[inline]
    fn write(&mut self, bytes: &[u8]) {
        for word in bytes.chunks(8) {
            let mut filled = [0; 8];
            filled[..word.len()].copy_from_slice(word);
            self.write_u64(u64::from_le_bytes(filled));
        }
    }

    #[inline]
    fn write_u64(&mut self, word: u64) {
        let product = u128::from(self.0 ^ word) * u128::from(FACTOR);
        self.0 = (product as u64) ^ (product >> 64) as u64;
    }

    #[inline]
    fn write_u8(&mut self, number: u8) {
        self.write_u64(number.into());
    }

    #[inline]
    fn write_u16(&mut self, number: u16) {
        self.write_u64(number.into());
    }

    #[inline]
    fn write_u32(&mut self, number: u32) {
        self.write_u64(number.into());
    }

    #[inline]
    fn write_usize(&mut self, number: usize) {
        self.write_u64(number as u64);
    }
}
