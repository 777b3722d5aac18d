//! A schedule of faults. Each fault occurs once before any fault occurs again.

/// Chooses faults in random order. A fault that is not possible now remains in the schedule.
pub struct Schedule<T> {
    all: Vec<T>,
    left: Vec<T>,
    rounds: usize,
}

impl<T: Copy> Schedule<T> {
    pub fn new(all: Vec<T>) -> Schedule<T> {
        Schedule { left: all.clone(), all, rounds: 0 }
    }

    /// Returns whether each fault of the schedule has occurred at least once.
    pub fn is_through(&self) -> bool {
        self.rounds > 0 || self.left.is_empty()
    }

    /// Tries the remaining faults in random order until one is possible.
    pub fn next<R>(
        &mut self,
        rng: &mut fastrand::Rng,
        mut try_one: impl FnMut(T, &mut fastrand::Rng) -> Option<R>,
    ) -> Option<R> {
        rng.shuffle(&mut self.left);
        for index in 0..self.left.len() {
            if let Some(done) = try_one(self.left[index], rng) {
                self.left.swap_remove(index);
                if self.left.is_empty() {
                    self.left.clone_from(&self.all);
                    self.rounds += 1;
                }
                return Some(done);
            }
        }
        None
    }
}
