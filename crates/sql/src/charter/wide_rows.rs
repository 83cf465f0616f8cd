//! WHERE with conditions over very many columns, each planned over only the columns that it reads.
//!
//! For the reason that [`super::compute`] gives, the conditions are not the expression of a filter node, but those of a
//! [`KeepRows`] node, which no pass looks into. The scan gets them when the plan is physical.

use std::cmp::Ordering;
use std::collections::HashSet;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::common::{DFSchemaRef, Result, plan_err};
use datafusion::logical_expr::{Expr as Planned, Extension, LogicalPlan, UserDefinedLogicalNodeCore};
use sqlparser::ast::{BinaryOperator, Expr, Select, TableFactor};

use super::compute::{Item, ItemPlanner, Places, moved};

/// The terms of a condition that AND or OR joins.
#[derive(Debug, Clone)]
pub(super) struct Terms {
    terms: Vec<Expr>,
    any: bool,
}

impl Terms {
    /// Returns the terms of a query's WHERE if they are at least `many` and there is one table in FROM. With several
    /// tables, the planner has to see which conditions join them.
    pub(super) fn of(select: &Select, many: usize) -> Option<Terms> {
        let condition = select.selection.as_ref()?;
        let [from] = select.from.as_slice() else { return None };
        if !from.joins.is_empty() || !matches!(from.relation, TableFactor::Table { .. }) {
            return None;
        }
        [false, true].into_iter().find_map(|any| {
            let terms = terms(condition, if any { BinaryOperator::Or } else { BinaryOperator::And });
            (terms.len() >= many).then(|| Terms { terms: terms.into_iter().cloned().collect(), any })
        })
    }

    /// Builds the node over the rows of FROM. `None` if the planner has to see a term itself.
    ///
    /// # Errors
    /// The error of planning a term.
    pub(super) fn over(self, input: LogicalPlan, planner: &mut dyn ItemPlanner) -> Result<Option<LogicalPlan>> {
        let mut items = Vec::with_capacity(self.terms.len());
        {
            let places = Places::of(input.schema());
            for term in self.terms {
                match Item::planned(term, None, &places, planner)? {
                    Some(item) if *item.field().data_type() == DataType::Boolean => items.push(item),
                    _ => return Ok(None),
                }
            }
        }
        let node = Arc::new(KeepRows { input, conditions: items.into(), any: self.any });
        Ok(Some(LogicalPlan::Extension(Extension { node })))
    }
}

/// Returns the operands of a chain of one operator, from left to right.
fn terms(condition: &Expr, operator: BinaryOperator) -> Vec<&Expr> {
    let (mut terms, mut open) = (Vec::new(), vec![condition]);
    while let Some(expr) = open.pop() {
        match expr {
            Expr::BinaryOp { left, op, right } if *op == operator => {
                open.push(right);
                open.push(left);
            }
            Expr::Nested(inner) => open.push(inner),
            term => terms.push(term),
        }
    }
    terms
}

/// A plan node that keeps the rows which meet all of its conditions, or any of them.
#[derive(Debug)]
pub struct KeepRows {
    input: LogicalPlan,
    conditions: Arc<[Item]>,
    any: bool,
}

impl KeepRows {
    /// The conditions.
    pub fn conditions(&self) -> &[Item] {
        &self.conditions
    }

    /// Whether a row has to meet only one of the conditions.
    pub fn any(&self) -> bool {
        self.any
    }
}

// The reads follow from the other fields.
impl PartialEq for KeepRows {
    fn eq(&self, other: &Self) -> bool {
        self.any == other.any
            && self.conditions.len() == other.conditions.len()
            && self.conditions.iter().zip(other.conditions.iter()).all(|(a, b)| a.expr == b.expr)
            && self.input == other.input
    }
}

impl Eq for KeepRows {}

impl Hash for KeepRows {
    fn hash<H: Hasher>(&self, state: &mut H) {
        for item in self.conditions.iter() {
            item.expr.hash(state);
        }
        self.any.hash(state);
        self.input.hash(state);
    }
}

impl PartialOrd for KeepRows {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        self.input.partial_cmp(&other.input).filter(|order| *order != Ordering::Equal || self == other)
    }
}

impl UserDefinedLogicalNodeCore for KeepRows {
    fn name(&self) -> &str {
        "KeepRows"
    }

    fn inputs(&self) -> Vec<&LogicalPlan> {
        vec![&self.input]
    }

    fn schema(&self) -> &DFSchemaRef {
        self.input.schema()
    }

    fn expressions(&self) -> Vec<Planned> {
        Vec::new()
    }

    fn prevent_predicate_push_down_columns(&self) -> HashSet<String> {
        HashSet::new()
    }

    fn fmt_for_explain(&self, f: &mut fmt::Formatter) -> fmt::Result {
        write!(f, "KeepRows: {} of {} conditions", if self.any { "any" } else { "all" }, self.conditions.len())
    }

    fn with_exprs_and_inputs(&self, _: Vec<Planned>, mut inputs: Vec<LogicalPlan>) -> Result<Self> {
        let (Some(input), true) = (inputs.pop(), inputs.is_empty()) else {
            return plan_err!("KeepRows has one input");
        };
        let conditions = match moved(&self.conditions, self.input.schema(), input.schema()) {
            None => Arc::clone(&self.conditions),
            Some(conditions) => match conditions.into_iter().collect::<Option<Arc<[Item]>>>() {
                Some(conditions) => conditions,
                None => return plan_err!("the input of KeepRows lacks a column of a condition"),
            },
        };
        Ok(KeepRows { input, conditions, any: self.any })
    }

    fn necessary_children_exprs(&self, output_columns: &[usize]) -> Option<Vec<Vec<usize>>> {
        let read = self.conditions.iter().flat_map(|item| item.reads.iter().copied());
        let mut needed: Vec<usize> = output_columns.iter().copied().chain(read).collect();
        needed.sort_unstable();
        needed.dedup();
        Some(vec![needed])
    }
}
