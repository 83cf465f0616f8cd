//! Backup and restore of tables.
//!
//! A backup is a directory of its own, on any store:
//!
//! ```text
//! <name>/backup               list of tables with their definitions, files with length and CRC-32C; written last
//! <name>/t/<table id>/...     chain and data objects of one version of each table, as they were in the store
//! ```
//!
//! Copying reads one version of each table, while loads and compactions go on. Each copy is opened and verified as a
//! whole ([`crate::check`]) before the backup counts, and again before a restored table gets its name. A restored table
//! has an id of its own; prepared loads that wait in the copy are aborted.
//!
//! A backup needs a directory of its own: nothing is written into the directory of a database or of a storage volume
//! with tables. A backup replaces no object, and when it fails it deletes the objects that it has put, and no others.

use std::collections::BTreeSet;
use std::future::ready;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use dipper_base::retry;
use futures::{StreamExt, TryStreamExt};
use object_store::path::Path;
use object_store::prefix::PrefixStore;
use object_store::{Error, GetOptions, ObjectStore, ObjectStoreExt, PutMode};
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use crate::catalog::{Catalog, CatalogChange, CatalogError, OnExists, TableDef, TableId, TableKind};
use crate::chain::{ChainError, Stored, decode_as, encode_as, is_stray};
use crate::check::{Report, check_table, missing_object};
use crate::table::schema::TableSchema;
use crate::table::{Table, TableChange, TableError, TableState, table_path};
use crate::upload::{PART_BYTES, Upload};
use crate::volumes::STORAGE_VOLUME;

/// Name of the list of a backup's contents.
const MANIFEST: &str = "backup";
/// Format of the list.
const FORMAT: u16 = 1;
/// Most files that are copied, or read, at a time.
const FILES: usize = 4;

/// Why a backup or restore was given up. No part of it counts then.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BackupError {
    /// The catalog could not be read or changed.
    #[error(transparent)]
    Catalog(#[from] CatalogError),
    /// A table could not be read or changed.
    #[error(transparent)]
    Table(#[from] TableError),
    /// The list of a backup could not be read or written.
    #[error(transparent)]
    Chain(#[from] ChainError),
    /// The store failed.
    #[error("cannot {what} {path}: {source}")]
    Store {
        /// The operation that failed.
        what: &'static str,
        /// The object.
        path: String,
        /// The store's error.
        source: Error,
    },
    /// There is no such table.
    #[error("no table '{0}' to copy; names are written database.table, or database for all of its tables")]
    NoTable(String),
    /// The directory holds a backup already.
    #[error("'{0}' holds a backup already; choose an empty directory")]
    Exists(String),
    /// The directory holds a database, of which the files of a backup would become part.
    #[error("'{place}' holds a database, not backups: there is {object}; name an empty directory")]
    Database {
        /// The directory.
        place: String,
        /// An object of the database.
        object: String,
    },
    /// The directory holds files of tables that this backup has not put.
    #[error(
        "'{place}' holds {object} and no backup: another backup is under way or was cut off, or it is a storage volume; \
         name an empty directory"
    )]
    Occupied {
        /// The directory.
        place: String,
        /// One of the files.
        object: String,
    },
    /// A table cannot be copied whole, because an object is missing.
    #[error(
        "table {name} cannot be copied: {path} is missing; restore the table from an earlier backup, or name the other \
         tables to copy them without it"
    )]
    Missing {
        /// The table.
        name: String,
        /// The object.
        path: String,
    },
    /// There is no backup.
    #[error("'{0}' holds no backup: there is no object 'backup' in it")]
    NotFound(String),
    /// A file differs from the one that was backed up.
    #[error("{path} is damaged: expected {expected}, found {found}; nothing was restored")]
    Damaged {
        /// The file.
        path: String,
        /// Length and checksum in the backup's list.
        expected: String,
        /// Length and checksum that were read.
        found: String,
    },
    /// A new name that is not a table's name, or a rename of something that is not a table.
    #[error("cannot restore '{old}' as '{new}': both must be names of tables, written database.table")]
    Rename {
        /// Name in the backup.
        old: String,
        /// New name.
        new: String,
    },
    /// The name of a table to restore is in use.
    #[error(
        "{kind} '{name}' exists already; drop it first, or restore under another name: {old}={name}_restored; nothing was \
         restored"
    )]
    Taken {
        /// Kind of the object that has the name.
        kind: TableKind,
        /// The name in the backup.
        old: String,
        /// Name that the restored table should get.
        name: String,
    },
    /// A copy is not consistent.
    #[error("the copy of {name} is not sound: {problems}")]
    Unsound {
        /// The table.
        name: String,
        /// Description of the problems.
        problems: String,
    },
    /// Versions were freed faster than they were copied.
    #[error("the versions of {0} were replaced {attempts} times while they were copied; try again", attempts = retry::BACKUP.attempts)]
    Contended(String),
}

