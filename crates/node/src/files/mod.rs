//! Resolves paths to files, and checks whether they may be accessed.
//!
//! A path is a file, a directory (every file below it whose name does not start with `_` or `.`, as Hive and Spark
//! list), or a glob (`*`, `?`, `[a-z]`, `{a,b}`, `**`). `file://` in front is accepted; other schemes are object stores
//! (`remote.rs`, `stores.rs`).

mod ahead;
mod aws_profile;
mod credentials;
mod dialects;
mod google;
pub mod hdfs;
pub mod keys;
pub mod lakes;
pub mod listings;
pub mod partitions;
pub mod reads;
pub mod remote;
mod requests;
mod source;
pub mod stores;

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use dipper_text::source::{FileSource, Source};

use crate::error::{EngineError, ErrorKind, Result};
use crate::files::listings::Listings;
use crate::files::reads::FileReads;
use crate::files::remote::RemoteFile;
use crate::files::source::ObjectSource;
use crate::files::stores::{StoreProperties, Stores, is_remote};

/// The local files that statements may read and write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FileAccess {
    /// All files that the process may access: `dipper sql` runs with its user's own rights.
    Any,
    /// Only files below these directories (canonical), with symbolic links resolved. Empty: none at all.
    Below(Vec<PathBuf>),
}

impl FileAccess {
    /// Allows access below `dirs`, which are made canonical.
    ///
    /// # Errors
    /// `File` if a directory does not exist or cannot be read.
    pub fn below<P: AsRef<Path>>(dirs: impl IntoIterator<Item = P>) -> Result<Self> {
        let mut all = Vec::new();
        for dir in dirs {
            let dir = dir.as_ref();
            all.push(dir.canonicalize().map_err(|e| cannot(dir, "use as an allowed directory", &e))?);
        }
        Ok(FileAccess::Below(all))
    }

    /// Fails unless `path`, with links resolved, is below an allowed directory. A path that does not exist yet is
    /// judged by the nearest existing directory above it.
    ///
    /// # Errors
    /// [`ErrorKind::Denied`], with the path and the option that allows it.
    pub fn check(&self, path: &Path) -> Result<()> {
        let FileAccess::Below(dirs) = self else { return Ok(()) };
        if path.components().any(|c| matches!(c, std::path::Component::ParentDir)) && path.canonicalize().is_err() {
            return Err(self.denied(path));
        }
        let mut existing = path;
        let real = loop {
            match existing.canonicalize() {
                Ok(real) => break real,
                Err(_) => match existing.parent() {
                    Some(parent) if !parent.as_os_str().is_empty() => existing = parent,
                    _ => break std::env::current_dir().unwrap_or_default(),
                },
            }
        };
        if dirs.iter().any(|d| real.starts_with(d)) { Ok(()) } else { Err(self.denied(path)) }
    }

    fn denied(&self, path: &Path) -> EngineError {
        let allowed = match self {
            FileAccess::Below(dirs) if !dirs.is_empty() => {
                let dirs: Vec<_> = dirs.iter().map(|d| d.display().to_string()).collect();
                format!("allowed are files below {}", dirs.join(", "))
            }
            _ => "no directory is allowed".to_string(),
        };
        EngineError::new(
            ErrorKind::Denied,
            format!(
                "access to '{}' denied: {allowed}; start the server with --allow-dir DIR to allow more",
                path.display()
            ),
        )
    }
}

/// A listed file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileEntry {
    /// Path, or URL of an object.
    pub path: PathBuf,
    /// Size in bytes.
    pub len: u64,
    /// Time of the last change.
    pub modified: SystemTime,
    /// The object, if the file is not in the local file system; `path` is its URL then.
    pub remote: Option<RemoteFile>,
}

impl FileEntry {
    /// Returns the entry of the file at `path`; links are followed.
    ///
    /// # Errors
    /// `File` if it does not exist, may not be read, or is not a regular file.
    pub fn of(path: PathBuf) -> Result<Self> {
        let meta = std::fs::metadata(&path).map_err(|e| cannot(&path, "read", &e))?;
        check_regular(&path, &meta)?;
        Ok(FileEntry {
            len: meta.len(),
            modified: meta.modified().unwrap_or(SystemTime::UNIX_EPOCH),
            path,
            remote: None,
        })
    }

