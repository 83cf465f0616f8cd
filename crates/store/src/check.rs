//! Verification of a whole store: chains, checksums of every byte of data, keys, labels and leases, and that everything
//! named exists.
//!
//! Reads only. Every problem is listed with the object's name, and no problem ends the check.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap, HashSet};
use std::sync::Arc;

use futures::{StreamExt, TryStreamExt};
use object_store::path::Path;
use object_store::{Error, ObjectMeta, ObjectStore, ObjectStoreExt};
use roaring::RoaringBitmap;

use crate::catalog::{Catalog, CatalogError, CatalogState, TableId};
use crate::chain::{ChainError, Checkpoint, Done, decode, is_stray, number};
use crate::labels::Named;
use crate::segment::{KeyIter, ObjectReader, PageCache, SegmentError};
use crate::table::data::{SegmentId, Tablet};
use crate::table::schema::Model;
use crate::table::{SegmentRef, Table, TableError, TableState, table_path};

/// Bytes of pages cached while checking; each page is read once.
const CACHE_BYTES: usize = 16 << 20;
/// Key blocks read at a time.
const BLOCKS: usize = 64;
/// Small objects read at a time.
const READS: usize = 32;
/// Most names of a kind that are listed one by one; the others are counted.
const TOLD_MAX: usize = 100;

/// Findings of a check.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Report {
    /// Native tables.
    pub tables: u64,
    /// Data objects that tables name.
    pub objects: u64,
    /// Bytes of those objects, all of them read.
    pub bytes: u64,
    /// Rows that are not deleted.
    pub rows: u64,
    /// Objects below a table's directory that no state names: they belong to loads under way, or are left for the next
    /// vacuum.
    pub unreferenced: u64,
    /// Findings that may be harmless or not; each sentence says in which case.
    pub suspicious: Vec<String>,
    /// Defects, one sentence each.
    pub problems: Vec<String>,
}

/// Checks everything that the catalog of a store leads to. `progress` is called with each table's name before it is
/// read.
///
/// # Errors
/// [`CatalogError`] if the catalog itself cannot be read. Everything else is reported as a [problem](Report::problems).
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
            Err(e) => {
                let missing = match &e {
                    TableError::Chain(ChainError::Contended { .. }) => missing_object(store, table.id).await,
                    _ => None,
                };
                found.problems.push(match missing {
                    Some(path) => format!("table {name}: {path} is missing; restore the table from a backup"),
                    None => format!("table {name}: {e}"),
                });
            }
        }
        // A table that was dropped meanwhile does not count.
        if !found.problems.is_empty() && catalog.refresh().await?.table_by_id(table.id).is_none() {
            continue;
        }
        report.add(found);
    }
    check_unnamed_tables(store, &catalog, &mut report).await?;
    check_names(store, &mut report).await;
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

/// Returns the id of the table whose directory has that name.
fn table_id(name: &str) -> Option<TableId> {
    u64::from_str_radix(name, 16).ok().map(TableId).filter(|id| id.to_string() == name)
}

/// Lists directories of tables, for a message.
fn directories(ids: &[TableId]) -> String {
    let mut text: Vec<String> = ids.iter().take(TOLD_MAX).map(|id| table_path(*id).to_string()).collect();
    if ids.len() > TOLD_MAX {
        text.push(format!("and {} more", ids.len() - TOLD_MAX));
    }
    text.join(", ")
}

