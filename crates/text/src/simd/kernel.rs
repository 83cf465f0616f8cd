//! Arithmetic on masks, shared by all instruction sets.

use super::{Counts, Found, Index, Shape, Side, is_even};

/// The primitives of an instruction set, on 64 bytes.
///
/// # Safety
/// All functions may only be called where the instruction set's features are enabled. `prefetch` takes any address.
/// `load` reads 64 bytes from its pointer. `positions` may write 64 values to its pointer.
pub(super) trait Isa {
    type Block: Copy;
    unsafe fn load(bytes: *const u8) -> Self::Block;
    /// Prefetches the bytes at the address into a cache, if they are mapped.
    unsafe fn prefetch(at: *const u8);
    /// Bit `i` is set where byte `i` equals `byte`.
    unsafe fn eq(block: Self::Block, byte: u8) -> u64;
    /// Bit `i` is the XOR of the bits `0..=i`.
    unsafe fn prefix_xor(bits: u64) -> u64;
    /// Writes `base` plus the number of each set bit, in order; values written behind these are arbitrary.
    unsafe fn positions(bits: u64, base: u32, out: *mut u32);
}

/// State before a position that depends on the previous bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Carry {
    /// All ones inside quotes, else 0.
    pub inside: u64,
    /// 1: the next byte is escaped.
    pub escaped: u64,
    /// 1: the byte before is a `\r` that ended a line.
    pub cr: u64,
    /// 1: a quote may open here (a field begins, or a quote was just closed).
    pub open: u64,
    /// 1: the byte before is a quote that closed.
    pub closed: u64,
    /// 1: a line begins here.
    pub line: u64,
    /// 1: the byte before is a `}`. Only maintained where lines are objects.
    pub brace: u64,
    /// 1: the byte before is a delimiter.
    pub behind: u64,
}

impl Carry {
    /// State at the start of a record.
    pub(crate) const RECORD: Carry =
        Carry { inside: 0, escaped: 0, cr: 0, open: 1, closed: 0, line: 1, brace: 0, behind: 0 };
}

/// Masks of 64 bytes: bit `i` describes byte `i`.
struct Masks {
    delimiters: u64,
    lines: u64,
    specials: u64,
    quotes: u64,
    irregular: u64,
    /// Bytes behind which a line begins: line ends, and the line feeds of `\r\n`.
    before_lines: u64,
    /// `\r` that end a line; only with `CR`.
    returns: u64,
    /// Line ends, `\r` and comment bytes at the start of a line: the line is not a row, or may not be one.
    odd_starts: u64,
    /// Line ends directly behind a delimiter.
    trailing: u64,
}

impl Counts {
    #[inline(always)]
    fn add(&mut self, found: &Masks, width: u64) {
        let ends = found.lines.count_ones() as u64;
        if width > 0 {
            self.check(found, ends, width);
        }
        self.lines += ends;
    }

    /// Checks the number of fields of the lines that end within 64 bytes.
    #[inline(always)]
    fn check(&mut self, found: &Masks, ends: u64, width: u64) {
        let (mut lines, mut delimiters) = (found.lines, found.delimiters);
        if ends <= 1 && self.lines > 0 {
            // Without a branch on whether there is a line end, which cannot be predicted.
            let before = (delimiters & lines.wrapping_sub(1)).count_ones() as u64;
            let all = delimiters.count_ones() as u64;
            let odd = !is_even(self.tail + before, found.trailing != 0, width);
            self.uneven |= odd & (ends == 1);
            self.tail = if ends == 1 { all - before } else { self.tail + all };
            return;
        }
        let mut ended = self.lines;
        while lines != 0 {
            let up_to = lines ^ (lines - 1);
            let all = self.tail + (delimiters & up_to).count_ones() as u64;
            let trails = found.trailing & up_to & lines != 0;
            match ended {
                0 => (self.head, self.head_trails) = (all, trails),
                _ => self.uneven |= !is_even(all, trails, width),
            }
            ended += 1;
            self.tail = 0;
            delimiters &= !up_to;
            lines &= lines - 1;
        }
        self.tail += delimiters.count_ones() as u64;
    }
}

