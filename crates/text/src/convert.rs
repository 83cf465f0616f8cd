//! The seam between finding fields and reading their values: converters take a column of spans and return an array.

use std::fmt;
use std::ops::Range;

use arrow_array::ArrayRef;

use crate::block::TextBlock;
use crate::error::TextError;
use crate::scan::{InvalidUtf8, Strings};
use crate::span::Span;

/// Turns one column of spans into an array. Made once per scan and column, used by all workers.
pub trait Convert: Send + Sync + fmt::Debug {
    /// One value a span, in order; the array has the data type of the column's field and `spans.len()` rows.
    ///
    /// Values that cannot be read become NULL and are reported to `cx.bad`.
    ///
    /// # Errors
    /// Only what concerns the whole column. Bad values are no errors here.
    fn convert(&self, block: &TextBlock, spans: &[Span], cx: &mut Cx<'_>) -> Result<ArrayRef, TextError>;
}

/// What a converter needs to know about the scan and the batch it works for.
#[derive(Debug)]
pub struct Cx<'a> {
    /// Whether strings may view into the block.
    pub strings: Strings,
    /// What becomes of strings that are not UTF-8.
    pub invalid_utf8: InvalidUtf8,
    /// The part of the block that holds this batch's records; all spans lie in it.
    pub batch: Range<usize>,
    /// Takes values that could not be read.
    pub bad: &'a mut BadValues,
}

/// Values of one column and batch that could not be read.
#[derive(Debug, Default)]
pub struct BadValues {
    /// Whether anybody wants to know. When not, nothing is collected and bad values just are NULL.
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
    /// Whether the scan fails whatever its policy for bad values is (the policy for invalid UTF-8 said so).
    pub fatal: bool,
}

impl BadValues {
    /// Collects reports (`wanted`), or drops them.
    pub fn new(wanted: bool) -> Self {
        BadValues { wanted, values: Vec::new() }
    }

    /// Whether reports are read by anybody; a converter may skip work that only serves them.
    #[inline]
    pub fn is_wanted(&self) -> bool {
        self.wanted
    }

    /// Reports that the value of `row` (index into the spans) could not be read.
    #[cold]
    pub fn report(&mut self, row: usize, reason: impl FnOnce() -> String) {
        if self.wanted {
            self.values.push(BadEntry { row, reason: reason(), not_utf8: false, fatal: false });
        }
    }

    /// Reports a string that is not UTF-8, under [`InvalidUtf8::Error`] and [`InvalidUtf8::Reject`].
    #[cold]
    pub fn report_utf8(&mut self, row: usize, fatal: bool) {
        self.values.push(BadEntry { row, reason: "is not UTF-8".to_string(), not_utf8: true, fatal });
    }

    /// What was reported so far.
    pub fn entries(&self) -> &[BadEntry] {
        &self.values
    }
}

/// What is wrong with a line that was cut into fields.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LineFault {
    /// The column whose value does not fit; `None`: the line is no record of these columns.
    pub column: Option<usize>,
    /// Completes the sentence `"<value>" ...`, or says it all.
    pub reason: String,
    /// The text of the value.
    pub value: Option<Vec<u8>>,
}

impl LineFault {
    /// The line is no record.
    pub fn of_line(reason: String) -> Self {
        LineFault { column: None, reason, value: None }
    }
}

/// Cuts lines into fields where the structural index cannot (OpenCSVSerde, MultiDelimitSerDe, JSON): called once per line.
pub trait SplitLine: Send + Sync + fmt::Debug {
    /// Appends the bytes of the fields of `line` (which has no line end) to `out`, and exactly `columns` spans that
    /// point into `out` to `fields`; [`Span::MISSING`] for fields that are NULL because the line does not have them. Returns
    /// what is wrong with the line, mostly nothing; it has its fields all the same.
    fn split(&self, line: &[u8], columns: usize, out: &mut Vec<u8>, fields: &mut Vec<Span>) -> Vec<LineFault>;
}
