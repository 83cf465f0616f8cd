//! Statements about objects that dipper does not have. They are refused by name, so that they are not taken for typing
//! mistakes. Dropping such an object IF EXISTS succeeds, because none exists.

use sqlparser::tokenizer::Token;

use super::cursor::Cursor;
use crate::error::SqlError;
use crate::statement::Statement;

/// Kinds of objects that dipper does not have, by the words of their statements; of two that begin alike the longer one
/// comes first.
const KINDS: &[&[&str]] = &[
    &["STORAGE", "POLICY"],
    &["STORAGE", "VAULT"],
    &["ROW", "POLICY"],
    &["ROW", "ACCESS", "POLICY"],
    &["MASKING", "POLICY"],
    &["PASSWORD", "POLICY"],
    &["ROLE", "MAPPING"],
    &["SECURITY", "INTEGRATION"],
    &["GROUP", "PROVIDER"],
    &["FAILOVER", "GROUP"],
    &["DATACACHE", "RULE"],
    &["CLUSTER", "SNAPSHOT"],
    &["PLAN", "ADVISOR"],
    &["TUNESPACE"],
    &["BASELINE"],
    &["GLOBAL", "BASELINE"],
    &["WORKLOAD", "GROUP"],
    &["WORKLOAD", "POLICY"],
    &["RESOURCE", "GROUP"],
    &["RESOURCE"],
    &["EXTERNAL", "RESOURCE"],
    &["COLOCATE", "GROUP"],
    &["COMPUTE", "GROUP"],
    &["ROUTINE", "LOAD"],
    &["SYNC", "JOB"],
    &["JOB"],
    &["TASK"],
    &["PIPE"],
    &["SQL_BLOCK_RULE"],
    &["ENCRYPTKEY"],
    &["DICTIONARY"],
    &["STAGE"],
    &["FILE"],
    &["READ", "ONLY", "REPOSITORY"],
    &["REPOSITORY"],
    &["WAREHOUSE"],
    &["GLOBAL", "FUNCTION"],
    &["GLOBAL", "AGGREGATE", "FUNCTION"],
    &["GLOBAL", "TABLES", "FUNCTION"],
    &["SESSION", "FUNCTION"],
    &["SESSION", "ALIAS", "FUNCTION"],
    &["LOCAL", "FUNCTION"],
    &["LOCAL", "ALIAS", "FUNCTION"],
    &["AGGREGATE", "FUNCTION"],
    &["TABLES", "FUNCTION"],
    &["FUNCTION"],
    &["PROCEDURE"],
    &["PROC"],
    &["TRIGGER"],
    &["EVENT"],
    &["SERVER"],
    &["TABLESPACE"],
    &["UNDO", "TABLESPACE"],
    &["LOGFILE", "GROUP"],
    &["SPATIAL", "REFERENCE", "SYSTEM"],
    &["INVERTED", "INDEX", "ANALYZER"],
    &["INVERTED", "INDEX", "NORMALIZER"],
    &["INVERTED", "INDEX", "TOKENIZER"],
    &["INVERTED", "INDEX", "TOKEN_FILTER"],
    &["INVERTED", "INDEX", "CHAR_FILTER"],
];

/// The first words of a statement, and the reason why it is refused.
type Known = (&'static [&'static str], &'static str);

