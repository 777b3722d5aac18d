//! The schemes of store URLs, and their services.

/// A cloud service that this crate has a store for.
#[doc(hidden)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CloudKind {
    S3,
    CloudStorage,
    Azure,
    DynamoDb,
}

/// The properties of a service that the library and the command use.
#[doc(hidden)]
#[derive(Debug, PartialEq, Eq)]
pub struct CloudService {
    pub kind: CloudKind,
    pub name: &'static str,
    /// Cargo feature of the store.
    pub feature: &'static str,
    /// Name of the built-in price list for this service.
    pub prices: &'static str,
    /// Noun for the first part of the URL, such as "bucket".
    pub what: &'static str,
    /// Common prefix of the environment variables for the service's settings.
    pub(super) environment: &'static str,
    /// Name of the variable for the address of a custom server.
    pub(super) endpoint: &'static str,
}

/// A scheme of store URLs.
pub(super) struct Scheme {
    pub(super) name: &'static str,
    /// Form of a URL with this scheme.
    pub(super) form: &'static str,
    /// Schemes that other programs use in URLs of this service.
    pub(super) others: &'static [&'static str],
    /// Service of the scheme, or `None` for a directory.
    pub(super) service: Option<CloudService>,
}

pub(super) static SCHEMES: [Scheme; 5] = [
    Scheme {
        name: "s3",
        form: "s3://BUCKET/PREFIX",
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
    Scheme { name: "file", form: "file:///PATH", others: &[], service: None },
];

impl CloudService {
    /// Returns the error message of a build without this service.
    pub fn not_built(&self) -> String {
        let CloudService { name, feature, .. } = self;
        format!("this build does not support {name}: build it with --features {feature}")
    }
}

pub(super) fn unknown_scheme(name: &str) -> String {
    if let "http" | "https" = name {
        return "write s3://BUCKET/PREFIX, and set the address of the server in AWS_ENDPOINT_URL"
            .to_owned();
    }
    match SCHEMES.iter().find(|scheme| scheme.others.contains(&name)) {
        Some(scheme) => format!("write {}", scheme.form),
        None => format!("`{name}:` is not a known scheme; write {}", forms()),
    }
}

/// Lists the forms of all URLs.
pub(super) fn forms() -> String {
    let [first @ .., last] = SCHEMES.each_ref().map(|scheme| scheme.form);
    format!("{} or {last}", first.join(", "))
}
