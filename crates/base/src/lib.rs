//! Types, names and values that two or more crates of dipper exchange.
//!
//! Invariants: nothing here reads or writes anything, and a value that is stored ([`types::SqlType`], [`definition`],
//! [`privileges`], [`policy`], [`sketch`]) keeps its stored form.
//!
//! This crate must not know I/O, tokio, parquet and DataFusion.

pub mod address;
mod bitmap_doris;
mod bitmap_ops;
mod bitmap_union;
pub mod calendar;
pub mod client;
pub mod clock;
pub mod definition;
pub mod floats;
pub mod json;
pub mod names;
pub mod near;
pub mod policy;
pub mod preempt;
pub mod privileges;
pub mod quantile;
pub mod ranges;
pub mod retry;
pub mod secret;
pub mod sketch;
pub mod states;
pub mod types;
pub mod unescape;
