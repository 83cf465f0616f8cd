//! How segments are written: the table's properties, and what a sample of its rows advises.

use std::collections::HashSet;
use std::hash::{BuildHasherDefault, Hasher};
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, OnceLock};

use arrow_array::cast::AsArray;
use arrow_array::types::Int64Type;
use arrow_array::{Array, ArrayRef, RecordBatch, UInt32Array};
use arrow_cast::cast;
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use arrow_select::concat::concat_batches;
use arrow_select::take::take_record_batch;
use parquet::arrow::{ArrowSchemaConverter, PARQUET_FIELD_ID_META_KEY};
use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::file::properties::{EnabledStatistics, WriterProperties, WriterPropertiesPtr};
use parquet::schema::types::SchemaDescPtr;

use super::{Result, SegmentError, encode};
use crate::key::KeyEncoder;
use crate::table::schema::{ColumnId, Model, TableColumn, TableSchema};
use crate::types::SqlType;

/// Codec of string pages that shrink; numbers and dictionaries are never packed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Codec {
    /// ZSTD, level 1.
    #[default]
    Zstd,
    /// LZ4.
    Lz4,
    /// None.
    None,
}

/// Rows of a column that decide its encoding.
const SAMPLE_ROWS: usize = 16 * 1024;
/// Rows of a segment that decides for its whole load.
const SAMPLE_ROWS_MIN: usize = 4096;
/// A string column gets a dictionary if at most this share of its sample's values are distinct.
const DISTINCT_STRINGS: f64 = 0.35;
/// The same for numbers, whose dictionaries gain less.
const DISTINCT_NUMBERS: f64 = 0.10;
/// A codec must save this share of a sample's bytes.
const CODEC_GAIN: f64 = 0.20;
/// The same for floating-point numbers, which a codec makes slower to read by more.
const CODEC_GAIN_NUMBERS: f64 = 0.35;
/// Integers are written as differences if that saves this share of a sample's bytes.
const DELTA_GAIN: f64 = 0.40;
/// Bytes of a sample that are packed to see what a codec saves.
const CODEC_SAMPLE_BYTES: usize = 256 * 1024;

pub(super) const PAGE_ROWS: usize = 20_000;
pub(super) const PAGE_BYTES: usize = 1024 * 1024;
/// Statistics of strings are cut after so many bytes.
pub(super) const STATISTICS_BYTES: usize = 64;

/// How a column is encoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ColumnPlan {
    Dictionary,
    Delta,
    Plain { codec: bool },
}

/// What the rows of a load advise.
#[derive(Debug)]
pub(super) struct Plan {
    pub columns: Vec<ColumnPlan>,
    /// For the columns that `ArrowColumnWriter` writes.
    pub properties: WriterPropertiesPtr,
}

/// How to write segments of a table. One value serves a whole load: the first segment with enough rows
/// decides the encodings of all that follow.
#[derive(Debug)]
pub struct WriteOptions {
    pub(super) schema: Arc<TableSchema>,
    pub(super) arrow: SchemaRef,
    pub(super) parquet: SchemaDescPtr,
    /// The columns that `ArrowColumnWriter` writes, with field ids, and as Parquet sees them alone.
    pub(super) others: (Vec<usize>, SchemaRef, SchemaDescPtr),
    /// Bytes of the largest row group so far: room for the next one.
    pub(super) group_bytes: AtomicUsize,
    pub(super) keys: KeyEncoder,
    /// Whether segments have a key index.
    pub(super) key_index: bool,
    /// Places of the columns that the row store holds; empty for none.
    pub(super) row_store: Vec<usize>,
    pub(super) codec: Codec,
    /// Rows of a row group at most.
    pub row_group_rows: usize,
    pub(super) plan: OnceLock<Arc<Plan>>,
    bloom: Vec<ColumnId>,
    bloom_fpp: f64,
}

