//! Tests that the drawing of a failed run shows the violation.

use std::time::Duration;

use roxmltree::Document;
use tenure_history::drawing::{BandKind, Interval};
use tenure_model::sim::suite::run_all;

use crate::sim::Outcome;
use crate::sim::picture::save;
use crate::sim::plan::{Broken, Plan};

fn failure(broken: Broken) -> Outcome {
    let only: &[&str] = &["I8"];
    let outcomes = run_all(0..100, |seed| Plan { only, ..Plan::draw(seed, broken) });
    let failed = outcomes.into_iter().find(|outcome| outcome.violation.is_some());
    failed.unwrap_or_else(|| panic!("{broken:?} is not caught by I8"))
}

/// Returns the intervals of the drawing that contain the moment `at`. In each interval, a process
/// believes that it leads.
fn leading(outcome: &Outcome, at: Duration) -> Vec<Interval> {
    let drawing = outcome.drawing.as_ref().expect("a failure is drawn");
    let leading = drawing.intervals.iter().filter(|i| i.from <= at && at <= i.until);
    leading.cloned().collect()
}

#[test]
fn an_overlap_is_drawn_with_two_leaders() {
    // The first two of these broken variants ignore the loss of a lease. In the third variant, the
    // clocks do not run during a suspend.
    for broken in [Broken::TokenKept, Broken::RefusalIgnored, Broken::ClockStopsInSuspend] {
        let outcome = failure(broken);
        let violation = outcome.violation.as_ref().expect("the run failed");
        let both = leading(&outcome, violation.at);
        assert!(both.len() >= 2, "{broken:?}: {violation:?}: {both:#?}");
        let path = save(&outcome);
        let svg = std::fs::read_to_string(&path).expect("the drawing was written");
        let document = Document::parse(&svg).expect("XML");
        let titles: Vec<_> = document.descendants().filter_map(|node| node.text()).collect();
        for interval in &both {
            assert!(titles.contains(&interval.tip.as_str()), "{broken:?}: {}", interval.tip);
            assert!(
                violation.what.contains(&format!("epoch {}", interval.label))
                    || violation.what.contains(&format!("token {}", interval.label))
                    || both.len() > 2,
                "{violation:?} is not about {interval:?}"
            );
        }
    }
}

#[test]
fn a_long_overlap_is_drawn_as_a_band() {
    let outcome = failure(Broken::TokenKept);
    let drawing = outcome.drawing.as_ref().expect("a failure is drawn");
    let several = drawing.bands.iter().filter(|band| band.kind == BandKind::Several);
    let at = outcome.violation.as_ref().expect("the run failed").at;
    let longest = several.filter(|band| band.until == at).map(|band| band.until - band.from).max();
    assert!(longest > Some(Duration::ZERO), "{:?}", drawing.bands);
}

#[test]
fn a_run_without_a_violation_is_not_drawn() {
    let outcomes = run_all(0..4, |seed| Plan::draw(seed, Broken::Nothing));
    assert!(outcomes.iter().all(|outcome| outcome.drawing.is_none()));
}
