//! Reading of SHOW, DESCRIBE, EXPLAIN, HELP.

use dipper_base::near;
use sqlparser::tokenizer::{Token, Word};

use super::cursor::Cursor;
use super::show_words::{KNOWN, OTHER};
use super::{access, catalogs, functions, partitions, words};
use crate::error::SqlError;
use crate::statement::{
    DescribeDetail, DescribeTarget, FunctionScope, Name, Scope, Show, ShowFilter, ShowKind, Statement,
};

pub(super) fn show(c: &mut Cursor<'_>) -> Result<Statement, SqlError> {
    c.expect(&["SHOW"])?;
    show_tail(c)
}

/// Reads the rest of SHOW and ADMIN SHOW.
pub(super) fn show_tail(c: &mut Cursor<'_>) -> Result<Statement, SqlError> {
    let kind = kind(c)?;
    let mut show = Show { kind, filter: None, order_by: Vec::new(), limit: None };
    if matches!(show.kind, ShowKind::Load { stream: true, .. }) && c.accept_word("FOR") {
        // StarRocks: a single load by its label, perhaps with its database.
        let mut name = c.name()?.0;
        let label = name.pop().unwrap_or_default();
        let database = from(c)?;
        let database = if name.is_empty() { database } else { Some(Name(name)) };
        show.kind = ShowKind::Load { stream: true, from: database };
        show.filter = Some(equal("Label", &label)?);
    } else if matches!(show.kind, ShowKind::Processlist { .. }) && c.accept_word("FOR") {
        let user = if c.at_string() { c.string()? } else { c.ident()? };
        show.filter = Some(equal("User", &user)?);
    } else if matches!(&show.kind, ShowKind::Other(list) if list == "WARM UP JOB") && c.accept(&["WHERE", "ID"]) {
        c.expect_token(&Token::Eq)?;
        show.filter = Some(equal("JobId", &c.uint()?.to_string())?);
    } else if matches!(show.kind, ShowKind::Transaction { id: None, .. }) && c.accept(&["WHERE", "STATUS"]) {
        c.expect_token(&Token::Eq)?;
        show.filter = Some(equal("TransactionStatus", &c.string()?.to_ascii_uppercase())?);
    } else if c.accept_word("LIKE") {
        show.filter = Some(ShowFilter::Like(c.string()?));
    } else if c.accept_word("WHERE") {
        show.filter = Some(ShowFilter::Where(Box::new(c.expr()?)));
    }
    if matches!(&show.kind, ShowKind::Other(list) if list == "FAILPOINTS") && c.accept(&["ON", "BACKEND"]) {
        c.string()?;
    }
    if matches!(show.kind, ShowKind::Config { .. }) && c.peek_words(&["FROM"]) {
        return Err(c.unsupported("there is one node: leave out FROM"));
    }
    if c.accept(&["ORDER", "BY"]) {
        loop {
            let column = c.ident()?;
            show.order_by.push((column, c.accept_any(&["ASC", "DESC"]) == Some("DESC")));
            if !c.accept_token(&Token::Comma) {
                break;
            }
        }
    }
    if c.accept_word("LIMIT") {
        let first = c.uint()?;
        show.limit = Some(if c.accept_token(&Token::Comma) {
            (first, c.uint()?)
        } else if c.accept_word("OFFSET") {
            (c.uint()?, first)
        } else {
            (0, first)
        });
    }
    if !c.properties_clause()?.is_empty() {
        c.notes.push("PROPERTIES of SHOW have no effect".to_string());
    }
    Ok(Statement::Show(show))
}

/// Builds `column = 'text'`.
fn equal(column: &str, text: &str) -> Result<ShowFilter, SqlError> {
    let text = text.replace('\\', "\\\\").replace('\'', "''");
    let condition = super::parse_expr(&format!("{column} = '{text}'"), &super::ParseOptions::default())?;
    Ok(ShowFilter::Where(Box::new(condition)))
}

fn from(c: &mut Cursor<'_>) -> Result<Option<Name>, SqlError> {
    if c.accept_any(&["FROM", "IN"]).is_some() { c.name().map(Some) } else { Ok(None) }
}

