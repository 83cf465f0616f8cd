//! The memory pool that all statements of a process share. Errors of a memory limit say how to raise it; each limit
//! adds that to the text itself, because operators pass on nothing but the text of an error.

use std::fmt;

use datafusion::error::{DataFusionError, Result};
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryLimit, MemoryPool, MemoryReservation};

/// A memory pool of the size that `--memory` sets. Its errors name that option.
#[derive(Debug)]
pub struct Budget<P>(pub P);

/// Adds to the text of a `ResourcesExhausted` error the option or property (`way`) that raises the limit. The error's
/// variant stays, because operators recognise by it that they have to spill. Other errors are returned unchanged.
pub fn raised_by(error: DataFusionError, way: &str) -> DataFusionError {
    match error {
        DataFusionError::ResourcesExhausted(why) => DataFusionError::ResourcesExhausted(format!("{why}; raise {way}")),
        other => other,
    }
}

impl<P: MemoryPool> fmt::Display for Budget<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl<P: MemoryPool> MemoryPool for Budget<P> {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn register(&self, consumer: &MemoryConsumer) {
        self.0.register(consumer);
    }

    fn unregister(&self, consumer: &MemoryConsumer) {
        self.0.unregister(consumer);
    }

    fn grow(&self, reservation: &MemoryReservation, additional: usize) {
        self.0.grow(reservation, additional);
    }

    fn shrink(&self, reservation: &MemoryReservation, shrink: usize) {
        self.0.shrink(reservation, shrink);
    }

    fn try_grow(&self, reservation: &MemoryReservation, additional: usize) -> Result<()> {
        self.0.try_grow(reservation, additional).map_err(|e| raised_by(e, "--memory"))
    }

    fn reserved(&self) -> usize {
        self.0.reserved()
    }

    fn memory_limit(&self) -> MemoryLimit {
        self.0.memory_limit()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use datafusion::execution::memory_pool::GreedyMemoryPool;

    use super::*;

    #[test]
    fn errors_say_how_to_raise_the_limit() {
        let pool: Arc<dyn MemoryPool> = Arc::new(Budget(GreedyMemoryPool::new(10)));
        let held = MemoryConsumer::new("sort").register(&pool);
        held.try_grow(10).expect("there is room");
        let refused = held.try_grow(1).unwrap_err();
        assert!(
            matches!(&refused, DataFusionError::ResourcesExhausted(why) if why.ends_with("; raise --memory")),
            "{refused}"
        );
        held.shrink(10);
        assert_eq!(pool.reserved(), 0);
    }
}
