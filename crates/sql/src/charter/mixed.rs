//! The common type of values of different types that share a column: the values of a CASE, the arguments of COALESCE
//! and the elements of an array. VALUES (`values.rs`) and UNION (`unions.rs`) follow the same rules.
//!
//! | values | common type |
//! |---|---|
//! | bytes and text, numbers, booleans or dates | bytes of the texts |
//! | text and anything else but bytes | text |
//! | dates and numbers or booleans | text |
//! | times and anything else | text |
//! | floats and decimals or booleans | DOUBLE |
//! | FLOAT and integers beyond SMALLINT | DOUBLE |
//! | booleans and integers or decimals | the common type of TINYINT and the numbers |
//!
//! If a value has a type of another class, such as an array or an interval, DataFusion chooses.
//!
//! DataFusion differs: it turns text into numbers, which gives NULL for text without a number; it has no common type
//! for dates and text; it turns floats into decimals, which loses digits of some doubles and fails for others, and
//! integers into FLOATs, which have no 16777217. A literal counts as the narrowest type that holds it. Where
//! DataFusion's choice is that of Doris, no rule is needed here. (Doris: `TypeCoercionUtils.findWiderTypeForTwo`.)

use arrow::datatypes::{DataType, FieldRef};
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::type_coercion::binary::type_union_resolution;
use datafusion::logical_expr::{Case, Expr, ExprSchemable, lit};
use dipper_dialect::chains::CHAIN;
use dipper_dialect::error::SqlError;
use dipper_dialect::walk::{self, Change};
use sqlparser::ast;

use super::terms::{cast_to, int_literal};
use crate::class::{Class, charter_type, is_own_cast};
use crate::metadata::set_type;

/// Returns the charter's common type of these values; `None` if DataFusion's choice serves, or a type is unknown.
fn common<'a>(values: impl Iterator<Item = &'a Expr>, schema: &DFSchema) -> Option<DataType> {
    let fields = values.map(|v| Ok(v.to_field(schema)?.1)).collect::<Result<Vec<_>>>().ok()?;
    common_of_fields(fields.iter())
}

/// Returns the charter's common type of these fields; `None` if DataFusion's choice serves. The bytes of a set, such as a
/// BITMAP, are not those of the text of a number.
pub(super) fn common_of_fields<'a>(fields: impl Iterator<Item = &'a FieldRef> + Clone) -> Option<DataType> {
    let is_set = |field: &FieldRef| set_type(field).is_some();
    let is_number = |field: &FieldRef| is_own_cast(field.data_type(), &DataType::BinaryView);
    if fields.clone().any(is_set) && fields.clone().any(is_number) {
        return None;
    }
    charter_type(fields.map(|field| field.data_type()))
}

/// The operator that [`mark`] puts behind expressions; its right operand is NULL.
const ONE_TYPE: &str = "one type";

/// The functions whose arguments get one type.
const OF_ONE_TYPE: [&str; 8] = ["coalesce", "if", "ifnull", "nvl", "greatest", "least", "array", "make_array"];