/// Reads `FROM t [FROM db]`.
fn table_from(c: &mut Cursor<'_>) -> Result<Name, SqlError> {
    if c.accept_any(&["FROM", "IN"]).is_none() {
        return Err(c.expected("FROM"));
    }
    let mut table = c.name()?;
    if let Some(database) = from(c)? {
        let object = table.object().to_string();
        table = Name(database.0.into_iter().chain([object]).collect());
    }
    Ok(table)
}

fn kind(c: &mut Cursor<'_>) -> Result<ShowKind, SqlError> {
    if c.peek_words(&["BRIEF", "CREATE", "TABLE"]) {
        return Err(c.unsupported("SHOW BRIEF CREATE TABLE is not supported; SHOW CREATE TABLE shows partitions, too"));
    }
    if c.accept(&["COUNT"]) {
        for token in [Token::LParen, Token::Mul, Token::RParen] {
            c.expect_token(&token)?;
        }
        return match c.accept_any(&["WARNINGS", "ERRORS"]) {
            Some("WARNINGS") => Ok(ShowKind::Warnings { count: true }),
            Some(_) => Ok(ShowKind::Errors { count: true }),
            None => Err(c.expected("WARNINGS or ERRORS")),
        };
    }
    if c.accept_word("CREATE") {
        let global = c.accept(&["GLOBAL", "FUNCTION"]);
        if global || c.accept_word("FUNCTION") {
            let mut function = functions::function(c, global)?;
            if let Some(database) = from(c)? {
                let object = function.name.object().to_string();
                function.name = Name(database.0.into_iter().chain([object]).collect());
            }
            return Ok(ShowKind::CreateFunction(function));
        }
        if c.accept(&["MATERIALIZED", "VIEW"]) {
            let name = c.name()?;
            let table = if c.accept_word("ON") { Some(c.name()?) } else { None };
            return Ok(ShowKind::CreateMaterializedView { name, table });
        }
        return match c.accept_any(&["TABLE", "VIEW", "DATABASE", "SCHEMA", "USER", "CATALOG"]) {
            Some("USER") => access::user(c).map(ShowKind::CreateUser),
            Some("TABLE") => c.name().map(ShowKind::CreateTable),
            Some("CATALOG") => catalogs::name(c).map(ShowKind::CreateCatalog),
            Some("VIEW") => c.name().map(ShowKind::CreateView),
            Some(_) => {
                c.if_not_exists();
                c.name().map(ShowKind::CreateDatabase)
            }
            None => {
                let start = c.index();
                match c.ident() {
                    Ok(_) => {
                        c.seek(start);
                        rest(c, "CREATE")
                    }
                    Err(_) => Err(c.expected("TABLE, VIEW or DATABASE")),
                }
            }
        };
    }
    let hidden = ["COLUMNS", "FIELDS", "INDEX", "INDEXES", "KEYS", "TABLES", "FULL"];
    if c.peek_words(&["EXTENDED"]) && hidden.iter().any(|w| super::cursor::is_word(c.token(c.index() + 1), w)) {
        c.advance();
        c.notes.push("EXTENDED shows what MySQL's engines hide; nothing is hidden so here".to_string());
    }
    let names_more = matches!(c.token(c.index() + 1), Token::Word(_))
        && !["LIKE", "WHERE", "ORDER", "LIMIT"].iter().any(|word| super::cursor::is_word(c.token(c.index() + 1), word));
    if c.peek_words(&["FRONTENDS"]) && names_more {
        return rest(c, "");
    }
    if c.peek_words(&["GLOBAL", "FULL", "FUNCTIONS"]) || c.peek_words(&["GLOBAL", "FUNCTIONS"]) {
        c.accept_word("GLOBAL");
        let full = c.accept_word("FULL");
        c.accept_word("FUNCTIONS");
        return Ok(ShowKind::Functions { full, scope: FunctionScope::Global, from: None });
    }
    for (words, kind) in [
        (&["STORAGE", "ENGINES"][..], ShowKind::Engines),
        (&["ENGINES"], ShowKind::Engines),
        (&["CHARSET"], ShowKind::Charset),
        (&["CHARACTER", "SET"], ShowKind::Charset),
        (&["CHAR", "SET"], ShowKind::Charset),
        (&["COLLATION"], ShowKind::Collation),
        (&["PLUGINS"], ShowKind::Plugins),
        (&["PRIVILEGES"], ShowKind::Privileges),
        (&["ROLES"], ShowKind::Roles),
        (&["CATALOGS"], ShowKind::Catalogs),
        (&["STORAGE", "VOLUMES"], ShowKind::Volumes),
        (&["BACKENDS"], ShowKind::Backends),
        (&["FRONTENDS"], ShowKind::Frontends),
        (&["WARNINGS"], ShowKind::Warnings { count: false }),
        (&["ERRORS"], ShowKind::Errors { count: false }),
        (&["PROCEDURE", "STATUS"], ShowKind::ProcedureStatus),
        (&["FUNCTION", "STATUS"], ShowKind::ProcedureStatus),
        (&["PACKAGE", "STATUS"], ShowKind::ProcedureStatus),
        (&["PACKAGE", "BODY", "STATUS"], ShowKind::ProcedureStatus),
        (&["LIBRARY", "STATUS"], ShowKind::ProcedureStatus),
        (&["GLOBAL", "VARIABLES"], ShowKind::Variables(Scope::Global)),
        (&["SESSION", "VARIABLES"], ShowKind::Variables(Scope::Session)),
        (&["LOCAL", "VARIABLES"], ShowKind::Variables(Scope::Session)),
        (&["VARIABLES"], ShowKind::Variables(Scope::Session)),
        (&["VERBOSE", "VARIABLES"], ShowKind::VerboseVariables),
        (&["GLOBAL", "STATUS"], ShowKind::Status(Scope::Global)),
        (&["SESSION", "STATUS"], ShowKind::Status(Scope::Session)),
        (&["LOCAL", "STATUS"], ShowKind::Status(Scope::Session)),
        (&["STATUS"], ShowKind::Status(Scope::Session)),
        (&["FULL", "PROCESSLIST"], ShowKind::Processlist { full: true }),
        (&["PROCESSLIST"], ShowKind::Processlist { full: false }),
    ] {
        if c.accept(words) {
            return Ok(kind);
        }
    }
    if c.peek_words(&["CATALOG"]) && !c.peek_words(&["CATALOG", "RECYCLE"]) {
        c.advance();
        return catalogs::name(c).map(ShowKind::Catalog);
    }
    if c.accept_any(&["DATABASES", "SCHEMAS"]).is_some() {
        return Ok(ShowKind::Databases { from: from(c)? });
    }
    let full = c.peek_words(&["FULL"])
        && ["TABLES", "COLUMNS", "FIELDS", "FUNCTIONS", "BUILTIN", "VIEWS", "TRIGGERS"]
            .iter()
            .any(|w| super::cursor::is_word(c.token(c.index() + 1), w));
    if full {
        c.advance();
    }
    if c.accept_word("TABLES") {
        return Ok(ShowKind::Tables { full, from: from(c)? });
    }
    if c.accept_any(&["COLUMNS", "FIELDS"]).is_some() {
        return Ok(ShowKind::Columns { full, table: table_from(c)? });
    }
    if c.accept_word("VIEW") {
        return table_from(c).map(ShowKind::ViewsOver);
    }
    if c.accept_word("VIEWS") {
        return Ok(ShowKind::Views { from: from(c)? });
    }
    if c.accept_word("FUNCTIONS") {
        return Ok(ShowKind::Functions { full, scope: FunctionScope::All, from: from(c)? });
    }
    if c.accept(&["BUILTIN", "FUNCTIONS"]) {
        return Ok(ShowKind::Functions { full, scope: FunctionScope::Builtin, from: from(c)? });
    }
    if c.accept(&["TABLE", "STATUS"]) {
        return Ok(ShowKind::TableStatus { from: from(c)? });
    }
    if c.accept(&["OPEN", "TABLES"]) {
        from(c)?;
        return Ok(ShowKind::OpenTables);
    }
    if !c.peek_words(&["INDEX", "STATS"]) && c.accept_any(&["INDEX", "INDEXES", "KEYS", "KEY"]).is_some() {
        return table_from(c).map(ShowKind::Index);
    }
    let temporary = c.accept(&["TEMPORARY", "PARTITIONS"]);
    if temporary || c.accept_word("PARTITIONS") {
        let _ = c.accept_any(&["FROM", "IN"]);
        let table = c.name()?;
        let spec = if c.accept_word("PARTITION") { c.partition_spec()? } else { Vec::new() };
        return Ok(ShowKind::Partitions { table, temporary, spec });
    }
    if c.accept_word("TRIGGERS") {
        from(c)?;
        return Ok(ShowKind::Triggers);
    }
    if c.accept_word("EVENTS") {
        from(c)?;
        return Ok(ShowKind::Events);
    }
    if c.accept(&["ALL", "GRANTS"]) {
        return Ok(ShowKind::Grants { user: None, all: true });
    }
    if c.peek_words(&["AUTHENTICATION"]) || c.peek_words(&["ALL", "AUTHENTICATION"]) {
        let all = c.accept_word("ALL");
        c.advance();
        let user = if c.accept_word("FOR") { Some(access::user(c)?) } else { None };
        return Ok(ShowKind::Authentication { user, all });
    }
    if c.accept_word("GRANTS") {
        if c.accept(&["FOR", "ROLE"]) {
            return access::role(c).map(ShowKind::RoleGrants);
        }
        if c.peek_words(&["FOR", "EXTERNAL", "GROUP"]) {
            return Err(c.unsupported("groups of users are not known here; SHOW GRANTS FOR a user or a role"));
        }
        let mut user = None;
        if c.accept_word("FOR") {
            // StarRocks writes USER; it may also be the name of a user.
            if c.peek_words(&["USER"]) && !matches!(c.token(c.index() + 1), Token::EOF | Token::AtSign) {
                c.advance();
            }
            user = Some(access::user(c)?);
        }
        return Ok(ShowKind::Grants { user, all: false });
    }
    if c.accept(&["ALL", "PROPERTIES"]) {
        return Ok(ShowKind::Properties { user: None, all: true });
    }
    if c.accept_any(&["PROPERTY", "PROPERTIES"]).is_some() {
        let user = if c.accept_word("FOR") { Some(access::role(c)?) } else { None };
        return Ok(ShowKind::Properties { user, all: false });
    }
    if c.accept_word("PROFILES") {
        return Ok(ShowKind::Profile { id: None, list: true, loads: false });
    }
    if c.peek_words(&["PROFILE"])
        && !matches!(
            c.token(c.index() + 1),
            Token::SingleQuotedString(_) | Token::DoubleQuotedString(_) | Token::Number(..)
        )
    {
        c.advance();
        return steps(c);
    }
    let loads = c.accept(&["LOAD", "PROFILE"]);
    if loads || c.accept(&["QUERY", "PROFILE"]) || c.accept_word("PROFILE") {
        let id = match c.peek().clone() {
            _ if c.at_string() => Some(c.string()?),
            Token::Number(n, _) => {
                c.advance();
                Some(n)
            }
            _ => None,
        };
        return Ok(ShowKind::Profile { id, list: false, loads });
    }
    if let Some(kind) = native(c)? {
        return Ok(kind);
    }
    for known in OTHER {
        let words: Vec<&str> = known.split(' ').collect();
        if c.peek_words(&words) {
            return rest(c, "");
        }
    }
    let mut error = c.expected("what to show");
    if let Token::Word(w) = c.peek()
        && let Some(near) = near::closest(&w.value, KNOWN.iter().copied())
    {
        error.message.push_str(&format!("; did you mean SHOW {near}?"));
    }
    Err(error)
}

