//! Aggregates under the names of Doris and MySQL. Most are DataFusion's own; MAX_BY and MIN_BY, and MAX and MIN of
//! nested values, are defined here.

use std::sync::{Arc, LazyLock};

use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::{DFSchema, ExprSchema, Result, ScalarValue, plan_err};
use datafusion::execution::FunctionRegistry;
use datafusion::functions_aggregate as df;
use datafusion::logical_expr::expr::{AggregateFunction, WindowFunction};
use datafusion::logical_expr::function::{AccumulatorArgs, AggregateFunctionSimplification, StateFieldsArgs};
use datafusion::logical_expr::simplify::SimplifyContext;
use datafusion::logical_expr::utils::AggregateOrderSensitivity;
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, Expr, ExprSchemable, GroupsAccumulator, ReversedUDAF, Signature,
    StatisticsArgs, Volatility, WindowFunctionDefinition,
};
use dipper_base::types::SqlType;

use super::adapted::{Adapted, Takes};
use super::extreme::{Best, BestRows, is_nested};
use super::kept::can_keep;
use super::sketch_aggregate::bitmap_union_count;
use super::{bit_aggregates, float_extreme, moments, ordered, percentile};
use crate::metadata::TYPE_KEY;

/// Registers the aggregates of this file.
///
/// # Errors
/// The registry's error if it refuses a function.
pub fn register(registry: &mut dyn FunctionRegistry) -> Result<()> {
    let known: [(Adapted, &'static [&'static str]); 12] = [
        (
            Adapted::new(df::approx_distinct::approx_distinct_udaf()).takes(Takes::FloatAsText),
            &[
                "ndv",
                "approx_count_distinct",
                "approx_count_distinct_hll_sketch",
                "ds_hll_count_distinct",
                "ds_theta_count_distinct",
            ],
        ),
        (Adapted::new(df::any_value::any_value_udaf()), &["any"]),
        (Adapted::new(df::first_last::first_value_udaf()), &[]),
        (Adapted::new(df::first_last::last_value_udaf()), &[]),
        (Adapted::new(df::array_agg::array_agg_udaf()).moves_itself().sorts_itself().empty_list(), &[]),
        (Adapted::new(df::string_agg::string_agg_udaf()).sorts_itself(), &["group_concat"]),
        (Adapted::new(df::approx_percentile_cont::approx_percentile_cont_udaf()), &["percentile_approx"]),
        (Adapted::new(df::approx_percentile_cont_with_weight::approx_percentile_cont_with_weight_udaf()), &[]),
        (Adapted::new(df::approx_median::approx_median_udaf()), &[]),
        (Adapted::new(df::median::median_udaf()).keeps_order(), &[]),
        (Adapted::new(df::bool_and_or::bool_or_udaf()).takes(Takes::Boolean), &["boolor_agg"]),
        (Adapted::new(df::bool_and_or::bool_and_udaf()).takes(Takes::Boolean), &["booland_agg"]),
    ];
    for (function, names) in known {
        registry.register_udaf(function.named(names).udaf())?;
    }
    for (function, names) in bit_aggregates::functions() {
        registry.register_udaf(Adapted::new(function).distinct_rows().named(names).udaf())?;
    }
    registry.register_udaf(Adapted::new(df::regr::regr_count_udaf()).distinct_rows().udaf())?;
    for function in moments::functions() {
        registry.register_udaf(function)?;
    }
    registry.register_udaf(percentile::function())?;
    registry.register_udaf(ordered::in_order())?;
    for greatest in [true, false] {
        let by = AggregateUDF::new_from_impl(ExtremeBy::new(greatest));
        registry.register_udaf(Adapted::new(Arc::new(by)).udaf())?;
        registry.register_udaf(Arc::new(AggregateUDF::new_from_impl(Extreme::new(greatest))))?;
    }
    Ok(())
}

/// Whether an aggregate or window function over texts returns one of them, not another text that it makes.
pub(crate) fn returns_its_input(name: &str) -> bool {
    matches!(
        name,
        "min"
            | "max"
            | "min_by"
            | "max_by"
            | "any_value"
            | "first_value"
            | "last_value"
            | "nth_value"
            | "lag"
            | "lead"
            | "percentile_disc"
    )
}

/// Returns FIRST_VALUE as an aggregate.
pub(crate) fn first_value() -> Arc<AggregateUDF> {
    Adapted::new(df::first_last::first_value_udaf()).udaf()
}

/// Returns LAST_VALUE as an aggregate.
pub fn last_value() -> Arc<AggregateUDF> {
    Adapted::new(df::first_last::last_value_udaf()).udaf()
}

