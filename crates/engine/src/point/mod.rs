//! Look-ups by key: `SELECT ... FROM t WHERE <all key columns> = ...` without DataFusion.
//!
//! | file | question it answers |
//! |---|---|
//! | `scan.rs` | under which text is a statement remembered, once its constants are taken out? |
//! | `recognise.rs` | does a query ask for rows by their whole key? |
//! | `plan.rs` | what is planned once; how is it run? |
//! | `residual.rs` | how are conditions and expressions over the rows found evaluated? |
//! | `compiled.rs` | how are they evaluated again without planning? |
//! | `shared.rs` | what is kept between statements? |
//! | `explain.rs` | why is a query that looks like a look-up none? |
//!
//! All sessions share the plans, which are remembered by text without constants, database and sql_mode. A plan holds
//! names and ids. Each run checks, in memory, whether the name still means the table under the definition for which the
//! plan was made. If not, the statement is planned again.
//!
//! **Freshness.** Look-ups use the state that this process knows, which includes its own commits. Commits of other
//! processes are read by `keep_fresh`, by SYNC, or by a look-up that finds the state older than `read_staleness_ms`.

mod compiled;
mod explain;
mod plan;
mod recognise;
mod residual;
mod scan;
pub(crate) mod shared;

use std::any::Any;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::task::Poll;
use std::time::Duration;

use dipper_base::preempt;
use dipper_dialect::statement::{QueryText, Statement};
use dipper_point::{PointTable, Value};
use dipper_sql::charter::session::VarValue;
use dipper_store::catalog::TableId;
use futures::future::BoxFuture;

pub use plan::{PointPlan, PointRows};
pub(crate) use scan::{Slot, scan};

use crate::context::QueryContext;
use crate::engine::Engine;
use crate::error::{EngineError, ErrorKind, Result};
use crate::functions;
use crate::result::Rows;
use crate::session::Session;
use shared::{Definition, Kept, Since, Times};

/// How often the tables that look-ups read are refreshed.
const REFRESH_EVERY: Duration = Duration::from_millis(400);
/// A table without look-ups for this time is not refreshed.
const IDLE: Duration = Duration::from_secs(10);

/// Resolution, in milliseconds, of the time at which a table was last used.
const USED_EVERY: u64 = 100;

/// The result of planning a statement.
enum Known {
    Plan(Arc<PointPlan>),
    /// The statement is not a look-up, perhaps with a reason for the user.
    Not(Since, Option<Arc<str>>),
}

impl From<Kept> for Known {
    fn from(kept: Kept) -> Known {
        match kept {
            Kept::Plan(plan) => {
                let plan: Arc<dyn Any + Send + Sync> = plan;
                Known::Plan(plan.downcast().expect("no other plans are kept"))
            }
            Kept::Not(since, why) => Known::Not(since, why),
        }
    }
}

/// Whether the state under which a statement was found not to be a look-up is still current.
fn is_now(since: &Since, engine: &Engine) -> bool {
    let has = |(table, version): Definition| {
        engine.native.opened(table).is_some_and(|table| table.snapshot().schema().version == version)
    };
    since.catalog == engine.catalog.version() && since.definition.is_none_or(has)
}

/// Sets Doris's configuration of the row cache. Returns false for other names.
///
/// # Errors
/// `BadVariable` if the value is wrong.
pub(crate) fn configure(engine: &Engine, key: &str, value: &str) -> Result<bool> {
    let wrong = |expected: &str| {
        EngineError::new(ErrorKind::BadVariable, format!("configuration '{key}': expected {expected}, found '{value}'"))
    };
    let cache = engine.points().lookups.cache();
    match key.to_ascii_lowercase().as_str() {
        "disable_storage_row_cache" => match value.trim().to_ascii_lowercase().as_str() {
            "true" | "1" => cache.set_on(false),
            "false" | "0" => cache.set_on(true),
            _ => return Err(wrong("true or false")),
        },
        "row_cache_mem_limit" => {
            let hundredth = engine.memory_bytes() / 100;
            let bytes = match value.trim().strip_suffix('%') {
                Some(percent) => {
                    percent.trim().parse().ok().filter(|p| *p <= 90).map(|percent: u64| hundredth * percent)
                }
                // The form in which ADMIN SHOW prints it.
                None => value.trim().parse().ok().filter(|bytes| *bytes <= hundredth * 90),
            };
            match bytes {
                Some(bytes) => cache.set_bytes(bytes),
                None => return Err(wrong("a percentage of the memory from 0% to 90%, or as many bytes")),
            }
        }
        _ => return Ok(false),
    }
    Ok(true)
}

