//! The interface between finding fields and reading their values: a converter takes a column of spans and returns an
//! array.

use std::fmt;
use std::ops::Range;

use arrow_array::ArrayRef;

use crate::block::TextBlock;
use crate::error::TextError;
use crate::scan::{InvalidUtf8, Strings};
use crate::span::Span;

/// Turns one column of spans into an array. A converter is made once per scan and column and used by all workers.
pub trait Convert: Send + Sync + fmt::Debug {
    /// Converts one value per span, in order; the array has the data type of the column's field and `spans.len()` rows.
    ///
    /// Values that cannot be read become NULL and are reported to `cx.bad`.
    ///
    /// # Errors
    /// Only errors that concern the whole column. Bad values are not errors here.
    fn convert(&self, block: &TextBlock, spans: &[Span], cx: &mut Cx<'_>) -> Result<ArrayRef, TextError>;
}

/// A converter's view of the scan and the batch it works for.
#[derive(Debug)]
pub struct Cx<'a> {
    /// Whether strings may view into the block.
    pub strings: Strings,
    /// Treatment of strings that are not UTF-8.
    pub invalid_utf8: InvalidUtf8,
    /// The part of the block that holds this batch's records; all spans lie in it.
    pub batch: Range<usize>,
    /// Collects the values that could not be read.
    pub bad: &'a mut BadValues,
}

/// Values of one column and batch that could not be read.
#[derive(Debug, Default)]
pub struct BadValues {
    /// Whether reports are read. If not, those of [`report`](Self::report) are not collected, and bad values are simply
    /// NULL.
    pub(crate) wanted: bool,
    pub(crate) values: Vec<BadEntry>,
}

/// One bad value.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadEntry {
    /// Row within the batch.
    pub row: usize,
    /// Completes the sentence `"<value>" ...`: `is not a DATE (month 13)`.
    pub reason: String,
    /// Whether the bytes of the value are not UTF-8.
    pub not_utf8: bool,
    /// Whether the value is a good one that the column cannot hold: NULL in its place would lose it without a word.
    pub unsupported: bool,
    /// Whether the scan fails regardless of its policy for bad values, because the policy for invalid UTF-8 demands it.
    pub fatal: bool,
}

impl BadValues {
    /// Creates a collector of reports (`wanted`), or one that drops them.
    pub fn new(wanted: bool) -> Self {
        BadValues { wanted, values: Vec::new() }
    }

    /// Whether reports are read; if not, a converter may skip work that only serves them.
    #[inline]
    pub fn is_wanted(&self) -> bool {
        self.wanted
    }

    /// Reports that the value of `row` (index into the spans) could not be read.
    #[cold]
    pub fn report(&mut self, row: usize, reason: impl FnOnce() -> String) {
        if self.wanted {
            let reason = reason();
            self.values.push(BadEntry { row, reason, not_utf8: false, unsupported: false, fatal: false });
        }
    }

    /// Reports a value that is a good one, but that the column cannot hold; also if other bad values become NULL.
    #[cold]
    pub fn report_unsupported(&mut self, row: usize, reason: String) {
        self.values.push(BadEntry { row, reason, not_utf8: false, unsupported: true, fatal: false });
    }

    /// Reports a string that is not UTF-8, under [`InvalidUtf8::Error`] and [`InvalidUtf8::Reject`].
    #[cold]
    pub fn report_utf8(&mut self, row: usize, fatal: bool) {
        let reason = "is not UTF-8".to_string();
        self.values.push(BadEntry { row, reason, not_utf8: true, unsupported: false, fatal });
    }

    /// Returns the reports so far.
    pub fn entries(&self) -> &[BadEntry] {
        &self.values
    }
}

/// The fault of a line that was cut into fields.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LineFault {
    /// The column whose value does not fit; `None`: the line as a whole is no record of these columns.
    pub column: Option<usize>,
    /// Completes the sentence `"<value>" ...`, or is the whole message.
    pub reason: String,
    /// The text of the value.
    pub value: Option<Vec<u8>>,
}

impl LineFault {
    /// Creates the fault of a line that is no record.
    pub fn of_line(reason: String) -> Self {
        LineFault { column: None, reason, value: None }
    }
}

/// Cuts lines into fields for formats where the structural index cannot (OpenCSVSerde, MultiDelimitSerDe, JSON). Called
/// once per line.
pub trait SplitLine: Send + Sync + fmt::Debug {
    /// Appends the bytes of the fields of `line` (which has no line end) to `out`, and exactly `columns` spans that
    /// point into `out` to `fields`; [`Span::MISSING`] for fields that are NULL because the line does not have them.
    /// Returns the faults of the line, mostly none; the spans are appended in any case.
    fn split(&self, line: &[u8], columns: usize, out: &mut Vec<u8>, fields: &mut Vec<Span>) -> Vec<LineFault>;
}
