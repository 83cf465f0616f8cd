//! PERCENTILE(x, p): the value below which the share `p` of the rows lies, interpolated between two values by the exact
//! share.
//!
//! Doris and relatives of MySQL interpolate in DOUBLE. DataFusion truncates the share to six digits.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, Float64Array, ListArray};
use arrow::buffer::OffsetBuffer;
use arrow::datatypes::{DataType, Field, FieldRef, Float64Type, Schema};
use arrow::record_batch::RecordBatch;
use datafusion::common::{Result, ScalarValue, exec_err, internal_err, plan_err};
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::{AggregateOrderSensitivity, format_state_name};
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, ColumnarValue, EmitTo, GroupsAccumulator, Signature, Volatility,
};
use datafusion_functions_aggregate_common::aggregate::groups_accumulator::accumulate::accumulate;

use super::adapted::Adapted;
use super::args::counted;
use super::sorted::Sorted;
use crate::type_text::Sql;

/// Returns PERCENTILE, also as `PERCENTILE_CONT(p) WITHIN GROUP (ORDER BY x)`.
pub(super) fn function() -> Arc<AggregateUDF> {
    let signature = Signature::user_defined(Volatility::Immutable);
    let aliases = vec!["percentile".to_owned(), "quantile_cont".to_owned(), "percentile_reservoir".to_owned()];
    Adapted::new(Arc::new(AggregateUDF::new_from_impl(Percentile { signature, aliases })))
        .distinct_rows()
        .moves_itself()
        .udaf()
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Percentile {
    signature: Signature,
    aliases: Vec<String>,
}

/// A share from 0 to 1 as the exact fraction that is written: three times 0.6 is 1.8, but not in a DOUBLE.
#[derive(Debug, Clone, Copy)]
struct Share {
    part: u128,
    of: u128,
}

impl Share {
    /// Takes the shortest decimal number that reads back as this DOUBLE, cut to 18 places.
    fn new(share: f64) -> Option<Self> {
        if !(0.0..=1.0).contains(&share) {
            return None;
        }
        let text = format!("{share}");
        let (whole, places) = text.split_once('.').unwrap_or((&text, ""));
        let places = &places[..places.len().min(18)];
        let of = 10_u128.pow(places.len() as u32);
        let part = whole.parse::<u128>().ok()? * of + places.parse::<u128>().unwrap_or(0);
        Some(Share { part, of })
    }

    /// Returns the number of the value at or below the share, where `last` is the number of the last value, and the
    /// share's distance from it as a fraction.
    fn place(self, last: usize) -> (usize, f64) {
        let place = last as u128 * self.part;
        ((place / self.of) as usize, (place % self.of) as f64 / self.of as f64)
    }
}

/// Returns the constant share of a call; `None` if it is NULL.
fn share(args: &AccumulatorArgs) -> Result<Option<Share>> {
    let constant = args.exprs[1].evaluate(&RecordBatch::new_empty(Arc::new(Schema::empty())));
    let Ok(ColumnarValue::Scalar(ScalarValue::Float64(share))) = constant else {
        return exec_err!("percentile: the share must be a constant from 0 to 1");
    };
    let Some(number) = share else { return Ok(None) };
    let Some(share) = Share::new(number) else {
        return exec_err!("percentile: the share must be a constant from 0 to 1, found {number}");
    };
    match args.order_bys.first().is_some_and(|by| by.options.descending) {
        true => Ok(Some(Share { part: share.of - share.part, ..share })),
        false => Ok(Some(share)),
    }
}

impl AggregateUDFImpl for Percentile {
    fn name(&self) -> &str {
        "percentile_cont"
    }

    fn aliases(&self) -> &[String] {
        &self.aliases
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, arg_types: &[DataType]) -> Result<Vec<DataType>> {
        let [value, share] = arg_types else {
            return plan_err!("percentile takes a number and a share from 0 to 1, found {} arguments", arg_types.len());
        };
        let number = |t: &DataType| t.is_numeric() || t.is_string() || t.is_null() || *t == DataType::Boolean;
        match [value, share].into_iter().find(|t| !number(t)) {
            Some(other) => {
                plan_err!("percentile: expected a number, found {}; cast it to DOUBLE", Sql(other))
            }
            None => Ok(vec![DataType::Float64; 2]),
        }
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Float64)
    }

    fn state_fields(&self, args: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        Ok(vec![Arc::new(Field::new(format_state_name(args.name, "values"), list_type(), true))])
    }

    fn accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        Ok(Box::new(One { share: share(&args)?, values: Vec::new() }))
    }

    fn create_sliding_accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        Ok(Box::new(Frame { share: share(&args)?, values: Sorted::new(f64::total_cmp) }))
    }

    fn groups_accumulator_supported(&self, args: AccumulatorArgs) -> bool {
        !args.is_distinct
    }

    fn create_groups_accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn GroupsAccumulator>> {
        Ok(Box::new(Many { share: share(&args)?, values: Vec::new(), bytes: 0 }))
    }

    fn supports_within_group_clause(&self) -> bool {
        true
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        AggregateOrderSensitivity::Insensitive
    }
}

