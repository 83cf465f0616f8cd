//! Sessions, tables, plans and statements: the part of dipper that knows a client and runs SQL for it.
//!
//! The engine stands above the crates that read, write and plan (`exec`, `lake`, `ingest`, `point`, `sql`) and below
//! the MySQL and HTTP fronts in `server`. It knows nothing of either protocol.
//!
//! ```text
//! Engine ── shared by all sessions: catalog, memory pool, function registry, CPU threads, running statements
//!   └─ Session ── one client: database, variables, transaction state, warnings
//!        └─ execute(statement) ── Outcome::Rows (a stream of batches) or Outcome::Done
//! ```
//!
//! | module | question it answers |
//! |---|---|
//! | `access` | who may do what? |
//! | `context` | what does a statement know of its session? |
//! | `execute` | how does a session run a statement? |
//! | `admission` | which statements run at once, and which wait? |
//! | [`tables`] | how does a definition in the catalog, or a path in FROM, become a table? |
//! | [`load`] | how do loads use sessions, and how does an INSERT read a body? |
//! | [`point`] | how are rows looked up by key without a planner? |
//! | [`statements`] | what does each statement that is not a query do? |
//! | [`profile`] | where did the time of a statement or load go? |
//! | [`mod@reference`] | what do the generated pages of the documentation say? |
//! | [`help`] | what does HELP answer? |
//! | [`process`] | what is running, and how is it killed? |
//!
//! This crate must not know the MySQL protocol and HTTP.

mod access;
mod admission;
mod catalogs;
mod context;
mod defaults;
mod engine;
mod execute;
mod functions;
mod generated;
mod held;
pub mod help;
mod info_schema;
pub mod load;
pub mod native;
pub mod point;
pub mod process;
pub mod profile;
mod query;
pub mod reference;
mod secrets;
pub mod session;
pub mod statements;
pub mod tables;
mod temporary;
mod transaction;
#[cfg(test)]
mod trouble;

pub use dipper_base::client::ClientInfo;
pub use dipper_base::preempt;
pub use dipper_base::secret::Secret;
pub use dipper_exec::quota::Connected;
pub use dipper_lake::result::{self, Column, Done, Outcome, Rows};
pub use dipper_lake::sink::as_names;
pub use dipper_node::error::{self, EngineError, Result};
pub use dipper_node::files::{self, FileAccess};
pub use dipper_node::location::{DataLocation, RemoteOptions};
pub use dipper_node::pool::{default_memory_bytes, set_nice};
pub use dipper_node::tools::{backup, check, restore};
pub use dipper_store::backup::Copied;
pub use dipper_variables as variables;
pub use engine::{Engine, EngineOptions};
pub use held::Held;
pub use session::{Selected, Session};
pub use statements::like;
