//! The context of a statement: the state of the catalog, the variables and the rights of its session, frozen when the
//! statement begins.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::util::display::array_value_to_string;
use datafusion::common::ScalarValue;
use datafusion::execution::session_state::SessionState;
use dipper_base::clock;
use dipper_base::names::CATALOG;
use dipper_cache::{IoContext, Populate};
use dipper_dialect::statement::Scope;
use dipper_exec::profile::QueryId;
use dipper_exec::quota::Quota;
use dipper_lake::read::ReadContext;
use dipper_sql::charter::session::{VarValue, Variables};
use dipper_sql::functions::datetime;
use dipper_sql::functions::{LostValues, Memory, SessionInfo};
use dipper_store::catalog::access::Rights;
use dipper_store::catalog::{CatalogState, TableId, View};
use dipper_store::segment::Readers;
use dipper_store::table::TableState;
use dipper_variables::Variables as SessionVariables;

use crate::engine::Engine;
use crate::error::Result;
use crate::files::listings::Listings;
use crate::load::body_table::BodyTable;

/// The state of the session that a statement runs under, frozen when the statement begins.
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
    /// The rights of the user; none if the user was dropped.
    pub(crate) rights: Arc<Rights>,
    /// The limits of the statement: memory, and statements of the user at once.
    pub(crate) quota: Arc<Quota>,
    pub(crate) connection_id: u32,
    /// Databases and names of the views that are being expanded around this query, outermost first.
    pub(crate) views: Vec<(String, String)>,
    /// Database and name of the view that the statement makes, whose query may not read it.
    pub(crate) made_view: Option<(String, String)>,
    /// Snapshots of native tables: all mentions of a table in one statement see the same.
    pub(crate) snapshots: Arc<Snapshots>,
    /// The table that the session's transaction has written to, with its rows.
    pub(crate) own: Option<(TableId, Arc<TableState>)>,
    /// The table whose rows a statement changes.
    pub(crate) changed: Option<ChangedTable>,
    /// Hidden columns of native tables are shown.
    pub(crate) hidden_columns: bool,
    /// How the statement uses the data cache, and counters of what it reads from remote stores.
    pub(crate) io: Arc<IoContext>,
    /// The statement reads past the pages in memory, so that the data cache receives every byte.
    pub(crate) past_memory: bool,
    /// The listings of directories that the statement has read.
    pub(crate) listings: Arc<Listings>,
    /// The id of the statement, and of the statement before it in the session.
    pub(crate) query: QueryId,
    pub(crate) last_query: Option<QueryId>,
    /// ROW_COUNT() and FOUND_ROWS() of the statement before.
    pub(crate) counts: (i64, u64),
    /// The number of warnings (including errors) and of errors of the statement before.
    pub(crate) problems: (usize, usize),
    /// Counts the values that became NULL because they do not fit their type.
    pub(crate) lost: Arc<LostValues>,
    /// The body of the HTTP request, for `http_stream(...)`.
    pub(crate) body: Option<Arc<BodyTable>>,
}

/// The table whose rows a statement changes. The provider of this table also returns the addresses of the rows.
#[derive(Debug, Clone)]
pub(crate) struct ChangedTable {
    pub(crate) id: TableId,
    /// The partitions in `PARTITION (...)` behind the mention that is changed. Other mentions of the table are only
    /// read.
    pub(crate) partitions: Vec<String>,
    /// The state whose rows are changed. States that are only read are in [`QueryContext::snapshots`].
    pub(crate) state: Arc<TableState>,
    /// Only segments that were added after this commit (`TableState::seq`); 0 for all.
    pub(crate) after: u64,
}

/// The state of each native table that a statement has read, or why it could not be read: a store that failed for a
/// minute is not asked for another one.
pub(crate) type Snapshots = parking_lot::Mutex<HashMap<TableId, Result<Arc<TableState>>>>;

impl QueryContext {
    /// The snapshots of a statement that has read nothing yet.
    pub(crate) fn first_snapshots(&self) -> Arc<Snapshots> {
        snapshots_of(self.own.as_ref())
    }

    /// CURRENT_ROLE(): the user's roles, which are always in force.
    fn current_role(&self) -> String {
        let roles: Vec<&str> = self.rights.user().roles.iter().map(String::as_str).collect();
        if roles.is_empty() { "NONE".to_string() } else { roles.join(", ") }
    }

    /// Whether the query is part of a view.
    pub(crate) fn is_in_view(&self) -> bool {
        !self.views.is_empty()
    }

    /// Returns this context without the session's temporary tables.
    pub(crate) fn without_temporaries(&self) -> Self {
        QueryContext { catalog: Arc::clone(&self.permanent), ..self.clone() }
    }

    /// The readers of data objects and Parquet files.
    pub(crate) fn readers(&self) -> &Arc<Readers> {
        match self.past_memory {
            true => self.engine.native.forgetful_readers(),
            false => self.engine.native.readers(),
        }
    }

