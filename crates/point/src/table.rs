//! Tables for look-ups: snapshots with quick access to their tablets' segments.

use std::cell::RefCell;
use std::collections::HashMap;
use std::ops::Deref;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::Poll;

use dipper_store::catalog::TableId;
use dipper_store::key::{KeyEncoder, KeyValue};
use dipper_store::route::Router;
use dipper_store::segment::{ObjectReader, Readers, key_hash};
use dipper_store::table::data::{DataObject, SegmentId};
use dipper_store::table::schema::{Distribution, Model, TableSchema};
use dipper_store::table::{SegmentRef, Table, TableState};
use parking_lot::{Mutex, RwLock};
use roaring::RoaringBitmap;

use crate::cache::{Row, RowCache, RowKey};
use crate::shape::{RowMap, Shape, row_error};
use crate::{PointError, Result};

/// Maximum number of remembered shapes; beyond it all are dropped, and made again on demand.
const SHAPES_MAX: usize = 4096;

/// State that the look-ups of a process share.
#[derive(Debug)]
pub struct Points {
    readers: Arc<Readers>,
    cache: RowCache,
    tables: RwLock<HashMap<TableId, Arc<PointTable>>>,
    shapes: Mutex<HashMap<(TableId, u64, Vec<usize>), Option<Arc<Shape>>>>,
    next_shape: AtomicU32,
}

impl Points {
    /// Creates the state. Objects are opened through `readers`, and the row cache has `row_cache_bytes`.
    pub fn new(readers: Arc<Readers>, row_cache_bytes: u64) -> Self {
        Points {
            readers,
            cache: RowCache::new(row_cache_bytes),
            tables: RwLock::default(),
            shapes: Mutex::default(),
            next_shape: AtomicU32::new(1),
        }
    }

    /// Returns the row cache.
    pub fn cache(&self) -> &RowCache {
        &self.cache
    }

    /// Returns the table's state for look-ups.
    pub fn table(&self, table: &Table) -> Arc<PointTable> {
        if let Some(found) = self.tables.read().get(&table.id()) {
            return Arc::clone(found);
        }
        static NUMBERS: AtomicU64 = AtomicU64::new(0);
        let number = NUMBERS.fetch_add(1, Ordering::Relaxed);
        let readers = Arc::clone(&self.readers);
        let new = PointTable { number, table: table.clone(), readers, view: RwLock::default() };
        Arc::clone(self.tables.write().entry(table.id()).or_insert_with(|| Arc::new(new)))
    }

    /// Removes the state of a table that was dropped.
    pub fn forget(&self, id: TableId) {
        self.tables.write().remove(&id);
        self.shapes.lock().retain(|(table, ..), _| *table != id);
    }

    /// Returns the tables in which look-ups were made.
    pub fn tables(&self) -> Vec<Arc<PointTable>> {
        self.tables.read().values().cloned().collect()
    }

    /// Returns the shape of rows with these columns (indexes into the schema, ascending); `None` if rows cannot hold
    /// the type of a column.
    ///
    /// # Errors
    /// [`PointError::Segment`] if a column's default does not have its type.
    pub fn shape(&self, id: TableId, schema: &Arc<TableSchema>, columns: &[usize]) -> Result<Option<Arc<Shape>>> {
        let mut shapes = self.shapes.lock();
        let key = (id, schema.version, columns.to_vec());
        if let Some(shape) = shapes.get(&key) {
            return Ok(shape.clone());
        }
        if shapes.len() >= SHAPES_MAX {
            shapes.clear();
        }
        let number = self.next_shape.fetch_add(1, Ordering::Relaxed);
        let shape = Shape::try_new(number, schema, columns.to_vec())?.map(Arc::new);
        shapes.insert(key, shape.clone());
        Ok(shape)
    }
}

/// A table, and the snapshot that look-ups used last.
#[derive(Debug)]
pub struct PointTable {
    /// Number within this process: two stores can have tables of the same id.
    number: u64,
    table: Table,
    readers: Arc<Readers>,
    view: RwLock<Option<Arc<View>>>,
}

/// A snapshot of a table.
#[derive(Debug)]
pub struct View {
    /// Number of the [`PointTable`].
    table: u64,
    /// The last known version of the chain that had this state.
    version: AtomicU64,
    state: Arc<TableState>,
    definition: Arc<Definition>,
    /// Tablets by number; made on first use.
    tablets: Vec<OnceLock<Tablet>>,
    /// The previous view, whose open objects the tablets of this one take over.
    before: Mutex<Option<Arc<View>>>,
}

/// Router and encoder derived from a table's definition and partitions.
#[derive(Debug)]
struct Definition {
    router: Router,
    encoder: KeyEncoder,
}