/// Reads the rest of PROFILE in MySQL's form: `[type, ...] [FOR QUERY n]`. The types have no effect, because they are
/// not measured.
fn steps(c: &mut Cursor<'_>) -> Result<ShowKind, SqlError> {
    const TYPES: [&[&str]; 9] = [
        &["ALL"],
        &["BLOCK", "IO"],
        &["CONTEXT", "SWITCHES"],
        &["CPU"],
        &["IPC"],
        &["MEMORY"],
        &["PAGE", "FAULTS"],
        &["SOURCE"],
        &["SWAPS"],
    ];
    while let Some(words) = TYPES.iter().find(|words| c.accept(words)) {
        c.notes.push(format!("SHOW PROFILE {}: only durations are measured", words.join(" ")));
        if !c.accept_token(&Token::Comma) {
            break;
        }
    }
    let query = if c.accept(&["FOR", "QUERY"]) { Some(c.uint()?) } else { None };
    Ok(ShowKind::ProfileSteps(query))
}

/// Reads the forms about native tables and about loads into them.
fn native(c: &mut Cursor<'_>) -> Result<Option<ShowKind>, SqlError> {
    let partitions = |c: &mut Cursor<'_>| Ok(partitions::names(c)?.map_or_else(Vec::new, |(_, names)| names));
    let in_words = [
        &["TABLETS", "BELONG"][..],
        &["TABLET", "DIAGNOSIS"],
        &["TABLET", "STORAGE"],
        &["DATA", "TYPES"],
        &["DATA", "DISTRIBUTION"],
        &["TABLE", "CREATION"],
    ];
    if in_words.iter().any(|words| c.peek_words(words)) {
        return rest(c, "").map(Some);
    }
    Ok(Some(if c.accept_any(&["TABLETS", "TABLET"]).is_some() {
        match c.peek() {
            Token::Number(..) => ShowKind::Tablet(c.uint()?),
            _ => ShowKind::Tablets { table: table_from(c)?, partitions: partitions(c)? },
        }
    } else if c.accept(&["DATA", "SKEW"]) {
        ShowKind::DataSkew { table: table_from(c)?, partitions: partitions(c)? }
    } else if c.accept_word("DATA") {
        let all = c.accept_word("ALL");
        let table = from(c)?;
        // Doris: with the rollups of the table, of which there are none.
        let all = c.accept_word("ALL") || all;
        ShowKind::Data { table, all }
    } else if c.accept(&["LOAD", "WARNINGS"]) {
        let from = from(c)?;
        let url = if c.accept_word("ON") { Some(c.string()?) } else { None };
        ShowKind::LoadWarnings { from, url }
    } else if c.accept(&["STREAM", "LOAD"]) || c.accept(&["ALL", "STREAM", "LOAD"]) {
        c.accept_word("ALL");
        ShowKind::Load { stream: true, from: from(c)? }
    } else if !c.peek_words(&["LOAD", "PROFILE"]) && c.accept_word("LOAD") {
        c.accept_word("ALL");
        ShowKind::Load { stream: false, from: from(c)? }
    } else if c.accept_word("TRANSACTION") {
        let from = from(c)?;
        let id = if c.accept(&["WHERE", "ID"]) {
            c.expect_token(&Token::Eq)?;
            Some(c.uint()?)
        } else {
            None
        };
        ShowKind::Transaction { from, id }
    } else if c.accept(&["TEMPORARY", "TABLES"]) {
        ShowKind::TemporaryTables(from(c)?)
    } else if c.peek_words(&["ALTER", "MATERIALIZED", "VIEW"]) {
        return rest(c, "").map(Some);
    } else if c.accept_word("CONSTRAINTS") {
        ShowKind::Constraints(table_from(c)?)
    } else if c.peek_words(&["PARTITION"]) && matches!(c.token(c.index() + 1), Token::Number(..)) {
        c.advance();
        ShowKind::Partition(c.uint()?)
    } else if c.accept(&["ALTER", "TABLE"]) {
        let job = if c.accept(&["MATERIALIZED", "VIEW"]) {
            "MATERIALIZED VIEW"
        } else {
            match c.accept_any(&["COLUMN", "ROLLUP", "OPTIMIZE"]) {
                Some(job) => job,
                None => return Err(c.expected("COLUMN or ROLLUP")),
            }
        };
        ShowKind::AlterTable { job: job.into(), from: from(c)? }
    } else if c.accept(&["TABLE", "STATS"]) {
        if matches!(c.peek(), Token::Number(..)) {
            return Err(c.unsupported("SHOW TABLE STATS by a number is not supported; write the table's name"));
        }
        let table = c.name()?;
        if *c.peek() == Token::LParen || partitions::names(c)?.is_some() {
            return Err(c.unsupported(
                "SHOW TABLE STATS of partitions or columns is not supported; there is SHOW COLUMN STATS",
            ));
        }
        ShowKind::TableStats(table)
    } else if c.accept(&["COLUMN", "STATS"]) || c.accept(&["COLUMN", "CACHED", "STATS"]) {
        let table = c.name()?;
        let columns = if *c.peek() == Token::LParen { c.ident_list()? } else { Vec::new() };
        if partitions::names(c)?.is_some() {
            return Err(c.unsupported("SHOW COLUMN STATS of partitions is not supported: they are of the whole table"));
        }
        ShowKind::ColumnStats { table, columns }
    } else if c.accept(&["DYNAMIC", "PARTITION", "TABLES"]) {
        ShowKind::DynamicPartitions(from(c)?)
    } else if c.peek_words(&["REPLICA", "STATUS"]) && !c.peek_words(&["REPLICA", "STATUS", "FROM"]) {
        // MySQL's form, which is about replication.
        return rest(c, "").map(Some);
    } else if c.accept(&["REPLICA", "STATUS"]) {
        ShowKind::Replicas { distribution: false, table: table_from(c)?, partitions: partitions(c)? }
    } else if c.accept(&["REPLICA", "DISTRIBUTION"]) {
        ShowKind::Replicas { distribution: true, table: table_from(c)?, partitions: partitions(c)? }
    } else if c.accept_word("PROC") {
        ShowKind::Proc(c.string()?.trim_matches('/').to_string())
    } else if c.accept(&["FRONTEND", "CONFIG"]) {
        ShowKind::Config { backend: false }
    } else if c.accept(&["BACKEND", "CONFIG"]) {
        ShowKind::Config { backend: true }
    } else {
        return Ok(None);
    }))
}