fn store(what: &'static str, path: &Path, source: Error) -> BackupError {
    BackupError::Store { what, path: path.to_string(), source }
}

/// A file of a backup.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    /// Path below the table's directory.
    path: String,
    bytes: u64,
    crc32c: u32,
}

/// A table or view of a backup.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Saved {
    database: String,
    name: String,
    id: TableId,
    def: TableDef,
    /// Number of rows of a native table; 0 for others.
    rows: u64,
    files: Vec<File>,
}

/// The contents of a backup.
#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Manifest {
    created_ms: i64,
    tables: Vec<Saved>,
}

impl Stored for Manifest {
    const KIND: &'static [u8; 4] = b"bkup";

    fn number(&self) -> u64 {
        0
    }
}

/// A table that was copied or restored.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Copied {
    /// `database.table`.
    pub name: String,
    /// Number of files.
    pub files: u64,
    /// Bytes of those files.
    pub bytes: u64,
    /// Number of rows.
    pub rows: u64,
}

impl Copied {
    fn of(name: String, saved: &Saved) -> Self {
        let bytes = saved.files.iter().map(|f| f.bytes).sum();
        Copied { name, files: saved.files.len() as u64, bytes, rows: saved.rows }
    }
}

/// Returns a directory of a store as a store.
fn below(of: &Arc<dyn ObjectStore>, prefix: &Path) -> Arc<dyn ObjectStore> {
    Arc::new(PrefixStore::new(Arc::clone(of), prefix.clone()))
}

/// The directory that a backup goes to, and the objects that it has put there.
struct Target {
    /// Name of the directory for messages.
    place: String,
    store: Arc<dyn ObjectStore>,
    /// Objects that were begun and not deleted again.
    put: Mutex<BTreeSet<Path>>,
}

impl Target {
    fn new(of: &Arc<dyn ObjectStore>, dir: &Path) -> Self {
        let place = if dir.is_root() { of.to_string() } else { dir.to_string() };
        Target { place, store: below(of, dir), put: Mutex::default() }
    }

    /// Refuses a directory that holds a backup, a database or tables. A directory that tables are copied from is
    /// therefore refused, whatever the two directories are called.
    async fn check(&self) -> Result<(), BackupError> {
        let manifest = Path::from(MANIFEST);
        match self.store.head(&manifest).await {
            Ok(_) => return Err(BackupError::Exists(self.place.clone())),
            Err(Error::NotFound { .. }) => {}
            Err(e) => return Err(store("look for", &manifest, e)),
        }
        // A new database, in which nothing was created yet, has labels or leases at most.
        for dir in ["catalog", "label", "lease"] {
            if let Some(object) = self.first(dir).await? {
                return Err(BackupError::Database { place: self.place.clone(), object });
            }
        }
        // A storage volume has tables and no catalog. Its tables could be those that are to be copied, and the vacuum
        // of its database would delete the copies of others.
        match self.first("t").await? {
            Some(object) => Err(self.occupied(object)),
            None => Ok(()),
        }
    }

