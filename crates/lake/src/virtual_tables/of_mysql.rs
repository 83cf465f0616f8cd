//! Virtual tables of MySQL about objects that dipper does not have: InnoDB, replication, counters of
//! performance_schema, and the views of `sys` over them. Consoles and monitors read them, and the answer is no rows.
//! Columns are written as words, see [`super::briefs`].

use super::briefs::Brief;
use super::{INFORMATION_SCHEMA, MYSQL, PERFORMANCE_SCHEMA, Rows, SYS};

/// Columns of a performance_schema table of timer sums, grouped by its first columns.
macro_rules! summary {
    ($($names:literal)*) => {
        concat!($($names, " ",)* "COUNT_STAR+ SUM_TIMER_WAIT+ MIN_TIMER_WAIT+ AVG_TIMER_WAIT+ MAX_TIMER_WAIT+")
    };
}

/// Columns of a performance_schema table of file sums, grouped by its first columns.
macro_rules! files {
    ($($names:literal)*) => {
        concat!(
            $($names, " ",)*
            "COUNT_STAR+ SUM_TIMER_WAIT+ MIN_TIMER_WAIT+ AVG_TIMER_WAIT+ MAX_TIMER_WAIT+ COUNT_READ+ SUM_TIMER_READ+ \
             MIN_TIMER_READ+ AVG_TIMER_READ+ MAX_TIMER_READ+ SUM_NUMBER_OF_BYTES_READ# COUNT_WRITE+ SUM_TIMER_WRITE+ \
             MIN_TIMER_WRITE+ AVG_TIMER_WRITE+ MAX_TIMER_WRITE+ SUM_NUMBER_OF_BYTES_WRITE# COUNT_MISC+ SUM_TIMER_MISC+ \
             MIN_TIMER_MISC+ AVG_TIMER_MISC+ MAX_TIMER_MISC+"
        )
    };
}

