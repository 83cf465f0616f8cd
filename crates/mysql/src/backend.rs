//! The interface between the protocol and the database behind it.
//!
//! One [`Backend`] serves a process; it hands out verifiers for logins and opens one [`Session`] per connection. A
//! session is driven by one connection at a time, strictly one call after the other.
//!
//! **Cancellation.** Every future returned by a [`Session`], and every stream of a [`ResultSet`], may be dropped at any
//! await: when the client has disconnected, at `KILL`, at shutdown. Work must end with the drop, within 500 ms. Long
//! computations belong on other threads: while a poll runs, the connection cannot react.
//!
//! **Panics.** A panic in a session ends the statement with an error, and the session continues.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use arrow_array::RecordBatch;
use async_trait::async_trait;
use futures::stream::BoxStream;

use crate::auth::Verifier;
use crate::column::ColumnDef;
use crate::constants::status;
use crate::error::{SqlError, code};
use crate::infile::FileChunks;
use crate::ready::ReadyAnswer;
use crate::registry::Connection;

/// The database behind the protocol.
#[async_trait]
pub trait Backend: Send + Sync + 'static {
    /// State of one logged-in connection.
    type Session: Session;

    /// Returns the verifier of the account of `user` connecting from `peer`; `None` if there is none. An unknown user
    /// goes through the same exchange as a known one and gets the same error.
    ///
    /// # Errors
    /// An error if the accounts cannot be read; the client receives it and is disconnected.
    async fn verifier(&self, user: &str, peer: SocketAddr) -> Result<Option<Verifier>, SqlError>;

    /// Returns the verifier by the newest accounts, whereas [`Self::verifier`] uses known ones without asking for
    /// newer. Called if the proof does not fit the known verifier, for unknown users too: its duration must not depend
    /// on whether the user exists.
    ///
    /// # Errors
    /// The errors of [`Self::verifier`].
    async fn newest_verifier(&self, user: &str, peer: SocketAddr) -> Result<Option<Verifier>, SqlError>;

    /// Opens the session of an authenticated client; called at login and again by COM_CHANGE_USER.
    ///
    /// # Errors
    /// For instance `Unknown database` (1049) or `Access denied ... to database` (1044); the client is disconnected.
    async fn open(&self, login: Login) -> Result<Self::Session, SqlError>;

    /// Returns the maximum number of logged-in connections if it can change while the server runs; `None` for
    /// [`Settings::connections_max`](crate::Settings::connections_max).
    fn connections_max(&self) -> Option<usize> {
        None
    }

    /// Returns the version in the greeting if it can change while the server runs; `None` for
    /// [`Settings::server_version`](crate::Settings::server_version).
    fn server_version(&self) -> Option<String> {
        None
    }

    /// Called for every login that failed, with the user name as sent; for logs and limits.
    fn login_failed(&self, user: &str, peer: SocketAddr) {
        tracing::info!(user, %peer, "login failed");
    }
}

/// An authenticated client.
#[derive(Debug, Clone)]
pub struct Login {
    /// The connection's entry in the registry: its id, and whether it is killed.
    pub connection: Arc<Connection>,
    /// User name.
    pub user: String,
    /// Address of the client.
    pub peer: SocketAddr,
    /// Default database, if the client named one; not checked yet.
    pub database: Option<String>,
    /// The client program's description of itself (`_client_name`, `program_name`...), unchecked.
    pub attributes: Vec<(String, String)>,
    /// Id of the collation that the client requests.
    pub collation: u16,
    /// Capabilities in use, see [`crate::constants::capability`].
    pub capabilities: u32,
    /// Whether the connection is encrypted.
    pub tls: bool,
}

