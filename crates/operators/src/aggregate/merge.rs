//! The records of one partition become groups, and groups become arrays.

use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::{ArrowError, SchemaRef};

use super::group::{CHUNK, CHUNK_BITS, Records, SLOT_SHIFT, batch, slot};
use super::keys::{self, same_fixed, same_texts};
use super::layout::Layout;
use super::states;
use super::texts::Texts;

/// Merges records of the same key. The first one of each key takes up the states of the others where it lies.
#[derive(Debug)]
pub struct Merge {
    layout: Arc<Layout>,
    chunks: Vec<Chunk>,
    /// The long texts of the records, those of each partition of each grouper.
    texts: Vec<Texts>,
    /// Half of the hash and the number of a record plus 1; 0 if there is none.
    slots: Vec<u64>,
    /// The numbers of the first records. The upper bits are those of the chunk.
    firsts: Vec<u32>,
    records: usize,
    /// The next record.
    chunk: usize,
    record: usize,
    scratch: Vec<u64>,
}

#[derive(Debug)]
struct Chunk {
    words: Vec<u64>,
    texts: usize,
}

impl Merge {
    /// Takes some partitions out of all sources. Returns `None` if they have no records.
    pub fn new(layout: Arc<Layout>, sources: &mut [Records], partitions: std::ops::Range<usize>) -> Option<Merge> {
        let width = layout.width;
        let mut merge = Merge {
            chunks: Vec::new(),
            texts: Vec::new(),
            slots: Vec::new(),
            firsts: Vec::new(),
            records: 0,
            chunk: 0,
            record: 0,
            scratch: vec![0; width],
            layout,
        };
        let (mut differ, mut groupers) = (true, 0);
        for source in sources {
            let before = merge.chunks.len();
            for partition in partitions.clone() {
                let taken = std::mem::take(&mut source.partitions[partition]);
                let texts = merge.texts.len();
                merge.texts.push(taken.texts);
                merge.chunks.extend(taken.chunks.into_iter().map(|words| Chunk { words, texts }));
            }
            if merge.chunks.len() > before {
                groupers += 1;
                differ &= source.emptied <= 1;
            }
        }
        merge.records = merge.chunks.iter().map(|chunk| chunk.words.len() / width).sum();
        if merge.records == 0 {
            return None;
        }
        if differ && groupers == 1 {
            let count = |chunk: &Chunk| (chunk.words.len() / width) as u32;
            let numbers = merge
                .chunks
                .iter()
                .zip(0_u32..)
                .flat_map(|(chunk, number)| (0..count(chunk)).map(move |record| number << CHUNK_BITS | record));
            merge.firsts = numbers.collect();
            merge.chunk = merge.chunks.len();
        }
        Some(merge)
    }

    /// Returns the number of records.
    pub fn records(&self) -> usize {
        self.records
    }

    /// Returns whether there is nothing to merge (any more).
    pub fn is_done(&self) -> bool {
        self.chunk == self.chunks.len()
    }

    /// Returns the records as batches of [the layout's schema](Layout::record_schema).
    pub fn batches(&self, schema: &SchemaRef) -> impl Iterator<Item = Result<RecordBatch, ArrowError>> {
        self.chunks.iter().map(move |chunk| batch(&self.layout, &chunk.words, &self.texts[chunk.texts], schema))
    }

    /// Returns the bytes that merging takes beside the records.
    pub fn table_bytes(&self) -> usize {
        match self.is_done() {
            true => self.firsts.len() * size_of::<u32>(),
            false => self.slot_count() * size_of::<u64>() + self.records * size_of::<u32>(),
        }
    }

    fn slot_count(&self) -> usize {
        (2 * self.records).next_power_of_two()
    }

    /// Merges some records more. Returns whether there are more of them.
    pub fn step(&mut self, records: usize) -> bool {
        if self.is_done() {
            return false;
        }
        if self.slots.is_empty() {
            self.slots = vec![0; self.slot_count()];
        }
        match self.layout.fixed {
            1 => self.step_by::<1>(records),
            2 => self.step_by::<2>(records),
            3 => self.step_by::<3>(records),
            4 => self.step_by::<4>(records),
            _ => self.step_by::<0>(records),
        }
        !self.is_done()
    }

