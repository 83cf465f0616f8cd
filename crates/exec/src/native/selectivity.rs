//! Which share of a table's rows passes a filter, as the optimizer estimates it.
//!
//! A join keeps its smaller side in memory, and which side that is depends on the filters of both. The estimate takes
//! values as evenly spread, between the least and the greatest one and among the different ones of a column.

use std::collections::BTreeMap;
use std::sync::Arc;

use datafusion::common::{ColumnStatistics, ScalarValue};
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{
    BinaryExpr, Column, DynamicFilterPhysicalExpr, InListExpr, IsNotNullExpr, IsNullExpr, LikeExpr, Literal, NotExpr,
};

use crate::rules::conditions::parts;

/// The share of conditions of which nothing is known.
const UNKNOWN: f64 = 1.0 / 3.0;
/// The share of `column = value` where the number of values is not known.
const EQUAL: f64 = 0.1;
/// The share of `column LIKE pattern`.
const LIKE: f64 = 0.1;

/// Statistics of a table, by the index of a column.
pub(super) trait Known {
    /// Statistics of a column.
    fn column(&self, at: usize) -> &ColumnStatistics;

    /// Number of rows of the table.
    fn rows(&self) -> u64;
}

/// Estimates the share of rows that pass all predicates, between 0 and 1.
///
/// Conditions of several columns often say the same, so that the product of their shares is too small. The smallest
/// share counts whole, and each further one by the root of the one before.
pub(super) fn share(predicates: &[Arc<dyn PhysicalExpr>], known: &dyn Known) -> f64 {
    let mut ranges: BTreeMap<usize, Range> = BTreeMap::new();
    let mut shares = Vec::new();
    for condition in predicates.iter().flat_map(parts) {
        match Range::of(condition) {
            Some((column, range)) => ranges.entry(column).or_default().meet(range),
            None => shares.push(of_one(condition, known)),
        }
    }
    shares.extend(ranges.iter().map(|(column, range)| range.share(known.column(*column))));
    shares.sort_by(f64::total_cmp);
    let mut weight = 1.0;
    let weighted = shares.iter().map(|share| {
        let share = share.powf(weight);
        weight /= 2.0;
        share
    });
    weighted.product::<f64>().clamp(0.0, 1.0)
}

/// Estimates the share of rows that pass one condition.
fn of_one(condition: &Arc<dyn PhysicalExpr>, known: &dyn Known) -> f64 {
    if let Some((column, range)) = Range::of(condition) {
        return range.share(known.column(column));
    }
    if let Some(binary) = condition.downcast_ref::<BinaryExpr>() {
        return match (binary.op(), column_of(binary.left()).or_else(|| column_of(binary.right()))) {
            (Operator::And, _) => share(&[Arc::clone(binary.left()), Arc::clone(binary.right())], known),
            (Operator::Or, _) => (of_one(binary.left(), known) + of_one(binary.right(), known)).min(1.0),
            (Operator::Eq | Operator::IsNotDistinctFrom, Some(at)) => of_values(known.column(at), 1),
            (Operator::NotEq | Operator::IsDistinctFrom, Some(at)) => 1.0 - of_values(known.column(at), 1),
            (Operator::RegexMatch, _) => LIKE,
            (Operator::RegexNotMatch, _) => 1.0 - LIKE,
            _ => UNKNOWN,
        };
    }
    if let Some(list) = condition.downcast_ref::<InListExpr>() {
        let Some(at) = column_of(list.expr()) else { return UNKNOWN };
        let inside = of_values(known.column(at), list.list().len());
        return if list.negated() { 1.0 - inside } else { inside };
    }
    if let Some(not) = condition.downcast_ref::<NotExpr>() {
        return 1.0 - of_one(not.arg(), known);
    }
    if let Some(like) = condition.downcast_ref::<LikeExpr>() {
        return if like.negated() { 1.0 - LIKE } else { LIKE };
    }
    let nulls = |at: usize| {
        let nulls = known.column(at).null_count.get_value().copied().unwrap_or(0);
        (nulls as f64 / known.rows().max(1) as f64).min(1.0)
    };
    if let Some(is_null) = condition.downcast_ref::<IsNullExpr>() {
        return column_of(is_null.arg()).map_or(UNKNOWN, nulls);
    }
    if let Some(is_not_null) = condition.downcast_ref::<IsNotNullExpr>() {
        return column_of(is_not_null.arg()).map_or(1.0 - UNKNOWN, |at| 1.0 - nulls(at));
    }
    match condition.downcast_ref::<Literal>().map(Literal::value) {
        Some(ScalarValue::Boolean(Some(true))) => 1.0,
        Some(_) => 0.0,
        // Nothing is known of what will be learnt while the query runs.
        None if condition.is::<DynamicFilterPhysicalExpr>() => 1.0,
        None => UNKNOWN,
    }
}

/// Estimates the share of rows whose column has one of so many values.
fn of_values(column: &ColumnStatistics, values: usize) -> f64 {
    let one = match column.distinct_count.get_value() {
        Some(distinct) => 1.0 / (*distinct).max(1) as f64,
        None => EQUAL,
    };
    (one * values as f64).min(1.0)
}

fn column_of(expr: &Arc<dyn PhysicalExpr>) -> Option<usize> {
    expr.downcast_ref::<Column>().map(Column::index)
}

/// Bounds that conditions set for a column.
#[derive(Debug, Clone, Copy)]
struct Range {
    least: f64,
    greatest: f64,
}

impl Default for Range {
    fn default() -> Self {
        Range { least: f64::NEG_INFINITY, greatest: f64::INFINITY }
    }
}

