//! The system calls that the local store makes, as a trait.
//!
//! [`RealDisk`] makes them. Tests use two others: one that records their order, and a simulated file system that loses
//! everything that was not synced. Paths are relative to the store's directory, with `/` between their parts; the store
//! above has checked that no part is `.`, `..` or empty.

use std::fmt::Debug;
use std::fs::File;
use std::io::{self, ErrorKind};
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Dir, FileType, FlockOperation, Mode, OFlags};

/// The result of stat(2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stat {
    /// Identity of the file's content on this file system.
    pub inode: u64,
    /// Size in bytes.
    pub size: u64,
    /// Last change, nanoseconds since 1970.
    pub mtime_ns: i64,
    /// Number of names.
    pub links: u64,
    /// Kind of the entry.
    pub kind: Kind,
}

/// Kind of a directory entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    /// A regular file.
    File,
    /// A directory.
    Dir,
    /// A symbolic link, socket or device: never one of the store's objects.
    Other,
}

/// A lock that is held until it is dropped.
pub(super) trait Held: Debug + Send + Sync {}

/// A temporary file of this process, held by a lock that ends with the process.
pub(super) trait TempFile: Debug + Send + Sync {
    /// Writes all bytes at the offset.
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()>;
    /// Returns when the content would survive a power cut (fdatasync).
    fn sync(&self) -> io::Result<()>;
    /// Inode, size and time of the content.
    fn stat(&self) -> io::Result<Stat>;
}

/// A file open for reading.
pub(super) trait ReadFile: Debug + Send + Sync {
    /// Fills the buffer from the offset; an early end of the file is `UnexpectedEof`.
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()>;
    /// Reads like [`read_at`](Self::read_at), but only from the page cache: `WouldBlock` if some of the range is not
    /// there.
    fn read_now(&self, buffer: &mut [u8], offset: u64) -> io::Result<()>;
    /// Inode, size and time of the open file.
    fn stat(&self) -> io::Result<Stat>;
}

/// The file system below one store.
pub(super) trait Disk: Debug + Send + Sync + 'static {
    /// Makes one directory; an existing one is not an error.
    fn make_dir(&self, dir: &str) -> io::Result<()>;
    /// Returns when the directory's entries would survive a power cut (fsync).
    fn sync_dir(&self, dir: &str) -> io::Result<()>;
    /// Returns when everything on the file system would survive a power cut (syncfs).
    fn sync_all(&self) -> io::Result<()>;
    /// Makes a new file and locks it.
    fn create(&self, file: &str) -> io::Result<Box<dyn TempFile>>;
    /// Gives a file a second name; `AlreadyExists` if the name is taken.
    fn link(&self, from: &str, to: &str) -> io::Result<()>;
    /// Renames a file, replacing a file that has the new name.
    fn rename(&self, from: &str, to: &str) -> io::Result<()>;
    /// Removes a name.
    fn unlink(&self, file: &str) -> io::Result<()>;
    /// Opens a file for reading.
    fn open(&self, file: &str) -> io::Result<Box<dyn ReadFile>>;
    /// Returns the entry of that name; a symbolic link is not followed.
    fn stat(&self, path: &str) -> io::Result<Stat>;
    /// Returns the names in a directory, in no order. Names that are not UTF-8 are left out: they cannot be objects.
    fn read_dir(&self, dir: &str) -> io::Result<Vec<(String, Kind)>>;
    /// Waits for the lock on a file, which is created if it is missing.
    fn lock(&self, file: &str, exclusive: bool) -> io::Result<Box<dyn Held>>;
    /// Shares the lock of a temporary file, so that the file is not taken for a dead process's.
    fn hold(&self, file: &str) -> io::Result<Box<dyn Held>>;
    /// Takes the lock of a temporary file if no living process holds it.
    fn try_lock(&self, file: &str) -> io::Result<Option<Box<dyn Held>>>;
}

/// The directory of a store, through system calls.
#[derive(Debug)]
pub(super) struct RealDisk {
    root: OwnedFd,
}

/// Mode of files: only the owner reads them, because the catalog holds password verifiers.
const FILE_MODE: Mode = Mode::RUSR.union(Mode::WUSR);
const DIR_MODE: Mode = Mode::RWXU;

