//! The SQL dialect as text: [`parser::parse`] turns statements into [`statement::Statement`]s. Queries inside
//! statements are `sqlparser` trees.
//!
//! Invariants: a tree that comes out of the parser is no deeper than [`parser::DEPTH_MAX`], and its long chains of
//! operators are balanced ([`chains`]); a printed definition reads back as the same definition.
//!
//! Dependencies: this crate must not know DataFusion, Parquet and the store; of Arrow it knows only the types of
//! `dipper-base`.

pub mod chains;
pub mod counters;
pub mod error;
pub mod explode;
pub mod full_text;
pub mod internal;
pub mod parser;
pub mod rows;
pub mod statement;
pub mod topics;
pub mod tree;
pub mod walk;
pub mod wildcards;
