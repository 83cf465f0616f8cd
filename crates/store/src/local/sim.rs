//! A file system in memory that loses everything that was not synced, and whose calls can be counted, cut off and made
//! to fail.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::io::{self, ErrorKind};
use std::sync::Arc;

use parking_lot::Mutex;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::disk::{Disk, Held, Kind, ReadFile, Stat, TempFile};

/// The unsynced changes that survive a power cut.
#[derive(Clone, Copy, Debug)]
pub(super) enum Survive {
    Nothing,
    Everything,
    /// Each change of a directory survives or not by itself; ends of files are torn.
    Some(u64),
}

#[derive(Clone, Debug, Default)]
struct Inode {
    data: Vec<u8>,
    /// Content at the last sync.
    synced: Vec<u8>,
    mtime_ns: i64,
    links: usize,
}

/// Entries as every process sees them, and entries on the medium.
#[derive(Clone, Debug, Default)]
struct Directory {
    now: BTreeMap<String, Node>,
    durable: BTreeMap<String, Node>,
    mtime_ns: i64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Node {
    File(u64),
    Dir,
}

#[derive(Debug, Default)]
struct World {
    inodes: HashMap<u64, Inode>,
    dirs: BTreeMap<String, Directory>,
    next_inode: u64,
    held: HashSet<u64>,
    clock_ns: i64,
    calls: Vec<String>,
    /// Number of the call from which on all calls fail: the power is off.
    cut_at: Option<usize>,
    /// Number of the one call that fails, with its error; later calls work.
    fail_at: Option<(usize, ErrorKind)>,
}

/// The simulated disk; clones are the same disk.
#[derive(Clone, Debug)]
pub(super) struct SimDisk(Arc<Mutex<World>>);

impl SimDisk {
    pub(super) fn new() -> Self {
        let mut world = World { clock_ns: chrono::Utc::now().timestamp_nanos_opt().unwrap(), ..World::default() };
        world.dirs.insert(String::new(), Directory::default());
        Self(Arc::new(Mutex::new(world)))
    }

    /// Returns the calls so far that change or sync anything.
    pub(super) fn calls(&self) -> Vec<String> {
        self.0.lock().calls.clone()
    }

    pub(super) fn cut_at(&self, call: usize) {
        self.0.lock().cut_at = Some(call);
    }

    pub(super) fn fail_at(&self, call: usize, kind: ErrorKind) {
        self.0.lock().fail_at = Some((call, kind));
    }

    /// Returns the disk as it is found when the power is back.
    pub(super) fn after_power_cut(&self, survive: Survive) -> Self {
        let world = self.0.lock();
        let mut rng = StdRng::seed_from_u64(if let Survive::Some(seed) = survive { seed } else { 0 });
        let keep = |rng: &mut StdRng| match survive {
            Survive::Nothing => false,
            Survive::Everything => true,
            Survive::Some(_) => rng.random(),
        };
        let mut after = World { next_inode: world.next_inode, clock_ns: world.clock_ns, ..World::default() };
        for (path, dir) in &world.dirs {
            let mut entries = BTreeMap::new();
            let names: HashSet<&String> = dir.now.keys().chain(dir.durable.keys()).collect();
            let mut names: Vec<&String> = names.into_iter().collect();
            names.sort();
            for name in names {
                let (now, durable) = (dir.now.get(name), dir.durable.get(name));
                let chosen = if now == durable || !keep(&mut rng) { durable } else { now };
                if let Some(node) = chosen {
                    entries.insert(name.clone(), *node);
                }
            }
            let dir = Directory { now: entries.clone(), durable: entries, mtime_ns: dir.mtime_ns };
            after.dirs.insert(path.clone(), dir);
        }
        for (id, inode) in &world.inodes {
            let data = match survive {
                Survive::Nothing => inode.synced.clone(),
                Survive::Everything => inode.data.clone(),
                Survive::Some(_) if inode.data == inode.synced => inode.data.clone(),
                Survive::Some(_) => {
                    let mut torn = inode.data.clone();
                    torn.truncate(rng.random_range(0..=torn.len()));
                    let from = rng.random_range(0..=torn.len());
                    torn[from..].fill(0xee);
                    torn
                }
            };
            after.inodes.insert(*id, Inode { synced: data.clone(), data, ..inode.clone() });
        }
        // Directories whose entry in the one above was lost cannot be reached; nor can anything below them.
        loop {
            let lost: Vec<String> = after
                .dirs
                .keys()
                .filter(|path| !path.is_empty())
                .filter(|path| {
                    let (up, name) = path.rsplit_once('/').unwrap_or(("", path));
                    after.dirs.get(up).is_none_or(|d| d.now.get(name) != Some(&Node::Dir))
                })
                .cloned()
                .collect();
            if lost.is_empty() {
                break;
            }
            for path in lost {
                after.dirs.remove(&path);
            }
        }
        after.inodes.values_mut().for_each(|i| i.links = 0);
        let names: Vec<u64> = after
            .dirs
            .values()
            .flat_map(|d| d.now.values().filter_map(|n| if let Node::File(id) = n { Some(*id) } else { None }))
            .collect();
        for id in names {
            after.inodes.get_mut(&id).expect("entries name inodes").links += 1;
        }
        // An entry of a directory that survived always finds a directory, at worst an empty one.
        let named: Vec<String> = after
            .dirs
            .iter()
            .flat_map(|(path, d)| {
                d.now
                    .iter()
                    .filter(|(_, n)| **n == Node::Dir)
                    .map(|(name, _)| super::join(path, name))
                    .collect::<Vec<_>>()
            })
            .collect();
        for path in named {
            after.dirs.entry(path).or_default();
        }
        Self(Arc::new(Mutex::new(after)))
    }
}

fn split(path: &str) -> (&str, &str) {
    path.rsplit_once('/').unwrap_or(("", path))
}

impl World {
    /// Counts a call; fails if it is the one to fail or if the power is off.
    fn call(&mut self, what: String) -> io::Result<()> {
        let number = self.calls.len();
        if self.cut_at.is_some_and(|at| number >= at) {
            return Err(io::Error::other("power cut"));
        }
        self.calls.push(what);
        self.clock_ns += 1_000;
        match self.fail_at {
            Some((at, kind)) if at == number => Err(io::Error::new(kind, "injected")),
            _ => Ok(()),
        }
    }

