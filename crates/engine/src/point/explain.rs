//! The reason why a query that a user would take for a look-up is none. These are queries that compare every key column
//! of one table with something that is not a column, if look-ups can read the table.

use std::collections::HashSet;
use std::ops::ControlFlow;

use dipper_dialect::parser::ParseOptions;
use dipper_dialect::statement::{QueryText, Statement};
use dipper_sql::charter::session::TableRef;
use dipper_sql::charter::table_refs;
use dipper_store::catalog::{CatalogState, TableId};
use sqlparser::ast::{
    BinaryOperator, Expr, FunctionArg, FunctionArgExpr, FunctionArguments, Query, SetExpr, TableFactor, TableWithJoins,
    UnaryOperator, Value, Visit, Visitor,
};

use super::recognise::{MORE_IN_FROM, other_clause, tuple};
use super::scan::TEXT_BYTES_MAX;
use crate::session::Session;

/// Depth to which views in views are examined.
const VIEWS_DEEP: usize = 8;

/// Returns the reason for a query that was not recognised; `None` if nobody would take it for a look-up. `is_read`:
/// look-ups can read the text of the query.
pub(super) fn why_not(session: &Session, query: &QueryText, is_read: bool) -> Option<String> {
    let engine = &session.engine;
    let state = engine.catalog.snapshot();
    let mut found = Found { state: &state, tables: HashSet::new(), view: None };
    found.add(query, session.database(), VIEWS_DEEP);
    let mut compared = Compared::default();
    let _ = Visit::visit(query.ast.as_ref(), &mut compared);
    let opened = |id: &TableId| {
        let handle = engine.native.opened(*id)?;
        engine.points().lookups.table(&handle).view().ok()?;
        Some(handle)
    };
    let mut tables = found.tables.iter();
    let (Some(id), None) = (tables.next(), tables.next()) else {
        let by_key = found.tables.iter().filter_map(opened).any(|handle| {
            let snapshot = handle.snapshot();
            let schema = snapshot.schema();
            let is_fixed = |name: &str| compared.with_constants.iter().any(|c| c.eq_ignore_ascii_case(name));
            schema.keys > 0 && schema.columns[..schema.keys].iter().all(|key| is_fixed(&key.name))
        });
        return by_key.then(|| "the query reads several tables".into());
    };
    let handle = opened(id)?;
    let snapshot = handle.snapshot();
    let schema = snapshot.schema();
    let keys = &schema.columns[..schema.keys];
    let are_in = |columns: &[String]| keys.iter().all(|k| columns.iter().any(|c| c.eq_ignore_ascii_case(&k.name)));
    let is_table = |from: &TableWithJoins| from.joins.is_empty() && matches!(from.relation, TableFactor::Table { .. });
    if keys.is_empty() {
        return None;
    }
    if !are_in(&compared.columns) {
        // Joins and subqueries also compare keys with columns, and nobody takes them for look-ups.
        let is_simple = compared.queries == 1
            && matches!(query.ast.body.as_ref(),
                SetExpr::Select(select) if matches!(select.from.as_slice(), [only] if is_table(only)));
        let with_any = [compared.columns, compared.with_columns].concat();
        return (is_simple && are_in(&with_any))
            .then(|| "a key column is compared with a column; look-ups take constants and ?".into());
    }
    if let Some(view) = found.view {
        return Some(format!("{view} is a view; look-ups read tables by their own names"));
    }
    if query.text.len() > TEXT_BYTES_MAX {
        return Some(format!("the statement is longer than {} KiB", TEXT_BYTES_MAX >> 10));
    }
    if query.ast.with.is_some() {
        return Some("the query has WITH".into());
    }
    let select = match query.ast.body.as_ref() {
        SetExpr::Select(select) => select,
        SetExpr::Query(_) => return Some("the query is in parentheses".into()),
        _ => return Some("the query is more than one SELECT".into()),
    };
    if compared.queries > 1 {
        return Some("the query has a subquery".into());
    }
    if !matches!(select.from.as_slice(), [only] if is_table(only)) {
        return Some(MORE_IN_FROM.into());
    }
    if compared.has_or {
        return Some(
            "conditions are joined by OR; write IN, for keys of several columns (a, b) IN ((1, 2), ...)".into(),
        );
    }
    if let Some(clause) = other_clause(&query.ast, select) {
        return Some(format!("the query has {clause}"));
    }
    let has_constants = are_in(&compared.with_constants);
    let is_missing_key = |name: &str| {
        let is = |other: &String| other.eq_ignore_ascii_case(name);
        keys.iter().any(|key| key.name.eq_ignore_ascii_case(name)) && !compared.with_constants.iter().any(is)
    };
    if let Some((_, how)) = compared.otherwise.iter().find(|(name, _)| is_missing_key(name)) {
        return Some(format!("a key column is {how}; look-ups take =, <=> and IN of the column itself"));
    }
    let why = match (has_constants, is_read) {
        (false, _) => {
            "a key column is compared with a variable, an expression, ROW(...) or a number with an exponent; look-ups \
             take constants and ?"
        }
        (true, true) => {
            "no condition on the key is one that look-ups read: =, <=> and IN with constants and ?, of columns and of \
             (a, b, ...)"
        }
        (true, false) => {
            "the statement has what look-ups do not read: a variable, a comment, a number with an exponent, a type \
             with a length, a string behind a word or with an escape like \\n"
        }
    };
    Some(why.into())
}

