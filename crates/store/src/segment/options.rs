//! Options of writing segments: the table's properties, and encodings chosen by a sample of its rows.

use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, OnceLock};

use arrow_array::RecordBatch;
use arrow_schema::{Field, Schema, SchemaRef};
use arrow_select::concat::concat_batches;
use dipper_base::types::SqlType;
use parquet::arrow::{ArrowSchemaConverter, PARQUET_FIELD_ID_META_KEY};
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::properties::{EnabledStatistics, WriterProperties, WriterPropertiesPtr};
use parquet::schema::types::SchemaDescPtr;

use super::{Result, SegmentError, encode};
use crate::key::KeyEncoder;
use crate::table::schema::{ColumnId, Model, TableColumn, TableSchema};

/// Codec of the columns that it makes smaller by enough.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Codec {
    /// ZSTD, level 1.
    #[default]
    Zstd,
    /// LZ4.
    Lz4,
    /// No codec.
    None,
}

/// Rows of the sample by which the encodings of columns are chosen.
const SAMPLE_ROWS: usize = 16 * 1024;
/// Stretches of neighbouring rows that the sample is made of: runs and repetitions appear in them as they do on pages.
const SAMPLE_STRETCHES: usize = 16;
/// Least rows of a segment whose encodings are used for its whole load.
const SAMPLE_ROWS_MIN: usize = 4096;

pub(super) const PAGE_ROWS: usize = 20_000;
pub(super) const PAGE_BYTES: usize = 1024 * 1024;
/// Statistics of strings are cut after this number of bytes.
pub(super) const STATISTICS_BYTES: usize = 64;

/// Encoding of a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ColumnPlan {
    /// Codes of distinct values. A chunk with too many distinct values is written plain, or, if they are strings, as
    /// `Lengths`.
    Dictionary {
        codec: bool,
    },
    /// Numbers as differences to the previous one.
    Delta,
    /// Strings after the lengths of all strings of the page; the lengths are written as differences.
    Lengths {
        codec: bool,
    },
    Plain {
        codec: bool,
    },
}

/// The encodings chosen for the rows of a load.
#[derive(Debug)]
pub(super) struct Plan {
    pub columns: Vec<ColumnPlan>,
    /// Properties for the columns that `ArrowColumnWriter` writes.
    pub properties: WriterPropertiesPtr,
}

/// Options for writing segments of a table. One value serves a whole load: the first segment with enough rows decides
/// the encodings of all that follow.
#[derive(Debug)]
pub struct WriteOptions {
    pub(super) schema: Arc<TableSchema>,
    pub(super) arrow: SchemaRef,
    pub(super) parquet: SchemaDescPtr,
    /// Columns that `ArrowColumnWriter` writes: their positions, their fields with field ids, and the Parquet schema of
    /// these columns alone.
    pub(super) others: (Vec<usize>, SchemaRef, SchemaDescPtr),
    /// Bytes of the largest row group so far, used to reserve memory for the next one.
    pub(super) group_bytes: AtomicUsize,
    pub(super) keys: KeyEncoder,
    /// Whether segments have a key index.
    pub(super) key_index: bool,
    /// Positions of the columns that the row store holds; empty without a row store.
    pub(super) row_store: Vec<usize>,
    pub(super) codec: Codec,
    /// Rows of a row group; the last one of a segment may have an eighth more.
    pub row_group_rows: usize,
    pub(super) plan: OnceLock<Arc<Plan>>,
    /// Properties for the columns that `ArrowColumnWriter` writes.
    properties: OnceLock<WriterPropertiesPtr>,
    bloom: Vec<ColumnId>,
    bloom_fpp: f64,
}