    /// Returns an object below a directory, if there is one.
    async fn first(&self, dir: &str) -> Result<Option<String>, BackupError> {
        let dir = Path::from(dir);
        let found = self.store.list(Some(&dir)).next().await.transpose().map_err(|e| store("list", &dir, e))?;
        Ok(found.map(|meta| meta.location.to_string()))
    }

    fn occupied(&self, object: String) -> BackupError {
        BackupError::Occupied { place: self.place.clone(), object }
    }

    /// Copies an object to the same path, where no object may be.
    async fn copy(&self, from: &Arc<dyn ObjectStore>, path: &Path) -> Result<File, BackupError> {
        match self.store.head(path).await {
            // Another backup wrote here meanwhile: its object must neither be replaced nor be deleted as ours.
            Ok(_) => return Err(self.occupied(path.to_string())),
            Err(Error::NotFound { .. }) => {}
            Err(e) => return Err(store("look for", path, e)),
        }
        // Recorded before the put, because a put that fails may have succeeded.
        self.put.lock().insert(path.clone());
        copy(from, path, &self.store, path).await
    }

    /// Deletes the objects that were put below a directory.
    async fn clear(&self, dir: &Path) -> Result<(), BackupError> {
        let put: Vec<Path> = self.put.lock().iter().filter(|path| path.prefix_matches(dir)).cloned().collect();
        let paths = futures::stream::iter(put.into_iter().map(Ok)).boxed();
        let mut deleted = self.store.delete_stream(paths);
        while let Some(one) = deleted.next().await {
            match one {
                // Its put failed.
                Ok(_) | Err(Error::NotFound { .. }) => {}
                Err(e) => return Err(store("clear", dir, e)),
            }
        }
        self.put.lock().retain(|path| !path.prefix_matches(dir));
        Ok(())
    }

    /// Deletes all objects that were put, as far as the store allows. The error that counts is the one for which the
    /// backup was given up.
    async fn give_up(&self) {
        if let Err(error) = self.clear(&Path::default()).await {
            tracing::warn!(place = %self.place, %error, "files of a backup that was given up stay there");
        }
    }
}

/// Copies tables of `from` into the directory `to` of another store. `wanted` are names, `database.table` or
/// `database`; empty for everything. `progress` is called for each table when it is copied.
///
/// # Errors
/// The [`BackupError`] for which the backup was given up. No backup exists then, and copies are deleted as far as the
/// store allows. If `to` holds a backup or a database, nothing was written.
pub async fn backup(
    from: &Arc<dyn ObjectStore>,
    target: &Arc<dyn ObjectStore>,
    to: &Path,
    wanted: &[String],
    progress: impl FnMut(&Copied),
) -> Result<Vec<Copied>, BackupError> {
    let target = Target::new(target, to);
    target.check().await?;
    let (manifest, done) = match copy_tables(from, &target, wanted, progress).await {
        Ok(copied) => copied,
        Err(e) => {
            target.give_up().await;
            return Err(e);
        }
    };
    let path = Path::from(MANIFEST);
    let bytes = encode_as(FORMAT, &manifest).map_err(|e| ChainError::Damaged {
        path: path.to_string(),
        reason: format!("cannot be written as JSON: {e}"),
    })?;
    match target.store.put_opts(&path, bytes.into(), PutMode::Create.into()).await {
        Ok(_) => Ok(done),
        Err(Error::AlreadyExists { .. }) => {
            target.give_up().await;
            Err(BackupError::Exists(target.place))
        }
        // The put may have succeeded: then the files are those of a backup.
        Err(e) => Err(store("write", &path, e)),
    }
}

