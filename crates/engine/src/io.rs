//! What a statement reads from remote stores, and how it uses the data cache.

use std::any::Any;
use std::sync::Arc;

use datafusion::catalog::Session;
use datafusion::common::runtime::{JoinSetTracer, set_join_set_tracer};
use dipper_cache::{Anew, IoContext, IoStats, Populate};
use futures::future::BoxFuture;
use object_store::Extensions;

use crate::coop;
use crate::variables::Variables;

/// The context of a statement with these variables.
pub(crate) fn context(variables: &Variables) -> Arc<IoContext> {
    let populate = match variables.text("populate_datacache_mode").to_ascii_lowercase().as_str() {
        _ if !variables.flag("enable_populate_datacache") => Populate::Never,
        "always" => Populate::Always,
        "never" => Populate::Never,
        _ => Populate::Auto,
    };
    // StarRocks' switch, and Doris's two.
    let uses = variables.flag("enable_scan_datacache") && !variables.flag("disable_file_cache");
    Arc::new(IoContext {
        bypass: !uses,
        populate: if uses { populate } else { Populate::Never },
        synchronous: !variables.flag("enable_datacache_async_populate_mode"),
        ..IoContext::default()
    })
}

/// What makes the data cache forget an object and ask the store, on requests for bytes that came damaged.
pub(crate) fn anew() -> Extensions {
    let mut extensions = Extensions::new();
    extensions.insert(Anew);
    extensions
}

/// The requests of one scan.
#[derive(Debug, Clone, Default)]
pub(crate) struct ScanRequests {
    /// What the layers of a store look for in each.
    pub(crate) extensions: Extensions,
    /// What they did for them.
    pub(crate) stats: Arc<IoStats>,
}

impl ScanRequests {
    /// Those of a scan that this session plans.
    pub(crate) fn of(state: &dyn Session) -> Self {
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
pub(crate) fn follow_spawned_tasks() {
    // Fails if it was done before, for another engine.
    let _ = set_join_set_tracer(&Follow);
}
