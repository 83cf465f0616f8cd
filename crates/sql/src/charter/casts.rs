//! Casts with MySQL's meaning where Arrow's differ, and the rule that puts them in place.
//!
//! Arrow reads `'1.5'` as no integer and `'2024-1-5'` as no date, prints `true`, `1.0` and `2024-01-05T00:00:00`, and
//! casts a date to the days since 1970. The planner writes plain casts. The rule replaces those of the affected pairs
//! of types by [`MySqlCast`]; it runs after type coercion, so that it sees the casts which coercion adds, too.

pub(super) mod by_part;
pub(super) mod lambda_calls;
mod of_files;

use std::sync::Arc;

use arrow::array::{
    Array, ArrayRef, ArrowNativeTypeOp, AsArray, BooleanArray, Date32Array, Decimal256Array, FixedSizeBinaryArray,
    Float64Array, Int64Array, PrimitiveArray, StringArray, StringViewArray, Time64MicrosecondArray,
    TimestampMicrosecondArray, UInt64Array,
};
use arrow::compute::CastOptions;
use arrow::datatypes::{
    DECIMAL256_MAX_PRECISION, DataType, Date32Type, Decimal128Type, Decimal256Type, Field, FieldRef, Float32Type,
    Float64Type, Int64Type, Time64MicrosecondType, TimestampMicrosecondType, TimestampNanosecondType, i256,
};
use arrow::util::display::FormatOptions;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{
    DFSchema, DFSchemaRef, DataFusionError, Result, ScalarValue, internal_datafusion_err, not_impl_err,
};
use datafusion::logical_expr::expr::{Cast, InList, Like, ScalarFunction, TryCast, WindowFunction};
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{
    BinaryExpr, ColumnarValue, Expr, ExprSchemable, LogicalPlan, Operator, ReturnFieldArgs, ScalarFunctionArgs,
    ScalarUDF, ScalarUDFImpl, Signature, Volatility, lit,
};
use datafusion::optimizer::AnalyzerRule;
use dipper_base::address::{self, is_address};
use dipper_base::types::SqlType;
use dipper_base::{clock, floats};

pub use by_part::loses_fields;
pub use of_files::FileCast;

use super::declared::{self, declared_type, digits_of};
use super::shown::with_texts;
use super::terms::{binary, cast_to};
use super::typed::Typed;
use super::{
    chain, compare, in_lists, interval, lateral, mixed, nested, once, outer_types, ranges, state_values, subqueries,
    system_text, text, zeros,
};
use crate::class::{Class, DATETIME, LARGEINT_CLASS, TIME, meet_as_double, wide_decimal};
use crate::functions::datetime::parse::{datetime_from_digits, datetime_from_number, parse_time};
use crate::functions::datetime::zone::Zone;
use crate::functions::datetime::{self, DAY_MICROS};
use crate::functions::{
    Content, JSON, LostValues, VARIANT, is_bytes, json_content_udf, like_udf, members_of_frames, whole,
};
use crate::metadata::TYPE_KEY;

/// Whether `from` to `to` needs [`MySqlCast`].
fn differs(from: &DataType, to: &DataType) -> bool {
    use Class as C;
    let temporal = |c| matches!(c, C::Date | C::DateTime);
    match (Class::of(from), Class::of(to)) {
        (f, _) if is_time(to) => f.is_number() || temporal(f) || matches!(f, C::Text | C::Boolean),
        (C::Time, t) if !to.is_nested() => t == C::Text || t == C::Boolean || t.is_number() || temporal(t),
        (C::Text, _) if is_address(to) => true,
        (_, C::Text) if is_address(from) => true,
        _ if *from == address::IPV4 && *to == address::IPV6 => true,
        (C::Text, c) => c.is_number() || temporal(c) || c == C::Boolean || to.is_nested(),
        (C::Boolean | C::Float | C::Date | C::DateTime | C::Interval, C::Text)
        | (C::Boolean, C::Decimal(..))
        | (C::Decimal(..), C::Boolean | C::Float) => true,
        (C::Float | C::Decimal(..), LARGEINT_CLASS) => from != to,
        (_, C::Text) => from.is_nested(),
        (c, _) if is_bytes(to) && (c.is_number() || c == C::Boolean || temporal(c)) => true,
        _ if by_part::is_by_part(from, to) => from != to,
        _ if to.is_nested() && !from.is_nested() => !from.is_null(),
        (f, t) if temporal(f) => t.is_number() || t == C::Boolean,
        (f, t) if temporal(t) => f.is_number(),
        _ => false,
    }
}

/// Whether this is the Arrow type of TIME; see [`dipper_base::clock`].
fn is_time(to: &DataType) -> bool {
    *to == TIME
}

/// A cast to one type; NULL where the value does not convert.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct MySqlCast {
    to: DataType,
    /// The SQL type, where it says more than Arrow's type.
    declared: Option<String>,
    name: String,
    signature: Signature,
}

impl MySqlCast {
    /// The cast to `to`.
    pub fn new(to: DataType) -> MySqlCast {
        let signature = Signature::any(1, Volatility::Immutable);
        MySqlCast { name: format!("cast_{to}"), to, declared: None, signature }
    }

    fn call(to: &Field, expr: Expr) -> Expr {
        let declared = to.metadata().get(TYPE_KEY).cloned();
        let udf = ScalarUDF::new_from_impl(MySqlCast { declared, ..MySqlCast::new(to.data_type().clone()) });
        Expr::ScalarFunction(ScalarFunction::new_udf(Arc::new(udf), vec![expr]))
    }
}

