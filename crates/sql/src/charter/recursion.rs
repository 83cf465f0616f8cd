//! WITH RECURSIVE: the two parts of a recursive common table expression, and the types of its columns.
//!
//! DataFusion casts the rows of the recursive part to the types of the first part, whatever they lose by it:
//! `SELECT 1 AS x UNION ALL SELECT x / 2 FROM r` would have only whole numbers. It also leaves out ORDER BY and LIMIT of
//! the expression, and refuses parts whose fields differ in metadata. So the UNION becomes a relation of its own, as
//! other set operations do, and [`plan`] plans it: the columns have the common types of both parts, where the recursive
//! part is planned over rows of these same types.

use std::cell::RefCell;
use std::sync::Arc;

use arrow::datatypes::{DECIMAL128_MAX_PRECISION, DECIMAL256_MAX_PRECISION, DataType, Field, FieldRef, Schema};
use datafusion::common::tree_node::{Transformed, TransformedResult, TreeNode, TreeNodeRecursion};
use datafusion::common::{DataFusionError, Result, ScalarValue, TableReference, plan_err};
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::planner::RelationPlannerContext;
use datafusion::logical_expr::{
    ColumnarValue, Expr, LogicalPlan, LogicalPlanBuilder, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF,
    ScalarUDFImpl, Signature, TableSource, Volatility, cast, lit,
};
use dipper_dialect::error::SqlError;
use dipper_dialect::tree;
use dipper_dialect::walk::{self, Change};
use sqlparser::ast::{
    Ident, ObjectName, Query, SelectItem, SetExpr, SetOperator, SetQuantifier, TableAlias, TableFactor, TableWithJoins,
    Values,
};

use super::names::MARK;
use super::{declared, tables, unions};
use crate::metadata::{DIGITS_KEY, TYPE_KEY};

/// Follows the name of an expression in the alias of the relation that [`plan`] plans.
const WHOLE: &str = "recursion";

/// Follows the name of an expression where its recursive part reads the rows of the last step.
const WORKING: &str = "working";

/// How often the types of columns may grow until they hold what the recursive part makes of them. Each step of decimals
/// may add a digit, up to 76.
const TYPES_MAX: usize = 96;

/// The most digits behind the point that decimals get by growing. Each division adds some, and 38 of them would leave no
/// room for digits before the point.
const SCALE_MAX: i8 = 18;

/// Makes a relation of the UNION of a recursive common table expression. `alias`: its name and columns.
///
/// # Errors
/// - 3573 if the expression reads itself and is no UNION.
/// - 3574 if a part that reads the expression comes before one that does not.
/// - 1235 if several parts read the expression.
pub(super) fn relation(query: &mut Query, alias: &TableAlias) -> Result<(), SqlError> {
    let name = &alias.name.value;
    let (first, mut recursive, quantifier) = parts(taken(&mut query.body), name)?;
    recursive = changed(recursive, &mut Reading { name })?;
    let union = SetExpr::SetOperation {
        op: SetOperator::Union,
        set_quantifier: quantifier,
        left: Box::new(first),
        right: Box::new(recursive),
    };
    let marked = TableAlias { name: marked(name, WHOLE), ..alias.clone() };
    let relation = tables::derived(query_of(union), marked);
    let from = TableWithJoins { relation, joins: Vec::new() };
    *query.body = *tree::select(vec![SelectItem::Wildcard(Default::default())], vec![from]).body;
    Ok(())
}

/// Returns the part that does not read the expression, the one that does, and the word between them.
fn parts(body: SetExpr, name: &str) -> Result<(SetExpr, SetExpr, SetQuantifier), SqlError> {
    let shown = super::names::visible(name);
    let error = |code, what: &str| SqlError {
        code,
        sqlstate: "HY000",
        message: format!("recursive common table expression '{shown}' {what}"),
        position: None,
    };
    let (mut first, mut recursive) = (without_parentheses(body), None);
    while let SetExpr::SetOperation { op: SetOperator::Union, set_quantifier, left, right } = first {
        if !unions::reads(&query_of(right.as_ref().clone()), name) {
            return Err(error(3574, "has a part that does not read it after one that does"));
        }
        if recursive.replace((right, set_quantifier)).is_some() {
            let what = format!("recursive common table expression '{shown}' with several parts that read it");
            return Err(SqlError::unsupported(format!("{what} is not supported"), None));
        }
        first = without_parentheses(*left);
        if !unions::reads(&query_of(first.clone()), name) {
            break;
        }
    }
    let Some((recursive, quantifier)) = recursive else {
        return Err(error(3573, "should contain a UNION"));
    };
    if unions::reads(&query_of(first.clone()), name) {
        return Err(error(3574, "should begin with a part that does not read it"));
    }
    Ok((first, *recursive, quantifier))
}

