//! An object written piece by piece.

use std::mem;
use std::sync::Arc;

use bytes::Bytes;
use object_store::path::Path;
use object_store::{MultipartUpload, ObjectStore, ObjectStoreExt, PutPayload};

/// Bytes of a part; S3 wants at least 5 MiB.
const PART_BYTES: usize = 8 << 20;

/// Writes an object: small ones by one request, larger ones in parts. Until [`finish`](Self::finish) nobody sees it.
pub(super) struct Upload {
    store: Arc<dyn ObjectStore>,
    path: Path,
    waiting: Vec<Bytes>,
    waiting_bytes: usize,
    parts: Option<Box<dyn MultipartUpload>>,
}

impl Upload {
    pub fn new(store: Arc<dyn ObjectStore>, path: Path) -> Self {
        Self { store, path, waiting: Vec::new(), waiting_bytes: 0, parts: None }
    }

    pub async fn write(&mut self, data: Vec<Bytes>) -> object_store::Result<()> {
        self.waiting_bytes += data.iter().map(Bytes::len).sum::<usize>();
        self.waiting.extend(data);
        if self.waiting_bytes < PART_BYTES {
            return Ok(());
        }
        let parts = match &mut self.parts {
            Some(parts) => parts,
            none => none.insert(self.store.put_multipart(&self.path).await?),
        };
        // Parts but the last must be equally long in some stores.
        let mut waiting: Vec<u8> = mem::take(&mut self.waiting).concat();
        while waiting.len() >= PART_BYTES {
            let rest = waiting.split_off(PART_BYTES);
            parts.put_part(mem::replace(&mut waiting, rest).into()).await?;
        }
        self.waiting_bytes = waiting.len();
        self.waiting.push(waiting.into());
        Ok(())
    }

    /// The object is durable afterwards.
    pub async fn finish(mut self) -> object_store::Result<()> {
        let rest: PutPayload = mem::take(&mut self.waiting).into_iter().collect();
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

    /// Takes back what was written.
    pub async fn abort(mut self) {
        if let Some(mut parts) = self.parts.take() {
            // What is left over is nobody's; stores and vacuum remove it.
            let _ = parts.abort().await;
        }
    }
}
