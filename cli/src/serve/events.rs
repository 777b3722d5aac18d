//! The events of an election: the changes between two of its views.

use std::sync::Arc;

use futures::stream::BoxStream;
use serde_json::Value;

use super::candidacy::Candidacy;
use super::event_stream;
use super::view::ElectionView;
use crate::election::LeaseState;
use crate::output::print::json_line;

/// The last state that a stream has sent. Each event describes the election at the moment at which
/// the event is sent. Unread events wait in the buffers of the connection, so an event may be old
/// when the client reads it. The newer events then follow immediately.
#[derive(Debug, Default)]
struct SentElection {
    leads: Option<u64>,
    at_risk: bool,
    /// The state of the election as the stream has sent it, and the name, epoch and data of the
    /// leader.
    leader: Option<(LeaseState, Option<String>, Option<u64>, Value)>,
}

/// Returns the event stream of an election. The first events describe its current state.
pub fn events(candidacy: &Arc<Candidacy>) -> BoxStream<'static, String> {
    let mut sent = SentElection::default();
    event_stream::events(candidacy, move |candidacy| sent.update(&ElectionView::of(candidacy)))
}

impl SentElection {
    /// Returns the text of the events for the difference between the sent state and this view.
    fn update(&mut self, view: &ElectionView) -> String {
        let mut text = String::new();
        let mut push = |event: &str| {
            text.push_str(&format!("event: {event}\ndata: {}\n\n", json_line(view)));
        };
        let leads = view.epoch.filter(|_| view.this_candidate_leads);
        let at_risk = view.role == "at_risk";
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
        let leader = Some((view.state, view.leader.clone(), view.epoch, view.data.clone()));
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

    fn view(role: &'static str, epoch: Option<u64>) -> ElectionView {
        let leads = ["leading", "at_risk"].contains(&role);
        ElectionView {
            at: String::new(),
            election: "e".to_owned(),
            state: LeaseState::held_if(epoch.is_some()),
            role,
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

    /// Returns the names of the events that a stream sends for each of these consecutive views.
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
    fn a_stream_begins_with_the_state_and_continues_with_changes() {
        let (leading, at_risk) = (view("leading", Some(1)), view("at_risk", Some(1)));
        let vacant = view("ending", None);
        let all = [&leading, &leading, &at_risk, &at_risk, &leading, &at_risk, &vacant, &vacant];
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

    /// A stream reads no views while the buffer of its connection is full. When the buffer has room
    /// again, the stream sends the events for the latest view only.
    #[test]
    fn a_slow_reader_receives_the_latest_state() {
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
        use crate::serve::event_stream::testing::{SOON, follow_events};
        use crate::serve::machine::Times;

        const MARGIN: Duration = Duration::from_secs(1);
        const TIMES: Times = Times { validity: VALIDITY, margin: MARGIN, recent: VALIDITY };

        async fn leading(world: &World) -> (Arc<Candidacy>, tenure::Leadership) {
            let election = world.node("a").build().expect("settings that fit");
            let process = Process::system().with_clock(Arc::new(world.clock.clone()));
            let (candidacy, _) = Candidacy::new("e", election, TIMES, process);
            let leadership = elect(&candidacy.election).await;
            candidacy.elected(leadership.lease());
            (candidacy, leadership)
        }

        /// If a task of this process makes a change, the change wakes each stream, even in the
        /// middle of the stream's poll interval.
        #[tokio::test(start_paused = true)]
        async fn a_change_by_a_task_is_sent_immediately() {
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

        /// If only the passage of time changes the state, no task wakes the stream, so the stream
        /// must poll.
        #[tokio::test(start_paused = true)]
        async fn a_change_that_only_time_causes_is_sent_soon() {
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

        /// The machine is suspended during the lapse of the lease. A stream polls as soon as its
        /// timer fires.
        #[tokio::test(start_paused = true)]
        async fn a_lapse_during_a_suspend_is_sent_soon() {
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
