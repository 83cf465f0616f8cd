//! The virtual tables beside those of MySQL's information_schema: of `mysql` and `performance_schema`, which dump programs and
//! consoles open, and of information_schema as Doris and StarRocks have it. Their heads are written in words: a name, with `#`
//! behind it for BIGINT, `+` for BIGINT UNSIGNED, `@` for DATETIME, nothing for text.

use std::borrow::Cow;
use std::sync::LazyLock;

use super::{
    Fill, INFORMATION_SCHEMA, MYSQL, PERFORMANCE_SCHEMA, Virtual, access, config, of_mysql, of_starrocks, server,
};
use dipper_lake::sheet::Kind;

/// Database, table, columns, rows.
pub(super) type Brief = (&'static str, &'static str, &'static str, Fill);

/// All of them.
pub(super) static TABLES: LazyLock<Vec<Virtual>> = LazyLock::new(|| {
    let all = MYSQLS.iter().chain(PERFORMANCE).chain(NOTHING).chain(DORIS).chain(STARROCKS).chain(of_starrocks::TABLES);
    all.copied()
        .chain(of_mysql::tables())
        .map(|(database, name, columns, fill)| Virtual { database, name, head: Cow::Owned(head(columns)), fill })
        .collect()
});

/// The columns that words say.
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
         Create_tablespace_priv ssl_type max_questions+ max_updates+ max_connections+ max_user_connections+ plugin \
         authentication_string password_expired account_locked",
        Fill::Now(access::mysql_user),
    ),
    (
        MYSQL,
        "db",
        "Host Db User Select_priv Insert_priv Update_priv Delete_priv Create_priv Drop_priv Grant_priv References_priv \
         Index_priv Alter_priv Create_tmp_table_priv Lock_tables_priv Create_view_priv Show_view_priv \
         Create_routine_priv Alter_routine_priv Execute_priv Event_priv Trigger_priv",
        Fill::Empty,
    ),
    (MYSQL, "tables_priv", "Host Db User Table_name Grantor Timestamp@ Table_priv Column_priv", Fill::Empty),
    (MYSQL, "columns_priv", "Host Db User Table_name Column_name Timestamp@ Column_priv", Fill::Empty),
    (MYSQL, "procs_priv", "Host Db User Routine_name Routine_type Grantor Proc_priv Timestamp@", Fill::Empty),
    (MYSQL, "proxies_priv", "Host User Proxied_host Proxied_user With_grant# Grantor Timestamp@", Fill::Empty),
    (MYSQL, "proc", ROUTINE, Fill::Empty),
    (
        MYSQL,
        "event",
        "db name body definer execute_at@ interval_value# interval_field created@ modified@ last_executed@ starts@ ends@ \
         status on_completion sql_mode comment originator+ time_zone character_set_client collation_connection \
         db_collation body_utf8",
        Fill::Empty,
    ),
    (MYSQL, "func", "name ret# dl type", Fill::Empty),
    (MYSQL, "plugin", "name dl", Fill::Empty),
    (MYSQL, "servers", "Server_name Host Db Username Password Port# Socket Wrapper Owner", Fill::Empty),
    (MYSQL, "global_grants", "USER HOST PRIV WITH_GRANT_OPTION", Fill::Empty),
    (MYSQL, "help_topic", "help_topic_id+ name help_category_id+ description example url", Fill::Empty),
    (MYSQL, "help_category", "help_category_id+ name parent_category_id+ url", Fill::Empty),
    (MYSQL, "help_keyword", "help_keyword_id+ name", Fill::Empty),
    (MYSQL, "help_relation", "help_topic_id+ help_keyword_id+", Fill::Empty),
    (MYSQL, "time_zone", "Time_zone_id+ Use_leap_seconds", Fill::Empty),
    (MYSQL, "time_zone_name", "Name Time_zone_id+", Fill::Now(server::time_zones)),
    (MYSQL, "general_log", "event_time@ user_host thread_id+ server_id+ command_type argument", Fill::Empty),
    (
        MYSQL,
        "innodb_table_stats",
        "database_name table_name last_update@ n_rows+ clustered_index_size+ sum_of_other_index_sizes+",
        Fill::Empty,
    ),
    (
        MYSQL,
        "innodb_index_stats",
        "database_name table_name index_name last_update@ stat_name stat_value+ sample_size+ stat_description",
        Fill::Empty,
    ),
    (MYSQL, "component", "component_id+ component_group_id+ component_urn", Fill::Empty),
    (
        MYSQL,
        "slow_log",
        "start_time@ user_host query_time lock_time rows_sent# rows_examined# db last_insert_id# insert_id# server_id+ \
         sql_text thread_id+",
        Fill::Empty,
    ),
];

