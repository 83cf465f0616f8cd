//! Parts of structs, and values as JSON.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::compute::{is_null, nullif};
use arrow::datatypes::{DataType, Fields};
use datafusion::common::{Result, ScalarValue, exec_err, plan_err};
use datafusion::logical_expr::ReturnFieldArgs;

use super::args::Args;
use super::func::{Def, Ret, def};
use super::json::write_quoted;
use super::json_path::compact;
use crate::charter::nested;

/// Name of the function that makes one JSON object of an array of names and one of values. (Not a name of SQL.)
pub const JSON_MEMBERS: &str = "dipper_json_members";

/// Functions of this file.
pub const DEFS: &[Def] = &[
    def("struct_element", &[], (2, 2), Ret::By(element_type), struct_element),
    def("to_json", &[], (1, 1), Ret::Text, |a| {
        let values = a.raw(0);
        let texts = nested::json(&values.array)?;
        a.texts(|i, out| {
            let row = if values.one { 0 } else { i };
            out.push_str(texts.is_valid(row).then(|| texts.value(row))?);
            Some(())
        })
    }),
    def(JSON_MEMBERS, &[], (2, 2), Ret::Text, json_members),
];

/// The field that a constant names, or counts from 1.
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
        t => plan_err!("struct_element: expected a STRUCT, found {t}"),
    }
}

fn struct_element(a: &Args) -> Result<ArrayRef> {
    let (structs, wanted) = (a.full(0)?, a.raw(1));
    let DataType::Struct(fields) = structs.data_type() else { return Ok(a.nulls()) };
    let wanted = if wanted.one { Some(ScalarValue::try_from_array(&wanted.array, 0)?) } else { None };
    let column = structs.as_struct().column(field_at(fields, wanted.as_ref())?);
    // A NULL struct has no fields, whatever stands below it.
    Ok(nullif(column, &is_null(&structs)?)?)
}

/// `[names], [values]` as an object; the last of equal names wins.
fn json_members(a: &Args) -> Result<ArrayRef> {
    let (names, values) = (a.raw(0), a.raw(1));
    let (name_lists, value_lists) =
        (super::as_list("json_objectagg", &names.array)?, super::as_list("json_objectagg", &values.array)?);
    let (texts, json) = (
        super::args::to_text("json_objectagg", name_lists.values())?,
        nested::json(&Arc::clone(value_lists.values()))?,
    );
    let mut missing = false;
    let out = a.texts(|i, out| {
        let (n, v) = (if names.one { 0 } else { i }, if values.one { 0 } else { i });
        if name_lists.is_null(n) || value_lists.is_null(v) {
            return None;
        }
        let (from, to) = (name_lists.value_offsets()[n] as usize, name_lists.value_offsets()[n + 1] as usize);
        let shift = value_lists.value_offsets()[v] as usize;
        let mut members = indexmap::IndexMap::new();
        for at in from..to {
            missing |= texts.is_null(at);
            members.insert(texts.value(at), shift + at - from);
        }
        out.push('{');
        for (k, (name, at)) in members.into_iter().enumerate() {
            if k > 0 {
                out.push(',');
            }
            write_quoted(out, name);
            out.push(':');
            if json.is_valid(at) { compact(out, json.value(at)) } else { out.push_str("null") }
        }
        out.push('}');
        Some(())
    })?;
    if missing {
        return exec_err!("json_objectagg: expected a key, found NULL");
    }
    Ok(out)
}
