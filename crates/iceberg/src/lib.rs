//! Iceberg tables, for reading: the state of a table at a snapshot, the files that can hold rows that a query wants,
//! and the deleted rows in them. The crate knows object stores and Arrow, but no SQL and no DataFusion.
//!
//! Order of reading:
//! 1. [`metadata::TableMetadata`] is a JSON file: schemas, partition specs, snapshots.
//! 2. A snapshot names a manifest list, which names manifests, which name files ([`manifest`]; all of them Avro).
//! 3. [`scan::plan`] leaves out manifests and files that a [`predicate::Predicate`] excludes by partition values and by
//!    the bounds of columns, and finds the delete files that apply to each remaining data file.
//! 4. [`deletes`] reads these: positions as bitmaps, equality deletes as batches.
//!
//! Columns are identified by their field ids alone: names, order and types may have changed since a file was written
//! ([`reshape`]).
//!
//! The source is the Iceberg table specification, versions 1 to 3.
//!
//! This crate must not know SQL and DataFusion.

mod avro;
pub mod deletes;
mod error;
pub mod manifest;
pub mod metadata;
pub mod predicate;
pub mod reshape;
pub mod scan;
pub mod schema;
pub mod transform;
pub mod value;

pub use error::{IcebergError, Result, StoreError};

use std::sync::Arc;

use bytes::Bytes;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt};

/// Finds the store of a location in the form of Iceberg metadata: `s3://bucket/key`, `file:/path`, `/path`.
pub trait Locations: Send + Sync {
    /// Returns the store, and the path in it.
    ///
    /// # Errors
    /// A text that says whether the scheme is unknown or access is denied.
    fn resolve(&self, location: &str) -> std::result::Result<(Arc<dyn ObjectStore>, Path), String>;
}

/// A larger metadata file counts as damaged.
const OBJECT_BYTES_MAX: u64 = 2 << 30;

/// Reads the bytes of an object.
pub(crate) async fn get(locations: &dyn Locations, location: &str) -> Result<Bytes> {
    let failed = |reason: String| IcebergError::Read { location: location.to_string(), reason, source: None };
    let (store, path) = locations.resolve(location).map_err(failed)?;
    let got = store.get(&path).await.map_err(|e| IcebergError::read(location, e))?;
    if got.meta.size > OBJECT_BYTES_MAX {
        return Err(failed(format!("it has {} bytes, more than {OBJECT_BYTES_MAX}", got.meta.size)));
    }
    got.bytes().await.map_err(|e| IcebergError::read(location, e))
}

/// Reads a range of an object's bytes.
pub(crate) async fn get_range(locations: &dyn Locations, location: &str, range: std::ops::Range<u64>) -> Result<Bytes> {
    let failed = |reason: String| IcebergError::Read { location: location.to_string(), reason, source: None };
    let (store, path) = locations.resolve(location).map_err(failed)?;
    store.get_range(&path, range).await.map_err(|e| IcebergError::read(location, e))
}
