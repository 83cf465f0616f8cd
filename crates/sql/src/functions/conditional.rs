//! IF, ISNULL, IFNULL, GREATEST, LEAST, XOR, and Doris's functions that declare whether a value can be NULL.

use std::cmp::Ordering;
use std::sync::Arc;

use arrow::array::{Array, ArrayRef, BooleanArray, make_comparator};
use arrow::compute::kernels::{cmp, nullif::nullif, zip::zip};
use arrow::compute::{SortOptions, is_null, or};
use arrow::datatypes::DataType;
use datafusion::common::{Result, exec_err, plan_err};
use datafusion::logical_expr::simplify::ExprSimplifyResult;
use datafusion::logical_expr::{Expr, ReturnFieldArgs, when};

use super::args::{Args, lenient_cast, to_text_of};
use super::func::{Def, MANY, Ret, common_type, def};

/// Functions of this file.
pub const DEFS: &[Def] = &[
    def("if", &[], (3, 3), Ret::Common(1), choose).with_simplify(|mut args, info| {
        // As a CASE, only the branch that is taken is evaluated.
        if info.get_data_type(&args[0])? != DataType::Boolean || args.len() != 3 {
            return Ok(ExprSimplifyResult::Original(args));
        }
        let (no, yes, condition) = (args.remove(2), args.remove(1), args.remove(0));
        let condition: Expr = condition.is_true();
        Ok(ExprSimplifyResult::Simplified(when(condition, yes).otherwise(no)?))
    }),
    def("isnull", &["is_null_pred"], (1, 1), Ret::Bool, |a| {
        let x = a.raw(0);
        // A NULL literal's type has no validity mask.
        let nulls = x.array.logical_nulls();
        a.bools(|i| Some(nulls.as_ref().is_some_and(|n| n.is_null(if x.one { 0 } else { i }))))
    })
    .with_simplify(|mut args, _| {
        let Some(x) = args.pop() else { return Ok(ExprSimplifyResult::Original(args)) };
        Ok(ExprSimplifyResult::Simplified(x.is_null()))
    }),
    def("is_not_null_pred", &["isnotnull"], (1, 1), Ret::Bool, |a| {
        let x = a.raw(0);
        let nulls = x.array.logical_nulls();
        a.bools(|i| Some(nulls.as_ref().is_none_or(|n| n.is_valid(if x.one { 0 } else { i }))))
    })
    .with_simplify(|mut args, _| {
        let Some(x) = args.pop() else { return Ok(ExprSimplifyResult::Original(args)) };
        Ok(ExprSimplifyResult::Simplified(x.is_not_null()))
    }),
    def("xor", &[], (2, 2), Ret::Bool, |a| {
        let (x, y) = (a.bool(0)?, a.bool(1)?);
        a.bools(|i| Some(x.at(i)? != y.at(i)?))
    }),
    // Every column may hold NULL here.
    def("nullable", &[], (1, 1), Ret::Arg(0), |a| a.full(0)),
    def("non_nullable", &[], (1, 1), Ret::Arg(0), |a| {
        let x = a.full(0)?;
        match x.logical_null_count() {
            0 => Ok(x),
            _ => exec_err!("{}: expected values, found NULL", a.name),
        }
    }),
    // StarRocks's check, which is never true of NULL.
    def("assert_true", &[], (1, 2), Ret::Bool, assert_true),
    def("ignore", &[], (0, MANY), Ret::Bool, |a| a.bools(|_| Some(false))),
    def("ifnull", &["nvl"], (2, 2), Ret::Common(0), ifnull).with_simplify(|args, _| {
        // As a CASE, the other argument is evaluated only where the column is NULL.
        Ok(match <[Expr; 2]>::try_from(args) {
            Ok([x @ Expr::Column(_), other]) => {
                ExprSimplifyResult::Simplified(when(x.clone().is_not_null(), x).otherwise(other)?)
            }
            Ok(args) => ExprSimplifyResult::Original(args.into()),
            Err(args) => ExprSimplifyResult::Original(args),
        })
    }),
    def("greatest", &[], (1, MANY), Ret::By(extreme_type), |a| extreme(a, Ordering::Greater)),
    def("least", &[], (1, MANY), Ret::By(extreme_type), |a| extreme(a, Ordering::Less)),
];

