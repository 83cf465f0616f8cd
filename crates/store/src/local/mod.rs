//! A durable [`ObjectStore`](object_store::ObjectStore) on a local directory.
//!
//! An acknowledged `put` survives a power cut; an unacknowledged one leaves the whole object or nothing. Creating an
//! object that exists fails, also between processes. A put makes these system calls, in this order:
//!
//! 1. create and flock(2) a temporary file in `.dipper/tmp`, write it, fdatasync(2) it,
//! 2. link(2) it to its final name, which fails if the name exists
//!    ([`PutMode::Create`](object_store::PutMode::Create)), or rename(2) it
//!    ([`PutMode::Overwrite`](object_store::PutMode::Overwrite)),
//! 3. fsync(2) the directory (before step 2, the first time, every directory above it),
//! 4. remove the temporary name. Until then, and for ever if step 3 fails, it tells others that some name may not be
//!    durable yet. (Step 2 renames a second link, so that an overwrite leaves it too.)
//!
//! Temporary files are never objects: their directory is not listed. Temporary files whose lock is free belong to dead
//! processes and are removed when a store is opened; if one has a second name, its file system is synced before.
//!
//! **Listing.** readdir(3) is not a snapshot, so LIST and delete exclude each other by a lock file. Names that a LIST
//! shows are durable, because the reader of a version builds on it: if a LIST meets a name that this process has not
//! seen synced, and there are temporary files, it syncs the directory first (the owner of a temporary file may be
//! between steps 2 and 4, or have died there). A single `get` gives no such promise. Directories that only hold
//! directories without objects are not shown. Directories are never removed, since other processes rely on having
//! synced the directories above them.
//!
//! ```text
//! <root>/.dipper/format    "dipper data directory\nformat 1\n"
//! <root>/.dipper/lock      flock: shared by LIST, exclusive for delete
//! <root>/.dipper/tmp/      unfinished puts
//! <root>/.dipper/nodes/    processes that load (crate::nodes)
//! <root>/<everything else> one file an object
//! ```

mod disk;
mod object_store_impl;
mod upload;

use std::collections::hash_map;
use std::collections::{HashMap, HashSet};
use std::fmt;
use std::io::{self, ErrorKind};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use chrono::DateTime;
use object_store::path::Path;
use object_store::{Error, ListResult, ObjectMeta, PutPayload, PutResult, Result};
use parking_lot::Mutex;
use rand::Rng;

use disk::{Disk, Held, Kind, ReadFile, RealDisk, Stat, TempFile};

/// Name shown in errors.
const STORE: &str = "LocalStore";
/// The store's own directory. No object's path begins with it.
const OWN_DIR: &str = ".dipper";
const FORMAT_FILE: &str = ".dipper/format";
const LOCK_FILE: &str = ".dipper/lock";
const TEMP_DIR: &str = ".dipper/tmp";
const MAGIC: &str = "dipper data directory\nformat ";
const FORMAT: u32 = 1;
/// Directories with more names than this are synced instead of remembered name by name.
const REMEMBERED_NAMES_MAX: usize = 8192;
/// Most bytes read by one call when an object is streamed.
const READ_CHUNK_BYTES: u64 = 4 << 20;

/// The system refused a put before the object had its name: nothing was written, and nothing will be. It is the source
/// of the [`Error::Generic`] of that put. After any other error of a put the object may or may not be there.
#[derive(Debug, thiserror::Error)]
#[error("{}: {source}; nothing was written", .path.display())]
pub struct NotWritten {
    /// The object's file.
    pub path: PathBuf,
    /// The system's error, e.g. a full disk.
    pub source: io::Error,
}

