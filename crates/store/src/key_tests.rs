use std::sync::Arc;

use arrow_array::FixedSizeBinaryArray;
use arrow_ord::sort::{SortColumn, SortOptions, lexsort_to_indices};
use arrow_select::take::take;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::*;
use crate::segment::tests::make::column;

fn types() -> Vec<SqlType> {
    use SqlType::*;
    vec![
        Boolean,
        TinyInt,
        SmallInt,
        Int,
        BigInt,
        UnsignedBigInt,
        LargeInt,
        Decimal(9, 2),
        Decimal(38, 10),
        Decimal(60, 5),
        Date,
        DateTime(6),
        Time(0),
        Char(Some(3)),
        Varchar(None),
        String,
    ]
}

/// Returns a value of an array, for keys of single rows.
fn value<'a>(t: &SqlType, a: &'a ArrayRef, row: usize) -> KeyValue<'a> {
    if a.is_null(row) {
        return KeyValue::Null;
    }
    match t {
        SqlType::Boolean => KeyValue::Bool(a.as_boolean().value(row)),
        SqlType::TinyInt => KeyValue::Int(a.as_primitive::<Int8Type>().value(row).into()),
        SqlType::SmallInt => KeyValue::Int(a.as_primitive::<Int16Type>().value(row).into()),
        SqlType::Int => KeyValue::Int(a.as_primitive::<Int32Type>().value(row).into()),
        SqlType::BigInt => KeyValue::Int(a.as_primitive::<Int64Type>().value(row)),
        SqlType::UnsignedBigInt => KeyValue::UInt(a.as_primitive::<UInt64Type>().value(row)),
        SqlType::Date => KeyValue::Int(a.as_primitive::<Date32Type>().value(row).into()),
        SqlType::DateTime(_) => KeyValue::Int(a.as_primitive::<TimestampMicrosecondType>().value(row)),
        SqlType::Time(_) => KeyValue::Int(a.as_primitive::<Time64MicrosecondType>().value(row)),
        SqlType::LargeInt => KeyValue::Decimal(a.as_primitive::<Decimal256Type>().value(row).as_i128()),
        SqlType::Decimal(p, _) if *p <= 38 => KeyValue::Decimal(a.as_primitive::<Decimal128Type>().value(row)),
        SqlType::Decimal(..) => KeyValue::Decimal256(a.as_primitive::<Decimal256Type>().value(row)),
        _ => KeyValue::Str(a.as_string_view().value(row)),
    }
}

#[test]
fn bytes_sort_like_values() {
    let mut rng = StdRng::seed_from_u64(1);
    let all = types();
    let options = Some(SortOptions { descending: false, nulls_first: true });
    for round in 0..200 {
        let columns = if round < all.len() { 1 } else { rng.random_range(1..4) };
        let chosen: Vec<SqlType> = (0..columns)
            .map(|i| {
                all[if round < all.len() { round } else { (round + i * 7 + rng.random_range(0..9)) % all.len() }]
                    .clone()
            })
            .collect();
        let rows = rng.random_range(1..300);
        let wide = rng.random();
        let arrays: Vec<ArrayRef> = chosen.iter().map(|t| column(t, rows, true, wide, &mut rng)).collect();
        let encoder = KeyEncoder::try_new(&chosen).unwrap();
        let keys = encoder.encode(&arrays).unwrap();
        assert_eq!(keys.len(), rows);
        let sort: Vec<_> = arrays.iter().map(|a| SortColumn { values: a.clone(), options }).collect();
        let order = lexsort_to_indices(&sort, None).unwrap();
        let sorted: Vec<_> = arrays.iter().map(|a| take(a, &order, None).unwrap()).collect();
        let keys_sorted = encoder.encode(&sorted).unwrap();
        for i in 1..rows {
            let equal = (0..columns).all(|c| sorted[c].slice(i - 1, 1) == sorted[c].slice(i, 1));
            let order = keys_sorted.get(i - 1).cmp(keys_sorted.get(i));
            assert_eq!(order.is_eq(), equal, "{chosen:?}");
            assert!(order.is_le(), "{chosen:?} at {i}");
        }
        for row in 0..rows {
            let values: Vec<_> = chosen.iter().zip(&arrays).map(|(t, a)| value(t, a, row)).collect();
            let mut one = Vec::new();
            encoder.encode_row(&values, &mut one).unwrap();
            assert_eq!(one, keys.get(row), "{chosen:?}");
            assert_eq!(encoder.prefix_len(&one, columns), Ok(one.len()));
            for cut in 0..one.len() {
                // An escape cut in two looks like the end of a string.
                assert_ne!(encoder.prefix_len(&one[..cut], columns), Ok(one.len()));
            }
        }
    }
}

