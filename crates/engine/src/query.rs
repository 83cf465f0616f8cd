//! From the tree of a query to batches: finding its tables, planning it, running it.

use std::sync::Arc;

use arrow::datatypes::FieldRef;
use arrow::record_batch::RecordBatch;
use datafusion::common::config::ConfigOptions;
use datafusion::common::{DFSchema, TableReference};
use datafusion::datasource::{MemTable, provider_as_source, source_as_provider};
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder, UserDefinedLogicalNodeCore};
use datafusion::physical_plan::{ExecutionPlan, execute_stream};
use datafusion::sql::parser::Statement as DfStatement;
use dipper_dialect::statement::QueryText;
use dipper_exec::coop::{Run, at_length, still_wanted};
use dipper_exec::cost::Class;
use dipper_exec::native::NativeProvider;
use dipper_exec::on_cpu::{on_cpu, panicked};
use dipper_exec::quota::task_context;
use dipper_exec::rules::correlated::outer_columns;
use dipper_exec::shared::share;
use dipper_sql::charter::compute::{ComputeColumns, ItemPlanner};
use dipper_sql::charter::hidden::may_name_one;
use dipper_sql::charter::session::{Context, VarValue};
use dipper_sql::charter::wide::{PickColumns, Picking, WIDE};
use dipper_sql::charter::wide_groups::GroupColumns;
use dipper_sql::charter::wide_windows::WindowColumns;
use dipper_sql::charter::{prepare_query, visible_name};
use futures::StreamExt;
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use sqlparser::ast::{ExprWithAlias, Query};

use crate::context::QueryContext;
use crate::defaults;
use crate::error::{EngineError, ErrorKind, MIXED_WITH_AGGREGATES, NOT_GROUPED, Result};
use crate::functions;
use crate::profile::{Recorder, Task, profiled};
use crate::result::{Column, Rows};
use crate::tables::TableSet;

/// Batches of a running query.
pub(crate) type QueryStream = BoxStream<'static, Result<RecordBatch>>;

/// Number of batches that wait between the query threads and the client: enough that neither side waits for the other
/// to wake up, few enough that a slow client holds little memory.
const BATCHES_WAITING: usize = 4;

/// A query that is planned and can be run.
pub(crate) struct Planned {
    pub(crate) state: SessionState,
    /// The logical plan, analyzed unless parameters are open.
    pub(crate) logical: LogicalPlan,
    /// The column headers of the result, as the text of the query spells them.
    pub(crate) headers: Vec<String>,
    /// Warnings for the user.
    pub(crate) warnings: Vec<String>,
    /// Planning takes so long that other statements should not wait for the thread.
    pub(crate) is_long: bool,
}

/// The table column that a result column comes from, with its database and the alias of its table in the query. All
/// fields are empty for an expression.
#[derive(Default)]
struct Origin {
    database: String,
    alias: String,
    table: String,
    column: String,
    key: Option<bool>,
}

impl Planned {
    /// The columns of the result.
    pub(crate) fn columns(&self) -> Vec<Column> {
        let fields = self.logical.schema().fields();
        (fields.iter().zip(&self.headers).enumerate())
            .map(|(at, (field, header))| {
                let origin = self.origin(&self.logical, at).unwrap_or_default();
                Column {
                    name: header.clone(),
                    field: Arc::clone(field),
                    org_name: origin.column,
                    table: origin.alias,
                    org_table: origin.table,
                    database: origin.database,
                    key: origin.key,
                }
            })
            .collect()
    }

