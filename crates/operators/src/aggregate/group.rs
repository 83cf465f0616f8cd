//! Rows in, records in partitions out: the work of one thread.

use std::sync::Arc;

use arrow_array::builder::LargeBinaryBuilder;
use arrow_array::cast::AsArray;
use arrow_array::types::UInt64Type;
use arrow_array::{ArrayRef, RecordBatch, UInt64Array};
use arrow_schema::{ArrowError, SchemaRef};

use super::keys::{Keys, append, same_fixed, same_texts};
use super::layout::Layout;
use super::states::{self, Rows};
use super::texts::{SHORT, TextColumn, Texts, length, words};
use super::{LEVELS, PARTITION_BITS, PARTITIONS};

/// Number of records in a chunk of a partition, and in the first allocation of one.
pub(super) const CHUNK: usize = 1 << CHUNK_BITS;
pub(super) const CHUNK_BITS: u32 = 10;
const CHUNK_FIRST: usize = 16;

/// The bytes of a table that stays in the cache of a core beside what else is needed.
const TABLE_BYTES: usize = 512 << 10;

/// The bytes of a table that has all groups of its thread, if these are not too many. It lies in the cache that cores
/// share, where a row waits longer; but the row is neither written nor merged later.
const LARGE_BYTES: usize = 16 << 20;

/// Slots of a table that stays in the cache of a core.
const SLOTS_NEAR: usize = TABLE_BYTES / size_of::<u64>();

/// Rows that are grouped at once.
const ROWS: usize = 1024;

/// Rows pass by a table that does not help for as long as this number of tables takes to fill.
const PASSING: usize = 8;

/// Slots of a table that has not grown yet.
const SLOTS_MIN: usize = 4 * ROWS;

/// The first bit of the hash that chooses a slot. Those below are not part of the hash.
pub(super) const SLOT_SHIFT: u32 = super::NULL_BITS;

/// Groups rows by their keys in a table that stays small.
#[derive(Debug)]
pub struct Grouper {
    layout: Arc<Layout>,
    level: u32,
    /// The most groups that a table in the cache of a core has.
    small: usize,
    /// The most groups of a table that has all of its thread; as many as `small` if there is no such table.
    large: usize,
    /// The most groups that the table has now.
    most: usize,
    /// Whether there was a larger table. It is tried once.
    grown: bool,
    /// The number of rows after which there may be as many groups more.
    step: usize,
    /// Half of the hash and the number of a group plus 1; 0 if there is no group.
    slots: Vec<u64>,
    /// The records of the table, one after the other.
    records: Vec<u64>,
    groups: usize,
    /// The long texts of the table.
    texts: Texts,
    /// The rows that the table has taken.
    rows: usize,
    /// All rows that were taken.
    seen: usize,
    /// The number of times that rows still pass by the table.
    passing: usize,
    kept: Records,
    keys: Keys,
    found: Vec<u32>,
}

/// Records in partitions by their hash.
#[derive(Debug)]
pub struct Records {
    pub(super) layout: Arc<Layout>,
    pub(super) partitions: Vec<Partition>,
    /// Number of times that a table was emptied into the partitions. All records differ if it was once.
    pub(super) emptied: usize,
}

/// The records of a partition in chunks of [`CHUNK`].
#[derive(Debug, Default)]
pub(super) struct Partition {
    pub(super) chunks: Vec<Vec<u64>>,
    pub(super) texts: Texts,
    /// Bytes of the chunks.
    bytes: usize,
}

impl Partition {
    /// Appends a record; `long` says where its long texts are, by their number, place and length.
    #[inline]
    fn push<'a>(&mut self, layout: &Layout, record: &[u64], long: impl Fn(usize, u64, usize) -> &'a [u8]) {
        let width = record.len();
        if self.chunks.last().is_none_or(|chunk| chunk.capacity() - chunk.len() < width) {
            self.grow(width);
        }
        let Some(chunk) = self.chunks.last_mut() else { return };
        let at = chunk.len();
        chunk.extend_from_slice(record);
        for (number, word) in layout.texts().enumerate() {
            let length = length(record[word]);
            if length > SHORT {
                chunk[at + word + 1] = self.texts.push(long(number, record[word + 1], length));
            }
        }
    }

    /// Makes room for a record of so many words.
    #[cold]
    fn grow(&mut self, width: usize) {
        match self.chunks.last_mut() {
            Some(chunk) if chunk.len() < CHUNK * width => {
                let before = chunk.capacity();
                chunk.reserve_exact((chunk.len() * 3).min(CHUNK * width - chunk.len()));
                self.bytes += (chunk.capacity() - before) * size_of::<u64>();
            }
            _ => {
                let first = if self.chunks.is_empty() { CHUNK_FIRST } else { CHUNK };
                let chunk = Vec::with_capacity(first * width);
                self.bytes += chunk.capacity() * size_of::<u64>() + size_of::<Vec<u64>>();
                self.chunks.push(chunk);
            }
        }
    }

    /// Returns the bytes that the partition occupies.
    fn bytes(&self) -> usize {
        self.bytes + self.texts.bytes()
    }
}

