//! `--store`: which store, and which election in it.

use std::fmt;
use std::path::{Component, PathBuf};
use std::str::FromStr;

use url::{ParseError, Url};

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
    /// A bucket, and the key prefix in it; the election normalises and checks the prefix.
    Bucket { service: Service, bucket: String, prefix: String, options: S3Options },
    /// A table, and the key prefix in it.
    DynamoDb { table: String, prefix: String },
    /// A directory of this machine, for one user or for its group. The election has the empty prefix
    /// in it.
    Dir { path: PathBuf, group: bool },
}

/// Whose bucket it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Service {
    S3,
    CloudStorage,
    /// Azure calls its buckets containers.
    Azure,
}

impl Service {
    pub fn scheme(self) -> &'static str {
        match self {
            Service::S3 => "s3",
            Service::CloudStorage => "gs",
            Service::Azure => "az",
        }
    }

    /// How a place in it is written.
    fn form(self) -> &'static str {
        match self {
            Service::S3 => "s3://BUCKET/PREFIX",
            Service::CloudStorage => "gs://BUCKET/PREFIX",
            Service::Azure => "az://CONTAINER/PREFIX",
        }
    }

    /// Where the address of a server goes that is not the service's own.
    fn endpoint(self) -> &'static str {
        match self {
            Service::S3 => "AWS_ENDPOINT_URL",
            Service::CloudStorage => "GOOGLE_BASE_URL",
            Service::Azure => "AZURE_STORAGE_ENDPOINT",
        }
    }

    /// Whose environment has the settings.
    fn environment(self) -> &'static str {
        match self {
            Service::S3 => "AWS",
            Service::CloudStorage => "GOOGLE",
            Service::Azure => "AZURE",
        }
    }

    fn host(self) -> Host {
        Host {
            what: "bucket",
            form: self.form(),
            environment: self.environment(),
            endpoint: self.endpoint(),
        }
    }
}

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
        let url = Url::parse(text).map_err(|error| match error {
            ParseError::RelativeUrlWithoutBase => {
                format!("it has no scheme; write {FORMS}")
            }
            ParseError::EmptyHost => format!("it names no bucket; write {FORMS}"),
            error => format!("{error}; write {FORMS}"),
        })?;
        let of_s3 = url.scheme() == "s3";
        let takes_options = of_s3 || url.scheme() == "file";
        if (url.query().is_some() && !takes_options) || url.fragment().is_some() {
            return Err("a store takes no `?` or `#` part; settings come from the environment of \
                        the service (AWS_…, GOOGLE_…, AZURE_…)"
                .to_owned());
        }
        let place = match url.scheme() {
            "s3" => bucket(Service::S3, &url, text)?,
            "gs" => bucket(Service::CloudStorage, &url, text)?,
            "az" => bucket(Service::Azure, &url, text)?,
            "dynamodb" => dynamodb(&url, text)?,
            "file" => dir(&url, text)?,
            "s3a" | "s3n" => return Err(format!("write {}", Service::S3.form())),
            "gcs" => return Err(format!("write {}", Service::CloudStorage.form())),
            "azure" | "adl" | "abfs" | "abfss" | "wasb" | "wasbs" => {
                return Err(format!("write {}", Service::Azure.form()));
            }
            "http" | "https" => {
                return Err(format!(
                    "write {}, and the address of the server into AWS_ENDPOINT_URL",
                    Service::S3.form()
                ));
            }
            other => return Err(format!("{other}: is no store; write {FORMS}")),
        };
        Ok(StoreUrl { text: text.to_owned(), place })
    }
}

fn bucket(service: Service, url: &Url, text: &str) -> Result<Place, String> {
    let (place, query) = match text.split_once('?') {
        Some((place, query)) => (place, Some(query)),
        None => (text, None),
    };
    let (bucket, prefix) = named(service.host(), url, place)?;
    let options = query.map(S3Options::parse).transpose()?.unwrap_or_default();
    Ok(Place::Bucket { service, bucket, prefix, options })
}

