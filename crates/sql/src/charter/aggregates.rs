//! SUM and AVG with Doris's result types.
//!
//! | argument | SUM | AVG |
//! |---|---|---|
//! | integers | BIGINT | DOUBLE |
//! | LARGEINT | LARGEINT | DOUBLE |
//! | DECIMAL(p, s) | DECIMAL(38, s) | DECIMAL(38, max(s, 4)) |
//! | floats, text | DOUBLE | DOUBLE |
//! | BOOLEAN | BIGINT | DOUBLE |
//!
//! (`Sum.java`, `Avg.java` of Doris's planner.) A sum of integers or decimals that leaves its type is an error
//! ([`super::checked_sum`]), and an average of them comes from the exact sum ([`super::checked_avg`]). Over floats the
//! work is DataFusion's own, and each moving frame is computed from scratch.

use arrow::datatypes::{DataType, FieldRef};
use datafusion::common::Result;
use datafusion::logical_expr::expr::AggregateFunction;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::AggregateOrderSensitivity;
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, Cast, Expr, GroupsAccumulator, Operator, ReversedUDAF, Signature,
    Volatility,
};
use std::sync::Arc;

use super::{checked_avg, checked_sum};
use crate::class::Class;
use crate::functions::{distinct, is_bytes, moving};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Kind {
    Sum,
    Avg,
}

/// SUM or AVG as a wrapper of DataFusion's function.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Typed {
    kind: Kind,
    inner: Arc<AggregateUDF>,
    signature: Signature,
}

/// SUM with Doris's types.
pub fn sum() -> Arc<AggregateUDF> {
    typed(Kind::Sum, datafusion::functions_aggregate::sum::sum_udaf())
}

/// AVG with Doris's types.
pub fn avg() -> Arc<AggregateUDF> {
    typed(Kind::Avg, datafusion::functions_aggregate::average::avg_udaf())
}

fn typed(kind: Kind, inner: Arc<AggregateUDF>) -> Arc<AggregateUDF> {
    let signature = Signature::user_defined(Volatility::Immutable);
    Arc::new(AggregateUDF::new_from_impl(Typed { kind, inner, signature }))
}

/// Replaces an integer that is widened twice by one that is widened once. Column names leave casts out, so the `SUM(x)`
/// that is split off from `SUM(x + 1)` and a written `SUM(x)` must be the same expression, or the plan has two columns
/// of one name.
fn one_cast(expr: &Expr) -> Expr {
    let width = |t: &DataType| t.is_signed_integer().then(|| t.primitive_width()).flatten();
    if let Expr::Cast(outer) = expr
        && let Expr::Cast(inner) = outer.expr.as_ref()
        && let (Some(wide), Some(narrow)) = (width(outer.field.data_type()), width(inner.field.data_type()))
        && wide >= narrow
    {
        return one_cast(&Expr::Cast(Cast { expr: inner.expr.clone(), field: outer.field.clone() }));
    }
    expr.clone()
}

impl Typed {
    fn udaf(&self) -> Arc<AggregateUDF> {
        Arc::new(AggregateUDF::new_from_impl(self.clone()))
    }

    /// Whether the average is computed from the exact sum.
    fn is_exact(&self, fields: &[FieldRef]) -> bool {
        self.kind == Kind::Avg && fields.first().is_some_and(|field| checked_avg::is_exact(field.data_type()))
    }

    /// Whether SUM must detect overflow here, where DataFusion's own sum would wrap.
    fn is_checked(&self, return_field: &FieldRef) -> bool {
        self.kind == Kind::Sum && checked_sum::is_checked(return_field.data_type())
    }
}