impl RealDisk {
    /// Opens the root directory, making it and its parents (each synced into its own parent) if they are missing.
    pub(super) fn open(root: &Path) -> io::Result<Self> {
        let absolute = std::path::absolute(root)?;
        let mut missing: Vec<PathBuf> = Vec::new();
        for dir in absolute.ancestors() {
            match std::fs::metadata(dir) {
                Ok(m) if m.is_dir() => break,
                Ok(_) => return Err(io::Error::new(ErrorKind::NotADirectory, format!("{} is a file", dir.display()))),
                Err(e) if e.kind() == ErrorKind::NotFound => missing.push(dir.to_path_buf()),
                Err(e) => return Err(e),
            }
        }
        for dir in missing.iter().rev() {
            match rustix::fs::mkdir(dir, DIR_MODE) {
                Ok(()) | Err(rustix::io::Errno::EXIST) => {}
                Err(e) => return Err(e.into()),
            }
            if let Some(parent) = dir.parent() {
                File::open(parent)?.sync_all()?;
            }
        }
        let root =
            rustix::fs::openat(CWD, &absolute, OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
        Ok(Self { root })
    }

    /// Opens a directory below the root, following no symbolic link on the way.
    fn dir(&self, dir: &str) -> io::Result<OwnedFd> {
        self.open_at(dir, OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC)
    }

    /// Opens an entry below the root, following no symbolic link: by one call where the kernel supports it.
    fn open_at(&self, path: &str, flags: OFlags) -> io::Result<OwnedFd> {
        match beneath(&self.root, path, flags) {
            Some(opened) => opened,
            None => self.open_by_parts(path, flags),
        }
    }

    /// Opens like [`open_at`](Self::open_at), one path component at a time.
    fn open_by_parts(&self, path: &str, flags: OFlags) -> io::Result<OwnedFd> {
        let (dir, name) = path.rsplit_once('/').unwrap_or(("", path));
        let each = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let mut fd = rustix::io::fcntl_dupfd_cloexec(&self.root, 0)?;
        for part in dir.split('/').filter(|p| !p.is_empty()) {
            fd = rustix::fs::openat(&fd, part, each, Mode::empty())?;
        }
        if name.is_empty() {
            return Ok(fd);
        }
        Ok(rustix::fs::openat(&fd, name, flags | OFlags::NOFOLLOW, Mode::empty())?)
    }

    /// Returns the directory that holds `path`, and the name in it.
    fn at<'a>(&self, path: &'a str) -> io::Result<(OwnedFd, &'a str)> {
        let (dir, name) = path.rsplit_once('/').unwrap_or(("", path));
        Ok((self.dir(dir)?, name))
    }
}

/// Opens a path below a directory without following any symbolic link (openat2, since Linux 5.6). `None` where the call
/// is not available; the caller then opens and closes each directory on the way.
#[cfg(target_os = "linux")]
fn beneath(root: &OwnedFd, path: &str, flags: OFlags) -> Option<io::Result<OwnedFd>> {
    use std::sync::atomic::{AtomicBool, Ordering};

    use rustix::fs::ResolveFlags;
    use rustix::io::Errno;

    static REFUSED: AtomicBool = AtomicBool::new(false);
    if path.is_empty() || REFUSED.load(Ordering::Relaxed) {
        return None;
    }
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    match rustix::fs::openat2(root, path, flags, Mode::empty(), resolve) {
        // The kernel is old, or a filter for system calls is active.
        Err(Errno::NOSYS | Errno::PERM) => {
            REFUSED.store(true, Ordering::Relaxed);
            None
        }
        // Something was renamed meanwhile, or a symbolic link is in the way, which the other way reports as not a
        // directory.
        Err(Errno::AGAIN | Errno::LOOP) => None,
        opened => Some(opened.map_err(Into::into)),
    }
}

#[cfg(not(target_os = "linux"))]
fn beneath(_: &OwnedFd, _: &str, _: OFlags) -> Option<io::Result<OwnedFd>> {
    None
}

fn kind(mode: FileType) -> Kind {
    match mode {
        FileType::RegularFile => Kind::File,
        FileType::Directory => Kind::Dir,
        _ => Kind::Other,
    }
}

#[allow(clippy::useless_conversion, clippy::unnecessary_cast, reason = "field widths differ between targets")]
fn stat_of(s: &rustix::fs::Stat) -> Stat {
    Stat {
        inode: s.st_ino as u64,
        size: s.st_size.max(0) as u64,
        mtime_ns: (s.st_mtime as i64).saturating_mul(1_000_000_000).saturating_add(s.st_mtime_nsec as i64),
        links: s.st_nlink as u64,
        kind: kind(FileType::from_raw_mode(s.st_mode)),
    }
}

