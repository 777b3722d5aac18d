//! The bytes of a connection, and whether some have come that were not read yet.

use std::io::{self, IoSlice};
use std::os::fd::AsFd;
use std::pin::Pin;
use std::sync::{Arc, Mutex, Weak};
use std::task::{Context, Poll};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::process::lock::lock;

/// A stream of bytes to a peer.
pub(super) trait Wire: AsyncRead + AsyncWrite + AsFd + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + AsFd + Send + Unpin> Wire for T {}

/// A wire that its connection reads and writes, while the server may look at it through a [`Look`].
pub(super) struct Shared(Arc<Mutex<Box<dyn Wire>>>);

/// Shows whether bytes wait to be read, and does not keep the wire open.
pub(super) struct Look(Weak<Mutex<Box<dyn Wire>>>);

impl Shared {
    pub(super) fn new(wire: Box<dyn Wire>) -> Shared {
        Shared(Arc::new(Mutex::new(wire)))
    }

    pub(super) fn look(&self) -> Look {
        Look(Arc::downgrade(&self.0))
    }

    /// Each call returns at once, so that nobody waits for long.
    fn with<T>(&self, act: impl FnOnce(Pin<&mut dyn Wire>) -> T) -> T {
        act(Pin::new(&mut **lock(&self.0)))
    }
}

impl Look {
    /// Whether there is nothing to read. The system decides, as the runtime may learn of bytes late.
    pub(super) fn is_quiet(&self) -> bool {
        let Some(wire) = self.0.upgrade() else { return false };
        let wire = lock(&wire);
        let mut readable = [PollFd::new(wire.as_fd(), PollFlags::POLLIN)];
        matches!(poll(&mut readable, PollTimeout::ZERO), Ok(0))
    }
}

impl AsyncRead for Shared {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.with(|wire| wire.poll_read(cx, into))
    }
}

impl AsyncWrite for Shared {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.with(|wire| wire.poll_write(cx, bytes))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.with(|wire| wire.poll_write_vectored(cx, parts))
    }

    fn is_write_vectored(&self) -> bool {
        self.with(|wire| wire.is_write_vectored())
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.with(|wire| wire.poll_flush(cx))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.with(|wire| wire.poll_shutdown(cx))
    }
}
