//! Replacement of variables and parameters by literals. It comes before any rule that asks whether an expression is a
//! literal, so a bound value means what the same literal means.

use dipper_dialect::chains::CHAIN;
use dipper_dialect::error::SqlError;
use dipper_dialect::statement::Scope;
use dipper_dialect::tree::function_name;
use dipper_dialect::walk::{self, Change};
use sqlparser::ast::{
    self, BinaryOperator, Expr, FunctionArg, FunctionArgExpr, FunctionArgumentClause, FunctionArguments, Ident,
    LimitClause, NamedWindowDefinition, NamedWindowExpr, Query, Select, UnaryOperator, Value, WindowFrameBound,
    WindowSpec, WindowType,
};

use super::interval;
use super::rewrite::{is_arithmetic, is_native, literal_text, string};
use super::session::{VarValue, Variables};

/// Puts literals in the place of `@x`, `@@x` and `?`; with `None` for `parameters`, the `?` stay. `0x41` becomes a
/// number where a number is wanted; parameters that are bytes do not.
pub(super) fn fill_in(
    query: &mut Query,
    variables: &dyn Variables,
    parameters: Option<&[VarValue]>,
) -> Result<(), SqlError> {
    walk::change(query, &mut Constants { variables, parameters })
}

struct Constants<'a> {
    variables: &'a dyn Variables,
    parameters: Option<&'a [VarValue]>,
}

impl Change for Constants<'_> {
    fn query(&mut self, query: &mut Query) -> Result<(), SqlError> {
        if let Some(clause) = &mut query.limit_clause {
            self.limits(clause);
        }
        Ok(())
    }

    fn after_query(&mut self, query: &mut Query) -> Result<(), SqlError> {
        let (limit, offset) = query.limit_clause.as_mut().map_or((None, None), |clause| match clause {
            LimitClause::LimitOffset { limit, offset, .. } => (limit.as_mut(), offset.as_mut().map(|o| &mut o.value)),
            LimitClause::OffsetCommaLimit { offset, limit } => (Some(limit), Some(offset)),
        });
        limit.map_or(Ok(()), |limit| whole_number(limit, "LIMIT"))?;
        offset.map_or(Ok(()), |offset| whole_number(offset, "OFFSET"))
    }

    fn select(&mut self, select: &mut Select) -> Result<(), SqlError> {
        for NamedWindowDefinition(_, window) in &mut select.named_window {
            if let NamedWindowExpr::WindowSpec(spec) = window {
                self.bounds(spec);
            }
        }
        Ok(())
    }

    // Parents are visited first: hexadecimal digits of the text are handled before parameters are filled in.
    fn expr(&mut self, expr: &mut Expr) -> Result<(), SqlError> {
        hexadecimal(expr);
        if let Expr::Function(function) = expr
            && let Some(WindowType::WindowSpec(spec)) = &mut function.over
        {
            self.bounds(spec);
        }
        Ok(())
    }

    fn after_expr(&mut self, expr: &mut Expr) -> Result<(), SqlError> {
        let filled = match expr {
            Expr::Identifier(ident) => self.variable(std::slice::from_ref(ident))?,
            Expr::CompoundIdentifier(idents) => self.variable(idents)?,
            Expr::Value(value) => match &value.value {
                Value::Placeholder(name) => self.parameter(name)?.map(VarValue::to_ast),
                _ => None,
            },
            Expr::Function(function) => {
                if let FunctionArguments::List(list) = &mut function.args {
                    self.separators(&mut list.clauses)?;
                }
                None
            }
            _ => None,
        };
        if let Some(filled) = filled {
            *expr = filled;
        }
        Ok(())
    }
}

