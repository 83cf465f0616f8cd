//! Functions of MySQL and Doris that DataFusion lacks or defines differently, one file per family.
//!
//! A function is a [`func::Def`]: its name, arity, result type and a body over whole Arrow columns. [`register_all`]
//! registers all of them. DataFusion's own functions can be called if [`mod@taken`] lists them. Calls with a syntax of
//! their own (`INTERVAL`, `SEPARATOR`, `EXTRACT`) are turned into plain calls by [`rewrite_calls`] before planning.
//!
//! Where Doris and MySQL differ, Doris's rule holds. Known departures from both:
//! - a result without a finite value is NULL (Doris would show `inf` or `nan`);
//! - TIME values are text `[-]HH:MM:SS[.ffffff]`;
//! - text is UTF-8: CHAR gives NULL for bytes that are not UTF-8. UNHEX and FROM_BASE64 give BINARY, which can be used
//!   as text if its bytes are text;
//! - FORMAT of a number is MySQL's, of a text Doris's.

mod adapted;
mod addresses;
mod aggregate;
pub mod args;
mod array;
mod array_flags;
mod array_numbers;
mod array_order;
mod array_runs;
mod array_sets;
mod array_zip;
mod arrays_of_groups;
mod binary;
mod bit_aggregates;
mod bit_text;
mod bits;
mod block_cipher;
mod bounded;
mod bytes;
mod chance;
mod collected;
mod conditional;
mod copies;
pub mod datetime;
pub(crate) mod decimals;
mod distances;
pub(crate) mod distinct;
mod encryption;
mod extreme;
mod float_extreme;
mod floats;
mod foreach;
mod full_text;
mod func;
mod funnel;
mod geography;
mod growth;
mod hash;
mod histograms;
mod information;
mod intersections;
mod json;
mod json_edit;
mod json_forms;
mod json_path;
mod kept;
mod lambda;
mod lambda_kind;
mod lambda_rows;
mod lambda_sort;
mod levenshtein;
mod listed;
mod lost;
mod many_needles;
mod map_keys;
mod maps;
mod mask;
mod math;
mod moments;
pub(crate) mod moving;
mod names;
mod nested;
mod number_text;
mod ordered;
mod owned;
mod partition_names;
mod percentile;
mod quantile;
mod regex;
mod rewrite;
mod search;
mod search_query;
mod sequence;
mod sketch;
mod sketch_aggregate;
mod sorted;
pub mod states;
mod statistics;
mod str_to_map;
mod string;
mod taken;
mod text_codes;
mod tokens;
mod top;
mod type_names;
mod unicode;
mod url;
mod uuids;
pub(crate) mod whole;
mod window_memory;
mod windows;
mod xpath;
mod xxh3;

use std::sync::{Arc, OnceLock};

use datafusion::common::{Result, exec_err};
use datafusion::execution::FunctionRegistry;

pub use aggregate::last_value;
pub(crate) use aggregate::{count_distinct, first_value, members_of_frames, returns_its_input};
pub(crate) use args::counted;
pub(crate) use array::{as_list, element_at_udf};
pub(crate) use bounded::{ask_for_arguments, map_udf};
pub use bytes::is_bytes;
pub(crate) use bytes::like_udf;
pub use copies::{ask_for_copies, has_large_constant};
pub use func::JSON;
pub(crate) use func::{ELEMENT_OF_JSON, VARIANT};
pub use growth::Memory;
pub use information::SessionInfo;
pub(crate) use json::{Content, content_of, json_content_udf, json_value_udf, reads_documents, write_quoted};
pub(crate) use json_path::{canonical, document, unquote, write_document};
pub(crate) use kept::one_zero_udf;
pub(crate) use lambda::Closed;
pub use lambda_kind::LambdaKind;
pub use listed::{Listed, listed};
pub use lost::LostValues;
pub(crate) use names::{is_aggregate, is_scalar, is_volatile, own_name};
pub(crate) use nested::{CAST_JSON, CAST_PARTS, CAST_VARIANT};
pub use rewrite::{rewrite_call, rewrite_calls};
pub(crate) use sketch::bitmap_contains_udf;
pub use sketch_aggregate::{bitmap_union, hll_union, quantile_union};
pub use taken::{TakenOver, taken_over};
pub(crate) use taken::{is_taken_aggregate, of as taken};
pub use tokens::{ANALYZER_KEY, described};
pub(crate) use whole::Operators;
pub use window_memory::with_window_memory;

