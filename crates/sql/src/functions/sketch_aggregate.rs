//! Aggregates over HLL, BITMAP and QUANTILE_STATE values: unions, intersections and the numbers of their members.
//!
//! Rows that are NULL are ignored; without rows the result is the empty set, or 0.

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, LazyLock};

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray};
use arrow::compute::filter;
use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::hash_utils::RandomState;
use datafusion::common::{DataFusionError, Result, ScalarValue, internal_err, plan_err};
use datafusion::execution::FunctionRegistry;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::{Accumulator, AggregateUDF, AggregateUDFImpl, Signature, Volatility};
use dipper_base::quantile::{COMPRESSION, Quantiles};
use dipper_base::sketch::{
    BitmapOdd, BitmapUnion, HLL_PRECISION, HyperLogLog, RoaringTreemap, SketchError, bitmap_from_bytes,
    bitmap_to_bytes, few_members,
};
use dipper_base::types::SqlType;

use super::adapted::Adapted;
use super::args::to_int;
use super::moving::moving;
use super::sketch::check_set;
use crate::metadata::TYPE_KEY;

/// Returns HLL_UNION: the union of sketches.
pub fn hll_union() -> Arc<AggregateUDF> {
    static FUNCTION: LazyLock<Arc<AggregateUDF>> =
        LazyLock::new(|| udaf("hll_union", &["hll_raw_agg"], Work::HllUnion, false));
    Arc::clone(&FUNCTION)
}

/// Returns BITMAP_UNION: the union of sets.
pub fn bitmap_union() -> Arc<AggregateUDF> {
    static FUNCTION: LazyLock<Arc<AggregateUDF>> =
        LazyLock::new(|| udaf("bitmap_union", &[], Work::BitmapUnion, false));
    Arc::clone(&FUNCTION)
}

/// Returns QUANTILE_UNION: the set of all values of the sets.
pub fn quantile_union() -> Arc<AggregateUDF> {
    static FUNCTION: LazyLock<Arc<AggregateUDF>> =
        LazyLock::new(|| udaf("quantile_union", &[], Work::QuantileUnion, false));
    Arc::clone(&FUNCTION)
}

/// Returns BITMAP_UNION_COUNT: the number of members of the union of sets.
pub(super) fn bitmap_union_count() -> Arc<AggregateUDF> {
    udaf("bitmap_union_count", &["orthogonal_bitmap_union_count"], Work::BitmapUnion, true)
}

/// Registers the aggregates of this file.
///
/// # Errors
/// The registry's error if it refuses a function.
pub fn register(registry: &mut dyn FunctionRegistry) -> Result<()> {
    let all = [
        hll_union(),
        udaf("hll_union_agg", &[], Work::HllUnion, true),
        quantile_union(),
        bitmap_union(),
        bitmap_union_count(),
        udaf("bitmap_intersect", &[], Work::BitmapIntersect, false),
        udaf("group_bitmap_xor", &[], Work::BitmapXor, false),
        udaf("bitmap_union_int", &[], Work::Integers, true),
    ];
    for function in all {
        registry.register_udaf(function)?;
    }
    Ok(())
}

/// The way in which values are combined.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Work {
    HllUnion,
    QuantileUnion,
    BitmapUnion,
    BitmapIntersect,
    /// The members that are in an odd number of sets.
    BitmapXor,
    /// Integers become members of a set.
    Integers,
}

impl Work {
    fn is_union_of_bitmaps(self) -> bool {
        matches!(self, Work::BitmapUnion | Work::Integers)
    }
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct SketchAggregate {
    name: &'static str,
    aliases: Vec<String>,
    work: Work,
    /// Whether the result is the number of members, not the set.
    counts: bool,
    signature: Signature,
}

fn udaf(name: &'static str, aliases: &[&str], work: Work, counts: bool) -> Arc<AggregateUDF> {
    let plain = AggregateUDF::new_from_impl(SketchAggregate {
        name,
        aliases: aliases.iter().map(|a| (*a).to_owned()).collect(),
        work,
        counts,
        signature: Signature::user_defined(Volatility::Immutable),
    });
    let adapted = Adapted::new(Arc::new(plain));
    match counts && work.is_union_of_bitmaps() {
        true => adapted.moves_itself().udaf(),
        false => adapted.udaf(),
    }
}

impl AggregateUDFImpl for SketchAggregate {
    fn name(&self) -> &str {
        self.name
    }

    fn aliases(&self) -> &[String] {
        &self.aliases
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, arg_types: &[DataType]) -> Result<Vec<DataType>> {
        let [argument] = arg_types else {
            return plan_err!("{} takes one argument, found {}", self.name, arg_types.len());
        };
        if self.work == Work::Integers {
            return match argument.is_integer() || argument.is_null() {
                true => Ok(vec![DataType::Int64]),
                false => plan_err!("{}: expected an integer, found {argument}", self.name),
            };
        }
        check_set(self.name, argument)?;
        Ok(vec![DataType::BinaryView])
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(if self.counts { DataType::Int64 } else { DataType::BinaryView })
    }