/// Reports tables that exist but that the catalog does not name. With a catalog they may be in order; without one,
/// nothing leads to anything that was ever loaded.
async fn check_unnamed_tables(
    store: &Arc<dyn ObjectStore>,
    catalog: &Catalog,
    report: &mut Report,
) -> Result<(), CatalogError> {
    let root = Path::from("t");
    // Listed before the catalog is read: a table made later is not in the list.
    let listed = match store.list_with_delimiter(Some(&root)).await {
        Ok(listed) => listed,
        Err(e) => {
            report.problems.push(format!("cannot list the directories of tables below {root}/: {e}"));
            return Ok(());
        }
    };
    let named: HashSet<TableId> = catalog.refresh().await?.tables().map(|(_, table)| table.id).collect();
    let ids = listed.common_prefixes.iter().filter_map(|dir| table_id(dir.filename()?));
    let unnamed: Vec<TableId> = ids.filter(|id| !named.contains(id)).collect();
    if catalog.version() == 0 {
        report.problems.push(match unnamed.len() {
            0 => "there is no database here: nothing was ever created in this place".into(),
            n => format!(
                "there is no catalog, but {n} tables: {}; a database has lost all below catalog/; a backup has lost its list, \
                 the object 'backup', or was cut off before it had one; a storage volume is checked with its database",
                directories(&unnamed)
            ),
        });
        return Ok(());
    }
    let mut kept = Vec::new();
    for id in unnamed {
        match Table::open(Arc::clone(store), id).await {
            // Dropped, or the rest of a chain that a vacuum is deleting.
            Ok(table) if table.snapshot().is_dropped() => {}
            Err(TableError::NotFound { .. }) => {}
            Ok(_) => kept.push(id),
            Err(e) => report.suspicious.push(format!(
                "{}: the catalog does not name this table, and it cannot be read ({e}); it is of use only if newer \
                 versions of the catalog were lost",
                table_path(id)
            )),
        }
    }
    if !kept.is_empty() {
        report.suspicious.push(format!(
            "{} tables that the catalog does not name and that were not dropped: {}; they are of statements that are under \
             way or were cut off, and vacuum removes them, unless newer versions of the catalog were lost: then start no \
             server before those are back",
            kept.len(),
            directories(&kept)
        ));
    }
    Ok(())
}

/// Returns the missing object without which a table cannot be read: a part of its newest checkpoint, or a version after
/// that checkpoint and below the newest one. `None` if no object is missing, for example because a vacuum removed it
/// meanwhile, or if the store fails.
pub(crate) async fn missing_object(store: &Arc<dyn ObjectStore>, id: TableId) -> Option<Path> {
    let [checkpoints, parts, versions] = ["c", "p", "v"].map(|kind| table_path(id).join(kind));
    let list = async |dir: &Path| -> Option<BTreeSet<Path>> {
        store.list(Some(dir)).map_ok(|m| m.location).try_collect().await.ok()
    };
    let numbers = |dir: &Path, paths: &BTreeSet<Path>| -> BTreeSet<u64> {
        paths.iter().filter_map(|path| number(dir, path)).collect()
    };
    let newest = numbers(&checkpoints, &list(&checkpoints).await?).pop_last();
    let (mut missing, mut above) = (None, 0_u64);
    if let Some(ordinal) = newest {
        let path = checkpoints.clone().join(format!("{ordinal:020}"));
        let bytes = store.get(&path).await.ok()?.bytes().await.ok()?;
        let checkpoint: Checkpoint<TableState> = decode::<TableState, _>(path.as_ref(), ordinal, &bytes).ok()?;
        let there = list(&parts).await?;
        let mut named = checkpoint.parts.iter().map(|name| parts.clone().join(name.to_string()));
        missing = named.find(|path| !there.contains(path));
        above = checkpoint.number;
    }
    if missing.is_none() {
        // Versions below the checkpoint are freed in any order.
        let there = numbers(&versions, &list(&versions).await?);
        let gap = (above.saturating_add(1)..*there.last()?).find(|number| !there.contains(number))?;
        missing = Some(versions.join(format!("{gap:020}")));
    }
    let missing = missing?;
    // A listing is not a snapshot, and objects that a newer checkpoint replaces are freed.
    let gone = matches!(store.head(&missing).await, Err(Error::NotFound { .. }));
    let same = numbers(&checkpoints, &list(&checkpoints).await?).pop_last() == newest;
    (gone && same).then_some(missing)
}

/// Kind of an object, by its name.
enum Kind {
    /// Read with the catalog or its table, or without content that shows whether it is whole.
    Known,
    /// Not read by opening the catalog and the tables.
    Unread(Unread),
    /// Not one of dipper's objects.
    Stray,
}