    /// The part of this context that reading files and external tables needs.
    pub(crate) fn read(self: &Arc<Self>) -> ReadContext {
        let context = Arc::clone(self);
        ReadContext {
            lake: Arc::clone(&self.engine.lake),
            stores: Arc::clone(&self.engine.stores),
            access: self.engine.options.access.clone(),
            listings: Arc::clone(&self.listings),
            readers: Arc::clone(self.readers()),
            session: Arc::new(move || context.state()),
            string_view: self.variables.string_view(),
            time_zone: self.variables.time_zone(),
            hive_settings: self.variables.hive_settings(),
        }
    }

    /// The context for the query of a view: with the view's database and sql_mode, without temporary tables.
    pub(crate) fn for_view(&self, database: &str, name: &str, view: &View) -> Result<Self> {
        let outer = self.views.iter().cloned();
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
            views: outer.chain([(database.to_string(), name.to_string())]).collect(),
            made_view: self.made_view.clone(),
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

    /// The settings of this session over the functions and rules that all sessions share. No tables are in it.
    pub(crate) fn state(&self) -> SessionState {
        let engine = &self.engine;
        let partitions = self.variables.parallelism().unwrap_or(engine.threads);
        let config = engine.template.config().clone().with_target_partitions(partitions);
        let mut config = config.with_extension(Arc::clone(&self.io));
        config.set_extension(Arc::new(self.variables.scan_settings()));
        config.set_extension(Arc::clone(&self.quota));
        let options = config.options_mut();
        dipper_exec::joins::configure(options, partitions);
        if let Some(bytes) = self.quota.bytes() {
            // Each part of a sort reserves this much for merging its spilled runs before it accepts a row.
            let part = bytes / partitions / 4;
            let kept = &mut options.execution.sort_spill_reservation_bytes;
            *kept = part.min(*kept);
        }
        options.catalog.default_catalog = self.selected_catalog.as_deref().unwrap_or(CATALOG).into();
        options.catalog.default_schema = self.database.clone().unwrap_or_default();
        options.execution.parquet.schema_force_view_types = self.variables.string_view();
        options.execution.time_zone = Some(self.variables.time_zone());
        options.extensions.insert(self.variables.aggregation_settings());
        options.extensions.insert(self.variables.join_filter_settings());
        options.extensions.insert(self.variables.recursion_settings());
        options.extensions.insert(SessionInfo {
            version: self.variables.get("version").unwrap_or_default(),
            current_role: self.current_role(),
            database: self.database.clone(),
            catalog: self.selected_catalog.clone().unwrap_or_else(|| CATALOG.to_string()),
            last_insert_id: self.variables.get("last_insert_id").and_then(|v| v.parse().ok()).unwrap_or_default(),
            user: format!("{}@{}", self.user, client_host(&self.host)),
            current_user: format!("{}@{}", self.rights.user().name, self.rights.user().host),
            connection_id: self.connection_id.into(),
            last_query_id: self.last_query.map(|id| id.to_string()).unwrap_or_default(),
            row_count: self.counts.0,
            found_rows: self.counts.1,
            lost: Arc::clone(&self.lost),
            encryption_mode: self.variables.get("block_encryption_mode").unwrap_or_default(),
            memory: Some(Memory(self.quota.pool(&engine.template.runtime_env().memory_pool))),
        });
        // A clone, not a new build from it: building registers functions in the order of a hash map, and a name that
        // the charter took over from DataFusion's aliases would fall back to either.
        let mut state = engine.template.clone();
        *state.config_mut() = config;
        // NOW() is the same in the whole statement.
        state.mark_start_execution();
        if let Some(instant) = self.variables.instant() {
            state.execution_props_mut().query_execution_start_time = Some(instant);
        }
        state
    }
}

/// The snapshots that a statement begins with: the state of the table that its transaction has written to.
pub(crate) fn snapshots_of(own: Option<&(TableId, Arc<TableState>)>) -> Arc<Snapshots> {
    Arc::new(parking_lot::Mutex::new(own.cloned().into_iter().map(|(id, state)| (id, Ok(state))).collect()))
}

/// How a statement with these variables reads remote stores.
pub(crate) fn io_context(variables: &SessionVariables) -> Arc<IoContext> {
    let populate = match variables.text("populate_datacache_mode").to_ascii_lowercase().as_str() {
        _ if !variables.flag("enable_populate_datacache") => Populate::Never,
        "always" => Populate::Always,
        "never" => Populate::Never,
        _ => Populate::Auto,
    };
    // StarRocks has one switch for the data cache, Doris another; either one turns it off.
    let uses = variables.flag("enable_scan_datacache") && !variables.flag("disable_file_cache");
    Arc::new(IoContext {
        bypass: !uses,
        populate: if uses { populate } else { Populate::Never },
        synchronous: !variables.flag("enable_datacache_async_populate_mode"),
        ..IoContext::default()
    })
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

/// Converts the value of a user variable into the form that the charter puts into queries.
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
        ScalarValue::Time64Microsecond(Some(v)) => VarValue::String(clock::text(*v, None)),
        v => VarValue::String(v.to_string()),
    }
}
