//! Tables, rows and objects for tests.

use std::sync::Arc;

use arrow_array::builder::{
    BinaryViewBuilder, BooleanBuilder, Date32Builder, Decimal128Builder, Decimal256Builder, FixedSizeBinaryBuilder,
    Float32Builder, Float64Builder, Int8Builder, Int16Builder, Int32Builder, Int64Builder, ListBuilder, MapBuilder,
    MapFieldNames, StringViewBuilder, Time64MicrosecondBuilder, TimestampMicrosecondBuilder, UInt64Builder,
};
use arrow_array::{ArrayRef, RecordBatch, StructArray};
use arrow_buffer::i256;
use arrow_ord::sort::{SortColumn, SortOptions, lexsort_to_indices};
use arrow_schema::DataType;
use arrow_select::take::take_record_batch;
use bytes::Bytes;
use dipper_base::types::SqlType;
use object_store::memory::InMemory;
use object_store::path::Path;
use object_store::{ObjectStore, ObjectStoreExt, PutPayload};
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use crate::chain::TxnId;
use crate::segment::*;
use crate::table::data::{DataObject, ObjectId, Tablet};
use crate::table::schema::{Model, TableColumn, TableSchema};

pub(crate) const TABLET: Tablet = Tablet { partition: 1, bucket: 0 };

/// Makes a table of columns `(name, type, nullable)`, whose first ones are its key.
pub(crate) fn table(
    columns: &[(&str, SqlType, bool)],
    keys: usize,
    model: Model,
    properties: &[(&str, &str)],
) -> Arc<TableSchema> {
    let columns = columns
        .iter()
        .enumerate()
        .map(|(i, (name, data_type, nullable))| TableColumn {
            hidden: name.starts_with("__DORIS"),
            ..TableColumn::new(10 + i as u32, *name, data_type.clone(), *nullable)
        })
        .collect::<Vec<_>>();
    Arc::new(TableSchema {
        version: 3,
        properties: properties.iter().map(|(k, v)| (k.to_string(), v.to_string())).collect(),
        ..TableSchema::new(model, columns, keys)
    })
}

/// Returns one column of each type.
pub(crate) fn all_types() -> Vec<(&'static str, SqlType, bool)> {
    use SqlType::*;
    vec![
        ("c_bool", Boolean, true),
        ("c_i8", TinyInt, true),
        ("c_i16", SmallInt, true),
        ("c_i32", Int, true),
        ("c_i64", BigInt, false),
        ("c_u64", UnsignedBigInt, true),
        ("c_large", LargeInt, true),
        ("c_f32", Float, true),
        ("c_f64", Double, true),
        ("c_dec9", Decimal(9, 2), true),
        ("c_dec18", Decimal(18, 4), true),
        ("c_dec38", Decimal(38, 10), true),
        ("c_dec60", Decimal(60, 5), true),
        ("c_char", Char(Some(20)), true),
        ("c_varchar", Varchar(None), true),
        ("c_string", String, false),
        ("c_json", Json, true),
        ("c_binary", Binary, true),
        ("c_bitmap", Bitmap, true),
        ("c_date", Date, true),
        ("c_datetime", DateTime(6), true),
        ("c_time", Time(3), true),
        ("c_ip4", Ipv4, true),
        ("c_ip6", Ipv6, true),
        ("c_array", Array(Box::new(String)), true),
        ("c_map", Map(Box::new(String), Box::new(Int)), true),
        ("c_struct", Struct(vec![("a".into(), Int, None), ("b".into(), String, None)]), true),
    ]
}

