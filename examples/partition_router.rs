//! A router sends each request to the owner of its partition, while members join, leave and are
//! killed.
//!
//! ```text
//! cargo run --example partition_router                          # on a temporary directory
//! cargo run --example partition_router -- s3://bucket/prefix    # on S3, settings as for the AWS CLI
//! ```
//!
//! Each member serves the partitions that it owns over TCP, and says its address in the group's
//! `data`. The router follows the assignment with `Group::observe`, one GET a poll, and looks up
//! the address there. What it knows may be outdated: a member that does not own the partition
//! answers `moved`, one that is gone does not answer, and the router tries again.
//!
//! So the router may be wrong and costs only time. Whether a request is answered is decided by the
//! owner alone, by `Partition::check`. Look at the last lines: how often the router was wrong, and
//! that no request was answered by a member that did not own its partition.
#![allow(clippy::disallowed_methods, reason = "sleeps and timeouts of an application")]

use std::collections::BTreeMap;
use std::pin::pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use futures::StreamExt as _;
use tenure::Epoch;
use tenure_groups::{Group, GroupSnapshot, Partition};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, watch};
use tokio::task::{JoinHandle, JoinSet};

use support::{Place, Result, Timeline, fail};

mod support;

const PARTITIONS: usize = 12;
const CLIENTS: usize = 4;
const BETWEEN_REQUESTS: Duration = Duration::from_millis(5);
const BETWEEN_TRIES: Duration = Duration::from_millis(50);
const TIMEOUT: Duration = Duration::from_secs(1);
/// Longer than any step takes, also on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

#[tokio::main]
async fn main() -> Result<()> {
    let place = Place::from_args("partition_router").await?;
    println!("Requests for {PARTITIONS} partitions, on {place}.");
    let ledger = Arc::new(Ledger::new(Timeline::start()));

    let router = Arc::new(Router::start(&place)?);
    let mut clients = JoinSet::new();
    for _ in 0..CLIENTS {
        clients.spawn(send_requests(Arc::clone(&router)));
    }
    let anna = Member::start("anna", &place, &ledger).await?;
    let ben = Member::start("ben", &place, &ledger).await?;
    ledger.answers_come_from(&["anna", "ben"]).await?;

    let cleo = Member::start("cleo", &place, &ledger).await?;
    ledger.answers_come_from(&["anna", "ben", "cleo"]).await?;

    anna.kill().await;
    ledger.answers_come_from(&["ben", "cleo"]).await?;

    ben.leave().await?;
    ledger.answers_come_from(&["cleo"]).await?;

    clients.shutdown().await;
    cleo.leave().await?;
    router.print();
    ledger.check()
}

/// Knows who owns what, as of the last poll.
struct Router {
    view: watch::Receiver<Option<GroupSnapshot>>,
    answered: AtomicU64,
    /// Tries that were answered `moved`, and those without an answer.
    moved: AtomicU64,
    silent: AtomicU64,
}

impl Router {
    fn start(place: &Place) -> Result<Router> {
        // The poll interval follows from the validity, as for the members.
        let group = Group::builder(Arc::clone(&place.store), &place.prefix)
            .validity(place.validity)
            .build()?;
        let (news, view) = watch::channel(None);
        tokio::spawn(async move {
            let mut snapshots = group.observe();
            while let Some(snapshot) = snapshots.next().await {
                match snapshot {
                    Ok(snapshot) => drop(news.send_replace(Some(snapshot))),
                    Err(error) => eprintln!("the router does not see the group: {error}"),
                }
            }
        });
        let [answered, moved, silent] = [const { AtomicU64::new(0) }; 3];
        Ok(Router { view, answered, moved, silent })
    }

    fn address(&self, partition: &str) -> Option<String> {
        let view = self.view.borrow();
        Some(view.as_ref()?.owner(partition)?.data["addr"].as_str()?.to_owned())
    }

