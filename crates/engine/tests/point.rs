//! Tests look-ups by key against a map, through everything that can happen to a table: at every step the look-up, the
//! look-up of the cached row and the scan agree with what was written.

use std::collections::BTreeMap;
use std::path::Path;
use std::task::Poll;

use arrow::util::display::{ArrayFormatter, FormatOptions};
use dipper_engine::point::PointStatement;
use dipper_engine::{ClientInfo, DataLocation, Engine, EngineOptions, Outcome, Session};
use dipper_point::Value;
use futures::StreamExt;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

const STEPS: usize = 60;
const KEYS: i64 = 5;
const NAMES: [&str; 4] = ["a", "", "it''s", "long name that is longer than others"];
/// The types that column `n` gets, one after the other.
const WIDER: [&str; 2] = ["bigint", "largeint"];

/// Values of columns by name, for each key; `None` is NULL.
type Rows = BTreeMap<(Option<i64>, usize), BTreeMap<String, Option<String>>>;

async fn open(dir: &Path) -> Session {
    let options = EngineOptions {
        data: Some(DataLocation::Local(dir.to_path_buf())),
        threads: Some(2),
        ..EngineOptions::default()
    };
    let engine = Engine::open(options).await.expect("an engine");
    engine.session(ClientInfo::local(engine.next_connection_id()))
}

async fn run(session: &mut Session, sql: &str) -> Vec<Vec<Option<String>>> {
    let mut rows = Vec::new();
    for parsed in session.parse(sql).unwrap_or_else(|e| panic!("{sql}: {e}")) {
        let outcome = session.execute(sql, &parsed, Vec::new()).await.unwrap_or_else(|e| panic!("{sql}: {e}"));
        if let Outcome::Rows(mut batches) = outcome {
            while let Some(batch) = batches.batches.next().await {
                let batch = batch.unwrap_or_else(|e| panic!("{sql}: {e}"));
                let options = FormatOptions::new();
                let columns: Vec<_> =
                    batch.columns().iter().map(|c| ArrayFormatter::try_new(c, &options).expect("printable")).collect();
                for row in 0..batch.num_rows() {
                    let cell = |(c, f): (usize, &ArrayFormatter<'_>)| {
                        (!batch.column(c).is_null(row)).then(|| f.value(row).to_string())
                    };
                    rows.push(columns.iter().enumerate().map(cell).collect());
                }
            }
        }
    }
    rows
}

/// Formats a value as a literal.
fn literal(value: &Option<String>) -> String {
    value.as_ref().map_or("NULL".into(), |v| format!("'{v}'"))
}

struct Model {
    session: Session,
    rng: StdRng,
    /// Value columns in order.
    columns: Vec<String>,
    added: usize,
    widened: usize,
    rows: Rows,
    prepared: Option<PointStatement>,
}

impl Model {
    fn key(&mut self) -> (Option<i64>, usize) {
        let k = self.rng.random_range(0..=KEYS);
        ((k < KEYS).then_some(k), self.rng.random_range(0..NAMES.len()))
    }

    fn value(&mut self, column: &str) -> Option<String> {
        if self.rng.random_bool(0.2) {
            return None;
        }
        Some(match column {
            "n" => self.rng.random_range(-1000..1000).to_string(),
            _ => "x".repeat(self.rng.random_range(0..40)),
        })
    }

    fn condition(key: (Option<i64>, usize)) -> String {
        let k = key.0.map_or("k is null".into(), |k| format!("k = {k}"));
        format!("{k} and name = '{}'", NAMES[key.1])
    }

    /// Inserts rows with some of the columns. The other columns get defaults, or with `keep` the values of the existing
    /// row.
    async fn insert(&mut self, columns: &[String], keep: bool) {
        let mut values = Vec::new();
        for _ in 0..self.rng.random_range(1..6) {
            let key = self.key();
            let given: Vec<_> = columns.iter().map(|c| (c.clone(), self.value(c))).collect();
            let texts: Vec<_> = given.iter().map(|(_, v)| format!(", {}", literal(v))).collect();
            let k = key.0.map_or("NULL".into(), |k| k.to_string());
            values.push(format!("({k}, '{}'{})", NAMES[key.1], texts.concat()));
            let fresh = || self.columns.iter().map(|c| (c.clone(), default_of(c))).collect();
            let row = match (keep, self.rows.get(&key)) {
                (true, Some(row)) => row.clone(),
                _ => fresh(),
            };
            let mut row: BTreeMap<_, _> = row;
            row.extend(given);
            self.rows.insert(key, row);
        }
        let names: Vec<_> = columns.iter().map(|c| format!(", {c}")).collect();
        let sql = format!("insert into t (k, name{}) values {}", names.concat(), values.join(", "));
        run(&mut self.session, &sql).await;
    }

