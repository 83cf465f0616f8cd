//! Rewrites of calls with a syntax of their own into plain calls, before planning.
//!
//! `DATE_ADD(d, INTERVAL n DAY)`, `d + INTERVAL n DAY`, `TIMESTAMPDIFF(DAY, a, b)`, `EXTRACT(DAY FROM d)`,
//! `GROUP_CONCAT(x ORDER BY y SEPARATOR ';')`, `doc->'$.a'`, `TRIM(LEADING 'x' FROM s)`, `POSITION(a IN b)`,
//! `COUNT_IF(c)` and similar calls: the planner does not know them, or plans them with other meanings.

use std::ops::ControlFlow;

use dipper_dialect::tree::call;
use sqlparser::ast::{
    BinaryOperator, CaseWhen, CastKind, CeilFloorKind, DataType, DateTimeField, DuplicateTreatment, Expr, Function,
    FunctionArg, FunctionArgExpr, FunctionArgumentClause, FunctionArgumentList, FunctionArguments, Ident, Interval,
    ObjectName, TrimWhereField, TypedString, UnaryOperator, Value, VisitMut, visit_expressions_mut,
};

use super::datetime::parse::{parse_datetime, parse_time};
use super::datetime::zone::Zone;
use super::ordered::{IN_ORDER, UNLESS_EMPTY};
use super::string::OVERLAY;

/// The separator if none is given: Doris's since 4.0, and MySQL's.
pub(super) const GROUP_CONCAT_SEPARATOR: &str = ",";

/// Rewrites the calls in a statement, a query or an expression, innermost first.
pub fn rewrite_calls<V: VisitMut>(node: &mut V) {
    let _ = visit_expressions_mut(node, |expr| {
        rewrite_call(expr);
        ControlFlow::<()>::Continue(())
    });
}

pub(super) fn text(s: &str) -> Expr {
    Expr::Value(Value::SingleQuotedString(s.to_owned()).into())
}

/// Takes an expression and leaves a placeholder.
fn take(expr: &mut Expr) -> Expr {
    std::mem::replace(expr, Expr::Value(Value::Null.into()))
}

/// Whether the expression is an interval: one that the planner knows, or one with a unit that only the charter knows.
fn is_interval(expr: &Expr) -> bool {
    match expr {
        Expr::Interval(_) => true,
        Expr::Function(function) => name_of(function).as_deref() == Some(crate::charter::interval::NAME),
        _ => false,
    }
}

/// Returns amount and unit of an interval that names one unit, which may be a compound such as DAY_HOUR.
fn interval(expr: &mut Expr) -> Option<(Expr, Expr)> {
    match expr {
        Expr::Interval(Interval { value, leading_field: Some(unit), last_field: None, .. }) => {
            let unit = text(&unit_name(unit));
            Some((take(value), unit))
        }
        Expr::Function(function) => {
            let FunctionArguments::List(list) = &mut function.args else {
                return None;
            };
            let unit = take(arg_mut(list, 1)?);
            Some((take(arg_mut(list, 0)?), unit))
        }
        _ => None,
    }
}

/// Marks a constant text without a time of day as a DATE, so that a sum with it is a DATE: the type of a result must
/// not depend on whether an argument is a constant, since planning turns more and more expressions into constants.
fn mark_date(expr: &mut Expr) {
    let Expr::Value(value) = &*expr else { return };
    let (Value::SingleQuotedString(s) | Value::DoubleQuotedString(s)) = &value.value else { return };
    if s.trim().len() <= 10 && !s.contains(':') && parse_datetime(s.as_bytes()).is_some() {
        *expr = call("date", vec![take(expr)]);
    }
}

/// Turns `TIME '...'` into a call: the planner's own literals are times of day. A text that is not a TIME is left for
/// the planner to refuse.
fn time_literal(literal: &Value) -> Option<Expr> {
    let (Value::SingleQuotedString(s) | Value::DoubleQuotedString(s)) = literal else { return None };
    parse_time(s.as_bytes(), Zone::Fixed(0)).map(|_| call("time", vec![text(s)]))
}

/// Adds or subtracts an interval by the function `name`, DATE_ADD or DATE_SUB.
fn moved(name: &str, date: &mut Expr, amount: Expr, unit: Expr) -> Expr {
    mark_date(date);
    call(name, vec![take(date), amount, unit])
}