const PERFORMANCE: &[Brief] = &[
    (PERFORMANCE_SCHEMA, "session_variables", "VARIABLE_NAME VARIABLE_VALUE", Fill::Now(server::session_variables)),
    (PERFORMANCE_SCHEMA, "global_variables", "VARIABLE_NAME VARIABLE_VALUE", Fill::Now(server::global_variables)),
    (PERFORMANCE_SCHEMA, "session_status", "VARIABLE_NAME VARIABLE_VALUE", Fill::Now(server::fill_status)),
    (PERFORMANCE_SCHEMA, "global_status", "VARIABLE_NAME VARIABLE_VALUE", Fill::Now(server::fill_status)),
    (
        PERFORMANCE_SCHEMA,
        "variables_info",
        "VARIABLE_NAME VARIABLE_SOURCE VARIABLE_PATH MIN_VALUE MAX_VALUE SET_TIME@ SET_USER SET_HOST",
        Fill::Empty,
    ),
    (PERFORMANCE_SCHEMA, "persisted_variables", "VARIABLE_NAME VARIABLE_VALUE", Fill::Empty),
    (
        PERFORMANCE_SCHEMA,
        "threads",
        "THREAD_ID+ NAME TYPE PROCESSLIST_ID+ PROCESSLIST_USER PROCESSLIST_HOST PROCESSLIST_DB PROCESSLIST_COMMAND \
         PROCESSLIST_TIME# PROCESSLIST_STATE PROCESSLIST_INFO PARENT_THREAD_ID+ ROLE INSTRUMENTED HISTORY \
         CONNECTION_TYPE THREAD_OS_ID+",
        Fill::Now(server::threads),
    ),
    (PERFORMANCE_SCHEMA, "processlist", "ID+ USER HOST DB COMMAND TIME# STATE INFO", Fill::Now(server::processlist)),
    (
        PERFORMANCE_SCHEMA,
        "session_connect_attrs",
        "PROCESSLIST_ID+ ATTR_NAME ATTR_VALUE ORDINAL_POSITION#",
        Fill::Empty,
    ),
    (
        PERFORMANCE_SCHEMA,
        "session_account_connect_attrs",
        "PROCESSLIST_ID+ ATTR_NAME ATTR_VALUE ORDINAL_POSITION#",
        Fill::Empty,
    ),
    (PERFORMANCE_SCHEMA, "setup_actors", "HOST USER ROLE ENABLED HISTORY", Fill::Empty),
    (PERFORMANCE_SCHEMA, "setup_consumers", "NAME ENABLED", Fill::Empty),
    (
        PERFORMANCE_SCHEMA,
        "setup_instruments",
        "NAME ENABLED TIMED PROPERTIES FLAGS VOLATILITY# DOCUMENTATION",
        Fill::Empty,
    ),
    (PERFORMANCE_SCHEMA, "setup_objects", "OBJECT_TYPE OBJECT_SCHEMA OBJECT_NAME ENABLED TIMED", Fill::Empty),
    (
        PERFORMANCE_SCHEMA,
        "metadata_locks",
        "OBJECT_TYPE OBJECT_SCHEMA OBJECT_NAME COLUMN_NAME OBJECT_INSTANCE_BEGIN+ LOCK_TYPE LOCK_DURATION LOCK_STATUS \
         SOURCE OWNER_THREAD_ID+ OWNER_EVENT_ID+",
        Fill::Empty,
    ),
    (
        PERFORMANCE_SCHEMA,
        "data_locks",
        "ENGINE ENGINE_LOCK_ID ENGINE_TRANSACTION_ID+ THREAD_ID+ EVENT_ID+ OBJECT_SCHEMA OBJECT_NAME PARTITION_NAME \
         SUBPARTITION_NAME INDEX_NAME OBJECT_INSTANCE_BEGIN+ LOCK_TYPE LOCK_MODE LOCK_STATUS LOCK_DATA",
        Fill::Empty,
    ),
    (
        PERFORMANCE_SCHEMA,
        "events_statements_summary_by_digest",
        "SCHEMA_NAME DIGEST DIGEST_TEXT COUNT_STAR+ SUM_TIMER_WAIT+ MIN_TIMER_WAIT+ AVG_TIMER_WAIT+ MAX_TIMER_WAIT+ \
         SUM_LOCK_TIME+ SUM_ERRORS+ SUM_WARNINGS+ SUM_ROWS_AFFECTED+ SUM_ROWS_SENT+ SUM_ROWS_EXAMINED+ \
         SUM_CREATED_TMP_DISK_TABLES+ SUM_CREATED_TMP_TABLES+ SUM_SELECT_FULL_JOIN+ SUM_SELECT_SCAN+ SUM_SORT_MERGE_PASSES+ \
         SUM_SORT_ROWS+ SUM_NO_INDEX_USED+ SUM_NO_GOOD_INDEX_USED+ FIRST_SEEN@ LAST_SEEN@ QUERY_SAMPLE_TEXT",
        Fill::Empty,
    ),
    (
        PERFORMANCE_SCHEMA,
        "events_statements_current",
        "THREAD_ID+ EVENT_ID+ END_EVENT_ID+ EVENT_NAME SOURCE TIMER_START+ TIMER_END+ TIMER_WAIT+ LOCK_TIME+ SQL_TEXT \
         DIGEST DIGEST_TEXT CURRENT_SCHEMA ROWS_AFFECTED+ ROWS_SENT+ ROWS_EXAMINED+",
        Fill::Empty,
    ),
    (
        PERFORMANCE_SCHEMA,
        "table_io_waits_summary_by_table",
        "OBJECT_TYPE OBJECT_SCHEMA OBJECT_NAME COUNT_STAR+ SUM_TIMER_WAIT+ COUNT_READ+ SUM_TIMER_READ+ COUNT_WRITE+ \
         SUM_TIMER_WRITE+ COUNT_FETCH+ SUM_TIMER_FETCH+ COUNT_INSERT+ SUM_TIMER_INSERT+ COUNT_UPDATE+ SUM_TIMER_UPDATE+ \
         COUNT_DELETE+ SUM_TIMER_DELETE+",
        Fill::Empty,
    ),
    (
        PERFORMANCE_SCHEMA,
        "replication_group_members",
        "CHANNEL_NAME MEMBER_ID MEMBER_HOST MEMBER_PORT# MEMBER_STATE MEMBER_ROLE MEMBER_VERSION",
        Fill::Empty,
    ),
    (
        PERFORMANCE_SCHEMA,
        "memory_summary_global_by_event_name",
        "EVENT_NAME COUNT_ALLOC+ COUNT_FREE+ SUM_NUMBER_OF_BYTES_ALLOC+ SUM_NUMBER_OF_BYTES_FREE+ CURRENT_COUNT_USED# CURRENT_NUMBER_OF_BYTES_USED#",
        Fill::Empty,
    ),
    (
        PERFORMANCE_SCHEMA,
        "file_summary_by_instance",
        "FILE_NAME EVENT_NAME COUNT_STAR+ SUM_TIMER_WAIT+ COUNT_READ+ SUM_NUMBER_OF_BYTES_READ# COUNT_WRITE+ SUM_NUMBER_OF_BYTES_WRITE#",
        Fill::Empty,
    ),
    (PERFORMANCE_SCHEMA, "keyring_keys", "KEY_ID KEY_OWNER BACKEND_KEY_ID", Fill::Empty),
    (
        PERFORMANCE_SCHEMA,
        "replication_connection_status",
        "CHANNEL_NAME GROUP_NAME SOURCE_UUID THREAD_ID+ SERVICE_STATE LAST_ERROR_NUMBER# LAST_ERROR_MESSAGE",
        Fill::Empty,
    ),
    (
        PERFORMANCE_SCHEMA,
        "replication_applier_status",
        "CHANNEL_NAME SERVICE_STATE REMAINING_DELAY+ COUNT_TRANSACTIONS_RETRIES+",
        Fill::Empty,
    ),
    (
        PERFORMANCE_SCHEMA,
        "events_statements_history",
        "THREAD_ID+ EVENT_ID+ END_EVENT_ID+ EVENT_NAME SOURCE TIMER_START+ TIMER_END+ TIMER_WAIT+ LOCK_TIME+ SQL_TEXT DIGEST DIGEST_TEXT CURRENT_SCHEMA ROWS_AFFECTED+ ROWS_SENT+ ROWS_EXAMINED+ NESTING_EVENT_ID+",
        Fill::Empty,
    ),
    (
        PERFORMANCE_SCHEMA,
        "table_io_waits_summary_by_index_usage",
        "OBJECT_TYPE OBJECT_SCHEMA OBJECT_NAME INDEX_NAME COUNT_STAR+ SUM_TIMER_WAIT+ COUNT_READ+ SUM_TIMER_READ+ COUNT_WRITE+ \
         SUM_TIMER_WRITE+ COUNT_FETCH+ SUM_TIMER_FETCH+ COUNT_INSERT+ SUM_TIMER_INSERT+ COUNT_UPDATE+ SUM_TIMER_UPDATE+ \
         COUNT_DELETE+ SUM_TIMER_DELETE+",
        Fill::Empty,
    ),
    (PERFORMANCE_SCHEMA, "file_instances", "FILE_NAME EVENT_NAME OPEN_COUNT+", Fill::Empty),
    (PERFORMANCE_SCHEMA, "log_status", "SERVER_UUID LOCAL REPLICATION STORAGE_ENGINES", Fill::Empty),
    (PERFORMANCE_SCHEMA, "error_log", "LOGGED@ THREAD_ID+ PRIO ERROR_CODE SUBSYSTEM DATA", Fill::Empty),
];

