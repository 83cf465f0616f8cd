//! Loads: Stream Load over HTTP, `LOAD DATA LOCAL INFILE`, `dipper load`.
//!
//! ```text
//! headers ── request ──┐
//!                      ├─ LoadJob::begin   table, columns, expressions, transaction, label: all that needs no body
//! body ── BodySender ──┴─ LoadJob::run     read ─ parse ─ shape ─ push ─ finish ─ publish ─ LoadAnswer
//! ```
//!
//! Small loads end in `group` instead of push, finish and publish; it takes their labels too.
//!
//! | module | question it answers |
//! |---|---|
//! | [`request`] | what does a load ask for? |
//! | [`body`] | how do bytes reach a load, and how does a client wait for it? |
//! | [`job`], `work` | what happens to them? |
//! | `source`, `json`, `parquet`, `arrow_stream` | which rows do they hold? |
//! | `shape` | how do these become rows of the table? |
//! | `op` | which rows delete by StarRocks' column `__op`? |
//! | `unseen` | which rows are left out because their keys are there? |
//! | `times` | which moment is a time with an offset, where the load has a time zone? |
//! | [`two_phase`](mod@two_phase) | how is a prepared load committed, what is a label's state? |
//! | [`transactions`] | how are several loads one transaction? |
//! | [`answer`] | what is the client told? |
//! | [`loads`] | what do the loads of a process share? |
//! | [`host`], [`shaper`] | what does a load ask of the engine? |
//! | `sessions` | how does the engine answer? |
//! | `http_stream`, `body_table` | how does an INSERT read a body? |
//! | `group` | how do small loads share a commit? |
//! | [`errors`] | where are rejected rows kept? |
//! | [`infile`], `infile_filters` | what does `LOAD DATA` ask for, and how do its bytes come? |
//! | [`records`] | which loads does this process know of? |

pub mod answer;
mod arrow_stream;
pub(crate) mod body_table;
pub mod errors;
pub(crate) mod group;
pub mod host;
pub(crate) mod http_stream;
pub mod infile;
mod infile_filters;
pub mod job;
mod json;
pub mod loads;
mod op;
mod parquet;
pub mod records;
pub mod request;
mod sessions;
mod shape;
pub mod shaper;
mod source;
mod times;
pub mod transactions;
pub mod two_phase;
mod unseen;
mod work;

pub use dipper_load::body;
pub use http_stream::http_stream;
pub use job::{LoadJob, LoadSpec};
