//! INSERT into native tables: the query's batches as rows of the table, pushed into one load.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use arrow::array::{RecordBatchOptions, new_null_array};
use arrow::compute::filter_record_batch;
use arrow::datatypes::{DataType, FieldRef, Schema, SchemaRef};
use arrow::record_batch::RecordBatch;
use arrow::util::display::array_value_to_string;
use chrono::Offset;
use datafusion::common::ScalarValue;
use datafusion::common::runtime::JoinSet;
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryPool, MemoryReservation};
use datafusion::physical_plan::{ExecutionPlan, execute_stream, execute_stream_partitioned};
use dipper_load::{Filled, Load, LoadOptions, LoadTarget, Partial, RejectedRow, memory_of};
use dipper_sql::charter::session::VarValue;
use dipper_sql::statement::{Insert, Name, QueryText, is_default};
use dipper_store::catalog::{Table as CatalogTable, TableId};
use dipper_store::chain::TxnId;
use dipper_store::labels::{Acquired, Held, LabelStatus};
use dipper_store::sketch;
use dipper_store::table::schema::{DELETE_SIGN, DefaultValue, Model, TableColumn, TableSchema};
use dipper_store::table::{Reads, Replace, Rowset, SegmentRef, Table, TableState};
use dipper_store::types::SqlType;
use futures::StreamExt;
use parking_lot::Mutex;
use roaring::RoaringTreemap;
use sqlparser::ast;
use tokio::task::block_in_place;

use super::{ATTEMPTS_MAX, values};
use crate::admission::Class;
use crate::engine::Engine;
use crate::error::{EngineError, ErrorKind, Result};
use crate::load::answer::txn_number;
use crate::load::group::{self, Share, Shared};
use crate::load::http_stream::Inserted;
use crate::native;
use crate::profile::{Recorder, Task};
use crate::query::{self, Planned, QueryContext};
use crate::result::Done;
use crate::session::Session;
use crate::statements::ddl;
use crate::statements::insert::{cast, check_width, no_column, twice};

/// Where a column of the table gets its values.
#[derive(Debug, Clone)]
enum Source {
    /// Column of the query.
    Query(usize),
    /// The same for all rows.
    Constant(ScalarValue),
    /// Generated numbers.
    AutoIncrement,
}

/// How batches of a query become rows of a table.
#[derive(Debug)]
pub(super) struct Shape {
    definition: Arc<TableSchema>,
    schema: SchemaRef,
    sources: Vec<Source>,
    /// Columns that the query has to give.
    pub(super) wanted: usize,
    strict: bool,
}

impl Shape {
    /// `columns` are the names in the statement, empty when none are written: all that are visible.
    pub(super) fn try_new(definition: &Arc<TableSchema>, columns: &[String], now: &Now, strict: bool) -> Result<Self> {
        Self::with(definition, columns, now, strict, false)
    }

    /// As [`try_new`](Self::try_new); `partial`: rows that the table has keep the columns that are not named.
    fn with(definition: &Arc<TableSchema>, columns: &[String], now: &Now, strict: bool, partial: bool) -> Result<Self> {
        let mut sources: Vec<Option<Source>> = vec![None; definition.columns.len()];
        let mut wanted = 0;
        let mut next = || {
            wanted += 1;
            Some(Source::Query(wanted - 1))
        };
        if columns.is_empty() {
            for (source, column) in sources.iter_mut().zip(&definition.columns) {
                if !column.hidden {
                    *source = next();
                }
            }
        }
        for name in columns {
            let i = (definition.columns.iter())
                .position(|c| c.name.eq_ignore_ascii_case(name))
                .ok_or_else(|| no_column(name, definition.columns.iter().map(|c| c.name.as_str())))?;
            if sources[i].is_some() {
                return Err(twice(name));
            }
            sources[i] = next();
        }
        let sources = (sources.into_iter().zip(&definition.columns))
            .map(|(source, column)| match source {
                Some(source) => Ok(source),
                // A new row without it is rejected by the load.
                None if partial && !column.nullable && column.default.is_none() && !column.hidden => {
                    Ok(Source::Constant(ScalarValue::try_from(&column.data_type.to_arrow())?))
                }
                None => omitted(column, now),
            })
            .collect::<Result<Vec<_>>>()?;
        let nullable = |f: &FieldRef| f.as_ref().clone().with_nullable(true);
        let schema = Arc::new(Schema::new(definition.arrow().fields().iter().map(nullable).collect::<Vec<_>>()));
        Ok(Shape { definition: Arc::clone(definition), schema, sources, wanted, strict })
    }

    /// Places of the columns that the query fills.
    fn given(&self) -> Vec<usize> {
        (0..self.sources.len()).filter(|i| matches!(self.sources[*i], Source::Query(_))).collect()
    }

