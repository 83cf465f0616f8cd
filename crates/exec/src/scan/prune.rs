//! Pruning: which row groups and pages can hold rows that pass a filter.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, BooleanBufferBuilder, UInt32Array, UInt64Array};
use arrow::buffer::BooleanBuffer;
use arrow::compute::take;
use arrow::datatypes::{DataType, SchemaRef};
use datafusion::common::pruning::PruningStatistics;
use datafusion::common::{Column, ScalarValue};
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_expr_common::physical_expr::snapshot_generation;
use datafusion::physical_optimizer::pruning::{PruningPredicate, PruningPredicateBuilder};
use datafusion::physical_plan::PhysicalExpr;
use dipper_store::segment::ZoneStats;
use parking_lot::Mutex;
use parquet::bloom_filter::Sbbf;

use crate::rules::conditions::first_parts;

/// The rows of a row group that a scan must read.
#[derive(Debug)]
pub enum Kept {
    /// No row.
    Nothing,
    /// All rows.
    All,
    /// One bit per row, and the number of runs of rows between page borders that were ruled out.
    Rows(BooleanBuffer, usize),
}

/// Rules out row groups and pages whose bounds show that no row passes.
#[derive(Debug)]
pub struct GroupPruner {
    filter: Option<Arc<dyn PhysicalExpr>>,
    /// Schema that the filter's columns refer to.
    schema: SchemaRef,
    /// The pruning predicate and the generation of the filter that it was built from. Dynamic filters change while the
    /// scan runs; then it is built again.
    made: Option<(u64, Option<Arc<PruningPredicate>>)>,
}

impl GroupPruner {
    /// Makes the pruner for these predicates, which are over `schema`.
    pub fn new(predicates: &[Arc<dyn PhysicalExpr>], schema: &SchemaRef) -> Self {
        GroupPruner { filter: first_parts(predicates), schema: Arc::clone(schema), made: None }
    }

    /// Returns the pruning predicate for the filter in its current form; `None` if bounds cannot rule anything out.
    pub fn predicate(&mut self) -> Option<Arc<PruningPredicate>> {
        let filter = self.filter.as_ref()?;
        let generation = snapshot_generation(filter);
        if self.made.as_ref().is_none_or(|(made, _)| *made != generation) {
            // A filter that cannot be expressed over bounds prunes nothing.
            let builder = PruningPredicateBuilder::new().with_file_schema(Arc::clone(&self.schema));
            let predicate = builder.try_build(Arc::clone(filter)).ok();
            self.made = Some((generation, predicate.filter(|p| !p.always_true()).map(Arc::new)));
        }
        self.made.as_ref()?.1.clone()
    }
}

/// The most floating-point columns for which rows with NaN are considered apart from others. Each of them triples the
/// number of evaluations.
const TOLD_APART: usize = 2;

/// Returns which containers can hold rows that pass, also if some values are NaN.
///
/// Bounds of floating-point columns leave out NaN, but comparisons treat NaN as the greatest value, and NaN with a sign
/// as the least one. A value either is NaN, with or without a sign, or it lies within the bounds. So the predicate is
/// evaluated for each of these cases, and a container is ruled out if no case can pass. With more than [`TOLD_APART`]
/// floating-point columns, their bounds count as unknown.
///
/// A predicate that fails on bounds rules nothing out: no row may have the value that it fails on, and if one has, the
/// filter itself reports it.
fn prune(predicate: &PruningPredicate, statistics: &dyn PruningStatistics) -> Vec<bool> {
    let ask = |statistics: &dyn PruningStatistics| {
        predicate.prune(statistics).unwrap_or_else(|_| vec![true; statistics.num_containers()])
    };
    let mut floats: Vec<(&str, &DataType)> = Vec::new();
    let columns = collect_columns(predicate.orig_expr());
    for column in &columns {
        if let Ok(field) = predicate.schema().field_with_name(column.name())
            && field.data_type().is_floating()
        {
            floats.push((column.name(), field.data_type()));
        }
    }
    if floats.is_empty() {
        return ask(statistics);
    }
    let with = |values: Vec<(&str, ScalarValue)>| ask(&WithValues { statistics, values: &values });
    if floats.len() > TOLD_APART {
        return with(floats.iter().map(|(name, t)| (*name, null(t))).collect());
    }
    let mut kept = vec![false; statistics.num_containers()];
    for kind in 0..3usize.pow(floats.len() as u32) {
        let values = floats.iter().enumerate().filter_map(|(at, (name, t))| {
            let sign = match kind / 3usize.pow(at as u32) % 3 {
                0 => return None,
                1 => 1.0,
                _ => -1.0,
            };
            Some((*name, nan(t, sign)))
        });
        kept.iter_mut().zip(with(values.collect())).for_each(|(kept, more)| *kept |= more);
    }
    kept
}