impl Constants<'_> {
    fn variable(&self, idents: &[Ident]) -> Result<Option<Expr>, SqlError> {
        let Some(first) = idents.first() else { return Ok(None) };
        if first.quote_style.is_some() || !first.value.starts_with('@') {
            return Ok(None);
        }
        let mut parts: Vec<&str> = idents.iter().map(|i| i.value.as_str()).collect();
        let Some(rest) = parts[0].strip_prefix("@@") else {
            let name = idents.iter().map(|i| i.value.clone()).collect::<Vec<_>>().join(".");
            let value = self.variables.user(name.trim_start_matches('@')).unwrap_or(VarValue::Null);
            return Ok(Some(value.to_ast()));
        };
        parts[0] = rest;
        let scope = match parts[0].to_ascii_lowercase().as_str() {
            "global" => Some(Scope::Global),
            "session" | "local" => Some(Scope::Session),
            _ => None,
        };
        if scope.is_some() && parts.len() > 1 {
            parts.remove(0);
        }
        let name = parts.join(".");
        match self.variables.system(scope, &name) {
            Some(value) => Ok(Some(value.to_ast())),
            None => Err(SqlError {
                code: 1193,
                sqlstate: "HY000",
                message: format!("unknown system variable '{name}'"),
                position: None,
            }),
        }
    }

    /// Returns the value of the placeholder `$1`; `None` while values are not given yet.
    fn parameter(&self, name: &str) -> Result<Option<&VarValue>, SqlError> {
        let (Some(values), Some(n)) = (self.parameters, placeholder(name)) else { return Ok(None) };
        match values.get(n.wrapping_sub(1)) {
            Some(value) => Ok(Some(value)),
            None => Err(SqlError {
                code: 1210,
                sqlstate: "HY000",
                message: format!(
                    "the statement has a placeholder number {n}, but only {} values were given",
                    values.len()
                ),
                position: None,
            }),
        }
    }

    /// Fills in `SEPARATOR ?`, which is not an expression to the parser.
    fn separators(&self, clauses: &mut [FunctionArgumentClause]) -> Result<(), SqlError> {
        for clause in clauses {
            let FunctionArgumentClause::Separator(separator) = clause else { continue };
            let Value::Placeholder(name) = &separator.value else { continue };
            if let Some(Expr::Value(given)) = self.parameter(name)?.map(VarValue::to_ast) {
                *separator = given;
            }
        }
        Ok(())
    }

    /// Fills in the distances of a window frame, which the planner has to know, and writes intervals in units that it
    /// reads there. In a statement that is only prepared parameters are 1.
    fn bounds(&self, spec: &mut WindowSpec) {
        let Some(frame) = &mut spec.window_frame else { return };
        for bound in std::iter::once(&mut frame.start_bound).chain(&mut frame.end_bound) {
            let (WindowFrameBound::Preceding(Some(distance)) | WindowFrameBound::Following(Some(distance))) = bound
            else {
                continue;
            };
            if let Expr::Interval(interval) = &mut **distance {
                if let Some(plain) = in_plain_units(interval) {
                    (*interval.value, interval.leading_field) = (string(plain), None);
                }
                continue;
            }
            let Expr::Value(value) = &**distance else { continue };
            let whole = match &value.value {
                Value::Placeholder(_) if self.parameters.is_none() => Some(1),
                Value::Placeholder(name) => placeholder(name)
                    .and_then(|n| self.parameters?.get(n.wrapping_sub(1)))
                    .and_then(VarValue::whole_number),
                Value::Number(text, _) if text.contains(['e', 'E']) => {
                    // The planner reads digits and a point only.
                    if let Ok(number) = text.parse::<f64>() {
                        **distance = Expr::value(Value::Number(number.to_string(), false));
                    }
                    continue;
                }
                _ => continue,
            };
            if let Some(number) = whole {
                **distance = Expr::value(Value::Number(number.to_string(), false));
            }
        }
    }

    /// Fills in parameters of LIMIT and OFFSET as integers: some clients send all numbers as DOUBLE, or all values as
    /// text.
    fn limits(&self, clause: &mut LimitClause) {
        let (limit, offset) = match clause {
            LimitClause::LimitOffset { limit, offset, .. } => (limit.as_mut(), offset.as_mut().map(|o| &mut o.value)),
            LimitClause::OffsetCommaLimit { offset, limit } => (Some(limit), Some(offset)),
        };
        for expr in limit.into_iter().chain(offset) {
            let Expr::Value(value) = &*expr else { continue };
            let Value::Placeholder(name) = &value.value else { continue };
            let given = placeholder(name).and_then(|n| self.parameters?.get(n.wrapping_sub(1)));
            if let Some(number) = given.and_then(VarValue::whole_number) {
                *expr = Expr::value(Value::Number(number.to_string(), false));
            }
        }
    }
}

