//! Errors of reading an Iceberg table.

use std::fmt;
use std::sync::Arc;

/// Result with an [`IcebergError`].
pub type Result<T> = std::result::Result<T, IcebergError>;

/// Reason why a table cannot be read.
#[derive(Debug, Clone, thiserror::Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum IcebergError {
    /// An object cannot be read.
    #[error("cannot read '{location}': {reason}")]
    Read {
        /// The object.
        location: String,
        /// Reason.
        reason: String,
        /// The store's own error, if it was asked.
        source: Option<StoreError>,
    },
    /// An object violates the specification.
    #[error("'{location}' is damaged: {reason}")]
    Damaged {
        /// The object.
        location: String,
        /// The expected and the actual content.
        reason: String,
    },
    /// A feature that this version does not read.
    #[error("{what} is not supported")]
    Unsupported {
        /// The feature.
        what: String,
    },
    /// There is no such snapshot, branch or tag.
    #[error("the table has no {wanted}; {there}")]
    NoSnapshot {
        /// The requested snapshot, branch or tag.
        wanted: String,
        /// The existing ones.
        there: String,
    },
}

/// An error of a store. Two are equal if their words are.
#[derive(Debug, Clone)]
pub struct StoreError(Arc<object_store::Error>);

impl PartialEq for StoreError {
    fn eq(&self, other: &Self) -> bool {
        self.0.to_string() == other.0.to_string()
    }
}

impl Eq for StoreError {}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl std::error::Error for StoreError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&*self.0)
    }
}

impl IcebergError {
    /// What a store says instead of an object's bytes.
    pub fn read(location: &str, e: object_store::Error) -> Self {
        let (location, reason) = (location.to_string(), e.to_string());
        IcebergError::Read { location, reason, source: Some(StoreError(Arc::new(e))) }
    }

    pub(crate) fn damaged(location: &str, reason: impl Into<String>) -> Self {
        IcebergError::Damaged { location: location.to_string(), reason: reason.into() }
    }

    pub(crate) fn unsupported(what: impl Into<String>) -> Self {
        IcebergError::Unsupported { what: what.into() }
    }
}