    /// Tries until the owner answers. A request whose connection broke may have been carried out:
    /// so this is for requests that may be repeated.
    async fn send(&self, partition: &str) -> String {
        loop {
            if let Some(address) = self.address(partition) {
                let answer = tokio::time::timeout(TIMEOUT, ask(&address, partition)).await;
                let count = match answer {
                    Ok(Ok(answer)) if answer != "moved" => {
                        self.answered.fetch_add(1, Ordering::Relaxed);
                        return answer;
                    }
                    Ok(Ok(_)) => &self.moved,
                    Ok(Err(_)) | Err(_) => &self.silent,
                };
                count.fetch_add(1, Ordering::Relaxed);
            }
            // Meanwhile the next poll may show another owner.
            tokio::time::sleep(BETWEEN_TRIES).await;
        }
    }

    fn print(&self) {
        let show =
            |count: &AtomicU64, what| println!("{:>7} {what}", count.load(Ordering::Relaxed));
        println!();
        show(&self.answered, "requests were answered");
        show(&self.moved, "tries reached a member that did not own the partition any more");
        show(&self.silent, "tries reached no member");
    }
}

/// One line there, one line back.
async fn ask(address: &str, partition: &str) -> std::io::Result<String> {
    let mut stream = TcpStream::connect(address).await?;
    stream.write_all(format!("{partition}\n").as_bytes()).await?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await?;
    match answer.strip_suffix('\n') {
        Some(answer) => Ok(answer.to_owned()),
        None => Err(std::io::ErrorKind::UnexpectedEof.into()),
    }
}

async fn send_requests(router: Arc<Router>) {
    for partition in (0..PARTITIONS).cycle() {
        router.send(&partition.to_string()).await;
        tokio::time::sleep(BETWEEN_REQUESTS).await;
    }
}

/// A member of the group, as a process would run it.
struct Member {
    name: &'static str,
    group: Group,
    task: JoinHandle<std::result::Result<(), tenure::Error>>,
    timeline: Timeline,
}

impl Member {
    async fn start(name: &'static str, place: &Place, ledger: &Arc<Ledger>) -> Result<Member> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?.to_string();
        let group = Group::builder(Arc::clone(&place.store), &place.prefix)
            .name(name)
            .partitions(0..PARTITIONS)
            .data(serde_json::json!({ "addr": address }))
            .validity(place.validity)
            .build()?;
        let timeline = ledger.timeline;
        timeline.say(name, format_args!("joins, and listens on {address}"));
        let server = Arc::new(Server { name, owned: Mutex::default(), ledger: Arc::clone(ledger) });
        let member = group.clone();
        let task = tokio::spawn(async move {
            let ended = tokio::select! {
                ended = member.run(async |partition| server.own(partition).await) => ended,
                () = Arc::clone(&server).answer_all(listener) => Ok(()),
            };
            if let Err(error) = &ended {
                timeline.say(name, error);
            }
            ended
        });
        Ok(Member { name, group, task, timeline })
    }

    async fn leave(self) -> Result<()> {
        self.timeline.say(self.name, "leaves");
        self.group.leave();
        Ok(self.task.await??)
    }

    /// Ends it at once with all its connections, as SIGKILL ends a process.
    async fn kill(self) {
        self.task.abort();
        let _ = self.task.await;
        self.timeline.say(self.name, "is KILLED");
    }
}

/// What a member answers.
struct Server {
    name: &'static str,
    owned: Mutex<BTreeMap<String, Partition>>,
    ledger: Arc<Ledger>,
}

