//! The choice of tablets beside the evaluation of the filters on rows: a row that passes is in a chosen tablet.

use std::collections::BTreeMap;

use arrow::array::{Array, AsArray, BooleanArray};
use arrow::record_batch::RecordBatch;
use datafusion::common::{DFSchema, TableReference};
use datafusion::logical_expr::execution_props::ExecutionProps;
use datafusion::logical_expr::physical_planning_context::PhysicalPlanningContext;
use datafusion::logical_expr::{Between, Cast, col, in_list, lit, not};
use datafusion::physical_expr::create_physical_expr;
use dipper_base::types::SqlType;
use dipper_store::route::{NOWHERE, Routed};
use dipper_store::table::schema::{Bounds, Distribution, Model, PartitionBy, PartitionKind, Values};

use super::*;

#[path = "../../../../tests/support/input.rs"]
mod input;

const NAMES: [&str; 3] = ["k", "s", "d"];

fn columns() -> Vec<TableColumn> {
    let types = [SqlType::BigInt, SqlType::Varchar(None), SqlType::Date];
    let named = NAMES.iter().zip(types).enumerate();
    named.map(|(id, (name, data_type))| TableColumn::new(id as ColumnId, *name, data_type, true)).collect()
}

fn partition(id: PartitionId, bounds: Bounds, buckets: u32) -> Arc<Partition> {
    let (name, properties) = (format!("p{id}"), BTreeMap::new());
    Arc::new(Partition { id, name, bounds, buckets, temporary: false, properties })
}

fn one(text: &str) -> Values {
    vec![Some(text.to_string())]
}

/// A table with rows, all of which have a partition.
struct Table {
    schema: TableSchema,
    partitions: Vec<Arc<Partition>>,
    rows: RecordBatch,
}

impl Table {
    fn new(schema: TableSchema, partitions: Vec<Arc<Partition>>, rows: RecordBatch) -> Self {
        Table { schema, partitions, rows }
    }

    fn chosen(&self, filters: &[Expr]) -> Tablets {
        tablets_of(&self.schema, &self.partitions, &[], false, filters).unwrap()
    }

    /// Returns the tablet of each row.
    fn tablets(&self) -> Vec<Option<Tablet>> {
        let router = Router::try_new(&self.schema, &self.partitions).unwrap();
        match router.route(&self.rows, 0).unwrap() {
            Routed::One(number) => vec![Some(router.tablet(number)); self.rows.num_rows()],
            Routed::Rows(of) => of.iter().map(|n| (*n != NOWHERE).then(|| router.tablet(*n))).collect(),
        }
    }

    /// Evaluates a filter on all rows; `None` if it cannot be evaluated.
    fn passes(&self, filter: &Expr) -> Option<BooleanArray> {
        let schema = DFSchema::try_from_qualified_schema(TableReference::bare("t"), &self.rows.schema()).unwrap();
        let physical =
            create_physical_expr(filter, &schema, &ExecutionProps::new(), &PhysicalPlanningContext::default()).ok()?;
        let passes = physical.evaluate(&self.rows).and_then(|v| v.into_array(self.rows.num_rows())).ok()?;
        Some(passes.as_boolean().clone())
    }
}

fn big(value: i64) -> Expr {
    lit(value)
}

