//! A metrics recorder for one test.

use metrics::LocalRecorderGuard;
use metrics_exporter_prometheus::{
    Matcher, PrometheusBuilder, PrometheusHandle, PrometheusRecorder,
};
use tenure_testkit::fault_store::{Call, FaultStore};
use tenure_testkit::prometheus::Scrape;

/// A recorder for the thread of one test.
pub struct Recorder {
    handle: PrometheusHandle,
    recorder: &'static PrometheusRecorder,
}

impl Recorder {
    pub fn new() -> Recorder {
        let buckets = |builder: PrometheusBuilder, name: &str| {
            builder.set_buckets_for_metric(Matcher::Suffix(name.to_owned()), &[0.25, 0.5, 1.0, 8.0])
        };
        let builder = buckets(PrometheusBuilder::new(), "_seconds").expect("the buckets are valid");
        let recorder = buckets(builder, "_ratio").expect("the buckets are valid").build_recorder();
        // The recorder is leaked, because its guards must not outlive the recorder.
        let recorder = Box::leak(Box::new(recorder));
        Recorder { handle: recorder.handle(), recorder }
    }

    pub fn listen(&self) -> LocalRecorderGuard<'static> {
        metrics::set_default_local_recorder(self.recorder)
    }

    pub fn scrape(&self) -> Scrape {
        Scrape::parse(&self.handle.render())
    }
}

/// Takes the requests from the log of the store. Asserts that the metrics contain each request
/// exactly once, with its duration.
pub fn counts_all(scrape: &Scrape, store: &FaultStore) {
    let calls = store.take_calls();
    for (kind, call) in [
        ("list", Call::List),
        ("get", Call::Get),
        ("create", Call::Create),
        ("replace", Call::Replace),
        ("delete", Call::Delete),
    ] {
        let sent = calls.iter().filter(|sent| **sent == call).count() as f64;
        assert_eq!(scrape.sum("tenure_requests_total", &[("kind", kind)]), sent, "{kind}");
        assert_eq!(scrape.sum("tenure_request_seconds_count", &[("kind", kind)]), sent, "{kind}");
    }
}

/// Turns each function of the module into a test. Also defines `all`, which runs each function with
/// a separate recorder.
macro_rules! tell {
    ($module:ident: $($story:ident),* $(,)?) => {
        $(
            #[tokio::test(start_paused = true)]
            async fn $story() {
                let recorder = Recorder::new();
                let _listening = recorder.listen();
                $module::$story(&recorder).await;
            }
        )*

        async fn all() -> Vec<tenure_testkit::prometheus::Scrape> {
            let mut scrapes = Vec::new();
            $({
                let recorder = Recorder::new();
                let _listening = recorder.listen();
                $module::$story(&recorder).await;
                scrapes.push(recorder.scrape());
            })*
            scrapes
        }
    };
}
pub(crate) use tell;
