//! Faults of the store, or of the connection to the store.

use std::fs::File;
use std::time::Duration;

use tenure_testkit::s3_server::{Op, ServerFault};

use super::{Backend, Kind};
use crate::child::now_ns;
use crate::proxy::Proxy;

/// A fault of the store, or of the connection to the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Harm {
    /// The server, or a proxy in front of it, cuts all connections and refuses new ones for a
    /// while, as a restarting server does.
    Restart,
    /// The test holds the lock of the directory, so no process of the run can write.
    Lock,
    /// Each fsync fails for a while, and the disk loses the data that these calls should have
    /// synced.
    Disk,
    /// The connection breaks before or after the request has taken effect.
    CutBefore,
    CutAfter,
    /// The server answers 500 before or after the request has taken effect.
    ErrorBefore,
    ErrorAfter,
    SlowDown,
    Conflict,
    /// The server delays the request or its answer, or the request takes effect twice.
    AnswerLate,
    ApplyLate,
    ApplyAgain,
    HalfABody,
}

impl Harm {
    const OF_A_SERVER: [Harm; 11] = [
        Harm::Restart,
        Harm::CutBefore,
        Harm::CutAfter,
        Harm::ErrorBefore,
        Harm::ErrorAfter,
        Harm::SlowDown,
        Harm::Conflict,
        Harm::AnswerLate,
        Harm::ApplyLate,
        Harm::ApplyAgain,
        Harm::HalfABody,
    ];
}

impl Backend {
    pub fn harms(&self) -> Vec<Harm> {
        match &self.kind {
            Kind::Server(_) => Harm::OF_A_SERVER.to_vec(),
            Kind::Dir(_) if self.trigger.is_some() => {
                vec![Harm::Lock, Harm::Disk, Harm::Disk, Harm::Disk]
            }
            Kind::Dir(_) => vec![Harm::Lock],
            Kind::Environment(_) => {
                vec![Harm::Restart, Harm::CutAfter, Harm::CutAfter, Harm::CutAfter]
            }
        }
    }

    /// Starts the fault, or arranges that the next requests meet the fault. Returns a description
    /// of the fault, or `None` if the fault is not possible now.
    pub fn harm(&mut self, harm: Harm, rng: &mut fastrand::Rng) -> Option<String> {
        let away = Duration::from_millis(rng.u64(50..1_500));
        let late = Duration::from_millis(rng.u64(100..3_000));
        let until_ns = now_ns() + nanos(away);
        let server = match (&self.kind, harm) {
            (Kind::Server(server), Harm::Restart) => {
                self.away_until_ns.is_none().then(|| server.go_away(true))?;
                self.away_until_ns = Some(until_ns);
                return Some(format!("away for {away:?}"));
            }
            (Kind::Dir(path), Harm::Lock) if self.away_until_ns.is_none() => {
                let lock = File::options().write(true).open(path.join(".tenure/lock")).ok()?;
                // A process that the test has suspended may hold the lock. So this function must
                // not wait for the lock, because its thread must later continue the suspended
                // process.
                lock.try_lock().ok()?;
                let held = away.min(Duration::from_millis(self.longest_lock_ms));
                let until_ns = until_ns - nanos(away - held);
                (self.lock, self.away_until_ns) = (Some(lock), Some(until_ns));
                return Some(format!("held for {held:?}"));
            }
            (Kind::Dir(_), Harm::Disk) if self.away_until_ns.is_none() => {
                File::create(self.trigger.as_ref()?).expect("a file");
                self.away_until_ns = Some(until_ns);
                return Some(format!("fails for {away:?}"));
            }
            (Kind::Environment(proxies), Harm::Restart) => {
                self.away_until_ns.is_none().then_some(())?;
                proxies.iter().for_each(|proxy| proxy.go_away(true));
                self.away_until_ns = Some(until_ns);
                return Some(format!("refuses connections for {away:?}"));
            }
            (Kind::Environment(proxies), Harm::CutAfter) => {
                let (proxy, times) = (rng.usize(..proxies.len()), rng.usize(1..9));
                proxies[proxy].cut_after(times);
                return Some(format!("cuts {times} connections of gateway {proxy}"));
            }
            (Kind::Server(server), _) => server,
            _ => return None,
        };
        let (fault, op) = match harm {
            Harm::CutBefore => (ServerFault::CutBefore, Op::Put),
            Harm::CutAfter => (ServerFault::CutAfter, Op::Put),
            Harm::ErrorBefore if rng.bool() => (ServerFault::ErrorBefore, Op::List),
            Harm::ErrorBefore => (ServerFault::ErrorBefore, Op::Put),
            Harm::ErrorAfter => (ServerFault::ErrorAfter, Op::Put),
            Harm::SlowDown if rng.bool() => (ServerFault::SlowDown, Op::Get),
            Harm::SlowDown => (ServerFault::SlowDown, Op::Put),
            Harm::Conflict => (ServerFault::Conflict, Op::Put),
            Harm::AnswerLate => (ServerFault::AnswerLate(late), Op::Put),
            Harm::ApplyLate => (ServerFault::ApplyLate(late), Op::Put),
            Harm::ApplyAgain => (ServerFault::ApplyAgain(late), Op::Put),
            _ => (ServerFault::TruncatedBody, Op::Get),
        };
        let (key, most) = rng.choice(self.faulted).expect("`faulted` is not empty");
        let times = rng.usize(1..=*most);
        let said = format!("{fault:?} for {times} {op:?} {key}");
        server.fault(fault).on(op).key_contains(key).times(times);
        Some(said)
    }

    /// Ends the current fault of the server, the directory or the disk when its duration has
    /// passed.
    pub fn tend(&mut self) {
        if let Kind::Server(server) = &self.kind {
            // The server records each request. In a long run, the records would exhaust the memory,
            // so this call deletes them.
            server.forget_requests();
        }
        if self.away_until_ns.is_some_and(|until_ns| until_ns <= now_ns()) {
            self.come_back();
        }
    }

    fn come_back(&mut self) {
        (self.away_until_ns, self.lock) = (None, None);
        if let Some(trigger) = &self.trigger {
            // The file exists only during a fault of the disk, so an error is ignored.
            let _ = std::fs::remove_file(trigger);
        }
        match &self.kind {
            Kind::Server(server) => server.go_away(false),
            Kind::Environment(proxies) => proxies.iter().for_each(|proxy| proxy.go_away(false)),
            Kind::Dir(_) => {}
        }
    }

    pub fn calm(&mut self) {
        self.come_back();
        match &self.kind {
            Kind::Server(server) => server.clear_faults(),
            Kind::Environment(proxies) => proxies.iter().for_each(Proxy::calm),
            Kind::Dir(_) => {}
        }
    }
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).expect("the time is short")
}