/// Casts the literal of an integer to the narrowest type that holds it.
fn narrow_literal(literal: &mut Expr) {
    let digits = match &*literal {
        Expr::Value(value) => Some(value.value.to_string()),
        Expr::UnaryOp { op: UnaryOperator::Minus, expr } => Some(format!("-{expr}")),
        _ => None,
    };
    let number = digits.and_then(|digits| digits.parse::<i64>().ok());
    let narrow = number.and_then(|n| match n {
        _ if i8::try_from(n).is_ok() => Some(DataType::TinyInt(None)),
        _ if i16::try_from(n).is_ok() => Some(DataType::SmallInt(None)),
        _ if i32::try_from(n).is_ok() => Some(DataType::Int(None)),
        _ => None,
    });
    if let Some(data_type) = narrow {
        let expr = Box::new(take(literal));
        *literal = Expr::Cast { kind: CastKind::Cast, expr, data_type, array: false, format: None };
    }
}

/// Whether the expression is a constant in the text itself.
fn is_literal(expr: &Expr) -> bool {
    match expr {
        Expr::Value(value) => !matches!(value.value, Value::Placeholder(_)),
        Expr::UnaryOp { expr, .. } => matches!(&**expr, Expr::Value(_)),
        _ => false,
    }
}

fn unit_name(field: &DateTimeField) -> String {
    match field {
        DateTimeField::Custom(name) => name.value.to_ascii_lowercase(),
        other => other.to_string().to_ascii_lowercase(),
    }
}

/// Rewrites one call whose arguments have been rewritten.
pub fn rewrite_call(expr: &mut Expr) {
    let new = match expr {
        Expr::BinaryOp { left, op: op @ (BinaryOperator::Plus | BinaryOperator::Minus), right } => {
            let name = if *op == BinaryOperator::Plus { "date_add" } else { "date_sub" };
            let (date, span) = match (is_interval(left), is_interval(right)) {
                (false, true) => (left, right),
                (true, false) if name == "date_add" => (right, left),
                // The planner handles an interval plus an interval.
                _ => return,
            };
            let Some((amount, unit)) = interval(span) else { return };
            moved(name, date, amount, unit)
        }
        Expr::BinaryOp { left, op: BinaryOperator::Arrow, right } => {
            call("json_extract", vec![take(left), take(right)])
        }
        Expr::BinaryOp { left, op: BinaryOperator::LongArrow, right } => {
            call("json_unquote", vec![call("json_extract", vec![take(left), take(right)])])
        }
        Expr::Extract { field, expr, .. } => {
            let unit = unit_name(field);
            match unit.as_str() {
                // In Doris, EXTRACT(name FROM x) is name(x): Sunday is 1, not 0 as in PostgreSQL's units.
                "dow" | "dayofweek" | "day_of_week" | "dayofyear" | "day_of_year" | "dayofmonth" | "weekday"
                | "weekofyear" | "week_of_year" | "yearweek" | "century" => call(&unit, vec![take(expr)]),
                _ => call("date_part", vec![text(&unit), take(expr)]),
            }
        }
        Expr::Ceil { expr, field: CeilFloorKind::Scale(scale) } => {
            call("ceil", vec![take(expr), Expr::Value(scale.clone())])
        }
        Expr::Floor { expr, field: CeilFloorKind::Scale(scale) } => {
            call("floor", vec![take(expr), Expr::Value(scale.clone())])
        }
        Expr::Position { expr, r#in } => call("locate", vec![take(expr), take(r#in)]),
        Expr::Overlay { expr, overlay_what, overlay_from, overlay_for: Some(length) } => {
            call("insert", vec![take(expr), take(overlay_from), take(length), take(overlay_what)])
        }
        Expr::Overlay { expr, overlay_what, overlay_from, overlay_for: None } => {
            call(OVERLAY, vec![take(expr), take(overlay_from), take(overlay_what)])
        }
        Expr::Substring { expr, substring_from: Some(from), substring_for, .. } => {
            let mut args = vec![take(expr), take(from)];
            args.extend(substring_for.as_mut().map(|e| take(e)));
            call("substring", args)
        }
        Expr::Trim { trim_where, trim_what, expr, trim_characters } => {
            let name = match trim_where {
                Some(TrimWhereField::Leading) => "ltrim",
                Some(TrimWhereField::Trailing) => "rtrim",
                _ => "trim",
            };
            let mut args = vec![take(expr)];
            args.extend(trim_what.as_mut().map(|e| take(e)));
            if let Some(list) = trim_characters {
                args.append(list);
            }
            call(name, args)
        }
        Expr::Function(function) => match rewrite_function(function) {
            Some(new) => new,
            None => return,
        },
        Expr::TypedString(TypedString { data_type: DataType::Time(..), value, .. }) => match time_literal(&value.value)
        {
            Some(new) => new,
            None => return,
        },
        _ => return,
    };
    *expr = new;
}

/// Returns the name in lower case, if it is unqualified.
fn name_of(function: &Function) -> Option<String> {
    match function.name.0.as_slice() {
        [part] => Some(part.as_ident()?.value.to_ascii_lowercase()),
        _ => None,
    }
}

fn arg_mut(list: &mut FunctionArgumentList, k: usize) -> Option<&mut Expr> {
    match list.args.get_mut(k)? {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(e)) => Some(e),
        _ => None,
    }
}

