//! Tables on an object store: durable local store, version chains, the catalog, native tables.

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