    /// Finds the table column that column `at` of a plan comes from, by MySQL's rules.
    fn origin(&self, plan: &LogicalPlan, at: usize) -> Option<Origin> {
        let (qualifier, field) = plan.schema().qualified_field(at);
        match plan {
            LogicalPlan::TableScan(scan) => {
                let table = visible_name(scan.table_name.table()).to_string();
                let database = self.database(&scan.table_name);
                let column = field.name().clone();
                let provider = source_as_provider(&scan.source).ok();
                let key = provider.and_then(|p| p.downcast_ref::<NativeProvider>()?.key(&column));
                Some(Origin { database, alias: table.clone(), table, column, key })
            }
            LogicalPlan::SubqueryAlias(alias) => {
                let name = alias.alias.table();
                let below = self.origin(&alias.input, at).unwrap_or_default();
                Some(match alias.input.as_ref() {
                    LogicalPlan::TableScan(_) => Origin { alias: name.to_string(), ..below },
                    // For a table whose columns are written in another case, the charter adds an alias that is the
                    // table's own name.
                    _ if below.alias == name => below,
                    // A view counts as a table of its own, and so does a derived table; its database is the one of what
                    // it reads.
                    _ => Origin {
                        database: Some(self.database(&alias.alias)).filter(|d| !d.is_empty()).unwrap_or(below.database),
                        alias: name.to_string(),
                        table: name.to_string(),
                        column: field.name().clone(),
                        key: None,
                    },
                })
            }
            LogicalPlan::Extension(extension)
                if let Some(picked) = extension.node.as_any().downcast_ref::<PickColumns>() =>
            {
                self.origin(picked.inputs()[0], *picked.places().get(at)?)
            }
            LogicalPlan::Extension(extension)
                if let Some(computed) = extension.node.as_any().downcast_ref::<ComputeColumns>() =>
            {
                let item = computed.items().get(at)?;
                item.expr.try_as_col()?;
                self.origin(computed.inputs()[0], *item.reads.first()?)
            }
            LogicalPlan::Extension(extension)
                if let Some(groups) = extension.node.as_any().downcast_ref::<GroupColumns>() =>
            {
                // A key has the name of the column that it is; one that is computed has another.
                let (key, input) = (groups.keys().get(at)?, groups.inputs()[0]);
                let is_it = |from: &&usize| {
                    let (own, own_field) = input.schema().qualified_field(**from);
                    own == qualifier && own_field.name() == field.name()
                };
                self.origin(input, *key.reads.iter().find(is_it)?)
            }
            LogicalPlan::Extension(extension)
                if let Some(windows) = extension.node.as_any().downcast_ref::<WindowColumns>() =>
            {
                let input = windows.inputs()[0];
                if at < input.schema().fields().len() { self.origin(input, at) } else { None }
            }
            LogicalPlan::Projection(projection) => {
                let mut value = &projection.expr[at];
                while let Expr::Alias(alias) = value {
                    value = &alias.expr;
                }
                let column = value.try_as_col()?;
                self.origin(&projection.input, projection.input.schema().maybe_index_of_column(column)?)
            }
            LogicalPlan::Union(_) | LogicalPlan::RecursiveQuery(_) => None,
            other => {
                let width = plan.schema().fields().len();
                let mut before = 0;
                other.inputs().into_iter().find_map(|input| {
                    let same =
                        |(q, f): (Option<&TableReference>, &FieldRef)| q == qualifier && f.name() == field.name();
                    // In most plans the columns are those of the inputs, one input after the other.
                    let own = input.schema().fields().len();
                    let likely = at.checked_sub(before).filter(|likely| width >= own && *likely < own);
                    before += own;
                    let is_there = likely.filter(|likely| same(input.schema().qualified_field(*likely)));
                    self.origin(input, is_there.or_else(|| input.schema().iter().position(same))?)
                })
            }
        }
    }

    /// The database of a table of the statement; empty if the table is in no database.
    fn database(&self, table: &TableReference) -> String {
        let selected = &self.state.config_options().catalog;
        let is_there = || {
            let catalog = self.state.catalog_list().catalog(&selected.default_catalog)?;
            Some(catalog.schema(&selected.default_schema)?.table_exist(table.table()))
        };
        match table.schema() {
            Some(database) => database.to_string(),
            None if is_there() == Some(true) => selected.default_schema.clone(),
            None => String::new(),
        }
    }

