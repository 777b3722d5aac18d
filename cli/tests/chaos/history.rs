//! Checks a history of grants, renewals and writes with stateright's checker. The history must be
//! linearizable. This means that one register that refuses lower epochs could have produced the
//! same history.

use stateright::semantics::{ConsistencyTester as _, LinearizabilityTester, SequentialSpec};

/// Target number of calls in a piece of the history. The checker's work grows with the square of
/// the number of calls. So the history is cut into pieces at moments without pending calls.
const PIECE: usize = 60;
/// Stack size of the thread that runs the checker. The checker recurses once for each call.
const STACK: usize = 1 << 30;

/// The register that all processes together must behave like. It contains the granted epoch, and
/// the manifest that the leaders write.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Guarded {
    granted: u64,
    /// The epoch of the last entry in the manifest, or the epoch of a claim after this entry.
    written_by: u64,
    entries: u64,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Op {
    Grant(u64),
    Renew(u64),
    /// Claims the manifest for an epoch. Later appends of lower epochs are refused.
    Claim(u64),
    Append(u64),
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Ret {
    Granted,
    Renewed,
    Claimed,
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
            Op::Claim(epoch) if (self.written_by..=self.granted).contains(&epoch) => {
                self.written_by = epoch;
                Ret::Claimed
            }
            Op::Append(epoch) if (self.written_by..=self.granted).contains(&epoch) => {
                self.written_by = epoch;
                self.entries += 1;
                Ret::Appended(self.entries)
            }
            _ => Ret::Refused,
        }
    }
}

/// A call by a process. It took effect at one moment between `from_ns` and `until_ns`.
#[derive(Clone, Debug)]
pub struct Call {
    pub op: Op,
    pub ret: Ret,
    pub from_ns: u64,
    pub until_ns: u64,
}

/// Checks the history. Returns the numbers of calls and pieces, or an error with the piece that has
/// no valid order.
pub fn check(calls: Vec<Call>) -> Result<String, String> {
    let thread = std::thread::Builder::new().stack_size(STACK).spawn(move || check_all(calls));
    thread.expect("the thread starts").join().expect("the checker does not panic")
}

fn check_all(mut calls: Vec<Call>) -> Result<String, String> {
    calls.sort_by_key(|call| call.from_ns);
    let mut state = Guarded::default();
    let (mut pieces, mut longest, mut start, mut open_until) = (0, 0, 0, 0);
    for next in 1..=calls.len() {
        open_until = open_until.max(calls[next - 1].until_ns);
        let quiet = calls.get(next).is_none_or(|call| call.from_ns > open_until);
        if quiet && (next - start >= PIECE || next == calls.len()) {
            state = check_piece(state, &calls[start..next])?;
            pieces += 1;
            longest = longest.max(next - start);
            start = next;
        }
    }
    let count = calls.len();
    Ok(format!("{count} calls in {pieces} pieces of up to {longest} are linearizable"))
}

/// Returns the state of the register after these calls. No later call overlaps these calls, so only
/// one state is possible.
fn check_piece(before: Guarded, calls: &[Call]) -> Result<Guarded, String> {
    // Assign each call to the first thread without a pending call. The checker tries fewer orders
    // if it has fewer threads. The calls of one thread do not overlap, so no valid order is
    // excluded.
    let mut free_from: Vec<u64> = Vec::new();
    let mut events = Vec::new();
    for call in calls {
        let free = free_from.iter().position(|until_ns| *until_ns < call.from_ns);
        let thread = free.unwrap_or(free_from.len());
        if thread == free_from.len() {
            free_from.push(0);
        }
        free_from[thread] = call.until_ns;
        // If a call and a return have the same time, put the call first. The checker then treats
        // the two calls as concurrent, and allows both orders.
        events.extend([(call.from_ns, 0, thread, call), (call.until_ns, 1, thread, call)]);
    }
    events.sort_by_key(|(at_ns, kind, ..)| (*at_ns, *kind));
    let mut tester = LinearizabilityTester::new(before.clone());
    for (_, kind, thread, call) in events {
        match kind {
            0 => tester.on_invoke(thread, call.op)?,
            _ => tester.on_return(thread, call.ret)?,
        };
    }
    let Some(order) = tester.serialized_history() else {
        return Err(format!("no order explains these calls after {before:?}:\n{calls:#?}"));
    };
    let mut state = before;
    for (op, _) in order {
        state.invoke(&op);
    }
    Ok(state)
}

