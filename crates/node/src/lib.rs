//! State of a process below sessions: errors, stores and files that it may read, native tables and storage volumes.
//!
//! | module | question it answers |
//! |---|---|
//! | [`disk`] | which file system is a directory on? |
//! | [`error`] | which MySQL code and words does a failure have? |
//! | [`files`] | which files does a path mean, and may they be read? |
//! | [`passing`] | may a failed request to a store succeed later? |
//! | [`location`] | where is the database, and how is remote data cached? |
//! | [`pool`] | which threads run, and how much memory is there? |
//! | [`tables`] | which native tables are open, which storage volumes hold them, and which of their changes wait? |
//! | [`tools`] | how is a database backed up, restored and checked? |
//!
//! Invariant: each failure that a client sees is an [`error::EngineError`], which [`error`] makes of the error of the
//! crate below.
//!
//! This crate must not know plans, sessions, statements and users.

pub mod disk;
pub mod error;
pub mod files;
pub mod instants;
pub mod location;
pub mod passing;
pub mod pool;
pub mod tables;
pub mod tools;
mod type_words;
mod words;
