//! INSERT into native tables.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::Instant;

use arrow::record_batch::RecordBatch;
use dipper_base::retry::{self, Attempts};
use dipper_base::types::SqlType;
use dipper_dialect::statement::{Insert, QueryText};
use dipper_exec::on_cpu::on_cpu;
use dipper_exec::shape::Shape;
use dipper_ingest::answer::{LoadAnswer, txn_number};
use dipper_ingest::outcome::LabelUsed;
use dipper_ingest::records::{LoadHeader, LoadKind, Running};
use dipper_sql::charter::session::VarValue;
use dipper_sql::functions::states::arguments_in_query;
use dipper_sql::insert_values;
use dipper_store::attempts::again;
use dipper_store::catalog::{Table as CatalogTable, TableId};
use dipper_store::chain::TxnId;
use dipper_store::labels::{Acquired, Held};
use dipper_store::table::schema::{Model, TableColumn, TableSchema};
use dipper_store::table::{Reads, Replace, SegmentRef, TableState};
use sqlparser::ast;

use super::duplicates::{Duplicates, duplicates};
use super::expressions::{default_expr, now};
use super::write::{Kept, NewKeys, Patience, Target, Written, run};
use crate::context::QueryContext;
use crate::defaults::{self, Known};
use crate::error::{EngineError, ErrorKind, Result};
use crate::generated;
use crate::load::body_table::Inserted;
use crate::native;
use crate::profile::{Recorder, Task};
use crate::query;
use crate::result::Done;
use crate::session::{LastInsert, Session};
use crate::statements::{is_strict, transaction};

/// The rows that an INSERT stores.
enum Given {
    Rows(RecordBatch),
    Query(QueryText),
}

/// Runs INSERT INTO and INSERT OVERWRITE. Returns the answer for the client.
///
/// INSERT IGNORE keeps the rows of a UNIQUE table whose keys exist, as in MySQL.
///
/// INSERT OVERWRITE replaces all rows that exist when it commits. If the statement also reads the table, and rows were
/// added or removed after it read, it is computed again: otherwise the new rows would be lost, and removed rows would
/// come back.
///
/// # Errors
/// `Conflict` if rows are added or removed in each of several attempts.
pub(in crate::statements) async fn insert(
    session: &mut Session,
    database: &str,
    table: &CatalogTable,
    insert: &Insert,
    params: Vec<VarValue>,
) -> Result<Done> {
    // The body of a request can be read only once.
    let repeats = (insert.overwrite || insert.ignore || !insert.on_duplicate.is_empty()) && session.body.is_none();
    let mut attempts = Attempts::of(retry::INSERT);
    loop {
        let began = Instant::now();
        let e = match insert_once(session, database, table, insert, params.clone()).await {
            Err(e) if e.kind == ErrorKind::Conflict => e,
            other => return other,
        };
        if repeats && e.is_passing_conflict() && again(&mut attempts, began.elapsed()).await {
            continue;
        }
        let message = match insert.overwrite {
            true => format!(
                "table '{}': rows came or went {} times while this INSERT OVERWRITE read it; repeat it when fewer loads run ({})",
                table.name,
                attempts.failed().max(1),
                e.message
            ),
            false => e.message,
        };
        return Err(EngineError { message, ..e });
    }
}

