//! Virtual tables other than MySQL's information_schema: those of `mysql` and `performance_schema`, which dump programs
//! and consoles open, and those that Doris and StarRocks add to information_schema. Their columns are written as words:
//! a name, followed by `#` for BIGINT, `+` for BIGINT UNSIGNED, `@` for DATETIME, nothing for text.

use std::borrow::Cow;
use std::sync::LazyLock;

use super::{INFORMATION_SCHEMA, MYSQL, PERFORMANCE_SCHEMA, Rows, Virtual, of_mysql, of_performance, of_starrocks};
use crate::sheet::Kind;

/// Database, table, columns, rows.
pub(super) type Brief = (&'static str, &'static str, &'static str, Rows);

/// All of these tables.
pub(super) static TABLES: LazyLock<Vec<Virtual>> = LazyLock::new(|| {
    let all = MYSQLS.iter().chain(PERFORMANCE).chain(NOTHING).chain(DORIS).chain(STARROCKS).chain(of_starrocks::TABLES);
    all.copied()
        .chain(of_mysql::tables())
        .chain(of_performance::tables())
        .map(|(database, name, columns, rows)| Virtual { database, name, head: Cow::Owned(head(columns)), rows })
        .collect()
});

/// Parses the columns of a table from words.
fn head(words: &'static str) -> Vec<(&'static str, Kind)> {
    let column = |word: &'static str| match word.as_bytes().last() {
        Some(b'#') => (&word[..word.len() - 1], Kind::Int),
        Some(b'+') => (&word[..word.len() - 1], Kind::UInt),
        Some(b'@') => (&word[..word.len() - 1], Kind::Time),
        _ => (word, Kind::Text),
    };
    words.split_ascii_whitespace().map(column).collect()
}

const ROUTINE: &str = "db name type specific_name language sql_data_access is_deterministic security_type param_list \
    returns body definer created@ modified@ sql_mode comment character_set_client collation_connection db_collation body_utf8";

const MYSQLS: &[Brief] = &[
    (
        MYSQL,
        "user",
        "Host User Select_priv Insert_priv Update_priv Delete_priv Create_priv Drop_priv Reload_priv Shutdown_priv \
         Process_priv File_priv Grant_priv References_priv Index_priv Alter_priv Show_db_priv Super_priv \
         Create_tmp_table_priv Lock_tables_priv Execute_priv Repl_slave_priv Repl_client_priv Create_view_priv \
         Show_view_priv Create_routine_priv Alter_routine_priv Create_user_priv Event_priv Trigger_priv \
         Create_tablespace_priv ssl_type ssl_cipher x509_issuer x509_subject max_questions+ max_updates+ \
         max_connections+ max_user_connections+ plugin authentication_string password_expired password_last_changed@ \
         password_lifetime+ account_locked Create_role_priv Drop_role_priv Password_reuse_history+ \
         Password_reuse_time+ Password_require_current User_attributes",
        Rows::MysqlUser,
    ),
    (
        MYSQL,
        "db",
        "Host Db User Select_priv Insert_priv Update_priv Delete_priv Create_priv Drop_priv Grant_priv References_priv \
         Index_priv Alter_priv Create_tmp_table_priv Lock_tables_priv Create_view_priv Show_view_priv \
         Create_routine_priv Alter_routine_priv Execute_priv Event_priv Trigger_priv",
        Rows::MysqlDb,
    ),
    (MYSQL, "tables_priv", "Host Db User Table_name Grantor Timestamp@ Table_priv Column_priv", Rows::MysqlTablesPriv),
    (MYSQL, "columns_priv", "Host Db User Table_name Column_name Timestamp@ Column_priv", Rows::None),
    (MYSQL, "procs_priv", "Host Db User Routine_name Routine_type Grantor Proc_priv Timestamp@", Rows::None),
    (MYSQL, "proxies_priv", "Host User Proxied_host Proxied_user With_grant# Grantor Timestamp@", Rows::None),
    (MYSQL, "proc", ROUTINE, Rows::None),
    (
        MYSQL,
        "event",
        "db name body definer execute_at@ interval_value# interval_field created@ modified@ last_executed@ starts@ ends@ \
         status on_completion sql_mode comment originator+ time_zone character_set_client collation_connection \
         db_collation body_utf8",
        Rows::None,
    ),
    (MYSQL, "func", "name ret# dl type", Rows::None),
    (MYSQL, "plugin", "name dl", Rows::None),
    (MYSQL, "servers", "Server_name Host Db Username Password Port# Socket Wrapper Owner", Rows::None),
    (MYSQL, "global_grants", "USER HOST PRIV WITH_GRANT_OPTION", Rows::None),
    (MYSQL, "help_topic", "help_topic_id+ name help_category_id+ description example url", Rows::None),
    (MYSQL, "help_category", "help_category_id+ name parent_category_id+ url", Rows::None),
    (MYSQL, "help_keyword", "help_keyword_id+ name", Rows::None),
    (MYSQL, "help_relation", "help_topic_id+ help_keyword_id+", Rows::None),
    (MYSQL, "time_zone", "Time_zone_id+ Use_leap_seconds", Rows::None),
    (MYSQL, "time_zone_name", "Name Time_zone_id+", Rows::TimeZones),
    (MYSQL, "general_log", "event_time@ user_host thread_id+ server_id+ command_type argument", Rows::None),
    (
        MYSQL,
        "innodb_table_stats",
        "database_name table_name last_update@ n_rows+ clustered_index_size+ sum_of_other_index_sizes+",
        Rows::None,
    ),
    (
        MYSQL,
        "innodb_index_stats",
        "database_name table_name index_name last_update@ stat_name stat_value+ sample_size+ stat_description",
        Rows::None,
    ),
    (MYSQL, "component", "component_id+ component_group_id+ component_urn", Rows::None),
    (
        MYSQL,
        "slow_log",
        "start_time@ user_host query_time lock_time rows_sent# rows_examined# db last_insert_id# insert_id# server_id+ \
         sql_text thread_id+",
        Rows::None,
    ),
];

