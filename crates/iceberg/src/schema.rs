//! Schemas: columns by field id, and the Arrow types as which they are read.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::datatypes::{DataType, Field as ArrowField, FieldRef, Fields, TimeUnit};
use serde_json::Value as Json;

use crate::error::{IcebergError, Result};
use crate::value::Value;

/// Arrow metadata key under which Parquet's reader and this crate keep field ids.
pub const FIELD_ID: &str = "PARQUET:field_id";

/// A type that is not nested.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names are the specification's")]
pub enum Primitive {
    Boolean,
    Int,
    Long,
    Float,
    Double,
    /// Precision, scale.
    Decimal(u8, u8),
    Date,
    Time,
    Timestamp,
    Timestamptz,
    TimestampNs,
    TimestamptzNs,
    String,
    Uuid,
    /// Length in bytes.
    Fixed(u32),
    Binary,
}

/// A type.
#[derive(Debug, Clone, PartialEq)]
pub enum Type {
    /// Not nested.
    Primitive(Primitive),
    /// struct
    Struct(Vec<Field>),
    /// list
    List(Box<Field>),
    /// map: key and value
    Map(Box<Field>, Box<Field>),
    /// A type that is not supported, such as `variant`, or a nested type that contains one, in the metadata's spelling.
    /// Only whole columns have it.
    Unsupported(String),
}

/// A column, or a field within one.
#[derive(Debug, Clone, PartialEq)]
pub struct Field {
    /// Identity; names and types may change.
    pub id: i32,
    /// Name.
    pub name: String,
    /// Whether it is never NULL.
    pub required: bool,
    /// Type.
    pub field_type: Type,
    /// Comment.
    pub doc: Option<String>,
    /// v3: the value for rows that were written before the column was added.
    pub initial_default: Option<Value>,
}

/// A schema of a table.
#[derive(Debug, Clone, PartialEq)]
pub struct Schema {
    /// Its id.
    pub id: i32,
    /// Columns in order.
    pub fields: Vec<Field>,
}

impl Schema {
    /// Parses a schema from metadata at `location`.
    pub(crate) fn from_json(location: &str, json: &Json) -> Result<Schema> {
        let id = json.get("schema-id").and_then(Json::as_i64).unwrap_or(0);
        let id = i32::try_from(id).map_err(|_| IcebergError::damaged(location, "schema-id is out of range"))?;
        let columns = json.get("fields").and_then(Json::as_array).filter(|_| json["type"] == "struct");
        let columns = columns.ok_or_else(|| IcebergError::damaged(location, "a schema is not of type struct"))?;
        // A column that cannot be read does not prevent reading the table.
        let one = |column: &Json| match Field::from_json(location, column) {
            Err(IcebergError::Unsupported { .. }) => Field::unsupported(location, column),
            column => column,
        };
        Ok(Schema { id, fields: columns.iter().map(one).collect::<Result<_>>()? })
    }

    /// Returns the column or nested field of that id.
    pub fn field(&self, id: i32) -> Option<&Field> {
        fn find(fields: &[Field], id: i32) -> Option<&Field> {
            fields.iter().find_map(|f| {
                if f.id == id { Some(f) } else { f.children().find_map(|c| find(std::slice::from_ref(c), id)) }
            })
        }
        find(&self.fields, id)
    }

    /// Returns the type of the field with this id, if it is a primitive.
    pub fn primitive(&self, id: i32) -> Option<Primitive> {
        crate::value::primitive(&self.field(id)?.field_type)
    }

    /// Returns the columns as Arrow fields with field ids; `views`: strings and bytes as views.
    pub fn arrow_fields(&self, views: bool) -> Vec<FieldRef> {
        self.fields.iter().map(|f| f.to_arrow(views)).collect()
    }
}

impl Field {
    fn children(&self) -> impl Iterator<Item = &Field> {
        let all: Vec<&Field> = match &self.field_type {
            Type::Primitive(_) | Type::Unsupported(_) => Vec::new(),
            Type::Struct(fields) => fields.iter().collect(),
            Type::List(element) => vec![&**element],
            Type::Map(key, value) => vec![&**key, &**value],
        };
        all.into_iter()
    }

    /// Makes a column whose type is not supported.
    fn unsupported(location: &str, json: &Json) -> Result<Field> {
        // Everything but the type is parsed.
        let mut json = json.clone();
        let written = json.get("type").map(|t| t.as_str().map_or_else(|| t.to_string(), str::to_string));
        json["type"] = "string".into();
        json["initial-default"] = Json::Null;
        let field_type = Type::Unsupported(written.unwrap_or_default());
        Ok(Field { field_type, ..Field::from_json(location, &json)? })
    }

