//! The deliberately broken variants: each must be caught by a check.

/// The part of a process, or of the simulation, that is deliberately wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Broken {
    Nothing,
    /// The lease counts from the answer to a write, not from its sending.
    LeaseFromAnswer,
    /// The observer's timer starts before the request that shows the ETag.
    TimerFromRequest,
    /// The boot and the wall clock stand still in suspend, too.
    ClockStopsInSuspend,
    /// A renewal that was refused counts as done.
    RefusalIgnored,
    /// The application keeps its token instead of asking for it.
    TokenKept,
    /// A deposed epoch is succeeded as if its holder knew.
    DepositionNotWaited,
    /// The store creates what exists already.
    StoreCreatesAgain,
    /// The store overwrites whatever the ETag.
    StoreReplacesBlindly,
    /// The compactor deletes the newest epoch object, too.
    NewestCompacted,
    /// The store refuses every seal by another than the holder.
    SealsRefused,
    /// The fenced resource takes any token.
    ResourceForgets,
    /// The application counts the tokens by itself.
    TokenGuessed,
    /// A resignation that was refused counts as done.
    RefusedSealCounts,
    /// An observer that is restarted all the time reads through a cache that forgets nothing.
    ObserverBehindACache,
    /// One candidate's clock runs at four times the rate.
    ClockRuns,
    /// Half-way through, the store begins to deny creates and deletes.
    WritesDenied,
    /// The application panics.
    Panics,
    /// There is no clock but the slewed ones.
    RawRepeatsBoot,
    /// The application lets go of a leadership that something else still holds.
    DroppedButKept,
    /// The dates of objects stay what they were when a process first read them.
    DatesStand,
    /// A leader gives each GET up after one usual round trip.
    ReadsGivenUp,
    /// Candidates do not wait for the takeover delay that they agreed on.
    TakeoverDelayIgnored,
    /// An epoch that a restoring holds looks ended to a compactor, and tells the next run nothing.
    HeldSaysNothing,
    /// A holder is succeeded before its lease has lapsed.
    LapseNotWaited,
}
