//! Operators with MySQL's types, planned before DataFusion's own coercion sees them.
//!
//! | operands | `+ - *` | `/` | `DIV` | `%` |
//! |---|---|---|---|---|
//! | integers, LARGEINT too | next wider integer; BIGINT, LARGEINT checked | DOUBLE | BIGINT, LARGEINT | integer |
//! | a decimal, no float | decimal | decimal, scale of the dividend + 4 | BIGINT | decimal |
//! | a float, a string | DOUBLE | DOUBLE | BIGINT | DOUBLE |
//!
//! BIGINT and LARGEINT keep their type in `+ - *`, and a result beyond it is an error. A zero divisor gives NULL.
//! Doris: `int / int` is double, `tinyint + tinyint` smallint, and so on up to bigint (`Add.java`, `Divide.java` of its
//! planner); a literal counts as the narrowest type that holds it. MySQL would make `int / int` a decimal; here Doris's
//! rule holds.

use std::sync::Arc;

use arrow::datatypes::{DECIMAL128_MAX_PRECISION, DECIMAL256_MAX_PRECISION, DataType, Field, FieldRef, IntervalUnit};
use datafusion::common::{
    Column, DFSchema, Result, ScalarValue, TableReference, not_impl_err, plan_datafusion_err, plan_err,
};
use datafusion::logical_expr::expr::{BinaryExpr, Cast, NullTreatment, ScalarFunction};
use datafusion::logical_expr::planner::{
    ExprPlanner, PlannerResult, RawAggregateExpr, RawBinaryExpr, RawFieldAccessExpr, RawWindowExpr,
};
use datafusion::logical_expr::{
    Expr, ExprSchemable, GetFieldAccess, Operator, ScalarUDF, WindowFunctionDefinition, lit,
};
use sqlparser::ast::BinaryOperator;

use super::checked::{Checked, CheckedOp};
use super::terms::{binary, cast_to, int_literal};
use super::{chain, common_args, compare, declared, mixed, text};
use crate::class::{Class, DATETIME, LARGEINT_CLASS, TIME};
use crate::functions::datetime;
use crate::functions::decimals::{is_wide_product, is_wide_quotient};
use crate::functions::whole::LARGEINT;
use crate::functions::{Operators, element_at_udf, is_bytes, is_combined, json_value_udf, map_udf};
use crate::type_text::Sql;

/// The planner hook of the charter for operators, aggregates and other expressions.
#[derive(Debug)]
pub struct CharterPlanner {
    add: Arc<ScalarUDF>,
    subtract: Arc<ScalarUDF>,
    multiply: Arc<ScalarUDF>,
    operators: Operators,
    element: Arc<ScalarUDF>,
    json: Arc<ScalarUDF>,
    array: Arc<ScalarUDF>,
}

impl Default for CharterPlanner {
    fn default() -> Self {
        let checked = |op| Arc::new(ScalarUDF::new_from_impl(Checked::new(op)));
        CharterPlanner {
            add: checked(CheckedOp::Add),
            subtract: checked(CheckedOp::Subtract),
            multiply: checked(CheckedOp::Multiply),
            operators: Operators::default(),
            element: Arc::new(element_at_udf()),
            json: Arc::new(json_value_udf()),
            array: common_args::make_array(),
        }
    }
}

/// Returns the bits with which an operand counts: a literal counts as the narrowest type that holds it.
fn bits(expr: &Expr, declared: u32) -> u32 {
    match int_literal(expr) {
        Some(n) if i8::try_from(n).is_ok() => 8,
        Some(n) if i16::try_from(n).is_ok() => 16,
        Some(n) if i32::try_from(n).is_ok() => 32,
        _ => declared,
    }
}

fn int_type(bits: u32) -> DataType {
    match bits {
        0..=8 => DataType::Int8,
        9..=16 => DataType::Int16,
        17..=32 => DataType::Int32,
        _ => DataType::Int64,
    }
}

/// Returns the decimal type that holds every integer of this many bits.
fn int_decimal(bits: u32) -> DataType {
    match bits {
        0..=8 => DataType::Decimal128(3, 0),
        9..=16 => DataType::Decimal128(5, 0),
        17..=32 => DataType::Decimal128(10, 0),
        _ => DataType::Decimal128(20, 0),
    }
}