    async fn step(&mut self, dir: &Path) {
        match self.rng.random_range(0..22) {
            0..7 => {
                let columns = self.columns.clone();
                self.insert(&columns, false).await;
            }
            7..9 => {
                let some = self.columns[..1].to_vec();
                self.insert(&some, false).await;
            }
            9..11 => {
                let last = self.columns[self.columns.len() - 1..].to_vec();
                run(&mut self.session, "set enable_unique_key_partial_update = true").await;
                self.insert(&last, true).await;
                run(&mut self.session, "set enable_unique_key_partial_update = false").await;
            }
            11..13 => {
                let key = self.key();
                run(&mut self.session, &format!("delete from t where {}", Self::condition(key))).await;
                self.rows.remove(&key);
            }
            13 => {
                run(&mut self.session, "delete from t where n > 500").await;
                let large = |row: &BTreeMap<String, Option<String>>| {
                    row["n"].as_ref().is_some_and(|n| n.parse::<i64>().expect("a number") > 500)
                };
                self.rows.retain(|_, row| !large(row));
            }
            14..16 => {
                let key = self.key();
                run(&mut self.session, &format!("update t set n = 7 where {}", Self::condition(key))).await;
                if let Some(row) = self.rows.get_mut(&key) {
                    row.insert("n".into(), Some("7".into()));
                }
            }
            16 if self.columns.len() < 6 => {
                self.added += 1;
                let name = format!("c{}", self.added);
                let default = default_of(&name);
                let clause = default.as_ref().map_or(String::new(), |d| format!(" default '{d}'"));
                run(&mut self.session, &format!("alter table t add column {name} varchar(60){clause}")).await;
                self.rows.values_mut().for_each(|row| drop(row.insert(name.clone(), default.clone())));
                self.columns.push(name);
            }
            17 if self.columns.len() > 2 => {
                let at = self.rng.random_range(1..self.columns.len());
                let name = self.columns.remove(at);
                run(&mut self.session, &format!("alter table t drop column {name}")).await;
                self.rows.values_mut().for_each(|row| drop(row.remove(&name)));
            }
            18 => drop(run(&mut self.session, "alter table t compact").await),
            19..21 if self.widened < WIDER.len() => {
                run(&mut self.session, &format!("alter table t modify column n {}", WIDER[self.widened])).await;
                self.widened += 1;
            }
            _ => {
                self.prepared = None;
                self.session = open(dir).await;
            }
        }
    }

    fn expected(&self, key: (Option<i64>, usize)) -> Vec<Vec<Option<String>>> {
        let Some(row) = self.rows.get(&key) else { return Vec::new() };
        let mut cells = vec![key.0.map(|k| k.to_string()), Some(NAMES[key.1].replace("''", "'"))];
        cells.extend(self.columns.iter().map(|c| row[c].clone()));
        vec![cells]
    }

    async fn check(&mut self, log: &str) {
        for k in 0..=KEYS {
            for name in 0..NAMES.len() {
                let key = ((k < KEYS).then_some(k), name);
                let sql = format!("select * from t where {}", Self::condition(key));
                let expected = self.expected(key);
                for what in ["first", "again"] {
                    assert_eq!(run(&mut self.session, &sql).await, expected, "{what}: {sql}\n{log}");
                }
                self.check_now(key, expected.len(), log).await;
            }
        }
        let mut scanned = run(&mut self.session, "select * from t").await;
        let mut all: Vec<_> = self.rows.keys().flat_map(|key| self.expected(*key)).collect();
        scanned.sort();
        all.sort();
        assert_eq!(scanned, all, "scan\n{log}");
        // Lists of keys, an extra condition, and LIMIT.
        let in_list = "select count(*) from t where k in (0, 1, 2, 1) and name in ('a', '', 'a') and n < 0";
        let count = |(key, row): &(&(Option<i64>, usize), &BTreeMap<String, Option<String>>)| {
            let negative = row["n"].as_ref().is_some_and(|n| n.starts_with('-'));
            key.0.is_some_and(|k| k <= 2) && key.1 <= 1 && negative
        };
        let expected = self.rows.iter().filter(count).count().to_string();
        assert_eq!(run(&mut self.session, in_list).await, [[Some(expected)]], "{log}");
    }