impl WriteOptions {
    /// For tables with this schema; reads its properties `compression`, `store_row_column`, `row_store_columns`,
    /// `bloom_filter_columns`, `bloom_filter_fpp`, and its indexes of kind `bloom_filter`.
    ///
    /// # Errors
    /// [`SegmentError::Property`] for a value that is none, [`SegmentError::Key`] for a key column that cannot be one.
    pub fn try_new(schema: Arc<TableSchema>) -> Result<Self> {
        let codec = match schema.property("compression").map(str::to_ascii_lowercase).as_deref() {
            None | Some("zstd" | "default" | "default_compression") => Codec::Zstd,
            Some("lz4" | "lz4f" | "lz4hc" | "lz4_frame" | "snappy") => Codec::Lz4,
            Some("none" | "no_compression" | "uncompressed" | "") => Codec::None,
            Some(found) => {
                return Err(SegmentError::Property {
                    name: "compression",
                    expected: "zstd, lz4 or no_compression".into(),
                    found: found.into(),
                });
            }
        };
        let named = |name: &'static str| {
            let mut places = Vec::new();
            for column in schema.property(name).unwrap_or("").split(',').map(str::trim).filter(|c| !c.is_empty()) {
                match schema.columns.iter().position(|c| c.name.eq_ignore_ascii_case(column)) {
                    Some(place) => places.push(place),
                    None => {
                        let expected = "names of columns".into();
                        return Err(SegmentError::Property { name, expected, found: column.into() });
                    }
                }
            }
            Ok(places)
        };
        let whole = flag(&schema, "store_row_column")?;
        let mut row_store = named("row_store_columns")?;
        if whole || !row_store.is_empty() {
            // The key and the hidden columns are always among them: a point read needs them.
            row_store = (0..schema.columns.len())
                .filter(|i| {
                    let c = &schema.columns[*i];
                    (whole || *i < schema.keys || c.hidden || row_store.contains(i)) && !nested(&c.data_type)
                })
                .collect();
        }
        let mut bloom: Vec<_> = named("bloom_filter_columns")?.into_iter().map(|i| schema.columns[i].id).collect();
        bloom.extend(schema.indexes.iter().filter(|i| i.kind == "bloom_filter").flat_map(|i| &i.columns));
        let bloom_fpp = match schema.property("bloom_filter_fpp") {
            None => 0.05,
            Some(text) => text.parse().ok().filter(|fpp| (0.0001..=0.5).contains(fpp)).ok_or_else(|| {
                let expected = "a number from 0.0001 to 0.5".into();
                SegmentError::Property { name: "bloom_filter_fpp", expected, found: text.into() }
            })?,
        };
        let arrow = schema.arrow();
        let file_arrow = Schema::new(schema.columns.iter().map(file_field).collect::<Vec<_>>());
        let parquet = Arc::new(ArrowSchemaConverter::new().convert(&file_arrow)?);
        let others: Vec<_> =
            (0..schema.columns.len()).filter(|i| !encode::is_ours(arrow.field(*i).data_type())).collect();
        let other_arrow = file_arrow.project(&others)?;
        let other_parquet = Arc::new(ArrowSchemaConverter::new().convert(&other_arrow)?);
        Ok(Self {
            keys: KeyEncoder::for_table(&schema)?,
            key_index: schema.keys > 0 && (schema.model == Model::Unique || !row_store.is_empty()),
            row_store,
            codec,
            row_group_rows: 128 * 1024,
            plan: OnceLock::new(),
            bloom,
            bloom_fpp,
            arrow,
            parquet,
            others: (others, Arc::new(other_arrow), other_parquet),
            group_bytes: AtomicUsize::new(0),
            schema,
        })
    }

    /// The table's schema.
    pub fn schema(&self) -> &Arc<TableSchema> {
        &self.schema
    }

    /// The codec of strings that shrink.
    pub fn codec(&self) -> Codec {
        self.codec
    }

    pub(super) fn compression(&self) -> Compression {
        match self.codec {
            Codec::Zstd => Compression::ZSTD(ZstdLevel::try_new(1).expect("1 is a level")),
            Codec::Lz4 => Compression::LZ4_RAW,
            Codec::None => Compression::UNCOMPRESSED,
        }
    }

    /// False positives of a column's Bloom filters, if it has some.
    pub(super) fn bloom(&self, column: usize) -> Option<f64> {
        self.bloom.contains(&self.schema.columns[column].id).then_some(self.bloom_fpp)
    }

    /// Places of the columns that rows of the row store hold, hidden ones too; empty without a row store.
    pub fn row_store_columns(&self) -> &[usize] {
        &self.row_store
    }

    /// The plan of the load, or one for these rows alone as long as no segment had enough rows to speak for all.
    pub(super) fn plan(&self, batches: &[RecordBatch]) -> Result<Arc<Plan>> {
        if let Some(plan) = self.plan.get() {
            return Ok(plan.clone());
        }
        // Rows from everywhere: the first ones of a sorted run are more alike than the rest.
        let rows: usize = batches.iter().map(RecordBatch::num_rows).sum();
        let step = (rows / SAMPLE_ROWS).max(1);
        let sample = batches
            .iter()
            .map(|b| take_record_batch(b, &(0..b.num_rows() as u32).step_by(step).collect::<UInt32Array>()))
            .collect::<Result<Vec<_>, _>>()?;
        let plan = Arc::new(self.make_plan(&concat_batches(&sample[0].schema(), &sample)?));
        Ok(if rows >= SAMPLE_ROWS_MIN { self.plan.get_or_init(|| plan).clone() } else { plan })
    }

    fn make_plan(&self, sample: &RecordBatch) -> Plan {
        let columns: Vec<_> = sample
            .columns()
            .iter()
            .enumerate()
            .map(|(i, array)| {
                if i == 0 && self.schema.keys > 0 && is_integer(array.data_type()) {
                    ColumnPlan::Delta
                } else {
                    self.plan_column(array)
                }
            })
            .collect();
        let mut properties = WriterProperties::builder()
            .set_created_by("dipper".into())
            .set_data_page_row_count_limit(PAGE_ROWS)
            .set_data_page_size_limit(PAGE_BYTES)
            .set_dictionary_page_size_limit(PAGE_BYTES)
            .set_write_batch_size(4096)
            .set_max_row_group_row_count(None)
            .set_column_index_truncate_length(Some(STATISTICS_BYTES))
            .set_statistics_truncate_length(Some(STATISTICS_BYTES))
            .set_statistics_enabled(EnabledStatistics::Page)
            .set_compression(Compression::UNCOMPRESSED)
            .set_dictionary_enabled(false);
        for leaf in self.parquet.columns() {
            let Some(column) = leaf.path().parts().first().and_then(|n| self.arrow.index_of(n).ok()) else { continue };
            let path = leaf.path().clone();
            if leaf.path().parts().len() > 1 {
                // Items of lists and maps: repeated values are likely, and the writer gives a dictionary up by itself.
                properties = properties
                    .set_column_dictionary_enabled(path.clone(), true)
                    .set_column_compression(path.clone(), self.compression());
            } else {
                match columns[column] {
                    ColumnPlan::Dictionary => properties = properties.set_column_dictionary_enabled(path.clone(), true),
                    ColumnPlan::Delta => {
                        properties = properties.set_column_encoding(path.clone(), Encoding::DELTA_BINARY_PACKED)
                    }
                    ColumnPlan::Plain { codec: true } => {
                        properties = properties.set_column_compression(path.clone(), self.compression());
                    }
                    ColumnPlan::Plain { codec: false } => {}
                }
            }
            if let Some(fpp) = self.bloom(column) {
                properties = properties
                    .set_column_bloom_filter_enabled(path.clone(), true)
                    .set_column_bloom_filter_max_ndv(path.clone(), self.row_group_rows as u64)
                    .set_column_bloom_filter_fpp(path, fpp);
            }
        }
        Plan { columns, properties: Arc::new(properties.build()) }
    }

    /// Whether the codec saves that share of these bytes.
    fn gains(&self, raw: &[u8], share: f64) -> bool {
        let packed = match self.codec {
            Codec::None => raw.len(),
            Codec::Lz4 => lz4_flex::block::compress(raw).len(),
            Codec::Zstd => zstd::bulk::compress(raw, 1).map_or(raw.len(), |p| p.len()),
        };
        (packed as f64) < raw.len() as f64 * (1.0 - share)
    }

    fn plan_column(&self, array: &ArrayRef) -> ColumnPlan {
        let rows = array.len() - array.null_count();
        let few = |distinct: usize, share: f64| rows > 0 && distinct as f64 <= rows as f64 * share;
        match array.data_type() {
            DataType::Utf8View | DataType::BinaryView => {
                let array = cast(array, &DataType::BinaryView).expect("views of strings are views of bytes");
                let values = array.as_binary_view();
                let mut seen = Distinct::default();
                // A dictionary of long values would leave the page before it pays.
                let mut bytes = 0;
                let mut raw = Vec::new();
                for value in values.iter().flatten() {
                    if seen.insert(twox_hash::XxHash3_64::oneshot(value)) {
                        bytes += value.len() + 4;
                    }
                    if raw.len() < CODEC_SAMPLE_BYTES {
                        raw.extend((value.len() as u32).to_le_bytes());
                        raw.extend_from_slice(value);
                    }
                }
                if few(seen.len(), DISTINCT_STRINGS) && bytes <= PAGE_BYTES {
                    return ColumnPlan::Dictionary;
                }
                ColumnPlan::Plain { codec: self.gains(&raw, CODEC_GAIN) }
            }
            DataType::Float32 | DataType::Float64 => {
                let values = array.to_data().buffers()[0].clone();
                let raw = &values[..values.len().min(CODEC_SAMPLE_BYTES)];
                ColumnPlan::Plain { codec: self.gains(raw, CODEC_GAIN_NUMBERS) }
            }
            DataType::Timestamp(..) | DataType::Time64(_) => ColumnPlan::Delta,
            t if is_integer(t) => {
                let Ok(values) = cast(array, &DataType::Int64) else { return ColumnPlan::Plain { codec: false } };
                let values: Vec<i64> = values.as_primitive::<Int64Type>().iter().flatten().collect();
                let mixed = values.iter().map(|v| (*v as u64).wrapping_mul(GOLDEN).rotate_left(32));
                if few(mixed.collect::<Distinct>().len(), DISTINCT_NUMBERS) {
                    return ColumnPlan::Dictionary;
                }
                let bytes = t.primitive_width().unwrap_or(8).max(4);
                let mut written = Vec::new();
                encode::put_delta(&mut written, values.iter().copied(), bytes == 4);
                match (written.len() as f64) < (values.len() * bytes) as f64 * (1.0 - DELTA_GAIN) {
                    true => ColumnPlan::Delta,
                    false => ColumnPlan::Plain { codec: false },
                }
            }
            _ => ColumnPlan::Plain { codec: false },
        }
    }
}

