//! Metadata tables of Iceberg tables: `t$snapshots`, `t$history` and `t$refs` (as in StarRocks, with Spark's columns),
//! and Doris' `iceberg_meta('table' = 'c.d.t', 'query_type' = 'snapshots')`.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanArray, Int64Array, StringArray, TimestampMicrosecondArray};
use arrow::datatypes::{DECIMAL128_MAX_PRECISION, Decimal128Type, DecimalType};
use arrow::record_batch::RecordBatch;
use chrono::{DateTime, NaiveDate, NaiveTime, TimeDelta};
use datafusion::catalog::TableProvider;
use datafusion::datasource::MemTable;
use dipper_iceberg::metadata::{At, PartitionSpec, Snapshot, TableMetadata};
use dipper_iceberg::predicate::Predicate;
use dipper_iceberg::scan;
use dipper_iceberg::transform::Transform;
use dipper_iceberg::value::Value;
use dipper_node::error::Result;
use dipper_sql::functions::datetime::Zone;
use futures::FutureExt;

use super::Places;
use crate::read::ReadContext;

/// All metadata tables.
const KINDS: [About; 3] = [About::Snapshots, About::History, About::Refs];

/// A metadata table of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum About {
    /// All snapshots that are kept.
    Snapshots,
    /// History of the current snapshot: each one, and when it became current.
    History,
    /// Branches and tags.
    Refs,
}

impl About {
    fn name(self) -> &'static str {
        match self {
            About::Snapshots => "snapshots",
            About::History => "history",
            About::Refs => "refs",
        }
    }

    /// Splits a name into the table and its metadata table; `None` for names of tables themselves.
    pub fn of(table: &str) -> Option<(&str, About)> {
        let (base, kind) = table.rsplit_once('$')?;
        let found = KINDS.into_iter().find(|about| about.name().eq_ignore_ascii_case(kind))?;
        (!base.is_empty()).then_some((base, found))
    }

    /// Returns the rows of the metadata table. Times are in the session's time zone.
    pub fn provider(self, context: &ReadContext, metadata: &TableMetadata) -> Result<Arc<dyn TableProvider>> {
        let zone = Zone::parse(&context.time_zone).unwrap_or(Zone::Fixed(0));
        let clock = |ms: i64| DateTime::from_timestamp_millis(ms).map(|at| zone.to_local(at.timestamp_micros()));
        let times = |ms: &mut dyn Iterator<Item = i64>| -> ArrayRef {
            Arc::new(ms.map(clock).collect::<TimestampMicrosecondArray>())
        };
        let snapshots = &metadata.snapshots;
        let parent = |id: i64| snapshots.iter().find(|s| s.id == id).and_then(|s| s.parent_id);
        let columns: Vec<(&str, ArrayRef)> = match self {
            About::Snapshots => {
                let summary = |s: &Snapshot| {
                    let ordered: BTreeMap<_, _> = s.summary.iter().collect();
                    serde_json::to_string(&ordered).ok()
                };
                let operation = |s: &Snapshot| s.summary.get("operation").cloned();
                vec![
                    ("committed_at", times(&mut snapshots.iter().map(|s| s.timestamp_ms))),
                    ("snapshot_id", Arc::new(snapshots.iter().map(|s| Some(s.id)).collect::<Int64Array>())),
                    ("parent_id", Arc::new(snapshots.iter().map(|s| s.parent_id).collect::<Int64Array>())),
                    ("operation", Arc::new(snapshots.iter().map(operation).collect::<StringArray>())),
                    (
                        "manifest_list",
                        Arc::new(snapshots.iter().map(|s| s.manifest_list.clone()).collect::<StringArray>()),
                    ),
                    ("summary", Arc::new(snapshots.iter().map(summary).collect::<StringArray>())),
                ]
            }
            About::History => {
                let log = &metadata.snapshot_log;
                let mut ancestors = Vec::new();
                let mut next = metadata.current_snapshot_id;
                while let Some(id) = next.filter(|id| !ancestors.contains(id)) {
                    ancestors.push(id);
                    next = parent(id);
                }
                vec![
                    ("made_current_at", times(&mut log.iter().map(|(ms, _)| *ms))),
                    ("snapshot_id", Arc::new(log.iter().map(|(_, id)| Some(*id)).collect::<Int64Array>())),
                    ("parent_id", Arc::new(log.iter().map(|(_, id)| parent(*id)).collect::<Int64Array>())),
                    (
                        "is_current_ancestor",
                        Arc::new(log.iter().map(|(_, id)| Some(ancestors.contains(id))).collect::<BooleanArray>()),
                    ),
                ]
            }
            About::Refs => {
                let mut refs: Vec<_> = metadata.refs.iter().collect();
                refs.sort_unstable();
                let kind = |branch: bool| if branch { "BRANCH" } else { "TAG" };
                vec![
                    ("name", Arc::new(refs.iter().map(|(name, _)| Some(name.as_str())).collect::<StringArray>())),
                    ("type", Arc::new(refs.iter().map(|(_, r)| Some(kind(r.1))).collect::<StringArray>())),
                    ("snapshot_id", Arc::new(refs.iter().map(|(_, r)| Some(r.0)).collect::<Int64Array>())),
                ]
            }
        };
        let batch = RecordBatch::try_from_iter_with_nullable(columns.into_iter().map(|(n, array)| (n, array, true)))?;
        Ok(Arc::new(MemTable::try_new(batch.schema(), vec![vec![batch]])?))
    }
}

