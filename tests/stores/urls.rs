//! Tests which bucket, table or directory a URL names, and which URLs are refused.

use std::path::PathBuf;

use tenure::store::{CloudKind, StoreErrorKind, StoreOptions, StorePlace, StoreUrl, open};

/// The store that a URL names, in a form that the tests can compare. Services cannot be compared,
/// so this value has only the kind of the service.
#[derive(Debug, PartialEq)]
enum Named {
    In(CloudKind, String, String, StoreOptions),
    Dir(PathBuf, bool),
}

fn place(text: &str) -> Named {
    let url = text.parse::<StoreUrl>().unwrap_or_else(|error| panic!("{text}: {error}"));
    match url.place().clone() {
        StorePlace::In { service, name, prefix, options } => {
            Named::In(service.kind, name, prefix, *options)
        }
        StorePlace::Dir { path, group } => Named::Dir(path, group),
    }
}

fn refused(text: &str) -> String {
    match text.parse::<StoreUrl>() {
        Ok(url) => panic!("{text} was accepted as {:?}", url.place()),
        Err(why) => why,
    }
}

fn s3(bucket: &str, prefix: &str) -> Named {
    within(CloudKind::S3, bucket, prefix)
}

fn within(kind: CloudKind, name: &str, prefix: &str) -> Named {
    Named::In(kind, name.to_owned(), prefix.to_owned(), StoreOptions::default())
}

#[test]
fn a_url_names_a_bucket_of_each_service() {
    assert_eq!(place("gs://jobs/app"), within(CloudKind::CloudStorage, "jobs", "app"));
    assert_eq!(place("az://jobs/a/b"), within(CloudKind::Azure, "jobs", "a/b"));
    assert_eq!(place("az://$root/app"), within(CloudKind::Azure, "$root", "app"));
    for text in ["gs://", "gs:///app", "az:", "az:///"] {
        assert!(refused(text).contains("names no bucket"), "{text}");
    }
    assert!(refused("gs://b:80/p").contains("GOOGLE_BASE_URL"));
    assert!(refused("az://me:secret@b/p").contains("AZURE environment"));
    assert!(refused("gs://b/p?x").contains("accepts endpoint"));
}

#[test]
fn a_url_names_a_bucket_and_a_prefix() {
    assert_eq!(place("s3://jobs/app"), s3("jobs", "app"));
    assert_eq!(place("s3://jobs/app/"), s3("jobs", "app/"));
    assert_eq!(place("s3://jobs/a/b/c"), s3("jobs", "a/b/c"));
    assert_eq!(place("S3://jobs/app"), s3("jobs", "app"));
    assert_eq!(place("s3://jobs"), s3("jobs", ""));
    assert_eq!(place("s3://jobs/"), s3("jobs", ""));
    assert_eq!(place("s3://My_old.Bucket/x"), s3("My_old.Bucket", "x"));
}

#[test]
fn a_bucket_of_s3_has_options_and_keeps_its_prefix() {
    let owner = Some("111122223333".to_owned());
    let options = StoreOptions { expected_bucket_owner: owner, ..StoreOptions::default() };
    let bucket = |prefix: &str| {
        Named::In(CloudKind::S3, "jobs".to_owned(), prefix.to_owned(), options.clone())
    };
    assert_eq!(place("s3://jobs/a/b?expected-bucket-owner=111122223333"), bucket("a/b"));
    assert_eq!(place("s3://jobs?expected-bucket-owner=111122223333"), bucket(""));
}

#[test]
fn a_url_names_a_table_and_a_prefix() {
    let table = |prefix: &str| within(CloudKind::DynamoDb, "Locks_1.a-b", prefix);
    assert_eq!(place("dynamodb://Locks_1.a-b/app/größe"), table("app/größe"));
    assert_eq!(place("dynamodb://Locks_1.a-b"), table(""));
    for text in ["dynamodb://", "dynamodb:///app", "dynamodb:app"] {
        assert!(refused(text).contains("names no table"), "{text}");
    }
    assert!(refused("dynamodb://localhost:8000/p").contains("AWS_ENDPOINT_URL"));
    assert!(refused("dynamodb://t/a%20b").contains("percent"));
}

#[test]
fn a_prefix_is_used_as_written() {
    assert_eq!(place("s3://jobs/größe a+b"), s3("jobs", "größe a+b"));
    assert_eq!(place("s3://jobs/a/../b"), s3("jobs", "a/../b"));
    assert_eq!(place("s3://jobs//a"), s3("jobs", "/a"));
}

/// Before the fix, the library accepted each of these URLs, and opened another election than the
/// user intended.
#[test]
fn regression_an_ambiguous_url_is_refused() {
    for text in [
        "s3://jobs/app ",
        " s3://jobs/app",
        "s3://jobs/app\n",
        "s3://jobs/app\t/x",
        "s3://jobs/app /",
        "s3://jobs/ app",
        "s3://jobs/app\u{a0}",
        "s3://jobs/app ?sse=AES256",
        "dynamodb://Locks/app ",
        "file:///var/lib/app ",
    ] {
        assert!(refused(text).contains("white space"), "{text:?}");
    }
    for (text, shown) in [
        ("s3://jobs/a\u{200b}pp", "a\\u{200b}pp"),
        ("s3://jobs/a\tpp", "a\\tpp"),
        ("file:///var/lib\u{0}app", "lib\\u{0}app"),
        ("gs://jobs/\u{202e}app", "\\u{202e}app"),
    ] {
        assert!(refused(text).contains(shown), "{text:?}");
    }
}

