//! Guesses the dialect, columns and types of an unknown CSV file, and the columns of JSON lines (see `json.rs`).
//!
//! A sample from the start of the file decides. If the file can be read at any place, samples from its middle and end
//! prevent the guess of a type that a late value breaks. Options that the user gave are taken as they are and narrow
//! the search. The guess prefers a dialect that reads every row of the sample, in this order: quoting that closes, the
//! same number of fields in every record, no lines to skip, more columns. It is meant to agree with DuckDB's sniffer
//! wherever a person would; `tests/sniff.rs` counts how often it does.

mod binary;
mod header;
mod json;
mod shape;
mod types;

use std::fmt;
use std::io::Read;
use std::sync::Arc;

use arrow_schema::{DataType, Field, FieldRef, Schema, SchemaRef, TimeUnit};

use crate::compress::decoder;
use crate::dialect::{CsvDialect, DateOrder, LineEnd, Ragged};
use crate::error::{ErrorKind, TextError};
use crate::scan::FileInput;
use crate::source::{Compression, read_full};

pub use header::Header;
pub use json::infer_json;
pub use types::Kind;

/// Properties of the file that the user gave. `None`: guess it.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Hints {
    /// Bytes between fields.
    pub delimiter: Option<Vec<u8>>,
    /// Quote character; `Some(None)`: fields are never quoted.
    pub quote: Option<Option<u8>>,
    /// Whether fields that begin and end with `"` lose both, as in [`CsvDialect::unquote`].
    pub unquote: bool,
    /// Escape character; `Some(None)`: quotes inside quotes are doubled.
    pub escape: Option<Option<u8>>,
    /// First byte of comment lines; `Some(None)`: there are none.
    pub comment: Option<Option<u8>>,
    /// Whether the first record names the columns.
    pub header: Option<bool>,
    /// Lines before the header or the first record.
    pub skip_lines: Option<u64>,
    /// The end of a record.
    pub line_end: Option<LineEnd>,
    /// Whether blanks around unquoted fields are dropped.
    pub trim: Option<bool>,
    /// Unquoted fields that are NULL.
    pub null_values: Option<Vec<Vec<u8>>>,
    /// Treatment of records with too few or too many fields.
    pub ragged: Option<Ragged>,
    /// Order of year, month and day in dates.
    pub dates: Option<DateOrder>,
    /// Names of the columns in order, instead of the header's or `c1`, `c2`, ...; may be fewer than there are columns.
    pub names: Vec<String>,
    /// Types by column name (compared without case), instead of guessed ones. The rest of each field, its metadata, is
    /// kept.
    pub types: Vec<FieldRef>,
    /// Every column is a string.
    pub all_strings: bool,
}

/// A complete guess: everything that [`Scan`](crate::scan) needs to read the file.
#[derive(Debug, Clone, PartialEq)]
pub struct Guess {
    /// Name of the file, for messages.
    pub file: String,
    /// Dialect of the file.
    pub dialect: CsvDialect,
    /// Columns of the file in file order. The types are those of the crate: BOOLEAN, BIGINT (`Int64`), LARGEINT
    /// (`Decimal256(39, 0)`), DOUBLE, DATE (`Date32`), DATETIME (`Timestamp(Microsecond)`), STRING (`Utf8View`).
    pub schema: SchemaRef,
    /// Kind of each column's sampled values; [`Kind::Nothing`] if all were NULL (the type in the schema is then
    /// STRING).
    pub kinds: Vec<Kind>,
    /// For each column, whether its type was given as opposed to guessed.
    pub given: Vec<bool>,
    /// The file holds nothing but line ends, so it tells nothing about the columns of other files.
    pub empty: bool,
    /// Number of sampled records, without the header.
    pub sampled_rows: u64,
    /// Number of sampled records with fewer fields than there are columns, and with more.
    pub ragged_rows: (u64, u64),
    /// Days and months could be exchanged: no date of the sample has a day after the twelfth.
    pub ambiguous_dates: bool,
    /// The sample was the whole file.
    pub complete: bool,
}

