//! An aggregate function whose states are values, with the types of its arguments.
//!
//! A state is:
//!
//! ```text
//! offset  bytes
//!      0      1  version of this form, 1
//!      1      4  mark of the function: the lowest bytes of the XXH3 hash of its name, the types of its arguments and
//!                those of the fields of its state
//!      5         the constants of the call, such as the share of PERCENTILE; then the fields of the state: values as
//!                in `codec.rs`
//! ```
//!
//! The mark tells states of other functions apart, and states that a build with another form of the function's state
//! has written: neither is ever read as something else. The fields are those that the function's accumulator gives to
//! the one that merges states.

use std::cmp::Ordering;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BinaryViewArray};
use arrow::compute::cast;
use arrow::datatypes::{DataType, Field, FieldRef, Float64Type, Schema, SchemaRef, UInt64Type};
use datafusion::common::{Result, ScalarValue, exec_err, plan_err};
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::type_coercion::functions::fields_with_udf;
use datafusion::logical_expr::{Accumulator, AggregateUDF};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::{Column, Literal};
use dipper_base::sketch::hash_bytes;
use dipper_base::types::{SqlType, StateArgument, StateType};
use dipper_dialect::parser::parse_type;

use super::codec::{Reader, Writer, take};
use crate::functions::aggregate::returns_its_input;
use crate::functions::names;
use crate::functions::rewrite::GROUP_CONCAT_SEPARATOR;
use crate::metadata::TYPE_KEY;
use crate::type_text::{Sql, type_text};

/// The version of the form of states.
const VERSION: u8 = 1;

/// The functions whose states are digests of numbers.
const DIGESTS: [&str; 3] = ["approx_percentile_cont", "approx_percentile_cont_with_weight", "approx_median"];

/// The largest number of centroids of a digest.
const CENTROIDS: u64 = 1 << 20;

/// Bytes before the constants and fields.
const HEAD: usize = 5;

/// Returns the number of the first argument of a function that its accumulator takes from the call instead of the rows.
/// A state has these arguments, because what merges it has no such call.
fn first_constant(function: &str) -> Option<usize> {
    match function {
        "percentile_cont" | "approx_percentile_cont" | "string_agg" => Some(1),
        "approx_percentile_cont_with_weight" => Some(2),
        _ => None,
    }
}

/// Returns the type of the states of a function for arguments of these fields.
///
/// # Errors
/// `Plan` for arguments whose types columns cannot have.
pub(super) fn state_type(function: &str, fields: &[FieldRef]) -> Result<StateType> {
    let argument = |field: &FieldRef| {
        let data_type = match field.data_type() {
            DataType::Null => SqlType::TinyInt,
            t => match parse_type(&type_text(field)) {
                Ok(declared) if declared.to_arrow().equals_datatype(t) => declared,
                Ok(_) | Err(_) => match parse_type(&type_text(&Field::new("", t.clone(), true))) {
                    Ok(plain) => plain,
                    Err(_) => return plan_err!("{function}_state does not take values of type {}", Sql(t)),
                },
            },
        };
        Ok(StateArgument { data_type, nullable: field.is_nullable() })
    };
    Ok(StateType { function: function.to_string(), arguments: fields.iter().map(argument).collect::<Result<_>>()? })
}

/// Returns the function of the states that a field holds; `None` if it holds others than states.
pub(super) fn states_of(field: &Field) -> Option<StateType> {
    match parse_type(field.metadata().get(TYPE_KEY)?) {
        Ok(SqlType::AggState(of)) => Some(of),
        _ => None,
    }
}

/// An aggregate function whose states are values.
#[derive(Debug, Clone)]
pub(super) struct Stated {
    /// How the statement calls the function.
    called: String,
    function: Arc<AggregateUDF>,
    is_distinct: bool,
    ignore_nulls: bool,
    /// The arguments as the function takes them.
    arguments: Vec<FieldRef>,
    /// The values of the last arguments, which the call leaves out.
    left_out: Vec<ScalarValue>,
    /// The number of the first argument that is a constant.
    constants: usize,
    schema: SchemaRef,
    returns: FieldRef,
    fields: Vec<FieldRef>,
    mark: [u8; 4],
}

