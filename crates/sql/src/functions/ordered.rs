//! Lists that aggregates collect over windows, sorted by the ORDER BY inside the call, which DataFusion ignores there.

use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, ListArray};
use arrow::buffer::{NullBuffer, OffsetBuffer};
use arrow::compute::SortOptions;
use arrow::datatypes::{DataType, Field, FieldRef};
use arrow::row::{RowConverter, SortField};
use datafusion::common::hash_utils::RandomState;
use datafusion::common::{Result, ScalarValue, internal_err, plan_err};
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::{Accumulator, AggregateUDF, AggregateUDFImpl, Signature, Volatility};
use datafusion::physical_expr::expressions::Literal;

use super::adapted::Adapted;
use super::args::Args;
use super::func::{Def, Ret, def};
use super::kept::one_zero;
use super::still_wanted;

/// Name of the function that returns NULL for an empty list. (It is not a name in SQL.)
pub const UNLESS_EMPTY: &str = "dipper_unless_empty";

/// Name of the aggregate that makes a list of its first arguments over a window, sorted by the arguments behind them. (It
/// is not a name in SQL.) The last argument is a constant with a letter for each of these: `a` for ascending, `d` for
/// descending, in upper case if NULL is not at the default end; and `u` if only the first of equal values stays.
pub const IN_ORDER: &str = "dipper_in_order";

/// Functions of this file.
pub const DEFS: &[Def] = &[def(UNLESS_EMPTY, &[], (1, 1), Ret::Arg(0), unless_empty)];

fn unless_empty(a: &Args) -> Result<ArrayRef> {
    let raw = a.raw(0);
    let Some(lists) = raw.array.as_list_opt::<i32>() else { return Ok(Arc::clone(&raw.array)) };
    let some: NullBuffer = (0..lists.len()).map(|at| lists.value_length(at) > 0).collect();
    let (field, offsets, values, nulls) = lists.clone().into_parts();
    Ok(Arc::new(ListArray::try_new(field, offsets, values, NullBuffer::union(nulls.as_ref(), Some(&some)))?))
}

/// Returns the aggregate [`IN_ORDER`].
pub(super) fn in_order() -> Arc<AggregateUDF> {
    let plain = AggregateUDF::new_from_impl(InOrder { signature: Signature::variadic_any(Volatility::Immutable) });
    Adapted::new(Arc::new(plain)).moves_itself().empty_list().udaf()
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct InOrder {
    signature: Signature,
}

fn item(t: &DataType) -> FieldRef {
    Arc::new(Field::new_list_field(t.clone(), true))
}

impl InOrder {
    fn list(args: &AccumulatorArgs, moves: bool) -> Result<Box<dyn Accumulator>> {
        let types: Vec<DataType> = args.expr_fields.iter().map(|field| field.data_type().clone()).collect();
        let how = args.exprs.last().and_then(|how| how.downcast_ref::<Literal>()).map(Literal::value);
        let (Some(how), [value, keys @ .., _]) = (how.and_then(|how| how.try_as_str().flatten()), types.as_slice())
        else {
            return plan_err!("{IN_ORDER}: expected a value, keys and how they are sorted");
        };
        let orders = how.chars().filter(|letter| *letter != 'u').map(|letter| {
            let descending = letter.eq_ignore_ascii_case(&'d');
            SortOptions { descending, nulls_first: descending == letter.is_ascii_uppercase() }
        });
        let keys = keys.iter().zip(orders).map(|(t, order)| SortField::new_with_options(t.clone(), order)).collect();
        Ok(Box::new(SortedList {
            keys: RowConverter::new(keys)?,
            values: RowConverter::new(vec![SortField::new(value.clone())])?,
            item: value.clone(),
            in_order: BTreeMap::new(),
            of_values: how.contains('u').then(HashMap::default),
            frame: moves.then(VecDeque::new),
            next: 0,
            ignores_nulls: args.ignore_nulls,
            bytes: 0,
        }))
    }
}

impl AggregateUDFImpl for InOrder {
    fn name(&self) -> &str {
        IN_ORDER
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        match types.first() {
            Some(value) => Ok(DataType::List(item(value))),
            None => plan_err!("{IN_ORDER}: expected a value"),
        }
    }

    fn accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        InOrder::list(&args, false)
    }

    fn create_sliding_accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        InOrder::list(&args, true)
    }

    fn state_fields(&self, args: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        Ok(vec![Arc::new(Field::new(args.name, args.return_type().clone(), true))])
    }
}

