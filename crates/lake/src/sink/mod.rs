//! Writes rows to files: CSV, Hive text, MySQL's text, JSON lines, Parquet.
//!
//! A file is written under a hidden name beside its target, synced, and renamed when everything is written; an object
//! (`upload.rs`) is not visible before it is complete. A file that was not published is removed when its [`NewFile`] is
//! dropped, so a statement that fails leaves nothing behind.

mod address_texts;
mod directories;
mod map_keys;
mod mysql_text;
mod place;
mod upload;

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use arrow::datatypes::SchemaRef;
use arrow::json::{LineDelimitedWriter, WriterBuilder};
use arrow::record_batch::RecordBatch;
use dipper_node::error::{EngineError, ErrorKind, Result};
use dipper_node::files::cannot;
use dipper_text::compress::{Encoder, encoder};
use dipper_text::dialect::{CsvDialect, HiveDialect};
use dipper_text::source::Compression;
use dipper_text::write::{CsvWriter, HiveTextWriter};
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression as ParquetCodec, ZstdLevel};
use parquet::file::properties::WriterProperties;

pub use directories::MadeDirectories;
pub use map_keys::as_names;
pub use mysql_text::MySqlDialect;
pub use place::Place;

use self::mysql_text::MySqlWriter;
use self::upload::{Buffer, Upload};

/// The format in which rows are written.
#[derive(Debug, Clone)]
pub enum OutputFormat {
    /// CSV, compressed as a whole or not.
    Csv(CsvDialect, Compression),
    /// Hive text.
    HiveText(HiveDialect, Compression),
    /// The format of MySQL's INTO OUTFILE, with configurable quotes and line ends.
    MySqlText(MySqlDialect),
    /// One JSON object per line.
    Json(Compression),
    /// Parquet with this codec.
    Parquet(ParquetCodec),
}

impl OutputFormat {
    /// Returns the extension of file names, without a leading dot.
    pub fn extension(&self) -> String {
        let (name, compression) = match self {
            OutputFormat::Csv(_, c) => ("csv", c),
            OutputFormat::HiveText(_, c) => ("txt", c),
            OutputFormat::MySqlText(_) => return "txt".into(),
            OutputFormat::Json(c) => ("json", c),
            OutputFormat::Parquet(_) => return "parquet".into(),
        };
        match compression_extension(*compression) {
            Some(extension) => format!("{name}.{extension}"),
            None => name.into(),
        }
    }
}

fn compression_extension(compression: Compression) -> Option<&'static str> {
    match compression {
        Compression::None => None,
        Compression::Gzip => Some("gz"),
        Compression::Bzip2 => Some("bz2"),
        Compression::Zstd => Some("zst"),
        Compression::Lz4 => Some("lz4"),
        Compression::Snappy => Some("snappy"),
        _ => Some("deflate"),
    }
}

/// Returns the codec for text output that a statement names.
pub fn text_compression(name: &str) -> Result<Compression> {
    Ok(match name.to_lowercase().as_str() {
        "" | "none" | "plain" | "uncompressed" => Compression::None,
        "gz" | "gzip" => Compression::Gzip,
        "bz2" | "bzip2" => Compression::Bzip2,
        "zst" | "zstd" => Compression::Zstd,
        "lz4" | "lz4frame" | "lz4_frame" => Compression::Lz4,
        "snappy" | "snappyblock" => Compression::Snappy,
        "deflate" => Compression::Deflate,
        other => {
            return Err(EngineError::invalid(format!(
                "compression '{other}' is not known; choose none, gzip, bzip2, zstd, lz4, snappy or deflate"
            )));
        }
    })
}

