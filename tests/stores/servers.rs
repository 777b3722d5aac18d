//! Tests whether third-party servers pass the suite, and whether elections accept them. Also runs
//! races during which parts of a server are killed. Each test requires a server, which a script
//! starts:
//!
//! ```sh
//! scripts/servers/ceph.sh -- cargo test --test stores the_servers_behaviour_is_reported -- --ignored --nocapture
//! ```
#![cfg(feature = "s3")]

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tenure::store::{GetOutcome, PutOutcome, Store};
use tenure::{CampaignOutcome, Election, ErrorKind, Process};
use tenure_testkit::{conformance, environment};
use tokio::sync::Barrier;
use tokio::task::JoinSet;

use tenure_testkit::harm;

const WRITERS: usize = 32;

fn election(store: &Arc<dyn Store>, prefix: &str, name: &str) -> Election {
    let builder = Election::builder(Arc::clone(store), prefix.trim_end_matches('/'));
    builder.name(name).process(Process::system()).build().expect("the settings are valid")
}

/// A test for servers such as s3rver, which ignore conditions.
#[tokio::test]
#[ignore = "needs a server: scripts/servers/s3rver.sh -- cargo test --test stores the_store_is_refused -- --ignored"]
async fn the_store_is_refused() {
    let store = environment::plain_store();
    let election = election(&store, &environment::prefix("refused"), "a");
    let error = match election.try_campaign().await {
        Ok(attempt) => panic!("elections accept the store: {attempt:?}"),
        Err(error) => error,
    };
    println!("{error}");
    assert_eq!(error.kind(), ErrorKind::UnsafeStore, "{error}");
    assert!(
        error.to_string().contains(&store.describe()),
        "the error does not name the store: {error}"
    );
}

/// A test for servers such as ministack, moto and Ceph, on which elections run without special
/// settings.
#[tokio::test]
#[ignore = "needs a server: scripts/servers/ceph.sh -- cargo test --test stores the_store_is_accepted -- --ignored"]
async fn the_store_is_accepted() {
    let store = environment::plain_store();
    let prefix = environment::prefix("taken");
    for epoch in 1..=3 {
        let attempt = election(&store, &prefix, "a").try_campaign().await;
        let CampaignOutcome::Elected(leadership) = attempt.expect("the store is accepted") else {
            panic!("not elected")
        };
        assert_eq!(leadership.epoch().get(), epoch);
        let rival = election(&store, &prefix, "b").try_campaign().await;
        let CampaignOutcome::Held(leader) = rival.expect("the store is accepted") else {
            panic!("two leaders")
        };
        assert_eq!(leader.name(), "a");
        leadership.proclaim("here").await.expect("renewed");
        leadership.resign().await.expect("resigned");
    }
}

/// A test for servers such as s3s-fs, which check the conditions of a single writer, but let
/// several concurrent writers win. The races of the conformance suite detect this behaviour, but
/// the store check of elections does not.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
#[ignore = "needs a server: scripts/servers/s3s-fs.sh -- cargo test --test stores only_races_detect_the_fault -- --ignored"]
async fn only_races_detect_the_fault() {
    let (store, can) = environment::server();
    let attempt = election(&store, &environment::prefix("taken"), "a").try_campaign().await;
    assert!(matches!(attempt, Ok(CampaignOutcome::Elected(_))), "{attempt:?}");
    let results = conformance::report(store, &environment::prefix("races"), &can).await;
    for race in ["create-race", "replace-race"] {
        let (_, result) = results.iter().find(|(name, _)| *name == race).expect("a check");
        let words = result.as_ref().expect_err("several writers win");
        assert!(words.contains(" winners: "), "{race} fails for another reason: {words}");
    }
}

