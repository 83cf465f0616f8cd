//! Files of what does not fit in memory.
//!
//! A repartitioning that has no memory writes a batch to a file and says in its queue that there is one. DataFusion puts
//! many batches into a file, reads files in the order in which they were begun, and waits for the end of each. Two inputs
//! that write at once begin two: then the reader waits for a batch in the first file while it lies in the second, and where
//! all readers of the repartitioning wait so, nobody writes any more (datafusion#24883). Here each such batch has a file of
//! its own ([`BATCHES_PER_FILE`]), which is complete before anybody is told of it.
//!
//! So there may be many files. DataFusion's keep a descriptor open for as long as they are there; these are open only while
//! they are written or read.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::{Bytes, BytesMut};
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::spill_file::{SpillFile, SpillWriter, TempFileFactory};
use futures::Stream;
use parking_lot::Mutex;
use tempfile::TempDir;
use tokio::io::AsyncReadExt;

/// What `max_spill_file_size_bytes` is set to, so that a file takes one batch.
pub(crate) const BATCHES_PER_FILE: usize = 1;

/// Bytes that may be spilled at once.
const SPILLED_MAX: u64 = 100 << 30;

/// Bytes that are read of a file at once.
const READ_BYTES: usize = 128 << 10;

/// Makes the files that statements of this process spill to.
pub(crate) struct SpillFiles {
    /// The directory that was asked for; `None`: the system's for temporary files.
    parent: Option<PathBuf>,
    /// Made with the first file.
    dir: Mutex<Option<Arc<TempDir>>>,
    made: AtomicU64,
    used: Arc<AtomicU64>,
}

impl SpillFiles {
    /// Files below `parent`, which is there.
    pub(crate) fn new(parent: Option<PathBuf>) -> Self {
        SpillFiles { parent, dir: Mutex::default(), made: AtomicU64::new(0), used: Arc::default() }
    }

    /// Removes the files, also those that are in use.
    pub(crate) fn remove(&self) {
        let Some(dir) = self.dir.lock().take() else { return };
        if let Err(e) = std::fs::remove_dir_all(dir.path()) {
            tracing::warn!(dir = %dir.path().display(), error = %e, "files of statements that have ended stay there");
        }
    }

    fn dir(&self) -> io::Result<Arc<TempDir>> {
        let mut dir = self.dir.lock();
        if let Some(dir) = &*dir {
            return Ok(Arc::clone(dir));
        }
        let mut builder = tempfile::Builder::new();
        builder.prefix("dipper-spill-");
        let made = match &self.parent {
            Some(parent) => builder.tempdir_in(parent)?,
            None => builder.tempdir()?,
        };
        Ok(Arc::clone(dir.insert(Arc::new(made))))
    }
}

impl TempFileFactory for SpillFiles {
    fn create_temp_file(&self, _description: &str) -> Result<Arc<dyn SpillFile>> {
        let dir = self.dir()?;
        let path = dir.path().join(self.made.fetch_add(1, Ordering::Relaxed).to_string());
        File::create_new(&path)?;
        let used = Used { bytes: AtomicU64::new(0), all: Arc::clone(&self.used) };
        Ok(Arc::new(Spilled { path, used: Arc::new(used), _dir: dir }))
    }
}

/// A file's bytes, counted among those of all.
struct Used {
    bytes: AtomicU64,
    all: Arc<AtomicU64>,
}

impl Used {
    fn add(&self, bytes: u64) -> io::Result<()> {
        if self.all.fetch_add(bytes, Ordering::Relaxed) + bytes > SPILLED_MAX {
            self.all.fetch_sub(bytes, Ordering::Relaxed);
            return Err(io::Error::new(
                io::ErrorKind::QuotaExceeded,
                format!(
                    "statements would write more than {} GiB of what does not fit in memory; ask for less at once, or set --memory higher",
                    SPILLED_MAX >> 30
                ),
            ));
        }
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        Ok(())
    }
}

impl Drop for Used {
    fn drop(&mut self) {
        self.all.fetch_sub(*self.bytes.get_mut(), Ordering::Relaxed);
    }
}

/// A file that goes with the last that holds it.
struct Spilled {
    path: PathBuf,
    used: Arc<Used>,
    /// Goes after its files.
    _dir: Arc<TempDir>,
}

impl Drop for Spilled {
    fn drop(&mut self) {
        // The file may be gone with its directory.
        let _ = std::fs::remove_file(&self.path);
    }
}

impl SpillFile for Spilled {
    fn path(&self) -> Option<&Path> {
        Some(&self.path)
    }

    fn size(&self) -> Option<u64> {
        Some(self.used.bytes.load(Ordering::Relaxed))
    }

    fn read_stream(&self) -> Result<Pin<Box<dyn Stream<Item = Result<Bytes>> + Send>>> {
        /// A file before its first bytes, and in between.
        enum At {
            Path(PathBuf),
            Open(tokio::fs::File),
        }
        Ok(Box::pin(futures::stream::try_unfold(At::Path(self.path.clone()), |at| async move {
            let mut file = match at {
                At::Path(path) => tokio::fs::File::open(&path).await?,
                At::Open(file) => file,
            };
            let mut bytes = BytesMut::with_capacity(READ_BYTES);
            let read = file.read_buf(&mut bytes).await?;
            Ok::<_, DataFusionError>((read > 0).then(|| (bytes.freeze(), At::Open(file))))
        })))
    }

    fn open_writer(&self) -> Result<Box<dyn SpillWriter>> {
        let file = OpenOptions::new().append(true).open(&self.path)?;
        Ok(Box::new(Writer { file, used: Arc::clone(&self.used) }))
    }
}

struct Writer {
    file: File,
    used: Arc<Used>,
}

impl Write for Writer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.used.add(bytes.len() as u64)?;
        self.file.write_all(bytes)?;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl SpillWriter for Writer {
    fn finish(&mut self) -> Result<()> {
        Ok(self.file.flush()?)
    }
}

#[cfg(test)]
mod tests {
    use futures::TryStreamExt;

    use super::*;

    #[tokio::test]
    async fn files_are_read_as_written_and_go() {
        let parent = tempfile::tempdir().unwrap();
        let files = SpillFiles::new(Some(parent.path().to_path_buf()));
        let file = files.create_temp_file("").unwrap();
        let text = vec![7_u8; 3 * READ_BYTES + 5];
        file.open_writer().unwrap().write_all(&text).unwrap();
        assert_eq!((file.size(), files.used.load(Ordering::Relaxed)), (Some(text.len() as u64), text.len() as u64));
        let read: Vec<Bytes> = file.read_stream().unwrap().try_collect().await.unwrap();
        assert_eq!(read.concat(), text);
        let path = file.path().unwrap().to_path_buf();
        drop(file);
        assert!(!path.exists());
        assert_eq!(files.used.load(Ordering::Relaxed), 0);
        files.remove();
        assert_eq!(std::fs::read_dir(parent.path()).unwrap().count(), 0);
    }
}
