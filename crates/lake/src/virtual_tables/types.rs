//! The types of columns for SHOW DATA TYPES.

use crate::sheet::{Cell, Kind, Sheet};

/// Column types with the bytes that a value takes in memory. For text and nested types that is the size of the
/// reference to the bytes.
const TYPES: &[(&str, i64)] = &[
    ("ARRAY", 8),
    ("BIGINT", 8),
    ("BITMAP", 16),
    ("BOOLEAN", 1),
    ("CHAR", 16),
    ("DATE", 4),
    ("DATETIME", 8),
    ("DECIMAL", 16),
    ("DOUBLE", 8),
    ("FLOAT", 4),
    ("HLL", 16),
    ("INT", 4),
    ("IPV4", 4),
    ("IPV6", 16),
    ("JSON", 16),
    ("LARGEINT", 16),
    ("MAP", 8),
    ("QUANTILE_STATE", 16),
    ("SMALLINT", 2),
    ("STRING", 16),
    ("STRUCT", 8),
    ("TINYINT", 1),
    ("VARCHAR", 16),
    ("VARIANT", 16),
];

/// Makes the rows of SHOW DATA TYPES.
pub fn sizes() -> Sheet {
    let mut sheet = Sheet::new(&[("TypeName", Kind::Text), ("Size", Kind::Int)]);
    for (name, size) in TYPES {
        sheet.push([(*name).into(), Cell::Int(*size)]);
    }
    sheet
}
