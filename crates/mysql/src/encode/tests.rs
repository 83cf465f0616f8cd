use std::sync::Arc;

use arrow_array::builder::{
    FixedSizeListBuilder, Int32Builder, ListBuilder, MapBuilder, StringBuilder, StringDictionaryBuilder,
};
use arrow_array::*;
use arrow_buffer::{IntervalDayTime, IntervalMonthDayNano, i256};
use arrow_schema::{Field, Schema};
use mysql_common::io::ParseBuf;
use mysql_common::packets::Column as PeerColumn;
use mysql_common::proto::{Binary as PeerBinary, MyDeserialize, Text as PeerText};
use mysql_common::row::{Row, RowDeserializer};
use mysql_common::value::{ServerSide, Value};
use proptest::prelude::*;

use super::*;

fn batch(arrays: Vec<ArrayRef>) -> RecordBatch {
    let fields = arrays.iter().enumerate();
    let fields = fields.map(|(index, array)| Field::new(format!("c{index}"), array.data_type().clone(), true));
    RecordBatch::try_new(Arc::new(Schema::new(fields.collect::<Vec<_>>())), arrays).unwrap()
}

fn definitions(batch: &RecordBatch) -> Vec<ColumnDef> {
    batch.schema().fields().iter().map(|field| ColumnDef::from_field(field)).collect()
}

/// The definitions as mysql_common reads them from our packets.
fn peer_columns(columns: &[ColumnDef]) -> Arc<[PeerColumn]> {
    let read = |column: &ColumnDef| {
        let mut out = Vec::new();
        crate::results::column(&mut out, column);
        let mut buffer = ParseBuf(&out);
        let read = PeerColumn::deserialize((), &mut buffer).unwrap();
        assert!(buffer.is_empty());
        assert_eq!(read.name_str(), column.name);
        assert_eq!(read.column_type() as u8, column.ty as u8);
        assert_eq!((read.flags().bits(), read.character_set()), (column.flags, column.collation));
        assert_eq!((read.column_length(), read.decimals()), (column.length, column.decimals));
        read
    };
    columns.iter().map(read).collect()
}

fn values(row: Row) -> Vec<Value> {
    row.unwrap()
}

/// Every row in both protocols, as mysql_common reads them.
fn rows(batch: &RecordBatch, columns: &[ColumnDef]) -> Vec<(Vec<Value>, Vec<Value>)> {
    let peers = peer_columns(columns);
    let encoder = RowEncoder::try_new(columns, batch).unwrap();
    let row = |row| {
        let mut out = Vec::new();
        encoder.text_row(row, &mut out);
        let mut buffer = ParseBuf(&out);
        let text = RowDeserializer::<ServerSide, PeerText>::deserialize(Arc::clone(&peers), &mut buffer).unwrap();
        assert!(buffer.is_empty());
        let mut out = Vec::new();
        encoder.binary_row(row, &mut out).unwrap();
        let mut buffer = ParseBuf(&out);
        let binary = RowDeserializer::<ServerSide, PeerBinary>::deserialize(Arc::clone(&peers), &mut buffer).unwrap();
        assert!(buffer.is_empty());
        (values(text.into_inner()), values(binary.into_inner()))
    };
    (0..encoder.rows()).map(row).collect()
}

/// The single row of a batch with one column, in both protocols.
fn one(array: impl Array + 'static) -> (Value, Value) {
    let batch = batch(vec![Arc::new(array)]);
    let (mut text, mut binary) = rows(&batch, &definitions(&batch)).swap_remove(0);
    (text.swap_remove(0), binary.swap_remove(0))
}

fn bytes(text: &str) -> Value {
    Value::Bytes(text.as_bytes().to_vec())
}

/// Both protocols send the same text.
#[track_caller]
fn assert_text(array: impl Array + 'static, expected: &str) {
    assert_eq!(one(array), (bytes(expected), bytes(expected)));
}

