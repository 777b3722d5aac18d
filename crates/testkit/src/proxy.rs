//! An HTTP proxy that returns the same response to every request and records the request lines.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

/// A proxy that runs until the process ends.
pub struct Proxy {
    address: SocketAddr,
    seen: Arc<Mutex<Vec<String>>>,
}

impl Proxy {
    pub fn start(status: &str, headers: &[(&str, &str)]) -> Proxy {
        Proxy::start_with_body(status, headers, "")
    }

    pub fn start_with_body(status: &str, headers: &[(&str, &str)], body: &str) -> Proxy {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a free port");
        let address = listener.local_addr().expect("a bound listener has an address");
        let headers: String =
            headers.iter().map(|(name, value)| format!("{name}: {value}\r\n")).collect();
        let length = body.len();
        let answer = format!(
            "HTTP/1.1 {status}\r\n{headers}Content-Length: {length}\r\n\
             Connection: close\r\n\r\n{body}"
        );
        let seen = Arc::<Mutex<Vec<String>>>::default();
        let for_thread = Arc::clone(&seen);
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                // An error means that the client disconnected before it sent a request.
                let _ = stream.and_then(|stream| serve(stream, &answer, &for_thread));
            }
        });
        Proxy { address, seen }
    }

    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Returns the method and the URL of each request.
    pub fn requests(&self) -> Vec<String> {
        self.seen.lock().unwrap().clone()
    }
}

/// Reads one request, and records its first line before it sends the response. So the proxy has
/// recorded a client's request before the client receives the response.
fn serve(stream: TcpStream, answer: &str, seen: &Mutex<Vec<String>>) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream);
    let mut head = Vec::new();
    loop {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        if line.trim_end().is_empty() {
            break;
        }
        head.push(line.trim_end().to_owned());
    }
    let length = head.iter().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse().ok())?
    });
    reader.read_exact(&mut vec![0; length.unwrap_or(0)])?;
    let first = head.first().map_or("", |line| line.trim_end_matches(" HTTP/1.1"));
    seen.lock().unwrap().push(first.to_owned());
    reader.get_mut().write_all(answer.as_bytes())
}
