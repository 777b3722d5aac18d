//! Tests which protocols clients offer to a server with TLS, and which certificates they trust.
#![cfg(feature = "s3")]

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::Acceptor;

use super::s3_store::environment::child;

const AUTHORITY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/stores/tls/authority.pem");

/// The protocols that the client has offered. Each element of the outer list is one connection.
type Offered = Arc<Mutex<Vec<Vec<String>>>>;

/// Starts a server that answers one request on each connection. Each answer is a success.
fn server() -> (String, Offered) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let url = format!("https://localhost:{}", listener.local_addr().expect("bound").port());
    let offered = Offered::default();
    let seen = Arc::clone(&offered);
    std::thread::spawn(move || {
        for connection in listener.incoming().flatten() {
            // A client that does not trust the certificate closes the connection.
            let _ = serve(connection, &seen);
        }
    });
    (url, offered)
}

fn serve(mut connection: TcpStream, seen: &Offered) -> std::io::Result<()> {
    let mut acceptor = Acceptor::default();
    let accepted = loop {
        acceptor.read_tls(&mut connection)?;
        match acceptor.accept() {
            Ok(Some(accepted)) => break accepted,
            Ok(None) => {}
            Err((error, _)) => return Err(std::io::Error::other(error)),
        }
    };
    let hello = accepted.client_hello();
    let protocols = hello.alpn().into_iter().flatten();
    let protocols = protocols.map(|name| String::from_utf8_lossy(name).into_owned()).collect();
    seen.lock().expect("no test panics here").push(protocols);
    let certificate = CertificateDer::from_pem_slice(include_bytes!("tls/server.pem"));
    let key = PrivateKeyDer::from_pem_slice(include_bytes!("tls/server.key"));
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("ring supports them")
        .with_no_client_auth()
        .with_single_cert(vec![certificate.expect("PEM")], key.expect("PEM"))
        .expect("the key belongs to the certificate");
    let accepted = accepted.into_connection(Arc::new(config));
    let mut tls = accepted.map_err(|(error, _)| std::io::Error::other(error))?;
    let mut stream = rustls::Stream::new(&mut tls, &mut connection);
    let mut request = Vec::new();
    while !request.windows(4).any(|end| end == b"\r\n\r\n") {
        let mut part = [0; 4_096];
        match stream.read(&mut part)? {
            0 => return Ok(()),
            len => request.extend_from_slice(&part[..len]),
        }
    }
    stream.write_all(
        b"HTTP/1.1 200 OK\r\netag: \"1\"\r\ncontent-length: 0\r\nconnection: close\r\n\r\n",
    )?;
    stream.conn.send_close_notify();
    stream.flush()
}

fn environment(url: String, bundle: &str) -> Vec<(&'static str, String)> {
    vec![
        ("AWS_ENDPOINT_URL", url),
        ("AWS_CA_BUNDLE", bundle.to_owned()),
        ("AWS_EC2_METADATA_DISABLED", "true".to_owned()),
        ("AWS_ACCESS_KEY_ID", "AKIAIOSFODNN7EXAMPLE".to_owned()),
        ("AWS_SECRET_ACCESS_KEY", "secret".to_owned()),
    ]
}

fn create(env: &[(&'static str, String)]) -> String {
    let output = child("s3_store::environment::a_create_in_a_bucket_of_the_environment", env);
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).expect("text")
}

/// The client must not offer HTTP/2. With HTTP/2, all requests share one connection, and the client
/// would never abandon a half-open connection.
#[test]
fn regression_s3_offers_only_http_1() {
    let (url, offered) = server();
    create(&environment(url, AUTHORITY));
    let offered = offered.lock().expect("no test panics here");
    assert_eq!(*offered, [["http/1.1"]]);
}

#[cfg(feature = "dynamodb")]
#[test]
fn regression_dynamodb_offers_only_http_1() {
    let (url, offered) = server();
    super::dynamodb_store::environment::reading_child(&environment(url, AUTHORITY));
    let offered = offered.lock().expect("no test panics here");
    assert!(!offered.is_empty());
    assert!(offered.iter().all(|names| names == &["http/1.1"]), "{offered:?}");
}

#[test]
fn regression_the_ca_bundle_of_the_environment_is_trusted() {
    let (url, _) = server();
    let said = create(&environment(url.clone(), AUTHORITY));
    assert!(said.contains("Done"), "{said}");
    let said = create(&environment(url, ""));
    assert!(said.contains("no connection") && said.contains("UnknownIssuer"), "{said}");
}

#[test]
fn regression_the_ca_bundle_of_the_profile_is_trusted() {
    let (url, _) = server();
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("config");
    std::fs::write(&file, format!("[default]\nca_bundle = {AUTHORITY}\n")).expect("written");
    let mut env = environment(url, AUTHORITY);
    env[1] = ("AWS_CONFIG_FILE", file.display().to_string());
    let said = create(&env);
    assert!(said.contains("Done"), "{said}");
}

#[test]
fn the_error_names_an_invalid_ca_bundle_and_no_request_is_sent() {
    let (url, offered) = server();
    let dir = tempfile::tempdir().expect("a directory");
    let empty = dir.path().join("empty.pem");
    std::fs::write(&empty, "").expect("written");
    for bundle in ["/nowhere/ca.pem", &empty.display().to_string()] {
        let said = create(&environment(url.clone(), bundle));
        for word in ["Invalid, Determinate", "AWS_CA_BUNDLE", bundle] {
            assert!(said.contains(word), "{said}");
        }
    }
    assert!(offered.lock().expect("no test panics here").is_empty());
}
