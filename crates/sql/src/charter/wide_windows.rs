//! Window functions in very long select lists, each planned over only the columns that it reads.
//!
//! For the reason that [`super::compute`] gives, the calls are not expressions of a window node, but of a
//! [`WindowColumns`] node, which no pass looks into. The select list is a
//! [`ComputeColumns`](super::compute::ComputeColumns) node over the columns of FROM and the results.

use std::cmp::Ordering;
use std::collections::{HashMap, HashSet};
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{DFSchema, DFSchemaRef, Result, plan_err};
use datafusion::logical_expr::expr::{Sort, WindowFunction};
use datafusion::logical_expr::{Expr, LogicalPlan, UserDefinedLogicalNodeCore};

use super::compute::{Above, Calls, Item, Untyped, is_window, moved};

/// The window functions of a query, which are gathered while its expressions are rewritten to read their results.
pub(super) struct Windows {
    calls: Calls,
}

impl Windows {
    pub(super) fn new() -> Windows {
        Windows { calls: Calls::new("dipper_window_") }
    }

    /// Rewrites an expression to read the results of its calls, which are added.
    ///
    /// # Errors
    /// None in practice; walking an expression may fail.
    pub(super) fn above(&mut self, mut item: Untyped) -> Result<Above> {
        let mut calls = Vec::new();
        let expr = item.expr.transform_down(|e| match is_window(&e) {
            true => {
                let at = self.calls.add(e, &item.reads);
                calls.push(at);
                Ok(Transformed::new(self.calls.column(at), true, TreeNodeRecursion::Jump))
            }
            false => Ok(Transformed::no(e)),
        })?;
        item.expr = expr.data;
        Ok(Above { item, calls })
    }

    /// Builds the node over its input. Also returns the place of each call's result among the results: calls over the
    /// same partitions and order stand together, those over more keys first, so that an order may serve several.
    ///
    /// # Errors
    /// The error of the analyzer's rules.
    pub(super) fn node(&self, input: LogicalPlan, options: &ConfigOptions) -> Result<(WindowColumns, Vec<usize>)> {
        let schema = Arc::clone(input.schema());
        let mut groups: HashMap<(&[Expr], &[Sort]), usize> = HashMap::new();
        let mut members: Vec<(usize, Vec<usize>)> = Vec::new();
        for (at, call) in self.calls.list().iter().enumerate() {
            let Some(over) = over(&call.expr) else { return plan_err!("{} is no window function", call.expr) };
            let group = *groups.entry(over).or_insert_with(|| {
                members.push((over.0.len() + over.1.len(), Vec::new()));
                members.len() - 1
            });
            members[group].1.push(at);
        }
        members.sort_by_key(|(keys, _)| std::cmp::Reverse(*keys));
        let mut places = vec![0; self.calls.list().len()];
        let mut calls = Vec::with_capacity(places.len());
        for at in members.into_iter().flat_map(|(_, group)| group) {
            places[at] = calls.len();
            calls.push(self.calls.list()[at].clone().typed(&schema, options)?);
        }
        Ok((WindowColumns::new(input, calls.into())?, places))
    }
}

/// Returns the partitions and the order of a window function.
pub fn over(call: &Expr) -> Option<(&[Expr], &[Sort])> {
    match call {
        Expr::WindowFunction(call) => {
            let WindowFunction { params, .. } = call.as_ref();
            Some((&params.partition_by, &params.order_by))
        }
        _ => None,
    }
}

/// A plan node that adds the results of window functions to the columns of its input.
#[derive(Debug)]
pub struct WindowColumns {
    input: LogicalPlan,
    calls: Arc<[Item]>,
    schema: DFSchemaRef,
}

impl WindowColumns {
    fn new(input: LogicalPlan, calls: Arc<[Item]>) -> Result<Self> {
        let own = input.schema();
        let fields = own.iter().map(|(qualifier, field)| (qualifier.cloned(), Arc::clone(field)));
        let fields = fields.chain(calls.iter().map(|item| (None, Arc::clone(item.field()))));
        let schema = DFSchema::new_with_metadata(fields.collect(), own.metadata().clone())?;
        Ok(WindowColumns { input, calls, schema: Arc::new(schema) })
    }

    /// The calls of window functions.
    pub fn calls(&self) -> &[Item] {
        &self.calls
    }

    fn width(&self) -> usize {
        self.input.schema().fields().len()
    }

    /// Rebuilds this node over another input. Calls that read columns which the input lacks are left out: the optimizer
    /// drops columns that nothing above needs.
    fn of_input(&self, input: LogicalPlan) -> Result<Self> {
        let calls = match moved(&self.calls, self.input.schema(), input.schema()) {
            None => Arc::clone(&self.calls),
            Some(calls) => calls.into_iter().flatten().collect(),
        };
        WindowColumns::new(input, calls)
    }
}

// The schema and the reads follow from the other fields.
impl PartialEq for WindowColumns {
    fn eq(&self, other: &Self) -> bool {
        self.calls.len() == other.calls.len()
            && self.calls.iter().zip(other.calls.iter()).all(|(a, b)| a.expr == b.expr && a.field() == b.field())
            && self.input == other.input
    }
}

impl Eq for WindowColumns {}

impl Hash for WindowColumns {
    fn hash<H: Hasher>(&self, state: &mut H) {
        for item in self.calls.iter() {
            item.expr.hash(state);
        }
        self.input.hash(state);
    }
}

impl PartialOrd for WindowColumns {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        self.input.partial_cmp(&other.input).filter(|order| *order != Ordering::Equal || self == other)
    }
}

impl UserDefinedLogicalNodeCore for WindowColumns {
    fn name(&self) -> &str {
        "WindowColumns"
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
        // Fewer rows below would change the results.
        self.schema.fields().iter().map(|field| field.name().clone()).collect()
    }

    fn fmt_for_explain(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "WindowColumns: {} calls", self.calls.len())
    }

    fn with_exprs_and_inputs(&self, _: Vec<Expr>, mut inputs: Vec<LogicalPlan>) -> Result<Self> {
        match (inputs.pop(), inputs.is_empty()) {
            (Some(input), true) => self.of_input(input),
            _ => plan_err!("WindowColumns has one input"),
        }
    }

    fn necessary_children_exprs(&self, output_columns: &[usize]) -> Option<Vec<Vec<usize>>> {
        let mut needed = Vec::new();
        for at in output_columns {
            match at.checked_sub(self.width()) {
                None => needed.push(*at),
                Some(call) => {
                    needed.extend(self.calls.get(call).into_iter().flat_map(|item| item.reads.iter().copied()))
                }
            }
        }
        needed.sort_unstable();
        needed.dedup();
        Some(vec![needed])
    }
}