    fn dir(&mut self, path: &str) -> io::Result<&mut Directory> {
        self.dirs.get_mut(path).ok_or_else(|| ErrorKind::NotFound.into())
    }

    fn file(&mut self, path: &str) -> io::Result<u64> {
        let (dir, name) = split(path);
        match self.dir(dir)?.now.get(name) {
            Some(Node::File(id)) => Ok(*id),
            Some(Node::Dir) => Err(ErrorKind::IsADirectory.into()),
            None => Err(ErrorKind::NotFound.into()),
        }
    }

    fn set(&mut self, path: &str, node: Option<Node>) -> io::Result<()> {
        let (dir, name) = split(path);
        let clock = self.clock_ns;
        let dir = self.dir(dir)?;
        dir.mtime_ns = clock;
        let old = match node {
            Some(node) => dir.now.insert(name.to_string(), node),
            None => dir.now.remove(name),
        };
        for (node, up) in [(node, true), (old, false)] {
            if let Some(Node::File(id)) = node {
                let links = &mut self.inodes.get_mut(&id).expect("entries name inodes").links;
                *links = if up { *links + 1 } else { *links - 1 };
            }
        }
        Ok(())
    }

    fn stat(&self, id: u64) -> Stat {
        let inode = &self.inodes[&id];
        Stat {
            inode: id,
            size: inode.data.len() as u64,
            mtime_ns: inode.mtime_ns,
            links: inode.links as u64,
            kind: Kind::File,
        }
    }
}

#[derive(Debug)]
struct SimFile {
    disk: SimDisk,
    id: u64,
    locked: bool,
}

impl Drop for SimFile {
    fn drop(&mut self) {
        if self.locked {
            self.disk.0.lock().held.remove(&self.id);
        }
    }
}

impl Held for SimFile {}

impl TempFile for SimFile {
    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        let mut w = self.disk.0.lock();
        w.call(format!("write {} bytes", bytes.len()))?;
        let clock = w.clock_ns;
        let inode = w.inodes.get_mut(&self.id).unwrap();
        let (from, to) = (offset as usize, offset as usize + bytes.len());
        inode.data.resize(inode.data.len().max(to), 0);
        inode.data[from..to].copy_from_slice(bytes);
        inode.mtime_ns = clock;
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        let mut w = self.disk.0.lock();
        w.call("fdatasync".to_string())?;
        let inode = w.inodes.get_mut(&self.id).unwrap();
        inode.synced.clone_from(&inode.data);
        Ok(())
    }

    fn stat(&self) -> io::Result<Stat> {
        Ok(self.disk.0.lock().stat(self.id))
    }
}

impl ReadFile for SimFile {
    fn read_at(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        let w = self.disk.0.lock();
        let data = &w.inodes[&self.id].data;
        let from = offset as usize;
        let part = data.get(from..from + buffer.len()).ok_or(ErrorKind::UnexpectedEof)?;
        buffer.copy_from_slice(part);
        Ok(())
    }

