//! CREATE, DROP, ALTER and their kin, in Hive's, Doris's and MySQL's words.

use sqlparser::tokenizer::Token;

use super::cursor::Cursor;
use crate::error::SqlError;
use crate::statement::{
    ColumnDef, CreateExternalTable, CreateView, ObjectKind, RowFormat, Statement, StoredAs, TableChange,
};

pub(super) fn create(c: &mut Cursor<'_>) -> Result<Statement, SqlError> {
    c.expect(&["CREATE"])?;
    let or_replace = c.accept(&["OR", "REPLACE"]);
    if c.accept_any(&["DATABASE", "SCHEMA"]).is_some() {
        return create_database(c);
    }
    // Rights and algorithms of MySQL's views (dumps write them) change nothing here.
    while c.accept_any(&["ALGORITHM", "DEFINER", "SQL"]).is_some() {
        if !c.accept_word("SECURITY") {
            c.expect_token(&Token::Eq)?;
        }
        if c.accept_any(&["UNDEFINED", "MERGE", "TEMPTABLE", "INVOKER"]).is_none() && !c.accept_word("DEFINER") {
            super::show::user(c)?;
        }
    }
    if c.accept_word("VIEW") {
        return create_view(c, or_replace);
    }
    let external = c.accept_word("EXTERNAL");
    if c.accept_word("TABLE") {
        if or_replace {
            return Err(c.unsupported("CREATE OR REPLACE TABLE is not supported; drop the table first"));
        }
        return create_table(c, external);
    }
    for (words, what) in [
        (&["USER"][..], "CREATE USER"),
        (&["ROLE"], "CREATE ROLE"),
        (&["CATALOG"], "CREATE CATALOG"),
        (&["EXTERNAL", "CATALOG"], "CREATE CATALOG"),
        (&["MATERIALIZED", "VIEW"], "CREATE MATERIALIZED VIEW"),
        (&["TEMPORARY"], "CREATE TEMPORARY TABLE"),
        (&["INDEX"], "CREATE INDEX"),
        (&["FUNCTION"], "CREATE FUNCTION"),
        (&["TRIGGER"], "CREATE TRIGGER"),
        (&["PROCEDURE"], "CREATE PROCEDURE"),
        (&["RESOURCE"], "CREATE RESOURCE"),
        (&["REPOSITORY"], "CREATE REPOSITORY"),
        (&["STAGE"], "CREATE STAGE"),
        (&["WORKLOAD"], "CREATE WORKLOAD"),
        (&["JOB"], "CREATE JOB"),
    ] {
        if c.peek_words(words) {
            return Err(c.unsupported(&format!("{what} is not supported")));
        }
    }
    Err(c.expected("TABLE, EXTERNAL TABLE, VIEW or DATABASE"))
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
        } else {
            break;
        }
    }
    Ok(Statement::CreateDatabase { name, if_not_exists, properties })
}

fn create_view(c: &mut Cursor<'_>, or_replace: bool) -> Result<Statement, SqlError> {
    let if_not_exists = c.if_not_exists();
    let name = c.name()?;
    let mut columns = Vec::new();
    if c.accept_token(&Token::LParen) {
        loop {
            let column = c.ident()?;
            columns.push((column, c.comment()?));
            if !c.accept_token(&Token::Comma) {
                break;
            }
        }
        c.expect_token(&Token::RParen)?;
    }
    let comment = c.comment()?;
    c.expect(&["AS"])?;
    let query = c.query()?;
    if c.accept_word("WITH") {
        let _ = c.accept_any(&["CASCADED", "LOCAL"]);
        c.expect(&["CHECK", "OPTION"])?;
    }
    Ok(Statement::CreateView(CreateView { name, or_replace, if_not_exists, columns, comment, query }))
}

