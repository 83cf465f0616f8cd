//! A look-up that is planned once and run many times.

use std::any::Any;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::Poll;

use arrow::array::RecordBatch;
use arrow::datatypes::{Schema, SchemaRef};
use dipper_base::names::CATALOG;
use dipper_point::{Bound, HeldView, PointTable, Projection, Row, Shape, Value, View, arrays, bind};
use dipper_sql::charter::session::VarValue;
use dipper_store::catalog::access::Privileges;
use dipper_store::catalog::{TableDef, TableId};
use dipper_store::key::KeyValue;
use dipper_store::segment::WriteOptions;
use dipper_store::table::schema::TableSchema;
use futures::StreamExt;

use super::recognise::{Condition, Found, Item, Lookup, No, Source};
use super::residual::Residual;
use super::shared::{Definition, Remembered, Scratch, Times};
use crate::access::{self, Object};
use crate::context::QueryContext;
use crate::error::{EngineError, Result};
use crate::result::{Column, Rows};
use crate::session::Session;

/// Most keys of one look-up, which are the combinations of the values of its IN lists. A query with more is read like
/// any other.
const KEYS_MAX: usize = 4096;

/// A look-up by key in one table, under one version of its definition. Its constants are slots, filled at each run.
#[derive(Debug)]
pub struct PointPlan {
    /// The database in which the table's name was found.
    database: String,
    name: String,
    id: TableId,
    table: Arc<PointTable>,
    shape: Arc<Shape>,
    keys: Vec<Condition>,
    /// Rows of several key columns that are asked for together, as in `(a, b) IN (...)`.
    rows: Vec<Vec<Source>>,
    limit: Option<Source>,
    output: Output,
    /// Names of columns that come from the column store, because the row store does not have them.
    missing: Vec<String>,
    columns: Vec<Column>,
    /// The times at which the table was last refreshed and last used.
    times: Arc<Times>,
    /// Version of the catalog under which the name was last seen to mean this table.
    catalog: AtomicU64,
    front: OnceLock<Box<dyn Any + Send + Sync>>,
}

#[derive(Debug)]
enum Output {
    /// Columns of the rows, unchanged.
    Columns(Projection, SchemaRef),
    /// Conditions or expressions over the rows found.
    Residual(Residual),
}

/// Rows of a look-up, in most cases one.
#[derive(Debug)]
pub enum PointRows {
    /// At most one row.
    One(Option<Row>),
    /// The rows of several keys.
    Many(Vec<Row>),
}

impl PointRows {
    /// The rows.
    pub fn as_slice(&self) -> &[Row] {
        match self {
            PointRows::One(row) => row.as_slice(),
            PointRows::Many(rows) => rows,
        }
    }
}

/// The keys of a look-up, once its constants are known.
enum Wanted {
    /// No row can match.
    Nothing,
    /// The encoded key, in this tablet.
    Key(u32),
    /// Tablets, and the ends of their keys, which are encoded one after the other.
    Keys(Vec<(u32, usize)>),
    /// The ordinary path decides.
    Unclear,
}

/// The possible values of the key columns.
struct Lists<'v> {
    /// Values by key column. For a column that is compared in rows, the value of each row.
    values: Vec<Vec<KeyValue<'v>>>,
    /// Number of rows with which each combination of the other columns is combined.
    rows: usize,
    /// Number of keys that these make.
    keys: usize,
}

/// The result of planning.
pub(super) enum Planned {
    Plan(Box<PointPlan>),
    /// The reason why the query is not a look-up, and the definition on which the reason depends, if a table was
    /// examined.
    No(No, Option<Definition>),
}

