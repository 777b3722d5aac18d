//! The campaigns of an election.

use tracing::{Instrument as _, Span};

use crate::api::election::Election;
use crate::api::leadership::Leadership;
use crate::driver::across::AcrossDriver;
use crate::driver::lead::StartedLead;
use crate::driver::leader::{CampaignEvent, Leader};
use crate::driver::runtime::require_timers;
use crate::driver::store_check::check_store;
use crate::driver::{CampaignEnd, Driver, Patience, spans};
use crate::error::Error;

/// The outcome of [`Election::try_campaign`].
#[derive(Debug)]
#[non_exhaustive]
pub enum CampaignOutcome {
    /// This process leads.
    Elected(Leadership),
    /// Another candidate holds the newest epoch, or may still believe that it leads.
    Held(Leader),
}

impl Election {
    /// Waits until this process is elected.
    ///
    /// Cancel-safe: a dropped campaign blocks other candidates for at most one validity. A campaign
    /// retries transient errors of the store, and reports them as [`events`](Election::events).
    ///
    /// Cost: LIST, PUT and LIST on an empty prefix, and one more GET if the newest epoch is sealed.
    /// While the campaign waits, it sends one GET every poll interval. With
    /// [`Layout::SingleObject`](crate::Layout::SingleObject), the cost is GET and PUT on an empty
    /// prefix, and one PUT for the takeover from a dead leader. The first campaign on a store sends
    /// 5 more requests to check the store.
    ///
    /// The call runs in a span `campaign`, and the leadership runs in a sibling span `leadership`.
    /// The parent of both spans is the span in which the call is first polled. The parent stays
    /// open until both spans have closed.
    ///
    /// # Errors
    /// - [`AccessDenied`](crate::ErrorKind::AccessDenied) and
    ///   [`NoSuchStore`](crate::ErrorKind::NoSuchStore), after
    ///   [retries](crate::ElectionBuilder::retry_denied).
    /// - Errors that a retry cannot fix: [`CorruptRecord`](crate::ErrorKind::CorruptRecord),
    ///   [`RecordTooNew`](crate::ErrorKind::RecordTooNew),
    ///   [`EpochsExhausted`](crate::ErrorKind::EpochsExhausted),
    ///   [`NewestDeleted`](crate::ErrorKind::NewestDeleted),
    ///   [`NoRuntime`](crate::ErrorKind::NoRuntime).
    /// - [`UnsafeStore`](crate::ErrorKind::UnsafeStore), if this store has never answered a write.
    pub async fn campaign(&self) -> Result<Leadership, Error> {
        let caller = Span::current();
        let campaign = async {
            require_timers().map_err(failed)?;
            if let Some(across) = &self.across {
                // The box keeps the future small for an election in one store.
                let driver = AcrossDriver::candidate(across);
                let (driver, _) = Box::pin(elect(driver, Patience::Wait)).await.map_err(failed)?;
                return Ok(self.elected(driver.start_leading(&caller)));
            }
            check_store(&self.cx, Patience::Wait).await.map_err(failed)?;
            let mut driver = Driver::candidate(&self.cx);
            loop {
                let reached = driver.campaign(Patience::Wait).await.map_err(failed)?;
                if let CampaignEnd::Elected = reached {
                    return Ok(self.elected(driver.start_leading(&caller)));
                }
            }
        };
        campaign.instrument(spans::campaign(&self.cx.keys, &self.config)).await
    }

    /// Makes one attempt to be elected. Does not wait while another candidate holds the newest
    /// epoch. The cost is the cost of [`campaign`](Election::campaign) without the polls.
    ///
    /// The outcome stays `Held` for a whole validity after the last renewal that this `Election`
    /// has seen. The `Election` remembers its observations between calls, so repeated calls take
    /// over from a dead leader.
    ///
    /// # Errors
    /// The errors of [`campaign`](Election::campaign), and
    /// [`Unavailable`](crate::ErrorKind::Unavailable) after three failures in a row. If the failed
    /// call has created an epoch object, the lease of this epoch lapses.
    pub async fn try_campaign(&self) -> Result<CampaignOutcome, Error> {
        let caller = Span::current();
        let campaign = async {
            require_timers().map_err(failed)?;
            let held = if let Some(across) = &self.across {
                let driver = AcrossDriver::candidate(across);
                match Box::pin(elect(driver, Patience::Once)).await.map_err(failed)? {
                    (driver, CampaignEnd::Elected) => {
                        let leadership = self.elected(driver.start_leading(&caller));
                        return Ok(CampaignOutcome::Elected(leadership));
                    }
                    (_, CampaignEnd::Held(leader)) => leader,
                }
            } else {
                check_store(&self.cx, Patience::Once).await.map_err(failed)?;
                let mut driver = Driver::candidate(&self.cx);
                match driver.campaign(Patience::Once).await.map_err(failed)? {
                    CampaignEnd::Elected => {
                        let leadership = self.elected(driver.start_leading(&caller));
                        return Ok(CampaignOutcome::Elected(leadership));
                    }
                    CampaignEnd::Held(leader) => leader,
                }
            };
            Span::current().record("outcome", "held");
            Ok(CampaignOutcome::Held(held))
        };
        campaign.instrument(spans::campaign(&self.cx.keys, &self.config)).await
    }

    fn elected(&self, started: StartedLead) -> Leadership {
        let leadership = Leadership::new(started);
        let epoch = leadership.epoch();
        Span::current().record("epoch", epoch.get()).record("outcome", "elected");
        tracing::info!(
            election = self.cx.keys.prefix(),
            candidate = self.config.name,
            epoch = epoch.get(),
            outcome = "elected",
            "elected"
        );
        self.cx.tell(CampaignEvent::Elected(epoch));
        leadership
    }
}

/// Campaigns across stores.
async fn elect(
    mut driver: AcrossDriver,
    patience: Patience,
) -> Result<(AcrossDriver, CampaignEnd), Error> {
    let end = driver.campaign(patience).await?;
    Ok((driver, end))
}

fn failed(error: Error) -> Error {
    Span::current().record("outcome", "failed");
    error
}
