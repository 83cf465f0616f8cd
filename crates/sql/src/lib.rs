//! The SQL dialect: statements, charter, functions.

pub mod error;
pub mod statement;
pub mod types;
