//! `_state`, `_merge` and `_union` behind the name of an aggregate: its partial states as values of type AGG_STATE.
//!
//! | function | kind | result |
//! |---|---|---|
//! | `sum_state(x)` | scalar | the state of one row |
//! | `sum_merge(s)` | aggregate | the value of the rows of all states |
//! | `sum_union(s)` | aggregate | the state of the rows of all states |
//!
//! A state of a row that the function ignores, such as a NULL, is a state of no rows. NULL is no state, and is ignored.
//! `stated.rs` has the form of states in bytes. Values of type AGG_STATE are bytes whose field names the function
//! and the types of its arguments; expressions that lose this name, such as CASE, give bytes that no function takes.

mod codec;
mod merge;
mod stated;
mod typed;

use std::sync::Arc;

use arrow::array::ArrayRef;
use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::{Result, ScalarValue, internal_err, plan_err};
use datafusion::execution::FunctionRegistry;
use datafusion::logical_expr::{
    ColumnarValue, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use dipper_base::types::{SqlType, StateType};

use super::datetime::Zone;
use super::names;
use super::still_wanted;
use crate::charter::casts::cast_values_in;
use crate::metadata::TYPE_KEY;
use stated::{Stated, column, state_type};

pub use merge::{reader, union_of};
pub use typed::in_query as arguments_in_query;

/// The ends of names.
const STATE: &str = "_state";
const MERGE: &str = "_merge";
const UNION: &str = "_union";

/// The rows between two looks whether somebody still waits.
const ROWS_BETWEEN_LOOKS: usize = 1024;

/// What the end of a name makes of an aggregate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Combined {
    /// `_state`, a scalar function.
    State,
    /// `_merge` and `_union`, aggregates.
    Aggregate,
}

/// Returns what a name makes of which aggregate, if it is the name of an aggregate with one of the ends.
pub(super) fn combined(called: &str) -> Option<(Combined, &str)> {
    let ends = [(STATE, Combined::State), (MERGE, Combined::Aggregate), (UNION, Combined::Aggregate)];
    let (kind, name) = ends.into_iter().find_map(|(end, kind)| Some((kind, called.strip_suffix(end)?)))?;
    // Some aggregates have such a name themselves: GROUP_ARRAY_UNION.
    (names::aggregate(name).is_some() && names::aggregate(called).is_none()).then_some((kind, name))
}

/// Returns the aggregate in the name of a function that makes its states.
pub(crate) fn made_by(called: &str) -> Option<&str> {
    combined(called).filter(|(kind, _)| *kind == Combined::State).map(|(_, name)| name)
}

/// Registers the three functions for each name of an aggregate of the registry.
///
/// # Errors
/// The registry's error if it refuses a function.
pub(super) fn register(registry: &mut dyn FunctionRegistry) -> Result<()> {
    for called in registry.udafs() {
        let state = format!("{called}{STATE}");
        if combined(&state).is_none() || dipper_dialect::internal::is_internal(&called) {
            continue;
        }
        let signature = Signature::user_defined(Volatility::Immutable);
        let function = State { name: state, function: called.clone(), signature };
        registry.register_udf(Arc::new(ScalarUDF::new_from_impl(function)))?;
        for (end, unites) in [(MERGE, false), (UNION, true)] {
            let name = format!("{called}{end}");
            if combined(&name).is_some() {
                registry.register_udaf(merge::udaf(name, &called, unites))?;
            }
        }
    }
    Ok(())
}

/// Returns the field of states.
fn state_field(name: &str, of: StateType, nullable: bool) -> FieldRef {
    let metadata = [(TYPE_KEY.to_string(), SqlType::AggState(of).to_string())].into();
    Arc::new(Field::new(name, DataType::BinaryView, nullable).with_metadata(metadata))
}

/// The state of each row.
#[derive(Debug, PartialEq, Eq, Hash)]
struct State {
    name: String,
    /// The aggregate, as the statement calls it.
    function: String,
    signature: Signature,
}

impl ScalarUDFImpl for State {
    fn name(&self) -> &str {
        &self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    /// Leaves the arguments as they are, because the type of the state names their types.
    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        match types {
            [] => plan_err!("{} takes the arguments of {}, found none", self.name, self.function),
            types => Ok(types.to_vec()),
        }
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        internal_err!("{}: the type of a state follows from fields", self.name)
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        let of = state_type(&self.function, args.arg_fields)?;
        Stated::new(&of)?;
        Ok(state_field(&self.name, of, false))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let one = args.args.iter().all(|argument| matches!(argument, ColumnarValue::Scalar(_)));
        let rows = if one { 1 } else { args.number_rows };
        let stated = Stated::new(&state_type(&self.function, &args.arg_fields)?)?;
        let zone = Zone::of_session(&args.config_options)?;
        let left_out = stated.left_out().iter().map(|value| ColumnarValue::Scalar(value.clone()));
        let columns = (args.args.into_iter().chain(left_out).zip(stated.arguments()))
            .map(|(value, field)| cast_values_in(&value.into_array(rows)?, field.data_type(), Some(zone)))
            .collect::<Result<Vec<ArrayRef>, _>>()?;
        let mut states = Vec::with_capacity(rows);
        for row in 0..rows {
            if row % ROWS_BETWEEN_LOOKS == 0 {
                still_wanted()?;
            }
            let constants = stated.constants_at(row, &columns)?;
            let mut accumulator = stated.accumulator(&constants)?;
            let values: Vec<ArrayRef> = columns.iter().map(|column| column.slice(row, 1)).collect();
            accumulator.update_batch(&values)?;
            states.push(stated.write(&constants, accumulator.as_mut())?);
        }
        let states = column(&states);
        Ok(match one {
            true => ColumnarValue::Scalar(ScalarValue::try_from_array(&states, 0)?),
            false => ColumnarValue::Array(states),
        })
    }
}