fn push(list: &mut FunctionArgumentList, e: Expr) {
    list.args.push(FunctionArg::Unnamed(FunctionArgExpr::Expr(e)));
}

/// Puts arguments in the place of their numbers in the ORDER BY of a call, as in MySQL and StarRocks. Other numbers order
/// nothing; the planner would read them as numbers of columns.
fn order_by_arguments(list: &mut FunctionArgumentList) {
    let FunctionArgumentList { args, clauses, .. } = list;
    clauses.retain_mut(|clause| {
        let FunctionArgumentClause::OrderBy(order) = clause else { return true };
        order.retain_mut(|by| {
            let Expr::Value(value) = &by.expr else { return true };
            let Value::Number(number, _) = &value.value else { return true };
            match number.parse().ok().and_then(|place: usize| args.get(place.checked_sub(1)?)) {
                Some(FunctionArg::Unnamed(FunctionArgExpr::Expr(argument))) => {
                    by.expr = argument.clone();
                    true
                }
                _ => false,
            }
        });
        !order.is_empty()
    });
}

/// Rewrites GROUP_CONCAT(DISTINCT x ORDER BY x), which the planner takes only while `x` needs no cast to text: the
/// distinct values are collected as they are and joined afterwards. With any other order, all values are collected, and
/// the first of equal ones stays. Over a window, the planner ignores the ORDER BY inside the call.
fn ordered_group_concat(function: &mut Function) -> Option<Expr> {
    let FunctionArguments::List(list) = &mut function.args else {
        return None;
    };
    let order = list.clauses.iter().find_map(|c| match c {
        FunctionArgumentClause::OrderBy(order) => Some(order.as_slice()),
        _ => None,
    });
    let own_order = match (order, list.args.first()) {
        (Some([by]), Some(FunctionArg::Unnamed(FunctionArgExpr::Expr(x)))) => by.expr == *x,
        _ => false,
    };
    let ordered = order.is_some();
    let distinct = list.duplicate_treatment == Some(DuplicateTreatment::Distinct);
    let collected = distinct || function.over.is_some();
    if !ordered || !collected || list.args.len() != 2 {
        return None;
    }
    let separator = take(arg_mut(list, 1)?);
    list.args.truncate(1);
    let present = Expr::IsNotNull(Box::new(arg_mut(list, 0)?.clone()));
    function.filter = Some(Box::new(match function.filter.take() {
        Some(filter) => Expr::BinaryOp { left: filter, op: BinaryOperator::And, right: Box::new(present) },
        None => present,
    }));
    function.name = ObjectName::from(vec![Ident::new("array_agg")]);
    let values = match function.over.is_some() {
        true => ordered_over(function)?,
        false => {
            if !own_order && let FunctionArguments::List(list) = &mut function.args {
                list.duplicate_treatment = None;
            }
            let values = Expr::Function(function.clone());
            if own_order { values } else { call("array_distinct", vec![values]) }
        }
    };
    Some(call("array_to_string", vec![call(UNLESS_EMPTY, vec![values]), separator]))
}