/// The tables that a query reads, including those of its views.
struct Found<'s> {
    state: &'s CatalogState,
    tables: HashSet<TableId>,
    view: Option<String>,
}

impl Found<'_> {
    fn add(&mut self, query: &QueryText, database: Option<&str>, deep: usize) {
        for reference in table_refs(query) {
            let TableRef::Named { name, .. } = reference else { continue };
            let Some(database) = name.database().or(database) else { continue };
            let Some(table) = self.state.table(database, name.object()) else { continue };
            if table.is_native() {
                self.tables.insert(table.id);
            }
            let Some(view) = table.as_view().filter(|_| deep > 0) else { continue };
            self.view.get_or_insert(name.object().to_string());
            let parsed = dipper_dialect::parser::parse(&view.sql, &ParseOptions::from_sql_mode(&view.sql_mode));
            let Some(Statement::Query(inner)) = parsed.ok().and_then(|mut p| p.pop()).map(|p| p.statement) else {
                continue;
            };
            self.add(&inner, Some(view.database.as_str()), deep - 1);
        }
    }
}

/// Columns that are compared with something that is not a column.
#[derive(Default)]
struct Compared {
    columns: Vec<String>,
    /// Columns that are compared with constants that look-ups support.
    with_constants: Vec<String>,
    /// Columns that are compared with other columns.
    with_columns: Vec<String>,
    /// Columns that are compared in a way that means the same as `=`, and the way.
    otherwise: Vec<(String, &'static str)>,
    has_or: bool,
    queries: usize,
}

impl Compared {
    fn pair(&mut self, left: &Expr, right: &Expr) {
        if let (Some(left), Some(right)) = (tuple(left), tuple(right)) {
            return left.iter().zip(right).for_each(|(left, right)| self.pair(left, right));
        }
        self.with(left, std::slice::from_ref(right));
        self.with(right, std::slice::from_ref(left));
    }

    fn with(&mut self, expr: &Expr, others: &[Expr]) {
        if let Expr::Cast { expr, .. } | Expr::Convert { expr, .. } = expr {
            return self.with_otherwise(expr, others, "in a CAST");
        }
        match others.iter().all(is_fixed) {
            true => columns(expr, &mut self.columns),
            false => columns(expr, &mut self.with_columns),
        }
        if others.iter().all(is_constant) {
            columns(expr, &mut self.with_constants);
        }
    }

    fn with_otherwise(&mut self, expr: &Expr, others: &[Expr], how: &'static str) {
        let before = self.columns.len();
        if others.iter().all(is_fixed) {
            columns(expr, &mut self.columns);
        }
        self.otherwise.extend(self.columns[before..].iter().map(|name| (name.clone(), how)));
    }

