//! `--app-health`: checks the application. `serve` leads and joins groups only while the
//! application is healthy. `run` and `group run` stop a CMD that is not healthy.

use std::future::pending;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Mutex;
use std::time::{Duration, SystemTime};

use futures::future::join;
use hyper::header::{CONNECTION, HOST};
use hyper::{Request, client::conn::http1};
use hyper_util::rt::TokioIo;
use tenure::Process;
use tokio::net::TcpStream;
use tokio::sync::watch;
use tracing::{info, warn};
use url::{Host, Url};

use crate::args::common::{DAY, from_to};
use crate::exit::{self, Failure};
use crate::output::print::in_ms;
use crate::process::lock::lock;
use crate::process::timer::pause;
use crate::store::patience::on_a_thread;

#[derive(Debug, Clone, clap::Args)]
pub struct AppHealthArgs {
    /// Health check of the application: http://URL or file:PATH; `serve` also takes `heartbeat`.
    ///
    /// Signs of health are a 2xx of the URL, a touch of the file by the application, and its POST
    /// /v1/heartbeat to `serve`. Once the deadline has passed without a sign of health, `run` and
    /// `group run` stop CMD, and `serve` resigns and gives up its sessions. `serve` campaigns and
    /// joins groups only while the application works. For `serve` the check is no fence: an
    /// application that hangs may continue later. `group run` replaces `{partition}` in the check
    /// by the name of the partition. The URL must not contain a user or a password, and its host
    /// must not contain `{partition}`.
    #[arg(long, value_name = "CHECK", value_parser = str::parse::<Check>)]
    #[arg(env = "TENURE_APP_HEALTH", help_heading = "Health")]
    app_health: Option<Check>,
    /// Maximum time without a sign of health: at least 100ms, at most 24h [default: 30s]
    ///
    /// The same limit applies to the first sign of health after the start of CMD.
    #[arg(long, value_name = "DURATION", value_parser = from_to(SHORTEST_DEADLINE, DAY))]
    #[arg(requires = "app_health", env = "TENURE_APP_HEALTH_DEADLINE")]
    #[arg(help_heading = "Health", hide_short_help = true)]
    app_health_deadline: Option<Duration>,
}

const DEFAULT_DEADLINE: Duration = Duration::from_secs(30);
const SHORTEST_DEADLINE: Duration = Duration::from_millis(100);
/// The placeholder in the URL or the path of `--app-health`. The name of the partition replaces it.
const PARTITION: &str = "{partition}";
/// The longest pause between two checks, and the time limit of one check.
const LONGEST_LOOK: Duration = Duration::from_secs(5);

/// The value of `--app-health`: how the application shows that it works.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Check {
    Url(Url),
    File(PathBuf),
    Heartbeat,
}

impl FromStr for Check {
    type Err = String;

    fn from_str(text: &str) -> Result<Check, String> {
        if text == "heartbeat" {
            return Ok(Check::Heartbeat);
        }
        if let Some(path) = text.strip_prefix("file:").filter(|path| !path.is_empty()) {
            return Ok(Check::File(path.into()));
        }
        let refused = match Url::parse(text) {
            Ok(url) if !url.username().is_empty() || url.password().is_some() => {
                "the URL must not contain a user or a password, because the check sends none"
            }
            Ok(url) if url.host_str().is_some_and(|host| host.contains(PARTITION)) => {
                "the host must not contain {partition}: write it into the path or the query"
            }
            Ok(url) if url.scheme() == "http" && url.has_host() => return Ok(Check::Url(url)),
            _ => {
                "write http://127.0.0.1:8000/healthz, file:PATH, or heartbeat; https is not \
                 supported, because the application runs on the same machine"
            }
        };
        Err(refused.to_owned())
    }
}

impl Check {
    fn of_partition(&self, name: &str) -> Check {
        match self {
            Check::Url(url) => {
                let name = escaped(name);
                // The parser of the URL may have escaped the braces of the placeholder.
                let text = url.as_str().replace("%7Bpartition%7D", &name);
                let of_partition = Url::parse(&text.replace(PARTITION, &name));
                Check::Url(of_partition.unwrap_or_else(|_| url.clone()))
            }
            Check::File(path) => {
                Check::File(path.to_string_lossy().replace(PARTITION, name).into())
            }
            Check::Heartbeat => Check::Heartbeat,
        }
    }
}

/// Returns the name with an escape for each byte that could end the path or the value of a query.
fn escaped(name: &str) -> String {
    let bytes = name.bytes().map(|byte| match byte {
        b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' | b'/' => {
            char::from(byte).to_string()
        }
        _ => format!("%{byte:02X}"),
    });
    bytes.collect()
}

/// The health of the application, according to its signs of health.
#[derive(Debug)]
pub struct AppHealth {
    /// The check of `--app-health`. If `None`, the application always counts as healthy.
    check: Option<Check>,
    deadline: Duration,
    process: Process,
    /// The time of the application's last sign of health, on the boot clock.
    worked: Mutex<Option<Duration>>,
    healthy: watch::Sender<bool>,
}