/// The refused statements by their first words.
const STATEMENTS: &[Known] = &[
    (&["EXPORT"], "EXPORT is not supported; use SELECT ... INTO OUTFILE or COPY ... TO"),
    (&["CALL"], "CALL is not supported: there are no procedures"),
    (&["HANDLER"], "HANDLER is not supported"),
    (&["SUBMIT"], "SUBMIT TASK is not supported"),
    (&["PAUSE"], "there are no jobs to pause"),
    (&["RESUME"], "there are no jobs to resume"),
    (&["STOP", "SLAVE"], REPLICATION),
    (&["STOP", "REPLICA"], REPLICATION),
    (&["STOP", "ALL", "SLAVES"], REPLICATION),
    (&["STOP", "GROUP_REPLICATION"], REPLICATION),
    (&["STOP"], "there are no jobs to stop"),
    (&["START", "SLAVE"], REPLICATION),
    (&["START", "REPLICA"], REPLICATION),
    (&["START", "ALL", "SLAVES"], REPLICATION),
    (&["START", "GROUP_REPLICATION"], REPLICATION),
    (&["CHANGE", "MASTER"], REPLICATION),
    (&["CHANGE", "REPLICATION"], REPLICATION),
    (&["RESET", "SLAVE"], REPLICATION),
    (&["RESET", "REPLICA"], REPLICATION),
    (&["RESET", "MASTER"], BINLOG),
    (&["RESET", "BINARY", "LOGS"], BINLOG),
    (&["RESET", "QUERY", "CACHE"], "RESET QUERY CACHE is not supported: results of queries are not kept"),
    (&["RESET", "PERSIST"], "RESET PERSIST is not supported; UNSET GLOBAL VARIABLE name"),
    (&["PURGE", "BINARY", "LOGS"], BINLOG),
    (&["PURGE", "MASTER", "LOGS"], BINLOG),
    (&["BINLOG"], BINLOG),
    (&["SHUTDOWN"], "SHUTDOWN is not supported; end the process of the server with SIGTERM"),
    (&["RESTART"], "RESTART is not supported; end the process of the server with SIGTERM and start it again"),
    (&["CLONE"], "CLONE is not supported; `dipper backup` and `dipper restore` are commands"),
    (&["CACHE", "INDEX"], "CACHE INDEX is not supported: indexes are in no cache of their own"),
    (&["LOAD", "INDEX"], "LOAD INDEX is not supported; CACHE SELECT columns FROM table fills the data cache"),
    (&["LOAD", "XML"], "LOAD XML is not supported; LOAD DATA and Stream Load read CSV and JSON"),
    (&["IMPORT", "TABLE"], "IMPORT TABLE is not supported; `dipper restore` is a command"),
    (&["SIGNAL"], PROCEDURES),
    (&["RESIGNAL"], PROCEDURES),
    (&["GET", "DIAGNOSTICS"], DIAGNOSTICS),
    (&["GET", "CURRENT", "DIAGNOSTICS"], DIAGNOSTICS),
    (&["GET", "STACKED", "DIAGNOSTICS"], DIAGNOSTICS),
    (
        &["ALTER", "INSTANCE"],
        "ALTER INSTANCE is not supported; start the server again with other keys and certificates",
    ),
    (&["SET", "RESOURCE", "GROUP"], "SET RESOURCE GROUP is not supported: there are no resource groups"),
    (&["GRANT", "PROXY"], PROXY),
    (&["REVOKE", "PROXY"], PROXY),
    (&["SHOW", "FUNCTION", "CODE"], "SHOW FUNCTION CODE is not supported: there are no functions of statements"),
    (&["SHOW", "PROCEDURE", "CODE"], "SHOW PROCEDURE CODE is not supported: there are no procedures"),
    (&["EXPLAIN", "FOR", "CONNECTION"], CONNECTION),
    (&["DESCRIBE", "FOR", "CONNECTION"], CONNECTION),
    (&["DESC", "FOR", "CONNECTION"], CONNECTION),
    (&["XA"], "XA transactions are not supported"),
    (&["TRACE"], "TRACE is not supported; EXPLAIN ANALYZE runs a query and shows where its time went"),
    (&["LOCK", "INSTANCE"], "LOCK INSTANCE is not supported; `dipper backup` holds one version of each table"),
    (&["UNLOCK", "INSTANCE"], "LOCK INSTANCE is not supported; `dipper backup` holds one version of each table"),
    (&["INSTALL"], "there are no plugins"),
    (&["UNINSTALL"], "there are no plugins"),
    (&["WARM"], "WARM UP is not supported; CACHE SELECT columns FROM table fills the data cache"),
    (&["PLAN", "REPLAYER"], "PLAN REPLAYER is not supported; EXPLAIN shows a plan"),
    (&["REFRESH", "LDAP"], "LDAP is not supported"),
    (
        &["ALTER", "MATERIALIZED", "VIEW"],
        "ALTER MATERIALIZED VIEW is not supported: it is a view, which nothing refreshes",
    ),
    (&["REFRESH", "DICTIONARY"], "REFRESH DICTIONARY is not supported: there are no dictionaries"),
    (
        &["REFRESH", "CONNECTIONS"],
        "REFRESH CONNECTIONS is not supported: a connection keeps the variables it began with",
    ),
    (&["REFRESH", "ALL", "ROLE"], "REFRESH ALL ROLE MAPPINGS is not supported: there are none"),
    (&["EXPLAIN", "REFRESH", "MATERIALIZED"], "a materialized view is a view, which nothing refreshes"),
    (&["CANCEL", "ALTER", "MATERIALIZED"], "a materialized view is a view, which nothing changes"),
    (&["CANCEL", "MATERIALIZED", "VIEW"], "a materialized view is a view, which nothing refreshes"),
    (&["CANCEL", "REFRESH"], "a materialized view is a view, which nothing refreshes"),
    (&["CANCEL", "TASK"], "there are no jobs whose tasks could be cancelled"),
    (&["CANCEL", "EXPORT"], "there are no exports to cancel: EXPORT is not supported"),
    (&["CANCEL", "WARM", "UP"], "there is no WARM UP job to cancel"),
    (&["CANCEL", "DECOMMISSION"], "there are no other nodes: every process works by itself on the same directory"),
    (&["CANCEL", "BACKUP"], "there is no BACKUP job to cancel; `dipper backup` is a command"),
    (&["CANCEL", "RESTORE"], "there is no RESTORE job to cancel; `dipper restore` is a command"),
    (&["CANCEL", "BUILD", "INDEX"], "there is no job to cancel: BUILD INDEX is over when it returns"),
    (&["CANCEL", "COMPACTION"], "CANCEL COMPACTION is not supported; ADMIN COMPACT TABLE ends with its connection"),
    (&["CLEAN", "QUERY", "STATS"], "CLEAN QUERY STATS is not supported: none are kept"),
    (&["CLEAN", "ALL", "QUERY", "STATS"], "CLEAN QUERY STATS is not supported: none are kept"),
    (&["CLEAN", "TEMPORARY"], "CLEAN TEMPORARY TABLE is not supported: temporary tables end with their session"),
    (&["CLEAR", "DATACACHE"], "CLEAR DATACACHE RULES is not supported: there are no rules"),
    (&["SUSPEND"], "there is nothing to suspend: there are no warehouses"),
    (&["TRANSLATE"], "TRANSLATE is not supported"),
    (&["TRUNCATE", "TUNESPACE"], "TRUNCATE TUNESPACE is not supported: there are none"),
    (&["TRUNCATE", "PLAN", "ADVISOR"], "TRUNCATE PLAN ADVISOR is not supported"),
    (&["ENABLE", "BASELINE"], "there are no baselines of plans"),
    (&["DISABLE", "BASELINE"], "there are no baselines of plans"),
    (&["ADD", "SQLBLACKLIST"], BLACKLIST),
    (&["ADD", "SQL", "DIGEST"], BLACKLIST),
    (&["ADD", "BACKEND", "BLACKLIST"], NODES),
    (&["ADD", "COMPUTE", "NODE"], NODES),
    (&["DELETE", "SQLBLACKLIST"], BLACKLIST),
    (&["DELETE", "SQL", "DIGEST"], BLACKLIST),
    (&["DELETE", "BACKEND", "BLACKLIST"], NODES),
    (&["DELETE", "COMPUTE", "NODE"], NODES),
    (&["EXECUTE", "AS"], "EXECUTE AS is not supported: a session is of the user who opened it"),
    (&["BACKUP", "DATABASE"], "BACKUP is not supported; `dipper backup` is a command"),
    (&["BACKUP", "ALL"], "BACKUP is not supported; `dipper backup` is a command"),
    (&["BACKUP", "EXTERNAL"], "BACKUP is not supported; `dipper backup` is a command"),
    (&["RESTORE", "TABLE"], "RESTORE is not supported; `dipper restore` is a command"),
    (&["CREATE", "ANALYZE"], "there are no statistics jobs to create: loads keep statistics up to date"),
    (&["DROP", "ALL", "ANALYZE"], "there are no statistics jobs to drop: loads keep statistics up to date"),
    (&["DROP", "MULTIPLE", "COLUMNS"], "statistics are of one column each; DROP STATS table"),
    (&["KILL", "ALL", "PENDING"], "there are no statistics jobs to kill: loads keep statistics up to date"),
    (&["KILL", "ANALYZE"], "there are no statistics jobs to kill: loads keep statistics up to date"),
    (&["DROP", "ANALYZE"], "there are no statistics jobs to drop: loads keep statistics up to date"),
    (&["DROP", "CACHED", "STATS"], "DROP CACHED STATS is not needed: statistics are read with the table's state"),
    (&["DROP", "CATALOG", "RECYCLE", "BIN"], "there is no recycle bin: what is dropped is gone"),
    (&["UNSET", "DEFAULT", "STORAGE", "VAULT"], "there are no storage vaults; SET name AS DEFAULT STORAGE VOLUME"),
    (&["SET", "LDAP_ADMIN_PASSWORD"], "LDAP is not supported"),
    (&["ALTER", "LOAD"], "ALTER LOAD is not supported: there are no jobs that load"),
    (&["ALTER", "SYSTEM"], "ALTER SYSTEM is not supported: there are no other nodes"),
    (&["CREATE", "SYNC"], "CREATE SYNC is not supported: binlogs of MySQL are not read"),
    (&["BACKUP", "STAGE"], "BACKUP STAGE is not supported; `dipper backup` is a command, also while the server runs"),
    (&["CREATE", "FULLTEXT"], "CREATE FULLTEXT INDEX is not supported; CREATE INDEX ... USING INVERTED"),
    (&["CREATE", "SPATIAL", "INDEX"], "CREATE SPATIAL INDEX is not supported"),
    (&["CREATE", "BRANCH"], "branches and tags are not supported"),
];

