//! Reading of statements about the session: SET, USE, transactions, KILL, locks, prepared statements as text.

use sqlparser::tokenizer::{Token, Word};

use super::access;
use super::cursor::Cursor;
use crate::error::SqlError;
use crate::statement::{
    Assignment, LockKind, Name, PrepareSource, Scope, SecretText, SetValue, Show, ShowKind, Statement,
};

pub(super) fn use_database(c: &mut Cursor<'_>) -> Result<Statement, SqlError> {
    c.expect(&["USE"])?;
    let is_group = |token: &Token| match token {
        Token::Word(Word { value, quote_style: None, .. }) => value.contains('@'),
        token => *token == Token::AtSign,
    };
    // StarRocks: `USE 'catalog name'`.
    if let Token::SingleQuotedString(text) | Token::DoubleQuotedString(text) = c.peek().clone()
        && let Some((word, catalog)) = text.trim().split_once(' ')
        && word.eq_ignore_ascii_case("catalog")
    {
        c.advance();
        return Ok(Statement::SwitchCatalog(catalog.trim().to_string()));
    }
    let mut named_group = is_group(c.peek());
    let name = if named_group { Name(Vec::new()) } else { c.name()? };
    named_group |= is_group(c.peek());
    if named_group {
        return Err(c.unsupported("there are no compute groups; leave out what is behind the @"));
    }
    Ok(Statement::Use(name))
}

pub(super) fn switch(c: &mut Cursor<'_>) -> Result<Statement, SqlError> {
    c.expect(&["SWITCH"])?;
    super::catalogs::name(c).map(Statement::SwitchCatalog)
}

pub(super) fn set(c: &mut Cursor<'_>) -> Result<Statement, SqlError> {
    c.expect(&["SET"])?;
    if c.peek_words(&["PROPERTY"]) && !matches!(c.token(c.index() + 1), Token::Eq | Token::Assignment) {
        c.advance();
        return access::set_property(c);
    }
    if let Some(roles) = roles(c)? {
        return Ok(roles);
    }
    if let Some(default) = super::volume::set_default(c)? {
        return Ok(default);
    }
    if c.peek_words(&["CATALOG"]) && !matches!(c.token(c.index() + 1), Token::Eq | Token::Assignment) {
        c.advance();
        return super::catalogs::name(c).map(Statement::SwitchCatalog);
    }
    if c.peek_words(&["WAREHOUSE"]) && !matches!(c.token(c.index() + 1), Token::Eq | Token::Assignment) {
        return Err(c.unsupported("there are no warehouses"));
    }
    let mut out = Vec::new();
    let mut scope = Scope::Session;
    loop {
        out.push(assignment(c, &mut scope)?);
        if !c.accept_token(&Token::Comma) {
            break;
        }
    }
    Ok(Statement::Set(out))
}

/// Reads, after SET, `ROLE ALL | DEFAULT` and `DEFAULT ROLE ALL TO user, ...`. They set what always holds and have no
/// effect; other sets of roles are refused. `None` for other statements.
fn roles(c: &mut Cursor<'_>) -> Result<Option<Statement>, SqlError> {
    let is_assigned = matches!(c.token(c.index() + 1), Token::Eq | Token::Assignment);
    let default = c.accept(&["DEFAULT", "ROLE"]);
    if !default && (is_assigned || !c.accept_word("ROLE")) {
        return Ok(None);
    }
    let all = c.accept_word("ALL") || !default && c.accept_word("DEFAULT");
    if !all || c.peek_words(&["EXCEPT"]) {
        return Err(c.unsupported("roles of a user are always in force, all of them: SET ROLE takes ALL only"));
    }
    if default {
        c.expect(&["TO"])?;
        access::user(c)?;
        while c.accept_token(&Token::Comma) {
            access::user(c)?;
        }
    }
    Ok(Some(Statement::Set(Vec::new())))
}

/// Reads `UNSET [GLOBAL|SESSION] VARIABLE name | ALL`.
pub(super) fn unset(c: &mut Cursor<'_>) -> Result<Statement, SqlError> {
    c.expect(&["UNSET"])?;
    let scope = scope_word(c).unwrap_or(Scope::Session);
    c.expect(&["VARIABLE"])?;
    let name = if c.accept_word("ALL") { None } else { Some(c.ident()?) };
    Ok(Statement::Unset { scope, name })
}

fn scope_word(c: &mut Cursor<'_>) -> Option<Scope> {
    match c.accept_any(&["GLOBAL", "SESSION", "LOCAL", "PERSIST", "PERSIST_ONLY"])? {
        "GLOBAL" => Some(Scope::Global),
        "SESSION" | "LOCAL" => Some(Scope::Session),
        _ => Some(Scope::Persist),
    }
}

