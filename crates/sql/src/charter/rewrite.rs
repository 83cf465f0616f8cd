//! Rewrites of MySQL spellings that DataFusion's planner does not know, on the syntax tree. None of them needs a type.
//!
//! | written | becomes |
//! |---|---|
//! | `x BETWEEN a AND b` | `x >= a AND x <= b`: each comparison coerces like any other, see [`super::once`] |
//! | `CASE x WHEN a` | `CASE WHEN x = a`, for the same reason |
//! | `x COLLATE c` | see [`super::collations`] |
//! | `IF(c, a, b)` | `CASE WHEN c THEN a ELSE b END`: only one side is evaluated |
//! | `CASE WHEN c` with a CASE in c | `CASE TRUE WHEN c`, see [`super::cases`] |
//! | `a RLIKE b` | `a ~ b` |
//! | `CAST(x AS t)` | `TRY_CAST`: NULL where it fails |
//! | `-x` | `0 - x`, which widens instead of wrapping |
//! | `INTERVAL expr unit` | `dipper_interval(expr, 'unit')` unless expr is a literal |
//! | `TIMESTAMPDIFF(unit, ..)` | unit as a string |
//! | `(a, b) IN (SELECT x, y ..)` | EXISTS, see [`super::row_subqueries`] |
//! | `(a, b) = (1, 2)`, `(a, b) IN ((1, 2), ..)` | comparisons of values, see [`super::row_comparisons`] |
//! | `GROUP BY a WITH ROLLUP` or `CUBE` | `GROUP BY ROLLUP (a)`, `CUBE (a)` |
//! | `HAVING` | names of the select list are replaced by their items, see [`super::having`] |
//! | `WHERE x`, `x AND y` | conditions become boolean where they are used |

use dipper_base::types::SqlType;
use dipper_dialect::error::SqlError;
use dipper_dialect::parser::{TYPE_NAME, parse_type};
use dipper_dialect::tree::{call, function_name};
use dipper_dialect::walk::{self, Change};
use sqlparser::ast::{
    self, AccessExpr, BinaryOperator, CastKind, Expr, FunctionArg, FunctionArgExpr, FunctionArguments, GroupByExpr,
    GroupByWithModifier, Ident, JoinConstraint, JoinOperator, LimitClause, Offset, OffsetRows, Query, Select,
    SelectItem, SetExpr, SetOperator, Subscript, TableFactor, UnaryOperator, Value,
};

use super::cases::{case, choice, is_simple, sheltered};
use super::casts::by_part;
use super::once::Form;
use super::row_comparisons::{comparison, in_list};
use super::{collations, grouping_keys, having, row_comparisons, row_subqueries};
use crate::functions::{self, CAST_JSON, CAST_PARTS, CAST_VARIANT};

/// Functions whose first argument is a unit without quotes.
const UNIT_FIRST: &[&str] = &["timestampdiff", "timestampadd"];

/// Units that Arrow's interval parser knows.
const NATIVE_UNITS: &[&str] = &["year", "month", "week", "day", "hour", "minute", "second"];

/// Rewrites a whole query in place. With `strict_casts`, a written CAST fails where it would give NULL.
pub(super) fn rewrite(query: &mut Query, strict_casts: bool) -> Result<(), SqlError> {
    walk::change(query, &mut Rewriter { strict_casts })
}

struct Rewriter {
    strict_casts: bool,
}

pub(super) fn binary(left: Expr, op: BinaryOperator, right: Expr) -> Expr {
    Expr::BinaryOp { left: Box::new(left), op, right: Box::new(right) }
}

pub(super) fn nested(expr: Expr) -> Expr {
    match expr {
        Expr::Nested(_) | Expr::Identifier(_) | Expr::Value(_) | Expr::Function(_) => expr,
        other => Expr::Nested(Box::new(other)),
    }
}

/// A flag before a pattern, by which a point matches line ends.
const POINTS_ARE_ALL: &str = "(?s)";

pub(super) fn string(text: impl Into<String>) -> Expr {
    Expr::value(Value::SingleQuotedString(text.into()))
}

