//! Reading of ANALYZE, ADMIN, BACKUP, RESTORE, RECOVER, CANCEL, CLEAN.

use sqlparser::tokenizer::Token;

use super::cursor::Cursor;
use super::{ddl, partitions, show};
use crate::error::SqlError;
use crate::statement::{Maintenance, ObjectKind, Snapshot, SnapshotTable, Statement, TableChange};

pub(super) fn analyze(c: &mut Cursor<'_>) -> Result<Statement, SqlError> {
    c.expect(&["ANALYZE"])?;
    let _ = c.accept_any(&["FULL", "SAMPLE", "LOCAL", "NO_WRITE_TO_BINLOG"]);
    if c.peek_words(&["ALL"]) {
        return Err(c.unsupported("ANALYZE ALL is not needed: loads keep statistics up to date"));
    }
    if c.peek_words(&["PROFILE"]) {
        return Err(c.unsupported(
            "SHOW QUERY PROFILE '/id' says where the time went; EXPLAIN ANALYZE runs a query and shows it",
        ));
    }
    let kind = match c.accept_any(&["TABLE", "TABLES", "DATABASE"]) {
        Some("DATABASE") => ObjectKind::Database,
        Some(_) => ObjectKind::Table,
        None => return Err(c.expected("TABLE or DATABASE")),
    };
    let name = c.name()?;
    let mut more = Vec::new();
    while kind == ObjectKind::Table && c.accept_token(&Token::Comma) {
        more.push(c.name()?);
    }
    if c.accept_word("PARTITION") || c.accept_word("PARTITIONS") {
        // Statistics always cover all partitions.
        partitions::list(c)?;
    }
    if c.peek_words(&["MULTIPLE", "COLUMNS"]) {
        return Err(c.unsupported("statistics are of one column each; ANALYZE TABLE table (column, ...)"));
    }
    let columns = if *c.peek() == Token::LParen { c.ident_list()? } else { Vec::new() };
    loop {
        // StarRocks: which columns; statistics are kept of all.
        if c.accept(&["ALL", "COLUMNS"]) || c.accept(&["PREDICATE", "COLUMNS"]) {
            continue;
        }
        if c.accept(&["COMPUTE", "STATISTICS"]) {
            let _ = c.accept(&["FOR", "COLUMNS"]) || c.accept_word("NOSCAN");
        } else if c.accept(&["UPDATE", "HISTOGRAM", "ON"]) || c.accept(&["DROP", "HISTOGRAM", "ON"]) {
            c.ident()?;
            while c.accept_token(&Token::Comma) {
                c.ident()?;
            }
        } else if c.accept_word("PROPERTIES") {
            c.properties(false)?;
        } else if c.accept_word("WITH") {
            analyze_option(c)?;
        } else {
            return Ok(Statement::Analyze { kind, name, more, columns });
        }
    }
}

/// Reads an option after WITH.
fn analyze_option(c: &mut Cursor<'_>) -> Result<(), SqlError> {
    match c.accept_any(&[
        "SYNC",
        "ASYNC",
        "SAMPLE",
        "BUCKETS",
        "PERIOD",
        "CRON",
        "INCREMENTAL",
        "FULL",
        "HISTOGRAM",
        "AUTO",
        "SQL",
    ]) {
        Some("SYNC" | "ASYNC") => {
            c.accept_word("MODE");
        }
        Some("SAMPLE") => {
            if c.accept_any(&["PERCENT", "ROWS"]).is_none() {
                return Err(c.expected("PERCENT or ROWS"));
            }
            c.uint()?;
        }
        Some("BUCKETS" | "PERIOD") => {
            c.uint()?;
        }
        Some("CRON") => {
            c.string()?;
        }
        Some(_) => {}
        None => {
            c.uint().map_err(|_| c.expected("SYNC, SAMPLE, BUCKETS or PERIOD"))?;
            c.expect(&["BUCKETS"])?;
        }
    }
    Ok(())
}

