//! The MySQL client/server protocol, server side, on tokio; the crate has no SQL.
//!
//! A database implements [`Backend`] and [`Session`]: it returns verifiers of users, runs statements and answers with
//! Arrow batches, which are written as text or binary rows straight from their arrays. [`Server`] listens.
//!
//! ```text
//! server      listener, limits, shutdown
//! connection  one client: login, then command after command
//!   login       handshake, auth, tls
//!   statements  prepared statements, their parameters (command) and cursors
//!   results     definitions and rows (encode)
//!   infile      files that the client sends
//! link        packets over a socket: packet, compress, transport
//! ```
//!
//! Beyond MySQL 5.7: caching_sha2_password without its slow path (see [`auth`]), zstd, and no EOF packets for clients
//! that do not need them. Not supported: binlog commands, old passwords, query attributes.
//!
//! This crate must not know SQL, DataFusion, Parquet and object stores.

pub mod auth;
mod backend;
mod column;
mod command;
mod compress;
mod connection;
pub mod constants;
pub mod encode;
mod error;
mod handshake;
mod infile;
mod link;
mod login;
mod packet;
mod ready;
mod registry;
mod results;
mod server;
mod split;
mod statements;
mod tls;
mod transport;
mod wire;

pub use auth::Verifier;
pub use backend::{Backend, Done, Login, Param, Prepared, Response, ResultSet, Session};
pub use column::{ColumnDef, ColumnType, DECIMALS_NOT_FIXED, column_flag};
pub use encode::NotABinaryRow;
pub use error::{ProtocolError, SqlError, code, sqlstate};
pub use infile::FileChunks;
#[doc(hidden)]
pub use packet::read_packets;
pub use ready::{ReadyAnswer, ReadyColumns, ReadyRows};
pub use registry::{Activity, Connection, Kill, Registry, Totals};
pub use server::{Server, Settings, Tls, listen};
pub use split::split_statement;
pub use tls::{TlsError, TlsIdentity};