const NONE: &[(&str, &str, &str)] = &[
    (MYSQL, "engine_cost", "engine_name device_type# cost_name cost_value last_update@ comment default_value"),
    (MYSQL, "server_cost", "cost_name cost_value last_update@ comment default_value"),
    (MYSQL, "gtid_executed", "source_uuid interval_start# interval_end#"),
    (MYSQL, "password_history", "Host User Password_timestamp@ Password"),
    (
        MYSQL,
        "slave_master_info",
        "Number_of_lines+ Master_log_name Master_log_pos+ Host User_name User_password Port+ Connect_retry+ \
         Enabled_ssl# Ssl_ca Ssl_capath Ssl_cert Ssl_cipher Ssl_key Ssl_verify_server_cert# Heartbeat Bind \
         Ignored_server_ids Uuid Retry_count+ Ssl_crl Ssl_crlpath Enabled_auto_position# Channel_name Tls_version \
         Public_key_path Get_public_key# Network_namespace Master_compression_algorithm \
         Master_zstd_compression_level+ Tls_ciphersuites Source_connection_auto_failover# Gtid_only#",
    ),
    (
        MYSQL,
        "slave_relay_log_info",
        "Number_of_lines+ Relay_log_name Relay_log_pos+ Master_log_name Master_log_pos+ Sql_delay# Number_of_workers+ \
         Id+ Channel_name Privilege_checks_username Privilege_checks_hostname Require_row_format# \
         Require_table_primary_key_check Assign_gtids_to_anonymous_transactions_type \
         Assign_gtids_to_anonymous_transactions_value",
    ),
    (
        MYSQL,
        "slave_worker_info",
        "Id+ Relay_log_name Relay_log_pos+ Master_log_name Master_log_pos+ Checkpoint_relay_log_name \
         Checkpoint_relay_log_pos+ Checkpoint_master_log_name Checkpoint_master_log_pos+ Checkpoint_seqno+ \
         Checkpoint_group_size+ Checkpoint_group_bitmap Channel_name",
    ),
    (MYSQL, "innodb_dynamic_metadata", "table_id+ version+ metadata"),
    (
        MYSQL,
        "ndb_binlog_index",
        "Position+ File epoch+ inserts+ updates+ deletes+ schemaops+ orig_server_id+ orig_epoch+ gci+ next_position+ next_file",
    ),
    (MYSQL, "replication_group_configuration_version", "name version+"),
    (MYSQL, "replication_group_member_actions", "name event enabled# type priority+ error_handling"),
    (MYSQL, "time_zone_leap_second", "Transition_time# Correction#"),
    (MYSQL, "time_zone_transition", "Time_zone_id+ Transition_time# Transition_type_id+"),
    (MYSQL, "time_zone_transition_type", "Time_zone_id+ Transition_type_id+ Offset# Is_DST# Abbreviation"),
    (
        INFORMATION_SCHEMA,
        "role_column_grants",
        "GRANTOR GRANTOR_HOST GRANTEE GRANTEE_HOST TABLE_CATALOG TABLE_SCHEMA TABLE_NAME COLUMN_NAME PRIVILEGE_TYPE IS_GRANTABLE",
    ),
    (
        INFORMATION_SCHEMA,
        "role_routine_grants",
        "GRANTOR GRANTOR_HOST GRANTEE GRANTEE_HOST SPECIFIC_CATALOG SPECIFIC_SCHEMA SPECIFIC_NAME ROUTINE_CATALOG \
         ROUTINE_SCHEMA ROUTINE_NAME PRIVILEGE_TYPE IS_GRANTABLE",
    ),
    (
        INFORMATION_SCHEMA,
        "columns_extensions",
        "TABLE_CATALOG TABLE_SCHEMA TABLE_NAME COLUMN_NAME ENGINE_ATTRIBUTE SECONDARY_ENGINE_ATTRIBUTE",
    ),
    (
        INFORMATION_SCHEMA,
        "tables_extensions",
        "TABLE_CATALOG TABLE_SCHEMA TABLE_NAME ENGINE_ATTRIBUTE SECONDARY_ENGINE_ATTRIBUTE",
    ),
    (INFORMATION_SCHEMA, "schemata_extensions", "CATALOG_NAME SCHEMA_NAME OPTIONS"),
    (
        INFORMATION_SCHEMA,
        "table_constraints_extensions",
        "CONSTRAINT_CATALOG CONSTRAINT_SCHEMA CONSTRAINT_NAME TABLE_NAME ENGINE_ATTRIBUTE SECONDARY_ENGINE_ATTRIBUTE",
    ),
    (INFORMATION_SCHEMA, "tablespaces_extensions", "TABLESPACE_NAME ENGINE_ATTRIBUTE"),
    (
        INFORMATION_SCHEMA,
        "st_spatial_reference_systems",
        "SRS_NAME SRS_ID+ ORGANIZATION ORGANIZATION_COORDSYS_ID+ DEFINITION DESCRIPTION",
    ),
    (
        INFORMATION_SCHEMA,
        "table_statistics",
        "TABLE_SCHEMA TABLE_NAME ROWS_READ+ ROWS_CHANGED+ ROWS_CHANGED_X_INDEXES+",
    ),
    (INFORMATION_SCHEMA, "st_units_of_measure", "UNIT_NAME UNIT_TYPE CONVERSION_FACTOR DESCRIPTION"),
    (
        INFORMATION_SCHEMA,
        "innodb_buffer_page",
        "POOL_ID+ BLOCK_ID+ SPACE+ PAGE_NUMBER+ PAGE_TYPE FLUSH_TYPE+ FIX_COUNT+ IS_HASHED NEWEST_MODIFICATION+ \
         OLDEST_MODIFICATION+ ACCESS_TIME+ TABLE_NAME INDEX_NAME NUMBER_RECORDS+ DATA_SIZE+ COMPRESSED_SIZE+ \
         PAGE_STATE IO_FIX IS_OLD FREE_PAGE_CLOCK+ IS_STALE",
    ),
    (
        INFORMATION_SCHEMA,
        "innodb_cmp",
        "page_size# compress_ops# compress_ops_ok# compress_time# uncompress_ops# uncompress_time#",
    ),
    (
        INFORMATION_SCHEMA,
        "innodb_cmpmem",
        "page_size# buffer_pool_instance# pages_used# pages_free# relocation_ops# relocation_time#",
    ),
    (INFORMATION_SCHEMA, "innodb_columns", "TABLE_ID+ NAME POS+ MTYPE# PRTYPE# LEN# HAS_DEFAULT# DEFAULT_VALUE"),
    (INFORMATION_SCHEMA, "innodb_datafiles", "SPACE PATH"),
    (INFORMATION_SCHEMA, "innodb_fields", "INDEX_ID NAME POS+"),
    (INFORMATION_SCHEMA, "innodb_foreign", "ID FOR_NAME REF_NAME N_COLS# TYPE+"),
    (INFORMATION_SCHEMA, "innodb_foreign_cols", "ID FOR_COL_NAME REF_COL_NAME POS+"),
    (INFORMATION_SCHEMA, "innodb_indexes", "INDEX_ID+ NAME TABLE_ID+ TYPE# N_FIELDS# PAGE_NO# SPACE# MERGE_THRESHOLD#"),
    (
        INFORMATION_SCHEMA,
        "innodb_tablestats",
        "TABLE_ID+ NAME STATS_INITIALIZED NUM_ROWS+ CLUST_INDEX_SIZE+ OTHER_INDEX_SIZE+ MODIFIED_COUNTER+ AUTOINC+ REF_COUNT#",
    ),
    (INFORMATION_SCHEMA, "innodb_temp_table_info", "TABLE_ID+ NAME N_COLS+ SPACE+"),
    // Tables under their names in MySQL 5.7.
    (INFORMATION_SCHEMA, "innodb_sys_columns", "TABLE_ID+ NAME POS+ MTYPE# PRTYPE# LEN#"),
    (INFORMATION_SCHEMA, "innodb_sys_datafiles", "SPACE+ PATH"),
    (INFORMATION_SCHEMA, "innodb_sys_fields", "INDEX_ID+ NAME POS+"),
    (INFORMATION_SCHEMA, "innodb_sys_foreign", "ID FOR_NAME REF_NAME N_COLS+ TYPE+"),
    (INFORMATION_SCHEMA, "innodb_sys_foreign_cols", "ID FOR_COL_NAME REF_COL_NAME POS+"),
    (
        INFORMATION_SCHEMA,
        "innodb_sys_indexes",
        "INDEX_ID+ NAME TABLE_ID+ TYPE# N_FIELDS# PAGE_NO# SPACE# MERGE_THRESHOLD#",
    ),
    (
        INFORMATION_SCHEMA,
        "innodb_sys_tables",
        "TABLE_ID+ NAME FLAG# N_COLS# SPACE# FILE_FORMAT ROW_FORMAT ZIP_PAGE_SIZE+ SPACE_TYPE",
    ),
    (
        INFORMATION_SCHEMA,
        "innodb_sys_tablespaces",
        "SPACE+ NAME FLAG+ FILE_FORMAT ROW_FORMAT PAGE_SIZE+ ZIP_PAGE_SIZE+ SPACE_TYPE FS_BLOCK_SIZE+ FILE_SIZE+ ALLOCATED_SIZE+",
    ),
    (
        INFORMATION_SCHEMA,
        "innodb_sys_tablestats",
        "TABLE_ID+ NAME STATS_INITIALIZED NUM_ROWS+ CLUST_INDEX_SIZE+ OTHER_INDEX_SIZE+ MODIFIED_COUNTER+ AUTOINC+ REF_COUNT#",
    ),
    (
        INFORMATION_SCHEMA,
        "sequences",
        "SEQUENCE_CATALOG SEQUENCE_SCHEMA SEQUENCE_NAME DATA_TYPE START_VALUE# MINIMUM_VALUE# MAXIMUM_VALUE# INCREMENT# CYCLE_OPTION#",
    ),
    (
        PERFORMANCE_SCHEMA,
        "data_lock_waits",
        "ENGINE REQUESTING_ENGINE_LOCK_ID REQUESTING_ENGINE_TRANSACTION_ID+ REQUESTING_THREAD_ID+ BLOCKING_ENGINE_LOCK_ID BLOCKING_ENGINE_TRANSACTION_ID+ BLOCKING_THREAD_ID+",
    ),
    (
        PERFORMANCE_SCHEMA,
        "events_errors_summary_global_by_error",
        "ERROR_NUMBER# ERROR_NAME SQL_STATE SUM_ERROR_RAISED+ SUM_ERROR_HANDLED+ FIRST_SEEN@ LAST_SEEN@",
    ),
    (PERFORMANCE_SCHEMA, "events_stages_current", STAGES),
    (PERFORMANCE_SCHEMA, "events_stages_history", STAGES),
    (PERFORMANCE_SCHEMA, "events_stages_summary_global_by_event_name", summary!("EVENT_NAME")),
    (PERFORMANCE_SCHEMA, "events_waits_current", WAITS),
    (PERFORMANCE_SCHEMA, "events_waits_history", WAITS),
    (PERFORMANCE_SCHEMA, "events_waits_history_long", WAITS),
    (PERFORMANCE_SCHEMA, "events_waits_summary_global_by_event_name", summary!("EVENT_NAME")),
    (PERFORMANCE_SCHEMA, "file_summary_by_event_name", files!("EVENT_NAME")),
    (PERFORMANCE_SCHEMA, "file_summary_by_instance", files!("FILE_NAME" "EVENT_NAME" "OBJECT_INSTANCE_BEGIN+")),
    (
        PERFORMANCE_SCHEMA,
        "host_cache",
        "IP HOST HOST_VALIDATED SUM_CONNECT_ERRORS# COUNT_HOST_BLOCKED_ERRORS# COUNT_NAMEINFO_TRANSIENT_ERRORS# \
         COUNT_NAMEINFO_PERMANENT_ERRORS# COUNT_FORMAT_ERRORS# COUNT_ADDRINFO_TRANSIENT_ERRORS# \
         COUNT_ADDRINFO_PERMANENT_ERRORS# COUNT_FCRDNS_ERRORS# COUNT_HOST_ACL_ERRORS# COUNT_NO_AUTH_PLUGIN_ERRORS# \
         COUNT_AUTH_PLUGIN_ERRORS# COUNT_HANDSHAKE_ERRORS# COUNT_PROXY_USER_ERRORS# COUNT_PROXY_USER_ACL_ERRORS# \
         COUNT_AUTHENTICATION_ERRORS# COUNT_SSL_ERRORS# COUNT_MAX_USER_CONNECTIONS_ERRORS# \
         COUNT_MAX_USER_CONNECTIONS_PER_HOUR_ERRORS# COUNT_DEFAULT_DATABASE_ERRORS# COUNT_INIT_CONNECT_ERRORS# \
         COUNT_LOCAL_ERRORS# COUNT_UNKNOWN_ERRORS# FIRST_SEEN@ LAST_SEEN@ FIRST_ERROR_SEEN@ LAST_ERROR_SEEN@",
    ),
    (PERFORMANCE_SCHEMA, "keyring_component_status", "STATUS_KEY STATUS_VALUE"),
    (PERFORMANCE_SCHEMA, "mutex_instances", "NAME OBJECT_INSTANCE_BEGIN+ LOCKED_BY_THREAD_ID+"),
    (PERFORMANCE_SCHEMA, "objects_summary_global_by_type", summary!("OBJECT_TYPE" "OBJECT_SCHEMA" "OBJECT_NAME")),
    (
        PERFORMANCE_SCHEMA,
        "prepared_statements_instances",
        "OBJECT_INSTANCE_BEGIN+ STATEMENT_ID+ STATEMENT_NAME SQL_TEXT OWNER_THREAD_ID+ OWNER_EVENT_ID+ \
         OWNER_OBJECT_TYPE OWNER_OBJECT_SCHEMA OWNER_OBJECT_NAME EXECUTION_ENGINE TIMER_PREPARE+ COUNT_REPREPARE+ \
         COUNT_EXECUTE+ SUM_TIMER_EXECUTE+ MIN_TIMER_EXECUTE+ AVG_TIMER_EXECUTE+ MAX_TIMER_EXECUTE+ SUM_LOCK_TIME+ \
         SUM_ERRORS+ SUM_WARNINGS+ SUM_ROWS_AFFECTED+ SUM_ROWS_SENT+ SUM_ROWS_EXAMINED+ SUM_CREATED_TMP_DISK_TABLES+ \
         SUM_CREATED_TMP_TABLES+ SUM_SELECT_FULL_JOIN+ SUM_SELECT_FULL_RANGE_JOIN+ SUM_SELECT_RANGE+ \
         SUM_SELECT_RANGE_CHECK+ SUM_SELECT_SCAN+ SUM_SORT_MERGE_PASSES+ SUM_SORT_RANGE+ SUM_SORT_ROWS+ \
         SUM_SORT_SCAN+ SUM_NO_INDEX_USED+ SUM_NO_GOOD_INDEX_USED+ SUM_CPU_TIME+ MAX_CONTROLLED_MEMORY+ \
         MAX_TOTAL_MEMORY+ COUNT_SECONDARY+",
    ),
    (
        PERFORMANCE_SCHEMA,
        "replication_applier_configuration",
        "CHANNEL_NAME DESIRED_DELAY# PRIVILEGE_CHECKS_USER REQUIRE_ROW_FORMAT REQUIRE_TABLE_PRIMARY_KEY_CHECK \
         ASSIGN_GTIDS_TO_ANONYMOUS_TRANSACTIONS_TYPE ASSIGN_GTIDS_TO_ANONYMOUS_TRANSACTIONS_VALUE",
    ),
    (
        PERFORMANCE_SCHEMA,
        "replication_applier_status_by_coordinator",
        "CHANNEL_NAME THREAD_ID+ SERVICE_STATE LAST_ERROR_NUMBER# LAST_ERROR_MESSAGE LAST_ERROR_TIMESTAMP@ \
         LAST_PROCESSED_TRANSACTION LAST_PROCESSED_TRANSACTION_ORIGINAL_COMMIT_TIMESTAMP@ \
         LAST_PROCESSED_TRANSACTION_IMMEDIATE_COMMIT_TIMESTAMP@ LAST_PROCESSED_TRANSACTION_START_BUFFER_TIMESTAMP@ \
         LAST_PROCESSED_TRANSACTION_END_BUFFER_TIMESTAMP@ PROCESSING_TRANSACTION \
         PROCESSING_TRANSACTION_ORIGINAL_COMMIT_TIMESTAMP@ PROCESSING_TRANSACTION_IMMEDIATE_COMMIT_TIMESTAMP@ \
         PROCESSING_TRANSACTION_START_BUFFER_TIMESTAMP@",
    ),
    (
        PERFORMANCE_SCHEMA,
        "replication_applier_status_by_worker",
        "CHANNEL_NAME WORKER_ID+ THREAD_ID+ SERVICE_STATE LAST_ERROR_NUMBER# LAST_ERROR_MESSAGE LAST_ERROR_TIMESTAMP@ \
         LAST_APPLIED_TRANSACTION LAST_APPLIED_TRANSACTION_ORIGINAL_COMMIT_TIMESTAMP@ \
         LAST_APPLIED_TRANSACTION_IMMEDIATE_COMMIT_TIMESTAMP@ LAST_APPLIED_TRANSACTION_START_APPLY_TIMESTAMP@ \
         LAST_APPLIED_TRANSACTION_END_APPLY_TIMESTAMP@ APPLYING_TRANSACTION \
         APPLYING_TRANSACTION_ORIGINAL_COMMIT_TIMESTAMP@ APPLYING_TRANSACTION_IMMEDIATE_COMMIT_TIMESTAMP@ \
         APPLYING_TRANSACTION_START_APPLY_TIMESTAMP@ LAST_APPLIED_TRANSACTION_RETRIES_COUNT+ \
         LAST_APPLIED_TRANSACTION_LAST_TRANSIENT_ERROR_NUMBER# LAST_APPLIED_TRANSACTION_LAST_TRANSIENT_ERROR_MESSAGE \
         LAST_APPLIED_TRANSACTION_LAST_TRANSIENT_ERROR_TIMESTAMP@ APPLYING_TRANSACTION_RETRIES_COUNT+ \
         APPLYING_TRANSACTION_LAST_TRANSIENT_ERROR_NUMBER# APPLYING_TRANSACTION_LAST_TRANSIENT_ERROR_MESSAGE \
         APPLYING_TRANSACTION_LAST_TRANSIENT_ERROR_TIMESTAMP@",
    ),
    (
        PERFORMANCE_SCHEMA,
        "replication_connection_configuration",
        "CHANNEL_NAME HOST PORT# USER NETWORK_INTERFACE AUTO_POSITION SSL_ALLOWED SSL_CA_FILE SSL_CA_PATH \
         SSL_CERTIFICATE SSL_CIPHER SSL_KEY SSL_VERIFY_SERVER_CERTIFICATE SSL_CRL_FILE SSL_CRL_PATH \
         CONNECTION_RETRY_INTERVAL# CONNECTION_RETRY_COUNT+ HEARTBEAT_INTERVAL TLS_VERSION PUBLIC_KEY_PATH \
         GET_PUBLIC_KEY NETWORK_NAMESPACE COMPRESSION_ALGORITHM ZSTD_COMPRESSION_LEVEL# TLS_CIPHERSUITES \
         SOURCE_CONNECTION_AUTO_FAILOVER GTID_ONLY",
    ),
    (
        PERFORMANCE_SCHEMA,
        "replication_group_member_stats",
        "CHANNEL_NAME VIEW_ID MEMBER_ID COUNT_TRANSACTIONS_IN_QUEUE+ COUNT_TRANSACTIONS_CHECKED+ \
         COUNT_CONFLICTS_DETECTED+ COUNT_TRANSACTIONS_ROWS_VALIDATING+ TRANSACTIONS_COMMITTED_ALL_MEMBERS \
         LAST_CONFLICT_FREE_TRANSACTION COUNT_TRANSACTIONS_REMOTE_IN_APPLIER_QUEUE+ \
         COUNT_TRANSACTIONS_REMOTE_APPLIED+ COUNT_TRANSACTIONS_LOCAL_PROPOSED+ COUNT_TRANSACTIONS_LOCAL_ROLLBACK+",
    ),
    (PERFORMANCE_SCHEMA, "setup_threads", "NAME ENABLED HISTORY PROPERTIES VOLATILITY# DOCUMENTATION"),
    (PERFORMANCE_SCHEMA, "socket_instances", "EVENT_NAME OBJECT_INSTANCE_BEGIN+ THREAD_ID+ SOCKET_ID# IP PORT# STATE"),
    (PERFORMANCE_SCHEMA, "status_by_thread", "THREAD_ID+ VARIABLE_NAME VARIABLE_VALUE"),
    (PERFORMANCE_SCHEMA, "user_variables_by_thread", "THREAD_ID+ VARIABLE_NAME VARIABLE_VALUE"),
    (PERFORMANCE_SCHEMA, "variables_by_thread", "THREAD_ID+ VARIABLE_NAME VARIABLE_VALUE"),
    (SYS, "host_summary", SUMMARIES_OF_HOSTS),
    (
        SYS,
        "user_summary",
        "user statements statement_latency statement_avg_latency table_scans file_ios file_io_latency current_connections total_connections unique_hosts current_memory total_memory_allocated",
    ),
    (
        SYS,
        "innodb_lock_waits",
        "wait_started@ wait_age wait_age_secs# locked_table locked_table_schema locked_table_name \
         locked_table_partition locked_table_subpartition locked_index locked_type waiting_trx_id+ \
         waiting_trx_started@ waiting_trx_age waiting_trx_rows_locked+ waiting_trx_rows_modified+ waiting_pid+ \
         waiting_query waiting_lock_id waiting_lock_mode blocking_trx_id+ blocking_pid+ blocking_query \
         blocking_lock_id blocking_lock_mode blocking_trx_started@ blocking_trx_age blocking_trx_rows_locked+ \
         blocking_trx_rows_modified+ sql_kill_blocking_query sql_kill_blocking_connection",
    ),
    (
        SYS,
        "io_global_by_file_by_bytes",
        "file count_read+ total_read avg_read count_write+ total_written avg_write total write_pct",
    ),
    (SYS, "host_summary_by_file_io", "host ios io_latency"),
    (SYS, "host_summary_by_file_io_type", "host event_name total+ total_latency max_latency"),
    (SYS, "host_summary_by_stages", "host event_name total+ total_latency avg_latency"),
    (SYS, "host_summary_by_statement_latency", OF_STATEMENTS_BY_HOST),
    (SYS, "host_summary_by_statement_type", TYPES_BY_HOST),
    (SYS, "user_summary_by_file_io", "user ios io_latency"),
    (SYS, "user_summary_by_file_io_type", "user event_name total+ latency max_latency"),
    (SYS, "user_summary_by_stages", "user event_name total+ total_latency avg_latency"),
    (
        SYS,
        "user_summary_by_statement_latency",
        "user total+ total_latency max_latency lock_latency cpu_latency rows_sent+ rows_examined+ rows_affected+ full_scans+",
    ),
    (
        SYS,
        "user_summary_by_statement_type",
        "user statement total+ total_latency max_latency lock_latency cpu_latency rows_sent+ rows_examined+ rows_affected+ full_scans+",
    ),
    (SYS, "innodb_buffer_stats_by_schema", "object_schema allocated data pages+ pages_hashed+ pages_old+ rows_cached+"),
    (
        SYS,
        "innodb_buffer_stats_by_table",
        "object_schema object_name allocated data pages+ pages_hashed+ pages_old+ rows_cached+",
    ),
    (
        SYS,
        "io_by_thread_by_latency",
        "user total+ total_latency min_latency avg_latency max_latency thread_id+ processlist_id+",
    ),
    (
        SYS,
        "io_global_by_file_by_latency",
        "file total+ total_latency count_read+ read_latency count_write+ write_latency count_misc+ misc_latency",
    ),
    (
        SYS,
        "io_global_by_wait_by_bytes",
        "event_name total+ total_latency min_latency avg_latency max_latency count_read+ total_read avg_read count_write+ \
         total_written avg_written total_requested",
    ),
    (SYS, "latest_file_io", "thread file latency operation requested"),
    (
        SYS,
        "memory_by_host_by_current_bytes",
        "host current_count_used current_allocated current_avg_alloc current_max_alloc total_allocated",
    ),
    (
        SYS,
        "memory_by_thread_by_current_bytes",
        "thread_id+ user current_count_used current_allocated current_avg_alloc current_max_alloc total_allocated",
    ),
    (
        SYS,
        "memory_by_user_by_current_bytes",
        "user current_count_used current_allocated current_avg_alloc current_max_alloc total_allocated",
    ),
    (SYS, "ps_check_lost_instrumentation", "variable_name variable_value"),
    (
        SYS,
        "schema_auto_increment_columns",
        "table_schema table_name column_name data_type column_type is_signed# is_unsigned# max_value+ auto_increment+ auto_increment_ratio",
    ),
    (
        SYS,
        "schema_table_statistics_with_buffer",
        "table_schema table_name rows_fetched+ fetch_latency rows_inserted+ insert_latency rows_updated+ \
         update_latency rows_deleted+ delete_latency io_read_requests io_read io_read_latency io_write_requests \
         io_write io_write_latency io_misc_requests io_misc_latency innodb_buffer_allocated innodb_buffer_data \
         innodb_buffer_free innodb_buffer_pages+ innodb_buffer_pages_hashed+ innodb_buffer_pages_old+ \
         innodb_buffer_rows_cached+",
    ),
    (SYS, "session_ssl_status", "thread_id+ ssl_version ssl_cipher ssl_sessions_reused"),
    (SYS, "wait_classes_global_by_avg_latency", "event_class total+ total_latency min_latency avg_latency max_latency"),
    (SYS, "wait_classes_global_by_latency", "event_class total+ total_latency min_latency avg_latency max_latency"),
    (SYS, "waits_by_host_by_latency", "host event total+ total_latency avg_latency max_latency"),
    (SYS, "waits_by_user_by_latency", "user event total+ total_latency avg_latency max_latency"),
    (
        SYS,
        "io_global_by_wait_by_latency",
        "event_name total+ total_latency avg_latency max_latency read_latency write_latency misc_latency count_read+ \
         total_read avg_read count_write+ total_written avg_written",
    ),
    (
        SYS,
        "memory_global_by_current_bytes",
        "event_name current_count# current_alloc current_avg_alloc high_count# high_alloc high_avg_alloc",
    ),
    (SYS, "memory_global_total", "total_allocated"),
    (
        SYS,
        "schema_redundant_indexes",
        "table_schema table_name redundant_index_name redundant_index_columns redundant_index_non_unique# dominant_index_name dominant_index_columns dominant_index_non_unique# subpart_exists# sql_drop_index",
    ),
    (SYS, "schema_unused_indexes", "object_schema object_name index_name"),
    (
        SYS,
        "schema_index_statistics",
        "table_schema table_name index_name rows_selected+ select_latency rows_inserted+ insert_latency rows_updated+ update_latency rows_deleted+ delete_latency",
    ),
    (
        SYS,
        "schema_table_lock_waits",
        "object_schema object_name waiting_thread_id+ waiting_pid+ waiting_account waiting_lock_type \
         waiting_lock_duration waiting_query waiting_query_secs# waiting_query_rows_affected+ \
         waiting_query_rows_examined+ blocking_thread_id+ blocking_pid+ blocking_account blocking_lock_type \
         blocking_lock_duration sql_kill_blocking_query sql_kill_blocking_connection",
    ),
    (
        SYS,
        "schema_table_statistics",
        "table_schema table_name total_latency rows_fetched+ fetch_latency rows_inserted+ insert_latency \
         rows_updated+ update_latency rows_deleted+ delete_latency io_read_requests io_read io_read_latency \
         io_write_requests io_write io_write_latency io_misc_requests io_misc_latency",
    ),
    (SYS, "schema_tables_with_full_table_scans", "object_schema object_name rows_full_scanned+ latency"),
    (SYS, "statement_analysis", STATEMENTS),
    (SYS, "statements_with_errors_or_warnings", FAILED_STATEMENTS),
    (SYS, "statements_with_full_table_scans", SCANNING_STATEMENTS),
    (SYS, "statements_with_runtimes_in_95th_percentile", SLOW_STATEMENTS),
    (SYS, "statements_with_sorting", SORTING_STATEMENTS),
    (SYS, "statements_with_temp_tables", STATEMENTS_WITH_TABLES),
    (SYS, "sys_config", "variable value set_time@ set_by"),
    (SYS, "x$ps_digest_95th_percentile_by_avg_us", "avg_us percentile"),
    (SYS, "x$ps_digest_avg_latency_distribution", "cnt# avg_us"),
    (
        SYS,
        "x$ps_schema_table_statistics_io",
        "table_schema table_name count_read+ sum_number_of_bytes_read+ sum_timer_read+ count_write+ sum_number_of_bytes_write+ \
         sum_timer_write+ count_misc+ sum_timer_misc+",
    ),
    (SYS, "waits_global_by_latency", "events total+ total_latency avg_latency max_latency"),
];