fn dynamodb(url: &Url, text: &str) -> Result<Place, String> {
    let host = Host {
        what: "table",
        form: "dynamodb://TABLE/PREFIX",
        environment: "AWS",
        endpoint: "AWS_ENDPOINT_URL",
    };
    let (table, prefix) = named(host, url, text)?;
    Ok(Place::DynamoDb { table, prefix })
}

/// How messages speak of what stands in a URL where a web page has its host.
struct Host {
    what: &'static str,
    form: &'static str,
    environment: &'static str,
    endpoint: &'static str,
}

/// The name of a bucket or a table, and the prefix.
fn named(host: Host, url: &Url, text: &str) -> Result<(String, String), String> {
    let Host { what, form, environment, endpoint } = host;
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
    let plain =
        |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'_' | b'$');
    if !name.bytes().all(plain) {
        return Err(format!("{name:?} is not the name of a {what}"));
    }
    Ok((name.to_owned(), prefix.to_owned()))
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

const FORMS: &str = "s3://BUCKET/PREFIX, gs://BUCKET/PREFIX, az://CONTAINER/PREFIX, \
                     dynamodb://TABLE/PREFIX or file:///PATH";

#[cfg(test)]
mod tests {
    use super::*;

    fn place(text: &str) -> Place {
        text.parse::<StoreUrl>().unwrap_or_else(|error| panic!("{text}: {error}")).place
    }

    fn refused(text: &str) -> String {
        match text.parse::<StoreUrl>() {
            Ok(url) => panic!("{text} was taken for {:?}", url.place),
            Err(why) => why,
        }
    }

    fn s3(bucket: &str, prefix: &str) -> Place {
        in_bucket(Service::S3, bucket, prefix)
    }

    fn in_bucket(service: Service, bucket: &str, prefix: &str) -> Place {
        let options = S3Options::default();
        Place::Bucket { service, bucket: bucket.to_owned(), prefix: prefix.to_owned(), options }
    }

    #[test]
    fn a_bucket_of_each_service() {
        assert_eq!(place("gs://jobs/app"), in_bucket(Service::CloudStorage, "jobs", "app"));
        assert_eq!(place("az://jobs/a/b"), in_bucket(Service::Azure, "jobs", "a/b"));
        assert_eq!(place("az://$root/app"), in_bucket(Service::Azure, "$root", "app"));
        for text in ["gs://", "gs:///app", "az:", "az:///"] {
            assert!(refused(text).contains("names no bucket"), "{text}");
        }
        assert!(refused("gs://b:80/p").contains("GOOGLE_BASE_URL"));
        assert!(refused("az://me:secret@b/p").contains("AZURE environment"));
        assert!(refused("gs://b/p?x").contains("no `?` or `#`"));
    }

    #[test]
    fn a_bucket_and_a_prefix() {
        assert_eq!(place("s3://jobs/app"), s3("jobs", "app"));
        assert_eq!(place("s3://jobs/app/"), s3("jobs", "app/"));
        assert_eq!(place("s3://jobs/a/b/c"), s3("jobs", "a/b/c"));
        assert_eq!(place("S3://jobs/app"), s3("jobs", "app"));
        assert_eq!(place("s3://jobs"), s3("jobs", ""));
        assert_eq!(place("s3://jobs/"), s3("jobs", ""));
        assert_eq!(place("s3://My_old.Bucket/x"), s3("My_old.Bucket", "x"));
    }

    #[test]
    fn a_bucket_of_s3_takes_options_and_keeps_its_prefix() {
        let owner = Some("111122223333".to_owned());
        let options = S3Options { expected_bucket_owner: owner, ..S3Options::default() };
        let bucket = |prefix: &str| Place::Bucket {
            service: Service::S3,
            bucket: "jobs".to_owned(),
            prefix: prefix.to_owned(),
            options: options.clone(),
        };
        assert_eq!(place("s3://jobs/a/b?expected-bucket-owner=111122223333"), bucket("a/b"));
        assert_eq!(place("s3://jobs?expected-bucket-owner=111122223333"), bucket(""));
    }

