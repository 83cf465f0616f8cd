//! Errors of reading an Iceberg table.

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

impl IcebergError {
    pub(crate) fn damaged(location: &str, reason: impl Into<String>) -> Self {
        IcebergError::Damaged { location: location.to_string(), reason: reason.into() }
    }

    pub(crate) fn unsupported(what: impl Into<String>) -> Self {
        IcebergError::Unsupported { what: what.into() }
    }
}
