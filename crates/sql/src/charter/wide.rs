//! Queries that pick very many columns as they are: `SELECT *` from a table of thousands, or a list of their names.
//!
//! DataFusion finds a column by comparing names, so that each pass over a projection of n columns takes time with n times n;
//! its planner compares even each item of the list with each other. Such a projection is not made here. The planner sees the
//! FROM and WHERE of the query and one constant; what is picked from them is a list of places in a [`PickColumns`] node, which
//! has no expressions. Everything else about the query stays the planner's.

use std::cmp::Ordering;
use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::Arc;

use datafusion::common::{Column, DFSchema, DFSchemaRef, Result, plan_err};
use datafusion::logical_expr::{
    Expr as Planned, Extension, LogicalPlan, LogicalPlanBuilder, SortExpr, UserDefinedLogicalNodeCore,
};
use sqlparser::ast::{
    Expr, Ident, JoinConstraint, JoinOperator, LimitClause, ObjectName, OrderBy, OrderByExpr, OrderByKind, Query,
    SelectItem, SelectItemQualifiedWildcardKind, SetExpr, TableFactor, TableWithJoins, Value, ValueWithSpan,
    WildcardAdditionalOptions,
};

use super::tables;

/// Columns from which on a query is planned so.
pub const WIDE: usize = 256;

/// A query that picks columns, without what it picks.
pub struct Picking {
    /// The FROM and WHERE of the query with one constant for its columns, to be planned.
    pub narrow: Query,
    items: Vec<SelectItem>,
    order: Vec<OrderByExpr>,
    skip: usize,
    fetch: Option<usize>,
}

impl Picking {
    /// The parts of a query that picks at least [`WIDE`] columns from tables which have so many together. `None`: it does
    /// more than pick columns, or picks few.
    pub fn of(query: &Query, columns_of_tables: usize) -> Option<Self> {
        let SetExpr::Select(select) = query.body.as_ref() else { return None };
        let takes_all = |item: &SelectItem| matches!(item, SelectItem::Wildcard(_) | SelectItem::QualifiedWildcard(..));
        let is_wide =
            select.projection.len() >= WIDE || (columns_of_tables >= WIDE && select.projection.iter().any(takes_all));
        if !is_wide || select.from.is_empty() || select.from.iter().any(merges_columns) {
            return None;
        }
        let (order, (skip, fetch)) = (order_of(query.order_by.as_ref())?, limits_of(query.limit_clause.as_ref())?);
        let constant = SelectItem::UnnamedExpr(Expr::value(Value::Number("1".into(), false)));
        let mut narrow = tables::select(vec![constant], select.from.clone());
        if let SetExpr::Select(own) = narrow.body.as_mut() {
            own.selection = select.selection.clone();
            own.select_token = select.select_token.clone();
        }
        narrow.with = query.with.clone();
        // With what was taken apart put in, it is the whole query again.
        let mut whole = narrow.clone();
        whole.order_by = query.order_by.clone();
        whole.limit_clause = query.limit_clause.clone();
        if let SetExpr::Select(own) = whole.body.as_mut() {
            own.projection.clone_from(&select.projection);
        }
        (whole == *query).then(|| Picking { narrow, items: select.projection.clone(), order, skip, fetch })
    }

