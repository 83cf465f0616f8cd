//! The order of values that are stored as text: partition bounds, smallest and largest values of columns.

use std::cmp::Ordering;

use dipper_base::address;
use dipper_base::types::SqlType;

use super::schema::{Bounds, Values};

/// Compares two values of a type, given as text in the form of a SQL literal's content. `None` for types without an
/// order and for text that is not a value of the type.
pub fn compare_text(data_type: &SqlType, a: &str, b: &str) -> Option<Ordering> {
    use SqlType::*;
    match data_type {
        TinyInt | SmallInt | Int | BigInt | UnsignedBigInt | LargeInt | Decimal(..) => compare_decimals(a, b),
        Float | Double => Some(a.parse::<f64>().ok()?.total_cmp(&b.parse().ok()?)),
        // These have a fixed width, or are longer only by a fraction, so the order of bytes is the order of values.
        Boolean | Date | DateTime(_) | Char(_) | Varchar(_) | String => Some(a.as_bytes().cmp(b.as_bytes())),
        Time(_) => Some(time(a)?.cmp(&time(b)?)),
        Ipv4 | Ipv6 => {
            let t = data_type.to_arrow();
            Some(address::parse(a, &t)?.cmp(&address::parse(b, &t)?))
        }
        Binary | Json | Variant | Array(_) | Map(..) | Struct(_) | Hll | Bitmap | QuantileState | AggState(_) => None,
    }
}

/// Parses `[-]hh:mm:ss[.ffffff]` into microseconds.
fn time(text: &str) -> Option<i64> {
    let (negative, text) = text.strip_prefix('-').map_or((false, text), |t| (true, t));
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let mut seconds = 0i64;
    for part in whole.split(':') {
        seconds = seconds.checked_mul(60)?.checked_add(part.parse().ok()?)?;
    }
    let micros: i64 = format!("{fraction:0<6}").get(..6)?.parse().ok()?;
    let total = seconds.checked_mul(1_000_000)?.checked_add(micros)?;
    Some(if negative { -total } else { total })
}

/// Compares numbers of any length by sign, digits before the point without leading zeros, and digits behind it without
/// trailing ones.
fn compare_decimals(a: &str, b: &str) -> Option<Ordering> {
    fn parts(text: &str) -> Option<(bool, &str, &str)> {
        let (negative, digits) = match text.strip_prefix('-') {
            Some(rest) => (true, rest),
            None => (false, text.strip_prefix('+').unwrap_or(text)),
        };
        let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
        let all_digits = |t: &str| t.bytes().all(|b| b.is_ascii_digit());
        if whole.len() + fraction.len() == 0 || !all_digits(whole) || !all_digits(fraction) {
            return None;
        }
        let (whole, fraction) = (whole.trim_start_matches('0'), fraction.trim_end_matches('0'));
        let zero = whole.is_empty() && fraction.is_empty();
        Some((negative && !zero, whole, fraction))
    }
    let ((a_negative, a_whole, a_fraction), (b_negative, b_whole, b_fraction)) = (parts(a)?, parts(b)?);
    if a_negative != b_negative {
        return Some(if a_negative { Ordering::Less } else { Ordering::Greater });
    }
    let size = a_whole.len().cmp(&b_whole.len()).then_with(|| a_whole.cmp(b_whole)).then(a_fraction.cmp(b_fraction));
    Some(if a_negative { size.reverse() } else { size })
}

/// Compares two tuples of partition values. A missing value is below everything, NULL is below all other values.
pub(crate) fn compare_values(types: &[&SqlType], a: &Values, b: &Values) -> Option<Ordering> {
    for (i, data_type) in types.iter().enumerate() {
        let order = match (a.get(i), b.get(i)) {
            (None, None) => Ordering::Equal,
            (None, Some(_)) => Ordering::Less,
            (Some(_), None) => Ordering::Greater,
            (Some(None), Some(None)) => Ordering::Equal,
            (Some(None), Some(Some(_))) => Ordering::Less,
            (Some(Some(_)), Some(None)) => Ordering::Greater,
            (Some(Some(a)), Some(Some(b))) => compare_text(data_type, a, b)?,
        };
        if order != Ordering::Equal {
            return Some(order);
        }
    }
    Some(Ordering::Equal)
}

/// An end of a range: its values, and whether MAXVALUE follows them.
pub(crate) type Edge<'a> = (&'a Values, bool);

