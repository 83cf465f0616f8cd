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
use datafusion::common::{DFSchema, DFSchemaRef, Result, TableReference, plan_err};
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
    qualifier: Option<TableReference>,
    field: FieldRef,
}

impl Item {
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
        if walk::any(&expr, is_subquery) {
            return Ok(None);
        }
        let reads = places.read_by(&expr);
        let schema = narrowed(places.schema, &reads)?;
        let planned = planner.plan(expr, &schema)?;
        if planned.exists(|e| Ok(!is_of_one_row(e)))? {
            return Ok(None);
        }
        let (qualifier, name) = match alias {
            Some(alias) => (None, alias.to_string()),
            None => planned.qualified_name(),
        };
        let options = planner.options();
        let expr = planned.unalias_nested().data;
        let expr = expr.transform_up(|e| rewrite_expr(e, Stage::BeforeCoercion, &schema, options))?.data;
        let expr = expr.rewrite(&mut TypeCoercionRewriter::new(&schema))?.data;
        let expr = expr.transform_up(|e| rewrite_expr(e, Stage::AfterCoercion, &schema, options))?.data;
        let field = declared::field_of(&expr, &schema)?;
        let field = Arc::new(field.as_ref().clone().with_name(name));
        Ok(Some(Item { expr, reads, qualifier, field }))
    }

    /// Whether this is a column of the input under its own name.
    fn is_column(&self) -> bool {
        let Expr::Column(column) = &self.expr else { return false };
        column.relation == self.qualifier && column.name == *self.field.name()
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
        let before = self.input.schema();
        let now = input.schema();
        let stayed = now.fields().len() == before.fields().len()
            && now.iter().zip(before.iter()).all(|((q, f), (old_q, old_f))| q == old_q && f.name() == old_f.name());
        if stayed {
            return ComputeColumns::new(input, Arc::clone(&self.items));
        }
        let mut by_name = HashMap::with_capacity(now.fields().len());
        for (place, (qualifier, field)) in now.iter().enumerate() {
            by_name.entry((qualifier, field.name().as_str())).or_insert(place);
        }
        let items = self.items.iter().filter_map(|item| {
            let place = |place: &usize| {
                let (qualifier, field) = before.qualified_field(*place);
                by_name.get(&(qualifier, field.name().as_str())).copied()
            };
            Some(Item { reads: item.reads.iter().map(place).collect::<Option<_>>()?, ..item.clone() })
        });
        let items: Vec<Item> = items.collect();
        drop(by_name);
        ComputeColumns::new(input, items.into())
    }
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
        Expr::ScalarFunction(ScalarFunction { func, args }) => Ok(match func.simplify(args, context)? {
            ExprSimplifyResult::Simplified(expr) => Transformed::yes(expr),
            ExprSimplifyResult::Original(args) => Transformed::no(Expr::ScalarFunction(ScalarFunction { func, args })),
        }),
        other => Ok(Transformed::no(other)),
    })
    .data()
}
