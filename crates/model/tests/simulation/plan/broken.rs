//! The deliberately broken variants. A check must catch each of them.

/// The part of a process or of the simulation that is deliberately wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Broken {
    Nothing,
    /// The lease starts at the answer to a write instead of its sending.
    LeaseFromAnswer,
    /// A follower's timer starts before the request that shows the ETag.
    TimerFromRequest,
    /// The boot and the wall clock do not run in suspend either.
    ClockStopsInSuspend,
    /// The library treats a refused renewal as done.
    RefusalIgnored,
    /// The application continues with its token, and does not check it again.
    TokenKept,
    /// A candidate takes over a deposed epoch as if the holder knew of the deposition.
    DepositionNotWaited,
    /// The store accepts a create of an existing object.
    StoreCreatesAgain,
    /// The store overwrites objects with any ETag.
    StoreReplacesBlindly,
    /// The compactor also deletes the newest epoch object.
    NewestCompacted,
    /// The store refuses every seal by a process other than the holder.
    SealsRefused,
    /// The fenced resource accepts any token.
    ResourceForgets,
    /// The application counts the tokens itself.
    TokenGuessed,
    /// The library treats a refused resignation as done.
    RefusedSealCounts,
    /// An observer that restarts continuously reads through a cache without expiry.
    ObserverBehindACache,
    /// The clock of one candidate runs at four times the rate.
    ClockRuns,
    /// The store denies creates and deletes in the second half of the run.
    WritesDenied,
    /// The application panics.
    Panics,
    /// The machine has no raw clock, so all clocks are slewed.
    RawRepeatsBoot,
    /// The application drops a leadership that another part still holds.
    DroppedButKept,
    /// The date of an object never changes after a process has first read it.
    DatesStand,
    /// A leader abandons each GET after one usual round trip.
    ReadsGivenUp,
    /// Candidates ignore the takeover delay on which they agreed.
    TakeoverDelayIgnored,
    /// A compactor treats an epoch that a restoring holds as ended. The next restoring reads no
    /// data in this epoch.
    HeldSaysNothing,
    /// A candidate takes over before the holder's lease has lapsed.
    LapseNotWaited,
}
