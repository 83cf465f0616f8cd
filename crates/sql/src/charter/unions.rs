//! UNION, INTERSECT and EXCEPT: the types of their columns, before anything is planned upon them.
//!
//! DataFusion gives a UNION the types of its first input and finds the common ones in an analyzer rule, when the
//! operators and aggregates above are planned already: `x * 2` over a column of INT and DECIMAL would multiply integers.
//! INTERSECT and EXCEPT are joins to DataFusion, which compare a BOOLEAN with no number, and find their columns by names that
//! may be there twice. So each set operation becomes a relation of its own, `SELECT * FROM (a UNION b)`, and a relation
//! planner plans it.

use std::collections::HashSet;
use std::ptr;
use std::sync::Arc;

use arrow::datatypes::{DataType, FieldRef};
use datafusion::common::{DFSchema, Result, plan_err};
use datafusion::logical_expr::expr_rewriter::coerce_plan_expr_for_schema;
use datafusion::logical_expr::planner::RelationPlannerContext;
use datafusion::logical_expr::{Distinct, Expr, LogicalPlan, LogicalPlanBuilder, Union};
use datafusion::optimizer::analyzer::type_coercion::coerce_union_schema;
use dipper_dialect::error::SqlError;
use dipper_dialect::tree;
use dipper_dialect::walk::{self, Change, Look};
use sqlparser::ast::{
    ObjectNamePart, Query, SelectItem, SetExpr, SetOperator, SetQuantifier, TableFactor, TableWithJoins,
};

use super::names::MARK;
use super::terms::cast_to;
use super::typed::Typed;
use super::{tables, values, wide_marks};
use crate::class::charter_type;
use crate::metadata::TYPE_KEY;

/// Makes a relation of each set operation, except those that the planner knows as the two halves of a recursion, and of
/// each VALUES that [`values`] plans.
pub(super) fn relations(query: &mut Query) {
    #[derive(Default)]
    struct Relations {
        recursive: HashSet<*const Query>,
    }
    impl Change for Relations {
        fn query(&mut self, query: &mut Query) -> Result<(), SqlError> {
            if let Some(with) = query.with.as_ref().filter(|with| with.recursive) {
                let themselves = with.cte_tables.iter().filter(|cte| reads(&cte.query, &cte.alias.name.value));
                self.recursive.extend(themselves.map(|cte| ptr::from_ref(cte.query.as_ref())));
            }
            Ok(())
        }

        fn after_query(&mut self, query: &mut Query) -> Result<(), SqlError> {
            let is_wide = wide_marks::is_marked(query);
            match self.recursive.contains(&ptr::from_ref(query)) {
                true => halves(&mut query.body, is_wide),
                false => relation(&mut query.body, is_wide),
            }
            Ok(())
        }
    }
    // It cannot fail.
    let _ = walk::change(query, &mut Relations::default());
}

/// Whether a query reads what has this name.
fn reads(query: &Query, name: &str) -> bool {
    struct Reads<'a> {
        name: &'a str,
        found: bool,
    }
    impl Look for Reads<'_> {
        fn table_factor(&mut self, factor: &TableFactor) -> Result<(), SqlError> {
            if let TableFactor::Table { name, .. } = factor {
                let is_it = |part: &ObjectNamePart| part.as_ident().is_some_and(|ident| ident.value == self.name);
                self.found |= matches!(name.0.as_slice(), [only] if is_it(only));
            }
            Ok(())
        }
    }
    let mut reads = Reads { name, found: false };
    // Looking cannot fail.
    let _ = walk::look(query, &mut reads);
    reads.found
}

/// Whether it is what [`plan`] plans.
pub(super) fn is_set_operation(body: &SetExpr) -> bool {
    is_union(body) || compared(body).is_some()
}

fn is_union(body: &SetExpr) -> bool {
    use SetQuantifier::{All, Distinct, None};
    matches!(body, SetExpr::SetOperation { op: SetOperator::Union, set_quantifier: All | Distinct | None, .. })
}

/// INTERSECT or EXCEPT, which look for rows of one side in the other.
fn compared(body: &SetExpr) -> Option<SetOperator> {
    use SetQuantifier::{Distinct, None as NoWord};
    match body {
        SetExpr::SetOperation {
            op: op @ (SetOperator::Intersect | SetOperator::Except),
            set_quantifier: Distinct | NoWord,
            ..
        } => Some(*op),
        _ => None,
    }
}

/// Makes relations of the sides of a set operation that stays one.
fn halves(body: &mut SetExpr, is_wide: bool) {
    match body {
        SetExpr::SetOperation { left, right, .. } => {
            halves(left, is_wide);
            halves(right, is_wide);
        }
        SetExpr::Values(rows) if values::are_mixed(rows) => relation(body, is_wide),
        _ => {}
    }
}

