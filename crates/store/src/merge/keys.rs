//! Keys of a batch in a form that compares fast: 128-bit integers if the columns fit, otherwise rows of bytes.

use std::cmp::Ordering;

use arrow_array::cast::AsArray;
use arrow_array::types::{
    Date32Type, Int8Type, Int16Type, Int32Type, Int64Type, Time64MicrosecondType, TimestampMicrosecondType, UInt64Type,
};
use arrow_array::{Array, ArrayRef, ArrowPrimitiveType, RecordBatch};
use arrow_row::{RowConverter, Rows, SortField};
use dipper_base::types::SqlType;

use super::MergeError;
use crate::table::schema::TableColumn;

/// Form in which keys of some columns are compared: ascending, NULL before all values, strings by bytes.
pub(super) enum KeyForm {
    /// Columns (position, bits, nullable) side by side in one integer, each with a bit for "not NULL" if it is
    /// nullable.
    Fixed(Vec<(usize, u32, bool)>),
    /// Arrow's row format; positions of the columns.
    Rows(Vec<usize>, RowConverter),
}

/// The keys of a batch's rows.
pub(super) enum Keys {
    Fixed(Vec<u128>),
    Rows(Rows),
}

impl KeyForm {
    /// Chooses a form for these columns, given with their positions. Without columns all keys are equal.
    pub fn try_new<'a>(columns: impl Iterator<Item = (usize, &'a TableColumn)> + Clone) -> Result<Self, MergeError> {
        let fixed: Option<Vec<_>> =
            columns.clone().map(|(i, c)| bits(&c.data_type).map(|bits| (i, bits, c.nullable))).collect();
        if let Some(fixed) =
            fixed.filter(|f| f.iter().map(|(_, bits, null)| bits + u32::from(*null)).sum::<u32>() <= 128)
        {
            return Ok(Self::Fixed(fixed));
        }
        let (places, fields): (Vec<_>, Vec<_>) =
            columns.map(|(i, c)| (i, SortField::new(c.data_type.to_arrow()))).unzip();
        Ok(Self::Rows(places, RowConverter::new(fields)?))
    }

    /// Returns the keys of a batch whose columns have their schema's types.
    pub fn keys(&self, batch: &RecordBatch) -> Result<Keys, MergeError> {
        match self {
            Self::Rows(places, converter) => {
                let columns: Vec<ArrayRef> = places.iter().map(|i| batch.column(*i).clone()).collect();
                Ok(Keys::Rows(converter.convert_columns(&columns)?))
            }
            Self::Fixed(columns) => {
                let mut keys = vec![0; batch.num_rows()];
                for (i, bits, nullable) in columns {
                    pack(&mut keys, batch.column(*i), *bits, *nullable);
                }
                Ok(Keys::Fixed(keys))
            }
        }
    }

    /// Returns one of the keys.
    pub fn one(&self, keys: &Keys, row: usize) -> Keys {
        match (self, keys) {
            (Self::Rows(_, converter), Keys::Rows(rows)) => {
                let mut one = converter.empty_rows(1, rows.row_len(row));
                one.push(rows.row(row));
                Keys::Rows(one)
            }
            (_, Keys::Fixed(keys)) => Keys::Fixed(vec![keys[row]]),
            (Self::Fixed(_), Keys::Rows(_)) => unreachable!("keys come from their own form"),
        }
    }
}

impl Keys {
    /// Compares two keys of the same form.
    pub fn compare(&self, row: usize, other: &Self, other_row: usize) -> Ordering {
        match (self, other) {
            (Self::Fixed(a), Self::Fixed(b)) => a[row].cmp(&b[other_row]),
            (Self::Rows(a), Self::Rows(b)) => a.row(row).cmp(&b.row(other_row)),
            _ => unreachable!("keys of two forms"),
        }
    }

    /// Returns whether no two keys are equal. The error is the first row whose key is less than the one before it.
    pub fn distinct(&self) -> Result<bool, usize> {
        match self {
            Self::Fixed(keys) => match keys.is_sorted_by(|a, b| a < b) {
                true => Ok(true),
                false => check(keys.len(), |i| keys[i - 1].cmp(&keys[i])),
            },
            Self::Rows(rows) => check(rows.num_rows(), |i| rows.row(i - 1).cmp(&rows.row(i))),
        }
    }