/// Returns random values with edge cases among them. With `wide` few values repeat.
pub(crate) fn column(t: &SqlType, rows: usize, nullable: bool, wide: bool, rng: &mut StdRng) -> ArrayRef {
    let null = if nullable { rng.random_range(0.0..0.4) } else { 0.0 };
    let null = if nullable && rng.random_bool(0.05) { 1.0 } else { null };
    let text = |rng: &mut StdRng| -> String {
        match rng.random_range(0..if wide { 10 } else { 30 }) {
            0 => String::new(),
            1 => "\0".into(),
            2 => "a\0b".into(),
            3 => "x".repeat(rng.random_range(0..200)),
            4 => format!("\u{7f}\u{10ffff}{}", rng.random_range(0..4)),
            5 => "\u{10ffff}".repeat(20),
            _ if wide => format!("https://example.com/{:08x}/{:08x}", rng.random::<u32>(), rng.random::<u32>()),
            _ => format!("value {}", rng.random_range(0..40)),
        }
    };
    macro_rules! build {
        ($builder:expr, |$rng:ident| $value:expr) => {{
            let mut b = $builder;
            for _ in 0..rows {
                if rng.random_bool(null) {
                    b.append_null();
                } else {
                    let $rng = &mut *rng;
                    b.append_value($value);
                }
            }
            Arc::new(b.finish()) as ArrayRef
        }};
    }
    macro_rules! int {
        ($builder:expr, $t:ty) => {
            build!($builder, |rng| match rng.random_range(0..12) {
                0 => <$t>::MIN,
                1 => <$t>::MAX,
                2 => 0,
                _ if wide => rng.random(),
                _ => rng.random_range(0..20),
            })
        };
    }
    match t {
        SqlType::Boolean => build!(BooleanBuilder::new(), |rng| rng.random()),
        SqlType::TinyInt => int!(Int8Builder::new(), i8),
        SqlType::SmallInt => int!(Int16Builder::new(), i16),
        SqlType::Int => int!(Int32Builder::new(), i32),
        SqlType::BigInt => int!(Int64Builder::new(), i64),
        SqlType::UnsignedBigInt => int!(UInt64Builder::new(), u64),
        SqlType::Float => build!(Float32Builder::new(), |rng| match rng.random_range(0..40) {
            0 => f32::NAN,
            1 => -0.0,
            2 => f32::INFINITY,
            3 => f32::MIN,
            _ => rng.random_range(-1000i32..1000) as f32 / 8.0,
        }),
        SqlType::Double => build!(Float64Builder::new(), |rng| match rng.random_range(0..40) {
            0 => f64::NAN,
            1 => -0.0,
            2 => f64::NEG_INFINITY,
            3 => f64::MAX,
            _ => rng.random_range(-100_000i32..100_000) as f64 / 16.0,
        }),
        SqlType::LargeInt => build!(Decimal256Builder::new().with_data_type(t.to_arrow()), |rng| {
            i256::from_i128(match rng.random_range(0..8) {
                0 => i128::MAX,
                1 => i128::MIN,
                _ => rng.random::<i64>() as i128 * rng.random_range(0..1_000_000),
            })
        }),
        SqlType::Decimal(p, _) if *p <= 38 => {
            let limit = 10i128.pow(u32::from(*p)) - 1;
            build!(Decimal128Builder::new().with_data_type(t.to_arrow()), |rng| match rng.random_range(0..8) {
                0 => limit,
                1 => -limit,
                _ => rng.random_range(-limit.min(100_000)..=limit.min(100_000)),
            })
        }
        SqlType::Decimal(..) => build!(Decimal256Builder::new().with_data_type(t.to_arrow()), |rng| {
            i256::from_i128(rng.random()).wrapping_mul(i256::from_i128(rng.random_range(-1000i64..1000) as i128))
        }),
        SqlType::Char(_) | SqlType::Varchar(_) | SqlType::String | SqlType::Json | SqlType::Variant => {
            build!(StringViewBuilder::new(), |rng| text(rng))
        }
        SqlType::Binary | SqlType::Hll | SqlType::Bitmap | SqlType::QuantileState | SqlType::AggState(_) => {
            build!(BinaryViewBuilder::new(), |rng| match rng.random_range(0..5) {
                0 => vec![0xff; rng.random_range(0..100)],
                _ => (0..rng.random_range(0..20)).map(|_| rng.random()).collect::<Vec<u8>>(),
            })
        }
        SqlType::Date => build!(Date32Builder::new(), |rng| rng.random_range(-800_000..2_900_000)),
        SqlType::DateTime(_) => build!(TimestampMicrosecondBuilder::new(), |rng| match rng.random_range(0..3) {
            0 => rng.random_range(-62_000_000_000i64..250_000_000_000) * 1_000_000,
            1 => rng.random_range(0i64..20_000) * 86_400_000_000,
            _ => rng.random_range(-62_000_000_000_000_000i64..250_000_000_000_000_000),
        }),
        SqlType::Time(_) => {
            build!(Time64MicrosecondBuilder::new(), |rng| rng.random_range(0i64..86_400_000_000) / 1000 * 1000)
        }
        SqlType::Ipv4 | SqlType::Ipv6 => {
            let DataType::FixedSizeBinary(width) = t.to_arrow() else { unreachable!("addresses are bytes") };
            let mut b = FixedSizeBinaryBuilder::new(width);
            for _ in 0..rows {
                if rng.random_bool(null) {
                    b.append_null();
                } else {
                    let bytes: Vec<u8> =
                        (0..width).map(|_| if wide { rng.random() } else { rng.random_range(0..2) }).collect();
                    b.append_value(bytes).unwrap();
                }
            }
            Arc::new(b.finish()) as ArrayRef
        }
        SqlType::Array(_) => {
            let mut b = ListBuilder::new(StringViewBuilder::new());
            for _ in 0..rows {
                if rng.random_bool(null) {
                    b.append_null();
                } else {
                    for _ in 0..rng.random_range(0..4) {
                        if rng.random_bool(0.2) {
                            b.values().append_null();
                        } else {
                            b.values().append_value(text(rng));
                        }
                    }
                    b.append(true);
                }
            }
            Arc::new(b.finish())
        }
        SqlType::Map(..) => {
            let names = MapFieldNames { entry: "entries".into(), key: "keys".into(), value: "values".into() };
            let mut b = MapBuilder::new(Some(names), StringViewBuilder::new(), Int32Builder::new());
            for _ in 0..rows {
                let here = !rng.random_bool(null);
                if here {
                    for _ in 0..rng.random_range(0..3) {
                        b.keys().append_value(text(rng));
                        b.values().append_option(rng.random_bool(0.8).then(|| rng.random()));
                    }
                }
                b.append(here).unwrap();
            }
            Arc::new(b.finish())
        }
        SqlType::Struct(fields) => {
            let DataType::Struct(arrow) = t.to_arrow() else { unreachable!() };
            let columns = fields.iter().map(|(_, t, _)| column(t, rows, true, wide, rng)).collect();
            let nulls = (0..rows).map(|_| !rng.random_bool(null)).collect::<Vec<_>>();
            Arc::new(StructArray::new(arrow, columns, Some(nulls.into())))
        }
    }
}

