//! Rows from the elements of arrays and maps, in FROM.
//!
//! Two spellings become the same tree, `LATERAL (SELECT unnest(array) AS column) AS name`:
//!
//! - the `LATERAL VIEW explode(array) name AS column` of Doris and Hive, with Doris's family of functions ("Table
//!   functions" in Doris's SQL manual): [`TABLE_FUNCTIONS`];
//! - the `unnest(array, ...) AS name(column, ...)` of StarRocks and the standard.

use std::ops::ControlFlow;

use sqlparser::ast::{
    self, Expr as AstExpr, FunctionArg, FunctionArgExpr, FunctionArguments, Ident, JoinConstraint, JoinOperator,
    ObjectName, Query, Select, SelectItem, TableAlias, TableAliasColumnDef, TableFactor, TableFunctionArgs, Value,
    visit_expressions_mut,
};

use crate::error::SqlError;
use crate::tree::{self, call, function_name};
use crate::walk::{self, Change};

/// The functions of LATERAL VIEW. Each may also end with `_outer`: a row with NULLs where there are no elements.
const TABLE_FUNCTIONS: &[&str] = &[
    "explode",
    "explode_bitmap",
    "explode_json_array_double",
    "explode_json_array_int",
    "explode_json_array_json",
    "explode_json_array_string",
    "explode_json_object",
    "explode_map",
    "explode_numbers",
    "explode_split",
    "explode_variant_array",
    "posexplode",
];

/// The function that returns the elements of a JSON array as an array of text, or of JSON if the second argument is
/// true. (It is not a name in SQL.)
pub const JSON_ELEMENTS: &str = "dipper_json_elements";

/// Replaces both spellings everywhere in a query.
///
/// # Errors
/// 1305 for a table function that does not exist, 1235 for one with the wrong number of arguments or columns.
pub fn expand(query: &mut Query) -> Result<(), SqlError> {
    struct Expand {
        has_rows: bool,
    }
    impl Change for Expand {
        fn select(&mut self, select: &mut Select) -> Result<(), SqlError> {
            views(select)
        }

        fn table_factor(&mut self, factor: &mut TableFactor) -> Result<(), SqlError> {
            if let TableFactor::Table { with_ordinality: true, .. }
            | TableFactor::Function { with_ordinality: true, .. } = factor
            {
                return Err(SqlError::unsupported(
                    "WITH ORDINALITY; LATERAL VIEW posexplode(array) counts elements",
                    None,
                ));
            }
            plain_call(factor);
            self.has_rows |= rows_without_names(factor).is_some();
            if let Some(derived) = unnested(factor)? {
                *factor = derived;
            }
            Ok(())
        }
    }
    let mut expand = Expand { has_rows: false };
    walk::change(query, &mut expand)?;
    if expand.has_rows && !has_engine_names(query) { name_rows(query) } else { Ok(()) }
}

/// Turns the views into joins after everything else in FROM: each sees the tables before it.
fn views(select: &mut Select) -> Result<(), SqlError> {
    if select.lateral_views.is_empty() {
        return Ok(());
    }
    let mut sources = std::mem::take(&mut select.from).into_iter();
    let Some(mut from) = sources.next() else {
        return Err(SqlError::unsupported("LATERAL VIEW without FROM", None));
    };
    from.joins.extend(sources.map(|table| ast::Join {
        relation: TableFactor::NestedJoin { table_with_joins: Box::new(table), alias: None },
        global: false,
        join_operator: JoinOperator::CrossJoin(JoinConstraint::None),
    }));
    for view in std::mem::take(&mut select.lateral_views) {
        let AstExpr::Function(function) = &view.lateral_view else {
            return Err(SqlError::unsupported(format!("LATERAL VIEW {}: not a function", view.lateral_view), None));
        };
        let written = function_name(function).unwrap_or_else(|| function.name.to_string());
        let (base, outer) = match written.strip_suffix("_outer") {
            Some(base) => (base, true),
            None => (written.as_str(), view.outer),
        };
        let arguments = match &function.args {
            FunctionArguments::List(list) => list.args.as_slice(),
            _ => &[],
        };
        let columns = columns(base, expressions(&written, arguments)?, view.lateral_col_alias.len())?;
        let [ast::ObjectNamePart::Identifier(name)] = view.lateral_view_name.0.as_slice() else {
            return Err(SqlError::unsupported(format!("LATERAL VIEW named {}", view.lateral_view_name), None));
        };
        let relation = elements(&written, columns, view.lateral_col_alias, name.clone())?;
        let join_operator = match outer {
            true => JoinOperator::Left(JoinConstraint::On(AstExpr::value(Value::Boolean(true)))),
            false => JoinOperator::CrossJoin(JoinConstraint::None),
        };
        from.joins.push(ast::Join { relation, global: false, join_operator });
    }
    select.from = vec![from];
    Ok(())
}