    /// Returns the first row after `from` whose key is above `bound`'s, or not below it unless `equal`; `to` if there
    /// is none. The row `from` itself is known not to be one. Steps grow by powers of two, so that a long way costs
    /// little and a short one hardly more than the next comparison.
    pub fn gallop(&self, from: usize, to: usize, bound: (&Self, usize), equal: bool) -> usize {
        let within = |row: usize| match self.compare(row, bound.0, bound.1) {
            Ordering::Less => true,
            Ordering::Equal => equal,
            Ordering::Greater => false,
        };
        let (mut low, mut step) = (from, 1);
        let mut high = loop {
            let next = low + step;
            if next >= to {
                break to;
            }
            if !within(next) {
                break next;
            }
            low = next;
            step *= 2;
        };
        while high - low > 1 {
            let middle = low + (high - low) / 2;
            if within(middle) {
                low = middle;
            } else {
                high = middle;
            }
        }
        high
    }
}

fn check(rows: usize, compare: impl Fn(usize) -> Ordering) -> Result<bool, usize> {
    let mut distinct = true;
    for i in 1..rows {
        match compare(i) {
            Ordering::Less => {}
            Ordering::Equal => distinct = false,
            Ordering::Greater => return Err(i),
        }
    }
    Ok(distinct)
}

/// Returns the width in bits of a value in a [`KeyForm::Fixed`]; `None` for types that do not fit.
fn bits(data_type: &SqlType) -> Option<u32> {
    match data_type {
        SqlType::Boolean => Some(1),
        SqlType::TinyInt => Some(8),
        SqlType::SmallInt => Some(16),
        SqlType::Int | SqlType::Date => Some(32),
        SqlType::BigInt | SqlType::UnsignedBigInt | SqlType::DateTime(_) | SqlType::Time(_) => Some(64),
        _ => None,
    }
}

fn pack(keys: &mut [u128], array: &ArrayRef, bits: u32, nullable: bool) {
    use arrow_schema::DataType;
    match array.data_type() {
        DataType::Boolean => {
            let values = array.as_boolean().values();
            pack_values(keys, array, bits, nullable, values.iter().map(u128::from));
        }
        DataType::UInt64 => {
            let values = array.as_primitive::<UInt64Type>().values();
            pack_values(keys, array, bits, nullable, values.iter().map(|v| u128::from(*v)));
        }
        DataType::Int8 => pack_signed::<Int8Type>(keys, array, bits, nullable),
        DataType::Int16 => pack_signed::<Int16Type>(keys, array, bits, nullable),
        DataType::Int32 => pack_signed::<Int32Type>(keys, array, bits, nullable),
        DataType::Int64 => pack_signed::<Int64Type>(keys, array, bits, nullable),
        DataType::Date32 => pack_signed::<Date32Type>(keys, array, bits, nullable),
        DataType::Timestamp(..) => pack_signed::<TimestampMicrosecondType>(keys, array, bits, nullable),
        DataType::Time64(_) => pack_signed::<Time64MicrosecondType>(keys, array, bits, nullable),
        other => unreachable!("{other} has no width as a key"),
    }
}

fn pack_signed<T: ArrowPrimitiveType<Native: Into<i64>>>(
    keys: &mut [u128],
    array: &ArrayRef,
    bits: u32,
    nullable: bool,
) {
    // Shifted up by half the range, signed numbers sort as unsigned ones do.
    let half = 1i128 << (bits - 1);
    let values = array.as_primitive::<T>().values();
    pack_values(keys, array, bits, nullable, values.iter().map(|v| (i128::from((*v).into()) + half) as u128));
}

fn pack_values(keys: &mut [u128], array: &ArrayRef, bits: u32, nullable: bool, values: impl Iterator<Item = u128>) {
    // A shift by 128 happens only to an empty key, which has nothing to shift.
    let shift = |key: u128, bits: u32| key.checked_shl(bits).unwrap_or(0);
    match array.nulls().filter(|_| nullable) {
        None => {
            let valid = u128::from(nullable).checked_shl(bits).unwrap_or(0);
            let width = bits + u32::from(nullable);
            keys.iter_mut().zip(values).for_each(|(k, v)| *k = shift(*k, width) | valid | v);
        }
        Some(nulls) => {
            let one = 1u128 << bits;
            keys.iter_mut().zip(values).zip(nulls).for_each(|((k, v), valid)| {
                *k = shift(*k, bits + 1) | if valid { one | v } else { 0 };
            });
        }
    }
}
