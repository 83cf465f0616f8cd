//! Tables of MySQL's performance_schema that sum up or list events, which dipper does not record, and of MySQL's and
//! MariaDB's information_schema about what dipper lacks. Consoles and monitors read them, and the answer is no rows.
//! Columns are written as words, see [`super::briefs`].

use super::briefs::Brief;
use super::{INFORMATION_SCHEMA, MYSQL, PERFORMANCE_SCHEMA, Rows};

/// Columns of a table of timer sums, grouped by its first columns.
macro_rules! timers {
    ($names:literal) => {
        concat!($names, " COUNT_STAR+ SUM_TIMER_WAIT+ MIN_TIMER_WAIT+ AVG_TIMER_WAIT+ MAX_TIMER_WAIT+")
    };
}

/// Columns of a table of sums of statements, grouped by its first columns.
macro_rules! statements {
    ($names:literal) => {
        concat!(
            $names,
            " COUNT_STAR+ SUM_TIMER_WAIT+ MIN_TIMER_WAIT+ AVG_TIMER_WAIT+ MAX_TIMER_WAIT+ SUM_LOCK_TIME+ SUM_ERRORS+ SUM_WARNINGS+ \
             SUM_ROWS_AFFECTED+ SUM_ROWS_SENT+ SUM_ROWS_EXAMINED+ SUM_CREATED_TMP_DISK_TABLES+ SUM_CREATED_TMP_TABLES+ \
             SUM_SELECT_FULL_JOIN+ SUM_SELECT_FULL_RANGE_JOIN+ SUM_SELECT_RANGE+ SUM_SELECT_RANGE_CHECK+ SUM_SELECT_SCAN+ \
             SUM_SORT_MERGE_PASSES+ SUM_SORT_RANGE+ SUM_SORT_ROWS+ SUM_SORT_SCAN+ SUM_NO_INDEX_USED+ SUM_NO_GOOD_INDEX_USED+ \
             SUM_CPU_TIME+ MAX_CONTROLLED_MEMORY+ MAX_TOTAL_MEMORY+ COUNT_SECONDARY+"
        )
    };
}

/// Columns of a table of sums of transactions, grouped by its first columns.
macro_rules! transactions {
    ($names:literal) => {
        concat!(
            $names,
            " COUNT_STAR+ SUM_TIMER_WAIT+ MIN_TIMER_WAIT+ AVG_TIMER_WAIT+ MAX_TIMER_WAIT+ COUNT_READ_WRITE+ \
             SUM_TIMER_READ_WRITE+ MIN_TIMER_READ_WRITE+ AVG_TIMER_READ_WRITE+ MAX_TIMER_READ_WRITE+ COUNT_READ_ONLY+ \
             SUM_TIMER_READ_ONLY+ MIN_TIMER_READ_ONLY+ AVG_TIMER_READ_ONLY+ MAX_TIMER_READ_ONLY+"
        )
    };
}

/// Columns of a table of errors, grouped by its first columns.
macro_rules! errors {
    ($names:literal) => {
        concat!(
            $names,
            " ERROR_NUMBER# ERROR_NAME SQL_STATE SUM_ERROR_RAISED+ SUM_ERROR_HANDLED+ FIRST_SEEN@ LAST_SEEN@"
        )
    };
}

/// Columns of a table of memory, grouped by its first columns.
macro_rules! memory {
    ($names:literal) => {
        concat!(
            $names,
            " COUNT_ALLOC+ COUNT_FREE+ SUM_NUMBER_OF_BYTES_ALLOC+ SUM_NUMBER_OF_BYTES_FREE+ LOW_COUNT_USED# CURRENT_COUNT_USED# \
             HIGH_COUNT_USED# LOW_NUMBER_OF_BYTES_USED# CURRENT_NUMBER_OF_BYTES_USED# HIGH_NUMBER_OF_BYTES_USED#"
        )
    };
}

/// Columns of a table of sums over sockets, grouped by its first columns.
macro_rules! sockets {
    ($names:literal) => {
        concat!(
            $names,
            " COUNT_STAR+ SUM_TIMER_WAIT+ MIN_TIMER_WAIT+ AVG_TIMER_WAIT+ MAX_TIMER_WAIT+ COUNT_READ+ SUM_TIMER_READ+ \
             MIN_TIMER_READ+ AVG_TIMER_READ+ MAX_TIMER_READ+ SUM_NUMBER_OF_BYTES_READ+ COUNT_WRITE+ SUM_TIMER_WRITE+ \
             MIN_TIMER_WRITE+ AVG_TIMER_WRITE+ MAX_TIMER_WRITE+ SUM_NUMBER_OF_BYTES_WRITE+ COUNT_MISC+ SUM_TIMER_MISC+ \
             MIN_TIMER_MISC+ AVG_TIMER_MISC+ MAX_TIMER_MISC+"
        )
    };
}