const REPLICATION: &str = "replication of MySQL is not supported: every process works on the same directory";
const BINLOG: &str = "there are no binary logs";
const PROCEDURES: &str = "SIGNAL and RESIGNAL are not supported: there are no procedures";
const DIAGNOSTICS: &str = "GET DIAGNOSTICS is not supported; SHOW WARNINGS tells what happened";
const PROXY: &str = "the privilege PROXY is not supported; GRANT role TO user";
/// Why the plan of another connection's statement is not shown.
pub(super) const CONNECTION: &str =
    "EXPLAIN FOR CONNECTION is not supported; SHOW PROCESSLIST has the statement, which EXPLAIN shows the plan of";
const BLACKLIST: &str = "lists of statements that may not run are not supported; take the privilege away";
const NODES: &str = "there are no other nodes: every process works by itself on the same directory";

/// The verbs of statements about kinds of objects.
const VERBS: [&str; 4] = ["CREATE", "ALTER", "DROP", "REPLACE"];

/// Returns the first words of the statements of [`STATEMENTS`] with the reason why each is refused.
pub(super) fn statements() -> impl Iterator<Item = (String, &'static str)> {
    STATEMENTS.iter().map(|(words, reason)| (words.join(" "), *reason))
}

/// Returns the kinds of objects that dipper does not have.
pub(super) fn kinds() -> impl Iterator<Item = String> {
    KINDS.iter().map(|words| words.join(" "))
}

