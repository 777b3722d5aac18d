//! Tests stores with settings from the environment. The other tests run one of the last three tests
//! of this file in a child process, with other environment variables.

use std::process::{Command, Output};

use tenure::store::S3Store;
use tenure::store::{GetOutcome, PutOutcome, Store};

use super::{MAX, body, done, found};
use tenure_testkit::proxy::Proxy;
use tenure_testkit::s3_server::*;

#[tokio::test]
async fn a_store_is_opened_with_the_settings_of_the_environment() {
    let server = S3Server::start().await;
    let output =
        child("s3_store::environment::basic_calls_in_a_bucket_of_the_environment", &server.env());
    assert!(output.status.success(), "{output:?}");
    assert!(server.requests().iter().all(|seen| seen.uri.path().starts_with("/tenure-test")));
    assert!(server.count(Op::Put) > 0);
    // Other stores may not support the newer checksums of the SDK, so requests to a custom endpoint
    // must not have them.
    assert!(server.last(Op::Put).headers.keys().all(|name| !name.as_str().contains("checksum")));
    assert!(server.last(Op::Get).headers.get("x-amz-checksum-mode").is_none());
}

#[tokio::test]
async fn a_directory_bucket_is_opened_with_the_settings_of_the_environment() {
    let server = S3Server::start_directory_bucket();
    let test = "s3_store::environment::basic_calls_in_a_bucket_of_the_environment";
    let output = child_in(DIRECTORY_BUCKET, test, &server.env());
    assert!(output.status.success(), "{output:?}");
    assert_eq!(server.count(Op::Session), 1);
}

#[tokio::test]
async fn checksums_are_sent_if_the_environment_requires_them() {
    let server = S3Server::start().await;
    let mut env = server.env();
    env.push(("AWS_REQUEST_CHECKSUM_CALCULATION", "WHEN_SUPPORTED".to_owned()));
    let output = child("s3_store::environment::basic_calls_in_a_bucket_of_the_environment", &env);
    assert!(output.status.success(), "{output:?}");
    let headers = server.last(Op::Put).headers;
    assert!(headers.keys().any(|name| name.as_str().contains("checksum")), "{headers:?}");
}

