//! Doris' rules for the definition of a table, with Doris' messages where they are known.

use dipper_base::states;
use dipper_base::types::SqlType;
use dipper_dialect::statement::aggregate_name;
use dipper_store::table::schema::{
    Aggregate, DefaultValue, Distribution, Model, PartitionKind, TableColumn, TableSchema,
};

use crate::error::{EngineError, ErrorKind, Result};

/// Most columns of a table.
const COLUMNS_MAX: usize = 4096;
/// Most buckets of a partition, like Doris' `max_bucket_num_per_partition`. Each load writes each bucket separately.
const BUCKETS_MAX: u32 = 768;
/// Longest CHAR. Doris' manual says 255, but its scripts have longer ones.
const CHAR_MAX: u32 = 65_533;
/// Longest VARCHAR, as in StarRocks; in Doris it is 65533.
const VARCHAR_MAX: u32 = 1_048_576;

/// Checks the number of buckets that a statement asks for.
///
/// # Errors
/// `Invalid` if there are more buckets than a partition may have.
pub fn buckets(count: Option<u32>) -> Result<()> {
    match count {
        Some(count) if count > BUCKETS_MAX => invalid(format!(
            "BUCKETS {count}: a partition has at most {BUCKETS_MAX}; leave it out, or write BUCKETS AUTO"
        )),
        _ => Ok(()),
    }
}

/// Checks a column that a statement defines.
///
/// # Errors
/// `Invalid` if the type is too long (1074), if the default does not fit the type (1067), or if nothing makes such states.
pub fn column(column: &TableColumn) -> Result<()> {
    let name = &column.name;
    if let SqlType::AggState(of) = &column.data_type
        && let Err(e) = states::reader(of)
    {
        return invalid(format!("column {name}: {e}"));
    }
    let bound = match column.data_type {
        SqlType::Char(Some(n)) if n > CHAR_MAX => Some((n, CHAR_MAX, "CHAR", "VARCHAR")),
        SqlType::Varchar(Some(n)) if n > VARCHAR_MAX => Some((n, VARCHAR_MAX, "VARCHAR", "STRING")),
        _ => None,
    };
    if let Some((found, most, this, other)) = bound {
        return Err(EngineError {
            code: 1074,
            sqlstate: "42000",
            ..EngineError::invalid(format!(
                "Column length too big for column '{name}' (max = {most}): {this}({found}); use {other}"
            ))
        });
    }
    let wrong = |why: String| {
        Err(EngineError {
            code: 1067,
            sqlstate: "42000",
            ..EngineError::invalid(format!("Invalid default value for '{name}': {why}"))
        })
    };
    match (&column.default, &column.data_type) {
        (Some(DefaultValue::Literal(None)), _) if !column.nullable => {
            wrong("NULL, in a column that is NOT NULL".into())
        }
        (Some(DefaultValue::Literal(Some(text))), SqlType::Char(Some(n)) | SqlType::Varchar(Some(n)))
            if text.len() > *n as usize =>
        {
            wrong(format!("'{text}' has {} bytes, {} takes {n}", text.len(), column.data_type))
        }
        _ => Ok(()),
    }
}

/// Checks a definition; partitions are checked by the store's router.
///
/// # Errors
/// `Invalid` or `NoColumn` for the first rule that the names, keys, values, buckets or partition columns break.
pub fn check(schema: &TableSchema) -> Result<()> {
    names(schema)?;
    keys(schema)?;
    values(schema)?;
    placement(schema)
}

fn invalid<T>(message: String) -> Result<T> {
    Err(EngineError::invalid(message))
}

fn names(schema: &TableSchema) -> Result<()> {
    let visible = schema.columns.iter().filter(|c| !c.hidden);
    if visible.clone().count() == 0 {
        return Err(EngineError { code: 1113, ..EngineError::invalid("A table must have at least 1 column") });
    }
    if schema.columns.len() > COLUMNS_MAX {
        return invalid(format!("the table has {} columns, at most {COLUMNS_MAX} are allowed", schema.columns.len()));
    }
    let mut seen = std::collections::HashSet::new();
    for column in &schema.columns {
        if !seen.insert(column.name.to_lowercase()) {
            return Err(EngineError {
                code: 1060,
                sqlstate: "42S21",
                ..EngineError::invalid(format!("Duplicate column name '{}'", column.name))
            });
        }
    }
    for column in visible {
        let name = &column.name;
        if name.to_ascii_uppercase().starts_with("__DORIS_") || name.to_ascii_lowercase().starts_with("__dipper_") {
            return invalid(format!("Disable to create table column with name start with __DORIS_: {name}"));
        }
        if name.is_empty() || name.chars().count() > 256 || name.chars().any(char::is_control) {
            return Err(EngineError {
                code: 1166,
                sqlstate: "42000",
                ..EngineError::invalid(format!("Incorrect column name '{name}'"))
            });
        }
    }
    Ok(())
}

