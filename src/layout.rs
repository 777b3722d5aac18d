//! How an election lies in its store.

/// How an election lies in its store. All who take part in one election must use the same layout:
/// those of the other do not see them, and would elect a leader of their own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Layout {
    /// One object for each epoch, `lock-0000000001.json` and so on, created with `If-None-Match`:
    /// Gunnar Morling's scheme. Past epochs stay as a history until a
    /// [`Compactor`](crate::Compactor) deletes them, and a LIST shows everybody which epoch it is.
    #[default]
    EpochFiles,
    /// One object, `lock.json`, overwritten with `If-Match`, with the epoch as its `token`: the
    /// scheme of *Leader election with S3 and If-Match* (2025). It needs no LIST and no compactor,
    /// and a takeover is a single PUT. It keeps no history.
    ///
    /// Peers that write only that post's two fields, `expires_at` and `token`, can share the lock.
    /// Of such a body its `expires_at` is all there is: it is taken over once this machine's wall
    /// clock, when it first saw that body, has been past it for the candidate's own validity, or
    /// for 5 s if that is longer. They, in turn, go by their own wall clocks. So beside them two may
    /// lead for as long as clocks are apart beyond that; the tokens only grow all the same.
    SingleObject,
}