/// Returns the codec for Parquet output that a statement names.
pub fn parquet_codec(name: &str) -> Result<ParquetCodec> {
    Ok(match name.to_lowercase().as_str() {
        "none" | "plain" | "uncompressed" => ParquetCodec::UNCOMPRESSED,
        "snappy" => ParquetCodec::SNAPPY,
        "gz" | "gzip" => ParquetCodec::GZIP(Default::default()),
        "lz4" | "lz4_raw" => ParquetCodec::LZ4_RAW,
        "brotli" => ParquetCodec::BROTLI(Default::default()),
        "" | "zst" | "zstd" => ParquetCodec::ZSTD(ZstdLevel::default()),
        other => {
            return Err(EngineError::invalid(format!(
                "compression '{other}' is not known for Parquet; choose zstd, snappy, lz4, gzip, brotli or none"
            )));
        }
    })
}

/// The destination of a writer's bytes.
#[derive(Debug)]
enum Bytes {
    File(File),
    Object(Buffer),
}

/// Counts the bytes that are written.
#[derive(Debug)]
struct Counted {
    to: Bytes,
    bytes: Arc<AtomicU64>,
}

impl Write for Counted {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        let n = match &mut self.to {
            Bytes::File(file) => file.write(buf)?,
            Bytes::Object(buffer) => buffer.write(buf)?,
        };
        self.bytes.fetch_add(n as u64, Ordering::Relaxed);
        Ok(n)
    }

    fn flush(&mut self) -> io::Result<()> {
        match &mut self.to {
            Bytes::File(file) => file.flush(),
            Bytes::Object(buffer) => buffer.flush(),
        }
    }
}

type Target = BufWriter<Counted>;

enum Writer {
    Csv(CsvWriter<Encoder<Target>>),
    HiveText(HiveTextWriter<Encoder<Target>>),
    MySqlText(MySqlWriter<Target>),
    Json(LineDelimitedWriter<Encoder<Target>>),
    Parquet(Box<ArrowWriter<Target>>),
}

/// Where the bytes are before the file is published.
enum Unseen {
    /// A file under a hidden name.
    File(PathBuf),
    Object(Box<Upload>),
}

/// A file or object that is being written.
pub struct NewFile {
    target: Place,
    unseen: Unseen,
    writer: Option<Writer>,
    rows: u64,
    bytes: Arc<AtomicU64>,
    published: bool,
    /// Removes the statement's empty directories when its last file is dropped.
    _directories: Arc<MadeDirectories>,
}

/// Bytes that are buffered between a writer and the file, and written by one system call.
const BUFFER_BYTES: usize = 1 << 20;

impl NewFile {
    /// Begins to write `target`, and creates its directory if needed. `directories` are those that the statement has
    /// created.
    ///
    /// # Errors
    /// `File` if the directory or the hidden file cannot be created, or the format cannot hold the schema; `Resources`
    /// if the disk is full.
    pub fn create(
        target: &Place,
        format: &OutputFormat,
        schema: &SchemaRef,
        directories: &Arc<MadeDirectories>,
    ) -> Result<Self> {
        Self::begin(target, format, schema, &[], directories)
    }

    /// Like [`create`](Self::create), but writes `start` ahead of the rows. Parquet ignores it.
    pub fn begin(
        target: &Place,
        format: &OutputFormat,
        schema: &SchemaRef,
        start: &[u8],
        directories: &Arc<MadeDirectories>,
    ) -> Result<Self> {
        let (unseen, to) = match target {
            Place::File(path) => {
                let name = path.file_name().unwrap_or_default().to_string_lossy();
                let hidden = directory(path).join(format!(".{name}.{}.tmp", unique_suffix()));
                let file = directories.create_file(&hidden).map_err(|e| cannot(path, "create", &e))?;
                (Unseen::File(hidden), Bytes::File(file))
            }
            Place::Object(remote, runtime) => {
                let upload = Upload::new(remote.clone(), runtime.clone());
                let buffer = upload.buffer.clone();
                (Unseen::Object(Box::new(upload)), Bytes::Object(buffer))
            }
        };
        let schema = &address_texts::schema(schema);
        let bytes = Arc::new(AtomicU64::new(0));
        let counter = Arc::clone(&bytes);
        let mut new = NewFile {
            target: target.clone(),
            unseen,
            writer: None,
            rows: 0,
            bytes,
            published: false,
            _directories: Arc::clone(directories),
        };
        let out = BufWriter::with_capacity(BUFFER_BYTES, Counted { to, bytes: counter });
        new.writer = Some(writer(out, format, schema, start).map_err(|e| new.failed(&e.to_string(), None))?);
        Ok(new)
    }

