//! The file system that a directory is on.

use std::io;
use std::path::{Path, PathBuf};

/// A file system, as far as it is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Disk {
    /// What is mounted, such as `/dev/sda1`; empty where the system does not tell.
    pub device: String,
    /// Where it is mounted; empty likewise.
    pub mounted_on: String,
    /// Bytes of it.
    pub capacity: u64,
    /// Bytes that are taken.
    pub used: u64,
    /// Bytes that this process may still write, which are fewer than are free where some are kept for root.
    pub available: u64,
}

/// The file system of a directory, or of the nearest one above it that is there.
///
/// # Errors
/// The system cannot be asked.
pub fn of(directory: &Path) -> io::Result<Disk> {
    let there = |path: &Path| std::fs::canonicalize(path).ok();
    let path = directory.ancestors().find_map(there).unwrap_or_else(|| PathBuf::from("/"));
    let stat = rustix::fs::statvfs(&path)?;
    let bytes = |blocks: u64| blocks.saturating_mul(stat.f_frsize);
    // Linux's list of mounts. Without it the numbers are known all the same.
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let (mounted_on, device) = mount(&mounts, &path).unwrap_or_default();
    Ok(Disk {
        device,
        mounted_on,
        capacity: bytes(stat.f_blocks),
        used: bytes(stat.f_blocks.saturating_sub(stat.f_bfree)),
        available: bytes(stat.f_bavail),
    })
}

/// Where the file system of a path is mounted, and what it is, by a list as of `/proc/self/mountinfo`. Of mounts over each
/// other the last one counts.
fn mount(list: &str, path: &Path) -> Option<(String, String)> {
    let mounts = list.lines().filter_map(|line| {
        let (mount, source) = line.split_once(" - ")?;
        Some((unescaped(mount.split(' ').nth(4)?), unescaped(source.split(' ').nth(1)?)))
    });
    mounts.filter(|(at, _)| path.starts_with(at)).max_by_key(|(at, _)| Path::new(at).components().count())
}

/// The list writes blanks and their like as three octal digits behind a backslash.
fn unescaped(text: &str) -> String {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((byte, behind)) = rest.split_first() {
        let digits = behind.get(..3).filter(|_| *byte == b'\\').and_then(|d| std::str::from_utf8(d).ok());
        match digits.and_then(|d| u8::from_str_radix(d, 8).ok()) {
            Some(byte) => {
                out.push(byte);
                rest = &behind[3..];
            }
            None => {
                out.push(*byte);
                rest = behind;
            }
        }
    }
    String::from_utf8_lossy(&out).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_deepest_mount_counts() {
        let list = "22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw\n\
                    30 22 0:26 / /mnt/my\\040data rw - xfs /dev/sdb rw\n\
                    31 30 0:27 / /mnt/my\\040data rw - xfs /dev/over rw\n\
                    broken\n";
        let found = |path: &str| mount(list, Path::new(path)).unwrap();
        assert_eq!(found("/mnt/other"), ("/".into(), "/dev/sda1".into()));
        assert_eq!(found("/mnt/my data/x"), ("/mnt/my data".into(), "/dev/over".into()));
        assert_eq!(found("/mnt/my database"), ("/".into(), "/dev/sda1".into()));
        assert_eq!(mount("", Path::new("/x")), None);
    }

    #[test]
    fn a_directory_that_is_not_there_yet() {
        let here = tempfile::tempdir().unwrap();
        let (there, below) = (of(here.path()).unwrap(), of(&here.path().join("a/b")).unwrap());
        assert!(there.capacity > 0 && there.used + there.available <= there.capacity);
        assert_eq!((there.mounted_on, there.capacity), (below.mounted_on, below.capacity));
    }
}
