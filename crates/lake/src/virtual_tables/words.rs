//! Columns of information_schema and performance_schema whose words compare without regard to case, as in MySQL. Names of
//! databases, tables and users are no such words: they compare by their bytes.

use std::collections::HashMap;
use std::sync::Arc;

use arrow::datatypes::{FieldRef, Schema, SchemaRef};
use dipper_sql::charter::NO_CASE_KEY;

use super::{INFORMATION_SCHEMA, PERFORMANCE_SCHEMA};

const WORDS: &[&str] = &[
    "ACTION_ORIENTATION",
    "ACTION_TIMING",
    "CHARACTER_SET_NAME",
    "CHECK_OPTION",
    "COLLATION_NAME",
    "COLUMN_KEY",
    "COLUMN_NAME",
    "COLUMN_TYPE",
    "COMMAND",
    "CONSTRAINT_NAME",
    "CONSTRAINT_TYPE",
    "CREATE_OPTIONS",
    "DATA_TYPE",
    "DEFAULT_CHARACTER_SET_NAME",
    "DEFAULT_COLLATE_NAME",
    "DEFAULT_COLLATION_NAME",
    "DELETE_RULE",
    "ENABLED",
    "ENFORCED",
    "ENGINE",
    "EVENT_MANIPULATION",
    "EVENT_TYPE",
    "EXTRA",
    "INDEX_NAME",
    "INDEX_TYPE",
    "INTERVAL_FIELD",
    "IS_COMPILED",
    "IS_DEFAULT",
    "IS_DETERMINISTIC",
    "IS_GRANTABLE",
    "IS_NULLABLE",
    "IS_UPDATABLE",
    "IS_VISIBLE",
    "MATCH_OPTION",
    "NULLABLE",
    "ON_COMPLETION",
    "PARAMETER_MODE",
    "PARTITION_METHOD",
    "PLUGIN_NAME",
    "PLUGIN_STATUS",
    "PLUGIN_TYPE",
    "PRIVILEGE_TYPE",
    "PROCESSLIST_COMMAND",
    "ROUTINE_TYPE",
    "ROW_FORMAT",
    "SECURITY_TYPE",
    "STATUS",
    "SUPPORT",
    "TABLE_COLLATION",
    "TABLE_TYPE",
    "TRANSACTIONS",
    "UPDATE_RULE",
    "VARIABLE_NAME",
    "VIEW_DEFINITION",
    "WORD",
];

/// Marks the columns of a table whose words compare without regard to case.
pub fn marked(database: &str, schema: &SchemaRef) -> SchemaRef {
    if ![INFORMATION_SCHEMA, PERFORMANCE_SCHEMA].contains(&database) {
        return Arc::clone(schema);
    }
    let mark = |field: &FieldRef| match field.data_type().is_string() && WORDS.contains(&field.name().as_str()) {
        true => {
            let mark = HashMap::from([(NO_CASE_KEY.to_string(), String::new())]);
            Arc::new(field.as_ref().clone().with_metadata(mark))
        }
        false => Arc::clone(field),
    };
    Arc::new(Schema::new(schema.fields().iter().map(mark).collect::<Vec<_>>()))
}
