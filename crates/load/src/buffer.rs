//! Rows that wait to be sorted: a buffer per tablet, and pushes that came too early.

use std::collections::{BTreeMap, HashMap, VecDeque};

use arrow_array::cast::AsArray;
use arrow_array::types::ByteViewType;
use arrow_array::{Array, ArrayRef, GenericByteViewArray, RecordBatch};
use arrow_buffer::Buffer as Bytes;
use arrow_data::ArrayData;
use arrow_schema::DataType;
use dipper_store::table::data::Tablet;

/// Rows of one tablet.
#[derive(Debug)]
pub(crate) struct Part {
    pub tablet: Tablet,
    pub batch: RecordBatch,
    pub bytes: u64,
}

/// Rows of one tablet that are to become a segment.
#[derive(Debug)]
pub(crate) struct Chunk {
    /// Number of the chunk within the load, from 0.
    pub number: u64,
    pub tablet: Tablet,
    /// The rows, in the order of the input.
    pub parts: Vec<RecordBatch>,
    pub bytes: u64,
}

#[derive(Debug, Default)]
struct Buffer {
    /// Batches with the number of their push.
    parts: Vec<(u64, RecordBatch)>,
    rows: usize,
    bytes: u64,
}

/// Limits at which buffers are cut.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    /// Rows of one buffer.
    pub rows: usize,
    /// Bytes of one buffer.
    pub bytes: u64,
    /// Bytes of all buffers together.
    pub total: u64,
}

/// All rows that no thread is working on.
#[derive(Debug)]
pub(crate) struct Buffers {
    limits: Limits,
    tablets: HashMap<Tablet, Buffer>,
    /// Bytes in `tablets`.
    pub bytes: u64,
    /// Number of the push that enters next, and the pushes that wait for it; used only if the order matters.
    pub next: u64,
    early: BTreeMap<u64, Vec<Part>>,
    /// Bytes in `early`.
    pub early_bytes: u64,
    /// Chunks that no thread has taken yet.
    pub ready: VecDeque<Chunk>,
    chunks: u64,
}

impl Buffers {
    pub fn new(limits: Limits) -> Self {
        Buffers {
            limits,
            tablets: HashMap::new(),
            bytes: 0,
            next: 0,
            early: BTreeMap::new(),
            early_bytes: 0,
            ready: VecDeque::new(),
            chunks: 0,
        }
    }

    /// Takes a push whose position in the order does not matter.
    pub fn take(&mut self, order: u64, parts: Vec<Part>) {
        for part in parts {
            let buffer = self.tablets.entry(part.tablet).or_default();
            buffer.rows += part.batch.num_rows();
            buffer.bytes += part.bytes;
            self.bytes += part.bytes;
            buffer.parts.push((order, part.batch));
            if buffer.rows >= self.limits.rows || buffer.bytes >= self.limits.bytes {
                self.cut(part.tablet);
            }
        }
        while self.bytes > self.limits.total {
            let Some(tablet) = self.tablets.iter().max_by_key(|(_, b)| b.bytes).map(|(t, _)| *t) else { break };
            self.cut(tablet);
        }
    }

    /// Takes a push in its turn; an early one waits.
    pub fn take_in_order(&mut self, order: u64, parts: Vec<Part>) {
        if order != self.next {
            self.early_bytes += parts.iter().map(|p| p.bytes).sum::<u64>();
            self.early.insert(order, parts);
            return;
        }
        self.take(order, parts);
        self.next += 1;
        while let Some(parts) = self.early.remove(&self.next) {
            self.early_bytes -= parts.iter().map(|p| p.bytes).sum::<u64>();
            self.take(self.next, parts);
            self.next += 1;
        }
    }

    /// Returns the number of the lowest push that still waits.
    pub fn first_early(&self) -> Option<u64> {
        self.early.keys().next().copied()
    }

    fn cut(&mut self, tablet: Tablet) {
        let Some(mut buffer) = self.tablets.remove(&tablet) else { return };
        self.bytes -= buffer.bytes;
        buffer.parts.sort_by_key(|(order, _)| *order);
        let parts = buffer.parts.into_iter().map(|(_, batch)| batch).collect();
        self.ready.push_back(Chunk { number: self.chunks, tablet, parts, bytes: buffer.bytes });
        self.chunks += 1;
    }

    /// Cuts all buffers, in the order of their tablets.
    pub fn cut_all(&mut self) {
        let mut tablets: Vec<_> = self.tablets.keys().copied().collect();
        tablets.sort_unstable();
        tablets.into_iter().for_each(|t| self.cut(t));
    }

    /// Drops all rows.
    pub fn clear(&mut self) {
        *self = Buffers::new(self.limits);
    }
}

/// Returns the bytes of memory that a batch keeps alive; buffers shared by several columns count once.
///
/// Called for every batch of a load, often for some rows of a hundred columns: columns of numbers and strings are
/// counted without an allocation.
pub fn memory_of(batch: &RecordBatch) -> u64 {
    fn of_data(data: &ArrayData, seen: &mut Vec<*const u8>) -> u64 {
        let bytes: u64 = data.buffers().iter().map(|b| once(b, seen)).sum();
        bytes
            + data.nulls().map_or(0, |n| n.len() as u64 / 8)
            + data.child_data().iter().map(|d| of_data(d, seen)).sum::<u64>()
    }
    // Few buffers are shared: blocks of text, and the buffers of strings.
    fn once(buffer: &Bytes, seen: &mut Vec<*const u8>) -> u64 {
        if buffer.is_empty() || seen.contains(&buffer.as_ptr()) {
            return 0;
        }
        seen.push(buffer.as_ptr());
        buffer.len() as u64
    }
    fn of_views<T: ByteViewType>(array: &GenericByteViewArray<T>, seen: &mut Vec<*const u8>) -> u64 {
        let texts: u64 = array.data_buffers().iter().map(|b| once(b, seen)).sum();
        texts + 16 * array.len() as u64
    }
    let mut seen = Vec::new();
    let mut bytes = 0;
    for column in batch.columns() {
        bytes += column.nulls().map_or(0, |n| n.len() as u64 / 8);
        bytes += match column.data_type() {
            DataType::Utf8View => of_views(column.as_string_view(), &mut seen),
            DataType::BinaryView => of_views(column.as_binary_view(), &mut seen),
            t => match t.primitive_width() {
                Some(width) => (width * column.len()) as u64,
                None => of_data(&column.to_data(), &mut Vec::new()),
            },
        };
    }
    bytes
}

/// Copies rows of a batch, including their long strings: the kept rows must not keep the rest of the batch alive.
pub(crate) fn gather(
    batch: &RecordBatch,
    rows: &arrow_array::UInt32Array,
) -> Result<RecordBatch, arrow_schema::ArrowError> {
    let columns = batch
        .columns()
        .iter()
        .map(|c| Ok(compact(arrow_select::take::take(c.as_ref(), rows, None)?)))
        .collect::<Result<Vec<_>, arrow_schema::ArrowError>>()?;
    RecordBatch::try_new(batch.schema(), columns)
}

fn compact(array: ArrayRef) -> ArrayRef {
    match array.data_type() {
        DataType::Utf8View => std::sync::Arc::new(array.as_string_view().gc()),
        DataType::BinaryView => std::sync::Arc::new(array.as_binary_view().gc()),
        // Nested strings keep their batch alive; blocks are a MiB, and a tablet's share of rows is usually large.
        _ => array,
    }
}
