//! The tables that a query reads: finding them in the tree, and putting the engine's names into it.

use std::collections::HashSet;

use dipper_dialect::error::SqlError;
use dipper_dialect::statement::Name;
use dipper_dialect::tree;
use dipper_dialect::walk::{self, Look};
use sqlparser::ast::{
    self, Expr, FunctionArg, FunctionArgExpr, Ident, ObjectName, Query, TableAlias, TableFactor, Value,
};

use sqlparser::tokenizer::Span;

use super::session::{TableRef, TableVersion};

/// Returns the names of all common table expressions of a query, at any depth.
pub(super) fn cte_names(query: &Query) -> HashSet<String> {
    struct Ctes(HashSet<String>);
    impl Look for Ctes {
        fn query(&mut self, query: &Query) -> Result<(), SqlError> {
            if let Some(with) = &query.with {
                self.0.extend(with.cte_tables.iter().map(|cte| cte.alias.name.value.clone()));
            }
            Ok(())
        }
    }
    let mut visitor = Ctes(HashSet::new());
    // Collecting names cannot fail.
    let _ = walk::look(query, &mut visitor);
    visitor.0
}

/// Returns the reference of a table factor; `None` for derived tables, joins in parentheses and other forms.
pub(super) fn table_ref(factor: &TableFactor, ctes: &HashSet<String>, ansi_quotes: bool) -> Option<TableRef> {
    let TableFactor::Table { name, args, version, partitions, .. } = factor else { return None };
    let parts: Vec<&Ident> = name.0.iter().map(|p| p.as_ident()).collect::<Option<_>>()?;
    if let Some(args) = args {
        let function = parts.last()?.value.to_ascii_lowercase();
        let mut properties = Vec::new();
        let mut arguments = Vec::new();
        for arg in &args.args {
            match property(arg) {
                Some(pair) => properties.push(pair),
                None => arguments.push(argument(arg)),
            }
        }
        return Some(TableRef::Function { name: function, properties, arguments });
    }
    if let [only] = parts.as_slice()
        && (only.quote_style == Some('\'') || (only.quote_style == Some('"') && !ansi_quotes))
    {
        return Some(TableRef::Path(only.value.clone()));
    }
    let name = Name(parts.iter().map(|p| p.value.clone()).collect());
    let maybe_cte = name.0.len() == 1 && ctes.contains(name.object());
    let version = version.as_ref().map(|version| match version {
        ast::TableVersion::ForSystemTimeAsOf(e) => state(e),
        ast::TableVersion::TimestampAsOf(e) => match text(e) {
            Some(text) => TableVersion::Time(text),
            None => TableVersion::TimeOf(Box::new(e.clone())),
        },
        other => TableVersion::Version(other.to_string()),
    });
    let partitions = partitions.iter().map(|p| p.value.clone()).collect();
    Some(TableRef::Named { name, maybe_cte, version, partitions })
}

/// Returns the version that an id or name means, or `branch(b)`, `tag('name' = 'b')`.
fn state(expr: &Expr) -> TableVersion {
    let named = |function: &ast::Function| {
        let ast::FunctionArguments::List(list) = &function.args else { return None };
        let [argument] = &list.args[..] else { return None };
        let name = match property(argument) {
            Some((key, value)) => key.eq_ignore_ascii_case("name").then_some(value)?,
            None => match argument {
                FunctionArg::Unnamed(FunctionArgExpr::Expr(e)) => text(e)?,
                _ => return None,
            },
        };
        match function.name.to_string().to_ascii_lowercase().as_str() {
            "branch" => Some(TableVersion::Branch(name)),
            "tag" => Some(TableVersion::Tag(name)),
            _ => None,
        }
    };
    match expr {
        Expr::Function(function) => named(function),
        _ => None,
    }
    .unwrap_or_else(|| TableVersion::Version(text(expr).unwrap_or_else(|| expr.to_string())))
}

fn text(expr: &Expr) -> Option<String> {
    match expr {
        Expr::Value(v) => match &v.value {
            Value::SingleQuotedString(s) | Value::DoubleQuotedString(s) => Some(s.clone()),
            Value::Number(n, _) => Some(n.clone()),
            Value::Boolean(b) => Some(b.to_string()),
            _ => None,
        },
        // A double-quoted string under ANSI_QUOTES, or a bare word.
        Expr::Identifier(i) => Some(i.value.clone()),
        Expr::CompoundIdentifier(parts) => Some(parts.iter().map(|i| i.value.clone()).collect::<Vec<_>>().join(".")),
        _ => None,
    }
}

fn property(arg: &FunctionArg) -> Option<(String, String)> {
    match arg {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::BinaryOp { left, op: ast::BinaryOperator::Eq, right })) => {
            Some((text(left)?, text(right)?))
        }
        FunctionArg::Named { name, arg: FunctionArgExpr::Expr(value), .. } => Some((name.value.clone(), text(value)?)),
        FunctionArg::ExprNamed { name, arg: FunctionArgExpr::Expr(value), .. } => Some((text(name)?, text(value)?)),
        _ => None,
    }
}

/// Returns the positions of the strings in a `'key' = 'value'`.
pub(super) fn property_spans(arg: &FunctionArg) -> Vec<Span> {
    match arg {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::BinaryOp { left, op: ast::BinaryOperator::Eq, right })) => {
            [left, right]
                .into_iter()
                .filter_map(|side| match side.as_ref() {
                    Expr::Value(value) => Some(value.span),
                    _ => None,
                })
                .collect()
        }
        _ => Vec::new(),
    }
}

fn argument(arg: &FunctionArg) -> String {
    match arg {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Value(v))) => match &v.value {
            Value::SingleQuotedString(s) | Value::DoubleQuotedString(s) => s.clone(),
            other => other.to_string(),
        },
        other => other.to_string(),
    }
}

/// Builds a name whose parts are taken exactly.
pub(super) fn exact_name(parts: &[String]) -> ObjectName {
    ObjectName::from(parts.iter().map(|p| Ident::with_quote('"', p)).collect::<Vec<_>>())
}

/// Puts the planner's name of a table into its factor. Arguments are removed: the name stands for the whole call.
pub(super) fn set_reference(factor: &mut TableFactor, reference: &[String]) {
    if let TableFactor::Table { name, args, partitions, version, alias, .. } = factor {
        // The table's own name becomes the alias, for columns that are qualified by it.
        if (version.take().is_some() || !partitions.is_empty()) && alias.is_none() {
            *alias = name.0.last().and_then(|p| p.as_ident()).cloned().map(tree::alias);
        }
        *name = exact_name(reference);
        *args = None;
        partitions.clear();
    }
}

/// Returns the name by which a factor's columns can be qualified.
pub(super) fn visible_name(factor: &TableFactor) -> Option<Ident> {
    match factor {
        TableFactor::Table { name, alias, .. } => match alias {
            Some(alias) => Some(alias.name.clone()),
            None => name.0.last().and_then(|p| p.as_ident()).cloned(),
        },
        TableFactor::Derived { alias, .. } | TableFactor::UNNEST { alias, .. } => {
            alias.as_ref().map(|a| a.name.clone())
        }
        _ => None,
    }
}

/// Builds `(query)`, or `(query) AS alias`.
pub(super) fn derived(query: Query, alias: impl Into<Option<TableAlias>>) -> TableFactor {
    TableFactor::Derived { lateral: false, subquery: Box::new(query), alias: alias.into(), sample: None }
}