/// Returns the alias of `(VALUES ...) t` that names no columns, and the number of columns.
fn rows_without_names(factor: &mut TableFactor) -> Option<(&mut TableAlias, usize)> {
    let TableFactor::Derived { subquery, alias: Some(alias), .. } = factor else { return None };
    let ast::SetExpr::Values(values) = subquery.body.as_ref() else { return None };
    let width = values.rows.first().map_or(0, |row| row.len());
    alias.columns.is_empty().then_some((alias, width))
}

/// Whether a query uses the engine's names of the columns of VALUES: `column1`, `column2`.
fn has_engine_names(query: &mut Query) -> bool {
    let is = |name: &Ident| {
        let digits = name.value.get(6..).filter(|_| name.value.as_bytes()[..6].eq_ignore_ascii_case(b"column"));
        digits.is_some_and(|digits| !digits.is_empty() && digits.bytes().all(|digit| digit.is_ascii_digit()))
    };
    let found = visit_expressions_mut(query, |expr| {
        let name = match expr {
            AstExpr::Identifier(name) => Some(&*name),
            AstExpr::CompoundIdentifier(names) => names.last(),
            _ => None,
        };
        if name.is_some_and(is) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    found.is_break()
}

/// Names the columns of `(VALUES ...) t` `column_0`, `column_1` and so on, as in MySQL.
fn name_rows(query: &mut Query) -> Result<(), SqlError> {
    struct Names;
    impl Change for Names {
        fn table_factor(&mut self, factor: &mut TableFactor) -> Result<(), SqlError> {
            if let Some((alias, width)) = rows_without_names(factor) {
                let named = |at| TableAliasColumnDef { name: Ident::new(format!("column_{at}")), data_type: None };
                alias.columns = (0..width).map(named).collect();
            }
            Ok(())
        }
    }
    walk::change(query, &mut Names)
}

/// The function whose only column has the function's name, as in StarRocks.
const SERIES: &str = "generate_series";

/// Turns `TABLE(f(x))` and `LATERAL f(x)` into `f(x)`.
fn plain_call(factor: &mut TableFactor) {
    if let TableFactor::TableFunction { expr: AstExpr::Function(function), alias } = factor
        && function_name(function).as_deref() == Some(SERIES)
    {
        let alias = alias.get_or_insert_with(|| tree::alias(Ident::new(SERIES)));
        if alias.columns.is_empty() {
            alias.columns.push(TableAliasColumnDef { name: Ident::new(SERIES), data_type: None });
        }
    }
    let (name, args, alias) = match factor {
        TableFactor::TableFunction { expr: AstExpr::Function(function), alias } => match &mut function.args {
            FunctionArguments::List(list) => (&mut function.name, &mut list.args, alias),
            _ => return,
        },
        TableFactor::Function { name, args, alias, .. } => (name, args, alias),
        _ => return,
    };
    *factor = TableFactor::Table {
        name: std::mem::replace(name, ObjectName(Vec::new())),
        alias: alias.take(),
        args: Some(TableFunctionArgs { args: std::mem::take(args), settings: None }),
        with_hints: Vec::new(),
        version: None,
        with_ordinality: false,
        partitions: Vec::new(),
        json_path: None,
        sample: None,
        index_hints: Vec::new(),
    };
}

/// Rewrites `unnest(...)`, `unnest_bitmap(...)` and the functions of LATERAL VIEW in FROM.
fn unnested(factor: &mut TableFactor) -> Result<Option<TableFactor>, SqlError> {
    let TableFactor::Table { name, args: Some(args), alias, version: None, sample: None, .. } = factor else {
        return Ok(None);
    };
    let [ast::ObjectNamePart::Identifier(function)] = name.0.as_slice() else { return Ok(None) };
    let base = match function.value.to_ascii_lowercase().as_str() {
        "unnest" => "unnest",
        "unnest_bitmap" => "explode_bitmap",
        other => match TABLE_FUNCTIONS.iter().find(|known| **known == other) {
            Some(known) => known,
            None => return Ok(None),
        },
    };
    let function = function.value.clone();
    let TableAlias { name, columns: names, .. } =
        alias.take().unwrap_or_else(|| tree::alias(Ident::new(function.clone())));
    let names: Vec<Ident> = names.into_iter().map(|column| column.name).collect();
    let columns = columns(base, expressions(&function, &args.args)?, names.len())?;
    elements(&function, columns, names, name).map(Some)
}

fn expressions(function: &str, args: &[FunctionArg]) -> Result<Vec<AstExpr>, SqlError> {
    args.iter()
        .map(|arg| match arg {
            // NULL without a type has no elements.
            FunctionArg::Unnamed(FunctionArgExpr::Expr(AstExpr::Value(value))) if value.value == Value::Null => {
                Ok(call("array", Vec::new()))
            }
            FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Ok(arrays_as_calls(expr.clone())),
            other => Err(SqlError::unsupported(format!("{function}({other}): an expression is expected"), None)),
        })
        .collect()
}

/// Turns `[a, b]` into `array(a, b)`: DataFusion plans the elements of the former without the outer row.
fn arrays_as_calls(mut expr: AstExpr) -> AstExpr {
    let _ = visit_expressions_mut(&mut expr, |e| {
        if let AstExpr::Array(array) = e {
            *e = call("array", std::mem::take(&mut array.elem));
        }
        ControlFlow::<()>::Continue(())
    });
    expr
}

/// Returns the columns of a table function: their default names, and the elements of an array as a select item.
///
/// Arrays and maps are told apart by the number of columns that are `named`, because types are not known here.
fn columns(function: &str, args: Vec<AstExpr>, named: usize) -> Result<Vec<(&'static str, AstExpr)>, SqlError> {
    let wanted = match function {
        "explode_split" => 2..=2,
        "unnest" | "explode" | "posexplode" => 1..=usize::MAX,
        _ => 1..=1,
    };
    if !TABLE_FUNCTIONS.contains(&function) && function != "unnest" {
        let message = format!("table function '{function}' does not exist; there are {}", TABLE_FUNCTIONS.join(", "));
        return Err(SqlError { code: 1305, sqlstate: "42000", message, position: None });
    }
    if !wanted.contains(&args.len()) {
        let message = format!("{function} takes {} argument(s), not {}", wanted.start(), args.len());
        return Err(SqlError::unsupported(message, None));
    }
    let rows = |array: AstExpr| call("unnest", vec![array]);
    let json = |args: Vec<AstExpr>, raw: bool| {
        let raw = AstExpr::value(Value::Boolean(raw));
        rows(call(JSON_ELEMENTS, args.into_iter().chain([raw]).collect()))
    };
    let cast = |expr: AstExpr, data_type: ast::DataType| AstExpr::Cast {
        kind: ast::CastKind::Cast,
        expr: Box::new(expr),
        data_type,
        array: false,
        format: None,
    };
    let is_map = function == "explode_map" || (function == "explode" && named == 2 && args.len() == 1);
    Ok(match function {
        _ if is_map => vec![("key", rows(call("map_keys", args.clone()))), ("value", rows(call("map_values", args)))],
        "posexplode" => {
            let sizes: Vec<AstExpr> = args.iter().map(|arg| call("array_size", vec![arg.clone()])).collect();
            let size = if let [size] = sizes.as_slice() { size.clone() } else { longest(sizes) };
            let positions = ("pos", rows(call("array_range", vec![size])));
            std::iter::once(positions).chain(args.into_iter().map(|arg| ("col", rows(arg)))).collect()
        }
        "explode_json_object" => {
            let of_all = AstExpr::value(Value::SingleQuotedString("$.*".into()));
            let values = call("json_extract", vec![args[0].clone(), of_all]);
            vec![("key", rows(call("json_keys", args))), ("value", json(vec![values], true))]
        }
        "explode_split" => vec![("col", rows(call("split_by_string", args)))],
        "explode_numbers" => vec![("col", rows(call("array_range", args)))],
        "explode_bitmap" => vec![("col", rows(call("bitmap_to_array", args)))],
        // The elements of a VARIANT are shown by their characters.
        "explode_json_array_string" | "explode_variant_array" => vec![("col", json(args, false))],
        "explode_json_array_json" => vec![("col", json(args, true))],
        "explode_json_array_int" => vec![("col", cast(json(args, false), ast::DataType::BigInt(None)))],
        "explode_json_array_double" => {
            vec![("col", cast(json(args, false), ast::DataType::Double(ast::ExactNumberInfo::None)))]
        }
        "unnest" => args.into_iter().map(|arg| ("unnest", rows(arg))).collect(),
        _ => args.into_iter().map(|arg| ("col", rows(arg))).collect(),
    })
}

/// Returns the largest of the sizes of arrays, of which some may be NULL.
fn longest(sizes: Vec<AstExpr>) -> AstExpr {
    let zero = || AstExpr::value(Value::Number("0".into(), false));
    call("greatest", sizes.into_iter().map(|size| call("coalesce", vec![size, zero()])).collect())
}

/// Makes one column of several: a STRUCT with the positions as `pos` and the elements as `col1`, `col2` and so on.
fn as_struct(columns: Vec<(&'static str, AstExpr)>) -> Vec<(&'static str, AstExpr)> {
    let mut elements = 0;
    let fields = columns.into_iter().flat_map(|(name, expr)| {
        let name = match name {
            "col" => {
                elements += 1;
                format!("col{elements}")
            }
            other => other.to_string(),
        };
        [AstExpr::value(Value::SingleQuotedString(name)), expr]
    });
    let fields = fields.collect();
    vec![("col", call("named_struct", fields))]
}

/// Builds `LATERAL (SELECT unnest(array) AS column, ...) AS name`.
fn elements(
    function: &str,
    columns: Vec<(&'static str, AstExpr)>,
    names: Vec<Ident>,
    name: Ident,
) -> Result<TableFactor, SqlError> {
    let columns = match names.len() == 1 && columns.len() > 1 && !function.eq_ignore_ascii_case("unnest") {
        true => as_struct(columns),
        false => columns,
    };
    if names.len() > columns.len() {
        let message = format!("{function} yields {} column(s), {} are named", columns.len(), names.len());
        return Err(SqlError::unsupported(message, None));
    }
    let mut names = names.into_iter();
    let projection = columns
        .into_iter()
        .map(|(default, expr)| SelectItem::ExprWithAlias {
            expr,
            alias: names.next().unwrap_or_else(|| Ident::new(default)),
        })
        .collect();
    Ok(TableFactor::Derived {
        lateral: true,
        subquery: Box::new(tree::select(projection, Vec::new())),
        alias: Some(tree::alias(name)),
        sample: None,
    })
}
