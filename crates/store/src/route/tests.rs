//! Routing and pruning compared with a naive interpretation of the definitions.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use arrow_array::{Array, ArrayRef, Date32Array, Int64Array, RecordBatch, StringViewArray};
use chrono::NaiveDateTime;
use proptest::prelude::*;

use super::dynamic::{DynamicPartition, Unit, auto_buckets, interval};
use super::*;
use crate::table::schema::{AutoPartition, Model, PartitionBy, TableColumn, Values};

fn column(id: ColumnId, name: &str, data_type: SqlType) -> TableColumn {
    TableColumn::new(id, name, data_type, true)
}

fn schema(columns: Vec<TableColumn>, by: Option<(PartitionKind, Vec<ColumnId>)>, hash: Vec<ColumnId>) -> TableSchema {
    TableSchema {
        partition_by: by.map(|(kind, columns)| PartitionBy { kind, columns, auto: None }),
        distribution: if hash.is_empty() { Distribution::Random } else { Distribution::Hash(hash) },
        ..TableSchema::new(Model::Duplicate, columns, 1)
    }
}

fn partition(id: u32, name: &str, bounds: Bounds, buckets: u32) -> Arc<Partition> {
    let (name, properties) = (name.into(), BTreeMap::new());
    Arc::new(Partition { id, name, bounds, buckets, temporary: false, properties })
}

fn values(texts: &[&str]) -> Values {
    texts.iter().map(|t| (*t != "NULL").then(|| t.to_string())).collect()
}

fn range(lower: &[&str], upper: &[&str]) -> Bounds {
    let side = |v: &[&str]| (!v.is_empty()).then(|| values(v));
    Bounds::range(side(lower), side(upper))
}

fn two_ints() -> TableSchema {
    let columns = vec![column(0, "a", SqlType::BigInt), column(1, "b", SqlType::BigInt)];
    schema(columns, Some((PartitionKind::Range, vec![0, 1])), vec![0])
}

fn ints(a: Vec<Option<i64>>, b: Vec<Option<i64>>, schema: &TableSchema) -> RecordBatch {
    let columns: Vec<ArrayRef> = vec![Arc::new(Int64Array::from(a)), Arc::new(Int64Array::from(b))];
    RecordBatch::try_new(schema.arrow(), columns).expect("two columns")
}

fn partitions_of(router: &Router, batch: &RecordBatch) -> Vec<Option<u32>> {
    match router.route(batch, 0).expect("routed") {
        Routed::One(t) => vec![Some(router.tablet(t).partition); batch.num_rows()],
        Routed::Rows(of) => of.iter().map(|t| (*t != NOWHERE).then(|| router.tablet(*t).partition)).collect(),
    }
}

#[test]
fn ranges_over_two_columns() {
    let schema = two_ints();
    let all = vec![
        partition(1, "p1", range(&[], &["10"]), 2),
        partition(2, "p2", range(&["10"], &["20", "5"]), 2),
        partition(3, "p3", range(&["20", "5"], &["30", "NULL"]), 2),
    ];
    validate_all(&schema, &all).expect("they fit");
    let router = Router::try_new(&schema, &all).expect("a router");
    let a = vec![None, Some(9), Some(10), Some(20), Some(20), Some(20), Some(30), Some(30)];
    let b = vec![None, Some(99), None, Some(4), Some(5), None, None, Some(0)];
    let batch = ints(a, b, &schema);
    let expected = vec![Some(1), Some(1), Some(2), Some(2), Some(3), Some(2), None, None];
    assert_eq!(partitions_of(&router, &batch), expected);
    let overlap = Partition { name: "x".into(), bounds: range(&["29"], &[]), ..(*all[0]).clone() };
    assert_eq!(
        validate(&schema, &all, &overlap).unwrap_err().to_string(),
        "partition \"x\" overlaps partition \"p3\"; choose bounds that no other partition holds"
    );
    let beside = Partition { name: "x".into(), bounds: range(&["30", "NULL"], &[]), ..(*all[0]).clone() };
    validate(&schema, &all, &beside).expect("it begins where the last ends");
    let wrong = Partition { name: "x".into(), bounds: range(&["40"], &["twelve"]), ..(*all[0]).clone() };
    let e = validate(&schema, &all, &wrong).unwrap_err().to_string();
    assert_eq!(e, "\"twelve\" is not a bigint, the type of partition column \"a\"");
    assert_eq!(
        less_than(&schema, &all, "x", Some(values(&["40"])), false).expect("a range"),
        range(&["30", "NULL"], &["40"])
    );
    assert_eq!(less_than(&schema, &[], "x", None, false).expect("a range"), range(&[], &[]));
}

