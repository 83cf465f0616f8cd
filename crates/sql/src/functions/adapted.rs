//! Additions of dipper to aggregates, its own and DataFusion's: moving frames, DISTINCT, and an ORDER BY for which each
//! aggregate sorts by itself.
//!
//! DataFusion sorts the input of all aggregates of a SELECT once. So it refuses two aggregates that want different
//! orders, and of two with opposite orders it reverses one. The DISTINCT form of an aggregate ignores that reversal and
//! returns the other aggregate's order. The accumulators sort their values anyway.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, ListArray};
use arrow::datatypes::{DataType, FieldRef};
use datafusion::common::{Result, ScalarValue, plan_err};
use datafusion::logical_expr::function::{AccumulatorArgs, AggregateFunctionSimplification, StateFieldsArgs};
use datafusion::logical_expr::utils::AggregateOrderSensitivity;
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, EmitTo, GroupsAccumulator, ReversedUDAF, Signature, StatisticsArgs,
    Volatility,
};

use super::distinct;
use super::moving::moving;
use super::owned::{Owned, OwnedGroups};
use super::sorted::median_frame;
use super::window_memory::charged;

/// An aggregate, and what is added to it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Adapted {
    inner: Arc<AggregateUDF>,
    sorts_itself: bool,
    distinct_rows: bool,
    frames: Frames,
    empty_list: bool,
    /// The types of the arguments, where they differ from those of the aggregate itself.
    takes: Option<(Takes, Signature)>,
    aliases: Vec<String>,
}

/// The way in which moving frames are computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Frames {
    /// The accumulator of all rows, computed from scratch for each row.
    Anew,
    /// The function's own sliding accumulator.
    Own,
    /// By the values kept in their order.
    Median,
}

/// The conversion of an aggregate's only argument.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Takes {
    /// To BOOLEAN, like CAST.
    Boolean,
    /// To text if it is a float; other types stay.
    FloatAsText,
}

impl Takes {
    fn coerce(self, name: &str, types: &[DataType]) -> Result<Vec<DataType>> {
        let [given] = types else {
            return plan_err!("{name} takes one argument, found {}", types.len());
        };
        Ok(vec![match self {
            Takes::Boolean => DataType::Boolean,
            Takes::FloatAsText if given.is_floating() => DataType::Utf8View,
            Takes::FloatAsText => given.clone(),
        }])
    }
}

impl Adapted {
    /// Wraps `function`, computing moving frames from scratch for each row.
    pub(super) fn new(function: Arc<AggregateUDF>) -> Self {
        Adapted {
            aliases: function.aliases().to_vec(),
            inner: function,
            sorts_itself: false,
            distinct_rows: false,
            frames: Frames::Anew,
            empty_list: false,
            takes: None,
        }
    }

    /// Declares that the accumulator sorts its values by the ORDER BY, whatever order they come in, so sorted input is
    /// not required.
    pub(super) fn sorts_itself(self) -> Self {
        Adapted { sorts_itself: true, ..self }
    }

    /// Gives the accumulator the distinct rows, for a function that does not implement DISTINCT.
    pub(super) fn distinct_rows(self) -> Self {
        Adapted { distinct_rows: true, ..self }
    }

    /// Declares that the function's sliding accumulator can retract rows exactly: it counts, or keeps the rows.
    pub(super) fn moves_itself(self) -> Self {
        Adapted { frames: Frames::Own, ..self }
    }

    /// Marks MEDIAN, whose moving frames keep the values in their order.
    pub(super) fn keeps_order(self) -> Self {
        Adapted { frames: Frames::Median, ..self }
    }

    /// Makes the result of no rows `[]` instead of NULL.
    pub(super) fn empty_list(self) -> Self {
        Adapted { empty_list: true, ..self }
    }

    /// Replaces the function's aliases: a name that has moved to another function would otherwise come back.
    /// (DataFusion's `with_aliases` loses sliding accumulators.)
    pub(super) fn named(self, aliases: &[&str]) -> Self {
        Adapted { aliases: aliases.iter().map(|alias| (*alias).to_owned()).collect(), ..self }
    }

    /// Converts arguments that are not of the type that the aggregate takes.
    pub(super) fn takes(self, takes: Takes) -> Self {
        Adapted { takes: Some((takes, Signature::user_defined(Volatility::Immutable))), ..self }
    }

    /// Returns the aggregate.
    pub(super) fn udaf(self) -> Arc<AggregateUDF> {
        Arc::new(AggregateUDF::new_from_impl(self))
    }
}

impl AggregateUDFImpl for Adapted {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn aliases(&self) -> &[String] {
        &self.aliases
    }

    fn signature(&self) -> &Signature {
        self.takes.as_ref().map_or(self.inner.signature(), |(_, signature)| signature)
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        self.inner.return_type(types)
    }

    fn return_field(&self, fields: &[FieldRef]) -> Result<FieldRef> {
        self.inner.return_field(fields)
    }

    fn is_nullable(&self) -> bool {
        self.inner.is_nullable()
    }

