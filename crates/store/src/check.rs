//! Verifies a whole store: chains, checksums of every byte of data, keys, and that everything named is there.
//!
//! Reads only. What it finds is listed with the object's name; it stops at nothing.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};
use std::sync::Arc;

use futures::TryStreamExt;
use object_store::path::Path;
use object_store::{ObjectMeta, ObjectStore};
use roaring::RoaringBitmap;

use crate::catalog::{Catalog, CatalogError};
use crate::chain::number;
use crate::segment::{KeyIter, ObjectReader, PageCache, SegmentError};
use crate::table::data::{SegmentId, Tablet};
use crate::table::schema::Model;
use crate::table::{SegmentRef, Table, table_path};

/// Bytes of pages kept while checking: each is read once.
const CACHE_BYTES: usize = 16 << 20;
/// Key blocks read at a time.
const BLOCKS: usize = 64;

/// What was seen.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Report {
    /// Native tables.
    pub tables: u64,
    /// Data objects that tables name.
    pub objects: u64,
    /// Their bytes, all of them read.
    pub bytes: u64,
    /// Rows that are not deleted.
    pub rows: u64,
    /// Objects below a table's directory that no state names: of loads under way, or left for the next vacuum.
    pub unreferenced: u64,
    /// What may be wrong or may be in order, a sentence each that says when it is which.
    pub suspicious: Vec<String>,
    /// What is wrong, a sentence each.
    pub problems: Vec<String>,
}

/// Checks everything that the catalog of a store leads to. `progress` is told each table's name before it is read.
///
/// # Errors
/// The catalog itself cannot be read; all else is a [problem](Report::problems).
pub async fn check(store: &Arc<dyn ObjectStore>, mut progress: impl FnMut(&str)) -> Result<Report, CatalogError> {
    let catalog = Catalog::open(Arc::clone(store)).await?;
    let state = catalog.snapshot();
    let mut report = Report::default();
    report.suspicious.extend(catalog.strays().iter().map(stray));
    for (database, table) in state.tables().filter(|(_, t)| t.is_native()) {
        let name = format!("{}.{}", database.name, table.name);
        progress(&name);
        let mut found = Report { tables: 1, ..Report::default() };
        match Table::open(Arc::clone(store), table.id).await {
            Ok(handle) => check_table(&name, &handle, &mut found).await,
            Err(e) => found.problems.push(format!("table {name}: {e}")),
        }
        // One that was dropped meanwhile is nobody's any more.
        if !found.problems.is_empty() && catalog.refresh().await?.table_by_id(table.id).is_none() {
            continue;
        }
        report.add(found);
    }
    Ok(report)
}

impl Report {
    fn add(&mut self, other: Report) {
        self.tables += other.tables;
        self.objects += other.objects;
        self.bytes += other.bytes;
        self.rows += other.rows;
        self.unreferenced += other.unreferenced;
        self.suspicious.extend(other.suspicious);
        self.problems.extend(other.problems);
    }
}

fn stray(path: &Path) -> String {
    format!("{path}: no object of dipper's has such a name; it is ignored")
}