impl AppHealth {
    pub fn new(args: &AppHealthArgs) -> AppHealth {
        let deadline = args.app_health_deadline.unwrap_or(DEFAULT_DEADLINE);
        let healthy = watch::Sender::new(args.app_health.is_none());
        let (check, process) = (args.app_health.clone(), Process::system());
        AppHealth { check, deadline, process, worked: Mutex::default(), healthy }
    }

    /// Returns the health of a CMD that this process will start. Refuses `heartbeat`, because only
    /// `serve` has an API for it.
    pub fn of_cmd(args: &AppHealthArgs) -> Result<AppHealth, Failure> {
        if args.app_health == Some(Check::Heartbeat) {
            let why = "--app-health heartbeat needs `serve`: use an http:// URL or file:PATH";
            return Err(Failure::new(exit::USAGE, why));
        }
        Ok(AppHealth::new(args))
    }

    /// Returns the health of the CMD for this partition. In the URL or the path of the check, the
    /// name of the partition replaces `{partition}`.
    pub fn of_partition(&self, name: &str) -> AppHealth {
        let check = self.check.as_ref().map(|check| check.of_partition(name));
        let (deadline, process) = (self.deadline, self.process.clone());
        let healthy = watch::Sender::new(true);
        AppHealth { check, deadline, process, worked: Mutex::default(), healthy }
    }

    /// Watches the health of a CMD that has just started. Returns after the deadline has passed
    /// without a sign of health. The result is the reason to stop CMD. Never returns if there is no
    /// check.
    pub async fn until_unhealthy(&self) -> String {
        if self.check.is_none() {
            return pending().await;
        }
        *lock(&self.worked) = Some(self.now());
        self.healthy.send_replace(true);
        let mut healthy = self.healthy();
        tokio::select! {
            () = self.run() => {}
            _ = healthy.wait_for(|healthy| !healthy) => {}
        }
        self.why()
    }

    fn why(&self) -> String {
        format!("the application showed no sign of health for {}", in_ms(self.deadline))
    }

    pub fn healthy(&self) -> watch::Receiver<bool> {
        self.healthy.subscribe()
    }

    /// Records a heartbeat of the application. Returns `false` if the check is not `heartbeat`.
    pub fn heartbeat(&self) -> bool {
        let counts = self.check == Some(Check::Heartbeat);
        if counts {
            self.works(self.now());
        }
        counts
    }

    pub fn deadline(&self) -> Duration {
        self.deadline
    }

    /// Repeats the check of the application forever.
    pub async fn run(&self) {
        let looks = async {
            match &self.check {
                Some(Check::Url(url)) => self.ask(url).await,
                Some(Check::File(path)) => self.watch(path).await,
                Some(Check::Heartbeat) | None => {}
            }
        };
        match self.check {
            Some(_) => drop(join(looks, self.judge()).await),
            None => pending().await,
        }
    }

    fn now(&self) -> Duration {
        self.process.now().boot
    }

    /// Records a sign of health that the application gave at the time `at`.
    fn works(&self, at: Duration) {
        *lock(&self.worked) = Some(at);
        self.settle();
    }

    fn settle(&self) {
        let worked = *lock(&self.worked);
        let healthy = worked.is_some_and(|at| self.now().saturating_sub(at) < self.deadline);
        let changed =
            self.healthy.send_if_modified(|was| std::mem::replace(was, healthy) != healthy);
        match changed {
            true if healthy => info!(outcome = "app_healthy", "the application is healthy"),
            true => warn!(outcome = "app_unhealthy", "{}", self.why()),
            false => {}
        }
    }

    /// Compares the time since the last sign of health with the deadline again and again, because
    /// no event reports that the deadline has passed.
    async fn judge(&self) {
        loop {
            pause((self.deadline / 20).min(Duration::from_millis(250))).await;
            self.settle();
        }
    }

    fn interval(&self) -> Duration {
        (self.deadline / 5).min(LONGEST_LOOK)
    }

    async fn ask(&self, url: &Url) {
        loop {
            let asked = self.now();
            let limit = (self.deadline / 3).min(LONGEST_LOOK);
            tokio::select! {
                well = answers_well(url) => if well { self.works(asked) },
                () = pause(limit) => {}
            }
            pause(self.interval()).await;
        }
    }

    /// Watches the file. The file must change to be a sign of health, because an earlier
    /// application may have left it.
    async fn watch(&self, path: &Path) {
        let mut known = written(path).await;
        loop {
            pause(self.interval()).await;
            let found = written(path).await;
            if found.is_some() && found != known {
                self.works(self.now());
            }
            known = found;
        }
    }
}

