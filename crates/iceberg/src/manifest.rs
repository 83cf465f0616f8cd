//! Manifest lists and manifests: Avro files that name the files of a snapshot.

use apache_avro::types::Value as Avro;

use crate::avro::{self, FileReader, Record, bytes_of, id, int};
use crate::error::{IcebergError, Result};
use crate::metadata::{PartitionSpec, Snapshot, TableMetadata};
use crate::predicate::{Metrics, Range};
use crate::schema::{Primitive, Schema};
use crate::value::Value;
use crate::{Locations, get};

/// Content of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Content {
    /// Rows.
    Data,
    /// Positions of deleted rows.
    Positions,
    /// Values of deleted rows.
    Equality,
}

/// A manifest as its list names it.
#[derive(Debug, Clone)]
pub struct ManifestFile {
    /// Location of the manifest.
    pub path: String,
    /// Id of the partition spec of its files.
    pub spec_id: i32,
    /// Whether it names delete files.
    pub is_deletes: bool,
    /// Sequence number that new entries inherit.
    pub sequence: i64,
    /// One summary for each partition field, if the list has them.
    pub partitions: Option<Vec<Summary>>,
    /// `Some(0)`: it has no live entries.
    pub live_files: Option<i64>,
}

/// Bounds of the partition values of a manifest's files.
#[derive(Debug, Clone, Default)]
pub struct Summary {
    contains_null: Option<bool>,
    contains_nan: Option<bool>,
    lower: Option<Vec<u8>>,
    upper: Option<Vec<u8>>,
}

/// A file as its manifest names it.
#[derive(Debug, Clone)]
pub struct FileEntry {
    /// Location of the file.
    pub path: String,
    /// Content of the file.
    pub content: Content,
    /// `parquet`, `avro`, `orc` or `puffin`, lower case.
    pub format: String,
    /// Id of the spec of its partition values.
    pub spec_id: i32,
    /// Partition values, one for each field of the spec.
    pub partition: Vec<Option<Value>>,
    /// Number of rows.
    pub records: i64,
    /// Size in bytes.
    pub bytes: i64,
    /// Data sequence number, which decides which deletes apply.
    pub sequence: i64,
    /// Metrics of its columns.
    pub metrics: Metrics,
    /// Columns that an equality delete compares.
    pub equality_ids: Vec<i32>,
    /// The single data file to which a delete refers.
    pub referenced: Option<String>,
    /// Offset and length of a deletion vector in its file.
    pub blob: Option<(u64, u64)>,
}

/// Reads the manifests of a snapshot.
///
/// # Errors
/// [`IcebergError::Read`] or [`IcebergError::Damaged`], for the manifest list.
pub async fn manifests(locations: &dyn Locations, snapshot: &Snapshot) -> Result<Vec<ManifestFile>> {
    let Some(list) = &snapshot.manifest_list else {
        return Ok(snapshot
            .manifests
            .iter()
            .map(|path| ManifestFile {
                path: path.clone(),
                spec_id: -1,
                is_deletes: false,
                sequence: 0,
                partitions: None,
                live_files: None,
            })
            .collect());
    };
    let bytes = get(locations, list).await?;
    let damaged = |what: &str| IcebergError::damaged(list, what);
    let mut found = Vec::new();
    for value in avro::reader(&bytes).map_err(|e| damaged(&e))? {
        let row = Record::of(value.map_err(|e| damaged(&e.to_string()))?).ok_or_else(|| damaged("no record"))?;
        let counts = [
            row.int(&["added_files_count", "added_data_files_count"]),
            row.int(&["existing_files_count", "existing_data_files_count"]),
        ];
        found.push(ManifestFile {
            path: row.text("manifest_path").ok_or_else(|| damaged("no manifest_path"))?,
            spec_id: id(row.int(&["partition_spec_id"])).ok_or_else(|| damaged("no partition_spec_id"))?,
            is_deletes: row.int(&["content"]) == Some(1),
            sequence: row.int(&["sequence_number"]).unwrap_or(0),
            partitions: row.get("partitions").and_then(summaries),
            live_files: counts[0].zip(counts[1]).map(|(a, b)| a + b),
        });
    }
    Ok(found)
}

fn summaries(value: &Avro) -> Option<Vec<Summary>> {
    let Avro::Array(items) = value else { return None };
    let one = |item: &Avro| {
        let row = Record::of(item.clone())?;
        Some(Summary {
            contains_null: row.bool("contains_null"),
            contains_nan: row.bool("contains_nan"),
            lower: row.bytes("lower_bound"),
            upper: row.bytes("upper_bound"),
        })
    };
    items.iter().map(one).collect()
}

