//! The keys of a join's build side, and the test that is made of them.

use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, BooleanBufferBuilder};
use arrow::buffer::NullBuffer;
use arrow::compute::{cast, filter, is_not_null};
use arrow::datatypes::{DataType, Int64Type, Schema};
use arrow::record_batch::RecordBatch;
use datafusion::common::hash_utils::{RandomState, create_hashes};
use datafusion::common::{HashSet, Result, ScalarValue, internal_err};
use datafusion::execution::memory_pool::{MemoryLimit, MemoryPool, MemoryReservation};
use datafusion::functions_aggregate::min_max::{MaxAccumulator, MinAccumulator};
use datafusion::logical_expr::{Accumulator, ColumnarValue, Operator};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{BinaryExpr, Column, InListExpr, IsNullExpr, lit};
use dipper_operators::bloom::BlockedBloom;
use dipper_store::segment::ValueTable;

/// The most keys that are collected. Larger build sides give no filter.
const KEYS_MAX: usize = 1 << 23;
/// The part of all memory that keys may take.
const MEMORY_SHARE: usize = 32;
/// The most different keys that are also given as a list.
const LISTED_MAX: usize = 150;
/// The most keys among which different ones are looked for.
const LOOKED_THROUGH: usize = 1024;
/// A bitmap is made if it takes no more bits than this, whatever the number of keys...
const BITS_FREE: u64 = 1 << 22;
/// ...or no more than so many for each key...
const BITS_PER_KEY: u64 = 64;
/// ...and no more than this.
const BITS_MAX: u64 = 1 << 28;

/// Keys that are being collected.
pub(super) struct KeyCollector {
    data_type: DataType,
    kept: Kept,
    has_null: bool,
    least: MinAccumulator,
    greatest: MaxAccumulator,
    /// All keys without NULL, while they are few.
    few: Option<Vec<ArrayRef>>,
    memory: MemoryReservation,
    memory_max: usize,
}

/// What is kept of each key.
enum Kept {
    /// The number itself.
    Numbers(Vec<i64>),
    /// Its hash.
    Hashes(Vec<u64>),
    /// Nothing: the keys were too many.
    Nothing,
}

impl KeyCollector {
    /// Makes a collector of keys of a type, whose memory is that of `memory`, of `pool`.
    pub(super) fn new(data_type: &DataType, memory: MemoryReservation, pool: &Arc<dyn MemoryPool>) -> Result<Self> {
        let kept = match ValueTable::takes(data_type) {
            true => Kept::Numbers(Vec::new()),
            false => Kept::Hashes(Vec::new()),
        };
        let memory_max = match pool.memory_limit() {
            MemoryLimit::Finite(bytes) => bytes / MEMORY_SHARE,
            _ => usize::MAX,
        };
        Ok(KeyCollector {
            data_type: data_type.clone(),
            kept,
            has_null: false,
            least: MinAccumulator::try_new(data_type)?,
            greatest: MaxAccumulator::try_new(data_type)?,
            few: Some(Vec::new()),
            memory,
            memory_max,
        })
    }

    /// Adds the keys of some rows.
    pub(super) fn add(&mut self, keys: &ArrayRef) -> Result<()> {
        if *keys.data_type() != self.data_type {
            return internal_err!("keys of {} among those of {}", keys.data_type(), self.data_type);
        }
        if matches!(self.kept, Kept::Nothing) || keys.is_empty() {
            return Ok(());
        }
        let keys = match keys.logical_null_count() {
            0 => Arc::clone(keys),
            _ => {
                self.has_null = true;
                filter(keys, &is_not_null(keys)?)?
            }
        };
        let count = self.count() + keys.len();
        let bytes = count * size_of::<u64>();
        if count > KEYS_MAX || bytes > self.memory_max || self.memory.try_resize(bytes).is_err() {
            self.kept = Kept::Nothing;
            self.few = None;
            self.memory.free();
            return Ok(());
        }
        self.least.update_batch(&[Arc::clone(&keys)])?;
        self.greatest.update_batch(&[Arc::clone(&keys)])?;
        match &mut self.kept {
            Kept::Numbers(numbers) => {
                let keys = cast(&keys, &DataType::Int64)?;
                numbers.extend_from_slice(keys.as_primitive::<Int64Type>().values());
            }
            Kept::Hashes(hashes) => {
                let start = hashes.len();
                hashes.resize(start + keys.len(), 0);
                create_hashes([&keys], &state(), &mut hashes[start..])?;
            }
            Kept::Nothing => {}
        }
        match &mut self.few {
            Some(few) if count <= LOOKED_THROUGH => few.push(keys),
            few => *few = None,
        }
        Ok(())
    }

