//! Tests of the parser with statements of the four dialects: the resulting statements, and the texts of errors.

use dipper_dialect::error::SqlError;
use dipper_dialect::parser::{ParseOptions, parse, parse_next};
use dipper_dialect::statement::*;

fn all(sql: &str) -> Vec<Parsed> {
    parse(sql, &ParseOptions::default()).unwrap_or_else(|e| panic!("{sql}\n{e}\n{}", e.caret()))
}

fn one(sql: &str) -> Statement {
    let mut parsed = all(sql);
    assert_eq!(parsed.len(), 1, "{sql}");
    parsed.remove(0).statement
}

fn error(sql: &str) -> SqlError {
    match parse(sql, &ParseOptions::default()) {
        Ok(parsed) => panic!("{sql}: {parsed:?}"),
        Err(e) => e,
    }
}

fn query(sql: &str) -> QueryText {
    match one(sql) {
        Statement::Query(q) => q,
        other => panic!("{sql}: {other:?}"),
    }
}

fn name(text: &str) -> Name {
    Name(text.split('.').map(String::from).collect())
}

fn user(name: &str, host: Option<&str>) -> UserName {
    UserName::Named { name: name.into(), host: host.map(Into::into) }
}

fn pairs(list: &[(&str, &str)]) -> Properties {
    list.iter().map(|(a, b)| (a.to_string(), b.to_string())).collect()
}

