//! What is recognised as a look-up, and the rows that it means beside those of the condition as it is written.

use dipper_base::types::SqlType;
use dipper_dialect::parser::{ParseOptions, parse};
use dipper_dialect::statement::Statement;
use dipper_store::table::schema::{DELETE_SIGN, Model};

use super::*;

#[path = "../../../../tests/support/input.rs"]
mod input;

/// A table with the key `(a, b)`, a BITMAP and a hidden column.
fn schema() -> TableSchema {
    let types = [("a", SqlType::BigInt), ("b", SqlType::Varchar(None)), ("v", SqlType::Int), ("m", SqlType::Bitmap)];
    let named = types.into_iter().enumerate();
    let mut columns: Vec<TableColumn> =
        named.map(|(id, (name, data_type))| TableColumn::new(id as u32, name, data_type, true)).collect();
    let mut sign = TableColumn::new(4, DELETE_SIGN, SqlType::TinyInt, false);
    sign.hidden = true;
    columns.push(sign);
    TableSchema::new(Model::Unique, columns, 2)
}

fn query(sql: &str) -> QueryText {
    let mut parsed = parse(sql, &ParseOptions::default()).unwrap_or_else(|e| panic!("{sql}: {e}"));
    match parsed.remove(0).statement {
        Statement::Query(query) => query,
        other => panic!("{other:?}"),
    }
}

/// Returns the conditions on the keys, and the number of other conditions; or the reason why there is no look-up.
fn keys(sql: &str) -> Result<(Vec<Condition>, usize), String> {
    let query = query(sql);
    let lookup = lookup(&query).ok_or("nobody would take it for one")?;
    if let Some(why) = lookup.refused.clone() {
        return Err(why);
    }
    let found = lookup.in_table(&schema()).map_err(|why| why.unwrap_or_else(|| "no reason".into()))?;
    Ok((found.keys, found.extra.len()))
}

fn slot(n: usize) -> Source {
    Source::Slot(n)
}

fn equal(n: usize) -> Condition {
    Condition::In(vec![slot(n)])
}

#[test]
fn whole_keys_are_look_ups() {
    let null = || Condition::Same(Source::Fixed(VarValue::Null));
    for (condition, expected) in [
        ("a = ? AND b = ?", (vec![equal(0), equal(1)], 0)),
        ("? = t.a AND d.t.b = ?", (vec![equal(0), equal(1)], 0)),
        ("(b = ?) AND ((a = ?))", (vec![equal(1), equal(0)], 0)),
        ("A IN (?, ?) AND B <=> ?", (vec![Condition::In(vec![slot(0), slot(1)]), Condition::Same(slot(2))], 0)),
        ("a IS NULL AND b = TRUE", (vec![null(), Condition::In(vec![Source::Fixed(VarValue::Int(1))])], 0)),
        ("a = ? AND b = ? AND v > ?", (vec![equal(0), equal(1)], 1)),
        ("a = ? AND b = ? AND a = ?", (vec![equal(0), equal(1)], 1)),
        ("(a, b) = (?, ?)", (vec![equal(0), equal(1)], 0)),
        ("(a, v, b) = (?, ?, ?)", (vec![equal(0), equal(2)], 1)),
        ("(b, a) <=> (?, ?)", (vec![Condition::Same(slot(1)), Condition::Same(slot(0))], 0)),
        ("(a, b) IN ((?, ?), (?, ?))", (vec![Condition::Row(0), Condition::Row(1)], 0)),
        ("(b, v, a) IN ((?, ?, ?))", (vec![Condition::Row(1), Condition::Row(0)], 1)),
    ] {
        assert_eq!(keys(&format!("SELECT v FROM d.t WHERE {condition}")).as_ref(), Ok(&expected), "{condition}");
    }
    // The tuple fixes one column that is fixed already, so all of it is asked of the rows found.
    let found = keys("SELECT v FROM t WHERE a = ? AND b = ? AND (a, b) IN ((?, ?))").unwrap();
    assert_eq!(found, (vec![equal(0), equal(1)], 1));
}