const PERFORMANCE: &[Brief] = &[
    (PERFORMANCE_SCHEMA, "session_variables", "VARIABLE_NAME VARIABLE_VALUE", Rows::SessionVariables),
    (PERFORMANCE_SCHEMA, "global_variables", "VARIABLE_NAME VARIABLE_VALUE", Rows::GlobalVariables),
    (PERFORMANCE_SCHEMA, "session_status", "VARIABLE_NAME VARIABLE_VALUE", Rows::SessionStatus),
    (PERFORMANCE_SCHEMA, "global_status", "VARIABLE_NAME VARIABLE_VALUE", Rows::GlobalStatus),
    (
        PERFORMANCE_SCHEMA,
        "variables_info",
        "VARIABLE_NAME VARIABLE_SOURCE VARIABLE_PATH MIN_VALUE MAX_VALUE SET_TIME@ SET_USER SET_HOST",
        Rows::None,
    ),
    (PERFORMANCE_SCHEMA, "persisted_variables", "VARIABLE_NAME VARIABLE_VALUE", Rows::None),
    (
        PERFORMANCE_SCHEMA,
        "threads",
        "THREAD_ID+ NAME TYPE PROCESSLIST_ID+ PROCESSLIST_USER PROCESSLIST_HOST PROCESSLIST_DB PROCESSLIST_COMMAND \
         PROCESSLIST_TIME# PROCESSLIST_STATE PROCESSLIST_INFO PARENT_THREAD_ID+ ROLE INSTRUMENTED HISTORY \
         CONNECTION_TYPE THREAD_OS_ID+ RESOURCE_GROUP EXECUTION_ENGINE CONTROLLED_MEMORY+ MAX_CONTROLLED_MEMORY+ \
         TOTAL_MEMORY+ MAX_TOTAL_MEMORY+ TELEMETRY_ACTIVE",
        Rows::Threads,
    ),
    (
        PERFORMANCE_SCHEMA,
        "processlist",
        "ID+ USER HOST DB COMMAND TIME# STATE INFO EXECUTION_ENGINE",
        Rows::Processlist,
    ),
    (PERFORMANCE_SCHEMA, "session_connect_attrs", "PROCESSLIST_ID+ ATTR_NAME ATTR_VALUE ORDINAL_POSITION#", Rows::None),
    (
        PERFORMANCE_SCHEMA,
        "session_account_connect_attrs",
        "PROCESSLIST_ID+ ATTR_NAME ATTR_VALUE ORDINAL_POSITION#",
        Rows::None,
    ),
    (PERFORMANCE_SCHEMA, "setup_actors", "HOST USER ROLE ENABLED HISTORY", Rows::None),
    (PERFORMANCE_SCHEMA, "setup_consumers", "NAME ENABLED", Rows::None),
    (
        PERFORMANCE_SCHEMA,
        "setup_instruments",
        "NAME ENABLED TIMED PROPERTIES FLAGS VOLATILITY# DOCUMENTATION",
        Rows::None,
    ),
    (PERFORMANCE_SCHEMA, "setup_objects", "OBJECT_TYPE OBJECT_SCHEMA OBJECT_NAME ENABLED TIMED", Rows::None),
    (
        PERFORMANCE_SCHEMA,
        "metadata_locks",
        "OBJECT_TYPE OBJECT_SCHEMA OBJECT_NAME COLUMN_NAME OBJECT_INSTANCE_BEGIN+ LOCK_TYPE LOCK_DURATION LOCK_STATUS \
         SOURCE OWNER_THREAD_ID+ OWNER_EVENT_ID+",
        Rows::None,
    ),
    (
        PERFORMANCE_SCHEMA,
        "data_locks",
        "ENGINE ENGINE_LOCK_ID ENGINE_TRANSACTION_ID+ THREAD_ID+ EVENT_ID+ OBJECT_SCHEMA OBJECT_NAME PARTITION_NAME \
         SUBPARTITION_NAME INDEX_NAME OBJECT_INSTANCE_BEGIN+ LOCK_TYPE LOCK_MODE LOCK_STATUS LOCK_DATA",
        Rows::None,
    ),
    (
        PERFORMANCE_SCHEMA,
        "replication_group_members",
        "CHANNEL_NAME MEMBER_ID MEMBER_HOST MEMBER_PORT# MEMBER_STATE MEMBER_ROLE MEMBER_VERSION \
         MEMBER_COMMUNICATION_STACK",
        Rows::None,
    ),
    (PERFORMANCE_SCHEMA, "keyring_keys", "KEY_ID KEY_OWNER BACKEND_KEY_ID", Rows::None),
    (
        PERFORMANCE_SCHEMA,
        "replication_connection_status",
        "CHANNEL_NAME GROUP_NAME SOURCE_UUID THREAD_ID+ SERVICE_STATE COUNT_RECEIVED_HEARTBEATS+ \
         LAST_HEARTBEAT_TIMESTAMP@ RECEIVED_TRANSACTION_SET LAST_ERROR_NUMBER# LAST_ERROR_MESSAGE \
         LAST_ERROR_TIMESTAMP@ LAST_QUEUED_TRANSACTION LAST_QUEUED_TRANSACTION_ORIGINAL_COMMIT_TIMESTAMP@ \
         LAST_QUEUED_TRANSACTION_IMMEDIATE_COMMIT_TIMESTAMP@ LAST_QUEUED_TRANSACTION_START_QUEUE_TIMESTAMP@ \
         LAST_QUEUED_TRANSACTION_END_QUEUE_TIMESTAMP@ QUEUEING_TRANSACTION \
         QUEUEING_TRANSACTION_ORIGINAL_COMMIT_TIMESTAMP@ QUEUEING_TRANSACTION_IMMEDIATE_COMMIT_TIMESTAMP@ \
         QUEUEING_TRANSACTION_START_QUEUE_TIMESTAMP@",
        Rows::None,
    ),
    (
        PERFORMANCE_SCHEMA,
        "replication_applier_status",
        "CHANNEL_NAME SERVICE_STATE REMAINING_DELAY+ COUNT_TRANSACTIONS_RETRIES+",
        Rows::None,
    ),
    (PERFORMANCE_SCHEMA, "file_instances", "FILE_NAME EVENT_NAME OPEN_COUNT+", Rows::None),
    (PERFORMANCE_SCHEMA, "log_status", "SERVER_UUID LOCAL REPLICATION STORAGE_ENGINES", Rows::None),
    (PERFORMANCE_SCHEMA, "error_log", "LOGGED@ THREAD_ID+ PRIO ERROR_CODE SUBSYSTEM DATA", Rows::None),
];

