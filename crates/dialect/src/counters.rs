//! MySQL's counters of statements by kind, as `SHOW STATUS` lists them: `Com_select` and its like, and `Slow_queries`.

use std::collections::HashMap;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};

use sqlparser::ast::SetExpr;

use crate::statement::{Insert, Statement};
use crate::topics::topic_of;

/// The counters, each with the topics of HELP whose statements it counts. INSERT and REPLACE have a topic more, for rows
/// that come from a query.
const COUNTERS: &[(&str, &[&str])] = &[
    ("Com_alter_db", &["ALTER DATABASE"]),
    ("Com_alter_table", &["ALTER TABLE"]),
    ("Com_alter_user", &["ALTER USER"]),
    ("Com_analyze", &["ANALYZE"]),
    ("Com_begin", &["BEGIN"]),
    ("Com_change_db", &["USE"]),
    ("Com_check", &["CHECK TABLE"]),
    ("Com_checksum", &["CHECKSUM TABLE"]),
    ("Com_commit", &["COMMIT"]),
    ("Com_create_db", &["CREATE DATABASE"]),
    ("Com_create_function", &["CREATE ALIAS FUNCTION"]),
    ("Com_create_index", &["CREATE INDEX"]),
    ("Com_create_role", &["CREATE ROLE"]),
    ("Com_create_table", &["CREATE TABLE", "CREATE EXTERNAL TABLE", "CREATE TABLE LIKE"]),
    ("Com_create_user", &["CREATE USER"]),
    ("Com_create_view", &["CREATE VIEW"]),
    ("Com_dealloc_sql", &["DEALLOCATE PREPARE"]),
    ("Com_delete", &["DELETE"]),
    ("Com_do", &["DO"]),
    ("Com_drop_db", &["DROP DATABASE"]),
    ("Com_drop_function", &["DROP FUNCTION"]),
    ("Com_drop_index", &["DROP INDEX"]),
    ("Com_drop_role", &["DROP ROLE"]),
    ("Com_drop_table", &["DROP TABLE"]),
    ("Com_drop_user", &["DROP USER"]),
    ("Com_drop_view", &["DROP VIEW"]),
    ("Com_execute_sql", &["EXECUTE"]),
    ("Com_explain_other", &["EXPLAIN"]),
    ("Com_flush", &["FLUSH"]),
    ("Com_grant", &["GRANT"]),
    ("Com_help", &["HELP"]),
    ("Com_insert", &["INSERT"]),
    ("Com_insert_select", &[INSERT_SELECT]),
    ("Com_kill", &["KILL"]),
    ("Com_load", &["LOAD DATA"]),
    ("Com_lock_tables", &["LOCK TABLES"]),
    ("Com_optimize", &["OPTIMIZE TABLE"]),
    ("Com_prepare_sql", &["PREPARE"]),
    ("Com_release_savepoint", &["RELEASE SAVEPOINT"]),
    ("Com_rename_table", &["RENAME TABLE"]),
    ("Com_rename_user", &["RENAME USER"]),
    ("Com_repair", &["REPAIR TABLE"]),
    ("Com_replace", &[REPLACE]),
    ("Com_replace_select", &[REPLACE_SELECT]),
    ("Com_revoke", &["REVOKE"]),
    ("Com_rollback", &["ROLLBACK"]),
    ("Com_savepoint", &["SAVEPOINT"]),
    (SELECT, &["SELECT", "SELECT INTO OUTFILE"]),
    ("Com_set_option", &["SET", "SET PASSWORD"]),
    ("Com_show_charsets", &["SHOW CHARACTER SET"]),
    ("Com_show_collations", &["SHOW COLLATION"]),
    ("Com_show_create_db", &["SHOW CREATE DATABASE"]),
    ("Com_show_create_table", &["SHOW CREATE TABLE", "SHOW CREATE VIEW"]),
    ("Com_show_create_user", &["SHOW CREATE USER"]),
    ("Com_show_databases", &["SHOW DATABASES"]),
    ("Com_show_errors", &["SHOW ERRORS"]),
    ("Com_show_events", &["SHOW EVENTS"]),
    ("Com_show_fields", &["SHOW COLUMNS", "DESCRIBE"]),
    ("Com_show_grants", &["SHOW GRANTS"]),
    ("Com_show_keys", &["SHOW INDEX"]),
    ("Com_show_open_tables", &["SHOW OPEN TABLES"]),
    ("Com_show_plugins", &["SHOW PLUGINS"]),
    ("Com_show_privileges", &["SHOW PRIVILEGES"]),
    ("Com_show_procedure_status", &["SHOW PROCEDURE STATUS"]),
    ("Com_show_processlist", &["SHOW PROCESSLIST"]),
    ("Com_show_profile", &["SHOW PROFILE"]),
    ("Com_show_status", &["SHOW STATUS"]),
    ("Com_show_storage_engines", &["SHOW ENGINES"]),
    ("Com_show_table_status", &["SHOW TABLE STATUS"]),
    ("Com_show_tables", &["SHOW TABLES"]),
    ("Com_show_triggers", &["SHOW TRIGGERS"]),
    ("Com_show_variables", &["SHOW VARIABLES"]),
    ("Com_show_warnings", &["SHOW WARNINGS"]),
    ("Com_truncate", &["TRUNCATE TABLE"]),
    ("Com_unlock_tables", &["UNLOCK TABLES"]),
    ("Com_update", &["UPDATE"]),
    (SLOW, &[]),
];