    #[test]
    fn a_table_and_a_prefix() {
        let table = |prefix: &str| Place::DynamoDb {
            table: "Locks_1.a-b".to_owned(),
            prefix: prefix.to_owned(),
        };
        assert_eq!(place("dynamodb://Locks_1.a-b/app/größe"), table("app/größe"));
        assert_eq!(place("dynamodb://Locks_1.a-b"), table(""));
        for text in ["dynamodb://", "dynamodb:///app", "dynamodb:app"] {
            assert!(refused(text).contains("names no table"), "{text}");
        }
        assert!(refused("dynamodb://localhost:8000/p").contains("AWS_ENDPOINT_URL"));
        assert!(refused("dynamodb://t/a%20b").contains("percent"));
    }

    #[test]
    fn a_prefix_is_taken_as_written() {
        assert_eq!(place("s3://jobs/größe a+b"), s3("jobs", "größe a+b"));
        assert_eq!(place("s3://jobs/a/../b"), s3("jobs", "a/../b"));
        assert_eq!(place("s3://jobs//a"), s3("jobs", "/a"));
    }

    #[test]
    fn a_directory() {
        let dir = |path: &str| Place::Dir { path: path.into(), group: false };
        assert_eq!(place("file:///var/lib/app"), dir("/var/lib/app"));
        assert_eq!(place("file:///var/lib/app/"), dir("/var/lib/app/"));
        assert_eq!(place("file:///with%20space"), dir("/with space"));
        assert_eq!(place("file:///with space"), dir("/with space"));
        let shared = Place::Dir { path: "/var/lib/app".into(), group: true };
        assert_eq!(place("file:///var/lib/app?share=group"), shared);
        for text in ["file:///tmp/x?", "file:///tmp/x?y", "file:///tmp/x?share=all"] {
            assert!(refused(text).contains("takes share=group"), "{text}");
        }
    }

    #[test]
    fn it_is_shown_as_it_was_given() {
        let text = "s3://jobs/größe";
        assert_eq!(text.parse::<StoreUrl>().map(|url| url.to_string()).as_deref(), Ok(text));
    }

    #[test]
    fn what_is_missing_is_named() {
        for text in ["", "jobs/app", "/var/lib/app", "./x"] {
            assert!(refused(text).contains("no scheme"), "{text}");
        }
        for text in ["s3://", "s3:///app", "s3:app", "s3:/jobs/app"] {
            assert!(refused(text).contains("names no bucket"), "{text}");
        }
    }

    #[test]
    fn other_schemes_are_named() {
        assert!(refused("gcs://b/p").contains("write gs://BUCKET/PREFIX"));
        assert!(refused("abfss://b@a.dfs.core.windows.net/p").contains("write az://CONTAINER"));
        assert!(refused("https://minio:9000/b").contains("AWS_ENDPOINT_URL"));
        assert!(refused("ftp://b/p").contains("ftp: is no store"));
        assert!(refused("c:\\dir").contains("is no store"));
    }

    #[test]
    fn parts_that_would_be_lost_are_refused() {
        for text in ["s3://b/p#x", "file:///tmp/x#y", "dynamodb://t/p?x", "az://b/p?sse=AES256"] {
            assert!(refused(text).contains("no `?` or `#`"), "{text}");
        }
        for text in ["s3://b/p?region=eu-west-1", "s3://b?x", "s3://b/p?sse=%61"] {
            assert!(!refused(text).is_empty());
        }
        assert!(refused("s3://minio:9000/p").contains("AWS_ENDPOINT_URL"));
        assert!(refused("s3://b/a%20b").contains("percent"));
        assert!(refused("s3://AKIA123:secret@bucket/p").contains("credentials"));
    }

    #[test]
    fn a_relative_path_is_never_taken_for_an_absolute_one() {
        for text in ["file:x", "file:./x", "file:/x", "file://x", "file://./x", "file://tmp/x"] {
            assert!(refused(text).contains("three slashes"), "{text}");
        }
        for text in ["file:///a/../b", "file:///a/..%2fb", "file:///a/%2e%2e/b"] {
            let taken = text.parse::<StoreUrl>();
            assert!(
                taken.is_err()
                    || taken == Ok(StoreUrl { text: text.to_owned(), place: place("file:///b") }),
                "{text}"
            );
        }
    }
}
