//! Footers of Parquet files of other writers. They are read by parquet's own reader, after parts that it would refuse
//! or misread have been rewritten.
//!
//! Other readers accept and parquet's refuses: converted types that the format does not know, DECIMAL without a scale,
//! repeated groups that are maps or lists themselves, a dictionary at byte 0. Intervals lose their months when they are
//! decoded as intervals, so they are read as their 12 bytes. Parquet's reader does not keep whether bounds of numbers
//! are exact.

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use parquet::errors::{ParquetError, Result as ParquetResult};
use parquet::file::metadata::{ParquetMetaData, ParquetMetaDataReader};

use super::binary::{Reader, Short};
use super::thrift::{
    BINARY, DEPTH, FALSE, I32, LIST, STRUCT, TRUE, field, list, number, put_binary, put_field, put_list, put_number,
    skip,
};

/// Numbers of the converted types that this file names.
mod converted {
    pub const MAP: i32 = 1;
    pub const MAP_KEY_VALUE: i32 = 2;
    pub const LIST: i32 = 3;
    pub const DECIMAL: i32 = 5;
    pub const INTERVAL: i32 = 21;
}

/// Numbers of the logical types that this file names, in the format's union.
mod logical {
    pub const MAP: i16 = 2;
    pub const LIST: i16 = 3;
    pub const DECIMAL: i16 = 5;
    pub const UUID: i16 = 14;
}

/// Number of FIXED_LEN_BYTE_ARRAY among physical types.
const FIXED: i32 = 7;
/// Numbers of REQUIRED and REPEATED among repetitions.
const REQUIRED: i32 = 0;
const REPEATED: i32 = 2;
/// Most levels of a schema: parquet's reader is recursive.
const LEVELS: usize = 200;

/// Meaning of a leaf's bytes of fixed length that parquet's reader returns as they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Bytes {
    /// A UUID.
    Uuid,
    /// Months, days and milliseconds.
    Interval,
}

/// A footer, and information in it that parquet's metadata does not keep.
#[derive(Debug)]
pub(super) struct Footer {
    pub metadata: ParquetMetaData,
    /// Row groups and leaves whose bounds are declared not to be values.
    pub inexact: HashSet<(usize, usize)>,
    /// Meaning of bytes of fixed length, by leaf.
    pub bytes: HashMap<usize, Bytes>,
}

/// Reads a footer. `bytes` end before the footer's length.
///
/// # Errors
/// [`ParquetError`] if `bytes` are not a footer, or if it contains something that cannot be read.
pub(super) fn read(bytes: &[u8]) -> ParquetResult<Footer> {
    let broken = |what: &str| ParquetError::General(what.to_string());
    let Ok(seen) = walk(bytes) else {
        // Parquet's reader has the better error message.
        ParquetMetaDataReader::decode_metadata(bytes)?;
        return Err(broken("it is not one"));
    };
    if seen.encrypted {
        return Err(broken(ENCRYPTED));
    }
    let Some(schema) = &seen.schema else { return Err(broken("it has no schema")) };
    let mended = mended(&seen.elements, bytes).map_err(|Short| broken("its schema is not one"))?;
    let metadata = match mended {
        None => ParquetMetaDataReader::decode_metadata(bytes)?,
        Some(list) => {
            let whole = [&bytes[..schema.start], &list, &bytes[schema.end..]].concat();
            ParquetMetaDataReader::decode_metadata(&whole)?
        }
    };
    let metadata = without_false_dictionaries(metadata)?;
    Ok(Footer { metadata, inexact: seen.inexact, bytes: special(&seen.elements) })
}

/// Error text for files whose columns are encrypted.
pub(super) const ENCRYPTED: &str = "it is encrypted (Parquet modular encryption), which is not read; write the file anew \
                                    without encryption";