impl ScalarUDFImpl for MySqlCast {
    fn name(&self) -> &str {
        &self.name
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(self.to.clone())
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        if let Some(value) = args.arg_fields.first() {
            by_part::keeps_fields(value.data_type(), &self.to)?;
        }
        let field = Field::new(self.name(), self.to.clone(), true);
        Ok(Arc::new(match &self.declared {
            Some(text) => field.with_metadata([(TYPE_KEY.to_string(), text.clone())].into()),
            None => field,
        }))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let session = Zone::of_session(&args.config_options)?;
        let digits = args.arg_fields.first().and_then(|field| digits_of(field));
        let makes_text = Class::of(&self.to) == Class::Text;
        let from = args.arg_fields.first().and_then(|field| declared_type(field));
        let cast = |array: &ArrayRef| {
            let texts = match args.arg_fields.first().filter(|_| makes_text) {
                Some(field) => with_texts(array, field)?,
                None => None,
            };
            let array = texts.as_ref().unwrap_or(array);
            let cast = match &from {
                Some(from) if by_part::is_by_part(array.data_type(), &self.to) => {
                    let context =
                        by_part::Context { from: Some(from), session: Some(session), digits, keeps_blanks: true };
                    by_part::cast(array, &self.to, context)?
                }
                _ => cast_array(array, &self.to, Some(session), digits)?,
            };
            if matches!(Class::of(&self.to), Class::Date | Class::DateTime) {
                let of = || args.arg_fields.first().map_or("", |field| field.name());
                LostValues::add_dates(&args.config_options, || format!("{} {}", of(), self.name), array, &cast);
            }
            Ok::<_, DataFusionError>(cast)
        };
        match args.args.into_iter().next() {
            Some(ColumnarValue::Array(array)) => Ok(ColumnarValue::Array(cast(&array)?)),
            Some(ColumnarValue::Scalar(scalar)) => {
                let cast = cast(&scalar.to_array()?)?;
                Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&cast, 0)?))
            }
            None => Err(DataFusionError::Internal("a cast takes one argument".into())),
        }
    }
}

fn safe(array: &dyn Array, to: &DataType) -> Result<ArrayRef> {
    let options = CastOptions { safe: true, format_options: FormatOptions::default() };
    Ok(arrow::compute::cast_with_options(array, to, &options)?)
}

/// Converts every kind of text to `Utf8View`, and days in milliseconds to days, and decodes dictionaries; other arrays
/// are returned as they are.
fn plain(array: &ArrayRef) -> Result<ArrayRef> {
    match array.data_type() {
        DataType::Utf8 | DataType::LargeUtf8 => safe(array, &DataType::Utf8View),
        DataType::Dictionary(_, value) => plain(&safe(array, value)?),
        DataType::Date64 => safe(array, &DataType::Date32),
        _ => Ok(array.clone()),
    }
}

/// Converts values to another type by the charter's rules, without a session; NULL where a value does not convert, and
/// where a time is followed by a zone.
///
/// # Errors
/// Arrow's error if it has no cast between the two types.
pub fn cast_values(array: &ArrayRef, to: &DataType) -> Result<ArrayRef> {
    cast_values_in(array, to, None)
}

/// Converts values like [`cast_values`], as INSERT stores them. A time that is followed by a zone is moved to the zone
/// of the session.
///
/// # Errors
/// Arrow's error if it has no cast between the two types.
pub fn cast_values_in(array: &ArrayRef, to: &DataType, session: Option<Zone>) -> Result<ArrayRef> {
    match array.data_type() {
        from if from == to => Ok(array.clone()),
        from if differs(from, to) => cast_array(array, to, session, None),
        // The shortest text of a double has the digits that were written.
        from if Class::of(from) == Class::Float && matches!(Class::of(to), Class::Decimal(..)) => {
            let texts = to_text(array, &DataType::Utf8View, None)?;
            let plain = texts.as_string_view().iter().map(|v| v.and_then(text::plain_decimal));
            safe(&plain.collect::<StringArray>(), to)
        }
        // Arrow would make lists of one element.
        from if to.is_nested() && !from.is_nested() && !from.is_null() => {
            Ok(arrow::array::new_null_array(to, array.len()))
        }
        _ => safe(array, to),
    }
}

/// Converts values that are no text to JSON, as CAST does; NULL stays NULL.
///
/// # Errors
/// `NotImplemented` for BINARY inside of nested values that is not UTF-8.
pub fn json_values(array: &ArrayRef) -> Result<ArrayRef> {
    Ok(Arc::new(nested::json(array, None, None)?))
}

/// Converts nested values as [`cast_values_in`] does, and their parts that are no text to JSON where `declared`, the SQL
/// type of the result, wants JSON. Texts are not read: they stay what they are until they are checked.
///
/// # Errors
/// Those of [`cast_values_in`] and [`json_values`].
pub fn json_inside(
    array: &ArrayRef,
    to: &DataType,
    declared: Option<&SqlType>,
    session: Option<Zone>,
) -> Result<ArrayRef> {
    match declared.and_then(|declared| by_part::made_json(array.data_type(), declared)) {
        Some(declared) => {
            let context = by_part::Context { from: None, session, digits: None, keeps_blanks: true };
            by_part::parts(array, to, Some(&declared), context)
        }
        None => cast_values_in(array, to, session),
    }
}

