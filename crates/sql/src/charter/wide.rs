//! Queries of very many columns: `SELECT *` from a table of thousands, or long lists of names or expressions.
//!
//! DataFusion finds a column by comparing names, so each pass over a projection of n columns takes time quadratic in n;
//! its planner even compares each item of the list with each other. So this projection is not built. The planner sees
//! the FROM and WHERE of the query and one constant. The columns to pick are a list of places in a [`PickColumns`]
//! node, or of items in a [`ComputeColumns`] node, which no pass looks into. GROUP BY and DISTINCT become a node of
//! [`super::wide_groups`], window functions one of [`super::wide_windows`], and a WHERE of very many terms one of
//! [`super::wide_rows`]. Everything else about the query is left to the planner. Derived tables are planned like this by [`super::derived`], where [`super::wide_marks`] finds that they
//! are wide.

use std::cmp::Ordering;
use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::{Column, DFSchema, DFSchemaRef, DataFusionError, Result, plan_err};
use datafusion::logical_expr::{
    Expr as Planned, Extension, LogicalPlan, LogicalPlanBuilder, SortExpr, UserDefinedLogicalNode,
    UserDefinedLogicalNodeCore,
};
use dipper_dialect::error::SqlError;
use dipper_dialect::tree;
use dipper_dialect::walk::{self, Look};
use sqlparser::ast::{
    Distinct, Expr, GroupByExpr, Ident, JoinConstraint, JoinOperator, LimitClause, ObjectName, OrderBy, OrderByExpr,
    OrderByKind, Query, Select, SelectItem, SelectItemQualifiedWildcardKind, SetExpr, TableFactor, TableWithJoins,
    Value, ValueWithSpan, WildcardAdditionalOptions,
};

use super::compute::{Above, ComputeColumns, Item, ItemPlanner, Places, Untyped, is_aggregate, is_window};
use super::wide_groups::Groups;
use super::wide_rows::Terms;
use super::wide_windows::Windows;

/// The number of columns from which on a query is planned like this.
pub const WIDE: usize = 256;

/// The number of window functions over tables of very many columns from which on a query is planned like this. The
/// planner gives each of them that has another order a node of all columns.
const WINDOWS: usize = 8;

/// A query that makes columns from the rows of its FROM, split into its columns and the rest.
pub struct Picking {
    /// The FROM and WHERE of the query with one constant for its columns; this part is planned.
    pub narrow: Query,
    items: Vec<SelectItem>,
    order: Vec<OrderByExpr>,
    skip: usize,
    fetch: Option<usize>,
    /// The WHERE, if it has very many terms. It is not in `narrow` then.
    terms: Option<Terms>,
    is_distinct: bool,
    keys: Vec<Expr>,
    having: Option<Expr>,
}

/// A column of the result.
enum Output {
    /// A column of FROM that is passed through, by its place.
    Column(usize),
    Computed(Box<Item>),
}

/// Whether a query has very many columns, given the number of columns of its FROM.
pub(super) fn is_wide(select: &Select, columns_of_tables: usize) -> bool {
    select.projection.len() >= WIDE
        || (columns_of_tables >= WIDE && select.projection.iter().any(is_wildcard))
        || keys_of(select).is_some_and(|keys| keys.len() >= WIDE)
        || (columns_of_tables >= WIDE && has_windows(select))
}

/// Whether a select list has at least [`WINDOWS`] window functions.
pub(super) fn has_windows(select: &Select) -> bool {
    struct Calls(usize);
    impl Look for Calls {
        fn expr(&mut self, expr: &Expr) -> std::result::Result<(), SqlError> {
            self.0 += usize::from(matches!(expr, Expr::Function(call) if call.over.is_some()));
            Ok(())
        }
    }
    let mut calls = Calls(0);
    for item in &select.projection {
        if let SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } = item {
            // Looking cannot fail.
            let _ = walk::look_expr(expr, &mut calls);
        }
    }
    calls.0 >= WINDOWS
}

pub(super) fn is_wildcard(item: &SelectItem) -> bool {
    matches!(item, SelectItem::Wildcard(_) | SelectItem::QualifiedWildcard(..))
}

/// Whether an item names at least [`WIDE`] columns.
fn reads_many(item: &SelectItem) -> bool {
    struct Names(usize);
    impl Look for Names {
        fn expr(&mut self, expr: &Expr) -> std::result::Result<(), SqlError> {
            self.0 += usize::from(matches!(expr, Expr::Identifier(_) | Expr::CompoundIdentifier(_)));
            Ok(())
        }
    }
    let (SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. }) = item else { return false };
    let mut names = Names(0);
    // Looking cannot fail.
    let _ = walk::look_expr(expr, &mut names);
    names.0 >= WIDE
}

