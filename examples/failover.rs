//! Three candidates, one leader: it crashes and another takes over; that one resigns and the third
//! takes over at once.
//!
//! ```text
//! cargo run --example failover                          # on a temporary directory
//! cargo run --example failover -- s3://bucket/prefix    # on S3, settings as for the AWS CLI
//! cargo run --example failover -- --svg docs/history.svg    # and draw it
//! ```
//!
//! Look for how long nobody leads. After a crash that is about the validity, since the others must
//! see no sign of life for that long. After a resignation it is the time to the next poll, a sixth
//! of the validity or less.

use std::collections::BTreeMap;
use std::fmt;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use tenure::{CampaignEvent, Election, Epoch, LeadershipEvent, Loss};
use tenure_history::drawing::{Drawing, Interval, Mark};
use tokio::sync::{Notify, mpsc};
use tokio::task::JoinHandle;

use support::{Place, Result, Timeline, fail, svg_file};

mod support;

const NAMES: [&str; 3] = ["anna", "ben", "cleo"];

#[tokio::main]
async fn main() -> Result<()> {
    let place = Place::from_args("failover").await?;
    println!("Three candidates for one leadership, on {place}.");
    println!("A lease lasts {:?} without a renewal.", place.validity);

    let timeline = Timeline::start();
    let (sender, mut news) = mpsc::unbounded_channel();
    let mut alive = BTreeMap::new();
    for name in NAMES {
        let election = Election::builder(Arc::clone(&place.store), &place.prefix)
            .name(name)
            .validity(place.validity)
            .build()?;
        let resign = Arc::new(Notify::new());
        let voice = Voice { name, sender: sender.clone() };
        let task = tokio::spawn(candidate(election, Arc::clone(&resign), voice));
        alive.insert(name, Candidate { task, resign });
    }
    // The news end when the last candidate has.
    drop(sender);

    let mut terms = Terms::default();
    while let Some((name, what)) = news.recv().await {
        timeline.say(name, &what);
        terms.note(name, &what, timeline.now());
        if let What::Failed(_) = what {
            return fail("a candidate failed");
        }
        if let What::Resigned = what {
            alive.remove(name);
        }
        // Everybody has seen this leader, and it has shown that it lives: go on.
        if !terms.settled(alive.len()) {
            continue;
        }
        let Some(leader) = terms.leader() else { continue };
        match alive.len() {
            3 => {
                // Aborting the task drops its leadership, which is then not renewed: all that the
                // others see of a crash.
                let crashed = alive.remove(leader).expect("the leader is alive");
                crashed.task.abort();
                timeline.say(leader, "CRASHES, and cannot tell anybody");
                terms.ended(leader, timeline.now(), Mark::Crashed);
            }
            _ => alive[leader].resign.notify_one(),
        }
    }
    terms.print();
    if let Some(file) = svg_file()? {
        std::fs::write(&file, terms.drawing().svg())?;
        println!("\nThe same as a picture: {}", file.display());
    }
    terms.check()
}

struct Candidate {
    task: JoinHandle<()>,
    resign: Arc<Notify>,
}

/// Campaigns and leads until it is asked to resign.
async fn candidate(election: Election, resign: Arc<Notify>, voice: Voice) {
    if let Err(error) = take_part(&election, &resign, &voice).await {
        voice.say(What::Failed(error));
    }
}

async fn take_part(
    election: &Election,
    resign: &Notify,
    voice: &Voice,
) -> std::result::Result<(), tenure::Error> {
    loop {
        let mut seen = election.events();
        let mut campaign = pin!(election.campaign());
        let leadership = loop {
            tokio::select! {
                leadership = &mut campaign => break leadership?,
                Some(event) = seen.next() => match event {
                    CampaignEvent::Following(leader) => {
                        voice.say(What::Follows(leader.name().to_owned(), leader.epoch));
                    }
                    CampaignEvent::StoreFailed(error) => voice.say(What::Trouble(error)),
                    _ => {}
                },
            }
        };
        voice.say(What::Leads(leadership.epoch()));
        let mut events = leadership.events();
        let loss = loop {
            tokio::select! {
                () = resign.notified() => {
                    voice.say(What::Resigns);
                    leadership.resign().await?;
                    voice.say(What::Resigned);
                    return Ok(());
                }
                loss = leadership.lost() => break loss,
                Some(event) = events.next() => {
                    if let LeadershipEvent::Renewed { remaining } = event {
                        voice.say(What::Renewed(remaining));
                    }
                }
            }
        };
        voice.say(What::Lost(loss));
    }
}

