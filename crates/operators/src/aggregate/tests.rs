//! The kernel beside a naive twin: a map from keys to values.

use std::collections::BTreeMap;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::*;
use arrow_array::*;
use arrow_schema::{DataType, TimeUnit};
use proptest::prelude::*;

use super::*;

/// A small generator of numbers, so that a case is known by one seed.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let mixed = (self.0 ^ (self.0 >> 29)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed ^ (mixed >> 32)
    }

    fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }

    fn pick<T: Clone>(&mut self, of: &[T]) -> T {
        of[self.below(of.len())].clone()
    }

    fn chance(&mut self, percent: u64) -> bool {
        self.next() % 100 < percent
    }
}

fn key_types() -> Vec<DataType> {
    use DataType::*;
    vec![
        Boolean,
        Int8,
        Int16,
        Int32,
        Int64,
        UInt8,
        UInt16,
        UInt32,
        UInt64,
        Float32,
        Float64,
        Date32,
        Date64,
        Time64(TimeUnit::Microsecond),
        Timestamp(TimeUnit::Microsecond, None),
        Timestamp(TimeUnit::Second, Some("UTC".into())),
        Decimal128(38, 6),
        Decimal128(12, 2),
        Utf8,
        Utf8View,
        Binary,
        BinaryView,
    ]
}

fn aggregates() -> Vec<Aggregate> {
    use DataType::*;
    let mut all = vec![Aggregate { function: Function::Count, argument: None }];
    let mut add = |function, types: &[DataType]| {
        all.extend(types.iter().map(|t| Aggregate { function, argument: Some(t.clone()) }));
    };
    add(Function::Count, &[Utf8View, Int64, Boolean]);
    add(Function::Sum, &[Int64, UInt64, Float64, Decimal128(38, 6)]);
    add(Function::Average, &[Int64, Float64, Decimal128(15, 2)]);
    for function in [Function::Min, Function::Max] {
        add(function, &[Int8, Int16, Int32, Int64, UInt8, UInt16, UInt32, UInt64, Date32]);
        add(function, &[Timestamp(TimeUnit::Microsecond, None), Decimal128(20, 3), Decimal128(38, 0)]);
        add(function, &[Float32, Float64]);
    }
    all
}

/// Returns a number: of a few, or anything, or an end of the range of some type.
fn number(random: &mut Random, few: usize) -> i128 {
    match random.below(20) {
        0 => random.next() as i64 as i128,
        1 => random.pick(&[i64::MIN as i128, i64::MAX as i128, -1, 0, i32::MIN as i128, u64::MAX as i128]),
        2 => random.pick(&[10_i128.pow(38) - 1, 1 - 10_i128.pow(38)]),
        _ => random.below(few) as i128 - 2,
    }
}

fn text(random: &mut Random, few: usize) -> String {
    let n = random.below(few);
    match random.below(8) {
        0 => String::new(),
        1 => "twelve bytes".to_string(),
        2 => "thirteen byte".to_string(),
        3 => format!("a long text, the same for all but its end {n}"),
        4 => format!("{n} a long text, the same for all but its begin"),
        5 => "ä\u{0}\u{0}".repeat(n % 7),
        _ => format!("k{n}"),
    }
}

fn double(random: &mut Random, few: usize) -> f64 {
    match random.below(12) {
        0 => 0.0,
        1 => -0.0,
        2 => f64::NAN,
        3 => -f64::NAN,
        _ => random.below(few) as f64 - 2.0,
    }
}

