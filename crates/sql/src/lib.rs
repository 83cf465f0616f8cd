//! The meaning of SQL over DataFusion. The crate `dipper-dialect` reads the text of statements.
//!
//! | module | question it answers |
//! |---|---|
//! | [`charter`] | which rules of MySQL and Doris hold for names, types, operators and casts? |
//! | [`functions`] | which functions exist, and what does each return? |
//! | [`insert_values`] | how do VALUES of an INSERT become rows? |
//! | `class`, `metadata` | to which class does a type belong, and where does a field keep its SQL type? |
//!
//! Invariant: an expression has the same value wherever it stands: in the select list, in a filter, in a join condition
//! or in a look-up by key.
//!
//! Dependencies: this crate must not know Parquet, tokio, object stores and the tables of the store.

pub mod charter;
mod class;
pub mod functions;
pub mod insert_values;
mod metadata;
pub mod type_text;