fn relation(body: &mut SetExpr, is_wide: bool) {
    if is_set_operation(body) || matches!(body, SetExpr::Values(rows) if values::are_mixed(rows)) {
        let empty =
            SetExpr::Values(sqlparser::ast::Values { explicit_row: false, value_keyword: false, rows: Vec::new() });
        let operation = derived(std::mem::replace(body, empty), is_wide);
        let from = TableWithJoins { relation: operation, joins: Vec::new() };
        *body = *tree::select(vec![SelectItem::Wildcard(Default::default())], vec![from]).body;
    } else {
        halves(body, is_wide);
    }
}

/// A set expression as a relation without a name; `is_wide`: it has very many columns.
fn derived(body: SetExpr, is_wide: bool) -> TableFactor {
    let mut query = tree::select(Vec::new(), Vec::new());
    *query.body = body;
    tables::derived(if is_wide { wide_marks::marked(query) } else { query }, None)
}

/// Plans what [`relations`] made. One node for neighbours that are all UNION ALL: their common type is that of all of them.
/// Below a UNION without ALL all are neighbours, because it makes all of their rows distinct.
/// `is_wide`: the columns are very many.
pub(super) fn plan(body: SetExpr, is_wide: bool, context: &mut dyn RelationPlannerContext) -> Result<LogicalPlan> {
    let mut members = Members { is_wide, context };
    union(members.of(body, false)?)
}

/// Plans the members of UNIONs.
struct Members<'a> {
    is_wide: bool,
    context: &'a mut dyn RelationPlannerContext,
}

impl Members<'_> {
    /// The members of a UNION that are neighbours; `distinct`: there is one without ALL around it.
    fn of(&mut self, body: SetExpr, distinct: bool) -> Result<Vec<LogicalPlan>> {
        let mut inputs = Vec::new();
        // Without recursion, because there may be thousands.
        let mut open = vec![body];
        while let Some(body) = open.pop() {
            if !is_union(&body) {
                inputs.push(match (compared(&body), body) {
                    (Some(op), SetExpr::SetOperation { left, right, .. }) => {
                        let left = plan(*left, self.is_wide, self.context)?;
                        let right = plan(*right, self.is_wide, self.context)?;
                        comparison(op, left, right)?
                    }
                    (_, body) => self.context.plan(derived(body, self.is_wide))?,
                });
                continue;
            }
            let SetExpr::SetOperation { set_quantifier, left, right, .. } = body else { continue };
            if distinct || set_quantifier == SetQuantifier::All {
                open.push(*right);
                open.push(*left);
                continue;
            }
            let mut below = self.of(*left, true)?;
            below.extend(self.of(*right, true)?);
            inputs.push(LogicalPlan::Distinct(Distinct::All(Arc::new(union(below)?))));
        }
        Ok(inputs)
    }
}

fn union(mut inputs: Vec<LogicalPlan>) -> Result<LogicalPlan> {
    if inputs.len() == 1 {
        return Ok(inputs.swap_remove(0));
    }
    let inputs = of_one_type(SetOperator::Union, inputs)?;
    Ok(LogicalPlan::Union(Union::try_new_with_loose_types(inputs)?))
}

/// Rows of the left side that the right side has, or has not.
fn comparison(op: SetOperator, left: LogicalPlan, right: LogicalPlan) -> Result<LogicalPlan> {
    let sides = of_one_type(op, vec![left, right])?.into_iter().map(|side| {
        // Both may read one table: columns have no table here, as those of a UNION have none.
        let columns = side.schema().iter().map(|(table, field)| Expr::from((table, field)).alias(field.name().clone()));
        let columns: Vec<Expr> = columns.collect();
        LogicalPlanBuilder::from(Arc::unwrap_or_clone(side)).project(columns)?.build()
    });
    let mut sides = sides.collect::<Result<Vec<_>>>()?.into_iter();
    let (Some(left), Some(right)) = (sides.next(), sides.next()) else { return plan_err!("{op} has two sides") };
    match op {
        SetOperator::Intersect => LogicalPlanBuilder::intersect(left, right, false),
        _ => LogicalPlanBuilder::except(left, right, false),
    }
}

/// The same input without two columns of one name: those of a UNION have no tables any more by which they could be told apart.
fn with_own_names(input: LogicalPlan) -> Result<LogicalPlan> {
    let mut seen = HashSet::new();
    let columns = input.schema().iter().enumerate().map(|(at, (table, field))| {
        let column = Expr::from((table, field));
        match seen.insert(field.name().clone()) {
            true => column,
            false => column.alias(format!("{}{MARK}{at}", field.name())),
        }
    });
    let columns: Vec<Expr> = columns.collect();
    match seen.len() == columns.len() {
        true => Ok(input),
        false => LogicalPlanBuilder::from(input).project(columns)?.build(),
    }
}