impl WriteOptions {
    /// Makes options for tables with this schema. Reads its properties `compression`, `store_row_column`,
    /// `row_store_columns`, `bloom_filter_columns`, `bloom_filter_fpp`, and its indexes of kind `bloom_filter`.
    ///
    /// # Errors
    /// [`SegmentError::Property`] for an invalid value, [`SegmentError::Key`] for a key column whose type cannot be a
    /// key.
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
            // The key and the hidden columns are always among them, because a look-up by key needs them.
            row_store = (0..schema.columns.len())
                .filter(|i| {
                    let c = &schema.columns[*i];
                    (whole || *i < schema.keys || c.hidden || row_store.contains(i)) && !nested(&c.data_type)
                })
                .collect();
        }
        let mut bloom: Vec<_> = named("bloom_filter_columns")?.into_iter().map(|i| schema.columns[i].id).collect();
        bloom.extend(schema.indexes.iter().filter(|i| i.acts()).flat_map(|i| &i.columns));
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
            properties: OnceLock::new(),
            bloom,
            bloom_fpp,
            arrow,
            parquet,
            others: (others, Arc::new(other_arrow), other_parquet),
            group_bytes: AtomicUsize::new(0),
            schema,
        })
    }

    /// Returns the table's schema.
    pub fn schema(&self) -> &Arc<TableSchema> {
        &self.schema
    }

    /// Returns the codec of columns that shrink by it.
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

    /// Returns the rate of false positives of a column's Bloom filters, if it has any.
    pub(super) fn bloom(&self, column: usize) -> Option<f64> {
        self.bloom.contains(&self.schema.columns[column].id).then_some(self.bloom_fpp)
    }

    /// Returns the positions of the columns that the row store holds, hidden ones too; empty without a row store.
    pub fn row_store_columns(&self) -> &[usize] {
        &self.row_store
    }

    /// Returns the plan of the load, or one for these rows alone as long as no segment had enough rows to decide for
    /// all.
    pub(super) fn plan(&self, batches: &[RecordBatch]) -> Result<Arc<Plan>> {
        if let Some(plan) = self.plan.get() {
            return Ok(plan.clone());
        }
        let rows: usize = batches.iter().map(RecordBatch::num_rows).sum();
        assert!(rows > 0, "a plan is made for rows");
        let sample = concat_batches(batches[0].schema_ref(), &sample(batches, rows))?;
        Ok(match rows >= SAMPLE_ROWS_MIN {
            // Other threads that arrive meanwhile wait for the plan, because it is theirs too.
            true => self.plan.get_or_init(|| Arc::new(self.make_plan(&sample, rows))).clone(),
            false => Arc::new(self.make_plan(&sample, rows)),
        })
    }

    /// Chooses encodings by a sample of `rows` rows.
    fn make_plan(&self, sample: &RecordBatch, rows: usize) -> Plan {
        let columns = sample.columns().iter().map(|array| encode::choose(array, rows, self.codec)).collect();
        Plan { columns, properties: self.properties.get_or_init(|| self.make_properties()).clone() }
    }

    fn make_properties(&self) -> WriterPropertiesPtr {
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
                // Items of lists and maps: repeated values are likely, and the writer gives up a dictionary by itself.
                properties = properties
                    .set_column_dictionary_enabled(path.clone(), true)
                    .set_column_compression(path.clone(), self.compression());
            }
            if let Some(fpp) = self.bloom(column) {
                properties = properties
                    .set_column_bloom_filter_enabled(path.clone(), true)
                    .set_column_bloom_filter_max_ndv(path.clone(), self.row_group_rows as u64)
                    .set_column_bloom_filter_fpp(path, fpp);
            }
        }
        Arc::new(properties.build())
    }
}

/// Returns stretches from all over `rows` rows. The first rows of a sorted run alone are more alike than the rest.
fn sample(batches: &[RecordBatch], rows: usize) -> Vec<RecordBatch> {
    if rows <= SAMPLE_ROWS {
        return batches.to_vec();
    }
    let mut found = Vec::new();
    for stretch in 0..SAMPLE_STRETCHES {
        let mut from = rows / SAMPLE_STRETCHES * stretch;
        let mut left = SAMPLE_ROWS / SAMPLE_STRETCHES;
        for batch in batches {
            let here = batch.num_rows().saturating_sub(from).min(left);
            if here > 0 {
                found.push(batch.slice(from, here));
            }
            left -= here;
            from = from.saturating_sub(batch.num_rows());
        }
    }
    found
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

/// Returns the column as objects hold it: with its id as field id.
pub(super) fn file_field(column: &TableColumn) -> Field {
    let id = (PARQUET_FIELD_ID_META_KEY.to_string(), column.id.to_string());
    column.field().with_metadata([id].into())
}
