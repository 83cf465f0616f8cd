//! Reading of queries and of statements that write their results: INSERT, INTO OUTFILE, COPY TO, DO.

use sqlparser::ast::SetExpr;
use sqlparser::tokenizer::Token;

use super::cursor::{Cursor, is_word};
use crate::error::SqlError;
use crate::statement::{Insert, Literal, OutfileFields, SelectIntoOutfile, Statement};

/// Reads a query, perhaps with INTO OUTFILE in the middle (MySQL before 8) or at its end (Doris, MySQL 8).
pub(super) fn query(c: &mut Cursor<'_>) -> Result<Statement, SqlError> {
    let counts = c.peek_words(&["SELECT", "SQL_CALC_FOUND_ROWS"]);
    let at = c.index();
    let Some(into) = find_into(c) else {
        let query = c.query()?;
        if counts && !matches!(query.ast.body.as_ref(), SetExpr::Select(_)) {
            c.seek(at + 1);
            return Err(c.unsupported("SQL_CALC_FOUND_ROWS in a UNION is not supported; SELECT count(*) FROM (...) t"));
        }
        return Ok(Statement::Query(query));
    };
    let start = c.index();
    c.seek(into);
    let mut statement = match c.token(into + 1) {
        Token::Word(word) if word.quote_style.is_none() && word.value.starts_with('@') => into_variables(c)?,
        _ => Statement::SelectIntoOutfile(outfile(c)?),
    };
    let end = c.index();
    c.seek(start);
    let mut rest = c.without(into..end);
    let query = rest.query()?;
    rest.expect_end()?;
    c.seek(c.token_count());
    if let Statement::SelectIntoOutfile(SelectIntoOutfile { source, .. })
    | Statement::SelectIntoVariables { source, .. } = &mut statement
    {
        *source = query;
    }
    Ok(statement)
}

/// Reads `INTO @name [, @name, ...]`. The caller sets the query, whose tokens lie on both sides of the clause.
fn into_variables(c: &mut Cursor<'_>) -> Result<Statement, SqlError> {
    c.expect(&["INTO"])?;
    let mut names = vec![c.user_variable()?];
    while c.accept_token(&Token::Comma) {
        names.push(c.user_variable()?);
    }
    Ok(Statement::SelectIntoVariables { source: c.subordinate_query("SELECT 1")?, names })
}

/// Reads a statement that begins with WITH: a query, or INSERT, UPDATE, DELETE or MERGE after the common table
/// expressions.
pub(super) fn with(c: &mut Cursor<'_>) -> Result<Statement, SqlError> {
    let start = c.index();
    let mut depth = 0i64;
    for at in start..c.token_count() {
        match c.token(at) {
            Token::LParen => depth += 1,
            Token::RParen => depth -= 1,
            token if depth == 0 && at > 0 && *c.token(at - 1) == Token::RParen => {
                let verb = ["INSERT", "UPDATE", "DELETE", "MERGE"].into_iter().find(|verb| is_word(token, verb));
                let Some(verb) = verb else { continue };
                c.with = Some(start..at);
                c.seek(at);
                return match verb {
                    "INSERT" => insert(c),
                    "UPDATE" => super::write::update(c),
                    "MERGE" => super::merge::merge(c),
                    _ => super::write::delete(c),
                };
            }
            _ => {}
        }
    }
    query(c)
}

/// Returns the token of an INTO outside of parentheses.
fn find_into(c: &Cursor<'_>) -> Option<usize> {
    let mut depth = 0i64;
    for i in c.index()..c.token_count() {
        match c.token(i) {
            Token::LParen => depth += 1,
            Token::RParen => depth -= 1,
            token if depth == 0 && is_word(token, "INTO") => return Some(i),
            _ => {}
        }
    }
    None
}

fn outfile(c: &mut Cursor<'_>) -> Result<SelectIntoOutfile, SqlError> {
    c.expect(&["INTO"])?;
    if !c.accept_word("OUTFILE") {
        if c.peek_words(&["DUMPFILE"]) {
            return Err(c.unsupported("only INTO OUTFILE is supported, not INTO DUMPFILE"));
        }
        return Err(c.unsupported(
            "SELECT ... INTO variable is for procedures, which there are none of; INTO @variable keeps a value, INTO OUTFILE writes a file",
        ));
    }
    // The caller replaces this: the query's tokens lie on both sides of the clause.
    let empty = c.subordinate_query("SELECT 1")?;
    let mut out = SelectIntoOutfile {
        source: empty,
        path: c.string()?,
        format: None,
        properties: Vec::new(),
        fields: None,
        charset: None,
    };
    loop {
        if c.accept_word("FORMAT") {
            c.expect(&["AS"])?;
            let format = if c.at_string() { c.string()? } else { c.ident()? };
            out.format = Some(format.to_ascii_lowercase());
        } else if c.accept_word("PROPERTIES") {
            out.properties = c.properties(false)?;
        } else if c.accept(&["CHARACTER", "SET"]) || c.accept_word("CHARSET") {
            out.charset = Some(c.ident()?);
        } else if ["FIELDS", "COLUMNS", "LINES"].iter().any(|w| c.peek_words(&[w])) {
            fields(c, out.fields.get_or_insert_default())?;
        } else {
            return Ok(out);
        }
    }
}