/// Returns the arguments if all of them are plain expressions.
pub(super) fn plain_args(function: &ast::Function) -> Option<Vec<Expr>> {
    let FunctionArguments::List(list) = &function.args else { return None };
    if list.duplicate_treatment.is_some() || !list.clauses.is_empty() {
        return None;
    }
    list.args
        .iter()
        .map(|arg| match arg {
            FunctionArg::Unnamed(FunctionArgExpr::Expr(e)) => Some(e.clone()),
            _ => None,
        })
        .collect()
}

/// Whether an expression yields a boolean by its syntax alone.
fn is_boolean(expr: &Expr) -> bool {
    use BinaryOperator as Op;
    match expr {
        Expr::Nested(inner) => is_boolean(inner),
        Expr::BinaryOp { op, .. } => matches!(
            op,
            Op::Eq
                | Op::NotEq
                | Op::Lt
                | Op::LtEq
                | Op::Gt
                | Op::GtEq
                | Op::Spaceship
                | Op::And
                | Op::Or
                | Op::Xor
                | Op::PGRegexMatch
                | Op::PGRegexNotMatch
        ),
        Expr::UnaryOp { op: UnaryOperator::Not | UnaryOperator::BangNot, .. } => true,
        Expr::Value(v) => matches!(v.value, Value::Boolean(_)),
        Expr::IsNull(_)
        | Expr::IsNotNull(_)
        | Expr::IsTrue(_)
        | Expr::IsNotTrue(_)
        | Expr::IsFalse(_)
        | Expr::IsNotFalse(_)
        | Expr::IsUnknown(_)
        | Expr::IsNotUnknown(_)
        | Expr::InList { .. }
        | Expr::InSubquery { .. }
        | Expr::Exists { .. }
        | Expr::Like { .. }
        | Expr::ILike { .. }
        | Expr::Between { .. }
        | Expr::RLike { .. } => true,
        _ => false,
    }
}

/// Makes a condition boolean: `x` becomes `x AND TRUE`, which the operator planner turns into `x <> 0`.
pub(super) fn condition(expr: &mut Expr) {
    if !is_boolean(expr) {
        let inner = std::mem::replace(expr, Expr::value(Value::Null));
        *expr = binary(nested(inner), BinaryOperator::And, Expr::value(Value::Boolean(true)));
    }
}

fn join_condition(operator: &mut JoinOperator) {
    use JoinOperator as J;
    let constraint = match operator {
        J::Join(c)
        | J::Inner(c)
        | J::Left(c)
        | J::LeftOuter(c)
        | J::Right(c)
        | J::RightOuter(c)
        | J::FullOuter(c)
        | J::CrossJoin(c)
        | J::Semi(c)
        | J::LeftSemi(c)
        | J::RightSemi(c)
        | J::Anti(c)
        | J::LeftAnti(c)
        | J::RightAnti(c)
        | J::StraightJoin(c) => c,
        _ => return,
    };
    if let JoinConstraint::On(expr) = constraint {
        condition(expr);
    }
    // MySQL: CROSS JOIN with ON, and STRAIGHT_JOIN, are inner joins.
    let constraint = constraint.clone();
    match operator {
        J::StraightJoin(_) => *operator = J::Inner(constraint),
        J::CrossJoin(c) if *c != JoinConstraint::None => *operator = J::Inner(constraint),
        _ => {}
    }
}

/// Whether the planner reads an interval of this value and unit, in lower case.
pub(super) fn is_native(text: &str, unit: &str) -> bool {
    NATIVE_UNITS.contains(&unit) && text.trim().parse::<i64>().is_ok()
}

/// Returns the text of a literal, with its sign.
pub(super) fn literal_text(expr: &Expr) -> Option<String> {
    match expr {
        Expr::Value(v) => match &v.value {
            Value::Number(n, _) => Some(n.clone()),
            Value::SingleQuotedString(s) | Value::DoubleQuotedString(s) => Some(s.clone()),
            _ => None,
        },
        Expr::Nested(inner) => literal_text(inner),
        Expr::UnaryOp { op: UnaryOperator::Minus, expr } => literal_text(expr).map(|t| format!("-{t}")),
        _ => None,
    }
}

