//! Tests the spans and events of the library, their parents and their fields.

mod hostile;

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::{Arc, Mutex};

use serde_json::json;
use tenure::Compactor;
use tenure_testkit::fault_store::{Call, Fault};
use tenure_testkit::time::{millis, secs, wait};
use tenure_testkit::world::{VALIDITY, World, elect};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Instrument as _, Level, Subscriber};
use tracing_subscriber::layer::{Context, Layer, SubscriberExt as _};
use tracing_subscriber::registry::LookupSpan;

/// A span or an event. An event ends immediately.
#[derive(Debug, Clone, Default)]
struct Told {
    name: String,
    level: Option<Level>,
    /// Index of the parent span in the list of all captured spans and events.
    parent: Option<usize>,
    follows: Option<usize>,
    fields: BTreeMap<&'static str, String>,
    /// Number of spans that had ended when this span ended.
    ended: Option<usize>,
}

#[derive(Clone, Default)]
struct Capture(Arc<Mutex<Vec<Told>>>);

/// Index of a span in the list of all captured spans and events.
struct Place(usize);

impl Visit for Told {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        self.fields.insert(field.name(), format!("{value:?}"));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        self.fields.insert(field.name(), value.to_owned());
    }
}

impl Capture {
    /// Captures the spans and events of this thread from now on.
    fn start() -> (Capture, impl Drop) {
        let capture = Capture::default();
        // If only one subscriber exists, and a thread without this subscriber reaches a call site
        // first, tracing disables the call site permanently. So this function also creates a second
        // subscriber, which accepts everything.
        static OTHER: std::sync::OnceLock<tracing::Dispatch> = std::sync::OnceLock::new();
        OTHER.get_or_init(|| tracing::Dispatch::new(tracing_subscriber::registry()));
        let subscriber = tracing_subscriber::registry().with(capture.clone());
        let guard = tracing::subscriber::set_default(subscriber);
        (capture, guard)
    }

    fn all(&self) -> Vec<Told> {
        self.0.lock().unwrap().clone()
    }

    fn named(&self, name: &str) -> Vec<Told> {
        self.all().into_iter().filter(|told| told.name == name).collect()
    }

    #[track_caller]
    fn one(&self, name: &str) -> Told {
        let all = self.named(name);
        let [one] = &all[..] else { panic!("{} of {name}: {all:?}", all.len()) };
        one.clone()
    }

    /// Returns the names of the spans that enclose this span or event, from the inside out.
    fn above(&self, told: &Told) -> Vec<String> {
        let all = self.all();
        let up = |told: &Told| told.parent.map(|parent| all[parent].clone());
        std::iter::successors(up(told), up).map(|told| told.name).collect()
    }

    /// Returns the request spans that are descendants of spans with this name. Each element has the
    /// form `op outcome`.
    fn requests_below(&self, name: &str) -> Vec<String> {
        let requests = self.named("request").into_iter();
        let below = requests.filter(|told| self.above(told).iter().any(|above| above == name));
        below.map(|told| format!("{} {}", told.fields["op"], told.fields["outcome"])).collect()
    }
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Capture {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let span = context.span(id).expect("the span is new");
        let parent = span.parent().map(|parent| parent.extensions().get::<Place>().unwrap().0);
        let (name, level) = (span.name().to_owned(), Some(*span.metadata().level()));
        let mut told = Told { name, level, parent, ..Told::default() };
        attributes.record(&mut told);
        let mut all = self.0.lock().unwrap();
        span.extensions_mut().insert(Place(all.len()));
        all.push(told);
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        let place = context.span(id).unwrap().extensions().get::<Place>().unwrap().0;
        values.record(&mut self.0.lock().unwrap()[place]);
    }

    fn on_follows_from(&self, id: &Id, follows: &Id, context: Context<'_, S>) {
        let place = |id| context.span(id).unwrap().extensions().get::<Place>().unwrap().0;
        let (place, follows) = (place(id), place(follows));
        self.0.lock().unwrap()[place].follows = Some(follows);
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let parent = context.event_span(event);
        let parent = parent.map(|parent| parent.extensions().get::<Place>().unwrap().0);
        let level = Some(*event.metadata().level());
        let mut told = Told { level, parent, ..Told::default() };
        event.record(&mut told);
        told.name = told.fields.get("message").cloned().unwrap_or_default();
        self.0.lock().unwrap().push(told);
    }

    fn on_close(&self, id: Id, context: Context<'_, S>) {
        let place = context.span(&id).unwrap().extensions().get::<Place>().unwrap().0;
        let mut all = self.0.lock().unwrap();
        let before = all.iter().filter(|told| told.ended.is_some()).count();
        all[place].ended = Some(before);
    }
}

