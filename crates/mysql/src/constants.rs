//! Numbers of the MySQL client/server protocol, named as in MySQL's own reference ("Client/Server Protocol").

/// Capability flags that client and server exchange while connecting; the connection uses their intersection.
pub mod capability {
    /// Longer flags in column definitions.
    pub const LONG_FLAG: u32 = 1 << 2;
    /// The client names a database while connecting.
    pub const CONNECT_WITH_DB: u32 = 1 << 3;
    /// zlib compression of the whole connection after authentication.
    pub const COMPRESS: u32 = 1 << 5;
    /// `LOAD DATA LOCAL INFILE`.
    pub const LOCAL_FILES: u32 = 1 << 7;
    /// The 4.1 protocol; connections without it are refused.
    pub const PROTOCOL_41: u32 = 1 << 9;
    /// The client wants to continue under TLS.
    pub const SSL: u32 = 1 << 11;
    /// Transaction status in OK packets.
    pub const TRANSACTIONS: u32 = 1 << 13;
    /// Challenge-response authentication.
    pub const SECURE_CONNECTION: u32 = 1 << 15;
    /// Several statements in one COM_QUERY.
    pub const MULTI_STATEMENTS: u32 = 1 << 16;
    /// Several results for one COM_QUERY.
    pub const MULTI_RESULTS: u32 = 1 << 17;
    /// Several results for one COM_STMT_EXECUTE.
    pub const PS_MULTI_RESULTS: u32 = 1 << 18;
    /// Named authentication plugins.
    pub const PLUGIN_AUTH: u32 = 1 << 19;
    /// Key-value attributes of the client program.
    pub const CONNECT_ATTRS: u32 = 1 << 20;
    /// The authentication answer has a length-encoded length.
    pub const PLUGIN_AUTH_LENENC_CLIENT_DATA: u32 = 1 << 21;
    /// OK packets may carry changes of the session's state.
    pub const SESSION_TRACK: u32 = 1 << 23;
    /// A row set ends with an OK packet, and its column definitions with nothing, instead of EOF packets.
    pub const DEPRECATE_EOF: u32 = 1 << 24;
    /// Result sets may come without column definitions.
    pub const OPTIONAL_RESULTSET_METADATA: u32 = 1 << 25;
    /// zstd compression of the whole connection after authentication.
    pub const ZSTD_COMPRESSION_ALGORITHM: u32 = 1 << 26;
}

/// Status flags of OK and EOF packets.
pub mod status {
    /// A transaction is open.
    pub const IN_TRANS: u16 = 0x0001;
    /// Autocommit is on.
    pub const AUTOCOMMIT: u16 = 0x0002;
    /// Another result of the same command follows.
    pub const MORE_RESULTS_EXISTS: u16 = 0x0008;
    /// A cursor is open; rows come by COM_STMT_FETCH.
    pub const CURSOR_EXISTS: u16 = 0x0040;
    /// The last row of the cursor has been sent.
    pub const LAST_ROW_SENT: u16 = 0x0080;
    /// `NO_BACKSLASH_ESCAPES` is part of the SQL mode.
    pub const NO_BACKSLASH_ESCAPES: u16 = 0x0200;
    /// The open transaction is read only.
    pub const IN_TRANS_READONLY: u16 = 0x2000;
    /// The OK packet carries changes of the session's state.
    pub const SESSION_STATE_CHANGED: u16 = 0x4000;
}

/// First byte of a command packet.
pub mod command {
    /// Closes the connection.
    pub const QUIT: u8 = 0x01;
    /// Changes the default database.
    pub const INIT_DB: u8 = 0x02;
    /// Runs SQL text.
    pub const QUERY: u8 = 0x03;
    /// Lists the columns of a table.
    pub const FIELD_LIST: u8 = 0x04;
    /// Returns one line of human-readable figures.
    pub const STATISTICS: u8 = 0x09;
    /// Returns the process list.
    pub const PROCESS_INFO: u8 = 0x0a;
    /// Ends a connection.
    pub const PROCESS_KILL: u8 = 0x0c;
    /// Writes debug information to the server's log.
    pub const DEBUG: u8 = 0x0d;
    /// Does nothing, successfully.
    pub const PING: u8 = 0x0e;
    /// Authenticates again, as another user or the same.
    pub const CHANGE_USER: u8 = 0x11;
    /// Prepares a statement.
    pub const STMT_PREPARE: u8 = 0x16;
    /// Executes a prepared statement.
    pub const STMT_EXECUTE: u8 = 0x17;
    /// Sends a piece of a parameter's value.
    pub const STMT_SEND_LONG_DATA: u8 = 0x18;
    /// Drops a prepared statement.
    pub const STMT_CLOSE: u8 = 0x19;
    /// Drops a statement's long data and cursor.
    pub const STMT_RESET: u8 = 0x1a;
    /// Switches MULTI_STATEMENTS on or off.
    pub const SET_OPTION: u8 = 0x1b;
    /// Fetches rows from a statement's cursor.
    pub const STMT_FETCH: u8 = 0x1c;
    /// Puts the session back to its state after login.
    pub const RESET_CONNECTION: u8 = 0x1f;
}

/// Collation utf8mb4_general_ci, which every driver knows: for text in results, and the connection's default.
pub const COLLATION_UTF8MB4: u16 = 45;
/// Collation "binary": numbers, times and bytes.
pub const COLLATION_BINARY: u16 = 63;

/// Largest payload of one packet; a longer one is split, and ends with a shorter packet, possibly an empty one.
pub const PACKET_PAYLOAD_MAX: usize = (1 << 24) - 1;