/// The key of a row, in Arrow's row format, and its number: rows with equal keys keep their order.
type Place = (Box<[u8]>, u64);

/// The values of a frame in their order. A window asks for the list after each row: it is walked and not sorted then, so
/// that a list costs as much as it has values.
#[derive(Debug)]
struct SortedList {
    keys: RowConverter,
    values: RowConverter,
    item: DataType,
    /// The values that are in the list.
    in_order: BTreeMap<Place, Arc<[u8]>>,
    /// If only the first of equal values is in the list: the places of each value (only the first place, if rows never
    /// leave).
    of_values: Option<HashMap<Arc<[u8]>, BTreeSet<Place>, RandomState>>,
    /// The rows of a frame from which rows leave, in the order in which they came.
    frame: Option<VecDeque<(Place, Arc<[u8]>)>>,
    /// The number of the next row.
    next: u64,
    ignores_nulls: bool,
    bytes: usize,
}

/// Approximate bytes that a row takes in the maps besides its own.
const ROW_BYTES: usize = 96;

impl SortedList {
    fn enter(&mut self, place: Place, value: Arc<[u8]>) {
        let bytes = place.0.len() + value.len() + ROW_BYTES;
        if let Some(frame) = &mut self.frame {
            frame.push_back((place.clone(), Arc::clone(&value)));
        }
        let Some(of_values) = &mut self.of_values else {
            self.bytes += bytes;
            self.in_order.insert(place, value);
            return;
        };
        let places = of_values.entry(Arc::clone(&value)).or_default();
        let first = places.first().cloned();
        if let Some(first) = &first {
            if *first < place {
                if self.frame.is_some() {
                    self.bytes += bytes;
                    places.insert(place);
                }
                return;
            }
            self.in_order.remove(first);
            if self.frame.is_none() {
                places.clear();
                self.bytes -= first.0.len() + value.len() + ROW_BYTES;
            }
        }
        self.bytes += bytes;
        places.insert(place.clone());
        self.in_order.insert(place, value);
    }

    fn leave(&mut self, place: &Place, value: &Arc<[u8]>) {
        self.bytes -= place.0.len() + value.len() + ROW_BYTES;
        let was_there = self.in_order.remove(place).is_some();
        let Some(of_values) = &mut self.of_values else { return };
        let Some(places) = of_values.get_mut(value) else { return };
        places.remove(place);
        match places.first() {
            None => drop(of_values.remove(value)),
            Some(first) if was_there => drop(self.in_order.insert(first.clone(), Arc::clone(value))),
            Some(_) => {}
        }
    }
}

impl Accumulator for SortedList {
    fn update_batch(&mut self, columns: &[ArrayRef]) -> Result<()> {
        let columns: Vec<ArrayRef> = columns.iter().map(one_zero).collect();
        let [value, keys @ .., _] = columns.as_slice() else { return Ok(()) };
        let keys = self.keys.convert_columns(keys)?;
        let values = self.values.convert_columns(std::slice::from_ref(value))?;
        let nulls = value.logical_nulls().filter(|_| self.ignores_nulls);
        for (row, (key, value)) in keys.iter().zip(values.iter()).enumerate() {
            if nulls.as_ref().is_none_or(|nulls| nulls.is_valid(row)) {
                self.enter((key.data().into(), self.next), value.data().into());
                self.next += 1;
            }
        }
        Ok(())
    }

    fn retract_batch(&mut self, columns: &[ArrayRef]) -> Result<()> {
        let Some(value) = columns.first() else { return Ok(()) };
        let ignored = if self.ignores_nulls { value.logical_null_count() } else { 0 };
        for _ in ignored..value.len() {
            let Some((place, value)) = self.frame.as_mut().and_then(VecDeque::pop_front) else {
                return internal_err!("a row leaves that has not come");
            };
            self.leave(&place, &value);
        }
        Ok(())
    }

