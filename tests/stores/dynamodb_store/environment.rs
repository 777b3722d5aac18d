//! Tests stores with settings from the environment, such as a custom endpoint. Each test opens its
//! store in a separate process.

use std::process::{Command, Output};

use super::*;
use tenure_testkit::proxy::Proxy;

/// Runs the last test of this file in a process with only these AWS variables.
pub fn reading_child(env: &[(&str, String)]) -> Output {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "dynamodb_store::environment::reads_twice", "--nocapture"]);
    for (name, _) in std::env::vars_os() {
        let upper = name.to_string_lossy().to_ascii_uppercase();
        if upper.starts_with("AWS_") || upper.ends_with("_PROXY") {
            command.env_remove(name);
        }
    }
    command.env("HOME", "/nowhere").env("AWS_EC2_METADATA_DISABLED", "true");
    command.envs(env.iter().map(|(name, value)| (name, value)));
    let output = command.env("TENURE_TEST_DYNAMODB_CHILD", "1").output().unwrap();
    assert!(output.status.success(), "{env:?}: {output:?}");
    assert!(String::from_utf8_lossy(&output.stdout).contains("1 passed"), "{output:?}");
    output
}

pub fn keys() -> [(&'static str, String); 2] {
    [("AWS_ACCESS_KEY_ID", ACCESS_KEY), ("AWS_SECRET_ACCESS_KEY", SECRET_KEY)]
        .map(|(name, value)| (name, value.to_owned()))
}

#[test]
fn regression_the_error_names_a_missing_region() {
    let proxy = Proxy::start("400 Bad Request", &[]);
    let [id, key] = keys();
    let output = reading_child(&[id, key, ("HTTPS_PROXY", proxy.url())]);
    let said = String::from_utf8(output.stdout).unwrap();
    assert!(said.contains("no region: set AWS_REGION"), "{said}");
    assert_eq!(proxy.requests(), [""; 0]);
}

/// In this test, a script provides the credentials, and counts its calls.
#[cfg(unix)]
#[test]
fn credentials_that_dynamodb_rejects_as_expired_are_fetched_again() {
    let server = DynamoServer::start();
    server.fault(ServerFault::Answer(400, "ExpiredTokenException"), "GetItem");
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name);
    let script = format!(
        r#"echo >> '{}'
printf '{{"Version":1,"AccessKeyId":"{ACCESS_KEY}","SecretAccessKey":"{SECRET_KEY}"}}'
"#,
        path("calls").display()
    );
    std::fs::write(path("provider"), script).unwrap();
    let process = format!("[default]\ncredential_process = sh '{}'\n", path("provider").display());
    std::fs::write(path("config"), process).unwrap();
    let mut env = server.env();
    env.retain(|(name, _)| !name.contains("_ACCESS_KEY") && *name != "AWS_CONFIG_FILE");
    env.push(("AWS_CONFIG_FILE", path("config").display().to_string()));
    let output = reading_child(&env);
    let calls = std::fs::read_to_string(path("calls")).unwrap();
    assert_eq!(calls.lines().count(), 2, "{output:?}");
}

/// Pairs of a custom endpoint in the environment variable, and the URL of the store's requests.
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

/// Reads an item twice and prints the answers.
#[tokio::test]
async fn reads_twice() {
    if std::env::var_os("TENURE_TEST_DYNAMODB_CHILD").is_none() {
        return;
    }
    let store = DynamoStore::from_env(TABLE).await;
    for _ in 0..2 {
        println!("{:?}", store.get(KEY, None, MAX).await);
    }
}
