//! The promises that one writer alone can see broken.

use bytes::Bytes;
use tenure::store::{ETag, GetOutcome, Object, PutOutcome};

use super::ask::{Asker, Check, Ends, Kind, PAGE};

/// Keys created for one listing.
const LISTED: usize = 10;

/// A broken promise, in words that follow "it".
pub fn broken<T>(what: impl Into<String>) -> Check<T> {
    Err(Ends::Broken(what.into()))
}

impl Asker {
    /// Creates what is not there.
    pub(super) async fn created(&self, key: &str, body: &Bytes) -> Check<ETag> {
        match self.create(Kind::Create, key, body.clone()).await? {
            PutOutcome::Done { etag: Some(etag) } => Ok(etag),
            PutOutcome::Done { etag: None } => Ok(self.found(key).await?.etag),
            other => broken(format!("refuses to create what is not there: {other:?}")),
        }
    }

    async fn replaced(&self, key: &str, body: &Bytes, etag: &ETag) -> Check<ETag> {
        match self.replace(Kind::Replace, key, body.clone(), etag).await? {
            PutOutcome::Done { etag: Some(etag) } => Ok(etag),
            PutOutcome::Done { etag: None } => Ok(self.found(key).await?.etag),
            _ => broken("refuses to replace an object whose ETag matches (If-Match)"),
        }
    }

    pub(super) async fn found(&self, key: &str) -> Check<Object> {
        match self.read(key).await? {
            Some(object) => Ok(object),
            None => broken("does not show an object that was written before (read after write)"),
        }
    }

    /// The object has this body and this ETag.
    async fn shows(&self, key: &str, body: &Bytes, etag: &ETag, when: &str) -> Check {
        let object = self.found(key).await?;
        if object.body != *body {
            return broken(format!("shows another body {when}"));
        }
        if object.etag != *etag {
            let (read, written) = (object.etag, etag);
            return broken(format!("shows the ETag {read} {when}, and answered {written} before"));
        }
        Ok(())
    }

    /// The keys of a listing, which must be in order and all after this one.
    pub(super) async fn listed(
        &self,
        prefix: &str,
        after: &str,
        limit: usize,
    ) -> Check<(Vec<String>, bool)> {
        let page = self.list(prefix, after, limit).await?;
        let keys: Vec<_> = page.entries.into_iter().map(|entry| entry.key).collect();
        if keys.iter().any(|key| key.as_str() <= after) {
            return broken(
                "lists keys at or before the place it was asked to start after (start-after)",
            );
        }
        if !keys.is_sorted_by(|one, next| one < next) {
            return broken("lists keys out of order");
        }
        Ok((keys, page.truncated))
    }
}

pub async fn creates_once(ask: &Asker) -> Check {
    let (key, first) = (ask.key("create"), ask.body("first"));
    let etag = ask.created(&key, &first).await?;
    for body in [ask.body("second"), first.clone()] {
        if let PutOutcome::Done { .. } = ask.create(Kind::Create, &key, body).await? {
            return broken("creates an object that exists already (it ignores If-None-Match)");
        }
    }
    ask.shows(&key, &first, &etag, "after a create that was refused").await
}

pub async fn replaces_the_current_etag(ask: &Asker) -> Check {
    let (key, first) = (ask.key("replace"), ask.body("first"));
    let etag = ask.created(&key, &first).await?;
    let body = ask.body("second");
    let etag = ask.replaced(&key, &body, &etag).await?;
    ask.shows(&key, &body, &etag, "after a replace").await
}

pub async fn refuses_a_stale_etag(ask: &Asker) -> Check {
    let key = ask.key("stale");
    let stale = ask.created(&key, &ask.body("first")).await?;
    let second = ask.body("second");
    let etag = ask.replaced(&key, &second, &stale).await?;
    let other = ask.created(&ask.key("stale-other"), &ask.body("other")).await?;
    for wrong in [stale, other] {
        let outcome = ask.replace(Kind::Replace, &key, ask.body("third"), &wrong).await?;
        if let PutOutcome::Done { .. } = outcome {
            return broken("replaces an object whose ETag does not match (it ignores If-Match)");
        }
    }
    ask.shows(&key, &second, &etag, "after a replace that was refused").await
}

pub async fn refuses_to_replace_what_is_missing(ask: &Asker) -> Check {
    let key = ask.key("missing");
    let etag = ask.created(&ask.key("missing-other"), &ask.body("other")).await?;
    let outcome = ask.replace(Kind::Replace, &key, ask.body("first"), &etag).await?;
    if let PutOutcome::Done { .. } = outcome {
        return broken("replaces an object that is not there (it ignores If-Match)");
    }
    match ask.read(&key).await? {
        None => Ok(()),
        Some(_) => broken("makes an object by a replace that it refused"),
    }
}

