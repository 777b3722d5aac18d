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

/// The result of this, and what is logged meanwhile on this thread, from DEBUG on, as lines.
pub async fn logged<T>(work: impl Future<Output = T>) -> (T, String) {
    let log = LogBuffer::default();
    let writer = log.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(tracing::Level::DEBUG)
        .with_ansi(false)
        .without_time()
        .with_writer(move || writer.clone())
        .finish();
    // With one subscriber alone, an event that another thread is the first to reach would be taken
    // for one that nobody ever wants.
    let _second = tracing::Dispatch::new(tracing::subscriber::NoSubscriber::default());
    let _guard = tracing::subscriber::set_default(subscriber);
    let outcome = work.await;
    let bytes = std::mem::take(&mut *log.0.lock().unwrap());
    (outcome, String::from_utf8(bytes).unwrap())
}
