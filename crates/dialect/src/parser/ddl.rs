//! Reading of CREATE and DROP of objects other than tables, which have files of their own, and of other statements
//! about whole objects.

use sqlparser::tokenizer::Token;

use super::cursor::Cursor;
use super::{access, catalogs, columns, functions, partitions, table, volume};
use crate::error::SqlError;
use crate::statement::{CreateIndex, CreateView, IndexDef, ObjectKind, Statement, ViewKind};

pub(super) fn create(c: &mut Cursor<'_>) -> Result<Statement, SqlError> {
    c.expect(&["CREATE"])?;
    let or_replace = c.accept(&["OR", "REPLACE"]);
    if c.accept_any(&["DATABASE", "SCHEMA"]).is_some() {
        return create_database(c);
    }
    rights_of_view(c)?;
    if c.accept_word("VIEW") {
        return create_view(c, or_replace);
    }
    let global = c.peek_words(&["GLOBAL", "ALIAS", "FUNCTION"]);
    if global || c.peek_words(&["ALIAS", "FUNCTION"]) {
        if or_replace {
            return Err(c.unsupported("CREATE OR REPLACE ALIAS FUNCTION is not supported; drop the function first"));
        }
        c.accept_word("GLOBAL");
        c.expect(&["ALIAS", "FUNCTION"])?;
        return functions::create(c, global);
    }
    if !or_replace && c.accept(&["MATERIALIZED", "VIEW"]) {
        return create_materialized_view(c);
    }
    let start = c.index();
    let external = c.accept_word("EXTERNAL");
    let temporary = !external && c.accept_word("TEMPORARY");
    if c.accept_word("TABLE") {
        if or_replace && (external || temporary) {
            return Err(c.unsupported("OR REPLACE is for tables that are not EXTERNAL and not TEMPORARY"));
        }
        let at = c.index();
        let mut statement = table::create_table(c, external, temporary)?;
        match &mut statement {
            _ if !or_replace => {}
            Statement::CreateTable(create) if !create.if_not_exists => create.or_replace = true,
            Statement::CreateTable(_) => {
                c.seek(at);
                return Err(SqlError::syntax("OR REPLACE and IF NOT EXISTS exclude each other", Some(c.position())));
            }
            _ => {
                c.seek(at);
                return Err(c.unsupported("OR REPLACE is for native tables, and not with LIKE; drop the table first"));
            }
        }
        return Ok(statement);
    }
    c.seek(start);
    if c.accept_word("CATALOG") || c.accept(&["EXTERNAL", "CATALOG"]) {
        return catalogs::create(c);
    }
    let unique = c.accept_word("UNIQUE");
    if c.accept_word("INDEX") {
        return create_index(c, unique);
    }
    if unique {
        return Err(c.expected("INDEX"));
    }
    if c.accept_word("USER") {
        return access::create_user(c);
    }
    if c.accept_word("ROLE") {
        return access::create_role(c);
    }
    if c.accept(&["STORAGE", "VOLUME"]) {
        return volume::create(c);
    }
    Err(c.expected("TABLE, EXTERNAL TABLE, VIEW or DATABASE"))
}

/// Reads rights and algorithms of MySQL's views, which dumps contain, and which have no effect here.
pub(super) fn rights_of_view(c: &mut Cursor<'_>) -> Result<(), SqlError> {
    while c.accept_any(&["ALGORITHM", "DEFINER", "SQL"]).is_some() {
        if !c.accept_word("SECURITY") {
            c.expect_token(&Token::Eq)?;
        }
        if c.accept_any(&["UNDEFINED", "MERGE", "TEMPTABLE", "INVOKER"]).is_none() && !c.accept_word("DEFINER") {
            super::show::user(c)?;
        }
    }
    Ok(())
}

/// Reads MySQL's WITH CHECK OPTION, if it is next: no view takes rows, so there is nothing to check.
pub(super) fn check_option(c: &mut Cursor<'_>) -> Result<(), SqlError> {
    if c.accept_word("WITH") {
        let _ = c.accept_any(&["CASCADED", "LOCAL"]);
        c.expect(&["CHECK", "OPTION"])?;
    }
    Ok(())
}

