//! Extents as files.
//!
//! ```text
//! <dir>/v1/lock                                            held (flock) by the process that uses the directory
//! <dir>/v1/<kk>/<key>-<size>-<modified>-<start>-<len>      an extent; kk = the first two digits of the key
//! file = len bytes, then for each 64 KiB of them a CRC-32C (4 bytes, little-endian) that begins with the name
//! ```
//!
//! All numbers in names are hexadecimal. A name has all that the index must know, so a start reads directories only.
//! The checksum covers the name, so a file under another's name is detected. Files are not synced: one that a power cut
//! damaged is detected as well.

use std::fs::{self, File};
use std::io::{self, Write};
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// Bytes under one checksum.
const CHUNK: u64 = 64 << 10;
/// Unit in which the disk space of a file is counted, in bytes.
const DISK_BLOCK: u64 = 4096;
/// Name of this format's directory below the cache's directory.
const FORMAT: &str = "v1";

/// Identity of an object: a hash of its store, path and tag.
pub(crate) type Key = u128;

/// An extent's name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Name {
    pub key: Key,
    /// Size of the whole object.
    pub size: u64,
    /// Time of the object's last change: milliseconds since 1970.
    pub modified_ms: i64,
    /// Offset in the object.
    pub start: u64,
    /// Length in bytes.
    pub len: u64,
}

impl Name {
    fn text(&self) -> String {
        let Name { key, size, modified_ms, start, len } = self;
        format!("{key:032x}-{size:x}-{modified_ms:x}-{start:x}-{len:x}")
    }

    fn parse(text: &str) -> Option<Name> {
        let mut parts = text.split('-');
        let key = parts.next().filter(|p| p.len() == 32)?;
        let key = Key::from_str_radix(key, 16).ok()?;
        let mut number = || u64::from_str_radix(parts.next()?, 16).ok();
        let name = Name { key, size: number()?, modified_ms: number()? as i64, start: number()?, len: number()? };
        let fits = name.len > 0 && name.start.checked_add(name.len)? <= name.size;
        (parts.next().is_none() && fits && name.text() == text).then_some(name)
    }

    fn chunks(&self) -> u64 {
        self.len.div_ceil(CHUNK)
    }

    fn file_bytes(&self) -> u64 {
        self.len + 4 * self.chunks()
    }

    /// Returns the bytes of disk space that the file takes.
    pub(crate) fn disk_bytes(&self) -> u64 {
        self.file_bytes().next_multiple_of(DISK_BLOCK)
    }
}

/// A directory of extents, held by this process alone.
#[derive(Debug)]
pub(crate) struct Disk {
    root: PathBuf,
    _lock: File,
}

