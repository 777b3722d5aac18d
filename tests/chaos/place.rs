//! Where the processes meet: our server, with its faults; a directory; or a server of the
//! environment.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tenure::store::{DirStore, GetOutcome, Store};
use tokio::runtime::Runtime;

use crate::child;
use crate::support::environment;
use crate::support::s3_server::{BUCKET, Fault, Op, S3Server};

pub struct Place {
    kind: Kind,
    /// For the test's own reads, which meet no fault.
    store: Arc<dyn Store>,
    runtime: Runtime,
    prefix: String,
}

enum Kind {
    Server(S3Server),
    Dir(PathBuf),
    Environment,
}

impl Place {
    pub fn server() -> Place {
        let server = S3Server::start_blocking();
        let store = Arc::new(server.store(BUCKET));
        Place { kind: Kind::Server(server), store, runtime: runtime(), prefix: "chaos/".to_owned() }
    }

    pub fn dir(path: &Path) -> Place {
        let store = Arc::new(DirStore::open(path).expect("a directory"));
        let kind = Kind::Dir(path.to_owned());
        Place { kind, store, runtime: runtime(), prefix: String::new() }
    }

    pub fn environment() -> Place {
        let (store, _) = environment::server();
        let prefix = environment::prefix("chaos");
        Place { kind: Kind::Environment, store, runtime: runtime(), prefix }
    }

    pub fn is_of_the_environment(&self) -> bool {
        matches!(self.kind, Kind::Environment)
    }

    /// The URL of the election.
    pub fn url(&self) -> String {
        match &self.kind {
            Kind::Server(_) => format!("s3://{BUCKET}/{}leader", self.prefix),
            Kind::Dir(path) => format!("file://{}", path.display()),
            Kind::Environment => format!("s3://{}/{}leader", environment::bucket(), self.prefix),
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
            Kind::Environment => {
                let endpoints = environment::endpoints();
                let endpoint = endpoints[candidate % endpoints.len()].clone();
                env.push(("AWS_ENDPOINT_URL", endpoint));
                env.push((child::STORE, "s3".to_owned()));
            }
        }
        env
    }

    /// The body of an epoch object; an error if the store does not answer.
    pub fn epoch_object(&self, epoch: u64) -> Result<Option<Bytes>, ()> {
        let folder = match &self.kind {
            Kind::Dir(_) => String::new(),
            _ => format!("{}leader/", self.prefix),
        };
        let key = format!("{folder}lock-{epoch:010}.json");
        if let Kind::Server(server) = &self.kind {
            return Ok(server.object(&key).map(|stored| stored.body));
        }
        match self.runtime.block_on(self.store.get(&key, None, 1 << 16)) {
            Ok(GetOutcome::Found(object)) => Ok(Some(object.body)),
            Ok(_) => Ok(None),
            Err(_) => Err(()),
        }
    }

    /// All of the manifest, by number.
    pub fn manifest(&self) -> Vec<(u64, child::Entry)> {
        let prefix = child::key(&self.prefix, 0).replace("00000000000000000000.json", "");
        let mut entries = Vec::new();
        let mut after = String::new();
        loop {
            let list = self.store.list(&prefix, &after, 1_000);
            let page = self.runtime.block_on(list).expect("the store answers in the end");
            for entry in &page.entries {
                let number = entry.key[prefix.len()..].trim_end_matches(".json");
                let number = number.parse().expect("only numbers are written there");
                let get = self.store.get(&entry.key, None, 1 << 16);
                let Ok(GetOutcome::Found(object)) = self.runtime.block_on(get) else {
                    panic!("{} cannot be read", entry.key);
                };
                let body = serde_json::from_slice(&object.body);
                entries.push((number, body.expect("only whole entries are written there")));
            }
            match page.entries.last() {
                Some(last) if page.truncated => after.clone_from(&last.key),
                _ => return entries,
            }
        }
    }

    /// Orders one fault for the next requests, or restarts the server; says what it did. Nothing
    /// happens where the place is not our own server.
    pub fn harm(&self, rng: &mut fastrand::Rng, away: Duration) -> Option<String> {
        let Kind::Server(server) = &self.kind else { return None };
        if rng.u8(..) < 40 {
            server.go_away(true);
            child::nap(away);
            server.go_away(false);
            return Some(format!("the server was away for {away:?}"));
        }
        let late = Duration::from_millis(rng.u64(100..3_000));
        let fault = match rng.u8(0..11) {
            0 | 1 => Fault::CutAfter,
            2 => Fault::CutBefore,
            3 => Fault::ErrorAfter,
            4 => Fault::ErrorBefore,
            5 => Fault::SlowDown,
            6 => Fault::Conflict,
            7 => Fault::AnswerLate(late),
            8 => Fault::ApplyLate(late),
            9 => Fault::ApplyAgain(late),
            _ => Fault::TruncatedBody,
        };
        let op = match (&fault, rng.u8(0..6)) {
            (Fault::TruncatedBody, _) | (_, 0) => Op::Get,
            (_, 1) => Op::List,
            _ => Op::Put,
        };
        let times = rng.usize(1..8);
        let said = format!("{fault:?} for {times} {op:?}");
        server.fault(fault).on(op).times(times);
        Some(said)
    }

    pub fn calm(&self) {
        if let Kind::Server(server) = &self.kind {
            server.clear_faults();
        }
    }
}

fn runtime() -> Runtime {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .expect("a runtime can be built")
}
