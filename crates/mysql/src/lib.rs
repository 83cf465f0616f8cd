//! The MySQL client/server protocol, server side, on tokio; no SQL in it.
//!
//! A database implements [`Backend`] and [`Session`]; it is asked for verifiers of users, runs statements and answers
//! with Arrow batches, which are written as text or binary rows straight from their arrays.

pub mod auth;
mod backend;
mod column;
pub mod constants;
mod error;
mod registry;
mod split;

pub use auth::Verifier;
pub use backend::{Backend, Done, Login, Param, Prepared, Response, ResultSet, Session};
pub use column::{ColumnDef, ColumnType, DECIMALS_NOT_FIXED, column_flag};
pub use error::{ProtocolError, SqlError, code, sqlstate};
pub use registry::{Activity, Connection, Kill, Registry};
pub use split::statement_end;
