//! `--metrics-addr`: the metrics of this process in the Prometheus text format.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use metrics_exporter_prometheus::{Matcher, PrometheusBuilder};

use crate::exit::{self, Failure};
use crate::http::{self, Reply, Sites};
use crate::process::timer::pause;

/// Upper bounds of the histogram buckets in seconds. They range from the latency of a request to a
/// local directory up to long request timeouts.
const SECONDS: [f64; 12] = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0];
/// Upper bounds of the histogram buckets as fractions of the validity. Each measured value is the
/// part of a lease that is left when a renewal extends the lease. Below 0.25 the lease is at risk.
/// The default renew interval is a third of the validity. If all renewals succeed at this interval,
/// the values are slightly below 0.67.
const RATIOS: [f64; 12] = [0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5, 0.6, 0.65, 0.7, 1.0];
const IN_SECONDS: [&str; 3] =
    ["tenure_request_seconds", "tenure_renewal_seconds", "tenure_group_renewal_seconds"];
const AS_RATIOS: [&str; 2] = ["tenure_lease_least_ratio", "tenure_group_lease_least_ratio"];
/// The interval at which the recorder moves measured values into their buckets. Without these
/// moves, the values would fill the memory until the next scrape.
const UPKEEP: Duration = Duration::from_secs(5);

#[derive(Debug, Clone, Copy, clap::Args)]
pub struct MetricsArg {
    /// Serve metrics at http://ADDR/metrics in the Prometheus text format.
    ///
    /// With port 0 the system chooses the port, and the log shows it.
    #[arg(long, value_name = "ADDR", value_parser = http::address)]
    #[arg(env = "TENURE_METRICS_ADDR", help_heading = "Health")]
    pub metrics_addr: Option<SocketAddr>,
}

impl MetricsArg {
    /// Installs the recorder and serves its metrics. The caller must call this function before it
    /// opens the store, so that all requests are counted.
    pub fn add_to(self, sites: &mut Sites) -> Result<(), Failure> {
        let Some(address) = self.metrics_addr else { return Ok(()) };
        let failed =
            |error| Failure::new(exit::OS, format!("cannot install the metrics recorder: {error}"));
        let handle = buckets().map_err(failed)?.install_recorder().map_err(failed)?;
        let upkeep = handle.clone();
        tokio::spawn(async move {
            loop {
                pause(UPKEEP).await;
                upkeep.run_upkeep();
            }
        });
        let routes = move |path: &str| {
            let kind = "text/plain; version=0.0.4; charset=utf-8";
            (path == "/metrics").then(|| Reply::new(200, kind, handle.render()))
        };
        sites.add(address, "metrics", Arc::new(routes));
        Ok(())
    }

    /// Refuses `--metrics-addr` without `--every`, because a single run usually ends before
    /// Prometheus reads its metrics.
    pub fn refuse_without(self, every: Option<Duration>) -> Result<(), Failure> {
        if self.metrics_addr.is_some() && every.is_none() {
            let why = "--metrics-addr needs --every: a single run ends before a scrape; \
                       --json shows its result";
            return Err(Failure::new(exit::USAGE, why));
        }
        Ok(())
    }
}

fn buckets() -> Result<PrometheusBuilder, metrics_exporter_prometheus::BuildError> {
    let mut builder = PrometheusBuilder::new();
    let all = IN_SECONDS.map(|name| (name, SECONDS));
    for (name, buckets) in all.into_iter().chain(AS_RATIOS.map(|name| (name, RATIOS))) {
        builder = builder.set_buckets_for_metric(Matcher::Full(name.to_owned()), &buckets)?;
    }
    Ok(builder)
}
