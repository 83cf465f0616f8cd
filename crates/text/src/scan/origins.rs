//! Origins of the rows of a batch, for callers that find a fault in a row later.

use super::chunk::Chunk;
use super::grammar::{Ends, Grammar};
use super::rows::LineCounter;
use crate::block::TextBlock;
use crate::error::cut;

/// Records of the rows of one batch.
#[derive(Debug, Clone)]
pub struct Origins {
    block: TextBlock,
    /// Start and end in the block, by row.
    records: Vec<(u32, u32)>,
    /// A position in the block and the number of its line.
    line: Option<(usize, u64)>,
    ends: Ends,
}

impl Origins {
    pub(super) fn new(chunk: &Chunk, rows: &[u32], grammar: &Grammar) -> Self {
        let range = |row: &u32| {
            let (start, end) = chunk.record_range(*row as usize, grammar);
            (start as u32, end as u32)
        };
        let records = rows.iter().map(range).collect();
        Origins { block: chunk.block.clone(), records, line: chunk.line, ends: grammar.ends.clone() }
    }

    /// Returns the line of the file, from 1, in which a row begins. Known only for files that are read in order.
    ///
    /// # Panics
    /// If the batch has no such row.
    pub fn line(&self, row: usize) -> Option<u64> {
        let start = self.records[row].0 as usize;
        let (place, line) = self.line?;
        Some(line + LineCounter::default().count(&self.ends, &self.block.bytes()[place.min(start)..start]))
    }

    /// Returns a row as it stands in the file, cut after `bytes`.
    ///
    /// # Panics
    /// If the batch has no such row.
    pub fn text(&self, row: usize, bytes: usize) -> String {
        let (start, end) = self.records[row];
        cut(&self.block.bytes()[start as usize..end as usize], bytes)
    }
}
