//! Formats of the objects of a chain.
//!
//! Every object is a header and JSON. JSON, because the bodies are small (a commit says what changed), new fields with
//! defaults can be read from old objects, and a person can look at a catalog with `tail -c +25`. Checkpoints and their
//! parts, which repeat themselves and are written again and again, are packed (`| unzstd`).
//!
//! ```text
//! offset  bytes
//!      0      8  "DIPPERch"
//!      8      2  format of the kind, u16 little-endian (checkpoints 3, parts 2, others 1); newer ones are refused
//!     10      2  format of the state's changes (`State::FORMAT`), likewise
//!     12      4  kind: "vers", "ckpt", "part" or "done"
//!     16      8  length n of the body in bytes, u64 little-endian
//!     24      n  body, JSON; of checkpoints from format 3 and parts from format 2 on packed by ZSTD
//!   24+n      4  CRC-32C of all bytes before, u32 little-endian
//! ```
//!
//! A field or kind of change that an older dipper does not know is a new format number: changes build on each other, so
//! a skipped change would make every later state wrong. Unknown fields are therefore refused, never dropped.

use std::collections::BTreeSet;
use std::fmt;
use std::io::Read;

use bytes::Bytes;
use rand::Rng;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error as _};

use super::ChainError;
use super::state::State;
use crc32c::crc32c;

const MAGIC: &[u8; 8] = b"DIPPERch";
const HEADER_BYTES: usize = 24;
const CRC_BYTES: usize = 4;
/// Level of ZSTD. A part of a checkpoint takes half a millisecond at this level.
const PACK_LEVEL: i32 = 3;
/// Most bytes of an unpacked body. A part of a checkpoint has tens of kilobytes.
const UNPACKED_BYTES_MAX: u64 = 1 << 30;

macro_rules! hex_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub u128);

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{:032x}", self.0)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "{:x}", self.0)
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
                to.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                let text = std::borrow::Cow::<'de, str>::deserialize(from)?;
                if text.len() != 32 {
                    return Err(D::Error::custom(format_args!("expected 32 hex digits, found {text:?}")));
                }
                u128::from_str_radix(&text, 16).map(Self).map_err(D::Error::custom)
            }
        }
    };
}

hex_id! {
    /// A transaction: one acknowledged unit. Ids are ordered by time: milliseconds since 1970 in the upper 48 bits, 80
    /// random bits below.
    TxnId
}

hex_id! {
    /// Identity of one record: random, and only ever repeated with the same bytes.
    RecordId
}

impl TxnId {
    /// Draws a new id, later than the clock and than the horizon, below which transactions are forgotten.
    pub fn fresh(horizon: Self) -> Self {
        let now = chrono::Utc::now().timestamp_millis().max(0) as u128;
        let ms = now.max((horizon.0 >> 80) + 1);
        Self((ms << 80) | (rand::rng().random::<u128>() & ((1 << 80) - 1)))
    }

    /// Returns the smallest id of that millisecond.
    pub fn at_ms(ms: i64) -> Self {
        Self((ms.max(0) as u128) << 80)
    }
}

impl RecordId {
    /// Identity that a chain's first version names as the one before it.
    pub const ROOT: Self = Self(0);

    /// Draws a new random id.
    pub fn fresh() -> Self {
        Self(rand::rng().random())
    }
}

/// Effect of a version on one transaction.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Op<C> {
    /// The transaction's change takes effect.
    Commit(C),
    /// The transaction can never be committed.
    Abort,
}

/// One transaction in a version.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Entry<C> {
    /// The transaction.
    pub txn: TxnId,
    /// Effect on the transaction.
    pub op: Op<C>,
}

/// One version: what it adds to the one before.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Record<C> {
    /// The version's number, as in its name.
    pub number: u64,
    /// The version's own identity.
    pub id: RecordId,
    /// Identity of the version before, [`RecordId::ROOT`] for the first.
    pub prev: RecordId,
    /// Random number of the process that wrote it.
    pub writer: u64,
    /// When the record was written, in milliseconds since 1970, UTC. For people only: nothing depends on it.
    pub at_ms: i64,
    /// Transactions below this id are forgotten: neither done markers nor aborts are kept for them. It never falls.
    pub horizon: TxnId,
    /// The transactions, in the order in which they take effect.
    pub entries: Vec<Entry<C>>,
}

