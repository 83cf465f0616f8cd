//! SHOW for objects that dipper does not have: empty lists with the usual columns.

use dipper_node::error::{EngineError, Result};

use crate::sheet::Sheet;

/// Lists of objects that dipper does not have, with their columns as in Doris, StarRocks or MySQL. Scripts and tools
/// ask for them, and the answer is an empty list.
const NONE: &[(&str, &[&str])] = &[
    (
        "ALTER TABLE",
        &[
            "JobId",
            "TableName",
            "CreateTime",
            "FinishTime",
            "IndexName",
            "IndexId",
            "OriginIndexId",
            "SchemaVersion",
            "TransactionId",
            "State",
            "Msg",
            "Progress",
            "Timeout",
        ],
    ),
    (
        "TRIGGERS",
        &[
            "Trigger",
            "Event",
            "Table",
            "Statement",
            "Timing",
            "Created",
            "sql_mode",
            "Definer",
            "character_set_client",
            "collation_connection",
            "Database Collation",
        ],
    ),
    (
        "EVENTS",
        &[
            "Db",
            "Name",
            "Definer",
            "Time zone",
            "Type",
            "Execute at",
            "Interval value",
            "Interval field",
            "Starts",
            "Ends",
            "Status",
            "Originator",
            "character_set_client",
            "collation_connection",
            "Database Collation",
        ],
    ),
    (
        "PROCEDURE STATUS",
        &[
            "Db",
            "Name",
            "Type",
            "Definer",
            "Modified",
            "Created",
            "Security_type",
            "Comment",
            "character_set_client",
            "collation_connection",
            "Database Collation",
        ],
    ),
    ("ROUTINE LOAD", ROUTINE_LOAD),
    ("ALL ROUTINE LOAD", ROUTINE_LOAD),
    (
        "ROUTINE LOAD TASK",
        &[
            "TaskId",
            "TxnId",
            "TxnStatus",
            "JobId",
            "JobName",
            "CreateTime",
            "ExecuteStartTime",
            "Timeout",
            "BeId",
            "Message",
        ],
    ),
    ("EXPORT", &["JobId", "Label", "State", "Progress", "TaskInfo", "Path", "CreateTime", "StartTime", "FinishTime"]),
    ("BROKER", &["Name", "Host", "Port", "Alive", "LastStartTime", "LastUpdateTime", "ErrMsg"]),
    ("RESOURCES", &["Name", "ResourceType", "Item", "Value"]),
    ("WORKLOAD GROUPS", &["Id", "Name"]),
    ("RESOURCE GROUPS", &["Id", "Name"]),
    ("REPOSITORIES", &["RepoId", "RepoName", "CreateTime", "IsReadOnly", "Location", "Broker", "Type", "ErrMsg"]),
    ("BACKUP", &["JobId", "SnapshotName", "DbName", "State", "BackupObjs", "CreateTime", "FinishedTime", "Status"]),
    ("RESTORE", RESTORES),
    ("BRIEF RESTORE", RESTORES),
    ("ENCRYPTKEYS", &["EncryptKey Name", "EncryptKey String"]),
    ("STORAGE POLICY", &["PolicyName", "Id", "Version", "Type", "StorageResource", "CooldownDatetime", "CooldownTtl"]),
    ("SQL_BLOCK_RULE", &["Name", "Sql", "SqlHash", "PartitionNum", "TabletNum", "Cardinality", "Global", "Enable"]),
    (
        "ROW POLICY",
        &["PolicyName", "CatalogName", "DbName", "TableName", "Type", "FilterType", "WherePredicate", "User"],
    ),
    ("STORAGE POLICY USING", &["PolicyName", "Database", "Table", "Partitions"]),
    ("SNAPSHOT", &["Snapshot", "Timestamp", "Status"]),
    ("WORKLOAD POLICY", &["Id", "Name", "Condition", "Action", "Priority", "Enabled", "Version", "WorkloadGroup"]),
    ("COLOCATION GROUP", COLOCATION_GROUPS),
    ("TRASH", &["BackendId", "Backend", "TrashUsedCapacity"]),
    ("CATALOG RECYCLE BIN", &["Type", "Name", "DbId", "TableId", "PartitionId", "DropTime", "DataSize"]),
    ("COMPUTE NODES", &["ComputeNodeId", "IP", "HeartbeatPort", "BePort", "HttpPort", "BrpcPort", "Alive"]),
    ("SYNC JOB", &["JobId", "JobName", "Type", "State", "Channel", "Status", "JobConfig", "CreateTime"]),
    ("FILE", &["Id", "DbName", "GlobalName", "Catalog", "FileName", "FileSize", "IsContent", "MD5"]),
    ("MATERIALIZED VIEWS", MATERIALIZED_VIEWS),
    ("MATERIALIZED VIEW", MATERIALIZED_VIEWS),
    ("MASTER STATUS", &["File", "Position", "Binlog_Do_DB", "Binlog_Ignore_DB", "Executed_Gtid_Set"]),
    ("BINARY LOG STATUS", &["File", "Position", "Binlog_Do_DB", "Binlog_Ignore_DB", "Executed_Gtid_Set"]),
    ("SLAVE STATUS", SLAVE_STATUS),
    ("ALL SLAVES STATUS", SLAVE_STATUS),
    ("REPLICA STATUS", REPLICA_STATUS),
    ("SLAVE STATUS NONBLOCKING", SLAVE_STATUS),
    ("ALL REPLICAS STATUS", REPLICA_STATUS),
    ("USER_STATISTICS", USER_STATISTICS),
    ("CLIENT_STATISTICS", CLIENT_STATISTICS),
    ("INDEX_STATISTICS", &["Table_schema", "Table_name", "Index_name", "Rows_read"]),
    ("TABLE_STATISTICS", &["Table_schema", "Table_name", "Rows_read", "Rows_changed", "Rows_changed_x_#indexes"]),
    ("REPLICAS", &["Server_Id", "Host", "Port", "Source_Id", "Replica_UUID"]),
    ("SLAVE HOSTS", &["Server_id", "Host", "Port", "Master_id", "Slave_UUID"]),
    ("BINARY LOGS", &["Log_name", "File_size", "Encrypted"]),
    ("MASTER LOGS", &["Log_name", "File_size", "Encrypted"]),
    ("RELAYLOG EVENTS", &["Log_name", "Pos", "Event_type", "Server_id", "End_log_pos", "Info"]),
    ("BINLOG EVENTS", &["Log_name", "Pos", "Event_type", "Server_id", "End_log_pos", "Info"]),
    (
        "ANALYZE",
        &[
            "job_id",
            "catalog_name",
            "db_name",
            "tbl_name",
            "col_name",
            "job_type",
            "analysis_type",
            "message",
            "last_exec_time_in_ms",
            "state",
            "progress",
            "schedule_type",
        ],
    ),
    (
        "ANALYZE STATUS",
        &[
            "Id",
            "Database",
            "Table",
            "Columns",
            "Type",
            "Schedule",
            "Status",
            "StartTime",
            "EndTime",
            "Properties",
            "Reason",
        ],
    ),
    ("STATS META", &["Database", "Table", "Columns", "Type", "UpdateTime", "Properties", "Healthy"]),
    ("DELETE", &["TableName", "PartitionName", "CreateTime", "DeleteCondition", "State"]),
    ("STORAGE VAULT", &["Name", "Id", "Properties", "IsDefault"]),
    ("COMPUTE GROUPS", &["Name", "IsCurrent", "Users", "BackendNum"]),
    ("CLUSTERS", &["Name", "IsCurrent", "Users", "BackendNum"]),
    ("QUERY STATS", &["TableName", "QueryCount"]),
    (
        "ALTER MATERIALIZED VIEW",
        &[
            "JobId",
            "TableName",
            "CreateTime",
            "FinishedTime",
            "BaseIndexName",
            "RollupIndexName",
            "RollupId",
            "TransactionId",
            "State",
            "Msg",
            "Progress",
            "Timeout",
        ],
    ),
    (
        "PIPES",
        &["DATABASE_NAME", "PIPE_ID", "PIPE_NAME", "STATE", "TABLE_NAME", "LOAD_STATUS", "LAST_ERROR", "CREATED_TIME"],
    ),
    ("SMALL FILES", &["Id", "DbName", "GlobalName", "Catalog", "FileName", "FileSize", "IsContent", "MD5"]),
    ("HISTOGRAM META", &["Database", "Table", "Column", "Type", "UpdateTime", "Properties"]),
    (
        "ANALYZE JOB",
        &[
            "Id",
            "Catalog",
            "Database",
            "Table",
            "Columns",
            "Type",
            "Schedule",
            "Properties",
            "Status",
            "LastWorkTime",
            "Reason",
        ],
    ),
    (
        "WAREHOUSES",
        &[
            "Id",
            "Name",
            "State",
            "NodeCount",
            "CurrentClusterCount",
            "MaxClusterCount",
            "StartedClusters",
            "RunningSql",
            "QueuedSql",
            "CreatedOn",
            "ResumedOn",
            "UpdatedOn",
            "Property",
            "Comment",
        ],
    ),
    (
        "NODES",
        &[
            "WarehouseName",
            "ClusterId",
            "WorkerGroupId",
            "NodeId",
            "WorkerId",
            "IP",
            "HeartbeatPort",
            "BePort",
            "HttpPort",
            "BrpcPort",
            "StarletPort",
            "LastStartTime",
            "LastUpdateMs",
            "Alive",
            "ErrMsg",
            "Version",
        ],
    ),
    ("RESOURCE GROUP", RESOURCE_GROUPS),
    ("COLUMN HISTOGRAM", &["column_name", "data_type", "sample_rate", "num_buckets", "buckets"]),
    (
        "ANALYZE TASK STATUS",
        &["task_id", "col_name", "index_name", "message", "last_state_change_time", "time_cost_in_ms", "state"],
    ),
    (
        "REPLICATIONS",
        &["JobID", "Database", "Table", "TxnID", "CreatedTime", "FinishedTime", "State", "Progress", "Error"],
    ),
    ("USAGE RESOURCE GROUPS", &["Name", "Id", "Backend", "BEInUseCpuCores", "BEInUseMemBytes", "BERunningQueries"]),
    (
        "BASELINE",
        &[
            "Id",
            "global",
            "enable",
            "bindSQLDigest",
            "bindSQLHash",
            "bindSQL",
            "planSQL",
            "costs",
            "queryMs",
            "source",
            "updateTime",
        ],
    ),
    ("DATACACHE RULES", &["Rule Id", "Catalog", "Database", "Table", "Priority", "Predicates", "Properties"]),
    (
        "MULTIPLE COLUMNS STATS META",
        &["Database", "Table", "Columns", "Type", "StatisticsTypes", "UpdateTime", "Properties"],
    ),
    ("PLAN ADVISOR", &["Query ID", "Query", "Query Time", "Advisor"]),
    (
        "WARM UP JOB",
        &[
            "JobId",
            "SrcComputeGroup",
            "DstComputeGroup",
            "Status",
            "Type",
            "SyncMode",
            "CreateTime",
            "StartTime",
            "FinishBatch",
            "AllBatch",
            "FinishTime",
            "ErrMsg",
            "Tables",
        ],
    ),
    ("XA RECOVER", &["formatID", "gtrid_length", "bqual_length", "data"]),
    ("SECURITY INTEGRATIONS", &["Name", "Type", "Comment"]),
    ("GROUP PROVIDERS", &["Name", "Type", "Comment"]),
    ("FAILPOINTS", &["Name", "TriggerMode", "Times/Probability", "Host"]),
    ("SQLBLACKLIST", &["Id", "Forbidden SQL"]),
    (
        "BACKEND BLACKLIST",
        &["BackendId", "AddBlackListType", "LostConnectionTime", "LostConnectionNumberInPeriod", "CheckTimePeriod(s)"],
    ),
    (
        "COMPUTE NODE BLACKLIST",
        &[
            "ComputeNodeId",
            "AddBlackListType",
            "LostConnectionTime",
            "LostConnectionNumberInPeriod",
            "CheckTimePeriod(s)",
        ],
    ),
    ("RESOURCE GROUPS ALL", RESOURCE_GROUPS),
    ("STAGES", &["StageName", "StageId", "Endpoint", "Region", "Bucket", "Prefix", "AK", "SK", "Provider"]),
    (
        "JOBS",
        &["Id", "Name", "Definer", "ExecuteType", "RecurringStrategy", "Status", "ExecuteSql", "CreateTime", "Comment"],
    ),
    (
        "DICTIONARIES",
        &[
            "DictionaryId",
            "DictionaryName",
            "BaseTableName",
            "Version",
            "Status",
            "DataDistribution",
            "LastUpdateResult",
        ],
    ),
    (
        "BUILD INDEX",
        &[
            "JobId",
            "TableName",
            "PartitionName",
            "AlterInvertedIndexes",
            "CreateTime",
            "FinishTime",
            "TransactionId",
            "State",
            "Msg",
            "Progress",
        ],
    ),
    (
        "AUTO ANALYZE",
        &[
            "job_id",
            "catalog_name",
            "db_name",
            "tbl_name",
            "col_name",
            "job_type",
            "analysis_type",
            "message",
            "last_exec_time_in_ms",
            "state",
            "progress",
            "schedule_type",
        ],
    ),
    (
        "DICTIONARY",
        &[
            "DictionaryId",
            "DictionaryName",
            "CatalogName",
            "DbName",
            "dictionaryObject",
            "dictionaryKeys",
            "dictionaryValues",
            "status",
            "lastSuccessRefreshTime",
            "lastSuccessFinishedTime",
            "nextSchedulableTime",
            "ErrorMessage",
            "approximated dictionaryMemoryUsage (Bytes)",
        ],
    ),
    ("QUEUED ANALYZE JOBS", &["catalog_name", "db_name", "tbl_name", "col_list", "priority"]),
    ("STORAGE VAULTS", &["Name", "Id", "Properties", "IsDefault"]),
    ("TABLE CREATION", &["Database", "Table", "Status", "CreateTime", "ErrorMsg"]),
];

