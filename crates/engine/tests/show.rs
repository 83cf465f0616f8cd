//! SHOW, SET, DESCRIBE and the virtual databases, statement in, rows out.

use std::sync::Arc;

use arrow::util::display::array_value_to_string;
use dipper_engine::{ClientInfo, Engine, EngineOptions, Outcome, Session};
use futures::StreamExt;

/// A session over an engine of its own, and a directory for files.
struct Bench {
    session: Session,
    dir: tempfile::TempDir,
}

impl Bench {
    async fn new() -> Bench {
        let engine = Engine::open(EngineOptions { threads: Some(2), ..EngineOptions::default() }).await.unwrap();
        Bench { session: session(&engine), dir: tempfile::tempdir().unwrap() }
    }

    /// Runs all statements. Returns the rows of the last one, cells joined by `|`, or the error as `code: message`.
    /// `$DIR` is the directory.
    async fn run(&mut self, sql: &str) -> String {
        let sql = sql.replace("$DIR", &self.dir.path().display().to_string());
        let out = run(&mut self.session, &sql).await;
        out.replace(&self.dir.path().display().to_string(), "$DIR")
    }

    /// Runs all statements and returns the last row of the last one.
    async fn last(&mut self, sql: &str) -> String {
        self.run(sql).await.lines().last().unwrap_or_default().to_string()
    }

    /// Creates a partitioned table `t` of Hive text, a table `p` without declared columns whose files are missing, and
    /// a view `v`.
    async fn with_tables() -> Bench {
        let mut bench = Bench::new().await;
        for (partition, rows) in [("dt=2024-01-01/c=a%3Ab", "1,x\n2,y\n"), ("dt=2024-01-02/c=b", "3,z\n")] {
            let dir = bench.dir.path().join("t").join(partition);
            std::fs::create_dir_all(&dir).unwrap();
            std::fs::write(dir.join("0"), rows).unwrap();
        }
        let made = bench
            .run(
                "create external table t (id bigint comment 'the key', name varchar(10), tags array<text>) \
                 comment 'it''s a table' partitioned by (dt date, c string) \
                 row format delimited fields terminated by ',' escaped by '\\\\' null defined as 'NULL' \
                 stored as textfile location '$DIR/t' tblproperties ('skip.header.line.count'='0'); \
                 create view v (n, label) comment 'a view' as select id + 1, name from t where id > 1;",
            )
            .await;
        assert_eq!(made, "ok");
        bench
    }
}

fn session(engine: &Arc<Engine>) -> Session {
    engine.session(ClientInfo::local(engine.next_connection_id()))
}

async fn run(session: &mut Session, sql: &str) -> String {
    let mut last = String::new();
    let parsed = match session.parse(sql) {
        Ok(parsed) => parsed,
        Err(e) => return format!("{}: {e}", e.code),
    };
    for statement in parsed {
        last = match session.execute(sql, &statement, Vec::new()).await {
            Err(e) => return format!("{}: {e}", e.code),
            Ok(Outcome::Done(_)) => "ok".into(),
            Ok(Outcome::Rows(mut rows)) => {
                let mut lines = vec![rows.columns.iter().map(|c| c.name.clone()).collect::<Vec<_>>().join("|")];
                while let Some(batch) = rows.batches.next().await {
                    let batch = match batch {
                        Ok(batch) => batch,
                        Err(e) => return format!("{}: {e}", e.code),
                    };
                    for row in 0..batch.num_rows() {
                        let cells = batch.columns().iter().map(|c| {
                            match c.logical_nulls().is_some_and(|nulls| nulls.is_null(row)) {
                                true => "NULL".to_string(),
                                false => array_value_to_string(c, row).unwrap(),
                            }
                        });
                        lines.push(cells.collect::<Vec<_>>().join("|"));
                    }
                }
                lines.join("\n")
            }
        };
    }
    last
}

#[tokio::test]
async fn sessions_are_set_up_as_clients_do() {
    let mut b = Bench::new().await;
    let connector_j = "SELECT @@session.auto_increment_increment AS auto_increment_increment, @@character_set_client AS \
        character_set_client, @@character_set_connection AS character_set_connection, @@character_set_results AS \
        character_set_results, @@character_set_server AS character_set_server, @@collation_server AS collation_server, \
        @@collation_connection AS collation_connection, @@init_connect AS init_connect, @@interactive_timeout AS \
        interactive_timeout, @@license AS license, @@lower_case_table_names AS lower_case_table_names, \
        @@max_allowed_packet AS max_allowed_packet, @@net_write_timeout AS net_write_timeout, @@performance_schema AS \
        performance_schema, @@query_cache_size AS query_cache_size, @@query_cache_type AS query_cache_type, @@sql_mode AS \
        sql_mode, @@system_time_zone AS system_time_zone, @@time_zone AS time_zone, @@transaction_isolation AS \
        transaction_isolation, @@wait_timeout AS wait_timeout";
    let row = b.run(connector_j).await;
    let values: Vec<&str> = row.lines().nth(1).unwrap_or(&row).split('|').collect();
    assert_eq!(values.len(), 21, "{row}");
    assert_eq!((values[0], values[1], values[8], values[10]), ("1", "utf8mb4", "28800", "0"));
    assert_eq!(
        b.run("SET character_set_results = NULL; select @@character_set_results").await.lines().nth(1),
        Some("NULL")
    );
    let set_up = "SET character_set_results = NULL; SET autocommit=1; SET sql_mode='STRICT_TRANS_TABLES'; SET NAMES utf8mb4; \
        set session transaction read write; SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED; \
        SET net_write_timeout=600; SET SQL_SELECT_LIMIT=DEFAULT; select @@session.autocommit, @@sql_mode, \
        @@global.sql_mode, @@tx_isolation, @@session.transaction_read_only";
    assert_eq!(b.run(set_up).await.lines().nth(1), Some("1|STRICT_TRANS_TABLES|ONLY_FULL_GROUP_BY|READ-COMMITTED|0"));
}

#[tokio::test]
async fn a_reset_leaves_nothing_of_what_was_before() {
    let mut b = Bench::new().await;
    let asked = "select current_catalog(), database(), last_insert_id(), row_count(), found_rows(), @@error_count, @a, \
        length(last_query_id())";
    let fresh = b.run(asked).await;
    let made = b
        .run(
            "create catalog lake properties ('type' = 'hms', 'hive.metastore.uris' = 'thrift://127.0.0.1:1'); \
             switch lake; set last_insert_id = 7, @a = 1; select 1 union all select 2; select * from nowhere",
        )
        .await;
    assert!(made.contains("nowhere"), "{made}");
    b.session.reset();
    assert_eq!(b.run(asked).await, fresh.replace("|default|", "|NULL|"));
}

