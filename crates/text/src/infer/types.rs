//! Kinds of the values of a column.

use arrow_schema::{DataType, TimeUnit};

use super::shape::{Piece, Records};
use crate::csv::time;
use crate::dialect::{CsvDialect, DateOrder, NULL_WORDS, null_word};
use crate::parse;

/// The narrowest type that holds all sampled values of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Kind {
    /// No values, only NULLs.
    Nothing,
    /// `true` and `false`, or both `t` and `f`, in any case.
    Boolean,
    /// Integers of 64 bits.
    BigInt,
    /// Integers of 128 bits.
    LargeInt,
    /// Numbers.
    Double,
    /// `2024-12-31`, and the other forms that the CSV reader takes for a DATE.
    Date,
    /// `2024-12-31 23:59:59`, and the other forms that the CSV reader takes for a DATETIME: `T`, a fraction, a zone,
    /// dates.
    DateTime,
    /// Anything.
    Text,
}

impl Kind {
    /// Returns the Arrow type as which values of this kind are read.
    pub fn data_type(self) -> DataType {
        match self {
            Kind::Nothing | Kind::Text => DataType::Utf8View,
            Kind::Boolean => DataType::Boolean,
            Kind::BigInt => DataType::Int64,
            Kind::LargeInt => DataType::Decimal256(39, 0),
            Kind::Double => DataType::Float64,
            Kind::Date => DataType::Date32,
            Kind::DateTime => DataType::Timestamp(TimeUnit::Microsecond, None),
        }
    }

    /// Returns the narrowest kind that holds values of this type and also this value.
    pub(super) fn wider(data_type: &DataType, value: &[u8], dates: DateOrder) -> Kind {
        use Kind::{BigInt, Boolean, Date, DateTime, Double, LargeInt, Text};
        let kinds = [Boolean, BigInt, LargeInt, Double, Date, DateTime];
        let kind = kinds.into_iter().find(|kind| kind.data_type() == *data_type).unwrap_or(Text);
        kind.union(kind_of(mask(value.trim_ascii()), dates))
    }

    /// Returns the narrowest kind that holds both.
    pub fn union(self, other: Kind) -> Kind {
        let rank = |kind: Kind| match kind {
            Kind::BigInt => Some(0),
            Kind::LargeInt => Some(1),
            Kind::Double => Some(2),
            _ => None,
        };
        match (self, other) {
            (Kind::Nothing, kind) | (kind, Kind::Nothing) => kind,
            _ if self == other => self,
            (Kind::Date, Kind::DateTime) | (Kind::DateTime, Kind::Date) => Kind::DateTime,
            _ => match (rank(self), rank(other)) {
                (Some(left), Some(right)) => [Kind::BigInt, Kind::LargeInt, Kind::Double][left.max(right)],
                _ => Kind::Text,
            },
        }
    }
}

/// A set of kinds that a value fits, or that all values of a column fit.
type Mask = u16;
const BOOLEAN: Mask = 1;
const BIGINT: Mask = 2;
const LARGEINT: Mask = 4;
const DOUBLE: Mask = 8;
/// Bits of dates that are read with the year first; the bits of the other [`ORDERS`] are behind them, see [`in_order`].
const DATE: Mask = 16;
const DATETIME: Mask = 32;
const ANY: Mask = 1023;

/// Orders of dates, the more trusted ones first. Between day first and month first, the choice is DuckDB's.
const ORDERS: [DateOrder; 3] = [DateOrder::YearFirst, DateOrder::DayFirst, DateOrder::MonthFirst];

/// Returns the bits of dates written in this order.
fn in_order(dates: Mask, order: DateOrder) -> Mask {
    match order {
        DateOrder::YearFirst => dates,
        DateOrder::DayFirst => dates << 2,
        DateOrder::MonthFirst => dates << 4,
    }
}

/// Returns for each order of dates whether a value or a column can be read in it.
fn orders_of(mask: Mask) -> [bool; 3] {
    ORDERS.map(|order| mask & in_order(DATE | DATETIME, order) != 0)
}

/// Returns the kinds, apart from text, that a value fits. A value that looks like a code rather than a number (leading
/// zeros, a plus sign) is text: reading it as a number would lose something.
fn mask(value: &[u8]) -> Mask {
    match value {
        [b'-', b'0'..=b'9' | b'.', ..] => number(&value[1..]),
        [b'0'..=b'9' | b'.', ..] => {
            let as_number = number(value);
            let dated = value.len() >= 6 && value[1..5].iter().any(|byte| matches!(byte, b'-' | b'/' | b'.'));
            if as_number != 0 || !dated { as_number } else { date(value) }
        }
        [b't' | b'T' | b'f' | b'F'] => BOOLEAN,
        _ if value.eq_ignore_ascii_case(b"true") || value.eq_ignore_ascii_case(b"false") => BOOLEAN,
        _ if is_not_finite(value) => DOUBLE,
        _ => 0,
    }
}