#[test]
fn all_else_is_not() {
    for (sql, why) in [
        ("SELECT v FROM t WHERE a = ?", "key column b is not fixed by = or IN with constants"),
        ("SELECT v FROM t WHERE a = ? OR b = ?", "key column a is not fixed by = or IN with constants"),
        ("SELECT v FROM t WHERE a = b AND b = ?", "key column a is not fixed by = or IN with constants"),
        ("SELECT v FROM t WHERE a NOT IN (?) AND b = ?", "key column a is not fixed by = or IN with constants"),
        ("SELECT v FROM t WHERE a > ? AND b = ?", "key column a is not fixed by = or IN with constants"),
        ("SELECT v FROM t WHERE (a, a) = (?, ?) AND b = ?", "key column a is not fixed by = or IN with constants"),
        ("SELECT v FROM t WHERE (a, b) IN ((?, ?), (?, v))", "key column a is not fixed by = or IN with constants"),
        ("SELECT v FROM t WHERE NOT (a = ? AND b = ?)", "key column a is not fixed by = or IN with constants"),
        ("SELECT v FROM t WHERE a = ? AND b = ? ORDER BY v", "the query has ORDER BY"),
        ("SELECT DISTINCT v FROM t WHERE a = ? AND b = ?", "the query has DISTINCT"),
        ("SELECT sum(v) FROM t WHERE a = ? AND b = ? GROUP BY a", "the query has GROUP BY"),
        ("SELECT v FROM t WHERE a = ? AND b = ? HAVING v > 1", "the query has HAVING"),
        ("SELECT v FROM t WHERE a = ? AND b = ? LIMIT 1 + 1", "LIMIT is no constant"),
        ("SELECT v FROM t WHERE a = ? AND b = ? LIMIT ? OFFSET ?", "the query has OFFSET"),
        ("SELECT v FROM t WHERE a = ? AND b = ? FOR UPDATE", "the query has a FOR clause"),
        ("SELECT v FROM t JOIN u WHERE a = ? AND b = ?", "nobody would take it for one"),
        ("SELECT v FROM t, u WHERE a = ? AND b = ?", "nobody would take it for one"),
        ("SELECT v FROM t", "nobody would take it for one"),
        ("SELECT m FROM t WHERE a = ? AND b = ?", "the select list has BITMAP or HLL columns"),
        ("SELECT * FROM t WHERE a = ? AND b = ?", "the select list has BITMAP or HLL columns"),
        ("SELECT (SELECT 1) FROM t WHERE a = ? AND b = ?", "the select list has a subquery"),
        ("SELECT v FROM t WHERE a = ? AND b = ? AND v IN (SELECT 1)", "a condition has a subquery"),
        (
            "SELECT v FROM t WHERE a = ? AND b = ? AND v > DATE ?",
            "a string stands behind DATE, TIME, TIMESTAMP or ESCAPE; write dates without the word before them",
        ),
    ] {
        assert_eq!(keys(sql), Err(why.to_string()), "{sql}");
    }
}

#[test]
fn names_are_those_of_the_table() {
    let is_one = |sql: &str| keys(sql).is_ok();
    assert!(is_one("SELECT v FROM d.t WHERE t.a = ? AND b = ?"));
    assert!(is_one("SELECT x.v FROM d.t x WHERE x.a = ? AND x.b = ?"));
    assert!(is_one("SELECT x.v FROM d.t AS x WHERE a = ? AND b = ?"));
    // The alias hides the name, and another table has other columns.
    assert!(!is_one("SELECT v FROM d.t x WHERE t.a = ? AND b = ?"));
    assert!(!is_one("SELECT v FROM d.t WHERE u.a = ? AND b = ?"));
    assert!(!is_one("SELECT v FROM d.t WHERE e.t.a = ? AND b = ?"));
}

// ---- the rows that a look-up means ----

type Row = [Option<i64>; 3];

/// Returns the truth of a condition for a row, as SQL has it: true, false or unknown.
fn truth(expr: &Expr, row: &Row, slots: &[Option<i64>]) -> Option<bool> {
    let equal = |left: Option<i64>, right: Option<i64>| Some(left? == right?);
    let all = |values: &[Option<bool>]| match values {
        values if values.contains(&Some(false)) => Some(false),
        values if values.contains(&None) => None,
        _ => Some(true),
    };
    let any = |values: &[Option<bool>]| match values {
        values if values.contains(&Some(true)) => Some(true),
        values if values.contains(&None) => None,
        _ => Some(false),
    };
    let same = |left: &[Option<i64>], right: &[Option<i64>]| {
        all(&left.iter().zip(right).map(|(l, r)| equal(*l, *r)).collect::<Vec<_>>())
    };
    match expr {
        Expr::Nested(inner) => truth(inner, row, slots),
        Expr::BinaryOp { left, op: BinaryOperator::And, right } => {
            all(&[truth(left, row, slots), truth(right, row, slots)])
        }
        Expr::BinaryOp { left, op: BinaryOperator::Or, right } => {
            any(&[truth(left, row, slots), truth(right, row, slots)])
        }
        Expr::BinaryOp { left, op, right } => {
            let (left, right) = (values(left, row, slots), values(right, row, slots));
            match op {
                BinaryOperator::Eq => same(&left, &right),
                BinaryOperator::Spaceship => Some(left == right),
                BinaryOperator::Gt => Some(left[0]? > right[0]?),
                other => panic!("{other}"),
            }
        }
        Expr::InList { expr, list, negated } => {
            let left = values(expr, row, slots);
            let found: Vec<_> = list.iter().map(|item| same(&left, &values(item, row, slots))).collect();
            any(&found).map(|any| any != *negated)
        }
        Expr::IsNull(inner) => Some(values(inner, row, slots)[0].is_none()),
        other => panic!("{other}"),
    }
}