/// Converts values to text. DATETIME and TIME are printed with `digits` digits after the second; with `None`, a
/// fraction is shown where there is one.
///
/// # Errors
/// Arrow's error if values of the type cannot be cast to text.
pub fn texts_of(array: &ArrayRef, digits: Option<u8>) -> Result<ArrayRef> {
    match Class::of(array.data_type()) {
        Class::DateTime | Class::Time | Class::Interval => to_text(array, &DataType::Utf8View, digits),
        _ if array.data_type().is_nested() => to_text(array, &DataType::Utf8View, digits),
        _ => cast_values(array, &DataType::Utf8View),
    }
}

/// Does the cast. Without a session's zone, a time that is followed by a zone does not convert. `digits` are the digits
/// of DATETIME.
fn cast_array(array: &ArrayRef, to: &DataType, session: Option<Zone>, digits: Option<u8>) -> Result<ArrayRef> {
    let array = plain(array)?;
    match (Class::of(array.data_type()), Class::of(to)) {
        (Class::Text, _) if is_time(to) => {
            let zone = session.unwrap_or(Zone::Fixed(0));
            let time = |text: &str| parse_time(text.as_bytes(), zone).filter(|t| clock::is_time(*t));
            let times = array.as_string_view().iter().map(|text| text.and_then(time));
            Ok(Arc::new(times.collect::<Time64MicrosecondArray>()))
        }
        // The number 101530 is 10:15:30, like the text of the same digits.
        (from, _) if is_time(to) && (from.is_number() || from == Class::Boolean) => {
            let array = if from == Class::Boolean { safe(&array, &DataType::Int8)? } else { Arc::clone(&array) };
            let texts = safe(&array, &DataType::Utf8View)?;
            // Doubles such as 1e6 have an exponent.
            let plain = texts.as_string_view().iter().map(|text| text.and_then(text::plain_decimal));
            cast_array(&(Arc::new(plain.collect::<StringViewArray>()) as ArrayRef), to, session, digits)
        }
        (Class::Date | Class::DateTime, _) if is_time(to) => {
            let of_day = as_micros(&array)?.unary::<_, Time64MicrosecondType>(|t| t.rem_euclid(DAY_MICROS));
            Ok(Arc::new(of_day))
        }
        // The planner adds the day of the statement, see [`of_today`]; without a statement there is none.
        (Class::Time, Class::Date | Class::DateTime) => Ok(arrow::array::new_null_array(to, array.len())),
        (Class::Time, class) if class == Class::Boolean || class.is_number() => {
            let times = safe(&array, &TIME)?;
            let times = times.as_primitive::<Time64MicrosecondType>();
            match class {
                Class::Float => safe(&times.unary::<_, Float64Type>(|t| clock::number(t) as f64 / 1e6), to),
                Class::Decimal(_, 1.., _) => {
                    let numbers = times.unary::<_, Decimal128Type>(|t| clock::number(t).into());
                    safe(&numbers.with_precision_and_scale(18, 6)?, to)
                }
                Class::Boolean => safe(&times.unary::<_, Int64Type>(|t| t), to),
                // The fraction is cut off, as that of a DATETIME.
                _ => safe(&times.unary::<_, Int64Type>(|t| clock::number(t) / 1_000_000), to),
            }
        }
        (Class::Text, _) if is_address(to) => {
            let addresses = array.as_string_view().iter().map(|text| address::parse(text?, to));
            addresses_of(addresses, to)
        }
        // Each IPv4 address has an IPv6 address.
        _ if *array.data_type() == address::IPV4 && *to == address::IPV6 => {
            let mapped = |v: &[u8]| [&[0; 10][..], &[0xff; 2], v].concat();
            addresses_of(array.as_fixed_size_binary().iter().map(|v| v.map(mapped)), to)
        }
        _ if by_part::is_by_part(array.data_type(), to) => {
            by_part::cast(&array, to, by_part::Context { from: None, session, digits, keeps_blanks: true })
        }
        (Class::Text, Class::Other) => nested::of_texts(array.as_string_view(), to),
        (Class::Text, class) => from_text(array.as_string_view(), class, to, session),
        // Arrow would make lists of one element.
        _ if to.is_nested() && !array.data_type().is_nested() => Ok(arrow::array::new_null_array(to, array.len())),
        (_, Class::Text) => to_text(&array, to, digits),
        // The bytes of the text, as in MySQL.
        (class, _) if is_bytes(to) && !matches!(class, Class::Text | Class::Other | Class::Null) => {
            safe(&to_text(&array, &DataType::Utf8View, digits)?, to)
        }
        // A decimal that is not zero stays so as a double.
        (Class::Decimal(..), Class::Boolean) => safe(&safe(&array, &DataType::Float64)?, to),
        (Class::Decimal(..), Class::Float) => to_floats(&array, to),
        (Class::Boolean, Class::Decimal(..)) => safe(&safe(&array, &DataType::Int8)?, to),
        (Class::Float | Class::Decimal(..), LARGEINT_CLASS) => to_largeint(&array),
        (Class::Date | Class::DateTime, _) => {
            let numbers: Int64Array = match array.data_type() {
                DataType::Date32 => array.as_primitive::<Date32Type>().unary(|days| text::date_number(i64::from(days))),
                _ => as_micros(&array)?.unary(text::datetime_number),
            };
            safe(&numbers, to)
        }
        (Class::Int(_), Class::Date | Class::DateTime) => {
            let numbers = safe(&array, &DataType::Int64)?;
            let numbers = numbers.as_primitive::<Int64Type>();
            let points: ArrayRef = match to {
                DataType::Date32 => Arc::new(numbers.unary_opt::<_, Date32Type>(|n| {
                    i32::try_from(datetime_from_number(n)?.div_euclid(DAY_MICROS)).ok()
                })),
                _ => Arc::new(numbers.unary_opt::<_, TimestampMicrosecondType>(datetime_from_number)),
            };
            safe(&points, to)
        }
        (_, Class::Date | Class::DateTime) => {
            let texts = safe(&array, &DataType::Utf8View)?;
            let numbers = texts.as_string_view().iter().map(|text| text.and_then(text::plain_decimal));
            let points: ArrayRef = match to {
                // A date is the number's whole part: a fraction does not round into the next day.
                DataType::Date32 => {
                    let day = |n: &str| datetime_from_number(n.split('.').next()?.parse().ok()?);
                    let days = numbers.map(|n| i32::try_from(day(&n?)?.div_euclid(DAY_MICROS)).ok());
                    Arc::new(days.collect::<Date32Array>())
                }
                _ => {
                    let points = numbers.map(|n| datetime_from_digits(&n?));
                    Arc::new(points.collect::<TimestampMicrosecondArray>())
                }
            };
            safe(&points, to)
        }
        _ => safe(&array, to),
    }
}

