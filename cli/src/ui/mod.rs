//! `tenure ui`: a page that shows all elections, groups and jobs below some prefixes.

mod board;
pub mod counted_store;
mod election;
mod group;
mod job;
mod page;
mod place;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tenure::Election;
use tenure::store::MemoryStore;
use tenure_groups::Group;
use tokio::sync::Semaphore;
use tokio::task::JoinSet;

use crate::args::common::{after_help, positive_up_to};
use crate::election::watch;
use crate::exit::Failure;
use crate::group::LONGEST_POLL;
use crate::http::access::{Access, AccessArgs};
use crate::http::{Handler, Listen, Server};
use crate::process::signals::{ENDING, Signals};
use crate::process::timer::pause;
use crate::store::url::{self, StoreUrl};
use crate::store::urls::{StoreUrls, store_urls};
use board::Board;
use page::Page;

#[derive(Debug, clap::Args)]
pub struct UiArgs {
    /// A store and a prefix, as for `status`; repeat the flag for several stores.
    ///
    /// The page shows each election, group and job below the prefix. For an election across stores
    /// give its URLs in one value, with spaces between them.
    #[arg(long = "store", value_name = "URL", value_parser = store_urls, required = true)]
    #[arg(env = "TENURE_STORE")]
    stores: Vec<StoreUrls>,
    /// Address of the page: ADDRESS:PORT or unix:PATH.
    ///
    /// The address is one of this machine. Only the user of this process may connect to the socket
    /// unix:PATH. An address that other machines can reach needs --access-key-file. For port 0 the
    /// log shows the port.
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:8420")]
    listen: Listen,
    #[command(flatten)]
    access: AccessArgs,
    /// Poll interval of each election and each group: at most 1h
    #[arg(long, value_name = "DURATION", default_value = "5s")]
    #[arg(value_parser = positive_up_to(LONGEST_POLL), env = "TENURE_POLL")]
    poll: Duration,
    /// Show the fencing tokens of partitions.
    ///
    /// A process that has a token can pass for the owner.
    #[arg(long)]
    show_tokens: bool,
}

pub const AFTER_UI: &str = after_help!(
    "\
The page shows elections with leader, data, remaining lease and the last 50 epochs; groups with \
the owner of each partition; and the last periods of jobs (`run --once-per`). It is updated as the \
states change. It changes no object: this process refuses every write.

Up to 500 elections, groups and jobs of all stores are followed; the names of others are listed. \
Each is followed once, for up to 64 visible pages. A further page is refused until another closes. \
The page shows the number of requests and their cost in a month.

With --access-key-file a browser asks for a user name and a password: the name is ignored, and the \
password is the key.",
    "
   0  ended by SIGINT, SIGTERM or SIGHUP
  64  wrong usage or settings
  71  the operating system refused something, such as an address"
);

/// Interval between two samples of the numbers of requests. The page shows the cost at the rate of
/// the last five minutes.
const SAMPLE_EVERY: Duration = Duration::from_secs(10);

pub async fn ui(args: UiArgs) -> Result<u8, Failure> {
    // These observers only check the settings. So a wrong setting ends the command, and does not
    // cause an error on each card.
    let unused = || Arc::new(MemoryStore::new());
    watch::observer(Election::builder(unused(), ""), Some(args.poll)).build()?;
    crate::group::observer(Group::builder(unused(), ""), Some(args.poll)).build()?;
    let access = Access::new(&args.listen, &args.access)?.with_passwords();
    let board = Arc::new(Board::new(args.show_tokens, args.poll));
    let page = Arc::new(Page::new(access, Arc::clone(&board)));
    let mut signals = Signals::listen(&ENDING)?;
    let handler: Handler = Arc::new(move |asked| {
        let page = Arc::clone(&page);
        Box::pin(async move { page.answer(&asked) })
    });
    let server = Server { handler, most_body: 0 };
    let _serving = server.listen(&args.listen, "the page").await?;
    // All tasks end when this function returns and drops the set.
    let mut places = JoinSet::new();
    let slots = Arc::new(Semaphore::new(place::MOST_FOLLOWED));
    for (number, urls) in distinct(args.stores).into_iter().enumerate() {
        let urls = StoreUrls::joined(&[urls])?;
        let (board, slots) = (Arc::clone(&board), Arc::clone(&slots));
        places.spawn(place::follow(number, urls, args.poll, board, slots));
    }
    loop {
        tokio::select! {
            biased;
            _ = signals.next() => return Ok(0),
            () = pause(SAMPLE_EVERY) => board.sample(),
        }
    }
}

/// Returns each store once. URLs that differ only in a slash at the end name the same store, and so
/// do several paths of one directory.
fn distinct(mut stores: Vec<StoreUrls>) -> Vec<StoreUrls> {
    let mut seen = BTreeSet::new();
    let place = |url: &StoreUrl| match url.place() {
        url::Place::Dir { path, .. } => {
            let path = std::fs::canonicalize(path).unwrap_or_else(|_| path.clone());
            (path, String::new())
        }
        url::Place::In { .. } => (PathBuf::new(), url.to_string().trim_end_matches('/').to_owned()),
    };
    stores.retain(|urls| seen.insert(urls.urls().iter().map(place).collect::<Vec<_>>()));
    stores
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn regression_a_store_that_is_given_twice_is_followed_once() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().display().to_string();
        std::os::unix::fs::symlink(dir.path(), dir.path().join("link")).expect("a link");
        let given = [
            format!("file://{path}"),
            format!("file://{path}/"),
            format!("file://{path}/link"),
            format!("file://{path}/missing"),
            format!("file://{path}/missing/"),
            "s3://bucket/a".to_owned(),
            "s3://bucket/a/".to_owned(),
            "s3://bucket/b".to_owned(),
            "s3://a s3://b s3://c".to_owned(),
            "s3://a s3://b s3://d".to_owned(),
        ];
        let urls = given.iter().map(|url| store_urls(url).expect("a URL")).collect();
        let kept: Vec<_> = distinct(urls).iter().map(ToString::to_string).collect();
        assert_eq!(kept, [0, 3, 5, 7, 8, 9].map(|it| &*given[it]));
    }
}
