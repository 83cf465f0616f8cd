//! Functions that return their argument under another name or SQL type.

use std::sync::Arc;

use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::expr::{Cast, ScalarFunction, TryCast};
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility, lit,
};

use super::declared::{digits_of, has_names};
use crate::metadata::{DIGITS_KEY, TYPE_KEY};

/// Name of the function around the casts of a query.
pub(super) const CAST_NAME: &str = "dipper_cast";

/// Name of the function around the casts of a query that fail where they would give NULL.
pub(super) const STRICT_NAME: &str = "dipper_strict_cast";

/// Name of the function around TRY_CAST AS a nested type.
pub(super) const WHOLE_NAME: &str = "dipper_whole_cast";

/// Name of the function that declares the SQL type of its argument.
pub(super) const TYPED_NAME: &str = "dipper_typed";

/// Two functions that return their first argument.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(super) struct Typed {
    /// Whether this is the function around casts, which is only a name: DataFusion's names leave casts out, and it
    /// takes `max(a)` and `max(CAST(a AS STRING))` for two columns of one name. The optimizer removes this function,
    /// unless the cast loses values. The other function stays, and its field carries the type that its second argument
    /// names.
    cast: bool,
    signature: Signature,
}

impl Typed {
    pub(super) fn cast() -> Typed {
        Typed { cast: true, signature: Signature::any(2, Volatility::Immutable) }
    }

    /// Declares the SQL type `text` of `expr`; an empty text says nothing beyond the Arrow type.
    pub(super) fn declare(expr: Expr, text: &str) -> Expr {
        let udf = Typed { cast: false, signature: Signature::any(2, Volatility::Immutable) };
        let udf = Arc::new(ScalarUDF::new_from_impl(udf));
        Expr::ScalarFunction(ScalarFunction::new_udf(udf, vec![expr, lit(text)]))
    }
}

/// Whether this is a cast of a column that can turn different values into one, or into NULL. DataFusion would compare
/// the column itself instead: `CAST(k AS SMALLINT) > 1` would be true for 1000000, which is NULL as a SMALLINT.
fn loses_values(expr: &Expr, info: &SimplifyContext) -> Result<bool> {
    let (Expr::Cast(Cast { expr, field, .. }) | Expr::TryCast(TryCast { expr, field, .. })) = expr else {
        return Ok(false);
    };
    if matches!(expr.as_ref(), Expr::Literal(..)) {
        return Ok(false);
    }
    // The digits before and after the point.
    let digits = |t: &DataType| match t {
        DataType::UInt8 => Some((3, 0)),
        DataType::UInt16 => Some((5, 0)),
        DataType::UInt32 => Some((10, 0)),
        DataType::UInt64 => Some((20, 0)),
        DataType::Int8 => Some((3, 0)),
        DataType::Int16 => Some((5, 0)),
        DataType::Int32 => Some((10, 0)),
        DataType::Int64 => Some((19, 0)),
        DataType::Decimal32(p, s)
        | DataType::Decimal64(p, s)
        | DataType::Decimal128(p, s)
        | DataType::Decimal256(p, s) => Some((i16::from(*p) - i16::from(*s), i16::from(*s))),
        _ => None,
    };
    let (from, to) = (info.get_data_type(expr)?, field.data_type());
    let decimals = from.is_decimal() || to.is_decimal();
    Ok(match (digits(&from), digits(to)) {
        _ if from == *to => false,
        (Some((whole, fraction)), Some((most, finest))) if decimals => {
            // An integer type does not hold all numbers with as many digits as its largest one.
            most < whole || finest < fraction || to.is_integer() && most == whole
        }
        (Some((whole, _)), Some((most, _))) => most < whole || from.is_signed_integer() != to.is_signed_integer(),
        // For casts between text and numbers or dates, DataFusion compares the original only where that is equivalent.
        _ => false,
    })
}

impl ScalarUDFImpl for Typed {
    fn name(&self) -> &str {
        if self.cast { CAST_NAME } else { TYPED_NAME }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        Ok(types.first().cloned().unwrap_or(DataType::Null))
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        let value = &args.arg_fields[0];
        let field = Field::new(self.name(), value.data_type().clone(), value.is_nullable());
        let text = args.scalar_arguments.get(1).copied().flatten().and_then(ScalarValue::try_as_str).flatten();
        Ok(Arc::new(match text {
            Some(text) if !self.cast && !text.is_empty() => {
                let key = if has_names(text) { DIGITS_KEY } else { TYPE_KEY };
                field.with_metadata([(key.to_string(), text.to_string())].into())
            }
            // A cast between other types says nothing of the type that the value had.
            _ if self.cast && digits_of(value).is_some() => field.with_metadata(value.metadata().clone()),
            _ => field,
        }))
    }

    fn simplify(&self, mut args: Vec<Expr>, info: &SimplifyContext) -> Result<ExprSimplifyResult> {
        Ok(match self.cast && !loses_values(&args[0], info)? {
            true => ExprSimplifyResult::Simplified(args.swap_remove(0)),
            false => ExprSimplifyResult::Original(args),
        })
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        Ok(args.args.into_iter().next().unwrap_or(ColumnarValue::Scalar(ScalarValue::Null)))
    }
}
