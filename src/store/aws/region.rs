//! The region of a client. If no setting names the region, the client queries the machine's
//! metadata service.

use std::fmt;

use aws_config::imds;
use aws_config::provider_config::ProviderConfig;
use aws_config::{Region, SdkConfig};
use tokio::sync::OnceCell;

use super::error_text::MetadataFailure;
use super::https;
use crate::store::StoreErrorKind;

/// A client of a service. If no setting names a region, each request first queries the machine's
/// metadata service, until the metadata service names a region. The query is repeated because the
/// metadata service may start later than this process.
pub(in crate::store) enum RegionalClient<C> {
    Ready(C),
    Waiting { client: OnceCell<C>, make: Box<dyn Fn(Region) -> C + Send + Sync> },
}

/// The error of a query in which the client asks the metadata service for the region.
#[derive(Debug)]
pub(super) struct NoRegion {
    pub(super) kind: StoreErrorKind,
    /// True if the metadata service responded that it has no region.
    pub(super) of_the_machine: bool,
    why: String,
}

impl<C> RegionalClient<C> {
    /// Creates a client with these settings. `make` builds the client when the region is known.
    pub(in crate::store) fn new(
        config: SdkConfig,
        make: impl Fn(&SdkConfig) -> C + Send + Sync + 'static,
    ) -> RegionalClient<C> {
        if config.region().is_some() || metadata_is_disabled() {
            return RegionalClient::Ready(make(&config));
        }
        let make = move |region| make(&config.to_builder().region(region).build());
        RegionalClient::Waiting { client: OnceCell::new(), make: Box::new(make) }
    }

    pub(super) async fn get(&self) -> Result<&C, NoRegion> {
        match self {
            RegionalClient::Ready(client) => Ok(client),
            RegionalClient::Waiting { client, make } => {
                client.get_or_try_init(|| async { Ok(make(region_of_the_machine().await?)) }).await
            }
        }
    }
}

fn metadata_is_disabled() -> bool {
    let disabled = std::env::var("AWS_EC2_METADATA_DISABLED");
    disabled.is_ok_and(|text| text.eq_ignore_ascii_case("true"))
}

/// Queries the region with at most two requests: one for a token, and one for the region.
async fn region_of_the_machine() -> Result<Region, NoRegion> {
    let settings = ProviderConfig::without_region().with_http_client(https());
    let client = imds::Client::builder().configure(&settings).max_attempts(1).build();
    match client.get("/latest/meta-data/placement/region").await {
        Ok(region) => Ok(Region::new(String::from(region))),
        Err(error) => {
            let failure = MetadataFailure::of(&error).unwrap_or(MetadataFailure::Silent);
            // If no process listens at the address of the metadata service, this machine is
            // probably not on AWS. On such a machine, the user must set the region, so the error
            // is not transient.
            let kind = match failure {
                MetadataFailure::Status(401 | 403 | 404) | MetadataFailure::Silent => {
                    StoreErrorKind::AccessDenied
                }
                _ => StoreErrorKind::Transient,
            };
            let of_the_machine = failure.is_refusal();
            Err(NoRegion { kind, of_the_machine, why: failure.to_string() })
        }
    }
}

impl fmt::Display for NoRegion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "no region: set AWS_REGION, or region in the profile (the machine's metadata service \
             does not name one: {})",
            self.why
        )
    }
}
