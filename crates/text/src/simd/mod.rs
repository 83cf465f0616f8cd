//! The places of delimiters, line ends and quotes in a block of bytes.
//!
//! Bytes are processed 64 at a time. Comparing them with a byte gives a 64-bit mask, and everything else is arithmetic
//! on masks: which quotes open (prefix XOR by carry-less multiplication, after Geoff Langdale's simdcsv), which bytes
//! are escaped (odd runs, after simdjson), which line feeds belong to a `\r\n`. Set bits become positions, with AVX-512
//! by compressing a vector of indexes. The arithmetic is written once (`kernel`); each instruction set supplies a few
//! primitives ([`Isa`](kernel::Isa)), and the portable one implements them with 64-bit words.
//!
//! Quotes count only where a field begins. The masks cannot see that, because they pair quotes up from left to right;
//! but they can prove that the pairing is right: every opening quote follows a delimiter, a line end or a closing
//! quote, and every closing one precedes one of these. If the proof fails ([`Found::Irregular`]), the caller uses the
//! byte-wise machine for that block.
#![allow(unsafe_code)]

mod kernel;
mod portable;
#[cfg(target_arch = "x86_64")]
mod x86;

use std::sync::OnceLock;

pub(crate) use kernel::Carry;

/// The bytes that structure a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Shape {
    /// Stands between fields.
    pub delimiter: u8,
    /// Ends a record (`\n`, or a custom byte).
    pub line_end: u8,
    /// A `\r` ends a record too, and one before a `\n` belongs to it.
    pub any_newline: bool,
    /// Encloses fields.
    pub quote: Option<u8>,
    /// Makes the next byte literal: quotes where there is quoting, else delimiters.
    pub escape: Option<u8>,
    /// Without quoting: whether an escaped line end is data (Hive: it cuts all the same).
    pub escape_hides_line_end: bool,
    /// Lines that begin with this byte are not data. With quoting, such a line makes the block irregular.
    pub comment: Option<u8>,
    /// Empty lines and comment lines are not rows, so counting line ends is not enough if there are any.
    pub skip_empty: bool,
    /// A line that does not begin with `{` and end with `}` is irregular.
    pub objects: bool,
    /// The number of fields of every record, to find out while counting whether all have it; 0: records may differ.
    pub width: u64,
}

/// Positions of everything that structures some records, in bytes from the start of the block.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub(crate) struct Index {
    /// Ends of fields: the positions of delimiters and line ends, ascending.
    pub ends: Vec<u32>,
    /// For each line end: the number of `ends` up to and including it.
    pub lines: Vec<u32>,
    /// Positions of bytes that make a field need unescaping: the second of two quotes, or an escape. Ascending.
    pub specials: Vec<u32>,
    /// Whether there is any quote.
    pub any_quote: bool,
    /// Whether any line ends in `\r`, or has one before its `\n`. Only maintained when `any_newline`.
    pub any_cr: bool,
}

impl Index {
    pub(crate) fn clear(&mut self) {
        self.ends.clear();
        self.lines.clear();
        self.specials.clear();
        self.any_quote = false;
        self.any_cr = false;
    }
}

/// Result of processing bytes by masks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Found {
    /// Everything was found.
    Regular,
    /// There is a quote inside an unquoted field, or a comment line: the positions found are meaningless.
    Irregular,
}

/// Counts of the structural bytes in a range.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    /// Line ends.
    pub lines: u64,
    /// Delimiters before the first line end. Only maintained if the shape has a width, as what follows.
    pub head: u64,
    /// Whether the first line end is directly behind a delimiter.
    pub head_trails: bool,
    /// Delimiters behind the last line end, or all of them if there is none.
    pub tail: u64,
    /// Whether a line between two line ends does not have the shape's number of fields.
    pub uneven: bool,
}

impl Counts {
    /// Counts of no bytes at the start of a record.
    pub(crate) const RECORD: Counts = Counts { lines: 1, head: 0, head_trails: false, tail: 0, uneven: false };

