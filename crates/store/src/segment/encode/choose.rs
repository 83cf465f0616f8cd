//! Choice of a column's encoding: the possible ones are tried on a sample of its rows.
//!
//! The criterion is the size in bytes, multiplied for each encoding by a weight for its cost to a load and to the scans
//! that follow. So a column of numbers is packed by the codec if plain values repeat in patterns, as ids of sessions
//! do, that neither differences nor a dictionary use.

use arrow_array::cast::AsArray;
use arrow_array::types::BinaryViewType;
use arrow_array::{Array, ArrayRef, BinaryViewArray, PrimitiveArray};
use arrow_schema::DataType;

use super::bits::{put_codes, put_delta, width};
use super::dictionary::CODES_MAX;
use super::numbers::{self, Number};
use super::{Scratch, pack, text};
use crate::segment::Codec;
use crate::segment::options::{ColumnPlan, PAGE_BYTES};

/// Weight of a dictionary's bytes relative to plain ones: values are looked up.
const DICTIONARY: f64 = 1.25;
/// Additional weight if the values are too far apart for a table of all numbers between them.
const HASHED: f64 = 1.2;
/// Weight of the bytes of differences: they are added up, and no value can be tested in place.
const DELTA: f64 = 1.6;
/// Weight of the differences of points in time, whose other encodings have more to read for few tests.
const DELTA_TIMES: f64 = 1.2;
/// Weight of the bytes of plain numbers that a codec packed.
const PACKED: f64 = 1.75;
/// Weight of the bytes of a dictionary and its codes that a codec packed: it had fewer bytes to process.
const PACKED_CODES: f64 = 1.5;
/// Weight of strings after their lengths: the lengths must be unpacked to find a value.
const LENGTHS: f64 = 1.01;
/// Weight of strings that a codec packed: it saves many bytes for its time.
const PACKED_TEXT: f64 = 1.25;
/// A string column gets a dictionary if at most this share of its sample's values are distinct.
const DISTINCT_STRINGS: f64 = 0.35;
/// A sample of fewer bytes is not worth packing.
const PACKED_MIN: usize = 2048;
/// Approximate bytes of plain strings that are packed to estimate the savings of a codec.
const TEXT_BYTES: usize = 384 * 1024;

/// The smallest encoding so far.
struct Best {
    bytes: f64,
    plan: ColumnPlan,
}

impl Best {
    fn offer(&mut self, bytes: f64, plan: ColumnPlan) {
        if bytes < self.bytes {
            *self = Best { bytes, plan };
        }
    }
}

/// Chooses the encoding of a column; `sample` holds some of its `rows` rows.
pub(in crate::segment) fn choose(sample: &ArrayRef, rows: usize, codec: Codec) -> ColumnPlan {
    let mut scratch = Scratch::default();
    match sample.data_type() {
        DataType::Utf8View => texts(&sample.as_string_view().clone().to_binary_view(), rows, codec, &mut scratch),
        DataType::BinaryView => texts(sample.as_byte_view::<BinaryViewType>(), rows, codec, &mut scratch),
        t if super::is_ours(t) => numbers::choose(sample, rows, codec, &mut scratch),
        _ => ColumnPlan::Plain { codec: false },
    }
}

/// Returns the packed size in bytes; infinite if packing is not worth it.
fn packed(codec: Codec, raw: &[u8], to: &mut Vec<u8>) -> f64 {
    match codec {
        Codec::None => f64::INFINITY,
        _ if raw.len() < PACKED_MIN => f64::INFINITY,
        _ => pack(codec, raw, to).map_or(f64::INFINITY, |packed| packed.len() as f64),
    }
}

/// The codes of a sample, and the weight of its dictionary.
struct Coded {
    /// Factor by which the dictionary of all rows is larger than that of the sample.
    grown: f64,
    /// Part of that dictionary that is attributed to the sample's rows.
    share: f64,
    /// The codes as on a page.
    codes: Vec<u8>,
}

impl Coded {
    /// Returns the bytes with these entries.
    fn bytes(&self, entries: &[u8]) -> f64 {
        entries.len() as f64 * self.share + self.codes.len() as f64
    }

    /// Returns the bytes with these entries, both packed by a codec.
    fn packed(&self, codec: Codec, entries: &[u8], to: &mut Vec<u8>) -> f64 {
        let mut of = |raw: &[u8]| packed(codec, raw, to).min(raw.len() as f64);
        of(entries) * self.share + of(&self.codes)
    }
}

