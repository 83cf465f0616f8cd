//! Sources of bytes: anything with positioned reads.

use std::fmt;
use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock};

use crate::mapped::{Regions, Seen};

/// Positioned, blocking reads of bytes that do not change while they are read.
pub trait Source: Send + Sync + fmt::Debug {
    /// Gets ready to be read. A scan calls this for each source when its turn comes, before anything else but
    /// [`soon`](Self::soon). A source that is ready already stays as it is.
    ///
    /// # Errors
    /// An error of the layer below if the source cannot be read; [`FileChanged`] as for [`read_at`](Self::read_at).
    fn ready(&self) -> io::Result<()> {
        Ok(())
    }

    /// Tells the source that it has probably been read to its end, so that it may release what it holds for reading. It
    /// can still be read afterwards.
    fn done(&self) {}

    /// Returns the size in bytes, as far as it is known before the source is [`ready`](Self::ready).
    fn len(&self) -> u64;

    /// Whether there are no bytes at all.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether the bytes come once, in order, like those of a request. [`read_at`](Self::read_at) is then only called
    /// for the bytes that follow the ones it returned before, [`len`](Self::len) is 0, and one worker at a time reads
    /// while all of them convert.
    fn is_stream(&self) -> bool {
        false
    }

    /// Reads bytes from `offset` on into `buf` and returns their number. 0 means the end of the source, or an empty
    /// `buf`; a number smaller than the length of `buf` has no meaning of its own.
    ///
    /// # Errors
    /// Any error of the layer below; [`FileChanged`] inside an [`io::Error`] if the bytes are no longer those that were
    /// there when the source was opened.
    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize>;

    /// Announces that the source will soon be read from its beginning, so that a remote source can request its first
    /// bytes.
    fn soon(&self) {}

    /// Returns the local file behind these bytes, if there is one: its pages can be looked at without reading them.
    fn local_file(&self) -> Option<&FileSource> {
        None
    }
}

/// Reads until `buf` is full or the source ends; returns the number of bytes read.
pub(crate) fn read_full(source: &dyn Source, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
    let mut done = 0;
    while done < buf.len() {
        match source.read_at(offset + done as u64, &mut buf[done..]) {
            Ok(0) => break,
            Ok(n) => done += n,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(e),
        }
    }
    Ok(done)
}

/// Error: the file was written to while it was being read.
#[derive(Debug)]
pub struct FileChanged {
    path: PathBuf,
}

impl fmt::Display for FileChanged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the file {} changed while it was read; run the statement again", self.path.display())
    }
}

impl std::error::Error for FileChanged {}

/// A file of the local file system, read with `pread`.
///
/// Size, modification time and inode are remembered when the file is opened for the first time. Each read compares them
/// and reports [`FileChanged`] if they differ. The file is closed when it is [`done`](Source::done), so that a scan has
/// no more files open than it reads at a time.
#[derive(Debug)]
pub struct FileSource {
    path: PathBuf,
    seen: OnceLock<State>,
    open: Mutex<Option<Arc<Open>>>,
}

#[derive(Debug)]
struct Open {
    file: File,
    regions: Regions,
}

#[derive(Debug, PartialEq, Eq, Clone, Copy)]
struct State {
    len: u64,
    mtime: (i64, i64),
    inode: u64,
}

impl State {
    fn of(file: &File) -> io::Result<(Self, bool)> {
        let meta = file.metadata()?;
        let seen = State { len: meta.len(), mtime: (meta.mtime(), meta.mtime_nsec()), inode: meta.ino() };
        Ok((seen, meta.is_file()))
    }
}

impl FileSource {
    /// Opens `path` for reading.
    ///
    /// # Errors
    /// The errors of `open(2)`; `InvalidInput` for anything that is not a regular file.
    pub fn open(path: impl AsRef<Path>) -> io::Result<Self> {
        let source = Self::later(path);
        source.ready()?;
        Ok(source)
    }

    /// Names the file at `path`; it is opened when it is made [`ready`](Source::ready), or read.
    pub fn later(path: impl AsRef<Path>) -> Self {
        FileSource { path: path.as_ref().to_path_buf(), seen: OnceLock::new(), open: Mutex::default() }
    }

