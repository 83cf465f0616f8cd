//! Tests of statements about native tables: the resulting statements, and the texts and places of errors.

use dipper_base::types::SqlType;
use dipper_dialect::error::SqlError;
use dipper_dialect::parser::{ParseOptions, parse};
use dipper_dialect::statement::*;

fn one(sql: &str) -> Statement {
    let mut parsed = parse(sql, &ParseOptions::default()).unwrap_or_else(|e| panic!("{sql}\n{e}\n{}", e.caret()));
    assert_eq!(parsed.len(), 1, "{sql}");
    parsed.remove(0).statement
}

fn create(sql: &str) -> CreateTable {
    match one(sql) {
        Statement::CreateTable(t) => *t,
        other => panic!("{sql}: {other:?}"),
    }
}

fn alter(sql: &str) -> Vec<TableChange> {
    match one(&format!("alter table t {sql}")) {
        Statement::AlterTable { name, if_exists: false, changes } if name == self::name("t") => changes,
        other => panic!("{sql}: {other:?}"),
    }
}

fn show(sql: &str) -> Show {
    match one(sql) {
        Statement::Show(show) => show,
        other => panic!("{sql}: {other:?}"),
    }
}

fn error(sql: &str) -> SqlError {
    match parse(sql, &ParseOptions::default()) {
        Ok(parsed) => panic!("{sql}: {parsed:?}"),
        Err(e) => e,
    }
}

/// Returns the text under the caret and the message.
fn caret(sql: &str) -> (String, String) {
    let e = error(sql);
    let at = e.position.clone().expect("a place");
    let under = at.excerpt.chars().skip(at.excerpt_column).take(at.width).collect();
    (under, e.message)
}

fn name(text: &str) -> Name {
    Name(text.split('.').map(String::from).collect())
}

fn names(list: &[&str]) -> Vec<String> {
    list.iter().map(ToString::to_string).collect()
}

fn pairs(list: &[(&str, &str)]) -> Properties {
    list.iter().map(|(a, b)| (a.to_string(), b.to_string())).collect()
}

fn value(text: &str) -> PartitionValue {
    PartitionValue::Value(Some(text.to_string()))
}

fn key(model: Model, columns: &[&str]) -> Option<KeyClause> {
    Some(KeyClause { model, primary: false, columns: names(columns) })
}

/// The statement of article 001.
const ROW_PART: &str = r#"CREATE TABLE `row_part` (
`p_partkey` int(11) NULL,
`p_name` varchar(69) NULL,
`p_mfgr` varchar(21) NULL,
`p_category` varchar(24) NULL,
`p_brand` varchar(30) NULL,
`p_color` varchar(36) NULL,
`p_type` varchar(78) NULL,
`p_size` int(11) NULL,
`p_container` varchar(33) NULL
) ENGINE=OLAP
Unique KEY(`p_partkey`, `p_name`)
COMMENT 'OLAP'
DISTRIBUTED BY HASH(`p_partkey`, `p_name`) BUCKETS 10
PROPERTIES (
"replication_allocation" = "tag.location.default: 1",
"light_schema_change" = "true",
"store_row_column" = "true" ,
"enable_unique_key_merge_on_write" = "true" 
);"#;

#[test]
fn the_table_of_article_001() {
    let t = create(ROW_PART);
    assert_eq!(t.name, name("row_part"));
    assert_eq!(t.columns.len(), 9);
    assert_eq!((t.columns[0].name.as_str(), &t.columns[0].data_type), ("p_partkey", &SqlType::Int));
    assert_eq!(t.columns[1].data_type, SqlType::Varchar(Some(69)));
    assert!(t.columns.iter().all(|c| !c.not_null));
    assert_eq!(t.engine.as_deref(), Some("OLAP"));
    assert_eq!(t.key, key(Model::Unique, &["p_partkey", "p_name"]));
    assert_eq!(t.comment.as_deref(), Some("OLAP"));
    let hash = Some(names(&["p_partkey", "p_name"]));
    assert_eq!(t.distribution, Some(DistributionClause { hash, buckets: Some(10) }));
    assert_eq!(t.properties.len(), 4);
    assert_eq!(t.properties[0], ("replication_allocation".into(), "tag.location.default: 1".into()));
}