/// Removes dictionaries that begin before any page can, or after the data: there is none.
fn without_false_dictionaries(metadata: ParquetMetaData) -> ParquetResult<ParquetMetaData> {
    let is_false = |chunk: &parquet::file::metadata::ColumnChunkMetaData| {
        chunk.dictionary_page_offset().is_some_and(|at| at < 4 || at > chunk.data_page_offset())
    };
    if !metadata.row_groups().iter().flat_map(|g| g.columns()).any(is_false) {
        return Ok(metadata);
    }
    let mut groups = Vec::with_capacity(metadata.num_row_groups());
    for group in metadata.row_groups() {
        let chunks = group.columns().iter().cloned().map(|chunk| match is_false(&chunk) {
            true => chunk.into_builder().set_dictionary_page_offset(None).build(),
            false => Ok(chunk),
        });
        let chunks = chunks.collect::<ParquetResult<Vec<_>>>()?;
        groups.push(group.clone().into_builder().set_column_metadata(chunks).build()?);
    }
    Ok(metadata.into_builder().set_row_groups(groups).build())
}

/// Findings of a walk through a footer.
#[derive(Debug, Default)]
struct Seen<'a> {
    /// Range of the list of the schema's elements.
    schema: Option<Range<usize>>,
    elements: Vec<Element<'a>>,
    inexact: HashSet<(usize, usize)>,
    encrypted: bool,
}

/// An element of a schema.
#[derive(Debug, Clone, Default)]
struct Element<'a> {
    /// Range of the element in the footer.
    place: Range<usize>,
    physical: Option<i32>,
    length: Option<i32>,
    repetition: Option<i32>,
    name: &'a [u8],
    children: Option<i32>,
    converted: Option<i32>,
    scale: Option<i32>,
    precision: Option<i32>,
    id: Option<i32>,
    /// The logical type as encoded bytes.
    logical: Option<&'a [u8]>,
    /// Number of the logical type; 0 for none.
    logical_id: i16,
    /// Scale and precision of the logical type.
    decimal: Option<(i32, i32)>,
}

impl Element<'_> {
    fn is_map(&self) -> bool {
        matches!(self.converted, Some(converted::MAP | converted::MAP_KEY_VALUE)) || self.logical_id == logical::MAP
    }

    fn is_list(&self) -> bool {
        self.converted == Some(converted::LIST) || self.logical_id == logical::LIST
    }

    fn is_interval(&self) -> bool {
        self.converted == Some(converted::INTERVAL) && self.physical == Some(FIXED) && self.length == Some(12)
    }

    fn children(&self) -> usize {
        self.children.and_then(|n| usize::try_from(n).ok()).unwrap_or(0)
    }

    fn is_leaf(&self) -> bool {
        self.children() == 0 && self.physical.is_some()
    }

    /// Returns the element as other readers understand it, if that differs from what it says.
    fn mended(&self) -> Option<Self> {
        let mut mended = self.clone();
        if !(0..=converted::INTERVAL).contains(&self.converted.unwrap_or(0)) || self.is_interval() {
            mended.converted = None;
        }
        if let Some((scale, precision)) = self.decimal {
            (mended.scale, mended.precision) = (Some(scale), Some(precision));
        } else if self.converted == Some(converted::DECIMAL) && self.scale.is_none() {
            mended.scale = Some(0);
        }
        let same = (mended.converted, mended.scale, mended.precision) == (self.converted, self.scale, self.precision);
        (!same).then_some(mended)
    }

    fn put(&self, out: &mut Vec<u8>) {
        let mut last = 0;
        let put_i32 = |out: &mut Vec<u8>, last: &mut i16, id: i16, value: Option<i32>| {
            if let Some(value) = value {
                put_field(out, last, id, I32);
                put_number(out, value);
            }
        };
        put_i32(out, &mut last, 1, self.physical);
        put_i32(out, &mut last, 2, self.length);
        put_i32(out, &mut last, 3, self.repetition);
        put_field(out, &mut last, 4, BINARY);
        put_binary(out, self.name);
        for (id, value) in [(5, self.children), (6, self.converted), (7, self.scale), (8, self.precision), (9, self.id)]
        {
            put_i32(out, &mut last, id, value);
        }
        if let Some(logical) = self.logical {
            put_field(out, &mut last, 10, STRUCT);
            out.extend_from_slice(logical);
        }
        out.push(0);
    }
}

