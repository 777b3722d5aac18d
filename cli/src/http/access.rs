//! The rules that decide which clients may use a server.

use std::fs;
use std::net::IpAddr;
use std::path::PathBuf;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hyper::header::{AUTHORIZATION, HOST, ORIGIN};
use hyper::http::uri::Authority;
use hyper::{HeaderMap, Method, header::HeaderValue};
use subtle::ConstantTimeEq as _;

use super::Listen;
use super::refusal::Refusal;
use crate::exit::{self, Failure};

/// The rules for clients, as flags of a server.
#[derive(Debug, Clone, clap::Args)]
pub struct AccessArgs {
    /// File with the key that each request must have.
    ///
    /// The key has 16 to 1024 characters. The header is `Authorization: Bearer KEY`. The key is
    /// sent as plain text: encrypt the connection with a proxy or a mesh.
    #[arg(long, value_name = "PATH")]
    pub access_key_file: Option<PathBuf>,
    /// A name that clients may use in `Host`, without a port; repeat the flag for several names.
    ///
    /// Without a key, a request over TCP must have this name, localhost, or a loopback address in
    /// `Host`. Otherwise a web page could read tokens by DNS rebinding.
    #[arg(long = "allow-host", value_name = "NAME", value_parser = host_name)]
    #[arg(hide_short_help = true)]
    pub allowed_hosts: Vec<String>,
}

fn host_name(text: &str) -> Result<String, String> {
    let wrong = || "write the name or the address of a host, without a port".to_owned();
    let authority: Authority = text.parse().map_err(|_| wrong())?;
    if authority.host() != text {
        return Err(wrong());
    }
    Ok(text.to_ascii_lowercase())
}

/// The rules that decide which requests a server answers.
pub struct Access {
    key: Option<Vec<u8>>,
    /// The names that are allowed in the header `Host`, in lower case. `None` allows every name.
    hosts: Option<Vec<String>>,
    /// True if a browser may send the key as the password of HTTP Basic authentication.
    passwords: bool,
}

const KEY_LENGTHS: std::ops::RangeInclusive<usize> = 16..=1024;

impl Access {
    /// Reads the key file. Fails if the server is reachable from other machines and has no key.
    pub fn new(listen: &Listen, args: &AccessArgs) -> Result<Access, Failure> {
        let usage = |why| Failure::new(exit::USAGE, why);
        let key = match &args.access_key_file {
            Some(path) => {
                let shown = path.display();
                let text = fs::read_to_string(path)
                    .map_err(|error| usage(format!("--access-key-file {shown}: {error}")))?;
                Some(
                    key(text.trim_end_matches(['\r', '\n']))
                        .map_err(|why| usage(format!("--access-key-file {shown}: {why}")))?,
                )
            }
            None => None,
        };
        match *listen {
            Listen::Tcp(address) if !address.ip().is_loopback() && key.is_none() => {
                Err(usage(format!(
                    "other machines can reach --listen {address}: give --access-key-file, or \
                     listen on 127.0.0.1 or unix:PATH"
                )))
            }
            // Without a key, a server on a TCP address checks `Host`. With a key or on a socket,
            // the check is not necessary: a web page does not have the key, and cannot reach a
            // socket.
            Listen::Tcp(_) if key.is_none() => {
                Ok(Access { key, hosts: Some(args.allowed_hosts.clone()), passwords: false })
            }
            _ => Ok(Access { key, hosts: None, passwords: false }),
        }
    }

    pub fn check(&self, method: &Method, headers: &HeaderMap) -> Result<(), Refusal> {
        let hosts = || headers.get_all(HOST).iter();
        if self.hosts.as_ref().is_some_and(|names| !hosts().all(|host| is_own(host, names))) {
            let why = "Host is neither localhost nor a loopback address: use one of these, or \
                       start this server with --allow-host NAME or --access-key-file";
            return Err(Refusal::fixed(421, "host_refused", why));
        }
        // Without this check, a web page in a browser on this machine could send requests that
        // change the state.
        if headers.contains_key(ORIGIN) && ![Method::GET, Method::HEAD].contains(method) {
            let why =
                "a request with an Origin, as from a web page, may only read; nothing was changed";
            return Err(Refusal::fixed(403, "origin_refused", why));
        }
        let Some(key) = &self.key else { return Ok(()) };
        let given = headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok());
        let given = given.and_then(|value| value.split_once(' '));
        let given = given.and_then(|(scheme, value)| self.key_of(scheme, value));
        // The comparison takes constant time, so its duration reveals no character of the key.
        if given.is_some_and(|given| given.ct_eq(key).into()) {
            return Ok(());
        }
        let scheme = if self.passwords { "Basic realm=\"tenure\"" } else { "Bearer" };
        let why = "Authorization: Bearer KEY is missing or wrong";
        Err(Refusal::fixed(401, "unauthorized", why).with_header("www-authenticate", scheme))
    }

    /// Returns the key in a header `Authorization` that has this scheme and value.
    fn key_of(&self, scheme: &str, value: &str) -> Option<Vec<u8>> {
        if scheme.eq_ignore_ascii_case("bearer") {
            return Some(value.as_bytes().to_owned());
        }
        if !self.passwords || !scheme.eq_ignore_ascii_case("basic") {
            return None;
        }
        let pair = STANDARD.decode(value).ok()?;
        // The text has the form `user:password`. The user name ends at the first colon.
        let colon = pair.iter().position(|byte| *byte == b':')?;
        Some(pair[colon + 1..].to_owned())
    }

    /// Also accepts the key as the password of HTTP Basic authentication, with any user name.
    pub fn with_passwords(self) -> Access {
        Access { passwords: true, ..self }
    }
}

