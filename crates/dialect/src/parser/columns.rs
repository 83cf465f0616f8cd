//! Reading of the parentheses of CREATE TABLE: columns, keys, indexes.

use dipper_base::near;
use dipper_base::types::SqlType;
use sqlparser::tokenizer::{Token, Word};

use super::cursor::{Cursor, is_word};
use crate::error::SqlError;
use crate::statement::{Aggregate, ColumnDef, DefaultValue, IndexDef};

/// The contents of the parentheses.
#[derive(Default)]
pub(super) struct Body {
    pub(super) columns: Vec<ColumnDef>,
    /// Names without types (CREATE TABLE ... AS).
    pub(super) names: Vec<String>,
    pub(super) indexes: Vec<IndexDef>,
    /// PRIMARY KEY, of a column or of the table.
    pub(super) primary: Option<Vec<String>>,
}

pub(super) fn body(c: &mut Cursor<'_>) -> Result<Body, SqlError> {
    c.expect_token(&Token::LParen)?;
    let mut body = Body::default();
    let names_only =
        matches!(c.peek(), Token::Word(_)) && matches!(c.token(c.index() + 1), Token::Comma | Token::RParen);
    loop {
        if names_only && !opens_index(c) {
            body.names.push(c.ident()?);
        } else {
            entry(c, &mut body)?;
        }
        // Doris: there may be a comma after the last entry, too.
        if !c.accept_token(&Token::Comma) || *c.peek() == Token::RParen {
            break;
        }
    }
    if c.accept_token(&Token::RParen) {
        return Ok(body);
    }
    let mut error = c.expected("',' or ')' or COMMENT");
    if let Token::Word(Word { value, quote_style: None, .. }) = c.peek()
        && let Some(near) = near::closest(value, ATTRIBUTES.iter().copied())
    {
        error.message.push_str(&format!("; did you mean {near}?"));
    }
    Err(error)
}

/// The first words of column attributes, for near matches in errors.
const ATTRIBUTES: &[&str] = &[
    "KEY",
    "PRIMARY",
    "UNIQUE",
    "NULL",
    "NOT",
    "AUTO_INCREMENT",
    "DEFAULT",
    "COMMENT",
    "REPLACE",
    "REPLACE_IF_NOT_NULL",
    "HLL_UNION",
    "BITMAP_UNION",
    "QUANTILE_UNION",
    "GENERIC",
];

fn entry(c: &mut Cursor<'_>, body: &mut Body) -> Result<(), SqlError> {
    let at = c.index();
    let constraint = c.peek_words(&["CONSTRAINT"]);
    let mut constraint_name = None;
    if constraint {
        c.advance();
        if !["PRIMARY", "UNIQUE", "FOREIGN", "CHECK"].iter().any(|w| c.peek_words(&[w])) {
            constraint_name = Some(c.ident()?);
        }
    }
    if c.accept(&["PRIMARY", "KEY"]) {
        using(c)?;
        let columns = key_parts(c)?;
        using(c)?;
        return primary(c, body, at, columns);
    }
    let unique = c.peek_words(&["UNIQUE"]) && !is_type_after(c);
    if unique {
        c.advance();
        c.accept_any(&["KEY", "INDEX"]);
    }
    if unique || opens_index(c) {
        if !unique {
            c.advance();
        }
        let mut index = index_tail(c, unique)?;
        index.name = index.name.or(constraint_name);
        body.indexes.push(index);
        return Ok(());
    }
    for (words, message) in [
        (&["FOREIGN", "KEY"][..], "FOREIGN KEY is not supported: nothing would check it; leave it out"),
        (&["CHECK"], "CHECK is not supported: nothing would check it; leave it out"),
        (&["FULLTEXT"], "FULLTEXT indexes are not supported yet"),
        (&["SPATIAL"], "SPATIAL indexes are not supported"),
    ] {
        if c.peek_words(words) && (constraint || !is_type_after(c)) {
            return Err(c.unsupported(message));
        }
    }
    if constraint {
        return Err(c.expected("PRIMARY KEY or UNIQUE"));
    }
    let (column, key) = column_with_key(c)?;
    match key {
        Some(InlineKey::Primary) => {
            let name = column.name.clone();
            body.columns.push(column);
            return primary(c, body, at, vec![name]);
        }
        Some(InlineKey::Unique) => body.indexes.push(IndexDef {
            name: None,
            unique: true,
            columns: vec![column.name.clone()],
            using: None,
            properties: Vec::new(),
            comment: None,
        }),
        None => {}
    }
    body.columns.push(column);
    Ok(())
}

