//! Checks of requests for one object.

use std::time::Duration;

use chrono::{DateTime, Utc};
use tenure::Process;
use tenure::store::{GetOutcome, PutOutcome};

use super::check_scope::{CheckScope, Checked, broken, expect_eq};

const IGNORES_CREATE: &str = "creates an object that exists already (it ignores If-None-Match)";
const IGNORES_REPLACE: &str = "replaces an object whose ETag does not match (it ignores If-Match)";

/// Checks that the store refused the request because of its condition.
fn refused(outcome: PutOutcome, words: &str) -> Checked {
    match outcome {
        PutOutcome::PreconditionFailed => Ok(()),
        other => broken(format!("{words}: {other:?}")),
    }
}

impl CheckScope<'_> {
    /// Checks the outcome of a replace of a missing key.
    fn missing(&self, outcome: &PutOutcome, words: &str) -> Checked {
        let (refused, missing) = (PutOutcome::PreconditionFailed, PutOutcome::NotFound);
        let expected = if self.can.missing_is_refused { &refused } else { &missing };
        let either = self.can.lenient && [&refused, &missing].contains(&outcome);
        if either || outcome == expected {
            return Ok(());
        }
        broken(format!("{words}: {outcome:?}, expected {expected:?}"))
    }
}

pub(super) async fn creates_once(scope: CheckScope<'_>) -> Checked {
    expect_eq!(scope.get("a", None, 100).await?, GetOutcome::NotFound, "shows a missing object");
    let etag = scope.created("a", "first").await?;
    refused(scope.create("a", "second").await?, IGNORES_CREATE)?;
    refused(scope.create("a", "first").await?, IGNORES_CREATE)?;
    scope.shows("a", b"first", &etag, "after a create that was refused").await?;
    scope.created("b", "first").await?;
    Ok(())
}

pub(super) async fn replaces_only_the_current_etag(scope: CheckScope<'_>) -> Checked {
    let other = scope.created("other", "another body").await?;
    let first = scope.created("a", "one").await?;
    let second = scope.replaced("a", "two", &first).await?;
    scope.shows("a", b"two", &second, "after a replace").await?;
    for wrong in [&other, &first] {
        refused(scope.replace("a", "three", wrong).await?, IGNORES_REPLACE)?;
        scope.shows("a", b"two", &second, "after a replace that was refused").await?;
    }

    let outcome = scope.replace("missing", "x", &other).await?;
    scope.missing(&outcome, "replaces a missing object (it ignores If-Match)")?;
    let words = "creates an object by a replace that it refused";
    expect_eq!(scope.get("missing", None, 9).await?, GetOutcome::NotFound, "{words}");
    Ok(())
}

pub(super) async fn changes_the_etag_with_the_body(scope: CheckScope<'_>) -> Checked {
    let mut etag = scope.created("a", "0").await?;
    let mut seen = vec![etag.clone()];
    for round in 1..20 {
        etag = scope.replaced("a", format!("{round}"), &etag).await?;
        expect_eq!(
            scope.found("a").await?.etag,
            etag,
            "returns different ETags for a write and for the next read"
        );
        if seen.contains(&etag) {
            return broken(format!("returns the ETag {etag} for two different bodies"));
        }
        seen.push(etag.clone());
    }
    Ok(())
}

/// Followers rely on this guarantee: a follower that does not see the renewals of a live leader
/// considers the leader dead.
pub(super) async fn shows_changes_to_a_poll(scope: CheckScope<'_>) -> Checked {
    let first = scope.created("a", "one").await?;
    match scope.get("a", Some(&first), 100).await? {
        GetOutcome::NotModified => {}
        // Some stores return the whole object even if it is unchanged.
        GetOutcome::Found(object) if scope.can.lenient && object.body == "one" => {}
        other => return broken(format!("returns {other:?} for a poll of an unchanged object")),
    }
    if !scope.can.lenient {
        let outcome = scope.get("a", Some(&first), 0).await?;
        expect_eq!(
            outcome,
            GetOutcome::NotModified,
            "returns an unchanged object to a poll with a limit of 0 bytes"
        );
    }
    let second = scope.replaced("a", "two", &first).await?;
    match scope.get("a", Some(&first), 100).await? {
        GetOutcome::Found(object) if object.body == "two" && object.etag == second => {}
        other => {
            let words = "does not show a change to a poll (If-None-Match on a read)";
            return broken(format!("{words}: {other:?}"));
        }
    }
    let outcome = scope.get("missing", Some(&first), 100).await?;
    expect_eq!(outcome, GetOutcome::NotFound, "returns a missing object to a poll");
    Ok(())
}

pub(super) async fn reads_no_more_than_asked(scope: CheckScope<'_>) -> Checked {
    let etag = scope.created("a", "0123456789").await?;
    for max_len in [10, 11, 1_000_000] {
        match scope.get("a", None, max_len).await? {
            GetOutcome::Found(object) => {
                expect_eq!(
                    object.body,
                    "0123456789",
                    "returns a wrong body for a limit of {max_len}"
                );
            }
            other => {
                return broken(format!(
                    "fails to read 10 bytes with a limit of {max_len}: {other:?}"
                ));
            }
        }
    }
    for max_len in [0, 1, 9] {
        let outcome = scope.get("a", None, max_len).await?;
        let expected = GetOutcome::TooLarge { etag: etag.clone(), len: 10 };
        expect_eq!(outcome, expected, "reads an object of 10 bytes with a limit of {max_len}");
    }
    Ok(())
}

