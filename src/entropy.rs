//! The only place that draws random numbers.

use std::fmt;

/// Draws random numbers. A simulation brings its own, seeded.
pub trait Entropy: fmt::Debug + Send + Sync + 'static {
    /// 128 bits that no other draw of any process repeats: what tells one write from every other.
    fn unique(&self) -> u128;

    /// A number from 0 to 1, for jitter: decides nothing but when something is tried.
    fn fraction(&self) -> f64;
}

/// The operating system's random numbers.
#[derive(Debug, Clone, Copy, Default)]
pub struct SystemEntropy;

impl Entropy for SystemEntropy {
    #[allow(clippy::disallowed_methods, reason = "this is where randomness is drawn")]
    fn unique(&self) -> u128 {
        let mut bytes = [0; 16];
        getrandom::fill(&mut bytes)
            .expect("the operating system has random numbers once it has started");
        u128::from_ne_bytes(bytes)
    }

    fn fraction(&self) -> f64 {
        fastrand::f64()
    }
}
