//! Recognises queries for rows by their whole key, from their syntax tree alone.

use dipper_dialect::statement::{Name, QueryText};
use dipper_sql::charter::session::{TableRef, VarValue};
use dipper_sql::charter::table_refs;
use dipper_store::table::schema::{TableColumn, TableSchema};
use sqlparser::ast::{
    BinaryOperator, Distinct, Expr, GroupByExpr, Ident, LimitClause, Query, Select, SelectItem,
    SelectItemQualifiedWildcardKind, SetExpr, TableFactor, TableWithJoins, UnaryOperator, Value, ValueWithSpan,
    WildcardAdditionalOptions,
};

/// A constant of a query.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Source {
    /// The `?` of this number, from 0.
    Slot(usize),
    /// A word: NULL, TRUE, FALSE.
    Fixed(VarValue),
}

/// The condition on a key column.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Condition {
    /// Equal to one of these.
    In(Vec<Source>),
    /// Equal to this, or NULL if this is NULL.
    Same(Source),
    /// Equal to the value at this position of one of [`Found::rows`], which is the same row for all columns.
    Row(usize),
}

/// The effect of one condition on the key.
struct Fixed {
    key: FixedKey,
    /// The condition also concerns other columns, so it is evaluated on the rows found as well.
    more: bool,
}

enum FixedKey {
    /// Each of these columns on its own.
    Columns(Vec<(usize, Condition)>),
    /// Several columns together: equal to one of these rows.
    Rows(Vec<usize>, Vec<Vec<Source>>),
}

impl FixedKey {
    fn columns(&self) -> Vec<usize> {
        match self {
            FixedKey::Columns(columns) => columns.iter().map(|(column, _)| *column).collect(),
            FixedKey::Rows(columns, _) => columns.clone(),
        }
    }
}

/// A column of the result.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Item {
    /// All columns.
    All,
    /// The column at this position in the schema.
    Column(usize),
    /// Another expression, with the columns that it reads.
    Expression(Vec<usize>),
}

/// A query over one table that may be a look-up.
#[derive(Debug)]
pub(super) struct Lookup<'q> {
    pub select: &'q Select,
    /// The name of the table, as written.
    pub table: Name,
    alias: Option<&'q Ident>,
    pub limit: Option<Source>,
    /// The reason, if the query has something that look-ups do not support.
    pub refused: No,
    conjuncts: Vec<&'q Expr>,
}

/// A look-up in a table of this definition.
#[derive(Debug)]
pub(super) struct Found<'q> {
    /// The condition of each key column.
    pub keys: Vec<Condition>,
    /// The rows of `(k, l) IN ((1, 'a'), ...)`.
    pub rows: Vec<Vec<Source>>,
    pub items: Vec<Item>,
    /// Conditions besides those on the key, and the columns that they read.
    pub extra: Vec<&'q Expr>,
    pub extra_columns: Vec<usize>,
}

/// The reason why a query is not a look-up; `None` if nobody would take it for one.
pub(super) type No = Option<String>;

pub(super) const MORE_IN_FROM: &str = "the query has more in FROM than the name of a table";

fn no(why: impl Into<String>) -> No {
    Some(why.into())
}

/// Returns whether a query has the clauses of a look-up and no others. Most queries have not: their text need not be
/// read once more without its constants.
pub(super) fn has_its_clauses(query: &QueryText) -> bool {
    let ast = query.ast.as_ref();
    let SetExpr::Select(select) = ast.body.as_ref() else { return false };
    let is_plain = |from: &TableWithJoins| from.joins.is_empty() && plain_factor(&from.relation);
    let [from] = select.from.as_slice() else { return false };
    is_plain(from) && select.selection.is_some() && other_clause(ast, select).is_none()
}

