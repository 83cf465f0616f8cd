//! Random numbers. With a seed they are those of C++'s standard library, as in Doris.

use std::fmt::Write;
use std::hash::{Hash, Hasher};
use std::sync::{Arc, Mutex, PoisonError};

use arrow::array::{ArrayRef, Float64Array};
use arrow::datatypes::DataType;
use datafusion::common::{Result, ScalarValue, exec_err, plan_err};
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use rand::{Rng, RngCore};

use super::args::Args;
use super::func::{Def, Ret, def};

/// Functions of this file.
pub const DEFS: &[Def] = &[
    def("random", &["rand"], (0, 2), Ret::By(random_type), random)
        .with_volatility(Volatility::Volatile)
        .with_simplify(seeded),
    def("uniform", &[], (3, 3), Ret::By(uniform_type), uniform),
    def("random_bytes", &[], (1, 1), Ret::Text, random_bytes).with_volatility(Volatility::Volatile),
];

/// Returns BIGINT if there are bounds, else DOUBLE.
fn random_type(args: &ReturnFieldArgs) -> Result<DataType> {
    Ok(if args.arg_fields.len() == 2 { DataType::Int64 } else { DataType::Float64 })
}

/// `RANDOM()`: from 0 up to 1; `RANDOM(from, to)`: an integer, at least `from` and less than `to`.
fn random(a: &Args) -> Result<ArrayRef> {
    let mut random = rand::rng();
    if a.len() == 1 {
        return exec_err!("{}: expected a constant seed", a.name);
    }
    if a.is_empty() {
        let values: Vec<f64> = (0..a.rows).map(|_| random.random()).collect();
        return Ok(Arc::new(Float64Array::from(values)));
    }
    let (from, to) = (a.int(0)?, a.int(1)?);
    let mut empty = None;
    let out = a.ints(|i| {
        let (from, to) = (from.at(i)?, to.at(i)?);
        if from >= to {
            empty = Some((from, to));
            return None;
        }
        Some(random.random_range(from..to))
    })?;
    match empty {
        Some((from, to)) => exec_err!("{}: expected a lower and a higher bound, found {from} and {to}", a.name),
        None => Ok(out),
    }
}

/// Turns `RANDOM(seed)` into a function of its own that continues from one batch of rows to the next.
fn seeded(args: Vec<Expr>, _: &SimplifyContext) -> Result<ExprSimplifyResult> {
    let [Expr::Literal(seed, _)] = args.as_slice() else { return Ok(ExprSimplifyResult::Original(args)) };
    let seed = match seed.cast_to(&DataType::Int64) {
        Ok(ScalarValue::Int64(seed)) => seed.unwrap_or_default(),
        _ => return plan_err!("random: expected a whole number as the seed, found {seed}"),
    };
    let function = Seeded {
        seed,
        signature: Signature::nullary(Volatility::Volatile),
        generator: Mutex::new(Mersenne::new((seed as u32).into())),
    };
    let call = ScalarFunction::new_udf(Arc::new(ScalarUDF::new_from_impl(function)), Vec::new());
    Ok(ExprSimplifyResult::Simplified(Expr::ScalarFunction(call)))
}

/// A generator of random numbers from a seed, as a function.
#[derive(Debug)]
struct Seeded {
    seed: i64,
    signature: Signature,
    generator: Mutex<Mersenne>,
}

// Each call is a generator of its own.
impl PartialEq for Seeded {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self, other)
    }
}
impl Eq for Seeded {}
impl Hash for Seeded {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.seed.hash(state);
    }
}

impl ScalarUDFImpl for Seeded {
    fn name(&self) -> &str {
        "random"
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Float64)
    }

    fn invoke_with_args(&self, call: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let mut generator = self.generator.lock().unwrap_or_else(PoisonError::into_inner);
        let values: Vec<f64> = (0..call.number_rows).map(|_| generator.real()).collect();
        Ok(ColumnarValue::Array(Arc::new(Float64Array::from(values))))
    }
}

/// Returns BIGINT if both bounds are integers, else DOUBLE.
fn uniform_type(args: &ReturnFieldArgs) -> Result<DataType> {
    let whole = |k: usize| args.arg_fields[k].data_type().is_integer();
    Ok(if whole(0) && whole(1) { DataType::Int64 } else { DataType::Float64 })
}

