//! Loads as far as they need sessions and SQL. The processing of their bytes is in [`dipper_ingest`].
//!
//! | module | question it answers |
//! |---|---|
//! | `sessions` | how do loads begin and end for the users of the engine? |
//! | `shape` | how do rows of a body become rows of the table? |
//! | `http_stream`, `body_table` | how does an INSERT read a body? |
//! | [`infile`], `infile_filters` | what does `LOAD DATA` ask for, and how do its bytes come? |

pub(crate) mod body_table;
pub(crate) mod http_stream;
pub mod infile;
mod infile_filters;
mod sessions;
mod shape;

pub use dipper_ingest::job::{LoadJob, LoadSpec};
pub use dipper_ingest::{answer, body, records, request, transactions, two_phase};
pub use http_stream::http_stream;
pub(crate) use shape::Expressions;