/// Takes a query apart, if it may be a look-up.
pub(super) fn lookup(query: &QueryText) -> Option<Lookup<'_>> {
    let ast = query.ast.as_ref();
    let SetExpr::Select(select) = ast.body.as_ref() else { return None };
    let [from] = select.from.as_slice() else { return None };
    let Some(selection) = &select.selection else { return None };
    let refs = table_refs(query);
    let [TableRef::Named { name, maybe_cte: false, version: None, .. }] = refs.as_slice() else { return None };
    let TableFactor::Table { alias, args: None, .. } = &from.relation else { return None };
    let mut refused = other_clause(ast, select).map(|clause| format!("the query has {clause}"));
    if takes_literals(ast) {
        refused =
            no("a string stands behind DATE, TIME, TIMESTAMP or ESCAPE; write dates without the word before them");
    }
    if !from.joins.is_empty() || !plain_factor(&from.relation) {
        refused = no(MORE_IN_FROM);
    }
    let limit = match &ast.limit_clause {
        None => None,
        Some(LimitClause::LimitOffset { limit: Some(limit), offset: None, limit_by }) if limit_by.is_empty() => {
            let limit = constant(limit);
            if limit.is_none() {
                refused = no("LIMIT is no constant");
            }
            limit
        }
        Some(_) => {
            refused = no("the query has OFFSET");
            None
        }
    };
    let mut conjuncts = Vec::new();
    conjunction(selection, &mut conjuncts);
    Some(Lookup { select, table: name.clone(), alias: alias.as_ref().map(|a| &a.name), limit, refused, conjuncts })
}

fn plain_factor(factor: &TableFactor) -> bool {
    matches!(factor, TableFactor::Table { alias, with_hints, version: None, with_ordinality: false, partitions,
        json_path: None, sample: None, index_hints, .. }
        if with_hints.is_empty() && partitions.is_empty() && index_hints.is_empty()
            && alias.as_ref().is_none_or(|a| a.columns.is_empty()))
}

/// Whether a `?` stands where only a literal can be, as in `DATE '2024-01-01'` and `LIKE ... ESCAPE '|'`. It is not an
/// expression there, so no value can take its place.
fn takes_literals(query: &Query) -> bool {
    use std::ops::ControlFlow;

    #[derive(Default)]
    struct Placeholders {
        all: usize,
        expressions: usize,
    }
    impl sqlparser::ast::Visitor for Placeholders {
        type Break = ();

        fn pre_visit_value(&mut self, value: &ValueWithSpan) -> ControlFlow<()> {
            self.all += usize::from(is_placeholder(value));
            ControlFlow::Continue(())
        }

        fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<()> {
            self.expressions += usize::from(matches!(expr, Expr::Value(value) if is_placeholder(value)));
            ControlFlow::Continue(())
        }
    }
    fn is_placeholder(value: &ValueWithSpan) -> bool {
        matches!(value.value, Value::Placeholder(_))
    }
    let mut found = Placeholders::default();
    let _ = sqlparser::ast::Visit::visit(query, &mut found);
    found.all > found.expressions
}

/// Returns a clause of the query that look-ups do not support.
pub(super) fn other_clause(query: &Query, select: &Select) -> Option<&'static str> {
    let grouped = match &select.group_by {
        GroupByExpr::All(_) => true,
        GroupByExpr::Expressions(by, modifiers) => !by.is_empty() || !modifiers.is_empty(),
    };
    let counts = select.select_modifiers.as_ref().is_some_and(|modifiers| modifiers.sql_calc_found_rows);
    let clauses = [
        (counts, "SQL_CALC_FOUND_ROWS"),
        (query.with.is_some(), "WITH"),
        (query.order_by.is_some(), "ORDER BY"),
        (query.fetch.is_some(), "FETCH"),
        (query.for_clause.is_some() || !query.locks.is_empty(), "a FOR clause"),
        (query.settings.is_some() || query.format_clause.is_some() || !query.pipe_operators.is_empty(), "settings"),
        (matches!(select.distinct, Some(Distinct::Distinct | Distinct::On(_))), "DISTINCT"),
        (select.top.is_some(), "TOP"),
        (select.into.is_some(), "INTO"),
        (select.exclude.is_some(), "EXCLUDE"),
        (select.prewhere.is_some() || !select.connect_by.is_empty(), "PREWHERE or CONNECT BY"),
        (grouped, "GROUP BY"),
        (!select.cluster_by.is_empty() || !select.distribute_by.is_empty() || !select.sort_by.is_empty(), "SORT BY"),
        (select.having.is_some(), "HAVING"),
        (!select.named_window.is_empty() || select.qualify.is_some(), "a window"),
        (select.value_table_mode.is_some(), "AS STRUCT or AS VALUE"),
    ];
    clauses.into_iter().find(|(has, _)| *has).map(|(_, clause)| clause)
}