/// MySQL's tables about objects of which dipper has none, or few.
const NOTHING: &[Brief] = &[
    (
        INFORMATION_SCHEMA,
        "innodb_trx",
        "trx_id+ trx_state trx_started@ trx_requested_lock_id trx_wait_started@ trx_weight+ trx_mysql_thread_id+ \
         trx_query trx_operation_state trx_tables_in_use+ trx_tables_locked+ trx_lock_structs+ trx_lock_memory_bytes+ \
         trx_rows_locked+ trx_rows_modified+ trx_concurrency_tickets+ trx_isolation_level trx_unique_checks# \
         trx_foreign_key_checks# trx_last_foreign_key_error trx_adaptive_hash_latched# trx_adaptive_hash_timeout+ \
         trx_is_read_only# trx_autocommit_non_locking# trx_schedule_weight+",
        Rows::None,
    ),
    (
        INFORMATION_SCHEMA,
        "innodb_metrics",
        "NAME SUBSYSTEM COUNT# MAX_COUNT# MIN_COUNT# AVG_COUNT# COUNT_RESET# MAX_COUNT_RESET# MIN_COUNT_RESET# \
         AVG_COUNT_RESET# TIME_ENABLED@ TIME_DISABLED@ TIME_ELAPSED# TIME_RESET@ STATUS TYPE COMMENT",
        Rows::None,
    ),
    (
        INFORMATION_SCHEMA,
        "innodb_tables",
        "TABLE_ID+ NAME FLAG# N_COLS# SPACE# ROW_FORMAT ZIP_PAGE_SIZE+ SPACE_TYPE INSTANT_COLS# TOTAL_ROW_VERSIONS#",
        Rows::None,
    ),
    (
        INFORMATION_SCHEMA,
        "innodb_tablespaces",
        "SPACE+ NAME FLAG+ ROW_FORMAT PAGE_SIZE+ ZIP_PAGE_SIZE+ SPACE_TYPE FS_BLOCK_SIZE+ FILE_SIZE+ ALLOCATED_SIZE+ \
         AUTOEXTEND_SIZE+ SERVER_VERSION SPACE_VERSION+ ENCRYPTION STATE",
        Rows::None,
    ),
    (
        INFORMATION_SCHEMA,
        "innodb_buffer_pool_stats",
        "POOL_ID+ POOL_SIZE+ FREE_BUFFERS+ DATABASE_PAGES+ OLD_DATABASE_PAGES+ MODIFIED_DATABASE_PAGES+ \
         PENDING_DECOMPRESS+ PENDING_READS+ PENDING_FLUSH_LRU+ PENDING_FLUSH_LIST+ PAGES_MADE_YOUNG+ \
         PAGES_NOT_MADE_YOUNG+ PAGES_MADE_YOUNG_RATE PAGES_MADE_NOT_YOUNG_RATE NUMBER_PAGES_READ+ \
         NUMBER_PAGES_CREATED+ NUMBER_PAGES_WRITTEN+ PAGES_READ_RATE PAGES_CREATE_RATE PAGES_WRITTEN_RATE \
         NUMBER_PAGES_GET+ HIT_RATE+ YOUNG_MAKE_PER_THOUSAND_GETS+ NOT_YOUNG_MAKE_PER_THOUSAND_GETS+ \
         NUMBER_PAGES_READ_AHEAD+ NUMBER_READ_AHEAD_EVICTED+ READ_AHEAD_RATE READ_AHEAD_EVICTED_RATE LRU_IO_TOTAL+ \
         LRU_IO_CURRENT+ UNCOMPRESS_TOTAL+ UNCOMPRESS_CURRENT+",
        Rows::None,
    ),
    (
        INFORMATION_SCHEMA,
        "innodb_lock_waits",
        "requesting_trx_id requested_lock_id blocking_trx_id blocking_lock_id",
        Rows::None,
    ),
    (
        INFORMATION_SCHEMA,
        "innodb_locks",
        "lock_id lock_trx_id lock_mode lock_type lock_table lock_index lock_space+ lock_page+ lock_rec+ lock_data",
        Rows::None,
    ),
    (INFORMATION_SCHEMA, "user_attributes", "USER HOST ATTRIBUTE", Rows::None),
    (
        INFORMATION_SCHEMA,
        "view_table_usage",
        "VIEW_CATALOG VIEW_SCHEMA VIEW_NAME TABLE_CATALOG TABLE_SCHEMA TABLE_NAME",
        Rows::ViewTableUsage,
    ),
    (
        INFORMATION_SCHEMA,
        "view_routine_usage",
        "TABLE_CATALOG TABLE_SCHEMA TABLE_NAME SPECIFIC_CATALOG SPECIFIC_SCHEMA SPECIFIC_NAME",
        Rows::None,
    ),
    (
        INFORMATION_SCHEMA,
        "st_geometry_columns",
        "TABLE_CATALOG TABLE_SCHEMA TABLE_NAME COLUMN_NAME SRS_NAME SRS_ID+ GEOMETRY_TYPE_NAME",
        Rows::None,
    ),
    (INFORMATION_SCHEMA, "enabled_roles", "ROLE_NAME ROLE_HOST IS_DEFAULT IS_MANDATORY", Rows::EnabledRoles),
    (
        INFORMATION_SCHEMA,
        "optimizer_trace",
        "QUERY TRACE MISSING_BYTES_BEYOND_MAX_MEM_SIZE# INSUFFICIENT_PRIVILEGES#",
        Rows::None,
    ),
    (
        INFORMATION_SCHEMA,
        "resource_groups",
        "RESOURCE_GROUP_NAME RESOURCE_GROUP_TYPE RESOURCE_GROUP_ENABLED# VCPU_IDS THREAD_PRIORITY#",
        Rows::None,
    ),
];

