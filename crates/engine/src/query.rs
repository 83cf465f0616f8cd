//! From a query's tree to batches: tables, plan, run.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use arrow::datatypes::FieldRef;
use arrow::record_batch::RecordBatch;
use arrow::util::display::array_value_to_string;
use datafusion::common::config::ConfigOptions;
use datafusion::common::{DFSchema, ScalarValue, TableReference};
use datafusion::datasource::{MemTable, provider_as_source, source_as_provider};
use datafusion::execution::session_state::SessionState;
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder, UserDefinedLogicalNodeCore};
use datafusion::physical_plan::{ExecutionPlan, execute_stream};
use datafusion::sql::parser::Statement as DfStatement;
use dipper_base::names::CATALOG;
use dipper_cache::{IoContext, Populate};
use dipper_dialect::statement::{QueryText, Scope};
use dipper_exec::coop::{Run, at_length, still_wanted};
use dipper_exec::cost::Class;
use dipper_exec::native::NativeProvider;
use dipper_exec::on_cpu::{on_cpu, panicked};
use dipper_exec::quota::{Quota, task_context};
use dipper_exec::rules::correlated::outer_columns;
use dipper_lake::read::ReadContext;
use dipper_sql::charter::compute::{ComputeColumns, ItemPlanner};
use dipper_sql::charter::session::{Context, VarValue, Variables};
use dipper_sql::charter::wide::{PickColumns, Picking, WIDE};
use dipper_sql::charter::{prepare_query, visible_name};
use dipper_sql::functions::datetime;
use dipper_sql::functions::{LostValues, Memory, SessionInfo};
use dipper_store::catalog::access::Rights;
use dipper_store::catalog::{CatalogState, TableId, View};
use dipper_store::segment::Readers;
use dipper_store::table::TableState;
use futures::StreamExt;
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use sqlparser::ast::{ExprWithAlias, Query};

use crate::defaults;
use crate::engine::Engine;
use crate::error::{EngineError, ErrorKind, MIXED_WITH_AGGREGATES, NOT_GROUPED, Result};
use crate::files::listings::Listings;
use crate::load::body_table::BodyTable;
use crate::profile::{QueryId, Recorder, Task, profiled};
use crate::result::{Column, Rows};
use crate::session::Session;
use crate::tables::TableSet;
use dipper_variables::Variables as SessionVariables;

/// Batches of a running query.
pub(crate) type QueryStream = BoxStream<'static, Result<RecordBatch>>;

/// Batches that wait between the query threads and the client: enough that neither waits for the other's wake-up, few
/// enough that a slow client holds little.
const BATCHES_WAITING: usize = 4;

/// What a query needs to know of its session, frozen when the statement begins.
#[derive(Debug, Clone)]
pub(crate) struct QueryContext {
    pub(crate) engine: Arc<Engine>,
    pub(crate) catalog: Arc<CatalogState>,
    /// The catalog without the session's temporary tables, for what views read.
    pub(crate) permanent: Arc<CatalogState>,
    /// The external catalog that is selected; `None`: dipper's own.
    pub(crate) selected_catalog: Option<String>,
    pub(crate) database: Option<String>,
    pub(crate) variables: SessionVariables,
    pub(crate) user_variables: HashMap<String, ScalarValue>,
    pub(crate) user: String,
    pub(crate) host: String,
    /// What the user may do; nothing where the user is gone.
    pub(crate) rights: Arc<Rights>,
    /// What the statement may take.
    pub(crate) quota: Arc<Quota>,
    pub(crate) connection_id: u32,
    /// Views that are being expanded around this query.
    pub(crate) view_depth: usize,
    /// Snapshots of native tables: all mentions of a table in one statement see the same.
    pub(crate) snapshots: Arc<Snapshots>,
    /// The table that the session's transaction has written to, with its rows.
    pub(crate) own: Option<(TableId, Arc<TableState>)>,
    /// The table whose rows a statement changes.
    pub(crate) changed: Option<ChangedTable>,
    /// Hidden columns of native tables are shown.
    pub(crate) hidden_columns: bool,
    /// What the statement reads from remote stores.
    pub(crate) io: Arc<IoContext>,
    /// It reads past what is in memory, so that the data cache gets all of it.
    pub(crate) past_memory: bool,
    /// How it lists what is there.
    pub(crate) listings: Arc<Listings>,
    /// The statement, and the one before it in the session.
    pub(crate) query: QueryId,
    pub(crate) last_query: Option<QueryId>,
    /// ROW_COUNT() and FOUND_ROWS() of the statement before.
    pub(crate) counts: (i64, u64),
    /// Warnings (errors among them) and errors of the statement before.
    pub(crate) problems: (usize, usize),
    /// Values of the statement that became NULL because they are none of their type.
    pub(crate) lost: Arc<LostValues>,
    /// The request's body, for `http_stream(...)`.
    pub(crate) body: Option<Arc<BodyTable>>,
}

