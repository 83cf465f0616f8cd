//! Conversion of a file's columns to the table's current columns: fields by id or by name, types promoted.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, ListArray, MapArray, StructArray, UInt32Array, new_null_array};
use arrow::buffer::OffsetBuffer;
use arrow::compute::take;
use arrow::datatypes::{DataType, Field, FieldRef, Fields};
use arrow::error::ArrowError;
use dipper_store::segment::{can_convert, convert};

use crate::schema::FIELD_ID;

/// Returns the Iceberg field id of an Arrow field.
pub fn field_id(field: &Field) -> Option<i32> {
    field.metadata().get(FIELD_ID)?.parse().ok()
}

/// Conversion of an array of one field to an array of another.
#[derive(Debug, Clone, PartialEq)]
pub enum Shape {
    /// No change.
    Same,
    /// Cast to another primitive type.
    Cast,
    /// Conversion of each field of a struct.
    Struct(Vec<Part>),
    /// Conversion of the elements.
    List(Box<Shape>),
    /// Conversion of keys and values.
    Map(Box<Shape>, Box<Shape>),
}

/// Source of a field of a struct.
#[derive(Debug, Clone, PartialEq)]
pub enum Part {
    /// Its index in the file's struct, and its conversion.
    Of(usize, Shape),
    /// The file has no such field: its value in each row, as an array of one; `None` for NULL.
    Missing(Option<ArrayRef>),
}

/// Returns the value of a field of the table in files that lack it, as an array of one; `None` for NULL.
pub type Defaults<'a> = dyn Fn(&Field) -> Result<Option<ArrayRef>, String> + 'a;

/// Returns the conversion of `from`, a field of a file, to `to`, a field of the table; fields of structs are found by
/// id.
///
/// # Errors
/// A text, if no promotion leads from one type to the other; the error of `defaults`.
pub fn shape(from: &Field, to: &Field, defaults: &Defaults<'_>) -> Result<Shape, String> {
    shaped(from, to, &|have, want| want.iter().map(|w| position(have, w)).collect(), defaults)
}

/// Returns the conversion like [`shape`], with fields of structs found by name, as in [`places`].
///
/// # Errors
/// A text, if no cast leads from one type to the other.
pub fn shape_by_name(from: &Field, to: &Field) -> Result<Shape, String> {
    shaped(from, to, &places, &|_| Ok(None))
}

/// Returns the index in `have` of each wanted field: by name, else by name without regard to case. Each field of `have`
/// is used for at most one wanted field.
pub fn places(have: &Fields, want: &Fields) -> Vec<Option<usize>> {
    let mut places: Vec<Option<usize>> = vec![None; want.len()];
    let mut free: Vec<bool> = vec![true; have.len()];
    let mut by_name: HashMap<&str, Vec<usize>> = HashMap::new();
    let mut by_folded: HashMap<String, Vec<usize>> = HashMap::new();
    for (at, field) in have.iter().enumerate().rev() {
        by_name.entry(field.name()).or_default().push(at);
        by_folded.entry(field.name().to_ascii_lowercase()).or_default().push(at);
    }
    let mut take = |found: Option<&mut Vec<usize>>| {
        let found = found?;
        while let Some(at) = found.pop() {
            if std::mem::take(&mut free[at]) {
                return Some(at);
            }
        }
        None
    };
    for (place, field) in places.iter_mut().zip(want) {
        *place = take(by_name.get_mut(field.name().as_str()));
    }
    for (place, field) in places.iter_mut().zip(want) {
        if place.is_none() {
            *place = take(by_folded.get_mut(&field.name().to_ascii_lowercase()));
        }
    }
    places
}

/// Finds the fields of a table's struct among those of a file's struct.
type Find<'a> = dyn Fn(&Fields, &Fields) -> Vec<Option<usize>> + 'a;