impl Range {
    /// Returns the bound that a comparison of a column with a number sets.
    fn of(condition: &Arc<dyn PhysicalExpr>) -> Option<(usize, Range)> {
        let binary = condition.downcast_ref::<BinaryExpr>()?;
        let literal = |e: &Arc<dyn PhysicalExpr>| number(e.downcast_ref::<Literal>()?.value());
        let (column, op, value) = match column_of(binary.left()) {
            Some(column) => (column, *binary.op(), literal(binary.right())?),
            None => (column_of(binary.right())?, binary.op().swap()?, literal(binary.left())?),
        };
        match op {
            Operator::Lt | Operator::LtEq => Some((column, Range { greatest: value, ..Range::default() })),
            Operator::Gt | Operator::GtEq => Some((column, Range { least: value, ..Range::default() })),
            _ => None,
        }
    }

    fn meet(&mut self, other: Range) {
        self.least = self.least.max(other.least);
        self.greatest = self.greatest.min(other.greatest);
    }

    /// Estimates the share of values within the range, at least that of one value.
    fn share(&self, column: &ColumnStatistics) -> f64 {
        let bound = |value: Option<&ScalarValue>| value.and_then(number);
        let bounds = bound(column.min_value.get_value()).zip(bound(column.max_value.get_value()));
        let Some((least, greatest)) = bounds.filter(|(least, greatest)| least <= greatest) else { return UNKNOWN };
        let (from, to) = (self.least.max(least), self.greatest.min(greatest));
        if from > to {
            return 0.0;
        }
        let within = (to - from) / (greatest - least).max(f64::MIN_POSITIVE);
        within.max(of_values(column, 1)).min(1.0)
    }
}

/// Returns the place of a number, a date or a time among others of its type.
fn number(value: &ScalarValue) -> Option<f64> {
    match value {
        ScalarValue::Int8(v) => v.map(f64::from),
        ScalarValue::Int16(v) => v.map(f64::from),
        ScalarValue::Int32(v) | ScalarValue::Date32(v) => v.map(f64::from),
        ScalarValue::Int64(v) | ScalarValue::TimestampMicrosecond(v, _) => v.map(|v| v as f64),
        ScalarValue::UInt64(v) => v.map(|v| v as f64),
        ScalarValue::Float32(v) => v.map(f64::from),
        ScalarValue::Float64(v) => *v,
        ScalarValue::Decimal128(v, _, scale) => v.map(|v| v as f64 / 10f64.powi(i32::from(*scale))),
        _ => None,
    }
    .filter(|v| v.is_finite())
}

#[cfg(test)]
mod tests {
    use datafusion::common::stats::Precision;
    use datafusion::physical_expr::expressions::lit;

    use super::*;

    /// A thousand rows: numbers from 0 to 100, of which 50 are different, and names, of which 20 are.
    struct Rows(Vec<ColumnStatistics>);

    impl Known for Rows {
        fn column(&self, at: usize) -> &ColumnStatistics {
            &self.0[at]
        }

        fn rows(&self) -> u64 {
            1000
        }
    }

    fn rows() -> Rows {
        let numbers = ColumnStatistics {
            min_value: Precision::Inexact(ScalarValue::Int32(Some(0))),
            max_value: Precision::Inexact(ScalarValue::Int32(Some(100))),
            distinct_count: Precision::Inexact(50),
            null_count: Precision::Inexact(100),
            ..ColumnStatistics::new_unknown()
        };
        let names = ColumnStatistics { distinct_count: Precision::Inexact(20), ..ColumnStatistics::new_unknown() };
        Rows(vec![numbers, names, ColumnStatistics::new_unknown()])
    }

    fn compare(column: usize, op: Operator, value: impl datafusion::logical_expr::Literal) -> Arc<dyn PhysicalExpr> {
        Arc::new(BinaryExpr::new(Arc::new(Column::new("c", column)), op, lit(value)))
    }

    #[test]
    fn shares_follow_the_statistics() {
        let of = |all: &[Arc<dyn PhysicalExpr>]| (share(all, &rows()) * 1000.0).round();
        assert_eq!(of(&[]), 1000.0);
        assert_eq!(of(&[compare(0, Operator::Lt, 25)]), 250.0);
        assert_eq!(of(&[compare(0, Operator::GtEq, 25), compare(0, Operator::Lt, 35)]), 100.0);
        assert_eq!(of(&[compare(0, Operator::GtEq, 25), compare(0, Operator::Lt, 25)]), 20.0, "one value");
        assert_eq!(of(&[compare(0, Operator::Gt, 100.5f64)]), 0.0);
        assert_eq!(of(&[compare(1, Operator::Eq, "a")]), 50.0);
        assert_eq!(of(&[compare(1, Operator::NotEq, "a")]), 950.0);
        assert_eq!(of(&[compare(2, Operator::Eq, "a")]), 100.0);
        assert_eq!(of(&[compare(2, Operator::Lt, 5)]), 333.0);
        let two = BinaryExpr::new(compare(1, Operator::Eq, "a"), Operator::Or, compare(1, Operator::Eq, "b"));
        assert_eq!(of(&[Arc::new(two)]), 100.0);
        assert_eq!(of(&[Arc::new(NotExpr::new(compare(1, Operator::Eq, "a")))]), 950.0);
        let number: Arc<dyn PhysicalExpr> = Arc::new(Column::new("c", 0));
        assert_eq!(of(&[Arc::new(IsNullExpr::new(Arc::clone(&number)))]), 100.0);
        assert_eq!(of(&[Arc::new(IsNotNullExpr::new(number))]), 900.0);
        assert_eq!(of(&[lit(false)]), 0.0);
        // 0.05 whole, and the root of 0.25.
        assert_eq!(of(&[compare(0, Operator::Lt, 25), compare(1, Operator::Eq, "a")]), 25.0);
    }
}