#[derive(Debug)]
struct RealFile(File);

impl Held for RealFile {}

impl TempFile for RealFile {
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        self.0.write_all_at(bytes, offset)
    }

    fn sync(&self) -> io::Result<()> {
        self.0.sync_data()
    }

    fn stat(&self) -> io::Result<Stat> {
        Ok(stat_of(&rustix::fs::fstat(&self.0)?))
    }
}

impl ReadFile for RealFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        self.0.read_exact_at(buffer, offset)
    }

    #[cfg(target_os = "linux")]
    fn read_now(&self, mut buffer: &mut [u8], mut offset: u64) -> io::Result<()> {
        use rustix::io::ReadWriteFlags;

        while !buffer.is_empty() {
            let into = &mut [io::IoSliceMut::new(buffer)];
            let read = match rustix::io::preadv2(&self.0, into, offset, ReadWriteFlags::NOWAIT) {
                Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                Ok(read) => read,
                Err(rustix::io::Errno::INTR) => continue,
                Err(e) => return Err(e.into()),
            };
            buffer = &mut buffer[read..];
            offset += read as u64;
        }
        Ok(())
    }

    #[cfg(not(target_os = "linux"))]
    fn read_now(&self, _: &mut [u8], _: u64) -> io::Result<()> {
        Err(ErrorKind::WouldBlock.into())
    }

    fn stat(&self) -> io::Result<Stat> {
        Ok(stat_of(&rustix::fs::fstat(&self.0)?))
    }
}

fn flock(file: &File, operation: FlockOperation) -> io::Result<()> {
    loop {
        match rustix::fs::flock(file, operation) {
            Err(rustix::io::Errno::INTR) => {}
            other => return Ok(other?),
        }
    }
}

impl Disk for RealDisk {
    fn make_dir(&self, dir: &str) -> io::Result<()> {
        let (parent, name) = self.at(dir)?;
        match rustix::fs::mkdirat(&parent, name, DIR_MODE) {
            Ok(()) | Err(rustix::io::Errno::EXIST) => Ok(()),
            Err(e) => Err(e.into()),
        }
    }

    fn sync_dir(&self, dir: &str) -> io::Result<()> {
        Ok(rustix::fs::fsync(self.dir(dir)?)?)
    }

    fn sync_all(&self) -> io::Result<()> {
        Ok(rustix::fs::syncfs(&self.root)?)
    }

    fn create(&self, file: &str) -> io::Result<Box<dyn TempFile>> {
        let (dir, name) = self.at(file)?;
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::RDWR | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let made = File::from(rustix::fs::openat(&dir, name, flags, FILE_MODE)?);
        flock(&made, FlockOperation::LockExclusive)?;
        // Between the two calls a starting process may have found the file unlocked and removed it: the name is gone
        // then, and the caller draws another.
        if rustix::fs::fstat(&made)?.st_nlink == 0 {
            return Err(ErrorKind::AlreadyExists.into());
        }
        Ok(Box::new(RealFile(made)))
    }

    fn link(&self, from: &str, to: &str) -> io::Result<()> {
        let ((from_dir, from), (to_dir, to)) = (self.at(from)?, self.at(to)?);
        Ok(rustix::fs::linkat(&from_dir, from, &to_dir, to, AtFlags::empty())?)
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let ((from_dir, from), (to_dir, to)) = (self.at(from)?, self.at(to)?);
        Ok(rustix::fs::renameat(&from_dir, from, &to_dir, to)?)
    }

    fn unlink(&self, file: &str) -> io::Result<()> {
        let (dir, name) = self.at(file)?;
        Ok(rustix::fs::unlinkat(&dir, name, AtFlags::empty())?)
    }

    fn open(&self, file: &str) -> io::Result<Box<dyn ReadFile>> {
        // NONBLOCK so that a named pipe in the directory cannot hold the open for ever; no effect on files.
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
        Ok(Box::new(RealFile(File::from(self.open_at(file, flags)?))))
    }

