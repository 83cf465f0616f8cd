//! Loads, from a request and its body to a commit: Stream Load, the rows of `LOAD DATA` and of `dipper load`, and what
//! transactions write.
//!
//! ```text
//! headers ── request ──┐
//!                      ├─ LoadJob::begin   table, columns, expressions, transaction, label: all that needs no body
//! body ── BodySender ──┴─ LoadJob::run     read ─ parse ─ shape ─ push ─ finish ─ publish ─ LoadAnswer
//! ```
//!
//! Small loads end in [`group`] instead of push, finish and publish; it takes their labels too.
//!
//! | module | question it answers |
//! |---|---|
//! | [`request`] | what does a load request say? |
//! | [`body`] | how do bytes reach a load, and how does a client wait for it? |
//! | [`loads`] | what do the loads of a process share? |
//! | [`filters`] | what happens to the bytes of `LOAD DATA` before they are read? |
//! | [`host`], [`shaper`] | what does a load need from the program that knows users and SQL? |
//! | [`job`], `work` | what happens to the bytes of a load? |
//! | [`source`], `json`, `parquet`, `arrow_stream`, `plain` | which rows does a body hold? |
//! | [`body_rows`], [`head`] | which rows and columns does a body have that a statement reads? |
//! | `unseen` | which rows are left out because their keys are there? |
//! | `condition` | which column decides whether a row replaces the one that is there? |
//! | [`group`] | how do small loads share a commit? |
//! | [`uncommitted`] | what has a transaction written, and what does it see? |
//! | [`two_phase`](mod@two_phase) | how is a prepared load committed, what is a label's state? |
//! | [`transactions`] | how are several loads one transaction? |
//! | [`op`] | what does the column `__op` of StarRocks mean? |
//! | [`outcome`] | why was a load refused, as types? |
//! | [`answer`] | what does the answer to the client say? |
//! | [`errors`] | where are rejected rows kept? |
//! | [`records`] | which loads does this process know of? |
//!
//! Invariants: after a load either all of its rows are visible, or none. A load that is reported as successful is
//! durable, and the same commit takes its label.
//!
//! This crate must not know sessions, statements, users and SQL; it reaches them through the traits of [`host`] and
//! [`shaper`].

pub mod answer;
mod arrow_stream;
pub mod body_rows;
mod condition;
pub mod errors;
pub mod filters;
pub mod group;
pub mod head;
pub mod host;
pub mod job;
mod json;
pub mod loads;
pub mod op;
pub mod outcome;
mod parquet;
mod plain;
pub mod records;
pub mod request;
pub mod shaper;
pub mod source;
pub mod transactions;
pub mod two_phase;
pub mod uncommitted;
mod unseen;
mod work;

pub use dipper_load::body;
