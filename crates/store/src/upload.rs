//! Uploads of objects that are written piece by piece.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use object_store::path::Path;
use object_store::{MultipartUpload, ObjectStore, ObjectStoreExt, PutPayload};

/// Bytes of a part: above the smallest that S3 accepts (5 MiB), and 10,000 of them (the most it accepts) are 78 GiB.
pub const PART_BYTES: usize = 8 << 20;

/// A buffer that cuts arriving bytes into parts. All parts but the last are equally long, because some stores require
/// it.
#[derive(Debug, Default)]
pub struct Parts {
    waiting: VecDeque<Bytes>,
    bytes: usize,
}

impl Parts {
    /// Appends bytes to the buffer.
    pub fn push(&mut self, data: impl IntoIterator<Item = Bytes>) {
        for piece in data {
            self.bytes += piece.len();
            self.waiting.push_back(piece);
        }
    }

    /// Returns the next part if the buffer holds a whole one.
    pub fn next_part(&mut self) -> Option<PutPayload> {
        (self.bytes >= PART_BYTES).then(|| self.take(PART_BYTES))
    }

    /// Returns the remaining bytes, fewer than a part.
    pub fn rest(&mut self) -> PutPayload {
        self.take(self.bytes)
    }

    fn take(&mut self, bytes: usize) -> PutPayload {
        assert!(bytes <= self.bytes, "a part is taken of bytes that wait");
        let mut part = Vec::new();
        let mut wanted = bytes;
        while wanted > 0
            && let Some(mut piece) = self.waiting.pop_front()
        {
            if piece.len() > wanted {
                self.waiting.push_front(piece.split_off(wanted));
            }
            wanted -= piece.len();
            part.push(piece);
        }
        assert_eq!(wanted, 0, "bytes that wait are counted");
        self.bytes -= bytes;
        part.into_iter().collect()
    }
}

/// A writer of one object: small objects are written by one request, larger ones in parts. The object is not visible
/// until [`finish`](Self::finish).
#[derive(Debug)]
pub struct Upload {
    store: Arc<dyn ObjectStore>,
    path: Path,
    waiting: Parts,
    parts: Option<Box<dyn MultipartUpload>>,
}

impl Upload {
    /// Starts an object without bytes.
    pub fn new(store: Arc<dyn ObjectStore>, path: Path) -> Self {
        Self { store, path, waiting: Parts::default(), parts: None }
    }

    /// Adds bytes.
    ///
    /// # Errors
    /// The store's error. Afterwards only [`abort`](Self::abort) may be called.
    pub async fn write(&mut self, data: impl IntoIterator<Item = Bytes>) -> object_store::Result<()> {
        self.waiting.push(data);
        while let Some(part) = self.waiting.next_part() {
            let parts = match &mut self.parts {
                Some(parts) => parts,
                none => none.insert(self.store.put_multipart(&self.path).await?),
            };
            parts.put_part(part).await?;
        }
        Ok(())
    }

    /// Writes the rest and makes the object visible and durable.
    ///
    /// # Errors
    /// The store's error.
    pub async fn finish(mut self) -> object_store::Result<()> {
        let rest = self.waiting.rest();
        match self.parts.take() {
            None => self.store.put(&self.path, rest).await.map(drop),
            Some(mut parts) => {
                if rest.content_length() > 0 {
                    parts.put_part(rest).await?;
                }
                parts.complete().await.map(drop)
            }
        }
    }

    /// Discards the bytes that were written.
    pub async fn abort(self) {
        if let Some(mut parts) = self.parts {
            // Errors are ignored: leftover parts belong to no object, and stores and vacuum remove them.
            let _ = parts.abort().await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_equally_long_and_lose_nothing() {
        let all: Vec<u8> = (0..3 * PART_BYTES + 17).map(|i| (i % 251) as u8).collect();
        for piece in [1 << 20, PART_BYTES, PART_BYTES + 1, 5 * PART_BYTES] {
            let mut parts = Parts::default();
            let mut got = Vec::new();
            for chunk in all.chunks(piece) {
                parts.push([Bytes::copy_from_slice(chunk)]);
                while let Some(part) = parts.next_part() {
                    assert_eq!(part.content_length(), PART_BYTES);
                    got.extend(Bytes::from(part));
                }
            }
            let rest = parts.rest();
            assert_eq!(rest.content_length(), 17);
            got.extend(Bytes::from(rest));
            assert!(got == all, "pieces of {piece}");
        }
    }
}