fn list_field() -> FieldRef {
    Arc::new(Field::new_list_field(DataType::Float64, true))
}

fn list_type() -> DataType {
    DataType::List(list_field())
}

/// Returns the value at the share of unsorted values, whose order is destroyed.
fn percentile(values: &mut [f64], share: Option<Share>) -> Option<f64> {
    let (below, part) = share?.place(values.len().checked_sub(1)?);
    let (_, low, rest) = values.select_nth_unstable_by(below, f64::total_cmp);
    let low = *low;
    Some(between(low, rest.iter().copied().min_by(f64::total_cmp), part))
}

/// Returns the value at a share of sorted values; `None` if there are no values.
///
/// # Errors
/// `Execution` if the share is not from 0 to 1.
pub(super) fn of_sorted(values: &[f64], share: f64) -> Result<Option<f64>> {
    let Some(exact) = Share::new(share) else {
        return exec_err!("percentile: the share must be a constant from 0 to 1, found {share}");
    };
    let place = values.len().checked_sub(1).map(|last| exact.place(last));
    Ok(place.map(|(below, part)| between(values[below], values.get(below + 1).copied(), part)))
}

/// Returns the place of the value at a share of `values` sorted values, at least one; of two values around the share the
/// second. `None` if the share is not from 0 to 1.
pub(super) fn discrete(values: usize, share: f64) -> Option<usize> {
    let (below, part) = Share::new(share)?.place(values.saturating_sub(1));
    Some(below + usize::from(part > 0.0))
}

/// Interpolates from `low` towards the next value by `part`.
fn between(low: f64, high: Option<f64>, part: f64) -> f64 {
    match high {
        Some(high) if part > 0.0 && high != low => low + (high - low) * part,
        _ => low,
    }
}

#[derive(Debug)]
struct One {
    share: Option<Share>,
    values: Vec<f64>,
}

impl Accumulator for One {
    fn update_batch(&mut self, columns: &[ArrayRef]) -> Result<()> {
        let values = columns[0].as_primitive::<Float64Type>();
        match values.null_count() {
            0 => self.values.extend_from_slice(values.values()),
            _ => self.values.extend(values.iter().flatten()),
        }
        Ok(())
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        states[0].as_list::<i32>().iter().flatten().try_for_each(|values| self.update_batch(&[values]))
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let offsets = OffsetBuffer::from_lengths([self.values.len()]);
        let values: ArrayRef = Arc::new(Float64Array::from(std::mem::take(&mut self.values)));
        Ok(vec![ScalarValue::List(Arc::new(ListArray::try_new(list_field(), offsets, values, None)?))])
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        Ok(ScalarValue::Float64(percentile(&mut self.values, self.share)))
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.values.capacity() * size_of::<f64>()
    }
}

/// The values of a moving frame.
#[derive(Debug)]
struct Frame {
    share: Option<Share>,
    values: Sorted<f64>,
}

impl Accumulator for Frame {
    fn update_batch(&mut self, columns: &[ArrayRef]) -> Result<()> {
        let values = columns[0].as_primitive::<Float64Type>();
        values.iter().flatten().for_each(|value| self.values.insert(value));
        Ok(())
    }

    fn retract_batch(&mut self, columns: &[ArrayRef]) -> Result<()> {
        let values = columns[0].as_primitive::<Float64Type>();
        match values.iter().flatten().all(|value| self.values.remove(&value)) {
            true => Ok(()),
            false => internal_err!("percentile: a value leaves a frame that it has not entered"),
        }
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let place = self.values.len().checked_sub(1).and_then(|last| Some(self.share?.place(last)));
        let value = place.and_then(|(below, part)| {
            let (low, high) = (self.values.get(below)?, self.values.get(below + 1));
            Some(between(low, high, part))
        });
        Ok(ScalarValue::Float64(value))
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        internal_err!("percentile: a moving frame has no partial states")
    }