impl Rewriter {
    fn rewritten(&self, expr: &mut Expr) -> Result<(), SqlError> {
        let taken = std::mem::replace(expr, Expr::value(Value::Null));
        *expr = match taken {
            Expr::Value(value) => literal(value),
            Expr::BinaryOp { op: BinaryOperator::Assignment, .. } => {
                let what =
                    "@variable := value is for items of a SELECT without FROM: SET @variable = (SELECT ...) sets one";
                return Err(SqlError::unsupported(what, None));
            }
            Expr::Between { expr, negated, low, high } => {
                let (x, low, high) = (nested(*expr), nested(*low), nested(*high));
                let inside = match is_simple(&x) {
                    true => Expr::Nested(Box::new(binary(
                        comparison(x.clone(), BinaryOperator::GtEq, low)?,
                        BinaryOperator::And,
                        comparison(x, BinaryOperator::LtEq, high)?,
                    ))),
                    false => call(Form::Between.name(), vec![x, low, high]),
                };
                if negated { Expr::UnaryOp { op: UnaryOperator::Not, expr: Box::new(inside) } } else { inside }
            }
            Expr::Case { case_token, end_token, operand, mut conditions, else_result } => {
                let operand = match operand {
                    Some(x) => choice(*x, &mut conditions)?,
                    None => {
                        conditions.iter_mut().for_each(|when| condition(&mut when.condition));
                        sheltered(&conditions)
                    }
                };
                Expr::Case { case_token, end_token, operand, conditions, else_result }
            }
            Expr::RLike { negated, expr, pattern, .. } => {
                let op = if negated { BinaryOperator::PGRegexNotMatch } else { BinaryOperator::PGRegexMatch };
                // A point matches line ends, too, as in Doris.
                let pattern = match pattern.as_ref() {
                    Expr::Value(value) if let Value::SingleQuotedString(text) = &value.value => {
                        string(format!("{POINTS_ARE_ALL}{text}"))
                    }
                    _ => call("concat", vec![string(POINTS_ARE_ALL.to_string()), *pattern]),
                };
                Expr::Nested(Box::new(binary(nested(*expr), op, pattern)))
            }
            Expr::Like { negated, any, expr, pattern, escape_char } => {
                let (pattern, escape_char) = like_escape(*pattern, escape_char);
                Expr::Like { negated, any, expr, pattern: Box::new(pattern), escape_char }
            }
            Expr::Cast { kind, expr, data_type, array, format }
                if kind == CastKind::Cast && self.strict_casts
                    || kind == CastKind::TryCast && is_nested(&data_type) =>
            {
                let name = string(match &data_type {
                    ast::DataType::Custom(name, modifiers) if name.to_string() == TYPE_NAME => modifiers.join(""),
                    other => other.to_string(),
                });
                let check = if kind == CastKind::Cast { super::typed::STRICT_NAME } else { super::typed::WHOLE_NAME };
                let given = (*expr).clone();
                let cast = cast(kind, *expr, data_type, array, format)?;
                call(check, vec![cast, given, name])
            }
            Expr::Cast { kind, expr, data_type, array, format } => cast(kind, *expr, data_type, array, format)?,
            Expr::UnaryOp { op, expr } => match op {
                UnaryOperator::Plus => *expr,
                // A negative number is one literal, because the smallest integer has no positive counterpart.
                UnaryOperator::Minus if matches!(&*expr, Expr::Value(v) if matches!(v.value, Value::Number(..))) => {
                    Expr::UnaryOp { op, expr }
                }
                UnaryOperator::Minus => Expr::Nested(Box::new(binary(
                    Expr::value(Value::Number("0".into(), false)),
                    BinaryOperator::Minus,
                    nested(*expr),
                ))),
                UnaryOperator::Not | UnaryOperator::BangNot => {
                    let mut inner = *expr;
                    condition(&mut inner);
                    Expr::Nested(Box::new(Expr::UnaryOp { op: UnaryOperator::Not, expr: Box::new(nested(inner)) }))
                }
                UnaryOperator::BitwiseNot => {
                    // ~x is -1 - x in two's complement.
                    Expr::Nested(Box::new(binary(nested(*expr), BinaryOperator::BitwiseXor, minus_one())))
                }
                op => Expr::UnaryOp { op, expr },
            },
            Expr::IsTrue(e) => Expr::IsTrue(boolean(e)),
            Expr::IsNotTrue(e) => Expr::IsNotTrue(boolean(e)),
            Expr::IsFalse(e) => Expr::IsFalse(boolean(e)),
            Expr::IsNotFalse(e) => Expr::IsNotFalse(boolean(e)),
            Expr::IsUnknown(e) => Expr::IsNull(e),
            Expr::IsNotUnknown(e) => Expr::IsNotNull(e),
            Expr::IsNotDistinctFrom(a, b) => comparison(nested(*a), BinaryOperator::Spaceship, nested(*b))?,
            Expr::IsDistinctFrom(a, b) => {
                let same = nested(comparison(nested(*a), BinaryOperator::Spaceship, nested(*b))?);
                Expr::Nested(Box::new(Expr::UnaryOp { op: UnaryOperator::Not, expr: Box::new(same) }))
            }
            Expr::BinaryOp { left, op, right } => comparison(*left, op, *right)?,
            Expr::InList { expr, list, negated } => in_list(expr, list, negated)?,
            Expr::Collate { expr, collation } => collations::elsewhere(*expr, &collation.to_string())?,
            Expr::Prefixed { value, .. } => *value,
            Expr::Interval(interval) => self.interval(interval),
            Expr::Function(function) => match super::refused::reason(&function) {
                Some(what) => return Err(SqlError::unsupported(what, None)),
                None => self.function(function),
            },
            Expr::CompoundFieldAccess { root, access_chain } => fields(*root, access_chain),
            // The planner plans the elements of a literal without the parameters of a lambda and without outer queries.
            Expr::Array(array) => call("make_array", array.elem),
            other => row_subqueries::value(other),
        };
        Ok(())
    }