    fn accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        let one = match self.distinct_rows && args.is_distinct {
            true => distinct::accumulator(&self.inner, &args)?,
            false => self.inner.accumulator(args)?,
        };
        let one = Box::new(Owned(one));
        Ok(charged(if self.empty_list { Box::new(NeverNull(one)) } else { one }))
    }

    fn state_fields(&self, args: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        match self.distinct_rows && args.is_distinct {
            true => Ok(distinct::state_fields(&args)),
            false => self.inner.state_fields(args),
        }
    }

    fn groups_accumulator_supported(&self, args: AccumulatorArgs) -> bool {
        !(self.distinct_rows && args.is_distinct) && self.inner.groups_accumulator_supported(args)
    }

    fn create_groups_accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn GroupsAccumulator>> {
        let groups = Box::new(OwnedGroups(self.inner.create_groups_accumulator(args)?));
        Ok(if self.empty_list { Box::new(NeverNullGroups(groups)) } else { groups })
    }

    fn create_sliding_accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        let one = match self.frames {
            Frames::Own if !(self.distinct_rows && args.is_distinct) => {
                Some(self.inner.create_sliding_accumulator(args.clone())?)
            }
            Frames::Median if !args.is_distinct => median_frame(&self.inner, &args),
            _ => None,
        };
        match one {
            Some(one) => Ok(charged(if self.empty_list { Box::new(NeverNull(one)) } else { one })),
            None => Ok(moving(&self.clone().udaf(), &args)),
        }
    }

    // "Insensitive" would let the optimizer remove the ORDER BY.
    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        match self.sorts_itself {
            true => AggregateOrderSensitivity::Beneficial,
            false => self.inner.order_sensitivity(),
        }
    }

    fn with_beneficial_ordering(self: Arc<Self>, sorted: bool) -> Result<Option<Arc<dyn AggregateUDFImpl>>> {
        if self.sorts_itself {
            return Ok(Some(self));
        }
        let inner = self.inner.as_ref().clone().with_beneficial_ordering(sorted)?;
        Ok(inner.map(|inner| Arc::new(Adapted { inner: Arc::new(inner), ..Adapted::clone(&self) }) as _))
    }

    fn simplify(&self) -> Option<AggregateFunctionSimplification> {
        self.inner.simplify()
    }

    fn reverse_expr(&self) -> ReversedUDAF {
        match self.inner.reverse_udf() {
            ReversedUDAF::Identical => ReversedUDAF::Identical,
            ReversedUDAF::NotSupported => ReversedUDAF::NotSupported,
            ReversedUDAF::Reversed(_) if self.sorts_itself => ReversedUDAF::NotSupported,
            ReversedUDAF::Reversed(inner) => ReversedUDAF::Reversed(Adapted { inner, ..self.clone() }.udaf()),
        }
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        match &self.takes {
            Some((takes, _)) => takes.coerce(self.name(), types),
            None => self.inner.coerce_types(types),
        }
    }

    fn is_descending(&self) -> Option<bool> {
        self.inner.is_descending()
    }

    fn value_from_stats(&self, args: &StatisticsArgs) -> Option<ScalarValue> {
        self.inner.value_from_stats(args)
    }

    fn default_value(&self, data_type: &DataType) -> Result<ScalarValue> {
        let value = self.inner.default_value(data_type)?;
        if self.empty_list { never_null(value) } else { Ok(value) }
    }

    fn supports_null_handling_clause(&self) -> bool {
        self.inner.supports_null_handling_clause()
    }

    fn supports_within_group_clause(&self) -> bool {
        self.inner.supports_within_group_clause()
    }
}

/// Replaces lists that are NULL by `[]`.
fn without_nulls(lists: &ArrayRef) -> Result<ArrayRef> {
    let Some(lists) = lists.as_list_opt::<i32>().filter(|lists| lists.null_count() > 0) else {
        return Ok(Arc::clone(lists));
    };
    let mut elements = Vec::with_capacity(lists.len());
    for list in lists.iter() {
        elements.push(list.unwrap_or_else(|| lists.values().slice(0, 0)));
    }
    let offsets = arrow::buffer::OffsetBuffer::from_lengths(elements.iter().map(|list| list.len()));
    let elements: Vec<&dyn Array> = elements.iter().map(AsRef::as_ref).collect();
    let DataType::List(field) = lists.data_type() else { return Ok(Arc::new(lists.clone())) };
    Ok(Arc::new(ListArray::try_new(Arc::clone(field), offsets, arrow::compute::concat(&elements)?, None)?))
}

fn never_null(value: ScalarValue) -> Result<ScalarValue> {
    match value.is_null() {
        true => ScalarValue::try_from_array(&without_nulls(&value.to_array()?)?, 0),
        false => Ok(value),
    }
}

#[derive(Debug)]
struct NeverNull(Box<dyn Accumulator>);

impl Accumulator for NeverNull {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.0.update_batch(values)
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.0.merge_batch(states)
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        self.0.state()
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        never_null(self.0.evaluate()?)
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

struct NeverNullGroups(Box<dyn GroupsAccumulator>);

impl GroupsAccumulator for NeverNullGroups {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        group_indices: &[usize],
        opt_filter: Option<&BooleanArray>,
        total_num_groups: usize,
    ) -> Result<()> {
        self.0.update_batch(values, group_indices, opt_filter, total_num_groups)
    }

    fn merge_batch(&mut self, states: &[ArrayRef], group_indices: &[usize], total_num_groups: usize) -> Result<()> {
        self.0.merge_batch(states, group_indices, total_num_groups)
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        without_nulls(&self.0.evaluate(emit_to)?)
    }

    fn state(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        self.0.state(emit_to)
    }

    fn convert_to_state(&self, values: &[ArrayRef], opt_filter: Option<&BooleanArray>) -> Result<Vec<ArrayRef>> {
        self.0.convert_to_state(values, opt_filter)
    }

    fn size(&self) -> usize {
        self.0.size()
    }
}
