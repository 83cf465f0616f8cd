//! IN lists beside each other, with SQL's three-valued logic.
//!
//! DataFusion's simplifier merges two lists over the same column into one. It compares items as they are written, and
//! says TRUE or FALSE where no item is left, although `NULL IN (..)` and `NULL NOT IN (..)` are both NULL: `k NOT IN
//! (1) OR k NOT IN (2)` would be true for a NULL, and `a IN (b) AND a IN (c)` would never be. Before that rule runs,
//! [`settle`] takes NULLs and non-literals out of the lists and writes out what an empty list means. Then the lists
//! that DataFusion merges are those that may be merged.
//!
//! Whether two lists are about the same column shows only once each is fully simplified: DataFusion simplifies `CAST(k
//! AS BIGINT) IN (1)` and `k + 0 IN (1)` to `k IN (1)`, and then merges that with `k IN (2)`.

use std::collections::{HashMap, HashSet};

use datafusion::common::Result;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::logical_expr::expr::InList;
use datafusion::logical_expr::{BinaryExpr, Cast, Expr, Operator, Volatility, lit};
use datafusion::optimizer::simplify_expressions::ExprSimplifier;
use datafusion::scalar::ScalarValue;

/// Whether DataFusion could turn the expression into one of another value.
pub fn is_concerned(expr: &Expr) -> bool {
    match expr {
        Expr::InList(_) => true,
        // `a = 1 OR a = 2` becomes a list, too.
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::Or, right }) => {
            [left, right].into_iter().any(|side| members(side).is_some())
        }
        _ => false,
    }
}

/// The part of an expression's value that matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wanted {
    /// Only whether it is true.
    True,
    /// Each of the three values.
    Exact,
}

fn unknown() -> Expr {
    lit(ScalarValue::Boolean(None))
}

/// Returns an expression that is NULL where x is NULL, else FALSE.
fn never(x: Expr) -> Expr {
    x.is_null().and(unknown())
}

/// Returns an expression that is NULL where x is NULL, else TRUE.
fn always(x: Expr) -> Expr {
    x.is_not_null().or(unknown())
}

/// Rewrites an expression so that DataFusion may merge its lists. The simplifier knows the columns that the expression
/// reads.
///
/// # Errors
/// An error of the simplifier.
pub fn settle(expr: Expr, wanted: Wanted, simplifier: &ExprSimplifier) -> Result<Expr> {
    let expr = with_constants(expr, simplifier)?;
    let simplifier = about_several(&expr)?.then_some(simplifier);
    Settling { simplifier }.settle(expr, wanted)
}

/// Evaluates constants such as `TIMESTAMP '2024-01-01 00:00:00'`, so that items that will be literals are treated as such.
fn with_constants(expr: Expr, simplifier: &ExprSimplifier) -> Result<Expr> {
    let is_constant = |e: &Expr| {
        let is_known = |e: &Expr| match e {
            Expr::Literal(..) | Expr::Cast(_) | Expr::TryCast(_) => true,
            Expr::ScalarFunction(f) => f.func.signature().volatility == Volatility::Immutable,
            _ => false,
        };
        e.exists(|e| Ok(!is_known(e))).map(|found| !found)
    };
    let evaluated = expr.transform_down(|e| {
        let may_be = matches!(e, Expr::Cast(_) | Expr::TryCast(_) | Expr::ScalarFunction(_));
        if !may_be || !is_constant(&e)? {
            return Ok(Transformed::no(e));
        }
        // A constant that fails has to fail where it is evaluated.
        let value = simplifier.simplify(e.clone()).unwrap_or(e);
        Ok(Transformed::new(value, true, TreeNodeRecursion::Jump))
    })?;
    Ok(evaluated.data)
}