    fn interval(&self, interval: ast::Interval) -> Expr {
        let unit = interval.leading_field.as_ref().map(|f| f.to_string().to_ascii_lowercase());
        match (literal_text(&interval.value), &unit) {
            (Some(text), Some(unit)) if is_native(&text, unit) => {
                Expr::Interval(ast::Interval { value: Box::new(string(text.trim())), ..interval })
            }
            (_, Some(unit)) => call(super::interval::NAME, vec![*interval.value, string(unit.clone())]),
            (_, None) => Expr::Interval(interval),
        }
    }

    fn function(&self, function: ast::Function) -> Expr {
        let Some(name) = function_name(&function) else { return Expr::Function(function) };
        if function.over.is_none()
            && let Some(args) = plain_args(&function)
        {
            let count = args.len();
            let mut args = args.into_iter();
            match (name.as_str(), count, args.next(), args.next(), args.next()) {
                ("if", 3, Some(mut test), Some(yes), Some(no)) => {
                    condition(&mut test);
                    return case(vec![(test, yes)], Some(no));
                }
                ("isnull", 1, Some(x), ..) => return Expr::Nested(Box::new(Expr::IsNull(Box::new(nested(x))))),
                ("mod", 2, Some(a), Some(b), _) => {
                    return Expr::Nested(Box::new(binary(nested(a), BinaryOperator::Modulo, nested(b))));
                }
                ("nullif", 2, Some(a), Some(b), _) if is_simple(&a) => {
                    let equal = binary(nested(a.clone()), BinaryOperator::Eq, nested(b));
                    return case(vec![(equal, Expr::value(Value::Null))], Some(a));
                }
                ("nullif", 2, Some(a), Some(b), _) => return call(Form::NullIf.name(), vec![a, b]),
                _ => {}
            }
        }
        Expr::Function(function)
    }
}

/// Rewrites accesses such as `l[1].a` and `f().a`: names after something that is not a name are fields, which the
/// planner takes as strings; leading names stay columns. `l[2:3]` becomes `array_slice(l, 2, 3)`: three elements from
/// the second on.
fn fields(root: Expr, access_chain: Vec<AccessExpr>) -> Expr {
    let is_name = |access: &AccessExpr| matches!(access, AccessExpr::Dot(Expr::Identifier(_)));
    let names = match &root {
        Expr::Identifier(_) => access_chain.iter().take_while(|access| is_name(access)).count(),
        _ => 0,
    };
    let (mut of, mut chain) = (root, Vec::new());
    let accessed = |of: Expr, chain: Vec<AccessExpr>| match chain.is_empty() {
        true => of,
        false => Expr::CompoundFieldAccess { root: Box::new(of), access_chain: chain },
    };
    for (at, access) in access_chain.into_iter().enumerate() {
        match access {
            AccessExpr::Dot(Expr::Identifier(name)) if at >= names => chain.push(AccessExpr::Dot(string(name.value))),
            AccessExpr::Subscript(Subscript::Slice { lower_bound, upper_bound, stride: None }) => {
                let from = lower_bound.unwrap_or_else(|| Expr::value(Value::Number("1".into(), false)));
                let mut args = vec![accessed(of, std::mem::take(&mut chain)), from];
                args.extend(upper_bound);
                of = call("array_slice", args);
            }
            access => chain.push(access),
        }
    }
    accessed(of, chain)
}

