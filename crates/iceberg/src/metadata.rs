//! Table metadata: the JSON file that describes a table's present and past states.

use std::collections::HashMap;
use std::io::Read;

use serde_json::Value as Json;

use crate::error::{IcebergError, Result};
use crate::schema::{Field, Schema};
use crate::transform::Transform;
use crate::{Locations, get};

/// Newest supported version of the specification.
const FORMAT_MAX: i64 = 3;

/// Larger metadata, after decompression, counts as damaged.
const METADATA_BYTES_MAX: u64 = 1 << 30;

/// A table as one metadata file describes it.
#[derive(Debug, Clone)]
pub struct TableMetadata {
    /// Location of the metadata file.
    pub metadata_location: String,
    /// Version of the specification, 1 to 3.
    pub format_version: i64,
    /// Root of the table.
    pub location: String,
    /// Time of the last change: milliseconds since 1970, UTC.
    pub last_updated_ms: i64,
    /// All schemas that the table had.
    pub schemas: Vec<Schema>,
    /// Id of the current schema.
    pub current_schema_id: i32,
    /// Partition specs by id.
    pub specs: HashMap<i32, PartitionSpec>,
    /// Id of the spec for new files.
    pub default_spec_id: i32,
    /// Properties.
    pub properties: HashMap<String, String>,
    /// Id of the newest snapshot; `None` for a table without rows.
    pub current_snapshot_id: Option<i64>,
    /// Snapshots that have not expired.
    pub snapshots: Vec<Snapshot>,
    /// Time since which each snapshot was the current one, and its id; oldest first.
    pub snapshot_log: Vec<(i64, i64)>,
    /// Branches and tags: name to snapshot, and whether it is a branch.
    pub refs: HashMap<String, (i64, bool)>,
}

/// The division of files into partitions.
#[derive(Debug, Clone, PartialEq)]
pub struct PartitionSpec {
    /// Its id.
    pub id: i32,
    /// Its fields, in the order of partition values.
    pub fields: Vec<PartitionField>,
}

impl PartitionSpec {
    /// Whether all files are in one partition.
    pub fn is_unpartitioned(&self) -> bool {
        self.fields.iter().all(|f| f.transform == Transform::Void)
    }
}

/// A field of a partition spec.
#[derive(Debug, Clone, PartialEq)]
pub struct PartitionField {
    /// Id of the column from which it is computed.
    pub source_id: i32,
    /// Its own id, under which manifests store its values.
    pub field_id: i32,
    /// Name.
    pub name: String,
    /// The computation.
    pub transform: Transform,
}

/// One state of a table.
#[derive(Debug, Clone)]
pub struct Snapshot {
    /// Identity.
    pub id: i64,
    /// The snapshot from which it was made.
    pub parent_id: Option<i64>,
    /// Time of creation: milliseconds since 1970, UTC.
    pub timestamp_ms: i64,
    /// Its manifest list.
    pub manifest_list: Option<String>,
    /// v1: its manifests, if there is no list.
    pub manifests: Vec<String>,
    /// Id of the schema at its creation.
    pub schema_id: Option<i32>,
    /// `total-records` and the like.
    pub summary: HashMap<String, String>,
}

/// Selects a state of a table.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum At {
    /// The current one.
    Now,
    /// A snapshot id, a branch or a tag.
    Version(String),
    /// A branch.
    Branch(String),
    /// A tag.
    Tag(String),
    /// The snapshot that was current at this time: milliseconds since 1970, UTC.
    Time(i64),
}

impl TableMetadata {
    /// Reads the metadata file at `location` (`.json`, or `.gz` within its name for compressed ones).
    ///
    /// # Errors
    /// [`IcebergError::Read`] if it cannot be read, [`IcebergError::Damaged`] if it is malformed,
    /// [`IcebergError::Unsupported`] if its version is newer.
    pub async fn load(locations: &dyn Locations, location: &str) -> Result<TableMetadata> {
        let bytes = get(locations, location).await?;
        let mut plain = Vec::new();
        let json: Json = if bytes.starts_with(&[0x1f, 0x8b]) {
            flate2::read::MultiGzDecoder::new(bytes.as_ref())
                .take(METADATA_BYTES_MAX)
                .read_to_end(&mut plain)
                .map_err(|e| IcebergError::damaged(location, e.to_string()))?;
            serde_json::from_slice(&plain)
        } else {
            serde_json::from_slice(&bytes)
        }
        .map_err(|e| IcebergError::damaged(location, e.to_string()))?;
        Self::from_json(location, &json)
    }