fn shaped(from: &Field, to: &Field, find: &Find<'_>, defaults: &Defaults<'_>) -> Result<Shape, String> {
    let bad = || format!("column '{}' is {} in the file, {} in the table", to.name(), from.data_type(), to.data_type());
    if from.data_type() == to.data_type() {
        return Ok(Shape::Same);
    }
    match (from.data_type(), to.data_type()) {
        (DataType::Struct(have), DataType::Struct(want)) => {
            let one = |(w, place): (&FieldRef, Option<usize>)| match place {
                None => Ok(Part::Missing(defaults(w)?)),
                Some(at) => Ok(Part::Of(at, shaped(&have[at], w, find, defaults)?)),
            };
            Ok(Shape::Struct(want.iter().zip(find(have, want)).map(one).collect::<Result<_, String>>()?))
        }
        // Writers of files choose freely among these list types; a table has only one.
        (DataType::List(have) | DataType::LargeList(have) | DataType::FixedSizeList(have, _), DataType::List(want)) => {
            Ok(Shape::List(Box::new(shaped(have, want, find, defaults)?)))
        }
        (DataType::Map(have, _), DataType::Map(want, _)) => match (have.data_type(), want.data_type()) {
            (DataType::Struct(h), DataType::Struct(w)) if h.len() == 2 && w.len() == 2 => {
                let part = |at: usize| shaped(&h[at], &w[at], find, defaults).map(Box::new);
                Ok(Shape::Map(part(0)?, part(1)?))
            }
            _ => Err(bad()),
        },
        (a, b) if a.is_nested() || b.is_nested() => Err(bad()),
        (a, b) if can_convert(a, b) => Ok(Shape::Cast),
        _ => Err(bad()),
    }
}

/// Returns the index of a table's field among a file's fields, by id; both must have one.
pub fn position(have: &Fields, want: &Field) -> Option<usize> {
    let id = field_id(want)?;
    have.iter().position(|f| field_id(f) == Some(id))
}

/// Converts `array` to the type of `to` by `shape`.
///
/// # Errors
/// [`ArrowError`] if a value does not fit, which a promotion cannot cause.
pub fn reshape(array: &ArrayRef, shape: &Shape, to: &Field) -> Result<ArrayRef, ArrowError> {
    Ok(match (shape, to.data_type()) {
        (Shape::Same, _) => Arc::clone(array),
        (Shape::Struct(parts), DataType::Struct(fields)) => {
            let have = array.as_struct();
            let columns = parts
                .iter()
                .zip(fields)
                .map(|(part, field)| match part {
                    Part::Missing(None) => Ok(new_null_array(field.data_type(), have.len())),
                    // Readers of a struct's field do not check whether the struct itself is NULL.
                    Part::Missing(Some(one)) => {
                        take(one, &UInt32Array::new(vec![0; have.len()].into(), have.nulls().cloned()), None)
                    }
                    Part::Of(at, inner) => reshape(have.column(*at), inner, field),
                })
                .collect::<Result<Vec<_>, ArrowError>>()?;
            let nulls = have.nulls().cloned();
            match fields.is_empty() {
                true => Arc::new(StructArray::new_empty_fields(have.len(), nulls)),
                false => Arc::new(StructArray::try_new(fields.clone(), columns, nulls)?),
            }
        }
        (Shape::List(inner), DataType::List(field)) => {
            let (offsets, values) = match array.data_type() {
                DataType::LargeList(_) => {
                    let have = array.as_list::<i64>();
                    let offsets = have.offsets().iter().map(|o| i32::try_from(*o)).collect::<Result<Vec<_>, _>>();
                    let offsets = offsets.map_err(|_| {
                        ArrowError::CastError(format!("column '{}': 2^31 elements or more in a batch", to.name()))
                    })?;
                    (OffsetBuffer::new(offsets.into()), have.values())
                }
                DataType::FixedSizeList(_, elements) => {
                    let have = array.as_fixed_size_list();
                    (OffsetBuffer::from_repeated_length(*elements as usize, have.len()), have.values())
                }
                _ => {
                    let have = array.as_list::<i32>();
                    (have.offsets().clone(), have.values())
                }
            };
            let values = reshape(values, inner, field)?;
            Arc::new(ListArray::try_new(Arc::clone(field), offsets, values, array.nulls().cloned())?)
        }
        (Shape::Map(key, value), DataType::Map(entries, sorted)) => {
            let have = array.as_map();
            let DataType::Struct(fields) = entries.data_type() else {
                return Err(ArrowError::CastError("a map without entries".into()));
            };
            let columns = vec![reshape(have.keys(), key, &fields[0])?, reshape(have.values(), value, &fields[1])?];
            let made = StructArray::try_new(fields.clone(), columns, None)?;
            Arc::new(MapArray::try_new(
                Arc::clone(entries),
                have.offsets().clone(),
                made,
                have.nulls().cloned(),
                *sorted,
            )?)
        }
        _ => convert(array, to.data_type())?,
    })
}