/// An object that is read to check whether it is whole, with the number in its name.
#[derive(Clone, Copy)]
enum Unread {
    CatalogDone(u64),
    TableDone(u64),
    Label(Named),
}

fn kind(path: &Path) -> Kind {
    let parts: Vec<&str> = path.as_ref().split('/').collect();
    let (dir, kind) = match parts[..] {
        ["catalog", kind, _] => (Path::from("catalog").join(kind), kind),
        ["t", id, kind, _] => match (table_id(id), kind) {
            (None, _) => return Kind::Stray,
            // Checked with the table.
            (Some(_), "d") => return Kind::Known,
            (Some(id), _) => (table_path(id).join(kind), kind),
        },
        ["label" | "lease", ..] => {
            return Named::of(path).map_or(Kind::Stray, |named| Kind::Unread(Unread::Label(named)));
        }
        // Logs of rejected rows, which are text, and leftovers of a test of the bucket that was cut off.
        ["errors" | "probe", _] => return Kind::Known,
        _ => return Kind::Stray,
    };
    match (kind, number(&dir, path)) {
        ("v" | "c", Some(_)) => Kind::Known,
        ("done", Some(number)) if parts[0] == "catalog" => Kind::Unread(Unread::CatalogDone(number)),
        ("done", Some(number)) => Kind::Unread(Unread::TableDone(number)),
        ("p", None) if !is_stray(&dir, path) => Kind::Known,
        _ => Kind::Stray,
    }
}

impl Unread {
    fn verify(self, path: &Path, bytes: &[u8]) -> Result<(), ChainError> {
        match self {
            Self::CatalogDone(number) => decode::<CatalogState, Done>(path.as_ref(), number, bytes).map(drop),
            Self::TableDone(number) => decode::<TableState, Done>(path.as_ref(), number, bytes).map(drop),
            Self::Label(named) => named.verify(path, bytes),
        }
    }

    /// Returns the message for a damaged object. Labels and leases are not in backups: the remedy is to do without
    /// them.
    fn problem(self, e: ChainError) -> String {
        match (self, e) {
            (Self::Label(Named::Lease(_)), ChainError::Damaged { path, reason }) => {
                format!("{path}: damaged: {reason}; delete it: a node that is alive writes its lease again")
            }
            (Self::Label(_), ChainError::Damaged { path, reason }) => {
                let (label, _) = path.split_once('-').unwrap_or((path.as_str(), ""));
                format!(
                    "{path}: damaged: {reason}; loads with its label are refused until {label}-* are deleted, and happen \
                     again after that"
                )
            }
            (_, e) => e.to_string(),
        }
    }
}

/// Visits all names in the store: reads objects that opening the catalog and the tables leaves unread, and reports
/// names that are not dipper's.
async fn check_names(store: &Arc<dyn ObjectStore>, report: &mut Report) {
    let mut told: HashSet<String> = report.suspicious.iter().cloned().collect();
    let (mut unread, mut strays) = (BTreeMap::new(), 0);
    let mut listed = store.list(None);
    while let Some(meta) = listed.next().await {
        let path = match meta {
            Ok(meta) => meta.location,
            Err(e) => {
                report.problems.push(format!("cannot list all objects: {e}"));
                break;
            }
        };
        match kind(&path) {
            Kind::Known => {}
            Kind::Unread(how) => {
                unread.insert(path, how);
            }
            // Strays in the directories of versions and checkpoints were reported before.
            Kind::Stray => {
                let note = stray(&path);
                if !told.contains(&note) {
                    strays += 1;
                    if strays <= TOLD_MAX {
                        report.suspicious.push(note.clone());
                        told.insert(note);
                    }
                }
            }
        }
    }
    if strays > TOLD_MAX {
        let more = strays - TOLD_MAX;
        report.suspicious.push(format!("{more} more objects have names that none of dipper's has; they are ignored"));
    }
    let reads = unread.into_iter().map(|(path, how)| async move {
        let read = async { store.get(&path).await?.bytes().await };
        match read.await {
            Ok(bytes) => how.verify(&path, &bytes).err().map(|e| how.problem(e)),
            // The object was deleted meanwhile: nobody needs it.
            Err(Error::NotFound { .. }) => None,
            Err(e) => Some(format!("{path}: cannot be read: {e}")),
        }
    });
    let mut reads = std::pin::pin!(futures::stream::iter(reads.collect::<Vec<_>>()).buffered(READS));
    while let Some(problem) = reads.next().await {
        report.problems.extend(problem);
    }
}