/// Why a directory cannot be opened as a store.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LocalError {
    /// A system call failed.
    #[error("data directory {}: {what}: {source}", .root.display())]
    Io {
        /// The directory.
        root: PathBuf,
        /// The operation that failed.
        what: &'static str,
        /// The system's error.
        source: io::Error,
    },
    /// The directory is not empty and not a data directory.
    #[error("{} is not empty and not a dipper data directory; name an empty or a new directory", .root.display())]
    Foreign {
        /// The directory.
        root: PathBuf,
    },
    /// The directory was written by a newer dipper.
    #[error("data directory {}: format {found}, this dipper reads up to {FORMAT}; use a newer dipper", .root.display())]
    Newer {
        /// The directory.
        root: PathBuf,
        /// Format found.
        found: u32,
    },
    /// `.dipper/format` has other content than a store writes.
    #[error("data directory {}: .dipper/format is damaged: expected \"dipper data directory\" and a format number, \
             found {found:?}; restore it from a backup", .root.display())]
    Damaged {
        /// The directory.
        root: PathBuf,
        /// First bytes of the file.
        found: String,
    },
}

/// A durable object store on a local directory; see the [module](self).
///
/// Cloning gives another handle on the same store. All paths are relative to the root. Paths that would leave it, name
/// `.dipper`, or cross a symbolic link are refused.
#[derive(Clone, Debug)]
pub struct LocalStore {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    root: PathBuf,
    disk: Arc<dyn Disk>,
    /// Distinguishes the temporary files of this process from those of others.
    nonce: u64,
    counter: AtomicU64,
    /// Directories that this process has synced, together with all directories above them.
    durable_dirs: Mutex<HashSet<String>>,
    /// Per directory, the names that are known to be synced, with their inode if it was read.
    durable_names: Mutex<HashMap<String, HashMap<String, Option<u64>>>>,
}

impl fmt::Display for LocalStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LocalStore({})", self.inner.root.display())
    }
}

impl LocalStore {
    /// Opens the store in a directory. Makes the directory if it is missing, turns an empty one into a store, and
    /// removes temporary files of dead processes.
    ///
    /// # Errors
    /// [`LocalError::Io`] if the directory cannot be made or read, [`LocalError::Foreign`] if it holds other things,
    /// [`LocalError::Newer`] if it was written by a newer dipper, [`LocalError::Damaged`] if `.dipper/format` is
    /// damaged.
    pub fn open(root: impl Into<PathBuf>) -> Result<Self, LocalError> {
        let root = root.into();
        match RealDisk::open(&root) {
            Ok(disk) => Self::on_disk(root, Arc::new(disk)),
            Err(source) => Err(LocalError::Io { root, what: "opening it", source }),
        }
    }

    fn on_disk(root: PathBuf, disk: Arc<dyn Disk>) -> Result<Self, LocalError> {
        let inner = Inner {
            root,
            disk,
            nonce: rand::rng().random(),
            counter: AtomicU64::new(0),
            durable_dirs: Mutex::default(),
            durable_names: Mutex::default(),
        };
        inner.start()?;
        Ok(Self { inner: Arc::new(inner) })
    }

    /// Returns the directory of the store.
    pub fn root(&self) -> &std::path::Path {
        &self.inner.root
    }

    /// Runs file system calls on a thread for blocking work, or on this thread if there is no runtime.
    async fn blocking<T: Send + 'static>(&self, f: impl FnOnce(&Inner) -> Result<T> + Send + 'static) -> Result<T> {
        let inner = Arc::clone(&self.inner);
        match tokio::runtime::Handle::try_current() {
            Ok(runtime) => runtime.spawn_blocking(move || f(&inner)).await?,
            Err(_) => f(&inner),
        }
    }
}

/// A name in the temporary directory that is removed with its owner.
#[derive(Debug)]
struct TempName {
    disk: Arc<dyn Disk>,
    name: String,
    /// Set if the object has its name but its directory could not be synced: the temporary name stays to tell others.
    stays: AtomicBool,
}

impl Drop for TempName {
    fn drop(&mut self) {
        if *self.stays.get_mut() {
            return;
        }
        // After a rename the name is gone, and after a crash the next start sweeps it: nothing depends on this call.
        if let Err(e) = self.disk.unlink(&self.name)
            && e.kind() != ErrorKind::NotFound
        {
            tracing::debug!(file = %self.name, error = %e, "temporary file stays until the next start");
        }
    }
}

