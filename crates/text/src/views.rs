//! String and binary columns as Arrow views: 16 bytes a value, built without a call per value.
//!
//! A view of up to 12 bytes holds the value itself, a longer one its first four bytes, a buffer number and an offset:
//!
//! ```text
//! bytes  0..4    4..8           8..12          12..16
//!        length  first 4 bytes of the value, then the other 8 bytes of a short value
//!        length  first 4 bytes  buffer number  offset in the buffer      (length > 12)
//! ```
//!
//! Values that stand in the block unchanged can be viewed there without a copy. That keeps the batch's part of the
//! block alive, so a column whose long values make up less than half of these bytes is copied densely instead: memory
//! accounting stays honest, and readers that compact (DataFusion's coalescer does below one half) find nothing to do.
//!
//! `unsafe` serves to construct view arrays without a second UTF-8 check and to write into reserved memory.
#![allow(unsafe_code)]

use std::ops::Range;
use std::sync::Arc;

use arrow_array::{BinaryViewArray, StringViewArray};
use arrow_buffer::{BooleanBuffer, Buffer, MutableBuffer, NullBuffer, ScalarBuffer};

use crate::block::TextBlock;
use crate::convert::Cx;
use crate::scan::{InvalidUtf8, Strings};
use crate::span::Span;

/// Longest value that fits into its view.
pub const INLINE_MAX: usize = 12;

/// Masks for the bytes 4..8 and 8..16 of a short view, by length.
const SHORT: [(u64, u64); INLINE_MAX + 1] = {
    let mut masks = [(0, 0); INLINE_MAX + 1];
    let mut len = 0;
    while len <= INLINE_MAX {
        let (low, high) = if len < 4 { (len, 0) } else { (4, len - 4) };
        masks[len] = ((1u64 << (8 * low)) - 1, if high == 8 { u64::MAX } else { (1u64 << (8 * high)) - 1 });
        len += 1;
    }
    masks
};

/// Loads the 16 bytes from `start` on; bytes beyond the end of `bytes` are zero.
#[inline(always)]
fn load16(bytes: &[u8], start: usize) -> u128 {
    match bytes.get(start..start + 16) {
        Some(b) => u128::from_le_bytes(b.try_into().expect("16 bytes")),
        None => load16_at_end(bytes, start),
    }
}

#[cold]
fn load16_at_end(bytes: &[u8], start: usize) -> u128 {
    let mut b = [0; 16];
    let tail = &bytes[start.min(bytes.len())..];
    b[..tail.len()].copy_from_slice(tail);
    u128::from_le_bytes(b)
}

/// Returns the view of the value whose first bytes are in `data`; `place` is `buffer number | offset << 32` for a long
/// value.
#[inline(always)]
fn view(data: u128, len: usize, place: u64) -> u128 {
    let short = len <= INLINE_MAX;
    let (low, high) = SHORT[len.min(INLINE_MAX)];
    let first = (data as u64 & low) << 32 | len as u64;
    let rest = if short { (data >> 32) as u64 & high } else { place };
    first as u128 | (rest as u128) << 64
}

/// Whether `byte` can begin a character, that is, is no UTF-8 continuation byte.
#[inline(always)]
fn is_boundary(byte: u8) -> bool {
    (byte as i8) >= -0x40
}

/// Sums the lengths of the values that do not fit into a view, NULLs excluded.
fn long_bytes(spans: &[Span], nulls: Option<&NullBuffer>) -> usize {
    let mut total = 0;
    match nulls {
        None => {
            for span in spans {
                let len = span.len();
                total += if len > INLINE_MAX { len } else { 0 };
            }
        }
        Some(nulls) => {
            for (i, span) in spans.iter().enumerate() {
                let len = span.len();
                total += if len > INLINE_MAX && nulls.is_valid(i) { len } else { 0 };
            }
        }
    }
    total
}

/// Views and buffers of a column, before they become a string or a binary array.
struct Parts {
    views: Vec<u128>,
    buffer: Option<Buffer>,
    /// Whether every value begins and ends at a character boundary of its block.
    boundaries: bool,
}

/// Builds views for all spans; NULL rows get the empty view.
fn build(
    block: &TextBlock,
    spans: &[Span],
    nulls: Option<&NullBuffer>,
    strings: Strings,
    batch: &Range<usize>,
) -> Parts {
    let long = long_bytes(spans, nulls);
    if long == 0 {
        let (views, boundaries) = build_in_place(block, spans, nulls, 0);
        return Parts { views, buffer: None, boundaries };
    }
    if strings == Strings::View && long * 2 >= batch.len() {
        // The views' offsets are relative to the batch's own buffer. Spans outside of it would be read from wherever
        // the wrapped offset points to, so they are checked once here.
        let inside = spans
            .iter()
            .enumerate()
            .all(|(i, s)| (s.start() >= batch.start && s.end() <= batch.end) || nulls.is_some_and(|n| n.is_null(i)));
        if inside {
            let (views, boundaries) = build_in_place(block, spans, nulls, batch.start);
            return Parts { views, buffer: Some(block.buffer(batch.clone())), boundaries };
        }
    }
    build_copied(block, spans, nulls, long)
}

