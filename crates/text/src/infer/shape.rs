//! Records and fields of a sample under one dialect, and the dialect under which they look most like a table.

use std::ops::Range;

use super::Hints;
use crate::dialect::{CsvDialect, DateOrder, LineEnd, Ragged};

/// A field of a sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Piece {
    pub start: usize,
    pub end: usize,
    pub quoted: bool,
    /// Whether it holds doubled quotes or escapes.
    pub escaped: bool,
}

/// Properties of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Record {
    pub start: usize,
    /// The whole record is there, its line end or the end of the file included.
    pub whole: bool,
    /// The record has no bytes.
    pub blank: bool,
    /// A quote opened and was not closed at a field's end.
    pub malformed: bool,
    /// Whether there is a line end inside quotes.
    pub quoted_line_end: bool,
}

/// Cuts a sample into records, byte by byte: samples are small, and every dialect must be supported.
pub(super) struct Records<'a> {
    text: &'a [u8],
    at: usize,
    complete: bool,
    delimiter: &'a [u8],
    quote: Option<u8>,
    unquote: bool,
    escape: Option<u8>,
    comment: Option<u8>,
    line_end: &'a LineEnd,
    /// Bytes at which a field may end or an escape begin.
    special: [bool; 256],
}

impl<'a> Records<'a> {
    pub fn new(text: &'a [u8], complete: bool, dialect: &'a CsvDialect) -> Self {
        let mut special = [false; 256];
        let ends: &[u8] = if let LineEnd::Bytes(end) = &dialect.line_end { &end[..end.len().min(1)] } else { b"\r\n" };
        for &byte in ends.iter().chain(&dialect.delimiter[..1]).chain(&dialect.escape) {
            special[usize::from(byte)] = true;
        }
        let mut records = Records {
            special,
            text,
            at: 0,
            complete,
            delimiter: &dialect.delimiter,
            quote: dialect.quote,
            unquote: dialect.unquote && dialect.quote != Some(b'"'),
            escape: dialect.escape,
            comment: dialect.comment,
            line_end: &dialect.line_end,
        };
        for _ in 0..dialect.skip_lines {
            records.skip_line();
        }
        records
    }

