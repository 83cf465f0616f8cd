//! Makes partitions of a table from the partitions that a statement describes.

use std::sync::Arc;

use chrono::{NaiveDate, NaiveDateTime};
use dipper_base::types::SqlType;
use dipper_dialect::statement::{PartitionClause, PartitionDef, PartitionItem, PartitionValue, PartitionValues};
use dipper_store::route::dynamic::{Unit, interval};
use dipper_store::route::{NewPartition, canonical, less_than, validate_all};
use dipper_store::table::schema::{Bounds, Partition, PartitionId, PartitionKind, TableSchema, Values};

use crate::error::{EngineError, Result};

/// Number of buckets of a partition if neither the statement nor the table gives it. Doris's rule for AUTO is one per
/// 10 GB; scans here split tablets on their own, so few are enough.
const AUTO_BUCKETS: u32 = 1;
/// Most partitions that one statement creates.
const PARTITIONS_MAX: usize = 4096;

/// Returns the number of buckets of a new partition.
pub(super) fn bucket_count(definition: &TableSchema, given: Option<u32>) -> u32 {
    given.or(definition.buckets).unwrap_or(AUTO_BUCKETS)
}

/// Makes the partitions of CREATE TABLE.
pub(super) fn initial(definition: &TableSchema, clause: &PartitionClause) -> Result<Vec<Partition>> {
    let mut made: Vec<Arc<Partition>> = Vec::new();
    for item in &clause.partitions {
        let next = made.len() as PartitionId;
        let new = from_item(definition, &made, item, next, None, false)?;
        made.extend(new.into_iter().map(Arc::new));
        if made.len() > PARTITIONS_MAX {
            return Err(EngineError::invalid(format!(
                "the statement makes more than {PARTITIONS_MAX} partitions; use larger ones, or AUTO PARTITION"
            )));
        }
    }
    validate_all(definition, &made)?;
    Ok(made.iter().map(|p| p.as_ref().clone()).collect())
}

/// Makes the partitions that one entry of a list stands for. `existing` are the partitions so far, and `next` is the
/// first free id.
pub(super) fn from_item(
    definition: &TableSchema,
    existing: &[Arc<Partition>],
    item: &PartitionItem,
    next: PartitionId,
    buckets: Option<u32>,
    temporary: bool,
) -> Result<Vec<Partition>> {
    let Some(by) = &definition.partition_by else {
        return Err(EngineError::invalid("the table is not partitioned"));
    };
    let buckets = bucket_count(definition, buckets);
    let list = match item {
        PartitionItem::One(def) => vec![one(definition, existing, def, next, buckets, temporary)?],
        PartitionItem::Steps { from, to, step, unit } => {
            if by.kind != PartitionKind::Range || by.columns.len() != 1 {
                return Err(EngineError::invalid("FROM ... TO ... needs PARTITION BY RANGE of one column"));
            }
            let column = &definition.columns[definition.position(by.columns[0]).expect("its own column")];
            steps(&column.data_type, single(from)?, single(to)?, *step, unit.as_deref())?
                .into_iter()
                .zip(next..)
                .map(|(new, id)| Partition {
                    id,
                    name: new.name,
                    bounds: new.bounds,
                    buckets,
                    temporary,
                    properties: Default::default(),
                })
                .collect()
        }
    };
    Ok(list)
}