fn build_in_place(block: &TextBlock, spans: &[Span], nulls: Option<&NullBuffer>, base: usize) -> (Vec<u128>, bool) {
    let bytes = block.bytes();
    let mut bad = false;
    let mut one = |span: Span| {
        let (start, len) = (span.start(), span.len());
        let data = load16(bytes, start);
        // A value is followed by a delimiter, a quote or a line end; the last one may end the block.
        let after = bytes.get(start + len).copied().unwrap_or(0);
        bad |= !is_boundary(after) | (len != 0 && !is_boundary(data as u8));
        view(data, len, (start.wrapping_sub(base) as u64) << 32)
    };
    let views = match nulls {
        None => spans.iter().map(|s| one(*s)).collect(),
        Some(nulls) => {
            spans.iter().zip(nulls.iter()).map(|(s, valid)| if valid { one(*s) } else { 0 }).collect::<Vec<_>>()
        }
    };
    (views, !bad)
}

/// Copies of long values are made in steps of this many bytes; the last one may write up to 31 bytes too many.
const STEP: usize = 32;

fn build_copied(block: &TextBlock, spans: &[Span], nulls: Option<&NullBuffer>, long: usize) -> Parts {
    let bytes = block.bytes();
    let mut dense: Vec<u8> = Vec::with_capacity(long + STEP);
    let mut views = Vec::with_capacity(spans.len());
    let mut filled = 0usize;
    let mut bad = false;
    for (i, span) in spans.iter().enumerate() {
        if nulls.is_some_and(|n| n.is_null(i)) {
            views.push(0);
            continue;
        }
        let (start, len) = (span.start(), span.len());
        let data = load16(bytes, start);
        let after = bytes.get(start + len).copied().unwrap_or(0);
        bad |= !is_boundary(after) | (len != 0 && !is_boundary(data as u8));
        views.push(view(data, len, (filled as u64) << 32));
        if len > INLINE_MAX {
            let value = &bytes[start..start + len];
            assert!(filled + len <= long, "the lengths add up");
            if bytes.len() - (start + len) >= STEP {
                let mut done = 0;
                while done < len {
                    // SAFETY: reads `STEP` bytes from `start + done`, where `done < len`, so they end before
                    // `start + len + STEP <= bytes.len()`; writes end before `filled + len + STEP <= long + STEP`,
                    // the capacity. The two vectors do not overlap.
                    unsafe {
                        std::ptr::copy_nonoverlapping(
                            bytes.as_ptr().add(start + done),
                            dense.as_mut_ptr().add(filled + done),
                            STEP,
                        );
                    }
                    done += STEP;
                }
            } else {
                // SAFETY: `filled + len <= long`, within the capacity; `value` is a slice of another allocation.
                unsafe { std::ptr::copy_nonoverlapping(value.as_ptr(), dense.as_mut_ptr().add(filled), len) };
            }
            filled += len;
        }
    }
    // SAFETY: the loop above wrote every byte below `filled`, which is within the capacity.
    unsafe { dense.set_len(filled) };
    Parts { views, buffer: Some(Buffer::from_vec(dense)), boundaries: !bad }
}

/// Builds a string column from spans whose bytes are the values: there are no escapes, and `nulls` is final.
///
/// Checks UTF-8 value by value only when the block as a whole is not valid or a span cuts a character. Such values are
/// treated as `cx.invalid_utf8` says; the returned array then may have more NULLs than `nulls`.
///
/// # Panics
/// If `nulls` has another length than `spans`, or a span that is not NULL lies outside the block.
pub fn utf8_views(block: &TextBlock, spans: &[Span], nulls: Option<NullBuffer>, cx: &mut Cx<'_>) -> StringViewArray {
    utf8_views_patched(block, spans, nulls, &Patches::default(), cx)
}

/// Values of some rows of a column that differ from the bytes of their spans: the text that remains after removing
/// escapes.
#[derive(Debug, Default)]
pub struct Patches {
    rows: Vec<usize>,
    ends: Vec<usize>,
    bytes: Vec<u8>,
}

impl Patches {
    /// Replaces the value of `row`, which must be above all rows so far, by the bytes that `write` appends.
    ///
    /// # Panics
    /// If `row` is not above the last one, or `write` takes bytes away.
    pub fn push(&mut self, row: usize, write: impl FnOnce(&mut Vec<u8>)) {
        assert!(self.rows.last().is_none_or(|last| *last < row), "rows ascend");
        let before = self.bytes.len();
        write(&mut self.bytes);
        assert!(self.bytes.len() >= before, "values are appended");
        self.rows.push(row);
        self.ends.push(self.bytes.len());
    }

