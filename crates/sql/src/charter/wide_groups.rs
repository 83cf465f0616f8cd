//! GROUP BY, DISTINCT and aggregates of very many columns, each planned over only the columns that it reads.
//!
//! For the reason that [`super::compute`] gives, the keys and calls of such a query are not expressions of an
//! aggregate node, but of a [`GroupColumns`] node, which no pass looks into. The select list is a
//! [`ComputeColumns`](super::compute::ComputeColumns) node over its keys and results.

use std::cmp::Ordering;
use std::collections::{HashMap, HashSet};
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode, TreeNodeRecursion};
use datafusion::common::{Column, DFSchema, DFSchemaRef, Result, plan_err};
use datafusion::logical_expr::{Expr, LogicalPlan, UserDefinedLogicalNodeCore};

use super::compute::{Above, Calls, Item, Untyped, is_aggregate, is_window, moved, narrowed};
use super::zeros;

/// The keys and calls of a query, which are gathered while its expressions are rewritten to read them.
pub(super) struct Groups {
    keys: Vec<Untyped>,
    places: HashMap<Expr, usize>,
    calls: Calls,
}

impl Groups {
    pub(super) fn new() -> Groups {
        Groups { keys: Vec::new(), places: HashMap::new(), calls: Calls::new("dipper_call_") }
    }

    /// Adds a key, unless there is an equal one. `false` if it is not a value of one row.
    ///
    /// # Errors
    /// None in practice; walking an expression may fail.
    pub(super) fn add_key(&mut self, key: &Untyped) -> Result<bool> {
        if key.has(is_aggregate)? || key.has(is_window)? {
            return Ok(false);
        }
        if !self.places.contains_key(&key.expr) {
            let at = self.keys.len();
            let mut key = key.clone();
            match &key.expr {
                Expr::Column(column) => {
                    key.qualifier.clone_from(&column.relation);
                    key.name.clone_from(&column.name);
                }
                _ => (key.qualifier, key.name) = (None, format!("dipper_key_{at}")),
            }
            self.places.insert(key.expr.clone(), at);
            self.keys.push(key);
        }
        Ok(true)
    }

    /// Rewrites an expression to read keys and results of calls, which are added. `None` if it reads anything else.
    ///
    /// # Errors
    /// None in practice; walking an expression may fail.
    pub(super) fn above(&mut self, item: Untyped) -> Result<Option<Above>> {
        let Untyped { expr, reads, qualifier, name } = item;
        let (mut keys, mut calls, mut is_outside) = (Vec::new(), Vec::new(), false);
        let expr = expr.transform_down(|e| {
            if let Some(at) = self.places.get(&e) {
                keys.push(*at);
                let key = &self.keys[*at];
                let column = Expr::Column(Column::new(key.qualifier.clone(), key.name.clone()));
                return Ok(Transformed::new(column, true, TreeNodeRecursion::Jump));
            }
            let mut nested = 0;
            if is_aggregate(&e) {
                e.apply(|e| {
                    nested += usize::from(is_aggregate(e) || is_window(e));
                    Ok(TreeNodeRecursion::Continue)
                })?;
            }
            if nested == 1 {
                let at = self.calls.add(e, &reads);
                calls.push(at);
                return Ok(Transformed::new(self.calls.column(at), true, TreeNodeRecursion::Jump));
            }
            is_outside |= nested > 1 || is_window(&e) || matches!(e, Expr::Column(_));
            Ok(Transformed::no(e))
        })?;
        let item = Untyped { expr: expr.data, reads: keys, qualifier, name };
        Ok((!is_outside).then_some(Above { item, calls }))
    }

    /// Returns the place in the node of the result of a call.
    pub(super) fn place(&self, call: usize) -> usize {
        self.keys.len() + call
    }

    /// Builds the node over its input.
    ///
    /// # Errors
    /// The error of the analyzer's rules.
    pub(super) fn node(&self, input: LogicalPlan, options: &ConfigOptions) -> Result<GroupColumns> {
        let schema = Arc::clone(input.schema());
        let keys = self.keys.iter().map(|key| {
            let mut item = key.clone().typed(&schema, options)?;
            zeros::same_bits(&mut item.expr, &narrowed(&schema, &item.reads)?);
            Ok(item)
        });
        let keys = keys.collect::<Result<Vec<_>>>()?;
        let calls = self.calls.list().iter().map(|call| call.clone().typed(&schema, options));
        let calls = calls.collect::<Result<Vec<_>>>()?;
        GroupColumns::new(input, keys.into(), calls.into())
    }
}