pub async fn reads_its_writes(ask: &Asker, rounds: u32) -> Check {
    for _ in 0..rounds {
        let (key, first, second) = (ask.key("read"), ask.body("first"), ask.body("second"));
        let etag = ask.created(&key, &first).await?;
        ask.shows(&key, &first, &etag, "after a create (read after write)").await?;
        let etag = ask.replaced(&key, &second, &etag).await?;
        ask.shows(&key, &second, &etag, "after a replace (read after write)").await?;
    }
    Ok(())
}

/// A follower that never sees a renewal takes a living leader for dead.
pub async fn shows_changes_to_a_poll(ask: &Asker) -> Check {
    let (key, first, second) = (ask.key("poll"), ask.body("first"), ask.body("second"));
    let old = ask.created(&key, &first).await?;
    // Some stores send the whole object again; that costs no more.
    match ask.poll(&key, Some(&old)).await? {
        GetOutcome::NotModified => {}
        GetOutcome::Found(object) if object.body == first => {}
        other => return broken(format!("answers a poll of an unchanged object with {other:?}")),
    }
    ask.replaced(&key, &second, &old).await?;
    match ask.poll(&key, Some(&old)).await? {
        GetOutcome::Found(object) if object.body == second => Ok(()),
        _ => broken("does not show a change to a poll (If-None-Match on a read)"),
    }
}

pub async fn lists_what_was_written(ask: &Asker) -> Check {
    let folder = ask.key("list");
    let mut written = Vec::new();
    for place in 0..LISTED {
        // Not in the order of the keys: 0, 3, 6, 9, 2, 5, …
        let key = format!("{folder}-{:03}", place * 3 % LISTED);
        ask.created(&key, &ask.body("listed")).await?;
        written.push(key);
        written.sort();
        let (listed, _) = ask.listed(&folder, "", PAGE).await?;
        if listed != written {
            let (shown, all) = (listed.len(), written.len());
            return broken(format!(
                "lists {shown} keys right after {all} were written (list after write)"
            ));
        }
    }
    Ok(())
}

pub async fn lists_from_a_place_and_in_pages(ask: &Asker) -> Check {
    let folder = ask.key("pages");
    let keys: Vec<_> = (0..7).map(|place| format!("{folder}-{place:03}")).collect();
    for key in keys.iter().rev() {
        ask.created(key, &ask.body("listed")).await?;
    }
    for (place, after) in keys.iter().enumerate() {
        let (listed, _) = ask.listed(&folder, after, PAGE).await?;
        if listed != keys[place + 1..] {
            return broken("does not list exactly the keys after the place it was asked to start");
        }
    }
    let (mut all, mut after) = (Vec::new(), String::new());
    loop {
        let (page, truncated) = ask.listed(&folder, &after, 3).await?;
        all.extend(page);
        if !truncated || all.len() > keys.len() {
            break;
        }
        match all.last() {
            Some(last) if *last != after => after.clone_from(last),
            _ => return broken("answers a page without a key, and says that more follow"),
        }
    }
    if all == keys { Ok(()) } else { broken("leaves keys out of a listing in pages") }
}

pub async fn forgets_what_was_deleted(ask: &Asker) -> Check {
    let folder = ask.key("delete");
    let keys: Vec<_> = (0..3).map(|place| format!("{folder}-{place:03}")).collect();
    let mut etags = Vec::new();
    for key in &keys {
        etags.push(ask.created(key, &ask.body("deleted")).await?);
    }
    // The second time it is missing, which counts as deleted.
    for _ in 0..2 {
        ask.delete(&keys[1..2]).await?;
        if ask.read(&keys[1]).await?.is_some() {
            return broken("shows an object that was deleted before");
        }
        let (listed, _) = ask.listed(&folder, "", PAGE).await?;
        if listed != [&keys[0][..], &keys[2]] {
            return broken("lists other keys than are left after a delete (list after delete)");
        }
    }
    let again = ask.body("again");
    let etag = ask.created(&keys[1], &again).await?;
    let outcome = ask.replace(Kind::Replace, &keys[1], ask.body("late"), &etags[1]).await?;
    if let PutOutcome::Done { .. } = outcome {
        return broken("replaces an object by an ETag from before its deletion");
    }
    ask.shows(&keys[1], &again, &etag, "after it was deleted and created again").await
}
