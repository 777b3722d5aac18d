//! The contents of a file: a line with the number of its writes, and then the body.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

use serde::Deserialize;
use sha2::{Digest as _, Sha256};

use super::failure::failed;
use crate::store::{Determinacy, ETag, StoreError, StoreErrorKind, content_hash, content_hash_of};

const FORMAT: u64 = 1;

/// Maximum length of a header in bytes. The headers that tenure writes have at most 50 bytes.
const MAX_HEADER_BYTES: usize = 128;

#[derive(Deserialize)]
struct Header {
    tenure_dir: u64,
    #[serde(default)]
    writes: u64,
}

/// The contents of a file.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Content {
    /// Counter of the object's writes. The counter starts at the creation time of the object in
    /// nanoseconds. It is 0 for a file that another program wrote.
    pub(super) writes: u64,
    pub(super) etag: ETag,
    /// Body length in bytes.
    pub(super) len: u64,
    /// Body, or `None` if it is longer than the reader's limit.
    pub(super) body: Option<Vec<u8>>,
}

/// Returns the contents of a file with this body and this counter of writes.
pub(super) fn encode(writes: u64, body: &[u8]) -> Vec<u8> {
    let mut bytes = format!("{{\"tenure_dir\":{FORMAT},\"writes\":{writes}}}\n").into_bytes();
    bytes.extend_from_slice(body);
    bytes
}

/// Returns the ETag of this body and this counter. The counter makes each ETag unique.
pub(super) fn etag(writes: u64, body: &[u8]) -> ETag {
    etag_of(writes, &content_hash(body))
}

fn etag_of(writes: u64, hash: &str) -> ETag {
    ETag::new(format!("\"{hash}-{writes}\""))
}

/// Reads a file of any size. Keeps at most about `max_len` bytes in memory.
pub(super) fn read(mut file: &File, path: &Path, max_len: usize) -> Result<Content, StoreError> {
    let broken = |error: io::Error| failed("read", path, Determinacy::Determinate, error);
    let wanted = (max_len as u64).saturating_add(MAX_HEADER_BYTES as u64 + 1);
    let mut bytes = Vec::new();
    file.take(wanted).read_to_end(&mut bytes).map_err(broken)?;
    let (header_len, writes) = parse_header(&bytes, path)?;
    bytes.drain(..header_len);

    let mut hasher = Sha256::new_with_prefix(&bytes);
    let mut len = bytes.len() as u64;
    if len > max_len as u64 {
        // The body is longer than the limit, so its rest is not kept. But the hash must cover the
        // rest, too.
        let mut piece = vec![0; 64 * 1_024];
        loop {
            let read = file.read(&mut piece).map_err(broken)?;
            if read == 0 {
                break;
            }
            hasher.update(&piece[..read]);
            len += read as u64;
        }
    }
    let body = (len <= max_len as u64).then_some(bytes);
    Ok(Content { writes, etag: etag_of(writes, &content_hash_of(hasher)), len, body })
}

/// Returns the length of the header and the counter in the header. Both are 0 if the file has no
/// header.
fn parse_header(bytes: &[u8], path: &Path) -> Result<(usize, u64), StoreError> {
    let start = &bytes[..bytes.len().min(MAX_HEADER_BYTES)];
    let Some(end) = start.iter().position(|byte| *byte == b'\n') else {
        return Ok((0, 0));
    };
    match serde_json::from_slice::<Header>(&start[..end]) {
        Ok(header) if header.tenure_dir == FORMAT => Ok((end + 1, header.writes)),
        Ok(header) => Err(StoreError::new(
            StoreErrorKind::Unsupported,
            Determinacy::Determinate,
            format!(
                "{} was written in format {}, and this version supports {FORMAT}: use a newer \
                 version",
                path.display(),
                header.tenure_dir
            ),
        )),
        Err(_) => Ok((0, 0)),
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Seek as _, Write as _};

    use super::*;

    fn read_back(bytes: &[u8], max_len: usize) -> Result<Content, StoreError> {
        let mut file = tempfile::tempfile().expect("a temporary file");
        file.write_all(bytes).expect("written");
        file.rewind().expect("the file is rewound");
        read(&file, Path::new("/d/a"), max_len)
    }

    #[test]
    fn a_body_is_read_unchanged() {
        for body in [&b""[..], b"{}", b"\n\n", b"two\nlines", &[0xff; 70_000]] {
            let content = read_back(&encode(7, body), 70_000).expect("read");
            assert_eq!(content.body.as_deref(), Some(body));
            assert_eq!((content.writes, content.len), (7, body.len() as u64));
            assert_eq!(content.etag, etag(7, body));
        }
    }

    #[test]
    fn the_etag_of_a_body_beyond_the_limit_covers_the_whole_body() {
        let body = vec![b'x'; 300_000];
        for max_len in [0, 10, 130, 65_536, 299_999] {
            let content = read_back(&encode(u64::MAX, &body), max_len).expect("read");
            assert_eq!(content.body, None, "{max_len}");
            assert_eq!((content.len, content.etag), (300_000, etag(u64::MAX, &body)));
        }
        assert!(read_back(&encode(1, &body), usize::MAX).expect("read").body.is_some());
    }

    #[test]
    fn a_file_of_another_program_is_a_body_with_counter_zero() {
        let long_line = [b'x'; 4_000];
        for bytes in [
            &b""[..],
            b"{}",
            b"{\"expired\":false,\"validity_ms\":30000}\n",
            b"{\"tenure_dir\":1,\"wri",
            b"{\"tenure_dir\":\"1\"}\n{}",
            &long_line,
        ] {
            let content = read_back(bytes, 5_000).expect("read");
            assert_eq!((content.writes, content.body.as_deref()), (0, Some(bytes)));
            assert_eq!(content.etag, etag(0, bytes));
        }
    }

    #[test]
    fn a_later_format_is_unsupported() {
        let error = read_back(b"{\"tenure_dir\":2}\nwho knows", 100).expect_err("unknown");
        assert_eq!(error.kind(), StoreErrorKind::Unsupported);
        assert!(error.to_string().contains("/d/a was written in format 2"), "{error}");
    }
}
