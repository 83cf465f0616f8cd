//! The records of one block, and the fields of a column as spans.

use crate::block::TextBlock;
use crate::simd::Index;
use crate::span::Span;

use super::grammar::{Ends, Grammar};

/// A record: where it starts, the index of its first field's end, and its number of fields.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Record {
    pub start: u32,
    pub first: u32,
    pub fields: u32,
}

/// Assignment of ends to records.
#[derive(Debug)]
enum Layout {
    /// Every record has `fields` fields: they lie in the ends like a matrix.
    Even { fields: u32 },
    /// Anything else.
    Uneven(Vec<Record>),
}

/// Whole records of one file, with their structure.
#[derive(Debug)]
pub(crate) struct Chunk {
    pub file: usize,
    pub block: TextBlock,
    /// Offset in the file of the block's byte 0; negative if the block begins before the file.
    pub offset: i64,
    index: Index,
    layout: Layout,
    rows: usize,
    /// Start of the first record.
    start: u32,
    /// The file, and with it the last record, ended inside quotes.
    pub unterminated: bool,
    /// A position in the block and its line number, if that is known without reading the file again.
    pub line: Option<(usize, u64)>,
}

/// Structure found in a block. `index` must hold whole records only, the first of which begins at `start`.
#[derive(Debug)]
pub(crate) struct Structure {
    pub file: usize,
    pub offset: i64,
    pub start: usize,
    pub index: Index,
    pub unterminated: bool,
    pub line: Option<(usize, u64)>,
}

/// A selection of a chunk's rows: a range or a list.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Rows<'a> {
    Range(usize, usize),
    Some(&'a [u32]),
}

impl Chunk {
    /// Assigns ends to records; drops empty lines and comments if the grammar says so, and lines of blanks between
    /// objects.
    pub(crate) fn new(found: Structure, block: TextBlock, grammar: &Grammar) -> Self {
        let Structure { file, offset, start, index, unterminated, line } = found;
        let mut chunk = Chunk {
            file,
            block,
            offset,
            rows: index.lines.len(),
            index,
            layout: Layout::Even { fields: 1 },
            start: start as u32,
            unterminated,
            line,
        };
        let lines = &chunk.index.lines;
        let fields = lines.first().copied().unwrap_or(1);
        let even = grammar.comment.is_none() && (fields > 1 || !grammar.skip_empty) && is_even(lines, fields);
        if even {
            chunk.layout = Layout::Even { fields };
        } else {
            let records = chunk.uneven(grammar);
            chunk.rows = records.len();
            chunk.layout = Layout::Uneven(records);
        }
        chunk
    }

    /// Creates a chunk without records.
    pub(crate) fn empty(found: Structure) -> Self {
        let Structure { file, offset, start, mut index, .. } = found;
        index.clear();
        let layout = Layout::Even { fields: 1 };
        let block = TextBlock::new(bytes::Bytes::new(), true);
        Chunk { file, block, offset, index, layout, rows: 0, start: start as u32, unterminated: false, line: None }
    }

    /// Returns the index's memory for the next block.
    pub(crate) fn into_index(self) -> Index {
        self.index
    }

    fn uneven(&self, grammar: &Grammar) -> Vec<Record> {
        let bytes = self.block.bytes();
        let mut records = Vec::with_capacity(self.index.lines.len());
        let mut start = self.start;
        let mut first = 0;
        for line in &self.index.lines {
            let record = Record { start, first, fields: line - first };
            let end = self.index.ends[*line as usize - 1];
            start = self.next_start(end, grammar);
            first = *line;
            let text = &bytes[record.start as usize..end as usize];
            let blank = match grammar.objects {
                // Blanks are no object, nor are they wrong between objects.
                true => text.trim_ascii().is_empty(),
                false => grammar.skip_empty && (text.is_empty() || text == b"\r" && grammar.ends == Ends::Feed),
            };
            let comment = grammar.comment.is_some() && text.first().copied() == grammar.comment;
            if !blank && !comment {
                records.push(record);
            }
        }
        records
    }

    /// Returns the start of the record after a line end at `end`.
    #[inline(always)]
    fn next_start(&self, end: u32, grammar: &Grammar) -> u32 {
        let next = end + grammar.line_end_len();
        if self.index.any_cr {
            let bytes = self.block.bytes();
            let pair = bytes[end as usize] == b'\r' && bytes.get(next as usize) == Some(&b'\n');
            return next + pair as u32;
        }
        next
    }

    /// Number of records.
    pub(crate) fn rows(&self) -> usize {
        self.rows
    }

    /// Returns the record of a row.
    #[inline(always)]
    pub(crate) fn record(&self, row: usize, grammar: &Grammar) -> Record {
        match &self.layout {
            Layout::Even { fields } => {
                let first = row as u32 * fields;
                let start =
                    if row == 0 { self.start } else { self.next_start(self.index.ends[first as usize - 1], grammar) };
                Record { start, first, fields: *fields }
            }
            Layout::Uneven(records) => records[row],
        }
    }

    /// Returns the number of fields if all records have the same.
    pub(crate) fn even_fields(&self) -> Option<usize> {
        match &self.layout {
            Layout::Even { fields } => Some(*fields as usize),
            Layout::Uneven(_) => None,
        }
    }

    /// Returns the bytes of a record without its line end, as a range of the block.
    pub(crate) fn record_range(&self, row: usize, grammar: &Grammar) -> (usize, usize) {
        let record = self.record(row, grammar);
        let end = self.index.ends[(record.first + record.fields - 1) as usize];
        (record.start as usize, self.without_return(record.start, end, grammar) as usize)
    }