/// Name of a part of a state: the checkpoint it was written for, and a random number.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct PartName {
    pub ordinal: u64,
    pub random: u64,
}

impl PartName {
    pub fn from_text(text: &str) -> Option<Self> {
        let (ordinal, random) = text.split_once('-').filter(|(o, r)| o.len() == 20 && r.len() == 16)?;
        Some(Self { ordinal: ordinal.parse().ok()?, random: u64::from_str_radix(random, 16).ok()? })
    }
}

impl fmt::Display for PartName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:020}-{:016x}", self.ordinal, self.random)
    }
}

impl fmt::Debug for PartName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{:x}", self.ordinal, self.random)
    }
}

impl Serialize for PartName {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for PartName {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        let text = std::borrow::Cow::<'de, str>::deserialize(from)?;
        Self::from_text(&text).ok_or_else(|| D::Error::custom(format_args!("expected a part's name, found {text:?}")))
    }
}

/// A part of a state.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct PartObject<P> {
    /// Ordinal of the checkpoint that the part was written for, as in its name.
    pub ordinal: u64,
    /// The part.
    pub part: P,
}

/// The state at a version, where loading starts. Each checkpoint is made from the one before and goes on using its
/// parts.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Checkpoint<S> {
    /// Ordinal of the checkpoint in its chain, as in its name; 0 in format 1, whose checkpoints are named by their
    /// versions.
    #[serde(default)]
    pub ordinal: u64,
    /// The version's number.
    pub number: u64,
    /// The version's identity.
    pub id: RecordId,
    /// Transactions below this id are forgotten; see [`Record::horizon`].
    pub horizon: TxnId,
    /// Aborted transactions above the horizon.
    pub aborted: BTreeSet<TxnId>,
    /// Parts of the state, in order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub parts: Vec<PartName>,
    /// The state without its parts.
    pub state: S,
}

impl<S> Checkpoint<S> {
    /// Returns the ordinal of the checkpoint in its chain, which is larger than that of the one before.
    pub fn ordinal(&self) -> u64 {
        if self.ordinal == 0 { self.number } else { self.ordinal }
    }
}

/// Committed transactions that a checkpoint forgets.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Done {
    /// Number of the checkpoint's version, as in the marker's name.
    pub number: u64,
    /// The transactions.
    pub txns: BTreeSet<TxnId>,
}

/// A value that is stored as one object of a chain.
pub(crate) trait Stored: Serialize + DeserializeOwned {
    /// Newest format of header and body. The format of the state's changes is a separate number.
    const FORMAT: u16 = 1;
    /// First format in which the body is packed.
    const PACKED_FROM: Option<u16> = None;
    /// Kind in the header.
    const KIND: &'static [u8; 4];
    /// Number in the body, which must equal the one in the name.
    fn number(&self) -> u64;
}

impl<C: Serialize + DeserializeOwned> Stored for Record<C> {
    const KIND: &'static [u8; 4] = b"vers";
    fn number(&self) -> u64 {
        self.number
    }
}

impl<S: Serialize + DeserializeOwned> Stored for Checkpoint<S> {
    const FORMAT: u16 = 3;
    const PACKED_FROM: Option<u16> = Some(3);
    const KIND: &'static [u8; 4] = b"ckpt";
    fn number(&self) -> u64 {
        self.ordinal()
    }
}

impl<P: Serialize + DeserializeOwned> Stored for PartObject<P> {
    const FORMAT: u16 = 2;
    const PACKED_FROM: Option<u16> = Some(2);
    const KIND: &'static [u8; 4] = b"part";
    fn number(&self) -> u64 {
        self.ordinal
    }
}

impl Stored for Done {
    const KIND: &'static [u8; 4] = b"done";
    fn number(&self) -> u64 {
        self.number
    }
}

/// Returns the object's bytes.
pub(crate) fn encode<S: State, T: Stored>(value: &T) -> Result<Bytes, serde_json::Error> {
    encode_as(S::FORMAT, value)
}

