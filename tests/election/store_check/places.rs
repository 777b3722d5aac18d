//! Tests the store check with many candidates, under several prefixes, and under a prefix that
//! contains other elections.

use tenure::store::Page;
use tenure_testkit::one_write_a_second::OneWriteASecond;

use super::*;

/// Candidates of different layouts do not read each other's objects, so only the store check
/// detects a wrong layout. Before the fix, the check ran only for the first election of a store
/// value.
#[tokio::test(start_paused = true)]
async fn regression_each_election_of_a_store_value_detects_the_other_layout() {
    let world = World::new();
    let store: Arc<dyn Store> = Arc::new(world.store.clone());
    let on = |prefix: &str| tenure::Election::builder(Arc::clone(&store), prefix);
    let (single, files) = (tenure::Layout::SingleObject, tenure::Layout::EpochFiles);
    for (prefix, layout) in [("one", single), ("two", files)] {
        let election = on(prefix).layout(layout).build().unwrap();
        elect(&election).await.resign().await.unwrap();
    }
    for (prefix, layout, key) in [("one", files, "one/lock.json"), ("two", single, "two/lock-")] {
        let election = on(prefix).layout(layout).build().unwrap();
        let error =
            within(secs(60), election.campaign()).await.expect("the call ends").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
        assert!(error.to_string().contains(key), "{error}");
        let error = election.try_campaign().await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidInput, "{error}");
    }
}

/// Before the fix, all candidates checked the store with the same key, so the start of 24
/// candidates took 37 s.
#[tokio::test(start_paused = true)]
async fn regression_candidates_start_together_on_a_store_with_one_write_a_second_per_key() {
    let world = World::new();
    let store = Arc::new(Layered(OneWriteASecond::new(Arc::new(world.another_way()))));
    let election = |seed: u64| {
        let process = tenure_testkit::time::process(&world.clock, seed);
        let builder = tenure::Election::builder(store.clone(), "app").process(process);
        builder.name(format!("c{seed}")).build().unwrap()
    };
    let elections: Vec<_> = (0..24).map(election).collect();
    let attempts = join_all(elections.iter().map(|election| election.try_campaign()));
    let (took, attempts) = timed(attempts).await;
    let attempts: Vec<_> = attempts.into_iter().map(|attempt| attempt.expect("checked")).collect();
    let leads = |attempt: &&_| matches!(**attempt, tenure::CampaignOutcome::Elected(_));
    assert_eq!(attempts.iter().filter(leads).count(), 1);
    assert!(took < secs(15), "{took:?}");
}

/// A store that orders keys in listings by their parts between slashes, as a hierarchical namespace
/// of Azure does.
#[derive(Debug)]
struct ByParts(FaultStore);

#[async_trait]
impl Layer for ByParts {
    fn inner(&self) -> &dyn Store {
        &self.0
    }

    async fn list(&self, prefix: &str, after: &str, limit: usize) -> Result<Page, StoreError> {
        let mut page = self.0.list(prefix, "", 1_000).await?;
        page.entries.sort_by(|one, next| one.key.split('/').cmp(next.key.split('/')));
        page.entries.retain(|entry| entry.key.split('/').gt(after.split('/')));
        page.entries.truncate(limit);
        Ok(page)
    }
}

/// The prefix of this election contains the prefixes of other elections. Before the fix, the check
/// refused the store with "lists keys out of order".
#[tokio::test(start_paused = true)]
async fn regression_an_election_with_others_below_its_prefix_runs_in_a_hierarchical_namespace() {
    let world = World::new();
    for key in ["b/lock-0000000001.json", "b-c/lock-0000000001.json", "lock/x", "lock-x/y"] {
        world.create(key, r#"{"expired":true}"#).await;
    }
    let store = Arc::new(Layered(ByParts(world.another_way())));
    let process = tenure_testkit::time::process(&world.clock, 9);
    let election = tenure::Election::builder(store, "app").process(process).build().unwrap();
    let lead = elect(&election).await;
    assert_eq!(lead.epoch().get(), 1);
}
