//! Converts rows of a query to rows of a table: each column of the table is a column of the query, a default or a
//! constant.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, RecordBatchOptions, new_null_array};
use arrow::datatypes::{DataType, Field, FieldRef, Schema, SchemaRef};
use arrow::record_batch::RecordBatch;
use datafusion::common::ScalarValue;
use dipper_base::address::{self, is_address};
use dipper_base::clock;
use dipper_base::quantile::{COMPRESSION, Quantiles};
use dipper_base::sketch;
use dipper_base::types::SqlType;
use dipper_node::error::{EngineError, Result};
use dipper_sql::charter::{TYPE_KEY, datetime};
use dipper_sql::functions::LostValues;
use dipper_sql::functions::datetime::Zone;
use dipper_store::segment::no_elements;
use dipper_store::table::schema::{DELETE_SIGN, DefaultValue, TableColumn, TableSchema};
use roaring::RoaringTreemap;

use crate::stored::{cast, no_column, target, twice};

/// The source of the values of a column of the table.
#[derive(Debug, Clone)]
enum Source {
    /// A column of the query.
    Query(usize),
    /// A value for new rows. If the statement gives only some columns, existing rows keep the value that they have.
    Constant(ScalarValue),
    /// A value for all rows, new and existing.
    Given(ScalarValue),
    /// Numbers that the load generates.
    AutoIncrement,
}

/// The conversion of a query's batches to rows of a table.
#[derive(Debug)]
pub struct Shape {
    /// The definition of the table.
    pub definition: Arc<TableSchema>,
    schema: SchemaRef,
    /// The fields by which values of the query are converted.
    targets: Vec<FieldRef>,
    sources: Vec<Source>,
    /// Number of columns that the query must give.
    pub wanted: usize,
    /// Whether a value that does not fit is an error.
    pub strict: bool,
    /// Counts values that do not fit, if they are not errors.
    pub lost: Arc<LostValues>,
    /// The zone of the session.
    zone: Zone,
}

impl Shape {
    /// Makes the conversion. `columns` are the names in the statement; if there are none, all visible columns.
    ///
    /// # Errors
    /// `NoColumn` for a name that the table does not have; an error for a name that comes twice, and for a column
    /// without default that must not be NULL and is not named.
    pub fn try_new(definition: &Arc<TableSchema>, columns: &[String], now: &Now, strict: bool) -> Result<Self> {
        Self::with(definition, columns, now, strict, false)
    }

    /// Makes the conversion as [`try_new`](Self::try_new) does. `partial`: existing rows keep the columns that the
    /// statement does not name.
    ///
    /// # Errors
    /// The errors of [`try_new`](Self::try_new).
    pub fn with(
        definition: &Arc<TableSchema>,
        columns: &[String],
        now: &Now,
        strict: bool,
        partial: bool,
    ) -> Result<Self> {
        let mut sources: Vec<Option<Source>> = vec![None; definition.columns.len()];
        let mut wanted = 0;
        let mut next = || {
            wanted += 1;
            Some(Source::Query(wanted - 1))
        };
        if columns.is_empty() {
            for (source, column) in sources.iter_mut().zip(&definition.columns) {
                if !column.hidden {
                    *source = next();
                }
            }
        }
        for name in columns {
            let i = (definition.columns.iter())
                .position(|c| c.name.eq_ignore_ascii_case(name))
                .ok_or_else(|| no_column(name, definition.columns.iter().map(|c| c.name.as_str())))?;
            if sources[i].is_some() {
                return Err(twice(name));
            }
            sources[i] = next();
        }
        let sources = (sources.into_iter().zip(&definition.columns))
            .map(|(source, column)| match source {
                Some(source) => Ok(source),
                // The load computes it.
                None if column.generated.is_some() => omitted(column, now),
                None if partial && column.on_update.is_some() => {
                    Ok(Source::Given(changed_at(column, now)?.unwrap_or(ScalarValue::Null)))
                }
                // The load rejects a new row without a value of this column.
                None if partial && !column.nullable && column.default.is_none() && !column.hidden => {
                    Ok(Source::Constant(ScalarValue::try_from(&column.data_type.to_arrow())?))
                }
                None => omitted(column, now),
            })
            .collect::<Result<Vec<_>>>()?;
        let nullable = |f: &FieldRef| f.as_ref().clone().with_nullable(true);
        let schema = Arc::new(Schema::new(definition.arrow().fields().iter().map(nullable).collect::<Vec<_>>()));
        let targets = definition.columns.iter().zip(schema.fields()).map(|(column, field)| target(column, field));
        Ok(Shape {
            definition: Arc::clone(definition),
            targets: targets.collect(),
            schema,
            sources,
            wanted,
            strict,
            lost: Arc::default(),
            zone: now.zone,
        })
    }

