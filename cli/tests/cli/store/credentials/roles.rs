//! Tests roles of pods and containers, with credentials from simulated services over HTTP.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener};
use std::process::Command;
use std::sync::mpsc::{Receiver, channel};

use tenure_testkit::command::eventually;
use tenure_testkit::command::scene::Scene;
use tenure_testkit::proxy::Proxy;
use tenure_testkit::s3_server::*;

/// Starts an HTTP service that gives each request this answer, and forwards the requests to the
/// test.
fn service(kind: &'static str, answer: String) -> (SocketAddr, Receiver<String>) {
    service_with(|_| "200 OK", kind, answer)
}

/// Answers each request with the body `answer`, and with the status that `status` returns for the
/// first line of the request.
fn service_with(
    status: fn(&str) -> &'static str,
    kind: &'static str,
    answer: String,
) -> (SocketAddr, Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("the listener is bound");
    (address, serve(listener, status, kind, answer))
}

fn serve(
    listener: TcpListener,
    status: fn(&str) -> &'static str,
    kind: &'static str,
    answer: String,
) -> Receiver<String> {
    let (asked, receiver) = channel();
    std::thread::spawn(move || {
        while let Ok((mut stream, _)) = listener.accept() {
            let mut request = vec![0; 64 * 1024];
            let mut length = 0;
            // The test reads only the head of a request, because the answer does not depend on its
            // body.
            while !String::from_utf8_lossy(&request[..length]).contains("\r\n\r\n") {
                match stream.read(&mut request[length..]) {
                    Ok(0) | Err(_) => break,
                    Ok(read) => length += read,
                }
            }
            let status = status(String::from_utf8_lossy(&request).lines().next().unwrap_or(""));
            let head = format!(
                "HTTP/1.1 {status}\r\ncontent-type: {kind}\r\ncontent-length: {}\r\nconnection: \
                 close\r\nx-aws-ec2-metadata-token-ttl-seconds: 600\r\n\r\n",
                answer.len()
            );
            let _ = stream.write_all(format!("{head}{answer}").as_bytes());
            if asked.send(String::from_utf8_lossy(&request[..length]).into_owned()).is_err() {
                break;
            }
        }
    });
    receiver
}

/// Runs `tenure status` with these variables and no other credentials. Returns the token that the
/// store received.
fn token_seen_with(env: &[(&str, String)]) -> String {
    let server = S3Server::start_blocking();
    let output = without_keys(&server, &["status"], env).output().expect("the command runs");
    assert!(output.status.success(), "{output:?}");
    let seen = server.last(Op::List);
    seen.headers["x-amz-security-token"].to_str().expect("text").to_owned()
}

/// Returns the command with these variables, and without the keys of the server.
fn without_keys(server: &S3Server, verb: &[&str], env: &[(&str, String)]) -> Command {
    let mut command = Command::new(crate::TENURE);
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("AWS_")) {
        command.env_remove(name);
    }
    let rest = server
        .env()
        .into_iter()
        .filter(|(name, _)| !name.contains("_ACCESS_KEY") && !name.contains("ENDPOINT"));
    command.envs(rest).env("AWS_ENDPOINT_URL_S3", server.endpoint());
    command.envs(env.iter().map(|(name, value)| (name, value)));
    command.args(&verb[..1]).args(["--store", "s3://tenure-test/app"]).args(&verb[1..]);
    command
}