    /// Optimises the plan and makes the physical plan, which is ready to run.
    pub(crate) async fn physical(&self) -> Result<Arc<dyn ExecutionPlan>> {
        at_length(self.is_long, self.optimized()).await
    }

    async fn optimized(&self) -> Result<Arc<dyn ExecutionPlan>> {
        let optimized = self.state.optimizer().optimize(self.logical.clone(), &self.state, |_, _| {})?;
        still_wanted()?;
        let outside = outer_columns(&optimized)?;
        if !outside.is_empty() {
            return Err(EngineError::unsupported(format!(
                "a subquery that depends on {} of the query around it, in this form; write it as a join",
                outside.join(", ")
            )));
        }
        Ok(self.state.query_planner().create_physical_plan(&optimized, &self.state).await?)
    }
}

/// Plans a query and starts it on its threads. Returns the rows and the warnings for the user.
///
/// If the first result is the error that an object is gone (`Vanished`: the statement's snapshot is older than the time
/// for which vacuum keeps objects for readers), the query is planned once more on the newest state. Rows of a rerun
/// that has other columns are not used: the client then gets the error.
pub(crate) async fn run(
    context: Arc<QueryContext>,
    query: QueryText,
    params: Vec<VarValue>,
) -> Result<(Rows, Vec<String>)> {
    let again = (Arc::clone(&context), query.clone(), params.clone());
    let (rows, warnings) = match run_once(context, query, params).await {
        Err(e) if e.kind == ErrorKind::Vanished => return rerun(again).await,
        other => other?,
    };
    let columns = rows.columns.clone();
    let state = (rows.batches, Some((again, columns)));
    let batches = futures::stream::unfold(state, |(mut batches, mut again)| async move {
        match (batches.next().await?, again.take()) {
            (Err(e), Some((again, columns))) if e.kind == ErrorKind::Vanished => match rerun(again).await {
                Err(e) => Some((Err(e), (batches, None))),
                Ok((rows, _)) if rows.columns != columns => Some((Err(e), (batches, None))),
                Ok((mut rows, _)) => Some((rows.batches.next().await?, (rows.batches, None))),
            },
            (next, _) => Some((next, (batches, None))),
        }
    });
    Ok((Rows { columns: rows.columns, batches: batches.boxed() }, warnings))
}

/// Runs a query again on the newest state. The future is boxed: otherwise the compiler would prove again, for each
/// future that holds it, that all of planning is `Send`.
fn rerun(
    (context, query, params): (Arc<QueryContext>, QueryText, Vec<VarValue>),
) -> BoxFuture<'static, Result<(Rows, Vec<String>)>> {
    Box::pin(async move {
        let catalog = context.engine.catalog.refresh().await?;
        context.engine.lake.forget();
        let context = context.as_ref().clone();
        let snapshots = context.first_snapshots();
        let context = QueryContext { catalog, snapshots, listings: Arc::default(), ..context };
        run_once(Arc::new(context), query, params).await
    })
}

async fn run_once(context: Arc<QueryContext>, query: QueryText, params: Vec<VarValue>) -> Result<(Rows, Vec<String>)> {
    let threads = context.engine.short().clone();
    let io = Arc::clone(&context.io);
    on_cpu(
        &threads,
        io.scope(async move {
            let mut recorder = Recorder::begin(&context, Task::Query, &query.text);
            let planned = plan(&context, &query, Some(&params)).await?;
            let columns = planned.columns();
            let physical = planned.physical().await?;
            if let Some(recorder) = &mut recorder {
                recorder.planned();
            }
            let batches = start(&context, &planned.state, Arc::clone(&physical)).await?;
            if let Some(recorder) = &mut recorder {
                recorder.admitted();
            }
            Ok((Rows { columns, batches: profiled(batches, physical, recorder) }, planned.warnings))
        }),
    )
    .await
}

