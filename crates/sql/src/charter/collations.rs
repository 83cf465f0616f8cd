//! COLLATE in expressions.
//!
//! All text is compared by its bytes, which is what the collations that end in `_bin` say, and `DEFAULT`. A collation
//! without regard to case is obeyed where values are compared for equality: by `=`, `<>`, `<=>`, IN and LIKE. There both
//! sides are [folded](super::folding) first. Elsewhere, where text would have to be sorted or grouped by the collation, the
//! expression is refused. An item of the outermost select list is shown and not compared, so that COLLATE says nothing
//! there.

use dipper_dialect::error::SqlError;
use dipper_dialect::tree::call;
use sqlparser::ast::{BinaryOperator, Expr, GroupByExpr, Query, SelectItem, SetExpr, Value};

use super::folding::{Kind, NAME};
use super::rewrite::like_escape;

fn kind_of(name: &str) -> Result<Kind, SqlError> {
    Kind::of(name).ok_or_else(|| {
        let what =
            format!("COLLATE {name}: text is UTF-8; utf8mb4_bin compares by bytes, utf8mb4_0900_ai_ci without case");
        SqlError::unsupported(what, None)
    })
}

/// Returns the name of the collation that an operand says.
fn collation(expr: &Expr) -> Option<String> {
    match expr {
        Expr::Nested(inner) => collation(inner),
        Expr::Collate { collation, .. } => {
            Some(collation.to_string().trim_matches(['`', '"', '\'']).to_ascii_lowercase())
        }
        _ => None,
    }
}

/// Removes COLLATE from an operand.
fn strip(expr: &mut Expr) {
    match expr {
        Expr::Nested(inner) => strip(inner),
        Expr::Collate { expr: inner, .. } => {
            *expr = std::mem::replace(&mut **inner, Expr::value(Value::Null));
            strip(expr);
        }
        _ => {}
    }
}

/// Returns what an operand says beside its collation.
fn text_of(expr: &mut Expr) -> &mut Expr {
    match expr {
        Expr::Nested(inner) | Expr::Collate { expr: inner, .. } => text_of(inner),
        other => other,
    }
}

/// Makes a comparison for equality obey the collations of its operands. Visits comparisons before their operands.
///
/// # Errors
/// 1235 for a collation that is not known; 1267 if the operands name several.
pub(super) fn compared(expr: &mut Expr) -> Result<(), SqlError> {
    use BinaryOperator as Op;
    match expr {
        Expr::BinaryOp { left, op: Op::Eq | Op::NotEq | Op::Spaceship, right }
        | Expr::IsDistinctFrom(left, right)
        | Expr::IsNotDistinctFrom(left, right) => fold(vec![&mut **left, &mut **right], false),
        Expr::InList { expr, list, .. } => fold(std::iter::once(&mut **expr).chain(list).collect(), false),
        Expr::Like { expr, pattern, escape_char, .. } => {
            if collation(expr).is_some() || collation(pattern).is_some() {
                // Before folding, which would change a letter behind ESCAPE.
                let text = text_of(pattern);
                let given = std::mem::replace(text, Expr::value(Value::Null));
                (*text, *escape_char) = like_escape(given, escape_char.take());
            }
            fold(vec![&mut **expr, &mut **pattern], true)
        }
        _ => Ok(()),
    }
}

fn fold(operands: Vec<&mut Expr>, is_pattern: bool) -> Result<(), SqlError> {
    let mut named: Option<String> = None;
    for name in operands.iter().filter_map(|operand| collation(operand)) {
        if let Some(known) = named.replace(name.clone())
            && known != name
        {
            return Err(SqlError {
                code: 1267,
                sqlstate: "HY000",
                message: format!("Illegal mix of collations ({known},EXPLICIT) and ({name},EXPLICIT)"),
                position: None,
            });
        }
    }
    let Some(name) = named else { return Ok(()) };
    let is_folded = kind_of(&name)? != Kind::Bytes;
    for operand in operands {
        strip(operand);
        if is_folded {
            let of = std::mem::replace(operand, Expr::value(Value::Null));
            let name = Expr::value(Value::SingleQuotedString(name.clone()));
            *operand = call(NAME, vec![of, name, Expr::value(Value::Boolean(is_pattern))]);
        }
    }
    Ok(())
}

/// Removes COLLATE from the items of a query whose values nobody compares: neither DISTINCT, GROUP BY, HAVING and
/// QUALIFY nor ORDER BY, which may name the items.
///
/// # Errors
/// 1235 for a collation that is not known.
pub(super) fn shown(query: &mut Query) -> Result<(), SqlError> {
    let is_ordered = query.order_by.is_some();
    let SetExpr::Select(select) = query.body.as_mut() else { return Ok(()) };
    let is_grouped = !matches!(&select.group_by, GroupByExpr::Expressions(keys, _) if keys.is_empty());
    let has_condition = select.having.is_some() || select.qualify.is_some();
    if is_ordered || is_grouped || select.distinct.is_some() || has_condition {
        return Ok(());
    }
    for item in &mut select.projection {
        if let SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } = item
            && let Some(name) = collation(expr)
        {
            kind_of(&name)?;
            strip(expr);
        }
    }
    Ok(())
}

/// Checks the query of a view, whose readers may compare the items that it shows.
///
/// # Errors
/// 1235 for an item with a collation that does not compare by bytes.
pub fn check_view(query: &Query) -> Result<(), SqlError> {
    let SetExpr::Select(select) = query.body.as_ref() else { return Ok(()) };
    for item in &select.projection {
        if let SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } = item
            && let Some(name) = collation(expr)
        {
            elsewhere(Expr::value(Value::Null), &name)?;
        }
    }
    Ok(())
}

/// Returns the operand of a COLLATE that no comparison has taken.
///
/// # Errors
/// 1235 if the collation does not compare by bytes.
pub(super) fn elsewhere(expr: Expr, name: &str) -> Result<Expr, SqlError> {
    match kind_of(name.trim_matches(['`', '"', '\'']))? {
        Kind::Bytes => Ok(expr),
        Kind::NoCase { .. } => {
            let what = format!(
                "COLLATE {name} other than beside =, <>, <=>, IN and LIKE: text is sorted and grouped by its bytes; \
                 lower(x) and upper(x) leave out the case"
            );
            Err(SqlError::unsupported(what, None))
        }
    }
}