/// Whether lists and comparisons are about different expressions that could be the same after simplification.
fn about_several(expr: &Expr) -> Result<bool> {
    let mut found: HashSet<&Expr> = HashSet::new();
    expr.apply(|e| {
        match e {
            Expr::InList(list) => drop(found.insert(list.expr.as_ref())),
            Expr::BinaryExpr(binary) => drop(compared(binary).map(|(x, _)| found.insert(x))),
            _ => (),
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(found.len() > 1 && found.iter().any(|x| !matches!(x, Expr::Column(_))))
}

/// The rewrite of one expression.
struct Settling<'a> {
    /// The simplifier of lists and comparisons, if they need it.
    simplifier: Option<&'a ExprSimplifier>,
}

impl Settling<'_> {
    fn settle(&self, expr: Expr, wanted: Wanted) -> Result<Expr> {
        match expr {
            Expr::BinaryExpr(BinaryExpr { op: op @ (Operator::And | Operator::Or), .. }) => {
                let mut operands = Vec::new();
                operands_of(expr, op, false, &mut operands);
                let operands = operands.into_iter().map(|e| self.settle(e, wanted)).collect::<Result<Vec<_>>>()?;
                Ok(chain(joined(operands, op, wanted), op))
            }
            Expr::Not(inner) => match *inner {
                Expr::BinaryExpr(BinaryExpr { left, op: op @ (Operator::And | Operator::Or), right }) => {
                    let op = if op == Operator::And { Operator::Or } else { Operator::And };
                    let (left, right) = (Expr::Not(left), Expr::Not(right));
                    self.settle(Expr::BinaryExpr(BinaryExpr::new(Box::new(left), op, Box::new(right))), wanted)
                }
                Expr::Not(inner) => self.settle(*inner, wanted),
                Expr::InList(list) => self.settle(Expr::InList(InList { negated: !list.negated, ..list }), wanted),
                inner => Ok(Expr::Not(Box::new(self.settle(inner, Wanted::Exact)?))),
            },
            Expr::InList(_) => match self.inside(expr)? {
                Expr::InList(list) => split(list, |list| self.simple(list)),
                other => Ok(other),
            },
            Expr::BinaryExpr(ref binary) if compared(binary).is_some() => {
                let settled = self.inside(expr)?;
                self.simple(settled)
            }
            other => self.inside(other),
        }
    }

    /// Settles the operands of an expression.
    fn inside(&self, expr: Expr) -> Result<Expr> {
        Ok(expr.map_children(|e| Ok(Transformed::yes(self.settle(e, Wanted::Exact)?)))?.data)
    }

    /// Simplifies a list or comparison whose operands are settled, so that it is about a bare column if it can be.
    fn simple(&self, expr: Expr) -> Result<Expr> {
        let x = match &expr {
            Expr::InList(list) => Some(list.expr.as_ref()),
            Expr::BinaryExpr(binary) => compared(binary).map(|(x, _)| x),
            _ => None,
        };
        match (self.simplifier, x) {
            (Some(simplifier), Some(x)) if !matches!(x, Expr::Column(_)) => simplifier.simplify(expr),
            _ => Ok(expr),
        }
    }
}

/// Returns the two sides of `x = literal`: x, and the literal.
fn compared(binary: &BinaryExpr) -> Option<(&Expr, &Expr)> {
    match (binary.left.as_ref(), binary.op, binary.right.as_ref()) {
        (Expr::Literal(..), _, Expr::Literal(..)) => None,
        // The other side may be a cast of a column, which the simplifier drops.
        (x, Operator::Eq, value @ Expr::Literal(..)) | (value @ Expr::Literal(..), Operator::Eq, x)
            if !x.is_volatile() =>
        {
            Some((x, value))
        }
        _ => None,
    }
}

/// Collects the operands of a chain of one operator, also where NOT stands before its opposite.
fn operands_of(expr: Expr, op: Operator, negated: bool, operands: &mut Vec<Expr>) {
    let here = match (op, negated) {
        (Operator::And, false) | (Operator::Or, true) => Operator::And,
        _ => Operator::Or,
    };
    match expr {
        Expr::BinaryExpr(BinaryExpr { left, op: found, right }) if found == here => {
            operands_of(*left, op, negated, operands);
            operands_of(*right, op, negated, operands);
        }
        Expr::Not(inner) => operands_of(*inner, op, !negated, operands),
        other if negated => operands.push(Expr::Not(Box::new(other))),
        other => operands.push(other),
    }
}

/// Returns the operands as a balanced tree: the simplifier looks through all that stands left of a term.
fn chain(operands: Vec<Expr>, op: Operator) -> Expr {
    in_pairs(operands, op).unwrap_or_else(|| lit(op == Operator::And))
}

/// Joins operands in pairs, in their order; `None` if there are none.
pub fn in_pairs(mut operands: Vec<Expr>, op: Operator) -> Option<Expr> {
    let both = |left: Expr, right: Expr| Expr::BinaryExpr(BinaryExpr::new(Box::new(left), op, Box::new(right)));
    while operands.len() > 1 {
        let mut pairs = Vec::with_capacity(operands.len().div_ceil(2));
        let mut from = operands.into_iter();
        while let Some(left) = from.next() {
            pairs.push(match from.next() {
                Some(right) => both(left, right),
                None => left,
            });
        }
        operands = pairs;
    }
    operands.pop()
}

/// Splits a list into one of literals, which goes through `simple`, and comparisons with NULL and non-literals beside
/// it.
fn split(list: InList, simple: impl Fn(Expr) -> Result<Expr>) -> Result<Expr> {
    let is_value = |item: &Expr| matches!(item, Expr::Literal(value, _) if !value.is_null());
    let subquery = matches!(list.list.as_slice(), [Expr::ScalarSubquery(_)]);
    let InList { expr, list, negated } = list;
    let mut list: Vec<Expr> = list.into_iter().map(as_literal).collect();
    both_zeros(&mut list);
    if subquery || expr.is_volatile() {
        return Ok(Expr::InList(InList { expr, list, negated }));
    }
    if list.iter().all(is_value) {
        return simple(Expr::InList(InList { expr, list, negated }));
    }
    let (values, others): (Vec<Expr>, Vec<Expr>) = list.into_iter().partition(is_value);
    let mut parts = Vec::with_capacity(others.len() + 1);
    if !values.is_empty() {
        parts.push(simple(Expr::InList(InList { expr: expr.clone(), list: values, negated }))?);
    }
    for item in others {
        parts.push(match item {
            Expr::Literal(..) => unknown(),
            item if negated => expr.as_ref().clone().not_eq(item),
            item => expr.as_ref().clone().eq(item),
        });
    }
    Ok(chain(parts, if negated { Operator::And } else { Operator::Or }))
}

/// Folds the cast of a literal: texts and decimals are cast to the type that they are compared with. A list of
/// thousands of casts would be as many comparisons per row instead of one search.
fn as_literal(item: Expr) -> Expr {
    let value = match &item {
        Expr::Cast(Cast { expr, field }) => {
            expr.as_literal().filter(|value| !value.is_null()).and_then(|v| v.cast_to(field.data_type()).ok())
        }
        _ => None,
    };
    match value {
        Some(value) if !value.is_null() => lit(value),
        _ => item,
    }
}

/// Adds -0.0 to a list with 0.0, because items are compared bit by bit.
fn both_zeros(list: &mut Vec<Expr>) {
    let zeros = |value: &ScalarValue| match value {
        ScalarValue::Float32(Some(0.0)) => vec![ScalarValue::Float32(Some(0.0)), ScalarValue::Float32(Some(-0.0))],
        ScalarValue::Float64(Some(0.0)) => vec![ScalarValue::Float64(Some(0.0)), ScalarValue::Float64(Some(-0.0))],
        _ => Vec::new(),
    };
    let zeros: Vec<ScalarValue> = list.iter().filter_map(Expr::as_literal).flat_map(zeros).collect();
    for zero in zeros {
        if !list.iter().any(|item| item.as_literal() == Some(&zero)) {
            list.push(lit(zero));
        }
    }
}

/// The statement that an expression is in a list of literals, or outside of it.
struct Members<'a> {
    x: &'a Expr,
    negated: bool,
    values: HashSet<&'a Expr>,
}