    /// Appends rows.
    ///
    /// # Errors
    /// `Resources` if the disk is full; `File` if writing fails or the format cannot hold a value.
    pub async fn write(&mut self, batch: &RecordBatch) -> Result<()> {
        self.rows += batch.num_rows() as u64;
        let batch = &address_texts::rows(batch).map_err(|e| self.failed(&e.to_string(), None))?;
        let written = match self.writer.as_mut().expect("open until finished") {
            Writer::Csv(w) => w.write(batch).map_err(boxed),
            Writer::HiveText(w) => w.write(batch).map_err(boxed),
            Writer::MySqlText(w) => w.write(batch),
            Writer::Json(w) => as_names(batch).and_then(|batch| w.write(&batch)).map_err(boxed),
            Writer::Parquet(w) => w.write(batch).map_err(boxed),
        };
        written.map_err(|e| self.failed(&e.to_string(), io_kind(e.as_ref())))?;
        match &mut self.unseen {
            Unseen::File(_) => Ok(()),
            Unseen::Object(upload) => upload.advance().await,
        }
    }

    /// Completes the format and syncs; the file stays hidden.
    ///
    /// # Errors
    /// `Resources` if the disk is full; `File` if writing fails.
    pub async fn finish(&mut self) -> Result<()> {
        let Some(writer) = self.writer.take() else { return Ok(()) };
        let end = |writer: Writer| -> std::result::Result<(), Boxed> {
            let out = match writer {
                Writer::Csv(w) => w.finish().map_err(boxed)?.finish().map_err(boxed)?,
                Writer::HiveText(w) => w.finish().map_err(boxed)?.finish().map_err(boxed)?,
                Writer::MySqlText(w) => w.finish(),
                Writer::Json(mut w) => {
                    w.finish().map_err(boxed)?;
                    w.into_inner().finish().map_err(boxed)?
                }
                Writer::Parquet(w) => w.into_inner().map_err(boxed)?,
            };
            match out.into_inner().map_err(|e| boxed(e.into_error()))?.to {
                Bytes::File(file) => file.sync_all().map_err(boxed),
                Bytes::Object(_) => Ok(()),
            }
        };
        end(writer).map_err(|e| self.failed(&e.to_string(), io_kind(e.as_ref())))?;
        match &mut self.unseen {
            Unseen::File(_) => Ok(()),
            Unseen::Object(upload) => upload.finish().await,
        }
    }

    /// Gives the finished file its name. If `replace`, an existing file of that name is replaced; otherwise it is an
    /// error.
    ///
    /// # Errors
    /// `File` with code 1086 if the file exists; the errors of [`finish`](Self::finish), of the file system or of the
    /// store.
    pub async fn publish(&mut self, replace: bool) -> Result<()> {
        self.finish().await?;
        match (&self.target, &mut self.unseen) {
            (Place::File(target), Unseen::File(hidden)) => {
                let named = match replace {
                    true => std::fs::rename(&*hidden, target),
                    // A hard link is the only way to name a file without replacing another.
                    false => std::fs::hard_link(&*hidden, target).and_then(|()| std::fs::remove_file(&*hidden)),
                };
                named.map_err(|e| match e.kind() {
                    io::ErrorKind::AlreadyExists => self.target.exists(),
                    _ => cannot(target, "write", &e),
                })?;
                self.published = true;
                let dir = directory(target);
                File::open(dir).and_then(|d| d.sync_all()).map_err(|e| cannot(dir, "sync", &e))
            }
            (_, Unseen::Object(upload)) => {
                // The put may have been done even if it reports a failure.
                self.published = true;
                upload.complete(replace).await
            }
            (Place::Object(..), Unseen::File(_)) => unreachable!("objects have no hidden name"),
        }
    }