/// Estimates the dictionary of all `rows` rows; `known` distinct values were found in a sample of `sample` rows.
fn coded(codes: &[u32], known: usize, sample: usize, rows: usize) -> Coded {
    // Codes are assigned in order, so the first half shows how many more values twice as many rows have. That growth is
    // extrapolated.
    let half = codes[..codes.len() / 2].iter().max().map_or(1, |c| *c as usize + 1);
    let growth = (known as f64 / half as f64).clamp(1.0, 2.0);
    let times = rows.max(sample) as f64 / sample as f64;
    let grown = growth.powf(times.log2());
    let bits = width((known as f64 * grown) as u64).max(1);
    let mut page = Vec::new();
    put_codes(&mut page, codes, bits.min(u32::BITS));
    Coded { grown, share: grown / times, codes: page }
}

pub(super) fn primitive<T: Number>(
    array: &PrimitiveArray<T>,
    rows: usize,
    codec: Codec,
    scratch: &mut Scratch,
) -> ColumnPlan {
    let Scratch { page, packed: to, codes, slots } = scratch;
    let bytes = T::BYTES;
    page.clear();
    numbers::put_plain(page, array, bytes);
    let plain = page.len() as f64;
    let mut best = Best { bytes: plain, plan: ColumnPlan::Plain { codec: false } };
    if let Some(known) = numbers::number_codes(array, codes, slots).filter(|known| !known.is_empty()) {
        let coded = coded(codes, known.len(), array.len(), rows);
        let mut entries = Vec::new();
        known.iter().for_each(|bits| entries.extend_from_slice(&bits.to_le_bytes()[..bytes]));
        let raw = coded.bytes(&entries);
        if known.len() as f64 * coded.grown < CODES_MAX as f64 {
            let weight = if numbers::is_narrow(array) { 1.0 } else { HASHED };
            best.offer(raw * DICTIONARY * weight, ColumnPlan::Dictionary { codec: false });
            let small = coded.packed(codec, &entries, to);
            best.offer(small * PACKED_CODES * weight, ColumnPlan::Dictionary { codec: true });
        }
        // No other encoding comes close to a few codes.
        if best.bytes * 8.0 < plain {
            return best.plan;
        }
    }
    best.offer(packed(codec, page, to) * PACKED, ColumnPlan::Plain { codec: true });
    if !array.data_type().is_floating() {
        page.clear();
        numbers::put_deltas(page, array, bytes);
        let times = matches!(array.data_type(), DataType::Timestamp(..) | DataType::Time64(_));
        best.offer(page.len() as f64 * if times { DELTA_TIMES } else { DELTA }, ColumnPlan::Delta);
    }
    best.plan
}

fn texts(array: &BinaryViewArray, rows: usize, codec: Codec, scratch: &mut Scratch) -> ColumnPlan {
    let Scratch { page, packed: to, codes, slots } = scratch;
    let values = array.len() - array.null_count();
    let dictionary = text::text_codes(array, codes, slots);
    if let Some(known) = dictionary.filter(|known| known.len() as f64 <= values as f64 * DISTINCT_STRINGS) {
        let coded = coded(codes, known.len(), array.len(), rows);
        page.clear();
        known.iter().for_each(|v| text::put_plain(page, v, array.data_buffers()));
        if page.len() as f64 * coded.grown < PAGE_BYTES as f64 {
            let small = coded.packed(codec, page, to);
            return ColumnPlan::Dictionary { codec: small * PACKED_TEXT < coded.bytes(page) };
        }
    }
    // Some values of every stretch.
    let bytes: usize = array.views().iter().map(|v| 4 + *v as u32 as usize).sum();
    let step = bytes.div_ceil(TEXT_BYTES).max(1);
    let some = array.views().iter().enumerate().filter(|(i, _)| i / 64 % step == 0 && array.is_valid(*i));
    let some: Vec<u128> = some.map(|(_, view)| *view).collect();
    let mut best = Best { bytes: f64::INFINITY, plan: ColumnPlan::Plain { codec: false } };
    for behind in [false, true] {
        page.clear();
        if behind {
            put_delta(page, some.iter().map(|view| i64::from(*view as u32)), true);
        }
        let put = if behind { text::put_bytes } else { text::put_plain };
        some.iter().for_each(|view| put(page, view, array.data_buffers()));
        let (raw, small) = (page.len() as f64, packed(codec, page, to) * PACKED_TEXT);
        let (weight, plan): (f64, fn(bool) -> ColumnPlan) = match behind {
            false => (1.0, |codec| ColumnPlan::Plain { codec }),
            true => (LENGTHS, |codec| ColumnPlan::Lengths { codec }),
        };
        best.offer(raw * weight, plan(false));
        best.offer(small * weight, plan(true));
    }
    best.plan
}