/// Returns the divisor with zero replaced by NULL. A literal needs no test at run time.
fn divisor(expr: Expr, t: &DataType) -> Expr {
    let zero = match t {
        DataType::Decimal128(p, s) => ScalarValue::Decimal128(Some(0), *p, *s),
        DataType::Decimal256(p, s) => ScalarValue::Decimal256(Some(arrow::datatypes::i256::ZERO), *p, *s),
        other => ScalarValue::new_zero(other).unwrap_or(ScalarValue::Null),
    };
    if let Expr::Literal(value, _) = &expr
        && !value.is_null()
    {
        let is_zero = value.cast_to(t).is_ok_and(|v| v == zero);
        let null = ScalarValue::try_from(t).unwrap_or(ScalarValue::Null);
        return if is_zero { Expr::Literal(null, None) } else { expr };
    }
    datafusion::functions::core::expr_fn::nullif(expr, Expr::Literal(zero, None))
}

/// Turns a condition into a boolean: a number is true when it is not zero, text is cast to BOOLEAN.
pub(super) fn to_boolean(expr: Expr, class: Class, schema: &DFSchema) -> Expr {
    match class {
        Class::Boolean | Class::Other => expr,
        Class::Null => Expr::Literal(ScalarValue::Boolean(None), None),
        Class::Int(_) | Class::UInt64 | Class::Float | Class::Decimal(..) | Class::Time => match int_literal(&expr) {
            Some(n) => lit(n != 0),
            None => {
                let t = expr.get_type(schema).unwrap_or(DataType::Int64);
                let zero = match class {
                    Class::Time => ScalarValue::Time64Microsecond(Some(0)),
                    _ => ScalarValue::new_zero(&t).unwrap_or(ScalarValue::Int64(Some(0))),
                };
                let expr = if class == Class::Time { cast_to(expr, TIME, schema) } else { expr };
                binary(expr, Operator::NotEq, Expr::Literal(zero, None))
            }
        },
        Class::Text => compare::text_boolean(expr, schema),
        Class::Date | Class::DateTime | Class::Interval => expr.is_not_null(),
    }
}

impl CharterPlanner {
    /// Plans an arithmetic operator for which [`is_arithmetic`] holds.
    fn arithmetic(
        &self,
        op: &BinaryOperator,
        left: Expr,
        mut l: Class,
        right: Expr,
        mut r: Class,
        schema: &DFSchema,
    ) -> Expr {
        if l == Class::Interval || r == Class::Interval {
            if l == Class::Time || r == Class::Time {
                return moved_time(op, left, right, r);
            }
            return interval_arithmetic(op, left, l, right, r, schema);
        }
        let (mut left, mut right) = (left, right);
        for (expr, class) in [(&mut left, &mut l), (&mut right, &mut r)] {
            let to = match class {
                Class::Boolean => DataType::Int8,
                Class::Text => DataType::Float64,
                Class::Date | Class::DateTime => DataType::Int64,
                Class::Time => time_number(expr, schema),
                Class::Null => DataType::Int64,
                _ => continue,
            };
            *class = Class::of(&to);
            let inner = std::mem::replace(expr, lit(0));
            *expr = cast_to(inner, to, schema);
        }
        match op {
            BinaryOperator::Plus | BinaryOperator::Minus | BinaryOperator::Multiply => {
                self.add_like(op, left, l, right, r, schema)
            }
            BinaryOperator::Divide => self.divide(left, l, right, r, schema),
            BinaryOperator::Modulo => modulo(left, l, right, r, schema),
            _ => match (l, r) {
                // The smallest integer of a type has no opposite in that type, so the division is done in BIGINT.
                (Class::Int(_), Class::Int(_)) => {
                    let (left, right) = both(left, right, &DataType::Int64, schema);
                    binary(left, Operator::Divide, divisor(right, &DataType::Int64))
                }
                _ => called(&self.operators.div, vec![left, right]),
            },
        }
    }

