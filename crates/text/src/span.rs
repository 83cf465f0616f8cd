//! Spans: the places of fields in their block.

/// The bytes `start..end` of a block that make up one field, with the properties of its quoting.
///
/// Column converters take one `&[Span]` per column, one span per row, all into the same block. Blocks are below 1 GiB,
/// so the two top bits of `end` are free for flags: eight bytes a field keep the span matrix of a block in the L2
/// cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    start: u32,
    end_and_flags: u32,
}

impl Span {
    /// Marks a field that is absent because its record ended before it.
    pub const MISSING: Span = Span { start: u32::MAX, end_and_flags: u32::MAX };
    const QUOTED: u32 = 1 << 31;
    const ESCAPED: u32 = 1 << 30;
    const END: u32 = Self::ESCAPED - 1;

    /// Creates the span of an unquoted field `start..end`, end excluded; both below 2^30.
    #[inline]
    pub fn new(start: u32, end: u32) -> Self {
        debug_assert!(start <= end && end <= Self::END);
        Span { start, end_and_flags: end }
    }

    /// Creates the span of a field whose quotes lie just outside `start..end`. `escaped`: the field holds doubled
    /// quotes or escape characters.
    #[inline]
    pub fn quoted(start: u32, end: u32, escaped: bool) -> Self {
        debug_assert!(start <= end && end <= Self::END);
        Span { start, end_and_flags: end | Self::QUOTED | if escaped { Self::ESCAPED } else { 0 } }
    }

    /// Creates the span of an unquoted field that holds escape characters.
    #[inline]
    pub fn escaped(start: u32, end: u32) -> Self {
        debug_assert!(start <= end && end <= Self::END);
        Span { start, end_and_flags: end | Self::ESCAPED }
    }

    /// Whether the record ended before this field.
    #[inline]
    pub fn is_missing(self) -> bool {
        self.start == u32::MAX
    }

    /// Whether the field stood in quotes.
    #[inline]
    pub fn is_quoted(self) -> bool {
        self.end_and_flags & Self::QUOTED != 0
    }

    /// Whether escape characters or doubled quotes must be removed from the bytes.
    #[inline]
    pub fn is_escaped(self) -> bool {
        self.end_and_flags & Self::ESCAPED != 0
    }

    /// First byte, relative to the block. Not meaningful for a missing field.
    #[inline]
    pub fn start(self) -> usize {
        self.start as usize
    }

    /// One past the last byte, relative to the block. Not meaningful for a missing field.
    #[inline]
    pub fn end(self) -> usize {
        (self.end_and_flags & Self::END) as usize
    }

    /// Length in bytes. Not meaningful for a missing field.
    #[inline]
    pub fn len(self) -> usize {
        self.end().wrapping_sub(self.start())
    }

    /// Whether the field has no bytes. False for a missing field.
    #[inline]
    pub fn is_empty(self) -> bool {
        self.start() == self.end()
    }

    /// The field's bytes, or `None` where the record ended before it.
    #[inline]
    pub fn bytes(self, block: &[u8]) -> Option<&[u8]> {
        if self.is_missing() { None } else { Some(&block[self.start()..self.end()]) }
    }
}
