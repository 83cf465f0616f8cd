//! VALUES of literals, which are stored without a plan, must be stored as by a plan.

use arrow::util::display::array_value_to_string;
use dipper_engine::{ClientInfo, Engine, EngineOptions, Outcome, Session};
use futures::StreamExt;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

/// The rows of a statement, cells joined by `|`, or its error.
async fn ask(session: &mut Session, sql: &str) -> Result<String, String> {
    let parsed = session.parse(sql).map_err(|e| e.to_string())?;
    let mut text = String::new();
    for statement in parsed {
        let outcome = session.execute(sql, &statement, Vec::new()).await.map_err(|e| e.to_string())?;
        if let Outcome::Rows(mut rows) = outcome {
            while let Some(batch) = rows.batches.next().await {
                let batch = batch.map_err(|e| e.to_string())?;
                for row in 0..batch.num_rows() {
                    let cells: Vec<String> =
                        batch.columns().iter().map(|c| array_value_to_string(c, row).unwrap()).collect();
                    text += &format!("{}\n", cells.join("|"));
                }
            }
        }
    }
    Ok(text)
}

/// Stores literals of all kinds into columns of all kinds, both as a batch and by a plan (a sum beside them needs the
/// planner). Both must store the same, or fail with the same message.
#[tokio::test(flavor = "multi_thread")]
async fn literals_are_stored_as_the_planner_stores_them() {
    let engine = Engine::open(EngineOptions { threads: Some(2), ..EngineOptions::default() }).await.unwrap();
    let mut session = engine.session(ClientInfo::local(engine.next_connection_id()));
    ask(&mut session, "CREATE DATABASE d").await.unwrap();
    ask(&mut session, "USE d").await.unwrap();
    let mut rng = StdRng::seed_from_u64(9);
    let types = [
        "BOOLEAN",
        "TINYINT",
        "INT",
        "BIGINT",
        "LARGEINT",
        "DOUBLE",
        "FLOAT",
        "DECIMAL(9, 2)",
        "DATE",
        "DATETIME",
        "VARCHAR(12)",
        "STRING",
        "JSON",
        "ARRAY<INT>",
    ];
    let literals = [
        "NULL",
        "0",
        "1",
        "-1",
        "7",
        "007",
        "-0",
        "127",
        "128",
        "-129",
        "2147483648",
        "9223372036854775807",
        "1.5",
        "-2.25",
        "1e3",
        "20240106",
        "20241301",
        "'x'",
        "'7'",
        "' 7 '",
        "'-1.5'",
        "'2024-01-05'",
        "'2024-01-05 10:00:00.5'",
        "''",
        "'more than twelve letters'",
        "'[1,2]'",
        "'{\"a\":1}'",
        "true",
        "'true'",
        "\"double\"",
        "99999999999999999999",
    ];
    let mut stored = 0;
    for kind in types {
        for name in ["plain", "planned"] {
            let sql = format!(
                "CREATE TABLE {name} (id INT, v {kind}, e INT) DUPLICATE KEY(id) DISTRIBUTED BY HASH(id) BUCKETS 1"
            );
            ask(&mut session, &sql).await.unwrap();
        }
        for round in 0..60 {
            let rows = rng.random_range(1..4);
            let cells: Vec<&str> = (0..rows)
                .map(|_| match round < literals.len() {
                    true => literals[round],
                    false => literals[rng.random_range(0..literals.len())],
                })
                .collect();
            let values = |e: &str| {
                let rows: Vec<_> = cells.iter().map(|cell| format!("({round}, {cell}, {e})")).collect();
                rows.join(", ")
            };
            let plain = ask(&mut session, &format!("INSERT INTO plain VALUES {}", values("1"))).await;
            let planned = ask(&mut session, &format!("INSERT INTO planned VALUES {}", values("1 + 0"))).await;
            let what = format!("{kind} {cells:?}");
            match (&plain, &planned) {
                (Err(a), Err(b)) => assert_eq!(a.replace("plain", "planned"), *b, "{what}"),
                (Ok(_), Ok(_)) => stored += 1,
                _ => panic!("{what}: {plain:?}, but by a plan {planned:?}"),
            }
        }
        let of = |name: &str| format!("SELECT id, CAST(v AS STRING), e FROM {name} ORDER BY id, 2");
        let (plain, planned) = (ask(&mut session, &of("plain")).await, ask(&mut session, &of("planned")).await);
        assert_eq!(plain.unwrap(), planned.unwrap(), "{kind}");
        ask(&mut session, "DROP TABLE plain").await.unwrap();
        ask(&mut session, "DROP TABLE planned").await.unwrap();
    }
    assert!(stored > 300, "{stored}");
}