    /// The columns that the query fills, in its order.
    fn targets(&self) -> Vec<&TableColumn> {
        let mut targets: Vec<(usize, &TableColumn)> = (self.sources.iter().zip(&self.definition.columns))
            .filter_map(|(source, column)| match source {
                Source::Query(at) => Some((*at, column)),
                _ => None,
            })
            .collect();
        targets.sort_by_key(|(at, _)| *at);
        targets.into_iter().map(|(_, column)| column).collect()
    }

    /// A batch of the query as rows of the table. NOT NULL is checked by the load, which names the row, and fills in
    /// AUTO_INCREMENT where it finds NULL.
    fn shape(&self, batch: &RecordBatch) -> Result<RecordBatch> {
        let rows = batch.num_rows();
        let arrays = (self.sources.iter().zip(self.schema.fields()))
            .map(|(source, field)| match source {
                Source::Query(at) => cast(batch.column(*at), field, self.strict),
                Source::Constant(value) => Ok(value.to_array_of_size(rows)?),
                Source::AutoIncrement => Ok(new_null_array(field.data_type(), rows)),
            })
            .collect::<Result<Vec<_>>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        RecordBatch::try_new_with_options(Arc::clone(&self.schema), arrays, &options)
            .map_err(|e| EngineError::invalid(e.to_string()))
    }
}

/// The statement's time, for CURRENT_TIMESTAMP.
#[derive(Debug, Clone)]
pub(crate) struct Now {
    /// Wall clock in the session's zone, microseconds since 1970.
    micros: i64,
}

impl Now {
    pub(crate) fn of(session: &Session) -> Self {
        let now = chrono::Utc::now();
        let zone = session.variables.time_zone();
        let offset = match zone.parse::<chrono_tz::Tz>() {
            Ok(zone) => now.with_timezone(&zone).offset().fix().local_minus_utc(),
            // `SET time_zone` lets only offsets through beside names.
            Err(_) => zone.parse::<chrono::FixedOffset>().map_or(0, |o| o.local_minus_utc()),
        };
        Now { micros: now.timestamp_micros() + i64::from(offset) * 1_000_000 }
    }
}

/// The value of a column that the statement does not name.
fn omitted(column: &TableColumn, now: &Now) -> Result<Source> {
    if column.auto_increment.is_some() {
        return Ok(Source::AutoIncrement);
    }
    if column.name == DELETE_SIGN {
        return Ok(Source::Constant(ScalarValue::Int8(Some(0))));
    }
    match default_value(column, now)? {
        Some(value) => Ok(Source::Constant(value)),
        None => Err(EngineError {
            code: 1364,
            sqlstate: "HY000",
            ..EngineError::invalid(format!(
                "Field '{}' doesn't have a default value, and is NOT NULL; name it in the column list",
                column.name
            ))
        }),
    }
}

/// The column's default; `None` when it has none and NULL is not allowed.
pub(crate) fn default_value(column: &TableColumn, now: &Now) -> Result<Option<ScalarValue>> {
    let data_type = column.data_type.to_arrow();
    let typed = |value: ScalarValue| {
        value.cast_to(&data_type).map_err(|_| {
            EngineError::invalid(format!("column {}: the default {value} is no {}", column.name, column.data_type))
        })
    };
    Ok(Some(match &column.default {
        Some(DefaultValue::Literal(Some(text))) => typed(ScalarValue::Utf8(Some(text.clone())))?,
        Some(DefaultValue::Literal(None)) => ScalarValue::try_from(&data_type)?,
        None if column.nullable => ScalarValue::try_from(&data_type)?,
        None => return Ok(None),
        Some(DefaultValue::CurrentTimestamp(digits)) => {
            let unit = 10_i64.pow(6 - u32::from((*digits).min(6)));
            typed(ScalarValue::TimestampMicrosecond(Some(now.micros.div_euclid(unit) * unit), None))?
        }
        Some(DefaultValue::CurrentDate) => {
            typed(ScalarValue::Date32(i32::try_from(now.micros.div_euclid(86_400_000_000)).ok()))?
        }
        Some(DefaultValue::Empty) => match column.data_type {
            SqlType::Hll => ScalarValue::BinaryView(Some(sketch::HyperLogLog::new(sketch::HLL_PRECISION).to_bytes())),
            _ => ScalarValue::BinaryView(Some(sketch::bitmap_to_bytes(&RoaringTreemap::new()))),
        },
    }))
}

/// A value as an expression of a query; NULL for what the table makes up itself.
fn literal(value: &ScalarValue) -> Result<ast::Expr> {
    let value = match value {
        v if v.is_null() => ast::Value::Null,
        ScalarValue::BinaryView(Some(bytes)) => {
            ast::Value::HexStringLiteral(bytes.iter().map(|b| format!("{b:02x}")).collect())
        }
        v => {
            let text = v
                .to_array()
                .map_err(EngineError::from)
                .and_then(|a| array_value_to_string(&a, 0).map_err(|e| EngineError::invalid(e.to_string())))?;
            ast::Value::SingleQuotedString(text)
        }
    };
    Ok(ast::Expr::Value(value.into()))
}