/// A temporary file of this process. The name is removed before the lock is released (fields drop in order): a file
/// without its lock looks like one of a dead process.
#[derive(Debug)]
struct Temp {
    name: TempName,
    file: Box<dyn TempFile>,
}

impl Inner {
    fn start(&self) -> Result<(), LocalError> {
        let io = |what| move |source| LocalError::Io { root: self.root.clone(), what, source };
        let format = match self.read_small(FORMAT_FILE) {
            Ok(bytes) => Some(bytes),
            Err(e) if e.kind() == ErrorKind::NotFound => None,
            Err(e) => return Err(io("reading .dipper/format")(e)),
        };
        match format {
            Some(ref bytes) => self.check_format(bytes)?,
            None => {
                let names = self.disk.read_dir("").map_err(io("listing it"))?;
                // A start that was cut off leaves only our own directory.
                if names.iter().any(|(n, _)| n != OWN_DIR) {
                    return Err(LocalError::Foreign { root: self.root.clone() });
                }
            }
        }
        for dir in [OWN_DIR, TEMP_DIR] {
            self.disk.make_dir(dir).map_err(io("making .dipper"))?;
        }
        self.sweep().map_err(io("removing unfinished files"))?;
        if format.is_none() {
            let temp = self.temp().map_err(io("making a temporary file"))?;
            let content = format!("{MAGIC}{FORMAT}\n");
            temp.file.write_at(content.as_bytes(), 0).map_err(io("writing .dipper/format"))?;
            temp.file.sync().map_err(io("syncing .dipper/format"))?;
            match self.disk.link(&temp.name.name, FORMAT_FILE) {
                Ok(()) => {}
                Err(e) if e.kind() == ErrorKind::AlreadyExists => {
                    let other = self.read_small(FORMAT_FILE).map_err(io("reading .dipper/format"))?;
                    self.check_format(&other)?;
                }
                Err(e) => return Err(io("making .dipper/format")(e)),
            }
            self.disk.sync_dir(OWN_DIR).map_err(io("syncing .dipper"))?;
            self.disk.sync_dir("").map_err(io("syncing it"))?;
        }
        Ok(())
    }

    fn read_small(&self, file: &str) -> io::Result<Vec<u8>> {
        let file = self.disk.open(file)?;
        let mut bytes = vec![0; file.stat()?.size.min(4096) as usize];
        file.read_at(&mut bytes, 0)?;
        Ok(bytes)
    }

    fn check_format(&self, bytes: &[u8]) -> Result<(), LocalError> {
        let text = String::from_utf8_lossy(bytes);
        let number = text.strip_prefix(MAGIC).and_then(|t| t.strip_suffix('\n')).and_then(|t| t.parse::<u32>().ok());
        match number {
            Some(1..=FORMAT) => Ok(()),
            Some(found) if found > FORMAT => Err(LocalError::Newer { root: self.root.clone(), found }),
            _ => Err(LocalError::Damaged { root: self.root.clone(), found: text.chars().take(64).collect() }),
        }
    }

    /// Removes temporary files that no living process holds.
    fn sweep(&self) -> io::Result<()> {
        let missing = |e: &io::Error| e.kind() == ErrorKind::NotFound;
        // Locks are kept until the names are gone, so that a process which has just made a file (and waits for its
        // lock) sees afterwards that it lost the name.
        let mut locks: HashMap<u64, Box<dyn Held>> = HashMap::new();
        let (mut unheld, mut named) = (Vec::new(), false);
        for (name, kind) in self.disk.read_dir(TEMP_DIR)? {
            let file = format!("{TEMP_DIR}/{name}");
            if kind != Kind::File {
                continue;
            }
            let look = || {
                let stat = self.disk.stat(&file)?;
                // An overwrite has two temporary names, and our own lock on the first would hold the second.
                if let hash_map::Entry::Vacant(free) = locks.entry(stat.inode) {
                    let Some(held) = self.disk.try_lock(&file)? else { return Ok(()) };
                    free.insert(held);
                }
                named |= stat.links > 1;
                unheld.push(file);
                Ok(())
            };
            match look() {
                Err(e) if !missing(&e) => return Err(e),
                _ => {}
            }
        }
        if named {
            // A file with a second name may be an object whose directory was not synced; which directory is not known.
            self.disk.sync_all()?;
        }
        unheld.iter().try_for_each(|file| match self.disk.unlink(file) {
            Err(e) if !missing(&e) => Err(e),
            _ => Ok(()),
        })
    }