    /// Returns the metadata's spelling of the column's type if it is not supported.
    pub fn unsupported_type(&self) -> Option<&str> {
        match &self.field_type {
            Type::Unsupported(written) => Some(written),
            _ => None,
        }
    }

    /// Returns the Arrow field, with its id. An unsupported column is a string whose values are never read.
    pub fn to_arrow(&self, views: bool) -> FieldRef {
        let data_type = match &self.field_type {
            Type::Primitive(p) => p.to_arrow(views),
            Type::Unsupported(_) => Primitive::String.to_arrow(views),
            Type::Struct(fields) => DataType::Struct(fields.iter().map(|f| f.to_arrow(views)).collect()),
            Type::List(element) => DataType::List(element.to_arrow(views)),
            Type::Map(key, value) => {
                let entries = Fields::from(vec![key.to_arrow(views), value.to_arrow(views)]);
                DataType::Map(Arc::new(ArrowField::new("key_value", DataType::Struct(entries), false)), false)
            }
        };
        // Files may still hold NULL in a column that became required later: nothing relies on `required`.
        let is_key = self.name == "key" && self.required;
        let metadata = HashMap::from([(FIELD_ID.to_string(), self.id.to_string())]);
        Arc::new(ArrowField::new(&self.name, data_type, !is_key).with_metadata(metadata))
    }

    fn from_json(location: &str, json: &Json) -> Result<Field> {
        let damaged = |what: &str| IcebergError::damaged(location, format!("a field of a schema: {what}: {json}"));
        let name = json.get("name").and_then(Json::as_str).ok_or_else(|| damaged("no name"))?.to_string();
        let field_type = Type::from_json(location, json.get("type").ok_or_else(|| damaged("no type"))?)?;
        let initial_default = match json.get("initial-default") {
            None | Some(Json::Null) => None,
            Some(value) => match &field_type {
                Type::Primitive(p) => {
                    Some(Value::from_json(*p, value).ok_or_else(|| damaged("initial-default does not fit"))?)
                }
                _ => return Err(IcebergError::unsupported(format!("column '{name}': a default of a nested type"))),
            },
        };
        Ok(Field {
            id: id(json, "id").ok_or_else(|| damaged("no id"))?,
            name,
            required: json.get("required").and_then(Json::as_bool).unwrap_or(false),
            field_type,
            doc: json.get("doc").and_then(Json::as_str).map(str::to_string),
            initial_default,
        })
    }
}

fn id(json: &Json, key: &str) -> Option<i32> {
    i32::try_from(json.get(key)?.as_i64()?).ok()
}

impl Type {
    fn from_json(location: &str, json: &Json) -> Result<Type> {
        let damaged = |what: &str| IcebergError::damaged(location, format!("a type: {what}: {json}"));
        if let Some(text) = json.as_str() {
            return Primitive::from_text(text)
                .map(Type::Primitive)
                .ok_or_else(|| IcebergError::unsupported(format!("the column type {text}")));
        }
        let get = |key: &str| json.get(key).ok_or_else(|| damaged(&format!("no {key}")));
        let part = |what: &str, required: bool| -> Result<Box<Field>> {
            Ok(Box::new(Field {
                id: id(json, &format!("{what}-id")).ok_or_else(|| damaged("no id"))?,
                name: what.to_string(),
                required,
                field_type: Type::from_json(location, get(what)?)?,
                doc: None,
                initial_default: None,
            }))
        };
        let required = |key: &str| json.get(key).and_then(Json::as_bool).unwrap_or(false);
        match json.get("type").and_then(Json::as_str) {
            Some("struct") => {
                let fields = get("fields")?.as_array().ok_or_else(|| damaged("fields is no list"))?;
                Ok(Type::Struct(fields.iter().map(|f| Field::from_json(location, f)).collect::<Result<_>>()?))
            }
            Some("list") => Ok(Type::List(part("element", required("element-required"))?)),
            Some("map") => Ok(Type::Map(part("key", true)?, part("value", required("value-required"))?)),
            _ => Err(damaged("expected struct, list or map")),
        }
    }
}

