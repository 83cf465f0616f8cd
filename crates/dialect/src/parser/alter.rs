//! Reading of ALTER TABLE and ALTER VIEW.

use sqlparser::tokenizer::Token;

use super::columns::{column_def, column_defs, default_value, index_of_alter, is_type_after};
use super::cursor::{Cursor, is_word};
use super::{catalogs, partitions, volume};
use crate::error::SqlError;
use crate::statement::{
    ColumnPosition, ConstraintDef, ConstraintKind, Name, RollupDef, Statement, TableChange, ViewChange,
};

pub(super) fn alter(c: &mut Cursor<'_>) -> Result<Statement, SqlError> {
    c.expect(&["ALTER"])?;
    super::ddl::rights_of_view(c)?;
    if c.accept_word("VIEW") {
        let name = c.name()?;
        for (words, message) in [
            (&["SET", "SECURITY", "INVOKER"][..], super::ddl::INVOKER),
            (&["SET", "SECURITY"], "a view is always read by the privilege on the view alone; leave out SECURITY"),
            (&["SET", "PROPERTIES"], "views have no properties"),
            (&["ADD", "DIALECT"], "a view has one definition: ALTER VIEW name AS SELECT ..."),
            (&["MODIFY", "DIALECT"], "a view has one definition: ALTER VIEW name AS SELECT ..."),
            (&["MODIFY", "COLUMN"], MASKS),
            (&["ADD", "ROW"], ROWS),
            (&["DROP", "ROW"], ROWS),
            (&["DROP", "ALL"], ROWS),
        ] {
            if c.peek_words(words) {
                return Err(c.unsupported(message));
            }
        }
        let change = if c.accept_word("MODIFY") {
            ViewChange::Comment(c.comment()?.ok_or_else(|| c.expected("COMMENT"))?)
        } else {
            let columns = super::ddl::view_columns(c)?;
            let comment = c.comment()?;
            c.expect(&["AS"])?;
            let query = c.query()?;
            super::ddl::check_option(c)?;
            ViewChange::Query { columns, comment, query }
        };
        return Ok(Statement::AlterView { name, change });
    }
    if c.accept_word("USER") {
        return super::access::alter_user(c);
    }
    if c.accept_word("ROLE") {
        return super::access::alter_role(c);
    }
    if c.accept(&["STORAGE", "VOLUME"]) {
        return volume::alter(c);
    }
    if c.accept_word("CATALOG") {
        return catalogs::alter(c);
    }
    if c.accept_any(&["DATABASE", "SCHEMA"]).is_some() {
        return catalogs::alter_database(c);
    }
    c.accept_word("EXTERNAL");
    if !c.accept_word("TABLE") {
        return Err(c.expected("TABLE or VIEW"));
    }
    let if_exists = c.if_exists();
    let name = c.name()?;
    if c.accept_word("TRUNCATE") {
        return match partitions::names(c)? {
            Some((false, partitions)) => Ok(Statement::Truncate { name, partitions }),
            Some((true, _)) => Err(c.unsupported("temporary partitions are not truncated; drop and add them")),
            None => Err(c.expected("PARTITION")),
        };
    }
    let mut changes = Vec::new();
    // MySQL's dumps put these around their rows. They have no effect: each load maintains the keys.
    if !(c.accept(&["DISABLE", "KEYS"]) || c.accept(&["ENABLE", "KEYS"])) {
        loop {
            change(c, &mut changes)?;
            if !c.accept_token(&Token::Comma) {
                break;
            }
        }
    }
    Ok(Statement::AlterTable { name, if_exists, changes })
}

