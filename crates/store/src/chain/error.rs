//! What can go wrong with a chain of versions.

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
    /// An object's bytes are not what was written.
    #[error("{path}: damaged: {reason}; restore it from a backup")]
    Damaged {
        /// Object.
        path: String,
        /// What was expected and found, with the position.
        reason: String,
    },
    /// Written by a newer dipper.
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
        /// What was tried.
        what: &'static str,
        /// Attempts made.
        attempts: u32,
        /// What stood in the way, the last time.
        reason: String,
    },
    /// The change may or may not have become part of the chain.
    #[error("{path}: the outcome of transaction {txn} is unknown ({reason}); look at the state before repeating it")]
    Unknown {
        /// Prefix of the chain.
        path: String,
        /// Transaction.
        txn: super::TxnId,
        /// What stood in the way.
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
    /// Several creators of one object were told that they made it, or none was.
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
    /// It does not fit the newest state.
    #[error("{0}")]
    Refused(E),
    /// The chain or the store below failed.
    #[error(transparent)]
    Chain(#[from] ChainError),
}