/// Returns the statements of article 003, whose copy has lost its line breaks (`ENGINE=OLAPDUPLICATE KEY`): they are
/// put back before the words that open clauses. (`)` before `COMMENT` also ends a column list in the article's other
/// tables.)
fn article_003() -> Vec<String> {
    let broken = [
        r#"CREATE TABLE IF NOT EXISTS `lineorder` (    `lo_orderkey` bigint(20) NOT NULL COMMENT "",    `lo_linenumber` int(11) NOT NULL COMMENT "",    `lo_custkey` int(11) NOT NULL COMMENT "",    `lo_partkey` int(11) NOT NULL COMMENT "",    `lo_suppkey` int(11) NOT NULL COMMENT "",    `lo_orderdate` int(11) NOT NULL COMMENT "",    `lo_orderpriority` varchar(16) NOT NULL COMMENT "",    `lo_shippriority` int(11) NOT NULL COMMENT "",    `lo_quantity` int(11) NOT NULL COMMENT "",    `lo_extendedprice` int(11) NOT NULL COMMENT "",    `lo_ordtotalprice` int(11) NOT NULL COMMENT "",    `lo_discount` int(11) NOT NULL COMMENT "",    `lo_revenue` int(11) NOT NULL COMMENT "",    `lo_supplycost` int(11) NOT NULL COMMENT "",    `lo_tax` int(11) NOT NULL COMMENT "",    `lo_commitdate` int(11) NOT NULL COMMENT "",    `lo_shipmode` varchar(11) NOT NULL COMMENT "") ENGINE=OLAPDUPLICATE KEY(`lo_orderkey`)COMMENT "OLAP"PARTITION BY RANGE(`lo_orderdate`)(    PARTITION p1 VALUES [("-2147483648"), ("19930101")),    PARTITION p2 VALUES [("19930101"), ("19940101")),    PARTITION p3 VALUES [("19940101"), ("19950101")),    PARTITION p4 VALUES [("19950101"), ("19960101")),    PARTITION p5 VALUES [("19960101"), ("19970101")),    PARTITION p6 VALUES [("19970101"), ("19980101")),    PARTITION p7 VALUES [("19980101"), ("19990101")))DISTRIBUTED BY HASH(`lo_orderkey`) BUCKETS 5PROPERTIES (    "datacache.enable" = "false");"#,
        r#"CREATE TABLE IF NOT EXISTS `customer` ( `c_custkey` int(11) NOT NULL COMMENT "", `c_name` varchar(26) NOT NULL COMMENT "", `c_address` varchar(41) NOT NULL COMMENT "", `c_city` varchar(11) NOT NULL COMMENT "", `c_nation` varchar(16) NOT NULL COMMENT "", `c_region` varchar(13) NOT NULL COMMENT "", `c_phone` varchar(16) NOT NULL COMMENT "", `c_mktsegment` varchar(11) NOT NULL COMMENT "") ENGINE=OLAPDUPLICATE KEY(`c_custkey`)COMMENT "OLAP"DISTRIBUTED BY HASH(`c_custkey`) BUCKETS 5PROPERTIES ( "datacache.enable" = "false");"#,
        r#"CREATE TABLE IF NOT EXISTS `dates` ( `d_datekey` int(11) NOT NULL COMMENT "", `d_date` varchar(20) NOT NULL COMMENT "", `d_dayofweek` varchar(10) NOT NULL COMMENT "", `d_month` varchar(11) NOT NULL COMMENT "", `d_year` int(11) NOT NULL COMMENT "", `d_yearmonthnum` int(11) NOT NULL COMMENT "", `d_yearmonth` varchar(9) NOT NULL COMMENT "", `d_daynuminweek` int(11) NOT NULL COMMENT "", `d_daynuminmonth` int(11) NOT NULL COMMENT "", `d_daynuminyear` int(11) NOT NULL COMMENT "", `d_monthnuminyear` int(11) NOT NULL COMMENT "", `d_weeknuminyear` int(11) NOT NULL COMMENT "", `d_sellingseason` varchar(14) NOT NULL COMMENT "", `d_lastdayinweekfl` int(11) NOT NULL COMMENT "", `d_lastdayinmonthfl` int(11) NOT NULL COMMENT "", `d_holidayfl` int(11) NOT NULL COMMENT "", `d_weekdayfl` int(11) NOT NULL COMMENT "") ENGINE=OLAPDUPLICATE KEY(`d_datekey`)COMMENT "OLAP"DISTRIBUTED BY HASH(`d_datekey`) BUCKETS 1PROPERTIES ( "datacache.enable" = "false");"#,
        r#"CREATE TABLE IF NOT EXISTS `part` ( `p_partkey` int(11) NOT NULL COMMENT "", `p_name` varchar(23) NOT NULL COMMENT "", `p_mfgr` varchar(7) NOT NULL COMMENT "", `p_category` varchar(8) NOT NULL COMMENT "", `p_brand` varchar(10) NOT NULL COMMENT "", `p_color` varchar(12) NOT NULL COMMENT "", `p_type` varchar(26) NOT NULL COMMENT "", `p_size` int(11) NOT NULL COMMENT "", `p_container` varchar(11) NOT NULL COMMENT "") ENGINE=OLAPDUPLICATE KEY(`p_partkey`)COMMENT "OLAP"DISTRIBUTED BY HASH(`p_partkey`) BUCKETS 5PROPERTIES ( "datacache.enable" = "false");"#,
        r#"CREATE TABLE IF NOT EXISTS `supplier` ( `s_suppkey` int(11) NOT NULL COMMENT "", `s_name` varchar(26) NOT NULL COMMENT "", `s_address` varchar(26) NOT NULL COMMENT "", `s_city` varchar(11) NOT NULL COMMENT "", `s_nation` varchar(16) NOT NULL COMMENT "", `s_region` varchar(13) NOT NULL COMMENT "", `s_phone` varchar(16) NOT NULL COMMENT "") ENGINE=OLAPDUPLICATE KEY(`s_suppkey`)COMMENT "OLAP"DISTRIBUTED BY HASH(`s_suppkey`) BUCKETS 5PROPERTIES ( "datacache.enable" = "false");"#,
    ];
    let openers = ["DUPLICATE KEY", "COMMENT \"OLAP\"", "PARTITION BY", "DISTRIBUTED BY", "PROPERTIES ("];
    let mend = |text: &str| openers.iter().fold(text.to_string(), |t, o| t.replace(o, &format!("\n{o}")));
    broken.iter().map(|text| mend(text)).collect()
}

#[test]
fn the_tables_of_article_003() {
    let tables: Vec<CreateTable> = article_003().iter().map(|sql| create(sql)).collect();
    let shapes: Vec<_> = tables.iter().map(|t| (t.name.object(), t.columns.len())).collect();
    assert_eq!(shapes, [("lineorder", 17), ("customer", 8), ("dates", 17), ("part", 9), ("supplier", 7)]);
    for t in &tables {
        assert!(t.if_not_exists && t.columns.iter().all(|c| c.not_null && c.comment.as_deref() == Some("")));
        assert_eq!(t.key, key(Model::Duplicate, &[&t.columns[0].name]));
        assert_eq!(t.properties, pairs(&[("datacache.enable", "false")]));
        assert_eq!(t.distribution.as_ref().unwrap().buckets, Some(if t.name.object() == "dates" { 1 } else { 5 }));
    }
    let by = tables[0].partition_by.as_ref().unwrap();
    assert_eq!((by.kind, by.auto), (PartitionKind::Range, false));
    assert_eq!(by.by, [PartitionExpr::Column("lo_orderdate".into())]);
    assert_eq!(by.partitions.len(), 7);
    assert_eq!(
        by.partitions[0],
        PartitionItem::One(PartitionDef {
            name: "p1".into(),
            if_not_exists: false,
            values: PartitionValues::Range { lower: vec![value("-2147483648")], upper: vec![value("19930101")] },
            properties: Vec::new(),
        })
    );
}

#[test]
fn columns_with_everything() {
    let t = create(
        r#"CREATE TABLE IF NOT EXISTS d.t (
        id BIGINT NOT NULL AUTO_INCREMENT(100) COMMENT "the id",
        k2 LARGEINT KEY,
        a BITMAP BITMAP_UNION NOT NULL DEFAULT BITMAP_EMPTY,
        b HLL HLL_UNION DEFAULT HLL_EMPTY,
        c DECIMAL(27, 9) SUM DEFAULT "0.5" NULL COMMENT '金额',
        d DATETIME(3) REPLACE_IF_NOT_NULL DEFAULT CURRENT_TIMESTAMP(3) ON UPDATE CURRENT_TIMESTAMP(3),
        e DATE REPLACE DEFAULT CURRENT_DATE,
        f DOUBLE DEFAULT PI MAX,
        g INT NULL DEFAULT NULL MIN,
        h DATETIME DEFAULT NOW() ON UPDATE NOW(),
        i INT DEFAULT -1, j BOOLEAN DEFAULT TRUE, k VARCHAR(*) DEFAULT '',
        l ARRAY<INT> DEFAULT '[]', m JSON, n STRUCT<a:INT, b:ARRAY<MAP<STRING,INT>>> COMMENT 'x', o VARIANT
    ) AGGREGATE KEY(id, k2) DISTRIBUTED BY RANDOM BUCKETS AUTO"#,
    );
    let c = |at: usize| &t.columns[at];
    assert_eq!((c(0).auto_increment, c(0).not_null, c(0).comment.as_deref()), (Some(100), true, Some("the id")));
    assert!(c(1).key && c(1).data_type == SqlType::LargeInt);
    assert_eq!((c(2).aggregate, &c(2).default), (Some(Aggregate::BitmapUnion), &Some(DefaultValue::Empty)));
    assert_eq!((c(3).aggregate, &c(3).data_type), (Some(Aggregate::HllUnion), &SqlType::Hll));
    assert_eq!(c(4).default, Some(DefaultValue::Literal(Some("0.5".into()))));
    assert_eq!((c(5).aggregate, c(5).on_update), (Some(Aggregate::ReplaceIfNotNull), Some(3)));
    assert_eq!(c(5).default, Some(DefaultValue::CurrentTimestamp(3)));
    assert_eq!((c(6).aggregate, &c(6).default), (Some(Aggregate::Replace), &Some(DefaultValue::CurrentDate)));
    assert_eq!(c(7).default, Some(DefaultValue::Literal(Some("3.141592653589793".into()))));
    assert_eq!((c(8).aggregate, &c(8).default), (Some(Aggregate::Min), &Some(DefaultValue::Literal(None))));
    assert_eq!((&c(9).default, c(9).on_update), (&Some(DefaultValue::CurrentTimestamp(0)), Some(0)));
    assert_eq!(c(10).default, Some(DefaultValue::Literal(Some("-1".into()))));
    assert_eq!(c(11).default, Some(DefaultValue::Literal(Some("true".into()))));
    assert_eq!(c(13).default, Some(DefaultValue::Literal(Some("[]".into()))));
    assert_eq!(c(15).comment.as_deref(), Some("x"));
    assert_eq!(c(16).data_type, SqlType::Variant);
    assert_eq!(t.distribution, Some(DistributionClause { hash: None, buckets: None }));
    // The order of attributes does not matter.
    let ordered = |sql: &str| create(&format!("create table t ({sql})")).columns;
    assert_eq!(ordered("a int not null default '1' comment 'c'"), ordered("a int comment 'c' default \"1\" not null"));
}