    /// Checks the rows that are found without waiting, through a statement that was prepared before much of this
    /// happened.
    async fn check_now(&mut self, key: (Option<i64>, usize), expected: usize, log: &str) {
        let Some(k) = key.0 else { return };
        const SQL: &str = "select name, n from t where name = ? and k = ?";
        let stale = self.prepared.as_ref().is_none_or(|p| self.session.is_stale(p));
        if stale {
            self.prepared = self.session.prepare_point(SQL).await.expect("planned");
        }
        let prepared = self.prepared.clone().expect("a look-up");
        let name = NAMES[key.1].replace("''", "'");
        let params = [Value::Text(&name), Value::Int(k)];
        match self.session.point_now(&prepared, &params).expect("read") {
            Poll::Pending => {}
            Poll::Ready(rows) => assert_eq!(rows.as_slice().len(), expected, "now: {key:?}\n{log}"),
        }
    }
}

fn default_of(column: &str) -> Option<String> {
    // Columns with odd numbers have a default.
    let number: usize = column.strip_prefix('c')?.parse().ok()?;
    (number % 2 == 1).then(|| format!("default {number}"))
}

/// Runs a test on a data directory of its own.
fn in_a_directory(test: impl AsyncFnOnce(&Path)) {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let dir = tempfile::tempdir().expect("a directory");
    runtime.block_on(test(dir.path()));
}

fn through(seed: u64, properties: &str, partitioned: bool) {
    in_a_directory(async |dir| {
        let mut session = open(dir).await;
        let partitions = match partitioned {
            true => {
                "partition by range(k) (partition p1 values less than ('2'), partition p2 values less than (maxvalue)) "
            }
            false => "",
        };
        let create = format!(
            "create table t (k int, name varchar(60), n int, s varchar(60)) unique key(k, name) {partitions}\
             distributed by hash(k, name) buckets 3 properties({properties})"
        );
        run(&mut session, &create).await;
        let columns = vec!["n".to_string(), "s".to_string()];
        let rng = StdRng::seed_from_u64(seed);
        let mut model = Model { session, rng, columns, added: 0, widened: 0, rows: Rows::new(), prepared: None };
        for step in 0..STEPS {
            model.step(dir).await;
            model.check(&format!("seed {seed}, step {step}, {properties}")).await;
        }
    });
}

#[test]
fn with_a_row_store() {
    through(1, "'store_row_column'='true'", false);
    through(2, "'store_row_column'='true'", true);
}

#[test]
fn with_some_columns_in_the_row_store() {
    through(3, "'row_store_columns'='n'", false);
}

#[test]
fn without_a_row_store() {
    through(4, "'replication_num'='1'", true);
}

/// Look-ups see commits of another process within `read_staleness_ms`, at once if that is 0.
#[test]
fn other_processes_are_seen_in_time() {
    in_a_directory(async |dir| {
        let mut one = open(dir).await;
        let mut other = open(dir).await;
        run(&mut one, "create table t (k int, v int) unique key(k) distributed by hash(k) buckets 1").await;
        run(&mut one, "insert into t values (1, 10)").await;
        const LOOK: &str = "select v from t where k = 1";
        assert_eq!(run(&mut other, LOOK).await, [[Some("10".to_string())]]);
        run(&mut other, "set read_staleness_ms = 0").await;
        run(&mut one, "insert into t values (1, 11)").await;
        assert_eq!(run(&mut one, LOOK).await, [[Some("11".to_string())]], "its own commit, at once");
        assert_eq!(run(&mut other, LOOK).await, [[Some("11".to_string())]]);
        run(&mut other, "set read_staleness_ms = 300").await;
        run(&mut one, "drop table t").await;
        tokio::time::sleep(std::time::Duration::from_millis(350)).await;
        let parsed = other.parse(LOOK).expect("a statement").remove(0);
        let error = other.execute(LOOK, &parsed, Vec::new()).await.expect_err("the table is gone");
        assert_eq!(error.code, 1146, "{error}");
    });
}

