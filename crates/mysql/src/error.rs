//! Errors as sent to MySQL clients, and errors of the protocol itself.

use std::fmt;

/// Error numbers of MySQL that this crate and its backends use.
pub mod code {
    /// Too many connections.
    pub const TOO_MANY_CONNECTIONS: u16 = 1040;
    /// The handshake failed.
    pub const HANDSHAKE: u16 = 1043;
    /// The user may not use the database.
    pub const DB_ACCESS_DENIED: u16 = 1044;
    /// Unknown user or wrong password.
    pub const ACCESS_DENIED: u16 = 1045;
    /// No default database.
    pub const NO_DB: u16 = 1046;
    /// Unknown command.
    pub const UNKNOWN_COM: u16 = 1047;
    /// Unknown database.
    pub const BAD_DB: u16 = 1049;
    /// The table exists.
    pub const TABLE_EXISTS: u16 = 1050;
    /// LOAD DATA LOCAL, but the client has not announced that it sends files.
    pub const NOT_ALLOWED_COMMAND: u16 = 1148;
    /// Unknown table in DROP TABLE.
    pub const BAD_TABLE: u16 = 1051;
    /// The server is shutting down.
    pub const SERVER_SHUTDOWN: u16 = 1053;
    /// Unknown column.
    pub const BAD_FIELD: u16 = 1054;
    /// Syntax error.
    pub const PARSE: u16 = 1064;
    /// An empty statement.
    pub const EMPTY_QUERY: u16 = 1065;
    /// Unknown connection in KILL.
    pub const NO_SUCH_THREAD: u16 = 1094;
    /// KILL of a connection of another user.
    pub const KILL_DENIED: u16 = 1095;
    /// An error without a number of its own.
    pub const UNKNOWN: u16 = 1105;
    /// The command is denied for the table.
    pub const TABLE_ACCESS_DENIED: u16 = 1142;
    /// ER_HOST_IS_BLOCKED.
    pub const HOST_IS_BLOCKED: u16 = 1129;
    /// ER_MUST_CHANGE_PASSWORD_LOGIN.
    pub const PASSWORD_EXPIRED: u16 = 1862;
    /// ER_ACCOUNT_HAS_BEEN_LOCKED.
    pub const ACCOUNT_IS_LOCKED: u16 = 3118;
    /// ER_USER_ACCESS_DENIED_FOR_USER_ACCOUNT_BLOCKED_BY_PASSWORD_LOCK.
    pub const USER_IS_BLOCKED: u16 = 3955;
    /// The table does not exist.
    pub const NO_SUCH_TABLE: u16 = 1146;
    /// The packet is larger than max_allowed_packet.
    pub const NET_PACKET_TOO_LARGE: u16 = 1153;
    /// A packet with the wrong sequence number.
    pub const NET_PACKETS_OUT_OF_ORDER: u16 = 1156;
    /// A compressed packet could not be expanded.
    pub const NET_UNCOMPRESS: u16 = 1157;
    /// Reading a packet took too long.
    pub const NET_READ_INTERRUPTED: u16 = 1159;
    /// Unknown system variable.
    pub const UNKNOWN_SYSTEM_VARIABLE: u16 = 1193;
    /// Wrong arguments.
    pub const WRONG_ARGUMENTS: u16 = 1210;
    /// A privilege is missing.
    pub const SPECIFIC_ACCESS_DENIED: u16 = 1227;
    /// The value does not fit the variable.
    pub const WRONG_VALUE_FOR_VAR: u16 = 1231;
    /// Not supported yet.
    pub const NOT_SUPPORTED_YET: u16 = 1235;
    /// Unknown prepared statement.
    pub const UNKNOWN_STMT: u16 = 1243;
    /// The client speaks no protocol that the server accepts.
    pub const NOT_SUPPORTED_AUTH_MODE: u16 = 1251;
    /// Bytes that are no text of the character set.
    pub const INVALID_CHARACTER_STRING: u16 = 1300;
    /// The query was interrupted.
    pub const QUERY_INTERRUPTED: u16 = 1317;
    /// The connection needs TLS.
    pub const SECURE_TRANSPORT_REQUIRED: u16 = 3159;
    /// Too many placeholders.
    pub const PS_MANY_PARAM: u16 = 1390;
    /// A value is too big for its type.
    pub const DATA_OUT_OF_RANGE: u16 = 1690;
    /// The statement has no open cursor.
    pub const STMT_HAS_NO_OPEN_CURSOR: u16 = 1421;
    /// Too many prepared statements.
    pub const MAX_PREPARED_STMT_COUNT: u16 = 1461;
    /// The bytes of a packet make no sense.
    pub const MALFORMED_PACKET: u16 = 1835;
    /// The query ran longer than its limit.
    pub const QUERY_TIMEOUT: u16 = 3024;
    /// The connection was idle for too long.
    pub const CLIENT_INTERACTION_TIMEOUT: u16 = 4031;
}