    fn temp_name(&self) -> TempName {
        let name = format!("{TEMP_DIR}/{:016x}-{}", self.nonce, self.counter.fetch_add(1, Ordering::Relaxed));
        TempName { disk: Arc::clone(&self.disk), name, stays: AtomicBool::new(false) }
    }

    /// Makes a new temporary file and locks it.
    fn temp(&self) -> io::Result<Temp> {
        loop {
            let name = self.temp_name();
            match self.disk.create(&name.name) {
                Ok(file) => return Ok(Temp { name, file }),
                Err(e) if e.kind() == ErrorKind::AlreadyExists => {}
                Err(e) => return Err(e),
            }
        }
    }

    /// Makes the directory and those above it, and syncs each into the one above. Directories that another process made
    /// count as new: that process may not have synced them yet.
    fn ensure_dir(&self, dir: &str) -> io::Result<()> {
        if dir.is_empty() || self.durable_dirs.lock().contains(dir) {
            return Ok(());
        }
        let ends: Vec<usize> = dir.match_indices('/').map(|(i, _)| i).chain([dir.len()]).collect();
        for &end in &ends {
            self.disk.make_dir(&dir[..end])?;
        }
        for &end in &ends {
            self.disk.sync_dir(parent(&dir[..end]))?;
        }
        self.durable_dirs.lock().extend(ends.iter().map(|&end| dir[..end].to_string()));
        Ok(())
    }

    /// Performs steps 2 and 3 of a put: gives a synced file with a temporary name its final one. `inode` is that
    /// file's.
    fn publish(&self, temp: &TempName, to: &str, create: bool, inode: u64) -> io::Result<()> {
        let dir = parent(to);
        let give = || {
            self.ensure_dir(dir)?;
            if create {
                return self.disk.link(&temp.name, to);
            }
            let second = self.temp_name();
            self.disk.link(&temp.name, &second.name)?;
            self.disk.rename(&second.name, to)
        };
        let given = match give() {
            Err(e) if e.kind() == ErrorKind::NotFound => {
                // Another process removed a directory that we knew as durable: make it again.
                self.durable_dirs.lock().clear();
                give()
            }
            other => other,
        };
        if let Err(e) = given {
            if e.kind() == ErrorKind::AlreadyExists {
                // The caller builds on the existing object, whose maker may not have synced the name yet.
                self.disk.sync_dir(dir)?;
            }
            return Err(e);
        }
        let synced = self.disk.sync_dir(dir);
        if let Some(known) = self.durable_names.lock().get_mut(dir) {
            match &synced {
                Ok(()) => drop(known.insert(file_name(to).to_string(), Some(inode))),
                Err(_) => drop(known.remove(file_name(to))),
            }
        }
        synced.map_err(|e| {
            temp.stays.store(true, Ordering::Relaxed);
            io::Error::new(e.kind(), NotSynced(e))
        })?;
        Ok(())
    }

    /// Performs all steps of a put after the bytes are in the temporary file.
    fn finish(&self, temp: &Temp, location: &Path, create: bool) -> Result<PutResult> {
        let to = object_name(location)?;
        let finish = || {
            temp.file.sync()?;
            let stat = temp.file.stat()?;
            self.publish(&temp.name, to, create, stat.inode)?;
            Ok(stat)
        };
        let stat = finish().map_err(|e| self.put_error(location, e))?;
        Ok(PutResult { e_tag: Some(etag(&stat)), version: None })
    }

