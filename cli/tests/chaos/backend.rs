//! Where the processes meet: our server, with its faults; a directory; or a server of the
//! environment.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tenure::store::{DirStore, GetOutcome, Store};
use tokio::runtime::Runtime;

use crate::child::{self, now_ns};
use crate::proxy::Proxy;
use tenure_testkit::environment;
use tenure_testkit::s3_server::{BUCKET, Fault, Op, S3Server};

pub struct Backend {
    kind: Kind,
    /// For the test's own reads.
    store: Arc<dyn Store>,
    runtime: Runtime,
    prefix: String,
    /// Until when the server is away, or the directory's lock is held.
    away_until_ns: Option<u64>,
    lock: Option<File>,
    /// While this file exists, the directory's disk fails.
    trigger: Option<PathBuf>,
}

enum Kind {
    Server(S3Server),
    Dir(PathBuf),
    /// Proxies before all its gateways.
    Environment(Vec<Proxy>),
}

/// What can be done to a backend.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Harm {
    /// The server, or a proxy before it, cuts all connections and takes no new ones for a while, as
    /// one that restarts.
    Restart,
    /// Somebody holds the directory's lock, so that nobody can write.
    Lock,
    /// The disk fails each fsync for a while, and forgets what it was to write.
    Disk,
    /// The connection breaks before or after the request has taken effect.
    CutBefore,
    CutAfter,
    /// The same with 500.
    ErrorBefore,
    ErrorAfter,
    SlowDown,
    Conflict,
    /// Answered late, takes effect late, or once more.
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
    fn new(kind: Kind, store: Arc<dyn Store>, prefix: String) -> Backend {
        Backend::on(runtime(), kind, store, prefix)
    }

    fn on(runtime: Runtime, kind: Kind, store: Arc<dyn Store>, prefix: String) -> Backend {
        Backend { kind, store, runtime, prefix, away_until_ns: None, lock: None, trigger: None }
    }

    pub fn server() -> Backend {
        let server = S3Server::start_blocking();
        let store = Arc::new(server.store(BUCKET));
        Backend::new(Kind::Server(server), store, "chaos/".to_owned())
    }

    pub fn dir(path: &Path) -> Backend {
        let store = Arc::new(DirStore::open(path).expect("a directory"));
        Backend::new(Kind::Dir(path.to_owned()), store, String::new())
    }

    /// A directory on the disk of `scripts/failing-disk.sh`.
    pub fn disk() -> Backend {
        let mut backend = Backend::dir(&disk("DISK_ROOT"));
        backend.trigger = Some(disk("DISK_TRIGGER"));
        backend
    }

    pub fn environment() -> Backend {
        let (store, _) = environment::server();
        let (runtime, endpoints) = (runtime(), environment::endpoints());
        let proxies = endpoints.iter().map(|endpoint| Proxy::start(&runtime, endpoint)).collect();
        Backend::on(runtime, Kind::Environment(proxies), store, environment::prefix("chaos"))
    }

    pub fn is_of_the_environment(&self) -> bool {
        matches!(self.kind, Kind::Environment(_))
    }

    /// The URL of the election.
    pub fn url(&self) -> String {
        match &self.kind {
            Kind::Server(_) => format!("s3://{BUCKET}/{}leader", self.prefix),
            Kind::Dir(path) => format!("file://{}", path.display()),
            Kind::Environment(_) => format!("s3://{}/{}leader", environment::bucket(), self.prefix),
        }
    }

    /// What a candidate and its child find in their environment.
    pub fn env(&self, candidate: usize) -> Vec<(&'static str, String)> {
        let mut env = vec![(child::PREFIX, self.prefix.clone())];
        match &self.kind {
            Kind::Server(server) => {
                env.extend(server.env());
                env.push(("TENURE_TEST_S3_BUCKET", BUCKET.to_owned()));
                env.push((child::STORE, "s3".to_owned()));
            }
            Kind::Dir(path) => env.push((child::STORE, path.display().to_string())),
            Kind::Environment(proxies) => {
                let endpoint = proxies[candidate % proxies.len()].endpoint();
                env.push(("AWS_ENDPOINT_URL", endpoint));
                env.push((child::STORE, "s3".to_owned()));
            }
        }
        env
    }

    fn epoch_key(&self, epoch: u64) -> String {
        match &self.kind {
            Kind::Dir(_) => format!("lock-{epoch:010}.json"),
            _ => format!("{}leader/lock-{epoch:010}.json", self.prefix),
        }
    }

    /// The body of an epoch object; an error if the store does not answer.
    pub fn epoch_object(&self, epoch: u64) -> Result<Option<Bytes>, ()> {
        let key = self.epoch_key(epoch);
        if let Kind::Server(server) = &self.kind {
            return Ok(server.object(&key).map(|stored| stored.body));
        }
        match self.wait_for(child::answer(self.store.get(&key, None, 1 << 16))) {
            Some(GetOutcome::Found(object)) => Ok(Some(object.body)),
            Some(_) => Ok(None),
            None => Err(()),
        }
    }

    /// The epochs above this one that have an object.
    pub fn epochs_after(&self, epoch: u64) -> Result<Vec<u64>, ()> {
        let after = self.epoch_key(epoch);
        let start = after.len() - "0000000001.json".len();
        if let Kind::Server(server) = &self.kind {
            let keys = server.keys().into_iter().filter(|key| key.starts_with(&after[..start]));
            return Ok(keys.filter(|key| *key > after).map(|key| number(&key, start)).collect());
        }
        let list = self.store.list(&after[..start], &after, 1_000);
        let page = self.wait_for(child::answer(list)).ok_or(())?;
        Ok(page.entries.iter().map(|entry| number(&entry.key, start)).collect())
    }

    /// What a power loss would leave of the manifest, where that is known.
    pub fn manifest_on_the_disk(&self) -> Option<Vec<(u64, child::Entry)>> {
        self.trigger.as_ref().map(|_| Backend::dir(&disk("DISK_IMAGE")).manifest())
    }

    /// All of the manifest, by number.
    pub fn manifest(&self) -> Vec<(u64, child::Entry)> {
        let prefix = child::key(&self.prefix, 0).replace("00000000000000000000.json", "");
        let mut entries = Vec::new();
        let mut after = String::new();
        loop {
            let page = self.at_last(|| self.store.list(&prefix, &after, 1_000));
            for entry in &page.entries {
                let found = self.at_last(|| self.store.get(&entry.key, None, 1 << 16));
                let GetOutcome::Found(object) = found else { panic!("{} is gone", entry.key) };
                let body = serde_json::from_slice(&object.body);
                let body = body.expect("only whole entries are written there");
                entries.push((number(&entry.key, prefix.len()), body));
            }
            match page.entries.last() {
                Some(last) if page.truncated => after.clone_from(&last.key),
                _ => return entries,
            }
        }
    }

    /// The answer; what was done to the backend may last for a while.
    fn at_last<T, F>(&self, call: impl Fn() -> F) -> T
    where
        F: Future<Output = Result<T, tenure::store::StoreError>>,
    {
        let answer = (0..100).find_map(|_| self.wait_for(child::answer(call())));
        answer.expect("the store answers in the end")
    }

    fn wait_for<T>(&self, call: impl Future<Output = T>) -> T {
        self.runtime.block_on(call)
    }

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

    /// Does it, or orders it for the next requests; says what exactly, or nothing if it cannot be
    /// done now.
    pub fn harm(&mut self, harm: Harm, rng: &mut fastrand::Rng) -> Option<String> {
        let away = Duration::from_millis(rng.u64(50..1_500));
        let late = Duration::from_millis(rng.u64(100..3_000));
        let until_ns = now_ns() + u64::try_from(away.as_nanos()).expect("it is short");
        let server = match (&self.kind, harm) {
            (Kind::Server(server), Harm::Restart) => {
                self.away_until_ns.is_none().then(|| server.go_away(true))?;
                self.away_until_ns = Some(until_ns);
                return Some(format!("away for {away:?}"));
            }
            (Kind::Dir(path), Harm::Lock) if self.away_until_ns.is_none() => {
                let lock = File::options().write(true).open(path.join(".tenure/lock")).ok()?;
                // A stopped process may hold it, and goes on only if this one does not wait.
                lock.try_lock().ok()?;
                (self.lock, self.away_until_ns) = (Some(lock), Some(until_ns));
                return Some(format!("held for {away:?}"));
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
                return Some(format!("no connections for {away:?}"));
            }
            (Kind::Environment(proxies), Harm::CutAfter) => {
                let (proxy, times) = (rng.usize(..proxies.len()), rng.usize(1..9));
                proxies[proxy].cut_after(times);
                return Some(format!("{times} of gateway {proxy}"));
            }
            (Kind::Server(server), _) => server,
            _ => return None,
        };
        let (fault, op) = match harm {
            Harm::CutBefore => (Fault::CutBefore, Op::Put),
            Harm::CutAfter => (Fault::CutAfter, Op::Put),
            Harm::ErrorBefore if rng.bool() => (Fault::ErrorBefore, Op::List),
            Harm::ErrorBefore => (Fault::ErrorBefore, Op::Put),
            Harm::ErrorAfter => (Fault::ErrorAfter, Op::Put),
            Harm::SlowDown if rng.bool() => (Fault::SlowDown, Op::Get),
            Harm::SlowDown => (Fault::SlowDown, Op::Put),
            Harm::Conflict => (Fault::Conflict, Op::Put),
            Harm::AnswerLate => (Fault::AnswerLate(late), Op::Put),
            Harm::ApplyLate => (Fault::ApplyLate(late), Op::Put),
            Harm::ApplyAgain => (Fault::ApplyAgain(late), Op::Put),
            _ => (Fault::TruncatedBody, Op::Get),
        };
        // There are many more appends than requests of the election.
        let (key, times) = if rng.bool() { ("/lock-", 1..4) } else { ("", 1..9) };
        let times = rng.usize(times);
        let said = format!("{fault:?} for {times} {op:?} {key}");
        server.fault(fault).on(op).key_contains(key).times(times);
        Some(said)
    }

    /// Ends what was to last until now.
    pub fn tend(&mut self) {
        if let Kind::Server(server) = &self.kind {
            // Otherwise they would fill the memory in a long run.
            server.forget_requests();
        }
        if self.away_until_ns.is_some_and(|until_ns| until_ns <= now_ns()) {
            self.come_back();
        }
    }

    fn come_back(&mut self) {
        (self.away_until_ns, self.lock) = (None, None);
        if let Some(trigger) = &self.trigger {
            // It may not be there.
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

    /// How many requests met each kind of fault.
    pub fn faults_met(&self) -> BTreeMap<String, usize> {
        match &self.kind {
            Kind::Server(server) => server.faults_met(),
            Kind::Environment(proxies) => {
                let cut = proxies.iter().map(Proxy::cut).sum();
                let met = (cut > 0).then(|| ("CutAfter".to_owned(), cut));
                met.into_iter().collect()
            }
            Kind::Dir(_) => BTreeMap::new(),
        }
    }

    /// Whether every kind of fault was met.
    pub fn all_met(&self, met: &BTreeMap<String, usize>) -> bool {
        let of_requests = |harm: &Harm| !matches!(harm, Harm::Restart | Harm::Lock | Harm::Disk);
        let kinds: BTreeSet<_> = self.harms().into_iter().filter(of_requests).collect();
        met.len() == kinds.len()
    }

    pub fn make_epoch_object(&self, epoch: u64, body: &'static str) {
        let key = self.epoch_key(epoch);
        self.at_last(|| self.store.create(&key, body.into()));
    }

    pub fn delete_epoch_object(&self, epoch: u64) {
        self.at_last(|| self.store.delete(vec![self.epoch_key(epoch)]));
    }
}

fn disk(name: &str) -> PathBuf {
    std::env::var_os(name).expect("set by scripts/failing-disk.sh").into()
}

fn runtime() -> Runtime {
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime.worker_threads(1).enable_all().build();
    runtime.expect("a runtime can be built")
}

/// The number in a key, from there on.
fn number(key: &str, start: usize) -> u64 {
    key[start..].trim_end_matches(".json").parse().expect("only numbers are written there")
}