/// A partition that has rows: its name, its row count and its data file count. Deleted rows are counted, too.
pub type Part = (String, u64, u64);

/// Returns the current partitions of a table, by name; `None` if it is not partitioned.
///
/// # Errors
/// The error of reading the table's metadata.
pub async fn partitions(places: &Places, metadata: &TableMetadata) -> Result<Option<Vec<Part>>> {
    if metadata.specs.get(&metadata.default_spec_id).is_none_or(PartitionSpec::is_unpartitioned) {
        return Ok(None);
    }
    let (Some(snapshot), schema) = metadata.at(&At::Now)? else { return Ok(Some(Vec::new())) };
    let plan = places.sound(|| scan::plan(places, metadata, snapshot, schema, &Predicate::All).boxed()).await?;
    let mut all: BTreeMap<String, (u64, u64)> = BTreeMap::new();
    for task in &plan.tasks {
        // Files that were written under an older spec are in partitions of that one.
        let Some(spec) = metadata.specs.get(&task.file.spec_id) else { continue };
        let values = spec.fields.iter().zip(&task.file.partition).filter(|(f, _)| f.transform != Transform::Void);
        let names: Vec<String> =
            values.map(|(f, value)| format!("{}={}", f.name, text(f.transform, value.as_ref()))).collect();
        let (rows, files) = all.entry(names.join("/")).or_default();
        *rows += u64::try_from(task.file.records).unwrap_or(0);
        *files += 1;
    }
    Ok(Some(all.into_iter().map(|(name, (rows, files))| (name, rows, files)).collect()))
}

/// Formats a partition value as Iceberg's writers do in directory names, but without their escapes.
fn text(transform: Transform, value: Option<&Value>) -> String {
    let day = |days: i64| NaiveDate::default().checked_add_signed(TimeDelta::try_days(days)?).map(|d| d.to_string());
    let number = |value: &Value| match value {
        Value::Int(n) => Some(*n),
        Value::Date(n) => Some(i64::from(*n)),
        _ => None,
    };
    let Some(value) = value else { return "null".to_string() };
    let spelt = match (transform, number(value)) {
        (Transform::Year, Some(n)) => Some(n.saturating_add(1970).to_string()),
        (Transform::Month, Some(n)) => Some(format!("{:04}-{:02}", 1970 + n.div_euclid(12), n.rem_euclid(12) + 1)),
        (Transform::Day, Some(n)) => day(n),
        (Transform::Hour, Some(n)) => day(n.div_euclid(24)).map(|d| format!("{d}-{:02}", n.rem_euclid(24))),
        _ => None,
    };
    spelt.unwrap_or_else(|| match value {
        Value::Bool(v) => v.to_string(),
        Value::Int(v) => v.to_string(),
        Value::Double(v) => v.to_string(),
        Value::Decimal(v, scale) => Decimal128Type::format_decimal(*v, DECIMAL128_MAX_PRECISION, *scale as i8),
        Value::Date(days) => day(i64::from(*days)).unwrap_or_else(|| days.to_string()),
        Value::Time(us) => NaiveTime::default().overflowing_add_signed(TimeDelta::microseconds(*us)).0.to_string(),
        Value::Timestamp(ns) => match i64::try_from(ns.div_euclid(1000)).ok().and_then(DateTime::from_timestamp_micros)
        {
            Some(at) => at.naive_utc().to_string(),
            None => ns.to_string(),
        },
        Value::String(v) => v.clone(),
        Value::Bytes(v) => v.iter().map(|byte| format!("{byte:02x}")).collect(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_say_what_is_asked_of_which_table() {
        assert_eq!(About::of("t$Snapshots"), Some(("t", About::Snapshots)));
        assert_eq!(About::of("a$b$refs"), Some(("a$b", About::Refs)));
        for own in ["t", "t$files", "$history", "snapshots"] {
            assert_eq!(About::of(own), None, "{own}");
        }
        for (transform, value, expected) in [
            (Transform::Year, Value::Int(54), "2024"),
            (Transform::Month, Value::Int(-1), "1969-12"),
            (Transform::Day, Value::Date(19_783), "2024-03-01"),
            (Transform::Hour, Value::Int(25), "1970-01-02-01"),
            (Transform::Bucket(4), Value::Int(3), "3"),
            (Transform::Identity, Value::Decimal(-12_345, 2), "-123.45"),
            (Transform::Identity, Value::Bytes(vec![1, 255]), "01ff"),
        ] {
            assert_eq!(text(transform, Some(&value)), expected);
        }
        assert_eq!(text(Transform::Identity, None), "null");
    }
}
