//! The list of scalar functions for the reference.

use dipper_dialect::internal::is_internal;

use super::func::{MANY, Ret};
use super::{LambdaKind, families};

/// A function of the reference.
#[derive(Debug, Clone)]
pub struct Listed {
    /// The family of the function, such as `Text`.
    pub family: &'static str,
    /// The name in lower case.
    pub name: &'static str,
    /// Other names of the function.
    pub aliases: &'static [&'static str],
    /// The smallest number of arguments.
    pub arguments_min: usize,
    /// The largest number of arguments; `None` if there is no limit.
    pub arguments_max: Option<usize>,
    /// The type of the result, in words.
    pub result: String,
}

/// Returns all scalar functions that are defined in this crate and that statements may call, ordered by family and
/// name.
pub fn listed() -> Vec<Listed> {
    let mut all: Vec<Listed> = Vec::new();
    for (family, defs) in families() {
        let callable = defs.into_iter().filter(|def| !is_internal(def.name));
        all.extend(callable.map(|def| Listed {
            family,
            name: def.name,
            aliases: def.aliases,
            arguments_min: def.arity.0,
            arguments_max: Some(def.arity.1).filter(|most| *most != MANY),
            result: result(def.ret),
        }));
    }
    all.extend(LambdaKind::ALL.into_iter().filter(|kind| !kind.is_plain()).map(|kind| Listed {
        family: if kind.is_of_maps() { "Maps and structs" } else { "Arrays" },
        name: kind.name(),
        aliases: kind.aliases(),
        arguments_min: 2,
        arguments_max: kind.arrays_max().map(|arrays| arrays + 1),
        result: "by the lambda".into(),
    }));
    all.sort_by_key(|function| (function.family, function.name));
    all
}

fn result(ret: Ret) -> String {
    match ret {
        Ret::Text => "text".into(),
        Ret::Json => "JSON".into(),
        Ret::Variant => "VARIANT".into(),
        Ret::Bytes => "BINARY".into(),
        Ret::Set(name) => name.to_uppercase(),
        Ret::Int => "BIGINT".into(),
        Ret::Double => "DOUBLE".into(),
        Ret::Bool => "BOOLEAN".into(),
        Ret::Date => "DATE".into(),
        Ret::DateTime => "DATETIME".into(),
        Ret::Time => "TIME".into(),
        Ret::Arg(argument) => format!("type of argument {}", argument + 1),
        Ret::Common(0) => "common type of the arguments".into(),
        Ret::Common(first) => format!("common type of the arguments from {} on", first + 1),
        Ret::By(_) => "by the arguments".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_are_listed_once() {
        let all = listed();
        let mut names: Vec<&str> =
            all.iter().flat_map(|f| [f.name].into_iter().chain(f.aliases.iter().copied())).collect();
        names.sort_unstable();
        let twice: Vec<_> = names.windows(2).filter(|pair| pair[0] == pair[1]).collect();
        assert!(twice.is_empty(), "{twice:?}");
        assert!(all.iter().any(|f| f.name == "upper" || f.name == "concat"));
        assert!(all.iter().all(|f| !is_internal(f.name)));
    }
}
