//! Functions that tell about the session: DATABASE(), USER(), VERSION(), CONNECTION_ID().
//!
//! The registry of functions is shared by all sessions, so the answers are in each session's configuration, as a
//! [`SessionInfo`] extension.

use std::any::Any;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef};
use arrow::datatypes::DataType;
use datafusion::common::config::{ConfigEntry, ConfigExtension, ExtensionOptions};
use datafusion::common::{Result, ScalarValue, config_err, exec_err};
use datafusion::logical_expr::Volatility;

use super::args::Args;
use super::func::{Def, Ret, def};
use super::growth::Memory;
use super::lost::LostValues;

/// The answers of the information functions in one session.
#[derive(Clone, Debug, PartialEq)]
pub struct SessionInfo {
    /// VERSION(), such as `5.7.99`.
    pub version: String,
    /// DATABASE(); `None` before `USE`.
    pub database: Option<String>,
    /// CURRENT_CATALOG().
    pub catalog: String,
    /// USER(): the name and host that the client gave, `name@host`.
    pub user: String,
    /// CURRENT_USER(): the account that the login matched, `name@pattern`.
    pub current_user: String,
    /// CURRENT_ROLE(): names of the active roles, `NONE` if there are none.
    pub current_role: String,
    /// CONNECTION_ID().
    pub connection_id: u64,
    /// LAST_QUERY_ID() of the previous statement; empty if there is none.
    pub last_query_id: String,
    /// LAST_INSERT_ID().
    pub last_insert_id: u64,
    /// FOUND_ROWS() of the previous statement.
    pub found_rows: u64,
    /// ROW_COUNT() of the previous statement, -1 after a query.
    pub row_count: i64,
    /// The invalid dates and times of the statement.
    pub lost: Arc<LostValues>,
    /// The setting `block_encryption_mode`.
    pub encryption_mode: String,
    /// The memory pool from which functions reserve; `None` if memory is unlimited.
    pub memory: Option<Memory>,
}

impl SessionInfo {
    /// The `block_encryption_mode` of a session that does not set it.
    pub const ENCRYPTION_MODE: &str = "aes-128-ecb";
}

impl Default for SessionInfo {
    fn default() -> Self {
        SessionInfo {
            version: "5.7.99".to_owned(),
            database: None,
            catalog: "internal".to_owned(),
            user: "root@localhost".to_owned(),
            current_user: "root@%".to_owned(),
            current_role: "NONE".to_owned(),
            connection_id: 0,
            last_query_id: String::new(),
            last_insert_id: 0,
            found_rows: 0,
            row_count: -1,
            lost: Arc::default(),
            encryption_mode: SessionInfo::ENCRYPTION_MODE.to_owned(),
            memory: None,
        }
    }
}

impl ExtensionOptions for SessionInfo {
    fn as_any(&self) -> &dyn Any {
        self
    }

    fn as_any_mut(&mut self) -> &mut dyn Any {
        self
    }

    fn cloned(&self) -> Box<dyn ExtensionOptions> {
        Box::new(self.clone())
    }

    fn set(&mut self, key: &str, _value: &str) -> Result<()> {
        config_err!("{key} describes the session and cannot be set")
    }

    fn entries(&self) -> Vec<ConfigEntry> {
        Vec::new()
    }
}

impl ConfigExtension for SessionInfo {
    const PREFIX: &'static str = "session";
}

/// Functions of this file.
pub const DEFS: &[Def] = &[
    stable("version", &[], Ret::Text, |a| answer(a, |s| text(&s.version))),
    stable("current_version", &[], Ret::Text, |a| answer(a, |_| text(env!("CARGO_PKG_VERSION")))),
    stable("database", &["schema"], Ret::Text, |a| answer(a, |s| ScalarValue::Utf8View(s.database.clone()))),
    stable("current_catalog", &["catalog"], Ret::Text, |a| answer(a, |s| text(&s.catalog))),
    stable("user", &["session_user", "system_user"], Ret::Text, |a| answer(a, |s| text(&s.user))),
    stable("current_user", &[], Ret::Text, |a| answer(a, |s| text(&s.current_user))),
    stable("current_role", &[], Ret::Text, |a| answer(a, |s| text(&s.current_role))),
    stable("connection_id", &["ps_current_thread_id"], Ret::Int, |a| answer(a, |s| int(s.connection_id as i64))),
    stable("host_name", &[], Ret::Text, |a| {
        let name = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
        text(name.trim()).to_array_of_size(a.rows)
    }),
    stable("last_query_id", &[], Ret::Text, |a| answer(a, |s| text(&s.last_query_id))),
    stable("last_insert_id", &[], Ret::Int, |a| answer(a, |s| int(s.last_insert_id as i64))),
    stable("found_rows", &[], Ret::Int, |a| answer(a, |s| int(s.found_rows as i64))),
    // The thread of a session has the number of the session, as performance_schema.threads shows.
    def("ps_thread_id", &[], (1, 1), Ret::Int, |a| {
        let connection = a.int(0)?;
        a.ints(|i| connection.at(i).filter(|number| *number > 0))
    }),
    def("coercibility", &[], (1, 1), Ret::Int, coercibility),
    def("charset", &[], (1, 1), Ret::Text, |a| named(a, "utf8mb4")),
    def("collation", &[], (1, 1), Ret::Text, |a| named(a, "utf8mb4_0900_bin")),
    stable("row_count", &[], Ret::Int, |a| answer(a, |s| int(s.row_count))),
];

const fn stable(
    name: &'static str,
    aliases: &'static [&'static str],
    ret: Ret,
    eval: fn(&Args) -> Result<ArrayRef>,
) -> Def {
    def(name, aliases, (0, 0), ret, eval).with_volatility(Volatility::Stable)
}

/// `COERCIBILITY(x)`: how readily the collation of a value gives way to another one, as in MySQL: 2 for columns, 4 for
/// constants, 5 for numbers and dates, 6 for NULL.
fn coercibility(a: &Args) -> Result<ArrayRef> {
    let value = a.raw(0);
    let number = match a.data_type(0) {
        DataType::Null => 6,
        text if text.is_string() && value.one && value.array.is_null(0) => 6,
        text if text.is_string() && value.one => 4,
        text if text.is_string() => 2,
        _ => 5,
    };
    int(number).to_array_of_size(a.rows)
}

/// Returns the name of the argument's character set or collation: `of_text` for text, `binary` for other types, as in
/// MySQL.
fn named(a: &Args, of_text: &str) -> Result<ArrayRef> {
    let name = if a.data_type(0).is_string() { of_text } else { "binary" };
    text(name).to_array_of_size(a.rows)
}

fn text(s: &str) -> ScalarValue {
    ScalarValue::Utf8View(Some(s.to_owned()))
}

fn int(v: i64) -> ScalarValue {
    ScalarValue::Int64(Some(v))
}

fn answer(a: &Args, f: impl Fn(&SessionInfo) -> ScalarValue) -> Result<ArrayRef> {
    match a.config.extensions.get::<SessionInfo>() {
        Some(session) => f(session).to_array_of_size(a.rows),
        None => exec_err!("{}: the session has no SessionInfo in its configuration", a.name),
    }
}