/// Returns the kinds and orders in which a value can be read that looks like a date, with or without a time behind it.
fn date(value: &[u8]) -> Mask {
    let alone = value.len() <= 10 && !value.iter().any(|byte| matches!(byte, b' ' | b'T' | b't'));
    // A DATETIME column accepts dates too.
    let bits = if alone { DATE | DATETIME } else { DATETIME };
    let reads = |order: &DateOrder| match alone {
        true => time::date(value, *order, true).is_ok(),
        false => time::timestamp(value, *order).is_ok(),
    };
    // A date with the year first is read the same in all orders.
    if reads(&DateOrder::YearFirst) {
        return ORDERS.map(|order| in_order(bits, order)).iter().sum();
    }
    ORDERS.into_iter().skip(1).filter(reads).map(|order| in_order(bits, order)).sum()
}

/// Whether a value is `nan`, `inf` or the like, as the double parser reads them.
fn is_not_finite(value: &[u8]) -> bool {
    let unsigned = value.strip_prefix(b"-").unwrap_or(value);
    (3..=8).contains(&unsigned.len())
        && [&b"nan"[..], b"inf", b"infinity"].iter().any(|word| unsigned.eq_ignore_ascii_case(word))
}

/// Returns the kinds of a number without its minus sign.
fn number(digits: &[u8]) -> Mask {
    if digits.iter().all(u8::is_ascii_digit) {
        return match digits {
            [b'0', _, ..] => 0,
            _ if digits.len() < 19 => BIGINT | LARGEINT | DOUBLE,
            // The limits are 2^63 - 1 and 2^127 - 1; the one further negative value of each is not worth a case.
            _ if digits.len() == 19 && digits <= &b"9223372036854775807"[..] => BIGINT | LARGEINT | DOUBLE,
            _ if digits.len() < 39
                || (digits.len() == 39 && digits <= &b"170141183460469231731687303715884105727"[..]) =>
            {
                LARGEINT | DOUBLE
            }
            _ => 0,
        };
    }
    match digits {
        [b'0', b'0'..=b'9', ..] => 0,
        _ if digits.iter().all(|b| b.is_ascii_digit() || matches!(b, b'.' | b'e' | b'E' | b'+' | b'-')) => {
            DOUBLE * Mask::from(parse::float64(digits, 0, digits.len()).is_some())
        }
        _ => 0,
    }
}

fn kind_of(mask: Mask, dates: DateOrder) -> Kind {
    // Narrowest first.
    let kinds = [
        (BOOLEAN, Kind::Boolean),
        (BIGINT, Kind::BigInt),
        (LARGEINT, Kind::LargeInt),
        (DOUBLE, Kind::Double),
        (in_order(DATE, dates), Kind::Date),
        (in_order(DATETIME, dates), Kind::DateTime),
    ];
    kinds.into_iter().find(|(bit, _)| mask & bit != 0).map_or(Kind::Text, |(_, kind)| kind)
}

/// Markers below this index are never values.
const SURE_MARKERS: usize = 2;
/// Markers below this index are unlikely to be values; later ones may be values if a text column has them too.
const LIKELY_MARKERS: usize = 5;

/// Statistics of one column.
#[derive(Debug, Clone, Copy)]
struct Column {
    /// Kinds that all values fit, markers not counted.
    mask: Mask,
    /// Whether there were values other than markers.
    seen: bool,
    /// Bit `i`: `NULL_WORDS[i]` occurred unquoted.
    markers: u16,
    /// Bit 0: a `t` occurred; bit 1: an `f`. A column with only one of them is rather a code.
    letters: u8,
}

impl Column {
    const NEW: Column = Column { mask: ANY, seen: false, markers: 0, letters: 0 };

