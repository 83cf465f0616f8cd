//! Conditions on columns, and whether a file can hold a row that meets them.
//!
//! Every answer here is "may match": it is true if nothing is known. A file is left out only on `false`.

use std::cmp::Ordering;
use std::collections::HashMap;

use crate::metadata::PartitionSpec;
use crate::transform::Transform;
use crate::value::Value;

/// A comparison.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Op {
    /// =
    Eq,
    /// <
    Lt,
    /// <=
    LtEq,
    /// >
    Gt,
    /// >=
    GtEq,
}

/// A condition on columns, by field id. A row that meets the query's filter meets this condition, but not vice versa.
#[derive(Debug, Clone, PartialEq)]
pub enum Predicate {
    /// Every row.
    All,
    /// No row.
    None,
    /// Rows that meet all.
    And(Vec<Predicate>),
    /// Rows that meet any.
    Or(Vec<Predicate>),
    /// The column is not NULL and satisfies the comparison.
    Compare(i32, Op, Value),
    /// The column is one of the values.
    In(i32, Vec<Value>),
    /// The column is NULL.
    IsNull(i32),
    /// The column is not NULL.
    NotNull(i32),
}

/// Bounds of the values of one column, or of one partition field, in a set of rows.
#[derive(Debug, Clone, Default)]
pub struct Range {
    /// Lower bound: no value is smaller.
    pub lower: Option<Value>,
    /// Upper bound: no value is larger.
    pub upper: Option<Value>,
    /// `Some(false)`: no value is NULL.
    pub has_null: Option<bool>,
    /// `Some(true)`: every value is NULL.
    pub all_null: Option<bool>,
    /// `Some(false)`: no value is NaN. Bounds do not cover NaN, which is larger than any other value.
    pub has_nan: Option<bool>,
}

impl Range {
    /// Returns the bounds if they are in order: some writers order UUIDs as signed numbers.
    pub(crate) fn bounds(lower: Option<Value>, upper: Option<Value>) -> (Option<Value>, Option<Value>) {
        match lower.as_ref().zip(upper.as_ref()).and_then(|(lower, upper)| lower.compare(upper)) {
            Some(Ordering::Greater) => (None, None),
            _ => (lower, upper),
        }
    }

    fn may_compare(&self, op: Op, value: &Value) -> bool {
        if self.all_null == Some(true) {
            return false;
        }
        if matches!(value, Value::Double(_)) && self.has_nan != Some(false) {
            return true;
        }
        let order = |bound: &Option<Value>| bound.as_ref().and_then(|b| b.compare(value));
        let above = |strict: bool| match order(&self.upper) {
            Some(Ordering::Less) => false,
            Some(Ordering::Equal) => !strict,
            _ => true,
        };
        let below = |strict: bool| match order(&self.lower) {
            Some(Ordering::Greater) => false,
            Some(Ordering::Equal) => !strict,
            _ => true,
        };
        match op {
            Op::Eq => above(false) && below(false),
            Op::Lt => below(true),
            Op::LtEq => below(false),
            Op::Gt => above(true),
            Op::GtEq => above(false),
        }
    }
}

impl Predicate {
    /// Whether rows can meet this condition. `range` returns the bounds of a column; `None`: nothing is known of it.
    pub fn may_match(&self, range: &dyn Fn(i32) -> Option<Range>) -> bool {
        self.may(&|field, test| range(field).is_none_or(|r| test.on(&r)))
    }

    /// Whether a partition, or a set of partitions, can hold rows that meet this condition. `ranges`: one for each of
    /// the spec's fields; `None`: nothing is known of that field.
    pub fn may_match_partition(&self, spec: &PartitionSpec, ranges: &[Option<Range>]) -> bool {
        self.may(&|field, test| {
            let of_field = spec.fields.iter().zip(ranges).filter(|(f, _)| f.source_id == field);
            of_field.into_iter().all(|(f, r)| r.as_ref().is_none_or(|r| test.on_transformed(f.transform, r)))
        })
    }