mod tests {
    use super::*;

    fn call(op: Op, ret: Ret, from_ns: u64, until_ns: u64) -> Call {
        Call { op, ret, from_ns, until_ns }
    }

    fn grants(epochs: u64) -> Vec<Call> {
        let grant = |epoch| call(Op::Grant(epoch), Ret::Granted, epoch * 10, epoch * 10 + 1);
        (1..=epochs).map(grant).collect()
    }

    #[test]
    fn concurrent_calls_may_have_any_order() {
        let mut history = vec![
            call(Op::Grant(1), Ret::Granted, 0, 5),
            call(Op::Append(1), Ret::Appended(2), 6, 20),
            call(Op::Append(1), Ret::Appended(1), 7, 9),
            call(Op::Grant(2), Ret::Granted, 10, 30),
            call(Op::Renew(1), Ret::Renewed, 15, 25),
            call(Op::Append(2), Ret::Appended(3), 31, 40),
            call(Op::Append(1), Ret::Refused, 32, 45),
        ];
        check(history.clone()).expect("a valid order exists");
        history[4].from_ns = 31;
        history[4].until_ns = 33;
        check(history).expect_err("a renewal after the next grant is invalid");
    }

    #[test]
    fn a_grant_is_unique_across_pieces() {
        let mut history = grants(1);
        for entry in 1..=200 {
            let from_ns = 100 + entry * 10;
            history.push(call(Op::Append(1), Ret::Appended(entry), from_ns, from_ns + 5));
        }
        let said = check(history.clone()).expect("a valid order exists");
        assert!(said.contains("in 4 pieces"), "{said}");
        history.push(call(Op::Grant(1), Ret::Granted, 9_000, 9_001));
        check(history).expect_err("a second grant of an epoch is invalid");
    }

    #[test]
    fn broken_register_that_accepts_a_lower_epoch_is_caught() {
        let mut history = grants(2);
        history.extend([
            call(Op::Append(2), Ret::Appended(1), 30, 35),
            call(Op::Append(1), Ret::Appended(2), 36, 39),
        ]);
        check(history).expect_err("an append of a lower epoch is invalid");
    }

    #[test]
    fn broken_append_after_a_greater_claim_is_caught() {
        let mut history = grants(2);
        history.extend([
            call(Op::Claim(1), Ret::Claimed, 30, 31),
            call(Op::Append(1), Ret::Appended(1), 32, 50),
            call(Op::Claim(2), Ret::Claimed, 40, 45),
        ]);
        check(history.clone()).expect("an append before the claim is valid");
        history.push(call(Op::Append(1), Ret::Appended(2), 51, 52));
        check(history).expect_err("an append after the claim is invalid");
    }

    #[test]
    fn broken_append_before_the_grant_is_caught() {
        let mut history = grants(1);
        history.push(call(Op::Append(1), Ret::Appended(1), 1, 2));
        check(history).expect_err("an append before the grant is invalid");
    }

    #[test]
    fn broken_grant_after_a_greater_epoch_is_caught() {
        let mut history = grants(2);
        history.push(call(Op::Grant(1), Ret::Granted, 40, 41));
        check(history).expect_err("a grant after a greater epoch is invalid");
    }

    #[test]
    fn broken_renewal_of_a_superseded_epoch_is_caught() {
        let mut history = grants(2);
        history.push(call(Op::Renew(1), Ret::Renewed, 40, 50));
        check(history).expect_err("a renewal of a superseded epoch is invalid");
    }

    #[test]
    fn broken_append_that_is_lost_is_caught() {
        let mut history = grants(2);
        history.extend([
            call(Op::Append(1), Ret::Appended(1), 30, 31),
            call(Op::Append(2), Ret::Appended(1), 32, 33),
        ]);
        check(history).expect_err("a lost append is invalid");
    }

    #[test]
    fn broken_refusal_without_a_greater_epoch_is_caught() {
        let mut history = grants(1);
        history.push(call(Op::Append(1), Ret::Refused, 30, 31));
        check(history).expect_err("a refusal without a greater epoch is invalid");
    }
}