fn assignment(c: &mut Cursor<'_>, default_scope: &mut Scope) -> Result<Assignment, SqlError> {
    if c.accept_word("NAMES") {
        let charset = word_or_default(c)?;
        let collation = if c.accept_word("COLLATE") { word_or_default(c)? } else { None };
        return Ok(Assignment::Names { charset, collation });
    }
    if c.accept(&["CHARACTER", "SET"]) || c.accept(&["CHAR", "SET"]) || c.accept_word("CHARSET") {
        return Ok(Assignment::CharacterSet(word_or_default(c)?));
    }
    if c.accept_word("PASSWORD") {
        return password(c);
    }
    // A scope word is a scope only if something other than an assignment follows it.
    let mut scope = None;
    let next_is_assignment = matches!(c.token(c.index() + 1), Token::Eq | Token::Assignment);
    if !next_is_assignment {
        scope = scope_word(c);
    }
    if c.peek_words(&["TRANSACTION"]) && !matches!(c.token(c.index() + 1), Token::Eq | Token::Assignment) {
        c.advance();
        return transaction_characteristics(c, scope);
    }
    // MySQL: the scope of an earlier assignment holds for later ones that have none.
    if let Some(scope) = scope {
        *default_scope = scope;
    }
    if c.accept_token(&Token::AtSign) {
        // The forms @'name' and @`name`.
        let name = if c.at_string() { c.string()? } else { c.ident()? };
        return Ok(Assignment::User { name, value: value(c)? });
    }
    let word = match c.peek().clone() {
        Token::Word(Word { value, quote_style: None, .. }) if value.starts_with('@') => value,
        _ => {
            let mut name = c.ident()?;
            while c.accept_token(&Token::Period) {
                name.push('.');
                name.push_str(&c.ident()?);
            }
            return Ok(Assignment::Variable { scope: *default_scope, name, value: value(c)? });
        }
    };
    c.advance();
    if let Some(rest) = word.strip_prefix("@@") {
        let mut parts = if rest.is_empty() { vec![c.ident()?] } else { vec![rest.to_string()] };
        while c.accept_token(&Token::Period) {
            parts.push(c.ident()?);
        }
        let scope = match parts[0].to_ascii_lowercase().as_str() {
            "global" => Some(Scope::Global),
            "session" | "local" => Some(Scope::Session),
            "persist" | "persist_only" => Some(Scope::Persist),
            _ => None,
        };
        if scope.is_some() && parts.len() > 1 {
            parts.remove(0);
        }
        let name = parts.join(".");
        return Ok(Assignment::Variable { scope: scope.unwrap_or(Scope::Session), name, value: value(c)? });
    }
    let name = match word.strip_prefix('@') {
        Some(name) => {
            let mut name = name.to_string();
            while c.accept_token(&Token::Period) {
                name.push('.');
                name.push_str(&c.ident()?);
            }
            name
        }
        None => return Err(c.expected("a variable")),
    };
    Ok(Assignment::User { name, value: value(c)? })
}

fn word_or_default(c: &mut Cursor<'_>) -> Result<Option<String>, SqlError> {
    c.accept_token(&Token::Eq);
    if c.accept_word("DEFAULT") {
        return Ok(None);
    }
    if c.at_string() { c.string().map(Some) } else { c.ident().map(Some) }
}

fn value(c: &mut Cursor<'_>) -> Result<SetValue, SqlError> {
    if !c.accept_token(&Token::Eq) && !c.accept_token(&Token::Assignment) {
        return Err(c.expected("'='"));
    }
    let start = c.index();
    let ends = |c: &Cursor<'_>| matches!(c.peek(), Token::Comma | Token::EOF);
    if let Ok(literal) = c.literal()
        && ends(c)
    {
        return Ok(SetValue::Literal(literal));
    }
    c.seek(start);
    if let Token::Word(Word { value, quote_style: None, .. }) = c.peek().clone()
        && !value.starts_with('@')
    {
        c.advance();
        if ends(c) {
            return Ok(if value.eq_ignore_ascii_case("DEFAULT") { SetValue::Default } else { SetValue::Word(value) });
        }
        c.seek(start);
    }
    c.expr()?;
    let sql = format!("SELECT {}", c.text_from(start));
    c.subordinate_query(&sql).map(SetValue::Query)
}

fn password(c: &mut Cursor<'_>) -> Result<Assignment, SqlError> {
    let user = if c.accept_word("FOR") { Some(access::user(c)?) } else { None };
    c.expect_token(&Token::Eq)?;
    if c.accept_word("PASSWORD") {
        c.expect_token(&Token::LParen)?;
        let password = SecretText::new(c.string()?);
        c.expect_token(&Token::RParen)?;
        return Ok(Assignment::Password { user, password, plain: true });
    }
    Ok(Assignment::Password { user, password: SecretText::new(c.string()?), plain: false })
}