impl Records {
    fn new(layout: Arc<Layout>) -> Records {
        let partitions = (0..PARTITIONS).map(|_| Partition::default()).collect();
        Records { layout, partitions, emptied: 0 }
    }

    /// Returns the number of records of a partition.
    pub fn len(&self, partition: usize) -> usize {
        let words: usize = self.partitions[partition].chunks.iter().map(Vec::len).sum();
        words / self.layout.width
    }

    /// Returns the bytes that a partition occupies.
    pub fn partition_bytes(&self, partition: usize) -> usize {
        self.partitions[partition].bytes()
    }

    /// Returns the records of a partition as batches of [the layout's schema](Layout::record_schema).
    pub fn batches(
        &self,
        partition: usize,
        schema: &SchemaRef,
    ) -> impl Iterator<Item = Result<RecordBatch, ArrowError>> {
        let Partition { chunks, texts, .. } = &self.partitions[partition];
        chunks.iter().map(move |chunk| batch(&self.layout, chunk, texts, schema))
    }
}

/// Returns records as a batch of the layout's schema.
pub(super) fn batch(
    layout: &Layout,
    records: &[u64],
    texts: &Texts,
    schema: &SchemaRef,
) -> Result<RecordBatch, ArrowError> {
    let records = records.chunks_exact(layout.width);
    let word =
        |at: usize| -> ArrayRef { Arc::new(UInt64Array::from_iter_values(records.clone().map(|record| record[at]))) };
    let text = |at: usize| -> ArrayRef {
        let (mut values, mut bytes) = (LargeBinaryBuilder::new(), Vec::new());
        for record in records.clone() {
            bytes.clear();
            append(&mut bytes, record[at], record[at + 1], texts);
            values.append_value(&bytes);
        }
        Arc::new(values.finish())
    };
    let mut columns: Vec<ArrayRef> = (0..layout.fixed).map(word).collect();
    columns.extend(layout.texts().map(text));
    columns.extend((layout.key_words..layout.width).map(word));
    RecordBatch::try_new(Arc::clone(schema), columns)
}

impl Grouper {
    /// Returns a grouper without rows. The records of a partition of one level come apart on the next `level`. `most`
    /// is the number of groups that the table has at most; 0: as many as fit in the cache.
    pub fn new(layout: Arc<Layout>, level: u32, most: usize) -> Grouper {
        // A group takes a record and two slots.
        let group_bytes = layout.record_bytes() + 2 * size_of::<u64>();
        let (most, large) = match most {
            0 => ((TABLE_BYTES / group_bytes).clamp(2 * ROWS, 16 * ROWS), LARGE_BYTES / group_bytes),
            most => (most, most),
        };
        let step = (most / 2).clamp(1, ROWS);
        let slots = vec![0; first_slots(most)];
        let kept = Records::new(Arc::clone(&layout));
        Grouper {
            layout,
            level: level.min(LEVELS - 1),
            small: most,
            large,
            most,
            grown: false,
            step,
            slots,
            records: Vec::new(),
            groups: 0,
            texts: Texts::default(),
            rows: 0,
            seen: 0,
            passing: 0,
            kept,
            keys: Keys::default(),
            found: Vec::new(),
        }
    }

    /// Groups rows by columns of keys, and updates the states of the aggregates by columns of arguments; `None` counts
    /// rows.
    pub fn update(&mut self, keys: &[ArrayRef], arguments: &[Option<ArrayRef>], rows: usize) {
        let layout = Arc::clone(&self.layout);
        self.keys.read(&layout, keys);
        let mut from = 0;
        while from < rows {
            let many = self.step.min(rows - from);
            self.make_room(many);
            self.keys.fill(&layout, keys, from, many);
            self.find(from, many);
            let rows = Rows { from, groups: &self.found };
            for (states, argument) in layout.states.iter().zip(arguments) {
                for state in states {
                    state.update(&layout, &mut self.records, &rows, argument.as_ref());
                }
            }
            self.pass(from);
            from += many;
        }
    }

