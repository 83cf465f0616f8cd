//! Small results that are built row by row, for SHOW and the virtual tables.

use std::sync::Arc;

use arrow::array::{ArrayRef, Int64Array, StringArray, TimestampMicrosecondArray, UInt64Array};
use arrow::datatypes::{DataType, Field, Schema, SchemaRef, TimeUnit};
use arrow::record_batch::{RecordBatch, RecordBatchOptions};
use dipper_node::error::{EngineError, ErrorKind, Result};
use futures::StreamExt;

use crate::result::{Column, Outcome, Rows};

/// Type of a column of a [`Sheet`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// String.
    Text,
    /// BIGINT.
    Int,
    /// BIGINT UNSIGNED.
    UInt,
    /// DATETIME.
    Time,
}

/// A value of a [`Sheet`].
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Cell {
    /// NULL.
    Null,
    /// A value of [`Kind::Text`].
    Text(String),
    /// A value of [`Kind::Int`] or [`Kind::UInt`].
    Int(i64),
    /// A value of [`Kind::Time`]: microseconds since 1970 of local time in the session's time zone.
    Time(i64),
}

impl From<&str> for Cell {
    fn from(s: &str) -> Cell {
        Cell::Text(s.to_string())
    }
}

impl From<String> for Cell {
    fn from(s: String) -> Cell {
        Cell::Text(s)
    }
}

impl From<&String> for Cell {
    fn from(s: &String) -> Cell {
        Cell::Text(s.clone())
    }
}

impl From<i64> for Cell {
    fn from(n: i64) -> Cell {
        Cell::Int(n)
    }
}

impl<T: Into<Cell>> From<Option<T>> for Cell {
    fn from(value: Option<T>) -> Cell {
        value.map_or(Cell::Null, Into::into)
    }
}