    fn may(&self, ask: &dyn Fn(i32, Test<'_>) -> bool) -> bool {
        match self {
            Predicate::All => true,
            Predicate::None => false,
            Predicate::And(all) => all.iter().all(|p| p.may(ask)),
            Predicate::Or(any) => any.iter().any(|p| p.may(ask)),
            Predicate::Compare(field, op, value) => ask(*field, Test::Compare(*op, value)),
            Predicate::In(field, values) => values.iter().any(|v| ask(*field, Test::Compare(Op::Eq, v))),
            Predicate::IsNull(field) => ask(*field, Test::IsNull),
            Predicate::NotNull(field) => ask(*field, Test::NotNull),
        }
    }
}

#[derive(Clone, Copy)]
enum Test<'a> {
    Compare(Op, &'a Value),
    IsNull,
    NotNull,
}

impl Test<'_> {
    fn on(self, r: &Range) -> bool {
        match self {
            Test::Compare(op, value) => r.may_compare(op, value),
            Test::IsNull => r.has_null != Some(false),
            Test::NotNull => r.all_null != Some(true),
        }
    }

    /// Tests the results of a transform; a transform maps NULL, and only NULL, to NULL.
    fn on_transformed(self, transform: Transform, r: &Range) -> bool {
        let (op, value) = match self {
            _ if matches!(transform, Transform::Void | Transform::Unknown) => return true,
            Test::IsNull | Test::NotNull => return self.on(r),
            Test::Compare(op, value) => (op, value),
        };
        if transform == Transform::Identity {
            return r.may_compare(op, value);
        }
        let Some(result) = transform.apply(value) else { return true };
        match op {
            Op::Eq if transform.is_temporal() => {
                r.may_compare(Op::GtEq, &result) && r.may_compare(Op::LtEq, &early(&result))
            }
            Op::Eq => r.may_compare(Op::Eq, &result),
            // A smaller value can have the same result.
            Op::Lt | Op::LtEq if transform.is_temporal() => r.may_compare(Op::LtEq, &early(&result)),
            Op::Lt | Op::LtEq if transform.is_monotone() => r.may_compare(Op::LtEq, &result),
            Op::Gt | Op::GtEq if transform.is_monotone() => r.may_compare(Op::GtEq, &result),
            _ => true,
        }
    }
}

/// Old writers rounded times before 1970 towards 1970, so their files are in the partition after the right one.
fn early(result: &Value) -> Value {
    match result {
        Value::Int(n) if *n < 0 => Value::Int(n + 1),
        other => other.clone(),
    }
}

/// Metrics of a file's columns.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Metrics {
    /// Number of values, including NULL and NaN, by field id.
    pub value_counts: HashMap<i32, i64>,
    /// Number of NULLs by field id.
    pub null_counts: HashMap<i32, i64>,
    /// Number of NaNs by field id.
    pub nan_counts: HashMap<i32, i64>,
    /// Serialized lower bounds by field id.
    pub lower: HashMap<i32, Vec<u8>>,
    /// Serialized upper bounds by field id.
    pub upper: HashMap<i32, Vec<u8>>,
}