    /// Whether there are no patches.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    fn value(&self, i: usize) -> &[u8] {
        let start = if i == 0 { 0 } else { self.ends[i - 1] };
        &self.bytes[start..self.ends[i]]
    }

    fn is_utf8(&self) -> bool {
        (0..self.rows.len()).all(|i| simdutf8::basic::from_utf8(self.value(i)).is_ok())
    }
}

/// Builds a string column like [`utf8_views`], with some values replaced.
///
/// # Panics
/// Under the conditions of [`utf8_views`], and if a patch is for a row that does not exist.
pub fn utf8_views_patched(
    block: &TextBlock,
    spans: &[Span],
    nulls: Option<NullBuffer>,
    patches: &Patches,
    cx: &mut Cx<'_>,
) -> StringViewArray {
    assert!(nulls.as_ref().is_none_or(|n| n.len() == spans.len()), "one null bit a span");
    if block.is_utf8() && patches.is_utf8() {
        let mut parts = build(block, spans, nulls.as_ref(), cx.strings, &cx.batch);
        if parts.boundaries {
            let mut buffers: Vec<Buffer> = parts.buffer.into_iter().collect();
            for (i, row) in patches.rows.iter().enumerate() {
                let value = patches.value(i);
                let offset = ((patches.ends[i] - value.len()) as u64) << 32;
                parts.views[*row] = view(load16(value, 0), value.len(), buffers.len() as u64 | offset);
            }
            if !patches.bytes.is_empty() {
                buffers.push(Buffer::from_slice_ref(&patches.bytes));
            }
            let buffers: Arc<[Buffer]> = buffers.into();
            // SAFETY: `build` makes views whose offsets lie in the buffer with the prefix and inline bytes of the
            // value. The block is valid UTF-8 and every value starts and ends at a character boundary, so each value is
            // valid UTF-8; so is each patch, and its view points to it in the last buffer. NULL rows have the empty
            // view.
            return unsafe { StringViewArray::new_unchecked(ScalarBuffer::from(parts.views), buffers, nulls) };
        }
    }
    let mut column = ViewColumn::with_capacity(spans.len());
    let mut patch = 0;
    for (i, span) in spans.iter().enumerate() {
        let patched = patches.rows.get(patch) == Some(&i);
        patch += patched as usize;
        if nulls.as_ref().is_some_and(|n| n.is_null(i)) {
            column.push_null();
        } else if patched {
            column.push_checked(patches.value(patch - 1), cx);
        } else {
            column.push_checked(&block.bytes()[span.start()..span.end()], cx);
        }
    }
    column.finish_utf8()
}

/// Builds a binary column from spans whose bytes are the values.
///
/// # Panics
/// If `nulls` has another length than `spans`, or a span that is not NULL lies outside the block.
pub fn binary_views(block: &TextBlock, spans: &[Span], nulls: Option<NullBuffer>, cx: &mut Cx<'_>) -> BinaryViewArray {
    assert!(nulls.as_ref().is_none_or(|n| n.len() == spans.len()), "one null bit a span");
    let parts = build(block, spans, nulls.as_ref(), cx.strings, &cx.batch);
    let buffers: Arc<[Buffer]> = parts.buffer.into_iter().collect();
    // SAFETY: `build` makes views whose offsets lie in the buffer with the prefix and inline bytes of the value.
    unsafe { BinaryViewArray::new_unchecked(ScalarBuffer::from(parts.views), buffers, nulls) }
}

/// Builder of a string or binary column, value by value, for values that differ from their bytes in the block (escapes,
/// doubled quotes, replaced bytes) mixed with values that do not.
///
/// Values are copied densely. The announced number of rows is only a capacity; more may be pushed.
#[derive(Debug)]
pub struct ViewColumn {
    views: Vec<u128>,
    dense: Vec<u8>,
    nulls: Vec<bool>,
    any_null: bool,
    utf8: bool,
}

impl ViewColumn {
    /// Creates an empty column with room for `rows` values; pushed values need not stand in the block.
    pub fn new(_block: &TextBlock, rows: usize, _cx: &Cx<'_>) -> Self {
        Self::with_capacity(rows)
    }

    /// Creates an empty column with room for `rows` values.
    pub fn with_capacity(rows: usize) -> Self {
        ViewColumn {
            views: Vec::with_capacity(rows),
            dense: Vec::new(),
            nulls: Vec::with_capacity(rows),
            any_null: false,
            utf8: true,
        }
    }

    /// Values pushed so far, NULLs included.
    pub fn len(&self) -> usize {
        self.views.len()
    }

    /// Whether nothing was pushed so far.
    pub fn is_empty(&self) -> bool {
        self.views.is_empty()
    }

