//! PROPERTIES of native tables: which act, which are kept for show, which are wrong.

use dipper_store::table::schema::TableSchema;

use crate::error::{EngineError, Result};
use crate::session::Session;

/// Properties that act.
const ACTING: &[&str] = &[
    "store_row_column",
    "row_store_columns",
    "bloom_filter_columns",
    "bloom_filter_fpp",
    "compression",
    "function_column.sequence_col",
    "function_column.sequence_type",
    "enable_unique_key_merge_on_write",
    "disable_auto_compaction",
    "dynamic_partition.enable",
    "dynamic_partition.time_unit",
    "dynamic_partition.time_zone",
    "dynamic_partition.start",
    "dynamic_partition.end",
    "dynamic_partition.prefix",
    "dynamic_partition.buckets",
    "dynamic_partition.create_history_partition",
    "dynamic_partition.history_partition_num",
    "dynamic_partition.start_day_of_week",
    "dynamic_partition.start_day_of_month",
    "group_commit_interval_ms",
    "prepared_timeout",
    "group_commit_data_bytes",
    "datacache.enable",
    "storage_volume",
];

/// Properties of a cluster with replicas, of media and formats that there is no choice of here: accepted, without effect,
/// because every script has them.
const WITHOUT_EFFECT: &[&str] = &[
    "replication_num",
    "replication_allocation",
    "default.replication_allocation",
    "in_memory",
    "storage_format",
    "storage_type",
    "storage_medium",
    "storage_cooldown_time",
    "light_schema_change",
    "colocate_with",
    "estimate_partition_size",
    "inverted_index_storage_format",
    "enable_single_replica_compaction",
    "min_load_replica_num",
    "is_being_synced",
    "enable_mow_light_delete",
    "enable_persistent_index",
    "persistent_index_type",
    "replicated_storage",
    "bucket_size",
    "fast_schema_evolution",
    "enable_async_write_back",
    "version_info",
];

/// Checks the values of properties that act, and says which of the others do nothing.
pub(super) fn check<'a>(
    session: &mut Session,
    definition: &TableSchema,
    given: impl Iterator<Item = (&'a str, &'a str)>,
) -> Result<()> {
    for (key, value) in given {
        let lower = key.to_lowercase();
        if WITHOUT_EFFECT.contains(&lower.as_str()) {
            continue;
        }
        if !ACTING.contains(&lower.as_str()) {
            if !lower.starts_with("binlog.") && !lower.starts_with("variant_") {
                session.warn(1105, format!("property '{key}' is unknown: it is kept and shown, and has no effect"));
            }
            continue;
        }
        check_value(definition, &lower, value)?;
    }
    Ok(())
}

fn check_value(definition: &TableSchema, key: &str, value: &str) -> Result<()> {
    let wrong =
        |expected: &str| Err(EngineError::invalid(format!("property '{key}' = '{value}': expected {expected}")));
    match key {
        "store_row_column"
        | "enable_unique_key_merge_on_write"
        | "disable_auto_compaction"
        | "datacache.enable"
        | "dynamic_partition.enable"
        | "dynamic_partition.create_history_partition" => {
            if !matches!(value.to_lowercase().as_str(), "true" | "false") {
                return wrong("true or false");
            }
        }
        "row_store_columns" | "bloom_filter_columns" => {
            for name in value.split(',').map(str::trim).filter(|n| !n.is_empty()) {
                super::create::named(&definition.columns, name)?;
            }
        }
        "bloom_filter_fpp" => {
            if !value.parse::<f64>().is_ok_and(|p| (0.0001..=0.05).contains(&p)) {
                return wrong("a number from 0.0001 to 0.05");
            }
        }
        "compression" => {
            let known = ["zstd", "lz4", "lz4f", "lz4hc", "zlib", "snappy", "none", "no_compression"];
            if !known.contains(&value.to_lowercase().as_str()) {
                return wrong("zstd, lz4 or none");
            }
        }
        "dynamic_partition.time_unit" => {
            if !["hour", "day", "week", "month", "year"].contains(&value.to_lowercase().as_str()) {
                return wrong("HOUR, DAY, WEEK, MONTH or YEAR");
            }
        }
        "dynamic_partition.start"
        | "dynamic_partition.end"
        | "dynamic_partition.buckets"
        | "dynamic_partition.history_partition_num"
        | "dynamic_partition.start_day_of_week"
        | "dynamic_partition.start_day_of_month" => {
            if value.parse::<i64>().is_err() {
                return wrong("an integer");
            }
        }
        "group_commit_interval_ms" => {
            if !value.parse::<u64>().is_ok_and(|ms| ms <= 600_000) {
                return wrong("milliseconds from 0 to 600000");
            }
        }
        "prepared_timeout" => {
            if !value.parse::<u32>().is_ok_and(|seconds| seconds > 0) {
                return wrong("a number of seconds above 0");
            }
        }
        "group_commit_data_bytes" => {
            if !value.parse::<u64>().is_ok_and(|bytes| bytes > 0) {
                return wrong("a number of bytes above 0");
            }
        }
        _ => {}
    }
    Ok(())
}