/// Copies everything but the list, and returns the list.
async fn copy_tables(
    from: &Arc<dyn ObjectStore>,
    target: &Target,
    wanted: &[String],
    mut progress: impl FnMut(&Copied),
) -> Result<(Manifest, Vec<Copied>), BackupError> {
    let catalog = Catalog::open(Arc::clone(from)).await?.snapshot();
    let names = |database: &str, table: &str| [database.to_string(), format!("{database}.{table}")];
    for name in wanted {
        if !catalog.tables().any(|(d, t)| names(&d.name, &t.name).contains(name)) {
            return Err(BackupError::NoTable(name.clone()));
        }
    }
    let mut tables = Vec::new();
    let mut done = Vec::new();
    // Temporary tables end with their sessions.
    for (database, table) in catalog.tables().filter(|(_, table)| !table.is_temporary()) {
        if !wanted.is_empty() && !names(&database.name, &table.name).iter().any(|n| wanted.contains(n)) {
            continue;
        }
        let name = format!("{}.{}", database.name, table.name);
        let mut saved = Saved {
            database: database.name.clone(),
            name: table.name.clone(),
            id: table.id,
            def: table.def.clone(),
            rows: 0,
            files: Vec::new(),
        };
        if table.is_native() {
            let (state, files) = copy_table(from, target, table.id, &name).await?;
            (saved.rows, saved.files) = (state.rows(), files);
        }
        let copied = Copied::of(name, &saved);
        progress(&copied);
        done.push(copied);
        tables.push(saved);
    }
    Ok((Manifest { created_ms: chrono::Utc::now().timestamp_millis(), tables }, done))
}

/// Copies one version of a table, and verifies the copy.
async fn copy_table(
    from: &Arc<dyn ObjectStore>,
    target: &Target,
    id: TableId,
    name: &str,
) -> Result<(Arc<TableState>, Vec<File>), BackupError> {
    let dir = table_path(id);
    for _ in 0..retry::BACKUP.attempts {
        target.clear(&dir).await?;
        let Some(mut files) = copy_chain(from, target, &dir).await? else { continue };
        // A version may have been freed between two listings: then the copy does not open.
        let table = match Table::open(Arc::clone(&target.store), id).await {
            Ok(table) => table,
            Err(TableError::Chain(ChainError::Contended { .. }) | TableError::NotFound { .. }) => {
                // An object that is missing in the table itself is missing in every copy.
                if let Some(path) = missing_object(from, id).await {
                    return Err(BackupError::Missing { name: name.to_string(), path: path.to_string() });
                }
                continue;
            }
            Err(e) => return Err(e.into()),
        };
        let state = table.snapshot();
        let objects = data_objects(&table, &state);
        let failed = &AtomicBool::new(false);
        let copies = objects.into_iter().map(|path| async move {
            let copied = target.copy(from, &path).await;
            if copied.is_err() {
                failed.store(true, Ordering::Relaxed);
            }
            copied
        });
        // After an error no copy begins, but those under way run to their end: a put that is abandoned would be missed
        // by the clean-up.
        let copied: Vec<Result<File, BackupError>> = futures::stream::iter(copies)
            .take_while(|_| ready(!failed.load(Ordering::Relaxed)))
            .buffer_unordered(FILES)
            .collect()
            .await;
        for file in copied {
            files.push(file?.below(&dir));
        }
        verify(name, &table).await?;
        files.sort_by(|a, b| a.path.cmp(&b.path));
        return Ok((state, files));
    }
    Err(BackupError::Contended(name.to_string()))
}

/// Copies a chain's objects; `None` if some were freed meanwhile.
async fn copy_chain(
    from: &Arc<dyn ObjectStore>,
    target: &Target,
    dir: &Path,
) -> Result<Option<Vec<File>>, BackupError> {
    let mut files = Vec::new();
    // Versions last: those after the checkpoint that was listed are there, unless a newer checkpoint has freed them.
    for kind in ["c", "p", "done", "v"] {
        let dir_of = dir.clone().join(kind);
        let listed: Vec<Path> = from
            .list(Some(&dir_of))
            .map_ok(|m| m.location)
            .try_collect()
            .await
            .map_err(|e| store("list", &dir_of, e))?;
        for path in listed.into_iter().filter(|path| !is_stray(&dir_of, path)) {
            match target.copy(from, &path).await {
                Ok(copied) => files.push(copied.below(dir)),
                Err(BackupError::Store { source: Error::NotFound { .. }, .. }) => return Ok(None),
                Err(e) => return Err(e),
            }
        }
    }
    Ok(Some(files))
}