/// Plans a query whose constants are placeholders.
pub(super) async fn plan(
    context: &Arc<QueryContext>,
    lookup: &Lookup<'_>,
    query: &dipper_dialect::statement::QueryText,
) -> Result<Planned> {
    let engine = &context.engine;
    let version = engine.catalog.version();
    let catalog = engine.catalog.snapshot();
    let name = &lookup.table;
    if name.catalog().is_some_and(|c| c != CATALOG) {
        return Ok(Planned::No(None, None));
    }
    let Some(database) = name.database().or(context.database.as_deref()) else { return Ok(Planned::No(None, None)) };
    let Some(found) = catalog.table(database, name.object()) else { return Ok(Planned::No(None, None)) };
    if !matches!(found.def, TableDef::Native) {
        return Ok(Planned::No(None, None));
    }
    // The result is not remembered, because it is true only of this user. The ordinary path reports the refusal.
    let object = Object::Table(database.to_string(), name.object().to_string());
    access::check(&context.rights, &catalog, Privileges::SELECT, &object)?;
    let handle = engine.native.get(found.id).await?;
    let state = handle.refresh().await?;
    let schema = state.schema();
    let no = |why: No| Ok(Planned::No(why, Some((found.id, schema.version))));
    if !lookup.looks_like_one(schema) {
        return no(None);
    }
    if lookup.refused.is_some() {
        return no(lookup.refused.clone());
    }
    let points = engine.points();
    let table = points.lookups.table(&handle);
    if let Err(why) = table.view() {
        return no(Some(match why {
            dipper_point::PointError::Table { reason, .. } => reason.to_string(),
            other => other.to_string(),
        }));
    }
    let found_keys = match lookup.in_table(schema) {
        Ok(found) => found,
        Err(why) => return no(why),
    };
    let stored = WriteOptions::try_new(Arc::clone(schema))?.row_store_columns().to_vec();
    let needed = columns(schema, &found_keys);
    let missing: Vec<String> =
        needed.iter().filter(|c| !stored.contains(c)).map(|c| schema.columns[*c].name.clone()).collect();
    // Plans that need only the visible columns of the row store share the rows in the cache.
    let stored: Vec<usize> = stored.into_iter().filter(|c| !schema.columns[*c].hidden).collect();
    let whole = needed.iter().all(|c| stored.contains(c));
    let Some(shape) = points.lookups.shape(found.id, schema, if whole { &stored } else { &needed })? else {
        return no(Some("a column is of a nested type, which look-ups do not read".into()));
    };
    let Found { keys, rows, items, extra, .. } = found_keys;
    let plain: Option<Vec<usize>> = items
        .iter()
        .flat_map(|item| match item {
            Item::All => visible(schema).map(Some).collect(),
            Item::Column(c) => vec![Some(*c)],
            Item::Expression(_) => vec![None],
        })
        .collect();
    let places = plain.filter(|_| extra.is_empty()).map(|columns| {
        let place = |c: &usize| shape.columns().iter().position(|s| s == c);
        columns.iter().map(|c| place(c).expect("the shape has what is needed")).collect::<Vec<_>>()
    });
    let columns = super::residual::columns(context, query).await?;
    // The planner sees all hidden columns of a query that names one.
    if places.as_ref().is_some_and(|places| places.len() != columns.len()) {
        return no(Some("the query names a hidden column".into()));
    }
    let output = match places {
        Some(places) => {
            let schema = Schema::new(columns.iter().map(|c| c.field.as_ref().clone()).collect::<Vec<_>>());
            Output::Columns(Projection::new(&shape, places), Arc::new(schema))
        }
        None => Output::Residual(Residual::new(query, &extra, name.object(), database)),
    };
    Ok(Planned::Plan(Box::new(PointPlan {
        database: database.to_string(),
        name: name.object().to_string(),
        id: found.id,
        table,
        shape,
        keys,
        rows,
        limit: lookup.limit.clone(),
        output,
        missing,
        columns,
        times: points.times(found.id),
        catalog: AtomicU64::new(version),
        front: OnceLock::new(),
    })))
}

fn visible(schema: &TableSchema) -> impl Iterator<Item = usize> + '_ {
    schema.columns.iter().enumerate().filter(|(_, c)| !c.hidden).map(|(i, _)| i)
}

/// Returns the columns that a look-up needs, ascending.
fn columns(schema: &TableSchema, found: &Found<'_>) -> Vec<usize> {
    let mut needed: Vec<usize> = found.extra_columns.clone();
    for item in &found.items {
        match item {
            Item::All => needed.extend(visible(schema)),
            Item::Column(c) => needed.push(*c),
            Item::Expression(columns) => needed.extend(columns),
        }
    }
    needed.sort_unstable();
    needed.dedup();
    // A row must have at least one column.
    if needed.is_empty() {
        needed.push(0);
    }
    needed
}

impl Remembered for PointPlan {
    fn computes(&self) -> bool {
        matches!(self.output, Output::Residual(_))
    }
}

impl PointPlan {
    /// The columns of the result.
    pub fn columns(&self) -> &[Column] {
        &self.columns
    }