#[tokio::test]
async fn a_side_of_a_join_that_few_workers_wait_for_is_collected() {
    let mut b = Bench::new().await;
    let made = "create table t (k int, v int) duplicate key(k) distributed by hash(k) buckets 1; \
        insert into t select number, number from numbers('number' = '300000')";
    assert_eq!(b.run(made).await, "ok");
    for (workers, mode) in [(2, "CollectLeft"), (4, "CollectLeft")] {
        b.run(&format!("set parallel_pipeline_task_num = {workers}")).await;
        let join = "select count(*), sum(a.v + b.v) from t a join t b on a.k = b.k";
        let plan = b.run(&format!("explain {join}")).await;
        assert!(plan.contains(&format!("mode={mode}")), "{workers} workers: {plan}");
        assert_eq!(b.last(join).await, "300000|89999700000", "{workers} workers");
    }
}

#[tokio::test]
async fn bounds_and_counts_that_are_known_are_not_read() {
    let mut b = Bench::new().await;
    let made = "create table t (k int, d date, at datetime(3), n bigint, s varchar(100), x double, m decimal(10, 2), \
        e int) duplicate key(k) distributed by hash(k) buckets 1; \
        insert into t values (3, '2024-02-29', '2024-01-01 10:00:00.25', null, 'b', -0.0, 1.5, null), \
        (-7, '1999-12-31', '2023-01-01 10:00:00', 5, 'a', 2.5, -0.25, null); \
        insert into t values (9, null, '2024-01-01 10:00:00.125', 6, 'c', 0.0, 12.25, null)";
    assert_eq!(b.run(made).await, "ok");
    let known = "select min(k), max(k), min(d), max(d), cast(min(at) as string), cast(max(at) as string), min(n), max(n), count(n), count(*), count(d), \
        min(m), max(m) from t";
    let read = known.replace("from t", "from t where k > -100");
    let rows = "-7|9|1999-12-31|2024-02-29|2023-01-01 10:00:00.000|2024-01-01 10:00:00.250|5|6|2|3|2|-0.25|12.25";
    let reads = async |b: &mut Bench, sql: &str| b.run(&format!("explain {sql}")).await.contains("NativeScanExec");
    assert_eq!(b.last(&read).await, rows);
    assert_eq!(b.last(known).await, rows);
    assert!(!reads(&mut b, known).await);
    for sql in ["min(s)", "max(x)", "min(e)", "min(k + 1)"].map(|what| format!("select {what} from t")) {
        assert!(reads(&mut b, &sql).await, "{sql}");
    }
    assert_eq!(b.last("select min(s), max(s), max(x), min(e), max(e) from t").await, "a|c|2.5|NULL|NULL");
    // Rows of one partition, of a part of the table, and deleted rows.
    assert_eq!(b.last("select min(k), max(k) from (select k from t limit 3) q").await, "-7|9");
    b.run("delete from t where k = -7").await;
    assert!(reads(&mut b, known).await);
    assert_eq!(b.last("select min(k), min(d), count(n), count(*) from t").await, "3|2024-02-29|1|2");
    let made = "create table p (k int, v int) duplicate key(k) partition by range(k) \
        (partition p1 values less than ('10'), partition p2 values less than ('20')) \
        distributed by hash(k) buckets 2; insert into p values (1, 1), (15, 2)";
    assert_eq!(b.run(made).await, "ok");
    assert_eq!(b.last("select min(k), max(k) from p partition (p2)").await, "15|15");
    assert_eq!(b.last("select min(k), max(k) from p").await, "1|15");
    b.run("truncate table p partition (p1)").await;
    assert_eq!(b.last("select min(k), max(v), count(v) from p").await, "15|2|1");
    // Rows of a transaction that is not committed, and columns that came later.
    b.run("begin; insert into p values (19, 3)").await;
    assert_eq!(b.last("select min(k), max(k), count(v) from p").await, "15|19|2");
    b.run("rollback").await;
    assert_eq!(b.last("select max(k), count(v) from p").await, "15|1");
    b.run("alter table p add column w int default '7'; insert into p values (12, 4, 8)").await;
    assert_eq!(b.last("select min(w), max(w), count(w) from p").await, "7|8|2");
    // Of rows that are merged when they are read only the keys keep their bounds.
    let made = "create table a (k int, v int sum) aggregate key(k) distributed by hash(k) buckets 1; \
        insert into a values (1, 10), (2, 3); insert into a values (1, 10)";
    assert_eq!(b.run(made).await, "ok");
    assert_eq!(b.last("select min(k), max(k), min(v), max(v), count(v) from a").await, "1|2|3|20|2");
    let made = "create table u (k int, v int) unique key(k) distributed by hash(k) buckets 1; \
        insert into u values (1, 10), (2, 3); insert into u values (1, 5)";
    assert_eq!(b.run(made).await, "ok");
    assert_eq!(b.last("select min(k), max(k), min(v), max(v), count(v) from u").await, "1|2|3|5|2");
}

