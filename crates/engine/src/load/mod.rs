//! Loads: Stream Load over HTTP, `LOAD DATA LOCAL INFILE`, `dipper load`.
//!
//! ```text
//! headers ── request ──┐
//!                      ├─ LoadJob::begin   table, columns, expressions, label, transaction: all that needs no body
//! body ── BodySender ──┴─ LoadJob::run     cut ─ parse ─ shape ─ push ─ finish ─ publish ─ LoadAnswer
//! ```
//!
//! | module | question it answers |
//! |---|---|
//! | [`request`] | what does a load ask for? |
//! | [`body`] | how do bytes reach a load, and how does a client wait for it? |
//! | [`job`] | what happens to them? |
//! | [`answer`] | what is the client told? |
//! | [`errors`] | where are rejected rows kept? |
//! | [`records`] | which loads does this process know of? |

pub mod answer;
pub mod body;
pub mod errors;
pub mod job;
pub mod records;
pub mod request;

use std::sync::Arc;

use object_store::ObjectStore;

pub use job::{LoadJob, LoadSpec};

use records::LoadRecords;

/// What the loads of a process share.
#[derive(Debug)]
pub struct Loads {
    pub(crate) store: Arc<dyn ObjectStore>,
    pub(crate) records: Arc<LoadRecords>,
}

impl Loads {
    pub(crate) fn new(store: Arc<dyn ObjectStore>) -> Self {
        Loads { store, records: Arc::default() }
    }
}
