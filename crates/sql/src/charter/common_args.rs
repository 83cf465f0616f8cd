//! DataFusion's functions whose arguments become one type: which one is [`mixed::charter_type`]'s to say.
//!
//! The planner asks for the type as soon as it sees the call, before any rule could change an argument.

use std::sync::Arc;

use arrow::datatypes::{DataType, FieldRef};
use datafusion::common::Result;
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
};

use super::mixed;

/// A function of DataFusion's with the charter's common type.
#[derive(Debug, PartialEq, Eq, Hash)]
struct CommonArgs {
    inner: Arc<ScalarUDF>,
}

/// COALESCE.
pub(super) fn coalesce() -> Arc<ScalarUDF> {
    around(datafusion::functions::core::coalesce())
}

/// What makes arrays, and the keys and values of maps.
pub(super) fn make_array() -> Arc<ScalarUDF> {
    around(datafusion::functions_nested::make_array::make_array_udf())
}

fn around(inner: Arc<ScalarUDF>) -> Arc<ScalarUDF> {
    Arc::new(ScalarUDF::new_from_impl(CommonArgs { inner }))
}

impl ScalarUDFImpl for CommonArgs {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn aliases(&self) -> &[String] {
        self.inner.aliases()
    }

    fn signature(&self) -> &Signature {
        self.inner.signature()
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        self.inner.return_type(types)
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        self.inner.return_field_from_args(args)
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        match mixed::charter_type(types.iter()) {
            Some(common) => Ok(vec![common; types.len()]),
            None => self.inner.coerce_types(types),
        }
    }

    fn simplify(&self, args: Vec<Expr>, info: &SimplifyContext) -> Result<ExprSimplifyResult> {
        self.inner.simplify(args, info)
    }

    fn conditional_arguments<'a>(&self, args: &'a [Expr]) -> Option<(Vec<&'a Expr>, Vec<&'a Expr>)> {
        self.inner.conditional_arguments(args)
    }

    fn short_circuits(&self) -> bool {
        self.inner.short_circuits()
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        self.inner.invoke_with_args(args)
    }
}
