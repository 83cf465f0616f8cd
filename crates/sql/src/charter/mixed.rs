//! Values of several types that have one column: those of CASE, COALESCE, an array, VALUES (`values.rs`), a UNION.
//!
//! | side by side | become |
//! |---|---|
//! | text and bytes | bytes |
//! | text and anything else | text |
//! | dates and numbers or booleans | text |
//! | floats and decimals | DOUBLE |
//! | booleans and numbers | the numbers' type |
//!
//! DataFusion makes numbers of text, which is NULL where there is none in it, knows no type for dates and text, and
//! makes decimals of floats, which loses digits of some doubles and fails for others. What it does as Doris does is left
//! to it. (Doris: `TypeCoercionUtils.findWiderTypeForTwo`.)

use arrow::datatypes::DataType;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::type_coercion::binary::type_union_resolution;
use datafusion::logical_expr::{Case, Expr, ExprSchemable};
use dipper_dialect::chains::CHAIN;
use dipper_dialect::error::SqlError;
use dipper_dialect::walk::{self, Change};
use sqlparser::ast;

use super::terms::{cast_to, int_literal};
use crate::class::{Class, charter_type};

fn common<'a>(values: impl Iterator<Item = &'a Expr>, schema: &DFSchema) -> Option<DataType> {
    let types = values.map(|v| v.get_type(schema)).collect::<Result<Vec<_>>>().ok()?;
    charter_type(types.iter())
}

/// The operator that stands behind each CASE and COALESCE while a query is planned; see [`mark`].
const ONE_TYPE: &str = "one type";

/// Has the planner see each CASE, each COALESCE and each long chain of arithmetic as it is made, through its hook for operators. Asked for the type of a CASE,
/// DataFusion gives that of its first value; operators, aggregates and columns of subqueries around it would be planned by
/// that, long before its values get their common type.
pub(super) fn mark(query: &mut ast::Query) {
    struct Marks;
    impl Change for Marks {
        fn after_expr(&mut self, expr: &mut ast::Expr) -> std::result::Result<(), SqlError> {
            let is_seen = |f: &ast::Function| {
                matches!(&f.name.0[..], [part] if part.as_ident().is_some_and(
                    |i| i.value.eq_ignore_ascii_case("coalesce") || i.value == CHAIN))
            };
            let marked = match expr {
                ast::Expr::Case { .. } => true,
                ast::Expr::Function(function) => is_seen(function),
                _ => false,
            };
            if marked {
                let null = || ast::Expr::value(ast::Value::Null);
                let of = std::mem::replace(expr, null());
                *expr = ast::Expr::BinaryOp {
                    left: Box::new(of),
                    op: ast::BinaryOperator::Custom(ONE_TYPE.into()),
                    right: Box::new(null()),
                };
            }
            Ok(())
        }
    }
    // Marking cannot fail.
    let _ = walk::change(query, &mut Marks);
}

/// Whether it is the operator of [`mark`].
pub(super) fn is_mark(op: &ast::BinaryOperator) -> bool {
    matches!(op, ast::BinaryOperator::Custom(name) if name == ONE_TYPE)
}

/// A CASE or COALESCE whose values have one type.
pub(super) fn of_one_type(expr: Expr, schema: &DFSchema) -> Expr {
    let values: Vec<&Expr> = match &expr {
        Expr::Case(case) => {
            case.when_then_expr.iter().map(|(_, then)| &**then).chain(case.else_expr.as_deref()).collect()
        }
        Expr::ScalarFunction(function) => function.args.iter().collect(),
        _ => return expr,
    };
    let types = values.iter().map(|v| v.get_type(schema)).collect::<Result<Vec<_>>>();
    // What has no type yet, a parameter, gets it from the others later.
    let Ok(types) = types else { return expr };
    let is_decimal = |t: &DataType| matches!(Class::of(t), Class::Decimal(..));
    let decimals = types.iter().any(is_decimal);
    // Beside decimals a literal counts as the narrowest integer that holds it.
    let narrow = |(value, t): (&&Expr, &DataType)| match int_literal(value).filter(|_| decimals) {
        Some(n) if i8::try_from(n).is_ok() => DataType::Int8,
        Some(n) if i32::try_from(n).is_ok() => DataType::Int32,
        _ => t.clone(),
    };
    let counted: Vec<DataType> = values.iter().zip(&types).map(narrow).filter(|t| !t.is_null()).collect();
    let same = counted.windows(2).all(|pair| pair[0] == pair[1]);
    if same || counted.iter().all(|t| Class::of(t) == Class::Text) {
        return expr;
    }
    let wanted = charter_type(counted.iter()).or_else(|| type_union_resolution(&counted));
    let Some(wanted) = wanted else { return expr };
    let cast = |e: Expr| cast_to(e, wanted.clone(), schema);
    match expr {
        Expr::Case(case) => Expr::Case(Case {
            expr: case.expr,
            when_then_expr: case.when_then_expr.into_iter().map(|(when, then)| (when, Box::new(cast(*then)))).collect(),
            else_expr: case.else_expr.map(|e| Box::new(cast(*e))),
        }),
        Expr::ScalarFunction(function) => Expr::ScalarFunction(ScalarFunction {
            args: function.args.into_iter().map(cast).collect(),
            func: function.func,
        }),
        other => other,
    }
}

/// The values of a CASE.
pub(super) fn case(case: Case, schema: &DFSchema) -> Transformed<Expr> {
    let values = case.when_then_expr.iter().map(|(_, then)| &**then).chain(case.else_expr.as_deref());
    let Some(common) = common(values, schema) else { return Transformed::no(Expr::Case(case)) };
    let cast = |e: Box<Expr>| Box::new(cast_to(*e, common.clone(), schema));
    Transformed::yes(Expr::Case(Case {
        expr: case.expr,
        when_then_expr: case.when_then_expr.into_iter().map(|(when, then)| (when, cast(then))).collect(),
        else_expr: case.else_expr.map(cast),
    }))
}

/// The arguments of COALESCE and of what makes arrays, and keys and values of maps, which are DataFusion's own.
pub(super) fn arguments(function: ScalarFunction, schema: &DFSchema) -> Transformed<Expr> {
    let common = match function.func.name() {
        "coalesce" | "make_array" => common(function.args.iter(), schema),
        _ => None,
    };
    let Some(common) = common else { return Transformed::no(Expr::ScalarFunction(function)) };
    let args = function.args.into_iter().map(|e| cast_to(e, common.clone(), schema)).collect();
    Transformed::yes(Expr::ScalarFunction(ScalarFunction { func: function.func, args }))
}

/// What a literal is.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Kind {
    Text,
    Number,
    /// It has an exponent.
    Double,
    Boolean,
    Bytes,
}

/// The kind of a literal that is not NULL.
pub(super) fn kind(expr: &ast::Expr) -> Option<Kind> {
    match expr {
        ast::Expr::Value(value) => match &value.value {
            ast::Value::Number(text, _) if text.contains(['e', 'E']) => Some(Kind::Double),
            ast::Value::Number(..) => Some(Kind::Number),
            ast::Value::Boolean(_) => Some(Kind::Boolean),
            ast::Value::SingleQuotedString(_) | ast::Value::DoubleQuotedString(_) => Some(Kind::Text),
            ast::Value::HexStringLiteral(_) => Some(Kind::Bytes),
            _ => None,
        },
        ast::Expr::UnaryOp { op: ast::UnaryOperator::Minus, expr } | ast::Expr::Nested(expr) => kind(expr),
        _ => None,
    }
}
