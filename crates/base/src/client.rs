//! Identity of a session's client, and the warnings of a statement.

use crate::names::DEFAULT_DATABASE;

/// The client of a session.
#[derive(Debug, Clone)]
pub struct ClientInfo {
    /// Number of the connection; no two connections of a process share a number.
    pub connection_id: u32,
    /// User name.
    pub user: String,
    /// `host:port` of the client, or `localhost` in process.
    pub host: String,
    /// Database selected at the start.
    pub database: Option<String>,
}

impl ClientInfo {
    /// Returns the user of this process itself, as in `dipper sql`.
    pub fn local(connection_id: u32) -> Self {
        ClientInfo {
            connection_id,
            user: "root".into(),
            host: "localhost".into(),
            database: Some(DEFAULT_DATABASE.into()),
        }
    }
}

/// Severity of a [`Warning`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Level {
    /// Worth knowing.
    Note,
    /// Something was done differently than asked.
    Warning,
    /// The statement failed.
    Error,
}

/// A line of SHOW WARNINGS.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Warning {
    /// Severity.
    pub level: Level,
    /// MySQL code.
    pub code: u16,
    /// The message.
    pub message: String,
}