const ROUTINE_LOAD: &[&str] = &[
    "Id",
    "Name",
    "CreateTime",
    "PauseTime",
    "EndTime",
    "DbName",
    "TableName",
    "State",
    "DataSourceType",
    "CurrentTaskNum",
    "JobProperties",
    "Statistic",
    "Progress",
    "Lag",
    "ReasonOfStateChanged",
    "ErrorLogUrls",
    "OtherMsg",
];

const RESTORES: &[&str] = &["JobId", "Label", "DbName", "State", "RestoreObjs", "CreateTime", "FinishedTime", "Status"];

const SLAVE_STATUS: &[&str] = &[
    "Slave_IO_State",
    "Master_Host",
    "Master_User",
    "Master_Port",
    "Connect_Retry",
    "Master_Log_File",
    "Read_Master_Log_Pos",
    "Relay_Log_File",
    "Relay_Log_Pos",
    "Relay_Master_Log_File",
    "Slave_IO_Running",
    "Slave_SQL_Running",
    "Last_Errno",
    "Last_Error",
    "Exec_Master_Log_Pos",
    "Seconds_Behind_Master",
    "Last_IO_Error",
    "Last_SQL_Error",
    "Retrieved_Gtid_Set",
    "Executed_Gtid_Set",
    "Channel_Name",
];