    fn add_like(&self, op: &BinaryOperator, left: Expr, l: Class, right: Expr, r: Class, schema: &DFSchema) -> Expr {
        let (native, checked, large) = match op {
            BinaryOperator::Plus => (Operator::Plus, &self.add, &self.operators.add),
            BinaryOperator::Minus => (Operator::Minus, &self.subtract, &self.operators.subtract),
            _ => (Operator::Multiply, &self.multiply, &self.operators.multiply),
        };
        // Literals are folded here: a long sum of them would needlessly be a deep tree.
        if let (Some(a), Some(b)) = (int_literal(&left), int_literal(&right)) {
            let value = match op {
                BinaryOperator::Plus => a.checked_add(b),
                BinaryOperator::Minus => a.checked_sub(b),
                _ => a.checked_mul(b),
            };
            if let Some(value) = value {
                return lit(value);
            }
        }
        match (l, r) {
            (Class::Int(a), Class::Int(b)) => {
                let wide = bits(&left, a).max(bits(&right, b));
                let (left, right) = if wide == 64 {
                    (cast_to(left, DataType::Int64, schema), cast_to(right, DataType::Int64, schema))
                } else {
                    // Twice the bits hold any sum, difference or product.
                    let t = int_type(wide * 2);
                    return binary(widen(left, &t, schema), native, widen(right, &t, schema));
                };
                chained(checked, left, right)
            }
            (Class::Float, _) | (_, Class::Float) => {
                let (left, right) = both(left, right, &DataType::Float64, schema);
                binary(left, native, right)
            }
            _ if l.is_integer() && r.is_integer() && (l == LARGEINT_CLASS || r == LARGEINT_CLASS) => {
                chained(large, left, right)
            }
            _ => {
                // The digits of a chain are checked once, for its result.
                let (left, right) = (self.unchecked(left), self.unchecked(right));
                let (left, right) = decimals(left, l, right, r, schema);
                if let (Operator::Multiply, Ok(l), Ok(r)) = (native, left.get_type(schema), right.get_type(schema))
                    && is_wide_product(&l, &r)
                {
                    return called(&self.operators.decimal_multiply, vec![left, right]);
                }
                let result = binary(left, native, right);
                match result.get_type(schema) {
                    // The result's type has the maximal precision, which may be less than the number needs.
                    Ok(
                        DataType::Decimal128(DECIMAL128_MAX_PRECISION, _)
                        | DataType::Decimal256(DECIMAL256_MAX_PRECISION, _),
                    ) => called(&self.operators.within_precision, vec![result]),
                    _ => result,
                }
            }
        }
    }

    fn divide(&self, left: Expr, l: Class, right: Expr, r: Class, schema: &DFSchema) -> Expr {
        if l == Class::Float || r == Class::Float || (l.is_integer() && r.is_integer()) {
            let (left, right) = both(left, right, &DataType::Float64, schema);
            return binary(left, Operator::Divide, divisor(right, &DataType::Float64));
        }
        let (left, right) = decimals(left, l, right, r, schema);
        let t = right.get_type(schema).unwrap_or(DataType::Decimal128(38, 0));
        if left.get_type(schema).is_ok_and(|dividend| is_wide_quotient(&dividend, &t)) {
            return called(&self.operators.decimal_divide, vec![left, right]);
        }
        binary(left, Operator::Divide, divisor(right, &t))
    }

    /// Removes the check of a decimal's digits, if there is one.
    fn unchecked(&self, expr: Expr) -> Expr {
        self.without_check(expr).0
    }

    /// Removes the check of a decimal's digits. Returns the expression, and whether there was a check.
    pub(super) fn without_check(&self, expr: Expr) -> (Expr, bool) {
        match expr {
            Expr::ScalarFunction(mut call) if Arc::ptr_eq(&call.func, &self.operators.within_precision) => {
                (call.args.swap_remove(0), true)
            }
            other => (other, false),
        }
    }

    /// Adds the check that a decimal has no more digits than its type.
    pub(super) fn with_check(&self, expr: Expr) -> Expr {
        called(&self.operators.within_precision, vec![expr])
    }

    /// Returns the field of a STRUCT (case-insensitive), the value of a MAP's key, or the member of a JSON object.
    /// Gives the expression back as the error if there is none.
    fn field(&self, of: Expr, t: &DataType, name: &str) -> std::result::Result<Expr, Box<Expr>> {
        match t {
            DataType::Struct(fields) => {
                let same = fields.iter().find(|f| f.name() == name);
                match same.or_else(|| fields.iter().find(|f| f.name().eq_ignore_ascii_case(name))) {
                    Some(field) => Ok(datafusion::functions::core::expr_fn::get_field(of, field.name().as_str())),
                    None => Err(Box::new(of)),
                }
            }
            DataType::Map(..) => Ok(called(&self.element, vec![of, lit(name)])),
            t if Class::of(t) == Class::Text => {
                let quoted = name.replace('\\', "\\\\").replace('"', "\\\"");
                Ok(called(&self.json, vec![of, lit(format!("$.\"{quoted}\""))]))
            }
            _ => Err(Box::new(of)),
        }
    }

