//! Rows in a table's chain: objects, segments, deleted rows.
//!
//! A load writes one object (a big one several). An object holds segments: runs of rows of one tablet (one bucket of
//! one partition), sorted by the table's key, each in row groups of its own. Objects never change. A delete vector in
//! the chain's state says which rows of a segment are deleted.

use std::fmt;
use std::sync::OnceLock;

use dipper_base::sketch::HyperLogLog;
use roaring::RoaringBitmap;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};

use super::schema::{ColumnId, PartitionId};
use crate::chain::TxnId;

/// Name of a data object: `d/<txn>-<index>.parquet` below the table's directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectId {
    /// The load or compaction that wrote it.
    pub txn: TxnId,
    /// Number of the object among those of its transaction.
    pub index: u32,
}

/// Name of a segment: its object and its place there, in the order in which the load wrote them. Among equal keys of
/// one load the later segment wins.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SegmentId {
    /// The object.
    pub object: ObjectId,
    /// Place in the object.
    pub ordinal: u32,
}

/// One bucket of one partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Tablet {
    /// Partition.
    pub partition: PartitionId,
    /// Bucket, from 0.
    pub bucket: u32,
}

/// A segment, as the chain describes it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Segment {
    /// Tablet that the segment's rows belong to.
    pub tablet: Tablet,
    /// Number of rows, deleted ones included.
    pub rows: u32,
    /// First row group of the segment in the object.
    pub first_group: u32,
    /// Number of the segment's row groups.
    pub groups: u32,
    /// Bytes of the segment's row groups.
    pub bytes: u64,
    /// Smallest key, in the encoding of [`crate::key`]; empty for a table without keys. May be cut after 64 bytes.
    #[serde(with = "base64_bytes")]
    pub key_min: Vec<u8>,
    /// Largest key, whole.
    #[serde(with = "base64_bytes")]
    pub key_max: Vec<u8>,
}

/// A data object, as the chain describes it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DataObject {
    /// Name of the object.
    pub id: ObjectId,
    /// Size of the object in bytes.
    pub bytes: u64,
    /// Bytes from the object's end that hold all indexes and the footer: one request reads them.
    pub tail_bytes: u64,
    /// CRC-32C of the tail.
    pub tail_crc: u32,
    /// Version of the schema that the object was written under.
    pub schema_version: u64,
    /// Segments of the object; a position in the list is [`SegmentId::ordinal`].
    pub segments: Vec<Segment>,
}

/// Statistics of a column's values over some set of rows. Statistics of two sets can be merged into those of their
/// union.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ColumnStats {
    /// The column.
    pub column: ColumnId,
    /// Smallest value as text in the form of a SQL literal's content. `None` if all values are NULL or the type has no
    /// order. Strings are cut after 64 bytes, which keeps a lower bound.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub min: Option<String>,
    /// Largest value. `None` also if a long string could not be cut to an upper bound.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max: Option<String>,
    /// Number of NULLs.
    pub nulls: u64,
    /// HyperLogLog sketch of the values (`dipper_base::sketch`), empty when there is none.
    #[serde(default, skip_serializing_if = "Vec::is_empty", with = "base64_bytes")]
    pub sketch: Vec<u8>,
    /// The number of distinct values by the sketch, once it was asked for.
    #[serde(skip)]
    pub distinct: Derived<u64>,
}

impl ColumnStats {
    /// Estimates the number of distinct values; `None` without a sketch.
    pub fn distinct(&self) -> Option<u64> {
        *self.distinct.0.get_or_init(|| HyperLogLog::from_bytes(&self.sketch).ok().map(|sketch| sketch.estimate()))
    }
}

/// What follows from other fields, kept once it was worked out. It takes no part in comparisons.
#[derive(Debug, Clone)]
pub struct Derived<T>(OnceLock<Option<T>>);

impl<T> Default for Derived<T> {
    fn default() -> Self {
        Derived(OnceLock::new())
    }
}

impl<T> PartialEq for Derived<T> {
    fn eq(&self, _other: &Self) -> bool {
        true
    }
}

impl fmt::Display for ObjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.txn, self.index)
    }
}

impl fmt::Display for SegmentId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.object, self.ordinal)
    }
}

fn numbers<const N: usize>(text: &str) -> Option<(TxnId, [u32; N])> {
    let mut parts = text.split('-');
    let txn = parts.next().filter(|t| t.len() == 32)?;
    let txn = TxnId(u128::from_str_radix(txn, 16).ok()?);
    let mut found = [0; N];
    for n in &mut found {
        *n = parts.next()?.parse().ok()?;
    }
    parts.next().is_none().then_some((txn, found))
}

impl ObjectId {
    /// Parses the output of [`Display`](fmt::Display); `None` for any other text.
    pub fn from_text(text: &str) -> Option<Self> {
        numbers(text).map(|(txn, [index])| Self { txn, index })
    }
}

impl Serialize for ObjectId {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for ObjectId {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(from)?;
        Self::from_text(&text).ok_or_else(|| D::Error::custom(format_args!("expected an object id, found {text:?}")))
    }
}

impl Serialize for SegmentId {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for SegmentId {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(from)?;
        let (txn, [index, ordinal]) =
            numbers(&text).ok_or_else(|| D::Error::custom(format_args!("expected a segment id, found {text:?}")))?;
        Ok(Self { object: ObjectId { txn, index }, ordinal })
    }
}

/// Row numbers of a segment, counted over its row groups from 0. Serialized in JSON as the portable Roaring format in
/// base64.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Rows(pub RoaringBitmap);

impl Serialize for Rows {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let mut bytes = Vec::with_capacity(self.0.serialized_size());
        self.0.serialize_into(&mut bytes).map_err(serde::ser::Error::custom)?;
        base64_bytes::serialize(&bytes, to)
    }
}

impl<'de> Deserialize<'de> for Rows {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let bytes = base64_bytes::deserialize(from)?;
        RoaringBitmap::deserialize_from(bytes.as_slice()).map(Self).map_err(D::Error::custom)
    }
}

/// Serializes bytes as base64 text.
pub(crate) mod base64_bytes {
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;
    use serde::{Deserialize, Deserializer, Serializer, de::Error as _};

    pub(crate) fn serialize<S: Serializer>(bytes: &[u8], to: S) -> Result<S::Ok, S::Error> {
        to.serialize_str(&STANDARD.encode(bytes))
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Vec<u8>, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(from)?;
        STANDARD.decode(text.as_bytes()).map_err(D::Error::custom)
    }
}

/// Serializes a list of shared values as a list of values.
pub(crate) mod arc_list {
    use std::sync::Arc;

    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub(crate) fn serialize<T: Serialize, S: Serializer>(list: &[Arc<T>], to: S) -> Result<S::Ok, S::Error> {
        to.collect_seq(list.iter().map(|item| &**item))
    }

    pub(crate) fn deserialize<'de, T: Deserialize<'de>, D: Deserializer<'de>>(
        from: D,
    ) -> Result<Vec<Arc<T>>, D::Error> {
        Ok(Vec::<T>::deserialize(from)?.into_iter().map(Arc::new).collect())
    }
}