#[tokio::test]
async fn explain_says_why_a_query_is_no_look_up() {
    let mut b = Bench::new().await;
    let made = "create table u (k int, s varchar(10), v int) unique key(k, s) distributed by hash(k) buckets 2 \
        properties ('store_row_column' = 'true'); insert into u values (1, 'a', 10), (2, 'b', 20); \
        create view w as select * from u; create table other (v int, z int) duplicate key(v) distributed by hash(v); \
        insert into other values (10, 1); set @a = 1";
    assert_eq!(b.run(made).await, "ok");
    let long = format!("select v from u where k = 1 and s = 'a' and v <> {}", " ".repeat(17 << 10) + "7");
    let (open, close) = ("(".repeat(40), ")".repeat(40));
    let nested = format!("select v from u where {open}k{close} = {open}1{close} and s = 'a' or k = 9 and s = 'z'");
    for (sql, said) in [
        ("select v from u where (k, s) in ((1, 'a'), (9, 'z'))", "SHORT-CIRCUIT"),
        ("select v from u where (s, k) = ('a', 1)", "SHORT-CIRCUIT"),
        ("select v from u where (k, s, v) = (1, 'a', 10)", "SHORT-CIRCUIT"),
        ("select v from u where (k, s, v) in ((1, 'a', 10), (2, 'b', 10), (1, 'a', 11))", "SHORT-CIRCUIT"),
        ("select v from u where (k, v) = (1, 10) and s = 'a'", "SHORT-CIRCUIT"),
        ("select v from u where (k, v) = (1, 10)", "no SHORT-CIRCUIT: key column s is not fixed"),
        ("select v from u where (k, s) = (1, 'a') and (k, v) = (1, v)", "SHORT-CIRCUIT"),
        ("select v from u where (k, s) = (k, 'a')", "no SHORT-CIRCUIT: key column k is not fixed"),
        ("select v from u where k = 1.0 and s = 'a'", "SHORT-CIRCUIT"),
        ("select v from u where k = + 1 and s = 'a'", "SHORT-CIRCUIT"),
        ("select v from u where k = - - 1 and s = 'a'", "no SHORT-CIRCUIT: key column k is not fixed"),
        (
            "select v from u where row(k, s) = row(1, 'a')",
            "no SHORT-CIRCUIT: a key column is compared with a variable, an expression, ROW(...)",
        ),
        (
            "select v from u where k = k and s = s and v = 10",
            "no SHORT-CIRCUIT: a key column is compared with a column",
        ),
        ("select v from u where ((k, s) = (1, 'a')) = 1", "no SHORT-CIRCUIT: no condition on the key is one"),
        ("select v from u where k = 1 + 0 and s = 'a'", "no SHORT-CIRCUIT: key column k is not fixed"),
        ("select v from u where k = @a and s = 'a'", "no SHORT-CIRCUIT: a key column is compared with a variable"),
        ("select v from u where k between 1 and 1 and s = 'a'", "no SHORT-CIRCUIT: key column k is not fixed"),
        (
            "select v from u where k between 1 and 1 and s between 'a' and 'a'",
            "no SHORT-CIRCUIT: a key column is compared by BETWEEN",
        ),
        (
            "select v from u where not (k <> 1) and not ('a' <> s)",
            "no SHORT-CIRCUIT: a key column is compared by a NOT",
        ),
        (
            "select v from u where not k not in (1, 2) and not (s not in ('a'))",
            "no SHORT-CIRCUIT: a key column is compared by a NOT",
        ),
        (
            "select v from u where cast(k as bigint) = 1 and convert(s, char) = 'a'",
            "no SHORT-CIRCUIT: a key column is in a CAST",
        ),
        ("select v from u where k = 1e0 and s = 'a'", "no SHORT-CIRCUIT: a key column is compared with a variable"),
        (
            "select v from u where k = 1 and s = 'a' or k = 9 and s = 'z'",
            "no SHORT-CIRCUIT: conditions are joined by OR",
        ),
        ("select v from w where k = 1 and s = 'a'", "no SHORT-CIRCUIT: w is a view"),
        ("with c as (select * from u) select v from c where k = 1 and s = 'a'", "no SHORT-CIRCUIT: the query has WITH"),
        ("select v from (select * from u) x where k = 1 and s = 'a'", "no SHORT-CIRCUIT: the query has a subquery"),
        (
            "select v from u where k = 1 and s = 'a' union all select v from u where k = 8 and s = 'b'",
            "no SHORT-CIRCUIT: the query is more than one SELECT",
        ),
        (
            "select a.v from u a join u b on a.k = b.k and a.s = b.s where a.k = 1 and a.s = 'a'",
            "no SHORT-CIRCUIT: the query has more in FROM than the name of a table",
        ),
        (
            "select a.v from u a, u b where a.k = 1 and a.s = 'a' and b.k = 2 and b.s = 'b'",
            "no SHORT-CIRCUIT: the query has more in FROM than the name of a table",
        ),
        ("(select v from u where k = 1 and s = 'a')", "no SHORT-CIRCUIT: the query is in parentheses"),
        (
            "select v from u where k = 1 and s = 'a' and v in (select v from other)",
            "no SHORT-CIRCUIT: the query reads several tables",
        ),
        (
            "select v from u where k = 1 and s = 'a' intersect select v from other",
            "no SHORT-CIRCUIT: the query reads several tables",
        ),
        (nested.as_str(), "no SHORT-CIRCUIT: conditions are joined by OR"),
        (long.as_str(), "no SHORT-CIRCUIT: the statement is longer than 16 KiB"),
    ] {
        assert_eq!(b.run(sql).await, "v\n10", "{sql}");
        let plan = b.run(&format!("explain {sql}")).await;
        let line = plan.lines().map(str::trim).find(|l| l.contains("SHORT-CIRCUIT"));
        assert!(line.is_some_and(|l| l.starts_with(said)), "{}: {plan}", &sql[..sql.len().min(100)]);
    }
    // Queries that nobody would take for look-ups.
    for sql in [
        "select count(*) from u",
        "select v from u where v = 1",
        "select v from u where k > 1 and s > 'a'",
        "select v from u where cast(v as bigint) = 10 and v between 10 and 10 and not (v <> 10)",
    ] {
        assert!(!b.run(&format!("explain {sql}")).await.contains("SHORT-CIRCUIT"), "{sql}");
    }
    let several = "select k, s, v from u where (k, s) in ((2, 'b'), (1, 'a'), (2, null), (1, 'a'), (1, 'b')) and v > 5";
    assert_eq!(b.run(&format!("select count(*), sum(v) from ({several}) x")).await, "count(*)|sum(v)\n2|30");
    assert_eq!(b.run(several).await.lines().count(), 3);
}

#[tokio::test]
async fn what_one_session_shows_is_no_look_up_of_others() {
    let mut b = Bench::new().await;
    let made = "create table u (k int, v int) unique key(k) distributed by hash(k) buckets 1 \
        properties ('store_row_column' = 'true'); insert into u values (1, 10)";
    assert_eq!(b.run(made).await, "ok");
    let mut shows = session(b.session.engine());
    let sql = "select * from u where k = 1";
    let prepared = "set show_hidden_columns = true; explain select * from u where k = 1";
    assert!(run(&mut shows, prepared).await.contains("no SHORT-CIRCUIT: show_hidden_columns is on"));
    assert!(shows.prepare_point("select * from u where k = ?").await.unwrap().is_none());
    assert_eq!(b.run(sql).await, "k|v\n1|10");
    assert!(b.run(&format!("explain {sql}")).await.contains("SHORT-CIRCUIT"));
    assert!(run(&mut shows, sql).await.contains("__DORIS_DELETE_SIGN__"));
    let named = "select *, k as __DORIS_x from u where k = 1";
    assert_eq!(b.run(named).await, "k|v|__DORIS_x\n1|10|1");
    let hidden = "select *, __DORIS_DELETE_SIGN__ from u where k = 1";
    assert!(b.run(&format!("explain {hidden}")).await.contains("no SHORT-CIRCUIT: the query names a hidden column"));
}

