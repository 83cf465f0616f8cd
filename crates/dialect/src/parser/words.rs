//! Choice of a statement's reader by its first words.

use dipper_base::near;
use sqlparser::tokenizer::Token;

use super::cursor::Cursor;
use super::{access, admin, alter, ddl, dml, merge, refused, session, show, volume, write};
use crate::error::SqlError;
use crate::statement::Statement;

/// Words with which a statement can start, for near matches in errors.
const FIRST_WORDS: &[&str] = &[
    "SELECT",
    "WITH",
    "VALUES",
    "TABLE",
    "INSERT",
    "REPLACE",
    "EXPLAIN",
    "DESCRIBE",
    "DESC",
    "CREATE",
    "DROP",
    "ALTER",
    "TRUNCATE",
    "RENAME",
    "MSCK",
    "REFRESH",
    "SHOW",
    "USE",
    "SWITCH",
    "SET",
    "UNSET",
    "BEGIN",
    "START",
    "COMMIT",
    "ROLLBACK",
    "SAVEPOINT",
    "RELEASE",
    "KILL",
    "LOCK",
    "UNLOCK",
    "FLUSH",
    "ANALYZE",
    "CHECK",
    "CHECKSUM",
    "OPTIMIZE",
    "REPAIR",
    "SYNC",
    "PREPARE",
    "EXECUTE",
    "DEALLOCATE",
    "DO",
    "HELP",
    "COPY",
    "UPDATE",
    "DELETE",
    "MERGE",
    "LOAD",
    "ADMIN",
    "BUILD",
    "BACKUP",
    "RESTORE",
    "RECOVER",
    "CANCEL",
    "CLEAN",
    "GRANT",
    "REVOKE",
    "CACHE",
];

pub(super) fn statement(c: &mut Cursor<'_>) -> Result<Statement, SqlError> {
    let Token::Word(word) = c.peek().clone() else {
        if *c.peek() == Token::LParen {
            return dml::query(c);
        }
        return Err(c.expected("a statement"));
    };
    if word.quote_style.is_some() {
        return Err(c.expected("a statement"));
    }
    if let Some(known) = refused::statement(c) {
        return known;
    }
    match word.value.to_ascii_uppercase().as_str() {
        "WITH" => dml::with(c),
        "SELECT" | "VALUES" => dml::query(c),
        "TABLE" => dml::table(c),
        "INSERT" | "REPLACE" => dml::insert(c),
        "UPDATE" => write::update(c),
        "DELETE" => write::delete(c),
        "MERGE" => merge::merge(c),
        "LOAD" => write::load(c),
        "COPY" => dml::copy(c),
        "DO" => dml::do_exprs(c),
        "EXPLAIN" | "DESCRIBE" | "DESC" => show::explain(c),
        "SHOW" => show::show(c),
        "HELP" => show::help(c),
        "CREATE" => ddl::create(c),
        "DROP" => ddl::drop(c),
        "ALTER" => alter::alter(c),
        "BUILD" => ddl::build_index(c),
        "TRUNCATE" => ddl::truncate(c),
        "RENAME" => ddl::rename(c),
        "MSCK" => ddl::msck(c),
        "REFRESH" => ddl::refresh(c),
        "ANALYZE" => admin::analyze(c),
        "CHECK" | "CHECKSUM" | "OPTIMIZE" | "REPAIR" => admin::maintain(c),
        "XA" => session::xa(c),
        "ADMIN" => admin::admin(c),
        "BACKUP" | "RESTORE" => admin::snapshot(c),
        "RECOVER" => admin::recover(c),
        "CANCEL" => admin::cancel(c),
        "CLEAN" => admin::clean(c),
        "CACHE" => volume::cache(c),
        "USE" => session::use_database(c),
        "SWITCH" => session::switch(c),
        "SET" => session::set(c),
        "UNSET" => session::unset(c),
        "BEGIN" | "START" | "COMMIT" | "ROLLBACK" | "SAVEPOINT" | "RELEASE" => session::transaction(c),
        "GRANT" | "REVOKE" => access::grant(c),
        "KILL" => session::kill(c),
        "LOCK" | "UNLOCK" => session::lock(c),
        "FLUSH" => session::flush(c),
        "SYNC" => session::sync(c),
        "PREPARE" | "EXECUTE" | "DEALLOCATE" => session::prepared(c),
        other => {
            let mut error = c.expected("a statement");
            if let Some(near) = near::closest(other, FIRST_WORDS.iter().copied()) {
                error.message.push_str(&format!("; did you mean {near}?"));
            }
            Err(error)
        }
    }
}

/// Returns the assignments of a hint `SET_VAR(a=b, c=d)` (Doris, MySQL). Other hints do not change a result and are
/// skipped.
pub(super) fn hint(text: &str) -> Vec<(String, String)> {
    let mut out = Vec::new();
    let mut rest = text;
    while let Some(at) = rest.to_ascii_uppercase().find("SET_VAR") {
        rest = rest[at + "SET_VAR".len()..].trim_start();
        let Some(inner) = rest.strip_prefix('(') else { continue };
        let (body, after) = hint_body(inner);
        for part in body {
            if let Some((key, value)) = part.split_once('=') {
                let value = value.trim();
                let unquoted = ['\'', '"']
                    .iter()
                    .find_map(|q| value.strip_prefix(*q).and_then(|v| v.strip_suffix(*q)))
                    .unwrap_or(value);
                out.push((key.trim().trim_matches('`').to_string(), unquoted.to_string()));
            }
        }
        rest = after;
    }
    out
}

/// Splits the text up to the closing parenthesis at commas outside of quotes.
fn hint_body(inner: &str) -> (Vec<String>, &str) {
    let mut parts = vec![String::new()];
    let mut quote = None;
    for (i, c) in inner.char_indices() {
        match (quote, c) {
            (None, ')') => return (parts, &inner[i + 1..]),
            (None, ',') => parts.push(String::new()),
            (_, c) => {
                if let Some(last) = parts.last_mut() {
                    last.push(c);
                }
                if quote == Some(c) {
                    quote = None;
                } else if quote.is_none() && (c == '\'' || c == '"') {
                    quote = Some(c);
                }
            }
        }
    }
    (parts, "")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn set_var_hints() {
        assert_eq!(
            hint(" LEADING(a) SET_VAR(query_timeout = 1, sql_mode='A,B' ) set_var(x=\"y\") "),
            [("query_timeout", "1"), ("sql_mode", "A,B"), ("x", "y")].map(|(a, b)| (a.into(), b.into()))
        );
        assert!(hint("SET_VAR").is_empty());
    }
}