/// A plan node that makes a row of each group of rows with equal keys: the keys, then the results of aggregates.
/// Without keys, all rows are one group.
#[derive(Debug)]
pub struct GroupColumns {
    input: LogicalPlan,
    keys: Arc<[Item]>,
    calls: Arc<[Item]>,
    schema: DFSchemaRef,
}

impl GroupColumns {
    fn new(input: LogicalPlan, keys: Arc<[Item]>, calls: Arc<[Item]>) -> Result<Self> {
        let fields = keys.iter().chain(calls.iter()).map(|item| (item.qualifier.clone(), Arc::clone(item.field())));
        let schema = DFSchema::new_with_metadata(fields.collect(), input.schema().metadata().clone())?;
        Ok(GroupColumns { input, keys, calls, schema: Arc::new(schema) })
    }

    /// The keys.
    pub fn keys(&self) -> &[Item] {
        &self.keys
    }

    /// The calls of aggregate functions.
    pub fn calls(&self) -> &[Item] {
        &self.calls
    }

    /// Rebuilds this node over another input. Calls that read columns which the input lacks are left out: the optimizer
    /// drops columns that nothing above needs. All keys are needed.
    fn of_input(&self, input: LogicalPlan) -> Result<Self> {
        let (before, now) = (self.input.schema(), input.schema());
        let keys = match moved(&self.keys, before, now) {
            None => Arc::clone(&self.keys),
            Some(keys) => match keys.into_iter().collect::<Option<Arc<[Item]>>>() {
                Some(keys) => keys,
                None => return plan_err!("the input of GroupColumns lacks a key"),
            },
        };
        let calls = match moved(&self.calls, before, now) {
            None => Arc::clone(&self.calls),
            Some(calls) => calls.into_iter().flatten().collect(),
        };
        GroupColumns::new(input, keys, calls)
    }
}

// The schema and the reads follow from the other fields.
impl PartialEq for GroupColumns {
    fn eq(&self, other: &Self) -> bool {
        let same = |a: &[Item], b: &[Item]| {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| a.expr == b.expr && a.field() == b.field())
        };
        same(&self.keys, &other.keys) && same(&self.calls, &other.calls) && self.input == other.input
    }
}

impl Eq for GroupColumns {}

impl Hash for GroupColumns {
    fn hash<H: Hasher>(&self, state: &mut H) {
        for item in self.keys.iter().chain(self.calls.iter()) {
            item.expr.hash(state);
        }
        self.input.hash(state);
    }
}

impl PartialOrd for GroupColumns {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        self.input.partial_cmp(&other.input).filter(|order| *order != Ordering::Equal || self == other)
    }
}

impl UserDefinedLogicalNodeCore for GroupColumns {
    fn name(&self) -> &str {
        "GroupColumns"
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
        // Conditions move below the aggregate when the plan is physical.
        self.schema.fields().iter().map(|field| field.name().clone()).collect()
    }

    fn fmt_for_explain(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "GroupColumns: {} keys, {} calls", self.keys.len(), self.calls.len())
    }

    fn with_exprs_and_inputs(&self, _: Vec<Expr>, mut inputs: Vec<LogicalPlan>) -> Result<Self> {
        match (inputs.pop(), inputs.is_empty()) {
            (Some(input), true) => self.of_input(input),
            _ => plan_err!("GroupColumns has one input"),
        }
    }

    fn necessary_children_exprs(&self, output_columns: &[usize]) -> Option<Vec<Vec<usize>>> {
        let calls = output_columns.iter().filter_map(|at| self.calls.get(at.checked_sub(self.keys.len())?));
        // Without keys the one row has to be made, also if no value of it is needed.
        let calls = calls.chain(self.calls.first().filter(|_| self.keys.is_empty()));
        let mut needed: Vec<usize> =
            self.keys.iter().chain(calls).flat_map(|item| item.reads.iter().copied()).collect();
        needed.sort_unstable();
        needed.dedup();
        Some(vec![needed])
    }
}