#[test]
fn numbers() {
    assert_eq!(one(Int8Array::from(vec![-128])), (bytes("-128"), Value::Int(-128)));
    assert_eq!(one(UInt8Array::from(vec![255])), (bytes("255"), Value::Int(255)));
    assert_eq!(one(Int16Array::from(vec![i16::MIN])), (bytes("-32768"), Value::Int(-32768)));
    assert_eq!(one(Int32Array::from(vec![i32::MIN])), (bytes("-2147483648"), Value::Int(i64::from(i32::MIN))));
    assert_eq!(one(Int64Array::from(vec![i64::MIN])), (bytes("-9223372036854775808"), Value::Int(i64::MIN)));
    assert_eq!(one(UInt64Array::from(vec![u64::MAX])), (bytes("18446744073709551615"), Value::UInt(u64::MAX)));
    assert_eq!(one(Float32Array::from(vec![0.1])), (bytes("0.1"), Value::Float(0.1)));
    assert_eq!(one(Float64Array::from(vec![1e15])), (bytes("1000000000000000"), Value::Double(1e15)));
    assert_eq!(one(BooleanArray::from(vec![true])), (bytes("1"), Value::Int(1)));
    assert_text(Decimal128Array::from(vec![-125]).with_precision_and_scale(10, 2).unwrap(), "-1.25");
    assert_text(Decimal32Array::from(vec![125]).with_precision_and_scale(9, 1).unwrap(), "12.5");
    assert_text(Decimal64Array::from(vec![125]).with_precision_and_scale(18, 3).unwrap(), "0.125");
    let largeint = Decimal256Array::from(vec![i256::from_i128(i128::MIN)]).with_precision_and_scale(39, 0).unwrap();
    assert_text(largeint, "-170141183460469231731687303715884105728");
}

#[test]
fn times() {
    let date = Value::Date(2020, 1, 31, 0, 0, 0, 0);
    assert_eq!(one(Date32Array::from(vec![18_292])), (bytes("2020-01-31"), date.clone()));
    assert_eq!(one(Date64Array::from(vec![18_292 * 86_400_000 + 5])), (bytes("2020-01-31"), date.clone()));
    let second = 18_292 * 86_400 + 3_723;
    let time = |micros| Value::Date(2020, 1, 31, 1, 2, 3, micros);
    assert_eq!(one(TimestampSecondArray::from(vec![second])), (bytes("2020-01-31 01:02:03"), time(0)));
    assert_eq!(
        one(TimestampMicrosecondArray::from(vec![second * 1_000_000 + 500_000])),
        (bytes("2020-01-31 01:02:03.500000"), time(500_000))
    );
    assert_eq!(
        one(TimestampNanosecondArray::from(vec![second * 1_000_000_000 + 1_999]).with_timezone("+08:00")),
        (bytes("2020-01-31 09:02:03.000001"), Value::Date(2020, 1, 31, 9, 2, 3, 1))
    );
    let midnight = TimestampMillisecondArray::from(vec![18_292 * 86_400_000]).with_timezone("UTC");
    assert_eq!(one(midnight), (bytes("2020-01-31 00:00:00.000"), date));
    let clock = Value::Time(false, 0, 23, 59, 59, 999_000);
    assert_eq!(one(Time32MillisecondArray::from(vec![86_399_999])), (bytes("23:59:59.999"), clock));
    assert_eq!(
        one(Time64NanosecondArray::from(vec![0])),
        (bytes("00:00:00.000000"), Value::Time(false, 0, 0, 0, 0, 0))
    );
    // 100:00:00.5 before zero.
    let before = Value::Time(true, 4, 4, 0, 0, 500_000);
    assert_eq!(one(Time64MicrosecondArray::from(vec![-360_000_500_000])), (bytes("-100:00:00.500000"), before));
    let longest = Value::Time(false, 34, 22, 59, 59, 0);
    assert_eq!(one(Time64MicrosecondArray::from(vec![3_020_399_000_000])), (bytes("838:59:59.000000"), longest));
    assert_text(DurationMillisecondArray::from(vec![-3_600_001]), "-01:00:00.001000");
    assert_text(IntervalYearMonthArray::from(vec![13]), "1 year 1 mon");
    assert_text(IntervalDayTimeArray::from(vec![IntervalDayTime::new(2, 500)]), "2 days 00:00:00.500000");
    assert_text(IntervalMonthDayNanoArray::from(vec![IntervalMonthDayNano::new(0, 1, 0)]), "1 day");
}

