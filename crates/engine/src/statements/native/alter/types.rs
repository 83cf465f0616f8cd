//! The types to which a column can change. Existing rows are not rewritten: their values are cast when they are read,
//! so every value must have exactly one image in the new type. Look-ups convert rows of row stores to the current
//! definition.

use dipper_base::types::SqlType;

/// The columns for which a change of type is allowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Change {
    /// Keys and hashes keep their bytes; allowed for every column.
    Wider,
    /// Only the values stay equal; allowed for columns that are in no key and no hash.
    Values,
}

/// Returns what a change from `from` to `to` needs; `None` if values could be lost.
pub(super) fn change(from: &SqlType, to: &SqlType) -> Option<Change> {
    use SqlType::{
        BigInt, Boolean, Char, Date, DateTime, Decimal, Double, Float, Int, Json, LargeInt, SmallInt, String, TinyInt,
        UnsignedBigInt, Varchar,
    };
    if from == to {
        return Some(Change::Wider);
    }
    let fits = |n: &Option<u32>, m: &Option<u32>| m.is_none() || n.is_some_and(|n| n <= m.unwrap_or(n));
    match (from, to) {
        (Char(n), Char(m) | Varchar(m)) | (Varchar(n), Varchar(m)) => fits(n, m).then_some(Change::Wider),
        (Char(_) | Varchar(_) | Json, String) => Some(Change::Wider),
        (DateTime(p), DateTime(q)) => (p <= q).then_some(Change::Wider),
        (Decimal(p, s), Decimal(q, t)) if p <= q && s == t && *q <= 38 => Some(Change::Wider),
        (Decimal(p, s), Decimal(q, t)) => {
            (s <= t && i16::from(*p) - i16::from(*s) <= i16::from(*q) - i16::from(*t)).then_some(Change::Values)
        }
        (Date, DateTime(_)) | (Float, Double) => Some(Change::Values),
        _ => {
            let digits = whole_digits(from)?;
            match to {
                SmallInt | Int | BigInt if from != &UnsignedBigInt && digits < whole_digits(to)? => Some(Change::Wider),
                LargeInt => (*from != LargeInt).then_some(Change::Values),
                Decimal(q, t) => (i16::from(*q) - i16::from(*t) >= i16::from(digits)).then_some(Change::Values),
                Float => matches!(from, Boolean | TinyInt | SmallInt).then_some(Change::Values),
                Double => matches!(from, Boolean | TinyInt | SmallInt | Int).then_some(Change::Values),
                String => Some(Change::Values),
                // One character more than the digits, for the sign.
                Varchar(n) => n.is_none_or(|n| n > u32::from(digits)).then_some(Change::Values),
                _ => None,
            }
        }
    }
}

/// Number of digits of the longest value of an integer type.
fn whole_digits(t: &SqlType) -> Option<u8> {
    Some(match t {
        SqlType::TinyInt => 3,
        SqlType::SmallInt => 5,
        SqlType::Int => 10,
        SqlType::BigInt => 19,
        SqlType::UnsignedBigInt => 20,
        SqlType::LargeInt => 39,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use Change::{Values, Wider};
    use dipper_dialect::parser::parse_type;

    #[test]
    fn values_are_never_lost() {
        for (from, to, expected) in [
            ("int", "int", Some(Wider)),
            ("tinyint", "bigint", Some(Wider)),
            ("bigint", "int", None),
            ("int", "largeint", Some(Values)),
            ("bigint unsigned", "bigint", None),
            ("bigint unsigned", "largeint", Some(Values)),
            ("int", "double", Some(Values)),
            ("bigint", "double", None),
            ("int", "decimal(12,2)", Some(Values)),
            ("int", "decimal(11,2)", None),
            ("decimal(10,2)", "decimal(20,2)", Some(Wider)),
            ("decimal(10,2)", "decimal(40,2)", Some(Values)),
            ("decimal(10,2)", "decimal(12,4)", Some(Values)),
            ("decimal(10,2)", "decimal(11,4)", None),
            ("decimal(10,2)", "decimal(10,1)", None),
            ("varchar(10)", "varchar(20)", Some(Wider)),
            ("varchar(10)", "varchar(9)", None),
            ("varchar(10)", "string", Some(Wider)),
            ("string", "varchar(65533)", None),
            ("char(3)", "varchar(3)", Some(Wider)),
            ("varchar(3)", "char(3)", None),
            ("int", "varchar(11)", Some(Values)),
            ("int", "varchar(10)", None),
            ("int", "string", Some(Values)),
            ("date", "datetime(3)", Some(Values)),
            ("datetime", "date", None),
            ("datetime(0)", "datetime(6)", Some(Wider)),
            ("datetime(6)", "datetime(0)", None),
            ("float", "double", Some(Values)),
            ("string", "int", None),
            ("array<int>", "array<bigint>", None),
            ("hll", "bitmap", None),
            ("bitmap", "quantile_state", None),
        ] {
            let found = change(&parse_type(from).unwrap(), &parse_type(to).unwrap());
            assert_eq!(found, expected, "{from} to {to}");
        }
    }
}
