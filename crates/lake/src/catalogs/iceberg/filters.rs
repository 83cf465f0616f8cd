//! Converts filters of a query to predicates that prune files.

use std::sync::Arc;

use arrow::array::{ArrayRef, FixedSizeBinaryArray};
use datafusion::common::ScalarValue;
use datafusion::logical_expr::{BinaryExpr, Expr, Operator};
use dipper_iceberg::predicate::{Op, Predicate};
use dipper_iceberg::schema::{Primitive, Schema, Type};
use dipper_iceberg::value::{Value, uuid_of};

use crate::files::CONVERT_TZ;

/// Microseconds; no local time is further from UTC. Local mean times, from before there were time zones, differ by up
/// to 15:56 hours.
const CLOCK_AWAY_US: i64 = 16 * 3_600_000_000;

/// Returns a predicate that files must meet if they have rows that pass all `filters`. Filters that are not understood
/// rule out nothing.
pub(super) fn predicate(filters: &[Expr], schema: &Schema) -> Predicate {
    Predicate::And(filters.iter().map(|f| convert(f, schema)).collect())
}

fn convert(e: &Expr, schema: &Schema) -> Predicate {
    match e {
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::And, right }) => {
            Predicate::And(vec![convert(left, schema), convert(right, schema)])
        }
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::Or, right }) => {
            Predicate::Or(vec![convert(left, schema), convert(right, schema)])
        }
        Expr::BinaryExpr(BinaryExpr { left, op, right }) => compare(left, *op, right, schema)
            .or_else(|| compare(right, op.swap()?, left, schema))
            .unwrap_or(Predicate::All),
        Expr::Between(b) if !b.negated => {
            let bound = |op, e: &Expr| compare(&b.expr, op, e, schema).unwrap_or(Predicate::All);
            Predicate::And(vec![bound(Operator::GtEq, &b.low), bound(Operator::LtEq, &b.high)])
        }
        Expr::InList(list) if !list.negated => {
            let Some((id, t)) = column(&list.expr, schema) else { return Predicate::All };
            match list.list.iter().map(|e| literal(e, t)).collect::<Option<Vec<_>>>() {
                Some(values) => Predicate::In(id, values),
                None => Predicate::All,
            }
        }
        Expr::IsNull(e) => column(e, schema).map_or(Predicate::All, |(id, _)| Predicate::IsNull(id)),
        Expr::IsNotNull(e) => column(e, schema).map_or(Predicate::All, |(id, _)| Predicate::NotNull(id)),
        Expr::Literal(ScalarValue::Boolean(Some(false) | None), _) => Predicate::None,
        Expr::Column(_) => match column(e, schema) {
            Some((id, Primitive::Boolean)) => Predicate::Compare(id, Op::Eq, Value::Bool(true)),
            _ => Predicate::All,
        },
        _ => Predicate::All,
    }
}

fn compare(left: &Expr, op: Operator, right: &Expr, schema: &Schema) -> Option<Predicate> {
    if let Some(id) = clock_of(left, schema) {
        return by_the_clock(id, op, right);
    }
    let (id, t) = column(left, schema)?;
    let value = literal(right, t)?;
    let op = match op {
        Operator::Eq => Op::Eq,
        Operator::Lt => Op::Lt,
        Operator::LtEq => Op::LtEq,
        Operator::Gt => Op::Gt,
        Operator::GtEq => Op::GtEq,
        Operator::NotEq => return Some(Predicate::NotNull(id)),
        _ => return None,
    };
    Some(Predicate::Compare(id, op, value))
}

/// Returns the id of the timestamp column whose local time an expression computes; see [`CONVERT_TZ`].
fn clock_of(e: &Expr, schema: &Schema) -> Option<i32> {
    let Expr::ScalarFunction(call) = e else { return None };
    let [of, Expr::Literal(from, _), Expr::Literal(..)] = &call.args[..] else { return None };
    let (id, t) = column(of, schema)?;
    let shows = call.func.name() == CONVERT_TZ && from.try_as_str() == Some(Some("UTC"));
    (shows && t == Primitive::Timestamptz).then_some(id)
}

