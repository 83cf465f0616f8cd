//! Pruning beside the evaluation of the predicate on all rows: a row that passes is never left out.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::ops::Range;

use arrow::array::{Float64Array, Int32Array, Int64Array, StringViewArray};
use arrow::datatypes::{Field, Schema};
use arrow::record_batch::RecordBatch;
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::expressions::{
    BinaryExpr, CastExpr, Column as PhysicalColumn, Literal, in_list, is_not_null, is_null, like, not,
};

use super::*;

#[path = "../../../../tests/support/input.rs"]
mod input;

type Predicate = Arc<dyn PhysicalExpr>;

/// Statistics that a test gives, by column.
#[derive(Debug, Default)]
struct Given {
    rows: usize,
    columns: BTreeMap<String, ColumnGiven>,
}

#[derive(Debug, Default)]
struct ColumnGiven {
    group: Option<ZoneStats>,
    pages: Option<ZoneStats>,
    starts: Vec<usize>,
    bloom: Option<Sbbf>,
}

impl Zones for Given {
    fn rows(&self) -> usize {
        self.rows
    }

    fn group(&self, column: &str) -> Option<ZoneStats> {
        self.columns[column].group.clone()
    }

    fn pages(&self, column: &str) -> Option<ZoneStats> {
        self.columns[column].pages.clone()
    }

    fn page_starts(&self, column: &str) -> Vec<usize> {
        self.columns[column].starts.clone()
    }

    fn bloom(&self, column: &str) -> Option<Sbbf> {
        self.columns[column].bloom.clone()
    }
}

/// Bounds of one zone.
#[derive(Debug)]
struct Zone {
    min: ScalarValue,
    max: ScalarValue,
    nulls: Option<u64>,
    rows: u64,
}

fn stats(zones: &[Zone]) -> ZoneStats {
    let all = |of: fn(&Zone) -> &ScalarValue| ScalarValue::iter_to_array(zones.iter().map(of).cloned()).unwrap();
    ZoneStats {
        min: all(|zone| &zone.min),
        max: all(|zone| &zone.max),
        nulls: zones.iter().map(|zone| zone.nulls).collect(),
        rows: zones.iter().map(|zone| Some(zone.rows)).collect(),
    }
}

fn column(name: &str, schema: &Schema) -> Predicate {
    Arc::new(PhysicalColumn::new(name, schema.index_of(name).unwrap()))
}

fn literal(value: ScalarValue) -> Predicate {
    Arc::new(Literal::new(value))
}

fn binary(left: Predicate, op: Operator, right: Predicate) -> Predicate {
    Arc::new(BinaryExpr::new(left, op, right))
}

fn kept(predicate: &Predicate, schema: &SchemaRef, zones: &Given) -> Kept {
    match GroupPruner::new(&[Arc::clone(predicate)], schema).predicate() {
        None => Kept::All,
        Some(predicate) => keeps(&predicate, zones),
    }
}

// ---- single decisions ----

fn whole(value: i64) -> ScalarValue {
    ScalarValue::Int64(Some(value))
}

fn double(value: f64) -> ScalarValue {
    ScalarValue::Float64(Some(value))
}

/// Returns a row group of 100 rows with one column `c`, and what is kept of it where `c op value`.
fn decision(min: ScalarValue, max: ScalarValue, nulls: Option<u64>, op: Operator, value: ScalarValue) -> Kept {
    let schema = Arc::new(Schema::new(vec![Field::new("c", min.data_type(), true)]));
    let group = Some(stats(&[Zone { min, max, nulls, rows: 100 }]));
    let given = ColumnGiven { pages: group.clone(), group, ..ColumnGiven::default() };
    let zones = Given { rows: 100, columns: BTreeMap::from([("c".to_string(), given)]) };
    kept(&binary(column("c", &schema), op, literal(value)), &schema, &zones)
}

