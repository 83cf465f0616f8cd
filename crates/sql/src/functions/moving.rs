//! Aggregates over moving frames: `OVER (ORDER BY k ROWS BETWEEN 2 PRECEDING AND CURRENT ROW)`.
//!
//! DataFusion wants accumulators that can retract rows. Most aggregates cannot, and those over floats must not: `1e17 +
//! 3 - 1e17` is 0, and no subtraction removes a NaN from a sum. So a frame keeps its rows and is computed from scratch
//! for each row of the window. In a long frame, whole blocks of rows are represented by their partial states:
//!
//! ```text
//! leaving: rows of the oldest block | states of "a block and all after it" | entering: one state of all | last rows
//! ```
//!
//! Rows leave on the left and enter on the right. When nothing remains on the left, the blocks on the right become the
//! left, and their states are computed from the newest to the oldest. So a row takes part in few states, whatever the
//! frame's length. States are merged in the order of their rows. Frames of fewer than [`BLOCK`] rows have no states:
//! their values are those that the rows give by themselves.
//!
//! Aggregates that count their rows, or keep them sorted ([`super::sorted`]), can retract rows exactly. They have
//! sliding accumulators of their own.

use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef};
use arrow::compute::concat;
use arrow::datatypes::{FieldRef, SchemaRef};
use datafusion::common::{Result, ScalarValue, internal_err};
use datafusion::logical_expr::function::AccumulatorArgs;
use datafusion::logical_expr::{Accumulator, AggregateUDF};
use datafusion::physical_expr::{PhysicalExpr, PhysicalSortExpr};

use super::still_wanted;

/// The number of rows that are accumulated one by one; as many make a block with a state.
const BLOCK: usize = 256;

/// The largest number of pieces in which the last rows lie before they are concatenated.
const PIECES: usize = 16;

/// The largest size of a state in bytes. Aggregates that collect values, like ARRAY_AGG, have states as large as their
/// rows, which save nothing.
const STATE_BYTES: usize = 64 << 10;

/// A maker of accumulators for one call.
pub(crate) struct Maker {
    function: Arc<AggregateUDF>,
    return_field: FieldRef,
    schema: SchemaRef,
    ignore_nulls: bool,
    order_bys: Vec<PhysicalSortExpr>,
    is_reversed: bool,
    name: String,
    is_distinct: bool,
    exprs: Vec<Arc<dyn PhysicalExpr>>,
    expr_fields: Vec<FieldRef>,
}

impl fmt::Debug for Maker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Maker").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Maker {
    /// Creates a maker for `function` with the arguments `args`.
    pub(crate) fn new(function: &Arc<AggregateUDF>, args: &AccumulatorArgs) -> Self {
        Maker {
            function: Arc::clone(function),
            return_field: Arc::clone(&args.return_field),
            schema: Arc::new(args.schema.clone()),
            ignore_nulls: args.ignore_nulls,
            order_bys: args.order_bys.to_vec(),
            is_reversed: args.is_reversed,
            name: args.name.to_string(),
            is_distinct: args.is_distinct,
            exprs: args.exprs.to_vec(),
            expr_fields: args.expr_fields.to_vec(),
        }
    }

    /// Returns the maker without DISTINCT.
    pub(crate) fn of_all_values(mut self) -> Self {
        self.is_distinct = false;
        self
    }

    /// Returns an accumulator without rows.
    pub(crate) fn make(&self) -> Result<Box<dyn Accumulator>> {
        self.function.accumulator(AccumulatorArgs {
            return_field: Arc::clone(&self.return_field),
            schema: &self.schema,
            ignore_nulls: self.ignore_nulls,
            order_bys: &self.order_bys,
            is_reversed: self.is_reversed,
            name: &self.name,
            is_distinct: self.is_distinct,
            exprs: &self.exprs,
            expr_fields: &self.expr_fields,
        })
    }
}

/// Returns the accumulator of a moving frame, for any aggregate.
pub(crate) fn moving(function: &Arc<AggregateUDF>, args: &AccumulatorArgs) -> Box<dyn Accumulator> {
    Box::new(Moving {
        maker: Maker::new(function, args),
        leaving: VecDeque::new(),
        left: 0,
        entering: VecDeque::new(),
        entered: None,
        last: VecDeque::new(),
        last_rows: 0,
        summed: true,
    })
}