#[test]
fn keys_and_indexes_of_the_dialects() {
    // sysbench.
    let t = create(
        "CREATE TABLE sbtest1(
          id INTEGER NOT NULL AUTO_INCREMENT,
          k INTEGER DEFAULT '0' NOT NULL,
          c CHAR(120) DEFAULT '' NOT NULL,
          pad CHAR(60) DEFAULT '' NOT NULL,
          PRIMARY KEY (id)
        ) /*! ENGINE = innodb */ ",
    );
    assert_eq!(t.key, Some(KeyClause { model: Model::Unique, primary: true, columns: names(&["id"]) }));
    assert_eq!((t.engine.as_deref(), t.columns[0].auto_increment), (Some("innodb"), Some(1)));
    let Statement::CreateIndex(index) = one("CREATE INDEX k_1 ON sbtest1(k)") else { panic!() };
    assert_eq!((index.table, index.index.columns, index.index.using), (name("sbtest1"), names(&["k"]), None));

    // mysqldump.
    let t = create(
        "CREATE TABLE `t` (
          `id` int unsigned NOT NULL AUTO_INCREMENT,
          `a` varchar(10) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin DEFAULT NULL,
          `b` timestamp NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP,
          PRIMARY KEY (`id`) USING BTREE,
          UNIQUE KEY `u` (`a`),
          KEY `k` (`a`(5),`b` DESC) USING BTREE COMMENT 'x'
        ) ENGINE=InnoDB AUTO_INCREMENT=7 DEFAULT CHARSET=utf8mb4 COLLATE=utf8mb4_0900_ai_ci ROW_FORMAT=DYNAMIC COMMENT='c'",
    );
    assert!(t.key.unwrap().primary);
    let index = |name: &str, unique, columns: &[&str], using: Option<&str>, comment: Option<&str>| IndexDef {
        name: Some(name.into()),
        unique,
        columns: names(columns),
        using: using.map(String::from),
        properties: Vec::new(),
        comment: comment.map(String::from),
    };
    assert_eq!(
        t.indexes,
        [index("u", true, &["a"], None, None), index("k", false, &["a", "b"], Some("BTREE"), Some("x"))]
    );
    assert_eq!(t.comment.as_deref(), Some("c"));
    assert_eq!(t.options[0], ("AUTO_INCREMENT".into(), "7".into()));
    assert_eq!(t.options.len(), 4);

    // A lone UNIQUE of MySQL, in any of its forms, is the key.
    for sql in [
        "create table t (a int, b int, unique key u (a, b))",
        "create table t (a int, b int, unique (a, b))",
        "create table t (a int, b int, constraint u unique index (a, b))",
        "create table t (a int, b int) unique key(a, b)",
    ] {
        let t = create(sql);
        assert_eq!((t.key, t.indexes.len()), (key(Model::Unique, &["a", "b"]), 0), "{sql}");
    }
    assert_eq!(create("create table t (a int unique, b int)").key, key(Model::Unique, &["a"]));
    assert!(create("create table t (a int primary key, b int unique)").indexes[0].unique);
    assert!(create("create table t (a int primary key)").columns[0].not_null);

    // StarRocks and Doris.
    let t = create(
        r#"create table t (a int, b string, index i (a) using bitmap comment 'y', index j(b) using inverted
           properties("parser" = "english"), INDEX n (b) USING NGRAM_BF ("gram_num" = "4"))
           primary key (a) distributed by hash(a) order by (b) properties ("enable_persistent_index" = "true")"#,
    );
    let kinds: Vec<_> = t.indexes.iter().map(|i| (i.using.as_deref().unwrap(), i.properties.len())).collect();
    assert_eq!(kinds, [("BITMAP", 0), ("INVERTED", 1), ("NGRAM_BF", 1)]);
    assert_eq!((t.sort_key, t.distribution.unwrap().buckets), (names(&["b"]), None));
    let t = create("create table t (a int, b int) unique key(a) cluster by (b) distributed by hash(a) buckets 1");
    assert_eq!(t.sort_key, ["b"]);
    assert_eq!(create("create table t (a int) duplicate key()").key, key(Model::Duplicate, &[]));

    // Columns may have the names of clauses.
    let t = create("create table t (`key` int, `index` int, key varchar(10), index int, comment string)");
    assert_eq!(t.columns.len(), 5);
    let t = create("create table t (a int, rollup int) rollup (r1 (a), r2 (a, rollup))");
    let rollup = |name: &str, columns: &[&str], keys: &[&str]| RollupDef {
        name: name.into(),
        columns: names(columns),
        keys: names(keys),
    };
    assert_eq!(t.rollups, [rollup("r1", &["a"], &[]), rollup("r2", &["a", "rollup"], &[])]);
    let t = create("create table t (a int, b int,) rollup (r (b, a) duplicate key(b) properties ('x' = 'y'))");
    assert_eq!((t.columns.len(), t.rollups), (2, vec![rollup("r", &["b", "a"], &["b"])]));
    assert_eq!(
        alter("add rollup r (b, a) duplicate key(b) from t, s (a)"),
        [rollup("r", &["b", "a"], &["b"]), rollup("s", &["a"], &[])].map(TableChange::AddRollup)
    );
}

#[test]
fn constraints_are_declared() {
    let constraint = |name: Option<&str>, kind, columns: &[&str]| {
        TableChange::AddConstraint(ConstraintDef { name: name.map(String::from), kind, columns: names(columns) })
    };
    let to_u = || ConstraintKind::Foreign { table: name("u"), columns: names(&["x"]) };
    assert_eq!(
        alter("add constraint c primary key (a, b), add constraint d unique key i (a)"),
        [
            constraint(Some("c"), ConstraintKind::Primary, &["a", "b"]),
            constraint(Some("i"), ConstraintKind::Unique, &["a"])
        ]
    );
    assert_eq!(
        alter(
            "add constraint foreign key (a) references u (x), add foreign key f (a) references u (x) on delete restrict"
        ),
        [constraint(None, to_u(), &["a"]), constraint(Some("f"), to_u(), &["a"])]
    );
    // A constraint may be called like a kind.
    assert_eq!(alter("add constraint unique unique (a)"), [constraint(Some("unique"), ConstraintKind::Unique, &["a"])]);
    let drop = |if_exists, name: &str| TableChange::DropConstraint { if_exists, name: name.into() };
    assert_eq!(
        alter("drop constraint c, drop constraint if exists d, drop foreign key f"),
        [drop(false, "c"), drop(true, "d"), drop(false, "f")]
    );
    assert_eq!(error("alter table t add constraint c foreign key (a) references u (x) on delete cascade").code, 1235);
    assert_eq!(error("alter table t add constraint c check (a > 1)").code, 1235);
    assert!(
        error("alter table t add constraint c (a)").message.starts_with("expected PRIMARY KEY, UNIQUE or FOREIGN KEY")
    );
}