impl Server {
    fn owned(&self) -> MutexGuard<'_, BTreeMap<String, Partition>> {
        self.owned.lock().expect("nothing panics with this lock held")
    }

    /// The work on a partition: requests for it are answered until it is to move.
    async fn own(
        &self,
        partition: Partition,
    ) -> std::result::Result<(), Box<dyn std::error::Error + Send + Sync>> {
        let (name, revoked) = (partition.name().to_owned(), partition.revoked());
        self.ledger.granted(&name, partition.token(), self.name);
        self.owned().insert(name.clone(), partition);
        revoked.cancelled().await;
        // Answers are given under the same lock: none is under way when this returns.
        self.owned().remove(&name);
        Ok(())
    }

    async fn answer_all(self: Arc<Self>, listener: TcpListener) {
        // All end with this.
        let mut connections = JoinSet::new();
        loop {
            tokio::select! {
                accepted = listener.accept() => if let Ok((stream, _)) = accepted {
                    connections.spawn(Arc::clone(&self).answer(stream));
                },
                Some(_) = connections.join_next() => {}
            }
        }
    }

    async fn answer(self: Arc<Self>, stream: TcpStream) -> std::io::Result<()> {
        let mut stream = BufReader::new(stream);
        let mut partition = String::new();
        stream.read_line(&mut partition).await?;
        let answer = self.answer_to(partition.trim_end());
        stream.write_all(answer.as_bytes()).await
    }

    fn answer_to(&self, partition: &str) -> String {
        // A partition whose lease has ended is still in the map until its work returns.
        match self.owned().get(partition).map(Partition::check) {
            Some(Ok(token)) => {
                self.ledger.answered(partition, token, self.name);
                format!("{} with token {token}\n", self.name)
            }
            Some(Err(_)) | None => "moved\n".to_owned(),
        }
    }
}

/// What really happens, in one order: to check the example, no part of a router.
struct Ledger {
    /// The ownership of each partition that was granted last.
    owners: Mutex<BTreeMap<String, Ownership>>,
    by_others: AtomicU64,
    changed: Notify,
    timeline: Timeline,
}

#[derive(Clone)]
struct Ownership {
    token: Epoch,
    member: &'static str,
    answers: u64,
}

impl Ledger {
    fn new(timeline: Timeline) -> Ledger {
        let (by_others, changed) = (AtomicU64::new(0), Notify::new());
        Ledger { owners: Mutex::default(), by_others, changed, timeline }
    }

    fn owners(&self) -> MutexGuard<'_, BTreeMap<String, Ownership>> {
        self.owners.lock().expect("nothing panics with this lock held")
    }

    fn granted(&self, partition: &str, token: Epoch, member: &'static str) {
        let mut owners = self.owners();
        if owners.get(partition).is_none_or(|before| before.token < token) {
            owners.insert(partition.to_owned(), Ownership { token, member, answers: 0 });
        }
    }

    fn answered(&self, partition: &str, token: Epoch, member: &str) {
        match self.owners().get_mut(partition) {
            Some(owner) if owner.token == token && owner.member == member => owner.answers += 1,
            _ => drop(self.by_others.fetch_add(1, Ordering::Relaxed)),
        }
        self.changed.notify_waiters();
    }

    /// Waits until each of these has answered requests for its share of the partitions.
    async fn answers_come_from(&self, members: &[&str]) -> Result<()> {
        let all = members.join(", ");
        let share = PARTITIONS / members.len();
        let wait = async {
            loop {
                let mut changed = pin!(self.changed.notified());
                changed.as_mut().enable();
                let owners = self.owners().clone();
                let answering = owners.values().filter(|owner| owner.answers > 0);
                let of = |name| answering.clone().filter(|owner| owner.member == name).count();
                if members.iter().all(|member| of(*member) == share) {
                    return;
                }
                changed.await;
            }
        };
        if tokio::time::timeout(PATIENCE, wait).await.is_err() {
            return fail(format!(
                "{PATIENCE:?} have passed, and {all} do not share the partitions"
            ));
        }
        self.timeline.say("router", format_args!("has answers from {all}"));
        Ok(())
    }

    fn check(&self) -> Result<()> {
        let others = self.by_others.load(Ordering::Relaxed);
        println!("{others:>7} requests were answered by a member that was not the owner");
        if others > 0 { fail("only the owner may answer") } else { Ok(()) }
    }
}