    /// Plans `&`, `|`, `^`, `<<`, `>>`.
    fn bitwise(&self, op: &BinaryOperator, left: Expr, l: Class, right: Expr, r: Class, schema: &DFSchema) -> Expr {
        let (function, native) = match op {
            BinaryOperator::BitwiseAnd => (&self.operators.and, Some(Operator::BitwiseAnd)),
            BinaryOperator::BitwiseOr => (&self.operators.or, Some(Operator::BitwiseOr)),
            // DataFusion folds `x ^ x` to 0, also where x is NULL.
            BinaryOperator::BitwiseXor => (&self.operators.xor, None),
            // Arrow shifts modulo 64 places and keeps the sign.
            BinaryOperator::PGBitwiseShiftLeft => (&self.operators.shift_left, None),
            _ => (&self.operators.shift_right, None),
        };
        let beyond_bigint = |c: Class| c.is_number() && !matches!(c, Class::Int(_));
        let to = |e: Expr, c: Class| if beyond_bigint(c) { e } else { cast_to(e, DataType::Int64, schema) };
        match native.filter(|_| !beyond_bigint(l) && !beyond_bigint(r)) {
            Some(native) => binary(to(left, l), native, to(right, r)),
            None => called(function, vec![to(left, l), to(right, r)]),
        }
    }
}

/// Returns a call over two operands; `(a + b) + c` becomes one call.
fn chained(function: &Arc<ScalarUDF>, left: Expr, right: Expr) -> Expr {
    match left {
        Expr::ScalarFunction(mut chain) if Arc::ptr_eq(&chain.func, function) => {
            chain.args.push(right);
            Expr::ScalarFunction(chain)
        }
        left => called(function, vec![left, right]),
    }
}

fn called(function: &Arc<ScalarUDF>, args: Vec<Expr>) -> Expr {
    Expr::ScalarFunction(ScalarFunction::new_udf(Arc::clone(function), args))
}

/// Widens to a type: a literal changes its type, anything else is cast.
fn widen(expr: Expr, t: &DataType, schema: &DFSchema) -> Expr {
    if let Some(n) = int_literal(&expr)
        && let Ok(value) = ScalarValue::Int64(Some(n)).cast_to(t)
    {
        return Expr::Literal(value, None);
    }
    match expr.get_type(schema) {
        Ok(from) if from == *t => expr,
        // Widening cannot fail, and a plain cast keeps statistics usable.
        _ => Expr::Cast(Cast::new(Box::new(expr), t.clone())),
    }
}

fn both(left: Expr, right: Expr, t: &DataType, schema: &DFSchema) -> (Expr, Expr) {
    (widen(left, t, schema), widen(right, t, schema))
}

/// Converts both operands to decimals of the same width.
fn decimals(left: Expr, l: Class, right: Expr, r: Class, schema: &DFSchema) -> (Expr, Expr) {
    let wide = matches!(l, Class::Decimal(_, _, true)) || matches!(r, Class::Decimal(_, _, true));
    let to = |expr: Expr, class: Class| {
        let t = match class {
            Class::Int(n) => int_decimal(bits(&expr, n)),
            Class::UInt64 => DataType::Decimal128(20, 0),
            Class::Decimal(p, s, _) => DataType::Decimal128(p, s),
            _ => return expr,
        };
        let t = match (t, class) {
            (DataType::Decimal128(p, s), Class::Decimal(_, _, true)) => DataType::Decimal256(p, s),
            (DataType::Decimal128(p, s), _) if wide => DataType::Decimal256(p, s),
            (t, _) => t,
        };
        widen(expr, &t, schema)
    };
    (to(left, l), to(right, r))
}

fn modulo(left: Expr, l: Class, right: Expr, r: Class, schema: &DFSchema) -> Expr {
    match (l, r) {
        (Class::Int(a), Class::Int(b)) => {
            let t = int_type(bits(&left, a).max(bits(&right, b)));
            let (left, right) = both(left, right, &t, schema);
            binary(left, Operator::Modulo, divisor(right, &t))
        }
        (Class::Float, _) | (_, Class::Float) => {
            let (left, right) = both(left, right, &DataType::Float64, schema);
            binary(left, Operator::Modulo, divisor(right, &DataType::Float64))
        }
        _ if l.is_integer() && r.is_integer() && (l == LARGEINT_CLASS || r == LARGEINT_CLASS) => {
            let (left, right) = both(left, right, &LARGEINT, schema);
            binary(left, Operator::Modulo, divisor(right, &LARGEINT))
        }
        _ => {
            let (left, right) = decimals(left, l, right, r, schema);
            let t = right.get_type(schema).unwrap_or(DataType::Decimal128(38, 0));
            binary(left, Operator::Modulo, divisor(right, &t))
        }
    }
}

