//! Hive's partition directories: `dt=2024-01-31/country=CN/`.
//!
//! Names are escaped as Hive's `FileUtils.escapePathName` does (`%XX`), NULL and the empty string are
//! `__HIVE_DEFAULT_PARTITION__`.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::{FileAccess, FileEntry, cannot, children, walk};
use crate::error::{EngineError, ErrorKind, Result};

/// Value in a directory name that stands for NULL.
pub const NULL_PARTITION: &str = "__HIVE_DEFAULT_PARTITION__";

/// A partition: its directory and the raw text of its values, one per partition column; `None` is NULL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartitionDir {
    /// Values in the order of the partition columns.
    pub values: Vec<Option<String>>,
    /// The directory of its files.
    pub path: PathBuf,
}

impl PartitionDir {
    /// Returns the files of the partition, by name; empty if the directory does not exist.
    ///
    /// # Errors
    /// `File` if the directory cannot be read; `Denied` if access is denied.
    pub fn files(&self, access: &FileAccess) -> Result<Vec<FileEntry>> {
        let mut found = Vec::new();
        if self.path.exists() {
            walk(&self.path, access, &mut found)?;
        }
        Ok(found)
    }
}

/// Finds the partitions of a table below `root`, one directory level per column. `keep` gets the values of the levels
/// so far and prunes before a directory is read. Partitions of `registered` (values to location) are added, or replace
/// those found. A missing `root` is a table without partitions, as in Hive; if there is no `root`, only those of
/// `registered` are returned.
///
/// # Errors
/// `File` if a directory cannot be read, or an entry on the way is not a directory `column=value`; `Denied` if access
/// is denied; the errors of `keep`.
pub fn find(
    root: Option<&Path>,
    columns: &[String],
    registered: &BTreeMap<Vec<Option<String>>, Option<String>>,
    access: &FileAccess,
    keep: &dyn Fn(&[Option<String>]) -> Result<bool>,
) -> Result<Vec<PartitionDir>> {
    let mut found = Vec::new();
    if let Some(root) = root.filter(|r| r.exists()) {
        access.check(root)?;
        descend(root, columns, &mut Vec::new(), keep, &mut found)?;
    }
    for (values, location) in registered {
        found.retain(|p| &p.values != values);
        if keep(values)? {
            let path = match (location, root) {
                (Some(location), _) => super::local_path(location)?,
                (None, Some(root)) => root.join(directory_name(columns, values)),
                (None, None) => continue,
            };
            found.push(PartitionDir { values: values.clone(), path });
        }
    }
    found.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(found)
}

fn descend(
    dir: &Path,
    columns: &[String],
    values: &mut Vec<Option<String>>,
    keep: &dyn Fn(&[Option<String>]) -> Result<bool>,
    found: &mut Vec<PartitionDir>,
) -> Result<()> {
    if values.len() == columns.len() {
        found.push(PartitionDir { values: values.clone(), path: dir.to_path_buf() });
        return Ok(());
    }
    let column = &columns[values.len()];
    for path in children(dir)? {
        let meta = std::fs::metadata(&path).map_err(|e| cannot(&path, "read", &e))?;
        if !meta.is_dir() {
            return Err(EngineError::new(
                ErrorKind::File,
                format!(
                    "'{}' lies where a partition directory {column}=... is expected; move it into one or out of the table",
                    path.display()
                ),
            ));
        }
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let Some(value) = value(column, &name) else {
            return Err(EngineError::new(
                ErrorKind::File,
                format!("'{}' is not a partition directory {column}=...", path.display()),
            ));
        };
        values.push(value);
        if keep(values)? {
            descend(&path, columns, values, keep, found)?;
        }
        values.pop();
    }
    Ok(())
}

/// Returns the value that a directory's name gives a partition column; `None` if the name is not of that column.
pub fn value(column: &str, name: &str) -> Option<Option<String>> {
    let (_, value) = name.split_once('=').filter(|(key, _)| unescape(key).eq_ignore_ascii_case(column))?;
    Some(Some(unescape(value)).filter(|v| v != NULL_PARTITION))
}

/// Returns the directory name of these values, for example `dt=2024-01-31/country=CN`.
pub fn directory_name(columns: &[String], values: &[Option<String>]) -> String {
    let parts: Vec<_> = columns
        .iter()
        .zip(values)
        .map(|(column, value)| {
            let value = match value.as_deref() {
                None | Some("") => NULL_PARTITION.to_string(),
                Some(value) => escape(value),
            };
            format!("{}={value}", escape(&column.to_lowercase()))
        })
        .collect();
    parts.join("/")
}

/// Returns whether Hive writes a character as `%XX` in directory names.
fn must_escape(c: char) -> bool {
    c < ' ' || c == '\x7f' || "\"#%'*/:=?\\{[]^".contains(c)
}

/// Escapes a value for a directory name.
pub fn escape(value: &str) -> String {
    let mut out = String::with_capacity(value.len());
    for c in value.chars() {
        if must_escape(c) {
            out.push_str(&format!("%{:02X}", c as u32));
        } else {
            out.push(c);
        }
    }
    out
}

/// Unescapes a value of a directory name. A `%` without two hexadecimal digits stands for itself.
pub fn unescape(name: &str) -> String {
    percent_encoding::percent_decode_str(name).decode_utf8_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_unescaped_pruned_and_null() {
        let dir = tempfile::tempdir().unwrap();
        for p in ["dt=2024-01-01/c=a%2Fb", "dt=2024-01-01/c=__HIVE_DEFAULT_PARTITION__", "dt=2024-01-02/c=x"] {
            std::fs::create_dir_all(dir.path().join(p)).unwrap();
        }
        let columns = ["dt".to_string(), "c".to_string()];
        let all = find(Some(dir.path()), &columns, &BTreeMap::new(), &FileAccess::Any, &|_| Ok(true)).unwrap();
        let mut values: Vec<_> = all.iter().map(|p| p.values[1].as_deref()).collect();
        values.sort();
        assert_eq!(values, [None, Some("a/b"), Some("x")]);
        let one = find(Some(dir.path()), &columns, &BTreeMap::new(), &FileAccess::Any, &|v| {
            Ok(v[0].as_deref() == Some("2024-01-02"))
        })
        .unwrap();
        assert_eq!(one.len(), 1);
        assert_eq!(directory_name(&columns, &[Some("a:b".into()), None]), "dt=a%3Ab/c=__HIVE_DEFAULT_PARTITION__");
    }

    #[test]
    fn what_is_escaped_comes_back() {
        for text in ["plain", "a=b/c", "50%", "中文", "tab\tend", "q\"uo'te", "[x]{y}^"] {
            assert_eq!(unescape(&escape(text)), text);
        }
    }
}