    /// Returns a reader of the file's bytes. `all` says whether they will be read to their end. A local file is opened
    /// when it is first read.
    pub fn source(&self, all: bool) -> Arc<dyn Source> {
        match &self.remote {
            None => Arc::new(FileSource::later(&self.path)),
            Some(remote) => Arc::new(ObjectSource::new(remote.clone(), self.name(), all)),
        }
    }

    /// Like [`source`](Self::source), and counts reads from object storage in `reads`.
    pub fn counted_source(&self, all: bool, reads: &Arc<FileReads>) -> Arc<dyn Source> {
        match &self.remote {
            None => self.source(all),
            Some(remote) => Arc::new(ObjectSource::new(remote.clone(), self.name(), all).counted_in(Arc::clone(reads))),
        }
    }

    /// Returns the path for messages.
    pub fn name(&self) -> String {
        self.path.display().to_string()
    }
}

/// Returns the local path that a location in a statement means: `file:///x`, `file:/x` or a plain path.
///
/// # Errors
/// `Unsupported` for another scheme; `File` if the path is empty or contains a NUL byte.
pub fn local_path(location: &str) -> Result<PathBuf> {
    let rest = match location.split_once("://") {
        Some(("file", rest)) => rest.strip_prefix("localhost").unwrap_or(rest),
        Some((scheme, _)) => {
            return Err(EngineError::unsupported(format!(
                "'{location}': the scheme {scheme}:// is not supported yet; use a local path or file://"
            )));
        }
        None => location.strip_prefix("file:").unwrap_or(location),
    };
    if rest.is_empty() {
        return Err(EngineError::new(ErrorKind::File, format!("'{location}' names no file")));
    }
    if rest.contains('\0') {
        return Err(EngineError::new(ErrorKind::File, "a path holds a NUL byte".to_string()));
    }
    Ok(PathBuf::from(rest))
}

/// Returns whether the path has glob characters, and no file has exactly this name.
pub fn is_glob(path: &Path) -> bool {
    path.to_string_lossy().contains(['*', '?', '[', '{']) && !path.exists()
}

/// Lists the files that `location` means, by name. Never empty.
///
/// # Errors
/// `File` if nothing matches (with a near name), or a directory cannot be read; `Denied` if access is denied; `Invalid`
/// if a pattern is invalid.
pub fn list(location: &str, access: &FileAccess) -> Result<Vec<FileEntry>> {
    let path = local_path(location)?;
    let mut found = Vec::new();
    if is_glob(&path) {
        for pattern in braces(&path.to_string_lossy())? {
            expand_glob(&pattern, access, &mut found)?;
        }
    } else {
        access.check(&path)?;
        let meta = std::fs::metadata(&path).map_err(|e| cannot_with_near(&path, &e))?;
        if meta.is_dir() {
            walk(&path, access, &mut found)?;
        } else {
            found.push(FileEntry::of(path.clone())?);
        }
    }
    found.sort_by(|a, b| a.path.cmp(&b.path));
    found.dedup_by(|a, b| a.path == b.path);
    if found.is_empty() {
        return Err(EngineError::new(ErrorKind::File, format!("no files match '{location}'")));
    }
    Ok(found)
}

/// Like [`list`], also for object stores. Refuses files of tables of lake formats.
///
/// # Errors
/// The errors of [`list`], [`lakes::refuse_local`] and [`remote::list`].
pub async fn list_any(
    (stores, listings): (&Arc<Stores>, &Listings),
    location: &str,
    properties: &StoreProperties,
    access: &FileAccess,
) -> Result<Vec<FileEntry>> {
    if !is_remote(location) {
        let found = list(location, access)?;
        lakes::refuse_local(location, &found, access)?;
        return Ok(found);
    }
    let found = listings.list(stores, location, properties).await?;
    match found.is_empty() {
        true => Err(EngineError::new(ErrorKind::File, format!("no files match '{location}'"))),
        false => Ok(found.to_vec()),
    }
}

