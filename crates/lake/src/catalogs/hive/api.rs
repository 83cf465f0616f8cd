//! Structs of the metastore's interface (`hive_metastore.thrift`) for tables and partitions, with the numbers of their
//! fields. Fields that nobody reads are left out.

use std::collections::BTreeMap;

use super::thrift::{Connection, Result, STRUCT, Wire, structs};

structs! {
    /// A column of a table.
    FieldSchema {
        1 name: String,
        2 r#type: String,
        3 comment: String,
    }
    /// The SerDe of a table: the class that reads and writes its rows.
    SerDeInfo {
        2 serialization_lib: String,
        3 parameters: BTreeMap<String, String>,
    }
    /// Location, columns and format of a table's or partition's files.
    StorageDescriptor {
        1 cols: Vec<FieldSchema>,
        2 location: String,
        3 input_format: String,
        7 serde_info: SerDeInfo,
    }
    /// A table or view.
    Table {
        7 sd: StorageDescriptor,
        8 partition_keys: Vec<FieldSchema>,
        9 parameters: BTreeMap<String, String>,
        12 table_type: String,
    }
    /// A partition.
    Partition {
        1 values: Vec<String>,
        6 sd: StorageDescriptor,
    }
    /// An entry in a list of tables.
    TableMeta {
        1 db_name: String,
        2 table_name: String,
        3 table_type: String,
    }
    /// The answer of `get_table_req`.
    GetTableResult {
        1 table: Table,
    }
}
