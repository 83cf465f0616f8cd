//! SUM of 64-bit integers that fails instead of wrapping.

use std::fmt::Debug;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arrow::array::{Array, ArrayRef, ArrowPrimitiveType, AsArray, BooleanArray, PrimitiveArray};
use arrow::datatypes::{DataType, Int64Type, UInt64Type};
use datafusion::common::{Result, ScalarValue, exec_err, internal_err};
use datafusion::logical_expr::{Accumulator, EmitTo, GroupsAccumulator};
use datafusion_functions_aggregate_common::aggregate::groups_accumulator::prim_op::PrimitiveGroupsAccumulator;

use super::checked::OUT_OF_RANGE;

fn out_of_range<T>(data_type: &DataType) -> Result<T> {
    let sign = if *data_type == DataType::UInt64 { "UNSIGNED " } else { "" };
    exec_err!("{sign}{OUT_OF_RANGE} in SUM; cast its argument to LARGEINT, DECIMAL or DOUBLE")
}

/// Whether sums of this type are made here.
pub(super) fn is_checked(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Int64 | DataType::UInt64)
}

/// One sum, also of a sliding window. It is kept in 128 bits, so that only the result has to fit.
#[derive(Debug)]
pub(super) struct CheckedSum {
    sum: i128,
    /// Values that are not NULL.
    count: u64,
    data_type: DataType,
}

impl CheckedSum {
    /// `data_type` is BIGINT, signed or not.
    pub(super) fn new(data_type: DataType) -> Self {
        CheckedSum { sum: 0, count: 0, data_type }
    }

    /// Sum and number of the values that are not NULL.
    fn of(&self, values: &ArrayRef) -> Result<(i128, u64)> {
        fn wide<T: ArrowPrimitiveType>(values: &PrimitiveArray<T>) -> i128
        where
            T::Native: Into<i128>,
        {
            match values.null_count() {
                0 => values.values().iter().map(|v| (*v).into()).sum(),
                _ => values.iter().flatten().map(Into::into).sum(),
            }
        }
        let sum = match &self.data_type {
            DataType::Int64 => wide(values.as_primitive::<Int64Type>()),
            DataType::UInt64 => wide(values.as_primitive::<UInt64Type>()),
            other => return internal_err!("SUM of {other} is not checked"),
        };
        Ok((sum, (values.len() - values.null_count()) as u64))
    }
}

impl Accumulator for CheckedSum {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let (sum, count) = self.of(&values[0])?;
        self.sum += sum;
        self.count += count;
        Ok(())
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.update_batch(states)
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(vec![self.evaluate()?])
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let sum = (self.count > 0).then_some(self.sum);
        let value = match self.data_type {
            DataType::UInt64 => sum.map(u64::try_from).transpose().map(ScalarValue::UInt64),
            _ => sum.map(i64::try_from).transpose().map(ScalarValue::Int64),
        };
        value.or_else(|_| out_of_range(&self.data_type))
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let (sum, count) = self.of(&values[0])?;
        self.sum -= sum;
        self.count -= count;
        Ok(())
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn size(&self) -> usize {
        size_of_val(self)
    }
}

/// Sums of groups: DataFusion's, with a flag that is raised when one of them leaves its range.
struct CheckedSums {
    sums: Box<dyn GroupsAccumulator>,
    overflow: Arc<AtomicBool>,
    data_type: DataType,
}

/// Sums of groups of a checked type.
pub(super) fn groups(data_type: &DataType) -> Result<Box<dyn GroupsAccumulator>> {
    let overflow = Arc::new(AtomicBool::new(false));
    let raised = Arc::clone(&overflow);
    macro_rules! sums {
        ($t:ty, $native:ty) => {
            Box::new(PrimitiveGroupsAccumulator::<$t, _>::new(data_type, move |sum: &mut $native, value: $native| {
                let (new, wrapped) = sum.overflowing_add(value);
                *sum = new;
                if wrapped {
                    raised.store(true, Ordering::Relaxed);
                }
            }))
        };
    }
    let sums: Box<dyn GroupsAccumulator> = match data_type {
        DataType::Int64 => sums!(Int64Type, i64),
        DataType::UInt64 => sums!(UInt64Type, u64),
        other => return internal_err!("SUM of {other} is not checked"),
    };
    Ok(Box::new(CheckedSums { sums, overflow, data_type: data_type.clone() }))
}

impl CheckedSums {
    fn check(&self) -> Result<()> {
        match self.overflow.load(Ordering::Relaxed) {
            true => out_of_range(&self.data_type),
            false => Ok(()),
        }
    }
}

impl Debug for CheckedSums {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CheckedSums").field("data_type", &self.data_type).finish_non_exhaustive()
    }
}

impl GroupsAccumulator for CheckedSums {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        group_indices: &[usize],
        opt_filter: Option<&BooleanArray>,
        total_num_groups: usize,
    ) -> Result<()> {
        self.sums.update_batch(values, group_indices, opt_filter, total_num_groups)?;
        self.check()
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        self.sums.evaluate(emit_to)
    }

    fn state(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        self.sums.state(emit_to)
    }

    fn merge_batch(&mut self, values: &[ArrayRef], group_indices: &[usize], total_num_groups: usize) -> Result<()> {
        self.sums.merge_batch(values, group_indices, total_num_groups)?;
        self.check()
    }

    fn convert_to_state(&self, values: &[ArrayRef], opt_filter: Option<&BooleanArray>) -> Result<Vec<ArrayRef>> {
        self.sums.convert_to_state(values, opt_filter)
    }

    fn size(&self) -> usize {
        self.sums.size() + size_of_val(self)
    }
}