fn expand_glob(pattern: &str, access: &FileAccess, found: &mut Vec<FileEntry>) -> Result<()> {
    let bad = |e: glob::PatternError| EngineError::invalid(format!("'{pattern}' is not a glob pattern: {}", e.msg));
    let options =
        glob::MatchOptions { case_sensitive: true, require_literal_separator: true, require_literal_leading_dot: true };
    // A final `**` would match only directories, each with those below it; but a directory means all files below it.
    let root = all_below(pattern);
    let start = literal_directory(pattern);
    // Without access, not even matching names may be revealed.
    access.check(start)?;
    let (deep, mut checked) = (pattern.contains("**"), None);
    for entry in glob::glob_with(root.unwrap_or(pattern), options).map_err(bad)? {
        let path = entry.map_err(|e| cannot(e.path(), "list", e.error()))?;
        access.check(&path)?;
        // The files of a directory come one after the other.
        if deep && path.parent() != checked.as_deref() {
            check_no_cycle(start, &path)?;
            checked = path.parent().map(Path::to_path_buf);
        }
        let meta = std::fs::metadata(&path).map_err(|e| cannot(&path, "read", &e))?;
        if meta.is_dir() {
            walk(&path, access, found)?;
        } else if root.is_none() && !is_hidden(&path) {
            found.push(FileEntry::of(path)?);
        }
    }
    Ok(())
}

/// Returns the directory before a pattern's first part with glob characters.
fn literal_directory(pattern: &str) -> &Path {
    let literal = &pattern[..pattern.find(['*', '?', '[']).unwrap_or(pattern.len())];
    match literal.rfind('/') {
        Some(0) => Path::new("/"),
        Some(end) => Path::new(&literal[..end]),
        None => Path::new("."),
    }
}

/// Refuses a path that through links leads back to a directory below `start` that it has passed: `**` would never end,
/// or would find each file again and again.
fn check_no_cycle(start: &Path, path: &Path) -> Result<()> {
    let real = |dir: &Path| dir.canonicalize().map_err(|e| cannot(dir, "read", &e));
    let Some(dir) = path.parent().filter(|dir| !dir.as_os_str().is_empty()) else { return Ok(()) };
    let top = real(start)?;
    if dir.strip_prefix(start).is_ok_and(|rest| real(dir).is_ok_and(|dir| dir == top.join(rest))) {
        return Ok(());
    }
    let mut seen = HashSet::new();
    for dir in dir.ancestors().take_while(|dir| !dir.as_os_str().is_empty() && *dir != start).chain([start]) {
        if !seen.insert(real(dir)?) {
            let message = format!("'{}' comes back to a directory above it by a symbolic link", path.display());
            return Err(EngineError::new(ErrorKind::File, message));
        }
    }
    Ok(())
}

/// Returns the directories (or a pattern for them) of which a pattern means everything below them.
fn all_below(pattern: &str) -> Option<&str> {
    match pattern {
        "**" => Some("."),
        "/**" => Some("/"),
        _ => pattern.strip_suffix("/**"),
    }
}

/// Finds every visible file below `dir`; links are followed and checked.
pub fn walk(dir: &Path, access: &FileAccess, found: &mut Vec<FileEntry>) -> Result<()> {
    walk_to(dir, access, found, 0)
}

/// Limit of nesting, deeper than any real layout; it ends cycles of symbolic links.
const DEPTH_MAX: usize = 64;

fn walk_to(dir: &Path, access: &FileAccess, found: &mut Vec<FileEntry>, depth: usize) -> Result<()> {
    if depth > DEPTH_MAX {
        return Err(EngineError::new(
            ErrorKind::File,
            format!("'{}' is nested more than {DEPTH_MAX} deep", dir.display()),
        ));
    }
    access.check(dir)?;
    for path in children(dir)? {
        let meta = std::fs::metadata(&path).map_err(|e| cannot(&path, "read", &e))?;
        if meta.is_dir() {
            walk_to(&path, access, found, depth + 1)?;
        } else {
            access.check(&path)?;
            found.push(FileEntry::of(path)?);
        }
    }
    Ok(())
}

/// Returns the visible entries of a directory, by name.
pub fn children(dir: &Path) -> Result<Vec<PathBuf>> {
    let failed = |e: &std::io::Error| cannot(dir, "list", e);
    let mut all = Vec::new();
    for entry in std::fs::read_dir(dir).map_err(|e| failed(&e))? {
        let path = entry.map_err(|e| failed(&e))?.path();
        if !is_hidden(&path) {
            all.push(path);
        }
    }
    all.sort();
    Ok(all)
}

/// Returns whether listings leave a file out: its name begins with `_` or `.`.
pub fn is_hidden(path: &Path) -> bool {
    path.file_name().is_some_and(|n| n.as_encoded_bytes().starts_with(b"_") || n.as_encoded_bytes().starts_with(b"."))
}

/// Most groups in braces of one path, and most patterns that it may stand for.
const GROUPS_MAX: usize = 64;
const PATTERNS_MAX: usize = 1000;

