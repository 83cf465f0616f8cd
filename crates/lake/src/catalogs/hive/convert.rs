//! Converts a table of the metastore to the definition that Hive's own DDL for it would create here.

use std::collections::BTreeMap;

use dipper_node::error::{EngineError, ErrorKind, Result};
use dipper_store::catalog::{Column, ExternalTable};

use super::api::{FieldSchema, StorageDescriptor, Table};
use crate::files::define::{self, FORMAT_PARQUET, FORMAT_TEXT};

/// SerDe classes that the text reader implements, by the last part of their names.
const TEXT_SERDES: [&str; 3] = ["LazySimpleSerDe", "MultiDelimitSerDe", "OpenCSVSerde"];

/// Returns the definition of `table`.
///
/// # Errors
/// `Unsupported` if it is a view, or its format, SerDe or a type is not supported; `Storage` if the metastore reports
/// no storage or location.
pub(super) fn definition(name: &str, table: &Table) -> Result<ExternalTable> {
    let kind = table.table_type.as_deref().unwrap_or_default();
    if kind.eq_ignore_ascii_case("VIRTUAL_VIEW") || kind.eq_ignore_ascii_case("MATERIALIZED_VIEW") {
        return Err(EngineError::unsupported(format!(
            "'{name}' is a view of Hive, which is written in Hive's own SQL and not read; read the tables that it is over"
        )));
    }
    let properties = map(table.parameters.iter().flatten());
    let is_true = |key: &str| properties.get(key).is_some_and(|v| v.eq_ignore_ascii_case("true"));
    if is_true("transactional") {
        return Err(EngineError::unsupported(format!(
            "'{name}' is a transactional table of Hive, whose delta directories are not read"
        )));
    }
    let storage = table
        .sd
        .as_ref()
        .ok_or_else(|| EngineError::new(ErrorKind::Storage, format!("the metastore tells no storage for '{name}'")))?;
    if let Some(format) = lake_format(&properties, storage) {
        return Err(EngineError::unsupported(format!(
            "'{name}' is a table of {format}, whose own log says which of its files count; that log is not read"
        )));
    }
    if let Some(handler) = properties.get("storage_handler") {
        return Err(EngineError::unsupported(format!(
            "'{name}' is kept by the storage handler {handler}, which is not read"
        )));
    }
    let source = properties.get("spark.sql.sources.provider").map(|p| p.to_lowercase());
    let (format, serde) = format_of(name, storage).map_err(|e| match source.as_deref() {
        // Hive cannot read tables of these sources, so Spark registers them with a placeholder class of files.
        Some(source) if !matches!(source, "hive" | "parquet") => EngineError::unsupported(format!(
            "'{name}' is a table of Spark's data source {source}, of which Hive's part of the metastore tells too little; read \
             its files by files('path' = '{}', ...)",
            place_of(storage)
        )),
        _ => e,
    })?;
    let definition = ExternalTable {
        columns: columns(storage.cols.iter().flatten()),
        partition_columns: columns(table.partition_keys.iter().flatten()),
        format: format.to_string(),
        serde: (format == FORMAT_TEXT).then(|| serde.to_string()),
        serde_properties: serde_properties(storage),
        location: storage.location.as_deref().unwrap_or_default().to_string(),
        comment: properties.get("comment").cloned(),
        properties,
        ..ExternalTable::default()
    };
    if definition.location.is_empty() {
        return Err(EngineError::new(ErrorKind::Storage, format!("the metastore tells no location for '{name}'")));
    }
    let checked = match format {
        FORMAT_TEXT => define::hive_text(&definition, &[]).map(|_| ()),
        _ => define::fields(&definition.columns).map(|_| ()),
    };
    checked
        .and_then(|()| define::fields(&definition.partition_columns))
        .map_err(|e| EngineError { message: format!("'{name}': {}", e.message), ..e })?;
    Ok(definition)
}

/// Returns the lake format of a table, if it has one. These formats keep a log of their files; without the log, reading
/// the files would return rows that have been replaced.
fn lake_format(properties: &BTreeMap<String, String>, storage: &StorageDescriptor) -> Option<&'static str> {
    let input = storage.input_format.as_deref().unwrap_or_default().to_ascii_lowercase();
    let handler = properties.get("storage_handler").map(|h| h.to_ascii_lowercase()).unwrap_or_default();
    let source = properties.get("spark.sql.sources.provider").map(|p| p.to_ascii_lowercase()).unwrap_or_default();
    let is = |name: &str| source == name || input.contains(name) || handler.contains(name);
    if is("delta") {
        Some("Delta Lake")
    } else if is("hudi") || input.contains("hoodie") || properties.keys().any(|key| key.starts_with("hoodie.")) {
        Some("Hudi")
    } else if is("paimon") {
        Some("Paimon")
    } else {
        None
    }
}

/// Returns the location of a table's files. For tables of Spark's data sources it is the SerDe property `path`, because
/// Hive is told another location.
fn place_of(storage: &StorageDescriptor) -> String {
    let own = serde_properties(storage).remove("path");
    own.unwrap_or_else(|| storage.location.as_deref().unwrap_or_default().to_string())
}