    fn count(&self) -> usize {
        match &self.kept {
            Kept::Numbers(numbers) => numbers.len(),
            Kept::Hashes(hashes) => hashes.len(),
            Kept::Nothing => 0,
        }
    }

    /// Returns the condition that `key` is one of the keys; `None` if they were too many. With `nulls_equal`, NULL meets
    /// NULL. `schema` is that of the columns of `key`.
    pub(super) fn condition(
        mut self,
        key: &Arc<dyn PhysicalExpr>,
        nulls_equal: bool,
        schema: &Schema,
    ) -> Result<Option<Arc<dyn PhysicalExpr>>> {
        if matches!(self.kept, Kept::Nothing) {
            return Ok(None);
        }
        let is_member = match self.count() {
            0 => lit(false),
            _ => {
                let (least, greatest) = (self.least.evaluate()?, self.greatest.evaluate()?);
                let at_least = binary(key, Operator::GtEq, lit(least.clone()));
                let at_most = binary(key, Operator::LtEq, lit(greatest.clone()));
                let within = binary(&at_least, Operator::And, at_most);
                let exact = match self.listed(key, schema)? {
                    Some(list) => list,
                    None => {
                        let Some(members) = self.members(&least, &greatest) else { return Ok(None) };
                        let (key, data_type) = (Arc::clone(key), self.data_type.clone());
                        Arc::new(InKeys { key, keys: Arc::new(Keys { data_type, members, _memory: self.memory }) })
                    }
                };
                binary(&within, Operator::And, exact)
            }
        };
        Ok(Some(match nulls_equal && self.has_null {
            true => binary(&is_member, Operator::Or, Arc::new(IsNullExpr::new(Arc::clone(key)))),
            false => is_member,
        }))
    }

    /// Returns `key IN (..)` if there are few different keys.
    fn listed(&self, key: &Arc<dyn PhysicalExpr>, schema: &Schema) -> Result<Option<Arc<dyn PhysicalExpr>>> {
        let Some(few) = &self.few else { return Ok(None) };
        let mut different = HashSet::new();
        for keys in few {
            for i in 0..keys.len() {
                different.insert(ScalarValue::try_from_array(keys, i)?);
                if different.len() > LISTED_MAX {
                    return Ok(None);
                }
            }
        }
        if key.data_type(schema)? != self.data_type {
            return Ok(None);
        }
        let array = ScalarValue::iter_to_array(different)?;
        Ok(Some(Arc::new(InListExpr::try_new_from_array(Arc::clone(key), array, false, schema)?)))
    }

    /// Returns the set of all keys; `None` if there is no memory for it.
    fn members(&mut self, least: &ScalarValue, greatest: &ScalarValue) -> Option<Members> {
        let count = self.count();
        let range = number(least).zip(number(greatest)).and_then(|(least, greatest)| {
            let width = greatest.checked_sub(least)?.checked_add(1)? as u64;
            let most = BITS_FREE.max((count as u64).saturating_mul(BITS_PER_KEY)).min(BITS_MAX);
            (width <= most).then_some((least, width as usize))
        });
        let of_set = match range {
            Some((_, width)) => width.div_ceil(8),
            None => BlockedBloom::bytes_for(count),
        };
        self.memory.try_grow(of_set).ok()?;
        let members = match (std::mem::replace(&mut self.kept, Kept::Nothing), range) {
            (Kept::Numbers(numbers), Some((least, width))) => {
                let mut bits = BooleanBufferBuilder::new(width);
                bits.append_n(width, false);
                numbers.iter().for_each(|number| bits.set_bit((number - least) as usize, true));
                Members::Table(ValueTable::new(least, bits.finish()))
            }
            (Kept::Numbers(numbers), None) => {
                let numbers: ArrayRef = Arc::new(arrow::array::Int64Array::from(numbers));
                let mut hashes = vec![0; numbers.len()];
                create_hashes([&numbers], &state(), &mut hashes).ok()?;
                Members::Bloom(bloom(&hashes))
            }
            (Kept::Hashes(hashes), _) => Members::Bloom(bloom(&hashes)),
            (Kept::Nothing, _) => return None,
        };
        let _ = self.memory.try_resize(of_set);
        Some(members)
    }
}

