//! VARIANCE, STDDEV, SEM, SKEW, KURT, COVAR, CORR, linear regression and AVG_WEIGHTED, computed from means and powers
//! of the deviations from them.
//!
//! No rows give NULL. A spread needs two rows: for one row it is 0, as in Doris, and so is the correlation with values
//! that are all equal. A regression line needs two rows with different values; with fewer there is none, as in standard
//! SQL.

use std::fmt::Debug;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray, BooleanArray, Float64Array, UInt64Array};
use arrow::buffer::NullBuffer;
use arrow::datatypes::{DataType, Field, FieldRef, Float64Type, UInt64Type};
use datafusion::common::{Result, ScalarValue, plan_err};
use datafusion::logical_expr::function::{AccumulatorArgs, StateFieldsArgs};
use datafusion::logical_expr::utils::{AggregateOrderSensitivity, format_state_name};
use datafusion::logical_expr::{
    Accumulator, AggregateUDF, AggregateUDFImpl, EmitTo, GroupsAccumulator, ReversedUDAF, Signature, Volatility,
};

use super::adapted::Adapted;
use super::args::counted;
use crate::type_text::Sql;

/// Returns the functions with their aliases.
pub(super) fn functions() -> Vec<Arc<AggregateUDF>> {
    use Statistic::{AvgWeighted, Corr, CovarPop, CovarSamp, Kurt, Sem, Skew, StddevPop, StddevSamp, VarPop, VarSamp};
    use Statistic::{RegrAvgx, RegrAvgy, RegrIntercept, RegrR2, RegrSlope, RegrSxx, RegrSxy, RegrSyy};
    let all: [(Statistic, &'static [&'static str]); 19] = [
        // In MySQL and Doris the bare names are those of the population.
        (VarPop, &["variance", "variance_pop", "var_population"]),
        (VarSamp, &["variance_samp", "var", "var_sample"]),
        (StddevPop, &["stddev", "std"]),
        (StddevSamp, &[]),
        (CovarPop, &["covar"]),
        (CovarSamp, &[]),
        (Corr, &["corr_welford"]),
        (Sem, &[]),
        (Skew, &["skew_pop", "skewness"]),
        (Kurt, &["kurt_pop", "kurtosis"]),
        (AvgWeighted, &[]),
        (RegrAvgx, &[]),
        (RegrAvgy, &[]),
        (RegrIntercept, &[]),
        (RegrR2, &[]),
        (RegrSlope, &[]),
        (RegrSxx, &[]),
        (RegrSxy, &[]),
        (RegrSyy, &[]),
    ];
    let made = all.into_iter().map(|(statistic, aliases)| {
        let aliases = aliases.iter().map(|alias| (*alias).to_owned()).collect();
        let signature = Signature::user_defined(Volatility::Immutable);
        let plain = AggregateUDF::new_from_impl(Function { statistic, aliases, signature });
        Adapted::new(Arc::new(plain)).distinct_rows().udaf()
    });
    made.collect()
}

/// A statistic of the rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Statistic {
    VarPop,
    VarSamp,
    StddevPop,
    StddevSamp,
    CovarPop,
    CovarSamp,
    Corr,
    Sem,
    Skew,
    Kurt,
    AvgWeighted,
    // For the regression functions, the first argument depends on the second.
    RegrAvgx,
    RegrAvgy,
    RegrIntercept,
    RegrR2,
    RegrSlope,
    RegrSxx,
    RegrSxy,
    RegrSyy,
}

impl Statistic {
    fn columns(self) -> usize {
        match self {
            Self::VarPop | Self::VarSamp | Self::StddevPop | Self::StddevSamp | Self::Sem => 1,
            Self::Skew | Self::Kurt => 1,
            _ => 2,
        }
    }

    /// Returns the kind of moments that the statistic needs.
    fn form(self) -> Form {
        match self {
            Self::Skew | Self::Kurt => Form::Shape,
            Self::AvgWeighted => Form::Weighted,
            one if one.columns() == 1 => Form::Spread,
            _ => Form::Pairs,
        }
    }