fn change(c: &mut Cursor<'_>, changes: &mut Vec<TableChange>) -> Result<(), SqlError> {
    refuse(c)?;
    if says_nothing(c)? {
        return Ok(());
    }
    if c.accept_word("ADD") {
        return add(c, changes);
    }
    if c.accept_word("DROP") {
        return drop(c, changes);
    }
    if c.accept_word("MODIFY") {
        changes.push(modify(c)?);
        return Ok(());
    }
    if c.accept_word("SET") {
        changes.push(set(c)?);
        return Ok(());
    }
    changes.push(if c.accept(&["RENAME", "COLUMN"]) {
        let (from, to) = rename(c)?;
        TableChange::RenameColumn { from, to, definition: None }
    } else if c.accept(&["RENAME", "ROLLUP"]) {
        let (from, to) = rename(c)?;
        TableChange::RenameRollup { from, to }
    } else if c.accept(&["RENAME", "PARTITION"]) {
        let (from, to) = rename(c)?;
        TableChange::RenamePartition { from, to }
    } else if let Some((from, to)) = rename_index(c)? {
        TableChange::RenameIndex { from, to }
    } else if c.accept_word("ALTER") {
        alter_column(c)?
    } else if c.accept_word("RENAME") {
        let _ = c.accept_any(&["TO", "AS"]);
        TableChange::Rename(c.name()?)
    } else if c.accept(&["REPLACE", "COLUMNS"]) {
        TableChange::ReplaceColumns(column_defs(c)?)
    } else if c.accept(&["REPLACE", "WITH", "TABLE"]) {
        replace_with(c)?
    } else if c.accept(&["SWAP", "WITH"]) {
        c.accept_word("TABLE");
        TableChange::ReplaceWith { table: c.name()?, swap: true, force: false }
    } else if c.accept_any(&["REPLACE"]).is_some() {
        replace_partitions(c)?
    } else if c.accept_word("CHANGE") {
        c.accept_word("COLUMN");
        let from = c.ident()?;
        let definition = column_def(c)?;
        TableChange::RenameColumn { from, to: definition.name.clone(), definition: Some(definition) }
    } else if c.accept(&["ORDER", "BY"]) {
        let columns = order(c)?;
        tail(c)?;
        TableChange::OrderColumns(columns)
    } else if c.accept(&["ENABLE", "FEATURE"]) {
        let feature = c.string()?.to_ascii_uppercase();
        let properties = if c.accept(&["WITH", "PROPERTIES"]) { c.properties(false)? } else { Vec::new() };
        TableChange::EnableFeature { feature, properties }
    } else if let Some(distribution) = partitions::distribution(c)? {
        TableChange::Distribution(distribution)
    } else if c.accept(&["UNSET", "TBLPROPERTIES"]) {
        c.if_exists();
        TableChange::UnsetProperties(strings(c)?)
    } else if c.accept(&["RECOVER", "PARTITIONS"]) {
        TableChange::RecoverPartitions
    } else if let Some(comment) = c.comment()? {
        TableChange::Comment(comment)
    } else {
        let kind = c.accept_any(&["BASE", "CUMULATIVE"]).map(String::from);
        if !c.accept_word("COMPACT") {
            return Err(c.expected(
                "ADD, DROP, MODIFY, ALTER, RENAME, REPLACE, CHANGE, ORDER BY, SET, SWAP WITH, ENABLE FEATURE or COMPACT",
            ));
        }
        let here = !c.at_end() && *c.peek() != Token::Comma;
        TableChange::Compact { partitions: if here { partitions::list(c)? } else { Vec::new() }, kind }
    });
    Ok(())
}

/// Reads clauses of MySQL that change nothing here: how a change is made, and that text is UTF-8. Returns false if none
/// is next.
///
/// # Errors
/// 1235 for another character set.
fn says_nothing(c: &mut Cursor<'_>) -> Result<bool, SqlError> {
    if c.accept_any(&["ALGORITHM", "LOCK"]).is_some() {
        c.accept_token(&Token::Eq);
        c.ident()?;
        return Ok(true);
    }
    if c.accept(&["WITH", "VALIDATION"]) || c.accept(&["WITHOUT", "VALIDATION"]) {
        return Ok(true);
    }
    let of_text = ["DEFAULT", "CHARACTER", "CHARSET", "COLLATE", "ENCRYPTION"].iter().any(|w| c.peek_words(&[w]));
    if of_text {
        catalogs::charset(c)?;
    }
    Ok(of_text)
}

