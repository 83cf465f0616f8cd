//! Spill files.
//!
//! A repartitioning that has no memory left writes a batch to a file and announces it in its queue. DataFusion puts
//! many batches into a file, reads files in the order in which they were begun, and waits for the end of each. Two
//! inputs that write at the same time begin two files: the reader may then wait for a batch in the first file while it
//! lies in the second, and if all readers of the repartitioning wait like this, nobody writes any more
//! (datafusion#24883). Here each spilled batch has a file of its own ([`BATCHES_PER_FILE`]), which is complete before
//! anybody is told of it.
//!
//! A file that cannot be written would be the first in that order forever. Its reader would wait for a batch that
//! nobody writes, and miss the error, which comes by another way. Therefore writing to a file of a repartitioning never
//! fails, and the reader of the file gets the error.
//!
//! There may be many files. DataFusion's files keep a descriptor open for as long as they exist; these are open only
//! while they are written or read.

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

/// Value for `max_spill_file_size_bytes` with which each file takes one batch.
pub const BATCHES_PER_FILE: usize = 1;

/// Limit of the bytes in all spill files together.
const SPILLED_MAX: u64 = 100 << 30;

/// The description that DataFusion's repartitioning gives its files.
const OF_REPARTITIONING: &str = "SpillPool";

/// Bytes that one read of a file asks for.
const READ_BYTES: usize = 128 << 10;

/// Creates the files to which statements of this process spill.
pub struct SpillFiles {
    /// The configured directory; `None`: the system's for temporary files.
    parent: Option<PathBuf>,
    /// Created with the first file.
    dir: Mutex<Option<Arc<TempDir>>>,
    made: AtomicU64,
    used: Arc<AtomicU64>,
    /// Limit of the bytes in all files together.
    most: u64,
}

impl SpillFiles {
    /// Makes files below `parent`, which must exist.
    pub fn new(parent: Option<PathBuf>) -> Self {
        Self::with_most(parent, SPILLED_MAX)
    }

    /// Makes files that have at most `most` bytes together.
    pub fn with_most(parent: Option<PathBuf>, most: u64) -> Self {
        SpillFiles { parent, dir: Mutex::default(), made: AtomicU64::new(0), used: Arc::default(), most }
    }

