//! Every variable that dipper knows, in one table: SET checks against it, SHOW VARIABLES lists it, and reads answer
//! from it.
//!
//! Names and defaults are those of MySQL 5.7/8.0, Doris 3 and StarRocks, as clients read them. If the three differ,
//! Doris's counts.

use std::collections::HashMap;
use std::sync::LazyLock;

use dipper_text::hive::EXTENDED_BOOLEAN;

use super::of_consoles::OF_CONSOLES;
use super::of_mysql::OF_MYSQL;

/// The type of a variable: the values that it takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// MySQL's boolean, shown as ON and OFF.
    OnOff,
    /// Doris's boolean, shown as true and false.
    TrueFalse,
    /// An integer, both ends included.
    Int(i64, i64),
    /// One of these words, in any case.
    OneOf(&'static [&'static str]),
    /// Any text.
    Text,
    /// A version: two numbers with a point between them, and whatever follows.
    Version,
    /// Seconds since 1970, perhaps with a fraction.
    Instant,
    /// Seconds, perhaps with a fraction.
    Seconds,
    /// Flags of `sql_mode`.
    SqlMode,
    /// `SYSTEM`, an offset, or an IANA name.
    TimeZone,
    /// A character set; NULL where the flag is true.
    Charset(bool),
    /// A collation.
    Collation,
}

/// The scopes in which SET may name a variable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Settable {
    /// SESSION and GLOBAL.
    Both,
    /// GLOBAL only.
    Global,
    /// SESSION only.
    Session,
    /// Nobody.
    Never,
}

/// The effect of setting a variable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// The value changes what dipper does.
    Acts,
    /// Clients set the value and read it back. There is nothing else to do, or dipper does what it asks for anyway.
    Echo,
    /// The variable controls something that dipper does not have; SET says so in a note.
    Inert,
}

/// One variable.
#[derive(Debug, Clone, Copy)]
pub struct Definition {
    /// The name in lower case.
    pub name: &'static str,
    /// The value if nobody sets another, in the spelling of SHOW VARIABLES.
    pub default: &'static str,
    /// The values that SET takes.
    pub kind: Kind,
    /// The scopes in which SET may name the variable.
    pub settable: Settable,
    /// The effect of the value.
    pub effect: Effect,
    /// The meaning of the variable in dipper, in one line.
    pub doc: &'static str,
}

/// A definition of any kind.
pub(crate) const fn define(
    name: &'static str,
    default: &'static str,
    kind: Kind,
    settable: Settable,
    effect: Effect,
    doc: &'static str,
) -> Definition {
    Definition { name, default, kind, settable, effect, doc }
}

/// Defines a variable that changes what dipper does, in both scopes.
const fn acts(name: &'static str, default: &'static str, kind: Kind, doc: &'static str) -> Definition {
    define(name, default, kind, Settable::Both, Effect::Acts, doc)
}

/// Defines a variable that clients set and read back, in both scopes.
pub(crate) const fn echo(name: &'static str, default: &'static str, kind: Kind, doc: &'static str) -> Definition {
    define(name, default, kind, Settable::Both, Effect::Echo, doc)
}

/// Defines a variable that is stored without effect, in both scopes.
pub(crate) const fn inert(name: &'static str, default: &'static str, kind: Kind) -> Definition {
    define(name, default, kind, Settable::Both, Effect::Inert, "stored and shown, without effect here")
}

/// Defines a fact about this server.
pub(crate) const fn fact(name: &'static str, value: &'static str, kind: Kind, doc: &'static str) -> Definition {
    define(name, value, kind, Settable::Never, Effect::Echo, doc)
}

use Kind::{Charset, Collation, Int, OnOff, OneOf, SqlMode, Text, TimeZone, TrueFalse};

const SECONDS: Kind = Int(1, 31_536_000);
const ANY: Kind = Int(i64::MIN, i64::MAX);
pub(crate) const COUNT: Kind = Int(0, i64::MAX);
/// A number of rows; -1 for no limit.
const LIMIT: Kind = Int(-1, i64::MAX);
/// The longest `query_timeout`, in seconds.
pub const QUERY_TIMEOUT_MAX: u64 = 2_147_483;
const ISOLATION: Kind = OneOf(&["READ-UNCOMMITTED", "READ-COMMITTED", "REPEATABLE-READ", "SERIALIZABLE"]);

/// The version of MySQL by which drivers choose their behaviour; the greeting of the MySQL port names the same.
pub const SERVER_VERSION: &str = "5.7.99";