/// Returns whether a type can be part of a key, because its values can be encoded as ordered bytes.
fn can_be_key(data_type: &SqlType) -> bool {
    !matches!(
        data_type,
        SqlType::Float
            | SqlType::Double
            | SqlType::String
            | SqlType::Json
            | SqlType::Variant
            | SqlType::Binary
            | SqlType::Array(_)
            | SqlType::Map(..)
            | SqlType::Struct(_)
            | SqlType::Hll
            | SqlType::Bitmap
            | SqlType::QuantileState
            | SqlType::AggState(_)
    )
}

fn keys(schema: &TableSchema) -> Result<()> {
    if schema.keys == 0 && schema.model != Model::Duplicate {
        return invalid("The table has no key column; UNIQUE and AGGREGATE tables need one".into());
    }
    for column in schema.key_columns() {
        if !can_be_key(&column.data_type) {
            let hint = match column.data_type {
                SqlType::Float | SqlType::Double => "; use DECIMAL instead",
                SqlType::String => "; use VARCHAR instead",
                _ => "",
            };
            return invalid(format!("column {}: type {} cannot be a key column{hint}", column.name, column.data_type));
        }
        if column.aggregate.is_some() {
            return invalid(format!("Key column {} can not set aggregation type", column.name));
        }
    }
    Ok(())
}

/// Returns the type of sets that a nested type has inside. Their values could not be shown as NULL there.
fn set_inside(data_type: &SqlType) -> Option<&SqlType> {
    let inside = |t| if SqlType::is_set(t) { Some(t) } else { set_inside(t) };
    match data_type {
        SqlType::Array(element) => inside(element),
        SqlType::Map(key, value) => inside(key).or_else(|| inside(value)),
        SqlType::Struct(fields) => fields.iter().find_map(|(_, t, _)| inside(t)),
        _ => None,
    }
}

fn values(schema: &TableSchema) -> Result<()> {
    for column in schema.columns[schema.keys..].iter().filter(|c| !c.hidden) {
        match (schema.model, column.aggregate) {
            (Model::Aggregate, None) => {
                return invalid(format!(
                    "column {} of an AGGREGATE KEY table needs an aggregation: SUM, MIN, MAX, REPLACE, REPLACE_IF_NOT_NULL, HLL_UNION, BITMAP_UNION, QUANTILE_UNION or GENERIC",
                    column.name
                ));
            }
            (Model::Aggregate, Some(aggregate)) => check_aggregate(column, aggregate)?,
            (_, Some(_)) => {
                return invalid(format!("column {}: only AGGREGATE KEY tables have aggregations", column.name));
            }
            (_, None) => {}
        }
    }
    for column in &schema.columns {
        let has_empty = column.data_type.has_empty();
        if has_empty != (column.default == Some(DefaultValue::Empty)) {
            return invalid(match has_empty {
                true => format!(
                    "column {}: the default of type {} is HLL_EMPTY or BITMAP_EMPTY and no other",
                    column.name, column.data_type
                ),
                false => format!(
                    "column {}: HLL_EMPTY and BITMAP_EMPTY are no defaults of type {}",
                    column.name, column.data_type
                ),
            });
        }
        if column.default == Some(DefaultValue::CurrentDate) && column.data_type != SqlType::Date {
            return invalid(format!(
                "column {}: Types other than DATE and DATEV2 cannot use current_date as the default value",
                column.name
            ));
        }
        if matches!(column.data_type, SqlType::AggState(_)) && column.default.is_some() {
            return invalid(format!("column {}: type {} has no default", column.name, column.data_type));
        }
        if let Some(inner) = set_inside(&column.data_type) {
            return invalid(format!("column {}: type {inner} is not supported inside of other types", column.name));
        }
        if column.auto_increment.is_some() {
            if column.default.is_some() {
                return Err(EngineError {
                    code: 1067,
                    sqlstate: "42000",
                    ..EngineError::invalid(format!("Invalid default value for '{}'", column.name))
                });
            }
            if !matches!(column.data_type, SqlType::BigInt | SqlType::Int) {
                return invalid(format!("the auto increment must be BIGINT or INT type: column {}", column.name));
            }
            if schema.model == Model::Aggregate {
                return invalid(format!("column {}: AUTO_INCREMENT is not for AGGREGATE KEY tables", column.name));
            }
        }
    }
    if schema.columns.iter().filter(|c| c.auto_increment.is_some()).count() > 1 {
        return Err(EngineError {
            code: 1075,
            sqlstate: "42000",
            ..EngineError::invalid("there can be at most one AUTO_INCREMENT column")
        });
    }
    let of_groups = schema.columns.iter().filter_map(|c| match c.aggregate {
        Some(Aggregate::ReplaceBySequence(id)) => Some(id),
        _ => None,
    });
    for id in schema.sequence.into_iter().chain(of_groups) {
        let column = schema.position(id).map(|i| &schema.columns[i]);
        let Some(column) = column else {
            return Err(EngineError::new(ErrorKind::NoColumn, "the sequence column does not exist"));
        };
        let ordered = matches!(
            column.data_type,
            SqlType::TinyInt
                | SqlType::SmallInt
                | SqlType::Int
                | SqlType::BigInt
                | SqlType::LargeInt
                | SqlType::Date
                | SqlType::DateTime(_)
        );
        if !ordered {
            return invalid(format!("sequence column {} must be of an integer or date type", column.name));
        }
    }
    Ok(())
}