/// Whether the session's user may read a table. This is the only check of privileges on this path. Each run of a plan
/// makes it, so privileges from the time of planning do not count.
fn may_read(session: &Session, table: TableId) -> bool {
    session.may_read(table)
}

/// Whether the known state of a table is new enough for this session.
fn is_fresh(session: &Session, times: &Times) -> bool {
    let points = session.engine.points();
    let (now, allowed) = (points.now(), session.variables.quick().read_staleness_ms);
    let new = |read: &AtomicU64| {
        let read = read.load(Ordering::Relaxed);
        read != 0 && now.saturating_sub(read) < allowed
    };
    // Not every look-up writes it, because other threads read it.
    if now > times.used.load(Ordering::Relaxed) + USED_EVERY {
        times.used.store(now, Ordering::Relaxed);
        preempt::look_ups();
    }
    new(&times.read) && new(&points.catalog_read)
}

/// Refreshes a table and the catalog if the known state is not new enough.
async fn freshen(session: &Session, table: &PointTable, times: &Times) -> Result<()> {
    if is_fresh(session, times) {
        return Ok(());
    }
    let engine = Arc::clone(&session.engine);
    read(&engine, table).await
}

async fn read(engine: &Engine, table: &PointTable) -> Result<()> {
    let points = engine.points();
    // The state is as new as the moment before the request.
    let now = points.now();
    engine.catalog.refresh().await?;
    points.catalog_read.fetch_max(now, Ordering::Relaxed);
    table.table().refresh().await?;
    points.times(table.table().id()).read.fetch_max(now, Ordering::Relaxed);
    Ok(())
}

/// Refreshes the tables that look-ups read, until the engine is gone.
pub(crate) fn keep_fresh(engine: &Arc<Engine>) {
    let weak: Weak<Engine> = Arc::downgrade(engine);
    engine.io().spawn(async move {
        loop {
            tokio::time::sleep(REFRESH_EVERY).await;
            let Some(engine) = weak.upgrade() else { return };
            let points = engine.points();
            let now = points.now();
            for table in points.lookups.tables() {
                let used = points.times(table.table().id()).used.load(Ordering::Relaxed);
                let is_read = used != 0 && now.saturating_sub(used) < IDLE.as_millis() as u64;
                if is_read && let Err(error) = read(&engine, &table).await {
                    tracing::warn!(%error, "a table that is read could not be brought up to date");
                }
            }
        }
    });
}

/// A statement that is a look-up: its plan, and the sources of the plan's constants.
#[derive(Debug, Clone)]
pub struct PointStatement {
    plan: Arc<PointPlan>,
    slots: Vec<Slot<'static>>,
    /// Slot n is placeholder n, for every slot.
    straight: bool,
}

impl PointStatement {
    /// The plan.
    pub fn plan(&self) -> &Arc<PointPlan> {
        &self.plan
    }
}

/// Appends the prefix of the text under which a statement is remembered: everything that affects how its text is read.
fn key(session_database: Option<&str>, options: &dipper_dialect::parser::ParseOptions, out: &mut String) {
    let flags =
        [options.ansi_quotes, options.no_backslash_escapes, options.pipes_as_concat, options.high_not_precedence];
    let bits = flags.iter().rev().fold(0, |bits, on| bits << 1 | u8::from(*on));
    out.push(char::from(b'0' + bits));
    out.push_str(session_database.unwrap_or_default());
    out.push('\0');
}

impl Session {
    /// Whether this session uses look-ups at the moment.
    fn looks_up(&self) -> bool {
        let quick = self.variables.quick();
        // Look-ups read only dipper's own tables. All sessions share their plans, so they cannot see temporary tables.
        quick.short_circuit
            && !quick.hidden_columns
            && quick.select_limit.is_none()
            && self.catalog.is_none()
            // Look-ups read only committed rows.
            && !self.transaction.has_written()
            && self.temporaries.is_empty()
    }

    /// Returns what is known of a statement without its constants, and plans it if necessary. `text` begins with its
    /// [`key`].
    fn known<'a>(&'a mut self, text: &'a str) -> BoxFuture<'a, Result<Known>> {
        Box::pin(self.known_or_planned(text))
    }