/// Expands braces: `a{b,c}d` becomes `abd` and `acd`. The glob crate does not support braces.
///
/// # Errors
/// `Invalid` if the path stands for more than [`PATTERNS_MAX`] patterns, or has more than [`GROUPS_MAX`] groups.
fn braces(pattern: &str) -> Result<Vec<String>> {
    let many = |what, max| EngineError::invalid(format!("a path has more than {max} {what}"));
    if pattern.matches('{').count() > GROUPS_MAX {
        return Err(many("groups in braces", GROUPS_MAX));
    }
    let mut patterns = Vec::new();
    // The next pattern is at the end.
    let mut grouped = vec![pattern.to_string()];
    while let Some(pattern) = grouped.pop() {
        match alternatives(&pattern) {
            Some(all) => grouped.extend(all.into_iter().rev()),
            None => patterns.push(pattern),
        }
        if grouped.len() + patterns.len() > PATTERNS_MAX {
            return Err(many("alternatives in braces", PATTERNS_MAX));
        }
    }
    Ok(patterns)
}

/// Returns the alternatives of the first group in a pattern; `None` if there is no group.
fn alternatives(pattern: &str) -> Option<Vec<String>> {
    let open = pattern.find('{')?;
    let mut depth = 0;
    let mut parts = vec![open + 1];
    for (i, c) in pattern.char_indices().skip_while(|(i, _)| *i < open) {
        match c {
            '{' => depth += 1,
            ',' if depth == 1 => parts.push(i + 1),
            '}' => {
                depth -= 1;
                if depth == 0 {
                    parts.push(i + 1);
                    let (head, tail) = (&pattern[..open], &pattern[i + 1..]);
                    let whole = |part: &[usize]| format!("{head}{}{tail}", &pattern[part[0]..part[1] - 1]);
                    return Some(parts.windows(2).map(whole).collect());
                }
            }
            _ => {}
        }
    }
    None
}

/// Refuses everything but regular files. Reading a named pipe would wait for somebody to write to it.
pub fn check_regular(path: &Path, meta: &std::fs::Metadata) -> Result<()> {
    if meta.is_file() {
        return Ok(());
    }
    let what = if meta.is_dir() { "a directory" } else { "no regular file" };
    let message = format!("cannot read '{}': it is {what}; expected a file", path.display());
    Err(EngineError::new(ErrorKind::File, message))
}

/// Makes the error of a failed file operation: `cannot read 'x': no such file or directory`.
pub fn cannot(path: &Path, what: &str, e: &std::io::Error) -> EngineError {
    let reason = match e.kind() {
        std::io::ErrorKind::NotFound => "no such file or directory".to_string(),
        std::io::ErrorKind::PermissionDenied => "permission denied".to_string(),
        _ => e.to_string(),
    };
    EngineError::new(ErrorKind::File, format!("cannot {what} '{}': {reason}", path.display()))
}

fn cannot_with_near(path: &Path, e: &std::io::Error) -> EngineError {
    let mut error = cannot(path, "read", e);
    if e.kind() == std::io::ErrorKind::NotFound
        && let (Some(dir), Some(name)) = (path.parent(), path.file_name().and_then(|n| n.to_str()))
    {
        let dir = if dir.as_os_str().is_empty() { Path::new(".") } else { dir };
        if let Ok(others) = children(dir) {
            let names: Vec<_> = others.iter().filter_map(|p| p.file_name()?.to_str()).collect();
            if let Some(near) = dipper_base::near::closest(name, names.iter().copied()) {
                error.message.push_str(&format!("; did you mean '{near}'?"));
            }
        }
    }
    error
}

#[cfg(test)]
mod tests {
    use super::*;