/// Returns the fields of a file without ids, with the ids that a name mapping (property `schema.name-mapping.default`)
/// gives them. Fields that the mapping does not name get none.
///
/// # Errors
/// A text, if the mapping is not valid JSON.
pub fn with_mapped_ids(fields: &Fields, mapping: &str) -> Result<Fields, String> {
    let json: serde_json::Value =
        serde_json::from_str(mapping).map_err(|e| format!("schema.name-mapping.default: {e}"))?;
    Ok(mapped(fields, &json))
}

fn mapped(fields: &Fields, mapping: &serde_json::Value) -> Fields {
    let entry = |name: &str| {
        mapping.as_array()?.iter().find(|e| {
            e.get("names")
                .and_then(|n| n.as_array())
                .is_some_and(|names| names.iter().any(|n| n.as_str() == Some(name)))
        })
    };
    let one = |f: &FieldRef, name: &str| -> FieldRef {
        let Some(found) = entry(name) else { return Arc::clone(f) };
        let children = found.get("fields").cloned().unwrap_or_default();
        let under = |child: &FieldRef, name: &str| mapped_child(child, name, &children);
        let data_type = match f.data_type() {
            DataType::Struct(inner) => DataType::Struct(mapped(inner, &children)),
            DataType::List(element) => DataType::List(under(element, "element")),
            DataType::LargeList(element) => DataType::LargeList(under(element, "element")),
            DataType::FixedSizeList(element, n) => DataType::FixedSizeList(under(element, "element"), *n),
            DataType::Map(entries, sorted) => match entries.data_type() {
                DataType::Struct(kv) if kv.len() == 2 => {
                    let kv = Fields::from(vec![under(&kv[0], "key"), under(&kv[1], "value")]);
                    let entries = entries.as_ref().clone().with_data_type(DataType::Struct(kv));
                    DataType::Map(Arc::new(entries), *sorted)
                }
                _ => f.data_type().clone(),
            },
            other => other.clone(),
        };
        let mut made = f.as_ref().clone().with_data_type(data_type);
        if let Some(id) = found.get("field-id").and_then(serde_json::Value::as_i64) {
            let mut metadata = made.metadata().clone();
            metadata.insert(FIELD_ID.into(), id.to_string());
            made.set_metadata(metadata);
        }
        Arc::new(made)
    };
    fields.iter().map(|f| one(f, f.name())).collect()
}