/// A position in a footer.
struct Cursor<'a> {
    all: &'a [u8],
    from: Reader<'a>,
}

impl<'a> Cursor<'a> {
    fn at(&self) -> usize {
        self.all.len() - self.from.0.len()
    }
}

/// Walks through a footer.
fn walk(bytes: &[u8]) -> Result<Seen<'_>, Short> {
    let mut cursor = Cursor { all: bytes, from: Reader(bytes) };
    let mut seen = Seen::default();
    let mut last = 0;
    while let Some((id, kind)) = field(&mut cursor.from, last)? {
        last = id;
        match (id, kind) {
            (2, LIST) => {
                let start = cursor.at();
                let (count, kind) = list(&mut cursor.from)?;
                if kind != STRUCT && count > 0 {
                    return Err(Short);
                }
                for _ in 0..count {
                    seen.elements.push(element(&mut cursor)?);
                }
                seen.schema = Some(start..cursor.at());
            }
            (4, LIST) => {
                let (count, kind) = list(&mut cursor.from)?;
                if kind != STRUCT && count > 0 {
                    return Err(Short);
                }
                for group in 0..count {
                    row_group(&mut cursor.from, group, &mut seen.inexact)?;
                }
            }
            (8, STRUCT) => {
                seen.encrypted = true;
                skip(&mut cursor.from, kind, DEPTH)?;
            }
            _ => skip(&mut cursor.from, kind, DEPTH)?,
        }
    }
    Ok(seen)
}

fn element<'a>(cursor: &mut Cursor<'a>) -> Result<Element<'a>, Short> {
    let start = cursor.at();
    let mut element = Element::default();
    let mut last = 0;
    while let Some((id, kind)) = field(&mut cursor.from, last)? {
        last = id;
        let place = match (id, kind) {
            (1, I32) => &mut element.physical,
            (2, I32) => &mut element.length,
            (3, I32) => &mut element.repetition,
            (5, I32) => &mut element.children,
            (6, I32) => &mut element.converted,
            (7, I32) => &mut element.scale,
            (8, I32) => &mut element.precision,
            (9, I32) => &mut element.id,
            (4, BINARY) => {
                element.name = cursor.from.block()?;
                continue;
            }
            (10, STRUCT) => {
                let start = cursor.at();
                let mut union = cursor.from;
                skip(&mut cursor.from, kind, DEPTH)?;
                element.logical = Some(&cursor.all[start..cursor.at()]);
                if let Some((id, STRUCT)) = field(&mut union, 0)? {
                    element.logical_id = id;
                    if id == logical::DECIMAL {
                        element.decimal = decimal(&mut union)?;
                    }
                }
                continue;
            }
            _ => {
                skip(&mut cursor.from, kind, DEPTH)?;
                continue;
            }
        };
        *place = Some(number(&mut cursor.from)?);
    }
    element.place = start..cursor.at();
    Ok(element)
}

/// Reads scale and precision of a logical type DECIMAL.
fn decimal(from: &mut Reader<'_>) -> Result<Option<(i32, i32)>, Short> {
    let (mut scale, mut precision, mut last) = (None, None, 0);
    while let Some((id, kind)) = field(from, last)? {
        last = id;
        match (id, kind) {
            (1, I32) => scale = Some(number(from)?),
            (2, I32) => precision = Some(number(from)?),
            _ => skip(from, kind, DEPTH)?,
        }
    }
    Ok(scale.zip(precision))
}

fn row_group(from: &mut Reader<'_>, group: usize, inexact: &mut HashSet<(usize, usize)>) -> Result<(), Short> {
    let mut last = 0;
    while let Some((id, kind)) = field(from, last)? {
        last = id;
        if (id, kind) != (1, LIST) {
            skip(from, kind, DEPTH)?;
            continue;
        }
        let (chunks, kind) = list(from)?;
        if kind != STRUCT && chunks > 0 {
            return Err(Short);
        }
        for leaf in 0..chunks {
            if is_inexact(from, &[3, 12])? {
                inexact.insert((group, leaf));
            }
        }
    }
    Ok(())
}