impl Disk {
    /// Takes the directory, and creates it if needed.
    pub(crate) fn open(dir: &Path) -> io::Result<Self> {
        let root = dir.join(FORMAT);
        fs::create_dir_all(&root)?;
        let lock = File::create(root.join("lock"))?;
        match rustix::fs::flock(&lock, rustix::fs::FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Disk { root, _lock: lock }),
            Err(rustix::io::Errno::WOULDBLOCK) => Err(io::Error::other("another process uses it")),
            Err(e) => Err(e.into()),
        }
    }

    /// Whether the directory still exists.
    pub(crate) fn is_there(&self) -> bool {
        !matches!(fs::metadata(&self.root), Err(e) if e.kind() == io::ErrorKind::NotFound)
    }

    /// Returns the bytes of the disk that are free for this user.
    pub(crate) fn free_bytes(&self) -> io::Result<u64> {
        let stat = rustix::fs::statvfs(&self.root)?;
        Ok(stat.f_bavail.saturating_mul(stat.f_frsize))
    }

    fn shard(&self, key: Key) -> PathBuf {
        self.root.join(format!("{:02x}", key >> 120))
    }

    /// Returns the path of an extent's file.
    pub(crate) fn file(&self, name: &Name) -> PathBuf {
        self.shard(name.key).join(name.text())
    }

    /// Passes the names of all extents to `found`. Other files, left by interrupted writes, are deleted.
    pub(crate) fn load(&self, mut found: impl FnMut(Name)) -> io::Result<()> {
        for shard in 0..=255_u128 {
            let dir = self.shard(shard << 120);
            let entries = match fs::read_dir(&dir) {
                Err(e) if e.kind() == io::ErrorKind::NotFound => continue,
                other => other?,
            };
            for entry in entries {
                let entry = entry?;
                match entry.file_name().to_str().and_then(Name::parse) {
                    Some(name) if name.key >> 120 == shard => found(name),
                    _ => drop(fs::remove_file(entry.path())),
                }
            }
        }
        Ok(())
    }

    /// Writes an extent; a crash leaves it whole or not at all.
    pub(crate) fn write(&self, name: &Name, bytes: &[u8]) -> io::Result<()> {
        debug_assert_eq!(bytes.len() as u64, name.len);
        let path = self.file(name);
        let temp = path.with_extension("tmp");
        let written = self.create(&temp).and_then(|mut file| {
            file.write_all(bytes)?;
            let seed = seed(name);
            let sums = bytes.chunks(CHUNK as usize).flat_map(|c| crc32c::crc32c_append(seed, c).to_le_bytes());
            file.write_all(&sums.collect::<Vec<u8>>())?;
            fs::rename(&temp, &path)
        });
        if written.is_err() {
            let _ = fs::remove_file(&temp);
        }
        written
    }

    fn create(&self, path: &Path) -> io::Result<File> {
        match File::create(path) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => {
                fs::create_dir_all(path.parent().unwrap_or(&self.root))?;
                File::create(path)
            }
            other => other,
        }
    }

    /// Reads part of an extent (`range` within it) into `out`.
    ///
    /// # Errors
    /// The error of reading the file; `InvalidData` if it differs from what was written.
    pub(crate) fn read(&self, name: &Name, range: Range<u64>, out: &mut [u8]) -> io::Result<()> {
        debug_assert!(range.end <= name.len && out.len() as u64 == range.end - range.start);
        let damaged = || io::Error::new(io::ErrorKind::InvalidData, "its checksum differs");
        let file = File::open(self.file(name))?;
        if file.metadata()?.len() != name.file_bytes() {
            return Err(damaged());
        }
        let chunks = range.start / CHUNK..range.end.div_ceil(CHUNK);
        let mut sums = vec![0; 4 * (chunks.end - chunks.start) as usize];
        file.read_exact_at(&mut sums, name.len + 4 * chunks.start)?;
        let sum = |i: usize| u32::from_le_bytes([sums[4 * i], sums[4 * i + 1], sums[4 * i + 2], sums[4 * i + 3]]);
        let seed = seed(name);
        // Chunks that are wanted whole are read in place; the first and the last one, if wanted in part, are read
        // aside.
        let whole = range.start.next_multiple_of(CHUNK)..if range.end == name.len {
            range.end
        } else {
            range.end / CHUNK * CHUNK
        };
        if whole.start < whole.end {
            let at = (whole.start - range.start) as usize;
            let len = (whole.end - whole.start) as usize;
            file.read_exact_at(&mut out[at..at + len], whole.start)?;
            let first = (whole.start / CHUNK - chunks.start) as usize;
            for (i, chunk) in out[at..at + len].chunks(CHUNK as usize).enumerate() {
                if crc32c::crc32c_append(seed, chunk) != sum(first + i) {
                    return Err(damaged());
                }
            }
        }
        let mut aside = Vec::new();
        for (i, chunk) in chunks.clone().enumerate() {
            let bounds = chunk * CHUNK..((chunk + 1) * CHUNK).min(name.len);
            if bounds.start >= whole.start && bounds.end <= whole.end {
                continue;
            }
            aside.resize((bounds.end - bounds.start) as usize, 0);
            file.read_exact_at(&mut aside, bounds.start)?;
            if crc32c::crc32c_append(seed, &aside) != sum(i) {
                return Err(damaged());
            }
            let part = bounds.start.max(range.start)..bounds.end.min(range.end);
            let from = &aside[(part.start - bounds.start) as usize..(part.end - bounds.start) as usize];
            out[(part.start - range.start) as usize..(part.end - range.start) as usize].copy_from_slice(from);
        }
        Ok(())
    }

    /// Deletes an extent; a missing one is ignored.
    pub(crate) fn remove(&self, name: &Name) {
        if let Err(e) = fs::remove_file(self.file(name))
            && e.kind() != io::ErrorKind::NotFound
        {
            tracing::debug!(file = %self.file(name).display(), error = %e, "a file of the cache cannot be deleted");
        }
    }
}

