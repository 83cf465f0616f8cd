//! `DATETIME(p)` and `TIME(p)`: rounding to p digits.

use std::sync::{Arc, LazyLock};

use arrow::array::{Array, ArrayRef, AsArray, ListArray, StructArray};
use arrow::datatypes::{
    DataType, Date32Type, Decimal128Type, Field, FieldRef, Time64MicrosecondType, TimeUnit, TimestampMicrosecondType,
};
use datafusion::common::{DataFusionError, Result, ScalarValue};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, TypeSignature,
    Volatility,
};
use dipper_base::calendar::{self, LAST_MICROSECOND};
use dipper_base::clock;
use dipper_base::types::SqlType;

use super::{nested, text};
use crate::class::DATETIME;
use crate::functions::datetime::DAY_MICROS;
use crate::metadata::TYPE_KEY;

/// The function's name.
pub const ROUND_NAME: &str = "dipper_datetime";

/// The first microsecond of the year 0.
const FIRST: i64 = -62_167_219_200_000_000;

/// Removes dates and times outside of the years 0 to 9999, which the types DATE and DATETIME do not have and which files
/// of others may have: they become NULL, also inside of nested values. A map is NULL if one of its keys is such a date.
/// Arrays of other types are returned as they are.
///
/// # Errors
/// None for arrays whose parts fit each other.
pub fn within_calendar(array: &ArrayRef) -> Result<ArrayRef> {
    let same = |before: &ArrayRef, after: &ArrayRef| Arc::ptr_eq(before, after);
    match array.data_type() {
        DataType::List(item) => {
            let list = array.as_list::<i32>();
            let values = within_calendar(list.values())?;
            if same(list.values(), &values) {
                return Ok(Arc::clone(array));
            }
            let (offsets, nulls) = (list.offsets().clone(), list.nulls().cloned());
            Ok(Arc::new(ListArray::try_new(Arc::clone(item), offsets, values, nulls)?))
        }
        DataType::Map(..) => {
            let maps = array.as_map();
            let (keys, values) = (within_calendar(maps.keys())?, within_calendar(maps.values())?);
            match same(maps.keys(), &keys) && same(maps.values(), &values) {
                true => Ok(Arc::clone(array)),
                false => nested::maps(maps, &keys, &values, array.data_type()),
            }
        }
        DataType::Struct(fields) => {
            let parts = array.as_struct();
            let columns = parts.columns().iter().map(within_calendar).collect::<Result<Vec<_>>>()?;
            if parts.columns().iter().zip(&columns).all(|(before, after)| same(before, after)) {
                return Ok(Arc::clone(array));
            }
            let nulls = parts.nulls().cloned();
            Ok(Arc::new(StructArray::try_new_with_length(fields.clone(), columns, nulls, parts.len())?))
        }
        _ => Ok(dates_within_calendar(array)),
    }
}

fn dates_within_calendar(array: &ArrayRef) -> ArrayRef {
    match array.data_type() {
        DataType::Date32 => {
            let days = array.as_primitive::<Date32Type>();
            let calendar = FIRST / DAY_MICROS..=LAST_MICROSECOND / DAY_MICROS;
            let has = |day: i32| calendar.contains(&i64::from(day));
            match days.values().iter().all(|day| has(*day)) {
                true => Arc::clone(array),
                false => Arc::new(days.unary_opt::<_, Date32Type>(|day| has(day).then_some(day))),
            }
        }
        DataType::Timestamp(TimeUnit::Microsecond, None) => {
            let times = array.as_primitive::<TimestampMicrosecondType>();
            let has = |time: i64| (FIRST..=LAST_MICROSECOND).contains(&time);
            match times.values().iter().all(|time| has(*time)) {
                true => Arc::clone(array),
                false => Arc::new(times.unary_opt::<_, TimestampMicrosecondType>(|time| has(time).then_some(time))),
            }
        }
        _ => Arc::clone(array),
    }
}

