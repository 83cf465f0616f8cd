//! Directories that a statement creates for its files, and that are removed if it fails.

use std::fs::{self, File};
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};

use parking_lot::Mutex;

/// Directories that one statement has created, outer ones first. When its last file is dropped, the empty ones are
/// removed, because nothing was published in them. Directories that existed before stay, empty or not.
#[derive(Debug, Default)]
pub struct MadeDirectories(Mutex<Vec<PathBuf>>);

impl MadeDirectories {
    /// Creates a new file, and its directory if needed.
    pub(super) fn create_file(&self, path: &Path) -> io::Result<File> {
        let directory = super::directory(path);
        let create = || File::options().write(true).create_new(true).open(path);
        self.make(directory)?;
        match create() {
            // Another statement that created the directory may have failed and removed it in between.
            Err(e) if e.kind() == ErrorKind::NotFound => {
                self.make(directory)?;
                create()
            }
            created => created,
        }
    }

    fn make(&self, directory: &Path) -> io::Result<()> {
        if directory.is_dir() {
            return Ok(());
        }
        if let Some(parent) = directory.parent().filter(|parent| !parent.as_os_str().is_empty()) {
            self.make(parent)?;
        }
        match fs::create_dir(directory) {
            Ok(()) => self.0.lock().push(directory.to_path_buf()),
            Err(e) if e.kind() == ErrorKind::AlreadyExists && directory.is_dir() => {}
            Err(e) => return Err(e),
        }
        Ok(())
    }
}

impl Drop for MadeDirectories {
    fn drop(&mut self) {
        for directory in self.0.get_mut().iter().rev() {
            // Fails if the directory is not empty.
            let _ = fs::remove_dir(directory);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_own_and_empty_directories_go() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir(root.path().join("old")).unwrap();
        let made = MadeDirectories::default();
        for name in ["a/b/1", "a/c/1", "old/d/1"] {
            made.create_file(&root.path().join(name)).unwrap();
        }
        fs::remove_file(root.path().join("a/b/1")).unwrap();
        fs::remove_file(root.path().join("old/d/1")).unwrap();
        drop(made);
        let there = |name: &str| root.path().join(name).is_dir();
        assert_eq!(["a/b", "a/c", "old/d", "old"].map(there), [false, true, false, true]);
    }
}