/// Makes each CASE, each call of [`OF_ONE_TYPE`] and each long chain of arithmetic the operand of the operator
/// [`ONE_TYPE`], so that the planner's hook for operators handles it as soon as it is planned.
///
/// DataFusion gives a CASE the type of its first value. Operators, aggregates and columns of subqueries around the CASE
/// would be planned with that type, long before its values get their common type. A function is told the types of its
/// arguments, but not which of them are literals.
pub(super) fn mark(query: &mut ast::Query) {
    struct Marks;
    impl Change for Marks {
        fn after_expr(&mut self, expr: &mut ast::Expr) -> std::result::Result<(), SqlError> {
            let is_seen = |f: &ast::Function| {
                matches!(&f.name.0[..], [part] if part.as_ident().is_some_and(
                    |i| OF_ONE_TYPE.iter().any(|name| i.value.eq_ignore_ascii_case(name)) || i.value == CHAIN))
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

/// Whether an operator is the one that [`mark`] adds.
pub(super) fn is_mark(op: &ast::BinaryOperator) -> bool {
    matches!(op, ast::BinaryOperator::Custom(name) if name == ONE_TYPE)
}

/// Makes SMALLINTs of the integer literals that are ones, if there is a FLOAT beside them: the common type of FLOAT and
/// the literal 0 is FLOAT.
pub(super) fn beside_floats(mut values: Vec<Expr>, schema: &DFSchema) -> Vec<Expr> {
    if values.iter().any(|value| value.get_type(schema).is_ok_and(|t| t == DataType::Float32)) {
        for value in &mut values {
            if let Some(small) = int_literal(value).and_then(|n| i16::try_from(n).ok()) {
                *value = lit(small);
            }
        }
    }
    values
}

/// Casts the values of a CASE, or the arguments of COALESCE, to their common type: the charter's, else DataFusion's.
/// Returns the expression as it is if all types are equal or all are text, or if there is no common type. The arguments
/// of other functions stay what they are, but for [`beside_floats`].
pub(super) fn of_one_type(expr: Expr, schema: &DFSchema) -> Expr {
    let expr = match expr {
        Expr::ScalarFunction(ScalarFunction { func, args }) if func.name() != "coalesce" => {
            return Expr::ScalarFunction(ScalarFunction { func, args: beside_floats(args, schema) });
        }
        other => other,
    };
    let values: Vec<&Expr> = match &expr {
        Expr::Case(case) => {
            case.when_then_expr.iter().map(|(_, then)| &**then).chain(case.else_expr.as_deref()).collect()
        }
        Expr::ScalarFunction(function) => function.args.iter().collect(),
        _ => return expr,
    };
    let fields = values.iter().map(|v| Ok(v.to_field(schema)?.1)).collect::<Result<Vec<_>>>();
    // A parameter has no type yet; it gets the type of the other values later.
    let Ok(fields) = fields else { return expr };
    let types: Vec<DataType> = fields.iter().map(|field| field.data_type().clone()).collect();
    let is_decimal = |t: &DataType| matches!(Class::of(t), Class::Decimal(..));
    let decimals = types.iter().any(is_decimal);
    let floats = types.contains(&DataType::Float32);
    // Beside decimals, an integer literal counts as TINYINT or INT, the narrower one that holds it.
    let narrow = |(value, t): (&&Expr, &DataType)| match int_literal(value).filter(|_| decimals || floats) {
        Some(n) if i8::try_from(n).is_ok() => DataType::Int8,
        Some(n) if floats && i16::try_from(n).is_ok() => DataType::Int16,
        Some(n) if i32::try_from(n).is_ok() => DataType::Int32,
        _ => t.clone(),
    };
    let counted: Vec<DataType> = values.iter().zip(&types).map(narrow).filter(|t| !t.is_null()).collect();
    let same = counted.windows(2).all(|pair| pair[0] == pair[1]);
    if same || counted.iter().all(|t| Class::of(t) == Class::Text) {
        return expr;
    }
    let of_charter = charter_type(counted.iter());
    let is_bytes = of_charter.as_ref().is_some_and(|t| *t == DataType::BinaryView);
    let of_charter = if is_bytes { common_of_fields(fields.iter()) } else { of_charter };
    let wanted = of_charter.or_else(|| type_union_resolution(&counted));
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

/// Casts the values of a CASE to the charter's common type, if the charter has a rule for them.
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

/// Casts the arguments of COALESCE, of IFNULL and of `make_array` to the charter's common type, if the charter has a rule for
/// them. DataFusion's planner makes one `make_array` of the keys of a map and one of its values, so the rule covers
/// maps, too.
pub(super) fn arguments(function: ScalarFunction, schema: &DFSchema) -> Transformed<Expr> {
    let common = match function.func.name() {
        "coalesce" | "ifnull" | "make_array" => common(function.args.iter(), schema),
        _ => None,
    };
    let Some(common) = common else { return Transformed::no(Expr::ScalarFunction(function)) };
    let args = function.args.into_iter().map(|e| cast_to(e, common.clone(), schema)).collect();
    Transformed::yes(Expr::ScalarFunction(ScalarFunction { func: function.func, args }))
}

/// The kind of a literal.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Kind {
    Text,
    Number,
    /// A number with an exponent.
    Double,
    Boolean,
    Bytes,
}

/// Returns the kind of a literal, which may be negated or in parentheses; `None` for NULL and all other expressions.
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