/// The segments of a tablet, newest first.
#[derive(Debug)]
struct Tablet {
    /// [`head`]s of the smallest and the largest key of each segment: the only data of most segments that most look-ups
    /// read.
    bounds: Box<[(u64, u64)]>,
    slots: Box<[Slot]>,
}

/// Returns the first 8 bytes of a key, padded with zeros. The order of heads is consistent with the order of keys.
fn head(key: &[u8]) -> u64 {
    let mut bytes = [0; 8];
    let n = key.len().min(8);
    bytes[..n].copy_from_slice(&key[..n]);
    u64::from_be_bytes(bytes)
}

impl Tablet {
    fn new(slots: Box<[Slot]>) -> Self {
        let bounds = |slot: &Slot| {
            let segment = &slot.object.segments[slot.id.ordinal as usize];
            (head(&segment.key_min), head(&segment.key_max))
        };
        Tablet { bounds: slots.iter().map(bounds).collect(), slots }
    }

    /// Iterates over the segments whose bounds include the key.
    fn spanning<'t>(&'t self, key: &'t [u8]) -> impl Iterator<Item = &'t Slot> {
        let wanted = head(key);
        self.bounds.iter().zip(&self.slots).filter_map(move |((min, max), slot)| {
            (*min <= wanted && wanted <= *max && (*min < wanted && wanted < *max || slot.spans(key))).then_some(slot)
        })
    }
}

/// A segment of a tablet.
#[derive(Debug)]
struct Slot {
    id: SegmentId,
    object: Arc<DataObject>,
    deleted: Option<Arc<RoaringBitmap>>,
    reader: OnceLock<Arc<ObjectReader>>,
    map: OnceLock<Arc<RowMap>>,
}

impl Slot {
    fn new(segment: &SegmentRef<'_>) -> Self {
        Slot {
            id: segment.id,
            object: Arc::clone(segment.object),
            deleted: segment.deleted.cloned(),
            reader: OnceLock::new(),
            map: OnceLock::new(),
        }
    }

    /// Whether the key is within the segment's bounds.
    fn spans(&self, key: &[u8]) -> bool {
        let segment = &self.object.segments[self.id.ordinal as usize];
        *segment.key_min <= *key && *key <= *segment.key_max
    }

    fn is_deleted(&self, row: u32) -> bool {
        self.deleted.as_ref().is_some_and(|d| d.contains(row))
    }

    /// Returns the conversion of its rows into a shape. One conversion is kept: most tables are read in one shape.
    fn map(&self, shape: &Shape, reader: &ObjectReader) -> Result<Arc<RowMap>> {
        if let Some(map) = self.map.get()
            && map.shape == shape.id
        {
            return Ok(Arc::clone(map));
        }
        let map = Arc::new(RowMap::new(shape, reader, self.id.ordinal)?);
        let _ = self.map.set(Arc::clone(&map));
        Ok(map)
    }
}

impl View {
    fn new(of: &PointTable, version: u64, state: Arc<TableState>, before: Option<Arc<View>>) -> Result<Self> {
        let definition = match &before {
            Some(before) if before.state.same_definition(&state) => Arc::clone(&before.definition),
            _ => {
                let schema = state.schema();
                let table = |reason| PointError::Table { table: of.table.id().to_string(), reason };
                if schema.model != Model::Unique {
                    return Err(table("it is no UNIQUE KEY table"));
                }
                if schema.distribution == Distribution::Random {
                    return Err(table("its rows are distributed at random"));
                }
                let partitions: Vec<_> = state.partitions().cloned().collect();
                let router = Router::try_new(schema, &partitions)?;
                Arc::new(Definition { router, encoder: KeyEncoder::for_table(schema)? })
            }
        };
        let tablets = (0..definition.router.tablets()).map(|_| OnceLock::new()).collect();
        // Take over only from the directly preceding view, so that old views do not form a chain.
        if let Some(before) = &before {
            *before.before.lock() = None;
        }
        let before = before.filter(|b| Arc::ptr_eq(&b.definition, &definition));
        let version = AtomicU64::new(version);
        Ok(View { table: of.number, version, state, definition, tablets, before: Mutex::new(before) })
    }

    /// Returns the snapshot.
    pub fn state(&self) -> &Arc<TableState> {
        &self.state
    }