/// Names that stand for another variable: a value that is set under one is read under both.
pub const ALIASES: &[(&str, &str)] = &[
    ("schema_force_view_types", "schema_force_string_view"),
    ("datafusion.execution.parquet.schema_force_string_view", "schema_force_string_view"),
    ("datafusion.execution.parquet.schema_force_view_types", "schema_force_string_view"),
    ("tx_isolation", "transaction_isolation"),
    ("tx_read_only", "transaction_read_only"),
    ("storage_engine", "default_storage_engine"),
    ("identity", "last_insert_id"),
    ("qe_max_connection", "max_connections"),
    ("max_statement_time", "query_timeout"),
    ("enable_file_cache", "enable_scan_datacache"),
    ("experimental_enable_nereids_planner", "enable_nereids_planner"),
    ("experimental_enable_pipeline_engine", "enable_pipeline_engine"),
    ("experimental_enable_pipeline_x_engine", "enable_pipeline_x_engine"),
    ("pipeline_dop", "parallel_pipeline_task_num"),
    ("parallel_fragment_exec_instance_num", "parallel_pipeline_task_num"),
];

/// The variables that act.
const ACTING: &[Definition] = &[
    acts("autocommit", "ON", OnOff, "each statement is its own transaction"),
    acts(
        "sql_mode",
        "ONLY_FULL_GROUP_BY",
        SqlMode,
        "ANSI_QUOTES, PIPES_AS_CONCAT, NO_BACKSLASH_ESCAPES and HIGH_NOT_PRECEDENCE change how text reads; without \
         ONLY_FULL_GROUP_BY a column that is no key of GROUP BY is that of any row",
    ),
    acts(
        "populate_datacache_mode",
        "auto",
        OneOf(&["auto", "always", "never"]),
        "what the data cache keeps; auto: of scans above a tenth of it, what they miss for the second time",
    ),
    define(
        "query_queue_concurrency_limit",
        "0",
        COUNT,
        Settable::Global,
        Effect::Acts,
        "statements that read tables at once, the others wait; 0 = eight for each query thread",
    ),
    define(
        "query_queue_max_queued_queries",
        "1024",
        COUNT,
        Settable::Global,
        Effect::Acts,
        "statements that may wait for their turn; one more is refused",
    ),
    define(
        "query_queue_pending_timeout_second",
        "300",
        SECONDS,
        Settable::Global,
        Effect::Acts,
        "seconds that a statement waits for its turn",
    ),
    acts("query_timeout", "900", Int(0, QUERY_TIMEOUT_MAX as i64), "seconds that a statement may run; 0 = no limit"),
    acts(
        "max_execution_time",
        "0",
        Int(0, 2_147_483_647),
        "milliseconds that a statement may run; a value above 0 replaces query_timeout",
    ),
    define(
        "max_connections",
        "10000",
        Int(1, 1_000_000),
        Settable::Global,
        Effect::Acts,
        "connections that may be open at once; what the server was started with",
    ),
    define(
        "max_prepared_stmt_count",
        "100000",
        Int(0, 4_194_304),
        Settable::Global,
        Effect::Acts,
        "statements that all sessions together may have prepared",
    ),
    define(
        "max_user_connections",
        "0",
        Int(0, 1_000_000),
        Settable::Global,
        Effect::Acts,
        "connections that each user may have, unless its property says otherwise; 0 = no limit",
    ),
    acts(
        "enable_lake_tablet_internal_parallel",
        "true",
        TrueFalse,
        "tablets on object storage are split among workers and read by many requests at once; false = one worker and \
         one request of at most 4 MiB a tablet",
    ),
    acts(
        "enable_tablet_internal_parallel",
        "true",
        TrueFalse,
        "tablets on local disk are split among workers, too; false = one worker a tablet",
    ),
    acts(
        "tablet_internal_parallel_mode",
        "auto",
        OneOf(&["auto", "force_split"]),
        "auto = tablets on local disk are split where there are too few for all workers; force_split = always",
    ),
    acts(
        "profile_cents_per_million_requests",
        "40",
        Int(0, 1_000_000_000),
        "price by which EXPLAIN ANALYZE says what a query's requests to object storage cost",
    ),
    acts(
        EXTENDED_BOOLEAN,
        "false",
        TrueFalse,
        "t, f, 1 and 0 are values of BOOLEAN columns of Hive text; a table's property goes before it",
    ),
    acts(
        "enable_radix_aggregation",
        "false",
        TrueFalse,
        "GROUP BY runs in dipper's own operator where that has the types of all keys and aggregates; false = in \
         DataFusion's",
    ),
    acts(
        "radix_aggregation_table_groups",
        "0",
        Int(0, 1 << 24),
        "groups in a worker's table of GROUP BY before they go to partitions; 0 = as many as fit in the cache",
    ),
    acts(
        "runtime_filter_mode",
        "GLOBAL",
        OneOf(&["OFF", "LOCAL", "REMOTE", "GLOBAL"]),
        "OFF = joins give no filters to the scans of their larger side; others = they do",
    ),
    acts("parallel_pipeline_task_num", "0", Int(0, 4096), "workers of a query; 0 = one per core"),
    acts(
        "schema_force_string_view",
        "true",
        TrueFalse,
        "strings are read as views into the file's bytes; false = as copies",
    ),
    acts("time_zone", "SYSTEM", TimeZone, "zone of now(), from_unixtime() and the like"),
    define(
        "timestamp",
        "0",
        Kind::Instant,
        Settable::Session,
        Effect::Acts,
        "the time that now() and the like say, in seconds since 1970 UTC; 0 = that of the clock",
    ),
];

