//! Encoding of strings and bytes.

use arrow_array::cast::AsArray;
use arrow_array::types::BinaryViewType;
use arrow_array::{Array, ArrayRef, BinaryViewArray};
use arrow_schema::DataType;
use parquet::basic::Encoding;
use parquet::bloom_filter::Sbbf;
use parquet::data_type::ByteArray;
use parquet::file::statistics::ValueStatistics;

use super::bits::{put_codes, put_delta, put_levels, width};
use super::dictionary::{CODES_MAX, Codes, hash_bytes, hash128};
use super::{Chunk, Column, PageSink, Scratch, bloom, folded};
use crate::segment::Result;
use crate::segment::options::{ColumnPlan, PAGE_BYTES, PAGE_ROWS, STATISTICS_BYTES};

/// Strings of up to this number of bytes are stored in their view.
const INLINE: u32 = 12;

pub(super) fn encode(
    column: &Column<'_>,
    array: &ArrayRef,
    before: u64,
    out: &mut Vec<u8>,
    scratch: &mut Scratch,
) -> Result<Chunk> {
    match array.data_type() {
        DataType::Utf8View => {
            let bytes: BinaryViewArray = array.as_string_view().clone().to_binary_view();
            texts(column, &bytes, true, before, out, scratch)
        }
        _ => texts(column, array.as_byte_view::<BinaryViewType>(), false, before, out, scratch),
    }
}

/// Returns the bytes of a view.
#[inline]
fn bytes_of<'a>(view: &'a u128, buffers: &'a [arrow_buffer::Buffer], short: &'a mut [u8; 16]) -> &'a [u8] {
    let len = *view as u32 as usize;
    if len <= INLINE as usize {
        *short = view.to_le_bytes();
        &short[4..4 + len]
    } else {
        let (buffer, offset) = ((view >> 64) as u32 as usize, (view >> 96) as usize);
        &buffers[buffer][offset..offset + len]
    }
}

/// Returns the first 16 bytes as a number, with zeros after the end: a smaller head is a smaller string, equal heads
/// decide nothing.
#[inline]
fn head(view: u128, buffers: &[arrow_buffer::Buffer]) -> u128 {
    if view as u32 <= INLINE {
        return (view >> 32).swap_bytes();
    }
    let mut short = [0; 16];
    let bytes = bytes_of(&view, buffers, &mut short);
    u128::from_be_bytes(bytes.first_chunk().copied().unwrap_or_else(|| {
        let mut filled = [0; 16];
        filled[..bytes.len()].copy_from_slice(bytes);
        filled
    }))
}