fn one(
    definition: &TableSchema,
    existing: &[Arc<Partition>],
    def: &PartitionDef,
    id: PartitionId,
    buckets: u32,
    temporary: bool,
) -> Result<Partition> {
    let by = definition.partition_by.as_ref().expect("the caller has looked");
    let bounds = match (&def.values, by.kind) {
        (PartitionValues::LessThan(values), PartitionKind::Range) => {
            let (upper, upper_max) = bound(values);
            less_than(definition, existing, &def.name, upper, upper_max)?
        }
        (PartitionValues::Range { lower, upper }, PartitionKind::Range) => {
            if lower.first() == Some(&PartitionValue::Max) {
                return Err(EngineError::invalid(format!(
                    "partition {}: nothing is above MAXVALUE, the lower bound",
                    def.name
                )));
            }
            let ((lower, lower_max), (upper, upper_max)) = (bound(lower), bound(upper));
            canonical(definition, &def.name, Bounds::Range { lower, upper, lower_max, upper_max })?
        }
        (PartitionValues::In(list), PartitionKind::List) => {
            canonical(definition, &def.name, Bounds::List(list.clone()))?
        }
        (PartitionValues::Rest, PartitionKind::List) => {
            return Err(EngineError::unsupported(format!(
                "partition {}: a LIST partition without VALUES IN; name the values",
                def.name
            )));
        }
        (_, PartitionKind::Range) => {
            return Err(EngineError::invalid(format!(
                "partition {}: RANGE partitions need VALUES LESS THAN (...) or VALUES [(...), (...))",
                def.name
            )));
        }
        (_, PartitionKind::List) => {
            return Err(EngineError::invalid(format!("partition {}: LIST partitions need VALUES IN (...)", def.name)));
        }
    };
    let properties = def.properties.iter().cloned().collect();
    Ok(Partition { id, name: def.name.clone(), bounds, buckets, temporary, properties })
}

/// Returns the values before MAXVALUE, and whether MAXVALUE follows them. `None` is unbounded. Values after MAXVALUE
/// mean nothing.
fn bound(values: &[PartitionValue]) -> (Option<Values>, bool) {
    let known: Values = values
        .iter()
        .map_while(|v| match v {
            PartitionValue::Value(text) => Some(text.clone()),
            PartitionValue::Max => None,
        })
        .collect();
    let max = !known.is_empty() && known.len() < values.len();
    ((!known.is_empty()).then_some(known), max)
}

fn single(values: &[PartitionValue]) -> Result<&str> {
    match values {
        [PartitionValue::Value(Some(text))] => Ok(text),
        _ => Err(EngineError::invalid("FROM (...) TO (...) needs one value each")),
    }
}

/// Makes the partitions from `from` to `to`, each `step` long.
fn steps(data_type: &SqlType, from: &str, to: &str, step: u64, unit: Option<&str>) -> Result<Vec<NewPartition>> {
    let length = i64::try_from(step).unwrap_or(i64::MAX);
    let Some(unit) = unit else {
        return integer_steps(from, to, length);
    };
    if !matches!(data_type, SqlType::Date | SqlType::DateTime(_)) {
        return Err(EngineError::invalid(format!(
            "INTERVAL {unit} needs a DATE or DATETIME column, found {data_type}"
        )));
    }
    let parsed = Unit::parse(unit).ok_or_else(|| EngineError::invalid(format!("INTERVAL {unit}: unknown unit")))?;
    if *data_type == SqlType::Date && matches!(parsed, Unit::Hour | Unit::Minute | Unit::Second) {
        return Err(EngineError::invalid(format!("INTERVAL {unit} needs a DATETIME column, found {data_type}")));
    }
    Ok(interval(moment(from)?, moment(to)?, length, parsed, data_type)?)
}

fn integer_steps(from: &str, to: &str, step: i64) -> Result<Vec<NewPartition>> {
    let number = |text: &str| {
        text.parse::<i64>().map_err(|_| EngineError::invalid(format!("partition bound '{text}' is no integer")))
    };
    let (mut at, end) = (number(from)?, number(to)?);
    let mut made = Vec::new();
    while at < end {
        let next = at.saturating_add(step).min(end);
        let bound = |n: i64| Some(vec![Some(n.to_string())]);
        let bounds = Bounds::range(bound(at), bound(next));
        made.push(NewPartition { name: format!("p_{at}").replace('-', "_"), bounds });
        if made.len() > PARTITIONS_MAX {
            return Err(EngineError::invalid(format!(
                "FROM {from} TO {to} makes more than {PARTITIONS_MAX} partitions; use a longer interval"
            )));
        }
        at = next;
    }
    Ok(made)
}

fn moment(text: &str) -> Result<NaiveDateTime> {
    NaiveDateTime::parse_from_str(text, "%Y-%m-%d %H:%M:%S%.f")
        .or_else(|_| NaiveDate::parse_from_str(text, "%Y-%m-%d").map(|d| d.and_time(chrono::NaiveTime::MIN)))
        .map_err(|_| EngineError::invalid(format!("partition bound '{text}' is no date")))
}