#[test]
fn the_fraction_is_cut_to_the_definition_in_both_protocols() {
    let batch = batch(vec![Arc::new(TimestampMicrosecondArray::from(vec![1_999_999]))]);
    for (digits, text, micros) in [(0, "", 0), (1, ".9", 900_000), (4, ".9999", 999_900), (6, ".999999", 999_999)] {
        let columns = [definitions(&batch)[0].clone().fraction(digits)];
        let expected =
            (vec![bytes(&format!("1970-01-01 00:00:01{text}"))], vec![Value::Date(1970, 1, 1, 0, 0, 1, micros)]);
        assert_eq!(rows(&batch, &columns), [expected]);
    }
}

#[test]
fn strings_bytes_and_nulls() {
    let long = "é".repeat(40_000);
    assert_text(StringArray::from(vec![&*long]), &long);
    assert_text(LargeStringArray::from(vec!["x"]), "x");
    assert_text(StringViewArray::from(vec!["longer than twelve bytes"]), "longer than twelve bytes");
    let raw = (Value::Bytes(vec![0, 255]), Value::Bytes(vec![0, 255]));
    assert_eq!(one(BinaryArray::from(vec![&[0u8, 255][..]])), raw);
    assert_eq!(one(BinaryViewArray::from(vec![&[0u8, 255][..]])), raw);
    assert_eq!(one(FixedSizeBinaryArray::try_from_iter([[0u8, 255]].into_iter()).unwrap()), raw);
    assert_eq!(one(NullArray::new(1)), (Value::NULL, Value::NULL));
    assert_eq!(one(StringArray::from(vec![None::<&str>])), (Value::NULL, Value::NULL));
}

#[test]
fn dictionaries_are_sent_as_their_values() {
    let mut builder = StringDictionaryBuilder::<Int8Type>::new();
    builder.append("a").unwrap();
    builder.append_null();
    builder.append("b").unwrap();
    let text: ArrayRef = Arc::new(builder.finish());
    let numbers = DictionaryArray::new(
        Int32Array::from(vec![1, 0, 2]),
        Arc::new(Int64Array::from(vec![Some(7), None, Some(-9)])),
    );
    let empty = DictionaryArray::new(Int32Array::from(vec![None; 3]), Arc::new(Int64Array::from(Vec::<i64>::new())));
    let stamps = DictionaryArray::new(Int32Array::from(vec![0; 3]), Arc::new(TimestampSecondArray::from(vec![0])));
    let batch = batch(vec![text, Arc::new(numbers), Arc::new(empty), Arc::new(stamps)]);
    let rows = rows(&batch, &definitions(&batch));
    let epoch = Value::Date(1970, 1, 1, 0, 0, 0, 0);
    assert_eq!(rows[0].0, [bytes("a"), Value::NULL, Value::NULL, bytes("1970-01-01 00:00:00")]);
    assert_eq!(rows[1].1, [Value::NULL, Value::Int(7), Value::NULL, epoch.clone()]);
    assert_eq!(rows[2].1, [bytes("b"), Value::Int(-9), Value::NULL, epoch]);
}