/// Columns of a table of waits by kind of access, grouped by its first columns: a count and timers for each kind.
macro_rules! accesses {
    ($names:literal $($kind:literal)*) => {
        concat!(
            $names,
            " COUNT_STAR+ SUM_TIMER_WAIT+ MIN_TIMER_WAIT+ AVG_TIMER_WAIT+ MAX_TIMER_WAIT+"
            $(, " COUNT_", $kind, "+ SUM_TIMER_", $kind, "+ MIN_TIMER_", $kind, "+ AVG_TIMER_", $kind, "+ MAX_TIMER_", $kind, "+")*
        )
    };
}

/// One statement that ran.
const STATEMENT: &str = "THREAD_ID+ EVENT_ID+ END_EVENT_ID+ EVENT_NAME SOURCE TIMER_START+ TIMER_END+ TIMER_WAIT+ LOCK_TIME+ \
    SQL_TEXT DIGEST DIGEST_TEXT CURRENT_SCHEMA OBJECT_TYPE OBJECT_SCHEMA OBJECT_NAME OBJECT_INSTANCE_BEGIN+ MYSQL_ERRNO# \
    RETURNED_SQLSTATE MESSAGE_TEXT ERRORS+ WARNINGS+ ROWS_AFFECTED+ ROWS_SENT+ ROWS_EXAMINED+ CREATED_TMP_DISK_TABLES+ \
    CREATED_TMP_TABLES+ SELECT_FULL_JOIN+ SELECT_FULL_RANGE_JOIN+ SELECT_RANGE+ SELECT_RANGE_CHECK+ SELECT_SCAN+ \
    SORT_MERGE_PASSES+ SORT_RANGE+ SORT_ROWS+ SORT_SCAN+ NO_INDEX_USED+ NO_GOOD_INDEX_USED+ NESTING_EVENT_ID+ \
    NESTING_EVENT_TYPE NESTING_EVENT_LEVEL# STATEMENT_ID+ CPU_TIME+ MAX_CONTROLLED_MEMORY+ MAX_TOTAL_MEMORY+ EXECUTION_ENGINE";

/// One transaction that ran.
const TRANSACTION: &str = "THREAD_ID+ EVENT_ID+ END_EVENT_ID+ EVENT_NAME STATE TRX_ID# GTID XID_FORMAT_ID# XID_GTRID XID_BQUAL \
    XA_STATE SOURCE TIMER_START+ TIMER_END+ TIMER_WAIT+ ACCESS_MODE ISOLATION_LEVEL AUTOCOMMIT NUMBER_OF_SAVEPOINTS+ \
    NUMBER_OF_ROLLBACK_TO_SAVEPOINT+ NUMBER_OF_RELEASE_SAVEPOINT+ OBJECT_INSTANCE_BEGIN+ NESTING_EVENT_ID+ NESTING_EVENT_TYPE";

/// One page of InnoDB's buffer.
const PAGE: &str = "POOL_ID+ LRU_POSITION+ SPACE+ PAGE_NUMBER+ PAGE_TYPE FLUSH_TYPE+ FIX_COUNT+ IS_HASHED NEWEST_MODIFICATION+ \
    OLDEST_MODIFICATION+ ACCESS_TIME+ TABLE_NAME INDEX_NAME NUMBER_RECORDS+ DATA_SIZE+ COMPRESSED_SIZE+ COMPRESSED IO_FIX IS_OLD \
    FREE_PAGE_CLOCK+";

/// Compressed pages by index.
const COMPRESSED: &str = "database_name table_name index_name compress_ops# compress_ops_ok# compress_time# uncompress_ops# uncompress_time#";

/// An index of words.
const WORDS: &str = "WORD FIRST_DOC_ID+ LAST_DOC_ID+ DOC_COUNT+ DOC_ID+ POSITION+";