/// Names and types of the columns of a [`Sheet`].
pub type Head = [(&'static str, Kind)];

/// A table of rows in memory.
#[derive(Debug)]
pub struct Sheet {
    columns: Vec<(String, Kind)>,
    rows: Vec<Vec<Cell>>,
}

impl Sheet {
    /// Makes a sheet without rows.
    pub fn new(head: &Head) -> Sheet {
        Sheet { columns: head.iter().map(|(name, kind)| ((*name).to_string(), *kind)).collect(), rows: Vec::new() }
    }

    /// Makes a sheet without rows whose columns are all text.
    pub fn texts(names: &[&str]) -> Sheet {
        Sheet { columns: names.iter().map(|name| ((*name).to_string(), Kind::Text)).collect(), rows: Vec::new() }
    }

    /// Selects columns under new names, as pairs of new name and source. `made` returns the cells of columns without a
    /// source.
    pub fn select(self, columns: &[(&str, Option<&str>)], made: impl Fn(&str) -> Cell) -> Sheet {
        let at = |source: &str| self.columns.iter().position(|(name, _)| name == source);
        let sources: Vec<Option<usize>> = columns.iter().map(|(_, source)| source.and_then(at)).collect();
        let kinds = sources.iter().map(|at| at.map_or(Kind::Text, |at| self.columns[at].1));
        let names = columns.iter().map(|(name, _)| (*name).to_string());
        let row = |row: &Vec<Cell>| {
            let cell = |(source, (name, _)): (&Option<usize>, &(&str, _))| {
                source.map_or_else(|| made(name), |at| row[at].clone())
            };
            sources.iter().zip(columns).map(cell).collect()
        };
        Sheet { columns: names.zip(kinds).collect(), rows: self.rows.iter().map(row).collect() }
    }

    /// Renames column `at`.
    pub fn rename(mut self, at: usize, name: String) -> Sheet {
        self.columns[at].0 = name;
        self
    }

    /// Adds a row; it must have as many cells as there are columns.
    pub fn push<const N: usize>(&mut self, cells: [Cell; N]) {
        self.push_row(Vec::from(cells));
    }

    /// Adds a row; it must have as many cells as there are columns.
    pub fn push_row(&mut self, cells: Vec<Cell>) {
        assert_eq!(cells.len(), self.columns.len(), "a row has a cell for each of {:?}", self.columns);
        self.rows.push(cells);
    }

    /// Adds a row of which only the first cells are known; the columns behind them are NULL.
    pub fn push_known<const N: usize>(&mut self, cells: [Cell; N]) {
        let mut row = Vec::from(cells);
        row.resize(self.columns.len(), Cell::Null);
        self.push_row(row);
    }

    /// Adds a row of which only the cells of these columns, which must exist, are known; the others are NULL.
    pub fn push_named<const N: usize>(&mut self, cells: [(&str, Cell); N]) {
        let mut row = vec![Cell::Null; self.columns.len()];
        for (name, cell) in cells {
            let at = self.columns.iter().position(|(column, _)| column == name);
            row[at.unwrap_or_else(|| panic!("there is no column {name}"))] = cell;
        }
        self.push_row(row);
    }

    /// Counts the rows whose cell in this column is a text for which `counts` is true.
    pub fn count(&self, column: usize, counts: impl Fn(&str) -> bool) -> usize {
        self.rows.iter().filter(|row| matches!(row.get(column), Some(Cell::Text(s)) if counts(s))).count()
    }

    /// Keeps the rows whose cell in this column is a text for which `keep` is true.
    pub fn retain(&mut self, column: usize, keep: impl Fn(&str) -> bool) {
        self.rows.retain(|row| matches!(row.get(column), Some(Cell::Text(s)) if keep(s)));
    }

    /// Sorts by columns of these names, without regard to the case of names; true means descending. NULL comes first,
    /// as everywhere.
    ///
    /// # Errors
    /// `NoColumn` if there is no such column.
    pub fn order_by(&mut self, keys: &[(String, bool)]) -> Result<()> {
        let place = |name: &str| {
            let found = self.columns.iter().position(|(column, _)| column.eq_ignore_ascii_case(name));
            found.ok_or_else(|| {
                let near = dipper_base::near::closest(name, self.columns.iter().map(|(n, _)| n.as_str()));
                let hint = near.map(|n| format!("; did you mean '{n}'?")).unwrap_or_default();
                EngineError::new(ErrorKind::NoColumn, format!("Unknown column '{name}' in 'order clause'{hint}"))
            })
        };
        let keys = keys.iter().map(|(name, down)| Ok((place(name)?, *down))).collect::<Result<Vec<_>>>()?;
        self.rows.sort_by(|a, b| {
            let pairs = keys.iter().map(|(at, down)| {
                let order = a[*at].cmp(&b[*at]);
                if *down { order.reverse() } else { order }
            });
            pairs.fold(std::cmp::Ordering::Equal, std::cmp::Ordering::then)
        });
        Ok(())
    }

    /// Keeps `count` rows from row `offset` on.
    pub fn limit(&mut self, offset: u64, count: u64) {
        let offset = usize::try_from(offset).unwrap_or(usize::MAX).min(self.rows.len());
        self.rows.drain(..offset);
        self.rows.truncate(usize::try_from(count).unwrap_or(usize::MAX));
    }

    fn schema(&self) -> SchemaRef {
        schema(self.columns.iter().map(|(name, kind)| (name.as_str(), *kind)))
    }

    /// Returns the rows as one batch.
    ///
    /// # Errors
    /// `Internal` if a cell does not have its column's type, which is a bug.
    pub fn into_batch(self) -> Result<RecordBatch> {
        let schema = self.schema();
        let count = self.rows.len();
        let mut arrays: Vec<ArrayRef> = Vec::with_capacity(self.columns.len());
        for (at, (name, kind)) in self.columns.iter().enumerate() {
            let wrong = |cell: &Cell| EngineError::new(ErrorKind::Internal, format!("column {name} holds {cell:?}"));
            let numbers = || {
                self.rows.iter().map(|row| match &row[at] {
                    Cell::Null => Ok(None),
                    Cell::Int(n) | Cell::Time(n) => Ok(Some(*n)),
                    other => Err(wrong(other)),
                })
            };
            arrays.push(match kind {
                Kind::Text => {
                    let texts = self.rows.iter().map(|row| match &row[at] {
                        Cell::Null => Ok(None),
                        Cell::Text(s) => Ok(Some(s.as_str())),
                        other => Err(wrong(other)),
                    });
                    Arc::new(texts.collect::<Result<StringArray>>()?)
                }
                Kind::Int => Arc::new(numbers().collect::<Result<Int64Array>>()?),
                Kind::UInt => {
                    let unsigned = numbers().map(|n| n.map(|n| n.map(|n| u64::try_from(n).unwrap_or_default())));
                    Arc::new(unsigned.collect::<Result<UInt64Array>>()?)
                }
                Kind::Time => Arc::new(numbers().collect::<Result<TimestampMicrosecondArray>>()?),
            });
        }
        RecordBatch::try_new_with_options(schema, arrays, &RecordBatchOptions::new().with_row_count(Some(count)))
            .map_err(|e| EngineError::of(ErrorKind::Internal, e))
    }

    /// Returns the rows as the result of a statement.
    ///
    /// # Errors
    /// The error of [`into_batch`](Self::into_batch).
    pub fn into_outcome(self) -> Result<Outcome> {
        Ok(outcome(self.into_batch()?))
    }
}

/// Returns the schema of these columns; all are nullable.
pub fn schema<'a>(columns: impl IntoIterator<Item = (&'a str, Kind)>) -> SchemaRef {
    let fields = columns.into_iter().map(|(name, kind)| {
        let data_type = match kind {
            Kind::Text => DataType::Utf8,
            Kind::Int => DataType::Int64,
            Kind::UInt => DataType::UInt64,
            Kind::Time => DataType::Timestamp(TimeUnit::Microsecond, None),
        };
        Field::new(name, data_type, true)
    });
    Arc::new(Schema::new(fields.collect::<Vec<_>>()))
}

