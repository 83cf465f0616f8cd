//! Fields of structs, and values as JSON.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, StructArray};
use arrow::compute::{is_null, nullif};
use arrow::datatypes::{DataType, Fields};
use datafusion::common::{Result, ScalarValue, exec_err, plan_err};
use datafusion::logical_expr::ReturnFieldArgs;
use dipper_base::json::write_variant;
use dipper_base::types::SqlType;

use super::args::{Args, Col, to_text};
use super::array::{lists, span};
use super::bytes::is_bytes;
use super::func::{Def, Ret, def};
use super::json::{json_parse, write_quoted};
use super::json_path::document;
use crate::charter::nested;
use crate::type_text::Sql;

/// Name of the function that makes JSON of any value.
pub const TO_JSON: &str = "to_json";

/// Name of the function that builds a JSON object from an array of names and an array of values. (It is not a name in
/// SQL.)
pub const JSON_MEMBERS: &str = "dipper_json_members";

/// Name of the function behind CAST(x AS JSON). (It is not a name in SQL.)
pub const CAST_JSON: &str = "dipper_cast_json";

/// Name of the function behind CAST(x AS VARIANT). (It is not a name in SQL.)
pub const CAST_VARIANT: &str = "dipper_cast_variant";

/// Name of the function behind CAST(x AS ARRAY<...>) and its like, where SQL's type says more than Arrow's. (It is not a
/// name in SQL.)
pub const CAST_PARTS: &str = "dipper_cast_parts";

/// Name of the function that makes a struct without fields. (It is not a name in SQL.)
pub const EMPTY_STRUCT: &str = "dipper_empty_struct";

/// Functions of this file.
pub const DEFS: &[Def] = &[
    def("struct_element", &[], (2, 2), Ret::By(element_type), struct_element),
    def(TO_JSON, &[], (1, 1), Ret::Json, to_json),
    // Text is read as JSON, other values are written as JSON.
    def(CAST_JSON, &[], (1, 1), Ret::Json, |a| match a.data_type(0) {
        t if t.is_string() || is_bytes(t) => json_parse(a, false),
        DataType::Null => Ok(a.nulls()),
        _ => to_json(a),
    }),
    // Text that is no JSON is a string, which is shown by its characters.
    def(CAST_VARIANT, &[], (1, 1), Ret::Variant, |a| {
        let values = match a.data_type(0) {
            DataType::Null => return Ok(a.nulls()),
            t if t.is_string() || is_bytes(t) => a.text(0)?,
            _ => {
                let values = a.raw(0);
                Col { array: nested::json(&values.array, a.digits(0), a.declared(0).as_ref())?, one: values.one }
            }
        };
        a.texts(|i, out| {
            let value = values.at(i)?;
            match document(value) {
                Some(document) => write_variant(out, document),
                None => out.push_str(value),
            }
            Some(())
        })
    }),
    def(EMPTY_STRUCT, &[], (0, 0), Ret::By(|_| Ok(DataType::Struct(Fields::empty()))), |a| {
        Ok(Arc::new(StructArray::new_empty_fields(a.rows, None)))
    }),
    def(JSON_MEMBERS, &[], (2, 2), Ret::Json, json_members),
];

fn to_json(a: &Args) -> Result<ArrayRef> {
    let values = a.raw(0);
    let texts = nested::json(&values.array, a.digits(0), a.declared(0).as_ref())?;
    a.texts(|i, out| {
        let row = if values.one { 0 } else { i };
        out.push_str(texts.is_valid(row).then(|| texts.value(row))?);
        Some(())
    })
}

/// Returns the field that a constant names, or whose position it is, counted from 1.
fn field_at(fields: &Fields, wanted: Option<&ScalarValue>) -> Result<usize> {
    let names = || fields.iter().map(|f| f.name().as_str()).collect::<Vec<_>>().join(", ");
    let found = match wanted {
        Some(value) => match (value.try_as_str().flatten(), value.cast_to(&DataType::Int64)) {
            (Some(name), _) => fields.iter().position(|f| f.name().eq_ignore_ascii_case(name)),
            (None, Ok(ScalarValue::Int64(Some(n)))) => {
                usize::try_from(n).ok().and_then(|n| n.checked_sub(1)).filter(|at| *at < fields.len())
            }
            _ => None,
        },
        None => None,
    };
    match found {
        Some(at) => Ok(at),
        None => plan_err!(
            "struct_element: expected a constant name or number of one of the {} fields ({}), found {}",
            fields.len(),
            names(),
            wanted.map_or("no constant".to_string(), ToString::to_string)
        ),
    }
}

fn element_type(args: &ReturnFieldArgs) -> Result<DataType> {
    match args.arg_fields[0].data_type() {
        DataType::Struct(fields) => Ok(fields[field_at(fields, args.scalar_arguments[1])?].data_type().clone()),
        DataType::Null => Ok(DataType::Null),
        t => plan_err!("struct_element: expected a STRUCT, found {}", Sql(t)),
    }
}

fn struct_element(a: &Args) -> Result<ArrayRef> {
    let (structs, wanted) = (a.full(0)?, a.raw(1));
    let DataType::Struct(fields) = structs.data_type() else { return Ok(a.nulls()) };
    let wanted = if wanted.one { Some(ScalarValue::try_from_array(&wanted.array, 0)?) } else { None };
    let column = structs.as_struct().column(field_at(fields, wanted.as_ref())?);
    // A NULL struct has no fields, whatever its children contain.
    Ok(nullif(column, &is_null(&structs)?)?)
}

/// Builds an object from `[names], [values]`; the last of equal names wins.
fn json_members(a: &Args) -> Result<ArrayRef> {
    let (names, values) = (lists(a, 0)?, lists(a, 1)?);
    let texts = to_text(a.name, names.array.values())?;
    let item = if let Some(SqlType::Array(item)) = a.declared(1) { Some(*item) } else { None };
    let json = nested::json(values.array.values(), a.digits(1), item.as_ref())?;
    let (mut missing, mut uneven) = (false, false);
    let out = a.texts(|i, out| {
        let (of_names, of_values) = (span(&names, i)?, span(&values, i)?);
        uneven |= of_names.len() != of_values.len();
        let mut members = indexmap::IndexMap::new();
        for (name, value) in of_names.zip(of_values) {
            missing |= texts.is_null(name);
            members.insert(texts.value(name), value);
        }
        out.push('{');
        for (k, (name, at)) in members.into_iter().enumerate() {
            if k > 0 {
                out.push(',');
            }
            write_quoted(out, name);
            out.push(':');
            out.push_str(if json.is_valid(at) { json.value(at) } else { "null" });
        }
        out.push('}');
        Some(())
    })?;
    if missing {
        return exec_err!("json_objectagg: expected a key, found NULL");
    }
    if uneven {
        return exec_err!("{}: expected as many values as names", a.name);
    }
    Ok(out)
}