    fn step_by<const F: usize>(&mut self, records: usize) {
        let layout = &*self.layout;
        let (width, mask) = (layout.width, self.slots.len() - 1);
        for _ in 0..records {
            let Some(chunk) = self.chunks.get(self.chunk) else { return };
            let texts = &self.texts[chunk.texts];
            let place = self.record * width;
            let hash = chunk.words[place];
            let from = self.chunk;
            let number = (self.chunk << CHUNK_BITS | self.record) as u32;
            self.record += 1;
            if self.record * width == chunk.words.len() {
                (self.chunk, self.record) = (self.chunk + 1, 0);
            }
            let mut at = (hash >> SLOT_SHIFT) as usize & mask;
            loop {
                let found = self.slots[at];
                if found == 0 {
                    self.slots[at] = slot(hash, number as usize);
                    self.firsts.push(number);
                    break;
                }
                if found >> 32 == hash >> 32 {
                    // Most records with the same half of the hash are of the same group.
                    self.scratch.copy_from_slice(&self.chunks[from].words[place..][..width]);
                    let first = (found as u32 - 1) as usize;
                    let chunk = &mut self.chunks[first >> CHUNK_BITS];
                    let own = &self.texts[chunk.texts];
                    let record = &mut chunk.words[(first & (CHUNK - 1)) * width..][..width];
                    if same_fixed::<F>(layout, record, &self.scratch)
                        && same_texts(
                            layout,
                            record,
                            &self.scratch,
                            |_, place, length| own.get(place, length),
                            |_, place, length| texts.get(place, length),
                        )
                    {
                        states::merge(layout, record, &self.scratch);
                        break;
                    }
                }
                at = (at + 1) & mask;
            }
        }
    }

    /// Returns the groups. All records must have been merged.
    pub fn finish(mut self) -> Groups {
        while self.step(usize::MAX) {}
        self.slots = Vec::new();
        Groups { merge: self, next: 0 }
    }
}

/// Groups, which are taken as arrays.
#[derive(Debug)]
pub struct Groups {
    merge: Merge,
    next: usize,
}

/// Some groups as arrays.
#[derive(Debug)]
pub struct Output {
    /// The columns of the keys.
    pub keys: Vec<ArrayRef>,
    /// The columns of the states of each aggregate: the number of COUNT, the value of MIN and MAX, the sum of doubles;
    /// the sum and the carry of other sums; for AVG the number of values before the columns of the sum.
    pub states: Vec<Vec<ArrayRef>>,
    /// The number of groups.
    pub rows: usize,
}

impl Groups {
    /// Returns the next groups, at most `rows`; `None` if there are no more.
    ///
    /// # Errors
    /// An error if a column would be larger than its type allows.
    pub fn next(&mut self, rows: usize) -> Result<Option<Output>, ArrowError> {
        let to = (self.next + rows).min(self.merge.firsts.len());
        let some = &self.merge.firsts[self.next..to];
        if some.is_empty() {
            return Ok(None);
        }
        self.next = to;
        let (layout, width) = (&*self.merge.layout, self.merge.layout.width);
        let records = some.iter().map(|number| {
            let chunk = &self.merge.chunks[(number >> CHUNK_BITS) as usize];
            let at = (*number as usize & (CHUNK - 1)) * width;
            (&chunk.words[at..at + width], &self.merge.texts[chunk.texts])
        });
        let keys = (0..layout.keys.len()).map(|key| keys::column(layout, key, records.clone()));
        let keys = keys.collect::<Result<Vec<_>, _>>()?;
        let words = records.map(|(record, _)| record);
        let states = (0..layout.states.len()).map(|at| states::columns(layout, at, words.clone()));
        Ok(Some(Output { keys, states: states.collect::<Result<Vec<_>, _>>()?, rows: some.len() }))
    }
}