#[test]
fn bounds_leave_out_what_is_beyond_them() {
    use Operator::{Eq, Gt, GtEq, IsNotDistinctFrom, Lt, LtEq, NotEq};
    for (op, value, left_out) in [
        (Gt, 20, true),
        (Gt, 19, false),
        (GtEq, 20, false),
        (GtEq, 21, true),
        (Lt, 10, true),
        (Lt, 11, false),
        (LtEq, 9, true),
        (LtEq, 10, false),
        (Eq, 9, true),
        (Eq, 15, false),
        (Eq, 21, true),
        (NotEq, 15, false),
        (IsNotDistinctFrom, 15, false),
    ] {
        let found = decision(whole(10), whole(20), Some(0), op, whole(value));
        assert_eq!(matches!(found, Kept::Nothing), left_out, "10 to 20 {op} {value}: {found:?}");
    }
    // All values are the same.
    assert!(matches!(decision(whole(5), whole(5), Some(0), NotEq, whole(5)), Kept::Nothing));
    // Nothing is known of one side.
    let unknown = ScalarValue::Int64(None);
    assert!(matches!(decision(unknown.clone(), whole(20), Some(0), Lt, whole(0)), Kept::All));
    assert!(matches!(decision(unknown.clone(), whole(20), Some(0), Gt, whole(20)), Kept::Nothing));
    assert!(matches!(decision(whole(10), unknown, Some(0), Gt, whole(99)), Kept::All));
}

#[test]
fn nan_is_beyond_the_bounds() {
    use Operator::{Eq, Gt, Lt, NotEq};
    let of = |op, value| decision(double(1.0), double(2.0), Some(0), op, double(value));
    // NaN is greater than all other values, NaN with a sign is less.
    assert!(matches!(of(Gt, 5.0), Kept::All));
    assert!(matches!(of(Lt, 0.0), Kept::All));
    assert!(matches!(of(Eq, 5.0), Kept::Nothing));
    assert!(matches!(of(Eq, f64::NAN), Kept::All));
    assert!(matches!(decision(double(2.0), double(2.0), Some(0), NotEq, double(2.0)), Kept::All));
}

#[test]
fn null_counts_decide_is_null() {
    let schema = Arc::new(Schema::new(vec![Field::new("c", DataType::Int64, true)]));
    let of = |nulls: Option<u64>, predicate: Predicate| {
        let (min, max) = match nulls {
            Some(100) => (ScalarValue::Int64(None), ScalarValue::Int64(None)),
            _ => (whole(1), whole(9)),
        };
        let group = Some(stats(&[Zone { min, max, nulls, rows: 100 }]));
        let given = ColumnGiven { pages: group.clone(), group, ..ColumnGiven::default() };
        let zones = Given { rows: 100, columns: BTreeMap::from([("c".to_string(), given)]) };
        matches!(kept(&predicate, &schema, &zones), Kept::Nothing)
    };
    let c = || column("c", &schema);
    assert!(of(Some(0), is_null(c()).unwrap()));
    assert!(!of(Some(1), is_null(c()).unwrap()));
    assert!(!of(None, is_null(c()).unwrap()));
    assert!(of(Some(100), is_not_null(c()).unwrap()));
    assert!(!of(Some(99), is_not_null(c()).unwrap()));
    assert!(!of(None, is_not_null(c()).unwrap()));
    assert!(of(Some(100), binary(c(), Operator::Eq, literal(whole(3)))));
}

#[test]
fn a_bloom_filter_leaves_out_what_it_surely_lacks() {
    let schema: SchemaRef = Arc::new(Schema::new(vec![
        Field::new("small", DataType::Int8, true),
        Field::new("text", DataType::Utf8View, true),
        Field::new("real", DataType::Float64, true),
    ]));
    let mut ints = Sbbf::new_with_num_of_bytes(1024);
    let mut texts = Sbbf::new_with_num_of_bytes(1024);
    ints.insert(&7_i32);
    texts.insert("held");
    let empty = Sbbf::new_with_num_of_bytes(1024);
    let columns = [("small", ints), ("text", texts), ("real", empty)]
        .map(|(name, bloom)| (name.to_string(), ColumnGiven { bloom: Some(bloom), ..ColumnGiven::default() }));
    let zones = Given { rows: 100, columns: BTreeMap::from(columns) };
    let of = |name: &str, value: ScalarValue| {
        let predicate = binary(column(name, &schema), Operator::Eq, literal(value));
        matches!(kept(&predicate, &schema, &zones), Kept::Nothing)
    };
    let text = |text: &str| ScalarValue::Utf8View(Some(text.into()));
    assert!(!of("small", ScalarValue::Int8(Some(7))));
    assert!(of("small", ScalarValue::Int8(Some(8))));
    assert!(!of("text", text("held")));
    assert!(of("text", text("not held")));
    // How a filter would hold values of this type is not known.
    assert!(!of("real", double(1.0)));
}