/// Reads `FIELDS | COLUMNS ...` or `LINES ...`, if it is next.
pub(super) fn fields(c: &mut Cursor<'_>, fields: &mut OutfileFields) -> Result<bool, SqlError> {
    let lines = match c.accept_any(&["FIELDS", "COLUMNS", "LINES"]) {
        Some(word) => word == "LINES",
        None => return Ok(false),
    };
    let mut any = false;
    loop {
        if lines && c.accept(&["TERMINATED", "BY"]) {
            fields.lines_terminated_by = separator(c)?;
        } else if lines && c.accept(&["STARTING", "BY"]) {
            fields.lines_starting_by = separator(c)?;
        } else if !lines && c.accept(&["TERMINATED", "BY"]) {
            fields.terminated_by = separator(c)?;
        } else if !lines && c.accept(&["OPTIONALLY", "ENCLOSED", "BY"]) {
            fields.optionally = true;
            fields.enclosed_by = separator(c)?;
        } else if !lines && c.accept(&["ENCLOSED", "BY"]) {
            fields.enclosed_by = separator(c)?;
        } else if !lines && c.accept(&["ESCAPED", "BY"]) {
            fields.escaped_by = separator(c)?;
        } else if any {
            return Ok(true);
        } else if lines {
            return Err(c.expected("TERMINATED BY or STARTING BY"));
        } else {
            return Err(c.expected("TERMINATED BY, ENCLOSED BY or ESCAPED BY"));
        }
        any = true;
    }
}

/// Reads a text, or its bytes as `X'01'` or `0x01`.
fn separator(c: &mut Cursor<'_>) -> Result<String, SqlError> {
    let Token::HexStringLiteral(digits) = c.peek() else { return c.string() };
    let digit = |at: usize| digits.get(at..at + 2).and_then(|pair| u8::from_str_radix(pair, 16).ok());
    let bytes: Option<Vec<u8>> = (0..digits.len()).step_by(2).map(digit).collect();
    match bytes.and_then(|bytes| String::from_utf8(bytes).ok()) {
        Some(text) => {
            c.advance();
            Ok(text)
        }
        None => Err(c.expected("a string in quotes, or bytes of UTF-8 as X'01'")),
    }
}

/// Reads `TABLE t [ORDER BY ..] [LIMIT ..]`.
pub(super) fn table(c: &mut Cursor<'_>) -> Result<Statement, SqlError> {
    c.expect(&["TABLE"])?;
    if let Some(into) = find_into(c) {
        c.seek(into);
        return Err(c.unsupported("TABLE ... INTO is not supported; use SELECT * FROM ... INTO OUTFILE"));
    }
    let start = c.index();
    c.name()?;
    while !c.at_end() {
        c.advance();
    }
    let sql = format!("SELECT * FROM {}", c.text_from(start));
    c.subordinate_query(&sql).map(Statement::Query)
}

