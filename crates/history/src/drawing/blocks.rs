//! Combines neighbouring intervals that are too narrow to be drawn separately.

/// One or several intervals of a lane, drawn as one stretch of pixels.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Block {
    pub(super) from: f64,
    pub(super) until: f64,
    /// The block represents `count` consecutive intervals. `first` is the position of the first
    /// interval in the lane.
    pub(super) first: usize,
    pub(super) count: usize,
    /// Total width of the intervals, in pixels.
    filled: f64,
}

/// Maximum width of a combined block, in pixels. With wider blocks, a dense part of a lane would
/// look the same everywhere.
const BIN: f64 = 12.0;

/// Maximum width of an interval that may be combined with its neighbours, in pixels.
const NARROW: f64 = 5.0;
/// Maximum distance between combined intervals, in pixels.
const NEAR: f64 = 4.0;

/// If a lane has more blocks than this number, [`binned`] combines them. Only a lane with
/// overlapping intervals can have that many blocks.
const MOST: usize = 300;

/// Returns the blocks for the intervals of one lane. Each element of `stretches` is the start and
/// the end of an interval, in pixels. The elements must be in ascending order.
pub(super) fn blocks(stretches: impl IntoIterator<Item = (f64, f64)>) -> Vec<Block> {
    let mut blocks: Vec<Block> = Vec::new();
    for (number, (from, until)) in stretches.into_iter().enumerate() {
        let narrow = until - from < NARROW;
        if let Some(last) = blocks.last_mut() {
            let small = last.count > 1 || last.until - last.from < NARROW;
            if narrow && small && from - last.until < NEAR && until - last.from < BIN {
                last.until = last.until.max(until);
                last.count += 1;
                last.filled += until - from;
                continue;
            }
        }
        blocks.push(Block { from, until, first: number, count: 1, filled: until - from });
    }
    if blocks.len() > MOST { binned(blocks) } else { blocks }
}

/// Combines each block with the later blocks that begin less than [`BIN`] pixels after it.
fn binned(blocks: Vec<Block>) -> Vec<Block> {
    let mut bins: Vec<Block> = Vec::new();
    for block in blocks {
        match bins.last_mut() {
            Some(last) if block.from - last.from < BIN => {
                last.until = last.until.max(block.until);
                last.count += block.count;
                last.filled += block.filled;
            }
            _ => bins.push(block),
        }
    }
    bins
}

impl Block {
    /// Returns the fraction of the block's width that the intervals fill, from 0 to 1. The fraction
    /// determines the height of the bar.
    pub(super) fn share(&self) -> f64 {
        if self.count == 1 || self.until <= self.from {
            return 1.0;
        }
        (self.filled / (self.until - self.from)).clamp(0.0, 1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn narrow_neighbours_are_combined_and_counted() {
        let all = [(0.0, 1.0), (2.0, 3.0), (8.0, 40.0), (41.0, 42.0), (42.5, 43.0), (50.0, 51.0)];
        let told: Vec<_> = blocks(all).iter().map(|block| (block.first, block.count)).collect();
        assert_eq!(told, [(0, 2), (2, 1), (3, 2), (5, 1)]);
        let shares: Vec<_> = blocks(all).iter().map(Block::share).collect();
        assert_eq!(shares, [2.0 / 3.0, 1.0, 0.75, 1.0]);
        let many = (0..1_000).map(|at| (f64::from(at) / 10.0, f64::from(at) / 10.0 + 0.1));
        let widths: Vec<_> = blocks(many).iter().map(|block| block.until - block.from).collect();
        assert!(widths.len() == 9 && widths.iter().all(|width| *width < BIN), "{widths:?}");
        let wide = (0..1_000).map(|at| (f64::from(at), f64::from(at) + 50.0));
        let bins = blocks(wide);
        assert_eq!(bins.iter().map(|bin| bin.count).sum::<usize>(), 1_000);
        assert!(bins.len() == 84 && bins.iter().all(|bin| bin.share() == 1.0), "{}", bins.len());
    }
}
