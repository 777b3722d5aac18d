use std::io::{self, Write};
use std::sync::{Arc, Mutex};

#[derive(Clone, Default)]
struct LogBuffer(Arc<Mutex<Vec<u8>>>);

impl Write for LogBuffer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Returns the result of `work`, and the lines of level DEBUG or above that this thread logs while
/// `work` runs.
pub async fn logged<T>(work: impl Future<Output = T>) -> (T, String) {
    let log = LogBuffer::default();
    let writer = log.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(tracing::Level::DEBUG)
        .with_ansi(false)
        .without_time()
        .with_writer(move || writer.clone())
        .finish();
    // The second subscriber is necessary. With only one subscriber, `tracing` disables an event
    // forever if a thread without a subscriber reaches the event first.
    let _second = tracing::Dispatch::new(tracing::subscriber::NoSubscriber::default());
    let _guard = tracing::subscriber::set_default(subscriber);
    let outcome = work.await;
    let bytes = std::mem::take(&mut *log.0.lock().unwrap());
    (outcome, String::from_utf8(bytes).unwrap())
}