/// Look-ups after SYNC see what others have committed before it.
#[test]
fn sync_reads_what_look_ups_have_not_read_yet() {
    in_a_directory(async |dir| {
        let mut one = open(dir).await;
        let mut other = open(dir).await;
        run(&mut one, "create table t (k int, v int) unique key(k) distributed by hash(k) buckets 1").await;
        run(&mut one, "create table gone (k int, v int) unique key(k) distributed by hash(k) buckets 1").await;
        const LOOK: &str = "select v from t where k = 1";
        assert!(run(&mut other, LOOK).await.is_empty());
        assert!(run(&mut other, "select v from gone where k = 1").await.is_empty());
        run(&mut one, "drop table gone").await;
        run(&mut other, "set read_staleness_ms = 60000").await;
        for value in 10..20 {
            run(&mut one, &format!("insert into t values (1, {value})")).await;
            run(&mut other, "sync").await;
            assert_eq!(run(&mut other, LOOK).await, [[Some(value.to_string())]]);
        }
    });
}

/// Returns what EXPLAIN says about look-ups.
async fn explained(session: &mut Session, sql: &str) -> String {
    let plan = run(session, &format!("explain {sql}")).await;
    let said = plan.iter().flatten().flatten().flat_map(|text| text.lines()).find(|l| l.contains("SHORT-CIRCUIT"));
    said.unwrap_or("nothing").trim().to_string()
}

#[test]
fn explain_says_which_way_is_taken_and_why() {
    in_a_directory(async |dir| {
        let mut session = open(dir).await;
        let create = "create table t (k int, l varchar(9), v int, a array<int>) unique key(k, l) \
            distributed by hash(k) buckets 1";
        run(&mut session, create).await;
        run(&mut session, "insert into t values (-1, 'a', 10, [1])").await;
        let list = |quote: &str| (0..70).map(|n| format!("{quote}{n}{quote}")).collect::<Vec<_>>().join(",");
        let many = format!("select v from t where k in (-1,{}) and l in ('a',{})", list(""), list("'"));
        const UNREAD: &str = "no SHORT-CIRCUIT: the statement has what look-ups do not read";
        for (sql, said) in [
            ("select v from t where -1 = k and l = 'a'", "SHORT-CIRCUIT"),
            ("select v from t where l = 'a' and -1=k", "SHORT-CIRCUIT"),
            ("select v from t where k = - 1 and l = 'a'", "SHORT-CIRCUIT"),
            ("select v from t where (k, l, v) in ((- 1, 'a', 10))", "SHORT-CIRCUIT"),
            ("select all v from t where k = -1 and l = 'a'", "SHORT-CIRCUIT"),
            ("select v from t where k = -1 and l = 'a' and cast(v as decimal(10,2)) = 10", UNREAD),
            ("select v from t where k = -1 and l = 'a' and coalesce(@x, 0) = 0", UNREAD),
            ("select v from t where k = -1 and l = 'a' and v <> 1e3", UNREAD),
            ("select v from t where k = -1 and l = 'a' and l <> '\\n'", UNREAD),
            (
                "select v from t where k = -1 and l = 'a' lock in share mode",
                "no SHORT-CIRCUIT: the query has a FOR clause",
            ),
            (
                "select v from t where k = -1 and l = 'a' and '2024-01-02' > date '2024-01-01'",
                "no SHORT-CIRCUIT: a string stands behind DATE",
            ),
            (
                "select v from t where k = -1 and l = 'a' and l like 'a' escape '|'",
                "no SHORT-CIRCUIT: a string stands behind DATE, TIME, TIMESTAMP or ESCAPE",
            ),
            (many.as_str(), "no SHORT-CIRCUIT: the lists make 5041 keys, look-ups take 4096 at most"),
        ] {
            assert_eq!(run(&mut session, sql).await, [[Some("10".to_string())]], "{sql}");
            let found = explained(&mut session, sql).await;
            assert!(found.starts_with(said), "{sql}: {found}");
        }
        // A definition that look-ups do not read can become one that they do.
        const ALL: &str = "select * from t where k = -1 and l = 'a'";
        assert!(explained(&mut session, ALL).await.starts_with("no SHORT-CIRCUIT: a column is of a nested type"));
        run(&mut session, "alter table t drop column a").await;
        assert_eq!(explained(&mut session, ALL).await, "SHORT-CIRCUIT");
    });
}

