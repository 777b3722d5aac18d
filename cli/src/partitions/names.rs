//! The names of partitions on the command line.

use std::ops::Range;

/// As many as a group can have.
const MAX_NAMES: u64 = 100_000;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Names(pub Vec<String>);

/// Reads names and ranges, separated by commas: `0..64`, `a,b`, `0..4,9`.
pub fn parse(text: &str) -> Result<Names, String> {
    let mut names = Vec::new();
    for part in text.split(',') {
        match range(part) {
            _ if part.is_empty() => return Err("a name has at least one character".to_owned()),
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

fn range(part: &str) -> Option<Range<u64>> {
    let (start, end) = part.split_once("..")?;
    Some(start.parse().ok()?..end.parse().ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_and_names_are_separated_by_commas() {
        let names = |text| parse(text).map(|Names(names)| names.join(" "));
        assert_eq!(names("0..4").as_deref(), Ok("0 1 2 3"));
        assert_eq!(names("8..10,orders,a..b,1..").as_deref(), Ok("8 9 orders a..b 1.."));
        for wrong in ["", "a,", ",a", "4..4", "4..3", "0..100001", "0..18446744073709551615"] {
            assert!(parse(wrong).is_err(), "{wrong:?}");
        }
    }
}
