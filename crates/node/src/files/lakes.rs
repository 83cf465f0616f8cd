//! Files that belong to a table of a lake format. The table's own metadata say which of its files count, and which of
//! their rows. Reading them by path would return rows that have been replaced or deleted.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use super::{FileAccess, FileEntry};
use crate::error::{EngineError, Result};

/// A lake format that can be recognised by its directories.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Lake {
    Delta,
    Hudi,
    Iceberg,
}

impl Lake {
    /// Returns the directory beside a table's data that holds its metadata.
    fn directory(self) -> &'static str {
        match self {
            Lake::Delta => "_delta_log",
            Lake::Hudi => ".hoodie",
            Lake::Iceberg => "metadata",
        }
    }

    fn refuse(self, location: &str, table: &str) -> EngineError {
        let (name, way) = match self {
            Lake::Iceberg => (
                "an Iceberg table",
                "read it through a catalog: CREATE CATALOG ice PROPERTIES ('type' = 'iceberg', 'iceberg.catalog.type' = \
                 'hadoop', 'warehouse' = '<the directory of its databases>'), then SELECT ... FROM ice.db.table",
            ),
            Lake::Delta => ("a Delta Lake table", DELTA_OR_HUDI),
            Lake::Hudi => ("a Hudi table", DELTA_OR_HUDI),
        };
        EngineError::unsupported(format!(
            "'{location}': '{table}' is {name}, and its files hold rows that were replaced or deleted since; {way}; one file by \
             its whole name is read as it is"
        ))
    }
}

const DELTA_OR_HUDI: &str = "the format is not read: write the table out as Parquet, or have it offered as Iceberg (Delta \
                             UniForm, Apache XTable) and read it through a catalog of type iceberg";

/// Refuses local files of a directory or a pattern if one of them belongs to a table of a lake format. A single file by
/// its exact name is allowed.
///
/// # Errors
/// `Unsupported`; the message names the format, and a way to read the table.
pub fn refuse_local(location: &str, files: &[FileEntry], access: &FileAccess) -> Result<()> {
    if let [file] = files
        && file.path == Path::new(location.strip_prefix("file://").unwrap_or(location))
    {
        return Ok(());
    }
    let mut known: HashMap<PathBuf, Option<Lake>> = HashMap::new();
    for file in files.iter().filter(|file| file.remote.is_none()) {
        for dir in file.path.ancestors().skip(1).filter(|dir| !dir.as_os_str().is_empty()) {
            let lake = *known.entry(dir.to_path_buf()).or_insert_with(|| local(dir, access));
            let inside = |lake: &Lake| file.path.starts_with(dir.join(lake.directory()));
            if let Some(lake) = lake.filter(|lake| !inside(lake)) {
                return Err(lake.refuse(location, &dir.display().to_string()));
            }
        }
    }
    Ok(())
}

fn local(dir: &Path, access: &FileAccess) -> Option<Lake> {
    let has = |lake: Lake| dir.join(lake.directory()).is_dir();
    let lake = match (has(Lake::Delta), has(Lake::Hudi), has(Lake::Iceberg)) {
        (true, ..) => Lake::Delta,
        (_, true, _) => Lake::Hudi,
        (.., true) => Lake::Iceberg,
        _ => return None,
    };
    // Do not reveal what may not be accessed.
    access.check(dir).ok()?;
    let is_metadata = |entry: std::fs::DirEntry| entry.file_name().to_string_lossy().ends_with(ICEBERG_ENDING);
    let has_metadata = || {
        let entries = std::fs::read_dir(dir.join(Lake::Iceberg.directory()));
        entries.is_ok_and(|mut entries| entries.any(|entry| entry.is_ok_and(is_metadata)))
    };
    (lake != Lake::Iceberg || has_metadata()).then_some(lake)
}

const ICEBERG_ENDING: &str = ".metadata.json";

/// Refuses objects of a listing if one of them belongs to a table of a lake format. `all` are the paths of everything
/// that was listed, including hidden objects; `found` are those to be read.
///
/// # Errors
/// `Unsupported`, as in [`refuse_local`].
pub(super) fn refuse_listed<'a>(
    location: &str,
    all: impl Iterator<Item = &'a str>,
    found: impl Iterator<Item = &'a str>,
) -> Result<()> {
    let mut tables: Vec<(&str, Lake)> = Vec::new();
    for path in all {
        let parts = path.rsplit_once('/').map(|(dir, name)| (dir.rsplit_once('/').unwrap_or(("", dir)), name));
        let Some(((table, dir), name)) = parts else { continue };
        let lake = match dir {
            "_delta_log" => Lake::Delta,
            ".hoodie" => Lake::Hudi,
            "metadata" if name.ends_with(ICEBERG_ENDING) => Lake::Iceberg,
            _ => continue,
        };
        if tables.last() != Some(&(table, lake)) {
            tables.push((table, lake));
        }
    }
    if tables.is_empty() {
        return Ok(());
    }
    for path in found {
        let of = tables.iter().find(|(table, lake)| {
            let below =
                if table.is_empty() { Some(path) } else { path.strip_prefix(table).and_then(|p| p.strip_prefix('/')) };
            below.is_some_and(|below| !below.starts_with(&format!("{}/", lake.directory())))
        });
        if let Some((table, lake)) = of {
            return Err(lake.refuse(location, table));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_told_by_their_metadata() {
        let all = [
            "a/t/.hoodie/hoodie.properties",
            "a/t/x=1/f.parquet",
            "b/u/_delta_log/0.json",
            "b/u/f.parquet",
            "c/v/data/f.parquet",
            "c/v/metadata/v1.metadata.json",
            "d/metadata/notes.csv",
            "d/f.parquet",
        ];
        let refused = |found: &[&str]| {
            refuse_listed("s3://x/", all.iter().copied(), found.iter().copied()).err().map(|e| e.message)
        };
        assert_eq!(refused(&["d/f.parquet", "d/metadata/notes.csv", "b/u/_delta_log/0.json"]), None);
        for (path, name) in
            [("a/t/x=1/f.parquet", "Hudi"), ("b/u/f.parquet", "Delta"), ("c/v/data/f.parquet", "Iceberg")]
        {
            assert!(refused(&["d/f.parquet", path]).is_some_and(|e| e.contains(name)), "{path}");
        }
    }

    #[test]
    fn local_directories_too() {
        let root = tempfile::tempdir().unwrap();
        let file = |path: &str| {
            let path = root.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(&path, "x").unwrap();
            FileEntry::of(path).unwrap()
        };
        let delta = [file("t/_delta_log/0.json"), file("t/a.parquet"), file("t/p=1/b.parquet")];
        let plain = [file("plain/a.csv"), file("plain/metadata/b.csv")];
        let refused = |files: &[FileEntry]| refuse_local("t", files, &FileAccess::Any).is_err();
        assert!(refused(&delta[2..]) && refused(&delta[1..]) && !refused(&delta[..1]) && !refused(&plain));
        let whole = delta[1].path.to_str().unwrap();
        assert!(refuse_local(whole, &delta[1..2], &FileAccess::Any).is_ok());
    }
}