/// Runs a physical plan on the threads of its class (`Engine::threads_of`) as soon as it is
/// [admitted](crate::admission), and passes its batches on through a bounded channel.
pub(crate) async fn start(
    context: &QueryContext,
    state: &SessionState,
    physical: Arc<dyn ExecutionPlan>,
) -> Result<QueryStream> {
    let class = Class::of(&physical);
    let permit = context.engine.admission.admit(class, &physical, state).await?;
    let threads = context.engine.threads_of(class).clone();
    let run = Run::default();
    let mut stream = {
        let _on = threads.enter();
        context.io.enter(|| run.enter(|| execute_stream(physical, task_context(state))))?
    };
    let (sender, receiver) = tokio::sync::mpsc::channel::<Result<RecordBatch>>(BATCHES_WAITING);
    let forward = threads.spawn(run.scope(context.io.scope(async move {
        let _permit = permit;
        loop {
            // The task ends when the client is gone, even in the middle of a long wait for the first batch.
            let next = tokio::select! {
                biased;
                () = sender.closed() => return,
                next = stream.next() => next,
            };
            let Some(next) = next else { return };
            let failed = next.is_err();
            if sender.send(next.map_err(EngineError::from)).await.is_err() || failed {
                return;
            }
        }
    })));
    // The channel ends when the task ends. Without this look at the task's result, a panic would look like the end of
    // the rows.
    let state = (receiver, Some(forward), run);
    Ok(futures::stream::unfold(state, |(mut receiver, mut forward, run)| async move {
        if let Some(next) = receiver.recv().await {
            return Some((next, (receiver, forward, run)));
        }
        match forward.take()?.await {
            Err(e) if e.is_panic() => Some((Err(panicked(&*e.into_panic())), (receiver, None, run))),
            _ => None,
        }
    })
    .boxed())
}

/// Reads all rows and discards them.
pub(crate) async fn drain(mut rows: Rows) -> Result<()> {
    while let Some(batch) = rows.batches.next().await {
        batch?;
    }
    Ok(())
}

/// Plans a query: finds its tables, lets the charter resolve its names, and lets DataFusion make a logical plan.
/// `params` are the values of its `?`; `None` leaves them open.
pub(crate) async fn plan(
    context: &Arc<QueryContext>,
    query: &QueryText,
    params: Option<&[VarValue]>,
) -> Result<Planned> {
    let naming;
    let context = match may_name_one(&query.text) {
        true if !context.hidden_columns => {
            naming = Arc::new(QueryContext { hidden_columns: true, ..context.as_ref().clone() });
            &naming
        }
        _ => context,
    };
    let tables = TableSet::load(context, query).await?;
    plan_over(context, query, params, &tables).await
}

/// Runs [`plan`] without parameters on the threads for planning, for callers on other threads.
pub(crate) async fn plan_elsewhere(context: &Arc<QueryContext>, query: &QueryText) -> Result<Planned> {
    let threads = context.engine.short().clone();
    let (context, query) = (Arc::clone(context), query.clone());
    on_cpu(&threads, async move { plan(&context, &query, None).await }).await
}

/// Length of a statement in bytes from which other statements should not wait while it is planned.
const LONG_TEXT: usize = 32 << 10;

/// Plans a query as [`plan`] does, over tables that are already loaded.
pub(crate) async fn plan_over(
    context: &Arc<QueryContext>,
    query: &QueryText,
    params: Option<&[VarValue]>,
    tables: &TableSet,
) -> Result<Planned> {
    let is_long = query.text.len() > LONG_TEXT || tables.columns() >= WIDE;
    at_length(is_long, planned_over(context, query, params, tables, is_long)).await
}