/// Returns NULL of a floating-point type, which stands for an unknown value.
fn null(data_type: &DataType) -> ScalarValue {
    match data_type {
        DataType::Float32 => ScalarValue::Float32(None),
        DataType::Float64 => ScalarValue::Float64(None),
        _ => ScalarValue::Float16(None),
    }
}

/// Returns NaN with a sign; NULL for types whose NaN is not made here.
fn nan(data_type: &DataType, sign: f64) -> ScalarValue {
    match data_type {
        DataType::Float32 => ScalarValue::Float32(Some(f32::NAN.copysign(sign as f32))),
        DataType::Float64 => ScalarValue::Float64(Some(f64::NAN.copysign(sign))),
        other => null(other),
    }
}

/// Statistics in which some columns have one given value in all rows; NULL stands for an unknown value.
struct WithValues<'a> {
    statistics: &'a dyn PruningStatistics,
    values: &'a [(&'a str, ScalarValue)],
}

impl WithValues<'_> {
    fn value(&self, column: &Column) -> Option<ArrayRef> {
        let (_, value) = self.values.iter().find(|(name, _)| *name == column.name)?;
        value.to_array_of_size(self.statistics.num_containers()).ok()
    }
}

impl PruningStatistics for WithValues<'_> {
    fn min_values(&self, column: &Column) -> Option<ArrayRef> {
        self.value(column).or_else(|| self.statistics.min_values(column))
    }

    fn max_values(&self, column: &Column) -> Option<ArrayRef> {
        self.value(column).or_else(|| self.statistics.max_values(column))
    }

    fn num_containers(&self) -> usize {
        self.statistics.num_containers()
    }

    fn null_counts(&self, column: &Column) -> Option<ArrayRef> {
        match self.value(column) {
            None => self.statistics.null_counts(column),
            // A column with one given value has no NULL.
            Some(value) => (value.null_count() == 0).then(|| Arc::new(UInt64Array::from(vec![0; value.len()])) as _),
        }
    }

    fn row_counts(&self) -> Option<ArrayRef> {
        self.statistics.row_counts()
    }

    fn contained(&self, column: &Column, values: &HashSet<ScalarValue>) -> Option<BooleanArray> {
        self.statistics.contained(column, values)
    }
}

/// Returns the rows of a row group that can pass.
pub fn keeps(predicate: &PruningPredicate, zones: &dyn Zones) -> Kept {
    let group = GroupBounds { zones, known: Mutex::default() };
    let kept = prune(predicate, &group);
    assert_eq!(kept.len(), 1, "one answer for one row group");
    if !kept[0] {
        return Kept::Nothing;
    }
    // Columns have different page borders: test the runs of rows between the borders of all of them.
    let columns = collect_columns(predicate.orig_expr());
    let mut starts: Vec<usize> = columns.iter().flat_map(|c| zones.page_starts(c.name())).collect();
    starts.push(0);
    starts.sort_unstable();
    starts.dedup();
    if starts.len() == 1 {
        return Kept::All;
    }
    assert!(starts.last().is_some_and(|last| *last < zones.rows()), "a page begins within its row group");
    let pages = PageBounds { zones, starts: &starts, known: Mutex::default() };
    let kept = prune(predicate, &pages);
    assert_eq!(kept.len(), starts.len(), "one answer for each stretch of rows");
    let pruned = kept.iter().filter(|k| !**k).count();
    if pruned == 0 {
        return Kept::All;
    }
    if pruned == kept.len() {
        return Kept::Nothing;
    }
    let mut rows = BooleanBufferBuilder::new(zones.rows());
    let ends = starts.iter().skip(1).copied().chain([zones.rows()]);
    for ((start, end), keep) in starts.iter().zip(ends).zip(kept) {
        rows.append_n(end - start, keep);
    }
    assert_eq!(rows.len(), zones.rows(), "stretches cover the row group");
    Kept::Rows(rows.finish(), pruned)
}

/// Statistics of the columns of one row group.
pub trait Zones {
    /// Returns the number of rows of the row group.
    fn rows(&self) -> usize;
    /// Returns the bounds of a column in the row group.
    fn group(&self, column: &str) -> Option<ZoneStats>;
    /// Returns the bounds of each page of a column.
    fn pages(&self, column: &str) -> Option<ZoneStats>;
    /// Returns the first row of each page of a column.
    fn page_starts(&self, column: &str) -> Vec<usize>;
    /// Returns the Bloom filter of a column in the row group.
    fn bloom(&self, column: &str) -> Option<Sbbf>;
}

/// Statistics by column name. They are kept because the predicate asks three times for each.
type KnownZones = Mutex<HashMap<String, Option<ZoneStats>>>;

fn known(all: &KnownZones, column: &Column, find: impl FnOnce() -> Option<ZoneStats>) -> Option<ZoneStats> {
    all.lock().entry(column.name.clone()).or_insert_with(find).clone()
}