/// Reads `RENAME {INDEX | KEY} a TO b`. A table may be renamed to one of these words: then no name follows.
fn rename_index(c: &mut Cursor<'_>) -> Result<Option<(String, String)>, SqlError> {
    let is_index = c.peek_words(&["RENAME", "INDEX"]) || c.peek_words(&["RENAME", "KEY"]);
    if !is_index || !matches!(c.token(c.index() + 2), Token::Word(_)) {
        return Ok(None);
    }
    c.advance();
    c.advance();
    rename(c).map(Some)
}

/// Reads `[COLUMN] c {SET DEFAULT value | DROP DEFAULT}`, after ALTER.
fn alter_column(c: &mut Cursor<'_>) -> Result<TableChange, SqlError> {
    for (word, message) in [
        ("INDEX", "ALTER INDEX is not supported: every index is visible; DROP INDEX takes one away"),
        ("CHECK", "CHECK is not supported: nothing would check it"),
        ("CONSTRAINT", "ALTER CONSTRAINT is not supported: constraints are kept, and nothing checks them"),
    ] {
        let next = c.token(c.index() + 1);
        if c.peek_words(&[word]) && matches!(next, Token::Word(_)) && !is_kind(next, &["SET", "DROP"]) {
            return Err(c.unsupported(message));
        }
    }
    let is_name = is_kind(c.token(c.index() + 1), &["SET", "DROP"]);
    if !is_name {
        c.accept_word("COLUMN");
    }
    let column = c.ident()?;
    if c.accept(&["DROP", "DEFAULT"]) {
        return Ok(TableChange::SetDefault { column, default: None });
    }
    if c.peek_words(&["SET", "VISIBLE"]) || c.peek_words(&["SET", "INVISIBLE"]) {
        return Err(c.unsupported("every column is visible; make a view without the column"));
    }
    if !c.accept(&["SET", "DEFAULT"]) {
        return Err(c.expected("SET DEFAULT or DROP DEFAULT"));
    }
    Ok(TableChange::SetDefault { column, default: Some(default_value(c)?) })
}

const OF_FILES: &str =
    "there are no files of tables to take away and put back; `dipper backup` and `dipper restore` are commands";
const OF_PARTITION: &str = "maintenance of one partition is not supported; CHECK, ANALYZE and OPTIMIZE TABLE are of the whole table, and COMPACT takes a partition";
const OF_ENGINE: &str = "options of MySQL's engines are not supported";
const REORGANIZE: &str =
    "key, partitioning and buckets of rows that are there stay; create a new table and REPLACE WITH TABLE";
const ROWS: &str = "ROW ACCESS POLICY is not supported; make a view of the rows and grant that";
const MASKS: &str = "MASKING POLICY is not supported; make a view with what may be seen and grant that";