    /// Divides `sum` by the number of rows, or by one less for samples.
    fn spread(self, sum: f64, rows: u64) -> f64 {
        match self {
            Self::VarSamp | Self::StddevSamp | Self::CovarSamp | Self::Sem if rows == 1 => 0.0,
            Self::VarSamp | Self::StddevSamp | Self::CovarSamp | Self::Sem => sum / (rows - 1) as f64,
            _ => sum / rows as f64,
        }
    }
}

/// The kind of moments that is kept of rows.
enum Form {
    Spread,
    Shape,
    Weighted,
    Pairs,
}

#[derive(Debug, PartialEq, Eq, Hash)]
struct Function {
    statistic: Statistic,
    aliases: Vec<String>,
    signature: Signature,
}

impl AggregateUDFImpl for Function {
    fn name(&self) -> &str {
        match self.statistic {
            Statistic::VarPop => "var_pop",
            Statistic::VarSamp => "var_samp",
            Statistic::StddevPop => "stddev_pop",
            Statistic::StddevSamp => "stddev_samp",
            Statistic::CovarPop => "covar_pop",
            Statistic::CovarSamp => "covar_samp",
            Statistic::Corr => "corr",
            Statistic::Sem => "sem",
            Statistic::Skew => "skew",
            Statistic::Kurt => "kurt",
            Statistic::AvgWeighted => "avg_weighted",
            Statistic::RegrAvgx => "regr_avgx",
            Statistic::RegrAvgy => "regr_avgy",
            Statistic::RegrIntercept => "regr_intercept",
            Statistic::RegrR2 => "regr_r2",
            Statistic::RegrSlope => "regr_slope",
            Statistic::RegrSxx => "regr_sxx",
            Statistic::RegrSxy => "regr_sxy",
            Statistic::RegrSyy => "regr_syy",
        }
    }

    fn aliases(&self) -> &[String] {
        &self.aliases
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, arg_types: &[DataType]) -> Result<Vec<DataType>> {
        let (name, wanted) = (self.name(), self.statistic.columns());
        if arg_types.len() != wanted {
            return plan_err!("{name} takes {wanted} arguments, found {}", arg_types.len());
        }
        let number = |t: &DataType| t.is_numeric() || t.is_string() || t.is_null() || *t == DataType::Boolean;
        match arg_types.iter().find(|t| !number(t)) {
            Some(other) => plan_err!("{name}: expected a number, found {}; cast it to DOUBLE", Sql(other)),
            None => Ok(vec![DataType::Float64; wanted]),
        }
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Float64)
    }

    fn state_fields(&self, args: StateFieldsArgs) -> Result<Vec<FieldRef>> {
        let field = |name: &str, t| Arc::new(Field::new(format_state_name(args.name, name), t, true)) as FieldRef;
        let sums: &[&str] = match self.statistic.form() {
            Form::Spread => &["mean", "squares"],
            Form::Shape => &["mean", "squares", "cubes", "fourths"],
            Form::Weighted => &["products", "weights"],
            Form::Pairs => &["mean_x", "mean_y", "squares_x", "squares_y", "products"],
        };
        let sums = sums.iter().map(|name| field(name, DataType::Float64));
        Ok(std::iter::once(field("rows", DataType::UInt64)).chain(sums).collect())
    }

    fn accumulator(&self, _: AccumulatorArgs) -> Result<Box<dyn Accumulator>> {
        let statistic = self.statistic;
        Ok(match statistic.form() {
            Form::Spread => Box::new(One { statistic, moments: Spread::default() }),
            Form::Shape => Box::new(One { statistic, moments: Shape::default() }),
            Form::Weighted => Box::new(One { statistic, moments: Weighted::default() }),
            Form::Pairs => Box::new(One { statistic, moments: Pairs::default() }),
        })
    }

    fn groups_accumulator_supported(&self, args: AccumulatorArgs) -> bool {
        !args.is_distinct
    }

    fn create_groups_accumulator(&self, _: AccumulatorArgs) -> Result<Box<dyn GroupsAccumulator>> {
        let statistic = self.statistic;
        Ok(match statistic.form() {
            Form::Spread => Box::new(Many { statistic, moments: Vec::<Spread>::new() }),
            Form::Shape => Box::new(Many { statistic, moments: Vec::<Shape>::new() }),
            Form::Weighted => Box::new(Many { statistic, moments: Vec::<Weighted>::new() }),
            Form::Pairs => Box::new(Many { statistic, moments: Vec::<Pairs>::new() }),
        })
    }

    fn order_sensitivity(&self) -> AggregateOrderSensitivity {
        AggregateOrderSensitivity::Insensitive
    }

    fn reverse_expr(&self) -> ReversedUDAF {
        ReversedUDAF::Identical
    }
}

