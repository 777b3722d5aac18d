//! A deck of cards: each comes once before any comes again.

/// What is to be done, in random order. What cannot be done now stays in the deck.
pub struct Deck<T> {
    all: Vec<T>,
    left: Vec<T>,
    rounds: usize,
}

impl<T: Copy> Deck<T> {
    pub fn new(all: Vec<T>) -> Deck<T> {
        Deck { left: all.clone(), all, rounds: 0 }
    }

    /// Whether every card has been played.
    pub fn is_through(&self) -> bool {
        self.rounds > 0 || self.left.is_empty()
    }

    /// Tries the cards that are left, in random order, until one can be played.
    pub fn play<R>(
        &mut self,
        rng: &mut fastrand::Rng,
        mut play: impl FnMut(T, &mut fastrand::Rng) -> Option<R>,
    ) -> Option<R> {
        rng.shuffle(&mut self.left);
        for index in 0..self.left.len() {
            if let Some(played) = play(self.left[index], rng) {
                self.left.swap_remove(index);
                if self.left.is_empty() {
                    self.left.clone_from(&self.all);
                    self.rounds += 1;
                }
                return Some(played);
            }
        }
        None
    }
}