    /// Parses metadata from its JSON, which came from `location`.
    ///
    /// # Errors
    /// [`IcebergError::Damaged`] if it violates the specification, [`IcebergError::Unsupported`] if its version is
    /// newer.
    pub fn from_json(location: &str, json: &Json) -> Result<TableMetadata> {
        let damaged = |what: String| IcebergError::damaged(location, what);
        let int = |j: &Json, key: &str| j.get(key).and_then(Json::as_i64);
        let id = |n: i64| i32::try_from(n).map_err(|_| damaged(format!("the id {n} is out of range")));
        let format_version = int(json, "format-version").ok_or_else(|| damaged("no format-version".into()))?;
        if !(1..=FORMAT_MAX).contains(&format_version) {
            return Err(IcebergError::unsupported(format!("'{location}': Iceberg format version {format_version}")));
        }
        let (schemas, current_schema_id) = match json.get("schemas").and_then(Json::as_array).filter(|s| !s.is_empty())
        {
            Some(list) => {
                let schemas: Vec<Schema> =
                    list.iter().map(|s| Schema::from_json(location, s)).collect::<Result<_>>()?;
                let current = match int(json, "current-schema-id") {
                    Some(n) => id(n)?,
                    None => return Err(damaged("no current-schema-id".into())),
                };
                (schemas, current)
            }
            None => {
                let schema = json.get("schema").ok_or_else(|| damaged("no schema".into()))?;
                let schema = Schema::from_json(location, schema)?;
                let current = schema.id;
                (vec![schema], current)
            }
        };
        let (specs, default_spec_id) = match json.get("partition-specs").and_then(Json::as_array) {
            Some(list) => {
                let specs = list.iter().map(|s| spec(location, s)).collect::<Result<Vec<_>>>()?;
                (specs, id(int(json, "default-spec-id").unwrap_or(0))?)
            }
            None => {
                let fields = json.get("partition-spec").cloned().unwrap_or(Json::Array(Vec::new()));
                let made = serde_json::json!({"spec-id": 0, "fields": fields});
                (vec![spec(location, &made)?], 0)
            }
        };
        let strings = |j: Option<&Json>| -> HashMap<String, String> {
            let pairs = j.and_then(Json::as_object).into_iter().flatten();
            pairs.filter_map(|(k, v)| Some((k.clone(), v.as_str()?.to_string()))).collect()
        };
        let snapshot = |j: &Json| -> Result<Snapshot> {
            Ok(Snapshot {
                id: int(j, "snapshot-id").ok_or_else(|| damaged("a snapshot has no id".into()))?,
                parent_id: int(j, "parent-snapshot-id"),
                timestamp_ms: int(j, "timestamp-ms").unwrap_or(0),
                manifest_list: j.get("manifest-list").and_then(Json::as_str).map(str::to_string),
                manifests: match j.get("manifests").and_then(Json::as_array) {
                    Some(list) => list.iter().filter_map(|m| Some(m.as_str()?.to_string())).collect(),
                    None => Vec::new(),
                },
                schema_id: int(j, "schema-id").map(id).transpose()?,
                summary: strings(j.get("summary")),
            })
        };
        let snapshots = json.get("snapshots").and_then(Json::as_array).into_iter().flatten();
        let snapshots = snapshots.map(snapshot).collect::<Result<Vec<_>>>()?;
        let log = json.get("snapshot-log").and_then(Json::as_array).into_iter().flatten();
        let refs = json.get("refs").and_then(Json::as_object).into_iter().flatten();
        let found = TableMetadata {
            metadata_location: location.to_string(),
            format_version,
            location: json.get("location").and_then(Json::as_str).unwrap_or_default().to_string(),
            last_updated_ms: int(json, "last-updated-ms").unwrap_or(0),
            schemas,
            current_schema_id,
            specs: specs.into_iter().map(|s| (s.id, s)).collect(),
            default_spec_id,
            properties: strings(json.get("properties")),
            // v1 writes -1 if there is none.
            current_snapshot_id: int(json, "current-snapshot-id").filter(|n| *n >= 0),
            snapshots,
            snapshot_log: log.filter_map(|e| Some((int(e, "timestamp-ms")?, int(e, "snapshot-id")?))).collect(),
            refs: refs
                .filter_map(|(name, r)| {
                    let is_branch = r.get("type").and_then(Json::as_str) != Some("tag");
                    Some((name.clone(), (int(r, "snapshot-id")?, is_branch)))
                })
                .collect(),
        };
        found.schema_of(found.current_schema_id)?;
        Ok(found)
    }