/// Reads everything up to LIKE, WHERE, LIMIT or the end; words without quotes in upper case, except names.
fn rest(c: &mut Cursor<'_>, prefix: &str) -> Result<ShowKind, SqlError> {
    let mut out = prefix.to_string();
    // `CREATE kind name`.
    let creates = OTHER.iter().filter(|form| form.starts_with("CREATE "));
    let forms = creates.map(|form| form.split(' ').collect::<Vec<_>>());
    let mut names = forms.filter(|words| c.peek_words(words)).map(|words| c.index() + words.len()).max();
    while !c.at_end() && !["LIKE", "WHERE", "ORDER", "LIMIT"].iter().any(|w| c.peek_words(&[w])) {
        if !out.is_empty() && !matches!(c.peek(), Token::Period) && !out.ends_with('.') {
            out.push(' ');
        }
        match c.peek() {
            Token::Word(Word { value, quote_style: None, .. }) if names.is_none_or(|names| c.index() < names) => {
                out.push_str(&value.to_ascii_uppercase());
                if ["FROM", "IN", "FOR", "ON"].iter().any(|w| c.peek_words(&[w])) {
                    names = Some(c.index() + 1);
                }
            }
            token => out.push_str(&token.to_string()),
        }
        c.advance();
    }
    Ok(ShowKind::Other(out))
}