pub(super) async fn reads_what_was_written(scope: CheckScope<'_>) -> Checked {
    for round in 0..scope.can.rounds {
        let name = format!("lock-{round:010}.json");
        let [first, second] = ["first", "second"].map(|body| format!("{body} {round}"));
        let etag = scope.created(&name, first.clone()).await?;
        let when = "after a create (read after write)";
        scope.shows(&name, first.as_bytes(), &etag, when).await?;
        let etag = scope.replaced(&name, second.clone(), &etag).await?;
        let when = "after a replace (read after write)";
        scope.shows(&name, second.as_bytes(), &etag, when).await?;
    }
    Ok(())
}

pub(super) async fn keeps_odd_bodies(scope: CheckScope<'_>) -> Checked {
    let large = (0..40 * 1_024).map(|i| (i % 251) as u8).collect::<Vec<_>>();
    let bodies =
        [&b""[..], b"\n", b"{}\n{}\n", b"\0\xff\xfe", b"{\"tenure_dir\":1,\"writes\":2}\n", &large];
    let mut etag = scope.created("changing", "first").await?;
    for (i, body) in bodies.into_iter().enumerate() {
        let name = format!("{i}");
        scope.created(&name, body.to_vec()).await?;
        expect_eq!(scope.found(&name).await?.body, body, "changes body {i} in a create");
        etag = scope.replaced("changing", body.to_vec(), &etag).await?;
        expect_eq!(scope.found("changing").await?.body, body, "changes body {i} in a replace");
    }
    Ok(())
}

pub(super) async fn forgets_what_was_deleted(scope: CheckScope<'_>) -> Checked {
    for name in ["a", "b", "c"] {
        scope.created(name, name).await?;
    }
    // The last call deletes `b` again. The deletion of a missing key must succeed.
    for names in [&["missing"][..], &["b"], &["b", "missing"]] {
        scope.delete(names).await?;
    }
    let outcome = scope.get("b", None, 9).await?;
    expect_eq!(outcome, GetOutcome::NotFound, "returns a deleted object");
    let words =
        "lists keys that differ from the remaining objects after a delete (list after delete)";
    expect_eq!(scope.list("", "", 1_000).await?, ["a", "c"], "{words}");
    Ok(())
}

pub(super) async fn deletes_many(scope: CheckScope<'_>) -> Checked {
    scope.created("folder/d", "x").await?;
    scope.created("many/0500", "x").await?;
    scope.delete(&["missing/too"]).await?;
    scope.delete(&["folder/d"]).await?;
    let many = (0..1_000).map(|i| format!("many/{i:04}")).collect::<Vec<_>>();
    scope.delete(&many.iter().map(String::as_str).collect::<Vec<_>>()).await?;
    expect_eq!(scope.list("", "", 1_000).await?, [""; 0], "lists keys after their deletion");
    Ok(())
}

pub(super) async fn starts_anew_after_a_delete(scope: CheckScope<'_>) -> Checked {
    const BEFORE: &str = "accepts the ETag of a deleted object for a replace";
    let old = scope.created("a", "old").await?;
    scope.delete(&["a"]).await?;
    scope.missing(&scope.replace("a", "x", &old).await?, BEFORE)?;
    let new = scope.created("a", "new").await?;
    refused(scope.create("a", "x").await?, IGNORES_CREATE)?;
    refused(scope.replace("a", "x", &old).await?, BEFORE)?;
    let newer = scope.replaced("a", "newer", &new).await?;
    scope.shows("a", b"newer", &newer, "after it was deleted and created again").await
}

pub(super) async fn dates_what_was_written(scope: CheckScope<'_>) -> Checked {
    let etag = scope.created("a", "one").await?;
    scope.replaced("a", "two", &etag).await?;
    let object = scope.found("a").await?;
    let page = scope.page(&scope.key(""), "", 10).await?;
    let dates = [
        ("Last-Modified of an object", object.last_modified),
        ("Date of an object", object.served_at),
        ("LastModified in a listing", page.entries.first().and_then(|entry| entry.last_modified)),
        ("Date of a listing", page.served_at),
    ];
    let now = Process::system().now().time_of_day();
    for (field, date) in dates {
        if !date.is_some_and(|date| is_recent(date, now)) {
            return broken(format!("returns {date:?} as the {field} at {now}"));
        }
    }
    Ok(())
}

/// The tolerance is large, so that the check passes on a slow machine. Dates in a wrong time zone
/// or a wrong unit still fail.
fn is_recent(date: DateTime<Utc>, now: DateTime<Utc>) -> bool {
    let distance = now.signed_duration_since(date).abs();
    distance.to_std().is_ok_and(|distance| distance < Duration::from_secs(30 * 60))
}
