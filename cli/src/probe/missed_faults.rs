//! The statistical power of a probe that has found no fault. It is expressed as the probability
//! that the races of the probe miss a fault.

use serde::Serialize;

/// The probability that the races of a probe miss a fault that shows in one of `one_in` races.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Power {
    /// Number of races in which the fault shows once on average.
    pub one_in: u32,
    /// The probability, from 0 to 1, that no race shows the fault.
    pub missed: f64,
}

/// The report shows the probability that the races miss a fault, for three faults of different
/// frequency. Each entry is the average number of races in which a fault occurs once.
const ONE_IN: [u32; 3] = [10, 100, 1_000];

pub fn power(races: u32) -> Vec<Power> {
    ONE_IN.into_iter().map(|one_in| Power { one_in, missed: missed(one_in, races) }).collect()
}

/// Returns the probability that this number of races misses a fault that occurs in one of `one_in`
/// races.
fn missed(one_in: u32, races: u32) -> f64 {
    (1.0 - 1.0 / f64::from(one_in)).powf(f64::from(races))
}

pub fn no_fault_seen(races: u32) -> String {
    let each = power(races).into_iter().map(|Power { one_in, missed }| {
        // The text shows at most 0.99, because 1.00 would suggest that the races certainly miss the
        // fault.
        let missed = format!("{:.2}", missed.min(0.99));
        let of = format!("one that shows in 1 of {one_in} races (probability {missed})");
        if one_in == ONE_IN[0] { of.replacen("one that", "a fault that", 1) } else { of }
    });
    format!(
        "no fault seen: every promise was kept. {races} races of each kind can miss {}. More \
         --rounds miss fewer faults",
        each.collect::<Vec<_>>().join(", ")
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_power_depends_on_the_number_of_races() {
        let near = |is: f64, expected: f64| assert!((is - expected).abs() < 0.001, "{is}");
        near(missed(10, 30), 0.042);
        near(missed(100, 30), 0.740);
        near(missed(100, 300), 0.049);
        near(missed(1_000, 0), 1.0);
        let said = no_fault_seen(30);
        assert!(said.contains("1 of 10 races (probability 0.04), one that"), "{said}");
    }
}
