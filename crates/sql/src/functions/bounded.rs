//! DataFusion's functions that make much of little.
//!
//! Most take their arguments apart and put them together anew: a constant list of a million values, appended to in 8,192
//! rows, is 64 GB. What such a call will make is worked out from its arguments and [asked for](super::growth) first.
//! Functions that count up to an argument make at most [`LIST_VALUES_MAX`] values for a row, as Doris's do.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::datatypes::{DataType, FieldRef, IntervalMonthDayNanoType};
use datafusion::common::{Result, exec_err};
use datafusion::execution::FunctionRegistry;
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::{
    ColumnarValue, Documentation, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
};

use super::args::{to_datetime, to_int};
use super::array::{LIST_VALUES_MAX, as_list};
use super::datetime::DAY_MICROS;
use super::datetime::zone::Zone;
use super::growth::{Growth, bytes_of};

/// What a function makes beside what its arguments hold.
type More = fn(&ScalarFunctionArgs) -> Result<usize>;

/// The functions of DataFusion that make lists or text.
const FUNCTIONS: [(&str, More); 15] = [
    ("range", series),
    ("generate_series", series),
    ("array_resize", resized),
    ("array_replace", replaced),
    ("array_replace_n", replaced),
    ("array_replace_all", replaced),
    ("array_append", nothing),
    ("array_prepend", nothing),
    ("array_concat", nothing),
    ("array_union", nothing),
    ("arrays_zip", nothing),
    ("string_to_array", pieces),
    ("overlay", nothing),
    ("encode", nothing),
    ("flatten", nothing),
];

/// Puts functions that ask first in place of those of the registry.
pub(super) fn register(registry: &mut dyn FunctionRegistry) -> Result<()> {
    for (name, more) in FUNCTIONS {
        let inner = registry.udf(name)?;
        registry.register_udf(Arc::new(ScalarUDF::new_from_impl(Bounded { inner, more })))?;
    }
    Ok(())
}

/// A function that asks for what it will make.
#[derive(Debug)]
struct Bounded {
    inner: Arc<ScalarUDF>,
    more: More,
}

// Names are unique in a registry, so the name is the identity.
impl PartialEq for Bounded {
    fn eq(&self, other: &Self) -> bool {
        self.inner.name() == other.inner.name()
    }
}
impl Eq for Bounded {}
impl Hash for Bounded {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.inner.name().hash(state);
    }
}

impl ScalarUDFImpl for Bounded {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn aliases(&self) -> &[String] {
        self.inner.aliases()
    }

    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        self.inner.inner().schema_name(args)
    }

    fn signature(&self) -> &Signature {
        self.inner.signature()
    }

    fn return_type(&self, arg_types: &[DataType]) -> Result<DataType> {
        self.inner.return_type(arg_types)
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        super::still_wanted()?;
        self.inner.return_field_from_args(args)
    }

    fn coerce_types(&self, arg_types: &[DataType]) -> Result<Vec<DataType>> {
        self.inner.coerce_types(arg_types)
    }

    fn is_strict(&self) -> bool {
        self.inner.inner().is_strict()
    }

    fn simplify(&self, args: Vec<Expr>, info: &SimplifyContext) -> Result<ExprSimplifyResult> {
        self.inner.simplify(args, info)
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.inner.documentation()
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let rows = rows(&args);
        let held = args.args.iter().map(|arg| match arg {
            ColumnarValue::Array(array) => bytes_of(array),
            ColumnarValue::Scalar(value) => value.size().saturating_mul(rows),
        });
        let held = held.fold(0, usize::saturating_add);
        let bytes = held.saturating_add((self.more)(&args)?);
        let mut growth = Growth::new("a function", &args.config_options);
        growth.add(bytes)?;
        self.inner.invoke_with_args(args)
    }
}

fn nothing(_: &ScalarFunctionArgs) -> Result<usize> {
    Ok(0)
}

/// An argument, and its row for a row of the result.
struct Argument {
    array: ArrayRef,
    one: bool,
}

impl Argument {
    fn of(args: &ScalarFunctionArgs, k: usize) -> Result<Option<Self>> {
        Ok(match args.args.get(k) {
            Some(ColumnarValue::Array(array)) => Some(Argument { array: Arc::clone(array), one: false }),
            Some(ColumnarValue::Scalar(value)) => Some(Argument { array: value.to_array()?, one: true }),
            None => None,
        })
    }

    fn row(&self, i: usize) -> usize {
        if self.one { 0 } else { i }
    }
}

/// Rows that a call works out: one where all arguments are constants.
fn rows(args: &ScalarFunctionArgs) -> usize {
    match args.args.iter().all(|arg| matches!(arg, ColumnarValue::Scalar(_))) {
        true => 1,
        false => args.number_rows,
    }
}