fn literal(value: ast::ValueWithSpan) -> Expr {
    match value.value {
        Value::DoubleQuotedString(s) | Value::NationalStringLiteral(s) => string(s),
        // A number with an exponent is a double; other numbers are integers or decimals.
        Value::Number(n, long) if n.contains(['e', 'E']) => Expr::Cast {
            kind: CastKind::Cast,
            expr: Box::new(string(if long { n.trim_end_matches('L').to_string() } else { n })),
            data_type: ast::DataType::Double(ast::ExactNumberInfo::None),
            array: false,
            format: None,
        },
        other => Expr::Value(other.into()),
    }
}

fn minus_one() -> Expr {
    Expr::UnaryOp { op: UnaryOperator::Minus, expr: Box::new(Expr::value(Value::Number("1".into(), false))) }
}

fn boolean(expr: Box<Expr>) -> Box<Expr> {
    let mut expr = *expr;
    condition(&mut expr);
    Box::new(nested(expr))
}

/// Rewrites LIKE patterns with an escape character other than the backslash, which is the only one that DataFusion
/// knows.
pub(super) fn like_escape(pattern: Expr, escape: Option<ast::ValueWithSpan>) -> (Expr, Option<ast::ValueWithSpan>) {
    let escape_text = match escape.as_ref().map(|e| &e.value) {
        Some(Value::SingleQuotedString(s) | Value::DoubleQuotedString(s)) => s.clone(),
        None => "\\".to_string(),
        _ => return (pattern, escape),
    };
    let escape_char = escape_text.chars().next();
    let Some(text) = literal_text(&pattern) else {
        if escape_char == Some('\\') {
            return (pattern, None);
        }
        let escaped = escape_char.map(|c| format!("{}(.)|", regex::escape(c.encode_utf8(&mut [0; 4]))));
        let found = format!(r"(?s){}(\\)", escaped.unwrap_or_default());
        // Only one of the two groups captures a character, the other is empty.
        return (call("regexp_replace", vec![pattern, string(found), string(r"\\\1\2")]), None);
    };
    let mut out = String::new();
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        // An escape before an ordinary letter, or at the end, stands for itself.
        let is_special = |next: char| matches!(next, '%' | '_') || Some(next) == escape_char;
        match chars.clone().next().filter(|next| Some(c) == escape_char && is_special(*next)) {
            Some(next) => {
                out.push('\\');
                out.push(next);
                chars.next();
            }
            None if c == '\\' => out.push_str("\\\\"),
            None => out.push(c),
        }
    }
    (string(out), None)
}

/// Returns a type of dipper's own, in the form in which the parser writes it.
fn type_named(text: &str) -> ast::DataType {
    ast::DataType::Custom(ast::ObjectName::from(vec![Ident::new(TYPE_NAME)]), vec![text.to_string()])
}

/// Whether a type of dipper's own is one of arrays, maps or structs.
fn is_nested(data_type: &ast::DataType) -> bool {
    let ast::DataType::Custom(name, modifiers) = data_type else { return false };
    let ours = modifiers.first().filter(|_| name.to_string() == TYPE_NAME).and_then(|text| parse_type(text).ok());
    matches!(ours, Some(SqlType::Array(_) | SqlType::Map(..) | SqlType::Struct(_)))
}

