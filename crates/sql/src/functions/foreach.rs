//! `_foreach` behind the name of an aggregate: the aggregate of each position of arrays.
//!
//! `sum_foreach([1, 2])` and `sum_foreach([3])` are `[4, 2]`: the first elements are summed, and the second ones. The
//! result is as long as the longest array, and NULL if there is none. Of several arguments the arrays of a row must
//! have one length. A partial state is, for each field of the aggregate's own state, the array of the positions'
//! values.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, ListArray, UInt64Array, new_null_array};
use arrow::buffer::OffsetBuffer;
use arrow::compute::take;
use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::{Result, ScalarValue, exec_err, internal_err, plan_err};
use datafusion::execution::FunctionRegistry;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::type_coercion::functions::fields_with_udf;
use datafusion::logical_expr::{Accumulator, AggregateUDF, AggregateUDFImpl, Signature, Volatility};

use super::moving::{Maker, moving};
use crate::type_text::Sql;

/// The end of the name.
const SUFFIX: &str = "_foreach";

/// Aggregates whose further arguments are constants, which an array is not; as in Doris.
const NOT_OF_ARRAYS: [&str; 6] = [
    "percentile",
    "percentile_array",
    "percentile_approx",
    "percentile_approx_weighted",
    "percentile_cont",
    "percentile_reservoir",
];

/// Returns the name of the aggregate whose form for arrays this is.
pub(super) fn of_arrays(called: &str) -> Option<&str> {
    called.strip_suffix(SUFFIX).filter(|name| !name.is_empty() && !NOT_OF_ARRAYS.contains(name))
}

/// Registers the form for arrays of each aggregate of the registry, under each of the aggregate's names.
///
/// # Errors
/// The registry's error if it refuses a function.
pub(super) fn register(registry: &mut dyn FunctionRegistry) -> Result<()> {
    for called in registry.udafs() {
        let name = format!("{called}{SUFFIX}");
        if of_arrays(&name).is_none() || of_arrays(&called).is_some() {
            continue;
        }
        let inner = registry.udaf(&called)?;
        let signature = Signature::user_defined(Volatility::Immutable);
        registry.register_udaf(Arc::new(AggregateUDF::new_from_impl(Foreach { name, inner, signature })))?;
    }
    Ok(())
}

/// An aggregate of each position.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Foreach {
    name: String,
    inner: Arc<AggregateUDF>,
    signature: Signature,
}

/// Returns the type of the elements of an array; that of a NULL is NULL.
fn element(name: &str, t: &DataType) -> Result<FieldRef> {
    let element = match t {
        DataType::List(field) | DataType::LargeList(field) | DataType::FixedSizeList(field, _) => field.data_type(),
        DataType::Null => &DataType::Null,
        other => return plan_err!("{name} takes arrays, found {}", Sql(other)),
    };
    Ok(Arc::new(Field::new_list_field(element.clone(), true)))
}

fn list_of(field: &Field) -> DataType {
    DataType::List(Arc::new(Field::new_list_field(field.data_type().clone(), true)))
}

impl Foreach {
    fn elements<'a>(&self, types: impl IntoIterator<Item = &'a DataType>) -> Result<Vec<FieldRef>> {
        types.into_iter().map(|t| element(&self.name, t)).collect()
    }
}

impl AggregateUDFImpl for Foreach {
    fn name(&self) -> &str {
        &self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        if types.is_empty() {
            return plan_err!("{} takes arrays, found no arguments", self.name);
        }
        let elements = fields_with_udf(&self.elements(types)?, self.inner.as_ref())?;
        Ok(elements.iter().map(|field| list_of(field)).collect())
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        Ok(list_of(self.inner.return_field(&self.elements(types)?)?.as_ref()))
    }

    fn state_fields(&self, args: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        if args.is_distinct {
            return plan_err!("{} has no form with DISTINCT", self.name);
        }
        let elements = self.elements(args.input_fields.iter().map(|field| field.data_type()))?;
        let inner = self.inner.state_fields(StateFieldsArgs {
            name: args.name,
            return_field: self.inner.return_field(&elements)?,
            input_fields: &elements,
            ordering_fields: args.ordering_fields,
            is_distinct: false,
        })?;
        Ok(inner.iter().map(|field| Arc::new(Field::new(field.name(), list_of(field), true)) as FieldRef).collect())
    }

