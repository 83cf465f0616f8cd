//! Reading of CREATE TABLE: native tables in the words of Doris, StarRocks and MySQL, tables over files in Hive's.

use sqlparser::tokenizer::Token;

use super::columns::{Body, body};
use super::cursor::Cursor;
use super::types::{BARE_DECIMAL, BARE_DECIMAL_OF_HIVE};
use super::{hive, partitions};
use crate::error::SqlError;
use crate::statement::{CreateExternalTable, CreateTable, KeyClause, Model, Name, RollupDef, Statement, WithRollups};

/// Engines of Doris and StarRocks whose tables are stored elsewhere.
const FOREIGN_ENGINES: &[&str] = &[
    "mysql",
    "odbc",
    "jdbc",
    "broker",
    "hive",
    "iceberg",
    "hudi",
    "paimon",
    "elasticsearch",
    "es",
    "file",
    "federated",
];

/// MySQL's table options: one or two words, then perhaps `=`, then a value.
const OPTIONS: &[&[&str]] = &[
    &["AUTO_INCREMENT"],
    &["AVG_ROW_LENGTH"],
    &["CHARACTER", "SET"],
    &["CHARSET"],
    &["CHECKSUM"],
    &["COLLATE"],
    &["COMPRESSION"],
    &["DELAY_KEY_WRITE"],
    &["KEY_BLOCK_SIZE"],
    &["MAX_ROWS"],
    &["MIN_ROWS"],
    &["PACK_KEYS"],
    &["ROW_FORMAT"],
    &["STATS_AUTO_RECALC"],
    &["STATS_PERSISTENT"],
    &["STATS_SAMPLE_PAGES"],
];

/// Reads the rest of `CREATE [EXTERNAL|TEMPORARY] TABLE`.
pub(super) fn create_table(c: &mut Cursor<'_>, external: bool, temporary: bool) -> Result<Statement, SqlError> {
    let if_not_exists = c.if_not_exists();
    let at_name = c.index();
    let name = c.name()?;
    if c.accept_word("LIKE") {
        let like = c.name()?;
        let rollups = if !c.accept(&["WITH", "ROLLUP"]) {
            WithRollups::None
        } else if *c.peek() == Token::LParen {
            WithRollups::Named(c.ident_list()?)
        } else {
            WithRollups::All
        };
        return Ok(Statement::CreateTableLike { name, like, if_not_exists, temporary, rollups });
    }
    let has_body = *c.peek() == Token::LParen && !opens_query(c);
    if external {
        c.bare_decimal = BARE_DECIMAL_OF_HIVE;
    }
    let body = if has_body { body(c)? } else { Body::default() };
    c.bare_decimal = BARE_DECIMAL;
    let mut clauses = Clauses::new(name, if_not_exists);
    clauses.read(c)?;
    if external || clauses.of_hive.is_some() {
        return clauses.external(c, body, external, temporary, at_name);
    }
    clauses.native(c, body, temporary, at_name)
}

fn opens_query(c: &Cursor<'_>) -> bool {
    ["SELECT", "WITH"].iter().any(|w| super::cursor::is_word(c.token(c.index() + 1), w))
}