    fn stat(&self, path: &str) -> io::Result<Stat> {
        if path.is_empty() {
            return Ok(stat_of(&rustix::fs::fstat(&self.root)?));
        }
        let (dir, name) = self.at(path)?;
        Ok(stat_of(&rustix::fs::statat(&dir, name, AtFlags::SYMLINK_NOFOLLOW)?))
    }

    fn read_dir(&self, dir: &str) -> io::Result<Vec<(String, Kind)>> {
        let fd = self.dir(dir)?;
        let mut names = Vec::new();
        for entry in Dir::read_from(&fd)? {
            let entry = entry?;
            let Ok(name) = entry.file_name().to_str() else { continue };
            if name == "." || name == ".." {
                continue;
            }
            let kind = match entry.file_type() {
                // Some file systems do not return the type; ask for this one name.
                FileType::Unknown => match rustix::fs::statat(&fd, name, AtFlags::SYMLINK_NOFOLLOW) {
                    Ok(s) => kind(FileType::from_raw_mode(s.st_mode)),
                    Err(rustix::io::Errno::NOENT) => continue,
                    Err(e) => return Err(e.into()),
                },
                known => kind(known),
            };
            names.push((name.to_string(), kind));
        }
        Ok(names)
    }

    fn lock(&self, file: &str, exclusive: bool) -> io::Result<Box<dyn Held>> {
        let (dir, name) = self.at(file)?;
        let flags = OFlags::CREATE | OFlags::RDWR | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let file = File::from(rustix::fs::openat(&dir, name, flags, FILE_MODE)?);
        flock(&file, if exclusive { FlockOperation::LockExclusive } else { FlockOperation::LockShared })?;
        Ok(Box::new(RealFile(file)))
    }

    fn hold(&self, file: &str) -> io::Result<Box<dyn Held>> {
        let (dir, name) = self.at(file)?;
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let file = File::from(rustix::fs::openat(&dir, name, flags, Mode::empty())?);
        flock(&file, FlockOperation::LockShared)?;
        Ok(Box::new(RealFile(file)))
    }

    fn try_lock(&self, file: &str) -> io::Result<Option<Box<dyn Held>>> {
        let (dir, name) = self.at(file)?;
        let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::NOFOLLOW;
        let file = File::from(rustix::fs::openat(&dir, name, flags, Mode::empty())?);
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Some(Box::new(RealFile(file)))),
            Err(e) if e.kind() == ErrorKind::WouldBlock => Ok(None),
            Err(e) => Err(e),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Opening by one call and component by component opens the same entries and refuses the same ones.
    #[test]
    fn paths_are_followed_in_both_ways() {
        let dir = tempfile::tempdir().unwrap();
        let disk = RealDisk::open(&dir.path().join("root")).unwrap();
        std::fs::create_dir_all(dir.path().join("root/a/b")).unwrap();
        std::fs::write(dir.path().join("root/a/b/file"), "x").unwrap();
        std::fs::write(dir.path().join("secret"), "x").unwrap();
        for (link, to) in [("root/out", "../"), ("root/a/self", "b"), ("root/a/b/link", "file"), ("root/lost", "none")]
        {
            std::os::unix::fs::symlink(to, dir.path().join(link)).unwrap();
        }
        let open = |path, flags| {
            let inode = |fd: io::Result<OwnedFd>| fd.map(|fd| rustix::fs::fstat(&fd).unwrap().st_ino);
            let (at_once, by_parts) = (inode(disk.open_at(path, flags)), inode(disk.open_by_parts(path, flags)));
            assert_eq!(at_once.as_ref().ok(), by_parts.as_ref().ok(), "{path}: {at_once:?} {by_parts:?}");
            let is_missing = |e: &io::Result<_>| e.as_ref().is_err_and(|e| e.kind() == ErrorKind::NotFound);
            assert_eq!(is_missing(&at_once), is_missing(&by_parts), "{path}: {at_once:?} {by_parts:?}");
            at_once.is_ok()
        };
        let (file, directory) = (OFlags::RDONLY, OFlags::RDONLY | OFlags::DIRECTORY);
        for (path, flags) in [("", directory), ("a", directory), ("a/b", directory), ("a/b/file", file)] {
            assert!(open(path, flags), "{path}");
        }
        for path in ["out/secret", "out", "a/self", "a/self/file", "a/b/link", "lost", "a/none", "a/b/file/x", "none/x"]
        {
            assert!(!open(path, file), "{path}");
            assert!(!open(path, directory), "{path}");
        }
    }
}