#[test]
fn pages_leave_out_runs_of_rows() {
    let schema: SchemaRef =
        Arc::new(Schema::new(vec![Field::new("a", DataType::Int64, true), Field::new("b", DataType::Int64, true)]));
    let zone = |min: i64, max: i64, rows| Zone { min: whole(min), max: whole(max), nulls: Some(0), rows };
    let given = |group: Zone, pages: &[Zone], starts: &[usize]| ColumnGiven {
        group: Some(stats(&[group])),
        pages: Some(stats(pages)),
        starts: starts.to_vec(),
        bloom: None,
    };
    let a = given(zone(0, 29, 30), &[zone(0, 9, 10), zone(10, 19, 10), zone(20, 29, 10)], &[0, 10, 20]);
    let b = given(zone(0, 2, 30), &[zone(0, 1, 15), zone(2, 2, 15)], &[0, 15]);
    let zones = Given { rows: 30, columns: BTreeMap::from([("a".to_string(), a), ("b".to_string(), b)]) };
    let of = |name: &str, op, value| binary(column(name, &schema), op, literal(whole(value)));
    let rows = |predicate: &Predicate| match kept(predicate, &schema, &zones) {
        Kept::Rows(rows, runs) => (rows.set_indices().collect::<Vec<_>>(), runs),
        other => panic!("{other:?}"),
    };
    assert_eq!(rows(&of("a", Operator::Gt, 19)), ((20..30).collect(), 2));
    // The borders of both columns: 0, 10, 15, 20.
    let both = binary(of("a", Operator::Gt, 9), Operator::And, of("b", Operator::Lt, 2));
    assert_eq!(rows(&both), ((10..15).collect(), 3));
    assert!(matches!(kept(&of("a", Operator::GtEq, 0), &schema, &zones), Kept::All));
    let neither = binary(of("a", Operator::Lt, 10), Operator::And, of("b", Operator::Gt, 1));
    assert!(matches!(kept(&neither, &schema, &zones), Kept::Nothing));
}

#[test]
fn a_predicate_that_fails_on_bounds_leaves_out_nothing() {
    let schema: SchemaRef = Arc::new(Schema::new(vec![Field::new("c", DataType::Float64, true)]));
    let group = Some(stats(&[Zone { min: double(1.0), max: double(2.0), nulls: Some(0), rows: 100 }]));
    let given = ColumnGiven { pages: group.clone(), group, ..ColumnGiven::default() };
    let zones = Given { rows: 100, columns: BTreeMap::from([("c".to_string(), given)]) };
    // NaN, which bounds do not tell of, is no integer.
    let cast: Predicate = Arc::new(CastExpr::new(column("c", &schema), DataType::Int64, None));
    assert!(matches!(kept(&binary(cast, Operator::Gt, literal(whole(5))), &schema, &zones), Kept::All));
}

// ---- random row groups ----

/// Random rows with statistics that are true of them, and random predicates.
struct Random(input::Random);

impl Random {
    fn below(&mut self, count: usize) -> usize {
        // The low bits of xorshift are its weakest.
        (self.0.draw() >> 11) as usize % count
    }

    fn one_in(&mut self, count: usize) -> bool {
        self.below(count) == 0
    }

    fn one_of<T: Clone>(&mut self, list: &[T]) -> T {
        list[self.below(list.len())].clone()
    }

    fn int(&mut self) -> i64 {
        match self.below(12) {
            0 => i64::MIN,
            1 => i64::MAX,
            n => (n as i64 - 6) * 3,
        }
    }

    fn float(&mut self) -> f64 {
        let ends = [f64::NAN, -f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 0.0, f64::MIN_POSITIVE];
        match self.one_in(4) {
            true => self.one_of(&ends),
            false => (self.below(9) as f64 - 4.0) / 2.0,
        }
    }