#[test]
fn lists_and_restriction_to_names() {
    let columns = vec![column(0, "a", SqlType::BigInt), column(1, "b", SqlType::BigInt)];
    let schema = schema(columns, Some((PartitionKind::List, vec![0])), vec![]);
    let list = |v: &[&str]| Bounds::List(v.iter().map(|t| values(&[t])).collect());
    let all = vec![partition(1, "p1", list(&["1", "NULL"]), 1), partition(2, "p2", list(&["2", "3"]), 4)];
    validate_all(&schema, &all).expect("they fit");
    let router = Router::try_new(&schema, &all).expect("a router");
    let batch = ints(vec![Some(1), None, Some(3), Some(4)], vec![None; 4], &schema);
    assert_eq!(partitions_of(&router, &batch), [Some(1), Some(1), Some(2), None]);
    let Routed::Rows(of) = router.route(&batch, 6).expect("routed") else { panic!("two partitions") };
    assert_eq!(router.tablet(of[2]), Tablet { partition: 2, bucket: 2 });
    let named = Router::try_named(&schema, &all, &["P2".into()], false).expect("a router");
    assert_eq!(partitions_of(&named, &batch), [None, None, Some(2), None]);
    let e = Router::try_named(&schema, &all, &["p9".into()], false).unwrap_err().to_string();
    assert_eq!(e, "the table has no partition \"p9\" (it has p1, p2, ...)");
}

fn at(text: &str) -> NaiveDateTime {
    NaiveDateTime::parse_from_str(text, "%Y-%m-%d %H:%M:%S").expect("a time")
}

#[test]
fn automatic_partitions_by_time_and_value() {
    let mut by_day = schema(vec![column(0, "d", SqlType::Date)], Some((PartitionKind::Range, vec![0])), vec![]);
    by_day.partition_by.as_mut().expect("partitioned").auto = Some(AutoPartition::DateTrunc("month".into()));
    let router = Router::try_new(&by_day, &[]).expect("a router");
    let days: ArrayRef = Arc::new(Date32Array::from(vec![Some(19722), Some(19753), None, Some(19723)]));
    let batch = RecordBatch::try_new(by_day.arrow(), vec![days]).expect("a batch");
    let routed = router.route(&batch, 0).expect("routed");
    let new = router.missing(&batch, &routed).expect("partitions");
    let names: Vec<_> = new.iter().map(|p| p.name.as_str()).collect();
    assert_eq!(names, ["p20231201000000", "p20240101000000"]);
    assert_eq!(new[1].bounds, range(&["2024-01-01"], &["2024-02-01"]));
    let made: Vec<_> = new.iter().enumerate().map(|(i, p)| partition(i as u32, &p.name, p.bounds.clone(), 1)).collect();
    validate_all(&by_day, &made).expect("they fit");
    let router = Router::try_new(&by_day, &made).expect("a router");
    assert_eq!(partitions_of(&router, &batch), [Some(0), Some(1), None, Some(1)]);

    let mut by_value = schema(vec![column(0, "s", SqlType::String)], Some((PartitionKind::List, vec![0])), vec![]);
    by_value.partition_by.as_mut().expect("partitioned").auto = Some(AutoPartition::Value);
    let router = Router::try_new(&by_value, &[]).expect("a router");
    let s: ArrayRef = Arc::new(StringViewArray::from(vec![Some("Beijing"), None, Some("a-b"), Some("Beijing")]));
    let batch = RecordBatch::try_new(by_value.arrow(), vec![s]).expect("a batch");
    let new = router.missing(&batch, &router.route(&batch, 0).expect("routed")).expect("partitions");
    assert_eq!(new.iter().map(|p| p.name.as_str()).collect::<Vec<_>>(), ["pBeijing7", "pX", "pa2db3"]);
}

