//! The filter of a scan, split into tests of one column each and the predicates over several columns.
//!
//! Row groups are tested column by column ([`ColumnTests`]), so that rows that fail one test cost the next one nothing.
//! The tests that reject most rows for their time run first, except that tests which may fail on a row keep the order
//! of the statement. Filters that joins and TopKs learn while the query runs are optional: while nearly all rows pass
//! one, it is not evaluated. For a column of integers with known bounds, any test can be evaluated once for each
//! integer between them ([`ValueTable`]), once more rows than that have been tested.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use arrow::array::{Array, ArrayRef, BooleanArray, BooleanBufferBuilder};
use arrow::datatypes::{DataType, Schema};
use arrow::error::ArrowError;
use arrow::record_batch::RecordBatch;
use datafusion::common::ScalarValue;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::error::Result as DfResult;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{
    BinaryExpr, Column, DynamicFilterPhysicalExpr, InListExpr, IsNotNullExpr, IsNullExpr, LikeExpr, Literal, NotExpr,
};
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_expr_common::physical_expr::{is_volatile, snapshot_generation};
use dipper_store::segment::{ColumnTest, ColumnTests, TextPattern, ValueTable};
use parking_lot::Mutex;

use super::filter::{ScanFilter, as_bools};
use super::like;
use crate::join_filter::InKeys;
use crate::rules::conditions::{all_of, parts};

/// Rows that must have been tested before the share of passing rows is judged.
const JUDGED_ROWS: u64 = 32 * 1024;
/// The share of passing rows above which an optional test is left out...
const USELESS: f64 = 0.95;
/// ...except for one row group in this many, because later parts of the table may have other data.
const TRIED_AGAIN: u64 = 16;
/// The rank of a test that is not measured yet: two nanoseconds per row, of which half pass.
const UNKNOWN_RANK: f64 = 4.0;
/// The most integers that a table covers; it takes an eighth of a byte for each.
const TABLE_VALUES: u64 = 1 << 24;
/// Integers that are tested at a time while a table is made.
const TABLE_STEP: usize = 8192;

/// A conjunction of predicates over stored columns, in the form in which row groups are tested.
pub struct GroupFilter {
    tests: Vec<ColumnTest>,
    alone: Vec<Alone>,
    /// Predicates over several columns, or over values that are converted first.
    rest: Option<ScanFilter>,
}

impl fmt::Debug for GroupFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GroupFilter").field("tests", &self.tests).field("rest", &self.rest).finish()
    }
}

/// A predicate over one column, which is column 0 of the batches that it is evaluated on.
struct Alone {
    predicate: Arc<dyn PhysicalExpr>,
    data_type: DataType,
    /// The operator that made the predicate does not rely on it.
    optional: bool,
    /// Evaluating it cannot fail for any value.
    never_fails: bool,
    /// Its searches, if it is a LIKE that has some.
    pattern: Option<Arc<TextPattern>>,
    /// Least and greatest value of the column, if its values are integers and the bounds are known.
    bounds: Option<(i64, i64)>,
    /// Measurements of the predicate in its current generation.
    now: Mutex<Arc<Standing>>,
}

/// The measurements of a predicate between two changes of it.
struct Standing {
    generation: u64,
    /// Whether the predicate lets every row pass.
    always: bool,
    /// The keys of a join that the predicate lets pass. They imply its other parts, which are bounds for pruning.
    keys: Option<InKeys>,
    asked: AtomicU64,
    passed: AtomicU64,
    nanoseconds: AtomicU64,
    /// Row groups for which the test was left out.
    left_out: AtomicU64,
    /// Rows that were evaluated, rather than looked up in the table.
    evaluated: AtomicU64,
    /// `None` until a table pays off; `Some(None)` if there can be none.
    table: Mutex<Option<Option<Arc<ValueTable>>>>,
}