/// Returns whether `host` is `localhost`, a loopback address or one of `names`, with any port.
fn is_own(host: &HeaderValue, names: &[String]) -> bool {
    let authority = host.to_str().ok().and_then(|host| host.parse::<Authority>().ok());
    let Some(authority) = authority else { return false };
    let host = authority.host();
    let address = host.trim_start_matches('[').trim_end_matches(']').parse::<IpAddr>();
    host.eq_ignore_ascii_case("localhost")
        || address.is_ok_and(|address| address.is_loopback())
        || names.iter().any(|name| host.eq_ignore_ascii_case(name))
}

fn key(text: &str) -> Result<Vec<u8>, String> {
    if !KEY_LENGTHS.contains(&text.len()) {
        let (least, most) = KEY_LENGTHS.into_inner();
        let len = text.len();
        return Err(format!("the key has {len} characters; it must have {least} to {most}"));
    }
    if !text.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err("the key must have only visible ASCII characters".to_owned());
    }
    Ok(text.as_bytes().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A web page can attack a local server by DNS rebinding: its host name then resolves to a
    /// loopback address. Without a key, the server must accept only names of this machine.
    #[test]
    fn regression_only_names_of_this_machine_are_allowed_without_a_key() {
        let hosts = Some(vec!["tenure.internal".to_owned()]);
        let access = Access { key: None, hosts, passwords: false };
        let ask = |hosts: &[&str]| {
            let mut headers = HeaderMap::new();
            for host in hosts {
                headers.append(HOST, host.parse().expect("a header"));
            }
            access.check(&Method::GET, &headers).map_err(|refusal| refusal.status)
        };
        for own in [
            "localhost",
            "LocalHost:4040",
            "127.0.0.1",
            "127.0.0.1:4040",
            "127.8.0.1",
            "[::1]:4040",
            "tenure.internal",
            "Tenure.Internal:80",
        ] {
            assert_eq!(ask(&[own]), Ok(()), "{own}");
        }
        // Every browser sends the header `Host`, so a request without this header is not from a web
        // page.
        assert_eq!(ask(&[]), Ok(()));
        for other in [
            "evil.example",
            "evil.example:4040",
            "localhost.evil.example",
            "127.0.0.1.evil.example",
            "10.0.0.7",
            "[::2]",
            "",
            "localhost evil",
            "x.tenure.internal",
            "0.0.0.0",
        ] {
            assert_eq!(ask(&[other]), Err(421), "{other}");
        }
        assert_eq!(ask(&["localhost", "evil.example"]), Err(421));
        let unchecked = Access { key: None, hosts: None, passwords: false };
        let mut headers = HeaderMap::new();
        headers.insert(HOST, "evil.example".parse().expect("a header"));
        assert!(unchecked.check(&Method::GET, &headers).is_ok());
    }

    #[test]
    fn an_allowed_host_has_no_port() {
        assert_eq!(host_name("Tenure.Internal").as_deref(), Ok("tenure.internal"));
        for wrong in ["", "a:80", "http://a", "a/b", "a b", "me@a"] {
            assert!(host_name(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn a_key_has_16_to_1024_visible_characters() {
        assert!(key(&"x".repeat(16)).is_ok() && key(&"x".repeat(1024)).is_ok());
        let why = key(&"x".repeat(15)).expect_err("too short");
        assert!(why.contains("15") && why.contains("16 to 1024"), "{why}");
        assert!(key(&"x".repeat(1025)).is_err());
        assert!(key("sixteen letters and spaces").is_err());
    }

    #[test]
    fn only_the_whole_key_is_accepted() {
        let key = Some(b"0123456789abcdef".to_vec());
        let access = Access { key, hosts: None, passwords: false };
        let ask = |value: &str| {
            let mut headers = HeaderMap::new();
            headers.insert(AUTHORIZATION, value.parse().expect("a header"));
            access.check(&Method::GET, &headers).map_err(|refusal| refusal.status)
        };
        assert_eq!(ask("Bearer 0123456789abcdef"), Ok(()));
        assert_eq!(ask("bearer 0123456789abcdef"), Ok(()));
        for wrong in
            ["0123456789abcdef", "Bearer 0123456789abcde", "Bearer ", "Basic 0123456789abcdef"]
        {
            assert_eq!(ask(wrong), Err(401), "{wrong}");
        }
        assert!(access.check(&Method::GET, &HeaderMap::new()).is_err());
    }

    #[test]
    fn a_browser_sends_the_key_as_a_password() {
        let key = Some(b"0123456789:abcdef".to_vec());
        let access = Access { key, hosts: None, passwords: true };
        let ask = |pair: &str| {
            let mut headers = HeaderMap::new();
            let value = format!("Basic {}", STANDARD.encode(pair));
            headers.insert(AUTHORIZATION, value.parse().expect("a header"));
            access.check(&Method::GET, &headers).map_err(|refusal| refusal.status)
        };
        assert_eq!(ask("anna:0123456789:abcdef"), Ok(()));
        assert_eq!(ask(":0123456789:abcdef"), Ok(()));
        for wrong in ["0123456789:abcdef", "anna:0123456789:abcde", "anna", ""] {
            assert_eq!(ask(wrong), Err(401), "{wrong}");
        }
    }
}
