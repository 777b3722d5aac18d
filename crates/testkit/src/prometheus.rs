//! Parses the text format that Prometheus scrapes.

use std::collections::{BTreeMap, BTreeSet};

pub type Labels = BTreeMap<String, String>;

/// The metrics of one scrape.
#[derive(Debug, Default)]
pub struct Scrape {
    /// Type of each metric.
    pub types: BTreeMap<String, String>,
    /// Names of the metrics with a help text.
    pub helped: BTreeSet<String>,
    /// Samples in the order of the text: name, labels and value. A histogram has three kinds of
    /// samples.
    pub samples: Vec<(String, Labels, f64)>,
}

impl Scrape {
    /// Parses a text. Panics if a line does not follow the text format.
    pub fn parse(text: &str) -> Scrape {
        let mut scrape = Scrape::default();
        for line in text.lines().filter(|line| !line.is_empty()) {
            if let Some(rest) = line.strip_prefix("# TYPE ") {
                let (name, kind) = rest.split_once(' ').expect("a TYPE line has a type");
                let before = scrape.types.insert(name.to_owned(), kind.to_owned());
                assert_eq!(before, None, "{name} has two TYPE lines");
            } else if let Some(rest) = line.strip_prefix("# HELP ") {
                let (name, help) = rest.split_once(' ').expect("a HELP line has a text");
                assert!(!help.is_empty(), "{name} has an empty help text");
                scrape.helped.insert(name.to_owned());
            } else {
                assert!(!line.starts_with('#'), "{line}");
                scrape.samples.push(sample(line));
            }
        }
        scrape
    }

    /// Returns the value of the only sample with this name and these labels. The sample may also
    /// have other labels.
    pub fn get(&self, name: &str, labels: &[(&str, &str)]) -> Option<f64> {
        let all = self.all(name, labels);
        assert!(all.len() <= 1, "{name} {labels:?}: {all:?}");
        all.first().copied()
    }

    pub fn value(&self, name: &str, labels: &[(&str, &str)]) -> f64 {
        self.get(name, labels).unwrap_or_else(|| panic!("no {name} {labels:?}"))
    }

    /// Returns the sum of the samples with this name and these labels.
    pub fn sum(&self, name: &str, labels: &[(&str, &str)]) -> f64 {
        self.all(name, labels).iter().sum()
    }

    fn all(&self, name: &str, labels: &[(&str, &str)]) -> Vec<f64> {
        let fits = |all: &Labels| labels.iter().all(|(k, v)| all.get(*k).is_some_and(|x| x == v));
        let found = self.samples.iter().filter(|(found, all, _)| found == name && fits(all));
        found.map(|(_, _, value)| *value).collect()
    }

    /// Returns the name of a sample's metric.
    pub fn metric_of<'a>(&self, sample: &'a str) -> &'a str {
        let ends = ["_bucket", "_sum", "_count"];
        let base = ends.iter().find_map(|end| sample.strip_suffix(end));
        base.filter(|base| self.types.contains_key(*base)).unwrap_or(sample)
    }
}

/// Parses `name{label="value",…} 1.5`.
fn sample(line: &str) -> (String, Labels, f64) {
    let (head, value) = line.rsplit_once(' ').unwrap_or_else(|| panic!("{line}"));
    let value = value.parse().unwrap_or_else(|_| panic!("{line}"));
    let Some((name, labels)) = head.split_once('{') else {
        return (head.to_owned(), Labels::new(), value);
    };
    let mut rest = labels.strip_suffix('}').unwrap_or_else(|| panic!("{line}"));
    let mut labels = Labels::new();
    while !rest.is_empty() {
        let (label, after) = rest.split_once("=\"").unwrap_or_else(|| panic!("{line}"));
        // Label values in these tests contain no quote and no backslash.
        let (value, after) = after.split_once('"').unwrap_or_else(|| panic!("{line}"));
        labels.insert(label.to_owned(), value.to_owned());
        rest = after.strip_prefix(',').unwrap_or(after);
    }
    (name.to_owned(), labels, value)
}