const STAGES: &str = "THREAD_ID+ EVENT_ID+ END_EVENT_ID+ EVENT_NAME SOURCE TIMER_START+ TIMER_END+ TIMER_WAIT+ WORK_COMPLETED+ WORK_ESTIMATED+ NESTING_EVENT_ID+ NESTING_EVENT_TYPE";
const WAITS: &str = "THREAD_ID+ EVENT_ID+ END_EVENT_ID+ EVENT_NAME SOURCE TIMER_START+ TIMER_END+ TIMER_WAIT+ SPINS+ OBJECT_SCHEMA OBJECT_NAME INDEX_NAME OBJECT_TYPE OBJECT_INSTANCE_BEGIN+ NESTING_EVENT_ID+ NESTING_EVENT_TYPE OPERATION NUMBER_OF_BYTES# FLAGS+";
const SUMMARIES_OF_HOSTS: &str = "host statements statement_latency statement_avg_latency table_scans file_ios file_io_latency current_connections total_connections unique_users current_memory total_memory_allocated";
const OF_STATEMENTS_BY_HOST: &str = "host total+ total_latency max_latency lock_latency cpu_latency rows_sent+ rows_examined+ rows_affected+ full_scans+";
const TYPES_BY_HOST: &str = "host statement total+ total_latency max_latency lock_latency cpu_latency rows_sent+ rows_examined+ rows_affected+ full_scans+";
const STATEMENTS: &str = "query db full_scan exec_count+ err_count+ warn_count+ total_latency max_latency avg_latency lock_latency \
    cpu_latency rows_sent+ rows_sent_avg rows_examined+ rows_examined_avg rows_affected+ rows_affected_avg tmp_tables+ \
    tmp_disk_tables+ rows_sorted+ sort_merge_passes+ max_controlled_memory max_total_memory digest first_seen@ last_seen@";
