//! Keys of GROUP BY: the items of the select list that they name, and keys that a grouping set repeats.
//!
//! DataFusion takes the repeated key of `GROUP BY ROLLUP (k, k)` for two columns of one name. A repeated key adds
//! nothing to its set, so it is dropped while the sets stay: `ROLLUP (k, k)` is `GROUPING SETS ((k), (k), ())`. The
//! number of an item inside a set, as of `GROUP BY 1 WITH ROLLUP`, is the item. A key that names an item `5` is that
//! constant, not the fifth item.

use std::collections::HashSet;

use dipper_dialect::error::SqlError;
use dipper_dialect::tree::call;
use dipper_dialect::walk::{self, Change};
use sqlparser::ast::{Expr, GroupByExpr, Query, Select, SelectItem, Value};

use super::names::own_name;

/// The largest number of parts of a CUBE whose sets are written out.
const CUBE_MAX: usize = 12;

/// Hides numbers in the select list that keys of GROUP BY name: the planner puts the item in the key's place, and would
/// then take the number for that of an item. Runs when parameters and variables are filled in, before aliases are.
pub(super) fn constants(query: &mut Query) {
    struct Hide;
    impl Change for Hide {
        fn select(&mut self, select: &mut Select) -> Result<(), SqlError> {
            let GroupByExpr::Expressions(keys, _) = &select.group_by else { return Ok(()) };
            let mut named = HashSet::new();
            for key in keys.iter().flat_map(|key| match key {
                Expr::Rollup(sets) | Expr::Cube(sets) | Expr::GroupingSets(sets) => sets.iter().flatten().collect(),
                key => vec![key],
            }) {
                match key_place(key, &select.projection) {
                    Some(item) => named.insert(std::ptr::from_ref(item)),
                    None => {
                        let is_named = |item: &&SelectItem| match (item, key) {
                            (SelectItem::ExprWithAlias { alias, .. }, Expr::Identifier(key)) => {
                                alias.value.eq_ignore_ascii_case(&key.value)
                            }
                            _ => false,
                        };
                        select
                            .projection
                            .iter()
                            .find(is_named)
                            .is_some_and(|item| named.insert(std::ptr::from_ref(item)))
                    }
                };
            }
            for item in &mut select.projection {
                let is_key = named.contains(&std::ptr::from_ref(&*item));
                if let SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } = item
                    && is_key
                    && is_number(expr)
                {
                    let number = std::mem::replace(expr, Expr::value(Value::Null));
                    *expr = call("coalesce", vec![number]);
                }
            }
            Ok(())
        }
    }
    // Rewriting cannot fail.
    let _ = walk::change(query, &mut Hide);
}

/// Writes out the grouping sets in which a key is repeated, or which have keys in parentheses.
pub(super) fn once(select: &mut Select) {
    let items = &select.projection;
    let GroupByExpr::Expressions(keys, _) = &mut select.group_by else { return };
    let is_set = |key: &Expr| matches!(key, Expr::Rollup(_) | Expr::Cube(_) | Expr::GroupingSets(_));
    // The planner computes `1 + 1`, and would take the result for the number of an item.
    for key in keys.iter_mut().filter(|key| is_computed(key)) {
        let computed = std::mem::replace(key, Expr::value(Value::Null));
        *key = call("coalesce", vec![computed]);
    }
    if !keys.iter().any(is_set) {
        return;
    }
    // The planner takes a number inside a set for a constant.
    for key in keys.iter_mut() {
        let (Expr::Rollup(sets) | Expr::Cube(sets) | Expr::GroupingSets(sets)) = key else { continue };
        for part in sets.iter_mut().flatten() {
            if let Some(SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. }) = key_place(part, items)
            {
                *part = expr.clone();
            }
        }
    }
    // Keys that belong to every set.
    let always: Vec<String> = keys.iter().filter(|key| !is_set(key)).map(|key| text(key, items)).collect();
    for key in keys.iter_mut() {
        let has_tuples =
            matches!(key, Expr::Rollup(parts) | Expr::Cube(parts) if parts.iter().any(|part| part.len() > 1));
        let sets: Vec<Vec<Expr>> = match key {
            Expr::Rollup(parts) => (0..=parts.len()).rev().map(|n| parts[..n].concat()).collect(),
            Expr::Cube(parts) if parts.len() <= CUBE_MAX => {
                let subset = |chosen: u32| {
                    let is_chosen = |at: &usize| chosen & (1 << (parts.len() - 1 - at)) != 0;
                    (0..parts.len()).filter(is_chosen).flat_map(|at| parts[at].clone()).collect()
                };
                (0..1u32 << parts.len()).rev().map(subset).collect()
            }
            Expr::GroupingSets(sets) => sets.clone(),
            _ => continue,
        };
        let distinct = sets.iter().map(|set| {
            let mut seen = always.clone();
            let is_new = |key: &&Expr| {
                let text = text(key, items);
                let new = !seen.contains(&text);
                seen.push(text);
                new
            };
            set.iter().filter(is_new).cloned().collect::<Vec<_>>()
        });
        let distinct: Vec<Vec<Expr>> = distinct.collect();
        if has_tuples || distinct.iter().zip(&sets).any(|(distinct, set)| distinct.len() != set.len()) {
            *key = Expr::GroupingSets(distinct);
        }
    }
}

/// Whether a key is arithmetic of constants.
fn is_computed(key: &Expr) -> bool {
    match key {
        Expr::Nested(inner) => is_computed(inner),
        Expr::BinaryOp { .. } => is_constant(key),
        _ => false,
    }
}

/// Whether the planner may take an expression for a number: it computes `1 + 1` first.
fn is_number(expr: &Expr) -> bool {
    match expr {
        Expr::Value(value) => matches!(value.value, Value::Number(..)),
        Expr::Nested(inner) | Expr::UnaryOp { expr: inner, .. } => is_number(inner),
        expr => is_constant(expr),
    }
}

/// Whether an expression is a constant or arithmetic of constants.
fn is_constant(expr: &Expr) -> bool {
    match expr {
        Expr::Value(_) => true,
        Expr::Nested(inner) | Expr::UnaryOp { expr: inner, .. } => is_constant(inner),
        Expr::BinaryOp { left, right, .. } => is_constant(left) && is_constant(right),
        _ => false,
    }
}

/// Returns a text that is equal for keys that are the same.
fn text(key: &Expr, items: &[SelectItem]) -> String {
    match (key, key_place(key, items)) {
        (Expr::Nested(inner), _) => text(inner, items),
        (_, Some(SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. })) => text(expr, &[]),
        _ => key.to_string().replace(['"', '`'], ""),
    }
}

/// Returns the item of the select list whose number is a key of GROUP BY.
pub(super) fn key_place<'a>(key: &Expr, items: &'a [SelectItem]) -> Option<&'a SelectItem> {
    match key {
        Expr::Value(value) => match &value.value {
            Value::Number(n, _) => n.parse::<usize>().ok().and_then(|n| items.get(n.checked_sub(1)?)),
            _ => None,
        },
        _ => None,
    }
}

/// Returns the name of a key of GROUP BY, also if it is the number of an item; for other expressions their text.
pub(super) fn key_name(key: &Expr, items: &[SelectItem]) -> String {
    match key_place(key, items) {
        Some(SelectItem::ExprWithAlias { alias, .. }) => alias.value.clone(),
        Some(SelectItem::UnnamedExpr(expr)) => own_name(expr).map_or_else(|| expr.to_string(), |c| c.value.clone()),
        _ => own_name(key).map_or_else(|| key.to_string(), |c| c.value.clone()),
    }
}
