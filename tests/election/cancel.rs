//! A campaign can be dropped at any await point. A dropped campaign may leave an epoch object
//! behind. Such an object blocks other candidates for at most one lease.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use tenure_testkit::fault_store::{Call, Fault};
use tenure_testkit::time::{millis, timed, wait};
use tenure_testkit::world::{TAKEOVER, World, elect};

/// A future that polls `future` at most `left` times, and then returns `None`.
struct Polls<F> {
    future: Pin<Box<F>>,
    left: usize,
}

impl<F: Future> Future for Polls<F> {
    type Output = Option<F::Output>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<F::Output>> {
        if self.left == 0 {
            return Poll::Ready(None);
        }
        self.left -= 1;
        match self.future.as_mut().poll(cx) {
            Poll::Ready(output) => Poll::Ready(Some(output)),
            // This was the last poll of the inner future. So no waker would cause another poll of
            // this wrapper, and the wrapper must return its result now.
            Poll::Pending if self.left == 0 => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        }
    }
}

fn polls<F: Future>(future: F, left: usize) -> Polls<F> {
    Polls { future: Box::pin(future), left }
}

/// Makes each request need two polls: one before the request takes effect, and one after it.
fn slow(world: &World) {
    for call in [Call::List, Call::Get, Call::Create, Call::Replace] {
        world.store.on(call).always().fault(Fault::Slow(millis(1)));
    }
}

#[derive(Debug, Clone, Copy)]
enum Start {
    Empty,
    Resigned,
    Lapsed,
    Unchecked,
}

async fn dropped_after(polled: usize, start: Start) -> bool {
    let world = World::new();
    let mut greatest = 0;
    match start {
        Start::Empty | Start::Unchecked => {}
        Start::Resigned => world.leader("x").await.resign().await.unwrap(),
        Start::Lapsed => drop(world.leader("x").await),
    }
    slow(&world);
    let check = matches!(start, Start::Unchecked);
    let election = world.node("a").check_store(check).build().unwrap();
    let finished = polls(election.campaign(), polled).await;
    if let Some(lead) = finished {
        greatest = lead.unwrap().epoch().get();
    }
    let over = greatest > 0;
    for other in [world.node("b").build().unwrap(), election.clone()] {
        let (took, lead) = timed(elect(&other)).await;
        assert!(took < TAKEOVER, "{start:?}, {polled} polls: {took:?}");
        assert!(lead.epoch().get() > greatest, "{start:?}, {polled} polls");
        greatest = lead.epoch().get();
        assert!(lead.check().is_ok());
        lead.resign().await.unwrap();
    }
    over
}

#[tokio::test(start_paused = true)]
async fn a_campaign_can_be_dropped_after_any_number_of_polls() {
    for start in [Start::Empty, Start::Resigned, Start::Lapsed, Start::Unchecked] {
        let mut polled = 1;
        while !dropped_after(polled, start).await {
            polled += 1;
            assert!(polled < 200, "{start:?}: the campaign does not end");
        }
        assert!(polled > 3, "{start:?}: no drop in the middle of the campaign");
    }
}

#[tokio::test(start_paused = true)]
async fn dropped_single_attempts_do_not_delay_the_lapse() {
    for polled in 1..8 {
        let world = World::new();
        drop(world.leader("x").await);
        slow(&world);
        let election = world.node("a").build().unwrap();
        // Each attempt is dropped after `polled` polls. Some attempts read the record of the leader
        // before the drop, and these reads must not delay the lapse.
        elected_after(&election, polled).await;
    }
}

async fn elected_after(election: &tenure::Election, polled: usize) {
    for _ in 0..60 {
        if let Some(Ok(tenure::CampaignOutcome::Elected(lead))) =
            polls(election.try_campaign(), polled).await
        {
            return lead.resign().await.unwrap();
        }
        wait(millis(500)).await;
    }
    // No attempt succeeded, because a whole campaign needs more than `polled` polls. A campaign
    // that is not dropped must then succeed.
    elect(election).await.resign().await.unwrap();
}

/// A `select!` in a loop drops the campaign repeatedly. The campaign must succeed nevertheless.
#[tokio::test(start_paused = true)]
async fn a_campaign_in_a_select_loop_is_elected() {
    let world = World::new();
    drop(world.leader("x").await);
    let election = world.node("a").build().unwrap();
    let (took, lead) = timed(async {
        loop {
            tokio::select! {
                lead = election.campaign() => return lead.unwrap(),
                () = wait(millis(700)) => {}
            }
        }
    })
    .await;
    assert_eq!(lead.epoch().get(), 2);
    assert!(took < TAKEOVER, "a dropped campaign keeps its observations: {took:?}");
}