    /// Adds the counts of the bytes that follow.
    pub(crate) fn join(&mut self, next: &Counts, width: u64) {
        if next.lines == 0 {
            self.tail += next.tail;
            return;
        }
        let delimiters = self.tail + next.head;
        match self.lines {
            0 => (self.head, self.head_trails) = (delimiters, next.head_trails),
            _ => self.uneven |= !is_even(delimiters, next.head_trails, width),
        }
        self.uneven |= next.uneven;
        self.lines += next.lines;
        self.tail = next.tail;
    }
}

/// Whether a line of this many delimiters has `width` fields. An empty field behind the last one does not count.
/// `trails`: the last delimiter stands at the end of the line.
#[inline(always)]
pub(crate) fn is_even(delimiters: u64, trails: bool, width: u64) -> bool {
    delimiters + 1 == width || (trails && delimiters == width)
}

/// Structure of some bytes under one assumption: that they begin outside quotes, or inside.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Side {
    /// Line ends and delimiters.
    pub counts: Counts,
    /// State behind the bytes. `None`: they are irregular, and the other fields are meaningless.
    pub end: Option<Carry>,
    /// A line might be empty or a comment.
    pub odd: bool,
}

/// An instruction set that this machine has. The constructors detect the features, so a value proves that the
/// instructions may be executed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Simd(Path);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Path {
    #[cfg(target_arch = "x86_64")]
    Avx512,
    #[cfg(target_arch = "x86_64")]
    Avx2,
    #[cfg(target_arch = "x86_64")]
    Sse42,
    Portable,
}

macro_rules! dispatch {
    ($path:expr, $name:ident ( $($arg:expr),* )) => {
        match $path {
            // SAFETY: a `Simd` with this path is only made after the features were detected.
            #[cfg(target_arch = "x86_64")]
            Path::Avx512 => unsafe { x86::avx512::$name($($arg),*) },
            // SAFETY: as above.
            #[cfg(target_arch = "x86_64")]
            Path::Avx2 => unsafe { x86::avx2::$name($($arg),*) },
            // SAFETY: as above.
            #[cfg(target_arch = "x86_64")]
            Path::Sse42 => unsafe { x86::sse42::$name($($arg),*) },
            Path::Portable => portable::$name($($arg),*),
        }
    };
}

impl Simd {
    /// Returns the best instruction set of this machine, detected once.
    pub(crate) fn best() -> Simd {
        static BEST: OnceLock<Simd> = OnceLock::new();
        *BEST.get_or_init(|| Simd::available()[0])
    }

    /// Returns the portable code, which needs no vector instructions.
    pub(crate) fn portable() -> Simd {
        Simd(Path::Portable)
    }

    /// Returns all instruction sets that this machine has, best first; the last one is portable.
    pub(crate) fn available() -> Vec<Simd> {
        let mut paths = Vec::new();
        #[cfg(target_arch = "x86_64")]
        {
            let common = is_x86_feature_detected!("pclmulqdq")
                && is_x86_feature_detected!("popcnt")
                && is_x86_feature_detected!("sse4.2");
            let bits = is_x86_feature_detected!("bmi1") && is_x86_feature_detected!("bmi2");
            let avx2 = common && bits && is_x86_feature_detected!("lzcnt") && is_x86_feature_detected!("avx2");
            if avx2
                && is_x86_feature_detected!("avx512f")
                && is_x86_feature_detected!("avx512bw")
                && is_x86_feature_detected!("avx512vl")
                && is_x86_feature_detected!("avx512vbmi2")
            {
                paths.push(Simd(Path::Avx512));
            }
            if avx2 {
                paths.push(Simd(Path::Avx2));
            }
            if common {
                paths.push(Simd(Path::Sse42));
            }
        }
        paths.push(Simd(Path::Portable));
        paths
    }