#[test]
fn batches_of_partitions_by_interval() {
    let (from, to) = (at("2024-01-15 00:00:00"), at("2024-04-01 00:00:00"));
    let all = interval(from, to, 1, Unit::Month, &SqlType::Date).expect("partitions");
    let shown: Vec<_> = all.iter().map(|p| (p.name.as_str(), p.bounds.clone())).collect();
    assert_eq!(shown[0], ("p_202401", range(&["2024-01-15"], &["2024-02-15"])));
    assert_eq!(shown[2], ("p_202403", range(&["2024-03-15"], &["2024-04-01"])));
    assert!(interval(from, to, 1, Unit::Second, &SqlType::DateTime(0)).is_err());
}

#[test]
fn dynamic_partitions() {
    let schema = schema(vec![column(0, "d", SqlType::Date)], Some((PartitionKind::Range, vec![0])), vec![]);
    let property = |name: &str, value: &str| (format!("dynamic_partition.{name}"), value.to_string());
    let mut properties = BTreeMap::from([
        property("time_unit", "DAY"),
        property("start", "-2"),
        property("end", "1"),
        property("prefix", "p"),
        property("create_history_partition", "true"),
    ]);
    let rule = DynamicPartition::parse(&properties).expect("properties").expect("enabled");
    let now = at("2024-03-01 10:00:00");
    let old = partition(7, "old", range(&["2024-02-20"], &["2024-02-28"]), 1);
    let today = partition(8, "mine", range(&["2024-03-01"], &["2024-03-02"]), 1);
    let work = rule.work(&schema, &[old, today], now).expect("work");
    assert_eq!(work.drop, ["old"]);
    let names: Vec<_> = work.create.iter().map(|p| p.name.as_str()).collect();
    assert_eq!(names, ["p20240228", "p20240229", "p20240302"]);
    properties.insert("dynamic_partition.time_unit".into(), "WEEK".into());
    properties.insert("dynamic_partition.start_day_of_week".into(), "3".into());
    let rule = DynamicPartition::parse(&properties).expect("properties").expect("enabled");
    let work = rule.work(&schema, &[], now).expect("work");
    assert_eq!(work.create[2].bounds, range(&["2024-02-28"], &["2024-03-06"]));
    assert_eq!(work.create[2].name, "p2024_09");
    properties.insert("dynamic_partition.end".into(), "soon".into());
    let e = DynamicPartition::parse(&properties).unwrap_err().to_string();
    assert_eq!(e, "property \"dynamic_partition.end\": expected a number from 1 on, found \"soon\"");
}

#[test]
fn automatic_buckets() {
    let size = |s: &str| BTreeMap::from([("estimate_partition_size".to_string(), s.to_string())]);
    assert_eq!(auto_buckets(&BTreeMap::new(), None).expect("1"), 1);
    assert_eq!(auto_buckets(&size("100M"), None).expect("small"), 1);
    assert_eq!(auto_buckets(&size("100G"), None).expect("large"), 20);
    assert_eq!(auto_buckets(&size("100G"), Some(3 << 30)).expect("known"), 3);
    assert!(auto_buckets(&size("much"), None).is_err());
}