/// What clients did, in MariaDB.
macro_rules! clients {
    ($name:literal) => {
        concat!(
            $name,
            " TOTAL_CONNECTIONS# CONCURRENT_CONNECTIONS# CONNECTED_TIME# BUSY_TIME CPU_TIME BYTES_RECEIVED# BYTES_SENT# \
             BINLOG_BYTES_WRITTEN# ROWS_READ# ROWS_SENT# ROWS_DELETED# ROWS_INSERTED# ROWS_UPDATED# SELECT_COMMANDS# \
             UPDATE_COMMANDS# OTHER_COMMANDS# COMMIT_TRANSACTIONS# ROLLBACK_TRANSACTIONS# DENIED_CONNECTIONS# \
             LOST_CONNECTIONS# ACCESS_DENIED# EMPTY_QUERIES# TOTAL_SSL_CONNECTIONS# MAX_STATEMENT_TIME_EXCEEDED#"
        )
    };
}

const EVENTS: &[(&str, &str)] = &[
    ("events_errors_summary_by_account_by_error", errors!("USER HOST")),
    ("events_errors_summary_by_host_by_error", errors!("HOST")),
    ("events_errors_summary_by_thread_by_error", errors!("THREAD_ID+")),
    ("events_errors_summary_by_user_by_error", errors!("USER")),
    (
        "events_stages_history_long",
        "THREAD_ID+ EVENT_ID+ END_EVENT_ID+ EVENT_NAME SOURCE TIMER_START+ TIMER_END+ TIMER_WAIT+ WORK_COMPLETED+ WORK_ESTIMATED+ \
         NESTING_EVENT_ID+ NESTING_EVENT_TYPE",
    ),
    ("events_stages_summary_by_account_by_event_name", timers!("USER HOST EVENT_NAME")),
    ("events_stages_summary_by_host_by_event_name", timers!("HOST EVENT_NAME")),
    ("events_stages_summary_by_thread_by_event_name", timers!("THREAD_ID+ EVENT_NAME")),
    ("events_stages_summary_by_user_by_event_name", timers!("USER EVENT_NAME")),
    ("events_statements_current", STATEMENT),
    ("events_statements_history", STATEMENT),
    ("events_statements_history_long", STATEMENT),
    (
        "events_statements_histogram_by_digest",
        "SCHEMA_NAME DIGEST BUCKET_NUMBER+ BUCKET_TIMER_LOW+ BUCKET_TIMER_HIGH+ COUNT_BUCKET+ COUNT_BUCKET_AND_LOWER+ BUCKET_QUANTILE",
    ),
    (
        "events_statements_histogram_global",
        "BUCKET_NUMBER+ BUCKET_TIMER_LOW+ BUCKET_TIMER_HIGH+ COUNT_BUCKET+ COUNT_BUCKET_AND_LOWER+ BUCKET_QUANTILE",
    ),
    ("events_statements_summary_by_account_by_event_name", statements!("USER HOST EVENT_NAME")),
    (
        "events_statements_summary_by_digest",
        concat!(
            statements!("SCHEMA_NAME DIGEST DIGEST_TEXT"),
            " FIRST_SEEN@ LAST_SEEN@ QUANTILE_95+ QUANTILE_99+ QUANTILE_999+ QUERY_SAMPLE_TEXT QUERY_SAMPLE_SEEN@ \
             QUERY_SAMPLE_TIMER_WAIT+"
        ),
    ),
    ("events_statements_summary_by_host_by_event_name", statements!("HOST EVENT_NAME")),
    ("events_statements_summary_by_program", statements!("OBJECT_TYPE OBJECT_SCHEMA OBJECT_NAME")),
    ("events_statements_summary_by_thread_by_event_name", statements!("THREAD_ID+ EVENT_NAME")),
    ("events_statements_summary_by_user_by_event_name", statements!("USER EVENT_NAME")),
    ("events_statements_summary_global_by_event_name", statements!("EVENT_NAME")),
    ("events_transactions_current", TRANSACTION),
    ("events_transactions_history", TRANSACTION),
    ("events_transactions_history_long", TRANSACTION),
    ("events_transactions_summary_by_account_by_event_name", transactions!("USER HOST EVENT_NAME")),
    ("events_transactions_summary_by_host_by_event_name", transactions!("HOST EVENT_NAME")),
    ("events_transactions_summary_by_thread_by_event_name", transactions!("THREAD_ID+ EVENT_NAME")),
    ("events_transactions_summary_by_user_by_event_name", transactions!("USER EVENT_NAME")),
    ("events_transactions_summary_global_by_event_name", transactions!("EVENT_NAME")),
    ("events_waits_summary_by_account_by_event_name", timers!("USER HOST EVENT_NAME")),
    ("events_waits_summary_by_host_by_event_name", timers!("HOST EVENT_NAME")),
    ("events_waits_summary_by_instance", timers!("EVENT_NAME OBJECT_INSTANCE_BEGIN+")),
    ("events_waits_summary_by_thread_by_event_name", timers!("THREAD_ID+ EVENT_NAME")),
    ("events_waits_summary_by_user_by_event_name", timers!("USER EVENT_NAME")),
    ("memory_summary_by_account_by_event_name", memory!("USER HOST EVENT_NAME")),
    ("memory_summary_by_host_by_event_name", memory!("HOST EVENT_NAME")),
    ("memory_summary_by_thread_by_event_name", memory!("THREAD_ID+ EVENT_NAME")),
    ("memory_summary_by_user_by_event_name", memory!("USER EVENT_NAME")),
    ("memory_summary_global_by_event_name", memory!("EVENT_NAME")),
    ("socket_summary_by_event_name", sockets!("EVENT_NAME")),
    ("socket_summary_by_instance", sockets!("EVENT_NAME OBJECT_INSTANCE_BEGIN+")),
];

