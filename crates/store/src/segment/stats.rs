//! Statistics of the values of row groups, pages and objects.

use arrow_array::cast::AsArray;
use arrow_array::types::Time64MicrosecondType;
use arrow_array::{Array, ArrayRef, UInt32Array, UInt64Array, new_null_array};
use arrow_cast::{CastOptions, cast, cast_with_options};
use arrow_ord::sort::{SortOptions, sort_to_indices};
use arrow_schema::DataType;
use arrow_select::take::take;
use dipper_base::clock;
use parquet::arrow::arrow_reader::statistics::StatisticsConverter;
use parquet::file::metadata::ParquetMetaData;

use super::convert::{convert, keeps_order};
use super::options::{WriteOptions, file_field};
use super::scan::added_default;
use super::{ObjectReader, Result};
use crate::table::data::{ColumnStats, Derived};
use crate::table::schema::{ColumnId, TableColumn};

/// Bounds of a column's values in several zones (row groups or pages), one entry per zone, in the column's current
/// type.
#[derive(Debug, Clone)]
pub struct ZoneStats {
    /// Lower bound of all values; NULL if unknown. Strings are cut.
    pub min: ArrayRef,
    /// Upper bound of all values; NULL if unknown. Strings are cut and then incremented.
    pub max: ArrayRef,
    /// Number of NULLs; NULL if unknown.
    pub nulls: UInt64Array,
    /// Number of rows.
    pub rows: UInt64Array,
}

impl ObjectReader {
    /// Returns the bounds of a column in these row groups.
    ///
    /// # Errors
    /// [`super::SegmentError::Arrow`] for a default that does not fit its column.
    ///
    /// # Panics
    /// If there is no such row group.
    pub fn group_stats(&self, groups: std::ops::Range<usize>, column: &TableColumn) -> Result<ZoneStats> {
        let rows: UInt64Array = groups.clone().map(|g| self.group_rows(g) as u64).collect();
        let known = self.converter(column, |converter| {
            let metadata = || groups.clone().map(|g| self.metadata.row_group(g));
            Ok((
                converter.row_group_mins(metadata())?,
                converter.row_group_maxes(metadata())?,
                converter.row_group_null_counts(metadata())?,
            ))
        });
        self.zones(column, rows, known)
    }

    /// Returns the first rows of a column's pages in a row group; empty for a column that has no pages of its own.
    ///
    /// # Panics
    /// If there is no such row group.
    pub fn page_starts(&self, group: usize, column: ColumnId) -> Vec<usize> {
        let (Some(leaf), Some(index)) = (self.leaf(column), self.metadata.offset_index()) else { return Vec::new() };
        index[group][leaf].page_locations().iter().map(|l| l.first_row_index as usize).collect()
    }

    /// Returns the bounds of a column in the pages of a row group. Each column has its own page borders: an entry of
    /// [`ZoneStats::rows`] is the number of rows of its page.
    ///
    /// # Errors
    /// The errors of [`ObjectReader::group_stats`].
    ///
    /// # Panics
    /// If there is no such row group.
    pub fn page_stats(&self, group: usize, column: &TableColumn) -> Result<ZoneStats> {
        let total = self.group_rows(group) as i64;
        let (Some(leaf), Some(columns), Some(index)) =
            (self.leaf(column.id), self.metadata.column_index(), self.metadata.offset_index())
        else {
            return self.group_stats(group..group + 1, column);
        };
        let first: Vec<_> = index[group][leaf].page_locations().iter().map(|l| l.first_row_index).collect();
        let ends = first.iter().skip(1).copied().chain([total]);
        let rows: UInt64Array = first.iter().zip(ends).map(|(a, b)| (b - a) as u64).collect();
        let known = self.converter(column, |converter| {
            Ok((
                converter.data_page_mins(columns, index, [&group])?,
                converter.data_page_maxes(columns, index, [&group])?,
                converter.data_page_null_counts(columns, index, [&group])?,
            ))
        });
        self.zones(column, rows, known)
    }