impl Guess {
    /// Completes an error about a value that does not fit the guessed type of its column, with the ways to go on.
    pub fn hint(column: &Field, value: &[u8], dates: DateOrder) -> String {
        let wider = type_name(&Kind::wider(column.data_type(), value, dates).data_type()).to_lowercase();
        format!(
            "the type was guessed from a sample; fix the row, give the column another type by \
             files(..., 'csv_schema'='{}:{wider}'), or read bad values as NULL by 'on_error'='null'",
            column.name()
        )
    }
}

/// Describes how files are written, for messages and EXPLAIN: `',' between fields, '"' quotes, header`.
/// `ambiguous_dates` as in [`Guess`].
pub fn describe(dialect: &CsvDialect, ambiguous_dates: bool) -> String {
    let mut parts = vec![format!("{} between fields", visible(&dialect.delimiter))];
    parts.push(dialect.quote.map_or("no quotes".to_string(), |quote| format!("{} quotes", visible(&[quote]))));
    parts.extend(dialect.escape.map(|escape| format!("{} escapes", visible(&[escape]))));
    parts.extend(dialect.comment.map(|comment| format!("{} comments", visible(&[comment]))));
    if dialect.skip_lines > 0 {
        parts.push(format!("{} lines skipped", dialect.skip_lines));
    }
    parts.push(if dialect.header { "header" } else { "no header" }.to_string());
    if dialect.trim {
        parts.push("blanks around fields dropped".to_string());
    }
    parts.extend(match dialect.dates {
        DateOrder::YearFirst => None,
        DateOrder::DayFirst if ambiguous_dates => {
            Some("dates have the day first (or the month: 'date_order'='mdy')".to_string())
        }
        DateOrder::DayFirst => Some("dates have the day first".to_string()),
        DateOrder::MonthFirst => Some("dates have the month first".to_string()),
    });
    let markers: Vec<_> = dialect.null_values.iter().filter(|value| !value.is_empty()).map(|v| visible(v)).collect();
    if !markers.is_empty() {
        parts.push(format!("{} is NULL", markers.join(" ")));
    }
    parts.join(", ")
}

/// `{name}: ',' between fields, '"' quotes, header; 3 columns from 1000 rows: id BIGINT, ts DATETIME, note STRING`, and
/// a second line that says how to override the guess.
impl fmt::Display for Guess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let d = &self.dialect;
        write!(f, "{}: {}", self.file, describe(d, self.ambiguous_dates))?;
        let columns = self.schema.fields();
        let plural = |n: usize| if n == 1 { "" } else { "s" };
        let whole = if self.complete { "all" } else { "the first" };
        let rows = self.sampled_rows as usize;
        write!(f, "; {} column{} from {whole} {rows} row{}: ", columns.len(), plural(columns.len()), plural(rows))?;
        for (i, field) in columns.iter().take(SHOWN_COLUMNS).enumerate() {
            let between = if i > 0 { ", " } else { "" };
            write!(f, "{between}{} {}", shown_name(field.name()), type_name(field.data_type()))?;
        }
        if columns.len() > SHOWN_COLUMNS {
            write!(f, ", and {} more", columns.len() - SHOWN_COLUMNS)?;
        }
        let (short, long) = self.ragged_rows;
        if short > 0 {
            let meaning = if d.ragged == Ragged::Fill { "the rest is NULL" } else { "an error" };
            write!(f, "; {short} of them are short ({meaning})")?;
        }
        if long > 0 {
            let meaning =
                if d.ragged == Ragged::Fill { "dropped" } else { "an error; 'null_padding'='true' drops them" };
            write!(f, "; {long} of them have fields too many ({meaning})")?;
        }
        write!(
            f,
            "\nwrong? say files('path'='{}', 'format'='csv', 'column_separator'=..., 'enclose'=..., 'escape'=..., \
             'header'='{}', 'skip_lines'=..., 'csv_schema'='{}:string;...')",
            self.file,
            !d.header,
            columns.first().map_or("c1".to_string(), |field| shown_name(field.name()))
        )
    }
}

