//! The deliberately broken variants. A check must catch each of them.

/// The part of a process or of the simulation that is deliberately wrong.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Broken {
    #[default]
    Nothing,
    /// A leader counts its lease from the answer to a write, and not from the time when it sent the
    /// write.
    LeaseFromAnswer,
    /// A follower counts the lapse from the time before its request, and not from the answer that
    /// shows the ETag.
    TimerFromRequest,
    /// No clock of the machine runs during a suspend, not even the boot clock and the wall clock.
    ClockStopsInSuspend,
    /// The library treats a refused renewal as accepted.
    RefusalIgnored,
    /// The application continues with its token, and does not check its lease again.
    TokenKept,
    /// A candidate takes over a deposed epoch without a wait, as if the holder already knew of its
    /// deposition.
    DepositionNotWaited,
    /// The store accepts a create of an existing object.
    StoreCreatesAgain,
    /// The store accepts a replacement with any ETag.
    StoreReplacesBlindly,
    /// The compactor also deletes the newest epoch object.
    NewestCompacted,
    /// The store refuses every seal with the reason `lapsed`.
    SealsRefused,
    /// The fenced resource accepts any token.
    ResourceForgets,
    /// The application uses a token that is greater by one than the token of its leadership.
    TokenGuessed,
    /// The library treats a refused resignation as accepted.
    RefusedSealCounts,
    /// An observer reads through a cache whose entries never expire. The observer is created again
    /// for each observation.
    ObserverBehindACache,
    /// The clock of one candidate runs at four times the correct rate.
    ClockRuns,
    /// In the second half of the run, each answer to a create or a delete is 403.
    WritesDenied,
    /// The application panics.
    Panics,
    /// The machine has no raw clock, so all clocks are slewed.
    RawRepeatsBoot,
    /// One part of the application drops a leadership, but another part still holds this
    /// leadership.
    DroppedButKept,
    /// The date of an object never changes after a process has first read it.
    DatesStand,
    /// A leader abandons each GET that takes longer than a usual round trip.
    ReadsGivenUp,
    /// Candidates ignore the takeover delay on which they agreed.
    TakeoverDelayIgnored,
    /// A compactor treats the epoch of an unfinished restore as ended, and the next restore ignores
    /// the data in the object of this epoch.
    HeldSaysNothing,
    /// A candidate takes over before the holder's lease has lapsed.
    LapseNotWaited,
    /// A process treats a listing of several pages without order as one page.
    TornListing,
}
