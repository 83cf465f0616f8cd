//! Tests of the state of a table that a query asks for.

use dipper_dialect::parser::{ParseOptions, parse};
use dipper_dialect::statement::Statement;
use dipper_sql::charter::session::{TableRef, TableVersion};
use dipper_sql::charter::table_refs;

#[test]
fn tables_have_versions_only_where_they_are_asked_for() {
    let version = |sql: &str| match parse(sql, &ParseOptions::default()).unwrap().remove(0).statement {
        Statement::Query(q) => match table_refs(&q).remove(0) {
            TableRef::Named { version, .. } => version,
            other => panic!("{other:?}"),
        },
        other => panic!("{other:?}"),
    };
    let id = |text: &str| Some(TableVersion::Version(text.into()));
    assert_eq!(version("SELECT * FROM c.d.t FOR VERSION AS OF 123"), id("123"));
    assert_eq!(version("SELECT * FROM t FOR VERSION AS OF 'main' AS x WHERE a = 1"), id("main"));
    for word in ["TIMESTAMP", "TIME", "SYSTEM_TIME"] {
        let time = Some(TableVersion::Time("2024-01-01".into()));
        assert_eq!(version(&format!("SELECT * FROM t FOR {word} AS OF '2024-01-01' x")), time);
    }
    // StarRocks may leave FOR out.
    assert_eq!(version("SELECT * FROM c.d.t VERSION AS OF 123 x"), id("123"));
    assert_eq!(version("SELECT * FROM `t` VERSION AS OF 'main'"), id("main"));
    assert_eq!(version("SELECT * FROM t TIMESTAMP AS OF '2024-01-01'"), Some(TableVersion::Time("2024-01-01".into())));
    for text in ["now()", "date_sub(now(), INTERVAL 1 DAY)", "now() - INTERVAL 1 HOUR"] {
        for word in ["TIMESTAMP", "FOR TIMESTAMP", "FOR TIME"] {
            let found = version(&format!("SELECT * FROM t {word} AS OF {text} AS x WHERE a = 1"));
            assert!(matches!(&found, Some(TableVersion::TimeOf(e)) if e.to_string().contains("now()")), "{found:?}");
        }
    }
    let (branch, tag) = (Some(TableVersion::Branch("b".into())), Some(TableVersion::Tag("b".into())));
    for (text, expected) in [
        ("c.d.t@branch(b)", &branch),
        ("t@BRANCH('b') x", &branch),
        ("`t`@branch(b)", &branch),
        ("t @tag (b)", &tag),
        ("t@tag('name' = 'b') AS x", &tag),
    ] {
        assert_eq!(version(&format!("SELECT * FROM {text} WHERE a = 1")), *expected, "{text}");
    }
    for alias in ["at", "before", "version", "changes", "timestamp"] {
        assert_eq!(version(&format!("SELECT * FROM t {alias}")), None, "{alias}");
    }
    for item in ["version AS of", "DISTINCT version AS of", "timestamp AS of, 1", "a, version AS of"] {
        assert_eq!(version(&format!("SELECT {item} FROM t")), None, "{item}");
    }
}