    /// Returns the bytes of rows `from..to`, including all line ends but the last.
    pub(crate) fn batch_range(&self, from: usize, to: usize, grammar: &Grammar) -> std::ops::Range<usize> {
        if from == to {
            return self.start as usize..self.start as usize;
        }
        self.record(from, grammar).start as usize..self.record_range(to - 1, grammar).1
    }

    #[inline(always)]
    fn without_return(&self, start: u32, end: u32, grammar: &Grammar) -> u32 {
        let cut = grammar.ends == Ends::Feed && end > start && self.block.bytes()[end as usize - 1] == b'\r';
        end - cut as u32
    }

    /// Appends the spans of column `column` of `columns` for some rows to `out`; [`Span::MISSING`] if the record has no
    /// such field.
    pub(crate) fn spans(&self, column: usize, columns: usize, rows: Rows<'_>, grammar: &Grammar, out: &mut Vec<Span>) {
        let delimiter = grammar.delimiter_len();
        let c = column as u32;
        let takes_rest = grammar.takes_rest && column + 1 == columns;
        let ends = &self.index.ends[..];
        let plain = !grammar.trim && !grammar.unquote && !self.index.any_quote && self.index.specials.is_empty();
        // The common case in one tight loop: an inner column of even records.
        if let (Layout::Even { fields }, Rows::Range(from, to)) = (&self.layout, rows) {
            let inner = c + 1 < *fields && !takes_rest;
            if inner && plain && c > 0 {
                let stride = *fields as usize;
                let begin = from * stride + column - 1;
                out.extend(ends[begin..].chunks(stride).take(to - from).map(|e| Span::new(e[0] + delimiter, e[1])));
                return;
            }
        }
        let mut specials = Specials { all: &self.index.specials, at: 0 };
        let mut one = |row: usize| {
            let record = self.record(row, grammar);
            if c >= record.fields {
                return Span::MISSING;
            }
            let at = (record.first + c) as usize;
            let start = if c == 0 { record.start } else { ends[at - 1] + delimiter };
            let last = c + 1 == record.fields || takes_rest;
            let mut end = ends[at];
            if last {
                end = ends[(record.first + record.fields - 1) as usize];
                end = self.without_return(start, end, grammar);
            }
            if plain { Span::new(start, end) } else { self.flagged(start, end, grammar, &mut specials) }
        };
        match rows {
            Rows::Range(from, to) => out.extend((from..to).map(one)),
            Rows::Some(some) => out.extend(some.iter().map(|r| one(*r as usize))),
        }
    }

    /// Makes a span with flags for its quotes and escapes.
    #[inline]
    fn flagged(&self, mut start: u32, mut end: u32, grammar: &Grammar, specials: &mut Specials<'_>) -> Span {
        let bytes = self.block.bytes();
        if grammar.trim {
            let blank = |b: u8| matches!(b, b' ' | b'\t');
            while start < end && blank(bytes[start as usize]) {
                start += 1;
            }
            while end > start && blank(bytes[end as usize - 1]) {
                end -= 1;
            }
        }
        let special = specials.any_in(start, end);
        let quoted = start < end && grammar.quote == Some(bytes[start as usize]);
        let bare = |start: u32, end: u32| match &bytes[start as usize..end as usize] {
            [b'"', .., b'"'] if grammar.unquote => (start + 1, end - 1),
            _ => (start, end),
        };
        if !quoted {
            let (inner, inner_end) = bare(start, end);
            if inner > start {
                return Span::quoted(inner, inner_end, special && grammar.quote.is_none());
            }
            return if special && grammar.quote.is_none() { Span::escaped(start, end) } else { Span::new(start, end) };
        }
        // In `""` the second quote is a special, yet the field is just empty.
        let closed = end - start >= 2 && Some(bytes[end as usize - 1]) == grammar.quote;
        if closed && (!special || end - start == 2) {
            let (start, end) = bare(start + 1, end - 1);
            return Span::quoted(start, end, false);
        }
        if closes_at_end(&bytes[start as usize..end as usize], grammar) {
            return Span::quoted(start + 1, end - 1, true);
        }
        Span::escaped(start, end)
    }
}

/// Whether a field that begins with a quote is closed by its last byte and not before.
fn closes_at_end(text: &[u8], grammar: &Grammar) -> bool {
    let mut at = 1;
    while at < text.len() {
        let byte = text[at];
        if grammar.escape == Some(byte) {
            at += 2;
        } else if grammar.quote == Some(byte) {
            if at + 1 == text.len() {
                return true;
            }
            if text[at + 1] != byte {
                return false;
            }
            at += 2;
        } else {
            at += 1;
        }
    }
    false
}

/// Cursor over the positions that need care. It must be asked for ascending ranges.
struct Specials<'a> {
    all: &'a [u32],
    at: usize,
}

impl Specials<'_> {
    #[inline(always)]
    fn any_in(&mut self, start: u32, end: u32) -> bool {
        // Each column walks all specials once: a few in a thousand rows are free, one in each row costs about one
        // comparison per field.
        while self.all.get(self.at).is_some_and(|s| *s < start) {
            self.at += 1;
        }
        self.all.get(self.at).is_some_and(|s| *s < end)
    }
}

/// Whether each line has exactly `fields` ends.
fn is_even(lines: &[u32], fields: u32) -> bool {
    let mut uneven = false;
    let mut expected = 0;
    for line in lines {
        expected += fields;
        uneven |= *line != expected;
    }
    !uneven
}