/// An error of one statement; the connection continues.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SqlError {
    /// MySQL's error number, see [`code`].
    pub code: u16,
    /// Five characters of SQLSTATE.
    pub sqlstate: [u8; 5],
    /// Text for the user.
    pub message: String,
}

impl SqlError {
    /// Creates an error with MySQL's SQLSTATE for the number.
    pub fn new(code: u16, message: impl Into<String>) -> Self {
        Self { code, sqlstate: *sqlstate(code), message: message.into() }
    }

    /// Sets another SQLSTATE. A text other than five letters or digits is ignored.
    pub fn with_sqlstate(mut self, state: &str) -> Self {
        if let Ok(state) = <[u8; 5]>::try_from(state.as_bytes())
            && state.iter().all(u8::is_ascii_alphanumeric)
        {
            self.sqlstate = state;
        }
        self
    }
}

impl fmt::Display for SqlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = std::str::from_utf8(&self.sqlstate).unwrap_or("HY000");
        write!(f, "ERROR {} ({state}): {}", self.code, self.message)
    }
}

impl std::error::Error for SqlError {}

/// Returns the SQLSTATE that MySQL sends with an error number; `HY000` for any other number.
pub fn sqlstate(number: u16) -> &'static [u8; 5] {
    match number {
        code::TOO_MANY_CONNECTIONS | code::NOT_SUPPORTED_AUTH_MODE => b"08004",
        code::HANDSHAKE
        | code::UNKNOWN_COM
        | code::SERVER_SHUTDOWN
        | code::NET_PACKET_TOO_LARGE
        | code::NET_PACKETS_OUT_OF_ORDER
        | code::NET_UNCOMPRESS
        | code::NET_READ_INTERRUPTED => b"08S01",
        code::ACCESS_DENIED => b"28000",
        code::NO_DB => b"3D000",
        code::DB_ACCESS_DENIED
        | code::BAD_DB
        | code::PARSE
        | code::EMPTY_QUERY
        | code::TABLE_ACCESS_DENIED
        | code::SPECIFIC_ACCESS_DENIED
        | code::WRONG_VALUE_FOR_VAR
        | code::NOT_ALLOWED_COMMAND
        | code::NOT_SUPPORTED_YET => b"42000",
        code::TABLE_EXISTS => b"42S01",
        code::BAD_TABLE | code::NO_SUCH_TABLE => b"42S02",
        code::BAD_FIELD => b"42S22",
        code::QUERY_INTERRUPTED => b"70100",
        code::DATA_OUT_OF_RANGE => b"22003",
        _ => b"HY000",
    }
}

/// An error that ends a connection.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProtocolError {
    /// The peer closed the connection, or the network failed.
    #[error("connection: {0}")]
    Io(#[from] std::io::Error),
    /// The peer closed the connection in the middle of a packet.
    #[error("the peer closed the connection after {received} bytes of a packet")]
    Truncated {
        /// Bytes of the unfinished packet.
        received: usize,
    },
    /// A packet has another sequence number than expected.
    #[error("packet out of order: expected sequence number {expected}, found {found}")]
    OutOfOrder {
        /// The expected number.
        expected: u8,
        /// The number in the packet.
        found: u8,
    },
    /// A payload is longer than allowed.
    #[error("packet of {claimed} bytes or more is larger than max_allowed_packet ({limit} bytes)")]
    TooLarge {
        /// Number of bytes that the headers so far claim.
        claimed: usize,
        /// The limit in force.
        limit: usize,
    },
    /// A field extends beyond the end of its packet, or has a value that the protocol does not know.
    #[error("malformed packet: {what} at byte {at}")]
    Malformed {
        /// The field.
        what: &'static str,
        /// Offset in the payload.
        at: usize,
    },
    /// A compressed packet does not expand to the length that it claims.
    #[error("compressed packet: {what}")]
    Compression {
        /// The fault.
        what: &'static str,
    },
}

impl ProtocolError {
    /// Returns the error to send to the client before closing; `None` if the client has gone.
    pub fn to_sql(&self) -> Option<SqlError> {
        let number = match self {
            Self::Io(_) | Self::Truncated { .. } => return None,
            Self::OutOfOrder { .. } => code::NET_PACKETS_OUT_OF_ORDER,
            Self::TooLarge { .. } => code::NET_PACKET_TOO_LARGE,
            Self::Malformed { .. } => code::MALFORMED_PACKET,
            Self::Compression { .. } => code::NET_UNCOMPRESS,
        };
        Some(SqlError::new(number, self.to_string()))
    }
}
