//! Select lists of very many expressions, each planned over only the columns that it reads.
//!
//! DataFusion finds a column by comparing its name with all others, for each expression and in each pass over the plan.
//! So a list of n expressions over n columns takes time quadratic in n. Here an expression is planned, typed and
//! prepared over a schema of just its own columns, and the list is a plan node that no pass looks into.

use std::cmp::Ordering;
use std::collections::{HashMap, HashSet};
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow::datatypes::FieldRef;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{Column, DFSchema, DFSchemaRef, Result, TableReference, plan_err};
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::{Expr, LogicalPlan, UserDefinedLogicalNodeCore};
use datafusion::optimizer::analyzer::type_coercion::TypeCoercionRewriter;
use dipper_dialect::error::SqlError;
use dipper_dialect::walk::{self, Look};
use sqlparser::ast;

use super::casts::{Stage, rewrite_expr};
use super::declared;
use super::nesting::is_subquery;

/// A planner of expressions from the syntax tree.
pub trait ItemPlanner {
    /// Plans an expression over the columns of `schema`, without the types that the analyzer's rules add.
    ///
    /// # Errors
    /// A planning error if a name is unknown or ambiguous, or if the expression cannot be planned.
    fn plan(&mut self, expr: ast::Expr, schema: &DFSchema) -> Result<Expr>;

    /// Returns the session's options.
    fn options(&self) -> &ConfigOptions;
}

/// An index of a schema's columns by name.
pub(super) struct Places<'s> {
    pub(super) schema: &'s DFSchema,
    by_name: HashMap<&'s str, Vec<usize>>,
}

impl<'s> Places<'s> {
    pub(super) fn of(schema: &'s DFSchema) -> Self {
        let mut by_name: HashMap<&str, Vec<usize>> = HashMap::with_capacity(schema.fields().len());
        for (place, field) in schema.fields().iter().enumerate() {
            by_name.entry(field.name()).or_default().push(place);
        }
        Places { schema, by_name }
    }

    /// Returns the places of all columns of this name.
    pub(super) fn named(&self, name: &str) -> &[usize] {
        self.by_name.get(name).map_or(&[], Vec::as_slice)
    }

    /// Returns the places of the columns that an expression may read: those whose names occur in it.
    fn read_by(&self, expr: &ast::Expr) -> Vec<usize> {
        struct Reads<'p, 's> {
            places: &'p Places<'s>,
            found: Vec<usize>,
        }
        impl Look for Reads<'_, '_> {
            fn expr(&mut self, expr: &ast::Expr) -> std::result::Result<(), SqlError> {
                match expr {
                    ast::Expr::Identifier(name) => self.found.extend(self.places.named(&name.value)),
                    ast::Expr::CompoundIdentifier(parts) => {
                        self.found.extend(parts.iter().flat_map(|part| self.places.named(&part.value)));
                    }
                    _ => {}
                }
                Ok(())
            }
        }
        let mut reads = Reads { places: self, found: Vec::new() };
        // Looking cannot fail.
        let _ = walk::look_expr(expr, &mut reads);
        reads.found.sort_unstable();
        reads.found.dedup();
        reads.found
    }
}

/// Returns the schema of some columns of another, given by their places.
///
/// # Errors
/// A schema error if a column is there twice.
pub fn narrowed(schema: &DFSchema, places: &[usize]) -> Result<DFSchema> {
    let fields = places.iter().map(|place| {
        let (qualifier, field) = schema.qualified_field(*place);
        (qualifier.cloned(), Arc::clone(field))
    });
    DFSchema::new_with_metadata(fields.collect(), schema.metadata().clone())
}

/// One column of a [`ComputeColumns`].
#[derive(Debug, Clone)]
pub struct Item {
    /// The expression, fully typed, over the columns in `reads`.
    pub expr: Expr,
    /// The places in the input of the columns that the expression reads.
    pub reads: Vec<usize>,
    pub(super) qualifier: Option<TableReference>,
    pub(super) field: FieldRef,
}

impl Item {
    /// The column that the expression makes.
    pub fn field(&self) -> &FieldRef {
        &self.field
    }