/// Checks a table as it is in the handle's snapshot.
pub(crate) async fn check_table(name: &str, table: &Table, report: &mut Report) {
    let state = table.snapshot();
    if state.is_dropped() {
        report.problems.push(format!("table {name}: the catalog names it, and it was dropped"));
        return;
    }
    report.rows += state.rows();
    let cache = PageCache::new(CACHE_BYTES);
    let mut tablets: BTreeMap<Tablet, Vec<SegmentRef<'_>>> = BTreeMap::new();
    let (mut named, mut damaged) = (BTreeSet::new(), BTreeSet::new());
    for segment in state.all_segments() {
        let path = table.data_path(segment.id.object);
        if named.insert(path.clone()) {
            report.objects += 1;
            report.bytes += segment.object.bytes;
            let opened = ObjectReader::open(table.store(), &path, segment.object, &cache).await;
            let verified = match opened {
                Ok(reader) => reader.verify().await,
                Err(e) => Err(e),
            };
            match verified {
                Ok(()) => {}
                Err(e) => {
                    damaged.insert(path.clone());
                    report.problems.push(format!("table {name}: {e}"));
                }
            }
        }
        if let Some(deleted) = segment.deleted.and_then(|d| d.max()).filter(|row| *row >= segment.segment.rows) {
            let rows = segment.segment.rows;
            report
                .problems
                .push(format!("table {name}: segment {} has {rows} rows, row {deleted} is deleted", segment.id));
        }
        if state.schema().model == Model::Unique && !damaged.contains(&path) {
            tablets.entry(segment.segment.tablet).or_default().push(segment);
        }
    }
    for (tablet, segments) in tablets {
        // Only the objects of one tablet are open at a time.
        let checked = async {
            let mut runs = Vec::with_capacity(segments.len());
            for s in segments {
                let path = table.data_path(s.id.object);
                let reader = ObjectReader::open(table.store(), &path, s.object, &cache).await?;
                runs.push(KeyRun::new(s.id, reader, s.deleted.cloned()));
            }
            check_keys(name, tablet, runs, report).await
        };
        if let Err(e) = checked.await {
            report.problems.push(format!("table {name}: {e}"));
        }
    }
    for prepared in state.prepared().values() {
        for object in &prepared.rowset.objects {
            let path = table.data_path(object.id);
            named.insert(path.clone());
            if let Err(e) = ObjectReader::open(table.store(), &path, object, &cache).await {
                report.problems.push(format!("table {name}, prepared load {}: {e}", prepared.rowset.txn));
            }
        }
    }
    report.suspicious.extend(table.strays().iter().map(stray));
    if let Err(e) = check_unnamed(name, table, &named, report).await {
        report.problems.push(format!("table {name}: cannot list its objects: {e}"));
    }
}

/// Counts data objects that no state names. Those that are newer than the newest version may be all that is left of newer
/// ones: a version that is gone leaves no gap when it was the last.
async fn check_unnamed(
    name: &str,
    table: &Table,
    named: &BTreeSet<Path>,
    report: &mut Report,
) -> object_store::Result<()> {
    let list = async |dir: &Path| table.store().list(Some(dir)).try_collect::<Vec<ObjectMeta>>().await;
    let (data, versions) = (table_path(table.id()).join("d"), table_path(table.id()).join("v"));
    // Data first: what is committed between the two listings has its version in the second.
    let mut unnamed = list(&data).await?;
    unnamed.retain(|m| !named.contains(&m.location));
    report.unreferenced += unnamed.len() as u64;
    // Strays do not count: they may be newer than anything.
    let version = |m: &&ObjectMeta| number(&versions, &m.location).is_some();
    let newest = list(&versions).await?.iter().filter(version).map(|m| m.last_modified).max();
    let state = table.snapshot();
    let removed: BTreeSet<Path> = state.removed().map(|(id, _)| table.data_path(id)).collect();
    unnamed.retain(|m| !removed.contains(&m.location) && newest.is_none_or(|newest| m.last_modified >= newest));
    if let Some(first) = unnamed.iter().min_by_key(|m| m.last_modified) {
        report.suspicious.push(format!(
            "table {name}: {} data objects that version {} does not name are newer than it, {} of {} the first; they are of \
             loads that are under way, failed or were aborted, unless versions after it were lost: then loads that \
             were acknowledged since are missing",
            unnamed.len(),
            table.version(),
            first.location,
            first.last_modified.format("%Y-%m-%d %H:%M:%S UTC"),
        ));
    }
    Ok(())
}

/// The keys of a segment's rows that are not deleted, in order.
struct KeyRun {
    id: SegmentId,
    reader: Arc<ObjectReader>,
    deleted: Option<Arc<RoaringBitmap>>,
    blocks: std::vec::IntoIter<KeyIter>,
    next_block: usize,
    current: Option<KeyIter>,
}

impl KeyRun {
    fn new(id: SegmentId, reader: Arc<ObjectReader>, deleted: Option<Arc<RoaringBitmap>>) -> Self {
        KeyRun { id, reader, deleted, blocks: Vec::new().into_iter(), next_block: 0, current: None }
    }