#[tokio::test]
async fn a_described_statement_takes_its_hints_back() {
    let mut b = Bench::new().await;
    let sql = "show /*+ SET_VAR(query_timeout = 7) */ databases";
    let parsed = b.session.parse(sql).unwrap();
    assert!(b.session.describe(sql, &parsed[0]).await.unwrap().is_some());
    let before = b.run("select @@query_timeout").await;
    assert!(!before.ends_with("\n7"), "{before}");
    assert_eq!(b.run("set query_timeout = 11; select @@query_timeout").await, "@@query_timeout\n11");
}

#[tokio::test]
async fn set_is_all_or_nothing() {
    let mut b = Bench::new().await;
    let error = b.run("set query_timeout = 5, autocommit = 0, time_zone = 'Mars'").await;
    assert!(error.starts_with("1298: "), "{error}");
    assert_eq!(b.run("select @@query_timeout, @@autocommit").await.lines().nth(1), Some("900|1"));
    assert_eq!(b.run("set @a = 1, @b = 'x', @c = 2 + 3, @d = null, query_timeout = 7").await, "ok");
    assert_eq!(b.run("select @a, @b, @c, @d, @@query_timeout").await.lines().nth(1), Some("1|x|5|NULL|7"));
    assert_eq!(
        b.run("set @@session.query_timeout = @@global.query_timeout; select @@query_timeout").await.lines().nth(1),
        Some("900")
    );
    assert_eq!(b.run("set @A = @a + 1; select @a").await.lines().nth(1), Some("2"));
    assert_eq!(b.run("set global query_timeout = 11").await, "ok");
    assert_eq!(b.run("set query_timeout = default; select @@query_timeout").await.lines().nth(1), Some("11"));
    for (sql, code) in [
        ("set version = 'x'", "1229"),
        ("set persist query_timeout = 5", "1235"),
        ("set query_timeout = 'soon'", "1231"),
        ("set names klingon", "1115"),
        ("set names utf8mb4 collate latin1_bin", "1253"),
        ("set password = 'x'", "1372"),
    ] {
        let got = b.run(sql).await;
        assert!(got.starts_with(code), "{sql}: {got}");
    }
}

#[tokio::test]
async fn warnings_of_the_last_statement_are_shown() {
    let mut b = Bench::new().await;
    assert_eq!(b.run("set no_such_variable = 1; select @@no_such_variable").await.lines().nth(1), Some("1"));
    let shown = b.run("set query_timeuot = 1; show warnings").await;
    assert!(shown.starts_with("Level|Code|Message\nWarning|1193|") && shown.contains("query_timeout"), "{shown}");
    assert_eq!(b.run("show count(*) warnings").await, "@@session.warning_count\n1");
    assert_eq!(b.run("show count(*) errors").await, "@@session.error_count\n0");
    let _ = b.run("select * from nowhere").await;
    assert!(b.run("show errors").await.contains("\nError|1146|"));
    assert_eq!(b.run("set query_timeout = 5; show warnings").await, "Level|Code|Message");
    assert!(b.run("set names latin1; show warnings").await.contains("Warning|1105|character_set_client=latin1"));
}

#[tokio::test]
async fn databases_tables_and_definitions() {
    let mut b = Bench::with_tables().await;
    assert_eq!(b.run("show databases").await, "Database\ndefault\ninformation_schema\nmysql");
    assert_eq!(b.run("show databases like 'INFO%'").await, "Database\ninformation_schema");
    assert_eq!(b.run("show tables").await, "Tables_in_default\nt\nv");
    assert_eq!(b.run("show full tables").await, "Tables_in_default|Table_type\nt|BASE TABLE\nv|VIEW");
    assert_eq!(b.run("show full tables where Table_type = 'VIEW'").await, "Tables_in_default|Table_type\nv|VIEW");
    assert_eq!(
        b.run("show full tables where table_type != \"VIEW\" limit 1").await.lines().nth(1),
        Some("t|BASE TABLE")
    );
    assert_eq!(b.run("show views").await, "Tables_in_default\nv");
    assert_eq!(b.run("show tables from mysql like 'u%'").await, "Tables_in_mysql\nuser");
    assert!(b.run("show tables from nope").await.starts_with("1049: "));
    assert!(b.run("show create table nope").await.starts_with("1146: "));
    assert!(b.run("show create view t").await.starts_with("1347: "));
    let status = b.run("show table status like 't'").await;
    assert!(status.contains("\nt|FILES|NULL|textfile|NULL|") && status.ends_with("|it's a table"), "{status}");
    assert_eq!(
        b.run("show create database `default`").await,
        "Database|Create Database\ndefault|CREATE DATABASE `default`"
    );
    assert_eq!(
        b.run("show create view v").await.lines().nth(1),
        Some(
            "v|CREATE VIEW `v` (`n`, `label`) COMMENT 'a view' AS select id + 1, name from t where id > 1|utf8mb4|\
             utf8mb4_0900_bin"
        )
    );
    assert!(b.run("show index from t").await.starts_with("Table|Non_unique|Key_name|Seq_in_index|Column_name|"));
}

#[tokio::test]
async fn what_show_create_prints_makes_the_same_again() {
    let mut b = Bench::with_tables().await;
    let printed = b.run("show create table t").await;
    let ddl = printed.strip_prefix("Table|Create Table\nt|").unwrap_or_else(|| panic!("{printed}")).to_string();
    assert_eq!(
        ddl,
        "CREATE EXTERNAL TABLE `t` (\n  `id` bigint COMMENT 'the key',\n  `name` varchar(10),\n  `tags` array<string>\n)\n\
         COMMENT 'it''s a table'\nPARTITIONED BY (\n  `dt` date,\n  `c` string\n)\nROW FORMAT DELIMITED\n  \
         FIELDS TERMINATED BY ','\n  ESCAPED BY '\\\\'\n  NULL DEFINED AS 'NULL'\nSTORED AS TEXTFILE\nLOCATION '$DIR/t'\n\
         TBLPROPERTIES (\n  'skip.header.line.count' = '0'\n)"
    );
    assert_eq!(b.run("drop table t").await, "ok");
    assert_eq!(b.run(&ddl).await, "ok");
    assert_eq!(b.run("show create table t").await, printed);
    for ddl in [
        "CREATE EXTERNAL TABLE `a-b` (\n  `x` int\n)\nROW FORMAT DELIMITED\n  FIELDS TERMINATED BY '\\001'\n  \
         COLLECTION ITEMS TERMINATED BY '\\002'\n  MAP KEYS TERMINATED BY '\\003'\nSTORED AS TEXTFILE\nLOCATION '$DIR/q''d'",
        "CREATE EXTERNAL TABLE `a-b` (\n  `x` string,\n  `y` string\n)\nROW FORMAT SERDE \
         'org.apache.hadoop.hive.serde2.OpenCSVSerde'\nWITH SERDEPROPERTIES (\n  'escapeChar' = '\\\\',\n  \
         'quoteChar' = '''',\n  'separatorChar' = '\\t'\n)\nSTORED AS TEXTFILE\nLOCATION '$DIR/csv'",
        "CREATE EXTERNAL TABLE `a-b` (\n  `x` struct<a:int,b:map<string,double>> COMMENT 'c:\\\\d',\n  `y` decimal(12,2)\n)\n\
         STORED AS PARQUET\nLOCATION '$DIR/p'",
    ] {
        assert_eq!(b.run(ddl).await, "ok", "{ddl}");
        assert_eq!(b.run("show create table `a-b`").await, format!("Table|Create Table\na-b|{ddl}"));
        assert_eq!(b.run("drop table `a-b`").await, "ok");
    }
    let view = b.run("show create view v").await;
    let ddl = view.lines().nth(1).and_then(|l| l.split('|').nth(1)).unwrap().to_string();
    assert_eq!(b.run(&format!("drop view v; {ddl}")).await, "ok");
    assert_eq!(b.run("show create view v").await, view);
}

