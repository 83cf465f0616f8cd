//! Segments: sorted runs of rows of one tablet, in Parquet objects that any tool can open.
//!
//! ```text
//! "PAR1"
//! segment 0:  row group 0: column chunks | its row-store blocks | its key blocks
//!             row group 1: ...
//! segment 1:  ...
//! ---- tail: one request reads it ([`DataObject::tail_bytes`]), `tail_crc` covers all of it ----
//! Bloom filters of row groups (Parquet's own)
//! directory: checksums of pages, places and first keys of key blocks, key filters, places of row-store blocks
//! column indexes, offset indexes, footer (Parquet's own), "PAR1"
//! ```
//!
//! The footer's key-value metadata says `dipper.format` (a number; newer ones are refused) and `dipper.directory`
//! (`<offset> <length>`). Other readers follow the footer's offsets and never see what lies between row groups.
//! Field ids of the Parquet schema are [`ColumnId`]s: readers find columns by id, so that ALTER rewrites nothing.
//!
//! Everything is checked by CRC-32C when it comes from the store: the tail by the chain's `tail_crc`, pages and blocks by
//! checksums in the directory, so a wrong bit is an error that names object and place.
//!
//! Writing: [`encode_segment`] (CPU only, parallel) makes an [`EncodedSegment`] of sorted batches, [`ObjectBuilder`] lays
//! segments one behind the other. Reading: [`ObjectReader`].
//!
//! [`DataObject::tail_bytes`]: crate::table::data::DataObject
//! [`ColumnId`]: crate::table::schema::ColumnId

mod binary;
mod claims;
mod coded;
mod convert;
mod decimals;
mod directory;
mod encode;
mod fetch;
mod footer;
mod foreign;
mod foreign_fields;
mod ids;
mod key_index;
mod lengths;
mod lookup;
mod object;
mod options;
mod pages;
mod raw;
mod read;
mod readers;
mod reseal;
pub mod row;
mod scan;
mod scan_io;
mod stats;
mod thrift;
mod trust;
mod value_table;
mod views;
mod write;

#[cfg(test)]
pub(crate) mod tests;

pub use self::claims::check_claims;
pub use self::convert::{can_convert, convert, uuid_text};
pub use self::fetch::Fetcher;
pub use self::foreign::{ForeignBounds, ForeignFile, ForeignSchema};
pub use self::key_index::KeyIter;
pub use self::lookup::key_hash;
pub use self::object::ObjectBuilder;
pub use self::options::{Codec, WriteOptions};
pub use self::pages::PageCache;
pub use self::raw::{ColumnTest, ColumnTests};
pub use self::read::ObjectReader;
pub use self::readers::Readers;
#[doc(hidden)]
pub use self::reseal::reseal;
pub use self::scan::{Filter, GroupScan, ROW_ADDRESS, Scan, ScanSchema, added_default, no_elements, row_addresses};
pub use self::scan_io::{IoCounts, ScanIo};
pub use self::stats::ZoneStats;
pub use self::value_table::ValueTable;
pub use self::write::{EncodedSegment, encode_segment};

use crate::key::KeyError;

/// The format of objects that this version writes, and the newest that it reads.
pub const FORMAT: u32 = 1;

const FORMAT_KEY: &str = "dipper.format";
const DIRECTORY_KEY: &str = "dipper.directory";

/// Why a segment could not be written or read.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SegmentError {
    /// The object's bytes are not what was written.
    #[error("object {object}: {place} is damaged: {what}; restore the object from a copy")]
    Damaged {
        /// Path of the object.
        object: String,
        /// Which part of it.
        place: String,
        /// What is wrong with it.
        what: String,
    },
    /// A Parquet file of somebody else that cannot be read.
    #[error("'{file}' cannot be read as Parquet: {place}: {what}")]
    Foreign {
        /// The file.
        file: String,
        /// Which part of it.
        place: String,
        /// What is wrong with it.
        what: String,
    },
    /// The page index of a file of somebody else is not that of its pages: they are to be read without it.
    #[error(
        "'{file}' cannot be read as Parquet: {place}: its page index is not that of its pages; write the file anew"
    )]
    Misindexed {
        /// The file.
        file: String,
        /// The column chunk whose pages were looked at.
        place: String,
    },
    /// The object was written by a newer version.
    #[error("object {object} has format {found}, this version reads formats up to {FORMAT}; use a newer dipper")]
    Newer {
        /// Path of the object.
        object: String,
        /// Its format.
        found: u32,
    },
    /// The store failed.
    #[error("cannot read object {object}: {source}")]
    Store {
        /// Path of the object.
        object: String,
        /// The store's error.
        source: object_store::Error,
    },
    /// Rows that do not fit the table's schema.
    #[error("a batch of a segment: expected {expected}, found {found}")]
    Batch {
        /// What the schema says.
        expected: String,
        /// What came.
        found: String,
    },
    /// A table property with a value that is none.
    #[error("property {name:?}: expected {expected}, found {found:?}")]
    Property {
        /// Its name.
        name: &'static str,
        /// What would be right.
        expected: String,
        /// Its value.
        found: String,
    },
    /// More than an object can hold.
    #[error("an object holds at most {limit} {what}; write several objects")]
    TooLarge {
        /// Of what.
        what: &'static str,
        /// How many.
        limit: u64,
    },
    /// A question that the segment has no index for.
    #[error("object {object}, segment {ordinal}: no {what}; it is written for {condition}")]
    NoIndex {
        /// Path of the object.
        object: String,
        /// Segment in the object.
        ordinal: u32,
        /// Which part is missing.
        what: &'static str,
        /// When it would be there.
        condition: &'static str,
    },
    /// Keys.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// A value that is none of the type that its column has today.
    #[error("'{object}', column {column}: {source}")]
    Value {
        /// The object, or the file of somebody else.
        object: String,
        /// Name of the column.
        column: String,
        /// What is wrong with it.
        source: arrow_schema::ArrowError,
    },
    /// Arrow.
    #[error("cannot convert rows of a segment: {0}")]
    Arrow(#[from] arrow_schema::ArrowError),
    /// Parquet, while writing.
    #[error("cannot encode a segment: {0}")]
    Parquet(#[from] parquet::errors::ParquetError),
}

impl SegmentError {
    /// Whether the bytes that came are not those of a sound object.
    pub fn is_damage(&self) -> bool {
        matches!(self, SegmentError::Damaged { .. } | SegmentError::Foreign { .. })
    }
}

/// Result of this module.
pub type Result<T, E = SegmentError> = std::result::Result<T, E>;
