//! The store that all processes of a run share. It is a directory, the S3 server of the tests, or a
//! server that the environment names.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use bytes::Bytes;
use tenure::store::{DirStore, GetOutcome, Store};
use tokio::runtime::Runtime;

use crate::child;
use crate::proxy::Proxy;
use tenure_testkit::environment;
use tenure_testkit::s3_server::{BUCKET, S3Server};

mod harm;

pub use harm::Harm;

const ENDPOINT: &str = "AWS_ENDPOINT_URL";

pub struct Backend {
    kind: Kind,
    /// The store that the test itself reads. Faults of the connection do not affect these reads.
    store: Arc<dyn Store>,
    runtime: Runtime,
    prefix: String,
    /// The prefix of the names of numbered objects: `lock-` in an election, `assignment-` in a
    /// group.
    numbered: &'static str,
    /// The requests that faults affect. Each pair contains a text and a number. One fault affects
    /// at most this number of requests, and only requests with the text in their keys.
    faulted: &'static [(&'static str, usize)],
    /// Longest time for which the test holds the lock of a directory.
    longest_lock_ms: u64,
    /// Proxies to the server, one for each member of a group. Empty for an election.
    lines: Vec<Proxy>,
    /// Time at which the server accepts connections again, or at which the test releases the lock
    /// of the directory.
    away_until_ns: Option<u64>,
    lock: Option<File>,
    /// While this file exists, the disk of the directory fails.
    trigger: Option<PathBuf>,
}

enum Kind {
    Server(S3Server),
    Dir(PathBuf),
    /// The server that the environment names. Each of its gateways has a proxy in front of it.
    Environment(Vec<Proxy>),
}

impl Backend {
    fn new(kind: Kind, store: Arc<dyn Store>, prefix: String) -> Backend {
        Backend::on(runtime(), kind, store, prefix)
    }