/// `CHECK | CHECKSUM | OPTIMIZE | REPAIR [NO_WRITE_TO_BINLOG | LOCAL] TABLE t, ... [options]`.
pub(super) fn maintain(c: &mut Cursor<'_>) -> Result<Statement, SqlError> {
    let (work, options) = match c.accept_any(&["CHECK", "CHECKSUM", "OPTIMIZE", "REPAIR"]) {
        Some("CHECKSUM") => (Maintenance::Checksum { quick: false }, &[&["EXTENDED"][..]][..]),
        Some("CHECK") => (
            Maintenance::Check,
            &[&["FOR", "UPGRADE"][..], &["QUICK"], &["FAST"], &["MEDIUM"], &["EXTENDED"], &["CHANGED"]][..],
        ),
        Some("OPTIMIZE") => (Maintenance::Optimize, &[][..]),
        _ => (Maintenance::Repair, &[&["QUICK"][..], &["EXTENDED"], &["USE_FRM"]][..]),
    };
    if matches!(work, Maintenance::Optimize | Maintenance::Repair) {
        let _ = c.accept_any(&["NO_WRITE_TO_BINLOG", "LOCAL"]);
    }
    if c.accept_any(&["TABLE", "TABLES"]).is_none() {
        return Err(c.expected("TABLE"));
    }
    let mut tables = vec![c.name()?];
    while c.accept_token(&Token::Comma) {
        tables.push(c.name()?);
    }
    while let Some(option) = options.iter().find(|words| c.accept(words)) {
        if work == Maintenance::Check {
            c.notes.push(format!("CHECK TABLE {}: everything is read in any case", option.join(" ")));
        }
    }
    let quick = matches!(work, Maintenance::Checksum { .. }) && c.accept_word("QUICK");
    let work = if quick { Maintenance::Checksum { quick } } else { work };
    Ok(Statement::Maintain { work, tables })
}

/// Reads `DROP [EXPIRED] STATS t [(columns)]`, from STATS on.
pub(super) fn drop_stats(c: &mut Cursor<'_>) -> Result<Statement, SqlError> {
    if c.peek_words(&["EXPIRED"]) {
        return Err(c.unsupported("no statistics expire: they are kept with the rows"));
    }
    c.expect(&["STATS"])?;
    let name = c.name()?;
    let columns = if *c.peek() == Token::LParen { c.ident_list()? } else { Vec::new() };
    if partitions::names(c)?.is_some() {
        return Err(c.unsupported("DROP STATS of partitions is not supported: statistics are part of what loads wrote"));
    }
    Ok(Statement::DropStats { name, columns })
}

pub(super) fn admin(c: &mut Cursor<'_>) -> Result<Statement, SqlError> {
    c.expect(&["ADMIN"])?;
    if c.accept_word("SET") {
        c.accept_word("ALL");
        let backend = match c.accept_any(&["FRONTENDS", "FRONTEND", "BACKEND"]) {
            Some(word) => word == "BACKEND",
            None => {
                return Err(c.unsupported("of ADMIN SET there is only ADMIN SET FRONTEND CONFIG ('name' = 'value')"));
            }
        };
        c.expect(&["CONFIG"])?;
        let properties = if *c.peek() == Token::LParen { c.properties(false)? } else { Vec::new() };
        c.accept_word("ALL");
        // StarRocks: also after a restart.
        c.accept(&["WITH", "PERSISTENT"]);
        return Ok(Statement::AdminSetConfig { backend, properties });
    }
    if c.peek_words(&["SHOW"]) {
        c.advance();
        if c.peek_words(&["TABLET", "STORAGE", "FORMAT"]) {
            return Err(c.unsupported("SHOW TABLET STORAGE FORMAT is not supported: there is one format"));
        }
        if c.peek_words(&["TABLET", "STATUS"]) {
            return Err(
                c.unsupported("ADMIN SHOW TABLET STATUS is not supported; ADMIN SHOW REPLICA STATUS FROM table")
            );
        }
        if c.peek_words(&["AUTOMATED"]) {
            return Err(c.unsupported("snapshots of the cluster are not supported; `dipper backup` is a command"));
        }
        if !["FRONTEND", "BACKEND", "REPLICA", "TABLET", "DATA"].iter().any(|w| c.peek_words(&[w])) {
            return Err(c.expected("FRONTEND CONFIG, BACKEND CONFIG, REPLICA STATUS or REPLICA DISTRIBUTION"));
        }
        return show::show_tail(c);
    }
    if c.accept(&["COMPACT", "TABLE"]) {
        let name = c.name()?;
        let partitions = partitions::names(c)?.map_or_else(Vec::new, |(_, names)| names);
        let mut kind = None;
        if c.accept_word("WHERE") {
            c.expect(&["TYPE"])?;
            c.expect_token(&Token::Eq)?;
            kind = Some(c.string()?.to_ascii_uppercase());
        }
        let changes = vec![TableChange::Compact { partitions, kind }];
        return Ok(Statement::AlterTable { name, if_exists: false, changes });
    }
    Err(c.unsupported(
        "of ADMIN there are SET FRONTEND CONFIG, SHOW FRONTEND CONFIG, SHOW REPLICA STATUS and COMPACT TABLE",
    ))
}