/// Returns the paths of the data objects that a state names.
fn data_objects(table: &Table, state: &TableState) -> BTreeSet<Path> {
    let prepared = state.prepared().values().flat_map(|p| p.rowset.objects.iter().map(|o| o.id));
    state.all_segments().map(|s| s.id.object).chain(prepared).map(|id| table.data_path(id)).collect()
}

async fn verify(name: &str, table: &Table) -> Result<(), BackupError> {
    let mut report = Report::default();
    check_table(name, table, &mut report).await;
    if report.problems.is_empty() {
        return Ok(());
    }
    Err(BackupError::Unsound { name: name.to_string(), problems: report.problems.join("; ") })
}

/// Deletes all objects in a directory.
async fn clear(of: &Arc<dyn ObjectStore>, dir: &Path) -> Result<(), BackupError> {
    let there = of.list(Some(dir)).map_ok(|m| m.location).boxed();
    of.delete_stream(there).try_for_each(|_| ready(Ok(()))).await.map_err(|e| store("clear", dir, e))
}

impl File {
    /// Returns length and checksum, for messages.
    fn measures(&self) -> String {
        format!("{} bytes with CRC-32C {:08x}", self.bytes, self.crc32c)
    }

    fn below(mut self, dir: &Path) -> Self {
        if let Some(rest) = self.path.strip_prefix(dir.as_ref()) {
            self.path = rest.trim_start_matches('/').to_string();
        }
        self
    }
}

/// Copies an object in parts, each read by a request of its own, because layers between may hold the whole answer of a
/// request in memory. Returns length and checksum of the copied bytes.
async fn copy(
    from: &Arc<dyn ObjectStore>,
    path: &Path,
    target: &Arc<dyn ObjectStore>,
    to: &Path,
) -> Result<File, BackupError> {
    let mut upload = Upload::new(Arc::clone(target), to.clone());
    match read(from, path, Some((&mut upload, to))).await {
        Ok(file) => upload.finish().await.map(|()| file).map_err(|e| store("write", to, e)),
        Err(e) => {
            upload.abort().await;
            Err(e)
        }
    }
}

/// Reads an object in parts, and passes them to an upload with its path, if there is one.
async fn read(
    from: &Arc<dyn ObjectStore>,
    path: &Path,
    mut into: Option<(&mut Upload, &Path)>,
) -> Result<File, BackupError> {
    let mut file = File { path: path.to_string(), bytes: 0, crc32c: 0 };
    loop {
        let part = GetOptions::default().with_range(Some(file.bytes..file.bytes + PART_BYTES as u64));
        let got = from.get_opts(path, part).await.map_err(|e| store("read", path, e))?;
        let size = got.meta.size;
        let mut stream = got.into_stream();
        while let Some(chunk) = stream.next().await {
            let chunk = chunk.map_err(|e| store("read", path, e))?;
            file.bytes += chunk.len() as u64;
            file.crc32c = crc32c::crc32c_append(file.crc32c, &chunk);
            if let Some((upload, to)) = &mut into {
                upload.write([chunk]).await.map_err(|e| store("write", to, e))?;
            }
        }
        if file.bytes >= size {
            return Ok(file);
        }
    }
}

/// Reads the list of a backup; `None` if there is none.
async fn manifest(source: &Arc<dyn ObjectStore>) -> Result<Option<Manifest>, BackupError> {
    let path = Path::from(MANIFEST);
    let bytes = match source.get(&path).await {
        Ok(found) => found.bytes().await.map_err(|e| store("read", &path, e))?,
        Err(Error::NotFound { .. }) => return Ok(None),
        Err(e) => return Err(store("read", &path, e)),
    };
    Ok(Some(decode_as(FORMAT, path.as_ref(), 0, &bytes)?))
}

