//! Detection of processes of this machine that have ended.
//!
//! A lease says for how long a process counts as alive, and is still valid when the process is killed. On the process's
//! own machine the system knows at once: each process holds the lock of a file of its own, and the system releases it
//! however the process ends. A process that starts on the same directory ends the leases of those that are gone, also
//! leases in a bucket.
//!
//! ```text
//! <dir>/<node, 16 hexadecimal digits>   locked by that process for as long as it runs; empty
//! ```

use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::PathBuf;

use rustix::fs::{FlockOperation, flock};

/// The directory of the processes that use one database from this machine.
#[derive(Debug, Clone)]
pub struct Nodes {
    dir: PathBuf,
}

/// Marks a process as running for as long as this value lives.
#[derive(Debug)]
pub struct Present {
    _locked: File,
}

impl Nodes {
    /// Makes the set of processes that have their locks in `dir`, which is created when needed. It must not be shared
    /// with other machines.
    pub fn new(dir: PathBuf) -> Self {
        Nodes { dir }
    }

    /// Makes the set of processes that have their locks in a directory below.
    pub fn within(&self, name: &str) -> Self {
        Nodes { dir: self.dir.join(name) }
    }

    fn path(&self, node: u64) -> PathBuf {
        self.dir.join(format!("{node:016x}"))
    }

    /// Marks this process as running.
    ///
    /// # Errors
    /// The system's error of creating, locking or renaming the file.
    pub fn enter(&self, node: u64) -> io::Result<Present> {
        fs::create_dir_all(&self.dir)?;
        // Locked before it gets its name, because others would take an unlocked file for that of a process that is
        // gone.
        let unseen = self.path(node).with_extension("new");
        let file = File::create_new(&unseen)?;
        flock(&file, FlockOperation::NonBlockingLockExclusive)?;
        fs::rename(&unseen, self.path(node))?;
        Ok(Present { _locked: file })
    }

    /// Returns whether a process of this machine is gone; false if that is not known here.
    pub(crate) fn is_gone(&self, node: u64) -> bool {
        let file = OpenOptions::new().read(true).open(self.path(node));
        file.is_ok_and(|file| flock(&file, FlockOperation::NonBlockingLockShared).is_ok())
    }

    /// Returns the processes that are gone and not [forgotten](Self::forget).
    pub fn gone(&self) -> Vec<u64> {
        let names = fs::read_dir(&self.dir).into_iter().flatten().flatten();
        let nodes = names.filter_map(|entry| u64::from_str_radix(entry.file_name().to_str()?, 16).ok());
        nodes.filter(|node| self.is_gone(*node)).collect()
    }

    /// Forgets a process that is gone.
    pub fn forget(&self, node: u64) {
        // If this fails, the next process forgets it.
        let _ = fs::remove_file(self.path(node));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_there_until_it_lets_go() {
        let dir = tempfile::tempdir().unwrap();
        let nodes = Nodes::new(dir.path().join("nodes"));
        assert!(nodes.gone().is_empty() && !nodes.is_gone(7));
        let (seven, _eight) = (nodes.enter(7).unwrap(), nodes.enter(8).unwrap());
        assert!(nodes.gone().is_empty() && !nodes.is_gone(7));
        drop(seven);
        assert_eq!((nodes.gone(), nodes.is_gone(7), nodes.is_gone(8)), (vec![7], true, false));
        nodes.forget(7);
        assert!(nodes.gone().is_empty() && !nodes.is_gone(7));
    }
}
