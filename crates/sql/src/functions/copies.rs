//! Memory for large constants that become columns.
//!
//! An operator that needs a value for each row copies a constant as many times as there are rows: a list of a million
//! numbers takes 64 GB for 8,192 rows, and DataFusion reserves no memory for it. So a large constant that is used as a
//! column becomes the argument of a call that [asks](super::growth) for the memory of all copies before they are made.
//! Functions, IN lists and comparisons can use a single value, and functions ask by themselves for what they make of
//! it.

use std::sync::{Arc, LazyLock};

use arrow::array::ArrayRef;
use arrow::datatypes::{DataType, FieldRef};
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{Result, ScalarValue, plan_err};
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

use super::growth::{Growth, bytes_of};

/// Size in bytes from which on a constant is large: memory is asked for up to 8,192 copies of it.
const LARGE: usize = 1 << 10;

/// The name of the call.
const NAME: &str = "dipper_copies";

/// Returns the bytes of a copy of a constant. Copies of a text share its bytes.
fn bytes_of_copy(value: &ScalarValue) -> usize {
    let list: ArrayRef = match value {
        ScalarValue::List(list) => Arc::clone(list) as ArrayRef,
        ScalarValue::Map(map) => Arc::clone(map) as ArrayRef,
        ScalarValue::Struct(fields) => Arc::clone(fields) as ArrayRef,
        ScalarValue::Utf8View(_) | ScalarValue::BinaryView(_) => return size_of::<u128>(),
        other => return other.size(),
    };
    bytes_of(&list)
}

fn is_large(expr: &Expr) -> bool {
    matches!(expr, Expr::Literal(value, _) if bytes_of_copy(value) > LARGE)
}

/// Whether an expression contains a large constant.
#[must_use]
pub fn has_large_constant(expr: &Expr) -> bool {
    expr.exists(|e| Ok(is_large(e))).unwrap_or(false)
}

/// Wraps the large constants that are used as columns in calls that ask for memory.
///
/// # Errors
/// No error of its own.
pub fn ask_for_copies(expr: Expr) -> Result<Expr> {
    asked(expr, true)
}

/// Does the work of [`ask_for_copies`]. `rows`: the operator above needs a column.
fn asked(expr: Expr, rows: bool) -> Result<Expr> {
    if is_large(&expr) {
        return Ok(match rows {
            true => Expr::ScalarFunction(ScalarFunction::new_udf(Arc::clone(&COPIES), vec![expr])),
            false => expr,
        });
    }
    let (first, others) = match &expr {
        Expr::ScalarFunction(_) | Expr::InList(_) | Expr::BinaryExpr(_) | Expr::Like(_) | Expr::SimilarTo(_) => {
            (false, false)
        }
        Expr::Alias(_) | Expr::Cast(_) | Expr::TryCast(_) => (rows, rows),
        // The other arguments are settings: separators, modes, fractions.
        Expr::AggregateFunction(_) | Expr::WindowFunction(_) => (true, false),
        _ => (true, true),
    };
    let mut rows = first;
    let asked = expr.map_children(|child| {
        let rows = std::mem::replace(&mut rows, others);
        Ok(Transformed::yes(asked(child, rows)?))
    });
    Ok(asked?.data)
}

static COPIES: LazyLock<Arc<ScalarUDF>> = LazyLock::new(|| {
    let signature = Signature::any(1, Volatility::Immutable);
    Arc::new(ScalarUDF::new_from_impl(Copies { signature }))
});

/// A function that returns its argument and asks for the memory of a copy of it per row.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Copies {
    signature: Signature,
}

impl ScalarUDFImpl for Copies {
    fn name(&self) -> &str {
        NAME
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        match types {
            [one] => Ok(one.clone()),
            _ => plan_err!("{NAME} takes a constant"),
        }
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        match args.arg_fields {
            [field] => Ok(Arc::clone(field)),
            _ => plan_err!("{NAME} takes a constant"),
        }
    }

    fn invoke_with_args(&self, mut args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        match args.args.pop() {
            Some(ColumnarValue::Scalar(value)) => {
                let bytes = bytes_of_copy(&value).saturating_mul(args.number_rows);
                Growth::new("a large constant", &args.config_options).add(bytes)?;
                Ok(ColumnarValue::Scalar(value))
            }
            Some(column) => Ok(column),
            None => plan_err!("{NAME} takes a constant"),
        }
    }
}

#[cfg(test)]
mod tests {
    use arrow::datatypes::Field;
    use datafusion::common::DataFusionError;
    use datafusion::common::config::ConfigOptions;
    use datafusion::execution::memory_pool::{GreedyMemoryPool, MemoryPool};
    use datafusion::functions_aggregate::expr_fn::count;
    use datafusion::logical_expr::{col, lit, when};

    use super::super::SessionInfo;
    use super::super::growth::Memory;
    use super::*;

    fn list(items: i64) -> ScalarValue {
        let items: Vec<ScalarValue> = (0..items).map(ScalarValue::from).collect();
        ScalarValue::List(ScalarValue::new_list(&items, &DataType::Int64, true))
    }

    fn large() -> Expr {
        lit(list(1000))
    }

    fn call() -> Expr {
        Expr::ScalarFunction(ScalarFunction::new_udf(Arc::clone(&COPIES), vec![large()]))
    }

    #[test]
    fn constants_that_stand_for_rows() {
        let asked = |e: Expr| ask_for_copies(e).unwrap();
        assert_eq!(asked(large()), call());
        assert_eq!(asked(large().alias("a")), call().alias("a"));
        let chosen = |value: Expr| when(col("k").gt(lit(1i64)), value).otherwise(col("a")).unwrap();
        assert_eq!(asked(chosen(large())), chosen(call()));
        assert_eq!(asked(count(large())), count(call()));
        assert!(has_large_constant(&chosen(large())) && !has_large_constant(&chosen(lit(list(3)))));
        for content in [lit(list(3)), col("a").eq(large()), col("a").in_list(vec![large()], false)] {
            assert_eq!(asked(content.clone()), content);
        }
        // A copy of a text takes no more than its view.
        let text = lit(ScalarValue::Utf8View(Some("a".repeat(100_000))));
        assert_eq!(asked(text.clone()), text);
    }

    #[test]
    fn all_copies_are_asked_for() {
        let pool: Arc<dyn MemoryPool> = Arc::new(GreedyMemoryPool::new(100 << 20));
        let mut config = ConfigOptions::new();
        config.extensions.insert(SessionInfo { memory: Some(Memory(Arc::clone(&pool))), ..SessionInfo::default() });
        let config = Arc::new(config);
        let field = Arc::new(Field::new("lit", list(0).data_type(), true));
        let invoked = |number_rows: usize| {
            COPIES.invoke_with_args(ScalarFunctionArgs {
                args: vec![ColumnarValue::Scalar(list(1000))],
                arg_fields: vec![Arc::clone(&field)],
                number_rows,
                return_field: Arc::clone(&field),
                config_options: Arc::clone(&config),
            })
        };
        assert!(matches!(invoked(4_000).unwrap(), ColumnarValue::Scalar(_)));
        assert!(matches!(invoked(8_192), Err(DataFusionError::ResourcesExhausted(_))));
        assert_eq!(pool.reserved(), 0);
    }
}