fn check_aggregate(column: &TableColumn, aggregate: Aggregate) -> Result<()> {
    let t = &column.data_type;
    let fits = match aggregate {
        Aggregate::Sum => matches!(
            t,
            SqlType::TinyInt
                | SqlType::SmallInt
                | SqlType::Int
                | SqlType::BigInt
                | SqlType::LargeInt
                | SqlType::Float
                | SqlType::Double
                | SqlType::Decimal(..)
        ),
        Aggregate::Min | Aggregate::Max => !matches!(
            t,
            SqlType::Array(_)
                | SqlType::Map(..)
                | SqlType::Struct(_)
                | SqlType::Hll
                | SqlType::Bitmap
                | SqlType::QuantileState
                | SqlType::AggState(_)
                | SqlType::Json
                | SqlType::Variant
        ),
        Aggregate::Replace | Aggregate::ReplaceIfNotNull | Aggregate::ReplaceBySequence(_) => !t.is_set(),
        Aggregate::HllUnion => matches!(t, SqlType::Hll),
        Aggregate::BitmapUnion => matches!(t, SqlType::Bitmap),
        Aggregate::QuantileUnion => matches!(t, SqlType::QuantileState),
        Aggregate::Generic => matches!(t, SqlType::AggState(_)),
    };
    if fits {
        return Ok(());
    }
    invalid(format!("Invalid aggregate function '{}' for '{}'", aggregate_name(aggregate), column.name))
}

fn placement(schema: &TableSchema) -> Result<()> {
    let column = |id: &u32| &schema.columns[schema.position(*id).expect("the caller has looked them up")];
    let is_key = |id: &u32| schema.position(*id).is_some_and(|i| i < schema.keys);
    match &schema.distribution {
        Distribution::Random if schema.model == Model::Unique => {
            return invalid("Create unique keys table should not contain random distribution desc".into());
        }
        Distribution::Random => {
            let replace = schema
                .columns
                .iter()
                .any(|c| matches!(c.aggregate, Some(Aggregate::Replace | Aggregate::ReplaceIfNotNull)));
            if schema.has_sequences() {
                return invalid("Create unique keys table should not contain random distribution desc".into());
            }
            if replace {
                return invalid(
                    "Create aggregate keys table with value columns of which aggregate type is REPLACE should not contain random distribution desc".into(),
                );
            }
        }
        Distribution::Hash(columns) => {
            for id in columns {
                let c = column(id);
                if schema.model != Model::Duplicate && !is_key(id) {
                    return invalid(format!("Distribution column[{}] is not key column", c.name));
                }
                if matches!(
                    c.data_type,
                    SqlType::Float
                        | SqlType::Double
                        | SqlType::Array(_)
                        | SqlType::Map(..)
                        | SqlType::Struct(_)
                        | SqlType::Json
                        | SqlType::Variant
                        | SqlType::Hll
                        | SqlType::Bitmap
                        | SqlType::QuantileState
                        | SqlType::AggState(_)
                ) {
                    return invalid(format!(
                        "Distribution column[{}] of type {} cannot be hashed",
                        c.name, c.data_type
                    ));
                }
            }
        }
    }
    if schema.buckets == Some(0) {
        return invalid("Number of hash distribution should be greater than zero.".into());
    }
    if let Some(by) = &schema.partition_by {
        for id in &by.columns {
            let c = column(id);
            if schema.model != Model::Duplicate && !is_key(id) {
                return invalid(format!("The partition column must be key column: {}", c.name));
            }
            let ordered = matches!(
                c.data_type,
                SqlType::TinyInt
                    | SqlType::SmallInt
                    | SqlType::Int
                    | SqlType::BigInt
                    | SqlType::LargeInt
                    | SqlType::Date
                    | SqlType::DateTime(_)
            );
            let listed =
                matches!(c.data_type, SqlType::Boolean | SqlType::Char(_) | SqlType::Varchar(_) | SqlType::String);
            let fits = ordered || listed && by.kind == PartitionKind::List;
            if !fits {
                return invalid(format!("column {} of type {} cannot be a partition column", c.name, c.data_type));
            }
        }
    }
    Ok(())
}