impl Stated {
    /// Finds the function, and its types for these arguments.
    ///
    /// # Errors
    /// `Plan` if there is no such function, if it does not take such arguments, or if its states cannot be written.
    pub(super) fn new(of: &StateType) -> Result<Self> {
        let called = of.function.as_str();
        let given = of.arguments.len();
        // What the parser makes of a plain call of the name.
        let (name, is_distinct, ignore_nulls) = match called {
            "collect_list" | "group_array" if given == 1 => ("array_agg", false, true),
            "collect_set" | "group_uniq_array" if given == 1 => ("array_agg", true, true),
            name => (name, false, false),
        };
        let Some(function) = names::aggregate(name) else {
            return plan_err!("there is no aggregate function {called}");
        };
        let left_out: Vec<ScalarValue> = match called {
            "group_concat" if given == 1 => vec![ScalarValue::Utf8View(Some(GROUP_CONCAT_SEPARATOR.to_string()))],
            _ => Vec::new(),
        };
        let field = |(at, StateArgument { data_type, .. }): (usize, &StateArgument)| {
            let field = Field::new(format!("c{at}"), data_type.to_arrow(), true);
            Arc::new(match data_type {
                // Also the type of those whose digits nothing says, which are shown as far as there are any.
                SqlType::DateTime(6) | SqlType::Time(6) => field,
                other => field.with_metadata([(TYPE_KEY.to_string(), other.to_string())].into()),
            }) as FieldRef
        };
        let mut arguments: Vec<FieldRef> = of.arguments.iter().enumerate().map(field).collect();
        arguments.extend(left_out.iter().map(|value| Arc::new(Field::new("", value.data_type(), true)) as FieldRef));
        let taken = fields_with_udf(&arguments, function.as_ref())?;
        // A converted argument is not of the declared type any more.
        let arguments: Vec<FieldRef> = (arguments.iter().zip(taken))
            .map(|(given, taken)| match given.data_type() == taken.data_type() {
                true => taken,
                false => Arc::new(Field::new(given.name(), taken.data_type().clone(), true)),
            })
            .collect();
        let returns = function.return_field(&arguments)?;
        let returns = match (arguments.first(), returns.metadata().contains_key(TYPE_KEY)) {
            (Some(first), false) if returns_its_input(name) && first.data_type() == returns.data_type() => {
                Arc::new(returns.as_ref().clone().with_metadata(first.metadata().clone()))
            }
            _ => returns,
        };
        let fields = function.state_fields(StateFieldsArgs {
            name: called,
            input_fields: &arguments,
            return_field: Arc::clone(&returns),
            ordering_fields: &[],
            is_distinct,
        })?;
        let constants = first_constant(function.name()).unwrap_or(usize::MAX).min(arguments.len());
        for field in arguments[constants..].iter().chain(&fields) {
            Reader::new(field.data_type())?;
        }
        let types = |fields: &[FieldRef]| {
            fields.iter().map(|field| Sql(field.data_type()).to_string()).collect::<Vec<_>>().join(",")
        };
        let distinct = if is_distinct { " distinct" } else { "" };
        let text = format!("{}{distinct}({})({})", function.name(), types(&arguments), types(&fields));
        let [mark @ .., _, _, _, _] = hash_bytes(text.as_bytes()).to_le_bytes();
        Ok(Stated {
            called: called.to_string(),
            function,
            is_distinct,
            ignore_nulls,
            schema: Arc::new(Schema::new(arguments.clone())),
            arguments,
            left_out,
            constants,
            returns,
            fields,
            mark,
        })
    }

    /// How the statement calls the function.
    pub(super) fn called(&self) -> &str {
        &self.called
    }

    /// The arguments as the function takes them.
    pub(super) fn arguments(&self) -> &[FieldRef] {
        &self.arguments
    }

    /// The values of the last arguments, which the call leaves out.
    pub(super) fn left_out(&self) -> &[ScalarValue] {
        &self.left_out
    }

    /// The result of the function.
    pub(super) fn returns(&self) -> &FieldRef {
        &self.returns
    }

    /// Whether states have constants of the call, without which nothing can be made.
    pub(super) fn has_constants(&self) -> bool {
        self.constants < self.arguments.len()
    }

    /// Whether states of the other function can be read as those of this one.
    pub(super) fn has_states_of(&self, other: &Stated) -> bool {
        self.mark == other.mark
    }

    /// Returns an accumulator without rows.
    ///
    /// # Errors
    /// Those of the function, such as for a share of PERCENTILE above 1.
    pub(super) fn accumulator(&self, constants: &[ScalarValue]) -> Result<Box<dyn Accumulator>> {
        let exprs: Vec<Arc<dyn PhysicalExpr>> = (self.arguments.iter().enumerate())
            .map(|(at, field)| match at.checked_sub(self.constants).and_then(|at| constants.get(at)) {
                Some(value) => Arc::new(Literal::new(value.clone())) as Arc<dyn PhysicalExpr>,
                None => Arc::new(Column::new(field.name(), at)),
            })
            .collect();
        self.function.accumulator(AccumulatorArgs {
            return_field: Arc::clone(&self.returns),
            schema: &self.schema,
            ignore_nulls: self.ignore_nulls,
            order_bys: &[],
            is_reversed: false,
            name: &self.called,
            is_distinct: self.is_distinct,
            exprs: &exprs,
            expr_fields: &self.arguments,
        })
    }

    /// Returns the constants of a row of the arguments.
    ///
    /// # Errors
    /// DataFusion's error for a type that has no single values.
    pub(super) fn constants_at(&self, row: usize, columns: &[ArrayRef]) -> Result<Vec<ScalarValue>> {
        columns[self.constants..].iter().map(|column| ScalarValue::try_from_array(column, row)).collect()
    }