/// Rewrites a cast: it gives NULL where it fails, `CHAR(n)` truncates, `DATETIME(p)` rounds.
fn cast(
    kind: CastKind,
    expr: Expr,
    data_type: ast::DataType,
    array: bool,
    format: Option<ast::CastFormat>,
) -> Result<Expr, SqlError> {
    let ours = match &data_type {
        ast::DataType::Custom(name, modifiers) if name.to_string() == TYPE_NAME => {
            modifiers.first().map(|text| parse_type(text)).transpose()?
        }
        _ => None,
    };
    if let Some(SqlType::AggState(of)) = &ours {
        let message = format!("CAST to AGG_STATE is not supported; {}_state(...) makes states", of.function);
        return Err(SqlError::unsupported(message, None));
    }
    // TIME values are texts.
    if let Some(SqlType::Time(p)) = ours {
        return Ok(call("time", vec![expr, Expr::value(Value::Number(p.to_string(), false))]));
    }
    // Text that is not JSON becomes NULL.
    if ours == Some(SqlType::Json) {
        return Ok(call(CAST_JSON, vec![expr]));
    }
    if ours == Some(SqlType::Variant) {
        return Ok(call(CAST_VARIANT, vec![expr]));
    }
    // The lengths and digits of parts are not in the Arrow type, and that texts are no documents. A parameter gets its
    // type from a plain cast.
    if let Some(nested @ (SqlType::Array(_) | SqlType::Map(..) | SqlType::Struct(_))) = &ours
        && (by_part::has_limits(nested) || by_part::has_texts(nested))
        && !matches!(&expr, Expr::Value(value) if matches!(value.value, Value::Placeholder(_)))
    {
        return Ok(call(CAST_PARTS, vec![expr, string(nested.to_string())]));
    }
    // LARGEINT truncates fractions, and its Arrow type is this decimal, which rounds them.
    if ours == Some(SqlType::Decimal(39, 0)) {
        let digits = cast(kind, expr, type_named("decimal(76,36)"), false, None)?;
        return cast(CastKind::TryCast, call("round", vec![digits]), type_named("largeint"), array, format);
    }
    let kind = if kind == CastKind::Cast && ours.is_none() { kind } else { CastKind::TryCast };
    let named = (!matches!(expr, Expr::Value(_))).then(|| string(data_type.to_string()));
    let cast = Expr::Cast { kind, expr: Box::new(expr), data_type, array, format };
    Ok(match ours {
        Some(SqlType::Char(Some(n)) | SqlType::Varchar(Some(n))) => {
            call("left", vec![cast, Expr::value(Value::Number(n.to_string(), false))])
        }
        Some(SqlType::DateTime(p)) if p < 6 => {
            call(super::datetime::ROUND_NAME, vec![cast, Expr::value(Value::Number(p.to_string(), false))])
        }
        _ => match named {
            Some(name) => call(super::typed::CAST_NAME, vec![cast, name]),
            None => cast,
        },
    })
}

impl Change for Rewriter {
    fn query(&mut self, query: &mut Query) -> Result<(), SqlError> {
        // Locks are dropped: they are for tables that are changed in place.
        query.locks.clear();
        having::rewrite(query);
        except(&mut query.body);
        whole_limit(query);
        Ok(())
    }

    fn select(&mut self, select: &mut Select) -> Result<(), SqlError> {
        select_clauses(select)
    }

    fn after_query(&mut self, query: &mut Query) -> Result<(), SqlError> {
        name_keys(query);
        Ok(())
    }

    fn expr(&mut self, expr: &mut Expr) -> Result<(), SqlError> {
        collations::compared(expr)
    }

    fn after_expr(&mut self, expr: &mut Expr) -> Result<(), SqlError> {
        self.rewritten(expr)?;
        if let Expr::Function(function) = expr {
            name_casts(function);
        }
        Ok(())
    }
}

/// Gives casts of literals names that say their type. DataFusion leaves casts out of the names of columns:
/// `count(CAST(1 AS DECIMAL))` beside `count(*)` would be two columns of one name, and so would the keys
/// `CAST('1' AS INT)` and `CAST('1' AS BIGINT)` of GROUP BY.
struct NamedCasts;

