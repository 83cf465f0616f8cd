//! Causes of failed statements and loads as types: code finds the type behind an error, whatever the message is.

use std::sync::Arc;

use dipper_engine::error::ErrorKind;
use dipper_engine::load::LoadSpec;
use dipper_engine::load::answer::LoadStatus;
use dipper_engine::load::body::{BodySource, body};
use dipper_engine::load::records::LoadKind;
use dipper_engine::load::request::StreamLoadRequest;
use dipper_engine::{ClientInfo, Engine, EngineError, EngineOptions, Session};
use dipper_ingest::outcome::{LabelUsed, Rejected, Unqualified};

async fn run(session: &mut Session, sql: &str) -> Result<(), EngineError> {
    for statement in session.parse(sql)? {
        session.execute(sql, &statement, Vec::new()).await?;
    }
    Ok(())
}

async fn with_table() -> (Arc<Engine>, Session) {
    let engine = Engine::open(EngineOptions { threads: Some(2), ..EngineOptions::default() }).await.unwrap();
    let mut session = engine.session(ClientInfo::local(engine.next_connection_id()));
    let sql = "create database d; use d; create table t (k int not null, v int) distributed by hash(k) buckets 1";
    run(&mut session, sql).await.unwrap();
    (engine, session)
}

/// Makes a body that is complete.
fn whole(text: String) -> BodySource {
    let (sender, source) = body();
    tokio::spawn(async move {
        let _ = sender.send(text.into_bytes().into()).await;
        let _ = sender.end().await;
    });
    source
}

fn spec(engine: &Arc<Engine>, headers: &[(&str, &str)]) -> LoadSpec {
    let given = headers.iter().map(|(name, value)| (*name, value.as_bytes()));
    LoadSpec {
        kind: LoadKind::Stream,
        client: ClientInfo::local(engine.next_connection_id()),
        database: "d".into(),
        table: "t".into(),
        request: StreamLoadRequest::from_headers(given).unwrap(),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn inserts_tell_who_has_their_label_and_which_rows_they_refuse() {
    let (_engine, mut session) = with_table().await;
    run(&mut session, "insert into t with label a values (1, 1)").await.unwrap();
    let used = run(&mut session, "insert into t with label a values (2, 2)").await.unwrap_err();
    assert_eq!(used.cause::<LabelUsed>().map(|used| used.label.as_str()), Some("a"), "{used}");
    assert!(used.to_string().starts_with("Label [a] has already been used"), "{used}");
    let sql = "set enable_insert_strict = false; set insert_max_filter_ratio = 0.5; \
               insert into t select nullif(number % 4, 0), 1 from numbers('number' = '4')";
    run(&mut session, sql).await.unwrap();
    let sql = "insert into t select nullif(number % 2, number % 2), 1 from numbers('number' = '4')";
    let refused = run(&mut session, sql).await.unwrap_err();
    let rejected = refused.cause::<Rejected>().unwrap_or_else(|| panic!("{refused}"));
    assert_eq!((rejected.rejected, rejected.rows), (4, 4));
    assert_eq!(refused.kind, ErrorKind::BadValue);
}

#[tokio::test(flavor = "multi_thread")]
async fn loads_tell_who_has_their_label_and_which_rows_they_refuse() {
    let (engine, _session) = with_table().await;
    let load = |headers: &[(&str, &str)], text: String| {
        let spec = spec(&engine, headers);
        let engine = Arc::clone(&engine);
        async move {
            match engine.begin_load(spec).await {
                Ok(job) => job.run(whole(text)).await,
                Err(answer) => *answer,
            }
        }
    };
    let label = [("label", "l")];
    assert_eq!(load(&label, "1\t1\n".into()).await.status, LoadStatus::Success);
    let again = load(&label, "2\t2\n".into()).await;
    assert_eq!((again.status, again.existing_job_status), (LoadStatus::LabelExists, Some("FINISHED")));
    assert!(again.into_error().cause::<LabelUsed>().is_some());
    let refused = load(&[], "3\t3\nno\t4\n5\n".into()).await.into_error();
    let rejected = refused.cause::<Rejected>().unwrap_or_else(|| panic!("{refused}"));
    assert_eq!((rejected.rejected, rejected.rows), (2, 3), "{rejected}");
    let many = load(&[], "only one field\n".repeat(200)).await;
    assert!(many.rejected[0].reason.starts_with("Column count mismatch: expected 2, but found 1"), "{many:?}");
    assert!(many.into_error().cause::<Unqualified>().is_some());
    let other = load(&[("columns", "k,nope=x(k)")], "1\n".into()).await.into_error();
    assert_eq!(other.kind, ErrorKind::NoColumn, "{other}");
}

#[tokio::test(flavor = "multi_thread")]
async fn load_data_fails_with_the_errors_of_its_load() {
    let (_engine, mut session) = with_table().await;
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("rows.tsv");
    std::fs::write(&file, "1\t1\nno\t2\n").unwrap();
    let load = format!("load data infile '{}' into table t", file.display());
    let refused = run(&mut session, &load).await.unwrap_err();
    assert_eq!((refused.code, refused.cause::<Rejected>().is_some()), (1366, true), "{refused}");
    let unknown = run(&mut session, &format!("{load} (k, @v) set v = no_such_function(@v)")).await.unwrap_err();
    assert_eq!(unknown.code, 1305, "{unknown}");
}
