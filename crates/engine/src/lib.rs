//! Sessions, catalogs, plans and scans: the only crate that knows both DataFusion and dipper's own storage.
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
//! | `admission` | which statements run at once, and which wait? |
//! | [`files`] | which files does a path mean, and may they be read? |
//! | [`tables`] | how does a definition in the catalog, or a path in FROM, become a table? |
//! | [`scan`] | how are text files scanned inside a DataFusion plan? |
//! | [`load`] | what happens to the bytes of a load? |
//! | [`point`] | how are rows looked up by key without a planner? |
//! | [`statements`] | what does each statement that is not a query do? |
//! | `uncommitted` | what has a transaction written, and what does it see? |
//! | [`variables`] | which session variables exist and which act? |
//! | [`profile`] | where did the time of a statement or load go? |
//! | [`reference`] | what do the generated pages of the documentation say? |
//! | [`process`] | what is running, and how is it killed? |

mod access;
mod admission;
mod catalogs;
mod columns;
mod conditions;
mod coop;
mod correlated;
mod dependencies;
mod engine;
pub mod error;
pub mod files;
mod filters;
mod forget;
mod grouping;
mod held;
mod in_lists;
mod info_schema;
mod io;
pub mod load;
mod location;
pub mod native;
mod near;
mod null_joins;
mod orders;
mod outer_joins;
mod passing;
pub mod point;
pub mod process;
pub mod profile;
mod pull_up;
mod pushdown;
mod query;
pub mod reference;
mod repeatable;
mod reports;
mod reread;
pub mod result;
mod rules;
pub mod scan;
mod secrets;
pub mod session;
mod sink;
mod sleep;
mod spill;
pub mod statements;
pub mod tables;
mod temporary;
mod top_rows;
#[cfg(test)]
mod trouble;
mod uncommitted;
mod user_locks;
pub mod variables;
mod windows;
mod words;

pub use access::Connected;
pub use dipper_store::backup::Copied;
pub use dipper_store::preempt;
pub use dipper_store::secret::Secret;
pub use engine::{Engine, EngineOptions, backup, check, default_memory_bytes, restore, set_nice};
pub use error::{EngineError, Result};
pub use files::FileAccess;
pub use held::Held;
pub use location::{DataLocation, RemoteOptions};
pub use result::{Column, Done, Outcome, Rows};
pub use session::{ClientInfo, Selected, Session};
pub use sink::as_names;
pub use statements::like;
