//! Functions of MySQL's database `sys`: each stands for an expression, as the functions do that users define. Consoles
//! and scripts of monitors call them with the name of the database.

use dipper_dialect::error::SqlError;
use dipper_dialect::parser::{ParseOptions, parse_expr};
use sqlparser::ast::{self, Query};

use super::alias_functions::{self, Alias, Aliases};

const SYS: &str = "sys";

/// Names, parameters with their types, and expressions. `sys_config` has no rows, so every setting has the default that
/// the caller names; and no thread is instrumented.
const FUNCTIONS: &[(&str, &[(&str, Type)], &str)] = &[
    (
        "extract_schema_from_file_name",
        &[("path", Type::Text)],
        r"left(substring_index(substring_index(replace(path, '\\', '/'), '/', -2), '/', 1), 64)",
    ),
    (
        "extract_table_from_file_name",
        &[("path", Type::Text)],
        r"left(substring_index(replace(substring_index(replace(path, '\\', '/'), '/', -1), '@0024', '$'), '.', 1), 64)",
    ),
    // Unlike the function without a database, this one does not fill the number of bytes up with blanks.
    ("format_bytes", &[("bytes", Type::Number)], "ltrim(format_bytes(bytes))"),
    (
        "format_path",
        &[("path", Type::Text)],
        r"case when @@global.datadir <> '' and starts_with(path, @@global.datadir)
                then concat('@@datadir/', ltrim(substring(path, char_length(@@global.datadir) + 1), '/'))
            else replace(path, '\\', '/') end",
    ),
    (
        "format_statement",
        &[("statement", Type::Text)],
        r"replace(if(char_length(statement) > 64, concat(left(statement, 30), ' ... ', right(statement, 30)), statement),
            '\n', ' ')",
    ),
    (
        "format_time",
        &[("picoseconds", Type::Number)],
        "case when picoseconds >= 604800e12 then concat(cast(picoseconds / 604800e12 as decimal(30, 2)), ' w')
            when picoseconds >= 86400e12 then concat(cast(picoseconds / 86400e12 as decimal(30, 2)), ' d')
            when picoseconds >= 3600e12 then concat(cast(picoseconds / 3600e12 as decimal(30, 2)), ' h')
            when picoseconds >= 60e12 then concat(cast(picoseconds / 60e12 as decimal(30, 2)), ' m')
            when picoseconds >= 1e12 then concat(cast(picoseconds / 1e12 as decimal(30, 2)), ' s')
            when picoseconds >= 1e9 then concat(cast(picoseconds / 1e9 as decimal(30, 2)), ' ms')
            when picoseconds >= 1e6 then concat(cast(picoseconds / 1e6 as decimal(30, 2)), ' us')
            when picoseconds >= 1e3 then concat(cast(picoseconds / 1e3 as decimal(30, 2)), ' ns')
            else concat(cast(picoseconds as bigint), ' ps') end",
    ),
    (
        "list_add",
        &[("list", Type::Text), ("value", Type::Text)],
        "if(list is null or list = '', value, concat(trim(both ',' from trim(list)), ',', value))",
    ),
    (
        "list_drop",
        &[("list", Type::Text), ("value", Type::Text)],
        "trim(both ',' from replace(replace(concat(',', list), concat(',', value), ''), concat(', ', value), ''))",
    ),
    ("ps_is_account_enabled", &[("host", Type::Text), ("user", Type::Text)], "'NO'"),
    ("ps_is_consumer_enabled", &[("consumer", Type::Text)], "'NO'"),
    ("ps_thread_id", &[("connection", Type::Number)], "ps_thread_id(coalesce(connection, connection_id()))"),
    ("quote_identifier", &[("name", Type::Text)], "concat('`', replace(name, '`', '``'), '`')"),
    ("sys_get_config", &[("name", Type::Text), ("otherwise", Type::Text)], "otherwise"),
    ("version_major", &[], "cast(substring_index(version(), '.', 1) as bigint)"),
    ("version_minor", &[], "cast(substring_index(substring_index(version(), '.', 2), '.', -1) as bigint)"),
    (
        "version_patch",
        &[],
        "cast(substring_index(substring_index(substring_index(version(), '-', 1), '.', 3), '.', -1) as bigint)",
    ),
];

/// Types of parameters.
#[derive(Clone, Copy)]
enum Type {
    Text,
    Number,
}

impl Type {
    fn sql(self) -> ast::DataType {
        match self {
            Type::Text => ast::DataType::String(None),
            Type::Number => ast::DataType::Double(ast::ExactNumberInfo::None),
        }
    }
}

struct Sys;

impl Aliases for Sys {
    fn find(&self, _: Option<&str>, name: &[&str], arguments: usize) -> Result<Option<Alias>, SqlError> {
        let [database, name] = name else { return Ok(None) };
        let is_found = |(known, parameters, _): &&(&str, &[(&str, Type)], &str)| {
            known.eq_ignore_ascii_case(name) && parameters.len() == arguments
        };
        let Some((name, parameters, sql)) = FUNCTIONS.iter().find(is_found) else { return Ok(None) };
        if !database.eq_ignore_ascii_case(SYS) {
            return Ok(None);
        }
        Ok(Some(Alias {
            identity: format!("{SYS}.{name}"),
            database: None,
            parameters: parameters.iter().map(|(name, of)| ((*name).to_string(), of.sql())).collect(),
            body: parse_expr(sql, &ParseOptions::default())?,
        }))
    }
}

/// Replaces the calls of functions of `sys`. `text` is the statement, which most often does not name the database.
///
/// # Errors
/// The errors of [`alias_functions::expand`].
pub(super) fn expand(query: &mut Query, text: &str) -> Result<(), SqlError> {
    let names_it = text.as_bytes().windows(SYS.len()).any(|part| part.eq_ignore_ascii_case(SYS.as_bytes()));
    if names_it {
        alias_functions::expand(query, None, &Sys)?;
    }
    Ok(())
}