    /// An input column that is passed through.
    pub(super) fn column(schema: &DFSchema, place: usize) -> Item {
        let (qualifier, field) = schema.qualified_field(place);
        let expr = Expr::from((qualifier, field));
        Item { expr, reads: vec![place], qualifier: qualifier.cloned(), field: Arc::clone(field) }
    }

    /// Plans an expression of a select list; `None` if it does not depend on one row alone.
    ///
    /// # Errors
    /// The error of planning the expression.
    pub(super) fn planned(
        expr: ast::Expr,
        alias: Option<&str>,
        places: &Places<'_>,
        planner: &mut dyn ItemPlanner,
    ) -> Result<Option<Item>> {
        match Untyped::planned(expr, alias, places, planner)? {
            Some(item) if !item.has(is_aggregate)? && !item.has(is_window)? => {
                item.typed(places.schema, planner.options()).map(Some)
            }
            _ => Ok(None),
        }
    }

    /// Whether this is a column of the input under its own name.
    fn is_column(&self) -> bool {
        let Expr::Column(column) = &self.expr else { return false };
        column.relation == self.qualifier && column.name == *self.field.name()
    }
}

/// An expression as the planner makes it, without the types that the analyzer's rules add.
#[derive(Debug, Clone)]
pub(super) struct Untyped {
    pub(super) expr: Expr,
    /// The places of the columns that the expression may read.
    pub(super) reads: Vec<usize>,
    pub(super) qualifier: Option<TableReference>,
    pub(super) name: String,
}

impl Untyped {
    /// A column of a schema under its own name.
    pub(super) fn column(schema: &DFSchema, place: usize) -> Untyped {
        let (qualifier, field) = schema.qualified_field(place);
        let expr = Expr::from((qualifier, field));
        Untyped { expr, reads: vec![place], qualifier: qualifier.cloned(), name: field.name().clone() }
    }

    /// Plans an expression; `None` if it depends on more than one row, other than by aggregates and window functions.
    ///
    /// # Errors
    /// The error of planning the expression.
    pub(super) fn planned(
        expr: ast::Expr,
        alias: Option<&str>,
        places: &Places<'_>,
        planner: &mut dyn ItemPlanner,
    ) -> Result<Option<Untyped>> {
        if walk::any(&expr, is_subquery) {
            return Ok(None);
        }
        let reads = places.read_by(&expr);
        let schema = narrowed(places.schema, &reads)?;
        let planned = planner.plan(expr, &schema)?;
        if planned.exists(|e| Ok(!is_aggregate(e) && !is_window(e) && !is_of_one_row(e)))? {
            return Ok(None);
        }
        let (qualifier, name) = match alias {
            Some(alias) => (None, alias.to_string()),
            None => planned.qualified_name(),
        };
        Ok(Some(Untyped { expr: planned.unalias_nested().data, reads, qualifier, name }))
    }

    /// Whether a node of the expression is of this kind.
    ///
    /// # Errors
    /// None in practice; walking an expression may fail.
    pub(super) fn has(&self, kind: fn(&Expr) -> bool) -> Result<bool> {
        self.expr.exists(|e| Ok(kind(e)))
    }

    /// Adds the types, for the columns of `schema`.
    ///
    /// # Errors
    /// The error of the analyzer's rules.
    pub(super) fn typed(self, schema: &DFSchema, options: &ConfigOptions) -> Result<Item> {
        let Untyped { expr, reads, qualifier, name } = self;
        let schema = narrowed(schema, &reads)?;
        let expr = expr.transform_up(|e| rewrite_expr(e, Stage::BeforeCoercion, &schema, options))?.data;
        let expr = expr.rewrite(&mut TypeCoercionRewriter::new(&schema))?.data;
        let expr = expr.transform_up(|e| rewrite_expr(e, Stage::AfterCoercion, &schema, options))?.data;
        let field = declared::field_of(&expr, &schema)?;
        let field = Arc::new(field.as_ref().clone().with_name(name));
        Ok(Item { expr, reads, qualifier, field })
    }
}

pub(super) fn is_aggregate(expr: &Expr) -> bool {
    matches!(expr, Expr::AggregateFunction(_))
}

pub(super) fn is_window(expr: &Expr) -> bool {
    matches!(expr, Expr::WindowFunction(_))
}