impl ManifestFile {
    /// Returns the bounds of the partition values of its files, one for each field of `spec`.
    pub fn ranges(&self, spec: &PartitionSpec, types: &[Option<Primitive>]) -> Vec<Option<Range>> {
        let Some(partitions) = self.partitions.as_ref().filter(|p| p.len() == spec.fields.len()) else {
            return vec![None; spec.fields.len()];
        };
        let one = |(s, t): (&Summary, &Option<Primitive>)| {
            let t = (*t)?;
            let bound = |bytes: &Option<Vec<u8>>| bytes.as_ref().and_then(|b| Value::from_bytes(t, b));
            let (lower, upper) = Range::bounds(bound(&s.lower), bound(&s.upper));
            Some(Range {
                lower,
                upper,
                has_null: s.contains_null,
                // With neither bounds nor NaN, every value is NULL.
                all_null: Some(s.contains_null == Some(true) && s.lower.is_none() && s.contains_nan == Some(false)),
                has_nan: s.contains_nan,
            })
        };
        partitions.iter().zip(types).map(one).collect()
    }
}

/// Returns the types of a spec's partition values; `None` if the source column is in no schema.
pub fn partition_types(metadata: &TableMetadata, spec: &PartitionSpec) -> Vec<Option<Primitive>> {
    let one = |f: &crate::metadata::PartitionField| {
        let source = crate::value::primitive(&metadata.field_ever(f.source_id)?.field_type)?;
        Some(f.transform.result(source))
    };
    spec.fields.iter().map(one).collect()
}

impl FileEntry {
    /// Returns the bounds of its partition values.
    pub fn partition_ranges(&self, types: &[Option<Primitive>]) -> Vec<Option<Range>> {
        let one = |(value, t): (&Option<Value>, &Option<Primitive>)| {
            t.as_ref()?;
            let is_nan = matches!(value, Some(Value::Double(v)) if v.is_nan());
            Some(Range {
                lower: value.clone(),
                upper: value.clone(),
                has_null: Some(value.is_none()),
                all_null: Some(value.is_none()),
                has_nan: Some(is_nan),
            })
        };
        self.partition.iter().zip(types).map(one).collect()
    }

    /// Returns the bounds of a column, by `schema`.
    pub fn range(&self, schema: &Schema, field: i32) -> Option<Range> {
        Some(self.metrics.range(field, schema.primitive(field)?))
    }
}

/// Reads the live files that a manifest names.
///
/// # Errors
/// [`IcebergError::Read`] or [`IcebergError::Damaged`], for the manifest; [`IcebergError::Unsupported`] if the content
/// of a file is not known.
pub async fn entries(
    locations: &dyn Locations,
    metadata: &TableMetadata,
    manifest: &ManifestFile,
) -> Result<Vec<FileEntry>> {
    let bytes = get(locations, &manifest.path).await?;
    let damaged = |what: &str| IcebergError::damaged(&manifest.path, what);
    let reader = avro::reader(&bytes).map_err(|e| damaged(&e))?;
    let spec_id = match manifest.spec_id {
        // v1 without a manifest list: the manifest itself has the id.
        -1 => reader
            .user_metadata()
            .get("partition-spec-id")
            .and_then(|b| std::str::from_utf8(b).ok()?.parse().ok())
            .unwrap_or(metadata.default_spec_id),
        id => id,
    };
    let spec = metadata.specs.get(&spec_id).ok_or_else(|| damaged(&format!("no partition spec {spec_id}")))?;
    let types = partition_types(metadata, spec);
    let positions = partition_positions(reader.writer_schema(), spec);
    let is_numbered = is_numbered(&reader);
    let mut found = Vec::new();
    for value in reader {
        let row = Record::of(value.map_err(|e| damaged(&e.to_string()))?).ok_or_else(|| damaged("no record"))?;
        let status = row.int(&["status"]).ok_or_else(|| damaged("no status"))?;
        if status == DELETED {
            continue;
        }
        let file = row.get("data_file").cloned().and_then(Record::of).ok_or_else(|| damaged("no data_file"))?;
        let content = match file.int(&["content"]).unwrap_or(0) {
            0 => Content::Data,
            1 => Content::Positions,
            2 => Content::Equality,
            other => return Err(IcebergError::unsupported(format!("'{}': file content {other}", manifest.path))),
        };
        let sequence = match row.int(&["sequence_number"]) {
            Some(n) => n,
            // A new entry has its manifest's number. v1 has none, and files written by it are older than all later
            // ones.
            None if status == ADDED => manifest.sequence,
            None if manifest.sequence == 0 || !is_numbered => 0,
            None => return Err(damaged("an old entry without sequence number")),
        };
        let values = file.get("partition").cloned().and_then(Record::of).unwrap_or_default();
        let mut partition = Vec::with_capacity(spec.fields.len());
        for (at, t) in positions.iter().zip(&types) {
            let value = at.and_then(|at| values.at(at)).unwrap_or(&Avro::Null);
            partition.push(match (value, t) {
                (Avro::Null, _) => None,
                (value, Some(t)) => {
                    let read = Value::from_avro(*t, value);
                    Some(read.ok_or_else(|| damaged(&format!("a partition value {value:?} is no {t:?}")))?)
                }
                // No predicate can refer to it; the text only has to differ for different values.
                (value, None) => Some(Value::String(format!("{value:?}"))),
            });
        }
        found.push(FileEntry {
            path: file.text("file_path").ok_or_else(|| damaged("no file_path"))?,
            content,
            format: file.text("file_format").unwrap_or_default().to_lowercase(),
            spec_id,
            partition,
            records: file.int(&["record_count"]).ok_or_else(|| damaged("no record_count"))?,
            bytes: file.int(&["file_size_in_bytes"]).unwrap_or(0),
            sequence,
            metrics: Metrics {
                value_counts: file.map("value_counts", int),
                null_counts: file.map("null_value_counts", int),
                nan_counts: file.map("nan_value_counts", int),
                lower: file.map("lower_bounds", bytes_of),
                upper: file.map("upper_bounds", bytes_of),
            },
            equality_ids: match file.get("equality_ids") {
                Some(Avro::Array(ids)) => ids.iter().filter_map(|v| id(int(v))).collect(),
                _ => Vec::new(),
            },
            referenced: file.text("referenced_data_file"),
            blob: file
                .int(&["content_offset"])
                .zip(file.int(&["content_size_in_bytes"]))
                .and_then(|(offset, length)| Some((u64::try_from(offset).ok()?, u64::try_from(length).ok()?))),
        });
    }
    Ok(found)
}

