//! Memory for the results of functions.
//!
//! A few bytes of arguments can make any number of bytes of result: `repeat('a', 1000000)` over 8,192 rows. So a call
//! reserves what it makes beyond [`FREE_BYTES`] from the statement's memory before it is made, and at the same points
//! it checks whether the statement has ended. The reservation is released when the call is done: the operators after it
//! reserve what they keep.

use std::sync::Arc;

use arrow::array::{Array, ArrayRef, AsArray};
use arrow::datatypes::DataType;
use datafusion::common::config::ConfigOptions;
use datafusion::common::{DataFusionError, Result};
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryPool, MemoryReservation};

use super::{SessionInfo, still_wanted};

/// The bytes that a call may make without a reservation.
const FREE_BYTES: usize = 8 << 20;

/// Memory per byte of a growing result: a full vector moves into one of twice the size.
const ROOM: usize = 2;

/// The memory pool from which the functions of a statement reserve.
#[derive(Clone, Debug)]
pub struct Memory(pub Arc<dyn MemoryPool>);

impl PartialEq for Memory {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

/// Returns the bytes of the values of an array, without those of other slices of the same buffers. Long texts of views
/// are not counted: copies of views share them.
pub fn bytes_of(array: &ArrayRef) -> usize {
    match array.data_type() {
        DataType::List(_) => {
            let lists = array.as_list::<i32>();
            let offsets = lists.value_offsets();
            let (from, to) = (offsets[0] as usize, offsets[lists.len()] as usize);
            size_of_val(offsets) + bytes_of(&lists.values().slice(from, to - from))
        }
        DataType::Map(..) => {
            let maps = array.as_map();
            let offsets = maps.value_offsets();
            let (from, to) = (offsets[0] as usize, offsets[maps.len()] as usize);
            let entries: ArrayRef = Arc::new(maps.entries().slice(from, to - from));
            size_of_val(offsets) + bytes_of(&entries)
        }
        DataType::Struct(_) => array.as_struct().columns().iter().map(bytes_of).sum(),
        _ => array.to_data().get_slice_memory_size().unwrap_or_default(),
    }
}

/// The bytes that one call has made, and those that it may make.
pub struct Growth {
    name: &'static str,
    pool: Option<Arc<dyn MemoryPool>>,
    made: usize,
    granted: usize,
    reservation: Option<MemoryReservation>,
    refused: Option<DataFusionError>,
}

impl Growth {
    /// Starts a call that has made nothing, under the configuration of a session.
    pub fn new(name: &'static str, config: &ConfigOptions) -> Self {
        let pool = config.extensions.get::<SessionInfo>().and_then(|info| info.memory.clone());
        Growth {
            name,
            pool: pool.map(|memory| memory.0),
            made: 0,
            granted: FREE_BYTES,
            reservation: None,
            refused: None,
        }
    }

    /// Asks for room for this many bytes more than were made. `None` if there is no room; [`add`](Self::add) then
    /// returns the reason.
    #[inline]
    pub fn ask(&mut self, bytes: usize) -> Option<()> {
        match self.made.checked_add(bytes) {
            Some(wanted) if wanted <= self.granted => Some(()),
            wanted => self.grow(wanted.unwrap_or(usize::MAX)),
        }
    }

    #[cold]
    fn grow(&mut self, wanted: usize) -> Option<()> {
        let granted = still_wanted().and_then(|()| {
            let Some(pool) = &self.pool else { return Ok(wanted) };
            let name = self.name;
            let reservation = self.reservation.get_or_insert_with(|| MemoryConsumer::new(name).register(pool));
            // The reservation grows by half, so that a call seldom has to ask; by what is needed if there is no room
            // for more.
            let ahead = wanted.saturating_add(self.made / 2);
            match reservation.try_resize(ahead.saturating_mul(ROOM)) {
                Ok(()) => Ok(ahead),
                Err(_) => reservation.try_resize(wanted.saturating_mul(ROOM)).map(|()| wanted),
            }
        });
        match granted {
            Ok(granted) => {
                self.granted = granted;
                Some(())
            }
            Err(e) => {
                self.refused.get_or_insert(e);
                None
            }
        }
    }

    /// Reports that this many bytes were made.
    ///
    /// # Errors
    /// `ResourcesExhausted` if there is no room for them, or there was none when it was asked for; `Execution` if the
    /// statement has ended.
    #[inline]
    pub fn add(&mut self, bytes: usize) -> Result<()> {
        if self.refused.is_none() && self.ask(bytes).is_some() {
            self.made += bytes;
            return Ok(());
        }
        Err(self.refused.take().unwrap_or_else(|| DataFusionError::ResourcesExhausted(self.name.to_string())))
    }
}

#[cfg(test)]
mod tests {
    use arrow::array::{Int64Array, ListArray};
    use arrow::datatypes::Int64Type;
    use datafusion::execution::memory_pool::GreedyMemoryPool;

    use super::*;

    #[test]
    fn slices_are_as_large_as_what_they_show() {
        let numbers: ArrayRef = Arc::new(Int64Array::from_iter_values(0..1000));
        assert_eq!(bytes_of(&numbers.slice(10, 5)), 40);
        let lists = ListArray::from_iter_primitive::<Int64Type, _, _>((0..1000).map(|i| Some([Some(i), Some(i)])));
        let lists: ArrayRef = Arc::new(lists);
        assert_eq!(bytes_of(&lists.slice(500, 3)), 4 * 4 + 6 * 8);
    }

    fn growth(bytes: usize) -> (Growth, Arc<dyn MemoryPool>) {
        let pool: Arc<dyn MemoryPool> = Arc::new(GreedyMemoryPool::new(bytes));
        let mut config = ConfigOptions::new();
        config.extensions.insert(SessionInfo { memory: Some(Memory(Arc::clone(&pool))), ..SessionInfo::default() });
        (Growth::new("repeat", &config), pool)
    }

    #[test]
    fn little_is_free() {
        let (mut growth, pool) = growth(0);
        assert!(growth.add(FREE_BYTES).is_ok());
        assert_eq!(pool.reserved(), 0);
        assert!(growth.add(1).is_err());
    }

    #[test]
    fn much_is_asked_for_and_given_back() {
        let (mut growth, pool) = growth(4 * FREE_BYTES * ROOM);
        for _ in 0..4 {
            growth.add(FREE_BYTES).unwrap();
        }
        assert_eq!(pool.reserved(), 4 * FREE_BYTES * ROOM);
        assert!(growth.ask(1).is_none());
        assert!(growth.add(0).unwrap_err().to_string().contains("repeat"));
        drop(growth);
        assert_eq!(pool.reserved(), 0);
    }
}