    fn on(runtime: Runtime, kind: Kind, store: Arc<dyn Store>, prefix: String) -> Backend {
        Backend {
            kind,
            store,
            runtime,
            prefix,
            numbered: "lock-",
            // One fault affects up to 3 requests for epoch objects, or up to 8 requests for objects
            // of any kind. The second limit is greater, because appends are frequent.
            faulted: &[("/lock-", 3), ("", 8)],
            longest_lock_ms: 1_500,
            lines: Vec::new(),
            away_until_ns: None,
            lock: None,
            trigger: None,
        }
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

    /// A directory on the disk of `scripts/servers/failing-disk.sh`.
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

    /// Makes this the backend of a group: the test watches the assignments, and faults affect the
    /// keys of groups. If the backend is a server, each member connects through its own proxy.
    pub fn of_group(mut self, members: usize) -> Backend {
        self.numbered = "assignment-";
        self.faulted = &[("/assignment-", 3), ("/members/", 5), ("", 12)];
        // In a group, the test holds the lock for a shorter time than in an election. A group has
        // more writers, and the test may suspend a writer that holds the lock.
        self.longest_lock_ms = 500;
        let endpoint = |member| {
            let env = self.env(member);
            env.into_iter().find(|(name, _)| *name == ENDPOINT).map(|(_, endpoint)| endpoint)
        };
        let endpoints = (0..members).filter_map(endpoint);
        self.lines = endpoints.map(|endpoint| Proxy::start(&self.runtime, &endpoint)).collect();
        self
    }

    /// Returns the proxy that this member of a group uses, if the backend is a server.
    pub fn line(&self, member: usize) -> Option<&Proxy> {
        self.lines.get(member)
    }

    pub fn is_of_the_environment(&self) -> bool {
        matches!(self.kind, Kind::Environment(_))
    }

    /// Returns the store URL of the election, or of the group.
    pub fn url(&self) -> String {
        match &self.kind {
            Kind::Server(_) => format!("s3://{BUCKET}/{}leader", self.prefix),
            Kind::Dir(path) => format!("file://{}", path.display()),
            Kind::Environment(_) => format!("s3://{}/{}leader", environment::bucket(), self.prefix),
        }
    }

    /// Returns the environment variables of a candidate and its child.
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
                env.push((ENDPOINT, endpoint));
                env.push((child::STORE, "s3".to_owned()));
            }
        }
        if let Some(line) = self.line(candidate) {
            // If a variable occurs twice, its last value applies. So the proxy's address replaces
            // the server's address.
            env.push((ENDPOINT, line.endpoint()));
        }
        env
    }

    /// Returns the prefix of the election's or the group's keys. In a directory, the prefix is
    /// empty.
    pub fn home(&self) -> String {
        match &self.kind {
            Kind::Dir(_) => String::new(),
            _ => format!("{}leader/", self.prefix),
        }
    }

    fn epoch_key(&self, epoch: u64) -> String {
        format!("{}{}{epoch:010}.json", self.home(), self.numbered)
    }

    /// Returns the body of an epoch object, or an error if the store does not answer.
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

    /// Returns the numbers of all epoch objects above `epoch`.
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

    /// Returns the manifest that would remain after a power loss, or `None` if the backend cannot
    /// simulate a power loss.
    pub fn manifest_on_the_disk(&self) -> Option<Vec<(u64, child::Entry)>> {
        self.trigger.as_ref().map(|_| Backend::dir(&disk("DISK_IMAGE")).manifest())
    }

    /// Returns the entries of the whole manifest with their numbers, in the order of these numbers.
    pub fn manifest(&self) -> Vec<(u64, child::Entry)> {
        let prefix = child::key(&self.prefix, 0).replace("00000000000000000000.json", "");
        let entry = |(name, body): (String, Bytes)| {
            let body = serde_json::from_slice(&body);
            (number(&name, 0), body.expect("each object in the folder is an entry"))
        };
        self.objects(&prefix).into_iter().map(entry).collect()
    }

    /// Returns the objects in a folder under the test's prefix. The keys omit the name of the
    /// folder.
    pub fn folder(&self, folder: &str) -> Vec<(String, Bytes)> {
        self.objects(&format!("{}{folder}/", self.prefix))
    }

    fn objects(&self, prefix: &str) -> Vec<(String, Bytes)> {
        let mut objects = Vec::new();
        let mut after = String::new();
        loop {
            let page = self.at_last(|| self.store.list(prefix, &after, 1_000));
            for entry in &page.entries {
                let found = self.at_last(|| self.store.get(&entry.key, None, 1 << 16));
                let GetOutcome::Found(object) = found else { panic!("{} is missing", entry.key) };
                objects.push((entry.key[prefix.len()..].to_owned(), object.body));
            }
            match page.entries.last() {
                Some(last) if page.truncated => after.clone_from(&last.key),
                _ => return objects,
            }
        }
    }

    /// Repeats the call until the store answers. A fault may prevent an answer for a while.
    fn at_last<T, F>(&self, call: impl Fn() -> F) -> T
    where
        F: Future<Output = Result<T, tenure::store::StoreError>>,
    {
        let answer = (0..100).find_map(|_| self.wait_for(child::answer(call())));
        answer.expect("the store answers eventually")
    }

    fn wait_for<T>(&self, call: impl Future<Output = T>) -> T {
        self.runtime.block_on(call)
    }

    /// Returns the number of requests that each kind of fault has affected.
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

    /// Returns whether each kind of fault has affected a request.
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
    std::env::var_os(name).expect("set by scripts/servers/failing-disk.sh").into()
}

fn runtime() -> Runtime {
    let mut runtime = tokio::runtime::Builder::new_multi_thread();
    let runtime = runtime.worker_threads(1).enable_all().build();
    runtime.expect("the runtime starts")
}

/// Parses the number in a key. The digits start at the position `start`.
fn number(key: &str, start: usize) -> u64 {
    key[start..].trim_end_matches(".json").parse().expect("each name in the folder is a number")
}
