//! A TCP proxy, which can cut the connections to a third-party server. A separate proxy for one
//! process can cut off this process from the server.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::runtime::Runtime;
use tokio::sync::watch;

pub struct Proxy {
    address: SocketAddr,
    shared: Arc<Shared>,
}

struct Shared {
    upstream: String,
    /// True while the proxy closes all connections, old and new, as if the server were down.
    away: watch::Sender<bool>,
    /// True while the proxy holds all bytes back, and keeps the connections open.
    silent: watch::Sender<bool>,
    /// Number of connections to cut. The proxy cuts each at the next answer of the server.
    cuts: AtomicUsize,
    cut: AtomicUsize,
}

impl Proxy {
    /// Starts a proxy for the server at this URL on this runtime.
    pub fn start(runtime: &Runtime, endpoint: &str) -> Proxy {
        let upstream = endpoint.strip_prefix("http://").expect("scripts start servers without TLS");
        let upstream = upstream.trim_end_matches('/').to_owned();
        let shared = Arc::new(Shared {
            upstream,
            away: watch::Sender::new(false),
            silent: watch::Sender::new(false),
            cuts: AtomicUsize::new(0),
            cut: AtomicUsize::new(0),
        });
        let listener = runtime.block_on(TcpListener::bind((Ipv4Addr::LOCALHOST, 0)));
        let listener = listener.expect("a free port");
        let address = listener.local_addr().expect("a bound listener has an address");
        let of_task = Arc::clone(&shared);
        runtime.spawn(async move {
            loop {
                let Ok((client, _)) = listener.accept().await else { continue };
                let shared = Arc::clone(&of_task);
                tokio::spawn(async move {
                    let mut away = shared.away.subscribe();
                    tokio::select! {
                        biased;
                        _ = away.wait_for(|away| *away) => {}
                        _ = pass_on(client, &shared) => {}
                    }
                });
            }
        });
        Proxy { address, shared }
    }

    pub fn endpoint(&self) -> String {
        format!("http://{}", self.address)
    }

    pub fn go_away(&self, away: bool) {
        self.shared.away.send_replace(away);
    }

    /// Holds back all requests and answers until the silence ends. Then they arrive late.
    pub fn fall_silent(&self, silent: bool) {
        self.shared.silent.send_replace(silent);
    }

    /// Cuts this number of connections, each after the server has begun to answer a request. By
    /// then, this request has taken effect.
    pub fn cut_after(&self, answers: usize) {
        self.shared.cuts.fetch_add(answers, Ordering::Relaxed);
    }

    pub fn calm(&self) {
        self.go_away(false);
        self.fall_silent(false);
        self.shared.cuts.store(0, Ordering::Relaxed);
    }

    /// Returns the number of connections that the proxy has cut. In each of them, a request had
    /// taken effect.
    pub fn cut(&self) -> usize {
        self.shared.cut.load(Ordering::Relaxed)
    }
}

/// Copies bytes between client and server until one of them or a fault closes the connection.
async fn pass_on(mut client: TcpStream, shared: &Shared) -> io::Result<()> {
    let mut server = TcpStream::connect(&shared.upstream).await?;
    let (mut from_client, mut to_client) = client.split();
    let (mut from_server, mut to_server) = server.split();
    let requests = async {
        let mut silent = shared.silent.subscribe();
        let mut buffer = vec![0; 1 << 16];
        loop {
            let length = from_client.read(&mut buffer).await?;
            // Wait until the proxy is not silent. The wait fails only after the proxy is dropped,
            // so ignore its error.
            let _ = silent.wait_for(|silent| !silent).await;
            if length == 0 {
                return io::Result::Ok(());
            }
            to_server.write_all(&buffer[..length]).await?;
        }
    };
    let answers = async {
        let mut silent = shared.silent.subscribe();
        let mut buffer = vec![0; 1 << 16];
        loop {
            let length = from_server.read(&mut buffer).await?;
            let one_less = |cuts: usize| cuts.checked_sub(1);
            let (set, get) = (Ordering::Relaxed, Ordering::Relaxed);
            if length == 0 {
                return io::Result::Ok(());
            }
            if shared.cuts.fetch_update(set, get, one_less).is_ok() {
                shared.cut.fetch_add(1, Ordering::Relaxed);
                return Ok(());
            }
            let _ = silent.wait_for(|silent| !silent).await;
            to_client.write_all(&buffer[..length]).await?;
        }
    };
    tokio::select! {
        sent = requests => sent,
        answered = answers => answered,
    }
}
