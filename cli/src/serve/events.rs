//! The events of an election: what has changed between two views of it.

use std::sync::Arc;

use futures::stream::BoxStream;
use serde_json::Value;

use super::candidacy::Candidacy;
use super::stream;
use super::view::ElectionView;
use crate::output::print::json_line;

/// What a client of a stream was sent. Each event is made of the view of the moment at which it is
/// sent. What a reader has not read yet waits in the connection's buffers: an event may be old when
/// it is read, and what has followed it comes right after.
#[derive(Debug, Default)]
struct SentElection {
    leads: Option<u64>,
    at_risk: bool,
    /// The name, epoch and data of the leader.
    leader: Option<(Option<String>, Option<u64>, Value)>,
}

/// The events of an election, beginning with what is true now.
pub fn events(candidacy: &Arc<Candidacy>) -> BoxStream<'static, String> {
    let mut sent = SentElection::default();
    stream::events(candidacy, move |candidacy| sent.update(&ElectionView::of(candidacy)))
}

impl SentElection {
    /// The events that lead from what was sent to this view.
    fn update(&mut self, view: &ElectionView) -> String {
        let mut text = String::new();
        let mut push = |event: &str| {
            text.push_str(&format!("event: {event}\ndata: {}\n\n", json_line(view)));
        };
        let leads = view.epoch.filter(|_| view.this_candidate_leads);
        let at_risk = view.state == "at_risk";
        if self.leads.is_some() && self.leads != leads {
            push("lost");
        }
        if leads.is_some() && self.leads != leads {
            push("elected");
            self.at_risk = false;
        }
        if leads.is_some() && self.at_risk != at_risk {
            push(if at_risk { "at_risk" } else { "safe" });
            self.at_risk = at_risk;
        }
        let leader = Some((view.leader.clone(), view.epoch, view.data.clone()));
        if self.leader != leader {
            push("leader_changed");
            self.leader = leader;
        }
        self.leads = leads;
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::serve::view::LostLeadershipView;

    fn view(state: &'static str, epoch: Option<u64>) -> ElectionView {
        let leads = ["leading", "at_risk"].contains(&state);
        ElectionView {
            at: String::new(),
            election: "e".to_owned(),
            state,
            reason: None,
            this_candidate_leads: leads,
            candidate: "a".to_owned(),
            leader: epoch.map(|_| if leads { "a" } else { "b" }.to_owned()),
            epoch,
            data: Value::Null,
            lease_remaining_ms: leads.then_some(1),
            lapses_in_ms: None,
            store_answered_ms_ago: Some(0),
            lost: Some(LostLeadershipView { epoch: 1, reason: "resigned", ms_ago: 0 }),
        }
    }

    /// The names of the events for each of these views, one after another.
    fn sent(views: &[ElectionView]) -> Vec<String> {
        let mut sent = SentElection::default();
        let names = |view: &ElectionView| {
            let text = sent.update(view);
            let names = text.lines().filter_map(|line| line.strip_prefix("event: "));
            names.collect::<Vec<_>>().join(" ")
        };
        views.iter().map(names).collect()
    }

    #[test]
    fn what_is_true_comes_first_and_then_what_changes() {
        let (leading, at_risk) = (view("leading", Some(1)), view("at_risk", Some(1)));
        let nobody = view("ending", None);
        let all = [&leading, &leading, &at_risk, &at_risk, &leading, &at_risk, &nobody, &nobody];
        assert_eq!(
            sent(&all.map(ElectionView::clone)),
            [
                "elected leader_changed",
                "",
                "at_risk",
                "",
                "safe",
                "at_risk",
                "lost leader_changed",
                ""
            ]
        );
        let followed = sent(&[view("campaigning", None), view("following", Some(3))]);
        assert_eq!(followed, ["leader_changed", "leader_changed"]);
    }

    /// Once the connection has no room, what lies in between is left out.
    #[test]
    fn a_slow_reader_hears_what_is_true_at_last() {
        let (first, other) = (view("leading", Some(1)), view("following", Some(2)));
        let risky = view("at_risk", Some(3));
        assert_eq!(
            sent(&[first, risky, other]),
            [
                "elected leader_changed",
                "lost elected at_risk leader_changed",
                "lost leader_changed"
            ]
        );
    }

    mod in_time {
        use std::time::Duration;

        use tenure::{Clock as _, Process};
        use tenure_testkit::fault_store::Fault;
        use tenure_testkit::time::{millis, wait};
        use tenure_testkit::world::{VALIDITY, World, elect};

        use super::*;
        use crate::serve::stream::testing::{SOON, follow_events};

        const MARGIN: Duration = Duration::from_secs(1);

        async fn leading(world: &World) -> (Arc<Candidacy>, tenure::Leadership) {
            let election = world.node("a").build().expect("settings that fit");
            let process = Process::system().with_clock(Arc::new(world.clock.clone()));
            let (candidacy, _) = Candidacy::new("e", election, VALIDITY, MARGIN, process);
            let leadership = elect(&candidacy.election).await;
            candidacy.elected(leadership.lease());
            (candidacy, leadership)
        }

        /// Whatever a stream does at that moment, it is woken.
        #[tokio::test(start_paused = true)]
        async fn what_a_task_changes_is_said_at_once() {
            let world = World::new();
            let (candidacy, leadership) = leading(&world).await;
            let logs = follow_events(&world.clock, || events(&candidacy)).await;
            logs.has_not_said("lost");
            let known = world.clock.now().boot;
            candidacy.give_up("resigned");
            wait(millis(1)).await;
            logs.said("lost", known, Duration::ZERO);
            drop(leadership);
        }

        /// No task tells of it: a stream has to look.
        #[tokio::test(start_paused = true)]
        async fn what_only_time_brings_is_said_soon() {
            let world = World::new();
            let (candidacy, leadership) = leading(&world).await;
            let logs = follow_events(&world.clock, || events(&candidacy)).await;
            world.store.always(Fault::FailBefore);
            let now = world.clock.now().boot;
            let margin_at = now + leadership.remaining() - MARGIN;
            let risk_at = now + leadership.remaining() - VALIDITY / 4;
            wait(risk_at - now - millis(1)).await;
            logs.has_not_said("at_risk");
            wait(margin_at - risk_at).await;
            logs.said("at_risk", risk_at, SOON);
            logs.has_not_said("lost");
            wait(SOON).await;
            logs.said("lost", margin_at, SOON);
            assert!(leadership.check().is_ok(), "its lease runs");
        }

        /// A machine that slept looks as soon as a timer runs.
        #[tokio::test(start_paused = true)]
        async fn a_lapse_while_the_machine_slept_is_said_soon() {
            let world = World::new();
            let (candidacy, leadership) = leading(&world).await;
            let logs = follow_events(&world.clock, || events(&candidacy)).await;
            world.clock.suspend(VALIDITY);
            let awake = world.clock.now().boot;
            wait(SOON).await;
            logs.said("lost", awake, SOON);
            drop(leadership);
        }
    }
}