    pub fn text(&self) -> &'a [u8] {
        self.text
    }

    /// Returns the length of the line end at `at`, 0 if there is none.
    fn line_end_at(&self, at: usize) -> usize {
        let rest = &self.text[at..];
        match (self.line_end, rest) {
            (LineEnd::Bytes(end), _) => usize::from(rest.starts_with(end)) * end.len(),
            (_, [b'\n', ..]) => 1,
            (_, [b'\r', b'\n', ..]) => 2,
            (LineEnd::AnyNewline, [b'\r', ..]) => 1,
            _ => 0,
        }
    }

    /// Moves behind the next line end.
    pub fn skip_line(&mut self) {
        while self.at < self.text.len() {
            let end = self.line_end_at(self.at);
            self.at += end.max(1);
            if end > 0 {
                return;
            }
        }
    }

    /// Reads the next record's fields into `pieces`; `None` at the end of the sample.
    pub fn next(&mut self, pieces: &mut Vec<Piece>) -> Option<Record> {
        pieces.clear();
        while self.comment.is_some() && self.text.get(self.at).copied() == self.comment {
            self.skip_line();
        }
        if self.at >= self.text.len() {
            return None;
        }
        let mut record = Record { start: self.at, ..Record::default() };
        loop {
            let start = self.at;
            let opening = self.quote.filter(|quote| self.text.get(self.at) == Some(quote));
            let mut piece = match opening {
                Some(quote) => {
                    self.at += 1;
                    self.quoted(quote, &mut record)
                }
                None => Piece { start, end: start, quoted: false, escaped: false },
            };
            // Up to the delimiter or the line end there is the field itself, or blanks behind a closing quote.
            let mut stray = false;
            let ended_by;
            loop {
                let ordinary =
                    self.text[self.at..].iter().take_while(|byte| !self.special[usize::from(**byte)]).count();
                stray |=
                    piece.quoted && !self.text[self.at..self.at + ordinary].iter().all(|b| matches!(b, b' ' | b'\t'));
                self.at += ordinary;
                if self.at >= self.text.len() {
                    ended_by = 0;
                    record.whole = self.complete;
                    break;
                }
                let byte = self.text[self.at];
                let line_end = if byte == b'\n' || byte == b'\r' || matches!(self.line_end, LineEnd::Bytes(_)) {
                    self.line_end_at(self.at)
                } else {
                    0
                };
                if line_end > 0 {
                    ended_by = line_end;
                    record.whole = true;
                    break;
                }
                if byte == self.delimiter[0] && self.text[self.at..].starts_with(self.delimiter) {
                    ended_by = 0;
                    break;
                }
                if !piece.quoted && self.escape == Some(byte) && self.at + 1 < self.text.len() {
                    piece.escaped = true;
                    self.at += 1;
                }
                stray |= byte != b' ' && byte != b'\t';
                self.at += 1;
            }
            let at_delimiter = !record.whole && self.at < self.text.len();
            if piece.quoted {
                record.malformed |= stray;
            } else {
                piece.end = self.at;
                if self.unquote && matches!(self.text[start..self.at], [b'"', .., b'"']) {
                    piece = Piece { start: start + 1, end: self.at - 1, quoted: true, escaped: piece.escaped };
                }
            }
            pieces.push(piece);
            if at_delimiter {
                self.at += self.delimiter.len();
                if self.at < self.text.len() {
                    continue;
                }
                // The sample ends behind a delimiter: an empty last field.
                pieces.push(Piece { start: self.at, end: self.at, quoted: false, escaped: false });
                record.whole = self.complete;
            }
            self.at += ended_by;
            break;
        }
        record.blank = matches!(pieces[..], [Piece { start, end, quoted: false, .. }] if start == end);
        Some(record)
    }

    /// Reads a quoted field whose opening quote lies just before the current position.
    fn quoted(&mut self, quote: u8, record: &mut Record) -> Piece {
        let start = self.at;
        let mut escaped = false;
        while self.at < self.text.len() {
            let byte = self.text[self.at];
            if self.escape == Some(byte) && self.escape != self.quote && self.at + 1 < self.text.len() {
                escaped = true;
                self.at += 2;
            } else if byte == quote {
                if self.text.get(self.at + 1) == Some(&quote) {
                    escaped = true;
                    self.at += 2;
                } else {
                    let end = self.at;
                    self.at += 1;
                    return Piece { start, end, quoted: true, escaped };
                }
            } else {
                record.quoted_line_end |= byte == b'\n' || byte == b'\r';
                self.at += 1;
            }
        }
        self.at = self.at.min(self.text.len());
        // The quote is never closed. In a cut sample that is no fault, unless the field swallowed much of it.
        record.malformed |= self.complete || self.at - start > self.text.len() / 2;
        Piece { start, end: self.at, quoted: true, escaped }
    }

    /// Returns a field's value without quotes and escapes.
    pub fn value(&self, piece: Piece) -> std::borrow::Cow<'a, [u8]> {
        let raw = &self.text[piece.start..piece.end];
        if !piece.escaped {
            return raw.into();
        }
        let mut out = Vec::with_capacity(raw.len());
        let mut bytes = raw.iter().copied().peekable();
        while let Some(byte) = bytes.next() {
            let doubled = piece.quoted && self.quote == Some(byte) && bytes.peek() == Some(&byte);
            if doubled || self.escape == Some(byte) {
                out.extend(bytes.next());
            } else {
                out.push(byte);
            }
        }
        out.into()
    }

    /// Returns the number of lines that end before `at`.
    pub fn lines_before(&self, at: usize) -> u64 {
        let mut lines = 0;
        let mut here = 0;
        while here < at {
            let end = self.line_end_at(here);
            lines += u64::from(end > 0);
            here += end.max(1);
        }
        lines
    }
}

/// A dialect and the number of columns that the sample has under it. Header, NULLs and trimming are decided elsewhere.
pub(super) struct Shape {
    pub dialect: CsvDialect,
    pub columns: usize,
}

/// Score of a dialect; greater is better, fields in order of weight.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Score {
    /// Every quote that opens also closes.
    closed: bool,
    fit: Fit,
    columns: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Fit {
    /// No table: the number of fields varies.
    Varying,
    /// One column.
    Single,
    /// Most records have the same number of fields, and the first one has.
    Ragged,
    /// All records have the same number of fields, after lines that do not.
    AfterPreamble,
    /// All records have the same number of fields.
    Regular,
}

struct Candidate {
    score: Score,
    dialect: CsvDialect,
    /// Number of quoted fields.
    quoted: usize,
}