/// The word DEFAULT for a column.
pub(super) fn default_expr(column: &TableColumn, now: &Now) -> Result<ast::Expr> {
    match omitted(column, now)? {
        Source::Constant(value) => literal(&value),
        Source::AutoIncrement | Source::Query(_) => Ok(ast::Expr::Value(ast::Value::Null.into())),
    }
}

/// The value of ON UPDATE CURRENT_TIMESTAMP.
pub(super) fn now_expr(column: &TableColumn, now: &Now) -> Result<ast::Expr> {
    let stamped =
        TableColumn { default: Some(DefaultValue::CurrentTimestamp(column.on_update.unwrap_or(0))), ..column.clone() };
    default_expr(&stamped, now)
}

/// VALUES as the table's columns need them: the word DEFAULT becomes the column's default; where rows give one column
/// values of several kinds, all become text, which is cast to the column's type as it stands. The planner would look for
/// one type that suits all rows, and lose what does not suit it.
fn prepare_values(source: &QueryText, targets: &[&TableColumn], now: &Now) -> Result<QueryText> {
    let mut query = source.clone();
    let ast::SetExpr::Values(values) = query.ast.body.as_mut() else { return Ok(query) };
    for row in &mut values.rows {
        for (expr, column) in row.iter_mut().zip(targets) {
            if is_default(expr) {
                *expr = default_expr(column, now)?;
            }
        }
    }
    for (at, target) in targets.iter().enumerate() {
        // Sets and other bytes are no text, nor are arrays, maps and structs read from it.
        let data_type = target.data_type.to_arrow();
        if data_type == DataType::BinaryView || data_type.is_nested() {
            continue;
        }
        let mut kinds = values.rows.iter().filter_map(|row| row.get(at).and_then(kind));
        let first = kinds.next();
        // Decimals of several scales have no common type that holds them all.
        let alike = |k: Kind| Some(k) == first && !matches!(k, Kind::Decimal | Kind::Other);
        if first.is_some() && kinds.all(alike) {
            continue;
        }
        for row in values.rows.iter_mut().filter(|row| row.len() > at) {
            let text = match (kind(&row[at]), &row[at]) {
                (None | Some(Kind::Text), _) => continue,
                (Some(Kind::Integer | Kind::Decimal), number) => {
                    ast::Expr::Value(ast::Value::SingleQuotedString(number.to_string()).into())
                }
                (_, other) => as_text(other.clone())?,
            };
            row[at] = text;
        }
    }
    Ok(query)
}

/// Kinds of literals between which no type is best.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Text,
    Integer,
    Decimal,
    Boolean,
    Other,
}

/// `None` for NULL, which suits every type.
fn kind(expr: &ast::Expr) -> Option<Kind> {
    match expr {
        ast::Expr::Value(value) => match &value.value {
            ast::Value::Null => None,
            ast::Value::Number(text, _) if text.bytes().all(|b| b.is_ascii_digit()) => Some(Kind::Integer),
            ast::Value::Number(..) => Some(Kind::Decimal),
            ast::Value::Boolean(_) => Some(Kind::Boolean),
            ast::Value::SingleQuotedString(_) | ast::Value::DoubleQuotedString(_) => Some(Kind::Text),
            _ => Some(Kind::Other),
        },
        ast::Expr::UnaryOp { op: ast::UnaryOperator::Minus | ast::UnaryOperator::Plus, expr } => {
            kind(expr).filter(|k| matches!(k, Kind::Integer | Kind::Decimal)).or(Some(Kind::Other))
        }
        _ => Some(Kind::Other),
    }
}

/// `CAST(expr AS STRING)`.
fn as_text(expr: ast::Expr) -> Result<ast::Expr> {
    match dipper_sql::parser::parse_expr("CAST(NULL AS STRING)", &Default::default())? {
        ast::Expr::Cast { kind, data_type, array, format, .. } => {
            Ok(ast::Expr::Cast { kind, expr: Box::new(expr), data_type, array, format })
        }
        other => Err(EngineError::new(ErrorKind::Internal, format!("{other} is no cast"))),
    }
}

/// How often an INSERT is computed that reads its table while others change it: INSERT OVERWRITE from itself, INSERT IGNORE.
const REPEATS_MAX: u32 = 10;

/// What an INSERT stores.
enum Given {
    Rows(RecordBatch),
    Query(QueryText),
}

