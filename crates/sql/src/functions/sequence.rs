//! SEQUENCE_MATCH and SEQUENCE_COUNT: whether, and how often, rows in the order of their times match a pattern.
//!
//! A pattern consists of `(?n)`, a row for which condition n holds; `.`, any row; `.*`, any number of rows; and
//! `(?t>=60)`, a distance in seconds from the row before. Rows for which no condition holds are ignored. As in Doris, a
//! distance may be reached by leaving out rows in between.
//! reached by leaving out rows in between.

use arrow::array::AsArray;
use arrow::datatypes::DataType;
use datafusion::common::{Result, ScalarValue, exec_err, plan_err};

use super::collected::{Counts, Rows, Spec, null};
use super::func::DATETIME;
use super::funnel::{constant, in_time};
use crate::type_text::Sql;

/// The largest number of conditions.
const CONDITIONS_MAX: usize = 32;

/// The largest number of steps of a search.
const STEPS_MAX: usize = 1_000_000;

/// Functions of this file.
pub(super) const SPECS: &[Spec] = &[
    Spec {
        name: "sequence_match",
        aliases: &[],
        arity: (3, 2 + CONDITIONS_MAX),
        takes,
        returns: |_| Ok(DataType::Boolean),
        declared: None,
        counts: Counts::Complete,
        nothing: null,
        finish: |rows| match found(rows, true)? {
            Some(count) => Ok(ScalarValue::Boolean(Some(count > 0))),
            None => rows.null(),
        },
    },
    Spec {
        name: "sequence_count",
        aliases: &[],
        arity: (3, 2 + CONDITIONS_MAX),
        takes,
        returns: |_| Ok(DataType::Int64),
        declared: None,
        counts: Counts::Complete,
        nothing: null,
        finish: |rows| match found(rows, false)? {
            Some(count) => Ok(ScalarValue::Int64(Some(count))),
            None => rows.null(),
        },
    },
];

fn takes(name: &'static str, types: &[DataType]) -> Result<Vec<DataType>> {
    match &types[1] {
        DataType::Date32 | DataType::Date64 | DataType::Timestamp(..) | DataType::Null => {}
        t if t.is_string() => {}
        t => return plan_err!("{name}: expected DATE or DATETIME as the time, found {}", Sql(t)),
    }
    let conditions = std::iter::repeat_n(DataType::Boolean, types.len() - 2);
    Ok([DataType::Utf8View, DATETIME].into_iter().chain(conditions).collect())
}

/// An element of a pattern.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Part {
    /// A row for which this condition holds, counted from 0.
    Condition(usize),
    /// Any row.
    One,
    /// Any number of rows.
    Any,
    /// A distance in seconds.
    Distance(Comparison, i64),
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Comparison {
    AtMost,
    Less,
    AtLeast,
    More,
    Equal,
}

impl Comparison {
    fn holds(self, distance: i64, wanted: i64) -> bool {
        match self {
            Comparison::AtMost => distance <= wanted,
            Comparison::Less => distance < wanted,
            Comparison::AtLeast => distance >= wanted,
            Comparison::More => distance > wanted,
            Comparison::Equal => distance == wanted,
        }
    }

    /// Whether the comparison can hold for a longer distance if it does not hold for this one.
    fn may_hold_later(self) -> bool {
        matches!(self, Comparison::AtLeast | Comparison::More | Comparison::Equal)
    }
}

/// Parses a pattern, which may be preceded by any number of rows.
fn parse(name: &str, pattern: &str, conditions: usize) -> Result<Vec<Part>> {
    let mut parts = vec![Part::Any];
    let mut rest = pattern;
    let take = |rest: &mut &str, text: &str| match rest.strip_prefix(text) {
        Some(behind) => {
            *rest = behind;
            true
        }
        None => false,
    };
    let number = |rest: &mut &str| -> Option<i64> {
        let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
        let number = rest[..digits].parse().ok()?;
        *rest = &rest[digits..];
        Some(number)
    };
    let wrong = |rest: &str, what: &str| {
        let at = pattern.len() - rest.len();
        exec_err!("{name}: expected {what} at byte {at} of the pattern '{pattern}'")
    };
    while !rest.is_empty() {
        if take(&mut rest, "(?t") {
            let comparison = [
                ("<=", Comparison::AtMost),
                ("<", Comparison::Less),
                (">=", Comparison::AtLeast),
                (">", Comparison::More),
                ("==", Comparison::Equal),
            ];
            let Some((_, comparison)) = comparison.into_iter().find(|(text, _)| take(&mut rest, text)) else {
                return wrong(rest, "<=, <, >=, > or ==");
            };
            let Some(seconds) = number(&mut rest) else { return wrong(rest, "a number of seconds") };
            if matches!(parts.last(), Some(Part::Distance(..))) {
                return wrong(rest, "a condition between two distances");
            }
            parts.push(Part::Distance(comparison, seconds));
        } else if take(&mut rest, "(?") {
            let Some(condition) = number(&mut rest) else { return wrong(rest, "the number of a condition") };
            match usize::try_from(condition) {
                Ok(condition) if (1..=conditions).contains(&condition) => parts.push(Part::Condition(condition - 1)),
                _ => return exec_err!("{name}: the pattern '{pattern}' has condition {condition}, of {conditions}"),
            }
        } else if take(&mut rest, ".*") {
            parts.push(Part::Any);
            continue;
        } else if take(&mut rest, ".") {
            parts.push(Part::One);
            continue;
        } else {
            return wrong(rest, "(?, .* or .");
        }
        if !take(&mut rest, ")") {
            return wrong(rest, "a closing parenthesis");
        }
    }
    Ok(parts)
}