    /// The plan of the query, given that of [`narrow`](Self::narrow). `None`: its names have to be looked at by the planner.
    ///
    /// # Errors
    /// The planner's.
    pub fn over(self, narrow: LogicalPlan) -> Result<Option<LogicalPlan>> {
        let LogicalPlan::Projection(constant) = narrow else { return Ok(None) };
        let base = Arc::unwrap_or_clone(constant.input);
        let Some(places) = places(&self.items, base.schema()) else { return Ok(None) };
        let names = Names::of(base.schema());
        let mut order = Vec::with_capacity(self.order.len());
        for OrderByExpr { expr, options, .. } in &self.order {
            let place = match number(expr) {
                Some(at) => at.checked_sub(1).and_then(|at| places.get(at).copied()),
                None => names.place(expr),
            };
            let Some(place) = place else { return Ok(None) };
            let ascending = options.asc.unwrap_or(true);
            // NULL is the least value.
            let nulls_first = options.nulls_first.unwrap_or(ascending);
            order.push(SortExpr::new(Planned::Column(column(base.schema(), place)), ascending, nulls_first));
        }
        drop(names);
        let mut builder = LogicalPlanBuilder::from(base);
        if !order.is_empty() {
            builder = builder.sort_with_limit(order, None)?;
        }
        if self.skip > 0 || self.fetch.is_some() {
            builder = builder.limit(self.skip, self.fetch)?;
        }
        let node = PickColumns::new(builder.build()?, places)?;
        Ok(Some(LogicalPlan::Extension(Extension { node: Arc::new(node) })))
    }
}

/// Whether a FROM has joins by which two columns become one.
fn merges_columns(from: &TableWithJoins) -> bool {
    fn nested(factor: &TableFactor) -> bool {
        matches!(factor, TableFactor::NestedJoin { .. })
    }
    use JoinOperator as J;
    nested(&from.relation)
        || from.joins.iter().any(|join| {
            let plain = match &join.join_operator {
                J::Join(c)
                | J::Inner(c)
                | J::Left(c)
                | J::LeftOuter(c)
                | J::Right(c)
                | J::RightOuter(c)
                | J::FullOuter(c)
                | J::CrossJoin(c) => matches!(c, JoinConstraint::On(_) | JoinConstraint::None),
                _ => false,
            };
            !plain || nested(&join.relation)
        })
}

/// The items of an ORDER BY that has names and numbers only.
fn order_of(order: Option<&OrderBy>) -> Option<Vec<OrderByExpr>> {
    let Some(order) = order else { return Some(Vec::new()) };
    let OrderBy { kind: OrderByKind::Expressions(items), interpolate: None } = order else { return None };
    let is_plain = |item: &OrderByExpr| {
        item.with_fill.is_none()
            && (number(&item.expr).is_some() || matches!(item.expr, Expr::Identifier(_) | Expr::CompoundIdentifier(_)))
    };
    items.iter().all(is_plain).then(|| items.clone())
}

/// Rows that are left out, and rows that are given at most.
fn limits_of(limit: Option<&LimitClause>) -> Option<(usize, Option<usize>)> {
    match limit {
        None => Some((0, None)),
        Some(LimitClause::LimitOffset { limit, offset, limit_by }) if limit_by.is_empty() => {
            let skip = offset.as_ref().map_or(Some(0), |offset| number(&offset.value))?;
            Some((skip, limit.as_ref().map_or(Some(None), |limit| number(limit).map(Some))?))
        }
        Some(LimitClause::OffsetCommaLimit { offset, limit }) => Some((number(offset)?, Some(number(limit)?))),
        Some(_) => None,
    }
}

fn number(expr: &Expr) -> Option<usize> {
    match expr {
        Expr::Value(ValueWithSpan { value: Value::Number(digits, _), .. }) => digits.parse().ok(),
        _ => None,
    }
}

fn column(schema: &DFSchema, place: usize) -> Column {
    Column::from(schema.qualified_field(place))
}

/// The places of columns by their names.
struct Names<'s> {
    schema: &'s DFSchema,
    places: HashMap<&'s str, Vec<usize>>,
}

impl<'s> Names<'s> {
    fn of(schema: &'s DFSchema) -> Self {
        let mut places: HashMap<&str, Vec<usize>> = HashMap::with_capacity(schema.fields().len());
        for (place, field) in schema.fields().iter().enumerate() {
            places.entry(field.name()).or_default().push(place);
        }
        Names { schema, places }
    }