    fn text(&mut self) -> &'static str {
        self.one_of(&[
            "",
            "a",
            "ab",
            "abc",
            "abd",
            "b",
            "ba",
            "Ab",
            "z",
            "é",
            "éa",
            "\u{10ffff}",
            "\u{10ffff}a",
            "%",
            "_",
        ])
    }

    /// Returns a value of the type of a column.
    fn value(&mut self, data_type: &DataType) -> ScalarValue {
        match data_type {
            DataType::Int32 => ScalarValue::Int32(Some(self.int().clamp(i32::MIN.into(), i32::MAX.into()) as i32)),
            DataType::Int64 => ScalarValue::Int64(Some(self.int())),
            DataType::Float64 => ScalarValue::Float64(Some(self.float())),
            _ => ScalarValue::Utf8View(Some(self.text().into())),
        }
    }

    /// Returns a value for a comparison, which is sometimes NULL.
    fn operand(&mut self, data_type: &DataType) -> Predicate {
        let value = match self.one_in(12) {
            true => ScalarValue::try_from(data_type).unwrap(),
            false => self.value(data_type),
        };
        literal(value)
    }

    fn rows(&mut self, schema: &SchemaRef, rows: usize) -> RecordBatch {
        let mut columns: Vec<ArrayRef> = Vec::new();
        for field in schema.fields() {
            // Values of a column lie together now and then, as in sorted data: otherwise nothing is ever left out.
            let nulls = self.one_of(&[1, 2, 5, 1000]);
            let few: Vec<ScalarValue> = (0..1 + self.below(4)).map(|_| self.value(field.data_type())).collect();
            let mut values: Vec<ScalarValue> = (0..rows)
                .map(|_| match nulls == 1 || self.one_in(nulls) {
                    true => ScalarValue::try_from(field.data_type()).unwrap(),
                    false => self.one_of(&few),
                })
                .collect();
            if self.one_in(2) {
                values.sort_by(order);
            }
            columns.push(ScalarValue::iter_to_array(values).unwrap());
        }
        RecordBatch::try_new(Arc::clone(schema), columns).unwrap()
    }

    /// Returns bounds that are true of some rows of a column: exact, wider, or unknown.
    fn zone(&mut self, array: &ArrayRef, rows: Range<usize>) -> Zone {
        let values: Vec<ScalarValue> =
            rows.clone().map(|row| ScalarValue::try_from_array(array, row).unwrap()).collect();
        let is_nan = |value: &&ScalarValue| matches!(value, ScalarValue::Float64(Some(v)) if v.is_nan());
        let real = || values.iter().filter(|value| !value.is_null()).filter(|value| !is_nan(value));
        let unknown = ScalarValue::try_from(array.data_type()).unwrap();
        let mut min = real().min_by(|a, b| order(a, b)).cloned().unwrap_or(unknown.clone());
        let mut max = real().max_by(|a, b| order(a, b)).cloned().unwrap_or(unknown.clone());
        if self.one_in(4) {
            min = wider(&min, false);
        }
        if self.one_in(4) {
            max = wider(&max, true);
        }
        if self.one_in(8) {
            min = unknown.clone();
        }
        if self.one_in(8) {
            max = unknown;
        }
        let nulls = values.iter().filter(|value| value.is_null()).count() as u64;
        Zone { min, max, nulls: (!self.one_in(6)).then_some(nulls), rows: rows.len() as u64 }
    }

    fn zones(&mut self, batch: &RecordBatch) -> Given {
        let rows = batch.num_rows();
        let mut columns = BTreeMap::new();
        for (field, array) in batch.schema().fields().iter().zip(batch.columns()) {
            let mut given = ColumnGiven::default();
            if !self.one_in(10) {
                given.group = Some(stats(&[self.zone(array, 0..rows)]));
            }
            let mut starts = vec![0];
            if !self.one_in(4) {
                starts.extend((0..self.below(5)).map(|_| 1 + self.below(rows - 1)));
                starts.sort_unstable();
                starts.dedup();
            }
            if !self.one_in(10) {
                let ends = starts.iter().skip(1).copied().chain([rows]);
                let pages: Vec<Zone> = starts.iter().zip(ends).map(|(a, b)| self.zone(array, *a..b)).collect();
                given.pages = Some(stats(&pages));
            }
            // A column without an index of its pages has no borders, and its one page is the row group.
            if !(starts.len() == 1 && self.one_in(2)) {
                given.starts = starts;
            }
            if self.one_in(3) {
                given.bloom = bloom(array);
            }
            columns.insert(field.name().clone(), given);
        }
        Given { rows, columns }
    }

    fn predicate(&mut self, schema: &SchemaRef, depth: usize) -> Predicate {
        use Operator::{And, Eq, Gt, GtEq, IsDistinctFrom, IsNotDistinctFrom, Lt, LtEq, NotEq, Or};
        if depth > 0 && !self.one_in(3) {
            let one = self.predicate(schema, depth - 1);
            return match self.below(5) {
                0 => not(one).unwrap(),
                1 | 2 => binary(one, And, self.predicate(schema, depth - 1)),
                _ => binary(one, Or, self.predicate(schema, depth - 1)),
            };
        }
        let field = Arc::clone(&schema.fields()[self.below(schema.fields().len())]);
        let (data_type, own) = (field.data_type(), column(field.name(), schema));
        match self.below(10) {
            0 => is_null(own).unwrap(),
            1 => is_not_null(own).unwrap(),
            2 => {
                let values = (0..1 + self.below(4)).map(|_| self.operand(data_type)).collect();
                in_list(own, values, &self.one_in(3), schema).unwrap()
            }
            3 if *data_type == DataType::Utf8View => {
                let pattern =
                    self.one_of(&["a%", "ab%", "a_%", "%b", "abc", "é%", "\u{10ffff}%", "%", "", "\\%%", "A%"]);
                let pattern = literal(ScalarValue::Utf8View(Some(pattern.into())));
                like(self.one_in(3), self.one_in(4), own, pattern, schema).unwrap()
            }
            4 if *data_type != DataType::Utf8View => {
                let to = self.one_of(&[DataType::Int64, DataType::Utf8View, DataType::Float64]);
                let cast: Predicate = Arc::new(CastExpr::new(own, to.clone(), None));
                binary(cast, self.one_of(&[Eq, Lt, GtEq, NotEq]), self.operand(&to))
            }
            5 => {
                let (low, high) = (self.operand(data_type), self.operand(data_type));
                binary(binary(Arc::clone(&own), GtEq, low), And, binary(own, LtEq, high))
            }
            _ => {
                let op = self.one_of(&[Eq, NotEq, Lt, LtEq, Gt, GtEq, IsDistinctFrom, IsNotDistinctFrom]);
                let value = self.operand(data_type);
                match self.one_in(3) {
                    true => binary(value, op, own),
                    false => binary(own, op, value),
                }
            }
        }
    }
}