const OBJECTS: &[(&str, &str)] = &[
    (
        "binary_log_transaction_compression_stats",
        "LOG_TYPE COMPRESSION_TYPE TRANSACTION_COUNTER+ COMPRESSED_BYTES_COUNTER+ UNCOMPRESSED_BYTES_COUNTER+ COMPRESSION_PERCENTAGE#",
    ),
    (
        "clone_progress",
        "ID# STAGE STATE BEGIN_TIME@ END_TIME@ THREADS# ESTIMATE# DATA# NETWORK# DATA_SPEED# NETWORK_SPEED#",
    ),
    (
        "clone_status",
        "ID# PID# STATE BEGIN_TIME@ END_TIME@ SOURCE DESTINATION ERROR_NO# ERROR_MESSAGE BINLOG_FILE BINLOG_POSITION# GTID_EXECUTED",
    ),
    ("component_scheduler_tasks", "NAME STATUS COMMENT INTERVAL_SECONDS+ TIMES_RUN+ TIMES_FAILED+"),
    ("cond_instances", "NAME OBJECT_INSTANCE_BEGIN+"),
    ("innodb_redo_log_files", "FILE_ID# FILE_NAME START_LSN# END_LSN# SIZE_IN_BYTES# IS_FULL# CONSUMER_LEVEL#"),
    ("performance_timers", "TIMER_NAME TIMER_FREQUENCY# TIMER_RESOLUTION# TIMER_OVERHEAD#"),
    ("replication_applier_filters", "CHANNEL_NAME FILTER_NAME FILTER_RULE CONFIGURED_BY ACTIVE_SINCE@ COUNTER+"),
    ("replication_applier_global_filters", "FILTER_NAME FILTER_RULE CONFIGURED_BY ACTIVE_SINCE@"),
    ("replication_asynchronous_connection_failover", "CHANNEL_NAME HOST PORT# NETWORK_NAMESPACE WEIGHT+ MANAGED_NAME"),
    ("rwlock_instances", "NAME OBJECT_INSTANCE_BEGIN+ WRITE_LOCKED_BY_THREAD_ID+ READ_LOCKED_BY_COUNT+"),
    ("setup_meters", "NAME FREQUENCY# ENABLED DESCRIPTION"),
    ("setup_metrics", "NAME METER METRIC_TYPE NUM_TYPE UNIT DESCRIPTION"),
    ("setup_timers", "NAME TIMER_NAME"),
    ("status_by_account", "USER HOST VARIABLE_NAME VARIABLE_VALUE"),
    ("status_by_host", "HOST VARIABLE_NAME VARIABLE_VALUE"),
    ("status_by_user", "USER VARIABLE_NAME VARIABLE_VALUE"),
    (
        "table_handles",
        "OBJECT_TYPE OBJECT_SCHEMA OBJECT_NAME OBJECT_INSTANCE_BEGIN+ OWNER_THREAD_ID+ OWNER_EVENT_ID+ INTERNAL_LOCK EXTERNAL_LOCK",
    ),
    (
        "table_io_waits_summary_by_index_usage",
        accesses!("OBJECT_TYPE OBJECT_SCHEMA OBJECT_NAME INDEX_NAME" "READ" "WRITE" "FETCH" "INSERT" "UPDATE" "DELETE"),
    ),
    (
        "table_io_waits_summary_by_table",
        accesses!("OBJECT_TYPE OBJECT_SCHEMA OBJECT_NAME" "READ" "WRITE" "FETCH" "INSERT" "UPDATE" "DELETE"),
    ),
    (
        "table_lock_waits_summary_by_table",
        accesses!(
            "OBJECT_TYPE OBJECT_SCHEMA OBJECT_NAME" "READ" "WRITE" "READ_NORMAL" "READ_WITH_SHARED_LOCKS"
            "READ_HIGH_PRIORITY" "READ_NO_INSERT" "READ_EXTERNAL" "WRITE_ALLOW_WRITE" "WRITE_CONCURRENT_INSERT"
            "WRITE_LOW_PRIORITY" "WRITE_NORMAL" "WRITE_EXTERNAL"
        ),
    ),
    ("tls_channel_status", "CHANNEL PROPERTY VALUE"),
    ("user_defined_functions", "UDF_NAME UDF_RETURN_TYPE UDF_TYPE UDF_LIBRARY UDF_USAGE_COUNT#"),
    ("variables_metadata", "VARIABLE_NAME VARIABLE_SCOPE DATA_TYPE MIN_VALUE MAX_VALUE DOCUMENTATION"),
];