const FAILED_STATEMENTS: &str =
    "query db exec_count+ errors+ error_pct warnings+ warning_pct first_seen@ last_seen@ digest";
const SCANNING_STATEMENTS: &str = "query db exec_count+ total_latency no_index_used_count+ no_good_index_used_count+ \
    no_index_used_pct rows_sent+ rows_examined+ rows_sent_avg+ rows_examined_avg+ first_seen@ last_seen@ digest";
const SLOW_STATEMENTS: &str = "query db full_scan exec_count+ err_count+ warn_count+ total_latency max_latency avg_latency \
    rows_sent+ rows_sent_avg rows_examined+ rows_examined_avg first_seen@ last_seen@ digest";
const SORTING_STATEMENTS: &str = "query db exec_count+ total_latency sort_merge_passes+ avg_sort_merges sorts_using_scans+ \
    sort_using_range+ rows_sorted+ avg_rows_sorted first_seen@ last_seen@ digest";
const STATEMENTS_WITH_TABLES: &str = "query db exec_count+ total_latency memory_tmp_tables+ disk_tmp_tables+ \
    avg_tmp_tables_per_query tmp_tables_to_disk_pct first_seen@ last_seen@ digest";

const SESSIONS: &str = "thd_id+ conn_id+ user db command state time# current_statement execution_engine statement_latency \
    progress lock_latency cpu_latency rows_examined+ rows_sent+ rows_affected+ tmp_tables+ tmp_disk_tables+ full_scan \
    last_statement last_statement_latency current_memory last_wait last_wait_latency source trx_latency trx_state \
    trx_autocommit pid program_name";

