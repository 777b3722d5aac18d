//! How an election is stored.

/// How an election is stored. All candidates and observers of one election must use the same
/// layout: those with the other layout do not see them, and would elect a leader of their own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Layout {
    /// One object for each epoch, `lock-0000000001.json` and so on, created with `If-None-Match`:
    /// Gunnar Morling's scheme. Past epochs stay as a history until a
    /// [`Compactor`](crate::Compactor) deletes them, and a LIST shows the current epoch.
    #[default]
    EpochFiles,
    /// One object, `lock.json`, overwritten with `If-Match`, with the epoch as its `token`: the
    /// scheme of the post *Leader election with S3 and If-Match* (2025). It needs no LIST and no
    /// compactor, and a takeover is a single PUT. It keeps no history, and nobody may ever delete
    /// that object.
    ///
    /// Peers that write only the post's two fields, `expires_at` and `token`, can take part. A
    /// candidate waits for such a body until `expires_at`, by its wall clock when it first sees the
    /// body, and for its own validity (at least 5 s) more, so that the peer's clock may be behind
    /// by as much. Those peers, in turn, take over as soon as their own wall clocks are past the
    /// `expires_at` of a candidate: with them, at most one leads only as long as those clocks are
    /// right. Even so, tokens only grow.
    SingleObject,
}

impl Layout {
    /// What to do if the newest record cannot be read.
    pub(crate) fn repair(self) -> &'static str {
        match self {
            Layout::EpochFiles => {
                "nobody is elected until it is repaired, or deposed with --force (Election::depose_dead)"
            }
            Layout::SingleObject => {
                "its token is lost with its body, so it cannot be deposed; nobody is elected until \
                 it is repaired, or restored above the greatest token ever handed out (`tenure \
                 restore --epoch TOKEN --wait VALIDITY`, Election::restore)"
            }
        }
    }
}
