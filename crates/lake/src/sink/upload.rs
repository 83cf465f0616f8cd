//! Uploads an object while it is written: a short one by one put, a long one in parts. The object is not visible before
//! it is complete.

use std::io::{self, Write};
use std::sync::Arc;

use dipper_node::error::Result;
use dipper_node::files::stores::Remote;
use object_store::{Error, MultipartUpload, ObjectStore, ObjectStoreExt, PutMode};
use parking_lot::Mutex;
use tokio::runtime::Handle;
use tokio::task::JoinSet;

use super::Place;

/// Bytes of a part; the last one has the rest.
const PART_BYTES: usize = 8 << 20;
/// Parts that are in flight at the same time.
const PARTS: usize = 4;

/// Bytes that wait to be uploaded.
#[derive(Debug, Clone, Default)]
pub(super) struct Buffer(Arc<Mutex<Vec<u8>>>);

impl Write for Buffer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Buffer {
    /// Takes the bytes of the next part, if there are enough.
    fn part(&self) -> Option<Vec<u8>> {
        let mut bytes = self.0.lock();
        (bytes.len() >= PART_BYTES).then(|| {
            let rest = bytes.split_off(PART_BYTES);
            std::mem::replace(&mut *bytes, rest)
        })
    }

    fn rest(&self) -> Vec<u8> {
        std::mem::take(&mut *self.0.lock())
    }
}

/// An object that is being uploaded.
pub(super) struct Upload {
    remote: Remote,
    runtime: Handle,
    pub(super) buffer: Buffer,
    /// Made when there are enough bytes for a first part.
    parts: Option<Box<dyn MultipartUpload>>,
    under_way: JoinSet<object_store::Result<()>>,
}

impl Upload {
    pub(super) fn new(remote: Remote, runtime: Handle) -> Self {
        Upload { remote, runtime, buffer: Buffer::default(), parts: None, under_way: JoinSet::new() }
    }

    fn place(&self) -> Place {
        Place::Object(self.remote.clone(), self.runtime.clone())
    }

    fn failed(&self, e: &Error) -> dipper_node::error::EngineError {
        self.place().failed("write", e)
    }

    /// Uploads the buffered bytes that fill whole parts.
    pub(super) async fn advance(&mut self) -> Result<()> {
        while let Some(part) = self.buffer.part() {
            self.put(part).await?;
        }
        Ok(())
    }

    async fn put(&mut self, part: Vec<u8>) -> Result<()> {
        if self.parts.is_none() {
            let begun = self.remote.store.put_multipart(&self.remote.path).await;
            self.parts = Some(begun.map_err(|e| self.failed(&e))?);
        }
        while self.under_way.len() >= PARTS {
            self.one_done().await?;
        }
        if let Some(parts) = &mut self.parts {
            self.under_way.spawn_on(parts.put_part(part.into()), &self.runtime);
        }
        Ok(())
    }

    async fn one_done(&mut self) -> Result<()> {
        match self.under_way.join_next().await {
            None | Some(Ok(Ok(()))) => Ok(()),
            Some(Ok(Err(e))) => Err(self.failed(&e)),
            Some(Err(e)) => Err(self.failed(&Error::JoinError { source: e })),
        }
    }

    /// Uploads the rest of an object that is uploaded in parts, and waits for all parts.
    pub(super) async fn finish(&mut self) -> Result<()> {
        self.advance().await?;
        if self.parts.is_some() {
            let rest = self.buffer.rest();
            if !rest.is_empty() {
                self.put(rest).await?;
            }
        }
        while !self.under_way.is_empty() {
            self.one_done().await?;
        }
        Ok(())
    }

    /// Makes the object visible. For an object in parts, the only way to refuse an existing one is to look before.
    pub(super) async fn complete(&mut self, replace: bool) -> Result<()> {
        let Some(mut parts) = self.parts.take() else {
            let mode = if replace { PutMode::Overwrite } else { PutMode::Create };
            let put = self.remote.store.put_opts(&self.remote.path, self.buffer.rest().into(), mode.into()).await;
            return match put {
                Ok(_) => Ok(()),
                Err(Error::AlreadyExists { .. }) => Err(self.place().exists()),
                Err(e) => Err(self.failed(&e)),
            };
        };
        let completed = match self.place().check_new(replace).await {
            Ok(()) => parts.complete().await.map(drop).map_err(|e| self.failed(&e)),
            Err(e) => Err(e),
        };
        if completed.is_err() {
            self.parts = Some(parts);
        }
        completed
    }
}

impl Drop for Upload {
    fn drop(&mut self) {
        if let Some(mut parts) = self.parts.take() {
            self.under_way.abort_all();
            // If this fails too, the parts stay: they cost money and nobody sees them. Buckets have lifecycle rules for
            // them.
            self.runtime.spawn(async move { parts.abort().await });
        }
    }
}