/// Verifies length and checksum of each file of a backup as [`restore`] does, without making tables of it. `progress`
/// is called with each table's name before it is read. `None` if there is no backup.
///
/// # Errors
/// [`BackupError`] if the list of files cannot be read. Defects of files are reported as [problems](Report::problems).
pub async fn check(
    source: &Arc<dyn ObjectStore>,
    mut progress: impl FnMut(&str),
) -> Result<Option<Report>, BackupError> {
    let Some(manifest) = manifest(source).await? else { return Ok(None) };
    let mut report = Report::default();
    let catalog = Path::from("catalog");
    if let Some(object) = source.list(Some(&catalog)).next().await {
        let object = object.map_err(|e| store("list", &catalog, e))?.location;
        report.problems.push(format!(
            "{MANIFEST}, the list of a backup, is beside {object}, which is of a database: only the backup is checked; move \
             {MANIFEST} away to check the database"
        ));
    }
    for saved in manifest.tables.iter().filter(|saved| !saved.files.is_empty()) {
        let name = format!("{}.{}", saved.database, saved.name);
        progress(&name);
        report.tables += 1;
        report.rows += saved.rows;
        let reads = saved.files.iter().map(|file| {
            let path = Path::from(format!("{}/{}", table_path(saved.id), file.path));
            async move {
                let found = read(source, &path, None).await;
                (file, path, found)
            }
        });
        let mut reads = std::pin::pin!(futures::stream::iter(reads.collect::<Vec<_>>()).buffered(FILES));
        while let Some((file, path, found)) = reads.next().await {
            report.objects += 1;
            match found {
                Ok(found) if (found.bytes, found.crc32c) == (file.bytes, file.crc32c) => report.bytes += found.bytes,
                Ok(found) => report.problems.push(format!(
                    "table {name}: {path} is damaged: expected {}, found {}",
                    file.measures(),
                    found.measures()
                )),
                Err(e) => report.problems.push(format!("table {name}: {e}")),
            }
        }
    }
    Ok(Some(report))
}

/// Makes the tables of a backup in `to`, under new names as given by `renamed` (`(database.table, database.table)`).
/// For `wanted` see [`backup`]. All tables are copied and verified before they get their names, in one commit.
///
/// # Errors
/// The [`BackupError`] for which the restore was given up. Nothing was restored then; copies are deleted as far as the
/// store allows.
pub async fn restore(
    source: &Arc<dyn ObjectStore>,
    from: &Path,
    to: &Arc<dyn ObjectStore>,
    wanted: &[String],
    renamed: &[(String, String)],
    mut progress: impl FnMut(&Copied),
) -> Result<Vec<Copied>, BackupError> {
    let source = below(source, from);
    let manifest = manifest(&source).await?.ok_or_else(|| BackupError::NotFound(from.to_string()))?;
    let names = |s: &Saved| [s.database.clone(), format!("{}.{}", s.database, s.name)];
    let asked = wanted.iter().chain(renamed.iter().map(|(old, _)| old));
    if let Some(name) = asked.clone().find(|name| !manifest.tables.iter().any(|s| names(s).contains(name))) {
        return Err(BackupError::NoTable(name.clone()));
    }
    for (old, new) in renamed {
        let one = manifest.tables.iter().any(|s| names(s)[1] == *old);
        if !one || table_name(new).is_none() {
            return Err(BackupError::Rename { old: old.clone(), new: new.clone() });
        }
    }
    let all = asked.clone().next().is_none();
    let mut changes = Vec::new();
    let mut made = Vec::new();
    let mut done = Vec::new();
    let at_ms = chrono::Utc::now().timestamp_millis();
    let result = async {
        for saved in manifest.tables.iter().filter(|s| all || asked.clone().any(|n| names(s).contains(n))) {
            let old = format!("{}.{}", saved.database, saved.name);
            let renamed = renamed.iter().find(|(name, _)| *name == old).and_then(|(_, new)| table_name(new));
            let (db, name) = renamed.unwrap_or((saved.database.as_str(), saved.name.as_str()));
            let id = TableId::fresh();
            if !saved.files.is_empty() {
                made.push(id);
                restore_table(&source, to, saved, id).await?;
            }
            changes.push(CatalogChange::create_database(db, true));
            changes.push(CatalogChange::Create {
                id,
                db: db.into(),
                name: name.into(),
                def: saved.def.clone(),
                on_exists: OnExists::Fail,
                // Its objects were copied below the database.
                volume: None,
                at_ms,
            });
            let copied = Copied::of(format!("{db}.{name}"), saved);
            progress(&copied);
            done.push(copied);
        }
        let catalog = Catalog::open(Arc::clone(to)).await?;
        catalog.commit(std::mem::take(&mut changes)).await.map_err(|e| refused(e, renamed))?;
        Ok::<_, BackupError>(())
    }
    .await;
    if let Err(e) = result {
        let open = matches!(&e, BackupError::Catalog(CatalogError::Chain(ChainError::Unknown { .. })));
        // If the outcome of the commit is open, the catalog may name them.
        for id in made.into_iter().filter(|_| !open) {
            let _ = clear(to, &table_path(id)).await;
        }
        return Err(e);
    }
    Ok(done)
}