impl Standing {
    fn new(generation: u64, current: Option<&Arc<dyn PhysicalExpr>>) -> Arc<Self> {
        let is_true = |e: &Arc<dyn PhysicalExpr>| {
            e.downcast_ref::<Literal>().is_some_and(|l| *l.value() == ScalarValue::Boolean(Some(true)))
        };
        Arc::new(Standing {
            generation,
            always: current.is_some_and(is_true),
            keys: current.and_then(|e| parts(e).into_iter().find_map(|part| part.downcast_ref::<InKeys>()).cloned()),
            asked: AtomicU64::new(0),
            passed: AtomicU64::new(0),
            nanoseconds: AtomicU64::new(0),
            left_out: AtomicU64::new(0),
            evaluated: AtomicU64::new(0),
            table: Mutex::new(None),
        })
    }

    /// Returns whether an optional test is left out for the next row group. Every [`TRIED_AGAIN`]th time, starts a new
    /// measurement instead.
    fn is_left_out(&self) -> bool {
        if self.always {
            return true;
        }
        if self.share().is_none_or(|share| share <= USELESS) {
            return false;
        }
        if self.left_out.fetch_add(1, Ordering::Relaxed) % TRIED_AGAIN != TRIED_AGAIN - 1 {
            return true;
        }
        self.asked.store(0, Ordering::Relaxed);
        self.passed.store(0, Ordering::Relaxed);
        self.nanoseconds.store(0, Ordering::Relaxed);
        false
    }

    /// Returns the nanoseconds per rejected row: tests with the least run first.
    fn rank(&self) -> f64 {
        let asked = self.asked.load(Ordering::Relaxed) as f64;
        let turned_away = asked - self.passed.load(Ordering::Relaxed) as f64;
        match self.share() {
            Some(_) => self.nanoseconds.load(Ordering::Relaxed) as f64 / turned_away.max(1.0),
            None => UNKNOWN_RANK,
        }
    }

    /// Returns the share of rows that pass; `None` until [`JUDGED_ROWS`] rows have been tested.
    fn share(&self) -> Option<f64> {
        let asked = self.asked.load(Ordering::Relaxed);
        (asked >= JUDGED_ROWS).then(|| self.passed.load(Ordering::Relaxed) as f64 / asked as f64)
    }
}

impl GroupFilter {
    /// Makes the filter; `None` if there is nothing to test. `predicates` are over the scan's table; `stored[i]` is the
    /// stored column behind column `i` of the table, `None` for computed columns, which no predicate may use. `is_read`
    /// says whether the values of a column of the table are read as they are: those of others are converted before a
    /// predicate sees them, so that they are not tested alone. `bounds` returns the least and the greatest value of a
    /// column of the table.
    pub fn try_new(
        predicates: &[Arc<dyn PhysicalExpr>],
        stored: &[Option<usize>],
        table: &Schema,
        is_read: impl Fn(usize) -> bool,
        bounds: impl Fn(usize) -> Option<(i64, i64)>,
    ) -> DfResult<Option<Self>> {
        // For each column, its predicates that do not change while the query runs. They are evaluated together.
        let mut plain: Vec<(usize, Vec<Arc<dyn PhysicalExpr>>)> = Vec::new();
        let mut single: Vec<(usize, Arc<dyn PhysicalExpr>)> = Vec::new();
        let mut rest = Vec::new();
        for predicate in predicates.iter().flat_map(parts) {
            let columns = collect_columns(predicate);
            let mut columns = columns.iter();
            let column = match (columns.next(), columns.next()) {
                (Some(column), None) if is_read(column.index()) && !is_volatile(predicate) => column.index(),
                _ => {
                    rest.push(Arc::clone(predicate));
                    continue;
                }
            };
            if snapshot_generation(predicate) != 0 || like::pattern(predicate).is_some() {
                single.push((column, Arc::clone(predicate)));
            } else if let Some((_, same)) = plain.iter_mut().find(|(c, _)| *c == column) {
                same.push(Arc::clone(predicate));
            } else {
                plain.push((column, vec![Arc::clone(predicate)]));
            }
        }
        let mut filter =
            GroupFilter { tests: Vec::new(), alone: Vec::new(), rest: ScanFilter::try_new(&rest, stored)? };
        let plain = plain.into_iter().filter_map(|(column, all)| Some((column, all_of(all)?)));
        for (column, predicate) in plain.chain(single) {
            let place = stored[column].expect("predicates on columns that are not stored are not accepted by the scan");
            let pattern = like::pattern(&predicate).map(|(_, pattern)| Arc::new(pattern));
            filter.tests.push(ColumnTest { column: place, pattern: pattern.clone() });
            let data_type = table.field(column).data_type().clone();
            let bounds = Some(()).filter(|()| ValueTable::takes(&data_type)).and_then(|()| bounds(column));
            filter.alone.push(Alone::try_new(&predicate, pattern, data_type, bounds)?);
        }
        assert_eq!(filter.tests.len(), filter.alone.len(), "every test has its predicate");
        Ok((!filter.tests.is_empty() || filter.rest.is_some()).then_some(filter))
    }