/// Tables that have rows.
const SOME: &[Brief] = &[
    (MYSQL, "role_edges", "FROM_HOST FROM_USER TO_HOST TO_USER WITH_ADMIN_OPTION", Rows::MysqlRoleEdges),
    (MYSQL, "default_roles", "HOST USER DEFAULT_ROLE_HOST DEFAULT_ROLE_USER", Rows::MysqlDefaultRoles),
    (
        INFORMATION_SCHEMA,
        "administrable_role_authorizations",
        "USER HOST GRANTEE GRANTEE_HOST ROLE_NAME ROLE_HOST IS_GRANTABLE IS_DEFAULT IS_MANDATORY",
        Rows::None,
    ),
    (
        INFORMATION_SCHEMA,
        "role_table_grants",
        "GRANTOR GRANTOR_HOST GRANTEE GRANTEE_HOST TABLE_CATALOG TABLE_SCHEMA TABLE_NAME PRIVILEGE_TYPE IS_GRANTABLE",
        Rows::RoleTableGrants,
    ),
    (
        PERFORMANCE_SCHEMA,
        "accounts",
        "USER HOST CURRENT_CONNECTIONS# TOTAL_CONNECTIONS# MAX_SESSION_CONTROLLED_MEMORY+ MAX_SESSION_TOTAL_MEMORY+",
        Rows::Accounts,
    ),
    (
        PERFORMANCE_SCHEMA,
        "users",
        "USER CURRENT_CONNECTIONS# TOTAL_CONNECTIONS# MAX_SESSION_CONTROLLED_MEMORY+ MAX_SESSION_TOTAL_MEMORY+",
        Rows::Users,
    ),
    (
        PERFORMANCE_SCHEMA,
        "hosts",
        "HOST CURRENT_CONNECTIONS# TOTAL_CONNECTIONS# MAX_SESSION_CONTROLLED_MEMORY+ MAX_SESSION_TOTAL_MEMORY+",
        Rows::Hosts,
    ),
    (SYS, "processlist", SESSIONS, Rows::SysSessions),
    (SYS, "session", SESSIONS, Rows::SysSessions),
    (SYS, "metrics", "Variable_name Variable_value Type Enabled", Rows::SysMetrics),
    (SYS, "schema_object_overview", "db object_type count#", Rows::SchemaObjectOverview),
    (SYS, "version", "sys_version mysql_version", Rows::SysVersion),
    (
        SYS,
        "x$schema_flattened_keys",
        "table_schema table_name index_name non_unique# subpart_exists# index_columns",
        Rows::FlattenedKeys,
    ),
];

/// All of these tables.
pub(super) fn tables() -> impl Iterator<Item = Brief> {
    NONE.iter().map(|(database, name, head)| (*database, *name, *head, Rows::None)).chain(SOME.iter().copied())
}
