//! Iceberg tables, for reading: what a table looked like at a snapshot, which of its files can hold rows that a query
//! wants, and which rows of them are deleted. Knows object stores and Arrow, no SQL and no DataFusion.
//!
//! The order of things:
//! 1. [`metadata::TableMetadata`] is a JSON file: schemas, partition specs, snapshots.
//! 2. A snapshot names a manifest list, that names manifests, those name files ([`manifest`]; all of it Avro).
//! 3. [`scan::plan`] leaves out manifests and files that a [`predicate::Predicate`] rules out, by partition values and by
//!    the bounds of columns, and finds the delete files that apply to each data file that is left.
//! 4. [`deletes`] reads those: positions as bitmaps, equality deletes as batches.
//!
//! Columns are known by their field ids alone: names, order and types may have changed since a file was written
//! ([`reshape`]).
//!
//! After the Iceberg table specification, versions 1 to 3.

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

pub use error::{IcebergError, Result};

use std::sync::Arc;

use bytes::Bytes;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt};

/// Finds the store of a location as metadata names it: `s3://bucket/key`, `file:/path`, `/path`.
pub trait Locations: Send + Sync {
    /// The store, and the path in it.
    ///
    /// # Errors
    /// The scheme is not known, or access is denied; the text says which.
    fn resolve(&self, location: &str) -> std::result::Result<(Arc<dyn ObjectStore>, Path), String>;
}

/// A metadata file larger than this is taken for damaged.
const OBJECT_BYTES_MAX: u64 = 2 << 30;

/// The bytes of an object.
pub(crate) async fn get(locations: &dyn Locations, location: &str) -> Result<Bytes> {
    let failed = |reason: String| IcebergError::Read { location: location.to_string(), reason };
    let (store, path) = locations.resolve(location).map_err(failed)?;
    let got = store.get(&path).await.map_err(|e| failed(e.to_string()))?;
    if got.meta.size > OBJECT_BYTES_MAX {
        return Err(failed(format!("it has {} bytes, more than {OBJECT_BYTES_MAX}", got.meta.size)));
    }
    got.bytes().await.map_err(|e| failed(e.to_string()))
}

/// A range of an object's bytes.
pub(crate) async fn get_range(locations: &dyn Locations, location: &str, range: std::ops::Range<u64>) -> Result<Bytes> {
    let failed = |reason: String| IcebergError::Read { location: location.to_string(), reason };
    let (store, path) = locations.resolve(location).map_err(failed)?;
    store.get_range(&path, range).await.map_err(|e| failed(e.to_string()))
}