/// Returns the keys of a plain GROUP BY.
fn keys_of(select: &Select) -> Option<&[Expr]> {
    match &select.group_by {
        GroupByExpr::Expressions(keys, modifiers) if modifiers.is_empty() => Some(keys),
        _ => None,
    }
}

impl Picking {
    /// Splits a query that has at least [`WIDE`] columns, keys or conditions, given the number of columns of its
    /// tables. `None` if it has fewer, or is of another form.
    pub fn of(query: &Query, columns_of_tables: usize) -> Option<Self> {
        let SetExpr::Select(select) = query.body.as_ref() else { return None };
        let terms = if columns_of_tables >= WIDE { Terms::of(select, WIDE) } else { None };
        let is_wide = terms.is_some()
            || is_wide(select, columns_of_tables)
            || columns_of_tables >= WIDE && select.projection.iter().any(reads_many);
        if !is_wide || select.from.iter().any(merges_columns) {
            return None;
        }
        let keys = keys_of(select)?.to_vec();
        let is_distinct = match &select.distinct {
            None | Some(Distinct::All) => false,
            Some(Distinct::Distinct) => true,
            Some(Distinct::On(_)) => return None,
        };
        let (order, (skip, fetch)) = (order_of(query.order_by.as_ref())?, limits_of(query.limit_clause.as_ref())?);
        let constant = SelectItem::UnnamedExpr(Expr::value(Value::Number("1".into(), false)));
        let mut narrow = tree::select(vec![constant], select.from.clone());
        if let SetExpr::Select(own) = narrow.body.as_mut() {
            own.selection = select.selection.clone().filter(|_| terms.is_none());
            own.select_token = select.select_token.clone();
        }
        narrow.with = query.with.clone();
        // With the removed parts put back, this must be the whole query again.
        let mut whole = narrow.clone();
        whole.order_by = query.order_by.clone();
        whole.limit_clause = query.limit_clause.clone();
        whole.settings = query.settings.clone();
        if let SetExpr::Select(own) = whole.body.as_mut() {
            own.projection.clone_from(&select.projection);
            own.selection.clone_from(&select.selection);
            own.distinct.clone_from(&select.distinct);
            own.group_by.clone_from(&select.group_by);
            own.having.clone_from(&select.having);
        }
        let (items, having) = (select.projection.clone(), select.having.clone());
        (whole == *query).then_some(Picking { narrow, items, order, skip, fetch, terms, is_distinct, keys, having })
    }

