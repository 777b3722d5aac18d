//! The dice of a run as the library asks for them.

use std::fmt;
use std::sync::Arc;

use tenure::Entropy;

use super::world::World;

/// Random numbers from the run's dice.
pub struct SimEntropy(pub Arc<World>);

impl Entropy for SimEntropy {
    fn unique(&self) -> u128 {
        let mut state = self.0.state();
        state.uniques += 1;
        (u128::from(state.rng.u64(..)) << 64) | u128::from(state.uniques)
    }

    fn fraction(&self) -> f64 {
        self.0.state().rng.f64()
    }
}

impl fmt::Debug for SimEntropy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SimEntropy")
    }
}
