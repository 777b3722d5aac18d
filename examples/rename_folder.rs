//! A folder of a photo album is renamed again and again, which on an object store is to copy each
//! object and then to delete each, while readers zip the album.
//!
//! ```text
//! cargo run --example rename_folder                          # on a temporary directory
//! cargo run --example rename_folder -- s3://bucket/prefix    # on S3, settings as for the AWS CLI
//! ```
//!
//! It does so twice: first without locks, then with path locks under a leadership. Look for the
//! zips that are torn: photos that are missing, or occur twice. With the locks there are none, and
//! as readers do not exclude each other they still zip at the same time.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use bytes::Bytes;
use tenure::store::{GetOutcome, PutOutcome, Store};
use tenure::{Election, Epoch};
use tenure_paths::{Access, Path, PathGuard, PathLocks};

use support::{Place, Result, Timeline, fail};

mod support;

const PHOTOS: usize = 8;
const RENAMES: usize = 6;
const READERS: usize = 3;

#[tokio::main]
async fn main() -> Result<()> {
    let place = Place::from_args("rename_folder").await?;
    println!("{READERS} readers zip an album of {PHOTOS} photos, on {place}.");
    let timeline = Timeline::start();
    let election = Election::builder(Arc::clone(&place.store), format!("{}/leader", place.prefix))
        .name("album")
        .validity(place.validity)
        .build()?;
    let leadership = election.campaign().await?;
    timeline.say("album", format_args!("leads epoch {}", leadership.epoch()));

    let album = Album::open(&place, "unlocked", None).await?;
    let without = album.rename_while_others_zip(timeline).await?;
    let album = Album::open(&place, "locked", Some(PathLocks::under(&leadership))).await?;
    let with = album.rename_while_others_zip(timeline).await?;
    leadership.resign().await?;

    println!("\n   locks  renames  zips  torn  zips at once");
    for (locks, zips) in [("without", &without), ("with", &with)] {
        let Zips { all, torn, at_once } = zips;
        println!("{locks:>8}  {RENAMES:>7}  {all:>4}  {torn:>4}  {at_once:>12}");
    }
    if without.torn == 0 || with.torn > 0 {
        return fail("a zip should be torn without the locks, and none with them");
    }
    println!("\nWith the locks every zip has each photo once.");
    Ok(())
}

/// The objects under one prefix. `/album/draft` becomes `/album/final`, and back.
#[derive(Clone)]
struct Album {
    store: Arc<dyn Store>,
    prefix: String,
    locks: Option<PathLocks>,
}

#[derive(Default)]
struct Zips {
    all: usize,
    torn: usize,
    at_once: usize,
}

impl Album {
    async fn open(place: &Place, name: &str, locks: Option<PathLocks>) -> Result<Album> {
        let prefix = format!("{}/{name}/", place.prefix);
        let album = Album { store: Arc::clone(&place.store), prefix, locks };
        for photo in 0..PHOTOS {
            let key = format!("album/draft/photo-{photo}.jpg");
            album.write(&key, Bytes::from(format!("the light of photo {photo}"))).await?;
        }
        Ok(album)
    }

    async fn rename_while_others_zip(&self, timeline: Timeline) -> Result<Zips> {
        let (done, now) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let readers: Vec<_> = (0..READERS)
            .map(|_| tokio::spawn(self.clone().zip_until(Arc::clone(&done), Arc::clone(&now))))
            .collect();
        let renamed = self.rename_often(timeline).await;
        done.store(true, Ordering::Relaxed);
        let mut zips = Zips::default();
        for reader in readers {
            let more = reader.await??;
            zips.all += more.all;
            zips.torn += more.torn;
            zips.at_once = zips.at_once.max(more.at_once);
        }
        renamed.map(|()| zips)
    }

    async fn rename_often(&self, timeline: Timeline) -> Result<()> {
        let (draft, last) = (Path::new("/album/draft")?, Path::new("/album/final")?);
        for turn in 0..RENAMES {
            let (from, to) = if turn % 2 == 0 { (&draft, &last) } else { (&last, &draft) };
            let token = self.rename(from, to).await?;
            let token = token
                .map_or("without a lock".to_owned(), |token| format!("locked, with token {token}"));
            timeline.say("writer", format_args!("has renamed {from} to {to}, {token}"));
        }
        Ok(())
    }

    /// Copies each object, then deletes each.
    async fn rename(&self, from: &Path, to: &Path) -> Result<Option<Epoch>> {
        let guard = self.lock(Access::to_rename(from, to)).await?;
        let keys = self.keys(from).await?;
        for key in &keys {
            if let Some(body) = self.read(key).await? {
                // In a long operation, before each write. The token would go along with it.
                guard.as_ref().map_or(Ok(()), PathGuard::check)?;
                self.write(&key.replacen(from.key(), to.key(), 1), body).await?;
            }
        }
        for key in keys {
            guard.as_ref().map_or(Ok(()), PathGuard::check)?;
            self.store.delete(vec![format!("{}{key}", self.prefix)]).await?;
        }
        Ok(guard.and_then(|guard| guard.token()))
    }

    async fn zip_until(self, done: Arc<AtomicBool>, now: Arc<AtomicUsize>) -> Result<Zips> {
        let mut zips = Zips::default();
        let album = Path::new("/album")?;
        while !done.load(Ordering::Relaxed) {
            let guard = self.lock(Access::to_read(&album)).await?;
            zips.at_once = zips.at_once.max(now.fetch_add(1, Ordering::Relaxed) + 1);
            let photos = self.zip(&album).await?;
            now.fetch_sub(1, Ordering::Relaxed);
            drop(guard);
            zips.all += 1;
            let whole = photos.len() == PHOTOS && photos.values().all(|times| *times == 1);
            zips.torn += usize::from(!whole);
        }
        Ok(zips)
    }

    /// How often each photo comes in a zip of this folder.
    async fn zip(&self, folder: &Path) -> Result<BTreeMap<Bytes, usize>> {
        let mut photos = BTreeMap::new();
        for key in self.keys(folder).await? {
            if let Some(body) = self.read(&key).await? {
                *photos.entry(body).or_default() += 1;
            }
        }
        Ok(photos)
    }

    async fn lock(&self, access: Access) -> Result<Option<PathGuard>> {
        match &self.locks {
            Some(locks) => Ok(Some(locks.lock(access).await?)),
            None => Ok(None),
        }
    }

    /// The keys below a folder, without the prefix of the album.
    async fn keys(&self, folder: &Path) -> Result<Vec<String>> {
        let below = format!("{}{}/", self.prefix, folder.key());
        let page = self.store.list(&below, "", 1_000).await?;
        let keys = page.entries.iter().filter_map(|entry| entry.key.strip_prefix(&self.prefix));
        Ok(keys.map(str::to_owned).collect())
    }

    /// `None` if it was deleted since it was listed.
    async fn read(&self, key: &str) -> Result<Option<Bytes>> {
        match self.store.get(&format!("{}{key}", self.prefix), None, 1 << 20).await? {
            GetOutcome::Found(object) => Ok(Some(object.body)),
            GetOutcome::NotFound => Ok(None),
            other => fail(format!("{key} cannot be read: {other:?}")),
        }
    }

    async fn write(&self, key: &str, body: Bytes) -> Result<()> {
        match self.store.create(&format!("{}{key}", self.prefix), body).await? {
            PutOutcome::Done { .. } => Ok(()),
            other => fail(format!("{key} cannot be written: {other:?}")),
        }
    }
}