const INFORMATION: &[(&str, &str)] = &[
    (
        "all_plugins",
        "PLUGIN_NAME PLUGIN_VERSION PLUGIN_STATUS PLUGIN_TYPE PLUGIN_TYPE_VERSION PLUGIN_LIBRARY PLUGIN_LIBRARY_VERSION \
         PLUGIN_AUTHOR PLUGIN_DESCRIPTION PLUGIN_LICENSE LOAD_OPTION PLUGIN_MATURITY PLUGIN_AUTH_VERSION",
    ),
    ("client_statistics", clients!("CLIENT")),
    (
        "geometry_columns",
        "F_TABLE_CATALOG F_TABLE_SCHEMA F_TABLE_NAME F_GEOMETRY_COLUMN G_TABLE_CATALOG G_TABLE_SCHEMA G_TABLE_NAME \
         G_GEOMETRY_COLUMN STORAGE_TYPE# GEOMETRY_TYPE# COORD_DIMENSION# MAX_PPR# SRID#",
    ),
    ("index_statistics", "TABLE_SCHEMA TABLE_NAME INDEX_NAME ROWS_READ# QUERIES#"),
    ("innodb_buffer_page_lru", PAGE),
    ("innodb_cached_indexes", "SPACE_ID+ INDEX_ID+ N_CACHED_PAGES+"),
    ("innodb_cmp_per_index", COMPRESSED),
    ("innodb_cmp_per_index_reset", COMPRESSED),
    ("innodb_cmp_reset", "page_size# compress_ops# compress_ops_ok# compress_time# uncompress_ops# uncompress_time#"),
    (
        "innodb_cmpmem_reset",
        "page_size# buffer_pool_instance# pages_used# pages_free# relocation_ops# relocation_time#",
    ),
    ("innodb_ft_being_deleted", "DOC_ID+"),
    ("innodb_ft_config", "KEY VALUE"),
    ("innodb_ft_default_stopword", "value"),
    ("innodb_ft_deleted", "DOC_ID+"),
    ("innodb_ft_index_cache", WORDS),
    ("innodb_ft_index_table", WORDS),
    ("innodb_session_temp_tablespaces", "ID+ SPACE+ PATH SIZE+ STATE PURPOSE"),
    ("innodb_sys_virtual", "TABLE_ID+ POS+ BASE_POS+"),
    ("innodb_tablespaces_brief", "SPACE NAME PATH FLAG SPACE_TYPE"),
    ("innodb_virtual", "TABLE_ID+ POS+ BASE_POS+"),
    (
        "key_caches",
        "KEY_CACHE_NAME SEGMENTS+ SEGMENT_NUMBER+ FULL_SIZE# BLOCK_SIZE# USED_BLOCKS+ UNUSED_BLOCKS+ DIRTY_BLOCKS+ \
         READ_REQUESTS+ READS+ WRITE_REQUESTS+ WRITES+",
    ),
    ("spatial_ref_sys", "SRID# AUTH_NAME AUTH_SRID# SRTEXT"),
    ("user_statistics", clients!("USER")),
];

const OF_MYSQL: &[(&str, &str)] = &[(
    "replication_asynchronous_connection_failover",
    "Channel_name Host Port+ Network_namespace Weight+ Managed_name",
)];

/// All of these tables.
pub(super) fn tables() -> impl Iterator<Item = Brief> {
    let of = |database: &'static str, all: &'static [(&'static str, &'static str)]| {
        all.iter().map(move |(name, head)| (database, *name, *head, Rows::None))
    };
    of(PERFORMANCE_SCHEMA, EVENTS)
        .chain(of(PERFORMANCE_SCHEMA, OBJECTS))
        .chain(of(INFORMATION_SCHEMA, INFORMATION))
        .chain(of(MYSQL, OF_MYSQL))
}
