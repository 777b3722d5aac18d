//! Tests that the test server behaves as Google documents the XML API.

use http::StatusCode;
use reqwest::{Client, Method, Response};

use super::*;

struct Raw(GcsServer, Client);

impl Raw {
    fn new() -> Raw {
        let _ = rustls::crypto::ring::default_provider().install_default();
        Raw(GcsServer::start(), Client::builder().no_proxy().build().expect("a client"))
    }

    async fn send(&self, method: Method, path: &str, header: Option<(&str, &str)>) -> Response {
        let url = format!("{}/{BUCKET}{path}", self.0.endpoint());
        let mut request = self.1.request(method, url).bearer_auth(TOKEN).body("body");
        if let Some((name, value)) = header {
            request = request.header(name, value);
        }
        request.send().await.expect("answered")
    }

    async fn put(&self, generation: Option<&str>) -> Response {
        let header = generation.map(|generation| ("x-goog-if-generation-match", generation));
        self.send(Method::PUT, "/a%2Fb", header).await
    }
}

fn header(answer: &Response, name: &str) -> String {
    answer.headers()[name].to_str().expect("ASCII").to_owned()
}

#[tokio::test]
async fn generations_increase_and_zero_means_a_missing_object() {
    let raw = Raw::new();
    assert_eq!(raw.put(Some("1")).await.status(), StatusCode::PRECONDITION_FAILED, "no object");
    let first = raw.put(Some("0")).await;
    assert_eq!(first.status(), StatusCode::OK);
    assert_eq!(header(&first, "x-goog-metageneration"), "1");
    let refused = raw.put(Some("0")).await;
    assert_eq!(refused.status(), StatusCode::PRECONDITION_FAILED);
    assert!(refused.text().await.unwrap().contains("<Code>PreconditionFailed</Code>"));
    let old = header(&first, "x-goog-generation");
    let second = raw.put(Some(&old)).await;
    assert_eq!(second.status(), StatusCode::OK);
    let new = header(&second, "x-goog-generation");
    assert!(new.parse::<u64>().unwrap() > old.parse().unwrap());
    assert_eq!(header(&first, "etag"), header(&second, "etag"), "the content is the same");
    assert_eq!(raw.put(Some(&old)).await.status(), StatusCode::PRECONDITION_FAILED);
    assert_eq!(raw.put(Some("x")).await.status(), StatusCode::BAD_REQUEST);
    assert_eq!(raw.put(None).await.status(), StatusCode::OK, "without a precondition");
}

#[tokio::test]
async fn reads_and_deletions_honour_their_conditions() {
    let raw = Raw::new();
    let put = raw.put(Some("0")).await;
    let (etag, generation) = (header(&put, "etag"), header(&put, "x-goog-generation"));
    let read = raw.send(Method::GET, "/a%2Fb", None).await;
    assert_eq!(header(&read, "x-goog-generation"), generation);
    assert_eq!(read.text().await.unwrap(), "body");
    let unless = raw.send(Method::GET, "/a%2Fb", Some(("if-none-match", &etag))).await;
    assert_eq!(unless.status(), StatusCode::NOT_MODIFIED);
    let condition = |value| Some(("x-goog-if-generation-match", value));
    let delete = raw.send(Method::DELETE, "/a%2Fb", condition("7")).await;
    assert_eq!(delete.status(), StatusCode::PRECONDITION_FAILED);
    let delete = raw.send(Method::DELETE, "/a%2Fb", condition(&generation)).await;
    assert_eq!(delete.status(), StatusCode::NO_CONTENT);
    for method in [Method::DELETE, Method::GET] {
        let missing = raw.send(method, "/a%2Fb", None).await;
        assert_eq!(missing.status(), StatusCode::NOT_FOUND);
        assert!(missing.text().await.unwrap().contains("<Code>NoSuchKey</Code>"));
    }
}

#[tokio::test]
async fn an_unknown_precondition_is_not_ignored() {
    let raw = Raw::new();
    let header = Some(("x-goog-if-metageneration-match", "1"));
    let answer = raw.send(Method::PUT, "/a", header).await;
    assert_eq!(answer.status(), StatusCode::NOT_IMPLEMENTED);
}

#[tokio::test]
async fn listings_are_in_order_and_continue_after_the_last_page() {
    let raw = Raw::new();
    for key in ["b", "a/2", "a/1", "a&<"] {
        raw.0.put_raw(key, "x");
    }
    let list = async |query: &str| {
        let answer = raw.send(Method::GET, &format!("?list-type=2{query}"), None).await;
        answer.text().await.unwrap()
    };
    let page = list("&max-keys=2").await;
    assert!(page.contains("<Key>a&amp;&lt;</Key>") && page.contains("<Key>a/1</Key>"), "{page}");
    assert!(page.contains("<IsTruncated>true</IsTruncated>"), "{page}");
    assert!(page.contains("<NextContinuationToken>a/1</NextContinuationToken>"), "{page}");
    let rest = list("&max-keys=2&continuation-token=a%2F1").await;
    assert!(rest.contains("<Key>a/2</Key>") && rest.contains("<Key>b</Key>"), "{rest}");
    assert!(rest.contains("<IsTruncated>false</IsTruncated>"), "{rest}");
    let after = list("&prefix=a%2F&start-after=a%2F1").await;
    assert_eq!(after.matches("<Key>").count(), 1, "{after}");
}

#[tokio::test]
async fn a_public_bucket_serves_cached_objects_unless_headers_forbid_it() {
    let raw = Raw::new();
    raw.0.quirks(|quirks| quirks.public = true);
    let read = async |key: &str| {
        let answer = raw.send(Method::GET, key, None).await;
        header(&answer, "x-goog-generation")
    };
    for (key, control, fresh) in [("/a", "public", false), ("/b", "no-store", true)] {
        raw.send(Method::PUT, key, Some(("cache-control", control))).await;
        let before = read(key).await;
        raw.send(Method::PUT, key, Some(("cache-control", control))).await;
        assert_eq!(read(key).await != before, fresh, "{control}");
    }
}
