//! TOPN(x, n): the most frequent values and the numbers of their occurrences, as JSON.
//!
//! The counts are exact, whereas Doris keeps `n * space_expand_rate` counters of a space-saving sketch: its third
//! argument has no effect here. Of values that are equally frequent the smaller text comes first.

use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap};
use std::hash::Hash;
use std::sync::Arc;

use arrow::array::{ArrayRef, AsArray};
use arrow::datatypes::{DataType, Field, FieldRef, Int64Type};
use datafusion::common::{Result, ScalarValue, exec_err, internal_err, plan_err};
use datafusion::execution::FunctionRegistry;
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::{Accumulator, AggregateUDF, AggregateUDFImpl, Signature, Volatility};

use super::adapted::Adapted;
use super::args::{to_int, to_text};
use super::json::write_quoted;

/// Registers the function.
///
/// # Errors
/// The registry's error if it refuses a function.
pub fn register(registry: &mut dyn FunctionRegistry) -> Result<()> {
    let signature = Signature::user_defined(Volatility::Immutable);
    let function = Arc::new(AggregateUDF::new_from_impl(TopN { signature }));
    registry.register_udaf(Adapted::new(function).distinct_rows().moves_itself().udaf())?;
    Ok(())
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct TopN {
    signature: Signature,
}

fn list_of(t: DataType) -> DataType {
    DataType::List(Arc::new(Field::new_list_field(t, true)))
}

impl AggregateUDFImpl for TopN {
    fn name(&self) -> &str {
        "topn"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, arg_types: &[DataType]) -> Result<Vec<DataType>> {
        match arg_types.len() {
            2 | 3 => Ok(arg_types.to_vec()),
            n => {
                plan_err!("topn takes a value, a number of values and perhaps a space_expand_rate, found {n} arguments")
            }
        }
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Utf8View)
    }

    fn state_fields(&self, args: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        let field = |name: &str, t| Arc::new(Field::new(format!("{}[{name}]", args.name), t, true)) as FieldRef;
        Ok(vec![
            field("values", list_of(DataType::Utf8View)),
            field("counts", list_of(DataType::Int64)),
            field("n", DataType::Int64),
        ])
    }

    fn accumulator(&self, _: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        Ok(Box::new(Counts::default()))
    }

    fn create_sliding_accumulator(&self, _: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        Ok(Box::new(Frame::default()))
    }
}

/// Records the number of values that is asked for.
fn note_wanted(wanted: &mut Option<i64>, column: &ArrayRef) -> Result<()> {
    for n in to_int("topn", column)?.iter() {
        match (n, *wanted) {
            (Some(n), None) if n > 0 => *wanted = Some(n),
            (Some(n), Some(known)) if n == known => {}
            _ => return exec_err!("topn: expected a positive constant number of values"),
        }
    }
    Ok(())
}

/// Prints the first `n` values with their counts, as JSON.
fn shown<'a>(all: impl Iterator<Item = (&'a str, i64)>, n: i64) -> ScalarValue {
    let mut out = String::from("{");
    for (at, (value, count)) in all.take(usize::try_from(n).unwrap_or(usize::MAX)).enumerate() {
        if at > 0 {
            out.push(',');
        }
        write_quoted(&mut out, value);
        out.push_str(&format!(":{count}"));
    }
    out.push('}');
    ScalarValue::Utf8View(Some(out))
}

#[derive(Debug, Default)]
struct Counts {
    counts: HashMap<Box<str>, i64>,
    /// The bytes of the keys.
    bytes: usize,
    /// The number of values that is asked for; `None` before the first row.
    n: Option<i64>,
}

impl Counts {
    fn add(&mut self, value: &str, count: i64) {
        match self.counts.get_mut(value) {
            Some(known) => *known += count,
            None => {
                self.bytes += value.len();
                self.counts.insert(value.into(), count);
            }
        }
    }
}

