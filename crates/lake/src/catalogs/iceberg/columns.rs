//! Maps the columns of a table to those of one data file: finds them by field id and converts them to the table's
//! types.

use std::collections::HashMap;

use arrow::array::ArrayRef;
use arrow::datatypes::{Field, Fields};
use dipper_exec::scan::{Conversion, How};
use dipper_iceberg::reshape::{self, Shape};
use dipper_iceberg::schema::Schema;
use dipper_node::error::{EngineError, ErrorKind, Result};
use dipper_store::segment::{ForeignSchema, ObjectReader};

use super::filters::scalar;

/// The columns that a table reads from its files.
pub(super) struct TableColumns<'a> {
    /// The columns that are read from files.
    pub(super) fields: Fields,
    /// The table property `schema.name-mapping.default`, for files without field ids.
    pub(super) mapping: Option<&'a str>,
    /// Schema with the default values of columns and nested fields that were added after rows had been written.
    pub(super) schema: &'a Schema,
}

/// How the columns are read from one file.
pub(super) struct FileColumns {
    pub(super) columns: ForeignSchema,
    /// Nested columns to reshape.
    pub(super) conversions: Vec<Conversion>,
}

impl TableColumns<'_> {
    /// Maps the columns to those of a file.
    ///
    /// # Errors
    /// `File` if the file has no field ids and the table no mapping, or if a column's type cannot be promoted to the
    /// table's.
    pub(super) fn of(&self, file: &ObjectReader) -> Result<FileColumns> {
        let failed = |reason: String| EngineError::new(ErrorKind::File, format!("'{}': {reason}", file.name()));
        let own = self.with_ids(file.fields()).map_err(failed)?;
        let (mut fields, mut places) = (Vec::new(), Vec::new());
        let (mut missing, mut conversions) = (HashMap::new(), Vec::new());
        for (at, wanted) in self.fields.iter().enumerate() {
            let place = reshape::position(&own, wanted);
            places.push(place);
            let Some(place) = place else {
                missing.extend(self.default(wanted).map_err(failed)?.map(|default| (at, default)));
                fields.push(wanted.clone());
                continue;
            };
            // The reader casts columns that are not nested.
            let decoded = file.fields()[place].data_type();
            let shape = reshape::shape(&own[place], wanted, &|field| self.default(field)).map_err(failed)?;
            if !decoded.is_nested() || decoded == wanted.data_type() {
                fields.push(wanted.clone());
                continue;
            }
            let shape = match shape {
                // The types differ only in field ids, which the file's type lacks.
                Shape::Same => Shape::Cast,
                shape => shape,
            };
            fields.push(wanted.as_ref().clone().with_data_type(decoded.clone()).into());
            conversions.push(Conversion { column: at, how: How::Promoted(shape), to: wanted.clone() });
        }
        let columns = ForeignSchema::new(&fields.into(), &places).with_missing(missing);
        Ok(FileColumns { columns, conversions })
    }

    /// Returns the value of a field in files that were written before it was added, as an array of one element; `None`
    /// for NULL.
    fn default(&self, field: &Field) -> std::result::Result<Option<ArrayRef>, String> {
        let own = reshape::field_id(field).and_then(|id| self.schema.field(id));
        let Some(value) = own.and_then(|own| own.initial_default.as_ref()) else { return Ok(None) };
        let made = scalar(Some(value), field.data_type()).and_then(|value| value.to_array_of_size(1).ok());
        let wrong = || format!("the default of column '{}' is no {}", field.name(), field.data_type());
        made.map(Some).ok_or_else(wrong)
    }

    /// Returns the fields of a file, with field ids.
    fn with_ids(&self, own: &Fields) -> std::result::Result<Fields, String> {
        match self.mapping {
            _ if own.is_empty() || own.iter().any(|f| reshape::field_id(f).is_some()) => Ok(own.clone()),
            Some(mapping) => reshape::with_mapped_ids(own, mapping),
            None => {
                Err("a data file without Iceberg's field ids, and the table has no 'schema.name-mapping.default'"
                    .into())
            }
        }
    }
}