/// Tools repeat the question until the job of their ALTER TABLE is FINISHED.
#[tokio::test]
async fn changes_of_columns_are_listed() {
    let mut b = Bench::with_tables().await;
    b.run("create table j (k int, v int) duplicate key(k) distributed by hash(k) buckets 1").await;
    assert_eq!(b.run("show alter table column").await.lines().count(), 1);
    assert_eq!(b.run("alter table j add column w string").await, "ok");
    assert_eq!(b.run("alter table j set ('default.replication_num' = '1')").await, "ok");
    let listed = b.run("show alter table column from `default` where TableName = 'j'").await;
    let row: Vec<&str> = listed.lines().nth(1).unwrap_or_default().split('|').collect();
    assert!(row.len() == 13 && row[1] == "j" && row[9] == "FINISHED", "{listed}");
    assert_eq!(listed.lines().count(), 2, "{listed}");
}

#[tokio::test]
async fn columns_are_described() {
    let mut b = Bench::with_tables().await;
    let expected = "Field|Type|Null|Key|Default|Extra\nid|bigint|Yes|false|NULL|\nname|varchar(10)|Yes|false|NULL|\n\
                    tags|array<text>|Yes|false|NULL|\ndt|date|Yes|false|NULL|PARTITION\nc|text|Yes|false|NULL|PARTITION";
    assert_eq!(b.run("desc t").await, expected);
    assert_eq!(b.run("describe `default`.t").await, expected);
    assert_eq!(b.run("desc t name").await.lines().nth(1), Some("name|varchar(10)|Yes|false|NULL|"));
    assert_eq!(b.run("desc t 'na%'").await.lines().count(), 2);
    assert_eq!(
        b.run("show full columns from t like 'i%'").await,
        "Field|Type|Collation|Null|Key|Default|Extra|Privileges|Comment\n\
         id|bigint|NULL|YES||NULL||select,insert,update,references|the key"
    );
    assert_eq!(
        b.run("show columns from t where Type = 'date'").await.lines().nth(1),
        Some("dt|date|YES||NULL|PARTITION")
    );
    assert_eq!(
        b.run("desc v").await,
        "Field|Type|Null|Key|Default|Extra\nn|bigint|Yes|false|NULL|\nlabel|varchar(10)|Yes|false|NULL|"
    );
    assert_eq!(
        b.run("desc information_schema.character_sets").await.lines().nth(4),
        Some("MAXLEN|bigint unsigned|Yes|false|NULL|")
    );
    std::fs::write(b.dir.path().join("x.csv"), "a,b\n1,hello\n").unwrap();
    assert_eq!(
        b.run("desc '$DIR/x.csv'").await,
        "Field|Type|Null|Key|Default|Extra\na|bigint|Yes|false|NULL|\nb|text|Yes|false|NULL|"
    );
    assert!(b.run("desc nope").await.starts_with("1146: "));
}

#[tokio::test]
async fn partitions_are_listed_as_directories() {
    let mut b = Bench::with_tables().await;
    assert_eq!(
        b.run("show partitions t").await,
        "Partition|Location\ndt=2024-01-01/c=a%3Ab|$DIR/t/dt=2024-01-01/c=a%3Ab\ndt=2024-01-02/c=b|$DIR/t/dt=2024-01-02/c=b"
    );
    assert_eq!(
        b.run("show partitions t partition (c='b')").await.lines().nth(1).map(|l| &l[..17]),
        Some("dt=2024-01-02/c=b")
    );
    assert!(b.run("show partitions t partition (x='b')").await.starts_with("1054: "));
    assert!(b.run("show partitions v").await.starts_with("1505: "));
    assert_eq!(
        b.run("alter table t add partition (dt='2020-01-01', c='x') location '$DIR/old'; show partitions t limit 1")
            .await,
        "Partition|Location\ndt=2020-01-01/c=x|$DIR/old"
    );
    assert_eq!(
        b.run(
            "select partition_name, partition_expression, partition_description from information_schema.partitions \
             where table_name = 't' order by 1 desc limit 1"
        )
        .await
        .lines()
        .nth(1),
        Some("dt=2024-01-02/c=b|dt,c|2024-01-02,b")
    );
    // The location of a directory that others have spelled keeps their spelling.
    for name in ["dt=a%20b", "DT=5%"] {
        std::fs::create_dir_all(b.dir.path().join("spelled").join(name)).unwrap();
    }
    b.run("create external table spelled (id int) partitioned by (dt string) location '$DIR/spelled'").await;
    assert_eq!(
        b.run("show partitions spelled").await,
        "Partition|Location\ndt=5%25|$DIR/spelled/DT=5%\ndt=a b|$DIR/spelled/dt=a%20b"
    );
}