/// Returns the bytes that follow an odd run of escapes. `escaped` carries over words.
#[inline(always)]
fn escaped_bytes(escapes: u64, escaped: &mut u64) -> u64 {
    if escapes == 0 {
        let first = *escaped;
        *escaped = 0;
        return first;
    }
    // After simdjson (Langdale, Lemire 2019): adding the run starts on odd bits to the runs carries through each run,
    // and the position where the carry comes out gives the run's parity.
    const ODD: u64 = 0xAAAA_AAAA_AAAA_AAAA;
    let potential = escapes & !*escaped;
    let maybe = potential << 1;
    let even_series = (maybe | ODD).wrapping_sub(potential);
    let escape_and_terminal = even_series ^ ODD;
    let result = escape_and_terminal ^ (escapes | *escaped);
    *escaped = (escape_and_terminal & escapes) >> 63;
    result
}

/// Returns a mask of the lowest `n` bits.
#[inline(always)]
fn low_bits(n: usize) -> u64 {
    if n >= 64 { u64::MAX } else { (1 << n) - 1 }
}

/// Returns the masks of the bytes of `b` whose bits are set in `valid`. `Q`: with quotes; `E`: with escapes; `CR`: a
/// `\r` ends a line.
///
/// # Safety
/// The features of `I` are enabled.
#[inline(always)]
unsafe fn masks<I: Isa, const Q: bool, const E: bool, const CR: bool>(
    b: I::Block,
    valid: u64,
    shape: &Shape,
    carry: &mut Carry,
) -> Masks {
    // A macro and not a closure: a closure would be a function of its own, without the caller's features.
    macro_rules! eq {
        ($byte:expr) => {
            // SAFETY: the caller runs where the features of `I` are enabled.
            unsafe { I::eq(b, $byte) & valid }
        };
    }
    let mut delimiters = eq!(shape.delimiter);
    let mut feeds = eq!(shape.line_end);
    let mut specials = 0;
    let mut quotes = 0;
    let mut inside = 0;
    let mut escaped = 0;
    if E {
        let escapes = eq!(shape.escape.unwrap_or(0));
        escaped = escaped_bytes(escapes, &mut carry.escaped);
        specials = escapes & !escaped;
    }
    if Q {
        quotes = eq!(shape.quote.unwrap_or(0)) & !escaped;
        // Files have quotes nearly everywhere or nearly nowhere, so the branch goes one way; without it a file that
        // could have quotes but has none would cost a third more.
        inside = carry.inside;
        if quotes != 0 {
            // SAFETY: as above.
            inside ^= unsafe { I::prefix_xor(quotes) };
            carry.inside = ((inside as i64) >> 63) as u64;
        }
        delimiters &= !inside;
        feeds &= !inside;
    } else if E {
        delimiters &= !escaped;
        if shape.escape_hides_line_end {
            feeds &= !escaped;
        }
    }
    let mut lines = feeds;
    let mut returns = 0;
    if CR {
        returns = eq!(b'\r') & !inside;
        if E && !Q && shape.escape_hides_line_end {
            returns &= !escaped;
        }
        lines = (feeds & !((returns << 1) | carry.cr)) | returns;
        carry.cr = returns >> 63;
    }
    // If the delimiter is the same byte as the line end, the line end wins.
    let before_lines = lines | feeds;
    delimiters &= !before_lines;
    let trailing = lines & ((delimiters << 1) | carry.behind);
    carry.behind = delimiters >> 63;
    let line_starts = ((before_lines << 1) | carry.line) & valid;
    carry.line = before_lines >> 63;
    let mut odd_starts = line_starts & if CR { lines } else { lines | eq!(b'\r') };
    if let Some(comment) = shape.comment {
        odd_starts |= line_starts & eq!(comment);
    }
    let mut irregular = 0;
    if shape.objects {
        odd_starts |= line_starts & !eq!(b'{');
        let closing = eq!(b'}');
        irregular = lines & !((closing << 1) | carry.brace);
        carry.brace = closing >> 63;
    }
    if Q && quotes | carry.closed == 0 {
        carry.open = (delimiters | before_lines) >> 63;
        specials &= inside;
        if let Some(comment) = shape.comment {
            irregular = eq!(comment) & line_starts;
        }
    } else if Q {
        let closing = quotes & !inside;
        let opening = quotes & inside;
        let begins = delimiters | before_lines | closing;
        let after_closing = (closing << 1) | carry.closed;
        irregular = opening & !((begins << 1) | carry.open);
        // A `\r` may follow if a line feed follows it; if that is beyond this word, the field needs a closer look.
        let returned = after_closing & eq!(b'\r') & !before_lines;
        let odd_returns = returned & !(before_lines >> 1);
        irregular |= after_closing & valid & !(delimiters | before_lines | quotes | returned);
        carry.open = begins >> 63;
        let doubled = opening & after_closing;
        carry.closed = closing >> 63;
        specials = doubled | odd_returns | (specials & inside);
        if let Some(comment) = shape.comment {
            irregular |= eq!(comment) & line_starts;
        }
    }
    Masks { delimiters, lines, specials, quotes, irregular, before_lines, returns, odd_starts, trailing }
}