pub(super) fn insert(c: &mut Cursor<'_>) -> Result<Statement, SqlError> {
    let replace = c.accept_word("REPLACE");
    if !replace {
        c.expect(&["INSERT"])?;
    }
    let mut ignore = false;
    while let Some(word) = c.accept_any(&["IGNORE", "LOW_PRIORITY", "HIGH_PRIORITY", "DELAYED"]) {
        ignore |= word == "IGNORE";
    }
    let overwrite = !replace && c.accept_word("OVERWRITE");
    if !overwrite {
        c.accept_word("INTO");
    }
    if c.peek_words(&["FILES"]) && *c.token(c.index() + 1) == Token::LParen {
        c.advance();
        let properties = c.properties(false)?;
        return Ok(Statement::InsertIntoFiles { properties, source: c.query_with()? });
    }
    if c.peek_words(&["DIRECTORY"]) || c.peek_words(&["LOCAL", "DIRECTORY"]) {
        return Err(c.unsupported("INSERT OVERWRITE DIRECTORY is not supported; use SELECT ... INTO OUTFILE"));
    }
    // Hive and Doris allow TABLE here. A table may have this name, too: then no other name follows.
    if c.peek_words(&["TABLE"]) && matches!(c.token(c.index() + 1), Token::Word(_)) {
        c.advance();
    }
    if c.peek_words(&["DORIS_INTERNAL_TABLE_ID"]) && *c.token(c.index() + 1) == Token::LParen {
        return Err(c.unsupported("a table is named, not numbered: DORIS_INTERNAL_TABLE_ID is not supported"));
    }
    if c.peek_words(&["BLACKHOLE"]) && *c.token(c.index() + 1) == Token::LParen {
        return Err(c.unsupported("BLACKHOLE() is not supported; EXPLAIN ANALYZE runs a query without its rows"));
    }
    let table = c.name()?;
    if c.peek_words(&["FOR"]) || c.peek_words(&["VERSION", "AS", "OF"]) {
        return Err(c.unsupported("branches are not supported"));
    }
    let mut insert = Insert {
        table,
        overwrite,
        replace,
        partition: Vec::new(),
        temporary: false,
        columns: Vec::new(),
        by_name: false,
        label: None,
        ignore,
        source: c.subordinate_query("SELECT 1")?,
        rows_as: None,
        on_duplicate: Vec::new(),
    };
    insert.temporary = c.peek_words(&["TEMPORARY", "PARTITION"]) || c.peek_words(&["TEMPORARY", "PARTITIONS"]);
    if insert.temporary {
        c.advance();
    }
    if c.accept_any(&["PARTITION", "PARTITIONS"]).is_some() {
        insert.partition = insert_partition(c)?;
    }
    if c.accept(&["WITH", "LABEL"]) {
        insert.label = Some(c.ident()?);
    }
    insert.by_name = c.accept(&["BY", "NAME"]);
    // A parenthesis opens a column list or a query.
    if *c.peek() == Token::LParen && !opens_query(c) {
        if insert.by_name {
            return Err(c.expected("a query, whose columns are the columns of INSERT BY NAME"));
        }
        let empty = *c.token(c.index() + 1) == Token::RParen;
        if empty {
            c.advance();
            c.advance();
        } else {
            insert.columns = c.ident_list()?;
        }
    }
    if insert.label.is_none() && c.accept(&["WITH", "LABEL"]) {
        insert.label = Some(c.ident()?);
    }
    if insert.partition.is_empty() && c.accept_any(&["PARTITION"]).is_some() {
        insert.partition = insert_partition(c)?;
    }
    // Doris's hints about the distribution of rows: `[SHUFFLE]`, `[NOSHUFFLE]`.
    if *c.peek() == Token::LBracket && ["SHUFFLE", "NOSHUFFLE"].iter().any(|w| is_word(c.token(c.index() + 1), w)) {
        c.advance();
        c.advance();
        c.expect_token(&Token::RBracket)?;
    }
    if c.peek_words(&["PROPERTIES"]) {
        return Err(c.unsupported(
            "PROPERTIES of INSERT are not supported; SET enable_insert_strict and insert_max_filter_ratio",
        ));
    }
    if insert.by_name && (c.peek_words(&["SET"]) || c.peek_words(&["VALUES"]) || c.peek_words(&["VALUE"])) {
        return Err(c.expected("a query, whose columns are the columns of INSERT BY NAME"));
    }
    if c.accept_word("SET") {
        insert_set(c, &mut insert)?;
    } else if c.peek_words(&["VALUE"]) {
        // MySQL's other spelling of VALUES.
        let start = c.index();
        c.advance();
        let mut depth = 0_i64;
        while !c.at_end() && !(depth == 0 && (c.peek_words(&["AS"]) || c.peek_words(&["ON", "DUPLICATE"]))) {
            match c.peek() {
                Token::LParen => depth += 1,
                Token::RParen => depth -= 1,
                _ => {}
            }
            c.advance();
        }
        let sql = format!("VALUES{}", c.text_from(start).get(5..).unwrap_or(""));
        insert.source = c.subordinate_query(&sql)?;
    } else {
        insert.source = c.query_with()?;
    }
    if c.accept_word("AS") {
        let name = c.ident()?;
        let columns = if *c.peek() == Token::LParen { c.ident_list()? } else { Vec::new() };
        insert.rows_as = Some((name, columns));
    }
    if c.accept(&["ON", "DUPLICATE", "KEY", "UPDATE"]) {
        loop {
            let column = c.name()?.object().to_string();
            c.expect_token(&Token::Eq)?;
            insert.on_duplicate.push((column, c.expr()?));
            if !c.accept_token(&Token::Comma) {
                break;
            }
        }
    }
    Ok(Statement::Insert(insert))
}