/// The moments of some rows, from which statistics are computed.
trait Moments: Copy + Default + Debug + Send + Sync + 'static {
    /// The number of numbers besides the number of rows.
    const SUMS: usize;

    fn rows(&self) -> u64;

    /// Returns the means and sums, in the order of the state.
    fn sums(&self) -> impl AsRef<[f64]>;

    fn of(rows: u64, sums: impl Fn(usize) -> f64) -> Self;

    /// Adds row `at` of the arguments.
    fn add(&mut self, columns: &[&[f64]], at: usize);

    fn merge(&mut self, other: &Self);

    /// Computes a statistic of at least one row.
    fn tell(&self, statistic: Statistic) -> Option<f64>;

    fn result(&self, statistic: Statistic) -> Option<f64> {
        if self.rows() > 0 { self.tell(statistic) } else { None }
    }
}

/// One column: its mean, and the sum of the squared deviations from it.
#[derive(Debug, Clone, Copy, Default)]
struct Spread {
    rows: u64,
    mean: f64,
    squares: f64,
}

impl Moments for Spread {
    const SUMS: usize = 2;

    fn rows(&self) -> u64 {
        self.rows
    }

    fn sums(&self) -> impl AsRef<[f64]> {
        [self.mean, self.squares]
    }

    fn of(rows: u64, sums: impl Fn(usize) -> f64) -> Self {
        Spread { rows, mean: sums(0), squares: sums(1) }
    }

    #[inline]
    fn add(&mut self, columns: &[&[f64]], at: usize) {
        let x = columns[0][at];
        self.rows += 1;
        let away = x - self.mean;
        self.mean += away / self.rows as f64;
        self.squares += away * (x - self.mean);
    }

    // If the means are equal, the mean stays the same to the last digit.
    fn merge(&mut self, other: &Self) {
        match (self.rows, other.rows) {
            (_, 0) => {}
            (0, _) => *self = *other,
            (mine, others) => {
                self.rows = mine + others;
                let share = others as f64 / self.rows as f64;
                let away = other.mean - self.mean;
                self.mean += away * share;
                self.squares += other.squares + away * away * mine as f64 * share;
            }
        }
    }

    fn tell(&self, statistic: Statistic) -> Option<f64> {
        let variance = statistic.spread(self.squares, self.rows);
        Some(match statistic {
            Statistic::StddevPop | Statistic::StddevSamp => variance.sqrt(),
            Statistic::Sem => (variance / self.rows as f64).sqrt(),
            _ => variance,
        })
    }
}

/// One column: its mean, and the sums of the second, third and fourth powers of the deviations from it.
#[derive(Debug, Clone, Copy, Default)]
struct Shape {
    rows: u64,
    mean: f64,
    squares: f64,
    cubes: f64,
    fourths: f64,
}

impl Moments for Shape {
    const SUMS: usize = 4;

    fn rows(&self) -> u64 {
        self.rows
    }

    fn sums(&self) -> impl AsRef<[f64]> {
        [self.mean, self.squares, self.cubes, self.fourths]
    }

    fn of(rows: u64, sums: impl Fn(usize) -> f64) -> Self {
        Shape { rows, mean: sums(0), squares: sums(1), cubes: sums(2), fourths: sums(3) }
    }

    #[inline]
    fn add(&mut self, columns: &[&[f64]], at: usize) {
        self.merge(&Shape { rows: 1, mean: columns[0][at], ..Shape::default() });
    }

    fn merge(&mut self, other: &Self) {
        match (self.rows, other.rows) {
            (_, 0) => {}
            (0, _) => *self = *other,
            (mine, others) => {
                let rows = mine + others;
                let (a, b, n) = (mine as f64, others as f64, rows as f64);
                let away = other.mean - self.mean;
                let step = away / n;
                let square = away * step * a * b;
                let fourths = square * step * step * (a * a - a * b + b * b)
                    + 6.0 * step * step * (a * a * other.squares + b * b * self.squares)
                    + 4.0 * step * (a * other.cubes - b * self.cubes);
                let cubes = square * step * (a - b) + 3.0 * step * (a * other.squares - b * self.squares);
                self.fourths += other.fourths + fourths;
                self.cubes += other.cubes + cubes;
                self.squares += other.squares + square;
                self.mean += step * b;
                self.rows = rows;
            }
        }
    }

