//! FORMAT of a pattern: values in the places of `{}`, in the syntax of C++'s library fmt, as in Doris.

use std::fmt::Write;

use arrow::array::{ArrayRef, Float64Array, StringViewArray};
use arrow::datatypes::DataType;
use datafusion::common::{Result, exec_err};

use super::super::args::{Args, Col};
use super::super::whole::{Wholes, wholes};

/// The values of an argument. All arguments of a call have one kind: texts if one is a text, else doubles if one has a
/// fraction.
enum Values {
    Whole(Wholes),
    Real(Col<Float64Array>, bool),
    Text(Col<StringViewArray>),
}

/// One value.
enum Value<'a> {
    Whole(i128),
    /// A double, and whether it is a FLOAT.
    Real(f64, bool),
    Text(&'a str),
}

/// The error is a message.
type Filled<T> = std::result::Result<T, &'static str>;

/// `FORMAT(pattern, value, ...)`.
pub fn format(a: &Args) -> Result<ArrayRef> {
    let patterns = a.text(0)?;
    let of_kind = |kind: fn(&DataType) -> bool| (1..a.len()).all(|k| kind(a.data_type(k)));
    let whole =
        |t: &DataType| t.is_integer() || matches!(t, DataType::Boolean | DataType::Null | DataType::Decimal256(_, 0));
    let columns = (1..a.len()).map(|k| {
        Ok(match () {
            () if of_kind(whole) => Values::Whole(wholes(a, k)?),
            () if of_kind(|t| t.is_numeric() || matches!(t, DataType::Boolean | DataType::Null)) => {
                Values::Real(a.double(k)?, *a.data_type(k) == DataType::Float32)
            }
            () => Values::Text(a.text(k)?),
        })
    });
    let columns = columns.collect::<Result<Vec<_>>>()?;
    let mut bad = None;
    let mut values = Vec::with_capacity(columns.len());
    let out = a.texts(|i, out| {
        let pattern = patterns.at(i)?;
        let of_row = columns.iter().map(|column| {
            Some(match column {
                Values::Whole(column) => Value::Whole(column.at(i)?),
                Values::Real(column, single) => Value::Real(column.at(i)?, *single),
                // The texts live as long as their column.
                Values::Text(column) => Value::Text(column.at(i)?),
            })
        });
        values.clear();
        for value in of_row {
            values.push(value?);
        }
        match fill(a, out, pattern, &values) {
            Ok(()) => Some(()),
            Err(e) => {
                bad.get_or_insert(format!("{e} in '{pattern}'"));
                None
            }
        }
    })?;
    match bad {
        Some(bad) => exec_err!("{}: {bad}", a.name),
        None => Ok(out),
    }
}

/// Appends the pattern with the values in place of the braces.
fn fill(a: &Args, out: &mut String, pattern: &str, values: &[Value]) -> Filled<()> {
    let (mut rest, mut next, mut numbered) = (pattern, 0, false);
    while let Some(at) = rest.find(['{', '}']) {
        out.push_str(&rest[..at]);
        let brace = &rest[at..=at];
        rest = &rest[at + 1..];
        if let Some(behind) = rest.strip_prefix(brace) {
            out.push_str(brace);
            rest = behind;
            continue;
        }
        if brace == "}" {
            return Err("an unmatched }");
        }
        let Some(end) = rest.find('}') else { return Err("an unmatched {") };
        let (place, behind) = rest.split_at(end);
        rest = &behind[1..];
        let (number, spec) = place.split_once(':').unwrap_or((place, ""));
        let k = if number.is_empty() {
            next += 1;
            next - 1
        } else {
            numbered = true;
            match number.bytes().all(|b| b.is_ascii_digit()).then(|| number.parse::<usize>()) {
                Some(Ok(k)) => k,
                _ => return Err("no number of a value"),
            }
        };
        if numbered && next > 0 {
            return Err("places with and without a number");
        }
        let Some(value) = values.get(k) else { return Err("a place without a value") };
        Spec::parse(spec)?.write(a, out, value)?;
    }
    out.push_str(rest);
    Ok(())
}

/// The format of a value.
#[derive(Default)]
struct Spec {
    fill: Option<char>,
    align: Option<char>,
    sign: Option<char>,
    with_base: bool,
    zeros: bool,
    width: usize,
    precision: Option<usize>,
    kind: Option<char>,
}

const ALIGNS: [char; 3] = ['<', '>', '^'];