/// Makes a column of addresses.
fn addresses_of(values: impl Iterator<Item = Option<Vec<u8>>>, to: &DataType) -> Result<ArrayRef> {
    let width = if *to == address::IPV4 { address::V4_BYTES } else { address::V6_BYTES };
    Ok(Arc::new(FixedSizeBinaryArray::try_from_sparse_iter_with_size(values, width as i32)?))
}

/// Converts numbers to LARGEINT by truncation, as casts to narrower integers do. Arrow would round, because LARGEINT is
/// a decimal to it, and would check for 39 digits only.
fn to_largeint(array: &ArrayRef) -> Result<ArrayRef> {
    let whole: Decimal256Array = match array.data_type() {
        t if t.is_floating() => {
            let doubles = safe(array, &DataType::Float64)?;
            let whole = |v| whole::truncated(v).map(i256::from_i128);
            doubles.as_primitive::<Float64Type>().unary_opt(whole)
        }
        t => {
            let scale = if let Class::Decimal(_, scale, _) = Class::of(t) { scale.max(0) } else { 0 };
            let digits = safe(array, &DataType::Decimal256(DECIMAL256_MAX_PRECISION, scale))?;
            let unit = i256::from_i128(10).pow_checked(scale.unsigned_abs().into())?;
            let whole = |v: i256| v.checked_div(unit).filter(|v| v.to_i128().is_some());
            digits.as_primitive::<Decimal256Type>().unary_opt(whole)
        }
    };
    Ok(Arc::new(whole.with_precision_and_scale(39, 0)?))
}

/// Converts decimals to the nearest floats, as a reader of their text would. Arrow divides the digits by a power of
/// ten, which gives another number where either of the two is not exactly a double.
fn to_floats(array: &ArrayRef, to: &DataType) -> Result<ArrayRef> {
    let DataType::Decimal128(_, scale @ 0..=EXACT_TENS) = array.data_type() else {
        return safe(&safe(array, &DataType::Utf8View)?, to);
    };
    let unit = 10_f64.powi(i32::from(*scale));
    let doubles: Float64Array = array.as_primitive::<Decimal128Type>().unary(|digits| {
        let quotient = digits as f64 / unit;
        match digits.unsigned_abs() <= 1 << f64::MANTISSA_DIGITS {
            true => quotient,
            false => format!("{digits}e-{scale}").parse().unwrap_or(quotient),
        }
    });
    safe(&doubles, to)
}

/// Powers of ten up to this exponent are exactly doubles.
const EXACT_TENS: i8 = 22;

/// Converts times of any unit to microseconds, rounded down; Arrow rounds times before 1970 up.
fn as_micros(array: &ArrayRef) -> Result<TimestampMicrosecondArray> {
    if let Some(nanos) = array.as_primitive_opt::<TimestampNanosecondType>() {
        return Ok(nanos.unary(|time| time.div_euclid(1000)));
    }
    let micros = safe(array, &DATETIME)?;
    Ok(micros.as_primitive::<TimestampMicrosecondType>().clone())
}