fn bloom(hashes: &[u64]) -> BlockedBloom {
    let mut bloom = BlockedBloom::new(hashes.len());
    bloom.insert(hashes);
    bloom
}

/// Returns the value of a type that a [`ValueTable`] takes.
fn number(value: &ScalarValue) -> Option<i64> {
    if !ValueTable::takes(&value.data_type()) {
        return None;
    }
    match value.cast_to(&DataType::Int64) {
        Ok(ScalarValue::Int64(number)) => number,
        _ => None,
    }
}

fn binary(left: &Arc<dyn PhysicalExpr>, op: Operator, right: Arc<dyn PhysicalExpr>) -> Arc<dyn PhysicalExpr> {
    Arc::new(BinaryExpr::new(Arc::clone(left), op, right))
}

/// The seed of the hashes, another than those by which rows go to partitions.
fn state() -> RandomState {
    RandomState::with_seed(0x6a6f_696e_6b65_7973)
}

/// All keys of a build side.
struct Keys {
    data_type: DataType,
    members: Members,
    /// Held until the last scan has dropped its filter.
    _memory: MemoryReservation,
}

enum Members {
    /// A bit for each number between the least and the greatest key.
    Table(ValueTable),
    Bloom(BlockedBloom),
}

/// The test whether a value is among the keys of a join's build side. It may let others pass, and NULL is NULL.
#[derive(Clone)]
pub(crate) struct InKeys {
    key: Arc<dyn PhysicalExpr>,
    keys: Arc<Keys>,
}

impl InKeys {
    /// Whether the values that are tested are those of a column as they are.
    pub(crate) fn is_of_column(&self) -> bool {
        self.key.is::<Column>()
    }

    /// Returns which values may be among the keys.
    pub(crate) fn contain(&self, values: &ArrayRef) -> Result<BooleanArray> {
        let values = match *values.data_type() == self.keys.data_type {
            true => Arc::clone(values),
            false => cast(values, &self.keys.data_type)?,
        };
        match &self.keys.members {
            Members::Table(table) => match table.members(&values) {
                Some(found) => Ok(found),
                None => internal_err!("a table of numbers is asked for {}", values.data_type()),
            },
            Members::Bloom(bloom) => {
                // Numbers were hashed as BIGINT.
                let hashed = match ValueTable::takes(values.data_type()) {
                    true => cast(&values, &DataType::Int64)?,
                    false => Arc::clone(&values),
                };
                let mut hashes = vec![0; hashed.len()];
                create_hashes([&hashed], &state(), &mut hashes)?;
                let nulls: Option<NullBuffer> = values.logical_nulls();
                Ok(BooleanArray::new(bloom.contains(&hashes), nulls))
            }
        }
    }
}

impl fmt::Debug for InKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl fmt::Display for InKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match &self.keys.members {
            Members::Table(_) => "bitmap",
            Members::Bloom(_) => "bloom",
        };
        write!(f, "{} IN {kind} of join keys", self.key)
    }
}

impl PartialEq for InKeys {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.keys, &other.keys) && self.key.eq(&other.key)
    }
}

impl Eq for InKeys {}

impl Hash for InKeys {
    fn hash<H: Hasher>(&self, state: &mut H) {
        Arc::as_ptr(&self.keys).hash(state);
        self.key.hash(state);
    }
}

impl PhysicalExpr for InKeys {
    fn data_type(&self, _: &Schema) -> Result<DataType> {
        Ok(DataType::Boolean)
    }

    fn nullable(&self, schema: &Schema) -> Result<bool> {
        self.key.nullable(schema)
    }

    fn evaluate(&self, batch: &RecordBatch) -> Result<ColumnarValue> {
        let values = self.key.evaluate(batch)?.into_array(batch.num_rows())?;
        Ok(ColumnarValue::Array(Arc::new(self.contain(&values)?)))
    }

    fn children(&self) -> Vec<&Arc<dyn PhysicalExpr>> {
        vec![&self.key]
    }

    fn with_new_children(self: Arc<Self>, mut children: Vec<Arc<dyn PhysicalExpr>>) -> Result<Arc<dyn PhysicalExpr>> {
        Ok(Arc::new(InKeys { key: children.swap_remove(0), keys: Arc::clone(&self.keys) }))
    }