    /// Encodes a key of these values, one per key column, into `out`, and returns the number of its tablet; `None` if
    /// no partition takes it.
    ///
    /// # Errors
    /// [`PointError::Key`] if a value does not have the type of its key column; [`PointError::Route`] if it cannot be
    /// routed.
    pub fn tablet(&self, values: &[KeyValue<'_>], out: &mut Vec<u8>) -> Result<Option<u32>> {
        out.clear();
        self.definition.encoder.encode_row(values, out)?;
        let value = |column: usize| values.get(column).copied().unwrap_or(KeyValue::Null);
        Ok(self.definition.router.route_one(self.state.schema(), value)?)
    }

    /// Returns the tablet of that number; `None` if there is none.
    fn segments(&self, tablet: u32) -> Option<&Tablet> {
        let cell = self.tablets.get(tablet as usize)?;
        Some(cell.get_or_init(|| {
            let mut segments: Vec<_> = self.state.tablet_segments(self.definition.router.tablet(tablet)).collect();
            // Most look-ups ask for new rows. The order does not affect the result: of all rows of a key, only one is
            // not deleted.
            segments.sort_by_key(|s| std::cmp::Reverse((s.seq, s.id)));
            let slots: Box<[Slot]> = segments.iter().map(Slot::new).collect();
            let before = self.before.lock().clone();
            if let Some(old) = before.as_ref().and_then(|b| b.tablets[tablet as usize].get()) {
                let old: HashMap<_, _> = old.slots.iter().map(|o| (o.id, o)).collect();
                for slot in &slots {
                    let Some(old) = old.get(&slot.id) else { continue };
                    if let Some(reader) = old.reader.get() {
                        let _ = slot.reader.set(Arc::clone(reader));
                    }
                    if let Some(map) = old.map.get() {
                        let _ = slot.map.set(Arc::clone(map));
                    }
                }
            }
            Tablet::new(slots)
        }))
    }
}

/// Number of views kept by a thread.
const HELD: usize = 8;

thread_local! {
    /// The views that this thread used last, by table: taking one touches no memory that other threads write.
    static VIEWS: RefCell<[Option<Arc<View>>; HELD]> = const { RefCell::new([const { None }; HELD]) };
}

fn held_at(table: u64) -> usize {
    table as usize % HELD
}

/// A view that the thread keeps for its next look-up.
#[derive(Debug)]
pub struct HeldView(Option<Arc<View>>);

impl Deref for HeldView {
    type Target = Arc<View>;

    fn deref(&self) -> &Arc<View> {
        self.0.as_ref().expect("it is there until it is dropped")
    }
}

impl Drop for HeldView {
    fn drop(&mut self) {
        let view = self.0.take();
        if let Some(at) = view.as_ref().map(|v| held_at(v.table)) {
            // A thread that is ending keeps no view.
            let _ = VIEWS.try_with(|views| views.borrow_mut()[at] = view);
        }
    }
}

impl PointTable {
    /// Returns the table.
    pub fn table(&self) -> &Table {
        &self.table
    }

    /// Returns the newest snapshot that this process knows.
    ///
    /// # Errors
    /// [`PointError::Table`] if the table has no look-ups by key; [`PointError::Route`] or [`PointError::Key`] if its
    /// definition is damaged.
    pub fn view(&self) -> Result<Arc<View>> {
        // In this order: a state that came in between is newer than its version says, and only counts as outdated once.
        let version = self.table.version();
        let state = self.table.snapshot();
        let before = match &*self.view.read() {
            Some(view) if Arc::ptr_eq(&view.state, &state) => {
                view.version.fetch_max(version, Ordering::Relaxed);
                return Ok(Arc::clone(view));
            }
            before => before.clone(),
        };
        let view = Arc::new(View::new(self, version, state, before)?);
        *self.view.write() = Some(Arc::clone(&view));
        Ok(view)
    }

    /// Returns the newest snapshot, kept by this thread between calls: for look-ups at a high rate.
    ///
    /// # Errors
    /// The errors of [`view`](Self::view).
    pub fn held(&self) -> Result<HeldView> {
        let held = VIEWS.with_borrow_mut(|views| views[held_at(self.number)].take());
        match held
            .filter(|view| view.table == self.number && view.version.load(Ordering::Relaxed) == self.table.version())
        {
            Some(view) => Ok(HeldView(Some(view))),
            None => self.view().map(|view| HeldView(Some(view))),
        }
    }

