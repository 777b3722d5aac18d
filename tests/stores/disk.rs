//! Tests that a completed write is on the disk, even if `fsync` sometimes fails. If the effect of a
//! write is unknown, the writer reads the object back. The data that this read returns must survive
//! a power loss.
//!
//! ```sh
//! scripts/servers/failing-disk.sh -- cargo test --no-default-features --test stores disk -- --ignored --nocapture
//! ```
#![cfg(target_os = "linux")]

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tenure::store::{DirStore, PutOutcome};
use tenure::{CampaignOutcome, Election, Epoch, Layout, Restored, Store as _};
use tenure_fencing::{FencedLog, FencedObject};

const ROUNDS: u64 = 40;
const VALIDITY: Duration = Duration::from_secs(2);

/// The failing disk that `failing-disk.sh` provides.
#[derive(Clone)]
struct Disk {
    root: PathBuf,
    image: PathBuf,
    trigger: PathBuf,
    over: Arc<AtomicBool>,
}

/// A guard that ends the failures of the disk when it is dropped, even if an assertion of the test
/// fails.
struct Ends(Arc<AtomicBool>);

impl Drop for Ends {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl Disk {
    fn new() -> Disk {
        let path =
            |name| std::env::var_os(name).expect("set by scripts/servers/failing-disk.sh").into();
        let (root, image, trigger) = (path("DISK_ROOT"), path("DISK_IMAGE"), path("DISK_TRIGGER"));
        Disk { root, image, trigger, over: Arc::default() }
    }

    /// Makes the disk alternate between failures and normal operation.
    #[allow(clippy::disallowed_methods, reason = "a real disk takes real time")]
    fn fail_at_times(&self) {
        while !self.over.load(Ordering::Relaxed) {
            File::create(&self.trigger).expect("a file");
            std::thread::sleep(Duration::from_millis(fastrand::u64(1..60)));
            fs::remove_file(&self.trigger).expect("the file exists");
            std::thread::sleep(Duration::from_millis(fastrand::u64(1..60)));
        }
    }

    /// Asserts that the disk has the content of the object, so the object would survive a power
    /// loss.
    #[track_caller]
    fn keeps(&self, key: &str, why: &str) {
        let (seen, kept) = (fs::read(self.root.join(key)), fs::read(self.image.join(key)));
        let (seen, kept) = (seen.expect("written"), kept.ok());
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        assert_eq!(Some(text(&seen)), kept.as_deref().map(text), "{key}: {why}");
    }
}

impl Disk {
    /// Creates an object and deletes the object with its folder. Returns whether the object was
    /// created.
    async fn makes_again(&self, store: &DirStore, round: u64) -> bool {
        let key = "made/again/key";
        let created = store.create(key, format!("{round}").into()).await;
        let created = matches!(created, Ok(PutOutcome::Done { .. }));
        if created {
            self.keeps(key, "created");
        }
        if store.delete(vec![key.to_owned()]).await.is_ok_and(|left| left.is_empty()) {
            assert!(!self.image.join(key).exists(), "{key}: deleted");
            assert!(!self.root.join("made/again").exists(), "{key}: its folder exists");
        }
        created
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
#[ignore = "needs a disk: scripts/servers/failing-disk.sh -- cargo test --test stores disk -- --ignored"]
async fn regression_completed_writes_survive_a_power_loss() {
    let disk = Disk::new();
    let store = Arc::new(DirStore::open(&disk.root).expect("opened"));
    let ends = Ends(Arc::clone(&disk.over));
    let fails = tokio::task::spawn_blocking({
        let disk = disk.clone();
        move || disk.fail_at_times()
    });
    let mut done = BTreeMap::<&str, u64>::new();
    for round in 1..=ROUNDS {
        let epoch = Epoch::new(round).expect("a small number");

        let log = FencedLog::new(store.clone(), "log").expect("a prefix");
        if let Ok(mut writer) = log.open(epoch).await {
            for _ in 0..10 {
                let Ok(number) = writer.append(format!("{round}")).await else { break };
                disk.keeps(&format!("log/{number:020}"), "appended");
                *done.entry("appends").or_default() += 1;
            }
        }

        let object = FencedObject::new(store.clone(), "object");
        if let Ok(mut writer) = object.open(epoch).await {
            for step in 0..10 {
                if writer.write(format!("{round}.{step}")).await.is_err() {
                    break;
                }
                disk.keeps("object", "written");
                *done.entry("writes").or_default() += 1;
            }
        }

        for (layout, prefix, key) in [
            (Layout::SingleObject, "single", "single/lock.json".to_owned()),
            (Layout::EpochFiles, "files", String::new()),
        ] {
            let election = Election::builder(store.clone(), prefix).layout(layout);
            let election = election.validity(VALIDITY).name(format!("c{round}")).build();
            let election = election.expect("a configuration");
            if let Ok(CampaignOutcome::Elected(lead)) = election.try_campaign().await {
                let epoch = format!("files/lock-{:010}.json", lead.epoch().get());
                let key = if key.is_empty() { &epoch } else { &key };
                // The content is not compared, because a renewal may be in flight.
                assert!(disk.image.join(key).exists(), "{key}: elected");
                *done.entry("elections").or_default() += 1;
                let _ = lead.resign().await;
            }
        }

        *done.entry("created").or_default() += u64::from(disk.makes_again(&store, round).await);

        let election = Election::builder(store.clone(), format!("restored/{round}"));
        let election = election.name("operator").build().expect("a configuration");
        let restored = election.restore(Epoch::new(100).expect("small"), Duration::ZERO).await;
        if let Ok(Restored::Sealed { .. } | Restored::Already(_)) = restored {
            disk.keeps(&format!("restored/{round}/lock-0000000100.json"), "restored");
            *done.entry("restored").or_default() += 1;
        }
    }
    drop(ends);
    fails.await.expect("no panic");
    println!("{done:?}");
    for operation in ["appends", "writes", "elections", "created", "restored"] {
        assert!(
            done.get(operation).is_some_and(|count| *count >= 10),
            "too few {operation}: {done:?}"
        );
    }
}
