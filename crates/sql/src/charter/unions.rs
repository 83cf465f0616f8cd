//! UNION, INTERSECT and EXCEPT: their columns get their types before anything above them is planned.
//!
//! DataFusion gives a UNION the types of its first input, and finds the common types in an analyzer rule only after the
//! operators and aggregates above are planned: `x * 2` over a column of INT and DECIMAL would multiply integers. It
//! plans INTERSECT and EXCEPT as joins, which cannot compare a BOOLEAN with a number, and which find columns by name
//! although names may repeat. So each set operation becomes a relation of its own, `SELECT * FROM (a UNION b)`, and a
//! relation planner plans it.

use std::collections::{HashMap, HashSet};
use std::ptr;
use std::sync::Arc;

use arrow::datatypes::{DataType, FieldRef};
use datafusion::common::{DFSchema, Result, plan_err};
use datafusion::logical_expr::expr_rewriter::coerce_plan_expr_for_schema;
use datafusion::logical_expr::planner::RelationPlannerContext;
use datafusion::logical_expr::{Distinct, Expr, LogicalPlan, LogicalPlanBuilder, Union};
use datafusion::optimizer::analyzer::type_coercion::coerce_union_schema;
use dipper_base::types::SqlType;
use dipper_dialect::error::SqlError;
use dipper_dialect::tree;
use dipper_dialect::walk::{self, Change, Look};
use sqlparser::ast::{
    ObjectNamePart, Query, SelectItem, SetExpr, SetOperator, SetQuantifier, TableAlias, TableFactor, TableWithJoins,
};

use super::apart::{self, Kinds};
use super::names::MARK;
use super::terms::{cast_to, int_literal};
use super::typed::Typed;
use super::{mixed, recursion, tables, values, wide_marks};
use crate::class::is_own_cast;
use crate::metadata::TYPE_KEY;

/// Makes a relation of each set operation and of each VALUES that [`values`] plans. [`recursion`] makes that of a
/// recursive common table expression.
///
/// # Errors
/// Those of [`recursion::relation`].
pub(super) fn relations(query: &mut Query) -> Result<(), SqlError> {
    #[derive(Default)]
    struct Relations {
        recursive: HashMap<*const Query, TableAlias>,
    }
    impl Change for Relations {
        fn query(&mut self, query: &mut Query) -> Result<(), SqlError> {
            if let Some(with) = query.with.as_mut().filter(|with| with.recursive) {
                for cte in with.cte_tables.iter_mut().filter(|cte| reads(&cte.query, &cte.alias.name.value)) {
                    recursion::bare(&mut cte.query);
                    self.recursive.insert(ptr::from_ref(cte.query.as_ref()), cte.alias.clone());
                }
            }
            Ok(())
        }

        fn after_query(&mut self, query: &mut Query) -> Result<(), SqlError> {
            let is_wide = wide_marks::is_marked(query);
            match self.recursive.get(&ptr::from_ref(query)) {
                Some(alias) => recursion::relation(query, alias),
                None => {
                    relation(&mut query.body, is_wide);
                    Ok(())
                }
            }
        }
    }
    walk::change(query, &mut Relations::default())
}