impl Accumulator for Counts {
    fn update_batch(&mut self, columns: &[ArrayRef]) -> Result<()> {
        note_wanted(&mut self.n, &columns[1])?;
        for value in to_text("topn", &columns[0])?.iter().flatten() {
            self.add(value, 1);
        }
        Ok(())
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        let (values, counts) = (states[0].as_list::<i32>(), states[1].as_list::<i32>());
        for (values, counts) in values.iter().flatten().zip(counts.iter().flatten()) {
            let counts = counts.as_primitive::<Int64Type>();
            for (value, count) in values.as_string_view().iter().zip(counts.values()) {
                self.add(value.unwrap_or_default(), *count);
            }
        }
        self.n = self.n.or_else(|| states[2].as_primitive::<Int64Type>().iter().flatten().next());
        Ok(())
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let values: Vec<_> = self.counts.keys().map(|v| ScalarValue::Utf8View(Some(v.to_string()))).collect();
        let counts: Vec<_> = self.counts.values().map(|n| ScalarValue::Int64(Some(*n))).collect();
        Ok(vec![
            ScalarValue::List(ScalarValue::new_list_nullable(&values, &DataType::Utf8View)),
            ScalarValue::List(ScalarValue::new_list_nullable(&counts, &DataType::Int64)),
            ScalarValue::Int64(self.n),
        ])
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        let Some(n) = self.n else { return Ok(ScalarValue::Utf8View(None)) };
        let mut all: Vec<(&str, i64)> = self.counts.iter().map(|(value, count)| (&**value, *count)).collect();
        all.sort_unstable_by(|a, b| b.1.cmp(&a.1).then(a.0.cmp(b.0)));
        Ok(shown(all.into_iter(), n))
    }

    fn size(&self) -> usize {
        size_of::<Self>() + self.bytes + self.counts.capacity() * size_of::<(Box<str>, i64)>()
    }
}

/// The values of a moving frame, the most frequent first.
#[derive(Debug, Default)]
struct Frame {
    counts: HashMap<Arc<str>, i64>,
    order: BTreeSet<(Reverse<i64>, Arc<str>)>,
    /// The bytes of the values.
    bytes: usize,
    /// The number of rows, including those whose value is NULL.
    rows: usize,
    /// The number of values that is asked for, see [`Counts`].
    n: Option<i64>,
}

impl Frame {
    /// Changes the count of a value by `by`, 1 or -1.
    fn change(&mut self, value: &str, by: i64) -> Result<()> {
        let (value, before) = match self.counts.get_key_value(value) {
            Some((value, count)) => (Arc::clone(value), *count),
            None => (Arc::from(value), 0),
        };
        let count = before + by;
        if count < 0 {
            return internal_err!("topn: a value leaves a frame that it has not entered");
        }
        if before > 0 {
            self.order.remove(&(Reverse(before), Arc::clone(&value)));
        } else {
            self.bytes += value.len();
        }
        if count > 0 {
            self.order.insert((Reverse(count), Arc::clone(&value)));
            self.counts.insert(value, count);
        } else {
            self.bytes -= value.len();
            self.counts.remove(&value);
        }
        Ok(())
    }
}

impl Accumulator for Frame {
    fn update_batch(&mut self, columns: &[ArrayRef]) -> Result<()> {
        note_wanted(&mut self.n, &columns[1])?;
        self.rows += columns[0].len();
        to_text("topn", &columns[0])?.iter().flatten().try_for_each(|value| self.change(value, 1))
    }

    fn retract_batch(&mut self, columns: &[ArrayRef]) -> Result<()> {
        self.rows = self.rows.saturating_sub(columns[0].len());
        to_text("topn", &columns[0])?.iter().flatten().try_for_each(|value| self.change(value, -1))
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        match self.n {
            // A frame without rows has no number of values.
            Some(n) if self.rows > 0 => Ok(shown(self.order.iter().map(|(count, value)| (&**value, count.0)), n)),
            _ => Ok(ScalarValue::Utf8View(None)),
        }
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        internal_err!("topn: a moving frame has no partial states")
    }

    fn merge_batch(&mut self, _: &[ArrayRef]) -> Result<()> {
        internal_err!("topn: a moving frame has no partial states")
    }

    fn size(&self) -> usize {
        // Counted for both collections, with the two reference counts of each text.
        let entry = size_of::<(Reverse<i64>, Arc<str>)>() + size_of::<(Arc<str>, i64)>() + 16;
        size_of::<Self>() + self.bytes + self.counts.capacity() * entry
    }
}