    fn converter<T>(
        &self,
        column: &TableColumn,
        read: impl FnOnce(&StatisticsConverter<'_>) -> parquet::errors::Result<T>,
    ) -> Option<T> {
        let leaf = self.leaf(column.id)?;
        let root = self.ids.place(column.id)?;
        let schema = self.metadata.file_metadata().schema_descr();
        let converter = StatisticsConverter::from_column_index(leaf, &self.fields[root], schema).ok()?;
        read(&converter).ok()
    }

    fn zones(
        &self,
        column: &TableColumn,
        rows: UInt64Array,
        known: Option<(ArrayRef, ArrayRef, UInt64Array)>,
    ) -> Result<ZoneStats> {
        let wanted = column.data_type.to_arrow();
        let n = rows.len();
        if self.ids.place(column.id).is_none() {
            let one = added_default(column)?;
            let all = take(&one, &UInt32Array::from(vec![0; n]), None)?;
            let nulls = rows.iter().map(|r| if one.is_null(0) { r } else { Some(0) }).collect();
            return Ok(ZoneStats { min: all.clone(), max: all, nulls, rows });
        }
        let unknown = || (new_null_array(&wanted, n), new_null_array(&wanted, n), UInt64Array::new_null(n));
        let (min, max, nulls) = known.unwrap_or_else(unknown);
        Ok(as_type(&wanted, rows, min, max, nulls))
    }
}

/// Converts bounds to another type.
pub(super) fn as_type(
    wanted: &DataType,
    rows: UInt64Array,
    min: ArrayRef,
    max: ArrayRef,
    nulls: UInt64Array,
) -> ZoneStats {
    let n = rows.len();
    // Bounds of text say nothing about numbers made from it. A bound that does not fit the type becomes unknown.
    let to_wanted = |a: ArrayRef| match (keeps_order(a.data_type(), wanted), a.data_type().is_numeric()) {
        (true, true) => cast_with_options(&a, wanted, &CastOptions { safe: true, ..Default::default() })
            .unwrap_or_else(|_| new_null_array(wanted, n)),
        (true, false) => convert(&a, wanted).unwrap_or_else(|_| new_null_array(wanted, n)),
        (false, _) => new_null_array(wanted, n),
    };
    ZoneStats { min: to_wanted(min), max: to_wanted(max), nulls, rows }
}

/// Returns the statistics of a new object's columns that the chain stores.
pub(super) fn of_object(options: &WriteOptions, metadata: &ParquetMetaData, nulls: &[u64]) -> Result<Vec<ColumnStats>> {
    let schema = metadata.file_metadata().schema_descr();
    let mut stats = Vec::with_capacity(nulls.len());
    for ((i, column), nulls) in options.schema.columns.iter().enumerate().zip(nulls) {
        let mut known = ColumnStats {
            column: column.id,
            min: None,
            max: None,
            nulls: *nulls,
            sketch: Vec::new(),
            distinct: Derived::default(),
        };
        let leaf = (0..schema.num_columns()).find(|leaf| schema.get_column_root_idx(*leaf) == i);
        let flat = leaf.filter(|leaf| schema.column(*leaf).path().parts().len() == 1);
        if let Some(leaf) = flat {
            let field = file_field(column);
            let converter = StatisticsConverter::from_column_index(leaf, &field, schema)?;
            let mins = converter.row_group_mins(metadata.row_groups())?;
            let maxes = converter.row_group_maxes(metadata.row_groups())?;
            // A row group that has values but no bound leaves the object without one.
            let all_null: Vec<_> = metadata
                .row_groups()
                .iter()
                .map(|g| {
                    let nulls = g.column(leaf).statistics().and_then(|s| s.null_count_opt());
                    nulls == Some(g.num_rows() as u64)
                })
                .collect();
            let complete = |a: &ArrayRef| (0..a.len()).all(|i| a.is_valid(i) || all_null[i]);
            if complete(&mins) {
                known.min = extreme(&mins, false)?;
            }
            if complete(&maxes) {
                known.max = extreme(&maxes, true)?;
            }
        }
        stats.push(known);
    }
    Ok(stats)
}

/// Returns the smallest or largest value as text.
fn extreme(values: &ArrayRef, descending: bool) -> Result<Option<String>> {
    if matches!(values.data_type(), DataType::BinaryView | DataType::FixedSizeBinary(_) | DataType::Null)
        || values.null_count() == values.len()
    {
        return Ok(None);
    }
    let order = SortOptions { descending, nulls_first: false };
    let first = take(values, &sort_to_indices(values, Some(order), Some(1))?, None)?;
    // TIME values may be beyond the day that Arrow knows.
    if let Some(times) = first.as_primitive_opt::<Time64MicrosecondType>() {
        return Ok(Some(clock::text(times.value(0), None)));
    }
    // Times as SQL writes them: a blank where Arrow has a T.
    let text = cast(&first, &DataType::Utf8)?;
    let text = text.as_string::<i32>().value(0).to_string();
    Ok(Some(match values.data_type() {
        DataType::Timestamp(..) => text.replacen('T', " ", 1),
        _ => text,
    }))
}
