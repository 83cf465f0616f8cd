//! Cells of a column, as text.

/// Cells one after the other in one buffer.
#[derive(Debug, Default)]
pub(super) struct Cells {
    bytes: Vec<u8>,
    /// End of each cell.
    ends: Vec<usize>,
}

impl Cells {
    /// Removes the cells and keeps the memory.
    pub(super) fn clear(&mut self) {
        self.bytes.clear();
        self.ends.clear();
    }

    /// Returns the number of cells so far.
    pub(super) fn len(&self) -> usize {
        self.ends.len()
    }

    /// Returns the bytes of cell `at`.
    #[inline]
    pub(super) fn get(&self, at: usize) -> &[u8] {
        let start = if at == 0 { 0 } else { self.ends[at - 1] };
        &self.bytes[start..self.ends[at]]
    }

    /// Returns the bytes of the last cell; nothing if there is none.
    pub(super) fn last(&self) -> &[u8] {
        self.len().checked_sub(1).map_or(b"", |at| self.get(at))
    }

    /// Appends a cell.
    #[inline]
    pub(super) fn push(&mut self, cell: &[u8]) {
        self.bytes.extend_from_slice(cell);
        self.ends.push(self.bytes.len());
    }

    /// Appends a cell that `fill` writes.
    #[inline]
    pub(super) fn push_with(&mut self, fill: impl FnOnce(&mut Vec<u8>)) {
        fill(&mut self.bytes);
        self.ends.push(self.bytes.len());
    }
}