/// Makes a column. `few` bounds the number of usual values, `nulls` is the share of NULLs in percent.
fn column(random: &mut Random, data_type: &DataType, rows: usize, few: usize, nulls: u64) -> ArrayRef {
    macro_rules! values {
        ($value:expr) => {
            (0..rows).map(|_| if random.chance(nulls) { None } else { Some($value) })
        };
    }
    macro_rules! integers {
        ($t:ty) => {
            Arc::new(
                values!(number(random, few) as <$t as ArrowPrimitiveType>::Native)
                    .collect::<PrimitiveArray<$t>>()
                    .with_data_type(data_type.clone()),
            )
        };
    }
    match data_type {
        DataType::Boolean => Arc::new(values!(random.chance(50)).collect::<BooleanArray>()),
        DataType::Int8 => integers!(Int8Type),
        DataType::Int16 => integers!(Int16Type),
        DataType::Int32 => integers!(Int32Type),
        DataType::Int64 => integers!(Int64Type),
        DataType::UInt8 => integers!(UInt8Type),
        DataType::UInt16 => integers!(UInt16Type),
        DataType::UInt32 => integers!(UInt32Type),
        DataType::UInt64 => integers!(UInt64Type),
        DataType::Date32 => integers!(Date32Type),
        DataType::Date64 => integers!(Date64Type),
        DataType::Time64(_) => integers!(Time64MicrosecondType),
        DataType::Timestamp(TimeUnit::Microsecond, _) => integers!(TimestampMicrosecondType),
        DataType::Timestamp(..) => integers!(TimestampSecondType),
        DataType::Decimal128(..) => integers!(Decimal128Type),
        DataType::Float32 => Arc::new(values!(double(random, few) as f32).collect::<Float32Array>()),
        DataType::Float64 => Arc::new(values!(double(random, few)).collect::<Float64Array>()),
        DataType::Utf8 => Arc::new(values!(text(random, few)).collect::<StringArray>()),
        DataType::Utf8View => Arc::new(values!(text(random, few)).collect::<StringViewArray>()),
        DataType::Binary => Arc::new(values!(text(random, few).into_bytes()).collect::<BinaryArray>()),
        DataType::BinaryView => Arc::new(values!(text(random, few).into_bytes()).collect::<BinaryViewArray>()),
        other => panic!("no values of {other}"),
    }
}

/// A value that has an order, and equal floats of which are equal.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Cell {
    Null,
    Number(i128),
    Float(u64),
    Text(Vec<u8>),
}

fn cell(array: &ArrayRef, row: usize) -> Cell {
    if array.is_null(row) {
        return Cell::Null;
    }
    macro_rules! integer {
        ($t:ty) => {
            Cell::Number(array.as_primitive::<$t>().value(row) as i128)
        };
    }
    let float = |value: f64| match value {
        _ if value.is_nan() => Cell::Float(1),
        _ if value == 0.0 => Cell::Float(0),
        _ => Cell::Float(value.to_bits()),
    };
    match array.data_type() {
        DataType::Boolean => Cell::Number(array.as_boolean().value(row).into()),
        DataType::Int8 => integer!(Int8Type),
        DataType::Int16 => integer!(Int16Type),
        DataType::Int32 => integer!(Int32Type),
        DataType::Int64 => integer!(Int64Type),
        DataType::UInt8 => integer!(UInt8Type),
        DataType::UInt16 => integer!(UInt16Type),
        DataType::UInt32 => integer!(UInt32Type),
        DataType::UInt64 => integer!(UInt64Type),
        DataType::Date32 => integer!(Date32Type),
        DataType::Date64 => integer!(Date64Type),
        DataType::Time64(_) => integer!(Time64MicrosecondType),
        DataType::Timestamp(TimeUnit::Microsecond, _) => integer!(TimestampMicrosecondType),
        DataType::Timestamp(..) => integer!(TimestampSecondType),
        DataType::Decimal128(..) => integer!(Decimal128Type),
        DataType::Float32 => float(array.as_primitive::<Float32Type>().value(row).into()),
        DataType::Float64 => float(array.as_primitive::<Float64Type>().value(row)),
        DataType::Utf8 => Cell::Text(array.as_string::<i32>().value(row).into()),
        DataType::Utf8View => Cell::Text(array.as_string_view().value(row).into()),
        DataType::Binary => Cell::Text(array.as_binary::<i32>().value(row).into()),
        DataType::BinaryView => Cell::Text(array.as_binary_view().value(row).into()),
        other => panic!("no values of {other}"),
    }
}

/// What the twin knows of an aggregate of a group: the rows, or the values that are not NULL.
#[derive(Debug, Clone, Default, PartialEq)]
struct Seen {
    count: i64,
    /// The exact sum as `2^64 * high + low`, `low` not negative.
    high: i128,
    low: i128,
    double: f64,
    least: Option<i128>,
    greatest: Option<i128>,
    /// Of floats: the least and the greatest of the values.
    floats: Option<(f64, f64)>,
}

