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
pub(crate) mod http_stream;
pub mod infile;
mod infile_filters;
pub mod job;
mod json;
mod op;
mod parquet;
pub mod records;
pub mod request;
mod shape;
mod source;
mod times;
pub mod transactions;
pub mod two_phase;
mod unseen;
mod work;

use std::sync::Arc;

use dipper_store::labels::Labels;
use dipper_store::nodes::Nodes;
use object_store::ObjectStore;
use tokio::sync::OnceCell;

pub use dipper_load::body;
pub use http_stream::http_stream;
pub use job::{LoadJob, LoadSpec};

use crate::error::{EngineError, ErrorKind, Result};
use records::LoadRecords;

/// What the loads of a process share.
#[derive(Debug)]
pub struct Loads {
    pub(crate) store: Arc<dyn ObjectStore>,
    pub(crate) records: Arc<LoadRecords>,
    /// Made by the first load that brings a label: from then on this process has a lease.
    labels: OnceCell<Labels>,
    /// Processes of this machine that use the database.
    nodes: Option<Nodes>,
    pub(crate) groups: group::Groups,
    pub(crate) transactions: transactions::Transactions,
}

impl Loads {
    pub(crate) fn new(store: Arc<dyn ObjectStore>, nodes: Option<Nodes>) -> Self {
        let (groups, transactions) = Default::default();
        Loads { store, records: Arc::default(), labels: OnceCell::new(), nodes, groups, transactions }
    }

    /// The labels. `io` runs what renews the lease.
    pub(crate) async fn labels(&self, io: &tokio::runtime::Handle) -> Result<&Labels> {
        self.labels
            .get_or_try_init(|| async {
                let started = io.spawn(Labels::start(Arc::clone(&self.store), self.nodes.clone())).await;
                let started = started.map_err(|e| EngineError::new(ErrorKind::Storage, e.to_string()))?;
                started.map_err(|e| EngineError::new(ErrorKind::Storage, e.to_string()))
            })
            .await
    }
}