    /// Removes a file with a generated name that has been published, or may have been, because another file of the same
    /// statement could not be. This is only for generated names: under other names there may be somebody else's file.
    pub async fn withdraw(&mut self) {
        if self.published {
            let _ = self.target.remove().await;
        }
    }

    /// Returns the rows written so far.
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Returns the bytes written so far.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    fn failed(&self, reason: &str, kind: Option<io::ErrorKind>) -> EngineError {
        let kind = match kind {
            Some(io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded) => ErrorKind::Resources,
            _ => ErrorKind::File,
        };
        EngineError::new(kind, format!("cannot write '{}': {reason}", self.target.name()))
    }
}

/// Publishes files under their generated names: all of them, or none.
///
/// # Errors
/// The error of [`NewFile::publish`].
pub async fn publish_drawn(files: &mut [NewFile]) -> Result<()> {
    for n in 0..files.len() {
        // A put that is repeated because its answer was lost must not be refused because of its own object.
        let replace = matches!(files[n].target, Place::Object(..));
        if let Err(e) = files[n].publish(replace).await {
            for file in &mut files[..=n] {
                file.withdraw().await;
            }
            return Err(e);
        }
    }
    Ok(())
}

impl Drop for NewFile {
    fn drop(&mut self) {
        if !self.published {
            self.writer = None;
            if let Unseen::File(hidden) = &self.unseen {
                let _ = std::fs::remove_file(hidden);
            }
        }
    }
}

/// Returns the directory of a file.
fn directory(path: &Path) -> &Path {
    path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

type Boxed = Box<dyn std::error::Error + Send + Sync>;

fn boxed(e: impl std::error::Error + Send + Sync + 'static) -> Boxed {
    Box::new(e)
}

/// Returns the I/O error kind in an error's chain of sources, if there is one.
fn io_kind(e: &(dyn std::error::Error + 'static)) -> Option<io::ErrorKind> {
    let mut at = Some(e);
    while let Some(e) = at {
        if let Some(io) = e.downcast_ref::<io::Error>() {
            return Some(io.kind());
        }
        at = e.source();
    }
    None
}

fn writer(out: Target, format: &OutputFormat, schema: &SchemaRef, start: &[u8]) -> std::result::Result<Writer, Boxed> {
    let encoded = |compression: Compression, out: Target| {
        let mut out = encoder(compression, out).map_err(boxed)?;
        out.write_all(start).map_err(boxed)?;
        Ok::<_, Boxed>(out)
    };
    Ok(match format {
        OutputFormat::Csv(dialect, c) => {
            Writer::Csv(CsvWriter::try_new(encoded(*c, out)?, dialect.clone(), Arc::clone(schema)).map_err(boxed)?)
        }
        OutputFormat::HiveText(dialect, c) => Writer::HiveText(
            HiveTextWriter::try_new(encoded(*c, out)?, dialect.clone(), Arc::clone(schema)).map_err(boxed)?,
        ),
        OutputFormat::MySqlText(dialect) => Writer::MySqlText(MySqlWriter::new(out, dialect.clone())),
        // If NULLs were left out, a column whose values are all NULL would be missing.
        OutputFormat::Json(c) => Writer::Json(WriterBuilder::new().with_explicit_nulls(true).build(encoded(*c, out)?)),
        OutputFormat::Parquet(codec) => {
            // Row groups are as large as those of dipper's own segments; readers parallelize over them.
            let properties = WriterProperties::builder()
                .set_compression(*codec)
                .set_max_row_group_row_count(Some(128 * 1024))
                .build();
            Writer::Parquet(Box::new(ArrowWriter::try_new(out, Arc::clone(schema), Some(properties)).map_err(boxed)?))
        }
    })
}

/// Returns a part of a file name that no other statement of this or another process generates.
pub fn unique_suffix() -> String {
    static COUNTER: AtomicU64 = AtomicU64::new(0);
    let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    let count = COUNTER.fetch_add(1, Ordering::Relaxed);
    format!("{:x}-{:x}-{count:x}", now.as_micros(), std::process::id())
}
