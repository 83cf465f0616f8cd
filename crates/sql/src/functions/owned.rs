//! Accumulators of nested values that hold on to no more than they keep.
//!
//! A slice of an array keeps the whole array alive, and a text view keeps all buffers of its array. An accumulator that
//! keeps a value of each group would hold all groups' values once per group, and its states would consist of as many
//! buffers again: memory and time grow with the square of the number of groups. So nested columns are copied when they
//! enter an accumulator and when they leave it. The copies consist of the rows that are there, and of few buffers.

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, AsArray, BooleanArray, FixedSizeListArray, GenericListArray, MapArray, MutableArrayData,
    OffsetSizeTrait, StructArray, make_array,
};
use arrow::buffer::{NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow::datatypes::DataType;
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::{Accumulator, EmitTo, GroupsAccumulator};

/// The number of buffers of text views from which on a result is copied.
const BUFFERS_MAX: usize = 16;

/// Copies the rows of an array into an array that shares nothing with it.
pub(super) fn own(array: &ArrayRef) -> Result<ArrayRef> {
    let nulls = array.nulls().map(|nulls| nulls.iter().collect::<NullBuffer>());
    Ok(match array.data_type() {
        DataType::Utf8View => Arc::new(array.as_string_view().gc()),
        DataType::BinaryView => Arc::new(array.as_binary_view().gc()),
        DataType::Struct(fields) if !fields.is_empty() => {
            let columns = array.as_struct().columns().iter().map(own).collect::<Result<_>>()?;
            Arc::new(StructArray::try_new(fields.clone(), columns, nulls)?)
        }
        DataType::List(_) => own_lists::<i32>(array, nulls)?,
        DataType::LargeList(_) => own_lists::<i64>(array, nulls)?,
        DataType::FixedSizeList(field, size) => {
            let values = own(array.as_fixed_size_list().values())?;
            Arc::new(FixedSizeListArray::try_new_with_length(Arc::clone(field), *size, values, nulls, array.len())?)
        }
        DataType::Map(entries, sorted) => {
            let map = array.as_map();
            let (offsets, from, length) = from_zero(map.offsets());
            let pairs: ArrayRef = Arc::new(map.entries().slice(from, length));
            let pairs = own(&pairs)?.as_struct().clone();
            Arc::new(MapArray::try_new(Arc::clone(entries), offsets, pairs, nulls, *sorted)?)
        }
        _ => {
            let data = array.to_data();
            let mut copy = MutableArrayData::new(vec![&data], false, array.len());
            copy.try_extend(0, 0, array.len())?;
            make_array(copy.freeze())
        }
    })
}

/// Returns the offsets from zero on, and the span of the elements that they refer to.
fn from_zero<O: OffsetSizeTrait>(offsets: &OffsetBuffer<O>) -> (OffsetBuffer<O>, usize, usize) {
    let (first, last) = (offsets[0], offsets[offsets.len() - 1]);
    let moved: ScalarBuffer<O> = offsets.iter().map(|offset| *offset - first).collect();
    (OffsetBuffer::new(moved), first.as_usize(), (last - first).as_usize())
}

fn own_lists<O: OffsetSizeTrait>(array: &ArrayRef, nulls: Option<NullBuffer>) -> Result<ArrayRef> {
    let lists = array.as_list::<O>();
    let (offsets, from, length) = from_zero(lists.offsets());
    let values = own(&lists.values().slice(from, length))?;
    let (DataType::List(field) | DataType::LargeList(field)) = array.data_type() else { return Ok(Arc::clone(array)) };
    Ok(Arc::new(GenericListArray::<O>::try_new(Arc::clone(field), offsets, values, nulls)?))
}

/// Copies the columns that are nested. Of others, accumulators keep values and not slices.
fn own_nested(columns: &[ArrayRef]) -> Result<Vec<ArrayRef>> {
    let one = |column: &ArrayRef| if column.data_type().is_nested() { own(column) } else { Ok(Arc::clone(column)) };
    columns.iter().map(one).collect()
}

/// Copies a result whose text views have many buffers, one or more per group: each slice of it would hold on to all.
fn gathered(result: ArrayRef) -> Result<ArrayRef> {
    if is_scattered(&result) { own(&result) } else { Ok(result) }
}

fn is_scattered(array: &ArrayRef) -> bool {
    match array.data_type() {
        DataType::Utf8View => array.as_string_view().data_buffers().len() > BUFFERS_MAX,
        DataType::BinaryView => array.as_binary_view().data_buffers().len() > BUFFERS_MAX,
        DataType::Struct(_) => array.as_struct().columns().iter().any(is_scattered),
        DataType::List(_) => is_scattered(array.as_list::<i32>().values()),
        DataType::LargeList(_) => is_scattered(array.as_list::<i64>().values()),
        DataType::FixedSizeList(..) => is_scattered(array.as_fixed_size_list().values()),
        DataType::Map(..) => array.as_map().entries().columns().iter().any(is_scattered),
        _ => false,
    }
}

/// An accumulator that never gets the slices of a shared array.
#[derive(Debug)]
pub(super) struct Owned(pub(super) Box<dyn Accumulator>);

impl Accumulator for Owned {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.0.update_batch(&own_nested(values)?)
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.0.merge_batch(&own_nested(states)?)
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        self.0.state()
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        self.0.evaluate()
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.0.retract_batch(values)
    }

    fn supports_retract_batch(&self) -> bool {
        self.0.supports_retract_batch()
    }

    fn size(&self) -> usize {
        self.0.size()
    }
}