/// Reads `'u'@'h'`, `u@h`, `CURRENT_USER()`, and returns the text as written.
pub(super) fn user(c: &mut Cursor<'_>) -> Result<String, SqlError> {
    let start = c.index();
    if c.accept_word("CURRENT_USER") {
        if c.accept_token(&Token::LParen) {
            c.expect_token(&Token::RParen)?;
        }
        return Ok("CURRENT_USER".into());
    }
    // The tokenizer joins `@` with the word before it and with a word after it; between quotes it is a token of its
    // own.
    let sticks = matches!(c.peek(), Token::Word(Word { value, quote_style: None, .. }) if value.ends_with('@'));
    if c.at_string() {
        c.string()?;
    } else {
        c.ident()?;
    }
    let at = sticks || c.accept_token(&Token::AtSign);
    // Doris writes names of hosts in brackets; an opening bracket is joined with the `@`, too.
    let is_looked_up = match c.peek() {
        Token::Word(Word { value, quote_style: None, .. }) => value.starts_with("@(") || value.starts_with("@["),
        other => at && matches!(other, Token::LParen | Token::LBracket),
    };
    if is_looked_up {
        return Err(c.unsupported(
            "host names are not looked up; name an address, or a pattern of addresses such as '10.%', without brackets",
        ));
    }
    if at {
        if c.at_string() {
            c.string()?;
        } else {
            c.ident()?;
        }
    } else if let Token::Word(Word { value, quote_style: None, .. }) = c.peek()
        && value.starts_with('@')
    {
        c.advance();
    }
    Ok(c.text_from(start).to_string())
}