    fn read_now(&self, buffer: &mut [u8], offset: u64) -> io::Result<()> {
        self.read_at(buffer, offset)
    }

    fn stat(&self) -> io::Result<Stat> {
        TempFile::stat(self)
    }
}

impl Disk for SimDisk {
    fn make_dir(&self, dir: &str) -> io::Result<()> {
        let mut w = self.0.lock();
        if w.dirs.contains_key(dir) {
            return Ok(());
        }
        w.call(format!("mkdir {dir}"))?;
        w.set(dir, Some(Node::Dir))?;
        w.dirs.insert(dir.to_string(), Directory::default());
        Ok(())
    }

    fn sync_dir(&self, dir: &str) -> io::Result<()> {
        let mut w = self.0.lock();
        w.call(format!("fsync {dir}/"))?;
        let dir = w.dir(dir)?;
        dir.durable.clone_from(&dir.now);
        Ok(())
    }

    fn sync_all(&self) -> io::Result<()> {
        let mut w = self.0.lock();
        w.call("syncfs".to_string())?;
        w.dirs.values_mut().for_each(|d| d.durable.clone_from(&d.now));
        w.inodes.values_mut().for_each(|i| i.synced.clone_from(&i.data));
        Ok(())
    }

    fn create(&self, file: &str) -> io::Result<Box<dyn TempFile>> {
        let mut w = self.0.lock();
        w.call("create temp".to_string())?;
        if w.file(file).is_ok() {
            return Err(ErrorKind::AlreadyExists.into());
        }
        w.next_inode += 1;
        let id = w.next_inode;
        w.inodes.insert(id, Inode::default());
        w.set(file, Some(Node::File(id)))?;
        w.held.insert(id);
        Ok(Box::new(SimFile { disk: self.clone(), id, locked: true }))
    }

    fn link(&self, from: &str, to: &str) -> io::Result<()> {
        let mut w = self.0.lock();
        w.call(format!("link {}", if to.starts_with(super::TEMP_DIR) { "temp" } else { to }))?;
        let id = w.file(from)?;
        let (dir, name) = split(to);
        if w.dir(dir)?.now.contains_key(name) {
            return Err(ErrorKind::AlreadyExists.into());
        }
        w.set(to, Some(Node::File(id)))
    }

    fn rename(&self, from: &str, to: &str) -> io::Result<()> {
        let mut w = self.0.lock();
        w.call(format!("rename {to}"))?;
        let id = w.file(from)?;
        if w.file(to).is_ok_and(|there| there == id) {
            return Ok(()); // two names of one file: rename(2) does nothing
        }
        w.set(to, Some(Node::File(id)))?;
        w.set(from, None)
    }

    fn unlink(&self, file: &str) -> io::Result<()> {
        let mut w = self.0.lock();
        w.call(format!("unlink {}", if file.starts_with(super::TEMP_DIR) { "temp" } else { file }))?;
        w.file(file)?;
        w.set(file, None)
    }

    fn open(&self, file: &str) -> io::Result<Box<dyn ReadFile>> {
        let id = self.0.lock().file(file)?;
        Ok(Box::new(SimFile { disk: self.clone(), id, locked: false }))
    }

    fn stat(&self, path: &str) -> io::Result<Stat> {
        let mut w = self.0.lock();
        if let Ok(dir) = w.dir(path) {
            return Ok(Stat { inode: 0, size: 0, mtime_ns: dir.mtime_ns, links: 2, kind: Kind::Dir });
        }
        let id = w.file(path)?;
        Ok(w.stat(id))
    }

    fn read_dir(&self, dir: &str) -> io::Result<Vec<(String, Kind)>> {
        let mut w = self.0.lock();
        let kind = |n: &Node| if *n == Node::Dir { Kind::Dir } else { Kind::File };
        Ok(w.dir(dir)?.now.iter().map(|(name, n)| (name.clone(), kind(n))).collect())
    }

    fn lock(&self, _file: &str, _exclusive: bool) -> io::Result<Box<dyn Held>> {
        Ok(Box::new(SimFile { disk: self.clone(), id: 0, locked: false }))
    }

    fn hold(&self, file: &str) -> io::Result<Box<dyn Held>> {
        // Shared: the simulation has no second owner that would wait.
        let id = self.0.lock().file(file)?;
        Ok(Box::new(SimFile { disk: self.clone(), id, locked: false }))
    }

    fn try_lock(&self, file: &str) -> io::Result<Option<Box<dyn Held>>> {
        let mut w = self.0.lock();
        let id = w.file(file)?;
        if !w.held.insert(id) {
            return Ok(None);
        }
        Ok(Some(Box::new(SimFile { disk: self.clone(), id, locked: true })))
    }
}