/// Variables of connections and transactions.
const CONNECTION: &[Definition] = &[
    echo("auto_increment_increment", "1", Int(1, 65535), "step of generated keys"),
    echo("auto_increment_offset", "1", Int(1, 65535), "start of generated keys"),
    echo("big_tables", "OFF", OnOff, "temporary tables on disk; spilling needs no setting here"),
    echo("character_set_client", "utf8mb4", Charset(false), "how the client writes statements; always UTF-8"),
    echo("character_set_connection", "utf8mb4", Charset(false), "how literals are taken; always UTF-8"),
    echo("character_set_database", "utf8mb4", Charset(false), "how text is stored; always UTF-8"),
    echo("character_set_filesystem", "binary", Charset(false), "how file names are taken: as bytes"),
    echo("character_set_results", "utf8mb4", Charset(true), "how results are sent; always UTF-8"),
    echo("character_set_server", "utf8mb4", Charset(false), "how text is stored; always UTF-8"),
    fact("character_set_system", "utf8mb4", Text, "how names are stored"),
    fact("character_sets_dir", "", Text, "character sets are built in"),
    echo("collation_connection", "utf8mb4_0900_bin", Collation, "order of literals; always binary"),
    echo("collation_database", "utf8mb4_0900_bin", Collation, "order of stored text; always binary"),
    echo("collation_server", "utf8mb4_0900_bin", Collation, "order of stored text; always binary"),
    echo("completion_type", "NO_CHAIN", OneOf(&["NO_CHAIN", "CHAIN", "RELEASE"]), "what COMMIT does after itself"),
    define("connect_timeout", "10", SECONDS, Settable::Global, Effect::Inert, "seconds that a login may take"),
    echo("default_storage_engine", "OLAP", Text, "ENGINE of tables that name none"),
    echo("default_tmp_storage_engine", "OLAP", Text, "ENGINE of temporary tables that name none"),
    echo("default_week_format", "0", Int(0, 7), "mode of WEEK() without one"),
    fact("default_authentication_plugin", "caching_sha2_password", Text, "how clients log in"),
    echo("foreign_key_checks", "ON", OnOff, "there are no foreign keys to check"),
    inert("group_concat_max_len", "1024", Int(4, i64::MAX)),
    fact("have_compress", "YES", Text, "compressed connections"),
    fact("have_dynamic_loading", "NO", Text, "plugins"),
    fact("have_profiling", "NO", Text, "SET profiling"),
    fact("have_query_cache", "NO", Text, "query cache"),
    fact("have_rtree_keys", "NO", Text, "spatial keys"),
    fact("have_openssl", "YES", Text, "TLS is offered"),
    fact("have_ssl", "YES", Text, "TLS is offered"),
    fact("have_symlink", "NO", Text, "symbolic links to tables"),
    fact("gtid_mode", "OFF", Text, "there is no binary log"),
    fact("hostname", "", Text, "name of this machine"),
    define("init_connect", "", Text, Settable::Global, Effect::Inert, "statements that run at login"),
    fact("init_file", "", Text, "statements that run at start"),
    echo("innodb_lock_wait_timeout", "50", Int(1, 1_073_741_824), "nothing waits for row locks"),
    fact("innodb_version", "", Text, "there is no InnoDB"),
    echo("interactive_timeout", "28800", SECONDS, "seconds that an interactive connection may idle"),
    define("last_insert_id", "0", COUNT, Settable::Session, Effect::Echo, "last generated key"),
    echo("lc_messages", "en_US", Text, "language of messages"),
    echo("lc_time_names", "en_US", Text, "language of month names"),
    fact("license", "Apache-2.0", Text, "licence of this server"),
    define("local_infile", "ON", OnOff, Settable::Never, Effect::Echo, "LOAD DATA LOCAL is taken"),
    echo("lock_wait_timeout", "31536000", COUNT, "nothing waits for metadata locks"),
    define("log_bin", "OFF", OnOff, Settable::Never, Effect::Echo, "there is no binary log"),
    fact("lower_case_file_system", "OFF", OnOff, "file names are case-sensitive"),
    fact("lower_case_table_names", "0", ANY, "table names are case-sensitive"),
    echo("max_allowed_packet", "67108864", Int(1024, 1_073_741_824), "bytes of the longest statement or row"),
    inert("max_error_count", "1024", Int(0, 65535)),
    inert("max_heap_table_size", "16777216", COUNT),
    inert("max_join_size", "9223372036854775807", COUNT),
    inert("max_sort_length", "1024", COUNT),
    echo("net_buffer_length", "16384", Int(1024, 1_048_576), "bytes of a connection's buffer at first"),
    echo("net_read_timeout", "60", SECONDS, "seconds to wait for the rest of a packet"),
    echo("net_write_timeout", "600", SECONDS, "seconds to wait for a client that takes no rows"),
    echo("optimizer_switch", "", Text, "MySQL's optimiser"),
    inert("optimizer_search_depth", "62", COUNT),
    fact("performance_schema", "OFF", OnOff, "there is no performance_schema"),
    fact("basedir", "", Text, "nothing is installed beside the binary"),
    fact("datadir", "", Text, "see --data"),
    fact("socket", "", Text, "there is no local socket"),
    fact("pid_file", "", Text, "no file tells the process's number"),
    fact("plugin_dir", "", Text, "there are no plugins"),
    inert("profiling", "OFF", OnOff),
    inert("profiling_history_size", "15", COUNT),
    fact("protocol_version", "10", ANY, "version of the MySQL protocol"),
    echo("query_cache_limit", "0", COUNT, "there is no query cache"),
    echo("query_cache_min_res_unit", "0", COUNT, "there is no query cache"),
    echo("query_cache_size", "0", COUNT, "there is no query cache"),
    echo("query_cache_type", "OFF", OneOf(&["OFF", "ON", "DEMAND", "0", "1", "2"]), "there is no query cache"),
    define("read_only", "OFF", OnOff, Settable::Never, Effect::Echo, "whether writes are refused"),
    fact("secure_file_priv", "NULL", Text, "see --allow-dir"),
    fact("server_id", "1", COUNT, "number of this server among its replicas"),
    inert("session_track_gtids", "OFF", Text),
    inert("session_track_schema", "ON", OnOff),
    inert("session_track_state_change", "OFF", OnOff),
    inert("session_track_system_variables", "", Text),
    inert("session_track_transaction_info", "OFF", Text),
    define("skip_networking", "OFF", OnOff, Settable::Never, Effect::Echo, "whether only local sockets are served"),
    define("slow_query_log", "OFF", OnOff, Settable::Global, Effect::Inert, "log of slow statements"),
    echo("sql_auto_is_null", "OFF", OnOff, "IS NULL never stands for the last key"),
    inert("sql_big_selects", "ON", OnOff),
    inert("sql_buffer_result", "OFF", OnOff),
    inert("sql_log_bin", "ON", OnOff),
    echo("sql_notes", "ON", OnOff, "whether notes are kept"),
    echo("sql_quote_show_create", "ON", OnOff, "names in SHOW CREATE are quoted where they need it"),
    fact("server_uuid", "", Text, "there is no replication"),
    inert("sql_safe_updates", "OFF", OnOff),
    inert("super_read_only", "OFF", OnOff),
    acts(
        "sql_select_limit",
        "9223372036854775807",
        LIMIT,
        "most rows of a SELECT that has no LIMIT of its own; -1 = no limit",
    ),
    echo("sql_warnings", "OFF", OnOff, "whether single-row inserts count warnings"),
    fact("ssl_ca", "", Text, "see the server's TLS flags"),
    fact("system_time_zone", "", Text, "zone of this process"),
    inert("table_open_cache", "2000", COUNT),
    inert("thread_cache_size", "0", COUNT),
    fact("tmpdir", "", Text, "see the server's --spill-dir"),
    inert("tmp_table_size", "16777216", COUNT),
    echo("transaction_isolation", "REPEATABLE-READ", ISOLATION, "each statement reads one snapshot, whatever is set"),
    inert("transaction_read_only", "OFF", OnOff),
    echo("unique_checks", "ON", OnOff, "there are no secondary unique keys to check"),
    inert("updatable_views_with_limit", "YES", Text),
    define(
        "version",
        SERVER_VERSION,
        Kind::Version,
        Settable::Global,
        Effect::Acts,
        "version of MySQL that VERSION() and the greeting of new connections name; clients choose their ways by it",
    ),
    fact("version_comment", concat!("dipper version ", env!("CARGO_PKG_VERSION")), Text, "which server this is"),
    fact("version_compile_machine", std::env::consts::ARCH, Text, "processor"),
    fact("version_compile_os", std::env::consts::OS, Text, "operating system"),
    echo("wait_timeout", "28800", SECONDS, "seconds that a connection may idle"),
    echo("event_scheduler", "OFF", OneOf(&["OFF", "ON", "DISABLED", "0", "1"]), "there are no events"),
    echo("explicit_defaults_for_timestamp", "ON", OnOff, "TIMESTAMP columns have no hidden defaults"),
    inert("div_precision_increment", "4", Int(0, 30)),
    echo("windowing_use_high_precision", "ON", OnOff, "window functions are exact"),
];