#[track_caller]
fn assert_of(told: &Told, candidate: &str, epoch: u64, outcome: &str) {
    let field = |name| told.fields.get(name).map(String::as_str);
    let epoch = epoch.to_string();
    let expected =
        [("election", "app/"), ("candidate", candidate), ("epoch", &epoch), ("outcome", outcome)];
    for (name, value) in expected {
        assert_eq!(field(name), Some(value), "{name} of {told:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_campaign_and_its_leadership_are_below_the_span_of_the_application() {
    let (capture, _guard) = Capture::start();
    let world = World::new();
    let election = world.node("a").build().unwrap();
    let application = tracing::info_span!("application");
    let lead = elect(&election).instrument(application.clone()).await;
    drop(application);

    let campaign = capture.one("campaign");
    assert_of(&campaign, "a", 1, "elected");
    assert_eq!(
        (campaign.level, capture.above(&campaign)),
        (Some(Level::INFO), names("application"))
    );
    assert!(campaign.ended.is_some(), "the span ends with the election");
    assert_eq!(capture.requests_below("campaign"), ["list listed", "create done", "list listed"]);
    assert_eq!(capture.above(&capture.one("elected")), names("campaign application"));

    wait(secs(4)).await;
    let renewal = capture.one("renewal");
    assert_of(&renewal, "a", 1, "renewed");
    assert_eq!(renewal.level, Some(Level::DEBUG));
    assert_eq!(capture.above(&renewal), names("leadership application"));
    assert_eq!(capture.requests_below("renewal"), ["renew done"]);
    assert!(renewal.ended.is_some(), "the span ends with its last request");

    lead.resign().await.unwrap();
    wait(millis(1)).await;
    let leadership = capture.one("leadership");
    assert_of(&leadership, "a", 1, "resigned");
    assert_eq!(leadership.level, Some(Level::INFO));
    assert_eq!(capture.above(&leadership), names("application"));
    assert_eq!(capture.all()[leadership.follows.unwrap()].name, "campaign");
    assert!(leadership.ended > renewal.ended && renewal.ended > campaign.ended);
    assert_eq!(capture.requests_below("leadership"), ["renew done", "seal done"]);
    assert_eq!(capture.one("the leadership has ended: resigned").level, Some(Level::INFO));
}

#[tokio::test(start_paused = true)]
async fn a_renewal_is_one_span_with_all_its_requests() {
    let (capture, _guard) = Capture::start();
    let world = World::new();
    let lead = world.leader("a").await;
    // The first renewal takes effect, but its answer is an error. So the store refuses the second
    // attempt, and the leader reads the record back.
    world.store.on(Call::Replace).fault(Fault::FailAfter);
    wait(secs(5)).await;
    assert!(lead.check().is_ok());
    let renewal = capture.one("renewal");
    assert_of(&renewal, "a", 1, "renewed");
    let below = capture.requests_below("renewal");
    assert_eq!(below, ["renew unknown", "renew refused", "get found"]);
    let failed = capture.one("a request failed");
    assert_eq!(failed.level, Some(Level::WARN));
    assert_eq!(failed.fields["outcome"], "unknown");
    assert_eq!(capture.above(&failed), names("request renewal leadership"));
}

#[tokio::test(start_paused = true)]
async fn a_loss_is_logged_as_a_warning_and_is_the_outcome_of_the_spans() {
    let (capture, _guard) = Capture::start();
    let world = World::new();
    let lead = world.leader("a").await;
    world.seal(1, "deposed").await;
    wait(secs(4)).await;
    assert!(lead.check().is_err());
    assert_of(&capture.one("renewal"), "a", 1, "sealed");
    assert_of(&capture.one("leadership"), "a", 1, "sealed");
    let over = capture.one("the leadership has ended: x sealed the epoch (deposed)");
    assert_eq!(over.level, Some(Level::WARN));
    assert_of(&over, "a", 1, "sealed");
}

#[tokio::test(start_paused = true)]
async fn spans_contain_the_outcome_of_attempts_without_an_election() {
    let (capture, _guard) = Capture::start();
    let world = World::new();
    let lead = world.leader("a").await;
    let held = world.node("b").build().unwrap().try_campaign().await.unwrap();
    assert!(matches!(held, tenure::CampaignOutcome::Held(_)));
    world.store.always(Fault::Denied);
    let c = world.node("c").build().unwrap();
    c.campaign().await.expect_err("access is denied");
    let outcomes: Vec<_> =
        capture.named("campaign").iter().map(|told| told.fields["outcome"].clone()).collect();
    assert_eq!(outcomes, ["elected", "held", "failed"]);
    world.store.heal();
    for (fault, word) in [(Fault::Unsupported, "unsafe"), (Fault::Denied, "denied")] {
        world.store.always(fault);
        let d = world.node("d").build().unwrap();
        d.campaign().await.expect_err("it fails");
        world.store.heal();
        let last = capture.named("request").pop().expect("a request");
        assert_eq!(last.fields["outcome"], word);
    }
    drop(lead);
}

#[tokio::test(start_paused = true)]
async fn a_compaction_and_the_check_of_a_store_have_spans() {
    let (capture, _guard) = Capture::start();
    let world = World::new();
    let lead = elect(&world.node("a").check_store(true).build().unwrap()).await;
    let checks =
        capture.named("request").into_iter().filter(|told| told.fields.contains_key("key"));
    let checks: Vec<_> = checks.collect();
    assert_eq!(checks.len(), 5, "{checks:?}");
    assert!(checks.iter().all(|told| capture.above(told) == names("campaign")));
    let store = Arc::new(world.store.clone());
    Compactor::builder(store, "app").build().unwrap().run_once().await.unwrap();
    let compaction = capture.one("compaction");
    assert_eq!(compaction.fields["election"], "app/");
    assert_eq!(capture.above(&capture.one("nothing to compact")), names("compaction"));
    drop(lead);
}

#[tokio::test(start_paused = true)]
async fn proclaimed_data_is_not_in_spans_or_events() {
    let (capture, _guard) = Capture::start();
    let world = World::new();
    let election = world.node("a").data(json!("hush")).build().unwrap();
    let lead = elect(&election).await;
    let follower = world.node("b").build().unwrap();
    let following = tokio::spawn(async move { follower.campaign().await });
    lead.proclaim(json!({ "password": "hush" })).await.unwrap();
    wait(VALIDITY).await;
    world.store.always(Fault::FailBefore);
    wait(VALIDITY * 2).await;
    following.abort();
    let all = capture.all();
    assert!(all.len() > 20 && !capture.named("another candidate leads").is_empty(), "{all:?}");
    for told in all {
        assert!(!format!("{told:?}").contains("hush"), "{told:?}");
    }
}

fn names(names: &str) -> Vec<String> {
    names.split(' ').map(str::to_owned).collect()
}
