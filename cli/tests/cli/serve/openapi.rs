//! Checks that `cli/openapi.json` describes each status of each path of the server.
//! `scripts/ci/schemathesis.sh` generates requests from this document.

use std::collections::BTreeSet;

use nix::sys::signal::Signal;
use serde_json::Value;

use super::Sidecar;
use super::client::{member, parse, request, rest, sidecar};
use crate::TENURE;
use tenure_testkit::command::eventually;
use tenure_testkit::command::scene::Scene;

const DOCUMENT: &str = include_str!("../../../openapi.json");
const KEY: &str = "correct-horse-battery-staple";
/// Documented replies that this test does not receive. Each element is a method, a path and a
/// status.
const NOT_SEEN: [(&str, &str, u16); 14] = [
    // The sidecar sends these replies only before its stores are open.
    ("GET", "/v1/elections", 503),
    ("GET", "/v1/elections/{name}", 503),
    ("GET", "/", 503),
    ("GET", "/v1/elections/{name}/events", 503),
    ("GET", "/sse", 503),
    ("GET", "/v1/groups/{name}/events", 503),
    ("GET", "/v1/groups", 503),
    ("GET", "/v1/groups/{name}", 503),
    ("POST", "/v1/groups/{name}/partitions/{partition}/release", 503),
    // The sidecar sends these replies only if the store hangs during the request.
    ("POST", "/v1/elections/{name}/resign", 504),
    ("PUT", "/v1/elections/{name}/data", 504),
    // The server sends these replies only if a task of the group stalls or ends at a certain
    // moment.
    ("GET", "/v1/groups/{name}/assignment", 504),
    ("POST", "/v1/groups/{name}/leave", 503),
    ("POST", "/v1/groups/{name}/leave", 504),
];

struct Check {
    document: Value,
    seen: BTreeSet<(String, String, u16)>,
}

impl Check {
    /// Sends a request. Asserts its status, and that the reply conforms to `openapi.json`.
    fn ask(&mut self, at: &Sidecar, line: &str, body: &str, status: u16) {
        self.ask_with(at, line, "", body, status);
    }

    fn ask_with(&mut self, at: &Sidecar, line: &str, headers: &str, body: &str, status: u16) {
        let (method, path) = line.split_once(' ').expect("the line has a method and a path");
        let reply = rest(at.send(&request(method, path, headers, body)));
        let head = reply.split("\r\n\r\n").next().unwrap_or_default();
        let said = parse(&reply);
        assert_eq!(said.0, status, "{line}: {reply}");
        let described = self.describe(method, path, status);
        let (kind, content) = described["content"]
            .as_object()
            .and_then(|content| content.iter().next())
            .unwrap_or_else(|| panic!("{line} {status} is described"));
        assert!(head.contains(&format!("content-type: {kind}")), "{line}: {head}");
        if kind == "application/json" {
            let value: Value = serde_json::from_str(&said.1).expect("JSON");
            let problem = problem(&self.document, &content["schema"], &value);
            assert_eq!(problem, None, "{line}: {value}");
        }
    }

    /// Requests a stream of events. Reads only the head of the reply, because a stream does not
    /// end.
    fn streams(&mut self, at: &Sidecar, path: &str) {
        let events = at.events(path);
        eventually("the stream begins", || events.text().contains("\r\n\r\n"));
        let text = events.text();
        let kind = "content-type: text/event-stream";
        assert!(text.starts_with("HTTP/1.1 200 ") && text.contains(kind), "{text}");
        let described = self.describe("GET", path, 200);
        assert!(described["content"]["text/event-stream"].is_object(), "{described}");
        let schema = if path.starts_with("/v1/groups") { "GroupEvent" } else { "Election" };
        let schema = &self.document["components"]["schemas"][schema];
        for (_, view) in events.all().iter().filter(|(name, _)| !name.is_empty()) {
            assert_eq!(problem(&self.document, schema, view), None, "{view}");
        }
    }

    /// Returns the description of a reply in `openapi.json`, and marks this reply as seen.
    fn describe(&mut self, method: &str, path: &str, status: u16) -> Value {
        let path = path.split('?').next().unwrap_or_default();
        let path = path.replace("/orders", "/{name}").replace("/nothing", "/{name}");
        let path = path.replace("/partitions/3/", "/partitions/{partition}/");
        let replies = &self.document["paths"][&path][method.to_lowercase()]["responses"];
        let described = replies[status.to_string()].clone();
        assert!(described.is_object(), "{method} {path} {status} is not described");
        self.seen.insert((method.to_owned(), path, status));
        described
    }