fn from_text(array: &StringViewArray, class: Class, to: &DataType, session: Option<Zone>) -> Result<ArrayRef> {
    let values = array.iter();
    let point = |v| match session {
        Some(zone) => text::parse_datetime_in(v, zone),
        None => text::parse_datetime(v),
    };
    let parsed: ArrayRef = match class {
        Class::Float => {
            let doubles: Float64Array = values.map(|v| v.and_then(text::parse_double)).collect();
            Arc::new(doubles)
        }
        Class::UInt64 => {
            let numbers: UInt64Array =
                values.map(|v| v.and_then(text::parse_integer).and_then(|n| u64::try_from(n).ok())).collect();
            Arc::new(numbers)
        }
        Class::Int(_) => {
            let numbers: Int64Array =
                values.map(|v| v.and_then(text::parse_integer).and_then(|n| i64::try_from(n).ok())).collect();
            Arc::new(numbers)
        }
        Class::Decimal(_, 0, true) => {
            let numbers: Decimal256Array =
                values.map(|v| v.and_then(text::parse_integer).map(i256::from_i128)).collect();
            Arc::new(numbers.with_precision_and_scale(39, 0)?)
        }
        Class::Decimal(_, scale, _) => {
            let plain = |v| text::plain_decimal(v).map(|plain| text::cut_fraction(plain, scale));
            let plain: StringArray = values.map(|v| v.and_then(|v: &str| plain(v.trim()))).collect();
            Arc::new(plain)
        }
        Class::Boolean => {
            let booleans: BooleanArray = values.map(|v| v.and_then(text::parse_boolean)).collect();
            Arc::new(booleans)
        }
        Class::Date => {
            let days: Date32Array = values.map(|v| v.and_then(point).map(|p| p.written_days())).collect();
            Arc::new(days)
        }
        _ => {
            let micros: TimestampMicrosecondArray = values.map(|v| v.and_then(point).map(|p| p.micros)).collect();
            Arc::new(micros)
        }
    };
    if parsed.data_type() == to { Ok(parsed) } else { safe(&parsed, to) }
}

fn to_text(array: &ArrayRef, to: &DataType, digits: Option<u8>) -> Result<ArrayRef> {
    fn print<T: arrow::datatypes::ArrowPrimitiveType>(
        array: &PrimitiveArray<T>,
        show: impl Fn(T::Native) -> String,
    ) -> StringViewArray {
        array.iter().map(|v| v.map(&show)).collect()
    }
    let printed: StringViewArray = match array.data_type() {
        DataType::Boolean => array.as_boolean().iter().map(|v| v.map(|b| if b { "1" } else { "0" })).collect(),
        DataType::Float32 => print(array.as_primitive::<Float32Type>(), floats::float),
        DataType::Float64 => print(array.as_primitive::<Float64Type>(), floats::double),
        DataType::Date32 => print(array.as_primitive::<Date32Type>(), |days| text::format_date(days.into())),
        DataType::Timestamp(..) => print(&as_micros(array)?, |t| text::format_datetime_to(t, digits)),
        DataType::Time32(_) | DataType::Time64(_) => {
            print(safe(array, &TIME)?.as_primitive::<Time64MicrosecondType>(), |t| clock::text(t, digits))
        }
        t if t.is_nested() => nested::texts(array, digits)?,
        DataType::Interval(_) => interval::texts(array)?,
        t if is_address(t) => array.as_fixed_size_binary().iter().map(|v| v.map(address::shown)).collect(),
        _ => return safe(array, to),
    };
    if to == &DataType::Utf8View { Ok(Arc::new(printed)) } else { safe(&printed, to) }
}

/// The half of the work that a [`CharterRule`] does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// Before type coercion: IN lists, LIKE, operands that are copied, and values of one column, which no planner hook
    /// sees.
    BeforeCoercion,
    /// After type coercion: casts, and operands that are not copied.
    AfterCoercion,
}

/// The analyzer rule of the charter; it runs twice, around DataFusion's type coercion.
#[derive(Debug)]
pub struct CharterRule {
    stage: Stage,
}

impl CharterRule {
    /// The rule of one stage.
    pub fn new(stage: Stage) -> CharterRule {
        CharterRule { stage }
    }
}

impl AnalyzerRule for CharterRule {
    fn name(&self) -> &str {
        match self.stage {
            Stage::BeforeCoercion => "charter_comparisons",
            Stage::AfterCoercion => "charter_casts",
        }
    }

    fn analyze(&self, plan: LogicalPlan, config: &ConfigOptions) -> Result<LogicalPlan> {
        let stage = self.stage;
        plan.transform_up_with_subqueries(|plan| rewrite_plan(plan, stage, config)).map(|t| t.data)
    }
}

fn rewrite_plan(plan: LogicalPlan, stage: Stage, config: &ConfigOptions) -> Result<Transformed<LogicalPlan>> {
    if matches!(stage, Stage::BeforeCoercion) {
        state_values::check(&plan)?;
    }
    let plan = match (stage, plan) {
        (Stage::BeforeCoercion, LogicalPlan::Filter(mut filter)) => {
            filter.predicate = without_nulls(filter.predicate);
            subqueries::rewrite(LogicalPlan::Filter(filter))?
        }
        // Conditions of ON that go below the join are among its expressions only at this point.
        (Stage::BeforeCoercion, plan @ LogicalPlan::Join(_)) => {
            rewrite_expressions(plan, stage, config)?.transform_data(subqueries::rewrite)?
        }
        (Stage::BeforeCoercion, plan) => subqueries::rewrite(plan)?,
        (Stage::AfterCoercion, plan) => outer_types::settle(plan)?,
    };
    let plan = plan.transform_data(|plan| rewrite_expressions(plan, stage, config))?;
    plan.transform_data(|plan| match (stage, plan) {
        (Stage::BeforeCoercion, LogicalPlan::Join(join)) => lateral::join(join),
        (Stage::AfterCoercion, LogicalPlan::Sort(sort)) => Ok(zeros::order(sort)),
        (Stage::AfterCoercion, plan) => zeros::rows(plan)?.map_data(declared::schema),
        (_, plan) => Ok(Transformed::no(plan)),
    })
}