/// Reads `[IF NOT EXISTS] name [USING x] ON table (columns) [USING x] [PROPERTIES ..] [COMMENT ..]`, after INDEX.
fn create_index(c: &mut Cursor<'_>, unique: bool) -> Result<Statement, SqlError> {
    let if_not_exists = c.if_not_exists();
    let name = Some(c.ident()?);
    let using = columns::using(c)?;
    c.expect(&["ON"])?;
    let table = c.name()?;
    let columns = columns::key_parts(c)?;
    let index = IndexDef { name, unique, columns, using, properties: Vec::new(), comment: None };
    let index = columns::index_options(c, index)?;
    Ok(Statement::CreateIndex(CreateIndex { table, if_not_exists, index }))
}

/// Reads `BUILD INDEX [name] ON table [PARTITION ..]`.
pub(super) fn build_index(c: &mut Cursor<'_>) -> Result<Statement, SqlError> {
    c.expect(&["BUILD", "INDEX"])?;
    let name = if c.peek_words(&["ON"]) { None } else { Some(c.ident()?) };
    c.expect(&["ON"])?;
    let table = c.name()?;
    let partitions = partitions::names(c)?.map_or_else(Vec::new, |(_, names)| names);
    Ok(Statement::BuildIndex { name, table, partitions })
}

fn create_database(c: &mut Cursor<'_>) -> Result<Statement, SqlError> {
    let if_not_exists = c.if_not_exists();
    let name = c.name()?;
    let mut properties = Vec::new();
    loop {
        c.accept_word("DEFAULT");
        if c.accept(&["CHARACTER", "SET"]) || c.accept_word("CHARSET") {
            c.accept_token(&Token::Eq);
            properties.push(("charset".into(), c.ident()?));
        } else if c.accept_word("COLLATE") {
            c.accept_token(&Token::Eq);
            properties.push(("collate".into(), c.ident()?));
        } else if c.accept_any(&["PROPERTIES", "DBPROPERTIES"]).is_some() || c.accept(&["WITH", "DBPROPERTIES"]) {
            properties.extend(c.properties(false)?);
        } else if let Some(comment) = c.comment()? {
            properties.push(("comment".into(), comment));
        } else if c.accept_word("LOCATION") {
            properties.push(("location".into(), c.string()?));
        } else if !catalogs::no_encryption(c)? {
            break;
        }
    }
    Ok(Statement::CreateDatabase { name, if_not_exists, properties })
}

fn create_view(c: &mut Cursor<'_>, or_replace: bool) -> Result<Statement, SqlError> {
    let if_not_exists = c.if_not_exists();
    let name = c.name()?;
    let columns = view_columns(c)?;
    refuse_policies(c)?;
    let comment = c.comment()?;
    // StarRocks: NONE is a view that is read by the privilege on the view alone.
    if !c.accept(&["SECURITY", "NONE"]) && c.peek_words(&["SECURITY", "INVOKER"]) {
        return Err(c.unsupported(INVOKER));
    }
    if c.peek_words(&["PROPERTIES"]) {
        return Err(c.unsupported("views have no properties"));
    }
    c.expect(&["AS"])?;
    let query = c.query()?;
    check_option(c)?;
    let (kind, clauses) = (ViewKind::Plain, String::new());
    Ok(Statement::CreateView(CreateView { kind, name, or_replace, if_not_exists, columns, comment, clauses, query }))
}

/// Reads `[IF NOT EXISTS] name [(columns)] [clauses] AS query`, after MATERIALIZED VIEW. Clauses say when and where
/// rows are stored; a view without such clauses belongs to its table.
fn create_materialized_view(c: &mut Cursor<'_>) -> Result<Statement, SqlError> {
    let if_not_exists = c.if_not_exists();
    let name = c.name()?;
    let columns = view_columns(c)?;
    let mut comment = None;
    let mut kind = ViewKind::OfTable;
    let start = c.index();
    while !c.peek_words(&["AS"]) {
        if c.at_end() {
            return Err(c.expected("AS"));
        }
        if let Some(text) = c.comment()? {
            comment = Some(text);
        } else if c.accept_word("PROPERTIES") {
            c.properties(false)?;
        } else {
            kind = ViewKind::Materialized;
            storage_clause(c)?;
        }
    }
    let clauses = c.text_from(start).to_string();
    c.advance();
    let query = c.query()?;
    let or_replace = false;
    Ok(Statement::CreateView(CreateView { kind, name, or_replace, if_not_exists, columns, comment, clauses, query }))
}