    /// Returns the tests of one column each; `None` if there are none.
    pub fn tests(&self) -> Option<&dyn ColumnTests> {
        (!self.tests.is_empty()).then_some(self as _)
    }

    /// Returns the predicates over several columns, or over values that are converted first.
    pub fn rest(&self) -> Option<&ScanFilter> {
        self.rest.as_ref()
    }
}

impl Alone {
    fn try_new(
        predicate: &Arc<dyn PhysicalExpr>,
        pattern: Option<Arc<TextPattern>>,
        data_type: DataType,
        bounds: Option<(i64, i64)>,
    ) -> DfResult<Self> {
        let moved = Arc::clone(predicate).transform_up(|e| {
            Ok(match e.downcast_ref::<Column>() {
                Some(column) => Transformed::yes(Arc::new(Column::new(column.name(), 0)) as _),
                None => Transformed::no(e),
            })
        })?;
        let predicate = moved.data;
        let optional = predicate.downcast_ref::<DynamicFilterPhysicalExpr>().is_some();
        let never_fails = optional || never_fails(&predicate);
        let now = Mutex::new(Standing::new(0, None));
        let alone = Alone { predicate, data_type, optional, never_fails, pattern, bounds, now };
        *alone.now.lock() = alone.standing();
        Ok(alone)
    }

    fn standing(&self) -> Arc<Standing> {
        let generation = snapshot_generation(&self.predicate);
        let current = self.predicate.downcast_ref::<DynamicFilterPhysicalExpr>().and_then(|e| e.current().ok());
        Standing::new(generation, current.as_ref())
    }

    /// Returns the measurements of the predicate, new ones if it has changed.
    fn now(&self) -> Arc<Standing> {
        let mut now = self.now.lock();
        if now.generation != snapshot_generation(&self.predicate) {
            *now = self.standing();
        }
        Arc::clone(&now)
    }

    fn evaluate(&self, standing: &Standing, values: &ArrayRef) -> DfResult<BooleanArray> {
        if let Some(passed) = self.pattern.as_ref().and_then(|pattern| like::passing(pattern, values)) {
            return Ok(passed);
        }
        let passed = match &standing.keys {
            Some(keys) if keys.is_of_column() => keys.contain(values)?,
            _ => {
                let batch = RecordBatch::try_from_iter_with_nullable([("value", Arc::clone(values), true)])?;
                as_bools(&self.predicate.evaluate(&batch)?.into_array(values.len())?)?
            }
        };
        assert_eq!(passed.len(), values.len(), "a predicate says something of every value");
        Ok(passed)
    }

    /// Returns the table of the predicate. It is made once as many rows have been evaluated as it covers integers, so
    /// it never costs more than was spent already.
    fn table(&self, standing: &Standing, rows: usize) -> Option<Arc<ValueTable>> {
        let (least, greatest) = self.bounds.filter(|_| standing.keys.is_none())?;
        let width = greatest.checked_sub(least)?.checked_add(1).filter(|w| (1..=TABLE_VALUES as i64).contains(w))?;
        // Callers that come while the table is being made evaluate the predicate.
        let mut made = standing.table.try_lock()?;
        if let Some(table) = &*made {
            return table.clone();
        }
        if standing.evaluated.fetch_add(rows as u64, Ordering::Relaxed) < width as u64 {
            return None;
        }
        let table = self.tabulated(standing, least, width as usize);
        *made = Some(table.clone());
        table
    }