fn primary(c: &mut Cursor<'_>, body: &mut Body, at: usize, columns: Vec<String>) -> Result<(), SqlError> {
    if body.primary.is_some() {
        c.seek(at);
        return Err(SqlError::syntax("a table has one primary key, this is the second", Some(c.position())));
    }
    body.primary = Some(columns);
    Ok(())
}

/// Whether the word is a column's name, not a keyword: then a word follows that begins no clause of an index, and no
/// parenthesis.
pub(super) fn is_type_after(c: &Cursor<'_>) -> bool {
    let next = c.token(c.index() + 1);
    matches!(next, Token::Word(Word { quote_style: None, .. }))
        && !["KEY", "INDEX"].iter().any(|w| is_word(next, w))
        && !is_key_list(c, c.index() + 2)
}

/// Whether this is `(name ...`, and not `(10)` as in a type.
fn is_key_list(c: &Cursor<'_>, at: usize) -> bool {
    is_word(c.token(at), "USING") || *c.token(at) == Token::LParen && matches!(c.token(at + 1), Token::Word(_))
}

fn opens_index(c: &Cursor<'_>) -> bool {
    if !c.peek_words(&["INDEX"]) && !c.peek_words(&["KEY"]) {
        return false;
    }
    let at = c.index() + 1;
    is_key_list(c, at) || is_key_list(c, at + 1) || is_word(c.token(at), "IF")
}

/// Reads `[IF NOT EXISTS] [name] [USING x] (columns) [USING x] [PROPERTIES (...)] [COMMENT '...']`, after INDEX or KEY.
fn index_tail(c: &mut Cursor<'_>, unique: bool) -> Result<IndexDef, SqlError> {
    c.if_not_exists();
    let named = *c.peek() != Token::LParen && !c.peek_words(&["USING"]);
    let name = if named { Some(c.ident()?) } else { None };
    let using = using(c)?;
    let columns = key_parts(c)?;
    index_options(c, IndexDef { name, unique, columns, using, properties: Vec::new(), comment: None })
}

/// Reads `USING kind`, if it is next; the kind in upper case.
pub(super) fn using(c: &mut Cursor<'_>) -> Result<Option<String>, SqlError> {
    if !c.accept_word("USING") {
        return Ok(None);
    }
    let kind = c.ident()?.to_ascii_uppercase();
    // StarRocks' spelling.
    Ok(Some(if kind == "NGRAMBF" { "NGRAM_BF".to_string() } else { kind }))
}

/// Reads the clauses after the columns of an index.
pub(super) fn index_options(c: &mut Cursor<'_>, mut index: IndexDef) -> Result<IndexDef, SqlError> {
    loop {
        if let Some(kind) = using(c)? {
            index.using = Some(kind);
        } else if c.accept_word("PROPERTIES") {
            index.properties = c.properties(false)?;
        } else if index.using.is_some() && *c.peek() == Token::LParen {
            // StarRocks writes the properties of some kinds without the word.
            index.properties = c.properties(false)?;
        } else if let Some(comment) = c.comment()? {
            index.comment = Some(comment);
        } else if !index_option_of_mysql(c)? {
            return Ok(index);
        }
    }
}

/// Reads an option of MySQL's indexes that has no meaning here; returns whether one was next.
fn index_option_of_mysql(c: &mut Cursor<'_>) -> Result<bool, SqlError> {
    if c.accept_any(&["VISIBLE", "INVISIBLE"]).is_some() {
        return Ok(true);
    }
    if c.accept_word("KEY_BLOCK_SIZE") {
        c.accept_token(&Token::Eq);
        c.uint()?;
        return Ok(true);
    }
    if c.peek_words(&["WITH", "PARSER"]) {
        c.expect(&["WITH", "PARSER"])?;
        c.ident()?;
        return Ok(true);
    }
    Ok(false)
}

/// Reads an index of ALTER TABLE ... ADD INDEX: `name (columns) ...`, after INDEX.
pub(super) fn index_of_alter(c: &mut Cursor<'_>) -> Result<(bool, IndexDef), SqlError> {
    let if_not_exists = c.peek_words(&["IF", "NOT", "EXISTS"]);
    Ok((if_not_exists, index_tail(c, false)?))
}