/// Rounds microseconds to `digits` digits of a second: DATETIME half towards the future, and NULL where that leads
/// beyond the year 9999; TIME half away from zero.
///
/// # Panics
/// If the array's type is neither DATETIME nor TIME.
pub fn rounded(array: &ArrayRef, digits: u8) -> ArrayRef {
    if let Some(times) = array.as_primitive_opt::<Time64MicrosecondType>() {
        return match times.values().iter().all(|t| clock::rounded(*t, digits) == *t) {
            true => Arc::clone(array),
            false => Arc::new(times.unary::<_, Time64MicrosecondType>(|t| clock::rounded(t, digits))),
        };
    }
    let unit = 10i64.pow(6 - u32::from(digits.min(6)));
    let values = array.as_primitive::<TimestampMicrosecondType>();
    if values.values().iter().all(|t| t % unit == 0) {
        return Arc::clone(array);
    }
    Arc::new(values.unary_opt::<_, TimestampMicrosecondType>(|t| calendar::rounded(t, digits)))
}

/// `dipper_datetime(x, p)`: x rounded to p digits of a second, half towards the future (MySQL and Doris).
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct RoundDatetime {
    signature: Signature,
}

impl Default for RoundDatetime {
    fn default() -> Self {
        RoundDatetime {
            signature: Signature::new(TypeSignature::Exact(vec![DATETIME, DataType::Int64]), Volatility::Immutable),
        }
    }
}

impl ScalarUDFImpl for RoundDatetime {
    fn name(&self) -> &str {
        ROUND_NAME
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DATETIME)
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        let field = Field::new(self.name(), DATETIME, true);
        Ok(Arc::new(match args.scalar_arguments.get(1).copied().flatten() {
            Some(ScalarValue::Int64(Some(digits @ 0..=6))) => {
                field.with_metadata([(TYPE_KEY.to_string(), SqlType::DateTime(*digits as u8).to_string())].into())
            }
            _ => field,
        }))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [value, ColumnarValue::Scalar(ScalarValue::Int64(Some(digits @ 0..=6)))] = args.args.as_slice() else {
            return Err(DataFusionError::Execution("DATETIME(p) takes p from 0 to 6".into()));
        };
        let is_scalar = matches!(value, ColumnarValue::Scalar(_));
        let array = value.to_array(if is_scalar { 1 } else { args.number_rows })?;
        let rounded = rounded(&array, *digits as u8);
        Ok(if is_scalar {
            ColumnarValue::Scalar(ScalarValue::try_from_array(&rounded, 0)?)
        } else {
            ColumnarValue::Array(rounded)
        })
    }
}

/// The function's name.
const NUMBER_NAME: &str = "dipper_datetime_number";

/// The type of a DATETIME as a number.
const NUMBER: DataType = DataType::Decimal128(20, 6);

/// Returns the call that makes a number of a DATETIME: 2024-01-01 10:15:30.5 is 20240101101530.500000. A cast drops the
/// fraction.
pub(super) fn number(point: Expr) -> Expr {
    static FUNCTION: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| {
        let signature = Signature::new(TypeSignature::Exact(vec![DATETIME]), Volatility::Immutable);
        Arc::new(ScalarUDF::new_from_impl(NumberOf { signature }))
    });
    FUNCTION.call(vec![point])
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct NumberOf {
    signature: Signature,
}

impl ScalarUDFImpl for NumberOf {
    fn name(&self) -> &str {
        NUMBER_NAME
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(NUMBER)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [value] = args.args.as_slice() else {
            return Err(DataFusionError::Internal(format!("{NUMBER_NAME} takes one argument")));
        };
        let is_scalar = matches!(value, ColumnarValue::Scalar(_));
        let points = value.to_array(if is_scalar { 1 } else { args.number_rows })?;
        let numbers = points.as_primitive::<TimestampMicrosecondType>().unary::<_, Decimal128Type>(|micros| {
            i128::from(text::datetime_number(micros)) * 1_000_000 + i128::from(micros.rem_euclid(1_000_000))
        });
        let numbers: ArrayRef = Arc::new(numbers.with_data_type(NUMBER));
        Ok(match is_scalar {
            true => ColumnarValue::Scalar(ScalarValue::try_from_array(&numbers, 0)?),
            false => ColumnarValue::Array(numbers),
        })
    }
}