/// The table whose rows a statement changes: its provider gives their addresses, too.
#[derive(Debug, Clone)]
pub(crate) struct ChangedTable {
    pub(crate) id: TableId,
    /// What stands in `PARTITION (...)` behind its mention that is changed; other mentions of the table are only read.
    pub(crate) partitions: Vec<String>,
    /// Whose rows are changed. What is only read is in [`QueryContext::snapshots`].
    pub(crate) state: Arc<TableState>,
    /// Only segments that were added after this commit (`TableState::seq`); 0 for all.
    pub(crate) after: u64,
}

/// The state of each native table that a statement has read.
pub(crate) type Snapshots = parking_lot::Mutex<HashMap<TableId, Arc<TableState>>>;

impl QueryContext {
    pub(crate) fn new(session: &Session, catalog: Arc<CatalogState>) -> Self {
        let rights = session.rights(&catalog).unwrap_or_else(|_| Arc::new(Rights::none(&session.client.user)));
        let memory = &session.engine.template.runtime_env().memory_pool;
        let client = &session.client;
        let quota = Quota::of(&catalog.accounts, &client.user, client.connection_id, memory);
        let own = session.transaction.known();
        QueryContext {
            engine: Arc::clone(&session.engine),
            catalog: session.temporaries.over(Arc::clone(&catalog)),
            permanent: catalog,
            selected_catalog: session.catalog.clone(),
            database: session.database.clone(),
            variables: session.variables.clone(),
            user_variables: session.user_variables.clone(),
            user: session.client.user.clone(),
            host: session.client.host.clone(),
            rights,
            quota,
            connection_id: session.client.connection_id,
            view_depth: 0,
            snapshots: snapshots_of(own.as_ref()),
            own,
            changed: None,
            hidden_columns: session.variables.flag("show_hidden_columns"),
            io: io_context(&session.variables),
            past_memory: false,
            listings: Arc::default(),
            query: session.query,
            last_query: session.last_query,
            counts: (session.row_count, session.found_rows.load(Ordering::Relaxed)),
            problems: session.problems,
            lost: Arc::clone(&session.lost),
            body: session.body.clone(),
        }
    }

    /// The states of a statement that has read nothing yet.
    pub(crate) fn first_snapshots(&self) -> Arc<Snapshots> {
        snapshots_of(self.own.as_ref())
    }

    /// CURRENT_ROLE(): the user's roles, which are always in force.
    fn current_role(&self) -> String {
        let roles: Vec<&str> = self.rights.user().roles.iter().map(String::as_str).collect();
        if roles.is_empty() { "NONE".to_string() } else { roles.join(", ") }
    }

    /// This context without the session's temporary tables.
    pub(crate) fn without_temporaries(&self) -> Self {
        QueryContext { catalog: Arc::clone(&self.permanent), ..self.clone() }
    }

    /// What it reads data objects and Parquet files by.
    pub(crate) fn readers(&self) -> &Arc<Readers> {
        match self.past_memory {
            true => self.engine.native.forgetful_readers(),
            false => self.engine.native.readers(),
        }
    }

    /// What reading files and external tables needs of the statement.
    pub(crate) fn read(self: &Arc<Self>) -> ReadContext {
        let context = Arc::clone(self);
        ReadContext {
            lake: Arc::clone(&self.engine.lake),
            stores: Arc::clone(&self.engine.stores),
            access: self.engine.options.access.clone(),
            listings: Arc::clone(&self.listings),
            readers: Arc::clone(self.readers()),
            session: Arc::new(move || session_state(&context, &TableSet::default())),
            string_view: self.variables.string_view(),
            time_zone: self.variables.time_zone(),
            hive_settings: self.variables.hive_settings(),
        }
    }