/// Of MySQL, about what there is none of here.
const NOTHING: &[Brief] = &[
    (
        INFORMATION_SCHEMA,
        "innodb_trx",
        "trx_id+ trx_state trx_started@ trx_requested_lock_id trx_wait_started@ trx_weight+ trx_mysql_thread_id+ trx_query trx_operation_state trx_tables_in_use+ trx_tables_locked+ trx_rows_locked+ trx_rows_modified+ trx_isolation_level",
        Fill::Empty,
    ),
    (
        INFORMATION_SCHEMA,
        "innodb_metrics",
        "NAME SUBSYSTEM COUNT# MAX_COUNT# MIN_COUNT# AVG_COUNT# STATUS TYPE COMMENT",
        Fill::Empty,
    ),
    (
        INFORMATION_SCHEMA,
        "innodb_tables",
        "TABLE_ID+ NAME FLAG# N_COLS# SPACE# ROW_FORMAT ZIP_PAGE_SIZE+ SPACE_TYPE INSTANT_COLS#",
        Fill::Empty,
    ),
    (
        INFORMATION_SCHEMA,
        "innodb_tablespaces",
        "SPACE+ NAME FLAG+ ROW_FORMAT PAGE_SIZE+ SPACE_TYPE FILE_SIZE+ ALLOCATED_SIZE+ STATE",
        Fill::Empty,
    ),
    (
        INFORMATION_SCHEMA,
        "innodb_buffer_pool_stats",
        "POOL_ID+ POOL_SIZE+ FREE_BUFFERS+ DATABASE_PAGES+ HIT_RATE+",
        Fill::Empty,
    ),
    (
        INFORMATION_SCHEMA,
        "innodb_lock_waits",
        "requesting_trx_id requested_lock_id blocking_trx_id blocking_lock_id",
        Fill::Empty,
    ),
    (
        INFORMATION_SCHEMA,
        "innodb_locks",
        "lock_id lock_trx_id lock_mode lock_type lock_table lock_index lock_data",
        Fill::Empty,
    ),
    (INFORMATION_SCHEMA, "user_attributes", "USER HOST ATTRIBUTE", Fill::Empty),
    (
        INFORMATION_SCHEMA,
        "view_table_usage",
        "VIEW_CATALOG VIEW_SCHEMA VIEW_NAME TABLE_CATALOG TABLE_SCHEMA TABLE_NAME",
        Fill::Now(config::view_table_usage),
    ),
    (
        INFORMATION_SCHEMA,
        "view_routine_usage",
        "TABLE_CATALOG TABLE_SCHEMA TABLE_NAME SPECIFIC_CATALOG SPECIFIC_SCHEMA SPECIFIC_NAME",
        Fill::Empty,
    ),
    (
        INFORMATION_SCHEMA,
        "st_geometry_columns",
        "TABLE_CATALOG TABLE_SCHEMA TABLE_NAME COLUMN_NAME SRS_NAME SRS_ID+ GEOMETRY_TYPE_NAME",
        Fill::Empty,
    ),
    (
        INFORMATION_SCHEMA,
        "enabled_roles",
        "ROLE_NAME ROLE_HOST IS_DEFAULT IS_MANDATORY",
        Fill::Now(access::enabled_roles),
    ),
    (
        INFORMATION_SCHEMA,
        "optimizer_trace",
        "QUERY TRACE MISSING_BYTES_BEYOND_MAX_MEM_SIZE# INSUFFICIENT_PRIVILEGES#",
        Fill::Empty,
    ),
    (
        INFORMATION_SCHEMA,
        "resource_groups",
        "RESOURCE_GROUP_NAME RESOURCE_GROUP_TYPE RESOURCE_GROUP_ENABLED# VCPU_IDS THREAD_PRIORITY#",
        Fill::Empty,
    ),
];

