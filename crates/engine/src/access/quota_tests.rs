//! Limits on the number of statements that the sessions of a user run at once.

use std::time::{Duration, Instant};

use futures::StreamExt;

use crate::error::Result;
use crate::{ClientInfo, Engine, EngineOptions, Outcome, Session};

async fn run(session: &mut Session, sql: &str) -> Result<Option<crate::Rows>> {
    let parsed = session.parse(sql)?.remove(0);
    match session.execute(sql, &parsed, Vec::new()).await? {
        Outcome::Rows(rows) => Ok(Some(rows)),
        Outcome::Done(_) => Ok(None),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn so_many_statements_of_a_user_run_at_once() {
    let engine = Engine::open(EngineOptions { threads: Some(2), ..EngineOptions::default() }).await.unwrap();
    let client = |user: &str| ClientInfo { user: user.into(), ..ClientInfo::local(engine.next_connection_id()) };
    let mut root = engine.session(client("root"));
    for sql in [
        "create table t (k int) duplicate key(k) distributed by hash(k) buckets 1",
        "insert into t select number from numbers('number'='50000')",
        "create user u",
        "grant select on *.* to u",
        "set property for u 'max_query_instances' = '1'",
    ] {
        run(&mut root, sql).await.unwrap();
    }
    // More rows than fit between the query threads and the client.
    let long = "select a.k from t a join t b on a.k % 100 = b.k % 100";
    let (mut one, mut other) = (engine.session(client("u")), engine.session(client("u")));
    let rows = run(&mut one, long).await.unwrap().expect("rows");
    let refused = run(&mut other, long).await.unwrap_err();
    assert_eq!(refused.code, 1226, "{refused}");
    assert!(refused.message.contains("max_query_instances"), "{refused}");
    // A statement that reads only a few rows is not counted, and other users are not affected.
    drop(run(&mut other, "select 1").await.unwrap());
    drop(run(&mut root, long).await.unwrap());
    // A statement of the same connection does not compete with the statement that it has given up.
    drop(rows);
    let mut rows = run(&mut one, long).await.unwrap().expect("rows");
    rows.batches.next().await.expect("a batch").unwrap();
    drop(rows);
    let begun = Instant::now();
    while let Err(e) = run(&mut other, long).await {
        assert!(e.code == 1226 && begun.elapsed() < Duration::from_secs(30), "{e}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}