/// `ASSERT_TRUE(condition [, message])`: true, or an error if the condition does not hold for one of the rows.
fn assert_true(a: &Args) -> Result<ArrayRef> {
    let condition = a.bool(0)?;
    let message = a.has(1).then(|| a.text(1)).transpose()?;
    match (0..a.rows).find(|i| condition.at(*i) != Some(true)) {
        None => a.bools(|_| Some(true)),
        Some(i) => match message.as_ref().and_then(|message| message.at(i)) {
            Some(message) => exec_err!("assert_true: {message}"),
            None => exec_err!("assert_true: the condition does not hold"),
        },
    }
}

fn choose(a: &Args) -> Result<ArrayRef> {
    let condition = a.bool(0)?;
    let mask: BooleanArray = (0..a.rows).map(|i| Some(condition.at(i) == Some(true))).collect();
    Ok(zip(&mask, &a.full(1)?, &a.full(2)?)?)
}

fn ifnull(a: &Args) -> Result<ArrayRef> {
    let x = a.full(0)?;
    Ok(zip(&is_null(&x)?, &a.full(1)?, &x)?)
}

/// Returns the type of GREATEST and LEAST; text beside any other type makes text.
fn extreme_type(args: &ReturnFieldArgs) -> Result<DataType> {
    let types: Vec<_> = args.arg_fields.iter().map(|f| f.data_type().clone()).collect();
    if types.iter().any(|t| matches!(t, DataType::Map(..))) {
        return plan_err!(
            "greatest and least do not take a MAP: maps have no order; take map_keys(m) or map_values(m)"
        );
    }
    common_type("greatest", &types)
}

/// Compares text beside numbers: two values that are numbers compare as numbers, others as text.
fn extreme_text(a: &Args, wanted: Ordering) -> Result<ArrayRef> {
    let columns = (0..a.len()).map(|k| Ok((a.text(k)?, a.double(k)?))).collect::<Result<Vec<_>>>()?;
    a.texts(|i, out| {
        let mut best: Option<(&str, Option<f64>)> = None;
        for (texts, numbers) in &columns {
            let (text, number) = (texts.at(i)?, numbers.at(i));
            let wins = best.is_none_or(|(best_text, best_number)| {
                let order = match (number, best_number) {
                    (Some(x), Some(y)) => x.total_cmp(&y),
                    _ => text.cmp(best_text),
                };
                order == wanted
            });
            if wins {
                best = Some((text, number));
            }
        }
        out.push_str(best?.0);
        Some(())
    })
}

/// Returns the value that wins against all others; NULL if one is NULL.
fn extreme(a: &Args, wanted: Ordering) -> Result<ArrayRef> {
    if a.ret == DataType::Utf8View && (0..a.len()).any(|k| a.data_type(k).is_numeric()) {
        return extreme_text(a, wanted);
    }
    let wins = if wanted == Ordering::Greater { cmp::gt } else { cmp::lt };
    let column = |k: usize| -> Result<ArrayRef> {
        match &a.ret {
            DataType::Utf8View => Ok(Arc::new(to_text_of(a.name, &a.full(k)?, a.digits(k))?)),
            other => lenient_cast(&a.full(k)?, other),
        }
    };
    let mut best = column(0)?;
    let mut missing = is_null(&best)?;
    for k in 1..a.len() {
        let next = column(k)?;
        missing = or(&missing, &is_null(&next)?)?;
        // A comparison with NULL keeps the old value; rows with a NULL are set to NULL below.
        let better: BooleanArray = match next.data_type().is_nested() {
            true => {
                let compare = make_comparator(&next, &best, SortOptions::default())?;
                (0..next.len()).map(|i| Some(compare(i, i) == wanted)).collect()
            }
            false => wins(&next, &best)?.iter().map(|b| Some(b == Some(true))).collect(),
        };
        best = zip(&better, &next, &best)?;
    }
    Ok(nullif(&best, &missing)?)
}