#[test]
fn conditions_choose_partitions_and_buckets() {
    let mut schema = TableSchema::new(Model::Duplicate, columns(), 1);
    schema.partition_by = Some(PartitionBy { kind: PartitionKind::Range, columns: vec![0], auto: None });
    schema.distribution = Distribution::Hash(vec![0]);
    let ranges = [(0, None, Some("10")), (1, Some("10"), Some("20")), (2, Some("20"), Some("30"))];
    let partitions: Vec<_> = ranges
        .into_iter()
        .map(|(id, lower, upper)| partition(id, Bounds::range(lower.map(one), upper.map(one)), 4))
        .collect();
    let table = Table::new(schema.clone(), partitions, RecordBatch::new_empty(schema.arrow()));
    let of = |filters: &[Expr]| {
        let mut all: Vec<(PartitionId, usize)> = table
            .chosen(filters)
            .0
            .into_iter()
            .map(|(id, buckets)| match buckets {
                Buckets::All => (id, 4),
                Buckets::Some(some) => (id, some.len()),
            })
            .collect();
        all.sort_unstable();
        all
    };
    let all = vec![(0, 4), (1, 4), (2, 4)];
    assert_eq!(of(&[]), all);
    assert_eq!(of(&[col("k").gt(big(9))]), [(1, 4), (2, 4)]);
    assert_eq!(of(&[big(9).gt(col("k"))]), [(0, 4)]);
    assert_eq!(of(&[col("k").gt_eq(big(10)), col("k").lt(big(20))]), [(1, 4)]);
    assert_eq!(of(&[col("k").between(big(19), big(20))]), [(1, 4), (2, 4)]);
    assert_eq!(of(&[col("k").eq(big(15))]), [(1, 1)]);
    assert_eq!(
        of(&[in_list(col("k"), vec![big(5), big(25)], false)]).iter().map(|(id, _)| *id).collect::<Vec<_>>(),
        [0, 2]
    );
    assert!(of(&[col("k").eq(big(99))]).is_empty());
    // What says nothing about single columns, or is no conjunction, chooses nothing.
    assert_eq!(of(&[col("k").lt(big(5)).or(col("k").gt(big(25)))]), all);
    assert_eq!(of(&[not(col("k").eq(big(15)))]), all);
    assert_eq!(of(&[col("k").is_null()]), all);
    assert_eq!(of(&[col("k").not_eq(big(15))]), all);
    assert_eq!(of(&[col("k").eq(lit(15_i32))]), all, "a value of another type");
    assert_eq!(of(&[in_list(col("k"), vec![big(5)], true)]), all);
    // The second condition cannot be met beside the first, which chooses still.
    assert_eq!(of(&[col("k").gt(big(15)), col("k").gt(big(5))]), [(1, 4), (2, 4)]);
}

struct Random(input::Random);

impl Random {
    fn below(&mut self, count: usize) -> usize {
        (self.0.draw() >> 11) as usize % count
    }

    fn one_in(&mut self, count: usize) -> bool {
        self.below(count) == 0
    }

    fn value(&mut self, column: usize) -> ScalarValue {
        let n = self.below(8) as i64;
        match column {
            0 => ScalarValue::Int64(Some(n - 2)),
            1 => ScalarValue::Utf8View(Some(["", "a", "ab", "b", "ba", "c", "é", "z"][n as usize].into())),
            _ => ScalarValue::Date32(Some(n as i32 + 19_000)),
        }
    }

    fn operand(&mut self, column: usize) -> Expr {
        let value = self.value(column);
        match self.below(10) {
            0 => lit(ScalarValue::try_from(value.data_type()).unwrap()),
            _ => lit(value),
        }
    }

    fn filter(&mut self, depth: usize) -> Expr {
        if depth > 0 && self.one_in(2) {
            let (one, other) = (self.filter(depth - 1), self.filter(depth - 1));
            return match self.below(4) {
                0 => not(one),
                1 => one.or(other),
                _ => one.and(other),
            };
        }
        let column = self.below(NAMES.len());
        let own = col(NAMES[column]);
        match self.below(9) {
            0 => own.is_null(),
            1 => own.is_not_null(),
            2 => {
                let list = (0..1 + self.below(4)).map(|_| self.operand(column)).collect();
                in_list(own, list, self.one_in(4))
            }
            3 => {
                let (low, high) = (self.operand(column), self.operand(column));
                Expr::Between(Between::new(Box::new(own), self.one_in(4), Box::new(low), Box::new(high)))
            }
            4 if column == 0 => {
                let cast = Expr::Cast(Cast::new(Box::new(own), arrow::datatypes::DataType::Float64));
                cast.lt(lit(self.below(6) as f64))
            }
            _ => {
                use Operator::{Eq, Gt, GtEq, IsDistinctFrom, IsNotDistinctFrom, Lt, LtEq, NotEq};
                let all = [Eq, NotEq, Lt, LtEq, Gt, GtEq, IsDistinctFrom, IsNotDistinctFrom];
                let (op, value) = (all[self.below(all.len())], self.operand(column));
                let (left, right) = if self.one_in(3) { (value, own) } else { (own, value) };
                Expr::BinaryExpr(BinaryExpr::new(Box::new(left), op, Box::new(right)))
            }
        }
    }