#[test]
fn literals_and_their_text() {
    for (t, text, shown) in [
        (SqlType::Date, "20240131", "2024-01-31"),
        (SqlType::Date, "2024-01-31 10:00:00", "2024-01-31"),
        (SqlType::DateTime(0), "2024-01-31", "2024-01-31 00:00:00"),
        (SqlType::DateTime(6), "2024-01-31 01:02:03.5", "2024-01-31 01:02:03.500"),
        (SqlType::LargeInt, "-170141183460469231731687303715884105728", "-170141183460469231731687303715884105728"),
        (SqlType::Decimal(10, 2), "1.50", "1.50"),
        (SqlType::Varchar(Some(5)), " a ", " a "),
        (SqlType::Ipv4, " 1.2.3.4", "1.2.3.4"),
        (SqlType::Ipv6, "0::7", "::7"),
    ] {
        let value = literal(&t, Some(text)).expect(text);
        assert_eq!(text_of(&value, 0).expect("text").as_deref(), Some(shown), "{t}");
    }
    assert!(literal(&SqlType::LargeInt, Some("170141183460469231731687303715884105728")).is_err());
    assert!(literal(&SqlType::TinyInt, Some("128")).is_err());
    assert!(literal(&SqlType::Int, None).expect("NULL").is_null(0));
}

/// Generates a partition definition over two small integers.
fn bounds() -> impl Strategy<Value = Vec<(i64, i64)>> {
    prop::collection::btree_set((-3i64..4, -3i64..4), 2..8).prop_map(|s| s.into_iter().collect())
}

fn small() -> impl Strategy<Value = Option<i64>> {
    prop::option::weighted(0.9, -4i64..5)
}

fn side(kind: u8, v: i64) -> Bound<ArrayRef> {
    let array: ArrayRef = Arc::new(Int64Array::from(vec![v]));
    match kind {
        0 => Bound::Unbounded,
        1 => Bound::Included(array),
        _ => Bound::Excluded(array),
    }
}

proptest! {
    /// A row that passes a condition is in a tablet that pruning keeps, and a partition that is kept for values alone
    /// could hold that row.
    #[test]
    fn pruning_keeps_what_can_match(
        cuts in bounds(), rows in prop::collection::vec((small(), small()), 1..60),
        (a_values, a_nulls) in (prop::option::of(prop::collection::vec(-4i64..5, 1..3)), any::<bool>()),
        (low, high, v, w) in (0u8..3, 0u8..3, -4i64..5, -4i64..5), b_nulls in any::<bool>(),
    ) {
        let schema = two_ints();
        let text = |(a, b): (i64, i64)| Some(vec![Some(a.to_string()), Some(b.to_string())]);
        let parts: Vec<_> = cuts.windows(2).enumerate()
            .map(|(i, w)| partition(i as u32, &format!("p{i}"), Bounds::range(text(w[0]), text(w[1])), 3))
            .collect();
        let router = Router::try_new(&schema, &parts).unwrap();
        let batch = ints(rows.iter().map(|r| r.0).collect(), rows.iter().map(|r| r.1).collect(), &schema);
        let routed = match router.route(&batch, 0).unwrap() {
            Routed::One(t) => vec![t; rows.len()],
            Routed::Rows(of) => of,
        };
        let mut a = match &a_values {
            Some(v) => Constraint::values(0, Arc::new(Int64Array::from(v.clone()))),
            None => Constraint::range(0, side(low, v), Bound::Unbounded),
        };
        a.nulls = a_nulls;
        let mut b = Constraint::range(1, side(low, v), side(high, w));
        b.nulls = b_nulls;
        let kept = router.prune(&[a, b]).unwrap();
        let above = |x: i64| match low { 0 => true, 1 => x >= v, _ => x > v };
        let below = |x: i64| match high { 0 => true, 1 => x <= w, _ => x < w };
        for (row, tablet) in rows.iter().zip(routed) {
            // The naive partition: tuples compared with NULL lowest.
            let key = (row.0, row.1);
            let expected = cuts.windows(2).position(|w| {
                (Some(w[0].0), Some(w[0].1)) <= key && key < (Some(w[1].0), Some(w[1].1))
            });
            let found = (tablet != NOWHERE).then(|| router.tablet(tablet));
            prop_assert_eq!(found.map(|t| t.partition as usize), expected);
            let passes_a = row.0.map_or(a_nulls, |x| a_values.as_ref().map_or(above(x), |v| v.contains(&x)));
            let passes_b = row.1.map_or(b_nulls, |x| above(x) && below(x));
            if let (Some(t), true) = (found, passes_a && passes_b) {
                prop_assert!(kept.iter().any(|(p, b)| *p == t.partition && b.contains(t.bucket)), "{:?}", row);
            }
        }
        if a_values.is_some() {
            let most = a_values.as_ref().map_or(0, |v| v.len()) + usize::from(a_nulls);
            prop_assert!(kept.iter().all(|(_, b)| matches!(b, Buckets::Some(b) if b.len() <= most)));
        }
    }
}