#[tokio::test]
async fn information_schema_tells_the_same() {
    let mut b = Bench::with_tables().await;
    assert_eq!(
        b.run("select table_name, TABLE_TYPE, engine from information_schema.TABLES where table_schema = 'default' order by 1").await,
        "table_name|TABLE_TYPE|engine\nt|BASE TABLE|FILES\nv|VIEW|NULL"
    );
    assert_eq!(
        b.run(
            "select column_name, ordinal_position, data_type, column_type, numeric_precision, \
             character_maximum_length, column_comment from INFORMATION_SCHEMA.columns \
             where table_schema = database() and table_name in ('t', 'v') order by table_name, ordinal_position"
        )
        .await
        .lines()
        .skip(1)
        .collect::<Vec<_>>(),
        [
            "id|1|bigint|bigint|19|NULL|the key",
            "name|2|varchar|varchar(10)|NULL|10|",
            "tags|3|array|array<text>|NULL|NULL|",
            "dt|4|date|date|NULL|NULL|",
            "c|5|varchar|string|NULL|2147483643|",
            "n|1|bigint|bigint|19|NULL|",
            "label|2|varchar|varchar(10)|NULL|10|",
        ]
    );
    assert_eq!(
        b.run("select schema_name from information_schema.schemata order by 1")
            .await
            .lines()
            .skip(1)
            .collect::<Vec<_>>(),
        ["default", "information_schema", "mysql"]
    );
    assert_eq!(
        b.run("select view_definition from information_schema.views").await.lines().nth(1),
        Some("select id + 1, name from t where id > 1")
    );
    assert_eq!(b.run("select User, Host from mysql.user").await, "User|Host\nadmin|%\nroot|%");
    assert_eq!(
        b.run("select variable_value from information_schema.session_variables where variable_name = 'query_timeout'")
            .await,
        "variable_value\n900"
    );
    assert_eq!(b.run("select count(*) from information_schema.statistics").await.lines().nth(1), Some("0"));
    assert!(b.run("select * from information_schema.nope").await.starts_with("1146: "));
}

#[tokio::test]
async fn a_broken_table_hides_no_other() {
    let mut b = Bench::with_tables().await;
    assert_eq!(b.run("create view w as select name from v").await.split(':').next(), Some("1054"));
    assert_eq!(b.run("create view w as select label from v; drop table t").await, "ok");
    assert_eq!(b.run("show tables").await, "Tables_in_default\nv\nw");
    let columns = "select count(*) from information_schema.columns where table_schema = 'default'";
    assert_eq!(b.run(columns).await.lines().nth(1), Some("0"));
    assert_eq!(b.run("select count(*) > 100 from information_schema.columns").await.lines().nth(1), Some("true"));
    assert!(b.run("desc w").await.contains("view 'default.w' cannot be read"));
}

/// Every virtual table can be read as a whole: each row has a cell for each column.
#[tokio::test]
async fn every_virtual_table_can_be_read() {
    let mut b = Bench::with_tables().await;
    for database in ["information_schema", "mysql"] {
        let tables = b.run(&format!("show tables from {database}")).await;
        assert!(tables.lines().count() > 5, "{tables}");
        for table in tables.lines().skip(1) {
            let rows = b.run(&format!("select * from {database}.{table}")).await;
            let (head, first) = (rows.lines().next().unwrap(), rows.lines().nth(1));
            assert!(!head.starts_with(|c: char| c.is_ascii_digit()), "{table}: {rows}");
            assert!(first.is_none_or(|l| l.matches('|').count() >= head.matches('|').count()), "{table}: {rows}");
            assert!(b.run(&format!("show create table {database}.{table}")).await.contains("CREATE TABLE"));
        }
    }
}

#[tokio::test]
async fn the_server_tells_about_itself() {
    let mut b = Bench::new().await;
    let list = b.run("show processlist").await;
    assert!(
        list.starts_with("Id|User|Host|db|Command|Time|State|Info\n") && list.ends_with("|executing|show processlist"),
        "{list}"
    );
    assert!(b.run("select /*+ SET_VAR(query_timeout = soon) */ 1").await.contains("expected an integer"));
    assert_eq!(b.session.process().activity().info, None);
    let long = format!("show processlist -- {}", "x".repeat(200));
    let info = |s: String| s.lines().nth(1).unwrap().rsplit('|').next().unwrap().len();
    assert!(info(b.run(&long).await) <= 100);
    assert_eq!(
        b.run("show variables like 'sql\\_mode'").await,
        "Variable_name|Value|Default_Value|Changed\nsql_mode|ONLY_FULL_GROUP_BY|ONLY_FULL_GROUP_BY|0"
    );
    assert_eq!(
        b.run("show variables where variable_name = 'autocommit' or Variable_name like 'tx_iso%'")
            .await
            .lines()
            .count(),
        3
    );
    assert_eq!(b.run("show global variables like 'AUTOCOMMIT'").await, "Variable_name|Value\nautocommit|ON");
    assert_eq!(b.run("show session status like 'threads_connected'").await, "Variable_name|Value\nThreads_connected|1");
    assert_eq!(b.run("show engines").await.lines().nth(1).map(|l| &l[..13]), Some("OLAP|DEFAULT|"));
    assert!(b.run("show charset like 'utf8mb4'").await.ends_with("utf8mb4|UTF-8 Unicode|utf8mb4_0900_bin|4"));
    assert!(
        b.run("show collation where `Default` = 'Yes' and charset = 'binary'")
            .await
            .ends_with("binary|binary|63|Yes|Yes|1")
    );
    assert_eq!(
        b.run("show grants").await,
        "Grants for root@%\nGRANT ALL PRIVILEGES ON *.* TO 'root'@'%' WITH GRANT OPTION"
    );
    assert!(b.run("show grants for 'nobody'@'%'").await.starts_with("1141: "));
    assert_eq!(b.run("show functions like 'concat'").await, "Function Name\nconcat");
    assert!(b.run("show full functions like 'sum'").await.ends_with("sum|aggregate"));
    assert!(b.run("show catalogs").await.ends_with("0|internal|internal|Yes|NULL|NULL||internal"));
    assert_eq!(b.run("show backends").await.lines().count(), 2);
    assert_eq!(b.run("show frontends where IsMaster = 'true'").await.lines().count(), 2);
    for empty in [
        "show triggers",
        "show events",
        "show procedure status",
        "show function status",
        "show open tables",
        "show profiles",
        "show alter table column",
        "show load",
        "show master status",
    ] {
        let shown = b.run(empty).await;
        assert!(shown.contains('|') && shown.lines().count() == 1, "{empty}: {shown}");
    }
    assert!(b.run("show variables where no_such_column = 1").await.starts_with("1054: "));
}

#[tokio::test]
async fn values_that_are_none_of_their_type_are_told() {
    let mut b = Bench::new().await;
    for sql in [
        "select cast('2024-02-30' as date)",
        "select date '2024-02-30'",
        "select datetime '0000-00-00 00:00:00'",
        "select year('2024-02-30')",
        "select 1 from numbers('number' = '3') where cast('2024-02-30' as datetime) > now()",
    ] {
        let told = b.run(&format!("{sql}; show warnings")).await;
        assert!(told.contains("Warning|1292|Incorrect datetime value: '"), "{sql}: {told}");
    }
    let told =
        b.run("select cast(concat('2024-02-', number + 1) as date) from numbers('number' = '31'); show warnings").await;
    assert!(told.ends_with("Warning|1292|Incorrect datetime value: '2024-02-30'; 2 such values are NULL"), "{told}");
    for sql in ["select cast('2024-02-29' as date), cast(null as date)", "select 1"] {
        assert_eq!(b.run(&format!("{sql}; show warnings")).await, "Level|Code|Message", "{sql}");
    }
    let told = b
        .run(
            "create table w (k int, d date) distributed by hash(k) buckets 1; set enable_insert_strict = false; \
             insert into w values (1, '2024-02-30'), (2, '2024-02-28'), (3, null); show warnings",
        )
        .await;
    assert!(told.ends_with("Warning|1292|Incorrect DATE value: '2024-02-30' for column 'd'; it is NULL"), "{told}");
    assert_eq!(b.run("select k, d from w order by k").await, "k|d\n1|NULL\n2|2024-02-28\n3|NULL");
}