    /// Builds the plan of the query from that of [`narrow`](Self::narrow). `None` if the planner has to see the items
    /// themselves.
    ///
    /// # Errors
    /// The error of the planner.
    pub fn over(mut self, narrow: LogicalPlan, planner: &mut dyn ItemPlanner) -> Result<Option<LogicalPlan>> {
        let LogicalPlan::Projection(constant) = narrow else { return Ok(None) };
        let mut base = Arc::unwrap_or_clone(constant.input);
        if let Some(terms) = self.terms.take() {
            match terms.over(base, planner)? {
                Some(filtered) => base = filtered,
                None => return Ok(None),
            }
        }
        let places = Places::of(base.schema());
        let Some(listed) = listed(&self.items, &places, planner)? else { return Ok(None) };
        let columns: Vec<Option<usize>> = listed.iter().map(Listed::column).collect();
        let Some((below, above)) = sorted_by(&self.order, &self.items, &columns, &places) else { return Ok(None) };
        let has = |kind: fn(&Planned) -> bool| {
            listed.iter().try_fold(false, |found, item| Ok::<_, DataFusionError>(found || item.has(kind)?))
        };
        let (has_calls, has_windows) = (has(is_aggregate)?, has(is_window)?);
        let is_grouped = has_calls || !self.keys.is_empty() || self.having.is_some();
        if usize::from(is_grouped) + usize::from(has_windows) + usize::from(self.is_distinct) > 1 {
            return Ok(None);
        }
        if is_grouped || self.is_distinct {
            let Some(above) = above else { return Ok(None) };
            let mut groups = Groups::new();
            for key in &self.keys {
                let Some(key) = self.key(key, &listed, &places, planner)? else { return Ok(None) };
                if !groups.add_key(&key)? {
                    return Ok(None);
                }
            }
            let items: Vec<Untyped> = listed.into_iter().map(|item| item.untyped(places.schema)).collect();
            if self.is_distinct {
                for item in &items {
                    if !groups.add_key(item)? {
                        return Ok(None);
                    }
                }
            }
            let having = match &self.having {
                None => None,
                // The planner knows the aliases of the list, which may be named here.
                Some(having) => match Untyped::planned(having.clone(), None, &places, planner) {
                    Ok(Some(having)) => match groups.above(having)? {
                        Some(having) => Some(having.item.expr),
                        None => return Ok(None),
                    },
                    Ok(None) | Err(_) => return Ok(None),
                },
            };
            let items: Option<Vec<Above>> = items.into_iter().map(|item| groups.above(item)).collect::<Result<_>>()?;
            let Some(items) = items else { return Ok(None) };
            drop(places);
            let grouped = LogicalPlan::Extension(Extension { node: Arc::new(groups.node(base, planner.options())?) });
            let filtered = match having {
                Some(having) => LogicalPlanBuilder::from(grouped).filter(having)?.build()?,
                None => grouped,
            };
            let items = items.into_iter().map(|item| item.placed(|call| groups.place(call)));
            let Some(plan) = computed(filtered, items, planner.options())? else { return Ok(None) };
            return self.limited(plan, Some(&above)).map(Some);
        }
        if has_windows {
            let mut windows = Windows::new();
            let items = listed.into_iter().map(|item| windows.above(item.untyped(places.schema)));
            let items = items.collect::<Result<Vec<Above>>>()?;
            drop(places);
            let width = base.schema().fields().len();
            let (node, order) = windows.node(base, planner.options())?;
            let node = LogicalPlan::Extension(Extension { node: Arc::new(node) });
            let node = match &below {
                Some(below) => self.limited(node, Some(below))?,
                None => node,
            };
            let items = items.into_iter().map(|item| item.placed(|call| width + order[call]));
            let Some(plan) = computed(node, items, planner.options())? else { return Ok(None) };
            return match below {
                Some(_) => Ok(Some(plan)),
                None => self.limited(plan, above.as_deref()).map(Some),
            };
        }
        let Some(outputs) = outputs(listed, &places, planner.options())? else { return Ok(None) };
        drop(places);
        Ok(Some(match below {
            Some(below) => node(self.limited(base, Some(&below))?, outputs)?,
            None => self.limited(node(base, outputs)?, above.as_deref())?,
        }))
    }

    /// Plans a key of GROUP BY. `None` if the planner has to see it.
    fn key(
        &self,
        key: &Expr,
        listed: &[Listed],
        places: &Places<'_>,
        planner: &mut dyn ItemPlanner,
    ) -> Result<Option<Untyped>> {
        if let Some(at) = number(key) {
            return Ok(at.checked_sub(1).and_then(|at| listed.get(at)).map(|item| item.clone().untyped(places.schema)));
        }
        if let Some(place) = place_of(key, places) {
            return Ok(Some(Untyped::column(places.schema, place)));
        }
        // The planner knows the aliases of the list, which may be named here.
        Ok(Untyped::planned(key.clone(), None, places, planner).unwrap_or(None))
    }

    /// Puts the order and the limits of the query above a plan.
    fn limited(&self, plan: LogicalPlan, order: Option<&[Key]>) -> Result<LogicalPlan> {
        let schema = Arc::clone(plan.schema());
        let one =
            |key: &Key| SortExpr::new(Planned::Column(column(&schema, key.place)), key.ascending, key.nulls_first);
        let order: Vec<SortExpr> = order.unwrap_or_default().iter().map(one).collect();
        let mut builder = LogicalPlanBuilder::from(plan);
        if !order.is_empty() {
            builder = builder.sort_with_limit(order, None)?;
        }
        if self.skip > 0 || self.fetch.is_some() {
            builder = builder.limit(self.skip, self.fetch)?;
        }
        builder.build()
    }
}

/// An item of the select list.
#[derive(Clone)]
enum Listed {
    /// A column of FROM that is passed through, by its place.
    Column(usize),
    Computed(Box<Untyped>),
}

impl Listed {
    fn column(&self) -> Option<usize> {
        match self {
            Listed::Column(place) => Some(*place),
            Listed::Computed(_) => None,
        }
    }

    fn has(&self, kind: fn(&Planned) -> bool) -> Result<bool> {
        match self {
            Listed::Column(_) => Ok(false),
            Listed::Computed(item) => item.has(kind),
        }
    }

    fn untyped(self, schema: &DFSchema) -> Untyped {
        match self {
            Listed::Column(place) => Untyped::column(schema, place),
            Listed::Computed(item) => *item,
        }
    }
}