    /// Removes the files, including those that are in use.
    pub fn remove(&self) {
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
    fn create_temp_file(&self, description: &str) -> Result<Arc<dyn SpillFile>> {
        let dir = self.dir()?;
        let path = dir.path().join(self.made.fetch_add(1, Ordering::Relaxed).to_string());
        File::create_new(&path)?;
        let used = Used { bytes: AtomicU64::new(0), all: Arc::clone(&self.used), most: self.most };
        let failure = (description == OF_REPARTITIONING).then(Arc::default);
        Ok(Arc::new(Spilled { path, used: Arc::new(used), failure, _dir: dir }))
    }
}

/// The size of a file, counted in the size of all files.
struct Used {
    bytes: AtomicU64,
    all: Arc<AtomicU64>,
    most: u64,
}

impl Used {
    fn add(&self, bytes: u64) -> io::Result<()> {
        if self.all.fetch_add(bytes, Ordering::Relaxed) + bytes > self.most {
            self.all.fetch_sub(bytes, Ordering::Relaxed);
            return Err(io::Error::new(
                io::ErrorKind::QuotaExceeded,
                format!(
                    "statements would write more than {} GiB of what does not fit in memory; ask for less at once, or set --memory higher",
                    self.most >> 30
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

/// The error because of which a file could not be written.
type Failure = Arc<Mutex<Option<io::Error>>>;

/// A spill file. It is removed when its last handle is dropped.
struct Spilled {
    path: PathBuf,
    used: Arc<Used>,
    /// `Some` for a file of a repartitioning, to which writing never fails: the error for its reader.
    failure: Option<Failure>,
    /// Keeps the directory until its files are removed.
    _dir: Arc<TempDir>,
}

impl Drop for Spilled {
    fn drop(&mut self) {
        // The file may have been removed with its directory.
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
        /// The state of reading: before the first bytes, and after them.
        enum At {
            Path(PathBuf),
            Open(tokio::fs::File),
        }
        if let Some(failure) = self.failure.as_ref().and_then(|failure| failure.lock().take()) {
            return Err(failure.into());
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
        let file = OpenOptions::new().append(true).open(&self.path);
        let used = Arc::clone(&self.used);
        let Some(failure) = &self.failure else { return Ok(Box::new(Writer { file: file?, used })) };
        let writer = match file {
            Ok(file) => Some(Writer { file, used }),
            Err(e) => {
                *failure.lock() = Some(e);
                None
            }
        };
        Ok(Box::new(Never { writer, failure: Arc::clone(failure) }))
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

/// A writer that never fails: after a failure, further writes are dropped.
struct Never {
    writer: Option<Writer>,
    failure: Failure,
}

impl Never {
    fn tried(&mut self, work: impl FnOnce(&mut Writer) -> io::Result<()>) {
        if let Some(Err(e)) = self.writer.as_mut().map(work) {
            *self.failure.lock() = Some(e);
            self.writer = None;
        }
    }
}

impl Write for Never {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.tried(|writer| writer.write_all(bytes));
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        self.tried(Writer::flush);
        Ok(())
    }
}

impl SpillWriter for Never {
    fn finish(&mut self) -> Result<()> {
        self.tried(Writer::flush);
        Ok(())
    }
}

impl SpillWriter for Writer {
    fn finish(&mut self) -> Result<()> {
        Ok(self.file.flush()?)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use arrow::array::{ArrayRef, Int64Array};
    use arrow::datatypes::{DataType, Field, Schema};
    use arrow::record_batch::RecordBatch;
    use datafusion::common::config::ConfigNonZeroUsize;
    use datafusion::datasource::memory::MemorySourceConfig;
    use datafusion::execution::TaskContext;
    use datafusion::execution::disk_manager::DiskManagerBuilder;
    use datafusion::execution::runtime_env::RuntimeEnvBuilder;
    use datafusion::physical_expr::expressions::Column;
    use datafusion::physical_plan::repartition::RepartitionExec;
    use datafusion::physical_plan::{ExecutionPlan, Partitioning};
    use datafusion::prelude::SessionConfig;
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

    #[tokio::test]
    async fn who_reads_what_a_repartitioning_could_not_write_is_told() {
        let parent = tempfile::tempdir().unwrap();
        let files = SpillFiles::with_most(Some(parent.path().to_path_buf()), 100);
        let other = files.create_temp_file("a sort").unwrap();
        assert!(other.open_writer().unwrap().write_all(&[7; 101]).is_err());
        let file = files.create_temp_file(OF_REPARTITIONING).unwrap();
        let mut writer = file.open_writer().unwrap();
        for bytes in [60, 60, 10] {
            writer.write_all(&vec![7; bytes]).unwrap();
        }
        writer.finish().unwrap();
        let told = file.read_stream().err().unwrap();
        assert!(told.to_string().contains("does not fit in memory"), "{told}");
        // This file cannot be opened.
        let gone = files.create_temp_file(OF_REPARTITIONING).unwrap();
        std::fs::remove_file(gone.path().unwrap()).unwrap();
        gone.open_writer().unwrap().write_all(&[7]).unwrap();
        assert!(gone.read_stream().is_err());
        drop((file, other));
        assert_eq!(files.used.load(Ordering::Relaxed), 0);
    }

    /// Both inputs of a repartitioning spill, one of them to a file that cannot be written.
    #[tokio::test]
    async fn a_full_disk_ends_a_repartitioning() {
        let files = Arc::new(SpillFiles::with_most(None, 20_000));
        let disk = DiskManagerBuilder::default().with_temp_file_factory(Arc::clone(&files) as _);
        let runtime = RuntimeEnvBuilder::new().with_memory_limit(1, 1.0).with_disk_manager_builder(disk).build_arc();
        let mut config = SessionConfig::new();
        config.options_mut().execution.max_spill_file_size_bytes =
            ConfigNonZeroUsize::try_new(BATCHES_PER_FILE).unwrap();
        let context = TaskContext::default().with_runtime(runtime.unwrap()).with_session_config(config);
        let context = Arc::new(context);
        let schema = Arc::new(Schema::new(vec![Field::new("k", DataType::Int64, false)]));
        let batch = |from: i64| {
            let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(from..from + 200));
            RecordBatch::try_new(Arc::clone(&schema), vec![numbers]).unwrap()
        };
        let inputs: Vec<Vec<RecordBatch>> = (0..3).map(|_| (0..50).map(|at| batch(at * 200)).collect()).collect();
        let rows = MemorySourceConfig::try_new_exec(&inputs, Arc::clone(&schema), None).unwrap();
        let by = Partitioning::Hash(vec![Arc::new(Column::new("k", 0))], 2);
        let parts = RepartitionExec::try_new(rows, by).unwrap();
        let read = async |part| {
            let rows = parts.execute(part, Arc::clone(&context)).unwrap().try_collect::<Vec<_>>();
            tokio::time::timeout(Duration::from_secs(10), rows).await.expect("an end")
        };
        // Bytes that have not been read yet fill the disk.
        assert!(read(0).await.is_err());
        let _ = read(1).await;
    }
}
