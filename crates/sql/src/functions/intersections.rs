//! BITMAP values of a group, by the values of another column: the intersection or combination of the sets of some of
//! these values.

use std::collections::HashMap;

use arrow::array::{Array, ArrayRef, AsArray, make_comparator};
use arrow::compute::SortOptions;
use arrow::datatypes::DataType;
use datafusion::common::{DataFusionError, Result, ScalarValue, exec_err};
use dipper_base::sketch::{BitmapUnion, RoaringTreemap, bitmap_to_bytes};

use super::args::lenient_cast;
use super::collected::{Counts, Rows, Spec, empty};
use super::func::{MANY, common_type};
use super::sketch::check_set;

/// Functions of this file.
pub(super) const SPECS: &[Spec] = &[
    Spec {
        name: "intersect_count",
        aliases: &["orthogonal_bitmap_intersect_count"],
        arity: (3, MANY),
        takes,
        returns: |_| Ok(DataType::Int64),
        declared: None,
        counts: Counts::Complete,
        nothing: empty,
        finish: |rows| Ok(ScalarValue::Int64(Some(common(rows)?.len() as i64))),
    },
    Spec {
        name: "orthogonal_bitmap_intersect",
        aliases: &[],
        arity: (3, MANY),
        takes,
        returns: |_| Ok(DataType::BinaryView),
        declared: Some("bitmap"),
        counts: Counts::Complete,
        nothing: |_| Ok(ScalarValue::BinaryView(Some(bitmap_to_bytes(&RoaringTreemap::new())))),
        finish: |rows| Ok(ScalarValue::BinaryView(Some(bitmap_to_bytes(&common(rows)?)))),
    },
    Spec {
        name: "orthogonal_bitmap_expr_calculate",
        aliases: &[],
        arity: (3, 3),
        takes: takes_formula,
        returns: |_| Ok(DataType::BinaryView),
        declared: Some("bitmap"),
        counts: Counts::Complete,
        nothing: |_| Ok(ScalarValue::BinaryView(Some(bitmap_to_bytes(&RoaringTreemap::new())))),
        finish: |rows| Ok(ScalarValue::BinaryView(Some(bitmap_to_bytes(&calculated(rows)?)))),
    },
    Spec {
        name: "orthogonal_bitmap_expr_calculate_count",
        aliases: &[],
        arity: (3, 3),
        takes: takes_formula,
        returns: |_| Ok(DataType::Int64),
        declared: None,
        counts: Counts::Complete,
        nothing: empty,
        finish: |rows| Ok(ScalarValue::Int64(Some(calculated(rows)?.len() as i64))),
    },
];

/// Checks the arguments: a set, a text that names it, and a formula over the names.
fn takes_formula(name: &'static str, types: &[DataType]) -> Result<Vec<DataType>> {
    check_set(name, &types[0])?;
    Ok(vec![DataType::BinaryView, DataType::Utf8View, DataType::Utf8View])
}

/// Evaluates the formula over the sets of the names; a name without a row has the empty set.
fn calculated(rows: &Rows<'_>) -> Result<RoaringTreemap> {
    let external = |e| DataFusionError::External(Box::new(e));
    let (sets, names) = (rows.columns[0].as_binary_view(), rows.columns[1].as_string_view());
    let formulas = rows.columns[2].as_string_view();
    let formula = formulas.value(0);
    if formulas.iter().any(|other| other != Some(formula)) {
        return exec_err!("{}: expected a constant formula", rows.name);
    }
    let tokens = tokens(formula);
    let mut unions: HashMap<&str, BitmapUnion> = HashMap::new();
    for token in &tokens {
        if let Token::Name(name) = token {
            unions.entry(name).or_default();
        }
    }
    for row in 0..rows.len {
        if let Some(union) = unions.get_mut(names.value(row)) {
            union.add(sets.value(row)).map_err(external)?;
        }
    }
    let named = unions.iter_mut().map(|(name, union)| (*name, std::mem::take(union.set()))).collect();
    let mut at = 0;
    match expression(&tokens, &mut at, &named) {
        Some(mut set) if at == tokens.len() => {
            set.optimize();
            Ok(set)
        }
        _ => exec_err!("{}: expected a formula such as (a|b)&(c-d)^e, found '{formula}'", rows.name),
    }
}

#[derive(Debug, PartialEq)]
enum Token {
    Name(String),
    /// `&`, `|`, `-` or `^`.
    Operator(char),
    Open,
    Close,
}