fn rewrite_expressions(plan: LogicalPlan, stage: Stage, config: &ConfigOptions) -> Result<Transformed<LogicalPlan>> {
    let mut schema = merge_schema(&plan.inputs());
    if let LogicalPlan::TableScan(scan) = &plan {
        let table = DFSchema::try_from_qualified_schema(scan.table_name.clone(), &scan.source.schema())?;
        schema.merge(&table);
    }
    let schema: DFSchemaRef = Arc::new(schema);
    let names = NamePreserver::new(&plan);
    let named = |expr: Expr| -> Result<Transformed<Expr>> {
        let name = names.save(&expr);
        let expr = expr.transform_up(|e| rewrite_expr(e, stage, &schema, config))?;
        Ok(expr.update_data(|e| name.restore(e)))
    };
    let rewritten = plan.map_expressions(|expr| match &expr {
        // Its keys have names, the set has none.
        Expr::GroupingSet(_) => expr.map_children(named),
        _ => named(expr),
    })?;
    if rewritten.transformed {
        let plan = rewritten.data.recompute_schema()?;
        return Ok(Transformed::yes(plan));
    }
    Ok(rewritten)
}

pub(super) fn rewrite_expr(
    expr: Expr,
    stage: Stage,
    schema: &DFSchema,
    config: &ConfigOptions,
) -> Result<Transformed<Expr>> {
    match (stage, expr) {
        (Stage::AfterCoercion, Expr::Cast(Cast { expr, field })) => Ok(replace_cast(*expr, field, false, schema)),
        (Stage::AfterCoercion, Expr::TryCast(TryCast { expr, field })) => Ok(replace_cast(*expr, field, true, schema)),
        (Stage::BeforeCoercion, Expr::InList(list)) => {
            let null = list.list.iter().any(is_null) && !list.list.iter().all(is_null);
            let InList { expr, list, negated } = list;
            let (list, nulls): (Vec<_>, Vec<_>) = list.into_iter().partition(|item| !null || !is_null(item));
            let items = in_list(InList { expr, list, negated }, schema)?;
            if nulls.is_empty() {
                return Ok(items);
            }
            // DataFusion's optimizer takes lists for sets, in which NULL is one more value: `x IN (1, 2, NULL) AND x IN
            // (2, 3)` became `x IN (2)`.
            let unknown = Expr::Literal(ScalarValue::Boolean(None), None);
            let operator = if negated { Operator::And } else { Operator::Or };
            Ok(Transformed::yes(binary(items.data, operator, unknown)))
        }
        // The rows of a NOT IN: an `=` whose sides are never NULL can be the condition of a hash join.
        (Stage::BeforeCoercion, Expr::IsNotFalse(compared))
            if matches!(&*compared, Expr::BinaryExpr(e) if e.op == Operator::Eq) && !compared.nullable(schema)? =>
        {
            Ok(Transformed::yes(*compared))
        }
        (Stage::BeforeCoercion, Expr::Like(like)) => like_on_text(like, schema),
        (Stage::BeforeCoercion, Expr::Case(case)) => {
            let (case, changed) = once::chosen(case, schema)?;
            let case = mixed::case(case, schema);
            Ok(Transformed { transformed: case.transformed || changed, ..case })
        }
        (Stage::BeforeCoercion, Expr::ScalarFunction(function)) if once::is_open(&function) => {
            once::copied(function, schema)
        }
        (Stage::AfterCoercion, Expr::ScalarFunction(function)) if once::is_open(&function) => {
            Ok(Transformed::yes(once::closed(function, schema, config)?))
        }
        (Stage::AfterCoercion, Expr::HigherOrderFunction(call)) if lambda_calls::is_open(&call) => {
            Ok(Transformed::yes(lambda_calls::closed(call, schema)?))
        }
        (Stage::AfterCoercion, Expr::ScalarFunction(function)) if chain::is_open(&function) => {
            Ok(Transformed::yes(chain::closed(function, schema, config)?))
        }
        (Stage::AfterCoercion, Expr::ScalarFunction(function)) => {
            let (function, changed) = with_days(function, schema);
            let done = declared::arguments(function, schema);
            Ok(Transformed { transformed: done.transformed || changed, ..done })
        }
        (Stage::BeforeCoercion, Expr::ScalarFunction(function)) => Ok(mixed::arguments(function, schema)),
        (Stage::AfterCoercion, Expr::BinaryExpr(mut compared)) => {
            match system_text::comparison(&mut compared, schema) {
                true => Ok(Transformed::yes(Expr::BinaryExpr(compared))),
                false => Ok(zeros::comparison(compared, schema)),
            }
        }
        (Stage::AfterCoercion, Expr::InList(mut list)) => match system_text::in_list(&mut list, schema) {
            true => Ok(Transformed::yes(Expr::InList(list))),
            false => Ok(zeros::in_list(list, schema)),
        },
        (Stage::AfterCoercion, Expr::Like(like)) => Ok(system_text::like(like, schema)),
        (Stage::AfterCoercion, Expr::InSubquery(list)) => zeros::in_subquery(list, schema),
        (Stage::AfterCoercion, Expr::Case(case)) => Ok(zeros::case(case, schema)),
        (Stage::AfterCoercion, Expr::AggregateFunction(function)) => Ok(zeros::aggregate(function, schema)),
        (Stage::BeforeCoercion, Expr::WindowFunction(function)) => {
            ranges::with_exact_bounds(members_of_frames(with_default(function, schema)?, schema)?, schema)
        }
        (Stage::AfterCoercion, Expr::WindowFunction(function)) => Ok(zeros::keys(function, schema)),
        (_, expr) => Ok(Transformed::no(expr)),
    }
}