fn texts(
    column: &Column<'_>,
    array: &BinaryViewArray,
    utf8: bool,
    before: u64,
    out: &mut Vec<u8>,
    scratch: &mut Scratch,
) -> Result<Chunk> {
    let values = array.len() - array.null_count();
    let (views, buffers) = (array.views(), array.data_buffers());
    let Scratch { page, packed, codes, slots } = scratch;
    let dictionary = match column.plan {
        ColumnPlan::Dictionary { .. } => text_codes(array, codes, slots),
        _ => None,
    };
    let coded = dictionary.is_some();
    let dictionary = dictionary.unwrap_or_default();
    let mut filter = bloom(column, values)?;
    if let Some(filter) = &mut filter {
        fill(filter, if coded { &dictionary } else { views }, array, coded);
    }
    // A column whose dictionary failed is packed like others: the sample did not predict it.
    let compress = match column.plan {
        ColumnPlan::Plain { codec } | ColumnPlan::Lengths { codec } => codec,
        ColumnPlan::Dictionary { codec } => codec || !coded,
        ColumnPlan::Delta => false,
    };
    let encoding = match column.plan {
        _ if coded => Encoding::RLE_DICTIONARY,
        ColumnPlan::Plain { .. } => Encoding::PLAIN,
        _ => Encoding::DELTA_LENGTH_BYTE_ARRAY,
    };
    let behind = encoding == Encoding::DELTA_LENGTH_BYTE_ARRAY;
    let mut sink = PageSink::new(column, before, out, packed, encoding, compress);
    let mut ranks = Vec::new();
    // Number of occurrences of each code on a page.
    let mut tally: Vec<u32> = Vec::new();
    if coded {
        page.clear();
        dictionary.iter().for_each(|v| put_plain(page, v, buffers));
        sink.dictionary(page, dictionary.len())?;
        // Rank of each code in the order of strings: bounds of pages are then those of small numbers.
        let mut order: Vec<u32> = (0..dictionary.len() as u32).collect();
        order.sort_unstable_by(|a, b| {
            let (mut x, mut y) = ([0; 16], [0; 16]);
            let value = |c: &u32| &dictionary[*c as usize];
            bytes_of(value(a), buffers, &mut x).cmp(bytes_of(value(b), buffers, &mut y))
        });
        ranks = vec![0; order.len()];
        order.iter().zip(0u32..).for_each(|(code, rank)| ranks[*code as usize] = rank);
    }
    let code_bits = width(dictionary.len().saturating_sub(1) as u64).max(1);
    let mut next_code = 0;
    let mut whole: Option<(u128, u128)> = None;
    let less = |a: u128, b: u128| {
        let (mut x, mut y) = ([0; 16], [0; 16]);
        bytes_of(&a, buffers, &mut x) < bytes_of(&b, buffers, &mut y)
    };
    let mut from = 0;
    while from < array.len() {
        let rows = if coded { PAGE_ROWS.min(array.len() - from) } else { page_rows(array, from) };
        let part = array.slice(from, rows);
        let nulls = part.null_count();
        page.clear();
        if column.nullable {
            put_levels(page, rows, part.nulls());
        }
        let mut range: Option<(u128, u128)> = None;
        let mut text_bytes = 0i64;
        if coded {
            let codes = &codes[next_code..next_code + rows - nulls];
            next_code += rows - nulls;
            page.push(code_bits as u8);
            put_codes(page, codes, code_bits);
            tally.clear();
            tally.resize(dictionary.len(), 0);
            match codes {
                [first, rest @ ..] if rest.iter().all(|c| c == first) => tally[*first as usize] = codes.len() as u32,
                _ => codes.iter().for_each(|c| tally[*c as usize] += 1),
            }
            let seen = || tally.iter().zip(0usize..).filter(|(n, _)| **n > 0).map(|(n, code)| (*n, code));
            let rank = |(_, code): &(u32, usize)| ranks[*code];
            if let (Some((_, min)), Some((_, max))) = (seen().min_by_key(rank), seen().max_by_key(rank)) {
                range = Some((dictionary[min], dictionary[max]));
            }
            text_bytes = seen().map(|(n, code)| i64::from(n) * i64::from(dictionary[code] as u32)).sum();
        } else {
            let (mut least, mut most) = (0, 0);
            if behind {
                put_lengths(page, &part);
            }
            present(&part, |view| {
                match behind {
                    true => put_bytes(page, &view, buffers),
                    false => put_plain(page, &view, buffers),
                }
                text_bytes += i64::from(view as u32);
                let head = head(view, buffers);
                match range {
                    None => {
                        range = Some((view, view));
                        (least, most) = (head, head);
                    }
                    Some((min, max)) => {
                        if head > most || (head == most && less(max, view)) {
                            (range, most) = (Some((min, view)), head);
                        } else if head < least || (head == least && less(view, min)) {
                            (range, least) = (Some((view, max)), head);
                        }
                    }
                }
                true
            });
        }
        let bounds = range.map(|(min, max)| {
            let (mut x, mut y) = ([0; 16], [0; 16]);
            let (min, max) = (bytes_of(&min, buffers, &mut x), bytes_of(&max, buffers, &mut y));
            // A maximum that cannot be cut to an upper bound is written whole.
            (lower(min, utf8).0, upper(max, utf8).unwrap_or_else(|| max.to_vec()))
        });
        if let Some((min, max)) = range {
            let (low, high) = whole.unwrap_or((min, max));
            whole = Some((if less(min, low) { min } else { low }, if less(high, max) { max } else { high }));
        }
        sink.data(page, rows, nulls, bounds, Some(text_bytes))?;
        from += rows;
    }
    let (mut min, mut max, mut min_exact, mut max_exact) = (None, None, false, false);
    if let Some((low, high)) = whole {
        let (mut x, mut y) = ([0; 16], [0; 16]);
        let (low, high) = (bytes_of(&low, buffers, &mut x), bytes_of(&high, buffers, &mut y));
        let (cut, exact) = lower(low, utf8);
        (min, min_exact) = (Some(ByteArray::from(cut)), exact);
        max_exact = high.len() <= STATISTICS_BYTES;
        max = upper(high, utf8).map(ByteArray::from);
    }
    // Readers expect bounds in pairs.
    if max.is_none() {
        min = None;
    }
    let statistics = ValueStatistics::new(min, max, None, Some(array.null_count() as u64), false)
        .with_min_is_exact(min_exact)
        .with_max_is_exact(max_exact);
    sink.finish(Some(statistics.into()), folded(filter, column))
}