    fn touch(dir: &Path, name: &str) {
        let path = dir.join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, "x").unwrap();
    }

    fn names(dir: &Path, pattern: &str) -> Vec<String> {
        let location = dir.join(pattern).display().to_string();
        list(&location, &FileAccess::Any)
            .unwrap()
            .into_iter()
            .map(|f| f.path.strip_prefix(dir).unwrap().display().to_string())
            .collect()
    }

    #[test]
    fn a_path_is_a_file_a_directory_or_a_glob() {
        let dir = tempfile::tempdir().unwrap();
        for name in ["a.csv", "b.csv", "b.txt", "sub/c.csv", "sub/_tmp", ".hidden", "x[1].csv"] {
            touch(dir.path(), name);
        }
        assert_eq!(names(dir.path(), "a.csv"), ["a.csv"]);
        assert_eq!(names(dir.path(), "*.csv"), ["a.csv", "b.csv", "x[1].csv"]);
        assert_eq!(names(dir.path(), "**/*.csv"), ["a.csv", "b.csv", "sub/c.csv", "x[1].csv"]);
        assert_eq!(names(dir.path(), "*/**"), ["sub/c.csv"]);
        assert_eq!(names(dir.path(), "**"), ["a.csv", "b.csv", "b.txt", "sub/c.csv", "x[1].csv"]);
        for (pattern, root) in [("**", Some(".")), ("/**", Some("/")), ("a*/**", Some("a*")), ("a**", None)] {
            assert_eq!(all_below(pattern), root);
        }
        assert_eq!(names(dir.path(), "b.{csv,txt}"), ["b.csv", "b.txt"]);
        assert_eq!(names(dir.path(), "sub"), ["sub/c.csv"]);
        assert_eq!(names(dir.path(), "x[1].csv"), ["x[1].csv"]);
    }

    #[test]
    fn braces_are_bounded() {
        assert_eq!(braces("a{b,c{d,e}}f{g,h}").unwrap(), ["abfg", "abfh", "acdfg", "acdfh", "acefg", "acefh"]);
        assert_eq!(braces("a{b").unwrap(), ["a{b"]);
        assert!(braces(&"{a,b}".repeat(30)).unwrap_err().message.contains("more than 1000 alternatives"));
        assert!(braces(&"{a}".repeat(60_000)).unwrap_err().message.contains("more than 64 groups"));
    }

    #[test]
    fn links_that_lead_back_are_refused() {
        let dir = tempfile::tempdir().unwrap();
        touch(dir.path(), "sub/a.csv");
        std::os::unix::fs::symlink("sub", dir.path().join("other")).unwrap();
        assert_eq!(names(dir.path(), "**/*.csv"), ["other/a.csv", "sub/a.csv"]);
        std::os::unix::fs::symlink(".", dir.path().join("latest")).unwrap();
        let e = list(&dir.path().join("**/*.csv").display().to_string(), &FileAccess::Any).unwrap_err();
        assert!(e.message.contains("comes back to a directory above it"), "{e}");
        assert_eq!(names(dir.path(), "*/*.csv"), ["other/a.csv", "sub/a.csv"]);
    }

    #[test]
    fn a_pattern_tells_nothing_of_what_is_not_allowed() {
        let (inside, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        touch(inside.path(), "a.csv");
        let access = FileAccess::below([inside.path()]).unwrap();
        let at = |p: PathBuf| list(&p.display().to_string(), &access);
        assert_eq!(at(inside.path().join("*.csv")).unwrap().len(), 1);
        // Nothing matches, but the error must not reveal that.
        assert_eq!(at(outside.path().join("x*")).unwrap_err().kind, ErrorKind::Denied);
        for (pattern, start) in [("*.csv", "."), ("/*", "/"), ("/a/b*/c", "/a"), ("a/b/?", "a/b"), ("a/[b]", "a")] {
            assert_eq!(literal_directory(pattern), Path::new(start));
        }
    }

    #[test]
    fn nothing_there_names_the_near_one() {
        let dir = tempfile::tempdir().unwrap();
        touch(dir.path(), "orders.csv");
        let e = list(&dir.path().join("order.csv").display().to_string(), &FileAccess::Any).unwrap_err();
        assert!(e.message.contains("did you mean 'orders.csv'"), "{e}");
    }

    #[test]
    fn links_out_of_an_allowed_directory_are_refused() {
        let (inside, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        touch(outside.path(), "secret.csv");
        touch(inside.path(), "ok.csv");
        std::os::unix::fs::symlink(outside.path(), inside.path().join("link")).unwrap();
        let access = FileAccess::below([inside.path()]).unwrap();
        let at = |p: &Path| list(&p.display().to_string(), &access);
        assert!(at(&inside.path().join("ok.csv")).is_ok());
        assert_eq!(at(&inside.path().join("link/secret.csv")).unwrap_err().kind, ErrorKind::Denied);
        assert_eq!(at(inside.path()).unwrap_err().kind, ErrorKind::Denied);
        assert_eq!(at(&outside.path().join("secret.csv")).unwrap_err().kind, ErrorKind::Denied);
        assert!(access.check(&inside.path().join("new/dir/file")).is_ok());
        assert!(access.check(&inside.path().join("new/../../x")).is_err());
    }
}