/// The machine has no role, or its metadata service refuses the requests. The error must be one
/// line without text of the SDK.
#[test]
fn regression_a_refusing_metadata_service_exits_with_77_and_one_line() {
    let without_a_role = |line: &str| match line.starts_with("PUT ") {
        true => "200 OK",
        false => "404 Not Found",
    };
    let refusals: [fn(&str) -> &'static str; 3] =
        [|_| "403 Forbidden", |_| "404 Not Found", without_a_role];
    for (index, status) in refusals.into_iter().enumerate() {
        let (address, asked) = service_with(status, "text/plain", "a-token".to_owned());
        let server = S3Server::start_blocking();
        let env = [("AWS_EC2_METADATA_SERVICE_ENDPOINT", format!("http://{address}"))];
        let mut command = without_keys(&server, &["status"], &env);
        command.env_remove("AWS_EC2_METADATA_DISABLED").env_remove("RUST_LOG");
        command.env("HOME", "/nonexistent");
        let output = command.output().expect("the command runs");
        let said = String::from_utf8(output.stderr).expect("text");
        assert_eq!(output.status.code(), Some(77), "{index}: {said}");
        let lines: Vec<_> = said.lines().collect();
        let [line] = lines[..] else { panic!("{index}: the output is not one line: {said}") };
        assert!(line.contains("no credentials: set AWS_ACCESS_KEY_ID"), "{line}");
        assert!(!line.contains("HttpResponse") && !line.contains("source:"), "{line}");
        assert!(asked.try_recv().is_ok(), "the service got a request");
    }
}

/// The command must read the region from the metadata service of the machine, and this service may
/// start after the command. So `run --forever` and `watch` wait for the metadata service.
#[test]
fn regression_a_service_waits_for_the_region_of_its_machine() {
    for verb in [&["run", "--forever", "--", "true"][..], &["watch"]] {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let metadata = format!("http://{}", listener.local_addr().expect("the listener is bound"));
        let (scene, server) = (Scene::new(crate::TENURE), S3Server::start_blocking());
        let proxy = Proxy::start("503 Service Unavailable", &[]);
        let env = [
            ("AWS_EC2_METADATA_SERVICE_ENDPOINT", metadata),
            ("AWS_ACCESS_KEY_ID", ACCESS_KEY.to_owned()),
            ("AWS_SECRET_ACCESS_KEY", SECRET_KEY.to_owned()),
            ("HTTPS_PROXY", proxy.url()),
        ];
        let mut command = without_keys(&server, verb, &env);
        for name in ["AWS_EC2_METADATA_DISABLED", "AWS_REGION", "AWS_ENDPOINT_URL_S3"] {
            command.env_remove(name);
        }
        scene.surround(&mut command);
        let candidate = scene.start("a", command);
        candidate.says("trying again");
        candidate.says("no region: set AWS_REGION");
        assert_eq!(proxy.requests(), [""; 0]);
        let _asked = serve(listener, |_| "200 OK", "text/plain", "eu-test-7".to_owned());
        eventually("the request names the region", || {
            proxy.requests().iter().any(|line| line.contains("tenure-test.s3.eu-test-7."))
        });
    }
}

#[test]
fn pod_identity_and_container_roles_provide_credentials() {
    let dir = tempfile::tempdir().expect("a directory");
    let token = dir.path().join("token");
    fs::write(&token, "token-of-the-pod").expect("a file");
    let (address, asked) = service(
        "application/json",
        format!(
            r#"{{"AccessKeyId":"{ACCESS_KEY}","SecretAccessKey":"{SECRET_KEY}","Token":"of-the-container","Expiration":"2099-01-01T00:00:00Z"}}"#
        ),
    );
    let seen = token_seen_with(&[
        ("AWS_CONTAINER_CREDENTIALS_FULL_URI", format!("http://{address}/v1/credentials")),
        ("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", token.display().to_string()),
    ]);
    assert_eq!(seen, "of-the-container");
    let request = asked.recv().expect("the service got a request");
    assert!(request.starts_with("GET /v1/credentials "), "{request}");
    assert!(request.contains("token-of-the-pod"), "{request}");
}

#[test]
fn web_identity_provides_credentials() {
    let dir = tempfile::tempdir().expect("a directory");
    let token = dir.path().join("token");
    fs::write(&token, "token-of-the-pod").expect("a file");
    let role = "arn:aws:iam::111122223333:role/tenure-compactor";
    let (address, asked) = service(
        "text/xml",
        format!(
            "<AssumeRoleWithWebIdentityResponse \
             xmlns=\"https://sts.amazonaws.com/doc/2011-06-15/\">\
             <AssumeRoleWithWebIdentityResult><Credentials>\
             <AccessKeyId>{ACCESS_KEY}</AccessKeyId>\
             <SecretAccessKey>{SECRET_KEY}</SecretAccessKey>\
             <SessionToken>of-the-role</SessionToken>\
             <Expiration>2099-01-01T00:00:00Z</Expiration></Credentials>\
             <AssumedRoleUser><Arn>arn:aws:sts::111122223333:assumed-role/tenure-compactor/a</Arn>\
             <AssumedRoleId>AROA:a</AssumedRoleId></AssumedRoleUser>\
             </AssumeRoleWithWebIdentityResult></AssumeRoleWithWebIdentityResponse>"
        ),
    );
    let seen = token_seen_with(&[
        ("AWS_WEB_IDENTITY_TOKEN_FILE", token.display().to_string()),
        ("AWS_ROLE_ARN", role.to_owned()),
        ("AWS_ENDPOINT_URL_STS", format!("http://{address}")),
    ]);
    assert_eq!(seen, "of-the-role");
    assert!(asked.recv().expect("the service got a request").starts_with("POST / "));
}