    /// Adds a value. `nulls` are the words that the user named; if given, they are the only ones.
    fn add(&mut self, value: &[u8], quoted: bool, nulls: Option<&[Vec<u8>]>) {
        // Readers of numbers and times ignore blanks around them; words for NULL must stand alone.
        let trimmed = value.trim_ascii();
        if !quoted {
            let word = if trimmed.is_empty() { trimmed } else { value };
            match (nulls, null_word(word)) {
                (Some(nulls), _) if nulls.iter().any(|null| null == word) => return,
                (None, Some(marker)) => {
                    self.markers |= 1 << marker;
                    return;
                }
                _ => {}
            }
        } else if value.is_empty() {
            // Exports that quote everything write an absent value like this; the readers of all types but text make it
            // NULL.
            return;
        }
        self.seen = true;
        if self.mask != 0 {
            self.mask &= mask(trimmed);
            if let [letter @ (b't' | b'T' | b'f' | b'F')] = trimmed {
                self.letters |= if letter.eq_ignore_ascii_case(&b't') { 1 } else { 2 };
            }
        }
    }

    fn kind(&self, null_values: &[Vec<u8>], dates: DateOrder) -> Kind {
        let other_words = NULL_WORDS
            .iter()
            .enumerate()
            .any(|(i, word)| self.markers & (1 << i) != 0 && !null_values.iter().any(|null| null == word));
        match (other_words, self.seen) {
            (true, _) => Kind::Text,
            (false, true) if matches!(self.letters, 1 | 2) => Kind::Text,
            (false, true) => kind_of(self.mask, dates),
            (false, false) => Kind::Nothing,
        }
    }
}

/// A sample as columns.
pub(super) struct Table {
    /// All records but the first.
    columns: Vec<Column>,
    /// Values of the first record, and whether they were quoted.
    first: Vec<(String, bool)>,
    /// Records read from the start of the file, the first one included.
    pub rows: u64,
    /// Number of records with too few fields, and with too many.
    pub short: u64,
    pub long: u64,
    quoted_line_end: bool,
    /// Words that are NULL because the user said so.
    given_nulls: Option<Vec<Vec<u8>>>,
}

impl Table {
    pub fn new(columns: usize, given_nulls: Option<Vec<Vec<u8>>>) -> Self {
        Table {
            columns: vec![Column::NEW; columns],
            first: Vec::new(),
            rows: 0,
            short: 0,
            long: 0,
            quoted_line_end: false,
            given_nulls,
        }
    }

    /// Adds a sample that begins at the start of the file.
    pub fn read(&mut self, text: &[u8], complete: bool, dialect: &CsvDialect, from_start: bool) {
        let mut records = Records::new(text, complete, dialect);
        let mut pieces = Vec::new();
        while let Some(record) = records.next(&mut pieces) {
            if !record.whole && self.rows > 0 {
                break;
            }
            if record.blank && self.columns.len() > 1 {
                continue;
            }
            self.quoted_line_end |= record.quoted_line_end;
            if self.rows == 0 && from_start {
                self.first = pieces
                    .iter()
                    .map(|piece| (String::from_utf8_lossy(&records.value(*piece)).into_owned(), piece.quoted))
                    .collect();
            } else {
                self.short += u64::from(pieces.len() < self.columns.len());
                self.long += u64::from(pieces.len() > self.columns.len());
                self.add(&records, &pieces);
            }
            self.rows += 1;
        }
    }

    /// Adds a sample that begins anywhere, from its first line end on, and only if nearly all of its records fit.
    pub fn read_far(&mut self, text: &[u8], dialect: &CsvDialect) {
        let dialect = CsvDialect { skip_lines: 1, ..dialect.clone() };
        let mut pieces = Vec::new();
        let mut records = Records::new(text, false, &dialect);
        let (mut fitting, mut others) = (0usize, 0usize);
        while let Some(record) = records.next(&mut pieces) {
            if record.whole && !record.blank {
                let fits = pieces.len() == self.columns.len() && !record.malformed && !record.quoted_line_end;
                fitting += usize::from(fits);
                others += usize::from(!fits);
            }
        }
        if others * 20 > fitting {
            return;
        }
        let mut records = Records::new(text, false, &dialect);
        while let Some(record) = records.next(&mut pieces) {
            if record.whole && !record.blank && pieces.len() == self.columns.len() {
                self.add(&records, &pieces);
            }
        }
    }

    fn add(&mut self, records: &Records<'_>, pieces: &[Piece]) {
        let nulls = self.given_nulls.as_deref();
        for (column, piece) in self.columns.iter_mut().zip(pieces) {
            if piece.escaped {
                column.add(&records.value(*piece), piece.quoted, nulls);
            } else {
                column.add(&records.text()[piece.start..piece.end], piece.quoted, nulls);
            }
        }
    }

    pub fn columns(&self) -> usize {
        self.columns.len()
    }

    pub fn has_quoted_line_end(&self) -> bool {
        self.quoted_line_end
    }

    /// Returns the values of the first record.
    pub fn first_record(&self) -> Vec<&str> {
        self.first.iter().map(|(value, _)| value.as_str()).collect()
    }