/// A prepared statement is read as when it was prepared, whatever `sql_mode` is now.
#[test]
fn a_prepared_look_up_keeps_its_sql_mode() {
    in_a_directory(async |dir| {
        let mut session = open(dir).await;
        run(&mut session, "create table t (k int, v varchar(9)) unique key(k) distributed by hash(k) buckets 1").await;
        run(&mut session, "insert into t values (1, 'one')").await;
        const SQL: &str = "select \"v\", v from t where k = 1";
        let there = session.selected();
        let prepared = session.prepare_point(SQL).await.expect("planned").expect("a look-up");
        run(&mut session, "set sql_mode = 'ANSI_QUOTES'").await;
        run(&mut session, "alter table t add column w int").await;
        assert!(session.is_stale(&prepared));
        session.at(&there).prepare_point(SQL).await.expect("planned").expect("a look-up");
        let row = |texts: [&str; 2]| [texts.map(|text| Some(text.to_string()))];
        assert_eq!(run(&mut session.at(&there), SQL).await, row(["v", "one"]));
        assert_eq!(run(&mut session, SQL).await, row(["one", "one"]), "what is not prepared reads as it is set");
    });
}

/// A look-up is answered from memory the second time, without the planner; the server counts it as a look-up.
#[test]
fn the_second_time_nothing_is_waited_for() {
    in_a_directory(async |dir| {
        let mut session = open(dir).await;
        run(&mut session, "create table t (k int, v int) unique key(k) distributed by hash(k) buckets 1").await;
        run(&mut session, "insert into t values (1, 10)").await;
        const LOOK: &str = "select v from t where k = 1;";
        assert!(session.text_point_now(LOOK).expect("no error").is_pending());
        run(&mut session, LOOK).await;
        let Poll::Ready((plan, rows)) = session.text_point_now(LOOK).expect("no error") else { panic!("pending") };
        let mut out = Vec::new();
        plan.put(&rows.as_slice()[0], &mut out).expect("a row");
        assert_eq!(out, [0, 0, 10, 0, 0, 0]);
        // Like any statement, a look-up can be the one to which SET TRANSACTION READ ONLY applies.
        run(&mut session, "set transaction read only").await;
        assert!(session.text_point_now(LOOK).expect("no error").is_ready());
        run(&mut session, "insert into t values (2, 20)").await;
        run(&mut session, "alter table t add column w varchar(3) default 'abc'").await;
        assert!(session.text_point_now(LOOK).expect("no error").is_pending(), "planned anew");
        run(&mut session, LOOK).await;
        assert!(session.text_point_now(LOOK).expect("no error").is_ready());
        run(&mut session, "set enable_short_circuit_query = false").await;
        assert!(session.text_point_now(LOOK).expect("no error").is_pending());
    });
}

/// Privileges from the time of preparing a statement do not count when it runs.
#[test]
fn a_revoked_privilege_is_gone_at_once() {
    in_a_directory(async |dir| {
        let mut root = open(dir).await;
        run(&mut root, "create table t (k int, v int) unique key(k) distributed by hash(k) buckets 1").await;
        run(&mut root, "insert into t values (1, 10)").await;
        run(&mut root, "create user u identified by 'p'").await;
        run(&mut root, "grant select on `default`.t to u").await;
        let engine = root.engine().clone();
        let local = ClientInfo::local(engine.next_connection_id());
        let mut user = engine.session(ClientInfo { user: "u".into(), host: "127.0.0.1:1".into(), ..local });
        const TEXT: &str = "select v from t where k = 1";
        assert_eq!(run(&mut user, TEXT).await, [[Some("10".to_string())]]);
        let prepared = user.prepare_point("select v from t where k = ?").await.expect("planned").expect("a look-up");
        let found = |user: &mut Session| {
            let prepared = user.point_now(&prepared, &[Value::Int(1)]).expect("no error");
            (prepared.is_ready(), user.text_point_now(TEXT).expect("no error").is_ready())
        };
        assert_eq!(found(&mut user), (true, true));
        run(&mut root, "revoke select on `default`.t from u").await;
        assert_eq!(found(&mut user), (false, false), "left to the way that refuses");
        let parsed = user.parse(TEXT).expect("a statement").remove(0);
        let error = user.execute(TEXT, &parsed, Vec::new()).await.expect_err("refused");
        assert_eq!(error.code, 1142, "{error}");
        run(&mut root, "grant select on `default`.t to u").await;
        assert_eq!(run(&mut user, TEXT).await, [[Some("10".to_string())]]);
        assert_eq!(found(&mut user), (true, true));
    });
}