async fn insert_once(
    session: &mut Session,
    database: &str,
    table: &CatalogTable,
    insert: &Insert,
    params: Vec<VarValue>,
) -> Result<Done> {
    if session.in_transaction && insert.label.is_some() {
        return Err(EngineError::unsupported(
            "WITH LABEL in a transaction, which has one label: BEGIN WITH LABEL ...; leave it out here",
        ));
    }
    let is_within = transaction::enter(session, database, table).await?;
    let context = session.query_context().await?;
    let state = native::snapshot(&context, table.id).await?;
    let duplicates = match insert.on_duplicate.as_slice() {
        [] => None,
        _ => Some(duplicates(state.schema(), insert.table.object(), insert)?),
    };
    let partial = match &duplicates {
        Some(Duplicates::Replace(partial)) => *partial,
        Some(Duplicates::Skip) => None,
        None => partial(session, state.schema(), insert),
    };
    if partial.is_none() {
        check_sequence(session, &table.name, state.schema(), &insert.columns)?;
    }
    let now = now(session);
    let mut shape = Shape::with(state.schema(), &insert.columns, &now, is_strict(session, insert), partial.is_some())?;
    shape.lost = Arc::clone(&session.lost);
    let columns = shape.targets();
    generated::check_given(&table.name, &columns, &insert.source.ast)?;
    let types: Vec<_> = columns.iter().map(|column| column.data_type.to_arrow()).collect();
    let given = match insert_values::literal_rows(&insert.source.ast, &params, &types) {
        Some(rows) => Given::Rows(rows),
        None => {
            let source = filling(insert, &columns, state.schema())?;
            Given::Query(insert_values::prepare(source.as_ref(), types.len(), |at| default_expr(columns[at], &now))?)
        }
    };
    let mut target = Target::new(session.engine.native.get(table.id).await?, state, shape);
    target.partial = partial;
    target.ignores = matches!(duplicates, Some(Duplicates::Skip));
    aim(&mut target, session, insert)?;
    if is_within {
        target.enter(session.transaction.written()?)?;
    }
    let kept = Kept::of(&target);
    let txn = target.txn;
    let held = match &insert.label {
        Some(label) => Some(acquire(session, database, table.id, label, txn).await?),
        None => None,
    };
    let engine = Arc::clone(&session.engine);
    // If the statement reads the body of a request, the request is the load that is recorded. Many small statements
    // would push loads out of the list.
    let is_values = matches!(insert.source.ast.body.as_ref(), ast::SetExpr::Values(_));
    let recorded = session.body.is_none() && !is_within && (insert.label.is_some() || !is_values);
    let record = recorded.then(|| {
        engine.loads.records.begin(LoadHeader {
            kind: LoadKind::Insert,
            user: session.client.user.clone(),
            client: session.client.host.clone(),
            database: database.into(),
            table: table.name.clone(),
            label: insert.label.clone().unwrap_or_else(|| format!("insert_{txn}")),
            comment: String::new(),
        })
    });
    let threads = session.engine.short().clone();
    let statement = session.process().activity().info.unwrap_or_default();
    let (overwrite, id) = (insert.overwrite, table.id);
    let written = on_cpu(&threads, async move {
        target.recorder = Recorder::begin(&context, Task::Write, &statement);
        // Snapshots of the query's own show whether it reads the table.
        let context = match overwrite {
            true => Arc::new(QueryContext { snapshots: Arc::default(), ..context.as_ref().clone() }),
            false => context,
        };
        let planned = match given {
            Given::Rows(rows) => query::rows(&context, rows)?,
            Given::Query(source) => query::plan(&context, &source, Some(&params)).await?,
        };
        let read = context.snapshots.lock().get(&id).cloned();
        if let Some(Ok(read)) = read.filter(|_| overwrite) {
            target.reads =
                Some(Box::new(move |replaces| Reads { seq: read.seq(), rows: replaced_rows(&read, replaces) }));
        }
        run(&engine, planned, target).await
    })
    .await;
    if let Some(held) = held {
        // If the outcome is unknown, the chain of the table decides when the label is used again.
        let open = written.as_ref().is_err_and(|e| e.kind == ErrorKind::Unknown);
        if !open && let Err(error) = held.end(written.is_ok()).await {
            tracing::warn!(%error, "the end of a labelled INSERT was not noted; its table knows it");
        }
    }
    if let Some(record) = record {
        end(record, txn, &written);
    }
    let mut written = written?;
    if is_within {
        written = kept.give(written, session.transaction.written()?).await?;
    }
    Ok(tell(session, (database, table), insert, txn, written))
}

/// Records for SHOW LOAD how the statement ended.
fn end(record: Running, txn: TxnId, written: &Result<Written>) {
    let mut answer = LoadAnswer::new("", "");
    answer.times.total = record.elapsed();
    match written {
        Ok(written) => {
            answer.txn = Some(written.txn.unwrap_or(txn));
            answer.total_rows = written.rows + written.rejected;
            answer.loaded_rows = written.rows;
            answer.filtered_rows = written.rejected;
            if let Some((pipeline, commit)) = written.pipeline {
                answer.pipeline = Some(pipeline);
                answer.times.commit = commit;
            }
        }
        Err(e) => {
            answer.txn = Some(txn);
            answer = answer.ended_by(e.clone());
        }
    }
    record.end(&answer);
}