/// Delimiters that make tables by themselves, most trusted first.
const DELIMITERS: [&[u8]; 5] = [b",", b"|", b";", b"\t", b"\x01"];
/// Delimiters that are common in text, or rare: tried only if none of the others makes a table.
const RARE_DELIMITERS: [&[u8]; 4] = [b"::", b"~", b"^", b" "];
/// Maximum number of records that decide.
const RECORDS_MAX: usize = 2000;
/// Maximum number of lines before the table.
const PREAMBLE_RECORDS_MAX: usize = 100;
/// One record in `MALFORMED_OF` may have a quote that is not closed at its field's end...
const MALFORMED_OF: usize = 50;
/// ...if `QUOTED_OF` fields for each such record are quoted correctly.
const QUOTED_OF: usize = 10;
/// Number of records below a possible header in which a number is searched.
const HEADED_RECORDS: usize = 20;

/// Finds the dialect that makes the best table of the sample.
pub(super) fn guess(text: &[u8], complete: bool, hints: &Hints) -> Shape {
    let line_end = hints.line_end.clone().unwrap_or_else(|| guess_line_end(text));
    let dialect = |delimiter: &[u8]| CsvDialect {
        delimiter: delimiter.to_vec(),
        line_end: line_end.clone(),
        quote: hints.quote.unwrap_or(None),
        escape: hints.escape.unwrap_or(None),
        comment: hints.comment.unwrap_or(None),
        header: false,
        skip_lines: hints.skip_lines.unwrap_or(0),
        trim: false,
        unquote: hints.unquote,
        null_values: vec![Vec::new()],
        ragged: Ragged::Error,
        dates: DateOrder::YearFirst,
    };
    let mut best: Option<Candidate> = None;
    // On equal scores the earlier, more trusted delimiter stays.
    let consider = |best: &mut Option<Candidate>, delimiter: &[u8]| {
        let candidate = with_quotes(text, complete, dialect(delimiter), hints);
        if best.as_ref().is_none_or(|best| candidate.score > best.score) {
            *best = Some(candidate);
        }
        best.as_ref().map_or(Fit::Varying, |best| best.score.fit)
    };
    match &hints.delimiter {
        Some(given) if !given.is_empty() => {
            consider(&mut best, given);
        }
        _ => {
            let mut fit = Fit::Varying;
            for delimiter in DELIMITERS.into_iter().filter(|d| d == b"," || memchr::memchr(d[0], text).is_some()) {
                fit =
                    consider(&mut best, if delimiter == b"|" && only_doubled(text, b'|') { b"||" } else { delimiter });
            }
            if fit <= Fit::Single {
                // There is one column then, and commas in it are text: the delimiter must be a byte that does not
                // occur.
                if let Some(absent) = DELIMITERS.into_iter().find(|d| memchr::memchr(d[0], text).is_none()) {
                    consider(&mut best, absent);
                }
                for delimiter in RARE_DELIMITERS.into_iter().filter(|d| memchr::memmem::find(text, d).is_some()) {
                    consider(&mut best, delimiter);
                }
            }
        }
    }
    let Some(Candidate { score, mut dialect, quoted }) = best else {
        return Shape { dialect: dialect(b","), columns: 1 };
    };
    if dialect.quote.is_none() && hints.quote.is_none() && quoted == 0 && memchr::memchr(b'"', text).is_none() {
        // Nothing is quoted in the sample; later fields may be, as in RFC 4180.
        dialect.quote = Some(b'"');
    }
    Shape { dialect, columns: score.columns.max(1) }
}

/// Whether a byte never stands alone.
fn only_doubled(text: &[u8], byte: u8) -> bool {
    let mut run = 0;
    for &b in text.iter().chain(b"\n") {
        if b == byte {
            run += 1;
        } else {
            if run % 2 == 1 {
                return false;
            }
            run = 0;
        }
    }
    true
}

fn guess_line_end(text: &[u8]) -> LineEnd {
    let feeds = memchr::memchr(b'\n', text).is_some();
    if !feeds && memchr::memchr(b'\r', text).is_some() { LineEnd::AnyNewline } else { LineEnd::Newline }
}