/// Calls that a plan node computes, each once. Expressions above the node read their results as columns.
pub(super) struct Calls {
    list: Vec<Untyped>,
    places: HashMap<Expr, usize>,
    prefix: &'static str,
}

impl Calls {
    /// `prefix`: what the names of the columns begin with.
    pub(super) fn new(prefix: &'static str) -> Calls {
        Calls { list: Vec::new(), places: HashMap::new(), prefix }
    }

    /// Adds a call that reads these columns at most, unless there is an equal one. Returns its number.
    pub(super) fn add(&mut self, call: Expr, reads: &[usize]) -> usize {
        match self.places.get(&call) {
            Some(at) => *at,
            None => {
                let at = self.list.len();
                self.places.insert(call.clone(), at);
                let name = format!("{}{at}", self.prefix);
                self.list.push(Untyped { expr: call, reads: reads.to_vec(), qualifier: None, name });
                at
            }
        }
    }

    pub(super) fn list(&self) -> &[Untyped] {
        &self.list
    }

    /// The column of a call, as expressions above the node read it.
    pub(super) fn column(&self, at: usize) -> Expr {
        Expr::Column(Column::new_unqualified(self.list[at].name.clone()))
    }
}

/// An expression that reads columns and results of [`Calls`].
pub(super) struct Above {
    pub(super) item: Untyped,
    /// The numbers of the calls. The item has only the places of columns.
    pub(super) calls: Vec<usize>,
}

impl Above {
    /// Completes the item by the places of the calls' results.
    pub(super) fn placed(self, place: impl Fn(usize) -> usize) -> Untyped {
        let Above { mut item, calls } = self;
        item.reads.extend(calls.into_iter().map(place));
        item.reads.sort_unstable();
        item.reads.dedup();
        item
    }
}

/// Whether a node of an expression is computed from one row alone.
fn is_of_one_row(expr: &Expr) -> bool {
    !matches!(
        expr,
        Expr::AggregateFunction(_)
            | Expr::WindowFunction(_)
            | Expr::GroupingSet(_)
            | Expr::ScalarSubquery(_)
            | Expr::Exists(_)
            | Expr::InSubquery(_)
            | Expr::SetComparison(_)
            | Expr::OuterReferenceColumn(..)
            | Expr::Placeholder(_)
            | Expr::Unnest(_)
    )
}

/// A plan node that computes columns from those of its input.
#[derive(Debug)]
pub struct ComputeColumns {
    input: LogicalPlan,
    items: Arc<[Item]>,
    schema: DFSchemaRef,
}

impl ComputeColumns {
    /// Creates the node for these columns over an input.
    ///
    /// # Errors
    /// A schema error if two items have the same name.
    pub(super) fn new(input: LogicalPlan, items: Arc<[Item]>) -> Result<Self> {
        let fields = items.iter().map(|item| (item.qualifier.clone(), Arc::clone(&item.field)));
        let schema = DFSchema::new_with_metadata(fields.collect(), input.schema().metadata().clone())?;
        Ok(ComputeColumns { input, items, schema: Arc::new(schema) })
    }

    /// The columns.
    pub fn items(&self) -> &[Item] {
        &self.items
    }

    /// Rebuilds this node over another input. Items that read columns which the input lacks are left out: the optimizer
    /// drops columns that nothing above needs.
    fn of_input(&self, input: LogicalPlan) -> Result<Self> {
        let items = match moved(&self.items, self.input.schema(), input.schema()) {
            None => Arc::clone(&self.items),
            Some(items) => items.into_iter().flatten().collect(),
        };
        ComputeColumns::new(input, items)
    }
}

/// Returns the items over another schema, which may lack columns; `None` in place of each item that reads a column which
/// is not there. `None` altogether if the schemas have the same columns.
pub(super) fn moved(items: &[Item], before: &DFSchema, now: &DFSchema) -> Option<Vec<Option<Item>>> {
    let stayed = now.fields().len() == before.fields().len()
        && now.iter().zip(before.iter()).all(|((q, f), (old_q, old_f))| q == old_q && f.name() == old_f.name());
    if stayed {
        return None;
    }
    let mut by_name = HashMap::with_capacity(now.fields().len());
    for (place, (qualifier, field)) in now.iter().enumerate() {
        by_name.entry((qualifier, field.name().as_str())).or_insert(place);
    }
    let items = items.iter().map(|item| {
        let place = |place: &usize| {
            let (qualifier, field) = before.qualified_field(*place);
            by_name.get(&(qualifier, field.name().as_str())).copied()
        };
        Some(Item { reads: item.reads.iter().map(place).collect::<Option<_>>()?, ..item.clone() })
    });
    Some(items.collect())
}