const DORIS: &[Brief] = &[
    (
        INFORMATION_SCHEMA,
        "table_properties",
        "TABLE_CATALOG TABLE_SCHEMA TABLE_NAME PROPERTY_NAME PROPERTY_VALUE",
        Fill::Later(|context, wanted, sheet| Box::pin(config::table_properties(context, wanted, sheet))),
    ),
    (
        INFORMATION_SCHEMA,
        "table_options",
        "TABLE_CATALOG TABLE_SCHEMA TABLE_NAME TABLE_MODEL TABLE_MODEL_KEY DISTRIBUTE_KEY DISTRIBUTE_TYPE BUCKETS_NUM# \
         PARTITION_NUM#",
        Fill::Later(|context, wanted, sheet| Box::pin(config::table_options(context, wanted, sheet))),
    ),
    (
        INFORMATION_SCHEMA,
        "database_properties",
        "CATALOG_NAME SCHEMA_NAME PROPERTY_NAME PROPERTY_VALUE",
        Fill::Now(config::database_properties),
    ),
    (
        INFORMATION_SCHEMA,
        "view_dependency",
        "VIEW_CATALOG VIEW_SCHEMA VIEW_NAME VIEW_TYPE REF_CATALOG REF_SCHEMA REF_NAME REF_TYPE",
        Fill::Now(config::view_dependency),
    ),
    (
        INFORMATION_SCHEMA,
        "metadata_name_ids",
        "CATALOG_ID# CATALOG_NAME DATABASE_ID# DATABASE_NAME TABLE_ID# TABLE_NAME",
        Fill::Now(config::metadata_name_ids),
    ),
    (
        INFORMATION_SCHEMA,
        "active_queries",
        "QUERY_ID QUERY_START_TIME QUERY_TIME_MS# WORKLOAD_GROUP_ID# DATABASE FRONTEND_INSTANCE QUEUE_START_TIME \
         QUEUE_END_TIME QUERY_STATUS SQL",
        Fill::Now(config::active_queries),
    ),
    (
        INFORMATION_SCHEMA,
        "rowsets",
        "BACKEND_ID# ROWSET_ID TABLET_ID# ROWSET_NUM_ROWS# TXN_ID# NUM_SEGMENTS# START_VERSION# END_VERSION# \
         INDEX_DISK_SIZE# DATA_DISK_SIZE# CREATION_TIME@ NEWEST_WRITE_TIMESTAMP@ SCHEMA_VERSION#",
        Fill::Later(|context, wanted, sheet| Box::pin(config::rowsets(context, wanted, sheet))),
    ),
    (
        INFORMATION_SCHEMA,
        "backend_configuration",
        "BE_ID# CONFIG_NAME CONFIG_TYPE CONFIG_VALUE IS_MUTABLE",
        Fill::Empty,
    ),
    (
        INFORMATION_SCHEMA,
        "sql_block_rule_status",
        "NAME PATTERN SQL_HASH PARTITION_NUM# TABLET_NUM# CARDINALITY# GLOBAL ENABLE BLOCKS#",
        Fill::Empty,
    ),
    (
        INFORMATION_SCHEMA,
        "backend_active_tasks",
        "BE_ID# FE_HOST WORKLOAD_GROUP_ID# QUERY_ID TASK_TIME_MS# TASK_CPU_TIME_MS# SCAN_ROWS# SCAN_BYTES# \
         BE_PEAK_MEMORY_BYTES# CURRENT_USED_MEMORY_BYTES# SHUFFLE_SEND_BYTES# SHUFFLE_SEND_ROWS# QUERY_TYPE",
        Fill::Empty,
    ),
    (INFORMATION_SCHEMA, "workload_groups", "ID# NAME", Fill::Empty),
    (
        INFORMATION_SCHEMA,
        "workload_policy",
        "ID# NAME CONDITION ACTION PRIORITY# ENABLED VERSION# WORKLOAD_GROUP",
        Fill::Empty,
    ),
    (
        INFORMATION_SCHEMA,
        "workload_group_privileges",
        "GRANTEE WORKLOAD_GROUP_NAME PRIVILEGE_TYPE IS_GRANTABLE",
        Fill::Empty,
    ),
    (
        INFORMATION_SCHEMA,
        "workload_group_resource_usage",
        "BE_ID# WORKLOAD_GROUP_ID# MEMORY_USAGE_BYTES# CPU_USAGE_PERCENT LOCAL_SCAN_BYTES_PER_SECOND# \
         REMOTE_SCAN_BYTES_PER_SECOND#",
        Fill::Empty,
    ),
    (INFORMATION_SCHEMA, "file_cache_statistics", "BE_ID# BE_IP CACHE_PATH METRIC_NAME METRIC_VALUE", Fill::Empty),
    (
        INFORMATION_SCHEMA,
        "catalog_meta_cache_statistics",
        "CATALOG_NAME CACHE_NAME METRIC_NAME METRIC_VALUE",
        Fill::Empty,
    ),
    (
        INFORMATION_SCHEMA,
        "routine_load_jobs",
        "JOB_ID JOB_NAME CREATE_TIME PAUSE_TIME END_TIME DB_NAME TABLE_NAME STATE CURRENT_TASK_NUM JOB_PROPERTIES \
         DATA_SOURCE_PROPERTIES CUSTOM_PROPERTIES STATISTIC PROGRESS LAG REASON_OF_STATE_CHANGED ERROR_LOG_URLS USER_NAME \
         CURRENT_ABORT_TASK_NUM# IS_ABNORMAL_PAUSE",
        Fill::Empty,
    ),
    (
        INFORMATION_SCHEMA,
        "encryption_keys",
        "ID PARENT_ID VERSION# TYPE ALGORITHM CIPHER IV CRC# CTIME@ MTIME@",
        Fill::Empty,
    ),
];