impl Metrics {
    /// Returns the bounds of a column of type `t`.
    pub fn range(&self, field: i32, t: crate::schema::Primitive) -> Range {
        let (values, nulls) = (self.value_counts.get(&field), self.null_counts.get(&field));
        let bound = |of: &HashMap<i32, Vec<u8>>| of.get(&field).and_then(|b| Value::from_bytes(t, b));
        let (lower, upper) = Range::bounds(bound(&self.lower), bound(&self.upper));
        Range {
            lower,
            upper,
            has_null: nulls.map(|n| *n > 0),
            all_null: values.zip(nulls).map(|(v, n)| v == n && *v > 0),
            has_nan: self.nan_counts.get(&field).map(|n| *n > 0),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metadata::PartitionField;

    fn between(lower: i64, upper: i64) -> Range {
        Range {
            lower: Some(Value::Int(lower)),
            upper: Some(Value::Int(upper)),
            has_null: Some(false),
            all_null: Some(false),
            has_nan: None,
        }
    }

    #[test]
    fn bounds_rule_out_only_what_they_prove() {
        let may = |p: &Predicate| p.may_match(&|f| (f == 1).then(|| between(10, 20)));
        let cmp = |op, v| Predicate::Compare(1, op, Value::Int(v));
        assert!(may(&cmp(Op::Eq, 10)) && may(&cmp(Op::Eq, 20)) && !may(&cmp(Op::Eq, 9)) && !may(&cmp(Op::Eq, 21)));
        assert!(!may(&cmp(Op::Lt, 10)) && may(&cmp(Op::LtEq, 10)) && !may(&cmp(Op::Gt, 20)) && may(&cmp(Op::GtEq, 20)));
        assert!(!may(&Predicate::IsNull(1)) && may(&Predicate::NotNull(1)) && may(&Predicate::IsNull(2)));
        assert!(!may(&Predicate::In(1, vec![Value::Int(1), Value::Int(30)])));
        assert!(may(&Predicate::Or(vec![cmp(Op::Eq, 1), Predicate::IsNull(2)])));
        assert!(!may(&Predicate::And(vec![cmp(Op::Eq, 1), Predicate::IsNull(2)])));
        let turned = Range::bounds(Some(Value::Bytes(vec![0xff])), Some(Value::Bytes(vec![1])));
        assert_eq!(turned, (None, None));
        // Another family: nothing is known.
        assert!(may(&Predicate::Compare(1, Op::Eq, Value::String("x".into()))));
        let floats = Range { lower: Some(Value::Double(1.0)), upper: Some(Value::Double(2.0)), ..Range::default() };
        let above = Predicate::Compare(1, Op::Gt, Value::Double(3.0));
        assert!(above.may_match(&|_| Some(floats.clone())));
        assert!(!above.may_match(&|_| Some(Range { has_nan: Some(false), ..floats.clone() })));
    }

    #[test]
    fn partitions_are_ruled_out_through_their_transforms() {
        let field = |transform| PartitionField { source_id: 1, field_id: 1000, name: "p".into(), transform };
        let may = |t, value: Option<i64>, p: &Predicate| {
            let spec = PartitionSpec { id: 0, fields: vec![field(t)] };
            let range = Range {
                lower: value.map(Value::Int),
                upper: value.map(Value::Int),
                has_null: Some(value.is_none()),
                all_null: Some(value.is_none()),
                has_nan: Some(false),
            };
            p.may_match_partition(&spec, &[Some(range)])
        };
        let cmp = |op, v| Predicate::Compare(1, op, v);
        let t = Transform::Truncate(10);
        assert!(may(t, Some(10), &cmp(Op::Lt, Value::Int(11))) && !may(t, Some(20), &cmp(Op::LtEq, Value::Int(19))));
        assert!(may(t, Some(10), &cmp(Op::Gt, Value::Int(19))) && !may(t, Some(10), &cmp(Op::GtEq, Value::Int(20))));
        let b = Transform::Bucket(16);
        let Some(Value::Int(bucket)) = b.apply(&Value::Int(34)) else { panic!() };
        assert!(may(b, Some(bucket), &cmp(Op::Eq, Value::Int(34))));
        assert!(!may(b, Some((bucket + 1) % 16), &cmp(Op::Eq, Value::Int(34))));
        assert!(may(b, Some(0), &cmp(Op::Lt, Value::Int(34))));
        let day = |d| Value::Date(d);
        assert!(
            may(Transform::Day, Some(5), &cmp(Op::Eq, day(5))) && !may(Transform::Day, Some(6), &cmp(Op::Eq, day(5)))
        );
        // Before 1970 the partition after the right one may hold rows, too.
        assert!(
            may(Transform::Day, Some(-4), &cmp(Op::Eq, day(-5)))
                && !may(Transform::Day, Some(-3), &cmp(Op::Eq, day(-5)))
        );
        assert!(may(Transform::Day, None, &Predicate::IsNull(1)) && !may(Transform::Day, None, &Predicate::NotNull(1)));
        assert!(!may(Transform::Identity, None, &cmp(Op::Eq, Value::Int(1))));
        assert!(may(Transform::Void, None, &cmp(Op::Eq, Value::Int(1))));
    }
}