fn transaction_characteristics(c: &mut Cursor<'_>, scope: Option<Scope>) -> Result<Assignment, SqlError> {
    let (mut isolation, mut read_only) = (None, None);
    loop {
        if c.accept(&["ISOLATION", "LEVEL"]) {
            let levels = [
                (&["READ", "UNCOMMITTED"][..], "READ-UNCOMMITTED"),
                (&["READ", "COMMITTED"], "READ-COMMITTED"),
                (&["REPEATABLE", "READ"], "REPEATABLE-READ"),
                (&["SERIALIZABLE"], "SERIALIZABLE"),
            ];
            match levels.iter().find(|(words, _)| c.accept(words)) {
                Some((_, level)) => isolation = Some((*level).to_string()),
                None => return Err(c.expected("an isolation level")),
            }
        } else if c.accept(&["READ", "ONLY"]) {
            read_only = Some(true);
        } else if c.accept(&["READ", "WRITE"]) {
            read_only = Some(false);
        } else {
            return Err(c.expected("ISOLATION LEVEL, READ ONLY or READ WRITE"));
        }
        if !c.accept_token(&Token::Comma) {
            return Ok(Assignment::Transaction { scope, isolation, read_only });
        }
    }
}

pub(super) fn transaction(c: &mut Cursor<'_>) -> Result<Statement, SqlError> {
    let word = c.accept_any(&["BEGIN", "START", "COMMIT", "ROLLBACK", "SAVEPOINT", "RELEASE"]);
    match word {
        Some("BEGIN") => {
            let _ = c.accept_any(&["WORK", "TRANSACTION"]);
            // Doris's transactions can have a label.
            let label = match c.accept(&["WITH", "LABEL"]) {
                true if c.at_string() => Some(c.string()?),
                true if c.at_end() => None,
                true => Some(c.ident()?),
                false => None,
            };
            Ok(Statement::Begin { read_only: false, consistent_snapshot: false, label })
        }
        Some("START") => {
            c.expect(&["TRANSACTION"])?;
            let (mut read_only, mut consistent_snapshot, mut label) = (false, false, None);
            loop {
                if c.accept(&["READ", "ONLY"]) {
                    read_only = true;
                } else if c.accept(&["READ", "WRITE"]) {
                    read_only = false;
                } else if c.accept(&["WITH", "CONSISTENT", "SNAPSHOT"]) {
                    consistent_snapshot = true;
                } else if c.accept(&["WITH", "LABEL"]) {
                    label = Some(if c.at_string() { c.string()? } else { c.ident()? });
                } else {
                    break;
                }
                c.accept_token(&Token::Comma);
            }
            Ok(Statement::Begin { read_only, consistent_snapshot, label })
        }
        Some("SAVEPOINT") => c.ident().map(Statement::Savepoint),
        Some("RELEASE") => {
            c.expect(&["SAVEPOINT"])?;
            c.ident().map(Statement::ReleaseSavepoint)
        }
        commit_or_rollback => {
            let commit = commit_or_rollback == Some("COMMIT");
            c.accept_word("WORK");
            if !commit && c.accept_word("TO") {
                c.accept_word("SAVEPOINT");
                return c.ident().map(Statement::RollbackTo);
            }
            let (mut chain, mut release) = (false, false);
            if c.accept_word("AND") {
                let no = c.accept_word("NO");
                c.expect(&["CHAIN"])?;
                chain = !no;
            }
            let no = c.peek_words(&["NO", "RELEASE"]) && c.accept_word("NO");
            if c.accept_word("RELEASE") {
                release = !no;
            }
            Ok(if commit { Statement::Commit { chain, release } } else { Statement::Rollback { chain, release } })
        }
    }
}

/// Reads `XA RECOVER [CONVERT XID]`: a list of prepared distributed transactions.
pub(super) fn xa(c: &mut Cursor<'_>) -> Result<Statement, SqlError> {
    c.expect(&["XA", "RECOVER"])?;
    c.accept(&["CONVERT", "XID"]);
    let kind = ShowKind::Other("XA RECOVER".into());
    Ok(Statement::Show(Show { kind, filter: None, order_by: Vec::new(), limit: None }))
}