pub(super) fn column_def(c: &mut Cursor<'_>) -> Result<ColumnDef, SqlError> {
    let name = c.ident()?;
    let data_type = c.sql_type()?;
    let mut def = ColumnDef {
        name,
        data_type,
        comment: None,
        not_null: false,
        key: false,
        aggregate: None,
        auto_increment: None,
        default: None,
        on_update: None,
    };
    loop {
        if c.accept(&["NOT", "NULL"]) {
            def.not_null = true;
        } else if c.accept_word("NULL") {
            def.not_null = false;
        } else if let Some(comment) = c.comment()? {
            def.comment = Some(comment);
        } else {
            return Ok(def);
        }
    }
}

fn column_defs(c: &mut Cursor<'_>) -> Result<Vec<ColumnDef>, SqlError> {
    c.expect_token(&Token::LParen)?;
    let mut out = vec![column_def(c)?];
    while c.accept_token(&Token::Comma) {
        out.push(column_def(c)?);
    }
    if !c.accept_token(&Token::RParen) {
        return Err(c.expected("',' or ')' or COMMENT"));
    }
    Ok(out)
}

fn create_table(c: &mut Cursor<'_>, external: bool) -> Result<Statement, SqlError> {
    let start = c.index();
    let if_not_exists = c.if_not_exists();
    let name = c.name()?;
    if c.accept_word("LIKE") {
        return Ok(Statement::CreateTableLike { name, like: c.name()?, if_not_exists, temporary: false });
    }
    let mut t = CreateExternalTable {
        name,
        external,
        if_not_exists,
        columns: Vec::new(),
        partition_columns: Vec::new(),
        comment: None,
        row_format: None,
        stored_as: None,
        location: None,
        properties: Vec::new(),
        query: None,
    };
    if *c.peek() == Token::LParen {
        t.columns = column_defs(c)?;
    }
    loop {
        if let Some(comment) = c.comment()? {
            t.comment = Some(comment);
        } else if c.accept(&["PARTITIONED", "BY"]) {
            t.partition_columns = column_defs(c)?;
        } else if c.peek_words(&["ROW", "FORMAT"]) {
            t.row_format = Some(row_format(c)?);
        } else if c.accept(&["STORED", "AS"]) {
            t.stored_as = Some(stored_as(c)?);
        } else if c.accept_word("LOCATION") {
            t.location = Some(c.string()?);
        } else if c.accept_any(&["TBLPROPERTIES", "PROPERTIES"]).is_some() {
            t.properties.extend(c.properties(true)?);
        } else if c.accept_word("AS") {
            t.query = Some(c.query()?);
            break;
        } else if c.peek_words(&["STORED", "BY"]) {
            return Err(c.unsupported("STORED BY is not supported; use STORED AS TEXTFILE or PARQUET"));
        } else if c.peek_words(&["CLUSTERED"]) || c.peek_words(&["SKEWED"]) {
            return Err(c.unsupported("CLUSTERED BY and SKEWED BY are not supported for tables over files"));
        } else {
            break;
        }
    }
    if external || t.stored_as.is_some() || t.row_format.is_some() || t.location.is_some() {
        return Ok(Statement::CreateExternalTable(t));
    }
    let at_end = c.at_end();
    let error = if at_end {
        c.seek(start);
        c.unsupported("a table needs files to live in: add STORED AS TEXTFILE (or PARQUET) and LOCATION '...'")
    } else {
        c.expected("PARTITIONED BY, ROW FORMAT, STORED AS, LOCATION, TBLPROPERTIES, COMMENT or AS")
    };
    Err(error)
}

