//! Charges the memory of long text records to the memory budget.

use std::sync::Arc;

use datafusion::execution::memory_pool::{MemoryConsumer, MemoryPool, MemoryReservation};
use dipper_text::Memory;

/// A scan's reservation in a memory pool. Dropping it frees the reserved bytes.
#[derive(Debug)]
pub struct PoolMemory(MemoryReservation);

impl PoolMemory {
    /// Registers an empty reservation. `name` is the consumer that errors of the pool mention.
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