fn replace_cast(expr: Expr, field: FieldRef, try_cast: bool, schema: &DFSchema) -> Transformed<Expr> {
    let expr = match of_json(expr, field.data_type(), schema) {
        Ok(done) => return Transformed::yes(done),
        Err(expr) => expr,
    };
    if let Ok(from) = expr.get_type(schema)
        && differs(&from, field.data_type())
    {
        let to = Class::of(field.data_type());
        if Class::of(&from) == Class::Time && matches!(to, Class::Date | Class::DateTime) {
            let point = declared::argument_of(of_today(expr), schema).data;
            return match to == Class::DateTime {
                true => Transformed::yes(point),
                false => Transformed::yes(Expr::TryCast(TryCast { expr: Box::new(point), field })),
            };
        }
        let cast = MySqlCast::call(&field, expr);
        return declared::argument_of(cast, schema);
    }
    Transformed::no(if try_cast {
        Expr::TryCast(TryCast { expr: Box::new(expr), field })
    } else {
        Expr::Cast(Cast { expr: Box::new(expr), field })
    })
}

/// Returns the point in time that is a TIME after the beginning of the statement's day, as MySQL makes a DATETIME of a
/// TIME.
pub(super) fn of_today(time: Expr) -> Expr {
    datetime::call("timestamp", vec![datetime::call("curdate", Vec::new()), time])
}

/// Makes points in time of the TIMEs that a function of dates takes; returns whether there are any.
fn with_days(mut function: ScalarFunction, schema: &DFSchema) -> (ScalarFunction, bool) {
    let name = function.func.name();
    let of_day = |unit: &Expr| {
        let unit = if let Expr::Literal(unit, _) = unit { unit.try_as_str().flatten() } else { None };
        let unit = unit.unwrap_or_default().trim().to_ascii_lowercase();
        ["hour", "minute", "second", "milli", "micro"].iter().all(|of_time| !unit.starts_with(of_time))
    };
    let wanted = match (name, function.args.as_slice()) {
        ("timestamp", _) => 0..1,
        ("date_part", [unit, _]) if of_day(unit) => 1..2,
        (name, args) if datetime::is_of_points(name) && !datetime::takes_time(name) => 0..args.len(),
        _ => return (function, false),
    };
    let is_time = |e: &Expr| e.get_type(schema).is_ok_and(|t| Class::of(&t) == Class::Time);
    if !function.args.iter().any(is_time) || is_time(&Expr::ScalarFunction(function.clone())) {
        return (function, false);
    }
    let mut changed = false;
    for arg in function.args.iter_mut().take(wanted.end).skip(wanted.start).filter(|arg| is_time(arg)) {
        *arg = of_today(std::mem::take(arg));
        changed = true;
    }
    (function, changed)
}

/// Casts a document or a VARIANT to text, a number or a truth value, which it holds in other characters than text
/// does. Returns the expression itself if it is neither, or the type is another one.
fn of_json(expr: Expr, to: &DataType, schema: &DFSchema) -> Result<Expr, Expr> {
    let class = Class::of(to);
    let is_single = matches!(class, Class::Text | Class::Boolean | Class::Date | Class::DateTime) || class.is_number();
    let is_text = expr.get_type(schema).is_ok_and(|t| Class::of(&t) == Class::Text);
    if !is_text || !(is_single || is_time(to)) {
        return Err(expr);
    }
    match declared::declared(&expr, schema).as_deref() {
        Some(JSON) => {}
        // The text of a VARIANT is what a cast to text gives.
        Some(VARIANT) if class == Class::Text => {
            let text = Expr::Cast(Cast::new(Box::new(expr), to.clone()));
            return Ok(Typed::declare(text, declared::TEXT));
        }
        Some(VARIANT) => {}
        _ => return Err(expr),
    }
    let content = json_content_udf(match class {
        Class::Text => Content::Text,
        Class::Boolean => Content::Flag,
        _ => Content::Scalar,
    });
    let content = Expr::ScalarFunction(ScalarFunction::new_udf(Arc::new(content), vec![expr]));
    Ok(match class {
        Class::Text if *to == DataType::Utf8View => content,
        Class::Boolean => content,
        _ => MySqlCast::call(&Field::new("", to.clone(), true), content),
    })
}

/// Gives LAG and LEAD a constant default of the type of their values. DataFusion would cast the constant by Arrow's
/// rules.
fn with_default(mut function: Box<WindowFunction>, schema: &DFSchema) -> Result<Box<WindowFunction>> {
    if !matches!(function.fun.name(), "lag" | "lead") {
        return Ok(function);
    }
    let [value, _, default] = function.params.args.as_mut_slice() else { return Ok(function) };
    let (Ok(to), Ok(from)) = (value.get_type(schema), default.get_type(schema)) else { return Ok(function) };
    if to.is_null() || from.is_null() || from == to {
        return Ok(function);
    }
    match default {
        Expr::Literal(literal, _) => {
            let cast = cast_values(&literal.to_array()?, &to).ok().filter(|cast| cast.is_valid(0));
            if let Some(cast) = cast {
                *literal = ScalarValue::try_from_array(&cast, 0)?;
            }
        }
        // Constants such as 1e3, which are evaluated later.
        constant => *constant = cast_to(std::mem::take(constant), to, schema),
    }
    Ok(function)
}