    /// Returns data that the protocol front keeps with the plan; the first call makes it.
    ///
    /// # Panics
    /// If two fronts keep values of different types.
    pub fn front<T: Send + Sync + 'static>(&self, make: impl FnOnce(&[Column]) -> T) -> &T {
        let front = self.front.get_or_init(|| Box::new(make(&self.columns)));
        front.downcast_ref().expect("a process has one protocol in front of its plans")
    }

    /// Whether all columns of a row are sent as they are.
    pub fn is_whole(&self) -> bool {
        matches!(self.output, Output::Columns(Projection::All, _))
    }

    /// Appends a row as a binary row of the MySQL protocol with the columns of the result.
    ///
    /// # Errors
    /// `Storage` if the row is damaged; `Invalid` if rows of this plan are not sent unchanged.
    pub fn put(&self, row: &Row, out: &mut Vec<u8>) -> Result<()> {
        match &self.output {
            Output::Columns(projection, _) => projection.put(&self.shape, row.bytes(), out).map_err(damaged),
            Output::Residual(_) => Err(EngineError::invalid("rows of this look-up are not sent as they are")),
        }
    }

    /// Returns the view of the table to read, if the plan is still valid: the name means the same table, under the same
    /// definition, and the session may read it.
    pub(super) fn current(&self, session: &Session) -> Option<HeldView> {
        let catalog = &session.engine.catalog;
        let version = catalog.version();
        if version != self.catalog.load(Ordering::Acquire) {
            let known = catalog.snapshot();
            if known.table(&self.database, &self.name).is_none_or(|t| t.id != self.id) {
                return None;
            }
            self.catalog.store(version, Ordering::Release);
        }
        if !super::may_read(session, self.id) {
            return None;
        }
        let view = self.table.held().ok()?;
        let state = view.state();
        (state.schema().version == self.shape.schema().version && !state.is_dropped()).then_some(view)
    }

    fn bound<'v>(&self, source: &Source, column: usize, slots: &[Value<'v>]) -> Bound<'v> {
        let value = match source {
            Source::Slot(n) => match slots.get(*n).copied().unwrap_or(Value::Other) {
                Value::Decimal(number) => Value::Decimal(whole(number)),
                value => value,
            },
            Source::Fixed(VarValue::Int(v)) => Value::Int(*v),
            Source::Fixed(_) => Value::Null,
        };
        bind(&self.shape.schema().columns[column].data_type, value)
    }

    /// Computes the keys of the look-up.
    fn wanted(&self, view: &View, slots: &[Value<'_>], scratch: &mut Scratch) -> Result<Wanted> {
        scratch.keys.clear();
        // The usual case comes first: one value for each column.
        let mut values = [KeyValue::Null; 8];
        let several = |k: &Condition| match k {
            Condition::In(values) => values.len() != 1,
            Condition::Same(_) => false,
            Condition::Row(_) => true,
        };
        if self.keys.len() <= values.len() && !self.keys.iter().any(several) {
            for (i, condition) in self.keys.iter().enumerate() {
                let (source, null_safe) = match condition {
                    Condition::In(sources) => (&sources[0], false),
                    Condition::Same(source) => (source, true),
                    Condition::Row(_) => return Ok(Wanted::Unclear),
                };
                values[i] = match self.bound(source, i, slots) {
                    Bound::Is(KeyValue::Null) if !null_safe => return Ok(Wanted::Nothing),
                    Bound::Is(value) => value,
                    Bound::Never => return Ok(Wanted::Nothing),
                    Bound::Unclear => return Ok(Wanted::Unclear),
                };
            }
            let tablet = view.tablet(&values[..self.keys.len()], &mut scratch.keys)?;
            return Ok(match tablet {
                None => Wanted::Nothing,
                Some(tablet) => Wanted::Key(tablet),
            });
        }
        let Some(lists) = self.lists(slots).filter(|lists| lists.keys <= KEYS_MAX) else {
            return Ok(Wanted::Unclear);
        };
        let mut seen = std::collections::HashSet::new();
        let mut keys = Vec::with_capacity(lists.keys);
        for n in 0..lists.keys {
            let (row, mut rest) = (n % lists.rows, n / lists.rows);
            let values: Vec<_> = lists
                .values
                .iter()
                .zip(&self.keys)
                .map(|(list, condition)| {
                    if matches!(condition, Condition::Row(_)) {
                        return list[row];
                    }
                    let value = list[rest % list.len()];
                    rest /= list.len();
                    value
                })
                .collect();
            // A value that occurs twice in a list is one key.
            if let Some(tablet) = view.tablet(&values, &mut scratch.key)?
                && seen.insert(scratch.key.clone())
            {
                scratch.keys.extend_from_slice(&scratch.key);
                keys.push((tablet, scratch.keys.len()));
            }
        }
        Ok(if keys.is_empty() { Wanted::Nothing } else { Wanted::Keys(keys) })
    }

    /// Returns the possible values of the key columns; `None` if the ordinary path must compare one of them.
    fn lists<'v>(&self, slots: &[Value<'v>]) -> Option<Lists<'v>>
    where
        Self: 'v,
    {
        let rows = self.row_values(slots)?;
        let mut values = Vec::with_capacity(self.keys.len());
        let rows_len = if self.rows.is_empty() { 1 } else { rows.len() };
        let mut keys = rows_len;
        for (i, condition) in self.keys.iter().enumerate() {
            let mut list = Vec::new();
            match condition {
                Condition::Same(source) => match self.bound(source, i, slots) {
                    Bound::Is(value) => list.push(value),
                    Bound::Never => {}
                    Bound::Unclear => return None,
                },
                Condition::In(sources) => {
                    for source in sources {
                        match self.bound(source, i, slots) {
                            Bound::Is(KeyValue::Null) | Bound::Never => {}
                            Bound::Is(value) => list.push(value),
                            Bound::Unclear => return None,
                        }
                    }
                }
                Condition::Row(n) => list.extend(rows.iter().map(|row| row[*n])),
            }
            if !matches!(condition, Condition::Row(_)) {
                keys = keys.saturating_mul(list.len());
            }
            values.push(list);
        }
        Some(Lists { values, rows: rows_len, keys })
    }

    /// Returns the rows of values to which key columns are compared; `None` if the ordinary path must compare one of
    /// them.
    fn row_values<'v>(&self, slots: &[Value<'v>]) -> Option<Vec<Vec<KeyValue<'v>>>>
    where
        Self: 'v,
    {
        let column_of = |n| self.keys.iter().position(|k| *k == Condition::Row(n)).unwrap_or_default();
        let mut rows = Vec::with_capacity(self.rows.len());
        for row in &self.rows {
            let bound = row.iter().enumerate().map(|(n, source)| self.bound(source, column_of(n), slots));
            let bound: Vec<_> = bound.collect();
            if bound.contains(&Bound::Unclear) {
                return None;
            }
            let values = bound.into_iter().map(|value| match value {
                Bound::Is(KeyValue::Null) | Bound::Never | Bound::Unclear => None,
                Bound::Is(value) => Some(value),
            });
            rows.extend(values.collect::<Option<Vec<_>>>());
        }
        Some(rows)
    }

    /// Returns the most rows of the result; `None` if LIMIT is not a valid number.
    fn rows_max(&self, slots: &[Value<'_>]) -> Option<usize> {
        match &self.limit {
            None => Some(usize::MAX),
            Some(Source::Slot(n)) => match slots.get(*n)? {
                Value::Int(v) => usize::try_from(*v).ok(),
                Value::UInt(v) => usize::try_from(*v).ok(),
                // Some clients send all numbers as DOUBLE, or all values as text.
                Value::Double(v) if *v >= 0.0 && v.fract() == 0.0 => Some(*v as usize),
                Value::Decimal(text) | Value::Text(text) => text.parse().ok(),
                _ => None,
            },
            Some(Source::Fixed(_)) => None,
        }
    }

    fn allowed(&self, session: &Session) -> Result<()> {
        if self.missing.is_empty() || session.variables.quick().access_column_store {
            return Ok(());
        }
        Err(EngineError::invalid(format!(
            "Not support column store, set store_row_column=true or row_store_columns in table properties, missing \
             columns: {} (enable_short_circuit_query_access_column_store is off)",
            self.missing.join(", ")
        )))
    }

    /// Returns the rows without waiting; pending if something must be fetched first, or the plan cannot be used.
    pub(super) fn rows_now(&self, session: &mut Session, slots: &[Value<'_>]) -> Result<Poll<PointRows>> {
        if !matches!(self.output, Output::Columns(..)) || !super::is_fresh(session, &self.times) {
            return Ok(Poll::Pending);
        }
        let Some(view) = self.current(session) else { return Ok(Poll::Pending) };
        let Some(rows_max) = self.rows_max(slots) else { return Ok(Poll::Pending) };
        let wanted = self.wanted(&view, slots, &mut session.point)?;
        if !matches!(wanted, Wanted::Unclear) {
            self.allowed(session)?;
        }
        let engine = &session.engine;
        let cache = engine.points().lookups.cache();
        let get = |tablet, key: &[u8]| self.table.get_now(cache, &view, &self.shape, tablet, key);
        match wanted {
            Wanted::Unclear => Ok(Poll::Pending),
            _ if rows_max == 0 => Ok(Poll::Ready(PointRows::One(None))),
            Wanted::Nothing => Ok(Poll::Ready(PointRows::One(None))),
            Wanted::Key(tablet) => Ok(get(tablet, &session.point.keys)?.map(PointRows::One)),
            Wanted::Keys(keys) => {
                let all = &session.point.keys;
                let (mut rows, mut from) = (Vec::with_capacity(keys.len()), 0);
                for (tablet, end) in keys {
                    match get(tablet, &all[from..end])? {
                        Poll::Pending => return Ok(Poll::Pending),
                        Poll::Ready(row) => rows.extend(row),
                    }
                    from = end;
                    if rows.len() == rows_max {
                        break;
                    }
                }
                Ok(Poll::Ready(PointRows::Many(rows)))
            }
        }
    }

    /// Runs the look-up and returns its result; `None` if the ordinary path must answer.
    pub(super) async fn run(
        &self,
        session: &mut Session,
        slots: &[Value<'_>],
        variables: &[VarValue],
    ) -> Result<Option<Rows>> {
        super::freshen(session, &self.table, &self.times).await?;
        let Some(view) = self.current(session).map(|held| Arc::clone(&held)) else { return Ok(None) };
        let Some(rows_max) = self.rows_max(slots) else { return Ok(None) };
        let mut scratch = std::mem::take(&mut session.point);
        let wanted = self.wanted(&view, slots, &mut scratch);
        if !matches!(wanted, Ok(Wanted::Unclear)) {
            self.allowed(session)?;
        }
        let engine = Arc::clone(&session.engine);
        let cache = engine.points().lookups.cache();
        let mut rows = Vec::new();
        let found = match wanted? {
            Wanted::Unclear => return Ok(None),
            Wanted::Nothing => Vec::new(),
            Wanted::Key(tablet) => vec![(tablet, scratch.keys.len())],
            Wanted::Keys(keys) => keys,
        };
        // Conditions select among the rows, so the limit applies to what they leave.
        let enough = if matches!(self.output, Output::Columns(..)) { rows_max } else { usize::MAX };
        let mut from = 0;
        for (tablet, end) in found {
            if rows.len() >= enough {
                break;
            }
            rows.extend(self.table.get(cache, &view, &self.shape, tablet, &scratch.keys[from..end]).await?);
            from = end;
        }
        session.point = scratch;
        let arrays = arrays(&self.shape, rows.iter().map(Row::bytes)).map_err(damaged)?;
        let (columns, batches) = match &self.output {
            Output::Columns(projection, schema) => {
                let arrays = match projection.places() {
                    None => arrays,
                    Some(places) => places.iter().map(|p| Arc::clone(&arrays[*p])).collect(),
                };
                let batch = RecordBatch::try_new(Arc::clone(schema), arrays);
                (self.columns.clone(), vec![batch.map_err(|e| EngineError::invalid(e.to_string()))?])
            }
            Output::Residual(residual) => {
                let context = session.query_context_now();
                residual.run(&context, &self.shape, arrays, rows.len(), variables, rows_max).await?
            }
        };
        let batches = futures::stream::iter(batches.into_iter().map(Ok)).boxed();
        Ok(Some(Rows { columns, batches }))
    }

    /// Returns the reason why a query with these constants takes the ordinary path; `None` if it does not.
    pub(super) fn refuses(&self, slots: &[Value<'_>]) -> Option<String> {
        if self.rows_max(slots).is_none() {
            return Some("LIMIT is no number".into());
        }
        for (i, condition) in self.keys.iter().enumerate() {
            let sources: Vec<&Source> = match condition {
                Condition::In(sources) => sources.iter().collect(),
                Condition::Same(source) => vec![source],
                Condition::Row(n) => self.rows.iter().map(|row| &row[*n]).collect(),
            };
            if sources.iter().any(|s| self.bound(s, i, slots) == Bound::Unclear) {
                let column = &self.shape.schema().columns[i];
                return Some(format!(
                    "key column {} of type {} is compared with a value of another type",
                    column.name, column.data_type
                ));
            }
        }
        let keys = self.lists(slots)?.keys;
        (keys > KEYS_MAX).then(|| format!("the lists make {keys} keys, look-ups take {KEYS_MAX} at most"))
    }
}

/// Removes a fraction of 0, which integers do not have.
fn whole(number: &str) -> &str {
    match number.split_once('.') {
        Some((whole, fraction)) if fraction.bytes().all(|b| b == b'0') => whole,
        _ => number,
    }
}

fn damaged(e: dipper_store::segment::row::NotARow) -> EngineError {
    EngineError::new(crate::error::ErrorKind::Storage, format!("a row in memory is {e}; restart the server"))
}