    fn put(&self, location: &Path, payload: &PutPayload, create: bool) -> Result<PutResult> {
        object_name(location)?;
        let write = || {
            let temp = self.temp()?;
            let mut offset = 0;
            for part in payload {
                temp.file.write_at(part, offset)?;
                offset += part.len() as u64;
            }
            Ok(temp)
        };
        let temp = write().map_err(|e| self.put_error(location, e))?;
        self.finish(&temp, location, create)
    }

    fn open(&self, location: &Path) -> Result<(Box<dyn ReadFile>, ObjectMeta)> {
        let name = object_name(location)?;
        let failed = |e| self.error(location, e);
        let file = self.disk.open(name).map_err(failed)?;
        let stat = file.stat().map_err(failed)?;
        if stat.kind != Kind::File {
            return Err(failed(io::Error::new(ErrorKind::NotFound, "a directory, not an object")));
        }
        Ok((file, meta(location.clone(), &stat)))
    }

    /// Returns the entries of one directory in order; files only if they come after `after`, with their stat. The
    /// returned names are durable.
    fn read_dir(&self, dir: &str, after: Option<&str>) -> io::Result<Vec<(String, Entry)>> {
        let mut names = match self.disk.read_dir(dir) {
            Ok(names) => names,
            Err(e) if matches!(e.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => return Ok(Vec::new()),
            Err(e) => return Err(e),
        };
        names.sort();
        names.dedup();
        let mut entries = Vec::with_capacity(names.len());
        // Every file of the directory, with its inode if it was read.
        let mut files: HashMap<&str, Option<u64>> = HashMap::with_capacity(names.len());
        for (name, kind) in &names {
            let path = join(dir, name);
            if dir.is_empty() && name == OWN_DIR || Path::parse(&path).map_or(true, |p| p.as_ref() != path) {
                continue; // not an object's name
            }
            if *kind == Kind::File {
                files.insert(name, None);
            }
            match kind {
                Kind::Dir => entries.push((path, Entry::Dir)),
                Kind::File if after.is_none_or(|a| path.as_str() > a) => match self.disk.stat(&path) {
                    Ok(stat) if stat.kind == Kind::File => {
                        files.insert(name, Some(stat.inode));
                        entries.push((path, Entry::File(stat)));
                    }
                    Ok(_) => {}
                    Err(e) if e.kind() == ErrorKind::NotFound => {}
                    Err(e) => return Err(e),
                },
                Kind::File | Kind::Other => {}
            }
        }
        self.sync_names(dir, &files)?;
        Ok(entries)
    }

    /// Syncs the directory unless every file in it is known to be synced under its name. Every file counts: a LIST of
    /// the names after a given one relies on that name, too.
    fn sync_names(&self, dir: &str, files: &HashMap<&str, Option<u64>>) -> io::Result<()> {
        if files.is_empty() {
            return Ok(());
        }
        if let Some(known) = self.durable_names.lock().get_mut(dir) {
            known.retain(|name, _| files.contains_key(name.as_str()));
            let durable =
                |(name, inode): (&&str, &Option<u64>)| known.get(*name).is_some_and(|k| inode.is_none() || k == inode);
            if files.iter().all(durable) {
                return Ok(());
            }
        }
        // Read after the names: the maker of a name removes its temporary name only when it has synced.
        if !self.disk.read_dir(TEMP_DIR)?.is_empty() {
            // The directories above are synced too: their maker may have died before it synced them.
            self.ensure_dir(dir)?;
            self.disk.sync_dir(dir)?;
        }
        let mut known = self.durable_names.lock();
        if files.len() > REMEMBERED_NAMES_MAX {
            known.remove(dir);
        } else {
            let known = known.entry(dir.to_string()).or_default();
            for (name, inode) in files {
                if inode.is_some() || !known.contains_key(*name) {
                    known.insert((*name).to_string(), *inode);
                }
            }
        }
        Ok(())
    }

    fn lock(&self, exclusive: bool) -> Result<Box<dyn Held>> {
        self.disk.lock(LOCK_FILE, exclusive).map_err(|e| self.error(&Path::from(LOCK_FILE), e))
    }

    /// Returns all objects below the prefix, in the order of their paths.
    fn list(&self, prefix: Option<&Path>, after: Option<&Path>) -> Result<Vec<ObjectMeta>> {
        let root = prefix_name(prefix)?;
        let _shared = self.lock(false)?;
        let mut found = Vec::new();
        let mut todo = vec![root.to_string()];
        while let Some(dir) = todo.pop() {
            let entries = self.read_dir(&dir, after.map(Path::as_ref));
            for (path, entry) in entries.map_err(|e| self.error(&Path::from(dir.as_str()), e))? {
                match entry {
                    Entry::Dir => todo.push(path),
                    Entry::File(stat) => found.push(meta(Path::from(path), &stat)),
                }
            }
        }
        found.sort_by(|a, b| a.location.cmp(&b.location));
        Ok(found)
    }

    fn list_level(&self, prefix: Option<&Path>) -> Result<ListResult> {
        let root = prefix_name(prefix)?;
        let failed = |dir: &str, e| self.error(&Path::from(dir), e);
        let _shared = self.lock(false)?;
        let mut level = ListResult { objects: Vec::new(), common_prefixes: Vec::new() };
        for (path, entry) in self.read_dir(root, None).map_err(|e| failed(root, e))? {
            match entry {
                Entry::File(stat) => level.objects.push(meta(Path::from(path), &stat)),
                Entry::Dir if self.has_object(&path).map_err(|e| failed(&path, e))? => {
                    level.common_prefixes.push(Path::from(path));
                }
                Entry::Dir => {}
            }
        }
        Ok(level)
    }

    /// Returns true if there is a file anywhere below the directory.
    fn has_object(&self, dir: &str) -> io::Result<bool> {
        let mut todo = vec![dir.to_string()];
        while let Some(dir) = todo.pop() {
            for (name, kind) in self.disk.read_dir(&dir)? {
                match kind {
                    Kind::File => return Ok(true),
                    Kind::Dir => todo.push(join(&dir, &name)),
                    Kind::Other => {}
                }
            }
        }
        Ok(false)
    }

    /// Removes objects under the exclusive lock, then syncs each directory once.
    fn delete(&self, locations: &[Path]) -> Vec<Result<Path>> {
        let _exclusive = match self.lock(true) {
            Ok(held) => held,
            Err(e) => {
                let why = e.to_string();
                let failed = |p: &Path| Err(self.error(p, io::Error::other(why.clone())));
                return locations.iter().map(failed).collect();
            }
        };
        let mut done: Vec<Result<Path>> = locations
            .iter()
            .map(|location| {
                let name = object_name(location)?;
                // For a directory, unlink(2) fails with EISDIR or EPERM, depending on the file system. To a caller it
                // is no object.
                let gone = match self.disk.stat(name) {
                    Ok(stat) if stat.kind != Kind::File => Err(ErrorKind::NotFound.into()),
                    Ok(_) => self.disk.unlink(name),
                    Err(e) => Err(e),
                };
                gone.map_err(|e| self.error(location, e))?;
                Ok(location.clone())
            })
            .collect();
        let dirs: HashSet<String> = done.iter().flatten().map(|path| parent(path.as_ref()).to_string()).collect();
        for dir in dirs {
            if let Err(e) = self.disk.sync_dir(&dir) {
                let why = e.to_string();
                for one in &mut done {
                    if let Ok(path) = one
                        && parent(path.as_ref()) == dir
                    {
                        *one = Err(self.error(&path.clone(), io::Error::other(why.clone())));
                    }
                }
            }
        }
        done
    }

    /// Copies an object as a second name for the same bytes, which is safe because objects never change in place.
    fn copy(&self, from: &Path, to: &Path, create: bool) -> Result<()> {
        let (from_name, to_name) = (object_name(from)?, object_name(to)?);
        let (file, _) = self.open(from)?;
        let copy = || {
            let temp = self.temp_name();
            self.disk.link(from_name, &temp.name)?;
            let _held = self.disk.hold(&temp.name)?;
            self.publish(&temp, to_name, create, file.stat()?.inode)
        };
        copy().map_err(|e| self.error(to, e))
    }

    /// Returns the error of a put, like [`error`](Self::error), but distinguishes whether the object may be there.
    fn put_error(&self, location: &Path, e: io::Error) -> Error {
        let named = e.get_ref().is_some_and(|e| e.is::<NotSynced>());
        if named || matches!(e.kind(), ErrorKind::AlreadyExists | ErrorKind::PermissionDenied) {
            return self.error(location, e);
        }
        let path = self.root.join(location.as_ref());
        Error::Generic { store: STORE, source: Box::new(NotWritten { path, source: e }) }
    }

    /// Returns the trait's error for a failed system call; it names the object's file.
    fn error(&self, location: &Path, source: io::Error) -> Error {
        let path = self.root.join(location.as_ref()).display().to_string();
        let boxed: Box<dyn std::error::Error + Send + Sync> = Box::new(source);
        let kind = boxed.downcast_ref::<io::Error>().map(io::Error::kind);
        match kind {
            // A path through a file: nothing can be there.
            Some(ErrorKind::NotFound | ErrorKind::NotADirectory) => Error::NotFound { path, source: boxed },
            Some(ErrorKind::AlreadyExists) => Error::AlreadyExists { path, source: boxed },
            Some(ErrorKind::PermissionDenied) => Error::PermissionDenied { path, source: boxed },
            _ => Error::Generic { store: STORE, source: format!("{path}: {boxed}").into() },
        }
    }
}

/// The object has its name, but its directory could not be synced.
#[derive(Debug, thiserror::Error)]
#[error("the object is there, syncing its directory failed, so it may not survive a power cut: {0}")]
struct NotSynced(io::Error);

/// An entry that a listing found.
enum Entry {
    File(Stat),
    Dir,
}

fn parent(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(dir, _)| dir)
}