const STARROCKS: &[Brief] = &[
    (
        INFORMATION_SCHEMA,
        "tables_config",
        "TABLE_SCHEMA TABLE_NAME TABLE_ENGINE TABLE_MODEL PRIMARY_KEY PARTITION_KEY DISTRIBUTE_KEY DISTRIBUTE_TYPE \
         DISTRIBUTE_BUCKET# SORT_KEY PROPERTIES TABLE_ID#",
        Fill::Later(|context, wanted, sheet| Box::pin(config::tables_config(context, wanted, sheet))),
    ),
    (
        INFORMATION_SCHEMA,
        "partitions_meta",
        "DB_NAME TABLE_NAME PARTITION_NAME PARTITION_ID# COMPACT_VERSION# VISIBLE_VERSION# VISIBLE_VERSION_TIME@ \
         NEXT_VERSION# PARTITION_KEY PARTITION_VALUE DISTRIBUTION_KEY BUCKETS# REPLICATION_NUM# STORAGE_MEDIUM \
         COOLDOWN_TIME@ LAST_CONSISTENCY_CHECK_TIME@ IS_IN_MEMORY# IS_TEMP# DATA_SIZE ROW_COUNT# ENABLE_DATACACHE#",
        Fill::Later(|context, wanted, sheet| Box::pin(config::partitions_meta(context, wanted, sheet))),
    ),
    (
        INFORMATION_SCHEMA,
        "materialized_views",
        "MATERIALIZED_VIEW_ID# TABLE_SCHEMA TABLE_NAME REFRESH_TYPE IS_ACTIVE INACTIVE_REASON PARTITION_TYPE TASK_ID# \
         TASK_NAME LAST_REFRESH_START_TIME@ LAST_REFRESH_FINISHED_TIME@ LAST_REFRESH_DURATION LAST_REFRESH_STATE \
         LAST_REFRESH_FORCE_REFRESH LAST_REFRESH_START_PARTITION LAST_REFRESH_END_PARTITION \
         LAST_REFRESH_BASE_REFRESH_PARTITIONS LAST_REFRESH_MV_REFRESH_PARTITIONS LAST_REFRESH_ERROR_CODE \
         LAST_REFRESH_ERROR_MESSAGE TABLE_ROWS# MATERIALIZED_VIEW_DEFINITION EXTRA_MESSAGE QUERY_REWRITE_STATUS CREATOR",
        Fill::Empty,
    ),
    (
        INFORMATION_SCHEMA,
        "tasks",
        "TASK_NAME CREATE_TIME@ SCHEDULE CATALOG DATABASE DEFINITION EXPIRE_TIME@ PROPERTIES CREATOR",
        Fill::Empty,
    ),
    (
        INFORMATION_SCHEMA,
        "task_runs",
        "QUERY_ID TASK_NAME CREATE_TIME@ FINISH_TIME@ STATE CATALOG DATABASE DEFINITION EXPIRE_TIME@ ERROR_CODE# \
         ERROR_MESSAGE PROGRESS EXTRA_MESSAGE PROPERTIES",
        Fill::Empty,
    ),
    (INFORMATION_SCHEMA, "be_configs", "BE_ID# NAME TYPE VALUE DEFAULT MUTABLE#", Fill::Empty),
    (
        INFORMATION_SCHEMA,
        "fe_tablet_schedules",
        "TABLET_ID# TABLE_ID# PARTITION_ID# TYPE PRIORITY STATE TABLET_STATUS CREATE_TIME@ SCHEDULE_TIME@ FINISH_TIME@",
        Fill::Empty,
    ),
    (
        INFORMATION_SCHEMA,
        "pipes",
        "DATABASE_NAME PIPE_ID# PIPE_NAME STATE TABLE_NAME LOAD_STATUS LAST_ERROR CREATED_TIME@",
        Fill::Empty,
    ),
    (
        INFORMATION_SCHEMA,
        "pipe_files",
        "DATABASE_NAME PIPE_ID# PIPE_NAME FILE_NAME FILE_VERSION FILE_SIZE# LAST_MODIFIED LOAD_STATE STAGED_TIME@ START_LOAD_TIME@ FINISH_LOAD_TIME@ ERROR_MSG",
        Fill::Empty,
    ),
    (
        INFORMATION_SCHEMA,
        "analyze_status",
        "Id# Catalog Database Table Columns Type Schedule Status StartTime EndTime Properties Reason",
        Fill::Empty,
    ),
    (
        INFORMATION_SCHEMA,
        "column_stats_usage",
        "TABLE_CATALOG TABLE_DATABASE TABLE_NAME COLUMN_NAME USAGE LAST_USED@ CREATED@",
        Fill::Empty,
    ),
    (
        INFORMATION_SCHEMA,
        "warehouse_metrics",
        "WAREHOUSE_ID WAREHOUSE_NAME QUEUE_PENDING_LENGTH QUEUE_RUNNING_LENGTH MAX_PENDING_LENGTH MAX_REQUIRED_SLOTS SUM_REQUIRED_SLOTS REMAIN_SLOTS MAX_SLOTS EXTRA_MESSAGE",
        Fill::Empty,
    ),
    (
        INFORMATION_SCHEMA,
        "warehouse_queries",
        "WAREHOUSE_ID WAREHOUSE_NAME QUERY_ID STATE EST_COSTS_SLOTS ALLOCATE_SLOTS QUEUED_WAIT_SECONDS QUERY QUERY_START_TIME QUERY_END_TIME QUERY_DURATION EXTRA_MESSAGE",
        Fill::Empty,
    ),
    (
        INFORMATION_SCHEMA,
        "cluster_snapshots",
        "SNAPSHOT_NAME SNAPSHOT_TYPE CREATED_TIME@ FE_JOURNAL_ID# STARMGR_JOURNAL_ID# PROPERTIES STORAGE_VOLUME STORAGE_PATH",
        Fill::Empty,
    ),
    (
        INFORMATION_SCHEMA,
        "cluster_snapshot_jobs",
        "SNAPSHOT_NAME JOB_ID# CREATED_TIME@ FINISHED_TIME@ STATE DETAIL_INFO ERROR_MESSAGE",
        Fill::Empty,
    ),
    (
        INFORMATION_SCHEMA,
        "applicable_roles",
        "USER HOST GRANTEE GRANTEE_HOST ROLE_NAME ROLE_HOST IS_GRANTABLE IS_DEFAULT IS_MANDATORY",
        Fill::Now(access::applicable_roles),
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