#[test]
fn nested_values_look_as_in_doris() {
    let mut list = ListBuilder::new(StringBuilder::new());
    list.append_value([Some("a"), None, Some("q\"")]);
    list.append_value(Vec::<Option<&str>>::new());
    list.append_null();
    let list = list.finish();
    assert_text(list.slice(0, 1), "[\"a\", null, \"q\\\"\"]");
    assert_text(list.slice(1, 1), "[]");
    assert_eq!(one(list.slice(2, 1)), (Value::NULL, Value::NULL));
    let mut map = MapBuilder::new(None, StringBuilder::new(), Int32Builder::new());
    map.keys().append_value("skipped");
    map.values().append_value(0);
    map.append(true).unwrap();
    map.keys().append_value("k");
    map.values().append_value(1);
    map.keys().append_value("l");
    map.values().append_null();
    map.append(true).unwrap();
    assert_text(map.finish().slice(1, 1), "{\"k\":1, \"l\":null}");
    let fields = vec![
        (Arc::new(Field::new("day", DataType::Date32, true)), Arc::new(Date32Array::from(vec![0])) as ArrayRef),
        (Arc::new(Field::new("on", DataType::Boolean, true)), Arc::new(BooleanArray::from(vec![false]))),
        (Arc::new(Field::new("raw", DataType::Binary, true)), Arc::new(BinaryArray::from(vec![&[0xabu8][..]]))),
        (Arc::new(Field::new("deep", list.data_type().clone(), true)), Arc::new(list.slice(0, 1))),
    ];
    let text = "{\"day\":\"1970-01-01\", \"on\":0, \"raw\":\"0xAB\", \"deep\":[\"a\", null, \"q\\\"\"]}";
    assert_text(StructArray::from(fields), text);
    let mut fixed = FixedSizeListBuilder::new(Int32Builder::new(), 2);
    for value in [1, 2, 3, 4] {
        fixed.values().append_value(value);
        if value % 2 == 0 {
            fixed.append(true);
        }
    }
    assert_text(fixed.finish().slice(1, 1), "[3, 4]");
}

#[test]
fn definitions_may_be_wider_than_the_values() {
    let batch = batch(vec![Arc::new(Int32Array::from(vec![-5])), Arc::new(UInt8Array::from(vec![200]))]);
    let wide = [ColumnDef::new("a", &DataType::Int64), ColumnDef::new("b", &DataType::UInt64)];
    assert_eq!(rows(&batch, &wide)[0].1, [Value::Int(-5), Value::Int(200)]);
    let text = [ColumnDef::new("a", &DataType::Utf8), ColumnDef::new("b", &DataType::Utf8)];
    assert_eq!(rows(&batch, &text)[0].1, [bytes("-5"), bytes("200")]);
    let narrow = [ColumnDef::new("a", &DataType::Int16), ColumnDef::new("b", &DataType::UInt8)];
    let error = RowEncoder::try_new(&narrow, &batch).err().unwrap();
    assert_eq!(error.to_string(), "column \"a\" is defined as Short but holds Int32");
    let error = RowEncoder::try_new(&narrow[..1], &batch).err().unwrap();
    assert_eq!(error, EncodeError::Columns { expected: 1, found: 2 });
}

#[test]
fn what_cannot_be_sent_is_an_error() {
    let zoned = batch(vec![Arc::new(TimestampSecondArray::from(vec![0]).with_timezone("Europe/Berlin"))]);
    let error = RowEncoder::try_new(&definitions(&zoned), &zoned).err().unwrap();
    assert!(matches!(error, EncodeError::Type { column, .. } if column == "c0"));
    let late = batch(vec![Arc::new(Date32Array::from(vec![3_000_000]))]);
    let columns = definitions(&late);
    let encoder = RowEncoder::try_new(&columns, &late).unwrap();
    assert_eq!(encoder.binary_row(0, &mut Vec::new()), Err(EncodeError::Year { year: 10_183 }));
    let mut out = Vec::new();
    encoder.text_row(0, &mut out);
    assert_eq!(out, b"\x0b10183-09-21");
}