/// Finds the best way of quoting for one delimiter, then comments.
fn with_quotes(text: &[u8], complete: bool, plain: CsvDialect, hints: &Hints) -> Candidate {
    let quotes: Vec<Option<u8>> = match hints.quote {
        Some(given) => vec![given],
        None => {
            let seen = [b'"', b'\''].into_iter().filter(|q| memchr::memchr(*q, text).is_some());
            seen.map(Some).chain([None]).collect()
        }
    };
    let mut best: Option<Candidate> = None;
    for quote in quotes {
        let escapes: Vec<Option<u8>> = match (hints.escape, quote) {
            (Some(given), _) => vec![given],
            (None, Some(quote)) if memchr::memmem::find(text, &[b'\\', quote]).is_some() => vec![None, Some(b'\\')],
            _ => vec![None],
        };
        for escape in escapes {
            let dialect = CsvDialect { quote, escape, ..plain.clone() };
            let candidate = with_comments(text, complete, dialect, hints);
            // A quote that opens no field is an ordinary character.
            let idle = quote.is_some() && candidate.quoted == 0 && hints.quote.is_none();
            // Quoting that closes everywhere explains more than no quoting, whatever the columns; the first one found
            // stays.
            let better = best.as_ref().is_none_or(|best| {
                if best.score.closed && best.quoted > 0 {
                    candidate.quoted > 0 && candidate.score > best.score
                } else {
                    candidate.score > best.score || (candidate.score.closed && candidate.quoted > best.quoted)
                }
            });
            if better && !idle {
                best = Some(candidate);
            }
        }
    }
    best.unwrap_or_else(|| with_comments(text, complete, plain, hints))
}

fn with_comments(text: &[u8], complete: bool, dialect: CsvDialect, hints: &Hints) -> Candidate {
    let (candidate, odd_hashes) = measure(text, complete, dialect.clone(), hints);
    if odd_hashes && hints.comment.is_none() {
        let commented = measure(text, complete, CsvDialect { comment: Some(b'#'), ..dialect }, hints).0;
        if commented.score >= candidate.score {
            return commented;
        }
    }
    candidate
}

/// Scores a dialect. Also returns whether lines begin with `#` that are no records like the others.
fn measure(text: &[u8], complete: bool, mut dialect: CsvDialect, hints: &Hints) -> (Candidate, bool) {
    let mut counts: Vec<Count> = Vec::new();
    let mut pieces = Vec::new();
    let (mut malformed, mut quoted) = (0, 0);
    let mut records = Records::new(text, complete, &dialect);
    while counts.len() < RECORDS_MAX {
        let Some(record) = records.next(&mut pieces) else { break };
        if record.malformed {
            malformed += 1;
            // The fields of a malformed record tell nothing about the others.
            if record.whole && counts.len() >= MALFORMED_OF {
                continue;
            }
        }
        // A record that the end of the sample cut off counts only if there is no other.
        if !record.whole && !counts.is_empty() {
            break;
        }
        quoted += pieces.iter().filter(|piece| piece.quoted).count();
        if !record.blank {
            let last = pieces.last();
            counts.push(Count {
                fields: pieces.len(),
                start: record.start,
                hash: text[record.start] == b'#',
                remark: is_remark(&text[record.start..]),
                last_empty: last.is_some_and(|piece| piece.start == piece.end && !piece.quoted),
                number: pieces.iter().any(|piece| is_number(&text[piece.start..piece.end])),
            });
        }
    }
    // A bad record among many does not make another dialect likely if quotes are used a lot.
    let closed = malformed == 0 || (malformed * MALFORMED_OF <= counts.len() && quoted >= QUOTED_OF * malformed);
    let mut columns = most_frequent(counts.iter().map(|count| count.fields));
    let odd_hashes = counts.iter().any(|count| count.hash && count.fields != columns) || is_commented(&counts);

    let (fit, skipped) = fit(&counts, &mut columns, hints);
    if let Some(start) = skipped.map(|skipped| counts[skipped].start) {
        dialect.skip_lines =
            Records::new(text, complete, &CsvDialect { skip_lines: 0, ..dialect.clone() }).lines_before(start);
    }
    let few_blanks = dialect.delimiter == b" " && columns < 3;
    let fit = if few_blanks { Fit::Varying } else { fit };
    let columns = if fit <= Fit::Single && hints.delimiter.is_none() { 1 } else { columns };
    (Candidate { score: Score { closed, fit, columns }, dialect, quoted }, odd_hashes)
}

/// The properties of a record that decide its place in a table.
struct Count {
    fields: usize,
    start: usize,
    /// Whether the record begins with `#`.
    hash: bool,
    /// Whether the record begins as a comment for people does.
    remark: bool,
    last_empty: bool,
    /// One of its fields is a number.
    number: bool,
}

/// Whether a record names columns: it has no number, and one of the records behind it has.
fn names_columns(counts: &[Count], at: usize) -> bool {
    !counts[at].number && counts[at + 1..].iter().take(HEADED_RECORDS).any(|count| count.number)
}