/// INSERT INTO and INSERT OVERWRITE.
///
/// INSERT IGNORE keeps the rows of a UNIQUE table whose keys are there, as in MySQL.
///
/// An INSERT OVERWRITE takes the place of all rows that are there when it is committed. One that reads the table itself
/// is computed anew where rows came or went since it read: they would be lost, or come back.
///
/// # Errors
/// [`ErrorKind::Conflict`] where that happens again and again.
pub(in crate::statements) async fn insert(
    session: &mut Session,
    database: &str,
    table: &CatalogTable,
    insert: &Insert,
    params: Vec<VarValue>,
    strict: bool,
) -> Result<Done> {
    // A body comes once.
    let repeats = (insert.overwrite || insert.ignore) && session.body.is_none();
    let attempts = if repeats { REPEATS_MAX } else { 1 };
    for attempt in 1..attempts {
        match insert_once(session, database, table, insert, params.clone(), strict).await {
            Err(e) if e.kind == ErrorKind::Conflict => {
                let most = 1 << attempt.min(8);
                tokio::time::sleep(Duration::from_millis(rand::random_range(1..=most))).await;
            }
            other => return other,
        }
    }
    insert_once(session, database, table, insert, params, strict).await.map_err(|e| match e.kind {
        ErrorKind::Conflict if insert.overwrite => EngineError {
            message: format!(
                "table '{}': rows came or went {attempts} times while this INSERT OVERWRITE read it; repeat it when fewer loads run ({})",
                table.name, e.message
            ),
            ..e
        },
        _ => e,
    })
}

async fn insert_once(
    session: &mut Session,
    database: &str,
    table: &CatalogTable,
    insert: &Insert,
    params: Vec<VarValue>,
    strict: bool,
) -> Result<Done> {
    if !insert.on_duplicate.is_empty() {
        return Err(EngineError::unsupported(
            "ON DUPLICATE KEY UPDATE: a UNIQUE table takes the new row; to keep columns, name only those that change under SET enable_unique_key_partial_update = true",
        ));
    }
    let handle = session.engine.native.get(table.id).await?;
    let context = session.query_context().await?;
    let state = native::snapshot(&context, table.id).await?;
    let definition = Arc::clone(state.schema());
    let now = Now::of(session);
    // Doris: a list of columns that leaves some out, and all of them are an upsert of whole rows as ever.
    let partial = session.variables.flag("enable_unique_key_partial_update")
        && definition.model == Model::Unique
        && !insert.overwrite
        && !insert.columns.is_empty()
        && definition
            .columns
            .iter()
            .any(|c| !c.hidden && !insert.columns.iter().any(|n| n.eq_ignore_ascii_case(&c.name)));
    if let Some(sequence) = definition.sequence.and_then(|id| definition.position(id)) {
        let column = &definition.columns[sequence];
        let named = match insert.columns.is_empty() {
            true => !column.hidden,
            false => insert.columns.iter().any(|c| c.eq_ignore_ascii_case(&column.name)),
        };
        // Rows that the table has keep theirs where they are completed.
        if !named && !partial && column.default.is_none() && session.variables.flag("require_sequence_in_insert") {
            return Err(EngineError::invalid(format!(
                "Table {} has sequence column, need to specify the sequence column",
                table.name
            )));
        }
    }
    let shape = Shape::with(&definition, &insert.columns, &now, strict, partial)?;
    let targets = shape.targets();
    let given = match values::literal_rows(&insert.source.ast, &params, &targets) {
        Some(rows) => Given::Rows(rows),
        None => Given::Query(prepare_values(&insert.source, &targets, &now)?),
    };
    let names: Vec<String> = insert.partition.iter().map(|(name, _)| name.clone()).collect();
    let mut target = Target::new(handle, Arc::clone(&state), shape);
    if insert.overwrite {
        target.replaces = match names.is_empty() {
            true => Replace::All,
            false => Replace::Partitions(super::partition_ids(&state, &names)?),
        };
    }
    if partial {
        let behavior = session.variables.get("partial_update_new_key_behavior").unwrap_or_default();
        target.partial = Some(NewKeys { refused: behavior.eq_ignore_ascii_case("error") });
    }
    target.partitions = names;
    target.temporary = insert.temporary;
    target.max_filter_ratio = match strict {
        true => 0.0,
        false => session.variables.get("insert_max_filter_ratio").and_then(|v| v.parse().ok()).unwrap_or(1.0),
    };
    let mode = session.variables.get("group_commit").unwrap_or_default();
    let grouped = !mode.eq_ignore_ascii_case("off_mode");
    // What others than VALUES give may be much.
    let few = matches!(insert.source.ast.body.as_ref(), ast::SetExpr::Values(_)) || session.body.is_some() && grouped;
    target.ignores = insert.ignore && definition.model == Model::Unique && !insert.overwrite;
    let alone = insert.overwrite || partial || target.ignores;
    if few && insert.label.is_none() && !alone && target.partitions.is_empty() {
        target.shared = Some(Patience(mode.eq_ignore_ascii_case("sync_mode")));
    }
    let txn = target.txn;
    let mut held = None;
    if let Some(label) = &insert.label {
        target.label = Some(label.clone());
        held = Some(acquire(session, database, table.id, label, txn).await?);
    }
    let engine = Arc::clone(&session.engine);
    let threads = session.engine.short().clone();
    let statement = session.process().activity().info.unwrap_or_default();
    let (overwrite, id) = (insert.overwrite, table.id);
    let written = query::on_cpu(&threads, async move {
        target.recorder = Recorder::begin(&context, Task::Write, &statement);
        // States of the query's own: whether it reads the table is seen from them.
        let context = match overwrite {
            true => Arc::new(QueryContext { snapshots: Arc::default(), ..context.as_ref().clone() }),
            false => context,
        };
        let planned = match given {
            Given::Rows(rows) => query::rows(&context, rows)?,
            Given::Query(source) => query::plan(&context, &source, Some(&params)).await?,
        };
        let read = context.snapshots.lock().get(&id).cloned();
        if let Some(read) = read.filter(|_| overwrite) {
            let reads = Reads { seq: read.seq(), rows: replaced_rows(&read, &target.replaces) };
            target.reads = Some(Box::new(move || reads));
        }
        run(&engine, planned, target).await
    })
    .await;
    if let Some(held) = held {
        // Where the outcome is open, the table's chain decides when the label is used again.
        let open = written.as_ref().is_err_and(|e| e.kind == ErrorKind::Unknown);
        if !open && let Err(error) = held.end(written.is_ok()).await {
            tracing::warn!(%error, "the end of a labelled INSERT was not noted; its table knows it");
        }
    }
    let written = written?;
    let last_insert_id = written.generated.and_then(|v| u64::try_from(v).ok());
    let (rows, filtered, txn) = (written.rows, written.rejected, written.txn.unwrap_or(txn));
    let label = insert.label.clone().unwrap_or_else(|| match grouped && written.txn.is_some() {
        true => format!("group_commit_{txn}"),
        false => format!("insert_{txn}"),
    });
    if let Some(body) = &session.body {
        let (shared, reasons) = (written.txn.is_some(), written.reasons.clone());
        body.note(Inserted { txn, shared, rejected: filtered, reasons });
    }
    for reason in written.reasons {
        session.warn(1366, reason);
    }
    if written.left_out > 0 {
        session.warn(1062, format!("Duplicate entry: {} rows were left out, their keys are there", written.left_out));
    }
    let number = txn_number(txn);
    let info = format!(
        "{{'label':'{label}', 'status':'VISIBLE', 'txnId':'{number}', 'rows':'{rows}', 'filtered':'{filtered}'}}"
    );
    Ok(Done { affected_rows: rows, last_insert_id, info })
}