impl Seen {
    fn add(&mut self, array: Option<&ArrayRef>, row: usize) {
        let Some(array) = array else {
            self.count += 1;
            return;
        };
        if array.is_null(row) {
            return;
        }
        self.count += 1;
        if let DataType::Float64 = array.data_type() {
            self.double += array.as_primitive::<Float64Type>().value(row);
        }
        let float = match array.data_type() {
            DataType::Float64 => Some(array.as_primitive::<Float64Type>().value(row)),
            DataType::Float32 => Some(array.as_primitive::<Float32Type>().value(row).into()),
            _ => None,
        };
        if let Some(value) = float {
            let (least, greatest) = self.floats.unwrap_or((value, value));
            let less = |a: f64, b: f64| a.total_cmp(&b).is_lt();
            self.floats = Some((
                if less(value, least) { value } else { least },
                if less(greatest, value) { value } else { greatest },
            ));
        }
        if let Cell::Number(value) = cell(array, row) {
            self.add_exact(value >> 64, value & i128::from(u64::MAX));
            self.least = Some(self.least.map_or(value, |least| least.min(value)));
            self.greatest = Some(self.greatest.map_or(value, |greatest| greatest.max(value)));
        }
    }

    fn add_exact(&mut self, high: i128, low: i128) {
        self.low += low;
        self.high += high + (self.low >> 64);
        self.low &= i128::from(u64::MAX);
    }
}

/// A table that is grouped.
struct Case {
    keys: Vec<DataType>,
    aggregates: Vec<Aggregate>,
    key_columns: Vec<ArrayRef>,
    arguments: Vec<Option<ArrayRef>>,
    rows: usize,
}

impl Case {
    fn new(random: &mut Random) -> Case {
        let keys: Vec<DataType> = (0..1 + random.below(4)).map(|_| random.pick(&key_types())).collect();
        let aggregates: Vec<Aggregate> = (0..random.below(5)).map(|_| random.pick(&aggregates())).collect();
        let rows = random.pick(&[0, 1, 10, 500, 3000]);
        let few = random.pick(&[1, 3, 50, 2000]);
        let nulls = random.pick(&[0, 10, 90]);
        let key_columns = keys.iter().map(|key| column(random, key, rows, few, nulls)).collect();
        let arguments = aggregates.iter().map(|a| a.argument.as_ref().map(|t| column(random, t, rows, few, nulls)));
        let arguments = arguments.collect();
        Case { keys, aggregates, key_columns, arguments, rows }
    }

    fn expected(&self) -> BTreeMap<Vec<Cell>, Vec<Seen>> {
        let mut groups: BTreeMap<Vec<Cell>, Vec<Seen>> = BTreeMap::new();
        for row in 0..self.rows {
            let key = self.key_columns.iter().map(|column| cell(column, row)).collect();
            let seen = groups.entry(key).or_insert_with(|| vec![Seen::default(); self.aggregates.len()]);
            for (seen, argument) in seen.iter_mut().zip(&self.arguments) {
                seen.add(argument.as_ref(), row);
            }
        }
        groups
    }
}