fn file_name(path: &str) -> &str {
    path.rsplit_once('/').map_or(path, |(_, name)| name)
}

fn join(dir: &str, name: &str) -> String {
    if dir.is_empty() { name.to_string() } else { format!("{dir}/{name}") }
}

fn prefix_name(prefix: Option<&Path>) -> Result<&str> {
    match prefix {
        Some(p) if !p.is_root() => object_name(p),
        _ => Ok(""),
    }
}

/// Returns the object's file relative to the root; refuses paths that could leave it.
fn object_name(location: &Path) -> Result<&str> {
    let name = location.as_ref();
    let reason = if name.is_empty() {
        "an object needs a name"
    } else if name.split('/').any(|p| matches!(p, "" | "." | "..")) {
        "empty, \".\" and \"..\" parts could leave the data directory"
    } else if name.split('/').next() == Some(OWN_DIR) {
        "\".dipper\" belongs to the store itself"
    } else if name.contains('\0') {
        "file names hold no NUL"
    } else {
        return Ok(name);
    };
    Err(Error::Generic { store: STORE, source: format!("path {name:?} is refused: {reason}").into() })
}

/// Returns the tag of a content from inode, time and size: different content is always a different file.
fn etag(stat: &Stat) -> String {
    format!("{:x}-{:x}-{:x}", stat.inode, stat.mtime_ns, stat.size)
}

fn meta(location: Path, stat: &Stat) -> ObjectMeta {
    let last_modified = DateTime::from_timestamp_nanos(stat.mtime_ns);
    ObjectMeta { location, last_modified, size: stat.size, e_tag: Some(etag(stat)), version: None }
}

#[cfg(test)]
pub(crate) mod sim;
#[cfg(test)]
mod table_tests;
#[cfg(test)]
mod tests;
