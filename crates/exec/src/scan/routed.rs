//! The filter that a hash join with divided sides gives a scan, evaluated in one pass over the rows.
//!
//! The filter is `CASE hash(key) % n WHEN 0 THEN ... WHEN 1 THEN ... ELSE ... END`: each worker has a part of the keys,
//! and its condition knows only those. DataFusion compares each row with one number after the other until one is equal,
//! and copies the rows that are left each time. Here rows are sorted by their number first.

use std::sync::Arc;

use arrow::array::{Array, AsArray, BooleanArray, BooleanBufferBuilder, UInt32Array};
use arrow::compute::take_record_batch;
use arrow::datatypes::UInt64Type;
use arrow::record_batch::RecordBatch;
use datafusion::common::ScalarValue;
use datafusion::error::Result as DfResult;
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{BinaryExpr, CaseExpr, Literal};

use super::filter::as_bools;

/// The most numbers that rows are sorted by.
const NUMBERS_MAX: u64 = 4096;

/// Conditions of which each row meets one, by its number.
#[derive(Debug)]
pub(super) struct Routed {
    /// Gives the number of each row; it is below that of the conditions.
    number: Arc<dyn PhysicalExpr>,
    conditions: Vec<Arc<dyn PhysicalExpr>>,
}

impl Routed {
    /// Takes a filter apart; `None` for filters of another form.
    pub(super) fn of(filter: &Arc<dyn PhysicalExpr>) -> Option<Self> {
        let case = filter.downcast_ref::<CaseExpr>()?;
        let number = Arc::clone(case.expr()?);
        let modulo = number.downcast_ref::<BinaryExpr>().filter(|e| *e.op() == Operator::Modulo)?;
        let count = constant(modulo.right()).filter(|n| (1..=NUMBERS_MAX).contains(n))?;
        let mut conditions = vec![Arc::clone(case.else_expr()?); count as usize];
        // Of several conditions for a number the first one counts.
        for (number, condition) in case.when_then_expr().iter().rev() {
            *conditions.get_mut(constant(number)? as usize)? = Arc::clone(condition);
        }
        Some(Routed { number, conditions })
    }

    /// Returns which rows pass. `None` if a number is unknown, which is left to the CASE.
    pub(super) fn evaluate(&self, batch: &RecordBatch) -> DfResult<Option<BooleanArray>> {
        let rows = batch.num_rows();
        let numbers = self.number.evaluate(batch)?.into_array(rows)?;
        let Some(numbers) = numbers.as_primitive_opt::<UInt64Type>().filter(|n| n.null_count() == 0) else {
            return Ok(None);
        };
        // Where the rows of each number begin, and where the next one of them goes.
        let mut starts = vec![0; self.conditions.len() + 1];
        for number in numbers.values() {
            starts[*number as usize + 1] += 1;
        }
        for i in 1..starts.len() {
            starts[i] += starts[i - 1];
        }
        assert_eq!(starts.last(), Some(&rows), "each row has one number");
        let mut next = starts.clone();
        let mut order = vec![0u32; rows];
        for (row, number) in numbers.values().iter().enumerate() {
            let place = &mut next[*number as usize];
            order[*place] = row as u32;
            *place += 1;
        }
        let order = UInt32Array::from(order);
        let sorted = take_record_batch(batch, &order)?;
        let mut passed = BooleanBufferBuilder::new(rows);
        passed.append_n(rows, false);
        for (i, condition) in self.conditions.iter().enumerate() {
            let (start, len) = (starts[i], starts[i + 1] - starts[i]);
            if len == 0 {
                continue;
            }
            let answers = as_bools(&condition.evaluate(&sorted.slice(start, len))?.into_array(len)?)?;
            let answers = match answers.nulls() {
                Some(nulls) => answers.values() & nulls.inner(),
                None => answers.values().clone(),
            };
            answers.set_indices().for_each(|at| passed.set_bit(order.value(start + at) as usize, true));
        }
        Ok(Some(BooleanArray::new(passed.finish(), None)))
    }
}

fn constant(e: &Arc<dyn PhysicalExpr>) -> Option<u64> {
    match e.downcast_ref::<Literal>()?.value() {
        ScalarValue::UInt64(value) => *value,
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{ArrayRef, Int64Array, UInt64Array};
    use datafusion::physical_expr::expressions::{Column, lit};
    use proptest::prelude::*;

    fn case(count: u64, whens: &[(u64, i64)], otherwise: bool) -> Arc<dyn PhysicalExpr> {
        let hash = Arc::new(Column::new("h", 0));
        let number = Arc::new(BinaryExpr::new(hash, Operator::Modulo, lit(count)));
        let below = |most: i64| Arc::new(BinaryExpr::new(Arc::new(Column::new("k", 1)), Operator::Lt, lit(most))) as _;
        let whens = whens.iter().map(|(number, most)| (lit(*number), below(*most))).collect();
        Arc::new(CaseExpr::try_new(Some(number), whens, Some(lit(otherwise))).unwrap())
    }

    proptest! {
        #[test]
        fn rows_that_pass_are_those_of_the_case(
            count in 1u64..9,
            whens in proptest::collection::vec((0u64..9, 0i64..100), 1..9),
            otherwise in any::<bool>(),
            rows in proptest::collection::vec((any::<u64>(), proptest::option::of(0i64..100)), 0..200),
        ) {
            let filter = case(count, &whens, otherwise);
            let Some(routed) = Routed::of(&filter) else {
                prop_assert!(whens.iter().any(|(number, _)| *number >= count));
                return Ok(());
            };
            let hashes: ArrayRef = Arc::new(rows.iter().map(|r| Some(r.0)).collect::<UInt64Array>());
            let keys: ArrayRef = Arc::new(rows.iter().map(|r| r.1).collect::<Int64Array>());
            let batch = RecordBatch::try_from_iter_with_nullable([("h", hashes, true), ("k", keys, true)]).unwrap();
            let wanted = filter.evaluate(&batch).unwrap().into_array(rows.len()).unwrap();
            let wanted: Vec<bool> = wanted.as_boolean().iter().map(|passes| passes == Some(true)).collect();
            let found: Vec<bool> = routed.evaluate(&batch).unwrap().unwrap().iter().flatten().collect();
            prop_assert_eq!(found, wanted);
        }
    }

    #[test]
    fn other_filters_are_left_alone() {
        assert!(Routed::of(&lit(true)).is_none());
        assert!(Routed::of(&case(0, &[(0, 1)], false)).is_none(), "nothing is below 0");
        let unknown: ArrayRef = Arc::new(UInt64Array::from(vec![Some(1), None]));
        let keys: ArrayRef = Arc::new(Int64Array::from(vec![1, 2]));
        let batch = RecordBatch::try_from_iter_with_nullable([("h", unknown, true), ("k", keys, true)]).unwrap();
        let routed = Routed::of(&case(2, &[(0, 9), (1, 9)], false)).unwrap();
        assert!(routed.evaluate(&batch).unwrap().is_none());
    }
}