/// Checks the columns of the state of an aggregate against what the twin knows of the group.
fn check(aggregate: &Aggregate, seen: &Seen, columns: &[ArrayRef], row: usize) {
    let exact = |sum: &ArrayRef, carry: &ArrayRef| {
        let carry = i128::from(carry.as_primitive::<Int32Type>().value(row));
        let mut total = Seen::default();
        match cell(sum, row) {
            Cell::Number(sum) => total.add_exact(sum >> 64, sum & i128::from(u64::MAX)),
            other => assert_eq!(other, Cell::Null),
        }
        match sum.data_type() {
            DataType::Decimal128(..) => total.add_exact(carry << 64, 0),
            _ => total.add_exact(carry, 0),
        }
        (total.high, total.low)
    };
    let number = |at: usize| cell(&columns[at], row);
    let extreme = |value: Option<i128>| value.map_or(Cell::Null, Cell::Number);
    let double = |at: usize| columns[at].as_primitive::<Float64Type>().value(row);
    let same = |a: f64, b: f64| a == b || (a.is_nan() && b.is_nan());
    let is_double = aggregate.argument == Some(DataType::Float64);
    let some = seen.count > 0;
    match aggregate.function {
        Function::Count => assert_eq!(number(0), Cell::Number(seen.count.into())),
        Function::Min | Function::Max if aggregate.argument.as_ref().is_some_and(DataType::is_floating) => {
            let found = columns[0].is_valid(row).then(|| match columns[0].data_type() {
                DataType::Float32 => f64::from(columns[0].as_primitive::<Float32Type>().value(row)),
                _ => columns[0].as_primitive::<Float64Type>().value(row),
            });
            let wanted = seen.floats.map(|(least, greatest)| match aggregate.function {
                Function::Min => least,
                _ => greatest,
            });
            assert_eq!(columns[0].data_type(), aggregate.argument.as_ref().unwrap());
            assert_eq!(found.map(f64::to_bits), wanted.map(f64::to_bits));
        }
        Function::Min => {
            assert_eq!((number(0), columns[0].data_type()), (extreme(seen.least), aggregate.argument.as_ref().unwrap()))
        }
        Function::Max => assert_eq!(
            (number(0), columns[0].data_type()),
            (extreme(seen.greatest), aggregate.argument.as_ref().unwrap())
        ),
        Function::Sum => {
            assert_eq!(columns[0].is_valid(row), some);
            match is_double {
                true => assert!(!some || same(double(0), seen.double)),
                false => assert_eq!(exact(&columns[0], &columns[1]), (seen.high, seen.low)),
            }
        }
        Function::Average if is_double => {
            assert_eq!((columns[0].is_valid(row), columns[1].is_valid(row)), (some, some));
            assert!(!some || (number(0) == Cell::Number(seen.count.into()) && same(double(1), seen.double)));
        }
        Function::Average => {
            assert_eq!(number(0), Cell::Number(seen.count.into()));
            assert_eq!(exact(&columns[1], &columns[2]), (seen.high, seen.low));
        }
    }
}

/// Batches of each partition.
type Written = Vec<Vec<RecordBatch>>;

fn nothing_written() -> Written {
    vec![Vec::new(); PARTITIONS]
}

fn write(records: &Records, written: &mut Written) {
    let schema = records.layout.record_schema();
    for (partition, batches) in written.iter_mut().enumerate() {
        batches.extend(records.batches(partition, &schema).map(Result::unwrap));
    }
}

/// Merges what groupers have and what they have written.
fn finish(
    random: &mut Random,
    layout: &Arc<Layout>,
    groupers: Vec<Grouper>,
    mut written: Written,
    level: u32,
    out: &mut Vec<Output>,
) {
    let mut sources: Vec<Records> = Vec::new();
    let records: Vec<Records> = groupers.into_iter().map(|mut grouper| grouper.take()).collect();
    // A partition that is written anywhere is written everywhere.
    let most = random.pick(&[0, 3, 100]);
    if written.iter().any(|batches| !batches.is_empty()) {
        records.iter().for_each(|records| write(records, &mut written));
    } else {
        sources = records;
    }
    for batches in written.into_iter().filter(|batches| !batches.is_empty()) {
        let mut grouper = Grouper::new(Arc::clone(layout), level + 1, most);
        let mut below = nothing_written();
        for batch in batches {
            grouper.merge(&batch);
            if level + 2 < LEVELS && random.chance(2) {
                write(&grouper.take(), &mut below);
            }
        }
        finish(random, layout, vec![grouper], below, level + 1, out);
    }
    let many = random.pick(&[1, 7, 64]);
    for from in (0..PARTITIONS).step_by(many) {
        let partitions = from..(from + many).min(PARTITIONS);
        let Some(mut merge) = Merge::new(Arc::clone(layout), &mut sources, partitions) else { continue };
        while merge.step(100) {}
        let mut groups = merge.finish();
        while let Some(output) = groups.next(random.pick(&[1, 100, 8192])).unwrap() {
            out.push(output);
        }
    }
}

