//! The SQL dialect: statements, charter, functions.