    /// Returns the schema of that id.
    ///
    /// # Errors
    /// [`IcebergError::Damaged`] if there is none.
    pub fn schema_of(&self, id: i32) -> Result<&Schema> {
        self.schemas
            .iter()
            .find(|s| s.id == id)
            .ok_or_else(|| IcebergError::damaged(&self.metadata_location, format!("no schema {id}")))
    }

    /// Returns the selected snapshot (`None`: a table that never had rows), and the schema to read it by: the current
    /// one, or that of an older snapshot.
    ///
    /// # Errors
    /// [`IcebergError::NoSnapshot`] if there is no such snapshot.
    pub fn at(&self, at: &At) -> Result<(Option<&Snapshot>, &Schema)> {
        let by_id = |id: i64| self.snapshots.iter().find(|s| s.id == id);
        let there = || {
            let mut ids: Vec<String> = self.snapshots.iter().rev().take(5).map(|s| s.id.to_string()).collect();
            ids.extend(self.refs.keys().filter(|r| *r != "main").cloned());
            match ids.is_empty() {
                true => "it has no snapshots".to_string(),
                false => format!("there are {}", ids.join(", ")),
            }
        };
        let none = |wanted: String| IcebergError::NoSnapshot { wanted, there: there() };
        let now = self.schema_of(self.current_schema_id)?;
        match at {
            At::Now => match self.current_snapshot_id {
                None => Ok((None, now)),
                Some(id) => Ok((Some(by_id(id).ok_or_else(|| none(format!("snapshot {id}")))?), now)),
            },
            At::Version(text) => {
                let reference = self.refs.get(text).copied();
                let found = reference.map(|(id, _)| id).or_else(|| text.parse().ok()).and_then(by_id);
                let found = found.ok_or_else(|| none(format!("snapshot, branch or tag '{text}'")))?;
                // A branch is read by the table's schema, a tag or an id by the snapshot's own.
                let is_branch = reference.is_some_and(|(_, is_branch)| is_branch);
                Ok((Some(found), if is_branch { now } else { self.schema_at(found)? }))
            }
            // Every table has this branch, even if its metadata names none.
            At::Branch(name) if name == "main" && !self.refs.contains_key(name) => self.at(&At::Now),
            At::Branch(name) | At::Tag(name) => {
                let is_branch = matches!(at, At::Branch(_));
                let kind = if is_branch { "branch" } else { "tag" };
                let found = self.refs.get(name).filter(|(_, is)| *is == is_branch).and_then(|(id, _)| by_id(*id));
                let found = found.ok_or_else(|| none(format!("{kind} '{name}'")))?;
                Ok((Some(found), if is_branch { now } else { self.schema_at(found)? }))
            }
            At::Time(ms) => {
                let logged = self.snapshot_log.iter().rev().find(|(since, _)| since <= ms).map(|(_, id)| *id);
                let found = logged.and_then(by_id).ok_or_else(|| none(format!("snapshot as old as {}", time(*ms))))?;
                Ok((Some(found), self.schema_at(found)?))
            }
        }
    }

    fn schema_at(&self, snapshot: &Snapshot) -> Result<&Schema> {
        self.schema_of(snapshot.schema_id.unwrap_or(self.current_schema_id))
    }

    /// Returns a column by id in any schema, newest first: deletes can name columns that have been dropped.
    pub fn field_ever(&self, id: i32) -> Option<&Field> {
        self.schemas.iter().rev().find_map(|s| s.field(id))
    }
}

