//! DISTINCT for aggregates that do not implement it, and for rows of several columns.
//!
//! The distinct rows are kept as bytes; once all rows have been read, an accumulator of all values gets the distinct
//! ones, in an order that does not depend on that of the rows. COUNT gets each row when it comes for the first time: a
//! window asks for the value after each row, and its cost must not be that of all rows so far.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, ListArray, StructArray, UInt64Array};
use arrow::buffer::OffsetBuffer;
use arrow::compute::take;
use arrow::datatypes::{DataType, Field, FieldRef, Fields};
use datafusion::common::{Result, ScalarValue, internal_err};
use datafusion::logical_expr::Accumulator;
use datafusion::logical_expr::AggregateUDF;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::format_state_name;

use super::kept::{RowCounts, RowSet};
use super::moving::Maker;

fn members<'a>(types: impl Iterator<Item = &'a DataType>) -> Fields {
    types.enumerate().map(|(at, t)| Field::new(format!("c{at}"), t.clone(), true)).collect()
}

/// Returns the fields of the state: a list of rows.
pub(crate) fn state_fields(args: &StateFieldsArgs) -> Vec<FieldRef> {
    let row = DataType::Struct(members(args.input_fields.iter().map(|field| field.data_type())));
    let list = DataType::List(Arc::new(Field::new_list_field(row, true)));
    vec![Arc::new(Field::new(format_state_name(args.name, "distinct rows"), list, true))]
}

/// Returns the accumulator of `function(DISTINCT ...)`.
///
/// # Errors
/// Arrow's error if rows of these types cannot be compared.
pub(crate) fn accumulator(function: &Arc<AggregateUDF>, args: &AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
    let types: Vec<DataType> = args.expr_fields.iter().map(|field| field.data_type().clone()).collect();
    let maker = Maker::new(function, args).of_all_values();
    let all = match function.name() {
        "count" => All::Each(maker.make()?),
        _ => All::AtOnce(maker),
    };
    Ok(Box::new(Distinct { all, members: members(types.iter()), rows: RowSet::new(&types)? }))
}

/// Returns the accumulator of `COUNT(DISTINCT ...)` over moving frames: rows are counted when they enter and when they
/// leave.
///
/// # Errors
/// Arrow's error if rows of these types cannot be compared.
pub(crate) fn counts_of_frames(args: &AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
    let types: Vec<DataType> = args.expr_fields.iter().map(|field| field.data_type().clone()).collect();
    Ok(Box::new(Counts(RowCounts::new(&types)?)))
}

#[derive(Debug)]
struct Counts(RowCounts);

impl Accumulator for Counts {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.0.enter(values)
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.0.leave(values)
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        Ok(ScalarValue::Int64(Some(self.0.len() as i64)))
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        internal_err!("a moving frame has no partial states")
    }

    fn merge_batch(&mut self, _: &[ArrayRef]) -> Result<()> {
        internal_err!("a moving frame has no partial states")
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.0.size()
    }
}

/// The accumulator of the distinct rows.
#[derive(Debug)]
enum All {
    /// Gets each row when it comes for the first time: the order does not matter to the value.
    Each(Box<dyn Accumulator>),
    /// Made for each value, and given all rows.
    AtOnce(Maker),
}

#[derive(Debug)]
struct Distinct {
    all: All,
    members: Fields,
    rows: RowSet,
}

impl Accumulator for Distinct {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let new = self.rows.extend(values)?;
        let All::Each(all) = &mut self.all else { return Ok(()) };
        if new.is_empty() {
            return Ok(());
        }
        let new = UInt64Array::from(new);
        let values = values.iter().map(|column| take(column, &new, None)).collect::<Result<Vec<_>, _>>()?;
        all.update_batch(&values)
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        for rows in states[0].as_list::<i32>().iter().flatten() {
            self.update_batch(rows.as_struct().columns())?;
        }
        Ok(())
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let columns = self.rows.columns()?;
        let rows = StructArray::try_new(self.members.clone(), columns, None)?;
        let field = Arc::new(Field::new_list_field(rows.data_type().clone(), true));
        let list = ListArray::try_new(field, OffsetBuffer::from_lengths([rows.len()]), Arc::new(rows), None)?;
        Ok(vec![ScalarValue::List(Arc::new(list))])
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        match &mut self.all {
            All::Each(all) => all.evaluate(),
            All::AtOnce(maker) => {
                let mut all = maker.make()?;
                all.update_batch(&self.rows.columns()?)?;
                all.evaluate()
            }
        }
    }

    fn size(&self) -> usize {
        let all = if let All::Each(all) = &self.all { all.size() } else { 0 };
        size_of_val(self) + self.rows.size() + all
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use arrow::array::Int64Array;

    use super::*;

    thread_local! {
        static GIVEN: Cell<usize> = const { Cell::new(0) };
    }

    /// Counts the rows that it gets.
    #[derive(Debug)]
    struct Counting;

    impl Accumulator for Counting {
        fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
            GIVEN.set(GIVEN.get() + values[0].len());
            Ok(())
        }

        fn merge_batch(&mut self, _: &[ArrayRef]) -> Result<()> {
            Ok(())
        }

        fn state(&mut self) -> Result<Vec<ScalarValue>> {
            Ok(Vec::new())
        }

        fn evaluate(&mut self) -> Result<ScalarValue> {
            Ok(ScalarValue::from(GIVEN.get() as i64))
        }

        fn size(&self) -> usize {
            0
        }
    }

    #[test]
    fn a_value_after_each_row_costs_no_more_than_the_row() {
        let types = [DataType::Int64, DataType::Int64];
        let rows = RowSet::new(&types).unwrap();
        let mut distinct = Distinct { all: All::Each(Box::new(Counting)), members: members(types.iter()), rows };
        for row in 0..1000 {
            let column: ArrayRef = Arc::new(Int64Array::from(vec![row % 100, row % 50, row % 100]));
            distinct.update_batch(&[Arc::clone(&column), column]).unwrap();
            distinct.evaluate().unwrap();
        }
        assert_eq!(GIVEN.get(), 100);
        let state = distinct.state().unwrap().swap_remove(0).to_array().unwrap();
        distinct.merge_batch(&[state]).unwrap();
        assert_eq!(GIVEN.get(), 100);
    }
}
