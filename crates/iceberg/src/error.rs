//! What can be wrong with an Iceberg table.

/// Result with an [`IcebergError`].
pub type Result<T> = std::result::Result<T, IcebergError>;

/// Why a table cannot be read.
#[derive(Debug, Clone, thiserror::Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum IcebergError {
    /// An object cannot be read.
    #[error("cannot read '{location}': {reason}")]
    Read {
        /// The object.
        location: String,
        /// Why.
        reason: String,
    },
    /// An object is not what the specification says.
    #[error("'{location}' is damaged: {reason}")]
    Damaged {
        /// The object.
        location: String,
        /// What was expected and found.
        reason: String,
    },
    /// Something that this version does not read.
    #[error("{what} is not supported")]
    Unsupported {
        /// What.
        what: String,
    },
    /// No such snapshot, branch or tag.
    #[error("the table has no {wanted}; {there}")]
    NoSnapshot {
        /// What was asked for.
        wanted: String,
        /// What there is.
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
