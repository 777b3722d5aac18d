//! The task of `tenure ui` for one store. The task searches for elections, groups and jobs, and
//! follows them.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use serde::Serialize;
use tenure::store::Store;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::{AbortHandle, JoinSet};

use super::board::Board;
use super::counted_store::CountedStore;
use super::{election, group, job};
use crate::cost::prices;
use crate::output::print::plain;
use crate::process::timer::pause;
use crate::store::find::{Found, FoundKind, Search, no_answer, search, within};
use crate::store::open::IfMissing;
use crate::store::patience::{caught, on_a_thread};
use crate::store::url::{self, StoreUrl};
use crate::store::urls::{OpenedStores, StoreUrls};

/// Maximum number of elections, groups and jobs that the page follows, in all stores together.
pub const MOST_FOLLOWED: usize = 500;
/// Interval of the searches for new elections, groups and jobs.
const SEARCH_EVERY: Duration = Duration::from_secs(60);
/// Maximum number of names in the field `others` of a store's card.
const MOST_NAMED: usize = 1_000;
/// Interval of the searches while the page follows no election, group or job of the store.
const SEARCH_AGAIN: Duration = Duration::from_secs(5);
/// Pause before a retry after a failure, such as a failed search.
const RETRY_EVERY: Duration = Duration::from_secs(5);

/// The card of one store on the page of `tenure ui`.
#[derive(Debug, Serialize)]
struct StoreCard<'a> {
    kind: &'static str,
    store: &'a str,
    /// The error of the last search in the store.
    error: Option<String>,
    followed: usize,
    not_followed: usize,
    /// The names of elections, groups and jobs that the page does not follow, at most `MOST_NAMED`.
    others: Vec<String>,
    /// False if the search ended at its maximum number of LISTs.
    complete: bool,
}

/// An election, a group or a job that the page follows, and the values for the task that polls it.
#[derive(Debug, Clone)]
pub struct Place {
    pub board: Arc<Board>,
    /// The store, or all stores of an election across stores.
    pub stores: Vec<Arc<dyn Store>>,
    pub prefix: String,
    /// Name that the page shows. It consists of the URL of the store and the prefix of the
    /// election, group or job.
    pub name: String,
    /// Key of the card on the board.
    pub id: String,
    pub poll: Duration,
}

/// Follows the elections, groups and jobs below this URL until the future is dropped. If several
/// URLs are given, follows the election across these stores. Each election, group and job needs a
/// permit of `slots`. Shows each error on a card, and retries.
pub async fn follow(
    number: usize,
    urls: StoreUrls,
    poll: Duration,
    board: Arc<Board>,
    slots: Arc<Semaphore>,
) {
    let shown = plain(&urls.to_string());
    let id = format!("{number:03}");
    let failed = |error: String| StoreCard {
        kind: "store",
        store: &shown,
        error: Some(plain(&error)),
        followed: 0,
        not_followed: 0,
        others: Vec::new(),
        complete: true,
    };
    let OpenedStores { stores, prefix } = loop {
        match within(urls.open(IfMissing::Refuse)).await {
            Some(Ok(opened)) => break opened,
            Some(Err(failure)) => board.show(&id, &failed(failure.why)),
            None => board.show(&id, &failed(no_answer().to_string())),
        }
        pause(RETRY_EVERY).await;
    };
    let counted = |(store, url): (Arc<dyn Store>, &StoreUrl)| {
        let requests = Arc::default();
        board.count(Arc::clone(&requests), prices::of(url.place()));
        Arc::new(CountedStore { store, requests }) as Arc<dyn Store>
    };
    let mut stores: Vec<_> = stores.into_iter().zip(urls.urls()).map(counted).collect();
    if urls.are_several() {
        let names =
            urls.urls().iter().map(|url| name_of(&plain(&url.to_string()), &prefix, &prefix));
        let name = names.collect::<Vec<_>>().join(" ");
        let slot = slots.acquire_owned().await.expect("the semaphore is never closed");
        return follow_place(
            FoundKind::EpochFiles,
            Place { board, stores, prefix, name, id, poll },
            slot,
        )
        .await;
    }
    let (store, url) = (stores.remove(0), &urls.urls()[0]);
    let mut followers = Followers { tasks: JoinSet::new(), running: BTreeMap::new(), slots };
    loop {
        match search(&store, &prefix).await {
            Ok(search) => {
                let place = |found: &Found, id| Place {
                    board: Arc::clone(&board),
                    stores: vec![Arc::clone(&store)],
                    name: name_of(&shown, &prefix, &found.prefix),
                    prefix: found.prefix.clone(),
                    id,
                    poll,
                };
                let mut others = followers.update(&search, &id, place);
                let card = StoreCard {
                    error: None,
                    followed: followers.running.len(),
                    not_followed: others.len(),
                    others: others.drain(..others.len().min(MOST_NAMED)).collect(),
                    complete: search.complete,
                    ..failed(String::new())
                };
                board.show(&id, &card);
                let wait = if card.followed == 0 { SEARCH_AGAIN } else { SEARCH_EVERY };
                tokio::select! {
                    () = pause(wait) => {}
                    () = vanished(url, poll) => {}
                }
            }
            Err(error) => {
                let followed = followers.running.len();
                board.show(&id, &StoreCard { followed, ..failed(error.to_string()) });
                pause(RETRY_EVERY).await;
            }
        }
    }
}