/// Returns a predicate that all instants meet whose local time compares like this. Clocks are turned back, so local
/// times are not in the order of the instants.
fn by_the_clock(id: i32, op: Operator, right: &Expr) -> Option<Predicate> {
    let Expr::Literal(ScalarValue::TimestampMicrosecond(Some(clock), _), _) = right else { return None };
    let at = |us: i64| Value::Timestamp(i128::from(us) * 1000);
    let after = Predicate::Compare(id, Op::GtEq, at(clock.saturating_sub(CLOCK_AWAY_US)));
    let before = Predicate::Compare(id, Op::LtEq, at(clock.saturating_add(CLOCK_AWAY_US)));
    match op {
        Operator::Eq => Some(Predicate::And(vec![after, before])),
        Operator::Lt | Operator::LtEq => Some(before),
        Operator::Gt | Operator::GtEq => Some(after),
        _ => None,
    }
}

/// Returns id and type of a column that is not nested.
fn column(e: &Expr, schema: &Schema) -> Option<(i32, Primitive)> {
    let Expr::Column(c) = e else { return None };
    let field = schema.fields.iter().find(|f| f.name == c.name)?;
    match field.field_type {
        Type::Primitive(p) => Some((field.id, p)),
        _ => None,
    }
}

/// Returns a literal that has exactly the column's type. With any other type, the literal or the column has been cast.
fn literal(e: &Expr, t: Primitive) -> Option<Value> {
    let Expr::Literal(scalar, _) = e else { return None };
    Some(match (t, scalar) {
        (Primitive::Boolean, ScalarValue::Boolean(Some(v))) => Value::Bool(*v),
        (Primitive::Int, ScalarValue::Int32(Some(v))) => Value::Int((*v).into()),
        (Primitive::Long, ScalarValue::Int64(Some(v))) => Value::Int(*v),
        (Primitive::Float, ScalarValue::Float32(Some(v))) => Value::Double((*v).into()),
        (Primitive::Double, ScalarValue::Float64(Some(v))) => Value::Double(*v),
        (Primitive::Decimal(_, scale), ScalarValue::Decimal128(Some(v), _, s)) if i16::from(*s) == i16::from(scale) => {
            Value::Decimal(*v, scale)
        }
        (Primitive::Date, ScalarValue::Date32(Some(v))) => Value::Date(*v),
        (Primitive::Time, ScalarValue::Time64Microsecond(Some(v))) => Value::Time(*v),
        // Columns of nanoseconds are read cut to microseconds, so the bound differs from the value that is compared.
        (Primitive::Timestamp | Primitive::Timestamptz, ScalarValue::TimestampMicrosecond(Some(v), _)) => {
            Value::Timestamp(i128::from(*v) * 1000)
        }
        (
            Primitive::String,
            ScalarValue::Utf8(Some(v)) | ScalarValue::Utf8View(Some(v)) | ScalarValue::LargeUtf8(Some(v)),
        ) => Value::String(v.clone()),
        // No UUID equals a text that is spelled otherwise.
        (
            Primitive::Uuid,
            ScalarValue::Utf8(Some(v)) | ScalarValue::Utf8View(Some(v)) | ScalarValue::LargeUtf8(Some(v)),
        ) => Value::Bytes(uuid_of(v)?.to_vec()),
        (Primitive::Binary, ScalarValue::Binary(Some(v)) | ScalarValue::BinaryView(Some(v))) => Value::Bytes(v.clone()),
        _ => return None,
    })
}