impl Spec {
    /// Parses `[[fill]align][sign][#][0][width][.precision][kind]`.
    fn parse(text: &str) -> Filled<Spec> {
        let mut spec = Spec::default();
        let mut rest = text;
        let mut chars = text.chars();
        match (chars.next(), chars.next()) {
            (Some(fill), Some(align)) if ALIGNS.contains(&align) => {
                (spec.fill, spec.align) = (Some(fill), Some(align));
                rest = chars.as_str();
            }
            (Some(align), _) if ALIGNS.contains(&align) => {
                spec.align = Some(align);
                rest = &text[1..];
            }
            _ => {}
        }
        if let Some(behind) = rest.strip_prefix(['+', '-', ' ']) {
            spec.sign = rest.chars().next();
            rest = behind;
        }
        if let Some(behind) = rest.strip_prefix('#') {
            spec.with_base = true;
            rest = behind;
        }
        if let Some(behind) = rest.strip_prefix('0') {
            spec.zeros = true;
            rest = behind;
        }
        spec.width = number(&mut rest)?.unwrap_or(0);
        if let Some(behind) = rest.strip_prefix('.') {
            rest = behind;
            spec.precision = Some(number(&mut rest)?.ok_or("no precision behind a point")?);
        }
        let mut chars = rest.chars();
        spec.kind = chars.next();
        match chars.next() {
            None => Ok(spec),
            Some(_) => Err("no format of a value"),
        }
    }

    fn write(&self, a: &Args, out: &mut String, value: &Value) -> Filled<()> {
        const FULL: &str = "no room for a value";
        a.ask(self.width.saturating_mul(4).saturating_add(self.precision.unwrap_or(0))).ok_or(FULL)?;
        match value {
            Value::Text(text) => self.text(out, text),
            Value::Whole(number) => self.whole(out, *number),
            Value::Real(number, single) => self.real(out, *number, *single),
        }
    }

    fn text(&self, out: &mut String, text: &str) -> Filled<()> {
        if !matches!(self.kind, None | Some('s')) || self.sign.is_some() || self.with_base || self.zeros {
            return Err("a format of numbers for a text");
        }
        let shown = match self.precision {
            Some(most) => &text[..text.char_indices().nth(most).map_or(text.len(), |(at, _)| at)],
            None => text,
        };
        self.pad(out, "", shown, '<');
        Ok(())
    }

    fn whole(&self, out: &mut String, number: i128) -> Filled<()> {
        if self.precision.is_some() {
            return Err("a precision for a whole number");
        }
        let size = number.unsigned_abs();
        let (digits, base) = match self.kind {
            None | Some('d') => (size.to_string(), ""),
            Some('x') => (format!("{size:x}"), "0x"),
            Some('X') => (format!("{size:X}"), "0X"),
            Some('b') => (format!("{size:b}"), "0b"),
            Some('B') => (format!("{size:b}"), "0B"),
            Some('o') => (format!("{size:o}"), if size == 0 { "" } else { "0" }),
            Some(_) => return Err("no format of a whole number"),
        };
        let mut front = self.sign_of(number < 0).to_string();
        if self.with_base {
            front.push_str(base);
        }
        self.pad(out, &front, &digits, '>');
        Ok(())
    }

    fn real(&self, out: &mut String, number: f64, single: bool) -> Filled<()> {
        if self.with_base {
            return Err("# for a number with a fraction, which is not supported,");
        }
        let size = number.abs();
        let mut digits = match (self.kind, self.precision) {
            (None | Some('e' | 'E' | 'f' | 'F' | 'g' | 'G'), _) if !size.is_finite() => {
                (if size.is_nan() { "nan" } else { "inf" }).to_string()
            }
            (None, None) => shortest(size, single),
            (Some('e' | 'E'), precision) => with_exponent(&format!("{size:.*e}", precision.unwrap_or(6))),
            (Some('f' | 'F'), precision) => format!("{size:.*}", precision.unwrap_or(6)),
            (None | Some('g' | 'G'), precision) => general(size, precision.unwrap_or(6).max(1)),
            (Some(_), _) => return Err("no format of a number with a fraction"),
        };
        if matches!(self.kind, Some('E' | 'F' | 'G')) {
            digits.make_ascii_uppercase();
        }
        let front = self.sign_of(number.is_sign_negative());
        match size.is_finite() {
            true => self.pad(out, front, &digits, '>'),
            false => Spec { zeros: false, fill: self.fill, align: self.align, width: self.width, ..Spec::default() }
                .pad(out, front, &digits, '>'),
        }
        Ok(())
    }