/// Compares two ends of ranges. The shorter tuple of values is followed by MAXVALUE if its flag is set, otherwise by a
/// value below everything.
pub(crate) fn compare_edges(types: &[&SqlType], (a, a_max): Edge<'_>, (b, b_max): Edge<'_>) -> Option<Ordering> {
    let known = a.len().min(b.len()).min(types.len());
    let order = compare_values(&types[..known], a, b)?;
    let rest = |values: &Values, max: bool| match (values.len() > known, max) {
        (true, _) => 1,
        (false, false) => 0,
        (false, true) => 2,
    };
    let full = known == types.len();
    Some(if full { order } else { order.then(rest(a, a_max).cmp(&rest(b, b_max))) })
}

/// Returns whether some value belongs to both; `None` if a bound is not a value of its column.
pub(crate) fn overlap(types: &[&SqlType], a: &Bounds, b: &Bounds) -> Option<bool> {
    Some(match (a, b) {
        (Bounds::All, _) | (_, Bounds::All) => true,
        (Bounds::Range { .. }, Bounds::Range { .. }) => {
            let below = |lower: End<'_>, upper: End<'_>| match (lower, upper) {
                (Some(l), Some(u)) => Some(compare_edges(types, l, u)? == Ordering::Less),
                _ => Some(true),
            };
            let ((a_lower, a_upper), (b_lower, b_upper)) = (sides(a), sides(b));
            below(a_lower, b_upper)? && below(b_lower, a_upper)?
        }
        (Bounds::List(a), Bounds::List(b)) => {
            for x in a {
                for y in b {
                    if compare_values(types, x, y)? == Ordering::Equal {
                        return Some(true);
                    }
                }
            }
            false
        }
        (Bounds::Range { .. }, Bounds::List(_)) | (Bounds::List(_), Bounds::Range { .. }) => true,
    })
}

/// Returns whether two sets of partitions hold the same values: ranges are joined where they meet, lists are compared
/// as sets.
pub(super) fn same_cover<'a>(
    types: &[&SqlType],
    a: impl Iterator<Item = &'a Bounds>,
    b: impl Iterator<Item = &'a Bounds>,
) -> Option<bool> {
    let (a, b) = (cover(types, a)?, cover(types, b)?);
    if a.len() != b.len() {
        return Some(false);
    }
    for ((al, au), (bl, bu)) in a.iter().zip(&b) {
        if ends(types, al, bl)? != Ordering::Equal || ends(types, au, bu)? != Ordering::Equal {
            return Some(false);
        }
    }
    Some(true)
}

/// One end of a range; `None` is unbounded.
type End<'a> = Option<Edge<'a>>;

/// Returns the ends of a range; both unbounded for other bounds.
pub(crate) fn sides(bounds: &Bounds) -> (Option<Edge<'_>>, Option<Edge<'_>>) {
    match bounds {
        Bounds::Range { lower, upper, lower_max, upper_max } => {
            (lower.as_ref().map(|v| (v, *lower_max)), upper.as_ref().map(|v| (v, *upper_max)))
        }
        Bounds::All | Bounds::List(_) => (None, None),
    }
}

/// Compares lower ends with lower ends, or upper ends with upper ends. Unbounded ends are equal.
fn ends(types: &[&SqlType], a: &End<'_>, b: &End<'_>) -> Option<Ordering> {
    match (a, b) {
        (None, None) => Some(Ordering::Equal),
        (None, Some(_)) => Some(Ordering::Less),
        (Some(_), None) => Some(Ordering::Greater),
        (Some(a), Some(b)) => compare_edges(types, *a, *b),
    }
}