    /// Returns the slot's object if it is open or can be opened without waiting.
    fn open_now<'s>(&self, slot: &'s Slot) -> Result<Option<&'s Arc<ObjectReader>>> {
        if let Some(reader) = slot.reader.get() {
            return Ok(Some(reader));
        }
        let reader = self.readers.get_now(&self.table.data_path(slot.id.object), &slot.object)?;
        Ok(reader.map(|reader| slot.reader.get_or_init(|| reader)))
    }

    async fn open<'s>(&self, slot: &'s Slot) -> Result<&'s Arc<ObjectReader>> {
        if let Some(reader) = slot.reader.get() {
            return Ok(reader);
        }
        let reader = self.readers.get(&self.table.data_path(slot.id.object), &slot.object).await?;
        Ok(slot.reader.get_or_init(|| reader))
    }

    /// Returns the row of a key that [`View::tablet`] encoded, if there is one; pending if data must be fetched for it.
    ///
    /// # Errors
    /// [`PointError::Segment`] or [`PointError::Row`] if an object is damaged.
    pub fn get_now(
        &self,
        cache: &RowCache,
        view: &View,
        shape: &Shape,
        tablet: u32,
        key: &[u8],
    ) -> Result<Poll<Option<Row>>> {
        let hash = key_hash(key);
        let Some(tablet) = view.segments(tablet) else { return Ok(Poll::Ready(None)) };
        let mut spanning = tablet.spanning(key).peekable();
        let mut alone = true;
        while let Some(slot) = spanning.next() {
            let Some(reader) = self.open_now(slot)? else { return Ok(Poll::Pending) };
            let ordinal = slot.id.ordinal;
            // Of several segments, most do not have the key, and their filters tell that at a lower cost than the
            // cache. A single segment nearly always has the key: if the cache does not have the row, the index asks its
            // filter.
            alone &= spanning.peek().is_none();
            if !alone && !reader.may_have_key(ordinal, hash)? {
                continue;
            }
            let at = RowKey { segment: slot.id, shape: shape.id, hash };
            if let Some(row) = cache.get(&at, key) {
                match slot.is_deleted(row.number()) {
                    true => continue,
                    false => return Ok(Poll::Ready(Some(row))),
                }
            }
            let row = match reader.find_now(ordinal, key, hash)? {
                Poll::Pending => return Ok(Poll::Pending),
                Poll::Ready(None) => continue,
                Poll::Ready(Some(row)) if slot.is_deleted(row) => continue,
                Poll::Ready(Some(row)) => row,
            };
            let map = slot.map(shape, reader)?;
            if map.needs_pages() {
                return Ok(Poll::Pending);
            }
            let stored = match map.stored {
                false => Default::default(),
                true => match reader.row_now(ordinal, row)? {
                    Poll::Pending => return Ok(Poll::Pending),
                    Poll::Ready(stored) => stored,
                },
            };
            let row = made(&map, shape, reader, &at, (row, key), &stored, &[])?;
            cache.put(&at, key, &row);
            return Ok(Poll::Ready(Some(row)));
        }
        Ok(Poll::Ready(None))
    }

    /// Returns the row of a key like [`get_now`](Self::get_now), and fetches data that is not in memory.
    ///
    /// # Errors
    /// [`PointError::Segment`] or [`PointError::Row`] if an object is damaged or cannot be read.
    pub async fn get(
        &self,
        cache: &RowCache,
        view: &View,
        shape: &Shape,
        tablet: u32,
        key: &[u8],
    ) -> Result<Option<Row>> {
        let hash = key_hash(key);
        let Some(tablet) = view.segments(tablet) else { return Ok(None) };
        for slot in tablet.spanning(key) {
            let reader = self.open(slot).await?;
            let ordinal = slot.id.ordinal;
            let at = RowKey { segment: slot.id, shape: shape.id, hash };
            if let Some(row) = cache.get(&at, key) {
                match slot.is_deleted(row.number()) {
                    true => continue,
                    false => return Ok(Some(row)),
                }
            }
            let Some(row) = reader.find(ordinal, key).await?.filter(|row| !slot.is_deleted(*row)) else { continue };
            let map = slot.map(shape, reader)?;
            let pages = map.pages(shape, reader, ordinal, row).await?;
            let stored = if map.stored { reader.row(ordinal, row).await? } else { Default::default() };
            let row = made(&map, shape, reader, &at, (row, key), &stored, &pages)?;
            cache.put(&at, key, &row);
            return Ok(Some(row));
        }
        Ok(None)
    }
}

/// Makes the row in a shape from the segment's stored row and pages.
fn made(
    map: &RowMap,
    shape: &Shape,
    reader: &ObjectReader,
    at: &RowKey,
    (number, key): (u32, &[u8]),
    stored: &[u8],
    pages: &[u8],
) -> Result<Row> {
    Row::try_new(at, number, key, stored.len() + pages.len() + 16, |out| map.put(shape, stored, pages, out))
        .map_err(|source| row_error(reader, at.segment.ordinal, number, source))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::head;

    proptest! {
        #[test]
        fn heads_are_in_the_order_of_keys(a in "[ab]{0,12}", b in "[ab]{0,12}") {
            let (a, b) = (a.as_bytes(), b.as_bytes());
            prop_assert!(a > b || head(a) <= head(b));
            prop_assert_eq!(head(&[b"12345678", a].concat()), head(&[b"12345678", b].concat()));
        }
    }
}