/// Entry status: the file was added by the manifest's snapshot.
const ADDED: i64 = 1;
/// Entry status: the file was removed.
const DELETED: i64 = 2;

/// Whether the entries of a manifest have sequence numbers: those of v1 have none, even if the table is of a newer
/// version.
fn is_numbered(reader: &FileReader<'_>) -> bool {
    let is_v1 = reader.user_metadata().get("format-version").is_some_and(|version| version == b"1");
    let apache_avro::Schema::Record(entry) = reader.writer_schema() else { return false };
    !is_v1 && entry.lookup.contains_key("sequence_number")
}

/// Returns the index of each field of the spec in the manifest's partition records, by field id, else by order.
fn partition_positions(schema: &apache_avro::Schema, spec: &PartitionSpec) -> Vec<Option<usize>> {
    use apache_avro::Schema as S;
    let record = |s: &S, name: &str| match s {
        S::Record(r) => r.fields.iter().find(|f| f.name == name).map(|f| f.schema.clone()),
        _ => None,
    };
    let partition = record(schema, "data_file").and_then(|s| record(&s, "partition"));
    let Some(S::Record(fields)) = partition else { return (0..spec.fields.len()).map(Some).collect() };
    let ids: Vec<Option<i64>> =
        fields.fields.iter().map(|f| f.custom_attributes.get("field-id").and_then(serde_json::Value::as_i64)).collect();
    if ids.iter().any(Option::is_none) {
        return (0..spec.fields.len()).map(|at| (at < ids.len()).then_some(at)).collect();
    }
    spec.fields.iter().map(|f| ids.iter().position(|id| *id == Some(f.field_id.into()))).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use object_store::memory::InMemory;
    use object_store::path::Path;
    use object_store::{ObjectStore, ObjectStoreExt};
    use serde_json::{Value as Json, json};

    use super::*;
    use crate::avro::{write_bytes, write_long};

    struct Memory(Arc<InMemory>);

    impl Locations for Memory {
        fn resolve(&self, location: &str) -> std::result::Result<(Arc<dyn ObjectStore>, Path), String> {
            Ok((Arc::clone(&self.0) as _, Path::from(location)))
        }
    }

    /// An Avro file of one block, byte by byte: its records are encoded already.
    fn file(metadata: &[(&str, &str)], schema: &Json, records: &[Vec<u8>]) -> Vec<u8> {
        let mut out = b"Obj\x01".to_vec();
        write_long(&mut out, metadata.len() as i64 + 1);
        write_bytes(&mut out, b"avro.schema");
        write_bytes(&mut out, schema.to_string().as_bytes());
        for (key, value) in metadata {
            write_bytes(&mut out, key.as_bytes());
            write_bytes(&mut out, value.as_bytes());
        }
        out.push(0);
        out.extend([7; 16]);
        write_long(&mut out, records.len() as i64);
        write_bytes(&mut out, &records.concat());
        out.extend([7; 16]);
        out
    }

    /// The schema of a manifest whose files are divided by two UUIDs; with or without the column of sequence numbers.
    fn schema(is_numbered: bool) -> Json {
        let uuid = json!({"type": "fixed", "name": "uuid_fixed", "size": 16, "logicalType": "uuid"});
        let partition = json!({"type": "record", "name": "r102", "fields": [
            {"name": "日期", "type": ["null", uuid], "field-id": 1000},
            {"name": "größe", "type": ["null", uuid], "field-id": 1001}]});
        let file = json!({"type": "record", "name": "r2", "fields": [
            {"name": "file_path", "type": "string"}, {"name": "file_format", "type": "string"},
            {"name": "partition", "type": partition}, {"name": "record_count", "type": "long"}]});
        let number = json!({"name": "sequence_number", "type": ["null", "long"]});
        let fields: Vec<Json> = [json!({"name": "status", "type": "int"})]
            .into_iter()
            .chain(is_numbered.then_some(number))
            .chain([json!({"name": "data_file", "type": file})])
            .collect();
        json!({"type": "record", "name": "manifest_entry", "fields": fields})
    }

    fn entry(status: i64, number: Option<Option<i64>>) -> Vec<u8> {
        let mut out = Vec::new();
        write_long(&mut out, status);
        if let Some(number) = number {
            write_long(&mut out, number.is_some().into());
            number.into_iter().for_each(|n| write_long(&mut out, n));
        }
        write_bytes(&mut out, b"d.parquet");
        write_bytes(&mut out, b"PARQUET");
        write_long(&mut out, 1);
        out.extend(0..16);
        write_long(&mut out, 0);
        write_long(&mut out, 5);
        out
    }

    async fn read(version: i64, sequence: i64, manifest: Vec<u8>) -> Result<Vec<FileEntry>> {
        let store = Arc::new(InMemory::new());
        store.put(&Path::from("m.avro"), manifest.into()).await.unwrap();
        let column = |id, name| json!({"id": id, "name": name, "required": false, "type": "uuid"});
        let by = |id, source, name| json!({"field-id": id, "source-id": source, "name": name, "transform": "identity"});
        let metadata = json!({"format-version": version, "current-schema-id": 0, "default-spec-id": 0,
            "schemas": [{"type": "struct", "schema-id": 0, "fields": [column(1, "日期"), column(2, "größe")]}],
            "partition-specs": [{"spec-id": 0, "fields": [by(1000, 1, "日期"), by(1001, 2, "größe")]}]});
        let metadata = TableMetadata::from_json("t.json", &metadata).unwrap();
        let manifest = ManifestFile {
            path: "m.avro".into(),
            spec_id: 0,
            is_deletes: false,
            sequence,
            partitions: None,
            live_files: None,
        };
        entries(&Memory(store), &metadata, &manifest).await
    }

    #[tokio::test]
    async fn partitions_by_uuid_under_names_of_any_script_are_read() {
        let manifest = file(&[], &schema(true), &[entry(1, Some(None))]);
        let found = read(2, 3, manifest).await.unwrap();
        assert_eq!(found[0].partition, [Some(Value::Bytes((0..16).collect())), None]);
        assert_eq!((found[0].sequence, found[0].records, found[0].path.as_str()), (3, 5, "d.parquet"));
    }

    #[tokio::test]
    async fn entries_of_upgraded_tables_are_the_oldest() {
        // Status 0: the entry is older than its manifest.
        let old = [("format-version", "1")];
        for (version, sequence, metadata, manifest, expected) in [
            (2, 0, &old[..], (false, entry(0, None)), Some(0)),
            (3, 0, &[], (false, entry(0, None)), Some(0)),
            (3, 7, &old, (true, entry(0, Some(None))), Some(0)),
            (2, 0, &[], (true, entry(0, Some(None))), Some(0)),
            (2, 7, &[], (true, entry(0, Some(Some(4)))), Some(4)),
            (2, 7, &[], (true, entry(1, Some(None))), Some(7)),
            (1, 0, &[], (false, entry(0, None)), Some(0)),
            // A newer manifest whose old entry has no number is damaged: which deletes apply is not known.
            (2, 7, &[("format-version", "2")], (true, entry(0, Some(None))), None),
        ] {
            let found = read(version, sequence, file(metadata, &schema(manifest.0), &[manifest.1])).await;
            assert_eq!(found.ok().map(|f| f[0].sequence), expected, "version {version}, sequence {sequence}");
        }
    }
}