/// Whether comments stand above a table, even if they are cut like its records: several of them, or one above the names
/// of the columns.
fn is_commented(counts: &[Count]) -> bool {
    let remarks = counts.iter().take_while(|count| count.remark).count();
    remarks < counts.len() && (remarks > 1 || remarks == 1 && names_columns(counts, 1))
}

/// Whether a line is written as a comment for people: nothing, a blank or a second sign stands behind its `#`. In
/// `#FF0000` and `#rust`, the `#` belongs to the value.
fn is_remark(line: &[u8]) -> bool {
    line.first() == Some(&b'#')
        && line.get(1).is_none_or(|b| matches!(b, b' ' | b'\t' | b'\r' | b'\n' | b'#' | b'!' | b'-' | b'=' | b'*'))
}

/// Whether the bytes form a number, apart from blanks.
fn is_number(text: &[u8]) -> bool {
    let text = text.trim_ascii();
    text.first().is_some_and(|b| b.is_ascii_digit() || matches!(b, b'-' | b'+' | b'.'))
        && text.iter().any(u8::is_ascii_digit)
        && text.iter().all(|b| b.is_ascii_digit() || matches!(b, b'-' | b'+' | b'.' | b',' | b'e' | b'E' | b':' | b'/'))
}

/// Returns how regular the counts are, and the first record of the table if lines stand before it. `columns` is the
/// most frequent count, and becomes the header's if that has more.
fn fit(counts: &[Count], columns: &mut usize, hints: &Hints) -> (Fit, Option<usize>) {
    let most = *columns;
    let total = counts.len();
    let same = |range: Range<usize>| counts[range].iter().filter(|count| count.fields == most).count();
    if most < 2 {
        return (if same(0..total) == total { Fit::Single } else { Fit::Varying }, None);
    }
    if same(0..total) == total {
        return (Fit::Regular, None);
    }
    let first = counts[0].fields;
    let rest_same = total > 1 && same(1..total) == total - 1;
    if rest_same && first + 1 == most && counts[1..].iter().all(|count| count.last_empty) {
        // Records end in a delimiter, the header does not.
        return (Fit::Regular, None);
    }
    if rest_same && first > most && first <= 2 * most {
        // The header names columns that no record has.
        *columns = first;
        return (Fit::Ragged, None);
    }
    // Several records at the start with equal counts are a table of their own, not lines before one.
    let alike = counts.iter().take_while(|count| count.fields == first).count();
    if first != most && hints.skip_lines.is_none() {
        // The table begins at the first two records in a row that look like it.
        let start = (1..total.min(PREAMBLE_RECORDS_MAX))
            .find(|&i| counts[i].fields == most && counts.get(i + 1).is_none_or(|next| next.fields == most));
        let is_before = |start: &usize| {
            let narrow = counts[..*start].iter().all(|count| count.fields == 1 || count.fields * 3 <= most);
            narrow || names_columns(counts, *start)
        };
        let whole = start.filter(|&start| total - start >= 2 && same(start..total) == total - start);
        if let Some(start) = whole.filter(|_| first == 1 || alike == 1).filter(is_before) {
            return (Fit::AfterPreamble, Some(start));
        }
    }
    let widens = first > 1 && counts.is_sorted_by_key(|count| count.fields);
    if widens && (alike > 1 || (rest_same && 2 * first >= most)) {
        // Later records are wider than the first ones, which tell what the columns are.
        *columns = first;
        return (Fit::Ragged, None);
    }
    // At least seven of ten records must agree, otherwise the file is prose with commas.
    if first == most && same(0..total) * 10 >= total * 7 && total > 2 {
        return (Fit::Ragged, None);
    }
    // A user who says that fields may be missing has a table, whose first record names the columns.
    if hints.ragged == Some(Ragged::Fill) && counts.iter().filter(|count| count.fields > 1).count() * 10 >= total * 7 {
        if first > 1 && hints.header != Some(false) {
            *columns = first;
        }
        return (Fit::Ragged, None);
    }
    (Fit::Varying, None)
}

/// Returns the most frequent number; the greater one of equally frequent ones.
fn most_frequent(counts: impl Iterator<Item = usize>) -> usize {
    let mut tally = std::collections::BTreeMap::new();
    for count in counts {
        *tally.entry(count).or_insert(0usize) += 1;
    }
    tally.into_iter().max_by_key(|(count, times)| (*times, *count)).map_or(1, |(count, _)| count)
}