/// Returns a batch as the result of a statement.
pub fn outcome(batch: RecordBatch) -> Outcome {
    let columns = batch.schema().fields().iter().map(|f| Column::computed(Arc::clone(f))).collect();
    Outcome::Rows(Rows { columns, batches: futures::stream::iter([Ok(batch)]).boxed() })
}

/// Converts milliseconds since 1970 in UTC to local time in `zone` (an offset or IANA name), in microseconds since
/// 1970; NULL if the zone is unknown.
pub fn wall_clock_us(ms: i64, zone: &str) -> Cell {
    use chrono::{DateTime, FixedOffset, Offset, TimeZone};
    let Some(utc) = DateTime::from_timestamp_millis(ms) else { return Cell::Null };
    let naive = utc.naive_utc();
    let offset = match zone.parse::<chrono_tz::Tz>() {
        Ok(tz) => tz.offset_from_utc_datetime(&naive).fix(),
        Err(_) => match zone.parse::<FixedOffset>() {
            Ok(offset) => offset,
            Err(_) => return Cell::Null,
        },
    };
    Cell::Time(utc.timestamp_micros() + i64::from(offset.local_minus_utc()) * 1_000_000)
}

/// Like [`wall_clock_us`], as text without fractions: `2024-01-31 23:59:59`.
pub fn wall_clock_text(ms: i64, zone: &str) -> Cell {
    match wall_clock_us(ms, zone) {
        Cell::Time(us) => {
            chrono::DateTime::from_timestamp_micros(us).map(|t| t.format("%Y-%m-%d %H:%M:%S").to_string()).into()
        }
        _ => Cell::Null,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clocks_are_read_in_the_zone() {
        assert_eq!(wall_clock_us(0, "+08:00"), Cell::Time(8 * 3_600_000_000));
        assert_eq!(wall_clock_us(0, "UTC"), Cell::Time(0));
        assert_eq!(wall_clock_text(1_719_792_000_000, "Europe/Berlin"), "2024-07-01 02:00:00".into());
        assert_eq!(wall_clock_us(0, "nowhere"), Cell::Null);
    }

    #[test]
    fn limits_stay_inside() {
        let rows = |offset, count| {
            let mut sheet = Sheet::texts(&["a"]);
            for s in ["x", "y", "z"] {
                sheet.push([s.into()]);
            }
            sheet.limit(offset, count);
            sheet.into_batch().unwrap().num_rows()
        };
        assert_eq!((rows(0, 2), rows(2, 5), rows(9, 1), rows(0, u64::MAX), rows(u64::MAX, 1)), (2, 1, 0, 3, 0));
    }
}