/// The columns of some rows.
type Rows = Vec<ArrayRef>;

/// A partial state, as columns of one row.
type State = Vec<ArrayRef>;

/// Rows that have a common state, in a frame that is long enough.
#[derive(Debug)]
struct Block {
    rows: Rows,
    /// The state of these rows and of all later blocks in `leaving`; only for blocks in `leaving`.
    onwards: Option<State>,
}

#[derive(Debug)]
struct Moving {
    maker: Maker,
    /// The blocks that leave next.
    leaving: VecDeque<Block>,
    /// The number of rows of the first of these blocks that have left.
    left: usize,
    /// The blocks after those.
    entering: VecDeque<Block>,
    /// The state of all of `entering`.
    entered: Option<State>,
    /// The rows after all blocks, in pieces.
    last: VecDeque<Rows>,
    last_rows: usize,
    /// Whether states are small enough to be used.
    summed: bool,
}

fn length(rows: &Rows) -> usize {
    rows.first().map_or(0, |column| column.len())
}

fn slice(rows: &Rows, from: usize, length: usize) -> Rows {
    rows.iter().map(|column| column.slice(from, length)).collect()
}

fn joined(pieces: &VecDeque<Rows>) -> Result<Rows> {
    let columns = pieces.front().map_or(0, Vec::len);
    let column = |at: usize| -> Vec<&dyn Array> { pieces.iter().map(|rows| rows[at].as_ref()).collect() };
    (0..columns).map(|at| Ok(concat(&column(at))?)).collect()
}

impl Moving {
    /// Returns the state of an accumulator that `fill` fills; `None`, and states are given up, if it is large.
    fn state_of(&mut self, fill: impl FnOnce(&mut dyn Accumulator) -> Result<()>) -> Result<Option<State>> {
        let mut accumulator = self.maker.make()?;
        fill(accumulator.as_mut())?;
        let state = accumulator.state()?;
        if state.iter().map(ScalarValue::size).sum::<usize>() > STATE_BYTES {
            self.summed = false;
            self.entered = None;
            self.leaving.iter_mut().for_each(|block| block.onwards = None);
            return Ok(None);
        }
        state.iter().map(|value| value.to_array_of_size(1)).collect::<Result<_>>().map(Some)
    }

    /// Makes a block of the last rows once there are enough of them.
    fn settle(&mut self) -> Result<()> {
        if self.last_rows < BLOCK {
            if self.last.len() > PIECES {
                self.last = VecDeque::from([joined(&self.last)?]);
            }
            return Ok(());
        }
        let rows = match self.last.len() {
            1 => self.last.pop_front().unwrap_or_default(),
            _ => joined(&self.last)?,
        };
        self.last.clear();
        let mut from = 0;
        while self.last_rows - from >= BLOCK {
            let block = slice(&rows, from, BLOCK);
            if self.summed {
                let before = self.entered.take();
                self.entered = self.state_of(|accumulator| {
                    before.map_or(Ok(()), |state| accumulator.merge_batch(&state))?;
                    accumulator.update_batch(&block)
                })?;
            }
            self.entering.push_back(Block { rows: block, onwards: None });
            from += BLOCK;
        }
        self.last_rows -= from;
        if self.last_rows > 0 {
            self.last.push_back(slice(&rows, from, self.last_rows));
        }
        Ok(())
    }

    /// Moves the blocks that have entered to the side that leaves next.
    fn turn(&mut self) -> Result<()> {
        self.leaving = std::mem::take(&mut self.entering);
        self.entered = None;
        self.left = 0;
        let mut behind: Option<State> = None;
        for at in (0..self.leaving.len()).rev() {
            if !self.summed {
                break;
            }
            let rows = self.leaving[at].rows.clone();
            let onwards = self.state_of(|accumulator| {
                accumulator.update_batch(&rows)?;
                behind.take().map_or(Ok(()), |state| accumulator.merge_batch(&state))
            })?;
            behind.clone_from(&onwards);
            self.leaving[at].onwards = onwards;
        }
        Ok(())
    }