/// Refuses changes that are known and not supported.
fn refuse(c: &Cursor<'_>) -> Result<(), SqlError> {
    for (words, message) in [
        (&["SET", "STATS"][..], "statistics cannot be set: they are part of what loads write"),
        (&["INDEX", "DIRECTORY"], OF_ENGINE),
        (&["INDEX"], "statistics of rollups cannot be set: they are part of what loads write"),
        (&["ADD", "GENERATED"], "a generated column is made with its table: c type AS (expression) in CREATE TABLE"),
        (&["ADD", "PRIMARY"], "a table's key is fixed when it is created; create a new table and REPLACE WITH TABLE"),
        (&["DROP", "PRIMARY"], "a table's key is fixed when it is created; create a new table and REPLACE WITH TABLE"),
        (&["ADD", "CHECK"], "CHECK is not supported: nothing would check it"),
        (&["DROP", "CHECK"], "CHECK is not supported: nothing would check it"),
        (&["MODIFY", "ENGINE"], "a table's engine cannot be changed"),
        (&["ENGINE"], "a table's engine cannot be changed"),
        (&["CONVERT", "TO"], "text is UTF-8; its character set cannot be changed"),
        (&["CREATE", "BRANCH"], "branches and tags are not supported"),
        (&["CREATE", "TAG"], "branches and tags are not supported"),
        (&["CREATE", "OR", "REPLACE"], "branches and tags are not supported"),
        (&["REPLACE", "BRANCH"], "branches and tags are not supported"),
        (&["REPLACE", "TAG"], "branches and tags are not supported"),
        (&["EXECUTE"], "ALTER TABLE ... EXECUTE is not supported"),
        (&["SPLIT"], "tablets are not split: the number of buckets is that of the partition"),
        (&["MERGE"], "tablets are not merged; ALTER TABLE ... COMPACT merges the segments of each"),
        (&["AUTO_INCREMENT"], "the next number of an AUTO_INCREMENT column cannot be set"),
        (&["FORCE"], "FORCE is not supported; ALTER TABLE ... COMPACT rewrites the files of a table"),
        (&["DISCARD"], OF_FILES),
        (&["IMPORT"], OF_FILES),
        (&["ANALYZE", "PARTITION"], OF_PARTITION),
        (&["CHECK", "PARTITION"], OF_PARTITION),
        (&["OPTIMIZE", "PARTITION"], OF_PARTITION),
        (&["REBUILD", "PARTITION"], OF_PARTITION),
        (&["REPAIR", "PARTITION"], OF_PARTITION),
        (
            &["EXCHANGE", "PARTITION"],
            "EXCHANGE PARTITION is not supported; REPLACE PARTITION p WITH TEMPORARY PARTITION q",
        ),
        (&["COALESCE", "PARTITION"], REORGANIZE),
        (&["REORGANIZE", "PARTITION"], REORGANIZE),
        (&["REMOVE", "PARTITIONING"], REORGANIZE),
        (&["UPGRADE", "PARTITIONING"], REORGANIZE),
        (&["SECONDARY_LOAD"], "there are no secondary engines"),
        (&["SECONDARY_UNLOAD"], "there are no secondary engines"),
        (&["ROW_FORMAT"], OF_ENGINE),
        (&["KEY_BLOCK_SIZE"], OF_ENGINE),
        (&["STATS_AUTO_RECALC"], OF_ENGINE),
        (&["STATS_PERSISTENT"], OF_ENGINE),
        (&["STATS_SAMPLE_PAGES"], OF_ENGINE),
        (&["AVG_ROW_LENGTH"], OF_ENGINE),
        (&["MAX_ROWS"], OF_ENGINE),
        (&["MIN_ROWS"], OF_ENGINE),
        (&["PACK_KEYS"], OF_ENGINE),
        (&["CHECKSUM"], OF_ENGINE),
        (&["DELAY_KEY_WRITE"], OF_ENGINE),
        (&["INSERT_METHOD"], OF_ENGINE),
        (&["COMPRESSION"], OF_ENGINE),
        (&["CONNECTION"], OF_ENGINE),
        (&["DATA", "DIRECTORY"], OF_ENGINE),
        (&["TABLESPACE"], OF_ENGINE),
        (&["UNION"], OF_ENGINE),
        (&["PARTITION"], REORGANIZE),
        (&["PARTITIONS"], REORGANIZE),
        (&["DUPLICATE", "KEY"], REORGANIZE),
        (&["UNIQUE", "KEY"], REORGANIZE),
        (&["PRIMARY", "KEY"], REORGANIZE),
        (&["AGGREGATE", "KEY"], REORGANIZE),
        (&["ADD", "PARTITION", "COLUMN"], REORGANIZE),
        (&["DROP", "PARTITION", "COLUMN"], REORGANIZE),
        (&["MODIFY", "PARTITION", "DISTRIBUTED"], REORGANIZE),
        (&["DROP", "ALL", "TEMPORARY"], "temporary partitions are dropped by name: DROP TEMPORARY PARTITION p"),
        (&["DROP", "PARTITIONS", "WHERE"], "partitions are dropped by name: DROP PARTITION p"),
        (&["DROP", "PERSISTENT", "INDEX"], "there are no persistent indexes of tablets to drop"),
        (&["ADD", "ROW", "ACCESS"], ROWS),
        (&["DROP", "ROW", "ACCESS"], ROWS),
        (&["DROP", "ALL", "ROW"], ROWS),
    ] {
        if c.peek_words(words) {
            return Err(c.unsupported(message));
        }
    }
    // `DROP tag` alone drops a column.
    let names_more = matches!(c.token(c.index() + 2), Token::Word(_));
    if names_more && (c.peek_words(&["DROP", "BRANCH"]) || c.peek_words(&["DROP", "TAG"])) {
        return Err(c.unsupported("branches and tags are not supported"));
    }
    Ok(())
}

