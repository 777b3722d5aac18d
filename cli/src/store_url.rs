//! `--store`: which store, and which election in it.

use std::fmt;
use std::path::{Component, PathBuf};
use std::str::FromStr;

use url::{ParseError, Url};

use super::print::plain;
use super::s3_options::S3Options;

/// A store and a place in it, as given on the command line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreUrl {
    text: String,
    place: Place,
}

/// Where an election lives.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// A bucket or a table, and the key prefix in it; the election normalises and checks the
    /// prefix.
    In { service: &'static Service, name: String, prefix: String, options: S3Options },
    /// A directory of this machine, for one user or for its group. The election has the empty
    /// prefix in it.
    Dir { path: PathBuf, group: bool },
}

/// Which service it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    S3,
    CloudStorage,
    Azure,
    DynamoDb,
}

/// What the command knows of a service.
#[derive(Debug, PartialEq, Eq)]
pub struct Service {
    pub kind: Kind,
    pub name: &'static str,
    /// The feature that a build needs for it.
    pub feature: &'static str,
    /// The name of its built-in price list.
    pub prices: &'static str,
    /// What the URL names first.
    pub what: &'static str,
    /// The variables whose names start so have the settings.
    environment: &'static str,
    /// Where the address of a server goes that is not the service's own.
    endpoint: &'static str,
}

/// A scheme of `--store`.
struct Scheme {
    name: &'static str,
    /// How a URL is written.
    form: &'static str,
    takes_query: bool,
    /// Schemes of other programs for the same.
    others: &'static [&'static str],
    /// Nothing for a directory.
    service: Option<Service>,
}

static SCHEMES: [Scheme; 5] = [
    Scheme {
        name: "s3",
        form: "s3://BUCKET/PREFIX",
        takes_query: true,
        others: &["s3a", "s3n"],
        service: Some(Service {
            kind: Kind::S3,
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
        service: Some(Service {
            kind: Kind::CloudStorage,
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
        service: Some(Service {
            kind: Kind::Azure,
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
        service: Some(Service {
            kind: Kind::DynamoDb,
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

impl StoreUrl {
    pub fn place(&self) -> &Place {
        &self.place
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
        let url = Url::parse(text).map_err(|error| match error {
            ParseError::RelativeUrlWithoutBase => format!("it has no scheme; write {}", forms()),
            ParseError::EmptyHost => format!("it names no bucket; write {}", forms()),
            error => format!("{error}; write {}", forms()),
        })?;
        let scheme = SCHEMES.iter().find(|scheme| scheme.name == url.scheme());
        let takes_query = scheme.is_some_and(|scheme| scheme.takes_query);
        if (url.query().is_some() && !takes_query) || url.fragment().is_some() {
            return Err("a store takes no `?` or `#` part; settings come from the environment of \
                        the service (AWS_…, GOOGLE_…, AZURE_…)"
                .to_owned());
        }
        let scheme = scheme.ok_or_else(|| unknown_scheme(url.scheme()))?;
        let place = match &scheme.service {
            Some(service) => in_service(service, scheme.form, &url, text)?,
            None => dir(&url, text)?,
        };
        Ok(StoreUrl { text: text.to_owned(), place })
    }
}

/// Refuses text that looks like the URL of another election.
fn refuse_look_alikes(text: &str) -> Result<(), String> {
    if text.split(['/', '?']).any(|part| part.trim() != part) {
        return Err(
            "white space is at its beginning or end, or next to a `/`; remove it".to_owned()
        );
    }
    let shown = plain(text);
    match shown == text {
        true => Ok(()),
        false => Err(format!("it has invisible characters: {shown}; remove them")),
    }
}

fn unknown_scheme(name: &str) -> String {
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
fn forms() -> String {
    let [first @ .., last] = SCHEMES.each_ref().map(|scheme| scheme.form);
    format!("{} or {last}", first.join(", "))
}

/// The name of a bucket or a table, the prefix, and the options.
fn in_service(
    service: &'static Service,
    form: &str,
    url: &Url,
    text: &str,
) -> Result<Place, String> {
    let (text, query) = match text.split_once('?') {
        Some((text, query)) => (text, Some(query)),
        None => (text, None),
    };
    let Service { what, environment, endpoint, .. } = service;
    if !url.username().is_empty() || url.password().is_some() {
        return Err(format!(
            "credentials do not belong into the URL; they come from the {environment} environment and files"
        ));
    }
    if url.port().is_some() {
        return Err(format!(
            "a {what} has no port; the address of the server goes into {endpoint}"
        ));
    }
    if text.contains('%') {
        return Err(format!(
            "percent-encoding is not decoded in {}:// URLs; write the characters themselves",
            url.scheme()
        ));
    }
    // The parser resolves `..` and encodes what is not ASCII; keys are taken as they are written.
    let rest = text.split_once("://").map_or("", |(_, rest)| rest);
    let (name, prefix) = rest.split_once('/').unwrap_or((rest, ""));
    if name.is_empty() {
        return Err(format!("it names no {what}; write {form}"));
    }
    // Azure's `$root` and `$web` are containers, too.
    let is_plain =
        |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_' | b'$');
    if !name.bytes().all(is_plain) {
        return Err(format!("{name:?} is not the name of a {what}"));
    }
    let options = query.map(S3Options::parse).transpose()?.unwrap_or_default();
    Ok(Place::In { service, name: name.to_owned(), prefix: prefix.to_owned(), options })
}

fn dir(url: &Url, text: &str) -> Result<Place, String> {
    // The parser takes `file:x` and `file:./x` for `/x`.
    let three_slashes = text.get("file".len()..).is_some_and(|rest| rest.starts_with(":///"));
    if !three_slashes {
        return Err("the path must be absolute and have three slashes in front, as in \
                    file:///var/lib/app"
            .to_owned());
    }
    if text.split(['/', '\\']).any(|part| part == "..") {
        return Err("the path must not contain `..`".to_owned());
    }
    let path = url.to_file_path().map_err(|()| "it is not the path of a directory".to_owned())?;
    // Encoded dots and slashes turn up only now.
    if path.components().any(|part| part == Component::ParentDir) {
        return Err("the path must not contain `..`".to_owned());
    }
    if path.to_string_lossy().contains('\0') {
        return Err("the path must not contain NUL".to_owned());
    }
    let group = match url.query() {
        None => false,
        Some("share=group") => true,
        Some(other) => return Err(format!("`?{other}` is unknown; a directory takes share=group")),
    };
    Ok(Place::Dir { path, group })
}

#[cfg(test)]
mod tests;
