//! The events of a group: the changes for this member between two polls.

use std::collections::BTreeMap;
use std::sync::Arc;

use futures::stream::BoxStream;

use super::member::{Member, OwnedNow};
use super::view::{EventView, MemberView, PartitionView};
use crate::output::print::json_line;
use crate::serve::event_stream;

/// The last state that a stream has sent. Each event describes the member at the moment at which
/// the event is sent, and contains at most one partition.
#[derive(Debug, Default)]
struct SentMember {
    /// The number of changes of the member, and whether the member was at risk, both at the last
    /// poll.
    change: Option<(u64, bool)>,
    /// The partitions that the member owns according to the sent events, by number.
    owned: BTreeMap<u32, OwnedNow>,
    at_risk: bool,
    /// The last role that was sent, with its reason and the session. In this field, a member at
    /// risk has the role `member`.
    role: Option<(&'static str, Option<&'static str>, Option<String>)>,
}

/// Maximum length of the events of one poll in bytes. Only the last event may exceed this length.
/// Without a limit, the unread events of each stream could use much memory, because a member may
/// own 100,000 partitions.
const MOST_AT_ONCE: usize = 64 * 1024;

/// Whether the events of one poll are complete, or cut by the maximum length.
#[derive(Debug, PartialEq, Eq)]
enum Batch {
    Complete,
    Partial,
}

/// Returns the event stream of a group. The first events describe its current state.
pub fn events(member: &Arc<Member>) -> BoxStream<'static, String> {
    let mut sent = SentMember::default();
    event_stream::events(member, move |member| {
        // If nothing has changed, as in most polls, the partitions are not read, because a member
        // may own thousands of partitions.
        let change = Some(member.change());
        if sent.change == change {
            return String::new();
        }
        sent.change = change;
        let (now, owned) = member.all();
        let reason = |it: &OwnedNow| member.reason(&it.name, it.token);
        let (text, batch) = sent.update(&MemberView::of(member, &now), now.at_risk, owned, reason);
        if batch == Batch::Partial {
            sent.change = None;
        }
        text
    })
}