/// Returns random rows of a table, sorted by its key; with the UNIQUE model each key once.
pub(crate) fn rows(schema: &TableSchema, rows: usize, wide: bool, seed: u64) -> RecordBatch {
    let mut rng = StdRng::seed_from_u64(seed);
    let columns =
        schema.columns.iter().map(|c| column(&c.data_type, rows, c.nullable, wide, &mut rng)).collect::<Vec<_>>();
    sorted(schema, &RecordBatch::try_new(schema.arrow(), columns).unwrap())
}

pub(crate) fn sorted(schema: &TableSchema, batch: &RecordBatch) -> RecordBatch {
    if schema.keys == 0 {
        return batch.clone();
    }
    let options = Some(SortOptions { descending: false, nulls_first: true });
    let keys: Vec<_> =
        batch.columns()[..schema.keys].iter().map(|c| SortColumn { values: c.clone(), options }).collect();
    let order = lexsort_to_indices(&keys, None).unwrap();
    let batch = take_record_batch(batch, &order).unwrap();
    if schema.model != Model::Unique {
        return batch;
    }
    let keys = crate::key::KeyEncoder::for_table(schema).unwrap().encode(&batch.columns()[..schema.keys]).unwrap();
    let once: arrow_array::BooleanArray =
        (0..keys.len()).map(|i| Some(i == 0 || keys.get(i - 1) != keys.get(i))).collect();
    arrow_select::filter::filter_record_batch(&batch, &once).unwrap()
}

pub(crate) fn object_id(n: u32) -> ObjectId {
    ObjectId { txn: TxnId(77), index: n }
}

/// Writes segments into an object; returns its bytes and description.
pub(crate) fn object(options: &Arc<WriteOptions>, id: u32, segments: &[Vec<RecordBatch>]) -> (Vec<u8>, DataObject) {
    let mut builder = ObjectBuilder::new(options.clone(), object_id(id));
    let mut bytes = Vec::new();
    for batches in segments {
        let encoded = encode_segment(options, TABLET, batches).unwrap();
        builder.append(encoded).unwrap().iter().for_each(|b| bytes.extend_from_slice(b));
        assert_eq!(bytes.len() as u64, builder.bytes());
    }
    let (tail, object, _) = builder.finish().unwrap();
    tail.iter().for_each(|b| bytes.extend_from_slice(b));
    assert_eq!(bytes.len() as u64, object.bytes);
    (bytes, object)
}

pub(crate) struct Stored {
    pub store: Arc<dyn ObjectStore>,
    pub path: Path,
    pub cache: Arc<PageCache>,
}

impl Stored {
    pub async fn new(bytes: Vec<u8>) -> Self {
        let store: Arc<dyn ObjectStore> = Arc::new(InMemory::new());
        let path = Path::from("t/1/d/x.parquet");
        store.put(&path, PutPayload::from(Bytes::from(bytes))).await.unwrap();
        Self { store, path, cache: PageCache::new(64 << 20) }
    }

    pub async fn open(&self, object: &DataObject) -> Result<Arc<ObjectReader>> {
        ObjectReader::open(&self.store, &self.path, object, &self.cache).await
    }
}

/// Reads all rows of an object.
pub(crate) async fn read_all(reader: &ObjectReader, scan: &Scan<'_>) -> Result<RecordBatch> {
    let mut batches = Vec::new();
    for group in 0..reader.num_groups() {
        for batch in reader.scan_group(group, scan, None).await? {
            batches.push(batch?);
        }
    }
    Ok(arrow_select::concat::concat_batches(&scan.output(), &batches)?)
}
