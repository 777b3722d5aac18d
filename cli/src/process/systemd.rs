//! Messages to systemd. They report readiness, a status text and the end of this process, and they
//! reset the watchdog. See sd_notify(3).
//!
//! A send never blocks, because the main task must continue while systemd hangs and the queue of
//! its socket is full. A send of the crate `sd-notify` would block in this case.

use std::env;
use std::ffi::{OsStr, OsString};
use std::io;
#[cfg(target_os = "linux")]
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::sync::Mutex;
use std::time::Duration;

use tracing::warn;

use super::lock::lock;
use crate::output::print::plain;

/// The environment variables that systemd sets for this process. CMD and hooks do not inherit these
/// variables, so they cannot send messages to systemd on behalf of this process.
pub const OWN_VARIABLES: [&str; 3] = [SOCKET, "WATCHDOG_PID", WATCHDOG];
const SOCKET: &str = "NOTIFY_SOCKET";
const WATCHDOG: &str = "WATCHDOG_USEC";

/// Maximum length of a status text in characters. systemd drops messages of 4 KiB or more.
const MOST_TEXT: usize = 400;

/// The state of this process, as systemd shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServiceState {
    /// True if this process leads, is a member of its group, or serves its API. After the first
    /// `true`, systemd considers the service ready until the service ends.
    pub ready: bool,
    /// The status text, such as `held: leading epoch 7, 42s left`.
    pub text: String,
}

/// The socket and the watchdog of systemd, if systemd has started this process.
#[derive(Debug)]
pub struct Systemd {
    socket: Option<OsString>,
    /// Time after which systemd restarts this process if no message arrives.
    watchdog: Option<Duration>,
    sent: Mutex<Sent>,
}

/// The last values that this process has sent to systemd, and whether its last message to systemd
/// failed.
#[derive(Debug, Default)]
struct Sent {
    ready: bool,
    text: String,
    failed: bool,
}

impl Systemd {
    /// Returns the socket and the watchdog that the environment variables of this process describe.
    pub fn of_this_process() -> Systemd {
        let is_for_us =
            env::var("WATCHDOG_PID").map_or(true, |pid| pid.parse() == Ok(std::process::id()));
        let watchdog = env::var(WATCHDOG).ok().filter(|_| is_for_us);
        let watchdog = watchdog.and_then(|micros| micros.parse().ok()).map(Duration::from_micros);
        Systemd::new(env::var_os(SOCKET), watchdog)
    }

    pub fn new(socket: Option<OsString>, watchdog: Option<Duration>) -> Systemd {
        let socket = socket.filter(|socket| !socket.is_empty());
        let watchdog = watchdog.filter(|time| !time.is_zero());
        Systemd { socket, watchdog, sent: Mutex::default() }
    }

    /// Returns the longest pause between two calls of [`notify`](Systemd::notify).
    pub fn notify_every(&self) -> Option<Duration> {
        self.watchdog.map(|time| time / 2)
    }

    /// Sends the state if it has changed, and `WATCHDOG=1` if the service has a watchdog. Only the
    /// main task may call this function, so that the watchdog gets no message while the main task
    /// hangs.
    pub fn notify(&self, state: impl FnOnce() -> ServiceState) {
        let Some(socket) = &self.socket else { return };
        let ServiceState { ready, text } = state();
        let text = shortened(text);
        let mut sent = lock(&self.sent);
        let mut lines = Vec::new();
        if ready && !sent.ready {
            lines.push("READY=1".to_owned());
        }
        if text != sent.text {
            lines.push(format!("STATUS={text}"));
        }
        if self.watchdog.is_some() {
            lines.push("WATCHDOG=1".to_owned());
        }
        if lines.is_empty() {
            return;
        }
        match send(socket, &lines.join("\n")) {
            Ok(()) => {
                sent.ready |= ready;
                sent.text = text;
                sent.failed = false;
            }
            Err(error) if !std::mem::replace(&mut sent.failed, true) => {
                let socket = plain(&socket.to_string_lossy());
                warn!("systemd cannot be notified at {socket}, trying again: {error}");
            }
            Err(_) => {}
        }
    }

    /// Reports to systemd that this process is about to end.
    pub fn notify_stopping(&self) {
        if let Some(socket) = &self.socket {
            // systemd notices the end of this process even without the message, so the error is
            // ignored.
            let _ = send(socket, "STOPPING=1");
        }
    }
}

/// Returns the text, or the beginning of a long text. `…` marks the cut.
fn shortened(text: String) -> String {
    match text.char_indices().nth(MOST_TEXT) {
        Some(_) => text.chars().take(MOST_TEXT - 1).chain(['…']).collect(),
        None => text,
    }
}

fn send(socket: &OsStr, message: &str) -> io::Result<()> {
    let sender = UnixDatagram::unbound()?;
    sender.set_nonblocking(true)?;
    sender.send_to_addr(message.as_bytes(), &address(socket)?).map(drop)
}

/// Returns the address of the socket. `@` marks a name in the abstract namespace of Linux.
fn address(socket: &OsStr) -> io::Result<SocketAddr> {
    #[cfg(target_os = "linux")]
    if let Some(name) = socket.as_bytes().strip_prefix(b"@") {
        return SocketAddr::from_abstract_name(name);
    }
    SocketAddr::from_pathname(socket)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_ready_after(socket: &str) -> bool {
        let systemd = Systemd::new(Some(socket.into()), None);
        systemd.notify(|| ServiceState { ready: true, text: "held".to_owned() });
        lock(&systemd.sent).ready
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn regression_an_abstract_socket_gets_the_state() {
        let name = format!("tenure-test-{}", std::process::id());
        let address = SocketAddr::from_abstract_name(&name).expect("a short name");
        let systemd = UnixDatagram::bind_addr(&address).expect("a free name");
        assert!(is_ready_after(&format!("@{name}")));
        let mut message = [0; 64];
        let length = systemd.recv(&mut message).expect("a message");
        assert_eq!(&message[..length], b"READY=1\nSTATUS=held");
    }

    /// Before the fix, only the first failed message to systemd was logged. If a later message
    /// succeeded, and the next one failed, the log did not show this failure.
    #[test]
    fn regression_each_failure_after_a_success_is_reported() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("notify");
        let systemd = Systemd::new(Some(path.clone().into()), None);
        let failed = |text: &str| {
            systemd.notify(|| ServiceState { ready: true, text: text.to_owned() });
            lock(&systemd.sent).failed
        };
        assert!(failed("held"));
        let _socket = UnixDatagram::bind(&path).expect("a free name");
        assert!(!failed("held"));
    }

    #[test]
    fn regression_a_cut_text_is_marked() {
        assert_eq!(shortened("ä".repeat(MOST_TEXT)), "ä".repeat(MOST_TEXT));
        assert_eq!(shortened("ä".repeat(MOST_TEXT + 1)), "ä".repeat(MOST_TEXT - 1) + "…");
    }

    #[test]
    fn regression_an_empty_variable_is_no_socket() {
        assert_eq!(Systemd::new(Some(OsString::new()), None).socket, None);
        assert!(
            !is_ready_after("/no/such/socket"),
            "the message is sent again, because the socket is missing"
        );
    }
}