/// Reads EXPLAIN, DESCRIBE and DESC: a statement's plan, or a table's columns.
pub(super) fn explain(c: &mut Cursor<'_>) -> Result<Statement, SqlError> {
    let explain_word = c.peek_words(&["EXPLAIN"]);
    c.advance();
    if !explain_word && let Some(volume) = super::volume::describe(c)? {
        return Ok(volume);
    }
    let (mut analyze, mut verbose, mut detail) = (false, false, DescribeDetail::Columns);
    let mut format = None;
    loop {
        match c.accept_any(&[
            "ANALYZE",
            "VERBOSE",
            "EXTENDED",
            "FORMATTED",
            "LOGICAL",
            "PHYSICAL",
            "DISTRIBUTED",
            "SHAPE",
            "MEMO",
            "PARSED",
            "ANALYZED",
            "REWRITTEN",
            "OPTIMIZED",
            "COSTS",
            "SCHEDULER",
            "TREE",
            "GRAPH",
            "ALL",
            "PLAN",
            "PROCESS",
            "CURRENT",
            "DUMP",
            "PARTITIONS",
        ]) {
            // A table may have one of these names: then nothing follows it.
            Some(_) if !explain_word && c.at_end() => {
                c.seek(c.index() - 1);
                break;
            }
            Some("ANALYZE") => analyze = true,
            Some("VERBOSE") => verbose = true,
            Some("EXTENDED" | "FORMATTED") => (detail, verbose) = (DescribeDetail::Comments, explain_word),
            Some("ALL") => (detail, verbose) = (DescribeDetail::Indexes, explain_word),
            // MySQL's EXPLAIN always shows partitions, and so does dipper's.
            Some("PLAN" | "PROCESS" | "CURRENT" | "PARTITIONS") => {}
            Some(kind) => format = Some(kind.to_string()),
            None if c.accept_word("FORMAT") => {
                c.expect_token(&Token::Eq)?;
                let name = if c.at_string() { c.string()? } else { c.ident()? };
                format = Some(name.to_ascii_uppercase());
            }
            None => break,
        }
    }
    let explains = ["SELECT", "WITH", "VALUES", "INSERT", "REPLACE", "UPDATE", "DELETE", "CREATE", "COPY", "DO"]
        .iter()
        .any(|w| c.peek_words(&[w]))
        || *c.peek() == Token::LParen
        || c.peek_words(&["MERGE", "INTO"])
        || c.peek_words(&["TABLE"]) && explain_word;
    if explains {
        // Doris: DESC of a query shows the plan like EXPLAIN.
        let statement = words::statement(c)?;
        return Ok(Statement::Explain { analyze, verbose, format, statement: Box::new(statement) });
    }
    if c.peek_words(&["FOR", "CONNECTION"]) {
        return Err(c.unsupported(super::refused::CONNECTION));
    }
    if analyze || format.is_some() {
        return Err(c.expected("a query"));
    }
    for (words, message) in [
        (&["DICTIONARY"][..], "there are no dictionaries"),
        (&["PIPE"], "there are no pipes"),
        (&["FAILOVER", "GROUP"], "there are no failover groups"),
    ] {
        if c.peek_words(words) && matches!(c.token(c.index() + words.len()), Token::Word(_)) {
            return Err(c.unsupported(message));
        }
    }
    c.accept_word("TABLE");
    if c.accept_word("FUNCTION") || (matches!(c.peek(), Token::Word(_)) && *c.token(c.index() + 1) == Token::LParen) {
        let start = c.index();
        while !c.at_end() {
            c.advance();
        }
        let sql = format!("SELECT * FROM {}", c.text_from(start));
        return Ok(Statement::Describe { target: DescribeTarget::Query(c.subordinate_query(&sql)?), detail });
    }
    if matches!(c.peek(), Token::SingleQuotedString(_) | Token::DoubleQuotedString(_)) {
        let start = c.index();
        c.advance();
        let sql = format!("SELECT * FROM {}", c.text_from(start));
        return Ok(Statement::Describe { target: DescribeTarget::Query(c.subordinate_query(&sql)?), detail });
    }
    let name = c.name()?;
    if c.accept_word("ALL") {
        detail = DescribeDetail::Indexes;
    }
    // All partitions have the same columns.
    if partitions::names(c)?.is_some() {
        c.expect_end()?;
    }
    let column = if c.at_end() {
        None
    } else if c.at_string() {
        Some(c.string()?)
    } else {
        Some(c.ident()?)
    };
    Ok(Statement::Describe { target: DescribeTarget::Table { name, column }, detail })
}

/// Reads `HELP 'topic'`.
pub(super) fn help(c: &mut Cursor<'_>) -> Result<Statement, SqlError> {
    c.expect(&["HELP"])?;
    if c.at_string() {
        return c.string().map(Statement::Help);
    }
    let start = c.index();
    while !c.at_end() {
        c.advance();
    }
    Ok(Statement::Help(c.text_from(start).to_string()))
}