/// Returns the masks of the last `n < 64` bytes of a range. The carries are then those of bit `n - 1`, not of bit 63.
///
/// # Safety
/// `n < 64` bytes are readable from `bytes`, and the features of `I` are enabled.
#[inline(always)]
unsafe fn last_word<I: Isa, const Q: bool, const E: bool, const CR: bool>(
    bytes: *const u8,
    n: usize,
    shape: &Shape,
    carry: &mut Carry,
) -> Masks {
    let mut padded = [0u8; 64];
    // SAFETY: `n < 64` bytes are readable from `bytes`, which the caller guarantees, and `padded` has 64.
    unsafe { std::ptr::copy_nonoverlapping(bytes, padded.as_mut_ptr(), n) };
    let before = *carry;
    // SAFETY: 64 bytes are readable; features as for the caller.
    let found = unsafe { masks::<I, Q, E, CR>(I::load(padded.as_ptr()), low_bits(n), shape, carry) };
    if n == 0 {
        *carry = before;
        return found;
    }
    // `inside` holds its last value up to bit 63 and needs no correction. Everything else is the state of byte `n - 1`.
    let last = 1u64 << (n - 1);
    let is_end = found.before_lines & last != 0;
    carry.line = is_end as u64;
    let closing = Q && found.quotes & last != 0 && carry.inside == 0;
    carry.closed = closing as u64;
    carry.open = (is_end || closing || found.delimiters & last != 0) as u64;
    carry.cr = (found.returns & last != 0) as u64;
    carry.behind = (found.delimiters & last != 0) as u64;
    if shape.objects {
        carry.brace = (padded[n - 1] == b'}') as u64;
    }
    if E {
        let mut escaped = before.escaped != 0;
        let escape = shape.escape.unwrap_or(0);
        for b in &padded[..n] {
            escaped = !escaped && *b == escape;
        }
        carry.escaped = escaped as u64;
    }
    found
}

/// Bytes between two checks of the output's capacity.
const STRETCH: usize = 4096;

/// See [`Simd::index`](super::Simd::index).
///
/// # Safety
/// `from <= to <= block.len() < 2^32`, and the features of `I` are enabled.
#[inline(always)]
pub(super) unsafe fn index<I: Isa, const Q: bool, const E: bool, const CR: bool>(
    block: &[u8],
    from: usize,
    to: usize,
    shape: &Shape,
    carry: &mut Carry,
    index: &mut Index,
) -> Found {
    let mut at = from;
    let mut all_quotes = 0u64;
    let mut any_cr = 0u64;
    while at < to {
        let stop = (at + STRETCH).min(to);
        // Each byte gives at most one end and one line; `positions` may write 64 values behind the last.
        index.ends.reserve(STRETCH + 64);
        index.lines.reserve(STRETCH);
        let mut irregular = 0u64;
        let mut ends = index.ends.len();
        let mut lines = index.lines.len();
        let ends_at = index.ends.as_mut_ptr();
        let lines_at = index.lines.as_mut_ptr();
        while at < stop {
            let n = stop - at;
            let found = if n >= 64 {
                // SAFETY: `at + 64 <= stop <= block.len()`; features by the caller.
                unsafe { masks::<I, Q, E, CR>(I::load(block.as_ptr().add(at)), u64::MAX, shape, carry) }
            } else {
                // SAFETY: `n` bytes are readable from `at`; features by the caller.
                unsafe { last_word::<I, Q, E, CR>(block.as_ptr().add(at), n, shape, carry) }
            };
            let structure = found.delimiters | found.lines;
            // SAFETY: `ends` grew by at most one per byte since `STRETCH + 64` were reserved, so 64 more fit.
            unsafe { I::positions(structure, at as u32, ends_at.add(ends)) };
            let mut rest = found.lines;
            while rest != 0 {
                let up_to = rest ^ (rest - 1);
                // SAFETY: at most one line a byte, `STRETCH` were reserved.
                unsafe { *lines_at.add(lines) = ends as u32 + (structure & up_to).count_ones() };
                lines += 1;
                rest &= rest - 1;
            }
            ends += structure.count_ones() as usize;
            if Q || E {
                let mut rest = found.specials;
                while rest != 0 {
                    index.specials.push(at as u32 + rest.trailing_zeros());
                    rest &= rest - 1;
                }
            }
            if Q {
                all_quotes |= found.quotes;
                irregular |= found.irregular;
            }
            if CR {
                any_cr |= found.returns;
            }
            at += 64;
        }
        at = stop;
        // SAFETY: the loop wrote all values below these lengths, which are within the capacities.
        unsafe {
            index.ends.set_len(ends);
            index.lines.set_len(lines);
        }
        if Q && irregular != 0 {
            return Found::Irregular;
        }
    }
    index.any_quote |= all_quotes != 0;
    index.any_cr |= any_cr != 0;
    Found::Regular
}