#[tokio::test]
async fn the_error_names_missing_settings() {
    let server = S3Server::start().await;
    let without = |name: &str| {
        let env = server.env().into_iter().filter(|(key, _)| !key.starts_with(name));
        env.collect::<Vec<_>>()
    };
    let error = |env: &[(&'static str, String)]| {
        let output = child("s3_store::environment::a_list_in_a_bucket_of_the_environment", env);
        String::from_utf8(output.stdout).unwrap()
    };
    let no_credentials = error(&without("AWS_ACCESS_KEY_ID"));
    for word in ["AccessDenied, Determinate", "no credentials: set AWS_ACCESS_KEY_ID"] {
        assert!(no_credentials.contains(word), "{no_credentials}");
    }
    let env = without("AWS_REGION");
    assert!(error(&env).contains("no error"), "a custom endpoint needs no region");
    let env: Vec<_> = env.into_iter().filter(|(key, _)| *key != "AWS_ENDPOINT_URL").collect();
    let no_region = error(&env);
    for word in ["Invalid, Determinate", "no region: set AWS_REGION"] {
        assert!(no_region.contains(word), "{no_region}");
    }
    let mut env = server.env();
    env[0].1 = env[0].1.replace("http:", "https:");
    let no_tls = error(&env);
    assert!(
        no_tls.contains("Transient, Determinate") && no_tls.contains("no connection"),
        "{no_tls}"
    );
    env[0].1 = "http://user:hushhush@127.0.0.1:1/path?token=hushhush".to_owned();
    let unreachable = error(&env);
    assert!(unreachable.contains("s3://tenure-test at http://127.0.0.1:1/path"), "{unreachable}");
    assert!(!unreachable.contains("hushhush"), "{unreachable}");
}

/// Pairs of a custom endpoint in the environment variable, and the URL of the create of `app/key`
/// in the bucket `tenure-test`.
const FORMS: [(&str, &str); 10] = [
    ("http://h.example", "http://h.example/tenure-test/app/key"),
    ("http://h.example/", "http://h.example/tenure-test/app/key"),
    ("http://h.example:9000", "http://h.example:9000/tenure-test/app/key"),
    ("http://h.example/minio/api", "http://h.example/minio/api/tenure-test/app/key"),
    ("http://h.example/minio/api/", "http://h.example/minio/api/tenure-test/app/key"),
    ("http://h.example:9000/a", "http://h.example:9000/a/tenure-test/app/key"),
    ("http://192.0.2.7:9000/a", "http://192.0.2.7:9000/a/tenure-test/app/key"),
    ("http://[2001:db8::7]:9000", "http://[2001:db8::7]:9000/tenure-test/app/key"),
    ("http://[2001:db8::7]:9000/a", "http://[2001:db8::7]:9000/a/tenure-test/app/key"),
    // The path contains the name of the bucket even if the host name begins with this name.
    ("http://tenure-test.h.example", "http://tenure-test.h.example/tenure-test/app/key"),
];

/// A custom endpoint may have a path, and each request must go to a URL below this path. The
/// requests go through a test proxy, which receives whole URLs and resolves no names, so the hosts
/// need not exist.
#[test]
fn regression_requests_arrive_below_the_path_of_the_endpoint() {
    for (endpoint, url) in FORMS {
        for variable in ["AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_S3"] {
            let proxy = Proxy::start("200 OK", &[("ETag", "\"1\"")]);
            let env = [
                (variable, endpoint.to_owned()),
                ("HTTP_PROXY", proxy.url()),
                ("AWS_EC2_METADATA_DISABLED", "true".to_owned()),
                ("AWS_ACCESS_KEY_ID", "AKIAIOSFODNN7EXAMPLE".to_owned()),
                ("AWS_SECRET_ACCESS_KEY", "secret".to_owned()),
            ];
            let output =
                child("s3_store::environment::a_create_in_a_bucket_of_the_environment", &env);
            assert!(output.status.success(), "{endpoint}: {output:?}");
            assert_eq!(proxy.requests(), [format!("PUT {url}?x-id=PutObject")], "{endpoint}");
        }
    }
}

/// Runs one test of this file in a process with only these AWS variables.
pub fn child(test: &str, env: &[(&'static str, String)]) -> Output {
    child_in(BUCKET, test, env)
}

fn child_in(bucket: &str, test: &str, env: &[(&'static str, String)]) -> Output {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", test, "--nocapture"]).env("HOME", "/nowhere");
    for (name, _) in std::env::vars_os() {
        let upper = name.to_string_lossy().to_ascii_uppercase();
        if upper.starts_with("AWS_") || upper.ends_with("_PROXY") {
            command.env_remove(name);
        }
    }
    command.envs(env.iter().map(|(name, value)| (name, value)));
    let output = command.env("TENURE_TEST_S3_BUCKET", bucket).output().unwrap();
    assert!(String::from_utf8_lossy(&output.stdout).contains("running 1 test"), "{output:?}");
    output
}

/// Runs only if `TENURE_TEST_S3_BUCKET` names a bucket. scripts/servers/moto.sh and similar scripts
/// set it.
#[tokio::test]
async fn basic_calls_in_a_bucket_of_the_environment() {
    let Ok(bucket) = std::env::var("TENURE_TEST_S3_BUCKET") else { return };
    let store = S3Store::from_env(bucket).await;
    let prefix = format!("tenure-test-{}/", std::process::id());
    let key = format!("{prefix}a +<&>%.json");
    assert_eq!(store.get(&key, None, MAX).await.unwrap(), GetOutcome::NotFound);
    let first = done(store.create(&key, body("one")).await);
    assert_eq!(store.create(&key, body("two")).await.unwrap(), PutOutcome::PreconditionFailed);
    let unchanged = store.get(&key, Some(first.clone()), MAX).await;
    assert_eq!(unchanged.unwrap(), GetOutcome::NotModified);
    let second = done(store.replace(&key, body("two"), first.clone()).await);
    assert_eq!(
        store.replace(&key, body("x"), first.clone()).await.unwrap(),
        PutOutcome::PreconditionFailed
    );
    let other = format!("{prefix}none.json");
    assert_eq!(store.replace(&other, body("x"), first).await.unwrap(), PutOutcome::NotFound);
    let object = found(store.get(&key, None, MAX).await);
    assert_eq!((&object.body, &object.etag), (&body("two"), &second));
    assert!(object.served_at.is_some() && object.last_modified.is_some());
    let too_large = store.get(&key, None, 2).await.unwrap();
    assert_eq!(too_large, GetOutcome::TooLarge { etag: second, len: 3 });
    let page = store.list(&prefix, "", 10).await.unwrap();
    assert_eq!((page.entries.len(), page.truncated), (1, false));
    assert_eq!(page.entries[0].key, key);
    assert!(store.list(&prefix, &key, 10).await.unwrap().entries.is_empty());
    assert!(store.delete(vec![key.clone(), other]).await.unwrap().is_empty());
    assert_eq!(store.get(&key, None, MAX).await.unwrap(), GetOutcome::NotFound);
}

/// Prints the error of a listing.
#[tokio::test]
async fn a_list_in_a_bucket_of_the_environment() {
    let Ok(bucket) = std::env::var("TENURE_TEST_S3_BUCKET") else { return };
    match S3Store::from_env(bucket).await.list("", "", 1).await {
        Ok(_) => println!("no error"),
        Err(error) => println!("{error:?}"),
    }
}

/// Creates an object, and prints the outcome.
#[tokio::test]
async fn a_create_in_a_bucket_of_the_environment() {
    let Ok(bucket) = std::env::var("TENURE_TEST_S3_BUCKET") else { return };
    println!("{:?}", S3Store::from_env(bucket).await.create("app/key", body("one")).await);
}