    /// Returns an accumulator with the rows of the frame.
    fn whole(&self) -> Result<Box<dyn Accumulator>> {
        let mut accumulator = self.maker.make()?;
        let mut known = false;
        for (at, block) in self.leaving.iter().enumerate() {
            let left = if at == 0 { self.left } else { 0 };
            match &block.onwards {
                Some(state) if left == 0 => {
                    accumulator.merge_batch(state)?;
                    known = true;
                }
                _ => accumulator.update_batch(&slice(&block.rows, left, length(&block.rows) - left))?,
            }
            if known {
                break;
            }
        }
        match &self.entered {
            Some(state) => accumulator.merge_batch(state)?,
            None => self.entering.iter().try_for_each(|block| accumulator.update_batch(&block.rows))?,
        }
        self.last.iter().try_for_each(|rows| accumulator.update_batch(rows))?;
        Ok(accumulator)
    }
}

impl Accumulator for Moving {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let rows = values.to_vec();
        self.last_rows += length(&rows);
        if length(&rows) > 0 {
            self.last.push_back(rows);
        }
        self.settle()
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let mut gone = values.first().map_or(0, |column| column.len());
        while gone > 0 {
            if self.leaving.is_empty() && !self.entering.is_empty() {
                self.turn()?;
            }
            if let Some(block) = self.leaving.front() {
                let there = length(&block.rows) - self.left;
                if gone < there {
                    self.left += gone;
                    return Ok(());
                }
                gone -= there;
                self.leaving.pop_front();
                self.left = 0;
            } else if let Some(rows) = self.last.pop_front() {
                let there = length(&rows);
                let here = gone.min(there);
                if here < there {
                    self.last.push_front(slice(&rows, here, there - here));
                }
                self.last_rows -= here;
                gone -= here;
            } else {
                return internal_err!("{gone} rows leave a frame that they have not entered");
            }
        }
        Ok(())
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        still_wanted()?;
        self.whole()?.evaluate()
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        self.whole()?.state()
    }

    fn merge_batch(&mut self, _: &[ArrayRef]) -> Result<()> {
        internal_err!("a moving frame has no partial states: {}", self.maker.name)
    }

    fn size(&self) -> usize {
        let bytes = |columns: &Vec<ArrayRef>| -> usize {
            columns.iter().map(|c| c.to_data().get_slice_memory_size().unwrap_or(0)).sum()
        };
        let blocks = self.leaving.iter().chain(&self.entering);
        let rows = |block: &Block| bytes(&block.rows) + block.onwards.as_ref().map_or(0, bytes);
        size_of_val(self)
            + blocks.map(rows).sum::<usize>()
            + self.last.iter().map(bytes).sum::<usize>()
            + self.entered.as_ref().map_or(0, bytes)
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::{BinaryViewArray, Float64Array, Int64Array, StringViewArray};
    use arrow::datatypes::{DataType, Field, Schema};
    use datafusion::execution::FunctionRegistry;
    use datafusion::logical_expr::registry::MemoryFunctionRegistry;
    use datafusion::physical_expr::expressions::{Column, lit};
    use dipper_base::sketch::bitmap_to_bytes;
    use proptest::prelude::*;

    use super::*;
    use crate::charter::aggregates::{avg, sum};

    /// The columns `x`, `y`, `s`, `n` and `b` of all frames.
    fn schema() -> Schema {
        let field = |name: &str, t| Field::new(name, t, true);
        Schema::new(vec![
            field("x", DataType::Float64),
            field("y", DataType::Float64),
            field("s", DataType::Utf8View),
            field("n", DataType::Int64),
            field("b", DataType::BinaryView),
        ])
    }

    /// Returns the maker for these arguments: columns by number, followed by constants.
    fn maker(function: &Arc<AggregateUDF>, columns: &[usize], constants: &[ScalarValue]) -> Maker {
        let schema = schema();
        let column = |at: &usize| Arc::new(Column::new(schema.field(*at).name(), *at)) as Arc<dyn PhysicalExpr>;
        let columns = columns.iter().map(column);
        let constants = constants.iter().map(|value| lit(value.clone()));
        let exprs: Vec<Arc<dyn PhysicalExpr>> = columns.chain(constants).collect();
        let fields: Vec<FieldRef> = exprs.iter().map(|e| e.return_field(&schema).unwrap()).collect();
        let return_field = function.return_field(&fields).unwrap();
        Maker::new(
            function,
            &AccumulatorArgs {
                return_field,
                schema: &schema,
                ignore_nulls: false,
                order_bys: &[],
                is_reversed: false,
                name: function.name(),
                is_distinct: false,
                exprs: &exprs,
                expr_fields: &fields,
            },
        )
    }

    /// Compares the value of each frame by itself with that of the accumulator that moves from one to the next.
    fn compare(maker: Maker, arguments: &[ArrayRef], frames: &[(usize, usize)]) {
        let fields = maker.expr_fields.clone();
        let args = AccumulatorArgs {
            return_field: Arc::clone(&maker.return_field),
            schema: &maker.schema,
            ignore_nulls: false,
            order_bys: &[],
            is_reversed: false,
            name: &maker.name,
            is_distinct: maker.is_distinct,
            exprs: &maker.exprs,
            expr_fields: &fields,
        };
        let mut moving = maker.function.create_sliding_accumulator(args).unwrap();
        let part = |from: usize, to: usize| slice(&arguments.to_vec(), from, to - from);
        let (mut from, mut to) = (0, 0);
        for frame in frames {
            moving.update_batch(&part(to, frame.1)).unwrap();
            moving.retract_batch(&part(from, frame.0)).unwrap();
            (from, to) = *frame;
            let found = moving.evaluate().unwrap();
            let mut anew = maker.make().unwrap();
            anew.update_batch(&part(from, to)).unwrap();
            let wanted = anew.evaluate().unwrap();
            let same = match (&found, &wanted) {
                (ScalarValue::Float64(Some(a)), ScalarValue::Float64(Some(b))) => {
                    // Rows of long frames are added in another order. So are those of short ones where only one of the
                    // two arrays has a bitmap of NULLs: Arrow's kernels then add in other lanes.
                    a == b || a.is_nan() && b.is_nan() || (a - b).abs() <= 1e-9 * a.abs().max(b.abs()).max(1e-3)
                }
                _ => found == wanted,
            };
            assert!(same, "{} of {from}..{to}: {found}, by itself {wanted}", maker.name);
        }
    }

    /// Returns frames whose ends never move backwards.
    fn frames(steps: &[(usize, usize)], rows: usize) -> Vec<(usize, usize)> {
        let (mut from, mut to) = (0, 0);
        let next = |(forth, after): &(usize, usize)| {
            to = (to + after).min(rows);
            from = (from + forth).min(to);
            (from, to)
        };
        steps.iter().map(next).collect()
    }

    /// Compares all functions over the same rows.
    fn compare_all(x: Vec<Option<f64>>, y: Vec<Option<f64>>, frames: &[(usize, usize)]) {
        let mut registry = MemoryFunctionRegistry::new();
        crate::functions::aggregate::register(&mut registry).unwrap();
        crate::functions::top::register(&mut registry).unwrap();
        crate::functions::sketch_aggregate::register(&mut registry).unwrap();
        let texts: ArrayRef = Arc::new(x.iter().map(|x| x.map(|x| format!("{x:.0}"))).collect::<StringViewArray>());
        let share: ArrayRef = Arc::new(Float64Array::from(vec![0.3; x.len()]));
        let three: ArrayRef = Arc::new(Int64Array::from(vec![3; x.len()]));
        let whole = x.iter().map(|x| x.map(|x| x as i64));
        let numbers: ArrayRef = Arc::new(whole.clone().collect::<Int64Array>());
        // Sets of one member, of a few, and of many.
        let set = |x: i64| {
            bitmap_to_bytes(&(0..x % 100 + 1).map(|member| x.wrapping_mul(3).wrapping_add(member) as u64).collect())
        };
        let sets: ArrayRef = Arc::new(whole.map(|x| x.map(set)).collect::<BinaryViewArray>());
        let comparable = x.iter().map(|x| x.filter(|x| !x.is_nan()));
        let comparable: ArrayRef = Arc::new(comparable.collect::<Float64Array>());
        let x: ArrayRef = Arc::new(Float64Array::from(x));
        let y: ArrayRef = Arc::new(Float64Array::from(y));
        for function in [sum(), avg()] {
            compare(maker(&function, &[0], &[]), std::slice::from_ref(&x), frames);
        }
        for name in ["stddev_pop", "stddev_samp", "var_pop", "var_samp", "max", "min", "any_value"] {
            compare(maker(&registry.udaf(name).unwrap(), &[0], &[]), std::slice::from_ref(&x), frames);
        }
        for name in ["covar_pop", "covar_samp", "corr", "regr_slope", "regr_avgx", "max_by", "min_by"] {
            let both = [Arc::clone(&x), Arc::clone(&y)];
            compare(maker(&registry.udaf(name).unwrap(), &[0, 1], &[]), &both, frames);
        }
        compare(maker(&registry.udaf("median").unwrap(), &[0], &[]), &[comparable], frames);
        let mut counts = maker(&crate::functions::count_distinct(), &[0, 1], &[]);
        counts.is_distinct = true;
        compare(counts, &[Arc::clone(&x), Arc::clone(&y)], frames);
        let most = maker(&registry.udaf("topn").unwrap(), &[2], &[ScalarValue::Int64(Some(3))]);
        compare(most, &[Arc::clone(&texts), three], frames);
        compare(maker(&registry.udaf("bitmap_union_int").unwrap(), &[3], &[]), &[numbers], frames);
        for name in ["bitmap_union", "bitmap_union_count"] {
            compare(maker(&registry.udaf(name).unwrap(), &[4], &[]), std::slice::from_ref(&sets), frames);
        }
        let constant = [ScalarValue::Float64(Some(0.3))];
        compare(maker(&registry.udaf("percentile_cont").unwrap(), &[0], &constant), &[Arc::clone(&x), share], frames);
        compare(maker(&registry.udaf("array_agg").unwrap(), &[2], &[]), std::slice::from_ref(&texts), frames);
        compare(maker(&registry.udaf("approx_distinct").unwrap(), &[2], &[]), std::slice::from_ref(&texts), frames);
    }

    fn number() -> impl Strategy<Value = Option<f64>> {
        prop_oneof![
            6 => (-9..9_i32).prop_map(|x| Some(f64::from(x) / 4.0)),
            1 => Just(Some(1e17)),
            1 => Just(Some(f64::NAN)),
            1 => Just(Some(f64::INFINITY)),
            1 => Just(Some(-0.0)),
            2 => Just(None),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        #[test]
        fn short_frames_are_what_they_are_alone(
            x in prop::collection::vec(number(), 40),
            y in prop::collection::vec(number(), 40),
            steps in prop::collection::vec((0..4_usize, 0..4_usize), 30),
        ) {
            compare_all(x, y, &frames(&steps, 40));
        }

        #[test]
        fn long_frames_are_what_they_are_alone(
            seed: u32,
            steps in prop::collection::vec((0..200_usize, 0..240_usize), 20),
        ) {
            let rows = 4000;
            let mut state = u64::from(seed) + 1;
            let mut next = || {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                (state >> 40) % 1000
            };
            let mut column = || -> Vec<Option<f64>> {
                (0..rows).map(|_| Some(next()).filter(|n| n % 13 > 0).map(|n| n as f64 / 8.0)).collect()
            };
            let (x, y) = (column(), column());
            compare_all(x, y, &frames(&steps, rows));
        }
    }

    #[test]
    fn more_rows_leave_than_have_entered() {
        let maker = maker(&sum(), &[0], &[]);
        let args_of = maker.expr_fields.clone();
        let mut moving = moving(
            &sum(),
            &AccumulatorArgs {
                return_field: Arc::clone(&maker.return_field),
                schema: &maker.schema,
                ignore_nulls: false,
                order_bys: &[],
                is_reversed: false,
                name: "sum",
                is_distinct: false,
                exprs: &maker.exprs,
                expr_fields: &args_of,
            },
        );
        let rows: ArrayRef = Arc::new(Float64Array::from(vec![1.0, 2.0]));
        moving.update_batch(&[rows.slice(0, 1)]).unwrap();
        assert!(moving.retract_batch(&[rows]).is_err());
    }
}