/// Converts a partition value to the column's type; `None` if no conversion is known.
pub(super) fn scalar(value: Option<&Value>, data_type: &arrow::datatypes::DataType) -> Option<ScalarValue> {
    use arrow::datatypes::DataType as T;
    let Some(value) = value else { return ScalarValue::try_from(data_type).ok() };
    Some(match (value, data_type) {
        (Value::Bool(v), T::Boolean) => ScalarValue::Boolean(Some(*v)),
        (Value::Int(v), T::Int32) => ScalarValue::Int32(Some(i32::try_from(*v).ok()?)),
        (Value::Int(v), T::Int64) => ScalarValue::Int64(Some(*v)),
        (Value::Double(v), T::Float32) => ScalarValue::Float32(Some(*v as f32)),
        (Value::Double(v), T::Float64) => ScalarValue::Float64(Some(*v)),
        (Value::Decimal(v, scale), T::Decimal128(p, s)) if i16::from(*s) == i16::from(*scale) => {
            ScalarValue::Decimal128(Some(*v), *p, *s)
        }
        (Value::Date(v), T::Date32) => ScalarValue::Date32(Some(*v)),
        (Value::Time(v), T::Time64(_)) => ScalarValue::Time64Microsecond(Some(*v)),
        (Value::Timestamp(ns), T::Timestamp(_, zone)) => {
            ScalarValue::TimestampMicrosecond(Some(i64::try_from(ns.div_euclid(1000)).ok()?), zone.clone())
        }
        (Value::String(v), T::Utf8) => ScalarValue::Utf8(Some(v.clone())),
        (Value::String(v), T::Utf8View) => ScalarValue::Utf8View(Some(v.clone())),
        // The bytes are a UUID.
        (Value::Bytes(v), T::Utf8 | T::Utf8View) => {
            let bytes = FixedSizeBinaryArray::try_from_iter([v].into_iter()).ok()?;
            ScalarValue::try_from_array(
                &dipper_store::segment::convert(&(Arc::new(bytes) as ArrayRef), data_type).ok()?,
                0,
            )
            .ok()?
        }
        (Value::Bytes(v), T::Binary) => ScalarValue::Binary(Some(v.clone())),
        (Value::Bytes(v), T::BinaryView) => ScalarValue::BinaryView(Some(v.clone())),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use datafusion::execution::FunctionRegistry;
    use datafusion::prelude::{col, lit};

    #[test]
    fn filters_become_conditions_or_nothing() {
        let field = |id, name: &str, t| dipper_iceberg::schema::Field {
            id,
            name: name.into(),
            required: false,
            field_type: Type::Primitive(t),
            doc: None,
            initial_default: None,
        };
        let schema = Schema { id: 0, fields: vec![field(1, "a", Primitive::Long), field(2, "s", Primitive::String)] };
        let schema =
            Schema { fields: [schema.fields, vec![field(3, "at", Primitive::Timestamptz)]].concat(), ..schema };
        let of = |e: Expr| convert(&e, &schema);
        let int = |op, v| Predicate::Compare(1, op, Value::Int(v));
        assert_eq!(of(col("a").gt(lit(5i64))), int(Op::Gt, 5));
        assert_eq!(of(lit(5i64).gt(col("a"))), int(Op::Lt, 5));
        assert_eq!(of(col("a").not_eq(lit(5i64))), Predicate::NotNull(1));
        assert_eq!(
            of(col("a").between(lit(1i64), lit(2i64))),
            Predicate::And(vec![int(Op::GtEq, 1), int(Op::LtEq, 2)])
        );
        assert_eq!(of(col("s").in_list(vec![lit("x")], false)), Predicate::In(2, vec![Value::String("x".into())]));
        // Another type, a negation, a function: these imply nothing.
        assert_eq!(of(col("a").eq(lit(5.0))), Predicate::All);
        assert_eq!(of(col("s").in_list(vec![lit("x")], true)), Predicate::All);
        assert_eq!(of(col("s").like(lit("x%"))), Predicate::All);
        assert_eq!(
            of(col("a").eq(lit(1i64)).or(col("s").like(lit("x")))),
            Predicate::Or(vec![int(Op::Eq, 1), Predicate::All])
        );
        // The session's local time of an instant is less than a day from it.
        let mut functions = datafusion::prelude::SessionContext::new().state();
        dipper_sql::functions::register_all(&mut functions).unwrap();
        let convert_tz = functions.udf(CONVERT_TZ).unwrap();
        let shown = |column| convert_tz.call(vec![col(column), lit("UTC"), lit("Asia/Shanghai")]);
        let clock = lit(ScalarValue::TimestampMicrosecond(Some(1_000_000), None));
        let instant = |op, seconds: i128| Predicate::Compare(3, op, Value::Timestamp(seconds * 1_000_000_000));
        let (after, before) = (instant(Op::GtEq, 1 - 57_600), instant(Op::LtEq, 1 + 57_600));
        assert_eq!(of(shown("at").lt(clock.clone())), before);
        assert_eq!(of(clock.clone().lt(shown("at"))), after);
        assert_eq!(of(shown("at").eq(clock.clone())), Predicate::And(vec![after, before]));
        assert_eq!(of(shown("at").not_eq(clock.clone())), Predicate::All);
        assert_eq!(of(shown("s").eq(clock)), Predicate::All);
    }
}