/// Splits a name into database and table; `None` if it has not exactly these two parts.
fn table_name(name: &str) -> Option<(&str, &str)> {
    let parts = name.split_once('.');
    parts.filter(|(database, table)| !database.is_empty() && !table.is_empty() && !table.contains('.'))
}

/// Converts the error of the commit that gives restored tables their names. The catalog's advice is for writers of
/// statements.
fn refused(e: CatalogError, renamed: &[(String, String)]) -> BackupError {
    match e {
        CatalogError::TableExists { db, table, kind } => {
            let name = format!("{db}.{table}");
            let old = renamed.iter().find(|(_, new)| *new == name).map_or(&name, |(old, _)| old).clone();
            BackupError::Taken { kind, old, name }
        }
        e => e.into(),
    }
}

/// Copies a table under a new id, and verifies it.
async fn restore_table(
    source: &Arc<dyn ObjectStore>,
    to: &Arc<dyn ObjectStore>,
    saved: &Saved,
    id: TableId,
) -> Result<(), BackupError> {
    let (old, new) = (table_path(saved.id), table_path(id));
    let copies = saved.files.iter().map(|file| {
        let join = |dir: &Path| Path::from(format!("{dir}/{}", file.path));
        let (path, target) = (join(&old), join(&new));
        async move {
            let found = copy(source, &path, to, &target).await?;
            if (found.bytes, found.crc32c) == (file.bytes, file.crc32c) {
                return Ok(());
            }
            Err(BackupError::Damaged { path: path.to_string(), expected: file.measures(), found: found.measures() })
        }
    });
    // Runs to the end, also after an error: a put that goes on would be missed by the clean-up.
    let done: Vec<Result<(), BackupError>> = futures::stream::iter(copies).buffer_unordered(FILES).collect().await;
    done.into_iter().collect::<Result<(), BackupError>>()?;
    let table = Table::open(Arc::clone(to), id).await?;
    let name = format!("{}.{}", saved.database, saved.name);
    verify(&name, &table).await?;
    let prepared: Vec<_> = table.snapshot().prepared().keys().copied().collect();
    for txn in prepared {
        table.abort_prepared(txn).await?;
    }
    // The property names the volume of the original. The copy is below the database, which may have no such volume.
    let mut schema = TableSchema::clone(table.snapshot().schema());
    if schema.properties.remove(STORAGE_VOLUME).is_some() {
        let expected = schema.version;
        schema.version = expected + 1;
        table.commit(TableChange::Schema { expected, schema }).await?;
    }
    Ok(())
}

#[cfg(test)]
#[path = "backup_tests.rs"]
mod tests;