fn conjunction<'q>(expr: &'q Expr, out: &mut Vec<&'q Expr>) {
    match expr {
        Expr::BinaryOp { left, op: BinaryOperator::And, right } => {
            conjunction(left, out);
            conjunction(right, out);
        }
        Expr::Nested(inner) if matches!(**inner, Expr::BinaryOp { op: BinaryOperator::And, .. } | Expr::Nested(_)) => {
            conjunction(inner, out);
        }
        Expr::Nested(inner) => out.push(inner),
        other => out.push(other),
    }
}

/// Returns the values of `(a, b, ...)`.
pub(super) fn tuple(expr: &Expr) -> Option<&[Expr]> {
    match expr {
        Expr::Tuple(values) => Some(values),
        Expr::Nested(inner) => tuple(inner),
        _ => None,
    }
}

/// Returns the number of the placeholder `$1`, counted from 0.
pub(super) fn placeholder(name: &str) -> Option<usize> {
    name.strip_prefix('$')?.parse::<usize>().ok()?.checked_sub(1)
}

fn constant(expr: &Expr) -> Option<Source> {
    Some(match expr {
        Expr::Nested(inner) => return constant(inner),
        Expr::Value(value) => match &value.value {
            Value::Placeholder(name) => Source::Slot(placeholder(name)?),
            Value::Null => Source::Fixed(VarValue::Null),
            Value::Boolean(v) => Source::Fixed(VarValue::Int((*v).into())),
            _ => return None,
        },
        // A sign that was not read as part of the number.
        Expr::UnaryOp { op: UnaryOperator::Plus, expr } => return constant(expr),
        _ => return None,
    })
}

impl<'q> Lookup<'q> {
    /// Returns the column, if an expression is one.
    fn column(&self, expr: &Expr, schema: &TableSchema) -> Option<usize> {
        match expr {
            Expr::Identifier(name) => self.named(name, schema),
            Expr::CompoundIdentifier(parts) => {
                let (name, table) = parts.split_last()?;
                self.is_table(table).then(|| self.named(name, schema))?
            }
            Expr::Nested(inner) => self.column(inner, schema),
            _ => None,
        }
    }

    fn named(&self, name: &Ident, schema: &TableSchema) -> Option<usize> {
        schema.columns.iter().position(|c| c.name.eq_ignore_ascii_case(&name.value))
    }

    fn is_table(&self, parts: &[Ident]) -> bool {
        match self.alias {
            Some(alias) => matches!(parts, [only] if only.value == alias.value),
            None => {
                let names = &self.table.0;
                parts.len() <= names.len()
                    && parts.iter().rev().zip(names.iter().rev()).all(|(part, name)| part.value == *name)
            }
        }
    }