fn rename(c: &mut Cursor<'_>) -> Result<(String, String), SqlError> {
    let from = c.ident()?;
    c.accept_word("TO");
    Ok((from, c.ident()?))
}

fn strings(c: &mut Cursor<'_>) -> Result<Vec<String>, SqlError> {
    c.expect_token(&Token::LParen)?;
    let mut out = vec![c.string()?];
    while c.accept_token(&Token::Comma) {
        out.push(c.string()?);
    }
    c.expect_token(&Token::RParen)?;
    Ok(out)
}

/// Reads `(a, b)` or `a, b`.
fn order(c: &mut Cursor<'_>) -> Result<Vec<String>, SqlError> {
    if *c.peek() == Token::LParen {
        return c.ident_list();
    }
    let mut out = vec![c.ident()?];
    while c.accept_token(&Token::Comma) {
        out.push(c.ident()?);
    }
    Ok(out)
}

fn position(c: &mut Cursor<'_>) -> Result<Option<ColumnPosition>, SqlError> {
    let position = if c.accept_word("FIRST") {
        Some(ColumnPosition::First)
    } else if c.accept_word("AFTER") {
        Some(ColumnPosition::After(c.ident()?))
    } else {
        None
    };
    tail(c)?;
    Ok(position)
}

/// Reads the rest after a change of columns: `TO r`, `IN r`, `FROM r` name a rollup and are refused, and PROPERTIES are
/// settings of Doris's job.
fn tail(c: &mut Cursor<'_>) -> Result<(), SqlError> {
    if ["TO", "IN", "FROM"].iter().any(|w| c.peek_words(&[w])) {
        return Err(c.unsupported(
            "a column of one rollup alone is not supported; ALTER TABLE ... ADD ROLLUP with all columns",
        ));
    }
    job_properties(c)
}

/// Reads PROPERTIES of a job and notes that they have no effect, because there is no job.
fn job_properties(c: &mut Cursor<'_>) -> Result<(), SqlError> {
    if !c.properties_clause()?.is_empty() {
        c.notes.push("PROPERTIES of rollups and of changes of columns have no effect: there is no job to run".into());
    }
    Ok(())
}

/// Reads the rest of ADD.
fn add(c: &mut Cursor<'_>, changes: &mut Vec<TableChange>) -> Result<(), SqlError> {
    let start = c.index();
    let temporary = c.accept_word("TEMPORARY");
    let if_not_exists = !temporary && c.if_not_exists();
    if c.accept_any(&["PARTITION", "PARTITIONS"]).is_some() {
        if *c.peek() == Token::LParen && !temporary {
            return hive_partitions(c, if_not_exists, changes);
        }
        return named_partition(c, temporary, if_not_exists, changes);
    }
    c.seek(start);
    if c.accept_word("ROLLUP") {
        loop {
            changes.push(TableChange::AddRollup(rollup(c)?));
            if !c.accept_token(&Token::Comma) {
                return Ok(());
            }
        }
    }
    if c.accept_word("CONSTRAINT") || c.peek_words(&["FOREIGN", "KEY"]) {
        changes.push(TableChange::AddConstraint(constraint(c)?));
        return Ok(());
    }
    for (word, message) in [
        ("FULLTEXT", "ADD FULLTEXT INDEX is not supported; ADD INDEX name (column) USING INVERTED, and MATCH reads it"),
        ("SPATIAL", "ADD SPATIAL INDEX is not supported"),
    ] {
        if c.peek_words(&[word]) && !is_type_after(c) {
            return Err(c.unsupported(message));
        }
    }
    let unique = c.peek_words(&["UNIQUE"]) && !is_type_after(c);
    if unique {
        c.advance();
    }
    if c.accept_any(&["INDEX", "KEY"]).is_some() || unique {
        let (if_not_exists, mut index) = index_of_alter(c)?;
        index.unique = unique;
        if index.name.is_none() && !unique {
            return Err(c.unsupported("an index needs a name: ADD INDEX name (columns)"));
        }
        changes.push(TableChange::AddIndex { if_not_exists, index });
        return Ok(());
    }
    let _ = c.accept_any(&["COLUMN", "COLUMNS"]);
    let (columns, position) = if *c.peek() == Token::LParen {
        let columns = column_defs(c)?;
        tail(c)?;
        (columns, None)
    } else {
        (vec![column_def(c)?], position(c)?)
    };
    changes.push(TableChange::AddColumns { columns, position });
    Ok(())
}

