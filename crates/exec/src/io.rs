//! Requests of statements to remote stores, their counters, and their use of the data cache.

use std::any::Any;
use std::sync::Arc;

use datafusion::catalog::Session;
use datafusion::common::runtime::{JoinSetTracer, set_join_set_tracer};
use dipper_cache::{Anew, IoContext, IoStats};
use futures::future::BoxFuture;
use object_store::Extensions;

use crate::coop;

/// Returns the request extensions that make the data cache forget an object and ask the store again. They are for bytes
/// that arrived damaged.
pub fn anew() -> Extensions {
    let mut extensions = Extensions::new();
    extensions.insert(Anew);
    extensions
}

/// The requests of one scan: what they carry and what they cost.
#[derive(Debug, Clone, Default)]
pub struct ScanRequests {
    /// Extensions of each request, which the layers of a store look for.
    pub extensions: Extensions,
    /// Counters of what those layers did for the requests.
    pub stats: Arc<IoStats>,
}

impl ScanRequests {
    /// Makes the requests of a scan that this session plans.
    pub fn of(state: &dyn Session) -> Self {
        let mut requests = ScanRequests::default();
        if let Some(io) = state.config().get_extension::<IoContext>() {
            requests.extensions.insert(io.of_scan(&requests.stats));
        }
        requests
    }
}

/// Makes tasks that DataFusion spawns run in the context of the task that spawned them, and end with it.
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

/// Makes tasks that DataFusion spawns in this process inherit [`IoContext::current`] and their [run](coop::Run).
pub fn follow_spawned_tasks() {
    // Setting the tracer fails if another engine of this process has set it before.
    let _ = set_join_set_tracer(&Follow);
}