fn opens_query(c: &Cursor<'_>) -> bool {
    let mut i = c.index();
    while *c.token(i) == Token::LParen {
        i += 1;
    }
    ["SELECT", "WITH", "VALUES", "TABLE"].iter().any(|w| is_word(c.token(i), w))
}

/// Reads `INSERT INTO t SET a = 1, b = 2`.
fn insert_set(c: &mut Cursor<'_>, insert: &mut Insert) -> Result<(), SqlError> {
    let mut values = Vec::new();
    loop {
        insert.columns.push(c.ident()?);
        c.expect_token(&Token::Eq)?;
        let start = c.index();
        c.expr()?;
        values.push(c.text_from(start).to_string());
        if !c.accept_token(&Token::Comma) {
            break;
        }
    }
    insert.source = c.subordinate_query(&format!("VALUES ({})", values.join(", ")))?;
    Ok(())
}

/// Reads `(dt = 'x', hour)`, `(p1, p2)`, a bare name, or `(*)`.
fn insert_partition(c: &mut Cursor<'_>) -> Result<Vec<(String, Option<Literal>)>, SqlError> {
    if *c.peek() != Token::LParen {
        return Ok(vec![(c.ident()?, None)]);
    }
    c.advance();
    let mut out = Vec::new();
    loop {
        let name = if c.accept_token(&Token::Mul) { "*".to_string() } else { c.ident()? };
        let value = if c.accept_token(&Token::Eq) { Some(c.literal()?) } else { None };
        out.push((name, value));
        if !c.accept_token(&Token::Comma) {
            break;
        }
    }
    c.expect_token(&Token::RParen)?;
    Ok(out)
}

/// Reads `COPY (query) | table [(columns)] TO 'path' [WITH] [(FORMAT csv, HEADER true)] [PROPERTIES(...)]`.
pub(super) fn copy(c: &mut Cursor<'_>) -> Result<Statement, SqlError> {
    c.expect(&["COPY"])?;
    let source = if c.accept_token(&Token::LParen) {
        let query = c.query()?;
        c.expect_token(&Token::RParen)?;
        query
    } else {
        if c.peek_words(&["INTO"]) {
            return Err(c.unsupported("COPY INTO is not supported; use INSERT INTO ... SELECT * FROM files(...)"));
        }
        let start = c.index();
        c.name()?;
        let table = c.text_from(start).to_string();
        let columns = if *c.peek() == Token::LParen {
            let list = c.ident_list()?;
            list.iter().map(|n| format!("`{}`", n.replace('`', "``"))).collect::<Vec<_>>().join(", ")
        } else {
            "*".to_string()
        };
        c.subordinate_query(&format!("SELECT {columns} FROM {table}"))?
    };
    c.expect(&["TO"])?;
    let path = c.string()?;
    let mut options = Vec::new();
    c.accept_word("WITH");
    if c.accept_any(&["PROPERTIES", "OPTIONS"]).is_some() {
        options = c.properties(false)?;
    } else if c.accept_token(&Token::LParen) {
        loop {
            let key = if c.at_string() { c.string()? } else { c.ident()? };
            c.accept_token(&Token::Eq);
            let value = if c.at_string() {
                c.string()?
            } else if matches!(c.peek(), Token::Comma | Token::RParen) {
                "true".to_string()
            } else if matches!(c.peek(), Token::Word(_)) {
                c.ident()?
            } else {
                c.literal()?.text().unwrap_or_default()
            };
            options.push((key, value));
            if !c.accept_token(&Token::Comma) {
                break;
            }
        }
        c.expect_token(&Token::RParen)?;
    } else if c.accept(&["STORED", "AS"]) {
        options.push(("format".into(), c.ident()?));
    }
    for (key, _) in &mut options {
        *key = key.to_ascii_lowercase();
    }
    Ok(Statement::CopyTo { source, path, options })
}

/// Reads `DO expr, ...`.
pub(super) fn do_exprs(c: &mut Cursor<'_>) -> Result<Statement, SqlError> {
    c.expect(&["DO"])?;
    let start = c.index();
    c.expr()?;
    while c.accept_token(&Token::Comma) {
        c.expr()?;
    }
    let sql = format!("SELECT {}", c.text_from(start));
    c.subordinate_query(&sql).map(Statement::Do)
}
