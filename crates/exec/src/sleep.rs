//! SLEEP(seconds), which waits without occupying a thread, so that KILL and timeouts end it.

use std::sync::Arc;
use std::time::Duration;

use arrow::array::{ArrayRef, AsArray, BooleanArray};
use arrow::datatypes::{DataType, Float64Type};
use async_trait::async_trait;
use datafusion::common::{Result, exec_err, internal_err};
use datafusion::logical_expr::async_udf::{AsyncScalarUDF, AsyncScalarUDFImpl};
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility};

/// The function SLEEP: waits for each row and returns whether it was a second or longer, as in Doris. NULL waits for
/// nothing and returns NULL.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Sleep {
    signature: Signature,
}

/// Returns the function for the registry.
pub fn udf() -> ScalarUDF {
    let signature = Signature::exact(vec![DataType::Float64], Volatility::Volatile);
    AsyncScalarUDF::new(Arc::new(Sleep { signature })).into_scalar_udf()
}

impl ScalarUDFImpl for Sleep {
    fn name(&self) -> &str {
        "sleep"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Boolean)
    }

    fn invoke_with_args(&self, _: ScalarFunctionArgs) -> Result<ColumnarValue> {
        internal_err!("sleep is awaited, not called")
    }
}

#[async_trait]
impl AsyncScalarUDFImpl for Sleep {
    async fn invoke_async_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let seconds = args.args[0].to_array(args.number_rows)?;
        let seconds = seconds.as_primitive::<Float64Type>();
        for value in seconds.iter().flatten() {
            let Ok(time) = Duration::try_from_secs_f64(value) else {
                return exec_err!("sleep: expected a number of seconds, found {value}");
            };
            tokio::time::sleep(time).await;
        }
        let slept: BooleanArray = seconds.iter().map(|s| s.map(|s| s >= 1.0)).collect();
        Ok(ColumnarValue::Array(Arc::new(slept) as ArrayRef))
    }
}
