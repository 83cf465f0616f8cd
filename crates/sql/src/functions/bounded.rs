//! DataFusion's functions that copy their arguments into their result.
//!
//! A constant list of a million values beside a column is copied for each of 8,192 rows, which is 64 GB. So the bytes
//! of a call's arguments, times the number of rows, are [asked for](super::growth) first.

use std::hash::{Hash, Hasher};
use std::sync::{Arc, LazyLock};

use arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::{
    ArrayFunctionSignature, ColumnarValue, Documentation, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF,
    ScalarUDFImpl, Signature, TypeSignature,
};

use super::array_sets::common_arrays;
use super::growth::{Growth, bytes_of};
use super::map_keys::last_of_equal;

/// Wraps `inner` under these other names; it asks for memory before it allocates.
pub(super) fn bounded(inner: Arc<ScalarUDF>, aliases: &[&str]) -> ScalarUDF {
    let aliases = aliases.iter().map(|alias| (*alias).to_owned()).collect();
    let signature = match &inner.signature().type_signature {
        // DataFusion accepts NULL for an array but not for a map.
        map @ TypeSignature::ArraySignature(ArrayFunctionSignature::MapArray) => Signature::one_of(
            vec![map.clone(), TypeSignature::Exact(vec![DataType::Null])],
            inner.signature().volatility,
        ),
        _ if takes_common(&inner) => Signature::user_defined(inner.signature().volatility),
        _ => inner.signature().clone(),
    };
    ScalarUDF::new_from_impl(Bounded { inner, aliases, signature })
}

/// Whether the arguments are two arrays that become one type: the result has elements of both, or elements of one that
/// are compared with those of the other.
fn takes_common(function: &ScalarUDF) -> bool {
    matches!(function.name(), "array_union" | "array_intersect" | "array_except")
}

/// Returns the function that makes maps of lists of keys and values.
pub(crate) fn map_udf() -> Arc<ScalarUDF> {
    static FUNCTION: LazyLock<Arc<ScalarUDF>> =
        LazyLock::new(|| Arc::new(bounded(datafusion::functions_nested::map::map_udf(), &[])));
    Arc::clone(&FUNCTION)
}

/// Asks for the bytes of the arguments, times the number of rows.
///
/// # Errors
/// `ResourcesExhausted` if there is no room for them; `Execution` if the statement has ended, so that nobody waits for
/// it.
pub(crate) fn ask_for_arguments(args: &ScalarFunctionArgs) -> Result<()> {
    // A single row is computed if all arguments are constants.
    let rows = match args.args.iter().all(|arg| matches!(arg, ColumnarValue::Scalar(_))) {
        true => 1,
        false => args.number_rows,
    };
    let held = args.args.iter().map(|arg| match arg {
        ColumnarValue::Array(array) => bytes_of(array),
        ColumnarValue::Scalar(value) => value.size().saturating_mul(rows),
    });
    Growth::new("a function", &args.config_options).add(held.fold(0, usize::saturating_add))
}

/// A function that asks for memory before it allocates.
#[derive(Debug)]
struct Bounded {
    inner: Arc<ScalarUDF>,
    aliases: Vec<String>,
    signature: Signature,
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
        &self.aliases
    }

    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        self.inner.inner().schema_name(args)
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arg_types: &[DataType]) -> Result<DataType> {
        match arg_types {
            [DataType::Null] => Ok(DataType::Null),
            _ => self.inner.return_type(arg_types),
        }
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        super::still_wanted()?;
        if let [field] = args.arg_fields
            && field.data_type().is_null()
        {
            return Ok(Arc::new(Field::new(self.name(), DataType::Null, true)));
        }
        self.inner.return_field_from_args(args)
    }

    fn coerce_types(&self, arg_types: &[DataType]) -> Result<Vec<DataType>> {
        match takes_common(&self.inner) {
            true => common_arrays(self.name(), arg_types),
            false => self.inner.coerce_types(arg_types),
        }
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

    fn invoke_with_args(&self, mut args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        if let [ColumnarValue::Scalar(ScalarValue::Null)] = args.args.as_slice() {
            return Ok(ColumnarValue::Scalar(ScalarValue::Null));
        }
        ask_for_arguments(&args)?;
        if self.inner.name() == "map" {
            args.args = last_of_equal(args.args, args.number_rows)?;
        }
        self.inner.invoke_with_args(args)
    }
}
