//! Stops a process at certain points of its code. Faults at random times would rarely hit these
//! points.

use std::sync::Arc;
use std::task::Poll;

use tenure_model::gate::{Gate, pass};
use tenure_model::time::sleep;

use super::world::{State, Who, World};

impl World {
    /// Sometimes stops the calling process.
    pub async fn stop_here(&self, who: Who, place: &str) {
        let gate = {
            let mut state = self.state();
            if !self.draws_stop(&mut state, who, self.plan.network.stop_here) {
                return;
            }
            state.count("stops at a request");
            self.stop(&mut state, who, place)
        };
        pass(&gate).await;
    }

    /// Wraps a task of a process. Sometimes the wrapper stops the process between two waits of the
    /// task.
    pub fn interruptible(
        self: &Arc<World>,
        who: Who,
        task: impl Future<Output = ()> + Send + 'static,
    ) -> impl Future<Output = ()> + Send + 'static {
        let world = Arc::clone(self);
        let mut task = Box::pin(task);
        let probability = self.plan.network.stop_anywhere;
        std::future::poll_fn(move |cx| {
            if probability > 0.0 {
                let mut state = world.state();
                if world.draws_stop(&mut state, who, probability) {
                    state.count("stops anywhere");
                    // The executor polls this task again after the gate has opened.
                    world.stop(&mut state, who, "between two waits");
                    return Poll::Pending;
                }
            }
            task.as_mut().poll(cx)
        })
    }

    fn draws_stop(&self, state: &mut State, who: Who, probability: f64) -> bool {
        // A process that a fault has stopped is not stopped here too, so that the durations of the
        // stops do not add up.
        state.faults && !state.members[who.0].stopped && state.chance(probability)
    }

    /// Closes the gates of a process for up to three validities.
    fn stop(&self, state: &mut State, who: Who, place: &str) -> Arc<Gate> {
        let duration = state.part(self.plan.longest_validity() * 3);
        if self.plan.traced {
            state.note(who, &format!("PAUSED for {duration:.3?} {place}"));
        }
        let gates = state.members[who.0].gates.clone();
        gates.iter().for_each(|gate| gate.close());
        let gate = Arc::clone(&gates[0]);
        tokio::spawn(async move {
            sleep(duration).await;
            gates.iter().for_each(|gate| gate.open());
        });
        gate
    }
}