impl SentMember {
    /// Returns the text of the events for the difference between the sent state and the current
    /// state.
    fn update(
        &mut self,
        view: &MemberView,
        at_risk: bool,
        owned: Vec<OwnedNow>,
        reason: impl Fn(&OwnedNow) -> Option<&'static str>,
    ) -> (String, Batch) {
        let mut text = String::new();
        let event_text = |event: &str, partition: Option<PartitionView>| {
            let data = json_line(&EventView { member: view, partition });
            format!("event: {event}\ndata: {data}\n\n")
        };
        let owned: BTreeMap<_, _> = owned.into_iter().map(|it| (it.number, it)).collect();
        let is_over = |it: &&OwnedNow| owned.get(&it.number).is_none_or(|b| b.token != it.token);
        let over: Vec<_> = self.owned.values().filter(is_over).cloned().collect();
        for old in over {
            if text.len() >= MOST_AT_ONCE {
                return (text, Batch::Partial);
            }
            text.push_str(&event_text("lost", Some(PartitionView::lost(&old, reason(&old)))));
            self.owned.remove(&old.number);
        }
        for (number, new) in owned {
            let sent = self.owned.get(&number).map(|sent| sent.revoked);
            if sent == Some(new.revoked) {
                continue;
            }
            if text.len() >= MOST_AT_ONCE {
                return (text, Batch::Partial);
            }
            if sent.is_none() {
                text.push_str(&event_text("granted", Some(PartitionView::of(&new))));
            }
            if new.revoked {
                text.push_str(&event_text("revoked", Some(PartitionView::of(&new))));
            }
            self.owned.insert(number, new);
        }
        // The stream sends `safe` after a renewal. After the end of a session it sends only
        // `role_changed`. The stream sends no `safe` when a member at risk begins to leave, because
        // the member is still at risk.
        let was_at_risk = self.at_risk && view.session.is_some();
        if at_risk != was_at_risk {
            text.push_str(&event_text(if at_risk { "at_risk" } else { "safe" }, None));
        }
        self.at_risk = at_risk;
        let role = if view.role == "at_risk" { "member" } else { view.role };
        let role = Some((role, view.reason, view.session.clone()));
        if self.role != role {
            text.push_str(&event_text("role_changed", None));
            self.role = role;
        }
        (text, Batch::Complete)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view(role: &'static str, session: Option<&str>) -> MemberView {
        MemberView {
            at: String::new(),
            group: "g".to_owned(),
            role,
            reason: None,
            member: "a".to_owned(),
            session: session.map(str::to_owned),
            lease_remaining_ms: session.map(|_| 1),
            store_answered_ms_ago: Some(0),
            lost: None,
        }
    }

    /// Returns owned partitions. Each element of `all` is the number of a partition, its token, and
    /// whether the partition is revoked.
    fn owned(all: &[(u32, u64, bool)]) -> Vec<OwnedNow> {
        let one = |&(number, token, revoked)| OwnedNow {
            name: format!("p{number}").into(),
            number,
            token,
            revoked,
        };
        all.iter().map(one).collect()
    }

    /// Returns the names of the events that a stream sends, each with its partition, token and
    /// reason.
    fn said(sent: &mut SentMember, view: &MemberView, all: &[(u32, u64, bool)]) -> String {
        said_at(sent, view, view.role == "at_risk", all)
    }

    fn said_at(
        sent: &mut SentMember,
        view: &MemberView,
        at_risk: bool,
        all: &[(u32, u64, bool)],
    ) -> String {
        let reason = |it: &OwnedNow| (it.token < 5).then_some("released");
        let (text, batch) = sent.update(view, at_risk, owned(all), reason);
        assert_eq!(batch, Batch::Complete);
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
    fn a_stream_begins_with_the_state_and_continues_with_changes() {
        let mut sent = SentMember::default();
        let (member, risky) = (view("member", Some("s")), view("at_risk", Some("s")));
        let mut said = |view: &MemberView, all: &[(u32, u64, bool)]| said(&mut sent, view, all);
        let both = [(1, 3, false), (2, 4, true)];
        let first = "granted p1 3, granted p2 4, revoked p2 4, role_changed";
        assert_eq!(said(&member, &both), first);
        assert_eq!(said(&member, &both), "");
        assert_eq!(said(&risky, &both), "at_risk");
        assert_eq!(said(&member, &[(1, 3, true), (2, 4, true)]), "revoked p1 3, safe");
        assert_eq!(said(&member, &[(1, 3, true)]), "lost p2 4 released");
        assert_eq!(said(&risky, &[(1, 3, true)]), "at_risk");
        let over = view("ending", None);
        assert_eq!(said(&over, &[]), "lost p1 3 released, role_changed");
        assert_eq!(said(&view("joining", None), &[]), "role_changed");
        // This process is a new member with a new session. So the event `safe`, about the old
        // session, is not sent.
        assert_eq!(said(&view("member", Some("t")), &[]), "role_changed");
    }

    /// A stream does not send the states between two polls. But after the stream has sent a grant,
    /// it also sends the loss of the granted token, even if the member owns the partition again at
    /// the next poll.
    #[test]
    fn a_loss_and_a_new_grant_between_polls_are_both_sent() {
        let mut sent = SentMember::default();
        let member = view("member", Some("s"));
        said(&mut sent, &member, &[(1, 4, true), (2, 6, false)]);
        let next = said(&mut sent, &member, &[(1, 7, false), (2, 9, true)]);
        // The member knows the reason only for the last loss of each partition. The partition p2
        // was later lost with another token, so the event for token 6 has no reason.
        assert_eq!(next, "lost p1 4 released, lost p2 6, granted p1 7, granted p2 9, revoked p2 9");
    }

    /// Before the fix, if a member began to leave while its renewals failed, a stream reported with
    /// `safe` that the member was no longer at risk.
    #[test]
    fn regression_a_member_at_risk_that_leaves_is_not_reported_as_safe() {
        let mut sent = SentMember::default();
        said(&mut sent, &view("at_risk", Some("s")), &[]);
        let (leaving, none) = (view("leaving", Some("s")), &[]);
        assert_eq!(said_at(&mut sent, &leaving, true, none), "role_changed");
        assert_eq!(said_at(&mut sent, &leaving, false, none), "safe");
        assert_eq!(said_at(&mut sent, &leaving, true, none), "at_risk");
    }

    #[test]
    fn regression_many_partitions_are_sent_in_parts() {
        let mut sent = SentMember::default();
        let member = view("member", Some("s"));
        let all: Vec<_> = (0..5_000).map(|number| (number, 3, number % 2 == 0)).collect();
        for (now, events) in [(&all[..], 7_501), (&[], 5_000)] {
            let (mut texts, mut batch) = (Vec::new(), Batch::Partial);
            while batch == Batch::Partial {
                let (text, next) = sent.update(&member, false, owned(now), |_| None);
                assert!(text.len() < MOST_AT_ONCE + 2_000, "{}", text.len());
                texts.push(text);
                batch = next;
            }
            assert!(texts.len() > 10, "{}", texts.len());
            assert_eq!(texts.concat().matches("event: ").count(), events);
        }
        assert_eq!(said(&mut sent, &member, &[]), "");
    }
}