    /// Positions of the columns that every row gets, new or existing.
    pub fn given(&self) -> Vec<usize> {
        let is_given = |source: &Source| matches!(source, Source::Query(_) | Source::Given(_));
        (0..self.sources.len()).filter(|i| is_given(&self.sources[*i])).collect()
    }

    /// Returns the columns that the query fills, in the order of the query.
    pub fn targets(&self) -> Vec<&TableColumn> {
        let mut targets: Vec<(usize, &TableColumn)> = (self.sources.iter().zip(&self.definition.columns))
            .filter_map(|(source, column)| match source {
                Source::Query(at) => Some((*at, column)),
                _ => None,
            })
            .collect();
        targets.sort_by_key(|(at, _)| *at);
        targets.into_iter().map(|(_, column)| column).collect()
    }

    /// Converts a batch of the query to rows of the table. The load checks NOT NULL, because it can name the row, and
    /// replaces NULL in an AUTO_INCREMENT column by a number.
    ///
    /// # Errors
    /// `BadValue` if a value does not fit.
    pub fn shape(&self, batch: &RecordBatch) -> Result<RecordBatch> {
        let rows = batch.num_rows();
        let arrays = (self.sources.iter().zip(&self.targets).zip(&self.definition.columns))
            .map(|((source, field), column)| match source {
                Source::Query(at) => {
                    refuse_set(batch.schema_ref().field(*at), field)?;
                    let array = cast(batch.column(*at), field, (!self.strict).then_some(&*self.lost), Some(self.zone))?;
                    match column.data_type {
                        SqlType::DateTime(digits) | SqlType::Time(digits) => self.rounded(&array, digits, &column.name),
                        _ => Ok(array),
                    }
                }
                Source::Constant(value) | Source::Given(value) => Ok(value.to_array_of_size(rows)?),
                Source::AutoIncrement => Ok(new_null_array(field.data_type(), rows)),
            })
            .collect::<Result<Vec<_>>>()?;
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        RecordBatch::try_new_with_options(Arc::clone(&self.schema), arrays, &options)
            .map_err(|e| EngineError::invalid(e.to_string()))
    }

    /// Rounds times to the digits of DATETIME(p) and TIME(p): digits that are not shown must not tell two values apart.
    fn rounded(&self, array: &ArrayRef, digits: u8, column: &str) -> Result<ArrayRef> {
        let rounded = datetime::rounded(array, digits);
        if self.strict && rounded.null_count() > array.null_count() {
            let message =
                format!("column {column}: a value rounded to {digits} digits of a second is behind the year 9999");
            return Err(EngineError::invalid(message));
        }
        Ok(rounded)
    }
}

/// The time of the statement, for CURRENT_TIMESTAMP.
#[derive(Debug, Clone)]
pub struct Now {
    /// Wall clock in the session's zone, microseconds since 1970.
    micros: i64,
    zone: Zone,
}

impl Now {
    /// Makes the time of a statement from microseconds since 1970 UTC, and the session's zone.
    pub fn new(micros: i64, zone: Zone) -> Self {
        Now { micros: zone.to_local(micros), zone }
    }
}

/// Returns the source of a column that the statement does not name.
fn omitted(column: &TableColumn, now: &Now) -> Result<Source> {
    if column.auto_increment.is_some() {
        return Ok(Source::AutoIncrement);
    }
    if column.name == DELETE_SIGN {
        return Ok(Source::Constant(ScalarValue::Int8(Some(0))));
    }
    if column.generated.is_some() {
        return Ok(Source::Constant(ScalarValue::try_from(&column.data_type.to_arrow())?));
    }
    match default_value(column, now)? {
        Some(value) => Ok(Source::Constant(value)),
        None => Err(EngineError {
            code: 1364,
            sqlstate: "HY000",
            ..EngineError::invalid(format!(
                "Field '{}' doesn't have a default value, and is NOT NULL; name it in the column list",
                column.name
            ))
        }),
    }
}