impl Change for NamedCasts {
    fn after_expr(&mut self, expr: &mut Expr) -> Result<(), SqlError> {
        match expr {
            Expr::Cast { expr: of, data_type, .. } if matches!(**of, Expr::Value(_)) => {
                let name = string(data_type.to_string());
                let cast = std::mem::replace(expr, Expr::value(Value::Null));
                *expr = call(super::typed::CAST_NAME, vec![cast, name]);
            }
            // A cast that had a name already.
            Expr::Function(function) if is_named(function) => {
                if let FunctionArguments::List(list) = &mut function.args
                    && let Some(FunctionArg::Unnamed(FunctionArgExpr::Expr(inner))) = list.args.first_mut()
                    && matches!(inner, Expr::Function(inner) if is_named(inner))
                {
                    *expr = std::mem::replace(inner, Expr::value(Value::Null));
                }
            }
            _ => {}
        }
        Ok(())
    }
}

/// Whether a call is the one that gives a cast its name.
fn is_named(function: &ast::Function) -> bool {
    function_name(function).is_some_and(|name| name == super::typed::CAST_NAME)
}

/// Names the casts in the arguments of an aggregate or window function, and in its window.
fn name_casts(function: &mut ast::Function) {
    let is_grouped =
        function.over.is_some() || function_name(function).is_some_and(|name| functions::is_aggregate(&name));
    if !is_grouped {
        return;
    }
    // Rewriting cannot fail.
    if let FunctionArguments::List(list) = &mut function.args {
        for arg in &mut list.args {
            if let FunctionArg::Unnamed(FunctionArgExpr::Expr(arg)) = arg {
                let _ = walk::change_expr(arg, &mut NamedCasts);
            }
        }
    }
    if let Some(ast::WindowType::WindowSpec(window)) = &mut function.over {
        let keys = window.order_by.iter_mut().map(|key| &mut key.expr);
        for key in window.partition_by.iter_mut().chain(keys) {
            let _ = walk::change_expr(key, &mut NamedCasts);
        }
    }
}

/// Names the casts in the clauses of a query that has a GROUP BY, and may have a cast as a key.
fn name_keys(query: &mut Query) {
    let SetExpr::Select(select) = query.body.as_mut() else { return };
    let GroupByExpr::Expressions(keys, _) = &mut select.group_by else { return };
    if keys.is_empty() {
        return;
    }
    let items = select.projection.iter_mut().filter_map(|item| match item {
        SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => Some(expr),
        _ => None,
    });
    let order = match &mut query.order_by {
        Some(ast::OrderBy { kind: ast::OrderByKind::Expressions(order), .. }) => order.as_mut_slice(),
        _ => &mut [],
    };
    let order = order.iter_mut().map(|key| &mut key.expr);
    for expr in keys.iter_mut().chain(items).chain(&mut select.having).chain(&mut select.qualify).chain(order) {
        // Rewriting cannot fail.
        let _ = walk::change_expr(expr, &mut NamedCasts);
    }
}

/// Whether the operator computes a number from numbers.
pub(super) fn is_arithmetic(op: &BinaryOperator) -> bool {
    use BinaryOperator as Op;
    matches!(
        op,
        Op::Plus
            | Op::Minus
            | Op::Multiply
            | Op::Divide
            | Op::MyIntegerDivide
            | Op::Modulo
            | Op::BitwiseAnd
            | Op::BitwiseOr
            | Op::BitwiseXor
            | Op::PGBitwiseShiftLeft
            | Op::PGBitwiseShiftRight
    )
}

/// Replaces MINUS by EXCEPT.
fn except(body: &mut SetExpr) {
    if let SetExpr::SetOperation { op, left, right, .. } = body {
        if *op == SetOperator::Minus {
            *op = SetOperator::Except;
        }
        except(left);
        except(right);
    }
}

/// Removes a limit above BIGINT: `LIMIT n, 18446744073709551615` means all remaining rows (MySQL's manual says so).
fn whole_limit(query: &mut Query) {
    let limits_nothing = |limit: &Expr| match limit {
        Expr::Value(value) => match &value.value {
            Value::Number(n, _) => n.parse::<i64>().is_err() && n.parse::<u64>().is_ok(),
            _ => false,
        },
        _ => false,
    };
    match &mut query.limit_clause {
        Some(LimitClause::LimitOffset { limit, .. }) if limit.as_ref().is_some_and(limits_nothing) => *limit = None,
        Some(LimitClause::OffsetCommaLimit { offset, limit }) if limits_nothing(limit) => {
            let value = std::mem::replace(offset, Expr::value(Value::Null));
            let offset = Some(Offset { value, rows: OffsetRows::None });
            query.limit_clause = Some(LimitClause::LimitOffset { limit: None, offset, limit_by: Vec::new() });
        }
        _ => {}
    }
}