/// Whether an interval can change the time of day.
pub(super) fn has_time_part(interval: &Expr) -> bool {
    match interval {
        Expr::Literal(ScalarValue::IntervalMonthDayNano(Some(i)), _) => i.nanoseconds != 0,
        Expr::ScalarFunction(f) if f.func.name() == super::interval::NAME => match f.args.get(1) {
            Some(Expr::Literal(unit, _)) => {
                let unit = unit.try_as_str().flatten().unwrap_or("");
                ["hour", "minute", "second"].iter().any(|u| unit.contains(u)) || unit.contains("microsecond")
            }
            _ => true,
        },
        Expr::Negative(inner) => has_time_part(inner),
        _ => true,
    }
}

/// Plans `d + INTERVAL ..`, `INTERVAL .. + d`, `d - INTERVAL ..`: text becomes a DATETIME, and a DATE stays one if
/// whole days are added.
fn interval_arithmetic(op: &BinaryOperator, left: Expr, l: Class, right: Expr, r: Class, schema: &DFSchema) -> Expr {
    let (point, point_class, interval) = if r == Class::Interval { (left, l, right) } else { (right, r, left) };
    let op = if *op == BinaryOperator::Minus { Operator::Minus } else { Operator::Plus };
    let interval = cast_to(interval, DataType::Interval(IntervalUnit::MonthDayNano), schema);
    let point = match point_class {
        Class::Date if has_time_part(&interval) => cast_to(point, DATETIME, schema),
        Class::Date | Class::DateTime => point,
        Class::Text => match &point {
            // A date literal without time stays a date, as in MySQL: DATE '2024-01-31' + INTERVAL 1 MONTH.
            Expr::Literal(value, _)
                if !has_time_part(&interval) && !value.try_as_str().flatten().is_some_and(text::has_zone) =>
            {
                let text = value.try_as_str().flatten().unwrap_or("");
                match text::parse_datetime(text) {
                    Some(parsed) if parsed.is_date_only => {
                        Expr::Literal(ScalarValue::Date32(Some(parsed.days())), None)
                    }
                    Some(parsed) => Expr::Literal(ScalarValue::TimestampMicrosecond(Some(parsed.micros), None), None),
                    None => Expr::Literal(ScalarValue::TimestampMicrosecond(None, None), None),
                }
            }
            _ => cast_to(point, DATETIME, schema),
        },
        _ => cast_to(point, DATETIME, schema),
    };
    binary(point, op, interval)
}

/// Plans a TIME plus or minus an interval, as DATE_ADD does.
fn moved_time(op: &BinaryOperator, left: Expr, right: Expr, r: Class) -> Expr {
    let (time, interval) = if r == Class::Interval { (left, right) } else { (right, left) };
    let name = if *op == BinaryOperator::Minus { "date_sub" } else { "date_add" };
    datetime::call(name, vec![time, interval])
}

/// Returns the type of a TIME as a number, such as 101530.25 for 10:15:30.25.
fn time_number(time: &Expr, schema: &DFSchema) -> DataType {
    match declared::field_of(time, schema).ok().and_then(|field| declared::digits_of(&field)) {
        Some(0) => DataType::Int64,
        Some(digits) => DataType::Decimal128(7 + digits, digits as i8),
        None => DataType::Decimal128(13, 6),
    }
}

/// Whether the operator is planned here: its operands are numbers or convert to them, or are a point in time and an
/// interval.
fn is_arithmetic(op: &BinaryOperator, l: Class, r: Class) -> bool {
    let point =
        |c| matches!(c, Class::Date | Class::DateTime | Class::Time | Class::Text | Class::Int(_) | Class::Null);
    match (l, r) {
        (_, Class::Interval) => point(l) && matches!(op, BinaryOperator::Plus | BinaryOperator::Minus),
        (Class::Interval, _) => point(r) && *op == BinaryOperator::Plus,
        _ => l != Class::Other && r != Class::Other,
    }
}

/// Refuses DISTINCT in the form of an aggregate for arrays: it could mean the arrays or the elements of a position.
fn without_distinct(name: &str, distinct: bool) -> Result<()> {
    match distinct && is_combined(name) {
        true => plan_err!("{name} does not take DISTINCT"),
        false => Ok(()),
    }
}