/// The clauses after the parentheses, collected for both families until all are read.
struct Clauses {
    native: CreateTable,
    external: CreateExternalTable,
    /// The first clause that only tables over files have, and its place.
    of_hive: Option<(&'static str, usize)>,
    /// The first clause that only native tables have, and its place.
    of_native: Option<(&'static str, usize)>,
    /// Whether a location of files was named.
    has_files: bool,
}

impl Clauses {
    fn new(name: Name, if_not_exists: bool) -> Self {
        let native = CreateTable {
            name: name.clone(),
            if_not_exists,
            or_replace: false,
            temporary: false,
            columns: Vec::new(),
            column_names: Vec::new(),
            indexes: Vec::new(),
            engine: None,
            key: None,
            sort_key: Vec::new(),
            comment: None,
            partition_by: None,
            distribution: None,
            rollups: Vec::new(),
            properties: Vec::new(),
            options: Vec::new(),
            query: None,
        };
        let external = CreateExternalTable {
            name,
            external: false,
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
        Clauses { native, external, of_hive: None, of_native: None, has_files: false }
    }

    fn read(&mut self, c: &mut Cursor<'_>) -> Result<(), SqlError> {
        loop {
            let at = c.index();
            super::ddl::refuse_policies(c)?;
            if let Some(clause) = self.hive_clause(c)? {
                self.of_hive.get_or_insert((clause, at));
            } else if let Some(clause) = self.native_clause(c)? {
                self.of_native.get_or_insert((clause, at));
            } else if let Some(comment) = c.comment()? {
                self.native.comment = Some(comment);
            } else if c.peek_words(&["BROKER", "PROPERTIES"]) {
                return Err(c.unsupported("BROKER PROPERTIES are of tables elsewhere; a table over files has LOCATION"));
            } else if c.accept_word("PROPERTIES") {
                self.native.properties.extend(c.properties(false)?);
            } else if c.accept_word("AS") || c.peek_words(&["SELECT"]) || c.peek_words(&["WITH"]) {
                self.native.query = Some(c.query()?);
                return Ok(());
            } else {
                return Ok(());
            }
        }
    }

    fn hive_clause(&mut self, c: &mut Cursor<'_>) -> Result<Option<&'static str>, SqlError> {
        let t = &mut self.external;
        if c.accept(&["PARTITIONED", "BY"]) {
            t.partition_columns = super::columns::column_defs(c)?;
            return Ok(Some("PARTITIONED BY"));
        }
        if c.accept_word("TBLPROPERTIES") {
            t.properties.extend(c.properties(true)?);
            return Ok(Some("TBLPROPERTIES"));
        }
        if c.peek_words(&["STORED", "BY"]) {
            return Err(c.unsupported("STORED BY is not supported; use STORED AS TEXTFILE or PARQUET"));
        }
        if c.peek_words(&["CLUSTERED"]) || c.peek_words(&["SKEWED"]) {
            return Err(c.unsupported("CLUSTERED BY and SKEWED BY are not supported for tables over files"));
        }
        let clause = if c.peek_words(&["ROW", "FORMAT"]) {
            t.row_format = Some(hive::row_format(c)?);
            "ROW FORMAT"
        } else if c.accept(&["STORED", "AS"]) {
            t.stored_as = Some(hive::stored_as(c)?);
            "STORED AS"
        } else if c.accept_word("LOCATION") {
            t.location = Some(c.string()?);
            "LOCATION"
        } else {
            return Ok(None);
        };
        self.has_files = true;
        Ok(Some(clause))
    }

    fn native_clause(&mut self, c: &mut Cursor<'_>) -> Result<Option<&'static str>, SqlError> {
        let t = &mut self.native;
        if c.accept_word("ENGINE") {
            c.accept_token(&Token::Eq);
            let at = c.index();
            let engine = if c.at_string() { c.string()? } else { c.ident()? };
            if FOREIGN_ENGINES.iter().any(|e| e.eq_ignore_ascii_case(&engine)) {
                c.seek(at);
                return Err(c.unsupported(&format!(
                    "ENGINE = {engine} is not supported: tables lie in dipper (ENGINE = OLAP, or leave it out) or over files (STORED AS and LOCATION)"
                )));
            }
            t.engine = Some(engine);
            return Ok(Some("ENGINE"));
        }
        for (word, model, clause) in [
            ("DUPLICATE", Model::Duplicate, "DUPLICATE KEY"),
            ("UNIQUE", Model::Unique, "UNIQUE KEY"),
            ("AGGREGATE", Model::Aggregate, "AGGREGATE KEY"),
            ("PRIMARY", Model::Unique, "PRIMARY KEY"),
        ] {
            let at = c.index();
            if c.accept(&[word, "KEY"]) {
                if t.key.is_some() {
                    c.seek(at);
                    return Err(SqlError::syntax("a table has one key, this is the second", Some(c.position())));
                }
                let columns = super::columns::key_parts(c)?;
                t.key = Some(KeyClause { model, primary: word == "PRIMARY", columns });
                return Ok(Some(clause));
            }
        }
        if c.accept(&["CLUSTER", "BY"]) || c.accept(&["ORDER", "BY"]) {
            t.sort_key = c.ident_list()?;
            return Ok(Some("CLUSTER BY"));
        }
        if c.peek_words(&["AUTO", "PARTITION"]) || c.peek_words(&["PARTITION", "BY"]) {
            t.partition_by = partitions::partition_by(c)?;
            return Ok(Some("PARTITION BY"));
        }
        if let Some(distribution) = partitions::distribution(c)? {
            t.distribution = Some(distribution);
            return Ok(Some("DISTRIBUTED BY"));
        }
        if c.accept_word("ROLLUP") {
            t.rollups = rollups(c)?;
            return Ok(Some("ROLLUP"));
        }
        let start = c.index();
        c.accept_token(&Token::Comma);
        c.accept_word("DEFAULT");
        for words in OPTIONS {
            if c.accept(words) {
                c.accept_token(&Token::Eq);
                let value = match c.peek() {
                    Token::Word(_) if !c.at_string() => c.ident()?,
                    _ => c.literal()?.text().unwrap_or_default(),
                };
                t.options.push((words.join(" "), value));
                return Ok(Some("table options of MySQL"));
            }
        }
        c.seek(start);
        Ok(None)
    }

    fn external(
        mut self,
        c: &mut Cursor<'_>,
        body: Body,
        external: bool,
        temporary: bool,
        at_name: usize,
    ) -> Result<Statement, SqlError> {
        c.expect_end()?;
        if !external && !self.has_files {
            let (clause, at) = self.of_hive.unwrap_or(("PARTITIONED BY", at_name));
            c.seek(at);
            return Err(c.unsupported(&format!(
                "{clause} is for tables over files: add STORED AS TEXTFILE (or PARQUET) and LOCATION '...'; a native table has PARTITION BY and PROPERTIES"
            )));
        }
        if let Some((clause, at)) = self.of_native {
            c.seek(at);
            return Err(c.unsupported(&format!("{clause} is for native tables, this is one over files")));
        }
        c.seek(at_name);
        if temporary {
            return Err(c.unsupported("a temporary table over files is not supported; read the files by their path"));
        }
        let native_only = body.columns.iter().find_map(|d| d.beyond_files().map(|clause| (clause, d.name.as_str())));
        let native_only = match (native_only, body.primary.is_some(), body.indexes.is_empty()) {
            (Some((clause, column)), ..) => Some(format!("{clause} of column '{column}'")),
            (None, true, _) => Some("PRIMARY KEY".to_string()),
            (None, false, false) => Some("an index or UNIQUE".to_string()),
            (None, false, true) => None,
        };
        if let Some(what) = native_only {
            return Err(c.unsupported(&format!("{what} is for native tables, this is one over files")));
        }
        if !body.names.is_empty() {
            return Err(c.unsupported("columns of a table over files need types"));
        }
        c.seek(c.token_count());
        let t = &mut self.external;
        t.external = external;
        t.columns = body.columns;
        t.comment = self.native.comment;
        t.properties.extend(self.native.properties);
        t.query = self.native.query;
        Ok(Statement::CreateExternalTable(self.external))
    }

    fn native(
        mut self,
        c: &mut Cursor<'_>,
        body: Body,
        temporary: bool,
        at_name: usize,
    ) -> Result<Statement, SqlError> {
        if c.peek_words(&["LIKE"]) {
            return Err(
                c.unsupported("CREATE TABLE LIKE takes everything from the other table: leave out the clauses before")
            );
        }
        if !c.at_end() {
            return Err(c.expected(
                "ENGINE, a KEY clause, COMMENT, PARTITION BY, DISTRIBUTED BY, ORDER BY, PROPERTIES, STORED AS, LOCATION or AS",
            ));
        }
        let t = &mut self.native;
        if body.columns.is_empty() && t.query.is_none() {
            return Err(c.expected("columns, LIKE or AS query"));
        }
        t.temporary = temporary;
        t.columns = body.columns;
        t.column_names = body.names;
        t.indexes = body.indexes;
        if let Some(columns) = body.primary {
            if t.key.is_some() {
                c.seek(at_name);
                return Err(SqlError::syntax(
                    "a table has one key: give PRIMARY KEY or the KEY clause behind the columns",
                    Some(c.position()),
                ));
            }
            t.key = Some(KeyClause { model: Model::Unique, primary: true, columns });
        }
        // MySQL's UNIQUE is the key if nothing else declares one.
        if t.key.is_none()
            && let [at] =
                t.indexes.iter().enumerate().filter(|(_, i)| i.unique).map(|(at, _)| at).collect::<Vec<_>>()[..]
        {
            let columns = t.indexes.remove(at).columns;
            t.key = Some(KeyClause { model: Model::Unique, primary: false, columns });
        }
        if let Some(key) = t.key.as_ref().filter(|k| k.primary) {
            for column in &mut t.columns {
                column.not_null |= key.columns.iter().any(|k| k.eq_ignore_ascii_case(&column.name));
            }
        }
        Ok(Statement::CreateTable(Box::new(self.native)))
    }
}

/// Reads `(name (a, b) [DUPLICATE KEY (..)] [PROPERTIES (..)], ...)`.
fn rollups(c: &mut Cursor<'_>) -> Result<Vec<RollupDef>, SqlError> {
    c.expect_token(&Token::LParen)?;
    let mut out = Vec::new();
    loop {
        out.push(super::alter::rollup(c)?);
        if !c.accept_token(&Token::Comma) {
            break;
        }
    }
    c.expect_token(&Token::RParen)?;
    Ok(out)
}