/// Returns COUNT for `COUNT(DISTINCT ...)` of any type, and of rows of several columns.
pub(crate) fn count_distinct() -> Arc<AggregateUDF> {
    static FUNCTION: LazyLock<Arc<AggregateUDF>> =
        LazyLock::new(|| Arc::new(AggregateUDF::new_from_impl(CountDistinct { inner: df::count::count_udaf() })));
    Arc::clone(&FUNCTION)
}

/// MAX_BY(value, key), MIN_BY(value, key): the value of a row with the greatest or least key; rows with a NULL key are
/// ignored.
#[derive(Debug, PartialEq, Eq, Hash)]
struct ExtremeBy {
    greatest: bool,
    signature: Signature,
}

impl ExtremeBy {
    fn new(greatest: bool) -> Self {
        ExtremeBy { greatest, signature: Signature::any(2, Volatility::Immutable) }
    }
}

impl AggregateUDFImpl for ExtremeBy {
    fn name(&self) -> &str {
        if self.greatest { "max_by" } else { "min_by" }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arg_types: &[DataType]) -> Result<DataType> {
        match arg_types {
            [_, DataType::Map(..)] => plan_err!(
                "{} does not take a MAP as its key: maps have no order; take map_keys(m) or map_values(m)",
                self.name()
            ),
            [value, _] => Ok(value.clone()),
            other => plan_err!("{} takes 2 arguments, found {}", self.name(), other.len()),
        }
    }

    fn state_fields(&self, args: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        let field = |name: &str, from: &FieldRef| {
            Arc::new(Field::new(format!("{}[{name}]", args.name), from.data_type().clone(), true)) as FieldRef
        };
        Ok(vec![field("value", &args.input_fields[0]), field("key", &args.input_fields[1])])
    }

    fn accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        let types = |at: usize| args.expr_fields[at].data_type().clone();
        Ok(Box::new(Best::by(self.greatest, types(0), types(1))))
    }

    fn groups_accumulator_supported(&self, args: AccumulatorArgs) -> bool {
        args.expr_fields.iter().all(|field| can_keep(std::slice::from_ref(field.data_type())))
    }

    fn create_groups_accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn GroupsAccumulator>> {
        let types = |at: usize| args.expr_fields[at].data_type().clone();
        Ok(Box::new(BestRows::by(self.greatest, types(0), types(1))?))
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        AggregateOrderSensitivity::Insensitive
    }
}

/// MAX and MIN: DataFusion's functions, extended to nested values.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Extreme {
    greatest: bool,
    inner: Arc<AggregateUDF>,
}

impl Extreme {
    fn new(greatest: bool) -> Self {
        let inner = if greatest { df::min_max::max_udaf() } else { df::min_max::min_udaf() };
        Extreme { greatest, inner }
    }
}

impl AggregateUDFImpl for Extreme {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn aliases(&self) -> &[String] {
        self.inner.aliases()
    }

    fn signature(&self) -> &Signature {
        self.inner.signature()
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        match types {
            [DataType::Map(..)] => plan_err!(
                "{} does not take a MAP: maps have no order; take {}(map_keys(m)) or {}(map_values(m))",
                self.name(),
                self.name(),
                self.name()
            ),
            _ => self.inner.coerce_types(types),
        }
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        self.inner.return_type(types)
    }

    fn state_fields(&self, args: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        self.inner.state_fields(args)
    }

    fn accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        match args.return_field.data_type() {
            nested if is_nested(nested) => Ok(Box::new(Best::of(self.greatest, nested.clone()))),
            plain => match float_extreme::accumulator(self.greatest, plain) {
                Some(own) => Ok(own),
                None => self.inner.accumulator(args),
            },
        }
    }

    fn groups_accumulator_supported(&self, args: AccumulatorArgs) -> bool {
        match args.return_field.data_type() {
            nested if is_nested(nested) => can_keep(std::slice::from_ref(nested)),
            _ => self.inner.groups_accumulator_supported(args),
        }
    }

    fn create_groups_accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn GroupsAccumulator>> {
        match args.return_field.data_type() {
            nested if is_nested(nested) => Ok(Box::new(BestRows::of(self.greatest, nested.clone())?)),
            plain => match float_extreme::groups(self.greatest, plain) {
                Some(own) => Ok(own),
                None => self.inner.create_groups_accumulator(args),
            },
        }
    }

    fn create_sliding_accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        match args.return_field.data_type() {
            nested if is_nested(nested) => {
                let own = AggregateUDF::new_from_impl(Extreme::new(self.greatest));
                Ok(super::moving::moving(&Arc::new(own), &args))
            }
            _ => self.inner.create_sliding_accumulator(args),
        }
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        self.inner.order_sensitivity()
    }

    fn reverse_expr(&self) -> ReversedUDAF {
        ReversedUDAF::Identical
    }

    fn is_descending(&self) -> Option<bool> {
        self.inner.is_descending()
    }

    fn value_from_stats(&self, args: &StatisticsArgs) -> Option<ScalarValue> {
        self.inner.value_from_stats(args)
    }
}