const SHOWN_COLUMNS: usize = 24;

/// Returns a column name in one line, cut at 60 characters.
fn shown_name(name: &str) -> String {
    let mut shown: String = name.chars().take(60).map(|c| if c.is_control() { ' ' } else { c }).collect();
    if name.chars().nth(60).is_some() {
        shown.push_str("...");
    }
    shown
}

/// Returns bytes as a person would type them.
fn visible(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let mut out = String::from("'");
    for c in text.chars() {
        match c {
            '\t' => out.push_str("\\t"),
            c if c.is_control() => out.push_str(&format!("\\x{:02x}", u32::from(c))),
            c => out.push(c),
        }
    }
    out.push('\'');
    out
}

fn type_name(kind: &DataType) -> String {
    match kind {
        DataType::Boolean => "BOOLEAN".to_string(),
        DataType::Int8 => "TINYINT".to_string(),
        DataType::Int16 => "SMALLINT".to_string(),
        DataType::Int32 => "INT".to_string(),
        DataType::Int64 => "BIGINT".to_string(),
        DataType::Float32 => "FLOAT".to_string(),
        DataType::Float64 => "DOUBLE".to_string(),
        DataType::Date32 => "DATE".to_string(),
        DataType::Timestamp(TimeUnit::Microsecond, None) => "DATETIME".to_string(),
        DataType::Decimal256(39, 0) => "LARGEINT".to_string(),
        DataType::Decimal128(precision, scale) => format!("DECIMAL({precision},{scale})"),
        DataType::Utf8View => "STRING".to_string(),
        other => other.to_string(),
    }
}

/// Number of bytes sampled at the start of a file.
const SAMPLE_BYTES: usize = 256 << 10;
/// Number of its bytes that decide delimiter and quotes.
const SHAPE_BYTES: usize = 64 << 10;
/// Number of bytes sampled in the middle and at the end of a file that allows it.
const FAR_SAMPLE_BYTES: usize = 64 << 10;

/// Guesses dialect, columns and types of one file.
///
/// # Errors
/// `Io` and `Compression` if the file cannot be read; `BadRecord` if it is no text that this crate reads (Parquet,
/// UTF-16, or compressed without a name that says so), or if `skip_lines` skips all of it; `Options` if a type is given
/// for a column that does not exist.
pub fn infer(file: &FileInput, hints: &Hints) -> Result<Guess, TextError> {
    file.source.ready().map_err(|error| TextError::io(&file.name, error))?;
    let mut sample = Vec::with_capacity(SAMPLE_BYTES);
    let reader = decoder(file.compression, file.source.clone());
    reader.take(SAMPLE_BYTES as u64).read_to_end(&mut sample).map_err(|error| TextError::io(&file.name, error))?;
    let complete = sample.len() < SAMPLE_BYTES;
    let far = far_samples(file, sample.len(), FAR_SAMPLE_BYTES)?;
    infer_sample(&file.name, &sample, complete, &far, hints)
}

/// Returns samples of `most` bytes from the middle and the end of a file that allows it. The first `known` bytes of the
/// file were read already.
fn far_samples(file: &FileInput, known: usize, most: usize) -> Result<Vec<Vec<u8>>, TextError> {
    let length = file.source.len();
    if file.compression != Compression::None || length <= (known + 2 * most) as u64 {
        return Ok(Vec::new());
    }
    let sample = |start: u64| {
        let mut bytes = vec![0; most];
        let read = read_full(&*file.source, start, &mut bytes).map_err(|error| TextError::io(&file.name, error))?;
        bytes.truncate(read);
        Ok(bytes)
    };
    [length / 2, length - most as u64].into_iter().map(sample).collect()
}