fn row_format(c: &mut Cursor<'_>) -> Result<RowFormat, SqlError> {
    c.expect(&["ROW", "FORMAT"])?;
    if c.accept_word("SERDE") {
        let class = c.string()?;
        let properties = if c.accept(&["WITH", "SERDEPROPERTIES"]) { c.properties(true)? } else { Vec::new() };
        return Ok(RowFormat::Serde { class, properties });
    }
    if !c.accept_word("DELIMITED") {
        return Err(c.expected("DELIMITED or SERDE"));
    }
    let (mut field, mut escape, mut collection, mut map_key, mut line, mut null) = (None, None, None, None, None, None);
    loop {
        if c.accept(&["FIELDS", "TERMINATED", "BY"]) {
            field = Some(c.hive_string()?);
        } else if c.accept(&["ESCAPED", "BY"]) {
            escape = Some(c.hive_string()?);
        } else if c.accept(&["COLLECTION", "ITEMS", "TERMINATED", "BY"]) {
            collection = Some(c.hive_string()?);
        } else if c.accept(&["MAP", "KEYS", "TERMINATED", "BY"]) {
            map_key = Some(c.hive_string()?);
        } else if c.accept(&["LINES", "TERMINATED", "BY"]) {
            line = Some(c.hive_string()?);
        } else if c.accept(&["NULL", "DEFINED", "AS"]) {
            null = Some(c.hive_string()?);
        } else {
            return Ok(RowFormat::Delimited { field, escape, collection, map_key, line, null });
        }
    }
}

fn stored_as(c: &mut Cursor<'_>) -> Result<StoredAs, SqlError> {
    if c.accept_word("INPUTFORMAT") {
        let input = c.string()?;
        c.expect(&["OUTPUTFORMAT"])?;
        return Ok(StoredAs::Classes { input, output: c.string()? });
    }
    Ok(StoredAs::Format(c.ident()?.to_ascii_uppercase()))
}

fn kind(c: &mut Cursor<'_>) -> Result<ObjectKind, SqlError> {
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
    let partitions = if c.accept_any(&["PARTITION", "PARTITIONS"]).is_some() { c.ident_list()? } else { Vec::new() };
    Ok(Statement::Truncate { name, partitions })
}

pub(super) fn msck(c: &mut Cursor<'_>) -> Result<Statement, SqlError> {
    c.expect(&["MSCK"])?;
    // Without REPAIR Hive only reports; nothing here keeps a report, so the word is required.
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
    c.accept_word("EXTERNAL");
    if c.accept_word("CATALOG") {
        return Ok(Statement::Refresh { kind: None, name: c.name()? });
    }
    let kind = kind(c)?;
    Ok(Statement::Refresh { kind: Some(kind), name: c.name()? })
}

pub(super) fn analyze(c: &mut Cursor<'_>) -> Result<Statement, SqlError> {
    c.expect(&["ANALYZE"])?;
    let _ = c.accept_any(&["FULL", "SAMPLE", "LOCAL", "NO_WRITE_TO_BINLOG"]);
    c.expect(&["TABLE"])?;
    let name = c.name()?;
    let columns = if *c.peek() == Token::LParen { c.ident_list()? } else { Vec::new() };
    if c.accept(&["COMPUTE", "STATISTICS"]) {
        let _ = c.accept(&["FOR", "COLUMNS"]) || c.accept_word("NOSCAN");
    }
    let _ = c.accept(&["WITH", "SYNC"]);
    Ok(Statement::Analyze { kind: ObjectKind::Table, name, columns })
}

pub(super) fn alter(c: &mut Cursor<'_>) -> Result<Statement, SqlError> {
    c.expect(&["ALTER"])?;
    if c.accept_word("VIEW") {
        let name = c.name()?;
        c.expect(&["AS"])?;
        return Ok(Statement::AlterView { name, query: c.query()? });
    }
    c.accept_word("EXTERNAL");
    if !c.accept_word("TABLE") {
        return Err(c.expected("TABLE or VIEW"));
    }
    let if_exists = c.if_exists();
    let name = c.name()?;
    let mut changes = Vec::new();
    loop {
        alter_one(c, &mut changes)?;
        if !c.accept_token(&Token::Comma) {
            break;
        }
    }
    Ok(Statement::AlterTable { name, if_exists, changes })
}