/// Orders two values of a type, NULL and NaN among them.
fn order(a: &ScalarValue, b: &ScalarValue) -> Ordering {
    match (a, b) {
        (ScalarValue::Float64(Some(a)), ScalarValue::Float64(Some(b))) => a.total_cmp(b),
        _ => a.partial_cmp(b).expect("values of one type have an order"),
    }
}

/// Returns a bound that is farther out than this one.
fn wider(bound: &ScalarValue, up: bool) -> ScalarValue {
    let by = if up { 2 } else { -2 };
    match bound {
        ScalarValue::Int32(Some(v)) => ScalarValue::Int32(Some(v.saturating_add(by as i32))),
        ScalarValue::Int64(Some(v)) => ScalarValue::Int64(Some(v.saturating_add(by))),
        ScalarValue::Float64(Some(v)) => ScalarValue::Float64(Some(v + by as f64)),
        // A cut text is a lower bound, and one with a great character behind it an upper bound.
        ScalarValue::Utf8View(Some(v)) if up => {
            let cut: String = v.chars().take(1).collect();
            ScalarValue::Utf8View(Some(format!("{cut}\u{10ffff}\u{10ffff}")))
        }
        ScalarValue::Utf8View(Some(v)) => ScalarValue::Utf8View(Some(v.chars().take(1).collect())),
        other => other.clone(),
    }
}

/// Returns a Bloom filter that holds the values of a column as Parquet stores them.
fn bloom(array: &ArrayRef) -> Option<Sbbf> {
    let mut bloom = Sbbf::new_with_num_of_bytes(256);
    if let Some(values) = array.as_any().downcast_ref::<Int32Array>() {
        values.iter().flatten().for_each(|v| bloom.insert(&v));
    } else if let Some(values) = array.as_any().downcast_ref::<Int64Array>() {
        values.iter().flatten().for_each(|v| bloom.insert(&v));
    } else if let Some(values) = array.as_any().downcast_ref::<StringViewArray>() {
        values.iter().flatten().for_each(|v| bloom.insert(v));
    } else {
        assert!(array.as_any().is::<Float64Array>(), "a type that the test has no filter for");
        return None;
    }
    Some(bloom)
}

