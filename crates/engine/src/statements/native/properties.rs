//! PROPERTIES of native tables: which have an effect, which are only kept and shown, and which values are wrong.

use dipper_store::table::schema::{Model, TableSchema};

use super::sequences;
use crate::error::{EngineError, Result};
use crate::session::Session;
use crate::statements::warn_of_unknown;

/// Properties that have an effect.
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

/// Properties about replicas of a cluster, or about media and formats for which there is no choice here. They are
/// accepted without effect, because every script has them.
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
    "unique_key_update_mode",
    "deprecated_dynamic_schema",
    "enable_mow_light_delete",
    "enable_persistent_index",
    "persistent_index_type",
    "replicated_storage",
    "bucket_size",
    "fast_schema_evolution",
    "enable_async_write_back",
    "version_info",
];

/// Properties that have an effect in Doris or StarRocks but not here. They are accepted with a note.
const NOTED: &[&str] = &[
    "_auto_bucket",
    "auto_analyze_policy",
    "base_compaction_forbidden_time_ranges",
    "compaction_policy",
    "compaction_strategy",
    "datacache.partition_duration",
    "distribution_type",
    "enable_duplicate_without_keys_by_default",
    "enable_load_profile",
    "enable_nondeterministic_function",
    "enable_statistic_collect_on_first_load",
    "enable_unique_key_skip_bitmap_column",
    "file_bundling",
    "file_cache_ttl_seconds",
    "foreign_key_constraints",
    "labels.location",
    "mutable_bucket_num",
    "partition.retention_count",
    "partition_live_number",
    "partition_retention_condition",
    "partition_ttl",
    "partition_ttl_number",
    "primary_index_cache_expire_sec",
    "row_store_page_size",
    "short_key",
    "skip_write_index_on_load",
    "storage_cooldown_ttl",
    "storage_dict_page_size",
    "storage_page_size",
    "storage_policy",
    "time_drift_constraint",
    "time_series_compaction_empty_rowsets_threshold",
    "time_series_compaction_file_count_threshold",
    "time_series_compaction_goal_size_mbytes",
    "time_series_compaction_level_threshold",
    "time_series_compaction_time_threshold_seconds",
    "timeout",
    "unique_constraints",
    "vertical_compaction_num_columns_per_group",
    "write_quorum",
    "dynamic_partition.hot_partition_num",
    "dynamic_partition.remote_storage_policy",
    "dynamic_partition.replication_allocation",
    "dynamic_partition.replication_num",
    "dynamic_partition.reserved_history_periods",
    "dynamic_partition.storage_medium",
    "dynamic_partition.storage_policy",
];

/// Prefixes of further properties of this kind.
const NOTED_GROUPS: &[&str] = &["binlog.", "variant_", "flat_json."];

/// Properties without effect whose value must be a number above 0.
const NUMBERS: &[&str] = &["replication_num", "bucket_size", "row_store_page_size", "storage_page_size"];

/// Properties without effect whose value must be true or false.
const FLAGS: &[&str] = &[
    "in_memory",
    "light_schema_change",
    "enable_single_replica_compaction",
    "enable_mow_light_delete",
    "enable_persistent_index",
    "replicated_storage",
    "fast_schema_evolution",
    "enable_async_write_back",
    "is_being_synced",
];

/// Checks the values of properties. Adds a note for each property that has an effect only in other systems, and a
/// warning for each unknown one.
///
/// # Errors
/// `Invalid` if a value is wrong for its property; `NoColumn` if a property names a column that does not exist;
/// `Unsupported` for properties that only CREATE TABLE can set.
pub(super) fn check<'a>(
    session: &mut Session,
    definition: &TableSchema,
    given: impl Iterator<Item = (&'a str, &'a str)>,
) -> Result<()> {
    for (key, value) in given {
        let lower = key.to_lowercase();
        if lower.starts_with(sequences::PREFIX) {
            // The columns carry the property, and have been checked.
            match definition.property(key) == Some(value) && definition.has_sequences() {
                true => continue,
                false => return Err(EngineError::unsupported(format!("property '{key}' is for CREATE TABLE"))),
            }
        }
        let noted = NOTED.contains(&lower.as_str()) || NOTED_GROUPS.iter().any(|group| lower.starts_with(group));
        if !noted && !WITHOUT_EFFECT.contains(&lower.as_str()) && !ACTING.contains(&lower.as_str()) {
            let known = [ACTING, WITHOUT_EFFECT, NOTED].into_iter().flatten().copied();
            warn_of_unknown(session, key, known);
            continue;
        }
        check_value(definition, &lower, value)?;
        if noted {
            session.note(1105, format!("property '{key}' is kept and shown, and has no effect here"));
        }
    }
    Ok(())
}

fn check_value(definition: &TableSchema, key: &str, value: &str) -> Result<()> {
    let wrong =
        |expected: &str| Err(EngineError::invalid(format!("property '{key}' = '{value}': expected {expected}")));
    match key {
        "enable_unique_key_merge_on_write" | "function_column.sequence_col" | "function_column.sequence_type"
            if definition.shown_model() != Model::Unique =>
        {
            return Err(EngineError::invalid(format!(
                "property '{key}' is for UNIQUE KEY tables; the table is {}",
                if definition.model == Model::Aggregate { "an AGGREGATE KEY one" } else { "a DUPLICATE KEY one" }
            )));
        }
        // A row store of an AGGREGATE table could not be used: the row of a key is known only after aggregation.
        "store_row_column" | "row_store_columns"
            if definition.model == Model::Aggregate && !matches!(value.to_lowercase().as_str(), "" | "false") =>
        {
            return Err(EngineError::invalid(format!(
                "property '{key}': Aggregate table can't support row column now"
            )));
        }
        key if NUMBERS.contains(&key) => {
            if !value.trim().parse::<u64>().is_ok_and(|n| n > 0) {
                return wrong("a number above 0");
            }
        }
        key if FLAGS.contains(&key) => {
            if !matches!(value.to_lowercase().as_str(), "true" | "false") {
                return wrong("true or false");
            }
        }
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