/// `UNIFORM(from, to, seed)`: a number that is determined by the seed; if the bounds are integers, the upper one is
/// included.
fn uniform(a: &Args) -> Result<ArrayRef> {
    let seeds = a.int(2)?;
    let (low, high) = (a.double(0)?, a.double(1)?);
    if !low.one || !high.one {
        return exec_err!("{}: the bounds must be constants", a.name);
    }
    let generator = |i: usize| seeds.at(i).map(|seed| Mersenne::new(seed as u64));
    if a.ret == DataType::Int64 {
        let (low, high) = (a.int(0)?, a.int(1)?);
        let Some((low, high)) = low.at(0).zip(high.at(0)) else { return Ok(a.nulls()) };
        if low >= high {
            return exec_err!("{}: expected a lower and a higher bound, found {low} and {high}", a.name);
        }
        return a.ints(|i| Some(generator(i)?.whole(low, high)));
    }
    let Some((low, high)) = low.at(0).zip(high.at(0)) else { return Ok(a.nulls()) };
    if low >= high {
        return exec_err!("{}: expected a lower and a higher bound, found {low} and {high}", a.name);
    }
    a.doubles(|i| Some(generator(i)?.real() * (high - low) + low))
}

/// `RANDOM_BYTES(n)`: `0x` and hexadecimal digits.
fn random_bytes(a: &Args) -> Result<ArrayRef> {
    let lengths = a.int(0)?;
    if let Some(bad) = lengths.array.iter().flatten().find(|length| *length < 0) {
        return exec_err!("{}: expected a number of bytes, found {bad}", a.name);
    }
    let mut random = rand::rng();
    a.texts(|i, out| {
        let length = usize::try_from(lengths.at(i)?).ok()?;
        a.ask(length.checked_mul(2)?)?;
        out.push_str("0x");
        for _ in 0..length {
            let _ = write!(out, "{:02x}", random.next_u32() as u8);
        }
        Some(())
    })
}

/// The Mersenne Twister of 64 bits (Nishimura and Matsumoto), C++'s `mt19937_64`.
#[derive(Debug)]
struct Mersenne {
    state: Box<[u64; Mersenne::SIZE]>,
    at: usize,
}

impl Mersenne {
    const SIZE: usize = 312;
    const MIDDLE: usize = 156;

    fn new(seed: u64) -> Self {
        let mut state = Box::new([seed; Self::SIZE]);
        for at in 1..Self::SIZE {
            let before = state[at - 1];
            state[at] = (before ^ before >> 62).wrapping_mul(6_364_136_223_846_793_005).wrapping_add(at as u64);
        }
        Mersenne { state, at: Self::SIZE }
    }

    fn next(&mut self) -> u64 {
        if self.at == Self::SIZE {
            for at in 0..Self::SIZE {
                let both = self.state[at] & 0xffff_ffff_8000_0000 | self.state[(at + 1) % Self::SIZE] & 0x7fff_ffff;
                let twist = if both & 1 == 1 { 0xb502_6f5a_a966_19e9 } else { 0 };
                self.state[at] = self.state[(at + Self::MIDDLE) % Self::SIZE] ^ both >> 1 ^ twist;
            }
            self.at = 0;
        }
        let mut x = self.state[self.at];
        self.at += 1;
        x ^= x >> 29 & 0x5555_5555_5555_5555;
        x ^= x << 17 & 0x71d6_7fff_eda6_0000;
        x ^= x << 37 & 0xfff7_eee0_0000_0000;
        x ^ x >> 43
    }

    /// Returns a number from 0 up to 1, like libstdc++'s `uniform_real_distribution`.
    fn real(&mut self) -> f64 {
        let value = self.next() as f64 / 18_446_744_073_709_551_616.0;
        value.min(1.0_f64.next_down())
    }

    /// Returns a number from `low` to `high`, both included, like libstdc++'s `uniform_int_distribution`.
    fn whole(&mut self, low: i64, high: i64) -> i64 {
        let Some(count) = high.wrapping_sub(low).cast_unsigned().checked_add(1) else {
            return self.next().cast_signed();
        };
        let mut product = u128::from(self.next()) * u128::from(count);
        if (product as u64) < count {
            let threshold = count.wrapping_neg() % count;
            while (product as u64) < threshold {
                product = u128::from(self.next()) * u128::from(count);
            }
        }
        low.wrapping_add(((product >> 64) as u64).cast_signed())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The C++ standard specifies the value of the 10,000th call with the default seed.
    #[test]
    fn numbers_of_a_seed_are_those_of_the_standard() {
        let mut generator = Mersenne::new(5489);
        let last = (0..10_000).map(|_| generator.next()).last();
        assert_eq!(last, Some(9_981_545_732_273_789_042));
        assert!((0..1000).all(|_| (0.0..1.0).contains(&generator.real())));
        assert!((0..1000).all(|_| (-2..=3).contains(&generator.whole(-2, 3))));
        generator.whole(i64::MIN, i64::MAX);
    }
}