    /// Evaluates the predicate for each integer of the range. `None` if it fails for one of them, which the column need
    /// not have.
    fn tabulated(&self, standing: &Standing, first: i64, count: usize) -> Option<Arc<ValueTable>> {
        let mut bits = BooleanBufferBuilder::new(count);
        for start in (0..count).step_by(TABLE_STEP) {
            let values = ValueTable::values(&self.data_type, first + start as i64, TABLE_STEP.min(count - start))?;
            let passed = self.evaluate(standing, &values).ok()?;
            match passed.nulls() {
                None => bits.append_buffer(passed.values()),
                Some(nulls) => bits.append_buffer(&(passed.values() & nulls.inner())),
            }
        }
        assert_eq!(bits.len(), count, "a table answers for every number of its range");
        Some(Arc::new(ValueTable::new(first, bits.finish())))
    }
}

impl ColumnTests for GroupFilter {
    fn tests(&self) -> &[ColumnTest] {
        &self.tests
    }

    fn order(&self) -> Vec<usize> {
        let asked = self.alone.iter().enumerate().filter(|(_, a)| !(a.optional && a.now().is_left_out()));
        let (free, fixed): (Vec<_>, Vec<_>) = asked.partition(|(_, a)| a.never_fails);
        let mut free: Vec<(f64, usize)> = free.into_iter().map(|(i, a)| (a.now().rank(), i)).collect();
        free.sort_by(|a, b| a.0.total_cmp(&b.0));
        // The tests that may fail stay together, at the rank of the first of them.
        let first = fixed.first().map_or(f64::MAX, |(_, a)| a.now().rank());
        let (before, behind) = free.split_at(free.partition_point(|(rank, _)| *rank <= first));
        let places = |tests: &[(f64, usize)]| tests.iter().map(|(_, i)| *i).collect::<Vec<_>>();
        let order = [places(before), fixed.iter().map(|(i, _)| *i).collect(), places(behind)].concat();
        let always = self.alone.iter().filter(|a| !a.optional).count();
        assert!((always..=self.alone.len()).contains(&order.len()), "only optional tests are left out");
        order
    }

    fn pass(&self, test: usize, values: &ArrayRef) -> Result<BooleanArray, ArrowError> {
        let alone = &self.alone[test];
        let now = alone.now();
        if let Some(table) = alone.table(&now, values.len())
            && let Some(passed) = table.look_up(values)
        {
            assert_eq!(passed.len(), values.len(), "a table says something of every value");
            return Ok(passed);
        }
        alone.evaluate(&now, values).map_err(|e| ArrowError::ExternalError(Box::new(e)))
    }

    fn told(&self, test: usize, rows: usize, passed: usize, took: Duration) {
        assert!(passed <= rows, "{passed} of {rows} rows passed");
        let now = self.alone[test].now();
        now.nanoseconds.fetch_add(took.as_nanos() as u64, Ordering::Relaxed);
        now.asked.fetch_add(rows as u64, Ordering::Relaxed);
        now.passed.fetch_add(passed as u64, Ordering::Relaxed);
    }
}

/// Returns whether a predicate consists only of comparisons, LIKE, IN, IS NULL and logic over columns and constants,
/// which cannot fail.
fn never_fails(predicate: &Arc<dyn PhysicalExpr>) -> bool {
    let plain = |e: &Arc<dyn PhysicalExpr>| {
        let compares = |b: &BinaryExpr| b.op().supports_propagation() || b.op().is_logic_operator();
        e.downcast_ref::<Column>().is_some()
            || e.downcast_ref::<Literal>().is_some()
            || e.downcast_ref::<LikeExpr>().is_some()
            || e.downcast_ref::<InListExpr>().is_some()
            || e.downcast_ref::<IsNullExpr>().is_some()
            || e.downcast_ref::<IsNotNullExpr>().is_some()
            || e.downcast_ref::<NotExpr>().is_some()
            || e.downcast_ref::<BinaryExpr>().is_some_and(compares)
    };
    !predicate.exists(|e| Ok(!plain(e))).unwrap_or(true)
}