    /// Sets the SQL type of the set, by which COUNT(DISTINCT) of the result recognizes a BITMAP.
    fn return_field(&self, _: &[FieldRef]) -> Result<FieldRef> {
        if self.counts {
            return Ok(Arc::new(Field::new(self.name, DataType::Int64, true)));
        }
        let set = match self.work {
            Work::HllUnion => SqlType::Hll,
            Work::QuantileUnion => SqlType::QuantileState,
            _ => SqlType::Bitmap,
        };
        let metadata = [(TYPE_KEY.to_string(), set.to_string())].into();
        Ok(Arc::new(Field::new(self.name, DataType::BinaryView, true).with_metadata(metadata)))
    }

    fn default_value(&self, _: &DataType) -> Result<ScalarValue> {
        State::new(self.work, self.counts).evaluate()
    }

    fn state_fields(&self, args: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        Ok(vec![Arc::new(Field::new(format!("{}[set]", args.name), DataType::BinaryView, true))])
    }

    fn accumulator(&self, _: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        Ok(Box::new(State::new(self.work, self.counts)))
    }

    fn create_sliding_accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        if !(self.counts && self.work.is_union_of_bitmaps()) {
            return self.accumulator(args);
        }
        Ok(Box::new(Members {
            members: HashMap::default(),
            large: (self.work == Work::BitmapUnion).then(|| moving(&bitmap_union(), &args)),
            large_rows: 0,
            found: Vec::new(),
        }))
    }
}

/// The number of members of the union of the sets of a moving frame. Members of small sets are counted when they enter
/// and when they leave; large sets are united from scratch.
#[derive(Debug)]
struct Members {
    members: HashMap<u64, u64, RandomState>,
    /// The union of the large sets; `None` where rows are members, not sets.
    large: Option<Box<dyn Accumulator>>,
    large_rows: usize,
    /// The members of the rows that enter or leave.
    found: Vec<u64>,
}

impl Members {
    /// Collects the members of rows into `found`. Returns the rows that are large sets.
    fn find(&mut self, column: &ArrayRef) -> Result<Option<ArrayRef>> {
        self.found.clear();
        if self.large.is_none() {
            // Negative numbers are members above 2^63, so that they are counted, too.
            self.found.extend(to_int("bitmap_union_int", column)?.iter().flatten().map(|v| v as u64));
            return Ok(None);
        }
        let mut large = Vec::new();
        let sets = column.as_binary_view();
        for (at, set) in sets.iter().enumerate() {
            if let Some(set) = set
                && !few_members(set, &mut self.found).map_err(external)?
            {
                large.resize(sets.len(), false);
                large[at] = true;
            }
        }
        if large.is_empty() {
            return Ok(None);
        }
        Ok(Some(filter(column, &BooleanArray::from(large))?))
    }
}

impl Accumulator for Members {
    fn update_batch(&mut self, columns: &[ArrayRef]) -> Result<()> {
        if let (Some(rows), Some(large)) = (self.find(&columns[0])?, &mut self.large) {
            self.large_rows += rows.len();
            large.update_batch(&[rows])?;
        }
        for member in self.found.drain(..) {
            *self.members.entry(member).or_default() += 1;
        }
        Ok(())
    }

    fn retract_batch(&mut self, columns: &[ArrayRef]) -> Result<()> {
        if let (Some(rows), Some(large)) = (self.find(&columns[0])?, &mut self.large) {
            self.large_rows -= rows.len();
            large.retract_batch(&[rows])?;
        }
        for member in self.found.drain(..) {
            match self.members.get_mut(&member) {
                Some(1) => {
                    self.members.remove(&member);
                }
                Some(count) => *count -= 1,
                None => return internal_err!("bitmap_union_count: a member leaves a frame that it has not entered"),
            }
        }
        Ok(())
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let mut count = self.members.len() as u64;
        if self.large_rows > 0
            && let Some(large) = &mut self.large
            && let ScalarValue::BinaryView(Some(set)) = large.evaluate()?
        {
            let set = bitmap_from_bytes(&set).map_err(external)?;
            count = set.len() + self.members.keys().filter(|member| !set.contains(**member)).count() as u64;
        }
        Ok(ScalarValue::Int64(Some(count as i64)))
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        internal_err!("bitmap_union_count: a moving frame has no partial states")
    }

    fn merge_batch(&mut self, _: &[ArrayRef]) -> Result<()> {
        internal_err!("bitmap_union_count: a moving frame has no partial states")
    }