/// Numbers that are hashes already. How many there are is all that is asked: two values of one hash do not matter.
type Distinct = HashSet<u64, BuildHasherDefault<AsItIs>>;

/// An odd number whose product spreads small numbers over all bits (2^64 divided by the golden ratio).
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

#[derive(Debug, Default)]
struct AsItIs(u64);

impl Hasher for AsItIs {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        self.0 = twox_hash::XxHash3_64::oneshot(bytes);
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }
}

fn flag(schema: &TableSchema, name: &'static str) -> Result<bool> {
    match schema.property(name).map(str::to_ascii_lowercase).as_deref() {
        None | Some("false") => Ok(false),
        Some("true") => Ok(true),
        Some(found) => Err(SegmentError::Property { name, expected: "true or false".into(), found: found.into() }),
    }
}

pub(super) fn nested(t: &SqlType) -> bool {
    matches!(t, SqlType::Array(_) | SqlType::Map(..) | SqlType::Struct(_))
}

fn is_integer(t: &DataType) -> bool {
    t.is_integer() || matches!(t, DataType::Date32)
}

/// The column as objects hold it: with its id.
pub(super) fn file_field(column: &TableColumn) -> Field {
    let id = (PARQUET_FIELD_ID_META_KEY.to_string(), column.id.to_string());
    column.field().with_metadata([id].into())
}