/// Columns of MariaDB's lists of what users and clients did.
macro_rules! statistics {
    ($name:literal) => {
        &[
            $name,
            "Total_connections",
            "Concurrent_connections",
            "Connected_time",
            "Busy_time",
            "Cpu_time",
            "Bytes_received",
            "Bytes_sent",
            "Binlog_bytes_written",
            "Rows_read",
            "Rows_sent",
            "Rows_deleted",
            "Rows_inserted",
            "Rows_updated",
            "Select_commands",
            "Update_commands",
            "Other_commands",
            "Commit_transactions",
            "Rollback_transactions",
            "Denied_connections",
            "Lost_connections",
            "Access_denied",
            "Empty_queries",
            "Total_ssl_connections",
            "Max_statement_time_exceeded",
        ]
    };
}

const USER_STATISTICS: &[&str] = statistics!("User");
const CLIENT_STATISTICS: &[&str] = statistics!("Client");

const REPLICA_STATUS: &[&str] = &[
    "Replica_IO_State",
    "Source_Host",
    "Source_User",
    "Source_Port",
    "Connect_Retry",
    "Source_Log_File",
    "Read_Source_Log_Pos",
    "Relay_Log_File",
    "Relay_Log_Pos",
    "Relay_Source_Log_File",
    "Replica_IO_Running",
    "Replica_SQL_Running",
    "Last_Errno",
    "Last_Error",
    "Exec_Source_Log_Pos",
    "Seconds_Behind_Source",
    "Last_IO_Error",
    "Last_SQL_Error",
    "Retrieved_Gtid_Set",
    "Executed_Gtid_Set",
    "Channel_Name",
];

