//! Operations on a database without a server: backup, restore and check.

use std::sync::Arc;

use dipper_cache::{CacheOptions, DataCache, IoContext, Populate};
use dipper_store::backup::{BackupError, Copied};
use dipper_store::catalog::Catalog;
use dipper_store::volumes::VolumeStore;
use object_store::ObjectStore;

use crate::error::{EngineError, ErrorKind, Result};
use crate::files::stores::Stores;
use crate::location::{self, DataLocation, RemoteOptions};
use crate::tables::volumes::Volumes;

/// Opens the store of a database for a tool. Tables on storage volumes are found in it.
async fn data_store(data: &DataLocation, remote: &RemoteOptions) -> Result<Arc<dyn ObjectStore>> {
    // Each byte is read once, so there is nothing to cache.
    let cache = DataCache::open(&CacheOptions { memory_bytes: 0, ..CacheOptions::default() });
    let stores = Arc::new(Stores::new(tokio::runtime::Handle::current(), cache, remote.properties.clone()));
    let root = location::open(Some(data), &stores)?.store;
    let catalog = Catalog::open(Arc::clone(&root)).await?;
    let volumes = Volumes::new(Arc::new(VolumeStore::new(root)), stores, catalog.clone());
    for (_, table) in catalog.snapshot().tables().filter(|(_, t)| t.is_native()) {
        volumes.locate(table.id)?;
    }
    Ok(volumes.store())
}

/// Refuses a directory that does not exist: opening it would create it.
fn there(data: &DataLocation) -> Result<()> {
    match data {
        DataLocation::Local(dir) if !dir.is_dir() => {
            Err(EngineError::new(ErrorKind::File, format!("'{}' is no directory", dir.display())))
        }
        _ => Ok(()),
    }
}

/// Returns a context for reads that will not be repeated: they do not fill the data cache.
fn read_once() -> Arc<IoContext> {
    Arc::new(IoContext { populate: Populate::Never, ..IoContext::default() })
}

/// Copies tables of a database to another directory or object store, also while a server uses it; see
/// [`dipper_store::backup::backup`].
///
/// # Errors
/// `Storage` if the backup failed; there is no backup then. `File` if the directory does not exist; the errors of
/// opening the stores.
pub async fn backup(
    data: &DataLocation,
    to: &DataLocation,
    remote: &RemoteOptions,
    tables: &[String],
    progress: impl FnMut(&Copied),
) -> Result<Vec<Copied>> {
    there(data)?;
    let (from, target) = (data_store(data, remote).await?, data_store(to, remote).await?);
    let root = object_store::path::Path::default();
    let copied = read_once().scope(dipper_store::backup::backup(&from, &target, &root, tables, progress)).await;
    // The store knows the target only as its root.
    let said = |e: BackupError| match e {
        BackupError::Exists(_) => BackupError::Exists(to.to_string()).to_string(),
        BackupError::Database { object, .. } => BackupError::Database { place: to.to_string(), object }.to_string(),
        BackupError::Occupied { object, .. } => BackupError::Occupied { place: to.to_string(), object }.to_string(),
        e => e.to_string(),
    };
    copied.map_err(|e| EngineError::new(ErrorKind::Storage, said(e)))
}

/// Creates tables from a backup; see [`dipper_store::backup::restore`].
///
/// # Errors
/// `Storage` if the restore failed; nothing was restored then. `File` if the backup's directory does not exist; the
/// errors of opening the stores.
pub async fn restore(
    from: &DataLocation,
    data: &DataLocation,
    remote: &RemoteOptions,
    tables: &[String],
    renamed: &[(String, String)],
    progress: impl FnMut(&Copied),
) -> Result<Vec<Copied>> {
    there(from)?;
    let (source, to) = (data_store(from, remote).await?, data_store(data, remote).await?);
    let root = object_store::path::Path::default();
    let copied = read_once().scope(dipper_store::backup::restore(&source, &root, &to, tables, renamed, progress)).await;
    let said = |e: BackupError| match e {
        BackupError::NotFound(_) => BackupError::NotFound(from.to_string()).to_string(),
        e => format!("restore from '{from}': {e}"),
    };
    copied.map_err(|e| EngineError::new(ErrorKind::Storage, said(e)))
}

/// Verifies a data directory, also one that a server uses: chains, the checksum of every byte of data, keys, and that
/// all named objects exist. Of a backup, it verifies length and checksum of each file. `progress` gets each table's
/// name before the table is read.
///
/// # Errors
/// `File` or `Storage` if the directory, its catalog or the list of a backup cannot be read. Damage of tables is in the
/// report.
pub async fn check(
    data: &DataLocation,
    remote: &RemoteOptions,
    mut progress: impl FnMut(&str),
) -> Result<dipper_store::check::Report> {
    there(data)?;
    let store = data_store(data, remote).await?;
    let checked = async {
        match dipper_store::backup::check(&store, &mut progress).await {
            Ok(Some(report)) => Ok(report),
            Ok(None) => Ok(dipper_store::check::check(&store, &mut progress).await?),
            Err(e) => Err(EngineError::of(ErrorKind::Storage, e)),
        }
    };
    read_once().scope(checked).await
}