#[tokio::test]
async fn warnings_do_not_follow_from_which_thread_comes_first() {
    let mut b = Bench::new().await;
    let made = b
        .run(
            "create table l (h int, s string, d string) duplicate key(h) distributed by hash(h) buckets 4; \
             insert into l select number, concat('no ', 8 - number), concat('2024-02-3', number) \
             from numbers('number' = '6'); insert into l values (7, '2024-01-01', null)",
        )
        .await;
    assert_eq!(made, "ok");
    for _ in 0..30 {
        let told = b.run("select h, cast(s as datetime) from l; show warnings").await;
        assert_eq!(told, "Level|Code|Message\nWarning|1292|Incorrect datetime value: 'no 3'; 6 such values are NULL");
        let told = b.run("select cast(s as datetime), cast(d as datetime) from l; show warnings").await;
        let expected = "Level|Code|Message\nWarning|1292|Incorrect datetime value: '2024-02-30'; 6 such values are NULL\n\
                        Warning|1292|Incorrect datetime value: 'no 3'; 6 such values are NULL";
        assert_eq!(told, expected);
    }
    let told = b
        .run(
            "create table m (h int, d date) distributed by hash(h) buckets 4; set enable_insert_strict = false; \
             insert into m select h, s from l; show warnings",
        )
        .await;
    assert!(
        told.ends_with("Warning|1292|Incorrect DATE value: 'no 3' for column 'd'; 6 such values are NULL"),
        "{told}"
    );
}

#[tokio::test]
async fn errors_of_patterns_have_one_number_wherever_they_are_worked_out() {
    let mut b = Bench::new().await;
    let made = b
        .run(
            "create table p (k int, a int, s string) duplicate key(k) distributed by hash(k) buckets 2; \
             insert into p values (1, 2147483647, '('), (2, 1, '(b'), (3, 2, 'c'); \
             create table u (k int, s string) unique key(k) distributed by hash(k) buckets 1; \
             insert into u values (1, '('); copy (select * from p) to '$DIR/p.parquet'; \
             copy (select * from p) to '$DIR/p.csv'; copy (select * from p) to '$DIR/p.jsonl'",
        )
        .await;
    assert_eq!(made, "ok");
    for from in ["p", "'$DIR/p.parquet'", "'$DIR/p.csv'", "'$DIR/p.jsonl'"] {
        for (what, code) in [
            ("'x' regexp s and k = 1", 3691),
            ("'x' regexp concat('(', s)", 3691),
            ("'x' regexp concat('[', k)", 3696),
            ("s regexp '('", 3691),
            ("regexp_extract('x', concat(s, '(a'), 0) = 'x' and k = 3", 3691),
            ("regexp_replace('x', concat('a{2,1}', k), 'y') = 'x'", 3693),
            ("split_by_regexp('x', concat('*', k)) is null", 3688),
            ("multi_match_any('x', array(concat('[z-a]', k)))", 3697),
            ("regexp_count('x', concat('\\\\', 'y', k)) = 1", 3689),
            ("regexp_substr('x', concat('(?=a)', k)) = 'x'", 3690),
            ("a + cast('9223372036854775807' as bigint) + k > 0", 1690),
        ] {
            for sql in [
                format!("select {what} from {from} where k in (1, 3)"),
                format!("select k from {from} where {what}"),
                format!("select count(*) from {from} where k > 0 and {what}"),
            ] {
                let told = b.run(&sql).await;
                assert!(told.starts_with(&format!("{code}: ")), "{sql}: {told}");
            }
        }
    }
    for sql in [
        "select k from u where k = 1 and 'x' regexp s",
        "select 'x' regexp s from u where k = 1",
        "select x.k from p x join p y on x.k = y.k and 'x' regexp x.s",
        "delete from p where 'x' regexp s and k = 1",
        "update u set s = 'y' where 'x' regexp s",
        "insert into p select k, 1, s from p where 'x' regexp s and k = 1",
        "select count(*) from p group by k having 'x' regexp min(s) and k = 1",
    ] {
        let told = b.run(sql).await;
        assert!(told.starts_with("3691: "), "{sql}: {told}");
    }
}

#[tokio::test]
async fn errors_have_mysqls_numbers() {
    let mut b = Bench::with_tables().await;
    for (sql, code) in [
        ("select id, count(*) from t", 1140),
        ("select id, count(*) from t group by name", 1055),
        ("select count(*) from t having id > 1", 1140),
        ("select 1 from t where count(*) > 1", 1111),
        ("select sum(count(*)) from t", 1111),
        ("select 1 from t where rank() over (order by id) = 1", 3593),
        ("select id from t order by 2", 1054),
        ("select id from t group by 2", 1054),
        ("select nope.id from t", 1054),
        ("select nope.t.id from t", 1054),
        ("select id from t where nope.t.id = 1", 1054),
        ("select nope.`default`.t.id from t", 1054),
        ("select nope.t.* from t", 1051),
        ("select * from t, t", 1066),
        ("with a as (select 1), a as (select 2) select * from a", 1066),
        ("select x from (select 1 x, 2 X) d", 1060),
        ("with d as (select id, id from t) select 1 from d", 1060),
        ("create table n (k int, K int) distributed by hash(k) buckets 1", 1060),
        ("select 1 union select 1, 2", 1222),
        ("select (select 1, 2)", 1241),
        ("select (select id from t)", 1242),
        ("select top 1 id from t", 1064),
    ] {
        let out = b.run(sql).await;
        assert!(out.starts_with(&format!("{code}: ")), "{sql}: {out}");
    }
    // Statements that are not errors.
    for sql in [
        "select t.id, `default`.t.id, internal.`default`.t.id from `default`.t",
        "select d.x from (select 1, 2) d (x, y)",
        "select information_schema.tables.table_name from information_schema.tables where information_schema.tables.table_name = 't'",
        "select id, id from t",
        "select a.id, b.id, b.id from t a, t b",
    ] {
        let out = b.run(sql).await;
        assert!(out.split(':').next().is_none_or(|code| code.parse::<u16>().is_err()), "{sql}: {out}");
    }
}