#[test]
fn tables_in_parentheses_are_joined() {
    let query = |sql: &str| match one(sql) {
        Statement::Query(query) => query.ast.to_string(),
        other => panic!("{sql}: {other:?}"),
    };
    for (sql, read) in [
        (
            "SELECT * FROM (a, b AS x, c) LEFT JOIN d USING (k)",
            "(a CROSS JOIN b AS x CROSS JOIN c) LEFT JOIN d USING(k)",
        ),
        (
            "SELECT * FROM (a, b JOIN c ON f(b.x, 1) = c.x, d)",
            "(a CROSS JOIN (b JOIN c ON f(b.x, 1) = c.x) CROSS JOIN d)",
        ),
        (
            "SELECT * FROM ((SELECT 1) UNION (SELECT 2) ORDER BY 1, 1) t",
            "((SELECT 1) UNION (SELECT 2) ORDER BY 1, 1) t",
        ),
    ] {
        assert_eq!(query(sql), format!("SELECT * FROM {read}"));
    }
    let steps = create("create table t (a int, b int) partition by range(a, b) (from (1, 2) to (3, 4) interval 1)");
    assert!(
        matches!(&steps.partition_by.unwrap().partitions[..], [PartitionItem::Steps { from, .. }] if from.len() == 2)
    );
}

