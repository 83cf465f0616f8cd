//! DataFusion's scalar functions that statements may call.
//!
//! A function of DataFusion is registered only if [`TAKEN`] names it, and only under the names that are listed there. A
//! name is listed because Doris, StarRocks or MySQL have it, and because the function treats NULL, the limits of its
//! types and memory like dipper's own functions do. DataFusion has some 120 more names, most of them aliases of
//! functions that dipper defines itself: a call of `list_repeat` would get a function without limits beside
//! `array_repeat` with limits. Statements do not know these names (error 1305).

use std::sync::Arc;

use datafusion::logical_expr::ScalarUDF;

use super::bounded;

/// The memory that a call reserves from the statement's.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Asks {
    /// The bytes of its arguments times the number of rows: the result consists of copies of them.
    Arguments,
    /// Nothing: the result is of a fixed size, or contains its arguments unchanged.
    Nothing,
    /// The charter replaces this function by its own ([`crate::charter::install`]).
    InCharter,
}

/// A function of DataFusion that statements may call.
struct Taken {
    /// DataFusion's name, which is a name in SQL, too.
    name: &'static str,
    /// The other names in SQL.
    aliases: &'static [&'static str],
    asks: Asks,
    /// The reason why statements may call the function.
    because: &'static str,
}

const fn taken(name: &'static str, aliases: &'static [&'static str], asks: Asks, because: &'static str) -> Taken {
    Taken { name, aliases, asks, because }
}

/// The functions, ordered by name.
const TAKEN: [Taken; 17] = [
    taken("array_distinct", &[], Asks::Arguments, "Doris, StarRocks"),
    taken("array_except", &[], Asks::Arguments, "Doris"),
    taken("array_intersect", &[], Asks::Arguments, "Doris, StarRocks"),
    taken("array_sort", &[], Asks::Arguments, "Doris, StarRocks"),
    taken("array_union", &[], Asks::Arguments, "Doris"),
    taken("coalesce", &[], Asks::InCharter, "standard SQL"),
    taken("isnan", &[], Asks::Nothing, "Doris"),
    taken("make_array", &["array"], Asks::InCharter, "Doris, as `array`; what `[a, b]` is"),
    taken("map", &[], Asks::Arguments, "Doris, StarRocks"),
    taken("map_keys", &[], Asks::Arguments, "Doris, StarRocks"),
    taken("map_values", &[], Asks::Arguments, "Doris, StarRocks"),
    taken("named_struct", &[], Asks::Arguments, "Doris, StarRocks"),
    taken("nullif", &[], Asks::Nothing, "standard SQL"),
    taken("random", &["rand"], Asks::Nothing, "Doris, MySQL as `rand`"),
    taken("struct", &["row"], Asks::Arguments, "Doris, StarRocks as `row`"),
    taken("translate", &[], Asks::Arguments, "Doris, StarRocks"),
    taken("uuid", &[], Asks::Nothing, "Doris, MySQL"),
];

/// Returns those of DataFusion's functions that statements may call, under the names by which they may be called.
pub(crate) fn of(functions: impl IntoIterator<Item = Arc<ScalarUDF>>) -> Vec<Arc<ScalarUDF>> {
    let known = |function: Arc<ScalarUDF>| {
        let taken = TAKEN.iter().find(|taken| taken.name == function.name())?;
        match taken.asks {
            Asks::Arguments => Some(Arc::new(bounded::bounded(function, taken.aliases))),
            Asks::Nothing => Some(function),
            Asks::InCharter => None,
        }
    };
    functions.into_iter().filter_map(known).collect()
}

/// Whether an aggregate of DataFusion can be called, by itself or under a name that [`super::register_all`] gives to
/// another function. The systems that dipper's users know have NTH_VALUE over windows only, where it is another
/// function.
pub(crate) fn is_taken_aggregate(name: &str) -> bool {
    name != "nth_value"
}

/// A function of DataFusion, for the reference.
#[derive(Debug, Clone)]
pub struct TakenOver {
    /// The name in lower case.
    pub name: &'static str,
    /// The other names of the function.
    pub aliases: &'static [&'static str],
    /// The systems that have the name.
    pub because: &'static str,
}

/// Returns the functions of DataFusion that statements may call, ordered by name.
pub fn taken_over() -> Vec<TakenOver> {
    TAKEN.iter().map(|t| TakenOver { name: t.name, aliases: t.aliases, because: t.because }).collect()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use datafusion::execution::session_state::SessionStateBuilder;

    use super::super::{defs, is_combined, register_all};
    use super::*;
    use crate::charter::install;

    #[test]
    fn nothing_else_of_datafusion_can_be_called() {
        let mut state = install(SessionStateBuilder::new().with_default_features()).build();
        register_all(&mut state).unwrap();
        let own = defs().into_iter().flat_map(|def| def.aliases.iter().copied().chain([def.name]).collect::<Vec<_>>());
        let taken = TAKEN.iter().flat_map(|taken| taken.aliases.iter().copied().chain([taken.name]));
        let expected: BTreeSet<&str> = own.chain(taken).filter(|name| !name.starts_with("dipper_")).collect();
        let found = state.scalar_functions().keys().map(String::as_str);
        let found = found.filter(|name| !name.starts_with("dipper_") && !is_combined(name));
        assert_eq!(found.collect::<BTreeSet<_>>(), expected);
        assert!(state.higher_order_functions().keys().all(|name| name.starts_with("dipper_")));
    }
}