#[test]
fn hive_ddl_with_everything() {
    let Statement::CreateExternalTable(t) = one(r"
        CREATE EXTERNAL TABLE IF NOT EXISTS lake.csv_benchmark_hdfs (
            id BIGINT COMMENT 'the key', name STRING, tags ARRAY<STRING>,
            props MAP<STRING, ARRAY<INT>>, place STRUCT<lat: DOUBLE, lon: DOUBLE COMMENT 'x', more: ARRAY<MAP<STRING,INT>>>,
            price DECIMAL(10, 2), at TIMESTAMP, ok BOOLEAN, `select` VARCHAR(20))
        COMMENT 'a table'
        PARTITIONED BY (dt STRING COMMENT 'day', hr INT)
        ROW FORMAT DELIMITED FIELDS TERMINATED BY '\001' ESCAPED BY '\\'
            COLLECTION ITEMS TERMINATED BY '\002' MAP KEYS TERMINATED BY '\u0003' LINES TERMINATED BY '\n'
            NULL DEFINED AS '\\N'
        STORED AS TEXTFILE
        LOCATION 'file:///data/x'
        TBLPROPERTIES ('skip.header.line.count' = '1', 'a' = 'b;c')")
    else {
        panic!()
    };
    assert_eq!(t.name, name("lake.csv_benchmark_hdfs"));
    assert!(t.external && t.if_not_exists);
    let types: Vec<String> = t.columns.iter().map(|c| format!("{} {}", c.name, c.data_type)).collect();
    assert_eq!(
        types,
        [
            "id bigint",
            "name string",
            "tags array<string>",
            "props map<string,array<int>>",
            "place struct<lat:double,lon:double comment 'x',more:array<map<string,int>>>",
            "price decimal(10,2)",
            "at datetime(6)",
            "ok boolean",
            "select varchar(20)"
        ]
    );
    assert_eq!(t.columns[0].comment.as_deref(), Some("the key"));
    assert_eq!(t.partition_columns.len(), 2);
    assert_eq!(
        t.row_format,
        Some(RowFormat::Delimited {
            field: Some("\u{1}".into()),
            escape: Some("\\".into()),
            collection: Some("\u{2}".into()),
            map_key: Some("\u{3}".into()),
            line: Some("\n".into()),
            null: Some("\\N".into()),
        })
    );
    assert_eq!(t.stored_as, Some(StoredAs::Format("TEXTFILE".into())));
    assert_eq!(t.location.as_deref(), Some("file:///data/x"));
    assert_eq!(t.properties, pairs(&[("skip.header.line.count", "1"), ("a", "b;c")]));
}

#[test]
fn hive_serdes_and_classes() {
    let Statement::CreateExternalTable(t) = one(r#"CREATE TABLE t (a int)
        ROW FORMAT SERDE 'org.apache.hadoop.hive.serde2.OpenCSVSerde'
        WITH SERDEPROPERTIES ("separatorChar" = ",", "quoteChar" = "\"", "escapeChar" = "\\", 'field.delim'='\001')
        STORED AS INPUTFORMAT 'org.apache.hadoop.mapred.TextInputFormat'
        OUTPUTFORMAT 'org.apache.hadoop.hive.ql.io.HiveIgnoreKeyTextOutputFormat'"#)
    else {
        panic!()
    };
    let Some(RowFormat::Serde { class, properties }) = t.row_format else { panic!() };
    assert_eq!(class, "org.apache.hadoop.hive.serde2.OpenCSVSerde");
    assert_eq!(
        properties,
        pairs(&[("separatorChar", ","), ("quoteChar", "\""), ("escapeChar", "\\"), ("field.delim", "\u{1}")])
    );
    assert!(matches!(t.stored_as, Some(StoredAs::Classes { .. })));
    assert!(error("create table t (a int) partitioned by (b int)").message.contains("STORED AS"));
    assert!(error("create table t (a frob) stored as textfile").message.contains("a type name, found 'FROB'"));
}

#[test]
fn items_keep_their_text() {
    let q = query(
        "select COUNT(*), a+1 , t.`b`, (select max( x ) from u), 'it''s', case when 1 then 2 end x, f(a, b) from t",
    );
    let mut items: Vec<Vec<String>> = q.items.values().cloned().collect();
    items.sort_by_key(Vec::len);
    assert_eq!(items[0], ["max( x )"]);
    assert_eq!(
        items[1],
        ["COUNT(*)", "a+1", "t.`b`", "(select max( x ) from u)", "'it''s'", "case when 1 then 2 end x", "f(a, b)"]
    );
}

#[test]
fn operators_bind_as_in_mysql() {
    for (text, grouped) in [
        ("1 || 2 && 3", "1 OR 2 AND 3"),
        ("a div b * c", "a DIV b * c"),
        ("1 + 7 mod 4 div 2", "1 + 7 % 4 DIV 2"),
        ("a xor b or c and d", "a XOR b OR c AND d"),
        ("!a = b", "!a = b"),
        ("a <=> null", "a <=> NULL"),
    ] {
        let q = query(&format!("select {text}"));
        assert_eq!(q.ast.to_string(), format!("SELECT {grouped}"));
    }
    // The trees, where the text cannot show them.
    let shape =
        |text: &str| format!("{:?}", dipper_dialect::parser::parse_expr(text, &ParseOptions::default()).unwrap());
    for (left, right) in [
        ("a div b * c", "(a div b) * c"),
        ("a or b xor c", "a or (b xor c)"),
        ("a xor b and c", "a xor (b and c)"),
        ("a = 1 xor b = 2", "(a = 1) xor (b = 2)"),
        ("a || b = c", "a || (b = c)"),
        ("1 | 2 & 3", "1 | (2 & 3)"),
        ("1 & 2 << 3", "1 & (2 << 3)"),
        ("1 << 2 + 3", "1 << (2 + 3)"),
        ("2 * 3 ^ 4", "2 * (3 ^ 4)"),
        ("1 | 2 = 3", "(1 | 2) = 3"),
        ("not a = b", "not (a = b)"),
    ] {
        let plain = |text: &str| {
            shape(text)
                .split("Nested(")
                .collect::<String>()
                .chars()
                .filter(|c| c.is_alphabetic())
                .collect::<String>()
                .replace("Location", "")
        };
        assert_eq!(plain(left), plain(right), "{left} is not {right}");
    }
}

#[test]
fn sql_modes() {
    let ansi = ParseOptions::from_sql_mode("ONLY_FULL_GROUP_BY,ANSI_QUOTES");
    assert!(ansi.ansi_quotes && !ansi.pipes_as_concat);
    let q = parse(r#"SELECT COUNT(*) FROM hits WHERE "URL" LIKE '%google%';"#, &ansi).unwrap();
    let Statement::Query(q) = &q[0].statement else { panic!() };
    assert!(format!("{:?}", q.ast).contains(r#"value: "URL", quote_style: Some('"')"#));
    let q = query(r#"SELECT COUNT(*) FROM hits WHERE "URL" LIKE '%google%'"#);
    assert!(format!("{:?}", q.ast).contains(r#"DoubleQuotedString("URL")"#));
    let concat = ParseOptions::from_sql_mode("PIPES_AS_CONCAT");
    let q = parse("select 'a' || 'b'", &concat).unwrap();
    let Statement::Query(q) = &q[0].statement else { panic!() };
    assert!(format!("{:?}", q.ast).contains("StringConcat"));
    let raw = ParseOptions::from_sql_mode("no_backslash_escapes");
    assert_eq!(parse(r"select 'a\' ; select '\'", &raw).unwrap().len(), 2);
}

#[test]
fn paths_and_table_functions_stand_in_from() {
    assert_eq!(
        query("select count(*) from 'logs/*.csv.gz' where a > 1").ast.to_string(),
        "SELECT count(*) FROM 'logs/*.csv.gz' WHERE a > 1"
    );
    query(r#"select * from "logs/x.csv" t limit 3"#);
    query("select * from files('path'='a.csv', 'format'='csv', 'csv.column_separator'='|') f where f.a = 1");
    query(r#"select * from local("file_path" = "x/*.csv", "backend_id" = "1", "format" = "csv")"#);
    query("select * from files(path => 'x')");
}

#[test]
fn several_statements_with_their_places() {
    let sql = "select 1; -- c\n select /*+ SET_VAR(query_timeout=5, a='b') */ ?, ? ;\n";
    let parsed = all(sql);
    assert_eq!(parsed.len(), 2);
    assert_eq!(&sql[parsed[1].text.clone()], "select /*+ SET_VAR(query_timeout=5, a='b') */ ?, ?");
    assert_eq!(parsed[1].hints, pairs(&[("query_timeout", "5"), ("a", "b")]));
    assert_eq!(parsed[1].placeholders, 2);
    let (_, next) = parse_next(sql, 0, &ParseOptions::default()).unwrap().unwrap();
    assert_eq!(next, 9);
    assert!(all(" ; ;; /* nothing */ ").is_empty());
    assert!(all("").is_empty());
}

#[test]
fn outfile_in_the_middle_and_at_the_end() {
    let Statement::SelectIntoOutfile(o) = one(
        r#"SELECT a, b FROM t WHERE c > 1 INTO OUTFILE "file:///tmp/x_" FORMAT AS CSV PROPERTIES ("column_separator" = ",", "max_file_size" = "100MB")"#,
    ) else {
        panic!()
    };
    assert_eq!(o.path, "file:///tmp/x_");
    assert_eq!(o.format.as_deref(), Some("csv"));
    assert_eq!(o.properties, pairs(&[("column_separator", ","), ("max_file_size", "100MB")]));
    assert_eq!(o.source.ast.to_string(), "SELECT a, b FROM t WHERE c > 1");
    let Statement::SelectIntoOutfile(o) = one(
        r#"SELECT a, b INTO OUTFILE '/tmp/x' CHARACTER SET utf8 FIELDS TERMINATED BY ',' OPTIONALLY ENCLOSED BY '"' LINES TERMINATED BY '\r\n' FROM t ORDER BY a"#,
    ) else {
        panic!()
    };
    assert_eq!(o.source.ast.to_string(), "SELECT a, b FROM t ORDER BY a");
    let fields = o.fields.unwrap();
    assert_eq!((fields.terminated_by.as_str(), fields.enclosed_by.as_str(), fields.optionally), (",", "\"", true));
    assert_eq!(fields.lines_terminated_by, "\r\n");
}

#[test]
fn copy_and_insert() {
    assert!(matches!(
        one("COPY (select 1) TO 'x.parquet' (FORMAT parquet, COMPRESSION 'zstd', HEADER)"),
        Statement::CopyTo { path, options, .. }
            if path == "x.parquet" && options == pairs(&[("format", "parquet"), ("compression", "zstd"), ("header", "true")])
    ));
    assert!(matches!(one("copy t (a, b) to 'x.csv' with (format csv)"), Statement::CopyTo { .. }));
    assert!(matches!(
        one("INSERT INTO FILES('path'='x', 'format'='csv') SELECT * FROM t"),
        Statement::InsertIntoFiles { properties, .. } if properties == pairs(&[("path", "x"), ("format", "csv")])
    ));
    let insert = |sql: &str| match one(sql) {
        Statement::Insert(i) => i,
        other => panic!("{other:?}"),
    };
    let i = insert("INSERT INTO tbl SELECT * FROM tbl");
    assert_eq!((i.table, i.overwrite), (name("tbl"), false));
    let i = insert("INSERT OVERWRITE TABLE d.t PARTITION (dt = '2024-01-01', hr) SELECT * FROM s");
    assert!(i.overwrite);
    assert_eq!(i.partition, [("dt".into(), Some(Literal::String("2024-01-01".into()))), ("hr".into(), None)]);
    let i = insert("insert into t (a, `B`) values (1, -2), (?, default_value('x'))");
    assert_eq!(i.columns, ["a", "B"]);
    let i = insert("insert into t with label l1 (a) select 1");
    assert_eq!((i.label.as_deref(), i.columns.len()), (Some("l1"), 1));
    let i = insert("insert into t set a = 1, b = concat('x', 'y')");
    assert_eq!(i.source.ast.to_string(), "VALUES (1, concat('x', 'y'))");
    insert("insert into t (select 1)");
    insert("insert into t value (1)");
}

#[test]
fn session_statements() {
    let set = |sql: &str| match one(sql) {
        Statement::Set(list) => list,
        other => panic!("{other:?}"),
    };
    assert_eq!(
        set("SET NAMES utf8mb4 COLLATE utf8mb4_bin"),
        [Assignment::Names { charset: Some("utf8mb4".into()), collation: Some("utf8mb4_bin".into()) }]
    );
    let literal = |s: &str| SetValue::Literal(Literal::Number(s.into()));
    assert_eq!(
        set(
            "set autocommit=1, @@session.sql_mode = 'ANSI_QUOTES', @a := -5, global x = ON, character_set_results = NULL"
        ),
        [
            Assignment::Variable { scope: Scope::Session, name: "autocommit".into(), value: literal("1") },
            Assignment::Variable {
                scope: Scope::Session,
                name: "sql_mode".into(),
                value: SetValue::Literal(Literal::String("ANSI_QUOTES".into()))
            },
            Assignment::User { name: "a".into(), value: literal("-5") },
            Assignment::Variable { scope: Scope::Global, name: "x".into(), value: SetValue::Word("ON".into()) },
            Assignment::Variable {
                scope: Scope::Global,
                name: "character_set_results".into(),
                value: SetValue::Literal(Literal::Null)
            },
        ]
    );
    assert!(matches!(&set("set @x = (select max(a) from t)")[0], Assignment::User { value: SetValue::Query(_), .. }));
    assert!(matches!(
        &set("set sql_mode = concat(@@sql_mode, ',ANSI')")[0],
        Assignment::Variable { value: SetValue::Query(_), .. }
    ));
    assert_eq!(
        set("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED"),
        [Assignment::Transaction {
            scope: Some(Scope::Session),
            isolation: Some("READ-COMMITTED".into()),
            read_only: None
        }]
    );
    assert_eq!(
        set("set time_zone = default")[0],
        Assignment::Variable { scope: Scope::Session, name: "time_zone".into(), value: SetValue::Default }
    );
    assert!(matches!(&set("set password for 'root'@'%' = password('x')")[0], Assignment::Password { plain: true, .. }));
    assert!(matches!(one("/*!40101 SET character_set_client = @saved */;"), Statement::Set(_)));
    assert_eq!(one("use `a b`"), Statement::Use(name("a b")));
    assert_eq!(one("kill query 7"), Statement::Kill { query: true, id: "7".into() });
    assert_eq!(one("commit and chain"), Statement::Commit { chain: true, release: false });
    assert_eq!(one("rollback to savepoint s"), Statement::RollbackTo("s".into()));
    assert_eq!(
        one("start transaction with consistent snapshot, read only"),
        Statement::Begin { read_only: true, consistent_snapshot: true, label: None }
    );
    assert_eq!(
        one("prepare p from 'select ?'"),
        Statement::Prepare { name: "p".into(), source: PrepareSource::Text("select ?".into()) }
    );
    assert_eq!(
        one("execute p using @a, @b"),
        Statement::Execute { name: "p".into(), using: vec!["a".into(), "b".into()] }
    );
    assert_eq!(one("deallocate prepare p"), Statement::Deallocate("p".into()));
    assert_eq!(
        one("lock tables a read, b as x low_priority write"),
        Statement::LockTables(vec![(name("a"), LockKind::Read), (name("b"), LockKind::Write)])
    );
}

#[test]
fn statements_about_storage_and_variables_of_one() {
    let maintain = |work, tables: &[&str]| {
        let tables = tables.iter().map(|table| name(table)).collect();
        Statement::Maintain { work, tables }
    };
    assert_eq!(one("check table a, d.b for upgrade quick"), maintain(Maintenance::Check, &["a", "d.b"]));
    assert_eq!(all("check table a quick")[0].notes.len(), 1);
    assert_eq!(one("checksum tables a, d.b extended"), maintain(Maintenance::Checksum { quick: false }, &["a", "d.b"]));
    assert_eq!(one("checksum table a quick"), maintain(Maintenance::Checksum { quick: true }, &["a"]));
    assert_eq!(one("optimize local tables a"), maintain(Maintenance::Optimize, &["a"]));
    assert_eq!(one("repair no_write_to_binlog table a use_frm"), maintain(Maintenance::Repair, &["a"]));
    assert!(
        matches!(one("xa recover convert xid"), Statement::Show(Show { kind: ShowKind::Other(list), .. }) if list == "XA RECOVER")
    );
    assert!(error("xa start 'x'").message.contains("XA transactions"));

    let hinted =
        &all("set statement max_statement_time = 1.5, sql_mode='ANSI', a=on for select /*+ set_var(b=2) */ 1")[0];
    assert!(matches!(hinted.statement, Statement::Query(_)));
    let expected = [("max_statement_time", "1.5"), ("sql_mode", "ANSI"), ("a", "on"), ("b", "2")];
    assert_eq!(hinted.hints, expected.map(|(a, b)| (a.to_string(), b.to_string())));
    assert!(error("set statement a = 1 + 1 for select 1").message.contains("literals"));
    assert!(matches!(one("set statement = 1"), Statement::Set(_)));
}

#[test]
fn rows_that_are_there() {
    let insert = |sql: &str| match one(sql) {
        Statement::Insert(insert) => insert,
        other => panic!("{sql}: {other:?}"),
    };
    for sql in [
        "insert into t (a, b) values (1, cast('2' as int)) as new on duplicate key update t.b = new.b, a = values(a)",
        "insert into t (a, b) value (1, cast('2' as int)) as new on duplicate key update t.b = new.b, a = values(a)",
        "insert into t set a = 1, b = cast('2' as int) as new on duplicate key update t.b = new.b, a = values(a)",
    ] {
        let insert = insert(sql);
        assert_eq!(insert.rows_as, Some(("new".into(), Vec::new())), "{sql}");
        let assigned: Vec<_> =
            insert.on_duplicate.iter().map(|(c, e)| (c.as_str(), e.to_string().to_lowercase())).collect();
        assert_eq!(assigned, [("b", "new.b".to_string()), ("a", "values(a)".to_string())], "{sql}");
    }
    let named = insert("insert into t values (1, 2) as r(x, y) on duplicate key update b = y");
    assert_eq!(named.rows_as, Some(("r".into(), vec!["x".into(), "y".into()])));
}

#[test]
fn show_statements() {
    let show = |sql: &str| match one(sql) {
        Statement::Show(s) => s,
        other => panic!("{other:?}"),
    };
    assert_eq!(
        show("SHOW FULL TABLES FROM `db` LIKE 'a%'").kind,
        ShowKind::Tables { full: true, from: Some(name("db")) }
    );
    assert_eq!(show("show full columns from t from d").kind, ShowKind::Columns { full: true, table: name("d.t") });
    assert_eq!(show("show fields in d.t like '%'").kind, ShowKind::Columns { full: false, table: name("d.t") });
    assert_eq!(
        show("show global variables where variable_name in ('a', 'b')").kind,
        ShowKind::Variables(Scope::Global)
    );
    assert_eq!(show("show character set").kind, ShowKind::Charset);
    assert_eq!(show("show count(*) warnings").kind, ShowKind::Warnings { count: true });
    assert_eq!(show("show warnings limit 5, 10").limit, Some((5, 10)));
    assert_eq!(
        show("show grants for 'admin'@'%'").kind,
        ShowKind::Grants { user: Some(user("admin", Some("%"))), all: false }
    );
    assert_eq!(
        show("show grants for root@localhost").kind,
        ShowKind::Grants { user: Some(user("root", Some("localhost"))), all: false }
    );
    assert_eq!(show("show proc '/frontends'").kind, ShowKind::Proc("frontends".into()));
    assert_eq!(show("show create table a.b").kind, ShowKind::CreateTable(name("a.b")));
    for sql in [
        "show databases",
        "show schemas like 'x'",
        "show tables",
        "show table status from d like 't'",
        "show create database d",
        "show create view v",
        "show index from t",
        "show keys from t in d",
        "show partitions from t",
        "show partitions t partition (dt='x')",
        "show session status",
        "show status like 'Threads%'",
        "show processlist",
        "show full processlist",
        "show errors",
        "show engines",
        "show storage engines",
        "show charset",
        "show collation where charset = 'utf8mb4'",
        "show plugins",
        "show privileges",
        "show grants",
        "show functions",
        "show full builtin functions",
        "show triggers from d",
        "show events in d",
        "show procedure status",
        "show catalogs",
        "show backends",
        "show frontends",
        "show query profile '/'",
        "show profile for query 3",
        "show profiles",
        "show open tables",
        "show tablets from t",
        "show load where label = 'x'",
        "show views from d",
        "show master status",
        "show alter table column from d",
        "show all grants",
        "show variables like 'sql\\_mode'",
    ] {
        show(sql);
    }
    assert_eq!(error("show tabels").message, "expected what to show, found 'tabels'; did you mean SHOW TABLES?");
}

#[test]
fn rows_become_variables() {
    for sql in [
        "select a, b into @x, @Y from t limit 1",
        "select a, b from t limit 1 into @x, @Y",
        "(select a, b from t limit 1) into @x, @Y",
    ] {
        let Statement::SelectIntoVariables { source, names } = one(sql) else { panic!("{sql}") };
        assert_eq!(names, ["x", "Y"], "{sql}");
        assert!(source.ast.to_string().to_lowercase().contains("select a, b from t limit 1"), "{sql}: {}", source.ast);
    }
    assert!(matches!(one("select 1 into outfile '/x'"), Statement::SelectIntoOutfile(_)));
    assert!(error("select 1 into x").message.contains("for procedures"));
    assert!(error("select 1 into @x,").message.contains("a user variable"));
    assert!(error("select 1 into @@x").message.contains("a user variable"));
}

#[test]
fn materialized_views_keep_their_clauses() {
    let Statement::CreateView(view) = one("create materialized view m (a) build deferred  comment 'c' as select 1")
    else {
        panic!("no view")
    };
    assert_eq!((view.kind, view.clauses.as_str()), (ViewKind::Materialized, "build deferred  comment 'c'"));
    let Statement::CreateView(view) = one("create view v as select 1") else { panic!("no view") };
    assert_eq!((view.kind, view.clauses.as_str()), (ViewKind::Plain, ""));
    for (sql, table) in
        [("show create materialized view d.m", None), ("show create materialized view d.m on t", Some(name("t")))]
    {
        let Statement::Show(show) = one(sql) else { panic!("{sql}") };
        assert_eq!(show.kind, ShowKind::CreateMaterializedView { name: name("d.m"), table }, "{sql}");
    }
}

#[test]
fn columns_of_dumps_have_types() {
    let sql = "create table t (k int, s set('a','bc') default 'a', y year(4), z year not null, v variant<'a' : int, 'b' : array<string>>)";
    let Statement::CreateTable(create) = one(sql) else { panic!("no table") };
    let types: Vec<_> = create.columns.iter().map(|c| (c.data_type.to_string(), c.paths.as_deref())).collect();
    let wanted = [
        ("int", None),
        ("varchar(4)", None),
        ("smallint", None),
        ("smallint", None),
        ("variant", Some("<'a' : int, 'b' : array<string>>")),
    ];
    assert_eq!(types, wanted.map(|(name, paths)| (name.to_string(), paths)));
    assert!(create.to_string().contains("`v` variant<'a' : int, 'b' : array<string>> NULL"), "{create}");
    assert!(error("create table t (y year(2))").message.contains("two digits"));
}

#[test]
fn a_table_in_place_of_a_query() {
    let Statement::CreateView(view) = one("create view w as table u order by 1") else { panic!("a view") };
    assert!(matches!(*view.query.ast.body, sqlparser::ast::SetExpr::Select(_)));
    for sql in ["create view w as table u u", "select 1 union table u x", "insert into t table u where a"] {
        assert!(error(sql).code == 1064, "{sql}");
    }
    assert!(matches!(one("create table t (table int)"), Statement::CreateTable(_)));
}

#[test]
fn explain_and_describe() {
    assert!(matches!(one("explain analyze verbose select 1"), Statement::Explain { analyze: true, verbose: true, .. }));
    assert!(matches!(one("explain format=json select 1"), Statement::Explain { format: Some(f), .. } if f == "JSON"));
    assert!(matches!(one("desc select 1"), Statement::Explain { analyze: false, .. }));
    assert!(matches!(one("explain insert into t select 1"), Statement::Explain { .. }));
    assert_eq!(
        one("desc d.t"),
        Statement::Describe {
            target: DescribeTarget::Table { name: name("d.t"), column: None },
            detail: DescribeDetail::Columns
        }
    );
    assert!(matches!(one("describe extended t"), Statement::Describe { detail: DescribeDetail::Comments, .. }));
    for all in ["desc t all", "desc all t", "explain t all"] {
        assert!(matches!(one(all), Statement::Describe { detail: DescribeDetail::Indexes, .. }), "{all}");
    }
    assert!(matches!(one("explain t"), Statement::Describe { .. }));
    assert!(matches!(one("desc files('path'='x.csv')"), Statement::Describe { target: DescribeTarget::Query(_), .. }));
    assert!(matches!(one("desc 'x.csv'"), Statement::Describe { target: DescribeTarget::Query(_), .. }));
}

#[test]
fn other_ddl() {
    assert!(matches!(one("create or replace view v (a, b comment 'x') comment 'c' as select 1, 2"),
        Statement::CreateView(CreateView { or_replace: true, query, .. }) if query.text == "select 1, 2"));
    assert!(matches!(
        one("create algorithm=undefined definer=`root`@`%` sql security definer view v as select 1"),
        Statement::CreateView(_)
    ));
    assert!(matches!(
        one("create database if not exists d default character set utf8mb4"),
        Statement::CreateDatabase { .. }
    ));
    assert!(
        matches!(one("drop table if exists a, b.c force"), Statement::Drop { names, force: true, .. } if names.len() == 2)
    );
    assert!(matches!(one("alter table t add if not exists partition (dt='a') location '/x' partition (dt='b')"),
        Statement::AlterTable { changes, .. } if changes.len() == 2));
    assert!(matches!(one("alter table t drop if exists partition (dt='a'), partition (dt='b')"),
        Statement::AlterTable { changes, .. } if changes.len() == 2));
    for sql in [
        "alter table t rename to u",
        "alter table t rename u",
        "alter table t set tblproperties ('a'='b')",
        "alter table t set ('a'='b')",
        "alter table t change a b int comment 'x'",
        "alter table t add columns (a int, b string)",
        "alter table t replace columns (a int)",
        "alter table t set location '/x'",
        "alter table t recover partitions",
        "alter table t set serdeproperties ('field.delim' = ',')",
        "msck repair table t",
        "msck repair table t sync partitions",
        "refresh table t",
        "truncate table t partition (a)",
        "analyze table t",
        "sync",
        "flush privileges",
        "unlock tables",
        "do 1, sleep(0)",
        "help 'select'",
        "table t limit 1",
        "create table a like b",
        "alter view v as select 1",
        "alter view d.v (a, b comment 'x') as select 1, 2",
        "alter view v modify comment 'x'",
    ] {
        one(sql);
    }
}

#[test]
fn casts_take_every_type() {
    for t in [
        "signed",
        "unsigned integer",
        "char(10)",
        "char character set utf8mb4",
        "datetime(6)",
        "string",
        "largeint",
        "double",
        "json",
        "array<array<int>>",
        "map<string,array<int>>",
        "struct<a:int,b:string>",
        "decimal(10,2)",
        "date",
        "binary",
    ] {
        query(&format!("select cast(a as {t}) x from t"));
    }
    query("SELECT CAST('test collated returns' AS CHAR CHARACTER SET utf8mb4) COLLATE utf8mb4_bin AS anon_1");
    query("select convert(a, signed), convert(b using utf8mb4), _utf8'abc', binary 'a' = 'A'");
}

#[test]
fn errors_say_what_where_and_what_next() {
    let e = error("select 1;\nselcet 2");
    assert_eq!(e.to_string(), "expected a statement, found 'selcet'; did you mean SELECT? at line 2, column 1");
    assert_eq!(e.caret(), "selcet 2\n^^^^^^");
    assert_eq!((e.code, e.sqlstate), (1064, "42000"));
    let e = error("select a from t where = b");
    assert_eq!(e.caret(), "select a from t where = b\n                      ^");
    let e = error("select a from");
    assert!(e.message.ends_with("found the end of the statement"), "{}", e.message);
    let e = error("select 'é', * fro t x y");
    assert_eq!(e.position.as_ref().unwrap().column, 15, "{e}");
    assert_eq!(error("select 'abc").message, "string is not closed, expected '");
    assert_eq!(error("export table t").code, 1235);
    assert_eq!(error("table t into outfile '/tmp/x'").code, 1235);
    assert_eq!(error("table into nothing").code, 1235);
    assert!(matches!(one("table `into` limit 1"), Statement::Query(_)));
    assert!(error("merge into t").message.starts_with("expected USING"));
    for sql in
        ["create", "show", "set", "set a", "drop table", "alter table t", "use", "kill x", "select \u{1}", "(", "'a'"]
    {
        assert_eq!(error(sql).sqlstate, "42000", "{sql}");
    }
}

#[test]
fn nothing_panics_on_cut_statements() {
    let whole = "create external table t (a array<map<string,int>> comment 'x') partitioned by (b int) row format delimited \
        fields terminated by '\\001' stored as textfile location 'x' tblproperties ('a'='b'); insert into t partition (a='b') \
        values (1,'x') on duplicate key update a = 1; select /*+ set_var(a=b) */ case when a then b end, `x` from 'é.csv' \
        into outfile \"x\" format as csv properties(\"a\"=\"b\"); show grants for 'a'@'b'; set @a.b = 1, @@global.x = default; \
        copy (select 1) to 'x' (format csv); explain analyze select cast(a as struct<a:int>); alter table t drop partition (a=1)";
    for end in 0..whole.len() {
        if whole.is_char_boundary(end) {
            let _ = parse(&whole[..end], &ParseOptions::default()).map_err(|e| e.caret());
            let _ = parse(&whole[end..], &ParseOptions::default()).map_err(|e| e.caret());
        }
    }
}

#[test]
fn users_roles_and_grants() {
    let access = |sql: &str| match one(sql) {
        Statement::Access(a) => a,
        other => panic!("{sql}: {other:?}"),
    };
    let AccessStatement::CreateUser(create) =
        access("create user if not exists 'a'@'10.%' identified by 'pw', b default role 'r1', r2 comment 'c'")
    else {
        panic!("CREATE USER expected")
    };
    assert_eq!(create.users[0], (user("a", Some("10.%")), Some(Identified::By(SecretText::new("pw".into())))));
    assert_eq!(create.users[1], (user("b", None), None));
    assert_eq!((create.if_exists, create.roles), (true, vec!["r1".to_string(), "r2".into()]));
    assert!(!format!("{:?}", create.users).contains("pw"));
    let alter =
        access("alter user u identified with mysql_native_password as '*14E65567ABDB5135D0CFD9A70B3032C179A49EE7'");
    assert!(matches!(alter, AccessStatement::AlterUser(d) if matches!(d.users[0].1, Some(Identified::ByHash(_)))));

    use dipper_base::policy::{PolicyChange, UNBOUNDED};
    use dipper_base::privileges::Privileges;
    for (rules, expected) in [
        (
            "password_history 3 password_expire interval 10 day failed_login_attempts 3 password_lock_time 2 hour",
            PolicyChange {
                history: Some(3),
                expire_seconds: Some(864_000),
                failed_logins: Some(3),
                lock_seconds: Some(7_200),
                ..PolicyChange::default()
            },
        ),
        (
            "failed_login_attempts 4 password_lock_time 1",
            PolicyChange { failed_logins: Some(4), lock_seconds: Some(86_400), ..PolicyChange::default() },
        ),
        (
            "password expire never password history default password_lock_time unbounded account_unlock",
            PolicyChange {
                history: Some(0),
                expire_seconds: Some(0),
                lock_seconds: Some(UNBOUNDED),
                unlock: true,
                ..PolicyChange::default()
            },
        ),
        ("account_unlock account lock", PolicyChange { lock: true, ..PolicyChange::default() }),
        ("require none password reuse interval default", PolicyChange::default()),
        ("", PolicyChange::default()),
    ] {
        let AccessStatement::AlterUser(define) =
            access(&format!("alter user u identified by 'pw' {rules} comment 'c'"))
        else {
            panic!("ALTER USER expected")
        };
        assert_eq!((define.policy, define.comment.as_deref()), (expected, Some("c")), "{rules}");
    }
    let grant = |sql: &str| match access(sql) {
        AccessStatement::Grant(g) | AccessStatement::Revoke(g) => g,
        other => panic!("{sql}: {other:?}"),
    };
    for (sql, expected, on) in [
        (
            "grant select_priv, load_priv on *.*.* to 'u'@'%'",
            Privileges::SELECT | Privileges::LOAD,
            GrantOn::Everything,
        ),
        ("grant select on ctl.*.* to u", Privileges::SELECT, GrantOn::Catalog("ctl".into())),
        ("GRANT ALTER_PRIV ON db.* TO ROLE 'r'", Privileges::ALTER, GrantOn::Database(name("db"))),
        ("grant drop_priv on internal.db.* to u", Privileges::DROP, GrantOn::Database(name("internal.db"))),
        (
            "grant insert, update on table db.t to u@localhost",
            Privileges::INSERT | Privileges::UPDATE,
            GrantOn::Table(name("db.t")),
        ),
        (
            "grant show view, create view on t to user u",
            Privileges::SHOW_VIEW | Privileges::CREATE_VIEW,
            GrantOn::Table(name("t")),
        ),
        ("grant delete on all tables in database db to role r", Privileges::DELETE, GrantOn::Database(name("db"))),
        ("grant create on database db to u", Privileges::CREATE, GrantOn::Database(name("db"))),
        ("revoke grant option on * from u", Privileges::GRANT, GrantOn::SelectedDatabase),
        (
            "grant select on db.t to u with grant option",
            Privileges::SELECT | Privileges::GRANT,
            GrantOn::Table(name("db.t")),
        ),
    ] {
        match grant(sql).what {
            Granted::Privileges { privileges, all: false, inert, on: found } => {
                assert_eq!((privileges, found), (expected, on), "{sql}");
                assert!(inert.is_empty());
            }
            other => panic!("{sql}: {other:?}"),
        }
    }
    assert!(matches!(
        grant("grant all privileges, index on *.* to u").what,
        Granted::Privileges { all: true, inert, .. } if inert == ["INDEX"]
    ));
    assert_eq!(grant("grant 'r1', r2 to 'u'@'%', v").what, Granted::Roles(vec!["r1".into(), "r2".into()]));
    assert_eq!(grant("revoke 'r1' from u").grantees, [GranteeName::User(user("u", None))]);
    assert_eq!(grant("revoke all privileges, grant option from u").what, Granted::Everything);
    assert_eq!(grant("grant select on *.* to role role").grantees, [GranteeName::Role("role".into())]);
    for (sql, part) in [
        ("grant selct on *.* to u", "expected a privilege, found 'selct'; did you mean SELECT?"),
        ("grant select (a) on t to u", "privileges on columns are not supported"),
        ("grant select on *.t to u", "expected *.*"),
        ("grant select on t from u", "expected TO"),
        ("create user u identified with ldap by 'x'", "authentication plugin 'ldap' is not supported"),
        ("grant select on t to u identified by 'x'", "CREATE USER or ALTER USER first"),
        ("create user u password_expire", "expected NEVER, DEFAULT or INTERVAL"),
        ("create user u password_lock_time 100000 day", "at most 100 years"),
        ("create user u require ssl", "'require' of users is not supported"),
        ("create user u with max_rows 5", "expected MAX_QUERIES_PER_HOUR or"),
        ("create user 'u'@('example.org')", "host names are not looked up"),
        ("create user u@('example.org')", "host names are not looked up"),
        ("grant select on *.* to 'u'@['example.org']", "host names are not looked up"),
        ("alter role r", "expected COMMENT"),
        ("grant usage_priv on resource 'x' to u", "there is none"),
    ] {
        let e = error(sql).to_string();
        assert!(e.contains(part), "{sql}: {e}");
    }
}

#[test]
fn properties_of_users() {
    let Statement::Access(AccessStatement::SetProperty { user, properties }) =
        one("SET PROPERTY FOR 'root' 'max_user_connections' = '10000'")
    else {
        panic!("SET PROPERTY expected")
    };
    assert_eq!((user.as_deref(), properties), (Some("root"), pairs(&[("max_user_connections", "10000")])));
    for (rest, expected) in [
        (
            "set properties ('max_user_connections' = '10', \"a\" = 'b')",
            &[("max_user_connections", "10"), ("a", "b")][..],
        ),
        (
            "require none with max_queries_per_hour 5 max_user_connections 2 account unlock",
            &[("max_queries_per_hour", "5"), ("max_user_connections", "2")],
        ),
    ] {
        let Statement::Access(AccessStatement::AlterUser(define)) = one(&format!("alter user u {rest}")) else {
            panic!("ALTER USER expected")
        };
        assert_eq!(define.properties, pairs(expected), "{rest}");
    }
    let Statement::Access(AccessStatement::AlterRole { name, comment }) = one("ALTER ROLE 'r' COMMENT 'x'") else {
        panic!("ALTER ROLE expected")
    };
    assert_eq!((name.as_str(), comment.as_str()), ("r", "x"));
    let Statement::Show(show) = one("SHOW PROPERTY FOR 'root' LIKE '%max_user_connections%'") else { panic!() };
    assert_eq!(show.kind, ShowKind::Properties { user: Some("root".into()), all: false });
    assert_eq!(show.filter, Some(ShowFilter::Like("%max_user_connections%".into())));
    assert!(matches!(one("set property = 1"), Statement::Set(_)), "a variable of that name");
}

#[test]
fn passwords_are_not_shown() {
    for (sql, shown) in [
        ("create user 'u' identified by 'pw'", "create user 'u' <secret>"),
        ("set password for u = PASSWORD('pw')", "set <secret>"),
        ("set a = 1", "set a = 1"),
    ] {
        assert_eq!(one(sql).shown(sql), shown);
        assert!(!format!("{:?}", one(sql)).contains("pw"));
    }
}

#[test]
fn storage_volumes_and_the_cache() {
    let created = one(
        "CREATE STORAGE VOLUME IF NOT EXISTS v TYPE = S3 LOCATIONS = ('s3://b/x') COMMENT 'c' PROPERTIES ('a' = 'b')",
    );
    let expected = Statement::CreateVolume {
        name: "v".into(),
        if_not_exists: true,
        kind: "S3".into(),
        locations: vec!["s3://b/x".into()],
        comment: Some("c".into()),
        properties: pairs(&[("a", "b")]),
    };
    assert_eq!(created, expected);
    let altered = one("ALTER STORAGE VOLUME v COMMENT = 'd' SET ('a' = 'c')");
    let expected = |if_exists| Statement::AlterVolume {
        name: "v".into(),
        if_exists,
        comment: Some("d".into()),
        properties: pairs(&[("a", "c")]),
    };
    assert_eq!(altered, expected(false));
    assert_eq!(one("ALTER STORAGE VOLUME IF EXISTS v COMMENT 'd' SET ('a' = 'c')"), expected(true));
    assert_eq!(one("DROP STORAGE VOLUME IF EXISTS v"), Statement::DropVolume { name: "v".into(), if_exists: true });
    assert_eq!(one("SET `v` AS DEFAULT STORAGE VOLUME"), Statement::DefaultVolume("v".into()));
    assert!(matches!(one("SET v = 1"), Statement::Set(_)));
    let shown = |sql| match one(sql) {
        Statement::Show(show) => show.kind,
        other => panic!("{sql}: {other:?}"),
    };
    assert_eq!(shown("SHOW STORAGE VOLUMES LIKE 'x'"), ShowKind::Volumes);
    assert_eq!(shown("DESC STORAGE VOLUME v"), ShowKind::Volume("v".into()));
    let cached = |sql| match one(sql) {
        Statement::CacheSelect { query, properties } => (query.text, properties),
        other => panic!("{sql}: {other:?}"),
    };
    assert_eq!(
        cached("CACHE SELECT a, b FROM t WHERE f(a) > 1"),
        ("SELECT a, b FROM t WHERE f(a) > 1".into(), Vec::new())
    );
    assert_eq!(
        cached("CACHE SELECT * FROM d.t PROPERTIES ('verbose' = 'true')"),
        ("SELECT * FROM d.t".into(), vec![("verbose".into(), "true".into())])
    );
    for bad in ["CACHE t", "ALTER STORAGE VOLUME v", "CREATE STORAGE VOLUME v", "CREATE STORAGE VOLUME v TYPE = S3"] {
        error(bad);
    }
}

#[test]
fn catalogs_in_the_words_of_doris_and_starrocks() {
    use dipper_dialect::statement::{CatalogAlteration, ShowKind};
    let one = |sql: &str| parse(sql, &ParseOptions::default()).unwrap().remove(0).statement;
    for sql in [
        "CREATE CATALOG IF NOT EXISTS h COMMENT 'c' PROPERTIES ('type'='hms', 'hive.metastore.uris'='thrift://m:9083')",
        "CREATE EXTERNAL CATALOG IF NOT EXISTS h COMMENT \"c\" PROPERTIES (\"type\"=\"hms\", hive.metastore.uris=\"thrift://m:9083\")",
    ] {
        let Statement::CreateCatalog { name, if_not_exists: true, comment, properties } = one(sql) else {
            panic!("{sql}")
        };
        assert_eq!((name.as_str(), comment.as_deref(), properties.len()), ("h", Some("c"), 2));
    }
    let altered = |sql: &str| match one(sql) {
        Statement::AlterCatalog { change, .. } => change,
        other => panic!("{other:?}"),
    };
    let set = CatalogAlteration::SetProperties(vec![("a".into(), "b".into())]);
    assert_eq!(altered("ALTER CATALOG h SET PROPERTIES ('a'='b')"), set);
    assert_eq!(altered("ALTER CATALOG h SET ('a'='b')"), set);
    assert_eq!(altered("ALTER CATALOG h RENAME g"), CatalogAlteration::Rename("g".into()));
    assert_eq!(altered("ALTER CATALOG h MODIFY COMMENT 'x'"), CatalogAlteration::Comment("x".into()));
    assert_eq!(one("DROP CATALOG IF EXISTS 'h'"), Statement::DropCatalog { name: "h".into(), if_exists: true });
    assert_eq!(one("SET CATALOG h"), Statement::SwitchCatalog("h".into()));
    assert_eq!(one("SWITCH h"), Statement::SwitchCatalog("h".into()));
    assert!(matches!(one("SET catalog = 'h'"), Statement::Set(_)));
    let shown = |sql: &str| match one(sql) {
        Statement::Show(show) => show.kind,
        other => panic!("{other:?}"),
    };
    assert_eq!(shown("SHOW CREATE CATALOG h"), ShowKind::CreateCatalog("h".into()));
    assert_eq!(shown("SHOW CATALOG h"), ShowKind::Catalog("h".into()));
    assert!(matches!(one("REFRESH EXTERNAL TABLE h.d.t PARTITION ('dt=1', 'dt=2')"), Statement::Refresh { .. }));
    assert!(matches!(
        one("REFRESH CATALOG h PROPERTIES('invalid_cache'='true')"),
        Statement::Refresh { kind: None, .. }
    ));
}