/// Returns all scalar functions of this module, by family.
fn families() -> Vec<(&'static str, Vec<func::Def>)> {
    let tables: [(&'static str, &[func::Def]); 47] = [
        ("Text", string::DEFS),
        ("Text", search::DEFS),
        ("Text", levenshtein::DEFS),
        ("Text", bit_text::DEFS),
        ("Text", number_text::DEFS),
        ("Text", many_needles::DEFS),
        ("Text", unicode::DEFS),
        ("Text", text_codes::DEFS),
        ("Text", partition_names::DEFS),
        ("Text", full_text::DEFS),
        ("Text", xpath::DEFS),
        ("Text", search_query::DEFS),
        ("Numbers", math::DEFS),
        ("Numbers", floats::DEFS),
        ("Numbers", chance::DEFS),
        ("Bits", bits::DEFS),
        ("Numbers", whole::DEFS),
        ("Conditions", conditional::DEFS),
        ("Hashes", hash::DEFS),
        ("Encryption", encryption::DEFS),
        ("Binary", binary::DEFS),
        ("UUIDs", uuids::DEFS),
        ("JSON", json::DEFS),
        ("JSON", json_edit::DEFS),
        ("JSON", json_forms::DEFS),
        ("Maps and structs", nested::DEFS),
        ("Maps and structs", str_to_map::DEFS),
        ("Maps and structs", maps::DEFS),
        ("Masks", mask::DEFS),
        ("URLs", url::DEFS),
        ("IP addresses", addresses::DEFS),
        ("Geography", geography::DEFS),
        ("Regular expressions", regex::DEFS),
        ("Arrays", array::DEFS),
        ("Arrays", array_numbers::DEFS),
        ("Arrays", array_sets::DEFS),
        ("Arrays", array_flags::DEFS),
        ("Arrays", array_zip::DEFS),
        ("Arrays", array_order::DEFS),
        ("Arrays", array_runs::DEFS),
        ("Arrays", distances::DEFS),
        ("Session and server", information::DEFS),
        ("Conversions", type_names::DEFS),
        ("BITMAP and HLL", sketch::DEFS),
        ("BITMAP and HLL", quantile::DEFS),
        ("Internal", ordered::DEFS),
        ("Internal", full_text::OPERATORS),
    ];
    let mut all = vec![("Dates and times", datetime::defs())];
    all.extend(tables.into_iter().map(|(family, defs)| (family, defs.to_vec())));
    all
}

/// Whether this is the name of an aggregate with an end: `sum_foreach`, `sum_state`, `sum_merge`, `sum_union`. Lists of
/// functions leave these names out.
pub fn is_combined(name: &str) -> bool {
    foreach::of_arrays(name).is_some() || states::combined(name).is_some()
}

/// Returns all scalar functions of this module.
fn defs() -> Vec<func::Def> {
    families().into_iter().flat_map(|(_, defs)| defs).collect()
}

/// Returns whether the statement that this thread plans or runs has ended, so that nobody waits for it.
static ENDED: OnceLock<fn() -> bool> = OnceLock::new();

/// Makes functions fail while `ended` returns true, when they are asked for their types and when they make much. The
/// planner asks for types so often that this ends the planning of a statement whose client is gone, wherever it is.
pub fn give_up_when(ended: fn() -> bool) {
    // A second call changes nothing: the function is the same for all registries of a process.
    let _ = ENDED.set(ended);
}

fn still_wanted() -> Result<()> {
    match ENDED.get().is_some_and(|ended| ended()) {
        true => exec_err!("nobody waits for this statement any more"),
        false => Ok(()),
    }
}

/// Registers all functions, replacing DataFusion's aggregates where names collide.
///
/// The registry must already contain the functions that [`crate::charter::install`] leaves of DataFusion's own. For
/// DATABASE(), USER() and similar functions, the session's configuration needs a [`SessionInfo`] among its extensions.
///
/// # Errors
/// The registry's error if it refuses a function.
pub fn register_all(registry: &mut dyn FunctionRegistry) -> Result<()> {
    for def in defs() {
        registry.register_udf(Arc::new(def.into_udf()))?;
    }
    aggregate::register(registry)?;
    top::register(registry)?;
    collected::register(registry)?;
    sketch_aggregate::register(registry)?;
    foreach::register(registry)?;
    states::register(registry)?;
    windows::register(registry)
}