fn select_clauses(select: &mut Select) -> Result<(), SqlError> {
    if let Some(selection) = &mut select.selection {
        row_subqueries::condition(selection);
        condition(selection);
    }
    if let Some(having) = &mut select.having {
        row_subqueries::condition(having);
        condition(having);
    }
    for from in &mut select.from {
        for join in &mut from.joins {
            join_condition(&mut join.join_operator);
        }
    }
    if let GroupByExpr::Expressions(exprs, modifiers) = &mut select.group_by
        && !modifiers.is_empty()
    {
        let modifiers = std::mem::take(modifiers);
        let keys = std::mem::take(exprs).into_iter().map(|e| vec![e]).collect();
        exprs.push(match modifiers.as_slice() {
            [GroupByWithModifier::Rollup] => Expr::Rollup(keys),
            [GroupByWithModifier::Cube] => Expr::Cube(keys),
            _ => {
                let written = modifiers.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ");
                let message = format!("{written} behind the keys; write GROUP BY GROUPING SETS ((a, b), (a), ...)");
                return Err(SqlError::unsupported(message, None));
            }
        });
    }
    grouping_keys::once(select);
    // MySQL's hints to its executor have no meaning here.
    select.select_modifiers = None;
    Ok(())
}

/// Turns calls with a syntax of their own into plain calls that [`crate::functions`] knows. Runs before names are
/// resolved: the parser takes the unit in `TIMESTAMPDIFF(DAY, ..)` for a name.
pub(super) fn calls(query: &mut Query) {
    struct Calls;
    impl Change for Calls {
        fn expr(&mut self, expr: &mut Expr) -> Result<(), SqlError> {
            row_comparisons::calls(expr);
            Ok(())
        }

        fn after_expr(&mut self, expr: &mut Expr) -> Result<(), SqlError> {
            if let Expr::Function(function) = expr
                && function_name(function).is_some_and(|n| UNIT_FIRST.contains(&n.as_str()))
                && let FunctionArguments::List(list) = &mut function.args
                && let Some(FunctionArg::Unnamed(FunctionArgExpr::Expr(first))) = list.args.first_mut()
                && let Expr::Identifier(unit) = first
                && unit.quote_style.is_none()
            {
                *first = string(unit.value.to_ascii_lowercase());
            }
            functions::rewrite_call(expr);
            Ok(())
        }
    }
    // Rewriting cannot fail.
    let _ = walk::change(query, &mut Calls);
}

/// Replaces aliases of scalar functions by their primary names, which DataFusion plans without a second name. Runs as
/// one of the last steps.
pub(super) fn own_names(query: &mut Query) {
    struct OwnNames;
    impl Change for OwnNames {
        fn expr(&mut self, expr: &mut Expr) -> Result<(), SqlError> {
            if let Expr::Function(function) = expr
                && let Some(name) = function_name(function).and_then(|called| functions::own_name(&called))
            {
                function.name = ast::ObjectName::from(vec![Ident::new(name)]);
            }
            Ok(())
        }
    }
    // Renaming cannot fail.
    let _ = walk::change(query, &mut OwnNames);
}

/// Removes `FROM DUAL`, which is not a table. Runs as one of the first steps.
pub(super) fn simplify(query: &mut Query) {
    struct Simplify;
    impl Change for Simplify {
        fn select(&mut self, select: &mut Select) -> Result<(), SqlError> {
            if let [from] = select.from.as_slice()
                && from.joins.is_empty()
                && let TableFactor::Table { name, .. } = &from.relation
                && matches!(name.0.as_slice(), [part] if part.as_ident().is_some_and(
                    |i| i.quote_style.is_none() && i.value.eq_ignore_ascii_case("dual")))
            {
                select.from.clear();
            }
            Ok(())
        }
    }
    // This rewrite cannot fail.
    let _ = walk::change(query, &mut Simplify);
}
