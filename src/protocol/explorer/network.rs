//! What becomes of requests and answers under way.

use super::checks::{Checked, Violation};
use super::process::Process;
use super::store::Wire;
use super::{MANY_MESSAGES, Message, Pending, World, evaluated};
use crate::etag::ETag;
use crate::protocol::candidate::State;
use crate::protocol::message::{Answer, Request};

impl World {
    pub(super) fn network_acts(&mut self) -> Checked {
        if !self.replies.is_empty() && self.rng.bool() {
            let which = self.rng.usize(..self.replies.len());
            let pending = self.replies.swap_remove(which);
            return self.deliver(pending);
        }
        if self.messages.is_empty() {
            return Ok(());
        }
        let which = self.rng.usize(..self.messages.len());
        match self.asker(self.messages[which].id) {
            Some(who) => self.fate(which, who),
            // Nobody waits for it any more: it takes its time, but not for ever.
            None if self.rng.u8(0..16) == 0 || self.messages.len() > MANY_MESSAGES => {
                let message = self.messages.swap_remove(which);
                self.apply(&message).map(|_| ())
            }
            None => {
                let asked: Vec<usize> = (0..self.messages.len())
                    .filter(|which| self.asker(self.messages[*which].id).is_some())
                    .collect();
                let Some(which) = self.rng.choice(asked) else { return Ok(()) };
                let who = self.asker(self.messages[which].id).expect("it was filtered for that");
                self.fate(which, who)
            }
        }
    }

    /// What becomes of a request whose answer is awaited.
    fn fate(&mut self, which: usize, who: usize) -> Checked {
        let roll = self.rng.u32(0..16);
        // Applied now, and once more later.
        if roll == 0 {
            let message = self.messages[which].clone();
            self.messages[which].done = true;
            let pending = self.apply(&message)?;
            return pending.map_or(Ok(()), |pending| self.deliver(pending));
        }
        let message = self.messages.swap_remove(which);
        // Lost, or a 409.
        if roll == 1 {
            self.log(|| format!("#{} is lost", message.id));
            return self.answer(who, Answer::Unknown);
        }
        let Some(pending) = self.apply(&message)? else { return Ok(()) };
        match roll {
            // Applied, and the answer is lost.
            2 => self.answer(who, Answer::Unknown),
            // Applied, and answered later.
            3 => {
                self.replies.push(pending);
                Ok(())
            }
            _ => self.deliver(pending),
        }
    }

    fn asker(&self, id: usize) -> Option<usize> {
        let asks =
            |process: &Process| process.asked.as_ref().is_some_and(|(asked, _)| *asked == id);
        self.processes.iter().position(asks)
    }

    pub(super) fn apply(&mut self, message: &Message) -> Result<Option<Pending>, Violation> {
        let Message { id, from, wire, done } = message;
        if let Wire::Protocol(Request::Create { epoch, .. }) = wire
            && *done
            && self.checks.deleted.contains(epoch)
            && !self.setting.creates_outlive_compaction
        {
            return Ok(None);
        }
        self.checks.before(&self.store, wire)?;
        let evaluated = match wire {
            Wire::Protocol(Request::List(after)) => evaluated(after, self.steps, &self.store),
            _ => None,
        };
        let mut reply = self.store.apply(*from, wire);
        self.log(|| format!("#{id} applied: {:?}", reply.answer));
        self.checks.after(&self.store, wire, &reply)?;
        match wire {
            Wire::ForeignCreate(epoch) if matches!(reply.answer, Answer::Done { .. }) => {
                self.morling_holds = Some(*epoch);
            }
            // A resignation by deletion.
            Wire::Delete(_) => reply.answer = Answer::Done { etag: ETag::new("") },
            _ => {}
        }
        Ok(Some(Pending { id: *id, reply, evaluated }))
    }

    pub(super) fn deliver(&mut self, pending: Pending) -> Checked {
        let Pending { id, reply, evaluated } = pending;
        let Some(who) = self.asker(id) else { return Ok(()) };
        if self.is_asleep(who) {
            self.replies.push(Pending { id, reply, evaluated });
            return Ok(());
        }
        let process = &mut self.processes[who];
        process.evaluated = evaluated.or(process.evaluated);
        let answer = process.incoming(reply, self.setting.broken);
        let was_read_own = matches!(process.machine.state, State::ReadOwn { .. });
        let was_confirm = matches!(process.machine.state, State::Confirm { .. });
        self.answer(who, answer)?;
        let state = &self.processes[who].machine.state;
        let seen = &mut self.checks.seen;
        seen.own_write_adopted |= was_read_own && matches!(state, State::Confirm { .. });
        seen.zombie_confirmed_nothing |= was_confirm && matches!(state, State::SealOwn { .. });
        Ok(())
    }
}
