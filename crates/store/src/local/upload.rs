//! Uploads in parts: the parts are written to one temporary file.

use std::sync::Arc;

use async_trait::async_trait;
use object_store::path::Path;
use object_store::{Error, MultipartUpload, PutPayload, PutResult, Result, UploadPart};

use super::{LocalStore, STORE, Temp};

/// Smallest part, in bytes, that is synced as soon as it is written.
const EARLY_SYNC_BYTES: usize = 1 << 20;

/// An upload in parts. Parts may be written at the same time; each has its place from the order of `put_part` calls. An
/// upload that is dropped before `complete` leaves nothing behind.
#[derive(Debug)]
pub(super) struct LocalUpload {
    store: LocalStore,
    location: Path,
    /// The temporary file; `None` once completed or aborted.
    temp: Option<Arc<Temp>>,
    /// Offset at which the next part begins.
    offset: u64,
    /// Held once by each part that is not finished: completing while a part is open would leave a hole.
    open_parts: Arc<()>,
    failed: Arc<std::sync::atomic::AtomicBool>,
}

impl LocalUpload {
    pub(super) fn new(store: LocalStore, location: Path, temp: Temp) -> Self {
        let temp = Some(Arc::new(temp));
        Self { store, location, temp, offset: 0, open_parts: Arc::new(()), failed: Arc::default() }
    }

    fn refuse(&self, why: &str) -> Error {
        Error::Generic { store: STORE, source: format!("upload of {}: {why}", self.location).into() }
    }
}

/// Marks the upload as failed unless its part was written.
struct Part {
    done: bool,
    failed: Arc<std::sync::atomic::AtomicBool>,
    _open: Arc<()>,
}

impl Part {
    fn written(mut self) {
        self.done = true;
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        if !self.done {
            self.failed.store(true, std::sync::atomic::Ordering::Release);
        }
    }
}

#[async_trait]
impl MultipartUpload for LocalUpload {
    fn put_part(&mut self, data: PutPayload) -> UploadPart {
        let Some(temp) = self.temp.clone() else {
            let e = self.refuse("it is completed or aborted already; begin a new one");
            return Box::pin(async move { Err(e) });
        };
        let mut offset = self.offset;
        self.offset += data.content_length() as u64;
        let (store, location) = (self.store.clone(), self.location.clone());
        let part = Part { done: false, failed: Arc::clone(&self.failed), _open: Arc::clone(&self.open_parts) };
        Box::pin(async move {
            store
                .blocking(move |s| {
                    for bytes in &data {
                        temp.file.write_at(bytes, offset).map_err(|e| s.error(&location, e))?;
                        offset += bytes.len() as u64;
                    }
                    // The disk writes while the next parts are produced, so that completing finds little left to sync.
                    if data.content_length() >= EARLY_SYNC_BYTES {
                        temp.file.sync().map_err(|e| s.error(&location, e))?;
                    }
                    Ok(())
                })
                .await?;
            part.written();
            Ok(())
        })
    }

    async fn complete(&mut self) -> Result<PutResult> {
        if Arc::strong_count(&self.open_parts) > 1 {
            return Err(self.refuse("a part is still being written; wait for every part, then complete"));
        }
        let Some(temp) = self.temp.take() else {
            return Err(self.refuse("it is completed or aborted already; begin a new one"));
        };
        if self.failed.load(std::sync::atomic::Ordering::Acquire) {
            return Err(self.refuse("a part was not written; begin a new one"));
        }
        let location = self.location.clone();
        self.store.blocking(move |s| s.finish(&temp, &location, false)).await
    }

    async fn abort(&mut self) -> Result<()> {
        self.temp = None;
        Ok(())
    }
}