/// Reads `(a, b(10) ASC)`: lengths and directions of MySQL's index columns have no effect here.
pub(super) fn key_parts(c: &mut Cursor<'_>) -> Result<Vec<String>, SqlError> {
    c.expect_token(&Token::LParen)?;
    let mut out = Vec::new();
    if c.accept_token(&Token::RParen) {
        return Ok(out);
    }
    loop {
        out.push(c.ident()?);
        if c.accept_token(&Token::LParen) {
            c.uint()?;
            c.expect_token(&Token::RParen)?;
        }
        let _ = c.accept_any(&["ASC", "DESC"]);
        if !c.accept_token(&Token::Comma) {
            break;
        }
    }
    c.expect_token(&Token::RParen)?;
    Ok(out)
}

enum InlineKey {
    Primary,
    Unique,
}

/// Reads a column that must not declare itself the key.
pub(super) fn column_def(c: &mut Cursor<'_>) -> Result<ColumnDef, SqlError> {
    let at = c.index();
    match column_with_key(c)? {
        (column, None) => Ok(column),
        (_, Some(_)) => {
            c.seek(at);
            Err(c.unsupported("PRIMARY KEY and UNIQUE cannot be added to a table: its key is fixed when it is created"))
        }
    }
}

/// Reads `(column, ...)`.
pub(super) fn column_defs(c: &mut Cursor<'_>) -> Result<Vec<ColumnDef>, SqlError> {
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

/// Whether this is StarRocks' state of an aggregate function, as in `avg(INT)`.
fn opens_state(c: &Cursor<'_>) -> bool {
    const TYPES: [&str; 16] = [
        "BOOLEAN", "TINYINT", "SMALLINT", "INT", "BIGINT", "LARGEINT", "FLOAT", "DOUBLE", "DECIMAL", "DATE",
        "DATETIME", "CHAR", "VARCHAR", "STRING", "ARRAY", "JSON",
    ];
    matches!(c.peek(), Token::Word(_))
        && *c.token(c.index() + 1) == Token::LParen
        && TYPES.iter().any(|word| is_word(c.token(c.index() + 2), word))
}

fn column_with_key(c: &mut Cursor<'_>) -> Result<(ColumnDef, Option<InlineKey>), SqlError> {
    let name = c.ident()?;
    // SERIAL is MySQL's BIGINT UNSIGNED NOT NULL AUTO_INCREMENT UNIQUE; generated numbers are signed here.
    let is_serial = c.accept_word("SERIAL");
    let start = c.index();
    let is_state = opens_state(c);
    let data_type = match is_serial {
        true => SqlType::BigInt,
        false if is_state => c.state_type()?,
        false => match type_of_mysql(c, &name)? {
            Some(data_type) => data_type,
            None => c.sql_type()?,
        },
    };
    let has_paths = data_type == SqlType::Variant && c.index() > start + 1;
    let mut def = ColumnDef {
        name,
        data_type,
        paths: has_paths.then(|| c.text_from(start + 1).to_string()),
        comment: None,
        not_null: false,
        key: false,
        aggregate: is_state.then_some(Aggregate::Generic),
        auto_increment: None,
        default: None,
        on_update: None,
        generated: None,
    };
    let mut key = None;
    if is_serial {
        def.auto_increment = Some(1);
        def.not_null = true;
        key = Some(InlineKey::Unique);
    }
    loop {
        if c.accept(&["NOT", "NULL"]) {
            def.not_null = true;
        } else if c.accept_word("NULL") {
            def.not_null = false;
        } else if let Some(comment) = c.comment()? {
            def.comment = Some(comment);
        } else if c.accept(&["PRIMARY", "KEY"]) {
            key = Some(InlineKey::Primary);
        } else if c.accept_word("UNIQUE") {
            c.accept_word("KEY");
            key = key.or(Some(InlineKey::Unique));
        } else if c.accept_word("KEY") {
            def.key = true;
        } else if let Some(aggregate) = aggregate(c)? {
            def.aggregate = Some(aggregate);
        } else if c.accept_word("AUTO_INCREMENT") {
            def.auto_increment = Some(first_value(c)?);
            def.not_null = true;
            // Keys that ORMs make are BIGINT UNSIGNED; generated numbers are signed, as those of SERIAL.
            if def.data_type == SqlType::UnsignedBigInt {
                def.data_type = SqlType::BigInt;
            }
        } else if c.accept_word("DEFAULT") {
            def.default = Some(default_value(c)?);
        } else if c.accept(&["ON", "UPDATE"]) {
            match current_timestamp(c)? {
                Some(digits) => def.on_update = Some(digits),
                None => return Err(c.expected("CURRENT_TIMESTAMP")),
            }
        } else if c.accept(&["CHARACTER", "SET"]) || c.accept_any(&["CHARSET", "COLLATE"]).is_some() {
            // Text is UTF-8 and compared as bytes, so character sets and collations have no effect.
            c.ident()?;
        } else if c.accept(&["GENERATED", "ALWAYS"]) || c.peek_words(&["AS"]) {
            c.expect(&["AS"])?;
            def.generated = Some(generated(c)?);
        } else if c.peek_words(&["WITH", "MASKING", "POLICY"]) {
            super::ddl::refuse_policies(c)?;
        } else if c.peek_words(&["REFERENCES"]) || c.peek_words(&["CHECK"]) {
            return Err(
                c.unsupported("REFERENCES and CHECK are not supported: nothing would check them; leave them out")
            );
        } else {
            return Ok((def, key));
        }
    }
}

/// Reads `(expression) [STORED]` of a generated column, or StarRocks' expression without parentheses.
fn generated(c: &mut Cursor<'_>) -> Result<String, SqlError> {
    if *c.peek() != Token::LParen {
        let start = c.index();
        c.expr()?;
        return Ok(c.text_from(start).to_string());
    }
    c.expect_token(&Token::LParen)?;
    let start = c.index();
    c.expr()?;
    let text = c.text_from(start).to_string();
    c.expect_token(&Token::RParen)?;
    if c.peek_words(&["VIRTUAL"]) {
        return Err(c.unsupported("generated columns are stored; a view computes a column when it is read"));
    }
    c.accept_word("STORED");
    Ok(text)
}

/// Reads MySQL's own types of columns with a note: BIT(1) as BOOLEAN, ENUM and SET as VARCHAR, YEAR as SMALLINT.
fn type_of_mysql(c: &mut Cursor<'_>, column: &str) -> Result<Option<SqlType>, SqlError> {
    if c.peek_words(&["BIT"]) {
        let at = c.index();
        c.advance();
        if c.accept_token(&Token::LParen) {
            if c.uint()? != 1 {
                c.seek(at);
                return Err(
                    c.unsupported("BIT of several bits is not supported; use BIGINT, whose bits & and | work on")
                );
            }
            c.expect_token(&Token::RParen)?;
        }
        c.notes.push(format!("BIT(1) of column '{column}' is kept as BOOLEAN"));
        return Ok(Some(SqlType::Boolean));
    }
    if c.peek_words(&["ENUM"]) && *c.token(c.index() + 1) == Token::LParen {
        c.advance();
        texts(c)?;
        c.notes.push(format!(
            "ENUM of column '{column}' is kept as VARCHAR({ENUM_BYTES}), which takes other values, too, and is sorted as text"
        ));
        return Ok(Some(SqlType::Varchar(Some(ENUM_BYTES))));
    }
    if c.peek_words(&["SET"]) && *c.token(c.index() + 1) == Token::LParen {
        c.advance();
        let members = texts(c)?;
        // All members at once, with a comma between two.
        let bytes = members.iter().map(|member| member.len() + 1).sum::<usize>() - 1;
        let bytes = u32::try_from(bytes.max(1)).unwrap_or(u32::MAX);
        c.notes.push(format!(
            "SET of column '{column}' is kept as VARCHAR({bytes}), which takes other values, too, and is sorted as text"
        ));
        return Ok(Some(SqlType::Varchar(Some(bytes))));
    }
    if c.peek_words(&["YEAR"]) {
        let at = c.index();
        c.advance();
        if c.accept_token(&Token::LParen) {
            if c.uint()? != 4 {
                c.seek(at);
                return Err(c.unsupported("YEAR of two digits is not supported; use YEAR or SMALLINT"));
            }
            c.expect_token(&Token::RParen)?;
        }
        c.notes.push(format!(
            "YEAR of column '{column}' is kept as SMALLINT, which takes other numbers, too, and reads 70 as 70"
        ));
        return Ok(Some(SqlType::SmallInt));
    }
    Ok(None)
}

/// Reads `('a', 'b')`.
fn texts(c: &mut Cursor<'_>) -> Result<Vec<String>, SqlError> {
    c.expect_token(&Token::LParen)?;
    let mut texts = vec![c.string()?];
    while c.accept_token(&Token::Comma) {
        texts.push(c.string()?);
    }
    c.expect_token(&Token::RParen)?;
    Ok(texts)
}

/// The longest value of an ENUM in bytes: 255 characters of up to four bytes each.
const ENUM_BYTES: u32 = 1020;

fn aggregate(c: &mut Cursor<'_>) -> Result<Option<Aggregate>, SqlError> {
    for (word, aggregate) in [
        ("SUM", Aggregate::Sum),
        ("MIN", Aggregate::Min),
        ("MAX", Aggregate::Max),
        ("REPLACE", Aggregate::Replace),
        ("REPLACE_IF_NOT_NULL", Aggregate::ReplaceIfNotNull),
        ("HLL_UNION", Aggregate::HllUnion),
        ("BITMAP_UNION", Aggregate::BitmapUnion),
        ("QUANTILE_UNION", Aggregate::QuantileUnion),
        ("GENERIC", Aggregate::Generic),
        ("AGG_STATE_UNION", Aggregate::Generic),
    ] {
        if c.accept_word(word) {
            return Ok(Some(aggregate));
        }
    }
    if c.peek_words(&["PERCENTILE_UNION"]) {
        return Err(c.unsupported(
            "aggregation PERCENTILE_UNION is not supported; there are SUM, MIN, MAX, REPLACE, REPLACE_IF_NOT_NULL, HLL_UNION, BITMAP_UNION, QUANTILE_UNION and GENERIC",
        ));
    }
    Ok(None)
}

/// Reads `(n)` after AUTO_INCREMENT.
fn first_value(c: &mut Cursor<'_>) -> Result<i64, SqlError> {
    if !c.accept_token(&Token::LParen) {
        return Ok(1);
    }
    let at = c.index();
    let value = c.uint()?;
    let Ok(value) = i64::try_from(value) else {
        c.seek(at);
        return Err(c.expected(&format!("a first value of at most {}", i64::MAX)));
    };
    c.expect_token(&Token::RParen)?;
    Ok(value)
}

/// Reads CURRENT_TIMESTAMP in one of its spellings; returns its digits of the second.
fn current_timestamp(c: &mut Cursor<'_>) -> Result<Option<u8>, SqlError> {
    if c.accept_any(&["CURRENT_TIMESTAMP", "NOW", "LOCALTIMESTAMP", "LOCALTIME"]).is_none() {
        return Ok(None);
    }
    if !c.accept_token(&Token::LParen) || c.accept_token(&Token::RParen) {
        return Ok(Some(0));
    }
    let at = c.index();
    let digits = c.uint()?;
    let Some(digits) = u8::try_from(digits).ok().filter(|d| *d <= 6) else {
        c.seek(at);
        return Err(c.expected("digits of the second from 0 to 6"));
    };
    c.expect_token(&Token::RParen)?;
    Ok(Some(digits))
}

const EXPRESSION: &str = "a default that is an expression is not supported; give a literal or CURRENT_TIMESTAMP";

/// Reads the value after DEFAULT.
pub(super) fn default_value(c: &mut Cursor<'_>) -> Result<DefaultValue, SqlError> {
    if let Some(digits) = current_timestamp(c)? {
        return Ok(DefaultValue::CurrentTimestamp(digits));
    }
    if let Some(word) = c.accept_any(&["CURRENT_DATE", "CURDATE", "PI", "E", "BITMAP_EMPTY", "HLL_EMPTY"]) {
        if c.accept_token(&Token::LParen) {
            c.expect_token(&Token::RParen)?;
        }
        return Ok(match word {
            "PI" => DefaultValue::Literal(Some(std::f64::consts::PI.to_string())),
            "E" => DefaultValue::Literal(Some(std::f64::consts::E.to_string())),
            "BITMAP_EMPTY" | "HLL_EMPTY" => DefaultValue::Empty,
            _ => DefaultValue::CurrentDate,
        });
    }
    let start = c.index();
    // `uuid()`
    if matches!(c.peek(), Token::Word(Word { quote_style: None, .. })) && *c.token(start + 1) == Token::LParen {
        return Err(c.unsupported(EXPRESSION));
    }
    // MySQL and StarRocks write expressions in parentheses.
    if c.accept_token(&Token::LParen) {
        let inner = default_value(c);
        if inner.is_ok() && c.accept_token(&Token::RParen) {
            return inner;
        }
        c.seek(start);
        return Err(c.unsupported(EXPRESSION));
    }
    // This is `b'0'` or `b'1'` of a BIT column, whose digits the tokens have as bytes.
    if let Token::HexStringLiteral(digits) = c.peek()
        && let Some(bit) =
            ["0", "1"].into_iter().find(|bit| digits.trim_start_matches('0') == bit.trim_start_matches('0'))
    {
        c.advance();
        return Ok(DefaultValue::Literal(Some(bit.to_string())));
    }
    match c.literal() {
        Ok(literal) => Ok(DefaultValue::Literal(literal.text())),
        Err(_) => Err(c.expected("a literal, CURRENT_TIMESTAMP, CURRENT_DATE, PI, E, BITMAP_EMPTY or HLL_EMPTY")),
    }
}