const ROUTINE_LOADS: &str = "JOB_ID JOB_NAME CREATE_TIME PAUSE_TIME END_TIME DB_NAME TABLE_NAME STATE CURRENT_TASK_NUM JOB_PROPERTIES \
    DATA_SOURCE_PROPERTIES CUSTOM_PROPERTIES STATISTIC PROGRESS LAG REASON_OF_STATE_CHANGED ERROR_LOG_URLS USER_NAME \
    CURRENT_ABORT_TASK_NUM# IS_ABNORMAL_PAUSE";

const DORIS: &[Brief] = &[
    (
        INFORMATION_SCHEMA,
        "table_properties",
        "TABLE_CATALOG TABLE_SCHEMA TABLE_NAME PROPERTY_NAME PROPERTY_VALUE",
        Rows::TableProperties,
    ),
    (
        INFORMATION_SCHEMA,
        "table_options",
        "TABLE_CATALOG TABLE_SCHEMA TABLE_NAME TABLE_MODEL TABLE_MODEL_KEY DISTRIBUTE_KEY DISTRIBUTE_TYPE BUCKETS_NUM# \
         PARTITION_NUM#",
        Rows::TableOptions,
    ),
    (
        INFORMATION_SCHEMA,
        "database_properties",
        "CATALOG_NAME SCHEMA_NAME PROPERTY_NAME PROPERTY_VALUE",
        Rows::DatabaseProperties,
    ),
    (
        INFORMATION_SCHEMA,
        "view_dependency",
        "VIEW_CATALOG VIEW_SCHEMA VIEW_NAME VIEW_TYPE REF_CATALOG REF_SCHEMA REF_NAME REF_TYPE",
        Rows::ViewDependency,
    ),
    (
        INFORMATION_SCHEMA,
        "metadata_name_ids",
        "CATALOG_ID# CATALOG_NAME DATABASE_ID# DATABASE_NAME TABLE_ID# TABLE_NAME",
        Rows::MetadataNameIds,
    ),
    (
        INFORMATION_SCHEMA,
        "active_queries",
        "QUERY_ID QUERY_START_TIME QUERY_TIME_MS# WORKLOAD_GROUP_ID# DATABASE FRONTEND_INSTANCE QUEUE_START_TIME \
         QUEUE_END_TIME QUERY_STATUS SQL",
        Rows::ActiveQueries,
    ),
    (
        INFORMATION_SCHEMA,
        "rowsets",
        "BACKEND_ID# ROWSET_ID TABLET_ID# ROWSET_NUM_ROWS# TXN_ID# NUM_SEGMENTS# START_VERSION# END_VERSION# \
         INDEX_DISK_SIZE# DATA_DISK_SIZE# CREATION_TIME@ NEWEST_WRITE_TIMESTAMP@ SCHEMA_VERSION#",
        Rows::Rowsets,
    ),
    (
        INFORMATION_SCHEMA,
        "column_data_sizes",
        "BACKEND_ID# TABLE_ID# INDEX_ID# PARTITION_ID# TABLET_ID# ROWSET_ID COLUMN_UNIQUE_ID# COLUMN_NAME COLUMN_TYPE \
         COMPRESSED_DATA_BYTES# UNCOMPRESSED_DATA_BYTES# RAW_DATA_BYTES#",
        Rows::ColumnDataSizes,
    ),
    (INFORMATION_SCHEMA, "backend_configuration", "BE_ID# CONFIG_NAME CONFIG_TYPE CONFIG_VALUE IS_MUTABLE", Rows::None),
    (
        INFORMATION_SCHEMA,
        "sql_block_rule_status",
        "NAME PATTERN SQL_HASH PARTITION_NUM# TABLET_NUM# CARDINALITY# GLOBAL ENABLE BLOCKS#",
        Rows::None,
    ),
    (
        INFORMATION_SCHEMA,
        "backend_active_tasks",
        "BE_ID# FE_HOST WORKLOAD_GROUP_ID# QUERY_ID TASK_TIME_MS# TASK_CPU_TIME_MS# SCAN_ROWS# SCAN_BYTES# \
         BE_PEAK_MEMORY_BYTES# CURRENT_USED_MEMORY_BYTES# SHUFFLE_SEND_BYTES# SHUFFLE_SEND_ROWS# QUERY_TYPE",
        Rows::None,
    ),
    (INFORMATION_SCHEMA, "workload_groups", "ID# NAME", Rows::None),
    (
        INFORMATION_SCHEMA,
        "workload_policy",
        "ID# NAME CONDITION ACTION PRIORITY# ENABLED VERSION# WORKLOAD_GROUP",
        Rows::None,
    ),
    (
        INFORMATION_SCHEMA,
        "workload_group_privileges",
        "GRANTEE WORKLOAD_GROUP_NAME PRIVILEGE_TYPE IS_GRANTABLE",
        Rows::None,
    ),
    (
        INFORMATION_SCHEMA,
        "workload_group_resource_usage",
        "BE_ID# WORKLOAD_GROUP_ID# MEMORY_USAGE_BYTES# CPU_USAGE_PERCENT LOCAL_SCAN_BYTES_PER_SECOND# \
         REMOTE_SCAN_BYTES_PER_SECOND#",
        Rows::None,
    ),
    (INFORMATION_SCHEMA, "file_cache_statistics", "BE_ID# BE_IP CACHE_PATH METRIC_NAME METRIC_VALUE", Rows::None),
    (
        INFORMATION_SCHEMA,
        "catalog_meta_cache_statistics",
        "CATALOG_NAME CACHE_NAME METRIC_NAME METRIC_VALUE",
        Rows::None,
    ),
    // StarRocks' name, and Doris's.
    (INFORMATION_SCHEMA, "routine_load_jobs", ROUTINE_LOADS, Rows::None),
    (INFORMATION_SCHEMA, "routine_load_job", ROUTINE_LOADS, Rows::None),
    (
        INFORMATION_SCHEMA,
        "backend_tablets",
        "BE_ID# TABLET_ID# REPLICA_ID# PARTITION_ID# TABLET_PATH TABLET_LOCAL_SIZE# TABLET_REMOTE_SIZE# VERSION_COUNT# \
         SEGMENT_COUNT# NUM_COLUMNS# ROW_SIZE# COMPACTION_SCORE# COMPRESS_KIND IS_USED# IS_ALTER_FAILED# CREATE_TIME@ \
         UPDATE_TIME@ IS_OVERLAP#",
        Rows::BackendTablets,
    ),
    (INFORMATION_SCHEMA, "frontend_metrics", "FE METRIC_NAME METRIC_TYPE METRIC_VALUE TAG", Rows::FrontendMetrics),
    (
        INFORMATION_SCHEMA,
        "encryption_keys",
        "ID PARENT_ID VERSION# TYPE ALGORITHM CIPHER IV CRC# CTIME@ MTIME@",
        Rows::None,
    ),
];

