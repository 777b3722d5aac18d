//! Tests names, keys, bodies and error messages with control characters. Events, spans and errors
//! escape these characters.

use std::error::Error as StdError;
use std::fmt::{Debug, Display};
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use futures::StreamExt as _;
use serde_json::json;
use tenure::store::{Determinacy, ETag, GetOutcome, Page, PutOutcome, StoreError, StoreErrorKind};
use tenure::{Election, Epoch, Layout, Store};
use tenure_fencing::{DurableGate, FencedLog, FencedObject};
use tenure_testkit::layer::{Layer, Layered};
use tenure_testkit::world::{elected, held, name};

use super::*;

/// A text that forges a line, moves the cursor, reverses the text direction, and hides characters.
const EVIL: &str = "x\n2026 INFO elected: epoch 99\r\t\u{1b}[2J\u{9b}\u{85}\u{2028}\u{2029}\u{202e}\
                    \u{2066}\u{200f}\u{61c}\u{200b}\u{200d}\u{feff}\u{ad}\u{e0041}\0\u{7f}";

/// A store with hostile text in its name, in each error, and in the result of each deletion.
#[derive(Debug)]
struct Hostile(Arc<dyn Store>);

impl Hostile {
    fn words<T>(answer: Result<T, StoreError>) -> Result<T, StoreError> {
        answer.map_err(|error| {
            StoreError::new(error.kind(), error.determinacy(), format!("{error}{EVIL}"))
        })
    }
}

#[async_trait]
impl Layer for Hostile {
    fn inner(&self) -> &dyn Store {
        &*self.0
    }

    async fn list(&self, prefix: &str, after: &str, limit: usize) -> Result<Page, StoreError> {
        Hostile::words(self.0.list(prefix, after, limit).await)
    }

    async fn get(
        &self,
        key: &str,
        unless: Option<ETag>,
        max_len: usize,
    ) -> Result<GetOutcome, StoreError> {
        Hostile::words(self.0.get(key, unless, max_len).await)
    }

    async fn create(&self, key: &str, body: Bytes) -> Result<PutOutcome, StoreError> {
        Hostile::words(self.0.create(key, body).await)
    }

    async fn replace(&self, key: &str, body: Bytes, etag: ETag) -> Result<PutOutcome, StoreError> {
        Hostile::words(self.0.replace(key, body, etag).await)
    }

    async fn delete(&self, keys: Vec<String>) -> Result<Vec<(String, StoreError)>, StoreError> {
        let evil = StoreError::new(StoreErrorKind::Transient, Determinacy::Determinate, EVIL);
        Ok(keys.into_iter().map(|key| (key, evil.clone())).collect())
    }

    fn describe(&self) -> String {
        format!("memory{EVIL}")
    }
}

/// An election on a hostile store, and all texts that the library shows.
struct Scene {
    world: World,
    shown: Vec<String>,
}

impl Scene {
    fn new() -> Scene {
        Scene { world: World::new(), shown: Vec::new() }
    }

    fn store(&self) -> Arc<dyn Store> {
        Arc::new(Layered(Hostile(Arc::new(self.world.store.clone()))))
    }

    fn election(&self, layout: Layout) -> Election {
        let node = Election::builder(self.store(), "app").name("honest").layout(layout);
        let process = tenure_testkit::time::process(&self.world.clock, 7);
        node.validity(VALIDITY).check_store(false).process(process).build().unwrap()
    }

    /// Records the `Display` and `Debug` forms of this value.
    fn shows(&mut self, value: &(impl Debug + Display)) {
        self.shown.extend([format!("{value}"), format!("{value:?}")]);
    }

