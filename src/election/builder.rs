//! The settings of an election, one call each.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use super::Election;
use crate::config::{Config, Polling, Settings};
use crate::driver::Context;
use crate::error::Error;
use crate::keys::Keys;
use crate::layout::Layout;
use crate::process::Process;
use crate::store::Store;

/// Settings of an [`Election`]. [`build`](ElectionBuilder::build) checks that they fit together.
#[must_use = "a builder does nothing until it is built"]
pub struct ElectionBuilder {
    store: Arc<dyn Store>,
    prefix: String,
    settings: Settings,
    process: Process,
}

impl ElectionBuilder {
    pub(super) fn new(store: Arc<dyn Store>, prefix: String) -> ElectionBuilder {
        let (settings, process) = (Settings::default(), Process::system());
        ElectionBuilder { store, prefix, settings, process }
    }

    /// The display name of this candidate, 1 to 256 bytes. For people: two processes may have the
    /// same. Default: the host's name and the process id.
    pub fn name(mut self, name: impl Into<String>) -> ElectionBuilder {
        self.settings.name = Some(name.into());
        self
    }

    /// How the election lies in the store. All who take part in one election must agree on it; the
    /// check of the store refuses a prefix that shows the other layout. Default:
    /// [`Layout::EpochFiles`].
    pub fn layout(mut self, layout: Layout) -> ElectionBuilder {
        self.settings.layout = layout;
        self
    }

    /// Vouches that no two living processes have this name. In its first campaign the process then
    /// seals the epoch of its predecessor at once instead of waiting for the lapse. It always gets
    /// a new epoch. Default: false.
    pub fn name_is_unique(mut self, unique: bool) -> ElectionBuilder {
        self.settings.name_is_unique = unique;
        self
    }

    /// States that the machine is never paused from outside, as a virtual machine is for a live
    /// migration or a snapshot: then no step of the wall clock ends a lease. Default: false.
    ///
    /// After such a pause only the wall clock may show that time has passed, so a wall clock that
    /// moves ahead of the other clocks by what is left of the lease ends it
    /// ([`Loss::WallClockAhead`](crate::Loss::WallClockAhead)). A clock that is set forward looks
    /// the same. Elsewhere than on Linux the machine must not sleep either: the other clocks stand
    /// still then.
    pub fn machine_is_never_paused(mut self, never: bool) -> ElectionBuilder {
        self.settings.never_paused = never;
        self
    }

    /// How long a lease lasts without a renewal: 100 ms to 24 h, in whole milliseconds. A dead
    /// leader is succeeded after about this time. Default: 30 s.
    pub fn validity(mut self, validity: Duration) -> ElectionBuilder {
        self.settings.validity = validity;
        self
    }

    /// How often the leader renews: one PUT each. At least 10 ms, and with two requests' timeouts
    /// it must fit into the validity. Default: validity / 3.
    pub fn renew_interval(mut self, interval: Duration) -> ElectionBuilder {
        self.settings.renew_interval = Some(interval);
        self
    }

    /// How often a follower looks: one GET each; 10 ms to the validity. Default: validity / 6.
    ///
    /// `None`: only when the lease would lapse, so about once a validity. That is the least that
    /// following can cost. But a resignation is noticed only then, unless somebody calls
    /// [`refresh`](Election::refresh), and so is the last renewal of a leader that dies: it is
    /// succeeded within 2.2 validities of that, and the drift, in place of one and a poll.
    pub fn poll_interval(mut self, interval: impl Into<Option<Duration>>) -> ElectionBuilder {
        self.settings.polling = interval.into().map_or(Polling::AtLapse, Polling::Every);
        self
    }

    /// A candidate that waits looks less and less often while the same leader leads: the interval
    /// doubles with each poll, from `poll_interval` up to this. From `poll_interval` to the
    /// validity; not with `poll_interval(None)`. Default: off.
    ///
    /// The last renewal of a leader that dies is seen up to so much later, and so is a resignation
    /// unless somebody calls [`refresh`](Election::refresh): both put off the next leader.
    /// Observers poll as they did.
    pub fn poll_backoff(mut self, longest: Duration) -> ElectionBuilder {
        self.settings.poll_backoff = Some(longest);
        self
    }

    /// How long a request may take in all, credentials and name resolution included: at least 10
    /// ms; at most, and by default, validity / 5.
    pub fn request_timeout(mut self, timeout: Duration) -> ElectionBuilder {
        self.settings.request_timeout = Some(timeout);
        self
    }

