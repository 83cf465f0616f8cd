//! MySQL's and Doris' functions that DataFusion lacks or understands otherwise, a file per family.
//!
//! A function is a [`func::Def`]: its name, arity, result type and a body over whole Arrow columns. [`register_all`]
//! puts them over DataFusion's own functions, so that a name means what MySQL users expect. Calls with a syntax of
//! their own (`INTERVAL`, `SEPARATOR`, `EXTRACT`) become plain calls by [`rewrite_calls`] before planning.
//!
//! Where Doris and MySQL differ, Doris decides. Known departures from both:
//! - a result without a finite value is NULL (Doris would show `inf` or `nan`);
//! - TIME values are text `[-]HH:MM:SS[.ffffff]`;
//! - text is UTF-8: functions that would give other bytes (UNHEX, CHAR, FROM_BASE64) give NULL instead;
//! - UNIX_TIMESTAMP has no fraction;
//! - HLL and BITMAP values are shown as their bytes (`dipper_store::sketch`), not as NULL.

mod aggregate;
pub mod args;
mod array;
mod bits;
mod conditional;
pub mod datetime;
mod func;
mod hash;
mod information;
mod json;
mod json_edit;
mod json_path;
mod mask;
mod math;
mod nested;
mod ordered;
mod regex;
mod rewrite;
mod search;
mod sketch;
mod sketch_aggregate;
mod string;
mod top;
mod url;
mod xxh3;

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::execution::FunctionRegistry;

pub(crate) use array::{as_list, element_at_udf};
pub use information::SessionInfo;
pub(crate) use json::write_quoted;
pub(crate) use json_path::{Kind, document, kind, members, unquote};
pub(crate) use rewrite::call;
pub use rewrite::{rewrite_call, rewrite_calls};
pub use sketch_aggregate::{bitmap_union, hll_union};

/// Every scalar function of this module.
fn defs() -> Vec<func::Def> {
    let mut all = datetime::defs();
    for family in [
        string::DEFS,
        search::DEFS,
        math::DEFS,
        bits::DEFS,
        conditional::DEFS,
        hash::DEFS,
        json::DEFS,
        json_edit::DEFS,
        nested::DEFS,
        mask::DEFS,
        url::DEFS,
        regex::DEFS,
        array::DEFS,
        information::DEFS,
        sketch::DEFS,
    ] {
        all.extend_from_slice(family);
    }
    all
}

/// Registers all functions, replacing DataFusion's where names collide.
///
/// The registry must already hold DataFusion's own functions. For DATABASE(), USER() and the like the session's
/// configuration needs a [`SessionInfo`] among its extensions.
///
/// # Errors
/// Those of the registry, if it refuses functions.
pub fn register_all(registry: &mut dyn FunctionRegistry) -> Result<()> {
    for def in defs() {
        registry.register_udf(Arc::new(def.into_udf()))?;
    }
    // DataFusion's own under the names of Doris.
    let renamed: [(&str, &'static [&'static str]); 7] = [
        ("random", &["rand"]),
        ("array_pop_back", &["array_popback"]),
        ("array_pop_front", &["array_popfront"]),
        ("array_append", &["array_pushback"]),
        ("flatten", &["array_flatten"]),
        ("make_array", &["array"]),
        ("array_to_string", &["array_join"]),
    ];
    for (name, aliases) in renamed {
        let function = registry.udf(name)?.as_ref().clone().with_aliases(aliases.iter().copied());
        registry.register_udf(Arc::new(function))?;
    }
    aggregate::register(registry)?;
    top::register(registry)?;
    sketch_aggregate::register(registry)
}