/// Builds the node of these items over its input; `None` if two have the same name.
fn computed(
    input: LogicalPlan,
    items: impl Iterator<Item = Untyped>,
    options: &ConfigOptions,
) -> Result<Option<LogicalPlan>> {
    let schema = Arc::clone(input.schema());
    let items = items.map(|item| item.typed(&schema, options)).collect::<Result<Vec<Item>>>()?;
    let mut seen = HashSet::with_capacity(items.len());
    if !items.iter().all(|item| seen.insert((item.qualifier.as_ref(), item.field().name()))) {
        return Ok(None);
    }
    drop(seen);
    let node = Arc::new(ComputeColumns::new(input, items.into())?);
    Ok(Some(LogicalPlan::Extension(Extension { node })))
}

/// Builds the node of these columns over its input.
fn node(input: LogicalPlan, outputs: Vec<Output>) -> Result<LogicalPlan> {
    let places: Option<Vec<usize>> = outputs
        .iter()
        .map(|output| match output {
            Output::Column(place) => Some(*place),
            Output::Computed(_) => None,
        })
        .collect();
    let node: Arc<dyn UserDefinedLogicalNode> = match places {
        Some(places) => Arc::new(PickColumns::new(input, places)?),
        None => {
            let items = outputs.into_iter().map(|output| match output {
                Output::Column(place) => Item::column(input.schema(), place),
                Output::Computed(item) => *item,
            });
            let items: Vec<Item> = items.collect();
            Arc::new(ComputeColumns::new(input, items.into())?)
        }
    };
    Ok(LogicalPlan::Extension(Extension { node }))
}

/// A sort key: a column by its place.
struct Key {
    place: usize,
    ascending: bool,
    nulls_first: bool,
}

/// Resolves an order whose keys are all columns of FROM, or all columns of the result: to the places of the keys among
/// the columns of FROM, and among those of the result. `None` for others. `columns` has the place of each column of the
/// result in FROM, if it is one.
fn sorted_by(
    order: &[OrderByExpr],
    items: &[SelectItem],
    columns: &[Option<usize>],
    places: &Places<'_>,
) -> Option<(Option<Vec<Key>>, Option<Vec<Key>>)> {
    // The place of an item is that of its column only if no `*` stands for several columns.
    let mut aliases = HashMap::new();
    for (at, item) in items.iter().enumerate() {
        if let SelectItem::ExprWithAlias { alias, .. } = item {
            aliases.insert(alias.value.as_str(), at);
        }
    }
    if !order.is_empty() && !aliases.is_empty() && items.iter().any(is_wildcard) {
        return None;
    }
    let (mut below, mut above) = (Some(Vec::new()), Some(Vec::new()));
    for OrderByExpr { expr, options, .. } in order {
        let ascending = options.asc.unwrap_or(true);
        // NULL is the least value.
        let nulls_first = options.nulls_first.unwrap_or(ascending);
        let at = match (number(expr), expr) {
            (Some(at), _) => Some(at.checked_sub(1).filter(|at| *at < columns.len())?),
            (None, Expr::Identifier(name)) => aliases.get(name.value.as_str()).copied(),
            _ => None,
        };
        let (base, result) = match at {
            Some(at) => (columns[at], Some(at)),
            None => {
                let place = place_of(expr, places)?;
                (Some(place), columns.iter().position(|own| *own == Some(place)))
            }
        };
        let add = |keys: Option<Vec<Key>>, place: Option<usize>| {
            let (mut keys, place) = (keys?, place?);
            keys.push(Key { place, ascending, nulls_first });
            Some(keys)
        };
        below = add(below, base);
        above = add(above, result);
    }
    (below.is_some() || above.is_some()).then_some((below, above))
}

/// Whether a FROM has joins that merge two columns into one.
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

/// Returns the items of an ORDER BY that has only names and numbers.
fn order_of(order: Option<&OrderBy>) -> Option<Vec<OrderByExpr>> {
    let Some(order) = order else { return Some(Vec::new()) };
    let OrderBy { kind: OrderByKind::Expressions(items), interpolate: None } = order else { return None };
    let is_plain = |item: &OrderByExpr| {
        item.with_fill.is_none()
            && (number(&item.expr).is_some() || matches!(item.expr, Expr::Identifier(_) | Expr::CompoundIdentifier(_)))
    };
    items.iter().all(is_plain).then(|| items.clone())
}

/// Returns the number of rows that are skipped, and the largest number that are returned.
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

