//! Meaning of the bytes of a file: delimiters, quoting, escapes, NULL, header lines, members.

/// The way in which records and fields are written in a file.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum Dialect {
    /// RFC 4180 and its relatives.
    Csv(CsvDialect),
    /// Hive's LazySimpleSerDe, MultiDelimitSerDe or OpenCSVSerde.
    Hive(HiveDialect),
    /// A JSON object a line.
    Json(JsonDialect),
}

/// The end of a record.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum LineEnd {
    /// `\n` or `\r\n`; a bare `\r` is data.
    Newline,
    /// `\n`, `\r\n` or a bare `\r` (Hadoop's LineRecordReader).
    AnyNewline,
    /// Exactly these bytes, never empty.
    Bytes(Vec<u8>),
}

/// Treatment of a record with too few or too many fields.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Ragged {
    /// A bad record, treated by [`BadValue`](crate::scan::BadValue).
    Error,
    /// Missing fields are NULL, extra ones are dropped.
    Fill,
}

/// Order of year, month and day in a date. A date that begins with a four-digit year is read year first in every order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DateOrder {
    /// `2024-01-31` alone.
    YearFirst,
    /// `31/01/2024`, also with `-` or `.` as the separator, with digits left out (`1/2/24` with slashes), and with a
    /// time of day behind it, of 24 hours or of 12 with AM or PM.
    DayFirst,
    /// `01/31/2024`, with the same variants as [`DayFirst`](Self::DayFirst).
    MonthFirst,
}

/// Words that stand for NULL in files of which nothing more is known. When a dialect is guessed, unquoted ones become
/// NULL. The empty word comes first and is always among the null values.
pub(crate) const NULL_WORDS: [&[u8]; 11] =
    [b"", b"\\N", b"NULL", b"null", b"Null", b"NA", b"N/A", b"n/a", b"None", b"none", b"-"];

/// Returns the index in [`NULL_WORDS`] of a value.
pub(crate) fn null_word(value: &[u8]) -> Option<usize> {
    if value.len() > 4 { None } else { NULL_WORDS.iter().position(|word| *word == value) }
}

/// CSV and TSV: RFC 4180 with the usual extensions.
#[derive(Debug, Clone, PartialEq)]
pub struct CsvDialect {
    /// Bytes between fields, never empty (`,`, `\t`, `||`, `\x01`).
    pub delimiter: Vec<u8>,
    /// The end of a record.
    pub line_end: LineEnd,
    /// Encloses fields that contain delimiters; doubled inside to mean itself. `None`: no quoting.
    pub quote: Option<u8>,
    /// Makes the next byte literal, inside quotes and (when there is no quote) outside. `None`: only doubling.
    pub escape: Option<u8>,
    /// Lines that begin with this byte are skipped.
    pub comment: Option<u8>,
    /// The first record (after `skip_lines`) names the columns and is no data.
    pub header: bool,
    /// Lines to drop at the start of each file, before the header.
    pub skip_lines: u64,
    /// Drops blanks and tabs around unquoted fields.
    pub trim: bool,
    /// A field that begins and ends with `"` loses both, and is no NULL then. Unlike a [`quote`](Self::quote), these hold
    /// neither delimiters nor line ends together.
    pub unquote: bool,
    /// Unquoted fields equal to one of these are NULL.
    pub null_values: Vec<Vec<u8>>,
    /// Records with too few or too many fields.
    pub ragged: Ragged,
    /// The way in which dates are written, including the dates of timestamps.
    pub dates: DateOrder,
}

impl Default for CsvDialect {
    /// RFC 4180: `,`, `"`, header line, empty unquoted field is NULL.
    fn default() -> Self {
        CsvDialect {
            delimiter: b",".to_vec(),
            line_end: LineEnd::Newline,
            quote: Some(b'"'),
            escape: None,
            comment: None,
            header: true,
            skip_lines: 0,
            trim: false,
            unquote: false,
            null_values: vec![Vec::new()],
            ragged: Ragged::Error,
            dates: DateOrder::YearFirst,
        }
    }
}

/// JSON lines: one object per line, whose members are the columns.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JsonDialect {
    /// Name of each column's member.
    pub keys: Vec<String>,
    /// Whether the columns are a guess. If they are, a member that is no column is an error, and so is a value that its
    /// column cannot hold unchanged. If they were declared, names are compared without regard to case, other members
    /// are ignored, and values are read like those of CSV.
    pub guessed: bool,
}

/// The Hive SerDe that splits and converts the fields.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub enum HiveSerde {
    /// `org.apache.hadoop.hive.serde2.lazy.LazySimpleSerDe`: one-byte separators per nesting level.
    LazySimple,
    /// `org.apache.hadoop.hive.serde2.MultiDelimitSerDe`: fields are cut at a string.
    MultiDelimit {
        /// Bytes between fields, never empty.
        field_delimiter: Vec<u8>,
    },
    /// `org.apache.hadoop.hive.serde2.OpenCSVSerde`: quoted fields, every column a string.
    OpenCsv {
        /// `separatorChar`.
        separator: char,
        /// `quoteChar`.
        quote: char,
        /// `escapeChar`.
        escape: char,
    },
}

/// Hive text (`STORED AS TEXTFILE`) as Hive 4.0.1 reads it.
#[derive(Debug, Clone, PartialEq)]
pub struct HiveDialect {
    /// The SerDe.
    pub serde: HiveSerde,
    /// Separator bytes by nesting level: fields, collection items, map keys, then `\x04`...
    pub separators: Vec<u8>,
    /// `escape.delim`.
    pub escape: Option<u8>,
    /// `serialization.null.format`, compared with the raw bytes of a field. Default `\N`.
    pub null_format: Vec<u8>,
    /// `serialization.last.column.takes.rest`.
    pub last_column_takes_rest: bool,
    /// `serialization.encoding`; `None` is UTF-8.
    pub encoding: Option<String>,
    /// `timestamp.formats`, tried before the usual form.
    pub timestamp_formats: Vec<String>,
    /// `hive.lazysimple.extended_boolean_literal`: `1 0 t f` (any case) are booleans too.
    pub extended_boolean: bool,
    /// `textinputformat.record.delimiter`, else [`LineEnd::AnyNewline`].
    pub line_end: LineEnd,
    /// `skip.header.line.count`.
    pub skip_header: u64,
    /// `skip.footer.line.count`.
    pub skip_footer: u64,
}

impl Default for HiveDialect {
    /// `ROW FORMAT DELIMITED` without clauses: ^A, ^B, ^C, ... and `\N`.
    fn default() -> Self {
        HiveDialect {
            serde: HiveSerde::LazySimple,
            separators: vec![1, 2, 3, 4, 5, 6, 7, 8],
            escape: None,
            null_format: b"\\N".to_vec(),
            last_column_takes_rest: false,
            encoding: None,
            timestamp_formats: Vec::new(),
            extended_boolean: false,
            line_end: LineEnd::AnyNewline,
            skip_header: 0,
            skip_footer: 0,
        }
    }
}
