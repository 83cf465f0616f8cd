//! Errors of reading a chain of versions and of committing to it.

use std::fmt;
use std::sync::Arc;

use object_store::Error;

/// Why a chain could not be read or a commit did not succeed.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ChainError {
    /// The store below refused or failed; nothing was changed.
    #[error("{path}: {source}")]
    Store {
        /// Object, or prefix of a listing.
        path: String,
        /// The store's own error.
        source: Error,
    },
    /// An object's bytes differ from those that were written.
    #[error("{path}: damaged: {reason}; restore it from a backup")]
    Damaged {
        /// Object.
        path: String,
        /// The bytes expected and found, with their position.
        reason: String,
    },
    /// The object was written by a newer dipper.
    #[error("{path}: format version {found}, this dipper reads up to {supported}; use a newer dipper")]
    Newer {
        /// Object.
        path: String,
        /// Version in the object.
        found: u32,
        /// Newest version that is understood.
        supported: u32,
    },
    /// No consistent state was found, or no number was won, in the given number of attempts; nothing was changed.
    #[error("{path}: {what} did not succeed in {attempts} attempts ({reason}); repeat the statement")]
    Contended {
        /// Prefix of the chain.
        path: String,
        /// The operation that was tried.
        what: &'static str,
        /// Attempts made.
        attempts: u32,
        /// The obstacle of the last attempt.
        reason: String,
    },
    /// The change may or may not have become part of the chain.
    #[error("{path}: the outcome of transaction {txn} is unknown ({reason}); look at the state before repeating it")]
    Unknown {
        /// Prefix of the chain.
        path: String,
        /// Transaction.
        txn: super::TxnId,
        /// The reason why the outcome is not known.
        reason: String,
    },
    /// Another writer aborted the transaction before it was committed.
    #[error("{path}: transaction {txn} was aborted by another writer; nothing was changed")]
    Aborted {
        /// Prefix of the chain.
        path: String,
        /// Transaction.
        txn: super::TxnId,
    },
    /// The transaction began too long ago: its id is below the horizon.
    #[error("{path}: transaction {txn} took too long and is over; nothing was changed; repeat it")]
    Expired {
        /// Prefix of the chain.
        path: String,
        /// Transaction.
        txn: super::TxnId,
    },
    /// Not exactly one of several creators of one object was told that it made the object.
    #[error(
        "{path}: {winners} of {racers} creators of one object won, expected 1; \
         this store cannot hold tables: it does not support put-if-absent (If-None-Match)"
    )]
    NoPutIfAbsent {
        /// Object that was raced for.
        path: String,
        /// Creators that were told they made it.
        winners: usize,
        /// Creators.
        racers: usize,
    },
}

/// Why a change was not committed.
#[derive(Debug, thiserror::Error)]
pub enum CommitError<E: fmt::Debug + fmt::Display> {
    /// It does not fit the newest state.
    #[error("{0}")]
    Refused(E),
    /// The chain or the store below failed.
    #[error(transparent)]
    Chain(#[from] ChainError),
}

/// An error of a store that several callers are told.
#[derive(Debug, Clone)]
struct Told(Arc<Error>);

impl fmt::Display for Told {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &*self.0 {
            Error::Generic { source, .. }
            | Error::NotFound { source, .. }
            | Error::PermissionDenied { source, .. }
            | Error::Unauthenticated { source, .. } => fmt::Display::fmt(source, f),
            other => fmt::Display::fmt(other, f),
        }
    }
}

impl std::error::Error for Told {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&*self.0)
    }
}

/// An error of a store with the same kind and words, which has it behind it.
fn tell(told: &Told) -> Error {
    let source = Box::new(told.clone());
    match &*told.0 {
        Error::Generic { store, .. } => Error::Generic { store, source },
        Error::NotFound { path, .. } => Error::NotFound { path: path.clone(), source },
        Error::PermissionDenied { path, .. } => Error::PermissionDenied { path: path.clone(), source },
        Error::Unauthenticated { path, .. } => Error::Unauthenticated { path: path.clone(), source },
        _ => Error::Generic { store: "chain", source },
    }
}

/// The same error, of which copies can be made that have the store's own error behind them.
pub(super) fn shared(e: ChainError) -> ChainError {
    match e {
        ChainError::Store { path, source } => ChainError::Store { path, source: tell(&Told(Arc::new(source))) },
        other => other,
    }
}

/// A copy of what [`shared`] made; of another error with its words alone.
pub(super) fn copy_of_store(e: &Error) -> Error {
    let told = match e {
        Error::Generic { source, .. }
        | Error::NotFound { source, .. }
        | Error::PermissionDenied { source, .. }
        | Error::Unauthenticated { source, .. } => source.downcast_ref::<Told>(),
        _ => None,
    };
    told.map_or_else(|| Error::Generic { store: "chain", source: e.to_string().into() }, tell)
}
