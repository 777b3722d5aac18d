//! The schemes of URLs, and the services behind them.

/// Which service it is.
#[doc(hidden)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CloudKind {
    S3,
    CloudStorage,
    Azure,
    DynamoDb,
}

/// The facts about a service that the library and the command use.
#[doc(hidden)]
#[derive(Debug, PartialEq, Eq)]
pub struct CloudService {
    pub kind: CloudKind,
    pub name: &'static str,
    /// The feature that a build needs for it.
    pub feature: &'static str,
    /// The name of its built-in price list.
    pub prices: &'static str,
    /// Kind of the first part of the URL.
    pub what: &'static str,
    /// The start of the names of the variables with its settings.
    pub(super) environment: &'static str,
    /// The variable for the address of a server that is not the service's own.
    pub(super) endpoint: &'static str,
}

/// A scheme of URLs.
pub(super) struct Scheme {
    pub(super) name: &'static str,
    /// How a URL is written.
    pub(super) form: &'static str,
    pub(super) takes_query: bool,
    /// Schemes of other programs for the same.
    pub(super) others: &'static [&'static str],
    /// Nothing for a directory.
    pub(super) service: Option<CloudService>,
}

pub(super) static SCHEMES: [Scheme; 5] = [
    Scheme {
        name: "s3",
        form: "s3://BUCKET/PREFIX",
        takes_query: true,
        others: &["s3a", "s3n"],
        service: Some(CloudService {
            kind: CloudKind::S3,
            name: "S3",
            feature: "s3",
            prices: "S3 Standard",
            what: "bucket",
            environment: "AWS",
            endpoint: "AWS_ENDPOINT_URL",
        }),
    },
    Scheme {
        name: "gs",
        form: "gs://BUCKET/PREFIX",
        takes_query: false,
        others: &["gcs"],
        service: Some(CloudService {
            kind: CloudKind::CloudStorage,
            name: "Cloud Storage",
            feature: "gcs",
            prices: "Cloud Storage",
            what: "bucket",
            environment: "GOOGLE",
            endpoint: "GOOGLE_BASE_URL",
        }),
    },
    Scheme {
        name: "az",
        form: "az://CONTAINER/PREFIX",
        takes_query: false,
        others: &["azure", "adl", "abfs", "abfss", "wasb", "wasbs"],
        service: Some(CloudService {
            kind: CloudKind::Azure,
            name: "Azure",
            feature: "azure",
            prices: "Azure Blob",
            what: "bucket",
            environment: "AZURE",
            endpoint: "AZURE_STORAGE_ENDPOINT",
        }),
    },
    Scheme {
        name: "dynamodb",
        form: "dynamodb://TABLE/PREFIX",
        takes_query: false,
        others: &[],
        service: Some(CloudService {
            kind: CloudKind::DynamoDb,
            name: "DynamoDB",
            feature: "dynamodb",
            prices: "DynamoDB",
            what: "table",
            environment: "AWS",
            endpoint: "AWS_ENDPOINT_URL",
        }),
    },
    Scheme { name: "file", form: "file:///PATH", takes_query: true, others: &[], service: None },
];

impl CloudService {
    /// The reason that a build without this service gives.
    pub fn not_built(&self) -> String {
        let CloudService { name, feature, .. } = self;
        format!("this build has no store for {name}: build it with --features {feature}")
    }
}

pub(super) fn unknown_scheme(name: &str) -> String {
    if let "http" | "https" = name {
        return "write s3://BUCKET/PREFIX, and the address of the server into AWS_ENDPOINT_URL"
            .to_owned();
    }
    match SCHEMES.iter().find(|scheme| scheme.others.contains(&name)) {
        Some(scheme) => format!("write {}", scheme.form),
        None => format!("{name}: is no store; write {}", forms()),
    }
}

/// All forms of a URL.
pub(super) fn forms() -> String {
    let [first @ .., last] = SCHEMES.each_ref().map(|scheme| scheme.form);
    format!("{} or {last}", first.join(", "))
}