/// See [`Simd::count`](super::Simd::count).
///
/// # Safety
/// The conditions of [`index`].
#[inline(always)]
pub(super) unsafe fn count<I: Isa, const Q: bool, const E: bool, const CR: bool>(
    block: &[u8],
    from: usize,
    to: usize,
    shape: &Shape,
    carry: &mut Carry,
) -> (Counts, Found) {
    let mut counts = Counts::default();
    let mut irregular = 0u64;
    let mut at = from;
    while at < to {
        let n = to - at;
        let found = if n >= 64 {
            // SAFETY: `at + 64 <= to <= block.len()`; features by the caller.
            unsafe { masks::<I, Q, E, CR>(I::load(block.as_ptr().add(at)), u64::MAX, shape, carry) }
        } else {
            // SAFETY: `n` bytes are readable from `at`; features by the caller.
            unsafe { last_word::<I, Q, E, CR>(block.as_ptr().add(at), n, shape, carry) }
        };
        counts.add(&found, shape.width);
        irregular |= found.irregular;
        if shape.skip_empty || shape.comment.is_some() {
            irregular |= found.odd_starts;
        }
        at += 64;
    }
    (counts, if irregular != 0 { Found::Irregular } else { Found::Regular })
}

/// See [`Simd::sides_at`](super::Simd::sides_at).
///
/// # Safety
/// `len` bytes are readable from `bytes` on, and the features of `I` are enabled.
#[inline(always)]
pub(super) unsafe fn sides<I: Isa, const E: bool, const CR: bool>(
    bytes: *const u8,
    len: usize,
    shape: &Shape,
    carry: &Carry,
) -> [Side; 2] {
    let outside = Carry { inside: 0, ..*carry };
    let inside = Carry { inside: u64::MAX, open: 0, closed: 0, line: 0, cr: 0, ..*carry };
    let new = |carry| Side { counts: Counts::default(), end: Some(carry), odd: false };
    let mut sides = [new(outside), new(inside)];
    let (mut a, mut b) = (outside, inside);
    let mut at = 0;
    while at < len {
        let n = len - at;
        let found = if n >= 64 {
            // SAFETY: 64 bytes are readable from `at`; features by the caller.
            let block = unsafe {
                I::prefetch(bytes.wrapping_add(at + AHEAD));
                I::load(bytes.add(at))
            };
            // SAFETY: features by the caller.
            let quotes = unsafe { I::eq(block, shape.quote.unwrap_or(0)) };
            if !E && quotes == 0 && b.inside != 0 {
                // For the second case these bytes are only text, as everywhere in a file that could have quotes but has
                // none.
                b = inside;
                // SAFETY: features by the caller.
                [Some(unsafe { masks::<I, true, E, CR>(block, u64::MAX, shape, &mut a) }), None]
            } else {
                // SAFETY: as above; the two share comparisons once inlined.
                unsafe {
                    [
                        Some(masks::<I, true, E, CR>(block, u64::MAX, shape, &mut a)),
                        Some(masks::<I, true, E, CR>(block, u64::MAX, shape, &mut b)),
                    ]
                }
            }
        } else {
            // SAFETY: `n` bytes are readable from `at`; features by the caller.
            unsafe {
                [
                    Some(last_word::<I, true, E, CR>(bytes.add(at), n, shape, &mut a)),
                    Some(last_word::<I, true, E, CR>(bytes.add(at), n, shape, &mut b)),
                ]
            }
        };
        at += 64;
        let mut irregular = [false; 2];
        for (i, found) in found.iter().enumerate() {
            let Some(found) = found else { continue };
            sides[i].counts.add(found, shape.width);
            sides[i].odd |= found.odd_starts != 0;
            irregular[i] = found.irregular != 0;
        }
        // In data with quotes, the wrong assumption soon finds a quote where none may stand.
        if irregular[0] {
            sides[0].end = None;
            sides[1].end = (!irregular[1]).then_some(b);
            // SAFETY: as for this function.
            unsafe { one::<I, E, CR>(bytes, at.min(len), len, shape, &mut sides[1]) };
            return sides;
        }
        if irregular[1] {
            sides[0].end = Some(a);
            sides[1].end = None;
            // SAFETY: as for this function.
            unsafe { one::<I, E, CR>(bytes, at.min(len), len, shape, &mut sides[0]) };
            return sides;
        }
    }
    sides[0].end = Some(a);
    sides[1].end = Some(b);
    sides
}