/// Reads `BACKUP [GLOBAL] SNAPSHOT name TO repository [[ON|EXCLUDE] (tables)] [PROPERTIES (..)]`, and RESTORE with
/// FROM.
pub(super) fn snapshot(c: &mut Cursor<'_>) -> Result<Statement, SqlError> {
    let restore = c.accept_word("RESTORE");
    if !restore {
        c.expect(&["BACKUP"])?;
    }
    c.accept_word("GLOBAL");
    c.expect(&["SNAPSHOT"])?;
    let name = c.name()?;
    let repository = if c.accept_word(if restore { "FROM" } else { "TO" }) { Some(c.ident()?) } else { None };
    if ["DATABASE", "ALL", "EXTERNAL"].iter().any(|word| c.peek_words(&[word])) {
        return Err(
            c.unsupported("BACKUP and RESTORE are not supported; `dipper backup` and `dipper restore` are commands")
        );
    }
    let mut snapshot = Snapshot { name, repository, tables: Vec::new(), exclude: false, properties: Vec::new() };
    snapshot.exclude = c.accept_word("EXCLUDE");
    if snapshot.exclude || c.accept_word("ON") || *c.peek() == Token::LParen {
        c.expect_token(&Token::LParen)?;
        loop {
            c.accept_word("TABLE");
            let name = c.name()?;
            let partitions = partitions::names(c)?.map_or_else(Vec::new, |(_, names)| names);
            let alias = if restore && c.accept_word("AS") { Some(c.ident()?) } else { None };
            snapshot.tables.push(SnapshotTable { name, partitions, alias });
            if !c.accept_token(&Token::Comma) {
                break;
            }
        }
        c.expect_token(&Token::RParen)?;
    }
    if c.accept_word("PROPERTIES") {
        snapshot.properties = c.properties(false)?;
    }
    Ok(if restore { Statement::Restore(snapshot) } else { Statement::Backup(snapshot) })
}

pub(super) fn recover(c: &mut Cursor<'_>) -> Result<Statement, SqlError> {
    c.expect(&["RECOVER"])?;
    // The number selects one of several that had the same name.
    let number = |c: &mut Cursor<'_>| match c.peek() {
        Token::Number(..) => c.uint().map(drop),
        _ => Ok(()),
    };
    let (kind, partition) = if c.accept_word("PARTITION") {
        let partition = c.ident()?;
        number(c)?;
        (ObjectKind::Table, Some(partition))
    } else {
        (ddl::kind(c)?, None)
    };
    let mut alias = if partition.is_some() && c.accept_word("AS") { Some(c.ident()?) } else { None };
    if partition.is_some() {
        c.expect(&["FROM"])?;
    }
    let name = c.name()?;
    number(c)?;
    if alias.is_none() && c.accept_word("AS") {
        alias = Some(c.ident()?);
    }
    Ok(Statement::Recover { kind, name, partition, alias })
}

pub(super) fn cancel(c: &mut Cursor<'_>) -> Result<Statement, SqlError> {
    c.expect(&["CANCEL"])?;
    if c.accept(&["ALTER", "TABLE"]) {
        if c.accept(&["MATERIALIZED", "VIEW"]) || c.accept_any(&["COLUMN", "ROLLUP", "OPTIMIZE"]).is_some() {
            c.expect(&["FROM"])?;
            let name = c.name()?;
            if *c.peek() == Token::LParen {
                c.advance();
                c.uint()?;
                while c.accept_token(&Token::Comma) {
                    c.uint()?;
                }
                c.expect_token(&Token::RParen)?;
            }
            return Ok(Statement::CancelAlter { name });
        }
        if !c.peek_words(&["FROM"]) {
            return Err(c.expected("COLUMN, ROLLUP, OPTIMIZE or FROM"));
        }
        c.advance();
        return Ok(Statement::CancelAlter { name: c.name()? });
    }
    if !c.accept_word("LOAD") {
        return Err(c.expected("LOAD or ALTER TABLE"));
    }
    let database = if c.accept_any(&["FROM", "IN"]).is_some() { Some(c.name()?) } else { None };
    if !c.peek_words(&["WHERE", "LABEL"]) {
        return Err(c.unsupported("CANCEL LOAD is not supported but for WHERE LABEL = '...'"));
    }
    c.expect(&["WHERE", "LABEL"])?;
    let like = c.accept_word("LIKE");
    if !like {
        c.expect_token(&Token::Eq)?;
    }
    let label = c.string()?;
    if c.accept(&["AND", "STATE"]) {
        c.expect_token(&Token::Eq)?;
        c.string()?;
    }
    Ok(Statement::CancelLoad { database, label, like })
}

pub(super) fn clean(c: &mut Cursor<'_>) -> Result<Statement, SqlError> {
    if c.accept(&["CLEAN", "ALL", "PROFILE"]) {
        return Ok(Statement::CleanProfiles);
    }
    c.expect(&["CLEAN", "LABEL"])?;
    let label = if c.peek_words(&["FROM"]) || c.peek_words(&["IN"]) {
        None
    } else if c.at_string() {
        Some(c.string()?)
    } else {
        Some(c.ident()?)
    };
    if c.accept_any(&["FROM", "IN"]).is_none() {
        return Err(c.expected("FROM database"));
    }
    Ok(Statement::CleanLabel { label, database: c.name()? })
}