/// Splits the formula into tokens; a backslash makes the character after it a part of a name.
fn tokens(formula: &str) -> Vec<Token> {
    let mut all = Vec::new();
    let mut name = String::new();
    let mut chars = formula.chars();
    while let Some(c) = chars.next() {
        let token = match c {
            '\\' => {
                name.extend(chars.next());
                continue;
            }
            '&' | '|' | '-' | '^' => Some(Token::Operator(c)),
            '(' => Some(Token::Open),
            ')' => Some(Token::Close),
            ' ' | '\t' => None,
            _ => {
                name.push(c);
                continue;
            }
        };
        if !name.is_empty() {
            all.push(Token::Name(std::mem::take(&mut name)));
        }
        all.extend(token);
    }
    if !name.is_empty() {
        all.push(Token::Name(name));
    }
    all
}

/// The deepest nesting of brackets in a formula.
const DEPTH_MAX: usize = 256;

/// Evaluates operands from left to right: no operator binds tighter than another.
fn expression(tokens: &[Token], at: &mut usize, named: &HashMap<&str, RoaringTreemap>) -> Option<RoaringTreemap> {
    // The open brackets, outermost first: for each the value so far and the operator after it.
    let mut open: Vec<(Option<RoaringTreemap>, Option<char>)> = vec![(None, None)];
    let combine = |level: &mut (Option<RoaringTreemap>, Option<char>), operand: RoaringTreemap| -> Option<()> {
        let value = match (level.0.take(), level.1.take()) {
            (None, None) => operand,
            (Some(value), Some('&')) => value & operand,
            (Some(value), Some('|')) => value | operand,
            (Some(value), Some('-')) => value - operand,
            (Some(value), Some('^')) => value ^ operand,
            _ => return None,
        };
        level.0 = Some(value);
        Some(())
    };
    for token in tokens {
        *at += 1;
        match token {
            Token::Name(name) => combine(open.last_mut()?, named.get(name.as_str()).cloned().unwrap_or_default())?,
            Token::Open if open.len() < DEPTH_MAX => open.push((None, None)),
            Token::Open => return None,
            Token::Close => {
                let (value, operator) = open.pop()?;
                if operator.is_some() {
                    return None;
                }
                combine(open.last_mut()?, value?)?;
            }
            Token::Operator(operator) => {
                let level = open.last_mut()?;
                if level.0.is_none() || level.1.replace(*operator).is_some() {
                    return None;
                }
            }
        }
    }
    match open.as_mut_slice() {
        [(value, None)] => value.take(),
        _ => None,
    }
}

/// Checks the arguments: a set, and values of one type.
fn takes(name: &'static str, types: &[DataType]) -> Result<Vec<DataType>> {
    check_set(name, &types[0])?;
    let values = common_type(name, &types[1..])?;
    Ok(std::iter::once(DataType::BinaryView).chain(std::iter::repeat_n(values, types.len() - 1)).collect())
}

/// Returns the members that are in the sets of all of the values; a value without a row has the empty set.
fn common(rows: &Rows<'_>) -> Result<RoaringTreemap> {
    let external = |e| DataFusionError::External(Box::new(e));
    let sets = rows.columns[0].as_binary_view();
    let keys: &ArrayRef = &rows.columns[1];
    let mut found: Option<RoaringTreemap> = None;
    for value in &rows.columns[2..] {
        let value = lenient_cast(value, keys.data_type())?;
        let compare = make_comparator(keys, &value, SortOptions::default())?;
        let mut union = BitmapUnion::default();
        for row in (0..rows.len).filter(|row| compare(*row, *row).is_eq()) {
            union.add(sets.value(row)).map_err(external)?;
        }
        let set = std::mem::take(union.set());
        found = Some(match found {
            Some(found) => found & set,
            None => set,
        });
    }
    let mut found = found.unwrap_or_default();
    found.optimize();
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formulas_from_left_to_right() {
        let sets = [("a", vec![1, 2, 3]), ("b", vec![3, 4]), ("c-d", vec![2, 3, 4])];
        let named: HashMap<&str, RoaringTreemap> =
            sets.into_iter().map(|(k, v)| (k, v.into_iter().collect())).collect();
        let of = |formula: &str| {
            let tokens = tokens(formula);
            expression(&tokens, &mut 0, &named).map(|set| set.iter().collect::<Vec<_>>())
        };
        assert_eq!(of("a|b&c\\-d"), Some(vec![2, 3, 4]));
        assert_eq!(of("a | (b & c\\-d)"), Some(vec![1, 2, 3, 4]));
        assert_eq!(of("((a)-b)^c\\-d"), Some(vec![1, 3, 4]));
        assert_eq!(of("a&nothing"), Some(vec![]));
        for bad in ["", "a&", "&a", "(a", "a)", "a b", "()"] {
            assert_eq!(of(bad), None, "{bad}");
        }
    }
}