/// Encodes like [`encode`], for objects that are not part of a chain; `format` takes the place of [`State::FORMAT`].
pub(crate) fn encode_as<T: Stored>(format: u16, value: &T) -> Result<Bytes, serde_json::Error> {
    let mut bytes = vec![0; HEADER_BYTES];
    match T::PACKED_FROM {
        Some(from) if T::FORMAT >= from => {
            let body = zstd::bulk::compress(&serde_json::to_vec(value)?, PACK_LEVEL);
            bytes.extend(body.map_err(serde_json::Error::io)?);
        }
        _ => serde_json::to_writer(&mut bytes, value)?,
    }
    assert!(bytes.len() > HEADER_BYTES, "an object has a body");
    let length = (bytes.len() - HEADER_BYTES) as u64;
    bytes[..8].copy_from_slice(MAGIC);
    bytes[8..10].copy_from_slice(&T::FORMAT.to_le_bytes());
    bytes[10..12].copy_from_slice(&format.to_le_bytes());
    bytes[12..16].copy_from_slice(T::KIND);
    bytes[16..24].copy_from_slice(&length.to_le_bytes());
    let crc = crc32c(&bytes);
    bytes.extend(crc.to_le_bytes());
    Ok(bytes.into())
}

/// Reads an object's bytes. `path` is its name, for errors, and `number` is the number in that name.
pub(crate) fn decode<S: State, T: Stored>(path: &str, number: u64, bytes: &[u8]) -> Result<T, ChainError> {
    decode_as(S::FORMAT, path, number, bytes)
}

/// Decodes like [`decode`], for objects that are not part of a chain.
pub(crate) fn decode_as<T: Stored>(format: u16, path: &str, number: u64, bytes: &[u8]) -> Result<T, ChainError> {
    let damaged = |reason: String| ChainError::Damaged { path: path.to_string(), reason };
    let newer = |found: u16, supported: u16| ChainError::Newer {
        path: path.to_string(),
        found: u32::from(found),
        supported: u32::from(supported),
    };
    if bytes.len() < HEADER_BYTES + CRC_BYTES {
        let least = HEADER_BYTES + CRC_BYTES;
        return Err(damaged(format!("expected at least {least} bytes, found {}", bytes.len())));
    }
    let (header, rest) = bytes.split_at(HEADER_BYTES);
    let (body, crc) = rest.split_at(rest.len() - CRC_BYTES);
    if &header[..8] != MAGIC {
        let found = header[..8].escape_ascii();
        return Err(damaged(format!("expected \"DIPPERch\" at byte 0, found \"{found}\"")));
    }
    // Checked before the checksum: a newer format may have its checksum elsewhere.
    let u16_at = |at: usize| u16::from_le_bytes([header[at], header[at + 1]]);
    for (at, supported) in [(8, T::FORMAT), (10, format)] {
        if u16_at(at) > supported {
            return Err(newer(u16_at(at), supported));
        }
    }
    let expected = u32::from_le_bytes([crc[0], crc[1], crc[2], crc[3]]);
    let found = crc32c(&bytes[..HEADER_BYTES + body.len()]);
    if expected != found {
        let at = HEADER_BYTES + body.len();
        return Err(damaged(format!("expected checksum {expected:08x} (byte {at}), found {found:08x}")));
    }
    if &header[12..16] != T::KIND {
        let (expected, found) = (T::KIND.escape_ascii(), header[12..16].escape_ascii());
        return Err(damaged(format!("expected kind \"{expected}\" at byte 12, found \"{found}\"")));
    }
    let length = u64::from_le_bytes(header[16..24].try_into().unwrap_or_default());
    if length != body.len() as u64 {
        return Err(damaged(format!("expected a body of {length} bytes (byte 16), found {}", body.len())));
    }
    let unpacked;
    let body = match T::PACKED_FROM {
        Some(from) if u16_at(8) >= from => {
            unpacked = unpack(body).map_err(|e| damaged(format!("body at byte {HEADER_BYTES}: {e}")))?;
            &unpacked
        }
        _ => body,
    };
    let value: T = serde_json::from_slice(body).map_err(|e| damaged(format!("body at byte {HEADER_BYTES}: {e}")))?;
    if value.number() != number {
        return Err(damaged(format!("expected number {number} as in its name, found {}", value.number())));
    }
    Ok(value)
}

/// Unpacks the body of an object.
fn unpack(body: &[u8]) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    zstd::stream::Decoder::new(body)?.take(UNPACKED_BYTES_MAX + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > UNPACKED_BYTES_MAX {
        return Err(std::io::Error::other(format!("it unpacks to more than {UNPACKED_BYTES_MAX} bytes")));
    }
    Ok(bytes)
}