/// Checks a table in the state of the handle's snapshot.
pub async fn check_table(name: &str, table: &Table, report: &mut Report) {
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

/// Counts data objects that no state names. Objects that are newer than the newest version may be all that is left of
/// lost versions: a lost version leaves no gap if it was the last.
async fn check_unnamed(
    name: &str,
    table: &Table,
    named: &BTreeSet<Path>,
    report: &mut Report,
) -> object_store::Result<()> {
    let list = async |dir: &Path| table.store().list(Some(dir)).try_collect::<Vec<ObjectMeta>>().await;
    let (data, versions) = (table_path(table.id()).join("d"), table_path(table.id()).join("v"));
    // Data first: the version of a commit between the two listings is in the second.
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

/// Checks that keys ascend in each segment, and that no two rows of a tablet have the same key.
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
    use super::*;
    use crate::labels::{Acquired, Labels};
    use crate::table::schema::Bounds;
    use crate::table::test_support::{database, memory, object, partition, rowset, schema};

    /// A lost version leaves no gap if it was the last.
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
    async fn an_empty_store_is_no_database() {
        let store = memory();
        let report = check(&store, |_| ()).await.unwrap();
        let problems = vec!["there is no database here: nothing was ever created in this place".to_string()];
        assert_eq!(report, Report { problems, ..Report::default() });
    }

    async fn paths(store: &Arc<dyn ObjectStore>, below: &str) -> Vec<Path> {
        let below = Path::from(below);
        store.list(Some(&below)).map_ok(|m| m.location).try_collect().await.unwrap()
    }

    /// Every byte is read, also in objects that only a repeated load or commit would read.
    #[tokio::test]
    async fn damage_is_found_beside_chains_and_data() {
        let (store, table) = database().await;
        let labels = Labels::start(Arc::clone(&store), None).await.unwrap();
        let Acquired::New(held) = labels.acquire(TableId(7), "l", table.begin(), table.id()).await.unwrap() else {
            panic!("it is the first")
        };
        held.end(false).await.unwrap();
        table.vacuum().await.unwrap();
        Catalog::open(Arc::clone(&store)).await.unwrap().vacuum().await.unwrap();
        let report = check(&store, |_| ()).await.unwrap();
        assert_eq!((report.problems, report.suspicious), (Vec::new(), Vec::new()));
        let done = table_path(table.id()).join("done").to_string();
        let mut damaged = Vec::new();
        for (dir, objects) in [("label", 2), ("lease", 1), ("catalog/done", 1), (done.as_str(), 1)] {
            let found = paths(&store, dir).await;
            assert_eq!(found.len(), objects, "{dir}: {found:?}");
            damaged.extend(found);
        }
        for path in damaged {
            let kept = store.get(&path).await.unwrap().bytes().await.unwrap();
            let mut bytes = kept.to_vec();
            bytes[kept.len() / 2] ^= 4;
            store.put(&path, bytes.into()).await.unwrap();
            let problems = check(&store, |_| ()).await.unwrap().problems;
            assert_eq!(problems.len(), 1, "{path}: {problems:?}");
            assert!(problems[0].starts_with(&format!("{path}: damaged: ")), "{path}: {problems:?}");
            store.put(&path, kept.into()).await.unwrap();
        }
    }

    #[tokio::test]
    async fn foreign_names_are_told() {
        let (store, table) = database().await;
        let chain = table_path(table.id());
        let mut strays =
            ["hello.txt", "t/strange", "t/strange/v/x", "catalog/junk", "catalog/done/x", "label/x", "lease/y"]
                .map(String::from)
                .to_vec();
        strays.extend(
            ["notes", "v/7", "p/7", "done/7/8", "x/00000000000000000007"].map(|name| format!("{chain}/{name}")),
        );
        for path in &strays {
            store.put(&Path::from(path.as_str()), "x".into()).await.unwrap();
        }
        for known in ["errors/1", "probe/1"] {
            store.put(&Path::from(known), "x".into()).await.unwrap();
        }
        let report = check(&store, |_| ()).await.unwrap();
        let mut expected: Vec<String> = strays.iter().map(|path| stray(&Path::from(path.as_str()))).collect();
        let mut found = report.suspicious;
        expected.sort();
        found.sort();
        assert_eq!((report.problems, found), (Vec::new(), expected));
        for number in 0..=TOLD_MAX {
            store.put(&Path::from(format!("a/{number}")), "x".into()).await.unwrap();
        }
        let told = check(&store, |_| ()).await.unwrap().suspicious;
        // The table's own stray beside its versions was reported before and does not count.
        assert_eq!(told.len(), TOLD_MAX + 2, "{told:?}");
        assert!(told[TOLD_MAX + 1].starts_with(&format!("{} more objects", strays.len())), "{told:?}");
    }

    /// A catalog that is gone, or that has lost its newest versions, leaves tables that nothing leads to.
    #[tokio::test]
    async fn tables_without_a_catalog_are_told() {
        let (store, table) = database().await;
        let schema = schema(Model::Duplicate, false);
        let partitions = vec![partition(0, "p", Bounds::All)];
        let [unnamed, dropped] = [TableId::fresh(), TableId::fresh()];
        for id in [unnamed, dropped] {
            Table::create(Arc::clone(&store), id, schema.clone(), partitions.clone()).await.unwrap();
        }
        Table::open(Arc::clone(&store), dropped).await.unwrap().tombstone().await.unwrap();
        let report = check(&store, |_| ()).await.unwrap();
        assert_eq!((report.tables, report.problems, report.suspicious.len()), (1, Vec::new(), 1));
        let note = &report.suspicious[0];
        let told =
            format!("1 tables that the catalog does not name and that were not dropped: {};", table_path(unnamed));
        assert!(note.starts_with(&told), "{note}");
        for path in paths(&store, "catalog").await {
            store.delete(&path).await.unwrap();
        }
        let problems = check(&store, |_| ()).await.unwrap().problems;
        assert_eq!(problems.len(), 1, "{problems:?}");
        assert!(problems[0].starts_with("there is no catalog, but 3 tables: t/"), "{problems:?}");
        assert!(problems[0].contains(table_path(table.id()).as_ref()), "{problems:?}");
    }

    #[tokio::test]
    async fn a_missing_object_of_a_chain_is_named() {
        let (store, table) = database().await;
        let load = async || {
            let object = object(table.begin(), 0, &[(0, 0, 1)]);
            table.publish(rowset(vec![object])).await.unwrap();
        };
        let missing = async || missing_object(&store, table.id()).await;
        let version = |number: u64| table_path(table.id()).join("v").join(format!("{number:020}"));
        let take = async |path: &Path| {
            let kept = store.get(path).await.unwrap().bytes().await.unwrap();
            store.delete(path).await.unwrap();
            assert_eq!(missing().await.as_ref(), Some(path));
            store.put(path, kept.into()).await.unwrap();
        };
        load().await;
        load().await;
        assert_eq!(missing().await, None);
        take(&version(1)).await;
        take(&version(2)).await;
        table.vacuum().await.unwrap();
        load().await;
        load().await;
        assert_eq!(missing().await, None, "versions below a checkpoint are not");
        take(&version(4)).await;
        let part = paths(&store, table_path(table.id()).join("p").as_ref()).await.pop().unwrap();
        take(&part).await;
        assert_eq!(missing().await, None);
    }
}