fn seed(name: &Name) -> u32 {
    crc32c::crc32c(name.text().as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(start: u64, len: u64) -> Name {
        Name { key: 0xab << 120 | 7, size: 1 << 40, modified_ms: 1_700_000_000_000, start, len }
    }

    #[test]
    fn any_part_of_an_extent_comes_back() {
        let dir = tempfile::tempdir().unwrap();
        let disk = Disk::open(dir.path()).unwrap();
        for len in [1, 100, CHUNK - 1, CHUNK, CHUNK + 1, 3 * CHUNK, 3 * CHUNK + 17] {
            let bytes: Vec<u8> = (0..len).map(|i| (i * 31 % 251) as u8).collect();
            let name = name(CHUNK, len);
            disk.write(&name, &bytes).unwrap();
            let marks = [0, 1, CHUNK - 1, CHUNK, CHUNK + 1, 2 * CHUNK, 3 * CHUNK, len / 2, len - 1, len];
            for from in marks {
                for to in marks.into_iter().filter(|to| from < *to && *to <= len) {
                    let mut out = vec![0; (to - from) as usize];
                    disk.read(&name, from..to, &mut out).unwrap();
                    assert_eq!(out, bytes[from as usize..to as usize], "{from}..{to} of {len}");
                }
            }
        }
        let mut found = Vec::new();
        disk.load(|n| found.push(n)).unwrap();
        assert_eq!(found.len(), 7);
    }

    #[test]
    fn each_flipped_bit_and_each_wrong_name_is_found_out() {
        let dir = tempfile::tempdir().unwrap();
        let disk = Disk::open(dir.path()).unwrap();
        let name = name(0, CHUNK + 10);
        let bytes = vec![5; (CHUNK + 10) as usize];
        disk.write(&name, &bytes).unwrap();
        let path = disk.file(&name);
        let good = fs::read(&path).unwrap();
        let mut out = vec![0; bytes.len()];
        for at in [0, 77, CHUNK as usize, good.len() - 8, good.len() - 1] {
            let mut bad = good.clone();
            bad[at] ^= 4;
            fs::write(&path, &bad).unwrap();
            disk.read(&name, 0..name.len, &mut out).unwrap_err();
        }
        fs::write(&path, &good[..good.len() - 1]).unwrap();
        disk.read(&name, 0..name.len, &mut out).unwrap_err();
        let other = Name { start: CHUNK, ..name };
        fs::write(disk.file(&other), &good).unwrap();
        disk.read(&other, 0..name.len, &mut out).unwrap_err();
        fs::write(&path, &good).unwrap();
        disk.read(&name, 0..name.len, &mut out).unwrap();
        fs::write(path.with_extension("tmp"), "x").unwrap();
        fs::write(path.with_file_name("something"), "x").unwrap();
        let mut found = 0;
        disk.load(|_| found += 1).unwrap();
        assert_eq!((found, fs::read_dir(path.parent().unwrap()).unwrap().count()), (2, 2), "what is no extent goes");
    }

    #[test]
    fn one_process_at_a_time() {
        let dir = tempfile::tempdir().unwrap();
        let first = Disk::open(dir.path()).unwrap();
        assert!(Disk::open(dir.path()).unwrap_err().to_string().contains("another process"));
        drop(first);
        Disk::open(dir.path()).unwrap();
    }
}
