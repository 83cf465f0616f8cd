//! Which processes of this machine are still there.
//!
//! A lease tells others for how long a process counts as alive, and goes on to do so when the process is killed. On its own
//! machine the system knows at once: each process holds the lock of a file of its own, and the system lets go of it however
//! the process ends. Whoever begins on the same directory ends the leases of those that are gone, also those in a bucket.
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

/// A process is there for as long as this is.
#[derive(Debug)]
pub struct Present {
    _locked: File,
}

impl Nodes {
    /// Those that have their locks in `dir`, which is made when it is needed. It must not be shared with other machines.
    pub fn new(dir: PathBuf) -> Self {
        Nodes { dir }
    }

    /// Those that have their locks in a directory below.
    pub fn within(&self, name: &str) -> Self {
        Nodes { dir: self.dir.join(name) }
    }

    fn path(&self, node: u64) -> PathBuf {
        self.dir.join(format!("{node:016x}"))
    }

    /// Says that this process is there.
    ///
    /// # Errors
    /// The system's.
    pub fn enter(&self, node: u64) -> io::Result<Present> {
        fs::create_dir_all(&self.dir)?;
        // Locked before it has its name: others would take it for that of a process that is gone.
        let unseen = self.path(node).with_extension("new");
        let file = File::create_new(&unseen)?;
        flock(&file, FlockOperation::NonBlockingLockExclusive)?;
        fs::rename(&unseen, self.path(node))?;
        Ok(Present { _locked: file })
    }

    /// Whether a process of this machine is gone. False where that is not known here.
    pub(crate) fn is_gone(&self, node: u64) -> bool {
        let file = OpenOptions::new().read(true).open(self.path(node));
        file.is_ok_and(|file| flock(&file, FlockOperation::NonBlockingLockShared).is_ok())
    }

    /// Processes that are gone and not [forgotten](Self::forget).
    pub fn gone(&self) -> Vec<u64> {
        let names = fs::read_dir(&self.dir).into_iter().flatten().flatten();
        let nodes = names.filter_map(|entry| u64::from_str_radix(entry.file_name().to_str()?, 16).ok());
        nodes.filter(|node| self.is_gone(*node)).collect()
    }

    /// Forgets a process that is gone.
    pub fn forget(&self, node: u64) {
        // The next one forgets it.
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