/// Returns the ranges in order, joined where they meet. Each list value is a range of its own.
fn cover<'a>(types: &[&SqlType], bounds: impl Iterator<Item = &'a Bounds>) -> Option<Vec<(End<'a>, End<'a>)>> {
    let mut list: Vec<(End<'a>, End<'a>)> = Vec::new();
    for b in bounds {
        match b {
            Bounds::All | Bounds::Range { .. } => list.push(sides(b)),
            Bounds::List(values) => list.extend(values.iter().map(|v| (Some((v, false)), Some((v, false))))),
        }
    }
    let mut comparable = true;
    list.sort_by(|a, b| {
        ends(types, &a.0, &b.0).unwrap_or_else(|| {
            comparable = false;
            Ordering::Equal
        })
    });
    if !comparable {
        return None;
    }
    let mut joined: Vec<(End<'a>, End<'a>)> = Vec::with_capacity(list.len());
    for (lower, upper) in list {
        if let Some(last) = joined.last_mut()
            && let (Some(end), Some(begin)) = (last.1, lower)
            && lower != upper
            && compare_edges(types, end, begin)? == Ordering::Equal
        {
            last.1 = upper;
        } else {
            joined.push((lower, upper));
        }
    }
    Some(joined)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_any_length_are_compared_by_value() {
        let int = SqlType::BigInt;
        let order = |a, b| compare_text(&int, a, b).unwrap();
        assert_eq!(order("9", "10"), Ordering::Less);
        assert_eq!(order("-9", "-10"), Ordering::Greater);
        assert_eq!(order("-1", "0"), Ordering::Less);
        assert_eq!(order("-0", "0.00"), Ordering::Equal);
        assert_eq!(order("007", "7.0"), Ordering::Equal);
        assert_eq!(order("1.05", "1.5"), Ordering::Less);
        assert_eq!(order("-1.05", "-1.5"), Ordering::Greater);
        let large = "170141183460469231731687303715884105727";
        assert_eq!(order(large, "99999999999999999999"), Ordering::Greater);
        assert_eq!(compare_text(&int, "x", "1"), None);
        assert_eq!(compare_text(&SqlType::Time(6), "-01:00:00", "00:00:00.5"), Some(Ordering::Less));
        assert_eq!(compare_text(&SqlType::Double, "-1e300", "2"), Some(Ordering::Less));
    }

    fn range(lower: Option<&str>, upper: Option<&str>) -> Bounds {
        let values = |t: &str| vec![Some(t.to_string())];
        Bounds::range(lower.map(values), upper.map(values))
    }

    #[test]
    fn ranges_overlap_where_a_value_is_in_both() {
        let types = [&SqlType::Int];
        let both = |a: &Bounds, b: &Bounds| {
            let found = overlap(&types, a, b).unwrap();
            assert_eq!(overlap(&types, b, a).unwrap(), found);
            found
        };
        assert!(!both(&range(None, Some("5")), &range(Some("5"), None)));
        assert!(both(&range(None, Some("6")), &range(Some("5"), None)));
        assert!(!both(&range(Some("5"), Some("10")), &range(Some("10"), Some("20"))));
        let list = |v: &[Option<&str>]| Bounds::List(v.iter().map(|v| vec![v.map(str::to_string)]).collect());
        assert!(both(&list(&[Some("1"), None]), &list(&[None])));
        assert!(!both(&list(&[Some("1")]), &list(&[Some("2")])));
        assert_eq!(overlap(&types, &range(Some("x"), None), &range(None, Some("1"))), None);
    }

    #[test]
    fn maxvalue_is_above_what_begins_alike() {
        let types = [&SqlType::Int, &SqlType::Int];
        let values = |v: &[i32]| -> Values { v.iter().map(|v| Some(v.to_string())).collect() };
        let (short, full, next) = (values(&[20]), values(&[20, 7]), values(&[21]));
        let ascending = [(&short, false), (&full, false), (&short, true), (&next, false)];
        for (i, a) in ascending.iter().enumerate() {
            for (j, b) in ascending.iter().enumerate() {
                assert_eq!(compare_edges(&types, *a, *b), Some(i.cmp(&j)), "{a:?} {b:?}");
            }
        }
        let below = Bounds::Range { upper: Some(short.clone()), upper_max: true, lower: None, lower_max: false };
        let above = Bounds::Range { lower: Some(short), lower_max: true, upper: None, upper_max: false };
        assert_eq!(overlap(&types, &below, &above), Some(false));
        assert_eq!(overlap(&types, &below, &Bounds::range(Some(full), None)), Some(true));
        assert_eq!(overlap(&types, &below, &Bounds::range(Some(next), None)), Some(false));
        // Bounds without MAXVALUE inside are written without the fields.
        let text = serde_json::to_string(&Bounds::range(None, None)).unwrap();
        assert_eq!(text, r#"{"range":{"lower":null,"upper":null}}"#);
    }

    #[test]
    fn covers_are_compared_after_joining() {
        let types = [&SqlType::Int];
        let halves = [range(Some("0"), Some("5")), range(Some("5"), Some("10"))];
        let whole = [range(Some("0"), Some("10"))];
        assert_eq!(same_cover(&types, halves.iter(), whole.iter()), Some(true));
        assert_eq!(same_cover(&types, halves.iter().take(1), whole.iter()), Some(false));
        let one = Bounds::List(vec![vec![Some("2".into())], vec![Some("1".into())]]);
        let two = [Bounds::List(vec![vec![Some("1".into())]]), Bounds::List(vec![vec![Some("2".into())]])];
        assert_eq!(same_cover(&types, [one].iter(), two.iter()), Some(true));
    }
}