/// Takes parentheses off a body that has nothing else in them.
fn without_parentheses(body: SetExpr) -> SetExpr {
    match body {
        SetExpr::Query(query)
            if query.with.is_none()
                && query.order_by.is_none()
                && query.limit_clause.is_none()
                && query.fetch.is_none() =>
        {
            without_parentheses(*query.body)
        }
        other => other,
    }
}

/// Takes parentheses off the query of an expression, in which the UNION would become a relation as others do.
pub(super) fn bare(query: &mut Query) {
    *query.body = without_parentheses(taken(&mut query.body));
}

fn taken(body: &mut SetExpr) -> SetExpr {
    let empty = SetExpr::Values(Values { explicit_row: false, value_keyword: false, rows: Vec::new() });
    std::mem::replace(body, empty)
}

fn query_of(body: SetExpr) -> Query {
    let mut query = tree::select(Vec::new(), Vec::new());
    *query.body = body;
    query
}

fn changed(body: SetExpr, pass: &mut dyn Change) -> Result<SetExpr, SqlError> {
    let mut query = query_of(body);
    walk::change(&mut query, pass)?;
    Ok(*query.body)
}

fn marked(name: &str, what: &str) -> Ident {
    Ident::with_quote('"', format!("{name}{MARK}{what}"))
}

/// Returns the name before a mark; `None` if the mark is not there.
fn unmarked<'a>(name: &'a str, what: &str) -> Option<&'a str> {
    name.strip_suffix(what)?.strip_suffix(MARK)
}

/// The walk that marks where the recursive part reads the expression.
struct Reading<'a> {
    name: &'a str,
}

impl Change for Reading<'_> {
    fn table_factor(&mut self, factor: &mut TableFactor) -> Result<(), SqlError> {
        if let TableFactor::Table { name, alias, args: None, .. } = factor
            && let [part] = name.0.as_slice()
            && let Some(written) = part.as_ident().filter(|ident| ident.value == self.name).cloned()
        {
            *name = ObjectName::from(vec![marked(self.name, WORKING)]);
            alias.get_or_insert_with(|| tree::alias(written));
        }
        Ok(())
    }
}

/// Whether [`relation`] has given a derived table this alias.
pub(super) fn is_whole(alias: &TableAlias) -> bool {
    unmarked(&alias.name.value, WHOLE).is_some()
}

thread_local! {
    /// The rows of the last step of each recursion that is being planned, innermost last: relation planners get only
    /// the names of tables.
    static STEPS: RefCell<Vec<(String, LogicalPlan)>> = const { RefCell::new(Vec::new()) };
}

/// Plans with the rows of the last step at hand for [`working`].
fn with_step<T>(name: &str, rows: LogicalPlan, plan: impl FnOnce() -> T) -> T {
    /// Takes the rows away again, also after a panic.
    struct Entered;
    impl Drop for Entered {
        fn drop(&mut self) {
            STEPS.with_borrow_mut(|steps| steps.pop());
        }
    }
    STEPS.with_borrow_mut(|steps| steps.push((name.to_string(), rows)));
    let _entered = Entered;
    plan()
}

/// Returns the plan of the rows of the last step, if a name means them.
pub(super) fn working(name: &ObjectName) -> Option<LogicalPlan> {
    let [part] = name.0.as_slice() else { return None };
    let name = unmarked(&part.as_ident()?.value, WORKING)?;
    STEPS.with_borrow(|steps| steps.iter().rev().find(|(step, _)| step == name).map(|(_, rows)| rows.clone()))
}