/// Reads a statement that is one of those here: returns the statement that does nothing, or the refusal. `None` for all
/// others.
pub(super) fn statement(c: &mut Cursor<'_>) -> Option<Result<Statement, SqlError>> {
    // XA RECOVER is answered by an empty list, because there are no distributed transactions.
    if c.peek_words(&["XA", "RECOVER"]) {
        return None;
    }
    if c.peek_words(&["DROP", "FUNCTION"]) || c.peek_words(&["DROP", "GLOBAL", "FUNCTION"]) {
        return None;
    }
    if let Some((_, message)) = STATEMENTS.iter().find(|(words, _)| c.peek_words(words)) {
        return Some(Err(c.unsupported(message)));
    }
    let start = c.index();
    let verb = c.accept_any(&VERBS)?;
    if verb == "CREATE" {
        c.accept(&["OR", "REPLACE"]);
    }
    if matches!(verb, "CREATE" | "ALTER") && definer(c).is_err() {
        c.seek(start);
        return None;
    }
    // `EVENT`, `FILE` and similar words may also be names of tables: CREATE TABLE and DROP TABLE have their own first
    // words.
    let kind = KINDS.iter().find(|words| c.peek_words(words) && !is_replace_into(c, verb) && !is_role(c, words));
    let kind = kind.or((verb == "CREATE" && makes_rows(c)).then_some(&TABLE_FUNCTION));
    let Some(kind) = kind else {
        c.seek(start);
        return None;
    };
    let name = kind.join(" ");
    let at = c.index();
    kind.iter().for_each(|_| c.advance());
    if verb == "DROP" && c.accept(&["IF", "EXISTS"]) && !c.at_end() {
        while !c.at_end() {
            c.advance();
        }
        return Some(Ok(Statement::DropNothing { kind: name }));
    }
    c.seek(at);
    let cure = match *kind {
        ["ROUTINE", ..] => ": there are no jobs that load; Stream Load takes rows over HTTP",
        ["STORAGE", "VAULT"] => "; there are storage volumes: CREATE STORAGE VOLUME",
        [.., "REPOSITORY"] => "; `dipper backup` and `dipper restore` are commands",
        ["FUNCTION"] | ["GLOBAL", "FUNCTION"] => "; CREATE ALIAS FUNCTION gives an expression a name",
        ["ROW", "POLICY"] => "; make a view of the rows and grant that",
        _ => "",
    };
    Some(Err(c.unsupported(&format!("{verb} {name} is not supported{cure}"))))
}