/// Returns how new keys are treated if this is a partial update, in which existing rows keep the columns that the
/// statement does not name. As in Doris, the list of columns must omit some: a list of all columns is an ordinary
/// upsert of whole rows.
fn partial(session: &Session, definition: &TableSchema, insert: &Insert) -> Option<NewKeys> {
    let named = |name: &str| insert.columns.iter().any(|n| n.eq_ignore_ascii_case(name));
    let is_partial = session.variables.flag("enable_unique_key_partial_update")
        && definition.model == Model::Unique
        && !insert.overwrite
        && !insert.columns.is_empty()
        && definition.columns.iter().any(|c| !c.hidden && c.generated.is_none() && !named(&c.name));
    let new_keys = session.variables.get("partial_update_new_key_behavior").unwrap_or_default();
    is_partial.then(|| NewKeys { refused: new_keys.eq_ignore_ascii_case("error") })
}

/// Returns the source of an INSERT into these columns, with values in place of `DEFAULT(column)` for columns of the
/// table, and states of the types that columns have.
fn filling<'a>(
    insert: &'a Insert,
    columns: &[&TableColumn],
    definition: &Arc<TableSchema>,
) -> Result<Cow<'a, QueryText>> {
    let is_values = matches!(insert.source.ast.body.as_ref(), ast::SetExpr::Values(_));
    let asks_defaults = is_values && defaults::is_asked(&insert.source.ast);
    if !asks_defaults && !columns.iter().any(|column| matches!(column.data_type, SqlType::AggState(_))) {
        return Ok(Cow::Borrowed(&insert.source));
    }
    let mut source = insert.source.clone();
    if asks_defaults {
        let known = Known { name: insert.table.object().to_string(), schema: Arc::clone(definition) };
        defaults::replace(&mut source.ast, &[known])?;
    }
    let types: Vec<_> = columns.iter().map(|column| &column.data_type).collect();
    arguments_in_query(&mut source.ast, &types);
    Ok(Cow::Owned(source))
}

/// Checks that an INSERT of whole rows into these columns gives a value of the sequence column, which decides between
/// rows.
pub(super) fn check_sequence(
    session: &Session,
    table: &str,
    definition: &TableSchema,
    columns: &[String],
) -> Result<()> {
    let Some(at) = definition.sequence.and_then(|id| definition.position(id)) else { return Ok(()) };
    let column = &definition.columns[at];
    let named = match columns.is_empty() {
        true => !column.hidden,
        false => columns.iter().any(|c| c.eq_ignore_ascii_case(&column.name)),
    };
    if named || column.default.is_some() || !session.variables.flag("require_sequence_in_insert") {
        return Ok(());
    }
    Err(EngineError::invalid(format!("Table {table} has sequence column, need to specify the sequence column")))
}

/// Configures the target by the statement and the session's variables: partitions, label, tolerance, group commit.
fn aim(target: &mut Target, session: &Session, insert: &Insert) -> Result<()> {
    target.partitions = insert.partition.iter().map(|(name, _)| name.clone()).collect();
    target.temporary = insert.temporary;
    target.label.clone_from(&insert.label);
    target.max_filter_ratio = match target.shape.strict {
        true => 0.0,
        false => session.variables.get("insert_max_filter_ratio").and_then(|v| v.parse().ok()).unwrap_or(1.0),
    };
    // `*` is Doris's name for the partitions into which the rows fall.
    if insert.overwrite && !insert.temporary && target.partitions == ["*"] {
        target.partitions.clear();
        target.replaces_its_own = true;
    } else if insert.overwrite {
        target.replaces = match target.partitions.is_empty() {
            true => Replace::All,
            false => Replace::Partitions(super::partition_ids(&target.state, &target.partitions)?),
        };
    }
    target.ignores |= insert.ignore && target.state.schema().model == Model::Unique && !insert.overwrite;
    // Sources other than VALUES may give many rows.
    let few = matches!(insert.source.ast.body.as_ref(), ast::SetExpr::Values(_))
        || session.body.is_some() && is_grouped(session);
    let alone = insert.overwrite || target.partial.is_some() || target.ignores || insert.label.is_some();
    if few && !alone && target.partitions.is_empty() {
        let mode = session.variables.get("group_commit").unwrap_or_default();
        target.shared = Some(Patience(mode.eq_ignore_ascii_case("sync_mode")));
    }
    Ok(())
}