/// Plans the relation that [`relation`] has made.
///
/// # Errors
/// A planning error if the parts have different numbers of columns, if a column has no common type, or one that grows
/// with each step; 1235 if the recursive part reads the expression only in subqueries; the errors of planning the parts.
pub(super) fn plan(
    subquery: Query,
    alias: &TableAlias,
    context: &mut dyn RelationPlannerContext,
) -> Result<LogicalPlan> {
    let name = unmarked(&alias.name.value, WHOLE).unwrap_or(&alias.name.value);
    let shown = super::names::visible(name);
    let SetExpr::SetOperation { left, right, set_quantifier, .. } = *subquery.body else {
        return plan_err!("recursive common table expression '{shown}' is no UNION");
    };
    let first = context.plan(tables::derived(query_of(*left), None))?;
    let first = named(first, alias)?;
    let known = texts(&[Arc::new(first.clone())])?;
    let of_first = first.schema().fields().iter().zip(&known);
    let mut columns = of_first.map(|(field, text)| column(field, text.as_deref())).collect::<Vec<_>>();
    let relation = tables::derived(query_of(*right), None);
    for _ in 0..TYPES_MAX {
        let schema = Arc::new(Schema::new(columns.clone()));
        let source = context.context_provider().create_cte_work_table(name, schema)?;
        let rows = LogicalPlanBuilder::scan(TableReference::bare(name), Arc::clone(&source), None)?.build()?;
        let next = with_step(name, rows.clone(), || context.plan(relation.clone()))?;
        if !reads(&next, &source)? {
            let what = format!("recursive common table expression '{shown}' that reads itself only in a subquery");
            return Err(DataFusionError::External(Box::new(SqlError::unsupported(
                format!("{what} is not supported"),
                None,
            ))));
        }
        let parts = unions::of_one_type(SetOperator::Union, vec![first.clone(), rows, next])?;
        let texts = texts(&parts)?;
        let common = parts[0].schema().fields().iter().zip(&columns).zip(&texts);
        let found: Vec<FieldRef> = common
            .map(|((field, known), text)| {
                let data_type = grown(field.data_type(), known.data_type());
                column(&Field::new(known.name(), data_type, true), text.as_deref())
            })
            .collect();
        if found != columns {
            columns = found;
            continue;
        }
        let [first, _, next] = parts.as_slice() else { return plan_err!("a recursion has two parts") };
        let first = declaring(first, &columns, &texts)?;
        let next = declaring(next, &columns, &texts)?;
        let is_distinct = set_quantifier != SetQuantifier::All;
        return LogicalPlanBuilder::from(first).to_recursive_query(name.to_string(), next, is_distinct)?.build();
    }
    plan_err!(
        "the types of the columns of the recursive common table expression '{shown}' grow with each step: CAST them to one type in its recursive part"
    )
}

/// Returns the type of a column of type `known` that has to hold values of type `wanted`: decimals do not grow beyond
/// [`SCALE_MAX`] digits behind the point.
fn grown(wanted: &DataType, known: &DataType) -> DataType {
    let (DataType::Decimal128(digits, scale) | DataType::Decimal256(digits, scale)) = *wanted else {
        return wanted.clone();
    };
    let least = match known {
        DataType::Decimal128(_, scale) | DataType::Decimal256(_, scale) => *scale,
        _ => 0,
    };
    let kept = scale.min(least.max(SCALE_MAX));
    if kept == scale {
        return wanted.clone();
    }
    let digits = (i16::from(digits) - i16::from(scale) + i16::from(kept)).max(1);
    match digits <= i16::from(DECIMAL128_MAX_PRECISION) {
        true => DataType::Decimal128(digits as u8, kept),
        false => DataType::Decimal256(digits.min(i16::from(DECIMAL256_MAX_PRECISION)) as u8, kept),
    }
}

/// Gives the columns of the first part the names in the alias, and takes the qualifiers off.
fn named(first: LogicalPlan, alias: &TableAlias) -> Result<LogicalPlan> {
    let width = first.schema().fields().len();
    if !alias.columns.is_empty() && alias.columns.len() != width {
        return plan_err!("'{}' names {} columns, and its query has {width}", alias.name.value, alias.columns.len());
    }
    let columns = first.schema().iter().enumerate().map(|(at, (table, field))| {
        let name = alias.columns.get(at).map_or(field.name(), |column| &column.name.value);
        Expr::from((table, field)).alias(name)
    });
    let columns: Vec<Expr> = columns.collect();
    LogicalPlanBuilder::from(first).project(columns)?.build()
}

