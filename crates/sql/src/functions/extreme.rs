//! MAX_BY, MIN_BY, and MAX and MIN of ARRAY and STRUCT values: the row with the greatest or least key.
//!
//! Keys compare like in ORDER BY, NULLs inside a key first. The first of equal keys stays.

use std::collections::HashMap;

use arrow::array::{Array, ArrayRef, BooleanArray, UInt64Array, make_comparator};
use arrow::compute::{SortOptions, take};
use arrow::datatypes::DataType;
use datafusion::common::{Result, ScalarValue, internal_err};
use datafusion::logical_expr::{Accumulator, EmitTo, GroupsAccumulator};

use super::args::where_true;
use super::kept::{KeptRows, own_row};

/// The best row so far.
#[derive(Debug)]
pub(super) struct Best {
    greatest: bool,
    value_type: DataType,
    key_type: DataType,
    /// The value and its key, one row each. For MAX and MIN, whose value is the key, only the key.
    row: Option<(Option<ArrayRef>, ArrayRef)>,
    by: bool,
}

impl Best {
    /// Returns MAX_BY or MIN_BY.
    pub(super) fn by(greatest: bool, value_type: DataType, key_type: DataType) -> Self {
        Best { greatest, value_type, key_type, row: None, by: true }
    }

    /// Returns MAX or MIN.
    pub(super) fn of(greatest: bool, data_type: DataType) -> Self {
        Best { greatest, value_type: data_type.clone(), key_type: data_type, row: None, by: false }
    }

    fn value(&self) -> Result<ScalarValue> {
        match &self.row {
            Some((value, key)) => ScalarValue::try_from_array(value.as_ref().unwrap_or(key), 0),
            None => ScalarValue::try_from(&self.value_type),
        }
    }
}

impl Accumulator for Best {
    fn update_batch(&mut self, columns: &[ArrayRef]) -> Result<()> {
        let keys = &columns[columns.len() - 1];
        let order = SortOptions { descending: self.greatest, nulls_first: !self.greatest };
        let compare = make_comparator(keys, keys, order)?;
        let nulls = keys.logical_nulls();
        let valid = |at: &usize| nulls.as_ref().is_none_or(|nulls| nulls.is_valid(*at));
        let best = (0..keys.len()).filter(valid).reduce(|a, b| if compare(b, a).is_lt() { b } else { a });
        let Some(best) = best else { return Ok(()) };
        let better = match &self.row {
            Some((_, key)) => make_comparator(keys, key, order)?(best, 0).is_lt(),
            None => true,
        };
        if better {
            let value = self.by.then(|| own_row(&columns[0], best)).transpose()?;
            self.row = Some((value, own_row(keys, best)?));
        }
        Ok(())
    }

    fn merge_batch(&mut self, states: &[ArrayRef]) -> Result<()> {
        self.update_batch(states)
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        let value = self.value()?;
        match (&self.row, self.by) {
            (_, false) => Ok(vec![value]),
            (Some((_, key)), true) => Ok(vec![value, ScalarValue::try_from_array(key, 0)?]),
            (None, true) => Ok(vec![value, ScalarValue::try_from(&self.key_type)?]),
        }
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        self.value()
    }

    fn size(&self) -> usize {
        let bytes = |row: &ArrayRef| row.get_array_memory_size();
        let kept = self.row.as_ref().map_or(0, |(value, key)| value.as_ref().map_or(0, bytes) + bytes(key));
        size_of_val(self) + kept
    }
}

/// The best row of each group.
#[derive(Debug)]
pub(super) struct BestRows {
    greatest: bool,
    keys: KeptRows,
    /// The values; `None` if the value is the key.
    values: Option<KeptRows>,
}

impl BestRows {
    /// Returns MAX_BY or MIN_BY.
    pub(super) fn by(greatest: bool, value_type: DataType, key_type: DataType) -> Result<Self> {
        Ok(BestRows { greatest, keys: KeptRows::new(&[key_type])?, values: Some(KeptRows::new(&[value_type])?) })
    }

    /// Returns MAX or MIN.
    pub(super) fn of(greatest: bool, data_type: DataType) -> Result<Self> {
        Ok(BestRows { greatest, keys: KeptRows::new(&[data_type])?, values: None })
    }

    fn one_column(columns: Vec<ArrayRef>) -> Result<ArrayRef> {
        match <[ArrayRef; 1]>::try_from(columns) {
            Ok([column]) => Ok(column),
            Err(columns) => internal_err!("one column was kept, {} are there", columns.len()),
        }
    }
}

