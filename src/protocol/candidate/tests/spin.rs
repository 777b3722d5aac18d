//! Tests that no sequence of answers makes the machine panic, or makes it send requests forever
//! without a pause.

use std::hash::{DefaultHasher, Hash, Hasher};

use super::*;

/// Returns a random answer that fits the request.
fn answer(request: &Request, rng: &mut fastrand::Rng) -> Answer {
    match (request, rng.u8(0..8)) {
        (_, 0) => Answer::Unknown,
        (_, 1) if rng.u8(0..4) == 0 => Answer::Denied,
        (_, 1) if rng.u8(0..4) == 0 => Answer::Unsafe,
        (Request::List(After::Number(after)), roll) if *after < Epoch::MAX.get() - 4 => {
            let least = after + rng.u64(1..3);
            let greatest = least + rng.u64(0..2);
            let rest = rng.bool().then_some(After::Number(greatest));
            match roll {
                2..6 => Answer::Listed(Listing { epochs: Some((e(least), e(greatest))), rest }),
                6 => {
                    let rest = Some(After::Key("foreign".into()));
                    Answer::Listed(Listing { epochs: None, rest })
                }
                _ => listed(&[]),
            }
        }
        (Request::List(_), _) => listed(&[]),
        (Request::Get { unless: Some(_), .. }, 2..5) => Answer::NotModified,
        (Request::Get { .. }, 2) => Answer::Missing,
        (Request::Get { .. }, 3) if rng.bool() => Answer::Unreadable,
        (Request::Get { epoch, .. }, _) => {
            let epoch = epoch.expect("a GET of epoch files names an epoch");
            let words =
                [EpochEnd::Resigned, EpochEnd::Lapsed, EpochEnd::Deposed, EpochEnd::Unknown];
            let seen = Seen {
                nonce: Some(n(rng.u128(0..4))).filter(|_| rng.bool()),
                heartbeat: rng.u64(0..5),
                ended: rng.bool().then(|| rng.choice(words)).flatten(),
                reclaimable: rng.u8(0..4) == 0,
            };
            let etag = tag(["a", "b", "c"][rng.usize(0..3)]);
            let sighting = Sighting { epoch, etag, seen };
            Answer::Found { sighting, touched: rng.u8(0..4) == 0 }
        }
        (_, 2 | 3) => Answer::Refused,
        (_, 4) => Answer::Missing,
        _ => done(["a", "b", "c"][rng.usize(0..3)]),
    }
}

/// Returns the input that may reach a waiting machine immediately, or `None` if the driver sends
/// each input only after a delay.
fn at_once(rules: Rules, wait: &Wait) -> Option<Input> {
    match wait {
        // The driver of an observer sends `Lapsed` only at the time of the next poll.
        Wait::Follow if rules.observer => None,
        Wait::Follow | Wait::Deposed => Some(Input::Lapsed),
        Wait::Takeover => Some(Input::TakeoverOver),
        Wait::NoLeader | Wait::Lead | Wait::Retry | Wait::Over => None,
    }
}

fn later(wait: &Wait, rng: &mut fastrand::Rng) -> Input {
    let inputs: &[Input] = match wait {
        Wait::Lead => &[Input::RenewDue, Input::LookDue, Input::Resign, Input::Abandon],
        Wait::Retry => &[Input::Resume],
        _ => &[Input::PollDue, Input::Lapsed, Input::TakeoverOver, Input::LeaseEnded],
    };
    inputs[rng.usize(..inputs.len())].clone()
}

#[test]
fn no_store_makes_the_machine_spin_or_panic() {
    for seed in 0..50_000 {
        let mut rng = fastrand::Rng::with_seed(seed);
        let rules = Rules {
            observer: rng.u8(0..8) == 0,
            verify_renewals: rng.bool(),
            takeover_delay: rng.bool(),
        };
        let mut play = Play::new(rules, None);
        let mut nonces = 0;
        // Random answers and inputs move the machine to a random state.
        for _ in 0..rng.usize(0..60) {
            let input = match play.machine.step() {
                Step::Request(request) => Input::Answer(answer(&request, &mut rng)),
                Step::Nonce => {
                    nonces += 1;
                    Input::Nonce(n(nonces % 4))
                }
                Step::Wait(wait) => later(&wait, &mut rng),
                // The real driver passes `Resume` only after a pause.
                Step::Failed(Failure::Denied) => Input::Resume,
                Step::Failed(_) => break,
            };
            play.input(input);
        }
        // From this state on, the store gives equal answers to equal requests, and each input
        // arrives immediately.
        let mut requests = Vec::new();
        loop {
            let input = match play.machine.step() {
                Step::Request(request) => {
                    let mut hasher = DefaultHasher::new();
                    (seed, &request).hash(&mut hasher);
                    let mut rng = fastrand::Rng::with_seed(hasher.finish());
                    let mut answer = answer(&request, &mut rng);
                    // `touched` means that a peer has written the same body again. No process
                    // writes in this phase, so it must be false.
                    if let Answer::Found { touched, .. } = &mut answer {
                        *touched = false;
                    }
                    requests.push(request);
                    Input::Answer(answer)
                }
                Step::Nonce => {
                    nonces += 1;
                    Input::Nonce(n(nonces % 4))
                }
                Step::Wait(wait) => match at_once(rules, &wait) {
                    Some(input) => input,
                    None => break,
                },
                Step::Failed(_) => break,
            };
            play.input(input);
            let last = requests.len().saturating_sub(12);
            assert!(requests.len() < 500, "seed {seed}: {:#?}", &requests[last..]);
        }
    }
}
