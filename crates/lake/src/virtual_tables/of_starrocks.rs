//! Tables with which consoles of StarRocks and Doris monitor nodes, loads and grants. Columns are written as words, see
//! [`super::briefs`].

use super::briefs::Brief;
use super::{DORIS_INTERNAL, INFORMATION_SCHEMA, Rows, STATISTICS, SYS};

/// All of these tables.
pub(super) const TABLES: &[Brief] = &[
    (
        INFORMATION_SCHEMA,
        "be_tablets",
        "BE_ID# TABLE_ID# PARTITION_ID# TABLET_ID# NUM_VERSION# MAX_VERSION# MIN_VERSION# NUM_ROWSET# NUM_ROW# DATA_SIZE# \
         INDEX_MEM# CREATE_TIME# STATE TYPE DATA_DIR SHARD_ID# SCHEMA_HASH# INDEX_DISK# MEDIUM_TYPE NUM_SEGMENT#",
        Rows::BeTablets,
    ),
    (
        INFORMATION_SCHEMA,
        "be_threads",
        "BE_ID# GROUP NAME PTHREAD_ID# TID# IDLE# FINISHED_TASKS# BOUND_CPUS",
        Rows::BeThreads,
    ),
    (
        INFORMATION_SCHEMA,
        "fe_threads",
        "FE_ADDRESS THREAD_ID# THREAD_NAME GROUP THREAD_STATE IS_DAEMON# PRIORITY# CPU_TIME_MS# USER_TIME_MS#",
        Rows::FeThreads,
    ),
    (INFORMATION_SCHEMA, "be_metrics", "BE_ID# NAME LABELS VALUE#", Rows::Metrics),
    (INFORMATION_SCHEMA, "fe_metrics", "FE_ID# NAME LABELS VALUE#", Rows::Metrics),
    (
        INFORMATION_SCHEMA,
        "be_txns",
        "BE_ID# LOAD_ID TXN_ID# PARTITION_ID# TABLET_ID# CREATE_TIME# COMMIT_TIME# PUBLISH_TIME# ROWSET_ID NUM_SEGMENT# NUM_ROW# \
         DATA_SIZE# VERSION#",
        Rows::None,
    ),
    (
        INFORMATION_SCHEMA,
        "be_compactions",
        "BE_ID# CANDIDATES_NUM# BASE_COMPACTION_CONCURRENCY# CUMULATIVE_COMPACTION_CONCURRENCY# LATEST_COMPACTION_SCORE \
         CANDIDATE_MAX_SCORE MANUAL_COMPACTION_CONCURRENCY# MANUAL_COMPACTION_CANDIDATES_NUM#",
        Rows::None,
    ),
    (
        INFORMATION_SCHEMA,
        "be_cloud_native_compactions",
        "BE_ID# TXN_ID# TABLET_ID# VERSION# SKIPPED# RUNS# START_TIME@ FINISH_TIME@ PROGRESS# STATUS PROFILE",
        Rows::None,
    ),
    // Log messages go to standard error, and nothing keeps them.
    (INFORMATION_SCHEMA, "be_logs", "BE_ID# LEVEL TIMESTAMP# TID# LOG", Rows::None),
    (INFORMATION_SCHEMA, "be_bvars", "BE_ID# NAME DESC VALUE", Rows::None),
    (
        INFORMATION_SCHEMA,
        "stream_loads",
        "LABEL ID# LOAD_ID TXN_ID# DB_NAME TABLE_NAME STATE ERROR_MSG TRACKING_URL NUM_ROWS_NORMAL# NUM_ROWS_AB_NORMAL# \
         NUM_ROWS_UNSELECTED# NUM_LOAD_BYTES# CREATE_TIME_MS@ END_TIME_MS@ TYPE",
        Rows::StreamLoads,
    ),
    (INFORMATION_SCHEMA, "load_tracking_logs", "JOB_ID# LABEL DATABASE_NAME TRACKING_LOG TYPE", Rows::TrackingLogs),
    (
        INFORMATION_SCHEMA,
        "load_jobs",
        "JOB_ID LABEL STATE PROGRESS TYPE ETL_INFO TASK_INFO ERROR_MSG CREATE_TIME@ ETL_START_TIME@ ETL_FINISH_TIME@ \
         LOAD_START_TIME@ LOAD_FINISH_TIME@ URL JOB_DETAILS TRANSACTION_ID ERROR_TABLETS USER COMMENT",
        Rows::LoadJobs,
    ),
    (
        INFORMATION_SCHEMA,
        "temp_tables",
        "TABLE_CATALOG TABLE_SCHEMA TABLE_NAME TABLE_TYPE ENGINE SESSION TABLE_ID#",
        Rows::TemporaryTables,
    ),
    (INFORMATION_SCHEMA, "keywords", "WORD RESERVED# KEYWORD", Rows::Keywords),
    (INFORMATION_SCHEMA, "recyclebin_catalogs", "TYPE NAME DB_ID# TABLE_ID# PARTITION_ID# DROP_TIME@", Rows::None),
    (
        INFORMATION_SCHEMA,
        "verbose_session_variables",
        "VARIABLE_NAME VARIABLE_VALUE DEFAULT_VALUE IS_CHANGED#",
        Rows::VerboseVariables,
    ),
    (
        INFORMATION_SCHEMA,
        "system_variables",
        "VARIABLE_NAME SESSION_VALUE GLOBAL_VALUE DEFAULT_VALUE VARIABLE_COMMENT",
        Rows::SystemVariables,
    ),
    (INFORMATION_SCHEMA, "file_cache_info", "HASH TABLET_ID# SIZE# TYPE REMOTE_PATH CACHE_PATH BE_ID#", Rows::None),
    (
        SYS,
        "grants_to_users",
        "GRANTEE OBJECT_CATALOG OBJECT_DATABASE OBJECT_NAME OBJECT_TYPE PRIVILEGE_TYPE IS_GRANTABLE",
        Rows::GrantsToUsers,
    ),
    (
        SYS,
        "grants_to_roles",
        "GRANTEE OBJECT_CATALOG OBJECT_DATABASE OBJECT_NAME OBJECT_TYPE PRIVILEGE_TYPE IS_GRANTABLE",
        Rows::GrantsToRoles,
    ),
    (SYS, "role_edges", "FROM_ROLE TO_ROLE TO_USER", Rows::RoleEdges),
    (
        SYS,
        "fe_locks",
        "LOCK_TYPE LOCK_OBJECT LOCK_MODE START_TIME@ HOLD_TIME_MS# THREAD_INFO GRANTED# WAITER_LIST",
        Rows::None,
    ),
    (SYS, "fe_memory_usage", "MODULE_NAME CLASS_NAME CURRENT_CONSUMPTION# PEAK_CONSUMPTION# COUNTER_INFO", Rows::None),
    (
        SYS,
        "object_dependencies",
        "OBJECT_ID# OBJECT_NAME OBJECT_DATABASE OBJECT_CATALOG OBJECT_TYPE REF_OBJECT_ID# REF_OBJECT_NAME REF_OBJECT_DATABASE \
         REF_OBJECT_CATALOG REF_OBJECT_TYPE",
        Rows::ObjectDependencies,
    ),
    (
        STATISTICS,
        "column_statistics",
        "table_id# column_name db_name table_name row_count# ndv# null_count# max min update_time@",
        Rows::ColumnStatistics,
    ),
    (
        STATISTICS,
        "histogram_statistics",
        "table_id# column_name db_id# table_name buckets mcv update_time@",
        Rows::None,
    ),
    (
        STATISTICS,
        "external_column_statistics",
        "table_uuid partition_name column_name catalog_name db_name table_name row_count# data_size# ndv null_count# max min update_time@",
        Rows::None,
    ),
    (
        STATISTICS,
        "external_histogram_statistics",
        "table_uuid column_name catalog_name db_name table_name buckets mcv update_time@",
        Rows::None,
    ),
    (
        STATISTICS,
        "multi_column_statistics",
        "table_id# column_ids db_id# table_name column_names ndv# update_time@",
        Rows::None,
    ),
    (
        DORIS_INTERNAL,
        "column_statistics",
        "id catalog_id db_id tbl_id idx_id col_id part_id count# ndv# null_count# min max data_size_in_bytes# update_time@ hot_value",
        Rows::DorisColumnStatistics,
    ),
    (
        DORIS_INTERNAL,
        "partition_statistics",
        "catalog_id db_id tbl_id idx_id part_name part_id col_id count# ndv null_count# min max data_size_in_bytes# update_time@",
        Rows::None,
    ),
    (
        DORIS_INTERNAL,
        "histogram_statistics",
        "id catalog_id db_id tbl_id idx_id col_id sample_rate buckets update_time@",
        Rows::None,
    ),
    (
        DORIS_INTERNAL,
        "audit_log",
        "query_id time@ client_ip user frontend_ip catalog db state error_code# error_message query_time# cpu_time_ms# \
         peak_memory_bytes# scan_bytes# scan_rows# return_rows# shuffle_send_rows# shuffle_send_bytes# \
         spill_write_bytes_to_local_storage# spill_read_bytes_from_local_storage# scan_bytes_from_local_storage# \
         scan_bytes_from_remote_storage# parse_time_ms# plan_times_ms# get_meta_times_ms# schedule_times_ms# hit_sql_cache# \
         handled_in_fe# queried_tables_and_views chosen_m_views changed_variables sql_mode stmt_id# stmt_type is_query# \
         is_nereids# is_internal# sql_hash sql_digest workload_group compute_group stmt",
        Rows::AuditLog,
    ),
];
