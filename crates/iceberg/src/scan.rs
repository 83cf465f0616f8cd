//! Planning: the files of a snapshot that a query reads, and the deletes that apply to each.

use std::collections::HashMap;
use std::sync::Arc;

use futures::{StreamExt, TryStreamExt};

use crate::error::{IcebergError, Result};
use crate::manifest::{self, Content, FileEntry, ManifestFile};
use crate::metadata::{Snapshot, TableMetadata};
use crate::predicate::Predicate;
use crate::schema::Schema;
use crate::{Locations, value::Value};

/// Number of manifests that are read concurrently.
const MANIFESTS_AT_ONCE: usize = 16;

/// A data file to read.
#[derive(Debug, Clone)]
pub struct Task {
    /// The file.
    pub file: Arc<FileEntry>,
    /// Files of deleted positions, including deletion vectors, that may name rows of the data file.
    pub positions: Vec<Arc<FileEntry>>,
    /// Equality deletes that apply to the data file.
    pub equality: Vec<Arc<FileEntry>>,
}

/// Files that a scan reads.
#[derive(Debug, Clone, Default)]
pub struct Plan {
    /// Files, in the order of the manifests.
    pub tasks: Vec<Task>,
    /// Number of manifests of data files in the snapshot, and of those that were read.
    pub manifests: (usize, usize),
    /// Number of data files in the manifests that were read.
    pub files: usize,
}

/// Finds the files of `snapshot` that can hold rows that meet `predicate` (fields by `schema`).
///
/// # Errors
/// [`IcebergError::Read`] or [`IcebergError::Damaged`] for metadata, [`IcebergError::Unsupported`] for a data file that
/// is not Parquet.
pub async fn plan(
    locations: &dyn Locations,
    metadata: &TableMetadata,
    snapshot: &Snapshot,
    schema: &Schema,
    predicate: &Predicate,
) -> Result<Plan> {
    let all = manifest::manifests(locations, snapshot).await?;
    let may_match = |m: &ManifestFile| {
        if m.live_files == Some(0) {
            return false;
        }
        match metadata.specs.get(&m.spec_id) {
            None => true,
            Some(spec) => {
                predicate.may_match_partition(spec, &m.ranges(spec, &manifest::partition_types(metadata, spec)))
            }
        }
    };
    let (deletes, data): (Vec<_>, Vec<_>) = all.into_iter().partition(|m| m.is_deletes);
    let of_snapshot = data.len();
    let data: Vec<_> = data.into_iter().filter(may_match).collect();
    // The predicate must not leave out deletes: a global equality delete has partition values of another spec.
    let deletes: Vec<_> = deletes.into_iter().filter(|m| m.live_files != Some(0)).collect();
    let mut plan = Plan { manifests: (of_snapshot, data.len()), ..Plan::default() };
    let data = read(locations, metadata, data).await?;
    let deletes = Deletes::new(metadata, read(locations, metadata, deletes).await?)?;
    for file in data {
        plan.files += 1;
        if file.content != Content::Data {
            return Err(IcebergError::damaged(&file.path, "a delete file in a manifest of data"));
        }
        let spec = &metadata.specs[&file.spec_id];
        let types = manifest::partition_types(metadata, spec);
        if file.records == 0
            || !predicate.may_match_partition(spec, &file.partition_ranges(&types))
            || !predicate.may_match(&|field| file.range(schema, field))
        {
            continue;
        }
        if file.format != "parquet" {
            return Err(IcebergError::unsupported(format!("'{}': a data file of format {}", file.path, file.format)));
        }
        let positions = deletes.positions(&file);
        let equality = deletes.equality(&file, schema);
        plan.tasks.push(Task { file: Arc::new(file), positions, equality });
    }
    Ok(plan)
}

async fn read(
    locations: &dyn Locations,
    metadata: &TableMetadata,
    manifests: Vec<ManifestFile>,
) -> Result<Vec<FileEntry>> {
    let all: Vec<Vec<FileEntry>> = futures::stream::iter(manifests)
        .map(|m| async move { manifest::entries(locations, metadata, &m).await })
        .buffered(MANIFESTS_AT_ONCE)
        .try_collect()
        .await?;
    Ok(all.into_iter().flatten().collect())
}

/// A partition: its spec, and its values as a text that differs for different values.
type PartitionKey = (i32, String);

fn partition_key(spec: i32, values: &[Option<Value>]) -> PartitionKey {
    (spec, format!("{values:?}"))
}

/// Delete files by the data that they apply to.
#[derive(Default)]
struct Deletes {
    of_file: HashMap<String, Vec<Arc<FileEntry>>>,
    of_partition: HashMap<PartitionKey, Vec<Arc<FileEntry>>>,
    equality: HashMap<PartitionKey, Vec<Arc<FileEntry>>>,
    equality_everywhere: Vec<Arc<FileEntry>>,
}

impl Deletes {
    fn new(metadata: &TableMetadata, files: Vec<FileEntry>) -> Result<Deletes> {
        let mut all = Deletes::default();
        for file in files {
            let file = Arc::new(file);
            let key = partition_key(file.spec_id, &file.partition);
            match (file.content, &file.referenced) {
                (Content::Data, _) => {
                    return Err(IcebergError::damaged(&file.path, "a data file in a manifest of deletes"));
                }
                (Content::Positions, Some(referenced)) => {
                    all.of_file.entry(referenced.clone()).or_default().push(file);
                }
                (Content::Positions, None) => all.of_partition.entry(key).or_default().push(file),
                (Content::Equality, _) if metadata.specs[&file.spec_id].is_unpartitioned() => {
                    all.equality_everywhere.push(file);
                }
                (Content::Equality, _) => all.equality.entry(key).or_default().push(file),
            }
        }
        Ok(all)
    }

    /// Returns the position deletes of a data file. They apply to files of their own load too.
    fn positions(&self, data: &FileEntry) -> Vec<Arc<FileEntry>> {
        let key = partition_key(data.spec_id, &data.partition);
        let own = self.of_file.get(&data.path).into_iter().flatten();
        let shared = self.of_partition.get(&key).into_iter().flatten();
        own.chain(shared).filter(|d| d.sequence >= data.sequence).cloned().collect()
    }

    /// Returns the equality deletes of a data file. They apply only to files of earlier loads, and only if a value of
    /// the file can be among theirs.
    fn equality(&self, data: &FileEntry, schema: &Schema) -> Vec<Arc<FileEntry>> {
        let key = partition_key(data.spec_id, &data.partition);
        let own = self.equality.get(&key).into_iter().flatten();
        own.chain(&self.equality_everywhere)
            .filter(|d| d.sequence > data.sequence && overlaps(d, data, schema))
            .cloned()
            .collect()
    }
}

/// Whether the bounds of the delete and of the file allow a common value in every column.
fn overlaps(delete: &FileEntry, data: &FileEntry, schema: &Schema) -> bool {
    delete.equality_ids.iter().all(|id| {
        let Some((d, f)) = delete.range(schema, *id).zip(data.range(schema, *id)) else { return true };
        // NULL equals NULL here; NaN is outside of bounds.
        if d.has_null != Some(false) && f.has_null != Some(false) || d.has_nan == Some(true) {
            return true;
        }
        let apart = |upper: &Option<Value>, lower: &Option<Value>| {
            let order = upper.as_ref().zip(lower.as_ref()).and_then(|(u, l)| u.compare(l));
            !matches!(upper, Some(Value::Double(_))) && order == Some(std::cmp::Ordering::Less)
        };
        !apart(&d.upper, &f.lower) && !apart(&f.upper, &d.lower)
    })
}