#[test]
fn a_url_names_a_directory() {
    let dir = |path: &str| Named::Dir(path.into(), false);
    assert_eq!(place("file:///var/lib/app"), dir("/var/lib/app"));
    assert_eq!(place("file:///var/lib/app/"), dir("/var/lib/app/"));
    assert_eq!(place("file:///with%20space"), dir("/with space"));
    assert_eq!(place("file:///with space"), dir("/with space"));
    let shared = Named::Dir("/var/lib/app".into(), true);
    assert_eq!(place("file:///var/lib/app?share=group"), shared);
    for text in ["file:///tmp/x?", "file:///tmp/x?y", "file:///tmp/x?share=all"] {
        assert!(refused(text).contains("accepts share=group"), "{text}");
    }
}

#[test]
fn a_url_is_shown_as_given() {
    let text = "s3://jobs/größe";
    assert_eq!(text.parse::<StoreUrl>().map(|url| url.to_string()).as_deref(), Ok(text));
}

#[test]
fn the_error_names_a_missing_part_of_a_url() {
    for text in ["", "jobs/app", "/var/lib/app", "./x"] {
        assert!(refused(text).contains("no scheme"), "{text}");
    }
    for text in ["s3://", "s3:///app", "s3:app", "s3:/jobs/app"] {
        assert!(refused(text).contains("names no bucket"), "{text}");
    }
}

#[test]
fn the_error_names_an_unknown_scheme() {
    assert!(refused("gcs://b/p").contains("write gs://BUCKET/PREFIX"));
    assert!(refused("abfss://b@a.dfs.core.windows.net/p").contains("write az://CONTAINER"));
    assert!(refused("https://minio:9000/b").contains("AWS_ENDPOINT_URL"));
    assert!(refused("ftp://b/p").contains("`ftp:` is not a known scheme"));
    assert!(refused("c:\\dir").contains("`c:` is not a known scheme"));
}

#[test]
fn unsupported_parts_are_refused() {
    for text in ["s3://b/p#x", "file:///tmp/x#y", "s3://b/p?endpoint=http://host#x"] {
        assert!(refused(text).contains("no `#` part"), "{text}");
    }
    for text in ["s3://b?x", "dynamodb://t/p?x", "az://b/p?sse=AES256"] {
        assert!(refused(text).contains("is unknown; this URL accepts"), "{text}");
    }
    assert!(refused("s3://minio:9000/p").contains("AWS_ENDPOINT_URL"));
    assert!(refused("s3://b/a%20b").contains("percent"));
    assert!(refused("s3://AKIA123:secret@bucket/p").contains("credentials"));
}

#[test]
fn a_relative_path_is_never_treated_as_absolute() {
    for text in ["file:x", "file:./x", "file:/x", "file://x", "file://./x", "file://tmp/x"] {
        assert!(refused(text).contains("three slashes"), "{text}");
    }
    for text in ["file:///a/../b", "file:///a/..%2fb", "file:///a/%2e%2e/b"] {
        assert!(text.parse::<StoreUrl>().is_err() || place(text) == place("file:///b"), "{text}");
    }
}

#[test]
fn regression_an_access_point_is_given_by_its_arn() {
    let arn = "arn:aws:s3:eu-west-1:111122223333:accesspoint/jobs-1";
    assert_eq!(place(&format!("s3://{arn}/app/leader")), s3(arn, "app/leader"));
    assert_eq!(place(&format!("s3://{arn}")), s3(arn, ""));
    let old = "arn:aws-cn:s3:cn-north-1:111122223333:accesspoint:jobs";
    assert_eq!(place(&format!("s3://{old}/app/")), s3(old, "app/"));
    for text in [
        "s3://arn:aws:s3:::bucket/p",
        "s3://arn:aws:s3:eu-west-1:1:accesspoint/",
        "s3://arn:aws:s3-object-lambda:eu-west-1:1:accesspoint/a/p",
        "s3://arn:x",
    ] {
        assert!(refused(text).contains("accesspoint/NAME/PREFIX"), "{text}");
    }
    assert!(refused("dynamodb://arn:aws:dynamodb:eu:1:table/t/p").contains("is not a valid name"));
}

#[tokio::test]
async fn a_url_opens_its_store_or_the_error_names_the_missing_feature() {
    let error = open("nowhere").await.expect_err("no scheme");
    assert_eq!(error.kind(), StoreErrorKind::Invalid);
    assert!(error.to_string().contains("s3://BUCKET/PREFIX"), "{error}");
    if cfg!(not(feature = "azure")) {
        let error = open("az://box/app").await.expect_err("not built");
        assert!(error.to_string().contains("--features azure"), "{error}");
    }
    #[cfg(feature = "s3")]
    {
        let (store, prefix) = open("s3://box/app/leader").await.expect("no request");
        assert_eq!((store.describe().get(..8), &*prefix), (Some("s3://box"), "app/leader"));
    }
    for (is_built, url, described) in [
        (cfg!(feature = "s3"), "s3://box/p?endpoint=http://h:1/a", "s3://box at http://h:1/a"),
        (cfg!(feature = "gcs"), "gs://box/p?endpoint=http://h:1", "gs://box at http://h:1"),
        (
            cfg!(feature = "azure"),
            "az://box/p?account=me&endpoint=http://h:1",
            "az://box of the account me at http://h:1",
        ),
        (
            cfg!(feature = "dynamodb"),
            "dynamodb://t/p?endpoint=http://h:1",
            "dynamodb://t at http://h:1",
        ),
    ] {
        if is_built {
            let (store, prefix) = open(url).await.expect("no request");
            assert_eq!((&*store.describe(), &*prefix), (described, "p"));
        }
    }
    #[cfg(unix)]
    {
        let dir = tempfile::tempdir().expect("a directory");
        let url = format!("file://{}/new", dir.path().display());
        let (_, prefix) = open(&url).await.expect("the directory is created");
        assert!(prefix.is_empty() && dir.path().join("new").is_dir());
    }
}