    /// Returns the columns that an expression reads. `place` names the part of the query, for the error.
    ///
    /// # Errors
    /// The reason, if the expression contains something that look-ups do not support: a subquery, or a name that is not
    /// a column.
    fn columns_of(&self, expr: &Expr, place: &str, schema: &TableSchema) -> Result<Vec<usize>, No> {
        use std::ops::ControlFlow;

        struct Reads<'a, 'q> {
            lookup: &'a Lookup<'q>,
            schema: &'a TableSchema,
            columns: Vec<usize>,
        }
        impl sqlparser::ast::Visitor for Reads<'_, '_> {
            type Break = &'static str;

            fn pre_visit_query(&mut self, _: &Query) -> ControlFlow<&'static str> {
                ControlFlow::Break("a subquery")
            }

            fn pre_visit_expr(&mut self, expr: &Expr) -> ControlFlow<&'static str> {
                match expr {
                    Expr::Identifier(_) | Expr::CompoundIdentifier(_) => {
                        match self.lookup.column(expr, self.schema) {
                            Some(column) => self.columns.push(column),
                            // Words such as CURRENT_TIMESTAMP and the units of functions are not columns.
                            None if matches!(expr, Expr::Identifier(_)) => {}
                            None => return ControlFlow::Break("a field of a structure"),
                        }
                        ControlFlow::Continue(())
                    }
                    _ => ControlFlow::Continue(()),
                }
            }
        }
        let mut reads = Reads { lookup: self, schema, columns: Vec::new() };
        match sqlparser::ast::Visit::visit(expr, &mut reads) {
            ControlFlow::Continue(()) => Ok(reads.columns),
            ControlFlow::Break(what) => Err(Some(format!("{place} has {what}"))),
        }
    }

    /// Whether a condition fixes some key column of the table, so that a user may take the query for a look-up.
    pub fn looks_like_one(&self, schema: &TableSchema) -> bool {
        self.conjuncts.iter().any(|c| self.fixed(c, schema).is_some())
    }

    /// Returns the effect of a condition on key columns, if it fixes one.
    fn fixed(&self, expr: &Expr, schema: &TableSchema) -> Option<Fixed> {
        if let Some((column, condition)) = self.key_condition(expr, schema) {
            return Some(Fixed { key: FixedKey::Columns(vec![(column, condition)]), more: false });
        }
        let key = |expr: &Expr| self.column(expr, schema).filter(|c| *c < schema.keys);
        match expr {
            Expr::BinaryOp { left, op: op @ (BinaryOperator::Eq | BinaryOperator::Spaceship), right } => {
                let (left, right) = (tuple(left)?, tuple(right)?);
                if left.len() != right.len() {
                    return None;
                }
                let pair = |(left, right): (&Expr, &Expr)| {
                    let (column, value) = match key(left) {
                        Some(column) => (column, constant(right)?),
                        None => (key(right)?, constant(left)?),
                    };
                    Some((
                        column,
                        if *op == BinaryOperator::Eq { Condition::In(vec![value]) } else { Condition::Same(value) },
                    ))
                };
                let pairs: Vec<_> = left.iter().zip(right).filter_map(pair).collect();
                let more = pairs.len() < left.len();
                (!pairs.is_empty()).then_some(Fixed { key: FixedKey::Columns(pairs), more })
            }
            Expr::InList { expr, list, negated: false } => {
                let compared: Vec<Option<usize>> = tuple(expr)?.iter().map(key).collect();
                let row = |row: &Expr| {
                    let row = tuple(row).filter(|row| row.len() == compared.len())?;
                    let of_key = row.iter().zip(&compared).filter(|(_, column)| column.is_some());
                    of_key.map(|(value, _)| constant(value)).collect::<Option<Vec<_>>>()
                };
                let rows = list.iter().map(row).collect::<Option<Vec<_>>>()?;
                let columns: Vec<usize> = compared.iter().copied().flatten().collect();
                let more = columns.len() < compared.len();
                (!columns.is_empty()).then_some(Fixed { key: FixedKey::Rows(columns, rows), more })
            }
            _ => None,
        }
    }

    /// Returns the key column that a condition fixes.
    fn key_condition(&self, expr: &Expr, schema: &TableSchema) -> Option<(usize, Condition)> {
        let key = |expr: &Expr| self.column(expr, schema).filter(|c| *c < schema.keys);
        match expr {
            Expr::BinaryOp { left, op: op @ (BinaryOperator::Eq | BinaryOperator::Spaceship), right } => {
                let (column, value) = match key(left) {
                    Some(column) => (column, constant(right)?),
                    None => (key(right)?, constant(left)?),
                };
                let condition = match op {
                    BinaryOperator::Eq => Condition::In(vec![value]),
                    _ => Condition::Same(value),
                };
                Some((column, condition))
            }
            Expr::InList { expr, list, negated: false } => {
                let values = list.iter().map(constant).collect::<Option<Vec<_>>>()?;
                Some((key(expr)?, Condition::In(values)))
            }
            Expr::IsNull(expr) => Some((key(expr)?, Condition::Same(Source::Fixed(VarValue::Null)))),
            _ => None,
        }
    }

    /// Returns the look-up, if conditions fix all key columns of the table.
    pub fn in_table(&self, schema: &TableSchema) -> Result<Found<'q>, No> {
        let mut keys: Vec<Option<Condition>> = vec![None; schema.keys];
        let mut rows = Vec::new();
        let mut extra = Vec::new();
        let mut extra_columns = Vec::new();
        for conjunct in &self.conjuncts {
            // A second condition on a column that is fixed already, alone or in rows, is evaluated on the rows found.
            let fixed = self.fixed(conjunct, schema).filter(|fixed| {
                let columns = fixed.key.columns();
                let once = columns.iter().enumerate().all(|(i, c)| keys[*c].is_none() && !columns[..i].contains(c));
                once && (rows.is_empty() || matches!(fixed.key, FixedKey::Columns(_)))
            });
            if fixed.as_ref().is_none_or(|fixed| fixed.more) {
                let columns = self.columns_of(conjunct, "a condition", schema)?;
                extra_columns.extend(columns);
                extra.push(*conjunct);
            }
            match fixed.map(|fixed| fixed.key) {
                Some(FixedKey::Columns(fixed)) => {
                    fixed.into_iter().for_each(|(column, condition)| keys[column] = Some(condition));
                }
                Some(FixedKey::Rows(columns, of)) => {
                    columns.iter().enumerate().for_each(|(n, column)| keys[*column] = Some(Condition::Row(n)));
                    rows = of;
                }
                None => {}
            }
        }
        let mut fixed = Vec::with_capacity(keys.len());
        for (condition, column) in keys.into_iter().zip(&schema.columns) {
            let why = || no(format!("key column {} is not fixed by = or IN with constants", column.name));
            fixed.push(condition.ok_or_else(why)?);
        }
        let mut items = Vec::with_capacity(self.select.projection.len());
        for item in &self.select.projection {
            items.push(self.item(item, schema)?);
        }
        let named = items.iter().flat_map(|item| match item {
            Item::All => &[],
            Item::Column(c) => std::slice::from_ref(c),
            Item::Expression(columns) => columns.as_slice(),
        });
        // The planner sees all hidden columns of such a query, and leaves them out of `*`.
        if items.contains(&Item::All) && named.chain(&extra_columns).any(|c| schema.columns[*c].hidden) {
            return Err(no("the query names a hidden column beside *"));
        }
        // Clients get these values as NULL, or as their bytes if the session says so.
        let is_opaque = |c: &TableColumn| c.data_type.is_set();
        let sent = |item: &Item| match item {
            Item::All => schema.columns.iter().any(is_opaque),
            Item::Column(c) => is_opaque(&schema.columns[*c]),
            Item::Expression(_) => false,
        };
        if items.iter().any(sent) {
            return Err(no("the select list has BITMAP or HLL columns"));
        }
        Ok(Found { keys: fixed, rows, items, extra, extra_columns })
    }

    fn item(&self, item: &SelectItem, schema: &TableSchema) -> Result<Item, No> {
        let plain = |o: &WildcardAdditionalOptions| {
            o.opt_ilike.is_none()
                && o.opt_exclude.is_none()
                && o.opt_except.is_none()
                && o.opt_replace.is_none()
                && o.opt_rename.is_none()
                && o.opt_alias.is_none()
        };
        let expression = |expr: &Expr| match self.column(expr, schema) {
            Some(column) => Ok(Item::Column(column)),
            None => self.columns_of(expr, "the select list", schema).map(Item::Expression),
        };
        match item {
            SelectItem::Wildcard(options) if plain(options) => Ok(Item::All),
            SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(name), options)
                if plain(options) =>
            {
                let parts: Option<Vec<Ident>> = name.0.iter().map(|p| p.as_ident().cloned()).collect();
                match parts.is_some_and(|parts| self.is_table(&parts)) {
                    true => Ok(Item::All),
                    false => Err(None),
                }
            }
            SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => expression(expr),
            _ => Err(no("the select list has * with exceptions")),
        }
    }
}

#[cfg(test)]
#[path = "recognise_tests.rs"]
mod tests;
