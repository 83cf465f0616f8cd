//! What a statement reads from remote stores, and how it uses the data cache.

use std::any::Any;
use std::sync::Arc;

use datafusion::catalog::Session;
use datafusion::common::runtime::{JoinSetTracer, set_join_set_tracer};
use dipper_cache::{Anew, IoContext, IoStats};
use futures::future::BoxFuture;
use object_store::Extensions;

use crate::coop;

/// What makes the data cache forget an object and ask the store, on requests for bytes that came damaged.
pub fn anew() -> Extensions {
    let mut extensions = Extensions::new();
    extensions.insert(Anew);
    extensions
}

/// The requests of one scan.
#[derive(Debug, Clone, Default)]
pub struct ScanRequests {
    /// What the layers of a store look for in each.
    pub extensions: Extensions,
    /// What they did for them.
    pub stats: Arc<IoStats>,
}

impl ScanRequests {
    /// Those of a scan that this session plans.
    pub fn of(state: &dyn Session) -> Self {
        let mut requests = ScanRequests::default();
        if let Some(io) = state.config().get_extension::<IoContext>() {
            requests.extensions.insert(io.of_scan(&requests.stats));
        }
        requests
    }
}

/// Tasks that DataFusion spawns run in the context of the task that spawned them, and end with it.
struct Follow;

impl JoinSetTracer for Follow {
    fn trace_future(&self, future: BoxFuture<'static, Box<dyn Any + Send>>) -> BoxFuture<'static, Box<dyn Any + Send>> {
        let future = coop::follow(future);
        match IoContext::current() {
            Some(context) => Box::pin(context.scope(future)),
            None => future,
        }
    }

    fn trace_block(
        &self,
        f: Box<dyn FnOnce() -> Box<dyn Any + Send> + Send>,
    ) -> Box<dyn FnOnce() -> Box<dyn Any + Send> + Send> {
        match IoContext::current() {
            Some(context) => Box::new(move || context.enter(f)),
            None => f,
        }
    }
}

/// Makes tasks that DataFusion spawns inherit [`IoContext::current`] and their [run](coop::Run), in this process.
pub fn follow_spawned_tasks() {
    // Fails if it was done before, for another engine.
    let _ = set_join_set_tracer(&Follow);
}
