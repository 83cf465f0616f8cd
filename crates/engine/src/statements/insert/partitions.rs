//! The directories of a table's partitions, for INSERT.
//!
//! A partition is its values, not their text: `m=1` and `m=01` of an INT column are one, and so are `dt=x` and `Dt=x`. Its
//! files can be in several directories, or in one that the table's definition names.

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

/// Where the partitions of a table are.
#[derive(Debug)]
pub(super) struct Partitions {
    root: Place,
    columns: Vec<FieldRef>,
    /// By values as [`texts`] prints them; never without a place.
    known: HashMap<PartitionValues, Vec<Place>>,
}

impl Partitions {
    /// Looks them up. `overwrite`: their files are to be replaced.
    ///
    /// # Errors
    /// The table is not one that is written to, or a directory cannot be read.
    pub(super) async fn find(context: &Arc<QueryContext>, table: &ExternalTable, overwrite: bool) -> Result<Self> {
        let root = define::writable_root(&context.read(), table)?;
        let columns = define::partition_fields(table)?;
        // A string has one spelling: rows that are only added need not know which directories there are.
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

    /// Where new files of a partition go, or all of a table without partitions.
    ///
    /// # Errors
    /// Values that no object's name can hold.
    pub(super) fn directory(&self, values: &PartitionValues) -> Result<Place> {
        let usual = self.usual(values)?;
        let Some(known) = self.known.get(values) else { return Ok(usual) };
        let at = known.iter().position(|place| place.name() == usual.name()).unwrap_or_default();
        Ok(known[at].clone())
    }

    /// The directories whose files are a partition's.
    ///
    /// # Errors
    /// As of [`directory`](Self::directory).
    pub(super) fn directories(&self, values: &PartitionValues) -> Result<Vec<Place>> {
        match self.known.get(values) {
            Some(known) => Ok(known.clone()),
            None => Ok(vec![self.usual(values)?]),
        }
    }

    /// The directory of a partition that is not there yet.
    fn usual(&self, values: &PartitionValues) -> Result<Place> {
        if values.is_empty() {
            return Ok(self.root.clone());
        }
        let names: Vec<_> = self.columns.iter().map(|c| c.name().clone()).collect();
        self.root.join(&directory_name(&names, values))
    }
}

/// Values of directories as [`texts`] would print them. What is no value of its column, NULL to queries, stays as it is.
fn normal(columns: &[FieldRef], values: PartitionValues) -> Result<PartitionValues> {
    let typed = typed(columns, &values)?;
    typed.iter().zip(values).map(|(typed, value)| Ok(text(typed)?.or(value))).collect()
}

/// As [`texts`], of one value.
///
/// # Errors
/// As of [`texts`].
pub(super) fn text(value: &ScalarValue) -> Result<Option<String>> {
    let text = texts(&value.to_array()?)?;
    let text = text.as_string::<i32>();
    Ok(text.is_valid(0).then(|| text.value(0).to_string()))
}

/// Values of a partition column as Hive's directories name them.
///
/// # Errors
/// A type that is no partition column's.
pub(super) fn texts(array: &ArrayRef) -> Result<ArrayRef> {
    if !matches!(array.data_type(), DataType::Timestamp(..)) {
        return Ok(cast_with_options(array, &DataType::Utf8, &CastOptions::default())?);
    }
    // Arrow writes a T where Hive has a blank; the charter writes six digits where Hive ends with the last that counts.
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
