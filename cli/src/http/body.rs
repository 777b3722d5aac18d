//! The bodies of requests and replies. The body of a request is read only up to a limit.

use std::convert::Infallible;
use std::future::poll_fn;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use futures::stream::BoxStream;
use hyper::body::{Body as _, Bytes, Frame, Incoming, SizeHint};
use tokio::sync::watch;

use super::BadBody;
use super::stage::Stage;
use super::streams::StreamPlace;

/// Reads the body of a request, up to `most` bytes.
pub(super) async fn read(mut body: Incoming, most: usize) -> Result<Bytes, BadBody> {
    if body.size_hint().lower() > u64::try_from(most).unwrap_or(u64::MAX) {
        return Err(BadBody::TooLong { most });
    }
    let mut bytes = Vec::new();
    while let Some(frame) = poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await {
        let frame = frame.map_err(|_| BadBody::Broken)?;
        // A frame without data contains trailers, which the API does not use.
        let Some(data) = frame.data_ref() else { continue };
        if bytes.len().saturating_add(data.len()) > most {
            return Err(BadBody::TooLong { most });
        }
        bytes.extend_from_slice(data);
    }
    Ok(bytes.into())
}

/// The body of a reply: a whole text, or a stream of events.
pub(super) enum Body {
    Whole(Option<Bytes>),
    Events { events: BoxStream<'static, String>, stage: watch::Sender<Stage>, place: StreamPlace },
}

impl Body {
    pub(super) fn whole(text: String) -> Body {
        Body::Whole((!text.is_empty()).then(|| text.into()))
    }

    pub(super) fn events(
        events: BoxStream<'static, String>,
        stage: watch::Sender<Stage>,
        place: StreamPlace,
    ) -> Body {
        Body::Events { events, stage, place }
    }
}

impl hyper::body::Body for Body {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match self.get_mut() {
            Body::Whole(bytes) => Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes)))),
            Body::Events { events, stage, place } => {
                if place.is_closed(cx) {
                    return Poll::Ready(None);
                }
                // hyper polls the body only if hyper's buffer has room, and it has room because the
                // peer reads the events. So the time limit of the stage begins again.
                stage.send_replace(Stage::Streaming);
                let event = ready!(events.as_mut().poll_next(cx));
                Poll::Ready(event.map(|event| Ok(Frame::data(event.into()))))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, Body::Whole(None))
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Body::Whole(bytes) => {
                let len = bytes.as_ref().map_or(0, Bytes::len);
                SizeHint::with_exact(u64::try_from(len).unwrap_or(u64::MAX))
            }
            Body::Events { .. } => SizeHint::default(),
        }
    }
}
