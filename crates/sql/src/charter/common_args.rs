//! Wrappers of DataFusion's functions whose arguments become one type, which [`charter_type`] determines.
//!
//! The planner asks for the type as soon as it sees the call, before any rule can change an argument.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef};
use arrow::compute::is_null;
use arrow::compute::kernels::zip::zip;
use arrow::datatypes::{DataType, FieldRef};
use datafusion::common::{DataFusionError, Result, ScalarValue, plan_err};
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
};

use super::once;
use crate::class::{charter_type, coerced};
use crate::functions::{ask_for_arguments, is_bytes};
use crate::metadata::set_type;

/// A function of DataFusion's that takes the charter's common type.
#[derive(Debug, PartialEq, Eq, Hash)]
struct CommonArgs {
    inner: Arc<ScalarUDF>,
    aliases: Vec<String>,
    /// Whether this is COALESCE, which DataFusion can only run as a CASE.
    coalesces: bool,
}

/// Returns COALESCE and the constructor of arrays.
pub(crate) fn functions() -> [Arc<ScalarUDF>; 2] {
    [around(datafusion::functions::core::coalesce(), &[], true), make_array()]
}

/// Returns the constructor of arrays, which makes the keys and values of maps as well.
pub(super) fn make_array() -> Arc<ScalarUDF> {
    around(datafusion::functions_nested::make_array::make_array_udf(), &["array"], false)
}

fn around(inner: Arc<ScalarUDF>, aliases: &[&str], coalesces: bool) -> Arc<ScalarUDF> {
    let aliases = aliases.iter().map(|alias| (*alias).to_owned()).collect();
    Arc::new(ScalarUDF::new_from_impl(CommonArgs { inner, aliases, coalesces }))
}

/// Evaluates COALESCE: the first of the arguments that is not NULL. All arguments are of one type.
fn first_present(args: ScalarFunctionArgs) -> Result<ColumnarValue> {
    let one = args.args.iter().all(|a| matches!(a, ColumnarValue::Scalar(_)));
    let rows = if one { 1 } else { args.number_rows };
    let mut found: Option<ArrayRef> = None;
    for arg in args.args {
        found = Some(match found {
            None => arg.into_array(rows)?,
            Some(values) if values.logical_null_count() == 0 => values,
            Some(values) => zip(&is_null(&values)?, &arg.into_array(rows)?, &values)?,
        });
    }
    match found {
        Some(values) if one => Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&values, 0)?)),
        Some(values) => Ok(ColumnarValue::Array(values)),
        None => Err(DataFusionError::Internal("COALESCE takes arguments".into())),
    }
}

impl ScalarUDFImpl for CommonArgs {
    fn name(&self) -> &str {
        self.inner.name()
    }

    fn aliases(&self) -> &[String] {
        &self.aliases
    }

    fn signature(&self) -> &Signature {
        self.inner.signature()
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        self.inner.return_type(types)
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        let set = args.arg_fields.iter().find_map(|field| set_type(field));
        let is_other = |field: &FieldRef| !is_bytes(field.data_type()) && !field.data_type().is_null();
        if let Some(set) = set.filter(|_| args.arg_fields.iter().any(is_other)) {
            return plan_err!("{}: {} beside values of another type", self.name(), set.to_uppercase());
        }
        let types = args.arg_fields.iter().map(|field| field.data_type());
        let Some(common) = charter_type(types).filter(|t| t.is_decimal() || is_bytes(t)) else {
            return self.inner.return_field_from_args(args);
        };
        // A BOOLEAN beside decimals, and a number beside bytes, have not been cast yet.
        let of_common = |field: &FieldRef| Arc::new(field.as_ref().clone().with_data_type(common.clone())) as FieldRef;
        let fields: Vec<FieldRef> = args.arg_fields.iter().map(of_common).collect();
        self.inner.return_field_from_args(ReturnFieldArgs { arg_fields: &fields, ..args })
    }

    fn coerce_types(&self, types: &[DataType]) -> Result<Vec<DataType>> {
        match charter_type(types.iter()) {
            Some(common) => Ok(types.iter().map(|t| coerced(t, &common)).collect()),
            None => self.inner.coerce_types(types),
        }
    }

    fn simplify(&self, args: Vec<Expr>, info: &SimplifyContext) -> Result<ExprSimplifyResult> {
        // The CASE contains each argument but the last twice: an argument that must not be copied is evaluated for all
        // rows instead.
        let stays = args.split_last().is_some_and(|(_, twice)| !twice.iter().all(once::may_be_copied));
        match self.coalesces && stays {
            true => Ok(ExprSimplifyResult::Original(args)),
            false => self.inner.simplify(args, info),
        }
    }

    fn conditional_arguments<'a>(&self, args: &'a [Expr]) -> Option<(Vec<&'a Expr>, Vec<&'a Expr>)> {
        self.inner.conditional_arguments(args)
    }

    fn short_circuits(&self) -> bool {
        self.inner.short_circuits()
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        ask_for_arguments(&args)?;
        match self.coalesces {
            true => first_present(args),
            false => self.inner.invoke_with_args(args),
        }
    }
}