fn is_null(item: &Expr) -> bool {
    matches!(item, Expr::Literal(value, _) if value.is_null())
}

/// Removes NULLs from the lists of a condition of WHERE. There FALSE and NULL both drop the row, and a scan can prune
/// more by the rest.
fn without_nulls(condition: Expr) -> Expr {
    match condition {
        Expr::BinaryExpr(BinaryExpr { left, op: Operator::And, right }) => {
            binary(without_nulls(*left), Operator::And, without_nulls(*right))
        }
        Expr::InList(mut list) if !list.negated && !list.list.iter().all(is_null) => {
            list.list.retain(|item| !is_null(item));
            Expr::InList(list)
        }
        other => other,
    }
}

/// Coerces `x IN (..)`: each item compares as `x = item` would. Items for which x has to be converted in different ways
/// are lists of their own: the text 'abc' is in ('abc', 5), whose 5 it is compared with as a number.
fn in_list(list: InList, schema: &DFSchema) -> Result<Transformed<Expr>> {
    let InList { expr, list, negated } = list;
    let is_boolean = expr.get_type(schema).is_ok_and(|t| t == DataType::Boolean);
    let list = if is_boolean { list.into_iter().map(super::operators::bit).collect() } else { list };
    let rebuilt = |expr, list| Expr::InList(InList { expr: Box::new(expr), list, negated });
    let Ok(t) = expr.get_type(schema) else { return Ok(Transformed::no(rebuilt(*expr, list))) };
    let class = Class::of(&t);
    let types: Vec<Option<DataType>> = list.iter().map(|e| e.get_type(schema).ok()).collect();
    let classes: Vec<Class> = types.iter().flatten().map(Class::of).collect();
    let differ =
        |c: &Class| *c != Class::Null && *c != Class::Other && (c.is_number() != class.is_number() || *c != class);
    // DataFusion would turn all sides into decimals or doubles, but not every double is a decimal, or the reverse.
    let mixed = match class {
        Class::Float => types.iter().flatten().any(|item| meet_as_double(&t, item)),
        _ => classes.contains(&Class::Float),
    };
    let nested = t.is_nested() && types.iter().flatten().any(|item| item.is_nested() && !t.equals_datatype(item));
    let wide = wide_decimal(types.iter().flatten().chain([&t])).is_some();
    let is_plain = class == Class::Other && !is_address(&t)
        || !classes.iter().any(differ)
        || classes.iter().all(|c| c.is_number() || *c == Class::Null) && class.is_number() && !mixed && !wide;
    if types.len() != classes.len() || is_plain && !nested {
        return Ok(Transformed::no(rebuilt(*expr, list)));
    }
    let is_double = |c: &Class| class.is_number() && class != Class::Float && *c == Class::Float;
    // Each form of x, and the items that it is compared with.
    let mut lists: Vec<(Expr, Vec<Expr>)> = Vec::new();
    for ((item, item_type), item_class) in list.into_iter().zip(types.into_iter().flatten()).zip(&classes) {
        let (x, item) = match is_double(item_class) {
            true => (cast_to((*expr).clone(), DataType::Float64, schema), item),
            false => compare::sides((*expr).clone(), &t, class, item, &item_type, *item_class, schema),
        };
        let item = if x == *expr { item } else { cast_to(item, x.get_type(schema)?, schema) };
        match lists.iter_mut().find(|(known, _)| *known == x) {
            Some((_, items)) => items.push(item),
            None => lists.push((x, vec![item])),
        }
    }
    if expr.is_volatile() && lists.len() > 1 {
        return not_impl_err!(
            "a random value IN a list of different types is not supported; compute the value in a derived table"
        );
    }
    let lists = lists.into_iter().map(|(x, items)| rebuilt(x, items)).collect();
    let all = in_lists::in_pairs(lists, if negated { Operator::And } else { Operator::Or });
    all.map(Transformed::yes).ok_or_else(|| internal_datafusion_err!("IN without items"))
}

/// LIKE over bytes, which need not be valid text.
fn like_on_bytes(like: Like) -> Result<Expr> {
    let Like { negated, expr, pattern, escape_char, case_insensitive } = like;
    if case_insensitive {
        return not_impl_err!("ILIKE is not supported for BINARY, whose bytes have no case; CAST(x AS STRING) is text");
    }
    let escape = lit(escape_char.unwrap_or('\\').to_string());
    let call = like_udf().call(vec![*expr, *pattern, escape]);
    Ok(if negated { Expr::Not(Box::new(call)) } else { call })
}

/// LIKE over text: operands of other types are cast to text first.
fn like_on_text(mut like: Like, schema: &DFSchema) -> Result<Transformed<Expr>> {
    if [&like.expr, &like.pattern].iter().any(|side| side.get_type(schema).is_ok_and(|t| is_bytes(&t))) {
        return like_on_bytes(like).map(Transformed::yes);
    }
    let mut changed = false;
    for side in [&mut like.expr, &mut like.pattern] {
        if let Ok(t) = side.get_type(schema)
            && (is_address(&t) || !matches!(Class::of(&t), Class::Text | Class::Null | Class::Other))
        {
            let inner = std::mem::replace(side.as_mut(), Expr::Literal(ScalarValue::Null, None));
            **side = cast_to(inner, DataType::Utf8View, schema);
            changed = true;
        }
    }
    Ok(if changed { Transformed::yes(Expr::Like(like)) } else { Transformed::no(Expr::Like(like)) })
}
