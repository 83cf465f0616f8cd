//! Long records of text in the budget of memory.

use std::sync::Arc;

use datafusion::execution::memory_pool::{MemoryConsumer, MemoryPool, MemoryReservation};
use dipper_text::Memory;

/// A scan's share of a pool. What it holds is given back when it is dropped.
#[derive(Debug)]
pub struct PoolMemory(MemoryReservation);

impl PoolMemory {
    /// Nothing of the pool yet; `name` is whom its errors name as a holder.
    pub fn of(pool: &Arc<dyn MemoryPool>, name: &str) -> Arc<dyn Memory> {
        Arc::new(PoolMemory(MemoryConsumer::new(name).register(pool)))
    }
}

impl Memory for PoolMemory {
    fn grow(&self, bytes: usize) -> Result<(), String> {
        self.0.try_grow(bytes).map_err(|e| e.strip_backtrace())
    }

    fn shrink(&self, bytes: usize) {
        self.0.shrink(bytes);
    }
}
