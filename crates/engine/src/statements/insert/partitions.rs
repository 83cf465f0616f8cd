//! The directories of a table's partitions, for INSERT.
//!
//! A partition is identified by its values, not by their text: `m=1` and `m=01` of an INT column are the same
//! partition, and so are `dt=x` and `Dt=x`. The files of a partition can be in several directories, or in one that the
//! table's definition names.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, StringArray};
use arrow::compute::{CastOptions, cast_with_options};
use arrow::datatypes::{DataType, FieldRef};
use datafusion::common::ScalarValue;
use dipper_lake::files::{define, typed};
use dipper_lake::sink::Place;
use dipper_sql::charter::casts::cast_values;
use dipper_store::catalog::{ExternalTable, PartitionValues};

use crate::context::QueryContext;
use crate::error::Result;
use crate::files::partitions::directory_name;

/// The directories of the partitions of a table.
#[derive(Debug)]
pub(super) struct Partitions {
    root: Place,
    columns: Vec<FieldRef>,
    /// The directories by partition values, as [`texts`] prints them; never an empty list.
    known: HashMap<PartitionValues, Vec<Place>>,
}

impl Partitions {
    /// Looks up the directories of a table. `overwrite`: their files are to be replaced.
    ///
    /// # Errors
    /// The table cannot be written to, or a directory cannot be read.
    pub(super) async fn find(context: &Arc<QueryContext>, table: &ExternalTable, overwrite: bool) -> Result<Self> {
        let root = define::writable_root(&context.read(), table)?;
        let columns = define::partition_fields(table)?;
        // A string has only one spelling, so rows that are only added do not need to know which directories exist.
        let spellings = columns.iter().any(|column| column.data_type() != &DataType::Utf8);
        let below = spellings || (overwrite && !columns.is_empty());
        let mut known: HashMap<_, Vec<_>> = HashMap::new();
        for (values, place) in define::partition_places(&context.read(), table, below).await? {
            known.entry(normal(&columns, values)?).or_default().push(place);
        }
        Ok(Partitions { root, columns, known })
    }

    /// The partition columns.
    pub(super) fn columns(&self) -> &[FieldRef] {
        &self.columns
    }

    /// Returns the directory for new files of a partition, or of a table without partitions.
    ///
    /// # Errors
    /// The values cannot be part of an object's name.
    pub(super) fn directory(&self, values: &PartitionValues) -> Result<Place> {
        let usual = self.usual(values)?;
        let Some(known) = self.known.get(values) else { return Ok(usual) };
        let at = known.iter().position(|place| place.name() == usual.name()).unwrap_or_default();
        Ok(known[at].clone())
    }

    /// Returns the directories that hold the files of a partition.
    ///
    /// # Errors
    /// The errors of [`directory`](Self::directory).
    pub(super) fn directories(&self, values: &PartitionValues) -> Result<Vec<Place>> {
        match self.known.get(values) {
            Some(known) => Ok(known.clone()),
            None => Ok(vec![self.usual(values)?]),
        }
    }

    /// The directory of a partition that does not exist yet.
    fn usual(&self, values: &PartitionValues) -> Result<Place> {
        if values.is_empty() {
            return Ok(self.root.clone());
        }
        let names: Vec<_> = self.columns.iter().map(|c| c.name().clone()).collect();
        self.root.join(&directory_name(&names, values))
    }
}

/// Converts values of directories to the form of [`texts`]. A text that is not a value of its column, and so is NULL to
/// queries, stays as it is.
fn normal(columns: &[FieldRef], values: PartitionValues) -> Result<PartitionValues> {
    let typed = typed(columns, &values)?;
    typed.iter().zip(values).map(|(typed, value)| Ok(text(typed)?.or(value))).collect()
}

/// Formats one value in the way of [`texts`].
///
/// # Errors
/// The errors of [`texts`].
pub(super) fn text(value: &ScalarValue) -> Result<Option<String>> {
    let text = texts(&value.to_array()?)?;
    let text = text.as_string::<i32>();
    Ok(text.is_valid(0).then(|| text.value(0).to_string()))
}

/// Formats the values of a partition column as Hive names directories.
///
/// # Errors
/// The type cannot be that of a partition column.
pub(super) fn texts(array: &ArrayRef) -> Result<ArrayRef> {
    if !matches!(array.data_type(), DataType::Timestamp(..)) {
        return Ok(cast_with_options(array, &DataType::Utf8, &CastOptions::default())?);
    }
    // Arrow writes a T where Hive has a blank; the charter writes six digits where Hive ends with the last digit that
    // is not 0.
    let printed = cast_values(array, &DataType::Utf8)?;
    let texts: StringArray = (printed.as_string::<i32>().iter())
        .map(|text| text.map(|text| if text.contains('.') { text.trim_end_matches('0') } else { text }))
        .collect();
    Ok(Arc::new(texts))
}

#[cfg(test)]
mod tests {
    use arrow::datatypes::{Field, TimeUnit};

    use super::*;

    #[test]
    fn one_partition_has_one_text() {
        let column = |data_type| -> FieldRef { Arc::new(Field::new("p", data_type, true)) };
        for (data_type, value, expected) in [
            (DataType::Int32, "007", "7"),
            (DataType::Int32, "x", "x"),
            (DataType::Utf8, "007", "007"),
            (DataType::Date32, "2024-1-2", "2024-01-02"),
            (DataType::Decimal128(10, 2), "2.5", "2.50"),
            (DataType::Float64, "1.50", "1.5"),
            (DataType::Boolean, "TRUE", "true"),
            (DataType::Timestamp(TimeUnit::Microsecond, None), "2024-01-01", "2024-01-01 00:00:00"),
            (DataType::Timestamp(TimeUnit::Microsecond, None), "2024-01-01T10:20:30", "2024-01-01 10:20:30"),
            (DataType::Timestamp(TimeUnit::Microsecond, None), "2024-01-01 10:20:30.500", "2024-01-01 10:20:30.5"),
        ] {
            assert_eq!(normal(&[column(data_type)], vec![Some(value.into())]).unwrap(), [Some(expected.to_string())]);
        }
        assert_eq!(normal(&[column(DataType::Int32)], vec![None]).unwrap(), [None]);
    }
}