fn mapped_child(child: &FieldRef, name: &str, mapping: &serde_json::Value) -> FieldRef {
    let renamed = Fields::from(vec![child.as_ref().clone().with_name(name)]);
    let made = mapped(&renamed, mapping);
    Arc::new(made[0].as_ref().clone().with_name(child.name()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow::array::{
        FixedSizeBinaryArray, FixedSizeListArray, Int32Array, Int64Array, LargeListArray, StringArray,
        TimestampNanosecondArray,
    };
    use arrow::buffer::NullBuffer;
    use arrow::datatypes::{Int64Type, TimeUnit, TimestampMicrosecondType};

    fn field(id: i32, name: &str, t: DataType) -> FieldRef {
        Arc::new(Field::new(name, t, true).with_metadata([(FIELD_ID.to_string(), id.to_string())].into()))
    }

    fn no_defaults(_: &Field) -> Result<Option<ArrayRef>, String> {
        Ok(None)
    }

    #[test]
    fn fields_are_found_by_id_and_types_promoted() {
        let a: ArrayRef = Arc::new(Int32Array::from(vec![1, 2]));
        let b: ArrayRef = Arc::new(StringArray::from(vec!["x", "y"]));
        let have = Fields::from(vec![field(1, "a", DataType::Int32), field(2, "b", DataType::Utf8)]);
        let array: ArrayRef = Arc::new(StructArray::new(have.clone(), vec![a, b], None));
        let from = field(9, "s", DataType::Struct(have));
        // Renamed, reordered, promoted, one dropped, one added.
        let want = Fields::from(vec![field(3, "a", DataType::Utf8), field(1, "z", DataType::Int64)]);
        let to = field(9, "s", DataType::Struct(want));
        let made = reshape(&array, &shape(&from, &to, &no_defaults).unwrap(), &to).unwrap();
        let made = made.as_struct();
        assert_eq!(made.column(0).null_count(), 2);
        assert_eq!(made.column(1).as_ref(), &Int64Array::from(vec![1, 2]) as &dyn Array);
        assert!(shape(&field(1, "a", DataType::Int32), &to, &no_defaults).unwrap_err().contains("'s'"));
    }

    /// A struct in a list, to which fields were added.
    #[test]
    fn fields_that_a_file_lacks_have_their_defaults() {
        let have = Fields::from(vec![field(1, "a", DataType::Int32)]);
        let a: ArrayRef = Arc::new(Int32Array::from(vec![1, 2, 3]));
        let structs: ArrayRef =
            Arc::new(StructArray::new(have.clone(), vec![a], Some(NullBuffer::from(vec![true, false, true]))));
        let element = field(6, "element", DataType::Struct(have));
        let offsets = OffsetBuffer::<i32>::from_lengths([2, 0, 1]);
        let list: ArrayRef = Arc::new(ListArray::new(Arc::clone(&element), offsets, structs, None));
        let from = field(5, "l", list.data_type().clone());
        let added = Field::clone(&field(2, "b", DataType::Utf8)).with_nullable(false);
        let want = vec![field(3, "c", DataType::Int32), Arc::new(added), field(1, "a", DataType::Int64)];
        let to = field(5, "l", DataType::List(field(6, "element", DataType::Struct(want.into()))));
        let defaults = |field: &Field| match field_id(field) {
            Some(2) => Ok(Some(Arc::new(StringArray::from(vec!["x"])) as ArrayRef)),
            _ => Ok(None),
        };
        let made = reshape(&list, &shape(&from, &to, &defaults).unwrap(), &to).unwrap();
        assert_eq!(made.data_type(), to.data_type());
        let made = made.as_list::<i32>();
        assert_eq!((made.value_length(0), made.value_length(1), made.value_length(2)), (2, 0, 1));
        let made = made.values().as_struct();
        assert_eq!((made.is_null(1), made.null_count()), (true, 1));
        assert_eq!(made.column(0).null_count(), 3);
        assert_eq!(made.column(1).as_string::<i32>().iter().collect::<Vec<_>>(), [Some("x"), None, Some("x")]);
        assert_eq!(made.column(2).as_ref(), &Int64Array::from(vec![1, 2, 3]) as &dyn Array);
        let wrong = |_: &Field| Err("the default of column 'b' is no Utf8".to_string());
        assert!(shape(&from, &to, &wrong).is_err());
    }

    #[test]
    fn uuids_become_text_and_times_go_down() {
        let bytes: Vec<u8> = (0..16).collect();
        let uuids = FixedSizeBinaryArray::try_from_sparse_iter_with_size([Some(bytes), None].into_iter(), 16).unwrap();
        let times = TimestampNanosecondArray::from(vec![Some(-1), Some(1999)]);
        for (array, to) in [
            (Arc::new(uuids) as ArrayRef, DataType::Utf8View),
            (Arc::new(times.clone()), DataType::Timestamp(TimeUnit::Microsecond, None)),
            (Arc::new(times.with_timezone("UTC")), DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()))),
        ] {
            // Inside of a struct, where the reader of files does nothing.
            let have = Fields::from(vec![field(1, "a", array.data_type().clone())]);
            let structs: ArrayRef = Arc::new(StructArray::new(have.clone(), vec![array], None));
            let from = field(9, "s", DataType::Struct(have));
            let to = field(9, "s", DataType::Struct(vec![field(1, "a", to)].into()));
            let made = reshape(&structs, &shape(&from, &to, &no_defaults).unwrap(), &to).unwrap();
            let made = made.as_struct().column(0);
            match made.data_type() {
                DataType::Utf8View => {
                    let texts: Vec<_> = made.as_string_view().iter().collect();
                    assert_eq!(texts, [Some("00010203-0405-0607-0809-0a0b0c0d0e0f"), None]);
                }
                _ => assert_eq!(made.as_primitive::<TimestampMicrosecondType>().values()[..], [-1, 1]),
            }
        }
    }

    #[test]
    fn lists_of_all_kinds_become_lists() {
        let rows = [Some(vec![Some(1), None]), None, Some(vec![Some(4), Some(5)])];
        let element = field(6, "element", DataType::Int32);
        let nulls = NullBuffer::from(vec![true, false, true]);
        let values = |v: Vec<Option<i32>>| Arc::new(Int32Array::from(v)) as ArrayRef;
        let lengths = || OffsetBuffer::<i64>::from_lengths([2, 0, 2]);
        let compact = values(vec![Some(1), None, Some(4), Some(5)]);
        let large = LargeListArray::new(Arc::clone(&element), lengths(), compact, Some(nulls.clone()));
        let padded = values(vec![Some(1), None, None, None, Some(4), Some(5)]);
        let fixed = FixedSizeListArray::new(Arc::clone(&element), 2, padded, Some(nulls));
        let to = field(5, "l", DataType::List(field(6, "element", DataType::Int64)));
        for array in [Arc::new(large) as ArrayRef, Arc::new(fixed)] {
            let from = field(5, "l", array.data_type().clone());
            for at in 0..3 {
                let part = array.slice(at, 3 - at);
                let made = reshape(&part, &shape(&from, &to, &no_defaults).unwrap(), &to).unwrap();
                assert_eq!(made.data_type(), to.data_type());
                let made = made.as_list::<i32>();
                for (row, expected) in rows[at..].iter().enumerate() {
                    let found = made.is_valid(row).then(|| {
                        let value = made.value(row);
                        value.as_primitive::<Int64Type>().iter().collect::<Vec<_>>()
                    });
                    let expected = expected.as_ref().map(|v| v.iter().map(|n| n.map(i64::from)).collect::<Vec<_>>());
                    assert_eq!(found, expected);
                }
            }
        }
        let other = field(5, "l", DataType::LargeList(field(6, "element", DataType::Utf8)));
        let to = field(5, "l", DataType::List(field(6, "element", DataType::Struct(Fields::empty()))));
        assert!(shape(&other, &to, &no_defaults).is_err());
    }

    #[test]
    fn fields_are_found_by_name_without_regard_to_case() {
        let fields = |names: &[&str]| names.iter().map(|n| Field::new(*n, DataType::Int32, true)).collect::<Fields>();
        let own = fields(&["A", "a", "b"]);
        assert_eq!(places(&own, &fields(&["a", "A", "B", "c"])), [Some(1), Some(0), Some(2), None]);
        // No column stands for two, and two of one name are two.
        assert_eq!(places(&fields(&["Id"]), &fields(&["ID", "iD"])), [Some(0), None]);
        assert_eq!(places(&fields(&["a", "a"]), &fields(&["a", "a"])), [Some(0), Some(1)]);
        let a: ArrayRef = Arc::new(Int32Array::from(vec![1, 2]));
        let b: ArrayRef = Arc::new(Int32Array::from(vec![3, 4]));
        let have = fields(&["a", "B"]);
        let array: ArrayRef = Arc::new(StructArray::new(have.clone(), vec![a, b], None));
        let from = Field::new("s", DataType::Struct(have), true);
        let want = ["b", "x", "a"].map(|n| Field::new(n, DataType::Int64, true));
        let to = Field::new("s", DataType::Struct(want.into_iter().collect()), true);
        let made = reshape(&array, &shape_by_name(&from, &to).unwrap(), &to).unwrap();
        let made = made.as_struct();
        assert_eq!(made.column(0).as_primitive::<Int64Type>().values(), &[3, 4]);
        assert_eq!((made.column(1).null_count(), made.column(2).as_primitive::<Int64Type>().value(1)), (2, 2));
    }

    #[test]
    fn names_give_ids_where_a_file_has_none() {
        let inner = Fields::from(vec![Field::new("x", DataType::Int32, true)]);
        let fields = Fields::from(vec![
            Field::new("a", DataType::Int32, true),
            Field::new("s", DataType::Struct(inner), true),
            Field::new("l", DataType::List(Arc::new(Field::new("item", DataType::Int32, true))), true),
        ]);
        let mapping = r#"[{"field-id": 1, "names": ["id", "a"]}, {"field-id": 2, "names": ["s"], "fields": [{"field-id": 3, "names": ["x"]}]},
            {"field-id": 4, "names": ["l"], "fields": [{"field-id": 5, "names": ["element"]}]}]"#;
        let made = with_mapped_ids(&fields, mapping).unwrap();
        assert_eq!(made.iter().map(|f| field_id(f)).collect::<Vec<_>>(), [Some(1), Some(2), Some(4)]);
        let DataType::Struct(inner) = made[1].data_type() else { panic!() };
        assert_eq!(field_id(&inner[0]), Some(3));
        let DataType::List(element) = made[2].data_type() else { panic!() };
        assert_eq!((field_id(element), element.name().as_str()), (Some(5), "item"));
        assert!(with_mapped_ids(&fields, "no").is_err());
    }
}