fn run(seed: u64) {
    let mut random = Random(seed);
    let case = Case::new(&mut random);
    let layout = Arc::new(Layout::new(&case.keys, &case.aggregates).expect("types of the kernel"));
    let most = random.pick(&[0, 1, 2, 5, 40, 300]);
    let mut groupers: Vec<Grouper> =
        (0..1 + random.below(4)).map(|_| Grouper::new(Arc::clone(&layout), 0, most)).collect();
    let mut written = nothing_written();
    let spills = random.pick(&[0, 0, 5]);
    let mut from = 0;
    while from < case.rows {
        let rows = (1 + random.below(400)).min(case.rows - from);
        let keys: Vec<ArrayRef> = case.key_columns.iter().map(|column| column.slice(from, rows)).collect();
        let arguments: Vec<Option<ArrayRef>> =
            case.arguments.iter().map(|column| column.as_ref().map(|column| column.slice(from, rows))).collect();
        let at = random.below(groupers.len());
        groupers[at].update(&keys, &arguments, rows);
        assert!(groupers[at].bytes() > 0);
        if random.chance(spills) {
            write(&groupers[at].take(), &mut written);
        }
        from += rows;
    }
    let mut outputs = Vec::new();
    finish(&mut random, &layout, groupers, written, 0, &mut outputs);

    let mut expected = case.expected();
    for output in &outputs {
        for (column, key) in output.keys.iter().zip(&case.keys) {
            assert_eq!((column.data_type(), column.len()), (key, output.rows));
        }
        for row in 0..output.rows {
            let key: Vec<Cell> = output.keys.iter().map(|column| cell(column, row)).collect();
            let seen = expected.remove(&key).unwrap_or_else(|| panic!("{key:?} is no group, or came before"));
            for ((aggregate, seen), columns) in case.aggregates.iter().zip(&seen).zip(&output.states) {
                check(aggregate, seen, columns, row);
            }
        }
    }
    assert!(expected.is_empty(), "missing: {:?}", expected.keys().next());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn groups_are_those_of_the_naive_twin(seed in any::<u64>()) {
        run(seed);
    }
}

fn layout(keys: &[DataType], functions: &[(Function, Option<DataType>)]) -> Option<Layout> {
    let aggregates: Vec<Aggregate> = functions
        .iter()
        .map(|(function, argument)| Aggregate { function: *function, argument: argument.clone() })
        .collect();
    Layout::new(keys, &aggregates)
}

#[test]
fn types_that_the_kernel_has_not_are_refused() {
    use DataType::*;
    assert!(layout(&[], &[]).is_none());
    assert!(layout(&[Decimal256(40, 0)], &[]).is_none());
    assert!(layout(&[LargeUtf8], &[]).is_none());
    assert!(layout(&vec![Int8; 17], &[]).is_none());
    for (function, argument) in [
        (Function::Sum, Int32),
        (Function::Sum, Utf8View),
        (Function::Average, UInt64),
        (Function::Min, Utf8View),
        (Function::Min, Boolean),
        (Function::Sum, Decimal256(60, 2)),
    ] {
        assert!(layout(&[Int8], &[(function, Some(argument.clone()))]).is_none(), "{function:?} of {argument}");
    }
    let sums = vec![(Function::Sum, Some(Int64)); 65];
    assert!(layout(&[Int8], &sums).is_none());
    assert!(layout(&[Int8], &sums[..64]).is_some());
}

#[test]
fn small_keys_share_words() {
    use DataType::*;
    let words = |keys: &[DataType]| layout(keys, &[]).unwrap().key_words;
    assert_eq!(words(&[Int64]), 2);
    assert_eq!(words(&[Int8, Int32, Int16, Boolean]), 2);
    assert_eq!(words(&[Int8, Int64, Int16, Date32, Boolean]), 3);
    assert_eq!(words(&[Utf8View, Int8, Decimal128(9, 2)]), 1 + 2 + 1 + 2);
}