    fn merge_batch(&mut self, _: &[ArrayRef]) -> Result<()> {
        internal_err!("percentile: a moving frame has no partial states")
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.values.size()
    }
}

#[derive(Debug)]
struct Many {
    share: Option<Share>,
    values: Vec<Vec<f64>>,
    /// The bytes of the values of all groups.
    bytes: usize,
}

impl Many {
    fn grow(bytes: &mut usize, values: &mut Vec<f64>, more: &[f64]) {
        let before = values.capacity();
        values.extend_from_slice(more);
        *bytes += (values.capacity() - before) * size_of::<f64>();
    }

    fn take(&mut self, emit_to: EmitTo) -> Vec<Vec<f64>> {
        let groups = emit_to.take_needed(&mut self.values);
        self.bytes -= groups.iter().map(|values| values.capacity() * size_of::<f64>()).sum::<usize>();
        groups
    }
}

impl GroupsAccumulator for Many {
    fn update_batch(
        &mut self,
        columns: &[ArrayRef],
        group_indices: &[usize],
        opt_filter: Option<&BooleanArray>,
        total_num_groups: usize,
    ) -> Result<()> {
        self.values.resize_with(total_num_groups, Vec::new);
        let (groups, bytes) = (&mut self.values, &mut self.bytes);
        accumulate(group_indices, columns[0].as_primitive::<Float64Type>(), opt_filter, |group, value| {
            Self::grow(bytes, &mut groups[group], &[value]);
        });
        Ok(())
    }

    fn merge_batch(&mut self, states: &[ArrayRef], group_indices: &[usize], total_num_groups: usize) -> Result<()> {
        self.values.resize_with(total_num_groups, Vec::new);
        for (values, group) in states[0].as_list::<i32>().iter().zip(group_indices) {
            if let Some(values) = values {
                let values = values.as_primitive::<Float64Type>().values();
                Self::grow(&mut self.bytes, &mut self.values[*group], values);
            }
        }
        Ok(())
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        let mut groups = self.take(emit_to);
        let found = groups.iter_mut().map(|values| percentile(values, self.share));
        Ok(Arc::new(found.collect::<Float64Array>()))
    }

    fn state(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        let groups = self.take(emit_to);
        let offsets = OffsetBuffer::from_lengths(groups.iter().map(Vec::len));
        let values: ArrayRef = Arc::new(Float64Array::from(groups.concat()));
        Ok(vec![Arc::new(ListArray::try_new(list_field(), offsets, values, None)?)])
    }

    fn convert_to_state(&self, columns: &[ArrayRef], opt_filter: Option<&BooleanArray>) -> Result<Vec<ArrayRef>> {
        let values = columns[0].as_primitive::<Float64Type>();
        let counted = counted(values.nulls(), opt_filter);
        let valid = |at: usize| counted.as_ref().is_none_or(|rows| rows.is_valid(at));
        let lengths = (0..values.len()).map(|at| usize::from(valid(at)));
        let offsets = OffsetBuffer::from_lengths(lengths);
        let kept = (0..values.len()).filter(|at| valid(*at)).map(|at| values.value(at)).collect::<Vec<f64>>();
        Ok(vec![Arc::new(ListArray::try_new(list_field(), offsets, Arc::new(Float64Array::from(kept)), None)?)])
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.bytes + self.values.capacity() * size_of::<Vec<f64>>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn between_two_values() {
        let of = |share: f64| percentile(&mut [5.0, 1.0, 4.0, 2.0], Share::new(share));
        assert_eq!(of(0.0), Some(1.0));
        assert_eq!(of(0.5), Some(3.0));
        assert_eq!(of(0.6), Some(3.6));
        assert_eq!(of(1.0), Some(5.0));
        assert_eq!(percentile(&mut [], Share::new(0.5)), None);
        assert_eq!(percentile(&mut [1.0], None), None);
        assert_eq!(percentile(&mut [1.0, 2.0], Share::new(1e-200)), Some(1.0));
        assert!(Share::new(f64::NAN).is_none() && Share::new(1.5).is_none() && Share::new(-0.5).is_none());
        assert_eq!(percentile(&mut [f64::INFINITY, f64::INFINITY, 1.0], Share::new(0.7)), Some(f64::INFINITY));
    }
}