/// Guesses from bytes in memory: `sample` from the start of the file, `complete` if nothing follows, and `far` from
/// anywhere else, each beginning at an arbitrary byte.
///
/// # Errors
/// `BadRecord` and `Options`, under the conditions of [`infer`].
pub fn infer_sample(
    name: &str,
    sample: &[u8],
    complete: bool,
    far: &[Vec<u8>],
    hints: &Hints,
) -> Result<Guess, TextError> {
    binary::refuse(name, sample)?;
    let text = sample.strip_prefix(b"\xef\xbb\xbf").unwrap_or(sample);
    let told = told_by_first_line(text, hints);
    let hints = told.as_ref().unwrap_or(hints);
    let shape = shape::guess(&text[..text.len().min(SHAPE_BYTES)], complete && text.len() <= SHAPE_BYTES, hints);
    let mut skipped = shape::Records::new(text, complete, &shape.dialect);
    let is_blank = |byte: &u8| matches!(byte, b'\r' | b'\n');
    let skips_all = skipped.next(&mut Vec::new()).is_none() && !text.iter().all(is_blank);
    if let (true, Some(lines), []) = (skips_all, hints.skip_lines, &hints.types[..]) {
        let reason = format!("there is nothing behind the first {lines} lines, which 'skip_lines' leaves out");
        return Err(TextError::new(ErrorKind::BadRecord, reason).in_file(name).with_hint("skip fewer lines"));
    }
    let empty = skips_all || text.iter().all(is_blank);
    // For an empty file, only the list of given types tells its columns.
    let columns = if empty { hints.types.len().max(1) } else { shape.columns };
    let mut dialect = shape.dialect;
    let mut table = types::Table::new(columns, hints.null_values.clone());
    table.read(text, complete, &dialect, true);
    let trusts_far = !table.has_quoted_line_end();
    for bytes in far.iter().filter(|_| trusts_far) {
        table.read_far(bytes, &dialect);
    }
    let null_values = table.null_values(true);
    let (dates, ambiguous_dates) = table.date_order(hints.dates);
    dialect.dates = dates;
    dialect.header = match hints.header {
        Some(told) => told,
        None if hints.types.is_empty() => table.has_header(&null_values, dates),
        // Columns were given: a first record that names none of them is data, as in Doris.
        None => {
            let first = table.first_record();
            let is_named =
                |typed: &&FieldRef| first.iter().any(|v| v.trim().to_lowercase() == typed.name().to_lowercase());
            let named = hints.types.iter().filter(is_named).count();
            named > 0 && (named == hints.types.len() || table.has_header(&null_values, dates))
        }
    };
    let null_values = table.null_values(dialect.header);
    let kinds = table.kinds(dialect.header, &null_values, dates);
    dialect.null_values = null_values;
    dialect.trim = hints.trim.unwrap_or(false);
    dialect.ragged =
        hints.ragged.clone_or(if table.long == 0 && table.short > 0 { Ragged::Fill } else { Ragged::Error });

    let names = names(&table, dialect.header && !empty, hints);
    let same = |typed: &FieldRef, name: &str| typed.name().to_lowercase() == name.to_lowercase();
    let mut given = Vec::with_capacity(names.len());
    let fields: Vec<Field> = names
        .iter()
        .zip(&kinds)
        .map(|(name, kind)| {
            let typed = hints.types.iter().find(|typed| same(typed, name));
            given.push(typed.is_some() || hints.all_strings);
            match typed {
                Some(typed) => Field::clone(typed).with_name(name).with_nullable(true),
                None if hints.all_strings => Field::new(name, DataType::Utf8View, true),
                None => Field::new(name, kind.data_type(), true),
            }
        })
        .collect();
    if let Some(unknown) = hints.types.iter().find(|typed| !names.iter().any(|name| same(typed, name))) {
        let reason = format!("there is no column {} to give a type to", unknown.name());
        return Err(TextError::new(ErrorKind::Options, reason)
            .in_file(name)
            .with_hint(format!("its columns are {}", names.join(", "))));
    }
    let sampled_rows = table.rows - u64::from(dialect.header && table.rows > 0);
    Ok(Guess {
        file: name.to_string(),
        dialect,
        schema: Arc::new(Schema::new(fields)),
        kinds,
        given,
        empty,
        sampled_rows,
        ragged_rows: (table.short, table.long),
        ambiguous_dates,
        complete,
    })
}