/// Returns the codes of the values that are not NULL, in order, in `codes`, and the views that they stand for; `None`
/// if a dictionary would be too large, or saves nothing.
pub(super) fn text_codes(array: &BinaryViewArray, codes: &mut Vec<u32>, slots: &mut Vec<u32>) -> Option<Vec<u128>> {
    let buffers = array.data_buffers();
    codes.clear();
    let mut dictionary: Vec<u128> = Vec::new();
    let mut dictionary_bytes = 0;
    let mut table = Codes::new(slots);
    let hash = |view: u128| match view as u32 {
        0..=INLINE => hash128(view),
        _ => hash_bytes(bytes_of(&view, buffers, &mut [0; 16])),
    };
    let mut add = |view: u128, times: usize| {
        // Equal views are equal strings; long strings can be equal at different places.
        let same = |c: u32| {
            let known = dictionary[c as usize];
            known == view
                || (view as u32 > INLINE
                    && known as u64 == view as u64
                    && bytes_of(&known, buffers, &mut [0; 16]) == bytes_of(&view, buffers, &mut [0; 16]))
        };
        let code = table.code(hash(view), same, |c| hash(dictionary[c as usize]));
        if code as usize == dictionary.len() {
            dictionary.push(view);
            dictionary_bytes += 4 + view as u32 as usize;
            if dictionary.len() > CODES_MAX || dictionary_bytes > PAGE_BYTES {
                return false;
            }
        }
        match times {
            1 => codes.push(code),
            _ => codes.resize(codes.len() + times, code),
        }
        true
    };
    // Neighbours are often equal.
    let fits = match array.nulls() {
        Some(nulls) if nulls.null_count() > 0 => nulls.valid_indices().all(|i| add(array.views()[i], 1)),
        _ => array.views().chunk_by(|a, b| a == b).all(|run| add(run[0], run.len())),
    };
    (fits && dictionary.len() * 2 <= codes.len().max(2)).then_some(dictionary)
}

/// Calls `each` for each row that has a value, until it returns `false`.
#[inline]
fn present(array: &BinaryViewArray, mut each: impl FnMut(u128) -> bool) -> bool {
    match array.nulls() {
        Some(nulls) if nulls.null_count() > 0 => nulls.valid_indices().all(|i| each(array.views()[i])),
        _ => array.views().iter().all(|view| each(*view)),
    }
}