    fn size(&self) -> usize {
        size_of_val(self)
            + self.members.capacity() * (size_of::<(u64, u64)>() + 1)
            + self.found.capacity() * size_of::<u64>()
            + self.large.as_ref().map_or(0, |large| large.size())
    }
}

#[derive(Debug)]
enum Set {
    Hll(HyperLogLog),
    Quantiles(Quantiles),
    Union(BitmapUnion),
    /// `None` until there is a first set.
    Intersection(Option<RoaringTreemap>),
    /// `None` until there is a first set.
    Difference(Option<BitmapOdd>),
}

#[derive(Debug)]
struct State {
    set: Set,
    integers: bool,
    counts: bool,
}

fn external(e: SketchError) -> DataFusionError {
    DataFusionError::External(Box::new(e))
}

impl State {
    fn new(work: Work, counts: bool) -> Self {
        let set = match work {
            Work::HllUnion => Set::Hll(HyperLogLog::new(HLL_PRECISION)),
            Work::QuantileUnion => Set::Quantiles(Quantiles::new(COMPRESSION)),
            Work::BitmapUnion | Work::Integers => Set::Union(BitmapUnion::default()),
            Work::BitmapIntersect => Set::Intersection(None),
            Work::BitmapXor => Set::Difference(None),
        };
        State { set, integers: work == Work::Integers, counts }
    }

    fn merge(&mut self, values: &ArrayRef) -> Result<(), SketchError> {
        for bytes in values.as_binary_view().iter().flatten() {
            match &mut self.set {
                Set::Hll(sketch) => sketch.union(&HyperLogLog::from_bytes(bytes)?),
                Set::Quantiles(set) => set.union(&Quantiles::from_bytes(bytes)?),
                Set::Union(set) => set.add(bytes)?,
                Set::Intersection(Some(set)) => *set &= bitmap_from_bytes(bytes)?,
                Set::Intersection(first) => *first = Some(bitmap_from_bytes(bytes)?),
                Set::Difference(set) => set.get_or_insert_default().add(bytes)?,
            }
        }
        Ok(())
    }

    /// Returns the set as bytes; NULL for an intersection of no sets.
    fn bytes(&mut self) -> ScalarValue {
        let bytes = match &mut self.set {
            Set::Hll(sketch) => Some(sketch.to_bytes()),
            Set::Quantiles(set) => Some(set.to_bytes()),
            Set::Union(set) => {
                let set = set.set();
                set.optimize();
                Some(bitmap_to_bytes(set))
            }
            Set::Difference(Some(set)) => {
                let set = set.set();
                set.optimize();
                Some(bitmap_to_bytes(set))
            }
            Set::Intersection(Some(set)) => {
                set.optimize();
                Some(bitmap_to_bytes(set))
            }
            Set::Intersection(None) | Set::Difference(None) => None,
        };
        ScalarValue::BinaryView(bytes)
    }

    fn count(&mut self) -> u64 {
        match &mut self.set {
            Set::Hll(sketch) => sketch.estimate(),
            // No function counts these.
            Set::Quantiles(_) => 0,
            Set::Union(set) => set.set().len(),
            Set::Intersection(set) => set.as_ref().map_or(0, RoaringTreemap::len),
            Set::Difference(set) => set.as_mut().map_or(0, |set| set.set().len()),
        }
    }
}

impl Accumulator for State {
    fn update_batch(&mut self, columns: &[ArrayRef]) -> Result<()> {
        match &mut self.set {
            Set::Union(set) if self.integers => {
                // Negative numbers are members above 2^63, so that they are counted, too.
                to_int("bitmap_union_int", &columns[0])?.iter().flatten().for_each(|v| set.insert(v as u64));
                Ok(())
            }
            _ => self.merge(&columns[0]).map_err(external),
        }
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.merge(&states[0]).map_err(external)
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(vec![self.bytes()])
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        if self.counts {
            return Ok(ScalarValue::Int64(Some(self.count() as i64)));
        }
        let is_null_of_nothing = matches!(self.set, Set::Difference(_));
        Ok(match self.bytes() {
            ScalarValue::BinaryView(None) if !is_null_of_nothing => {
                ScalarValue::BinaryView(Some(bitmap_to_bytes(&RoaringTreemap::new())))
            }
            set => set,
        })
    }

    fn size(&self) -> usize {
        size_of::<Self>()
            + match &self.set {
                Set::Hll(sketch) => sketch.memory(),
                Set::Quantiles(set) => set.memory(),
                Set::Union(set) => set.memory(),
                Set::Intersection(Some(set)) => set.serialized_size(),
                Set::Difference(Some(set)) => set.memory(),
                Set::Intersection(None) | Set::Difference(None) => 0,
            }
    }
}