#[test]
fn bytes_are_as_documented() {
    let encoder = KeyEncoder::try_new(&[SqlType::Int, SqlType::Varchar(Some(9)), SqlType::Date]).unwrap();
    let mut key = Vec::new();
    encoder.encode_row(&[KeyValue::Int(1), KeyValue::Str("a\0"), KeyValue::Null], &mut key).unwrap();
    assert_eq!(key, b"\x01\x80\0\0\0\0\0\0\x01\x01a\0\xff\0\0");
    // Widening a column keeps its keys.
    let wide = KeyEncoder::try_new(&[SqlType::BigInt, SqlType::String, SqlType::Date]).unwrap();
    let mut same = Vec::new();
    wide.encode_row(&[KeyValue::Int(1), KeyValue::Str("a\0"), KeyValue::Null], &mut same).unwrap();
    assert_eq!(key, same);
}

#[test]
fn other_types_and_values_are_refused() {
    for t in [SqlType::Double, SqlType::Json, SqlType::Array(Box::new(SqlType::Int)), SqlType::Hll] {
        assert_eq!(KeyEncoder::try_new([&t]).unwrap_err(), KeyError::Type(t));
    }
    let encoder = KeyEncoder::try_new(&[SqlType::Int]).unwrap();
    let mut out = Vec::new();
    assert!(matches!(encoder.encode_row(&[KeyValue::Str("1")], &mut out), Err(KeyError::Mismatch { .. })));
    assert!(matches!(encoder.encode_row(&[], &mut out), Err(KeyError::Columns { .. })));
    let long: ArrayRef = Arc::new(arrow_array::Int64Array::from(vec![1]));
    assert!(matches!(encoder.encode(&[long]), Err(KeyError::Mismatch { .. })));
    let large = KeyEncoder::try_new(&[SqlType::LargeInt]).unwrap();
    let beyond = arrow_array::Decimal256Array::from(vec![i256::from_i128(i128::MAX).wrapping_add(i256::ONE)]);
    let beyond: ArrayRef = Arc::new(beyond.with_precision_and_scale(39, 0).unwrap());
    assert!(matches!(large.encode(&[beyond]), Err(KeyError::LargeInt { .. })));
}

#[test]
fn addresses_are_their_bytes() {
    let keys = KeyEncoder::try_new(&[SqlType::Ipv4, SqlType::Ipv6]).unwrap();
    let v4 = [Some([9, 1, 1, 1]), None, Some([10, 0, 0, 1])];
    let v6 = [None, Some([7; 16]), Some([0; 16])];
    let columns: Vec<ArrayRef> = vec![
        Arc::new(FixedSizeBinaryArray::try_from_sparse_iter_with_size(v4.into_iter(), 4).unwrap()),
        Arc::new(FixedSizeBinaryArray::try_from_sparse_iter_with_size(v6.into_iter(), 16).unwrap()),
    ];
    let encoded = keys.encode(&columns).unwrap();
    assert_eq!(encoded.get(0), [1, 9, 1, 1, 1, 0]);
    assert_eq!(encoded.get(1), [&[0, 1][..], &[7; 16]].concat());
    assert_eq!(encoded.get(2), [&[1, 10, 0, 0, 1, 1][..], &[0; 16]].concat());
    assert_eq!(keys.prefix_len(encoded.get(2), 1), Ok(5));
}