/// Reads a clause of Doris or StarRocks that says when and where the rows of a materialized view are stored.
///
/// # Errors
/// 1235 for a policy, 1064 for words that are no such clause.
fn storage_clause(c: &mut Cursor<'_>) -> Result<(), SqlError> {
    refuse_policies(c)?;
    if c.accept_word("BUILD") {
        return match c.accept_any(&["IMMEDIATE", "DEFERRED"]) {
            Some(_) => Ok(()),
            None => Err(c.expected("IMMEDIATE or DEFERRED")),
        };
    }
    if c.accept_word("REFRESH") {
        return refresh_clause(c);
    }
    if c.accept(&["DUPLICATE", "KEY"]) || c.accept_word("KEY") || c.accept(&["ORDER", "BY"]) {
        c.ident_list()?;
        return Ok(());
    }
    if c.accept(&["PARTITION", "BY"]) {
        // Several columns may stand in parentheses, and StarRocks leaves these out.
        loop {
            c.expr()?;
            if !c.accept_token(&Token::Comma) {
                return Ok(());
            }
        }
    }
    match partitions::distribution(c)? {
        Some(_) => Ok(()),
        None => Err(c.expected("AS or a clause of a materialized view")),
    }
}

/// Reads Doris's `[COMPLETE | AUTO] [ON {MANUAL | COMMIT | SCHEDULE EVERY n unit [STARTS time]}]` and StarRocks's
/// `[IMMEDIATE | DEFERRED] {MANUAL | SYNC | INCREMENTAL | ASYNC [START (time)] [EVERY (INTERVAL n unit)]}`, after
/// REFRESH.
fn refresh_clause(c: &mut Cursor<'_>) -> Result<(), SqlError> {
    let start = c.index();
    let method = c.accept_any(&["COMPLETE", "AUTO"]);
    if c.accept_word("ON") {
        return match c.accept_any(&["MANUAL", "COMMIT", "SCHEDULE"]) {
            Some("SCHEDULE") => {
                c.expect(&["EVERY"])?;
                c.uint()?;
                c.ident()?;
                if c.accept_word("STARTS") {
                    c.string()?;
                }
                Ok(())
            }
            Some(_) => Ok(()),
            None => Err(c.expected("MANUAL, COMMIT or SCHEDULE")),
        };
    }
    if method.is_some() {
        return Ok(());
    }
    c.accept_any(&["IMMEDIATE", "DEFERRED"]);
    match c.accept_any(&["MANUAL", "SYNC", "INCREMENTAL", "ASYNC"]) {
        Some("ASYNC") => {
            if c.accept_word("START") {
                c.expect_token(&Token::LParen)?;
                c.string()?;
                c.expect_token(&Token::RParen)?;
            }
            if c.accept_word("EVERY") {
                c.expect_token(&Token::LParen)?;
                c.accept_word("INTERVAL");
                c.uint()?;
                c.ident()?;
                c.expect_token(&Token::RParen)?;
            }
            Ok(())
        }
        Some(_) => Ok(()),
        // IMMEDIATE and DEFERRED alone are clauses as well.
        None if c.index() > start => Ok(()),
        None => Err(c.expected("COMPLETE, AUTO, ON, IMMEDIATE, DEFERRED, MANUAL, SYNC, INCREMENTAL or ASYNC")),
    }
}

/// Skips one token, or all between parentheses.
fn skip_clause(c: &mut Cursor<'_>) -> Result<(), SqlError> {
    if !c.accept_token(&Token::LParen) {
        c.advance();
        return Ok(());
    }
    while !c.accept_token(&Token::RParen) {
        if c.at_end() {
            return Err(c.expected("')'"));
        }
        skip_clause(c)?;
    }
    Ok(())
}