/// The inputs of a set operation with columns of the charter's common types, else DataFusion's.
fn of_one_type(op: SetOperator, inputs: Vec<LogicalPlan>) -> Result<Vec<Arc<LogicalPlan>>> {
    let width = inputs.first().map_or(0, |input| input.schema().fields().len());
    if inputs.iter().any(|input| input.schema().fields().len() != width) {
        return plan_err!("{op} queries have different number of columns");
    }
    let inputs = inputs.into_iter().map(with_own_names).collect::<Result<Vec<_>>>()?;
    let common = |column: usize| {
        let types: Vec<&DataType> = inputs.iter().map(|i| i.schema().field(column).data_type()).collect();
        charter_type(types.into_iter())
    };
    let wanted: Vec<Option<DataType>> = (0..width).map(common).collect();
    let fields = |column: usize| inputs.iter().map(move |input| input.schema().field(column));
    let declared: Vec<Option<String>> = (0..width).map(|column| declared(fields(column))).collect();
    let charter = inputs.into_iter().map(|input| {
        let input = without_booleans(input, &wanted)?;
        let fields = input.schema().iter().zip(&wanted).map(|((table, field), wanted)| {
            let field = match wanted {
                Some(wanted) => Arc::new(field.as_ref().clone().with_data_type(wanted.clone())),
                None => Arc::clone(field),
            };
            (table.cloned(), field)
        });
        let schema = DFSchema::new_with_metadata(fields.collect(), input.schema().metadata().clone())?;
        coerced(input, &schema).map(Arc::new)
    });
    let charter = charter.collect::<Result<Vec<_>>>()?;
    let schema = coerce_union_schema(&charter)?;
    let inputs = charter.into_iter().map(|input| {
        let input = coerced(Arc::unwrap_or_clone(input), &schema)?;
        if declared.iter().all(Option::is_none) {
            return Ok(Arc::new(input));
        }
        let columns = input.schema().iter().zip(&declared).map(|((table, field), declared)| {
            let column = Expr::from((table, field));
            match declared {
                Some(text) => Typed::declare(column, text).alias_qualified(table.cloned(), field.name()),
                None => column,
            }
        });
        let columns: Vec<Expr> = columns.collect();
        LogicalPlanBuilder::from(input).project(columns)?.build().map(Arc::new)
    });
    inputs.collect()
}

/// The input with the numbers of booleans where decimals are wanted, which DataFusion does not make of them.
fn without_booleans(input: LogicalPlan, wanted: &[Option<DataType>]) -> Result<LogicalPlan> {
    let schema = Arc::clone(input.schema());
    let is_cast = |field: &DataType, wanted: &Option<DataType>| {
        *field == DataType::Boolean && wanted.as_ref().is_some_and(DataType::is_decimal)
    };
    if !schema.fields().iter().zip(wanted).any(|(field, wanted)| is_cast(field.data_type(), wanted)) {
        return Ok(input);
    }
    let columns = schema.iter().zip(wanted).map(|((table, field), wanted)| {
        let column = Expr::from((table, field));
        match wanted {
            Some(to) if is_cast(field.data_type(), wanted) => {
                cast_to(column, to.clone(), &schema).alias_qualified(table.cloned(), field.name())
            }
            _ => column,
        }
    });
    let columns: Vec<Expr> = columns.collect();
    LogicalPlanBuilder::from(input).project(columns)?.build()
}

/// The input with the types of a schema. One that has them stays: the planner would find each of its columns by comparing names.
fn coerced(input: LogicalPlan, schema: &DFSchema) -> Result<LogicalPlan> {
    let has_types = input.schema().fields().iter().zip(schema.fields()).all(|(a, b)| a.data_type() == b.data_type());
    match has_types {
        true => Ok(input),
        false => coerce_plan_expr_for_schema(input, schema),
    }
}

/// The SQL type of a column whose inputs declare different ones; `None` where they say the same. NULL is of any type.
pub(super) fn declared<'a>(fields: impl ExactSizeIterator<Item = &'a FieldRef>) -> Option<String> {
    let inputs = fields.len();
    let values = fields.filter(|field| *field.data_type() != DataType::Null);
    let all: Vec<Option<String>> = values.map(|field| field.metadata().get(TYPE_KEY).cloned()).collect();
    let first = all.first()?;
    if all.iter().all(|t| t == first) {
        return first.clone().filter(|_| all.len() < inputs);
    }
    let longest = |names: &[&str]| {
        let length = |text: &Option<String>| {
            let text = text.as_deref()?.to_lowercase();
            names.iter().find_map(|n| text.strip_prefix(n)?.strip_prefix('(')?.strip_suffix(')')?.parse::<u32>().ok())
        };
        let lengths = all.iter().map(length).collect::<Option<Vec<u32>>>()?;
        lengths.into_iter().max()
    };
    let text = longest(&["varchar", "char"]).map(|n| format!("varchar({n})"));
    let text = text.or_else(|| longest(&["datetime"]).map(|p| format!("datetime({p})")));
    Some(text.unwrap_or_default())
}
