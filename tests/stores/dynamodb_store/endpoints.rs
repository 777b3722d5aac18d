//! Tests that requests use the correct URL for every form of a custom endpoint.

use super::environment::{keys, reading_child};
use tenure_testkit::proxy::Proxy;

/// Pairs of a custom endpoint, as the environment variable gives it, and the URL of its requests.
const FORMS: [(&str, &str); 6] = [
    ("http://h.example", "http://h.example/"),
    ("http://h.example:8000/", "http://h.example:8000/"),
    ("http://h.example/dynamo", "http://h.example/dynamo/"),
    ("http://h.example/dynamo/", "http://h.example/dynamo/"),
    ("http://192.0.2.7:8000/a", "http://192.0.2.7:8000/a/"),
    ("http://[2001:db8::7]:8000/a", "http://[2001:db8::7]:8000/a/"),
];

/// The requests go through a test proxy. The proxy receives whole URLs and resolves no names, so
/// the hosts need not exist.
#[test]
fn requests_arrive_below_the_path_of_the_endpoint() {
    for (endpoint, url) in FORMS {
        for variable in ["AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_DYNAMODB"] {
            let proxy = Proxy::start("400 Bad Request", &[]);
            let [id, key] = keys();
            let endpoint = (variable, endpoint.to_owned());
            let output = reading_child(&[id, key, endpoint, ("HTTP_PROXY", proxy.url())]);
            assert_eq!(proxy.requests(), vec![format!("POST {url}"); 2], "{output:?}");
        }
    }
}