/// Session variables of Doris and StarRocks. Scripts set them; most control something that dipper does not have.
const FOREIGN: &[Definition] = &[
    inert("analyze_timeout", "43200", COUNT),
    inert("auto_broadcast_join_threshold", "0.8", Text),
    inert("auto_profile_threshold_ms", "-1", ANY),
    inert("batch_size", "8192", COUNT),
    inert("big_query_profile_threshold", "30s", Text),
    inert("broadcast_row_count_limit", "30000000", COUNT),
    define("catalog", "internal", Text, Settable::Session, Effect::Acts, "the selected catalog, as of SET CATALOG"),
    inert("cbo_enable_low_cardinality_optimize", "true", TrueFalse),
    inert("check_overflow_for_decimal", "true", TrueFalse),
    inert("codegen_level", "0", COUNT),
    inert("cpu_resource_limit", "-1", ANY),
    inert("debug_skip_fold_constant", "false", TrueFalse),
    acts(
        "default_order_by_limit",
        "-1",
        LIMIT,
        "most rows of a SELECT with ORDER BY that has no LIMIT of its own; -1 = no limit",
    ),
    inert("default_rowset_type", "beta", Text),
    inert("default_table_compression", "zstd", Text),
    inert("delete_without_partition", "true", TrueFalse),
    inert("disable_colocate_join", "false", TrueFalse),
    inert("disable_colocate_plan", "false", TrueFalse),
    acts("disable_file_cache", "false", TrueFalse, "scans do not use the data cache"),
    inert("disable_join_reorder", "false", TrueFalse),
    inert("disable_nereids_rules", "", Text),
    inert("disable_streaming_preaggregations", "false", TrueFalse),
    inert("drop_table_if_ctas_failed", "true", TrueFalse),
    inert("dry_run_query", "false", TrueFalse),
    inert("enable_adaptive_pipeline_task_serial_read_on_limit", "true", TrueFalse),
    inert("enable_adaptive_sink_dop", "true", TrueFalse),
    inert("enable_agg_state", "false", TrueFalse),
    inert("enable_bucket_shuffle_join", "true", TrueFalse),
    inert("enable_bushy_tree", "false", TrueFalse),
    inert("enable_cbo_statistics", "true", TrueFalse),
    inert("enable_common_expr_pushdown", "true", TrueFalse),
    inert("enable_cost_based_join_reorder", "false", TrueFalse),
    inert("enable_count_on_index_pushdown", "true", TrueFalse),
    inert("enable_decimal256", "true", TrueFalse),
    inert("enable_distinct_streaming_aggregation", "true", TrueFalse),
    inert("enable_dml_materialized_view_rewrite", "true", TrueFalse),
    inert("enable_exchange_node_parallel_merge", "false", TrueFalse),
    inert("enable_fallback_to_original_planner", "false", TrueFalse),
    acts(
        "enable_datacache_async_populate_mode",
        "true",
        TrueFalse,
        "what a scan missed is written to the data cache while the scan goes on; false = the scan waits for the write",
    ),
    inert("enable_filter_unused_columns_in_scan_stage", "true", TrueFalse),
    inert("enable_fold_constant_by_be", "true", TrueFalse),
    inert("enable_function_pushdown", "false", TrueFalse),
    inert("enable_group_execution", "true", TrueFalse),
    inert("enable_hyperscan_vec", "true", TrueFalse),
    inert("enable_infer_predicate", "true", TrueFalse),
    acts("enable_insert_strict", "true", TrueFalse, "INSERT refuses values that do not fit; else they become NULL"),
    inert("enable_inverted_index_query", "true", TrueFalse),
    inert("enable_local_exchange", "true", TrueFalse),
    inert("enable_local_shuffle", "true", TrueFalse),
    inert("enable_local_shuffle_agg", "true", TrueFalse),
    inert("enable_materialized_view_rewrite", "true", TrueFalse),
    inert("enable_memtable_on_sink_node", "true", TrueFalse),
    inert("enable_multilane", "true", TrueFalse),
    inert("enable_nereids_dml", "true", TrueFalse),
    inert("enable_nereids_planner", "true", TrueFalse),
    inert("enable_nereids_timeout", "true", TrueFalse),
    inert("enable_no_need_read_data_opt", "true", TrueFalse),
    inert("enable_odbc_transcation", "false", TrueFalse),
    inert("enable_page_cache", "true", TrueFalse),
    inert("enable_parallel_outfile", "false", TrueFalse),
    inert("enable_parallel_result_sink", "false", TrueFalse),
    inert("enable_parallel_scan", "true", TrueFalse),
    inert("enable_partition_cache", "false", TrueFalse),
    inert("enable_partition_topn", "true", TrueFalse),
    inert("enable_pipeline_engine", "true", TrueFalse),
    inert("enable_pipeline_x_engine", "true", TrueFalse),
    inert("enable_populate_block_cache", "true", TrueFalse),
    acts("enable_profile", "true", TrueFalse, "statements leave a profile: SHOW QUERY PROFILE"),
    inert("enable_projection", "true", TrueFalse),
    inert("enable_prune_complex_types", "true", TrueFalse),
    inert("enable_push_down_no_group_agg", "true", TrueFalse),
    inert("enable_pushdown_minmax_on_unique", "false", TrueFalse),
    inert("enable_query_cache", "false", TrueFalse),
    inert("enable_query_memory_overcommit", "true", TrueFalse),
    inert("enable_query_queue", "true", TrueFalse),
    inert("enable_query_queue_select", "false", TrueFalse),
    inert("enable_rbo_table_prune", "false", TrueFalse),
    inert("enable_reserve_memory", "true", TrueFalse),
    inert("enable_rewrite_groupingsets_to_union_all", "false", TrueFalse),
    inert("enable_rewrite_sum_by_associative_rule", "true", TrueFalse),
    inert("enable_runtime_filter_partition_prune", "true", TrueFalse),
    inert("enable_runtime_filter_prune", "true", TrueFalse),
    acts(
        "enable_populate_datacache",
        "true",
        TrueFalse,
        "what a scan misses is kept in the data cache, as populate_datacache_mode says",
    ),
    acts("enable_scan_datacache", "true", TrueFalse, "scans of remote data use the data cache"),
    inert("enable_segment_cache", "true", TrueFalse),
    inert("enable_server_side_prepared_statement", "true", TrueFalse),
    inert("enable_share_hash_table_for_broadcast_join", "true", TrueFalse),
    inert("enable_shared_scan", "false", TrueFalse),
    inert("enable_short_circuit", "false", TrueFalse),
    acts(
        "enable_short_circuit_query",
        "true",
        TrueFalse,
        "queries for rows by their whole key are looked up, not scanned",
    ),
    acts(
        "enable_short_circuit_query_access_column_store",
        "true",
        TrueFalse,
        "look-ups read columns that the row store lacks from the column store",
    ),
    inert("enable_single_distinct_column_opt", "false", TrueFalse),
    inert("enable_single_replica_insert", "false", TrueFalse),
    inert("enable_sort_aggregate", "false", TrueFalse),
    inert("enable_spill", "true", TrueFalse),
    inert("enable_sql_cache", "false", TrueFalse),
    inert("enable_stats", "true", TrueFalse),
    acts(
        "enable_strict_cast",
        "false",
        TrueFalse,
        "a CAST of a value that does not convert is an error instead of NULL; TRY_CAST gives NULL",
    ),
    inert("enable_strict_consistency_dml", "true", TrueFalse),
    inert("enable_strong_consistency_read", "true", TrueFalse),
    inert("enable_sync_runtime_filter_size", "true", TrueFalse),
    inert("enable_topn_lazy_materialization", "true", TrueFalse),
    inert("enable_two_phase_read_opt", "true", TrueFalse),
    inert("enable_unicode_name_support", "true", TrueFalse),
    inert("enable_unified_load", "false", TrueFalse),
    acts(
        "enable_unique_key_partial_update",
        "false",
        TrueFalse,
        "INSERT that names some columns of a UNIQUE table keeps the others of rows that are there",
    ),
    inert("enable_vectorized_engine", "true", TrueFalse),
    inert("enable_view_based_mv_rewrite", "false", TrueFalse),
    inert("enable_wildcard_path_rewrite", "true", TrueFalse),
    inert("exec_mem_limit", "0", COUNT),
    inert("external_agg_bytes_threshold", "0", COUNT),
    inert("external_sort_bytes_threshold", "0", COUNT),
    inert("external_table_analyze_part_num", "0", ANY),
    inert("external_table_auto_analyze", "true", TrueFalse),
    inert("fetch_splits_max_wait_time_ms", "1000", COUNT),
    inert("fe_process_uuid", "0", ANY),
    inert("file_cache_base_path", "random", Text),
    inert("file_split_size", "0", COUNT),
    inert("fold_constant_by_be_level", "0", COUNT),
    inert("force_jni_scanner", "false", TrueFalse),
    inert("forward_to_master", "true", TrueFalse),
    inert("fragment_transmission_compression_codec", "none", Text),
    inert("full_auto_analyze_start_time", "00:00:00", Text),
    inert("full_auto_analyze_end_time", "23:59:59", Text),
    inert("global_partition_topn_threshold", "100", Text),
    inert("group_by_and_having_use_alias_first", "false", TrueFalse),
    acts(
        "group_commit",
        "off_mode",
        OneOf(&["off_mode", "sync_mode", "async_mode"]),
        "INSERT ... VALUES shares its commit with others that wait at the same time; sync_mode waits for more as long as the table's group_commit_interval_ms says",
    ),
    inert("group_concurrency_limit", "-1", ANY),
    inert("hive_orc_use_column_names", "true", TrueFalse),
    inert("hive_parquet_use_column_names", "true", TrueFalse),
    inert("hive_text_compression", "uncompressed", Text),
    inert("huge_table_auto_analyze_interval_in_millis", "0", COUNT),
    inert("ignore_storage_data_distribution", "true", TrueFalse),
    inert("inline_cte_referenced_threshold", "1", COUNT),
    acts(
        "insert_max_filter_ratio",
        "1.0",
        Text,
        "share of rows that INSERT may leave out when enable_insert_strict is off",
    ),
    inert("insert_timeout", "14400", COUNT),
    inert("insert_visible_timeout_ms", "60000", COUNT),
    inert("inverted_index_conjunction_opt_threshold", "1000", COUNT),
    inert("inverted_index_max_expansions", "50", COUNT),
    inert("inverted_index_skip_threshold", "50", COUNT),
    inert("io_task_executor_max_concurrency", "0", COUNT),
    inert("jdbc_clickhouse_query_final", "false", TrueFalse),
    inert("keep_carriage_return", "false", TrueFalse),
    inert("limit_rows_for_single_instance", "10000", COUNT),
    inert("load_mem_limit", "0", COUNT),
    inert("load_stream_per_node", "2", COUNT),
    inert("load_to_single_tablet", "false", TrueFalse),
    inert("loading_parallelism", "1", ANY),
    inert("materialized_view_rewrite_duration_threshold_ms", "0", COUNT),
    inert("materialized_view_rewrite_enable_contain_external_table", "false", TrueFalse),
    inert("max_fetch_remote_schema_tablet_count", "512", COUNT),
    inert("max_file_scanners_concurrency", "16", ANY),
    inert("max_filter_ratio", "0", Text),
    inert("max_instance_num", "64", COUNT),
    inert("max_join_number_bushy_tree", "8", COUNT),
    inert("max_join_number_of_reorder", "63", COUNT),
    inert("max_pushdown_conditions_per_column", "1024", ANY),
    inert("max_scan_key_num", "48", ANY),
    inert("max_scanners_concurrency", "0", ANY),
    inert("max_table_count_use_cascades_join_reorder", "10", COUNT),
    inert("mem_limit", "80%", Text),
    inert("memo_max_group_expression_size", "10000", COUNT),
    inert("min_scan_scheduler_concurrency", "0", ANY),
    inert("minimum_operator_memory_required_kb", "1000", COUNT),
    inert("mysql_row_binary_format", "false", TrueFalse),
    inert("need_connect_send_query_id", "false", TrueFalse),
    inert("nereids_cbo_penalty_factor", "0.7", Text),
    inert("nereids_star_schema_support", "true", TrueFalse),
    inert("nereids_timeout_second", "30", COUNT),
    inert("nereids_trace_event_mode", "all", Text),
    inert("new_planner_agg_stage", "0", COUNT),
    inert("new_planner_optimize_timeout", "3000", COUNT),
    inert("new_version", "", Text),
    inert("num_nodes_threshold", "0", ANY),
    inert("num_partitions_in_batch_mode", "1024", ANY),
    inert("num_scanner_threads", "0", COUNT),
    inert("orc_once_max_read_bytes", "8388608", COUNT),
    inert("parallel_exchange_instance_num", "100", ANY),
    inert("parallel_prepare_threshold", "32", COUNT),
    inert("parallel_scan_max_scanners_count", "0", ANY),
    inert("parallel_scan_min_rows_per_scanner", "16384", ANY),
    inert("parallel_sync_analyze_task_num", "2", COUNT),
    acts(
        "partial_update_new_key_behavior",
        "APPEND",
        OneOf(&["APPEND", "ERROR"]),
        "what INSERT does about new keys while enable_unique_key_partial_update is on",
    ),
    inert("partition_pruning_expand_threshold", "10", COUNT),
    inert("partitioned_hash_agg_rows_threshold", "1048576", COUNT),
    inert("partitioned_hash_join_rows_threshold", "1048576", COUNT),
    inert("plan_nereids_dump", "false", TrueFalse),
    inert("prefer_join_method", "broadcast", Text),
    inert("prefer_udf_over_builtin", "false", TrueFalse),
    inert("preferred_block_size_bytes", "8388608", COUNT),
    inert("profile_level", "1", COUNT),
    inert("query_cache_entry_max_bytes", "5242880", COUNT),
    inert("query_cache_entry_max_rows", "500000", COUNT),
    inert("query_cache_force_refresh", "false", TrueFalse),
    inert("query_delivery_timeout", "300", COUNT),
    acts(
        "query_freshness_tolerance_ms",
        "-1",
        Int(-1, 86_400_000),
        "milliseconds for which queries on object storage may miss commits of other processes; -1 = not at all",
    ),
    inert("query_mem_limit", "0", COUNT),
    inert("query_slot_count", "0", COUNT),
    inert("read_csv_empty_line_as_null", "false", TrueFalse),
    acts(
        "read_staleness_ms",
        "1000",
        Int(0, 86_400_000),
        "milliseconds for which look-ups by key may miss commits of other processes",
    ),
    inert("repeat_max_num", "10000", COUNT),
    acts("require_sequence_in_insert", "true", TrueFalse, "INSERT into a table with a sequence column must name it"),
    inert("resource_group", "", Text),
    inert("resource_variable", "", Text),
    acts(
        "return_object_data_as_binary",
        "false",
        TrueFalse,
        "BITMAP and HLL values are sent as their bytes; otherwise as NULL",
    ),
    inert("rewrite_count_distinct_to_bitmap_hll", "true", TrueFalse),
    inert("rewrite_or_to_in_predicate_threshold", "2", COUNT),
    inert("round_precise_decimalv2_value", "false", TrueFalse),
    inert("runtime_adaptive_dop_max_block_rows_per_driver_seq", "0", COUNT),
    inert("runtime_bloom_filter_max_size", "16777216", COUNT),
    inert("runtime_bloom_filter_min_size", "2048", COUNT),
    inert("runtime_bloom_filter_size", "2097152", COUNT),
    inert("runtime_filter_max_in_num", "1024", COUNT),
    inert("runtime_filter_prune_for_external", "true", TrueFalse),
    inert("runtime_filter_type", "IN_OR_BLOOM_FILTER,MIN_MAX", Text),
    inert("runtime_filter_wait_infinitely", "false", TrueFalse),
    inert("runtime_filter_wait_time_ms", "1000", COUNT),
    inert("runtime_profile_report_interval", "10", COUNT),
    inert("scan_queue_mem_limit", "0", COUNT),
    inert("send_batch_parallelism", "1", COUNT),
    inert("short_circuit_evaluation", "false", TrueFalse),
    inert("show_all_fe_connection", "false", TrueFalse),
    inert("show_column_comment_in_describe", "false", TrueFalse),
    acts("show_hidden_columns", "false", TrueFalse, "SELECT * of native tables shows hidden columns, too"),
    inert("show_user_default_role", "false", TrueFalse),
    inert("single_node_exec_plan", "false", TrueFalse),
    inert("skip_bad_tablet", "false", TrueFalse),
    inert("skip_delete_bitmap", "false", TrueFalse),
    inert("skip_delete_predicate", "false", TrueFalse),
    inert("skip_delete_sign", "false", TrueFalse),
    inert("skip_missing_version", "false", TrueFalse),
    inert("skip_storage_engine_merge", "false", TrueFalse),
    inert("sort_phase_num", "0", COUNT),
    inert("spill_mode", "auto", Text),
    inert("spill_min_revocable_mem", "33554432", COUNT),
    inert("sql_dialect", "doris", OneOf(&["doris"])),
    inert("statistic_collect_parallel", "1", COUNT),
    inert("streaming_preaggregation_mode", "auto", Text),
    inert("table_stats_health_threshold", "90", COUNT),
    inert("topn_filter_ratio", "0.5", Text),
    inert("topn_lazy_materialization_threshold", "1024", COUNT),
    inert("topn_opt_limit_threshold", "1024", COUNT),
    inert("transaction_visible_wait_timeout", "10", COUNT),
    inert("trim_tailing_spaces_for_external_table_query", "false", TrueFalse),
    inert("truncate_char_or_varchar_columns", "false", TrueFalse),
    inert("use_compute_nodes", "-1", ANY),
    inert("use_fix_replica", "-1", ANY),
    inert("use_rf_default", "false", TrueFalse),
    inert("use_serial_exchange", "false", TrueFalse),
    inert("use_v2_rollup", "false", TrueFalse),
    inert("use_v3_storage_format", "false", TrueFalse),
    inert("variant_max_subcolumns_count", "0", COUNT),
    inert("wait_full_block_schedule_times", "2", COUNT),
    inert("workload_group", "", Text),
    inert("workload_policy_id", "-1", ANY),
];