/// Reads Hive's `(k=v) [LOCATION '..'] PARTITION (k=v) ...`, from the first parenthesis on.
fn hive_partitions(c: &mut Cursor<'_>, if_not_exists: bool, changes: &mut Vec<TableChange>) -> Result<(), SqlError> {
    loop {
        let spec = c.partition_spec()?;
        let location = if c.accept_word("LOCATION") { Some(c.string()?) } else { None };
        changes.push(TableChange::AddPartition { if_not_exists, spec, location });
        if !c.accept_word("PARTITION") {
            return Ok(());
        }
    }
}

/// Reads a partition of Doris and StarRocks, after PARTITION or PARTITIONS.
fn named_partition(
    c: &mut Cursor<'_>,
    temporary: bool,
    if_not_exists: bool,
    changes: &mut Vec<TableChange>,
) -> Result<(), SqlError> {
    let item = if c.peek_words(&["FROM"]) || c.peek_words(&["START"]) {
        partitions::steps(c)?
    } else {
        let mut partition = partitions::partition(c)?;
        partition.if_not_exists |= if_not_exists;
        crate::statement::PartitionItem::One(partition)
    };
    let mut distribution = None;
    let mut properties = Vec::new();
    loop {
        if let Some(found) = partitions::distribution(c)? {
            distribution = Some(found);
        } else if c.accept_word("PROPERTIES") || *c.peek() == Token::LParen {
            properties.extend(c.properties(false)?);
        } else {
            break;
        }
    }
    changes.push(TableChange::AddNamedPartition { temporary, item, distribution, properties });
    Ok(())
}

/// Reads the rest of DROP.
fn drop(c: &mut Cursor<'_>, changes: &mut Vec<TableChange>) -> Result<(), SqlError> {
    let temporary = c.accept_word("TEMPORARY");
    let if_exists = c.if_exists();
    if c.accept_any(&["PARTITION", "PARTITIONS"]).is_some() {
        let if_exists = c.if_exists() || if_exists;
        if c.peek_words(&["START"]) && *c.token(c.index() + 1) == Token::LParen {
            return Err(c.unsupported("partitions are dropped by name: DROP PARTITION p"));
        }
        let is_hive = *c.peek() == Token::LParen && *c.token(c.index() + 2) == Token::Eq;
        if !is_hive {
            let names = partitions::list(c)?;
            let force = c.accept_word("FORCE");
            if c.peek_words(&["FROM", "INDEX"]) {
                return Err(c.unsupported("partitions of one rollup alone are not dropped; leave out FROM INDEX"));
            }
            changes.extend(names.into_iter().map(|partition| TableChange::DropNamedPartition {
                temporary,
                if_exists,
                partition,
                force,
            }));
            return Ok(());
        }
        loop {
            changes.push(TableChange::DropPartition { if_exists, spec: c.partition_spec()? });
            if !(*c.peek() == Token::Comma && is_word(c.token(c.index() + 1), "PARTITION")) {
                break;
            }
            c.advance();
            c.expect(&["PARTITION"])?;
        }
        c.accept_word("PURGE");
        return Ok(());
    }
    if c.accept_any(&["INDEX", "KEY"]).is_some() {
        let if_exists = c.if_exists() || if_exists;
        changes.push(TableChange::DropIndex { if_exists, name: c.ident()? });
        return Ok(());
    }
    if c.accept_word("CONSTRAINT") || c.accept(&["FOREIGN", "KEY"]) {
        let if_exists = c.if_exists() || if_exists;
        changes.push(TableChange::DropConstraint { if_exists, name: c.ident()? });
        return Ok(());
    }
    if c.accept_word("ROLLUP") {
        loop {
            changes.push(TableChange::DropRollup { if_exists: c.if_exists(), name: c.ident()? });
            job_properties(c)?;
            if !c.accept_token(&Token::Comma) {
                return Ok(());
            }
        }
    }
    c.accept_word("COLUMN");
    changes.push(TableChange::DropColumn(c.ident()?));
    tail(c)
}