// `value_from_stats` is not forwarded: statistics add decimals beyond the digits of their type, where SUM ends with an
// error.
impl AggregateUDFImpl for Typed {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, arg_types: &[DataType]) -> Result<Vec<DataType>> {
        let [t] = arg_types else {
            return datafusion::common::plan_err!("{} takes one argument, found {}", self.name(), arg_types.len());
        };
        let double = DataType::Float64;
        let coerced = match (Class::of(t), self.kind) {
            // 128 bits hold sums of 38 digits, whatever the argument's precision is.
            (Class::Decimal(_, s, false), Kind::Sum) => DataType::Decimal128(38, s),
            (Class::Decimal(p, s, false), Kind::Avg) => DataType::Decimal128(p, s),
            (Class::Decimal(p, s, true), _) => DataType::Decimal256(p, s),
            (Class::Int(_) | Class::Boolean | Class::Null, Kind::Sum) => DataType::Int64,
            (Class::UInt64, _) => DataType::UInt64,
            (Class::Int(_) | Class::Boolean, Kind::Avg) => DataType::Int64,
            (Class::Float | Class::Text | Class::Null, _) => double,
            // Refused as a result: the planner would put its own words around an error of this function.
            _ if is_bytes(t) => t.clone(),
            (Class::Interval | Class::Other, _) => return self.inner.coerce_types(arg_types),
            (Class::Time, _) => {
                return datafusion::common::plan_err!(
                    "{} does not take a TIME; time_to_sec(x) is a number of seconds",
                    self.name()
                );
            }
            (Class::Date | Class::DateTime, _) => {
                return datafusion::common::plan_err!(
                    "{} does not take a date or datetime; cast it to a number",
                    self.name()
                );
            }
        };
        Ok(vec![coerced])
    }

    fn return_type(&self, arg_types: &[DataType]) -> Result<DataType> {
        match (self.kind, &arg_types[0]) {
            (Kind::Avg, DataType::Decimal128(_, s)) => Ok(DataType::Decimal128(38, (*s).max(4))),
            // LARGEINT, an integer.
            (Kind::Avg, DataType::Decimal256(39, 0)) => Ok(DataType::Float64),
            (Kind::Avg, DataType::Decimal256(_, s)) => Ok(DataType::Decimal256(76, (*s).max(4))),
            (Kind::Avg, DataType::Int64 | DataType::UInt64) => Ok(DataType::Float64),
            (Kind::Sum, large @ DataType::Decimal256(39, 0)) => Ok(large.clone()),
            (_, t) if is_bytes(t) => datafusion::common::not_impl_err!(
                "{}: BINARY is not supported as a number: CAST(x AS STRING) is text, which counts as one",
                self.name()
            ),
            _ => self.inner.return_type(arg_types),
        }
    }

    fn accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        if self.is_exact(args.expr_fields) {
            return match args.is_distinct {
                true => distinct::accumulator(&self.udaf(), &args),
                false => checked_avg::one(args.expr_fields[0].data_type(), args.return_field.data_type()),
            };
        }
        if self.is_checked(&args.return_field) {
            let data_type = args.return_field.data_type().clone();
            return match args.is_distinct {
                true => Ok(checked_sum::distinct(self.inner.accumulator(args)?, &data_type)),
                false => checked_sum::one(&data_type),
            };
        }
        self.inner.accumulator(args)
    }

    fn state_fields(&self, args: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        if self.is_checked(&args.return_field) && !args.is_distinct {
            return Ok(checked_sum::state_fields(args.name, args.return_field.data_type()));
        }
        if self.is_exact(args.input_fields) {
            return Ok(match args.is_distinct {
                true => distinct::state_fields(&args),
                false => checked_avg::state_fields(args.name, args.input_fields[0].data_type()),
            });
        }
        self.inner.state_fields(args)
    }

    fn groups_accumulator_supported(&self, args: AccumulatorArgs) -> bool {
        match self.is_exact(args.expr_fields) {
            true => !args.is_distinct,
            false => self.inner.groups_accumulator_supported(args),
        }
    }

    fn create_groups_accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn GroupsAccumulator>> {
        if self.is_checked(&args.return_field) {
            return checked_sum::groups(args.return_field.data_type());
        }
        if self.is_exact(args.expr_fields) {
            return checked_avg::groups(args.expr_fields[0].data_type(), args.return_field.data_type());
        }
        self.inner.create_groups_accumulator(args)
    }

    fn create_sliding_accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        if self.is_checked(&args.return_field) {
            let data_type = args.return_field.data_type().clone();
            return match args.is_distinct {
                // DataFusion's set of values that come and go has numbers of 64 bits only.
                true if *args.expr_fields[0].data_type() != DataType::Int64 => Ok(moving::moving(&self.udaf(), &args)),
                true => Ok(checked_sum::distinct(self.inner.create_sliding_accumulator(args)?, &data_type)),
                false => checked_sum::one(&data_type),
            };
        }
        if self.is_exact(args.expr_fields) && !args.is_distinct {
            return self.accumulator(args);
        }
        Ok(moving::moving(&self.udaf(), &args))
    }

    fn reverse_expr(&self) -> ReversedUDAF {
        ReversedUDAF::Identical
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        AggregateOrderSensitivity::Insensitive
    }

    fn simplify_expr_op_literal(
        &self,
        agg_function: &AggregateFunction,
        arg: &Expr,
        op: Operator,
        lit: &Expr,
        arg_is_left: bool,
    ) -> Result<Option<Expr>> {
        self.inner.simplify_expr_op_literal(agg_function, &one_cast(arg), op, lit, arg_is_left)
    }
}