/// Returns the hints completed by a first line like `sep=;`, which spreadsheets write and read. `None` if there is no
/// such line, or if the delimiter or the lines to skip were given.
fn told_by_first_line(text: &[u8], hints: &Hints) -> Option<Hints> {
    let [delimiter, behind, ..] = text.strip_prefix(b"sep=")? else { return None };
    let is_line = delimiter.is_ascii() && !delimiter.is_ascii_alphanumeric() && matches!(behind, b'\r' | b'\n');
    (is_line && hints.delimiter.is_none() && hints.skip_lines.is_none()).then(|| Hints {
        delimiter: Some(vec![*delimiter]),
        skip_lines: Some(1),
        ..hints.clone()
    })
}

/// `Option::unwrap_or` for a hint, whether it is `Copy` or not, without moving it out; keeps the call sites alike.
trait CloneOr<T> {
    fn clone_or(&self, otherwise: T) -> T;
}

impl<T: Clone> CloneOr<T> for Option<T> {
    fn clone_or(&self, otherwise: T) -> T {
        self.clone().unwrap_or(otherwise)
    }
}

/// Returns the column names: given ones, else the header's, else `c1`, `c2`, ...; a name that occurred before (without
/// case) gets `_1`, `_2`, ...
fn names(table: &types::Table, header: bool, hints: &Hints) -> Vec<String> {
    let first = table.first_record();
    let name = |i: usize| match (hints.names.get(i), header) {
        (Some(given), _) => given.clone(),
        (None, true) => first.get(i).map(|value| value.trim().to_string()).unwrap_or_default(),
        // Given types name the columns of a file without a header, in its order.
        (None, false) => hints.types.get(i).map(|typed| typed.name().clone()).unwrap_or_default(),
    };
    unique((0..table.columns()).map(name))
}

/// Makes column names distinct: `c1`, `c2`, ... for empty names, and `_1`, `_2`, ... behind one that occurred before
/// (without case).
pub fn unique(given: impl Iterator<Item = String>) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    let mut taken = std::collections::HashSet::new();
    for (i, base) in given.enumerate() {
        let base = if base.is_empty() { format!("c{}", i + 1) } else { base };
        let mut name = base.clone();
        let mut copy = 0;
        while !taken.insert(name.to_lowercase()) {
            copy += 1;
            name = format!("{base}_{copy}");
        }
        names.push(name);
    }
    names
}

/// Gives files whose dates do not tell days from months the order of a file whose dates do, and marks them unambiguous.
pub fn settle_dates(guesses: &mut [Guess]) {
    let tells = |guess: &&Guess| guess.dialect.dates != DateOrder::YearFirst && !guess.ambiguous_dates;
    let Some(order) = guesses.iter().find(tells).map(|guess| guess.dialect.dates) else { return };
    for guess in guesses.iter_mut().filter(|guess| guess.ambiguous_dates) {
        guess.dialect.dates = order;
        guess.ambiguous_dates = false;
    }
}