    fn described(&self) -> BTreeSet<(String, String, u16)> {
        let mut all = BTreeSet::new();
        for (path, methods) in self.document["paths"].as_object().expect("paths") {
            let methods = methods.as_object().expect("methods").iter();
            for (method, operation) in methods.filter(|(name, _)| *name != "parameters") {
                for status in operation["responses"].as_object().expect("replies").keys() {
                    let status = status.parse().expect("a number");
                    all.insert((method.to_uppercase(), path.clone(), status));
                }
            }
        }
        all
    }
}

/// Returns how `value` violates `schema`, or `None` if it conforms to `schema`. The function
/// supports only the part of JSON Schema that the document uses.
fn problem(document: &Value, schema: &Value, value: &Value) -> Option<String> {
    if let Some(name) = schema["$ref"].as_str() {
        let schema = document.pointer(name.strip_prefix('#').expect("a local one"));
        return problem(document, schema.expect("the object exists"), value);
    }
    if let Some(any) = schema["anyOf"].as_array() {
        let wrong: Option<Vec<_>> = any.iter().map(|one| problem(document, one, value)).collect();
        return wrong.map(|wrong| wrong.join("; "));
    }
    let is = |kind: &Value| match kind.as_str().expect("a type") {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_u64() || value.is_i64(),
        "null" => value.is_null(),
        other => panic!("the check supports no type {other}"),
    };
    let fits = match &schema["type"] {
        Value::Null => true,
        Value::Array(kinds) => kinds.iter().any(is),
        kind => is(kind),
    };
    if !fits {
        return Some(format!("{value} is not {}", schema["type"]));
    }
    if let Some(known) = schema["enum"].as_array().filter(|known| !known.contains(value)) {
        return Some(format!("{value} is not one of {known:?}"));
    }
    let below = schema["minimum"].as_u64().zip(value.as_u64()).is_some_and(|(least, n)| n < least);
    if below {
        return Some(format!("{value} is too small"));
    }
    for item in value.as_array().into_iter().flatten() {
        if let Some(wrong) = problem(document, &schema["items"], item) {
            return Some(wrong);
        }
    }
    let fields = value.as_object()?;
    for name in schema["required"].as_array().into_iter().flatten() {
        if !fields.contains_key(name.as_str().expect("a name")) {
            return Some(format!("{name} is missing"));
        }
    }
    for (name, field) in fields {
        match schema["properties"].get(name) {
            Some(schema) => {
                if let Some(wrong) = problem(document, schema, field) {
                    return Some(format!("{name}: {wrong}"));
                }
            }
            None if schema["additionalProperties"] == false => {
                return Some(format!("{name} is not described"));
            }
            None => {}
        }
    }
    None
}

const PATHS: [&str; 17] = [
    "GET /v1/elections",
    "GET /v1/elections/orders",
    "GET /v1/elections/orders/token",
    "GET /v1/elections/orders/events",
    "POST /v1/elections/orders/resign",
    "PUT /v1/elections/orders/data",
    "GET /v1/groups",
    "GET /v1/groups/orders",
    "GET /v1/groups/orders/events",
    "GET /v1/groups/orders/assignment",
    "POST /v1/groups/orders/leave",
    "GET /v1/groups/orders/partitions/3/token",
    "POST /v1/groups/orders/partitions/3/release",
    "POST /v1/heartbeat",
    "GET /",
    "GET /sse",
    "GET /openapi.json",
];

