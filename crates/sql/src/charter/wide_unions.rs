//! UNIONs of very many columns, which type coercion may skip.
//!
//! DataFusion's type coercion asks for the type of each column of each input of a UNION by name. Inputs that were given
//! the types of the UNION when it was planned ([`super::unions`]) have these types already.

use std::sync::Arc;

use arrow::datatypes::DataType;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode};
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{ExprSchemable, LogicalPlan};
use datafusion::optimizer::AnalyzerRule;
use datafusion::optimizer::analyzer::type_coercion::TypeCoercionRewriter;

use super::wide::WIDE;

/// The name of DataFusion's rule for type coercion.
pub(super) const TYPES: &str = "type_coercion";

/// DataFusion's type coercion that leaves out UNIONs of very many columns.
#[derive(Debug)]
pub(super) struct Types(pub(super) Arc<dyn AnalyzerRule + Send + Sync>);

impl AnalyzerRule for Types {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn analyze(&self, plan: LogicalPlan, config: &ConfigOptions) -> Result<LogicalPlan> {
        match plan.exists(|node| Ok(has_types(node)))? {
            true => plan.transform_up_with_subqueries(coerced).data(),
            false => self.0.analyze(plan, config),
        }
    }
}

/// Whether a node is a wide UNION whose inputs have its types.
fn has_types(plan: &LogicalPlan) -> bool {
    let LogicalPlan::Union(union) = plan else { return false };
    let fields = union.schema.fields();
    let same = |input: &Arc<LogicalPlan>| {
        let own = input.schema().fields();
        own.len() == fields.len() && own.iter().zip(fields).all(|(a, b)| a.data_type() == b.data_type())
    };
    fields.len() >= WIDE && union.inputs.iter().all(same)
}

/// Coerces the expressions of a node; its inputs are coerced already.
fn coerced(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    if has_types(&plan) {
        return Ok(Transformed::no(plan));
    }
    let mut schema = merge_schema(&plan.inputs());
    if let LogicalPlan::TableScan(scan) = &plan {
        schema.merge(&DFSchema::try_from_qualified_schema(scan.table_name.clone(), &scan.source.schema())?);
    }
    let plan = match plan {
        LogicalPlan::Filter(mut filter) => {
            filter.predicate = filter.predicate.cast_to(&DataType::Boolean, &schema)?;
            LogicalPlan::Filter(filter)
        }
        other => other,
    };
    let mut rewriter = TypeCoercionRewriter::new(&schema);
    let names = NamePreserver::new(&plan);
    let plan = plan.map_expressions(|expr| {
        let name = names.save(&expr);
        Ok(expr.rewrite(&mut rewriter)?.update_data(|expr| name.restore(expr)))
    })?;
    Ok(Transformed::yes(rewriter.coerce_plan(plan.data)?.recompute_schema()?))
}
