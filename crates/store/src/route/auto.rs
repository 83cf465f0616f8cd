//! AUTO PARTITION: the partitions that are made for values that have none.

use std::collections::BTreeMap;

use arrow_array::cast::AsArray;
use arrow_array::types::{Date32Type, TimestampMicrosecondType};
use arrow_array::{Array, ArrayRef};
use arrow_schema::DataType;
use chrono::{Datelike, NaiveDateTime};
use dipper_base::types::SqlType;

use super::dynamic::{Unit, date_text};
use super::{RouteError, text_of};
use crate::table::schema::{AutoPartition, Bounds, PartitionBy, TableSchema, Values};

/// A partition that has to be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewPartition {
    /// `p20240101000000` for the range that begins there. For a list `p` and the values: letters and digits as they
    /// stand, other characters by their code, strings followed by their length: `pBeijing7`, `p_5`, `pX` for NULL.
    pub name: String,
    /// Values that the partition holds.
    pub bounds: Bounds,
}

#[derive(Debug)]
pub(super) enum Auto {
    Trunc(Unit, SqlType),
    Value,
}

impl Auto {
    pub(super) fn try_new(schema: &TableSchema, by: &PartitionBy, auto: &AutoPartition) -> Result<Self, RouteError> {
        let AutoPartition::DateTrunc(unit) = auto else { return Ok(Auto::Value) };
        let unit = Unit::parse(unit).ok_or_else(|| RouteError::Property {
            name: "AUTO PARTITION BY RANGE (date_trunc(column, unit))".into(),
            expected: "year, quarter, month, week, day, hour, minute or second",
            found: unit.clone(),
        })?;
        let id = *by.columns.first().ok_or(RouteError::NoColumn(0))?;
        let column = &schema.columns[schema.position(id).ok_or(RouteError::NoColumn(id))?];
        match column.data_type {
            SqlType::Date | SqlType::DateTime(_) => Ok(Auto::Trunc(unit, column.data_type.clone())),
            _ => Err(RouteError::Type {
                column: column.name.clone(),
                role: "cut by date_trunc",
                found: column.data_type.to_string(),
            }),
        }
    }

    /// Returns the partitions for these values of the partition columns, each once, by name. Lists of different values
    /// may have the same name, as (1, 23) and (12, 3); [`Table::ensure_partitions`](crate::table::Table) gives one of
    /// them another name.
    pub(super) fn partitions(&self, columns: &[ArrayRef]) -> Result<Vec<NewPartition>, RouteError> {
        let mut found: BTreeMap<(String, Values), NewPartition> = BTreeMap::new();
        let rows = columns.first().map_or(0, |c| c.len());
        match self {
            Auto::Trunc(unit, data_type) => {
                let mut last = None;
                for row in 0..rows {
                    let Some(at) = instant(&columns[0], row) else { continue };
                    let lower = unit.trunc(at);
                    if last == Some(lower) {
                        continue;
                    }
                    last = Some(lower);
                    let name = lower.format("p%Y%m%d%H%M%S").to_string().replace(['-', '+'], "_");
                    // The first and the last range extend beyond the years that a DATE can have: they have no bound
                    // there.
                    let value = |at: NaiveDateTime| {
                        (0..=9999).contains(&at.year()).then(|| vec![Some(date_text(at, data_type))])
                    };
                    let upper = unit.add(lower, 1).and_then(value);
                    let bounds = Bounds::range(value(lower), upper);
                    found.entry((name.clone(), Vec::new())).or_insert(NewPartition { name, bounds });
                }
            }
            Auto::Value => {
                for row in 0..rows {
                    let mut name = String::from("p");
                    let mut values = Vec::with_capacity(columns.len());
                    for column in columns {
                        let text = text_of(column, row)?;
                        match &text {
                            None => name.push('X'),
                            Some(text) => {
                                push_name(&mut name, text);
                                if matches!(column.data_type(), DataType::Utf8View) {
                                    name.push_str(&text.chars().count().to_string());
                                }
                            }
                        }
                        values.push(text);
                    }
                    let bounds = Bounds::List(vec![values.clone()]);
                    found.entry((name.clone(), values)).or_insert(NewPartition { name, bounds });
                }
            }
        }
        Ok(found.into_values().collect())
    }
}

fn push_name(name: &mut String, text: &str) {
    if text.starts_with('-') {
        name.push('_');
    }
    for c in text.chars() {
        if c.is_ascii_alphanumeric() {
            name.push(c);
        } else {
            name.push_str(&format!("{:x}", c as u32));
        }
    }
}

/// Returns a DATE or DATETIME as a point in time; `None` for NULL and for values outside of the calendar.
fn instant(column: &ArrayRef, row: usize) -> Option<NaiveDateTime> {
    if column.is_null(row) {
        return None;
    }
    match column.data_type() {
        DataType::Date32 => {
            column.as_primitive::<Date32Type>().value_as_date(row).map(|d| d.and_time(chrono::NaiveTime::MIN))
        }
        _ => column.as_primitive_opt::<TimestampMicrosecondType>()?.value_as_datetime(row),
    }
}
