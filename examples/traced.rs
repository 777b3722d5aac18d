//! One trace from the application's own span through its election to the service that it writes to.
//!
//! ```text
//! cargo run --features tower --example traced                          # the election in a directory
//! cargo run --features tower --example traced -- s3://bucket/prefix    # the election on S3
//! ```
//!
//! tenure reports to `tracing` what it does, and knows nothing of OpenTelemetry: the application
//! adds the layer of `tracing-opentelemetry`, and the spans `campaign`, `leadership`, `renewal` and
//! `request` are part of its trace. What it sends to others carries the W3C trace context
//! (`traceparent`) beside the fencing token. Here the spans stay in memory, and are printed as a
//! tree; an exporter over OTLP takes the place of that one line.
//!
//! Requests to the store carry no `traceparent`: S3 ignores it.

use std::collections::BTreeSet;
use std::net::SocketAddr;

use axum::routing::put;
use axum::{Extension, Router};
use bytes::Bytes;
use futures::StreamExt as _;
use http::{HeaderMap, Method, Request};
use http_body_util::Full;
use hyper_util::client::legacy::Client;
use hyper_util::rt::TokioExecutor;
use opentelemetry::SpanId;
use opentelemetry::propagation::TextMapPropagator as _;
use opentelemetry::trace::TracerProvider as _;
use opentelemetry_http::{HeaderExtractor, HeaderInjector};
use opentelemetry_sdk::propagation::TraceContextPropagator;
use opentelemetry_sdk::trace::{InMemorySpanExporter, SdkTracerProvider, SpanData};
use tenure::{Election, Epoch, LeadershipEvent};
use tenure_fencing::Gate;
use tenure_fencing::http::{FenceLayer, TokenLayer};
use tower::{Layer as _, ServiceExt as _};
use tracing::{Instrument as _, Span, info_span};
use tracing_opentelemetry::OpenTelemetrySpanExt as _;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

use support::{Place, Result, fail};

mod support;

#[tokio::main]
async fn main() -> Result<()> {
    let place = Place::from_args("traced").await?;
    // In an application: with_batch_exporter(opentelemetry_otlp::SpanExporter::…).
    let exporter = InMemorySpanExporter::default();
    let provider = SdkTracerProvider::builder().with_simple_exporter(exporter.clone()).build();
    let layer = tracing_opentelemetry::layer()
        .with_tracer(provider.tracer("traced"))
        .with_location(false)
        .with_threads(false)
        .with_tracked_inactivity(false);
    // Renewals and requests are spans of the level DEBUG.
    let targets = Targets::new().with_targets([("tenure", DEBUG), ("traced", DEBUG)]);
    tracing_subscriber::registry().with(targets).with(layer).init();

    let service = serve().await?;
    println!("A job, a service on http://{service}, and the election on {place}.\n");
    job(&place, service).instrument(info_span!("job")).await?;

    let spans = loop {
        let spans = exporter.get_finished_spans()?;
        // The task that renewed the lease ends right after it has resigned.
        if ["job", "leadership"].iter().all(|name| spans.iter().any(|span| span.name == *name)) {
            break spans;
        }
        tokio::task::yield_now().await;
    };
    provider.shutdown()?;
    print_below(&spans, SpanId::INVALID, 0);
    check(&spans)
}

const DEBUG: LevelFilter = LevelFilter::DEBUG;

/// What the application does, in a span of its own.
async fn job(place: &Place, service: SocketAddr) -> Result<()> {
    let election = Election::builder(place.store.clone(), format!("{}/leader", place.prefix))
        .name("anna")
        .validity(place.validity)
        .build()?;
    let lead = election.campaign().await?;
    let mut events = lead.events();
    write(service, lead.check()?).instrument(info_span!("write", otel.kind = "client")).await?;
    while let Some(event) = events.next().await {
        if let LeadershipEvent::Renewed { .. } = event {
            break;
        }
    }
    lead.resign().await?;
    Ok(())
}

/// A client: the layer adds the token, the propagator the trace.
async fn write(service: SocketAddr, token: Epoch) -> Result<()> {
    let client = Client::builder(TokioExecutor::new()).build_http::<Full<Bytes>>();
    let client = TokenLayer::new(token).layer(client);
    let request = Request::builder().method(Method::PUT).uri(format!("http://{service}/board"));
    let mut request = request.body(Full::from("anna was here"))?;
    let context = Span::current().context();
    TraceContextPropagator::new()
        .inject_context(&context, &mut HeaderInjector(request.headers_mut()));
    let traceparent = request.headers().get("traceparent").cloned();
    println!("PUT /board, fencing-token: {token}, traceparent: {:?}\n", traceparent.as_ref());
    let status = client.oneshot(request).await?.status();
    if status.is_success() { Ok(()) } else { fail(format!("the service answers {status}")) }
}

/// The service: it knows of the trace, and of the leader, what the headers say.
async fn serve() -> Result<SocketAddr> {
    let write = put(write_board).layer(FenceLayer::new(Gate::new()));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    let routes = Router::new().route("/board", write);
    tokio::spawn(async move { axum::serve(listener, routes).await });
    Ok(address)
}

async fn write_board(headers: HeaderMap, Extension(token): Extension<Epoch>, text: String) {
    let span = info_span!("put board", otel.kind = "server", epoch = token.get());
    let caller = TraceContextPropagator::new().extract(&HeaderExtractor(&headers));
    // Fails for a span that nobody records, and then there is nothing to set.
    let _ = span.set_parent(caller);
    span.in_scope(|| tracing::info!(bytes = text.len(), "written"));
}

fn print_below(spans: &[SpanData], parent: SpanId, depth: usize) {
    let mut below: Vec<_> = spans.iter().filter(|span| span.parent_span_id == parent).collect();
    below.sort_by_key(|span| span.start_time);
    for span in below {
        let shown = ["op", "epoch", "outcome"].map(|name| {
            let attribute = span.attributes.iter().find(|pair| pair.key.as_str() == name);
            attribute.map_or_else(String::new, |pair| format!("  {name}={}", pair.value))
        });
        println!("{:indent$}{}{}", "", span.name, shown.concat(), indent = 2 * depth);
        print_below(spans, span.span_context.span_id(), depth + 1);
    }
}

/// One trace, and each span below the right one.
fn check(spans: &[SpanData]) -> Result<()> {
    let traces: BTreeSet<_> = spans.iter().map(|s| s.span_context.trace_id().to_string()).collect();
    let Some(trace) = traces.first().filter(|_| traces.len() == 1) else {
        return fail(format!("{} traces instead of one: {traces:?}", traces.len()));
    };
    let name_of = |id: SpanId| {
        let span = spans.iter().find(|span| span.span_context.span_id() == id);
        span.map_or_else(|| "nothing".to_owned(), |span| span.name.to_string())
    };
    for (name, parents) in [
        ("job", &["nothing"][..]),
        ("campaign", &["job"]),
        ("leadership", &["job"]),
        ("renewal", &["leadership"]),
        ("request", &["campaign", "renewal", "leadership"]),
        ("write", &["job"]),
        ("put board", &["write"]),
    ] {
        let found: BTreeSet<_> = spans
            .iter()
            .filter(|span| span.name == name)
            .map(|span| name_of(span.parent_span_id))
            .collect();
        let expected = parents.iter().map(|&parent| parent.to_owned()).collect();
        if found != expected {
            return fail(format!("{name} is below {found:?}, not below {expected:?}"));
        }
    }
    println!("\nOne trace, {trace}, of {} spans", spans.len());
    Ok(())
}