/// Makes its number of a literal of bytes, such as `b'1'` and `x'00'`, beside a BOOLEAN, which is MySQL's BIT(1).
pub(super) fn bit(expr: Expr) -> Expr {
    let literal = match &expr {
        Expr::Cast(cast) => cast.expr.as_ref(),
        other => other,
    };
    let Expr::Literal(value, _) = literal else { return expr };
    let (ScalarValue::Binary(Some(bytes))
    | ScalarValue::LargeBinary(Some(bytes))
    | ScalarValue::BinaryView(Some(bytes))) = value
    else {
        return expr;
    };
    match bytes.iter().try_fold(0_i64, |number, byte| Some(number.checked_mul(256)? + i64::from(*byte))) {
        Some(number @ (0 | 1)) => lit(number == 1),
        Some(number) => lit(number),
        None => expr,
    }
}

/// Refuses BINARY as a number: BITMAP and HLL are bytes, too, and not all bytes are text.
///
/// # Errors
/// `NotImplemented` if the operator would have to read bytes as a number, a truth value or a point in time.
fn refuse_bytes(op: &BinaryOperator, left: &Expr, l: Class, right: &Expr, r: Class, schema: &DFSchema) -> Result<()> {
    use BinaryOperator as Op;
    let is_one = |e: &Expr, c: Class| c == Class::Other && e.get_type(schema).is_ok_and(|t| is_bytes(&t));
    let (left, right) = (is_one(left, l), is_one(right, r));
    let refused = match op {
        Op::Plus | Op::Minus | Op::Multiply | Op::Divide | Op::Modulo | Op::MyIntegerDivide => left || right,
        Op::BitwiseAnd | Op::BitwiseOr | Op::BitwiseXor | Op::PGBitwiseShiftLeft | Op::PGBitwiseShiftRight => {
            left || right
        }
        Op::And | Op::Or | Op::Xor => left || right,
        Op::Eq | Op::NotEq | Op::Lt | Op::LtEq | Op::Gt | Op::GtEq | Op::Spaceship => {
            let other = if left { r } else { l };
            let counts = other.is_number() || matches!(other, Class::Boolean | Class::Date | Class::DateTime);
            (left || right) && counts
        }
        _ => false,
    };
    match refused {
        true => not_impl_err!("BINARY is not supported as a number: CAST(x AS STRING) is text, which counts as one"),
        false => Ok(()),
    }
}

impl ExprPlanner for CharterPlanner {
    fn plan_binary_op(&self, expr: RawBinaryExpr, schema: &DFSchema) -> Result<PlannerResult<RawBinaryExpr>> {
        use BinaryOperator as Op;
        let RawBinaryExpr { op, left, right } = expr;
        if mixed::is_mark(&op) {
            return Ok(PlannerResult::Planned(match left {
                Expr::ScalarFunction(function) if chain::is_written(&function) => {
                    chain::planned(self, function, schema)?
                }
                left => mixed::of_one_type(left, schema),
            }));
        }
        let class = |e: &Expr| e.get_type(schema).ok().map(|t| Class::of(&t));
        let (l, r) = (class(&left), class(&right));
        // A placeholder has no type yet: DataFusion infers it from the other side.
        let (Some(l), Some(r)) = (l, r) else {
            let expr = RawBinaryExpr { op, left, right };
            return Ok(if expr.op == Op::Spaceship {
                PlannerResult::Planned(binary(expr.left, Operator::IsNotDistinctFrom, expr.right))
            } else {
                PlannerResult::Original(expr)
            });
        };
        let of_bits = matches!(
            op,
            Op::Eq | Op::NotEq | Op::Lt | Op::LtEq | Op::Gt | Op::GtEq | Op::Spaceship | Op::And | Op::Or | Op::Xor
        );
        let (left, right) = match (l, r) {
            (Class::Boolean, _) if of_bits => (left, bit(right)),
            (_, Class::Boolean) if of_bits => (bit(left), right),
            _ => (left, right),
        };
        let (l, r) = (class(&left).unwrap_or(l), class(&right).unwrap_or(r));
        refuse_bytes(&op, &left, l, &right, r, schema)?;
        let planned = match &op {
            Op::Plus | Op::Minus | Op::Multiply | Op::Divide | Op::Modulo | Op::MyIntegerDivide
                if is_arithmetic(&op, l, r) =>
            {
                self.arithmetic(&op, left, l, right, r, schema)
            }
            Op::Eq | Op::NotEq | Op::Lt | Op::LtEq | Op::Gt | Op::GtEq | Op::Spaceship => {
                let operator = match op {
                    Op::Eq => Operator::Eq,
                    Op::NotEq => Operator::NotEq,
                    Op::Lt => Operator::Lt,
                    Op::LtEq => Operator::LtEq,
                    Op::Gt => Operator::Gt,
                    Op::GtEq => Operator::GtEq,
                    _ => Operator::IsNotDistinctFrom,
                };
                compare::compare(operator, left, right, schema)?
            }
            Op::And | Op::Or | Op::Xor => {
                let left = to_boolean(left, l, schema);
                let right = to_boolean(right, r, schema);
                match op {
                    Op::And => match (left, right) {
                        // `x AND TRUE` was only a way to ask for a boolean.
                        (left, Expr::Literal(ScalarValue::Boolean(Some(true)), _)) => left,
                        (left, right) => binary(left, Operator::And, right),
                    },
                    Op::Or => binary(left, Operator::Or, right),
                    // XOR is NULL if either side is, and true if they differ.
                    _ => binary(left, Operator::NotEq, right),
                }
            }
            Op::BitwiseAnd | Op::BitwiseOr | Op::BitwiseXor | Op::PGBitwiseShiftLeft | Op::PGBitwiseShiftRight => {
                self.bitwise(&op, left, l, right, r, schema)
            }
            Op::PGRegexMatch | Op::PGRegexNotMatch | Op::StringConcat => {
                let operator = match op {
                    Op::PGRegexMatch => Operator::RegexMatch,
                    Op::PGRegexNotMatch => Operator::RegexNotMatch,
                    _ => Operator::StringConcat,
                };
                let to = |e: Expr, class: Class| match class {
                    Class::Text => e,
                    _ => cast_to(e, DataType::Utf8View, schema),
                };
                binary(to(left, l), operator, to(right, r))
            }
            _ => return Ok(PlannerResult::Original(RawBinaryExpr { op, left, right })),
        };
        Ok(PlannerResult::Planned(planned))
    }