#[test]
fn each_reply_conforms_to_the_document() {
    let document: Value = serde_json::from_str(DOCUMENT).expect("JSON");
    let mut check = Check { document, seen: BTreeSet::new() };
    let scene = Scene::new(TENURE);
    let beats = ["--app-health", "heartbeat", "--app-health-deadline", "600s", "--grace", "600s"];
    let a = sidecar(&scene, "a", &beats);
    check.ask(&a, "GET /v1/elections/orders", "", 200);
    check.ask(&a, "POST /v1/heartbeat", "", 200);
    a.leads();
    let two = format!("other=file://{}", scene.path("other").display());
    let b = sidecar(&scene, "b", &["--election", &two]);
    for path in ["/v1/elections", "/v1/elections/orders", "/v1/elections/orders/token", "/"] {
        check.ask(&a, &format!("GET {path}"), "", 200);
    }
    check.ask(&a, "GET /openapi.json", "", 200);
    assert_eq!(a.get("/openapi.json").1, check.document);
    check.streams(&a, "/v1/elections/orders/events");
    check.streams(&a, "/sse");
    check.ask(&b, "GET /v1/elections", "", 200);
    check.ask(&b, "GET /v1/elections/orders/token", "", 503);
    check.ask(&b, "POST /v1/heartbeat", "", 409);
    check.ask(&b, "GET /", "", 404);
    check.ask(&b, "GET /sse", "", 404);
    for line in PATHS.iter().filter(|line| line.contains("/orders")) {
        check.ask(&b, &line.replace("/orders", "/nothing"), "1", 404);
    }
    let (resign, data) = ("POST /v1/elections/orders/resign", "PUT /v1/elections/orders/data");
    let long = format!("\"{}\"", "x".repeat(70_000));
    for line in [resign, data, "POST /v1/heartbeat"] {
        check.ask_with(&a, line, "Origin: https://x\r\n", "", 403);
    }
    for line in [resign, data] {
        check.ask(&a, line, "{", 400);
        check.ask(&a, line, &long, 413);
        check.ask(&b, line, "{}", 409);
        check.ask(&a, &format!("{line}?epoch=7"), "{}", 409);
        check.ask(&a, &format!("{line}?epoch=seven"), "{}", 400);
    }
    check.ask(&a, data, "{}", 200);
    locked(&scene, &mut check);
    for line in PATHS {
        check.ask_with(&a, line, "Host: evil.example\r\n", "", 421);
    }
    of_a_group(&mut check);
    a.process.signal(Signal::SIGTERM);
    eventually("the call ends", || a.view()["role"] == "ending");
    check.ask(&a, "GET /v1/elections/orders", "", 200);
    check.ask(&a, data, "{}", 503);
    check.ask(&a, &format!("{resign}?epoch=7"), "", 503);
    check.ask(&a, resign, "", 200);
    let not_seen = NOT_SEEN.map(|(method, path, status)| (method.into(), path.into(), status));
    let expected = check.described().difference(&not_seen.into()).cloned().collect();
    assert_eq!(check.seen, expected);
}

fn of_a_group(check: &mut Check) {
    let (leave, release) =
        ("POST /v1/groups/orders/leave", "POST /v1/groups/orders/partitions/3/release");
    let (token, assignment) =
        ("GET /v1/groups/orders/partitions/3/token", "GET /v1/groups/orders/assignment");
    let scene = Scene::new(TENURE);
    let a = member(&scene, "a", &["--data", "[7]"]);
    eventually("the member owns the partition", || a.ask("GET", &token[4..], "").0 == 200);
    for line in [token, assignment, "GET /v1/groups", "GET /v1/groups/orders"] {
        check.ask(&a, line, "", 200);
    }
    let events = "/v1/groups/orders/events";
    check.streams(&a, events);
    for line in [leave, release] {
        check.ask_with(&a, line, "Origin: https://x\r\n", "", 403);
        check.ask(&a, line, "{", 400);
        check.ask(&a, line, &" ".repeat(70_000), 413);
    }
    check.ask(&a, &format!("{release}?token=1"), "", 409);
    check.ask(&a, &format!("{release}?token=three"), "", 400);
    check.ask(&a, release, "", 200);
    check.ask(&a, token, "", 503);
    check.ask(&a, release, "", 409);
    // The body of this reply contains the number of partitions that the leaving member still owns.
    check.ask(&a, leave, r#"{"pause_ms":600000}"#, 200);
    eventually("the member has left", || {
        let view = a.get("/v1/groups/orders").1;
        for owned in view["partitions"].as_array().expect("a list") {
            let name = owned["partition"].as_str().expect("a name");
            a.json("POST", &format!("/v1/groups/orders/partitions/{name}/release"), "");
        }
        view["role"] == "standby"
    });
    check.ask(&a, "GET /v1/groups/orders", "", 200);
    check.ask(&a, assignment, "", 503);
    check.ask(&a, leave, "", 409);
}

fn locked(scene: &Scene, check: &mut Check) {
    std::fs::write(scene.path("key"), KEY).expect("a file");
    let key = scene.path("key").display().to_string();
    let locked = sidecar(scene, "c", &["--access-key-file", &key]);
    for line in PATHS {
        check.ask(&locked, line, "", 401);
    }
}
