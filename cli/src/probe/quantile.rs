//! Quantiles of measured values, such as latencies.

/// Returns the smallest value `v` such that at least the fraction `share` of the values are at most
/// `v`. Returns `None` if there are no values. The values must be in ascending order.
pub fn quantile<T: Copy>(ascending: &[T], share: f64) -> Option<T> {
    let rank = (ascending.len() as f64 * share).ceil() as usize;
    ascending.get(rank.saturating_sub(1)).copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_measured_values() {
        let took: Vec<_> = (1..=200).collect();
        for (share, value) in [(0.0, 1), (0.5, 100), (0.9, 180), (0.99, 198), (1.0, 200)] {
            assert_eq!(quantile(&took, share), Some(value));
        }
        assert_eq!(quantile(&took[..1], 0.5), Some(1));
        assert_eq!(quantile(&took[..0], 0.99), None);
        for known in 1..=100 {
            let rank = (known * 9_usize).div_ceil(10);
            assert_eq!(quantile(&took[..known], 0.9), Some(rank), "nine of ten of {known}");
        }
    }
}