fn values(expr: &Expr, row: &Row, slots: &[Option<i64>]) -> Vec<Option<i64>> {
    match expr {
        Expr::Nested(inner) => values(inner, row, slots),
        Expr::Tuple(all) => all.iter().flat_map(|one| values(one, row, slots)).collect(),
        Expr::Identifier(name) => vec![row[["a", "b", "v"].iter().position(|n| *n == name.value).unwrap()]],
        Expr::Value(value) => vec![match &value.value {
            Value::Placeholder(name) => slots[placeholder(name).unwrap()],
            Value::Null => None,
            Value::Boolean(v) => Some((*v).into()),
            other => panic!("{other}"),
        }],
        other => panic!("{other}"),
    }
}

/// Returns whether a look-up finds a row.
fn finds(found: &Found<'_>, row: &Row, slots: &[Option<i64>]) -> bool {
    let value = |source: &Source| match source {
        Source::Slot(n) => slots[*n],
        Source::Fixed(VarValue::Int(v)) => Some(*v),
        Source::Fixed(_) => None,
    };
    let alone = |(condition, own): (&Condition, &Option<i64>)| match condition {
        Condition::In(sources) => sources.iter().any(|source| own.is_some() && value(source) == *own),
        Condition::Same(source) => value(source) == *own,
        Condition::Row(_) => true,
    };
    let in_rows = |of: &Vec<Source>| {
        found.keys.iter().zip(row).all(|(condition, own)| match condition {
            Condition::Row(n) => own.is_some() && value(&of[*n]) == *own,
            _ => true,
        })
    };
    found.keys.iter().zip(row).all(alone)
        && (found.rows.is_empty() || found.rows.iter().any(in_rows))
        && found.extra.iter().all(|extra| truth(extra, row, slots) == Some(true))
}

struct Random(input::Random, usize);

impl Random {
    fn below(&mut self, count: usize) -> usize {
        (self.0.draw() >> 11) as usize % count
    }

    fn one_of(&mut self, list: &[&'static str]) -> &'static str {
        list[self.below(list.len())]
    }

    fn constant(&mut self) -> String {
        match self.below(12) {
            0 => "NULL".into(),
            1 => "TRUE".into(),
            2 => "(FALSE)".into(),
            _ => {
                self.1 += 1;
                "?".into()
            }
        }
    }

    fn tuple(&mut self, width: usize) -> String {
        let all: Vec<String> = (0..width).map(|_| self.constant()).collect();
        format!("({})", all.join(", "))
    }

    fn condition(&mut self) -> String {
        let column = self.one_of(&["a", "b", "a", "b", "v"]);
        match self.below(10) {
            0..=2 => {
                let (op, value) = (self.one_of(&["=", "=", "<=>"]), self.constant());
                if self.below(3) == 0 { format!("{value} {op} {column}") } else { format!("({column}) {op} {value}") }
            }
            3 => {
                let width = 1 + self.below(3);
                let list = self.tuple(width);
                format!("{column} {} {list}", self.one_of(&["IN", "IN", "NOT IN"]))
            }
            4 => format!("{column} IS NULL"),
            5 => {
                let columns = self.one_of(&["(a, b)", "(b, a)", "(a, v)", "(v, b)", "(a, a)"]);
                format!("{columns} {} {}", self.one_of(&["=", "<=>"]), self.tuple(2))
            }
            6 | 7 => {
                let columns = self.one_of(&["(a, b)", "(b, a)", "(v, a)", "(b, v)", "(b, b)"]);
                let rows: Vec<String> = (0..1 + self.below(3)).map(|_| self.tuple(2)).collect();
                format!("{columns} IN ({})", rows.join(", "))
            }
            8 => format!("{column} > {}", self.constant()),
            _ => format!("({} OR {})", self.condition(), self.condition()),
        }
    }
}

#[test]
fn look_ups_find_the_rows_of_their_conditions() {
    let schema = schema();
    let domain = [None, Some(0), Some(1), Some(2)];
    let mut random = Random(input::Random(0x1234_5678_9ABC_DEF1), 0);
    let (mut lookups, mut with_rows, mut hits) = (0, 0, 0);
    for _ in 0..20_000 {
        random.1 = 0;
        let all: Vec<String> = (0..1 + random.below(4)).map(|_| random.condition()).collect();
        let sql = format!("SELECT v FROM t WHERE {}", all.join(" AND "));
        let query = query(&sql);
        let lookup = lookup(&query).expect("it has a table and conditions");
        let Ok(found) = lookup.in_table(&schema) else { continue };
        lookups += 1;
        with_rows += usize::from(!found.rows.is_empty());
        let slots: Vec<Option<i64>> = (0..random.1).map(|_| domain[random.below(4)]).collect();
        let selection = lookup.select.selection.as_ref().expect("it has conditions");
        for a in domain {
            for b in domain {
                for v in domain {
                    let row = [a, b, v];
                    let wanted = truth(selection, &row, &slots) == Some(true);
                    hits += usize::from(wanted);
                    assert_eq!(finds(&found, &row, &slots), wanted, "{row:?} of {sql} with {slots:?}: {found:?}");
                }
            }
        }
    }
    assert!(lookups > 3_000 && with_rows > 500 && hits > 1_000, "{lookups} look-ups, {with_rows} by rows, {hits} rows");
}
