//! Errors of reading a chain of versions and of committing to it.

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
        source: object_store::Error,
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
pub enum CommitError<E: std::fmt::Debug + std::fmt::Display> {
    /// The change does not fit the newest state.
    #[error("{0}")]
    Refused(E),
    /// The chain or the store below failed.
    #[error(transparent)]
    Chain(#[from] ChainError),
}