/// State of one logged-in connection.
#[async_trait]
pub trait Session: Send + 'static {
    /// A prepared statement.
    type Statement: Send + Sync + 'static;

    /// Runs one statement: the text up to its semicolon, see [`Self::split_statement`]. It may be empty.
    async fn query(&mut self, sql: &str) -> Result<Response, SqlError>;

    /// Prepares one statement; placeholders are `?`.
    async fn prepare(&mut self, sql: &str) -> Result<Prepared<Self::Statement>, SqlError>;

    /// Executes a prepared statement. `params` has exactly [`Prepared::params`] values.
    async fn execute(&mut self, statement: &Self::Statement, params: &[Param<'_>]) -> Result<Response, SqlError>;

    /// Answers an execution without waiting for anything, or returns `None` to leave it to [`Self::execute`]. Then, and
    /// for an error, everything written to `answer` is dropped.
    fn execute_now(
        &mut self,
        statement: &Self::Statement,
        params: &[Param<'_>],
        answer: &mut ReadyAnswer<'_>,
    ) -> Option<Result<(), SqlError>> {
        let _ = (statement, params, answer);
        None
    }

    /// Answers a query like [`Self::execute_now`]; `sql` is the client's whole text, which may hold several statements.
    fn query_now(&mut self, sql: &str, answer: &mut ReadyAnswer<'_>) -> Option<Result<(), SqlError>> {
        let _ = (sql, answer);
        None
    }

    /// Takes the file that the last [`Response::Infile`] requested; its result is that of the statement. The client is
    /// read as fast as the chunks are taken. Once this has ended, the rest of the file is read and dropped.
    async fn infile(&mut self, chunks: FileChunks) -> Result<Done, SqlError> {
        drop(chunks);
        Err(SqlError::new(code::NOT_SUPPORTED_YET, "no statement has asked for a file"))
    }

    /// Drops a prepared statement. Statements that are left when the connection ends are dropped without this call.
    async fn close(&mut self, statement: Self::Statement) {
        drop(statement);
    }

    /// Makes `database` the default one.
    async fn init_db(&mut self, database: &str) -> Result<(), SqlError>;

    /// Returns the columns of a table whose names match `pattern` (`%` and `_`; empty matches all), for COM_FIELD_LIST.
    async fn field_list(&mut self, table: &str, pattern: &str) -> Result<Vec<ColumnDef>, SqlError>;

    /// Resets variables, default database, transaction and user variables to their state after login. The connection
    /// has closed the prepared statements before it calls this.
    async fn reset(&mut self) -> Result<(), SqlError>;

    /// Ends the connection `id` like `KILL id`, after checking privileges.
    async fn kill(&mut self, id: u32) -> Result<(), SqlError>;

    /// Returns one line of figures for COM_STATISTICS, in the form `Uptime: 1  Threads: 2 ...`.
    async fn statistics(&mut self) -> String;

    /// Writes the session's state to the log, for COM_DEBUG.
    async fn debug(&mut self) -> Result<(), SqlError> {
        Err(SqlError::new(code::NOT_SUPPORTED_YET, "COM_DEBUG is not supported; see SHOW PROCESSLIST and SHOW STATUS"))
    }

    /// Returns the status flags of the session, out of [`status`]; called after each command.
    fn status(&self) -> u16 {
        status::AUTOCOMMIT
    }

    /// Returns the number of warnings of the last statement; called after its last row, never before.
    fn warnings(&self) -> u16 {
        0
    }

    /// Returns the default database; called after each command, to tell the client of changes and for the process list.
    fn database(&self) -> Option<&str>;

    /// Returns how long the connection may be idle (`wait_timeout`); called before each command.
    fn wait_timeout(&self) -> Duration {
        Duration::from_secs(28_800)
    }

    /// Returns the first statement of `sql`, without its semicolon, and the text behind it; `None` if no statement
    /// follows.
    fn split_statement<'a>(&self, sql: &'a str) -> (&'a str, Option<&'a str>) {
        crate::split::split_statement(sql, self.status() & status::NO_BACKSLASH_ESCAPES == 0)
    }
}

/// Answer to a statement that succeeded.
pub enum Response {
    /// The statement has no rows.
    Done(Done),
    /// The statement has rows.
    Rows(ResultSet),
    /// The statement requests a file of the client, by this name; [`Session::infile`] takes it. Only allowed in
    /// [`Session::query`].
    Infile(String),
}

/// Result of a statement without rows.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Done {
    /// Rows inserted, changed or deleted.
    pub affected_rows: u64,
    /// First value generated for an AUTO_INCREMENT column, 0 for none.
    pub last_insert_id: u64,
    /// Text for the user, for instance `Records: 3  Duplicates: 0  Warnings: 0`.
    pub info: String,
}

/// Rows of a statement.
pub struct ResultSet {
    /// Definitions of the columns. Their number equals that of the columns of every batch, and each batch column has
    /// the type for which the definition was made ([`ColumnDef::from_field`]).
    pub columns: Arc<[ColumnDef]>,
    /// The rows. Batches may be empty; an error ends the result.
    pub batches: BoxStream<'static, Result<RecordBatch, SqlError>>,
}

impl ResultSet {
    /// Creates a result that is complete already.
    pub fn ready(columns: Arc<[ColumnDef]>, batches: Vec<RecordBatch>) -> Self {
        Self { columns, batches: Box::pin(futures::stream::iter(batches.into_iter().map(Ok))) }
    }
}

/// A prepared statement and its shape.
pub struct Prepared<S> {
    /// The statement, as [`Session::execute`] needs it.
    pub statement: S,
    /// Number of placeholders.
    pub params: u16,
    /// Columns of the result, empty for a statement without rows or when they are known only at execution.
    pub columns: Arc<[ColumnDef]>,
}

/// Value of a placeholder, with the client's type.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Param<'a> {
    /// NULL.
    Null,
    /// TINYINT to BIGINT, signed.
    Int(i64),
    /// TINYINT to BIGINT, unsigned.
    UInt(u64),
    /// FLOAT.
    Float(f32),
    /// DOUBLE.
    Double(f64),
    /// DECIMAL, in decimal notation.
    Decimal(&'a str),
    /// Text.
    Text(&'a str),
    /// Bytes: BLOB, BIT, GEOMETRY, and text that is not UTF-8.
    Bytes(&'a [u8]),
    /// DATE. All zero is MySQL's zero date; fields are not checked against the calendar.
    Date {
        /// 0 to 65535.
        year: u16,
        /// 0 to 255.
        month: u8,
        /// 0 to 255.
        day: u8,
    },
    /// DATETIME or TIMESTAMP, without zone; fields are not checked against the calendar.
    DateTime {
        /// 0 to 65535.
        year: u16,
        /// 0 to 255.
        month: u8,
        /// 0 to 255.
        day: u8,
        /// 0 to 255.
        hour: u8,
        /// 0 to 255.
        minute: u8,
        /// 0 to 255.
        second: u8,
        /// Microseconds.
        micros: u32,
    },
    /// TIME, a signed span.
    Time {
        /// Whether the span is negative.
        negative: bool,
        /// Days.
        days: u32,
        /// 0 to 255.
        hours: u8,
        /// 0 to 255.
        minutes: u8,
        /// 0 to 255.
        seconds: u8,
        /// Microseconds.
        micros: u32,
    },
}