    fn sign_of(&self, negative: bool) -> &'static str {
        match (negative, self.sign) {
            (true, _) => "-",
            (false, Some('+')) => "+",
            (false, Some(' ')) => " ",
            (false, _) => "",
        }
    }

    /// Appends sign and digits, or a text, padded to the width.
    fn pad(&self, out: &mut String, front: &str, shown: &str, usual: char) {
        let missing = self.width.saturating_sub(front.len() + shown.chars().map(columns).sum::<usize>());
        let zeros = self.zeros && self.align.is_none();
        let left = match self.align.unwrap_or(usual) {
            _ if zeros => 0,
            '<' => 0,
            '>' => missing,
            _ => missing / 2,
        };
        let fill = self.fill.unwrap_or(' ');
        out.extend(std::iter::repeat_n(fill, left));
        out.push_str(front);
        out.extend(std::iter::repeat_n('0', if zeros { missing } else { 0 }));
        out.push_str(shown);
        out.extend(std::iter::repeat_n(fill, if zeros { 0 } else { missing - left }));
    }
}

/// The largest width and precision: one value may not be far larger than the statement.
const NUMBER_MAX: usize = 10_000;

/// Takes the number at the front of a text; the text continues after it.
fn number<'a>(text: &mut &'a str) -> Filled<Option<usize>> {
    let whole: &'a str = text;
    let end = whole.find(|c: char| !c.is_ascii_digit()).unwrap_or(whole.len());
    let (digits, behind) = whole.split_at(end);
    *text = behind;
    match digits {
        "" => Ok(None),
        _ => match digits.parse() {
            Ok(n) if n <= NUMBER_MAX => Ok(Some(n)),
            _ => Err("a number above 10000"),
        },
    }
}

/// Returns the number of terminal columns that fmt counts for a character.
fn columns(c: char) -> usize {
    let wide = matches!(c,
        '\u{1100}'..='\u{115f}' | '\u{2329}' | '\u{232a}' | '\u{2e80}'..='\u{303e}' | '\u{3040}'..='\u{a4cf}'
        | '\u{ac00}'..='\u{d7a3}' | '\u{f900}'..='\u{faff}' | '\u{fe10}'..='\u{fe19}' | '\u{fe30}'..='\u{fe6f}'
        | '\u{ff00}'..='\u{ff60}' | '\u{ffe0}'..='\u{ffe6}' | '\u{1f300}'..='\u{1f64f}' | '\u{1f900}'..='\u{1f9ff}'
        | '\u{20000}'..='\u{2fffd}' | '\u{30000}'..='\u{3fffd}');
    1 + usize::from(wide)
}

/// Writes an exponent with a sign and at least two digits.
fn with_exponent(text: &str) -> String {
    let Some((digits, exponent)) = text.split_once('e') else { return text.to_string() };
    let exponent: i32 = exponent.parse().unwrap_or(0);
    format!("{digits}e{}{:02}", if exponent < 0 { '-' } else { '+' }, exponent.abs())
}

/// Returns the fewest digits that read back.
fn shortest(size: f64, single: bool) -> String {
    let text = if single { format!("{:e}", size as f32) } else { format!("{size:e}") };
    let exponent: i32 = text.split_once('e').and_then(|(_, exponent)| exponent.parse().ok()).unwrap_or(0);
    match (-4..16).contains(&exponent) {
        true if single => (size as f32).to_string(),
        true => size.to_string(),
        false => with_exponent(&text),
    }
}

/// Returns `precision` digits without trailing zeros, with an exponent if there are more digits before the point.
fn general(size: f64, precision: usize) -> String {
    let text = format!("{size:.*e}", precision - 1);
    let exponent: i64 = text.split_once('e').and_then(|(_, exponent)| exponent.parse().ok()).unwrap_or(0);
    let stripped = |digits: &str| match digits.contains('.') {
        true => digits.trim_end_matches('0').trim_end_matches('.').to_string(),
        false => digits.to_string(),
    };
    if exponent < -4 || exponent >= precision as i64 {
        let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
        let mut out = stripped(digits);
        let _ = write!(out, "e{exponent}");
        return with_exponent(&out);
    }
    stripped(&format!("{size:.*}", (precision as i64 - 1 - exponent) as usize))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_as_fmt_shows_them() {
        for (number, expected) in [
            (0.0, "0"),
            (1.0, "1"),
            (0.1, "0.1"),
            (1e15, "1000000000000000"),
            (1e16, "1e+16"),
            (0.0001, "0.0001"),
            (0.00001, "1e-05"),
            (1.5e300, "1.5e+300"),
        ] {
            assert_eq!(shortest(number, false), expected);
        }
        assert_eq!(shortest(f64::from(0.1_f32), true), "0.1");
        for (number, precision, expected) in [
            (3.12159, 2, "3.1"),
            (1234.5, 2, "1.2e+03"),
            (100.0, 3, "100"),
            (0.00001234, 3, "1.23e-05"),
            (99.99, 2, "1e+02"),
        ] {
            assert_eq!(general(number, precision), expected);
        }
    }
}
