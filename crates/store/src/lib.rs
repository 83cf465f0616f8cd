//! Tables on an object store: durable local store, version chains, commit.

pub mod catalog;
pub mod chain;
mod checksum;
pub mod local;
