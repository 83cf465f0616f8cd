//! What is done to a database beside the server: backup, restore and check.

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

/// The store of a database, for a tool beside the engine; tables on storage volumes are found in it.
async fn data_store(data: &DataLocation, remote: &RemoteOptions) -> Result<Arc<dyn ObjectStore>> {
    // Each byte is read once: nothing to cache.
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

/// Refuses a directory that is not there: opened, it would be made.
fn there(data: &DataLocation) -> Result<()> {
    match data {
        DataLocation::Local(dir) if !dir.is_dir() => {
            Err(EngineError::new(ErrorKind::File, format!("'{}' is no directory", dir.display())))
        }
        _ => Ok(()),
    }
}

/// Of reads that will not be repeated: they leave the data cache to others.
fn read_once() -> Arc<IoContext> {
    Arc::new(IoContext { populate: Populate::Never, ..IoContext::default() })
}

/// Copies tables of a database into another directory or bucket, also while a server uses it; see
/// [`dipper_store::backup::backup`].
///
/// # Errors
/// There is no backup then.
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
    // The store knows no other name of the place than that it is its root.
    let said = |e: BackupError| match e {
        BackupError::Exists(_) => BackupError::Exists(to.to_string()).to_string(),
        BackupError::Database { object, .. } => BackupError::Database { place: to.to_string(), object }.to_string(),
        BackupError::Occupied { object, .. } => BackupError::Occupied { place: to.to_string(), object }.to_string(),
        e => e.to_string(),
    };
    copied.map_err(|e| EngineError::new(ErrorKind::Storage, said(e)))
}

/// Makes tables from a backup; see [`dipper_store::backup::restore`].
///
/// # Errors
/// Nothing was restored.
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

/// Verifies a data directory, also one that a server uses: chains, the checksum of every byte of data, keys, and that all
/// that is named is there. Of a backup, length and checksum of each of its files. `progress` is told each table's name
/// before it is read.
///
/// # Errors
/// The directory, its catalog or the list of a backup cannot be read; what is wrong with tables is in the report.
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