    /// By what ratio the rates of any two machines' clocks differ at most: 0 to 0.5. An observer
    /// waits that much longer before it takes a leader for dead. Default: 0.01.
    pub fn clock_drift_max(mut self, ratio: f64) -> ElectionBuilder {
        self.settings.clock_drift_max = ratio;
        self
    }

    /// Takes over from a leader long dead without watching it first, by the store's own dates, if
    /// they say that its validity ended more than this ago; at least 2 s. Default: off.
    ///
    /// That there are never two leaders then also rests on the store's clocks: the margin must be
    /// more than they differ by, and 1 s for dates in whole seconds. How long answers take does not
    /// count: DynamoDB's dates are noted by the writer, which counts from before its request was
    /// sent.
    pub fn store_clock_margin(mut self, margin: Duration) -> ElectionBuilder {
        self.settings.store_clock_margin = Some(margin);
        self
    }

    /// A renewal counts only after a LIST has shown nothing greater, for stores behind proxies that
    /// resend PUTs. One LIST more at each renewal. On a single object it changes nothing, as no
    /// repeated PUT can succeed there. Default: false.
    pub fn verify_renewals(mut self, verify: bool) -> ElectionBuilder {
        self.settings.verify_renewals = verify;
        self
    }

    /// An extra wait before the create when the epoch before did not end by resignation, for
    /// guarded resources that cannot check tokens; at most 24 h. It counts from the first sight of
    /// the seal (of a single object: from the lapse). After a deposition or a restoration it counts
    /// from the end of the lease that is waited for, if that is later. Every candidate must agree
    /// on it. Default: 0.
    pub fn takeover_delay(mut self, delay: Duration) -> ElectionBuilder {
        self.settings.takeover_delay = delay;
        self
    }

    /// The priority of this candidate: how much longer than others it waits before it takes over,
    /// after a lapse and after a seal; at most 24 h. Those who should lead when they can have 0;
    /// for the others it should be longer than the poll interval of the first. It takes no
    /// leadership away, and an election without any epoch is open to all at once. Default: 0.
    pub fn priority_delay(mut self, delay: Duration) -> ElectionBuilder {
        self.settings.priority_delay = delay;
        self
    }

    /// What this candidate proclaims when it leads, such as its address: any JSON, at most some 47
    /// KiB. Default: nothing.
    pub fn data(mut self, data: impl Into<Value>) -> ElectionBuilder {
        self.settings.data = data.into();
        self
    }

    /// Whether the first campaign checks that the store honours conditions and order: 5 requests on
    /// the fixed object `.tenure-check` under the prefix, without any delete. Once for each store
    /// value of the process. It cannot prove that the store decides races atomically. Default:
    /// true.
    pub fn check_store(mut self, check: bool) -> ElectionBuilder {
        self.settings.check_store = check;
        self
    }

    /// Whether a dropped [`Leadership`](crate::Leadership) resigns in the background instead of
    /// letting its lease lapse. Only for work that cannot outlive it. Default: false.
    pub fn resign_on_drop(mut self, resign: bool) -> ElectionBuilder {
        self.settings.resign_on_drop = resign;
        self
    }

    /// Whether a renewal that takes unusually long is given up for another once half of the lease
    /// is gone: to measure what that is worth. Default: true.
    #[cfg(feature = "internals")]
    #[doc(hidden)]
    pub fn hedged_renewals(mut self, hedged: bool) -> ElectionBuilder {
        self.settings.hedged_renewals = hedged;
        self
    }

    /// Where time and random numbers come from: for simulations, and for
    /// [tests with paused time](crate#tests-with-paused-time). Default: [`Process::system`].
    pub fn process(mut self, process: Process) -> ElectionBuilder {
        self.process = process;
        self
    }

    /// The election.
    ///
    /// # Errors
    /// [`InvalidInput`](crate::ErrorKind::InvalidInput), with the numbers. Nothing is sent.
    pub fn build(self) -> Result<Election, Error> {
        let keys = Keys::new(&self.prefix)?;
        let config = Arc::new(Config::new(self.settings)?);
        let cx = Context::new(self.store, keys, config.clone(), self.process);
        Ok(Election { cx: Arc::new(cx), config })
    }
}

// By hand, as what is proclaimed must not reach a log.
impl fmt::Debug for ElectionBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ElectionBuilder")
            .field("store", &self.store.describe())
            .field("prefix", &self.prefix)
            .field("name", &self.settings.name)
            .field("validity", &self.settings.validity)
            .finish_non_exhaustive()
    }
}
