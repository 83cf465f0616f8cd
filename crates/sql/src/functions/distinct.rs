//! DISTINCT for aggregates that do not implement it, and for rows of several columns.
//!
//! The distinct rows are kept as bytes; once all rows have been read, an accumulator of all values gets the distinct
//! ones.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, ListArray, StructArray};
use arrow::buffer::OffsetBuffer;
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
    Ok(Box::new(Distinct {
        maker: Maker::new(function, args).of_all_values(),
        members: members(types.iter()),
        rows: RowSet::new(&types)?,
    }))
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

#[derive(Debug)]
struct Distinct {
    maker: Maker,
    members: Fields,
    rows: RowSet,
}

impl Accumulator for Distinct {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.rows.extend(values)
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        for rows in states[0].as_list::<i32>().iter().flatten() {
            self.rows.extend(rows.as_struct().columns())?;
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
        let mut all = self.maker.make()?;
        all.update_batch(&self.rows.columns()?)?;
        all.evaluate()
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.rows.size()
    }
}