const STARROCKS: &[Brief] = &[
    (
        INFORMATION_SCHEMA,
        "tables_config",
        "TABLE_SCHEMA TABLE_NAME TABLE_ENGINE TABLE_MODEL PRIMARY_KEY PARTITION_KEY DISTRIBUTE_KEY DISTRIBUTE_TYPE \
         DISTRIBUTE_BUCKET# SORT_KEY PROPERTIES TABLE_ID#",
        Rows::TablesConfig,
    ),
    (
        INFORMATION_SCHEMA,
        "partitions_meta",
        "DB_NAME TABLE_NAME PARTITION_NAME PARTITION_ID# COMPACT_VERSION# VISIBLE_VERSION# VISIBLE_VERSION_TIME@ \
         NEXT_VERSION# PARTITION_KEY PARTITION_VALUE DISTRIBUTION_KEY BUCKETS# REPLICATION_NUM# STORAGE_MEDIUM \
         COOLDOWN_TIME@ LAST_CONSISTENCY_CHECK_TIME@ IS_IN_MEMORY# IS_TEMP# DATA_SIZE ROW_COUNT# ENABLE_DATACACHE# \
         STORAGE_PATH STORAGE_SIZE# AVG_CS P50_CS MAX_CS TABLET_BALANCED# METADATA_SWITCH_VERSION#",
        Rows::PartitionsMeta,
    ),
    (
        INFORMATION_SCHEMA,
        "materialized_views",
        "MATERIALIZED_VIEW_ID# TABLE_SCHEMA TABLE_NAME REFRESH_TYPE IS_ACTIVE INACTIVE_REASON PARTITION_TYPE TASK_ID# \
         TASK_NAME LAST_REFRESH_START_TIME@ LAST_REFRESH_FINISHED_TIME@ LAST_REFRESH_DURATION LAST_REFRESH_STATE \
         LAST_REFRESH_FORCE_REFRESH LAST_REFRESH_START_PARTITION LAST_REFRESH_END_PARTITION \
         LAST_REFRESH_BASE_REFRESH_PARTITIONS LAST_REFRESH_MV_REFRESH_PARTITIONS LAST_REFRESH_ERROR_CODE \
         LAST_REFRESH_ERROR_MESSAGE TABLE_ROWS# MATERIALIZED_VIEW_DEFINITION EXTRA_MESSAGE QUERY_REWRITE_STATUS CREATOR",
        Rows::None,
    ),
    (
        INFORMATION_SCHEMA,
        "tasks",
        "TASK_NAME CREATE_TIME@ SCHEDULE CATALOG DATABASE DEFINITION EXPIRE_TIME@ PROPERTIES CREATOR",
        Rows::None,
    ),
    (
        INFORMATION_SCHEMA,
        "task_runs",
        "QUERY_ID TASK_NAME CREATE_TIME@ FINISH_TIME@ STATE CATALOG DATABASE DEFINITION EXPIRE_TIME@ ERROR_CODE# \
         ERROR_MESSAGE PROGRESS EXTRA_MESSAGE PROPERTIES",
        Rows::None,
    ),
    (INFORMATION_SCHEMA, "be_configs", "BE_ID# NAME TYPE VALUE DEFAULT MUTABLE#", Rows::None),
    (
        INFORMATION_SCHEMA,
        "fe_tablet_schedules",
        "TABLET_ID# TABLE_ID# PARTITION_ID# TYPE PRIORITY STATE TABLET_STATUS CREATE_TIME@ SCHEDULE_TIME@ FINISH_TIME@",
        Rows::None,
    ),
    (
        INFORMATION_SCHEMA,
        "pipes",
        "DATABASE_NAME PIPE_ID# PIPE_NAME STATE TABLE_NAME LOAD_STATUS LAST_ERROR CREATED_TIME@",
        Rows::None,
    ),
    (
        INFORMATION_SCHEMA,
        "pipe_files",
        "DATABASE_NAME PIPE_ID# PIPE_NAME FILE_NAME FILE_VERSION FILE_SIZE# LAST_MODIFIED LOAD_STATE STAGED_TIME@ START_LOAD_TIME@ FINISH_LOAD_TIME@ ERROR_MSG",
        Rows::None,
    ),
    (
        INFORMATION_SCHEMA,
        "analyze_status",
        "Id# Catalog Database Table Columns Type Schedule Status StartTime EndTime Properties Reason",
        Rows::None,
    ),
    (
        INFORMATION_SCHEMA,
        "column_stats_usage",
        "TABLE_CATALOG TABLE_DATABASE TABLE_NAME COLUMN_NAME USAGE LAST_USED@ CREATED@",
        Rows::None,
    ),
    (
        INFORMATION_SCHEMA,
        "warehouse_metrics",
        "WAREHOUSE_ID WAREHOUSE_NAME QUEUE_PENDING_LENGTH QUEUE_RUNNING_LENGTH MAX_PENDING_LENGTH MAX_REQUIRED_SLOTS SUM_REQUIRED_SLOTS REMAIN_SLOTS MAX_SLOTS EXTRA_MESSAGE",
        Rows::None,
    ),
    (
        INFORMATION_SCHEMA,
        "warehouse_queries",
        "WAREHOUSE_ID WAREHOUSE_NAME QUERY_ID STATE EST_COSTS_SLOTS ALLOCATE_SLOTS QUEUED_WAIT_SECONDS QUERY QUERY_START_TIME QUERY_END_TIME QUERY_DURATION EXTRA_MESSAGE",
        Rows::None,
    ),
    (
        INFORMATION_SCHEMA,
        "cluster_snapshots",
        "SNAPSHOT_NAME SNAPSHOT_TYPE CREATED_TIME@ FE_JOURNAL_ID# STARMGR_JOURNAL_ID# PROPERTIES STORAGE_VOLUME STORAGE_PATH",
        Rows::None,
    ),
    (
        INFORMATION_SCHEMA,
        "cluster_snapshot_jobs",
        "SNAPSHOT_NAME JOB_ID# CREATED_TIME@ FINISHED_TIME@ STATE DETAIL_INFO ERROR_MESSAGE",
        Rows::None,
    ),
    (
        INFORMATION_SCHEMA,
        "applicable_roles",
        "USER HOST GRANTEE GRANTEE_HOST ROLE_NAME ROLE_HOST IS_GRANTABLE IS_DEFAULT IS_MANDATORY",
        Rows::ApplicableRoles,
    ),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_columns_with_types() {
        assert_eq!(head("a b# c+ d@"), [("a", Kind::Text), ("b", Kind::Int), ("c", Kind::UInt), ("d", Kind::Time)]);
    }

    #[test]
    fn no_table_and_no_column_is_there_twice() {
        let mut tables = std::collections::HashSet::new();
        for table in super::super::all() {
            assert!(tables.insert((table.database, table.name)), "{}.{}", table.database, table.name);
            let names: std::collections::HashSet<_> = table.head.iter().map(|(name, _)| *name).collect();
            assert_eq!(names.len(), table.head.len(), "{}.{}", table.database, table.name);
        }
    }
}