    /// Returns the words to read as NULL: the given ones, or else the empty field, `\N` if it occurs, and other words
    /// if they are all that keeps a column from being numbers or dates. `NA`, `-` and the like are left alone if a text
    /// column has them too: there they may be values. With a header, the first record counts no more.
    pub fn null_values(&self, header: bool) -> Vec<Vec<u8>> {
        if let Some(given) = &self.given_nulls {
            return given.clone();
        }
        let columns = self.data_columns(header);
        let mut nulls = vec![Vec::new()];
        for (i, word) in NULL_WORDS.iter().enumerate().skip(1) {
            let here = || columns.iter().filter(|column| column.markers & (1 << i) != 0);
            let typed = here().any(|column| column.seen && column.mask != 0);
            let text = here().any(|column| column.seen && column.mask == 0);
            if here().next().is_some() && (i < SURE_MARKERS || (typed && (i < LIKELY_MARKERS || !text))) {
                nulls.push(word.to_vec());
            }
        }
        nulls
    }

    /// Returns the order of dates that reads most columns as dates, and whether days and months could be exchanged in
    /// them.
    pub fn date_order(&self, given: Option<DateOrder>) -> (DateOrder, bool) {
        if let Some(given) = given {
            return (given, false);
        }
        let columns = self.columns.iter().enumerate().filter(|(_, column)| column.seen).map(|(i, column)| {
            let alone = orders_of(column.mask);
            // The first record counts if it can be data.
            let first = self.first.get(i).map_or(ANY, |(value, _)| mask(value.trim().as_bytes()));
            let with_first = orders_of(column.mask & first);
            if with_first.contains(&true) { with_first } else { alone }
        });
        let columns: Vec<[bool; 3]> = columns.collect();
        let readable = |at: usize| columns.iter().filter(|orders| orders[at]).count();
        let best = (0..ORDERS.len()).rev().max_by_key(|at| readable(*at)).unwrap_or(0);
        (ORDERS[best], best > 0 && columns.iter().all(|[_, days, months]| days == months))
    }

    /// Whether the first record names the columns: one of its values does not fit the values below, or all columns are
    /// text.
    pub fn has_header(&self, null_values: &[Vec<u8>], dates: DateOrder) -> bool {
        if self.first.is_empty() {
            return false;
        }
        let is_null = |value: &str, quoted: bool| !quoted && null_values.iter().any(|null| null == value.as_bytes());
        let mut typed = false;
        for (column, (value, quoted)) in self.columns.iter().zip(&self.first) {
            let kind = column.kind(null_values, dates);
            if is_null(value, *quoted) || matches!(kind, Kind::Text | Kind::Nothing) {
                continue;
            }
            typed = true;
            if !may_name(value, *quoted) {
                continue;
            }
            let mut with_first = *column;
            with_first.add(value.as_bytes(), *quoted, self.given_nulls.as_deref());
            if matches!(with_first.kind(null_values, dates), Kind::Text) {
                return true;
            }
        }
        // If all columns below are text or empty, the first record has names in all columns, and they are no numbers
        // themselves.
        let mut first = self.first.iter().zip(&self.columns);
        !typed
            && first.all(|((value, quoted), column)| {
                !is_null(value, *quoted) && (column.seen || mask(value.trim().as_bytes()) == 0)
            })
    }

    /// Returns the kinds of the columns; without a header the first record is data too.
    pub fn kinds(&self, header: bool, null_values: &[Vec<u8>], dates: DateOrder) -> Vec<Kind> {
        self.data_columns(header).iter().map(|column| column.kind(null_values, dates)).collect()
    }

    /// Returns the columns; without a header the first record is data too.
    fn data_columns(&self, header: bool) -> Vec<Column> {
        let mut columns = self.columns.clone();
        for (column, (value, quoted)) in columns.iter_mut().zip(&self.first).filter(|_| !header) {
            column.add(value.as_bytes(), *quoted, self.given_nulls.as_deref());
        }
        columns
    }
}

/// Whether a value can be the name of a column. Words for NULL are none, nor are numbers, also those that are text to
/// the types here, such as 007 and numbers of fifty digits.
fn may_name(value: &str, quoted: bool) -> bool {
    let is_figure = |b: u8| b.is_ascii_digit() || b" +-.,:/".contains(&b);
    let is_number = value.bytes().any(|b| b.is_ascii_digit()) && value.bytes().all(is_figure);
    let is_null = !quoted && null_word(value.as_bytes()).is_some();
    !is_number && !is_null
}