/// Iterates over every definition.
fn groups() -> impl Iterator<Item = &'static Definition> {
    ACTING.iter().chain(CONNECTION).chain(OF_MYSQL).chain(FOREIGN).chain(OF_CONSOLES)
}

/// Every definition by its name, without aliases.
static BY_NAME: LazyLock<HashMap<&'static str, &'static Definition>> =
    LazyLock::new(|| groups().map(|d| (d.name, d)).collect());

/// Finds the variable of this lower-case name, following aliases.
pub fn find(name: &str) -> Option<&'static Definition> {
    BY_NAME.get(followed(name)).copied()
}

/// Returns the name that an alias stands for, or `name` itself.
pub fn followed(name: &str) -> &str {
    ALIASES.iter().find(|(alias, _)| *alias == name).map_or(name, |(_, real)| real)
}

/// Iterates over all names, aliases included, with the definition of each.
pub fn all() -> impl Iterator<Item = (&'static str, &'static Definition)> {
    let aliases = ALIASES.iter().filter_map(|(alias, real)| Some((*alias, *BY_NAME.get(real)?)));
    BY_NAME.iter().map(|(name, d)| (*name, *d)).chain(aliases)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_lower_case_and_said_once() {
        let mut seen = std::collections::HashSet::new();
        let all = groups().map(|d| d.name);
        for name in all.chain(ALIASES.iter().map(|(alias, _)| *alias)) {
            assert_eq!(name, name.to_lowercase());
            assert!(seen.insert(name), "{name} is defined twice");
        }
    }

    #[test]
    fn aliases_lead_to_definitions() {
        for (alias, real) in ALIASES {
            assert!(find(real).is_some(), "{alias} stands for {real}, which is not defined");
            assert_eq!(find(alias).map(|d| d.name), Some(*real));
        }
    }

    #[test]
    fn every_doc_line_is_one_line() {
        for (name, d) in all() {
            assert!(!d.doc.is_empty() && !d.doc.contains('\n'), "{name}");
        }
    }
}