    /// `m[key]` of a MAP compares keys like comparisons do, whereas DataFusion wants the key in the map's own type.
    fn plan_field_access(
        &self,
        expr: RawFieldAccessExpr,
        schema: &DFSchema,
    ) -> Result<PlannerResult<RawFieldAccessExpr>> {
        let RawFieldAccessExpr { field_access, expr } = expr;
        let Ok(of) = expr.get_type(schema) else {
            return Ok(PlannerResult::Original(RawFieldAccessExpr { field_access, expr }));
        };
        match &field_access {
            GetFieldAccess::NamedStructField { name } if !matches!(of, DataType::Map(..)) => {
                let name = name.try_as_str().flatten().unwrap_or_default().to_string();
                return Ok(match self.field(expr, &of, &name) {
                    Ok(field) => PlannerResult::Planned(field),
                    Err(expr) => PlannerResult::Original(RawFieldAccessExpr { field_access, expr: *expr }),
                });
            }
            // The index of a JSON array, which begins at 0.
            GetFieldAccess::ListIndex { key } if Class::of(&of) == Class::Text => {
                if let Some(place) = int_literal(key) {
                    let path = lit(format!("$[{place}]"));
                    return Ok(PlannerResult::Planned(called(&self.json, vec![expr, path])));
                }
            }
            _ => {}
        }
        // A large index is an error of DataFusion, and NULL in Doris.
        let is_list = matches!(of, DataType::List(_) | DataType::LargeList(_) | DataType::FixedSizeList(..));
        if !matches!(of, DataType::Map(..)) && !is_list {
            return Ok(PlannerResult::Original(RawFieldAccessExpr { field_access, expr }));
        }
        let key = match field_access {
            GetFieldAccess::NamedStructField { name } => Expr::Literal(name, None),
            GetFieldAccess::ListIndex { key } => *key,
            range => return Ok(PlannerResult::Original(RawFieldAccessExpr { field_access: range, expr })),
        };
        Ok(PlannerResult::Planned(called(&self.element, vec![expr, key])))
    }

    /// Plans `t.s.a` and `s.a.b`: a column and its fields.
    fn plan_compound_identifier(
        &self,
        field: &Field,
        qualifier: Option<&TableReference>,
        nested_names: &[String],
    ) -> Result<PlannerResult<Vec<Expr>>> {
        let column = Expr::Column(Column::new(qualifier.cloned(), field.name()));
        let schema = DFSchema::new_with_metadata(
            vec![(qualifier.cloned(), Arc::new(field.clone()) as FieldRef)],
            Default::default(),
        )?;
        let value = nested_names.iter().try_fold(column, |of, name| {
            let t = of.get_type(&schema)?;
            self.field(of, &t, name).map_err(|_| {
                plan_datafusion_err!(
                    "Unknown column '{name}' in {}: its type {} has no such field",
                    field.name(),
                    Sql(t)
                )
            })
        })?;
        Ok(PlannerResult::Planned(value))
    }