/// A single row goes to the same tablet as in a batch, for every type of key.
#[test]
fn one_row_goes_where_its_batch_goes() {
    use arrow_array::cast::AsArray;
    use arrow_array::types::{Date32Type, Decimal128Type, Int32Type, TimestampMicrosecondType};
    use arrow_array::{BooleanArray, Decimal128Array, Int32Array, TimestampMicrosecondArray};

    use crate::key::KeyValue;

    let types = [
        SqlType::Int,
        SqlType::Date,
        SqlType::DateTime(3),
        SqlType::Decimal(12, 2),
        SqlType::Varchar(Some(9)),
        SqlType::Boolean,
    ];
    let columns: Vec<_> = (0..).zip(types).map(|(i, t)| column(i, &format!("c{i}"), t)).collect();
    let by = Some((PartitionKind::Range, vec![1, 0]));
    let schema = schema(columns, by, (0..6).collect());
    let partitions = [
        partition(1, "low", range(&["2020-01-01"], &["2021-01-01", "5"]), 7),
        partition(2, "high", range(&["2021-01-01", "5"], &["2030-01-01"]), 3),
        partition(3, "one", range(&["2031-01-01"], &["2032-01-01"]), 1),
    ];
    let router = Router::try_new(&schema, &partitions).expect("a router");
    let rows = 400;
    let some = |i: i64, v: i64| (i % 7 != 0).then_some(v);
    let ints: Int32Array = (0..rows).map(|i| some(i + 1, i * 7 - 900).map(|v| v as i32)).collect();
    let dates: Date32Array = (0..rows).map(|i| some(i, 18_200 + i * 11).map(|v| v as i32)).collect();
    let times: TimestampMicrosecondArray = (0..rows).map(|i| some(i + 2, i * 86_399_999_999)).collect();
    let decimals: Decimal128Array = (0..rows).map(|i| some(i + 3, i * i - 50).map(i128::from)).collect();
    let texts: StringViewArray = (0..rows).map(|i| some(i + 4, i).map(|v| format!("text {v}"))).collect();
    let flags: BooleanArray = (0..rows).map(|i| some(i + 5, i).map(|v| v % 2 == 0)).collect();
    let batch: Vec<ArrayRef> = vec![
        Arc::new(ints),
        Arc::new(dates),
        Arc::new(times),
        Arc::new(decimals.with_precision_and_scale(12, 2).expect("12 digits")),
        Arc::new(texts),
        Arc::new(flags),
    ];
    let batch = RecordBatch::try_new(schema.arrow(), batch).expect("a batch");
    let Routed::Rows(all) = router.route(&batch, 0).expect("routed") else { panic!("several tablets") };
    let mut used = std::collections::HashSet::new();
    for (row, tablet) in all.iter().enumerate() {
        let value = |c: usize| {
            let a = batch.column(c);
            if a.is_null(row) {
                return KeyValue::Null;
            }
            match c {
                0 => KeyValue::Int(a.as_primitive::<Int32Type>().value(row).into()),
                1 => KeyValue::Int(a.as_primitive::<Date32Type>().value(row).into()),
                2 => KeyValue::Int(a.as_primitive::<TimestampMicrosecondType>().value(row)),
                3 => KeyValue::Decimal(a.as_primitive::<Decimal128Type>().value(row)),
                4 => KeyValue::Str(a.as_string_view().value(row)),
                _ => KeyValue::Bool(a.as_boolean().value(row)),
            }
        };
        let one = router.route_one(&schema, value).expect("routed");
        assert_eq!(one, (*tablet != NOWHERE).then_some(*tablet), "row {row}");
        used.insert(one);
    }
    assert!(used.len() > 10 && used.contains(&None), "{used:?}");
}