    async fn known_or_planned(&mut self, text: &str) -> Result<Known> {
        let engine = Arc::clone(&self.engine);
        let points = engine.points();
        match points.statements.get(text).map(Known::from) {
            Some(Known::Plan(plan)) if plan.current(self).is_some() => return Ok(Known::Plan(plan)),
            Some(Known::Not(since, why)) if is_now(&since, &engine) => return Ok(Known::Not(since, why)),
            _ => {}
        }
        let catalog = engine.catalog.version();
        let planned = self.plan_point(text).await;
        let kept = match planned {
            Ok(plan::Planned::Plan(plan)) => Kept::Plan(Arc::<PointPlan>::from(plan)),
            Ok(plan::Planned::No(why, definition)) => Kept::Not(Since { catalog, definition }, why.map(Arc::from)),
            // The ordinary path reports the error in its own words.
            Err(_) => return Ok(Known::Not(Since { catalog, definition: None }, None)),
        };
        points.statements.insert(text.to_string(), kept.clone());
        Ok(kept.into())
    }

    async fn plan_point(&self, text: &str) -> Result<plan::Planned> {
        let statement = text.split_once('\0').map_or(text, |(_, statement)| statement);
        let mut parsed = self.parse(statement)?;
        let Some(Statement::Query(query)) = parsed.pop().map(|p| p.statement) else {
            return Ok(plan::Planned::No(None, None));
        };
        let Some(lookup) = recognise::lookup(&query) else { return Ok(plan::Planned::No(None, None)) };
        let mut context = self.query_context().await?;
        // A plan is for all sessions, so this session's setting for hidden columns must not affect it.
        if context.hidden_columns {
            context = Arc::new(QueryContext { hidden_columns: false, ..context.as_ref().clone() });
        }
        // A plan is kept as long as its table is, and functions may change in between.
        if functions::expand(&context, &query)?.is_some() {
            let why = "the query calls a function that a user has defined";
            return Ok(plan::Planned::No(Some(why.to_string()), None));
        }
        plan::plan(&context, &lookup, &query).await
    }

    /// Runs a query as a look-up, if it is one.
    pub(crate) async fn look_up(&mut self, query: &QueryText, params: &[VarValue]) -> Result<Option<Rows>> {
        if !self.looks_up() || !recognise::has_its_clauses(query) {
            return Ok(None);
        }
        let options = self.parse_options();
        let mut text = String::new();
        key(self.database(), &options, &mut text);
        let Some(slots) = scan(&query.text, &options, &mut text) else { return Ok(None) };
        let Known::Plan(plan) = self.known(&text).await? else { return Ok(None) };
        let given: Vec<Value<'_>> = params.iter().map(value).collect();
        let values: Vec<Value<'_>> = slots.iter().map(|s| s.value(&given)).collect();
        let variables: Vec<VarValue> = slots.iter().map(|s| s.variable(params)).collect();
        plan.run(self, &values, &variables).await
    }

    /// Returns what EXPLAIN says beside the scan: that a query is a look-up, or why it is not; `None` for other
    /// queries.
    pub(crate) async fn explain_point(&mut self, query: &QueryText, params: &[VarValue]) -> Result<Option<String>> {
        let options = self.parse_options();
        let mut text = String::new();
        key(self.database(), &options, &mut text);
        let not = |why: &str| Ok(Some(format!("no SHORT-CIRCUIT: {why}")));
        // The names lead to tables of an external catalog, or to temporary tables of this session.
        if self.catalog.is_some() || !self.temporaries.is_empty() {
            return Ok(None);
        }
        let unknown =
            |session: &Session, is_read| explain::why_not(session, query, is_read).map_or(Ok(None), |why| not(&why));
        let Some(slots) = scan(&query.text, &options, &mut text) else { return unknown(self, false) };
        match self.known(&text).await? {
            Known::Plan(_) if !self.looks_up() => not(match self.variables.quick().short_circuit {
                false => "enable_short_circuit_query is off",
                true if self.variables.quick().select_limit.is_some() => "sql_select_limit is set",
                true if self.transaction.has_written() => "the transaction has written rows",
                true => "show_hidden_columns is on",
            }),
            Known::Plan(plan) => {
                let given: Vec<Value<'_>> = params.iter().map(value).collect();
                let values: Vec<Value<'_>> = slots.iter().map(|s| s.value(&given)).collect();
                match plan.refuses(&values) {
                    Some(why) => not(&why),
                    None => Ok(Some("SHORT-CIRCUIT".into())),
                }
            }
            Known::Not(_, Some(why)) => not(&why),
            Known::Not(_, None) => {
                // With `?` in place of its constants it may not be a valid statement.
                let is_read = self.plan_point(&text).await.is_ok();
                unknown(self, is_read)
            }
        }
    }