    fn supports_retract_batch(&self) -> bool {
        self.frame.is_some()
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        still_wanted()?;
        let parser = self.values.parser();
        let rows = self.in_order.values().map(|row| parser.parse(row));
        let values = self.values.convert_rows(rows)?.swap_remove(0);
        let lengths = OffsetBuffer::from_lengths([values.len()]);
        Ok(ScalarValue::List(Arc::new(ListArray::try_new(item(&self.item), lengths, values, None)?)))
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        internal_err!("{IN_ORDER} has no partial states")
    }

    fn merge_batch(&mut self, _: &[ArrayRef]) -> Result<()> {
        internal_err!("{IN_ORDER} has no partial states")
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.bytes + self.frame.as_ref().map_or(0, |frame| frame.len() * ROW_BYTES)
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::{Int64Array, StringViewArray};
    use proptest::prelude::*;

    use super::*;

    fn list(unique: bool, moves: bool) -> SortedList {
        let key = SortField::new_with_options(DataType::Int64, SortOptions { descending: true, nulls_first: false });
        SortedList {
            keys: RowConverter::new(vec![key]).unwrap(),
            values: RowConverter::new(vec![SortField::new(DataType::Utf8View)]).unwrap(),
            item: DataType::Utf8View,
            in_order: BTreeMap::new(),
            of_values: unique.then(HashMap::default),
            frame: moves.then(VecDeque::new),
            next: 0,
            ignores_nulls: false,
            bytes: 0,
        }
    }

    type Row = (Option<u8>, Option<i64>);

    fn columns(rows: &[Row]) -> [ArrayRef; 3] {
        let text = |n: u8| format!("text number {n} of this column");
        let values: StringViewArray = rows.iter().map(|(value, _)| value.map(text)).collect();
        let keys: Int64Array = rows.iter().map(|(_, key)| *key).collect();
        let how: StringViewArray = rows.iter().map(|_| Some("d")).collect();
        [Arc::new(values), Arc::new(keys), Arc::new(how)]
    }

    /// The list of rows by itself: sorted, NULL last, and then only the first of equal values.
    fn naive(rows: &[Row], unique: bool) -> ArrayRef {
        let mut rows = rows.to_vec();
        rows.sort_by_key(|(_, key)| std::cmp::Reverse(*key));
        let mut seen = std::collections::HashSet::new();
        rows.retain(|(value, _)| !unique || seen.insert(*value));
        let [values, ..] = columns(&rows);
        values
    }

    fn evaluated(list: &mut SortedList) -> ArrayRef {
        let ScalarValue::List(lists) = list.evaluate().unwrap() else { panic!("a list") };
        lists.value(0)
    }

    proptest! {
        #[test]
        fn lists_of_frames_are_what_they_are_alone(
            rows in prop::collection::vec((prop::option::of(0..5_u8), prop::option::of(0..4_i64)), 40),
            steps in prop::collection::vec((0..4_usize, 0..5_usize), 20),
            unique: bool,
            moves: bool,
        ) {
            let mut list = list(unique, moves);
            let (mut from, mut to) = (0, 0);
            for (leave, enter) in steps {
                let next = (to + enter).min(rows.len());
                list.update_batch(&columns(&rows[to..next])).unwrap();
                to = next;
                if moves {
                    let next = (from + leave).min(to);
                    list.retract_batch(&columns(&rows[from..next])).unwrap();
                    from = next;
                }
                prop_assert_eq!(&evaluated(&mut list), &naive(&rows[from..to], unique));
            }
            if moves {
                list.retract_batch(&columns(&rows[from..to])).unwrap();
                prop_assert_eq!(list.bytes, 0);
            }
        }
    }

    #[test]
    fn distinct_values_take_the_memory_of_the_list() {
        let mut list = list(true, false);
        let rows: Vec<Row> = (0..10_000).map(|n| (Some((n % 7) as u8), Some(n))).collect();
        list.update_batch(&columns(&rows[..100])).unwrap();
        let few = list.bytes;
        list.update_batch(&columns(&rows)).unwrap();
        assert_eq!((list.in_order.len(), list.bytes), (7, few));
    }
}