    fn opened(&self) -> io::Result<Arc<Open>> {
        let mut open = self.open.lock().unwrap_or_else(|e| e.into_inner());
        if let Some(open) = &*open {
            return Ok(Arc::clone(open));
        }
        // NONBLOCK so that a named pipe cannot hold the open for ever; no effect on files.
        let file = File::options().read(true).custom_flags(libc::O_NONBLOCK).open(&self.path)?;
        let (state, regular) = State::of(&file)?;
        if !regular {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                format!("{} is not a regular file", self.path.display()),
            ));
        }
        if *self.seen.get_or_init(|| state) != state {
            return Err(self.changed());
        }
        Ok(Arc::clone(open.insert(Arc::new(Open { file, regions: Regions::default() }))))
    }

    fn changed(&self) -> io::Error {
        io::Error::other(FileChanged { path: self.path.clone() })
    }

    /// Calls `look` with `len` bytes from `offset` on if they are in the page cache. `None`: the caller has to read
    /// them; if something is wrong with the file, that read reports it. `alone` as in [`Regions::look`].
    ///
    /// # Errors
    /// [`FileChanged`] if the file changed, or the errors of opening it.
    pub(crate) fn look<R>(
        &self,
        (offset, len): (u64, usize),
        alone: bool,
        look: impl FnOnce(&Seen) -> R,
    ) -> io::Result<Option<R>> {
        let open = self.opened()?;
        if offset.checked_add(len as u64).is_none_or(|end| end > self.len()) {
            return Ok(None);
        }
        let found = open.regions.look(&open.file, (offset, len), alone, look);
        if found.is_some() {
            self.check_unchanged(&open.file)?;
        }
        Ok(found)
    }

    fn check_unchanged(&self, file: &File) -> io::Result<()> {
        // By descriptor only: a file that was replaced by rename keeps its old bytes under our descriptor, and a scan
        // that began before the rename may finish with them.
        if self.seen.get() == Some(&State::of(file)?.0) { Ok(()) } else { Err(self.changed()) }
    }
}

impl Source for FileSource {
    fn ready(&self) -> io::Result<()> {
        self.opened().map(drop)
    }

    fn done(&self) {
        *self.open.lock().unwrap_or_else(|e| e.into_inner()) = None;
    }

    fn len(&self) -> u64 {
        self.seen.get().map_or(0, |seen| seen.len)
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        let open = self.opened()?;
        let wanted = (self.len().saturating_sub(offset)).min(buf.len() as u64) as usize;
        if wanted == 0 {
            return Ok(0);
        }
        let n = open.file.read_at(&mut buf[..wanted], offset)?;
        // One fstat (about 0.2 us) per block of a MiB costs nothing, and a file that is rewritten in place is noticed
        // before its rows are handed out.
        self.check_unchanged(&open.file)?;
        if n == 0 {
            return Err(self.changed());
        }
        Ok(n)
    }

    fn local_file(&self) -> Option<&FileSource> {
        Some(self)
    }
}

/// Bytes in memory.
#[derive(Debug, Clone)]
pub struct MemorySource(pub bytes::Bytes);

impl Source for MemorySource {
    fn len(&self) -> u64 {
        self.0.len() as u64
    }

    fn read_at(&self, offset: u64, buf: &mut [u8]) -> io::Result<usize> {
        let start = usize::try_from(offset).unwrap_or(usize::MAX).min(self.0.len());
        let n = buf.len().min(self.0.len() - start);
        buf[..n].copy_from_slice(&self.0[start..start + n]);
        Ok(n)
    }
}

/// How a file is compressed as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Compression {
    /// No compression.
    #[default]
    None,
    /// gzip, with one or several members.
    Gzip,
    /// bzip2, with one or several streams.
    Bzip2,
    /// Zstandard.
    Zstd,
    /// LZ4: the frame format or Hadoop's blocks.
    Lz4,
    /// Snappy: the framing format or Hadoop's blocks.
    Snappy,
    /// zlib or raw deflate.
    Deflate,
}