    /// The same for the query of a view: its database and sql_mode.
    pub(crate) fn for_view(&self, view: &View) -> Result<Self> {
        let mut variables = self.variables.clone();
        variables.set("sql_mode", &view.sql_mode)?;
        Ok(QueryContext {
            engine: Arc::clone(&self.engine),
            catalog: Arc::clone(&self.permanent),
            permanent: Arc::clone(&self.permanent),
            selected_catalog: None,
            database: Some(view.database.clone()).filter(|d| !d.is_empty()),
            variables,
            user_variables: self.user_variables.clone(),
            user: self.user.clone(),
            host: self.host.clone(),
            rights: Arc::clone(&self.rights),
            quota: Arc::clone(&self.quota),
            connection_id: self.connection_id,
            view_depth: self.view_depth + 1,
            snapshots: Arc::clone(&self.snapshots),
            own: self.own.clone(),
            changed: None,
            hidden_columns: false,
            io: Arc::clone(&self.io),
            past_memory: self.past_memory,
            listings: Arc::clone(&self.listings),
            query: self.query,
            last_query: self.last_query,
            counts: self.counts,
            problems: self.problems,
            lost: Arc::clone(&self.lost),
            body: None,
        })
    }
}

/// Of a transaction's own table its statements see one state.
fn snapshots_of(own: Option<&(TableId, Arc<TableState>)>) -> Arc<Snapshots> {
    Arc::new(parking_lot::Mutex::new(own.cloned().into_iter().collect()))
}

/// A query that can be run.
pub(crate) struct Planned {
    pub(crate) state: SessionState,
    /// Analyzed, unless parameters are open.
    pub(crate) logical: LogicalPlan,
    /// Result headers, the text as written.
    pub(crate) headers: Vec<String>,
    /// What the user should be told.
    pub(crate) warnings: Vec<String>,
    /// Planning takes longer than others should wait for a thread.
    pub(crate) is_long: bool,
}

/// A column of a table, in a database and under the table's alias in the query; all empty for an expression.
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

    /// Where a column of a plan comes from, as MySQL tells it.
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
                    // The charter gives a table whose columns are written in another case its own name again.
                    _ if below.alias == name => below,
                    // A view is a table of its own, and so is a derived table, in the database of what it reads.
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
                    // Mostly the columns are those of the inputs, one behind the other.
                    let own = input.schema().fields().len();
                    let likely = at.checked_sub(before).filter(|likely| width >= own && *likely < own);
                    before += own;
                    let is_there = likely.filter(|likely| same(input.schema().qualified_field(*likely)));
                    self.origin(input, is_there.or_else(|| input.schema().iter().position(same))?)
                })
            }
        }
    }

    /// The database of a table of the statement; empty for what is in none.
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

    /// The optimised plan, ready to run.
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

/// Plans a query, and starts it on the threads for it. Gives its rows, and what the user should be told.
///
/// Where the first thing that comes is that an object is gone (the statement's view of a table was older than the time that
/// readers have), the query is planned once more, on what is there now.
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

/// Boxed: whatever holds this future would otherwise make the compiler prove once more that all of planning is `Send`.
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

/// Runs a physical plan on the threads [for it](Engine::threads_of), as soon as it is [admitted](crate::admission), and
/// hands its batches over through a bounded channel.
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
            // Ends when the client is gone, also in the middle of a long wait for the first batch.
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
    // The channel ends when the task does; a panic in it would look like the end of the rows.
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

/// Takes all rows and forgets them.
pub(crate) async fn drain(mut rows: Rows) -> Result<()> {
    while let Some(batch) = rows.batches.next().await {
        batch?;
    }
    Ok(())
}

/// Plans a query: finds its tables, lets the charter resolve its names, and DataFusion make a logical plan.
/// `params` stand for its `?`; `None` leaves them open.
pub(crate) async fn plan(
    context: &Arc<QueryContext>,
    query: &QueryText,
    params: Option<&[VarValue]>,
) -> Result<Planned> {
    let naming;
    let context = match query.text.to_ascii_uppercase().contains(HIDDEN_PREFIX) {
        true if !context.hidden_columns => {
            naming = Arc::new(QueryContext { hidden_columns: true, ..context.as_ref().clone() });
            &naming
        }
        _ => context,
    };
    let tables = TableSet::load(context, query).await?;
    plan_over(context, query, params, &tables).await
}

/// [`plan`] without parameters, for who is not on the threads for it.
pub(crate) async fn plan_elsewhere(context: &Arc<QueryContext>, query: &QueryText) -> Result<Planned> {
    let threads = context.engine.short().clone();
    let (context, query) = (Arc::clone(context), query.clone());
    on_cpu(&threads, async move { plan(&context, &query, None).await }).await
}

