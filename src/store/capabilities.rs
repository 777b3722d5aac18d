//! The limits of a store and its client.

/// The limits of a store and its client. The promises of [`Store`](super::Store) do not describe
/// these limits.
///
/// By default, a store accepts bodies of 4 MiB, and its client sends each conditional write exactly
/// once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Capabilities {
    /// Maximum body length in bytes, if it is less than 4 MiB.
    pub max_body_bytes: Option<usize>,
    /// True if the client may send the request of one `create` or `replace` call more than once. If
    /// such a client reports a refusal, its first request may nevertheless have taken effect.
    ///
    /// Set this field only for third-party clients, because your own implementation must not repeat
    /// these requests.
    pub may_send_twice: bool,
    /// True if the store itself lists keys in no order. Its client then reads the whole folder for
    /// each listing, and sorts the keys.
    pub lists_without_order: bool,
}

impl Capabilities {
    /// Returns these capabilities with the given maximum body length in bytes.
    #[must_use]
    pub fn with_max_body_bytes(mut self, bytes: usize) -> Capabilities {
        self.max_body_bytes = Some(bytes);
        self
    }

    /// Returns these capabilities with the given value of [`may_send_twice`](Self::may_send_twice).
    #[must_use]
    pub fn with_may_send_twice(mut self, may_send_twice: bool) -> Capabilities {
        self.may_send_twice = may_send_twice;
        self
    }

    /// Returns these capabilities with the given value of
    /// [`lists_without_order`](Self::lists_without_order).
    #[must_use]
    pub fn with_lists_without_order(mut self, lists_without_order: bool) -> Capabilities {
        self.lists_without_order = lists_without_order;
        self
    }
}
