//! 64-bit integer arithmetic that fails instead of wrapping.

use std::hash::Hash;

use arrow::array::{Array, ArrayRef, Datum};
use arrow::datatypes::DataType;
use arrow::error::ArrowError;
use datafusion::common::{DataFusionError, Result, ScalarValue};
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility};
use dipper_dialect::error::SqlError;

/// The operation of a [`Checked`] function.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CheckedOp {
    /// `+`
    Add,
    /// `-`
    Subtract,
    /// `*`
    Multiply,
}

/// `BIGINT op BIGINT op ...` as BIGINT, evaluated from left to right; a result out of range is an error (MySQL's 1690).
///
/// A chain is one call with many arguments, because the time to plan nested calls grows with the cube of their depth.
#[derive(Debug, PartialEq, Eq, Hash)]
pub struct Checked {
    op: CheckedOp,
    signature: Signature,
}

impl Checked {
    /// Returns the function of one operation.
    pub fn new(op: CheckedOp) -> Checked {
        Checked { op, signature: Signature::variadic(vec![DataType::Int64], Volatility::Immutable) }
    }

    fn symbol(&self) -> char {
        match self.op {
            CheckedOp::Add => '+',
            CheckedOp::Subtract => '-',
            CheckedOp::Multiply => '*',
        }
    }

    fn apply(&self, left: &dyn Datum, right: &dyn Datum) -> std::result::Result<ArrayRef, ArrowError> {
        use arrow::compute::kernels::numeric::{add, mul, sub};
        match self.op {
            CheckedOp::Add => add(left, right),
            CheckedOp::Subtract => sub(left, right),
            CheckedOp::Multiply => mul(left, right),
        }
    }
}

/// Returns MySQL's error for a result that leaves its type: 1690, SQLSTATE 22003.
pub fn out_of_range(message: String) -> DataFusionError {
    DataFusionError::External(Box::new(SqlError { code: 1690, sqlstate: "22003", message, position: None }))
}

impl ScalarUDFImpl for Checked {
    fn name(&self) -> &str {
        match self.op {
            CheckedOp::Add => "add",
            CheckedOp::Subtract => "subtract",
            CheckedOp::Multiply => "multiply",
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Int64)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let datum = |value: &ColumnarValue| -> Result<Box<dyn Datum>> {
            Ok(match value {
                ColumnarValue::Array(array) => Box::new(array.clone()),
                ColumnarValue::Scalar(scalar) => Box::new(scalar.to_scalar()?),
            })
        };
        let all_scalars = args.args.iter().all(|a| matches!(a, ColumnarValue::Scalar(_)));
        let mut result: Option<ColumnarValue> = None;
        for argument in &args.args {
            let Some(left) = result.take() else {
                result = Some(argument.clone());
                continue;
            };
            let value = self.apply(datum(&left)?.as_ref(), datum(argument)?.as_ref()).map_err(|e| match e {
                ArrowError::ArithmeticOverflow(detail) => out_of_range(format!(
                    "BIGINT value is out of range in '{}' ({detail}); cast an operand to LARGEINT, DECIMAL or DOUBLE",
                    self.symbol()
                )),
                other => other.into(),
            })?;
            debug_assert_eq!(value.data_type(), &DataType::Int64);
            let one = matches!((&left, argument), (ColumnarValue::Scalar(_), ColumnarValue::Scalar(_)));
            result = Some(if one || all_scalars {
                ColumnarValue::Scalar(ScalarValue::try_from_array(&value, 0)?)
            } else {
                ColumnarValue::Array(value)
            });
        }
        result.ok_or_else(|| DataFusionError::Internal("checked arithmetic takes arguments".into()))
    }
}
