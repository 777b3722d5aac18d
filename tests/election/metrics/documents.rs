//! Compares docs/reference/metrics.md, deploy/grafana and deploy/prometheus with each other and
//! with the code.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

use tenure_testkit::prometheus::Scrape;

/// The allowed values of each label. An empty set allows any value.
type Words = BTreeMap<String, BTreeSet<String>>;

/// The properties of a metric.
#[derive(Debug, Default, PartialEq, Eq)]
struct Metric {
    kind: String,
    labels: Words,
}

fn read(path: &str) -> String {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    let root = package.ancestors().filter(|it| it.join("Cargo.lock").exists()).last();
    let path = root.expect("the workspace has a lock file").join(path);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Returns the metrics in the table of docs/reference/metrics.md.
fn documented() -> BTreeMap<String, Metric> {
    let text = read("docs/reference/metrics.md");
    let mut metrics = BTreeMap::new();
    for row in text.lines().filter(|line| line.starts_with("| `tenure_")) {
        let cells: Vec<&str> = row.split('|').map(str::trim).collect();
        let [_, name, kind, unit, labels, meaning, _] = cells[..] else { panic!("{row}") };
        let name = name.trim_matches('`');
        let ends = if kind == "counter" { "_total" } else { unit_of(unit) };
        assert!(name.ends_with(ends) && !meaning.is_empty(), "{row}");
        assert_eq!(kind == "counter", name.ends_with("_total"), "{row}");
        let metric = Metric { kind: kind.to_owned(), labels: words(labels) };
        assert!(metrics.insert(name.to_owned(), metric).is_none(), "{name} occurs twice");
    }
    assert!(metrics.len() > 10, "the table is missing");
    metrics
}

fn unit_of(unit: &str) -> &'static str {
    match unit {
        "seconds" => "_seconds",
        "ratio" => "_ratio",
        "" => "",
        other => panic!("unknown unit {other}"),
    }
}

/// Parses a cell such as `` `election`, `outcome`: done, refused ``.
fn words(cell: &str) -> Words {
    let mut labels = Words::new();
    let mut parts = cell.split('`').skip(1);
    while let (Some(label), Some(words)) = (parts.next(), parts.next()) {
        let words = words.trim_start_matches(':').split(',').map(str::trim);
        let words = words.filter(|word| !word.is_empty()).map(str::to_owned);
        labels.insert(label.to_owned(), words.collect());
    }
    labels
}

fn told(scrapes: &[Scrape]) -> BTreeMap<String, Metric> {
    let mut metrics: BTreeMap<String, Metric> = BTreeMap::new();
    for scrape in scrapes {
        for (sample, labels, _) in &scrape.samples {
            let name = scrape.metric_of(sample);
            assert!(scrape.helped.contains(name), "{name} is not described");
            let metric = metrics.entry(name.to_owned()).or_default();
            metric.kind = scrape.types[name].clone();
            let known = metric.labels.is_empty();
            let names: Vec<&String> = labels.keys().filter(|name| *name != "le").collect();
            assert!(known || names.iter().all(|name| metric.labels.contains_key(*name)), "{name}");
            assert!(known || names.len() == metric.labels.len(), "{name} {labels:?}");
            for name in names {
                metric.labels.entry(name.clone()).or_default().insert(labels[name].clone());
            }
        }
    }
    // The values of these labels are names of elections, candidates and other objects, so the
    // documents cannot list the values.
    for label in metrics.values_mut().flat_map(|metric| metric.labels.iter_mut()) {
        if ["election", "candidate", "gate", "group", "member"].contains(&label.0.as_str()) {
            label.1.clear();
        }
    }
    metrics
}

/// Compares the recorded and the documented metrics of one package, including the label values.
pub fn compare(scrapes: &[Scrape], of_the_package: impl Fn(&str) -> bool) {
    let (mut told, mut documented) = (told(scrapes), documented());
    told.retain(|name, _| of_the_package(name));
    documented.retain(|name, _| of_the_package(name));
    let names = |metrics: &BTreeMap<String, Metric>| metrics.keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(&told), names(&documented), "recorded and documented");
    for (name, metric) in &told {
        assert_eq!(metric, &documented[name], "recorded and documented properties of {name}");
    }
}

/// Returns the names of metrics in a text, unchanged: a suffix such as `_bucket` is kept.
fn named(text: &str) -> BTreeSet<String> {
    let part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let words = text.split(|c| !part(c));
    words.filter(|word| word.starts_with("tenure_")).map(str::to_owned).collect()
}

/// A metric that only the command exports. The tests of the command check this metric.
const OF_THE_COMMAND: &str = "tenure_period_last_completed_timestamp_seconds";

fn names_only_real_metrics(path: &str) -> BTreeSet<String> {
    let documented = documented();
    let mut used = BTreeSet::new();
    for name in named(&read(path)).into_iter().filter(|name| name != OF_THE_COMMAND) {
        let ends = ["_bucket", "_sum", "_count"];
        let base = ends
            .iter()
            .find_map(|end| name.strip_suffix(end))
            .filter(|base| documented.get(*base).is_some_and(|metric| metric.kind == "histogram"));
        let metric = base.unwrap_or(&name);
        let found = documented.get(metric);
        let found = found.unwrap_or_else(|| panic!("{path} names {name}, which is not a metric"));
        assert!(
            base.is_some() || found.kind != "histogram",
            "{path} names {name} without the suffix of a histogram"
        );
        used.insert(metric.to_owned());
    }
    used
}

#[test]
fn the_dashboard_shows_exactly_the_documented_metrics() {
    let shown = names_only_real_metrics("deploy/grafana/tenure.json");
    let all: BTreeSet<String> = documented().into_keys().collect();
    assert_eq!(all.difference(&shown).collect::<Vec<_>>(), [""; 0], "missing on the dashboard");
}

#[test]
fn alerts_name_only_real_metrics() {
    for path in ["deploy/prometheus/alerts.yaml", "deploy/prometheus/alerts_test.yaml"] {
        assert!(!names_only_real_metrics(path).is_empty());
    }
}

#[test]
fn every_alert_is_documented_and_tested() {
    let alerts = |text: &str, before: &str| -> BTreeSet<String> {
        let all = text.match_indices(before).map(|(at, _)| &text[at + before.len()..]);
        let name =
            |rest: &str| -> String { rest.chars().take_while(|c| c.is_alphanumeric()).collect() };
        all.map(name).filter(|name| name.starts_with("Tenure")).collect()
    };
    let rules = alerts(&read("deploy/prometheus/alerts.yaml"), "- alert: ");
    assert!(rules.len() > 5, "{rules:?}");
    assert_eq!(rules, alerts(&read("docs/reference/metrics.md"), "| `"));
    assert_eq!(rules, alerts(&read("deploy/prometheus/alerts_test.yaml"), "alertname: "));
}