#[test]
fn a_row_that_passes_is_never_left_out() {
    let schema: SchemaRef = Arc::new(Schema::new(vec![
        Field::new("i", DataType::Int64, true),
        Field::new("n", DataType::Int32, true),
        Field::new("s", DataType::Utf8View, true),
        Field::new("x", DataType::Float64, true),
        Field::new("y", DataType::Float64, true),
        Field::new("z", DataType::Float64, true),
    ]));
    let mut random = Random(input::Random(0x9E37_79B9_7F4A_7C15));
    let (mut groups, mut runs, mut all) = (0, 0, 0);
    for case in 0..6_000 {
        let rows = 2 + random.below(40);
        let batch = random.rows(&schema, rows);
        let zones = random.zones(&batch);
        let depth = random.below(4);
        let predicate = random.predicate(&schema, depth);
        let Ok(passes) = predicate.evaluate(&batch).and_then(|passes| passes.into_array(rows)) else { continue };
        let passes = passes.as_boolean();
        let passing: Vec<usize> = (0..rows).filter(|row| passes.is_valid(*row) && passes.value(*row)).collect();
        let found = kept(&predicate, &schema, &zones);
        let lost = |row: &&usize| match &found {
            Kept::Nothing => true,
            Kept::All => false,
            Kept::Rows(rows, _) => !rows.value(**row),
        };
        if let Some(row) = passing.iter().find(lost) {
            panic!("case {case}: row {row} passes {predicate} and is left out: {found:?}\n{batch:?}\n{zones:?}");
        }
        match found {
            Kept::Nothing => groups += 1,
            Kept::Rows(..) => runs += 1,
            Kept::All => all += 1,
        }
    }
    assert!(groups > 300 && runs > 300 && all > 300, "left out: {groups} row groups, runs of {runs}, nothing of {all}");
}

#[test]
fn a_filter_that_learns_is_asked_anew() {
    use datafusion::physical_expr::expressions::{DynamicFilterPhysicalExpr, lit};

    let schema: SchemaRef = Arc::new(Schema::new(vec![Field::new("c", DataType::Int64, true)]));
    let group = Some(stats(&[Zone { min: whole(10), max: whole(20), nulls: Some(0), rows: 100 }]));
    let given = ColumnGiven { pages: group.clone(), group, ..ColumnGiven::default() };
    let zones = Given { rows: 100, columns: BTreeMap::from([("c".to_string(), given)]) };
    let filter = Arc::new(DynamicFilterPhysicalExpr::new(vec![column("c", &schema)], lit(true)));
    let mut pruner = GroupPruner::new(&[Arc::clone(&filter) as Predicate], &schema);
    assert!(pruner.predicate().is_none(), "a filter that lets everything pass leaves out nothing");
    filter.update(binary(column("c", &schema), Operator::Lt, literal(whole(10)))).unwrap();
    let predicate = pruner.predicate().expect("the filter has learned a bound");
    assert!(matches!(keeps(&predicate, &zones), Kept::Nothing));
    let again = pruner.predicate().expect("the filter has not changed");
    assert!(Arc::ptr_eq(&predicate, &again), "built once for each state of the filter");
}

#[test]
fn a_condition_over_many_columns_is_left_out() {
    let names: Vec<String> = (0..100).map(|at| format!("c{at}")).collect();
    let schema: SchemaRef =
        Arc::new(Schema::new(names.iter().map(|name| Field::new(name, DataType::Int64, true)).collect::<Vec<_>>()));
    let is_one = |name: &String| binary(column(name, &schema), Operator::Eq, literal(whole(1)));
    let any = names.iter().map(is_one).reduce(|left, right| binary(left, Operator::Or, right)).unwrap();
    assert!(GroupPruner::new(&[Arc::clone(&any)], &schema).predicate().is_none());
    let both = binary(any, Operator::And, is_one(&names[7]));
    let predicate = GroupPruner::new(&[both], &schema).predicate().expect("one condition has one column");
    assert_eq!(predicate.orig_expr().to_string(), "c7@7 = 1");
}