/// Returns whether the statistics, which are found along these fields, declare that a bound is not a value.
fn is_inexact(from: &mut Reader<'_>, path: &[i16]) -> Result<bool, Short> {
    let (mut found, mut last) = (false, 0);
    while let Some((id, kind)) = field(from, last)? {
        last = id;
        match (path.split_first(), id, kind) {
            (Some((next, rest)), id, STRUCT) if id == *next => found |= is_inexact(from, rest)?,
            (None, 7 | 8, TRUE | FALSE) => found |= kind == FALSE,
            _ => skip(from, kind, DEPTH)?,
        }
    }
    Ok(found)
}

/// Returns the meaning of bytes of fixed length, by leaf.
fn special(elements: &[Element<'_>]) -> HashMap<usize, Bytes> {
    let leaves = elements.iter().skip(1).filter(|e| e.is_leaf());
    let bytes = |(leaf, e): (usize, &Element<'_>)| match e.logical_id {
        logical::UUID if e.physical == Some(FIXED) => Some((leaf, Bytes::Uuid)),
        _ if e.is_interval() => Some((leaf, Bytes::Interval)),
        _ => None,
    };
    leaves.enumerate().filter_map(bytes).collect()
}

/// Returns the list of a schema's elements, encoded, if something in it is repaired.
fn mended(elements: &[Element<'_>], footer: &[u8]) -> Result<Option<Vec<u8>>, Short> {
    let mut mender = Mender { elements, footer, out: Vec::new(), count: 0, changed: false };
    let mut at = 0;
    while at < elements.len() {
        at = mender.put(at, None, 0)?;
    }
    Ok(mender.changed.then(|| {
        let mut list = Vec::with_capacity(mender.out.len() + 6);
        put_list(&mut list, mender.count);
        list.extend_from_slice(&mender.out);
        list
    }))
}

struct Mender<'a> {
    elements: &'a [Element<'a>],
    footer: &'a [u8],
    out: Vec<u8>,
    count: usize,
    changed: bool,
}

impl Mender<'_> {
    /// Writes the element `at` with all below it; returns the index of the next one.
    fn put(&mut self, at: usize, parent: Option<&Element<'_>>, depth: usize) -> Result<usize, Short> {
        let element = self.elements.get(at).filter(|_| depth < LEVELS).ok_or(Short)?;
        let in_map = parent.is_some_and(Element::is_map);
        let in_list = parent.is_some_and(Element::is_list);
        let repeated = element.repetition == Some(REPEATED) && element.children() > 0 && parent.is_some();
        // A repeated group that is a map, or a list that is not in a list, is an element of a list: a required group
        // within a repeated group, which has the same levels.
        if repeated && (element.is_map() && !in_map || element.is_list() && !in_list) {
            let group = |name: &'static [u8], repetition: i32, converted: Option<i32>| Element {
                name,
                repetition: Some(repetition),
                children: Some(1),
                converted,
                ..Element::default()
            };
            if !in_list {
                let list = group(b"", REQUIRED, Some(converted::LIST));
                self.add(&Element { name: element.name, id: element.id, ..list });
            }
            self.add(&group(b"list", REPEATED, None));
            let id = element.id.filter(|_| in_list);
            self.add(&Element { name: b"element", repetition: Some(REQUIRED), id, ..element.clone() });
        } else if let Some(mended) = element.mended() {
            self.add(&mended);
        } else {
            self.out.extend_from_slice(&self.footer[element.place.clone()]);
            self.count += 1;
        }
        let mut next = at + 1;
        for _ in 0..element.children() {
            next = self.put(next, Some(element), depth + 1)?;
        }
        Ok(next)
    }

    fn add(&mut self, element: &Element<'_>) {
        element.put(&mut self.out);
        self.count += 1;
        self.changed = true;
    }
}
