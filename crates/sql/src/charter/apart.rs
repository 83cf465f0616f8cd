//! Columns whose values keep types of their own, for the VALUES of an INSERT.
//!
//! A column of a query has one type, and the common type of `1e3` and `'x'` is text. An INSERT casts each value to the
//! type of the table's column, and the answer must not depend on the values of other rows. So the cells of such a column
//! are arguments of the function [`mark`] writes, and the planners of VALUES ([`super::values`]) and of UNION
//! ([`super::unions`]) make a struct of them, which has one field for each type among the cells and in each row a value
//! in one field at most. The one who stores the rows takes the fields apart ([`parts`]) and casts each of them.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, StructArray, new_null_array};
use arrow::datatypes::{DataType, Field, FieldRef, Fields};
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use dipper_dialect::tree::call;
use sqlparser::ast;

use super::names::MARK;

/// The function around cells. (It is not a name in SQL.)
const NAME: &str = "dipper_apart";

/// The key of the metadata by which the columns of a UNION's inputs tell that their cells keep their types.
const KEY: &str = "dipper.apart";

/// Makes the call that says that a cell keeps its type, whatever the other rows have in its column.
pub fn mark(cell: ast::Expr) -> ast::Expr {
    call(NAME, vec![cell])
}

/// Returns the function behind [`mark`], which returns its argument.
pub(super) fn function() -> Arc<ScalarUDF> {
    Arc::new(ScalarUDF::new_from_impl(Apart { signature: Signature::any(1, Volatility::Immutable) }))
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Apart {
    signature: Signature,
}

impl ScalarUDFImpl for Apart {
    fn name(&self) -> &str {
        NAME
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, types: &[DataType]) -> Result<DataType> {
        Ok(types.first().cloned().unwrap_or(DataType::Null))
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        let value = &args.arg_fields[0];
        let mut metadata = value.metadata().clone();
        metadata.insert(KEY.to_string(), String::new());
        Ok(Arc::new(Field::new(NAME, value.data_type().clone(), true).with_metadata(metadata)))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        Ok(args.args.into_iter().next().unwrap_or(ColumnarValue::Scalar(ScalarValue::Null)))
    }
}

/// Whether a cell of VALUES keeps its type.
pub(super) fn is_marked(cell: &Expr) -> bool {
    matches!(cell, Expr::ScalarFunction(call) if call.func.name() == NAME)
}

/// Returns the cell inside the mark.
pub(super) fn unmarked(cell: Expr) -> Expr {
    match cell {
        Expr::ScalarFunction(mut call) if call.func.name() == NAME && call.args.len() == 1 => call.args.swap_remove(0),
        other => other,
    }
}

/// Whether the cells of a column keep their types.
pub(super) fn is_apart(field: &Field) -> bool {
    field.metadata().contains_key(KEY)
}

/// The types among the cells of a column, each once.
pub(super) struct Kinds(Vec<DataType>);

impl Kinds {
    /// Returns the types among these, without NULL's; `None` if there are not several.
    pub(super) fn of<'a>(types: impl Iterator<Item = &'a DataType>) -> Option<Kinds> {
        let mut kinds: Vec<DataType> = Vec::new();
        for data_type in types.filter(|t| !t.is_null()) {
            if !kinds.contains(data_type) {
                kinds.push(data_type.clone());
            }
        }
        (kinds.len() > 1).then_some(Kinds(kinds))
    }

    /// Makes the struct of a cell of one of the types, or of NULL.
    pub(super) fn part(&self, cell: Expr, data_type: &DataType) -> Result<Expr> {
        let Some(at) = self.0.iter().position(|kind| kind == data_type) else {
            return Ok(Expr::Literal(ScalarValue::try_from(&DataType::Struct(fields(self.0.iter())))?, None));
        };
        if let Expr::Literal(value, _) = &cell {
            return Ok(Expr::Literal(ScalarValue::Struct(Arc::new(one_of(&self.0, at, value.to_array()?)?)), None));
        }
        let signature = Signature::any(1, Volatility::Immutable);
        let part = Arc::new(ScalarUDF::new_from_impl(Part { kinds: self.0.clone(), at, signature }));
        Ok(Expr::ScalarFunction(ScalarFunction::new_udf(part, vec![cell])))
    }
}

/// The function that makes the struct of values of one of the types.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Part {
    kinds: Vec<DataType>,
    /// The position of the values' type.
    at: usize,
    signature: Signature,
}

impl ScalarUDFImpl for Part {
    fn name(&self) -> &str {
        "dipper_part"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Struct(fields(self.kinds.iter())))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let values = ColumnarValue::values_to_arrays(&args.args)?.swap_remove(0);
        let is_one = args.args.iter().all(|arg| matches!(arg, ColumnarValue::Scalar(_)));
        let packed = Arc::new(one_of(&self.kinds, self.at, values)?);
        Ok(match is_one {
            true => ColumnarValue::Scalar(ScalarValue::Struct(packed)),
            false => ColumnarValue::Array(packed),
        })
    }
}

fn fields<'a>(kinds: impl Iterator<Item = &'a DataType>) -> Fields {
    kinds.enumerate().map(|(at, kind)| Field::new(format!("{MARK}part{at}"), kind.clone(), true)).collect()
}

/// Makes the structs of values of one type.
fn one_of(kinds: &[DataType], at: usize, values: ArrayRef) -> Result<StructArray> {
    let rows = values.len();
    let columns = kinds.iter().enumerate().map(|(kind, data_type)| match kind == at {
        true => Arc::clone(&values),
        false => new_null_array(data_type, rows),
    });
    let columns = columns.collect();
    Ok(StructArray::try_new(fields(kinds.iter()), columns, None)?)
}

/// Makes one column of several of one length, of which at most one has a value in a row.
///
/// # Panics
/// If the columns differ in length.
pub fn packed(columns: Vec<ArrayRef>) -> ArrayRef {
    let fields = fields(columns.iter().map(|column| column.data_type()));
    Arc::new(StructArray::new(fields, columns, None))
}

/// Returns the columns of which [`packed`], or a planner, made this one; `None` for other columns.
pub fn parts(column: &ArrayRef) -> Option<&[ArrayRef]> {
    let DataType::Struct(fields) = column.data_type() else { return None };
    let is_packed = fields.first().is_some_and(|field| field.name().starts_with(MARK));
    is_packed.then(|| column.as_struct().columns())
}