/// Waits until the directory of the store is deleted. Waits forever if the store is not a
/// directory. A check of a directory costs no request, so this function checks at the poll
/// interval. The page then shows the deletion before the next search.
async fn vanished(url: &StoreUrl, poll: Duration) {
    let url::Place::Dir { path, .. } = url.place() else { return std::future::pending().await };
    loop {
        pause(poll.min(SEARCH_EVERY)).await;
        let path = path.clone();
        if let Ok(Ok(false)) = on_a_thread(move || path.try_exists()).await {
            return;
        }
    }
}

/// Returns the URL of an election, a group or a job, escaped for the page.
fn name_of(url: &str, searched: &str, prefix: &str) -> String {
    let searched = searched.trim_end_matches('/');
    let rest = prefix.strip_prefix(searched).unwrap_or(prefix).trim_start_matches('/');
    // The name omits options of the URL such as `?sse=AES256`, because they concern only writers.
    let url = url.split_once('?').map_or(url, |(url, _)| url).trim_end_matches('/');
    if rest.is_empty() { url.to_owned() } else { plain(&format!("{url}/{rest}")) }
}

/// The tasks that follow the elections, groups and jobs of one store.
struct Followers {
    tasks: JoinSet<()>,
    running: BTreeMap<Found, AbortHandle>,
    /// One permit for each election, group or job that may still be followed. The followers of all
    /// stores share these permits.
    slots: Arc<Semaphore>,
}

impl Followers {
    /// Starts followers for new elections, groups and jobs, and ends the followers of deleted ones.
    /// If the maximum number of followers is reached, returns the names of the rest.
    fn update(
        &mut self,
        search: &Search,
        id: &str,
        place: impl Fn(&Found, String) -> Place,
    ) -> Vec<String> {
        while self.tasks.try_join_next().is_some() {}
        if search.complete {
            self.running.retain(|found, task| {
                let exists = search.found.contains(found);
                if !exists {
                    task.abort();
                }
                exists
            });
        }
        let mut others = Vec::new();
        for found in &search.found {
            if self.running.contains_key(found) {
                continue;
            }
            let id = format!("{id}/{}/{:?}", found.prefix, found.kind);
            let place = place(found, id);
            let Ok(slot) = Arc::clone(&self.slots).try_acquire_owned() else {
                others.push(place.name);
                continue;
            };
            let task = self.tasks.spawn(follow_place(found.kind, place, slot));
            self.running.insert(found.clone(), task);
        }
        others
    }
}

/// The card of a followed election, group or job. The drop of this value at the end of the task
/// removes the card.
struct ShownCard {
    board: Arc<Board>,
    id: String,
}

impl Drop for ShownCard {
    fn drop(&mut self) {
        self.board.remove(&self.id);
    }
}

/// Follows one election, group or job, and starts again after a panic. The end of this task returns
/// the permit `_slot`, and then another election, group or job can be followed.
async fn follow_place(kind: FoundKind, place: Place, _slot: OwnedSemaphorePermit) {
    let _card = ShownCard { board: Arc::clone(&place.board), id: place.id.clone() };
    loop {
        let place = place.clone();
        let followed = async {
            match kind.layout() {
                Some(layout) => election::follow(place, layout).await,
                None if kind == FoundKind::Group => group::follow(place).await,
                None => job::follow(place).await,
            }
        };
        caught(followed).await;
        pause(RETRY_EVERY).await;
    }
}

#[cfg(test)]
mod tests {
    use tenure::store::MemoryStore;

    use super::*;

    fn found(prefixes: &[&str]) -> Search {
        let job = |prefix: &&str| Found { prefix: (*prefix).to_owned(), kind: FoundKind::Job };
        Search { found: prefixes.iter().map(job).collect(), complete: true }
    }

    /// Before the fix, the limit of followed elections, groups and jobs applied to each store
    /// separately. So several stores together could exceed the limit of the page.
    #[tokio::test]
    async fn regression_all_stores_share_the_limit_of_the_page() {
        let slots = Arc::new(Semaphore::new(3));
        let board = Arc::new(Board::new(false, Duration::ZERO));
        let store: Arc<dyn Store> = Arc::new(MemoryStore::new());
        let place = |found: &Found, id| Place {
            board: Arc::clone(&board),
            stores: vec![Arc::clone(&store)],
            prefix: found.prefix.clone(),
            name: found.prefix.clone(),
            id,
            poll: Duration::from_secs(5),
        };
        let new = || Followers {
            tasks: JoinSet::new(),
            running: BTreeMap::new(),
            slots: Arc::clone(&slots),
        };
        let (mut one, mut two) = (new(), new());
        assert!(one.update(&found(&["a", "b"]), "0", place).is_empty());
        assert_eq!(two.update(&found(&["c", "d", "e"]), "1", place), ["d", "e"]);
        one.update(&found(&["b"]), "0", place);
        // The task that followed `a` ends, and frees its slot.
        while slots.available_permits() == 0 {
            tokio::task::yield_now().await;
        }
        assert_eq!(two.update(&found(&["c", "d", "e"]), "1", place), ["e"]);
        assert_eq!((one.running.len(), two.running.len()), (1, 2));
    }
}