    /// The one column that is meant.
    fn place(&self, name: &Expr) -> Option<usize> {
        let (table, column) = match name {
            Expr::Identifier(column) => (None, column),
            Expr::CompoundIdentifier(parts) => match parts.as_slice() {
                [table, column] => (Some(table), column),
                _ => return None,
            },
            _ => return None,
        };
        let named = self.places.get(column.value.as_str())?.iter().copied();
        let mut meant = named.filter(|place| table.is_none_or(|table| self.is_of(*place, table)));
        meant.next().filter(|_| meant.next().is_none())
    }

    fn is_of(&self, place: usize, table: &Ident) -> bool {
        self.schema.qualified_field(place).0.is_some_and(|qualifier| qualifier.table() == table.value)
    }
}

/// The places of what a select list picks; no column twice.
fn places(items: &[SelectItem], schema: &DFSchema) -> Option<Vec<usize>> {
    let names = Names::of(schema);
    let width = schema.fields().len();
    let mut places = Vec::with_capacity(items.len());
    for item in items {
        match item {
            SelectItem::UnnamedExpr(name) => places.push(names.place(name)?),
            SelectItem::Wildcard(options) if *options == WildcardAdditionalOptions::default() => {
                places.extend(0..width)
            }
            SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(ObjectName(parts)), options)
                if *options == WildcardAdditionalOptions::default() =>
            {
                let [table] = parts.as_slice() else { return None };
                let table = table.as_ident()?;
                let before = places.len();
                places.extend((0..width).filter(|place| names.is_of(*place, table)));
                if places.len() == before {
                    return None;
                }
            }
            _ => return None,
        }
    }
    let mut seen = HashSet::with_capacity(places.len());
    places.iter().all(|place| seen.insert(*place)).then_some(places)
}

/// Columns of its input, by their places.
#[derive(Debug)]
pub struct PickColumns {
    input: LogicalPlan,
    places: Vec<usize>,
    schema: DFSchemaRef,
}

impl PickColumns {
    fn new(input: LogicalPlan, places: Vec<usize>) -> Result<Self> {
        let own = input.schema();
        let is_all = places.len() == own.fields().len() && places.iter().enumerate().all(|(at, place)| at == *place);
        let schema = match is_all {
            true => Arc::clone(own),
            false => {
                let fields = places.iter().map(|place| {
                    let (qualifier, field) = own.qualified_field(*place);
                    (qualifier.cloned(), Arc::clone(field))
                });
                Arc::new(DFSchema::new_with_metadata(fields.collect(), own.metadata().clone())?)
            }
        };
        Ok(PickColumns { input, places, schema })
    }

    /// Where in the input the columns are.
    pub fn places(&self) -> &[usize] {
        &self.places
    }

    /// These columns of another input, as far as that input has them: the optimizer leaves out what nobody above asks for.
    fn of_input(&self, input: LogicalPlan) -> Result<Self> {
        let before = self.input.schema();
        let now = input.schema();
        let stayed = now.fields().len() == before.fields().len()
            && now.iter().zip(before.iter()).all(|((q, f), (old_q, old_f))| q == old_q && f.name() == old_f.name());
        if stayed {
            let places = self.places.clone();
            return PickColumns::new(input, places);
        }
        let mut by_name = HashMap::with_capacity(now.fields().len());
        for (place, (qualifier, field)) in now.iter().enumerate() {
            by_name.entry((qualifier, field.name().as_str())).or_insert(place);
        }
        let places = self.places.iter().filter_map(|place| {
            let (qualifier, field) = before.qualified_field(*place);
            by_name.get(&(qualifier, field.name().as_str())).copied()
        });
        let places: Vec<usize> = places.collect();
        drop(by_name);
        PickColumns::new(input, places)
    }
}

// The schema follows from the rest.
impl PartialEq for PickColumns {
    fn eq(&self, other: &Self) -> bool {
        self.places == other.places && self.input == other.input
    }
}

impl Eq for PickColumns {}

impl std::hash::Hash for PickColumns {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.places.hash(state);
        self.input.hash(state);
    }
}