/// Returns the SQL type in the metadata of a field; `None` if it says nothing beyond the Arrow type.
fn said(field: &Field) -> Option<&str> {
    let text = |key: &str| field.metadata().get(key).map(String::as_str).filter(|text| !text.is_empty());
    text(TYPE_KEY).or_else(|| text(DIGITS_KEY))
}

/// Returns the field of a column that any step may make NULL.
fn column(field: &Field, text: Option<&str>) -> FieldRef {
    let plain = Field::new(field.name(), field.data_type().clone(), true);
    match text {
        Some(text) => declared::with_text(&plain, text.to_string()),
        None => Arc::new(plain),
    }
}

/// Returns the SQL type that each column declares, from those of all parts.
fn texts(parts: &[Arc<LogicalPlan>]) -> Result<Vec<Option<String>>> {
    // The last analyzer rule finds the digits of DATETIME, which come too late here.
    let settled = parts.iter().map(|part| {
        let part = Arc::clone(part);
        Arc::unwrap_or_clone(part).transform_up(|node| declared::schema(node).map(Transformed::yes)).data()
    });
    let settled = settled.collect::<Result<Vec<_>>>()?;
    let width = parts.first().map_or(0, |part| part.schema().fields().len());
    let told = |at: usize| declared::common_text(settled.iter().map(|part| declared::said(part.schema().field(at))));
    let of = |at: usize| match told(at) {
        Some(text) => Some(text),
        None if declared::holds_digits(parts[0].schema().field(at).data_type()) => None,
        None => {
            let mut all = parts.iter().map(|part| said(part.schema().field(at)));
            let first = all.next().flatten()?;
            all.all(|text| text == Some(first)).then(|| first.to_string())
        }
    };
    Ok((0..width).map(of).collect())
}

/// Whether a plan reads the rows of the last step outside of subqueries.
fn reads(plan: &LogicalPlan, source: &Arc<dyn TableSource>) -> Result<bool> {
    let mut found = false;
    plan.apply(|node| {
        found |= matches!(node, LogicalPlan::TableScan(scan) if Arc::ptr_eq(&scan.source, source));
        Ok(if found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    Ok(found)
}

/// Gives a part the fields of the recursion: DataFusion refuses parts that differ in metadata. Decimals with more digits
/// behind the point are rounded.
fn declaring(part: &Arc<LogicalPlan>, columns: &[FieldRef], texts: &[Option<String>]) -> Result<LogicalPlan> {
    let udf = Arc::new(ScalarUDF::new_from_impl(Declared { signature: Signature::any(2, Volatility::Immutable) }));
    let items = part.schema().iter().zip(columns).zip(texts).map(|(((table, field), column), text)| {
        let value = Expr::from((table, field));
        let value = match field.data_type() == column.data_type() {
            true => value,
            false => cast(value, column.data_type().clone()),
        };
        let args = vec![value, lit(text.as_deref().unwrap_or_default())];
        Expr::ScalarFunction(ScalarFunction::new_udf(Arc::clone(&udf), args)).alias(column.name())
    });
    let items: Vec<Expr> = items.collect();
    LogicalPlanBuilder::from(Arc::clone(part)).project(items)?.build()
}

/// A function that returns its first argument, which may be NULL, with the SQL type in its second argument as the only
/// metadata.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Declared {
    signature: Signature,
}

impl ScalarUDFImpl for Declared {
    fn name(&self) -> &str {
        "dipper_step"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        Ok(types.first().cloned().unwrap_or(DataType::Null))
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        let value = &args.arg_fields[0];
        let text = args.scalar_arguments.get(1).copied().flatten().and_then(ScalarValue::try_as_str).flatten();
        let field = Field::new(self.name(), value.data_type().clone(), true);
        Ok(column(&field, text.filter(|text| !text.is_empty())))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        Ok(args.args.into_iter().next().unwrap_or(ColumnarValue::Scalar(ScalarValue::Null)))
    }
}