/// Reads an expression as membership of one other: a list, the chain of `=` that becomes a list, or a chain of lists.
fn members(expr: &Expr) -> Option<Members<'_>> {
    match expr {
        Expr::InList(InList { expr, list, negated }) if list.iter().all(|item| matches!(item, Expr::Literal(..))) => {
            Some(Members { x: expr, negated: *negated, values: list.iter().collect() })
        }
        Expr::BinaryExpr(binary) if binary.op == Operator::Eq => {
            let (x, value) = compared(binary)?;
            Some(Members { x, negated: false, values: HashSet::from([value]) })
        }
        Expr::BinaryExpr(BinaryExpr { left, op: op @ (Operator::And | Operator::Or), right }) => {
            let (mut left, right) = (members(left)?, members(right)?);
            let negated = *op == Operator::And;
            if left.x != right.x || left.negated != negated || right.negated != negated {
                return None;
            }
            left.values.extend(right.values);
            Some(left)
        }
        Expr::Not(inner) => members(inner).map(|found| Members { negated: !found.negated, ..found }),
        _ => None,
    }
}

/// Replaces the lists of AND or OR that have no value in common, which DataFusion would take for FALSE or TRUE.
fn joined(operands: Vec<Expr>, op: Operator, wanted: Wanted) -> Vec<Expr> {
    // A single `=` is not merged with anything here.
    let is_single = |e: &Expr| matches!(e, Expr::BinaryExpr(BinaryExpr { op: Operator::Eq, .. }));
    let found: Vec<Option<Members<'_>>> =
        operands.iter().map(|e| if is_single(e) { None } else { members(e) }).collect();
    let mut about: HashMap<&Expr, Vec<&Members<'_>>> = HashMap::new();
    found.iter().flatten().for_each(|one| about.entry(one.x).or_default().push(one));
    let mut empty: Vec<Expr> = Vec::new();
    // Lists are handled in the order of the text.
    for one in found.iter().flatten() {
        let Some(all) = about.remove(one.x).filter(|all| all.len() > 1) else { continue };
        let same = || all.iter().copied();
        // The values that all lists have in common: for AND the values of IN lists without those of NOT IN lists.
        let common = same().filter(|m| m.negated == (op == Operator::Or)).map(|m| m.values.clone());
        let Some(mut common) = common.reduce(|all, next| all.intersection(&next).copied().collect()) else { continue };
        if op == Operator::And {
            same().filter(|m| m.negated).for_each(|m| common.retain(|value| !m.values.contains(value)));
        }
        let concerned = same().filter(|m| op == Operator::And || m.negated).count();
        if concerned > 1 && common.is_empty() {
            empty.push(one.x.clone());
        }
    }
    // In a condition FALSE is as good as NULL.
    if op == Operator::And && wanted == Wanted::True {
        empty.clear();
    }
    let about: Vec<Option<(Expr, bool)>> = found.iter().map(|m| m.as_ref().map(|m| (m.x.clone(), m.negated))).collect();
    let concerned = |about: &Option<(Expr, bool)>| match about {
        Some((x, negated)) => empty.contains(x) && (op == Operator::And || *negated),
        None => false,
    };
    let settled: Vec<Expr> = empty
        .iter()
        .map(|x| match op {
            Operator::And => never(x.clone()),
            _ if wanted == Wanted::True => x.clone().is_not_null(),
            _ => always(x.clone()),
        })
        .collect();
    let rest = operands.iter().zip(&about).filter(|(_, about)| !concerned(about)).map(|(e, _)| e.clone());
    let mut rest: Vec<Expr> = rest.collect();
    if op == Operator::Or {
        rest = apart(rest);
    }
    rest.extend(settled);
    rest
}