    /// Handles `NOT (k <> 1)` and `NOT (k NOT IN (1, 2))`.
    fn negated(&mut self, expr: &Expr) {
        const HOW: &str = "compared by a NOT";
        match expr {
            Expr::Nested(inner) => self.negated(inner),
            Expr::BinaryOp { left, op: BinaryOperator::NotEq, right } => {
                self.with_otherwise(left, std::slice::from_ref(right), HOW);
                self.with_otherwise(right, std::slice::from_ref(left), HOW);
            }
            Expr::InList { expr, list, negated: true } => self.with_otherwise(expr, list, HOW),
            _ => {}
        }
    }
}

/// Appends the columns of one side of a comparison.
fn columns(expr: &Expr, out: &mut Vec<String>) {
    match expr {
        Expr::Identifier(name) => out.push(name.value.clone()),
        Expr::CompoundIdentifier(parts) => out.extend(parts.last().map(|name| name.value.clone())),
        Expr::Nested(inner) => columns(inner, out),
        Expr::Tuple(parts) => parts.iter().for_each(|part| columns(part, out)),
        // ROW(a, b, ...)
        Expr::Function(function) if function.name.to_string().eq_ignore_ascii_case("row") => {
            let FunctionArguments::List(list) = &function.args else { return };
            for arg in &list.args {
                if let FunctionArg::Unnamed(FunctionArgExpr::Expr(part)) = arg {
                    columns(part, out);
                }
            }
        }
        _ => {}
    }
}

impl Visitor for Compared {
    type Break = ();

    fn pre_visit_query(&mut self, _: &Query) -> ControlFlow<()> {
        self.queries += 1;
        ControlFlow::Continue(())
    }

    fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
        match expr {
            Expr::BinaryOp { left, op: BinaryOperator::Eq | BinaryOperator::Spaceship, right } => {
                self.pair(left, right)
            }
            Expr::BinaryOp { op: BinaryOperator::Or, .. } => self.has_or = true,
            Expr::InList { expr, list, negated: false } => self.with(expr, list),
            Expr::Between { expr, negated: false, low, high } if low == high => {
                self.with_otherwise(expr, std::slice::from_ref(low), "compared by BETWEEN");
            }
            Expr::UnaryOp { op: UnaryOperator::Not, expr } => self.negated(expr),
            _ => {}
        }
        ControlFlow::Continue(())
    }
}

/// Whether an expression is a constant that look-ups support, however it is written.
fn is_constant(expr: &Expr) -> bool {
    match expr {
        Expr::Value(value) => !matches!(&value.value, Value::Number(number, _) if number.contains(['e', 'E'])),
        // A minus is read as part of the number after it.
        Expr::UnaryOp { op: UnaryOperator::Minus, expr } => matches!(**expr, Expr::Value(_)) && is_constant(expr),
        Expr::UnaryOp { op: UnaryOperator::Plus, expr } => {
            !matches!(**expr, Expr::UnaryOp { op: UnaryOperator::Minus, .. }) && is_constant(expr)
        }
        Expr::Nested(expr) => is_constant(expr),
        Expr::Tuple(values) => values.iter().all(is_constant),
        _ => false,
    }
}

/// Whether an expression reads no column: constants, variables, and expressions of these.
fn is_fixed(expr: &Expr) -> bool {
    struct Reads;
    impl Visitor for Reads {
        type Break = ();

        fn pre_visit_query(&mut self, _: &Query) -> ControlFlow<()> {
            ControlFlow::Break(())
        }

        fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
            match expr {
                Expr::Identifier(name) if name.value.starts_with('@') => ControlFlow::Continue(()),
                Expr::Identifier(_) | Expr::CompoundIdentifier(_) => ControlFlow::Break(()),
                _ => ControlFlow::Continue(()),
            }
        }
    }
    Visit::visit(expr, &mut Reads).is_continue()
}