/// The statistics of one row group in the form in which a pruning predicate asks for them.
struct GroupBounds<'a> {
    zones: &'a dyn Zones,
    known: KnownZones,
}

impl GroupBounds<'_> {
    fn stats(&self, column: &Column) -> Option<ZoneStats> {
        known(&self.known, column, || self.zones.group(&column.name))
    }
}

impl PruningStatistics for GroupBounds<'_> {
    fn min_values(&self, column: &Column) -> Option<ArrayRef> {
        Some(self.stats(column)?.min)
    }

    fn max_values(&self, column: &Column) -> Option<ArrayRef> {
        Some(self.stats(column)?.max)
    }

    fn num_containers(&self) -> usize {
        1
    }

    fn null_counts(&self, column: &Column) -> Option<ArrayRef> {
        Some(Arc::new(self.stats(column)?.nulls))
    }

    fn row_counts(&self) -> Option<ArrayRef> {
        Some(Arc::new(UInt64Array::from(vec![self.zones.rows() as u64])))
    }

    fn contained(&self, column: &Column, values: &HashSet<ScalarValue>) -> Option<BooleanArray> {
        let bloom = self.zones.bloom(&column.name)?;
        values.iter().all(|v| excludes(&bloom, v)).then(|| BooleanArray::from(vec![false]))
    }
}

/// The statistics of pages, spread over the runs of rows between all columns' page borders.
struct PageBounds<'a> {
    zones: &'a dyn Zones,
    /// First row of each run; the first is 0.
    starts: &'a [usize],
    known: KnownZones,
}

impl PageBounds<'_> {
    fn stats(&self, column: &Column) -> Option<ZoneStats> {
        known(&self.known, column, || {
            let pages = self.zones.pages(&column.name)?;
            let own = self.zones.page_starts(&column.name);
            // A column without page borders is one page.
            let page = |start: &usize| own.partition_point(|own| own <= start).saturating_sub(1) as u32;
            let places: UInt32Array = self.starts.iter().map(page).collect();
            let spread = |a: &dyn Array| take(a, &places, None).ok();
            Some(ZoneStats {
                min: spread(&pages.min)?,
                max: spread(&pages.max)?,
                nulls: spread(&pages.nulls)?.as_primitive().clone(),
                rows: spread(&pages.rows)?.as_primitive().clone(),
            })
        })
    }
}

impl PruningStatistics for PageBounds<'_> {
    fn min_values(&self, column: &Column) -> Option<ArrayRef> {
        Some(self.stats(column)?.min)
    }

    fn max_values(&self, column: &Column) -> Option<ArrayRef> {
        Some(self.stats(column)?.max)
    }

    fn num_containers(&self) -> usize {
        self.starts.len()
    }

    /// The count in a part of a page is known only if the page has no NULL, or nothing but NULL.
    fn null_counts(&self, column: &Column) -> Option<ArrayRef> {
        let stats = self.stats(column)?;
        let ends = self.starts.iter().skip(1).copied().chain([self.zones.rows()]);
        let lengths = self.starts.iter().zip(ends).map(|(a, b)| (b - a) as u64);
        let nulls = stats.nulls.iter().zip(stats.rows.iter()).zip(lengths).map(|((nulls, rows), len)| match nulls? {
            0 => Some(0),
            n if Some(n) == rows => Some(len),
            _ => None,
        });
        Some(Arc::new(nulls.collect::<UInt64Array>()))
    }

    fn row_counts(&self) -> Option<ArrayRef> {
        let ends = self.starts.iter().skip(1).copied().chain([self.zones.rows()]);
        Some(Arc::new(self.starts.iter().zip(ends).map(|(a, b)| (b - a) as u64).collect::<UInt64Array>()))
    }

    fn contained(&self, _column: &Column, _values: &HashSet<ScalarValue>) -> Option<BooleanArray> {
        None
    }
}

/// Returns whether a column with this Bloom filter surely lacks the value. Integers are hashed as Parquet stores them.
fn excludes(bloom: &Sbbf, value: &ScalarValue) -> bool {
    match value {
        ScalarValue::Int8(Some(v)) => !bloom.check(&i32::from(*v)),
        ScalarValue::Int16(Some(v)) => !bloom.check(&i32::from(*v)),
        ScalarValue::Int32(Some(v)) | ScalarValue::Date32(Some(v)) => !bloom.check(v),
        ScalarValue::Int64(Some(v)) | ScalarValue::TimestampMicrosecond(Some(v), _) => !bloom.check(v),
        ScalarValue::Utf8(Some(v)) | ScalarValue::Utf8View(Some(v)) | ScalarValue::LargeUtf8(Some(v)) => {
            !bloom.check(&v.as_str())
        }
        _ => false,
    }
}

#[cfg(test)]
#[path = "prune_tests.rs"]
mod tests;