    fn table(&mut self) -> Table {
        let mut schema = TableSchema::new(Model::Duplicate, columns(), 1);
        let by: Vec<ColumnId> = [vec![0], vec![1], vec![2], vec![0, 1], vec![1, 2]][self.below(5)].clone();
        schema.distribution = match self.below(5) {
            0 => Distribution::Random,
            1 => Distribution::Hash(vec![1]),
            2 => Distribution::Hash(vec![0, 2]),
            3 => Distribution::Hash(vec![2, 1, 0]),
            _ => Distribution::Hash(vec![0]),
        };
        let text = |value: &ScalarValue| match value {
            ScalarValue::Date32(Some(_)) => value
                .to_array()
                .ok()
                .map(|array| arrow::util::display::array_value_to_string(&array, 0).expect("a date has a text")),
            value if value.is_null() => None,
            value => Some(value.to_string()),
        };
        let partitions = match self.below(3) {
            0 => vec![partition(0, Bounds::All, 5)],
            1 => {
                schema.partition_by = Some(PartitionBy { kind: PartitionKind::Range, columns: by.clone(), auto: None });
                // Bounds by the first column only: they have fewer values than there are columns.
                let mut bounds: Vec<ScalarValue> = (0..3).map(|_| self.value(by[0] as usize)).collect();
                bounds.sort_by(|a, b| a.partial_cmp(b).expect("values of one type"));
                bounds.dedup();
                let texts: Vec<_> = bounds.iter().map(|bound| Some(vec![text(bound)])).collect();
                let lowers = std::iter::once(None).chain(texts.iter().cloned());
                let uppers = texts.iter().cloned().chain([None]);
                let ranges = lowers.zip(uppers).enumerate();
                ranges
                    .map(|(id, (from, to))| partition(id as PartitionId, Bounds::range(from, to), 1 + id as u32))
                    .collect()
            }
            _ => {
                schema.partition_by = Some(PartitionBy { kind: PartitionKind::List, columns: by.clone(), auto: None });
                let mut lists: Vec<Vec<Values>> = vec![Vec::new(); 3];
                let mut seen: Vec<Values> = Vec::new();
                for _ in 0..12 {
                    let tuple: Values = by
                        .iter()
                        .map(|column| if self.one_in(6) { None } else { text(&self.value(*column as usize)) })
                        .collect();
                    if !seen.contains(&tuple) {
                        seen.push(tuple.clone());
                        lists[self.below(3)].push(tuple);
                    }
                }
                let lists = lists.into_iter().filter(|list| !list.is_empty()).enumerate();
                lists.map(|(id, list)| partition(id as PartitionId, Bounds::List(list), 3)).collect()
            }
        };
        let count = 40;
        let arrays = (0..NAMES.len()).map(|column| {
            let values = (0..count).map(|_| match self.one_in(6) {
                true => ScalarValue::try_from(self.value(column).data_type()).unwrap(),
                false => self.value(column),
            });
            ScalarValue::iter_to_array(values.collect::<Vec<_>>()).unwrap()
        });
        let rows = RecordBatch::try_new(schema.arrow(), arrays.collect()).unwrap();
        Table::new(schema, partitions, rows)
    }
}

#[test]
fn a_row_that_passes_is_in_a_chosen_tablet() {
    let mut random = Random(input::Random(0x5851_F42D_4C95_7F2D));
    let (mut left_out, mut tried) = (0, 0);
    for case in 0..3_000 {
        let table = random.table();
        let filters: Vec<Expr> = (0..1 + random.below(3)).map(|_| random.filter(2)).collect();
        let Some(passes) = filters.iter().map(|filter| table.passes(filter)).collect::<Option<Vec<_>>>() else {
            continue;
        };
        let chosen = table.chosen(&filters);
        tried += 1;
        for (row, tablet) in table.tablets().into_iter().enumerate() {
            let Some(tablet) = tablet else { continue };
            left_out += usize::from(!chosen.contains(tablet));
            let is_wanted = passes.iter().all(|passes| passes.is_valid(row) && passes.value(row));
            assert!(
                !is_wanted || chosen.contains(tablet),
                "case {case}: row {row} passes {filters:?}, its {tablet:?} is not in {chosen:?}\n{:?}\n{:?}",
                table.partitions,
                table.rows.slice(row, 1)
            );
        }
    }
    assert!(tried > 2_000 && left_out > 10_000, "{tried} tables were tried, {left_out} rows left out");
}
