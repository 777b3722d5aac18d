//! The schemes that are compared, each as candidates that run until they are aborted.

use std::sync::Arc;
use std::time::Duration;

use tenure::{Clock, Election, Layout, Process, Store};
use tokio::sync::mpsc::UnboundedSender;
use tokio::task::{JoinHandle, spawn};

use super::requests::Requests;
use super::simulated::Bucket;
use crate::baselines::{Candidate, Settings, list_on_renewal, morling, single_object};
use tenure_testkit::time::TestClock;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scheme {
    Tenure,
    /// Followers look at the lapse alone.
    TenureAtLapse,
    TenureSingleObject,
    Morling,
    /// By the validity alone, although the store's dates have whole seconds.
    MorlingTooEarly,
    ListOnRenewal,
    SingleObject,
}

impl Scheme {
    pub const ALL: [Scheme; 6] = [
        Scheme::Tenure,
        Scheme::TenureAtLapse,
        Scheme::TenureSingleObject,
        Scheme::Morling,
        Scheme::ListOnRenewal,
        Scheme::SingleObject,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Scheme::Tenure => "tenure",
            Scheme::TenureAtLapse => "tenure, polls at the lapse alone",
            Scheme::TenureSingleObject => "tenure, single object",
            Scheme::Morling => "Morling as posted",
            Scheme::MorlingTooEarly => "the same without a second for rounded dates",
            Scheme::ListOnRenewal => "list on every renewal",
            Scheme::SingleObject => "single object with If-Match",
        }
    }
}

/// Where candidates run: over HTTP or on simulated time.
pub struct Place {
    pub store: Arc<dyn Store>,
    pub requests: Arc<dyn Requests>,
    pub clock: Arc<dyn Clock>,
    pub settings: Settings,
    /// Told who leads from now on.
    pub elected: UnboundedSender<usize>,
}

impl Place {
    pub fn simulated(
        bucket: &Bucket,
        clock: &TestClock,
        validity: Duration,
        elected: UnboundedSender<usize>,
    ) -> Place {
        Place {
            store: Arc::new(bucket.clone()),
            requests: Arc::new(bucket.clone()),
            clock: Arc::new(clock.clone()),
            settings: Settings::of(validity),
            elected,
        }
    }

    /// A candidate in a process of its own.
    pub fn start(&self, scheme: Scheme, id: usize, process: Process) -> JoinHandle<()> {
        let candidate = || Candidate {
            id,
            requests: self.requests.clone(),
            clock: self.clock.clone(),
            settings: self.settings,
            elected: self.elected.clone(),
        };
        match scheme {
            Scheme::Morling => spawn(morling::run(candidate(), morling::ROUNDING)),
            Scheme::MorlingTooEarly => spawn(morling::run(candidate(), Duration::ZERO)),
            Scheme::ListOnRenewal => spawn(list_on_renewal::run(candidate())),
            Scheme::SingleObject => spawn(single_object::run(candidate())),
            Scheme::Tenure | Scheme::TenureAtLapse | Scheme::TenureSingleObject => {
                spawn(campaign(self.election(scheme, id, process), id, self.elected.clone()))
            }
        }
    }

    fn election(&self, scheme: Scheme, id: usize, process: Process) -> Election {
        let Settings { validity, renew, poll, timeout } = self.settings;
        let poll = (scheme != Scheme::TenureAtLapse).then_some(poll);
        let layout = match scheme {
            Scheme::TenureSingleObject => Layout::SingleObject,
            _ => Layout::EpochFiles,
        };
        Election::builder(self.store.clone(), "tenure")
            .name(format!("candidate-{id}"))
            .layout(layout)
            .validity(validity)
            .renew_interval(renew)
            .poll_interval(poll)
            .request_timeout(timeout)
            .check_store(false)
            .process(process)
            .build()
            .expect("these settings fit together")
    }
}

/// Leads as long as it can, and campaigns again. Aborted while it leads, it leaves its lease to
/// lapse, as a crash does.
async fn campaign(election: Election, id: usize, elected: UnboundedSender<usize>) {
    loop {
        let leadership = election.campaign().await.expect("nothing is wrong with the store");
        // Nobody need be listening.
        let _ = elected.send(id);
        leadership.lost().await;
    }
}
