//! The names of partitions on the command line.

use std::ops::Range;

use super::common::trimmed;

/// Greatest number of partitions of a group.
const MAX_NAMES: u64 = 100_000;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Names(pub Vec<String>);

/// Parses a list of names and ranges of partitions, separated by commas, such as `0..64`, `a,b` or
/// `0..=3,9`. Refuses a name that contains `..`, or that begins or ends with white space, because
/// such a name is most likely a mistyped range.
pub fn partitions(text: &str) -> Result<Names, String> {
    let mut names = Vec::new();
    for part in text.split(',') {
        trimmed(part).map_err(|why| format!("{part:?}: {why}"))?;
        match range(part)? {
            _ if part.is_empty() => {
                return Err("a name must have at least one character".to_owned());
            }
            None => names.push(part.to_owned()),
            Some(range) if range.is_empty() => return Err(format!("the range {part} is empty")),
            Some(range) if range.end - range.start > MAX_NAMES => {
                return Err(format!(
                    "the range {part} is too long: at most {MAX_NAMES} partitions"
                ));
            }
            Some(range) => names.extend(range.map(|number| number.to_string())),
        }
    }
    Ok(Names(names))
}

/// Parses a range of partitions such as `0..64`. Returns `None` if `part` is the name of one
/// partition.
fn range(part: &str) -> Result<Option<Range<u64>>, String> {
    let Some((start, end)) = part.split_once("..") else { return Ok(None) };
    let bounds = match end.strip_prefix('=') {
        // Saturation prevents an overflow. It removes only the partition `u64::MAX` from the range,
        // and no useful group has this partition.
        Some(last) => number(start).zip(number(last).map(|last| last.saturating_add(1))),
        None => number(start).zip(number(end)),
    };
    let wrong = "a range has two whole numbers without leading zeros, such as 0..4 or 0..=3, and a \
                 name must not contain `..`";
    bounds.map(|(start, end)| Some(start..end)).ok_or_else(|| format!("{part:?}: {wrong}"))
}

/// Parses a number without a sign or leading zeros, as it occurs in the names of partitions.
fn number(text: &str) -> Option<u64> {
    text.parse().ok().filter(|number: &u64| number.to_string() == text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_and_names_are_separated_by_commas() {
        let names = |text| partitions(text).map(|Names(names)| names.join(" "));
        assert_eq!(names("0..4").as_deref(), Ok("0 1 2 3"));
        assert_eq!(names("8..10,orders,a.b,1.").as_deref(), Ok("8 9 orders a.b 1."));
        for wrong in ["", "a,", ",a", "4..4", "4..3", "0..100001", "0..18446744073709551615"] {
            assert!(partitions(wrong).is_err(), "{wrong:?}");
        }
    }

    /// Before the fix, each of these mistyped ranges was accepted as the name of one partition.
    #[test]
    fn regression_a_mistyped_range_is_refused() {
        let names = |text| partitions(text).map(|Names(names)| names.join(" "));
        assert_eq!(names("0..=3").as_deref(), Ok("0 1 2 3"));
        assert_eq!(names("7..=7,9").as_deref(), Ok("7 9"));
        for wrong in [
            "0..",
            "..4",
            "..",
            "..=3",
            "0..=",
            "4..=3",
            " 0..4",
            "0..4 ",
            "0 ..4",
            "0.. 4",
            "0...4",
            "0..4..8",
            "0..==3",
            "0..-1",
            "0..+4",
            "00..04",
            "a..b",
            "0..=18446744073709551615",
        ] {
            let why = partitions(wrong).expect_err(wrong);
            assert!(why.contains(wrong), "{wrong:?}: {why}");
        }
        for wrong in [" orders", "orders ", "a, b", "a,\tb"] {
            let why = partitions(wrong).expect_err(wrong);
            assert!(why.contains("white space"), "{wrong:?}: {why}");
        }
    }
}