/// Accumulators of groups that never get the slices of a shared array, and whose results have few buffers.
pub(super) struct OwnedGroups(pub(super) Box<dyn GroupsAccumulator>);

impl GroupsAccumulator for OwnedGroups {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        group_indices: &[usize],
        opt_filter: Option<&BooleanArray>,
        total_num_groups: usize,
    ) -> Result<()> {
        self.0.update_batch(&own_nested(values)?, group_indices, opt_filter, total_num_groups)
    }

    fn merge_batch(&mut self, states: &[ArrayRef], group_indices: &[usize], total_num_groups: usize) -> Result<()> {
        self.0.merge_batch(&own_nested(states)?, group_indices, total_num_groups)
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        gathered(self.0.evaluate(emit_to)?)
    }

    fn state(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        self.0.state(emit_to)?.into_iter().map(gathered).collect()
    }

    fn convert_to_state(&self, values: &[ArrayRef], opt_filter: Option<&BooleanArray>) -> Result<Vec<ArrayRef>> {
        self.0.convert_to_state(values, opt_filter)
    }

    fn size(&self) -> usize {
        self.0.size()
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::{Int64Array, StringViewArray};
    use arrow::compute::concat;
    use arrow::datatypes::{Field, FieldRef, Schema};
    use datafusion::common::Result;
    use datafusion::execution::FunctionRegistry;
    use datafusion::logical_expr::AggregateUDF;
    use datafusion::logical_expr::function::AccumulatorArgs;
    use datafusion::logical_expr::registry::MemoryFunctionRegistry;
    use datafusion::physical_expr::expressions::Column;
    use datafusion::physical_expr::{PhysicalExpr, PhysicalSortExpr};

    use super::*;

    const ROWS: usize = 500;

    fn texts(rows: std::ops::Range<usize>) -> ArrayRef {
        Arc::new(rows.map(|i| Some(format!("{i:0>40}"))).collect::<StringViewArray>())
    }

    fn field(name: &str, of: &ArrayRef) -> FieldRef {
        Arc::new(Field::new(name, of.data_type().clone(), true))
    }

    fn structs(rows: std::ops::Range<usize>) -> ArrayRef {
        let column = texts(rows);
        Arc::new(StructArray::from(vec![(field("s", &column), column)]))
    }

    fn lists(rows: std::ops::Range<usize>) -> ArrayRef {
        let rows = structs(rows);
        let lengths = std::iter::repeat_n(1, rows.len());
        let field = Arc::new(Field::new_list_field(rows.data_type().clone(), true));
        Arc::new(GenericListArray::<i32>::new(field, OffsetBuffer::from_lengths(lengths), rows, None))
    }

    fn maps(rows: std::ops::Range<usize>) -> ArrayRef {
        let column = texts(rows);
        let keys = Arc::new(Field::new("key", column.data_type().clone(), false));
        let pairs = StructArray::from(vec![(keys, Arc::clone(&column)), (field("value", &column), column)]);
        let entries = Arc::new(Field::new("entries", pairs.data_type().clone(), false));
        let offsets = OffsetBuffer::from_lengths(std::iter::repeat_n(1, pairs.len()));
        Arc::new(MapArray::new(entries, offsets, pairs, None, false))
    }

    /// One array of one row per buffer, as the states of groups make it.
    fn many_buffers(make: fn(std::ops::Range<usize>) -> ArrayRef) -> ArrayRef {
        let rows: Vec<ArrayRef> = (0..ROWS).map(|at| make(at..at + 1)).collect();
        let rows: Vec<&dyn Array> = rows.iter().map(AsRef::as_ref).collect();
        concat(&rows).unwrap()
    }

    fn kinds() -> [ArrayRef; 3] {
        [many_buffers(structs), many_buffers(lists), many_buffers(maps)]
    }

    #[test]
    fn copies_are_equal_and_share_nothing() {
        for rows in kinds() {
            let part = rows.slice(7, 3);
            let copy = own(&part).unwrap();
            assert_eq!(&copy, &part);
            assert!(copy.get_array_memory_size() < 3000, "{}: {}", rows.data_type(), copy.get_array_memory_size());
            assert_eq!(&own(&rows.slice(0, 0)).unwrap(), &rows.slice(0, 0));
        }
        let numbers: ArrayRef = Arc::new(Int64Array::from_iter((0..1000).map(|i| (i % 3 > 0).then_some(i))));
        let part = numbers.slice(100, 5);
        let copy = own(&part).unwrap();
        assert_eq!(&copy, &part);
        assert!(copy.get_array_memory_size() < 500);
    }

    /// Calls `work` with the arguments of a call over the columns `x` and `k`, ordered by `k` if `ordered`.
    fn with_args<R>(
        function: &AggregateUDF,
        value: &DataType,
        ordered: bool,
        work: impl FnOnce(AccumulatorArgs) -> Result<R>,
    ) -> R {
        let schema = Schema::new(vec![Field::new("x", value.clone(), true), Field::new("k", DataType::Int64, true)]);
        let column = |name: &str, at| Arc::new(Column::new(name, at)) as Arc<dyn PhysicalExpr>;
        let exprs = [column("x", 0)];
        let fields = [Arc::new(schema.field(0).clone())];
        let order = if ordered { vec![PhysicalSortExpr::new_default(column("k", 1))] } else { Vec::new() };
        work(AccumulatorArgs {
            return_field: function.return_field(&fields).unwrap(),
            schema: &schema,
            ignore_nulls: false,
            order_bys: &order,
            is_reversed: false,
            name: function.name(),
            is_distinct: false,
            exprs: &exprs,
            expr_fields: &fields,
        })
        .unwrap()
    }

    #[test]
    fn values_of_groups_weigh_what_they_hold() {
        let mut registry = MemoryFunctionRegistry::new();
        crate::functions::aggregate::register(&mut registry).unwrap();
        let keys: ArrayRef = Arc::new(Int64Array::from_iter_values(0..ROWS as i64));
        let set: ArrayRef = Arc::new(BooleanArray::from(vec![true; ROWS]));
        for rows in kinds() {
            for name in ["any_value", "first_value", "last_value", "array_agg"] {
                let function = registry.udaf(name).unwrap();
                for ordered in [false, true] {
                    if ordered && name == "any_value" {
                        continue;
                    }
                    let columns = if ordered { vec![rows.clone(), keys.clone()] } else { vec![rows.clone()] };
                    let one = |args: AccumulatorArgs| {
                        let mut accumulator = function.accumulator(args)?;
                        let row: Vec<ArrayRef> = columns.iter().map(|column| column.slice(5, 1)).collect();
                        accumulator.update_batch(&row)?;
                        Ok(accumulator.size())
                    };
                    let size = with_args(&function, rows.data_type(), ordered, one);
                    assert!(size < 5_000, "{name} of {}: {size}", rows.data_type());
                    if name == "array_agg" {
                        continue;
                    }
                    let merged = |args: AccumulatorArgs| {
                        let mut accumulator = function.accumulator(args)?;
                        let state: Vec<ArrayRef> = columns.iter().chain([&set]).map(|c| c.slice(5, 1)).collect();
                        accumulator.merge_batch(&state)?;
                        assert_eq!(&accumulator.evaluate()?.to_array()?, &rows.slice(5, 1));
                        Ok(accumulator.size())
                    };
                    let size = with_args(&function, rows.data_type(), ordered, merged);
                    assert!(size < 5_000, "{name} of {}: {size}", rows.data_type());
                    if !ordered {
                        continue;
                    }
                    let groups = |args: AccumulatorArgs| {
                        assert!(function.groups_accumulator_supported(args.clone()));
                        let mut accumulator = function.create_groups_accumulator(args)?;
                        let numbers: Vec<usize> = (0..ROWS).collect();
                        accumulator.update_batch(&columns, &numbers, None, ROWS)?;
                        let values = accumulator.evaluate(EmitTo::All)?;
                        assert_eq!(&values, &rows);
                        Ok(values.get_array_memory_size())
                    };
                    let size = with_args(&function, rows.data_type(), ordered, groups);
                    assert!(size < ROWS * 250, "{name} of {}: {size}", rows.data_type());
                }
            }
        }
    }
}
