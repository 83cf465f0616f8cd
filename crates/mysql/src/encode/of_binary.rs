//! Conversion of binary rows to text rows.

use super::format;
use crate::column::{ColumnDef, ColumnType, column_flag};
use crate::wire::{Fields, put_bytes, put_written};

/// Error: bytes that are no binary row of the columns.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a row in memory is not one of its columns")]
pub struct NotABinaryRow;

/// Appends the text row of a row of the binary protocol.
pub(crate) fn text_row_of_binary(columns: &[ColumnDef], row: &[u8], out: &mut Vec<u8>) -> Result<(), NotABinaryRow> {
    let bits = (columns.len() + 9) / 8;
    let bitmap = row.get(1..1 + bits).ok_or(NotABinaryRow)?;
    let mut fields = Fields::new(&row[1 + bits..]);
    for (i, column) in columns.iter().enumerate() {
        if bitmap[(i + 2) / 8] >> ((i + 2) % 8) & 1 == 1 {
            out.push(0xfb);
        } else {
            value(column, &mut fields, out).ok_or(NotABinaryRow)?;
        }
    }
    if fields.is_empty() { Ok(()) } else { Err(NotABinaryRow) }
}

fn value(column: &ColumnDef, from: &mut Fields<'_>, out: &mut Vec<u8>) -> Option<()> {
    const WHAT: &str = "value";
    let unsigned = column.flags & column_flag::UNSIGNED != 0;
    let mut put = |write: &dyn Fn(&mut Vec<u8>)| {
        put_written(out, |out| {
            write(out);
            Ok::<_, std::convert::Infallible>(())
        })
        .ok()
    };
    match column.ty {
        ColumnType::Tiny => {
            let v = from.u8(WHAT).ok()?;
            put(&|out| if unsigned { format::int(out, v) } else { format::int(out, v as i8) })
        }
        ColumnType::Short | ColumnType::Year => {
            let v = from.u16(WHAT).ok()?;
            put(&|out| if unsigned { format::int(out, v) } else { format::int(out, v as i16) })
        }
        ColumnType::Long | ColumnType::Int24 => {
            let v = from.u32(WHAT).ok()?;
            put(&|out| if unsigned { format::int(out, v) } else { format::int(out, v as i32) })
        }
        ColumnType::LongLong => {
            let v = from.u64(WHAT).ok()?;
            put(&|out| if unsigned { format::int(out, v) } else { format::int(out, v as i64) })
        }
        ColumnType::Float => {
            let v = f32::from_bits(from.u32(WHAT).ok()?);
            put(&|out| format::float(out, v))
        }
        ColumnType::Double => {
            let v = f64::from_bits(from.u64(WHAT).ok()?);
            put(&|out| format::double(out, v))
        }
        ColumnType::Date | ColumnType::DateTime | ColumnType::Timestamp => {
            let len = from.u8(WHAT).ok()?;
            let v = from.bytes(len.into(), WHAT).ok()?;
            let year = u16::from_le_bytes([*v.first()?, *v.get(1)?]);
            let (month, day) = (*v.get(2)?, *v.get(3)?);
            let clock = v.get(4..7).unwrap_or(&[0; 3]);
            let micros = v.get(7..11).map_or(0, |m| u32::from_le_bytes([m[0], m[1], m[2], m[3]]));
            let second = (u32::from(clock[0]) * 60 + u32::from(clock[1])) * 60 + u32::from(clock[2]);
            put(&|out| {
                format::year_month_day(out, year.into(), month.into(), day.into());
                if column.ty != ColumnType::Date {
                    format::clock(out, second, micros, column.decimals);
                }
            })
        }
        ColumnType::Time => {
            let len = from.u8(WHAT).ok()?;
            let v = from.bytes(len.into(), WHAT).ok()?;
            let (negative, seconds) = match v.get(..8) {
                None => (false, 0),
                Some(v) => {
                    let days = u64::from(u32::from_le_bytes([v[1], v[2], v[3], v[4]]));
                    let seconds = ((days * 24 + u64::from(v[5])) * 60 + u64::from(v[6])) * 60 + u64::from(v[7]);
                    (v[0] != 0, seconds)
                }
            };
            let micros = v.get(8..12).map_or(0, |m| u32::from_le_bytes([m[0], m[1], m[2], m[3]]));
            put(&|out| format::time(out, negative, seconds, micros, column.decimals))
        }
        _ => {
            put_bytes(out, from.length_bytes(WHAT).ok()?);
            Some(())
        }
    }
}