    fn accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        let elements = self.elements(args.expr_fields.iter().map(|field| field.data_type()))?;
        let result = self.inner.return_field(&elements)?;
        let returns = result.data_type().clone();
        let one = AccumulatorArgs { return_field: result, expr_fields: &elements, ..args };
        Ok(Box::new(Positions {
            name: self.name.clone(),
            maker: Maker::new(&self.inner, &one),
            returns,
            positions: Vec::new(),
            any: false,
        }))
    }

    fn create_sliding_accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        Ok(moving(&Arc::new(AggregateUDF::new_from_impl(self.clone())), &args))
    }
}

/// An accumulator for each position.
#[derive(Debug)]
struct Positions {
    name: String,
    maker: Maker,
    returns: DataType,
    positions: Vec<Box<dyn Accumulator>>,
    /// Whether an array has come, be it empty.
    any: bool,
}

impl Positions {
    /// Calls `add` with each position and the elements that stand there in the arrays, of all rows whose arrays are
    /// long enough. `lists` are the arrays of the arguments, or the fields of states.
    fn each(
        &mut self,
        lists: &[&ListArray],
        mut add: impl FnMut(&mut dyn Accumulator, &[ArrayRef]) -> Result<()>,
    ) -> Result<()> {
        let Some(first) = lists.first() else { return Ok(()) };
        let mut rows = Vec::with_capacity(first.len());
        for row in 0..first.len() {
            if lists.iter().any(|list| list.is_null(row)) {
                continue;
            }
            let length = first.value_length(row);
            if let Some(other) = lists.iter().find(|list| list.value_length(row) != length) {
                return exec_err!(
                    "{}: the arrays of a row must have one length, found {length} and {}",
                    self.name,
                    other.value_length(row)
                );
            }
            self.any = true;
            rows.push((row, length as usize));
        }
        let longest = rows.iter().map(|(_, length)| *length).max().unwrap_or(0);
        while self.positions.len() < longest {
            self.positions.push(self.maker.make()?);
        }
        for (at, position) in self.positions.iter_mut().enumerate().take(longest) {
            let there = rows.iter().filter(|(_, length)| *length > at);
            let places = |list: &ListArray| -> UInt64Array {
                there.clone().map(|(row, _)| (list.value_offsets()[*row] as usize + at) as u64).collect()
            };
            let columns = lists.iter().map(|list| Ok(take(list.values(), &places(list), None)?));
            add(position.as_mut(), &columns.collect::<Result<Vec<_>>>()?)?;
        }
        Ok(())
    }

    /// Returns a list of one array: the value of each position.
    fn list(&self, values: Vec<ScalarValue>, of: &DataType) -> Result<ScalarValue> {
        if !self.any {
            return ScalarValue::try_new_null(&list_of(&Field::new("item", of.clone(), true)));
        }
        let length = values.len();
        let values = match length {
            0 => new_null_array(of, 0),
            _ => ScalarValue::iter_to_array(values)?,
        };
        let field = Arc::new(Field::new_list_field(of.clone(), true));
        let list = ListArray::try_new(field, OffsetBuffer::from_lengths([length]), values, None)?;
        Ok(ScalarValue::List(Arc::new(list)))
    }
}

/// Returns the arguments as arrays; a column of NULL has no arrays.
fn lists<'a>(name: &str, columns: &'a [ArrayRef]) -> Result<Vec<&'a ListArray>> {
    let list = |column: &'a ArrayRef| match column.as_list_opt::<i32>() {
        Some(list) => Ok(list),
        None => internal_err!("{name}: expected arrays, found {}", column.data_type()),
    };
    columns.iter().map(list).collect()
}

impl Accumulator for Positions {
    fn update_batch(&mut self, columns: &[ArrayRef]) -> Result<()> {
        let lists = lists(&self.name, columns)?;
        self.each(&lists, |position, values| position.update_batch(values))
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        let lists = lists(&self.name, states)?;
        self.each(&lists, |position, values| position.merge_batch(values))
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let states = self.positions.iter_mut().map(|position| position.state()).collect::<Result<Vec<_>>>()?;
        let empty = self.maker.make()?.state()?;
        (0..empty.len())
            .map(|at| {
                let values = states.iter().map(|state| state[at].clone()).collect();
                self.list(values, &empty[at].data_type())
            })
            .collect()
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let values = self.positions.iter_mut().map(|position| position.evaluate()).collect::<Result<Vec<_>>>()?;
        self.list(values, &self.returns.clone())
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.positions.iter().map(|position| position.size()).sum::<usize>()
    }
}