/// Writes `x NOT IN (a, b)` of `(p AND x NOT IN (..)) OR (p AND x NOT IN (..))` as `x <> a AND x <> b`. DataFusion
/// factors out `p AND` and would merge the lists; it leaves the comparisons alone.
fn apart(operands: Vec<Expr>) -> Vec<Expr> {
    let lists = |e: &Expr| -> Vec<Expr> {
        let mut parts = Vec::new();
        operands_of(e.clone(), Operator::And, false, &mut parts);
        if parts.len() < 2 {
            return Vec::new();
        }
        let outside = parts.iter().filter_map(|part| match part {
            Expr::InList(list) if list.negated => Some(list.expr.as_ref().clone()),
            _ => None,
        });
        outside.collect()
    };
    let outside: Vec<Vec<Expr>> = operands.iter().map(lists).collect();
    let mut operands_with: HashMap<&Expr, usize> = HashMap::new();
    for lists in &outside {
        let lists: HashSet<&Expr> = lists.iter().collect();
        lists.into_iter().for_each(|x| *operands_with.entry(x).or_default() += 1);
    }
    let is_twice = |x: &Expr| operands_with.get(x).is_some_and(|operands| *operands > 1);
    if !outside.iter().flatten().any(is_twice) {
        return operands;
    }
    let unlisted = |part: Expr| match part {
        Expr::InList(InList { expr, list, negated: true }) if is_twice(&expr) => {
            chain(list.into_iter().map(|item| expr.as_ref().clone().not_eq(item)).collect(), Operator::And)
        }
        part => part,
    };
    operands
        .into_iter()
        .map(|operand| {
            let mut parts = Vec::new();
            operands_of(operand, Operator::And, false, &mut parts);
            chain(parts.into_iter().map(unlisted).collect(), Operator::And)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::datatypes::{DataType, Field, Schema};
    use datafusion::common::DFSchema;
    use datafusion::logical_expr::simplify::SimplifyContext;
    use datafusion::logical_expr::{cast, col};

    use super::*;

    fn settle(expr: Expr, wanted: Wanted) -> Result<Expr> {
        let columns = ["k", "b", "p"].map(|name| Field::new(name, DataType::Int64, true));
        let text = Field::new("s", DataType::Utf8View, true);
        let narrow = Field::new("i", DataType::Int32, true);
        let schema = Schema::new(columns.into_iter().chain([text, narrow]).collect::<Vec<_>>());
        let schema = Arc::new(DFSchema::try_from(schema)?);
        let simplifier = ExprSimplifier::new(SimplifyContext::builder().with_schema(schema).build());
        super::settle(expr, wanted, &simplifier)
    }

    fn is_in(values: &[i64]) -> Expr {
        col("k").in_list(values.iter().map(|v| lit(*v)).collect(), false)
    }

    fn is_outside(values: &[i64]) -> Expr {
        col("k").in_list(values.iter().map(|v| lit(*v)).collect(), true)
    }

    #[test]
    fn lists_without_common_values() {
        let k = || col("k");
        let exact = |e: Expr| settle(e, Wanted::Exact).unwrap();
        assert_eq!(exact(is_outside(&[1]).or(is_outside(&[2]))), always(k()));
        assert_eq!(exact(Expr::Not(Box::new(is_in(&[1]).and(is_in(&[2]))))), always(k()));
        assert_eq!(exact(is_in(&[1, 2]).and(is_in(&[3]))), never(k()));
        assert_eq!(exact(is_in(&[1, 2]).and(is_outside(&[1, 2, 3]))), never(k()));
        // Any two have a value in common, all three have none.
        assert_eq!(exact(is_in(&[1, 2]).and(is_in(&[2, 3])).and(is_in(&[1, 3]))), never(k()));
        assert_eq!(settle(is_outside(&[1]).or(is_outside(&[2])), Wanted::True).unwrap(), k().is_not_null());
        let kept = is_in(&[1, 2]).and(is_in(&[2, 3]));
        assert_eq!(exact(kept.clone()), kept);
        let chains = k().eq(lit(1i64)).or(k().eq(lit(2i64))).and(k().eq(lit(3i64)).or(k().eq(lit(4i64))));
        assert_eq!(exact(chains), never(k()));
    }

    #[test]
    fn lists_that_are_about_one_column_once_they_are_simple() {
        let i = || col("i");
        let wide = |values: &[i64], negated: bool| {
            cast(i(), DataType::Int64).in_list(values.iter().map(|v| lit(*v)).collect(), negated)
        };
        let list = |values: &[i32], negated: bool| i().in_list(values.iter().map(|v| lit(*v)).collect(), negated);
        let exact = |e: Expr| settle(e, Wanted::Exact).unwrap();
        // A list of one value is a comparison at that point, which DataFusion does not merge.
        let either = wide(&[1], true).or(list(&[2], true));
        assert_eq!(exact(either), i().not_eq(lit(1i32)).or(list(&[2], true)));
        assert_eq!(exact(wide(&[1, 2, 3, 4], true).or(list(&[5], true))), always(i()));
        assert_eq!(exact(wide(&[1, 2, 3, 4], false).and(list(&[5], false))), never(i()));
        // The lists have a value in common.
        let kept = list(&[1, 2, 3, 4], true).or(list(&[4], true));
        assert_eq!(exact(wide(&[1, 2, 3, 4], true).or(list(&[4], true))), kept);
        let comparisons = cast(i(), DataType::Int64).eq(lit(1i64)).or(cast(i(), DataType::Int64).eq(lit(2i64)));
        assert_eq!(exact(comparisons.and(list(&[3, 4], false))), never(i()));
    }

    #[test]
    fn lists_inside_of_lists() {
        let inner = || is_outside(&[1]).or(is_outside(&[2]));
        let outer = |x: Expr| x.in_list(vec![lit(true), lit(false)], false);
        assert_eq!(settle(outer(inner()), Wanted::Exact).unwrap(), outer(always(col("k"))));
        let item = lit(true).in_list(vec![inner()], false);
        assert_eq!(settle(item, Wanted::True).unwrap(), lit(true).eq(always(col("k"))));
    }

    #[test]
    fn what_is_no_literal_stands_beside_the_list() {
        let exact = |e: Expr| settle(e, Wanted::Exact).unwrap();
        let list = col("k").in_list(vec![lit(1i64), col("b"), lit(ScalarValue::Int64(None))], false);
        assert_eq!(exact(list), is_in(&[1]).or(col("k").eq(col("b"))).or(unknown()));
        let list = col("k").in_list(vec![col("b")], true);
        assert_eq!(exact(list), col("k").not_eq(col("b")));
    }

    #[test]
    fn casts_of_literals_stand_in_the_list() {
        let texts = |values: [&str; 2]| values.map(|v| Expr::Cast(Cast::new(Box::new(lit(v)), DataType::Utf8View)));
        let views = ["a", "b"].map(|v| lit(ScalarValue::Utf8View(Some(v.into()))));
        for negated in [false, true] {
            let list = col("s").in_list(texts(["a", "b"]).to_vec(), negated);
            let expected = col("s").in_list(views.to_vec(), negated);
            assert_eq!(settle(list, Wanted::Exact).unwrap(), expected);
        }
        // A cast that fails has to fail where it is evaluated.
        let no_number = Expr::Cast(Cast::new(Box::new(lit("x")), DataType::Int64));
        let list = col("k").in_list(vec![no_number.clone()], true);
        assert_eq!(settle(list, Wanted::Exact).unwrap(), col("k").not_eq(no_number));
    }

    #[test]
    fn lists_behind_a_common_condition() {
        let p = || col("p").gt(lit(1i64));
        let either = p().and(is_outside(&[1])).or(p().and(is_outside(&[2])));
        let k = |v: i64| col("k").not_eq(lit(v));
        assert_eq!(settle(either, Wanted::True).unwrap(), p().and(k(1)).or(p().and(k(2))));
    }
}
