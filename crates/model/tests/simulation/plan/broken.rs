//! The deliberately broken variants. A check must catch each of them.

/// The part of a process or of the simulation that is deliberately wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Broken {
    Nothing,
    /// The lease counts from the answer to a write instead of its sending.
    LeaseFromAnswer,
    /// The observer's timer starts before the request that shows the ETag.
    TimerFromRequest,
    /// The boot and the wall clock do not run in suspend, too.
    ClockStopsInSuspend,
    /// A refused renewal counts as done.
    RefusalIgnored,
    /// The application keeps its token without another check.
    TokenKept,
    /// A candidate succeeds a deposed epoch as if its holder knew.
    DepositionNotWaited,
    /// The store creates an object that exists.
    StoreCreatesAgain,
    /// The store overwrites objects with any ETag.
    StoreReplacesBlindly,
    /// The compactor deletes the newest epoch object, too.
    NewestCompacted,
    /// The store refuses every seal by a process other than the holder.
    SealsRefused,
    /// The fenced resource accepts any token.
    ResourceForgets,
    /// The application counts the tokens itself.
    TokenGuessed,
    /// A refused resignation counts as done.
    RefusedSealCounts,
    /// An observer that restarts continuously reads through a cache without expiry.
    ObserverBehindACache,
    /// The clock of one candidate runs at four times the rate.
    ClockRuns,
    /// In the middle of the run the store begins to deny creates and deletes.
    WritesDenied,
    /// The application panics.
    Panics,
    /// All clocks are slewed.
    RawRepeatsBoot,
    /// The application drops a leadership that another part still holds.
    DroppedButKept,
    /// The date of an object stays the one of the first read by a process.
    DatesStand,
    /// A leader abandons each GET after one usual round trip.
    ReadsGivenUp,
    /// Candidates ignore the takeover delay on which they agreed.
    TakeoverDelayIgnored,
    /// A compactor treats a held epoch of a restoring as ended. The next restoring finds no data
    /// in it.
    HeldSaysNothing,
    /// A candidate succeeds a holder before its lease has lapsed.
    LapseNotWaited,
}