/// Returns the place of the only column of FROM that a name means.
fn place_of(name: &Expr, places: &Places<'_>) -> Option<usize> {
    let (table, column) = match name {
        Expr::Identifier(column) => (None, column),
        Expr::CompoundIdentifier(parts) => match parts.as_slice() {
            [table, column] => (Some(table), column),
            _ => return None,
        },
        _ => return None,
    };
    let named = places.named(&column.value).iter().copied();
    let mut meant = named.filter(|place| table.is_none_or(|table| is_of(places.schema, *place, table)));
    meant.next().filter(|_| meant.next().is_none())
}

fn is_of(schema: &DFSchema, place: usize, table: &Ident) -> bool {
    schema.qualified_field(place).0.is_some_and(|qualifier| qualifier.table() == table.value)
}

/// Resolves the items of a select list; `None` if the planner has to see one.
fn listed(items: &[SelectItem], places: &Places<'_>, planner: &mut dyn ItemPlanner) -> Result<Option<Vec<Listed>>> {
    let width = places.schema.fields().len();
    let mut listed = Vec::with_capacity(items.len());
    for item in items {
        match item {
            SelectItem::UnnamedExpr(expr) => listed.push(match place_of(expr, places) {
                Some(place) => Listed::Column(place),
                None => match Untyped::planned(expr.clone(), None, places, planner)? {
                    Some(item) => Listed::Computed(Box::new(item)),
                    None => return Ok(None),
                },
            }),
            SelectItem::ExprWithAlias { expr, alias } => {
                match Untyped::planned(expr.clone(), Some(&alias.value), places, planner)? {
                    Some(item) => listed.push(Listed::Computed(Box::new(item))),
                    None => return Ok(None),
                }
            }
            SelectItem::Wildcard(options) if *options == WildcardAdditionalOptions::default() => {
                listed.extend((0..width).map(Listed::Column));
            }
            SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(ObjectName(parts)), options)
                if *options == WildcardAdditionalOptions::default() =>
            {
                let [table] = parts.as_slice() else { return Ok(None) };
                let Some(table) = table.as_ident() else { return Ok(None) };
                let before = listed.len();
                listed.extend((0..width).filter(|place| is_of(places.schema, *place, table)).map(Listed::Column));
                if listed.len() == before {
                    return Ok(None);
                }
            }
            _ => return Ok(None),
        }
    }
    Ok(Some(listed))
}

/// Adds the types to the items of a select list; `None` if a column of FROM would be there twice.
fn outputs(listed: Vec<Listed>, places: &Places<'_>, options: &ConfigOptions) -> Result<Option<Vec<Output>>> {
    let mut outputs = Vec::with_capacity(listed.len());
    let mut seen = HashSet::with_capacity(listed.len());
    for item in listed {
        match item {
            Listed::Column(place) if !seen.insert(place) => return Ok(None),
            Listed::Column(place) => outputs.push(Output::Column(place)),
            Listed::Computed(item) => {
                outputs.push(Output::Computed(Box::new(item.typed(places.schema, options)?)));
            }
        }
    }
    Ok(Some(outputs))
}

/// A plan node that picks columns of its input by their places.
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

    /// Returns the places of the columns in the input.
    pub fn places(&self) -> &[usize] {
        &self.places
    }

    /// Rebuilds this node over another input. Columns that the input lacks are left out: the optimizer drops columns
    /// that nothing above needs.
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

// The schema follows from the other fields.
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
        // The node's columns are those of the input, under the same names.
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
    use datafusion::logical_expr::UserDefinedLogicalNodeCore as Node;
    use datafusion::logical_expr::logical_plan::table_scan;

    use super::*;
    use dipper_dialect::parser::{ParseOptions, parse};
    use dipper_dialect::statement::Statement;

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
            ("SELECT DISTINCT * FROM t", true),
            ("SELECT * FROM t GROUP BY c1 HAVING c1 > 2", true),
            ("SELECT * FROM t GROUP BY ROLLUP (c1)", true),
            ("SELECT * FROM t GROUP BY c1 WITH ROLLUP", false),
            ("SELECT DISTINCT c1 FROM t", false),
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
        assert_eq!(Node::necessary_children_exprs(&picked, &[0, 1]), Some(vec![vec![1, 3]]));
        let narrow = table_scan(Some("t"), &schema, Some(vec![1, 3])).unwrap().build().unwrap();
        let again = Node::with_exprs_and_inputs(&picked, Vec::new(), vec![narrow]).unwrap();
        assert_eq!(again.places(), [1, 0]);
        assert_eq!(Node::schema(&again), Node::schema(&picked));
        let narrower = table_scan(Some("t"), &schema, Some(vec![3])).unwrap().build().unwrap();
        assert_eq!(Node::with_exprs_and_inputs(&picked, Vec::new(), vec![narrower]).unwrap().places(), [0]);
    }
}