    // Values that are all equal have neither skew nor kurtosis.
    fn tell(&self, statistic: Statistic) -> Option<f64> {
        let rows = self.rows as f64;
        let variance = self.squares / rows;
        let shape = match statistic {
            Statistic::Skew => self.cubes / rows / variance.powf(1.5),
            _ => self.fourths / rows / (variance * variance) - 3.0,
        };
        (self.squares > 0.0).then_some(shape)
    }
}

/// Values with weights: the sum of their products, and the sum of the weights.
#[derive(Debug, Clone, Copy, Default)]
struct Weighted {
    rows: u64,
    products: f64,
    weights: f64,
}

impl Moments for Weighted {
    const SUMS: usize = 2;

    fn rows(&self) -> u64 {
        self.rows
    }

    fn sums(&self) -> impl AsRef<[f64]> {
        [self.products, self.weights]
    }

    fn of(rows: u64, sums: impl Fn(usize) -> f64) -> Self {
        Weighted { rows, products: sums(0), weights: sums(1) }
    }

    #[inline]
    fn add(&mut self, columns: &[&[f64]], at: usize) {
        self.rows += 1;
        self.products += columns[0][at] * columns[1][at];
        self.weights += columns[1][at];
    }

    fn merge(&mut self, other: &Self) {
        self.rows += other.rows;
        self.products += other.products;
        self.weights += other.weights;
    }

    // If the weights add up to 0, the result is NaN.
    fn tell(&self, _: Statistic) -> Option<f64> {
        Some(if self.weights == 0.0 { f64::NAN } else { self.products / self.weights })
    }
}

/// Two columns, and the sum of the products of their deviations.
#[derive(Debug, Clone, Copy, Default)]
struct Pairs {
    x: Spread,
    y: Spread,
    products: f64,
}

impl Moments for Pairs {
    const SUMS: usize = 5;

    fn rows(&self) -> u64 {
        self.x.rows
    }

    fn sums(&self) -> impl AsRef<[f64]> {
        [self.x.mean, self.y.mean, self.x.squares, self.y.squares, self.products]
    }

    fn of(rows: u64, sums: impl Fn(usize) -> f64) -> Self {
        let column = |at: usize| Spread { rows, mean: sums(at), squares: sums(at + 2) };
        Pairs { x: column(0), y: column(1), products: sums(4) }
    }

    #[inline]
    fn add(&mut self, columns: &[&[f64]], at: usize) {
        let away = columns[0][at] - self.x.mean;
        self.x.add(&columns[..1], at);
        self.y.add(&columns[1..], at);
        self.products += away * (columns[1][at] - self.y.mean);
    }

    fn merge(&mut self, other: &Self) {
        let (mine, others) = (self.rows(), other.rows());
        if mine > 0 && others > 0 {
            let both = mine as f64 * (others as f64 / (mine + others) as f64);
            self.products += (other.x.mean - self.x.mean) * (other.y.mean - self.y.mean) * both;
        }
        self.products += other.products;
        self.x.merge(&other.x);
        self.y.merge(&other.y);
    }

    fn tell(&self, statistic: Statistic) -> Option<f64> {
        let (of, by) = (&self.x, &self.y);
        let is_line = self.rows() > 1 && by.squares != 0.0;
        let slope = || self.products / by.squares;
        Some(match statistic {
            Statistic::Corr => self.correlation(),
            Statistic::RegrAvgx => by.mean,
            Statistic::RegrAvgy => of.mean,
            Statistic::RegrSxx => by.squares,
            Statistic::RegrSyy => of.squares,
            Statistic::RegrSxy => self.products,
            Statistic::RegrSlope | Statistic::RegrIntercept | Statistic::RegrR2 if !is_line => return None,
            Statistic::RegrSlope => slope(),
            Statistic::RegrIntercept => of.mean - slope() * by.mean,
            Statistic::RegrR2 if of.squares == 0.0 => return None,
            Statistic::RegrR2 => self.correlation().powi(2),
            _ => statistic.spread(self.products, self.rows()),
        })
    }
}