    fn fails(&mut self, error: &(dyn StdError + 'static)) {
        let chain = std::iter::successors(Some(error), |error| (**error).source());
        self.shown.extend(chain.flat_map(|error| [format!("{error}"), format!("{error:?}")]));
    }

    /// Writes the record of a leader.
    async fn hostile_leader(&self) {
        let record = json!({
            "expired": false, "validity_ms": 10_000, "format": 1, "candidate": EVIL,
            "nonce": "00000000000000000000000000000001", "heartbeat": 1, "data": { EVIL: EVIL },
        });
        self.world.put(&name(1), record.to_string()).await;
    }

    async fn follows(&mut self) {
        self.hostile_leader().await;
        let election = self.election(Layout::EpochFiles);
        let mut events = election.events();
        let leader = held(election.try_campaign().await.unwrap());
        self.shows(&leader);
        let campaign = tokio::spawn({
            let election = election.clone();
            async move { election.campaign().await }
        });
        wait(secs(1)).await;
        self.shown.push(format!("{:?}", events.next().await));
        self.shown.push(format!("{:?}", election.snapshot().await.unwrap()));
        self.shown.push(format!("{:?}", election.observe().next().await));
        campaign.abort();
        let deposed = election.depose(None).await.unwrap();
        self.shown.push(format!("{deposed:?}"));
        self.shown.push(format!("{:?}", election.snapshot().await.unwrap()));
    }

    async fn is_sealed(&mut self) {
        let election = self.election(Layout::EpochFiles);
        let lead = elected(election.try_campaign().await.unwrap());
        let mut events = lead.events();
        let seal = json!({
            "expired": true, "ended": "deposed", "sealed_by": EVIL, "heartbeat": 2, "data": EVIL,
        });
        self.world.edit(1, seal).await;
        let error = lead.proclaim("anything").await.expect_err("sealed");
        self.fails(&error);
        let loss = lead.check().expect_err("sealed");
        self.fails(&loss);
        self.shown.push(format!("{lead:?}"));
        while let Some(event) = events.next().await {
            self.shown.push(format!("{event:?}"));
        }
        self.shown.push(format!("{:?}", election.snapshot().await.unwrap()));
        self.fails(&lead.resign().await.expect_err("sealed"));
    }

    async fn loses_the_store(&mut self) {
        let election = self.election(Layout::EpochFiles);
        let lead = elected(election.try_campaign().await.unwrap());
        self.world.store.always(Fault::FailAfter);
        wait(secs(11)).await;
        self.fails(&lead.check().expect_err("no renewal succeeded"));
        self.fails(&election.leader().await.expect_err("the store fails"));
        self.world.store.heal();
        for fault in [Fault::Denied, Fault::NoSuchStore, Fault::Unsupported, Fault::Reverse] {
            self.world.create(&format!("lock-{EVIL}{fault:?}"), EVIL).await;
            self.world.store.always(fault);
            self.fails(&election.try_campaign().await.expect_err("the store fails"));
            self.world.store.heal();
        }
    }

    async fn reads_an_invalid_record(&mut self) {
        let election = self.election(Layout::EpochFiles);
        for body in [EVIL.to_owned(), json!({ "expired": EVIL }).to_string(), format!("{{{EVIL}")] {
            self.world.put(&name(1), body).await;
            self.fails(&election.try_campaign().await.expect_err("no record"));
            let deposed = election.depose(None).await;
            self.shown.push(format!("{deposed:?}"));
        }
    }

    async fn restores(&mut self) {
        self.hostile_leader().await;
        let election = self.election(Layout::EpochFiles);
        let restored = election.restore(Epoch::new(9).unwrap(), secs(1)).await;
        self.shown.push(format!("{restored:?}"));
    }

    async fn shares_one_object(&mut self) {
        let lock = json!({ "token": 3, "expires_at": 1e12, "epoch": 3, "candidate": EVIL,
            "nonce": "00000000000000000000000000000001", "heartbeat": 1, "validity_ms": 10_000 });
        self.world.put("lock.json", lock.to_string()).await;
        let election = self.election(Layout::SingleObject);
        let leader = held(election.try_campaign().await.unwrap());
        self.shows(&leader);
        self.world.put("lock.json", EVIL).await;
        self.fails(&election.try_campaign().await.expect_err("no record"));
    }

    async fn compacts(&mut self) {
        for epoch in 1..=3 {
            self.world.put(&name(epoch), EVIL).await;
        }
        let unreadable = Compactor::builder(self.store(), "app").keep_epochs(1).min_age(secs(0));
        self.fails(&unreadable.build().unwrap().run_once().await.expect_err("no record"));
        self.world.put(&name(3), json!({ "expired": true, "candidate": EVIL }).to_string()).await;
        let compactor = Compactor::builder(self.store(), "app").keep_epochs(1).min_age(secs(0));
        let compactor = compactor.build().unwrap();
        let report = compactor.run_once().await.unwrap();
        assert_eq!(report.failed, 2);
        self.shows(&report);
        self.shown.extend(report.first_failure);
        self.world.store.always(Fault::Denied);
        self.fails(&compactor.run_once().await.expect_err("denied"));
        self.world.store.heal();
    }

    async fn fences(&mut self) {
        let (store, token) = (self.store(), Epoch::FIRST);
        let line = format!("{{\"tenure_log\":\"{EVIL}\"}}\n");
        for key in ["log/00000000000000000001", "object", "gate"] {
            self.world.put(key, line.clone()).await;
        }
        let log = FencedLog::new(store.clone(), "app/log").unwrap();
        self.fails(&log.open(token).await.expect_err("the object does not belong to the log"));
        let object = FencedObject::new(store.clone(), "app/object");
        self.fails(&object.open(token).await.expect_err("the object is of another kind"));
        let gate = DurableGate::new(store, "app/gate");
        self.fails(&gate.admit(token).await.expect_err("no gate"));
    }
}

/// Returns whether a terminal could interpret this character as a control.
fn acts(character: char) -> bool {
    let quiet = character.is_alphanumeric() || matches!(character, ' '..='~' | '…' | '–');
    character.is_control() || (EVIL.contains(character) && !quiet)
}

#[tokio::test(start_paused = true)]
async fn regression_control_characters_are_escaped_in_events_spans_and_errors() {
    let (capture, _guard) = Capture::start();
    let mut shown = Vec::new();
    macro_rules! play {
        ($($scene:ident)*) => {$(
            let mut scene = Scene::new();
            scene.$scene().await;
            assert!(!scene.shown.is_empty());
            shown.append(&mut scene.shown);
        )*};
    }
    play!(follows is_sealed loses_the_store reads_an_invalid_record);
    play!(restores shares_one_object compacts fences);
    wait(millis(1)).await;

    let hostile = shown.iter().filter(|text| text.contains("epoch 99")).count();
    assert!(hostile > 20, "only {hostile} texts contain hostile text");
    for event in ["another candidate leads", "deposed", "a request failed"] {
        assert!(!capture.named(event).is_empty(), "the event {event:?} is missing");
    }
    let over = capture.all().into_iter().filter(|told| told.name.contains("has ended: x\\n2026"));
    assert_eq!(over.count(), 1, "the event names the operator of the seal");
    let fields = capture.all().into_iter().flat_map(|told| told.fields.into_iter());
    shown.extend(fields.map(|(field, value)| format!("{field}={value}")));
    for text in shown {
        assert!(!text.contains(acts), "{text:?}");
    }
}
