//! The address or the socket file at which a server listens.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::str::FromStr;

use tracing::info;

use super::{Server, Serving, SocketFile, address, start_unix};
use crate::exit::{self, Failure};

/// The address or the socket file at which a server listens: the value of `--listen`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Listen {
    Tcp(SocketAddr),
    Unix(PathBuf),
}

impl FromStr for Listen {
    type Err = String;

    fn from_str(text: &str) -> Result<Listen, String> {
        match text.strip_prefix("unix:") {
            Some("") => Err("write the path of the socket after unix:".to_owned()),
            Some(path) => Ok(Listen::Unix(path.into())),
            None => address(text).map(Listen::Tcp).map_err(|why| format!("{why}, or unix:PATH")),
        }
    }
}

impl fmt::Display for Listen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Listen::Tcp(address) => write!(f, "{address}"),
            Listen::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

/// A running server at an address or at a socket file. Dropping this value ends the server.
#[derive(Debug)]
#[must_use = "dropping it ends the server"]
pub enum ServingAt {
    Tcp { _serving: Serving },
    Unix { _serving: SocketFile },
}

impl Server {
    /// Listens at this address or socket file, and logs it. `content` is the name of the served
    /// content in the log.
    pub async fn listen(self, at: &Listen, content: &str) -> Result<ServingAt, Failure> {
        let (serving, shown) = match at {
            Listen::Tcp(address) => self.start(*address).map(|serving| {
                let shown = format!("http://{}", serving.address);
                (ServingAt::Tcp { _serving: serving }, shown)
            }),
            Listen::Unix(path) => start_unix(path, self)
                .await
                .map(|serving| (ServingAt::Unix { _serving: serving }, at.to_string())),
        }
        .map_err(|error| {
            Failure::new(exit::OS, format!("cannot serve {content} at {at}: {error}"))
        })?;
        info!("serving {content} at {shown}");
        Ok(serving)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listen_takes_an_address_or_a_socket() {
        assert_eq!("unix:/run/t.sock".parse(), Ok(Listen::Unix("/run/t.sock".into())));
        assert!(matches!("[::1]:80".parse(), Ok(Listen::Tcp(_))));
        for wrong in ["", "unix:", "localhost:80", "8080", "/run/t.sock"] {
            assert!(wrong.parse::<Listen>().is_err(), "{wrong:?}");
        }
    }
}