struct Voice {
    name: &'static str,
    sender: mpsc::UnboundedSender<(&'static str, What)>,
}

impl Voice {
    fn say(&self, what: What) {
        // Nobody listens any more once the run is over.
        let _ = self.sender.send((self.name, what));
    }
}

enum What {
    Follows(String, Epoch),
    Leads(Epoch),
    Renewed(Duration),
    Resigns,
    Resigned,
    Lost(Loss),
    Trouble(tenure::Error),
    Failed(tenure::Error),
}

impl fmt::Display for What {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            What::Follows(leader, epoch) => write!(f, "follows {leader}, who has epoch {epoch}"),
            What::Leads(epoch) => write!(f, "LEADS epoch {epoch}"),
            What::Renewed(left) => write!(f, "renewed its lease: {:.2} s left", left.as_secs_f64()),
            What::Resigns => f.write_str("RESIGNS: its work is done"),
            What::Resigned => f.write_str("has sealed its epoch, and leaves"),
            What::Lost(loss) => write!(f, "LOST its leadership: {loss}"),
            What::Trouble(error) => write!(f, "tries again: {error}"),
            What::Failed(error) => write!(f, "gives up: {error}"),
        }
    }
}

/// Who led when.
#[derive(Default)]
struct Terms {
    terms: Vec<Term>,
    /// Whom each candidate followed last.
    followed: BTreeMap<&'static str, Epoch>,
}

struct Term {
    epoch: Epoch,
    leader: &'static str,
    from: Duration,
    end: Option<(Duration, Mark)>,
    renewals: usize,
}

impl Terms {
    fn note(&mut self, name: &'static str, what: &What, now: Duration) {
        match what {
            What::Leads(epoch) => {
                let term = Term { epoch: *epoch, leader: name, from: now, end: None, renewals: 0 };
                self.terms.push(term);
            }
            What::Follows(_, epoch) => {
                self.followed.insert(name, *epoch);
            }
            What::Renewed(_) => {
                if let Some(term) = self.terms.last_mut() {
                    term.renewals += 1;
                }
            }
            What::Resigns => self.ended(name, now, Mark::Resigned),
            What::Lost(_) => self.ended(name, now, Mark::Lost),
            What::Resigned | What::Trouble(_) | What::Failed(_) => {}
        }
    }

    fn ended(&mut self, name: &str, now: Duration, how: Mark) {
        if let Some(term) = self.terms.iter_mut().rfind(|term| term.leader == name) {
            term.end.get_or_insert((now, how));
        }
    }

    fn leader(&self) -> Option<&'static str> {
        self.terms.last().filter(|term| term.end.is_none()).map(|term| term.leader)
    }

    /// Whether the leader has renewed twice, and all others of `alive` follow it.
    fn settled(&self, alive: usize) -> bool {
        self.terms.last().is_some_and(|term| {
            let followers = self.followed.values().filter(|epoch| **epoch == term.epoch).count();
            term.renewals >= 2 && followers + 1 == alive
        })
    }

    fn print(&self) {
        println!("\n   epoch  leader    led for  until it   and then nobody led for");
        for (at, term) in self.terms.iter().enumerate() {
            let Some((end, how)) = term.end else { continue };
            let led = (end - term.from).as_secs_f64();
            let gap = match self.terms.get(at + 1) {
                Some(next) => format!("{:.2} s", next.from.saturating_sub(end).as_secs_f64()),
                None => "(the end)".to_owned(),
            };
            let how = how.name();
            println!("{:>8}  {:<8}  {led:>5.2} s  {how:<9}  {gap}", term.epoch, term.leader);
        }
    }

    fn drawing(&self) -> Drawing {
        let interval = |term: &Term| {
            let (until, how) = term.end?;
            let epoch = term.epoch.to_string();
            Some(Interval::new(term.leader, epoch, term.from, until, how))
        };
        let mut drawing = Drawing::new("Three candidates, one leader");
        drawing.subtitle =
            "one crashes, and after its lease another takes over; that one resigns, \
                            and the third takes over at once"
                .to_owned();
        drawing.intervals = self.terms.iter().filter_map(interval).collect();
        drawing.find_bands();
        drawing
    }

    fn check(&self) -> Result<()> {
        let grow = self.terms.windows(2).all(|two| two[0].epoch < two[1].epoch);
        let ended = |how: Mark| {
            let so = |term: &&Term| term.end.is_some_and(|end| end.1 == how);
            self.terms.iter().filter(so).count()
        };
        if !grow || ended(Mark::Crashed) != 1 || ended(Mark::Resigned) != 2 {
            return fail("one should have crashed and two resigned, under growing epochs");
        }
        println!("\nEvery epoch is greater than the one before: it is the fencing token.");
        Ok(())
    }
}
