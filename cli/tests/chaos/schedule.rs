//! A schedule of faults: each comes once before any comes again.

/// What is to be done, in random order. What cannot be done now stays for later.
pub struct Schedule<T> {
    all: Vec<T>,
    left: Vec<T>,
    rounds: usize,
}

impl<T: Copy> Schedule<T> {
    pub fn new(all: Vec<T>) -> Schedule<T> {
        Schedule { left: all.clone(), all, rounds: 0 }
    }

    /// Whether each has been done.
    pub fn is_through(&self) -> bool {
        self.rounds > 0 || self.left.is_empty()
    }

    /// Tries those that are left, in random order, until one can be done.
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