/// Rows that a load would take the place of in that state.
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

/// The label for this INSERT; an error if another load has it.
async fn acquire(session: &Session, database: &str, table: TableId, label: &str, txn: TxnId) -> Result<Held> {
    let engine = &session.engine;
    let state = engine.catalog.snapshot();
    let database = state.database(database).ok_or_else(|| state.no_database(database))?;
    match engine.loads.labels(engine.io()).await?.acquire(database.id, label, txn, table).await? {
        Acquired::New(held) => Ok(held),
        Acquired::Exists(attempt, status) => {
            let status = match status {
                LabelStatus::Running => "PREPARE",
                LabelStatus::Precommitted => "PRECOMMITTED",
                LabelStatus::Forgotten => "UNKNOWN",
                LabelStatus::Finished | LabelStatus::Aborted => "VISIBLE",
            };
            Err(EngineError::invalid(format!(
                "Label [{label}] has already been used, relate to txn [{}], status [{status}].",
                txn_number(attempt.txn)
            )))
        }
    }
}

/// Fills a table that was just made with the rows of a query.
pub(super) async fn fill(session: &Session, database: &str, name: &str, source: &QueryText) -> Result<u64> {
    let (_, table) = ddl::table_named(session, &Name(vec![database.into(), name.into()])).await?;
    let handle = session.engine.native.get(table.id).await?;
    let context = session.query_context().await?;
    let state = native::snapshot(&context, table.id).await?;
    let shape = Shape::try_new(state.schema(), &[], &Now::of(session), true)?;
    let target = Target::new(handle, state, shape);
    let (engine, source) = (Arc::clone(&session.engine), source.clone());
    let threads = session.engine.short().clone();
    let written = query::on_cpu(&threads, async move {
        let planned = query::plan(&context, &source, None).await?;
        run(&engine, planned, target).await
    });
    Ok(written.await?.rows)
}

