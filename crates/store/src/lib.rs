//! Tables on an object store: the catalog, native tables, and the stores and protocols below them.
//!
//! - [`local`] is a durable object store in a local directory; [`volumes`] makes one store of several, by table.
//! - [`chain`] is the commit protocol: versions as objects that are created only if they do not exist.
//! - [`catalog`] and [`table`] are chains: the list of databases and tables, and the state of one native table.
//! - [`segment`], [`key`] and [`merge`] are the data format: sorted runs of rows in Parquet, key encoding, merges.
//! - [`route`] maps rows and predicates to tablets; [`mow`] finds the rows that a load replaces (merge-on-write).
//! - [`attempts`] waits before something is tried again.
//! - [`labels`] makes a load happen once; [`compact`] rewrites segments; [`backup`] and [`check`] read whole databases.
//!
//! There is no second source of truth and no log beside the chains. Objects of newer formats are refused.
//!
//! This crate must not know SQL and DataFusion, nor the data cache above a store.

pub mod attempts;
pub mod backup;
pub mod catalog;
pub mod chain;
pub mod check;
pub mod compact;
pub mod key;
pub mod labels;
pub mod local;
pub mod merge;
pub mod mow;
pub mod nodes;
mod now;
pub mod probed;
pub mod route;
pub mod segment;
pub mod table;
pub mod upload;
pub mod volumes;