/// Whether a query reads a table or common table expression of this unqualified name.
pub(super) fn reads(query: &Query, name: &str) -> bool {
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

/// Whether a query body is a set operation that [`plan`] plans.
pub(super) fn is_set_operation(body: &SetExpr) -> bool {
    is_union(body) || compared(body).is_some()
}

fn is_union(body: &SetExpr) -> bool {
    use SetQuantifier::{All, Distinct, None};
    matches!(body, SetExpr::SetOperation { op: SetOperator::Union, set_quantifier: All | Distinct | None, .. })
}

/// Returns the operator of an INTERSECT or EXCEPT without ALL; `None` for other bodies.
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

/// Makes relations of the VALUES that [`values`] plans, in a body that stays as it is or is a set operation that stays.
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

/// Makes a relation of a body that [`plan`] or [`values`] plans. `is_wide`: it has very many columns.
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

/// Builds a derived table without a name. `is_wide`: it has very many columns.
fn derived(body: SetExpr, is_wide: bool) -> TableFactor {
    let mut query = tree::select(Vec::new(), Vec::new());
    *query.body = body;
    tables::derived(if is_wide { wide_marks::marked(query) } else { query }, None)
}

/// Plans a set operation of which [`relations`] has made a relation.
///
/// A tree of UNION ALL becomes one node, so that all of its inputs have one common type. Below a UNION without ALL, any
/// UNION belongs to that node, because the outer one removes duplicates from all of their rows. `is_wide`: there are
/// very many columns.
///
/// # Errors
/// A planning error if the inputs have different numbers of columns or a column has no common type; the errors of
/// planning an input.
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
    /// Returns the plans of a body's inputs: those of all UNIONs that belong to one node, or the body itself.
    /// `distinct`: a UNION without ALL is around the body.
    fn of(&mut self, body: SetExpr, distinct: bool) -> Result<Vec<LogicalPlan>> {
        let mut inputs = Vec::new();
        // An explicit stack instead of recursion, because a query may have thousands of members.
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

/// Builds a UNION ALL node over inputs whose columns it gives common types. A single input stays as it is.
fn union(mut inputs: Vec<LogicalPlan>) -> Result<LogicalPlan> {
    if inputs.len() == 1 {
        return Ok(inputs.swap_remove(0));
    }
    let inputs = of_one_type(SetOperator::Union, inputs)?;
    Ok(LogicalPlan::Union(Union::try_new_with_loose_types(inputs)?))
}

/// Builds an INTERSECT or EXCEPT: each distinct row of the left side that the right side has, or does not have.
fn comparison(op: SetOperator, left: LogicalPlan, right: LogicalPlan) -> Result<LogicalPlan> {
    let sides = of_one_type(op, vec![left, right])?.into_iter().map(|side| {
        // Both sides may read the same table, so columns lose their qualifiers here, as in a UNION.
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

/// Renames columns of an input so that no two have the same name: a UNION removes the qualifiers by which they differ.
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

/// Casts the columns of a set operation's inputs to their common types: the charter's, else DataFusion's. Columns whose
/// inputs declare different SQL types get the type of [`declared`].
///
/// # Errors
/// A planning error if the inputs have different numbers of columns or a column has no common type.
pub(super) fn of_one_type(op: SetOperator, inputs: Vec<LogicalPlan>) -> Result<Vec<Arc<LogicalPlan>>> {
    let width = inputs.first().map_or(0, |input| input.schema().fields().len());
    if inputs.iter().any(|input| input.schema().fields().len() != width) {
        return plan_err!("{op} queries have different number of columns");
    }
    let inputs = packed(inputs.into_iter().map(with_own_names).collect::<Result<Vec<_>>>()?)?;
    let common = |column: usize| {
        let fields = inputs.iter().map(|input| &input.schema().fields()[column]);
        let floats = fields.clone().any(|field| *field.data_type() == DataType::Float32);
        let fields: Vec<FieldRef> = match floats {
            true => inputs.iter().map(|input| counted(input, column)).collect(),
            false => fields.cloned().collect(),
        };
        mixed::common_of_fields(fields.iter())
    };
    let wanted: Vec<Option<DataType>> = (0..width).map(common).collect();
    let fields = |column: usize| inputs.iter().map(move |input| input.schema().field(column));
    let declared: Vec<Option<String>> = (0..width).map(|column| declared(fields(column))).collect();
    let charter = inputs.into_iter().map(|input| {
        let input = with_own_casts(input, &wanted)?;
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

/// Returns the field of a column of an input: a SMALLINT if its value is a literal that is one, so that the common type of
/// a FLOAT and 0 is FLOAT.
fn counted(input: &LogicalPlan, column: usize) -> FieldRef {
    let field = &input.schema().fields()[column];
    let literal = match input {
        LogicalPlan::Projection(projection) => match &projection.expr[column] {
            Expr::Alias(alias) => int_literal(&alias.expr),
            value => int_literal(value),
        },
        _ => None,
    };
    match literal.is_some_and(|n| i16::try_from(n).is_ok()) {
        true => Arc::new(field.as_ref().clone().with_data_type(DataType::Int16)),
        false => Arc::clone(field),
    }
}

/// Makes structs of the columns whose values keep types of their own, where the types of the inputs differ.
fn packed(inputs: Vec<LogicalPlan>) -> Result<Vec<LogicalPlan>> {
    let width = inputs.first().map_or(0, |input| input.schema().fields().len());
    let fields = |column: usize| inputs.iter().map(move |input| input.schema().field(column));
    let kinds = |column: usize| match fields(column).any(|field| apart::is_apart(field)) {
        true => Kinds::of(fields(column).map(|field| field.data_type())),
        false => None,
    };
    let kinds: Vec<Option<Kinds>> = (0..width).map(kinds).collect();
    if kinds.iter().all(Option::is_none) {
        return Ok(inputs);
    }
    let inputs = inputs.into_iter().map(|input| {
        let columns = input.schema().iter().zip(&kinds).map(|((table, field), kinds)| {
            let column = Expr::from((table, field));
            match kinds {
                Some(kinds) => Ok(kinds.part(column, field.data_type())?.alias_qualified(table.cloned(), field.name())),
                None => Ok(column),
            }
        });
        let columns = columns.collect::<Result<Vec<Expr>>>()?;
        LogicalPlanBuilder::from(input).project(columns)?.build()
    });
    inputs.collect()
}

/// Casts the columns of an input for which DataFusion has no cast to the type that is wanted.
fn with_own_casts(input: LogicalPlan, wanted: &[Option<DataType>]) -> Result<LogicalPlan> {
    let schema = Arc::clone(input.schema());
    let is_cast =
        |field: &DataType, wanted: &Option<DataType>| wanted.as_ref().is_some_and(|wanted| is_own_cast(field, wanted));
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

/// Casts the columns of an input to the types of a schema. An input that has them already stays as it is: for a
/// projection, the planner would find each of its columns by comparing names.
fn coerced(input: LogicalPlan, schema: &DFSchema) -> Result<LogicalPlan> {
    let has_types = input.schema().fields().iter().zip(schema.fields()).all(|(a, b)| a.data_type() == b.data_type());
    match has_types {
        true => Ok(input),
        false => coerce_plan_expr_for_schema(input, schema),
    }
}

/// Returns the SQL type that a column of a set operation has to declare; `None` if the inputs need no declaration.
///
/// Inputs of type NULL fit every declaration. If all other inputs agree, their type is returned only if there is a NULL
/// input, which does not carry it. If they differ, the result is the longest VARCHAR for CHAR and VARCHAR with lengths,
/// the DATETIME or TIME with the most digits, else an empty text: no more than the Arrow type.
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
    // DATETIME and TIME without a number have no digits.
    let digits = |name: &str| {
        let of = |text: &Option<String>| match text.as_deref()?.strip_prefix(name)? {
            "" => Some(0),
            digits => digits.strip_prefix('(')?.strip_suffix(')')?.parse::<u8>().ok(),
        };
        all.iter().map(of).collect::<Option<Vec<u8>>>()?.into_iter().max()
    };
    let text = text.or_else(|| digits("datetime").map(|p| SqlType::DateTime(p).to_string()));
    let text = text.or_else(|| digits("time").map(|p| SqlType::Time(p).to_string()));
    Some(text.unwrap_or_default())
}