/// Continues with one of the cases, from `at` on.
///
/// # Safety
/// The conditions of [`sides`]; `at <= len`.
#[inline(always)]
unsafe fn one<I: Isa, const E: bool, const CR: bool>(
    bytes: *const u8,
    mut at: usize,
    len: usize,
    shape: &Shape,
    side: &mut Side,
) {
    let Some(mut carry) = side.end else { return };
    let (mut irregular, mut odd) = (0u64, 0u64);
    while at < len {
        let n = len - at;
        // SAFETY: 64 or `n` bytes are readable from `at`; features by the caller.
        let found = unsafe {
            if n >= 64 {
                I::prefetch(bytes.wrapping_add(at + AHEAD));
                masks::<I, true, E, CR>(I::load(bytes.add(at)), u64::MAX, shape, &mut carry)
            } else {
                last_word::<I, true, E, CR>(bytes.add(at), n, shape, &mut carry)
            }
        };
        side.counts.add(&found, shape.width);
        irregular |= found.irregular;
        odd |= found.odd_starts;
        at += 64;
    }
    side.odd |= odd != 0;
    side.end = (irregular == 0).then_some(carry);
}

/// Number of places in the bytes that are read in turns. The processor prefetches at each place within a page only;
/// with two places, one is in the middle of its page while the other begins a new one.
const PLACES: usize = 2;
/// With fewer bytes than this per place, bytes are read in order: they come from a cache.
const PLACE_MIN: usize = 16 << 10;
/// Distance in bytes of prefetching. It goes into the second-level cache, which can wait for three times as many lines
/// as the first.
const AHEAD: usize = 2048;

/// See [`Simd::line_ends`](super::Simd::line_ends).
///
/// # Safety
/// `len` bytes are readable from `bytes` on, and the features of `I` are enabled.
#[inline(always)]
pub(super) unsafe fn line_ends<I: Isa, const CR: bool>(bytes: *const u8, len: usize, line_end: u8) -> u64 {
    let part = if len >= PLACES * PLACE_MIN { (len / PLACES) & !63 } else { 0 };
    // 1: the byte before is a `\r`.
    let mut returned = [0u64; PLACES];
    if CR && part > 0 {
        for (place, returned) in returned.iter_mut().enumerate().skip(1) {
            // SAFETY: `place * part` is within the bytes and not 0.
            *returned = (unsafe { std::ptr::read_volatile(bytes.add(place * part - 1)) } == b'\r') as u64;
        }
    }
    let mut ends = 0u64;
    macro_rules! look {
        ($at:expr, $valid:expr, $returned:expr) => {{
            // SAFETY: 64 bytes are readable from `$at`; features by the caller.
            let block = unsafe { I::load($at) };
            // SAFETY: features by the caller.
            let mut found = unsafe { I::eq(block, line_end) & $valid };
            if CR {
                // SAFETY: as above.
                let returns = unsafe { I::eq(block, b'\r') & $valid };
                found = (found & !((returns << 1) | $returned)) | returns;
                $returned = returns >> 63;
            }
            ends += found.count_ones() as u64;
        }};
    }
    let mut at = 0;
    while at < part {
        for (place, returned) in returned.iter_mut().enumerate() {
            // SAFETY: features by the caller.
            unsafe { I::prefetch(bytes.wrapping_add(place * part + at + AHEAD)) };
            look!(bytes.add(place * part + at), u64::MAX, *returned);
        }
        at += 64;
    }
    at = PLACES * part;
    let mut last = returned[PLACES - 1];
    while at + 64 <= len {
        look!(bytes.add(at), u64::MAX, last);
        at += 64;
    }
    let rest = len - at;
    let mut padded = [0u8; 64];
    // SAFETY: `rest < 64` bytes are readable from `at`.
    unsafe { std::ptr::copy_nonoverlapping(bytes.add(at), padded.as_mut_ptr(), rest) };
    look!(padded.as_ptr(), low_bits(rest), last);
    let _ = last;
    ends
}