    /// Takes records that were [written](Records::batches), of this layout.
    pub fn merge(&mut self, batch: &RecordBatch) {
        let layout = Arc::clone(&self.layout);
        let texts = layout.texts().count();
        let values = |column: usize| batch.column(column).as_primitive::<UInt64Type>().values();
        let columns: Vec<TextColumn> = (0..texts)
            .map(|number| TextColumn::Large(batch.column(layout.fixed + number).as_binary::<i64>().clone()))
            .collect();
        self.keys.texts = columns;
        let states: Vec<&[u64]> = (layout.fixed + texts..batch.num_columns()).map(|at| &values(at)[..]).collect();
        let mut record = vec![0; layout.width];
        let mut from = 0;
        while from < batch.num_rows() {
            let many = self.step.min(batch.num_rows() - from);
            self.make_room(many);
            self.keys.words.clear();
            self.keys.words.resize(many * layout.key_words, 0);
            for (row, key) in self.keys.words.chunks_exact_mut(layout.key_words).enumerate() {
                for (at, word) in key[..layout.fixed].iter_mut().enumerate() {
                    *word = values(at)[from + row];
                }
                for (number, at) in layout.texts().enumerate() {
                    (key[at], key[at + 1]) = words(self.keys.texts[number].long(from + row));
                }
            }
            self.find(from, many);
            for (row, group) in self.found.iter().enumerate() {
                for (word, state) in record[layout.key_words..].iter_mut().zip(&states) {
                    *word = state[from + row];
                }
                let at = *group as usize * layout.width;
                states::merge(&layout, &mut self.records[at..at + layout.width], &record);
            }
            self.pass(from);
            from += many;
        }
    }

    /// Makes sure that the table takes this many groups more.
    fn make_room(&mut self, groups: usize) {
        if self.groups + groups > self.most {
            match self.larger() {
                Some(most) => (self.most, self.grown) = (most, true),
                None => {
                    // Where nearly every row is a group of its own, rows pass by the table for a while.
                    if self.rows - self.groups < self.groups / 8 {
                        self.passing = PASSING * self.small.div_ceil(self.step);
                    }
                    self.empty();
                    if self.most > self.small {
                        // There were more groups than were expected.
                        self.most = self.small;
                        self.records = Vec::new();
                        self.slots = vec![0; first_slots(self.small)];
                    }
                }
            }
        }
        self.rows += groups;
        self.seen += groups;
        if 2 * (self.groups + groups) > self.slots.len() {
            let many = (2 * self.slots.len()).max((2 * (self.groups + groups)).next_power_of_two());
            self.slots.clear();
            self.slots.resize(many, 0);
            let mask = many - 1;
            for (group, record) in self.records.chunks_exact(self.layout.width).enumerate() {
                let mut at = (record[0] >> SLOT_SHIFT) as usize & mask;
                while self.slots[at] != 0 {
                    at = (at + 1) & mask;
                }
                self.slots[at] = slot(record[0], group);
            }
        }
    }

    /// Returns how many groups a table is to have instead of this one, which is full. `None` if a larger one would not
    /// help.
    ///
    /// If the values of keys come in any order and are equally frequent, then of `g` groups that came the share of rows
    /// that were none of a new group is about `g / 2n` if there are `n` groups in all. A table for twice as many is worth
    /// its memory if about half as many rows as groups came already, for as many again are likely to come.
    fn larger(&self) -> Option<usize> {
        let again = self.rows - self.groups;
        let all = (self.groups.checked_mul(self.groups)? / 2).checked_div(again)?;
        let helps = !self.grown && all + all / 4 <= self.large && 2 * self.seen >= all;
        helps.then(|| (2 * all.max(self.most)).min(self.large)).filter(|most| *most > self.most)
    }

    /// Appends the groups of the table to the partitions.
    fn empty(&mut self) {
        if self.groups == 0 {
            return;
        }
        self.append(None);
        self.slots.fill(0);
        self.kept.emptied += 1;
    }

    /// Appends rows that pass by the table to the partitions; `from` is the first one.
    fn pass(&mut self, from: usize) {
        if self.passing > 0 {
            self.append(Some(from));
            self.passing -= 1;
            // The same group may come again.
            self.kept.emptied += 2;
        }
    }

    /// Appends the records of the table to the partitions. Those of rows that pass by the table have their long texts
    /// where the rows do, the first of which is `passing`.
    fn append(&mut self, passing: Option<usize>) {
        let layout = &*self.layout;
        let shift = u64::BITS - PARTITION_BITS * (self.level + 1);
        for (number, record) in self.records.chunks_exact(layout.width).enumerate() {
            let partition = (record[0] >> shift) as usize & (PARTITIONS - 1);
            let partition = &mut self.kept.partitions[partition];
            match passing {
                None => partition.push(layout, record, |_, place, length| self.texts.get(place, length)),
                Some(from) => partition.push(layout, record, |text, _, _| self.keys.texts[text].long(from + number)),
            }
        }
        self.records.clear();
        self.texts.clear();
        (self.groups, self.rows) = (0, 0);
    }