    /// Returns the state of an accumulator as bytes.
    ///
    /// # Errors
    /// Those of the accumulator.
    pub(super) fn write(&self, constants: &[ScalarValue], accumulator: &mut dyn Accumulator) -> Result<Vec<u8>> {
        let state = accumulator.state()?;
        let types = self.arguments[self.constants..].iter().chain(&self.fields).map(|field| field.data_type());
        let mut out = Vec::with_capacity(HEAD + 16);
        out.push(VERSION);
        out.extend_from_slice(&self.mark);
        for (value, of) in constants.iter().chain(&state).zip(types) {
            let array = value.to_array()?;
            let array = match array.data_type().equals_datatype(of) {
                true => array,
                false => cast(&array, of)?,
            };
            Writer::new(&array)?.write(0, &mut out);
        }
        Ok(out)
    }

    /// Reads states that are not NULL.
    ///
    /// # Errors
    /// `Execution` if one of them is no state of the function, or has other constants than another one.
    pub(super) fn read<'a>(&self, states: impl Iterator<Item = &'a [u8]>) -> Result<States> {
        let types = self.arguments[self.constants..].iter().chain(&self.fields).map(|field| field.data_type());
        let mut readers = types.map(Reader::new).collect::<Result<Vec<_>>>()?;
        for state in states {
            self.read_one(state, &mut readers)?;
        }
        let mut columns = readers.into_iter().map(Reader::finish).collect::<Result<Vec<_>>>()?;
        let fields = columns.split_off(self.arguments.len() - self.constants);
        let rows = fields.first().map_or(0, |field| field.len());
        self.check_fields(&fields)?;
        let mut constants: Option<Vec<ScalarValue>> = None;
        let asked = if self.has_constants() { rows } else { 0 };
        for row in 0..asked {
            let found = columns.iter().map(|column| ScalarValue::try_from_array(column, row));
            let found = found.collect::<Result<Vec<_>>>()?;
            self.check_constants(constants.as_deref(), &found)?;
            constants = Some(found);
        }
        Ok(States { constants: constants.unwrap_or_default(), fields, rows })
    }

    /// Refuses fields that the function would take for granted.
    fn check_fields(&self, fields: &[ArrayRef]) -> Result<()> {
        let fail = |what: &str| exec_err!("no state of {}: {what}", self.called);
        let is_lost = |(field, values): (&FieldRef, &ArrayRef)| !field.is_nullable() && values.logical_null_count() > 0;
        if self.fields.iter().zip(fields).any(is_lost) {
            return fail("a part of it is NULL");
        }
        // The function gets room for as many centroids as the state says, and reads them in pairs.
        let is_digest = DIGESTS.contains(&self.function.name());
        let ([sizes, _, _, most, least, centroids], true) = (fields, is_digest) else { return Ok(()) };
        let number = |values: &ArrayRef, row: usize| values.as_primitive::<Float64Type>().value(row);
        for (row, size) in sizes.as_primitive::<UInt64Type>().values().iter().enumerate() {
            let is_range = number(most, row).partial_cmp(&number(least, row)) != Some(Ordering::Less);
            if *size > CENTROIDS || !is_range || centroids.as_list::<i32>().value_length(row) % 2 != 0 {
                return fail("which is no digest");
            }
        }
        Ok(())
    }

    /// Refuses states of one call beside those of a call with other constants.
    ///
    /// # Errors
    /// `Execution` if the constants are not those that are known.
    pub(super) fn check_constants(&self, known: Option<&[ScalarValue]>, found: &[ScalarValue]) -> Result<()> {
        let text = |values: &[ScalarValue]| values.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
        match known {
            Some(known) if known != found => exec_err!(
                "states of {} that were made with ({}) and with ({}) cannot be merged",
                self.called,
                text(known),
                text(found)
            ),
            _ => Ok(()),
        }
    }

    fn read_one<'a>(&self, mut bytes: &'a [u8], readers: &mut [Reader<'a>]) -> Result<()> {
        let size = bytes.len();
        let fail = |what: &str| exec_err!("no state of {}: {size} bytes, {what}", self.called);
        match take(&mut bytes, HEAD) {
            Ok([VERSION, mark @ ..]) if mark == self.mark => {}
            Ok([VERSION, ..]) => return fail("which are those of another function or of other types"),
            _ => return fail("which do not begin as a state does"),
        }
        for reader in readers {
            if let Err(e) = reader.read(&mut bytes) {
                return fail(&e.message());
            }
        }
        match bytes {
            [] => Ok(()),
            _ => fail("with something behind its end"),
        }
    }
}

/// States that have been read.
pub(super) struct States {
    /// The constants of their calls.
    pub(super) constants: Vec<ScalarValue>,
    /// The fields of the states, as they are merged.
    pub(super) fields: Vec<ArrayRef>,
    /// The number of states.
    pub(super) rows: usize,
}

/// Returns bytes of each row as values.
pub(super) fn column(rows: &[Vec<u8>]) -> ArrayRef {
    Arc::new(BinaryViewArray::from_iter_values(rows))
}
