//! What is too narrow to be seen alone is drawn together.

/// A stretch of pixels in one lane, made of one interval or of several.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Block {
    pub(super) from: f64,
    pub(super) until: f64,
    /// Which of the lane's intervals: the first, and how many that follow each other.
    pub(super) first: usize,
    pub(super) count: usize,
}

/// Narrower than this, in pixels, an interval may be drawn with its neighbours.
const NARROW: f64 = 5.0;
/// And if no more than this lies between.
const NEAR: f64 = 4.0;

/// The blocks of stretches in ascending order.
pub(super) fn blocks(stretches: impl IntoIterator<Item = (f64, f64)>) -> Vec<Block> {
    let mut blocks: Vec<Block> = Vec::new();
    for (number, (from, until)) in stretches.into_iter().enumerate() {
        let narrow = until - from < NARROW;
        if let Some(last) = blocks.last_mut() {
            let small = last.count > 1 || last.until - last.from < NARROW;
            if narrow && small && from - last.until < NEAR {
                last.until = last.until.max(until);
                last.count += 1;
                continue;
            }
        }
        blocks.push(Block { from, until, first: number, count: 1 });
    }
    blocks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn narrow_neighbours_are_drawn_together_and_nothing_is_lost() {
        let all = [(0.0, 1.0), (2.0, 3.0), (8.0, 40.0), (41.0, 42.0), (42.5, 43.0), (50.0, 51.0)];
        let told: Vec<_> = blocks(all).iter().map(|block| (block.first, block.count)).collect();
        assert_eq!(told, [(0, 2), (2, 1), (3, 2), (5, 1)]);
    }
}