#[test]
fn partitions_of_the_dialects() {
    let by = |sql: &str| create(&format!("create table t (a int, b date) {sql}")).partition_by.unwrap();
    let def = |at: &PartitionItem| match at {
        PartitionItem::One(p) => p.clone(),
        other => panic!("{other:?}"),
    };
    let p = by(r#"partition by range(a, b) (
        partition if not exists p1 values less than ("1", '2020-01-01') ("replication_num" = "1"),
        PARTITION p2 VALUES LESS THAN (5, MAXVALUE), partition p3 values less than maxvalue)"#);
    assert_eq!((p.kind, p.auto, p.by.len()), (PartitionKind::Range, false, 2));
    let first = def(&p.partitions[0]);
    assert!(first.if_not_exists);
    assert_eq!(first.values, PartitionValues::LessThan(vec![value("1"), value("2020-01-01")]));
    assert_eq!(first.properties, pairs(&[("replication_num", "1")]));
    assert_eq!(def(&p.partitions[1]).values, PartitionValues::LessThan(vec![value("5"), PartitionValue::Max]));
    assert_eq!(def(&p.partitions[2]).values, PartitionValues::LessThan(vec![PartitionValue::Max]));

    let p = by(r#"partition by list(a) (partition p values in ("1", 2, null), partition rest)"#);
    assert_eq!(p.kind, PartitionKind::List);
    let list = vec![vec![Some("1".to_string())], vec![Some("2".to_string())], vec![None]];
    assert_eq!(def(&p.partitions[0]).values, PartitionValues::In(list));
    assert_eq!(def(&p.partitions[1]).values, PartitionValues::Rest);
    let p = by(r#"partition by list (a, b) (partition p values in (("1", "x"), ("2", null)))"#);
    let list = vec![vec![Some("1".to_string()), Some("x".into())], vec![Some("2".into()), None]];
    assert_eq!(def(&p.partitions[0]).values, PartitionValues::In(list));

    let steps = |from: &str, to: &str, step, unit: Option<&str>| PartitionItem::Steps {
        from: vec![value(from)],
        to: vec![value(to)],
        step,
        unit: unit.map(String::from),
    };
    let p = by(r#"PARTITION BY RANGE(b) (FROM ("2020-01-01") TO ("2021-01-01") INTERVAL 1 MONTH,
        from ("2021-01-01") to ("2021-02-01") interval 7 days)"#);
    assert_eq!(
        p.partitions,
        [steps("2020-01-01", "2021-01-01", 1, Some("month")), steps("2021-01-01", "2021-02-01", 7, Some("day"))]
    );
    assert_eq!(by("partition by range(a) (from (1) to (100) interval 10)").partitions, [steps("1", "100", 10, None)]);
    assert_eq!(
        by(r#"PARTITION BY RANGE(b) (START ("2020-01-01") END ("2020-02-01") EVERY (INTERVAL 1 day))"#).partitions,
        [steps("2020-01-01", "2020-02-01", 1, Some("day"))]
    );
    assert_eq!(by(r#"partition by range(a) (start ("1") end ("9") every (2))"#).partitions, [steps("1", "9", 2, None)]);

    let truncated = [PartitionExpr::DateTrunc { column: "b".into(), unit: "day".into() }];
    for sql in [
        "auto partition by range (date_trunc(`b`, 'day')) ()",
        "auto partition by range date_trunc(b, 'DAY') ()",
        "partition by date_trunc('day', b)",
        "partition by (date_trunc('day', b))",
        "partition by range(date_trunc('day', b))",
    ] {
        let p = by(sql);
        assert_eq!((p.kind, p.auto), (PartitionKind::Range, true), "{sql}");
        assert_eq!((&p.by[..], p.partitions.len()), (&truncated[..], 0), "{sql}");
    }
    for sql in ["partition by (a, b)", "partition by a, b", "auto partition by list (a, b) ()"] {
        let p = by(sql);
        assert_eq!((p.kind, p.auto, p.by.len()), (PartitionKind::List, true, 2), "{sql}");
    }
    assert_eq!(by("partition by range columns (a) (partition p values less than (1))").partitions.len(), 1);
}

#[test]
fn create_table_otherwise() {
    let t = create("create table t properties('a'='b') as select 1 x");
    assert_eq!(t.query.as_ref().unwrap().text, "select 1 x");
    assert!(t.columns.is_empty());
    let t = create("create table t (a, `b c`) distributed by hash(a) as (select 1, 2)");
    assert_eq!(t.column_names, ["a", "b c"]);
    assert!(create("create table t select * from u").query.is_some());
    assert!(create("create temporary table if not exists t (a int)").temporary);
    assert_eq!(
        one("create table if not exists a like d.b"),
        Statement::CreateTableLike {
            name: name("a"),
            like: name("d.b"),
            if_not_exists: true,
            temporary: false,
            rollups: WithRollups::None
        }
    );
    // The clauses about files decide which kind of table it is.
    assert!(matches!(one("create table t (a int) stored as parquet location '/x'"), Statement::CreateExternalTable(_)));
    assert!(matches!(one("create external table t (a int) location '/x'"), Statement::CreateExternalTable(_)));
    assert!(matches!(one("create table t (a int) comment 'x' properties ('a'='b')"), Statement::CreateTable(_)));
    for (sql, under, message) in [
        ("create table t (a int) engine=mysql", "mysql", "ENGINE = mysql is not supported"),
        ("create table t (a int) partitioned by (b int)", "partitioned", "add STORED AS TEXTFILE"),
        (
            "create table t (a int) stored as parquet duplicate key(a)",
            "duplicate",
            "DUPLICATE KEY is for native tables",
        ),
        ("create external table t (a int default 1) location '/x'", "t", "DEFAULT of column 'a' is for native tables"),
        ("create table t (a int) duplicate key(a) unique key(a)", "unique", "this is the second"),
        ("create table t (a int primary key, b int primary key)", "b", "this is the second"),
        ("create table t (a int primary key) duplicate key(a)", "t", "a table has one key"),
        ("create table t (a int generated always (b + 1))", "(", "expected AS"),
        ("create table t (a int as)", ")", "expected"),
        ("create table t (a int as (1) virtual)", "virtual", "generated columns are stored"),
        ("create table t (a frob)", "frob", "a type name, found 'FROB'"),
        ("create table t (a agg_state)", ")", "expected identifier"),
        ("create table t (a int default b)", "b", "expected a literal, CURRENT_TIMESTAMP"),
        ("create table t (a int default (uuid()))", "(", "a default that is an expression"),
        ("create table t (a datetime default current_timestamp(7))", "7", "digits of the second from 0 to 6"),
        ("create table t (a int auto_incremnt)", "auto_incremnt", "did you mean AUTO_INCREMENT?"),
        (
            "create table t (a int percentile_union)",
            "percentile_union",
            "aggregation PERCENTILE_UNION is not supported",
        ),
        ("create table t (a int, foreign key (a) references u (a))", "foreign", "FOREIGN KEY is not supported"),
        ("create table t (a int, check (a > 1))", "check", "CHECK is not supported"),
        ("create table t (a int, fulltext key (a))", "fulltext", "FULLTEXT indexes are not supported yet"),
        ("create table t (a int) distributed by hash(a) buckets 0", "0", "a number of buckets above 0, or AUTO"),
        ("create table t (a int) distributed by frob", "frob", "expected HASH or RANDOM"),
        ("create table t (a int) partition by hash(a)", "hash", "use DISTRIBUTED BY HASH"),
        ("create table t (a int) partition by range(f(a)) ()", "f", "the only function to partition by"),
        ("create table t (a int) partition by date_trunc('eon', a)", "'eon'", "expected 'year'"),
        ("create table t (a int) partition by range(a) (partition p values [(1), (2)])", "]", "expected ')'"),
        (
            "create table t (a int) partition by range(a) (partition p values more)",
            "more",
            "expected LESS THAN, IN or '['",
        ),
        ("create table t (a int) partition by range(a) (from (1) to (2) interval 0)", "0", "a number above 0"),
        ("create table t", "", "expected columns, LIKE or AS query"),
        ("create table t (a int) frob", "frob", "expected ENGINE, a KEY clause"),
    ] {
        let (at, text) = caret(sql);
        assert!(text.contains(message), "{sql}: {text}");
        assert_eq!(at.trim(), under, "{sql}: {text}");
    }
}

#[test]
fn alter_columns() {
    let column = |change: &TableChange| match change {
        TableChange::AddColumns { columns, position } => (columns[0].name.clone(), columns.len(), position.clone()),
        TableChange::ModifyColumn { column, position } => (column.name.clone(), 1, position.clone()),
        other => panic!("{other:?}"),
    };
    let after = |name: &str| Some(ColumnPosition::After(name.to_string()));
    let changes =
        alter("add column a int key default '0' after b, add column c string sum first, modify column a bigint");
    assert_eq!(
        changes.iter().map(column).collect::<Vec<_>>(),
        [("a".into(), 1, after("b")), ("c".into(), 1, Some(ColumnPosition::First)), ("a".into(), 1, None)]
    );
    assert_eq!(column(&alter("add column (a int, b int default 1)")[0]), ("a".into(), 2, None));
    assert_eq!(column(&alter("add a int")[0]), ("a".into(), 1, None));
    assert_eq!(column(&alter("modify a varchar(20) not null after `x y`")[0]), ("a".into(), 1, after("x y")));
    assert_eq!(
        alter("drop column a, drop b"),
        [TableChange::DropColumn("a".into()), TableChange::DropColumn("b".into())]
    );
    let renamed = TableChange::RenameColumn { from: "a".into(), to: "b".into(), definition: None };
    assert_eq!(alter("rename column a b"), [renamed.clone()]);
    assert_eq!(alter("rename column a to b"), [renamed]);
    assert_eq!(alter("order by (b, a)"), [TableChange::OrderColumns(names(&["b", "a"]))]);
    assert_eq!(alter("order by b, a"), [TableChange::OrderColumns(names(&["b", "a"]))]);
    assert_eq!(
        alter("modify column a comment 'x', modify comment 'y'"),
        [TableChange::CommentColumn { column: "a".into(), comment: "x".into() }, TableChange::Comment("y".into())]
    );
    assert_eq!(alter("comment = 'z'"), [TableChange::Comment("z".into())]);
}

#[test]
fn alter_partitions() {
    let added = |sql: &str| match alter(sql).remove(0) {
        TableChange::AddNamedPartition { temporary, item, distribution, properties } => {
            (temporary, item, distribution, properties)
        }
        other => panic!("{other:?}"),
    };
    let (temporary, item, distribution, properties) = added(
        r#"add partition if not exists p1 values [("1"), ("2")) ("in_memory" = "true") distributed by hash(a) buckets 20"#,
    );
    let PartitionItem::One(p) = item else { panic!() };
    assert!(!temporary && p.if_not_exists && p.properties.len() == 1 && properties.is_empty());
    assert_eq!(p.values, PartitionValues::Range { lower: vec![value("1")], upper: vec![value("2")] });
    assert_eq!(distribution.unwrap().buckets, Some(20));
    let (temporary, item, ..) = added("add temporary partition tp values in ('a')");
    assert!(temporary && matches!(item, PartitionItem::One(_)));
    assert!(matches!(
        added("add partitions from ('2020-01-01') to ('2020-02-01') interval 1 day").1,
        PartitionItem::Steps { .. }
    ));
    assert!(matches!(
        added("add partitions start ('2020-01-01') end ('2020-02-01') every (interval 1 day)").1,
        PartitionItem::Steps { .. }
    ));
    let dropped = |partition: &str, temporary, if_exists, force| TableChange::DropNamedPartition {
        temporary,
        if_exists,
        partition: partition.into(),
        force,
    };
    assert_eq!(alter("drop partition p1"), [dropped("p1", false, false, false)]);
    assert_eq!(
        alter("drop partition if exists p1 force, drop partition p2"),
        [dropped("p1", false, true, true), dropped("p2", false, false, false)]
    );
    assert_eq!(
        alter("drop temporary partitions (a, b)"),
        [dropped("a", true, false, false), dropped("b", true, false, false)]
    );
    assert_eq!(alter("rename partition p1 p2"), [TableChange::RenamePartition { from: "p1".into(), to: "p2".into() }]);
    assert_eq!(
        alter(
            r#"replace partition (p1, p2) with temporary partition (t1) properties("strict_range" = "false", "use_temp_partition_name" = "true")"#
        ),
        [TableChange::ReplacePartitions {
            partitions: names(&["p1", "p2"]),
            with: names(&["t1"]),
            properties: pairs(&[("strict_range", "false"), ("use_temp_partition_name", "true")]),
        }]
    );
    let modified = |partitions: &[&str]| TableChange::ModifyPartitions {
        partitions: names(partitions),
        properties: pairs(&[("a", "b")]),
    };
    assert_eq!(alter("modify partition p set ('a'='b')"), [modified(&["p"])]);
    assert_eq!(alter("modify partition (p, q) set ('a'='b')"), [modified(&["p", "q"])]);
    assert_eq!(alter("modify partition (*) set ('a'='b')"), [modified(&[])]);
    // Hive's forms have trees of their own.
    assert!(matches!(alter("add partition (dt='a') location '/x'")[0], TableChange::AddPartition { .. }));
    assert!(matches!(
        alter("drop if exists partition (dt='a')")[0],
        TableChange::DropPartition { if_exists: true, .. }
    ));
}

#[test]
fn alter_the_rest() {
    assert_eq!(alter("rename u"), [TableChange::Rename(name("u"))]);
    let replaced = |swap, force| vec![TableChange::ReplaceWith { table: name("t2"), swap, force }];
    assert_eq!(alter("replace with table t2"), replaced(true, false));
    assert_eq!(alter("replace with table `t2` properties('swap' = 'true')"), replaced(true, false));
    assert_eq!(alter("REPLACE WITH TABLE t2 PROPERTIES('swap'='false') FORCE"), replaced(false, true));
    assert_eq!(alter("swap with t2"), replaced(true, false));
    assert_eq!(alter("set ('a' = 'b')"), [TableChange::SetProperties(pairs(&[("a", "b")]))]);
    assert_eq!(
        alter(r#"enable feature "sequence_load" with properties ("function_column.sequence_type" = "Date")"#),
        [TableChange::EnableFeature {
            feature: "SEQUENCE_LOAD".into(),
            properties: pairs(&[("function_column.sequence_type", "Date")]),
        }]
    );
    assert!(matches!(&alter("add index if not exists i (a) using inverted comment 'x'")[0],
        TableChange::AddIndex { if_not_exists: true, index } if index.using.as_deref() == Some("INVERTED")));
    assert!(matches!(&alter("add key i (a)")[0], TableChange::AddIndex { if_not_exists: false, .. }));
    assert_eq!(alter("drop index if exists i"), [TableChange::DropIndex { if_exists: true, name: "i".into() }]);
    let compact = |partitions: &[&str], kind: Option<&str>| {
        vec![TableChange::Compact { partitions: names(partitions), kind: kind.map(String::from) }]
    };
    assert_eq!(alter("compact"), compact(&[], None));
    assert_eq!(alter("base compact p"), compact(&["p"], Some("BASE")));
    assert_eq!(alter("cumulative compact (p, q)"), compact(&["p", "q"], Some("CUMULATIVE")));
    assert_eq!(
        one("admin compact table d.t partition p where type = 'base'"),
        Statement::AlterTable { name: name("d.t"), if_exists: false, changes: compact(&["p"], Some("BASE")) }
    );
    assert!(matches!(alter("modify distribution distributed by hash(a) buckets 32")[0], TableChange::Distribution(_)));
    assert!(matches!(alter("distributed by random buckets 3")[0], TableChange::Distribution(_)));
    assert_eq!(alter("disable keys"), []);
    for (sql, under, message) in [
        ("alter table t add column a int to r", "to", "a column of one rollup alone is not supported"),
        ("alter table t drop column a from r", "from", "a column of one rollup alone is not supported"),
        ("alter table t add primary key (a)", "add", "a table's key is fixed"),
        ("alter table t add column a int primary key", "a", "cannot be added to a table"),
        ("alter table t replace with table u properties('swop'='true')", "(", "'swap' = 'true' or 'false'"),
        ("alter table t replace partition (a) with partition (b)", "partition", "expected TEMPORARY PARTITION"),
        ("alter table t modify partition p", "", "expected SET"),
        ("alter table t frob", "frob", "expected ADD, DROP, MODIFY"),
    ] {
        let (at, text) = caret(sql);
        assert!(text.contains(message), "{sql}: {text}");
        assert_eq!(at.trim(), under, "{sql}: {text}");
    }
}

#[test]
fn update_and_delete_become_queries() {
    let update = |sql: &str| match one(sql) {
        Statement::Update(u) => u,
        other => panic!("{other:?}"),
    };
    let u = update("update d.t set a = b + 1, `c` = default where k in (select k from u)");
    assert_eq!((u.table, u.alias, u.columns), (name("d.t"), None, names(&["a", "c"])));
    assert_eq!(u.source.ast.to_string(), "SELECT b + 1, default FROM d.t WHERE k IN (SELECT k FROM u)");
    let sqlparser::ast::SetExpr::Select(select) = u.source.ast.body.as_ref() else { panic!() };
    let sqlparser::ast::SelectItem::UnnamedExpr(second) = &select.projection[1] else { panic!() };
    assert!(is_default(second));
    let u = update("UPDATE t AS x SET x.a = y.b FROM u y JOIN v ON y.i = v.i WHERE x.k = y.k");
    assert_eq!((u.alias.as_deref(), u.columns), (Some("x"), names(&["a"])));
    assert_eq!(u.source.ast.to_string(), "SELECT y.b FROM t AS x, u y JOIN v ON y.i = v.i WHERE x.k = y.k");
    let u = update("update t x join u on x.k = u.k set x.a = u.a");
    assert_eq!(u.source.ast.to_string(), "SELECT u.a FROM t x JOIN u ON x.k = u.k");
    let u = update("update t partition (p1, p2) set a = 1 order by k limit 3");
    assert_eq!(
        (u.partitions, u.source.ast.to_string()),
        (names(&["p1", "p2"]), "SELECT 1 FROM t ORDER BY k LIMIT 3".into())
    );

    let delete = |sql: &str| match one(sql) {
        Statement::Delete(d) => d,
        other => panic!("{other:?}"),
    };
    let d = delete("delete from t where a = 1 limit 5");
    assert_eq!((d.table.clone(), d.source.ast.to_string()), (name("t"), "SELECT 1 FROM t WHERE a = 1 LIMIT 5".into()));
    assert_eq!(delete("DELETE FROM t").source.ast.to_string(), "SELECT 1 FROM t");
    let d = delete("delete from t partition p1 where k > 3");
    assert_eq!((d.partitions, d.temporary), (names(&["p1"]), false));
    let d = delete("delete from d.t partitions (p1, p2) x using u, v where x.k = u.k");
    assert_eq!(d.source.ast.to_string(), "SELECT 1 FROM d.t x, u, v WHERE x.k = u.k");
    assert_eq!((d.alias.as_deref(), d.partitions.len()), (Some("x"), 2));
    assert!(delete("delete from t temporary partition (p) where a = 1").temporary);

    let merge = |sql: &str| match one(sql) {
        Statement::Merge(m) => m,
        other => panic!("{other:?}"),
    };
    let m = merge(
        "with c as (select 1) merge into d.t as x using (select * from c) s on x.k = s.k \
         when matched and s.a > 1 then update set x.v = s.v + 1, w = default when matched then delete \
         when not matched by target then insert (k, v) values (s.k, (1, 2))",
    );
    assert_eq!(
        m.source.ast.to_string(),
        "WITH c AS (SELECT 1) SELECT s.a > 1, s.v + 1, default, true, true, s.k, (1, 2) \
         FROM d.t AS x RIGHT JOIN (SELECT * FROM c) s ON x.k = s.k"
    );
    let actions = [
        MergeAction::Update(names(&["v", "w"])),
        MergeAction::Delete,
        MergeAction::Insert { columns: names(&["k", "v"]), values: 2 },
    ];
    assert_eq!(m.clauses.iter().map(|c| c.action.clone()).collect::<Vec<_>>(), actions);
    assert_eq!(
        m.clauses.iter().map(|c| (c.matched, c.has_condition)).collect::<Vec<_>>(),
        [(true, true), (true, false), (false, false)]
    );
    assert_eq!((m.table, m.alias.as_deref()), (name("d.t"), Some("x")));

    for (sql, under, message) in [
        (
            "merge into t using s on t.k = s.k when matched then insert values (1)",
            "insert",
            "expected UPDATE SET or DELETE",
        ),
        ("merge into t using s on t.k = s.k", "", "expected WHEN MATCHED or WHEN NOT MATCHED"),
        ("merge into t using s when matched then delete", "matched", "expected ON"),
        ("update t set a = 1 where b = = 2", "=", "expected an expression"),
        ("update t set", "", "expected"),
        ("update t set a + 1", "+", "expected '='"),
        ("update t x set y.a = 1", "y", "only columns of 't' can be set"),
        ("update t a = 1", "=", "expected SET"),
        ("delete t, u from t join u on 1 = 1", "t", "DELETE of several tables"),
        ("delete u from t join u on 1 = 1", "u", "DELETE of several tables"),
        ("delete t from t x", "t", "DELETE of several tables"),
        ("delete", "", "expected"),
        ("delete from t when", "", ""),
        ("delete from t x y", "y", "expected USING, WHERE"),
    ] {
        let parsed = parse(sql, &ParseOptions::default());
        if message.is_empty() {
            assert!(parsed.is_ok(), "{sql}: an alias may be any word");
            continue;
        }
        let (at, text) = caret(sql);
        assert!(text.to_lowercase().contains(&message.to_lowercase()), "{sql}: {text}");
        assert_eq!(at.trim(), under, "{sql}: {text}");
    }
}

#[test]
fn inserts_of_the_dialects() {
    let insert = |sql: &str| match one(sql) {
        Statement::Insert(i) => i,
        other => panic!("{other:?}"),
    };
    let i = insert("insert into t values (1, default, 'x'), (default, null, -2.5)");
    assert_eq!(i.source.ast.to_string(), "VALUES (1, default, 'x'), (default, NULL, -2.5)");
    let sqlparser::ast::SetExpr::Values(values) = i.source.ast.body.as_ref() else { panic!() };
    let defaults = |row: usize| values.rows[row].iter().map(is_default).collect::<Vec<_>>();
    assert_eq!((defaults(0), defaults(1)), (vec![false, true, false], vec![true, false, false]));
    assert!(insert("replace into t (a) values (1)").replace);
    assert!(insert("replace t set a = default").replace);
    let i = insert("insert into t temporary partition (tp1, tp2) with label l1 (a, b) select 1, 2");
    assert!(i.temporary && i.partition.len() == 2 && i.label.as_deref() == Some("l1") && i.columns.len() == 2);
    let i = insert("insert overwrite table t partition(*) select 1");
    assert!(i.overwrite && i.partition == [("*".to_string(), None)]);
    let i = insert("INSERT INTO t (a) [SHUFFLE] select 1");
    assert_eq!(i.columns, ["a"]);
    assert_eq!(insert("insert into t set a = 1, b = default").columns, ["a", "b"]);
    assert!(matches!(one("explain update t set a = 1"), Statement::Explain { .. }));
    assert!(matches!(one("explain delete from t where a = 1"), Statement::Explain { .. }));
}

#[test]
fn load_data() {
    let load = |sql: &str| match one(sql) {
        Statement::LoadData(l) => l,
        other => panic!("{other:?}"),
    };
    let l = load("LOAD DATA LOCAL INFILE '/tmp/x.csv' INTO TABLE d.t");
    assert_eq!((l.local, l.path.as_str(), &l.table, l.skip_lines), (true, "/tmp/x.csv", &name("d.t"), 0));
    assert_eq!((l.fields, l.on_duplicate), (OutfileFields::default(), None));
    let l = load(
        r#"load data infile 'x' replace into table t partition (p1, p2) character set utf8mb4
        fields terminated by ',' optionally enclosed by '"' escaped by '\\' lines starting by '>' terminated by '\r\n'
        ignore 2 lines (a, @b, `c`, @`d e`) set x = @b + 1, y = upper(a)
        properties ("strict_mode" = "true", "max_filter_ratio" = "0.1")"#,
    );
    assert_eq!(
        (l.on_duplicate, l.partitions, l.charset.as_deref()),
        (Some(OnDuplicate::Replace), names(&["p1", "p2"]), Some("utf8mb4"))
    );
    assert_eq!(
        l.fields,
        OutfileFields {
            terminated_by: ",".into(),
            enclosed_by: "\"".into(),
            optionally: true,
            escaped_by: "\\".into(),
            lines_starting_by: ">".into(),
            lines_terminated_by: "\r\n".into(),
        }
    );
    assert_eq!(l.skip_lines, 2);
    let (column, variable) = (|n: &str| LoadColumn::Column(n.into()), |n: &str| LoadColumn::Variable(n.into()));
    assert_eq!(l.columns, [column("a"), variable("b"), column("c"), variable("d e")]);
    let set: Vec<String> = l.set.iter().map(|(c, e)| format!("{c} = {e}")).collect();
    assert_eq!(set, ["x = @b + 1", "y = upper(a)"]);
    assert_eq!(l.properties, pairs(&[("strict_mode", "true"), ("max_filter_ratio", "0.1")]));
    let l = load(
        "load data infile 'x' ignore into table t columns terminated by '|' lines terminated by ';' (a) set (b = a)",
    );
    assert_eq!((l.on_duplicate, l.fields.terminated_by.as_str(), l.set.len()), (Some(OnDuplicate::Ignore), "|", 1));
    assert!(caret("load label l (data infile('x') into table t)").1.contains("use INSERT INTO"));
    assert_eq!(caret("load data infile x into table t").0, "x");
    assert_eq!(caret("load data infile 'x' into table t fields frob").0, "frob");
}

#[test]
fn statistics_and_administration() {
    let analyzed = |columns: &[&str]| Statement::Analyze {
        kind: ObjectKind::Table,
        name: name("t"),
        more: vec![],
        columns: names(columns),
    };
    for (sql, columns) in [
        ("analyze table t", &[][..]),
        ("ANALYZE TABLE t WITH SYNC", &[]),
        ("analyze table t (a, b) with sample percent 10", &["a", "b"]),
        ("analyze table t with sync with sample rows 1000", &[]),
        ("analyze full table t (a) with sync mode properties('x'='y')", &["a"]),
        ("analyze sample table t with async mode", &[]),
        ("analyze table t update histogram on a, b with 32 buckets", &[]),
        ("analyze table t compute statistics for columns", &[]),
    ] {
        assert_eq!(one(sql), analyzed(columns), "{sql}");
    }
    assert_eq!(
        one("analyze database d with sync"),
        Statement::Analyze { kind: ObjectKind::Database, name: name("d"), more: vec![], columns: vec![] }
    );
    assert_eq!(one("drop stats t (a)"), Statement::DropStats { name: name("t"), columns: names(&["a"]) });
    assert_eq!(
        one("create index if not exists i on t (a) using bloom_filter properties('x'='y') comment 'c'"),
        Statement::CreateIndex(CreateIndex {
            table: name("t"),
            if_not_exists: true,
            index: IndexDef {
                name: Some("i".into()),
                unique: false,
                columns: names(&["a"]),
                using: Some("BLOOM_FILTER".into()),
                properties: pairs(&[("x", "y")]),
                comment: Some("c".into()),
            },
        })
    );
    assert_eq!(
        one("drop index if exists i on d.t"),
        Statement::DropIndex { name: "i".into(), table: name("d.t"), if_exists: true }
    );
    assert_eq!(one("clean label from d"), Statement::CleanLabel { label: None, database: name("d") });
    assert_eq!(one("clean label l1 from d"), Statement::CleanLabel { label: Some("l1".into()), database: name("d") });
    assert_eq!(
        one("cancel load from d where label = 'l'"),
        Statement::CancelLoad { database: Some(name("d")), label: "l".into(), like: false }
    );
    assert_eq!(one("cancel alter table column from t"), Statement::CancelAlter { name: name("t") });
    assert_eq!(
        one(r#"ADMIN SET FRONTEND CONFIG ("disable_balance" = "true")"#),
        Statement::AdminSetConfig { backend: false, properties: pairs(&[("disable_balance", "true")]) }
    );
    let Statement::Backup(s) =
        one("backup snapshot d.s to repo on (a partition (p1, p2), b) properties ('type'='full')")
    else {
        panic!()
    };
    assert_eq!((s.name, s.repository.as_deref(), s.tables.len()), (name("d.s"), Some("repo"), 2));
    assert_eq!(s.tables[0].partitions, ["p1", "p2"]);
    let Statement::Restore(s) = one("restore snapshot s from `repo` exclude (a)") else { panic!() };
    assert!(s.exclude && s.tables[0].name == name("a"));
    let Statement::Restore(s) = one("restore snapshot s from r on (a as b)") else { panic!() };
    assert_eq!(s.tables[0].alias.as_deref(), Some("b"));
    assert_eq!(
        one("recover partition p as q from t"),
        Statement::Recover {
            kind: ObjectKind::Table,
            name: name("t"),
            partition: Some("p".into()),
            alias: Some("q".into())
        }
    );
    assert!(matches!(one("recover table d.t"), Statement::Recover { partition: None, .. }));
    assert_eq!(
        one("truncate table t partition (a, b)"),
        Statement::Truncate { name: name("t"), partitions: names(&["a", "b"]) }
    );
    assert_eq!(one("truncate t partition a force"), Statement::Truncate { name: name("t"), partitions: names(&["a"]) });
    for (sql, under) in [
        ("admin repair table t", "repair"),
        ("admin set replica status properties ('a'='b')", "replica"),
        ("analyze frob", "frob"),
        ("clean label", ""),
        ("cancel frob", "frob"),
        ("backup frob", "frob"),
    ] {
        assert_eq!(caret(sql).0.trim(), under, "{sql}");
    }
}

#[test]
fn shows_of_native_tables() {
    let s = show(
        "SHOW TEMPORARY PARTITIONS FROM d.t WHERE PartitionName = 'p' ORDER BY PartitionId DESC, State LIMIT 2, 5",
    );
    assert_eq!(s.kind, ShowKind::Partitions { table: name("d.t"), temporary: true, spec: vec![] });
    assert_eq!(s.order_by, [("PartitionId".to_string(), true), ("State".to_string(), false)]);
    assert_eq!(s.limit, Some((2, 5)));
    assert!(matches!(s.filter, Some(ShowFilter::Where(_))));
    let kind = |sql: &str| show(sql).kind;
    assert_eq!(kind("show tablets from t"), ShowKind::Tablets { table: name("t"), partitions: vec![] });
    assert_eq!(
        kind("show tablet from d.t partition (p1, p2) limit 3"),
        ShowKind::Tablets { table: name("d.t"), partitions: names(&["p1", "p2"]) }
    );
    assert_eq!(kind("show tablet 10086"), ShowKind::Tablet(10086));
    assert_eq!(kind("show data"), ShowKind::Data { table: None, all: false });
    assert_eq!(kind("show data from t order by size desc"), ShowKind::Data { table: Some(name("t")), all: false });
    assert_eq!(
        kind("show load from d where label like 'x%' limit 1"),
        ShowKind::Load { stream: false, from: Some(name("d")) }
    );
    assert_eq!(kind("show stream load"), ShowKind::Load { stream: true, from: None });
    assert_eq!(
        kind("show load warnings on 'http://x/y'"),
        ShowKind::LoadWarnings { from: None, url: Some("http://x/y".into()) }
    );
    assert_eq!(
        kind("show transaction from d where id = 5"),
        ShowKind::Transaction { from: Some(name("d")), id: Some(5) }
    );
    assert_eq!(
        kind("show alter table column from d where TableName = 't' order by CreateTime desc limit 1"),
        ShowKind::AlterTable { job: "COLUMN".into(), from: Some(name("d")) }
    );
    assert_eq!(kind("show table stats t"), ShowKind::TableStats(name("t")));
    assert_eq!(
        kind("show column cached stats t (a)"),
        ShowKind::ColumnStats { table: name("t"), columns: names(&["a"]) }
    );
    assert_eq!(
        kind("admin show replica status from t partition (p)"),
        ShowKind::Replicas { distribution: false, table: name("t"), partitions: names(&["p"]) }
    );
    assert_eq!(kind("admin show frontend config like '%x%'"), ShowKind::Config { backend: false });
    assert_eq!(caret("show alter table frob").0, "frob");
    assert_eq!(caret("show tablets t").1, "expected FROM, found 't'");
    assert_eq!(caret("admin show frob").0, "frob");
}

#[test]
fn nothing_panics_on_cut_statements() {
    let mut whole = vec![ROW_PART.to_string()];
    whole.extend(article_003().into_iter().take(1));
    whole.extend(
        [
            "create table t (a int key sum default (1) on update now(3) comment 'x', index i(a) using inverted properties('a'='b'), unique key (a)) auto partition by range (date_trunc(a, 'day')) (from (1) to (2) interval 1 day, start (1) end (2) every (interval 1 day), partition p values in ((1, null), (2, maxvalue))) rollup (r (a)) as select 1",
            "alter table t add column (a int) , modify column a int after b, replace partition (a) with temporary partition (b) properties('a'='b'), drop partition if exists p force, enable feature 'x' with properties ('a'='b'), cumulative compact (p)",
            "update d.t partition (p) x set x.a = 1, b = default from u where a = 1 order by a limit 1",
            "delete from t partition (p) x using u where a = 1",
            "load data local infile 'x' replace into table t partition (p) fields terminated by ',' lines starting by 'x' ignore 1 lines (a, @b) set c = @b properties ('a'='b')",
            "admin show replica status from t partition (p)",
            "restore snapshot a.b from r on (t partition (p) as u) properties ('a'='b')",
            "show partitions from t where a = 1 order by b desc limit 1, 2",
        ]
        .map(String::from),
    );
    for text in whole {
        for end in (0..text.len()).filter(|end| text.is_char_boundary(*end)) {
            let _ = parse(&text[..end], &ParseOptions::default()).map_err(|e| e.caret());
            let _ = parse(&text[end..], &ParseOptions::default()).map_err(|e| e.caret());
        }
    }
}
