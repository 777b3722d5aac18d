//! URLs of stores. A URL names a store, and an election in this store. Only this module parses
//! store URLs.

use std::fmt;
use std::path::{Component, PathBuf};
use std::str::FromStr;
use std::sync::Arc;

use super::{Determinacy, Store, StoreError, StoreErrorKind};
use crate::store::escape::plain;
use crate::store::redact::printable;

mod options;
mod schemes;

pub use self::options::{Sse, StoreOptions};
pub use self::schemes::{CloudKind, CloudService};
use self::schemes::{SCHEMES, Scheme, forms, unknown_scheme};

/// Opens the store that a URL names. Returns the store, and the prefix of the election in this
/// store.
///
/// | URL | store | feature |
/// | --- | --- | --- |
/// | `s3://BUCKET/PREFIX` | `S3Store::from_env` | `s3` |
/// | `gs://BUCKET/PREFIX` | `AnyObjectStore::gcs_from_env` | `gcs` |
/// | `az://CONTAINER/PREFIX` | `AnyObjectStore::azure_from_env` | `azure` |
/// | `dynamodb://TABLE/PREFIX` | `DynamoStore::from_env` | `dynamodb` |
/// | `file:///PATH` | `DirStore::open`, which creates the directory; the prefix is empty | none |
///
/// Settings and credentials come from the environment of the service, unless the URL has options,
/// as in `?region=eu-west-1&profile=orders`. Their values may be percent-encoded.
///
/// - S3 and DynamoDB: `region`, `endpoint` and `profile`. A profile replaces all credentials of the
///   environment, and its region and endpoint have precedence.
/// - S3 also: `sse`, `kms-key-id`, `bucket-key`, `expected-bucket-owner`
/// - Azure: `account`, `endpoint`
/// - Cloud Storage: `endpoint`
/// - a directory: `share=group`
///
/// `BUCKET` may also be the ARN of an access point. The command `tenure` accepts the same URLs.
/// This function sends no request.
///
/// # Errors
///
/// [`StoreErrorKind::Invalid`]: the URL is invalid (the message describes the correct form), or
/// this build lacks the store (the message names the feature). For a directory, this function also
/// returns the errors of `DirStore::open`.
///
/// # Examples
///
/// ```
/// # #[cfg(unix)]
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let folder = tempfile::tempdir()?;
/// # let url = format!("file://{}", folder.path().display());
/// let (store, prefix) = tenure::store::open(&url).await?; // such as s3://my-bucket/orders/leader
/// let election = tenure::Election::builder(store, prefix).build()?;
/// election.campaign().await?.resign().await?;
/// # Ok(())
/// # }
/// # #[cfg(not(unix))]
/// # fn main() {}
/// ```
pub async fn open(url: &str) -> Result<(Arc<dyn Store>, String), StoreError> {
    let parsed = url.parse::<StoreUrl>().map_err(|why| invalid(url, &why))?;
    Ok((parsed.open().await?, parsed.prefix().to_owned()))
}

fn invalid(url: &str, why: &str) -> StoreError {
    let why = format!("{}: {why}", printable(&plain(url)));
    StoreError::new(StoreErrorKind::Invalid, Determinacy::Determinate, why)
}

/// The URL of a store and of an election in this store.
#[doc(hidden)]
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreUrl {
    text: String,
    place: StorePlace,
}