impl Primitive {
    /// Returns the type of that spelling.
    pub fn from_text(text: &str) -> Option<Primitive> {
        Some(match text {
            "boolean" => Primitive::Boolean,
            "int" => Primitive::Int,
            "long" => Primitive::Long,
            "float" => Primitive::Float,
            "double" => Primitive::Double,
            "date" => Primitive::Date,
            "time" => Primitive::Time,
            "timestamp" => Primitive::Timestamp,
            "timestamptz" => Primitive::Timestamptz,
            "timestamp_ns" => Primitive::TimestampNs,
            "timestamptz_ns" => Primitive::TimestamptzNs,
            "string" => Primitive::String,
            "uuid" => Primitive::Uuid,
            "binary" => Primitive::Binary,
            other => {
                if let Some(length) = other.strip_prefix("fixed[").and_then(|s| s.strip_suffix(']')) {
                    return Some(Primitive::Fixed(length.trim().parse().ok()?));
                }
                let inner = other.strip_prefix("decimal(")?.strip_suffix(')')?;
                let (precision, scale) = inner.split_once(',')?;
                let (precision, scale) = (precision.trim().parse().ok()?, scale.trim().parse().ok()?);
                return (precision <= 38 && scale <= precision).then_some(Primitive::Decimal(precision, scale));
            }
        })
    }

    /// Returns the Arrow type as which the column is read; timestamps of nanoseconds are cut to microseconds.
    fn to_arrow(self, views: bool) -> DataType {
        match self {
            Primitive::Boolean => DataType::Boolean,
            Primitive::Int => DataType::Int32,
            Primitive::Long => DataType::Int64,
            Primitive::Float => DataType::Float32,
            Primitive::Double => DataType::Float64,
            Primitive::Decimal(precision, scale) => DataType::Decimal128(precision, scale as i8),
            Primitive::Date => DataType::Date32,
            Primitive::Time => DataType::Time64(TimeUnit::Microsecond),
            Primitive::Timestamp | Primitive::TimestampNs => DataType::Timestamp(TimeUnit::Microsecond, None),
            Primitive::Timestamptz | Primitive::TimestamptzNs => {
                DataType::Timestamp(TimeUnit::Microsecond, Some("UTC".into()))
            }
            // UUIDs are read as their text, as in Doris.
            Primitive::String | Primitive::Uuid if views => DataType::Utf8View,
            Primitive::String | Primitive::Uuid => DataType::Utf8,
            Primitive::Fixed(_) | Primitive::Binary if views => DataType::BinaryView,
            Primitive::Fixed(_) | Primitive::Binary => DataType::Binary,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn nested_schemas_are_read() {
        let json = json!({"type": "struct", "schema-id": 3, "fields": [
            {"id": 1, "name": "a", "required": true, "type": "decimal(9, 2)", "initial-default": "1.5"},
            {"id": 2, "name": "l", "required": false, "type": {"type": "list", "element-id": 5, "element": "fixed[3]", "element-required": false}},
            {"id": 3, "name": "m", "required": false, "type": {"type": "map", "key-id": 6, "key": "string", "value-id": 7,
                "value": {"type": "struct", "fields": [{"id": 8, "name": "x", "required": false, "type": "timestamptz"}]}, "value-required": false}},
        ]});
        let schema = Schema::from_json("m.json", &json).unwrap();
        assert_eq!((schema.id, schema.fields.len()), (3, 3));
        assert_eq!(schema.primitive(8), Some(Primitive::Timestamptz));
        assert_eq!(schema.primitive(5), Some(Primitive::Fixed(3)));
        assert_eq!(schema.fields[0].initial_default, Some(Value::Decimal(150, 2)));
        let fields = schema.arrow_fields(true);
        assert_eq!(fields[0].metadata()[FIELD_ID], "1");
    }

    #[test]
    fn columns_of_unknown_types_leave_the_others() {
        let list = json!({"type": "list", "element-id": 5, "element": "variant", "element-required": false});
        let json = json!({"type": "struct", "fields": [
            {"id": 1, "name": "g", "required": true, "type": "geometry(srid:4326)", "doc": "where"},
            {"id": 2, "name": "a", "required": false, "type": "int"},
            {"id": 3, "name": "u", "required": false, "type": "unknown"},
            {"id": 4, "name": "l", "required": false, "type": list}]});
        let schema = Schema::from_json("m.json", &json).unwrap();
        let types: Vec<_> = schema.fields.iter().map(Field::unsupported_type).collect();
        assert_eq!(types, [Some("geometry(srid:4326)"), None, Some("unknown"), Some(list.to_string().as_str())]);
        assert_eq!((schema.fields[0].required, schema.fields[0].doc.as_deref()), (true, Some("where")));
        assert_eq!((schema.primitive(1), schema.primitive(2)), (None, Some(Primitive::Int)));
        // A text that is no type at all counts as damage.
        let bad = json!({"type": "struct", "fields": [{"id": 1, "name": "g", "required": false, "type": 7}]});
        assert!(matches!(Schema::from_json("m.json", &bad), Err(IcebergError::Damaged { .. })));
    }
}
