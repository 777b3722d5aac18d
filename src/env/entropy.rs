//! Random numbers. Only this module draws random numbers.

use std::fmt;
use std::sync::Mutex;

use crate::env::mutex::unpoisoned;

/// Draws random numbers.
pub trait Entropy: fmt::Debug + Send + Sync + 'static {
    /// Returns 128 bits that are unique among all processes. The bits identify one write.
    fn unique(&self) -> u128;

    /// Returns a number from 0 to 1, for jitter. The number affects only the times of requests.
    fn fraction(&self) -> f64;
}

/// The operating system's random numbers.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct SystemEntropy;

impl Entropy for SystemEntropy {
    #[allow(clippy::disallowed_methods, reason = "this is where randomness is drawn")]
    fn unique(&self) -> u128 {
        let mut bytes = [0; 16];
        getrandom::fill(&mut bytes)
            .expect("the operating system always provides random numbers after its start");
        u128::from_ne_bytes(bytes)
    }

    fn fraction(&self) -> f64 {
        fastrand::f64()
    }
}

/// Random numbers from a seed. Equal seeds give equal sequences.
#[derive(Debug)]
pub(crate) struct Seeded(Mutex<fastrand::Rng>);

impl Seeded {
    pub(crate) fn new(seed: u64) -> Seeded {
        Seeded(Mutex::new(fastrand::Rng::with_seed(seed)))
    }
}

impl Entropy for Seeded {
    fn unique(&self) -> u128 {
        unpoisoned(self.0.lock()).u128(..)
    }

    fn fraction(&self) -> f64 {
        unpoisoned(self.0.lock()).f64()
    }
}