/// Rewrites ARRAY_AGG(x ORDER BY k) over a window, where the planner ignores the ORDER BY.
fn ordered_over(function: &mut Function) -> Option<Expr> {
    let FunctionArguments::List(list) = &mut function.args else {
        return None;
    };
    let at = list.clauses.iter().position(|c| matches!(c, FunctionArgumentClause::OrderBy(_)))?;
    let FunctionArgumentClause::OrderBy(order) = list.clauses.remove(at) else { return None };
    let mut how = String::new();
    if list.duplicate_treatment.take() == Some(DuplicateTreatment::Distinct) {
        how.push('u');
    }
    for by in &order {
        let descending = by.options.asc == Some(false);
        let nulls_first = by.options.nulls_first.unwrap_or(!descending);
        how.push(match (descending, nulls_first) {
            (false, true) => 'a',
            (false, false) => 'A',
            (true, false) => 'd',
            (true, true) => 'D',
        });
    }
    let value = take(arg_mut(list, 0)?);
    let args = std::iter::once(value).chain(order.into_iter().map(|by| by.expr)).chain([text(&how)]);
    list.args = args.map(|arg| FunctionArg::Unnamed(FunctionArgExpr::Expr(arg))).collect();
    function.name = ObjectName::from(vec![Ident::new(IN_ORDER)]);
    Some(Expr::Function(function.clone()))
}

/// Rewrites RETENTION(c1, c2, ...): whether a row fulfils the first condition, and for each other condition whether
/// rows fulfil it and the first. NULL for no rows.
fn retention(function: &mut Function) -> Option<Expr> {
    let FunctionArguments::List(list) = &mut function.args else {
        return None;
    };
    let conditions: Option<Vec<Expr>> = (0..list.args.len()).map(|k| arg_mut(list, k).map(take)).collect();
    let any = |condition: &Expr| {
        let one = || Expr::Value(Value::Number("1".into(), false).into());
        let zero = || Expr::Value(Value::Number("0".into(), false).into());
        let mut max = function.clone();
        max.name = ObjectName::from(vec![Ident::new("max")]);
        if let FunctionArguments::List(list) = &mut max.args {
            list.args.clear();
            push(list, call("if", vec![condition.clone(), one(), zero()]));
        }
        Expr::Function(max)
    };
    let conditions = conditions?;
    let first = any(conditions.first()?);
    let rest = conditions[1..].iter().map(|c| call("least", vec![first.clone(), any(c)]));
    let all = call("array", std::iter::once(first.clone()).chain(rest).collect());
    let no_rows = Expr::IsNull(Box::new(first));
    Some(call("if", vec![no_rows, Expr::Value(Value::Null.into()), all]))
}

fn is_constant(expr: &Expr) -> bool {
    match expr {
        Expr::Value(_) => true,
        Expr::UnaryOp { expr, .. } | Expr::Nested(expr) => is_constant(expr),
        _ => false,
    }
}

/// Rewrites LEAD(x, n, d) with a default that is no constant: whether there is such a row is asked by the same function
/// of a constant.
fn with_default(function: &mut Function) -> Option<Expr> {
    let FunctionArguments::List(list) = &mut function.args else {
        return None;
    };
    let default = take(arg_mut(list, 2)?);
    list.args.truncate(2);
    let number = |n: &str| Expr::Value(Value::Number(n.into(), false).into());
    let mut is_there = function.clone();
    if let FunctionArguments::List(list) = &mut is_there.args {
        *arg_mut(list, 0)? = number("1");
        push(list, number("0"));
    }
    let condition = Expr::BinaryOp {
        left: Box::new(Expr::Function(is_there)),
        op: BinaryOperator::Eq,
        right: Box::new(number("1")),
    };
    Some(call("if", vec![condition, Expr::Function(function.clone()), default]))
}