/// Reads MySQL's `DEFINER = user` before the kind of an object, if it is next.
fn definer(c: &mut Cursor<'_>) -> Result<(), SqlError> {
    if c.peek_words(&["DEFINER"]) && *c.token(c.index() + 1) == Token::Eq {
        c.advance();
        c.advance();
        super::show::user(c)?;
    }
    Ok(())
}

/// A function that makes rows, whose words may also name a table: `CREATE TABLE function (...)`.
const TABLE_FUNCTION: &[&str] = &["TABLE", "FUNCTION"];

fn makes_rows(c: &Cursor<'_>) -> bool {
    let next = |ahead: usize| c.token(c.index() + ahead);
    c.peek_words(TABLE_FUNCTION)
        && matches!(next(2), Token::Word(_))
        && matches!(next(3), Token::LParen | Token::Period)
}

/// Whether the words are ROLE and the name of a role, as in `DROP ROLE mapping`.
fn is_role(c: &Cursor<'_>, words: &[&str]) -> bool {
    words == ["ROLE", "MAPPING"] && !matches!(c.token(c.index() + 2), Token::Word(_))
}

/// Whether this is MySQL's INSERT into a table with the name of a kind, as in `REPLACE file VALUES (1)`.
fn is_replace_into(c: &Cursor<'_>, verb: &str) -> bool {
    let is_definition = c.peek_words(&["PROCEDURE"]) || c.peek_words(&["PROC"]);
    verb == "REPLACE" && !(is_definition && matches!(c.token(c.index() + 1), Token::Word(_)))
}
