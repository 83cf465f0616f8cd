//! Knowledge about functions from their names, before a query is planned.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use datafusion::execution::FunctionRegistry;
use datafusion::functions_aggregate::all_default_aggregate_functions;
use datafusion::logical_expr::registry::MemoryFunctionRegistry;
use datafusion::logical_expr::{AggregateUDF, ScalarUDF, Volatility};

use super::states::{self, Combined};
use super::{aggregate, collected, defs, foreach, sketch_aggregate, top};
use crate::charter::aggregates::{avg, sum};
use crate::charter::common_args;

/// The scalar functions under all of their names, as [`super::register_all`] leaves them in a registry.
static SCALARS: LazyLock<HashMap<String, Arc<ScalarUDF>>> = LazyLock::new(|| {
    let mut functions = HashMap::new();
    let defaults = datafusion::functions::all_default_functions().into_iter();
    let nested = datafusion::functions_nested::all_default_nested_functions();
    let theirs = super::taken(defaults.chain(nested)).into_iter().chain(common_args::functions());
    for function in theirs.chain(defs().into_iter().map(|def| Arc::new(def.into_udf()))) {
        add(&mut functions, &function);
    }
    functions
});

fn add(functions: &mut HashMap<String, Arc<ScalarUDF>>, function: &Arc<ScalarUDF>) {
    for name in function.aliases().iter().map(String::as_str).chain([function.name()]) {
        functions.insert(name.to_string(), Arc::clone(function));
    }
}

/// The aggregates under all of their names, as [`super::register_all`] leaves them in a registry.
static AGGREGATES: LazyLock<HashMap<String, Arc<AggregateUDF>>> = LazyLock::new(|| {
    let mut registry = MemoryFunctionRegistry::new();
    let ours = aggregate::register(&mut registry)
        .and_then(|()| top::register(&mut registry))
        .and_then(|()| collected::register(&mut registry))
        .and_then(|()| sketch_aggregate::register(&mut registry));
    debug_assert!(ours.is_ok(), "{ours:?}");
    let ours = registry.udafs().into_iter().filter_map(|name| registry.udaf(&name).ok());
    let theirs = all_default_aggregate_functions().into_iter().filter(|f| super::is_taken_aggregate(f.name()));
    let mut functions = HashMap::new();
    for function in theirs.chain([sum(), avg()]).chain(ours) {
        for name in function.aliases().iter().map(String::as_str).chain([function.name()]) {
            functions.insert(name.to_string(), Arc::clone(&function));
        }
    }
    functions
});

/// Returns the aggregate of this name; no names with an end such as `_foreach` and `_merge`.
pub(super) fn aggregate(called: &str) -> Option<Arc<AggregateUDF>> {
    AGGREGATES.get(called).cloned()
}

/// Returns the primary name of a scalar function, if `called` is an alias of it.
///
/// DataFusion names the result of a call by an alias after both names, and every call around it after that name: 20
/// nested calls have names of hundreds of megabytes.
pub(crate) fn own_name(called: &str) -> Option<&'static str> {
    let function = SCALARS.get(called)?;
    // The primary name may have become that of another function.
    let own = SCALARS.get(function.name())?;
    (called != function.name() && Arc::ptr_eq(own, function)).then(|| function.name())
}

/// Whether a scalar function returns a different value for each row.
pub(crate) fn is_volatile(called: &str) -> bool {
    SCALARS.get(called).is_some_and(|function| function.signature().volatility == Volatility::Volatile)
}

/// Whether this is the name of a scalar function. Some aggregates have the name of one, too.
pub(crate) fn is_scalar(called: &str) -> bool {
    SCALARS.contains_key(called) || states::made_by(called).is_some()
}

/// Whether this is the name of an aggregate.
pub(crate) fn is_aggregate(called: &str) -> bool {
    AGGREGATES.contains_key(called)
        || foreach::of_arrays(called).is_some_and(|name| AGGREGATES.contains_key(name))
        || matches!(states::combined(called), Some((Combined::Aggregate, _)))
}

#[cfg(test)]
mod tests {
    use datafusion::execution::session_state::SessionStateBuilder;

    use super::super::register_all;
    use super::*;
    use crate::charter::install;

    #[test]
    fn names_are_those_of_the_registry() {
        let mut state = install(SessionStateBuilder::new().with_default_features()).build();
        register_all(&mut state).unwrap();
        for (called, function) in state.scalar_functions().iter().filter(|(called, _)| !called.starts_with("dipper_")) {
            let own = own_name(called).unwrap_or(called.as_str());
            assert_eq!(state.scalar_functions()[own].name(), function.name(), "{called}");
        }
        assert_eq!(own_name("nvl"), Some("ifnull"));
        assert_eq!(own_name("mid"), Some("substring"));
        assert_eq!(own_name("array"), Some("make_array"));
        assert_eq!(own_name("rand"), Some("random"));
        assert_eq!(own_name("row"), Some("struct"));
        assert_eq!(own_name("ifnull"), None);
        assert_eq!(own_name("no_such_function"), None);
    }

    #[test]
    fn kinds_of_functions() {
        assert!(["sum", "stddev", "group_concat", "topn", "bitmap_union", "any_value"].into_iter().all(is_aggregate));
        assert!(["sum_foreach", "sum_merge", "sum_union", "group_array_union"].into_iter().all(is_aggregate));
        assert!(is_scalar("sum_state") && !is_aggregate("sum_state"));
        assert!(!["abs", "abs_foreach", "_foreach", "_merge", "abs_merge"].into_iter().any(is_aggregate));
        assert!(is_volatile("rand") && is_volatile("uuid"));
        assert!(!is_volatile("now") && !is_volatile("upper"));
    }
}