/// Changes a call in place, or returns the expression that replaces it.
fn rewrite_function(function: &mut Function) -> Option<Expr> {
    let name = name_of(function)?;
    let FunctionArguments::List(list) = &mut function.args else {
        return None;
    };
    order_by_arguments(list);
    let rename = |function: &mut Function, name: &str| function.name = ObjectName::from(vec![Ident::new(name)]);
    match name.as_str() {
        "date_add" | "adddate" | "date_sub" | "subdate" if list.args.len() == 2 => {
            if is_interval(arg_mut(list, 1)?) {
                let (amount, unit) = interval(arg_mut(list, 1)?)?;
                let name = if matches!(name.as_str(), "date_add" | "adddate") { "date_add" } else { "date_sub" };
                return Some(moved(name, arg_mut(list, 0)?, amount, unit));
            }
            mark_date(arg_mut(list, 0)?);
        }
        "lead" | "lag" if list.args.len() == 3 && !is_constant(arg_mut(list, 2)?) => return with_default(function),
        // The period is an interval; StarRocks's boundary is a bare word.
        "date_floor" | "date_ceil" | "time_slice" | "date_slice" if list.args.len() >= 2 => {
            if is_interval(arg_mut(list, 1)?) {
                let (amount, unit) = interval(arg_mut(list, 1)?)?;
                *arg_mut(list, 1)? = amount;
                list.args.insert(2, FunctionArg::Unnamed(FunctionArgExpr::Expr(unit)));
            }
            if let Some(Expr::Identifier(boundary)) = arg_mut(list, 3) {
                *arg_mut(list, 3)? = text(&boundary.value.clone());
            }
        }
        "array_range" | "sequence" if list.args.len() == 3 && is_interval(arg_mut(list, 2)?) => {
            let (amount, unit) = interval(arg_mut(list, 2)?)?;
            *arg_mut(list, 2)? = amount;
            push(list, unit);
        }
        // A constant query becomes its condition; the function itself says what is wrong with others.
        "search" => {
            let mut constants = Vec::new();
            for k in 0..list.args.len() {
                let Some(Expr::Value(value)) = arg_mut(list, k) else { return None };
                let (Value::SingleQuotedString(s) | Value::DoubleQuotedString(s)) = &value.value else { return None };
                constants.push(s.clone());
            }
            let given = |k: usize| constants.get(k).map(String::as_str);
            return super::search_query::condition(given(0)?, given(1), given(2)).ok();
        }
        // A literal gets the narrowest type that holds it.
        "bit_count" | "decode_as_varchar" | "typeof" if list.args.len() == 1 => narrow_literal(arg_mut(list, 0)?),
        "lcm" if list.args.len() == 2 => {
            narrow_literal(arg_mut(list, 0)?);
            narrow_literal(arg_mut(list, 1)?);
        }
        // If the digits are not constant in the text, a decimal keeps its scale.
        "round" | "dround" | "round_bankers" | "truncate" | "trunc" | "floor" | "dfloor" | "ceil" | "dceil"
        | "ceiling"
            if list.args.len() == 2 && !is_literal(arg_mut(list, 1)?) =>
        {
            let by = match name.trim_start_matches('d') {
                "trunc" => "truncate_by".to_string(),
                other => format!("{}_by", other.trim_end_matches("ing")),
            };
            rename(function, &by);
        }
        "str_to_date" if list.args.len() == 2 && !is_literal(arg_mut(list, 1)?) => {
            rename(function, "str_to_datetime");
        }
        name if list.args.len() == 2
            && (name == "add_months" || super::datetime::unit_of_named_add(name).is_some()) =>
        {
            // The name says the unit.
            if is_interval(arg_mut(list, 1)?) {
                *arg_mut(list, 1)? = interval(arg_mut(list, 1)?)?.0;
            }
            mark_date(arg_mut(list, 0)?);
        }
        // The kind is a bare word.
        "get_format" if list.args.len() == 2 => {
            if let Some(Expr::Identifier(kind)) = arg_mut(list, 0) {
                *arg_mut(list, 0)? = text(&kind.value.to_ascii_uppercase());
            }
        }
        "like" if matches!(list.args.len(), 2 | 3) => {
            let escape_char = match arg_mut(list, 2) {
                Some(Expr::Value(escape)) => Some(escape.clone()),
                Some(_) => return None,
                None => None,
            };
            let (expr, pattern) = (Box::new(take(arg_mut(list, 0)?)), Box::new(take(arg_mut(list, 1)?)));
            return Some(Expr::Nested(Box::new(Expr::Like { negated: false, any: false, expr, pattern, escape_char })));
        }
        "timestampdiff" | "timestampadd" if list.args.len() == 3 => {
            let unit = arg_mut(list, 0)?;
            if let Expr::Identifier(ident) = unit {
                *unit = text(&ident.value.to_ascii_lowercase());
            }
            if name == "timestampadd" {
                mark_date(arg_mut(list, 2)?);
            }
        }
        "group_concat" => {
            let separator = list.clauses.iter().position(|c| matches!(c, FunctionArgumentClause::Separator(_)));
            let separator = match separator.map(|at| list.clauses.remove(at)) {
                Some(FunctionArgumentClause::Separator(value)) => Some(Expr::Value(value)),
                _ => None,
            };
            match separator {
                // MySQL: with SEPARATOR all arguments are joined. Doris: the second argument is the separator.
                Some(separator) => {
                    if list.args.len() > 1 {
                        let parts = std::mem::take(&mut list.args);
                        let parts = parts.into_iter().filter_map(|a| match a {
                            FunctionArg::Unnamed(FunctionArgExpr::Expr(e)) => Some(e),
                            _ => None,
                        });
                        let joined = call("concat", parts.collect());
                        push(list, joined);
                    }
                    push(list, separator);
                }
                None if list.args.len() == 1 => push(list, text(GROUP_CONCAT_SEPARATOR)),
                None => {}
            }
            // Joining with a NULL separator gives NULL.
            if let [_, FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Value(separator)))] = list.args.as_slice()
                && separator.value == Value::Null
            {
                list.clauses.clear();
                list.args.truncate(1);
                *arg_mut(list, 0)? = Expr::Value(Value::Null.into());
                rename(function, "max");
                return None;
            }
            return ordered_group_concat(function);
        }
        "array_agg" if list.args.len() == 1 && function.over.is_some() => return ordered_over(function),
        "json_arrayagg" if list.args.len() == 1 => {
            rename(function, "array_agg");
            let ordered = function.over.is_some().then(|| ordered_over(function)).flatten();
            let values = ordered.unwrap_or_else(|| Expr::Function(function.clone()));
            return Some(call("to_json", vec![call(UNLESS_EMPTY, vec![values])]));
        }
        // Keys and values are collected side by side: with DISTINCT on each, they would not belong together.
        "json_objectagg" if list.args.len() == 2 && list.duplicate_treatment.is_none() => {
            rename(function, "array_agg");
            let of = |k: usize| -> Option<Expr> {
                let mut one = function.clone();
                let FunctionArguments::List(list) = &mut one.args else { return None };
                list.args = vec![list.args.swap_remove(k)];
                Some(call(UNLESS_EMPTY, vec![Expr::Function(one)]))
            };
            return Some(call(super::nested::JSON_MEMBERS, vec![of(0)?, of(1)?]));
        }
        "retention" if !list.args.is_empty() => return retention(function),
        "grouping_id" => rename(function, "grouping"),
        // Calls with three arrays and more.
        "array_union" | "array_intersect" if list.args.len() > 2 => {
            let mut arrays = Vec::with_capacity(list.args.len());
            for k in 0..list.args.len() {
                arrays.push(take(arg_mut(list, k)?));
            }
            return arrays.into_iter().reduce(|left, right| call(&name, vec![left, right]));
        }
        // The names that fields have in Doris.
        "struct" | "row" | "named_struct" if list.args.is_empty() => {
            return Some(call(super::nested::EMPTY_STRUCT, Vec::new()));
        }
        "struct" | "row" => {
            let mut fields = Vec::with_capacity(2 * list.args.len());
            for k in 0..list.args.len() {
                fields.push(text(&format!("col{}", k + 1)));
                fields.push(take(arg_mut(list, k)?));
            }
            return Some(call("named_struct", fields));
        }
        // The union of sets with one member each.
        "bitmap_agg" if list.args.len() == 1 => {
            let member = take(arg_mut(list, 0)?);
            *arg_mut(list, 0)? = call("to_bitmap", vec![member]);
            rename(function, "bitmap_union");
        }
        // Whether the condition holds for exactly one row; NULL if it is NULL for all rows.
        "bool_xor" | "boolxor_agg" if list.args.len() == 1 => {
            let condition = take(arg_mut(list, 0)?);
            let number = |n: &str| Expr::Value(Value::Number(n.into(), false).into());
            let no =
                Expr::UnaryOp { op: UnaryOperator::Not, expr: Box::new(Expr::Nested(Box::new(condition.clone()))) };
            *arg_mut(list, 0)? = Expr::Case {
                case_token: sqlparser::ast::helpers::attached_token::AttachedToken::empty(),
                end_token: sqlparser::ast::helpers::attached_token::AttachedToken::empty(),
                operand: None,
                conditions: vec![
                    CaseWhen { condition, result: number("1") },
                    CaseWhen { condition: no, result: number("0") },
                ],
                else_result: None,
            };
            rename(function, "sum");
            let sum = Box::new(Expr::Function(function.clone()));
            return Some(Expr::Nested(Box::new(Expr::BinaryOp {
                left: sum,
                op: BinaryOperator::Eq,
                right: Box::new(number("1")),
            })));
        }
        // StarRocks's step between two moments.
        "array_generate" if list.args.len() == 3 && is_interval(arg_mut(list, 2)?) => {
            let (amount, unit) = interval(arg_mut(list, 2)?)?;
            *arg_mut(list, 2)? = amount;
            push(list, unit);
        }
        // StarRocks's names of operators.
        "add" | "subtract" | "multiply" | "divide" | "int_divide" if list.args.len() == 2 => {
            let op = match name.as_str() {
                "add" => BinaryOperator::Plus,
                "subtract" => BinaryOperator::Minus,
                "multiply" => BinaryOperator::Multiply,
                "divide" => BinaryOperator::Divide,
                _ => BinaryOperator::MyIntegerDivide,
            };
            let operand = |expr: &mut Expr| match is_interval(expr) {
                true => Box::new(take(expr)),
                false => Box::new(Expr::Nested(Box::new(take(expr)))),
            };
            let (left, right) = (operand(arg_mut(list, 0)?), operand(arg_mut(list, 1)?));
            let mut sum = Expr::BinaryOp { left, op, right };
            rewrite_call(&mut sum);
            return Some(Expr::Nested(Box::new(sum)));
        }
        "array_agg_distinct" if list.args.len() == 1 => {
            list.duplicate_treatment = Some(DuplicateTreatment::Distinct);
            rename(function, "array_agg");
            let rewritten = rewrite_function(function);
            return rewritten;
        }
        "multi_distinct_sum0" if list.args.len() == 1 => {
            list.duplicate_treatment = Some(DuplicateTreatment::Distinct);
            rename(function, "sum");
            let sum = Expr::Function(function.clone());
            return Some(call("coalesce", vec![sum, Expr::Value(Value::Number("0".into(), false).into())]));
        }
        "multi_distinct_group_concat" => {
            list.duplicate_treatment = Some(DuplicateTreatment::Distinct);
            rename(function, "group_concat");
            return rewrite_function(function);
        }
        "multi_distinct_count" | "multi_distinct_sum" => {
            list.duplicate_treatment = Some(DuplicateTreatment::Distinct);
            rename(function, name.trim_start_matches("multi_distinct_"));
        }
        "collect_list" | "group_array" | "collect_set" | "group_uniq_array" if list.args.len() == 1 => {
            if matches!(name.as_str(), "collect_set" | "group_uniq_array") {
                list.duplicate_treatment = Some(DuplicateTreatment::Distinct);
            }
            let known = Expr::IsNotNull(Box::new(arg_mut(list, 0)?.clone()));
            function.filter = Some(Box::new(match function.filter.take() {
                Some(filter) => Expr::BinaryOp {
                    left: Box::new(Expr::Nested(filter)),
                    op: BinaryOperator::And,
                    right: Box::new(known),
                },
                None => known,
            }));
            rename(function, "array_agg");
            if function.over.is_some() {
                return ordered_over(function);
            }
        }
        "string_agg" if list.args.len() == 2 && function.over.is_some() => return ordered_group_concat(function),
        // The planner refuses the ORDER BY inside a call over a window. These do not depend on it.
        "sum" | "avg" | "count" | "min" | "max" if function.over.is_some() => {
            list.clauses.retain(|clause| !matches!(clause, FunctionArgumentClause::OrderBy(_)));
        }
        "count_if" if list.args.len() == 1 => {
            let condition = take(arg_mut(list, 0)?);
            // COUNT skips the NULL of a condition that does not hold.
            let counted = Expr::Case {
                case_token: sqlparser::ast::helpers::attached_token::AttachedToken::empty(),
                end_token: sqlparser::ast::helpers::attached_token::AttachedToken::empty(),
                operand: None,
                conditions: vec![CaseWhen { condition, result: Expr::Value(Value::Number("1".into(), false).into()) }],
                else_result: None,
            };
            *arg_mut(list, 0)? = counted;
            rename(function, "count");
        }
        // The planner takes pairs only; without any, keys and values are empty arrays.
        "map" if list.args.is_empty() => {
            push(list, call("make_array", Vec::new()));
            push(list, call("make_array", Vec::new()));
        }
        "sum0" if list.args.len() == 1 => {
            rename(function, "sum");
            let sum = Expr::Function(function.clone());
            return Some(call("coalesce", vec![sum, Expr::Value(Value::Number("0".into(), false).into())]));
        }
        _ => {}
    }
    None
}
