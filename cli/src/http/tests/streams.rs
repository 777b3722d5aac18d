//! Tests of the maximum number of event streams.

use super::*;

/// Opens a stream, and reads its first event.
async fn open_stream(serving: &Serving) -> TcpStream {
    let mut stream = open(serving).await;
    stream.write_all(b"GET /events HTTP/1.1\r\nHost: x\r\n\r\n").await.expect("a write");
    let mut said = String::new();
    while !said.contains("data: 1") {
        let mut part = [0; 1 << 10];
        let len = stream.read(&mut part).await.expect("the stream is open");
        assert!(len > 0, "the stream is refused: {said}");
        said += &String::from_utf8_lossy(&part[..len]);
    }
    stream
}

/// Returns a server that replies to each request with an endless stream of events. The function
/// `answer` turns the stream into the [`Answer`].
fn streaming(answer: fn(BoxStream<'static, String>) -> Answer) -> Serving {
    let handler: Handler = Arc::new(move |_| {
        let first = futures::stream::once(std::future::ready("data: 1\n\n".to_owned()));
        let events = first.chain(futures::stream::pending()).boxed();
        Box::pin(std::future::ready(answer(events)))
    });
    Server { handler, most_body: 0 }.start(any_port()).expect("a free port")
}

async fn continue_all(streams: &mut [TcpStream]) {
    for stream in streams {
        let more = timeout(Duration::from_millis(1), stream.read(&mut [0; 1])).await;
        assert!(more.is_err(), "the stream continues: {more:?}");
    }
}

/// Before the fix, if a client opened more streams than the limit, the server refused its new
/// streams.
#[tokio::test]
async fn regression_a_stream_over_the_limit_closes_the_oldest() {
    let serving = streaming(|events| Answer::Events(events, None));
    let mut streams = Vec::new();
    for _ in 0..=MOST_STREAMS {
        streams.push(open_stream(&serving).await);
    }
    let oldest = streams.remove(0);
    timeout(CONNECTION_LIMIT, rest(oldest)).await.expect("the oldest ends");
    continue_all(&mut streams).await;
}

/// Before the fix, the 65th open page closed the stream of the first page. The first page then
/// opened a new stream, which closed the stream of another page.
#[tokio::test]
async fn regression_a_page_over_the_limit_closes_no_other_page() {
    const FULL: &str = "data: full\n\n";
    let serving = streaming(|events| Answer::Events(events, Some(FULL.to_owned())));
    let mut streams = Vec::new();
    for _ in 0..MOST_STREAMS {
        streams.push(open_stream(&serving).await);
    }
    let mut refused = open(&serving).await;
    refused.write_all(b"GET /events HTTP/1.1\r\nHost: x\r\n\r\n").await.expect("a write");
    let said = timeout(CONNECTION_LIMIT, rest(refused)).await.expect("the stream ends");
    assert!(said.ends_with(FULL) && !said.contains("data: 1"), "{said}");
    continue_all(&mut streams).await;
    drop(streams.pop());
    // The server notices the end of the dropped connection only at its next poll, so the test
    // retries.
    timeout(CONNECTION_LIMIT, async {
        loop {
            let mut stream = open(&serving).await;
            stream.write_all(b"GET /events HTTP/1.1\r\nHost: x\r\n\r\n").await.expect("a write");
            let mut head = [0; 1 << 10];
            let len = stream.read(&mut head).await.expect("an answer");
            if !String::from_utf8_lossy(&head[..len]).contains("content-length") {
                break;
            }
        }
    })
    .await
    .expect("the place is free again");
}