impl PartialOrd for PickColumns {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        match self.places.partial_cmp(&other.places) {
            Some(Ordering::Equal) => self.input.partial_cmp(&other.input),
            other => other,
        }
    }
}

impl UserDefinedLogicalNodeCore for PickColumns {
    fn name(&self) -> &str {
        "PickColumns"
    }

    fn inputs(&self) -> Vec<&LogicalPlan> {
        vec![&self.input]
    }

    fn schema(&self) -> &DFSchemaRef {
        &self.schema
    }

    fn expressions(&self) -> Vec<Planned> {
        Vec::new()
    }

    fn prevent_predicate_push_down_columns(&self) -> HashSet<String> {
        // Its columns are those of the input, under the names that they have there.
        HashSet::new()
    }

    fn fmt_for_explain(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "PickColumns: {} of {}", self.places.len(), self.input.schema().fields().len())
    }

    fn with_exprs_and_inputs(&self, _: Vec<Planned>, mut inputs: Vec<LogicalPlan>) -> Result<Self> {
        match (inputs.pop(), inputs.is_empty()) {
            (Some(input), true) => self.of_input(input),
            _ => plan_err!("PickColumns has one input"),
        }
    }

    fn necessary_children_exprs(&self, output_columns: &[usize]) -> Option<Vec<Vec<usize>>> {
        let mut needed: Vec<usize> = output_columns.iter().filter_map(|at| self.places.get(*at).copied()).collect();
        needed.sort_unstable();
        needed.dedup();
        Some(vec![needed])
    }

    fn supports_limit_pushdown(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use arrow::datatypes::{DataType, Field, Schema};
    use datafusion::logical_expr::logical_plan::table_scan;

    use super::*;
    use crate::parser::{ParseOptions, parse};
    use crate::statement::Statement;

    fn query(sql: &str) -> Query {
        match parse(sql, &ParseOptions::default()).unwrap().remove(0).statement {
            Statement::Query(query) => *query.ast,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn only_what_picks_very_many_columns_is_taken_apart() {
        for (sql, is) in [
            ("SELECT * FROM t WHERE c1 > 5 ORDER BY c2 DESC, 1 LIMIT 3 OFFSET 4", true),
            ("SELECT t.*, u.* FROM t JOIN u ON t.c1 = u.c1", true),
            ("SELECT * FROM t JOIN u USING (c1)", false),
            ("SELECT DISTINCT * FROM t", false),
            ("SELECT * FROM t GROUP BY c1", false),
            ("SELECT * FROM t ORDER BY c1 + 1", false),
            ("SELECT c1 FROM t", false),
            ("SELECT * FROM t UNION ALL SELECT * FROM t", false),
        ] {
            assert_eq!(Picking::of(&query(sql), WIDE).is_some(), is, "{sql}");
        }
        assert!(Picking::of(&query("SELECT * FROM t"), WIDE - 1).is_none());
    }

    #[test]
    fn columns_are_found_again_in_a_narrower_input() {
        let fields: Vec<Field> = (0..4).map(|n| Field::new(format!("c{n}"), DataType::Int64, true)).collect();
        let schema = Schema::new(fields);
        let all = table_scan(Some("t"), &schema, None).unwrap().build().unwrap();
        let picked = PickColumns::new(all, vec![3, 1]).unwrap();
        assert_eq!(picked.necessary_children_exprs(&[0, 1]), Some(vec![vec![1, 3]]));
        let narrow = table_scan(Some("t"), &schema, Some(vec![1, 3])).unwrap().build().unwrap();
        let again = picked.with_exprs_and_inputs(Vec::new(), vec![narrow]).unwrap();
        assert_eq!(again.places(), [1, 0]);
        assert_eq!(again.schema(), picked.schema());
        let narrower = table_scan(Some("t"), &schema, Some(vec![3])).unwrap().build().unwrap();
        assert_eq!(picked.with_exprs_and_inputs(Vec::new(), vec![narrower]).unwrap().places(), [0]);
    }
}