#[test]
fn a_full_table_starts_anew_and_few_groups_stay_in_it() {
    let layout = Arc::new(layout(&[DataType::Int64], &[(Function::Count, None)]).unwrap());
    let keys = |of: i64| -> Vec<ArrayRef> { vec![Arc::new(Int64Array::from_iter_values((0..20_000).map(|n| n % of)))] };
    let mut few = Grouper::new(Arc::clone(&layout), 0, 0);
    few.update(&keys(100), &[None], 20_000);
    let records = few.take();
    assert_eq!(((0..PARTITIONS).map(|p| records.len(p)).sum::<usize>(), records.emptied), (100, 1));
    let mut many = Grouper::new(Arc::clone(&layout), 0, 2000);
    many.update(&keys(10_000), &[None], 20_000);
    assert!(many.take().emptied > 1);
    // One table that was emptied once needs no merging.
    let merge = Merge::new(layout, &mut [records], 0..PARTITIONS).unwrap();
    assert_eq!(merge.table_bytes(), 100 * size_of::<u32>());
}

/// Counts the rows of each number, which are below `of`, and returns the number of records before they were merged.
fn counted(grouper: &mut Grouper, layout: &Arc<Layout>, numbers: &[i64], of: usize) -> usize {
    for numbers in numbers.chunks(8192) {
        let keys: ArrayRef = Arc::new(Int64Array::from(numbers.to_vec()));
        grouper.update(&[keys], &[None], numbers.len());
    }
    let records = grouper.take();
    let before = (0..PARTITIONS).map(|partition| records.len(partition)).sum();
    let mut groups = Merge::new(Arc::clone(layout), &mut [records], 0..PARTITIONS).expect("some rows").finish();
    let (mut found, mut expected) = (vec![0; of], vec![0; of]);
    while let Some(output) = groups.next(8192).unwrap() {
        let counts = output.states[0][0].as_primitive::<Int64Type>().values().iter();
        for (number, count) in output.keys[0].as_primitive::<Int64Type>().values().iter().zip(counts) {
            assert_eq!(found[*number as usize], 0, "a group comes once");
            found[*number as usize] = *count;
        }
    }
    numbers.iter().for_each(|number| expected[*number as usize] += 1);
    assert_eq!(found, expected);
    before
}

#[test]
fn a_table_grows_if_it_then_has_all_groups() {
    let layout = Arc::new(layout(&[DataType::Int64], &[(Function::Count, None)]).unwrap());
    let mut random = Random(7);
    let grouper = || Grouper::new(Arc::clone(&layout), 0, 0);
    let mut numbers = |of: usize, rows: usize| -> Vec<i64> { (0..rows).map(|_| random.below(of) as i64).collect() };
    // Each group has six rows in any order. A tenth of the rows come before that is known.
    let (of, rows) = (100_000, 600_000);
    let records = counted(&mut grouper(), &layout, &numbers(of, rows), of);
    assert!(records < 300_000, "{records}");
    // So many groups have no table.
    let (of, rows) = (10_000_000, 600_000);
    let records = counted(&mut grouper(), &layout, &numbers(of, rows), of);
    assert!(records > 580_000, "{records}");
    // More groups come than were expected: the table starts anew, and stays small.
    let (of, mut changing) = (400_000, numbers(40_000, 300_000));
    changing.extend(numbers(of, 400_000));
    let mut grouper = grouper();
    let records = counted(&mut grouper, &layout, &changing, of);
    assert!((300_000..600_000).contains(&records), "{records}");
    let held = grouper.bytes();
    assert!(held < 1 << 20, "{held}");
}

#[test]
fn bytes_follow_what_is_held() {
    let layout = Arc::new(layout(&[DataType::Utf8View], &[(Function::Count, None)]).unwrap());
    let mut grouper = Grouper::new(layout, 0, 0);
    let before = grouper.bytes();
    let keys: ArrayRef = Arc::new(StringViewArray::from_iter_values((0..50_000).map(|n| format!("{n:>100}"))));
    grouper.update(&[keys], &[None], 50_000);
    let held = grouper.bytes();
    assert!(held > 50_000 * 100, "{held}");
    let records = grouper.take();
    assert!(grouper.bytes() < before + (1 << 20), "{}", grouper.bytes());
    let kept: usize = (0..PARTITIONS).map(|p| records.partition_bytes(p)).sum::<usize>();
    assert!(kept > 50_000 * 100 && kept < held + (8 << 20), "{kept}");
}
