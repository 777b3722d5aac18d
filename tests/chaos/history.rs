//! Whether a history of grants, renewals and writes is one of a register that is guarded by
//! epochs, judged by stateright's checker.

use stateright::semantics::{ConsistencyTester as _, LinearizabilityTester, SequentialSpec};

/// Histories are cut where nothing is in flight, since the checker's work grows with their square.
const PIECE: usize = 60;

/// Who leads, and the manifest that the leaders write: what all the processes together should look
/// like.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Guarded {
    granted: u64,
    /// The epoch in the manifest's last entry.
    written_by: u64,
    entries: u64,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Op {
    Grant(u64),
    Renew(u64),
    Append(u64),
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Ret {
    Granted,
    Renewed,
    Appended(u64),
    Refused,
}

impl SequentialSpec for Guarded {
    type Op = Op;
    type Ret = Ret;

    fn invoke(&mut self, op: &Op) -> Ret {
        match *op {
            Op::Grant(epoch) if epoch > self.granted => {
                self.granted = epoch;
                Ret::Granted
            }
            Op::Renew(epoch) if epoch == self.granted => Ret::Renewed,
            Op::Append(epoch) if epoch >= self.written_by => {
                self.written_by = epoch;
                self.entries += 1;
                Ret::Appended(self.entries)
            }
            _ => Ret::Refused,
        }
    }
}

/// Something that took effect at one moment between these two.
#[derive(Clone, Debug)]
pub struct Call {
    /// Calls of one thread do not overlap.
    pub thread: String,
    pub op: Op,
    pub ret: Ret,
    pub from_ns: u64,
    pub until_ns: u64,
}

/// Checks the history; says how many calls and pieces there were, or which piece has no order.
pub fn check(mut calls: Vec<Call>) -> Result<String, String> {
    calls.sort_by_key(|call| call.from_ns);
    let mut state = Guarded::default();
    let (mut pieces, mut start, mut open_until) = (0, 0, 0);
    for next in 1..=calls.len() {
        open_until = open_until.max(calls[next - 1].until_ns);
        let quiet = calls.get(next).is_none_or(|call| call.from_ns > open_until);
        if quiet && (next - start >= PIECE || next == calls.len()) {
            state = check_piece(state, &calls[start..next])?;
            pieces += 1;
            start = next;
        }
    }
    Ok(format!("{} calls in {pieces} pieces are linearizable", calls.len()))
}

/// The state after the piece. There is only one: every call has returned.
fn check_piece(before: Guarded, calls: &[Call]) -> Result<Guarded, String> {
    // At the same moment, calls before returns: that allows more orders, never fewer.
    let mut events: Vec<_> =
        calls.iter().flat_map(|call| [(call.from_ns, 0, call), (call.until_ns, 1, call)]).collect();
    events.sort_by_key(|(at_ns, kind, _)| (*at_ns, *kind));
    let mut threads: Vec<&str> = Vec::new();
    let mut tester = LinearizabilityTester::new(before.clone());
    for (_, kind, call) in events {
        let known = threads.iter().position(|thread| *thread == call.thread);
        let thread = known.unwrap_or_else(|| {
            threads.push(&call.thread);
            threads.len() - 1
        });
        match kind {
            0 => tester.on_invoke(thread, call.op)?,
            _ => tester.on_return(thread, call.ret)?,
        };
    }
    let Some(order) = tester.serialized_history() else {
        return Err(format!("no order explains, from {before:?} on:\n{calls:#?}"));
    };
    let mut state = before;
    for (op, _) in order {
        state.invoke(&op);
    }
    Ok(state)
}

mod tests {
    use super::*;

    fn call(thread: &str, op: Op, ret: Ret, from_ns: u64, until_ns: u64) -> Call {
        Call { thread: thread.to_owned(), op, ret, from_ns, until_ns }
    }

    #[test]
    fn calls_at_the_same_time_may_have_any_order() {
        let history = vec![
            call("a", Op::Grant(1), Ret::Granted, 0, 5),
            call("a", Op::Append(1), Ret::Appended(2), 6, 20),
            call("b", Op::Append(1), Ret::Appended(1), 7, 9),
            call("b", Op::Grant(2), Ret::Granted, 10, 30),
            call("c", Op::Renew(1), Ret::Renewed, 15, 25),
            call("b", Op::Append(2), Ret::Appended(3), 31, 40),
            call("a", Op::Append(1), Ret::Refused, 32, 45),
        ];
        check(history).expect("there is an order");
    }

    #[test]
    fn broken_register_that_accepts_a_lower_epoch() {
        let history = vec![
            call("b", Op::Append(2), Ret::Appended(1), 0, 5),
            call("a", Op::Append(1), Ret::Appended(2), 6, 9),
        ];
        check(history).expect_err("a zombie was let in");
    }

    #[test]
    fn broken_renewal_of_a_superseded_epoch() {
        let history = vec![
            call("a", Op::Grant(1), Ret::Granted, 0, 1),
            call("b", Op::Grant(2), Ret::Granted, 2, 3),
            call("a", Op::Renew(1), Ret::Renewed, 4, 5),
        ];
        check(history).expect_err("two leaders");
    }

    #[test]
    fn broken_append_that_was_lost() {
        let history = vec![
            call("a", Op::Append(1), Ret::Appended(1), 0, 1),
            call("b", Op::Append(2), Ret::Appended(1), 2, 3),
        ];
        check(history).expect_err("an acknowledged entry is gone");
    }
}