/// Bytes of a statement from which on others should not wait for its plan.
const LONG_TEXT: usize = 32 << 10;

/// [`plan`] over these tables.
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
    let headers = prepared.headers(logical.schema().fields().iter().map(|f| f.name().as_str()));
    Ok(Planned { state, logical, headers, warnings: prepared.warnings, is_long })
}

/// What the planner makes of a query, over tables with so many columns.
async fn logical_plan(state: &SessionState, query: &Query, columns: usize) -> datafusion::error::Result<LogicalPlan> {
    if let Some(picking) = Picking::of(query, columns) {
        let narrow = planned_by(state, picking.narrow.clone()).await?;
        if let Some(picked) = picking.over(narrow, &mut Items(state))? {
            return Ok(picked);
        }
    }
    planned_by(state, query.clone()).await
}

/// Plans expressions that stand in no subquery.
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
    state.statement_to_plan(DfStatement::Statement(Box::new(statement))).await
}

/// The plan that gives rows that are there already.
pub(crate) fn rows(context: &Arc<QueryContext>, rows: RecordBatch) -> Result<Planned> {
    let headers = rows.schema().fields().iter().map(|f| f.name().clone()).collect();
    let table = MemTable::try_new(rows.schema(), vec![vec![rows]])?;
    let logical = LogicalPlanBuilder::scan("rows", provider_as_source(Arc::new(table)), None)?.build()?;
    let state = session_state(context, &TableSet::default());
    Ok(Planned { state, logical, headers, warnings: Vec::new(), is_long: false })
}

/// The plan with the types that its rows will have. Before, UNION, CASE and functions have those of what comes first in
/// them. `open`: parameters are not given yet, so there may be no types.
fn with_types(state: &SessionState, plan: LogicalPlan, open: bool) -> Result<LogicalPlan> {
    match open {
        true => Ok(analyzed(state, plan.clone()).unwrap_or(plan)),
        false => analyzed(state, plan),
    }
}

fn analyzed(state: &SessionState, plan: LogicalPlan) -> Result<LogicalPlan> {
    Ok(state.analyzer().execute_and_check(plan, state.config_options(), |_, _| {})?)
}

/// How a statement with these variables reads remote stores.
fn io_context(variables: &SessionVariables) -> Arc<IoContext> {
    let populate = match variables.text("populate_datacache_mode").to_ascii_lowercase().as_str() {
        _ if !variables.flag("enable_populate_datacache") => Populate::Never,
        "always" => Populate::Always,
        "never" => Populate::Never,
        _ => Populate::Auto,
    };
    // StarRocks' switch, and Doris's two.
    let uses = variables.flag("enable_scan_datacache") && !variables.flag("disable_file_cache");
    Arc::new(IoContext {
        bypass: !uses,
        populate: if uses { populate } else { Populate::Never },
        synchronous: !variables.flag("enable_datacache_async_populate_mode"),
        ..IoContext::default()
    })
}

/// Who names a hidden column sees them all.
const HIDDEN_PREFIX: &str = "__DORIS_";

/// Settings of this session, and the tables of this query, over the shared functions and rules.
pub(crate) fn session_state(context: &Arc<QueryContext>, tables: &TableSet) -> SessionState {
    let engine = &context.engine;
    let partitions = context.variables.parallelism().unwrap_or(engine.threads);
    let config = engine.template.config().clone().with_target_partitions(partitions);
    let mut config = config.with_extension(Arc::clone(&context.io));
    config.set_extension(Arc::new(context.variables.scan_settings()));
    config.set_extension(Arc::clone(&context.quota));
    let options = config.options_mut();
    if let Some(bytes) = context.quota.bytes() {
        // What each part of a sort keeps for the merge of what it spills, before it takes in a row.
        let part = bytes / partitions / 4;
        let kept = &mut options.execution.sort_spill_reservation_bytes;
        *kept = part.min(*kept);
    }
    options.catalog.default_catalog = context.selected_catalog.as_deref().unwrap_or(CATALOG).into();
    options.catalog.default_schema = context.database.clone().unwrap_or_default();
    options.execution.parquet.schema_force_view_types = context.variables.string_view();
    options.execution.time_zone = Some(context.variables.time_zone());
    options.extensions.insert(SessionInfo {
        version: context.variables.get("version").unwrap_or_default(),
        current_role: context.current_role(),
        database: context.database.clone(),
        catalog: context.selected_catalog.clone().unwrap_or_else(|| CATALOG.to_string()),
        last_insert_id: context.variables.get("last_insert_id").and_then(|v| v.parse().ok()).unwrap_or_default(),
        user: format!("{}@{}", context.user, client_host(&context.host)),
        current_user: format!("{}@{}", context.rights.user().name, context.rights.user().host),
        connection_id: context.connection_id.into(),
        last_query_id: context.last_query.map(|id| id.to_string()).unwrap_or_default(),
        row_count: context.counts.0,
        found_rows: context.counts.1,
        lost: Arc::clone(&context.lost),
        encryption_mode: context.variables.get("block_encryption_mode").unwrap_or_default(),
        memory: Some(Memory(context.quota.pool(&engine.template.runtime_env().memory_pool))),
    });
    // A clone, not a new build from it: building registers functions in the order of a hash map, and a name that the
    // charter took over from DataFusion's aliases would fall back to either.
    let mut state = engine.template.clone();
    *state.config_mut() = config;
    state.register_catalog_list(tables.catalog_list());
    // NOW() is the same in the whole statement.
    state.mark_start_execution();
    if let Some(instant) = context.variables.instant() {
        state.execution_props_mut().query_execution_start_time = Some(instant);
    }
    state
}