/// Returns the number of rows of the page that starts at a row: up to 20,000, and no more than about 1 MiB.
fn page_rows(array: &BinaryViewArray, from: usize) -> usize {
    let end = array.len().min(from + PAGE_ROWS);
    let mut bytes = 0;
    for (i, view) in array.views()[from..end].iter().enumerate() {
        if array.is_valid(from + i) {
            bytes += 4 + *view as u32 as usize;
        }
        if bytes >= PAGE_BYTES {
            return i + 1;
        }
    }
    end - from
}

/// Appends the lengths of the values that are not NULL as differences.
fn put_lengths(page: &mut Vec<u8>, part: &BinaryViewArray) {
    let lengths = part.views().iter().map(|view| i64::from(*view as u32));
    match part.nulls().filter(|nulls| nulls.null_count() > 0) {
        None => put_delta(page, lengths, true),
        Some(nulls) => {
            let present: Vec<i64> = lengths.zip(nulls).filter(|(_, valid)| *valid).map(|(len, _)| len).collect();
            put_delta(page, present.into_iter(), true);
        }
    }
}

/// Appends the bytes of a value.
#[inline]
pub(super) fn put_bytes(page: &mut Vec<u8>, view: &u128, buffers: &[arrow_buffer::Buffer]) {
    let len = *view as u32;
    if len <= INLINE {
        // As in `put_plain`.
        page.extend_from_slice(&(view >> 32).to_le_bytes()[..INLINE as usize]);
        page.truncate(page.len() - (INLINE - len) as usize);
    } else {
        page.extend_from_slice(bytes_of(view, buffers, &mut [0; 16]));
    }
}

/// Appends length and bytes of a value.
#[inline]
pub(super) fn put_plain(page: &mut Vec<u8>, view: &u128, buffers: &[arrow_buffer::Buffer]) {
    let len = *view as u32;
    if len <= INLINE {
        // A copy of a fixed size is one instruction; the surplus is overwritten by the next value.
        page.extend_from_slice(&view.to_le_bytes());
        page.truncate(page.len() - (INLINE - len) as usize);
    } else {
        page.extend_from_slice(&len.to_le_bytes());
        page.extend_from_slice(bytes_of(view, buffers, &mut [0; 16]));
    }
}

fn fill(filter: &mut Sbbf, views: &[u128], array: &BinaryViewArray, all: bool) {
    for (i, view) in views.iter().enumerate() {
        if all || array.is_valid(i) {
            filter.insert(bytes_of(view, array.data_buffers(), &mut [0; 16]));
        }
    }
}

/// Returns the value cut to its first bytes, and whether that is all of it. Strings are cut between characters.
fn lower(value: &[u8], utf8: bool) -> (Vec<u8>, bool) {
    if value.len() <= STATISTICS_BYTES {
        return (value.to_vec(), true);
    }
    (value[..cut(value, utf8)].to_vec(), false)
}

fn cut(value: &[u8], utf8: bool) -> usize {
    let mut end = STATISTICS_BYTES;
    while utf8 && value[end] & 0xc0 == 0x80 {
        end -= 1;
    }
    end
}

/// Returns the value, or if it is long its first bytes with the last character incremented; `None` if that is
/// impossible.
fn upper(value: &[u8], utf8: bool) -> Option<Vec<u8>> {
    if value.len() <= STATISTICS_BYTES {
        return Some(value.to_vec());
    }
    let start = &value[..cut(value, utf8)];
    if utf8 {
        let text = std::str::from_utf8(start).ok()?;
        let (at, next) = text.char_indices().rev().find_map(|(at, c)| {
            // Between the two halves of the code points lie the surrogates, which are not characters.
            let next = if c == '\u{d7ff}' { Some('\u{e000}') } else { char::from_u32(c as u32 + 1) };
            Some((at, next?))
        })?;
        let mut text = text[..at].to_string();
        text.push(next);
        Some(text.into_bytes())
    } else {
        let last = start.iter().rposition(|b| *b != 0xff)?;
        let mut bytes = start[..=last].to_vec();
        bytes[last] += 1;
        Some(bytes)
    }
}
