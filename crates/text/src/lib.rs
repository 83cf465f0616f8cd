//! Delimited text to Arrow: bytes in, [`RecordBatch`](arrow_array::RecordBatch)es out. Knows nothing of SQL.
//!
//! Layers, lowest first:
//!
//! | module | question it answers |
//! |---|---|
//! | [`simd`] | where are the newlines, delimiters and quotes of these bytes? (the only `unsafe` of the crate) |
//! | [`dialect`] | what do the bytes of a file mean? |
//! | [`span`] | where does a field lie in its block, and what did its quoting look like? |
//! | [`source`] | where do bytes come from: files, decompressors, anything with positioned reads |
//! | [`scan`] | what is wanted: columns, filter, limit, policies; a queue of splits and the workers that drain it |
//! | [`csv`] | values of CSV fields, a column at a time |
//! | [`hive`] | values of Hive fields, a column at a time; Hive's own rules, byte for byte |
//! | [`infer`] | which dialect and types does this unknown CSV file have? |
//! | [`write`] | rows back to text |

pub mod dialect;
pub mod hive;
pub mod span;