/// Prints the results for a line of docs/reference/stores.md.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
#[ignore = "needs a server: scripts/servers/moto.sh -- cargo test --test stores the_servers_behaviour_is_reported -- --ignored"]
async fn the_servers_behaviour_is_reported() {
    let (store, can) = environment::server();
    println!("create race: {}", race(&store, Race::Create, can.race_rounds).await);
    println!("replace race: {}", race(&store, Race::Replace, can.race_rounds).await);
    println!("conditional delete: {}", conditional_delete().await);
    println!("dates and ETags: {}", dates_and_etags(&store).await);
    let prefix = environment::prefix("suite");
    for (name, result) in conformance::report(store, &prefix, &can).await {
        let result = result.map_or_else(|words| format!("FAILS: {words}"), |()| "holds".to_owned());
        println!("suite, {name}: {result}");
    }
    let store = environment::plain_store();
    match election(&store, &environment::prefix("check"), "a").try_campaign().await {
        Ok(_) => println!("check of the store: accepts it"),
        Err(error) => println!("check of the store: {error} ({:?})", error.kind()),
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Race {
    Create,
    Replace,
}

/// Runs `rounds` races. In each race, all writers start at the same time. Returns a summary.
async fn race(store: &Arc<dyn Store>, race: Race, rounds: usize) -> String {
    let prefix = environment::prefix("race");
    let (mut worst, mut unsafe_rounds) = (0, 0);
    let mut losers = BTreeMap::<String, usize>::new();
    for round in 0..rounds {
        let key = format!("{prefix}{round}");
        let etag = match race {
            Race::Create => None,
            Race::Replace => match store.create(&key, "nobody".into()).await {
                Ok(PutOutcome::Done { etag }) => etag,
                other => return format!("the call failed: {other:?}"),
            },
        };
        let barrier = Arc::new(Barrier::new(WRITERS));
        let mut writers = JoinSet::new();
        for writer in 0..WRITERS {
            let (store, barrier) = (Arc::clone(store), Arc::clone(&barrier));
            let (key, etag) = (key.clone(), etag.clone());
            writers.spawn(async move {
                barrier.wait().await;
                match etag {
                    None => store.create(&key, format!("{writer}").into()).await,
                    Some(etag) => store.replace(&key, format!("{writer}").into(), etag).await,
                }
            });
        }
        let mut winners = 0;
        for outcome in writers.join_all().await {
            match outcome {
                Ok(PutOutcome::Done { .. }) => winners += 1,
                Ok(other) => *losers.entry(format!("{other:?}")).or_default() += 1,
                Err(error) => {
                    let words = error.to_string();
                    // Each message begins with the key, and each round has another key. So remove
                    // the key, in order to count equal messages together.
                    let words = words.split_once(": ").map_or(&*words, |(_, words)| words);
                    *losers.entry(words.to_owned()).or_default() += 1;
                }
            }
        }
        worst = worst.max(winners);
        unsafe_rounds += usize::from(winners > 1);
    }
    format!(
        "several winners in {unsafe_rounds} of {rounds} rounds, at most {worst}; losers: {losers:?}"
    )
}

async fn conditional_delete() -> String {
    let client = environment::client(&environment::endpoints()[0]);
    let (bucket, key) = (environment::bucket(), environment::prefix("delete") + "a");
    let put = client.put_object().bucket(&bucket).key(&key).body(vec![b'x'].into()).send().await;
    if let Err(error) = put {
        return format!("the object was not created: {error:?}");
    }
    let wrong = "\"00000000000000000000000000000000\"";
    let answer = client.delete_object().bucket(&bucket).key(&key).if_match(wrong).send().await;
    let answer = match &answer {
        Ok(_) => "a success".to_owned(),
        Err(error) => match error.raw_response() {
            Some(raw) => raw.status().to_string(),
            None => format!("{error:?}"),
        },
    };
    let left = client.head_object().bucket(&bucket).key(&key).send().await.is_ok();
    let left = if left { "not deleted" } else { "deleted" };
    format!("with a wrong ETag answered {answer}, the object is {left}")
}

async fn dates_and_etags(store: &Arc<dyn Store>) -> String {
    let prefix = environment::prefix("dates");
    let key = format!("{prefix}a");
    let written = store.create(&key, "x".into()).await;
    let (object, page) = (store.get(&key, None, 9).await, store.list(&prefix, "", 9).await);
    let (Ok(GetOutcome::Found(object)), Ok(page)) = (object, page) else {
        return format!("the object was not created: {written:?}");
    };
    let listed = page.entries.first();
    format!(
        "object {:?}, {}, Date {:?}; in a listing {:?}, {:?}, Date {:?}",
        object.last_modified,
        object.etag,
        object.served_at,
        listed.and_then(|entry| entry.last_modified),
        listed.and_then(|entry| entry.etag.as_ref()),
        page.served_at
    )
}

/// Runs races through all gateways while OSDs and gateways are killed one after another.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
#[ignore = "needs Ceph: scripts/servers/ceph.sh -- cargo test --test stores races_while_parts_are_killed -- --ignored"]
async fn races_while_parts_are_killed() {
    let (store, can) = environment::server();
    let prefix = environment::prefix("harmed");
    let mut harm = harm::Harm::of_the_cluster();
    let mut killed = Vec::new();
    let races = conformance::races(store, &prefix, can.race_rounds);
    tokio::pin!(races);
    loop {
        tokio::select! {
            () = &mut races => break,
            () = pause(Duration::from_secs(8)) => killed.push(harm.kill_the_next()),
        }
    }
    println!("killed: {killed:?}");
    for kind in ["osd", "gateway"] {
        assert!(
            killed.iter().any(|name| name.starts_with(kind)),
            "no {kind} was killed in time: raise TENURE_RACE_ROUNDS"
        );
    }
}

/// Repeats the whole suite while OSDs and gateways are killed one after another. If a call in a
/// check fails, the check proves nothing and runs again. If a call gets a wrong answer, the check
/// fails.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
#[ignore = "needs Ceph: scripts/servers/ceph.sh -- cargo test --test stores suite_while_parts_are_killed -- --ignored"]
async fn suite_while_parts_are_killed() {
    let (store, can) = environment::server();
    let mut harm = harm::Harm::of_the_cluster();
    let mut killed = BTreeMap::<&str, usize>::new();
    let mut held = BTreeMap::<&str, usize>::new();
    let mut undecided = BTreeMap::<&str, usize>::new();
    let mut rounds = 0;
    while rounds < 3 || killed.len() < harm::PARTS.len() || held.len() < conformance::CHECKS {
        assert!(rounds < 30, "held {held:?}, undecided {undecided:?}, killed {killed:?}");
        rounds += 1;
        let prefix = environment::prefix("harmed");
        let suite = conformance::report(Arc::clone(&store), &prefix, &can);
        tokio::pin!(suite);
        let results = loop {
            tokio::select! {
                results = &mut suite => break results,
                () = pause(Duration::from_secs(8)) => {
                    *killed.entry(harm.kill_the_next()).or_default() += 1;
                }
            }
        };
        for (check, result) in results {
            match result {
                Ok(()) => *held.entry(check).or_default() += 1,
                Err(words) if words.contains("Transient, ") => {
                    println!("round {rounds}, undecided: {words}");
                    *undecided.entry(check).or_default() += 1;
                }
                Err(words) => panic!("round {rounds}: {words}"),
            }
        }
    }
    println!("{rounds} rounds; held: {held:?}; undecided: {undecided:?}; killed: {killed:?}");
}

#[allow(clippy::disallowed_methods, reason = "real servers take real time")]
async fn pause(time: Duration) {
    tokio::time::sleep(time).await;
}
