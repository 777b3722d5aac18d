//! The limits of a store and its client.

/// The limits of a store and its client, beyond the promises of [`Store`](super::Store).
///
/// The default is a store without limits: it takes bodies of 4 MiB, and its client sends each
/// conditional write once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Capabilities {
    /// The length of the longest body, in bytes, if that is less than 4 MiB.
    pub max_body_bytes: Option<usize>,
    /// Whether the client may send one call of `create` or `replace` more than once. A refusal may
    /// then be the answer to a write that took effect before.
    ///
    /// An implementation of your own must not do this. The field is for clients made by others.
    pub may_send_twice: bool,
}

impl Capabilities {
    /// The same, with this limit for the length of a body in bytes.
    #[must_use]
    pub fn with_max_body_bytes(mut self, bytes: usize) -> Capabilities {
        self.max_body_bytes = Some(bytes);
        self
    }

    /// The same, for a client that retries conditional writes.
    #[must_use]
    pub fn with_may_send_twice(mut self, may_send_twice: bool) -> Capabilities {
        self.may_send_twice = may_send_twice;
        self
    }
}