/// Returns the format and the SerDe class for a table's INPUTFORMAT and SerDe.
fn format_of<'a>(name: &str, storage: &'a StorageDescriptor) -> Result<(&'static str, &'a str)> {
    let input = storage.input_format.as_deref().unwrap_or_default();
    let serde = storage.serde_info.as_ref().and_then(|s| s.serialization_lib.as_deref()).unwrap_or_default();
    let last = |class: &'a str| class.rsplit('.').next().unwrap_or_default();
    match (last(input), last(serde)) {
        ("TextInputFormat", class) if TEXT_SERDES.contains(&class) => Ok((FORMAT_TEXT, serde)),
        ("TextInputFormat", other) => Err(EngineError::unsupported(format!(
            "'{name}' is text of the SerDe {other}, which is not supported; {} are",
            TEXT_SERDES.join(", ")
        ))),
        ("MapredParquetInputFormat" | "ParquetInputFormat", _) => Ok((FORMAT_PARQUET, serde)),
        (other, _) => {
            let format = other.trim_end_matches("InputFormat");
            let format = if format == "Orc" { "ORC" } else { format };
            Err(EngineError::unsupported(format!(
                "'{name}' is stored as {format}, which is not supported; text and Parquet are"
            )))
        }
    }
}

fn serde_properties(storage: &StorageDescriptor) -> BTreeMap<String, String> {
    map(storage.serde_info.iter().flat_map(|s| s.parameters.iter().flatten()))
}

fn map<K: AsRef<str>, V: AsRef<str>>(pairs: impl Iterator<Item = (K, V)>) -> BTreeMap<String, String> {
    pairs.map(|(k, v)| (k.as_ref().to_string(), v.as_ref().to_string())).collect()
}

fn columns<'a>(fields: impl Iterator<Item = &'a FieldSchema>) -> Vec<Column> {
    fields
        .map(|f| {
            let mut column =
                Column::new(f.name.as_deref().unwrap_or_default(), f.r#type.as_deref().unwrap_or_default());
            column.comment = f.comment.as_deref().filter(|c| !c.is_empty()).map(str::to_string);
            column
        })
        .collect()
}

/// Returns why the files of a partition cannot be read with the table's definition, if they cannot: ALTER TABLE changes
/// the table only, and older partitions keep the format in which they were written.
pub(super) fn differs(table: &ExternalTable, partition: &StorageDescriptor) -> Option<String> {
    match format_of("the partition", partition) {
        Err(e) => return Some(e.message),
        Ok((format, _)) if format != table.format => {
            return Some(format!("it is stored as {format}, the table as {}", table.format));
        }
        Ok((FORMAT_TEXT, serde)) if Some(serde) != table.serde.as_deref() => {
            return Some(format!("it has the SerDe {serde}, the table {}", table.serde.as_deref().unwrap_or_default()));
        }
        Ok(_) => {}
    }
    if table.format == FORMAT_TEXT {
        let own = serde_properties(partition);
        let keys = own.keys().chain(table.serde_properties.keys());
        for key in keys {
            let (of_partition, of_table) = (own.get(key), table.serde_properties.get(key));
            if of_partition != of_table {
                let text =
                    |v: Option<&String>| v.map_or("not set".to_string(), |v| format!("'{}'", v.escape_default()));
                return Some(format!(
                    "its SerDe property '{key}' is {}, the table's {}",
                    text(of_partition),
                    text(of_table)
                ));
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_of_others_are_called_by_their_names() {
        let told = |properties: &[(&str, &str)], input: &str| {
            let storage = StorageDescriptor {
                input_format: Some(input.to_string()),
                location: Some("file:/here".into()),
                ..StorageDescriptor::default()
            };
            let parameters = properties.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect();
            let table = Table { parameters: Some(parameters), sd: Some(storage), ..Table::default() };
            definition("d.t", &table).unwrap_err().message
        };
        let spark = |source| [("spark.sql.sources.provider", source)];
        let sequence = "org.apache.hadoop.mapred.SequenceFileInputFormat";
        let parquet = "org.apache.hadoop.hive.ql.io.parquet.MapredParquetInputFormat";
        assert!(told(&spark("delta"), sequence).contains("table of Delta Lake"));
        assert!(told(&spark("DELTA"), parquet).contains("table of Delta Lake"));
        assert!(told(&spark("hudi"), parquet).contains("table of Hudi"));
        assert!(told(&[], "org.apache.hudi.hadoop.HoodieParquetInputFormat").contains("table of Hudi"));
        let handler = [("storage_handler", "io.delta.hive.DeltaStorageHandler")];
        assert!(told(&handler, "x").contains("table of Delta Lake"));
        let csv = told(&spark("csv"), sequence);
        assert!(csv.contains("Spark's data source csv") && csv.contains("file:/here"), "{csv}");
        assert!(told(&[], sequence).contains("stored as SequenceFile"));
    }
}
