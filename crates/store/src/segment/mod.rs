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
//! (`<offset> <length>`). Other readers follow the footer's offsets and never see the blocks between row groups. Field
//! ids of the Parquet schema are [`ColumnId`]s: readers find columns by id, so that ALTER rewrites nothing.
//!
//! Everything is checked by CRC-32C when it comes from the store: the tail by the chain's `tail_crc`, pages and blocks
//! by checksums in the directory. A wrong bit is therefore an error that names the object and the place.
//!
//! Writing: [`encode_segment`] (CPU only, parallel) makes an [`EncodedSegment`] from sorted batches, and
//! [`ObjectBuilder`] places segments one after the other. Reading: [`ObjectReader`].
//!
//! [`DataObject::tail_bytes`]: crate::table::data::DataObject
//! [`ColumnId`]: crate::table::schema::ColumnId

mod binary;
mod claims;
mod coded;
mod convert;
mod decimals;
mod deltas;
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
mod pattern;
mod places;
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
pub use self::foreign_fields::int96_as_instants;
pub use self::key_index::KeyIter;
pub use self::lookup::key_hash;
pub use self::object::ObjectBuilder;
pub use self::options::{Codec, WriteOptions};
pub use self::pages::PageCache;
pub use self::pattern::TextPattern;
pub use self::raw::{ColumnTest, ColumnTests};
pub use self::read::{ColumnBytes, ObjectReader};
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
    /// The object's bytes differ from those that were written.
    #[error("object {object}: {place} is damaged: {what}; restore the object from a copy")]
    Damaged {
        /// Path of the object.
        object: String,
        /// The damaged part of the object.
        place: String,
        /// The difference that was found.
        what: String,
    },
    /// A Parquet file of another writer that cannot be read.
    #[error("'{file}' cannot be read as Parquet: {place}: {what}")]
    Foreign {
        /// The file.
        file: String,
        /// The part of the file that cannot be read.
        place: String,
        /// The reason why it cannot be read.
        what: String,
    },
    /// The page index of another writer's file does not describe its pages: they must be read without it.
    #[error(
        "'{file}' cannot be read as Parquet: {place}: its page index is not that of its pages; write the file anew"
    )]
    Misindexed {
        /// The file.
        file: String,
        /// The column chunk whose pages were compared.
        place: String,
    },
    /// The object was written by a newer version.
    #[error("object {object} has format {found}, this version reads formats up to {FORMAT}; use a newer dipper")]
    Newer {
        /// Path of the object.
        object: String,
        /// Format of the object.
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
        /// Expected columns or rows.
        expected: String,
        /// Columns or rows of the batch.
        found: String,
    },
    /// A table property with an invalid value.
    #[error("property {name:?}: expected {expected}, found {found:?}")]
    Property {
        /// Name of the property.
        name: &'static str,
        /// Valid values.
        expected: String,
        /// Value of the property.
        found: String,
    },
    /// An object would hold more than it can.
    #[error("an object holds at most {limit} {what}; write several objects")]
    TooLarge {
        /// The things that are counted.
        what: &'static str,
        /// Most of them that an object can hold.
        limit: u64,
    },
    /// A question that needs an index which the segment lacks.
    #[error("object {object}, segment {ordinal}: no {what}; it is written for {condition}")]
    NoIndex {
        /// Path of the object.
        object: String,
        /// Segment in the object.
        ordinal: u32,
        /// The missing index.
        what: &'static str,
        /// The condition under which it is written.
        condition: &'static str,
    },
    /// The error of a key.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// A value of a file that is not a value of the type that its column has today.
    #[error("'{object}', column {column}: {source}")]
    Value {
        /// Path of the object, or name of another writer's file.
        object: String,
        /// Name of the column.
        column: String,
        /// The conversion's error.
        source: arrow_schema::ArrowError,
    },
    /// The error of an Arrow kernel.
    #[error("cannot convert rows of a segment: {0}")]
    Arrow(#[from] arrow_schema::ArrowError),
    /// The error of the Parquet writer.
    #[error("cannot encode a segment: {0}")]
    Parquet(#[from] parquet::errors::ParquetError),
}

impl SegmentError {
    /// Returns whether the bytes that came are not those of a sound object.
    pub fn is_damage(&self) -> bool {
        matches!(self, SegmentError::Damaged { .. } | SegmentError::Foreign { .. })
    }
}

/// Result of the functions of this module.
pub type Result<T, E = SegmentError> = std::result::Result<T, E>;