/// Reads `[name] {PRIMARY KEY | UNIQUE | FOREIGN KEY} (columns) [REFERENCES t (columns)]`, after CONSTRAINT. MySQL's
/// actions that change no row are read, too.
fn constraint(c: &mut Cursor<'_>) -> Result<ConstraintDef, SqlError> {
    let kinds = ["PRIMARY", "UNIQUE", "FOREIGN", "CHECK"];
    let unnamed = kinds.iter().any(|word| c.peek_words(&[word])) && !is_kind(c.token(c.index() + 1), &kinds);
    let name = if unnamed { None } else { Some(c.ident()?) };
    if c.accept(&["PRIMARY", "KEY"]) {
        return Ok(ConstraintDef { name, kind: ConstraintKind::Primary, columns: c.ident_list()? });
    }
    if c.accept_word("UNIQUE") {
        let _ = c.accept_any(&["KEY", "INDEX"]);
        let name = if *c.peek() == Token::LParen { name } else { Some(c.ident()?) };
        return Ok(ConstraintDef { name, kind: ConstraintKind::Unique, columns: c.ident_list()? });
    }
    if c.peek_words(&["CHECK"]) {
        return Err(c.unsupported("CHECK is not supported: nothing would check it"));
    }
    if !c.accept(&["FOREIGN", "KEY"]) {
        return Err(c.expected("PRIMARY KEY, UNIQUE or FOREIGN KEY"));
    }
    // MySQL lets the index of the key have another name than the constraint.
    let index = if *c.peek() == Token::LParen { None } else { Some(c.ident()?) };
    let columns = c.ident_list()?;
    c.expect(&["REFERENCES"])?;
    let kind = ConstraintKind::Foreign { table: c.name()?, columns: c.ident_list()? };
    while c.accept_word("ON") {
        if c.accept_any(&["DELETE", "UPDATE"]).is_none() {
            return Err(c.expected("DELETE or UPDATE"));
        }
        if !(c.accept_word("RESTRICT") || c.accept(&["NO", "ACTION"])) {
            return Err(c.unsupported("a foreign key changes no rows: write RESTRICT or NO ACTION"));
        }
    }
    Ok(ConstraintDef { name: name.or(index), kind, columns })
}

fn is_kind(token: &Token, kinds: &[&str]) -> bool {
    kinds.iter().any(|word| is_word(token, word))
}

/// Reads `name (columns) [DUPLICATE KEY (..)] [FROM rollup] [PROPERTIES (..)]`, also in CREATE TABLE.
pub(super) fn rollup(c: &mut Cursor<'_>) -> Result<RollupDef, SqlError> {
    let name = c.ident()?;
    let columns = c.ident_list()?;
    let keys = if c.accept(&["DUPLICATE", "KEY"]) { c.ident_list()? } else { Vec::new() };
    if c.accept_word("FROM") {
        // The rollup from which it is built does not affect its contents.
        c.ident()?;
    }
    job_properties(c)?;
    Ok(RollupDef { name, columns, keys })
}

