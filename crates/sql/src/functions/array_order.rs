//! Arrays in another order.

use arrow::array::ArrayRef;
use datafusion::common::Result;
use datafusion::logical_expr::Volatility;
use rand::{Rng, SeedableRng, rngs::StdRng};

use super::args::Args;
use super::array::{lists, pick, span};
use super::func::{Def, Ret, def};

/// Functions of this file.
pub const DEFS: &[Def] =
    &[def("array_shuffle", &["shuffle"], (1, 2), Ret::Arg(0), shuffle).with_volatility(Volatility::Volatile)];

/// Shuffles the elements; the same seed gives the same order.
fn shuffle(a: &Args) -> Result<ArrayRef> {
    let lists = lists(a, 0)?;
    let seeds = if a.has(1) { Some(a.int(1)?) } else { None };
    let mut chance = StdRng::from_rng(&mut rand::rng());
    pick(a, lists.array.values(), |row, out| {
        let mut order: Vec<_> = span(&lists, row)?.collect();
        let mut seeded = match &seeds {
            Some(seeds) => Some(StdRng::seed_from_u64(seeds.at(row)?.cast_unsigned())),
            None => None,
        };
        let chance = seeded.as_mut().unwrap_or(&mut chance);
        // Fisher and Yates: each place takes one of the elements that are left.
        for end in (1..order.len()).rev() {
            order.swap(end, chance.random_range(0..=end));
        }
        out.extend(order.into_iter().map(|at| Some(at as u64)));
        Some(())
    })
}