/// Chooses among the rows of a query, as they come.
type Select = Arc<dyn Fn(&RecordBatch) -> Result<RecordBatch> + Send + Sync>;

/// What a partial update does about keys that the table does not have.
#[derive(Debug, Clone, Copy)]
pub(super) struct NewKeys {
    refused: bool,
}

/// Whether a statement waits for others to share its commit with, as long as the table says.
#[derive(Debug, Clone, Copy)]
struct Patience(bool);

/// One transaction's target.
pub(super) struct Target {
    handle: Table,
    state: Arc<TableState>,
    txn: TxnId,
    shape: Shape,
    /// Names of the partitions that rows may go to; empty for all.
    partitions: Vec<String>,
    /// They are temporary ones.
    temporary: bool,
    replaces: Replace,
    label: Option<String>,
    max_filter_ratio: f64,
    /// Rows that the table has keep the columns that the query does not give.
    partial: Option<NewKeys>,
    /// Rows whose keys are there are left out.
    ignores: bool,
    /// A few rows, which may share a commit with others.
    shared: Option<Patience>,
    recorder: Option<Recorder>,
    /// Called for each batch of the query, before it is shaped.
    pub(super) select: Option<Select>,
    /// The rows that the new ones were computed from, asked when all are read.
    pub(super) reads: Option<Box<dyn FnOnce() -> Reads + Send>>,
}

impl Target {
    pub(super) fn new(handle: Table, state: Arc<TableState>, shape: Shape) -> Self {
        Target {
            txn: handle.begin(),
            handle,
            state,
            shape,
            partitions: Vec::new(),
            temporary: false,
            replaces: Replace::None,
            label: None,
            max_filter_ratio: 0.0,
            partial: None,
            ignores: false,
            shared: None,
            recorder: None,
            select: None,
            reads: None,
        }
    }
}

/// What a statement has written.
pub(super) struct Written {
    pub(super) rows: u64,
    /// Rows left out.
    pub(super) rejected: u64,
    /// Why, for the first of them.
    pub(super) reasons: Vec<String>,
    /// Rows left out because their keys are there.
    left_out: u64,
    /// The transaction of others that it shared.
    txn: Option<TxnId>,
    /// The first value that was made for the AUTO_INCREMENT column.
    generated: Option<i64>,
}

impl Written {
    /// Doris: more rows than that share of all are left out, and none is kept.
    fn check(&self, max_filter_ratio: f64) -> Result<()> {
        if self.rejected as f64 <= max_filter_ratio * (self.rows + self.rejected) as f64 {
            return Ok(());
        }
        let first = self.reasons.first().map(String::as_str).unwrap_or_default();
        Err(EngineError::new(
            ErrorKind::BadValue,
            format!(
                "Insert has filtered data: {} of {} rows; first: {first}",
                self.rejected,
                self.rows + self.rejected
            ),
        ))
    }
}

/// Bytes that a key takes in a set beside its own: where it is, as many free places, and what the allocator adds.
const SEEN_KEY_BYTES: usize = 48;

/// What an INSERT IGNORE leaves of its rows: the first of each key that the table does not have.
struct Unseen {
    table: Partial,
    /// Keys of rows that were left.
    seen: Mutex<HashSet<Box<[u8]>>>,
    memory: MemoryReservation,
}

impl Unseen {
    fn new(table: Partial, pool: &Arc<dyn MemoryPool>) -> Self {
        let memory = MemoryConsumer::new("keys of an INSERT IGNORE").register(pool);
        Unseen { table, seen: Mutex::default(), memory }
    }

    /// Those rows of a batch. Blocking.
    fn choose(&self, batch: &RecordBatch) -> Result<RecordBatch> {
        let mut bytes = 0;
        let new = self.table.unseen(batch, |key| {
            let is_first = self.seen.lock().insert(key.into());
            bytes += if is_first { key.len() + SEEN_KEY_BYTES } else { 0 };
            is_first
        })?;
        self.memory.try_grow(bytes)?;
        Ok(filter_record_batch(batch, &new)?)
    }
}

/// Reasons that are kept for SHOW WARNINGS.
const REASONS_MAX: usize = 64;

/// Counts what the parallel parts of a statement push.
#[derive(Debug, Default)]
struct Rejects {
    pushed: u64,
    rejected: u64,
    left_out: u64,
    reasons: Vec<String>,
    generated: Option<i64>,
}

impl Rejects {
    fn add(&mut self, rows: usize, rejected: Vec<RejectedRow>, max_filter_ratio: f64) -> Result<()> {
        self.pushed += rows as u64;
        self.rejected += rejected.len() as u64;
        let left = REASONS_MAX.saturating_sub(self.reasons.len());
        self.reasons.extend(rejected.into_iter().take(left).map(|r| r.reason));
        // Without tolerance the first row decides.
        if max_filter_ratio <= 0.0 { self.written().check(0.0) } else { Ok(()) }
    }