/// Returns a dialect in which all of these files can be read.
///
/// The words for NULL are united, and records may be short if they are in any file. A file that shows no quotes or has
/// no rows fits any other, and so does one whose dates all have the year first.
///
/// # Errors
/// The positions of two files whose dialects exclude each other.
pub fn common_dialect(guesses: &[Guess]) -> Result<CsvDialect, (usize, usize)> {
    let telling = |guess: &Guess| guess.sampled_rows > 0 && guess.kinds.len() > 1;
    let lead = guesses.iter().position(telling).unwrap_or(0);
    let Some(first) = guesses.get(lead) else { return Ok(CsvDialect::default()) };
    let mut common = first.dialect.clone();
    for (i, other) in guesses.iter().enumerate().filter(|(_, guess)| telling(guess)) {
        let d = &other.dialect;
        let quotes_agree = d.quote == common.quote || d.quote.is_none() || common.quote.is_none();
        let dates_agree = d.dates == common.dates || [d.dates, common.dates].contains(&DateOrder::YearFirst);
        let escapes_agree = d.escape == common.escape || d.escape.is_none() || common.escape.is_none();
        let alike = d.delimiter == common.delimiter
            && d.line_end == common.line_end
            && d.header == common.header
            && d.skip_lines == common.skip_lines
            && d.trim == common.trim;
        if !(alike && quotes_agree && escapes_agree && dates_agree) {
            return Err((lead, i));
        }
        common.quote = common.quote.or(d.quote);
        common.escape = common.escape.or(d.escape);
        common.comment = common.comment.or(d.comment);
        if d.dates != DateOrder::YearFirst {
            common.dates = d.dates;
        }
        if d.ragged == Ragged::Fill {
            common.ragged = Ragged::Fill;
        }
        for word in &d.null_values {
            if !common.null_values.contains(word) {
                common.null_values.push(word.clone());
            }
        }
    }
    Ok(common)
}

/// The columns of several files together, and the position of each column in each file.
#[derive(Debug, Clone, PartialEq)]
pub struct Union {
    /// All columns, in the order of their first occurrence.
    pub schema: SchemaRef,
    /// For each column of `schema`, whether its type was given as opposed to guessed.
    pub given: Vec<bool>,
    /// For each file, in the order given: the position of each column of `schema` in it.
    pub columns: Vec<Vec<Option<usize>>>,
}

/// Unites files by the names of their columns (compared without case). Types that differ become the narrowest that
/// holds both: BIGINT and DOUBLE are DOUBLE, DATE and DATETIME are DATETIME, BIGINT and DATE are STRING; columns
/// without values take any type.
///
/// A column whose type in a file differs from that in the union must be read with the union's type.
pub fn union_by_name(guesses: &[Guess]) -> Union {
    let mut fields: Vec<(String, Kind, Option<FieldRef>)> = Vec::new();
    let mut at: std::collections::HashMap<String, usize> = std::collections::HashMap::new();
    let mut columns = Vec::with_capacity(guesses.len());
    let mut positions = Vec::with_capacity(guesses.len());
    for guess in guesses {
        let mut of_file = Vec::with_capacity(guess.kinds.len());
        for ((field, kind), given) in guess.schema.fields().iter().zip(&guess.kinds).zip(&guess.given) {
            let given = given.then(|| Arc::clone(field));
            let index = *at.entry(field.name().to_lowercase()).or_insert(fields.len());
            match fields.get_mut(index) {
                Some(known) => {
                    known.1 = known.1.union(*kind);
                    known.2 = known.2.take().or(given);
                }
                None => fields.push((field.name().clone(), *kind, given)),
            }
            of_file.push(index);
        }
        positions.push(of_file);
    }
    for of_file in positions {
        let mut places = vec![None; fields.len()];
        for (place, index) in of_file.into_iter().enumerate() {
            places[index] = Some(place);
        }
        columns.push(places);
    }
    let given = fields.iter().map(|(_, _, given)| given.is_some()).collect();
    let fields: Vec<Field> = fields
        .into_iter()
        .map(|(name, kind, given)| match given {
            Some(field) => Field::clone(&field).with_name(name),
            None => Field::new(name, kind.data_type(), true),
        })
        .collect();
    Union { schema: Arc::new(Schema::new(fields)), given, columns }
}

#[cfg(test)]
mod tests;