/// Reads MariaDB's `SET STATEMENT name = value, ... FOR`, before the statement for which the variables have these
/// values.
pub(super) fn for_statement(c: &mut Cursor<'_>) -> Result<Vec<(String, String)>, SqlError> {
    if !c.peek_words(&["SET", "STATEMENT"]) || !matches!(c.token(c.index() + 2), Token::Word(_)) {
        return Ok(Vec::new());
    }
    c.advance();
    c.advance();
    let mut out = Vec::new();
    loop {
        let name = c.ident()?;
        if !c.accept_token(&Token::Eq) && !c.accept_token(&Token::Assignment) {
            return Err(c.expected("'='"));
        }
        let start = c.index();
        let value = match c.literal() {
            Ok(literal) => literal.text(),
            Err(_) => {
                c.seek(start);
                Some(c.ident()?)
            }
        };
        let Some(value) = value.filter(|_| matches!(c.peek(), Token::Comma) || c.peek_words(&["FOR"])) else {
            c.seek(start);
            return Err(c.unsupported("SET STATEMENT takes literals only"));
        };
        out.push((name, value));
        if !c.accept_token(&Token::Comma) {
            break;
        }
    }
    c.expect(&["FOR"])?;
    Ok(out)
}

pub(super) fn kill(c: &mut Cursor<'_>) -> Result<Statement, SqlError> {
    c.expect(&["KILL"])?;
    // MariaDB: a statement that is killed softly may finish what would leave a table damaged. Every statement here ends
    // without a trace, so both words mean the same.
    c.accept_any(&["HARD", "SOFT"]);
    let query = c.accept_word("QUERY");
    match query {
        true => c.accept_word("ID"),
        false => c.accept_word("CONNECTION"),
    };
    let id = if c.at_string() { c.string()? } else { c.uint()?.to_string() };
    Ok(Statement::Kill { query, id })
}

pub(super) fn lock(c: &mut Cursor<'_>) -> Result<Statement, SqlError> {
    if c.accept_word("UNLOCK") {
        if c.accept_any(&["TABLES", "TABLE"]).is_none() {
            return Err(c.expected("TABLES"));
        }
        return Ok(Statement::UnlockTables);
    }
    c.expect(&["LOCK"])?;
    if c.accept_any(&["TABLES", "TABLE"]).is_none() {
        return Err(c.expected("TABLES"));
    }
    let mut out = Vec::new();
    if c.at_end() {
        return Ok(Statement::LockTables(out));
    }
    loop {
        let name = c.name()?;
        let as_word = c.accept_word("AS");
        let at_kind = ["READ", "WRITE", "LOW_PRIORITY"].iter().any(|w| c.peek_words(&[w]));
        if as_word || !at_kind {
            c.ident()?;
        }
        let kind = if c.accept_word("READ") {
            c.accept_word("LOCAL");
            LockKind::Read
        } else {
            c.accept_word("LOW_PRIORITY");
            if !c.accept_word("WRITE") {
                return Err(c.expected("READ or WRITE"));
            }
            LockKind::Write
        };
        out.push((name, kind));
        if !c.accept_token(&Token::Comma) {
            return Ok(Statement::LockTables(out));
        }
    }
}

pub(super) fn flush(c: &mut Cursor<'_>) -> Result<Statement, SqlError> {
    c.expect(&["FLUSH"])?;
    let start = c.index();
    if c.at_end() {
        return Err(c.expected("what to flush"));
    }
    while !c.at_end() {
        c.advance();
    }
    Ok(Statement::Flush(c.text_from(start).to_ascii_uppercase()))
}

pub(super) fn sync(c: &mut Cursor<'_>) -> Result<Statement, SqlError> {
    c.expect(&["SYNC"])?;
    Ok(Statement::Sync)
}

pub(super) fn prepared(c: &mut Cursor<'_>) -> Result<Statement, SqlError> {
    if c.accept_word("PREPARE") {
        let name = c.ident()?;
        c.expect(&["FROM"])?;
        let source = if c.at_string() {
            PrepareSource::Text(c.string()?)
        } else if matches!(c.peek(), Token::Word(Word { value, quote_style: None, .. }) if !value.starts_with('@')) {
            // StarRocks: the statement itself.
            let start = c.index();
            while !c.at_end() {
                c.advance();
            }
            PrepareSource::Text(c.text_from(start).to_string())
        } else {
            PrepareSource::Variable(c.user_variable()?)
        };
        return Ok(Statement::Prepare { name, source });
    }
    if c.accept_word("EXECUTE") {
        let name = c.ident()?;
        let mut using = Vec::new();
        if c.accept_word("USING") {
            using.push(c.user_variable()?);
            while c.accept_token(&Token::Comma) {
                using.push(c.user_variable()?);
            }
        }
        return Ok(Statement::Execute { name, using });
    }
    c.expect(&["DEALLOCATE", "PREPARE"])?;
    c.ident().map(Statement::Deallocate)
}