// The schema and the reads follow from the other fields.
impl PartialEq for ComputeColumns {
    fn eq(&self, other: &Self) -> bool {
        let same = |a: &Item, b: &Item| a.expr == b.expr && a.qualifier == b.qualifier && a.field == b.field;
        self.items.len() == other.items.len()
            && self.items.iter().zip(other.items.iter()).all(|(a, b)| same(a, b))
            && self.input == other.input
    }
}

impl Eq for ComputeColumns {}

impl Hash for ComputeColumns {
    fn hash<H: Hasher>(&self, state: &mut H) {
        for item in self.items.iter() {
            item.expr.hash(state);
            item.field.name().hash(state);
        }
        self.input.hash(state);
    }
}

impl PartialOrd for ComputeColumns {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        self.input.partial_cmp(&other.input).filter(|order| *order != Ordering::Equal || self == other)
    }
}

impl UserDefinedLogicalNodeCore for ComputeColumns {
    fn name(&self) -> &str {
        "ComputeColumns"
    }

    fn inputs(&self) -> Vec<&LogicalPlan> {
        vec![&self.input]
    }

    fn schema(&self) -> &DFSchemaRef {
        &self.schema
    }

    fn expressions(&self) -> Vec<Expr> {
        Vec::new()
    }

    fn prevent_predicate_push_down_columns(&self) -> HashSet<String> {
        let computed = self.items.iter().filter(|item| !item.is_column());
        computed.map(|item| item.field.name().clone()).collect()
    }

    fn fmt_for_explain(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "ComputeColumns: {} of {}", self.items.len(), self.input.schema().fields().len())
    }

    fn with_exprs_and_inputs(&self, _: Vec<Expr>, mut inputs: Vec<LogicalPlan>) -> Result<Self> {
        match (inputs.pop(), inputs.is_empty()) {
            (Some(input), true) => self.of_input(input),
            _ => plan_err!("ComputeColumns has one input"),
        }
    }

    fn necessary_children_exprs(&self, output_columns: &[usize]) -> Option<Vec<Vec<usize>>> {
        let items = output_columns.iter().filter_map(|at| self.items.get(*at));
        let mut needed: Vec<usize> = items.flat_map(|item| item.reads.iter().copied()).collect();
        needed.sort_unstable();
        needed.dedup();
        Some(vec![needed])
    }

    fn supports_limit_pushdown(&self) -> bool {
        true
    }
}

/// Simplifies the calls in an expression by each function's own `simplify`, as the optimizer does in plans that it
/// looks into: NOW() becomes the time at which the statement began.
///
/// # Errors
/// The error of a function's `simplify`.
pub fn simplified(expr: Expr, context: &SimplifyContext) -> Result<Expr> {
    expr.transform_up(|e| match e {
        Expr::AggregateFunction(call) if let Some(simplify) = call.func.simplify() => {
            Ok(match simplify(call.clone(), context)? {
                simple @ Expr::AggregateFunction(_) => Transformed::yes(simple),
                // A call of another kind cannot stand where an aggregate does.
                _ => Transformed::no(Expr::AggregateFunction(call)),
            })
        }
        Expr::WindowFunction(call) if let Some(simplify) = call.simplify() => {
            Ok(match simplify(call.as_ref().clone(), context)? {
                simple @ Expr::WindowFunction(_) => Transformed::yes(simple),
                _ => Transformed::no(Expr::WindowFunction(call)),
            })
        }
        Expr::ScalarFunction(ScalarFunction { func, args }) => Ok(match func.simplify(args, context)? {
            ExprSimplifyResult::Simplified(expr) => Transformed::yes(expr),
            ExprSimplifyResult::Original(args) => Transformed::no(Expr::ScalarFunction(ScalarFunction { func, args })),
        }),
        other => Ok(Transformed::no(other)),
    })
    .data()
}