/// The host of `host:port`.
fn client_host(host: &str) -> String {
    match host.parse::<std::net::SocketAddr>() {
        Ok(peer) => peer.ip().to_canonical().to_string(),
        Err(_) => host.to_string(),
    }
}

impl Variables for QueryContext {
    fn user(&self, name: &str) -> Option<VarValue> {
        self.user_variables.get(&name.to_lowercase()).map(var_value)
    }

    fn system(&self, scope: Option<Scope>, name: &str) -> Option<VarValue> {
        let (warnings, errors) = self.problems;
        match name.to_ascii_lowercase().as_str() {
            "warning_count" => Some(VarValue::UInt(warnings as u64)),
            "error_count" => Some(VarValue::UInt(errors as u64)),
            "pseudo_thread_id" => Some(VarValue::UInt(self.connection_id.into())),
            "timestamp" => {
                let at = self.variables.instant().unwrap_or_else(chrono::Utc::now).timestamp_micros();
                Some(VarValue::Decimal(format!("{}.{:06}", at / 1_000_000, at % 1_000_000)))
            }
            _ => self.variables.scalar(name, scope == Some(Scope::Global)).as_ref().map(var_value),
        }
    }
}

/// A user variable as the charter puts it into a query.
pub(crate) fn var_value(value: &ScalarValue) -> VarValue {
    match value {
        v if v.is_null() => VarValue::Null,
        ScalarValue::Boolean(Some(v)) => VarValue::Int((*v).into()),
        ScalarValue::Int8(Some(v)) => VarValue::Int((*v).into()),
        ScalarValue::Int16(Some(v)) => VarValue::Int((*v).into()),
        ScalarValue::Int32(Some(v)) => VarValue::Int((*v).into()),
        ScalarValue::Int64(Some(v)) => VarValue::Int(*v),
        ScalarValue::UInt64(Some(v)) => VarValue::UInt(*v),
        ScalarValue::Float32(Some(v)) => VarValue::Double((*v).into()),
        ScalarValue::Float64(Some(v)) => VarValue::Double(*v),
        v @ (ScalarValue::Decimal128(..) | ScalarValue::Decimal256(..)) => {
            let text = v.to_array().ok().and_then(|a| array_value_to_string(&a, 0).ok());
            text.map_or(VarValue::Null, VarValue::Decimal)
        }
        ScalarValue::Binary(Some(v)) | ScalarValue::BinaryView(Some(v)) | ScalarValue::LargeBinary(Some(v)) => {
            VarValue::Bytes(v.clone())
        }
        ScalarValue::Date32(Some(days)) => {
            let (year, month, day) = datetime::civil((*days).into());
            VarValue::Date { year: year as u16, month: month as u8, day: day as u8 }
        }
        ScalarValue::TimestampMicrosecond(Some(v), None) => {
            let at = datetime::split_micros(*v);
            VarValue::DateTime {
                year: at.year as u16,
                month: at.month as u8,
                day: at.day as u8,
                hour: at.hour as u8,
                minute: at.minute as u8,
                second: at.second as u8,
                micros: at.micro as u32,
            }
        }
        v => VarValue::String(v.to_string()),
    }
}