async fn planned_over(
    context: &Arc<QueryContext>,
    query: &QueryText,
    params: Option<&[VarValue]>,
    tables: &TableSet,
    is_long: bool,
) -> Result<Planned> {
    let replaced = functions::expand(context, query)?;
    let query = replaced.as_ref().unwrap_or(query);
    let expanded = defaults::expand(context, query, tables).await?;
    let query = expanded.as_ref().unwrap_or(query);
    let prepared = prepare_query(query, &Context { schemas: tables, variables: context.as_ref(), parameters: params })?;
    let state = session_state(context, tables);
    let logical = logical_plan(&state, &prepared.query, tables.columns()).await;
    let logical = logical.map_err(|e| match EngineError::from(e) {
        e if e.code == NOT_GROUPED && !prepared.is_grouped() => EngineError { code: MIXED_WITH_AGGREGATES, ..e },
        e => e,
    })?;
    let logical = with_types(&state, logical, params.is_none())?;
    if logical.schema().fields().is_empty() {
        // MySQL's protocol has no rows without columns.
        return Err(EngineError::invalid("the query has no columns: files of empty JSON objects or lines have none"));
    }
    let headers = prepared.headers(logical.schema().fields().iter().map(|f| f.name().as_str()));
    Ok(Planned { state, logical, headers, warnings: prepared.warnings, is_long })
}

/// Makes the logical plan of a query over tables that have `columns` columns in total.
async fn logical_plan(state: &SessionState, query: &Query, columns: usize) -> datafusion::error::Result<LogicalPlan> {
    if let Some(picking) = Picking::of(query, columns) {
        let narrow = planned_by(state, picking.narrow.clone()).await?;
        if let Some(picked) = picking.over(narrow, &mut Items(state))? {
            return Ok(picked);
        }
    }
    planned_by(state, query.clone()).await
}

/// Plans expressions outside of any subquery.
struct Items<'a>(&'a SessionState);

impl ItemPlanner for Items<'_> {
    fn plan(&mut self, expr: sqlparser::ast::Expr, schema: &DFSchema) -> datafusion::error::Result<Expr> {
        self.0.create_logical_expr_from_sql_expr(ExprWithAlias { expr, alias: None }, schema)
    }

    fn options(&self) -> &ConfigOptions {
        self.0.config_options()
    }
}

async fn planned_by(state: &SessionState, query: Query) -> datafusion::error::Result<LogicalPlan> {
    let statement = sqlparser::ast::Statement::Query(Box::new(query));
    share(state.statement_to_plan(DfStatement::Statement(Box::new(statement))).await?)
}

/// Makes a plan that returns rows that are already in memory.
pub(crate) fn rows(context: &Arc<QueryContext>, rows: RecordBatch) -> Result<Planned> {
    let headers = rows.schema().fields().iter().map(|f| f.name().clone()).collect();
    let table = MemTable::try_new(rows.schema(), vec![vec![rows]])?;
    let logical = LogicalPlanBuilder::scan("rows", provider_as_source(Arc::new(table)), None)?.build()?;
    let state = session_state(context, &TableSet::default());
    Ok(Planned { state, logical, headers, warnings: Vec::new(), is_long: false })
}

/// Analyzes the plan, so that its schema has the types that the rows will have. Before analysis, UNION, CASE and
/// functions have the types of their first branch or argument. `open`: parameters have no values yet, so the types may
/// not be known; a plan that cannot be analyzed is then returned as it is.
fn with_types(state: &SessionState, plan: LogicalPlan, open: bool) -> Result<LogicalPlan> {
    match open {
        true => Ok(analyzed(state, plan.clone()).unwrap_or(plan)),
        false => analyzed(state, plan),
    }
}

fn analyzed(state: &SessionState, plan: LogicalPlan) -> Result<LogicalPlan> {
    Ok(state.analyzer().execute_and_check(plan, state.config_options(), |_, _| {})?)
}

/// Combines the settings of this session and the tables of this query with the functions and rules that all sessions
/// share.
pub(crate) fn session_state(context: &QueryContext, tables: &TableSet) -> SessionState {
    let mut state = context.state();
    state.register_catalog_list(tables.catalog_list());
    state
}