/// Defines the functions `index`, `count`, `sides`, `line_ends` for one instruction set, with the variants chosen by
/// the shape.
macro_rules! bind {
    ($isa:ty, [$($attr:tt)*] $($unsafe:ident)?) => {
        $($attr)*
        pub(in crate::simd) $($unsafe)? fn index(
            block: &[u8], from: usize, to: usize, shape: &Shape, carry: &mut Carry, out: &mut Index,
        ) -> Found {
            // SAFETY: the caller has checked the range and that the features exist.
            unsafe {
                match (shape.quote.is_some(), shape.escape.is_some(), shape.any_newline) {
                    (false, false, false) => kernel::index::<$isa, false, false, false>(block, from, to, shape, carry, out),
                    (false, false, true) => kernel::index::<$isa, false, false, true>(block, from, to, shape, carry, out),
                    (false, true, false) => kernel::index::<$isa, false, true, false>(block, from, to, shape, carry, out),
                    (false, true, true) => kernel::index::<$isa, false, true, true>(block, from, to, shape, carry, out),
                    (true, false, false) => kernel::index::<$isa, true, false, false>(block, from, to, shape, carry, out),
                    (true, false, true) => kernel::index::<$isa, true, false, true>(block, from, to, shape, carry, out),
                    (true, true, false) => kernel::index::<$isa, true, true, false>(block, from, to, shape, carry, out),
                    (true, true, true) => kernel::index::<$isa, true, true, true>(block, from, to, shape, carry, out),
                }
            }
        }

        $($attr)*
        pub(in crate::simd) $($unsafe)? fn count(
            block: &[u8], from: usize, to: usize, shape: &Shape, carry: &mut Carry,
        ) -> (Counts, Found) {
            // SAFETY: as above.
            unsafe {
                match (shape.quote.is_some(), shape.escape.is_some(), shape.any_newline) {
                    (false, false, false) => kernel::count::<$isa, false, false, false>(block, from, to, shape, carry),
                    (false, false, true) => kernel::count::<$isa, false, false, true>(block, from, to, shape, carry),
                    (false, true, false) => kernel::count::<$isa, false, true, false>(block, from, to, shape, carry),
                    (false, true, true) => kernel::count::<$isa, false, true, true>(block, from, to, shape, carry),
                    (true, false, false) => kernel::count::<$isa, true, false, false>(block, from, to, shape, carry),
                    (true, false, true) => kernel::count::<$isa, true, false, true>(block, from, to, shape, carry),
                    (true, true, false) => kernel::count::<$isa, true, true, false>(block, from, to, shape, carry),
                    (true, true, true) => kernel::count::<$isa, true, true, true>(block, from, to, shape, carry),
                }
            }
        }

        $($attr)*
        pub(in crate::simd) unsafe fn line_ends(bytes: *const u8, len: usize, line_end: u8, returns: bool) -> u64 {
            // SAFETY: as above.
            unsafe {
                match returns {
                    false => kernel::line_ends::<$isa, false>(bytes, len, line_end),
                    true => kernel::line_ends::<$isa, true>(bytes, len, line_end),
                }
            }
        }

        $($attr)*
        pub(in crate::simd) unsafe fn sides(bytes: *const u8, len: usize, shape: &Shape, carry: &Carry) -> [Side; 2] {
            // SAFETY: as above.
            unsafe {
                match (shape.escape.is_some(), shape.any_newline) {
                    (false, false) => kernel::sides::<$isa, false, false>(bytes, len, shape, carry),
                    (false, true) => kernel::sides::<$isa, false, true>(bytes, len, shape, carry),
                    (true, false) => kernel::sides::<$isa, true, false>(bytes, len, shape, carry),
                    (true, true) => kernel::sides::<$isa, true, true>(bytes, len, shape, carry),
                }
            }
        }
    };
}
pub(super) use bind;