fn time(ms: i64) -> String {
    chrono::DateTime::from_timestamp_millis(ms)
        .map_or_else(|| format!("{ms} ms"), |t| t.format("%F %T%.3f UTC").to_string())
}

fn spec(location: &str, json: &Json) -> Result<PartitionSpec> {
    let damaged = |what: &str| IcebergError::damaged(location, format!("a partition spec: {what}: {json}"));
    let id = |j: &Json, key: &str| j.get(key).and_then(Json::as_i64).and_then(|n| i32::try_from(n).ok());
    let fields = json.get("fields").and_then(Json::as_array).ok_or_else(|| damaged("no fields"))?;
    let fields = fields.iter().enumerate().map(|(at, f)| {
        let transform = f.get("transform").and_then(Json::as_str).ok_or_else(|| damaged("no transform"))?;
        // v3 allows several sources of a transform; no known transform has more than one.
        let sources = f.get("source-ids").and_then(Json::as_array);
        let source_id = match sources.map(Vec::as_slice) {
            Some([one]) => one.as_i64().and_then(|n| i32::try_from(n).ok()),
            Some(_) => Some(-1),
            None => id(f, "source-id"),
        };
        Ok(PartitionField {
            source_id: source_id.ok_or_else(|| damaged("no source-id"))?,
            // v1 numbers fields by position.
            field_id: id(f, "field-id").unwrap_or(1000 + at as i32),
            name: f.get("name").and_then(Json::as_str).unwrap_or_default().to_string(),
            transform: Transform::from_text(transform),
        })
    });
    Ok(PartitionSpec { id: id(json, "spec-id").unwrap_or(0), fields: fields.collect::<Result<_>>()? })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn snapshots_are_found_by_id_reference_and_time() {
        let field = json!({"id": 1, "name": "a", "required": false, "type": "int"});
        let renamed = json!({"id": 1, "name": "b", "required": false, "type": "long"});
        let m = TableMetadata::from_json(
            "m.json",
            &json!({"format-version": 2, "location": "/t", "current-schema-id": 1, "schemas": [
                {"type": "struct", "schema-id": 0, "fields": [field]}, {"type": "struct", "schema-id": 1, "fields": [renamed]}],
            "partition-specs": [{"spec-id": 0, "fields": []}], "default-spec-id": 0, "current-snapshot-id": 20,
            "snapshots": [{"snapshot-id": 10, "timestamp-ms": 100, "manifest-list": "l1", "schema-id": 0},
                {"snapshot-id": 20, "timestamp-ms": 200, "manifest-list": "l2", "schema-id": 1}],
            "snapshot-log": [{"timestamp-ms": 100, "snapshot-id": 10}, {"timestamp-ms": 200, "snapshot-id": 20}],
            "refs": {"old": {"snapshot-id": 10, "type": "tag"}}}),
        )
        .unwrap();
        let at = |at: At| m.at(&at).map(|(s, schema)| (s.map(|s| s.id), schema.fields[0].name.as_str()));
        assert_eq!(at(At::Now), Ok((Some(20), "b")));
        assert_eq!(at(At::Version("10".into())), Ok((Some(10), "a")));
        assert_eq!(at(At::Version("old".into())), Ok((Some(10), "a")));
        assert_eq!(at(At::Tag("old".into())), Ok((Some(10), "a")));
        assert_eq!(at(At::Branch("main".into())), Ok((Some(20), "b")));
        assert!(
            at(At::Branch("old".into())).unwrap_err().to_string().contains("no branch 'old'; there are 20, 10, old")
        );
        assert_eq!(at(At::Time(150)), Ok((Some(10), "a")));
        assert_eq!(at(At::Time(200)), Ok((Some(20), "b")));
        assert!(at(At::Time(50)).unwrap_err().to_string().contains("1970-01-01 00:00:00.050"));
        assert!(at(At::Version("none".into())).unwrap_err().to_string().contains("20, 10, old"));
        let newer = json!({"format-version": 4});
        assert!(TableMetadata::from_json("m.json", &newer).unwrap_err().to_string().contains("version 4"));
    }
}