/// The bytes of the counted values, each of 16 bytes.
fn counted(args: &ScalarFunctionArgs, mut count: impl FnMut(usize) -> Option<i64>) -> Result<usize> {
    let mut all = 0_usize;
    for i in 0..rows(args) {
        let values = count(i).unwrap_or(0).max(0);
        if values > LIST_VALUES_MAX {
            return exec_err!("expected at most {LIST_VALUES_MAX} values in an array, found {values}");
        }
        all = all.saturating_add(values as usize);
    }
    Ok(all.saturating_mul(16))
}

/// What `range` and `generate_series` count: numbers, days or times by steps.
fn series(args: &ScalarFunctionArgs) -> Result<usize> {
    let (Some(first), second, third) = (Argument::of(args, 0)?, Argument::of(args, 1)?, Argument::of(args, 2)?) else {
        return Ok(0);
    };
    let number = |argument: &Argument| -> Result<Vec<Option<i64>>> {
        let array = &argument.array;
        Ok(match array.data_type() {
            DataType::Interval(_) => {
                let to = DataType::Interval(arrow::datatypes::IntervalUnit::MonthDayNano);
                let steps = super::args::lenient_cast(array, &to)?;
                let steps = steps.as_primitive::<IntervalMonthDayNanoType>();
                // A month has at least 28 days.
                let micros = |months: i32, days: i32, nanos: i64| {
                    (i64::from(months) * 28 + i64::from(days)).saturating_mul(DAY_MICROS).saturating_add(nanos / 1000)
                };
                steps.iter().map(|step| step.map(|s| micros(s.months, s.days, s.nanoseconds))).collect()
            }
            DataType::Date32 | DataType::Date64 | DataType::Timestamp(..) => {
                to_datetime("range", array, Zone::Fixed(0))?.iter().collect()
            }
            DataType::Null => vec![None; array.len()],
            _ => to_int("range", array)?.iter().collect(),
        })
    };
    let bounds = [Some(&first), second.as_ref(), third.as_ref()];
    let bounds: Vec<(&Argument, Vec<Option<i64>>)> =
        bounds.into_iter().flatten().map(|a| Ok((a, number(a)?))).collect::<Result<_>>()?;
    counted(args, |i| {
        let at = |k: usize| bounds.get(k).map(|(argument, values)| values[argument.row(i)]);
        let (start, end, step) = match (at(0)?, at(1), at(2)) {
            (end, None, _) => (0, end?, 1),
            (start, Some(end), None) => (start?, end?, 1),
            (start, Some(end), Some(step)) => (start?, end?, step?),
        };
        let (distance, step) = (i128::from(end) - i128::from(start), i128::from(step));
        let steps = if step == 0 || (distance < 0) != (step < 0) { 0 } else { distance / step };
        Some(i64::try_from(steps).unwrap_or(i64::MAX))
    })
}

/// The values of `array_resize`, and those that fill it up.
fn resized(args: &ScalarFunctionArgs) -> Result<usize> {
    let Some(length) = Argument::of(args, 1)? else { return Ok(0) };
    let lengths = to_int("array_resize", &length.array)?;
    let values = counted(args, |i| {
        let row = length.row(i);
        lengths.is_valid(row).then(|| lengths.value(row))
    })?;
    Ok(values / 16 * largest(args, 2)?.max(16))
}

/// Bytes of the largest value of an argument, at least about.
fn largest(args: &ScalarFunctionArgs, k: usize) -> Result<usize> {
    Ok(match args.args.get(k) {
        Some(ColumnarValue::Scalar(value)) => value.size(),
        Some(ColumnarValue::Array(array)) => bytes_of(array) / array.len().max(1),
        None => 0,
    })
}

/// Values of all lists of an argument, in all rows.
fn elements(args: &ScalarFunctionArgs, k: usize) -> Result<usize> {
    let Some(argument) = Argument::of(args, k)? else { return Ok(0) };
    if !argument.array.data_type().is_list() {
        return Ok(0);
    }
    let lists = as_list("a function", &argument.array)?;
    let offsets = lists.value_offsets();
    let all = (offsets[lists.len()] - offsets[0]) as usize;
    Ok(all.saturating_mul(if argument.one { rows(args) } else { 1 }))
}

/// What comes in place of values of a list.
fn replaced(args: &ScalarFunctionArgs) -> Result<usize> {
    Ok(elements(args, 0)?.saturating_mul(largest(args, 2)?))
}

/// Each byte of a text may become a piece.
fn pieces(args: &ScalarFunctionArgs) -> Result<usize> {
    let bytes = match args.args.first() {
        Some(ColumnarValue::Scalar(value)) => value.size().saturating_mul(rows(args)),
        Some(ColumnarValue::Array(array)) => bytes_of(array),
        None => 0,
    };
    Ok(bytes.saturating_mul(8))
}