    /// Plans `[a, b]` with the common type of `array(a, b)`.
    fn plan_array_literal(&self, exprs: Vec<Expr>, schema: &DFSchema) -> Result<PlannerResult<Vec<Expr>>> {
        Ok(PlannerResult::Planned(called(&self.array, mixed::beside_floats(exprs, schema))))
    }

    /// Plans `map(k1, v1, k2, v2)` with the common type of all keys and that of all values.
    fn plan_make_map(&self, args: Vec<Expr>) -> Result<PlannerResult<Vec<Expr>>> {
        if args.len() % 2 == 1 {
            return plan_err!("map takes keys and values in pairs, found {} arguments", args.len());
        }
        let (keys, values): (Vec<_>, Vec<_>) = args.into_iter().enumerate().partition(|(at, _)| at % 2 == 0);
        let array = |side: Vec<(usize, Expr)>| called(&self.array, side.into_iter().map(|(_, item)| item).collect());
        let map = ScalarFunction::new_udf(map_udf(), vec![array(keys), array(values)]);
        Ok(PlannerResult::Planned(Expr::ScalarFunction(map)))
    }

    /// `FIRST_VALUE(x, TRUE)` and `LAST_VALUE(x, TRUE)` are Doris' spelling of IGNORE NULLS.
    fn plan_window(&self, mut expr: RawWindowExpr) -> Result<PlannerResult<RawWindowExpr>> {
        without_distinct(expr.func_def.name(), expr.distinct)?;
        if expr.distinct && expr.func_def.name() == "count" {
            expr.func_def = WindowFunctionDefinition::AggregateUDF(crate::functions::count_distinct());
        }
        if let (name @ ("lag" | "lead" | "nth_value"), Some(Expr::Literal(ScalarValue::Int64(Some(n)), _))) =
            (expr.func_def.name(), expr.args.get(1))
            && *n < i64::from(name == "nth_value")
        {
            return plan_err!("Incorrect arguments to {name}: {n}");
        }
        if matches!(expr.func_def.name(), "first_value" | "last_value") && expr.args.len() > 1 {
            let ignore = match &expr.args[1..] {
                [Expr::Literal(ScalarValue::Boolean(Some(ignore)), _)] => Some(*ignore),
                [Expr::Literal(ScalarValue::Int64(Some(flag @ (0 | 1))), _)] => Some(*flag == 1),
                _ => None,
            };
            match ignore {
                Some(ignore) => {
                    if ignore {
                        expr.null_treatment = Some(NullTreatment::IgnoreNulls);
                    }
                    expr.args.truncate(1);
                }
                None => {
                    return plan_err!(
                        "{} takes a value and, if NULLs are to be skipped, the constant TRUE",
                        expr.func_def.name()
                    );
                }
            }
        }
        Ok(PlannerResult::Original(expr))
    }

    /// Plans aggregates. `COUNT(DISTINCT a, b)` counts distinct tuples without a NULL. `SUM(x + literal)` keeps the
    /// form that DataFusion turns into `SUM(x) + literal * COUNT(x)`.
    fn plan_aggregate(&self, mut expr: RawAggregateExpr) -> Result<PlannerResult<RawAggregateExpr>> {
        without_distinct(expr.func.name(), expr.distinct)?;
        if expr.func.name() == "count" && expr.distinct {
            expr.func = crate::functions::count_distinct();
        }
        if expr.func.name() == "count" && expr.distinct && expr.args.len() > 1 {
            let tuple = datafusion::functions::core::expr_fn::r#struct(expr.args.clone());
            let complete = expr.args.iter().cloned().map(Expr::is_not_null).reduce(Expr::and);
            if let Some(complete) = complete {
                expr.args = vec![datafusion::logical_expr::when(complete, tuple).end()?];
            }
        }
        if expr.func.name() == "sum"
            && let [Expr::BinaryExpr(BinaryExpr { left, op: Operator::Plus, right })] = expr.args.as_slice()
            && let Some(n) = int_literal(right)
            && matches!(&**right, Expr::Literal(v, _) if v.data_type().is_integer())
        {
            let left = Expr::Cast(Cast::new(left.clone(), DataType::Int64));
            expr.args = vec![binary(left, Operator::Plus, lit(n))];
        }
        Ok(PlannerResult::Original(expr))
    }
}