fn is_grouped(session: &Session) -> bool {
    !session.variables.get("group_commit").unwrap_or_default().eq_ignore_ascii_case("off_mode")
}

/// Reports to the client what was written: in the answer, in warnings, and to the request whose body was read.
fn tell(
    session: &mut Session,
    (database, table): (&str, &CatalogTable),
    insert: &Insert,
    txn: TxnId,
    written: Written,
) -> Done {
    let id = |value: Option<i64>| value.and_then(|v| u64::try_from(v).ok());
    let (last_insert_id, last_id) = (id(written.generated), id(written.last));
    let (rows, filtered, shared) = (written.rows, written.rejected, written.txn.is_some());
    let txn = written.txn.unwrap_or(txn);
    let within = session.transaction.label().map(str::to_string);
    let status = if within.is_some() { "PREPARE" } else { "VISIBLE" };
    let label = insert.label.clone().or(within).unwrap_or_else(|| match is_grouped(session) && shared {
        true => format!("group_commit_{txn}"),
        false => format!("insert_{txn}"),
    });
    if let Some(body) = &session.body {
        body.note(Inserted { txn, shared, rejected: filtered, reasons: written.reasons.clone() });
    }
    for reason in written.reasons {
        session.warn(1366, reason);
    }
    if written.left_out > 0 && insert.on_duplicate.is_empty() {
        session.warn(1062, format!("Duplicate entry: {} rows were left out, their keys are there", written.left_out));
    }
    let number = txn_number(txn);
    session.last_insert = Some(LastInsert {
        txn: number.to_string(),
        label: label.clone(),
        database: database.to_string(),
        table: table.name.clone(),
        status,
        loaded: rows,
        filtered,
    });
    let info = format!(
        "{{'label':'{label}', 'status':'{status}', 'txnId':'{number}', 'rows':'{rows}', 'filtered':'{filtered}'}}"
    );
    Done { affected_rows: rows, last_insert_id, last_id, info }
}

/// Returns the number of rows that a load would replace in this state.
fn replaced_rows(state: &TableState, replaces: &Replace) -> u64 {
    match replaces {
        Replace::None => 0,
        Replace::All => state.rows(),
        Replace::Partitions(list) => {
            let within = |s: &SegmentRef<'_>| list.contains(&s.segment.tablet.partition);
            state.all_segments().filter(within).map(|s| s.live_rows()).sum()
        }
    }
}

/// Takes the label for this INSERT or transaction.
///
/// # Errors
/// An error with [`LabelUsed`] as its source if another load has the label; `NoDatabase` if the database does not
/// exist.
pub(in crate::statements) async fn acquire(
    session: &Session,
    database: &str,
    table: TableId,
    label: &str,
    txn: TxnId,
) -> Result<Held> {
    let engine = &session.engine;
    let state = engine.catalog.snapshot();
    let database = state.database(database).ok_or_else(|| state.no_database(database))?;
    match engine.loads.labels().await?.acquire(database.id, label, txn, table).await? {
        Acquired::New(held) => Ok(held),
        Acquired::Exists(attempt, status) => {
            Err(LabelUsed { label: label.to_string(), txn: attempt.txn, status }.into())
        }
    }
}

/// Fills a newly created table with the rows of a query.
pub(super) async fn fill(
    session: &Session,
    database: &str,
    name: &str,
    columns: &[String],
    source: &QueryText,
) -> Result<u64> {
    // Looked up in the catalog itself, because the session may have a temporary table of the name.
    let catalog = session.engine.catalog.refresh().await?;
    let table = catalog.table(database, name).ok_or_else(|| catalog.no_table(database, name))?;
    let handle = session.engine.native.get(table.id).await?;
    let context = session.query_context().await?;
    let state = native::snapshot(&context, table.id).await?;
    let shape = Shape::try_new(state.schema(), columns, &now(session), true)?;
    let target = Target::new(handle, state, shape);
    let (engine, source) = (Arc::clone(&session.engine), source.clone());
    let threads = session.engine.short().clone();
    let written = on_cpu(&threads, async move {
        let planned = query::plan(&context, &source, None).await?;
        run(&engine, planned, target).await
    });
    Ok(written.await?.rows)
}