const INSERT_SELECT: &str = "INSERT SELECT";
const REPLACE: &str = "REPLACE";
const REPLACE_SELECT: &str = "REPLACE SELECT";
const SELECT: &str = "Com_select";
const SLOW: &str = "Slow_queries";

/// Places of counters by the topics that they count.
static BY_TOPIC: LazyLock<HashMap<&str, usize>> = LazyLock::new(|| {
    let places = COUNTERS.iter().enumerate();
    places.flat_map(|(at, (_, topics))| topics.iter().map(move |topic| (*topic, at))).collect()
});

/// The place of [`SELECT`], which each look-up by key counts.
static SELECT_AT: LazyLock<usize> = LazyLock::new(|| place(SELECT));

/// The place of [`SLOW`].
static SLOW_AT: LazyLock<usize> = LazyLock::new(|| place(SLOW));

fn place(name: &str) -> usize {
    COUNTERS.iter().position(|(own, _)| *own == name).expect("a counter's name")
}

/// The counters of one session, which only this session changes.
#[derive(Debug)]
pub struct Counters(Box<[AtomicU64]>);

impl Default for Counters {
    fn default() -> Self {
        Counters(COUNTERS.iter().map(|_| AtomicU64::new(0)).collect())
    }
}

impl Counters {
    /// Counts a statement that begins. Kinds of which MySQL has no counter are not counted.
    pub fn count(&self, statement: &Statement) {
        let topic = match statement {
            Statement::Insert(insert) => topic_of_insert(insert),
            other => topic_of(other),
        };
        if let Some(at) = BY_TOPIC.get(topic) {
            self.0[*at].fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Counts a query.
    pub fn count_select(&self) {
        self.add(*SELECT_AT);
    }

    /// Counts a statement that took longer than `long_query_time`.
    pub fn count_slow(&self) {
        self.add(*SLOW_AT);
    }

    fn add(&self, at: usize) {
        self.0[at].fetch_add(1, Ordering::Relaxed);
    }

    /// Adds the counters of another session to these.
    pub fn add_all(&self, other: &Counters) {
        for (own, other) in self.0.iter().zip(&other.0) {
            // Most are zero; sessions end under a lock.
            match other.load(Ordering::Relaxed) {
                0 => {}
                n => drop(own.fetch_add(n, Ordering::Relaxed)),
            }
        }
    }

    /// Lists the counters by their names.
    pub fn list(&self) -> impl Iterator<Item = (&'static str, u64)> {
        COUNTERS.iter().zip(&self.0).map(|((name, _), count)| (*name, count.load(Ordering::Relaxed)))
    }
}

fn topic_of_insert(insert: &Insert) -> &'static str {
    match (insert.replace, matches!(*insert.source.ast.body, SetExpr::Values(_))) {
        (false, true) => "INSERT",
        (false, false) => INSERT_SELECT,
        (true, true) => REPLACE,
        (true, false) => REPLACE_SELECT,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parser::{ParseOptions, parse};
    use crate::topics::topics;

    #[test]
    fn statements_are_counted_by_their_kind() {
        for (sql, name) in [
            ("select 1", "Com_select"),
            ("(select 1) union (select 2)", "Com_select"),
            ("insert into t values (1), (2)", "Com_insert"),
            ("insert into t select * from u", "Com_insert_select"),
            ("replace into t values (1)", "Com_replace"),
            ("replace into t select 1", "Com_replace_select"),
            ("update t set a = 1", "Com_update"),
            ("delete from t where a = 1", "Com_delete"),
            ("desc t", "Com_show_fields"),
            ("show full columns from t", "Com_show_fields"),
            ("create table t (a int)", "Com_create_table"),
            ("set @x = 1", "Com_set_option"),
            ("begin", "Com_begin"),
        ] {
            let counters = Counters::default();
            counters.count(&parse(sql, &ParseOptions::default()).unwrap()[0].statement);
            let found: Vec<_> = counters.list().filter(|(_, n)| *n > 0).collect();
            assert_eq!(found, [(name, 1)], "{sql}");
        }
    }

    #[test]
    fn counters_are_sorted_and_their_topics_exist() {
        let known: Vec<&str> = topics().iter().map(|topic| topic.name).collect();
        for (name, of) in COUNTERS {
            for topic in *of {
                let is_own = [INSERT_SELECT, REPLACE, REPLACE_SELECT].contains(topic);
                assert!(is_own || known.contains(topic), "{name}: {topic}");
            }
        }
        assert!(COUNTERS.is_sorted());
    }

    #[test]
    fn sessions_are_added_up() {
        let (all, one) = (Counters::default(), Counters::default());
        one.count_select();
        one.count_slow();
        all.add_all(&one);
        all.add_all(&one);
        let found: Vec<_> = all.list().filter(|(_, n)| *n > 0).collect();
        assert_eq!(found, [("Com_select", 2), ("Slow_queries", 2)]);
    }
}