    fn written(&self) -> Written {
        Written {
            rows: self.pushed - self.rejected,
            rejected: self.rejected,
            reasons: self.reasons.clone(),
            left_out: self.left_out,
            txn: None,
            generated: self.generated,
        }
    }

    /// Threads draw values as they come: the least is the first.
    fn generated(&mut self, first: Option<i64>) {
        self.generated = self.generated.into_iter().chain(first).min();
    }
}

/// Runs a query on the threads for it, and publishes its rows.
pub(super) async fn run(engine: &Arc<Engine>, planned: Planned, mut target: Target) -> Result<Written> {
    check_width(
        target.shape.wanted,
        planned.logical.schema().fields().len() - 2 * usize::from(target.select.is_some()),
    )?;
    let physical = planned.physical().await?;
    let mut recorder = target.recorder.take();
    if let Some(recorder) = &mut recorder {
        recorder.planned();
    }
    let class = Class::of(&physical);
    let permit = engine.admission.admit(class, &physical).await?;
    if let Some(recorder) = &mut recorder {
        recorder.admitted();
    }
    let (plan, of) = (Arc::clone(&physical), Arc::clone(engine));
    let work = Box::pin(async move {
        let _permit = permit;
        write(&of, &planned, plan, target).await
    });
    let written = match class {
        Class::Long => query::on_cpu(engine.cpu(), work).await,
        Class::Tiny | Class::Short => work.await,
    };
    let Some(recorder) = recorder else { return written };
    let rows = written.as_ref().map_or(0, |w| w.rows);
    recorder.end(Some(physical.as_ref()), rows, Duration::ZERO, written.as_ref().map(drop).map_err(Some));
    written
}

