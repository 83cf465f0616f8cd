//! Look-up of an object's columns by their ids.

use std::collections::HashMap;
use std::sync::OnceLock;

use crate::table::schema::ColumnId;

/// Up to this number of columns, one is found by a linear search.
const FEW: usize = 32;

/// The ids of columns, in the order in which an object has them.
#[derive(Debug, Clone, Default)]
pub(super) struct Ids {
    ids: Vec<ColumnId>,
    places: OnceLock<HashMap<ColumnId, usize>>,
}

impl Ids {
    /// Returns the position of a column.
    pub(super) fn place(&self, id: ColumnId) -> Option<usize> {
        if self.ids.len() <= FEW {
            return self.ids.iter().position(|own| *own == id);
        }
        let all = || {
            let mut places = HashMap::with_capacity(self.ids.len());
            for (place, id) in self.ids.iter().enumerate() {
                places.entry(*id).or_insert(place);
            }
            places
        };
        self.places.get_or_init(all).get(&id).copied()
    }

    /// Returns the column at a position.
    pub(super) fn at(&self, place: usize) -> ColumnId {
        self.ids[place]
    }
}

impl FromIterator<ColumnId> for Ids {
    fn from_iter<I: IntoIterator<Item = ColumnId>>(ids: I) -> Self {
        Ids { ids: ids.into_iter().collect(), places: OnceLock::new() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_of_an_id_is_found() {
        for n in [3, FEW, FEW + 1, 1_000] {
            let ids: Ids = (0..n as ColumnId).rev().chain([1]).collect();
            for id in 0..n as ColumnId {
                assert_eq!(ids.place(id), Some(n - 1 - id as usize));
                assert_eq!(ids.at(n - 1 - id as usize), id);
            }
            assert_eq!(ids.place(n as ColumnId), None);
        }
    }
}
