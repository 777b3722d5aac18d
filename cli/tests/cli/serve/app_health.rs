//! Tests of `tenure serve --app-health`.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};

use serde_json::Value;

use super::client::{Sidecar, sidecar};
use crate::TENURE;
use tenure_testkit::command::scene::Scene;
use tenure_testkit::command::{eventually, pause};

/// Asserts that the sidecar leads only while the application passes this health check. Each call of
/// `sign` makes the application pass the check once.
fn follows(check: &str, sign: impl Fn(&Sidecar)) {
    let scene = Scene::new(TENURE);
    let options = ["--app-health", check, "--app-health-deadline", "2s"];
    let a = sidecar(&scene, "a", &options);
    eventually("the sidecar waits for the application", || a.view()["reason"] == "app_unhealthy");
    assert_eq!(scene_epochs(&scene), 0, "the sidecar has not campaigned");
    let mut before = Value::Null;
    eventually("the sidecar leads while the application works", || {
        sign(&a);
        before = a.get("/v1/elections/orders/token").1["token"].clone();
        before.is_u64()
    });
    eventually("the sidecar resigns when the application hangs", || a.view()["role"] == "standby");
    let seen = a.view();
    assert_eq!(seen["lost"]["reason"], "app_unhealthy", "{seen}");
    assert_eq!((&seen["lost"]["epoch"], &seen["reason"]), (&before, &"app_unhealthy".into()));
    // The epoch is sealed, because the sidecar has resigned. So another candidate need not wait for
    // a lapse.
    eventually("its epoch is sealed", || scene.status()["ended"] == "resigned");
    eventually("the sidecar leads again", || {
        sign(&a);
        a.get("/v1/elections/orders/token").0 == 200
    });
}

fn scene_epochs(scene: &Scene) -> usize {
    let entries = std::fs::read_dir(scene.path("store")).into_iter().flatten().flatten();
    entries.filter(|entry| entry.file_name().to_string_lossy().starts_with("lock-")).count()
}

#[test]
fn heartbeats_keep_the_leadership() {
    follows("heartbeat", |a| {
        let (status, said) = a.json("POST", "/v1/heartbeat", "");
        assert_eq!((status, &said["healthy_for_ms"]), (200, &2_000.into()), "{said}");
    });
}

#[test]
fn a_touched_file_keeps_the_leadership() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("alive");
    // The file exists before the sidecar starts. Only a later change of the file shows that the
    // application is healthy.
    std::fs::write(&path, "").expect("a file");
    let touched = path.clone();
    follows(&format!("file:{}", path.display()), move |_| {
        pause(20);
        std::fs::write(&touched, "").expect("a file");
    });
}

/// Starts a server that answers each request with this status. While the status is 0, the server
/// does not answer.
fn answers(status: &Arc<AtomicU16>) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("the listener has an address");
    let status = Arc::clone(status);
    std::thread::spawn(move || {
        let mut hung = Vec::new();
        for mut stream in listener.incoming().flatten() {
            let mut head = [0; 1024];
            let read = stream.read(&mut head).unwrap_or(0);
            assert!(head[..read].starts_with(b"GET /health?deep=1 HTTP/1.1\r\n"));
            match status.load(Ordering::Acquire) {
                0 => hung.push(stream),
                status => {
                    let _ = write!(stream, "HTTP/1.1 {status} x\r\nContent-Length: 0\r\n\r\n");
                }
            }
        }
    });
    format!("http://{address}/health?deep=1")
}

#[test]
fn a_healthy_url_keeps_the_leadership() {
    for bad in [0, 500, 302] {
        let status = Arc::new(AtomicU16::new(bad));
        let scene = Scene::new(TENURE);
        let check = answers(&status);
        let options = ["--app-health", &check, "--app-health-deadline", "2s"];
        let a = sidecar(&scene, "a", &options);
        eventually("the sidecar waits for the application", || {
            a.view()["reason"] == "app_unhealthy"
        });
        status.store(204, Ordering::Release);
        a.leads();
        status.store(bad, Ordering::Release);
        eventually("the sidecar resigns", || a.view()["role"] == "standby");
        assert_eq!(a.view()["lost"]["reason"], "app_unhealthy");
    }
}