    /// Returns the look-up that a statement to be prepared is, if it is one.
    ///
    /// # Errors
    /// `Storage` if the catalog or the table cannot be read.
    pub async fn prepare_point(&mut self, sql: &str) -> Result<Option<PointStatement>> {
        let options = self.parse_options();
        let mut text = String::new();
        key(self.database(), &options, &mut text);
        // Look-ups read only dipper's own tables, and only visible columns.
        if self.catalog.is_some() || self.variables.quick().hidden_columns || !self.temporaries.is_empty() {
            return Ok(None);
        }
        let Some(slots) = scan(sql, &options, &mut text) else { return Ok(None) };
        let Known::Plan(plan) = self.known(&text).await? else { return Ok(None) };
        let straight = slots.iter().enumerate().all(|(i, s)| *s == Slot::Given(i));
        let slots = slots.into_iter().map(Slot::into_owned).collect();
        Ok(Some(PointStatement { plan, slots, straight }))
    }

    /// Whether a prepared look-up must be planned again, because its name means another table, or the table has another
    /// definition.
    pub fn is_stale(&self, statement: &PointStatement) -> bool {
        statement.plan.current(self).is_none()
    }

    /// Returns the rows of a prepared look-up without waiting; pending if the ordinary path must be taken.
    ///
    /// # Errors
    /// `Storage` if data of the table in memory is damaged; `Invalid` if the session does not allow reading the column
    /// store and a column is only there.
    pub fn point_now(&mut self, statement: &PointStatement, params: &[Value<'_>]) -> Result<Poll<PointRows>> {
        if !self.looks_up() || self.is_counted() || self.process().is_killed() {
            return Ok(Poll::Pending);
        }
        self.warnings.clear();
        let rows = if statement.straight {
            statement.plan.rows_now(self, params)?
        } else {
            let values: Vec<Value<'_>> = statement.slots.iter().map(|s| s.value(params)).collect();
            statement.plan.rows_now(self, &values)?
        };
        Ok(rows.map(|rows| {
            self.found(rows.as_slice().len() as u64);
            rows
        }))
    }

    /// Returns the rows of a statement given as text, without waiting, with the plan under which it is remembered.
    ///
    /// # Errors
    /// The errors of [`point_now`](Self::point_now).
    pub fn text_point_now(&mut self, sql: &str) -> Result<Poll<(Arc<PointPlan>, PointRows)>> {
        if !self.looks_up() || self.is_counted() || self.process().is_killed() {
            return Ok(Poll::Pending);
        }
        let options = self.variables.quick().parse;
        let mut text = std::mem::take(&mut self.point_text);
        text.clear();
        key(self.database(), &options, &mut text);
        let slots = scan(sql, &options, &mut text);
        let known = slots.as_ref().and_then(|_| self.engine.points().statements.get(text.as_str()).map(Known::from));
        self.point_text = text;
        let (Some(slots), Some(Known::Plan(plan))) = (slots, known) else { return Ok(Poll::Pending) };
        // A placeholder in a text has no value.
        if slots.iter().any(|s| matches!(s, Slot::Given(_))) {
            return Ok(Poll::Pending);
        }
        self.warnings.clear();
        let values: Vec<Value<'_>> = slots.iter().map(|s| s.value(&[])).collect();
        let rows = plan.rows_now(self, &values)?;
        Ok(rows.map(|rows| {
            self.found(rows.as_slice().len() as u64);
            (plan, rows)
        }))
    }
}

/// Converts a parameter to the form that look-ups take.
fn value(v: &VarValue) -> Value<'_> {
    match v {
        VarValue::Null => Value::Null,
        VarValue::Int(v) => Value::Int(*v),
        VarValue::UInt(v) => Value::UInt(*v),
        VarValue::Double(v) => Value::Double(*v),
        VarValue::Decimal(v) => Value::Decimal(v),
        VarValue::String(v) => Value::Text(v),
        VarValue::Bytes(_) => Value::Other,
        VarValue::Date { year, month, day } => Value::Date { year: *year, month: *month, day: *day },
        VarValue::DateTime { year, month, day, hour, minute, second, micros } => Value::DateTime {
            year: *year,
            month: *month,
            day: *day,
            hour: *hour,
            minute: *minute,
            second: *second,
            micros: *micros,
        },
    }
}
