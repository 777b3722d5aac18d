//! The page of `tenure ui`, and its stream of events.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use futures::StreamExt as _;
use futures::stream::{self, BoxStream};
use hyper::Method;
use sha2::{Digest as _, Sha256};

use super::board::Board;
use crate::http::access::Access;
use crate::http::refusal::Refusal;
use crate::http::{Answer, HttpRequest, MOST_STREAMS, Reply};
use crate::output::print::json_line;
use crate::process::timer::pause;

const FRAME: &str = include_str!("frame.html");
const STYLE: &str = include_str!("style.css");
const SCRIPT: &str = concat!(
    include_str!("nodes.js"),
    include_str!("store.js"),
    include_str!("election.js"),
    include_str!("group.js"),
    include_str!("job.js"),
    include_str!("live.js"),
);
/// Interval of the event `tick`. A page that no longer receives this event considers its connection
/// dead.
const TICK: Duration = Duration::from_secs(2);
/// Minimum pause between two events. Changes during the pause are sent as one event.
const PACE: Duration = Duration::from_millis(200);

pub struct Page {
    access: Access,
    board: Arc<Board>,
    html: String,
    /// The content security policy. It admits the script and the style of the page by their hashes.
    policy: String,
}

impl Page {
    pub fn new(access: Access, board: Arc<Board>) -> Page {
        Page { access, board, html: html(), policy: policy() }
    }

    pub fn answer(&self, asked: &HttpRequest) -> Answer {
        self.try_answer(asked).unwrap_or_else(|refusal| Answer::Whole(refusal.reply()))
    }

    fn try_answer(&self, asked: &HttpRequest) -> Result<Answer, Refusal> {
        self.access.check(&asked.method, &asked.headers)?;
        if ![Method::GET, Method::HEAD].contains(&asked.method) {
            let refused = Refusal::fixed(405, "method_not_allowed", "the page only reads");
            return Err(refused.with_header("allow", "GET, HEAD"));
        }
        match &*asked.path {
            "/" => Ok(Answer::Whole(self.html())),
            "/events" => Ok(Answer::Events(events(&self.board), Some(full()))),
            _ => Err(Refusal::fixed(404, "not_found", "no resource has this path")),
        }
    }

    fn html(&self) -> Reply {
        Reply::new(200, "text/html; charset=utf-8", self.html.clone())
            .with_header("content-security-policy", self.policy.clone())
            .with_header("x-content-type-options", "nosniff")
            .with_header("referrer-policy", "no-referrer")
    }
}

fn html() -> String {
    FRAME.replace("STYLE", STYLE).replace("SCRIPT", SCRIPT)
}

fn policy() -> String {
    let hash = |text: &str| STANDARD.encode(Sha256::digest(text));
    format!(
        "default-src 'none'; script-src 'sha256-{}'; style-src 'sha256-{}'; connect-src 'self'; \
         img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
        hash(SCRIPT),
        hash(STYLE)
    )
}

/// Returns the event for a page that exceeds the maximum number of streams. After this event the
/// page waits 10 s, and opens its stream again.
fn full() -> String {
    let why = format!(
        "{MOST_STREAMS} pages are open already: close one of them. This page tries again every \
         10 s."
    );
    format!("retry: 10000\nevent: full\ndata: {}\n\n", json_line(&why))
}

/// Returns the event stream of a page: all cards, then each change of a card, and regular ticks.
fn events(board: &Arc<Board>) -> BoxStream<'static, String> {
    let first = format!("retry: 1000\n\n{}", board.tick());
    let state = (Arc::clone(board), board.subscribe(), 0);
    let next = stream::unfold(state, |(board, mut changes, seen)| async move {
        let (mut text, version) = board.events_since(seen);
        if text.is_empty() {
            tokio::select! {
                _ = changes.changed() => {}
                () = pause(TICK) => text = board.tick(),
            }
        } else {
            text += &board.tick();
            pause(PACE).await;
        }
        Some((text, (board, changes, version)))
    });
    // Empty texts are not sent, because an empty chunk would end the body.
    let next = next.filter(|text| std::future::ready(!text.is_empty()));
    stream::once(std::future::ready(first)).chain(next).boxed()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_is_small_and_loads_nothing_from_other_hosts() {
        let html = html();
        assert!(html.len() <= 80 * 1024, "{} bytes", html.len());
        for other in ["http://", "https://", "//cdn", "src=", "@import", "url("] {
            assert!(!html.contains(other), "{other}");
        }
    }

    #[test]
    fn the_policy_admits_the_script_and_the_style_by_their_hashes() {
        let (policy, html) = (policy(), html());
        for tag in ["script", "style"] {
            let (open, close) = (format!("<{tag}>"), format!("</{tag}>"));
            let text = html.split_once(&open).and_then(|(_, rest)| rest.split_once(&close));
            let (text, _) = text.expect("the page has this element");
            let hash = STANDARD.encode(Sha256::digest(text));
            assert!(policy.contains(&format!("{tag}-src 'sha256-{hash}'")), "{tag}: {policy}");
        }
        // The page has no attributes with code or styles, because the policy would have to admit
        // them with 'unsafe-inline'.
        assert!(!policy.contains("unsafe"));
        assert!(!html.contains(" style=") && !html.contains(" onclick="));
    }

    /// The script sets only the text of elements, so text from the store never becomes markup.
    #[test]
    fn the_script_writes_text_only() {
        for markup in ["innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval("] {
            assert!(!SCRIPT.contains(markup), "{markup}");
        }
    }
}