    /// Finds or makes the group of each row whose key was taken; `from` is the first one.
    fn find(&mut self, from: usize, rows: usize) {
        self.found.clear();
        self.found.reserve(rows);
        if self.passing > 0 {
            // Each row is a group of its own.
            let layout = &*self.layout;
            self.records.reserve(rows * layout.width);
            for key in self.keys.words.chunks_exact(layout.key_words).take(rows) {
                self.records.extend_from_slice(key);
                self.records.extend_from_slice(&layout.initial);
            }
            self.found.extend(0..rows as u32);
            self.groups = rows;
            return;
        }
        self.touch(rows);
        match self.layout.fixed {
            1 => self.find_by::<1>(from, rows),
            2 => self.find_by::<2>(from, rows),
            3 => self.find_by::<3>(from, rows),
            4 => self.find_by::<4>(from, rows),
            _ => self.find_by::<0>(from, rows),
        }
    }

    /// Reads where the rows' groups should be in a table that is not in the cache of a core, all slots and then all
    /// records. These reads wait for memory together; those of [`find_by`](Self::find_by) wait one after the other.
    fn touch(&self, rows: usize) {
        if self.slots.len() <= SLOTS_NEAR {
            return;
        }
        let (key_words, width, mask) = (self.layout.key_words, self.layout.width, self.slots.len() - 1);
        let slot = |key: &[u64]| self.slots[(key[0] >> SLOT_SHIFT) as usize & mask];
        let keys = || self.keys.words.chunks_exact(key_words).take(rows);
        std::hint::black_box(keys().fold(0, |all, key| all | slot(key)));
        let record = |found: u64| match found {
            0 => 0,
            found => self.records[(found as u32 - 1) as usize * width],
        };
        std::hint::black_box(keys().fold(0, |all, key| all | record(slot(key))));
    }

    fn find_by<const F: usize>(&mut self, from: usize, rows: usize) {
        let layout = Arc::clone(&self.layout);
        let layout = &*layout;
        let (width, mask) = (layout.width, self.slots.len() - 1);
        for row in 0..rows {
            let key = &self.keys.words[row * layout.key_words..][..layout.key_words];
            let mut at = (key[0] >> SLOT_SHIFT) as usize & mask;
            let group = loop {
                let found = self.slots[at];
                if found == 0 {
                    self.slots[at] = slot(key[0], self.groups);
                    let group = self.groups;
                    self.add(layout, from, row);
                    break group;
                }
                if found >> 32 == key[0] >> 32 {
                    let group = (found as u32 - 1) as usize;
                    let record = &self.records[group * width..][..width];
                    if same_fixed::<F>(layout, record, key)
                        && same_texts(
                            layout,
                            record,
                            key,
                            |_, place, length| self.texts.get(place, length),
                            |number, _, _| self.keys.texts[number].long(from + row),
                        )
                    {
                        break group;
                    }
                }
                at = (at + 1) & mask;
            };
            self.found.push(group as u32);
        }
    }

    /// Makes a group of the key of a row.
    #[inline(always)]
    fn add(&mut self, layout: &Layout, from: usize, row: usize) {
        let key = &self.keys.words[row * layout.key_words..][..layout.key_words];
        let record = self.records.len();
        self.records.extend_from_slice(key);
        self.records.extend_from_slice(&layout.initial);
        for (number, word) in layout.texts().enumerate() {
            if length(key[word]) > SHORT {
                self.records[record + word + 1] = self.texts.push(self.keys.texts[number].long(from + row));
            }
        }
        self.groups += 1;
    }

    /// Returns the bytes that the grouper occupies.
    pub fn bytes(&self) -> usize {
        let words = self.slots.capacity() + self.records.capacity() + self.keys.words.capacity();
        let partitions: usize = self.kept.partitions.iter().map(Partition::bytes).sum();
        words * size_of::<u64>() + self.found.capacity() * size_of::<u32>() + partitions + self.texts.bytes()
    }

    /// Takes all records, and leaves the grouper without rows.
    pub fn take(&mut self) -> Records {
        self.empty();
        (self.records, self.texts) = (Vec::new(), Texts::default());
        self.most = self.small;
        self.slots = vec![0; first_slots(self.small)];
        std::mem::replace(&mut self.kept, Records::new(Arc::clone(&self.layout)))
    }
}

/// Returns the number of slots of a table without groups.
fn first_slots(most: usize) -> usize {
    (2 * most).next_power_of_two().min(SLOTS_MIN)
}

/// Returns the slot of a group.
#[inline(always)]
pub(super) fn slot(hash: u64, group: usize) -> u64 {
    hash >> 32 << 32 | (group as u64 + 1)
}