/// Returns the default of a column; `None` if it has none and must not be NULL.
///
/// # Errors
/// `Invalid` if the default is no value of the column's type.
pub fn default_value(column: &TableColumn, now: &Now) -> Result<Option<ScalarValue>> {
    let data_type = column.data_type.to_arrow();
    if let (DataType::List(element), Some(DefaultValue::Literal(Some(text)))) = (&data_type, &column.default)
        && text.trim() == "[]"
    {
        return Ok(Some(ScalarValue::List(Arc::new(no_elements(element)))));
    }
    if let (true, Some(DefaultValue::Literal(Some(text)))) = (is_address(&data_type), &column.default) {
        let bytes = address::parse(text, &data_type).ok_or_else(|| {
            EngineError::invalid(format!("column {}: the default {text} is no {}", column.name, column.data_type))
        })?;
        let width = bytes.len() as i32;
        return Ok(Some(ScalarValue::FixedSizeBinary(width, Some(bytes))));
    }
    if let (SqlType::Time(digits), Some(DefaultValue::Literal(Some(text)))) = (&column.data_type, &column.default) {
        let time = clock::parse(text.as_bytes()).ok_or_else(|| {
            EngineError::invalid(format!("column {}: the default {text} is no {}", column.name, column.data_type))
        })?;
        return Ok(Some(ScalarValue::Time64Microsecond(Some(clock::rounded(time, *digits)))));
    }
    let typed = |value: ScalarValue| {
        value.cast_to(&data_type).map_err(|_| {
            EngineError::invalid(format!("column {}: the default {value} is no {}", column.name, column.data_type))
        })
    };
    Ok(Some(match &column.default {
        Some(DefaultValue::Literal(Some(text))) => typed(ScalarValue::Utf8(Some(text.clone())))?,
        Some(DefaultValue::Literal(None)) => ScalarValue::try_from(&data_type)?,
        None if column.nullable => ScalarValue::try_from(&data_type)?,
        None => return Ok(None),
        Some(DefaultValue::CurrentTimestamp(digits)) => {
            let unit = 10_i64.pow(6 - u32::from((*digits).min(6)));
            typed(ScalarValue::TimestampMicrosecond(Some(now.micros.div_euclid(unit) * unit), None))?
        }
        Some(DefaultValue::CurrentDate) => {
            typed(ScalarValue::Date32(i32::try_from(now.micros.div_euclid(86_400_000_000)).ok()))?
        }
        Some(DefaultValue::Empty) => match column.data_type {
            SqlType::Hll => ScalarValue::BinaryView(Some(sketch::HyperLogLog::new(sketch::HLL_PRECISION).to_bytes())),
            SqlType::QuantileState => ScalarValue::BinaryView(Some(Quantiles::new(COMPRESSION).to_bytes())),
            _ => ScalarValue::BinaryView(Some(sketch::bitmap_to_bytes(&RoaringTreemap::new()))),
        },
    }))
}

/// Returns the value of a column that a statement does not name; `None` if the load generates the value.
///
/// # Errors
/// MySQL's error 1364 if the column has no default and must not be NULL.
pub fn omitted_value(column: &TableColumn, now: &Now) -> Result<Option<ScalarValue>> {
    match omitted(column, now)? {
        Source::Constant(value) | Source::Given(value) => Ok(Some(value)),
        Source::AutoIncrement | Source::Query(_) => Ok(None),
    }
}

/// For a column with ON UPDATE CURRENT_TIMESTAMP, returns it with the current time as its default.
pub fn stamped(column: &TableColumn) -> Option<TableColumn> {
    let digits = column.on_update?;
    Some(TableColumn { default: Some(DefaultValue::CurrentTimestamp(digits)), ..column.clone() })
}

/// Returns the value of ON UPDATE CURRENT_TIMESTAMP; `None` for a column without it.
///
/// # Errors
/// The errors of [`default_value`].
pub fn changed_at(column: &TableColumn, now: &Now) -> Result<Option<ScalarValue>> {
    stamped(column).map_or(Ok(None), |column| default_value(&column, now))
}

/// Refuses sets and states for a BOOLEAN column, which takes other bytes as the bits of a number.
///
/// # Errors
/// `Invalid` if the value is one of these.
fn refuse_set(from: &Field, to: &Field) -> Result<()> {
    let declared = from.metadata().get(TYPE_KEY).map(String::as_str);
    let is_set = declared
        .is_some_and(|text| matches!(text, "bitmap" | "hll" | "quantile_state") || text.starts_with("agg_state<"));
    match *to.data_type() == DataType::Boolean && is_set {
        true => Err(EngineError::invalid(format!(
            "column {}: a value of type {} cannot be stored as BOOLEAN",
            to.name(),
            declared.unwrap_or_default().to_uppercase()
        ))),
        false => Ok(()),
    }
}
