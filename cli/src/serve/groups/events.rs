//! The events of a group: what has changed for this member between two looks.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures::stream::BoxStream;

use super::member::{Member, OwnedNow};
use super::view::{EventView, MemberView, PartitionView};
use crate::print::json_line;
use crate::serve::stream;

/// What a client of a stream was sent. As for elections, each event is made of what is true at the
/// moment at which it is sent; but it has one partition, and not all.
#[derive(Debug, Default)]
struct Told {
    /// What was known when it was made.
    change: Option<(u64, bool)>,
    /// By number.
    owned: BTreeMap<u32, OwnedNow>,
    at_risk: bool,
    /// The state but for the risk, its reason, and the session.
    state: Option<(&'static str, Option<&'static str>, Option<String>)>,
}

/// The events of a group, beginning with what is true now.
pub fn events(member: &Arc<Member>) -> BoxStream<'static, String> {
    let mut told = Told::default();
    stream::events(member, move |member| {
        // Most looks find nothing new, and a member may own thousands.
        let change = Some(member.change());
        if told.change == change {
            return String::new();
        }
        told.change = change;
        let (now, owned) = member.all();
        let reason = |it: &OwnedNow| member.reason(&it.name, it.token);
        told.learn(&MemberView::of(member, &now), owned, reason)
    })
}

impl Told {
    /// The events that lead from what was told to this.
    fn learn(
        &mut self,
        view: &MemberView,
        owned: Vec<OwnedNow>,
        reason: impl Fn(&OwnedNow) -> Option<&'static str>,
    ) -> String {
        let mut text = String::new();
        let mut tell = |event: &str, partition: Option<PartitionView>| {
            let data = json_line(&EventView { member: view, partition });
            text.push_str(&format!("event: {event}\ndata: {data}\n\n"));
        };
        let owned: BTreeMap<_, _> = owned.into_iter().map(|it| (it.number, it)).collect();
        let is_same = |a: &OwnedNow, b: Option<&OwnedNow>| b.is_some_and(|b| a.token == b.token);
        for old in self.owned.values().filter(|it| !is_same(it, owned.get(&it.number))) {
            tell("lost", Some(PartitionView::lost(old, reason(old))));
        }
        for new in owned.values() {
            let old = self.owned.get(&new.number).filter(|old| is_same(new, Some(old)));
            if old.is_none() {
                tell("granted", Some(PartitionView::of(new)));
            }
            if new.revoked && old.is_none_or(|old| !old.revoked) {
                tell("revoked", Some(PartitionView::of(new)));
            }
        }
        self.owned = owned;
        let at_risk = view.state == "at_risk";
        // The end of a session, or another one, is told as such.
        let was_at_risk = self.at_risk && view.session.is_some();
        if at_risk != was_at_risk {
            tell(if at_risk { "at_risk" } else { "safe" }, None);
        }
        self.at_risk = at_risk;
        let state = if at_risk { "member" } else { view.state };
        let state = Some((state, view.reason, view.session.clone()));
        if self.state != state {
            tell("state_changed", None);
            self.state = state;
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view(state: &'static str, session: Option<&str>) -> MemberView {
        MemberView {
            at: String::new(),
            group: "g".to_owned(),
            state,
            reason: None,
            member: "a".to_owned(),
            session: session.map(str::to_owned),
            lease_remaining_ms: session.map(|_| 1),
            store_answered_ms_ago: Some(0),
            lost: None,
        }
    }

    /// A number, its token, and whether it is revoked.
    fn owned(all: &[(u32, u64, bool)]) -> Vec<OwnedNow> {
        let one = |&(number, token, revoked)| OwnedNow {
            name: format!("p{number}"),
            number,
            token,
            revoked,
        };
        all.iter().map(one).collect()
    }

    /// The events, each with its partition, token and reason.
    fn said(told: &mut Told, view: &MemberView, all: &[(u32, u64, bool)]) -> String {
        let text = told.learn(view, owned(all), |it| (it.token < 5).then_some("released"));
        let mut said = Vec::new();
        for event in text.split("\n\n").filter(|event| !event.is_empty()) {
            let (name, data) = event.split_once("\ndata: ").expect("an event");
            let name = name.strip_prefix("event: ").expect("a name");
            let data: serde_json::Value = serde_json::from_str(data).expect("JSON");
            let partition = &data["partition"];
            said.push(match partition["partition"].as_str() {
                Some(of) => {
                    let reason = partition["reason"].as_str().unwrap_or_default();
                    format!("{name} {of} {} {reason}", partition["token"]).trim_end().to_owned()
                }
                None => name.to_owned(),
            });
        }
        said.join(", ")
    }

    #[test]
    fn what_is_true_comes_first_and_then_what_changes() {
        let mut told = Told::default();
        let (member, risky) = (view("member", Some("s")), view("at_risk", Some("s")));
        let mut said = |view: &MemberView, all: &[(u32, u64, bool)]| said(&mut told, view, all);
        let both = [(1, 3, false), (2, 4, true)];
        let first = "granted p1 3, granted p2 4, revoked p2 4, state_changed";
        assert_eq!(said(&member, &both), first);
        assert_eq!(said(&member, &both), "");
        assert_eq!(said(&risky, &both), "at_risk");
        assert_eq!(said(&member, &[(1, 3, true), (2, 4, true)]), "revoked p1 3, safe");
        assert_eq!(said(&member, &[(1, 3, true)]), "lost p2 4 released");
        assert_eq!(said(&risky, &[(1, 3, true)]), "at_risk");
        let over = view("ending", None);
        assert_eq!(said(&over, &[]), "lost p1 3 released, state_changed");
        assert_eq!(said(&view("joining", None), &[]), "state_changed");
        // Another session is another member.
        assert_eq!(said(&view("member", Some("t")), &[]), "state_changed");
    }

    /// What lies between two looks is left out, but for the end of what was told.
    #[test]
    fn what_was_lost_and_granted_anew_is_told_as_both() {
        let mut told = Told::default();
        let member = view("member", Some("s"));
        said(&mut told, &member, &[(1, 4, true), (2, 6, false)]);
        let next = said(&mut told, &member, &[(1, 7, false), (2, 9, true)]);
        // Of a token that was lost longer ago the reason is forgotten.
        assert_eq!(next, "lost p1 4 released, lost p2 6, granted p1 7, granted p2 9, revoked p2 9");
    }
}