/// Columns of the list of colocation groups.
pub const COLOCATION_GROUPS: &[&str] =
    &["GroupId", "GroupName", "TableIds", "BucketsNum", "ReplicaAllocation", "DistCols", "IsStable", "ErrorMsg"];

const RESOURCE_GROUPS: &[&str] =
    &["name", "id", "cpu_weight", "exclusive_cpu_cores", "mem_limit", "concurrency_limit", "classifiers"];

const MATERIALIZED_VIEWS: &[&str] = &["id", "database_name", "name", "refresh_type", "is_active", "text", "rows"];

/// Lists of [`NONE`] that a statement may ask for by an object's name.
const NAMED: &[&str] = &["RESOURCE GROUP", "COLUMN HISTOGRAM", "ANALYZE TASK STATUS", "ANALYZE", "AUTO ANALYZE"];

/// Returns the empty list for other forms of SHOW in Doris, StarRocks and MySQL: those of [`NONE`], also with FROM, IN,
/// FOR or ON, and SHOW ENGINE.
///
/// # Errors
/// `Unsupported` for all other statements.
pub fn list(words: &str) -> Result<Sheet> {
    let list = |words: &str| NONE.iter().find(|(list, _)| *list == words).map(|(_, columns)| Sheet::texts(columns));
    let before = [" FROM ", " IN ", " FOR ", " ON "].iter().find_map(|word| words.split_once(word));
    // A job that is asked for by name does not exist, which is an error rather than an empty list.
    let before =
        before.map(|(before, _)| before).filter(|list| !list.ends_with("ROUTINE LOAD") || !words.contains(" FOR "));
    let before = before.unwrap_or(words);
    let named = NAMED.iter().find(|kind| before.strip_prefix(**kind).is_some_and(|name| name.starts_with(' ')));
    let before = if list(before).is_some() { before } else { named.copied().unwrap_or(before) };
    // SHOW ENGINE with any of MySQL's engines.
    let is_engine =
        before.starts_with("ENGINE ") && [" STATUS", " MUTEX", " LOGS"].iter().any(|end| before.ends_with(end));
    if is_engine {
        return Ok(Sheet::texts(&["Type", "Name", "Status"]));
    }
    list(before).ok_or_else(|| EngineError::unsupported(format!("SHOW {words} is not supported")))
}
