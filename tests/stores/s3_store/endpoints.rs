//! Tests that requests use the correct URL for every form of a custom endpoint.

use super::environment::child;
use tenure_testkit::proxy::Proxy;

/// Pairs of a custom endpoint, as the environment variable gives it, and the URL of a create of
/// `app/key` in the bucket `tenure-test`.
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

/// The requests go through a test proxy. The proxy receives whole URLs and resolves no names, so
/// the hosts need not exist.
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
            let output = child("s3_store::environment::a_create_in_the_environment", &env);
            assert!(output.status.success(), "{endpoint}: {output:?}");
            assert_eq!(proxy.requests(), [format!("PUT {url}?x-id=PutObject")], "{endpoint}");
        }
    }
}