fn alter_one(c: &mut Cursor<'_>, changes: &mut Vec<TableChange>) -> Result<(), SqlError> {
    if c.peek_words(&["ADD", "PARTITION"]) || c.peek_words(&["ADD", "IF", "NOT", "EXISTS", "PARTITION"]) {
        c.expect(&["ADD"])?;
        let if_not_exists = c.if_not_exists();
        while c.accept_word("PARTITION") {
            let spec = c.partition_spec()?;
            let location = if c.accept_word("LOCATION") { Some(c.string()?) } else { None };
            changes.push(TableChange::AddPartition { if_not_exists, spec, location });
        }
    } else if c.peek_words(&["DROP", "PARTITION"]) || c.peek_words(&["DROP", "IF", "EXISTS", "PARTITION"]) {
        c.expect(&["DROP"])?;
        let if_exists = c.if_exists();
        loop {
            c.expect(&["PARTITION"])?;
            changes.push(TableChange::DropPartition { if_exists, spec: c.partition_spec()? });
            if !(*c.peek() == Token::Comma && super::cursor::is_word(c.token(c.index() + 1), "PARTITION")) {
                break;
            }
            c.advance();
        }
        c.accept_word("PURGE");
    } else if c.accept(&["RENAME", "COLUMN"]) {
        let from = c.ident()?;
        c.accept_word("TO");
        changes.push(TableChange::RenameColumn { from, to: c.ident()?, definition: None });
    } else if c.accept_word("RENAME") {
        let _ = c.accept_any(&["TO", "AS"]);
        changes.push(TableChange::Rename(c.name()?));
    } else if c.accept(&["ADD", "COLUMNS"]) {
        changes.push(TableChange::AddColumns { columns: column_defs(c)?, position: None });
    } else if c.accept_word("ADD") {
        c.accept_word("COLUMN");
        let columns = if *c.peek() == Token::LParen { column_defs(c)? } else { vec![column_def(c)?] };
        changes.push(TableChange::AddColumns { columns, position: None });
    } else if c.accept(&["REPLACE", "COLUMNS"]) {
        changes.push(TableChange::ReplaceColumns(column_defs(c)?));
    } else if c.accept_word("DROP") {
        c.accept_word("COLUMN");
        changes.push(TableChange::DropColumn(c.ident()?));
    } else if c.accept_word("CHANGE") {
        c.accept_word("COLUMN");
        let from = c.ident()?;
        let definition = column_def(c)?;
        changes.push(TableChange::RenameColumn { from, to: definition.name.clone(), definition: Some(definition) });
    } else if c.accept(&["SET", "LOCATION"]) {
        changes.push(TableChange::SetLocation(c.string()?));
    } else if c.accept(&["SET", "SERDEPROPERTIES"]) {
        changes.push(TableChange::SetSerdeProperties(c.properties(true)?));
    } else if c.accept(&["SET", "TBLPROPERTIES"]) || c.accept_word("SET") {
        changes.push(TableChange::SetProperties(c.properties(true)?));
    } else if c.accept(&["UNSET", "TBLPROPERTIES"]) {
        c.if_exists();
        c.expect_token(&Token::LParen)?;
        let mut keys = vec![c.string()?];
        while c.accept_token(&Token::Comma) {
            keys.push(c.string()?);
        }
        c.expect_token(&Token::RParen)?;
        changes.push(TableChange::UnsetProperties(keys));
    } else if c.accept(&["RECOVER", "PARTITIONS"]) {
        changes.push(TableChange::RecoverPartitions);
    } else if c.accept(&["MODIFY", "COMMENT"]) {
        changes.push(TableChange::Comment(c.string()?));
    } else {
        return Err(c.expected("ADD, DROP, RENAME, REPLACE COLUMNS, CHANGE, SET, UNSET or RECOVER PARTITIONS"));
    }
    Ok(())
}