/// Reads the rest of MODIFY.
fn modify(c: &mut Cursor<'_>) -> Result<TableChange, SqlError> {
    if c.peek_words(&["COMMENT"]) && matches!(c.token(c.index() + 1), t if is_string(t)) {
        c.advance();
        return c.string().map(TableChange::Comment);
    }
    if c.accept_word("DISTRIBUTION") {
        return match partitions::distribution(c)? {
            Some(distribution) => Ok(TableChange::Distribution(distribution)),
            None => Err(c.expected("DISTRIBUTED BY")),
        };
    }
    if c.peek_words(&["TEMPORARY", "PARTITION"]) {
        return Err(c.unsupported("properties of temporary partitions cannot be changed"));
    }
    if c.accept_any(&["PARTITION", "PARTITIONS"]).is_some() {
        let mut partitions = partitions::list(c)?;
        partitions.retain(|p| p != "*");
        c.expect(&["SET"])?;
        return Ok(TableChange::ModifyPartitions { partitions, properties: c.properties(false)? });
    }
    c.accept_word("COLUMN");
    for (first, second, message) in [
        ("SET", "STATS", "statistics cannot be set: they are part of what loads write"),
        ("SET", "MASKING", MASKS),
        ("UNSET", "MASKING", MASKS),
        ("ADD", "FIELD", "fields of a STRUCT cannot be added; create a new table and REPLACE WITH TABLE"),
        ("DROP", "FIELD", "fields of a STRUCT cannot be dropped; create a new table and REPLACE WITH TABLE"),
    ] {
        if is_word(c.token(c.index() + 1), first) && is_word(c.token(c.index() + 2), second) {
            return Err(c.unsupported(message));
        }
    }
    if is_word(c.token(c.index() + 1), "COMMENT") {
        let column = c.ident()?;
        c.advance();
        return Ok(TableChange::CommentColumn { column, comment: c.string()? });
    }
    let column = column_def(c)?;
    Ok(TableChange::ModifyColumn { column, position: position(c)? })
}

fn is_string(token: &Token) -> bool {
    matches!(token, Token::SingleQuotedString(_) | Token::DoubleQuotedString(_))
}

/// Reads the rest of SET.
fn set(c: &mut Cursor<'_>) -> Result<TableChange, SqlError> {
    if c.accept_word("LOCATION") {
        return c.string().map(TableChange::SetLocation);
    }
    if c.accept_word("SERDEPROPERTIES") {
        return c.properties(true).map(TableChange::SetSerdeProperties);
    }
    if c.accept_word("TBLPROPERTIES") {
        return c.properties(true).map(TableChange::SetProperties);
    }
    c.properties(false).map(TableChange::SetProperties)
}

/// Reads the rest of REPLACE WITH TABLE. Doris swaps the tables unless told otherwise.
fn replace_with(c: &mut Cursor<'_>) -> Result<TableChange, SqlError> {
    let table: Name = c.name()?;
    let mut swap = true;
    if c.accept_word("PROPERTIES") {
        let at = c.index();
        for (key, value) in c.properties(false)? {
            swap = match (key.to_ascii_lowercase().as_str(), value.to_ascii_lowercase().as_str()) {
                ("swap", "true") => true,
                ("swap", "false") => false,
                _ => {
                    c.seek(at);
                    return Err(c.expected("'swap' = 'true' or 'false'"));
                }
            };
        }
    }
    Ok(TableChange::ReplaceWith { table, swap, force: c.accept_word("FORCE") })
}

/// Reads `PARTITION (p, ..) WITH TEMPORARY PARTITION (q, ..) [FORCE] [PROPERTIES (..)]`, after REPLACE.
fn replace_partitions(c: &mut Cursor<'_>) -> Result<TableChange, SqlError> {
    if c.accept_any(&["PARTITION", "PARTITIONS"]).is_none() {
        return Err(c.expected("PARTITION, COLUMNS or WITH TABLE"));
    }
    let partitions = partitions::list(c)?;
    c.expect(&["WITH"])?;
    if !c.peek_words(&["TEMPORARY"]) {
        return Err(c.expected("TEMPORARY PARTITION"));
    }
    let with = partitions::names(c)?.ok_or_else(|| c.expected("TEMPORARY PARTITION"))?.1;
    c.accept_word("FORCE");
    let properties = c.properties_clause()?;
    Ok(TableChange::ReplacePartitions { partitions, with, properties })
}
