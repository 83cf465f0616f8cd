//! What the protocol needs from the database behind it.
//!
//! One [`Backend`] serves a process; it hands out verifiers for logins and opens one [`Session`] per connection. A
//! session is driven by one connection at a time, strictly one call after the other.
//!
//! **Cancellation.** Every future returned by a [`Session`], and every stream of a [`ResultSet`], may be dropped at any
//! await: when the client has gone, at `KILL`, at shutdown. Work must end with the drop, within 500 ms. Long computations
//! belong on other threads: while a poll runs, the connection can notice nothing.
//!
//! **Panics.** A panic in a session ends the statement with an error, and the session goes on.

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

/// The database behind the port.
#[async_trait]
pub trait Backend: Send + Sync + 'static {
    /// State of one logged-in connection.
    type Session: Session;

    /// Verifier of the account that `user` has when it comes from `peer`; `None` if there is none. An unknown user
    /// passes through the same exchange as a known one and ends with the same error.
    ///
    /// # Errors
    /// When the accounts cannot be read; the client sees the error and is disconnected.
    async fn verifier(&self, user: &str, peer: SocketAddr) -> Result<Option<Verifier>, SqlError>;

    /// The same by the newest accounts there are, where [`Self::verifier`] goes by what is known without asking. Called when
    /// that one does not fit, for unknown users too: what this takes must not depend on whether the user exists.
    ///
    /// # Errors
    /// As [`Self::verifier`].
    async fn newest_verifier(&self, user: &str, peer: SocketAddr) -> Result<Option<Verifier>, SqlError>;

    /// Opens the session of an authenticated client; called at login and again by COM_CHANGE_USER.
    ///
    /// # Errors
    /// For instance `Unknown database` (1049) or `Access denied ... to database` (1044); the client is disconnected.
    async fn open(&self, login: Login) -> Result<Self::Session, SqlError>;

    /// Connections that may be logged in at once, where that can change while the server runs; `None` for
    /// [`Settings::connections_max`](crate::Settings::connections_max).
    fn connections_max(&self) -> Option<usize> {
        None
    }

    /// The version that the server greets clients with, where that can change while the server runs; `None` for
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
    /// The connection's entry in the registry: id, and how to see that it is killed.
    pub connection: Arc<Connection>,
    /// User name.
    pub user: String,
    /// Address of the client.
    pub peer: SocketAddr,
    /// Default database, if the client named one; not checked yet.
    pub database: Option<String>,
    /// What the client program tells about itself (`_client_name`, `program_name`...), unchecked.
    pub attributes: Vec<(String, String)>,
    /// Id of the collation that the client asks for.
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

    /// Executes a prepared statement. `params` has exactly as many values as [`Prepared::params`] said.
    async fn execute(&mut self, statement: &Self::Statement, params: &[Param<'_>]) -> Result<Response, SqlError>;

    /// Answers an execution at once, without waiting for anything, or leaves that to [`Self::execute`] by `None`: then, and
    /// for an error, whatever was written is dropped.
    fn execute_now(
        &mut self,
        statement: &Self::Statement,
        params: &[Param<'_>],
        answer: &mut ReadyAnswer<'_>,
    ) -> Option<Result<(), SqlError>> {
        let _ = (statement, params, answer);
        None
    }

    /// The same for [`Self::query`]; `sql` is all that the client sent, it may hold several statements.
    fn query_now(&mut self, sql: &str, answer: &mut ReadyAnswer<'_>) -> Option<Result<(), SqlError>> {
        let _ = (sql, answer);
        None
    }

    /// Takes the file that the last [`Response::Infile`] asked for; its answer is that of the statement. The client is
    /// read as fast as the chunks are taken. Once this has ended, the rest of the file is read and dropped.
    async fn infile(&mut self, chunks: FileChunks) -> Result<Done, SqlError> {
        drop(chunks);
        Err(SqlError::new(code::NOT_SUPPORTED_YET, "no statement has asked for a file"))
    }

    /// Forgets a prepared statement. Statements that are left when the connection ends are dropped without it.
    async fn close(&mut self, statement: Self::Statement) {
        drop(statement);
    }

    /// Makes `database` the default one.
    async fn init_db(&mut self, database: &str) -> Result<(), SqlError>;

    /// Columns of a table whose names match `pattern` (`%` and `_`; empty matches all), for COM_FIELD_LIST.
    async fn field_list(&mut self, table: &str, pattern: &str) -> Result<Vec<ColumnDef>, SqlError>;

    /// Puts variables, default database, transaction and user variables back to their state after login. Prepared
    /// statements are closed by the connection before it calls this.
    async fn reset(&mut self) -> Result<(), SqlError>;

    /// Ends the connection `id`, as `KILL id` does, privileges checked.
    async fn kill(&mut self, id: u32) -> Result<(), SqlError>;

    /// One line of figures for COM_STATISTICS, in the form `Uptime: 1  Threads: 2 ...`.
    async fn statistics(&mut self) -> String;

    /// Writes the session's state to the log, for COM_DEBUG.
    async fn debug(&mut self) -> Result<(), SqlError> {
        Err(SqlError::new(code::NOT_SUPPORTED_YET, "COM_DEBUG is not supported; see SHOW PROCESSLIST and SHOW STATUS"))
    }

    /// Status flags of the session, out of [`status`]; asked after each command.
    fn status(&self) -> u16 {
        status::AUTOCOMMIT
    }

    /// Warnings of the last statement; asked after its last row, never before.
    fn warnings(&self) -> u16 {
        0
    }

    /// The default database; asked after each command, to tell the client of changes and for the process list.
    fn database(&self) -> Option<&str>;

    /// How long the connection may be idle (`wait_timeout`); asked before each command.
    fn wait_timeout(&self) -> Duration {
        Duration::from_secs(28_800)
    }

    /// The first statement of `sql`, without its semicolon, and what follows it, `None` if no statement does.
    fn split_statement<'a>(&self, sql: &'a str) -> (&'a str, Option<&'a str>) {
        crate::split::split_statement(sql, self.status() & status::NO_BACKSLASH_ESCAPES == 0)
    }
}

/// Answer to a statement that succeeded.
pub enum Response {
    /// It has no rows.
    Done(Done),
    /// It has rows.
    Rows(ResultSet),
    /// It wants a file of the client, by this name; [`Session::infile`] takes it. Only to [`Session::query`].
    Infile(String),
}

/// What a statement without rows did.
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
    /// Shape of the rows. Their number equals that of the columns of every batch, and each batch column has the type
    /// that the definition was made for ([`ColumnDef::from_field`]).
    pub columns: Arc<[ColumnDef]>,
    /// The rows. Batches may be empty; an error ends the result.
    pub batches: BoxStream<'static, Result<RecordBatch, SqlError>>,
}

impl ResultSet {
    /// A result that is complete already.
    pub fn ready(columns: Arc<[ColumnDef]>, batches: Vec<RecordBatch>) -> Self {
        Self { columns, batches: Box::pin(futures::stream::iter(batches.into_iter().map(Ok))) }
    }
}

/// A prepared statement and its shape.
pub struct Prepared<S> {
    /// What [`Session::execute`] needs.
    pub statement: S,
    /// Number of placeholders.
    pub params: u16,
    /// Columns of the result, empty for a statement without rows or when they are known only at execution.
    pub columns: Arc<[ColumnDef]>,
}

/// Value of a placeholder, as the client typed it.
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