impl Pairs {
    fn correlation(&self) -> f64 {
        match self.x.squares == 0.0 || self.y.squares == 0.0 {
            true => 0.0,
            false => {
                let both = self.x.squares * self.y.squares;
                // The product may leave the range of a DOUBLE although its factors do not.
                let both = match both.is_normal() {
                    true => both.sqrt(),
                    false => self.x.squares.sqrt() * self.y.squares.sqrt(),
                };
                // Rounding may leave the range by the last digit.
                (self.products / both).clamp(-1.0, 1.0)
            }
        }
    }
}

/// Returns the numbers of the columns.
fn numbers(columns: &[ArrayRef]) -> Vec<&[f64]> {
    columns.iter().map(|column| column.as_primitive::<Float64Type>().values().as_ref()).collect()
}

/// Calls `work` for each row that has no NULL and passes the filter.
#[inline]
fn for_each_row(columns: &[ArrayRef], filter: Option<&BooleanArray>, mut work: impl FnMut(usize)) {
    let nulls = columns
        .iter()
        .fold(None, |nulls: Option<NullBuffer>, column| NullBuffer::union(nulls.as_ref(), column.nulls()));
    let counts = counted(nulls.as_ref(), filter);
    match counts.filter(|counts| counts.null_count() > 0) {
        Some(counts) => counts.valid_indices().for_each(work),
        None => (0..columns[0].len()).for_each(&mut work),
    }
}

fn merged_from<'a, M: Moments>(states: &'a [ArrayRef]) -> impl Iterator<Item = M> + 'a {
    let rows = states[0].as_primitive::<UInt64Type>();
    let sums: Vec<&[f64]> =
        states[1..=M::SUMS].iter().map(|column| column.as_primitive::<Float64Type>().values().as_ref()).collect();
    (0..rows.len()).map(move |at| match rows.is_valid(at) {
        true => M::of(rows.value(at), |sum| sums[sum][at]),
        false => M::default(),
    })
}

/// Returns partial states as columns.
fn columns_of<M: Moments>(all: &[M]) -> Vec<ArrayRef> {
    let rows: ArrayRef = Arc::new(all.iter().map(|m| m.rows()).collect::<UInt64Array>());
    let sum = |at: usize| -> ArrayRef { Arc::new(all.iter().map(|m| m.sums().as_ref()[at]).collect::<Float64Array>()) };
    std::iter::once(rows).chain((0..M::SUMS).map(sum)).collect()
}

#[derive(Debug)]
struct One<M: Moments> {
    statistic: Statistic,
    moments: M,
}

impl<M: Moments> Accumulator for One<M> {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let columns = numbers(values);
        for_each_row(values, None, |at| self.moments.add(&columns, at));
        Ok(())
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        merged_from::<M>(states).for_each(|other| self.moments.merge(&other));
        Ok(())
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let sums: Vec<_> = self.moments.sums().as_ref().iter().map(|sum| ScalarValue::Float64(Some(*sum))).collect();
        Ok(std::iter::once(ScalarValue::UInt64(Some(self.moments.rows()))).chain(sums).collect())
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        Ok(ScalarValue::Float64(self.moments.result(self.statistic)))
    }

    fn size(&self) -> usize {
        size_of_val(self)
    }
}

#[derive(Debug)]
struct Many<M: Moments> {
    statistic: Statistic,
    moments: Vec<M>,
}

impl<M: Moments> GroupsAccumulator for Many<M> {
    fn update_batch(
        &mut self,
        values: &[ArrayRef],
        group_indices: &[usize],
        opt_filter: Option<&BooleanArray>,
        total_num_groups: usize,
    ) -> Result<()> {
        self.moments.resize(total_num_groups, M::default());
        let columns = numbers(values);
        for_each_row(values, opt_filter, |at| self.moments[group_indices[at]].add(&columns, at));
        Ok(())
    }