    /// Returns the name for messages.
    pub(crate) fn name(self) -> &'static str {
        match self.0 {
            #[cfg(target_arch = "x86_64")]
            Path::Avx512 => "AVX-512",
            #[cfg(target_arch = "x86_64")]
            Path::Avx2 => "AVX2",
            #[cfg(target_arch = "x86_64")]
            Path::Sse42 => "SSE4.2",
            Path::Portable => "portable",
        }
    }

    /// Appends the structure of `block[from..to]` to `index`. `carry` is the state before `from`, and becomes the state
    /// before `to`.
    ///
    /// # Panics
    /// If `from..to` is no range of `block`, or `block` has `u32::MAX` bytes or more.
    pub(crate) fn index(
        self,
        block: &[u8],
        from: usize,
        to: usize,
        shape: &Shape,
        carry: &mut Carry,
        index: &mut Index,
    ) -> Found {
        assert!(from <= to && to <= block.len() && block.len() < u32::MAX as usize, "a range of the block");
        dispatch!(self.0, index(block, from, to, shape, carry, index))
    }

    /// Counts the line ends and delimiters in `block[from..to]`. With `shape.skip_empty` or a comment byte, the result
    /// is also irregular if a line might be empty or a comment.
    ///
    /// # Panics
    /// If `from..to` is no range of `block`.
    pub(crate) fn count(
        self,
        block: &[u8],
        from: usize,
        to: usize,
        shape: &Shape,
        carry: &mut Carry,
    ) -> (Counts, Found) {
        assert!(from <= to && to <= block.len(), "a range of the block");
        dispatch!(self.0, count(block, from, to, shape, carry))
    }

    /// Returns the structure of `bytes` for both cases: beginning outside and inside quotes. `carry` is the state
    /// before them, as for [`index`](Self::index), in the first case.
    pub(crate) fn sides(self, bytes: &[u8], shape: &Shape, carry: &Carry) -> [Side; 2] {
        // SAFETY: all of the slice is readable.
        unsafe { self.sides_at(bytes.as_ptr(), bytes.len(), shape, carry) }
    }

    /// Like [`sides`](Self::sides), for bytes to which no reference may exist because others may write to them.
    ///
    /// # Safety
    /// `len` bytes are readable from `bytes` on.
    pub(crate) unsafe fn sides_at(self, bytes: *const u8, len: usize, shape: &Shape, carry: &Carry) -> [Side; 2] {
        // SAFETY: a `Simd` with a path is only made after its features were detected; the bytes are the caller's duty.
        unsafe {
            match self.0 {
                #[cfg(target_arch = "x86_64")]
                Path::Avx512 => x86::avx512::sides(bytes, len, shape, carry),
                #[cfg(target_arch = "x86_64")]
                Path::Avx2 => x86::avx2::sides(bytes, len, shape, carry),
                #[cfg(target_arch = "x86_64")]
                Path::Sse42 => x86::sse42::sides(bytes, len, shape, carry),
                Path::Portable => portable::sides(bytes, len, shape, carry),
            }
        }
    }

    /// Counts the line ends in `bytes`. `returns`: a `\r` ends a line too, and a `\n` behind it in `bytes` belongs to
    /// it.
    pub(crate) fn line_ends(self, bytes: &[u8], line_end: u8, returns: bool) -> u64 {
        // SAFETY: all of the slice is readable.
        unsafe { self.line_ends_at(bytes.as_ptr(), bytes.len(), line_end, returns) }
    }

    /// Like [`line_ends`](Self::line_ends), for bytes to which no reference may exist because others may write to them.
    ///
    /// # Safety
    /// `len` bytes are readable from `bytes` on.
    pub(crate) unsafe fn line_ends_at(self, bytes: *const u8, len: usize, line_end: u8, returns: bool) -> u64 {
        // SAFETY: a `Simd` with a path is only made after its features were detected; the bytes are the caller's duty.
        unsafe {
            match self.0 {
                #[cfg(target_arch = "x86_64")]
                Path::Avx512 => x86::avx512::line_ends(bytes, len, line_end, returns),
                #[cfg(target_arch = "x86_64")]
                Path::Avx2 => x86::avx2::line_ends(bytes, len, line_end, returns),
                #[cfg(target_arch = "x86_64")]
                Path::Sse42 => x86::sse42::line_ends(bytes, len, line_end, returns),
                Path::Portable => portable::line_ends(bytes, len, line_end, returns),
            }
        }
    }
}
