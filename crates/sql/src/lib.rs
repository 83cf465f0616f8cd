//! The SQL dialect: statements, charter, functions.
//!
//! [`parser::parse`] turns text into [`statement::Statement`]s; queries inside them are `sqlparser` trees.

mod chains;
pub mod charter;
pub mod error;
pub mod functions;
pub mod parser;
pub mod statement;
pub use dipper_store::types;