/// Definitions with every kind of clause.
const NATIVE: &[&str] = &[
    r#"CREATE TABLE n (`a``b` INT, c VARCHAR(9) NOT NULL DEFAULT "q\"\\'" COMMENT 'x\'\\"') DUPLICATE KEY(`a``b`)
       COMMENT "line
       break" DISTRIBUTED BY HASH(`a``b`, c) BUCKETS 3 PROPERTIES ("storage_policy" = "v\\2\"", "replication_num" = "1",
       "nobody's \"own\"" = "x")"#,
    "CREATE TABLE n (k INT, t STRING NOT NULL DEFAULT 'x', a ARRAY<INT>, m MAP<STRING,INT>, s STRUCT<x:INT,y:ARRAY<STRING>>, j JSON, l LARGEINT)",
    "CREATE TABLE n (k BIGINT AUTO_INCREMENT(7), at DATETIME(6) DEFAULT CURRENT_TIMESTAMP(6) ON UPDATE CURRENT_TIMESTAMP(6),
       d DATE DEFAULT CURRENT_DATE, f DOUBLE DEFAULT PI) UNIQUE KEY(k) DISTRIBUTED BY HASH(k) BUCKETS AUTO
       PROPERTIES ('function_column.sequence_type' = 'bigint', 'store_row_column' = 'true')",
    "CREATE TABLE n (k INT, s INT SUM DEFAULT '0', m DATE MAX,
       r INT REPLACE_IF_NOT_NULL) AGGREGATE KEY(k) DISTRIBUTED BY HASH(k) BUCKETS 1",
    "CREATE TABLE n (d DATE, k INT) DUPLICATE KEY(d) PARTITION BY RANGE(d, k) (PARTITION a VALUES LESS THAN ('2024-01-01', 5),
       PARTITION b VALUES [('2024-01-01', 5), ('2024-02-01')), PARTITION c VALUES [('2024-02-01'), (MAXVALUE)))
       DISTRIBUTED BY RANDOM BUCKETS 2",
    "CREATE TABLE n (at DATETIME NOT NULL, k INT) DUPLICATE KEY(at) AUTO PARTITION BY RANGE(date_trunc(at, 'month')) ()
       DISTRIBUTED BY RANDOM BUCKETS 2",
    "CREATE TABLE n (c VARCHAR(5), k INT, INDEX i (k) USING BLOOM_FILTER) DUPLICATE KEY(c) AUTO PARTITION BY LIST(c)
       (PARTITION p VALUES IN ('a', 'b')) DISTRIBUTED BY HASH(k) BUCKETS 2",
];

#[tokio::test]
async fn printed_native_tables_are_made_again_byte_for_byte() {
    for sql in NATIVE {
        let mut bench = Bench::new().await;
        let made = bench.run(sql).await;
        assert_eq!(made, "ok", "{sql}");
        let shown = bench.run("show create table n").await;
        let statement =
            shown.strip_prefix("Table|Create Table\nn|").unwrap_or_else(|| panic!("{sql}\n{shown}")).to_string();
        bench.run("drop table n").await;
        let made = bench.run(&statement).await;
        assert_eq!(made, "ok", "{statement}");
        assert_eq!(bench.run("show create table n").await, shown, "{sql}");
    }
}

#[tokio::test]
async fn partitions_tablets_and_statistics_of_native_tables() {
    let mut bench = Bench::new().await;
    bench
        .run(
            "create table p (d date, v int) duplicate key(d) partition by range(d) (partition a values less than ('2024-02-01'), \
             partition b values less than ('2024-03-01')) distributed by hash(v) buckets 2; \
             insert into p values ('2024-01-01', 1), ('2024-02-01', 5), ('2024-02-02', null)",
        )
        .await;
    let cells = |text: &str| -> Vec<Vec<String>> {
        text.lines().skip(1).map(|l| l.split('|').map(String::from).collect()).collect()
    };
    let shown = bench.run("show partitions from p order by partitionid desc").await;
    let rows = cells(&shown);
    assert_eq!(rows.len(), 2, "{shown}");
    let range = "[types: [DATE]; keys: [2024-02-01]; ..types: [DATE]; keys: [2024-03-01]; )";
    assert_eq!((&rows[0][1], &rows[0][5..9]), (&"b".to_string(), &["d", range, "v", "2"].map(String::from)[..]));
    assert_eq!((rows[0][21].as_str(), rows[1][21].as_str()), ("2", "1"));
    assert!(rows[0][14].ends_with("KB") || rows[0][14].ends_with(' '), "{shown}");
    let shown = bench.run("show partitions from p where PartitionName = 'a'").await;
    assert_eq!(shown.lines().count(), 2, "{shown}");

    let shown = bench.run("show tablets from p partition (b)").await;
    let rows = cells(&shown);
    let counted: u64 = rows.iter().map(|r| r[10].parse::<u64>().unwrap()).sum();
    assert_eq!((rows.len(), counted), (2, 2), "{shown}");

    let shown = bench.run("show column stats p").await;
    let rows = cells(&shown);
    assert_eq!(rows[0][..7], ["d", "p", "3", "3", "0", "2024-01-01", "2024-02-02"], "{shown}");
    assert_eq!(rows[1][..7], ["v", "p", "3", "2", "1", "1", "5"], "{shown}");
    let shown = bench.run("show table stats p").await;
    assert!(shown.contains("|3|") && shown.contains("[d, v]"), "{shown}");
    let status = bench.run("show table status like 'p'").await;
    assert_eq!(cells(&status)[0][..5], ["p", "OLAP", "NULL", "NULL", "3"], "{status}");
}

/// Numbers that SHOW PROC tells lead back to names.
#[tokio::test]
async fn databases_and_tables_by_number() {
    let mut bench = Bench::with_tables().await;
    let number = |list: String, name: &str| {
        let row = list.lines().map(str::to_string).find(|row| row.split('|').nth(1) == Some(name));
        row.unwrap_or_else(|| panic!("{name} in {list}")).split('|').next().unwrap().to_string()
    };
    let database = number(bench.run("show proc '/dbs'").await, "default");
    let table = number(bench.run(&format!("show proc '/dbs/{database}'")).await, "v");
    assert_eq!(bench.run(&format!("show database {database}")).await, "DbName\ndefault");
    let found = bench.run(&format!("show table {table}")).await;
    assert_eq!(found, format!("DbName|TableName|DbId\ndefault|v|{database}"));
    for (statement, head) in [("database", "DbName"), ("table", "DbName|TableName|DbId")] {
        assert_eq!(bench.run(&format!("show {statement} 10")).await, head);
    }
    assert!(bench.run("show table x").await.starts_with("1235"));
}