async fn write(
    engine: &Arc<Engine>,
    planned: &Planned,
    physical: Arc<dyn ExecutionPlan>,
    target: Target,
) -> Result<Written> {
    let streams = match target.shared {
        Some(patience) => {
            let mut stream = execute_stream(physical, planned.state.task_ctx())?;
            let mut batches = Vec::new();
            let mut bytes = 0;
            while bytes <= group::MEMBER_BYTES_MAX
                && let Some(batch) = stream.next().await.transpose()?
            {
                bytes += memory_of(&batch);
                batches.push(batch);
            }
            if bytes <= group::MEMBER_BYTES_MAX
                && let Some(written) =
                    share(engine, &target.handle, &target.shape, target.max_filter_ratio, patience, &batches).await?
            {
                return Ok(written);
            }
            vec![futures::stream::iter(batches.into_iter().map(Ok)).chain(stream).boxed()]
        }
        None => {
            let streams = execute_stream_partitioned(physical, planned.state.task_ctx())?;
            streams.into_iter().map(StreamExt::boxed).collect()
        }
    };
    let Target { handle, state, txn, shape, partitions, temporary, replaces, label, max_filter_ratio, .. } = target;
    let (select, reads) = (target.select, target.reads);
    let options = LoadOptions {
        strict: shape.strict,
        partitions: (!partitions.is_empty()).then_some(partitions),
        temporary_partitions: temporary,
        threads: engine.threads,
        ..LoadOptions::default()
    };
    let begin = |state: &Arc<TableState>, txn| {
        let target = LoadTarget { table: handle.clone(), state: Arc::clone(state), txn };
        Load::begin(target, options.clone(), engine.io().clone())
    };
    let given = shape.given();
    let with = |state: &Arc<TableState>, given: &[usize]| {
        let readers = Arc::clone(engine.native.readers());
        Partial::try_new(handle.clone(), Arc::clone(state), given, readers, engine.io().clone())
    };
    let complete = |state: &Arc<TableState>| with(state, &given);
    let load = begin(&state, txn)?;
    let partial = match target.partial {
        Some(new_keys) => Some((Arc::new(complete(&state)?), new_keys)),
        None => None,
    };
    let unseen = match target.ignores {
        // Keys that are not given are the same in all rows, or made by the load.
        true => {
            let all: Vec<usize> = (0..state.schema().columns.len()).collect();
            Some(Arc::new(Unseen::new(with(&state, &all)?, &planned.state.runtime_env().memory_pool)))
        }
        false => None,
    };
    // No key of theirs may come to be there before they are.
    let unread = target.ignores.then(|| Reads { seq: state.seq(), rows: 0 });
    let shape = Arc::new(shape);
    let order = Arc::new(AtomicU64::new(0));
    let rejects = Arc::new(Mutex::new(Rejects::default()));
    let mut tasks = JoinSet::new();
    for mut stream in streams {
        let (load, shape, order) = (Arc::clone(&load), Arc::clone(&shape), Arc::clone(&order));
        let (rejects, select, partial) = (Arc::clone(&rejects), select.clone(), partial.clone());
        let unseen = unseen.clone();
        tasks.spawn(async move {
            while let Some(batch) = stream.next().await {
                let mut batch = batch.map_err(EngineError::from)?;
                if let Some(select) = &select {
                    batch = select(&batch)?;
                }
                let mut rows = [shape.shape(&batch)?];
                if unseen.is_some() || partial.is_some() {
                    rows = [load.with_stored_keys(&rows[0])?];
                }
                if let Some(unseen) = &unseen {
                    let new = block_in_place(|| unseen.choose(&rows[0]))?;
                    rejects.lock().left_out += (rows[0].num_rows() - new.num_rows()) as u64;
                    rows = [new];
                }
                if let Some((partial, new_keys)) = &partial {
                    let filled = block_in_place(|| partial.fill(&rows[0]))?;
                    new_keys.check(&filled)?;
                    rows = [filled.batch];
                }
                // Numbers are drawn where the push follows at once: it may wait for those before it.
                let report = block_in_place(|| load.push(order.fetch_add(1, Ordering::Relaxed), &rows))?;
                let mut rejects = rejects.lock();
                rejects.generated(report.generated);
                rejects.add(rows[0].num_rows(), report.rejected, max_filter_ratio)?;
            }
            Ok::<_, EngineError>(())
        });
    }
    while let Some(done) = tasks.join_next().await {
        let failed = match done {
            Ok(Ok(())) => continue,
            Ok(Err(e)) => e,
            Err(e) if e.is_panic() => {
                // Others may wait for the number that it has drawn.
                block_in_place(|| load.abort());
                std::panic::resume_unwind(e.into_panic())
            }
            Err(_) => EngineError::new(ErrorKind::Killed, "the statement was cancelled"),
        };
        block_in_place(|| load.abort());
        tasks.shutdown().await;
        return Err(failed);
    }
    let written = rejects.lock().written();
    written.check(max_filter_ratio)?;
    let mut rowset = block_in_place(|| load.finish())?;
    rowset.replaces = replaces;
    rowset.label = label;
    rowset.reads = match (&partial, reads) {
        (Some((partial, _)), _) => Some(partial.reads()),
        (None, reads) => reads.map(|reads| reads()).or(unread),
    };
    for _ in 0..ATTEMPTS_MAX {
        match engine.native.publish(&handle, rowset.clone()).await {
            Ok(_) => return Ok(written),
            // Rows that were completed have changed meanwhile: they are completed anew.
            Err(e) if e.kind == ErrorKind::Conflict && partial.is_some() => {
                let state = handle.refresh().await?;
                let again = complete(&state)?;
                let load = begin(&state, handle.begin())?;
                let rebased = block_in_place(|| {
                    again.rebase(&rowset, &load)?;
                    load.finish()
                })?;
                rowset =
                    Rowset { replaces: rowset.replaces, label: rowset.label, reads: Some(again.reads()), ..rebased };
            }
            Err(e) => return Err(e),
        }
    }
    Err(EngineError::new(ErrorKind::Conflict, "others changed the same rows again and again; repeat the statement"))
}

/// Commits a few rows together with those of other statements; `None` where they have to be committed by themselves.
async fn share(
    engine: &Arc<Engine>,
    handle: &Table,
    shape: &Shape,
    max_filter_ratio: f64,
    patience: Patience,
    batches: &[RecordBatch],
) -> Result<Option<Written>> {
    let rows = batches.iter().map(|b| shape.shape(b)).collect::<Result<Vec<_>>>()?;
    let pushed: usize = rows.iter().map(RecordBatch::num_rows).sum();
    let share = Share {
        schema: Arc::clone(&shape.definition),
        rows,
        strict: shape.strict,
        refused_max: (max_filter_ratio * pushed as f64).floor() as u64,
        patient: patience.0,
    };
    let (txn, refused, generated) = match group::commit(engine, handle, share).await? {
        Shared::Committed(txn, refused, generated) => (Some(txn), refused, generated),
        Shared::Refused(refused) => (None, refused, None),
        Shared::Apart => return Ok(None),
    };
    let mut rejects = Rejects::default();
    rejects.add(pushed, refused, max_filter_ratio)?;
    let written = rejects.written();
    written.check(max_filter_ratio)?;
    Ok(Some(Written { txn, generated, ..written }))
}

impl NewKeys {
    fn check(self, filled: &Filled) -> Result<()> {
        if self.refused && filled.is_new.true_count() > 0 {
            return Err(EngineError::invalid(
                "[E-7003]Can't append new rows in partial update when partial_update_new_key_behavior is ERROR",
            ));
        }
        Ok(())
    }
}