/// The location of an election.
#[doc(hidden)]
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StorePlace {
    /// A bucket or a table, and the key prefix of the election. The election normalises and checks
    /// the prefix.
    In { service: &'static CloudService, name: String, prefix: String, options: Box<StoreOptions> },
    /// A directory of this machine, for one user or for the directory's group. The election's
    /// prefix is empty.
    Dir { path: PathBuf, group: bool },
}

impl StoreUrl {
    pub fn place(&self) -> &StorePlace {
        &self.place
    }

    /// Returns the prefix of the election in its store. For a directory, the prefix is empty.
    pub fn prefix(&self) -> &str {
        match &self.place {
            StorePlace::Dir { .. } => "",
            StorePlace::In { prefix, .. } => prefix,
        }
    }

    /// Opens the store. Sends no request.
    pub async fn open(&self) -> Result<Arc<dyn Store>, StoreError> {
        match &self.place {
            #[cfg(unix)]
            StorePlace::Dir { path, group: true } => {
                Ok(Arc::new(super::DirStore::open_for_group(path)?))
            }
            #[cfg(unix)]
            StorePlace::Dir { path, .. } => Ok(Arc::new(super::DirStore::open(path)?)),
            #[cfg(not(unix))]
            StorePlace::Dir { .. } => {
                Err(invalid(&self.text, "directory stores are not supported on this system"))
            }
            StorePlace::In { service, name, options, .. } => {
                self.open_in(service, name, options).await
            }
        }
    }

    #[allow(unreachable_patterns, unused_variables, reason = "a build may have all stores or none")]
    async fn open_in(
        &self,
        service: &CloudService,
        name: &str,
        options: &StoreOptions,
    ) -> Result<Arc<dyn Store>, StoreError> {
        match service.kind {
            #[cfg(feature = "s3")]
            CloudKind::S3 => Ok(Arc::new(options.bucket(name).await)),
            #[cfg(feature = "gcs")]
            CloudKind::CloudStorage => {
                Ok(Arc::new(super::AnyObjectStore::gcs_with_options(name, options)?))
            }
            #[cfg(feature = "azure")]
            CloudKind::Azure => {
                Ok(Arc::new(super::AnyObjectStore::azure_with_options(name, options)?))
            }
            #[cfg(feature = "dynamodb")]
            CloudKind::DynamoDb => Ok(Arc::new(options.table(name).await)),
            _ => Err(invalid(&self.text, &service.not_built())),
        }
    }
}

impl fmt::Display for StoreUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl FromStr for StoreUrl {
    type Err = String;

    fn from_str(text: &str) -> Result<StoreUrl, String> {
        refuse_look_alikes(text)?;
        let (name, rest) =
            scheme_of(text).ok_or_else(|| format!("the URL has no scheme; write {}", forms()))?;
        let scheme = SCHEMES.iter().find(|scheme| scheme.name == name);
        if rest.contains('#') {
            return Err("a URL accepts no `#` part".to_owned());
        }
        let scheme = scheme.ok_or_else(|| unknown_scheme(&name))?;
        let (rest, query) = match rest.split_once('?') {
            Some((rest, query)) => (rest, Some(query)),
            None => (rest, None),
        };
        let place = match &scheme.service {
            Some(service) => in_service(service, scheme, rest, query)?,
            None => dir(rest, query)?,
        };
        Ok(StoreUrl { text: text.to_owned(), place })
    }
}

/// Returns the scheme in lower case, and the rest after the colon.
fn scheme_of(text: &str) -> Option<(String, &str)> {
    let (scheme, rest) = text.split_once(':')?;
    let is_of_a_scheme = |c: char| c.is_ascii_alphanumeric() || matches!(c, '+' | '-' | '.');
    let valid = scheme.starts_with(|c: char| c.is_ascii_alphabetic());
    (valid && scheme.chars().all(is_of_a_scheme)).then(|| (scheme.to_ascii_lowercase(), rest))
}

/// Refuses text with invisible characters, or with white space at its start or end or next to a
/// slash, because the URL of another election may look the same.
fn refuse_look_alikes(text: &str) -> Result<(), String> {
    if text.split(['/', '?']).any(|part| part.trim() != part) {
        return Err(
            "the URL has white space at its start or end, or next to a `/`; remove it".to_owned()
        );
    }
    let shown = plain(text);
    match shown == text {
        true => Ok(()),
        false => {
            Err(format!("the URL has invisible characters: {}; remove them", printable(&shown)))
        }
    }
}

/// Parses the name of a bucket or a table, the prefix, and the options. Refuses a percent sign in
/// the name or the prefix, because this function decodes no percent-encoding.
fn in_service(
    service: &'static CloudService,
    scheme: &Scheme,
    rest: &str,
    query: Option<&str>,
) -> Result<StorePlace, String> {
    let CloudService { what: noun, environment, endpoint, .. } = service;
    let rest = rest.strip_prefix("//").unwrap_or_default();
    let (name, prefix) = match service.kind {
        CloudKind::S3 if rest.starts_with("arn:") => access_point(rest)?,
        _ => rest.split_once('/').unwrap_or((rest, "")),
    };
    if name.contains('@') {
        return Err(format!(
            "the URL must not contain credentials; they come from the {environment} environment \
             and files"
        ));
    }
    let is_arn = service.kind == CloudKind::S3 && name.starts_with("arn:");
    let port = name.rsplit_once(':').filter(|_| !is_arn);
    if port.is_some_and(|(_, port)| port.bytes().all(|byte| byte.is_ascii_digit())) {
        return Err(format!(
            "a {noun} has no port; set the address of the server with ?endpoint= or {endpoint}"
        ));
    }
    if rest.contains('%') {
        return Err(format!(
            "percent-encoding is not decoded in {}:// URLs; write the characters themselves",
            scheme.name
        ));
    }
    if name.is_empty() {
        return Err(format!("the URL names no {noun}; write {}", scheme.form));
    }
    // Azure has containers with the names `$root` and `$web`, so a dollar sign is allowed.
    let is_plain =
        |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_' | b'$');
    if !is_arn && !name.bytes().all(is_plain) {
        return Err(format!("{name:?} is not a valid name of a {noun}"));
    }
    let options = query.map(|query| StoreOptions::parse(service.kind, query));
    let options = Box::new(options.transpose()?.unwrap_or_default());
    Ok(StorePlace::In { service, name: name.to_owned(), prefix: prefix.to_owned(), options })
}

/// Parses the ARN of an S3 access point, and the prefix.
fn access_point(rest: &str) -> Result<(&str, &str), String> {
    let fields: Vec<_> = rest.splitn(6, ':').collect();
    let point = match fields[..] {
        ["arn", _, "s3", _, _, resource] => {
            ["accesspoint/", "accesspoint:"].iter().find_map(|kind| resource.strip_prefix(kind))
        }
        _ => None,
    };
    let (point, prefix) = point.map_or(("", ""), |it| it.split_once('/').unwrap_or((it, "")));
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-');
    if point.is_empty() || !point.bytes().all(is_plain) {
        return Err("the ARN does not name an access point; write \
                    s3://arn:aws:s3:REGION:ACCOUNT:accesspoint/NAME/PREFIX"
            .to_owned());
    }
    let end = rest.len() - prefix.len();
    Ok((rest[..end].trim_end_matches('/'), prefix))
}

fn dir(rest: &str, query: Option<&str>) -> Result<StorePlace, String> {
    let Some(path) = rest.strip_prefix("//").filter(|path| path.starts_with('/')) else {
        return Err(
            "the path must be absolute, after three slashes, as in file:///var/lib/app".to_owned()
        );
    };
    if path.split(['/', '\\']).any(|part| part == "..") {
        return Err("the path must not contain `..`".to_owned());
    }
    let path = percent_decoded(path);
    #[cfg(unix)]
    let path = <std::ffi::OsString as std::os::unix::ffi::OsStringExt>::from_vec(path);
    #[cfg(not(unix))]
    let path = String::from_utf8_lossy(&path).into_owned();
    let path = PathBuf::from(path);
    // The check above does not detect percent-encoded dots and slashes. So this code checks the
    // decoded path again.
    if path.components().any(|part| part == Component::ParentDir) {
        return Err("the path must not contain `..`".to_owned());
    }
    if path.to_string_lossy().contains('\0') {
        return Err("the path must not contain NUL".to_owned());
    }
    let group = match query {
        None => false,
        Some("share=group") => true,
        Some(other) => {
            return Err(format!("`?{other}` is unknown; a directory accepts share=group"));
        }
    };
    Ok(StorePlace::Dir { path, group })
}

/// Decodes the percent-encoding of a text.
fn percent_decoded(text: &str) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut left = text.as_bytes();
    while let [first, rest @ ..] = left {
        let code = match (first, rest) {
            (b'%', [high, low, ..]) => digit(*high).zip(digit(*low)),
            _ => None,
        };
        bytes.push(code.map_or(*first, |(high, low)| 16 * high + low));
        left = if code.is_some() { &rest[2..] } else { rest };
    }
    bytes
}

fn digit(byte: u8) -> Option<u8> {
    char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok())
}
