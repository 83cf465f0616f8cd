//! What makes one of several states: `_merge`, `_union`, and the union of states where rows of a table are merged.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray};
use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::{DataFusionError, Result, ScalarValue, exec_err, internal_err, plan_err};
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::{Accumulator, AggregateUDF, AggregateUDFImpl, Signature, Volatility};
use dipper_base::states::{StateError, States};
use dipper_base::types::StateType;

use super::stated::{Stated, states_of};
use super::{UNION, names, state_field};
use crate::functions::bytes::is_bytes;
use crate::functions::moving::moving;
use crate::type_text::Sql;

/// Makes `_merge`, or `_union` if it `unites`, of a function that a statement calls `function`.
pub(super) fn udaf(name: String, function: &str, unites: bool) -> Arc<AggregateUDF> {
    let signature = Signature::user_defined(Volatility::Immutable);
    Arc::new(AggregateUDF::new_from_impl(Merge { name, function: function.to_string(), unites, signature }))
}

/// Returns the aggregate that unites states of a function.
pub fn union_of(of: &StateType) -> Arc<AggregateUDF> {
    udaf(format!("{}{UNION}", of.function), &of.function, true)
}

/// `_merge` or `_union` of an aggregate.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Merge {
    name: String,
    function: String,
    unites: bool,
    signature: Signature,
}

impl Merge {
    /// Returns the type of the states of a field, and their function under the name in this call.
    fn stated(&self, fields: &[FieldRef]) -> Result<(StateType, Stated)> {
        let [field] = fields else {
            return plan_err!("{} takes one argument, found {}", self.name, fields.len());
        };
        let Some(of) = states_of(field) else {
            return plan_err!("{} takes states of {}, found {}", self.name, self.function, Sql(field.data_type()));
        };
        let called = Stated::new(&StateType { function: self.function.clone(), arguments: of.arguments.clone() });
        match called {
            Ok(stated) if stated.has_states_of(&Stated::new(&of)?) => Ok((of, stated)),
            _ => plan_err!("{} takes states of {}, found states of {of}", self.name, self.function),
        }
    }
}

impl AggregateUDFImpl for Merge {
    fn name(&self) -> &str {
        &self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        match types {
            [t] if is_bytes(t) => Ok(vec![DataType::BinaryView]),
            // Refused when its field is known, which has a better name of it.
            types => Ok(types.to_vec()),
        }
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        internal_err!("{}: its type follows from the field of the states", self.name)
    }

    fn return_field(&self, fields: &[FieldRef]) -> Result<FieldRef> {
        let (of, stated) = self.stated(fields)?;
        Ok(match self.unites {
            true => state_field(&self.name, of, true),
            false => Arc::new(stated.returns().as_ref().clone().with_name(&self.name)),
        })
    }

    fn is_nullable(&self) -> bool {
        self.unites || names::aggregate(&self.function).is_none_or(|function| function.is_nullable())
    }

    fn default_value(&self, data_type: &DataType) -> Result<ScalarValue> {
        match names::aggregate(&self.function) {
            Some(function) if !self.unites => function.default_value(data_type),
            _ => ScalarValue::try_new_null(data_type),
        }
    }

    fn state_fields(&self, args: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        if args.is_distinct {
            return plan_err!("{} does not take DISTINCT", self.name);
        }
        Ok(vec![Arc::new(Field::new(format!("{}[state]", args.name), DataType::BinaryView, true))])
    }

    fn accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        let (_, stated) = self.stated(args.expr_fields)?;
        Ok(Box::new(Merged { stated, unites: self.unites, merged: None }))
    }

    fn create_sliding_accumulator(&self, args: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        Ok(moving(&Arc::new(AggregateUDF::new_from_impl(self.clone())), &args))
    }
}

/// The states that are read at a time: those of sketches are much larger in memory than in bytes.
const STATES: usize = 256;

/// The rows of all states that came.
#[derive(Debug)]
struct Merged {
    stated: Stated,
    unites: bool,
    /// The constants of the states and what has merged them; `None` before the first state.
    merged: Option<(Vec<ScalarValue>, Box<dyn Accumulator>)>,
}

impl Merged {
    fn add<'a>(&mut self, mut states: impl Iterator<Item = &'a [u8]>) -> Result<()> {
        loop {
            let read = self.stated.read(states.by_ref().take(STATES))?;
            if read.rows == 0 {
                return Ok(());
            }
            let (_, accumulator) = match &mut self.merged {
                Some(merged) => {
                    self.stated.check_constants(Some(&merged.0), &read.constants)?;
                    merged
                }
                first => {
                    let accumulator = self.stated.accumulator(&read.constants)?;
                    first.insert((read.constants, accumulator))
                }
            };
            // Functions trust the states that they get. Fields of the right types may still be those of no state, if
            // a user has written them as bytes; that must not end a thread that merges segments.
            let merged = catch_unwind(AssertUnwindSafe(|| accumulator.merge_batch(&read.fields)));
            match merged {
                Ok(merged) => merged?,
                Err(_) => return exec_err!("no state of {}: the function cannot read it", self.stated.called()),
            }
        }
    }

    /// Returns the united state; `None` if none has come and nothing can be said without the constants of one.
    fn united(&mut self) -> Result<Option<Vec<u8>>> {
        match &mut self.merged {
            Some((constants, accumulator)) => self.stated.write(constants, accumulator.as_mut()).map(Some),
            None if self.stated.has_constants() => Ok(None),
            None => self.stated.write(&[], self.stated.accumulator(&[])?.as_mut()).map(Some),
        }
    }
}

impl Accumulator for Merged {
    fn update_batch(&mut self, columns: &[ArrayRef]) -> Result<()> {
        self.add(columns[0].as_binary_view().iter().flatten())
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.update_batch(states)
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        Ok(vec![ScalarValue::BinaryView(self.united()?)])
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        match &mut self.merged {
            _ if self.unites => Ok(ScalarValue::BinaryView(self.united()?)),
            Some((_, accumulator)) => accumulator.evaluate(),
            None if self.stated.has_constants() => ScalarValue::try_new_null(self.stated.returns().data_type()),
            None => self.stated.accumulator(&[])?.evaluate(),
        }
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.merged.as_ref().map_or(0, |(_, accumulator)| accumulator.size())
    }
}

/// What understands states of one function, for the store.
struct Reader(Stated);

/// Returns what understands states of a function.
///
/// # Errors
/// [`StateError`] if there is no such function, or if it does not take such arguments.
pub fn reader(of: &StateType) -> Result<Box<dyn States>, StateError> {
    Ok(Box::new(Reader(Stated::new(of).map_err(failed)?)))
}

fn failed(e: DataFusionError) -> StateError {
    StateError(e.message().into_owned())
}

impl States for Reader {
    fn check(&mut self, state: &[u8]) -> Result<(), StateError> {
        self.0.read(std::iter::once(state)).map_err(failed)?;
        Ok(())
    }

    fn unite(&mut self, states: &[&[u8]]) -> Result<Vec<u8>, StateError> {
        let mut merged = Merged { stated: self.0.clone(), unites: true, merged: None };
        merged.add(states.iter().copied()).map_err(failed)?;
        match merged.united().map_err(failed)? {
            Some(state) => Ok(state),
            None => Err(StateError(format!("no states of {}", self.0.called()))),
        }
    }
}