    async fn next(&mut self) -> Result<Option<Vec<u8>>, SegmentError> {
        loop {
            if let Some(block) = &mut self.current {
                while let Some((key, row)) = block.advance()? {
                    if self.deleted.as_ref().is_none_or(|d| !d.contains(row)) {
                        return Ok(Some(key.to_vec()));
                    }
                }
            }
            self.current = self.blocks.next();
            if self.current.is_some() {
                continue;
            }
            let total = self.reader.key_blocks(self.id.ordinal);
            if self.next_block >= total {
                return Ok(None);
            }
            let end = (self.next_block + BLOCKS).min(total);
            self.blocks = self.reader.keys(self.id.ordinal, self.next_block..end).await?.into_iter();
            self.next_block = end;
        }
    }
}

/// Keys ascend in each segment, and no two rows of a tablet have the same.
async fn check_keys(
    name: &str,
    tablet: Tablet,
    mut runs: Vec<KeyRun>,
    report: &mut Report,
) -> Result<(), SegmentError> {
    let mut heap: BinaryHeap<Reverse<(Vec<u8>, usize)>> = BinaryHeap::new();
    for (at, run) in runs.iter_mut().enumerate() {
        if let Some(key) = run.next().await? {
            heap.push(Reverse((key, at)));
        }
    }
    let mut last: Option<(Vec<u8>, usize)> = None;
    let mut twice = 0_u64;
    while let Some(Reverse((key, at))) = heap.pop() {
        match runs[at].next().await? {
            Some(next) if next < key => {
                let segment = runs[at].id;
                report.problems.push(format!("table {name}: keys of segment {segment} do not ascend"));
                return Ok(());
            }
            Some(next) => heap.push(Reverse((next, at))),
            None => {}
        }
        twice += u64::from(last.as_ref().is_some_and(|(before, _)| *before == key));
        last = Some((key, at));
    }
    if twice > 0 {
        let Tablet { partition, bucket } = tablet;
        report.problems.push(format!(
            "table {name}: {twice} keys of partition {partition}, bucket {bucket} are there more than once"
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use object_store::ObjectStoreExt;

    use super::*;
    use crate::catalog::TableId;
    use crate::table::schema::Bounds;
    use crate::table::test_support::{memory, object, partition, rowset, schema};

    /// A version that is gone leaves no gap when it was the last.
    #[tokio::test]
    async fn data_behind_the_newest_version_is_told() {
        let store = memory();
        let id = TableId::fresh();
        let partitions = vec![partition(0, "p", Bounds::All)];
        let table = Table::create(Arc::clone(&store), id, schema(Model::Duplicate, false), partitions).await.unwrap();
        let written = async || {
            let object = object(table.begin(), 0, &[(0, 0, 1)]);
            store.put(&table.data_path(object.id), vec![7; 10].into()).await.unwrap();
            object
        };
        let seen = async || {
            let mut report = Report::default();
            check_table("d.t", &Table::open(Arc::clone(&store), id).await.unwrap(), &mut report).await;
            (report.unreferenced, report.suspicious)
        };
        written().await;
        table.publish(rowset(vec![written().await])).await.unwrap();
        assert_eq!(seen().await, (1, Vec::new()), "a load that was given up before");
        let lost = written().await;
        let path = table.data_path(lost.id);
        table.publish(rowset(vec![lost])).await.unwrap();
        let versions = table_path(id).join("v");
        store.delete(&versions.clone().join(format!("{:020}", table.version()))).await.unwrap();
        store.put(&versions.join("7"), "x".into()).await.unwrap();
        let (unreferenced, suspicious) = seen().await;
        assert_eq!((unreferenced, suspicious.len()), (2, 2), "{suspicious:?}");
        assert!(suspicious[0].contains("/v/7: no object of dipper's"), "{suspicious:?}");
        assert!(suspicious[1].starts_with("table d.t: 1 data objects that version"), "{suspicious:?}");
        assert!(suspicious[1].contains(path.as_ref()), "{suspicious:?}");
    }

    #[tokio::test]
    async fn an_empty_store_is_sound() {
        let store = memory();
        let report = check(&store, |_| ()).await.unwrap();
        assert_eq!(report, Report::default());
    }
}
