//! The SQL dialect as text: [`parser::parse`] turns statements into [`statement::Statement`]s. Queries inside of them are
//! `sqlparser` trees.
//!
//! Invariants: a tree that comes out of the parser is no deeper than [`parser::DEPTH_MAX`], and its long chains of operators are
//! balanced ([`chains`]); a printed definition reads back as what was printed.
//!
//! This crate must not know DataFusion, parquet and the store; of Arrow it knows the types of `dipper-base` only.

pub mod chains;
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