/// Writes an interval in units that the planner reads in a frame; `None` if it reads the units as they are, or if the
/// interval is no constant.
fn in_plain_units(interval: &ast::Interval) -> Option<String> {
    let unit = interval.leading_field.as_ref()?.to_string().to_ascii_lowercase();
    let text = literal_text(&interval.value)?;
    (!is_native(&text, &unit)).then(|| interval::in_plain_units(&text, &unit)).flatten()
}

/// Checks that a literal of LIMIT or OFFSET is a whole number. One that is greater than all BIGINT becomes the greatest
/// BIGINT: MySQL's manual writes `LIMIT 5, 18446744073709551615` for all rows. Expressions are left to the planner.
fn whole_number(expr: &mut Expr, clause: &str) -> Result<(), SqlError> {
    let is_whole = match expr {
        Expr::Nested(inner) => return whole_number(inner, clause),
        Expr::Value(value) => match &mut value.value {
            Value::Number(digits, _) if digits.bytes().all(|b| b.is_ascii_digit()) => {
                if digits.parse::<i64>().is_err() {
                    *digits = i64::MAX.to_string();
                }
                true
            }
            other => matches!(other, Value::Null | Value::Placeholder(_)),
        },
        Expr::UnaryOp { op: UnaryOperator::Minus, expr } => !matches!(&**expr, Expr::Value(_)),
        _ => true,
    };
    match is_whole {
        true => Ok(()),
        false => Err(SqlError::syntax(format!("{clause} takes a whole number from 0, not {expr}"), None)),
    }
}

/// Returns the number of a placeholder, from 1.
fn placeholder(name: &str) -> Option<usize> {
    name.strip_prefix('$')?.parse().ok()
}

/// Turns `0x41`, which is text, into a number where a number is wanted.
fn hexadecimal(expr: &mut Expr) {
    use BinaryOperator as Op;
    match expr {
        Expr::BinaryOp { left, op, right } if is_arithmetic(op) => {
            number_of_digits(left);
            number_of_digits(right);
        }
        Expr::BinaryOp {
            left,
            op: Op::Eq | Op::NotEq | Op::Lt | Op::LtEq | Op::Gt | Op::GtEq | Op::Spaceship,
            right,
        } => {
            if is_number(left) {
                number_of_digits(right);
            } else if is_number(right) {
                number_of_digits(left);
            }
        }
        Expr::UnaryOp { op: UnaryOperator::Minus | UnaryOperator::BitwiseNot, expr } => number_of_digits(expr),
        Expr::Function(function) if function_name(function).is_some_and(|name| name == "char" || name == CHAIN) => {
            if let FunctionArguments::List(list) = &mut function.args {
                for arg in &mut list.args {
                    if let FunctionArg::Unnamed(FunctionArgExpr::Expr(arg)) = arg {
                        number_of_digits(arg);
                    }
                }
            }
        }
        _ => {}
    }
}

fn number_of_digits(expr: &mut Expr) {
    match expr {
        Expr::Nested(inner) => number_of_digits(inner),
        Expr::Value(literal) => {
            if let Value::HexStringLiteral(digits) = &literal.value
                && let Ok(number) = u64::from_str_radix(digits, 16)
            {
                literal.value = Value::Number(number.to_string(), false);
            }
        }
        _ => {}
    }
}

/// Whether an expression is a number by its syntax alone.
fn is_number(expr: &Expr) -> bool {
    match expr {
        Expr::Nested(inner) => is_number(inner),
        Expr::Value(literal) => matches!(literal.value, Value::Number(..)),
        Expr::BinaryOp { op, .. } => is_arithmetic(op),
        Expr::UnaryOp { op, .. } => matches!(op, UnaryOperator::Minus | UnaryOperator::BitwiseNot),
        Expr::Function(function) => function_name(function).as_deref() == Some(CHAIN),
        _ => false,
    }
}