#[test]
fn single_values_are_written_without_a_length() {
    let array: ArrayRef = Arc::new(StringArray::from(vec![Some("text"), None]));
    let mut out = Vec::new();
    write_text(&array, 0, &mut out).unwrap();
    write_text(&array, 1, &mut out).unwrap();
    assert_eq!(out, b"text");
}

/// Text of a value from the binary protocol, as the text protocol has it.
fn as_text(value: &Value, micros: bool) -> Value {
    match value {
        Value::Int(int) => bytes(&int.to_string()),
        Value::UInt(int) => bytes(&int.to_string()),
        Value::Date(year, month, day, hour, minute, second, micro) if micros => {
            bytes(&format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}.{micro:06}"))
        }
        Value::Date(year, month, day, ..) => bytes(&format!("{year:04}-{month:02}-{day:02}")),
        Value::Time(_, _, hour, minute, second, micro) => {
            bytes(&format!("{hour:02}:{minute:02}:{second:02}.{micro:06}"))
        }
        other => other.clone(),
    }
}

proptest! {
    #[test]
    fn both_protocols_say_the_same(seeds in proptest::collection::vec(proptest::option::of(any::<i64>()), 1..40), skip in 0usize..5) {
        let seed = |map: fn(i64) -> i64| seeds.iter().map(move |seed| seed.map(map)).collect::<Vec<_>>();
        let plain = seed(|seed| seed);
        // Years 1 to 9999.
        let days = seeds.iter().map(|seed| seed.map(|seed| (seed.rem_euclid(3_650_000) - 719_000) as i32));
        let stamps = seed(|seed| seed.rem_euclid(3_650_000 * 86_400_000_000) - 719_000 * 86_400_000_000);
        let strings = plain.iter().map(|seed| seed.map(|seed| "ä".repeat(seed.rem_euclid(300) as usize))).collect::<Vec<_>>();
        let arrays: Vec<ArrayRef> = vec![
            Arc::new(plain.iter().map(|seed| seed.map(|seed| seed as i8)).collect::<Int8Array>()),
            Arc::new(plain.iter().map(|seed| seed.map(|seed| seed as u16)).collect::<UInt16Array>()),
            Arc::new(plain.iter().map(|seed| seed.map(|seed| seed as i32)).collect::<Int32Array>()),
            Arc::new(Int64Array::from(plain.clone())),
            Arc::new(plain.iter().map(|seed| seed.map(|seed| seed as u64)).collect::<UInt64Array>()),
            Arc::new(days.collect::<Date32Array>()),
            Arc::new(TimestampMicrosecondArray::from(stamps.clone())),
            Arc::new(Time64MicrosecondArray::from(seed(|seed| seed.rem_euclid(86_400_000_000)))),
            Arc::new(StringArray::from(strings.clone())),
            Arc::new(StringViewArray::from(strings)),
            Arc::new(plain.iter().map(|seed| seed.map(i128::from)).collect::<Decimal128Array>().with_precision_and_scale(38, 4).unwrap()),
        ];
        let skip = skip.min(seeds.len() - 1);
        let arrays = arrays.into_iter().map(|array| array.slice(skip, array.len() - skip)).collect();
        let batch = batch(arrays);
        let rows = rows(&batch, &definitions(&batch));
        for ((text, binary), seed) in rows.iter().zip(&seeds[skip..]) {
            for (index, (text, binary)) in text.iter().zip(binary).enumerate() {
                prop_assert_eq!(seed.is_none(), *text == Value::NULL);
                prop_assert_eq!(text, &as_text(binary, index == 6));
            }
            if let Some(seed) = seed {
                prop_assert_eq!(&text[3], &bytes(&seed.to_string()));
                let micros = seed.rem_euclid(86_400_000_000);
                let second = (micros / 1_000_000) as u32;
                let clock = Value::Time(false, 0, (second / 3600) as u8, (second / 60 % 60) as u8, (second % 60) as u8, (micros % 1_000_000) as u32);
                prop_assert_eq!(&binary[7], &clock);
            }
        }
    }
}