/// Reads `[IF EXISTS] name [ON table] [FORCE]`, after DROP MATERIALIZED VIEW.
fn drop_materialized_view(c: &mut Cursor<'_>) -> Result<Statement, SqlError> {
    let if_exists = c.if_exists();
    let name = c.name()?;
    if c.accept_word("ON") {
        c.name()?;
        return Ok(Statement::DropNothing { kind: "MATERIALIZED VIEW".into() });
    }
    // A view leaves nothing behind, so FORCE changes nothing.
    c.accept_word("FORCE");
    Ok(Statement::Drop { kind: ObjectKind::View, names: vec![name], if_exists, force: false })
}

pub(super) const INVOKER: &str = "SECURITY INVOKER is not supported: a view is read by the privilege on the view alone";

/// Refuses StarRocks' policies on rows and values.
///
/// # Errors
/// 1235 if a policy is next.
pub(super) fn refuse_policies(c: &Cursor<'_>) -> Result<(), SqlError> {
    for (words, message) in [
        (&["WITH", "ROW", "ACCESS", "POLICY"][..], "ROW ACCESS POLICY is not supported; make a view of the rows"),
        (&["WITH", "MASKING", "POLICY"], "MASKING POLICY is not supported; make a view with what may be seen"),
    ] {
        if c.peek_words(words) {
            return Err(c.unsupported(message));
        }
    }
    Ok(())
}

/// `(a, b COMMENT 'text')` of a view, or nothing.
pub(super) fn view_columns(c: &mut Cursor<'_>) -> Result<Vec<(String, Option<String>)>, SqlError> {
    let mut columns = Vec::new();
    if c.accept_token(&Token::LParen) {
        loop {
            let column = c.ident()?;
            refuse_policies(c)?;
            columns.push((column, c.comment()?));
            if !c.accept_token(&Token::Comma) {
                break;
            }
        }
        c.expect_token(&Token::RParen)?;
    }
    Ok(columns)
}

pub(super) fn kind(c: &mut Cursor<'_>) -> Result<ObjectKind, SqlError> {
    match c.accept_any(&["TABLE", "VIEW", "DATABASE", "SCHEMA"]) {
        Some("TABLE") => Ok(ObjectKind::Table),
        Some("VIEW") => Ok(ObjectKind::View),
        Some(_) => Ok(ObjectKind::Database),
        None => Err(c.expected("TABLE, VIEW or DATABASE")),
    }
}

pub(super) fn drop(c: &mut Cursor<'_>) -> Result<Statement, SqlError> {
    c.expect(&["DROP"])?;
    if c.accept_word("PREPARE") {
        return Ok(Statement::Deallocate(c.ident()?));
    }
    if c.accept_word("INDEX") {
        let if_exists = c.if_exists();
        let name = c.ident()?;
        c.expect(&["ON"])?;
        return Ok(Statement::DropIndex { name, table: c.name()?, if_exists });
    }
    if c.accept_word("USER") {
        return access::drop_user(c);
    }
    if c.accept_word("ROLE") {
        return access::drop_role(c);
    }
    if c.accept(&["STORAGE", "VOLUME"]) {
        return volume::drop(c);
    }
    if c.accept_word("CATALOG") {
        return catalogs::drop(c);
    }
    let global = c.accept(&["GLOBAL", "FUNCTION"]);
    if global || c.accept_word("FUNCTION") {
        return functions::drop(c, global);
    }
    if c.accept(&["MATERIALIZED", "VIEW"]) {
        return drop_materialized_view(c);
    }
    if c.peek_words(&["STATS"]) || c.peek_words(&["EXPIRED", "STATS"]) {
        return super::admin::drop_stats(c);
    }
    c.accept_word("TEMPORARY");
    c.accept_word("EXTERNAL");
    let kind = kind(c)?;
    let if_exists = c.if_exists();
    let mut names = vec![c.name()?];
    while kind != ObjectKind::Database && c.accept_token(&Token::Comma) {
        names.push(c.name()?);
    }
    let mut force = false;
    while let Some(word) = c.accept_any(&["FORCE", "PURGE", "CASCADE", "RESTRICT"]) {
        force |= word != "RESTRICT";
    }
    Ok(Statement::Drop { kind, names, if_exists, force })
}