    /// Appends NULL.
    #[inline]
    pub fn push_null(&mut self) {
        self.views.push(0);
        self.nulls.push(false);
        self.any_null = true;
    }

    /// Appends text.
    #[inline]
    pub fn push_str(&mut self, value: &str) {
        self.push_raw(value.as_bytes());
    }

    /// Appends bytes that should be text. If they are not valid UTF-8, `cx.invalid_utf8` decides; the row reported is
    /// the number of values pushed before.
    #[inline]
    pub fn push_checked(&mut self, value: &[u8], cx: &mut Cx<'_>) {
        if simdutf8::basic::from_utf8(value).is_ok() {
            self.push_raw(value);
            return;
        }
        match cx.invalid_utf8 {
            InvalidUtf8::Replace => self.push_raw(String::from_utf8_lossy(value).as_bytes()),
            InvalidUtf8::Null => self.push_null(),
            policy @ (InvalidUtf8::Error | InvalidUtf8::Reject) => {
                cx.bad.report_utf8(self.views.len(), policy == InvalidUtf8::Error);
                self.push_null();
            }
        }
    }

    /// Appends bytes; the column can then only become a binary array.
    #[inline]
    pub fn push_bytes(&mut self, value: &[u8]) {
        self.utf8 = false;
        self.push_raw(value);
    }

    #[inline]
    fn push_raw(&mut self, value: &[u8]) {
        let place = (self.dense.len() as u64) << 32;
        if value.len() > INLINE_MAX {
            assert!(self.dense.len() + value.len() <= u32::MAX as usize, "a batch's column stays below 4 GiB");
            self.dense.extend_from_slice(value);
        }
        self.views.push(view(load16(value, 0), value.len(), place));
        self.nulls.push(true);
    }

    fn parts(self) -> (ScalarBuffer<u128>, Arc<[Buffer]>, Option<NullBuffer>) {
        let buffers = if self.dense.is_empty() { Vec::new() } else { vec![Buffer::from_vec(self.dense)] };
        let nulls = self.any_null.then(|| NullBuffer::from(self.nulls));
        (ScalarBuffer::from(self.views), buffers.into(), nulls)
    }

    /// Returns the column as strings.
    ///
    /// # Panics
    /// If bytes were pushed with [`push_bytes`](Self::push_bytes).
    pub fn finish_utf8(self) -> StringViewArray {
        assert!(self.utf8, "only text was pushed");
        let (views, buffers, nulls) = self.parts();
        // SAFETY: every value came as `&str` or was checked, and the views point to their copies in the one buffer.
        unsafe { StringViewArray::new_unchecked(views, buffers, nulls) }
    }

    /// Returns the column as bytes.
    pub fn finish_binary(self) -> BinaryViewArray {
        let (views, buffers, nulls) = self.parts();
        // SAFETY: the views point to the values' copies in the one buffer.
        unsafe { BinaryViewArray::new_unchecked(views, buffers, nulls) }
    }
}

/// Returns NULL bits for spans: a row is NULL if its record ended before the field or if `is_null` says so. `None`: no
/// row is NULL.
#[inline]
pub fn null_bits(spans: &[Span], mut is_null: impl FnMut(Span) -> bool) -> Option<NullBuffer> {
    let mut bits = MutableBuffer::with_capacity(spans.len().div_ceil(64) * 8);
    let mut any = false;
    for chunk in spans.chunks(64) {
        let mut word = 0u64;
        for (i, span) in chunk.iter().enumerate() {
            word |= (!(span.is_missing() || is_null(*span)) as u64) << i;
        }
        any |= word.count_ones() as usize != chunk.len();
        bits.push(word.to_le());
    }
    any.then(|| NullBuffer::new(BooleanBuffer::new(bits.into(), 0, spans.len())))
}

/// Returns NULL bits for spans whose raw bytes equal `null` (Hive's null sequence, a CSV null value), or that are
/// missing. `unquoted_only`: a field in quotes is never NULL.
pub fn nulls_equal_to(block: &TextBlock, spans: &[Span], null: &[u8], unquoted_only: bool) -> Option<NullBuffer> {
    let bytes = block.bytes();
    let skip = |s: Span| unquoted_only && s.is_quoted();
    match null {
        [] => null_bits(spans, |s| s.is_empty() && !skip(s)),
        [a, b] => {
            let wanted = u16::from_le_bytes([*a, *b]);
            null_bits(spans, |s| {
                let start = s.start();
                s.len() == 2
                    && bytes.get(start..start + 2).is_some_and(|v| u16::from_le_bytes([v[0], v[1]]) == wanted)
                    && !skip(s)
            })
        }
        _ => null_bits(spans, |s| s.len() == null.len() && &bytes[s.start()..s.end()] == null && !skip(s)),
    }
}