/// Returns the modification time of a file. This time comes from the clock of the file system, so
/// callers compare it only with other modification times of the same file.
async fn written(path: &Path) -> Option<SystemTime> {
    let path = path.to_owned();
    // A hanging disk must not delay the renewals, so another thread reads the modification time.
    let found = on_a_thread(move || std::fs::metadata(path)).await.ok()?;
    found.ok()?.modified().ok()
}

/// Returns whether the URL answers with a status of 2xx. Does not read the body of the answer.
async fn answers_well(url: &Url) -> bool {
    let Some(addresses) = addresses(url).await else { return false };
    let Ok(stream) = TcpStream::connect(&addresses[..]).await else { return false };
    let Ok((mut sender, connection)) = http1::handshake(TokioIo::new(stream)).await else {
        return false;
    };
    let path = &url[url::Position::BeforePath..url::Position::AfterQuery];
    let request = Request::get(path)
        .header(HOST, &url[url::Position::BeforeHost..url::Position::AfterPort])
        .header(CONNECTION, "close")
        .body(String::new());
    let Ok(request) = request else { return false };
    let mut asking = std::pin::pin!(sender.send_request(request));
    let reply = tokio::select! {
        biased;
        reply = &mut asking => reply,
        // The connection has ended, but `asking` may already contain the reply, so this branch also
        // awaits `asking`.
        _ = connection => asking.await,
    };
    reply.is_ok_and(|reply| reply.status().is_success())
}

/// Returns the addresses of the host. Returns `None` if the host has no address, or if the system
/// cannot start a thread for the lookup.
async fn addresses(url: &Url) -> Option<Vec<SocketAddr>> {
    if matches!(url.host(), Some(Host::Domain(_))) {
        let url = url.clone();
        return on_a_thread(move || url.socket_addrs(|| None)).await.ok()?.ok();
    }
    url.socket_addrs(|| None).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Before the fix, if the system refused a new thread, the check of a URL panicked and ended
    /// `tenure run`.
    #[test]
    fn regression_the_check_fails_if_no_thread_can_be_started() {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            // No system can create a thread with a stack of this size.
            .thread_stack_size(1 << 47)
            .build()
            .expect("a runtime without further threads");
        let url = Url::parse("http://localhost:1/").expect("a URL");
        assert!(!runtime.block_on(answers_well(&url)));
        let url = Url::parse("http://[::1]:1/").expect("a URL");
        let address = "[::1]:1".parse().expect("an address");
        assert_eq!(runtime.block_on(addresses(&url)), Some(vec![address]));
    }

    /// Before the fix, the check silently ignored a user and a password in the URL, and a
    /// partition's name could change the host.
    #[test]
    fn regression_a_url_with_a_user_or_a_partition_in_its_host_is_refused() {
        for (wrong, why) in [
            ("http://anna@localhost/", "a user or a password"),
            ("http://:secret@localhost/", "a user or a password"),
            ("http://{partition}/", "the host must not contain {partition}"),
            ("http://app.%7Bpartition%7D:80/", "the host must not contain {partition}"),
        ] {
            let refused = wrong.parse::<Check>();
            assert!(refused.as_ref().is_err_and(|it| it.contains(why)), "{wrong}: {refused:?}");
        }
    }

    #[test]
    fn a_check_is_a_url_a_file_or_heartbeats() {
        assert_eq!("heartbeat".parse(), Ok(Check::Heartbeat));
        assert_eq!("file:/run/ok".parse(), Ok(Check::File("/run/ok".into())));
        assert!(matches!("http://127.0.0.1:1/x?y".parse(), Ok(Check::Url(_))));
        for wrong in ["", "file:", "https://x/", "http:", "/run/ok", "Heartbeat", "ftp://x/"] {
            assert!(wrong.parse::<Check>().is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn each_partition_has_its_own_check() {
        for (text, check) in [
            ("file:/run/{partition}/ok", "file:/run/a b/ok"),
            ("http://127.0.0.1:1/{partition}?of={partition}", "http://127.0.0.1:1/a b?of=a b"),
            ("http://127.0.0.1:1/x", "http://127.0.0.1:1/x"),
        ] {
            let parsed = |text: &str| text.parse::<Check>().expect("a check");
            assert_eq!(parsed(text).of_partition("a b"), parsed(check), "{text}");
        }
    }

    #[test]
    fn regression_the_name_of_a_partition_is_escaped_in_a_url() {
        let check: Check = "http://127.0.0.1:1/{partition}?of={partition}".parse().expect("a URL");
        for (name, escaped) in
            [("job#1", "job%231"), ("a&b?c+d", "a%26b%3Fc%2Bd"), ("1%25", "1%2525"), ("a/b", "a/b")]
        {
            let Check::Url(url) = check.of_partition(name) else { panic!("{name}: not a URL") };
            assert_eq!(url.as_str(), format!("http://127.0.0.1:1/{escaped}?of={escaped}"));
        }
    }
}