impl GroupsAccumulator for BestRows {
    fn update_batch(
        &mut self,
        columns: &[ArrayRef],
        group_indices: &[usize],
        opt_filter: Option<&BooleanArray>,
        total_num_groups: usize,
    ) -> Result<()> {
        self.keys.resize(total_num_groups);
        let keys = &columns[columns.len() - 1];
        let nulls = keys.logical_nulls();
        let rows = self.keys.bytes_of(std::slice::from_ref(keys))?;
        // For each group the row whose value is kept.
        let mut better: HashMap<usize, u64> = HashMap::new();
        for (at, group) in group_indices.iter().enumerate() {
            let chosen = opt_filter.is_none_or(|filter| filter.is_valid(at) && filter.value(at));
            if !chosen || nulls.as_ref().is_some_and(|nulls| nulls.is_null(at)) {
                continue;
            }
            let key = rows.row(at);
            let is_better = match self.keys.get(*group) {
                None => true,
                Some(best) if self.greatest => key.data() > best,
                Some(best) => key.data() < best,
            };
            if is_better {
                self.keys.set(*group, key.data());
                better.insert(*group, at as u64);
            }
        }
        let Some(values) = &mut self.values else { return Ok(()) };
        values.resize(total_num_groups);
        if better.is_empty() {
            return Ok(());
        }
        let (groups, rows): (Vec<usize>, Vec<u64>) = better.into_iter().unzip();
        let chosen = take(&columns[0], &UInt64Array::from(rows), None)?;
        let chosen = values.bytes_of(&[chosen])?;
        for (at, group) in groups.into_iter().enumerate() {
            values.set(group, chosen.row(at).data());
        }
        Ok(())
    }

    fn merge_batch(&mut self, states: &[ArrayRef], group_indices: &[usize], total_num_groups: usize) -> Result<()> {
        self.update_batch(states, group_indices, None, total_num_groups)
    }

    fn evaluate(&mut self, emit_to: EmitTo) -> Result<ArrayRef> {
        let keys = self.keys.take(emit_to)?;
        match &mut self.values {
            Some(values) => Self::one_column(values.take(emit_to)?),
            None => Self::one_column(keys),
        }
    }

    fn state(&mut self, emit_to: EmitTo) -> Result<Vec<ArrayRef>> {
        let keys = self.keys.take(emit_to)?;
        let mut state = self.values.as_mut().map(|values| values.take(emit_to)).transpose()?.unwrap_or_default();
        state.extend(keys);
        Ok(state)
    }

    fn convert_to_state(&self, columns: &[ArrayRef], opt_filter: Option<&BooleanArray>) -> Result<Vec<ArrayRef>> {
        let Some(filter) = opt_filter else { return Ok(columns.to_vec()) };
        // A row without a key is ignored.
        let out = arrow::compute::not(&where_true(filter))?;
        let mut state = columns.to_vec();
        if let Some(keys) = state.last_mut() {
            *keys = arrow::compute::nullif(keys, &out)?;
        }
        Ok(state)
    }

    fn size(&self) -> usize {
        size_of_val(self) + self.keys.size() + self.values.as_ref().map_or(0, KeptRows::size)
    }
}

/// Whether MAX and MIN of this type are computed here; for other types they are DataFusion's.
pub(super) fn is_nested(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Struct(_) | DataType::List(_) | DataType::LargeList(_) | DataType::FixedSizeList(..))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use arrow::array::{Int64Array, ListArray};
    use arrow::datatypes::Int64Type;

    use super::*;

    fn lists() -> ArrayRef {
        let some = |v: Vec<Option<i64>>| Some(v);
        let lists =
            vec![some(vec![Some(2)]), None, some(vec![None, Some(9)]), some(vec![Some(2), Some(1)]), some(vec![])];
        Arc::new(ListArray::from_iter_primitive::<Int64Type, _, _>(lists))
    }

    #[test]
    fn one_and_many_groups_agree() {
        let values = lists();
        for greatest in [true, false] {
            let mut one = Best::of(greatest, values.data_type().clone());
            one.update_batch(&[values.clone()]).unwrap();
            let mut many = BestRows::of(greatest, values.data_type().clone()).unwrap();
            many.update_batch(&[values.clone()], &[1; 5], None, 2).unwrap();
            let found = many.evaluate(EmitTo::All).unwrap();
            assert!(found.is_null(0));
            let one = one.evaluate().unwrap().to_array().unwrap();
            assert_eq!(&found.slice(1, 1), &one);
            assert_eq!(&one, &values.slice(if greatest { 3 } else { 4 }, 1));
        }
    }

    #[test]
    fn the_first_of_equal_keys_stays() {
        let values: ArrayRef = Arc::new(Int64Array::from(vec![1, 2, 3, 4]));
        let keys: ArrayRef = Arc::new(Int64Array::from(vec![Some(7), None, Some(8), Some(8)]));
        let filter = BooleanArray::from(vec![true, true, false, true]);
        let mut groups = BestRows::by(true, DataType::Int64, DataType::Int64).unwrap();
        groups.update_batch(&[values.clone(), keys.clone()], &[0, 0, 1, 1], None, 2).unwrap();
        groups.update_batch(&[values.clone(), keys.clone()], &[0; 4], Some(&filter), 2).unwrap();
        let found = groups.evaluate(EmitTo::First(1)).unwrap();
        assert_eq!(&found, &(Arc::new(Int64Array::from(vec![4])) as ArrayRef));
        let rest = groups.evaluate(EmitTo::All).unwrap();
        assert_eq!(&rest, &(Arc::new(Int64Array::from(vec![3])) as ArrayRef));
        let state = groups.convert_to_state(&[values, keys], Some(&filter)).unwrap();
        assert_eq!(state[1].null_count(), 2);
    }
}