/// COUNT(DISTINCT ...): DataFusion's function for one column that is not nested; for all others the distinct rows are
/// kept here.
#[derive(Debug, PartialEq, Eq, Hash)]
struct CountDistinct {
    inner: Arc<AggregateUDF>,
}

/// Whether DataFusion counts the columns' values without keeping the arrays that they come from.
fn counts_well(fields: &[FieldRef]) -> bool {
    matches!(fields, [field] if !field.data_type().is_nested())
}

impl AggregateUDFImpl for CountDistinct {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn signature(&self) -> &Signature {
        self.inner.signature()
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        self.inner.return_type(types)
    }

    fn is_nullable(&self) -> bool {
        self.inner.is_nullable()
    }

    fn state_fields(&self, args: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        match args.is_distinct && !counts_well(args.input_fields) {
            true => Ok(super::distinct::state_fields(&args)),
            false => self.inner.state_fields(args),
        }
    }

    fn accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        match args.is_distinct && !counts_well(args.expr_fields) {
            true => super::distinct::accumulator(&self.inner, &args),
            false => self.inner.accumulator(args),
        }
    }

    fn groups_accumulator_supported(&self, args: AccumulatorArgs) -> bool {
        self.inner.groups_accumulator_supported(args)
    }

    fn create_groups_accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn GroupsAccumulator>> {
        self.inner.create_groups_accumulator(args)
    }

    fn create_sliding_accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        match args.is_distinct && !counts_well(args.expr_fields) {
            true => super::distinct::counts_of_frames(&args),
            false => self.inner.create_sliding_accumulator(args),
        }
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        self.inner.order_sensitivity()
    }

    fn reverse_expr(&self) -> ReversedUDAF {
        ReversedUDAF::Identical
    }

    /// The distinct members of BITMAP values are the members of their union.
    fn simplify(&self) -> Option<AggregateFunctionSimplification> {
        Some(Box::new(|mut call: AggregateFunction, info: &SimplifyContext| {
            if call.params.distinct && is_bitmap(&call.params.args, info.schema())? {
                call.func = bitmap_union_count();
                call.params.distinct = false;
            }
            Ok(Expr::AggregateFunction(call))
        }))
    }

    fn default_value(&self, data_type: &DataType) -> Result<ScalarValue> {
        self.inner.default_value(data_type)
    }

    fn value_from_stats(&self, args: &StatisticsArgs) -> Option<ScalarValue> {
        self.inner.value_from_stats(args)
    }
}

/// Whether a call has one argument of type BITMAP.
fn is_bitmap(arguments: &[Expr], schema: &dyn ExprSchema) -> Result<bool> {
    let [argument] = arguments else { return Ok(false) };
    match argument {
        Expr::Alias(alias) => is_bitmap(std::slice::from_ref(&alias.expr), schema),
        // The field of a CASE does not carry the SQL type.
        Expr::Case(case) => {
            let values = case.when_then_expr.iter().map(|(_, then)| &**then).chain(case.else_expr.as_deref());
            let mut found = false;
            for value in values.filter(|value| !matches!(value, Expr::Literal(value, _) if value.is_null())) {
                if !is_bitmap(std::slice::from_ref(value), schema)? {
                    return Ok(false);
                }
                found = true;
            }
            Ok(found)
        }
        other => {
            let (_, field) = other.to_field(schema)?;
            Ok(field.metadata().get(TYPE_KEY).is_some_and(|name| *name == SqlType::Bitmap.to_string()))
        }
    }
}

/// Rewrites `COUNT(DISTINCT bitmap) OVER (...)` like [`CountDistinct`] is simplified, since DataFusion does not
/// simplify window functions.
///
/// # Errors
/// A planning error if the argument has no type.
pub(crate) fn members_of_frames(mut function: Box<WindowFunction>, schema: &DFSchema) -> Result<Box<WindowFunction>> {
    if function.params.distinct
        && matches!(&function.fun, WindowFunctionDefinition::AggregateUDF(of) if of.name() == "count")
        && is_bitmap(&function.params.args, schema)?
    {
        function.fun = WindowFunctionDefinition::AggregateUDF(bitmap_union_count());
        function.params.distinct = false;
    }
    Ok(function)
}