/// A row: its time in seconds, and a bit for each condition that holds.
type Event = (i64, u32);

/// Returns the number of matches, or whether there is one if `once`; `None` if there are no rows.
fn found(rows: &Rows<'_>, once: bool) -> Result<Option<i64>> {
    let patterns = rows.columns[0].as_string_view();
    let Some(pattern) = constant(rows.name, "pattern", patterns.iter().flatten())? else { return Ok(None) };
    let conditions = &rows.columns[2..];
    let parts = parse(rows.name, pattern, conditions.len())?;
    let (order, times) = in_time(&rows.columns[1]);
    let bits = |row: usize| {
        let holds = conditions.iter().enumerate().filter(|(_, condition)| condition.as_boolean().value(row));
        holds.fold(0, |bits: u32, (at, _)| bits | 1 << at)
    };
    let events = order.iter().zip(times).map(|(row, micros)| (micros.div_euclid(1_000_000), bits(*row)));
    let events: Vec<Event> = events.filter(|(_, bits)| *bits != 0).collect();
    let wanted = parts.iter().fold(0, |bits, part| if let Part::Condition(at) = part { bits | 1 << at } else { bits });
    let met = events.iter().fold(0, |bits, (_, met)| bits | met);
    if wanted == 0 || wanted & met != wanted {
        return Ok(Some(0));
    }
    if once && !parts.iter().any(|part| matches!(part, Part::Distance(..))) {
        return Ok(Some(i64::from(fits(&parts, &events))));
    }
    let (mut count, mut from) = (0, 0);
    while from < events.len() {
        let Some(end) = fit(rows.name, &parts, &events, from)? else { break };
        count += 1;
        if once {
            break;
        }
        from = end;
    }
    Ok(Some(count))
}

/// Whether a pattern without distances matches, found by tracking the set of its parts that may come next.
fn fits(parts: &[Part], events: &[Event]) -> bool {
    // The places between rows: the part that follows, and whether rows may be left out before it.
    let mut places: Vec<(Option<Part>, bool)> = vec![(None, false)];
    for part in parts {
        let last = places.len() - 1;
        match part {
            Part::Any => places[last].1 = true,
            part => {
                places[last].0 = Some(*part);
                places.push((None, false));
            }
        }
    }
    let last = places.len() - 1;
    let mut open = vec![false; places.len()];
    open[0] = true;
    for (_, bits) in events {
        if open[last] || !open.contains(&true) {
            break;
        }
        let mut next = vec![false; places.len()];
        for (at, (part, skips)) in places.iter().enumerate().filter(|(at, _)| open[*at]) {
            match part {
                Some(Part::Condition(condition)) if bits & (1 << condition) == 0 => {}
                Some(_) => next[at + 1] = true,
                None => {}
            }
            next[at] |= *skips;
        }
        open = next;
    }
    open[last]
}

/// Returns the row after those that the pattern matches from a row on; `None` if it does not match.
fn fit(name: &str, parts: &[Part], events: &[Event], from: usize) -> Result<Option<usize>> {
    let (mut part, mut at, mut base, mut steps) = (0, from, from, 0);
    // Points to return to, and continue with the next row, if the rest does not match.
    let mut tries: Vec<(usize, usize, usize)> = Vec::new();
    while part < parts.len() && at < events.len() {
        steps += 1;
        if steps > STEPS_MAX {
            return exec_err!(
                "{name}: the pattern took more than {STEPS_MAX} steps; filter the rows, or make it simpler"
            );
        }
        let mut fails = false;
        match parts[part] {
            Part::Condition(condition) if events[at].1 & (1 << condition) == 0 => fails = true,
            Part::Condition(_) | Part::One => {
                base = at;
                part += 1;
                at += 1;
            }
            Part::Any => {
                tries.push((part, at, base));
                base = at;
                part += 1;
            }
            Part::Distance(comparison, seconds) => {
                if comparison.holds(events[at].0 - events[base].0, seconds) {
                    tries.push((part, at, base));
                    base = at;
                    part += 1;
                } else if comparison.may_hold_later() {
                    at += 1;
                    fails = at == events.len();
                } else {
                    fails = true;
                }
            }
        }
        if fails {
            loop {
                let Some((part_before, at_before, base_before)) = tries.pop() else { return Ok(None) };
                if at_before + 1 < events.len() {
                    (part, at, base) = (part_before, at_before + 1, base_before);
                    break;
                }
            }
        }
    }
    // Parts that need no further row match at the end.
    while let Some(rest) = parts.get(part) {
        match rest {
            Part::Any
            | Part::Distance(Comparison::AtMost | Comparison::Less, _)
            | Part::Distance(Comparison::AtLeast, 0) => part += 1,
            _ => return Ok(None),
        }
    }
    Ok(Some(if at == from { at + 1 } else { at }))
}
