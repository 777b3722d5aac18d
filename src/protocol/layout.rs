//! The layouts of an election on the store.

/// The layout of an election on the store. All candidates and observers of one election must use
/// the same layout. With two layouts, each layout would elect a leader, because candidates of one
/// layout do not see the other layout.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Layout {
    /// One object for each epoch, such as `lock-0000000001.json`. A candidate creates this object
    /// with `If-None-Match`. This layout is Gunnar Morling's scheme. Past epochs stay as a history
    /// until a [`Compactor`](crate::Compactor) deletes them, and a LIST shows the current epoch.
    #[default]
    EpochFiles,
    /// One object, `lock.json`. A candidate overwrites this object with `If-Match`. The field
    /// `token` in the object is the epoch. This layout is the scheme of the post *Leader election
    /// with S3 and If-Match* (2025). It needs no LIST and no compactor, and a takeover is a single
    /// PUT. It keeps no history. The object must never be deleted.
    ///
    /// Peers that write only the post's two fields, `expires_at` and `token`, can take part. If a
    /// candidate sees a body with only these fields, it waits until the body's `expires_at`, by the
    /// candidate's wall clock. Then it waits for the candidate's own validity (at least 5 s). So if
    /// the peer's clock is slow by at most that validity, the candidate does not take over too
    /// early. A peer takes over from a candidate once the peer's own wall clock is past the
    /// candidate's `expires_at`. So with these peers, the election has at most one leader only if
    /// the wall clocks are right. Tokens increase even if the wall clocks are wrong.
    SingleObject,
}

impl Layout {
    /// Returns the remedy for a newest record that cannot be read.
    pub(crate) fn repair(self) -> &'static str {
        match self {
            Layout::EpochFiles => {
                "no candidate is elected until the record is repaired, or deposed with --force \
                 (Election::depose_dead)"
            }
            Layout::SingleObject => {
                "its token is lost, so it cannot be deposed; no candidate is elected until the \
                 record is repaired, or restored above the greatest token ever handed out (`tenure \
                 restore --epoch TOKEN --wait VALIDITY`, Election::restore)"
            }
        }
    }
}
