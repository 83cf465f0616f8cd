//! Chains of versions made by put-if-absent.

mod error;

pub use error::ChainError;