pub(super) fn truncate(c: &mut Cursor<'_>) -> Result<Statement, SqlError> {
    c.expect(&["TRUNCATE"])?;
    c.accept_word("TABLE");
    let name = c.name()?;
    let partitions = match partitions::names(c)? {
        None => Vec::new(),
        Some((false, names)) => names,
        Some((true, _)) => return Err(c.unsupported("temporary partitions are not truncated; drop and add them")),
    };
    // Doris: FORCE asks not to keep the rows in a recycle bin. There is no recycle bin here.
    c.accept_word("FORCE");
    Ok(Statement::Truncate { name, partitions })
}

pub(super) fn msck(c: &mut Cursor<'_>) -> Result<Statement, SqlError> {
    c.expect(&["MSCK"])?;
    // Without REPAIR, Hive only reports; nothing here keeps a report, so the word is required.
    c.expect(&["REPAIR", "TABLE"])?;
    let name = c.name()?;
    let word = c.accept_any(&["ADD", "DROP", "SYNC"]);
    if word.is_some() {
        c.expect(&["PARTITIONS"])?;
    }
    Ok(Statement::MsckRepair { name, add: word != Some("DROP"), drop: matches!(word, Some("DROP" | "SYNC")) })
}

pub(super) fn refresh(c: &mut Cursor<'_>) -> Result<Statement, SqlError> {
    c.expect(&["REFRESH"])?;
    // A materialized view is computed by each query, so there is nothing to choose.
    if c.accept(&["MATERIALIZED", "VIEW"]) {
        let name = c.name()?;
        refresh_of_view(c)?;
        return Ok(Statement::Refresh { kind: Some(ObjectKind::View), name });
    }
    c.accept_word("EXTERNAL");
    let kind = if c.accept_word("CATALOG") { None } else { Some(kind(c)?) };
    let name = c.name()?;
    // The choice of partitions, and whether caches are dropped, too, has no effect: nothing is cached for which it
    // would matter.
    if c.accept_word("PARTITION") {
        c.expect_token(&Token::LParen)?;
        loop {
            c.string()?;
            if !c.accept_token(&Token::Comma) {
                break;
            }
        }
        c.expect_token(&Token::RParen)?;
    }
    if c.accept_word("PROPERTIES") {
        c.properties(false)?;
    }
    Ok(Statement::Refresh { kind, name })
}

/// Reads the choices of Doris and StarRocks behind the name in REFRESH MATERIALIZED VIEW.
fn refresh_of_view(c: &mut Cursor<'_>) -> Result<(), SqlError> {
    if c.accept_any(&["AUTO", "COMPLETE"]).is_some() {
        return Ok(());
    }
    if c.accept(&["PARTITION", "START"]) {
        skip_clause(c)?;
        c.expect(&["END"])?;
        skip_clause(c)?;
    } else if c.accept_any(&["PARTITION", "PARTITIONS"]).is_some() {
        skip_clause(c)?;
    }
    c.accept_word("FORCE");
    if c.accept(&["WITH", "PRIORITY"]) {
        c.uint()?;
    } else if c.accept(&["WITH", "SYNC"]) || c.accept(&["WITH", "ASYNC"]) {
        c.expect(&["MODE"])?;
    }
    Ok(())
}

/// Reads `RENAME TABLE a TO b[, c TO d]`, and RENAME USER.
pub(super) fn rename(c: &mut Cursor<'_>) -> Result<Statement, SqlError> {
    c.expect(&["RENAME"])?;
    if c.accept_word("USER") {
        return access::rename_user(c);
    }
    if c.accept_any(&["TABLE", "TABLES"]).is_none() {
        return Err(c.expected("TABLE or USER"));
    }
    let mut pairs = Vec::new();
    loop {
        let from = c.name()?;
        c.expect(&["TO"])?;
        pairs.push((from, c.name()?));
        if !c.accept_token(&Token::Comma) {
            return Ok(Statement::RenameTables(pairs));
        }
    }
}