    fn fmt_sql(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::{Decimal128Array, Int64Array, StringViewArray, UInt64Array};
    use arrow::datatypes::Field;
    use datafusion::execution::memory_pool::{GreedyMemoryPool, MemoryConsumer, UnboundedMemoryPool};
    use proptest::prelude::*;

    use super::*;

    /// Returns what the filter says of each value of `probe`, where `build` are the keys; `None` for no filter.
    fn passing(
        build: &[ArrayRef],
        probe: &ArrayRef,
        nulls_equal: bool,
        pool: Arc<dyn MemoryPool>,
    ) -> Option<Vec<bool>> {
        let memory = MemoryConsumer::new("test").register(&pool);
        let mut keys = KeyCollector::new(probe.data_type(), memory, &pool).unwrap();
        build.iter().for_each(|batch| keys.add(batch).unwrap());
        let schema = Arc::new(Schema::new(vec![Field::new("k", probe.data_type().clone(), true)]));
        let key: Arc<dyn PhysicalExpr> = Arc::new(Column::new("k", 0));
        let condition = keys.condition(&key, nulls_equal, &schema).unwrap()?;
        let batch = RecordBatch::try_new(schema, vec![Arc::clone(probe)]).unwrap();
        let passed = condition.evaluate(&batch).unwrap().into_array(batch.num_rows()).unwrap();
        let passed = passed.as_boolean();
        Some((0..passed.len()).map(|i| passed.is_valid(i) && passed.value(i)).collect())
    }

    /// Makes arrays of one type of the same numbers.
    type Make = fn(Vec<Option<i64>>) -> ArrayRef;

    fn bigints(numbers: Vec<Option<i64>>) -> ArrayRef {
        Arc::new(Int64Array::from(numbers))
    }

    fn texts(numbers: Vec<Option<i64>>) -> ArrayRef {
        Arc::new(StringViewArray::from_iter(numbers.into_iter().map(|n| n.map(|n| format!("a longer text {n}")))))
    }

    fn decimals(numbers: Vec<Option<i64>>) -> ArrayRef {
        Arc::new(Decimal128Array::from_iter(numbers.into_iter().map(|n| n.map(i128::from))))
    }

    fn unsigned(numbers: Vec<Option<i64>>) -> ArrayRef {
        Arc::new(UInt64Array::from_iter(numbers.into_iter().map(|n| n.map(|n| n as u64))))
    }

    proptest! {
        #[test]
        fn each_key_passes_and_few_others(
            sides in (1i64..200_000_000_000).prop_flat_map(|range| {
                let numbers = move |count| {
                    prop::collection::vec(prop::option::weighted(0.95, -range..range), 0..count)
                };
                (prop::collection::vec(numbers(1500), 0..4), numbers(3000))
            }),
            nulls_equal: bool,
        ) {
            let (build, probe) = sides;
            let makes: [Make; 4] = [bigints, texts, decimals, unsigned];
            for make in makes {
                let batches: Vec<ArrayRef> = build.iter().map(|numbers| make(numbers.clone())).collect();
                let all: HashSet<Option<i64>> = build.iter().flatten().copied().collect();
                let wide = [vec![Some(i64::MIN), Some(i64::MAX), None], probe.clone()].concat();
                let passed = passing(&batches, &make(wide.clone()), nulls_equal, Arc::new(UnboundedMemoryPool::default()));
                let passed = passed.expect("there is memory");
                let mut others = 0;
                for (value, passed) in wide.iter().zip(&passed) {
                    match value {
                        None => prop_assert_eq!(*passed, nulls_equal && all.contains(&None)),
                        Some(_) if all.contains(value) => prop_assert!(passed),
                        Some(_) => others += usize::from(*passed),
                    }
                }
                prop_assert!(others <= 3 + wide.len() / 100, "{others} of {}", wide.len());
            }
        }
    }

    #[test]
    fn without_memory_there_is_no_filter() {
        let keys = bigints((0..10_000).map(Some).collect());
        let pool: Arc<dyn MemoryPool> = Arc::new(GreedyMemoryPool::new(64 << 10));
        assert_eq!(passing(&[Arc::clone(&keys)], &keys, false, Arc::clone(&pool)), None);
        assert_eq!(pool.reserved(), 0);
        let pool: Arc<dyn MemoryPool> = Arc::new(GreedyMemoryPool::new(64 << 20));
        assert_eq!(passing(&[Arc::clone(&keys)], &keys, false, Arc::clone(&pool)), Some(vec![true; 10_000]));
        assert_eq!(pool.reserved(), 0);
    }
}