    fn merge_batch(&mut self, states: &[ArrayRef], group_indices: &[usize], total_num_groups: usize) -> Result<()> {
        self.moments.resize(total_num_groups, M::default());
        for (other, group) in merged_from::<M>(states).zip(group_indices) {
            self.moments[*group].merge(&other);
        }
        Ok(())
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        let all = emit_to.take_needed(&mut self.moments);
        Ok(Arc::new(all.iter().map(|moments| moments.result(self.statistic)).collect::<Float64Array>()))
    }

    fn state(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        Ok(columns_of(&emit_to.take_needed(&mut self.moments)))
    }

    fn convert_to_state(&self, values: &[ArrayRef], opt_filter: Option<&BooleanArray>) -> Result<Vec<ArrayRef>> {
        let columns = numbers(values);
        let mut all = vec![M::default(); values[0].len()];
        for_each_row(values, opt_filter, |at| all[at].add(&columns, at));
        Ok(columns_of(&all))
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.moments.capacity() * size_of::<M>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told<M: Moments>(rows: &[[f64; 2]], parts: usize, statistic: Statistic) -> Option<f64> {
        let columns: Vec<Vec<f64>> = (0..2).map(|c| rows.iter().map(|row| row[c]).collect()).collect();
        let columns: Vec<&[f64]> = columns.iter().map(AsRef::as_ref).collect();
        let mut all = M::default();
        for part in 0..parts {
            let mut one = M::default();
            (0..rows.len()).filter(|at| at % parts == part).for_each(|at| one.add(&columns, at));
            all.merge(&one);
        }
        all.result(statistic)
    }

    #[test]
    fn few_rows_and_equal_values() {
        assert_eq!(told::<Spread>(&[], 3, Statistic::VarSamp), None);
        assert_eq!(told::<Spread>(&[[7.0, 0.0]], 3, Statistic::StddevSamp), Some(0.0));
        assert_eq!(told::<Pairs>(&[[7.0, 1.0]], 1, Statistic::CovarSamp), Some(0.0));
        assert_eq!(told::<Pairs>(&[[0.1, 1.0], [0.1, 2.0], [0.1, 3.0]], 2, Statistic::Corr), Some(0.0));
        for parts in 1..8 {
            assert_eq!(told::<Spread>(&[[0.1, 0.0]; 20], parts, Statistic::VarPop), Some(0.0));
        }
    }

    #[test]
    fn one_row_of_the_greatest_values() {
        // The square of the deviation from a mean of no rows would be infinite.
        for parts in 1..4 {
            for statistic in [Statistic::RegrSxx, Statistic::RegrSyy, Statistic::RegrSxy] {
                assert_eq!(told::<Pairs>(&[[-1.7e308, 1.7e308]], parts, statistic), Some(0.0));
            }
            assert_eq!(told::<Pairs>(&[[1.0, 2.0]], parts, Statistic::RegrSlope), None);
            assert_eq!(told::<Pairs>(&[[1.0, 2.0], [3.0, 2.0]], parts, Statistic::RegrIntercept), None);
            assert_eq!(told::<Pairs>(&[[1.0, 2.0], [1.0, 3.0]], parts, Statistic::RegrR2), None);
        }
    }

    #[test]
    fn known_values() {
        let rows = [[1.0, 2.0], [2.0, 4.0], [3.0, 3.0]];
        for parts in 1..4 {
            let near = |found: Option<f64>, wanted: f64| assert!((found.unwrap() - wanted).abs() < 1e-12);
            near(told::<Pairs>(&rows, parts, Statistic::CovarPop), 1.0 / 3.0);
            near(told::<Pairs>(&rows, parts, Statistic::CovarSamp), 0.5);
            near(told::<Pairs>(&rows, parts, Statistic::Corr), 0.5);
            near(told::<Spread>(&rows, parts, Statistic::VarSamp), 1.0);
            near(told::<Spread>(&rows, parts, Statistic::StddevPop), (2.0f64 / 3.0).sqrt());
            near(told::<Pairs>(&rows, parts, Statistic::RegrSlope), 0.5);
            near(told::<Pairs>(&rows, parts, Statistic::RegrIntercept), 0.5);
            near(told::<Pairs>(&rows, parts, Statistic::RegrR2), 0.25);
            near(told::<Pairs>(&rows, parts, Statistic::RegrSxx), 2.0);
            near(told::<Pairs>(&rows, parts, Statistic::RegrAvgx), 3.0);
        }
    }
}
